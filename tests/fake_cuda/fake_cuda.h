/* A driver without a GPU, for tests: libcuda's functions of src/runtime/cuda.def over host memory.
 * It records what was asked and fails where it is told to. A test opens the library itself and
 * finds the record under the symbol "fake_cuda"; a command is told by FAKE_CUDA="launch_result=700
 * ...".
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* A tensor map as this driver encodes it. */
typedef struct fake_map {
    uint64_t address, extents[5], stride_bytes[4];
    uint32_t box[5], rank;
    uint32_t type, swizzle, unused[4];
} fake_map;

/* A user object, and a graph as far as it holds such. */
typedef struct fake_object {
    void (*destroy)(void *pointer);
    void *pointer;
    unsigned references;
} fake_object;

enum { FAKE_OBJECTS_MAX = 16384 };

typedef struct fake_graph {
    fake_object *objects[FAKE_OBJECTS_MAX];
    int object_count;
} fake_graph;

typedef struct fake_record {
    /* set by the test: results of the calls, and the device */
    int init_result, load_result, launch_result, query_result, allocate_result, encode_result;
    int capability; /* 10 * major + minor */
    int device_count;
    int driver_version;
    /* what was asked */
    int loads, unloads, launches, retains, releases, allocations, encodings;
    unsigned grid, threads, shared_bytes;
    int shared_attribute;
    int module;        /* of the last launch: which load it came from, from 1 */
    int needs_context; /* set by the test: threads without a current context launch nothing */
    void *stream;
    size_t parameter_bytes; /* set by the test: how much of the struct to keep */
    unsigned char parameters[4096];
    char image[65536]; /* text of the last image loaded */
    /* set by the test: what a launch does, on host memory, and the device's clock, which it may
     * move on; while nobody moves it, everything takes 1 ms */
    void (*on_launch)(void *user, const unsigned char *parameters);
    void *user;
    double clock_ms;
    /* set by a test that has streams of its own, which may then launch from several threads: what a
     * launch and a fill put into a stream, a stream's number, the graph that it is captured into */
    int (*on_queue)(void *user, void *stream, unsigned grid, const unsigned char *parameters);
    int (*on_fill)(void *user, void *stream, uint64_t address, unsigned word, size_t words);
    uint64_t (*stream_id)(void *user, void *stream);
    fake_graph *(*stream_graph)(void *user, void *stream);
    int stream_id_result, capture_result, object_result, retain_result;
    int (*on_query)(void *user, void *stream); /* set by the test: instead of query_result */
    const char *device_name;                   /* set by the test; NULL: "Fake GPU 0" */
    int early_launches; /* of all, those with programmatic stream serialization */
} fake_record;

/* cuDNN's backend without a GPU, under the symbol "fake_cudnn": descriptors that watch over the
 * order of their calls.
 */
enum { FAKE_CUDNN_TENSORS = 4 };

typedef struct fake_cudnn_record {
    /* set by the test */
    size_t version;
    int create_result, execute_result;
    int configs;       /* that the heuristics find */
    int bad_plans;     /* of these, how many cannot be made */
    int64_t workspace; /* bytes of a plan */
    void (*on_execute)(void *user, void *const tensors[FAKE_CUDNN_TENSORS]); /* by id: 1, 2, ... */
    void *user;
    /* what was asked */
    int live;       /* descriptors not destroyed */
    int handles;    /* open ones */
    int violations; /* set after finalize, a link to what is not final, a run of what is not final
                     */
    char violation[128];
    int products, reductions, pointwise, plans, executions;
    int modes[16]; /* of pointwise operations, in order */
} fake_cudnn_record;

/* Likewise for NVRTC, under the symbol "fake_nvrtc". Its "cubin" is the text after the options. */
typedef struct fake_compiler {
    int compile_result;
    int major, minor;
    int compiles;
    char options[512];
    const char *log; /* set by the test: what it says of a kernel; NULL: that it spills */
    const char *ptx; /* set by the test: what it makes of every text; NULL: the text */
} fake_compiler;

#endif
