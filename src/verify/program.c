/* Programs of several kernels: their parameters as one plan, and each kernel's share of the
 * arguments. */
#include "verify/program.h"
#include "verify/plan_find.h"

#include <string.h>

enum { ITEMS_MAX = 64 }; /* of a list of a plan */

typedef struct merging {
    arena *memory;
    ftl_plan *plan;
    ftl_plan_tensor *tensors;
    ftl_plan_size *sizes;
    ftl_plan_scalar *scalars;
    ftl_formula *walks, *conditions;
    ftl_plan_tile *tiles;
    const ftl_plan *from; /* being added */
} merging;

/* The same formula over the merged sizes and scalars. */
static ftl_formula moved(const merging *m, const ftl_formula *formula) {
    ftl_formula_step *steps = arena_array(m->memory, ftl_formula_step, formula->step_count + 1);
    for (int32_t i = 0; i < formula->step_count; i++) {
        steps[i] = formula->steps[i];
        if (steps[i].op == FTL_PUSH_SIZE)
            steps[i].index = plan_find_size(m->plan, m->from->sizes[steps[i].index].name);
        if (steps[i].op == FTL_PUSH_SCALAR)
            steps[i].index = plan_find_scalar(m->plan, m->from->scalars[steps[i].index].name);
    }
    return (ftl_formula){formula->text, steps, formula->step_count};
}

/* What a kernel demands of a tensor that another one has, too. */
static void tighten(const merging *m, ftl_plan_tensor *all, const ftl_plan_tensor *one) {
    if (one->alignment_bytes > all->alignment_bytes) all->alignment_bytes = one->alignment_bytes;
    for (int32_t i = 0; i < all->axis_count && i < one->axis_count; i++) {
        if (one->axes[i].stride_offset < 0) all->axes[i].stride_offset = -1;
    }
    if (all->use == FTL_TABLE_FREE && one->use != FTL_TABLE_FREE) {
        all->use = one->use, all->limit = moved(m, &one->limit);
    }
    all->is_distinct |= one->is_distinct;
}

static void add_tensor(merging *m, const ftl_plan_tensor *tensor) {
    int32_t known = plan_find_tensor(m->plan, tensor->name);
    if (known >= 0) {
        tighten(m, &m->tensors[known], tensor);
        return;
    }
    if (m->plan->tensor_count == ITEMS_MAX) return;
    ftl_plan_tensor *to = &m->tensors[m->plan->tensor_count++];
    *to = *tensor;
    to->limit = moved(m, &tensor->limit);
    for (int32_t i = 0; i < to->axis_count; i++) {
        to->axes[i].extent = moved(m, &tensor->axes[i].extent);
        int32_t size = tensor->axes[i].size;
        if (size >= 0) to->axes[i].size = plan_find_size(m->plan, m->from->sizes[size].name);
    }
}

static void add_kernel(merging *m, const ftl_plan *from) {
    ftl_plan *plan = m->plan;
    m->from = from;
    for (int32_t i = 0; i < from->size_count; i++) {
        bool is_new =
            plan_find_size(m->plan, from->sizes[i].name) < 0 && plan->size_count < ITEMS_MAX;
        if (is_new) m->sizes[plan->size_count++] = from->sizes[i];
    }
    for (int32_t i = 0; i < from->scalar_count; i++) {
        bool is_new =
            plan_find_scalar(m->plan, from->scalars[i].name) < 0 && plan->scalar_count < ITEMS_MAX;
        if (is_new) m->scalars[plan->scalar_count++] = from->scalars[i];
    }
    for (int32_t i = 0; i < from->tensor_count; i++) add_tensor(m, &from->tensors[i]);
    for (int32_t i = 0; i < from->walk_count && plan->walk_count < ITEMS_MAX; i++) {
        m->walks[plan->walk_count++] = moved(m, &from->walks[i]);
    }
    for (int32_t i = 0; i < from->condition_count && plan->condition_count < ITEMS_MAX; i++) {
        m->conditions[plan->condition_count++] = moved(m, &from->conditions[i]);
    }
    for (int32_t i = 0; i < from->tile_count && plan->tile_count < ITEMS_MAX; i++) {
        m->tiles[plan->tile_count++] = from->tiles[i];
    }
}

const ftl_plan *verify_merge_plans(const ftl_kernel *kernels, int32_t count, arena *memory) {
    if (count == 1) return kernels[0].plan;
    merging m = {.memory = memory,
                 .plan = arena_new(memory, ftl_plan),
                 .tensors = arena_array(memory, ftl_plan_tensor, ITEMS_MAX),
                 .sizes = arena_array(memory, ftl_plan_size, ITEMS_MAX),
                 .scalars = arena_array(memory, ftl_plan_scalar, ITEMS_MAX),
                 .walks = arena_array(memory, ftl_formula, ITEMS_MAX),
                 .conditions = arena_array(memory, ftl_formula, ITEMS_MAX),
                 .tiles = arena_array(memory, ftl_plan_tile, ITEMS_MAX)};
    *m.plan = *kernels[0].plan;
    m.plan->tensor_count = m.plan->size_count = m.plan->scalar_count = 0;
    m.plan->tensors = m.tensors, m.plan->sizes = m.sizes, m.plan->scalars = m.scalars;
    m.plan->walk_count = m.plan->condition_count = m.plan->tile_count = 0;
    m.plan->derived_count = m.plan->map_count = 0; /* of a launch, which it is not for */
    for (int32_t i = 0; i < count; i++) add_kernel(&m, kernels[i].plan);
    m.plan->walks = m.walks, m.plan->conditions = m.conditions, m.plan->tiles = m.tiles;
    return m.plan;
}

str program_text(const verify_program *program) {
    const ftl_source *source = program->sketch.text ? &program->sketch : &program->code;
    return (str){source->text, source->text ? source->length : 0};
}

int32_t program_kernel_count(const verify_program *program) {
    return program->kernels ? program->kernel_count : program->cuda ? 1 : 0;
}

ftl_kernel program_kernel(const verify_program *program, int32_t i) {
    if (program->kernels) return program->kernels[i];
    return (ftl_kernel){(char *)(uintptr_t)program->cuda, (ftl_plan *)(uintptr_t)program->plan};
}

/* A length that a tensor of the kernel shows is not given by value. */
ftl_arguments program_arguments(const ftl_plan *plan, const ftl_arguments *all, ftl_tensor *tensors,
                                ftl_scalar *scalars) {
    ftl_arguments own = {.tensors = tensors, .scalars = scalars};
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < all->tensor_count; i++) {
            if (strcmp(all->tensors[i].name, plan->tensors[t].name) != 0) continue;
            tensors[own.tensor_count++] = all->tensors[i];
        }
    }
    for (int32_t i = 0; i < all->scalar_count; i++) {
        const char *name = all->scalars[i].name;
        /* A length that a tensor of the kernel shows is not given by value. */
        if (plan_find_scalar(plan, name) >= 0 || plan_find_size(plan, name) >= 0)
            scalars[own.scalar_count++] = all->scalars[i];
    }
    return own;
}
