/* What a model may write as CUDA: device code of one kernel, nothing that reaches the machine it is
 * compiled on.
 */
#ifndef FLASHTL_THINK_DEVICE_TEXT_H
#define FLASHTL_THINK_DEVICE_TEXT_H

#include "diag/diag.h"
#include "flashtl/flashtl.h"

/* Reads directives as the preprocessor would, after line splices and comments: only harmless ones
 * pass, and includes of a few headers (FTL_CUTE: and of CuTe's). Words of host code and of file
 * access are refused, and an entry `extern "C" __global__ void ENTRY(` must be there. False with
 * findings in 'diags'.
 */
bool device_text_check(str text, const char *entry, ftl_text_form form, diag_list *diags);
/* The same for what became of the text: no clocks, and nothing else that tells a kernel when and
 * where it runs.
 */
bool device_ptx_check(str ptx, diag_list *diags);

#endif
