/* Where the elements of tensors and views are in global memory. A view is followed down to its
 * tensor, with index expressions put into one another; what is affine in the tile's rows becomes a
 * base and a stride, anything else is worked out row by row.
 */
#include "tl/boxes.h"
#include "translate/emit.h"

enum { VIEW_DEPTH_MAX = 16 };

/* The indices of a tensor or view while it is followed. */
typedef struct places {
    emit_value values[TL_AXES_MAX]; /* at the row and column asked for */
    tl_course courses[TL_AXES_MAX];
} places;

typedef struct route {
    emit *t;
    emit_address *out;
    str offset; /* elements, or bytes of packed ones, of type long long */
    str row_stride, column_stride;
    bool row_affine, failed;
    bool may_lie_across; /* columns need not lie side by side */
    str selected;        /* the conditions of `select`, at the row asked for */
    int section;         /* rows of the tile, or of parts of it, that a folded index does not cut */
    emit_corner *corner; /* or NULL: not asked for */
} route;

static str times(emit *t, int64_t factor, str what) {
    return factor == 1 ? what : emit_format(t, "%lld * %.*s", (long long)factor, STR_ARGS(what));
}

static str join(emit *t, str sum, str term) {
    return sum.length ? emit_format(t, "%.*s + %.*s", STR_ARGS(sum), STR_ARGS(term)) : term;
}

/* An index times a stride (long long). Where the stride has 64 bits, indices known not to be
 * negative are made unsigned: a product with a zero-extended factor takes fewer instructions and no
 * register for its upper half. Two factors of 32 bits take one instruction.
 */
static str product_text(emit *t, emit_value v, str stride, bool is_short) {
    if (v.low == 1 && v.high == 1) return stride;
    if (is_short || v.low < 0 || emit_is_wide(v) || v.low == v.high) {
        return emit_format(t, "%.*s * %.*s", STR_ARGS(emit_within(t, v, 13)), STR_ARGS(stride));
    }
    return emit_format(t, "(unsigned)%.*s * %.*s", STR_ARGS(emit_within(t, v, 15)),
                       STR_ARGS(stride));
}

/* A box: one axis gains the rows, the contiguous one the columns, each one by one. */
static void end_at_corner(route *r, const ftl_plan_tensor *tensor, const places *at) {
    emit_corner *c = r->corner;
    *c = (emit_corner){.tensor = (int)(tensor - r->t->plan->tensors), .count = tensor->axis_count};
    for (int i = 0; i < tensor->axis_count; i++) c->at[i] = at->values[i];
    r->failed |= !tl_box_axes(at->courses, c->count, &c->row_axis, &c->column_axis) ||
                 tensor->axes[c->column_axis].stride_offset >= 0;
    if (r->failed || !r->selected.length) return;
    /* What is left out is a box before the tensor's beginning: all of it is 0. */
    emit_value *row = &c->at[c->row_axis];
    const char *format = emit_is_wide(*row) ? "(%.*s ? (int)(%.*s) : -%d)" : "(%.*s ? %.*s : -%d)";
    row->text = emit_format(r->t, format, STR_ARGS(r->selected), STR_ARGS(row->text), r->section);
    row->precedence = 16, row->low = -EMIT_SIZE_MAX, row->high = EMIT_SIZE_MAX;
}

/* Of two elements a byte the offset is that of the byte: lines begin at even ones. */
static str contiguous_text(emit *t, emit_value v, tl_type type) {
    if (tl_is_packed(type)) return emit_format(t, "(%.*s >> 1)", STR_ARGS(emit_within(t, v, 12)));
    return emit_within(t, v, 12);
}

static void end_at_tensor(route *r, const tl_symbol *s, const places *at) {
    emit *t = r->t;
    const ftl_plan_tensor *tensor = emit_plan_tensor(t, s->name);
    if (!tensor) {
        r->failed = true;
        return;
    }
    if (r->corner) {
        end_at_corner(r, tensor, at);
        return;
    }
    r->out->symbol = s;
    r->out->type = s->parameter->parameter.type;
    r->row_affine = true;
    for (int i = 0; i < tensor->axis_count; i++) {
        const tl_course *p = &at->courses[i];
        emit_value value = at->values[i];
        bool contiguous = tensor->axes[i].stride_offset < 0;
        str stride = emit_pointer_stride(t, tensor, i);
        if (contiguous) r->out->origin_multiple = p->multiple;
        if (value.low != 0 || value.high != 0) {
            r->offset =
                join(t, r->offset,
                     contiguous ? contiguous_text(t, value, r->out->type)
                                : product_text(t, value, stride, tensor->axes[i].is_stride_short));
        }
        if (!p->is_affine) r->row_affine = false;
        if (p->row) r->row_stride = join(t, r->row_stride, times(t, p->row, stride));
        if (!p->column || (contiguous && p->column == 1)) continue;
        if (!r->may_lie_across) r->failed = true;
        r->column_stride = join(t, r->column_stride, times(t, p->column, stride));
    }
}

static void follow(route *r, const tl_symbol *s, const places *at, int depth);

static void refuse_view(route *r, const tl_symbol *s, const char *why) {
    emit_unsupported(r->t, s->view->range, s->name, "%s", why);
    r->failed = true;
}

static void select_where(route *r, const tl_expr *condition, const emit_scope *scope) {
    emit_value v = emit_expression(r->t, condition, scope);
    str text = emit_format(r->t, "(%.*s)", STR_ARGS(v.text));
    r->selected = r->selected.length
                      ? emit_format(r->t, "%.*s && %.*s", STR_ARGS(r->selected), STR_ARGS(text))
                      : text;
}

/* Rows that the condition leaves out read 0. Each row is asked by itself; a box once for all of it.
 */
static void select_rows(route *r, const tl_symbol *s, const emit_scope *scope,
                        const tl_courses *of) {
    const tl_expr *condition, *element = tl_shown_element(s->view, &condition);
    tl_uniform uniform = {0};
    for (int i = 0; i < of->count; i++) {
        if (of->items[i].column && tl_uses_index(condition, of->names[i])) {
            refuse_view(r, s, "what it leaves out may depend on a tile's rows, not on its columns");
            return;
        }
    }
    if (r->corner && !tl_box_selects(r->t->kernel, condition, element, of, &r->section, &uniform)) {
        r->failed = true;
        return;
    }
    if (!r->corner) select_where(r, condition, scope);
    for (int i = 0; i < uniform.count; i++) select_where(r, uniform.parts[i], scope);
}

static void follow_view(route *r, const tl_symbol *s, const places *at, int depth) {
    emit *t = r->t;
    const tl_axes *axes = &s->view->axes;
    const tl_expr *condition, *e = tl_shown_element(s->view, &condition);
    if (!e || e->item_count > TL_AXES_MAX || depth > VIEW_DEPTH_MAX) {
        refuse_view(r, s,
                    "only views of the forms TENSOR[...] and select(CONDITION, TENSOR[...], 0) can "
                    "be moved");
        return;
    }
    emit_index indices[TL_AXES_MAX] = {0};
    str names[TL_AXES_MAX] = {0};
    for (int i = 0; i < axes->count; i++) {
        names[i] = tl_axis_index(axes, i);
        indices[i] = (emit_index){names[i], at->values[i]};
    }
    emit_scope scope = {.indices = indices, .index_count = axes->count};
    tl_courses of = {names, at->courses, axes->count};
    places next = {0};
    if (condition) select_rows(r, s, &scope, &of);
    for (int i = 0; i < e->item_count && !r->failed; i++) {
        next.values[i] = emit_integer(t, e->items[i], &scope);
        if (tl_course_of(t->kernel, e->items[i], &of, &r->section, &next.courses[i])) continue;
        emit_unsupported(t, e->items[i]->range, s->name, "its columns do not lie side by side");
        r->failed = true;
    }
    if (!r->failed) follow(r, e->symbol, &next, depth + 1);
}

static void follow(route *r, const tl_symbol *s, const places *at, int depth) {
    if (!s) r->failed = true;
    else if (s->view) follow_view(r, s, at, depth);
    else if (s->parameter) end_at_tensor(r, s, at);
    else r->failed = true;
}

/* --- the coordinate of a Copy ----------------------------------------------------------------- */

static const tl_symbol *global_symbol(const tl_statement *s) {
    tl_end end = s->copy.from == TL_GLOBAL ? tl_copy_source(s) : tl_copy_target(s);
    return end.symbol && end.symbol->variable ? end.symbol->variable : end.symbol;
}

static emit_value spot_value(emit *t, const tl_place *at, int axis, emit_value extent) {
    if (axis >= at->count || at->items[axis].is_all) return emit_constant(t, 0);
    emit_value v = emit_integer(t, at->items[axis].at, NULL);
    return at->items[axis].is_block ? emit_product(t, v, extent) : v;
}

static int64_t spot_multiple(const tl_place *at, int axis, int tile_extent) {
    if (axis >= at->count || at->items[axis].is_all) return 0;
    int64_t multiple = tl_divisor(at->items[axis].at);
    return at->items[axis].is_block ? multiple * tile_extent : multiple;
}

typedef struct coordinate {
    const tl_statement *copy;
    const tl_axes *axes;
    int tile_axes[TL_AXES_MAX], count; /* which axes the tile has */
    emit_value origin[TL_AXES_MAX];    /* of every axis of the tensor or view */
    int64_t multiple[TL_AXES_MAX];     /* what divides it */
} coordinate;

static bool read_coordinate(emit *t, const tl_statement *s, const tl_symbol *symbol,
                            const emit_tile *tile, coordinate *c) {
    c->copy = s;
    c->axes = symbol->view ? &symbol->view->axes : symbol->axes;
    if (!c->axes) return false;
    c->count = tl_copy_axes(s, c->axes, c->tile_axes);
    if (c->count != (tile->is_vector ? 1 : 2))
        return emit_unsupported(t, s->range, symbol->name,
                                "the copy moves %d axes and its tile has %d", c->count,
                                tile->is_vector ? 1 : 2);
    for (int i = 0; i < c->axes->count; i++) {
        int extent = 1;
        if (i == c->tile_axes[0]) extent = tile->rows;
        if (c->count == 2 && i == c->tile_axes[1]) extent = tile->columns;
        emit_value named = emit_constant(t, 1);
        if (i == c->tile_axes[0]) named = emit_extent(t, tile, 0);
        if (c->count == 2 && i == c->tile_axes[1]) named = emit_extent(t, tile, 1);
        c->origin[i] = spot_value(t, &s->copy.place, i, named);
        c->multiple[i] = spot_multiple(&s->copy.place, i, extent);
    }
    return true;
}

/* Names mean what they mean at a place of the next tile, until as many are left as there were. */
static int enter_place(emit *t, const tl_statement *s) {
    int names = t->names.count;
    for (int i = 0; tl_copy_is_of_next(s) && i < t->walk.next_names.count; i++)
        list_push(t->memory, &t->names, t->walk.next_names.items[i]);
    return names;
}

static void follow_from(route *r, const tl_symbol *symbol, const coordinate *c, str row,
                        str column) {
    emit *t = r->t;
    places at = {0};
    for (int i = 0; i < c->axes->count; i++) {
        bool is_row = i == c->tile_axes[0], is_column = c->count == 2 && i == c->tile_axes[1];
        str more = is_row ? row : is_column ? column : (str){0};
        at.values[i] = c->origin[i];
        if (more.length)
            at.values[i] =
                emit_sum(t, at.values[i],
                         (emit_value){.text = more, .precedence = 12, .low = 0, .high = INT16_MAX});
        at.courses[i] = (tl_course){.row = is_row,
                                    .column = is_column,
                                    .is_affine = true,
                                    .multiple = is_row ? 1 : c->multiple[i],
                                    .start = c->multiple[i]};
    }
    int names = enter_place(t, c->copy);
    follow(r, symbol, &at, 0);
    t->names.count = names;
}

/* --- tiles that are before an end ------------------------------------------------------------- */

static bool rows_are_whole(const emit *t, const tl_statement *s, const coordinate *c, int size) {
    const tl_place *at = &s->copy.place;
    int axis = c->tile_axes[0];
    const tl_expr *length = c->axes->items[axis].extent;
    if (axis >= at->count || at->items[axis].is_all || !at->items[axis].is_block) return false;
    return tl_is_whole(t->kernel, s, at->items[axis].at, size, length);
}

static void set_rest(emit *t, const coordinate *c, int which, int tile_extent, emit_value *left,
                     bool *complete, int64_t *multiple) {
    int axis = c->tile_axes[which], names = enter_place(t, c->copy);
    emit_value extent = emit_integer(t, c->axes->items[axis].extent, NULL),
               origin = c->origin[axis];
    t->names.count = names;
    bool is_known = extent.low == extent.high && extent.low > 0;
    *multiple = is_known ? tl_common_divisor(extent.low, c->multiple[axis]) : 1;
    *complete = origin.low >= 0 && origin.high <= extent.low - tile_extent;
    *left = emit_difference(t, extent, origin);
    if (!emit_is_wide(*left)) return;
    left->text = emit_format(t, "(int)ftl_max_wide(ftl_min_wide(%.*s, %dLL), 0LL)",
                             STR_ARGS(left->text), EMIT_SIZE_MAX);
    left->precedence = 15, left->low = 0, left->high = EMIT_SIZE_MAX;
}

const char *emit_pointer_type(tl_type type, bool store) {
    switch (type) {
    case TL_F32: return store ? "float *" : "const float *";
    case TL_I32: return store ? "int *" : "const int *";
    case TL_E4M3:
    case TL_E5M2:
    case TL_I8:
    case TL_I4:
    case TL_U4: return store ? "unsigned char *" : "const unsigned char *";
    default: return store ? "unsigned short *" : "const unsigned short *";
    }
}

static str pointer_text(emit *t, const tl_symbol *s, str offset) {
    str name = emit_clean(t, s->name);
    if (!offset.length) return emit_format(t, "args.%.*s", STR_ARGS(name));
    return emit_format(t, "args.%.*s + %.*s", STR_ARGS(name), STR_ARGS(offset));
}

static bool find_address(emit *t, const tl_statement *s, const emit_tile *tile, bool may_lie_across,
                         emit_address *out) {
    *out = (emit_address){.statement = s};
    const tl_symbol *symbol = global_symbol(s);
    coordinate c;
    if (!symbol || !read_coordinate(t, s, symbol, tile, &c)) return false;
    route r = {.t = t, .out = out, .section = tile->rows, .may_lie_across = may_lie_across};
    follow_from(&r, symbol, &c, (str){0}, (str){0});
    if (r.failed) {
        if (!t->failed)
            emit_unsupported(t, s->range, symbol->name, "its elements do not lie in lines");
        return false;
    }
    out->base = pointer_text(t, out->symbol, r.offset);
    out->is_selected = r.selected.length > 0;
    bool is_affine = r.row_affine && !out->is_selected;
    out->row_affine = is_affine && r.section == tile->rows;
    out->section = is_affine ? r.section : 1;
    if (out->is_selected && s->copy.to == TL_GLOBAL)
        return emit_unsupported(t, s->range, symbol->name,
                                "a view that leaves elements out is read only");
    out->row_stride = r.row_stride.length ? r.row_stride : STR("0");
    out->column_stride = r.column_stride;
    out->pointer_type = str_from(emit_pointer_type(out->type, s->copy.to == TL_GLOBAL));
    int64_t rows_multiple;
    set_rest(t, &c, 0, tile->rows, &out->rows_left, &out->rows_complete, &rows_multiple);
    out->rows_complete |= rows_are_whole(t, s, &c, tile->rows);
    out->columns_complete = true, out->columns_multiple = 1;
    if (c.count == 2) {
        set_rest(t, &c, 1, tile->columns, &out->columns_left, &out->columns_complete,
                 &out->columns_multiple);
    }
    return true;
}

bool emit_address_of(emit *t, const tl_statement *s, const emit_tile *tile, emit_address *out) {
    return find_address(t, s, tile, false, out);
}

bool emit_address_across(emit *t, const tl_statement *s, const emit_tile *tile, emit_address *out) {
    return find_address(t, s, tile, true, out);
}

static bool refuse_box(emit *t, const tl_statement *s, const tl_symbol *symbol,
                       const emit_tile *tile) {
    const tl_symbol *base = symbol;
    while (base && base->view) base = base->view_base;
    if (t->failed) return false;
    if (base == symbol)
        return emit_unsupported(
            t, s->range, symbol->name,
            "the tile is no box of its tensor: columns of the contiguous axis, rows of one other");
    return emit_unsupported(
        t, s->range, symbol->name,
        "the tile is no box of %.*s; where a view divides an index, or takes its rest, the divisor "
        "and the tile's %d rows have to have a common divisor of %d or more (`where N %% %d == "
        "0`), "
        "and where the view may end within the tile, a condition has to leave that tile out",
        base ? (int)base->name.length : 0, base ? base->name.data : "", tile->rows, TL_BOX_ROWS,
        tile->rows);
}

/* The map clips at the tensor's end, not at that of a view of it. */
static bool ends_with_tensor(emit *t, const tl_statement *s, const emit_tile *tile,
                             const coordinate *c, const tl_symbol *view, const tl_axes *tensor,
                             const emit_corner *at) {
    emit_value left;
    bool complete[2];
    int64_t multiple;
    const int axes[2] = {at->row_axis, at->column_axis}, sizes[2] = {tile->rows, tile->columns};
    for (int i = 0; i < 2; i++) {
        set_rest(t, c, i, sizes[i], &left, &complete[i], &multiple);
        complete[i] |=
            tl_expr_equal(c->axes->items[c->tile_axes[i]].extent, tensor->items[axes[i]].extent);
    }
    const tl_axis *rows = &c->axes->items[c->tile_axes[0]];
    return (complete[0] || rows_are_whole(t, s, c, tile->rows) ||
            tl_fills_axis(view, tl_axis_index(c->axes, c->tile_axes[0]), rows->extent)) &&
           complete[1];
}

bool emit_corner_of(emit *t, const tl_statement *s, const emit_tile *tile, int row,
                    emit_corner *out) {
    emit_address ignored = {.statement = s};
    const tl_symbol *symbol = global_symbol(s);
    coordinate c;
    if (!symbol || tile->is_vector || !read_coordinate(t, s, symbol, tile, &c)) return false;
    route r = {.t = t, .out = &ignored, .section = tile->rows, .corner = out};
    follow_from(&r, symbol, &c, row ? emit_format(t, "%d", row) : (str){0}, (str){0});
    out->rows = r.section;
    r.failed |= r.section < tile->rows && r.section % TL_BOX_ROWS != 0;
    const tl_symbol *base = symbol;
    while (base && base->view) base = base->view_base;
    if (!r.failed && base != symbol)
        r.failed =
            !base || !base->axes || !ends_with_tensor(t, s, tile, &c, symbol, base->axes, out);
    return !r.failed || refuse_box(t, s, symbol, tile);
}

static bool follow_again(route *r, const emit_address *a, emit_address *scratch, str row,
                         str column) {
    emit *t = r->t;
    *scratch = *a;
    r->out = scratch;
    const tl_symbol *symbol = global_symbol(a->statement);
    coordinate c;
    emit_tile *tile = NULL;
    tl_end end = a->statement->copy.from == TL_GLOBAL ? tl_copy_target(a->statement)
                                                      : tl_copy_source(a->statement);
    tile = emit_tile_in(t, end.symbol, end.space);
    if (!tile || !read_coordinate(t, a->statement, symbol, tile, &c)) return false;
    r->section = tile->rows;
    r->may_lie_across = a->column_stride.length > 0;
    follow_from(r, symbol, &c, row, column);
    return true;
}

str emit_pointer(emit *t, const emit_address *a, str row, str column) {
    emit_address scratch;
    route r = {.t = t};
    if (!follow_again(&r, a, &scratch, row, column)) return STR("0");
    return pointer_text(t, scratch.symbol, r.offset);
}

str emit_selected(emit *t, const emit_address *a, str row) {
    emit_address scratch;
    route r = {.t = t};
    if (!a->is_selected || !follow_again(&r, a, &scratch, row, (str){0})) return (str){0};
    return r.selected;
}
