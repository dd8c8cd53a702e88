/* cuDNN's attention in this process, through its C backend API: a graph of operations, an engine
 * that its heuristics choose, an execution plan. The library is opened, never linked.
 *
 * The graph is the one that fused attention engines know by its form: product, scale, masks by
 * index comparison, softmax with its statistics, product. (The single SDPA operation of cuDNN 9.13
 * takes no mask before 9.20.) The order of operations matters to the engines, not to the result.
 */
#ifndef FLASHTL_BENCH_CUDNN_H
#define FLASHTL_BENCH_CUDNN_H

#include "bench/bench.h"

typedef struct cudnn cudnn;

enum { CUDNN_OLDEST = 90000 };

/* Opens the library ('library': NULL for the usual names) and its handle on the current context.
 * Free with cudnn_close. NOT_FOUND with one sentence: there is none, it is too old, or it does not
 * start.
 */
ftl_status cudnn_open(ftl_context *context, const char *library, cudnn **out);
void cudnn_close(cudnn *c);            /* NULL is fine */
int64_t cudnn_version(const cudnn *c); /* 91900: 9.19.0 */

/* The rival of a run. Attention in f16 and bf16 with causal mask, window and softcap; other
 * programs are NOT_FOUND.
 */
bench_rival cudnn_rival(cudnn *c);

#endif
