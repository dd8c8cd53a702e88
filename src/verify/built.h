/* Is what was made of a program right? What is asked before a kernel is given out or cached. */
#ifndef FLASHTL_VERIFY_BUILT_H
#define FLASHTL_VERIFY_BUILT_H

#include "verify/verify.h"

typedef enum verify_finding {
    VERIFY_RIGHT, /* it computes what the program says, as far as the cases show */
    VERIFY_WRONG, /* 'what' says where it does not */
    VERIFY_OPEN   /* no inputs could be made up, or most of an Output was never compared */
} verify_finding;

typedef struct verify_built {
    verify_finding finding;
    char what[VERIFY_NAME_BYTES + VERIFY_LINE_BYTES + 256]; /* a sentence, unless it is RIGHT */
} verify_built;

/* The program of a product; 'name' is in messages. Its plan is verify_product's to fill in. */
verify_program verify_program_of(const ftl_product *product, const char *name);

/* Runs the decisive cases of a product's kernels on the emulator, or on the interpreter where
 * nothing compiles CUDA. 'program' need not have a plan. 'stop' may be NULL. OK with the finding;
 * else what the world did: STOPPED, COMPILER_FAILED, NO_MEMORY, ...
 */
ftl_status verify_product(ftl_context *context, const verify_program *program, ftl_runtime *runtime,
                          const volatile sig_atomic_t *stop, verify_built *out);

/* Is it known that kernels of these texts are right? So are those that the release tests verified
 * (shipped.def), whatever their symbols are called.
 */
bool verify_is_shipped(const ftl_product *product);
/* What shipped.def knows a product by. False without memory. */
bool verify_form_digits(const ftl_product *product, char digits[33]);

#endif
