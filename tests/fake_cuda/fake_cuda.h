/* A driver without a GPU, for tests: libcuda's functions of src/runtime/cuda.def over host memory.
 * It records what was asked and fails where it is told to. A test opens the library itself and
 * finds the record under the symbol "fake_cuda"; a command is told by FAKE_CUDA="launch_result=700
 * ...".
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_record {
    /* set by the test: results of the calls, and the device */
    int init_result, load_result, launch_result, query_result, allocate_result;
    int capability; /* 10 * major + minor */
    int device_count;
    int driver_version;
    /* what was asked */
    int loads, unloads, launches, retains, releases, allocations;
    unsigned grid, threads, shared_bytes;
    int shared_attribute;
    void *stream;
    size_t parameter_bytes; /* set by the test: how much of the struct to keep */
    unsigned char parameters[4096];
    char image[65536]; /* text of the last image loaded */
} fake_record;

/* Likewise for NVRTC, under the symbol "fake_nvrtc". Its "cubin" is the text behind the options. */
typedef struct fake_compiler {
    int compile_result;
    int major, minor;
    int compiles;
    char options[512];
} fake_compiler;

#endif
