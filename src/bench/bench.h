/* How fast is a kernel, and how fast are others? docs/benchmarks.md is the protocol: device events
 * around bursts, the contenders in turns, warm-up, median and spread of the rounds; inputs of
 * N(0,1), of attention also such that scores are distributed otherwise (scores.def), that rotate
 * through more memory than the L2 cache holds; every contender's output judged
 * against fp64 before timing and after it; no figure above what the GPU's data sheet allows.
 *
 * Nothing here prints. One run per context at a time; the device is the one whose context is
 * current.
 */
#ifndef FLASHTL_BENCH_BENCH_H
#define FLASHTL_BENCH_BENCH_H

#include "base/text.h"
#include "bench/scores.h"
#include "flashtl/flashtl.h"
#include "flashtl/runtime.h"
#include "verify/verify.h"

#include <signal.h>

/* --- what is timed ---------------------------------------------------------------------------- */

/* Kernels of a program that is timed. */
enum { BENCH_KERNELS_MAX = 8 };
enum { BENCH_NAME_BYTES = 48, BENCH_ROW_BYTES = 128, BENCH_CONTENDERS_MAX = 4 };

/* A kernel and what it means. All of it the caller's; 'text.plan' and 'text.cuda' (or 'text.image')
 * are what is loaded, 'text.operator_name' and its settings choose the reference and what others
 * can compute.
 */
typedef struct bench_program {
    verify_program text;
    ftl_type dtype;
    int32_t head_dim, value_dim; /* of attention; else 0 */
} bench_program;

/* One cell: a program at one set of sizes. */
typedef struct bench_case {
    char name[BENCH_NAME_BYTES]; /* "gqa", "qwen2.5-72b" */
    char row[BENCH_ROW_BYTES];   /* what its neighbours share: "64/8 heads, d 128, causal" */
    int64_t length;              /* in which they differ: a column of the table */
    const bench_program *program;
    bench_scores scores;             /* of attention; else N(0,1) */
    int64_t sizes[VERIFY_SIZES_MAX]; /* by position in plan->sizes */
    double flops;                    /* 0: what counts is bytes */
    double bytes;                    /* inputs read once, outputs written once */
} bench_case;

typedef enum bench_verdict {
    BENCH_FINE,
    BENCH_WRONG,      /* the output is not what it should be, before timing or after it */
    BENCH_UNSTABLE,   /* of ours: two launches differ in a bit */
    BENCH_IMPOSSIBLE, /* faster than the data sheet allows: something is not computed */
    BENCH_ABSENT      /* it cannot do this case; 'why' says so */
} bench_verdict;
const char *bench_verdict_name(bench_verdict verdict); /* "wrong" */

typedef struct bench_figure {
    bench_verdict verdict;
    double milliseconds; /* of one launch: the median of the rounds */
    double spread;       /* (slowest - fastest) / median of the rounds that counted */
    double tflops, gigabytes_per_s;
    double error_before, error_after; /* relative rms of the sampled rows; 0 where none are known */
    char why[FTL_WHY_BYTES];
} bench_figure;

typedef struct bench_result {
    bench_case what;
    bench_figure figures[BENCH_CONTENDERS_MAX]; /* by contender: [0] is ours */
    int32_t repeats;                            /* times that noisy rounds were taken anew */
    bool is_noisy;                              /* and still spread more than the limit */
    bool is_done;
} bench_result;

/* --- others ----------------------------------------------------------------------------------- */

typedef struct bench_rival bench_rival;

/* Someone else's code for the same work. 'open' prepares a case whose copies are in memory as
 * bench_memory says; a case that it cannot do is NOT_FOUND, with the reason as the context's error.
 */
typedef struct bench_memory {
    int32_t copies;
    const uint64_t *tensors; /* [copy * tensor_count + tensor], by position in plan->tensors */
    int32_t tensor_count;
} bench_memory;

struct bench_rival {
    const char *name;
    void *user;
    ftl_status (*open)(void *user, ftl_context *context, ftl_runtime *runtime,
                       const bench_case *what, const bench_memory *memory);
    ftl_status (*launch)(void *user, ftl_context *context, int32_t copy);
    void (*close)(void *user); /* what 'open' made; also after a failed one */
};

/* Another kernel of ours as a rival: the same tensors and scalars. Free with bench_kernel_done. */
typedef struct bench_kernel {
    const bench_program *program;
    ftl_module *module;
    bench_case what;
    bench_memory memory;
} bench_kernel;
bench_rival bench_kernel_rival(bench_kernel *kernel, const char *name);
void bench_kernel_done(bench_kernel *kernel);

/* Loads a program's kernel, from its image where it has one. */
ftl_status bench_load(ftl_context *context, ftl_runtime *runtime, const bench_program *program,
                      ftl_module **out);

/* --- the run ---------------------------------------------------------------------------------- */

typedef struct bench_options {
    int32_t rounds;         /* 0: 7 */
    double burst_ms;        /* 0: 8 */
    double spread_limit;    /* 0: 0.1 */
    double roofline_tflops; /* 0: not known */
    double memory_gb_per_s; /* 0: not known */
    int64_t l2_bytes;
    const bench_rival *rivals;
    int32_t rival_count;
    const volatile sig_atomic_t *stop; /* or NULL */
    void (*on_result)(void *user, const bench_result *result, int32_t done, int32_t total,
                      double seconds_left); /* or NULL; seconds_left < 0: not known yet */
    void *user;
} bench_options;

/* Times the cases, each in turns with the rivals. Results in the order of the cases; what failed is
 * a verdict of its figure, not of the run. OK, STOPPED (results up to there are done),
 * KERNEL_FAULT, TIMEOUT and what else the world does to memory and launches.
 */
ftl_status bench_run(ftl_context *context, ftl_runtime *runtime, const bench_case *cases,
                     int32_t count, const bench_options *options, bench_result *results);

/* Gives a case its sizes by name (those that are not listed get 'otherwise'), its operations and
 * its bytes. Of attention, operations are 2 (d + dv) for each query and each key that it sees,
 * where a causal mask counts as half of all; of other programs ftl_flops, half of it with the
 * setting "causal". Statuses as of ftl_flops.
 */
ftl_status bench_case_set(ftl_context *context, bench_case *c, const bench_program *program,
                          const ftl_scalar *sizes, int32_t size_count, int64_t otherwise);

/* Whether the program is attention, and its options, from its settings. */
typedef struct bench_attention {
    int64_t batch, q_len, kv_len, q_heads, kv_heads, d, dv, window;
    double softcap;
    bool is_causal, has_alibi, has_lse;
} bench_attention;
bool bench_read_attention(const bench_case *c, bench_attention *out);

/* --- results ---------------------------------------------------------------------------------- */

typedef struct bench_names {
    const char *gpu;
    const char *contenders[BENCH_CONTENDERS_MAX]; /* [0]: "flashtl" */
    int32_t count;
} bench_names;

/* An object per contender, each on a line. */
void bench_result_json(const bench_result *result, const bench_names *names, text_buffer *out);
/* A Markdown table: a row per name, row and contender, a column per length; with rivals, ratios and
 * their geometric mean.
 */
void bench_table(const bench_result *results, int count, const bench_names *names,
                 text_buffer *out);
/* The same as a script of gnuplot: an SVG with a panel per name and row, a line per contender. */
void bench_plot(const bench_result *results, int count, const bench_names *names, const char *path,
                text_buffer *out);

#endif
