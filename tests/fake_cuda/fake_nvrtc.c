#include "fake_cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_compiler fake_nvrtc = {.major = 13, .minor = 0};

typedef struct program {
    char *text;
    char log[256];
} program;

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcVersion(int *major, int *minor) {
    *major = fake_nvrtc.major;
    *minor = fake_nvrtc.minor;
    return 0;
}

static const int archs[] = {75, 80, 86, 89, 90};

EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetNumSupportedArchs(int *count) {
    *count = sizeof archs / sizeof *archs;
    return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *out);
EXPORT int nvrtcGetSupportedArchs(int *out) {
    memcpy(out, archs, sizeof archs);
    return 0;
}

EXPORT int nvrtcCreateProgram(void **out, const char *text, const char *name, int header_count,
                              const char *const *headers, const char *const *header_names);
EXPORT int nvrtcCreateProgram(void **out, const char *text, const char *name, int header_count,
                              const char *const *headers, const char *const *header_names) {
    (void)name, (void)header_count, (void)headers, (void)header_names;
    program *made = calloc(1, sizeof *made);
    size_t length = strlen(text);
    made->text = malloc(length + 1);
    memcpy(made->text, text, length + 1);
    *out = made;
    return 0;
}

static atomic_flag is_busy = ATOMIC_FLAG_INIT;

EXPORT int nvrtcCompileProgram(void *handle, int count, const char *const *options);
EXPORT int nvrtcCompileProgram(void *handle, int count, const char *const *options) {
    program *made = handle;
    while (atomic_flag_test_and_set(&is_busy)) continue; /* several threads may compile */
    fake_nvrtc.compiles++;
    fake_nvrtc.options[0] = 0;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(fake_nvrtc.options);
        snprintf(fake_nvrtc.options + used, sizeof fake_nvrtc.options - used, "%s ", options[i]);
    }
    atomic_flag_clear(&is_busy);
    if (fake_nvrtc.compile_result && fake_nvrtc.compile_result != 6) {
        snprintf(made->log, sizeof made->log, "nvrtc: error: a planted failure of its own\n");
        return fake_nvrtc.compile_result;
    }
    if (strstr(made->text, "PLANTED ERROR") || fake_nvrtc.compile_result) {
        snprintf(made->log, sizeof made->log,
                 "warning: no matter\nkernel.cu(1): error: a planted one\n");
        return 6;
    }
    snprintf(made->log, sizeof made->log, "%s",
             fake_nvrtc.log ? fake_nvrtc.log
                            : "ptxas         .     8 bytes stack frame, 12 bytes spill stores, "
                              "16 bytes spill loads\nptxas info    : Used 42 registers, used 1 "
                              "barriers\n");
    return 0;
}

static int size_of(const char *text, size_t *bytes) {
    *bytes = strlen(text) + 1;
    return 0;
}

EXPORT int nvrtcGetProgramLogSize(void *handle, size_t *bytes);
EXPORT int nvrtcGetProgramLogSize(void *handle, size_t *bytes) {
    return size_of(((program *)handle)->log, bytes);
}

EXPORT int nvrtcGetProgramLog(void *handle, char *log);
EXPORT int nvrtcGetProgramLog(void *handle, char *log) {
    memcpy(log, ((program *)handle)->log, strlen(((program *)handle)->log) + 1);
    return 0;
}

EXPORT int nvrtcGetCUBINSize(void *handle, size_t *bytes);
EXPORT int nvrtcGetCUBINSize(void *handle, size_t *bytes) {
    return size_of(((program *)handle)->text, bytes);
}

EXPORT int nvrtcGetCUBIN(void *handle, char *cubin);
EXPORT int nvrtcGetCUBIN(void *handle, char *cubin) {
    memcpy(cubin, ((program *)handle)->text, strlen(((program *)handle)->text) + 1);
    return 0;
}

EXPORT int nvrtcGetPTXSize(void *handle, size_t *bytes);
EXPORT int nvrtcGetPTXSize(void *handle, size_t *bytes) {
    *bytes = fake_nvrtc.ptx ? strlen(fake_nvrtc.ptx) + 1
                            : strlen(((program *)handle)->text) + sizeof "ptx:";
    return 0;
}

EXPORT int nvrtcGetPTX(void *handle, char *ptx);
EXPORT int nvrtcGetPTX(void *handle, char *ptx) {
    program *made = handle;
    if (fake_nvrtc.ptx) {
        memcpy(ptx, fake_nvrtc.ptx, strlen(fake_nvrtc.ptx) + 1);
        return 0;
    }
    memcpy(ptx, "ptx:", 4);
    memcpy(ptx + 4, made->text, strlen(made->text) + 1);
    return 0;
}

EXPORT int nvrtcDestroyProgram(void **handle);
EXPORT int nvrtcDestroyProgram(void **handle) {
    free(((program *)*handle)->text);
    free(*handle);
    *handle = NULL;
    return 0;
}
