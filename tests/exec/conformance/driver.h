/* libcuda, opened at run time: what the programs that record results on a GPU share. A call that
 * fails ends the program with its name.
 */
#ifndef TESTS_CONFORMANCE_DRIVER_H
#define TESTS_CONFORMANCE_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;

typedef int (*init_function)(unsigned);
typedef int (*device_function)(int *, int);
typedef int (*retain_function)(void **, int);
typedef int (*current_function)(void *);
typedef int (*load_function)(void **, const void *);
typedef int (*find_function)(void **, void *, const char *);
typedef int (*allocate_function)(address *, size_t);
typedef int (*upload_function)(address, const void *, size_t);
typedef int (*download_function)(void *, address, size_t);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);

static void *library;

static void open_driver(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library) return;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "libcuda has no %s\n", name);
        exit(1);
    }
    return found;
}

static void check(int status, const char *what) {
    if (!status) return;
    fprintf(stderr, "%s: CUDA error %d\n", what, status);
    exit(1);
}

static void open_context(void) {
    int device;
    void *context;
    check(((init_function)symbol("cuInit"))(0), "cuInit");
    check(((device_function)symbol("cuDeviceGet"))(&device, 0), "cuDeviceGet");
    check(((retain_function)symbol("cuDevicePrimaryCtxRetain"))(&context, device), "context");
    check(((current_function)symbol("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
}

#endif
