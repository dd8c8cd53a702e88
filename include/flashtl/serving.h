/* flashtl/serving.h: attention for engines that serve: sequences of any lengths, keys in pages.
 *
 * Lengths, starts and pages are tables in device memory, so that a launch depends on none of them:
 * nothing is allocated, synchronised or compiled in a call whose kernel is there, and a graph that
 * captured the call may be replayed with other contents of the same tables. The first call for a
 * combination of element type, head sizes and options makes its kernel, as ftl_attention_forward
 * does; ftl_..._prepare does so without launching. docs/serving.md has an engine's loop.
 *
 * No kernel looks whether a table is right: an entry that names no page, or a length past the end
 * of what is there, reads and writes beside the tensors. With FLASHTL_CHECK=1 in the environment
 * when the runtime is opened (or ftl_runtime_options.checks_tables) each call first waits for its
 * stream, reads its tables and refuses what is wrong in one sentence.
 */
#ifndef FLASHTL_SERVING_H
#define FLASHTL_SERVING_H

#include "flashtl/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and values in pages, each of page_len tokens, and which pages belong to which sequence:
 * token i of a sequence is in place i % page_len of the page that entry i / page_len of its row of
 * the table names. Of the tensors 'batch_stride' leads from page to page. page_len is a constant of
 * the kernel: each value makes another one.
 */
typedef struct ftl_pages {
    int64_t page_len;        /* tokens of a page, 1 to 1024; 0: keys and values lie in no pages */
    int64_t count;           /* pages of the pools */
    uint64_t table;          /* i32 (batch, columns): device address */
    int64_t columns, stride; /* entries of a row, and from row to row */
} ftl_pages;

/* What else decides the scores, and which keys a query sees. All 0: nothing does.
 *
 * A query sees a key where each of these, 'causal' and 'window' let it. Places are those that
 * 'causal' compares. 'sinks', 'alibi_slopes', 'bias', 'padding', whether there is a window of two
 * sides, and 'chunk' make kernels of their own; how wide that window is does not.
 */
typedef struct ftl_scoring {
    uint64_t sinks;        /* f32 (q_heads): of each head one more score in the denominator, of no
                              key; it counts in lse, too. Minus infinity: none */
    uint64_t alibi_slopes; /* f32 (q_heads): a score falls by the distance times the slope */
    uint64_t bias; /* f32 (batch, head, query, key), of ftl_varlen (head, token, key): is added to
                      scores that are scaled and capped. Device address, a multiple of 4; a key's
                      column is its number in the sequence, and columns lie side by side */
    int64_t bias_batch_stride, bias_head_stride, bias_query_stride; /* elements; 0: one for all */
    int64_t bias_columns;  /* as many as the longest sequence has keys, at least */
    uint64_t padding;      /* i32 (batch): so many keys of a sequence, the first ones, are
                              seen by no query. Their elements have to be finite */
    int32_t window_before; /* above 0: no key so many or more places before its own */
    int32_t window_after;  /* above 0: nor so many or more after it */
    int32_t chunk;         /* above 0: keys of its own chunk of so many places alone; the
                              first one begins with the first key that is no padding */
} ftl_scoring;

/* Attention over sequences of any lengths, one after the other in memory (cumulative lengths).
 *
 * Sequence b has the queries q_start[b] ... q_start[b + 1] - 1 of q and the keys kv_start[b] ...
 * kv_start[b + 1] - 1 of k and v; with 'q_used' or 'kv_used' only the first so many of them. With
 * pages it has the first kv_used[b] keys of its pages instead. Rows of o and lse of queries that no
 * sequence has stay as they are. Start from FTL_VARLEN_INIT.
 */
typedef struct ftl_varlen {
    size_t struct_bytes;         /* sizeof(ftl_varlen) */
    ftl_type dtype;              /* of q, k, v and o: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch;               /* sequences */
    int64_t q_tokens, kv_tokens; /* rows of q, o and lse; of k and v, where they lie in no pages */
    int64_t max_q_len;         /* a bound of the launch: queries of a sequence from this one on are
                                  not computed */
    int64_t q_heads, kv_heads; /* q_heads is a multiple of kv_heads */
    int64_t head_dim, value_dim;     /* of q and k, of v and o; value_dim 0: the same */
    ftl_attention_tensor q, k, v, o; /* (token, head, d); batch_stride is of pages alone */
    ftl_attention_tensor lse;        /* log-sum-exp, f32 (token, head); address 0: not wanted */
    uint64_t q_start, kv_start;      /* i32 (batch + 1): device addresses */
    uint64_t q_used, kv_used;        /* i32 (batch), or 0: all; kv_used is needed with pages */
    ftl_pages pages;
    double scale;   /* above 0; 0: 1 / sqrt(head_dim) */
    bool causal;    /* a query sees keys up to its own place, counted from the last ones */
    bool is_first;  /* places are counted from the first ones instead */
    int32_t window; /* above 0: and none window or more places away from that */
    double softcap; /* above 0: scores become softcap * tanh(score / softcap) */
    ftl_scoring scoring;
} ftl_varlen;

#define FTL_VARLEN_INIT FTL_STRUCT_INIT(ftl_varlen)

/* Launches on a stream of the current CUDA context, asynchronously; statuses as of
 * ftl_attention_forward. A sequence without keys gets zeros and a log-sum-exp of minus infinity.
 */
FTL_API ftl_status ftl_attention_varlen(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_varlen *varlen, void *stream);
FTL_API ftl_status ftl_attention_varlen_prepare(ftl_context *context, ftl_runtime *runtime,
                                                const ftl_varlen *varlen);

/* Attention of the last q_len tokens of each sequence to its keys in pages: q_len is 1 while tokens
 * are made one by one, more where several are guessed. Start from FTL_DECODE_INIT.
 */
typedef struct ftl_decode {
    size_t struct_bytes; /* sizeof(ftl_decode) */
    ftl_type dtype;      /* of q, k, v and o: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch, q_len;
    int64_t q_heads, kv_heads;       /* q_heads is a multiple of kv_heads */
    int64_t head_dim, value_dim;     /* of q and k, of v and o; value_dim 0: the same */
    ftl_attention_tensor q, k, v, o; /* k and v: the pools of pages */
    ftl_attention_tensor lse;        /* log-sum-exp, f32 (batch, q_len, head); address 0: none */
    ftl_pages pages;                 /* page_len is above 0 */
    uint64_t kv_lens;                /* i32 (batch): keys of each sequence, the new ones included */
    uint64_t workspace;              /* device address, a multiple of 16 */
    size_t workspace_bytes;          /* at least what ftl_attention_decode_workspace says */
    double scale;                    /* above 0; 0: 1 / sqrt(head_dim) */
    bool causal;    /* query i of q_len sees keys up to i + kv_len - q_len; of no matter for 1 */
    int32_t window; /* above 0: and none window or more places away from that */
    double softcap; /* above 0: scores become softcap * tanh(score / softcap) */
    ftl_scoring scoring;
    int64_t total_keys; /* about how many keys all sequences have together, where they have fewer
                           than there is room for: each sequence is then split by its length, as
                           kv_lens has it when the call runs (kv_lens at a multiple of 16). Any
                           number is right; 0: as many as there is room for */
} ftl_decode;

#define FTL_DECODE_INIT FTL_STRUCT_INIT(ftl_decode)

/* As ftl_attention_varlen. q_heads / kv_heads is a constant of the kernel, too. */
FTL_API ftl_status ftl_attention_decode(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_decode *decode, void *stream);
FTL_API ftl_status ftl_attention_decode_prepare(ftl_context *context, ftl_runtime *runtime,
                                                const ftl_decode *decode);
/* The bytes of device memory that calls with these sizes need beside their tensors, whatever the
 * tables hold, however many columns they have, and for any smaller batch. Two calls that may run at
 * the same time need one each. Addresses do not count. Makes the kernels, whose tiles decide it.
 * A call with total_keys that has less, but enough to split sequences alike, does that. Statuses as
 * of ftl_attention_decode.
 */
FTL_API ftl_status ftl_attention_decode_workspace(ftl_context *context, ftl_runtime *runtime,
                                                  const ftl_decode *decode, size_t *bytes);

/* Latent attention of the last tokens of sequences, absorbed: all heads share one key a token, and
 * its first value_dim columns are the value. DeepSeek's has 128 heads of 576, of which 512 are the
 * value and 64 are rotated. Start from FTL_MLA_INIT.
 */
typedef struct ftl_mla {
    size_t struct_bytes; /* sizeof(ftl_mla) */
    ftl_type dtype;      /* of q, cache and o: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch, q_len, heads;
    int64_t head_dim, value_dim; /* of q and the cache, of o: value_dim is at most head_dim */
    ftl_attention_tensor q;      /* (batch, q_len, head, head_dim) */
    ftl_attention_tensor cache;  /* (page, slot, head_dim): 'batch_stride' leads from page to
                                    page, 'length_stride' from slot to slot */
    ftl_attention_tensor o;      /* (batch, q_len, head, value_dim) */
    ftl_attention_tensor lse;    /* log-sum-exp, f32 (batch, q_len, head); address 0: none */
    ftl_pages pages;             /* page_len is above 0 */
    uint64_t kv_lens;            /* i32 (batch): keys of each sequence, the new ones included */
    uint64_t workspace;          /* device address, a multiple of 16 */
    size_t workspace_bytes;      /* at least what ftl_mla_decode_workspace says */
    double scale; /* above 0. Of no use here is 1 / sqrt(head_dim): it is that of the heads before
                     they were absorbed, DeepSeek's 1 / sqrt(128 + 64) */
    bool causal;  /* query i of q_len sees keys up to i + kv_len - q_len; of no matter for 1 */
    int64_t total_keys; /* as of ftl_decode, but that all sequences have as many splits: more, the
                           fewer keys there are */
} ftl_mla;

#define FTL_MLA_INIT FTL_STRUCT_INIT(ftl_mla)

/* As those of ftl_attention_decode. 'heads' is a constant of the kernel, too. */
FTL_API ftl_status ftl_mla_decode(ftl_context *context, ftl_runtime *runtime, const ftl_mla *mla,
                                  void *stream);
FTL_API ftl_status ftl_mla_decode_prepare(ftl_context *context, ftl_runtime *runtime,
                                          const ftl_mla *mla);
FTL_API ftl_status ftl_mla_decode_workspace(ftl_context *context, ftl_runtime *runtime,
                                            const ftl_mla *mla, size_t *bytes);

/* Puts new keys and values into their places of a cache in pages; keys, and queries where there are
 * any, are rotated by their places before (rotary embedding). Nothing else of the cache changes.
 * Start from FTL_APPEND_INIT.
 *
 * Of the first rotary_dim columns of a row, i and rotary_dim / 2 + i (or 2i and 2i + 1) become
 * a * cosine - b * sine and b * cosine + a * sine of angle i at the row's place; the others stay.
 */
typedef struct ftl_append {
    size_t struct_bytes;               /* sizeof(ftl_append) */
    ftl_type dtype;                    /* of all rows: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t tokens;                    /* new ones, of all sequences */
    int64_t q_heads, kv_heads;         /* q_heads 0: there are no queries */
    int64_t head_dim, value_dim;       /* of q and k, of v; value_dim 0: the same */
    ftl_attention_tensor q, q_rotated; /* (token, head, d); in different memory */
    ftl_attention_tensor k, v;         /* (token, head, d): the new ones */
    ftl_attention_tensor k_pool, v_pool; /* (page, slot, head, d): batch_stride leads from page to
                                            page, length_stride from slot to slot */
    int64_t page_len, pages;             /* tokens of a page, 1 to 1024; pages of the pools */
    uint64_t slots;        /* i32 (tokens): page * page_len + slot of each; no two are equal */
    int64_t rotary_dim;    /* even, at most head_dim; 0: nothing is rotated, and q_heads is 0 */
    bool is_interleaved;   /* 2i and 2i + 1 are rotated together */
    uint64_t cosine, sine; /* f32 (places, rotary_dim / 2): device addresses, a multiple of 4 */
    int64_t angle_stride;  /* from place to place */
    int64_t places_count;  /* rows of these */
    uint64_t places;       /* i32 (tokens): the row of each token */
} ftl_append;

#define FTL_APPEND_INIT FTL_STRUCT_INIT(ftl_append)

/* As ftl_attention_varlen; one launch for keys and values, another for queries. */
FTL_API ftl_status ftl_attention_append(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_append *append, void *stream);
FTL_API ftl_status ftl_attention_append_prepare(ftl_context *context, ftl_runtime *runtime,
                                                const ftl_append *append);

#ifdef __cplusplus
}
#endif

#endif
