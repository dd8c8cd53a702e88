/* The runtime object and the opened libraries. The tables come from cuda.def and nvrtc.def. */
#ifndef FLASHTL_RUNTIME_DRIVER_H
#define FLASHTL_RUNTIME_DRIVER_H

#include "base/os.h"
#include "flashtl/runtime.h"

#include <stdatomic.h>
#include <threads.h>

typedef struct cuda_driver {
    void *library;
#define CUDA(name, symbol, parameters) int(*name) parameters;
#include "runtime/cuda.def"
#undef CUDA
    int version; /* 13000: CUDA 13.0 */
} cuda_driver;

typedef struct nvrtc_library {
    void *library;
#define NVRTC(name, symbol, parameters) int(*name) parameters;
#include "runtime/nvrtc.def"
#undef NVRTC
    int major, minor;
} nvrtc_library;

/* How a library stands: tried once, found or not. */
typedef enum library_state { LIBRARY_UNTRIED, LIBRARY_OPEN, LIBRARY_MISSING } library_state;

enum { RUNTIME_DEVICES_MAX = 64 };
typedef struct attention_table attention_table; /* attention_kernels.c: by what they compute */

struct ftl_runtime {
    mtx_t lock;         /* guards everything below; not taken by launches */
    bool is_unverified; /* as in the options */
    bool checks_tables; /* by the options, or FLASHTL_CHECK=1 */
    char *cuda_name, *nvrtc_name, *cache_folder;   /* as in the options; NULL when not given */
    _Atomic library_state cuda_state, nvrtc_state; /* once open, nobody takes the lock for it */
    cuda_driver cuda;
    nvrtc_library nvrtc;
    os_error cuda_why, nvrtc_why; /* why a library is missing */
    bool is_retained[RUNTIME_DEVICES_MAX];
    attention_table *attention;
};

/* Open on first use; later calls return at once. */
ftl_status runtime_need_driver(ftl_context *context, ftl_runtime *runtime);
ftl_status runtime_need_nvrtc(ftl_context *context, ftl_runtime *runtime);

/* Turns a CUresult into a status and a sentence: what was done, and the driver's own words. */
ftl_status runtime_cuda_status(ftl_context *context, const cuda_driver *cuda, int result,
                               const char *what);

/* Capability of the current CUDA context's device, as 10 * major + minor. */
ftl_status runtime_current_capability(ftl_context *context, ftl_runtime *runtime, int *capability);

ftl_status runtime_multiprocessors(ftl_context *context, ftl_runtime *runtime, int device,
                                   int *count);

/* "13.0", or "none": what would compile, for cache keys. Does not open NVRTC where the cache folder
 * still knows the version of the same file.
 */
void runtime_compiler_version(ftl_runtime *runtime, char version[32]);

/* NULL without memory. */
attention_table *attention_table_new(void);
void attention_table_free(attention_table *table);

#endif
