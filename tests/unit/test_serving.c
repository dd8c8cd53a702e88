#define _POSIX_C_SOURCE 200809L /* setenv */
/* The calls of flashtl/serving.h: what a launch is given, as a machine that computes what the
 * sketch means sees it, against attention written down plainly here.
 */
#include "base/convert.h"
#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/execute.h"
#include "flashtl/serving.h"
#include "sample.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context, *own; /* own: of the pretended device */
static ftl_runtime *runtime;

static void open_runtime(bool checks_tables) {
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .is_unverified = true,
                                   .checks_tables = checks_tables};
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
}

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){
        .capability = 80, .device_count = 1, .driver_version = 13000, .parameter_bytes = 8};
    *compiler = (fake_compiler){.major = 13};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_int_equal(ftl_context_new(&own), FTL_OK);
    open_runtime(false);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    ftl_context_free(own);
    assert_int_equal(driver->loads, driver->unloads);
    return 0;
}

/* --- a device that knows what the sketch means ------------------------------------------------ */

enum { OPTIONS_MAX = 16, TENSORS_MAX = 16 };

/* What a call is expected to have made its kernel of, and sizes that no parameter tells. */
typedef struct meaning {
    const char *operator_name, *settings[OPTIONS_MAX];
    int32_t setting_count;
    ftl_pin pins[6];
    int32_t pin_count;
    ftl_scalar sizes[6];
    int32_t size_count;
    char *sketch;
    ftl_product *product;
    ftl_tensor tensors[TENSORS_MAX]; /* of the launches so far */
    ftl_scalar scalars[8];
    int32_t tensor_count, scalar_count, launches;
    int runs;
} meaning;

static void open_meaning(meaning *m) {
    ftl_device device;
    ftl_gpu gpu = FTL_GPU_INIT;
    assert_int_equal(ftl_device_describe(context, runtime, 0, &device), FTL_OK);
    assert_int_equal(
        ftl_gpu_for_device(context, device.name, driver->capability, device.multiprocessors, &gpu),
        FTL_OK);
    assert_int_equal(ftl_sketch(own, m->operator_name, m->settings, m->setting_count, &m->sketch),
                     FTL_OK);
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = gpu.name, options.dtype = FTL_F16;
    options.pins = m->pins, options.pin_count = m->pin_count;
    const ftl_source source = {"sketch", m->sketch, strlen(m->sketch)};
    if (ftl_build(own, &source, &options, &m->product) != FTL_OK)
        fail_msg("%s", ftl_context_error(own));
}

static void close_meaning(meaning *m) {
    ftl_product_free(m->product);
    ftl_free(m->sketch);
}

static void read_sizes(const meaning *m, const ftl_plan *plan, const unsigned char *parameters,
                       int64_t *sizes) {
    for (int32_t i = 0; i < plan->size_count; i++) {
        int32_t value = -1;
        if (plan->sizes[i].offset >= 0)
            memcpy(&value, parameters + plan->sizes[i].offset, sizeof value);
        for (int32_t k = 0; value < 0 && k < m->size_count; k++)
            if (strcmp(m->sizes[k].name, plan->sizes[i].name) == 0)
                value = (int32_t)m->sizes[k].value;
        if (value < 0) fail_msg("size %s is not known", plan->sizes[i].name);
        sizes[i] = value;
    }
}

/* A tensor that two kernels have is the same to both. */
static void take_tensor(meaning *m, const ftl_tensor *tensor) {
    for (int32_t i = 0; i < m->tensor_count; i++) {
        const ftl_tensor *known = &m->tensors[i];
        if (strcmp(known->name, tensor->name) != 0) continue;
        assert_int_equal(known->address, tensor->address);
        assert_memory_equal(known->extents, tensor->extents, sizeof known->extents);
        assert_memory_equal(known->strides, tensor->strides, sizeof known->strides);
        return;
    }
    assert_true(m->tensor_count < TENSORS_MAX);
    m->tensors[m->tensor_count++] = *tensor;
}

static void take_tensors(meaning *m, const ftl_plan *plan, const unsigned char *parameters) {
    static const double no_scalars[64] = {0};
    int64_t sizes[64];
    read_sizes(m, plan, parameters, sizes);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *of = &plan->tensors[t];
        ftl_tensor tensor = {.name = of->name, .type = of->type, .axis_count = of->axis_count};
        memcpy(&tensor.address, parameters + of->pointer_offset, 8);
        for (int32_t i = 0; i < of->axis_count; i++) {
            double extent;
            assert_true(ftl_formula_evaluate(&of->axes[i].extent, sizes, no_scalars, &extent));
            tensor.extents[i] = (int64_t)extent, tensor.strides[i] = 1;
            if (of->axes[i].stride_offset >= 0)
                memcpy(&tensor.strides[i], parameters + of->axes[i].stride_offset, 8);
        }
        take_tensor(m, &tensor);
    }
}

static void take_scalars(meaning *m, const ftl_plan *plan, const unsigned char *parameters) {
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        float real;
        int32_t whole;
        memcpy(&real, parameters + plan->scalars[i].offset, 4);
        memcpy(&whole, parameters + plan->scalars[i].offset, 4);
        m->scalars[m->scalar_count++] = (ftl_scalar){
            plan->scalars[i].name, plan->scalars[i].type == FTL_I32 ? whole : (double)real};
    }
}

/* Takes what the parameters name; with the last kernel's launch, runs the sketch on it. */
static void compute(void *user, const unsigned char *parameters) {
    meaning *m = user;
    assert_true(m->launches < m->product->kernel_count);
    const ftl_plan *plan = m->product->kernels[m->launches++].plan;
    take_tensors(m, plan, parameters);
    take_scalars(m, plan, parameters);
    if (m->launches < m->product->kernel_count) return;
    const ftl_arguments arguments = {m->tensors, m->tensor_count, m->scalars, m->scalar_count};
    const ftl_source source = {"sketch", m->sketch, strlen(m->sketch)};
    if (ftl_interpret(own, &source, FTL_ROUNDED, &arguments) != FTL_OK) {
        char *text = ftl_context_diagnostics(own, FTL_DIAGNOSTICS_TEXT);
        fail_msg("%s\n%s", ftl_context_error(own), text);
    }
    m->runs++;
}

/* --- a batch, and attention written down ------------------------------------------------------ */

enum { D = 16, HEADS = 4, KV_HEADS = 2, SEQUENCES_MAX = 8, TOKENS = 160, PAGE = 16, PAGES = 40 };
enum {
    ROW = HEADS * D,
    KV_ROW = KV_HEADS * D + 8 /* a gap */,
    COLUMNS = 20,
    SHORT_COLUMNS = 5, /* too few keys for a second split */
    KEYS = COLUMNS * PAGE
};
static const uint16_t UNTOUCHED = 0x7fda;

typedef struct batch {
    int32_t count, q_start[SEQUENCES_MAX + 1], kv_start[SEQUENCES_MAX + 1];
    int32_t q_used[SEQUENCES_MAX];
    _Alignas(16) int32_t kv_used[SEQUENCES_MAX];
    int32_t table[SEQUENCES_MAX][COLUMNS + 1];
    _Alignas(16) uint16_t q[TOKENS * ROW], o[TOKENS * ROW];
    _Alignas(16) uint16_t k[PAGES * PAGE * KV_ROW], v[PAGES * PAGE * KV_ROW];
    float lse[TOKENS * HEADS];
    float sinks[HEADS], slopes[HEADS], bias[TOKENS * HEADS * KEYS];
    int32_t padding[SEQUENCES_MAX];
    _Alignas(16) unsigned char workspace[1 << 23];
} batch;

static batch world;

/* Small numbers that differ everywhere. */
static void fill(uint16_t *to, int64_t count, unsigned seed) {
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        double value = (double)(seed >> 20) / 2048 - 1;
        convert_store(CONVERT_F16, &value, 1, to, i, 1);
    }
}

static void begin(const int32_t *q_lens, const int32_t *kv_lens, int32_t count) {
    batch *w = &world;
    memset(w, 0, sizeof *w);
    memset(w->workspace, 0x7f, sizeof w->workspace); /* NaN */
    fill(w->q, TOKENS * ROW, 1), fill(w->k, PAGES * PAGE * KV_ROW, 2);
    fill(w->v, PAGES * PAGE * KV_ROW, 3);
    for (int i = 0; i < TOKENS * ROW; i++) w->o[i] = UNTOUCHED;
    for (int i = 0; i < TOKENS * HEADS; i++) w->lse[i] = 12345;
    for (int i = 0; i < TOKENS * HEADS * KEYS; i++) w->bias[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < HEADS; i++) w->sinks[i] = (float)(i - 2), w->slopes[i] = (float)i / 16;
    w->count = count;
    w->q_start[0] = 3, w->kv_start[0] = 5; /* rows before the first sequence are nobody's */
    for (int32_t b = 0; b < count; b++) {
        w->q_start[b + 1] = w->q_start[b] + q_lens[b];
        w->kv_start[b + 1] = w->kv_start[b] + kv_lens[b];
        w->q_used[b] = q_lens[b] - q_lens[b] / 3;
        w->kv_used[b] = kv_lens[b] - kv_lens[b] / 4;
        w->padding[b] = b % 2 ? w->kv_used[b] : w->kv_used[b] / 5;
        for (int32_t n = 0; n <= COLUMNS; n++) w->table[b][n] = (7 * (b * COLUMNS + n) + 3) % PAGES;
    }
    assert_true(w->q_start[count] <= TOKENS);
}

static uint64_t at(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

static double element(const uint16_t *of) {
    double value;
    convert_load(CONVERT_F16, of, 0, 1, 1, &value);
    return value;
}

typedef struct rules {
    bool causal, is_first;
    int32_t window;
    double softcap;
    bool has_sinks, has_slopes, has_bias, is_padded;
    int32_t before, after, chunk;
} rules;

static int64_t chunk_of(const rules *r, int64_t place) {
    return (place + 1000 * r->chunk) / r->chunk; /* rounds down */
}

static bool is_within(const rules *r, int64_t key, int64_t place, int64_t padding) {
    if (r->is_padded && key < padding) return false;
    if (r->before && key <= place - r->before) return false;
    if (r->after && key >= place + r->after) return false;
    if (!r->is_padded) padding = 0;
    return !r->chunk || chunk_of(r, key - padding) == chunk_of(r, place - padding);
}

/* Whose row it is: of which sequence and head, and of o. */
typedef struct row_name {
    int32_t sequence;
    int head;
    int64_t row;
} row_name;

/* One row: 'keys' and 'values' give a row of each key. */
static double attend(const rules *r, row_name of, const uint16_t *q, const uint16_t *const *keys,
                     const uint16_t *const *values, int64_t place, int64_t count, double *out) {
    double weights[KEYS], sink = (double)world.sinks[of.head];
    double most = r->has_sinks ? sink : -INFINITY, sum = 0;
    const float *bias = world.bias + (of.row * HEADS + of.head) * KEYS;
    for (int64_t j = 0; j < count; j++) {
        double score = 0;
        for (int i = 0; i < D; i++) score += element(q + i) * element(keys[j] + i);
        score /= sqrt(D);
        if (r->softcap > 0) score = r->softcap * tanh(score / r->softcap);
        bool is_seen = !r->causal || j <= place;
        if (r->window) is_seen = is_seen && j > place - r->window;
        if (r->window && !r->causal) is_seen = is_seen && j < place + r->window;
        is_seen = is_seen && is_within(r, j, place, world.padding[of.sequence]);
        double distance = (double)(j > place ? j - place : place - j);
        if (r->has_slopes) score -= (double)world.slopes[of.head] * distance;
        if (r->has_bias) score += (double)bias[j];
        weights[j] = is_seen ? score : -INFINITY;
        most = fmax(most, weights[j]);
    }
    for (int i = 0; i < D; i++) out[i] = 0;
    if (r->has_sinks) sum = exp(sink - most);
    for (int64_t j = 0; j < count && most > -INFINITY; j++) sum += exp(weights[j] - most);
    for (int64_t j = 0; j < count && sum > 0; j++)
        for (int i = 0; i < D; i++) out[i] += exp(weights[j] - most) / sum * element(values[j] + i);
    return sum > 0 ? most + log(sum) : -INFINITY;
}

/* A sequence's rows of keys (or values): in pages, or from 'first' on. */
static void rows_of(const uint16_t *base, const int32_t *table, int64_t first, int64_t count,
                    int head, const uint16_t **rows) {
    for (int64_t j = 0; j < count; j++) {
        int64_t row = table ? table[j / PAGE] * PAGE + j % PAGE : first + j;
        rows[j] = base + row * KV_ROW + head * D;
    }
}

static void expect_row(const rules *r, row_name of, const int32_t *table, int64_t first,
                       int64_t place, int64_t keys, bool has_lse) {
    int64_t row = of.row;
    int head = of.head;
    const uint16_t *k[KEYS], *v[KEYS];
    double want[D];
    rows_of(world.k, table, first, keys, head / (HEADS / KV_HEADS), k);
    rows_of(world.v, table, first, keys, head / (HEADS / KV_HEADS), v);
    double lse = attend(r, of, world.q + row * ROW + head * D, k, v, place, keys, want);
    for (int i = 0; i < D; i++) {
        uint16_t *got = world.o + row * ROW + head * D + i;
        if (!(fabs(element(got) - want[i]) < 4e-3))
            fail_msg("row %d, head %d, %d: %g, not %g", (int)row, head, i, element(got), want[i]);
        *got = UNTOUCHED; /* looked at */
    }
    float *sum = &world.lse[row * HEADS + head];
    if (!has_lse) return;
    bool is_near = isinf(lse) ? isinf(*sum) && *sum < 0 : fabs((double)*sum - lse) < 2e-3;
    if (!is_near) fail_msg("row %d, head %d: log-sum-exp %g, not %g", (int)row, head, *sum, lse);
    *sum = 12345;
}

static void expect_nothing_else(void) {
    for (int i = 0; i < TOKENS * ROW; i++)
        if (world.o[i] != UNTOUCHED) fail_msg("element %d was written", i);
    for (int i = 0; i < TOKENS * HEADS; i++)
        if (world.lse[i] != 12345) fail_msg("log-sum-exp %d was written", i);
}

/* --- sequences one after the other ------------------------------------------------------------ */

static ftl_varlen varlen_of(void) {
    ftl_varlen v = FTL_VARLEN_INIT;
    v.dtype = FTL_F16, v.batch = world.count;
    v.q_tokens = TOKENS, v.kv_tokens = PAGES * PAGE, v.max_q_len = 64;
    v.q_heads = HEADS, v.kv_heads = KV_HEADS, v.head_dim = D;
    v.q = (ftl_attention_tensor){at(world.q), 0, ROW, D};
    v.o = (ftl_attention_tensor){at(world.o), 0, ROW, D};
    v.k = (ftl_attention_tensor){at(world.k), 0, KV_ROW, D};
    v.v = (ftl_attention_tensor){at(world.v), 0, KV_ROW, D};
    v.q_start = at(world.q_start), v.kv_start = at(world.kv_start);
    return v;
}

static void in_pages(ftl_pages *pages, ftl_attention_tensor *k, ftl_attention_tensor *v) {
    *pages = (ftl_pages){.page_len = PAGE,
                         .count = PAGES,
                         .table = at(world.table),
                         .columns = COLUMNS,
                         .stride = COLUMNS + 1};
    k->batch_stride = v->batch_stride = PAGE * KV_ROW;
}

enum { PAGED = 1, Q_USED = 2, KV_USED = 4, LSE = 8 };

static void choose(meaning *m, bool is_chosen, const char *setting) {
    if (is_chosen) m->settings[m->setting_count++] = setting;
}

static void pin(meaning *m, const char *name, const char *value) {
    m->pins[m->pin_count++] = (ftl_pin){name, value};
}

/* By the kernels' own row: sequence, query, keys. */
static void expect_varlen(const ftl_varlen *v, const rules *r, int flags) {
    const batch *w = &world;
    for (int32_t b = 0; b < w->count; b++) {
        int64_t queries = w->q_start[b + 1] - w->q_start[b];
        int64_t keys = w->kv_start[b + 1] - w->kv_start[b];
        if (flags & Q_USED) queries = w->q_used[b];
        if (flags & (KV_USED | PAGED)) keys = w->kv_used[b];
        for (int64_t q = 0; q < queries && q < v->max_q_len; q++)
            for (int head = 0; head < HEADS; head++)
                expect_row(r, (row_name){b, head, w->q_start[b] + q},
                           flags & PAGED ? w->table[b] : NULL, w->kv_start[b],
                           r->is_first ? q : q + keys - queries, keys, flags & LSE);
    }
    expect_nothing_else();
}

/* The settings that a sketch has for rules, in texts that stay. */
static void choose_rules(meaning *m, const rules *r, bool is_causal) {
    static char window[32], softcap[32], chunk[32];
    snprintf(window, sizeof window, "window=%d", r->window);
    snprintf(softcap, sizeof softcap, "softcap=%g", r->softcap);
    snprintf(chunk, sizeof chunk, "chunk=%d", r->chunk);
    choose(m, r->window > 0, window), choose(m, r->softcap > 0, softcap);
    choose(m, r->chunk > 0, chunk), choose(m, r->has_sinks, "sinks");
    choose(m, r->has_slopes, "alibi"), choose(m, r->has_bias, "bias");
    choose(m, r->is_padded, "padded");
    choose(m, r->before > 0 || (r->after > 0 && !is_causal), "sides");
}

static ftl_scoring scoring_of(const rules *r, int64_t q_len) {
    ftl_scoring s = {.window_before = r->before, .window_after = r->after, .chunk = r->chunk};
    if (r->has_sinks) s.sinks = at(world.sinks);
    if (r->has_slopes) s.alibi_slopes = at(world.slopes);
    if (r->is_padded) s.padding = at(world.padding);
    if (!r->has_bias) return s;
    s.bias = at(world.bias), s.bias_columns = KEYS;
    s.bias_head_stride = KEYS, s.bias_query_stride = HEADS * KEYS;
    s.bias_batch_stride = q_len * HEADS * KEYS;
    return s;
}

static void run_varlen(const rules *r, int flags, int64_t max_q_len) {
    meaning m = {.operator_name = "varlen"};
    choose(&m, r->causal, "causal"), choose(&m, r->is_first, "first");
    choose(&m, flags & LSE, "lse"), choose(&m, flags & PAGED, "paged");
    choose(&m, flags & Q_USED, "q_used");
    choose(&m, (flags & (KV_USED | PAGED)) == KV_USED, "kv_used");
    choose_rules(&m, r, r->causal);
    pin(&m, "d", "16"), pin(&m, "dv", "16");
    if (flags & PAGED) pin(&m, "page_len", "16");
    m.sizes[m.size_count++] = (ftl_scalar){"pages", PAGES};
    m.sizes[m.size_count++] = (ftl_scalar){"max_pages", COLUMNS};
    m.sizes[m.size_count++] = (ftl_scalar){"starts", world.count + 1};
    m.sizes[m.size_count++] = (ftl_scalar){"bias_len", KEYS};
    open_meaning(&m);
    ftl_varlen v = varlen_of();
    v.causal = r->causal, v.is_first = r->is_first, v.window = r->window, v.softcap = r->softcap;
    v.max_q_len = max_q_len, v.scoring = scoring_of(r, 0);
    if (flags & PAGED) in_pages(&v.pages, &v.k, &v.v);
    if (flags & Q_USED) v.q_used = at(world.q_used);
    if (flags & (KV_USED | PAGED)) v.kv_used = at(world.kv_used);
    if (flags & LSE) v.lse = (ftl_attention_tensor){at(world.lse), 0, HEADS, 1};
    driver->on_launch = compute, driver->user = &m;
    if (ftl_attention_varlen(context, runtime, &v, NULL) != FTL_OK)
        fail_msg("%s", ftl_context_error(context));
    driver->on_launch = NULL;
    assert_int_equal(m.runs, world.count > 0 && max_q_len > 0);
    expect_varlen(&v, r, flags);
    close_meaning(&m);
}

static const int32_t q_lens[] = {5, 0, 1, 4, 37, 0, 9}, kv_lens[] = {7, 3, 1, 0, 60, 0, 33};

static void sequences_of_any_lengths(void **state) {
    (void)state;
    static const rules all[] = {{0},
                                {.causal = true},
                                {.causal = true, .is_first = true},
                                {.causal = true, .window = 6},
                                {.window = 5},
                                {.window = 4, .is_first = true},
                                {.causal = true, .softcap = 2, .is_first = true, .window = 9}};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
        begin(q_lens, kv_lens, 7);
        run_varlen(&all[i], i % 2 ? LSE : 0, 64);
    }
}

static void used_lengths_and_pages(void **state) {
    (void)state;
    static const rules causal = {.causal = true}, full = {0};
    for (int flags = 0; flags < 8; flags++) {
        if ((flags & PAGED) && (flags & KV_USED)) continue;
        begin(q_lens, kv_lens, 7);
        run_varlen(flags % 2 ? &full : &causal, flags | LSE, 40);
    }
}

/* One, none, none with anything in it; a bound that leaves queries out, and one of 0. */
static void few_sequences(void **state) {
    (void)state;
    static const int32_t none[] = {0, 0, 0};
    static const rules causal = {.causal = true};
    begin(q_lens + 4, kv_lens + 4, 1);
    run_varlen(&causal, 0, 37);
    begin(q_lens + 4, kv_lens + 4, 1);
    run_varlen(&causal, LSE, 20);
    begin(q_lens, kv_lens, 7);
    run_varlen(&causal, PAGED, 0);
    begin(none, none, 3);
    run_varlen(&causal, LSE, 8);
    begin(none, none, 0);
    run_varlen(&causal, LSE, 8);
}

/* --- the last tokens of sequences ------------------------------------------------------------- */

static ftl_decode decode_of(int64_t q_len) {
    ftl_decode c = FTL_DECODE_INIT;
    c.dtype = FTL_F16, c.batch = world.count, c.q_len = q_len;
    c.q_heads = HEADS, c.kv_heads = KV_HEADS, c.head_dim = D;
    c.q = (ftl_attention_tensor){at(world.q), q_len * ROW, ROW, D};
    c.o = (ftl_attention_tensor){at(world.o), q_len * ROW, ROW, D};
    c.k = (ftl_attention_tensor){at(world.k), 0, KV_ROW, D};
    c.v = (ftl_attention_tensor){at(world.v), 0, KV_ROW, D};
    c.kv_lens = at(world.kv_used);
    in_pages(&c.pages, &c.k, &c.v);
    c.workspace = at(world.workspace), c.workspace_bytes = sizeof world.workspace;
    return c;
}

static int64_t splits_of(const meaning *m) {
    for (int32_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].name, "O_part") == 0) return m->tensors[i].extents[3];
    return 0;
}

enum { STRETCHES = -1 }; /* splits by the lengths */

static const ftl_tensor *tensor_of(const meaning *m, const char *name) {
    for (int32_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    fail_msg("no kernel has %s", name);
    return NULL;
}

static int64_t scalar_of(const meaning *m, const char *name) {
    for (int32_t i = 0; i < m->scalar_count; i++)
        if (strcmp(m->scalars[i].name, name) == 0) return (int64_t)m->scalars[i].value;
    fail_msg("no kernel has %s", name);
    return 0;
}

/* The tables by the same arithmetic: splits of `share` cuts, one at least, in the sequences' order.
 */
static void expect_tables(const meaning *m) {
    const ftl_tensor *of_starts = tensor_of(m, "starts"), *of_owner = tensor_of(m, "owner");
    const int32_t *starts = (const int32_t *)(uintptr_t)of_starts->address;
    const int32_t *owner = (const int32_t *)(uintptr_t)of_owner->address;
    int64_t spare = scalar_of(m, "spare"), least = scalar_of(m, "least"), cuts = 0, at = 0;
    for (int32_t b = 0; b < world.count; b++) cuts += (world.kv_used[b] + 63) / 64;
    int64_t share = cuts / spare + 1 > least ? cuts / spare + 1 : least;
    assert_int_equal(of_starts->extents[0], world.count + 1);
    assert_int_equal(of_owner->extents[0], spare + world.count);
    for (int32_t b = 0; b < world.count; b++) {
        int64_t mine = (world.kv_used[b] + 63) / 64, parts = (mine + share - 1) / share;
        assert_int_equal(starts[b], at);
        for (int64_t i = 0; i < (parts > 1 ? parts : 1); i++) assert_int_equal(owner[at++], b);
    }
    assert_int_equal(starts[world.count], at);
    assert_true(at <= spare + world.count);
    while (at < spare + world.count) assert_int_equal(owner[at++], world.count - 1);
}

static void run_decode(const rules *r, int64_t q_len, const char *nominal, int flags,
                       int64_t splits) {
    bool is_whole = splits == 1; /* by one kernel */
    bool is_stretched = splits == STRETCHES;
    meaning m = {.operator_name = is_whole ? "paged_decode" : "decode"};
    choose(&m, true, "group=2"), choose(&m, true, "page_len=16");
    choose(&m, r->causal && q_len > 1, "causal"), choose(&m, flags & LSE, "lse");
    choose_rules(&m, r, r->causal && q_len > 1);
    choose(&m, is_stretched, "stretches");
    pin(&m, "d", "16"), pin(&m, "dv", "16");
    if (nominal) pin(&m, "nominal_q_len", nominal);
    m.sizes[m.size_count++] = (ftl_scalar){"pages", PAGES};
    ftl_decode c = decode_of(q_len);
    if (is_whole) c.pages.columns = SHORT_COLUMNS;
    m.sizes[m.size_count++] = (ftl_scalar){"max_pages", (double)c.pages.columns};
    m.sizes[m.size_count++] = (ftl_scalar){"q_heads", HEADS};
    m.sizes[m.size_count++] = (ftl_scalar){"batch", world.count};
    m.sizes[m.size_count++] = (ftl_scalar){"bias_len", KEYS};
    open_meaning(&m);
    c.causal = r->causal, c.window = r->window, c.softcap = r->softcap;
    c.scoring = scoring_of(r, q_len);
    c.total_keys = is_stretched;
    if (flags & LSE) c.lse = (ftl_attention_tensor){at(world.lse), q_len * HEADS, HEADS, 1};
    assert_int_equal(ftl_attention_decode_workspace(context, runtime, &c, &c.workspace_bytes),
                     FTL_OK);
    assert_true(c.workspace_bytes > 0 && c.workspace_bytes <= sizeof world.workspace);
    driver->on_launch = compute, driver->user = &m;
    if (ftl_attention_decode(context, runtime, &c, NULL) != FTL_OK)
        fail_msg("%s", ftl_context_error(context));
    driver->on_launch = NULL;
    assert_int_equal(m.runs, 1);
    assert_int_equal(splits_of(&m), is_whole ? 0 : is_stretched ? D : splits);
    if (is_stretched) expect_tables(&m);
    for (size_t i = is_whole ? 0 : c.workspace_bytes; i < sizeof world.workspace; i++)
        assert_int_equal(world.workspace[i], 0x7f);
    for (int32_t b = 0; b < world.count; b++)
        for (int64_t q = 0; q < q_len; q++)
            for (int head = 0; head < HEADS; head++)
                expect_row(r, (row_name){b, head, b * q_len + q}, world.table[b], 0,
                           q + world.kv_used[b] - q_len, world.kv_used[b], flags & LSE);
    expect_nothing_else();
    close_meaning(&m);
}

static void last_tokens_over_pages(void **state) {
    (void)state;
    static const rules full = {0}, causal = {.causal = true};
    static const rules near = {.causal = true, .window = 9, .softcap = 3};
    static const rules around = {.window = 70};
    static const int32_t few[] = {1, 1}, many[] = {400, 171};
    begin(q_lens, kv_lens, 7);
    run_decode(&full, 1, NULL, 0, 4);
    begin(few, many, 2); /* 300 and 129 keys: several splits, the last of which have none */
    run_decode(&causal, 1, NULL, LSE, 4);
    begin(few, many, 2);
    run_decode(&around, 3, "4", LSE, 4);
    begin(q_lens, kv_lens, 7);
    run_decode(&causal, 4, "4", LSE, 4);
    begin(q_lens, kv_lens, 7);
    run_decode(&near, 12, "16", LSE, 4);
    begin(q_lens, kv_lens, 2);
    run_decode(&causal, 40, "64", 0, 4);
}

/* As many keys as one split has: one kernel, which writes nothing but results. */
static void one_split_is_one_kernel(void **state) {
    (void)state;
    static const rules full = {0}, causal = {.causal = true};
    static const rules near = {.causal = true, .window = 9, .softcap = 3};
    begin(q_lens, kv_lens, 7);
    run_decode(&full, 1, NULL, 0, 1);
    begin(q_lens, kv_lens, 7);
    run_decode(&causal, 3, "4", LSE, 1);
    begin(q_lens, kv_lens, 7);
    run_decode(&near, 12, "16", LSE, 1);
}

/* Tables, splits by them and their combination. */
static void stretches_go_by_lengths(void **state) {
    (void)state;
    static const rules full = {0}, causal = {.causal = true};
    static const rules near = {.causal = true, .window = 9, .softcap = 3};
    static const int32_t one[] = {1, 1, 1, 1}, long_one[] = {0, 300, 1, 64}, none[] = {0, 0};
    begin(q_lens, kv_lens, 7);
    run_decode(&full, 1, NULL, 0, STRETCHES);
    begin(one, long_one, 4);
    run_decode(&causal, 1, NULL, LSE, STRETCHES);
    begin(none, none, 2);
    run_decode(&causal, 1, NULL, LSE, STRETCHES);
    begin(q_lens, kv_lens, 7);
    run_decode(&near, 12, "16", LSE, STRETCHES);
}

/* Each of what decides scores by itself, and all of it. */
static void scores_by_rules(void **state) {
    (void)state;
    static const rules all[] = {
        {.has_sinks = true},
        {.has_slopes = true, .causal = true},
        {.has_bias = true},
        {.is_padded = true, .causal = true},
        {.before = 7, .after = 2},
        {.after = 3},
        {.before = INT32_MAX, .after = INT32_MAX},
        {.before = 5, .after = 4, .causal = true},
        {.chunk = 8, .causal = true},
        {.chunk = 11, .is_first = true},
        {.has_sinks = true,
         .has_slopes = true,
         .has_bias = true,
         .is_padded = true,
         .before = 30,
         .after = 9,
         .chunk = 21,
         .softcap = 4},
    };
    static const int32_t used[] = {7, 1, 1, 0, 55, 0, 25}; /* as padding is shared */
    const int count = sizeof all / sizeof *all;
    for (int i = 0; i < count; i++) {
        bool is_all = i == count - 1;
        if (!sample_takes() && !is_all) continue;
        begin(q_lens, kv_lens, 7);
        run_varlen(&all[i], (i % 2 ? PAGED : KV_USED) | (i % 3 ? LSE : 0), 64);
        if (all[i].is_first) continue;
        begin(q_lens, kv_lens, 7);
        memcpy(world.kv_used, used, sizeof used);
        run_decode(&all[i], i % 2 ? 1 : 3, i % 2 ? NULL : "4", i % 3 ? 0 : LSE, 4);
        begin(q_lens, kv_lens, 7);
        memcpy(world.kv_used, used, sizeof used);
        run_decode(&all[i], i % 2 ? 3 : 1, i % 2 ? "4" : NULL, i % 3 ? LSE : 0, 1);
        begin(q_lens, kv_lens, 7);
        memcpy(world.kv_used, used, sizeof used);
        run_decode(&all[i], i % 2 ? 1 : 3, i % 2 ? NULL : "4", i % 3 ? 0 : LSE, STRETCHES);
    }
}

/* One bias for all sequences, heads or queries: strides of 0. */
static void a_bias_may_be_shared(void **state) {
    (void)state;
    static const rules shared = {.has_bias = true};
    meaning m = {.operator_name = "decode"};
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(2);
    c.scoring = scoring_of(&shared, 2);
    c.scoring.bias_batch_stride = c.scoring.bias_head_stride = c.scoring.bias_query_stride = 0;
    choose(&m, true, "group=2"), choose(&m, true, "page_len=16"), choose(&m, true, "bias");
    pin(&m, "d", "16"), pin(&m, "dv", "16"), pin(&m, "nominal_q_len", "2");
    m.sizes[m.size_count++] = (ftl_scalar){"pages", PAGES};
    m.sizes[m.size_count++] = (ftl_scalar){"max_pages", COLUMNS};
    m.sizes[m.size_count++] = (ftl_scalar){"q_heads", HEADS};
    m.sizes[m.size_count++] = (ftl_scalar){"batch", world.count};
    m.sizes[m.size_count++] = (ftl_scalar){"bias_len", KEYS};
    open_meaning(&m);
    driver->on_launch = compute, driver->user = &m;
    if (ftl_attention_decode(context, runtime, &c, NULL) != FTL_OK)
        fail_msg("%s", ftl_context_error(context));
    driver->on_launch = NULL;
    for (int row = 1; row < TOKENS * HEADS; row++)
        memcpy(world.bias + row * KEYS, world.bias, KEYS * sizeof *world.bias);
    for (int32_t b = 0; b < world.count; b++)
        for (int64_t q = 0; q < 2; q++)
            for (int head = 0; head < HEADS; head++)
                expect_row(&shared, (row_name){b, head, b * 2 + q}, world.table[b], 0, 0,
                           world.kv_used[b], false);
    close_meaning(&m);
}

/* --- latent attention ------------------------------------------------------------------------- */

enum { LATENT = 48, LATENT_VALUE = 32 };

static ftl_mla mla_of(int64_t q_len) {
    ftl_mla m = FTL_MLA_INIT;
    m.dtype = FTL_F16, m.batch = world.count, m.q_len = q_len, m.heads = 3;
    m.head_dim = LATENT, m.value_dim = LATENT_VALUE;
    m.q = (ftl_attention_tensor){at(world.q), q_len * 3 * LATENT, 3 * LATENT, LATENT};
    m.o = (ftl_attention_tensor){at(world.o), q_len * ROW * 2, ROW * 2, LATENT_VALUE};
    m.cache = (ftl_attention_tensor){at(world.k), PAGE * LATENT, LATENT, 0};
    m.pages = (ftl_pages){PAGE, PAGES / 2, at(world.table), COLUMNS, COLUMNS + 1};
    m.kv_lens = at(world.kv_used), m.scale = 0.2, m.causal = true;
    m.workspace = at(world.workspace), m.workspace_bytes = sizeof world.workspace;
    return m;
}

/* Rows of the cache as keys, their first columns as values. */
static void expect_latent_row(const ftl_mla *m, int32_t b, int64_t q, int head) {
    double weights[KEYS], most = -INFINITY, sum = 0, want[LATENT_VALUE] = {0};
    const uint16_t *row = world.q + ((b * m->q_len + q) * 3 + head) * LATENT;
    int64_t keys = world.kv_used[b];
    for (int64_t j = 0; j < keys; j++) {
        const uint16_t *key = world.k + (world.table[b][j / PAGE] * PAGE + j % PAGE) * LATENT;
        weights[j] = 0;
        for (int i = 0; i < LATENT; i++) weights[j] += element(row + i) * element(key + i) * 0.2;
        if (m->q_len > 1 && j > q + keys - m->q_len) weights[j] = -INFINITY;
        most = fmax(most, weights[j]);
    }
    for (int64_t j = 0; j < keys && most > -INFINITY; j++) sum += exp(weights[j] - most);
    for (int64_t j = 0; j < keys && sum > 0; j++) {
        const uint16_t *key = world.k + (world.table[b][j / PAGE] * PAGE + j % PAGE) * LATENT;
        for (int i = 0; i < LATENT_VALUE; i++)
            want[i] += exp(weights[j] - most) / sum * element(key + i);
    }
    for (int i = 0; i < LATENT_VALUE; i++) {
        uint16_t *got = world.o + (b * m->q_len + q) * ROW * 2 + head * LATENT_VALUE + i;
        if (!(fabs(element(got) - want[i]) < 4e-3))
            fail_msg("sequence %d, query %d, head %d, %d: %g, not %g", b, (int)q, head, i,
                     element(got), want[i]);
        *got = UNTOUCHED;
    }
}

/* Of so many pages each: of a few, sequences are one split. */
static void run_latent(int64_t q_len, const char *nominal, int32_t columns) {
    bool is_whole = columns == SHORT_COLUMNS;
    meaning m = {.operator_name = is_whole ? "paged_decode" : "decode"};
    begin(q_lens, kv_lens, 7);
    for (int32_t b = 0; b < 7; b++)
        for (int32_t n = 0; n < COLUMNS; n++) world.table[b][n] = (7 * (b * 3 + n) + 3) % 20;
    choose(&m, true, "group=3"), choose(&m, true, "page_len=16"), choose(&m, true, "latent");
    choose(&m, q_len > 1, "causal");
    pin(&m, "d", "48"), pin(&m, "dv", "32"), choose(&m, true, "columns=32");
    if (nominal) pin(&m, "nominal_q_len", nominal);
    m.sizes[m.size_count++] = (ftl_scalar){"pages", PAGES / 2};
    m.sizes[m.size_count++] = (ftl_scalar){"max_pages", columns};
    m.sizes[m.size_count++] = (ftl_scalar){"q_heads", 3};
    m.sizes[m.size_count++] = (ftl_scalar){"batch", world.count};
    open_meaning(&m);
    ftl_mla call = mla_of(q_len);
    call.pages.columns = columns;
    assert_int_equal(ftl_mla_decode_prepare(context, runtime, &call), FTL_OK);
    assert_int_equal(ftl_mla_decode_workspace(context, runtime, &call, &call.workspace_bytes),
                     FTL_OK);
    assert_true(call.workspace_bytes > 0 && call.workspace_bytes <= sizeof world.workspace);
    driver->on_launch = compute, driver->user = &m;
    if (ftl_mla_decode(context, runtime, &call, NULL) != FTL_OK)
        fail_msg("%s", ftl_context_error(context));
    driver->on_launch = NULL;
    assert_int_equal(m.runs, 1);
    for (size_t i = is_whole ? 0 : call.workspace_bytes; i < sizeof world.workspace; i++)
        assert_int_equal(world.workspace[i], 0x7f);
    for (int32_t b = 0; b < world.count; b++)
        for (int64_t q = 0; q < q_len; q++)
            for (int head = 0; head < 3; head++) expect_latent_row(&call, b, q, head);
    expect_nothing_else();
    close_meaning(&m);
}

static void latent_rows_are_keys_and_values(void **state) {
    (void)state;
    run_latent(1, NULL, COLUMNS);
    run_latent(2, "2", COLUMNS);
    run_latent(1, NULL, SHORT_COLUMNS);
    run_latent(2, "2", SHORT_COLUMNS);
}

/* Blocks of other columns would all write a row's log-sum-exp: one split is then put together, too.
 */
static void latent_sums_are_put_together(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_mla call = mla_of(1);
    call.pages.columns = SHORT_COLUMNS;
    assert_int_equal(ftl_mla_decode(context, runtime, &call, NULL), FTL_OK);
    assert_int_equal(driver->launches, 1);
    call.lse = (ftl_attention_tensor){at(world.lse), 3, 3, 1};
    assert_int_equal(ftl_mla_decode(context, runtime, &call, NULL), FTL_OK);
    assert_int_equal(driver->launches, 3);
    size_t bytes;
    call.batch = 4000;
    assert_int_equal(ftl_mla_decode_workspace(context, runtime, &call, &bytes), FTL_OK);
    assert_true(bytes >= 4000 * 3 * 4 * (LATENT_VALUE + 1));
}

/* The sums of weights that a split leaves for each row, of latent rows of 576 with values of 512.
 */
static double latent_sums(int64_t heads) {
    enum { WIDE = 576, VALUES = 512, BATCH = 1 << 16 };
    size_t bytes = 0;
    ftl_mla m = mla_of(1);
    m.heads = heads, m.head_dim = WIDE, m.value_dim = VALUES, m.batch = BATCH;
    m.pages.columns = 1;
    m.lse = (ftl_attention_tensor){at(world.lse), heads, heads, 1};
    if (ftl_mla_decode_workspace(context, runtime, &m, &bytes) != FTL_OK)
        fail_msg("%s\n%s", ftl_context_error(context), ftl_context_diagnostics(context, false));
    return (double)bytes / (4.0 * (double)BATCH * (double)heads) - VALUES;
}

/* A block makes all columns where two warpgroups can share them; else, and where heads are no
 * boxes, 256, and what was rejected is not asked for again.
 */
static void latent_columns_are_all_made_where_they_can_be(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    assert_true(latent_sums(16) == 2);
    int compiles = compiler->compiles;
    assert_true(latent_sums(16) == 2);
    assert_int_equal(compiler->compiles, compiles);
    driver->capability = 90;
    ftl_runtime_close(runtime);
    open_runtime(false);
    assert_true(latent_sums(16) == 1);
    assert_true(latent_sums(128) == 1);
    assert_true(latent_sums(3) == 2);
}

/* Kernels for all numbers of splits are made beforehand. */
static void all_kernels_are_prepared(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_decode_prepare(context, runtime, &c), FTL_OK);
    assert_int_equal(compiler->compiles, 7);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 2);
    c.pages.columns = SHORT_COLUMNS;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 3);
    c.total_keys = 1;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 7);
    assert_int_equal(compiler->compiles, 7);
}

/* Blocks of the launches of a call, in turn. */
static unsigned grids[4];
static int grid_count;

static void note_grid(void *user, const unsigned char *parameters) {
    (void)user, (void)parameters;
    assert_true(grid_count < 4);
    grids[grid_count++] = driver->grid;
}

/* As many splits as run at once, in numbers that the second kernel reads evenly: each of some keys,
 * and of more the more of them there are. With the next smaller number they would be longer.
 */
static void splits_are_even(void **state) {
    (void)state;
    static const int64_t columns[] = {1, 9, 33, 65, 512, 8192};
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    int64_t most = 0;
    for (int i = 0; i < 6; i++) {
        for (c.batch = 1; c.batch < 300; c.batch += 1 + c.batch / 3) {
            c.pages.columns = columns[i], c.workspace_bytes = SIZE_MAX;
            driver->on_launch = note_grid, grid_count = 0;
            assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
            int64_t splits = grids[0] / (c.batch * KV_HEADS);
            assert_int_equal(grid_count, splits == 1 ? 1 : 2);
            assert_int_equal(splits * c.batch * KV_HEADS, grids[0]);
            bool is_even = splits == 1 || splits == 2 || splits == 4 || splits % 8 == 0;
            int64_t room = columns[i] * PAGE, cuts = (room + 63) / 64;
            bool is_room = splits == 1 || (splits * 64 <= room && 2 * splits * splits <= room);
            int64_t fewer = splits > 8 ? splits - 8 : splits / 2;
            bool is_longer =
                splits == 1 || (cuts + fewer - 1) / fewer > (cuts + splits - 1) / splits;
            if (!is_even || !is_room || !is_longer)
                fail_msg("%d splits of %d sequences", (int)splits, (int)c.batch);
            most = splits > most ? splits : most;
        }
    }
    driver->on_launch = NULL;
    assert_true(most >= 64);
}

/* The splits that a call of latent decoding has, by its grid. */
static int64_t splits_in(const ftl_mla *m) {
    driver->on_launch = note_grid, grid_count = 0;
    assert_int_equal(ftl_mla_decode(context, runtime, m, NULL), FTL_OK);
    driver->on_launch = NULL;
    assert_int_equal(grids[0] % m->batch, 0);
    int64_t splits = grids[0] / m->batch;
    assert_int_equal(grid_count, splits == 1 ? 1 : 2);
    return splits;
}

/* Fewer keys than there is room for: sequences are split more, as far as the memory reaches and
 * what splits leave is worth it; with as many as there is room for, or more, as without a number.
 */
static void fewer_keys_are_split_more(void **state) {
    (void)state;
    enum { COUNT = 64, ROOM = 512 * PAGE, PART = 4 * 3 * (LATENT_VALUE + 1), KEY = 2 * LATENT };
    begin(q_lens, kv_lens, 7);
    ftl_mla c = mla_of(1);
    c.batch = COUNT, c.pages.columns = ROOM / PAGE, c.workspace_bytes = SIZE_MAX;
    int64_t plain = splits_in(&c), before = 0, most = 0;
    size_t least, wanted;
    assert_int_equal(ftl_mla_decode_workspace(context, runtime, &c, &least), FTL_OK);
    static const int64_t totals[] = {
        INT64_MAX, COUNT * ROOM + 1, COUNT * ROOM, 200000, 77701, 30000, 5000, 64, 1};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        c.total_keys = totals[i], c.workspace_bytes = SIZE_MAX;
        int64_t splits = splits_in(&c);
        assert_int_equal(ftl_mla_decode_workspace(context, runtime, &c, &wanted), FTL_OK);
        assert_true(splits == 1 || splits == 2 || splits == 4 || splits % 8 == 0);
        assert_true(splits >= plain && wanted >= least);
        assert_true((size_t)(splits * COUNT * PART) <= wanted);
        if (totals[i] >= COUNT * ROOM) assert_int_equal(splits, plain);
        else if (splits > plain) assert_true(splits * COUNT * PART <= totals[i] * KEY / 4);
        most = splits > most ? splits : most;
        c.workspace_bytes = wanted; /* is enough for them */
        assert_int_equal(splits_in(&c), splits);
        c.workspace_bytes = least; /* does, with fewer */
        int64_t fewer = splits_in(&c);
        assert_true(fewer >= plain && (size_t)(fewer * COUNT * PART) <= least);
        c.workspace_bytes = least - 1;
        assert_int_equal(ftl_mla_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
        if (totals[i] >= 77701) assert_true(splits >= before);
        before = splits;
    }
    assert_true(most > plain);
    c.workspace_bytes = least, c.batch = COUNT - 1; /* and for a smaller batch */
    (void)splits_in(&c);
}

/* Of sequences of keys and values, splits then go by the table of lengths: four kernels, whose
 * grids depend on the batch and that number alone. Not where sequences nearly fill their room, nor
 * of more of them than tables are made for, nor where lengths cannot be read four at a time; with
 * too little memory for that, as without a number.
 */
static void fewer_keys_are_stretches(void **state) {
    (void)state;
    enum { ROOM = COLUMNS * PAGE };
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    size_t bytes, told;
    assert_int_equal(ftl_attention_decode_workspace(context, runtime, &c, &bytes), FTL_OK);
    driver->on_launch = note_grid;
    for (int64_t size = 1; size <= 8192; size *= 4) {
        unsigned blocks = 0, changes = 0;
        for (int64_t total = 1; total <= size * ROOM; total += total < 32 ? 31 : total / 2) {
            c.batch = size, c.total_keys = total, grid_count = 0, c.workspace_bytes = SIZE_MAX;
            assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
            bool is_stretched = size <= 4096 && total * 8 < size * ROOM * 7;
            assert_int_equal(grid_count == 4, is_stretched);
            if (!is_stretched) continue;
            assert_int_equal(grids[0], size + 1);
            assert_true(grids[1] > size && grids[2] == grids[1] * KV_HEADS);
            assert_int_equal(grids[3], size * HEADS);
            assert_true(grids[1] >= blocks); /* one round more where splits are long */
            changes += blocks && grids[1] > blocks;
            blocks = grids[1];
        }
        assert_true(changes <= 1);
    }
    c.batch = 7, c.total_keys = 900, grid_count = 0, c.workspace_bytes = bytes;
    assert_int_equal(ftl_attention_decode_workspace(context, runtime, &c, &told), FTL_OK);
    assert_int_equal(told, bytes); /* what is there without a number is enough */
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(grid_count, 4);
    grid_count = 0, c.workspace_bytes = bytes - 1;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(grid_count, 2);
    grid_count = 0, c.workspace_bytes = bytes, c.batch = 6, c.kv_lens += 4;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(grid_count, 2);
    driver->on_launch = NULL;
}

/* What a batch needs does for any smaller one, and splits are no more than there is room for. */
static void workspaces_do_for_smaller_batches(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    size_t before = 0;
    unsigned most = 0;
    for (int64_t size = 1; size < 5000; size = 3 * size / 2 + 1) {
        size_t bytes;
        c.batch = size, c.workspace_bytes = SIZE_MAX;
        assert_int_equal(ftl_attention_decode_workspace(context, runtime, &c, &bytes), FTL_OK);
        assert_true(bytes >= before);
        before = bytes, driver->on_launch = NULL;
        c.pages.columns = 512; /* 8,192 keys */
        assert_int_equal(ftl_attention_decode_workspace(context, runtime, &c, &bytes), FTL_OK);
        assert_int_equal(bytes, before); /* however long sequences may be */
        c.pages.columns = COLUMNS;
        assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
        most = driver->grid > most ? driver->grid : most;
    }
    assert_true(most >= 4999 / 3 * 2 * KV_HEADS / 2);
    c.workspace_bytes = 16;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
    assert_non_null(strstr(ftl_context_error(context), "ftl_attention_decode_workspace"));
    c.workspace_bytes = before, c.workspace += 8;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
}

/* --- new keys --------------------------------------------------------------------------------- */

enum { NEW = 21, PLACES = 50 };

static struct {
    _Alignas(16) uint16_t q[NEW * ROW], rotated[NEW * ROW], k[NEW * KV_ROW], v[NEW * KV_ROW];
    float cosine[PLACES * D], sine[PLACES * D]; /* rows of D, of which a part is used */
    int32_t slots[NEW], places[NEW];
} fresh;

static void begin_append(void) {
    begin(q_lens, kv_lens, 7);
    fill(fresh.q, NEW * ROW, 11), fill(fresh.k, NEW * KV_ROW, 12), fill(fresh.v, NEW * KV_ROW, 13);
    memset(fresh.rotated, 0, sizeof fresh.rotated);
    for (int i = 0; i < PLACES * D; i++) {
        fresh.cosine[i] = (float)cos(i / D * pow(0.3, i % D));
        fresh.sine[i] = (float)sin(i / D * pow(0.3, i % D));
    }
    for (int i = 0; i < NEW; i++) {
        fresh.slots[i] = (i * 37 + 11) % (PAGES * PAGE), fresh.places[i] = (i * 7 + 3) % PLACES;
    }
}

static ftl_append append_of(int64_t rotary_dim, bool is_interleaved) {
    ftl_append a = FTL_APPEND_INIT;
    a.dtype = FTL_F16, a.tokens = NEW;
    a.q_heads = rotary_dim ? HEADS : 0, a.kv_heads = KV_HEADS, a.head_dim = D;
    a.q = (ftl_attention_tensor){at(fresh.q), 0, ROW, D};
    a.q_rotated = (ftl_attention_tensor){at(fresh.rotated), 0, ROW, D};
    a.k = (ftl_attention_tensor){at(fresh.k), 0, KV_ROW, D};
    a.v = (ftl_attention_tensor){at(fresh.v), 0, KV_ROW, D};
    a.k_pool = (ftl_attention_tensor){at(world.k), PAGE * KV_ROW, KV_ROW, D};
    a.v_pool = (ftl_attention_tensor){at(world.v), PAGE * KV_ROW, KV_ROW, D};
    a.page_len = PAGE, a.pages = PAGES;
    a.slots = at(fresh.slots);
    a.rotary_dim = rotary_dim, a.is_interleaved = is_interleaved;
    a.cosine = at(fresh.cosine), a.sine = at(fresh.sine);
    a.angle_stride = D, a.places_count = PLACES, a.places = at(fresh.places);
    return a;
}

static meaning *turns[2];
static int turn;

static void compute_in_turn(void *user, const unsigned char *parameters) {
    (void)user;
    assert_true(turn < 2);
    compute(turns[turn++], parameters);
}

static void expect_near(const uint16_t *got, double want, const char *what, int i) {
    if (!(fabs(element(got) - want) < 2e-3))
        fail_msg("%s, %d: %g, not %g", what, i, element(got), want);
}

/* A row of D, rotated at a place. */
static void rotate(const uint16_t *row, int32_t place, int64_t rotary_dim, bool is_interleaved,
                   double *out) {
    for (int i = 0; i < D; i++) out[i] = element(row + i);
    for (int i = 0; i < rotary_dim / 2; i++) {
        int first = is_interleaved ? 2 * i : i;
        int second = is_interleaved ? 2 * i + 1 : (int)rotary_dim / 2 + i;
        double c = (double)fresh.cosine[place * D + i], s = (double)fresh.sine[place * D + i];
        double x = out[first], y = out[second];
        out[first] = x * c - y * s, out[second] = y * c + x * s;
    }
}

/* Each new row is in its place; all others are as they were before. */
static void expect_pools(const batch *before, int64_t rotary_dim, bool is_interleaved) {
    int token_of[PAGES * PAGE];
    double want[D];
    for (int s = 0; s < PAGES * PAGE; s++) token_of[s] = -1;
    for (int i = 0; i < NEW; i++) token_of[fresh.slots[i]] = i;
    for (int s = 0; s < PAGES * PAGE; s++) {
        const uint16_t *k = world.k + s * KV_ROW, *v = world.v + s * KV_ROW;
        if (token_of[s] < 0) {
            assert_memory_equal(k, before->k + s * KV_ROW, KV_ROW * sizeof *k);
            assert_memory_equal(v, before->v + s * KV_ROW, KV_ROW * sizeof *v);
            continue;
        }
        const uint16_t *k_new = fresh.k + token_of[s] * KV_ROW;
        assert_memory_equal(v, fresh.v + token_of[s] * KV_ROW, KV_HEADS * D * sizeof *v);
        for (int h = 0; h < KV_HEADS; h++) {
            rotate(k_new + h * D, fresh.places[token_of[s]], rotary_dim, is_interleaved, want);
            for (int i = 0; i < D; i++) expect_near(k + h * D + i, want[i], "key", s);
        }
    }
}

static batch before_append;

static void run_append(int64_t rotary_dim, bool is_interleaved, const char *half) {
    meaning keys = {.operator_name = "append"}, queries = {.operator_name = "rotate"};
    begin_append();
    before_append = world;
    choose(&keys, is_interleaved, "interleaved"), choose(&queries, is_interleaved, "interleaved");
    choose(&keys, !rotary_dim, "plain");
    pin(&keys, "d", "16"), pin(&keys, "dv", "16"), pin(&keys, "page_len", "16");
    pin(&queries, "d", "16");
    if (rotary_dim) pin(&keys, "half", half), pin(&queries, "half", half);
    keys.sizes[keys.size_count++] = (ftl_scalar){"pages", PAGES};
    open_meaning(&keys);
    if (rotary_dim) open_meaning(&queries);
    turn = 0, turns[0] = &keys, turns[1] = &queries;
    driver->on_launch = compute_in_turn;
    ftl_append a = append_of(rotary_dim, is_interleaved);
    if (ftl_attention_append(context, runtime, &a, NULL) != FTL_OK)
        fail_msg("%s", ftl_context_error(context));
    driver->on_launch = NULL;
    assert_int_equal(turn, rotary_dim ? 2 : 1);
    expect_pools(&before_append, rotary_dim, is_interleaved);
    for (int i = 0; rotary_dim && i < NEW * HEADS; i++) {
        double want[D];
        rotate(fresh.q + i * D, fresh.places[i / HEADS], rotary_dim, is_interleaved, want);
        for (int e = 0; e < D; e++) expect_near(fresh.rotated + i * D + e, want[e], "query", i);
    }
    close_meaning(&keys);
    if (rotary_dim) close_meaning(&queries);
}

static void new_keys_are_rotated_into_their_places(void **state) {
    (void)state;
    run_append(D, false, "8");
    run_append(D, true, "8");
    run_append(8, false, "4");
    run_append(6, true, "3");
    run_append(0, false, NULL);
}

/* --- what a call costs ------------------------------------------------------------------------ */

/* Tables may say anything: the same kernel, the same grid, nothing made, nothing waited for. */
static void launches_go_by_no_table(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_varlen v = varlen_of();
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_varlen_prepare(context, runtime, &v), FTL_OK);
    assert_int_equal(ftl_attention_decode_prepare(context, runtime, &c), FTL_OK);
    assert_int_equal(driver->launches, 0);
    int compiles = compiler->compiles, allocations = driver->allocations;
    driver->query_result = 600; /* never ready: a wait would not end */
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_OK);
    unsigned grid = driver->grid;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    memset(world.q_start, 0xff, sizeof world.q_start);
    memset(world.kv_used, 0xff, sizeof world.kv_used);
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_OK);
    assert_int_equal(driver->grid, grid);
    v.max_q_len = 4 * 64;
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_OK);
    assert_true(driver->grid > grid);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 7); /* decoding has two */
    assert_int_equal(compiler->compiles, compiles);
    assert_int_equal(driver->allocations, allocations);
}

/* Of two kernels of a call the second begins while the first ends, where the GPU has it. */
static void second_kernels_begin_early(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 2);
    assert_int_equal(driver->early_launches, 0);
    driver->capability = 90;
    ftl_runtime_close(runtime);
    open_runtime(false);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 4);
    assert_int_equal(driver->early_launches, 1);
    c.pages.columns = SHORT_COLUMNS; /* the only kernel of a call */
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 5);
    assert_int_equal(driver->early_launches, 1);
    c.total_keys = 1; /* all but the first */
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(driver->launches, 9);
    assert_int_equal(driver->early_launches, 4);
    driver->launches = 5, driver->early_launches = 1;
    begin_append();
    ftl_append a = append_of(D, false);
    assert_int_equal(ftl_attention_append(context, runtime, &a, NULL), FTL_OK);
    assert_int_equal(driver->launches, 7);
    assert_int_equal(driver->early_launches, 2);
    a.q_heads = 0; /* keys alone */
    assert_int_equal(ftl_attention_append(context, runtime, &a, NULL), FTL_OK);
    assert_int_equal(driver->launches, 8);
    assert_int_equal(driver->early_launches, 2);
}

static void kernels_by_page_group_and_queries(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    c.batch = 3, c.causal = true; /* one query sees all keys */
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(compiler->compiles, 2);
    c.q_len = 5;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    c.q_len = 8;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(compiler->compiles, 4);
    c.pages.page_len = 32;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    c.kv_heads = 1;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    assert_int_equal(compiler->compiles, 8);
}

/* Both kernels of decoding are in the cache: the next start compiles none. */
static void programs_of_two_kernels_are_cached(void **state) {
    (void)state;
    char folder[256];
    os_error why;
    assert_true(os_temporary_folder(folder, &why));
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    for (int start = 0; start < 3; start++) {
        ftl_runtime *other;
        ftl_runtime_options options = FTL_RUNTIME_OPTIONS_INIT;
        options.cuda_library = FAKE_CUDA, options.nvrtc_library = FAKE_NVRTC;
        options.cache_folder = folder, options.is_unverified = true;
        assert_int_equal(ftl_runtime_open(context, &options, &other), FTL_OK);
        assert_int_equal(ftl_attention_decode(context, other, &c, NULL), FTL_OK);
        ftl_runtime_close(other);
        assert_int_equal(compiler->compiles, 2);
        assert_int_equal(driver->loads, 2 * (start + 1));
        assert_int_equal(driver->unloads, driver->loads);
    }
    os_remove_folder(folder);
}

/* --- wrong calls ------------------------------------------------------------------------------ */

#define REFUSED(call, fresh, change, words)                                                        \
    do {                                                                                           \
        fresh;                                                                                     \
        change;                                                                                    \
        assert_int_equal(call, FTL_INVALID_ARGUMENT);                                              \
        if (!strstr(ftl_context_error(context), words))                                            \
            fail_msg("'%s' is not in '%s'", words, ftl_context_error(context));                    \
    } while (0)

static void wrong_calls_are_told(void **state) {
    (void)state;
    begin(q_lens, kv_lens, 7);
    ftl_varlen v;
    ftl_decode c;
#define VARLEN(change, words)                                                                      \
    REFUSED(ftl_attention_varlen(context, runtime, &v, NULL), v = varlen_of(), change, words)
    VARLEN(v.struct_bytes = 8, "FTL_VARLEN_INIT");
    VARLEN(v.batch = -1, "negative");
    VARLEN(v.batch = INT32_MAX, "2^31");
    VARLEN(v.max_q_len = -1, "negative");
    VARLEN(v.pages.page_len = -1, "1 to 1024 tokens");
    VARLEN(v.pages.page_len = 1025; v.kv_used = 4, "1 to 1024 tokens");
    VARLEN(v.pages.page_len = 16, "kv_used is null");
    VARLEN(v.q_start = 0, "q_start");
    VARLEN(v.kv_start = at(world.kv_start) + 2, "kv_start");
    VARLEN(v.k.length_stride = 7, "K_all");
    VARLEN(v.kv_heads = 3, "q_heads % kv_heads");
    VARLEN(v.dtype = FTL_F32, "FTL_F16 or FTL_BF16");
    VARLEN(v.q_tokens = -1, "");
#undef VARLEN
#define DECODE(change, words)                                                                      \
    REFUSED(ftl_attention_decode(context, runtime, &c, NULL), c = decode_of(1), change, words)
    DECODE(c.struct_bytes = 8, "FTL_DECODE_INIT");
    DECODE(c.q_len = -1, "negative");
    DECODE(c.kv_heads = 3, "multiple of kv_heads");
    DECODE(c.kv_heads = 0, "multiple of kv_heads");
    DECODE(c.pages.page_len = 0, "page_len is 0");
    DECODE(c.pages.page_len = 4096, "1 to 1024 tokens");
    DECODE(c.pages.table = 0, "table");
    DECODE(c.kv_lens = 0, "kv_lens");
    DECODE(c.v.batch_stride = 9, "'V'");
    DECODE(c.workspace = 0, "workspace has 0 bytes");
    DECODE(c.workspace_bytes = 64, "workspace has 64 bytes");
    DECODE(c.pages.columns = -1, "columns");
    DECODE(c.total_keys = -1, "total_keys may not be negative");
    DECODE(c.scale = -1, "scale");
    DECODE(c.scoring.window_before = -1, "0 or positive");
    DECODE(c.scoring.window_after = -1, "0 or positive");
    DECODE(c.scoring.chunk = -1, "0 or positive");
    DECODE(c.scoring.bias = at(world.bias) + 2, "multiple of 4");
    DECODE(c.scoring.bias = at(world.bias); c.scoring.bias_columns = -1, "bias_columns");
#undef DECODE
    ftl_mla l;
#define LATENT_CALL(change, words)                                                                 \
    REFUSED(ftl_mla_decode(context, runtime, &l, NULL), l = mla_of(1), change, words)
    LATENT_CALL(l.struct_bytes = 8, "FTL_MLA_INIT");
    LATENT_CALL(l.value_dim = LATENT + 1, "value_dim is from 1 to head_dim");
    LATENT_CALL(l.value_dim = 0, "value_dim is from 1 to head_dim");
    LATENT_CALL(l.scale = 0, "before they were absorbed");
    LATENT_CALL(l.scale = (double)NAN, "before they were absorbed");
    LATENT_CALL(l.heads = 0, "1 to 32767 heads");
    LATENT_CALL(l.batch = -1, "negative");
    LATENT_CALL(l.pages.page_len = 0, "page_len is 0");
    LATENT_CALL(l.cache.address = 0, "'K'");
    LATENT_CALL(l.kv_lens = 0, "kv_lens");
    LATENT_CALL(l.workspace_bytes = 16, "ftl_mla_decode_workspace");
#undef LATENT_CALL
    begin_append();
    ftl_append a;
#define APPEND(change, words)                                                                      \
    REFUSED(ftl_attention_append(context, runtime, &a, NULL), a = append_of(8, false), change,     \
            words)
    APPEND(a.struct_bytes = 8, "FTL_APPEND_INIT");
    APPEND(a.tokens = -1, "negative");
    APPEND(a.rotary_dim = 7, "rotary_dim is even");
    APPEND(a.rotary_dim = D + 2, "rotary_dim is even");
    APPEND(a.rotary_dim = 0, "q_heads has to be 0");
    APPEND(a.q_rotated = a.q, "same memory");
    APPEND(a.page_len = 0, "page_len is 0");
    APPEND(a.page_len = 2048, "1 to 1024 tokens");
    APPEND(a.tokens = PAGES * PAGE + 1; a.q_heads = 0, "tokens <= pages*page_len");
    APPEND(a.slots = 0; a.q_heads = 0, "slot");
    APPEND(a.cosine = 0, "cosine");
#undef APPEND
    assert_int_equal(driver->launches, 0);
}

/* --- tables that are wrong -------------------------------------------------------------------- */

static void reopen_with_checks(bool by_environment) {
    ftl_runtime_close(runtime);
    if (by_environment) setenv("FLASHTL_CHECK", "1", 1);
    open_runtime(!by_environment);
    unsetenv("FLASHTL_CHECK");
}

static void refuse_varlen(ftl_varlen v, const char *words) {
    int launches = driver->launches;
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), words);
    assert_int_equal(driver->launches, launches);
}

static void wrong_tables_are_found_on_request(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        reopen_with_checks(way == 1);
        begin(q_lens, kv_lens, 7);
        ftl_varlen v = varlen_of();
        assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_OK);
        world.q_start[4] = 2;
        refuse_varlen(v, "q_start[4] is 2, below the start before it: 9");
        begin(q_lens, kv_lens, 7);
        world.q_start[0] = -1;
        refuse_varlen(v, "q_start[0] is -1, below the start before it: 0");
        begin(q_lens, kv_lens, 7);
        v.q_tokens = 58;
        refuse_varlen(v, "q_start[7] is 59; there are 58 tokens");
        v.q_tokens = TOKENS, v.max_q_len = 36;
        refuse_varlen(v, "sequence 4 has 37 queries; max_q_len is 36");
        v.max_q_len = 64, v.q_used = at(world.q_used);
        world.q_used[2] = 2;
        refuse_varlen(v, "q_used[2] is 2; it may be 0 to 1");
        world.q_used[2] = -3;
        refuse_varlen(v, "q_used[2] is -3; it may be 0 to 1");
        v.q_used = 0, v.kv_used = at(world.kv_used);
        world.kv_used[4] = 61;
        refuse_varlen(v, "kv_used[4] is 61; it may be 0 to 60");
        world.kv_used[4] = 60, world.kv_start[3] = 1;
        refuse_varlen(v, "kv_start[3] is 1, below the start before it: 15");
    }
}

static void refuse_decode(const char *words) {
    ftl_decode c = decode_of(1);
    ftl_varlen v = varlen_of();
    in_pages(&v.pages, &v.k, &v.v);
    v.kv_used = at(world.kv_used);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), words);
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_INVALID_ARGUMENT);
    if (world.kv_used[4] <= COLUMNS * PAGE && world.kv_used[4] >= 0)
        assert_string_equal(ftl_context_error(context), words);
}

static void wrong_pages_are_found_on_request(void **state) {
    (void)state;
    reopen_with_checks(false);
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    world.table[4][3] = 1000000; /* past the pages that are read: of no matter */
    assert_int_equal(world.kv_used[4], 45);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    world.table[4][2] = -1;
    refuse_decode("entry 2 of the table's row 4 is -1; there are 40 pages");
    world.table[4][2] = PAGES;
    refuse_decode("entry 2 of the table's row 4 is 40; there are 40 pages");
    world.table[4][2] = world.table[4][0];
    refuse_decode("row 4 of the table names page 3 twice, as entries 0 and 2");
    begin(q_lens, kv_lens, 7);
    world.kv_used[4] = COLUMNS * PAGE + 1;
    refuse_decode("kv_lens[4] is 321; it may be 0 to 320");
    world.kv_used[4] = -1;
    refuse_decode("kv_lens[4] is -1; it may be 0 to 320");
}

static void refuse_scoring(ftl_scoring s, const char *words) {
    ftl_decode c = decode_of(1);
    ftl_varlen v = varlen_of();
    c.scoring = v.scoring = s;
    v.kv_used = at(world.kv_used);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), words);
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), words);
}

static void wrong_paddings_and_biases_are_found_on_request(void **state) {
    (void)state;
    static const rules both = {.has_bias = true, .is_padded = true};
    reopen_with_checks(false);
    begin(q_lens, kv_lens, 7);
    ftl_scoring s = scoring_of(&both, 1);
    ftl_decode c = decode_of(1);
    c.scoring = s;
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    world.padding[2] = -1;
    refuse_scoring(s, "padding[2] is -1; the sequence has 1 keys");
    world.padding[2] = 2;
    refuse_scoring(s, "padding[2] is 2; the sequence has 1 keys");
    world.padding[2] = 1, s.bias_columns = 44;
    refuse_scoring(s, "sequence 4 has 45 keys; bias_columns is 44");
    ftl_varlen v = varlen_of();
    v.scoring = s, v.scoring.bias_columns = 59;
    assert_int_equal(ftl_attention_varlen(context, runtime, &v, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), "sequence 4 has 60 keys; bias_columns is 59");
}

/* A program that was compiled when the structs ended before 'scoring'. */
static void shorter_structs_are_taken(void **state) {
    (void)state;
    struct {
        ftl_decode call;
    } old;
    begin(q_lens, kv_lens, 7);
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_OK);
    int compiles = compiler->compiles;
    memset(&old, 0x5a, sizeof old); /* what is after it */
    c.struct_bytes = offsetof(ftl_decode, scoring);
    memcpy(&old, &c, c.struct_bytes);
    assert_int_equal(ftl_attention_decode(context, runtime, &old.call, NULL), FTL_OK);
    assert_int_equal(compiler->compiles, compiles);
    old.call.struct_bytes--;
    assert_int_equal(ftl_attention_decode(context, runtime, &old.call, NULL), FTL_INVALID_ARGUMENT);
    ftl_mla m = mla_of(1), old_m;
    memset(&old_m, 0x5a, sizeof old_m);
    m.struct_bytes = offsetof(ftl_mla, total_keys);
    memcpy(&old_m, &m, m.struct_bytes);
    assert_int_equal(ftl_mla_decode(context, runtime, &old_m, NULL), FTL_OK);
    old_m.struct_bytes--;
    assert_int_equal(ftl_mla_decode(context, runtime, &old_m, NULL), FTL_INVALID_ARGUMENT);
}

/* Latent attention's tables are those of decoding. */
static void wrong_latent_pages_are_found_on_request(void **state) {
    (void)state;
    reopen_with_checks(true);
    begin(q_lens, kv_lens, 7);
    for (int32_t b = 0; b < 7; b++)
        for (int32_t n = 0; n < COLUMNS; n++) world.table[b][n] = n;
    ftl_mla m = mla_of(1);
    assert_int_equal(ftl_mla_decode(context, runtime, &m, NULL), FTL_OK);
    world.table[4][2] = (int32_t)m.pages.count;
    assert_int_equal(ftl_mla_decode(context, runtime, &m, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context),
                        "entry 2 of the table's row 4 is 20; there are 20 pages");
    world.table[4][2] = 2, world.kv_used[0] = -1;
    assert_int_equal(ftl_mla_decode(context, runtime, &m, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), "kv_lens[0] is -1; it may be 0 to 320");
}

static void refuse_append(const char *words) {
    ftl_append a = append_of(8, false);
    assert_int_equal(ftl_attention_append(context, runtime, &a, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), words);
    begin_append();
}

static void wrong_places_are_found_on_request(void **state) {
    (void)state;
    reopen_with_checks(false);
    begin_append();
    ftl_append a = append_of(8, false);
    assert_int_equal(ftl_attention_append(context, runtime, &a, NULL), FTL_OK);
    fresh.slots[20] = -1;
    refuse_append("slots[20] is -1; there are 640");
    fresh.slots[3] = PAGES * PAGE;
    refuse_append("slots[3] is 640; there are 640");
    fresh.slots[3] = fresh.slots[17];
    refuse_append("two entries of slots are 0");
    fresh.places[5] = PLACES;
    refuse_append("places[5] is 50; there are 50");
    fresh.places[0] = -2;
    refuse_append("places[0] is -2; there are 50");
}

static fake_graph graph;

static fake_graph *captures(void *user, void *stream) {
    (void)user;
    return stream ? &graph : NULL;
}

/* A stream that is captured cannot be waited for. */
static void captured_calls_are_not_checked(void **state) {
    (void)state;
    int stream = 0;
    reopen_with_checks(false);
    begin(q_lens, kv_lens, 7);
    world.table[4][2] = -1;
    driver->stream_graph = captures;
    ftl_decode c = decode_of(1);
    assert_int_equal(ftl_attention_decode(context, runtime, &c, &stream), FTL_OK);
    assert_string_equal(ftl_context_take_warning(context),
                        "tables are not checked while a stream is captured");
    assert_int_equal(ftl_attention_decode(context, runtime, &c, NULL), FTL_INVALID_ARGUMENT);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(sequences_of_any_lengths),
        TEST(used_lengths_and_pages),
        TEST(few_sequences),
        TEST(last_tokens_over_pages),
        TEST(one_split_is_one_kernel),
        TEST(stretches_go_by_lengths),
        TEST(scores_by_rules),
        TEST(a_bias_may_be_shared),
        TEST(latent_rows_are_keys_and_values),
        TEST(latent_sums_are_put_together),
        TEST(latent_columns_are_all_made_where_they_can_be),
        TEST(all_kernels_are_prepared),
        TEST(new_keys_are_rotated_into_their_places),
        TEST(launches_go_by_no_table),
        TEST(second_kernels_begin_early),
        TEST(kernels_by_page_group_and_queries),
        TEST(programs_of_two_kernels_are_cached),
        TEST(fewer_keys_are_split_more),
        TEST(fewer_keys_are_stretches),
        TEST(workspaces_do_for_smaller_batches),
        TEST(splits_are_even),
        TEST(wrong_calls_are_told),
        TEST(wrong_tables_are_found_on_request),
        TEST(wrong_pages_are_found_on_request),
        TEST(wrong_paddings_and_biases_are_found_on_request),
        TEST(wrong_latent_pages_are_found_on_request),
        TEST(shorter_structs_are_taken),
        TEST(wrong_places_are_found_on_request),
        TEST(captured_calls_are_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
