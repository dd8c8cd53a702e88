/* From a sketch to a program that has its gradients, too. */
#include "derive/derive.h"

#include "base/needs.h"
#include "check/check.h"
#include "compile/compile.h"
#include "reason/reason.h"

typedef struct derive_arguments {
    const ftl_source *source;
    const char *const *of;
    int32_t of_count;
    bool is_fused;
    text_buffer out;
} derive_arguments;

static bool is_sketch_of_one(ftl_context *context, const tl_program *program) {
    const char *why =
        reason_is_code(program->first) ? "this is TL Code: gradients are derived of sketches"
        : program->first->next ? "gradients are derived of one kernel, and this is the second"
                               : NULL;
    const tl_kernel *at = program->first->next ? program->first->next : program->first;
    if (why) diag_report(&context->diags, DIAG_DERIVE_STUCK, at->range, str_from(why));
    return !why;
}

/* What was derived is read again as a person's text would be: it is printed in the canonical form,
 * and what the checks refuse is not handed over.
 */
static ftl_status hand_over(ftl_context *context, derive_arguments *a, str text) {
    str name = str_format(&context->memory, "%s (its gradients)",
                          a->source->name ? a->source->name : "<text>");
    ftl_source derived = {name.data, text.data, text.length};
    tl_program *program = compile_bind(context, &derived);
    if (program && check_sketch(program, NULL, &context->diags)) tl_print(program, &a->out);
    return compile_verdict(context);
}

static ftl_status derive(ftl_context *context, void *arguments) {
    derive_arguments *a = arguments;
    arena *memory = &context->memory;
    tl_program *program = compile_bind(context, a->source);
    if (!program || !check_sketch(program, NULL, &context->diags) ||
        !is_sketch_of_one(context, program))
        return compile_verdict(context);
    str *of = arena_array(memory, str, a->of_count + 1);
    for (int32_t i = 0; i < a->of_count; i++) of[i] = str_from(a->of[i]);
    text_buffer text;
    text_init_in(&text, memory);
    const derive_request request = {of, a->of_count, a->is_fused};
    bool is_derived = tl_infer_axes(program->first, memory, &context->diags) &&
                      derive_gradients(program->first, &request, memory, &context->diags, &text);
    if (!is_derived) return compile_verdict(context);
    return hand_over(context, a, (str){text.data, text.length});
}

ftl_status ftl_derive(ftl_context *context, const ftl_source *source, const char *const *of,
                      int32_t of_count, bool is_fused, char **out) {
    NEEDS(context);
    NEEDS(source);
    NEEDS(out);
    *out = NULL;
    if (!compile_is_list(of, of_count))
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the list of Inputs is null, or an entry");
    derive_arguments a = {source, of, of_count, is_fused, {0}};
    text_init(&a.out, TL_SOURCE_BYTES_MAX);
    return compile_to_text(context, derive, &a, &a.out, out);
}
