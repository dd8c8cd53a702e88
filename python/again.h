/* A call on PyTorch's tensors that is made again: on tensors like those before, with new addresses.
 *
 * Python describes once what a call came to: the outputs that it made, and its launches as the
 * structs of include/flashtl with the places of their addresses. From then on C makes it: a
 * function of Python, or with a PyTorch that lacks what that needs (before 2.10) an operator of
 * PyTorch, finds the call by the types, devices, extents and strides of its tensors, allocates,
 * writes addresses and launches. It never reports a fault: what it does not know, and what fails,
 * is left to Python, which does the whole call and says what is wrong.
 */
#ifndef FLASHTL_AGAIN_H
#define FLASHTL_AGAIN_H

#include "flashtl/flashtl.h"

#include <sys/types.h>

enum {
    AGAIN_TENSORS_MOST = 12,
    AGAIN_OUTPUTS_MOST = 16, /* results and scratch */
    AGAIN_RESULTS = 4,       /* o and lse, or gradients */
    AGAIN_STRUCT_BYTES_MOST = 4096,
};

typedef enum again_type { AGAIN_AS_FIRST = 0, AGAIN_F32 = 1, AGAIN_BYTES = 2 } again_type;

typedef enum again_kind {
    AGAIN_ATTENTION = 0, /* ftl_attention */
    AGAIN_VARLEN = 1,    /* ftl_varlen */
    AGAIN_DECODE = 2,    /* ftl_decode */
    AGAIN_MLA = 3,       /* ftl_mla */
    AGAIN_MODULE = 4,    /* the tensors of ftl_arguments, and after them its scalars */
} again_kind;

typedef struct again_output {
    int64_t extents[FTL_AXES_MAX];
    int64_t strides[FTL_AXES_MAX];
    int32_t axis_count;
    int32_t type;   /* again_type */
    int32_t result; /* its place among the results; -1: scratch */
    bool is_zero;
} again_output;

/* The address of a source, 'delta' bytes further, at this byte of a launch's struct. */
typedef struct again_address {
    int32_t offset;
    int32_t source; /* a tensor of the call, or after those an output */
    int64_t delta;
} again_address;

typedef struct again_launch {
    const void *bytes; /* the struct */
    size_t byte_count;
    const again_address *addresses;
    void *module; /* of AGAIN_MODULE */
    int32_t address_count;
    int32_t kind; /* again_kind */
    int32_t tensor_count;
    int32_t scalar_count;
} again_launch;

typedef struct again_call {
    const again_output *outputs;
    const again_launch *launches;
    void *runtime;
    int32_t output_count;
    int32_t launch_count;
    /* Of each tensor the first one whose address it had: whoever was at one place has to be again.
     */
    int32_t same[AGAIN_TENSORS_MOST];
} again_call;

/* Registers the operators again2, again3, ... of the namespace flashtl, whose schemas Python has
 * defined, for a dispatch key. 'libraries' are handles of dlopen in which PyTorch's functions are.
 * False: this PyTorch lacks one of them.
 */
FTL_API bool flashtl_again_register(void *const *libraries, int32_t library_count, const char *key);

/* What the function looks at, Python's objects, which stay. */
typedef struct again_objects {
    void *numbers;             /* {options: their number} */
    void *tensor, *parameter;  /* the types of plain tensors */
    void *is_neg;              /* of a tensor, by the tensor */
    void *modes, *transforms;  /* functions that say how many are active */
    void *forward, *level;     /* the module of forward-mode gradients; the name of their level */
    void *requires_grad;       /* the name */
    void *integer, *none, *no; /* int, None, False */
} again_objects;

/* The same as a function of Python with METH_FASTCALL, again(options, tensors, total_keys=None):
 * the results, or None. NULL: PyTorch or Python lacks something.
 */
typedef void *again_fast(void *self, void *const *given, ssize_t count);
FTL_API again_fast *flashtl_again_function(void *const *libraries, int32_t library_count,
                                           void *exchange_capsule, const again_objects *objects);

/* While a thread notes what a call launches, the calls inside of it are no known ones. */
FTL_API void flashtl_again_note(bool is);

/* What the next call of an operator in this thread, which gives nothing, is to come to from then
 * on. False: it is too large, or there is no memory. NULL takes it back.
 */
FTL_API bool flashtl_again_learn(const again_call *call);

/* Forgets all calls: in a process that was forked, and where a test begins anew. */
FTL_API void flashtl_again_forget(void);

#endif
