/* flashtl/attention.h: attention in one call.
 *
 *     O = softmax(scale * Q K^T + bias, masked) V
 *
 * The first call for a combination of element type, head sizes and options makes and loads its
 * kernel (or takes it from the cache on disk); later calls find it without a lock and only launch.
 * A kernel serves all batch sizes, lengths, numbers of heads and strides; where other tile sizes
 * are faster for short sequences (up to 1,024 queries and keys), these have a kernel of their own.
 */
#ifndef FLASHTL_ATTENTION_H
#define FLASHTL_ATTENTION_H

#include "flashtl/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix per batch and head. Strides count elements and may come in any order of size, so that
 * (batch, length, heads, d) and (batch, heads, length, d) are the same to the kernel; the stride
 * along d is 1.
 */
typedef struct ftl_attention_tensor {
    uint64_t address; /* device address, a multiple of 16; may be 0 when there are no elements */
    int64_t batch_stride, length_stride, head_stride; /* multiples of 16 bytes */
} ftl_attention_tensor;

/* Start from FTL_ATTENTION_INIT: fields that are added later mean "not used" when they are 0. */
typedef struct ftl_attention {
    size_t struct_bytes; /* sizeof(ftl_attention) */
    ftl_type dtype;      /* of Q, K, V and O: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch, q_len, kv_len;
    int64_t q_heads, kv_heads;   /* q_heads is a multiple of kv_heads */
    int64_t head_dim, value_dim; /* of Q and K, of V and O; value_dim 0: the same */
    ftl_attention_tensor q, k, v, o;
    ftl_attention_tensor lse; /* log-sum-exp, f32 (batch, q_heads, q_len); address 0: not wanted */
    uint64_t alibi_slopes;    /* f32 (q_heads): device address; 0: no bias */
    double scale;             /* above 0; 0: 1 / sqrt(head_dim) */
    bool causal;              /* query i sees keys up to i + kv_len - q_len */
    int32_t window;           /* above 0: and none window or more places away from that */
    double softcap;           /* above 0: scores become softcap * tanh(score / softcap) */
} ftl_attention;

#define FTL_ATTENTION_INIT FTL_STRUCT_INIT(ftl_attention)

/* Launches on a stream of the current CUDA context, asynchronously. Nothing to do (no batch, no
 * query) is OK and launches nothing; no keys give zeros and a log-sum-exp of minus infinity.
 * 'window' and 'softcap' are constants of the kernel: each new value makes another one.
 * OK, INVALID_ARGUMENT (with what is wrong), REJECTED (no kernel for this GPU: the diagnostics say
 * why), and the statuses of ftl_product_load, which verifies, and ftl_module_launch. Safe from
 * several threads. A runtime serves one CUDA context per device.
 */
FTL_API ftl_status ftl_attention_forward(ftl_context *context, ftl_runtime *runtime,
                                         const ftl_attention *attention, void *stream);

/* Makes and loads what forward may need, without launching it; addresses and lengths do not count.
 */
FTL_API ftl_status ftl_attention_prepare(ftl_context *context, ftl_runtime *runtime,
                                         const ftl_attention *attention);

/* Sparse attention: each query sees the blocks of 64 keys that a list names, up to its own place.
 *
 * 'blocks' is i32 (batch, kv_heads, q_len, top): the list of a query, which all query heads of a
 * key head share, in any order; top 1 to 1024. An entry that names no block (negative, or past the
 * last one) is left out, one that stands there twice counts twice, a query without any gets 0. The
 * last block may be short. Query i has the place first + i. Start from FTL_SPARSE_INIT.
 */
typedef struct ftl_sparse {
    size_t struct_bytes;          /* sizeof(ftl_sparse) */
    ftl_type dtype;               /* of Q, K, V and O: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch, q_len, kv_len; /* kv_len: 1 at least */
    int64_t q_heads, kv_heads;    /* q_heads is a multiple of kv_heads */
    int64_t head_dim, value_dim;  /* of Q and K, of V and O; value_dim 0: the same */
    ftl_attention_tensor q, k, v, o;
    uint64_t blocks; /* device address, a multiple of 4; entries of one list lie side by side */
    int64_t blocks_batch_stride, blocks_head_stride, blocks_query_stride; /* in entries */
    int32_t top;                                                          /* entries of a list */
    int32_t first; /* keys before the first query: 0 for a prompt, kv_len - q_len for its end */
    double scale;  /* above 0; 0: 1 / sqrt(head_dim) */
} ftl_sparse;

#define FTL_SPARSE_INIT FTL_STRUCT_INIT(ftl_sparse)

/* As ftl_attention_forward: asynchronous, safe from several threads, with the same statuses. All
 * memory is the caller's and has to stay until the stream has done the work; there is no workspace.
 * 'top' and q_heads / kv_heads are constants of the kernel: each new pair makes another one.
 */
FTL_API ftl_status ftl_sparse_attention(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_sparse *sparse, void *stream);

/* Native sparse attention, whole: each query attends to the means of all blocks of 64 keys, to the
 * 'top' blocks that its group of heads chooses by them, and to the last 'window' keys. O is the sum
 * of the three, each times its gate. Query i has the place kv_len - q_len + i and sees no later
 * key.
 *
 * A cache that grows keeps its blocks' means: with k_mean and v_mean of its own, of which the first
 * 'mean_blocks' are there, a call makes the others. Start from FTL_NSA_INIT.
 */
typedef struct ftl_nsa {
    size_t struct_bytes;          /* sizeof(ftl_nsa) */
    ftl_type dtype;               /* of Q, K, V and O: FTL_F16, or FTL_BF16 where the GPU has it */
    int64_t batch, q_len, kv_len; /* kv_len: q_len at least */
    int64_t q_heads, kv_heads;    /* q_heads is a multiple of 8 kv_heads */
    int64_t head_dim, value_dim;  /* of Q and K, of V and O; value_dim 0: the same */
    ftl_attention_tensor q, k, v, o;
    ftl_attention_tensor gate_mean, gate_chosen, gate_near; /* f32 (batch, q_heads, q_len) */
    ftl_attention_tensor k_mean, v_mean; /* (batch, kv_heads, block, d); address 0: of the call */
    int64_t mean_blocks;                 /* so many are there: kv_len / 64, rounded down, at most */
    int32_t top;                         /* 8, 16, ... 64; 0: 16 */
    int32_t window;                      /* above 0; 0: 512 */
    int32_t quad;       /* queries that share the blocks they read: 1 to 8; 0: 8, a single one: 1 */
    double scale;       /* above 0; 0: 1 / sqrt(head_dim) */
    uint64_t workspace; /* device memory, a multiple of 16, whose contents do not count */
    size_t workspace_bytes;
} ftl_nsa;

#define FTL_NSA_INIT FTL_STRUCT_INIT(ftl_nsa)

/* As ftl_attention_forward. All steps are launched on the stream, one after the other; nothing is
 * allocated, nothing waited for, and what prepare has made is not made again, so that the call can
 * be captured. 'top', 'window', 'quad' and q_heads / kv_heads are constants of kernels.
 */
FTL_API ftl_status ftl_nsa_attention(ftl_context *context, ftl_runtime *runtime, const ftl_nsa *nsa,
                                     void *stream);

/* Makes and loads what calls of any lengths may need; addresses and lengths do not count. */
FTL_API ftl_status ftl_nsa_prepare(ftl_context *context, ftl_runtime *runtime, const ftl_nsa *nsa);

/* How many bytes of workspace a call needs; addresses do not count. */
FTL_API ftl_status ftl_nsa_workspace(ftl_context *context, const ftl_nsa *nsa, size_t *bytes);

/* What the steps of a call leave in its workspace, by the names that sketches/nsa.tl has for it:
 * K_mean, V_mean (where they are the call's own), O_mean, lse, score, chosen, list, seen, count,
 * O_chosen and O_near; list, seen and count where queries share blocks. *count is how many.
 */
enum { FTL_NSA_RESULTS_MAX = 11 };
FTL_API ftl_status ftl_nsa_results(ftl_context *context, const ftl_nsa *nsa,
                                   ftl_tensor results[FTL_NSA_RESULTS_MAX], int32_t *count);

#ifdef __cplusplus
}
#endif

#endif
