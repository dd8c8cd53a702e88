/* What a launch demands of lengths. Indices ask for an axis that is long enough: bias[min(k, 3)] or
 * k_scale[kv/32] of a shorter one would read what is nobody's; what stands under a condition (the
 * values of `select`, the right side of `and` and `or`) may have been left out by it. A length that
 * is made of others is not below 0. Rows of elements that share bytes end with a byte.
 */
#include "translate/emit.h"

#include <string.h>

typedef struct reach {
    const tl_kernel *kernel;
    const ftl_plan *plan;
    arena *memory;
    translate_conditions *to;
} reach;

static bool is_said(const translate_conditions *all, const char *text) {
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].text, text)) return true;
    return false;
}

/* The number that an index is at most; false: no number bounds it. */
static bool most_of(const tl_expr *e, int64_t *most) {
    tl_value value;
    if (tl_evaluate(e, NULL, NULL, &value)) {
        *most = value.integer;
        return !value.is_real;
    }
    bool is_least = e->kind == TL_CALL && e->function == TL_FUNCTION_MIN;
    bool is_largest = e->kind == TL_CALL && e->function == TL_FUNCTION_MAX;
    int found = 0;
    for (int i = 0; (is_least || is_largest) && i < e->item_count; i++) {
        int64_t other;
        if (!most_of(e->items[i], &other)) continue;
        if (!found || (is_least ? other < *most : other > *most)) *most = other;
        found++;
    }
    return is_largest ? found == e->item_count && found > 0 : found > 0;
}

static void demand(const reach *t, const tl_expr *extent, tl_expr *index) {
    const tl_expr *longer = tl_new_binary(t->memory, TL_GREATER, extent, index);
    ftl_formula f;
    if (!translate_formula(longer, t->plan, t->memory, &f) || is_said(t->to, f.text)) return;
    list_push(t->memory, t->to, f);
}

static bool is_open(const tl_expr *extent) {
    return extent->kind == TL_NAME && extent->symbol && extent->symbol->kind == TL_SYMBOL_SIZE &&
           !extent->symbol->is_known;
}

static void visit(void *context, tl_expr *e) {
    const reach *t = context;
    const tl_axes *axes = e->kind == TL_ELEMENT && e->symbol ? e->symbol->axes : NULL;
    for (int i = 0; axes && i < e->item_count && i < axes->count; i++) {
        const tl_expr *extent = axes->items[i].extent;
        int64_t most;
        bool is_call = e->items[i]->kind == TL_CALL;
        if (is_open(extent) && is_call && most_of(e->items[i], &most) && most > 0)
            demand(t, extent, tl_new_integer(t->memory, most));
    }
}

/* --- indices of axes -------------------------------------------------------------------------- */

static const tl_expr *extent_of(const reach *t, const tl_expr *e) {
    bool may_be = e->kind == TL_NAME && (!e->symbol || e->symbol->kind == TL_SYMBOL_INDEX);
    const tl_symbol *index = may_be ? tl_find_index(t->kernel, e->text) : NULL;
    return index ? index->extent : NULL;
}

/* Of i, i + c, c*i, i/c, and of such of such, with numbers c above 0: what it is where i is the
 * last of its axis. NULL: it is something else.
 */
static tl_expr *last_of(const reach *t, const tl_expr *e) {
    const tl_expr *extent = extent_of(t, e);
    int64_t number;
    if (extent) return tl_new_binary(t->memory, TL_MINUS, extent, tl_new_integer(t->memory, 1));
    if (e->kind != TL_BINARY) return NULL;
    bool keeps = e->operator== TL_PLUS || e->operator== TL_TIMES || e->operator== TL_OVER;
    bool is_right = keeps && tl_known_integer(e->right, &number) && number > 0;
    bool is_left =
        keeps && e->operator!= TL_OVER && tl_known_integer(e->left, &number) && number > 0;
    tl_expr *inner = is_right ? last_of(t, e->left) : is_left ? last_of(t, e->right) : NULL;
    if (!inner) return NULL;
    tl_expr *last = arena_new(t->memory, tl_expr);
    *last = *e;
    if (is_right) last->left = inner;
    else last->right = inner;
    return last;
}

static void read(const reach *t, const tl_expr *e) {
    if (!e) return;
    if (e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT) {
        read(t, e->items[0]);
        return;
    }
    const tl_axes *axes = e->kind == TL_ELEMENT && e->symbol ? e->symbol->axes : NULL;
    for (int i = 0; i < e->item_count; i++) {
        read(t, e->items[i]);
        const tl_expr *extent = axes && i < axes->count ? axes->items[i].extent : NULL;
        const tl_expr *own = extent ? extent_of(t, e->items[i]) : NULL;
        tl_expr *last = extent && is_open(extent) ? last_of(t, e->items[i]) : NULL;
        if (last && !(own && tl_expr_equal(own, extent))) demand(t, extent, last);
    }
    read(t, e->left);
    bool is_guarded = e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR);
    if (!is_guarded) read(t, e->right);
}

void translate_reach_conditions(const tl_kernel *kernel, const ftl_plan *plan, arena *memory,
                                translate_conditions *to) {
    reach t = {kernel, plan, memory, to};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        tl_each_expr(s, visit, &t);
        if (s->kind != TL_COMPUTE) continue;
        for (int i = 0; i < s->compute.operand_count; i++) read(&t, s->compute.operands[i].value);
        read(&t, s->compute.condition);
    }
}

/* --- lengths that may be below 0 ---------------------------------------------------------------
 */

static bool may_be_negative(const ftl_formula *f) {
    for (int32_t i = 0; i < f->step_count; i++) {
        const ftl_formula_step *step = &f->steps[i];
        if (step->op == FTL_SUBTRACT || step->op == FTL_NEGATE || step->op == FTL_PUSH_SCALAR)
            return true;
        if (step->op == FTL_PUSH_INTEGER && step->integer < 0) return true;
    }
    return false;
}

static void demand_length(const tl_expr *extent, const ftl_plan *plan, arena *memory,
                          translate_conditions *to) {
    ftl_formula f;
    if (!translate_formula(extent, plan, memory, &f) || !may_be_negative(&f)) return;
    const tl_expr *condition =
        tl_new_binary(memory, TL_GREATER_EQUAL, extent, tl_new_integer(memory, 0));
    if (!translate_formula(condition, plan, memory, &f) || is_said(to, f.text)) return;
    list_push(memory, to, f);
}

/* --- elements that share bytes ---------------------------------------------------------------- */

static bool is_copied(const tl_kernel *kernel, const tl_symbol *tensor) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COPY && s->copy.from == TL_GLOBAL &&
            emit_tensor_under(tl_copy_source(s).symbol) == tensor)
            return true;
    return false;
}

static void demand_even(const tl_expr *extent, const ftl_plan *plan, arena *memory,
                        translate_conditions *to) {
    int64_t known;
    ftl_formula f;
    if (tl_known_integer(extent, &known)) return; /* a multiple of a unit */
    const tl_expr *rest = tl_new_binary(memory, TL_MODULO, extent, tl_new_integer(memory, 2));
    const tl_expr *even = tl_new_binary(memory, TL_EQUAL, rest, tl_new_integer(memory, 0));
    if (!translate_formula(even, plan, memory, &f) || is_said(to, f.text)) return;
    list_push(memory, to, f);
}

void translate_length_conditions(const tl_kernel *kernel, const ftl_plan *plan, arena *memory,
                                 translate_conditions *to) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_axes *axes = kernel->symbols[i]->axes;
        for (int a = 0; axes && a < axes->count; a++)
            demand_length(axes->items[a].extent, plan, memory, to);
        const tl_statement *said = kernel->symbols[i]->parameter;
        if (axes && axes->count && said && tl_is_packed(said->parameter.type) &&
            is_copied(kernel, kernel->symbols[i]))
            demand_even(axes->items[axes->count - 1].extent, plan, memory, to);
    }
}
