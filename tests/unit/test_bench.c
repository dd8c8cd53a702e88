/* The timing protocol against a driver and a cuDNN that pretend: who runs when, what is judged, and
 * what becomes of failures. The pretended kernels compute attention on the host, or wrongly.
 */
#include "base/convert.h"
#include "base/os.h"
#include "bench/cudnn.h"
#include "bench/grid.h"
#include "bench/set.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "verify/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, LENGTH = 40, Q_HEADS = 4, KV_HEADS = 2, D = 16, LOG_MAX = 4096, KNOWN_MAX = 64 };
enum { OUTPUT = BATCH * LENGTH * Q_HEADS * D };

static fake_record *driver;
static fake_cudnn_record *fake;
static ftl_context *context;
static ftl_runtime *runtime;

/* --- kernels that pretend --------------------------------------------------------------------- */

typedef struct pretence {
    const ftl_plan *plan;
    bool drops_last_key;      /* computes something else */
    bool keeps_first_maximum; /* of eight keys; weights overflow f16 after it */
    int wrong_after;          /* > 0: from this launch on */
    int flips_after;          /* > 0: from this launch on one bit differs */
    double ours_ms, theirs_ms;
    double jitter; /* every other burst takes so much longer, while 'jitter_launches' last */
    int jitter_launches;
    char log[LOG_MAX]; /* 'o', 't': who was launched */
    int launches;
    const void *known[KNOWN_MAX]; /* Q's address, and what belongs to it */
    uint16_t *outputs[KNOWN_MAX];
    int known_count;
} pretence;

static pretence world;

static void load_head(const uint16_t *from, int64_t heads, int64_t head, double *to) {
    for (int i = 0; i < LENGTH; i++) {
        convert_load(CONVERT_F16, from, (i * heads + head) * D, 1, D, to + i * D);
    }
}

/* Softmax by the maximum of the first eight keys, with weights of f16. */
static void attend_by_first_maximum(const reference_attention *p, double *out) {
    for (int64_t i = 0; i < p->q_len; i++) {
        double scores[LENGTH], most = -INFINITY, sum = 0, *row = out + i * D;
        for (int64_t j = 0; j <= i; j++) {
            scores[j] = 0;
            for (int e = 0; e < D; e++) scores[j] += p->q[i * D + e] * p->k[j * D + e] * p->scale;
            if (j < 8) most = fmax(most, scores[j]);
        }
        for (int e = 0; e < D; e++) row[e] = 0;
        for (int64_t j = 0; j <= i; j++) {
            double weight = convert_round(CONVERT_F16, exp(scores[j] - most));
            sum += weight;
            for (int e = 0; e < D; e++) row[e] += weight * p->v[j * D + e];
        }
        for (int e = 0; e < D; e++) row[e] /= sum;
    }
}

static const uint16_t *attention_of(const uint16_t *q, const uint16_t *k, const uint16_t *v) {
    for (int i = 0; i < world.known_count; i++) {
        if (world.known[i] == q) return world.outputs[i];
    }
    static double rows[3][LENGTH * D], out[LENGTH * D];
    arena scratch;
    arena_init(&scratch, 64 << 20);
    uint16_t *made = malloc(OUTPUT * sizeof *made);
    for (int b = 0; b < BATCH; b++) {
        for (int h = 0; h < Q_HEADS; h++) {
            int kv = h / (Q_HEADS / KV_HEADS);
            load_head(q + b * LENGTH * Q_HEADS * D, Q_HEADS, h, rows[0]);
            load_head(k + b * LENGTH * KV_HEADS * D, KV_HEADS, kv, rows[1]);
            load_head(v + b * LENGTH * KV_HEADS * D, KV_HEADS, kv, rows[2]);
            reference_attention p = {.q = rows[0],
                                     .k = rows[1],
                                     .v = rows[2],
                                     .q_len = LENGTH,
                                     .kv_len = LENGTH,
                                     .d = D,
                                     .dv = D,
                                     .scale = 1 / sqrt(D),
                                     .is_causal = true};
            if (world.keeps_first_maximum) attend_by_first_maximum(&p, out);
            else reference_attention_rows(&p, 0, LENGTH, CONVERT_F64, out, NULL, &scratch);
            for (int i = 0; i < LENGTH; i++) {
                convert_store(CONVERT_F16, out + i * D, D, made,
                              ((b * LENGTH + i) * Q_HEADS + h) * D, 1);
            }
        }
    }
    arena_done(&scratch);
    if (world.known_count == KNOWN_MAX) abort();
    world.known[world.known_count] = q;
    world.outputs[world.known_count++] = made;
    return made;
}

static void run(char who, const uint16_t *q, const uint16_t *k, const uint16_t *v, uint16_t *o) {
    if (world.launches < LOG_MAX) world.log[world.launches] = who;
    world.launches++;
    memcpy(o, attention_of(q, k, v), OUTPUT * sizeof *o);
    bool is_wrong = (who == 'o' && world.drops_last_key) ||
                    (who == 'o' && world.wrong_after && world.launches > world.wrong_after);
    if (is_wrong) memset(o, 0, OUTPUT * sizeof *o / 2);
    if (who == 'o' && world.flips_after && world.launches > world.flips_after) {
        o[(12 * Q_HEADS) * D + 1] ^= 1; /* a row that the sample does not have */
    }
    double time_ms = who == 'o' ? world.ours_ms : world.theirs_ms;
    bool is_slow =
        world.jitter > 0 && world.launches < world.jitter_launches && world.launches / 40 % 2 == 0;
    driver->clock_ms += is_slow ? time_ms * (1 + world.jitter) : time_ms;
}

static void on_launch(void *user, const unsigned char *parameters) {
    (void)user;
    void *tensors[4];
    static const char *const names[] = {"Q", "K", "V", "O"};
    for (int i = 0; i < 4; i++) {
        for (int32_t t = 0; t < world.plan->tensor_count; t++) {
            if (strcmp(world.plan->tensors[t].name, names[i]) != 0) continue;
            memcpy(&tensors[i], parameters + world.plan->tensors[t].pointer_offset, sizeof(void *));
        }
    }
    run('o', tensors[0], tensors[1], tensors[2], tensors[3]);
}

static void on_execute(void *user, void *const tensors[FAKE_CUDNN_TENSORS]) {
    (void)user;
    run('t', tensors[0], tensors[1], tensors[2], tensors[3]);
}

/* --- a case ----------------------------------------------------------------------------------- */

static ftl_product *product;
static char *sketch;
static bench_program program;
static bench_case one;
static const char *const settings[] = {"causal"};

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    fake = record_of(FAKE_CUDNN, "fake_cudnn");
    *driver = (fake_record){.capability = 90,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = 8,
                            .on_launch = on_launch};
    *fake = (fake_cudnn_record){
        .version = 91900, .configs = 2, .workspace = 16, .on_execute = on_execute};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_runtime_options options = {
        .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    assert_int_equal(ftl_device_use(context, runtime, 0), FTL_OK);
    const ftl_pin pins[] = {{"d", "16"}, {"dv", "16"}};
    ftl_options wanted = {.struct_bytes = sizeof(ftl_options),
                          .gpu = "a100",
                          .dtype = FTL_F16,
                          .pins = pins,
                          .pin_count = 2};
    assert_int_equal(ftl_sketch(context, "attention", settings, 1, &sketch), FTL_OK);
    ftl_source source = {"<attention>", sketch, strlen(sketch)};
    assert_int_equal(ftl_build(context, &source, &wanted, &product), FTL_OK);
    program = (bench_program){.text = {.operator_name = "attention",
                                       .settings = settings,
                                       .setting_count = 1,
                                       .sketch = source,
                                       .plan = product->kernels[0].plan,
                                       .cuda = product->kernels[0].cuda},
                              .dtype = FTL_F16,
                              .head_dim = D,
                              .value_dim = D};
    const ftl_scalar sizes[] = {
        {"batch", BATCH},       {"q_len", LENGTH}, {"kv_len", LENGTH}, {"q_heads", Q_HEADS},
        {"kv_heads", KV_HEADS}, {"d", D},          {"dv", D}};
    one = (bench_case){.name = "small", .row = "4/2 heads", .length = LENGTH};
    assert_int_equal(bench_case_set(context, &one, &program, sizes, 7, 1), FTL_OK);
    for (int i = 0; i < world.known_count; i++) free(world.outputs[i]);
    world = (pretence){.plan = program.text.plan, .ours_ms = 1, .theirs_ms = 2};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ftl_product_free(product);
    ftl_free(sketch);
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    assert_int_equal(driver->loads, driver->unloads);
    assert_int_equal(driver->allocations, 0);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->handles, 0);
    if (fake->violations) fail_msg("%s", fake->violation);
    return 0;
}

static ftl_status time_it(bench_options options, bool with_rival, bench_result *result) {
    cudnn *opened = NULL;
    bench_rival rival = {0};
    if (with_rival) {
        assert_int_equal(cudnn_open(context, FAKE_CUDNN, &opened), FTL_OK);
        rival = cudnn_rival(opened);
        options.rivals = &rival;
        options.rival_count = 1;
    }
    ftl_status status = bench_run(context, runtime, &one, 1, &options, result);
    cudnn_close(opened);
    return status;
}

/* --- figures ---------------------------------------------------------------------------------- */

static void figures_are_those_of_the_clock(void **state) {
    (void)state;
    bench_result r;
    assert_int_equal(time_it((bench_options){0}, true, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_FINE);
    assert_int_equal(r.figures[1].verdict, BENCH_FINE);
    assert_true(fabs(r.figures[0].milliseconds - 1) < 1e-4);
    assert_true(fabs(r.figures[1].milliseconds - 2) < 1e-4);
    assert_true(r.figures[0].error_before > 0 && r.figures[0].error_before < 1e-3);
    assert_true(r.figures[0].error_after > 0);
    double flops = 2.0 * BATCH * Q_HEADS * LENGTH * LENGTH * (D + D) / 2;
    assert_true(one.flops == flops);
    assert_true(fabs(r.figures[0].tflops - flops / 1e-3 / 1e12) < 1e-9);
    assert_true(one.bytes == 2.0 * BATCH * LENGTH * D * (2 * Q_HEADS + 2 * KV_HEADS));
    assert_false(r.is_noisy);
}

/* After the first launches of each, bursts alternate and every round begins with the other. */
static void contenders_take_turns(void **state) {
    (void)state;
    bench_result r;
    bench_options options = {.rounds = 4, .burst_ms = 8};
    assert_int_equal(time_it(options, true, &r), FTL_OK);
    char turns[64] = "";
    int used = 0;
    for (int i = 0; i < world.launches && used < 60; i++) {
        if (used == 0 || turns[used - 1] != world.log[i]) turns[used++] = world.log[i];
    }
    /* to begin with o t, then o t | t o | o t | t o, and the checks: o t */
    assert_string_equal(turns, "otototot");
    int ours = 0, theirs = 0;
    for (int i = 0; i < world.launches; i++) {
        ours += world.log[i] == 'o';
        theirs += world.log[i] == 't';
    }
    assert_int_equal(ours, 1 + 3 + 4 * 8 + 1);
    assert_int_equal(theirs, 1 + 3 + 4 * 4 + 1);
}

static void inputs_outgrow_the_cache(void **state) {
    (void)state;
    bench_result r;
    bench_options options = {.l2_bytes = 100000};
    assert_int_equal(time_it(options, false, &r), FTL_OK);
    /* 61,440 bytes a copy: two and a bit fill twice the cache. */
    assert_int_equal(world.known_count, 1 + 2 * 100000 / (int)one.bytes);
    assert_int_equal(r.figures[0].verdict, BENCH_FINE);
}

/* --- programs of several kernels ---------------------------------------------------------------
 */

static const ftl_product *split;

static void *pointer_of(const ftl_plan *plan, const char *name, const unsigned char *parameters) {
    void *address = NULL;
    for (int32_t i = 0; i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].name, name) == 0)
            memcpy(&address, parameters + plan->tensors[i].pointer_offset, sizeof address);
    assert_non_null(address);
    return address;
}

/* The first leaves a mark in the workspace, the second takes it up. */
static void on_part(void *user, const unsigned char *parameters) {
    (void)user;
    const ftl_plan *plan = split->kernels[world.launches % 2].plan;
    float *workspace = pointer_of(plan, "O_part", parameters);
    if (world.launches % 2 == 0) {
        *workspace = 7;
    } else {
        assert_true(*workspace == 7);
        *workspace = 0;
        memset(pointer_of(plan, "O", parameters), 0, sizeof(uint16_t) * BATCH * Q_HEADS * D);
    }
    world.launches++;
    driver->clock_ms += 1;
}

/* A launch is one of each, the time is that of all, and what they hand over is not their traffic.
 */
static void kernels_of_a_program_run_in_turn(void **state) {
    (void)state;
    enum { KEYS = 128, SPLITS = 2 };
    static const char *const options[] = {"group=2"};
    char *text;
    const ftl_pin pins[] = {{"d", "16"}, {"dv", "16"}, {"q_len", "1"}};
    ftl_options wanted = {.struct_bytes = sizeof(ftl_options),
                          .gpu = "a100",
                          .dtype = FTL_F16,
                          .pins = pins,
                          .pin_count = 3};
    assert_int_equal(ftl_sketch(context, "decode", options, 1, &text), FTL_OK);
    ftl_source source = {"<decode>", text, strlen(text)};
    ftl_product *made;
    assert_int_equal(ftl_build(context, &source, &wanted, &made), FTL_OK);
    split = made;
    arena memory;
    arena_init(&memory, 1 << 20);
    program = (bench_program){
        .text = {.sketch = source,
                 .plan = verify_merge_plans(made->kernels, made->kernel_count, &memory),
                 .kernels = made->kernels,
                 .kernel_count = made->kernel_count},
        .dtype = FTL_F16};
    const ftl_scalar sizes[] = {{"batch", BATCH},
                                {"q_len", 1},
                                {"kv_len", KEYS},
                                {"q_heads", Q_HEADS},
                                {"kv_heads", KV_HEADS},
                                {"splits", SPLITS},
                                {"d", D},
                                {"dv", D},
                                {"group", 2}};
    assert_int_equal(bench_case_set(context, &one, &program, sizes, 9, 1), FTL_OK);
    assert_true(one.bytes == 2.0 * BATCH * D * (2 * Q_HEADS + 2 * KEYS * KV_HEADS));
    assert_true(one.flops == 4.0 * BATCH * Q_HEADS * KEYS * D);
    driver->on_launch = on_part;
    bench_result r;
    assert_int_equal(time_it((bench_options){0}, false, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_FINE);
    assert_true(fabs(r.figures[0].milliseconds - 2) < 1e-4);
    assert_true(world.launches > 2 && world.launches % 2 == 0);
    arena_done(&memory);
    ftl_product_free(made);
    ftl_free(text);
}

/* --- what is not a figure --------------------------------------------------------------------- */

static void wrong_kernel_is_not_timed(void **state) {
    (void)state;
    world.drops_last_key = true;
    bench_result r;
    assert_int_equal(time_it((bench_options){0}, true, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_WRONG);
    assert_true(r.figures[0].milliseconds == 0);
    assert_non_null(strstr(r.figures[0].why, "relative rms"));
    assert_int_equal(r.figures[1].verdict, BENCH_FINE);
}

static void kernel_that_goes_wrong_is_found_after(void **state) {
    (void)state;
    world.wrong_after = 10;
    bench_result r;
    assert_int_equal(time_it((bench_options){0}, false, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_WRONG);
    assert_true(r.figures[0].error_before < 1e-3 && r.figures[0].error_after > 1e-3);
}

static void one_bit_is_enough(void **state) {
    (void)state;
    world.flips_after = 10;
    bench_result r;
    assert_int_equal(time_it((bench_options){0}, false, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_UNSTABLE);
}

static void nothing_is_faster_than_the_data_sheet(void **state) {
    (void)state;
    bench_result r;
    bench_options options = {.roofline_tflops = one.flops / 1e-3 / 1e12 / 2};
    assert_int_equal(time_it(options, false, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_IMPOSSIBLE);
    options = (bench_options){.memory_gb_per_s = one.bytes / 1e-3 / 1e9 / 2};
    assert_int_equal(time_it(options, false, &r), FTL_OK);
    assert_int_equal(r.figures[0].verdict, BENCH_IMPOSSIBLE);
}

static void noise_is_measured_anew(void **state) {
    (void)state;
    bench_result r;
    world.jitter = 0.5;
    world.jitter_launches = 1000000;
    assert_int_equal(time_it((bench_options){0}, false, &r), FTL_OK);
    assert_true(r.is_noisy);
    assert_int_equal(r.repeats, 2);
    assert_true(r.figures[0].spread > 0.1);
    world.launches = 0;
    world.jitter_launches = 60; /* the first rounds only */
    assert_int_equal(time_it((bench_options){0}, false, &r), FTL_OK);
    assert_false(r.is_noisy);
    assert_int_equal(r.repeats, 1);
    assert_true(fabs(r.figures[0].milliseconds - 1) < 1e-4);
}

static volatile sig_atomic_t stop;

static void stop_after_first(void *user, const bench_result *result, int32_t done, int32_t total,
                             double left) {
    (void)user, (void)result, (void)total;
    assert_int_equal(done, 1);
    assert_true(left >= 0);
    stop = 1;
}

static void stopping_frees_everything(void **state) {
    (void)state;
    bench_case cases[3] = {one, one, one};
    bench_result results[3];
    stop = 0;
    bench_options options = {.stop = &stop, .on_result = stop_after_first};
    assert_int_equal(bench_run(context, runtime, cases, 3, &options, results), FTL_STOPPED);
    assert_true(results[0].is_done);
    assert_false(results[1].is_done);
    assert_int_equal(driver->allocations, 0);
}

static void fault_ends_the_run(void **state) {
    (void)state;
    bench_result r;
    driver->launch_result = 700;
    assert_int_equal(time_it((bench_options){0}, true, &r), FTL_KERNEL_FAULT);
    assert_int_equal(r.figures[0].verdict, BENCH_ABSENT);
    driver->launch_result = 0;
}

/* --- scores ----------------------------------------------------------------------------------- */

/* scores.def, written out: N(0,1) and what it becomes. */
static double defined(bench_scores scores, bool is_query, double normal, int64_t key, int column) {
    double shared = is_query ? 4 : 0; /* sqrt(16) */
    switch (scores.kind) {
    case SCORES_PEAKED: return is_query ? scores.number * normal : normal;
    case SCORES_RISING: return column ? normal : is_query ? shared : scores.number * (double)key;
    case SCORES_SINK: return column ? normal : is_query ? shared : key ? 0 : scores.number;
    default: return normal;
    }
}

/* What the kernel is given, and what it is judged by, are both as scores.def defines. */
static void check_inputs(bench_scores scores, ftl_type type) {
    set_noise noise;
    static bench_set normal, shaped;
    bench_case plain = one, drawn = one;
    drawn.scores = scores;
    assert_true(set_noise_make(&noise));
    assert_int_equal(set_open(context, runtime, &plain, &noise, 100000, &normal), FTL_OK);
    assert_int_equal(set_open(context, runtime, &drawn, &noise, 100000, &shaped), FTL_OK);
    assert_true(shaped.copies > 1);
    convert_format format = type == FTL_BF16 ? CONVERT_BF16 : CONVERT_F16;
    for (int32_t t = 0; t < shaped.plan->tensor_count; t++) {
        const set_tensor *tensor = &shaped.tensors[t];
        char name = tensor->of->name[0];
        if (tensor->of->role != FTL_INPUT) continue;
        assert_int_equal(tensor->of->type, type);
        int64_t heads = name == 'Q' ? Q_HEADS : KV_HEADS;
        for (int64_t i = 0; i < tensor->elements; i++) {
            for (int copy = 0; copy < 2; copy++) {
                double values[2];
                for (int s = 0; s < 2; s++) {
                    const bench_set *set = s ? &shaped : &normal;
                    const void *at = (const void *)set->arguments[copy][t].address;
                    convert_load(format, at, i, 1, 1, &values[s]);
                    if (copy == 0) assert_true(set_value(set, t, i) == values[s]);
                }
                double wanted = name == 'V' ? values[0]
                                            : defined(scores, name == 'Q', values[0],
                                                      i / (heads * D) % LENGTH, (int)(i % D));
                assert_true(values[1] == convert_round(format, wanted));
            }
        }
        static double all[BATCH * LENGTH * Q_HEADS * D];
        set_values(&shaped, t, 3, tensor->elements - 3, all);
        for (int64_t i = 3; i < tensor->elements; i++)
            assert_true(all[i - 3] == set_value(&shaped, t, i));
    }
    set_close(runtime, &normal);
    set_close(runtime, &shaped);
    set_noise_free(&noise);
}

static const bench_scores DRAWN[] = {
    {SCORES_NORMAL, 0}, {SCORES_PEAKED, 3}, {SCORES_RISING, 0.7}, {SCORES_SINK, 12}};

static void inputs_are_as_defined(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof DRAWN / sizeof *DRAWN; i++) check_inputs(DRAWN[i], FTL_F16);
}

/* By their effect: standard deviation, slope and height of the scores that the reference sees. */
static void scores_have_their_moments(void **state) {
    (void)state;
    for (size_t kind = 0; kind < sizeof DRAWN / sizeof *DRAWN; kind++) {
        set_noise noise;
        static bench_set set;
        bench_case drawn = one;
        drawn.scores = DRAWN[kind];
        assert_true(set_noise_make(&noise));
        assert_int_equal(set_open(context, runtime, &drawn, &noise, 0, &set), FTL_OK);
        int32_t q = set_find(&set, "Q"), k = set_find(&set, "K");
        double mean[LENGTH] = {0}, squares = 0, rest = 0;
        int64_t count = 0;
        for (int b = 0; b < BATCH; b++) {
            for (int at = 0; at < LENGTH * LENGTH * Q_HEADS; at++) {
                int i = at / Q_HEADS % LENGTH, j = at / Q_HEADS / LENGTH, h = at % Q_HEADS;
                double query[D], key[D], score = 0;
                set_values(&set, q, ((b * LENGTH + i) * Q_HEADS + h) * D, D, query);
                set_values(&set, k, ((b * LENGTH + j) * KV_HEADS + h / 2) * D, D, key);
                for (int e = 0; e < D; e++) score += query[e] * key[e] / sqrt(D);
                mean[j] += score / (BATCH * LENGTH * Q_HEADS);
                if (j > 0) squares += score * score, count++;
            }
        }
        for (int j = 1; j < LENGTH; j++) rest += mean[j] / (LENGTH - 1);
        double deviation = sqrt(squares / (double)count), number = DRAWN[kind].number;
        bool is_rising = DRAWN[kind].kind == SCORES_RISING;
        double wanted = DRAWN[kind].kind == SCORES_PEAKED ? number : 1;
        if (is_rising)
            assert_true(fabs((mean[LENGTH - 1] - mean[0]) / (LENGTH - 1) - number) < 0.05);
        else assert_true(fabs(deviation - wanted) < 0.15 * wanted && fabs(rest) < 0.2 * wanted);
        double above = DRAWN[kind].kind == SCORES_SINK ? number : 0;
        if (!is_rising) assert_true(fabs(mean[0] - rest - above) < 0.6 * wanted);
        set_close(runtime, &set);
        set_noise_free(&noise);
    }
}

static void forget_outputs(void) {
    for (int i = 0; i < world.known_count; i++) free(world.outputs[i]);
    world.known_count = 0;
}

/* A kernel that N(0,1) lets pass is caught where scores grow, and a right one passes all. */
static void scores_decide_who_is_wrong(void **state) {
    (void)state;
    static const struct {
        bench_scores scores;
        bool overflows;
    } drawn[] = {{{SCORES_NORMAL, 0}, false},
                 {{SCORES_PEAKED, 3}, false},
                 {{SCORES_SINK, 12}, false},
                 {{SCORES_PEAKED, 30}, true},
                 {{SCORES_RISING, 0.7}, true}};
    for (int is_planted = 0; is_planted < 2; is_planted++) {
        for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
            bench_result r;
            forget_outputs();
            world.keeps_first_maximum = is_planted;
            one.scores = drawn[i].scores;
            assert_int_equal(time_it((bench_options){.rounds = 1}, false, &r), FTL_OK);
            bool is_caught = is_planted && drawn[i].overflows;
            assert_int_equal(r.figures[0].verdict, is_caught ? BENCH_WRONG : BENCH_FINE);
        }
    }
}

static void scores_beyond_a_type_are_refused(void **state) {
    (void)state;
    bench_result r;
    one.scores = (bench_scores){SCORES_RISING, 999};
    assert_int_equal(time_it((bench_options){.rounds = 1}, false, &r), FTL_OK); /* 39 x 999 */
    const ftl_scalar sizes[] = {{"batch", 1},    {"q_len", 8}, {"kv_len", 70}, {"q_heads", 2},
                                {"kv_heads", 2}, {"d", D},     {"dv", D}};
    assert_int_equal(bench_case_set(context, &one, &program, sizes, 7, 1), FTL_OK);
    assert_int_equal(time_it((bench_options){.rounds = 1}, false, &r), FTL_INVALID_ARGUMENT);
    assert_non_null(strstr(ftl_context_error(context), "rising:999 over 70 keys is more than f16"));
}

static void scores_are_read(void **state) {
    (void)state;
    static const char *const good[][2] = {{"normal", "normal"},
                                          {"peaked", "peaked:4"},
                                          {"rising:0.5", "rising:0.5"},
                                          {"sink", "sink:12"},
                                          {"rising", "rising:0.05"}};
    static const char *const bad[] = {"",         "flat",        "normal:1", "peaked:", "peaked:0",
                                      "peaked:x", "peaked:1000", "sink:-1",  "sink:nan"};
    bench_scores scores;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[SCORES_TEXT_BYTES];
        assert_true(scores_read(str_from(good[i][0]), &scores));
        scores_print(scores, text);
        assert_string_equal(text, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(scores_read(str_from(bad[i]), &scores));
}

/* --- cuDNN ------------------------------------------------------------------------------------ */

static void graph_has_the_known_form(void **state) {
    (void)state;
    bench_result r;
    assert_int_equal(time_it((bench_options){.rounds = 1}, true, &r), FTL_OK);
    assert_int_equal(fake->products, 2);
    assert_int_equal(fake->reductions, 2);
    /* scale; row, column, compare, select; subtract, exp, log, add, divide */
    static const int modes[] = {1, 501, 501, 303, 601, 9, 13, 15, 0, 6};
    assert_int_equal(fake->pointwise, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(fake->modes[i], modes[i]);
    assert_int_equal(fake->plans, 1);
}

static void second_engine_takes_over(void **state) {
    (void)state;
    bench_result r;
    fake->bad_plans = 1;
    assert_int_equal(time_it((bench_options){.rounds = 1}, true, &r), FTL_OK);
    assert_int_equal(r.figures[1].verdict, BENCH_FINE);
    assert_int_equal(fake->plans, 2);
}

static void rivals_trouble_is_its_own(void **state) {
    (void)state;
    static const struct {
        int configs, bad_plans, execute_result;
        const char *words;
    } troubles[] = {{0, 0, 0, "no engine"},
                    {2, 2, 0, "CUDNN_STATUS_NOT_SUPPORTED: words of its own"},
                    {2, 0, 3000, "cannot run"}};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        bench_result r;
        fake->configs = troubles[i].configs;
        fake->bad_plans = troubles[i].bad_plans;
        fake->execute_result = troubles[i].execute_result;
        fake->plans = 0;
        assert_int_equal(time_it((bench_options){.rounds = 1}, true, &r), FTL_OK);
        assert_int_equal(r.figures[0].verdict, BENCH_FINE);
        assert_int_equal(r.figures[1].verdict, BENCH_ABSENT);
        assert_non_null(strstr(r.figures[1].why, troubles[i].words));
        assert_null(strchr(r.figures[1].why, '\n'));
        assert_int_equal(fake->live, 0);
    }
}

static void absent_library_is_one_sentence(void **state) {
    (void)state;
    cudnn *opened = NULL;
    assert_int_equal(cudnn_open(context, "/no/such/libcudnn.so", &opened), FTL_NOT_FOUND);
    assert_non_null(strstr(ftl_context_error(context), "no cuDNN: "));
    assert_int_equal(cudnn_open(context, FAKE_CUDA, &opened), FTL_NOT_FOUND); /* another library */
    assert_non_null(strstr(ftl_context_error(context), "9.0 or later"));
    fake->version = 8907;
    assert_int_equal(cudnn_open(context, FAKE_CUDNN, &opened), FTL_NOT_FOUND);
    assert_non_null(strstr(ftl_context_error(context), "too old"));
    fake->version = 91900;
    fake->create_result = 1001;
    assert_int_equal(cudnn_open(context, FAKE_CUDNN, &opened), FTL_NOT_FOUND);
    assert_non_null(strstr(ftl_context_error(context), "does not start"));
    assert_null(opened);
}

/* --- reports ---------------------------------------------------------------------------------- */

static void reports_show_verdicts(void **state) {
    (void)state;
    bench_result results[3];
    assert_int_equal(time_it((bench_options){0}, true, &results[0]), FTL_OK);
    results[1] = results[2] = results[0];
    results[2].is_done = false; /* interrupted before it */
    results[2].what.length = 160;
    results[1].what.length = 80;
    results[1].figures[0].verdict = BENCH_WRONG;
    snprintf(results[1].figures[0].why, sizeof results[1].figures[0].why, "relative \"rms\"");
    bench_names names = {"A \"GPU\"", {"flashtl", "it's"}, 2};
    text_buffer text;
    text_init(&text, 1 << 20);
    bench_table(results, 3, &names, &text);
    assert_non_null(strstr(text.data, "| operator | case | | 40 | 80 |\n"));
    assert_non_null(strstr(text.data, "| flashtl / it's | **2.000** | – |\n"));
    assert_non_null(strstr(text.data, "geometric mean 2.000, least 2.000, 1 cells"));
    assert_non_null(strstr(text.data, "80: wrong: relative \"rms\""));
    text_done(&text);
    text_init(&text, 1 << 20);
    bench_result_json(&results[1], &names, &text);
    assert_non_null(
        strstr(text.data, "\"gpu\":\"A \\\"GPU\\\"\",\"by\":\"flashtl\",\"verdict\":\"wrong\""));
    assert_non_null(strstr(text.data, "\"by\":\"it's\",\"verdict\":\"fine\",\"milliseconds\":2.0"));
    text_done(&text);
    text_init(&text, 1 << 20);
    bench_plot(results, 3, &names, "o'ne.svg", &text);
    assert_non_null(strstr(text.data, "set output 'o''ne.svg'"));
    assert_non_null(strstr(text.data, "title 'it''s'"));
    assert_non_null(strstr(text.data, "80 NaN\n"));
    text_done(&text);
}

static void grids_are_read(void **state) {
    (void)state;
    grid_cell cells[512];
    char why[FTL_WHY_BYTES];
    int count = grid_read("paper", (str){NULL, 0}, cells, 512, why);
    assert_int_equal(count, 72);
    for (int i = 0; i < count; i++) {
        assert_int_equal(cells[i].batch * cells[i].length, 16384);
        assert_int_equal(cells[i].q_heads * cells[i].head_dim, 2048);
    }
    count = grid_read("decode", (str){NULL, 0}, cells, 512, why);
    assert_int_equal(count, 2 * (4 + 4 + 2)); /* 64 sequences of 16k keys are too many */
    for (int i = 0; i < count; i++) {
        assert_true(cells[i].is_decode && !cells[i].is_causal);
        assert_true(cells[i].batch * cells[i].length <= 1 << 19);
        assert_int_equal(cells[i].q_heads % cells[i].kv_heads, 0);
    }
    assert_int_equal(grid_read("g", STR("a 1 64 4 2 64:32 full # x\n\n"), cells, 512, why), 1);
    assert_int_equal(cells[0].value_dim, 32);
    static const char *const bad[] = {"a 1 64 4 3 64 full", "a 0 64 4 2 64 full", "a 1 64 4 2 64",
                                      "a 1 64 4 2 64 half", "a 1 64 4 2 64 full x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(grid_read("g", str_from(bad[i]), cells, 512, why), -1);
        assert_non_null(strstr(why, "g:1: expected"));
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* An output of 8 bits is read as such: nothing past it, and values as they are. */
static void outputs_of_every_type_are_read(void **state) {
    (void)state;
    enum { COUNT = 5000, GUARD = 64 };
    static const struct {
        ftl_type type;
        unsigned char three[4], none[4]; /* 3, and what is no number */
        bool has_none;
    } types[] = {{FTL_E4M3, {0x44}, {0x7f}, true},
                 {FTL_E5M2, {0x42}, {0x7e}, true},
                 {FTL_I8, {3}, {0}, false},
                 {FTL_F16, {0x00, 0x42}, {0x00, 0x7e}, true},
                 {FTL_BF16, {0x40, 0x40}, {0xc0, 0x7f}, true},
                 {FTL_F32, {0, 0, 0x40, 0x40}, {0, 0, 0xc0, 0x7f}, true}};
    double values[] = {3, 3};
    int64_t elements[] = {0, COUNT - 1};
    set_sample sample = {.values = values, .elements = elements, .count = 2, .block = 2};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ftl_plan_tensor of = {.role = FTL_OUTPUT, .type = types[i].type};
        ftl_plan plan = {.tensors = &of, .tensor_count = 1};
        bench_set *set = calloc(1, sizeof *set);
        size_t bytes = ftl_type_bytes(types[i].type);
        unsigned char *output = malloc(COUNT * bytes + GUARD);
        assert_non_null(set);
        assert_non_null(output);
        set->plan = &plan, set->tensors[0].of = &of, set->tensors[0].elements = COUNT;
        for (size_t k = 0; k < COUNT; k++) memcpy(output + k * bytes, types[i].three, bytes);
        memset(output + COUNT * bytes, 0x7f, GUARD);
        assert_true(set_sample_error(set, &sample, output) == 0);
        memcpy(output + (COUNT - 1) * bytes, types[i].none, bytes);
        double error = set_sample_error(set, &sample, output);
        assert_true(types[i].has_none ? isnan(error) : error > 0.1);
        free(output);
        free(set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {WORLD_TEST(figures_are_those_of_the_clock),
                                       WORLD_TEST(contenders_take_turns),
                                       WORLD_TEST(inputs_outgrow_the_cache),
                                       WORLD_TEST(kernels_of_a_program_run_in_turn),
                                       WORLD_TEST(wrong_kernel_is_not_timed),
                                       WORLD_TEST(kernel_that_goes_wrong_is_found_after),
                                       WORLD_TEST(one_bit_is_enough),
                                       WORLD_TEST(nothing_is_faster_than_the_data_sheet),
                                       WORLD_TEST(noise_is_measured_anew),
                                       WORLD_TEST(stopping_frees_everything),
                                       WORLD_TEST(fault_ends_the_run),
                                       WORLD_TEST(inputs_are_as_defined),
                                       WORLD_TEST(scores_have_their_moments),
                                       WORLD_TEST(scores_decide_who_is_wrong),
                                       WORLD_TEST(scores_beyond_a_type_are_refused),
                                       cmocka_unit_test(outputs_of_every_type_are_read),
                                       cmocka_unit_test(scores_are_read),
                                       WORLD_TEST(graph_has_the_known_form),
                                       WORLD_TEST(second_engine_takes_over),
                                       WORLD_TEST(rivals_trouble_is_its_own),
                                       WORLD_TEST(absent_library_is_one_sentence),
                                       WORLD_TEST(reports_show_verdicts),
                                       cmocka_unit_test(grids_are_read)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < world.known_count; i++) free(world.outputs[i]);
    return failed;
}
