/* The values of names in one run. */
#include "check/extents.h"
#include "tl/tl.h"

#include <string.h>

enum { VALUE_KNOWN = 1, VALUE_NONE = 2 }; /* 0: not asked for yet */

extents_values extents_values_new(arena *memory, const extents *x) {
    return (extents_values){.extents = x,
                            .integers = arena_array(memory, int64_t, x->model->slot_count),
                            .known = arena_array(memory, unsigned char, x->model->slot_count)};
}

void extents_values_start(extents_values *v, const extents_run *run) {
    v->run = run;
    v->tile = 0;
    v->tiles = 1;
    memset(v->known, 0, (size_t)v->extents->model->slot_count);
    for (int i = 0; i < v->extents->variable_count; i++) {
        extents_values_set(v, v->extents->variables[i].symbol, run->values[i]);
    }
}

void extents_values_go_on(extents_values *v, int tile, int tiles) {
    extents_values_start(v, v->run);
    v->tile = tile;
    v->tiles = tiles;
    for (int i = 0; i < v->extents->variable_count; i++) {
        const extents_variable *variable = &v->extents->variables[i];
        int64_t count;
        if (!variable->walk || !extents_integer(v, variable->walk, &count) || count < 1) continue;
        extents_values_set(v, variable->symbol, (v->run->values[i] + tile) % count);
    }
    if (!v->following) return;
    v->following->run = v->run;
    extents_values_go_on(v->following, tile + 1, tiles);
}

void extents_values_set(extents_values *v, const tl_symbol *symbol, int64_t value) {
    int slot = model_slot(v->extents->model, symbol);
    if (slot < 0) return;
    v->integers[slot] = value;
    v->known[slot] = VALUE_KNOWN;
}

void extents_values_forget(extents_values *v, const tl_symbol *symbol) {
    int slot = model_slot(v->extents->model, symbol);
    if (slot >= 0) v->known[slot] = 0;
}

static bool give(tl_value *out, int64_t value) {
    *out = (tl_value){.integer = value, .real = (double)value};
    return true;
}

static bool lookup(void *context, const tl_expr *e, tl_value *out);

static bool ask(extents_values *v, const tl_expr *call, tl_value *out) {
    switch (call->function) {
    case TL_FUNCTION_FIRST: return give(out, v->tile == 0);
    case TL_FUNCTION_MORE: return give(out, v->tile + 1 < v->tiles);
    case TL_FUNCTION_NEXT:
        return tl_evaluate(call->items[0], lookup, v->following ? v->following : v, out);
    default: return false;
    }
}

static bool lookup(void *context, const tl_expr *e, tl_value *out) {
    extents_values *v = context;
    const tl_symbol *s = e->symbol;
    if (e->kind == TL_CALL) return ask(v, e, out);
    if (!s) return false;
    if (e->kind == TL_ELEMENT) {
        if (e->space == TL_REGISTER || e->space == TL_SHARED) return false;
        for (int i = 0; i < v->extents->variable_count; i++) {
            const tl_expr *element = v->extents->variables[i].element;
            if (element && tl_expr_equal(element, e)) return give(out, v->run->values[i]);
        }
        const extents_table *table = extents_table_of(v->extents, e);
        int64_t value;
        if (table) return extents_table_value(v, table, e, &value) && give(out, value);
        return give(out, 0);
    }
    if (s->is_known && s->is_integer) return give(out, s->integer);
    int slot = model_slot(v->extents->model, s);
    if (slot >= 0 && v->known[slot] == VALUE_KNOWN) return give(out, v->integers[slot]);
    if (slot >= 0 && v->known[slot] == VALUE_NONE) return false;
    switch (s->kind) {
    case TL_SYMBOL_SIZE: return give(out, 1);
    case TL_SYMBOL_GRID: return give(out, 0);
    case TL_SYMBOL_SCALAR: return s->is_real ? false : give(out, 1);
    case TL_SYMBOL_CONSTANT: break;
    default: return false;
    }
    if (!s->value || v->depth >= TL_HEIGHT_MAX) return false;
    v->depth++;
    bool has_value = tl_evaluate(s->value, lookup, v, out);
    v->depth--;
    if (slot < 0) return has_value;
    if (has_value && !out->is_real) {
        v->integers[slot] = out->integer;
        v->known[slot] = VALUE_KNOWN;
    } else if (!has_value) {
        v->known[slot] = VALUE_NONE;
    }
    return has_value;
}

bool extents_integer(extents_values *v, const tl_expr *e, int64_t *value) {
    tl_value result;
    if (!e || !tl_evaluate(e, lookup, v, &result) || result.is_real) return false;
    *value = result.integer;
    return true;
}
