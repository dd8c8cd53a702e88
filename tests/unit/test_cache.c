#define _POSIX_C_SOURCE 200809L /* fork, kill, chmod */
#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/runtime.h"
#include "plan_sample.h"
#include "runtime/cache.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];
static fake_compiler *compiler;
static fake_record *driver;
static ftl_context *context;

static int setup(void **state) {
    (void)state;
    os_error why;
    assert_true(os_temporary_folder(folder, &why));
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){.capability = 80, .device_count = 1, .driver_version = 13000};
    *compiler = (fake_compiler){.major = 13};
    return ftl_context_new(&context) != FTL_OK;
}

static int teardown(void **state) {
    (void)state;
    os_remove_folder(folder);
    ftl_context_free(context);
    return 0;
}

/* Loads the sample from a runtime of its own, as a new process would. */
static ftl_status load_in(const char *cache, const char *text) {
    ftl_runtime *runtime;
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .cache_folder = cache};
    ftl_module *module = NULL;
    ftl_status status = ftl_runtime_open(context, &options, &runtime);
    if (!status) status = ftl_module_load(context, runtime, &sample_plan, text, &module);
    ftl_module_free(module);
    ftl_runtime_close(runtime);
    return status;
}

typedef struct seen {
    int entries, damaged;
    char key[33];
    char kernel[64];
} seen;

static void see(void *user, const ftl_cache_entry *entry) {
    seen *all = user;
    all->entries++;
    all->damaged += entry->is_damaged;
    memcpy(all->key, entry->key, 33);
    snprintf(all->kernel, sizeof all->kernel, "%s", entry->kernel);
}

static seen list(void) {
    seen all = {0};
    assert_int_equal(ftl_cache_list(context, folder, see, &all), FTL_OK);
    return all;
}

static void second_load_compiles_nothing(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, 1);
    assert_int_equal(driver->loads, 2);
    assert_string_equal(driver->image, "text");
    assert_string_equal(list().kernel, "attention");
    assert_string_equal(ftl_context_take_warning(context), "");
}

/* A umask that lets a group write must not make entries that are then not trusted. */
static void generous_umasks_do_no_harm(void **state) {
    (void)state;
    mode_t before = umask(0);
    ftl_status first = load_in(folder, "text");
    umask(before);
    assert_int_equal(first, FTL_OK);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, 1);
    assert_string_equal(ftl_context_take_warning(context), "");
}

static void everything_that_matters_is_in_the_key(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(load_in(folder, "other text"), FTL_OK);
    driver->capability = 86;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    driver->driver_version = 12080;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, 4);
    assert_int_equal(list().entries, 4);
}

static void path_of_only_entry(char path[512]) {
    snprintf(path, 512, "%s/%s.kernel", folder, list().key);
}

/* Whatever a disk does to an entry, it is found out and the kernel is made anew. */
static void damage_is_found_and_repaired(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    char path[512];
    path_of_only_entry(path);
    text_buffer whole;
    os_error why;
    text_init(&whole, 1 << 20);
    assert_true(os_read_file(path, 1 << 20, &whole, &why));
    int compiles = 1;
    for (size_t at = 0; at < whole.length; at += whole.length / 40 + 1) {
        for (int kind = 0; kind < 2; kind++) {
            FILE *file = fopen(path, "wb");
            size_t kept = kind ? at : whole.length; /* a flipped bit; a cut */
            whole.data[at] ^= kind ? 0 : 4;
            assert_int_equal(fwrite(whole.data, 1, kept, file), kept);
            whole.data[at] ^= kind ? 0 : 4;
            fclose(file);
            assert_int_equal(list().damaged, 1);
            assert_int_equal(load_in(folder, "text"), FTL_OK);
            assert_int_equal(compiler->compiles, ++compiles);
            assert_non_null(
                strstr(ftl_context_take_warning(context), "is damaged and was rebuilt"));
            assert_int_equal(list().damaged, 0);
        }
    }
    text_done(&whole);
}

static void entry_under_a_wrong_name(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    char path[512], wrong[512];
    path_of_only_entry(path);
    snprintf(wrong, sizeof wrong, "%s/%032d.kernel", folder, 7);
    assert_int_equal(rename(path, wrong), 0);
    assert_int_equal(list().damaged, 1);
}

static void unwritable_folder_is_a_warning(void **state) {
    (void)state;
    assert_int_equal(load_in("/proc/flashtl", "text"), FTL_OK);
    assert_non_null(strstr(ftl_context_take_warning(context), "the kernel is not cached: cannot "));
    assert_string_equal(ftl_context_take_warning(context), "");
    assert_int_equal(load_in("/dev/full", "text"), FTL_OK);
    assert_non_null(strstr(ftl_context_take_warning(context), "the kernel is not cached: cannot "));
}

static void failures_are_not_cached(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "PLANTED ERROR"), FTL_COMPILER_FAILED);
    driver->load_result = 222;
    assert_int_equal(load_in(folder, "text"), FTL_DRIVER_TOO_OLD);
    assert_int_equal(list().entries, 0);
    driver->load_result = 0;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(list().entries, 1);
}

static void clearing(void **state) {
    (void)state;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(load_in(folder, "more"), FTL_OK);
    char foreign[512], leftover[512];
    snprintf(foreign, sizeof foreign, "%s/readme.txt", folder);
    snprintf(leftover, sizeof leftover, "%s/%032d.kernel.tmpAbCdEf", folder, 1);
    os_error why;
    assert_true(os_write_file(foreign, STR("mine"), &why));
    assert_true(os_write_file(leftover, STR("half"), &why));
    int64_t removed;
    assert_int_equal(ftl_cache_clear(context, folder, &removed), FTL_OK);
    assert_int_equal(removed, 2);
    assert_true(os_file_exists(foreign));
    assert_false(os_file_exists(leftover));
    assert_int_equal(ftl_cache_clear(context, "/no/such/folder", &removed), FTL_OK);
    assert_int_equal(removed, 0);
}

/* Writes entries without end until it is killed. */
static _Noreturn void write_forever(void) {
    static char image[200000];
    for (unsigned i = 0;; i = (i + 1) % 5) {
        char digits[33];
        snprintf(digits, sizeof digits, "%032u", i);
        memset(image, 'a' + (int)i, sizeof image); /* equal keys hold equal bytes */
        cache_entry entry = {STR("plan"), STR("cuda"), {image, sizeof image - i},
                             FTL_CUBIN,   false,       {0}};
        os_error why;
        cache_write(folder, digits, &entry, &why);
    }
}

static void concurrent_writers_and_kill(void **state) {
    (void)state;
    enum { WRITERS = 4, ROUNDS = 6 };
    int whole = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t writers[WRITERS];
        for (int w = 0; w < WRITERS; w++) {
            writers[w] = fork();
            if (writers[w] == 0) write_forever();
        }
        int64_t end_ns = os_time_ns() + 60000000;
        int before = whole; /* on a busy machine the writers may not have come to anything yet */
        while (os_time_ns() < end_ns || whole == before) {
            for (unsigned key = 0; key < 5; key++) {
                char digits[33];
                snprintf(digits, sizeof digits, "%032u", key);
                cache_entry entry;
                cache_result result = cache_read(folder, digits, &entry);
                assert_int_not_equal(result, CACHE_DAMAGED);
                if (result == CACHE_FOUND) {
                    whole++;
                    assert_int_equal(entry.image.length, 200000 - key);
                    assert_int_equal(entry.image.data[199990], 'a' + (int)key);
                }
                cache_done(&entry);
            }
        }
        for (int w = 0; w < WRITERS; w++) kill(writers[w], SIGKILL);
        for (int w = 0; w < WRITERS; w++) waitpid(writers[w], NULL, 0);
    }
    assert_true(whole > 0);
    int64_t removed;
    assert_int_equal(ftl_cache_clear(context, folder, &removed), FTL_OK);
    assert_true(rmdir(folder) == 0); /* nothing of the killed writers is left */
}

/* --- what others may have put there ----------------------------------------------------------- */

static void find_entry(void *path, const char *name) {
    if (strstr(name, ".kernel") && !strstr(name, ".tmp"))
        snprintf(path, 512, "%s/%s", folder, name);
}

/* The path of the only entry. */
static void entry_path(char path[512]) {
    os_error why;
    *path = 0;
    assert_true(os_list_folder(folder, find_entry, path, &why));
    assert_true(*path);
}

/* A link in an entry's place is neither read nor written through: it becomes an entry. */
static void links_are_replaced(void **state) {
    (void)state;
    char path[512], aside[512];
    text_buffer before, after;
    os_error why;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    entry_path(path);
    snprintf(aside, sizeof aside, "%s/aside", folder);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        text_init(&before, 1 << 20), text_init(&after, 1 << 20);
        if (is_whole) assert_int_equal(rename(path, aside), 0);
        else assert_true(os_write_file(aside, STR("precious"), &why));
        if (!is_whole) unlink(path);
        assert_int_equal(symlink(aside, path), 0);
        assert_true(os_read_file(aside, 1 << 20, &before, &why));
        int compiles = compiler->compiles;
        assert_int_equal(load_in(folder, "text"), FTL_OK);
        assert_int_equal(compiler->compiles, compiles + 1);
        struct stat info;
        assert_true(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
        assert_true(os_read_file(aside, 1 << 20, &after, &why));
        assert_true(str_equal(text_str(&before), text_str(&after)));
        text_done(&before), text_done(&after);
        ftl_context_take_warning(context);
    }
}

/* A pipe that nobody writes to, in the place of an entry and of the compiler's version. */
static void pipes_do_not_hang(void **state) {
    (void)state;
    char path[512], memo[512];
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    entry_path(path);
    snprintf(memo, sizeof memo, "%s/nvrtc", folder);
    unlink(path), unlink(memo);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mkfifo(memo, 0600), 0);
    alarm(1800);
    seen all = {0};
    assert_int_equal(ftl_cache_list(context, folder, see, &all), FTL_OK);
    assert_int_equal(all.damaged, 1);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    alarm(0);
    struct stat info;
    assert_true(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
}

/* Entries and folders that others can write, or own, do not become kernels. */
static void only_what_is_ours_is_used(void **state) {
    (void)state;
    char path[512];
    static const mode_t modes[] = {0775, 0757, 01777};
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    entry_path(path);
    int compiles = compiler->compiles;
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, compiles);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, ++compiles);
    assert_non_null(strstr(ftl_context_take_warning(context), "rebuilt"));
    struct stat info;
    assert_true(stat(path, &info) == 0 && !(info.st_mode & 022));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_int_equal(load_in(folder, "text"), FTL_OK);
        assert_int_equal(compiler->compiles, ++compiles);
        assert_non_null(strstr(ftl_context_take_warning(context), "cannot be trusted"));
        assert_int_equal(ftl_cache_list(context, folder, see, &(seen){0}), FTL_NO_FILE);
        assert_non_null(strstr(ftl_context_error(context), "written by others"));
    }
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, compiles);
    enum { SOMEBODY = 12345 };
    if (geteuid() != 0) return; /* root alone gives files away */
    assert_int_equal(chown(path, SOMEBODY, SOMEBODY), 0);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, ++compiles);
    assert_int_equal(chown(folder, SOMEBODY, SOMEBODY), 0);
    ftl_context_take_warning(context);
    assert_int_equal(load_in(folder, "text"), FTL_OK);
    assert_int_equal(compiler->compiles, ++compiles);
    assert_non_null(strstr(ftl_context_take_warning(context), "another user"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(second_load_compiles_nothing),
        TEST(generous_umasks_do_no_harm),
        TEST(everything_that_matters_is_in_the_key),
        TEST(damage_is_found_and_repaired),
        TEST(entry_under_a_wrong_name),
        TEST(unwritable_folder_is_a_warning),
        TEST(failures_are_not_cached),
        TEST(clearing),
        TEST(concurrent_writers_and_kill),
        TEST(links_are_replaced),
        TEST(pipes_do_not_hang),
        TEST(only_what_is_ours_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
