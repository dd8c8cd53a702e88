/* Index names in expressions of Compute: each means the axis of that name of the statement's tile.
 */
#include "tl/names_internal.h"

str names_axes_text(arena *memory, const tl_tile_axis *axes, int count) {
    str text = STR("none");
    for (int i = 0; i < count; i++) {
        text = i == 0 ? axes[0].index
                      : str_format(memory, "%.*s, %.*s", STR_ARGS(text), STR_ARGS(axes[i].index));
    }
    return text;
}

typedef struct pointing {
    tl_kernel *kernel;
    arena *memory;
    diag_list *diags;
} pointing;

static bool has_axis(const tl_tile *tile, str index) {
    for (int i = 0; i < tile->axis_count; i++)
        if (str_equal(tile->axes[i].index, index)) return true;
    return false;
}

/* Whether an index runs outside of matrices: over tiles, not within them. */
static bool is_parallel(const tl_kernel *kernel, str index) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_symbol *symbol = kernel->symbols[i];
        if (symbol->kind != TL_SYMBOL_VARIABLE || !symbol->axes) continue;
        int begin = tl_matrix_begin(symbol->axes);
        for (int k = 0; k < begin; k++) {
            if (str_equal(tl_axis_index(symbol->axes, k), index)) return true;
        }
    }
    return false;
}

static void point_names(pointing *p, tl_expr *e, const tl_tile *tile) {
    if (!e) return;
    bool is_value = e->kind == TL_NAME && e->symbol && e->symbol->kind != TL_SYMBOL_VARIABLE;
    if (is_value) {
        bool is_axis = has_axis(tile, e->text);
        tl_symbol *index = is_axis ? tl_find_index(p->kernel, e->text) : NULL;
        if (index) e->symbol = index;
        bool is_lost = e->symbol->kind == TL_SYMBOL_INDEX && !is_axis && tile->axis_count &&
                       !(tl_is_sketch(p->kernel) && is_parallel(p->kernel, e->text));
        if (is_lost) {
            diag_report(
                p->diags, DIAG_INDEX_NOT_HERE, e->range, e->text,
                str_format(p->memory, "the tile's axes are %.*s",
                           STR_ARGS(names_axes_text(p->memory, tile->axes, tile->axis_count))));
        }
    }
    for (int i = 0; i < e->item_count; i++) point_names(p, e->items[i], tile);
    point_names(p, e->left, tile);
    point_names(p, e->right, tile);
}

/* By the bare name of an axis of the tile, which is its index there, and begins at 0: its length is
 * meant. An index that has a name of its own is taken at its word.
 */
static void check_divisor(pointing *p, const tl_expr *e, const tl_tile *tile) {
    bool is_index = e && e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_INDEX;
    bool is_bare = is_index && e->symbol->extent && e->symbol->extent->kind == TL_NAME &&
                   str_equal(e->symbol->extent->text, e->text);
    if (!is_bare) return;
    if (has_axis(tile, e->text)) {
        diag_report(p->diags, DIAG_DIVISION_BY_INDEX, e->range, e->text,
                    str_format(p->memory, "x in %.*s", STR_ARGS(e->text)));
    }
}

static void check_divisors(pointing *p, const tl_expr *e, const tl_tile *tile) {
    if (!e) return;
    bool divides = e->kind == TL_BINARY && (e->operator== TL_OVER || e->operator== TL_MODULO);
    if (divides) check_divisor(p, e->right, tile);
    for (int i = 0; i < e->item_count; i++) check_divisors(p, e->items[i], tile);
    check_divisors(p, e->left, tile);
    check_divisors(p, e->right, tile);
}

static void point_expr(pointing *p, tl_expr *e, const tl_tile *tile) {
    point_names(p, e, tile);
    names_decide_divisions(e);
    check_divisors(p, e, tile);
}

static void point_compute(pointing *p, tl_statement *s) {
    tl_compute *c = &s->compute;
    const tl_tile *tile = tl_tile_of(tl_written_name(s));
    if (!tile) return;
    int pointed = tl_operation_shape(c->operation) == TL_SHAPE_CHOICE ? 1 : c->operand_count;
    for (int i = 0; i < pointed; i++) /* (how many RowTopK gives is a length) */
        point_expr(p, c->operands[i].value, tile);
    if (c->operation == TL_DIVIDE && c->operand_count == 2)
        check_divisor(p, c->operands[1].value, tile);
    point_expr(p, c->condition, tile);
}

void names_point_indices(tl_kernel *kernel, arena *memory, diag_list *diags) {
    pointing p = {kernel, memory, diags};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE) point_compute(&p, s);
}
