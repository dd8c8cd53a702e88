#include "layout/access.h"

#include <assert.h>

enum { MATRIX = 8, ELEMENT_BYTES = 2, ELEMENT_BITS = 16 }; /* of ldmatrix */

static int log2_exact(int value) {
    return __builtin_ctz((unsigned)value);
}

static layout_fit fits(void) {
    return (layout_fit){LAYOUT_OK, 0, 0};
}

/* --- threads and steps ------------------------------------------------------------------------ */

typedef struct line_byte {
    int line, byte;
} line_byte;

static line_byte own_place(const access_threads *t, int warp, int lane) {
    line_byte p = {(int)bitmatrix_apply(&t->lane_line, (uint32_t)lane),
                   (int)bitmatrix_apply(&t->lane_byte, (uint32_t)lane)};
    for (int i = 0; i < 2; i++) {
        int share = warp / t->shares[i].divisor % t->shares[i].count;
        p.line += share * t->shares[i].lines;
        p.byte += share * t->shares[i].bytes;
    }
    return p;
}

static int line_xor(const access_threads *t, int line) {
    return ((line & 7) >> t->swizzle_shift) * SHARED_UNIT_BYTES;
}

int access_beyond(const access_threads *threads, int byte) {
    return threads->panel_bytes ? byte / threads->swizzle_bytes * threads->panel_bytes : byte;
}

/* A step's constants. What it moves inside a swizzled run, or by the line's low bits, is exclusive
 * or; the rest is added.
 */
static access_step make_step(const access_threads *t, line_byte move) {
    int inside = move.byte & (t->swizzle_bytes - 1) & ~(SHARED_UNIT_BYTES - 1);
    return (access_step){.xor_bytes = inside ^ line_xor(t, move.line),
                         .add_bytes =
                             move.line * t->pitch_bytes + access_beyond(t, move.byte - inside)};
}

static void set_tile(access_threads *t, const shared_layout *tile) {
    t->pitch_bytes = tile->pitch_bytes;
    t->swizzle_bytes = tile->swizzle_bytes;
    t->swizzle_shift = 3 - log2_exact(tile->swizzle_bytes / SHARED_UNIT_BYTES);
    t->panel_bytes = tile->panels > 1 ? shared_panel_bytes(tile) : 0;
}

/* --- registers and shared --------------------------------------------------------------------- */

static line_byte in_tile(const shared_layout *tile, layout_point p) {
    return tile->by_columns ? (line_byte){p.column, p.row * tile->element_bits / 8}
                            : (line_byte){p.row, p.column * tile->element_bits / 8};
}

static layout_axis line_axis(const shared_layout *tile) {
    return tile->by_columns ? LAYOUT_COLUMNS : LAYOUT_ROWS;
}

static layout_axis contiguous_axis(const shared_layout *tile) {
    return tile->by_columns ? LAYOUT_ROWS : LAYOUT_COLUMNS;
}

/* Elements to bytes; of 4 bits a lane's own first element is an even one. */
static bitmatrix in_bytes(const bitmatrix *map, int element_bits) {
    int shift = log2_exact(element_bits);
    bitmatrix out = bitmatrix_zero(map->in_bits, map->out_bits + shift);
    for (int i = 0; i < map->in_bits; i++) out.columns[i] = map->columns[i] << shift >> 3;
    return out;
}

/* Bits that a thread's own place and a step both use would carry where the constants assume an
 * exclusive or.
 */
static bool has_carry(const access_copy *c) {
    const access_threads *t = &c->threads;
    if (t->swizzle_bytes == SHARED_UNIT_BYTES) return false;
    int own_line = 0, own_byte = 0;
    for (int warp = 0; warp < t->warps; warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            line_byte p = own_place(t, warp, lane);
            own_line |= p.line & 7;
            own_byte |= p.byte & (t->swizzle_bytes - 1);
        }
    }
    for (int i = 0; i < c->count; i++) {
        line_byte move = in_tile(&c->tile, layout_step(&c->registers, i * c->elements));
        if ((move.line & own_line) || (move.byte & own_byte)) return true;
    }
    return false;
}

layout_fit access_copy_make(const layout *registers, const shared_layout *tile, int max_bytes,
                            access_copy *out) {
    *out = (access_copy){.registers = *registers, .tile = *tile};
    if (registers->rows != tile->rows) {
        return (layout_fit){LAYOUT_BAD_ROWS, registers->rows, tile->rows};
    }
    if (registers->columns != tile->columns) {
        return (layout_fit){LAYOUT_BAD_COLUMNS, registers->columns, tile->columns};
    }
    access_threads *t = &out->threads;
    set_tile(t, tile);
    t->lane_line = layout_lane_map(registers, line_axis(tile));
    bitmatrix byte = layout_lane_map(registers, contiguous_axis(tile));
    t->lane_byte = in_bytes(&byte, tile->element_bits);
    int divisor = 1;
    for (int i = 0; i < 2; i++) {
        line_byte step = in_tile(tile, registers->spread[i].step);
        int count = registers->spread[i].count;
        t->shares[i] = (access_share){divisor, count, step.line, step.byte};
        divisor *= count;
    }
    t->warps = divisor;
    out->bytes = layout_vector_bytes(registers, contiguous_axis(tile), tile->element_bits,
                                     SHARED_UNIT_BYTES);
    if (out->bytes > max_bytes) out->bytes = max_bytes;
    if (8 * out->bytes < tile->element_bits) return (layout_fit){LAYOUT_BAD_BYTES, max_bytes, 0};
    out->elements = 8 * out->bytes / tile->element_bits;
    out->count = layout_elements(registers) / out->elements;
    if (has_carry(out)) return (layout_fit){LAYOUT_BAD_CARRY, tile->swizzle_bytes, 0};
    return fits();
}

access_step access_copy_step(const access_copy *copy, int index) {
    layout_point step = layout_step(&copy->registers, index * copy->elements);
    return make_step(&copy->threads, in_tile(&copy->tile, step));
}

/* --- operands --------------------------------------------------------------------------------- */

/* Lane bits 0-2 name the line of a matrix, 3 and 4 the matrix of an x4. */
static void set_operand_lanes(access_operand *o) {
    access_threads *t = &o->threads;
    t->lane_line = bitmatrix_zero(LAYOUT_LANE_BITS, 4);
    t->lane_byte = bitmatrix_zero(LAYOUT_LANE_BITS, 5);
    /* In order: lines 4t, 4t + 1 of 16 in one matrix, 4t + 2, 4t + 3 in the next one of k. */
    static const uint32_t lines[2][3] = {{1, 2, 4}, {1, 4, 8}};
    for (int i = 0; i < 3; i++) t->lane_line.columns[i] = lines[o->in_order][i];
    int mn_bit = o->mn_first ? 3 : 4, k_bit = o->mn_first ? 4 : 3;
    int line_bit = o->transposed ? k_bit : mn_bit, byte_bit = o->transposed ? mn_bit : k_bit;
    t->lane_line.columns[line_bit] = o->in_order ? 2 : MATRIX;
    t->lane_byte.columns[byte_bit] = SHARED_UNIT_BYTES;
}

/* The warps' shares of the mn axis. */
static layout_fit set_operand_share(access_operand *o, const access_operand_request *r, int mn) {
    int warps = o->right ? r->warps_across : r->warps_down;
    int share = mn / warps, share_bytes = share * ELEMENT_BYTES;
    o->threads.warps = r->warps_down * r->warps_across;
    o->threads.shares[0] = (access_share){.divisor = o->right ? 1 : r->warps_across,
                                          .count = warps,
                                          .lines = o->transposed ? 0 : share,
                                          .bytes = o->transposed ? share_bytes : 0};
    o->threads.shares[1] = (access_share){1, 1, 0, 0};
    bool carries = o->transposed && warps > 1 && share_bytes % o->tile.swizzle_bytes &&
                   (share_bytes & (share_bytes - 1));
    if (carries) return (layout_fit){LAYOUT_BAD_CARRY, share_bytes, o->tile.swizzle_bytes};
    return fits();
}

/* With both axes odd, the last k step of two n tiles takes two x1; where mn is the contiguous axis,
 * the second of them starts at an odd unit.
 */
static void set_variants(access_operand *o) {
    bool odd_units = o->transposed && !o->mn_first && o->k8 % 2 && o->mn8 > 1;
    int contiguous = (o->transposed ? o->mn8 : o->k8) * SHARED_UNIT_BYTES;
    o->variant_bytes = odd_units ? SHARED_UNIT_BYTES : 2 * SHARED_UNIT_BYTES;
    int run = contiguous < o->tile.swizzle_bytes ? contiguous : o->tile.swizzle_bytes;
    if (o->tile.swizzle_bytes == SHARED_UNIT_BYTES) run = 1;
    o->variants = (run + o->variant_bytes - 1) / o->variant_bytes;
}

/* Two bytes as one element of 16 bits. */
static shared_layout in_pairs(const shared_layout *tile) {
    shared_layout pairs = *tile;
    pairs.element_bits = ELEMENT_BITS;
    if (tile->by_columns) pairs.rows /= 2;
    else pairs.columns /= 2;
    return pairs;
}

layout_fit access_operand_make(const access_operand_request *request, const shared_layout *tile,
                               access_operand *out) {
    const access_operand_request *r = request;
    shared_layout pairs = in_pairs(tile);
    if (tile->element_bits == 8) tile = &pairs;
    *out = (access_operand){.tile = *tile,
                            .right = r->right,
                            .contracted_is_rows = r->contracted_is_rows,
                            .in_order = r->in_order};
    out->transposed = r->contracted_is_rows != tile->by_columns;
    if (tile->element_bits != ELEMENT_BITS) {
        return (layout_fit){LAYOUT_BAD_BYTES, tile->element_bits / 8, ELEMENT_BYTES};
    }
    int mn = r->contracted_is_rows ? tile->columns : tile->rows;
    int k = r->contracted_is_rows ? tile->rows : tile->columns;
    layout_status bad_mn = r->contracted_is_rows ? LAYOUT_BAD_COLUMNS : LAYOUT_BAD_ROWS;
    layout_status bad_k = r->contracted_is_rows ? LAYOUT_BAD_ROWS : LAYOUT_BAD_COLUMNS;
    if (r->warps_down < 1 || r->warps_across < 1 ||
        r->warps_down * r->warps_across > LAYOUT_WARPS_MAX) {
        return (layout_fit){LAYOUT_BAD_WARPS, r->warps_down * r->warps_across, 0};
    }
    int warps = r->right ? r->warps_across : r->warps_down;
    int unit = (r->right ? MATRIX : 2 * MATRIX) * warps;
    if (mn % unit) return (layout_fit){bad_mn, mn, unit};
    if (k % MATRIX) return (layout_fit){bad_k, k, MATRIX};
    out->mn8 = mn / warps / MATRIX;
    out->k8 = k / MATRIX;
    /* Whichever axis may end oddly comes first, so that its last loads are x2 by the same lanes. */
    out->mn_first = !r->right || (out->mn8 % 2 == 0 && out->k8 % 2 == 1);
    set_tile(&out->threads, tile);
    set_operand_lanes(out);
    set_variants(out);
    return set_operand_share(out, r, mn);
}

static access_step operand_step(const access_operand *o, int mn8, int k8) {
    line_byte move = o->transposed ? (line_byte){k8 * MATRIX, mn8 * SHARED_UNIT_BYTES}
                                   : (line_byte){mn8 * MATRIX, k8 * SHARED_UNIT_BYTES};
    return make_step(&o->threads, move);
}

static access_load one_load(const access_operand *o, int mn8, int k8, int mn_count, int k_count) {
    access_load load = {.matrices = mn_count * k_count, .step = operand_step(o, mn8, k8)};
    for (int i = 0; i < load.matrices; i++) {
        int inner = o->mn_first ? mn_count : k_count;
        load.mn8[i] = mn8 + (o->mn_first ? i % inner : i / inner);
        load.k8[i] = k8 + (o->mn_first ? i / inner : i % inner);
    }
    load.variant = load.step.xor_bytes / o->variant_bytes;
    return load;
}

int access_operand_loads(const access_operand *operand, int mn8, int k8,
                         access_load loads[ACCESS_LOADS_MAX]) {
    const access_operand *o = operand;
    assert(mn8 % 2 == 0 && k8 % 2 == 0 && mn8 < o->mn8 && k8 < o->k8);
    int mn_count = o->mn8 - mn8 > 1 ? 2 : 1, k_count = o->k8 - k8 > 1 ? 2 : 1;
    if (mn_count == 2 && k_count == 1 && !o->mn_first) {
        loads[0] = one_load(o, mn8, k8, 1, 1);
        loads[1] = one_load(o, mn8 + 1, k8, 1, 1);
        return 2;
    }
    loads[0] = one_load(o, mn8, k8, mn_count, k_count);
    return 1;
}
