#include "cli/machine.h"

#include "flashtl/execute.h"

#include <string.h>

enum { PLAN_BYTES_MAX = 16 << 20 };

int machine_read_on(cli *c, const cli_request *r, verify_on *on) {
    const char *wanted = c->options.on;
    if (!wanted) wanted = r->options.gpu ? "emulator" : "interpreter";
    *on = strcmp(wanted, "interpreter") == 0 ? VERIFY_INTERPRETER
          : strcmp(wanted, "emulator") == 0  ? VERIFY_EMULATOR
                                             : VERIFY_GPU;
    if (*on == VERIFY_GPU && strcmp(wanted, "gpu") != 0) {
        return cli_say(EXIT_USAGE, "'--on' is interpreter, emulator or gpu; found '%s'", wanted);
    }
    return cli_refuse_many_gpus(c);
}

static bool merge_plans(machine_program *made) {
    jmp_buf exhausted;
    arena_init(&made->memory, PLAN_BYTES_MAX);
    if (setjmp(exhausted)) return false;
    made->memory.on_exhausted = &exhausted;
    made->plan =
        verify_merge_plans(made->product->kernels, made->product->kernel_count, &made->memory);
    made->memory.on_exhausted = NULL;
    return true;
}

int machine_make(cli *c, const cli_request *r, verify_on on, machine_program *out) {
    *out = (machine_program){.code = r->source};
    ftl_type dtype = r->options.dtype ? r->options.dtype : FTL_F16;
    bool is_built = on != VERIFY_INTERPRETER || r->options.gpu;
    ftl_status status = is_built ? FTL_OK : ftl_check_pins(c->context, &r->source, &r->options);
    if (!status) {
        status = is_built ? ftl_build(c->context, &r->source, &r->options, &out->product)
                          : ftl_parameters(c->context, &r->source, dtype, &out->parameters);
    }
    if (status) return cli_finish(c, status);
    if (is_built) {
        if (!merge_plans(out)) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    } else {
        out->plan = out->parameters;
    }
    if (is_built) {
        out->code = (ftl_source){r->source.name, out->product->code, strlen(out->product->code)};
    }
    return EXIT_DONE;
}

void machine_done(machine_program *made) {
    ftl_product_free(made->product);
    ftl_plan_free(made->parameters);
    if (made->memory.limit_bytes) arena_done(&made->memory);
    *made = (machine_program){0};
}

verify_program machine_verify_program(const machine_program *made, const cli_request *r) {
    bool was_sketch = !made->product || made->product->sketch;
    return (verify_program){.operator_name = *r->family ? r->family : NULL,
                            .settings = r->settings,
                            .setting_count = r->setting_count,
                            .pins = r->pins,
                            .pin_count = r->options.pin_count,
                            .sketch = was_sketch ? r->source : (ftl_source){0},
                            .code = made->code,
                            .plan = made->plan,
                            .kernels = made->product ? made->product->kernels : NULL,
                            .kernel_count = made->product ? made->product->kernel_count : 0};
}
