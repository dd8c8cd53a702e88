/* Parts of shared tiles. A view of a variable that has a shared tile names some of that tile's
 * elements (V_shared of C_shared, where V is the first columns of C). Nothing moves: a part is in
 * the slots of its whole, with all of its rows and some of its columns. A role that waits for a
 * part by name has a cursor of its own on the whole's ring; any other reads it through the whole's.
 */
#include "tl/boxes.h"
#include "translate/emit.h"

/* "offset + name": the index a part's axis gains along the whole's axis; false for anything else.
 */
static bool runs_along(const tl_expr *e, str index, int64_t *offset) {
    int64_t factor;
    *offset = 0;
    if (!tl_index_factor(e, index, &factor) || factor != 1) return false;
    if (e->kind == TL_NAME) return true;
    if (e->kind != TL_BINARY || e->operator!= TL_PLUS) return false;
    const tl_expr *rest = tl_uses_index(e->left, index) ? e->right : e->left;
    const tl_expr *name = rest == e->left ? e->right : e->left;
    return name->kind == TL_NAME && tl_known_integer(rest, offset) && *offset >= 0;
}

/* What the view's expression puts in the place of the whole's tile axis. */
static const tl_expr *item_of(const tl_symbol *view, str index) {
    const tl_expr *element = view->view->value;
    const tl_axes *axes = view->view_base->axes;
    for (int i = 0; axes && i < element->item_count && i < axes->count; i++) {
        if (str_equal(tl_axis_index(axes, i), index)) return element->items[i];
    }
    return NULL;
}

/* Does the whole's tile hold all of that axis? Then it begins at 0. */
static bool holds_axis(const tl_symbol *base, int position) {
    const tl_expr *extent = base->shared.axes[position].extent;
    for (int i = 0; extent && base->axes && i < base->axes->count; i++) {
        if (str_equal(tl_axis_index(base->axes, i), base->shared.axes[position].index))
            return tl_expr_equal(extent, base->axes->items[i].extent);
    }
    return false;
}

/* All rows of the whole, and columns from *first on. */
static bool find_columns(const tl_symbol *view, int *rows, int *columns, int *first) {
    const tl_symbol *base = view->view_base;
    const tl_tile *part = &view->shared, *whole = &base->shared;
    int64_t offset, height, width;
    if (part->axis_count != 2 || whole->axis_count != 2 || !view->view ||
        view->view->value->kind != TL_ELEMENT)
        return false;
    const tl_expr *down = item_of(view, whole->axes[0].index);
    const tl_expr *along = item_of(view, whole->axes[1].index);
    if (!down || !along || down->kind != TL_NAME || !str_equal(down->text, part->axes[0].index))
        return false;
    if (!runs_along(along, part->axes[1].index, &offset) || !holds_axis(base, 1)) return false;
    if (!tl_known_integer(part->axes[0].extent, &height) ||
        !tl_known_integer(part->axes[1].extent, &width))
        return false;
    if (height < 1 || width < 1 || height > LAYOUT_EXTENT_MAX || width > LAYOUT_EXTENT_MAX ||
        offset > LAYOUT_EXTENT_MAX)
        return false;
    *rows = (int)height, *columns = (int)width, *first = (int)offset;
    return true;
}

static diag_range range_of(const emit *t, const tl_symbol *view) {
    return view->view ? view->view->range : t->kernel->range;
}

static void make_part(emit *t, const tl_symbol *view) {
    emit_tile *whole = emit_tile_in(t, view->shared.part_of, TL_SHARED);
    int rows, columns, first;
    if (!whole) return;
    if (!find_columns(view, &rows, &columns, &first) || rows != whole->rows ||
        first + columns > whole->columns) {
        emit_unsupported(t, range_of(t, view), view->name,
                         "a part of a shared tile is all of its rows and some of its columns, from "
                         "a number that is known on");
        return;
    }
    emit_tile *part = arena_new(t->memory, emit_tile);
    *part = (emit_tile){.symbol = view, .space = TL_SHARED, .part_of = whole};
    part->tile = &view->shared;
    part->name = emit_format(t, "%.*s_shared", STR_ARGS(view->name));
    part->rows = rows, part->columns = columns;
    part->first_column = whole->first_column + first;
    list_push(t->memory, &t->parts, part);
}

static bool is_named(const emit *t, const tl_symbol *s) {
    for (tl_statement *at = t->kernel->body.first; at; at = tl_next(at, NULL)) {
        if (at->kind == TL_WAIT && at->sync.what->symbol == s) return true;
        if (at->kind == TL_COPY && (at->copy.from == TL_SHARED || at->copy.to == TL_SHARED)) {
            tl_end from = tl_copy_source(at), to = tl_copy_target(at);
            if ((from.space == TL_SHARED && from.symbol == s) ||
                (to.space == TL_SHARED && to.symbol == s))
                return true;
        }
        if (at->kind != TL_COMPUTE) continue;
        for (int i = 0; i < at->compute.operand_count; i++) {
            const tl_expr *e = at->compute.operands[i].value;
            if (e->kind == TL_NAME && e->symbol == s && e->space != TL_REGISTER) return true;
        }
    }
    return false;
}

/* Parts of parts come after what they are parts of: as deep as views may be in one another. */
void emit_make_parts(emit *t) {
    for (int round = 0, before = -1; round < TL_NESTING_MAX && before != t->parts.count; round++) {
        before = t->parts.count;
        for (int i = 0; i < t->kernel->symbol_count && !t->failed; i++) {
            const tl_symbol *s = t->kernel->symbols[i];
            if (s->kind != TL_SYMBOL_VARIABLE || !s->shared.part_of) continue;
            if (!emit_tile_in(t, s, TL_SHARED) && is_named(t, s)) make_part(t, s);
        }
    }
}

/* A part lies where its columns do. Lines of a panel begin at multiples of the swizzle; in whole
 * lines its units are exchanged inside runs of that many bytes.
 */
static void place_part(emit *t, emit_tile *part) {
    const emit_tile own = *part;
    const shared_layout *l = &own.part_of->store;
    const emit_tile *root = own.part_of;
    while (root->part_of) root = root->part_of;
    int unit = l->swizzle_bytes, bytes = l->element_bits / 8;
    int first = own.first_column * bytes, width = own.columns * bytes;
    if (l->by_columns || first % unit || width % unit) {
        emit_unsupported(
            t, range_of(t, own.symbol), own.symbol->name,
            "a part of a shared tile begins and ends at multiples of the %d bytes of its "
            "swizzle, and the tile lies by rows",
            unit);
        return;
    }
    *part = *root;
    part->symbol = own.symbol, part->tile = own.tile, part->name = own.name;
    part->columns = own.columns, part->part_of = own.part_of;
    part->first_column = own.first_column;
    part->store.columns = own.columns;
    if (l->panels) {
        part->store.panels = width / unit;
        part->offset_bytes += (int64_t)(first / unit) * shared_panel_bytes(&root->store);
    } else {
        part->offset_bytes += first;
    }
}

void emit_place_parts(emit *t) {
    for (int i = 0; i < t->parts.count && !t->failed; i++) place_part(t, t->parts.items[i]);
}

const emit_tile *emit_cursor(emit *t, const emit_tile *tile) {
    const model *m = t->model;
    if (tile->space != TL_SHARED) return tile;
    int cursor =
        model_find_cursor(m, (int)(t->now - m->roles), (int)(tile->bound - m->tiles), tile->symbol);
    if (cursor >= 0) return emit_tile_in(t, m->cursors[cursor].symbol, TL_SHARED);
    while (tile->part_of) tile = tile->part_of;
    return tile;
}
