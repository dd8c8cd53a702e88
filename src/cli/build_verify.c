#include "cli/build_verify.h"

#include "cli/machine.h"

#include <string.h>

static const double SECONDS_A_CASE = 2;

/* A shipped sketch without decisions of the user's own: the tests verify these for every GPU. */
static bool is_shipped(const cli_request *r) {
    for (int i = 0; i < r->options.pin_count; i++) {
        const char *name = r->pins[i].name;
        if (strcmp(name, "d") != 0 && strcmp(name, "dv") != 0) return false;
    }
    return *r->family != 0 && !r->measured.length;
}

static void keep_failure(void *user, const verify_result *result) {
    verify_result *first = user;
    if (result->verdict == VERIFY_FAILED && first->verdict != VERIFY_FAILED) *first = *result;
}

static ftl_status open_machine(cli *c, const verify_program *program, ftl_runtime *runtime,
                               verify_machine **machine) {
    ftl_status status = verify_machine_open(c->context, program, VERIFY_EMULATOR, runtime, machine);
    if (status != FTL_NO_COMPILER) return status;
    return verify_machine_open(c->context, program, VERIFY_INTERPRETER, NULL, machine);
}

static int run(cli *c, const verify_program *program, ftl_runtime *runtime) {
    verify_machine *machine = NULL;
    verify_summary summary = {0};
    verify_result first = {.verdict = VERIFY_PASSED};
    verify_options options = {.seed = 1,
                              .seconds_most = SECONDS_A_CASE,
                              .stop = cli_interrupted(),
                              .on_result = keep_failure,
                              .user = &first};
    ftl_status status = open_machine(c, program, runtime, &machine);
    const char *const shapes[] = {"decisive", "small"}; /* of the first there may be none */
    for (int i = 0; !status && i < 2 && !summary.compared; i++) {
        options.shapes = shapes[i];
        status =
            verify_run(c->context, program, verify_machine_runner(machine), &options, &summary);
        if (status == FTL_INVALID_ARGUMENT && i == 0) status = FTL_OK;
    }
    verify_machine_close(machine);
    const char *kernel = program->plan->kernel;
    if (first.verdict == VERIFY_FAILED) {
        return cli_say(EXIT_REJECTED, "kernel '%s' for %s is wrong on %s: %s", kernel,
                       program->plan->gpu, first.name, first.what);
    }
    if (!status && !summary.compared) {
        cli_say(0, "kernel '%s' for %s was not verified: no inputs could be made up for it", kernel,
                program->plan->gpu);
    }
    return cli_finish(c, status);
}

int build_verify(cli *c, const cli_request *r, ftl_runtime *runtime, ftl_product *product) {
    enum { PLAN_BYTES_MAX = 16 << 20 };
    if (c->options.no_verify || is_shipped(r) || !product->kernel_count) return EXIT_DONE;
    machine_program made = {.product = product,
                            .code = {r->source.name, product->code, strlen(product->code)}};
    arena_init(&made.memory, PLAN_BYTES_MAX);
    made.plan = verify_merge_plans(product->kernels, product->kernel_count, &made.memory);
    verify_program program = machine_verify_program(&made, r);
    int exit_status = run(c, &program, runtime);
    arena_done(&made.memory);
    return exit_status;
}
