/* Where the tiles of a sketch lie, their Copies, and tiles as operands. */
#include "interpret/sketch.h"

#include <string.h>

/* --- where axes lie --------------------------------------------------------------------------- */

/* Does a Copy's coordinate say that this walk of the grid counts the blocks of the index? */
static bool places_index(const sketch *k, const tl_symbol *walk, str index) {
    for (int i = 0; i < k->m->statement_count; i++) {
        const tl_statement *s = k->m->statements[i];
        if (s->kind != TL_COPY || !s->copy.place.is_given) continue;
        tl_end ends[2] = {tl_copy_source(s), tl_copy_target(s)};
        for (int e = 0; e < 2; e++) {
            const tl_axes *axes =
                ends[e].space == TL_GLOBAL && ends[e].symbol ? ends[e].symbol->axes : NULL;
            for (int a = 0; axes && a < axes->count && a < s->copy.place.count; a++) {
                const tl_spot *spot = &s->copy.place.items[a];
                bool is_meant = str_equal(tl_axis_index(axes, a), index) && spot->is_block;
                if (is_meant && tl_expr_mentions(spot->at, walk)) return true;
            }
        }
    }
    return false;
}

/* The grid's walk over blocks of this length, if the sketch has got one: that of the index where
 * several axes are as long.
 */
static bool grid_position(sketch *k, str index, const tl_expr *extent, int64_t *start,
                          int64_t *size) {
    const tl_walk *found = NULL;
    const tl_expr *found_size = NULL;
    for (tl_statement *s = k->m->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_GRID) continue;
        for (int i = 0; i < s->grid.count; i++) {
            const tl_walk *walk = &s->grid.items[i];
            const tl_expr *e = walk->extent;
            bool is_ceil = e->kind == TL_CALL && e->function == TL_FUNCTION_CEIL;
            if (is_ceil) e = e->items[0];
            bool is_blocks = e->kind == TL_BINARY && e->operator== TL_OVER;
            if (!is_blocks || !tl_expr_equal(e->left, extent)) continue;
            if (found && !places_index(k, walk->symbol, index)) continue;
            found = walk;
            found_size = e->right;
        }
    }
    if (!found || !scope_integer(&k->scope, found_size, size)) return false;
    *start = k->scope.values[found->symbol->position].integer * *size;
    return true;
}

static bool walks(const sketch *k, const sketch_loop *loop, str index, const tl_expr *extent) {
    return loop->length && tl_expr_equal(loop->length, extent) &&
           tl_loop_walks_index(k->m->kernel, loop->statement, loop->length, index);
}

/* Where an axis of this index and length is in this iteration of this tile: [start, +count). */
static bool sketch_position(sketch *k, str index, const tl_expr *extent, int64_t *start,
                            int64_t *count) {
    int64_t length, size;
    if (!scope_integer(&k->scope, extent, &length)) return false;
    *start = 0;
    *count = length;
    bool is_found = false;
    for (int i = k->loop_count - 1; i >= 0 && !is_found; i--) {
        const sketch_loop *loop = &k->loops[i];
        if (!walks(k, loop, index, extent)) continue;
        size = loop->size ? loop->size : 1;
        *start = loop->value * size;
        is_found = true;
    }
    if (!is_found) is_found = grid_position(k, index, extent, start, &size);
    if (k->m->has_failed) return false;
    if (is_found) *count = size;
    if (*count > length - *start) *count = length - *start;
    if (*count < 0) *count = 0;
    return true;
}

/* The index on an axis before the matrix: a loop's in steps of one, else the tile's own. */
static bool fixed_index(sketch *k, const tl_axes *axes, int i, int64_t *at) {
    const tl_axis *axis = &axes->items[i];
    for (int l = k->loop_count - 1; l >= 0; l--) {
        const sketch_loop *loop = &k->loops[l];
        if (loop->size || !walks(k, loop, tl_axis_index(axes, i), axis->extent)) continue;
        *at = loop->value;
        return true;
    }
    if (axis->is_bare) {
        const tl_symbol *index = tl_find_index(k->m->kernel, tl_axis_index(axes, i));
        if (index && k->scope.has_value[index->position]) {
            *at = k->scope.values[index->position].integer;
            return true;
        }
    }
    return scope_integer(&k->scope, axis->coordinate, at);
}

static void take_place(tile *t, int axis, str index, int64_t start) {
    t->index[axis] = index;
    t->start[axis] = start;
    t->has_start[axis] = true;
}

bool sketch_shape(sketch *k, tile *t, const tl_tile *known, diag_range range) {
    if (!known || known->axis_count < 1 || known->axis_count > MACHINE_AXES_MAX) {
        machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, range,
                     STR("a tile whose axes are not known, or more than two"));
        return false;
    }
    int64_t start[MACHINE_AXES_MAX], count[MACHINE_AXES_MAX];
    str index[MACHINE_AXES_MAX];
    for (int i = 0; i < known->axis_count; i++) {
        index[i] = known->axes[i].index;
        const tl_symbol *symbol = tl_find_index(k->m->kernel, index[i]);
        if (!symbol || !sketch_position(k, index[i], symbol->extent, &start[i], &count[i])) {
            return false;
        }
    }
    tile_shape(k->m, t, known->axis_count, count, index);
    for (int i = 0; i < known->axis_count; i++) take_place(t, i, index[i], start[i]);
    return !k->m->has_failed;
}

/* --- Copy ------------------------------------------------------------------------------------- */

/* An entry of `in coordinate [...]`: the tile's begin on that axis and its size. */
static bool spot_position(sketch *k, const tl_statement *s, const tl_axes *axes, int axis,
                          int shape_at, int64_t *start, int64_t *count) {
    const tl_place *place = &s->copy.place;
    const tl_exprs *shape = &s->copy.shape;
    int64_t length, at, size;
    const tl_expr *extent = axes->items[axis].extent;
    bool is_said = place->is_given && axis < place->count && place->items[axis].is_block;
    if (!is_said) {
        bool is_whole = place->is_given;
        if (!is_whole) return sketch_position(k, tl_axis_index(axes, axis), extent, start, count);
        *start = 0;
        return scope_integer(&k->scope, extent, count);
    }
    if (!scope_integer(&k->scope, extent, &length)) return false;
    if (!scope_integer(&k->scope, place->items[axis].at, &at)) return false;
    if (shape_at < shape->count) {
        if (!scope_integer(&k->scope, shape->items[shape_at], &size)) return false;
    } else {
        /* as large as the block of that axis is anyway */
        int64_t unused;
        size = length;
        for (int i = k->loop_count - 1; i >= 0; i--) {
            const sketch_loop *loop = &k->loops[i];
            if (!walks(k, loop, tl_axis_index(axes, axis), extent)) continue;
            size = loop->size ? loop->size : 1;
            break;
        }
        if (size == length) grid_position(k, tl_axis_index(axes, axis), extent, &unused, &size);
    }
    *start = at * size;
    *count = size < length - *start ? size : length - *start;
    return !k->m->has_failed;
}

/* The view of a Copy's tensor at this place; fills in the tile's begin and extents. */
static bool copy_view(sketch *k, const tl_statement *s, const tl_symbol *tensor, tile_view *view,
                      int64_t *start, int64_t *count, str *index, int *axis_count) {
    const tl_axes *axes = tensor->axes;
    int positions[TL_AXES_MAX];
    *axis_count = tl_copy_axes(s, axes, positions);
    if (*axis_count < 1 || *axis_count > MACHINE_AXES_MAX) {
        machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, s->range,
                     STR("tiles of more than two axes"));
        return false;
    }
    *view = (tile_view){.tensor = tensor};
    int next = 0;
    for (int i = 0; i < axes->count; i++) {
        bool is_tile = next < *axis_count && positions[next] == i;
        view->axis_of[i] = is_tile ? next : -1;
        if (is_tile) {
            index[next] = tl_axis_index(axes, i);
            if (!spot_position(k, s, axes, i, next, &start[next], &count[next])) return false;
            next++;
            continue;
        }
        const tl_place *place = &s->copy.place;
        bool is_said = place->is_given && i < place->count;
        bool is_found = is_said ? scope_integer(&k->scope, place->items[i].at, &view->fixed[i])
                                : fixed_index(k, axes, i, &view->fixed[i]);
        if (!is_found) return false;
    }
    return true;
}

convert_format sketch_format(const sketch *k, const tl_expr *name, tl_type otherwise) {
    if (k->m->is_exact) return CONVERT_F64;
    const tl_tile *t = tl_tile_of(name);
    tl_type type = t && t->type != TL_OPEN ? t->type : otherwise;
    return interpret_format(type);
}

static bool load(sketch *k, const tl_statement *s, const tl_symbol *tensor, tile *t) {
    tile_view view;
    int64_t start[MACHINE_AXES_MAX] = {0}, count[MACHINE_AXES_MAX] = {0};
    str index[MACHINE_AXES_MAX] = {{0}};
    int axis_count = 0;
    if (!copy_view(k, s, tensor, &view, start, count, index, &axis_count)) return false;
    tile_shape(k->m, t, axis_count, count, index);
    for (int i = 0; i < axis_count; i++) take_place(t, i, index[i], start[i]);
    t->format = CONVERT_F64; /* what is in memory needs no rounding */
    t->is_defined = true;
    t->writer = s;
    tile_share share = tile_whole(t);
    return !k->m->has_failed && tile_load(&k->scope, t, &share, &view, s->range);
}

static bool store(sketch *k, const tl_statement *s, const tl_symbol *tensor, const tl_expr *what) {
    const tile *t = sketch_tile(&k->scope, what, s);
    if (!t || k->is_silent) return t != NULL;
    tile_view view;
    int64_t start[MACHINE_AXES_MAX] = {0}, count[MACHINE_AXES_MAX] = {0};
    str index[MACHINE_AXES_MAX] = {{0}};
    int axis_count = 0;
    if (!copy_view(k, s, tensor, &view, start, count, index, &axis_count)) return false;
    tile placed = *t;
    for (int i = 0; i < axis_count; i++) {
        if (i < t->axis_count && t->count[i] == count[i]) {
            placed.start[i] = start[i];
            continue;
        }
        machine_stop(k->m, DIAG_INTERPRET_COUNTS, s->range, index[i],
                     str_format(k->m->memory, "%lld", (long long)t->count[i]),
                     str_format(k->m->memory, "%lld", (long long)count[i]));
        return false;
    }
    tile_share share = tile_whole(&placed);
    bool accumulates = s->copy.target_kind == TL_ACCUMULATE;
    return tile_store(&k->scope, &placed, &share, &view, accumulates, s);
}

tile *sketch_own_tile(sketch *k, const tl_expr *name) {
    return &k->tiles[name->symbol->position];
}

bool sketch_copy(sketch *k, const tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    const tl_expr *into = tl_copy_into(s);
    if (!source.symbol || !target.symbol) return false;
    if (target.space == TL_GLOBAL) return store(k, s, target.symbol, s->copy.what);
    if (source.space == TL_GLOBAL) return load(k, s, source.symbol, sketch_own_tile(k, into));
    const tile *from = sketch_tile(&k->scope, s->copy.what, s);
    tile *to = sketch_own_tile(k, into);
    if (!from || from == to) return from != NULL;
    tile_shape(k->m, to, from->axis_count, from->count, from->index);
    if (k->m->has_failed) return false;
    memcpy(to->data, from->data, (size_t)tile_size(from) * sizeof *from->data);
    tile_copy_errors(k->m, to, from);
    to->is_narrow = from->is_narrow;
    for (int i = 0; i < from->axis_count; i++) {
        to->start[i] = from->start[i];
        to->has_start[i] = from->has_start[i];
    }
    to->format = sketch_format(k, into, TL_OPEN);
    to->is_defined = true;
    to->writer = s;
    return true;
}

/* --- operands --------------------------------------------------------------------------------- */

/* A view of something that was copied: the elements it names, read where they come from. */
static bool read_part(sketch *k, const tl_expr *name, tile *t) {
    if (!sketch_shape(k, t, tl_tile_of(name), name->range)) return false;
    const tl_symbol *symbol = name->symbol;
    tile_view view = {.tensor = symbol};
    int begin = tl_matrix_begin(symbol->axes);
    for (int i = 0; i < symbol->axes->count; i++) {
        view.axis_of[i] = i >= begin ? i - begin : -1;
        if (i < begin && !fixed_index(k, symbol->axes, i, &view.fixed[i])) return false;
    }
    t->format = CONVERT_F64;
    tile_share share = tile_whole(t);
    return tile_load(&k->scope, t, &share, &view, name->range);
}

const tile *sketch_tile(scope *s, const tl_expr *name, const tl_statement *at) {
    (void)at;
    sketch *k = s->owner;
    tile *t = sketch_own_tile(k, name);
    const tl_tile *known = tl_tile_of(name);
    if (!t->is_defined && known && known->part_of) {
        return read_part(k, name, t) ? t : NULL;
    }
    if (t->is_defined) return t;
    machine_stop(k->m, DIAG_INTERPRET_POISON, name->range, name->text);
    return NULL;
}
