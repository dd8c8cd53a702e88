/* The cost model for kernels of warpgroups: products run beside the warps that compute.
 *
 * A block's iteration takes the longest of three: the products of all warpgroups; what all of
 * them issue beside running products; and one warpgroup's own chain, from the issue of its first
 * product to the next, which its neighbours cannot shorten. docs/decisions/006-reasoning.md says
 * where the constants come from.
 */
#include "atom/atom.h"
#include "reason/cost_model.h"
#include "reason/narrow.h"
#include "reason/pair.h"
#include "reason/panels.h"
#include "reason/prices.h"
#include "reason/warpgroups.h"

#include "tl/boxes.h"

#include <math.h>

enum {
    SLOT_BARRIER_BYTES = 16,    /* a full and an empty one */
    INSTRUCTION_REGISTERS = 28, /* beside a product's sums: its left operand, addresses */
    ROLE_REGISTERS = 20,        /* addresses, counters */
    ROW_REGISTERS = 12,         /* a handful of values per row, or what columns have */
    FEW_TESTS = 4,              /* of masks, that need no more; */
    TEST_REGISTERS = 4,         /* each further one: its limits */
    TURN_CLOCKS = 65,           /* of an iteration, for each pair of warpgroups, by turns */
    SECOND_CLOCKS = 190,        /* the same, where two products are waited for one by one */
    COLUMN_COPIES = 32,         /* of a value per column, by the lanes of a warpgroup */
    COLUMN_LOAD_CLOCKS = 160,   /* of an iteration, for each such vector that it loads */
    TILE_CLOCKS = 800,          /* of a tile's beginning and end, which nothing hides */
    TILE_GROUP_CLOCKS = 600,    /* the same, a warpgroup: its first maximum, its results */
    SINGLE_CLOCKS = 1500,       /* where a tile that the next one begins with has one slot */
    TURN_BYTES_A_CLOCK = 64,    /* of tiles whose copies wait for one another between tiles */
};

static const double READY_SHARE = 1.6; /* a product's wait, when others are under way */
static const double ELEMENT_SHARE = 2; /* a warpgroup's elements, beside another's */

static bool shapes_fit(const cost_model *m, const cost_choice *c) {
    /* One instruction's registers must fit what every thread has when the kernel starts. */
    int64_t warps = (c->warpgroups + 1) * WARPGROUP_WARPS, start = m->r->target->registers;
    int64_t groups = c->is_paired ? 1 : c->warpgroups; /* below one another */
    start /= warps * WARP_LANES;
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        if (it->kind != COST_PRODUCT) continue;
        int64_t rows = (int64_t)cost_value(c, it->a), columns = (int64_t)cost_value(c, it->b);
        bool is_stored = m->plan.roles[it->tile].tile->from_register || it->is_turned;
        int64_t parts = warpgroups_column_parts(rows, groups, is_stored);
        if (parts > 0) columns = columns % parts ? 0 : columns / parts;
        if (!parts || !columns || columns % ATOM_WIDTH_UNIT != 0 || columns > ATOM_WIDTH_MAX ||
            columns / 2 + INSTRUCTION_REGISTERS > start ||
            (int64_t)cost_value(c, it->c) % warpgroups_step(m->r) != 0)
            return false;
    }
    return true;
}

static int64_t stages_of(const cost_choice *c, int tile) {
    return c->stages[tile] > 0 ? c->stages[tile] : 1;
}

static int64_t operand_bytes(const cost_model *m, const cost_choice *c) {
    double bytes = cost_pair_bytes(m, c);
    int64_t slots = 0;
    for (int i = 0; i < m->plan.count; i++) {
        if (!m->plan.roles[i].in_shared || cost_is_pair_held(m, c, i)) continue;
        bytes += cost_tile_bytes(m, c, i) * (double)stages_of(c, i);
        slots += stages_of(c, i);
    }
    return (int64_t)bytes + slots * SLOT_BARRIER_BYTES;
}

/* Bytes of the results that leave through shared memory. */
static int64_t result_bytes(const cost_model *m, const cost_choice *c) {
    double bytes = 0;
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (role->tile->to_global && role->layout == TL_MMA_C &&
            tl_type_bits(role->tile->storage) == 16)
            bytes += cost_tile_bytes(m, c, i);
    }
    return (int64_t)bytes;
}

/* Does an element of it go straight from where it is made to where it is used, in one run of
 * elementwise statements, so that no register holds the matrix? As check/fused.c decides of TL
 * Code; copies and waits do not count here, for later passes move them.
 */
static bool passes_through(const cost_model *m, const place_role *role) {
    str name = role->tile->name;
    bool is_in_run = false; /* the run at hand has made it */
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        bool is_made = edit_writes(s, name);
        bool is_read = edit_reads(s, name) || (is_made && s->compute.target_kind == TL_ACCUMULATE);
        const place_role *target = place_find(&m->plan, edit_target_name(s));
        bool is_matrix = target && target->tile->axis_count == 2;
        bool goes_on = tl_is_fused(s->compute.operation, is_matrix, target && target->is_partial);
        bool ends = tl_reduces_by_choice(s->compute.operation);
        if ((is_made || is_read) && !goes_on && !ends) return false;
        if (is_read && !is_in_run) return false;
        is_in_run = goes_on && (is_in_run || is_made);
    }
    return true;
}

/* Of a 16-bit copy that products take from registers. */
static double cast_registers(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    if (role->tile->axis_count != 2 || !role->has_cast) return 0;
    return cost_tile_registers(m, c, tile) * WARPGROUP_STEP_BYTES / warpgroups_step(m->r) / 4;
}

/* Accumulators, matrices that elementwise statements keep, and 16-bit copies that products take
 * from registers.
 */
static double matrix_registers(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    double own = cost_pair_registers(m, c, tile, cost_tile_registers(m, c, tile)), all = 0;
    if (role->tile->axis_count != 2) return 0;
    if (role->is_product || (role->in_register && role->tile->from_global) ||
        cost_is_pair_held(m, c, tile))
        all += own;
    else if (role->in_register && !passes_through(m, role)) all += own;
    if (!warpgroups_store_operands(m->r)) /* (else in place of it) */
        all += cast_registers(m, c, tile) * (double)c->casts;
    if (role->is_product && narrow_is_promoted(m->r, role->tile)) all += own;
    return all;
}

/* The most that tiles take at a time. What a loop has is there in all of it, where products of one
 * iteration run beside elements of another, but for values of columns: these are made of one
 * another in place, and those that are loaded come first of all. Where the next iteration issues
 * the last products, their left operands have been read when elements begin: as the checks count,
 * further places of these leave room for values of columns.
 */
static double tile_registers(const cost_model *m, const cost_choice *c) {
    double matrices[COST_ITEMS_MAX] = {0}, vectors[COST_ITEMS_MAX] = {0}, most = 0, further = 0;
    int points = m->point_count < COST_ITEMS_MAX ? m->point_count : COST_ITEMS_MAX;
    bool is_apart = warpgroups_store_operands(m->r);
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        bool is_columns = role->layout == TL_COLUMNS && role->in_register;
        double own = is_columns ? cost_tile_registers(m, c, i) : matrix_registers(m, c, i);
        cost_life l = m->lives[i], loop = m->loops[i];
        if (loop.first >= 0 && (is_columns ? role->is_loaded_in_loop : !is_apart))
            l.first = loop.first;
        if (loop.first >= 0 && !is_columns && !is_apart)
            l.last = loop.last > l.last ? loop.last : l.last;
        if (is_columns && l.last > l.first) l.last--;
        for (int p = l.first; own > 0 && p >= 0 && p <= l.last && p < points; p++)
            *(is_columns ? &vectors[p] : &matrices[p]) += own;
    }
    for (int i = 0; i < m->plan.count && m->sums_left > 0; i++)
        further += cast_registers(m, c, i) * (double)(c->casts - 1);
    for (int p = 0; p < points; p++)
        most = fmax(most, fmax(matrices[p] + ROW_REGISTERS, matrices[p] - further + vectors[p]));
    return most;
}

typedef struct load {
    double products, first, issued, cache, late, columns, flops; /* clocks of a tile; flops */
} load;

/* A loop up to a triangle's edge: its length, its block, and its blocks of all tiles. */
typedef struct triangle_loop {
    double length, block, all;
} triangle_loop;

/* How often an item runs for a tile, on average over the tiles; 'last': the loop of the item
 * before, as a rule the same one. */
static double runs_of(const cost_model *m, const cost_choice *c, const cost_item *it,
                      triangle_loop *last) {
    if (!m->is_triangular || it->loop_count != 1) return cost_runs(c, it);
    double rows = cost_value(c, m->triangle_rows), block = cost_value(c, it->loop_sizes[0]);
    double length = it->loop_lengths[0], tiles = ceil(length / rows);
    if (last->length != length || last->block != block) {
        *last = (triangle_loop){length, block, 0};
        for (int i = 1; i <= tiles; i++) last->all += ceil(fmin(i * rows, length) / block);
    }
    return it->share * last->all / tiles;
}

/* Blocks of a tile that a triangle cuts, on average over the tiles. */
static double cut_blocks(const cost_model *m, const cost_choice *c, const cost_item *it) {
    double rows = cost_value(c, m->triangle_rows), block = cost_value(c, it->loop_sizes[0]);
    double length = it->loop_lengths[0], tiles = ceil(length / rows), all = 0;
    for (int i = 0; i < tiles; i++)
        all +=
            ceil(fmin((i + 1) * rows, length) / block) - floor(fmin(i * rows + 1, length) / block);
    return all / tiles;
}

/* Elements of the grid's tiles that exist: the last one along an axis is cut. */
static double useful_elements(const cost_model *m, const cost_choice *c) {
    double useful = cost_grid_elements(m, c);
    for (int i = 0; i < m->grid_count; i++) {
        double size = cost_value(c, m->grid_sizes[i]), length = m->grid_lengths[i];
        useful *= length / (ceil(length / size) * size);
    }
    return useful;
}

static double product_clocks(const cost_model *m, const cost_choice *c, const cost_item *it) {
    prices_product product = {.rows = cost_value(c, it->a),
                              .columns = cost_value(c, it->b),
                              .contracted = cost_value(c, it->c),
                              .operand_bytes = WARPGROUP_STEP_BYTES / warpgroups_step(m->r),
                              .reads_left = m->plan.roles[it->tile].in_shared};
    return prices_of_async_product(m->r->target, product);
}

/* The boxes of a view's tile that lies in several pages; else 0. */
static double boxes_of(const cost_model *m, const cost_item *it, double rows) {
    tl_box box;
    bool is_cut = it->of_view && tl_box_of(m->r->kernel, it->of_view, (int)rows, &box) &&
                  box.rows < (int)rows;
    return is_cut ? rows / box.rows : 0;
}

static load add_up(const cost_model *m, const cost_choice *c) {
    const gpu *g = m->r->target;
    load all = {0};
    triangle_loop loop = {0};
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        double a = cost_value(c, it->a), b = cost_value(c, it->b), runs = runs_of(m, c, it, &loop);
        if (it->kind == COST_PRODUCT) {
            double flops = runs * 2 * a * b * cost_value(c, it->c);
            all.flops += flops;
            double clocks = product_clocks(m, c, it) * runs;
            all.products += clocks;
            if (m->plan.roles[it->tile].in_shared) all.first += clocks;
        } else if (it->kind == COST_ELEMENTS && it->is_columns) {
            prices_element element = {.fp32 = it->fp32, .exp2 = it->exp2};
            all.issued += prices_of_issue(g, a * COLUMN_COPIES * (double)c->warpgroups) * runs *
                          prices_of_element(element);
        } else if (it->kind == COST_ELEMENTS && !it->is_vector) {
            bool is_cut = it->is_mask && m->is_triangular && it->loop_count == 1;
            bool is_near = it->near_fp32 > 0; /* few arguments are far out */
            /* What a moving maximum costs is taken out again by pass guard. */
            bool is_saved = m->is_guarded && !c->is_paired && it->is_of_maximum;
            double fp32 = is_saved ? 0 : it->fp32;
            prices_element element = {.fp32 = is_near ? it->near_fp32 : fp32,
                                      .exp2 = is_near ? 0 : it->exp2,
                                      .conversions = it->conversions};
            all.issued +=
                prices_of_issue(g, a * b) * (is_cut ? cut_blocks(m, c, it) * PRICES_MASK_CLOCKS
                                                    : runs * prices_of_element(element));
        } else if (it->kind == COST_COPY) {
            cost_line line = cost_line_of(m, c, it->tile);
            prices_lines lines = {.rows = a,
                                  .bytes = line.bytes,
                                  .swizzle = line.swizzle,
                                  .is_even = it->has_even_rows,
                                  .is_load = it->is_load,
                                  .boxes = boxes_of(m, it, a)};
            prices_copy clocks = prices_of_lines(lines);
            if (it->is_load) all.cache += clocks.all * runs;
            if (it->loop_count > 0 && it->is_columns) all.columns += COLUMN_LOAD_CLOCKS * runs;
            /* A tile's beginning and end wait for it: nothing else of it is under way. */
            bool is_waited =
                it->loop_count == 0 || (m->channel_count > 0 && it->tile == m->channels[0]);
            if (is_waited) all.late += clocks.late;
        }
    }
    return all;
}

static double iterations(const cost_model *m, const cost_choice *c) {
    double most = 1;
    triangle_loop loop = {0};
    for (int i = 0; i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT) most = fmax(most, runs_of(m, c, &m->items[i], &loop));
    return most;
}

/* Clocks an iteration that all wait for copies: those of so many iterations are under way. A tile
 * that the next iteration's first row of products still reads is free when the last warpgroup's row
 * has landed.
 */
static double copy_wait(const cost_model *m, const cost_choice *c, double iteration_clocks,
                        double row_clocks) {
    double wait = 0, groups = (double)c->warpgroups;
    double late = iteration_clocks * (groups - 1) / groups + row_clocks;
    for (int i = 0; i < m->channel_count; i++) {
        int tile = m->channels[i];
        double ahead = ((double)stages_of(c, tile) - 1) * iteration_clocks;
        if (m->is_read_last[tile] && stages_of(c, tile) > 1) ahead -= late;
        wait = fmax(wait, PRICES_LANDING_ASYNC_CLOCKS - ahead);
    }
    return wait;
}

/* Bytes of the tiles that stand for the whole of a grid's tile and have one slot. */
static double single_bytes(const cost_model *m, const cost_choice *c) {
    double bytes = 0;
    for (int i = 0; i < m->plan.count; i++)
        if (m->plan.roles[i].in_shared && !m->plan.roles[i].is_loaded_in_loop &&
            stages_of(c, i) < 2)
            bytes += cost_tile_bytes(m, c, i);
    return bytes;
}

/* What a tile takes longer for the want of bytes: where its results have their own, the next tile's
 * copies and first product run beside its end; in those of a tile that the next one begins with,
 * copies, products and the store follow one another; from registers, results leave in small pieces.
 */
static double end_clocks(const cost_model *m, const cost_choice *c, bool is_rotated, double results,
                         bool has_own) {
    double single = single_bytes(m, c);
    if (m->is_loose || (!has_own && single < results))
        return results / PRICES_LOOSE_BYTES +
               (single > 0 && !is_rotated ? PRICES_LANDING_ASYNC_CLOCKS : 0);
    if (has_own && is_rotated) return single > 0 ? SINGLE_CLOCKS : 0;
    return (single > 0 ? PRICES_LANDING_ASYNC_CLOCKS : 0) +
           (has_own ? 0 : (single + results) / TURN_BYTES_A_CLOCK);
}

/* Two that share rows have two slots, and a block's way through one of them is long: it lands, its
 * scores are made, then its weights, and both multiply it.
 */
static double slot_clocks(load all, double runs) {
    return (runs * PRICES_LANDING_ASYNC_CLOCKS + all.cache + all.products +
            all.issued * ELEMENT_SHARE) /
           PAIR;
}

/* What copies bring from device memory: tiles of few rows share nothing that they read. */
static double read_clocks(const cost_model *m, const cost_choice *c) {
    const gpu *g = m->r->target;
    double bytes = 0;
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        if (it->kind == COST_COPY && it->is_load)
            bytes += cost_value(c, it->a) * cost_value(c, it->b) * it->element_bits / 8 *
                     cost_runs(c, it);
    }
    return bytes / (g->memory * 1e9 / ((double)g->sms * g->clock * 1e6));
}

cost_result cost_of_warpgroups(const cost_model *m, const cost_choice *c) {
    const gpu *g = m->r->target;
    cost_result out = {.rows_per_warp = WARPGROUP_ROWS / WARPGROUP_WARPS};
    if (!shapes_fit(m, c)) return out;
    int64_t operands = operand_bytes(m, c), results = result_bytes(m, c);
    bool has_own = !m->is_loose && operands + results <= g->block_shared;
    out.shared_bytes = operands + (has_own ? results : 0);
    int further = m->mask_tests > FEW_TESTS ? m->mask_tests - FEW_TESTS : 0;
    out.registers = (int)tile_registers(m, c) + ROLE_REGISTERS + further * TEST_REGISTERS;
    int most = c->is_paired ? warpgroups_paired_registers(m->r)
                            : warpgroups_math_registers(m->r, c->warpgroups);
    if (operands > g->block_shared || out.registers > most) return out;
    out.fits = true;
    out.resident = 1;
    load all = add_up(m, c);
    double groups = (double)c->warpgroups, runs = iterations(m, c);
    bool waits = all.first < all.products; /* a product takes what elements made of another */
    /* Without a second place for the left operand a vote keeps products from running on. */
    bool is_apart = m->is_guarded && !c->is_paired && c->casts < 2;
    double chain = all.products, issued = all.issued * PRICES_TOGETHER_SHARE;
    if (waits) {
        chain = ((is_apart ? all.products : all.first) * READY_SHARE + all.issued * ELEMENT_SHARE) /
                groups;
        issued += runs * (PRICES_STEP_CLOCKS + (is_apart ? 0 : SECOND_CLOCKS));
    }
    if (c->is_paired) chain = fmax(chain, slot_clocks(all, runs));
    double products = fmax(all.products / PRICES_BUSY_SHARE,
                           all.products + runs * TURN_CLOCKS * groups * (groups - 1));
    out.read = cost_has_few_rows(m) ? read_clocks(m, c) : 0;
    double step = fmax(fmax(products, issued), fmax(fmax(chain, all.cache), out.read));
    /* Where all meet in a round, nobody has products under way while another computes. */
    if (warpgroups_store_operands(m->r)) step = fmax(products + issued, all.cache);
    step += all.columns;
    double row = (all.products - all.first) / runs / groups; /* sums that the next iteration adds */
    double wait = copy_wait(m, c, step / runs, row) * runs;
    bool is_rotated = waits && m->sums_left == 0;
    double end = end_clocks(m, c, is_rotated, (double)results, has_own);
    out.blocks = runs;
    out.tensor = all.products;
    out.elements = issued;
    out.chain = chain;
    out.cache = all.cache;
    out.clocks = step + wait + TILE_CLOCKS + TILE_GROUP_CLOCKS * groups + all.late + end;
    double useful = useful_elements(m, c);
    double share = c->is_paired ? useful / cost_grid_elements(m, c) : 1; /* rows may be few */
    out.tflops = all.flops * share / out.clocks * (double)g->sms * g->clock * 1e6 / 1e12;
    out.per_element = out.clocks / useful;
    return out;
}
