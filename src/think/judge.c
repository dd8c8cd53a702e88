#include "think/judge_internal.h"

#include "base/os.h"
#include "flashtl/execute.h"
#include "think/device_arrays.h"
#include "think/device_text.h"
#include "think/record.h"
#include "think/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- findings --------------------------------------------------------------------------------- */

static str line_of(str text, int number) {
    for (int i = 1; text.length; i++) {
        str line = str_cut(&text, '\n');
        if (i == number) return str_trim(line);
    }
    return (str){"", 0};
}

/* File names are of no use to who wrote one text; the statement is. */
static void refine(climb *c, json_t *finding) {
    int number = (int)json_integer_value(json_object_get(finding, "line"));
    bool is_code = strstr(json_text(finding, "file"), "(TL Code)") != NULL;
    json_object_del(finding, "file");
    json_object_del(finding, "end_line");
    json_object_del(finding, "end_column");
    const char *lists[] = {"notes", "hints"};
    for (int i = 0; i < 2; i++) {
        json_t *list = json_object_get(finding, lists[i]);
        for (size_t k = 0; k < json_array_size(list); k++) refine(c, json_array_get(list, k));
        if (!json_array_size(list)) json_object_del(finding, lists[i]);
    }
    str text = is_code ? str_from(c->verdict->code ? c->verdict->code : "") : c->text;
    if (is_code) json_object_set_new(finding, "in", json_string("the TL Code made of your sketch"));
    str statement = number ? line_of(text, number) : (str){"", 0};
    if (!statement.length) return;
    json_object_set_new(finding, "statement", json_stringn(statement.data, statement.length));
}

static void take_lines(climb *c, str lines) {
    while (lines.length) {
        str line = str_cut(&lines, '\n');
        json_t *finding = json_loadb(line.data, line.length, 0, NULL);
        bool is_error = finding && strcmp(json_text(finding, "severity"), "warning") != 0;
        if (is_error) {
            refine(c, finding);
            json_array_append(c->verdict->findings, finding);
        }
        json_decref(finding);
    }
}

void climb_take_diagnostics(climb *c) {
    char *text = ftl_context_diagnostics(c->context, FTL_DIAGNOSTICS_JSON);
    if (text) take_lines(c, str_from(text));
    ftl_free(text);
}

static void forget_own(climb *c) {
    diag_init(&c->diags, &c->memory, STR("answer"), c->text);
}

void climb_take_own(climb *c) {
    text_buffer lines;
    text_init(&lines, JUDGE_TEXT_BYTES);
    diag_render_json(&c->diags, &lines);
    take_lines(c, text_str(&lines));
    text_done(&lines);
    forget_own(c);
}

bool climb_has_findings(const climb *c) {
    return json_array_size(c->verdict->findings) > 0;
}

ftl_status climb_fails(climb *c, think_rung rung) {
    c->verdict->rung = rung;
    c->verdict->passed = false;
    return FTL_OK;
}

bool climb_is_stopped(const climb *c) {
    return c->task->stop && *c->task->stop;
}

void climb_skips(climb *c, think_rung rung, const char *why) {
    json_t *skipped = json_object_get(c->verdict->facts, "skipped");
    if (!skipped) {
        skipped = json_object();
        json_object_set_new(c->verdict->facts, "skipped", skipped);
    }
    json_object_set_new(skipped, think_rung_name(rung), json_string(why));
}

/* --- climbing --------------------------------------------------------------------------------- */

/* Runs 'work' with the arena guarded, and times it. */
static ftl_status climb_up(ftl_context *context, const judge_task *task, str text,
                           judge_verdict *out, ftl_status (*work)(climb *c, void *arguments),
                           void *arguments) {
    int64_t begin_ns = os_time_ns();
    *out = (judge_verdict){.findings = json_array(), .facts = json_object(), .text = str_new(text)};
    if (!out->findings || !out->facts || !out->text) {
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    climb c = {.context = context, .task = task, .verdict = out, .text = str_from(out->text)};
    jmp_buf exhausted;
    arena_init(&c.memory, JUDGE_MEMORY_BYTES);
    forget_own(&c);
    ftl_status status;
    if (setjmp(exhausted)) {
        status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    } else {
        c.memory.on_exhausted = &exhausted;
        status = work(&c, arguments);
    }
    c.memory.on_exhausted = NULL;
    arena_done(&c.memory);
    int64_t took_ms = (os_time_ns() - begin_ns) / 1000000;
    out->ms = (double)took_ms;
    if (!status && task->stop && *task->stop) {
        status = ftl_context_fail(context, FTL_STOPPED, "stopped");
    }
    if (status) judge_done(out);
    return status;
}

void judge_done(judge_verdict *v) {
    json_decref(v->findings);
    json_decref(v->facts);
    free(v->text);
    ftl_free(v->code);
    ftl_product_free(v->product);
    *v = (judge_verdict){0};
}

/* The text as it is printed; findings then count its lines as they were written, so only a text
 * that reads well is replaced.
 */
static bool check(climb *c, const char *gpu) {
    ftl_source source = {"answer", c->text.data, c->text.length};
    if (ftl_check(c->context, &source, gpu) == FTL_OK) return true;
    climb_take_diagnostics(c);
    return false;
}

static void make_canonical(climb *c) {
    ftl_source source = {"answer", c->text.data, c->text.length};
    char *canonical = NULL;
    if (ftl_format(c->context, &source, &canonical)) return;
    free(c->verdict->text);
    c->verdict->text = str_new(str_from(canonical));
    c->text = str_from(c->verdict->text ? c->verdict->text : "");
    ftl_free(canonical);
    forget_own(c);
}

static ftl_status passed_at(climb *c, think_rung rung) {
    c->verdict->rung = rung;
    c->verdict->passed = true;
    return FTL_OK;
}

/* The reasoner's own words about a sketch that fits no kernel are in its TL Code. */
static void add_code_lines(climb *c) {
    json_t *findings = c->verdict->findings;
    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_t *finding = json_array_get(findings, i);
        bool is_budget = strncmp(json_text(finding, "id"), "BUDGET", 6) == 0;
        if (!is_budget) continue;
        json_object_set_new(finding, "fix",
                            json_string("smaller tiles need less: `let BM = 64, BN = 32`, or keep "
                                        "fewer tiles alive at once"));
    }
}

/* What was found may be in the TL Code that was made: that is made again to be quoted. */
static void take_build_findings(climb *c, const ftl_source *source) {
    char *lines = ftl_context_diagnostics(c->context, FTL_DIAGNOSTICS_JSON);
    if (ftl_reason(c->context, source, c->task->options, &c->verdict->code))
        c->verdict->code = NULL;
    if (lines) take_lines(c, str_from(lines));
    ftl_free(lines);
    add_code_lines(c);
}

static ftl_status build(climb *c) {
    ftl_source source = {"answer", c->text.data, c->text.length};
    ftl_status status = ftl_build(c->context, &source, c->task->options, &c->verdict->product);
    if (status == FTL_REJECTED) {
        take_build_findings(c, &source);
        return climb_fails(c, THINK_RUNG_BUILD);
    }
    if (status) return status;
    if (c->verdict->product->kernel_count == 0) {
        diag_report(&c->diags, DIAG_ANSWER_NOTHING, ((diag_range){0, 0}), STR("kernel"), STR("tl"));
        climb_take_own(c);
        return climb_fails(c, THINK_RUNG_BUILD);
    }
    c->verdict->code = str_new(str_from(c->verdict->product->code));
    return passed_at(c, THINK_RUNG_BUILD);
}

static verify_program program_of(const climb *c, const char *sketch, const ftl_product *product) {
    const judge_task *t = c->task;
    return (verify_program){.operator_name = t->operator_name,
                            .settings = t->settings,
                            .setting_count = t->setting_count,
                            .sketch = {"sketch", sketch, strlen(sketch)},
                            .code = {"code", product->code, strlen(product->code)},
                            .plan = product->kernels[0].plan,
                            .cuda = product->kernels[0].cuda};
}

/* --- a sketch --------------------------------------------------------------------------------- */

static ftl_status climb_sketch(climb *c, void *arguments) {
    (void)arguments;
    if (!check(c, NULL)) return climb_fails(c, THINK_RUNG_CHECK);
    make_canonical(c);
    passed_at(c, THINK_RUNG_CHECK);
    if (c->task->highest < THINK_RUNG_MEANING) return FTL_OK;
    ftl_status status = climb_meaning(c);
    if (status || climb_has_findings(c))
        return status ? status : climb_fails(c, THINK_RUNG_MEANING);
    passed_at(c, THINK_RUNG_MEANING);
    if (c->task->highest < THINK_RUNG_BUILD || !c->task->options->gpu) return FTL_OK;
    status = build(c);
    if (status || !c->verdict->passed || c->task->highest < THINK_RUNG_COMPILE) return status;
    const char *sketch = c->task->reference.text ? c->task->reference.text : c->verdict->text;
    verify_program program = program_of(c, sketch, c->verdict->product);
    return climb_kernel(c, &program);
}

ftl_status judge_sketch(ftl_context *context, const judge_task *task, str text,
                        judge_verdict *out) {
    return climb_up(context, task, text, out, climb_sketch, NULL);
}

/* --- TL Code ---------------------------------------------------------------------------------- */

void judge_keep_failure(void *user, const verify_result *result) {
    verify_result *worst = user;
    bool is_first = result->verdict == VERIFY_FAILED && worst->verdict != VERIFY_FAILED;
    if (is_first) *worst = *result;
}

/* The interpreter runs what was written, by its executors. */
static ftl_status interpret_code(climb *c, const verify_program *program) {
    verify_machine *machine = NULL;
    ftl_status status =
        verify_machine_open(c->context, program, VERIFY_INTERPRETER, NULL, &machine);
    if (status) return status;
    verify_summary summary;
    verify_options options = {.shapes = c->task->shapes,
                              .more = c->task->more,
                              .seed = c->task->seed,
                              .seconds_most = 0.2,
                              .stop = c->task->stop};
    verify_result worst = {0};
    text_buffer drawn;
    text_init(&drawn, 4096);
    if (!options.shapes && !c->task->operator_name) {
        trial_shapes(program->plan, c->task->seed, &c->memory, &drawn);
    }
    if (drawn.length) options.shapes = str_copy_z(&c->memory, text_str(&drawn));
    text_done(&drawn);
    options.user = &worst;
    options.on_result = judge_keep_failure;
    status = verify_run(c->context, program, verify_machine_runner(machine), &options, &summary);
    verify_machine_close(machine);
    if (status != FTL_CHECK_FAILED) return status;
    diag_report(&c->diags, DIAG_KERNEL_WRONG, ((diag_range){0, 0}), str_from(worst.name),
                str_from(worst.what));
    climb_explain(c, program);
    climb_take_own(c);
    climb_fails(c, THINK_RUNG_MEANING);
    return FTL_OK;
}

/* TL Code may only be run on what the sketch takes. */
static ftl_status compare_with_sketch(climb *c, const char *sketch) {
    ftl_type dtype = c->task->options->dtype ? c->task->options->dtype : FTL_F16;
    ftl_source source = {"sketch", sketch, strlen(sketch)};
    ftl_plan *should = NULL;
    ftl_status status = ftl_parameters(c->context, &source, dtype, &should);
    if (status) return status;
    climb_parameters(c, c->verdict->product->kernels[0].plan, should);
    climb_take_own(c);
    ftl_plan_free(should);
    return FTL_OK;
}

static ftl_status climb_code(climb *c, void *arguments) {
    const char *sketch = arguments;
    if (!check(c, c->task->options->gpu)) return climb_fails(c, THINK_RUNG_CHECK);
    make_canonical(c);
    passed_at(c, THINK_RUNG_CHECK);
    ftl_source source = {"answer", c->text.data, c->text.length};
    ftl_status status =
        ftl_translate(c->context, &source, c->task->options->gpu, &c->verdict->product);
    if (status == FTL_REJECTED) {
        climb_take_diagnostics(c);
        return climb_fails(c, THINK_RUNG_BUILD);
    }
    if (status) return status;
    c->verdict->code = str_new(str_from(c->verdict->product->code));
    status = compare_with_sketch(c, sketch);
    if (status || climb_has_findings(c)) {
        return status ? status : climb_fails(c, THINK_RUNG_MEANING);
    }
    verify_program program = program_of(c, sketch, c->verdict->product);
    status = interpret_code(c, &program);
    if (status || climb_has_findings(c)) return status;
    passed_at(c, THINK_RUNG_BUILD);
    return c->task->highest < THINK_RUNG_COMPILE ? FTL_OK : climb_kernel(c, &program);
}

ftl_status judge_code(ftl_context *context, const judge_task *task, const char *sketch, str text,
                      judge_verdict *out) {
    return climb_up(context, task, text, out, climb_code, (void *)(uintptr_t)sketch);
}

/* --- CUDA ------------------------------------------------------------------------------------- */

typedef struct cuda_arguments {
    const char *sketch;
    const ftl_product *base;
} cuda_arguments;

static ftl_status climb_cuda(climb *c, void *arguments) {
    const cuda_arguments *a = arguments;
    const ftl_plan *plan = a->base->kernels[0].plan;
    bool is_allowed = device_text_check(c->text, plan->entry, c->task->form, &c->diags);
    if (!is_allowed || !device_arrays_check(c->text, &c->diags)) {
        climb_take_own(c);
        return climb_fails(c, THINK_RUNG_CHECK);
    }
    passed_at(c, THINK_RUNG_CHECK);
    c->verdict->code = str_new(str_from(a->base->code));
    verify_program program = program_of(c, a->sketch ? a->sketch : a->base->code, a->base);
    program.cuda = c->verdict->text;
    return climb_kernel(c, &program);
}

ftl_status judge_cuda(ftl_context *context, const judge_task *task, const char *sketch,
                      const ftl_product *base, str text, judge_verdict *out) {
    cuda_arguments a = {sketch, base};
    return climb_up(context, task, text, out, climb_cuda, &a);
}

/* --- no text ---------------------------------------------------------------------------------- */

typedef struct nothing {
    think_step step;
    bool is_cut_off;
} nothing;

static ftl_status climb_nothing(climb *c, void *arguments) {
    const nothing *n = arguments;
    bool is_cuda = n->step == THINK_TRANSLATE;
    str what = is_cuda ? STR("CUDA text") : STR("TL"), label = is_cuda ? STR("cuda") : STR("tl");
    diag_report(&c->diags, n->is_cut_off ? DIAG_ANSWER_CUT_OFF : DIAG_ANSWER_NOTHING,
                ((diag_range){0, 0}), what, label);
    climb_take_own(c);
    return climb_fails(c, THINK_RUNG_READ);
}

ftl_status judge_nothing(ftl_context *context, think_step step, bool is_cut_off,
                         judge_verdict *out) {
    judge_task task = {0};
    nothing n = {step, is_cut_off};
    return climb_up(context, &task, STR(""), out, climb_nothing, &n);
}

void judge_parameters(str canonical, text_buffer *out) {
    while (canonical.length) {
        str line = str_cut(&canonical, '\n');
        bool is_parameter = str_starts(line, STR("Input ")) || str_starts(line, STR("Output "));
        if (is_parameter) text_format(out, "%.*s\n", STR_ARGS(line));
    }
}
