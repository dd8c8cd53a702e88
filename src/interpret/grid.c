#include "interpret/grid.h"

enum { TUPLES_MAX = 1 << 22 }; /* of the walks around ragged ones */

void grid_add(grid_tiles *g, grid_walk walk) {
    for (int i = 0; i < g->count; i++) {
        const grid_walk *known = &g->items[i];
        if (known->symbols[0] == walk.symbols[0] && known->symbols[1] == walk.symbols[1]) return;
    }
    if (g->count < GRID_WALKS_MAX) g->items[g->count++] = walk;
}

void grid_add_all(grid_tiles *g, const tl_kernel *kernel, const tl_statement *grid) {
    for (int i = 0; i < grid->grid.count; i++) {
        const tl_walk *w = &grid->grid.items[i];
        grid_add(g, (grid_walk){.symbols = {w->symbol, tl_find_index(kernel, w->name)},
                                .extent = w->extent,
                                .section = w->section,
                                .is_reversed = w->is_reversed});
    }
}

/* --- counting --------------------------------------------------------------------------------- */

static void set_index(const grid_walk *w, scope *s, int64_t at, int64_t count) {
    if (w->is_reversed) at = count - 1 - at;
    for (int n = 0; n < 2; n++) {
        if (w->symbols[n]) scope_set(s, w->symbols[n], at);
    }
}

/* The walks that are not ragged, from their tuple's number. */
static void set_tuple(const grid_tiles *g, scope *s, int64_t tuple) {
    for (int i = 0; i < g->count; i++) {
        const grid_walk *w = &g->items[i];
        if (w->is_ragged) continue;
        set_index(w, s, tuple % w->count, w->count);
        tuple /= w->count;
    }
}

static bool count_walks(grid_tiles *g, scope *s, int64_t *tuples) {
    *tuples = 1;
    for (int i = 0; i < g->count; i++) {
        grid_walk *w = &g->items[i];
        tl_value value;
        bool is_known = scope_evaluate(s, w->extent, &value) && !value.is_real;
        w->is_ragged = !is_known;
        g->ragged_count += w->is_ragged;
        if (w->is_ragged) continue;
        w->count = value.integer > 0 ? value.integer : 0;
        if (__builtin_mul_overflow(*tuples, w->count, tuples)) return false;
    }
    return true;
}

/* For each tuple of the other walks, how long the ragged ones are. */
static bool count_ragged(grid_tiles *g, machine *m, scope *s) {
    if (g->tuple_count > TUPLES_MAX) return false;
    size_t tuples = (size_t)g->tuple_count;
    g->firsts = arena_array(m->memory, int64_t, tuples + 1);
    g->counts = arena_array(m->memory, int64_t, tuples * (size_t)g->ragged_count + 1);
    g->total = 0;
    for (int64_t t = 0; t < g->tuple_count; t++) {
        int64_t tiles = 1, *counts = &g->counts[t * g->ragged_count];
        set_tuple(g, s, t);
        for (int i = 0, at = 0; i < g->count; i++) {
            if (!g->items[i].is_ragged) continue;
            if (!scope_integer(s, g->items[i].extent, &counts[at])) return false;
            if (counts[at] < 0) counts[at] = 0;
            if (__builtin_mul_overflow(tiles, counts[at++], &tiles)) return false;
        }
        g->firsts[t] = g->total;
        if (__builtin_add_overflow(g->total, tiles, &g->total)) return false;
    }
    return true;
}

static bool measure_sections(grid_tiles *g, scope *s) {
    int64_t inner = 1;
    for (int i = 0; i < g->count; i++) {
        const tl_expr *section = g->items[i].section;
        inner *= g->items[i].count;
        if (!section) continue;
        if (!scope_integer(s, section, &g->section)) return false;
        if (g->section < 1) g->section = 1;
        if (g->section > g->total) g->section = g->total > 0 ? g->total : 1;
        g->inner = inner;
    }
    return true;
}

bool grid_measure(grid_tiles *g, machine *m, scope *s) {
    if (!count_walks(g, s, &g->tuple_count)) return false;
    g->total = g->tuple_count;
    if (!g->ragged_count) return measure_sections(g, s);
    int64_t count;
    for (int i = 0; i < g->count; i++) {
        /* Sections of walks of several lengths mean nothing: told as the length's absence. */
        if (g->items[i].section) return scope_integer(s, g->items[i].extent, &count) && false;
    }
    return count_ragged(g, m, s);
}

/* --- from a number to indices ----------------------------------------------------------------- */

/* The place of a tile, in the order in which the first walk runs fastest, where a section of the
 * first walks is gone through with all others before the next one begins.
 */
static int64_t unsectioned(const grid_tiles *g, int64_t number) {
    if (!g->section) return number;
    int64_t outer = g->total / g->inner;
    int64_t sections = (g->inner + g->section - 1) / g->section, width = g->inner / sections;
    int64_t longer = g->inner % sections, before = 0; /* the first ones have an element more */
    if (number < longer * (width + 1) * outer) width++;
    else before = longer * (width + 1);
    int64_t rest = number - before * outer;
    int64_t first = before + rest / (width * outer) * width;
    rest %= width * outer;
    return first + rest % width + rest / width * g->inner;
}

/* The last tuple whose first tile is not after this one; tuples without tiles are passed over. */
static int64_t tuple_of(const grid_tiles *g, int64_t number) {
    int64_t low = 0, high = g->tuple_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (g->firsts[middle] <= number) low = middle;
        else high = middle;
    }
    return low;
}

void grid_set(const grid_tiles *g, scope *s, int64_t number) {
    if (!g->ragged_count) {
        set_tuple(g, s, unsectioned(g, number));
        return;
    }
    int64_t tuple = tuple_of(g, number), rest = number - g->firsts[tuple];
    const int64_t *counts = &g->counts[tuple * g->ragged_count];
    set_tuple(g, s, tuple);
    for (int i = 0, at = 0; i < g->count; i++) {
        if (!g->items[i].is_ragged) continue;
        set_index(&g->items[i], s, rest % counts[at], counts[at]);
        rest /= counts[at++];
    }
}
