/* The axes of every tile (language study 5.1).
 *
 * Axes flow from tensors through Copy and Compute, whichever order the statements are in (roles
 * run beside each other), so the kernel is gone through until nothing new is learnt; then
 * conclusions are drawn backwards, too, for tiles that start by Fill. Errors are reported once, at
 * the very end.
 */
#include "tl/names_internal.h"

enum { TILE_AXES_MAX = 4, ROUNDS_MAX = 64 };

typedef struct inference {
    tl_kernel *kernel;
    arena *memory;
    diag_list *diags;
    bool is_loose;  /* draw conclusions backwards */
    bool is_report; /* the last round: compare and report */
    bool has_changed;
} inference;

typedef struct axes_list {
    tl_tile_axis items[TILE_AXES_MAX];
    int count;
} axes_list;

/* --- words ------------------------------------------------------------------------------------ */

static bool lengths_differ(const tl_expr *a, const tl_expr *b) {
    int64_t x, y;
    return a && b && tl_known_integer(a, &x) && tl_known_integer(b, &y) && x != y;
}

static str length_text(arena *memory, const tl_expr *e) {
    int64_t value;
    return tl_known_integer(e, &value) ? str_format(memory, "%lld", (long long)value)
                                       : tl_expr_text(memory, e);
}

/* "q in BM = 64, d = 128": axes with their lengths, and what is known of these before launch. */
static str shape_text(const inference *in, const axes_list *list) {
    str text = {NULL, 0};
    for (int i = 0; i < list->count; i++) {
        str index = list->items[i].index;
        const tl_symbol *symbol = tl_find_index(in->kernel, index);
        const tl_expr *extent = list->items[i].extent;
        if (!extent && symbol) extent = symbol->extent;
        str name = extent ? tl_expr_text(in->memory, extent) : index;
        str length = extent ? length_text(in->memory, extent) : name;
        bool is_bare = str_equal(name, index), is_plain = str_equal(name, length);
        text = str_format(in->memory, "%.*s%s%.*s%s%.*s%s%.*s", STR_ARGS(text), i ? ", " : "",
                          STR_ARGS(index), is_bare ? "" : " in ", is_bare ? 0 : (int)name.length,
                          name.data, is_plain ? "" : " = ", is_plain ? 0 : (int)length.length,
                          length.data);
    }
    return text;
}

/* --- setting ---------------------------------------------------------------------------------- */

static void compare(inference *in, const tl_tile *tile, const axes_list *list,
                    const tl_expr *name) {
    bool is_same = tile->axis_count == list->count;
    for (int i = 0; is_same && i < list->count; i++) {
        is_same = str_equal(tile->axes[i].index, list->items[i].index);
    }
    if (!is_same) {
        diag_report(in->diags, DIAG_AXES_DIFFER, name->range, name->text,
                    names_axes_text(in->memory, tile->axes, tile->axis_count),
                    names_axes_text(in->memory, list->items, list->count));
    }
    for (int i = 0; is_same && i < list->count; i++) {
        if (!lengths_differ(tile->axes[i].extent, list->items[i].extent)) continue;
        diag_report(in->diags, DIAG_EXTENTS_DIFFER, name->range, tile->axes[i].index, name->text,
                    length_text(in->memory, tile->axes[i].extent),
                    length_text(in->memory, list->items[i].extent));
        if (tile->allocation) {
            diag_report(in->diags, DIAG_AXES_FROM_HERE, tile->allocation->range, name->text);
        }
    }
    const tl_exprs *shape =
        tile->allocation && !tile->part_of ? &tile->allocation->allocate.shape : NULL;
    if (is_same && shape && shape->count != list->count) {
        diag_report(in->diags, DIAG_AXES_COUNT, name->range,
                    names_axes_text(in->memory, list->items, list->count),
                    str_format(in->memory, "%d", shape->count));
        diag_report(in->diags, DIAG_AXES_FROM_HERE, tile->allocation->range, name->text);
    }
}

/* Gives a tile its axes, or compares them with what it has. Lengths come from its Allocate. */
static void give(inference *in, tl_tile *tile, const axes_list *list, const tl_expr *name) {
    if (!tile || !list->count) return;
    if (tile->axis_count) {
        if (in->is_report) compare(in, tile, list, name);
        return;
    }
    tile->axis_count = list->count;
    in->has_changed = true;
    bool is_allocated =
        tile->allocation && !tile->part_of && tile->allocation->allocate.shape.count == list->count;
    for (int i = 0; i < list->count; i++) {
        tile->axes[i] = list->items[i];
        if (is_allocated) tile->axes[i].extent = tile->allocation->allocate.shape.items[i];
    }
}

static axes_list axes_of_tile(const tl_tile *tile) {
    axes_list list = {.count = tile ? tile->axis_count : 0};
    for (int i = 0; i < list.count; i++) list.items[i] = tile->axes[i];
    return list;
}

static axes_list axes_of_operand(const tl_operand *operand) {
    axes_list list = axes_of_tile(tl_tile_of(operand->value));
    if (!operand->is_transposed) return list;
    axes_list turned = {.count = list.count};
    for (int i = 0; i < list.count; i++) turned.items[i] = list.items[list.count - 1 - i];
    return turned;
}

int tl_operand_axes(const tl_operand *operand, tl_tile_axis out[4]) {
    axes_list list = axes_of_operand(operand);
    for (int i = 0; i < list.count; i++) out[i] = list.items[i];
    return list.count;
}

/* --- Copy ------------------------------------------------------------------------------------- */

static str index_text(inference *in, const tl_axes *axes, int i) {
    str index = tl_axis_index(axes, i);
    return index.length ? index : tl_expr_text(in->memory, axes->items[i].coordinate);
}

static axes_list axes_of_copied(inference *in, const tl_statement *s, const tl_axes *axes) {
    int positions[TL_AXES_MAX];
    int count = tl_copy_axes(s, axes, positions);
    axes_list list = {0};
    const tl_exprs *shape = &s->copy.shape;
    if (count > TILE_AXES_MAX) {
        if (in->is_report) {
            diag_report(in->diags, DIAG_AXES_TOO_MANY, s->range,
                        str_format(in->memory, "%d", TILE_AXES_MAX));
        }
        return list;
    }
    list.count = count;
    for (int k = 0; k < count; k++) {
        list.items[k].index = index_text(in, axes, positions[k]);
        if (shape->count == count) list.items[k].extent = shape->items[k];
    }
    if (in->is_report && shape->count && shape->count != count) {
        diag_report(in->diags, DIAG_AXES_COUNT, s->range,
                    names_axes_text(in->memory, list.items, list.count),
                    str_format(in->memory, "%d", shape->count));
    }
    return list;
}

static void infer_copy(inference *in, tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    const tl_expr *what = s->copy.what;
    const tl_expr *into = tl_copy_into(s);
    if (source.space == TL_GLOBAL) {
        if (!source.symbol || !source.symbol->axes) return;
        axes_list list = axes_of_copied(in, s, source.symbol->axes);
        give(in, target.tile, &list, into);
    } else if (target.space == TL_GLOBAL) {
        if (!target.symbol || !target.symbol->axes || !source.tile) return;
        axes_list list = axes_of_copied(in, s, target.symbol->axes);
        bool is_wanted = source.tile->axis_count || in->is_loose;
        if (is_wanted) give(in, source.tile, &list, what);
    } else {
        axes_list list = axes_of_tile(source.tile);
        give(in, target.tile, &list, into);
        list = axes_of_tile(target.tile);
        if (in->is_loose && source.tile && !source.tile->axis_count) {
            give(in, source.tile, &list, what);
        }
    }
}

/* --- products --------------------------------------------------------------------------------- */

bool tl_product_of(const tl_operand *a, const tl_operand *b, tl_product_axes *out) {
    axes_list left = axes_of_operand(a), right = axes_of_operand(b);
    if (left.count != 2 || right.count != 2) return false;
    if (!str_equal(left.items[1].index, right.items[0].index)) return false;
    if (str_equal(left.items[0].index, right.items[1].index)) return false;
    out->row = left.items[0];
    out->contracted = left.items[1];
    out->column = right.items[1];
    return true;
}

static void hint_transpose(inference *in, const tl_operand *operand, const char *where, str index) {
    str name = operand->value->text;
    str turned = operand->is_transposed ? name : str_format(in->memory, "%.*s.T", STR_ARGS(name));
    diag *hint = diag_report(in->diags, DIAG_PRODUCT_TRANSPOSE, operand->range, turned, index,
                             str_from(where));
    diag_replace(hint, turned);
}

static void note_shapes(inference *in, const tl_statement *s, const axes_list sides[2]) {
    str names[2];
    for (int i = 0; i < 2; i++) {
        const tl_operand *operand = &s->compute.operands[i];
        names[i] = str_format(in->memory, "%.*s%s", STR_ARGS(operand->value->text),
                              operand->is_transposed ? ".T" : "");
    }
    diag_report(in->diags, DIAG_PRODUCT_SHAPES, s->range, names[0], shape_text(in, &sides[0]),
                names[1], shape_text(in, &sides[1]));
}

/* Products and reductions take tiles, and as they are: no S*2, no S[q, kv], no scalar. */
static bool takes_tiles(inference *in, const tl_statement *s, diag_id otherwise) {
    const tl_compute *c = &s->compute;
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *e = c->operands[i].value;
        if (e->kind == TL_NAME && tl_tile_of(e)) continue;
        if (!in->is_report) return false;
        diag_report(in->diags, otherwise, c->operands[i].range,
                    str_from(tl_operation_name(c->operation)));
        diag_add(in->diags, DIAG_OPERAND_FIRST, c->operands[i].range, NULL);
        return false;
    }
    return true;
}

static void report_product(inference *in, const tl_statement *s) {
    const tl_operand *operands = s->compute.operands;
    axes_list sides[2] = {axes_of_operand(&operands[0]), axes_of_operand(&operands[1])};
    for (int i = 0; i < 2; i++) {
        if (sides[i].count == 2) continue;
        diag_report(in->diags, DIAG_PRODUCT_OF_VECTOR, operands[i].range, operands[i].value->text,
                    names_axes_text(in->memory, sides[i].items, sides[i].count));
        return;
    }
    str last = sides[0].items[1].index, first = sides[1].items[0].index;
    if (str_equal(last, first)) {
        diag_report(in->diags, DIAG_PRODUCT_SQUARE, s->range, sides[0].items[0].index);
        return;
    }
    diag *d = diag_report(in->diags, DIAG_PRODUCT_CONTRACTS, operands[1].range, last, first);
    diag_expected(d, last, first);
    note_shapes(in, s, sides);
    if (str_equal(last, sides[1].items[1].index)) {
        hint_transpose(in, &operands[1], "first", last);
    } else if (str_equal(first, sides[0].items[0].index)) {
        hint_transpose(in, &operands[0], "last", first);
    }
}

static bool is_filled(const inference *in, const tl_symbol *tile) {
    for (tl_statement *s = in->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_FILL && s->compute.target &&
            s->compute.target->symbol == tile)
            return true;
    return false;
}

/* A filled tile that meets nothing but this product: the axis that is contracted, and one of its
 * own.
 */
static void give_filled(inference *in, const tl_compute *c) {
    for (int i = 0; i < 2; i++) {
        axes_list other = axes_of_operand(&c->operands[1 - i]);
        const tl_operand *operand = &c->operands[i];
        tl_tile *tile = tl_tile_of(operand->value);
        if (other.count != 2 || !tile || tile->axis_count || !tile->allocation ||
            !is_filled(in, operand->value->symbol))
            continue;
        const tl_exprs *shape = &tile->allocation->allocate.shape;
        if (shape->count != 2 || tile->part_of) continue;
        bool is_first = (i == 1) != operand->is_transposed; /* the contracted axis of the tile */
        str own = str_format(in->memory, "%.*s's own axis", STR_ARGS(operand->value->text));
        tl_tile_axis contracted = other.items[i == 0 ? 0 : 1];
        axes_list list = {.items = {contracted, contracted}, .count = 2};
        list.items[is_first ? 1 : 0] = (tl_tile_axis){.index = own};
        give(in, tile, &list, operand->value);
    }
}

static void infer_product(inference *in, tl_statement *s) {
    tl_compute *c = &s->compute;
    if (c->operand_count != 2 || !takes_tiles(in, s, DIAG_PRODUCT_OPERANDS)) return;
    if (in->is_loose) give_filled(in, c);
    bool is_known =
        axes_of_operand(&c->operands[0]).count && axes_of_operand(&c->operands[1]).count;
    if (!is_known) return;
    tl_product_axes product;
    if (!tl_product_of(&c->operands[0], &c->operands[1], &product)) {
        if (in->is_report) report_product(in, s);
        return;
    }
    axes_list sides[2] = {axes_of_operand(&c->operands[0]), axes_of_operand(&c->operands[1])};
    const axes_list right = sides[1];
    if (in->is_report && lengths_differ(product.contracted.extent, right.items[0].extent)) {
        diag_report(in->diags, DIAG_PRODUCT_LENGTHS, s->range, product.contracted.index,
                    length_text(in->memory, product.contracted.extent),
                    length_text(in->memory, right.items[0].extent));
        note_shapes(in, s, sides);
    }
    axes_list list = {.items = {product.row, product.column}, .count = 2};
    if (c->target) give(in, tl_tile_of(c->target), &list, c->target);
}

/* --- elementwise ------------------------------------------------------------------------------ */

static bool has_axis(const axes_list *list, str index) {
    for (int i = 0; i < list->count; i++) {
        if (str_equal(list->items[i].index, index)) return true;
    }
    return false;
}

static void report_narrower(inference *in, const tl_compute *c, const axes_list *widest, str name) {
    for (int i = 0; i < c->operand_count; i++) {
        axes_list list = axes_of_operand(&c->operands[i]);
        for (int k = 0; k < list.count; k++) {
            if (has_axis(widest, list.items[k].index)) continue;
            diag_report(in->diags, DIAG_AXIS_MISSING, c->operands[i].range,
                        c->operands[i].value->text, list.items[k].index, name,
                        names_axes_text(in->memory, widest->items, widest->count));
            break;
        }
    }
}

/* A tile of unknown axes among others: as those, if its Allocate has as many. */
static void give_backwards(inference *in, const tl_compute *c, const axes_list *list) {
    for (int i = 0; i < c->operand_count; i++) {
        const tl_operand *operand = &c->operands[i];
        tl_tile *tile = tl_tile_of(operand->value);
        if (!tile || tile->axis_count || operand->is_transposed) continue;
        bool fits = !tile->allocation || tile->allocation->allocate.shape.count == list->count;
        if (fits) give(in, tile, list, operand->value);
    }
}

static void infer_elementwise(inference *in, tl_statement *s) {
    tl_compute *c = &s->compute;
    axes_list widest = {0};
    str widest_name = {NULL, 0};
    bool is_known = true;
    for (int i = 0; i < c->operand_count; i++) {
        if (!tl_tile_of(c->operands[i].value)) continue;
        axes_list list = axes_of_operand(&c->operands[i]);
        is_known &= list.count > 0;
        if (list.count <= widest.count) continue;
        widest = list;
        widest_name = c->operands[i].value->text;
    }
    tl_tile *target = tl_tile_of(c->target);
    if (in->is_loose && target && target->axis_count) {
        axes_list list = axes_of_tile(target);
        give_backwards(in, c, &list);
    }
    if (!widest.count || (!is_known && !in->is_loose)) return;
    if (in->is_report) report_narrower(in, c, &widest, widest_name);
    bool fits = is_known || !target || !target->allocation ||
                target->allocation->allocate.shape.count == widest.count;
    if (fits && c->target) give(in, target, &widest, c->target);
}

/* --- reductions, Mask, Softmax ---------------------------------------------------------------- */

static void infer_reduction(inference *in, tl_statement *s) {
    tl_compute *c = &s->compute;
    if (c->operand_count != 1 || !c->target) return;
    if (!takes_tiles(in, s, DIAG_REDUCTION_OPERAND)) return;
    axes_list list = axes_of_operand(&c->operands[0]);
    if (list.count == 1 && in->is_report) {
        diag_report(in->diags, DIAG_REDUCTION_OF_VECTOR, c->operands[0].range,
                    c->operands[0].value->text);
    }
    if (list.count < 2) return;
    list.count--;
    give(in, tl_tile_of(c->target), &list, c->target);
}

/* RowTopK: how many is a size by its name, which is the result's last axis, too. */
static bool counts_by_name(inference *in, const tl_statement *s, const axes_list *of) {
    const tl_operand *count = &s->compute.operands[1];
    int64_t known;
    bool is_name = count->value->kind == TL_NAME && !tl_tile_of(count->value);
    if (is_name && !has_axis(of, count->value->text)) {
        bool is_known = tl_known_integer(count->value, &known);
        if (!is_known || (known >= 1 && known <= TL_TOP_MAX)) return true;
    }
    if (in->is_report)
        diag_report(in->diags, DIAG_TOP_COUNT, count->range,
                    str_format(in->memory, "%d", TL_TOP_MAX));
    return false;
}

static void infer_choice(inference *in, tl_statement *s) {
    tl_compute *c = &s->compute;
    if (c->operand_count != 2 || !c->target) return;
    const tl_operand *first = &c->operands[0];
    axes_list list = axes_of_operand(first);
    bool is_tile = first->value->kind == TL_NAME && tl_tile_of(first->value);
    bool is_matrix = is_tile && list.count == 2 && !first->is_transposed;
    if (!is_matrix && (list.count || !is_tile) && in->is_report)
        diag_report(in->diags, DIAG_TOP_OPERAND, first->range, first->value->text);
    if (!is_matrix || !counts_by_name(in, s, &list)) return;
    list.items[1] = (tl_tile_axis){c->operands[1].value->text, c->operands[1].value};
    give(in, tl_tile_of(c->target), &list, c->target);
    if (c->values) give(in, tl_tile_of(c->values), &list, c->values);
}

static void infer_softmax(inference *in, tl_statement *s) {
    tl_compute *c = &s->compute;
    if (c->operand_count != 1 || !c->maximum) return;
    axes_list list = axes_of_operand(&c->operands[0]);
    if (!list.count) return;
    const tl_statement *loop;
    int axis;
    tl_softmax_axis(in->kernel, s, &loop, &axis);
    axes_list rows = {0};
    for (int i = 0; i < list.count; i++) {
        if (i != axis) rows.items[rows.count++] = list.items[i];
    }
    give(in, tl_tile_of(c->maximum), &rows, c->maximum);
    give(in, tl_tile_of(c->sum), &rows, c->sum);
}

static void infer_compute(inference *in, tl_statement *s) {
    switch (tl_operation_shape(s->compute.operation)) {
    case TL_SHAPE_PRODUCT: infer_product(in, s); break;
    case TL_SHAPE_ELEMENTWISE: infer_elementwise(in, s); break;
    case TL_SHAPE_REDUCTION: infer_reduction(in, s); break;
    case TL_SHAPE_CHOICE: infer_choice(in, s); break;
    case TL_SHAPE_MASK: break;
    case TL_SHAPE_SOFTMAX: infer_softmax(in, s); break;
    case TL_SHAPE_FILL: break;
    }
}

/* --- parts of views --------------------------------------------------------------------------- */

static void infer_part(inference *in, tl_symbol *view, tl_tile *part, const tl_tile *base) {
    if (!part->exists || !part->part_of || part->axis_count || !base->axis_count) return;
    axes_list list = {0};
    for (int i = tl_matrix_begin(view->axes); i < view->axes->count; i++) {
        if (list.count == TILE_AXES_MAX) return;
        list.items[list.count++] =
            (tl_tile_axis){index_text(in, view->axes, i), names_part_extent(view, base, i)};
    }
    part->allocation = base->allocation;
    part->type = base->type;
    give(in, part, &list, view->axes->items[0].coordinate);
}

static void infer_parts(inference *in) {
    for (int i = 0; i < in->kernel->symbol_count; i++) {
        tl_symbol *view = in->kernel->symbols[i];
        if (view->kind != TL_SYMBOL_VARIABLE || !view->view || !view->view_base) continue;
        infer_part(in, view, &view->shared, &view->view_base->shared);
        infer_part(in, view, &view->in_register, &view->view_base->in_register);
    }
}

/* --- the kernel ------------------------------------------------------------------------------- */

static void go_through(inference *in) {
    infer_parts(in);
    for (tl_statement *s = in->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY) infer_copy(in, s);
        if (s->kind == TL_COMPUTE) infer_compute(in, s);
    }
}

bool tl_infer_axes(tl_kernel *kernel, arena *memory, diag_list *diags) {
    inference in = {.kernel = kernel, .memory = memory, .diags = diags};
    int errors_before = diags->error_count;
    for (int i = 0; i < kernel->symbol_count; i++)
        kernel->symbols[i]->shared.axis_count = kernel->symbols[i]->in_register.axis_count = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        in.has_changed = false;
        go_through(&in);
        if (in.has_changed) {
            in.is_loose = false;
            continue;
        }
        if (in.is_loose) break;
        in.is_loose = true;
    }
    in.is_loose = false;
    in.is_report = true;
    go_through(&in);
    names_point_indices(kernel, memory, diags);
    return diags->error_count == errors_before;
}
