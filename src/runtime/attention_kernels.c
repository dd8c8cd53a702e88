/* A table of loaded kernels by what they compute, filled on demand.
 *
 * Readers walk the table without a lock; a slot goes from NULL to its kernel once and never changes
 * again. Writers hold a lock, so that two threads do not make the same kernel.
 */
#include "runtime/attention.h"

#include "base/number.h"
#include "runtime/module.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 }; /* a power of two; kernels in one process */

#define SHORT_NOMINAL "1024" /* what the reasoner is asked for where lengths are short */

typedef struct attention_kernel {
    attention_key key;
    ftl_module *modules[MODULE_KERNELS_MAX];
    bool is_borrowed; /* the modules are another's */
} attention_kernel;

static int32_t count_of(const attention_key *key) {
    return key->operator!= ATTENTION_DECODE ? 1 : key->is_stretched ? 4 : 2;
}

/* The sketch has the length of a page from an option, and no open length that a pin would say. */
static bool has_page_option(const attention_key *key) {
    return key->operator== ATTENTION_DECODE || key->operator== ATTENTION_PAGED_DECODE;
}

/* Is the kernel launched after another one of the same call, which is no part of its program? */
static bool follows_another(const attention_key *key) {
    return key->operator== ATTENTION_ROTATE;
}

static void free_modules(attention_kernel *kernel) {
    for (int32_t i = 0; i < MODULE_KERNELS_MAX && !kernel->is_borrowed; i++)
        ftl_module_free(kernel->modules[i]);
}

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
        if (kernel) free_modules(kernel);
        free(kernel);
    }
    mtx_destroy(&table->lock);
    free(table);
}

static uint64_t hash_of(const attention_key *key) {
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;
    _Static_assert(sizeof words == sizeof *key, "a key is whole words");
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
    return hash;
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

/* An operator of sketches/ with its options. */
typedef struct settings {
    const char *items[20];
    char texts[6][48];
    int32_t count, text_count;
} settings;

static void choose(settings *s, bool is_chosen, const char *name) {
    if (is_chosen) s->items[s->count++] = name;
}

static void choose_number(settings *s, bool is_chosen, const char *name, double value) {
    if (!is_chosen) return;
    char *text = s->texts[s->text_count++];
    number_print(text, sizeof s->texts[0], "%s=%.17g", name, value);
    s->items[s->count++] = text;
}

/* The operators of sketches/, and which head sizes they have. */
static const struct {
    const char *name;
    bool has_d, has_dv;
} operators[] = {
#define OPERATOR(name, sketch, has_d, has_dv) {#sketch, has_d, has_dv},
#include "runtime/operators.def"
#undef OPERATOR
};

static ftl_status write_sketch(ftl_context *context, recipe *r) {
    const attention_key *key = r->key;
    settings s = {.count = 0};
    choose(&s, key->causal, "causal");
    choose(&s, key->is_first, "first");
    choose(&s, key->has_alibi, "alibi");
    choose(&s, key->has_lse, "lse");
    choose(&s, key->has_q_used, "q_used");
    choose(&s, key->has_kv_used, "kv_used");
    choose(&s, key->is_paged, "paged");
    choose(&s, key->is_interleaved, "interleaved");
    choose(&s, key->is_plain, "plain");
    choose(&s, key->has_sinks, "sinks");
    choose(&s, key->has_bias, "bias");
    choose(&s, key->has_sides, "sides");
    choose(&s, key->is_padded, "padded");
    choose(&s, key->is_latent, "latent");
    choose(&s, key->is_shared, "shared");
    choose(&s, key->is_stretched, "stretches");
    choose_number(&s, key->window > 0, "window", key->window);
    choose_number(&s, key->softcap > 0, "softcap", key->softcap);
    choose_number(&s, key->group > 0, "group", key->group);
    choose_number(&s, key->chunk > 0, "chunk", key->chunk);
    choose_number(&s, key->columns > 0, "columns", key->columns);
    choose_number(&s, key->top > 0, "top", key->top);
    choose_number(&s, key->span > 0, "span", key->span);
    choose_number(&s, key->quad > 0, "quad", key->quad);
    choose_number(&s, has_page_option(key), "page_len", key->page_len);
    return ftl_sketch(context, operators[key->operator].name, s.items, s.count, &r->sketch);
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
    ftl_pin pins[8];
    char values[8][24];
    ftl_options options;
    ftl_source source;
} request;

static void pin(request *q, const char *name, int32_t value) {
    int32_t i = q->options.pin_count++;
    snprintf(q->values[i], sizeof q->values[i], "%d", value);
    q->pins[i] = (ftl_pin){name, q->values[i]};
}

static void write_request(const recipe *r, bool is_short, request *q) {
    const attention_key *key = r->key;
    q->options = (ftl_options){.struct_bytes = sizeof(ftl_options),
                               .gpu = r->gpu,
                               .dtype = (ftl_type)key->dtype,
                               .pins = q->pins};
    if (operators[key->operator].has_d) pin(q, "d", key->head_dim);
    if (operators[key->operator].has_dv) pin(q, "dv", key->value_dim);
    if (is_short) q->pins[q->options.pin_count++] = (ftl_pin){"nominal_length", SHORT_NOMINAL};
    if (key->page_len && !has_page_option(key)) pin(q, "page_len", key->page_len);
    if (key->nominal_q_len) pin(q, "nominal_q_len", key->nominal_q_len);
    if (key->half) pin(q, "half", key->half);
    if (follows_another(key)) pin(q, "early", 1);
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
    if (key->page_len) text_format(out, "page_len %d\n", key->page_len);
    if (key->nominal_q_len) text_format(out, "nominal_q_len %d\n", key->nominal_q_len);
    if (key->half) text_format(out, "half %d\n", key->half);
    if (follows_another(key)) text_add_z(out, "early\n");
    text_add_z(out, r->sketch);
    text_add_z(out, r->gpu_text);
    text_add_z(out, r->measured);
}

static attention_kernel *make(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                              ftl_status *status);

/* The module of long sequences serves short ones too; the cache shall know without reasoning. */
static ftl_status borrow(ftl_context *context, ftl_runtime *runtime, const recipe *r, str source,
                         attention_kernel *kernel) {
    attention_key key = kernel->key;
    ftl_status status;
    text_buffer long_source;
    key.is_short = false;
    const attention_kernel *other = make(context, runtime, &key, &status);
    if (!other) return status;
    memcpy(kernel->modules, other->modules, sizeof kernel->modules);
    kernel->is_borrowed = true;
    write_source(r, false, &long_source);
    module_cache_also(context, runtime, text_str(&long_source), source, count_of(&key));
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
    int32_t count = count_of(&kernel->key);
    ftl_status status = open_recipe(context, runtime, &kernel->key, &r);
    if (!status) {
        text_buffer text;
        write_source(&r, kernel->key.is_short, &text);
        str source = text_str(&text);
        if (!module_load_cached(context, runtime, source, count, kernel->modules)) {
            if (kernel->key.is_short) status = is_one_kernel(context, &r, &is_one);
            if (!status && is_one) status = borrow(context, runtime, &r, source, kernel);
            else if (!status)
                status =
                    module_make_source(context, runtime, source, build, &r, count, kernel->modules);
        }
        text_done(&text);
    }
    close_recipe(&r);
    return status;
}

static ftl_status fail_full(ftl_context *context) {
    return ftl_context_fail(context, FTL_NO_MEMORY, "more than %d kernels in one runtime", SLOTS);
}

/* Under the table's lock: makes the kernel unless another thread just did. NULL: 'status' says why.
 */
static attention_kernel *make(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                              ftl_status *status) {
    attention_table *table = runtime->attention;
    int slot;
    attention_kernel *kernel = find(table, key, &slot);
    *status = FTL_OK;
    if (kernel) return kernel;
    if (slot >= 0) kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        *status = slot < 0 ? fail_full(context)
                           : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
        return NULL;
    }
    kernel->key = *key;
    *status = find_module(context, runtime, kernel);
    if (!*status) find(table, key, &slot); /* making another one may have taken the slot */
    if (!*status && slot < 0) *status = fail_full(context);
    if (*status) {
        free_modules(kernel);
        free(kernel);
        return NULL;
    }
    atomic_store_explicit(&table->slots[slot], kernel, memory_order_release);
    return kernel;
}

bool attention_is_made(const ftl_runtime *runtime, const attention_key *key) {
    int slot;
    return find(runtime->attention, key, &slot) != NULL;
}

ftl_status attention_find(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                          ftl_module **modules) {
    int slot;
    attention_kernel *kernel = find(runtime->attention, key, &slot);
    ftl_status status = FTL_OK;
    if (!kernel) {
        mtx_lock(&runtime->attention->lock);
        kernel = make(context, runtime, key, &status);
        mtx_unlock(&runtime->attention->lock);
    }
    for (int32_t i = 0; kernel && i < count_of(key); i++) modules[i] = kernel->modules[i];
    return status;
}
