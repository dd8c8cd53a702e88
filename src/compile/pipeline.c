/* The whole compiler on one screen: text, tree, names, decisions, text again, checks, CUDA.
 *
 *     sketch --read, bind--> tree --reason--> TL Code --print, read, bind--> tree --check--> facts
 *                                                                              --translate--> CUDA
 *
 * TL Code goes through its text even inside ftl_build: what the translator sees is what a person
 * would have read, and nothing else.
 */
#include "base/needs.h"
#include "check/check.h"
#include "compile/compile.h"
#include "compile/decide.h"
#include "compile/measured.h"
#include "translate/translate.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 16 << 20, KERNELS_MAX = 64 };

/* What a run of the pipeline needs and makes. The buffers are the caller's to free. */
typedef struct pipeline {
    const ftl_source *source;
    const ftl_options *options;
    text_buffer sketch, code, reasons;
    double predicted_tflops;
    bool wants_decisions, as_cute;
    ftl_decisions *decisions; /* the caller's to free */
    struct {
        text_buffer cuda;
        char *plan; /* JSON */
    } kernels[KERNELS_MAX];
    int kernel_count;
} pipeline;

static tl_type dtype_of(ftl_type type) {
    switch (type) {
    case FTL_F16: return TL_F16;
    case FTL_BF16: return TL_BF16;
    case FTL_F32: return TL_F32;
    case FTL_E4M3: return TL_E4M3;
    case FTL_E5M2: return TL_E5M2;
    case FTL_I32: return TL_I32;
    }
    return TL_OPEN;
}

/* --- sketch -> TL Code ------------------------------------------------------------------------ */

typedef struct request {
    const tl_program *sketch;
    gpu target;
    reason_options options;
    str identity; /* of the sketch, as measured_sketch has it */
    measured_entry measured;
    bool has_measured;
} request;

/* The user's pins, and behind them those that were measured. */
static ftl_status open_request(ftl_context *context, const pipeline *p, request *r) {
    arena *memory = &context->memory;
    const ftl_options *o = p->options;
    ftl_status status = compile_find_gpu(context, o->gpu, &r->target);
    if (status) return status;
    reason_pin *pins = arena_array(memory, reason_pin, o->pin_count);
    for (int i = 0; i < o->pin_count; i++) {
        pins[i] = (reason_pin){.name = str_copy(memory, str_from(o->pins[i].name)),
                               .value = str_copy(memory, str_from(o->pins[i].value))};
    }
    r->options = (reason_options){.dtype = dtype_of(o->dtype),
                                  .pins = pins,
                                  .pin_count = o->pin_count,
                                  .stop_after = str_copy(memory, str_from(o->stop_after))};
    str text = o->measured ? str_from(o->measured) : measured_shipped(o->gpu, &r->target);
    if (!text.length && !p->wants_decisions) return FTL_OK;
    r->identity = measured_sketch(memory, r->sketch);
    str dtype = str_from(ftl_type_name(o->dtype ? o->dtype : FTL_F16));
    reason_pin *meant = arena_array(memory, reason_pin, o->pin_count);
    int meant_count = 0;
    for (int i = 0; i < o->pin_count; i++) {
        bool is_usual = str_is(pins[i].name, "d") || str_is(pins[i].name, "dv");
        bool is_nothing = is_usual && !decide_is_length(r->sketch, pins[i].name);
        if (!is_nothing) meant[meant_count++] = pins[i];
    }
    r->has_measured =
        measured_find(memory, text, r->identity, dtype, meant, meant_count, &r->measured);
    return FTL_OK;
}

/* Puts a decision in front of the others: where they come from. */
static void add_origin(ftl_context *context, const request *r, reason_result *result,
                       const char *format, str what) {
    arena *memory = &context->memory;
    reason_decision *longer = arena_array(memory, reason_decision, result->decision_count + 1);
    for (int i = 0; i < result->decision_count; i++) longer[i + 1] = result->decisions[i];
    str sentence = str_format(memory, "%s%.*s", format, STR_ARGS(what));
    longer[0] = (reason_decision){.kernel = r->sketch->first->name,
                                  .pass = STR("tuning"),
                                  .subject = STR("measured"),
                                  .sentence = sentence};
    result->decisions = longer;
    result->decision_count++;
}

/* With the measured pins; false when they do not fit (the passes have changed since). */
static bool try_measured(ftl_context *context, const request *r, reason_result *result) {
    arena *memory = &context->memory;
    int count = r->options.pin_count + r->measured.pin_count;
    reason_pin *pins = arena_array(memory, reason_pin, count);
    str names = STR("");
    for (int i = 0; i < r->options.pin_count; i++) pins[i] = r->options.pins[i];
    for (int i = 0; i < r->measured.pin_count; i++) {
        const reason_pin *pin = &r->measured.pins[i];
        pins[r->options.pin_count + i] = *pin;
        names = str_format(memory, "%.*s%s%.*s = %.*s", STR_ARGS(names), i ? ", " : "",
                           STR_ARGS(pin->name), STR_ARGS(pin->value));
    }
    reason_options options = r->options;
    options.pins = pins;
    options.pin_count = count;
    diag_list scratch;
    diag_init(&scratch, memory, r->sketch->source_name, r->sketch->source);
    *result = reason_program(r->sketch, &r->target, &options, memory, &scratch);
    if (!result->program) return false;
    str what = str_format(memory, "%.*s: %.*s", STR_ARGS(names), STR_ARGS(r->measured.how));
    add_origin(context, r, result, "", what);
    return true;
}

static reason_result decide(ftl_context *context, const request *r) {
    reason_result result;
    bool may_use = r->has_measured && !r->measured.blocked.length;
    if (may_use && try_measured(context, r, &result)) return result;
    result = reason_program(r->sketch, &r->target, &r->options, &context->memory, &context->diags);
    if (!result.program || !r->has_measured) return result;
    if (may_use)
        add_origin(context, r, &result, "decisions on record do not fit any more", STR(""));
    else
        add_origin(context, r, &result, "decisions on record are not used beside the pin ",
                   r->measured.blocked);
    return result;
}

static ftl_status reason_sketch(ftl_context *context, pipeline *p, tl_program *program) {
    const ftl_options *o = p->options;
    if (!o || !o->gpu) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a sketch needs a GPU to reason for");
    }
    request r = {.sketch = program};
    ftl_status status = compile_check_pins(context, program, o);
    if (!status) status = open_request(context, p, &r);
    if (status) return status;
    if (!check_sketch(program, &context->diags)) return compile_verdict(context);
    for (const tl_kernel *k = program->first; k; k = k->next) {
        if (!check_parameters(k, &r.target, &context->diags)) return compile_verdict(context);
    }
    reason_result result = decide(context, &r);
    if (!result.program) return compile_verdict(context);
    tl_print(result.program, &p->code);
    reason_explain(&result, &p->reasons);
    p->predicted_tflops = result.predicted_tflops;
    if (p->wants_decisions) {
        str dtype = str_from(ftl_type_name(o->dtype ? o->dtype : FTL_F16));
        str problem = decide_problem(&context->memory, program, r.identity, dtype, r.options.pins,
                                     r.options.pin_count);
        p->decisions = decide_copy(&result, problem);
        if (!p->decisions) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    return compile_verdict(context);
}

/* --- TL Code -> CUDA -------------------------------------------------------------------------- */

static ftl_status translate_one(ftl_context *context, pipeline *p, tl_kernel *kernel,
                                const char *gpu_name) {
    arena *memory = &context->memory;
    gpu target;
    ftl_status status = compile_gpu_of(context, kernel, gpu_name, &target);
    if (status) return status;
    check_facts facts;
    if (!check_code(kernel, &target, memory, &context->diags, &facts)) {
        return compile_verdict(context);
    }
    if (p->kernel_count == KERNELS_MAX) {
        return ftl_context_fail(context, FTL_REJECTED, "a program has at most %d kernels",
                                KERNELS_MAX);
    }
    text_buffer *cuda = &p->kernels[p->kernel_count].cuda;
    ftl_plan *plan = NULL;
    text_init(cuda, TEXT_BYTES_MAX);
    char **json = &p->kernels[p->kernel_count++].plan;
    translate_request what = {
        .kernel = kernel, .target = &target, .facts = &facts, .as_cute = p->as_cute};
    if (!translate_kernel(&what, memory, &context->diags, cuda, &plan)) {
        return compile_verdict(context);
    }
    *json = ftl_plan_write(plan);
    return *json ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
}

static ftl_status translate_program(ftl_context *context, pipeline *p, tl_program *program,
                                    const char *gpu_name) {
    for (tl_kernel *k = program->first; k; k = k->next) {
        ftl_status status = translate_one(context, p, k, gpu_name);
        if (status) return status;
    }
    return FTL_OK;
}

/* Reads what the reasoner wrote; messages show that text. */
static tl_program *read_again(ftl_context *context, const pipeline *p) {
    str name =
        str_format(&context->memory, "%s (TL Code)", p->source->name ? p->source->name : "<text>");
    ftl_source code = {name.data, p->code.data ? p->code.data : "", p->code.length};
    return compile_bind(context, &code);
}

/* --- the public steps ------------------------------------------------------------------------- */

static ftl_status run_reason(ftl_context *context, void *arguments) {
    pipeline *p = arguments;
    tl_program *program = compile_bind(context, p->source);
    if (program && p->wants_decisions && reason_is_code(program->first)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "this is TL Code: everything in it is decided");
    }
    return program ? reason_sketch(context, p, program) : compile_verdict(context);
}

static ftl_status run_translate(ftl_context *context, void *arguments) {
    pipeline *p = arguments;
    tl_program *program = compile_bind(context, p->source);
    if (!program) return compile_verdict(context);
    tl_print(program, &p->code);
    return translate_program(context, p, program, p->options->gpu);
}

static ftl_status run_build(ftl_context *context, void *arguments) {
    pipeline *p = arguments;
    tl_program *program = compile_bind(context, p->source);
    if (!program) return compile_verdict(context);
    if (reason_is_code(program->first)) {
        ftl_status wrong = compile_check_pins(context, program, p->options);
        if (wrong) return wrong;
        tl_print(program, &p->code);
        return translate_program(context, p, program, p->options ? p->options->gpu : NULL);
    }
    tl_print(program, &p->sketch);
    ftl_status status = reason_sketch(context, p, program);
    if (status) return status;
    program = read_again(context, p);
    return program ? translate_program(context, p, program, p->options->gpu)
                   : compile_verdict(context);
}

static pipeline *pipeline_new(const ftl_source *source, const ftl_options *options) {
    pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->source = source;
    p->options = options;
    text_init(&p->sketch, TEXT_BYTES_MAX);
    text_init(&p->code, TEXT_BYTES_MAX);
    text_init(&p->reasons, TEXT_BYTES_MAX);
    return p;
}

static void pipeline_free(pipeline *p) {
    for (int i = 0; i < p->kernel_count; i++) {
        text_done(&p->kernels[i].cuda);
        free(p->kernels[i].plan);
    }
    text_done(&p->sketch);
    text_done(&p->code);
    text_done(&p->reasons);
    free(p);
}

static ftl_status out_of_memory(ftl_context *context) {
    return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
}

ftl_status ftl_reason(ftl_context *context, const ftl_source *source, const ftl_options *options,
                      char **code) {
    NEEDS(context);
    NEEDS(code);
    *code = NULL;
    NEEDS(source);
    pipeline *p = pipeline_new(source, options);
    if (!p) return out_of_memory(context);
    ftl_status status = compile_guarded(context, run_reason, p);
    if (!status) status = compile_hand_over(context, &p->code, code);
    if (!status) p->code = (text_buffer){0};
    pipeline_free(p);
    return status;
}

ftl_status ftl_decide(ftl_context *context, const ftl_source *source, const ftl_options *options,
                      ftl_decisions **out) {
    NEEDS(context);
    NEEDS(out);
    *out = NULL;
    NEEDS(source);
    pipeline *p = pipeline_new(source, options);
    if (!p) return out_of_memory(context);
    p->wants_decisions = true;
    ftl_status status = compile_guarded(context, run_reason, p);
    if (!status) *out = p->decisions;
    else ftl_decisions_free(p->decisions);
    pipeline_free(p);
    return status;
}

ftl_status compile_explain_sketch(ftl_context *context, const ftl_source *source,
                                  const ftl_options *options, char **text) {
    pipeline *p = pipeline_new(source, options);
    if (!p) return out_of_memory(context);
    ftl_status status = compile_guarded(context, run_reason, p);
    if (!status) status = compile_hand_over(context, &p->reasons, text);
    if (!status) p->reasons = (text_buffer){0};
    pipeline_free(p);
    return status;
}

/* Takes the texts out of the pipeline. */
static ftl_status hand_over(ftl_context *context, pipeline *p, ftl_product *product) {
    ftl_status status = FTL_OK;
    if (p->sketch.length) status = compile_hand_over(context, &p->sketch, &product->sketch);
    if (!status) status = compile_hand_over(context, &p->code, &product->code);
    if (!status) status = compile_hand_over(context, &p->reasons, &product->reasons);
    p->sketch = p->code = p->reasons = (text_buffer){0};
    product->predicted_tflops = p->predicted_tflops;
    product->kernels = calloc((size_t)p->kernel_count + 1, sizeof *product->kernels);
    if (!product->kernels) return out_of_memory(context);
    product->kernel_count = p->kernel_count;
    for (int i = 0; !status && i < p->kernel_count; i++) {
        char why[FTL_WHY_BYTES];
        status = compile_hand_over(context, &p->kernels[i].cuda, &product->kernels[i].cuda);
        p->kernels[i].cuda = (text_buffer){0};
        const char *json = p->kernels[i].plan;
        product->kernels[i].plan = ftl_plan_read(json, strlen(json), why);
        if (!product->kernels[i].plan) {
            status = ftl_context_fail(context, FTL_NO_MEMORY, "the plan cannot be kept: %s", why);
        }
    }
    return status;
}

static ftl_status run_to_product(ftl_context *context, compile_work *work, const ftl_source *source,
                                 const ftl_options *options, bool as_cute, ftl_product **out) {
    *out = NULL;
    pipeline *p = pipeline_new(source, options);
    if (p) p->as_cute = as_cute;
    ftl_product *product = calloc(1, sizeof *product);
    ftl_status status = p && product ? compile_guarded(context, work, p) : out_of_memory(context);
    if (!status) status = hand_over(context, p, product);
    if (p) pipeline_free(p);
    if (!status) *out = product;
    else ftl_product_free(product);
    return status;
}

ftl_status ftl_translate(ftl_context *context, const ftl_source *source, const char *gpu_name,
                         ftl_product **out) {
    return ftl_translate_to(context, source, gpu_name, FTL_PLAIN_CUDA, out);
}

ftl_status ftl_translate_to(ftl_context *context, const ftl_source *source, const char *gpu_name,
                            ftl_text_form form, ftl_product **out) {
    NEEDS(context);
    NEEDS(out);
    *out = NULL;
    NEEDS(source);
    ftl_options options = {.gpu = gpu_name};
    return run_to_product(context, run_translate, source, &options, form == FTL_CUTE, out);
}

ftl_status ftl_build(ftl_context *context, const ftl_source *source, const ftl_options *options,
                     ftl_product **out) {
    NEEDS(context);
    NEEDS(out);
    *out = NULL;
    NEEDS(source);
    return run_to_product(context, run_build, source, options, false, out);
}

void ftl_product_free(ftl_product *product) {
    if (!product) return;
    for (int32_t i = 0; i < product->kernel_count; i++) {
        free(product->kernels[i].cuda);
        ftl_plan_free(product->kernels[i].plan);
    }
    free(product->kernels);
    free(product->sketch);
    free(product->code);
    free(product->reasons);
    free(product);
}
