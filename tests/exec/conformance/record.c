/* Runs the conformance kernels on a real GPU and writes what came out:
 *     cc -std=c17 -O2 record.c -o record -ldl -lm && ./record kernels.ptx results.bin
 * The driver (libcuda) is opened at run time; nothing of CUDA is needed to build this.
 */
#include "conformance.h"
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    static char text[4 << 20];
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: record kernels.ptx results.bin\n");
        return 2;
    }
    open_driver();
    open_context();
    void *module, *function;
    unsigned long long in, out;
    static uint32_t inputs[CONFORMANCE_INPUT_WORDS], outputs[CONFORMANCE_OUTPUT_WORDS];
    allocate_function allocate = (allocate_function)symbol("cuMemAlloc_v2");
    upload_function upload = (upload_function)symbol("cuMemcpyHtoD_v2");
    download_function download = (download_function)symbol("cuMemcpyDtoH_v2");
    check(((load_function)symbol("cuModuleLoadData"))(&module, read_text(argv[1])), "loading");
    check(allocate(&in, sizeof inputs), "memory");
    check(allocate(&out, sizeof outputs), "memory");
    FILE *file = fopen(argv[2], "wb");
    if (!file) {
        perror(argv[2]);
        return 1;
    }
    for (int k = 0; k < CONFORMANCE_KERNELS; k++) {
        const char *name = conformance_kernels[k].name;
        void *arguments[2] = {&in, &out};
        conformance_inputs(k, inputs);
        memset(outputs, 0, sizeof outputs);
        const char *entry = conformance_kernels[k].entry;
        check(((find_function)symbol("cuModuleGetFunction"))(&function, module, entry), name);
        check(upload(in, inputs, sizeof inputs), name);
        check(upload(out, outputs, sizeof outputs), name);
        check(((launch_function)symbol("cuLaunchKernel"))(function, CONFORMANCE_BLOCKS, 1, 1, 32, 1,
                                                          1, 0, NULL, arguments, NULL),
              name);
        check(download(outputs, out, sizeof outputs), name);
        for (int b = 0; b < CONFORMANCE_BLOCKS; b++)
            fwrite(outputs + b * CONFORMANCE_OUTPUTS * 32, 4,
                   (size_t)conformance_kernels[k].outputs * 32, file);
    }
    if (fclose(file)) {
        perror(argv[2]);
        return 1;
    }
    printf("%d kernels recorded\n", (int)CONFORMANCE_KERNELS);
    return 0;
}
