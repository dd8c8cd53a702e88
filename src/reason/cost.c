/* The cost model of kernels in which all warps do all: times, shared memory, what fits. */
#include "reason/cost_model.h"

#include "reason/panels.h"
#include "reason/prices.h"

#include <math.h>

enum {
    ROUND_CLOCKS = 800,       /* of an iteration of one block with few rows, whatever it does: it
                                  waits for copies, products, sums over lanes one after the other */
    ALONE_CLOCKS = 1400,      /* the same with no block beside it, and beside its work, */
    ALONE_MADE_CLOCKS = 3000, /* and where rows are looked up or widened */
    FEW_ROWS_REGISTERS = 200, /* that a lone warp takes at least, to have much on its way */
    FEW_ROWS = 64,            /* of a matrix: its tiles share nothing that they read */
    BYTES_IN_FLIGHT = 32768,  /* a multiprocessor needs to keep device memory busy */
    MATRICES = 64,            /* of a launch whose tiles go through all rows of one */
};

static const double LONE_WARP = 1.05;
/* Operations to widen an element of 8 bits or 4, its share of moving a line, and bytes afterwards.
 */
static const double WIDEN_FP32 = 0.75, WIDE_BYTES = 2;
/* More than 64 registers of scores: their work hides less. */
static const double LONG_SCORES = 1.15;

int64_t cost_odd_length(const cost_model *m) {
    enum { COLUMNS = 8 };
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        if (it->kind != COST_PRODUCT) continue;
        if (it->a.value % COLUMNS) return it->a.value;
        if (it->b.value % COLUMNS) return it->b.value;
        if (it->c.value % COLUMNS) return it->c.value;
    }
    return 0;
}

double cost_value(const cost_choice *c, cost_extent e) {
    return (double)(e.value > 0 ? e.value : c->sizes[e.open]);
}

static double cost_tile_elements(const cost_model *m, const cost_choice *c, int tile) {
    return cost_value(c, m->extents[tile][0]) * cost_value(c, m->extents[tile][1]);
}

/* In memory, and on their way from there. */
int cost_raw_bits(const cost_model *m, int tile) {
    const tiles_tile *one = m->plan.roles[tile].tile;
    return tl_type_bits(one->narrow != TL_OPEN ? one->narrow : one->storage);
}

/* Is the narrow tile in shared memory, and widened from there? */
bool cost_is_widened(const cost_model *m, int tile) {
    const place_role *role = &m->plan.roles[tile];
    return m->is_async && role->tile->narrow != TL_OPEN && role->is_loaded_in_loop;
}

double cost_tile_bytes(const cost_model *m, const cost_choice *c, int tile) {
    if (c->warpgroups > 0 && m->may_open[tile]) {
        cost_line line = cost_line_of(m, c, tile);
        return cost_value(c, m->extents[tile][0]) *
               (double)panels_line_bytes(line.bytes, line.swizzle);
    }
    return cost_tile_elements(m, c, tile) * tl_type_bits(m->plan.roles[tile].tile->storage) / 8;
}

bool cost_is_held(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    return role->in_shared && (role->in_register || (c->holds && role->is_left && !role->is_right &&
                                                     !role->is_loaded_in_loop));
}

static double shared_bytes(const cost_model *m, const cost_choice *c) {
    double bytes = 0, passing = 0, host = 0, turns = 0;
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!role->in_shared || role->is_loaded_in_loop) continue;
        /* Without asynchronous copies, what only passes through borrows a loop tile's bytes. */
        if (!m->is_async && cost_is_held(m, c, i) && passing == 0)
            passing = cost_tile_bytes(m, c, i);
        else bytes += cost_tile_bytes(m, c, i);
    }
    for (int i = 0; i < m->channel_count; i++) {
        int tile = m->channels[i];
        double own = cost_tile_bytes(m, c, tile), ring = (double)c->stages[tile];
        if (!cost_is_widened(m, tile)) own *= ring;
        else if (c->warps == 1) turns = fmax(turns, own), own = 0; /* as stage_widen.c has it */
        if (cost_is_widened(m, tile))
            own += cost_tile_elements(m, c, tile) * cost_raw_bits(m, tile) / 8 * ring;
        bytes += own;
        if (!m->channel_is_head[i]) host = fmax(host, own);
    }
    return bytes + turns + fmax(0, passing - host);
}

/* Lanes that share a row of the matrix whose rows a vector follows: each holds the row's value. */
static double lanes_of_row(const cost_model *m, const cost_choice *c, const place_role *vector) {
    enum { ACCUMULATOR_LANES = 4, LINE_BITS = 128 };
    const place_role *owner = place_find(&m->plan, vector->of);
    if (!owner || owner->layout != TL_LINES) return ACCUMULATOR_LANES;
    double columns = cost_value(c, m->extents[owner - m->plan.roles][1]);
    return fmin(columns * tl_type_bits(owner->type) / LINE_BITS, WARP_LANES);
}

double cost_tile_registers(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    double threads = (double)c->warps * WARP_LANES;
    if (role->tile->axis_count < 2) {
        if (role->layout == TL_COLUMNS) return cost_value(c, m->extents[tile][0]) / 4;
        return cost_value(c, m->extents[tile][0]) * lanes_of_row(m, c, role) / threads;
    }
    int bits = tl_type_bits(role->in_shared ? role->tile->storage : role->type);
    return cost_tile_elements(m, c, tile) * bits / 32 / threads;
}

double cost_runs(const cost_choice *c, const cost_item *it) {
    double runs = it->share;
    for (int i = 0; i < it->loop_count; i++)
        runs *= ceil(it->loop_lengths[i] / cost_value(c, it->loop_sizes[i]));
    return runs;
}

static void add_times(const cost_model *m, const cost_choice *c, cost_result *out,
                      double *memory_bytes, double *flops) {
    const gpu *g = m->r->target;
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        double a = cost_value(c, it->a), b = cost_value(c, it->b), runs = cost_runs(c, it);
        if (it->kind == COST_PRODUCT) {
            double k = cost_value(c, it->c);
            prices_product product = {
                .rows = a,
                .columns = b,
                .contracted = k,
                .operand_bytes = it->element_bits / 8,
                .reads_left = m->plan.roles[it->tile].in_shared && !cost_is_held(m, c, it->tile),
                .warps = (double)c->warps,
                .times = runs,
            };
            prices_pair clocks = prices_of_product(g, product);
            *flops += runs * 2 * a * b * k;
            out->tensor += clocks.tensor;
            out->shared += clocks.shared;
        } else if (it->kind == COST_ELEMENTS) {
            double elements = it->is_vector ? a * 4 : a * b; /* four lanes hold a row's value */
            prices_units units = prices_of_elements(
                g, runs * elements, (prices_element){it->fp32, it->exp2, it->conversions});
            out->fp32 += units.fp32;
            out->exp2 += units.exp2;
            out->fp32 += units.conversions;
        } else {
            double bytes = a * b * it->element_bits / 8 * runs;
            if (!it->is_twin) out->cache += bytes / PRICES_CACHE_BYTES;
            if (it->to_shared || it->is_twin) out->shared += bytes / g->shared_rate;
            if (it->to_shared && cost_is_widened(m, it->tile)) { /* read as it is, written as f16 */
                out->shared += (bytes + runs * a * b * WIDE_BYTES) / g->shared_rate;
                out->fp32 += runs * a * b * WIDEN_FP32 / g->fp32;
            }
            if (!m->has_products) *memory_bytes += bytes;
        }
    }
}

/* Barriers of an iteration: one when every tile that it copies has a slot to spare, else one for
 * the head and one for each tile that comes later; without asynchronous copies one more for one
 * slot.
 */
static double barrier_count(const cost_model *m, const cost_choice *c) {
    bool all_double = true;
    int later = 0, widened = 0;
    for (int i = 0; i < m->channel_count; i++) {
        widened += cost_is_widened(m, m->channels[i]);
        all_double = all_double && c->stages[m->channels[i]] > 1;
        later += !m->channel_is_head[i];
    }
    if (m->channel_count == 0) return 0;
    return widened + (all_double ? 1 : 1 + later + (later == 0 ? 1 : 0));
}

static double iterations(const cost_model *m, const cost_choice *c) {
    double most = 0;
    for (int i = 0; i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT) most = fmax(most, cost_runs(c, &m->items[i]));
    return most;
}

/* How many iterations before its use a tile's copy starts, the least over all tiles. */
static double copy_lead(const cost_model *m, const cost_choice *c) {
    double least = 16;
    bool all_heads = m->channel_count > 0 && m->channel_is_head[m->channel_count - 1];
    for (int i = 0; i < m->channel_count; i++) {
        double stages = (double)c->stages[m->channels[i]];
        if (c->is_plain) return 0;
        least = fmin(least, stages > 1 ? stages - 1 : all_heads && m->is_async ? 0 : 0.5);
    }
    return least;
}

/* Clocks an iteration that a block waits for copies while its neighbours have nothing to do either.
 */
static double copy_wait(const cost_model *m, const cost_choice *c, const cost_result *t,
                        double base) {
    double runs = iterations(m, c);
    if (m->channel_count == 0 || runs < 1) return 0;
    double one = base / runs * t->resident;
    double wait = PRICES_LANDING_CLOCKS - copy_lead(m, c) * one - (t->resident - 1) * base / runs;
    return wait > 0 ? wait / t->resident * runs : 0;
}

/* The part of a block's other work that products of its neighbours do not hide. */
static double exposed_share(int resident, double warps) {
    double groups = (double)resident * (warps > 4 ? sqrt(warps / 4) * 0.7 : warps / 4);
    return groups <= 1 ? 1 : groups < 3 ? 0.6 : 0.5;
}

/* Registers of the largest product that is made anew in each iteration. */
static double score_registers(const cost_model *m, const cost_choice *c) {
    double most = 0;
    for (int i = 0; i < m->plan.count; i++)
        if (m->plan.roles[i].is_product && m->plan.roles[i].is_left)
            most = fmax(most, cost_tile_registers(m, c, i));
    return most;
}

double cost_grid_elements(const cost_model *m, const cost_choice *c) {
    double elements = 1;
    for (int i = 0; i < m->grid_count; i++)
        elements *= fmin(cost_value(c, m->grid_sizes[i]), m->grid_lengths[i]);
    return elements;
}

bool cost_has_few_rows(const cost_model *m) {
    if (m->walks_rows) return false;
    for (int i = 0; i < m->grid_count; i++)
        if (m->grid_lengths[i] < FEW_ROWS) return m->has_products;
    return false;
}

static bool shapes_fit(const cost_model *m, const cost_choice *c, cost_result *out) {
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        if (it->kind != COST_PRODUCT) continue;
        int64_t a = (int64_t)cost_value(c, it->a);
        if (a % (16 * c->warps) != 0 || (int64_t)cost_value(c, it->b) % 8 != 0 ||
            (int64_t)cost_value(c, it->c) % (it->element_bits == 8 ? 32 : 8) != 0)
            return false;
        if (it->element_bits == 8 && (int64_t)cost_value(c, it->b) % 16 != 0) return false;
        out->rows_per_warp = (int)(a / c->warps);
    }
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!role->in_register || role->tile->axis_count != 2) continue;
        double rows = cost_value(c, m->extents[i][0]);
        if (!m->has_products) out->rows_per_warp = (int)(rows / (double)c->warps);
        if (role->layout == TL_MMA_C && (int64_t)rows % (16 * c->warps) != 0) return false;
    }
    return true;
}

/* What a tile reads no other one does, so that memory is the limit, or what a block does in a row.
 */
static double few_rows_clocks(const cost_model *m, const cost_choice *c, cost_result *t,
                              double memory_rate) {
    static const double IN_A_ROW = 13, ALONE_IN_A_ROW = 1.5; /* of what all units do side by side */
    double work = (t->tensor + t->shared + t->fp32 + t->exp2) / (double)c->warps;
    double rounds = iterations(m, c), own = rounds * ROUND_CLOCKS + IN_A_ROW * work;
    t->read = t->cache * PRICES_CACHE_BYTES / memory_rate;
    t->alone = rounds * (m->makes_rows ? ALONE_MADE_CLOCKS : ALONE_CLOCKS) + ALONE_IN_A_ROW * work;
    double most = fmax(t->clocks, own / t->resident);
    return prices_together(most, t->read);
}

/* Tiles of a multiprocessor, where each goes through all rows of a matrix: they may be fewer than
 * it has room for.
 */
static double long_tiles(const cost_model *m, const cost_choice *c) {
    double tiles = MATRICES * m->pieces;
    for (int i = 0; i < m->grid_count; i++)
        tiles *= ceil(m->grid_lengths[i] / cost_value(c, m->grid_sizes[i]));
    return tiles / (double)m->r->target->sms;
}

/* The time that multiprocessors spend without a tile, or wait for the last ones, is added. */
static double idle_factor(const cost_model *m, const cost_choice *c, const cost_result *t) {
    double tiles = m->walks_rows ? long_tiles(m, c) : 1;
    return m->walks_rows ? ceil(tiles / t->resident) * t->resident / tiles : 1;
}

static void add_up(const cost_model *m, const cost_choice *c, cost_result *out) {
    const gpu *g = m->r->target;
    double memory_bytes = 0, flops = 0;
    add_times(m, c, out, &memory_bytes, &flops);
    out->barriers = barrier_count(m, c) * PRICES_BARRIER_CLOCKS * iterations(m, c);
    double base = prices_together(out->tensor, out->shared);
    double exposed = exposed_share(out->resident, (double)c->warps);
    if (score_registers(m, c) > 64) exposed *= LONG_SCORES;
    if (out->resident * c->warps <= 4)
        base *= LONE_WARP; /* a scheduler with one warp waits for each product's issue */
    out->clocks =
        base + exposed * (out->fp32 + out->exp2 + out->barriers) + copy_wait(m, c, out, base);
    out->clocks = fmax(out->clocks, fmax(out->fp32, out->exp2));
    double per_clock = g->memory * 1e9 / ((double)g->sms * g->clock * 1e6);
    if (m->has_products) {
        out->clocks = fmax(out->clocks, out->cache);
        if (cost_has_few_rows(m)) out->clocks = few_rows_clocks(m, c, out, per_clock);
        out->clocks *= idle_factor(m, c, out);
        out->tflops = flops / out->clocks * (double)g->sms * g->clock * 1e6 / 1e12;
    } else {
        double in_flight = 0;
        for (int i = 0; i < m->item_count; i++)
            if (m->items[i].kind == COST_COPY && m->items[i].is_load)
                in_flight += cost_value(c, m->items[i].a) * cost_value(c, m->items[i].b) *
                             m->items[i].element_bits / 8;
        in_flight *= out->resident;
        double busy = fmin(1, in_flight / BYTES_IN_FLIGHT);
        out->clocks = fmax(out->clocks, memory_bytes / per_clock / (busy > 0 ? busy : 1));
        out->gigabytes_per_s = memory_bytes / out->clocks * (double)g->sms * g->clock * 1e6 / 1e9;
    }
    out->per_element = out->clocks / cost_grid_elements(m, c);
}

cost_result cost_of(const cost_model *m, const cost_choice *c) {
    cost_result out = {0};
    const gpu *g = m->r->target;
    if (!shapes_fit(m, c, &out)) return out;
    out.shared_bytes = (int64_t)shared_bytes(m, c);
    cost_demand registers = cost_registers(m, c, out.rows_per_warp);
    out.registers = (int)(registers.tiles + registers.beside);
    if (registers.tiles > (double)g->thread_registers || out.shared_bytes > g->block_shared)
        return out;
    out.is_tight = out.registers > g->thread_registers;
    int most = (int)g->thread_registers;
    if (cost_has_few_rows(m) && out.registers < FEW_ROWS_REGISTERS)
        out.registers = FEW_ROWS_REGISTERS;
    gpu_block block = {.threads = (int)c->warps * WARP_LANES,
                       .registers = out.is_tight ? most : out.registers,
                       .shared_bytes = out.shared_bytes};
    out.resident = gpu_occupancy(g, block, NULL);
    if (m->walks_rows) out.resident = (int)fmin(out.resident, ceil(long_tiles(m, c)));
    out.fits = out.resident > 0;
    if (out.fits) add_up(m, c, &out);
    return out;
}

int64_t cost_slots(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    if (!role->in_shared || cost_is_pair_held(m, c, tile)) return 0;
    return role->is_loaded_in_loop || c->warpgroups > 0 ? c->stages[tile] : 1;
}

const char *cost_shared_text(reason *r, const cost_model *m, const cost_choice *c) {
    str text = {"", 0};
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!role->in_shared || cost_is_pair_held(m, c, i)) continue;
        int64_t bytes = (int64_t)cost_tile_bytes(m, c, i), stages = cost_slots(m, c, i);
        if (cost_is_widened(m, i)) { /* its slots have it as memory does */
            reason_list(r, &text, ", ", "%.*s widened %lld", STR_ARGS(role->tile->name),
                        (long long)bytes);
            bytes = bytes * cost_raw_bits(m, i) / tl_type_bits(role->tile->storage);
        }
        reason_list(r, &text, ", ", "%.*s ", STR_ARGS(role->tile->name));
        if (stages > 1) reason_list(r, &text, "", "%lld x ", (long long)stages);
        reason_list(r, &text, "", "%lld", (long long)bytes);
    }
    return text.data;
}
