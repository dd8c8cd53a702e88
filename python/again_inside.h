/* What the ways to a known call share: how tensors are described, and making the call. */
#ifndef FLASHTL_AGAIN_INSIDE_H
#define FLASHTL_AGAIN_INSIDE_H

#include "again.h"

/* PyTorch's stable functions, which all return 0 where it is done; and its numbers of types. */
typedef uint64_t again_value; /* on PyTorch's stack: of a tensor its handle, else the number */
typedef void (*again_function)(again_value *stack, uint64_t inputs, uint64_t outputs);
typedef struct again_torch {
#define TORCH(name, parameters) int32_t(*name) parameters;
#define TYPE(name) int32_t (*name)(void);
#include "again.def"
} again_torch;
extern again_torch torch;

enum { AGAIN_NO_TYPE = 1 << 24 }; /* such a type's number is none of PyTorch's */
enum { AGAIN_KEY_WORDS_MOST = 2 + AGAIN_TENSORS_MOST * (2 + 2 * FTL_AXES_MAX) };

/* The tensors of a call, and what is read of them. */
typedef struct operands {
    void *addresses[AGAIN_TENSORS_MOST + AGAIN_OUTPUTS_MOST];
    int64_t words[AGAIN_KEY_WORDS_MOST]; /* what decides a call but addresses */
    int32_t count, word_count;
    int32_t type, device_type, device; /* of the first tensor */
    int64_t total_keys;
} operands;

/* What one tensor says of itself: type and device are told apart by any numbers. */
typedef struct operand {
    void *address;
    int64_t axes;
    const int64_t *extents, *strides;
    int32_t type, device_type, device;
} operand;

/* Begins the operands of a call that was asked for by these options. */
void operands_begin(operands *o, int64_t options, int64_t total_keys);
/* False: it has too many axes, or there are too many. */
bool operands_add(operands *o, const operand *one);

/* Learns what the thread was told, or makes the call if it is known: gives results, or none. */
void again_make(operands *o, void *results[AGAIN_RESULTS]);

/* Finds a function in one of the libraries. */
bool again_take(void *const *libraries, int32_t count, const char *name, void *function);
/* PyTorch's functions, once. False: this PyTorch lacks one of them. */
bool again_open(void *const *libraries, int32_t count);

#endif
