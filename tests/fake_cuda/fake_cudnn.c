#include "fake_cuda.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_cudnn_record fake_cudnn = {.version = 91900, .configs = 2, .workspace = 16};

enum {
    KIND_HEURISTICS = 4,
    KIND_PLAN = 5,
    KIND_POINTWISE_OPERATION = 13,
    KIND_PACK = 16,
    KIND_PRODUCT_OPERATION = 19,
    KIND_REDUCTION_OPERATION = 22,
    POINTWISE_MODE = 0,
    HEURISTICS_RESULTS = 202,
    PLAN_WORKSPACE = 402,
    PACK_IDS = 1000,
    PACK_POINTERS = 1001,
    TYPE_DESCRIPTOR = 15,
    BAD_PARAMETER = 2000,
    NOT_SUPPORTED = 3000,
    ENTRIES_MAX = 16
};

typedef struct descriptor {
    int kind;
    bool is_final;
    int64_t ids[ENTRIES_MAX];
    void *pointers[ENTRIES_MAX];
    int count;
} descriptor;

static int violate(const char *what, int number) {
    fake_cudnn.violations++;
    snprintf(fake_cudnn.violation, sizeof fake_cudnn.violation, "%s (%d)", what, number);
    return BAD_PARAMETER;
}

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void) {
    return fake_cudnn.version;
}

EXPORT const char *cudnnGetErrorString(int status);
EXPORT const char *cudnnGetErrorString(int status) {
    return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}

EXPORT void cudnnGetLastErrorString(char *text, size_t bytes);
EXPORT void cudnnGetLastErrorString(char *text, size_t bytes) {
    snprintf(text, bytes, "words of its own\nand more");
}

EXPORT int cudnnCreate(void **handle);
EXPORT int cudnnCreate(void **handle) {
    if (fake_cudnn.create_result) return fake_cudnn.create_result;
    fake_cudnn.handles++;
    *handle = &fake_cudnn;
    return 0;
}

EXPORT int cudnnDestroy(void *handle);
EXPORT int cudnnDestroy(void *handle) {
    fake_cudnn.handles--;
    return handle == &fake_cudnn ? 0 : violate("destroys another handle", 0);
}

EXPORT int cudnnBackendCreateDescriptor(int kind, void **out);
EXPORT int cudnnBackendCreateDescriptor(int kind, void **out) {
    descriptor *d = calloc(1, sizeof *d);
    d->kind = kind;
    fake_cudnn.live++;
    *out = d;
    return 0;
}

EXPORT int cudnnBackendDestroyDescriptor(void *handle);
EXPORT int cudnnBackendDestroyDescriptor(void *handle) {
    fake_cudnn.live--;
    free(handle);
    return 0;
}

EXPORT int cudnnBackendSetAttribute(void *handle, int name, int type, int64_t count,
                                    const void *values);
EXPORT int cudnnBackendSetAttribute(void *handle, int name, int type, int64_t count,
                                    const void *values) {
    descriptor *d = handle;
    if (d->is_final) return violate("sets what is final", name);
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++) {
        const descriptor *other = ((void *const *)values)[i];
        bool is_config = other && other->kind == 3; /* the heuristics made it */
        if (!other || (!other->is_final && !is_config))
            return violate("links what is not final", name);
    }
    if (d->kind == 0 && name == POINTWISE_MODE && fake_cudnn.pointwise < 16) {
        memcpy(&fake_cudnn.modes[fake_cudnn.pointwise], values, sizeof(int));
    }
    if (d->kind == KIND_PACK && name != 1003) {
        if (count > ENTRIES_MAX) return violate("packs too much", (int)count);
        d->count = (int)count;
        if (name == PACK_IDS) memcpy(d->ids, values, (size_t)count * sizeof *d->ids);
        if (name == PACK_POINTERS) memcpy(d->pointers, values, (size_t)count * sizeof *d->pointers);
    }
    return 0;
}

EXPORT int cudnnBackendGetAttribute(void *handle, int name, int type, int64_t most, int64_t *count,
                                    void *values);
EXPORT int cudnnBackendGetAttribute(void *handle, int name, int type, int64_t most, int64_t *count,
                                    void *values) {
    const descriptor *d = handle;
    (void)type;
    if (!d->is_final) return violate("asks what is not final", name);
    if (name == HEURISTICS_RESULTS) *count = fake_cudnn.configs < most ? fake_cudnn.configs : most;
    if (name == PLAN_WORKSPACE) {
        *count = 1;
        memcpy(values, &fake_cudnn.workspace, sizeof fake_cudnn.workspace);
    }
    return 0;
}

EXPORT int cudnnBackendFinalize(void *handle);
EXPORT int cudnnBackendFinalize(void *handle) {
    descriptor *d = handle;
    if (d->is_final) return violate("ends twice", d->kind);
    if (d->kind == KIND_PLAN && fake_cudnn.plans++ < fake_cudnn.bad_plans) return NOT_SUPPORTED;
    fake_cudnn.products += d->kind == KIND_PRODUCT_OPERATION;
    fake_cudnn.reductions += d->kind == KIND_REDUCTION_OPERATION;
    fake_cudnn.pointwise += d->kind == KIND_POINTWISE_OPERATION;
    d->is_final = true;
    return 0;
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack);
EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    const descriptor *p = plan, *v = pack;
    bool is_right = handle == &fake_cudnn && p && v && p->is_final && v->is_final &&
                    p->kind == KIND_PLAN && v->kind == KIND_PACK;
    if (!is_right) return violate("runs what is not final", 0);
    fake_cudnn.executions++;
    if (fake_cudnn.execute_result) return fake_cudnn.execute_result;
    void *tensors[FAKE_CUDNN_TENSORS] = {0};
    for (int i = 0; i < v->count; i++) {
        if (v->ids[i] >= 1 && v->ids[i] <= FAKE_CUDNN_TENSORS)
            tensors[v->ids[i] - 1] = v->pointers[i];
    }
    if (fake_cudnn.on_execute) fake_cudnn.on_execute(fake_cudnn.user, tensors);
    return 0;
}
