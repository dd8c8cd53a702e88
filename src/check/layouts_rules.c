/* What each statement demands of layouts, and leaves. */
#include "check/layouts_flow.h"

#include "layout/reshape.h"
#include "tl/tl.h"

#include <string.h>

/* --- reports ---------------------------------------------------------------------------------- */

bool layouts_may_report(layouts_flow *f, int tile) {
    if (!f->reports) return false;
    if (tile >= 0 && f->silent[tile]) return false;
    if (tile >= 0) f->silent[tile] = true;
    f->failed = true;
    return true;
}

static void note_since(layouts_flow *f, int tile) {
    const layouts_point *p = &f->tiles[tile];
    if (!p->since) return;
    str name = f->model->tiles[tile].name;
    diag_report(f->diags, DIAG_LAYOUT_SINCE, p->since->range, name,
                tl_layout_words(f->memory, &p->layout));
}

/* " since line 12", or nothing. */
static str since_line(layouts_flow *f, int tile) {
    const tl_statement *since = f->tiles[tile].since;
    if (!since || !since->range.end) return STR("");
    int line, column;
    diag_position(f->diags->source, since->range.begin, &line, &column);
    return str_format(f->memory, " since line %d", line);
}

static void hint_reshape(layouts_flow *f, const tl_statement *s, int tile, const tl_layout *to) {
    str name = f->model->tiles[tile].name;
    str text = str_format(f->memory, "Reshape %.*s from %.*s to %.*s", STR_ARGS(name),
                          STR_ARGS(tl_layout_words(f->memory, &f->tiles[tile].layout)),
                          STR_ARGS(tl_layout_words(f->memory, to)));
    diag_report(f->diags, DIAG_INSERT_BEFORE, s->range, text);
}

/* --- rules ------------------------------------------------------------------------------------ */

static void record(layouts_flow *f, const model_step *step, int tile, const tl_layout *l) {
    if (!f->reports) return;
    for (int i = f->facts.count - 1; i >= 0; i--) {
        const check_layout_at *known = &f->facts.items[i];
        if (known->statement != step->statement) break;
        if (known->tile == f->model->tiles[tile].symbol) return;
    }
    check_layout_at fact = {step->statement, f->model->tiles[tile].symbol, *l};
    list_push(f->memory, &f->facts, fact);
}

static bool is_register(const layouts_flow *f, const model_use *use) {
    return use->tile >= 0 && f->model->tiles[use->tile].space == TL_REGISTER;
}

/* Is the tile in one known layout here? Undefined tiles are the event machine's affair. */
static bool is_known(layouts_flow *f, const model_step *step, const model_use *use) {
    const layouts_point *p = &f->tiles[use->tile];
    if (p->state == LAYOUTS_KNOWN) return true;
    if (p->state == LAYOUTS_MIXED && layouts_may_report(f, use->tile)) {
        diag_report(f->diags, DIAG_LAYOUT_MIXED,
                    use->range.end ? use->range : step->statement->range, use->name);
        if (p->since) diag_report(f->diags, DIAG_LAYOUT_ONE_WAY, p->since->range, use->name);
        if (p->other_since) {
            diag_report(f->diags, DIAG_LAYOUT_OTHER_WAY, p->other_since->range, use->name);
        }
    }
    return false;
}

static void leave(layouts_flow *f, int tile, const tl_layout *l, const tl_statement *since) {
    f->tiles[tile] = (layouts_point){.state = LAYOUTS_KNOWN, .layout = *l, .since = since};
}

static const tl_layout *allocated(const layouts_flow *f, int tile) {
    return &f->model->tiles[tile].allocation->allocate.layout;
}

/* Partial sums: only RowSum into them, what is linear, and the Reshape that adds them up. */
static bool refuse_partial(layouts_flow *f, const model_step *step, const model_use *use) {
    const layouts_point *p = &f->tiles[use->tile];
    if (p->state != LAYOUTS_KNOWN || !p->layout.is_partial) return false;
    if (layouts_may_report(f, use->tile)) {
        tl_layout whole = p->layout;
        whole.is_partial = false;
        whole.of = NULL;
        diag_report(f->diags, DIAG_LAYOUT_PARTIAL,
                    use->range.end ? use->range : step->statement->range, use->name);
        note_since(f, use->tile);
        str text = str_format(f->memory, "Reshape %.*s from partial %s to %s", STR_ARGS(use->name),
                              tl_layout_kind_name(whole.kind), tl_layout_kind_name(whole.kind));
        diag_report(f->diags, DIAG_INSERT_BEFORE, step->statement->range, text);
    }
    return true;
}

static void check_operand(layouts_flow *f, const model_step *step, const model_use *use,
                          bool is_left) {
    if (!is_register(f, use) || !is_known(f, step, use)) return;
    tl_layout wanted = {.kind = is_left ? TL_MMA_A : TL_MMA_B};
    const tl_layout *is = &f->tiles[use->tile].layout;
    if (is->kind == wanted.kind) return;
    if (!layouts_may_report(f, use->tile)) return;
    str found = tl_layout_words(f->memory, is);
    str expected = str_from(tl_layout_kind_name(wanted.kind));
    diag *d =
        diag_report(f->diags, DIAG_LAYOUT_OPERAND, use->range, is_left ? STR("left") : STR("right"),
                    expected, use->name, found, since_line(f, use->tile));
    diag_expected(d, expected, found);
    note_since(f, use->tile);
    bool has_map = is->kind == TL_MMA_C && is_left;
    if (has_map) hint_reshape(f, step->statement, use->tile, &wanted);
}

static const model_use *operand_use(const model_step *step, int number) {
    const tl_operand *operand = &step->statement->compute.operands[number];
    for (int i = 0; i < step->read_count; i++)
        if (step->reads[i].operand == operand) return &step->reads[i];
    return NULL;
}

static bool lies_across(const layouts_flow *f, const model_use *use, bool is_right) {
    return tl_lies_across(use->operand, is_right, f->model->tiles[use->tile].allocation);
}

static bool holds_permuted(const layouts_flow *f, const model_use *use) {
    if (is_register(f, use)) return f->tiles[use->tile].layout.is_permuted;
    return f->model->tiles[use->tile].allocation->allocate.is_permuted;
}

/* In which order do the operands hold the contracted axis, and the sums their columns? 8-bit
 * products take four neighbours of the contracted axis from each lane. A right operand that lies
 * across is put into either order as it is read, two columns at a time. True: the sums are in
 * mma_C permuted.
 */
static bool check_orders(layouts_flow *f, const model_step *step) {
    const model_use *a = operand_use(step, 0), *b = operand_use(step, 1);
    if (!a || !b) return false;
    bool is_byte = tl_is_narrow(f->model->tiles[b->tile].type);
    bool across = is_byte && lies_across(f, b, true), is_async = step->statement->compute.is_async;
    const model_use *bad = NULL;
    if (across && (is_async || holds_permuted(f, b))) bad = b;
    if (is_byte && (lies_across(f, a, false) || a->operand->is_transposed)) bad = a;
    if (bad && layouts_may_report(f, bad->tile))
        diag_report(f->diags, DIAG_LAYOUT_ACROSS, bad->range, bad->name,
                    str_from(bad == a ? "left" : "right"));
    if (bad || across) return across;
    if (holds_permuted(f, a) != holds_permuted(f, b) && layouts_may_report(f, b->tile)) {
        const char *words[] = {"as it is", "permuted"};
        diag_report(f->diags, DIAG_LAYOUT_ORDER, step->statement->range, a->name,
                    str_from(words[holds_permuted(f, a)]), b->name,
                    str_from(words[holds_permuted(f, b)]));
    }
    return false;
}

static void check_product(layouts_flow *f, const model_step *step) {
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (use->operand)
            check_operand(f, step, use, use->operand == &step->statement->compute.operands[0]);
    }
    bool permuted = check_orders(f, step);
    if (!step->has_target) return;
    int tile = step->target.tile;
    const tl_layout *l = step->accumulates ? &f->tiles[tile].layout : allocated(f, tile);
    if (step->accumulates && !is_known(f, step, &step->target)) return;
    bool fits = l->kind == TL_LAYOUT_NONE || (l->kind == TL_MMA_C && l->is_permuted == permuted);
    if (!fits && layouts_may_report(f, tile)) {
        str found = tl_layout_words(f->memory, l),
            wanted = str_from(permuted ? "mma_C permuted" : "mma_C");
        diag *d = diag_report(f->diags, DIAG_LAYOUT_RESULT, step->target.range, step->target.name,
                              found, wanted);
        diag_expected(d, wanted, found);
        if (step->accumulates) note_since(f, tile);
    }
    if (!step->accumulates) leave(f, tile, l, step->statement);
}

/* A vector beside a matrix: it must lie as the matrix's rows (or columns) do. */
static void check_vector(layouts_flow *f, const model_step *step, const model_use *vector,
                         int matrix) {
    const model_tile *v = &f->model->tiles[vector->tile], *x = &f->model->tiles[matrix];
    if (v->axis_count != 1 || x->axis_count != 2) return;
    bool by_rows = v->axes[0].id >= 0 && v->axes[0].id == x->axes[0].id;
    bool by_columns = v->axes[0].id >= 0 && v->axes[0].id == x->axes[1].id;
    if (v->axes[0].id < 0) { /* only filled so far: as its layout says, else as its length does */
        tl_layout_kind kind = f->tiles[vector->tile].layout.kind;
        by_columns =
            kind == TL_COLUMNS || (kind != TL_ROWS && v->axes[0].extent != x->axes[0].extent);
        by_rows = !by_columns;
    }
    if (!by_rows && !by_columns) return;
    tl_layout is = f->tiles[vector->tile].layout;
    is.is_partial = false;
    layout whole, wanted, found;
    if (!model_layout(f->model, matrix, &f->tiles[matrix].layout, &whole)) return;
    wanted = layout_vector(&whole, by_rows ? LAYOUT_ROWS : LAYOUT_COLUMNS);
    if (model_layout(f->model, vector->tile, &is, &found) && layout_equal(&wanted, &found)) return;
    if (!layouts_may_report(f, vector->tile)) return;
    str expected = str_format(f->memory, "%s of %.*s", by_rows ? "rows" : "columns",
                              STR_ARGS(x->symbol->name));
    str text = tl_layout_words(f->memory, &is);
    diag *d = diag_report(f->diags, DIAG_LAYOUT_VECTOR,
                          vector->range.end ? vector->range : step->statement->range, vector->name,
                          text, expected);
    diag_expected(d, expected, text);
    note_since(f, vector->tile);
}

/* The widest operand in registers: the first with the most axes. */
static const model_use *widest(const layouts_flow *f, const model_step *step) {
    const model_use *wide = NULL;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (!is_register(f, use)) continue;
        int axes = f->model->tiles[use->tile].axis_count;
        if (!wide || axes > f->model->tiles[wide->tile].axis_count) wide = use;
    }
    return wide;
}

/* The operands, a bit each, that are parts of sums. */
static unsigned partial_operands(const layouts_flow *f, const model_step *step) {
    const tl_compute *c = &step->statement->compute;
    unsigned operands = 0;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (use->operand && is_register(f, use) && f->tiles[use->tile].layout.is_partial)
            operands |= 1u << (use->operand - c->operands);
    }
    return operands;
}

/* Are the elements of the use in other places than those of the widest operand? Reports it. */
static bool lies_otherwise(layouts_flow *f, const model_use *wide, const tl_layout *a,
                           const model_use *use, const tl_layout *b, diag_range range) {
    if (model_same_layout(f->model, wide->tile, a, use->tile, b)) return false;
    if (!layouts_may_report(f, use->tile)) return false;
    str expected = tl_layout_words(f->memory, a), found = tl_layout_words(f->memory, b);
    diag *d =
        diag_report(f->diags, DIAG_LAYOUT_DIFFERS, range, wide->name, expected, use->name, found);
    diag_expected(d, expected, found);
    return true;
}

static void compare_operands(layouts_flow *f, const model_step *step, const model_use *wide) {
    int axes = f->model->tiles[wide->tile].axis_count;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (use == wide || !is_register(f, use)) continue;
        if (f->model->tiles[use->tile].axis_count < axes) {
            check_vector(f, step, use, wide->tile);
            continue;
        }
        tl_layout a = f->tiles[wide->tile].layout, b = f->tiles[use->tile].layout;
        a.is_partial = b.is_partial = false;
        diag_range range = use->range.end ? use->range : step->statement->range;
        if (lies_otherwise(f, wide, &a, use, &b, range)) note_since(f, use->tile);
    }
}

/* The target lies as the widest operand does; 'known': how all operands lie is. */
static void leave_elementwise(layouts_flow *f, const model_step *step, const model_use *wide,
                              bool known) {
    int tile = step->target.tile;
    bool same_axes =
        wide && f->model->tiles[wide->tile].axis_count == f->model->tiles[tile].axis_count;
    if (step->accumulates) {
        if (!is_known(f, step, &step->target) || !known || !same_axes) return;
        lies_otherwise(f, wide, &f->tiles[wide->tile].layout, &step->target, &f->tiles[tile].layout,
                       step->target.range);
        return;
    }
    if (!same_axes || !known) {
        leave(f, tile, allocated(f, tile), step->statement);
        return;
    }
    tl_layout l = f->tiles[wide->tile].layout;
    for (int i = 0; i < step->read_count; i++) {
        if (is_register(f, &step->reads[i]))
            l.is_partial |= f->tiles[step->reads[i].tile].layout.is_partial;
    }
    leave(f, tile, &l, step->statement);
}

static void check_elementwise(layouts_flow *f, const model_step *step) {
    const tl_compute *c = &step->statement->compute;
    const model_use *wide = widest(f, step);
    unsigned partial = partial_operands(f, step);
    bool is_rounded = step->has_target && f->model->tiles[step->target.tile].type != TL_F32;
    bool is_linear = tl_is_linear(c->operation, partial) && !step->accumulates &&
                     !(is_rounded && tl_facts(c->operation)->is_identity);
    bool known = true;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (!is_register(f, use)) continue;
        known &= is_known(f, step, use);
        if (!is_linear && refuse_partial(f, step, use)) known = false;
    }
    if (wide && known) compare_operands(f, step, wide);
    if (step->has_target) leave_elementwise(f, step, wide, known);
}

static void check_reduction(layouts_flow *f, const model_step *step) {
    const tl_compute *c = &step->statement->compute;
    const model_use *from = step->read_count ? &step->reads[0] : NULL;
    if (!from || !is_register(f, from) || !is_known(f, step, from) || !step->has_target) return;
    if (refuse_partial(f, step, from)) return;
    int tile = step->target.tile;
    const tl_layout *to = allocated(f, tile);
    if (step->accumulates) {
        if (!is_known(f, step, &step->target)) return;
        to = &f->tiles[tile].layout;
    }
    bool transposed = from->operand && from->operand->is_transposed;
    layout whole, wanted, found;
    if (to->is_partial && !tl_reduces_by_sum(c->operation) && layouts_may_report(f, tile)) {
        diag_report(f->diags, DIAG_LAYOUT_PARTIAL_MAX, step->target.range, step->target.name,
                    str_from(tl_operation_name(c->operation)));
    } else if (model_layout(f->model, from->tile, &f->tiles[from->tile].layout, &whole)) {
        wanted = layout_vector(&whole, transposed ? LAYOUT_COLUMNS : LAYOUT_ROWS);
        tl_layout plain = *to;
        plain.is_partial = false;
        bool fits = model_layout(f->model, tile, &plain, &found) && layout_equal(&wanted, &found);
        str expected = str_format(f->memory, "%s of %.*s", transposed ? "columns" : "rows",
                                  STR_ARGS(f->model->tiles[from->tile].symbol->name));
        if (!fits && layouts_may_report(f, tile)) {
            str text = tl_layout_words(f->memory, to);
            diag_expected(diag_report(f->diags, DIAG_LAYOUT_VECTOR, step->target.range,
                                      step->target.name, text, expected),
                          expected, text);
        } else if (fits && !transposed && whole.spread[0].count * whole.spread[1].count > 1 &&
                   layout_warp_copies(&wanted) > 1 && layouts_may_report(f, from->tile)) {
            diag_report(f->diags, DIAG_LAYOUT_ROW_SPLIT, from->range, from->name);
        }
    }
    if (!step->accumulates) leave(f, tile, to, step->statement);
}

static void check_reshape(layouts_flow *f, const model_step *step) {
    const tl_statement *s = step->statement;
    if (!step->has_target || !is_known(f, step, &step->target)) return;
    int tile = step->target.tile;
    tl_layout is = f->tiles[tile].layout, from = s->reshape.from, to = s->reshape.to;
    model_complete_reshape(&is, &from, &to);
    if (!model_same_words(f->model, tile, &is, &from)) {
        if (layouts_may_report(f, tile)) {
            str found = tl_layout_words(f->memory, &is),
                expected = tl_layout_words(f->memory, &s->reshape.from);
            diag_range at = s->reshape.from.range.end ? s->reshape.from.range : s->range;
            diag_expected(
                diag_report(f->diags, DIAG_LAYOUT_NOT_IN, at, step->target.name, expected, found),
                expected, found);
            note_since(f, tile);
        }
        leave(f, tile, &to, s);
        return;
    }
    layout a, b;
    arena_mark mark = arena_here(f->memory);
    bool exists = model_layout(f->model, tile, &from, &a) && model_layout(f->model, tile, &to, &b);
    int bits = tl_type_bits(f->model->tiles[tile].type);
    reshape_kind kind =
        exists ? reshape_plan(f->memory, &a, &b, bits ? bits : 32).kind : RESHAPE_NONE;
    exists = kind != RESHAPE_NONE;
    arena_reset(f->memory, mark);
    /* Bytes would have to change threads. Products of warps put the right operand into their order
     * as they read it; those of warpgroups cannot, so there a left operand may be shuffled.
     */
    bool renames = kind == RESHAPE_FREE || kind == RESHAPE_REGISTERS;
    renames |=
        from.kind == TL_MMA_C && to.kind == TL_MMA_A && f->role->statement->role.is_warpgroups;
    if (exists && bits == 8 && !renames && layouts_may_report(f, tile)) {
        diag_report(f->diags, DIAG_LAYOUT_BYTES_MOVE, s->range, step->target.name,
                    tl_layout_words(f->memory, &from), tl_layout_words(f->memory, &to),
                    tl_layout_words(f->memory,
                                    &(tl_layout){.kind = to.kind, .is_permuted = !to.is_permuted}));
    } else if (!exists && layouts_may_report(f, tile)) {
        diag_report(f->diags, DIAG_LAYOUT_NO_MAP, s->range, step->target.name,
                    tl_layout_words(f->memory, &from), tl_layout_words(f->memory, &to));
    }
    leave(f, tile, &to, s);
}

void layouts_visit(layouts_flow *f, const model_step *step) {
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (is_register(f, use) && f->tiles[use->tile].state == LAYOUTS_KNOWN) {
            record(f, step, use->tile, &f->tiles[use->tile].layout);
        }
    }
    bool to_register = step->has_target && is_register(f, &step->target);
    bool updates = to_register && step->accumulates;
    if (updates && f->tiles[step->target.tile].state == LAYOUTS_KNOWN) {
        record(f, step, step->target.tile, &f->tiles[step->target.tile].layout);
    }
    if (step->kind == STEP_RESHAPE) {
        check_reshape(f, step);
    } else if (step->kind == STEP_COPY) {
        for (int i = 0; i < step->read_count; i++) {
            const model_use *use = &step->reads[i];
            if (is_register(f, use) && is_known(f, step, use)) refuse_partial(f, step, use);
        }
        if (to_register)
            leave(f, step->target.tile, allocated(f, step->target.tile), step->statement);
    } else if (step->kind == STEP_COMPUTE) {
        switch (tl_operation_shape(step->statement->compute.operation)) {
        case TL_SHAPE_PRODUCT: check_product(f, step); break;
        case TL_SHAPE_REDUCTION: check_reduction(f, step); break;
        case TL_SHAPE_FILL:
            if (to_register) {
                leave(f, step->target.tile, allocated(f, step->target.tile), step->statement);
            }
            break;
        case TL_SHAPE_ELEMENTWISE:
        case TL_SHAPE_MASK: check_elementwise(f, step); break;
        case TL_SHAPE_CHOICE:
        case TL_SHAPE_SOFTMAX: break;
        }
    }
    if (to_register && !updates && f->tiles[step->target.tile].state == LAYOUTS_KNOWN) {
        record(f, step, step->target.tile, &f->tiles[step->target.tile].layout);
    }
}
