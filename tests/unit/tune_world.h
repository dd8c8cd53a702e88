/* A tuner's world for tests: a driver that pretends, kernels that are fast, wrong or worse by their
 * number of threads, and a look into the database.
 */
#ifndef FLASHTL_TESTS_TUNE_WORLD_H
#define FLASHTL_TESTS_TUNE_WORLD_H

#include "base/os.h"
#include "fake_attention.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "tune/search.h"
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { D = 16, LENGTH = 48 };

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static char *sketch;
static ftl_product *product; /* the model's own choice: its plan says where parameters lie */
static char folder[256], database[300];
static tune_request request;

/* --- the clock -------------------------------------------------------------------------------- */

enum { SILENCE_S = 600 };
static int64_t *skipped_ns; /* shared with children */

int64_t __real_os_time_ns(void);
int64_t __wrap_os_time_ns(void);

/* Linked in the clock's place: no test waits for a time to pass, nor fails where a machine is slow.
 */
int64_t __wrap_os_time_ns(void) {
    return __real_os_time_ns() + (skipped_ns ? __atomic_load_n(skipped_ns, __ATOMIC_SEQ_CST) : 0);
}

/* For a process that others watch: they find it silent for too long. Again and again, for who
 * watches may have heard its last beat after a leap.
 */
static void skip_time(void) {
    for (;; os_sleep_ns(20000000))
        __atomic_add_fetch(skipped_ns, (SILENCE_S + 1) * (int64_t)1000000000, __ATOMIC_SEQ_CST);
}

/* --- kernels that pretend --------------------------------------------------------------------- */

/* What a kernel does goes by its number of threads: the only thing of it that a launch shows. */
static struct {
    unsigned fast, wrong, faulty, deadly;
    unsigned hanging; /* the silence after which they are given up passes at once: skip_time */
    bool is_noisy;    /* some bursts take longer than others */
    int launches;
} world;

static void on_launch(void *user, const unsigned char *parameters) {
    (void)user;
    if (driver->threads == world.faulty) driver->launch_result = 700;
    if (driver->threads == world.deadly) abort();
    if (driver->threads == world.hanging) skip_time();
    fake_attention(product->kernels[0].plan, parameters, D);
    if (driver->threads == world.wrong) {
        fake_tensor o = fake_find(product->kernels[0].plan, parameters, "O");
        o.first[0] = 0x7e00;
    }
    bool is_slow = world.is_noisy && world.launches++ / 2 % 2 == 0;
    driver->clock_ms += (driver->threads == world.fast ? 0.5 : 1) * (is_slow ? 1.5 : 1);
}

static ftl_status make_cases(void *user, ftl_context *c, const bench_program *program,
                             bench_case *cases, int *count) {
    (void)user;
    static const ftl_scalar sizes[] = {{"batch", 1},   {"q_len", LENGTH}, {"kv_len", LENGTH},
                                       {"q_heads", 2}, {"kv_heads", 1},   {"d", D},
                                       {"dv", D}};
    cases[0] = (bench_case){.name = "small", .row = "2/1 heads", .length = LENGTH};
    *count = 1;
    return bench_case_set(c, &cases[0], program, sizes, 7, 1);
}

static const char *const settings[] = {"causal"};
/* Most decisions are pinned, so that a walk is short. */
static const ftl_pin pins[] = {
    {"d", "16"},    {"dv", "16"},  {"K_stages", "1"},       {"V_stages", "1"},
    {"guard", "0"}, {"peel", "0"}, {"Q_in_registers", "0"}, {"BN", "64"}};
enum { PIN_COUNT = sizeof pins / sizeof *pins };

static int setup(void **state) {
    (void)state;
    os_error why;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){.capability = 80,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = 8,
                            .on_launch = on_launch};
    *compiler = (fake_compiler){.major = 13, .log = "ptxas info : Used 42 registers\n"};
    memset(&world, 0, sizeof world);
    if (!skipped_ns)
        skipped_ns = mmap(NULL, sizeof *skipped_ns, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(skipped_ns != MAP_FAILED);
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_int_equal(ftl_sketch(context, "gqa", settings, 1, &sketch), FTL_OK);
    ftl_source source = {"<gqa>", sketch, strlen(sketch)};
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = "a100",
                           .dtype = FTL_F16,
                           .pins = pins,
                           .pin_count = PIN_COUNT,
                           .measured = ""};
    assert_int_equal(ftl_build(context, &source, &options, &product), FTL_OK);
    assert_true(os_temporary_folder(folder, &why));
    snprintf(database, sizeof database, "%s/tuning.sqlite", folder);
    request = (tune_request){
        .source = source,
        .options = options,
        .shape = {.text = {.operator_name = "attention", .settings = settings, .setting_count = 1},
                  .dtype = FTL_F16,
                  .head_dim = D,
                  .value_dim = D},
        .make_cases = make_cases,
        .runtime = {.struct_bytes = sizeof(ftl_runtime_options),
                    .cuda_library = FAKE_CUDA,
                    .nvrtc_library = FAKE_NVRTC},
        .database = database,
        .title = "--op gqa --causal",
        .cases_text = "lengths 48",
        .seconds = 1e6,
        .silence_seconds = SILENCE_S,
        .jobs = 2,
        .timing = {.rounds = 1, .burst_ms = 1}};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ftl_product_free(product);
    ftl_free(sketch);
    ftl_context_free(context);
    os_remove_folder(folder);
    return 0;
}

/* --- looking into the database ---------------------------------------------------------------- */

typedef struct census {
    int counts[STORE_STATE_COUNT], attempts_most, rows;
    store_row best, last[STORE_STATE_COUNT];
} census;

static void count_row(void *user, const store_row *row) {
    census *c = user;
    if (c->rows++ == 0) c->best = *row;
    c->counts[row->state]++;
    c->last[row->state] = *row;
    if (row->attempts > c->attempts_most) c->attempts_most = row->attempts;
}

/* Calls it with each row of the problem. */
static void visit(void (*each)(void *user, const store_row *row), void *user) {
    store *s = NULL;
    os_error why;
    assert_true(store_open(database, &s, &why));
    ftl_decisions *d = NULL;
    assert_int_equal(ftl_decide(context, &request.source, &request.options, &d), FTL_OK);
    int64_t problem = store_newest(s, "a100", d->problem);
    if (problem) assert_true(store_each(s, problem, each, user));
    ftl_decisions_free(d);
    store_close(s);
}

static census look(void) {
    census c = {.rows = 0};
    visit(count_row, &c);
    return c;
}

/* The threads of a kernel that the walk meets: 32 for each of so many warps. */
static unsigned other_threads(void) {
    return product->kernels[0].plan->threads == 256 ? 128 : 256;
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
