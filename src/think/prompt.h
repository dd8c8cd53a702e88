/* What models are told. A prompt is a stable part (the language, the GPU, worked examples), which
 * servers may cache, and a question; then come the findings about each answer. The same task gives
 * the same bytes.
 *
 * The texts are in prompts/, with {{...}} where a table of the compiler goes: operations, types,
 * functions, the GPU's sheet, shipped sketches, and TL Code that the reasoner makes on the spot. So
 * they cannot say what the compiler does not do.
 */
#ifndef FLASHTL_THINK_PROMPT_H
#define FLASHTL_THINK_PROMPT_H

#include "base/text.h"
#include "flashtl/flashtl.h"
#include "think/steps.h"

#include <jansson.h>

typedef struct prompt_task {
    think_step step;
    const char *words;          /* the user's; NULL or "": none */
    const ftl_options *options; /* GPU, element type, pins */
    const char *parameters;     /* Input and Output lines that must be kept; NULL: free */
    const char *sketch; /* reason: what is reasoned; translate: where it came from, or NULL */
    bool is_direct;     /* reason: there is no sketch, the words are all */
    ftl_text_form form; /* translate: 0: plain CUDA */
    const ftl_product *product; /* translate: TL Code, plan and the built-in kernel of it */
} prompt_task;

enum { PROMPT_BYTES_MAX = 4 << 20 };

/* The stable part. OK, REJECTED (an example does not fit the GPU), NO_MEMORY. */
ftl_status prompt_system(ftl_context *context, const prompt_task *task, text_buffer *out);
/* The first question. */
ftl_status prompt_question(ftl_context *context, const prompt_task *task, text_buffer *out);
/* What is said about an answer that failed at 'rung': findings is an array of objects. */
void prompt_findings(think_rung rung, const json_t *findings, int32_t left, text_buffer *out);
/* The same where nothing may be said but that it failed. */
void prompt_failure(int32_t left, text_buffer *out);

/* The grammar of the answer for this task, with free text before it; nothing where the step has
 * none. 'form' is FTL_GBNF or FTL_LARK. OK, NO_MEMORY.
 */
ftl_status prompt_grammar(ftl_context *context, const prompt_task *task, ftl_grammar_form form,
                          text_buffer *out);

#endif
