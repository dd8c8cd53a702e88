#include "bench/bench.h"

#include "base/convert.h"
#include "base/hash.h"
#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, ROUNDS_MAX = 64, COPIES_MAX = 64, WAIT_MS = 60000 };
static const double BURST_MS = 8;

/* One case on the device: as many copies of its tensors as outgrow the L2 cache. */
typedef struct bench_set {
    ftl_attention attention;
    size_t q_bytes, kv_bytes, v_bytes, o_bytes;
    uint64_t memory; /* copies one behind the other: q, k, v, o */
    int copies, next;
    int launches; /* of a burst */
    hash128 output;
    double times_ms[ROUNDS_MAX];
} bench_set;

typedef struct bench {
    ftl_context *context;
    ftl_runtime *runtime;
    const bench_options *options;
    ftl_timer *timer;
    const unsigned char *noise; /* N(0,1) in the type of the cases, repeated over all inputs */
    size_t noise_bytes;
} bench;

double bench_flops(const bench_case *c) {
    double length = (double)c->length;
    double all =
        2.0 * (double)c->batch * c->q_heads * length * length * (c->head_dim + c->value_dim);
    return c->causal ? all / 2 : all;
}

static size_t copy_bytes(const bench_set *s) {
    return s->q_bytes + s->kv_bytes + s->v_bytes + s->o_bytes;
}

/* (batch, length, heads, d), dense. */
static ftl_attention_tensor tensor(uint64_t address, int64_t length, int64_t heads, int64_t d) {
    return (ftl_attention_tensor){address, length * heads * d, heads * d, d};
}

static void point_at(bench_set *s, const bench_case *c, int copy) {
    uint64_t address = s->memory + (uint64_t)copy * copy_bytes(s);
    s->attention.q = tensor(address, c->length, c->q_heads, c->head_dim);
    s->attention.k = tensor(address + s->q_bytes, c->length, c->kv_heads, c->head_dim);
    s->attention.v =
        tensor(address + s->q_bytes + s->kv_bytes, c->length, c->kv_heads, c->value_dim);
    s->attention.o =
        tensor(address + copy_bytes(s) - s->o_bytes, c->length, c->q_heads, c->value_dim);
}

static ftl_status fill_inputs(bench *b, const bench_set *s) {
    for (int copy = 0; copy < s->copies; copy++) {
        uint64_t at = s->memory + (uint64_t)copy * copy_bytes(s);
        uint64_t end = at + copy_bytes(s) - s->o_bytes;
        while (at < end) {
            size_t count = end - at < b->noise_bytes ? (size_t)(end - at) : b->noise_bytes;
            ftl_status status = ftl_device_write(b->context, b->runtime, at, b->noise, count);
            if (status) return status;
            at += count;
        }
    }
    return FTL_OK;
}

static ftl_status launch(bench *b, bench_set *s, const bench_case *c) {
    point_at(s, c, s->next);
    s->next = (s->next + 1) % s->copies;
    return ftl_attention_forward(b->context, b->runtime, &s->attention, NULL);
}

/* The hash of what the first copy gives. */
static ftl_status hash_output(bench *b, bench_set *s, const bench_case *c, hash128 *out) {
    unsigned char *bytes = malloc(s->o_bytes);
    if (!bytes) return ftl_context_fail(b->context, FTL_NO_MEMORY, "out of memory");
    s->next = 0;
    point_at(s, c, 0);
    uint64_t address = s->attention.o.address;
    ftl_status status =
        ftl_device_fill(b->context, b->runtime, address, 0x7fff7fff, s->o_bytes / 4);
    if (!status) status = launch(b, s, c);
    if (!status) status = ftl_stream_wait(b->context, b->runtime, NULL, WAIT_MS);
    if (!status) status = ftl_device_read(b->context, b->runtime, bytes, address, s->o_bytes);
    if (!status) *out = hash_bytes((str){(const char *)bytes, s->o_bytes});
    free(bytes);
    return status;
}

static ftl_status time_burst(bench *b, bench_set *s, const bench_case *c, int launches,
                             double *each_ms) {
    double total_ms = 0;
    ftl_status status = ftl_timer_start(b->context, b->timer, NULL);
    for (int i = 0; !status && i < launches; i++) status = launch(b, s, c);
    if (!status) status = ftl_timer_stop(b->context, b->timer, NULL, &total_ms);
    *each_ms = total_ms / launches;
    return status;
}

/* Memory, inputs, the output to compare with, and how many launches fill a burst. */
static ftl_status prepare(bench *b, bench_set *s, const bench_case *c) {
    size_t bytes = ftl_type_bytes(c->dtype);
    size_t rows = (size_t)(c->batch * c->length);
    s->attention = (ftl_attention)FTL_ATTENTION_INIT;
    s->attention.dtype = c->dtype;
    s->attention.batch = c->batch;
    s->attention.q_len = s->attention.kv_len = c->length;
    s->attention.q_heads = c->q_heads;
    s->attention.kv_heads = c->kv_heads;
    s->attention.head_dim = c->head_dim;
    s->attention.value_dim = c->value_dim;
    s->attention.causal = c->causal;
    s->q_bytes = rows * (size_t)c->q_heads * (size_t)c->head_dim * bytes;
    s->kv_bytes = rows * (size_t)c->kv_heads * (size_t)c->head_dim * bytes;
    s->v_bytes = rows * (size_t)c->kv_heads * (size_t)c->value_dim * bytes;
    s->o_bytes = rows * (size_t)c->q_heads * (size_t)c->value_dim * bytes;
    int64_t wanted = 1 + 2 * b->options->l2_bytes / (int64_t)(copy_bytes(s) + 1);
    s->copies = (int)(wanted < COPIES_MAX ? wanted : COPIES_MAX);
    ftl_status status =
        ftl_device_allocate(b->context, b->runtime, copy_bytes(s) * (size_t)s->copies, &s->memory);
    if (!status) status = fill_inputs(b, s);
    if (!status) status = hash_output(b, s, c, &s->output);
    double each_ms = 1;
    if (!status) status = time_burst(b, s, c, 3, &each_ms);
    double burst_ms = b->options->burst_ms > 0 ? b->options->burst_ms : BURST_MS;
    double launches = ceil(burst_ms / (each_ms > 1e-4 ? each_ms : 1e-4));
    s->launches = launches < 1 ? 1 : launches > 10000 ? 10000 : (int)launches;
    return status;
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static ftl_status conclude(bench *b, bench_set *s, const bench_case *c, int rounds,
                           bench_result *out) {
    hash128 after = {0};
    ftl_status status = hash_output(b, s, c, &after);
    if (status) return status;
    qsort(s->times_ms, (size_t)rounds, sizeof *s->times_ms, by_value);
    *out = (bench_result){.what = *c,
                          .milliseconds = s->times_ms[rounds / 2],
                          .fastest_ms = s->times_ms[0],
                          .slowest_ms = s->times_ms[rounds - 1]};
    out->tflops = bench_flops(c) / (out->milliseconds * 1e-3) / 1e12;
    out->is_stable = after.high == s->output.high && after.low == s->output.low;
    double roofline = b->options->roofline_tflops;
    out->is_possible = roofline <= 0 || out->tflops <= roofline;
    return FTL_OK;
}

/* One case after another, so that the memory of one is there at a time. */
static ftl_status run_cases(bench *b, const bench_case *cases, int count, bench_set *sets,
                            bench_result *results) {
    int rounds = b->options->rounds > 0 ? b->options->rounds : ROUNDS;
    if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
    for (int i = 0; i < count; i++) {
        ftl_status status = prepare(b, &sets[i], &cases[i]);
        for (int round = 0; !status && round < rounds; round++) {
            status = time_burst(b, &sets[i], &cases[i], sets[i].launches, &sets[i].times_ms[round]);
        }
        if (!status) status = conclude(b, &sets[i], &cases[i], rounds, &results[i]);
        ftl_device_free(b->runtime, sets[i].memory);
        sets[i].memory = 0;
        if (status) return status;
        if (b->options->on_progress) b->options->on_progress(b->options->user, i + 1, count);
    }
    return FTL_OK;
}

/* About N(0,1), as 16-bit elements of the type. */
static unsigned char *make_noise(ftl_type type, size_t *bytes) {
    enum { ELEMENTS = 1 << 20 };
    convert_format format = type == FTL_BF16 ? CONVERT_BF16 : CONVERT_F16;
    *bytes = ELEMENTS * sizeof(uint16_t);
    uint16_t *noise = malloc(*bytes);
    uint64_t state = 88172645463325252u;
    for (int i = 0; noise && i < ELEMENTS; i++) {
        double value = -6;
        for (int k = 0; k < 12; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            value += (double)(state >> 11) / 9007199254740992.0;
        }
        noise[i] = (uint16_t)convert_to_bits(format, value);
    }
    return (unsigned char *)noise;
}

ftl_status bench_run(ftl_context *context, ftl_runtime *runtime, const bench_case *cases, int count,
                     const bench_options *options, bench_result *results) {
    if (count == 0) return FTL_OK;
    bench b = {.context = context, .runtime = runtime, .options = options};
    unsigned char *noise = make_noise(cases[0].dtype, &b.noise_bytes);
    bench_set *sets = calloc((size_t)count, sizeof *sets);
    ftl_status status = noise && sets ? ftl_timer_new(context, runtime, &b.timer)
                                      : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    b.noise = noise;
    if (!status && sets) status = run_cases(&b, cases, count, sets, results);
    ftl_timer_free(b.timer);
    free(sets);
    free(noise);
    return status;
}
