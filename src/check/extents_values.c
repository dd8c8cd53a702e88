/* The values of names in one run. */
#include "check/extents.h"
#include "tl/tl.h"

#include <string.h>

static bool lookup(void *context, const tl_expr *e, tl_value *out);

static bool has_value(const tl_symbol *s, int64_t *value) {
    switch (s->kind) {
    case TL_SYMBOL_CONSTANT: *value = s->integer; return s->is_known && s->is_integer;
    case TL_SYMBOL_SIZE: *value = 1; return true;
    case TL_SYMBOL_GRID: *value = 0; return true;
    case TL_SYMBOL_SCALAR: *value = 1; return !s->is_real;
    default: return false;
    }
}

extents_values *extents_values_new(arena *memory, const extents *x) {
    extents_values *v = arena_new(memory, extents_values);
    const tl_kernel *kernel = x->model->kernel;
    *v = (extents_values){.extents = x,
                          .names = tl_values_new(memory, kernel, lookup, v),
                          .others = tl_values_new(memory, kernel, lookup, v)};
    for (int i = 0; i < kernel->symbol_count; i++) {
        int64_t value;
        if (has_value(kernel->symbols[i], &value))
            tl_values_set(&v->others, kernel->symbols[i], value);
    }
    return v;
}

static void copy(tl_values *to, const tl_values *from, size_t count) {
    memcpy(to->is_known, from->is_known, sizeof(bool) * count);
    memcpy(to->integers, from->integers, sizeof(int64_t) * count);
}

void extents_values_start(extents_values *v, const extents_run *run) {
    size_t count = (size_t)v->extents->model->kernel->symbol_count;
    v->run = v->elements = run;
    v->tile = 0;
    v->tiles = 1;
    copy(&v->names, &v->others, count);
    for (int i = 0; i < v->extents->variable_count; i++) {
        tl_values_set(&v->names, v->extents->variables[i].symbol, run->values[i]);
    }
}

/* The kernel's own lets, for all who take these values over. */
static void evaluate_lets(extents_values *v) {
    const tl_statement *s = v->extents->model->kernel->body.first;
    for (; s; s = s->next) {
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            const tl_binding *binding = &s->let.items[i];
            int64_t value;
            bool varies = binding->symbol && binding->symbol->kind == TL_SYMBOL_CONSTANT &&
                          !binding->symbol->is_known;
            if (varies && extents_integer(v, binding->value, &value))
                tl_values_set(&v->names, binding->symbol, value);
        }
    }
}

/* Of two runs: are lengths alike? Are elements that go by the tile? */
static bool is_alike(const extents *x, const extents_run *a, const extents_run *b, bool of_tile) {
    for (int i = 0; i < x->variable_count; i++) {
        const extents_variable *variable = &x->variables[i];
        bool is_meant = variable->is_of_tile == of_tile && !variable->walk;
        if (is_meant && a->values[i] != b->values[i]) return false;
    }
    return true;
}

/* The run that another tile has its elements from: one of those at the same lengths, each run's
 * tiles those that come after it.
 */
static const extents_run *elements_of(const extents *x, const extents_run *run, int tile) {
    const extents_run *found = run;
    bool is_one = run >= x->runs && run < x->runs + x->run_count;
    int own = is_one ? (int)(run - x->runs) : 0;
    for (int n = 1, seen = 0; n <= x->run_count && seen < tile; n++) {
        const extents_run *other = &x->runs[(own + n) % x->run_count];
        if (!is_alike(x, run, other, false) || is_alike(x, found, other, true)) continue;
        found = other;
        seen++;
    }
    return found;
}

void extents_values_start_tile(extents_values *v, const extents_run *run, int tile, int tiles) {
    extents_values_start(v, run);
    v->tile = tile;
    v->tiles = tiles;
    v->elements = elements_of(v->extents, run, tile);
    for (int i = 0; i < v->extents->variable_count; i++) {
        const extents_variable *variable = &v->extents->variables[i];
        int64_t count;
        if (!variable->walk || !extents_integer(v, variable->walk, &count) || count < 1) continue;
        tl_values_set(&v->names, variable->symbol, (run->values[i] + tile) % count);
    }
    evaluate_lets(v);
}

void extents_values_take(extents_values *v, const extents_values *from, extents_values *following) {
    v->run = from->run;
    v->elements = from->elements;
    v->tile = from->tile;
    v->tiles = from->tiles;
    v->following = following;
    copy(&v->names, &from->names, (size_t)v->extents->model->kernel->symbol_count);
}

const extents_variable *extents_variable_of(const extents *x, const tl_expr *element) {
    for (int i = 0; i < x->variable_count; i++) {
        const tl_expr *own = x->variables[i].element;
        if (own && tl_expr_equal(own, element)) return &x->variables[i];
    }
    return NULL;
}

static bool ask(extents_values *v, const tl_expr *call, tl_value *out) {
    int64_t next;
    switch (call->function) {
    case TL_FUNCTION_FIRST: return tl_give(out, v->tile == 0);
    case TL_FUNCTION_MORE: return tl_give(out, v->tile + 1 < v->tiles);
    case TL_FUNCTION_NEXT:
        return extents_integer(v->following ? v->following : v, call->items[0], &next) &&
               tl_give(out, next);
    default: return false;
    }
}

static bool lookup(void *context, const tl_expr *e, tl_value *out) {
    extents_values *v = context;
    if (e->kind == TL_CALL) return ask(v, e, out);
    if (!e->symbol || e->kind != TL_ELEMENT || e->space == TL_REGISTER || e->space == TL_SHARED)
        return false;
    const extents_variable *own = extents_variable_of(v->extents, e);
    if (own) {
        const extents_run *run = own->is_of_tile ? v->elements : v->run;
        return tl_give(out, run->values[own - v->extents->variables]);
    }
    const extents_table *table = extents_table_of(v->extents, e);
    int64_t value;
    if (table) return extents_table_value(v, table, e, &value) && tl_give(out, value);
    return tl_give(out, 0);
}
