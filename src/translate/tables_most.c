/* The most that a length can be, where elements of tables take part in it: each element at its own
 * limit (tables.c), carried through the arithmetic around it. `q_start[b + 1] - q_start[b]` is at
 * most what starts may be at most; `kv_lens[b]` what lengths may be.
 */
#include "translate/emit.h"

enum { DEPTH_MAX = TL_HEIGHT_MAX };

typedef struct most {
    emit *t;
    bool failed;
} most;

static tl_expr *part(const tl_expr *e) {
    return (tl_expr *)(uintptr_t)e; /* nothing changes what is put into an expression here */
}

static const tl_expr *fail(most *m) {
    m->failed = true;
    return NULL;
}

static bool has_element(const most *m, const tl_expr *e) {
    return model_reads_element(m->t->model, e);
}

/* Through lets, to the element of a table; NULL: it is something else. */
static const tl_expr *element_of(const tl_expr *e) {
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        if (e->kind == TL_ELEMENT) return e;
        bool is_let = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT &&
                      e->symbol->value;
        if (!is_let) return NULL;
        e = e->symbol->value;
    }
    return NULL;
}

static const tl_expr *limit_of(most *m, const tl_expr *element, ftl_table_use *use) {
    *use = FTL_TABLE_UNKNOWN;
    const tl_symbol *table = element->symbol;
    if (!table || !table->axes) return fail(m);
    const tl_expr *limit =
        translate_table_limit(m->t->kernel, table, m->t->plan, m->t->memory, use);
    bool is_known = limit && *use != FTL_TABLE_UNKNOWN && *use != FTL_TABLE_FREE;
    return is_known ? limit : fail(m);
}

static const tl_expr *largest(most *m, const tl_expr *e, int depth);

/* No entry is negative: what is taken away makes nothing larger. A stretch between two starts of
 * one table is no longer than starts go.
 */
static const tl_expr *difference(most *m, const tl_expr *e, int depth) {
    ftl_table_use use;
    const tl_expr *end = element_of(e->left), *start = element_of(e->right);
    if (start) {
        if (!end) return largest(m, e->left, depth + 1);
        return limit_of(m, end, &use);
    }
    if (has_element(m, e->right)) return fail(m);
    tl_expr *copy = arena_new(m->t->memory, tl_expr);
    *copy = *e;
    copy->left = part(largest(m, e->left, depth + 1));
    return copy;
}

static const tl_expr *monotone(most *m, const tl_expr *e, int depth) {
    bool is_safe = e->operator== TL_PLUS || !has_element(m, e->right);
    if (!is_safe) return fail(m);
    tl_expr *copy = arena_new(m->t->memory, tl_expr);
    *copy = *e;
    copy->left = part(largest(m, e->left, depth + 1));
    copy->right = part(largest(m, e->right, depth + 1));
    return copy;
}

/* The smallest of several is bounded by any of them that is bounded itself. */
static const tl_expr *call(most *m, const tl_expr *e, int depth) {
    bool is_smallest = e->function == TL_FUNCTION_MIN;
    bool is_monotone = is_smallest || e->function == TL_FUNCTION_MAX ||
                       e->function == TL_FUNCTION_CEIL || e->function == TL_FUNCTION_FLOOR;
    if (!is_monotone) return fail(m);
    tl_expr *copy = arena_new(m->t->memory, tl_expr);
    *copy = *e;
    copy->items = arena_array(m->t->memory, tl_expr *, e->item_count + 1);
    copy->item_count = 0;
    for (int i = 0; i < e->item_count; i++) {
        most one = {.t = m->t};
        const tl_expr *limit = largest(&one, e->items[i], depth + 1);
        if (!one.failed) copy->items[copy->item_count++] = part(limit);
        else if (!is_smallest) return fail(m);
    }
    if (copy->item_count == 0) return fail(m);
    return is_smallest && copy->item_count == 1 ? copy->items[0] : copy;
}

static const tl_expr *largest(most *m, const tl_expr *e, int depth) {
    ftl_table_use use;
    if (m->failed || depth > DEPTH_MAX) return fail(m);
    if (!has_element(m, e)) return e;
    if (e->kind == TL_ELEMENT) return limit_of(m, e, &use);
    if (e->kind == TL_NAME) return largest(m, e->symbol->value, depth + 1);
    if (e->kind == TL_CALL) return call(m, e, depth);
    if (e->kind != TL_BINARY) return fail(m);
    switch (e->operator) {
    case TL_MINUS: return difference(m, e, depth);
    case TL_PLUS:
    case TL_TIMES:
    case TL_OVER: return monotone(m, e, depth);
    default: return fail(m);
    }
}

bool emit_most(emit *t, const tl_expr *e, ftl_formula *out) {
    most m = {.t = t};
    const tl_expr *limit = largest(&m, e, 0);
    return limit && !m.failed && emit_formula(t, limit, out);
}
