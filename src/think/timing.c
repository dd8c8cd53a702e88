/* How fast a kernel is on the GPU. What is timed must be right, too, or a kernel could leave out
 * the work where only the clock looks: each timed launch has inputs of its own and poisoned
 * Outputs, and is compared with the kernel that the built-in agent makes of the sketch, on the same
 * inputs. The two take turns, so that their ratio holds whatever the GPU's clocks do meanwhile.
 */
#include "think/judge_internal.h"
#include "verify/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMES = 15, ROWS = 2048, COLUMNS = 64 };

typedef struct timing {
    climb *c;
    const verify_program *program;
    const verify_runner *runner;
    ftl_product *own;      /* the built-in agent's kernel; NULL: it is what is timed */
    verify_machine *rival; /* where that one runs */
    double best_ms, rival_best_ms;
    int64_t sizes[VERIFY_SIZES_MAX];
} timing;

/* "2x4x2048": for verify_cases and for people. */
static void name_shape(const timing *t, char shape[256]) {
    size_t length = 0;
    shape[0] = 0;
    for (int32_t i = 0; i < t->program->plan->size_count && length < 256; i++) {
        length +=
            (size_t)snprintf(shape + length, 256 - length, "%s%" PRId64, i ? "x" : "", t->sizes[i]);
    }
}

/* A kernel of a text that only our own agent has touched is compared with nothing. */
static ftl_status open_rival(timing *t) {
    climb *c = t->c;
    bool is_own = c->verdict->text && t->program->sketch.text == c->verdict->text;
    if (is_own) return FTL_OK;
    ftl_status status = ftl_build(c->context, &t->program->sketch, c->task->options, &t->own);
    if (status || t->own->kernel_count != 1) return status ? status : FTL_REJECTED;
    verify_program *program = arena_new(&c->memory, verify_program);
    *program = (verify_program){.sketch = t->program->sketch,
                                .code = {"code", t->own->code, strlen(t->own->code)},
                                .plan = t->own->kernels[0].plan,
                                .cuda = t->own->kernels[0].cuda};
    return verify_machine_open(c->context, program, VERIFY_GPU, c->task->runtime, &t->rival);
}

/* A runner that keeps the least time of its launches. */
typedef struct stopwatch {
    const verify_runner *runner;
    double *best_ms;
} stopwatch;

static ftl_status launch(void *user, ftl_context *context, const ftl_arguments *arguments,
                         double *milliseconds, text_buffer *detail) {
    const stopwatch *w = user;
    ftl_status status =
        w->runner->launch(w->runner->user, context, arguments, milliseconds, detail);
    bool is_best =
        !status && *milliseconds > 0 && (*w->best_ms <= 0 || *milliseconds < *w->best_ms);
    if (is_best) *w->best_ms = *milliseconds;
    return status;
}

static ftl_status run_timed(timing *t, const verify_runner *runner, double *best_ms, trial *made,
                            double ***values) {
    stopwatch watch = {runner, best_ms};
    verify_runner timed = *runner;
    timed.launch = launch, timed.user = &watch;
    trial_machine machine = {.runner = &timed};
    return trial_run(t->c->context, made, &machine, &t->c->memory, values);
}

static double worst_distance(const timing *t, const trial *made, double **got, double **want,
                             double *bound) {
    const ftl_plan *plan = t->program->plan;
    double worst = 0;
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].role != FTL_OUTPUT) continue;
        double off = trial_distance(got[i], want[i], trial_count(&made->data.tensors[i]));
        double allowed = 2 * judge_tolerance(plan, &plan->tensors[i]); /* both are rounded */
        if (off / allowed <= worst) continue;
        worst = off / allowed;
        *bound = allowed;
    }
    return worst;
}

/* One timed launch. False when its results are wrong, or it failed. */
static bool time_one(timing *t, uint64_t seed) {
    climb *c = t->c;
    trial made;
    char why[FTL_WHY_BYTES], shape[256];
    double **got, **want, bound = 0;
    if (!trial_make(t->program->plan, t->sizes, seed, &c->memory, &made, why)) return true;
    ftl_status status = run_timed(t, t->runner, &t->best_ms, &made, &got);
    double off = 0;
    if (!status && t->rival) {
        const verify_runner *rival = verify_machine_runner(t->rival);
        status = run_timed(t, rival, &t->rival_best_ms, &made, &want);
        if (!status) off = worst_distance(t, &made, got, want, &bound);
    }
    if (!status && off <= 1) return true;
    name_shape(t, shape);
    str what = status ? str_from(ftl_context_error(c->context))
                      : str_format(&c->memory,
                                   "while it is timed, it differs from the sketch by %.3g "
                                   "(relative rms), at most %.3g allowed",
                                   off * bound, bound);
    diag_report(&c->diags, DIAG_KERNEL_WRONG, ((diag_range){0, 0}),
                str_copy(&c->memory, str_from(shape)), str_copy(&c->memory, what));
    return false;
}

static double flops_of(const timing *t, const char *shape) {
    const verify_case *cases;
    int32_t count = 0;
    char why[FTL_WHY_BYTES];
    bool is_there = verify_cases(t->program, &(verify_list){.shapes = shape}, 0, &t->c->memory,
                                 &cases, &count, why) &&
                    count > 0;
    return is_there ? cases[0].flops : 0;
}

static void tell_no_speed(climb *c, const char *why) {
    json_object_set_new(c->verdict->facts, "untimed", json_string(why));
}

/* The GPU that is here, whatever the kernel was made for. */
static bool describe_here(const climb *c, ftl_gpu *here) {
    ftl_device device;
    ftl_status status = ftl_device_describe(c->context, c->task->runtime, 0, &device);
    if (!status) {
        status = ftl_gpu_for_device(c->context, device.name, 10 * device.major + device.minor,
                                    device.multiprocessors, here);
    }
    return status == FTL_OK;
}

static void take_speed(const timing *t) {
    climb *c = t->c;
    char shape[256];
    name_shape(t, shape);
    double tflops = t->best_ms > 0 ? flops_of(t, shape) / t->best_ms / 1e9 : 0;
    ftl_gpu here = FTL_GPU_INIT;
    if (!(tflops > 0) || !describe_here(c, &here)) return;
    if (tflops > here.tensor_tflops) {
        tell_no_speed(c, "the clock says more than this GPU can do");
        return;
    }
    c->verdict->tflops = tflops;
    c->verdict->relative = t->rival_best_ms > 0 ? t->rival_best_ms / t->best_ms : 1;
    json_object_set_new(c->verdict->facts, "relative", json_real(c->verdict->relative));
    json_object_set_new(c->verdict->facts, "tflops", json_real(tflops));
    json_object_set_new(c->verdict->facts, "mma_tflops", json_real(here.mma_tflops));
    json_object_set_new(c->verdict->facts, "ms_a_launch", json_real(t->best_ms));
    json_object_set_new(c->verdict->facts, "shape", json_string(shape));
}

static bool time_all(timing *t, os_watch *watch) {
    climb *c = t->c;
    if (!trial_sizes(t->program->plan, ROWS, COLUMNS, &c->memory, t->sizes)) return true;
    int times = c->task->timed_launches > 0 ? c->task->timed_launches : TIMES;
    for (int i = 0; i < times; i++) {
        arena_mark mark = arena_here(&c->memory);
        watch->beats++;
        bool is_right = time_one(t, c->task->seed + 100 + (uint64_t)i);
        if (!is_right) return false; /* the finding's words stay */
        arena_reset(&c->memory, mark);
    }
    take_speed(t);
    return true;
}

bool climb_time(climb *c, const verify_program *program, const verify_runner *runner,
                os_watch *watch) {
    timing t = {.c = c, .program = program, .runner = runner};
    bool is_right = true;
    /* without something to compare with, no speed is believed */
    if (open_rival(&t) == FTL_OK) is_right = time_all(&t, watch);
    else tell_no_speed(c, "the built-in agent has no kernel to compare long sequences with");
    verify_machine_close(t.rival);
    ftl_product_free(t.own);
    return is_right;
}
