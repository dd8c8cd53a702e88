/* What the calls of attention share: the kernels of a runtime by what they compute. */
#ifndef FLASHTL_RUNTIME_ATTENTION_H
#define FLASHTL_RUNTIME_ATTENTION_H

#include "flashtl/attention.h"
#include "runtime/driver.h"

typedef enum attention_operator {
#define OPERATOR(name, sketch, has_d, has_dv) ATTENTION_##name,
#include "runtime/operators.def"
#undef OPERATOR
} attention_operator;

/* What decides a kernel. Compared as bytes: begun by attention_key_begin, which sets it to zero. */
typedef struct attention_key {
    int32_t operator, device, dtype, head_dim, value_dim;
    int32_t window, group, top, chunk, columns, span, quad; /* settings of the sketch; 0: not set */
    int32_t page_len, half; /* pins: of a page; columns that are rotated, halved. 0: none */
    int32_t nominal_q_len;  /* queries that the reasoner is asked for; 0: as the sketch says */
    bool is_short;          /* made for short sequences */
    bool causal, is_first, has_alibi, has_lse, has_q_used, has_kv_used, is_paged;
    bool is_interleaved, is_plain;
    bool has_sinks, has_bias, has_sides, is_padded, is_latent, is_shared;
    double softcap;
} attention_key;

/* What all calls say of their operator. */
typedef struct attention_common {
    attention_operator operator;
    ftl_type dtype;
    int64_t head_dim, value_dim;
    double scale, softcap;
    int32_t window;
} attention_common;

/* Checks it and begins the key of the current device's kernel: all else in it is zero. */
ftl_status attention_key_begin(ftl_context *context, ftl_runtime *runtime,
                               const attention_common *common, attention_key *key);

/* The scale that is meant: 0 stands for 1 / sqrt(head_dim). */
double attention_scale(double scale, int64_t head_dim);

/* Where other tile sizes may be faster than those that are right for long sequences. */
bool attention_is_short(int64_t q_len, int64_t kv_len);

/* attention_kernels.c: finds the kernel, or makes it. Decoding has two, which run in turn: the
 * splits of keys, and their combination.
 */
ftl_status attention_find(ftl_context *context, ftl_runtime *runtime, const attention_key *key,
                          ftl_module **modules);
/* Was it found or made before? */
bool attention_is_made(const ftl_runtime *runtime, const attention_key *key);

#endif
