/* What became of each statement on its way through the stages, remembered while a program is
 * compiled (docs/decisions/027-view.md).
 */
#ifndef FLASHTL_COMPILE_TRACE_H
#define FLASHTL_COMPILE_TRACE_H

#include "base/json.h"
#include "check/check.h"
#include "compile/compile.h"
#include "flashtl/flashtl.h"
#include "reason/reason.h"
#include "timeline/timeline.h"
#include "translate/translate.h"

enum { TRACE_KERNELS_MAX = 64 };

typedef struct trace_kernel {
    tl_kernel *code;       /* as it was read, checked and translated */
    check_facts facts;     /* of it */
    gpu target;            /* it is for */
    translate_spans spans; /* which lines of its CUDA text are about which statement */
    timeline timeline;     /* of its two first tiles */
} trace_kernel;

/* All of it lives in the context's arena until the next call. */
typedef struct trace {
    const tl_program *sketch; /* NULL: it was TL Code to begin with */
    reason_result reasoned; /* what the code was printed from; program NULL: nothing was reasoned */
    const tl_program *code;
    trace_kernel kernels[TRACE_KERNELS_MAX];
    int kernel_count;
} trace;

/* The whole as JSON; NULL without memory. The product has the texts of the same run. */
json_t *trace_json(const trace *t, const ftl_product *product);

/* The number of a statement of the kernel's code; -1: it has none. */
int trace_number_of(const trace_kernel *k, const tl_statement *wanted);

/* Adds a kernel's timeline, and to the statements in 'statements' how long they wait in it. */
void trace_put_timeline(json_writer *w, const trace_kernel *k, json_t *kernel, json_t *statements);

#endif
