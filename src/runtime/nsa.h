/* Native sparse attention: what a call comes to, and its steps. */
#ifndef FLASHTL_RUNTIME_NSA_H
#define FLASHTL_RUNTIME_NSA_H

#include "runtime/attention.h"

enum { NSA_BLOCK = 64 }; /* keys; `select_len` of sketches/nsa.tl */

/* Where a step's result is, in the order in which they lie in the workspace. */
typedef enum nsa_result {
    NSA_K_MEAN,
    NSA_V_MEAN,
    NSA_O_MEAN,
    NSA_LSE,
    NSA_SCORE,
    NSA_CHOSEN,
    NSA_LIST,
    NSA_SEEN,
    NSA_COUNT,
    NSA_O_CHOSEN,
    NSA_O_NEAR,
    NSA_RESULTS
} nsa_result;

/* A call whose settings are all said. */
typedef struct nsa_call {
    ftl_nsa own;
    int64_t blocks;
    int32_t group, span;
    bool is_shared, has_means; /* has_means: the caller's */
    ftl_tensor results[NSA_RESULTS];
    bool is_result[NSA_RESULTS]; /* in the workspace */
    size_t bytes;
} nsa_call;

/* nsa_steps.c: launches them, in order; or only finds the kernels of one kind of lengths. */
ftl_status nsa_launch(ftl_context *context, ftl_runtime *runtime, const nsa_call *c, void *stream);
ftl_status nsa_find(ftl_context *context, ftl_runtime *runtime, const nsa_call *c);

#endif
