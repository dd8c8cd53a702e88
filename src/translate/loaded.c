/* Elements of tables that elements of a tile share: a bias of the row, what a query's scores are
 * subtracted from. A load is never dropped by the compiler, so what all columns of a row name is
 * loaded once a row, and what all rows of a column name once a column, before the loops over the
 * tile's elements.
 */
#include "translate/elements.h"
#include "translate/values.h"

#include "tl/boxes.h"

enum { REGISTERS_MOST = 16 }; /* of one table's elements */

/* A statement whose tables are looked for, and the names of its rows and columns. */
typedef struct loaded_search {
    emit *t;
    const elements_item *x;
    str names[2];
} loaded_search;

static bool is_no_tile(void *context, const tl_expr *e) {
    return e->kind != TL_NAME || !emit_tile_of(context, e);
}

/* Where in the loops the element is, for the column 'element' of a pair. */
static str place_in_loops(emit *t, const emit_loaded *h, int element) {
    if (h->by_row) return h->is_lines ? STR("[down]") : STR("[m16][half]");
    return h->by_column ? emit_format(t, "[n8][%d]", element) : STR("");
}

static void load(emit *t, const elements_item *x, const emit_loaded *h, int element) {
    const emit_shape *s = &x->frame->shape;
    str names[2], offset[2] = {elements_row_offset(t, s), elements_column_offset(t, s, element)};
    emit_index indices[2];
    elements_index_names(x, names);
    for (int i = 0; i < 2; i++) {
        str at = emit_format(t, "(%.*s + %.*s)", STR_ARGS(elements_index_first(t, names[i])),
                             STR_ARGS(offset[i]));
        indices[i] = (emit_index){names[i], emit_named(at, 0, EMIT_SIZE_MAX)};
    }
    emit_scope scope = {.indices = indices, .index_count = 2};
    str value = emit_expression(t, h->element, &scope).text;
    emit_text(t, "%.*s%.*s = %.*s;", STR_ARGS(h->name), STR_ARGS(place_in_loops(t, h, element)),
              STR_ARGS(value));
}

static void declare(emit *t, const elements_item *x, const emit_loaded *h) {
    const emit_shape *s = &x->frame->shape;
    const char *type = h->is_real ? "float" : "int";
    if (h->by_row) {
        emit_text(t, "%s %.*s%.*s;", type, STR_ARGS(h->name), STR_ARGS(emit_row_dimensions(t, s)));
        emit_loop(t, s->is_lines ? "down" : "m16", s->down);
        if (!s->is_lines) emit_loop(t, "half", 2);
        load(t, x, h, 0);
        if (!s->is_lines) emit_close(t);
        emit_close(t);
    } else if (h->by_column) {
        emit_text(t, "%s %.*s[%d][2];", type, STR_ARGS(h->name), s->across);
        emit_loop(t, "n8", s->across);
        for (int element = 0; element < 2; element++) load(t, x, h, element);
        emit_close(t);
    } else {
        emit_text(t, "%s %.*s;", type, STR_ARGS(h->name));
        load(t, x, h, 0);
    }
}

/* Is it named more often than it is loaded so, and are there registers for it? */
static bool pays(const emit_shape *s, const emit_loaded *h) {
    int rows = s->is_lines ? s->down : 2 * s->down, columns = 2 * s->across;
    if (h->by_row && h->by_column) return false;
    if (h->by_row) return rows <= REGISTERS_MOST;
    return !h->by_column || (!s->is_lines && rows > 1 && columns <= REGISTERS_MOST);
}

static bool hold(const loaded_search *of, const tl_expr *e) {
    emit *t = of->t;
    const emit_shape *s = &of->x->frame->shape;
    if (t->loaded_count == EMIT_LOADED_MAX || e->kind != TL_ELEMENT || !e->symbol->parameter ||
        !tl_visit(e, is_no_tile, t))
        return false;
    emit_loaded h = {.element = e,
                     .is_real = e->symbol->parameter->parameter.type != TL_I32,
                     .is_lines = s->is_lines,
                     .by_row = of->names[0].length && tl_uses_index(e, of->names[0]),
                     .by_column = of->names[1].length && tl_uses_index(e, of->names[1])};
    if (!pays(s, &h)) return false;
    h.name =
        emit_format(t, "%.*s_%d", STR_ARGS(emit_clean(t, e->symbol->name)), ++t->statement_number);
    declare(t, of->x, &h);
    t->loaded[t->loaded_count++] = h;
    return true;
}

/* Of what is worked out whenever the expression is: not a choice's values, nor what a test before
 * may decide. There an index may be outside of its table.
 */
static void find(const loaded_search *of, const tl_expr *e) {
    if (!e || hold(of, e)) return;
    bool chooses = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    bool is_lazy = e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR);
    find(of, e->left);
    if (!is_lazy) find(of, e->right);
    for (int i = 0; i < (chooses ? 1 : e->item_count); i++) find(of, e->items[i]);
}

/* All tests of a Mask are worked out; those that have limits were already. */
static void find_in_tests(const loaded_search *of, const elements_mask *m, const tl_expr *e) {
    for (int i = 0; e && i < m->count; i++)
        if (m->limits[i].test == e) return;
    bool is_joined = e && e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR);
    if (!is_joined && !(e && e->kind == TL_NOT)) {
        find(of, e);
        return;
    }
    find_in_tests(of, m, e->left);
    if (is_joined) find_in_tests(of, m, e->right);
}

void loaded_declare(emit *t, const elements_mask *m) {
    const elements_item *x = m->x;
    const tl_compute *c = &x->s->compute;
    loaded_search of = {.t = t, .x = x};
    if (x->frame->shape.part != PART_WHOLE || x->frame->is_vector) return;
    elements_index_names(x, of.names);
    for (int i = 0; i < c->operand_count; i++) find(&of, c->operands[i].value);
    find_in_tests(&of, m, c->condition);
}

bool emit_find_loaded(emit *t, const tl_expr *e, const emit_scope *scope, emit_value *out) {
    for (int i = 0; i < t->loaded_count; i++) {
        const emit_loaded *h = &t->loaded[i];
        if (h->element != e) continue;
        str place = place_in_loops(t, h, scope->element);
        str text = emit_format(t, "%.*s%.*s", STR_ARGS(h->name), STR_ARGS(place));
        *out = (emit_value){.text = text,
                            .precedence = VALUES_PRIMARY,
                            .is_real = h->is_real,
                            .low = INT32_MIN,
                            .high = INT32_MAX};
        return true;
    }
    return false;
}
