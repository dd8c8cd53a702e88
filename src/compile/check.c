/* What a text is (a sketch or TL Code), for which GPU, and whether it is right. */
#include "check/check.h"
#include "base/needs.h"

#include "compile/compile.h"
#include "reason/reason.h"
#include "translate/translate.h"

tl_program *compile_bind(ftl_context *context, const ftl_source *source) {
    tl_program *program = compile_read(context, source);
    if (diag_has_errors(&context->diags)) return NULL;
    return tl_bind(program, &context->diags) ? program : NULL;
}

typedef struct check_arguments {
    const ftl_source *source;
    const char *gpu;
} check_arguments;

/* What is right for a GPU can be translated for it: what the translator has no form for is a
 * finding, too. */
static void check_translation(ftl_context *context, tl_kernel *kernel, const gpu *target,
                              const check_facts *facts) {
    text_buffer cuda;
    ftl_plan *plan;
    translate_request what = {.kernel = kernel, .target = target, .facts = facts};
    text_init_in(&cuda, &context->memory); /* where the memory ends, this function does not */
    translate_kernel(&what, &context->memory, &context->diags, &cuda, &plan);
}

static ftl_status check_kernel(ftl_context *context, tl_kernel *kernel, const char *gpu_name) {
    gpu target;
    const gpu *known;
    check_facts facts;
    ftl_status status = compile_gpu_if_said(context, kernel, gpu_name, &target, &known);
    if (status) return status;
    bool is_right = check_code(kernel, known, &context->memory, &context->diags, &facts);
    if (is_right && known) check_translation(context, kernel, known, &facts);
    return FTL_OK;
}

ftl_status compile_check(ftl_context *context, tl_program *program, const char *gpu_name,
                         const check_lengths *given) {
    bool is_code = reason_is_code(program->first);
    if (!is_code) {
        gpu named;
        ftl_status status = gpu_name ? compile_find_gpu(context, gpu_name, &named) : FTL_OK;
        if (status) return status;
        check_sketch(program, given, &context->diags);
        for (const tl_kernel *k = gpu_name ? program->first : NULL; k; k = k->next)
            check_parameters(k, &named, &context->diags);
    }
    for (tl_kernel *k = is_code ? program->first : NULL; k; k = k->next) {
        ftl_status status = check_kernel(context, k, gpu_name);
        if (status) return status;
    }
    return compile_verdict(context);
}

static ftl_status check(ftl_context *context, void *arguments) {
    const check_arguments *a = arguments;
    tl_program *program = compile_bind(context, a->source);
    return program ? compile_check(context, program, a->gpu, NULL) : compile_verdict(context);
}

ftl_status ftl_check(ftl_context *context, const ftl_source *source, const char *gpu_name) {
    NEEDS(context);
    NEEDS(source);
    check_arguments a = {source, gpu_name};
    return compile_guarded(context, check, &a);
}
