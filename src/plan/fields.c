#include "plan/fields.h"

#include <string.h>

/* --- words ------------------------------------------------------------------------------------ */

static const plan_word roles[] = {
    {FTL_INPUT, "input"}, {FTL_OUTPUT, "output"}, {FTL_WORKSPACE, "workspace"}, {0, NULL}};
static const plan_word grids[] = {
    {FTL_GRID_PERSISTENT, "persistent"}, {FTL_GRID_DYNAMIC, "dynamic"}, {0, NULL}};
static const plan_word derivations[] = {{FTL_DERIVED_VALUE, "value"},
                                        {FTL_DERIVED_TILES, "tiles"},
                                        {FTL_DERIVED_DIVISOR, "divisor"},
                                        {0, NULL}};
static const plan_word uses[] = {{FTL_TABLE_FREE, "free"},
                                 {FTL_TABLE_LENGTH, "length"},
                                 {FTL_TABLE_INDEX, "index"},
                                 {FTL_TABLE_STARTS, "starts"},
                                 {0, NULL}};

const char *plan_word_name(const plan_word *words, int value) {
    while (words->name && words->value != value) words++;
    return words->name ? words->name : "";
}

int plan_word_value(const plan_word *words, const char *name) {
    while (words->name && strcmp(words->name, name) != 0) words++;
    return words->name ? words->value : 0;
}

static const plan_operator operators[] = {
    {FTL_PUSH_INTEGER, "integer", 0, NULL},
    {FTL_PUSH_NUMBER, "number", 0, NULL},
    {FTL_PUSH_SIZE, "size", 0, NULL},
    {FTL_PUSH_SCALAR, "scalar", 0, NULL},
    {FTL_ADD, "+", 2, "(%s + %s)"},
    {FTL_SUBTRACT, "-", 2, "(%s - %s)"},
    {FTL_MULTIPLY, "*", 2, "(%s * %s)"},
    {FTL_DIVIDE_UP, "/up", 2, "ftl_quotient_up(%s, %s)"},
    {FTL_DIVIDE_DOWN, "/down", 2, "ftl_quotient_down(%s, %s)"},
    {FTL_DIVIDE_REAL, "/", 2, "((double)%s / (double)%s)"},
    {FTL_MODULO, "%", 2, "ftl_remainder(%s, %s)"},
    {FTL_MIN, "min", 2, "ftl_smaller(%s, %s)"},
    {FTL_MAX, "max", 2, "ftl_larger(%s, %s)"},
    {FTL_NEGATE, "negate", 1, "(-%s)"},
    {FTL_ABS, "abs", 1, "ftl_larger(%s, -%s)"},
    {FTL_LESS, "<", 2, "(%s < %s)"},
    {FTL_LESS_EQUAL, "<=", 2, "(%s <= %s)"},
    {FTL_GREATER, ">", 2, "(%s > %s)"},
    {FTL_GREATER_EQUAL, ">=", 2, "(%s >= %s)"},
    {FTL_EQUAL, "==", 2, "(%s == %s)"},
    {FTL_NOT_EQUAL, "!=", 2, "(%s != %s)"},
    {FTL_AND, "and", 2, "(%s && %s)"},
    {FTL_OR, "or", 2, "(%s || %s)"},
    {FTL_NOT, "not", 1, "(!%s)"},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

const plan_operator *plan_operator_of(ftl_formula_op op) {
    for (int i = 0; i < OPERATORS; i++) {
        if (operators[i].op == op) return &operators[i];
    }
    return NULL;
}

const plan_operator *plan_operator_named(const char *name) {
    for (int i = 0; i < OPERATORS; i++) {
        if (strcmp(operators[i].name, name) == 0) return &operators[i];
    }
    return NULL;
}

/* --- fields ----------------------------------------------------------------------------------- */

#define AT(s, f) .key = #f, .at = offsetof(s, f)
#define TEXT(s, f)                                                                                 \
    { AT(s, f), .kind = PLAN_TEXT }
#define FLAG(s, f, when)                                                                           \
    { AT(s, f), .kind = PLAN_FLAG, .presence = (when) }
#define NUMBER(s, f, low, high, when)                                                              \
    { AT(s, f), .kind = PLAN_NUMBER, .least = (low), .most = (high), .presence = (when) }
#define WORD(s, f, list, when)                                                                     \
    { AT(s, f), .kind = PLAN_WORD, .words = (list), .presence = (when) }
#define OFFSET(s, f, low, room, unit, when)                                                        \
    {                                                                                              \
        AT(s, f), .kind = PLAN_OFFSET, .least = (low), .most = (room), .align = (unit),            \
                  .presence = (when)                                                               \
    }
#define FORMULA(s, f, when)                                                                        \
    { AT(s, f), .kind = PLAN_FORMULA, .presence = (when) }
#define FORMULAS(s, f, n)                                                                          \
    { AT(s, f), .kind = PLAN_FORMULAS, .count_at = offsetof(s, n), .most = PLAN_ITEMS_MAX }
#define LIST(s, f, n, high, of, when)                                                              \
    {                                                                                              \
        AT(s, f), .kind = PLAN_LIST, .count_at = offsetof(s, n), .most = (high), .record = &(of),  \
                  .presence = (when)                                                               \
    }
#define ARRAY(s, f, n, low, high, of)                                                              \
    {                                                                                              \
        AT(s, f), .kind = PLAN_ARRAY, .count_at = offsetof(s, n), .least = (low), .most = (high),  \
                  .record = &(of)                                                                  \
    }
#define FIELDS(list) list, sizeof(list) / sizeof *(list)

static const plan_field axis_fields[] = {
    TEXT(ftl_plan_axis, name),
    FORMULA(ftl_plan_axis, extent, PLAN_ALWAYS),
    NUMBER(ftl_plan_axis, size, -1, PLAN_ITEMS_MAX - 1, PLAN_ALWAYS),
    OFFSET(ftl_plan_axis, stride_offset, -1, 8, 8, PLAN_ALWAYS),
    FLAG(ftl_plan_axis, is_stride_short, PLAN_ALWAYS),
};
static const plan_record axis_record = {sizeof(ftl_plan_axis), FIELDS(axis_fields)};

static const plan_field tensor_fields[] = {
    TEXT(ftl_plan_tensor, name),
    WORD(ftl_plan_tensor, type, plan_types, PLAN_ALWAYS),
    WORD(ftl_plan_tensor, role, roles, PLAN_ALWAYS),
    OFFSET(ftl_plan_tensor, pointer_offset, 0, 8, 8, PLAN_ALWAYS),
    NUMBER(ftl_plan_tensor, alignment_bytes, 1, 1024, PLAN_ALWAYS),
    ARRAY(ftl_plan_tensor, axes, axis_count, 0, FTL_AXES_MAX, axis_record),
    WORD(ftl_plan_tensor, use, uses, PLAN_UNLESS_EMPTY),
    FLAG(ftl_plan_tensor, is_sum, PLAN_UNLESS_EMPTY),
    FLAG(ftl_plan_tensor, is_kept, PLAN_UNLESS_EMPTY),
    FLAG(ftl_plan_tensor, is_distinct, PLAN_UNLESS_EMPTY),
    FORMULA(ftl_plan_tensor, limit, PLAN_UNLESS_EMPTY),
};
static const plan_record tensor_record = {sizeof(ftl_plan_tensor), FIELDS(tensor_fields)};

static const plan_field size_fields[] = {
    TEXT(ftl_plan_size, name),
    OFFSET(ftl_plan_size, offset, -1, 4, 4, PLAN_ALWAYS),
};
static const plan_record size_record = {sizeof(ftl_plan_size), FIELDS(size_fields)};

static const plan_field scalar_fields[] = {
    TEXT(ftl_plan_scalar, name),
    WORD(ftl_plan_scalar, type, plan_types, PLAN_ALWAYS),
    OFFSET(ftl_plan_scalar, offset, 0, 4, 4, PLAN_ALWAYS),
};
static const plan_record scalar_record = {sizeof(ftl_plan_scalar), FIELDS(scalar_fields)};

static const plan_field tile_fields[] = {
    TEXT(ftl_plan_tile, name),
    WORD(ftl_plan_tile, type, plan_types, PLAN_ALWAYS),
    NUMBER(ftl_plan_tile, offset_bytes, 0, INT32_MAX, PLAN_ALWAYS),
    NUMBER(ftl_plan_tile, rows, 0, INT32_MAX, PLAN_ALWAYS),
    NUMBER(ftl_plan_tile, row_bytes, 0, INT32_MAX, PLAN_ALWAYS),
    NUMBER(ftl_plan_tile, stages, 1, 1024, PLAN_ALWAYS),
};
static const plan_record tile_record = {sizeof(ftl_plan_tile), FIELDS(tile_fields)};

static const plan_field derived_fields[] = {
    TEXT(ftl_plan_derived, name),
    WORD(ftl_plan_derived, kind, derivations, PLAN_ALWAYS),
    FORMULA(ftl_plan_derived, formula, PLAN_UNLESS_EMPTY),
    OFFSET(ftl_plan_derived, offset, 0, 4, 4, PLAN_ALWAYS),
};
static const plan_record derived_record = {sizeof(ftl_plan_derived), FIELDS(derived_fields)};

static const plan_field dimension_fields[] = {
    NUMBER(ftl_map_dimension, axis, 0, FTL_AXES_MAX - 1, PLAN_ALWAYS),
    NUMBER(ftl_map_dimension, box, 1, 256, PLAN_ALWAYS),
    NUMBER(ftl_map_dimension, panel, 0, 256, PLAN_ALWAYS),
    NUMBER(ftl_map_dimension, is_panel_number, 0, 1, PLAN_ALWAYS),
};
static const plan_record dimension_record = {sizeof(ftl_map_dimension), FIELDS(dimension_fields)};

static const plan_field map_fields[] = {
    TEXT(ftl_plan_map, name),
    NUMBER(ftl_plan_map, tensor, 0, PLAN_ITEMS_MAX - 1, PLAN_ALWAYS),
    OFFSET(ftl_plan_map, offset, 0, FTL_MAP_BYTES, 64, PLAN_ALWAYS),
    NUMBER(ftl_plan_map, swizzle_bytes, 0, 128, PLAN_ALWAYS),
    ARRAY(ftl_plan_map, dimensions, rank, 1, FTL_MAP_RANK_MAX, dimension_record),
};
static const plan_record map_record = {sizeof(ftl_plan_map), FIELDS(map_fields)};

static const plan_field plan_fields[] = {
    TEXT(ftl_plan, kernel),
    TEXT(ftl_plan, entry),
    TEXT(ftl_plan, gpu),
    TEXT(ftl_plan, target),
    NUMBER(ftl_plan, threads, 1, 1024, PLAN_ALWAYS),
    NUMBER(ftl_plan, shared_bytes, 0, 1 << 20, PLAN_ALWAYS),
    NUMBER(ftl_plan, blocks_per_sm, 0, 64, PLAN_ALWAYS),
    NUMBER(ftl_plan, parameter_bytes, 0, FTL_PARAMETER_BYTES_MAX, PLAN_ALWAYS),
    LIST(ftl_plan, tensors, tensor_count, PLAN_ITEMS_MAX, tensor_record, PLAN_ALWAYS),
    LIST(ftl_plan, sizes, size_count, PLAN_ITEMS_MAX, size_record, PLAN_ALWAYS),
    LIST(ftl_plan, scalars, scalar_count, PLAN_ITEMS_MAX, scalar_record, PLAN_ALWAYS),
    FORMULAS(ftl_plan, walks, walk_count),
    FORMULAS(ftl_plan, conditions, condition_count),
    LIST(ftl_plan, tiles, tile_count, PLAN_ITEMS_MAX, tile_record, PLAN_ALWAYS),
    LIST(ftl_plan, derived, derived_count, PLAN_ITEMS_MAX, derived_record, PLAN_UNLESS_EMPTY),
    LIST(ftl_plan, maps, map_count, FTL_MAPS_MAX, map_record, PLAN_UNLESS_EMPTY),
    WORD(ftl_plan, grid_kind, grids, PLAN_UNLESS_EMPTY),
    FLAG(ftl_plan, is_early, PLAN_UNLESS_EMPTY),
    NUMBER(ftl_plan, resident_blocks, 1, INT32_MAX, PLAN_IF_RESIDENT),
    OFFSET(ftl_plan, counters_offset, -1, 8, 8, PLAN_IF_RESIDENT),
};
const plan_record plan_root = {sizeof(ftl_plan), FIELDS(plan_fields)};

int32_t plan_field_count(const plan_field *field, const void *item) {
    return *(const int32_t *)((const char *)item + field->count_at);
}

const void *plan_field_items(const plan_field *field, const void *item) {
    const void *at = (const char *)item + field->at;
    return field->kind == PLAN_ARRAY ? at : *(const void *const *)at;
}

bool plan_field_is_empty(const plan_field *field, const void *item) {
    const void *at = (const char *)item + field->at;
    if (field->presence != PLAN_UNLESS_EMPTY) return false;
    switch (field->kind) {
    case PLAN_FLAG: return !*(const bool *)at;
    case PLAN_WORD: return !*(const int *)at;
    case PLAN_FORMULA: return !((const ftl_formula *)at)->step_count;
    default: return !plan_field_count(field, item);
    }
}
