/* How a call of decoding divides keys (decision 024). */
#ifndef FLASHTL_RUNTIME_SERVING_DIVIDE_H
#define FLASHTL_RUNTIME_SERVING_DIVIDE_H

#include "flashtl/plan.h"
#include "flashtl/serving.h"
#include "runtime/attention.h"

/* Stretches: numbers of the launch, and where in the workspace lies what is between the kernels. */
typedef struct division_stretches {
    int64_t spare, least, items;
    size_t lse, starts, owner; /* O_part is at 0 */
    size_t bytes;
} division_stretches;

/* What a call divides keys by, and what lies between its kernels. */
typedef struct division {
    int64_t splits;
    size_t sums_bytes; /* of O_part */
    size_t bytes;      /* of that and lse_part: what any smaller batch needs, too */
    size_t wanted;     /* the same, for what total_keys asks for */
    bool is_whole;     /* one split, by one kernel: nothing lies between */
    bool is_stretched; /* by stretches instead */
    division_stretches stretches;
} division;

/* 'plan' is that of the kernel of splits. */
ftl_status divide(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                  const attention_key *key, const ftl_plan *plan, division *out);

/* Is there a kernel for sequences of one split? Of latent values, blocks of other columns would all
 * write a row's log-sum-exp.
 */
bool divide_has_whole(const attention_key *key);
/* Are there kernels of stretches? */
bool divide_may_stretch(const attention_key *key);
/* How often a row's sum of weights is made: of latent values, by each block of columns. */
int64_t divide_sums(const attention_key *key);

#endif
