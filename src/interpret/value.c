/* What names and expressions are worth once: the same for all elements. Rows of them: row.c. */
#include "interpret/machine.h"

#include <math.h>

void scope_init(scope *s, machine *m) {
    int count = m->kernel->symbol_count;
    *s = (scope){.machine = m};
    s->values = arena_array(m->memory, tl_value, count + 1);
    s->has_value = arena_array(m->memory, bool, count + 1);
    s->indices = arena_array(m->memory, lanes, count + 1);
    s->has_index = arena_array(m->memory, bool, count + 1);
    for (int i = 0; i < count; i++) {
        s->values[i] = m->launch_values[i];
        s->has_value[i] = m->has_launch_value[i];
    }
}

void scope_set_value(scope *s, const tl_symbol *symbol, tl_value value) {
    s->values[symbol->position] = value;
    s->has_value[symbol->position] = true;
}

void scope_set(scope *s, const tl_symbol *symbol, int64_t value) {
    scope_set_value(s, symbol, (tl_value){.integer = value});
}

static bool element_value(scope *s, const tl_expr *e, tl_value *value) {
    int64_t at[TL_AXES_MAX];
    if (e->space != TL_GLOBAL || !e->symbol || e->item_count > TL_AXES_MAX) return false;
    for (int i = 0; i < e->item_count; i++) {
        tl_value item;
        if (!scope_evaluate(s, e->items[i], &item) || item.is_real) return false;
        at[i] = item.integer;
    }
    double element;
    if (!memory_read_one(s, e->symbol, at, &element, e->range)) return false;
    bool is_integer = !e->symbol->is_real && fabs(element) < 9e15;
    *value = is_integer ? (tl_value){.integer = (int64_t)element}
                        : (tl_value){.is_real = true, .real = element};
    return true;
}

/* any(COND): whether the condition holds for an element of the widest tile in it. */
static const tl_expr *widest_tile(scope *s, const tl_expr *e, int *most) {
    if (!e) return NULL;
    const tl_expr *found = NULL;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_VARIABLE) {
        const tl_tile *t = tl_tile_of(e);
        if (t && t->axis_count > *most) {
            *most = t->axis_count;
            found = e;
        }
    }
    const tl_expr *inner[2] = {e->left, e->right};
    for (int i = 0; i < 2 + e->item_count; i++) {
        const tl_expr *one = widest_tile(s, i < 2 ? inner[i] : e->items[i - 2], most);
        if (one) found = one;
    }
    return found;
}

static bool any_value(scope *s, const tl_expr *e, tl_value *value) {
    int most = 0;
    const tl_expr *name = widest_tile(s, e->items[0], &most);
    const tile *t = name && s->tile_of ? s->tile_of(s, name, s->at) : NULL;
    if (!t) return false;
    const tile_share *share = &t->share;
    int lane_axis = t->axis_count - 1;
    int64_t first = share->first[lane_axis];
    int width = (int)(share->end[lane_axis] - first);
    bool is_matrix = t->axis_count == 2;
    *value = (tl_value){0};
    for (int64_t row = is_matrix ? share->first[0] : 0; row < (is_matrix ? share->end[0] : 1);
         row++) {
        int used = s->machine->scratch_used;
        lanes holds;
        if (!scope_lanes_at(s, e->items[0], t, row, first, width, &holds)) return false;
        const double *items = lanes_items(s->machine, holds, width);
        if (!items) return false;
        for (int i = 0; i < width; i++) value->integer |= items[i] != 0;
        s->machine->scratch_used = used;
    }
    return true;
}

/* The functions that tl_function_is_asked names. */
static bool asked_value(scope *s, const tl_expr *e, tl_value *value) {
    switch (e->function) {
    case TL_FUNCTION_ANY: return any_value(s, e, value);
    case TL_FUNCTION_FIRST: *value = (tl_value){.integer = s->is_first_tile}; return true;
    case TL_FUNCTION_MORE: *value = (tl_value){.integer = s->has_more_tiles}; return true;
    default:
        return s->has_more_tiles && s->following &&
               scope_evaluate(s->following, e->items[0], value);
    }
}

static bool lookup(void *context, const tl_expr *e, tl_value *value) {
    scope *s = context;
    if (e->kind == TL_CALL) return asked_value(s, e, value);
    if (!e->symbol) return false;
    if (e->kind == TL_ELEMENT) return element_value(s, e, value);
    if (!s->has_value[e->symbol->position]) return false;
    *value = s->values[e->symbol->position];
    return true;
}

bool scope_evaluate(scope *s, const tl_expr *e, tl_value *value) {
    return tl_evaluate(e, lookup, s, value);
}

bool scope_value(scope *s, const tl_expr *e, tl_value *value) {
    if (scope_evaluate(s, e, value)) return true;
    if (!s->machine->has_failed) {
        machine_stop(s->machine, DIAG_INTERPRET_NO_VALUE, e->range,
                     tl_expr_text(s->machine->memory, e));
    }
    return false;
}

bool scope_integer(scope *s, const tl_expr *e, int64_t *value) {
    tl_value v;
    if (!scope_value(s, e, &v)) return false;
    bool is_whole = !v.is_real || (v.real == floor(v.real) && fabs(v.real) < 0x1p63);
    if (!is_whole) {
        machine_stop(s->machine, DIAG_INTERPRET_NO_INTEGER, e->range,
                     tl_expr_text(s->machine->memory, e));
        return false;
    }
    *value = v.is_real ? (int64_t)v.real : v.integer;
    return true;
}
