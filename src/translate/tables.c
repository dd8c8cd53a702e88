/* What the integers of a table may be. Each place where an element of it takes part in an index, or
 * in the length of a view's axis, demands something: `pool[table[b, kv/page_len], ...]` that an
 * entry is below `pages`, and with `kv in kv_lens[b]` that kv/page_len stays below `max_pages`. A
 * demand "e < limit" goes down through e to the element and takes e's arithmetic along on the other
 * side.
 */
#include "tl/tl.h"
#include "translate/translate.h"

enum { DEPTH_MAX = TL_HEIGHT_MAX };

typedef struct tables {
    const tl_symbol *table;
    const ftl_plan *plan;
    arena *memory;
    const tl_expr *limit; /* the least of all demands; NULL: none yet */
    ftl_table_use use;
    bool is_involved; /* a use that says nothing that can be followed */
} tables;

/* --- expressions ------------------------------------------------------------------------------ */

static tl_expr *least(tables *t, const tl_expr *a, const tl_expr *b) {
    tl_expr *e = arena_new(t->memory, tl_expr);
    e->kind = TL_CALL, e->function = TL_FUNCTION_MIN, e->item_count = 2;
    e->items = arena_array(t->memory, tl_expr *, 2);
    e->items[0] = (tl_expr *)(uintptr_t)a, e->items[1] = (tl_expr *)(uintptr_t)b;
    return e;
}

/* What a name stands for, through lets: `kv_len` for kv_lens[b]. */
static const tl_expr *meaning(const tl_expr *e) {
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        bool is_let = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT &&
                      !e->symbol->is_known && e->symbol->value;
        if (!is_let) return e;
        e = e->symbol->value;
    }
    return e;
}

static bool has_table(const tables *t, const tl_expr *e, int depth) {
    if (!e || depth > DEPTH_MAX) return false;
    e = meaning(e);
    if (e->kind == TL_ELEMENT && e->symbol == t->table) return true;
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (s && s->kind == TL_SYMBOL_INDEX && has_table(t, s->extent, depth + 1)) return true;
    if (has_table(t, e->left, depth + 1) || has_table(t, e->right, depth + 1)) return true;
    for (int i = 0; i < e->item_count; i++) {
        if (has_table(t, e->items[i], depth + 1)) return true;
    }
    return false;
}

/* The largest value of an expression of indices and sizes; NULL where that is not seen. */
static const tl_expr *largest(tables *t, const tl_expr *e) {
    e = meaning(e);
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (e->kind == TL_INTEGER || (s && (s->kind == TL_SYMBOL_SIZE || s->is_known))) return e;
    if (s && s->kind == TL_SYMBOL_INDEX && s->extent)
        return tl_new_binary(t->memory, TL_MINUS, s->extent, tl_new_integer(t->memory, 1));
    if (e->kind == TL_BINARY && e->operator== TL_MODULO)
        return tl_new_binary(t->memory, TL_MINUS, e->right, tl_new_integer(t->memory, 1));
    return NULL;
}

static const tl_expr *bound(tables *t, const tl_expr *e) {
    const tl_expr *most = largest(t, e);
    return most && !has_table(t, most, 0) ? most : NULL;
}

/* --- demands ---------------------------------------------------------------------------------- */

static void involve(tables *t) {
    t->is_involved = true;
}

static void note(tables *t, const tl_expr *limit, ftl_table_use use) {
    ftl_formula formula;
    if (!translate_formula(limit, t->plan, t->memory, &formula))
        return; /* says nothing at launch */
    if (!t->limit) t->limit = limit;
    else if (!tl_expr_equal(t->limit, limit)) t->limit = least(t, t->limit, limit);
    if (t->use < use) t->use = use;
}

static void demand_length(tables *t, const tl_expr *e, const tl_expr *limit, int depth);

/* Is it table[j] - start, or the smaller of that and of others? */
static bool is_length_from(const tables *t, const tl_expr *e, const tl_expr *start, int depth) {
    e = meaning(e);
    bool is_smallest = e->kind == TL_CALL && e->function == TL_FUNCTION_MIN;
    for (int i = 0; is_smallest && i < e->item_count && depth < DEPTH_MAX; i++)
        if (is_length_from(t, e->items[i], start, depth + 1)) return true;
    if (e->kind != TL_BINARY || e->operator!= TL_MINUS) return false;
    const tl_expr *end = meaning(e->left), *begin = meaning(e->right);
    return end->kind == TL_ELEMENT && end->symbol == t->table && tl_expr_equal(begin, start);
}

/* table[i] + q, where q runs below table[j] - table[i] at most: stretches that follow one another.
 */
static bool is_stretch(const tables *t, const tl_expr *start, const tl_expr *index) {
    const tl_symbol *s = index->kind == TL_NAME ? index->symbol : NULL;
    start = meaning(start);
    bool starts = start->kind == TL_ELEMENT && start->symbol == t->table;
    if (!starts || !s || s->kind != TL_SYMBOL_INDEX || !s->extent) return false;
    return is_length_from(t, s->extent, start, 0);
}

/* e < limit. */
static void demand(tables *t, const tl_expr *e, const tl_expr *limit, int depth) {
    if (depth > DEPTH_MAX || !has_table(t, e, 0)) return;
    e = meaning(e);
    if (e->kind == TL_ELEMENT && e->symbol == t->table) {
        note(t, limit, FTL_TABLE_INDEX);
        return;
    }
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (s && s->kind == TL_SYMBOL_INDEX && s->extent) {
        demand_length(t, s->extent, limit, depth + 1);
        return;
    }
    if (e->kind == TL_ELEMENT) return; /* of another table: its own entries are below the limit */
    if (e->kind != TL_BINARY) {
        involve(t);
        return;
    }
    const tl_expr *a = e->left, *b = e->right;
    switch (e->operator) {
    case TL_MODULO: return;
    case TL_OVER: demand(t, a, tl_new_binary(t->memory, TL_TIMES, limit, b), depth + 1); return;
    case TL_TIMES:
        if (has_table(t, b, 0))
            demand(t, b, tl_new_binary(t->memory, TL_OVER, limit, a), depth + 1);
        else demand(t, a, tl_new_binary(t->memory, TL_OVER, limit, b), depth + 1);
        return;
    case TL_MINUS: demand(t, a, limit, depth + 1); return;
    case TL_PLUS: break;
    default: involve(t); return;
    }
    if (is_stretch(t, a, b) || is_stretch(t, b, a)) {
        note(t, limit, FTL_TABLE_STARTS);
        return;
    }
    const tl_expr *most_a = bound(t, a), *most_b = bound(t, b);
    if (most_b) demand(t, a, tl_new_binary(t->memory, TL_MINUS, limit, most_b), depth + 1);
    if (most_a) demand(t, b, tl_new_binary(t->memory, TL_MINUS, limit, most_a), depth + 1);
    if (!most_a && !most_b) involve(t);
}

/* e <= limit, e a length. */
static void demand_length(tables *t, const tl_expr *e, const tl_expr *limit, int depth) {
    if (depth > DEPTH_MAX || !has_table(t, e, 0)) return;
    e = meaning(e);
    if (e->kind == TL_ELEMENT && e->symbol == t->table) {
        note(t, limit, FTL_TABLE_LENGTH);
    } else if (e->kind == TL_BINARY && e->operator== TL_TIMES && !has_table(t, e->right, 0)) {
        tl_expr *below = tl_new_binary(t->memory, TL_OVER, limit, e->right);
        below->division = TL_DIVIDE_DOWN;
        demand_length(t, e->left, below, depth + 1);
    } else if (e->kind == TL_BINARY && e->operator== TL_OVER && !has_table(t, e->right, 0)) {
        demand_length(t, e->left, tl_new_binary(t->memory, TL_TIMES, limit, e->right), depth + 1);
    } else {
        involve(t);
    }
}

/* --- where elements stand --------------------------------------------------------------------- */

static void visit(void *context, tl_expr *e) {
    tables *t = context;
    const tl_axes *axes = e->kind == TL_ELEMENT && e->symbol ? e->symbol->axes : NULL;
    for (int i = 0; axes && i < e->item_count && i < axes->count; i++) {
        demand(t, e->items[i], axes->items[i].extent, 0);
    }
}

/* A Copy at `[table[b], L = first]`: an index, or a tile's number, which may lie beyond the end. */
static void visit_place(tables *t, const tl_copy *copy, const tl_axes *axes) {
    for (int i = 0; axes && i < copy->place.count && i < axes->count; i++) {
        const tl_spot *spot = &copy->place.items[i];
        if (!spot->is_all && !spot->is_block) demand(t, spot->at, axes->items[i].extent, 0);
    }
}

const tl_expr *translate_table_limit(tl_kernel *kernel, const tl_symbol *table,
                                     const ftl_plan *plan, arena *memory, ftl_table_use *use) {
    tables t = {.table = table, .plan = plan, .memory = memory, .use = FTL_TABLE_FREE};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        tl_each_expr(s, visit, &t);
        if (s->kind != TL_COPY) continue;
        tl_end from = tl_copy_source(s), to = tl_copy_target(s);
        const tl_symbol *global = s->copy.from == TL_GLOBAL ? from.symbol : to.symbol;
        if (global) visit_place(&t, &s->copy, global->axes);
    }
    *use = t.is_involved ? FTL_TABLE_UNKNOWN : t.use;
    return t.limit;
}

/* Does the place of a tensor's elements, by a coordinate or by views, go by the table's entries? */
static bool goes_by(const tables *t, const tl_copy *copy, const tl_symbol *tensor) {
    for (int i = 0; i < copy->place.count; i++)
        if (has_table(t, copy->place.items[i].at, 0)) return true;
    for (int depth = 0; tensor && tensor->view && depth < DEPTH_MAX; depth++) {
        if (has_table(t, tensor->view->value, 0)) return true;
        tensor = tensor->view_base;
    }
    return false;
}

/* Does the table say where results go? Then two entries that are equal would write one place twice.
 */
static bool places_results(const tables *t, tl_kernel *kernel) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        bool stores =
            s->kind == TL_COPY && s->copy.to == TL_GLOBAL && s->copy.target_kind != TL_ACCUMULATE;
        if (stores && goes_by(t, &s->copy, tl_copy_target(s).symbol)) return true;
    }
    return false;
}

void translate_table(tl_kernel *kernel, const tl_symbol *table, const ftl_plan *plan, arena *memory,
                     ftl_plan_tensor *out) {
    const tl_expr *limit = translate_table_limit(kernel, table, plan, memory, &out->use);
    tables t = {.table = table, .memory = memory};
    out->is_distinct = out->use == FTL_TABLE_INDEX && places_results(&t, kernel);
    out->limit = (ftl_formula){.text = ""};
    if (limit) translate_formula(limit, plan, memory, &out->limit);
}
