/* What nobody verified yet is verified before it is given out. */
#ifndef FLASHTL_CLI_BUILD_VERIFY_H
#define FLASHTL_CLI_BUILD_VERIFY_H

#include "cli/request.h"

/* Verifies the kernels of a request on the decisive cases: by the emulator, where there is a CUDA
 * compiler, else by the interpreter. Operators that ship as they are were verified before.
 * EXIT_REJECTED after saying what is wrong.
 */
int build_verify(cli *c, const cli_request *r, ftl_runtime *runtime, ftl_product *product);

#endif
