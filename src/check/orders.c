/* Tensors and tiles that are `permuted`: memory has an axis in the order in which accumulators hold
 * it, so that weights are operands as they are computed (decision 022). The order is one of bytes
 * within units of 16; whoever moves single elements would have to know it, and nobody does.
 */
#include "check/rules.h"

#include "tl/boxes.h"
#include "tl/tl.h"

typedef struct orders {
    const tl_kernel *kernel;
    diag_list *diags;
    bool failed;
} orders;

static void fail(orders *o, diag_id id, diag_range range, str a, str b) {
    o->failed = true;
    diag_report(o->diags, id, range, a, b);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The end of a workspace's axis may be anywhere: its kernels fill the unit with zeros. */
static void check_tensor(orders *o, const tl_statement *s) {
    const tl_parameter *p = &s->parameter;
    if (p->axes.count < 2 || (p->type != TL_OPEN && tl_type_bytes(p->type) != 1)) {
        fail(o, DIAG_ORDER_TENSOR, s->range, p->name, STR(""));
        return;
    }
    const tl_expr *length = p->axes.items[p->axes.count - 1].extent;
    if (!p->symbol->is_workspace && !tl_is_multiple(o->kernel, length, TL_PERMUTED_UNIT))
        fail(o, DIAG_ORDER_LENGTH, s->range, p->name, tl_expr_text(o->diags->memory, length));
}

static void check_element(void *context, tl_expr *e) {
    orders *o = context;
    if (e->kind == TL_ELEMENT && e->symbol && tl_is_permuted(e->symbol))
        fail(o, DIAG_ORDER_ELEMENT, e->range, e->text, STR(""));
}

/* The tensor that a Copy moves to or from; NULL: none that is permuted. */
static const tl_symbol *tensor_of(const tl_statement *copy) {
    tl_end ends[2] = {tl_copy_source(copy), tl_copy_target(copy)};
    for (int i = 0; i < 2; i++)
        if (ends[i].space == TL_GLOBAL && ends[i].symbol && tl_is_permuted(ends[i].symbol))
            return ends[i].symbol;
    return NULL;
}

static void check_place(orders *o, const tl_statement *copy, const tl_symbol *tensor) {
    const tl_place *place = &copy->copy.place;
    if (!place->is_given || place->count != tensor->axes->count) return;
    const tl_spot *last = &place->items[place->count - 1];
    if (!last->is_all && !last->is_block)
        fail(o, DIAG_ORDER_PLACE, copy->range, tensor->name, STR(""));
}

bool rules_sketch_orders(tl_kernel *kernel, diag_list *diags) {
    orders o = {kernel, diags, false};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (tl_is_parameter(s) && s->parameter.is_permuted) check_tensor(&o, s);
        tl_each_expr(s, check_element, &o);
        const tl_symbol *tensor = s->kind == TL_COPY ? tensor_of(s) : NULL;
        if (tensor) check_place(&o, s, tensor);
    }
    return !o.failed;
}

/* --- tiles ------------------------------------------------------------------------------------ */

static bool is_permuted_tile(const tl_end *end) {
    return end->space == TL_SHARED && end->tile && end->tile->allocation &&
           end->tile->allocation->allocate.is_permuted;
}

/* Is the tile's contiguous axis the tensor's, in whole units? */
static bool has_last_axis(const tl_end *end, const tl_symbol *tensor) {
    const tl_tile *t = end->tile;
    int64_t length;
    if (!t || !t->allocation || t->axis_count != 2 || t->allocation->allocate.by_columns)
        return false;
    return str_equal(t->axes[1].index, tl_axis_index(tensor->axes, tensor->axes->count - 1)) &&
           t->axes[1].extent && tl_known_integer(t->axes[1].extent, &length) &&
           length % TL_PERMUTED_UNIT == 0;
}

static bool is_lines(const tl_end *end) {
    return end->space == TL_REGISTER && end->tile && end->tile->allocation &&
           end->tile->allocation->allocate.layout.kind == TL_LINES &&
           tl_type_bytes(end->tile->type) == 1;
}

static void check_copy(orders *o, const tl_statement *s) {
    tl_end from = tl_copy_source(s), to = tl_copy_target(s);
    const tl_symbol *tensor = tensor_of(s);
    if (tensor) {
        bool is_load = from.space == TL_GLOBAL;
        bool fits = has_last_axis(is_load ? &to : &from, tensor) &&
                    (is_load ? is_permuted_tile(&to) : is_lines(&from));
        if (!fits) fail(o, DIAG_ORDER_COPY, s->range, tensor->name, STR(""));
    } else if (is_permuted_tile(&from) || (is_permuted_tile(&to) && !is_lines(&from))) {
        const tl_end *tile = is_permuted_tile(&to) ? &to : &from;
        fail(o, DIAG_ORDER_TILE, s->range, tile->symbol->name, STR(""));
    }
}

bool rules_orders(const model *m, diag_list *diags) {
    orders o = {m->kernel, diags, false};
    if (!rules_sketch_orders(m->kernel, diags)) return false;
    for (int r = 0; r < m->role_count; r++)
        for (int i = 0; i < m->roles[r].step_count; i++)
            if (m->roles[r].steps[i].kind == STEP_COPY)
                check_copy(&o, m->roles[r].steps[i].statement);
    return !o.failed;
}
