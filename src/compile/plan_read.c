/* Plans from JSON. What is read is checked as a stranger's: every index, offset and length lies
 * inside what the plan declares, so that a plan from a file can do no more harm than one of the
 * translator.
 */
#include "base/arena.h"
#include "base/text.h"
#include "compile/plan_words.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 64, STEPS_MAX = 256, MEMORY_MAX = 4 << 20 };

typedef struct plan_owner {
    ftl_plan plan; /* first: a plan read here is its owner, too */
    arena memory;
} plan_owner;

/* Where the reading stands. The first failure is kept; what follows it reads as empty. */
typedef struct reading {
    arena *memory;
    char *why;
    bool failed;
    ftl_plan *plan;
} reading;

static void reject(reading *r, const char *what, const char *key) {
    if (!r->failed) snprintf(r->why, FTL_WHY_BYTES, "the plan's '%s' %s", key, what);
    r->failed = true;
}

static const char *get_text(reading *r, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) reject(r, "is missing or no text", key);
    return str_copy_z(r->memory, str_from(text ? text : ""));
}

static int32_t get_integer(reading *r, const json_t *object, const char *key, int64_t least,
                           int64_t most) {
    const json_t *item = json_object_get(object, key);
    json_int_t value = json_integer_value(item);
    if (json_is_integer(item) && value >= least && value <= most) return (int32_t)value;
    reject(r, "is missing or out of range", key);
    return (int32_t)least;
}

static int get_word(reading *r, const json_t *object, const char *key, const plan_word *words) {
    const char *text = json_string_value(json_object_get(object, key));
    int value = text ? plan_word_value(words, text) : 0;
    if (!value) reject(r, "is missing or not known", key);
    return value ? value : words[0].value;
}

static const json_t *get_array(reading *r, const json_t *object, const char *key, size_t most,
                               int32_t *count) {
    const json_t *array = json_object_get(object, key);
    bool is_right = json_is_array(array) && json_array_size(array) <= most;
    if (!is_right) reject(r, "is missing, no list, or too long", key);
    *count = is_right ? (int32_t)json_array_size(array) : 0;
    return array;
}

/* Offsets into the parameter struct: room for 'bytes', aligned to them. */
static int32_t get_offset(reading *r, const json_t *object, const char *key, int least, int bytes) {
    int32_t offset = get_integer(r, object, key, least, r->plan->parameter_bytes - bytes);
    if (offset > 0 && offset % bytes) reject(r, "is not aligned", key);
    return offset;
}

static bool is_push(int op) {
    return op >= FTL_PUSH_INTEGER && op <= FTL_PUSH_SCALAR;
}

static void read_step(reading *r, const json_t *item, ftl_formula_step *step) {
    const char *name = json_string_value(json_array_get(item, 0));
    const json_t *operand = json_array_get(item, 1);
    int op = name ? plan_word_value(plan_operators, name) : 0;
    int64_t integer = json_integer_value(operand);
    bool is_right = op && (is_push(op) ? json_is_number(operand) : json_array_size(item) == 1);
    if (op == FTL_PUSH_SIZE) is_right = is_right && integer >= 0 && integer < r->plan->size_count;
    if (op == FTL_PUSH_SCALAR)
        is_right = is_right && integer >= 0 && integer < r->plan->scalar_count;
    if (!is_right) reject(r, "has a wrong step", "steps");
    step->op = is_right ? (ftl_formula_op)op : FTL_PUSH_INTEGER;
    step->integer = op == FTL_PUSH_INTEGER ? integer : 0;
    step->index = is_right && op != FTL_PUSH_INTEGER ? (int32_t)integer : 0;
    step->number = op == FTL_PUSH_NUMBER ? json_number_value(operand) : 0;
}

static ftl_formula read_formula(reading *r, const json_t *object) {
    ftl_formula formula = {.text = get_text(r, object, "text")};
    const json_t *steps = get_array(r, object, "steps", STEPS_MAX, &formula.step_count);
    ftl_formula_step *list = arena_array(r->memory, ftl_formula_step, formula.step_count);
    for (int32_t i = 0; i < formula.step_count; i++) {
        read_step(r, json_array_get(steps, (size_t)i), &list[i]);
    }
    formula.steps = list;
    return formula;
}

static const ftl_formula *read_formulas(reading *r, const json_t *root, const char *key,
                                        int32_t *count) {
    const json_t *array = get_array(r, root, key, ITEMS_MAX, count);
    ftl_formula *list = arena_array(r->memory, ftl_formula, *count);
    for (int32_t i = 0; i < *count; i++)
        list[i] = read_formula(r, json_array_get(array, (size_t)i));
    return list;
}

static void read_sizes(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    const json_t *array = get_array(r, root, "sizes", ITEMS_MAX, &plan->size_count);
    ftl_plan_size *list = arena_array(r->memory, ftl_plan_size, plan->size_count);
    for (int32_t i = 0; i < plan->size_count; i++) {
        const json_t *object = json_array_get(array, (size_t)i);
        list[i].name = get_text(r, object, "name");
        list[i].offset = get_offset(r, object, "offset", -1, 4);
    }
    plan->sizes = list;
}

static void read_scalars(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    const json_t *array = get_array(r, root, "scalars", ITEMS_MAX, &plan->scalar_count);
    ftl_plan_scalar *list = arena_array(r->memory, ftl_plan_scalar, plan->scalar_count);
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        const json_t *object = json_array_get(array, (size_t)i);
        list[i].name = get_text(r, object, "name");
        list[i].type = (ftl_type)get_word(r, object, "type", plan_types);
        list[i].offset = get_offset(r, object, "offset", 0, 4);
    }
    plan->scalars = list;
}

static void read_tensor(reading *r, const json_t *object, ftl_plan_tensor *tensor) {
    tensor->name = get_text(r, object, "name");
    tensor->type = (ftl_type)get_word(r, object, "type", plan_types);
    tensor->role = (ftl_tensor_role)get_word(r, object, "role", plan_roles);
    tensor->pointer_offset = get_offset(r, object, "pointer_offset", 0, 8);
    tensor->alignment_bytes = get_integer(r, object, "alignment_bytes", 1, 1024);
    const json_t *axes = get_array(r, object, "axes", FTL_AXES_MAX, &tensor->axis_count);
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        const json_t *item = json_array_get(axes, (size_t)i);
        ftl_plan_axis *axis = &tensor->axes[i];
        axis->name = get_text(r, item, "name");
        axis->extent = read_formula(r, json_object_get(item, "extent"));
        axis->size = get_integer(r, item, "size", -1, r->plan->size_count - 1);
        axis->stride_offset = get_offset(r, item, "stride_offset", -1, 8);
        axis->is_stride_short = json_is_true(json_object_get(item, "is_stride_short"));
    }
    if (json_object_get(object, "use"))
        tensor->use = (ftl_table_use)get_word(r, object, "use", plan_uses);
    tensor->is_sum = json_is_true(json_object_get(object, "is_sum"));
    const json_t *limit = json_object_get(object, "limit");
    if (limit) tensor->limit = read_formula(r, limit);
}

static void read_tensors(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    const json_t *array = get_array(r, root, "tensors", ITEMS_MAX, &plan->tensor_count);
    ftl_plan_tensor *list = arena_array(r->memory, ftl_plan_tensor, plan->tensor_count);
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        read_tensor(r, json_array_get(array, (size_t)i), &list[i]);
    }
    plan->tensors = list;
}

static void read_tiles(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    const json_t *array = get_array(r, root, "tiles", ITEMS_MAX, &plan->tile_count);
    ftl_plan_tile *list = arena_array(r->memory, ftl_plan_tile, plan->tile_count);
    for (int32_t i = 0; i < plan->tile_count; i++) {
        const json_t *object = json_array_get(array, (size_t)i);
        list[i].name = get_text(r, object, "name");
        list[i].type = (ftl_type)get_word(r, object, "type", plan_types);
        list[i].offset_bytes = get_integer(r, object, "offset_bytes", 0, INT32_MAX);
        list[i].rows = get_integer(r, object, "rows", 0, INT32_MAX);
        list[i].row_bytes = get_integer(r, object, "row_bytes", 0, INT32_MAX);
        list[i].stages = get_integer(r, object, "stages", 1, 1024);
    }
    plan->tiles = list;
}

static void read_derived(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    if (!json_object_get(root, "derived")) return;
    const json_t *array = get_array(r, root, "derived", ITEMS_MAX, &plan->derived_count);
    ftl_plan_derived *list = arena_array(r->memory, ftl_plan_derived, plan->derived_count);
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const json_t *object = json_array_get(array, (size_t)i);
        ftl_plan_derived *d = &list[i];
        d->name = get_text(r, object, "name");
        d->kind = (ftl_derived_kind)get_word(r, object, "kind", plan_derivations);
        d->formula = read_formula(r, json_object_get(object, "formula"));
        int bytes = d->kind == FTL_DERIVED_DIVISOR ? 8 : 4;
        d->offset = get_integer(r, object, "offset", 0, plan->parameter_bytes - bytes);
        if (d->offset % 4) reject(r, "is not aligned", "offset");
    }
    plan->derived = list;
}

static void read_map(reading *r, const json_t *object, ftl_plan_map *map) {
    map->name = get_text(r, object, "name");
    map->tensor = get_integer(r, object, "tensor", 0, r->plan->tensor_count - 1);
    map->offset = get_integer(r, object, "offset", 0, r->plan->parameter_bytes - FTL_MAP_BYTES);
    if (map->offset % 64) reject(r, "is not aligned", "offset");
    map->swizzle_bytes = get_integer(r, object, "swizzle_bytes", 0, 128);
    const json_t *dimensions = get_array(r, object, "dimensions", FTL_MAP_RANK_MAX, &map->rank);
    if (map->rank < 1 || !r->plan->tensor_count) {
        reject(r, "is empty", "dimensions");
        return;
    }
    int32_t axes = r->plan->tensors[map->tensor].axis_count;
    for (int32_t i = 0; i < map->rank; i++) {
        const json_t *item = json_array_get(dimensions, (size_t)i);
        ftl_map_dimension *d = &map->dimensions[i];
        d->axis = get_integer(r, item, "axis", 0, axes - 1);
        d->box = get_integer(r, item, "box", 1, 256);
        d->panel = get_integer(r, item, "panel", 0, 256);
        d->is_panel_number = get_integer(r, item, "is_panel_number", 0, d->panel > 0);
    }
}

static void read_resident(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    read_derived(r, root);
    if (json_object_get(root, "maps")) {
        const json_t *array = get_array(r, root, "maps", FTL_MAPS_MAX, &plan->map_count);
        ftl_plan_map *list = arena_array(r->memory, ftl_plan_map, plan->map_count);
        for (int32_t i = 0; i < plan->map_count && !r->failed; i++)
            read_map(r, json_array_get(array, (size_t)i), &list[i]);
        plan->maps = list;
    }
    plan->grid_kind = FTL_GRID_PLAIN;
    plan->counters_offset = -1;
    if (!json_object_get(root, "grid_kind")) return;
    plan->grid_kind = (ftl_grid_kind)get_word(r, root, "grid_kind", plan_grids);
    plan->resident_blocks = get_integer(r, root, "resident_blocks", 1, INT32_MAX);
    plan->counters_offset = get_offset(r, root, "counters_offset", -1, 8);
}

static void read_plan(reading *r, const json_t *root) {
    ftl_plan *plan = r->plan;
    get_integer(r, root, "format", PLAN_FORMAT, PLAN_FORMAT);
    plan->kernel = get_text(r, root, "kernel");
    plan->entry = get_text(r, root, "entry");
    plan->gpu = get_text(r, root, "gpu");
    plan->target = get_text(r, root, "target");
    plan->threads = get_integer(r, root, "threads", 1, 1024);
    plan->shared_bytes = get_integer(r, root, "shared_bytes", 0, 1 << 20);
    plan->blocks_per_sm = get_integer(r, root, "blocks_per_sm", 0, 64);
    plan->parameter_bytes = get_integer(r, root, "parameter_bytes", 0, FTL_PARAMETER_BYTES_MAX);
    read_sizes(r, root);
    read_scalars(r, root);
    read_tensors(r, root);
    plan->walks = read_formulas(r, root, "walks", &plan->walk_count);
    plan->conditions = read_formulas(r, root, "conditions", &plan->condition_count);
    read_tiles(r, root);
    read_resident(r, root);
}

/* Reads under the arena's guard. */
static ftl_status read_guarded(reading *r, const json_t *root) {
    jmp_buf exhausted;
    if (setjmp(exhausted)) {
        snprintf(r->why, FTL_WHY_BYTES,
                 r->memory->is_over_limit ? "the plan is larger than plans may be"
                                          : "out of memory");
        return r->memory->is_over_limit ? FTL_INVALID_ARGUMENT : FTL_NO_MEMORY;
    }
    r->memory->on_exhausted = &exhausted;
    read_plan(r, root);
    r->memory->on_exhausted = NULL;
    return r->failed ? FTL_INVALID_ARGUMENT : FTL_OK;
}

ftl_status plan_read_json(const char *json, size_t length, char why[FTL_WHY_BYTES],
                          ftl_plan **out) {
    *out = NULL;
    why[0] = 0;
    json_error_t error;
    json_t *root = json_loadb(json ? json : "", json ? length : 0, 0, &error);
    if (!root) {
        snprintf(why, FTL_WHY_BYTES, "the plan is no JSON: %s (line %d)", error.text, error.line);
        return FTL_INVALID_ARGUMENT;
    }
    plan_owner *owner = calloc(1, sizeof *owner);
    if (!owner) {
        snprintf(why, FTL_WHY_BYTES, "out of memory");
        json_decref(root);
        return FTL_NO_MEMORY;
    }
    arena_init(&owner->memory, MEMORY_MAX);
    reading r = {.memory = &owner->memory, .why = why, .plan = &owner->plan};
    ftl_status status = read_guarded(&r, root);
    json_decref(root);
    if (status) ftl_plan_free(&owner->plan);
    else *out = &owner->plan;
    return status;
}

ftl_plan *ftl_plan_read(const char *json, size_t length, char why[FTL_WHY_BYTES]) {
    char unread[FTL_WHY_BYTES];
    ftl_plan *plan;
    plan_read_json(json, length, why ? why : unread, &plan);
    return plan;
}

void ftl_plan_free(ftl_plan *plan) {
    if (!plan) return;
    plan_owner *owner = (plan_owner *)plan;
    arena_done(&owner->memory);
    free(owner);
}
