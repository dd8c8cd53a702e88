/* The registers of a thread: what tiles take, and what the compiler takes beside them. */
#include "reason/cost_model.h"

#include "check/check.h"

#include <math.h>

/* Addresses, fragments, counters; and half a register per row of a warp. */
enum { REGISTERS_BASE = 24 };

/* A tile on its way through registers, 16 bytes a lane: lanes stand along a row as far as its
 * 16-byte pieces are a power of two, the others down the rows; where rows run out, registers hold
 * nothing.
 */
static double line_registers(const cost_model *m, const cost_choice *c, int tile, bool *is_cut) {
    enum {
        DEALT_UNITS_MIN = 9,
        DEALT_ACROSS_MIN = 13,
        UNITS_AT_ONCE = 4
    }; /* as in translate/copy_units.c */
    int64_t rows = (int64_t)cost_value(c, m->extents[tile][0]);
    int64_t pieces = (int64_t)cost_value(c, m->extents[tile][1]) * cost_raw_bits(m, tile) / 128;
    int64_t along = pieces & -pieces;
    if (along < 1 || along > WARP_LANES) along = along < 1 ? 1 : WARP_LANES;
    int64_t rows_at_once = WARP_LANES / along * c->warps;
    int64_t registers = pieces / along * ((rows + rows_at_once - 1) / rows_at_once) * 4;
    *is_cut = rows % rows_at_once != 0;
    bool is_odd = along == 1 && pieces >= DEALT_UNITS_MIN;
    if (c->is_plain &&
        (is_odd || pieces / along >= DEALT_ACROSS_MIN)) { /* one by one, over all threads */
        int64_t threads = (int64_t)WARP_LANES * c->warps, all = rows * pieces;
        int64_t share = (all + threads - 1) / threads;
        *is_cut = true;
        return (double)(share < UNITS_AT_ONCE ? share : UNITS_AT_ONCE) * 4;
    }
    return (double)registers;
}

/* Seven units of a row in each lane, or more, whose addresses do not follow from one another. */
static bool is_long_line(const cost_model *m, const cost_choice *c, int tile) {
    enum { LONG = 7 };
    int64_t pieces = (int64_t)cost_value(c, m->extents[tile][1]) *
                     tl_type_bits(m->plan.roles[tile].tile->storage) / 128;
    return !c->is_plain && pieces > 0 && pieces / (pieces & -pieces) >= LONG;
}

/* Products of more than 128 columns or steps: their fragments are in more places in shared memory
 * than the compiler works out from one another.
 */
static double wide_registers(const cost_model *m, const cost_choice *c) {
    enum { NARROW = 128, WIDE_REGISTERS = 16, COLUMNS_A_REGISTER = 8 };
    double most = NARROW;
    for (int i = 0; i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT)
            most = fmax(most, fmax(cost_value(c, m->items[i].b), cost_value(c, m->items[i].c)));
    return most > NARROW ? WIDE_REGISTERS + (most - NARROW) / COLUMNS_A_REGISTER : 0;
}

/* Where all tiles have one slot, each has a copy of its own place in an iteration, between Waits,
 * beside elements whose function may need steps of its own.
 */
static double copy_registers(const cost_model *m, const cost_choice *c) {
    enum { SECOND_PLACE = 7, BESIDE_CURVED = 8 };
    for (int i = 0; i < m->channel_count; i++)
        if (c->stages[m->channels[i]] != 1) return 0;
    if (!m->is_async || m->channel_count < 2) return 0;
    return SECOND_PLACE + (m->is_curved ? BESIDE_CURVED : 0);
}

static cost_demand staging_registers(const cost_model *m, const cost_choice *c) {
    enum { CUT_LINES = 16, LONG_LINE = 8 };
    cost_demand all = {0};
    for (int i = 0; !m->is_async && i < m->channel_count; i++) {
        bool is_cut;
        double own = line_registers(m, c, m->channels[i], &is_cut);
        /* Where rows run out, units move under conditions, by way of copies of their registers. */
        double cut = is_cut ? own + CUT_LINES : is_long_line(m, c, m->channels[i]) ? LONG_LINE : 0;
        /* In place: one tile at a time. */
        all.tiles = c->is_plain ? fmax(all.tiles, own) : all.tiles + own;
        all.beside = c->is_plain ? fmax(all.beside, cut) : all.beside + cut;
    }
    for (int i = 0; i < m->channel_count; i++) { /* on their way from slot to tile, one at a time */
        bool is_cut;
        if (cost_is_widened(m, m->channels[i]))
            all.tiles = fmax(all.tiles, line_registers(m, c, m->channels[i], &is_cut));
    }
    return all;
}

cost_demand cost_registers(const cost_model *m, const cost_choice *c, double rows_per_warp) {
    enum { FURTHER_TEST = 16 }; /* of a mask: where the loop begins, and until where it masks */
    static const double TOGETHER_SHARE = 0.75;
    double live[COST_ITEMS_MAX] = {0}, most = 0;
    int points = m->point_count < COST_ITEMS_MAX ? m->point_count : COST_ITEMS_MAX;
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!cost_is_held(m, c, i) && (!role->in_register || role->in_shared)) continue;
        double registers = cost_tile_registers(m, c, i);
        for (int p = m->lives[i].first; p >= 0 && p <= m->lives[i].last && p < points; p++)
            live[p] += registers;
    }
    for (int p = 0; p < points; p++) most = fmax(most, live[p]);
    check_elements elements = {.uses_indices = m->uses_indices, .is_curved = m->is_curved};
    if (m->uses_indices) elements.columns = (int64_t)cost_value(c, m->index_columns);
    cost_demand all = staging_registers(m, c);
    all.tiles += most + REGISTERS_BASE + rows_per_warp / 4;
    /* Products and elements take theirs at different times, but not wholly. */
    double wide = wide_registers(m, c), element = check_element_registers(&elements);
    all.beside += fmax(wide, element) + fmin(wide, element) * TOGETHER_SHARE;
    all.beside += rows_per_warp > 32 ? (rows_per_warp - 32) / 4 : 0; /* a third row of fragments */
    all.beside += copy_registers(m, c);
    all.beside += m->mask_tests > 1 ? (m->mask_tests - 1) * FURTHER_TEST : 0;
    return all;
}
