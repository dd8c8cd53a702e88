#include "runtime/driver.h"
#include "base/needs.h"
#include "runtime/wheels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUresult values that mean something to us. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_ASSERT = 710,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_LAUNCH_FAILED = 719,
};

enum {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76
};

typedef struct symbol {
    const char *name;
    size_t slot;
} symbol;

static const symbol cuda_symbols[] = {
#define CUDA(name, symbol, parameters) {symbol, offsetof(cuda_driver, name)},
#define CUDA_LATER(name, symbol, parameters)
#include "runtime/cuda.def"
#undef CUDA
};

static const symbol cuda_later_symbols[] = {
#define CUDA(name, symbol, parameters)
#define CUDA_LATER(name, symbol, parameters) {symbol, offsetof(cuda_driver, name)},
#include "runtime/cuda.def"
#undef CUDA
};

static const symbol nvrtc_symbols[] = {
#define NVRTC(name, symbol, parameters) {symbol, offsetof(nvrtc_library, name)},
#include "runtime/nvrtc.def"
#undef NVRTC
};

static char *copy_text(const char *text) {
    return text ? str_new(str_from(text)) : NULL;
}

ftl_status ftl_runtime_open(ftl_context *context, const ftl_runtime_options *options,
                            ftl_runtime **out) {
    NEEDS(out);
    static const ftl_runtime_options none = FTL_RUNTIME_OPTIONS_INIT;
    if (!options) options = &none;
    *out = NULL;
    if (options->struct_bytes < sizeof *options) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the options were not begun with FTL_RUNTIME_OPTIONS_INIT");
    }
    ftl_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    runtime->attention = attention_table_new();
    if (!runtime->attention || mtx_init(&runtime->lock, mtx_plain) != thrd_success) {
        attention_table_free(runtime->attention);
        free(runtime);
        return ftl_context_fail(context, FTL_NO_MEMORY, "cannot create a lock");
    }
    runtime->is_unverified = options->is_unverified;
    const char *check = getenv("FLASHTL_CHECK");
    runtime->checks_tables = options->checks_tables || (check && strcmp(check, "1") == 0);
    runtime->cuda_name = copy_text(options->cuda_library);
    runtime->nvrtc_name = copy_text(options->nvrtc_library);
    bool has_cache = options->cache_folder && *options->cache_folder;
    runtime->cache_folder = has_cache ? copy_text(options->cache_folder) : NULL;
    bool is_whole = !options->cuda_library == !runtime->cuda_name &&
                    !options->nvrtc_library == !runtime->nvrtc_name &&
                    has_cache == (runtime->cache_folder != NULL);
    if (!is_whole) {
        ftl_runtime_close(runtime);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    *out = runtime;
    return FTL_OK;
}

void ftl_runtime_close(ftl_runtime *runtime) {
    if (!runtime) return;
    attention_table_free(runtime->attention);
    for (int device = 0; device < RUNTIME_DEVICES_MAX; device++) {
        if (runtime->is_retained[device]) runtime->cuda.primary_release(device);
    }
    /* The libraries stay open: both start threads and handlers that do not survive an unload. */
    free(runtime->cuda_name);
    free(runtime->nvrtc_name);
    free(runtime->cache_folder);
    mtx_destroy(&runtime->lock);
    free(runtime);
}

/* Fills a table of function pointers; false with the missing symbol's name in 'why'. */
static bool load_symbols(void *library, const symbol *symbols, size_t count, void *table,
                         const char *what, os_error *why) {
    for (size_t i = 0; i < count; i++) {
        void *address = os_library_symbol(library, symbols[i].name);
        if (!address) {
            snprintf(why->text, sizeof why->text, "%s has no function %s: it is too old", what,
                     symbols[i].name);
            return false;
        }
        memcpy((char *)table + symbols[i].slot, &address, sizeof address);
    }
    return true;
}

/* The driver's own words for a result. */
typedef struct cuda_words {
    const char *name, *text;
} cuda_words;

static cuda_words words_of(const cuda_driver *cuda, int result) {
    cuda_words words = {NULL, NULL};
    cuda->error_name(result, &words.name);
    cuda->error_text(result, &words.text);
    if (!words.name) words.name = "?";
    if (!words.text) words.text = "unknown error";
    return words;
}

static bool open_driver(ftl_runtime *runtime, os_error *why) {
    const char *const usual[] = {"libcuda.so.1", NULL};
    const char *const given[] = {runtime->cuda_name, NULL};
    cuda_driver *cuda = &runtime->cuda;
    cuda->library = os_library_open(runtime->cuda_name ? given : usual, why);
    if (!cuda->library) return false;
    size_t count = sizeof cuda_symbols / sizeof *cuda_symbols;
    if (!load_symbols(cuda->library, cuda_symbols, count, cuda, "the CUDA driver", why))
        return false;
    for (size_t i = 0; i < sizeof cuda_later_symbols / sizeof *cuda_later_symbols; i++) {
        void *address = os_library_symbol(cuda->library, cuda_later_symbols[i].name);
        memcpy((char *)cuda + cuda_later_symbols[i].slot, &address, sizeof address);
    }
    int result = cuda->init(0);
    if (result == CUDA_SUCCESS) result = cuda->driver_version(&cuda->version);
    if (result == CUDA_SUCCESS) return true;
    cuda_words words = words_of(cuda, result);
    snprintf(why->text, sizeof why->text, "the CUDA driver does not start: %s (%s)", words.text,
             words.name);
    return false;
}

static bool open_nvrtc(ftl_runtime *runtime, os_error *why) {
    static const char *const usual[] = {"libnvrtc.so.14",
                                        "libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        NULL};
    const char *const given[] = {runtime->nvrtc_name, NULL};
    nvrtc_library *nvrtc = &runtime->nvrtc;
    if (runtime->nvrtc_name && !*runtime->nvrtc_name) {
        snprintf(why->text, sizeof why->text, "it is not to be used");
        return false;
    }
    nvrtc->library = os_library_open(runtime->nvrtc_name ? given : usual, why);
    char wheel[1024];
    if (!nvrtc->library && !runtime->nvrtc_name && wheels_find_nvrtc(wheel, sizeof wheel)) {
        const char *const found[] = {wheel, NULL};
        nvrtc->library = os_library_open(found, why);
    }
    if (!nvrtc->library) return false;
    size_t count = sizeof nvrtc_symbols / sizeof *nvrtc_symbols;
    return load_symbols(nvrtc->library, nvrtc_symbols, count, nvrtc, "NVRTC", why) &&
           nvrtc->version(&nvrtc->major, &nvrtc->minor) == 0;
}

/* A library is tried once. */
static bool is_open(ftl_runtime *runtime, _Atomic library_state *state,
                    bool (*open)(ftl_runtime *runtime, os_error *why), os_error *why) {
    if (atomic_load_explicit(state, memory_order_acquire) == LIBRARY_OPEN) return true;
    mtx_lock(&runtime->lock);
    if (*state == LIBRARY_UNTRIED) *state = open(runtime, why) ? LIBRARY_OPEN : LIBRARY_MISSING;
    library_state now = *state;
    mtx_unlock(&runtime->lock);
    return now == LIBRARY_OPEN;
}

ftl_status runtime_need_driver(ftl_context *context, ftl_runtime *runtime) {
    if (is_open(runtime, &runtime->cuda_state, open_driver, &runtime->cuda_why)) return FTL_OK;
    return ftl_context_fail(context, FTL_NO_DRIVER, "no CUDA driver: %s", runtime->cuda_why.text);
}

ftl_status runtime_need_nvrtc(ftl_context *context, ftl_runtime *runtime) {
    if (is_open(runtime, &runtime->nvrtc_state, open_nvrtc, &runtime->nvrtc_why)) return FTL_OK;
    return ftl_context_fail(context, FTL_NO_COMPILER, "no NVRTC: %s", runtime->nvrtc_why.text);
}

/* --- errors ----------------------------------------------------------------------------------- */

static ftl_status status_of(int result) {
    if (result == CUDA_SUCCESS) return FTL_OK;
    if (result == CUDA_OUT_OF_MEMORY) return FTL_NO_MEMORY;
    if (result == CUDA_NO_DEVICE || result == CUDA_INVALID_DEVICE) return FTL_NO_DEVICE;
    if (result == CUDA_UNSUPPORTED_PTX_VERSION) return FTL_DRIVER_TOO_OLD;
    if (result == CUDA_NO_BINARY_FOR_GPU) return FTL_NO_DEVICE;
    bool is_fault = result == CUDA_ILLEGAL_ADDRESS || result == CUDA_LAUNCH_TIMEOUT ||
                    result == CUDA_ASSERT ||
                    (result >= CUDA_HARDWARE_STACK_ERROR && result <= CUDA_LAUNCH_FAILED);
    return is_fault ? FTL_KERNEL_FAULT : FTL_DRIVER_FAILED;
}

ftl_status runtime_cuda_status(ftl_context *context, const cuda_driver *cuda, int result,
                               const char *what) {
    ftl_status status = status_of(result);
    if (status == FTL_OK) return FTL_OK;
    cuda_words words = words_of(cuda, result);
    const char *hint = "";
    if (status == FTL_DRIVER_TOO_OLD) hint = "; the kernel's PTX is newer than the driver";
    return ftl_context_fail(context, status, "cannot %s: %s (%s)%s", what, words.text, words.name,
                            hint);
}

/* --- devices ---------------------------------------------------------------------------------- */

ftl_status ftl_device_count(ftl_context *context, ftl_runtime *runtime, int32_t *count) {
    NEEDS(count);
    *count = 0;
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    int found = 0;
    int result = runtime->cuda.device_count(&found);
    *count = found;
    return runtime_cuda_status(context, &runtime->cuda, result, "count the GPUs");
}

ftl_status ftl_device_describe(ftl_context *context, ftl_runtime *runtime, int32_t ordinal,
                               ftl_device *out) {
    NEEDS(runtime);
    NEEDS(out);
    *out = (ftl_device){0};
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    const cuda_driver *cuda = &runtime->cuda;
    int device = 0, l2_bytes = 0;
    size_t memory_bytes = 0;
    int result = cuda->device_get(&device, ordinal);
    if (!result) result = cuda->device_name(out->name, sizeof out->name, device);
    if (!result) result = cuda->device_attribute(&out->major, ATTRIBUTE_MAJOR, device);
    if (!result) result = cuda->device_attribute(&out->minor, ATTRIBUTE_MINOR, device);
    if (!result) result = cuda->device_attribute(&l2_bytes, ATTRIBUTE_L2_BYTES, device);
    if (!result) {
        result = cuda->device_attribute(&out->multiprocessors, ATTRIBUTE_MULTIPROCESSORS, device);
    }
    if (!result) result = cuda->device_memory(&memory_bytes, device);
    out->memory_bytes = (int64_t)memory_bytes;
    out->l2_bytes = l2_bytes;
    out->driver_version = cuda->version;
    return runtime_cuda_status(context, cuda, result, "describe the GPU");
}

ftl_status ftl_device_use(ftl_context *context, ftl_runtime *runtime, int32_t ordinal) {
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    if (ordinal < 0 || ordinal >= RUNTIME_DEVICES_MAX) {
        return ftl_context_fail(context, FTL_NO_DEVICE, "there is no GPU %" PRId32, ordinal);
    }
    const cuda_driver *cuda = &runtime->cuda;
    int device = 0;
    void *primary = NULL;
    int result = cuda->device_get(&device, ordinal);
    if (!result) result = cuda->primary_retain(&primary, device);
    if (!result) {
        mtx_lock(&runtime->lock);
        bool was_retained = runtime->is_retained[ordinal];
        runtime->is_retained[ordinal] = true;
        mtx_unlock(&runtime->lock);
        if (was_retained) cuda->primary_release(device);
        result = cuda->context_set(primary);
    }
    return runtime_cuda_status(context, cuda, result, "use the GPU");
}

ftl_status runtime_current_capability(ftl_context *context, ftl_runtime *runtime, int *capability) {
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    const cuda_driver *cuda = &runtime->cuda;
    int device = 0, major = 0, minor = 0;
    int result = cuda->context_device(&device);
    if (!result) result = cuda->device_attribute(&major, ATTRIBUTE_MAJOR, device);
    if (!result) result = cuda->device_attribute(&minor, ATTRIBUTE_MINOR, device);
    *capability = 10 * major + minor;
    return runtime_cuda_status(context, cuda, result, "find the current GPU");
}

ftl_status runtime_multiprocessors(ftl_context *context, ftl_runtime *runtime, int device,
                                   int *count) {
    const cuda_driver *cuda = &runtime->cuda;
    return runtime_cuda_status(context, cuda,
                               cuda->device_attribute(count, ATTRIBUTE_MULTIPROCESSORS, device),
                               "count the GPU's multiprocessors");
}

/* --- memory, streams, time -------------------------------------------------------------------- */

ftl_status ftl_device_allocate(ftl_context *context, ftl_runtime *runtime, size_t bytes,
                               uint64_t *address) {
    NEEDS(address);
    *address = 0;
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status || bytes == 0) return status;
    int result = runtime->cuda.memory_allocate(address, bytes);
    return runtime_cuda_status(context, &runtime->cuda, result, "allocate memory of the GPU");
}

void ftl_device_free(ftl_runtime *runtime, uint64_t address) {
    bool is_open = runtime && runtime->cuda_state == LIBRARY_OPEN;
    if (is_open && address) runtime->cuda.memory_free(address);
}

ftl_status ftl_device_write(ftl_context *context, ftl_runtime *runtime, uint64_t address,
                            const void *bytes, size_t count) {
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status || count == 0) return status;
    NEEDS(bytes);
    int result = runtime->cuda.memory_write(address, bytes, count);
    return runtime_cuda_status(context, &runtime->cuda, result, "write memory of the GPU");
}

ftl_status ftl_device_read(ftl_context *context, ftl_runtime *runtime, void *bytes,
                           uint64_t address, size_t count) {
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status || count == 0) return status;
    NEEDS(bytes);
    int result = runtime->cuda.memory_read(bytes, address, count);
    return runtime_cuda_status(context, &runtime->cuda, result, "read memory of the GPU");
}

ftl_status ftl_device_fill(ftl_context *context, ftl_runtime *runtime, uint64_t address,
                           uint32_t word, size_t words) {
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status || words == 0) return status;
    int result = runtime->cuda.memory_fill(address, word, words);
    return runtime_cuda_status(context, &runtime->cuda, result, "fill memory of the GPU");
}

static const int64_t WAIT_MAX_MS = (int64_t)1 << 40; /* 34 years */
/* A thread that sleeps comes back some 60 us late, longer than most launches last: so a wait asks
 * without a pause at first, and then with pauses that are a small part of how long it has lasted.
 */
static const int64_t WAIT_AWAKE_NS = 2000000, WAIT_PART = 64, WAIT_PAUSE_MOST_NS = 1000000;

ftl_status ftl_stream_wait(ftl_context *context, ftl_runtime *runtime, void *stream,
                           int64_t milliseconds) {
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    if (milliseconds < 0 || milliseconds > WAIT_MAX_MS) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a wait lasts from 0 to %lld milliseconds", (long long)WAIT_MAX_MS);
    }
    int64_t begin_ns = os_time_ns();
    for (;;) {
        int result = runtime->cuda.stream_query(stream);
        if (result != CUDA_NOT_READY) {
            return runtime_cuda_status(context, &runtime->cuda, result, "end the work on the GPU");
        }
        int64_t passed_ns = os_time_ns() - begin_ns, pause_ns = passed_ns / WAIT_PART;
        if (passed_ns > milliseconds * 1000000) break;
        if (passed_ns > WAIT_AWAKE_NS)
            os_sleep_ns(pause_ns < WAIT_PAUSE_MOST_NS ? pause_ns : WAIT_PAUSE_MOST_NS);
    }
    return ftl_context_fail(context, FTL_TIMEOUT, "the work on the GPU did not end within %.1f s",
                            (double)milliseconds / 1000);
}

struct ftl_timer {
    ftl_runtime *runtime;
    void *start, *end;
};

ftl_status ftl_timer_new(ftl_context *context, ftl_runtime *runtime, ftl_timer **out) {
    NEEDS(out);
    *out = NULL;
    NEEDS(runtime);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    ftl_timer *timer = calloc(1, sizeof *timer);
    if (!timer) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    timer->runtime = runtime;
    int result = runtime->cuda.event_create(&timer->start, 0);
    if (!result) result = runtime->cuda.event_create(&timer->end, 0);
    if (!result) *out = timer;
    else ftl_timer_free(timer);
    return runtime_cuda_status(context, &runtime->cuda, result, "create an event");
}

ftl_status ftl_timer_start(ftl_context *context, ftl_timer *timer, void *stream) {
    NEEDS(timer);
    const cuda_driver *cuda = &timer->runtime->cuda;
    return runtime_cuda_status(context, cuda, cuda->event_record(timer->start, stream),
                               "record an event");
}

ftl_status ftl_timer_stop(ftl_context *context, ftl_timer *timer, void *stream,
                          double *milliseconds) {
    NEEDS(timer);
    NEEDS(milliseconds);
    const cuda_driver *cuda = &timer->runtime->cuda;
    float time_ms = 0;
    int result = cuda->event_record(timer->end, stream);
    if (!result) result = cuda->event_wait(timer->end);
    if (!result) result = cuda->event_elapsed(&time_ms, timer->start, timer->end);
    *milliseconds = (double)time_ms;
    return runtime_cuda_status(context, cuda, result, "measure time on the GPU");
}

void ftl_timer_free(ftl_timer *timer) {
    if (!timer) return;
    if (timer->start) timer->runtime->cuda.event_free(timer->start);
    if (timer->end) timer->runtime->cuda.event_free(timer->end);
    free(timer);
}
