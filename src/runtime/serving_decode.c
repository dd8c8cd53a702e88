/* The last tokens of sequences over keys in pages: a kernel for splits of the keys, and one that
 * puts them together; where a sequence is one split, one kernel for all of it. How many splits
 * there are goes by batch, heads and GPU, not by what tables hold.
 */
#include "runtime/serving.h"

#include "base/needs.h"
#include "plan/splits.h"
#include "runtime/attention.h"

#include <stddef.h>

enum { NOMINAL_MAX = 128 };

static ftl_status check_decode(ftl_context *context, const ftl_decode *c) {
    if (c->batch < 0 || c->q_len < 0 || c->q_len > INT32_MAX || c->batch > INT32_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "neither batch nor q_len may be negative, or 2^31 or more");
    bool is_grouped = c->kv_heads > 0 && c->q_heads > 0 && c->q_heads % c->kv_heads == 0 &&
                      c->q_heads / c->kv_heads <= INT16_MAX && c->q_heads <= INT32_MAX;
    if (!is_grouped)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "q_heads must be a multiple of kv_heads, both above 0");
    if (!c->pages.page_len)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "pages.page_len is 0: keys and values lie in pages here");
    if (c->total_keys < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "total_keys may not be negative");
    if (c->pages.columns < 0 || c->pages.columns > INT32_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "pages.columns may not be negative, or 2^31 or more");
    ftl_status status = serving_check_scoring(context, &c->scoring);
    return status ? status : serving_check_page(context, c->pages.page_len);
}

/* A kernel is right for any number of queries; it is made for about as many as there are. */
static int32_t nominal_queries(int64_t q_len) {
    int32_t nominal = 1;
    while (nominal < NOMINAL_MAX && nominal < q_len) nominal *= 2;
    return nominal > 1 ? nominal : 0;
}

/* Of latent values a block makes as many columns as its registers hold, all alike. */
static int32_t latent_columns(int64_t value_dim) {
    enum { MOST = 256, UNIT = 8 };
    if (value_dim <= MOST) return (int32_t)value_dim;
    int32_t columns = MOST;
    while (columns > UNIT && value_dim % columns != 0) columns -= UNIT;
    return columns;
}

/* Is there a kernel for sequences of one split? Of latent values, blocks of other columns would all
 * write a row's log-sum-exp.
 */
static bool has_whole(const attention_key *key) {
    return !(key->is_latent && key->has_lse);
}

static ftl_status make_key(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                           bool is_latent, attention_key *key) {
    NEEDS(runtime);
    ftl_status status = check_decode(context, c);
    if (status) return status;
    const attention_common common = {.operator= ATTENTION_DECODE,
                                     .dtype = c->dtype,
                                     .head_dim = c->head_dim,
                                     .value_dim = c->value_dim,
                                     .scale = c->scale,
                                     .softcap = c->softcap,
                                     .window = c->window};
    status = attention_key_begin(context, runtime, &common, key);
    if (status) return status;
    key->group = (int32_t)(c->q_heads / c->kv_heads);
    key->page_len = (int32_t)c->pages.page_len;
    key->nominal_q_len = nominal_queries(c->q_len);
    key->causal = c->causal && c->q_len != 1; /* one query sees all keys */
    key->has_lse = c->lse.address != 0;
    key->is_latent = is_latent;
    key->columns = is_latent ? latent_columns(key->value_dim) : 0;
    serving_choose(&c->scoring, key);
    return FTL_OK;
}

/* --- splits ----------------------------------------------------------------------------------- */

/* How often a row's sum of weights is made: of latent values, by each block of columns. */
static int64_t sums_of(const attention_key *key) {
    return key->is_latent ? key->value_dim / key->columns : 1;
}

/* What a call divides keys by, and what lies between its kernels. */
typedef struct division {
    int64_t splits;
    size_t sums_bytes; /* of O_part */
    size_t bytes;      /* of that and lse_part: what any smaller batch needs, too */
    size_t wanted;     /* the same, for as many splits as total_keys asks for */
    bool is_whole;     /* one split, by one kernel: nothing lies between */
} division;

static plan_work work_of(const ftl_decode *c) {
    return (plan_work){c->batch, c->q_len, c->q_heads, c->kv_heads};
}

/* The bytes that a split of a sequence leaves to the second kernel. */
static double part_bytes(const ftl_decode *c, const attention_key *key) {
    return 4.0 * (double)c->q_heads * (double)c->q_len * (double)(key->value_dim + sums_of(key));
}

/* Those of so many keys with their values. */
static double bytes_of_keys(const ftl_decode *c, const attention_key *key, int64_t keys) {
    int32_t elements = key->head_dim + (key->is_latent ? 0 : key->value_dim);
    return 2.0 * (double)c->kv_heads * elements * (double)keys;
}

/* The splits of each sequence where the caller says how many keys there are in all: as many as a
 * batch gets whose sequences, all as long as there is room for, have that many. It is smaller, so
 * splits are more, and a long sequence among short ones is not left to a few blocks. What splits
 * leave is 'most' bytes at most, unless as many are needed as without such a number.
 */
static int64_t splits_of_keys(const ftl_decode *c, const attention_key *key, const ftl_plan *plan,
                              int64_t multiprocessors, double most) {
    enum { ROUND = 8 }; /* what plan_splits gives: 1, 2, 4 or a multiple of it */
    plan_work work = work_of(c);
    int64_t room = c->pages.columns * c->pages.page_len;
    int64_t least = plan_splits(plan, multiprocessors, &work, room);
    if (!c->total_keys || !room) return least;
    int64_t alike = c->total_keys / room + (c->total_keys % room != 0);
    if (alike < work.batch) work.batch = alike;
    int64_t splits = plan_splits(plan, multiprocessors, &work, room);
    double each = part_bytes(c, key) * (double)c->batch;
    while (splits > least && each * (double)splits > most)
        splits = splits > ROUND ? splits - ROUND : splits / 2;
    return splits;
}

/* What a batch needs grows with it: either its own rows fill the GPU, or as many rows of splits do.
 * Splits for fewer keys write a part of what is read at most.
 */
static ftl_status divide(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                         const attention_key *key, const ftl_plan *plan, division *out) {
    enum { READ_FOR_EACH_WRITTEN = 4 };
    static const double exact = 9007199254740992.0; /* 2^53 */
    int multiprocessors = 0;
    ftl_status status = runtime_multiprocessors(context, runtime, key->device, &multiprocessors);
    if (status) return status;
    const plan_work work = work_of(c);
    int64_t at_once = plan_splits_at_once(plan, multiprocessors, &work);
    bool is_copied = !has_whole(key); /* sequences of one split go through the memory, too */
    double parts = (double)(is_copied && c->batch > at_once ? c->batch : at_once);
    double each = part_bytes(c, key);
    if (each * parts > exact)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "batch, q_heads and q_len are too large together");
    double most = bytes_of_keys(c, key, c->total_keys) / READ_FOR_EACH_WRITTEN;
    if (most > exact) most = exact;
    int64_t wanted = splits_of_keys(c, key, plan, multiprocessors, most);
    double wanted_bytes = wanted > 1 || is_copied ? each * (double)wanted * (double)c->batch : 0;
    double has = (double)c->workspace_bytes;
    out->bytes = (size_t)(each * parts);
    out->wanted = wanted_bytes > each * parts ? (size_t)wanted_bytes : out->bytes;
    out->splits = has < wanted_bytes ? splits_of_keys(c, key, plan, multiprocessors, has) : wanted;
    out->is_whole = out->splits == 1 && !is_copied;
    out->sums_bytes = (size_t)(c->batch * out->splits * c->q_heads * c->q_len * key->value_dim * 4);
    return FTL_OK;
}

/* A call as both kinds of decoding have it. */
typedef struct decoding {
    ftl_decode call;
    bool is_latent;
    attention_key key;
    ftl_module *modules[2], *whole; /* of splits and their combination; of sequences of one split */
    division parts;
} decoding;

static ftl_status find_whole(ftl_context *context, ftl_runtime *runtime, decoding *d) {
    attention_key key = d->key;
    key.operator= ATTENTION_PAGED_DECODE;
    return attention_find(context, runtime, &key, &d->whole);
}

/* Of latent values a block makes all columns where there is such a kernel, of two warpgroups that
 * share them. Where that was rejected once there is one for fewer.
 */
static ftl_status find_kernels(ftl_context *context, ftl_runtime *runtime, decoding *d) {
    attention_key all = d->key;
    if (d->is_latent) all.columns = all.value_dim;
    if (all.columns != d->key.columns && !attention_is_made(runtime, &d->key)) {
        ftl_status status = attention_find(context, runtime, &all, d->modules);
        if (!status) d->key = all;
        if (status != FTL_REJECTED) return status;
    }
    return attention_find(context, runtime, &d->key, d->modules);
}

static ftl_status find(ftl_context *context, ftl_runtime *runtime, decoding *d) {
    ftl_status status = make_key(context, runtime, &d->call, d->is_latent, &d->key);
    if (!status) status = find_kernels(context, runtime, d);
    if (status) return status;
    const ftl_plan *plan = ftl_module_plan(d->modules[0]);
    return divide(context, runtime, &d->call, &d->key, plan, &d->parts);
}

/* Whatever number of splits later calls have. */
static ftl_status prepare(ftl_context *context, ftl_runtime *runtime, decoding *d) {
    ftl_status status = find(context, runtime, d);
    return status || !has_whole(&d->key) ? status : find_whole(context, runtime, d);
}

/* --- the call --------------------------------------------------------------------------------- */

/* (batch, head; query, d); without d: (batch, head; query). */
static void give_queries(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                         const ftl_decode *c, int64_t d) {
    ftl_tensor *to = given_add(g, name, t->address, type, d ? 4 : 3);
    given_axis(to, 0, c->batch, t->batch_stride);
    given_axis(to, 1, c->q_heads, t->head_stride);
    given_axis(to, 2, c->q_len, t->length_stride);
    if (d) given_axis(to, 3, d, 1);
}

/* O_part (batch, head, query, split, d) and lse_part (batch, head, query, split), dense; of latent
 * attention lse_part (batch, head, block of columns, query, split).
 */
static void give_parts(given *g, const ftl_decode *c, const attention_key *key,
                       const division *parts) {
    int64_t splits = parts->splits, d = key->value_dim, sums = sums_of(key);
    ftl_tensor *to = given_add(g, "O_part", c->workspace, FTL_F32, 5);
    given_axis(to, 0, c->batch, c->q_heads * c->q_len * splits * d);
    given_axis(to, 1, c->q_heads, c->q_len * splits * d);
    given_axis(to, 2, c->q_len, splits * d);
    given_axis(to, 3, splits, d);
    given_axis(to, 4, d, 1);
    int32_t axis = 0;
    to = given_add(g, "lse_part", c->workspace + parts->sums_bytes, FTL_F32, 4 + key->is_latent);
    given_axis(to, axis++, c->batch, c->q_heads * sums * c->q_len * splits);
    given_axis(to, axis++, c->q_heads, sums * c->q_len * splits);
    if (key->is_latent) given_axis(to, axis++, sums, c->q_len * splits);
    given_axis(to, axis++, c->q_len, splits);
    given_axis(to, axis, splits, 1);
}

/* What scores and sums are made of. */
static void give_inputs(given *g, const ftl_decode *c, const attention_key *key) {
    give_queries(g, "Q", &c->q, c->dtype, c, key->head_dim);
    given_pool(g, "K", &c->k, c->dtype, &c->pages, c->kv_heads, key->head_dim);
    if (!key->is_latent)
        given_pool(g, "V", &c->v, c->dtype, &c->pages, c->kv_heads, key->value_dim);
    given_table(g, "table", c->pages.table, FTL_I32, c->batch, c->pages.columns, c->pages.stride);
    given_list(g, "kv_lens", c->kv_lens, c->batch);
    const scoring_shape shape = {c->batch, c->q_heads, c->q_len, true};
    serving_give_scoring(g, &c->scoring, key, shape);
    given_scalar(g, "scale", attention_scale(c->scale, c->head_dim));
}

/* What the call is for, and the sinks, which are where a row's last sum begins. */
static void give_results(given *g, const ftl_decode *c, const attention_key *key) {
    give_queries(g, "O", &c->o, c->dtype, c, key->value_dim);
    if (key->has_lse) give_queries(g, "lse", &c->lse, FTL_F32, c, 0);
    if (key->has_sinks) serving_give_sinks(g, &c->scoring, c->q_heads);
}

static ftl_status launch_whole(ftl_context *context, ftl_module *module, const ftl_decode *c,
                               const attention_key *key, void *stream) {
    given g = {.count = 0};
    give_inputs(&g, c, key);
    give_results(&g, c, key);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

static ftl_status launch_splits(ftl_context *context, ftl_module *module, const ftl_decode *c,
                                const attention_key *key, const division *parts, void *stream) {
    given g = {.count = 0};
    give_inputs(&g, c, key);
    give_parts(&g, c, key, parts);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

static ftl_status launch_combination(ftl_context *context, ftl_module *module, const ftl_decode *c,
                                     const attention_key *key, const division *parts,
                                     void *stream) {
    given g = {.count = 0};
    give_parts(&g, c, key, parts);
    give_results(&g, c, key);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

static ftl_status launch(ftl_context *context, ftl_runtime *runtime, decoding *d, void *stream) {
    const ftl_decode *c = &d->call;
    ftl_status status = find(context, runtime, d);
    if (!status && d->parts.is_whole) status = find_whole(context, runtime, d);
    if (!status) status = serving_check_decode(context, runtime, c, stream);
    if (status || !c->batch || !c->q_len) return status;
    bool has_room = c->workspace && c->workspace % 16 == 0 && c->workspace_bytes >= d->parts.bytes;
    if (d->parts.bytes && !has_room)
        return ftl_context_fail(
            context, FTL_INVALID_ARGUMENT,
            "the workspace has %zu bytes at a multiple of 16; the call needs "
            "%zu (%s)",
            c->workspace && c->workspace % 16 == 0 ? c->workspace_bytes : 0, d->parts.bytes,
            d->is_latent ? "ftl_mla_decode_workspace" : "ftl_attention_decode_workspace");
    if (d->parts.is_whole) return launch_whole(context, d->whole, c, &d->key, stream);
    status = launch_splits(context, d->modules[0], c, &d->key, &d->parts, stream);
    if (status) return status;
    return launch_combination(context, d->modules[1], c, &d->key, &d->parts, stream);
}

static ftl_status workspace_of(ftl_context *context, ftl_runtime *runtime, ftl_status status,
                               decoding *d, size_t *bytes) {
    *bytes = 0;
    if (!status) status = find(context, runtime, d);
    if (!status) *bytes = d->parts.wanted;
    return status;
}

/* --- keys and values -------------------------------------------------------------------------- */

static ftl_status begin(ftl_context *context, const ftl_decode *from, decoding *d) {
    d->is_latent = false;
    return serving_take(context, from, offsetof(ftl_decode, scoring), &d->call, sizeof d->call,
                        "FTL_DECODE_INIT");
}

ftl_status ftl_attention_decode_prepare(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_decode *decode) {
    decoding d;
    ftl_status status = begin(context, decode, &d);
    return status ? status : prepare(context, runtime, &d);
}

ftl_status ftl_attention_decode_workspace(ftl_context *context, ftl_runtime *runtime,
                                          const ftl_decode *decode, size_t *bytes) {
    decoding d;
    NEEDS(bytes);
    return workspace_of(context, runtime, begin(context, decode, &d), &d, bytes);
}

ftl_status ftl_attention_decode(ftl_context *context, ftl_runtime *runtime,
                                const ftl_decode *decode, void *stream) {
    decoding d;
    ftl_status status = begin(context, decode, &d);
    return status ? status : launch(context, runtime, &d, stream);
}

/* --- latent attention ------------------------------------------------------------------------- */

/* One key head, whose rows the values are a part of. */
static ftl_status begin_latent(ftl_context *context, const ftl_mla *from, decoding *d) {
    ftl_mla m;
    ftl_status status =
        serving_take(context, from, offsetof(ftl_mla, total_keys), &m, sizeof m, "FTL_MLA_INIT");
    if (status) return status;
    if (m.value_dim < 1 || m.value_dim > m.head_dim)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "value_dim is from 1 to head_dim: values are the first columns of "
                                "keys; found %lld of %lld",
                                (long long)m.value_dim, (long long)m.head_dim);
    if (!(m.scale > 0))
        return ftl_context_fail(
            context, FTL_INVALID_ARGUMENT,
            "the scale is above 0: that of the heads before they were absorbed");
    if (m.heads < 1 || m.heads > INT16_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "there are 1 to %d heads, not %lld",
                                INT16_MAX, (long long)m.heads);
    d->is_latent = true;
    d->call = (ftl_decode){.struct_bytes = sizeof d->call,
                           .dtype = m.dtype,
                           .batch = m.batch,
                           .q_len = m.q_len,
                           .q_heads = m.heads,
                           .kv_heads = 1,
                           .head_dim = m.head_dim,
                           .value_dim = m.value_dim,
                           .q = m.q,
                           .k = m.cache,
                           .o = m.o,
                           .lse = m.lse,
                           .pages = m.pages,
                           .kv_lens = m.kv_lens,
                           .workspace = m.workspace,
                           .workspace_bytes = m.workspace_bytes,
                           .scale = m.scale,
                           .causal = m.causal,
                           .total_keys = m.total_keys};
    d->call.k.head_stride = m.cache.length_stride; /* there is one */
    return FTL_OK;
}

ftl_status ftl_mla_decode_prepare(ftl_context *context, ftl_runtime *runtime, const ftl_mla *mla) {
    decoding d;
    ftl_status status = begin_latent(context, mla, &d);
    return status ? status : prepare(context, runtime, &d);
}

ftl_status ftl_mla_decode_workspace(ftl_context *context, ftl_runtime *runtime, const ftl_mla *mla,
                                    size_t *bytes) {
    decoding d;
    NEEDS(bytes);
    return workspace_of(context, runtime, begin_latent(context, mla, &d), &d, bytes);
}

ftl_status ftl_mla_decode(ftl_context *context, ftl_runtime *runtime, const ftl_mla *mla,
                          void *stream) {
    decoding d;
    ftl_status status = begin_latent(context, mla, &d);
    return status ? status : launch(context, runtime, &d, stream);
}
