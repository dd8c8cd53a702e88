/* GPU descriptions: the shipped ones, the reader's diagnostics, derived figures. */
#include "gpu/gpu.h"

#include "base/os.h"

#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static arena memory;

static int set_up(void **state) {
    (void)state;
    arena_init(&memory, 16 << 20);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    arena_done(&memory);
    return 0;
}

static gpu find(const char *name) {
    gpu g;
    diag_list problems;
    bool found = gpu_find(&memory, str_from(name), &g, &problems);
    if (!found) {
        text_buffer out;
        text_init(&out, 10000);
        diag_render_text(&problems, false, &out);
        fail_msg("%s: %s", name, out.data);
    }
    assert_null(problems.first);
    return g;
}

/* --- the shipped descriptions ----------------------------------------------------------------- */

static void all_are_read(void **state) {
    (void)state;
    static const char *const expected[] = {"rtx-2080-ti", "rtx-8000", "t4",          "a100", "a10g",
                                           "rtx-3090",    "l40s",     "rtx-4090",    "h100", "h200",
                                           "b200",        "rtx-5090", "rtx-pro-6000"};
    gpu_names names = gpu_list(&memory);
    assert_int_equal(names.count, 13);
    for (int i = 0; i < names.count; i++) {
        assert_true(str_is(names.names[i], expected[i]));
        gpu g = find(expected[i]);
        assert_true(str_is(g.name, expected[i]));
        assert_true(gpu_has(&g, GPU_FEATURE_ldmatrix) && gpu_has(&g, GPU_FEATURE_mma_m16n8k8));
        assert_true(gpu_has(&g, GPU_FEATURE_cp_async) == (g.capability >= 80));
        assert_true(gpu_has(&g, GPU_FEATURE_bf16) == (g.capability >= 80));
        assert_true(gpu_has(&g, GPU_FEATURE_wgmma) == (g.capability == 90));
        assert_true(gpu_has(&g, GPU_FEATURE_max3) == (g.capability == 100));
    }
}

static void peaks_are_the_data_sheets(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double tensor, fp32, tensor8;
    } sheets[] = {
        {"t4", 65, 8.1, 0},
        {"rtx-2080-ti", 53.8, 13.4, 0},
        {"rtx-8000", 130.5, 16.3, 0},
        {"a100", 312, 19.5, 0},
        {"a10g", 70, 35, 0},
        {"rtx-3090", 71, 35.6, 0},
        {"l40s", 362, 91.6, 733},
        {"rtx-4090", 165.2, 82.6, 330.3},
        {"h100", 989.4, 62, 1979},
        {"h200", 989.4, 62, 1979},
        {"b200", 2250, 70, 4500},
        {"rtx-5090", 209.5, 104.8, 419},
        {"rtx-pro-6000", 503.8, 126, 1007.6},
    };
    for (size_t i = 0; i < sizeof sheets / sizeof *sheets; i++) {
        gpu g = find(sheets[i].name);
        double tensor = gpu_tensor_tflops(&g) / sheets[i].tensor;
        double fp32 = 2 * g.fp32 * (double)g.sms * g.clock * 1e-6; /* multiply and add */
        if (fabs(tensor - 1) > 0.015 || fabs(fp32 / sheets[i].fp32 - 1) > 0.02)
            fail_msg("%s: %.1f and %.1f TFLOPS", sheets[i].name, gpu_tensor_tflops(&g), fp32);
        double tensor8 = gpu_product_rate(&g, 1, true) * (double)g.sms * g.clock * 1e-6;
        assert_true(fabs(tensor8 - sheets[i].tensor8) <= 0.015 * sheets[i].tensor8);
        assert_true(gpu_product_rate(&g, 1, false) <= gpu_product_rate(&g, 1, true));
        assert_true((g.mma8_sum_bits > 0) == (tensor8 > 0));
        assert_true(tensor8 == 0 || gpu_has(&g, GPU_FEATURE_fp8_mma));
        assert_true(gpu_mma_tflops(&g) <= gpu_tensor_tflops(&g));
        assert_true(g.exp2 == 16);
    }
}

static void names_are_forgiving(void **state) {
    (void)state;
    static const char *const same[] = {"RTX 4090",  "rtx_4090", "RTX-4090",
                                       "rtx4090",   "4090",     "NVIDIA GeForce RTX 4090",
                                       " rtx-4090 "};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        gpu g = find(same[i]);
        assert_true(str_is(g.name, "rtx-4090"));
        assert_true(str_is(g.word, "rtx_4090"));
    }
    assert_true(str_is(find("Tesla T4").name, "t4"));
    assert_true(str_is(find("A100-SXM").name, "a100"));
}

static void no_name_means_two_gpus(void **state) {
    (void)state;
    gpu_names names = gpu_list(&memory);
    for (int i = 0; i < names.count; i++) {
        gpu g = find(names.names[i].data);
        str aliases = g.aliases;
        while (aliases.length) {
            str alias = str_trim(str_cut(&aliases, ','));
            assert_true(str_equal(find(str_copy_z(&memory, alias)).name, g.name));
        }
    }
}

static const diag *attached(const diag *d, diag_id id) {
    for (const diag *a = d->attached; a; a = a->next) {
        if (a->id == id) return a;
    }
    return NULL;
}

static void a_typo_names_the_nearest(void **state) {
    (void)state;
    gpu g;
    diag_list problems;
    assert_false(gpu_find(&memory, STR("h20O"), &g, &problems));
    assert_int_equal(problems.error_count, 1);
    assert_int_equal(problems.first->id, DIAG_GPU_UNKNOWN);
    const diag *hint = attached(problems.first, DIAG_GPU_NEAREST);
    assert_non_null(hint);
    assert_true(str_is(hint->message, "did you mean 'h200'?"));
    assert_non_null(attached(problems.first, DIAG_GPU_KNOWN));

    assert_false(gpu_find(&memory, STR("voodoo banshee"), &g, &problems));
    assert_null(attached(problems.first, DIAG_GPU_NEAREST));
    assert_false(gpu_find(&memory, STR(""), &g, &problems));
    assert_int_equal(problems.error_count, 1);
    assert_null(attached(problems.first, DIAG_GPU_NEAREST));
}

/* --- the reader ------------------------------------------------------------------------------- */

static str text_of_t4(void) {
    gpu g = find("t4");
    text_buffer out;
    text_init(&out, 10000);
    gpu_print(&g, &out);
    str text = str_copy(&memory, text_str(&out));
    text_done(&out);
    return text;
}

static str replaced(str text, const char *from, const char *to) {
    const char *place = strstr(str_copy_z(&memory, text), from);
    assert_non_null(place);
    size_t begin = 0;
    while (strncmp(text.data + begin, from, strlen(from)) != 0) begin++;
    size_t end = begin + strlen(from);
    return str_format(&memory, "%.*s%s%.*s", (int)begin, text.data, to, (int)(text.length - end),
                      text.data + end);
}

static void printed_is_read_again(void **state) {
    (void)state;
    gpu_names names = gpu_list(&memory);
    for (int i = 0; i < names.count; i++) {
        gpu g = find(names.names[i].data), again;
        text_buffer first, second;
        text_init(&first, 10000);
        text_init(&second, 10000);
        gpu_print(&g, &first);
        diag_list problems;
        diag_init(&problems, &memory, STR("x.gpu"), text_str(&first));
        assert_true(gpu_read(&memory, g.name, text_str(&first), &again, &problems));
        gpu_print(&again, &second);
        assert_true(str_equal(text_str(&first), text_str(&second)));
        assert_true(g.features == again.features);
        text_done(&first);
        text_done(&second);
    }
}

/* One change to a good text gives exactly one error of this kind, at this part of the text. */
static void check_error(const char *from, const char *to, diag_id id, const char *at) {
    str text = replaced(text_of_t4(), from, to);
    gpu g;
    diag_list problems;
    diag_init(&problems, &memory, STR("x.gpu"), text);
    assert_false(gpu_read(&memory, STR("x"), text, &g, &problems));
    if (problems.error_count != 1 || problems.first->id != id) {
        text_buffer out;
        text_init(&out, 10000);
        diag_render_text(&problems, false, &out);
        fail_msg("'%s' for '%s': %s", to, from, out.data);
    }
    diag_range range = problems.first->range;
    str part = {text.data + range.begin, range.end - range.begin};
    if (!str_is(part, at)) fail_msg("the caret is at '%.*s', not '%s'", STR_ARGS(part), at);
}

static void each_mistake_is_one_error(void **state) {
    (void)state;
    check_error("sms              = 40", "sms = 0", DIAG_GPU_NUMBER, "0");
    check_error("sms              = 40", "sms = 40.5", DIAG_GPU_NUMBER, "40.5");
    check_error("sms              = 40", "sms = many", DIAG_GPU_NUMBER, "many");
    check_error("sms              = 40", "sms =", DIAG_GPU_NUMBER, "sms");
    check_error("sms              = 40", "sms = 99999999999999999999", DIAG_GPU_NUMBER,
                "99999999999999999999");
    check_error("sms              = 40\n", "", DIAG_GPU_MISSING, "");
    check_error("sms              = 40", "sms = 40\nsms = 41", DIAG_GPU_TWICE, "sms");
    check_error("sms              = 40", "sms = 40\nsmx = 41", DIAG_GPU_KEY, "smx");
    check_error("sms              = 40", "sms = 40\nhello", DIAG_GPU_LINE, "hello");
    check_error("sms              = 40", "sms = 40 per_sm", DIAG_GPU_UNIT, "per_sm");
    check_error("320 GB_per_s", "320", DIAG_GPU_UNIT, "320");
    check_error("320 GB_per_s", "320 GB", DIAG_GPU_UNIT, "GB");
    check_error("320 GB_per_s", "nan GB_per_s", DIAG_GPU_NUMBER, "nan");
    check_error("320 GB_per_s", "1e300 GB_per_s", DIAG_GPU_NUMBER, "1e300");
    check_error("mma_m16n8k8", "mma_m16n8k9", DIAG_GPU_FEATURE, "mma_m16n8k9");
    check_error("sm_75", "sm_80", DIAG_GPU_TARGET, "target");
    check_error("block_shared     = 65536", "block_shared = 99999", DIAG_GPU_CONTRADICTION,
                "block_shared");
    check_error("tensor           = 1024", "tensor = 512", DIAG_GPU_CONTRADICTION, "mma");
}

static void messages_say_the_legal_range(void **state) {
    (void)state;
    str text = replaced(text_of_t4(), "sms              = 40", "sms = 4000");
    gpu g;
    diag_list problems;
    diag_init(&problems, &memory, STR("x.gpu"), text);
    assert_false(gpu_read(&memory, STR("x"), text, &g, &problems));
    assert_true(str_is(problems.first->message,
                       "'sms' must be an integer from 1 to 1024 (streaming multiprocessors); "
                       "found '4000'"));
}

static void noise_is_rejected(void **state) {
    (void)state;
    char noise[5000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        x = x * 1664525 + 1013904223;
        noise[i] = (char)(x >> 24);
    }
    gpu g;
    diag_list problems;
    str text = {noise, sizeof noise};
    diag_init(&problems, &memory, STR("noise"), text);
    assert_false(gpu_read(&memory, STR("noise"), text, &g, &problems));
    diag_init(&problems, &memory, STR("empty"), STR(""));
    assert_false(gpu_read(&memory, STR("empty"), STR(""), &g, &problems));
    assert_true(problems.error_count > 20);
}

static void crlf_tabs_and_mark_are_fine(void **state) {
    (void)state;
    str text = text_of_t4();
    text_buffer out;
    text_init(&out, 20000);
    text_add_z(&out, "\xef\xbb\xbf// a comment\r\n\r\n");
    while (text.length) {
        str line = str_cut(&text, '\n');
        text_format(&out, "\t%.*s // why\r\n", STR_ARGS(line));
    }
    gpu g;
    diag_list problems;
    diag_init(&problems, &memory, STR("x.gpu"), text_str(&out));
    assert_true(gpu_read(&memory, STR("9-lives"), text_str(&out), &g, &problems));
    assert_int_equal(g.sms, 40);
    assert_true(str_is(g.word, "gpu_9_lives"));
    text_done(&out);
}

static void a_path_is_read(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/flashtl-gpu-%ld.gpu", (long)getpid());
    os_error why;
    str text = replaced(text_of_t4(), "sms              = 40", "sms = 41");
    assert_true(os_write_file(path, text, &why));
    gpu g;
    diag_list problems;
    assert_true(gpu_find(&memory, str_from(path), &g, &problems));
    assert_int_equal(g.sms, 41);
    assert_true(str_starts(g.name, STR("flashtl-gpu-")));
    remove(path);
    assert_false(gpu_find(&memory, str_from(path), &g, &problems));
    assert_int_equal(problems.error_count, 1);
    assert_int_equal(problems.first->id, DIAG_GPU_FILE);
    assert_false(gpu_find(&memory, STR("/"), &g, &problems));
    assert_int_equal(problems.first->id, DIAG_GPU_FILE);
}

/* --- occupancy: figures worked out by hand from the programming guide's rules ----------------- */

static void occupancies(void **state) {
    (void)state;
    static const struct {
        const char *name;
        gpu_block block;
        int blocks;
        gpu_limit limit;
    } cases[] = {
        {"a100", {128, 255, 80 * 1024}, 2, GPU_LIMIT_REGISTERS},
        {"a100", {128, 255, 96 * 1024}, 1, GPU_LIMIT_SHARED},
        {"a100", {128, 168, 32 * 1024}, 3, GPU_LIMIT_REGISTERS},
        {"a100", {256, 255, 128 * 1024}, 1, GPU_LIMIT_REGISTERS},
        {"a100", {128, 128, 163 * 1024}, 1, GPU_LIMIT_SHARED},
        {"a100", {128, 128, 163 * 1024 + 1}, 0, GPU_LIMIT_SHARED},
        {"a100", {512, 255, 0}, 0, GPU_LIMIT_REGISTERS},
        {"a100", {32, 16, 0}, 32, GPU_LIMIT_BLOCKS},
        {"a100", {1024, 32, 0}, 2, GPU_LIMIT_THREADS},
        {"a100", {2048, 32, 0}, 0, GPU_LIMIT_THREADS},
        {"t4", {128, 234, 32 * 1024}, 2, GPU_LIMIT_REGISTERS},
        {"t4", {128, 248, 48 * 1024}, 1, GPU_LIMIT_SHARED},
        {"t4", {128, 64, 32 * 1024}, 2, GPU_LIMIT_SHARED},
        {"l40s", {128, 128, 49 * 1024}, 2, GPU_LIMIT_SHARED},
        {"h200", {128, 255, 96 * 1024}, 2, GPU_LIMIT_REGISTERS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu g = find(cases[i].name);
        gpu_limit limit;
        int blocks = gpu_occupancy(&g, cases[i].block, &limit);
        if (blocks != cases[i].blocks || limit != cases[i].limit) {
            fail_msg("case %zu: %d blocks, limit %d", i, blocks, limit);
        }
    }
}

static void budgets_are_the_largest_that_fit(void **state) {
    (void)state;
    gpu_names names = gpu_list(&memory);
    for (int i = 0; i < names.count; i++) {
        gpu g = find(names.names[i].data);
        for (int blocks = 1; blocks <= 8; blocks++) {
            int64_t shared = gpu_shared_for(&g, blocks);
            gpu_block fits = {32, 16, shared}, more = {32, 16, shared + 1};
            assert_true(gpu_occupancy(&g, fits, NULL) >= blocks);
            assert_true(gpu_occupancy(&g, more, NULL) < blocks);
            for (int threads = 64; threads <= 256; threads *= 2) {
                if (threads * blocks > g.threads) continue;
                int registers = gpu_registers_for(&g, threads, blocks);
                gpu_block full = {threads, registers, 0}, over = {threads, registers + 1, 0};
                assert_true(gpu_occupancy(&g, full, NULL) >= blocks);
                assert_true(gpu_occupancy(&g, over, NULL) < blocks);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_read),
        cmocka_unit_test(peaks_are_the_data_sheets),
        cmocka_unit_test(names_are_forgiving),
        cmocka_unit_test(no_name_means_two_gpus),
        cmocka_unit_test(a_typo_names_the_nearest),
        cmocka_unit_test(printed_is_read_again),
        cmocka_unit_test(each_mistake_is_one_error),
        cmocka_unit_test(messages_say_the_legal_range),
        cmocka_unit_test(noise_is_rejected),
        cmocka_unit_test(crlf_tabs_and_mark_are_fine),
        cmocka_unit_test(a_path_is_read),
        cmocka_unit_test(occupancies),
        cmocka_unit_test(budgets_are_the_largest_that_fit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
