/* A kernel of ours in the place of a rival. */
#include "bench/set.h"

#include <string.h>

static ftl_status open_kernel(void *user, ftl_context *context, ftl_runtime *runtime,
                              const bench_case *what, const bench_memory *memory) {
    bench_kernel *k = user;
    k->what = *what;
    k->memory = *memory;
    return k->module ? FTL_OK : bench_load(context, runtime, k->program, &k->module);
}

static ftl_status launch_kernel(void *user, ftl_context *context, int32_t copy) {
    const bench_kernel *k = user;
    const ftl_plan *theirs = k->what.program->text.plan, *plan = k->program->text.plan;
    ftl_tensor tensors[SET_TENSORS_MAX];
    ftl_scalar scalars[SET_TENSORS_MAX];
    double values[SET_TENSORS_MAX] = {0};
    for (int32_t i = 0; i < plan->scalar_count && i < SET_TENSORS_MAX; i++) {
        values[i] = set_scalar(&k->what, plan->scalars[i].name);
        scalars[i] = (ftl_scalar){plan->scalars[i].name, values[i]};
    }
    for (int32_t i = 0; i < theirs->tensor_count; i++) {
        set_tensor t;
        if (!set_lay_out(theirs, &theirs->tensors[i], k->what.sizes, values, &t)) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "tensor %s has no size",
                                    theirs->tensors[i].name);
        }
        tensors[i] = (ftl_tensor){.name = t.of->name,
                                  .address = k->memory.tensors[copy * k->memory.tensor_count + i],
                                  .type = t.of->type,
                                  .axis_count = t.of->axis_count};
        memcpy(tensors[i].extents, t.extents, sizeof t.extents);
        memcpy(tensors[i].strides, t.strides, sizeof t.strides);
    }
    ftl_arguments arguments = {tensors, theirs->tensor_count, scalars, plan->scalar_count};
    return ftl_module_launch(context, k->module, &arguments, NULL);
}

static void close_kernel(void *user) {
    (void)user; /* the module stays for the next case */
}

bench_rival bench_kernel_rival(bench_kernel *kernel, const char *name) {
    return (bench_rival){.name = name,
                         .user = kernel,
                         .open = open_kernel,
                         .launch = launch_kernel,
                         .close = close_kernel};
}

void bench_kernel_done(bench_kernel *kernel) {
    ftl_module_free(kernel->module);
    kernel->module = NULL;
}
