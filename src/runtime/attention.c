/* Attention in one call: a table of loaded kernels by what they compute, filled on demand.
 *
 * Readers walk the table without a lock; a slot goes from NULL to its kernel once and never changes
 * again. Writers hold a lock, so that two threads do not make the same kernel.
 */
#include "flashtl/attention.h"

#include "base/needs.h"
#include "base/number.h"
#include "flashtl/flashtl.h"
#include "runtime/module.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 }; /* a power of two; kernels in one process */

/* Up to SHORT_LENGTH queries and keys, other tile sizes may be faster than those that are right for
 * long ones: the reasoner is asked for lengths around SHORT_NOMINAL. Any kernel is right at any
 * length.
 */
#define SHORT_NOMINAL "1024"
enum { SHORT_LENGTH = 1024 };

/* What decides a kernel. Compared as bytes: set to zero before it is filled in. */
typedef struct attention_key {
    int32_t device, dtype, head_dim, value_dim, window;
    int32_t group, top; /* of sparse attention; 0: attention to all keys */
    bool is_short;      /* made for short sequences */
    bool causal, has_alibi, has_lse;
    double softcap;
} attention_key;

typedef struct attention_kernel {
    attention_key key;
    ftl_module *module;
    bool is_borrowed; /* the module is another kernel's */
} attention_kernel;

struct attention_table {
    mtx_t lock; /* held while a kernel is made */
    _Atomic(attention_kernel *) slots[SLOTS];
};

attention_table *attention_table_new(void) {
    attention_table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    if (mtx_init(&table->lock, mtx_plain) == thrd_success) return table;
    free(table);
    return NULL;
}

void attention_table_free(attention_table *table) {
    if (!table) return;
    for (int i = 0; i < SLOTS; i++) {
        attention_kernel *kernel = atomic_load(&table->slots[i]);
        if (kernel && !kernel->is_borrowed) ftl_module_free(kernel->module);
        free(kernel);
    }
    mtx_destroy(&table->lock);
    free(table);
}

static uint64_t hash_of(const attention_key *key) {
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *key; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* The kernel, or NULL with *slot where it belongs (-1: the table is full). */
static attention_kernel *find(attention_table *table, const attention_key *key, int *slot) {
    uint64_t start = hash_of(key);
    for (int i = 0; i < SLOTS; i++) {
        int at = (int)((start + (uint64_t)i) % SLOTS);
        attention_kernel *kernel = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        *slot = at;
        if (!kernel) return NULL;
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): zeroed before it is filled in */
        if (memcmp(&kernel->key, key, sizeof *key) == 0) return kernel;
    }
    *slot = -1;
    return NULL;
}

/* --- making a kernel -------------------------------------------------------------------------- */

/* The sketch, its options, the GPU's description and what was measured on it: all that decides the
 * text.
 */
typedef struct recipe {
    const attention_key *key;
    char gpu[64];
    char *sketch, *gpu_text, *measured;
    ftl_product *product;
} recipe;

static ftl_status write_sparse_sketch(ftl_context *context, recipe *r) {
    char group[48], top[48];
    const char *settings[2] = {group, top};
    snprintf(group, sizeof group, "group=%d", r->key->group);
    snprintf(top, sizeof top, "top=%d", r->key->top);
    return ftl_sketch(context, "nsa_selected", settings, 2, &r->sketch);
}

static ftl_status write_sketch(ftl_context *context, recipe *r) {
    const attention_key *key = r->key;
    if (key->top) return write_sparse_sketch(context, r);
    const char *settings[8];
    char window[48], softcap[48];
    int count = 0;
    snprintf(window, sizeof window, "window=%d", key->window);
    number_print(softcap, sizeof softcap, "softcap=%.17g", key->softcap);
    if (key->causal) settings[count++] = "causal";
    if (key->has_alibi) settings[count++] = "alibi";
    if (key->has_lse) settings[count++] = "lse";
    if (key->window) settings[count++] = window;
    if (key->softcap > 0) settings[count++] = softcap;
    return ftl_sketch(context, "attention", settings, count, &r->sketch);
}

static ftl_status find_gpu(ftl_context *context, ftl_runtime *runtime, recipe *r) {
    ftl_device device;
    ftl_gpu gpu = FTL_GPU_INIT;
    ftl_status status = ftl_device_describe(context, runtime, r->key->device, &device);
    if (!status) {
        status = ftl_gpu_for_device(context, device.name, 10 * device.major + device.minor,
                                    device.multiprocessors, &gpu);
    }
    if (status) return status;
    snprintf(r->gpu, sizeof r->gpu, "%s", gpu.name);
    status = ftl_gpu_text(context, gpu.name, &r->gpu_text);
    return status ? status : ftl_measured_text(context, gpu.name, &r->measured);
}

/* What the reasoner is asked for; points into itself and the recipe. */
typedef struct request {
    char d[24], dv[24];
    ftl_pin pins[3];
    ftl_options options;
    ftl_source source;
} request;

static void write_request(const recipe *r, bool is_short, request *q) {
    snprintf(q->d, sizeof q->d, "%d", r->key->head_dim);
    snprintf(q->dv, sizeof q->dv, "%d", r->key->value_dim);
    q->pins[0] = (ftl_pin){"d", q->d};
    q->pins[1] = (ftl_pin){"dv", q->dv};
    q->pins[2] = (ftl_pin){"nominal_length", SHORT_NOMINAL};
    q->options = (ftl_options){.struct_bytes = sizeof(ftl_options),
                               .gpu = r->gpu,
                               .dtype = (ftl_type)r->key->dtype,
                               .pins = q->pins,
                               .pin_count = is_short ? 3 : 2};
    q->source = (ftl_source){"<attention>", r->sketch, strlen(r->sketch)};
}

static ftl_status build(ftl_context *context, void *user, const ftl_product **product) {
    recipe *r = user;
    request q;
    write_request(r, r->key->is_short, &q);
    ftl_status status = ftl_build(context, &q.source, &q.options, &r->product);
    if (status) return status;
    *product = r->product;
    return FTL_OK;
}

static ftl_status open_recipe(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                              recipe *r) {
    *r = (recipe){.key = key};
    ftl_status status = find_gpu(context, runtime, r);
    return status ? status : write_sketch(context, r);
}

static void close_recipe(recipe *r) {
    ftl_product_free(r->product);
    ftl_free(r->sketch);
    ftl_free(r->gpu_text);
    ftl_free(r->measured);
}

/* Does the reasoner take the same decisions for short sequences as for long ones? */
static ftl_status is_one_kernel(ftl_context *context, const recipe *r, bool *is_one) {
    request q;
    char *codes[2] = {NULL, NULL};
    ftl_status status = FTL_OK;
    for (int i = 0; i < 2 && !status; i++) {
        write_request(r, i == 1, &q);
        status = ftl_reason(context, &q.source, &q.options, &codes[i]);
    }
    *is_one = !status && strcmp(codes[0], codes[1]) == 0;
    ftl_free(codes[0]);
    ftl_free(codes[1]);
    return status;
}

/* All that decides the text of one class of lengths: what the cache knows a kernel by. */
static void write_source(const recipe *r, bool is_short, text_buffer *out) {
    const attention_key *key = r->key;
    text_init(out, 1 << 20);
    text_format(out, "dtype %d, d %d, dv %d%s\n", key->dtype, key->head_dim, key->value_dim,
                is_short ? ", short" : "");
    text_add_z(out, r->sketch);
    text_add_z(out, r->gpu_text);
    text_add_z(out, r->measured);
}

static ftl_status make(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                       attention_kernel **out);

/* The module of long sequences serves short ones too; the cache shall know without reasoning. */
static ftl_status borrow(ftl_context *context, ftl_runtime *runtime, const recipe *r, str source,
                         attention_kernel *kernel) {
    attention_key key = kernel->key;
    attention_kernel *other;
    text_buffer long_source;
    key.is_short = false;
    ftl_status status = make(context, runtime, &key, &other);
    if (status) return status;
    kernel->module = other->module;
    kernel->is_borrowed = true;
    write_source(r, false, &long_source);
    module_cache_also(context, runtime, text_str(&long_source), source);
    text_done(&long_source);
    return FTL_OK;
}

/* The module of a kernel: for short sequences that of long ones, where nothing differs. What the
 * cache has is taken before anything is reasoned.
 */
static ftl_status find_module(ftl_context *context, ftl_runtime *runtime,
                              attention_kernel *kernel) {
    recipe r;
    bool is_one = false;
    ftl_status status = open_recipe(context, runtime, &kernel->key, &r);
    if (!status) {
        text_buffer text;
        write_source(&r, kernel->key.is_short, &text);
        str source = text_str(&text);
        if (!module_load_cached(context, runtime, source, &kernel->module)) {
            if (kernel->key.is_short) status = is_one_kernel(context, &r, &is_one);
            if (!status && is_one) status = borrow(context, runtime, &r, source, kernel);
            else if (!status)
                status = module_make_source(context, runtime, source, build, &r, &kernel->module);
        }
        text_done(&text);
    }
    close_recipe(&r);
    return status;
}

/* Under the table's lock: makes the kernel unless another thread just did. */
static ftl_status make(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                       attention_kernel **out) {
    attention_table *table = runtime->attention;
    int slot;
    *out = find(table, key, &slot);
    if (*out) return FTL_OK;
    if (slot < 0) {
        return ftl_context_fail(context, FTL_NO_MEMORY, "more than %d kernels in one runtime",
                                SLOTS);
    }
    attention_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    kernel->key = *key;
    ftl_status status = find_module(context, runtime, kernel);
    if (!status) find(table, key, &slot); /* making another one may have taken the slot */
    if (!status && slot < 0)
        status =
            ftl_context_fail(context, FTL_NO_MEMORY, "more than %d kernels in one runtime", SLOTS);
    if (status) {
        if (!kernel->is_borrowed) ftl_module_free(kernel->module);
        free(kernel);
        return status;
    }
    atomic_store_explicit(&table->slots[slot], kernel, memory_order_release);
    *out = kernel;
    return FTL_OK;
}

/* --- the call --------------------------------------------------------------------------------- */

static ftl_status make_key(ftl_context *context, ftl_runtime *runtime, const ftl_attention *a,
                           attention_key *key) {
    NEEDS(runtime);
    if (!a || a->struct_bytes < sizeof *a) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the attention is null, or not begun with FTL_ATTENTION_INIT");
    }
    int64_t value_dim = a->value_dim ? a->value_dim : a->head_dim;
    bool is_size = a->head_dim > 0 && a->head_dim <= 65536 && value_dim > 0 && value_dim <= 65536;
    if (!is_size) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "head sizes must be from 1 to 65536, not %lld and %lld",
                                (long long)a->head_dim, (long long)value_dim);
    }
    if (a->window < 0 || !(a->softcap >= 0) || !isfinite(a->softcap)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "window and softcap are 0 or positive");
    }
    if (a->dtype != FTL_F16 && a->dtype != FTL_BF16) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the element type is FTL_F16 or FTL_BF16");
    }
    if (!isfinite(a->scale) || a->scale < 0) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the scale is above 0, or 0 for 1 / sqrt(head_dim)");
    }
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    int device = 0;
    status = runtime_cuda_status(context, &runtime->cuda, runtime->cuda.context_device(&device),
                                 "find the current GPU");
    if (status) return status;
    memset(key, 0, sizeof *key);
    key->device = device;
    key->dtype = (int32_t)a->dtype;
    key->head_dim = (int32_t)a->head_dim;
    key->value_dim = (int32_t)value_dim;
    key->window = a->window;
    key->causal = a->causal;
    key->has_alibi = a->alibi_slopes != 0;
    key->has_lse = a->lse.address != 0;
    key->softcap = a->softcap;
    key->is_short = a->q_len <= SHORT_LENGTH && a->kv_len <= SHORT_LENGTH;
    return FTL_OK;
}

static ftl_status find_kernel(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                              attention_kernel **out) {
    int slot;
    *out = find(runtime->attention, key, &slot);
    if (*out) return FTL_OK;
    mtx_lock(&runtime->attention->lock);
    ftl_status status = make(context, runtime, key, out);
    mtx_unlock(&runtime->attention->lock);
    return status;
}

ftl_status ftl_attention_prepare(ftl_context *context, ftl_runtime *runtime,
                                 const ftl_attention *attention) {
    attention_kernel *kernel;
    attention_key key;
    ftl_status status = make_key(context, runtime, attention, &key);
    for (int is_short = 0; is_short < 2 && !status; is_short++) {
        key.is_short = is_short;
        status = find_kernel(context, runtime, &key, &kernel);
    }
    return status;
}

/* A tensor (b, head; length, d). */
static ftl_tensor matrix(const char *name, const ftl_attention_tensor *t, ftl_type type,
                         int64_t batch, int64_t heads, int64_t length, int64_t d) {
    return (ftl_tensor){.name = name,
                        .address = t->address,
                        .type = type,
                        .axis_count = 4,
                        .extents = {batch, heads, length, d},
                        .strides = {t->batch_stride, t->head_stride, t->length_stride, 1}};
}

ftl_status ftl_attention_forward(ftl_context *context, ftl_runtime *runtime, const ftl_attention *a,
                                 void *stream) {
    attention_kernel *kernel;
    attention_key key;
    ftl_status status = make_key(context, runtime, a, &key);
    if (!status) status = find_kernel(context, runtime, &key, &kernel);
    if (status) return status;
    int64_t d = a->head_dim, dv = kernel->key.value_dim;
    ftl_tensor tensors[6] = {
        matrix("Q", &a->q, a->dtype, a->batch, a->q_heads, a->q_len, d),
        matrix("K", &a->k, a->dtype, a->batch, a->kv_heads, a->kv_len, d),
        matrix("V", &a->v, a->dtype, a->batch, a->kv_heads, a->kv_len, dv),
        matrix("O", &a->o, a->dtype, a->batch, a->q_heads, a->q_len, dv),
    };
    int32_t count = 4;
    if (kernel->key.has_lse) {
        tensors[count] = matrix("lse", &a->lse, FTL_F32, a->batch, a->q_heads, a->q_len, 1);
        tensors[count++].axis_count = 3;
    }
    if (kernel->key.has_alibi) {
        tensors[count++] = (ftl_tensor){.name = "slope",
                                        .address = a->alibi_slopes,
                                        .type = FTL_F32,
                                        .axis_count = 1,
                                        .extents = {a->q_heads},
                                        .strides = {1}};
    }
    ftl_scalar scale = {"scale", a->scale > 0 ? a->scale : 1 / sqrt((double)d)};
    ftl_arguments arguments = {tensors, count, &scale, 1};
    return ftl_module_launch(context, kernel->module, &arguments, stream);
}

/* --- sparse attention ------------------------------------------------------------------------- */

enum { TOP_MOST = 1024 };

static ftl_status make_sparse_key(ftl_context *context, ftl_runtime *runtime, const ftl_sparse *s,
                                  attention_key *key) {
    NEEDS(runtime);
    if (!s || s->struct_bytes < sizeof *s)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the sparse attention is null, or not begun with FTL_SPARSE_INIT");
    if (s->top < 1 || s->top > TOP_MOST || s->first < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a list has 1 to %d blocks, and the first query no negative place",
                                TOP_MOST);
    bool is_grouped = s->kv_heads > 0 && s->q_heads > 0 && s->q_heads % s->kv_heads == 0 &&
                      s->q_heads / s->kv_heads <= INT16_MAX;
    if (!is_grouped)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "q_heads must be a multiple of kv_heads, both above 0");
    ftl_attention whole = {.struct_bytes = sizeof whole,
                           .dtype = s->dtype,
                           .head_dim = s->head_dim,
                           .value_dim = s->value_dim,
                           .scale = s->scale};
    ftl_status status = make_key(context, runtime, &whole, key);
    key->is_short = false;
    key->group = (int32_t)(s->q_heads / s->kv_heads);
    key->top = s->top;
    return status;
}

ftl_status ftl_sparse_attention(ftl_context *context, ftl_runtime *runtime, const ftl_sparse *s,
                                void *stream) {
    attention_kernel *kernel;
    attention_key key = {0};
    ftl_status status = make_sparse_key(context, runtime, s, &key);
    if (!status) status = find_kernel(context, runtime, &key, &kernel);
    if (status) return status;
    int64_t d = s->head_dim, dv = kernel->key.value_dim;
    ftl_tensor tensors[5] = {
        matrix("Q", &s->q, s->dtype, s->batch, s->q_heads, s->q_len, d),
        matrix("K", &s->k, s->dtype, s->batch, s->kv_heads, s->kv_len, d),
        matrix("V", &s->v, s->dtype, s->batch, s->kv_heads, s->kv_len, dv),
        matrix("O_chosen", &s->o, s->dtype, s->batch, s->q_heads, s->q_len, dv),
        {.name = "chosen",
         .address = s->blocks,
         .type = FTL_I32,
         .axis_count = 4,
         .extents = {s->batch, s->kv_heads, s->q_len, s->top},
         .strides = {s->blocks_batch_stride, s->blocks_head_stride, s->blocks_query_stride, 1}},
    };
    ftl_scalar scalars[2] = {{"scale", s->scale > 0 ? s->scale : 1 / sqrt((double)d)},
                             {"first", s->first}};
    ftl_arguments arguments = {tensors, 5, scalars, 2};
    return ftl_module_launch(context, kernel->module, &arguments, stream);
}
