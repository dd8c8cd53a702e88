#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_record fake_cuda = {.capability = 80, .device_count = 1, .driver_version = 13000};

static void set_field(const char *name, int value) {
    static const struct {
        const char *name;
        int *field;
    } fields[] = {
        {"init_result", &fake_cuda.init_result},       {"load_result", &fake_cuda.load_result},
        {"launch_result", &fake_cuda.launch_result},   {"query_result", &fake_cuda.query_result},
        {"capability", &fake_cuda.capability},         {"device_count", &fake_cuda.device_count},
        {"driver_version", &fake_cuda.driver_version},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) == 0) *fields[i].field = value;
    }
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags) {
    (void)flags;
    const char *settings = getenv("FAKE_CUDA");
    char name[64];
    int value, used;
    while (settings && sscanf(settings, " %63[a-z_]=%d%n", name, &value, &used) == 2) {
        set_field(name, value);
        settings += used;
    }
    return fake_cuda.init_result;
}

EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDriverGetVersion(int *version) {
    *version = fake_cuda.driver_version;
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **text);
EXPORT int cuGetErrorName(int error, const char **text) {
    static char name[32];
    snprintf(name, sizeof name, "CUDA_ERROR_%d", error);
    *text = name;
    return 0;
}

EXPORT int cuGetErrorString(int error, const char **text);
EXPORT int cuGetErrorString(int error, const char **text) {
    *text = error == 700 ? "an illegal memory access was encountered" : "some error";
    return 0;
}

EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGetCount(int *count) {
    *count = fake_cuda.device_count;
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < fake_cuda.device_count ? 0 : 101;
}

EXPORT int cuDeviceGetName(char *name, int length, int device);
EXPORT int cuDeviceGetName(char *name, int length, int device) {
    if (fake_cuda.device_name) snprintf(name, (size_t)length, "%s", fake_cuda.device_name);
    else snprintf(name, (size_t)length, "Fake GPU %d", device);
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75   ? fake_cuda.capability / 10
             : attribute == 76 ? fake_cuda.capability % 10
             : attribute == 16 ? 108
                               : 1 << 20;
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 34;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    fake_cuda.retains++;
    *context = &fake_cuda;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    fake_cuda.releases++;
    return 0;
}

static _Thread_local int has_context; /* current in this thread */

EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuCtxSetCurrent(void *context) {
    has_context = context == &fake_cuda;
    return has_context ? 0 : 201;
}

EXPORT int cuCtxGetDevice(int *device);
EXPORT int cuCtxGetDevice(int *device) {
    *device = 0;
    return fake_cuda.needs_context && !has_context ? 201 : 0;
}

EXPORT int cuModuleLoadData(void **module, const void *image);
EXPORT int cuModuleLoadData(void **module, const void *image) {
    if (fake_cuda.load_result) return fake_cuda.load_result;
    fake_cuda.loads++;
    snprintf(fake_cuda.image, sizeof fake_cuda.image, "%s", (const char *)image);
    int *number = malloc(sizeof *number);
    if (number) *number = fake_cuda.loads;
    *module = number;
    return number ? 0 : 2;
}

EXPORT int cuModuleUnload(void *module);
EXPORT int cuModuleUnload(void *module) {
    fake_cuda.unloads++;
    free(module);
    return 0;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name);
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strlen(name) ? 0 : 500;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function;
    if (attribute == 8) fake_cuda.shared_attribute = value;
    return 0;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra);
EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    (void)extra;
    if (grid_y * grid_z * block_y * block_z != 1) return 1;
    if (fake_cuda.needs_context && !has_context) return 201;
    if (fake_cuda.on_queue)
        return fake_cuda.on_queue(fake_cuda.user, stream, grid_x, parameters[0]);
    fake_cuda.launches++;
    fake_cuda.grid = grid_x;
    fake_cuda.threads = block_x;
    fake_cuda.shared_bytes = shared_bytes;
    fake_cuda.stream = stream;
    fake_cuda.module = *(const int *)function;
    memcpy(fake_cuda.parameters, parameters[0], fake_cuda.parameter_bytes);
    if (fake_cuda.on_launch) fake_cuda.on_launch(fake_cuda.user, parameters[0]);
    return fake_cuda.launch_result;
}

/* As cuda.h has them. */
typedef struct fake_attribute {
    int id;
    char pad[4];
    union {
        char all[64];
        int is_allowed;
        void *align;
    } value;
} fake_attribute;

typedef struct fake_config {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    fake_attribute *attributes;
    unsigned attribute_count;
} fake_config;

EXPORT int cuLaunchKernelEx(const fake_config *how, void *function, void **parameters,
                            void **extra);
EXPORT int cuLaunchKernelEx(const fake_config *how, void *function, void **parameters,
                            void **extra) {
    const fake_attribute *only = how->attributes;
    int is_early = how->attribute_count == 1 && only->id == 6 && only->value.is_allowed == 1;
    if (!is_early || fake_cuda.driver_version < 12030) return 801;
    fake_cuda.early_launches++;
    return cuLaunchKernel(function, how->grid_x, how->grid_y, how->grid_z, how->block_x,
                          how->block_y, how->block_z, how->shared_bytes, how->stream, parameters,
                          extra);
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (fake_cuda.allocate_result) return fake_cuda.allocate_result;
    fake_cuda.allocations++;
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    *address = (uint64_t)(uintptr_t)memory;
    return memory ? 0 : 2;
}

EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemFree_v2(uint64_t address) {
    fake_cuda.allocations--;
    free((void *)(uintptr_t)address);
    return 0;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

EXPORT int cuMemsetD32_v2(uint64_t address, unsigned word, size_t words);
EXPORT int cuMemsetD32_v2(uint64_t address, unsigned word, size_t words) {
    for (size_t i = 0; i < words; i++) memcpy((char *)(uintptr_t)address + 4 * i, &word, 4);
    return 0;
}

EXPORT int cuMemsetD32Async(uint64_t address, unsigned word, size_t words, void *stream);
EXPORT int cuMemsetD32Async(uint64_t address, unsigned word, size_t words, void *stream) {
    if (fake_cuda.on_fill) return fake_cuda.on_fill(fake_cuda.user, stream, address, word, words);
    return cuMemsetD32_v2(address, word, words);
}

EXPORT int cuStreamGetId(void *stream, uint64_t *id);
EXPORT int cuStreamGetId(void *stream, uint64_t *id) {
    *id = fake_cuda.stream_id ? fake_cuda.stream_id(fake_cuda.user, stream)
                              : (uint64_t)(uintptr_t)stream;
    return fake_cuda.stream_id_result;
}

EXPORT int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
                                     const void ***nodes, size_t *node_count);
EXPORT int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
                                     const void ***nodes, size_t *node_count) {
    (void)id, (void)nodes, (void)node_count;
    *graph = fake_cuda.stream_graph ? fake_cuda.stream_graph(fake_cuda.user, stream) : NULL;
    *status = *graph != NULL;
    return fake_cuda.capture_result;
}

EXPORT int cuUserObjectCreate(void **object, void *pointer, void (*destroy)(void *pointer),
                              unsigned references, unsigned flags);
EXPORT int cuUserObjectCreate(void **object, void *pointer, void (*destroy)(void *pointer),
                              unsigned references, unsigned flags) {
    if (fake_cuda.object_result) return fake_cuda.object_result;
    if (flags != 1) return 1; /* a destructor is never waited for */
    fake_object *made = malloc(sizeof *made);
    if (!made) return 2;
    *made = (fake_object){destroy, pointer, references};
    *object = made;
    return 0;
}

EXPORT int cuUserObjectRelease(void *object, unsigned references);
EXPORT int cuUserObjectRelease(void *object, unsigned references) {
    fake_object *held = object;
    held->references -= references;
    if (held->references) return 0;
    held->destroy(held->pointer);
    free(held);
    return 0;
}

EXPORT int cuGraphRetainUserObject(void *graph, void *object, unsigned references, unsigned flags);
EXPORT int cuGraphRetainUserObject(void *graph, void *object, unsigned references, unsigned flags) {
    fake_graph *holder = graph;
    if (fake_cuda.retain_result) return fake_cuda.retain_result;
    if (holder->object_count == FAKE_OBJECTS_MAX) return 2;
    if (!(flags & 1)) ((fake_object *)object)->references += references;
    holder->objects[holder->object_count++] = object;
    return 0;
}

/* Ends a graph of which no launch runs any more: no function of CUDA's. */
EXPORT void fake_graph_end(fake_graph *graph);
EXPORT void fake_graph_end(fake_graph *graph) {
    for (int i = 0; i < graph->object_count; i++) cuUserObjectRelease(graph->objects[i], 1);
    graph->object_count = 0;
}

EXPORT int cuStreamQuery(void *stream);
EXPORT int cuStreamQuery(void *stream) {
    if (fake_cuda.on_query) return fake_cuda.on_query(fake_cuda.user, stream);
    return fake_cuda.query_result;
}

EXPORT int cuEventCreate(void **event, unsigned flags);
EXPORT int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(double));
    return 0;
}

EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventRecord(void *event, void *stream) {
    (void)stream;
    *(double *)event = fake_cuda.clock_ms;
    return 0;
}

EXPORT int cuEventSynchronize(void *event);
EXPORT int cuEventSynchronize(void *event) {
    (void)event;
    return 0;
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end);
EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    double passed_ms = *(double *)end - *(double *)start;
    *milliseconds = passed_ms > 0 ? (float)passed_ms : 1.0f;
    return 0;
}

EXPORT int cuEventDestroy_v2(void *event);
EXPORT int cuEventDestroy_v2(void *event) {
    free(event);
    return 0;
}

EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
                                  const uint64_t *extents, const uint64_t *stride_bytes,
                                  const uint32_t *box, const uint32_t *element_strides,
                                  int interleave, int swizzle, int promotion, int fill);
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
                                  const uint64_t *extents, const uint64_t *stride_bytes,
                                  const uint32_t *box, const uint32_t *element_strides,
                                  int interleave, int swizzle, int promotion, int fill) {
    (void)element_strides, (void)interleave, (void)promotion, (void)fill;
    if (fake_cuda.encode_result) return fake_cuda.encode_result;
    if ((uintptr_t)map % 64 != 0 || (uintptr_t)address % 16 != 0 || rank < 1 || rank > 5) return 1;
    fake_map encoded = {.address = (uint64_t)(uintptr_t)address,
                        .rank = rank,
                        .type = (uint32_t)type,
                        .swizzle = (uint32_t)swizzle};
    memcpy(encoded.extents, extents, rank * sizeof *extents);
    memcpy(encoded.stride_bytes, stride_bytes, (rank - 1) * sizeof *stride_bytes);
    memcpy(encoded.box, box, rank * sizeof *box);
    _Static_assert(sizeof encoded == 128, "a tensor map has 128 bytes");
    memcpy(map, &encoded, sizeof encoded);
    fake_cuda.encodings++;
    return 0;
}
