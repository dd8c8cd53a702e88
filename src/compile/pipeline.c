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
#include "compile/ask.h"
#include "compile/blame.h"
#include "compile/compile.h"
#include "compile/decide.h"
#include "compile/trace.h"
#include "translate/translate.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 16 << 20, KERNELS_MAX = TRACE_KERNELS_MAX };

/* What a run of the pipeline needs and makes. The buffers are the caller's to free. */
typedef struct pipeline {
    const ftl_source *source;
    ftl_options own_options;
    const ftl_options *options; /* those */
    text_buffer sketch, code, reasons;
    double predicted_tflops;
    bool wants_decisions, as_cute;
    ftl_decisions *decisions; /* the caller's to free */
    trace *trace;             /* the caller's; NULL: nobody asks where statements come from */
    struct {
        text_buffer cuda;
        char *plan; /* JSON */
    } kernels[KERNELS_MAX];
    int kernel_count;
} pipeline;

static ftl_status out_of_memory(ftl_context *context) {
    return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
}

/* --- TL Code -> CUDA -------------------------------------------------------------------------- */

/* The symbol that is wanted; "": none. */
static str entry_of(const pipeline *p, const tl_kernel *kernel, bool is_only, arena *memory) {
    str wanted = str_from(p->options->entry);
    if (is_only || !wanted.length) return wanted;
    return str_format(memory, "%.*s_%.*s", STR_ARGS(wanted), STR_ARGS(kernel->name));
}

static ftl_status translate_one(ftl_context *context, pipeline *p, tl_kernel *kernel,
                                const char *gpu_name, bool is_only) {
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
    translate_request what = {.kernel = kernel,
                              .target = &target,
                              .facts = &facts,
                              .as_cute = p->as_cute,
                              .entry = entry_of(p, kernel, is_only, memory)};
    translate_spans spans = {0};
    if (p->trace) what.spans = &spans;
    if (!translate_kernel(&what, memory, &context->diags, cuda, &plan)) {
        return cuda->failed ? out_of_memory(context) : compile_verdict(context);
    }
    char why[FTL_WHY_BYTES];
    if (!ftl_plan_check(plan, why)) { /* more lists, or longer ones, than launches have */
        diag_report(&context->diags, DIAG_TRANSLATE_UNSUPPORTED, kernel->range, kernel->name,
                    str_from(plan->target), str_copy(memory, str_from(why)));
        return compile_verdict(context);
    }
    if (p->trace)
        p->trace->kernels[p->kernel_count - 1] =
            (trace_kernel){kernel, facts, target, spans,
                           timeline_of(memory, &facts, &target, plan->blocks_per_sm)};
    *json = ftl_plan_write(plan);
    return *json ? FTL_OK : out_of_memory(context);
}

static ftl_status translate_program(ftl_context *context, pipeline *p, tl_program *program,
                                    const char *gpu_name) {
    if (p->trace) p->trace->code = program;
    for (tl_kernel *k = program->first; k; k = k->next) {
        ftl_status status = translate_one(context, p, k, gpu_name, !program->first->next);
        if (status) return status;
    }
    return FTL_OK;
}

/* --- sketch -> TL Code that is right ---------------------------------------------------------- */

/* The forms that the reasoner made of a sketch so far. */
typedef struct trial {
    ask ask;
    tl_program *sketch;
    int *refused, kernel_count; /* by kernel: how many of its forms */
    diag_list said;             /* about the sketch, before */
    bool has_first;             /* was a form refused? Then for this, */
    blame_verdict first;
    bool is_stuck; /* or with the reasoner's own word */
    diag_list stuck;
} trial;

/* Forgets the texts of a form that was refused. */
static void drop_texts(pipeline *p) {
    text_done(&p->code);
    text_done(&p->reasons);
    text_init(&p->code, TEXT_BYTES_MAX);
    text_init(&p->reasons, TEXT_BYTES_MAX);
    for (int i = 0; i < p->kernel_count; i++) {
        text_done(&p->kernels[i].cuda);
        free(p->kernels[i].plan);
        p->kernels[i].plan = NULL;
    }
    p->kernel_count = 0;
}

/* Asks for the next form of a kernel. False: all were tried. */
static bool next_form(ftl_context *context, pipeline *p, trial *t, int kernel) {
    if (t->ask.uses_measured) t->ask.uses_measured = false; /* then the cost model's best */
    else if (++t->refused[kernel] >= REASON_FORMS) return false;
    drop_texts(p);
    context->diags = t->said;
    return true;
}

static ftl_status refuse(ftl_context *context, const trial *t) {
    context->diags = t->has_first ? t->said : t->stuck;
    if (t->has_first) blame_report(&t->first, &context->diags);
    return compile_verdict(context);
}

/* Reads what the reasoner wrote, checks it and translates it. REJECTED where it is against the
 * rules: then *kernel is the one, and the diagnostics are about that text.
 */
static ftl_status prove(ftl_context *context, pipeline *p, trial *t, const reason_result *made,
                        int *kernel) {
    str name =
        str_format(&context->memory, "%s (TL Code)", p->source->name ? p->source->name : "<text>");
    ftl_source code = {name.data, p->code.data ? p->code.data : "", p->code.length};
    tl_program *read = compile_read(context, &code);
    bool is_bound = !diag_has_errors(&context->diags) && tl_bind(read, &context->diags);
    ftl_status status =
        is_bound ? translate_program(context, p, read, p->options->gpu) : compile_verdict(context);
    if (status != FTL_REJECTED || !diag_has_errors(&context->diags)) return status;
    blame_case blamed = {.sketch = t->sketch,
                         .made = made->program,
                         .read = read,
                         .finding = context->diags.first,
                         .target = &t->ask.target};
    *kernel = blame_kernel(read, blamed.finding->range.begin);
    if (t->has_first || t->is_stuck) return status;
    t->first = blame_sketch(&blamed, &context->memory);
    t->has_first = true;
    return status;
}

static ftl_status keep_decisions(ftl_context *context, pipeline *p, const trial *t,
                                 const reason_result *result) {
    const ask *r = &t->ask;
    str dtype = str_from(ftl_type_name(p->options->dtype ? p->options->dtype : FTL_F16));
    str problem = decide_problem(&context->memory, t->sketch, r->identity, dtype, r->options.pins,
                                 r->options.pin_count);
    p->decisions = decide_copy(result, problem);
    return p->decisions ? FTL_OK : out_of_memory(context);
}

/* Prints what the reasoner made and proves it; a text that an earlier pass left is shown as it is.
 */
static ftl_status take(ftl_context *context, pipeline *p, trial *t, const reason_result *made,
                       int *kernel) {
    tl_print(made->program, &p->code);
    reason_explain(made, &p->reasons);
    if (p->code.failed || p->reasons.failed) return out_of_memory(context);
    p->predicted_tflops = made->predicted_tflops;
    bool is_whole = !t->ask.options.stop_after.length;
    ftl_status status = is_whole ? prove(context, p, t, made, kernel) : FTL_OK;
    if (status) return status;
    context->diags = t->said;
    if (p->trace) p->trace->sketch = t->sketch, p->trace->reasoned = *made;
    return p->wants_decisions ? keep_decisions(context, p, t, made) : FTL_OK;
}

/* Takes the best form of the sketch that is within the rules. */
static ftl_status try_forms(ftl_context *context, pipeline *p, trial *t) {
    for (;;) {
        reason_result made = ask_reasoner(context, &t->ask);
        int kernel = made.stuck_kernel;
        if (made.program) {
            ftl_status status = take(context, p, t, &made, &kernel);
            bool is_refused = status == FTL_REJECTED && diag_has_errors(&context->diags);
            if (!is_refused) return status;
        } else if (!t->has_first && !t->is_stuck) {
            t->is_stuck = true;
            t->stuck = context->diags;
            if (!made.may_differ) return refuse(context, t);
        }
        if (!next_form(context, p, t, kernel)) return refuse(context, t);
    }
}

static ftl_status reason_sketch(ftl_context *context, pipeline *p, tl_program *program) {
    const ftl_options *o = p->options;
    if (!o || !o->gpu) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a sketch needs a GPU to reason for");
    }
    trial t = {.ask = {.sketch = program}, .sketch = program};
    ftl_status status = compile_check_pins(context, program, o);
    if (!status) status = ask_open(context, o, p->wants_decisions, &t.ask);
    if (status) return status;
    check_lengths given = compile_lengths(&context->memory, o);
    if (!check_sketch(program, &given, &context->diags)) return compile_verdict(context);
    for (const tl_kernel *k = program->first; k; k = k->next, t.kernel_count++)
        if (!check_parameters(k, &t.ask.target, &context->diags)) return compile_verdict(context);
    t.ask.options.wants_history = p->trace != NULL;
    t.refused = arena_array(&context->memory, int, t.kernel_count *(1 + REASON_TURNED_MOST) + 1);
    t.ask.options.refused = t.refused;
    t.said = context->diags;
    return try_forms(context, p, &t);
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

/* TL Code as it was read: its canonical text, and what that becomes. */
static ftl_status translate_code(ftl_context *context, pipeline *p, tl_program *program) {
    tl_print(program, &p->code);
    return translate_program(context, p, program, p->options->gpu);
}

static ftl_status run_translate(ftl_context *context, void *arguments) {
    pipeline *p = arguments;
    tl_program *program = compile_bind(context, p->source);
    return program ? translate_code(context, p, program) : compile_verdict(context);
}

static ftl_status run_build(ftl_context *context, void *arguments) {
    pipeline *p = arguments;
    tl_program *program = compile_bind(context, p->source);
    if (!program) return compile_verdict(context);
    if (reason_is_code(program->first)) {
        ftl_status wrong = compile_check_pins(context, program, p->options);
        return wrong ? wrong : translate_code(context, p, program);
    }
    tl_print(program, &p->sketch);
    return reason_sketch(context, p, program);
}

static pipeline *pipeline_new(const ftl_source *source, const ftl_options *options) {
    pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->source = source;
    p->own_options = *options;
    p->options = &p->own_options;
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

/* One of the texts that reasoning leaves: the TL Code, or its reasons. */
static ftl_status reason_to_text(ftl_context *context, const ftl_source *source,
                                 const ftl_options *options, bool wants_reasons, char **out) {
    pipeline *p = pipeline_new(source, options);
    if (!p) return out_of_memory(context);
    text_buffer *wanted = wants_reasons ? &p->reasons : &p->code;
    ftl_status status = compile_to_text(context, run_reason, p, wanted, out);
    *wanted = (text_buffer){0};
    pipeline_free(p);
    return status;
}

ftl_status ftl_reason(ftl_context *context, const ftl_source *source, const ftl_options *options,
                      char **code) {
    NEEDS_RESULT(code);
    NEEDS(source);
    ftl_options taken;
    ftl_status status = compile_take_options(context, options, &taken);
    if (status) return status;
    return reason_to_text(context, source, &taken, false, code);
}

ftl_status ftl_decide(ftl_context *context, const ftl_source *source, const ftl_options *options,
                      ftl_decisions **out) {
    NEEDS_RESULT(out);
    NEEDS(source);
    ftl_options taken;
    ftl_status status = compile_take_options(context, options, &taken);
    if (status) return status;
    pipeline *p = pipeline_new(source, &taken);
    if (!p) return out_of_memory(context);
    p->wants_decisions = true;
    status = compile_guarded(context, run_reason, p);
    if (!status) *out = p->decisions;
    else ftl_decisions_free(p->decisions);
    pipeline_free(p);
    return status;
}

ftl_status compile_explain_sketch(ftl_context *context, const ftl_source *source,
                                  const ftl_options *options, char **text) {
    return reason_to_text(context, source, options, true, text);
}

/* Takes the texts out of the pipeline. */
static ftl_status hand_over(ftl_context *context, pipeline *p, ftl_product *product) {
    ftl_status status = FTL_OK;
    bool was_sketch = p->sketch.length || p->sketch.failed;
    if (was_sketch) status = compile_hand_over(context, &p->sketch, &product->sketch);
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

typedef struct wishes {
    bool as_cute;
    trace *trace;
} wishes;

static ftl_status run_to_product(ftl_context *context, compile_work *work, const ftl_source *source,
                                 const ftl_options *options, wishes wish, ftl_product **out) {
    *out = NULL;
    pipeline *p = pipeline_new(source, options);
    if (p) p->as_cute = wish.as_cute, p->trace = wish.trace;
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
    NEEDS_RESULT(out);
    NEEDS(source);
    if (form != FTL_PLAIN_CUDA && form != FTL_CUTE)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "there is no such form of a text");
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = gpu_name;
    wishes wish = {.as_cute = form == FTL_CUTE};
    return run_to_product(context, run_translate, source, &options, wish, out);
}

ftl_status ftl_build(ftl_context *context, const ftl_source *source, const ftl_options *options,
                     ftl_product **out) {
    NEEDS_RESULT(out);
    NEEDS(source);
    ftl_options taken;
    ftl_status status = compile_take_options(context, options, &taken);
    return status ? status : run_to_product(context, run_build, source, &taken, (wishes){0}, out);
}

static ftl_status write_trace(ftl_context *context, const trace *traced, const ftl_product *product,
                              char **json) {
    json_t *root = trace_json(traced, product);
    *json = root ? json_write(NULL, root, JSON_COMPACT) : NULL;
    json_decref(root);
    return *json ? FTL_OK : out_of_memory(context);
}

ftl_status ftl_trace(ftl_context *context, const ftl_source *source, const ftl_options *options,
                     char **json) {
    NEEDS_RESULT(json);
    NEEDS(source);
    ftl_options taken;
    ftl_product *product = NULL;
    ftl_status status = compile_take_options(context, options, &taken);
    if (status) return status;
    if (taken.stop_after) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a trace goes through all passes; it cannot stop after one");
    }
    trace *traced = calloc(1, sizeof *traced);
    if (!traced) return out_of_memory(context);
    wishes wish = {.trace = traced};
    status = run_to_product(context, run_build, source, &taken, wish, &product);
    if (!status) traced->kernel_count = product->kernel_count;
    if (!status) status = write_trace(context, traced, product, json);
    ftl_product_free(product);
    free(traced);
    return status;
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
