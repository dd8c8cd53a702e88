/* The upper rungs: compile, emulate, run on the GPU. They are climbed in a child process, whoever
 * wrote the kernel: a compiler may hang on a text, and a kernel on a GPU.
 */
#include "think/footprint.h"
#include "think/isolate.h"
#include "think/judge_internal.h"
#include "think/record.h"

#include "base/json.h"
#include "flashtl/execute.h"

#include <stdio.h>
#include <string.h>

static const double SILENCE_S = 120, CPU_S = 600;
static const uint64_t INSTRUCTIONS_MOST = 40000000; /* of warps in a launch of small shapes */
static const size_t MEMORY_BYTES = (size_t)16 << 30;

typedef struct kernel_work {
    climb *c;
    const verify_program *program;
    os_watch *watch;
    const char *stage; /* what is being done */
    ftl_emulator *emulator;
    ftl_image image;    /* what the compiler made */
    ftl_emulation last; /* counts of the last launch; its texts are gone */
    bool wants_counts;
    bool is_wrong; /* its values are, which can be explained */
} kernel_work;

static str copied(climb *c, const char *z) {
    return str_copy(&c->memory, str_from(z));
}

static void doing(kernel_work *w, const char *what) {
    w->stage = what;
    w->watch->beats++;
    w->watch->seconds_left = 0;
    snprintf(w->watch->doing, sizeof w->watch->doing, "%s", what);
}

static void set_fact(climb *c, const char *name, json_t *value) {
    json_object_set_new(c->verdict->facts, name, value);
}

/* --- emulate ---------------------------------------------------------------------------------- */

static ftl_status emulate(void *user, ftl_context *context, const ftl_arguments *arguments,
                          double *milliseconds, text_buffer *detail) {
    kernel_work *w = user;
    ftl_emulation result;
    *milliseconds = 0;
    w->watch->beats++;
    ftl_emulation_options options = {.struct_bytes = sizeof options,
                                     .wants_statistics = w->wants_counts,
                                     .instruction_budget = INSTRUCTIONS_MOST};
    ftl_status status = ftl_emulate(context, w->emulator, arguments, &options, &result);
    if (status == FTL_CHECK_FAILED && result.findings) {
        str rest = str_from(result.findings);
        for (int i = 0; i < 3 && rest.length; i++) {
            if (i) text_add_z(detail, "; ");
            text_add(detail, str_trim(str_cut(&rest, '\n')));
        }
    }
    w->last = (ftl_emulation){.instructions = result.instructions,
                              .wavefronts = result.wavefronts,
                              .least_wavefronts = result.least_wavefronts};
    ftl_emulation_done(&result);
    return status;
}

static void on_progress(kernel_work *w, const verify_progress *progress) {
    w->watch->beats++;
    w->watch->seconds_left = progress->seconds_left > 0 ? progress->seconds_left : 0;
    if (progress->done >= progress->total) return;
    snprintf(w->watch->doing, sizeof w->watch->doing, "%s, case %d of %d", w->stage,
             (int)progress->done + 1, (int)progress->total);
}

/* Listens to the cases, and ends them after the first that fails: one is enough to tell. */
typedef struct listener {
    kernel_work *w;
    verify_result first;
    volatile sig_atomic_t stop;
} listener;

static void on_result(void *user, const verify_result *result) {
    listener *l = user;
    l->w->watch->beats++;
    judge_keep_failure(&l->first, result);
    if (result->verdict == VERIFY_FAILED) l->stop = 1;
}

static void progress_to_work(void *user, const verify_progress *progress) {
    listener *l = user;
    on_progress(l->w, progress);
    if (climb_is_stopped(l->w->c)) l->stop = 1;
}

/* Runs a trial on a runner and compares it with the sketch. NULL when it is right; else what is
 * wrong, for who wrote the text.
 */
static const char *compare_trial(kernel_work *w, trial *t, const verify_runner *runner) {
    static const double TOLERANCE = 3e-3;
    climb *c = w->c;
    const ftl_plan *plan = w->program->plan;
    trial_machine reference = {.source = &w->program->sketch, .arithmetic = FTL_EXACT};
    trial_machine candidate = {.runner = runner};
    double **got, **want;
    ftl_status status = trial_run(c->context, t, &reference, &c->memory, &want);
    text_buffer detail;
    text_init(&detail, 1 << 16);
    if (!status) status = trial_run_telling(c->context, t, &candidate, &c->memory, &got, &detail);
    const char *wrong = NULL;
    if (status) {
        wrong =
            str_copy_z(&c->memory, str_format(&c->memory, "%s: %s", ftl_context_error(c->context),
                                              detail.length ? detail.data : ""));
    }
    text_done(&detail);
    for (int32_t k = 0; !wrong && k < plan->tensor_count; k++) {
        if (plan->tensors[k].role != FTL_OUTPUT) continue;
        double off = trial_distance(got[k], want[k], trial_count(&t->data.tensors[k]));
        if (off <= TOLERANCE) continue;
        wrong = str_copy_z(
            &c->memory, str_format(&c->memory, "%s differs from the sketch by %.2g (relative rms)",
                                   plan->tensors[k].name, off));
    }
    return wrong;
}

static void report_trial(kernel_work *w, const trial *t, const char *wrong) {
    climb *c = w->c;
    char name[VERIFY_NAME_BYTES];
    verify_case_name(w->program, &t->of, name);
    diag_report(&c->diags, DIAG_KERNEL_WRONG, ((diag_range){0, 0}), copied(c, name),
                copied(c, wrong));
}

/* Programs whose inputs verify does not make up (tables of integers): a few cases of our own. */
static ftl_status compare_trials(kernel_work *w, const verify_runner *runner, uint64_t seed,
                                 bool *is_right) {
    static const int64_t rows[] = {1, 70, 131};
    climb *c = w->c;
    int passed = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t sizes[VERIFY_SIZES_MAX] = {0};
        char why[FTL_WHY_BYTES];
        trial t;
        bool is_there = trial_sizes(w->program->plan, rows[i], 32, &c->memory, sizes) &&
                        trial_make(w->program->plan, sizes, seed + i, &c->memory, &t, why);
        if (!is_there) continue;
        const char *wrong = compare_trial(w, &t, runner);
        passed += !wrong;
        if (!wrong) continue;
        *is_right = false;
        report_trial(w, &t, wrong);
        return FTL_OK;
    }
    set_fact(c, "cases", json_integer(passed));
    if (!passed) climb_skips(c, THINK_RUNG_EMULATE, "no inputs can be made up for this program");
    return FTL_OK;
}

/* Verifies on a runner. False when a case failed, with the finding. */
static ftl_status verify_on_runner(kernel_work *w, const verify_runner *runner, uint64_t seed,
                                   const char *shapes, bool *is_right) {
    climb *c = w->c;
    listener l = {.w = w};
    verify_summary summary;
    text_buffer drawn;
    text_init(&drawn, 4096);
    if (!shapes && !c->task->operator_name)
        trial_shapes(w->program->plan, seed, &c->memory, &drawn);
    if (drawn.length) shapes = str_copy_z(&c->memory, text_str(&drawn));
    text_done(&drawn);
    double seconds = c->task->seconds_most > 0 ? c->task->seconds_most : 10;
    verify_options options = {.shapes = shapes,
                              .more = c->task->more,
                              .seed = seed,
                              .seconds_most = seconds / 100,
                              .stop = &l.stop,
                              .on_result = on_result,
                              .on_progress = progress_to_work,
                              .user = &l};
    ftl_status status = verify_run(c->context, w->program, runner, &options, &summary);
    *is_right = status == FTL_OK;
    if (status == FTL_OK && !summary.passed) return compare_trials(w, runner, seed, is_right);
    if (status == FTL_OK) set_fact(c, "cases", json_integer(summary.passed));
    if (status == FTL_OK) set_fact(c, "relative_rms", json_real(summary.worst_rms));
    if (status == FTL_OK && summary.open)
        climb_skips(c, THINK_RUNG_EMULATE,
                    "most elements of an Output could be compared in no case");
    if (l.first.verdict != VERIFY_FAILED) return status;
    w->is_wrong = l.first.tensor != NULL; /* rather than at fault */
    diag_report(&c->diags, DIAG_KERNEL_WRONG, ((diag_range){0, 0}), copied(c, l.first.name),
                copied(c, l.first.what));
    return FTL_OK;
}

/* What one launch of middling size costs: the measure where there is no GPU. It must be right, too,
 * or a kernel could be idle where it is measured. False, with the finding, when it is not.
 */
static bool count_launch(kernel_work *w) {
    enum { ROWS = 190, COLUMNS = 64 };
    climb *c = w->c;
    int64_t sizes[VERIFY_SIZES_MAX] = {0};
    char why[FTL_WHY_BYTES];
    trial t;
    bool is_there = trial_sizes(w->program->plan, ROWS, COLUMNS, &c->memory, sizes) &&
                    trial_make(w->program->plan, sizes, 1, &c->memory, &t, why);
    if (!is_there) return true;
    verify_runner runner = {.title = "emulator", .launch = emulate, .user = w, .flops_per_s = 1e9};
    w->wants_counts = true;
    doing(w, "counting instructions");
    const char *wrong = compare_trial(w, &t, &runner);
    w->wants_counts = false;
    if (wrong) {
        report_trial(w, &t, wrong);
        return false;
    }
    c->verdict->cost = (double)w->last.instructions + (double)w->last.wavefronts;
    set_fact(c, "instructions", json_integer((json_int_t)w->last.instructions));
    set_fact(c, "wavefronts", json_integer((json_int_t)w->last.wavefronts));
    set_fact(c, "least_wavefronts", json_integer((json_int_t)w->last.least_wavefronts));
    return true;
}

static ftl_status climb_emulator(kernel_work *w, bool *is_right) {
    verify_runner runner = {.title = "emulator", .launch = emulate, .user = w, .flops_per_s = 1e9};
    doing(w, "emulating the kernel");
    ftl_status status =
        verify_on_runner(w, &runner, w->c->task->seed, w->c->task->shapes, is_right);
    if (!status && *is_right) *is_right = count_launch(w);
    return status;
}

/* --- GPU -------------------------------------------------------------------------------------- */

static ftl_status climb_gpu(kernel_work *w, bool *is_right) {
    climb *c = w->c;
    verify_machine *machine = NULL;
    verify_program program = *w->program;
    if (climb_headers(c, w->program)) program.image = &w->image;
    doing(w, "the start of the GPU");
    ftl_status status = ftl_device_use(c->context, c->task->runtime, 0);
    if (!status) {
        status = verify_machine_open(c->context, &program, VERIFY_GPU, c->task->runtime, &machine);
    }
    if (!status) {
        const verify_runner *runner = verify_machine_runner(machine);
        doing(w, "running the kernel on the GPU");
        status = verify_on_runner(w, runner, c->task->seed, c->task->shapes, is_right);
        if (!status && *is_right) {
            doing(w, "timing the kernel");
            *is_right = climb_time(c, &program, runner, w->watch);
        }
        if (!status && *is_right) { /* once more, on other inputs, after it was timed */
            doing(w, "running the kernel on the GPU again");
            status = verify_on_runner(w, runner, c->task->seed + 1000, c->task->shapes, is_right);
        }
    }
    verify_machine_close(machine);
    return status;
}

/* --- why -------------------------------------------------------------------------------------- */

static void explain(climb *c, const ftl_plan *plan, const trial_machine *candidate,
                    const ftl_source *sketch, double seconds) {
    enum { ROWS = 84 }; /* more than a tile of most kernels */
    trial_machine reference = {.source = sketch, .arithmetic = FTL_EXACT};
    footprint_case f = {.plan = plan,
                        .candidate = candidate,
                        .reference = &reference,
                        .rows = ROWS,
                        .tolerance = 3e-3,
                        .seconds_most = seconds};
    text_buffer lines;
    text_init(&lines, 1 << 16);
    footprint_explain(c->context, &f, &c->memory, &lines);
    for (str rest = text_str(&lines); rest.length;) {
        str line = str_copy(&c->memory, str_cut(&rest, '\n'));
        diag_report(&c->diags, DIAG_MEANING_WHERE, ((diag_range){0, 0}), line);
    }
    text_done(&lines);
}

void climb_explain(climb *c, const verify_program *program) {
    trial_machine candidate = {.source = &program->code, .arithmetic = FTL_ROUNDED};
    explain(c, program->plan, &candidate, &program->sketch, 1.5);
}

static void explain_kernel(kernel_work *w) {
    verify_runner runner = {.title = "emulator", .launch = emulate, .user = w, .flops_per_s = 1e9};
    trial_machine candidate = {.runner = &runner};
    explain(w->c, w->program->plan, &candidate, &w->program->sketch, 2);
}

/* --- in the child ----------------------------------------------------------------------------- */

static json_t *report(kernel_work *w, ftl_status status, think_rung rung, bool passed) {
    climb *c = w->c;
    climb_take_own(c);
    return json_pack("{s:i,s:o,s:i,s:b,s:O,s:O,s:f,s:f,s:f}", "status", (int)status, "error",
                     json_from(str_from(ftl_context_error(c->context))), "rung", (int)rung,
                     "passed", passed, "findings", c->verdict->findings, "facts", c->verdict->facts,
                     "cost", c->verdict->cost, "tflops", c->verdict->tflops, "relative",
                     c->verdict->relative);
}

/* Not inlined: its variables are not those of the function that setjmp returns to. */
__attribute__((noinline)) static json_t *climb_all(kernel_work *w) {
    const judge_task *t = w->c->task;
    bool is_right = true;
    doing(w, "compiling");
    ftl_status status = climb_compile(w->c, w->program, &w->image, &w->emulator);
    if (status == FTL_NO_COMPILER) return report(w, FTL_OK, THINK_RUNG_BUILD, true);
    if (status == FTL_COMPILER_FAILED) return report(w, FTL_OK, THINK_RUNG_COMPILE, false);
    if (status == FTL_REJECTED) return report(w, FTL_OK, THINK_RUNG_EMULATE, false);
    think_rung rung = THINK_RUNG_COMPILE;
    if (!status && t->highest >= THINK_RUNG_EMULATE && !t->is_emulated) {
        rung = THINK_RUNG_EMULATE;
        status = climb_emulator(w, &is_right);
        if (!status && w->is_wrong) explain_kernel(w);
    }
    if (!status && is_right && t->highest >= THINK_RUNG_GPU && t->has_gpu) {
        rung = THINK_RUNG_GPU;
        status = climb_gpu(w, &is_right);
    }
    return report(w, status, rung, is_right);
}

static json_t *climb_in_child(void *user, os_watch *watch) {
    kernel_work *w = user;
    w->watch = watch;
    json_t *result;
    jmp_buf exhausted; /* the parent's own is of another process */
    if (setjmp(exhausted)) {
        ftl_context_fail(w->c->context, FTL_NO_MEMORY, "out of memory");
        result = report(w, FTL_NO_MEMORY, THINK_RUNG_COMPILE, false);
    } else {
        w->c->memory.on_exhausted = &exhausted;
        result = climb_all(w);
    }
    ftl_emulator_close(w->emulator);
    ftl_image_done(&w->image);
    return result;
}

/* --- in the parent ---------------------------------------------------------------------------- */

static ftl_status take_report(climb *c, const json_t *report) {
    judge_verdict *v = c->verdict;
    json_decref(v->findings);
    json_decref(v->facts);
    v->findings = json_deep_copy(json_object_get(report, "findings"));
    v->facts = json_deep_copy(json_object_get(report, "facts"));
    v->cost = json_number(report, "cost");
    v->tflops = json_number(report, "tflops");
    v->relative = json_number(report, "relative");
    v->rung = (think_rung)json_integer_value(json_object_get(report, "rung"));
    v->passed = json_is_true(json_object_get(report, "passed"));
    ftl_status status = (ftl_status)json_integer_value(json_object_get(report, "status"));
    if (!status) return FTL_OK;
    return ftl_context_fail(c->context, status, "%s", json_text(report, "error"));
}

static void tell_doing(void *user, const os_watch *watch) {
    const judge_task *t = user;
    t->on_doing(t->user, watch->doing, watch->seconds_left);
}

ftl_status climb_kernel(climb *c, const verify_program *program) {
    const judge_task *t = c->task;
    if (!t->runtime) {
        climb_skips(c, THINK_RUNG_COMPILE, "compiling was not asked for");
        return FTL_OK;
    }
    kernel_work w = {.c = c, .program = program};
    isolate_limits limits = {.silence_s = SILENCE_S,
                             .cpu_s = CPU_S,
                             .memory_bytes = t->has_gpu ? 0 : MEMORY_BYTES,
                             .stop = t->stop,
                             .on_tick = t->on_doing ? tell_doing : NULL,
                             .user = (void *)(uintptr_t)t};
    json_t *result = NULL;
    os_error why;
    isolate_end end = isolate_run(climb_in_child, &w, &limits, &result, &why);
    if (end == ISOLATE_NO_RESULT)
        return ftl_context_fail(c->context, FTL_NO_MEMORY, "%s", why.text);
    if (end == ISOLATE_DONE) {
        ftl_status status = take_report(c, result);
        json_decref(result);
        return status;
    }
    if (climb_is_stopped(c)) return ftl_context_fail(c->context, FTL_STOPPED, "stopped");
    diag_report(&c->diags, DIAG_KERNEL_STOPPED, ((diag_range){0, 0}), copied(c, why.text));
    climb_take_own(c);
    return climb_fails(c, THINK_RUNG_EMULATE);
}
