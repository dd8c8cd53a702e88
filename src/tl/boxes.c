#include "tl/boxes.h"

#include "tl/tl.h"

enum { VIEW_DEPTH_MAX = 16 };

/* --- indices ---------------------------------------------------------------------------------- */

static bool is_not_index(void *context, const tl_expr *e) {
    bool is_it = e->kind == TL_NAME && str_equal(e->text, *(const str *)context);
    return !is_it || (e->symbol && e->symbol->kind != TL_SYMBOL_INDEX);
}

bool tl_uses_index(const tl_expr *e, str name) {
    return !tl_visit(e, is_not_index, &name);
}

bool tl_index_factor(const tl_expr *e, str name, int64_t *factor) {
    return tl_coefficient(e, is_not_index, &name, factor);
}

int64_t tl_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* What divides an index expression, as far as is known before launch; 0: it is 0. 'at_start': in
 * the tile's first row alone.
 */
static int64_t multiple_of(const tl_expr *e, const tl_courses *of, bool at_start, int depth) {
    int64_t value;
    if (depth > TL_HEIGHT_MAX) return 1;
    if (tl_known_integer(e, &value)) return value == INT64_MIN ? 1 : value < 0 ? -value : value;
    if (e->kind == TL_NEGATE) return multiple_of(e->left, of, at_start, depth + 1);
    if (e->kind == TL_NAME) {
        for (int i = 0; i < of->count; i++) {
            if (!tl_uses_index(e, of->names[i])) continue;
            return at_start ? of->items[i].start : of->items[i].multiple;
        }
        const tl_symbol *s = e->symbol;
        bool is_let = s && s->kind == TL_SYMBOL_CONSTANT && s->value;
        return is_let ? multiple_of(s->value, &(tl_courses){0}, at_start, depth + 1) : 1;
    }
    bool sums = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (!sums && !(e->kind == TL_BINARY && e->operator== TL_TIMES)) return 1;
    int64_t left = multiple_of(e->left, of, at_start, depth + 1);
    int64_t right = multiple_of(e->right, of, at_start, depth + 1), product;
    if (sums) return tl_common_divisor(left, right);
    return __builtin_mul_overflow(left, right, &product) ? 1 : product;
}

int64_t tl_divisor(const tl_expr *e) {
    return multiple_of(e, &(tl_courses){0}, false, 0);
}

/* --- folded indices --------------------------------------------------------------------------- */

typedef struct fold {
    const tl_kernel *kernel;
    const tl_courses *of;
    int index; /* which of them goes by rows, one by one */
    int section;
} fold;

/* The most rows that divide the section, x where the tile begins, and n. */
static int common_section(const fold *f, const tl_expr *x, const tl_expr *n) {
    int64_t multiple = tl_common_divisor(f->section, multiple_of(x, f->of, true, 0));
    for (int rows = (int)multiple; rows > 1; rows--)
        if (multiple % rows == 0 && tl_is_multiple(f->kernel, n, rows)) return rows;
    return 1;
}

static bool folded_gain(fold *f, const tl_expr *e, int64_t *gain, int depth);

/* x/n is the same in all of a section's rows, and x % n gains one, where x is a multiple of the
 * section in the tile's first row, and n is one, too.
 */
static bool divided_gain(fold *f, const tl_expr *e, int64_t *gain, int depth) {
    int64_t dividend;
    bool divides = e->operator== TL_OVER && e->division != TL_DIVIDE_UP;
    if (!divides && e->operator!= TL_MODULO) return false;
    if (!folded_gain(f, e->left, &dividend, depth + 1) || dividend != 1) return false;
    *gain = divides ? 0 : 1;
    int section = common_section(f, e->left, e->right);
    if (section == 1 && f->section > 1) return false;
    f->section = section;
    return true;
}

/* What e gains from one of a section's rows to the next, where an index is folded. So a page, or a
 * group of heads, that is as long as some tiles is a box, and a tile that lies in several pages is
 * a box in each. Makes sections as short as that takes.
 */
static bool folded_gain(fold *f, const tl_expr *e, int64_t *gain, int depth) {
    int64_t a, b;
    if (depth > TL_HEIGHT_MAX) return false;
    if (tl_index_factor(e, f->of->names[f->index], gain)) return true;
    bool is_floor = e->kind == TL_CALL && e->function == TL_FUNCTION_FLOOR;
    if (is_floor) return folded_gain(f, e->items[0], gain, depth + 1);
    for (int i = 0; e->kind == TL_ELEMENT && i < e->item_count; i++) {
        if (!folded_gain(f, e->items[i], gain, depth + 1) || *gain) return false;
        if (i + 1 == e->item_count) return true;
    }
    if (e->kind != TL_BINARY) return false;
    bool is_sum = e->operator== TL_PLUS || e->operator== TL_MINUS;
    if (!is_sum && e->operator!= TL_TIMES) return divided_gain(f, e, gain, depth);
    if (!folded_gain(f, e->left, &a, depth + 1) || !folded_gain(f, e->right, &b, depth + 1))
        return false;
    *gain = e->operator== TL_MINUS ? a - b : a + b;
    return is_sum || (a == 0 && b == 0);
}

bool tl_course_of(const tl_kernel *kernel, const tl_expr *e, const tl_courses *of, int *section,
                  tl_course *out) {
    *out = (tl_course){.is_affine = true,
                       .multiple = multiple_of(e, of, false, 0),
                       .start = multiple_of(e, of, true, 0)};
    for (int k = 0; k < of->count; k++) {
        const tl_course *index = &of->items[k];
        fold f = {kernel, of, k, *section};
        int64_t factor;
        if (!index->row && !index->column && index->is_affine) continue;
        if (tl_index_factor(e, of->names[k], &factor)) {
            out->row += factor * index->row;
            out->column += factor * index->column;
            if (factor && !index->is_affine) out->is_affine = false;
        } else if (index->row == 1 && !index->column && index->is_affine &&
                   folded_gain(&f, e, &factor, 0)) {
            out->row += factor;
            *section = f.section;
        } else if (index->column) {
            return false;
        } else {
            out->is_affine = false;
        }
    }
    return true;
}

/* --- boxes ------------------------------------------------------------------------------------ */

bool tl_box_axes(const tl_course *items, int count, int *row_axis, int *column_axis) {
    *row_axis = *column_axis = -1;
    for (int i = 0; i < count; i++) {
        const tl_course *c = &items[i];
        if (c->row || !c->is_affine) {
            if (c->row != 1 || c->column || !c->is_affine || *row_axis >= 0) return false;
            *row_axis = i;
        } else if (c->column) {
            if (c->column != 1 || i != count - 1) return false;
            *column_axis = i;
        }
    }
    return *row_axis >= 0 && *column_axis >= 0;
}

const tl_expr *tl_shown_element(const tl_binding *view, const tl_expr **condition) {
    const tl_expr *e = view->value;
    int64_t other;
    *condition = NULL;
    if (e->kind == TL_ELEMENT) return e;
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT && e->item_count == 3;
    if (!selects || !tl_known_integer(e->items[2], &other) || other != 0) return NULL;
    *condition = e->items[0];
    return e->items[1]->kind == TL_ELEMENT ? e->items[1] : NULL;
}

/* Is the comparison's answer the same in all rows of a section, and in all columns? */
static bool is_uniform(const tl_kernel *kernel, const tl_expr *test, const tl_courses *of,
                       int *section) {
    tl_course left, right;
    int rows = *section;
    bool is_one = tl_course_of(kernel, test->left, of, &rows, &left) &&
                  tl_course_of(kernel, test->right, of, &rows, &right) && left.is_affine &&
                  right.is_affine && !left.row && !left.column && !right.row && !right.column;
    if (is_one) *section = rows;
    return is_one;
}

/* Does it say that the element's index on the axis of the rows is before the tensor's end? */
static bool is_clipped(const tl_kernel *kernel, const tl_expr *test, const tl_expr *element,
                       const tl_courses *of, int *section) {
    const tl_axes *axes =
        element->symbol && element->symbol->parameter ? element->symbol->axes : NULL;
    tl_course course;
    if (test->operator!= TL_LESS) return false;
    for (int i = 0; axes && i < axes->count && i < element->item_count; i++)
        if (tl_expr_equal(test->left, element->items[i]) &&
            tl_expr_equal(test->right, axes->items[i].extent))
            return tl_course_of(kernel, test->left, of, section, &course) && course.is_affine &&
                   course.row == 1;
    return false;
}

bool tl_box_selects(const tl_kernel *kernel, const tl_expr *condition, const tl_expr *element,
                    const tl_courses *of, int *section, tl_uniform *uniform) {
    if (condition->kind != TL_BINARY) return false;
    if (condition->operator== TL_AND)
        return tl_box_selects(kernel, condition->left, element, of, section, uniform) &&
               tl_box_selects(kernel, condition->right, element, of, section, uniform);
    bool compares = condition->operator>= TL_LESS && condition->operator<= TL_GREATER_EQUAL;
    if (!compares) return false;
    if (is_clipped(kernel, condition, element, of, section)) return true;
    if (uniform->count == TL_PARTS_MAX || !is_uniform(kernel, condition, of, section)) return false;
    uniform->parts[uniform->count++] = condition;
    return true;
}

/* --- the box of a Copy ------------------------------------------------------------------------ */

/* Of the indices at a Copy's coordinate: the tile's rows and columns walk two of them. */
static bool begin(const tl_statement *copy, const tl_axes *axes, int rows, int tile_axes[2],
                  tl_course *items) {
    const tl_place *place = &copy->copy.place;
    const tl_exprs *shape = &copy->copy.shape;
    int all[TL_AXES_MAX];
    int64_t columns;
    if (!axes || tl_copy_axes(copy, axes, all) != 2) return false;
    if (shape->count != 2 || !tl_known_integer(shape->items[1], &columns))
        columns = 0; /* not chosen yet: whole units */
    tile_axes[0] = all[0], tile_axes[1] = all[1];
    for (int i = 0; i < axes->count; i++) {
        const tl_spot *spot = i < place->count && !place->items[i].is_all ? &place->items[i] : NULL;
        int64_t multiple = spot ? tl_divisor(spot->at) : 0;
        bool is_row = i == tile_axes[0], is_column = i == tile_axes[1];
        if (spot && spot->is_block) multiple *= is_row ? rows : is_column ? columns : 1;
        items[i] = (tl_course){.row = is_row,
                               .column = is_column,
                               .is_affine = true,
                               .multiple = is_row ? 1 : multiple,
                               .start = multiple};
    }
    return true;
}

/* Down to the tensor. */
static const tl_symbol *follow(const tl_kernel *kernel, const tl_symbol *s, tl_course *items,
                               int *section) {
    for (int depth = 0; s && s->view && depth < VIEW_DEPTH_MAX; depth++) {
        const tl_axes *axes = &s->view->axes;
        const tl_expr *condition, *element = tl_shown_element(s->view, &condition);
        str names[TL_AXES_MAX];
        tl_course next[TL_AXES_MAX];
        tl_uniform uniform = {0};
        for (int i = 0; i < axes->count; i++) names[i] = tl_axis_index(axes, i);
        tl_courses of = {names, items, axes->count};
        if (!element || element->item_count > TL_AXES_MAX) return NULL;
        if (condition && !tl_box_selects(kernel, condition, element, &of, section, &uniform))
            return NULL;
        for (int i = 0; i < element->item_count; i++)
            if (!tl_course_of(kernel, element->items[i], &of, section, &next[i])) return NULL;
        for (int i = 0; i < element->item_count; i++) items[i] = next[i];
        s = element->symbol;
    }
    return s && s->parameter ? s : NULL;
}

/* Does the tile take what the view has of its last axis; or any part of it, where that is all that
 * the tensor has?
 */
static bool has_columns(const tl_statement *copy, const tl_axes *axes, int axis,
                        const tl_expr *tensor_length) {
    const tl_exprs *shape = &copy->copy.shape;
    const tl_place *place = &copy->copy.place;
    int64_t length, size;
    const tl_expr *own = axes->items[axis].extent;
    bool is_part = axis < place->count && !place->items[axis].is_all;
    if (is_part && !place->items[axis].is_block) return false;
    if (tl_expr_equal(own, tensor_length)) return true;
    return !is_part && shape->count == 2 && tl_known_integer(own, &length) &&
           tl_known_integer(shape->items[1], &size) && size <= length;
}

/* Is no tile of rows cut by the view's end where the tensor goes on? */
static bool ends_alike(const tl_kernel *kernel, const tl_statement *copy, const tl_axes *axes,
                       int axis, int rows, const tl_expr *tensor_length) {
    const tl_place *place = &copy->copy.place;
    const tl_expr *own = axes->items[axis].extent;
    int64_t length;
    if (tl_expr_equal(own, tensor_length)) return true;
    if (axis >= place->count || place->items[axis].is_all)
        return tl_known_integer(own, &length) && length >= rows;
    return tl_is_whole(kernel, copy, place->items[axis].at, rows, own);
}

/* Hardware takes boxes that begin at a multiple of 16 bytes of a row. */
static bool begins_at_units(const tl_symbol *tensor, const tl_course *columns) {
    enum { UNIT_BITS = 128 };
    return columns->multiple * tl_type_bits(tensor->parameter->parameter.type) % UNIT_BITS == 0;
}

/* Is the length n times that one, as lets say? */
static bool is_times(const tl_expr *length, int64_t n, const tl_expr *of) {
    int64_t known;
    for (int depth = 0; depth < TL_HEIGHT_MAX; depth++) {
        bool is_let = length->kind == TL_NAME && length->symbol &&
                      length->symbol->kind == TL_SYMBOL_CONSTANT && length->symbol->value;
        if (!is_let) break;
        length = length->symbol->value;
    }
    if (length->kind != TL_BINARY || length->operator!= TL_TIMES) return false;
    return (tl_known_integer(length->left, &known) && known == n &&
            tl_expr_equal(length->right, of)) ||
           (tl_known_integer(length->right, &known) && known == n &&
            tl_expr_equal(length->left, of));
}

bool tl_fills_axis(const tl_symbol *s, str row, const tl_expr *length) {
    for (int depth = 0; s && s->view && depth < VIEW_DEPTH_MAX; depth++) {
        const tl_expr *condition, *element = tl_shown_element(s->view, &condition);
        const tl_symbol *base = element && !condition ? element->symbol : NULL;
        const tl_axes *axes = base ? (base->view ? &base->view->axes : base->axes) : NULL;
        str passed = {"", 0};
        for (int i = 0; axes && i < axes->count && i < element->item_count; i++) {
            const tl_expr *e = element->items[i];
            int64_t n;
            bool folds = !base->view && e->kind == TL_BINARY &&
                         e->operator== TL_OVER && e->left->kind == TL_NAME &&
                         str_equal(e->left->text, row) &&
                         tl_known_integer(e->right, &n);
            if (folds && n > 0 && is_times(length, n, axes->items[i].extent)) return true;
            if (e->kind == TL_NAME && str_equal(e->text, row)) passed = tl_axis_index(axes, i);
        }
        s = passed.length ? base : NULL;
        row = passed;
    }
    return false;
}

bool tl_box_of(const tl_kernel *kernel, const tl_statement *copy, int rows, tl_box *out) {
    tl_end end = copy->copy.from == TL_GLOBAL ? tl_copy_source(copy) : tl_copy_target(copy);
    const tl_symbol *s = end.symbol && end.symbol->variable ? end.symbol->variable : end.symbol;
    const tl_axes *axes = s && s->view ? &s->view->axes : s ? s->axes : NULL;
    tl_course items[TL_AXES_MAX] = {{0}}; /* of an axis without an index: nothing is known */
    int tile_axes[2];
    if (!begin(copy, axes, rows, tile_axes, items)) return false;
    *out = (tl_box){.rows = rows, .tile_axis = tile_axes[0], .is_view = s->view != NULL};
    out->tensor = follow(kernel, s, items, &out->rows);
    if (!out->tensor || !out->tensor->axes ||
        !tl_box_axes(items, out->tensor->axes->count, &out->row_axis, &out->column_axis))
        return false;
    if (out->rows < rows && out->rows % TL_BOX_ROWS != 0) return false;
    if (!begins_at_units(out->tensor, &items[out->column_axis])) return false;
    out->is_within = true;
    if (!out->is_view) return true;
    const tl_axis *row = &out->tensor->axes->items[out->row_axis];
    const tl_axis *column = &out->tensor->axes->items[out->column_axis];
    if (!has_columns(copy, axes, tile_axes[1], column->extent)) return false;
    const tl_axis *own = &axes->items[tile_axes[0]];
    out->is_within = ends_alike(kernel, copy, axes, tile_axes[0], rows, row->extent) ||
                     tl_fills_axis(s, tl_axis_index(axes, tile_axes[0]), own->extent);
    const tl_place *place = &copy->copy.place;
    bool has_number = tile_axes[0] < place->count && place->items[tile_axes[0]].is_block;
    return out->is_within || has_number;
}
