#include "verify/built.h"

#include <stdio.h>
#include <string.h>

enum { PLAN_BYTES_MAX = 16 << 20 };
static const double SECONDS_A_CASE = 2;

static ftl_source source_of(const char *name, const char *text) {
    return (ftl_source){name, text, text ? strlen(text) : 0};
}

verify_program verify_program_of(const ftl_product *product, const char *name) {
    return (verify_program){.sketch = source_of(name, product->sketch),
                            .code = source_of(name, product->code),
                            .kernels = product->kernels,
                            .kernel_count = product->kernel_count};
}

static void keep_failure(void *user, const verify_result *result) {
    verify_result *first = user;
    if (result->verdict == VERIFY_FAILED && first->verdict != VERIFY_FAILED) *first = *result;
}

static void report(const ftl_plan *plan, const verify_result *first, const verify_summary *summary,
                   verify_built *out) {
    *out = (verify_built){.finding = VERIFY_RIGHT};
    if (first->verdict == VERIFY_FAILED) {
        out->finding = VERIFY_WRONG;
        snprintf(out->what, sizeof out->what, "kernel '%s' for %s is wrong on %s: %s", plan->kernel,
                 plan->gpu, first->name, first->what);
    } else if (summary->open) {
        out->finding = VERIFY_OPEN;
        snprintf(
            out->what, sizeof out->what,
            "kernel '%s' for %s was not verified: no case could compare most elements of '%s', "
            "as they, or values on the way to them, may be beyond their types, or nothing writes "
            "them",
            plan->kernel, plan->gpu, summary->open);
    } else if (!summary->compared) {
        out->finding = VERIFY_OPEN;
        snprintf(out->what, sizeof out->what,
                 "kernel '%s' for %s was not verified: no inputs could be made up for it",
                 plan->kernel, plan->gpu);
    }
}

static ftl_status run(ftl_context *context, const verify_program *program, ftl_runtime *runtime,
                      const volatile sig_atomic_t *stop, verify_built *out) {
    verify_machine *machine = NULL;
    verify_summary summary = {0};
    verify_result first = {.verdict = VERIFY_PASSED};
    verify_options options = {.seed = 1,
                              .seconds_most = SECONDS_A_CASE,
                              .stop = stop,
                              .on_result = keep_failure,
                              .user = &first};
    ftl_status status = verify_machine_open(context, program, VERIFY_EMULATOR, runtime, &machine);
    if (status == FTL_NO_COMPILER)
        status = verify_machine_open(context, program, VERIFY_INTERPRETER, NULL, &machine);
    const char *const shapes[] = {"decisive", "small"}; /* of the first there may be none */
    for (int i = 0; !status && i < 2 && (!summary.compared || summary.open); i++) {
        options.shapes = shapes[i];
        status = verify_run(context, program, verify_machine_runner(machine), &options, &summary);
        if (status == FTL_INVALID_ARGUMENT && i == 0) status = FTL_OK;
    }
    verify_machine_close(machine);
    report(program->plan, &first, &summary, out);
    return out->finding == VERIFY_WRONG ? FTL_OK : status;
}

ftl_status verify_product(ftl_context *context, const verify_program *program, ftl_runtime *runtime,
                          const volatile sig_atomic_t *stop, verify_built *out) {
    arena memory;
    jmp_buf exhausted;
    verify_program whole = *program;
    *out = (verify_built){.finding = VERIFY_OPEN};
    arena_init(&memory, PLAN_BYTES_MAX);
    if (setjmp(exhausted)) {
        arena_done(&memory);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    memory.on_exhausted = &exhausted;
    whole.plan = verify_merge_plans(program->kernels, program->kernel_count, &memory);
    memory.on_exhausted = NULL;
    ftl_status status = run(context, &whole, runtime, stop, out);
    arena_done(&memory);
    return status;
}
