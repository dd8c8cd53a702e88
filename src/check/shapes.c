/* How long the axes of tiles may be. */
#include "check/rules.h"

#include "tl/tl.h"

enum {
    EXTENT_MAX = LAYOUT_EXTENT_MAX,
    UNIT_BITS = 128,     /* rows move in units of 16 bytes */
    CONTRACTED_UNIT = 8, /* the least depth of a product's step */
    BYTES_UNIT = 32,     /* the same of 8-bit operands */
};

static str number(arena *memory, int64_t value) {
    return str_format(memory, "%lld", (long long)value);
}

/* "BN (64)", or "64". */
static str with_value(arena *memory, const tl_expr *e, int64_t value) {
    str text = tl_expr_text(memory, e);
    if (e->kind == TL_INTEGER) return text;
    return str_format(memory, "%.*s (%lld)", STR_ARGS(text), (long long)value);
}

static bool check_extent(arena *memory, diag_list *diags, str tile, const tl_expr *e,
                         int64_t value) {
    if (value >= 1 && value <= EXTENT_MAX) return true;
    diag_expected(diag_report(diags, DIAG_SHAPE_RANGE, e->range, tile, with_value(memory, e, value),
                              number(memory, EXTENT_MAX)),
                  str_format(memory, "1 to %d", EXTENT_MAX), number(memory, value));
    return false;
}

static bool check_allocation(const model *m, const model_tile *t, diag_list *diags) {
    const tl_exprs *shape = &t->allocation->allocate.shape;
    if (shape->count > 2) {
        diag_report(diags, DIAG_SHAPE_AXES, t->declared, t->name, number(m->memory, shape->count));
        return false;
    }
    int64_t value = 0;
    for (int i = 0; i < shape->count; i++) {
        if (!tl_known_integer(shape->items[i], &value)) continue;
        if (!check_extent(m->memory, diags, t->name, shape->items[i], value)) return false;
    }
    int bits = tl_type_bits(t->type);
    bool by_columns = t->allocation->allocate.by_columns;
    bool in_lines = shape->count == 2 &&
                    (t->space == TL_SHARED || t->allocation->allocate.layout.kind == TL_LINES);
    if (!in_lines || !bits) return true;
    const tl_expr *line = shape->items[by_columns ? 0 : 1];
    if (!tl_known_integer(line, &value) || value * bits % UNIT_BITS == 0) return true;
    str unit = number(m->memory, UNIT_BITS / bits);
    diag_expected(diag_report(diags, DIAG_SHAPE_LINE, line->range, t->name,
                              with_value(m->memory, line, value), unit),
                  str_format(m->memory, "a multiple of %.*s", STR_ARGS(unit)),
                  number(m->memory, value));
    return false;
}

static bool check_product(const model *m, const model_step *step, diag_list *diags) {
    if (step->contracted < 0 || step->read_count < 2) return true;
    const model_tile *a = &m->tiles[step->reads[0].tile];
    int k = model_axis_of(a, step->contracted);
    int unit = tl_is_narrow(a->type) ? BYTES_UNIT : CONTRACTED_UNIT;
    if (k < 0 || !a->axes[k].extent || a->axes[k].extent % unit == 0) return true;
    diag_report(diags, DIAG_SHAPE_CONTRACTED, step->statement->range, a->axes[k].name,
                number(m->memory, a->axes[k].extent), number(m->memory, unit));
    return false;
}

bool rules_shapes(const model *m, diag_list *diags) {
    bool right = true;
    for (int t = 0; t < m->tile_count; t++) right &= check_allocation(m, &m->tiles[t], diags);
    for (int r = 0; r < m->role_count && right; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_COMPUTE) right &= check_product(m, step, diags);
        }
    }
    return right;
}

/* A sketch's fixed lengths: the axes of its tensors' matrices, and pinned tile sizes. */
bool rules_sketch_shapes(tl_kernel *kernel, arena *memory, diag_list *diags) {
    bool right = true;
    for (tl_statement *s = kernel->body.first; s; s = s->next) {
        if (s->kind != TL_INPUT && s->kind != TL_OUTPUT) continue;
        const tl_axes *axes = &s->parameter.axes;
        int begin = tl_matrix_begin(axes);
        bool is_table = s->parameter.type == TL_I32;
        for (int i = 0; i < axes->count && !is_table; i++) {
            const tl_expr *e = axes->items[i].extent;
            int64_t value;
            if (!e || !tl_known_integer(e, &value)) continue;
            if (i >= begin && !check_extent(memory, diags, s->parameter.name, e, value)) {
                right = false;
                continue;
            }
            bool is_line = i == axes->count - 1 && i > begin;
            int bits = s->parameter.type == TL_OPEN ? 16 : tl_type_bits(s->parameter.type);
            if (!is_line || value * bits % UNIT_BITS == 0) continue;
            str unit = number(memory, UNIT_BITS / bits);
            diag_expected(diag_report(diags, DIAG_SHAPE_LINE, e->range, s->parameter.name,
                                      with_value(memory, e, value), unit),
                          str_format(memory, "a multiple of %.*s", STR_ARGS(unit)),
                          number(memory, value));
            right = false;
        }
    }
    return right;
}
