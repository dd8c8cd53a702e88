#include "bench/cudnn_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers of cuDNN's binary interface, as its public header gives them. */
enum {
    KIND_POINTWISE = 0,
    KIND_ENGINE_CONFIG = 3,
    KIND_HEURISTICS = 4,
    KIND_PLAN = 5,
    KIND_POINTWISE_OPERATION = 13,
    KIND_GRAPH = 15,
    KIND_PACK = 16,
    KIND_TENSOR = 17,
    KIND_PRODUCT = 18,
    KIND_PRODUCT_OPERATION = 19,
    KIND_REDUCTION = 21,
    KIND_REDUCTION_OPERATION = 22,

    TYPE_HANDLE = 0,
    TYPE_DATA_TYPE = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INT64 = 3,
    TYPE_POINTER = 6,
    TYPE_HEURISTICS_MODE = 8,
    TYPE_POINTWISE_MODE = 14,
    TYPE_DESCRIPTOR = 15,
    TYPE_REDUCTION_MODE = 18,

    DATA_FLOAT = 0,
    DATA_HALF = 2,
    DATA_INT32 = 4,
    DATA_BFLOAT16 = 9,
    DATA_BOOLEAN = 11,

    POINTWISE_MODE = 0,
    POINTWISE_PRECISION = 1,
    POINTWISE_AXIS = 9,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    POINTWISE_OPERATION_MODE = 750,
    POINTWISE_OPERATION_X = 751,
    POINTWISE_OPERATION_B = 752,
    POINTWISE_OPERATION_Y = 753,
    POINTWISE_OPERATION_T = 758,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_IS_VIRTUAL = 907,
    TENSOR_IS_BY_VALUE = 908,
    PACK_IDS = 1000,
    PACK_POINTERS = 1001,
    PACK_WORKSPACE = 1003,
    PRODUCT_PRECISION = 1500,
    PRODUCT_A = 1520,
    PRODUCT_B = 1521,
    PRODUCT_C = 1522,
    PRODUCT_MODE = 1523,
    REDUCTION_MODE = 1600,
    REDUCTION_PRECISION = 1601,
    REDUCTION_X = 1610,
    REDUCTION_Y = 1611,
    REDUCTION_OPERATION_MODE = 1612,

    MODE_ADD = 0,
    MODE_MULTIPLY = 1,
    MODE_DIVIDE = 6,
    MODE_SUBTRACT = 9,
    MODE_EXP = 13,
    MODE_LOG = 15,
    MODE_TANH = 101,
    MODE_GREATER = 302,
    MODE_GREATER_EQUAL = 303,
    MODE_INDEX = 501,
    MODE_SELECT = 601,

    REDUCE_ADD = 0,
    REDUCE_MAX = 3,

    HEURISTICS_A = 3,
    CONFIGS_MAX = 8,
    AXES = 4,
    BYTES_ALIGNED = 16
};

enum { ID_Q = 1, ID_K, ID_V, ID_O, ID_FIRST_FREE };

typedef int64_t shape[AXES];

/* --- descriptors ------------------------------------------------------------------------------ */

static void note(cudnn_graph *g, int result, const char *what) {
    if (!result || g->status) return;
    g->status = result;
    g->trouble = what;
}

static void *make(cudnn_graph *g, int kind) {
    void *descriptor = NULL;
    if (g->status) return NULL;
    if (g->descriptor_count == CUDNN_DESCRIPTORS_MAX) {
        note(g, -1, "hold more descriptors");
        return NULL;
    }
    note(g, g->cudnn->call.descriptor_new(kind, &descriptor), "make a descriptor");
    if (!g->status) g->descriptors[g->descriptor_count++] = descriptor;
    return descriptor;
}

static void set(cudnn_graph *g, void *descriptor, int name, int type, int64_t count,
                const void *values) {
    if (g->status) return;
    note(g, g->cudnn->call.set(descriptor, name, type, count, values), "describe the graph");
}

static void set_number(cudnn_graph *g, void *descriptor, int name, int type, int32_t value) {
    set(g, descriptor, name, type, 1, &value);
}

static void set_link(cudnn_graph *g, void *descriptor, int name, void *other) {
    if (other) set(g, descriptor, name, TYPE_DESCRIPTOR, 1, &other);
}

static void *finish(cudnn_graph *g, void *descriptor, const char *what) {
    if (!g->status) note(g, g->cudnn->call.finalize(descriptor), what);
    return descriptor;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void *tensor(cudnn_graph *g, int64_t id, int data_type, const shape sizes,
                    const shape strides, int flag) {
    void *t = make(g, KIND_TENSOR);
    int64_t alignment = BYTES_ALIGNED;
    bool yes = true;
    set_number(g, t, TENSOR_TYPE, TYPE_DATA_TYPE, data_type);
    set(g, t, TENSOR_SIZES, TYPE_INT64, AXES, sizes);
    set(g, t, TENSOR_STRIDES, TYPE_INT64, AXES, strides);
    set(g, t, TENSOR_ID, TYPE_INT64, 1, &id);
    set(g, t, TENSOR_ALIGNMENT, TYPE_INT64, 1, &alignment);
    if (flag) set(g, t, flag, TYPE_BOOLEAN, 1, &yes);
    return finish(g, t, "describe a tensor");
}

/* What stays inside the kernel: scores, or a value per row. */
static void *inner(cudnn_graph *g, int data_type, bool is_per_row) {
    const bench_attention *a = &g->what;
    int64_t columns = is_per_row ? 1 : a->kv_len;
    shape sizes = {a->batch, a->q_heads, a->q_len, columns};
    shape strides = {a->q_heads * a->q_len * columns, a->q_len * columns, columns, 1};
    return tensor(g, g->next_id++, data_type, sizes, strides, TENSOR_IS_VIRTUAL);
}

static void *scalar(cudnn_graph *g, int data_type, double value) {
    static const shape ones = {1, 1, 1, 1};
    if (g->value_count == CUDNN_VALUES_MAX) {
        note(g, -1, "hold more scalars");
        return NULL;
    }
    int64_t id = g->next_id++;
    g->values[g->value_count].id = id;
    if (data_type == DATA_INT32) g->values[g->value_count].value.integer = (int32_t)value;
    else g->values[g->value_count].value.real = (float)value;
    g->value_count++;
    return tensor(g, id, data_type, ones, ones, TENSOR_IS_BY_VALUE);
}

/* (batch, length, heads, d) in memory, as (batch, heads, length, d), or with its last two axes
 * exchanged.
 */
static void *matrix(cudnn_graph *g, int64_t id, int64_t heads, int64_t length, int64_t d,
                    bool is_transposed) {
    int type = g->dtype == FTL_BF16 ? DATA_BFLOAT16 : DATA_HALF;
    shape sizes = {g->what.batch, heads, length, d};
    shape strides = {length * heads * d, d, heads * d, 1};
    if (is_transposed) sizes[2] = d, sizes[3] = length, strides[2] = 1, strides[3] = heads * d;
    return tensor(g, id, type, sizes, strides, 0);
}

/* --- operations ------------------------------------------------------------------------------- */

static void add_operation(cudnn_graph *g, void *operation) {
    finish(g, operation, "describe an operation");
    if (g->operation_count == CUDNN_OPERATIONS_MAX) note(g, -1, "hold more operations");
    else g->operations[g->operation_count++] = operation;
}

static void *multiply(cudnn_graph *g, void *a, void *b, void *c) {
    void *mode = make(g, KIND_PRODUCT);
    set_number(g, mode, PRODUCT_PRECISION, TYPE_DATA_TYPE, DATA_FLOAT);
    finish(g, mode, "describe a product");
    void *operation = make(g, KIND_PRODUCT_OPERATION);
    set_link(g, operation, PRODUCT_A, a);
    set_link(g, operation, PRODUCT_B, b);
    set_link(g, operation, PRODUCT_C, c);
    set_link(g, operation, PRODUCT_MODE, mode);
    add_operation(g, operation);
    return c;
}

typedef struct pointwise {
    int mode, precision;
    void *x, *b, *t; /* b, t may be NULL */
    void *y;
    int64_t axis; /* of MODE_INDEX; else 0 */
} pointwise;

static void *apply(cudnn_graph *g, pointwise p) {
    void *mode = make(g, KIND_POINTWISE);
    set_number(g, mode, POINTWISE_MODE, TYPE_POINTWISE_MODE, p.mode);
    set_number(g, mode, POINTWISE_PRECISION, TYPE_DATA_TYPE, p.precision);
    if (p.axis) set(g, mode, POINTWISE_AXIS, TYPE_INT64, 1, &p.axis);
    finish(g, mode, "describe an operation");
    void *operation = make(g, KIND_POINTWISE_OPERATION);
    set_link(g, operation, POINTWISE_OPERATION_MODE, mode);
    set_link(g, operation, POINTWISE_OPERATION_X, p.x);
    set_link(g, operation, POINTWISE_OPERATION_B, p.b);
    set_link(g, operation, POINTWISE_OPERATION_T, p.t);
    set_link(g, operation, POINTWISE_OPERATION_Y, p.y);
    add_operation(g, operation);
    return p.y;
}

static void *apply_float(cudnn_graph *g, int mode, void *x, void *b, bool is_per_row) {
    return apply(g, (pointwise){.mode = mode,
                                .precision = DATA_FLOAT,
                                .x = x,
                                .b = b,
                                .y = inner(g, DATA_FLOAT, is_per_row)});
}

static void *reduce(cudnn_graph *g, int how, void *x) {
    void *mode = make(g, KIND_REDUCTION);
    set_number(g, mode, REDUCTION_MODE, TYPE_REDUCTION_MODE, how);
    set_number(g, mode, REDUCTION_PRECISION, TYPE_DATA_TYPE, DATA_FLOAT);
    finish(g, mode, "describe a reduction");
    void *y = inner(g, DATA_FLOAT, true);
    void *operation = make(g, KIND_REDUCTION_OPERATION);
    set_link(g, operation, REDUCTION_X, x);
    set_link(g, operation, REDUCTION_Y, y);
    set_link(g, operation, REDUCTION_OPERATION_MODE, mode);
    add_operation(g, operation);
    return y;
}

/* --- attention -------------------------------------------------------------------------------- */

static void *index_of(cudnn_graph *g, void *scores, int64_t axis, int type) {
    return apply(g, (pointwise){.mode = MODE_INDEX,
                                .precision = type,
                                .x = scores,
                                .y = inner(g, type, false),
                                .axis = axis});
}

/* Keeps the scores where 'left' compares with 'right'. */
static void *keep_where(cudnn_graph *g, void *scores, int comparison, void *left, void *right) {
    void *mask = apply(g, (pointwise){.mode = comparison,
                                      .precision = DATA_BOOLEAN,
                                      .x = left,
                                      .b = right,
                                      .y = inner(g, DATA_BOOLEAN, false)});
    return apply(g, (pointwise){.mode = MODE_SELECT,
                                .precision = DATA_FLOAT,
                                .x = scores,
                                .b = scalar(g, DATA_FLOAT, -1024.0 * 1024 * 1024),
                                .t = mask,
                                .y = inner(g, DATA_FLOAT, false)});
}

/* Queries and keys are as many, so their diagonals meet: row + (window - 1) >= column, and
 * column + window > row.
 */
static void *mask(cudnn_graph *g, void *scores) {
    const bench_attention *a = &g->what;
    int64_t ahead = a->is_causal ? 0 : a->window - 1;
    if (a->is_causal || a->window) {
        void *row = index_of(g, scores, 2, DATA_INT32),
             *column = index_of(g, scores, 3, DATA_INT32);
        if (ahead > 0) {
            row = apply(g, (pointwise){.mode = MODE_ADD,
                                       .precision = DATA_INT32,
                                       .x = row,
                                       .b = scalar(g, DATA_INT32, (double)ahead),
                                       .y = inner(g, DATA_INT32, false)});
        }
        scores = keep_where(g, scores, MODE_GREATER_EQUAL, row, column);
    }
    if (a->window) {
        void *row = index_of(g, scores, 2, DATA_FLOAT),
             *column = index_of(g, scores, 3, DATA_FLOAT);
        column = apply_float(g, MODE_ADD, column, scalar(g, DATA_FLOAT, (double)a->window), false);
        scores = keep_where(g, scores, MODE_GREATER, column, row);
    }
    return scores;
}

static void *soften(cudnn_graph *g, void *scores) {
    double cap = g->what.softcap;
    if (!(cap > 0)) return scores;
    scores = apply_float(g, MODE_DIVIDE, scores, scalar(g, DATA_FLOAT, cap), false);
    scores = apply_float(g, MODE_TANH, scores, NULL, false);
    return apply_float(g, MODE_MULTIPLY, scores, scalar(g, DATA_FLOAT, cap), false);
}

/* With the row's log-sum-exp, though nobody reads it: by it the fused engines know a softmax. */
static void *softmax(cudnn_graph *g, void *scores) {
    int type = g->dtype == FTL_BF16 ? DATA_BFLOAT16 : DATA_HALF;
    void *most = reduce(g, REDUCE_MAX, scores);
    void *less = apply_float(g, MODE_SUBTRACT, scores, most, false);
    void *power = apply_float(g, MODE_EXP, less, NULL, false);
    void *sum = reduce(g, REDUCE_ADD, power);
    void *logarithm = apply_float(g, MODE_LOG, sum, NULL, true);
    apply_float(g, MODE_ADD, most, logarithm, true);
    return apply(g, (pointwise){.mode = MODE_DIVIDE,
                                .precision = DATA_FLOAT,
                                .x = power,
                                .b = sum,
                                .y = inner(g, type, false)});
}

static void describe(cudnn_graph *g) {
    const bench_attention *a = &g->what;
    g->next_id = ID_FIRST_FREE;
    void *q = matrix(g, ID_Q, a->q_heads, a->q_len, a->d, false);
    void *k = matrix(g, ID_K, a->kv_heads, a->kv_len, a->d, true);
    void *v = matrix(g, ID_V, a->kv_heads, a->kv_len, a->dv, false);
    void *o = matrix(g, ID_O, a->q_heads, a->q_len, a->dv, false);
    void *scores = multiply(g, q, k, inner(g, DATA_FLOAT, false));
    void *scale = scalar(g, DATA_FLOAT, 1 / sqrt((double)a->d));
    scores = apply_float(g, MODE_MULTIPLY, scores, scale, false);
    scores = mask(g, soften(g, scores));
    multiply(g, softmax(g, scores), v, o);
}

/* --- plans ------------------------------------------------------------------------------------ */

static void *finish_graph(cudnn_graph *g) {
    void *graph = make(g, KIND_GRAPH);
    set(g, graph, GRAPH_HANDLE, TYPE_HANDLE, 1, &g->cudnn->handle);
    set(g, graph, GRAPH_OPERATIONS, TYPE_DESCRIPTOR, g->operation_count, g->operations);
    return finish(g, graph, "accept the graph");
}

static int64_t ask_heuristics(cudnn_graph *g, void *graph, void *configs[CONFIGS_MAX]) {
    void *heuristics = make(g, KIND_HEURISTICS);
    int64_t count = 0;
    set_link(g, heuristics, HEURISTICS_GRAPH, graph);
    set_number(g, heuristics, HEURISTICS_MODE, TYPE_HEURISTICS_MODE, HEURISTICS_A);
    finish(g, heuristics, "choose an engine");
    for (int i = 0; i < CONFIGS_MAX; i++) configs[i] = make(g, KIND_ENGINE_CONFIG);
    if (g->status) return 0;
    note(g,
         g->cudnn->call.get(heuristics, HEURISTICS_RESULTS, TYPE_DESCRIPTOR, CONFIGS_MAX, &count,
                            configs),
         "choose an engine");
    return count < CONFIGS_MAX ? count : CONFIGS_MAX;
}

/* The first configuration that can be made; the last failure stays noted otherwise. */
static void make_plan(cudnn_graph *g, void *const *configs, int64_t count) {
    for (int64_t i = 0; i < count && !g->plan; i++) {
        int64_t got = 0;
        g->status = 0;
        void *plan = make(g, KIND_PLAN);
        set(g, plan, PLAN_HANDLE, TYPE_HANDLE, 1, &g->cudnn->handle);
        set(g, plan, PLAN_CONFIG, TYPE_DESCRIPTOR, 1, &configs[i]);
        finish(g, plan, "make the plan of an engine");
        if (g->status) continue;
        note(g, g->cudnn->call.get(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &got, &g->workspace_bytes),
             "say how much memory it needs");
        if (!g->status) g->plan = plan;
    }
}

ftl_status cudnn_failure(ftl_context *context, const cudnn *c, int result, const char *what) {
    char words[256] = "";
    if (result < 0) return ftl_context_fail(context, FTL_NOT_FOUND, "cuDNN: cannot %s", what);
    c->call.last_error(words, sizeof words);
    words[strcspn(words, "\n")] = 0;
    const char *name = c->call.error_text(result);
    return ftl_context_fail(context, FTL_NOT_FOUND, "cuDNN cannot %s: %s%s%s", what,
                            name ? name : "?", words[0] ? ": " : "", words);
}

ftl_status cudnn_graph_build(ftl_context *context, cudnn_graph *g) {
    void *configs[CONFIGS_MAX];
    describe(g);
    void *graph = g->status ? NULL : finish_graph(g);
    int64_t count = g->status ? 0 : ask_heuristics(g, graph, configs);
    if (!g->status && count == 0) {
        return ftl_context_fail(context, FTL_NOT_FOUND, "cuDNN has no engine for this case");
    }
    if (!g->status) make_plan(g, configs, count);
    return g->status ? cudnn_failure(context, g->cudnn, g->status, g->trouble) : FTL_OK;
}

ftl_status cudnn_graph_bind(ftl_context *context, cudnn_graph *g, int32_t copy,
                            const uint64_t tensors[4], uint64_t workspace) {
    int64_t ids[4 + CUDNN_VALUES_MAX] = {ID_Q, ID_K, ID_V, ID_O};
    void *pointers[4 + CUDNN_VALUES_MAX], *room = (void *)(uintptr_t)workspace;
    for (int i = 0; i < 4; i++) pointers[i] = (void *)(uintptr_t)tensors[i];
    for (int i = 0; i < g->value_count; i++) {
        ids[4 + i] = g->values[i].id;
        pointers[4 + i] = &g->values[i].value;
    }
    void *pack = make(g, KIND_PACK);
    set(g, pack, PACK_IDS, TYPE_INT64, 4 + g->value_count, ids);
    set(g, pack, PACK_POINTERS, TYPE_POINTER, 4 + g->value_count, pointers);
    set(g, pack, PACK_WORKSPACE, TYPE_POINTER, 1, &room);
    g->packs[copy] = finish(g, pack, "take the tensors");
    return g->status ? cudnn_failure(context, g->cudnn, g->status, g->trouble) : FTL_OK;
}

void cudnn_graph_close(cudnn_graph *g) {
    while (g->descriptor_count > 0) {
        g->cudnn->call.descriptor_free(g->descriptors[--g->descriptor_count]);
    }
    g->plan = NULL;
}
