/* What an index that `min` bounds by a number asks of its axis: bias[min(k, 3)] of an axis that is
 * too short would read what is nobody's, so the launch demands that it is long enough.
 */
#include "translate/emit.h"

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
