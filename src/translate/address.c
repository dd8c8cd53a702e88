/* Where the elements of tensors and views are in global memory. A view is followed down to its
 * tensor, with index expressions put into one another; what is affine in the tile's rows becomes a
 * base and a stride, anything else is worked out row by row.
 */
#include "translate/emit.h"

enum { VIEW_DEPTH_MAX = 16 };

/* One index of a tensor or view while it is followed. */
typedef struct place {
    emit_value value;    /* at the row and column asked for */
    int64_t row, column; /* what it gains from one row or column to the next */
    bool is_affine;      /* in rows */
    int64_t multiple;    /* what divides it in every row, at column 0; 0: it is 0 there */
    int64_t start;       /* the same, in the tile's first row */
} place;

typedef struct route {
    emit *t;
    emit_address *out;
    str offset; /* elements, of type long long */
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

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* What the index names of a view stand for. */
typedef struct meanings {
    const emit_index *indices;
    const place *places;
    int count;
    bool at_start; /* in the tile's first row alone */
} meanings;

/* What divides an index expression, as far as is known before launch; 0: it is 0. */
static int64_t multiple_of(const tl_expr *e, const meanings *m, int depth) {
    int64_t value;
    if (depth > TL_HEIGHT_MAX) return 1;
    if (tl_known_integer(e, &value)) return value == INT64_MIN ? 1 : value < 0 ? -value : value;
    if (e->kind == TL_NEGATE) return multiple_of(e->left, m, depth + 1);
    if (e->kind == TL_NAME) {
        for (int i = 0; i < m->count; i++) {
            if (!emit_uses_index(e, m->indices[i].name)) continue;
            return m->at_start ? m->places[i].start : m->places[i].multiple;
        }
        const tl_symbol *s = e->symbol;
        bool is_let = s && s->kind == TL_SYMBOL_CONSTANT && s->value;
        return is_let ? multiple_of(s->value, &(meanings){0}, depth + 1) : 1;
    }
    bool sums = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (!sums && !(e->kind == TL_BINARY && e->operator== TL_TIMES)) return 1;
    int64_t left = multiple_of(e->left, m, depth + 1);
    int64_t right = multiple_of(e->right, m, depth + 1), product;
    if (sums) return common_divisor(left, right);
    return __builtin_mul_overflow(left, right, &product) ? 1 : product;
}

/* The most rows that divide the section, x where the tile begins, and n. */
static int common_section(const route *r, const tl_expr *x, const tl_expr *n, const meanings *m) {
    int64_t multiple = common_divisor(r->section, multiple_of(x, m, 0));
    for (int rows = (int)multiple; rows > 1; rows--)
        if (multiple % rows == 0 && emit_is_multiple(r->t, n, rows, 0)) return rows;
    return 1;
}

/* What e gains from one of a section's rows to the next, where an index is folded: with x a
 * multiple of the section in the tile's first row, and n a multiple of it too, x/n is the same in
 * all of a section's rows and x % n gains one. So a page, or a group of heads, that is as long as
 * some tiles is a box, and a tile that lies in several pages is a box in each. Makes sections as
 * short as that takes.
 */
static bool folded_gain(route *r, const tl_expr *e, const meanings *m, int index, int64_t *gain,
                        int depth) {
    int64_t a, b;
    if (depth > TL_HEIGHT_MAX) return false;
    if (emit_coefficient(e, m->indices[index].name, gain)) return true;
    bool is_floor = e->kind == TL_CALL && e->function == TL_FUNCTION_FLOOR;
    if (is_floor) return folded_gain(r, e->items[0], m, index, gain, depth + 1);
    for (int i = 0; e->kind == TL_ELEMENT && i < e->item_count; i++) {
        if (!folded_gain(r, e->items[i], m, index, gain, depth + 1) || *gain) return false;
        if (i + 1 == e->item_count) return true;
    }
    if (e->kind != TL_BINARY) return false;
    if (e->operator== TL_PLUS || e->operator== TL_MINUS) {
        if (!folded_gain(r, e->left, m, index, &a, depth + 1) ||
            !folded_gain(r, e->right, m, index, &b, depth + 1))
            return false;
        *gain = e->operator== TL_PLUS ? a + b : a - b;
        return true;
    }
    bool divides = e->operator== TL_OVER && e->division != TL_DIVIDE_UP;
    if (!divides && e->operator!= TL_MODULO) return false;
    if (!folded_gain(r, e->left, m, index, &a, depth + 1) || a != 1) return false;
    *gain = divides ? 0 : 1;
    int section = common_section(r, e->left, e->right, m);
    if (section == 1 && r->section > 1) return false;
    r->section = section;
    return true;
}

/* A box: one axis gains the rows, the contiguous one the columns, each one by one. */
static void end_at_corner(route *r, const ftl_plan_tensor *tensor, const place *places) {
    emit_corner *c = r->corner;
    *c = (emit_corner){.tensor = (int)(tensor - r->t->plan->tensors),
                       .count = tensor->axis_count,
                       .row_axis = -1,
                       .column_axis = -1};
    for (int i = 0; i < tensor->axis_count; i++) {
        const place *p = &places[i];
        c->at[i] = p->value;
        if (p->row || !p->is_affine) {
            r->failed |= p->row != 1 || p->column || !p->is_affine || c->row_axis >= 0;
            c->row_axis = i;
        } else if (p->column) {
            r->failed |= p->column != 1 || tensor->axes[i].stride_offset >= 0;
            c->column_axis = i;
        }
    }
    r->failed |= c->row_axis < 0 || c->column_axis < 0;
}

static void end_at_tensor(route *r, const tl_symbol *s, const place *places) {
    emit *t = r->t;
    const ftl_plan_tensor *tensor = emit_plan_tensor(t, s->name);
    if (!tensor) {
        r->failed = true;
        return;
    }
    if (r->corner) {
        end_at_corner(r, tensor, places);
        return;
    }
    r->out->symbol = s;
    r->out->type = s->parameter->parameter.type;
    r->row_affine = true;
    for (int i = 0; i < tensor->axis_count; i++) {
        const place *p = &places[i];
        bool contiguous = tensor->axes[i].stride_offset < 0;
        str stride = emit_stride(t, tensor, i);
        if (contiguous) r->out->origin_multiple = p->multiple;
        if (p->value.low != 0 || p->value.high != 0) {
            r->offset = join(
                t, r->offset,
                contiguous ? emit_within(t, p->value, 12)
                           : product_text(t, p->value, stride, tensor->axes[i].is_stride_short));
        }
        if (!p->is_affine) r->row_affine = false;
        if (p->row) r->row_stride = join(t, r->row_stride, times(t, p->row, stride));
        if (!p->column || (contiguous && p->column == 1)) continue;
        if (!r->may_lie_across) r->failed = true;
        r->column_stride = join(t, r->column_stride, times(t, p->column, stride));
    }
}

static void follow(route *r, const tl_symbol *s, const place *places, int depth);

static void refuse_view(route *r, const tl_symbol *s, const char *why) {
    emit_unsupported(r->t, s->view->range, s->name, "%s", why);
    r->failed = true;
}

/* Of `select(CONDITION, T[...], 0)` the element; NULL where it is another form. */
static const tl_expr *selected_element(const tl_expr *e) {
    int64_t other;
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT && e->item_count == 3;
    if (!selects || !tl_known_integer(e->items[2], &other) || other != 0) return NULL;
    return e->items[1]->kind == TL_ELEMENT ? e->items[1] : NULL;
}

/* Rows that the condition leaves out read 0. Each row is asked by itself. */
static void select_rows(route *r, const tl_symbol *s, const emit_scope *scope,
                        const place *places) {
    emit *t = r->t;
    const tl_expr *condition = s->view->value->items[0];
    for (int i = 0; i < scope->index_count; i++) {
        if (places[i].column && emit_uses_index(condition, scope->indices[i].name)) {
            refuse_view(r, s, "what it leaves out may depend on a tile's rows, not on its columns");
            return;
        }
    }
    if (r->corner || r->t->failed) {
        r->failed = true;
        return;
    }
    emit_value v = emit_expression(t, condition, scope);
    str text = emit_format(t, "(%.*s)", STR_ARGS(v.text));
    r->selected = r->selected.length
                      ? emit_format(t, "%.*s && %.*s", STR_ARGS(r->selected), STR_ARGS(text))
                      : text;
}

static void follow_view(route *r, const tl_symbol *s, const place *places, int depth) {
    emit *t = r->t;
    const tl_binding *view = s->view;
    const tl_expr *e = view->value, *element = e->kind == TL_ELEMENT ? e : selected_element(e);
    if (!element || element->item_count > TL_AXES_MAX || depth > VIEW_DEPTH_MAX) {
        refuse_view(r, s,
                    "only views of the forms TENSOR[...] and select(CONDITION, TENSOR[...], 0) can "
                    "be moved");
        return;
    }
    emit_index indices[TL_AXES_MAX] = {0};
    place items[TL_AXES_MAX] = {0};
    int count = view->axes.count;
    for (int i = 0; i < count; i++)
        indices[i] = (emit_index){tl_axis_index(&view->axes, i), places[i].value};
    emit_scope scope = {.indices = indices, .index_count = count};
    if (element != e) select_rows(r, s, &scope, places);
    if (r->failed) return;
    e = element;
    meanings all = {indices, places, count, false}, first = {indices, places, count, true};
    for (int i = 0; i < e->item_count; i++) {
        items[i].value = emit_integer(t, e->items[i], &scope);
        items[i].is_affine = true;
        items[i].multiple = multiple_of(e->items[i], &all, 0);
        items[i].start = multiple_of(e->items[i], &first, 0);
        for (int k = 0; k < count; k++) {
            int64_t factor;
            if (!places[k].row && !places[k].column && places[k].is_affine) continue;
            if (emit_coefficient(e->items[i], indices[k].name, &factor)) {
                items[i].row += factor * places[k].row;
                items[i].column += factor * places[k].column;
                if (factor && !places[k].is_affine) items[i].is_affine = false;
            } else if (places[k].row == 1 && !places[k].column && places[k].is_affine &&
                       folded_gain(r, e->items[i], &first, k, &factor, 0)) {
                items[i].row += factor;
            } else if (places[k].column) {
                emit_unsupported(t, e->items[i]->range, s->name,
                                 "its columns do not lie side by side");
                r->failed = true;
            } else {
                items[i].is_affine = false;
            }
        }
    }
    follow(r, e->symbol, items, depth + 1);
}

static void follow(route *r, const tl_symbol *s, const place *places, int depth) {
    if (!s) r->failed = true;
    else if (s->view) follow_view(r, s, places, depth);
    else if (s->parameter) end_at_tensor(r, s, places);
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
    int64_t multiple = multiple_of(at->items[axis].at, &(meanings){0}, 0);
    return at->items[axis].is_block ? multiple * tile_extent : multiple;
}

typedef struct coordinate {
    const tl_axes *axes;
    int tile_axes[TL_AXES_MAX], count; /* which axes the tile has */
    emit_value origin[TL_AXES_MAX];    /* of every axis of the tensor or view */
    int64_t multiple[TL_AXES_MAX];     /* what divides it */
} coordinate;

static bool read_coordinate(emit *t, const tl_statement *s, const tl_symbol *symbol,
                            const emit_tile *tile, coordinate *c) {
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

static void follow_from(route *r, const tl_symbol *symbol, const coordinate *c, str row,
                        str column) {
    emit *t = r->t;
    place places[TL_AXES_MAX] = {0};
    for (int i = 0; i < c->axes->count; i++) {
        places[i] = (place){.value = c->origin[i], .is_affine = true};
        bool is_row = i == c->tile_axes[0], is_column = c->count == 2 && i == c->tile_axes[1];
        str more = is_row ? row : is_column ? column : (str){0};
        if (more.length) {
            places[i].value =
                emit_sum(t, places[i].value,
                         (emit_value){.text = more, .precedence = 12, .low = 0, .high = INT16_MAX});
        }
        places[i].row = is_row, places[i].column = is_column;
        places[i].multiple = is_row ? 1 : c->multiple[i];
        places[i].start = c->multiple[i];
    }
    follow(r, symbol, places, 0);
}

/* --- tiles that are before an end ------------------------------------------------------------- */

static bool rows_are_whole(const emit *t, const tl_statement *s, const coordinate *c, int size) {
    const tl_place *at = &s->copy.place;
    int axis = c->tile_axes[0];
    const tl_expr *length = c->axes->items[axis].extent;
    if (axis >= at->count || at->items[axis].is_all || !at->items[axis].is_block) return false;
    return emit_is_whole(t, s, at->items[axis].at, size, length);
}

static void set_rest(emit *t, const coordinate *c, int which, int tile_extent, emit_value *left,
                     bool *complete, int64_t *multiple) {
    int axis = c->tile_axes[which];
    emit_value extent = emit_integer(t, c->axes->items[axis].extent, NULL),
               origin = c->origin[axis];
    bool is_known = extent.low == extent.high && extent.low > 0;
    *multiple = is_known ? common_divisor(extent.low, c->multiple[axis]) : 1;
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
    case TL_I8: return store ? "unsigned char *" : "const unsigned char *";
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

bool emit_corner_of(emit *t, const tl_statement *s, const emit_tile *tile, emit_corner *out) {
    emit_address ignored = {.statement = s};
    const tl_symbol *symbol = global_symbol(s);
    coordinate c;
    if (!symbol || tile->is_vector || !read_coordinate(t, s, symbol, tile, &c)) return false;
    route r = {.t = t, .out = &ignored, .section = tile->rows, .corner = out};
    follow_from(&r, symbol, &c, (str){0}, (str){0});
    r.failed |= r.section != tile->rows;
    /* The map clips at the tensor's end, not at that of a view of it. */
    const tl_symbol *base = symbol;
    while (base && base->view) base = base->view_base;
    if (!r.failed && base != symbol) {
        int64_t multiple;
        bool complete[2];
        emit_value left;
        set_rest(t, &c, 0, tile->rows, &left, &complete[0], &multiple);
        set_rest(t, &c, 1, tile->columns, &left, &complete[1], &multiple);
        complete[0] |= rows_are_whole(t, s, &c, tile->rows);
        const tl_axes *axes = base ? base->axes : NULL;
        bool same = axes && tl_expr_equal(c.axes->items[c.tile_axes[0]].extent,
                                          axes->items[out->row_axis].extent);
        r.failed = !complete[1] || !(complete[0] || same);
    }
    if (!r.failed) return true;
    if (t->failed) return false;
    if (base == symbol)
        emit_unsupported(
            t, s->range, symbol->name,
            "the tile is no box of its tensor: columns of the contiguous axis, rows of one other");
    else
        emit_unsupported(t, s->range, symbol->name,
                         "the tile is no box of %.*s; where a view divides an index, or takes its "
                         "rest, a launch condition has to say that the divisor is a multiple of "
                         "the tile's %d rows (`where N %% %d == 0`)",
                         base ? (int)base->name.length : 0, base ? base->name.data : "", tile->rows,
                         tile->rows);
    return false;
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
