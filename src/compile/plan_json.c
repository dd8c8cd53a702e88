/* Plans to JSON. */
#include "base/json.h"
#include "compile/plan_words.h"

static json_t *formula_to_json(json_writer *w, const ftl_formula *formula) {
    json_t *steps = json_array();
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        json_t *item = json_array();
        json_add(w, item, json_string(plan_word_name(plan_operators, (int)step->op)));
        if (step->op == FTL_PUSH_INTEGER) json_add(w, item, json_integer(step->integer));
        if (step->op == FTL_PUSH_NUMBER) json_add(w, item, json_real(step->number));
        if (step->op == FTL_PUSH_SIZE || step->op == FTL_PUSH_SCALAR) {
            json_add(w, item, json_integer(step->index));
        }
        json_add(w, steps, item);
    }
    json_t *object = json_object();
    json_put(w, object, "text", json_string(formula->text ? formula->text : ""));
    json_put(w, object, "steps", steps);
    return object;
}

static json_t *formulas_to_json(json_writer *w, const ftl_formula *formulas, int32_t count) {
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++) {
        json_add(w, array, formula_to_json(w, &formulas[i]));
    }
    return array;
}

static json_t *tensor_to_json(json_writer *w, const ftl_plan_tensor *tensor) {
    json_t *object = json_object();
    json_put(w, object, "name", json_string(tensor->name));
    json_put(w, object, "type", json_string(plan_word_name(plan_types, (int)tensor->type)));
    json_put(w, object, "role", json_string(plan_word_name(plan_roles, (int)tensor->role)));
    json_put(w, object, "pointer_offset", json_integer(tensor->pointer_offset));
    json_put(w, object, "alignment_bytes", json_integer(tensor->alignment_bytes));
    json_t *axes = json_array();
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        json_t *axis = json_object();
        json_put(w, axis, "name", json_string(tensor->axes[i].name));
        json_put(w, axis, "extent", formula_to_json(w, &tensor->axes[i].extent));
        json_put(w, axis, "size", json_integer(tensor->axes[i].size));
        json_put(w, axis, "stride_offset", json_integer(tensor->axes[i].stride_offset));
        json_put(w, axis, "is_stride_short", json_boolean(tensor->axes[i].is_stride_short));
        json_add(w, axes, axis);
    }
    json_put(w, object, "axes", axes);
    if (tensor->use)
        json_put(w, object, "use", json_string(plan_word_name(plan_uses, (int)tensor->use)));
    if (tensor->is_sum) json_put(w, object, "is_sum", json_true());
    if (tensor->limit.step_count) json_put(w, object, "limit", formula_to_json(w, &tensor->limit));
    return object;
}

static json_t *sizes_to_json(json_writer *w, const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->size_count; i++) {
        json_t *object = json_object();
        json_put(w, object, "name", json_string(plan->sizes[i].name));
        json_put(w, object, "offset", json_integer(plan->sizes[i].offset));
        json_add(w, array, object);
    }
    return array;
}

static json_t *scalars_to_json(json_writer *w, const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        json_t *object = json_object();
        json_put(w, object, "name", json_string(plan->scalars[i].name));
        json_put(w, object, "type",
                 json_string(plan_word_name(plan_types, (int)plan->scalars[i].type)));
        json_put(w, object, "offset", json_integer(plan->scalars[i].offset));
        json_add(w, array, object);
    }
    return array;
}

static json_t *tiles_to_json(json_writer *w, const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->tile_count; i++) {
        const ftl_plan_tile *tile = &plan->tiles[i];
        json_t *object = json_object();
        json_put(w, object, "name", json_string(tile->name));
        json_put(w, object, "type", json_string(plan_word_name(plan_types, (int)tile->type)));
        json_put(w, object, "offset_bytes", json_integer(tile->offset_bytes));
        json_put(w, object, "rows", json_integer(tile->rows));
        json_put(w, object, "row_bytes", json_integer(tile->row_bytes));
        json_put(w, object, "stages", json_integer(tile->stages));
        json_add(w, array, object);
    }
    return array;
}

static json_t *derived_to_json(json_writer *w, const ftl_plan *plan) {
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        json_t *object = json_object();
        json_put(w, object, "name", json_string(d->name));
        json_put(w, object, "kind", json_string(plan_word_name(plan_derivations, (int)d->kind)));
        json_put(w, object, "formula", formula_to_json(w, &d->formula));
        json_put(w, object, "offset", json_integer(d->offset));
        json_add(w, array, object);
    }
    return array;
}

static json_t *map_to_json(json_writer *w, const ftl_plan_map *map) {
    json_t *object = json_object(), *dimensions = json_array();
    json_put(w, object, "name", json_string(map->name));
    json_put(w, object, "tensor", json_integer(map->tensor));
    json_put(w, object, "offset", json_integer(map->offset));
    json_put(w, object, "swizzle_bytes", json_integer(map->swizzle_bytes));
    for (int32_t i = 0; i < map->rank; i++) {
        const ftl_map_dimension *d = &map->dimensions[i];
        json_t *item = json_object();
        json_put(w, item, "axis", json_integer(d->axis));
        json_put(w, item, "box", json_integer(d->box));
        json_put(w, item, "panel", json_integer(d->panel));
        json_put(w, item, "is_panel_number", json_integer(d->is_panel_number));
        json_add(w, dimensions, item);
    }
    json_put(w, object, "dimensions", dimensions);
    return object;
}

/* Only what is not a plain kernel has these. */
static void add_resident(json_writer *w, json_t *root, const ftl_plan *plan) {
    if (plan->derived_count) json_put(w, root, "derived", derived_to_json(w, plan));
    if (plan->map_count) {
        json_t *maps = json_array();
        for (int32_t i = 0; i < plan->map_count; i++)
            json_add(w, maps, map_to_json(w, &plan->maps[i]));
        json_put(w, root, "maps", maps);
    }
    if (plan->grid_kind == FTL_GRID_PLAIN) return;
    json_put(w, root, "grid_kind", json_string(plan_word_name(plan_grids, (int)plan->grid_kind)));
    json_put(w, root, "resident_blocks", json_integer(plan->resident_blocks));
    json_put(w, root, "counters_offset", json_integer(plan->counters_offset));
}

char *ftl_plan_write(const ftl_plan *plan) {
    if (!ftl_plan_check(plan, NULL)) return NULL;
    json_writer writer = {0}, *w = &writer;
    json_t *root = json_object();
    json_put(w, root, "format", json_integer(PLAN_FORMAT));
    json_put(w, root, "kernel", json_string(plan->kernel));
    json_put(w, root, "entry", json_string(plan->entry));
    json_put(w, root, "gpu", json_string(plan->gpu));
    json_put(w, root, "target", json_string(plan->target));
    json_put(w, root, "threads", json_integer(plan->threads));
    json_put(w, root, "shared_bytes", json_integer(plan->shared_bytes));
    json_put(w, root, "blocks_per_sm", json_integer(plan->blocks_per_sm));
    json_put(w, root, "parameter_bytes", json_integer(plan->parameter_bytes));
    json_t *tensors = json_array();
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        json_add(w, tensors, tensor_to_json(w, &plan->tensors[i]));
    }
    json_put(w, root, "tensors", tensors);
    json_put(w, root, "sizes", sizes_to_json(w, plan));
    json_put(w, root, "scalars", scalars_to_json(w, plan));
    json_put(w, root, "walks", formulas_to_json(w, plan->walks, plan->walk_count));
    json_put(w, root, "conditions", formulas_to_json(w, plan->conditions, plan->condition_count));
    json_put(w, root, "tiles", tiles_to_json(w, plan));
    add_resident(w, root, plan);
    char *text = json_write(w, root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}
