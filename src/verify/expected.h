/* What a case's outputs should be: from the closed formula of a shipped operator, else from the
 * exact interpretation of the sketch.
 */
#ifndef FLASHTL_VERIFY_EXPECTED_H
#define FLASHTL_VERIFY_EXPECTED_H

#include "flashtl/execute.h"
#include "verify/inputs.h"
#include "verify/reference.h"

/* OPEN: what a right kernel holds on the way may be beyond its type, and its result be anything. */
/* KEPT: nothing writes the element; it is neither known nor open. */
enum { EXPECTED_KNOWN = 1, EXPECTED_MODELLED = 2, EXPECTED_OPEN = 4, EXPECTED_KEPT = 8 };

/* Of one output, dense in the order of its axes. */
typedef struct expected {
    const buffer *of;
    double *values, *model; /* model: as the output's type would have it; NULL: there is none */
    double *errors;         /* how far a right kernel may be from them before it rounds to the type
                               (about one standard deviation); NULL: the tolerance says it */
    double *effective;      /* of rows whose errors are the noise of 8-bit weights: how many keys
                               carry their weight; NULL: not known */
    bool is_noise;          /* errors are such noise, which is known well, */
    bool is_anywhere;       /* of weights whose largest is no power of two */
    uint8_t *state;         /* per element: is its value known, is it modelled? */
    bool is_logarithm;      /* a log-sum-exp: judged by absolute error */
} expected;

typedef enum expected_formula {
    EXPECTED_INTERPRETATION,
    EXPECTED_ATTENTION,
    EXPECTED_GEMM,
    EXPECTED_CHAINED,
    EXPECTED_SOFTMAX
} expected_formula;

/* Of the operator's settings, "causal", "window=128": NULL when it is not set, else what stands
 * after '='.
 */
const char *expected_setting(const verify_program *program, const char *name);

/* Which reference judges a program; EXPECTED_INTERPRETATION when its parameters are not those of
 * the operator it is called by.
 */
expected_formula expected_choose(const verify_program *program);

/* Computes outputs[t] for each output, by position in plan->tensors. With 'flops_most', large
 * attentions are computed for a sample of their rows. The inputs must hold what the launch was
 * given.
 */
ftl_status expected_make(ftl_context *context, const case_data *data, double flops_most,
                         arena *memory, expected **outputs);

/* Runs a program on a case's inputs into dense f32 outputs, by position in plan->tensors: enough
 * digits to judge 16-bit results by.
 */
ftl_status expected_run(ftl_context *context, const case_data *data, const ftl_source *source,
                        ftl_arithmetic arithmetic, arena *memory, buffer **out);

/* One head of an attention case, for a closer look: the matrices and the options. */
typedef struct expected_head {
    reference_attention formula;
    int64_t kv_head, kv_heads, group;
} expected_head;
void expected_attention_head(const case_data *data, int64_t batch, int64_t head, int64_t kv_head,
                             arena *memory, expected_head *out);

#endif
