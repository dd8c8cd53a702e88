/* How fast is a kernel? Times attention on the current device, as docs/benchmarks.md says: device
 * events around bursts, warm-up, the median of the rounds; inputs of N(0,1) that rotate through
 * more memory than the L2 cache holds; outputs compared bit for bit before and after; no figure
 * above what the GPU's data sheet allows.
 */
#ifndef FLASHTL_BENCH_BENCH_H
#define FLASHTL_BENCH_BENCH_H

#include "base/text.h"
#include "flashtl/attention.h"
#include "flashtl/flashtl.h"

typedef struct bench_case {
    char name[48];
    int64_t batch, length;
    int32_t q_heads, kv_heads, head_dim, value_dim;
    bool causal;
    ftl_type dtype;
} bench_case;

typedef struct bench_result {
    bench_case what;
    double milliseconds; /* median of the rounds, of one launch */
    double fastest_ms, slowest_ms;
    double tflops;    /* 2 b h s^2 (d_qk + d_v), half of it when causal */
    bool is_stable;   /* the output after timing was that before it, bit for bit */
    bool is_possible; /* not above the data sheet */
} bench_result;

/* The cases of a grid: "paper", "llm", or lines of a text, each
 * "NAME BATCH LENGTH Q_HEADS KV_HEADS D[:DV] causal|full" ('#' begins a comment). Fills at most
 * 'most'; returns how many, or -1 with one sentence in 'why'.
 */
int bench_grid(const char *grid, str text, ftl_type dtype, bench_case *cases, int most,
               char why[FTL_WHY_BYTES]);

typedef struct bench_options {
    int32_t rounds;         /* 0: 7 */
    double burst_ms;        /* 0: 8 */
    double roofline_tflops; /* 0: not known */
    int64_t l2_bytes;
    void (*on_progress)(void *user, int done, int total); /* may be NULL */
    void *user;
} bench_options;

/* Times the cases on the device whose context is current. Results in the order of the cases.
 * Statuses as of ftl_attention_forward and the memory functions.
 */
ftl_status bench_run(ftl_context *context, ftl_runtime *runtime, const bench_case *cases, int count,
                     const bench_options *options, bench_result *results);

double bench_flops(const bench_case *c);
void bench_result_json(const bench_result *result, const char *gpu, text_buffer *out);
/* A Markdown table: a row per name and mask, a column per length. */
void bench_table(const bench_result *results, int count, text_buffer *out);
/* The same as a script of gnuplot, which writes an SVG to 'path'. */
void bench_plot(const bench_result *results, int count, const char *path, text_buffer *out);

#endif
