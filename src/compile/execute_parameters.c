/* The parameters of a program that no kernel was made of: a plan without entry and grid. */
#include "base/needs.h"
#include "compile/compile.h"
#include "flashtl/execute.h"
#include "plan/plan.h"
#include "translate/translate.h"

#include <stdlib.h>
#include <string.h>

typedef struct parameters_arguments {
    const ftl_source *source;
    ftl_type dtype;
    ftl_plan *plan; /* in the context's memory */
} parameters_arguments;

typedef struct parameters {
    arena *memory;
    ftl_type dtype;
    LIST(ftl_plan_tensor) tensors;
    LIST(ftl_plan_size) sizes;
    LIST(ftl_plan_scalar) scalars;
    translate_conditions conditions;
    ftl_plan *plan;
} parameters;

/* Names that several kernels of a program share stand once. */
static int find_size(const parameters *p, str name) {
    for (int i = 0; i < p->sizes.count; i++) {
        if (str_is(name, p->sizes.items[i].name)) return i;
    }
    return -1;
}

static int32_t take(parameters *p, int32_t bytes) {
    int32_t offset = (p->plan->parameter_bytes + bytes - 1) / bytes * bytes;
    p->plan->parameter_bytes = offset + bytes;
    return offset;
}

static void add_sizes(parameters *p, const tl_kernel *kernel) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_symbol *s = kernel->symbols[i];
        if (s->kind != TL_SYMBOL_SIZE || find_size(p, s->name) >= 0) continue;
        ftl_plan_size size = {.name = str_copy_z(p->memory, s->name), .offset = take(p, 4)};
        list_push(p->memory, &p->sizes, size);
    }
    p->plan->sizes = p->sizes.items, p->plan->size_count = p->sizes.count;
}

static void add_scalars(parameters *p, const tl_kernel *kernel) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        if (!tl_is_parameter(s) || s->parameter.axes.count) continue;
        bool is_known = false;
        for (int i = 0; i < p->scalars.count; i++)
            is_known |= str_is(s->parameter.name, p->scalars.items[i].name);
        if (is_known) continue;
        bool is_integer = s->parameter.type == TL_I32;
        ftl_plan_scalar scalar = {.name = str_copy_z(p->memory, s->parameter.name),
                                  .type = is_integer ? FTL_I32 : FTL_F32,
                                  .offset = take(p, 4)};
        list_push(p->memory, &p->scalars, scalar);
    }
    p->plan->scalars = p->scalars.items, p->plan->scalar_count = p->scalars.count;
}

static void add_tensor(parameters *p, tl_kernel *kernel, const tl_statement *s) {
    const tl_axes *axes = &s->parameter.axes;
    ftl_plan_tensor tensor = {
        .name = str_copy_z(p->memory, s->parameter.name),
        .type = s->parameter.type == TL_OPEN ? p->dtype : translate_type(s->parameter.type),
        .role = s->kind == TL_OUTPUT ? FTL_OUTPUT : FTL_INPUT,
        .axis_count = axes->count};
    tensor.is_sum = s->kind == TL_OUTPUT && tl_is_sum(kernel, s->parameter.symbol);
    tensor.is_kept = s->parameter.is_kept;
    tensor.alignment_bytes = (int32_t)ftl_type_bytes(tensor.type);
    tensor.pointer_offset = take(p, 8);
    for (int i = 0; i < axes->count && i < FTL_AXES_MAX; i++) {
        const tl_expr *extent = axes->items[i].extent;
        bool is_size =
            extent->kind == TL_NAME && extent->symbol && extent->symbol->kind == TL_SYMBOL_SIZE;
        ftl_plan_axis *axis = &tensor.axes[i];
        str name = tl_axis_index(axes, i);
        if (!name.length) name = tl_expr_text(p->memory, extent);
        axis->name = str_copy_z(p->memory, name);
        axis->size = is_size ? find_size(p, extent->symbol->name) : -1;
        axis->stride_offset = take(p, 8); /* any stride will do */
        translate_formula(extent, p->plan, p->memory, &axis->extent);
    }
    bool is_table = tensor.type == FTL_I32 && tensor.role == FTL_INPUT;
    if (is_table) translate_table(kernel, s->parameter.symbol, p->plan, p->memory, &tensor);
    list_push(p->memory, &p->tensors, tensor);
}

static void add_kernel(parameters *p, tl_kernel *kernel) {
    add_sizes(p, kernel);
    add_scalars(p, kernel);
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        if (!tl_is_parameter(s)) continue;
        bool is_workspace = s->parameter.symbol && s->parameter.symbol->is_workspace;
        bool is_new = s->parameter.axes.count > 0;
        for (int i = 0; i < p->tensors.count; i++)
            is_new &= !str_is(s->parameter.name, p->tensors.items[i].name);
        if (is_new && !is_workspace) add_tensor(p, kernel, s);
        ftl_formula condition;
        if (!s->parameter.condition) continue;
        if (!translate_formula(s->parameter.condition, p->plan, p->memory, &condition)) continue;
        list_push(p->memory, &p->conditions, condition);
    }
    translate_reach_conditions(kernel, p->plan, p->memory, &p->conditions);
    translate_length_conditions(kernel, p->plan, p->memory, &p->conditions);
}

static ftl_status collect(ftl_context *context, void *arguments) {
    parameters_arguments *a = arguments;
    tl_program *program = compile_bind(context, a->source);
    if (!program) return compile_verdict(context);
    arena *memory = &context->memory;
    parameters *p = arena_new(memory, parameters);
    *p = (parameters){.memory = memory, .dtype = a->dtype ? a->dtype : FTL_F16};
    p->plan = arena_new(memory, ftl_plan);
    p->plan->kernel = str_copy_z(memory, program->first->name);
    p->plan->entry = p->plan->target = "none";
    p->plan->gpu = "none";
    p->plan->threads = p->plan->blocks_per_sm = 1;
    for (tl_kernel *k = program->first; k; k = k->next) add_kernel(p, k);
    p->plan->tensors = p->tensors.items, p->plan->tensor_count = p->tensors.count;
    p->plan->conditions = p->conditions.items, p->plan->condition_count = p->conditions.count;
    a->plan = p->plan;
    return compile_verdict(context);
}

ftl_status ftl_parameters(ftl_context *context, const ftl_source *source, ftl_type dtype,
                          ftl_plan **out) {
    NEEDS_RESULT(out);
    if (!source || !source->text) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the source is missing");
    }
    if (!ftl_type_bytes(dtype)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "there is no type of the number %d",
                                (int)dtype);
    }
    parameters_arguments a = {.source = source, .dtype = dtype};
    ftl_status status = compile_guarded(context, collect, &a);
    if (status) return status;
    char why[FTL_WHY_BYTES];
    if (!ftl_plan_check(a.plan, why)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the program is more than a launch takes: %s", why);
    }
    char *json = ftl_plan_write(a.plan); /* a copy with a life of its own */
    if (!json) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    status = plan_read_json(json, strlen(json), why, out);
    free(json);
    return status ? ftl_context_fail(context, status, "%s", why) : FTL_OK;
}
