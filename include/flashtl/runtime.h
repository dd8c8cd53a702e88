/* flashtl/runtime.h: from CUDA text to a running kernel.
 *
 * The driver (libcuda) and the compiler (NVRTC) are opened when first needed, never linked; without
 * them everything else still works. A runtime may be shared by threads: its functions lock where
 * they must, ftl_module_launch takes no lock at all. Each thread brings its own ftl_context; where
 * a context may be NULL, only the status is reported.
 *
 * Device addresses are plain integers, as CUdeviceptr. A stream is a CUstream, passed as a pointer
 * (NULL: the default stream). Strides count elements, sizes of memory bytes.
 */
#ifndef FLASHTL_RUNTIME_H
#define FLASHTL_RUNTIME_H

#include "flashtl/context.h"
#include "flashtl/flashtl.h"
#include "flashtl/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- the runtime ------------------------------------------------------------------------------ */

/* Start from FTL_RUNTIME_OPTIONS_INIT; all else may be 0 or NULL. */
typedef struct ftl_runtime_options {
    size_t struct_bytes;       /* sizeof(ftl_runtime_options) */
    const char *cuda_library;  /* NULL: libcuda.so.1 */
    const char *nvrtc_library; /* NULL: the usual names, newest first, then in Python's packages (of
                                  VIRTUAL_ENV, each python3 on PATH, the user); "": none */
    const char *cache_folder;  /* NULL or "": no cache on disk; created when first written */
    bool is_unverified;        /* kernels are loaded and cached without being verified first */
    bool checks_tables;        /* as FLASHTL_CHECK=1 in the environment (flashtl/serving.h) */
} ftl_runtime_options;

#define FTL_RUNTIME_OPTIONS_INIT FTL_STRUCT_INIT(ftl_runtime_options)

typedef struct ftl_runtime ftl_runtime;

/* Makes a runtime; opens nothing yet. 'options' may be NULL. Free with ftl_runtime_close, after its
 * modules. OK, INVALID_ARGUMENT, NO_MEMORY.
 */
FTL_API ftl_status ftl_runtime_open(ftl_context *context, const ftl_runtime_options *options,
                                    ftl_runtime **out);
FTL_API void ftl_runtime_close(ftl_runtime *runtime);

/* --- devices ---------------------------------------------------------------------------------- */

typedef struct ftl_device {
    char name[128];       /* the driver's: "NVIDIA H200" */
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t driver_version; /* CUDA version it supports, 1000 * major + 10 * minor */
    int64_t memory_bytes;
    int64_t l2_bytes;
} ftl_device;

/* OK (0 devices is OK, too), NO_DRIVER, DRIVER_FAILED. */
FTL_API ftl_status ftl_device_count(ftl_context *context, ftl_runtime *runtime, int32_t *count);
/* OK, NO_DRIVER, NO_DEVICE, DRIVER_FAILED. */
FTL_API ftl_status ftl_device_describe(ftl_context *context, ftl_runtime *runtime, int32_t ordinal,
                                       ftl_device *out);
/* Makes the device's primary context current on the calling thread. Programs that have a CUDA
 * context of their own (PyTorch) do not call it. Statuses as above.
 */
FTL_API ftl_status ftl_device_use(ftl_context *context, ftl_runtime *runtime, int32_t ordinal);

/* Memory of the current device. 'milliseconds' limits a wait; TIMEOUT when it is over. */
FTL_API ftl_status ftl_device_allocate(ftl_context *context, ftl_runtime *runtime, size_t bytes,
                                       uint64_t *address);
FTL_API void ftl_device_free(ftl_runtime *runtime, uint64_t address);
FTL_API ftl_status ftl_device_write(ftl_context *context, ftl_runtime *runtime, uint64_t address,
                                    const void *bytes, size_t count);
FTL_API ftl_status ftl_device_read(ftl_context *context, ftl_runtime *runtime, void *bytes,
                                   uint64_t address, size_t count);
FTL_API ftl_status ftl_device_fill(ftl_context *context, ftl_runtime *runtime, uint64_t address,
                                   uint32_t word, size_t words);
/* Waits until a stream has ended its work. OK, TIMEOUT (the work goes on), KERNEL_FAULT (the CUDA
 * context is lost then: the process can do no more on this device), DRIVER_FAILED.
 */
FTL_API ftl_status ftl_stream_wait(ftl_context *context, ftl_runtime *runtime, void *stream,
                                   int64_t milliseconds);

/* Times work on a stream by device events. */
typedef struct ftl_timer ftl_timer;
FTL_API ftl_status ftl_timer_new(ftl_context *context, ftl_runtime *runtime, ftl_timer **out);
FTL_API ftl_status ftl_timer_start(ftl_context *context, ftl_timer *timer, void *stream);
/* Marks the end, waits for it, and gives the time between the marks. */
FTL_API ftl_status ftl_timer_stop(ftl_context *context, ftl_timer *timer, void *stream,
                                  double *milliseconds);
FTL_API void ftl_timer_free(ftl_timer *timer);

/* --- compiling CUDA text ---------------------------------------------------------------------- */

typedef enum ftl_image_kind { FTL_CUBIN = 1, FTL_PTX = 2 } ftl_image_kind;

typedef struct ftl_image {
    ftl_image_kind kind;
    char *bytes; /* PTX ends in NUL, which 'length' does not count */
    size_t length;
    char *ptx; /* PTX beside a cubin, where the compiler gives it; else NULL */
    char *log; /* the compiler's words, "" when none */
    int32_t registers, spill_bytes, stack_bytes; /* of the entry; -1: the compiler did not say */
    char compiler[64];                           /* "NVRTC 13.0", "nvcc", "clang" */
} ftl_image;

/* Compiles CUDA text for 'target': "sm_80" gives a cubin, "compute_80" PTX. NVRTC is used where it
 * can be opened, else nvcc, else (PTX only) clang, as child processes. 'name' is in messages
 * and line information. The caller frees the result with ftl_image_done. OK, INVALID_ARGUMENT (a
 * target of another form), COMPILER_FAILED (the text is wrong; the sentence holds the compiler's
 * first error), NO_COMPILER (none can be started), COMPILER_BROKEN (one can, but it does not know
 * the target, lacks a part of itself, or was killed), TIMEOUT (a child took too long), NO_FILE (of
 * a child, in the folder for temporary files), NO_MEMORY.
 */
FTL_API ftl_status ftl_compile_cuda(ftl_context *context, ftl_runtime *runtime, const char *cuda,
                                    const char *name, const char *target, ftl_image *out);
/* The same, for texts that may be wrong: after COMPILER_FAILED the image holds the compiler's log,
 * to be freed as well. 'include_folder' (or NULL) is searched for headers of a library; NVRTC has
 * no headers of C++ to go with them, so it is nvcc that compiles such a text.
 */
FTL_API ftl_status ftl_compile_cuda_with(ftl_context *context, ftl_runtime *runtime,
                                         const char *cuda, const char *name, const char *target,
                                         const char *include_folder, ftl_image *out);
FTL_API void ftl_image_done(ftl_image *image);

/* --- kernels ---------------------------------------------------------------------------------- */

typedef struct ftl_module ftl_module;

/* Loads a kernel into the current CUDA context: from the cache where it holds this text for this
 * device, else compiled and stored. 'plan' is copied. A cubin for the device's own generation is
 * preferred; a kernel of an older one goes through PTX and the driver's compiler. Nothing says what
 * such a text should compute, so nothing verifies it: ftl_product_load does.
 * OK, NO_DRIVER, NO_DEVICE, DRIVER_TOO_OLD, DRIVER_FAILED, KERNEL_FAULT (of an earlier launch),
 * INVALID_ARGUMENT, and the statuses of ftl_compile_cuda.
 */
FTL_API ftl_status ftl_module_load(ftl_context *context, ftl_runtime *runtime, const ftl_plan *plan,
                                   const char *cuda, ftl_module **out);
/* Loads the kernels that ftl_build or ftl_translate made: 'modules' has room for
 * product->kernel_count, in their order; after a failure all are NULL. Unless the runtime's options
 * say otherwise, the kernels are verified before they are first cached: on the emulator, with small
 * inputs, against what the program means, on a thread of its own while the compiler works. The
 * verdict is kept with the cache's entries; a wrong kernel is neither loaded nor cached.
 * Statuses as above, and CHECK_FAILED: a kernel computes what its program does not say, the
 * sentence names the first wrong results. A program that no inputs could be made up for is loaded,
 * with a warning (ftl_context_take_warning).
 */
FTL_API ftl_status ftl_product_load(ftl_context *context, ftl_runtime *runtime,
                                    const ftl_product *product, ftl_module **modules);
/* The same as ftl_module_load from an image that is already there (a cubin or PTX built before).
 * Neither of the two can know whether text, image and plan belong together, or whether they are
 * those that were verified: an image runs with all the rights of the process, as a shared library
 * does. Load what `flashtl build` or this library wrote, from a folder that only you can write.
 */
FTL_API ftl_status ftl_module_load_image(ftl_context *context, ftl_runtime *runtime,
                                         const ftl_plan *plan, const void *image, size_t length,
                                         ftl_module **out);
/* Unloads; no launch may be in flight, and no graph that holds one may be launched again. NULL is
 * fine.
 */
FTL_API void ftl_module_free(ftl_module *module);
FTL_API const ftl_plan *ftl_module_plan(const ftl_module *module);

/* Launches on a stream, asynchronously. Checks the arguments as ftl_plan_resolve does; nothing to
 * do is OK and launches nothing. No heap, no lock. Safe from several threads, on any streams, the
 * per-thread default stream included. A stream may be captured: graphs of such launches may run
 * beside each other and beside plain launches. Two executables of one graph must not run at the
 * same time: they would write the same outputs. A kernel whose plan is_early may begin while what
 * the stream has before it ends, for which it waits itself; a kernel of others that is launched so
 * just before it has to wait, too. OK, INVALID_ARGUMENT, DRIVER_FAILED, KERNEL_FAULT (of an earlier
 * launch).
 */
FTL_API ftl_status ftl_module_launch(ftl_context *context, const ftl_module *module,
                                     const ftl_arguments *arguments, void *stream);

/* --- the cache on disk ------------------------------------------------------------------------ */

/* One file per kernel, named by the hash of all that decides its bytes, written to a temporary name
 * and renamed: readers and writers of several processes see all of an entry or nothing. An entry
 * that is damaged is rebuilt, and so is one that is no plain file or that others can write. A
 * folder that others than its owner can write, or that belongs to another user (but root), is not
 * used: kernels run from it. That, and a cache that cannot be written, is a warning
 * (ftl_context_take_warning).
 */
typedef struct ftl_cache_entry {
    const char *key;    /* 32 hexadecimal digits */
    const char *kernel; /* TL name; "" when the entry is damaged */
    const char *gpu, *target;
    int64_t bytes;
    int64_t modified_s; /* seconds since 1970 */
    bool is_damaged;
    bool is_verified; /* what ftl_product_load and ftl_attention_forward found */
} ftl_cache_entry;

/* Visits every entry of a folder; the entry is valid during the call. A folder that is not there is
 * empty. OK, NO_FILE, NO_MEMORY.
 */
FTL_API ftl_status ftl_cache_list(ftl_context *context, const char *folder,
                                  void (*visit)(void *user, const ftl_cache_entry *entry),
                                  void *user);
/* Removes all entries and what interrupted writers left. OK, NO_FILE, NO_MEMORY. */
FTL_API ftl_status ftl_cache_clear(ftl_context *context, const char *folder, int64_t *removed);

#ifdef __cplusplus
}
#endif

#endif
