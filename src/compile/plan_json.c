/* Plans to JSON. */
#include "compile/plan_words.h"

#include <jansson.h>

static void set(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, value);
}

static json_t *formula_to_json(const ftl_formula *formula) {
    json_t *steps = json_array();
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        json_t *item = json_array();
        json_array_append_new(item, json_string(plan_word_name(plan_operators, (int)step->op)));
        if (step->op == FTL_PUSH_INTEGER) json_array_append_new(item, json_integer(step->integer));
        if (step->op == FTL_PUSH_NUMBER) json_array_append_new(item, json_real(step->number));
        if (step->op == FTL_PUSH_SIZE || step->op == FTL_PUSH_SCALAR) {
            json_array_append_new(item, json_integer(step->index));
        }
        json_array_append_new(steps, item);
    }
    json_t *object = json_object();
    set(object, "text", json_string(formula->text ? formula->text : ""));
    set(object, "steps", steps);
    return object;
}

static json_t *formulas_to_json(const ftl_formula *formulas, int32_t count) {
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++) {
        json_array_append_new(array, formula_to_json(&formulas[i]));
    }
    return array;
}

static json_t *tensor_to_json(const ftl_plan_tensor *tensor) {
    json_t *object = json_object();
    set(object, "name", json_string(tensor->name));
    set(object, "type", json_string(plan_word_name(plan_types, (int)tensor->type)));
    set(object, "role", json_string(plan_word_name(plan_roles, (int)tensor->role)));
    set(object, "pointer_offset", json_integer(tensor->pointer_offset));
    set(object, "alignment_bytes", json_integer(tensor->alignment_bytes));
    json_t *axes = json_array();
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        json_t *axis = json_object();
        set(axis, "name", json_string(tensor->axes[i].name));
        set(axis, "extent", formula_to_json(&tensor->axes[i].extent));
        set(axis, "size", json_integer(tensor->axes[i].size));
        set(axis, "stride_offset", json_integer(tensor->axes[i].stride_offset));
        set(axis, "is_stride_short", json_boolean(tensor->axes[i].is_stride_short));
        json_array_append_new(axes, axis);
    }
    set(object, "axes", axes);
    if (tensor->use) set(object, "use", json_string(plan_word_name(plan_uses, (int)tensor->use)));
    if (tensor->limit.step_count) set(object, "limit", formula_to_json(&tensor->limit));
    return object;
}

static json_t *sizes_to_json(const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->size_count; i++) {
        json_t *object = json_object();
        set(object, "name", json_string(plan->sizes[i].name));
        set(object, "offset", json_integer(plan->sizes[i].offset));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *scalars_to_json(const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        json_t *object = json_object();
        set(object, "name", json_string(plan->scalars[i].name));
        set(object, "type", json_string(plan_word_name(plan_types, (int)plan->scalars[i].type)));
        set(object, "offset", json_integer(plan->scalars[i].offset));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *tiles_to_json(const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->tile_count; i++) {
        const ftl_plan_tile *tile = &plan->tiles[i];
        json_t *object = json_object();
        set(object, "name", json_string(tile->name));
        set(object, "type", json_string(plan_word_name(plan_types, (int)tile->type)));
        set(object, "offset_bytes", json_integer(tile->offset_bytes));
        set(object, "rows", json_integer(tile->rows));
        set(object, "row_bytes", json_integer(tile->row_bytes));
        set(object, "stages", json_integer(tile->stages));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *derived_to_json(const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        json_t *object = json_object();
        set(object, "name", json_string(d->name));
        set(object, "kind", json_string(plan_word_name(plan_derivations, (int)d->kind)));
        set(object, "formula", formula_to_json(&d->formula));
        set(object, "offset", json_integer(d->offset));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *map_to_json(const ftl_plan_map *map) {
    json_t *object = json_object(), *dimensions = json_array();
    set(object, "name", json_string(map->name));
    set(object, "tensor", json_integer(map->tensor));
    set(object, "offset", json_integer(map->offset));
    set(object, "swizzle_bytes", json_integer(map->swizzle_bytes));
    for (int32_t i = 0; i < map->rank; i++) {
        const ftl_map_dimension *d = &map->dimensions[i];
        json_t *item = json_object();
        set(item, "axis", json_integer(d->axis));
        set(item, "box", json_integer(d->box));
        set(item, "panel", json_integer(d->panel));
        set(item, "is_panel_number", json_integer(d->is_panel_number));
        json_array_append_new(dimensions, item);
    }
    set(object, "dimensions", dimensions);
    return object;
}

/* Only what is not a plain kernel has these. */
static void add_resident(json_t *root, const ftl_plan *plan) {
    if (plan->derived_count) set(root, "derived", derived_to_json(plan));
    if (plan->map_count) {
        json_t *maps = json_array();
        for (int32_t i = 0; i < plan->map_count; i++)
            json_array_append_new(maps, map_to_json(&plan->maps[i]));
        set(root, "maps", maps);
    }
    if (plan->grid_kind == FTL_GRID_PLAIN) return;
    set(root, "grid_kind", json_string(plan_word_name(plan_grids, (int)plan->grid_kind)));
    set(root, "resident_blocks", json_integer(plan->resident_blocks));
    set(root, "counters_offset", json_integer(plan->counters_offset));
}

char *ftl_plan_write(const ftl_plan *plan) {
    if (!plan) return NULL;
    json_t *root = json_object();
    set(root, "format", json_integer(PLAN_FORMAT));
    set(root, "kernel", json_string(plan->kernel));
    set(root, "entry", json_string(plan->entry));
    set(root, "gpu", json_string(plan->gpu));
    set(root, "target", json_string(plan->target));
    set(root, "threads", json_integer(plan->threads));
    set(root, "shared_bytes", json_integer(plan->shared_bytes));
    set(root, "blocks_per_sm", json_integer(plan->blocks_per_sm));
    set(root, "parameter_bytes", json_integer(plan->parameter_bytes));
    json_t *tensors = json_array();
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        json_array_append_new(tensors, tensor_to_json(&plan->tensors[i]));
    }
    set(root, "tensors", tensors);
    set(root, "sizes", sizes_to_json(plan));
    set(root, "scalars", scalars_to_json(plan));
    set(root, "walks", formulas_to_json(plan->walks, plan->walk_count));
    set(root, "conditions", formulas_to_json(plan->conditions, plan->condition_count));
    set(root, "tiles", tiles_to_json(plan));
    add_resident(root, plan);
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}
