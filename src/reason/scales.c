/* Within pass bind: factors of operands of 8 bits go past their products.
 *
 * A sketch may give such an operand its scales before the product, `Multiply K, k_scale[kv]`. A
 * factor that is the same along the contracted axis is a factor of the sums as well: there it takes
 * an operation for each element of the result, no rounding, and the operand stays as memory has it,
 * so that products may take its 8 bits. Where all sums of a loop have the factor, it comes after
 * the loop.
 */
#include "reason/tiles.h"
#include "tl/names.h"

enum { FACTORS_MOST = 8 };

typedef struct scaled {
    tl_statement *copy;
    str name;
    tl_statement *factors[FACTORS_MOST]; /* in order */
    int count;
} scaled;

/* --- may they go? ----------------------------------------------------------------------------- */

static tl_expr *factor_of(const tl_statement *s, str name) {
    bool is_first = edit_operand_is(s, 0, name);
    if (s->compute.operands[0].is_transposed || s->compute.operands[1].is_transposed) return NULL;
    return s->compute.operands[is_first ? 1 : 0].value;
}

/* `Multiply X, F and get X`, or Divide. */
static bool is_factor(const tl_statement *s, str name) {
    bool multiplies = edit_is_compute(s, TL_MULTIPLY), divides = edit_is_compute(s, TL_DIVIDE);
    if (!(multiplies || divides) || s->compute.target_kind != TL_GET ||
        !str_equal(edit_target_name(s), name))
        return false;
    bool is_one = edit_operand_is(s, 0, name) != (multiplies && edit_operand_is(s, 1, name));
    const tl_expr *factor = is_one ? factor_of(s, name) : NULL;
    return factor && !tl_expr_names(factor, name);
}

static bool names_tile(const tl_kernel *kernel, const tl_expr *e, str *tile) {
    const tl_symbol *s = e->kind == TL_NAME ? tl_find_symbol(kernel, e->text) : NULL;
    if (s && s->kind == TL_SYMBOL_VARIABLE) *tile = e->text;
    bool found = s && s->kind == TL_SYMBOL_VARIABLE;
    if (e->left) found |= names_tile(kernel, e->left, tile);
    if (e->right) found |= names_tile(kernel, e->right, tile);
    for (int i = 0; i < e->item_count; i++) found |= names_tile(kernel, e->items[i], tile);
    return found;
}

/* What it is made of stays as it is, and no index of the contracted axis takes part. */
static bool may_pass(reason *r, const tl_statement *factor, const tl_expr *value, str contracted) {
    str tile;
    if (tl_expr_names(value, contracted)) return false;
    if (!names_tile(r->kernel, value, &tile)) return true;
    if (value->kind != TL_NAME) return false;
    const tl_symbol *symbol = tl_find_symbol(r->kernel, tile);
    for (int i = 0; i < symbol->in_register.axis_count; i++)
        if (str_equal(symbol->in_register.axes[i].index, contracted)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_writes(s, tile) && !edit_is_before(r->kernel, s, factor)) return false;
    return true;
}

/* Everything that names the tile: its Copy, then factors beside it, then products. */
static bool read_uses(reason *r, scaled *x) {
    bool has_product = false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s == x->copy || (!edit_reads(s, x->name) && !edit_writes(s, x->name))) continue;
        if (!edit_is_before(r->kernel, x->copy, s)) return false;
        if (is_factor(s, x->name)) {
            if (has_product || x->count == FACTORS_MOST || s->parent != x->copy->parent)
                return false;
            x->factors[x->count++] = s;
            continue;
        }
        tl_product_axes axes;
        if (!edit_is_product(s) || edit_writes(s, x->name) ||
            !tl_product_of(&s->compute.operands[0], &s->compute.operands[1], &axes) ||
            (edit_operand_is(s, 0, x->name) && edit_operand_is(s, 1, x->name)))
            return false;
        for (int i = 0; i < x->count; i++)
            if (!may_pass(r, x->factors[i], factor_of(x->factors[i], x->name),
                          axes.contracted.index))
                return false;
        has_product = true;
    }
    return has_product && x->count > 0;
}

/* --- moving them ------------------------------------------------------------------------------ */

static bool is_named(tl_statement *s, str name) {
    return edit_reads(s, name) || edit_writes(s, name) ||
           (s->kind == TL_COPY && tl_expr_names(s->copy.what, name));
}

static bool is_in_parameters(const scaled *x, str index) {
    for (int i = 0; i < x->count; i++)
        if (tl_expr_names(factor_of(x->factors[i], x->name), index)) return true;
    return false;
}

/* The outermost loop whose rounds all add to this sum, and nothing else does or uses it; the
 * factors are the same in all rounds. NULL: there is none.
 */
static tl_statement *sums_alone(reason *r, const scaled *x, tl_statement *product) {
    str sum = edit_target_name(product), tile;
    for (int i = 0; i < x->count; i++)
        if (names_tile(r->kernel, factor_of(x->factors[i], x->name), &tile)) return NULL;
    tl_statement *found = NULL;
    for (tl_statement *loop = edit_loop_of(product); loop; loop = edit_loop_of(loop)) {
        const tl_expr *length, *size;
        tl_tile_axis axes[4];
        int count = tl_operand_axes(&(tl_operand){.value = product->compute.target}, axes);
        if (!tl_loop_walks(loop, &length, &size) || is_in_parameters(x, loop->loop.name))
            return found;
        for (int i = 0; i < count; i++)
            if (tl_loop_walks_index(r->kernel, loop, length, axes[i].index)) return found;
        if (!size) return found; /* its index may have another name in the factors */
        for (tl_statement *s = loop->loop.body.first; s; s = tl_next(s, loop))
            if (s != product && is_named(s, sum)) return found;
        found = loop;
    }
    return found;
}

static bool is_first_use(reason *r, const tl_statement *loop, str sum) {
    for (tl_statement *s = r->kernel->body.first; s != loop; s = tl_next(s, NULL))
        if (is_named(s, sum)) return false;
    return true;
}

static void scale(reason *r, const scaled *x, tl_statement *at, str tile, str sum) {
    for (int i = x->count - 1; i >= 0; i--) {
        const tl_statement *f = x->factors[i];
        bool adds = sum.length > 0 && i == x->count - 1;
        reason_after(r, at, "Compute %s %.*s, %s and %s %.*s",
                     tl_operation_name(f->compute.operation), STR_ARGS(tile),
                     edit_text(r->memory, factor_of(f, x->name)), adds ? "accumulate" : "get",
                     STR_ARGS(adds ? sum : tile));
    }
}

static void pass_product(reason *r, const scaled *x, tl_statement *product) {
    str sum = edit_target_name(product);
    if (product->compute.target_kind == TL_GET) {
        scale(r, x, product, sum, (str){0});
        return;
    }
    tl_statement *loop = sums_alone(r, x, product);
    if (loop && is_first_use(r, loop, sum)) {
        scale(r, x, loop, sum, (str){0});
        return;
    }
    str part = reason_fresh(r, "T");
    product->compute.target = tl_name_expr(r->memory, part);
    product->compute.target_kind = TL_GET;
    scale(r, x, product, part, sum);
}

static void pass_all(reason *r, const scaled *x) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (edit_is_product(s) && edit_reads(s, x->name)) pass_product(r, x, s);
    }
    for (int i = 0; i < x->count; i++) edit_remove(r->kernel, x->factors[i]);
    x->copy->copy.to = TL_SHARED;
    reason_decide(r, "scales",
                  "the factors of %.*s are the same along the axis that its products contract, and "
                  "go past them: it is multiplied as memory has it",
                  STR_ARGS(x->name));
}

void reason_scales(reason *r) {
    diag_list scratch;
    reason_bind_alone(r, &scratch);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL || s->copy.to != TL_REGISTER ||
            !tl_is_narrow(tiles_tensor_type(r->kernel, s->copy.what->text)))
            continue;
        scaled x = {.copy = s, .name = edit_copied_tile(s)};
        if (!read_uses(r, &x)) continue;
        pass_all(r, &x);
        reason_bind_alone(r, &scratch);
    }
}
