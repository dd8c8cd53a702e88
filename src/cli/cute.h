/* How CUDA is written, and what CuTe needs besides. */
#ifndef FLASHTL_CLI_CUTE_H
#define FLASHTL_CLI_CUTE_H

#include "cli/cli.h"

enum { CUTE_PATH_BYTES = 4096 };

/* --to. Returns EXIT_DONE, or the exit status after saying what is wrong. */
int cute_form(const cli *c, ftl_text_form *form);
/* The folder of CUTLASS's headers: of CUTLASS_PATH, else of the package nvidia-cutlass that python3
 * finds.
 */
int cute_headers(char folder[CUTE_PATH_BYTES]);

#endif
