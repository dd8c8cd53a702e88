/* Runs the Hopper cases on a real GPU of compute capability 9.0 and writes what came out. A case
 * that the GPU does not take is named, and gets hashes of 0: cc -std=gnu17 -O2 record_hopper.c -o
 * record_hopper -ldl -lm && ./record_hopper hopper.bin A second file name takes the results
 * themselves, to look at. The driver (libcuda) is opened at run time; nothing of CUDA is needed to
 * build this.
 */
#include "driver.h"
#include "hopper.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*unload_function)(void *);
typedef int (*encode_function)(void *, int, uint32_t, address, const uint64_t *, const uint64_t *,
                               const uint32_t *, const uint32_t *, int, int, int, int);

/* CUtensorMapDataType: unsigned integers of 1, 2, 4, 8 bytes are 0, 1, 2, 4. */
static void encode(const hopper_case *c, address base, void *map) {
    static const int types[] = {0, 0, 1, 0, 2, 0, 0, 0, 4};
    int swizzle = c->swizzle == 32 ? 1 : c->swizzle == 64 ? 2 : c->swizzle == 128 ? 3 : 0;
    uint32_t steps[5];
    for (int d = 0; d < 5; d++) steps[d] = c->steps[d] ? c->steps[d] : 1;
    check(((encode_function)symbol("cuTensorMapEncodeTiled"))(map, types[c->bytes], c->rank, base,
                                                              c->extents, c->strides, c->box, steps,
                                                              0, swizzle, 0, 0),
          c->name);
}

static uint32_t inputs[HOPPER_INPUT_WORDS * HOPPER_BLOCKS_MAX];
static uint32_t outputs[HOPPER_OUTPUT_WORDS_MAX];

static void run_case(int number, address in, address out) {
    static char text[HOPPER_TEXT_MAX];
    const hopper_case *c = &hopper_cases[number];
    _Alignas(64) uint8_t map[128] = {0};
    void *module, *function, *arguments[3] = {map, &in, &out};
    upload_function upload = (upload_function)symbol("cuMemcpyHtoD_v2");
    hopper_ptx(c, text);
    hopper_inputs(number, inputs);
    memset(outputs, 0, sizeof outputs);
    if (c->rank) encode(c, (c->kind == HOPPER_STORE ? out : in) + c->offset, map);
    check(((load_function)symbol("cuModuleLoadData"))(&module, text), c->name);
    check(((find_function)symbol("cuModuleGetFunction"))(&function, module, "k"), c->name);
    check(upload(in, inputs, sizeof inputs), c->name);
    check(upload(out, outputs, sizeof outputs), c->name);
    check(((launch_function)symbol("cuLaunchKernel"))(function, (unsigned)hopper_blocks(c), 1, 1,
                                                      128, 1, 1, HOPPER_SHARED, NULL, arguments,
                                                      NULL),
          c->name);
    check(((download_function)symbol("cuMemcpyDtoH_v2"))(outputs, out, sizeof outputs), c->name);
    check(((unload_function)symbol("cuModuleUnload"))(module), c->name);
}

static void write_case(int number, int refused, FILE *hashes, FILE *results) {
    int words = hopper_words(&hopper_cases[number]) * hopper_blocks(&hopper_cases[number]);
    for (int w = 0; w < words; w += HOPPER_HASH_WORDS) {
        uint64_t hash = refused ? 0 : hopper_hash(outputs + w);
        fwrite(&hash, sizeof hash, 1, hashes);
    }
    if (results) fwrite(outputs, 4, (size_t)words, results);
    fflush(hashes);
    if (results) fflush(results);
}

/* A process of its own: an instruction that the GPU does not take ends its context. */
static void run_from(int first, int *done, FILE *hashes, FILE *results) {
    address in, out;
    allocate_function allocate = (allocate_function)symbol("cuMemAlloc_v2");
    open_context();
    check(allocate(&in, sizeof inputs), "memory");
    check(allocate(&out, sizeof outputs), "memory");
    for (int n = first; n < HOPPER_CASES; n++, ++*done) {
        run_case(n, in, out);
        write_case(n, 0, hashes, results);
    }
    exit(0);
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: record_hopper hopper.bin [results.bin]\n");
        return 2;
    }
    open_driver();
    FILE *hashes = fopen(argv[1], "wb"), *results = argc == 3 ? fopen(argv[2], "wb") : NULL;
    int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!hashes || (argc == 3 && !results) || done == MAP_FAILED) {
        perror("results");
        return 1;
    }
    int refused = 0;
    for (*done = 0; *done < HOPPER_CASES; ++*done) {
        int status;
        pid_t child = fork();
        if (child == 0) run_from(*done, done, hashes, results);
        if (child < 0 || waitpid(child, &status, 0) != child) {
            perror("fork");
            return 1;
        }
        if (*done == HOPPER_CASES) break;
        printf("refused: %s\n", hopper_cases[*done].name);
        fflush(stdout);
        memset(outputs, 0, sizeof outputs);
        write_case(*done, 1, hashes, results);
        if (++refused > 40) {
            fprintf(stderr, "too many cases are refused\n");
            return 1;
        }
    }
    if (fclose(hashes) || (results && fclose(results))) {
        perror("results");
        return 1;
    }
    printf("%d cases recorded, %d refused\n", (int)HOPPER_CASES, refused);
    return 0;
}
