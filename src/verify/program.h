/* Programs of one kernel or several, for what lays out and launches them. */
#ifndef FLASHTL_VERIFY_PROGRAM_H
#define FLASHTL_VERIFY_PROGRAM_H

#include "verify/verify.h"

/* The sketch; where there is none, the TL Code. */
str program_text(const verify_program *program);

/* The kernels to launch, in order; none of a program that was not translated. What they point to is
 * the program's.
 */
int32_t program_kernel_count(const verify_program *program);
ftl_kernel program_kernel(const verify_program *program, int32_t i);

/* Those of 'all' that a kernel's plan names. 'tensors' and 'scalars' have room for all. */
ftl_arguments program_arguments(const ftl_plan *plan, const ftl_arguments *all, ftl_tensor *tensors,
                                ftl_scalar *scalars);

#endif
