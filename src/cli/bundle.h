/* flashtl build --bundle: the kernels of several GPUs as one file of C, with what it takes to
 * choose among them, to check arguments and to launch: the source of src/plan itself, and a loader
 * over it (src/cli/bundle).
 */
#ifndef FLASHTL_CLI_BUNDLE_H
#define FLASHTL_CLI_BUNDLE_H

#include "base/text.h"
#include "cli/cli.h"

enum { BUNDLE_ENTRIES_MAX = 128 };

/* An argument of the launch: a tensor, or a number that no tensor's axis gives. */
typedef struct bundle_entry {
    const char *name;
    const ftl_plan_tensor *tensor; /* of the first kernel that has it; NULL: a number */
    bool is_seen;                  /* in the kernels of the GPU at hand */
} bundle_entry;

/* The names in it live as long as the products that were added. */
typedef struct bundle {
    const char *name, *kernel;
    char first_gpu[64];
    int gpu_count, kernel_count, kernels_most; /* kernels: of the GPU at hand; most of any */
    int entry_count;
    bundle_entry entries[BUNDLE_ENTRIES_MAX];
    text_buffer data, gpus, names; /* plans and images; rows of the GPUs; their names */
} bundle;

/* 'name', an identifier of C, begins all names that a program sees. */
void bundle_open(bundle *b, const char *name);
void bundle_done(bundle *b);

/* Adds the kernels of a GPU: begin, each kernel in the order of launches, end. EXIT_DONE, or the
 * exit status after saying why they cannot be in one bundle with those that are there.
 */
void bundle_begin_gpu(bundle *b);
int bundle_add(bundle *b, const ftl_gpu *gpu, const ftl_plan *plan, const ftl_image *image);
int bundle_end_gpu(bundle *b, const ftl_gpu *gpu);

/* NAME.h and NAME.c. False without memory. */
bool bundle_header(const bundle *b, text_buffer *out);
bool bundle_source(const bundle *b, text_buffer *out);

#endif
