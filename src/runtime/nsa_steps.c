/* The steps of native sparse attention: a kernel of sketches/nsa.tl each, and attention with a
 * window.
 */
#include "runtime/nsa.h"
#include "runtime/serving.h"

/* --- kernels ---------------------------------------------------------------------------------- */

/* Which sizes and settings a step's kernel goes by: the others are 0 in its key, so that one kernel
 * serves all calls that differ in them alone.
 */
static ftl_status find(ftl_context *context, ftl_runtime *runtime, const nsa_call *c,
                       attention_operator operator, int64_t d, ftl_module **module) {
    const ftl_nsa *n = &c->own;
    const attention_common common = {.operator= operator,
                                     .dtype = n->dtype,
                                     .head_dim = d,
                                     .value_dim = n->value_dim,
                                     .scale = n->scale,
                                     .window = n->window};
    attention_key key;
    ftl_status status = attention_key_begin(context, runtime, &common, &key);
    if (status) return status;
    key.window = 0;
    switch (operator) {
    case ATTENTION_DENSE:
        key.window = n->window;
        key.causal = true;
        key.is_short = attention_is_short(n->q_len, n->kv_len);
        break;
    case ATTENTION_SPARSE:
        key.group = c->group, key.top = n->top;
        key.is_shared = c->is_shared, key.quad = c->is_shared ? n->quad : 0;
        break;
    case ATTENTION_NSA_SCORES:
        key.group = c->group, key.span = c->span;
        key.value_dim = 0;
        break;
    case ATTENTION_NSA_UNION: key.quad = n->quad; /* fall through */
    case ATTENTION_NSA_CHOOSE:
        key.top = n->top;
        key.dtype = FTL_F16; /* there are no tensors of that type */
        key.head_dim = key.value_dim = 0;
        break;
    case ATTENTION_NSA_COMPRESS: key.value_dim = 0; break;
    case ATTENTION_NSA_GATE: key.head_dim = 0; break;
    default: break;
    }
    return attention_find(context, runtime, &key, module);
}

ftl_status nsa_find(ftl_context *context, ftl_runtime *runtime, const nsa_call *c) {
    static const attention_operator operators[] = {ATTENTION_NSA_COMPRESS, ATTENTION_NSA_COMPRESSED,
                                                   ATTENTION_NSA_SCORES,   ATTENTION_NSA_CHOOSE,
                                                   ATTENTION_SPARSE,       ATTENTION_DENSE,
                                                   ATTENTION_NSA_GATE,     ATTENTION_NSA_UNION};
    ftl_module *module;
    ftl_status status = FTL_OK;
    int count = (int)(sizeof operators / sizeof *operators) - !c->is_shared;
    for (int i = 0; i < count && !status; i++)
        status = find(context, runtime, c, operators[i], c->own.head_dim, &module);
    if (!status && c->own.value_dim != c->own.head_dim)
        status = find(context, runtime, c, ATTENTION_NSA_COMPRESS, c->own.value_dim, &module);
    return status;
}

/* --- arguments -------------------------------------------------------------------------------- */

/* A launch that is being made. */
typedef struct step {
    const nsa_call *c;
    given g;
} step;

static step begin(const nsa_call *c) {
    step s;
    s.c = c;
    s.g.count = s.g.scalar_count = 0; /* the rest is not read, and costs time to clear */
    return s;
}

/* A result of another step, or of this one. */
static ftl_tensor *give(step *s, nsa_result which) {
    ftl_tensor *t = &s->g.tensors[s->g.count++];
    *t = s->c->results[which];
    return t;
}

/* Of queries that are there: what is past them is room of one step alone. */
static void give_queries(step *s, nsa_result which) {
    give(s, which)->extents[2] = s->c->own.q_len;
}

static void give_heads(step *s, const char *name, const ftl_attention_tensor *t, ftl_type type,
                       int64_t d) {
    const ftl_nsa *n = &s->c->own;
    given_matrix(&s->g, name, t, type, n->batch, n->q_heads, n->q_len, d);
}

static void give_keys(step *s, const char *name, const ftl_attention_tensor *t, int64_t d) {
    const ftl_nsa *n = &s->c->own;
    given_matrix(&s->g, name, t, n->dtype, n->batch, n->kv_heads, n->kv_len, d);
}

/* The means of keys, or of values. */
static ftl_tensor *give_mean(step *s, nsa_result which) {
    const ftl_nsa *n = &s->c->own;
    bool is_key = which == NSA_K_MEAN;
    if (!s->c->has_means) return give(s, which);
    given_matrix(&s->g, is_key ? "K_mean" : "V_mean", is_key ? &n->k_mean : &n->v_mean, n->dtype,
                 n->batch, n->kv_heads, s->c->blocks, is_key ? n->head_dim : n->value_dim);
    return &s->g.tensors[s->g.count - 1];
}

static void give_first(step *s) {
    given_scalar(&s->g, "first", (double)(s->c->own.kv_len - s->c->own.q_len));
}

static void give_scale(step *s) {
    given_scalar(&s->g, "scale", attention_scale(s->c->own.scale, s->c->own.head_dim));
}

/* --- steps ------------------------------------------------------------------------------------ */

/* What a launch needs beside its step. */
typedef struct launching {
    ftl_context *context;
    ftl_runtime *runtime;
    void *stream;
} launching;

static ftl_status launch(const launching *l, const step *s, attention_operator operator,
                         int64_t d) {
    ftl_module *module;
    ftl_status status = find(l->context, l->runtime, s->c, operator, d, &module);
    if (status) return status;
    const ftl_arguments arguments = given_arguments(&s->g);
    return ftl_module_launch(l->context, module, &arguments, l->stream);
}

/* From the first block on that is not there. The kernel is that of keys, whichever it is given. */
static ftl_status compress(const launching *l, const nsa_call *c, nsa_result which) {
    const ftl_nsa *n = &c->own;
    enum { ELEMENT = 2 };
    bool is_key = which == NSA_K_MEAN;
    int64_t d = is_key ? n->head_dim : n->value_dim, there = n->mean_blocks;
    if (there == c->blocks) return FTL_OK;
    ftl_attention_tensor from = is_key ? n->k : n->v;
    from.address += (uint64_t)(there * NSA_BLOCK * from.length_stride * ELEMENT);
    step s = begin(c);
    given_matrix(&s.g, "K", &from, n->dtype, n->batch, n->kv_heads, n->kv_len - there * NSA_BLOCK,
                 d);
    ftl_tensor *mean = give_mean(&s, which);
    mean->name = "K_mean";
    mean->address += (uint64_t)(there * mean->strides[2] * ELEMENT);
    mean->extents[2] -= there;
    return launch(l, &s, ATTENTION_NSA_COMPRESS, d);
}

static ftl_status attend_to_means(const launching *l, const nsa_call *c) {
    const ftl_nsa *n = &c->own;
    step s = begin(c);
    give_heads(&s, "Q", &n->q, n->dtype, n->head_dim);
    give_mean(&s, NSA_K_MEAN);
    give_mean(&s, NSA_V_MEAN);
    give(&s, NSA_O_MEAN);
    give(&s, NSA_LSE);
    give_first(&s);
    give_scale(&s);
    return launch(l, &s, ATTENTION_NSA_COMPRESSED, n->head_dim);
}

static ftl_status score(const launching *l, const nsa_call *c) {
    const ftl_nsa *n = &c->own;
    step s = begin(c);
    give_heads(&s, "Q", &n->q, n->dtype, n->head_dim);
    give_mean(&s, NSA_K_MEAN);
    give(&s, NSA_LSE);
    give(&s, NSA_SCORE);
    give_first(&s);
    give_scale(&s);
    return launch(l, &s, ATTENTION_NSA_SCORES, n->head_dim);
}

static ftl_status choose(const launching *l, const nsa_call *c) {
    step s = begin(c);
    give_queries(&s, NSA_SCORE);
    give(&s, NSA_CHOSEN);
    give_first(&s);
    return launch(l, &s, ATTENTION_NSA_CHOOSE, c->own.head_dim);
}

static ftl_status unite(const launching *l, const nsa_call *c) {
    step s = begin(c);
    give(&s, NSA_CHOSEN);
    give(&s, NSA_LIST);
    give(&s, NSA_SEEN);
    give(&s, NSA_COUNT);
    give_first(&s);
    given_scalar(&s.g, "kv_len", (double)c->own.kv_len);
    return launch(l, &s, ATTENTION_NSA_UNION, c->own.head_dim);
}

static ftl_status attend_to_chosen(const launching *l, const nsa_call *c) {
    const ftl_nsa *n = &c->own;
    step s = begin(c);
    give_heads(&s, "Q", &n->q, n->dtype, n->head_dim);
    give_keys(&s, "K", &n->k, n->head_dim);
    give_keys(&s, "V", &n->v, n->value_dim);
    give(&s, NSA_O_CHOSEN);
    if (c->is_shared) {
        give(&s, NSA_LIST);
        give(&s, NSA_SEEN);
        give(&s, NSA_COUNT);
    } else {
        give(&s, NSA_CHOSEN);
        give_first(&s);
    }
    give_scale(&s);
    return launch(l, &s, ATTENTION_SPARSE, n->head_dim);
}

static ftl_status attend_to_near(const launching *l, const nsa_call *c) {
    const ftl_nsa *n = &c->own;
    step s = begin(c);
    give_heads(&s, "Q", &n->q, n->dtype, n->head_dim);
    give_keys(&s, "K", &n->k, n->head_dim);
    give_keys(&s, "V", &n->v, n->value_dim);
    give(&s, NSA_O_NEAR)->name = "O";
    give_scale(&s);
    return launch(l, &s, ATTENTION_DENSE, n->head_dim);
}

static ftl_status add_up(const launching *l, const nsa_call *c) {
    const ftl_nsa *n = &c->own;
    step s = begin(c);
    give(&s, NSA_O_MEAN);
    give_queries(&s, NSA_O_CHOSEN);
    give(&s, NSA_O_NEAR);
    give_heads(&s, "gate_mean", &n->gate_mean, FTL_F32, 0);
    give_heads(&s, "gate_chosen", &n->gate_chosen, FTL_F32, 0);
    give_heads(&s, "gate_near", &n->gate_near, FTL_F32, 0);
    give_heads(&s, "O", &n->o, n->dtype, n->value_dim);
    return launch(l, &s, ATTENTION_NSA_GATE, n->head_dim);
}

ftl_status nsa_launch(ftl_context *context, ftl_runtime *runtime, const nsa_call *c, void *stream) {
    const launching l = {context, runtime, stream};
    ftl_status status = compress(&l, c, NSA_K_MEAN);
    if (!status) status = compress(&l, c, NSA_V_MEAN);
    if (!status) status = attend_to_means(&l, c);
    if (!status) status = score(&l, c);
    if (!status) status = choose(&l, c);
    if (!status && c->is_shared) status = unite(&l, c);
    if (!status) status = attend_to_chosen(&l, c);
    if (!status) status = attend_to_near(&l, c);
    if (!status) status = add_up(&l, c);
    return status;
}
