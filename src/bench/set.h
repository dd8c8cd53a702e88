/* One case on the device: copies of its tensors, what they hold, and a sample of what the outputs
 * should be.
 */
#ifndef FLASHTL_BENCH_SET_H
#define FLASHTL_BENCH_SET_H

#include "bench/bench.h"

enum { SET_TENSORS_MAX = 16, SET_COPIES_MAX = 64, SET_KINDS = 8 };

/* N(0,1), a prime number of values that is repeated over all inputs, each from a place of its own.
 */
typedef struct set_noise {
    double *values[SET_KINDS];      /* as each type has them */
    unsigned char *bits[SET_KINDS]; /* the same in memory */
} set_noise;
bool set_noise_make(set_noise *noise); /* false without memory */
void set_noise_free(set_noise *noise);

typedef struct set_tensor {
    const ftl_plan_tensor *of;
    int64_t extents[FTL_AXES_MAX], strides[FTL_AXES_MAX]; /* in the order of its axes */
    int64_t elements;
    size_t offset_bytes; /* in a copy */
} set_tensor;

typedef struct bench_set {
    const bench_case *what;
    const ftl_plan *plan;
    const set_noise *noise;
    bench_attention attention;
    bool is_attention;
    int32_t query, key; /* the tensors that make scores other than N(0,1); -1: none does */
    set_tensor tensors[SET_TENSORS_MAX];
    ftl_scalar scalars[SET_TENSORS_MAX];
    double scalar_values[SET_TENSORS_MAX];
    size_t copy_bytes;
    uint64_t memory;
    int32_t copies;
    ftl_tensor arguments[SET_COPIES_MAX][SET_TENSORS_MAX];
    uint64_t addresses[SET_COPIES_MAX * SET_TENSORS_MAX];
} bench_set;

/* Lays the tensors out, allocates and fills; more than one copy where one would fit twice into the
 * L2 cache. Free with set_close, also after a failure. OK, INVALID_ARGUMENT (an input that cannot
 * be made up, scores that its type cannot hold), NO_MEMORY and what the driver says.
 */
ftl_status set_open(ftl_context *context, ftl_runtime *runtime, const bench_case *what,
                    const set_noise *noise, int64_t l2_bytes, bench_set *out);
void set_close(ftl_runtime *runtime, bench_set *set);
ftl_arguments set_arguments(const bench_set *set, int32_t copy);
/* Fills the outputs of a copy with NaN. */
ftl_status set_poison(ftl_context *context, ftl_runtime *runtime, const bench_set *set,
                      int32_t copy);
/* The value that an input of copy 0 holds, as its type has it; and 'count' that follow one another.
 */
double set_value(const bench_set *set, int32_t tensor, int64_t element);
void set_values(const bench_set *set, int32_t tensor, int64_t first, int64_t count, double *out);
int32_t set_find(const bench_set *set, const char *name); /* -1: there is none */

/* Sizes to extents and strides: dense, but of four axes the second is inside the third, as
 * (batch, length, heads, d) lies for (batch, head; length, d). False when a formula fails.
 */
bool set_lay_out(const ftl_plan *plan, const ftl_plan_tensor *tensor, const int64_t *sizes,
                 const double *scalars, set_tensor *out);

/* What a scalar of the kernel gets: 1/sqrt(d) where it is the scale of attention, else 1. */
double set_scalar(const bench_case *what, const char *name);

/* --- a sample of the outputs ------------------------------------------------------------------ */

/* Rows of the first output, in fp64. 'count' is 0 where no closed formula is known. */
typedef struct set_sample {
    double *values;
    int64_t *elements; /* of the output, in memory order: where each value belongs */
    int32_t count;     /* of values; blocks of 'block' are judged together */
    int32_t block;
} set_sample;

bool set_sample_make(const bench_set *set, set_sample *out); /* false without memory */
void set_sample_free(set_sample *sample);
/* The largest relative rms of a block; NaN when any element of the output is not finite. */
double set_sample_error(const bench_set *set, const set_sample *sample, const void *output);
/* What verify allows: 1e-3 of f16, 3e-3 of bf16. */
double set_bound(ftl_type type);

#endif
