/* What a launch demands of lengths. An index that `min` bounds by a number asks for an axis that is
 * long enough: bias[min(k, 3)] of a shorter one would read what is nobody's. A length that is made
 * of others is not below 0.
 */
#include "translate/emit.h"

#include <string.h>

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

static void demand(emit *t, const tl_expr *extent, int64_t index) {
    tl_expr *number = arena_new(t->memory, tl_expr), *longer = arena_new(t->memory, tl_expr);
    *number = (tl_expr){.kind = TL_INTEGER, .integer = index};
    *longer = (tl_expr){.kind = TL_BINARY, .operator= TL_GREATER, .right = number};
    longer->left = arena_new(t->memory, tl_expr);
    *longer->left = *extent;
    ftl_formula f;
    if (!emit_formula(t, longer, &f)) return;
    for (int i = 0; i < t->conditions.count; i++)
        if (str_is(str_from(t->conditions.items[i].text), f.text)) return;
    list_push(t->memory, &t->conditions, f);
}

static void visit(void *context, tl_expr *e) {
    const tl_axes *axes = e->kind == TL_ELEMENT && e->symbol ? e->symbol->axes : NULL;
    for (int i = 0; axes && i < e->item_count && i < axes->count; i++) {
        const tl_expr *extent = axes->items[i].extent;
        bool is_open = extent->kind == TL_NAME && extent->symbol &&
                       extent->symbol->kind == TL_SYMBOL_SIZE && !extent->symbol->is_known;
        int64_t most;
        bool is_call = e->items[i]->kind == TL_CALL;
        if (is_open && is_call && most_of(e->items[i], &most) && most > 0)
            demand(context, extent, most);
    }
}

void emit_reach_conditions(emit *t) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL))
        tl_each_expr(s, visit, t);
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

static bool is_said(const translate_conditions *all, const char *text) {
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].text, text)) return true;
    return false;
}

static void demand_length(const tl_expr *extent, const ftl_plan *plan, arena *memory,
                          translate_conditions *to) {
    ftl_formula f;
    if (!translate_formula(extent, plan, memory, &f) || !may_be_negative(&f)) return;
    tl_expr zero = {.kind = TL_INTEGER}, left = *extent,
            condition = {
                .kind = TL_BINARY, .operator= TL_GREATER_EQUAL, .left = &left, .right = &zero};
    if (!translate_formula(&condition, plan, memory, &f) || is_said(to, f.text)) return;
    list_push(memory, to, f);
}

void translate_length_conditions(const tl_kernel *kernel, const ftl_plan *plan, arena *memory,
                                 translate_conditions *to) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_axes *axes = kernel->symbols[i]->axes;
        for (int a = 0; axes && a < axes->count; a++)
            demand_length(axes->items[a].extent, plan, memory, to);
    }
}
