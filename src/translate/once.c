/* Elements of tables that several elements of a tile need, read once.
 *
 * `Mask S where document_q[q] != document_kv[kv]` names two elements of tables for each of S. A
 * load is never left out or put together with an equal one by the CUDA compiler, which may not
 * know what else writes there. So what is the same for all of the tile, or for all columns of a
 * row, is read before the loops; what is the same for all rows of a column, before the innermost
 * one, which goes over the rows. An element in an index of another one comes before it.
 *
 * Only what is read whatever a condition says: the branches of select(...), and what stands after
 * an `and` or `or` there, may name what is not there otherwise. Fragments alone: of other tiles a
 * thread has no more than it has columns.
 */
#include "translate/elements.h"

#include "tl/boxes.h"
#include "translate/values.h"

typedef struct once {
    emit *t;
    elements_item *x;
    bool of_columns;
    str names[2]; /* index names: rows, columns */
} once;

static bool names_no_tile(void *context, const tl_expr *e) {
    return e->kind != TL_NAME || !emit_tile_of(context, e);
}

static str element_at(const once *o, const tl_expr *e, int element) {
    emit_index indices[2];
    emit_scope scope = elements_scope(o->t, o->x, element, true, indices);
    return emit_expression(o->t, e, &scope).text;
}

/* --- elements that lie in a line -------------------------------------------------------------- */

static bool is_element_of(void *context, const tl_expr *e) {
    const once *o = context;
    return e->kind != TL_ELEMENT || !tl_uses_index(e, o->names[1]);
}

/* The only index that goes by columns, and by no table; -1: there is no such one. */
static int find_axis(once *o, const tl_expr *e) {
    int found = -1;
    for (int i = 0; i < e->item_count; i++) {
        if (!tl_uses_index(e->items[i], o->names[1])) continue;
        if (found >= 0 || !tl_visit(e->items[i], is_element_of, o)) return -1;
        found = i;
    }
    return found;
}

static emit_value index_at(const once *o, const tl_expr *item, int element) {
    emit_index indices[2];
    emit_scope scope = elements_scope(o->t, o->x, element, true, indices);
    return emit_integer(o->t, item, &scope);
}

/* Where the thread's first column is in the table: the products of 64 bits that find an element are
 * made for it alone, and the loop over columns goes on by strides from there.
 */
static void declare_line(once *o, const tl_expr *e) {
    enum { FAR = 1 << 30 }; /* no length is as long */
    emit *t = o->t;
    int axis = find_axis(o, e);
    bool fits = axis >= 0 && tl_type_bits(e->symbol->parameter->parameter.type) == 32 &&
                !o->x->frame->shape.alternates;
    if (!fits) return;
    emit_value at = index_at(o, e->items[axis], 0);
    if (!at.unrolled.length) return;
    const ftl_plan_tensor *tensor = emit_plan_tensor(t, e->symbol->name);
    once_line line = {.element = e, .axis = axis};
    str table = emit_clean(t, e->symbol->name),
        pointer = emit_format(t, "args.%.*s", STR_ARGS(table));
    line.name = emit_format(t, "%.*s_%d", STR_ARGS(table), ++t->statement_number);
    if (emit_is_wide(at))
        at.same = emit_format(t, "(int)ftl_max_wide(ftl_min_wide(%.*s, %d), -%d)",
                              STR_ARGS(at.same), FAR, FAR);
    emit_text(t, "const int %.*s_from = %.*s;", STR_ARGS(line.name), STR_ARGS(at.same));
    for (int i = 0; i < e->item_count; i++) {
        emit_value item =
            i == axis ? emit_named(emit_format(t, "%.*s_from", STR_ARGS(line.name)), -FAR, FAR)
                      : index_at(o, e->items[i], 0);
        pointer = emit_format(t, "%.*s + %.*s * %.*s", STR_ARGS(pointer),
                              STR_ARGS(emit_within(t, item, VALUES_QUOTIENT)),
                              STR_ARGS(emit_stride(t, tensor, i)));
    }
    emit_text(t, "const auto *const %.*s_line = %.*s;", STR_ARGS(line.name), STR_ARGS(pointer));
    list_push(t->memory, &o->x->lines, line);
}

static const once_line *line_of(const elements_item *x, const tl_expr *e) {
    for (int i = 0; i < x->lines.count; i++)
        if (tl_expr_equal(x->lines.items[i].element, e)) return &x->lines.items[i];
    return NULL;
}

static str stride_of(const once *o, const once_line *line) {
    return emit_stride(o->t, emit_plan_tensor(o->t, line->element->symbol->name), line->axis);
}

static str on_line(const once *o, const once_line *line, int element) {
    emit *t = o->t;
    const tl_symbol *table = line->element->symbol;
    str along = index_at(o, line->element->items[line->axis], element).unrolled;
    emit_value extent = emit_integer(t, table->axes->items[line->axis].extent, NULL);
    str at = emit_format(t, "%.*s_at", STR_ARGS(line->name));
    if (element) at = emit_format(t, "%.*s + %.*s", STR_ARGS(at), STR_ARGS(stride_of(o, line)));
    return emit_format(
        t, "ftl_load_global_%s_if((unsigned)(%.*s_from + %.*s) < (unsigned)(%.*s), %.*s)",
        emit_type_word(table->parameter->parameter.type), STR_ARGS(line->name), STR_ARGS(along),
        STR_ARGS(extent.text), STR_ARGS(at));
}

/* To the next eight columns. */
static void go_on(const once *o, const once_line *line) {
    emit_text(o->t, "%.*s_at += 8 * %.*s;", STR_ARGS(line->name), STR_ARGS(stride_of(o, line)));
}

static str column_at(const once *o, const tl_expr *e, int element) {
    const once_line *line = line_of(o->x, e);
    return line ? on_line(o, line, element) : element_at(o, e, element);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void read_here(const once *o, const tl_expr *e) {
    emit *t = o->t;
    const emit_shape *s = &o->x->frame->shape;
    const char *type = e->symbol->parameter->parameter.type == TL_I32 ? "int" : "float";
    str table = emit_clean(t, e->symbol->name);
    str name = emit_format(t, "%.*s_%d", STR_ARGS(table), ++t->statement_number);
    emit_read read = {.element = e, .name = name, .is_pair = o->of_columns};
    if (o->of_columns) {
        const once_line *line = line_of(o->x, e);
        emit_text(t, "const %s %.*s[2] = {%.*s, %.*s};", type, STR_ARGS(name),
                  STR_ARGS(column_at(o, e, 0)), STR_ARGS(column_at(o, e, 1)));
        if (line) go_on(o, line);
    } else if (tl_uses_index(e, o->names[0])) {
        emit_shape rows = *s;
        rows.part = PART_ROWS;
        read.name = emit_format(t, "%.*s[m16][half]", STR_ARGS(name));
        emit_text(t, "%s %.*s%.*s;", type, STR_ARGS(name), STR_ARGS(emit_row_dimensions(t, s)));
        int opened = emit_open_frame(t, &rows);
        emit_text(t, "%.*s = %.*s;", STR_ARGS(read.name), STR_ARGS(element_at(o, e, 0)));
        emit_close_frame(t, opened);
    } else {
        emit_text(t, "const %s %.*s = %.*s;", type, STR_ARGS(name), STR_ARGS(element_at(o, e, 0)));
    }
    list_push(t->memory, &o->x->once, read);
}

static bool joins(const tl_expr *e) {
    return e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR);
}

/* 'is_mask': of a Mask's own condition all tests are worked out, whatever the others say. */
static void look_at(once *o, const tl_expr *e, bool is_mask) {
    if (!e) return;
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    bool stays = is_mask && (joins(e) || e->kind == TL_NOT);
    look_at(o, e->left, stays);
    if (!joins(e) || stays) look_at(o, e->right, stays);
    for (int i = 0; i < (selects ? 1 : e->item_count); i++) look_at(o, e->items[i], false);
    if (e->kind != TL_ELEMENT || !e->symbol || !e->symbol->parameter) return;
    bool by_row = tl_uses_index(e, o->names[0]), by_column = tl_uses_index(e, o->names[1]);
    if ((by_row && by_column) || !tl_visit(e, names_no_tile, o->t) ||
        emit_find_read(&o->x->once, e))
        return;
    if (by_column == o->of_columns) read_here(o, e);
    else if (by_column && !line_of(o->x, e)) declare_line(o, e);
}

static void look_at_statement(emit *t, elements_item *x, bool of_columns) {
    const emit_shape *s = &x->frame->shape;
    if (s->part != PART_WHOLE || s->is_lines) return;
    once o = {.t = t, .x = x, .of_columns = of_columns};
    elements_index_names(x, o.names);
    for (int i = 0; i < x->s->compute.operand_count; i++)
        look_at(&o, x->s->compute.operands[i].value, false);
    look_at(&o, x->s->compute.condition, true);
}

void once_for_rows(emit *t, elements_item *x) {
    look_at_statement(t, x, false);
}

int once_open_frame(emit *t, elements_item *const *items, int count) {
    const emit_shape *s = &items[0]->frame->shape;
    if (s->part != PART_WHOLE || s->is_lines) return emit_open_frame(t, s);
    emit_loop(t, "m16", s->down);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < items[i]->lines.count; k++) {
            str name = items[i]->lines.items[k].name;
            emit_text(t, "const auto *%.*s_at = %.*s_line;", STR_ARGS(name), STR_ARGS(name));
        }
    emit_loop(t, "n8", s->across);
    for (int i = 0; i < count; i++) look_at_statement(t, items[i], true);
    emit_loop(t, "half", 2);
    return 3;
}
