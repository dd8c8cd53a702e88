#include "reason/meant.h"

#include "reason/tiles.h"
#include "tl/names.h"

enum { BARE_MAX = 16 };

bool meant_read(reason *r) {
    diag_list scratch;
    if (reason_bind_alone(r, &scratch)) return true;
    const diag *first = scratch.first;
    str why = first ? first->message : STR("nothing says why");
    return reason_stuck(r, NULL, "what its axes mean could not be read: %.*s", STR_ARGS(why));
}

/* --- bare axes -------------------------------------------------------------------------------- */

typedef struct bare_axes {
    reason *r;
    str names[BARE_MAX], indices[BARE_MAX]; /* an empty index: not used as one */
    int count;
} bare_axes;

static int find_bare(const bare_axes *b, str name) {
    for (int i = 0; i < b->count; i++)
        if (str_equal(b->names[i], name)) return i;
    return -1;
}

static void note_bare(bare_axes *b) {
    for (tl_tensor t = {0}; tl_next_tensor(b->r->kernel, &t);)
        for (int i = 0; i < t.axes->count; i++) {
            str name = tl_axis_index(t.axes, i);
            bool is_fresh = t.axes->items[i].is_bare && name.length && find_bare(b, name) < 0;
            if (is_fresh && b->count < BARE_MAX) b->names[b->count++] = name;
        }
}

/* In an expression of a Compute: names that mean an index become that index's own. */
static void name_in(bare_axes *b, tl_expr *e) {
    if (!e) return;
    bool is_index = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_INDEX;
    int at = is_index ? find_bare(b, e->text) : -1;
    if (at >= 0) {
        if (!b->indices[at].length) {
            b->indices[at] = reason_fresh(b->r, "%.*s_index", STR_ARGS(e->text));
        }
        e->text = b->indices[at];
    }
    name_in(b, e->left);
    name_in(b, e->right);
    for (int i = 0; i < e->item_count; i++) name_in(b, e->items[i]);
}

static void name_axes(bare_axes *b) {
    for (tl_tensor t = {0}; tl_next_tensor(b->r->kernel, &t);)
        for (int i = 0; i < t.axes->count; i++) {
            str name = tl_axis_index(t.axes, i);
            int at = name.length ? find_bare(b, name) : -1;
            if (at < 0 || !b->indices[at].length) continue;
            t.axes->items[i].coordinate = tl_name_expr(b->r->memory, b->indices[at]);
            t.axes->items[i].is_bare = false;
            if (t.view) edit_rename_expr(t.view->value, name, b->indices[at]);
        }
}

static bool uses_some(const bare_axes *b, const tl_statement *s) {
    for (int i = 0; i < b->count && s->kind == TL_COMPUTE; i++)
        if (edit_takes(s, b->names[i]) || tl_expr_names(s->compute.condition, b->names[i]))
            return true;
    return false;
}

bool meant_name_indices(reason *r) {
    bare_axes b = {.r = r};
    note_bare(&b);
    bool is_used = false;
    for (tl_statement *s = r->kernel->body.first; s && !is_used; s = tl_next(s, NULL))
        is_used = uses_some(&b, s);
    if (!is_used) return true;
    if (!meant_read(r)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        name_in(&b, s->compute.condition);
        for (int i = 0; i < s->compute.operand_count; i++)
            name_in(&b, s->compute.operands[i].value);
    }
    name_axes(&b);
    return true;
}

/* --- whole axes ------------------------------------------------------------------------------- */

/* The axis along which the statement takes its operand together; empty when it takes none. */
static str taken_along(const tl_kernel *kernel, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    tl_shape_rule shape = tl_operation_shape(c->operation);
    tl_tile_axis axes[4];
    tl_product_axes product;
    int count = 0;
    if (shape == TL_SHAPE_PRODUCT && c->operand_count == 2 &&
        tl_product_of(&c->operands[0], &c->operands[1], &product))
        return product.contracted.index;
    bool takes_rows = shape == TL_SHAPE_REDUCTION || shape == TL_SHAPE_CHOICE;
    if (!takes_rows && shape != TL_SHAPE_SOFTMAX) return STR("");
    if (c->operand_count) count = tl_operand_axes(&c->operands[0], axes);
    if (!count) return STR("");
    const tl_statement *loop = NULL;
    int axis = count - 1;
    if (shape == TL_SHAPE_SOFTMAX) tl_softmax_axis(kernel, s, &loop, &axis);
    return loop || axis < 0 ? STR("") : axes[axis].index;
}

static bool is_walked(const tl_kernel *kernel, const tl_statement *s, str index) {
    for (const tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop)) {
        const tl_expr *length, *size;
        if (tl_loop_walks(loop, &length, &size) && tl_loop_walks_index(kernel, loop, length, index))
            return true;
    }
    return false;
}

/* Sums of products along the axis that go to memory as they are, and are added to what is there:
 * each tile may add its part.
 */
static bool is_added_in_memory(const tl_kernel *kernel, const tl_statement *s, str index) {
    if (tl_operation_shape(s->compute.operation) != TL_SHAPE_PRODUCT) return false;
    str name = s->compute.target->text;
    bool is_added = false;
    for (tl_statement *t = kernel->body.first; t; t = tl_next(t, NULL)) {
        bool adds = t->kind == TL_COPY && t->copy.to == TL_GLOBAL &&
                    t->copy.target_kind == TL_ACCUMULATE && str_equal(t->copy.what->text, name);
        bool sums = edit_is_product(t) && str_equal(edit_target_name(t), name) &&
                    !edit_takes(t, name) && str_equal(taken_along(kernel, t), index);
        is_added |= adds;
        if (!adds && !sums && (edit_reads(t, name) || edit_writes(t, name))) return false;
    }
    return is_added;
}

bool meant_whole_by(reason *r, str index, const tl_statement **by) {
    *by = NULL;
    if (!meant_read(r)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && str_equal(taken_along(r->kernel, s), index) &&
            !is_walked(r->kernel, s, index) && !is_added_in_memory(r->kernel, s, index) && !*by)
            *by = s;
    return true;
}
