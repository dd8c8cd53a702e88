#include "timeline/values.h"

#include <string.h>

/* --- lengths ---------------------------------------------------------------------------------- */

values_lengths values_lengths_new(arena *memory, const model *m, int64_t usual) {
    int count = m->kernel->symbol_count + 1;
    return (values_lengths){.model = m,
                            .usual = usual,
                            .is_one = arena_array(memory, bool, count),
                            .is_asked = arena_array(memory, bool, count)};
}

int64_t values_length(const values_lengths *lengths, const tl_symbol *symbol) {
    return lengths->is_one[symbol->position] ? 1 : lengths->usual;
}

/* --- names ------------------------------------------------------------------------------------ */

static bool ask_call(values *v, const tl_expr *call, tl_value *out) {
    int64_t next;
    switch (call->function) {
    case TL_FUNCTION_FIRST: return tl_give(out, v->is_first);
    case TL_FUNCTION_MORE: return tl_give(out, v->has_more);
    case TL_FUNCTION_ANY: return tl_give(out, 0); /* votes guard what is rare */
    case TL_FUNCTION_NEXT:
        return v->following && values_integer(v->following, call->items[0], &next) &&
               tl_give(out, next);
    default: return false;
    }
}

/* A table says where sequences begin, or how long they are: as if all had the usual length. */
static bool ask_element(values *v, const tl_expr *e, tl_value *out) {
    int64_t at = 0;
    if (e->space == TL_REGISTER || e->space == TL_SHARED || !e->item_count) return false;
    if (!values_integer(v, e->items[e->item_count - 1], &at)) return false;
    if (e->symbol && !v->is_silent) v->lengths->is_asked[e->symbol->position] = true;
    return tl_give(out, (at + 1) * v->lengths->usual);
}

static bool lookup(void *context, const tl_expr *e, tl_value *out) {
    values *v = context;
    if (e->kind == TL_CALL) return ask_call(v, e, out);
    if (e->kind == TL_ELEMENT) return ask_element(v, e, out);
    const tl_symbol *s = e->symbol;
    bool is_length = s && (s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_SCALAR);
    if (!is_length || s->is_real) return false;
    if (!v->is_silent) v->lengths->is_asked[s->position] = true;
    return tl_give(out, values_length(v->lengths, s));
}

values *values_new(arena *memory, const values_lengths *lengths) {
    values *v = arena_new(memory, values);
    *v = (values){.lengths = lengths,
                  .names = tl_values_new(memory, lengths->model->kernel, lookup, v)};
    return v;
}

bool values_integer(values *v, const tl_expr *e, int64_t *value) {
    return tl_values_integer(&v->names, e, value);
}

/* --- a tile ----------------------------------------------------------------------------------- */

static void set_index(values *v, const tl_walk *walk, int64_t at) {
    tl_values_set(&v->names, walk->symbol, at);
    tl_values_set(&v->names, tl_find_index(v->lengths->model->kernel, walk->name), at);
}

/* The first walk runs fastest, as the interpreter's grid has it; sections begin alike. An extent
 * that only data decide counts as 1. What extents ask for is not what control depends on.
 */
static void set_indices(values *v) {
    const model *m = v->lengths->model;
    int64_t rest = v->tile;
    v->is_silent = true;
    for (int i = 0; m->grid && i < m->grid->grid.count; i++) /* later ones may decide on earlier */
        set_index(v, &m->grid->grid.items[i], 0);
    for (int i = 0; m->grid && i < m->grid->grid.count; i++) {
        const tl_walk *walk = &m->grid->grid.items[i];
        int64_t extent;
        if (!values_integer(v, walk->extent, &extent) || extent < 1) extent = 1;
        int64_t at = rest % extent;
        rest /= extent;
        set_index(v, walk, walk->is_reversed ? extent - 1 - at : at);
    }
    v->is_silent = false;
    for (int i = 0; i < m->kernel->symbol_count; i++) /* what lets came to meanwhile */
        if (m->kernel->symbols[i]->kind == TL_SYMBOL_CONSTANT)
            tl_values_forget(&v->names, m->kernel->symbols[i]);
}

void values_start(values *v, int tile, bool walks) {
    size_t count = (size_t)v->lengths->model->kernel->symbol_count;
    memset(v->names.is_known, 0, sizeof(bool) * count);
    v->tile = tile;
    v->is_first = !walks || tile == 0;
    v->has_more = walks && tile + 1 < VALUES_TILES;
    set_indices(v);
    if (v->following) values_start(v->following, tile + 1, walks);
}
