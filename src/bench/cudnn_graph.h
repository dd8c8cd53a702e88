/* The graph of one attention, as cuDNN's descriptors. */
#ifndef FLASHTL_BENCH_CUDNN_GRAPH_H
#define FLASHTL_BENCH_CUDNN_GRAPH_H

#include "base/os.h"
#include "bench/cudnn.h"
#include "bench/set.h"

typedef struct cudnn_functions {
#define CUDNN(result, name, symbol, parameters) result(*name) parameters;
#include "bench/cudnn.def"
#undef CUDNN
} cudnn_functions;

enum { CUDNN_DESCRIPTORS_MAX = 256, CUDNN_OPERATIONS_MAX = 32, CUDNN_VALUES_MAX = 8 };

typedef struct cudnn_graph {
    struct cudnn *cudnn;
    bench_attention what;
    ftl_type dtype;
    void *descriptors[CUDNN_DESCRIPTORS_MAX]; /* all that were made, in order */
    int descriptor_count;
    void *operations[CUDNN_OPERATIONS_MAX];
    int operation_count;
    int64_t next_id;
    /* Scalars by value, as the packs point to them: f32, but of integer comparisons i32. */
    struct {
        int64_t id;
        union {
            float real;
            int32_t integer;
        } value;
    } values[CUDNN_VALUES_MAX];
    int value_count;
    void *plan;
    int64_t workspace_bytes;
    void *packs[SET_COPIES_MAX];
    int status;          /* the first failure; 0: none */
    const char *trouble; /* what was being done then */
} cudnn_graph;

struct cudnn {
    void *library, *handle;
    cudnn_functions call;
    int64_t version;
    cudnn_graph graph; /* of the case at hand */
    ftl_runtime *runtime;
    uint64_t workspace;
};

/* Describes the graph, asks the heuristics, and makes the first plan that can be made. NOT_FOUND
 * with cuDNN's words when there is none. cudnn_graph_close frees it, also then.
 */
ftl_status cudnn_graph_build(ftl_context *context, cudnn_graph *g);
/* Tensors q, k, v, o of a copy. */
ftl_status cudnn_graph_bind(ftl_context *context, cudnn_graph *g, int32_t copy,
                            const uint64_t tensors[4], uint64_t workspace);
void cudnn_graph_close(cudnn_graph *g);

/* "cuDNN cannot ...: its words". */
ftl_status cudnn_failure(ftl_context *context, const cudnn *c, int result, const char *what);

#endif
