/* Bank conflicts of shared memory, computed from addresses: 32 banks of 4 bytes.
 *
 * Accesses of 16 bytes a lane are served in phases of 8 lanes, 8 bytes in phases of 16, narrower
 * ones in one phase. A phase takes as many wavefronts as the busiest bank has distinct words.
 * An ldmatrix is a 16-byte access: 8 lanes name the 8 rows of one matrix.
 */
#ifndef FLASHTL_TESTS_LAYOUT_BANKS_H
#define FLASHTL_TESTS_LAYOUT_BANKS_H

#include "layout/access.h"

typedef struct banks_access {
    uint32_t offset[32]; /* bytes */
    uint32_t active;     /* bit per lane */
    int bytes;           /* a lane: 1, 2, 4, 8 or 16 */
} banks_access;

enum { BANKS = 32, BANK_BYTES = 4, LANES = 32 };

static int phase_lanes(int bytes) {
    return bytes >= 16 ? 8 : bytes == 8 ? 16 : 32;
}

/* The distinct words that one phase touches, by bank. */
typedef struct bank_words {
    uint32_t words[BANKS][LANES];
    int count[BANKS];
    int total, busiest;
} bank_words;

static void touch(bank_words *set, uint32_t word) {
    uint32_t bank = word % BANKS;
    for (int i = 0; i < set->count[bank]; i++) {
        if (set->words[bank][i] == word) return;
    }
    set->words[bank][set->count[bank]++] = word;
    if (set->count[bank] > set->busiest) set->busiest = set->count[bank];
    set->total++;
}

static void touch_phase(const banks_access *access, int first, bank_words *set) {
    int words = access->bytes > BANK_BYTES ? access->bytes / BANK_BYTES : 1;
    for (int bank = 0; bank < BANKS; bank++) set->count[bank] = 0;
    set->total = set->busiest = 0;
    for (int lane = first; lane < first + phase_lanes(access->bytes); lane++) {
        if (!(access->active >> lane & 1)) continue;
        for (int w = 0; w < words; w++) {
            touch(set, access->offset[lane] / BANK_BYTES + (uint32_t)w);
        }
    }
}

static int banks_wavefronts(const banks_access *access) {
    int total = 0;
    bank_words set;
    for (int first = 0; first < LANES; first += phase_lanes(access->bytes)) {
        touch_phase(access, first, &set);
        total += set.busiest;
    }
    return total;
}

/* The fewest with which the distinct bytes of this access could be served, phases kept. */
static int banks_ideal(const banks_access *access) {
    int total = 0;
    bank_words set;
    for (int first = 0; first < LANES; first += phase_lanes(access->bytes)) {
        touch_phase(access, first, &set);
        total += (set.total + BANKS - 1) / BANKS;
    }
    return total;
}

/* --- of a whole tile -------------------------------------------------------------------------- */

typedef struct access_cost {
    long instructions; /* of all warps, for the whole tile once */
    long wavefronts, ideal;
} access_cost;

/* As layout/access.h says. */
static int access_offset(const access_threads *t, access_step step, int warp, int lane) {
    int line = (int)bitmatrix_apply(&t->lane_line, (uint32_t)lane);
    int byte = (int)bitmatrix_apply(&t->lane_byte, (uint32_t)lane);
    for (int i = 0; i < 2; i++) {
        int share = warp / t->shares[i].divisor % t->shares[i].count;
        line += share * t->shares[i].lines;
        byte += share * t->shares[i].bytes;
    }
    int inside = t->panel_bytes ? byte % t->swizzle_bytes : byte;
    int own = line * t->pitch_bytes + (inside ^ ((line & 7) >> t->swizzle_shift) << 4);
    if (t->panel_bytes) own += byte / t->swizzle_bytes * t->panel_bytes;
    return step.add_bytes + (own ^ step.xor_bytes);
}

static banks_access warp_access(const access_threads *t, access_step step, int warp,
                                uint32_t active, int bytes) {
    banks_access a = {.active = active, .bytes = bytes};
    for (int lane = 0; lane < LAYOUT_LANES; lane++) {
        a.offset[lane] = active >> lane & 1 ? (uint32_t)access_offset(t, step, warp, lane) : 0;
    }
    return a;
}

/* Adding a multiple of 4 to all offsets only rotates the banks: for one warp and one set of lanes
 * the wavefronts depend on xor_bytes alone, so each of its values is computed once.
 */
typedef struct wavefront_memo {
    struct {
        uint32_t active;
        int wavefronts, ideal;
    } of[SHARED_SWIZZLE_MAX / SHARED_UNIT_BYTES];
} wavefront_memo;

static void add_access(access_cost *cost, wavefront_memo *memo, const access_threads *t,
                       access_step step, int warp, uint32_t active, int bytes) {
    if (!active) return;
    int slot = step.xor_bytes / SHARED_UNIT_BYTES;
    if (memo->of[slot].active != active) {
        banks_access a = warp_access(t, step, warp, active, bytes);
        memo->of[slot].active = active;
        memo->of[slot].wavefronts = banks_wavefronts(&a);
        memo->of[slot].ideal = banks_ideal(&a);
    }
    cost->instructions++;
    cost->wavefronts += memo->of[slot].wavefronts;
    cost->ideal += memo->of[slot].ideal;
}

static uint32_t lanes_inside(const access_copy *c, int warp, int index) {
    uint32_t active = 0;
    for (int lane = 0; lane < LAYOUT_LANES; lane++) {
        layout_point p = layout_place(&c->registers, warp, lane, index * c->elements);
        if (layout_inside(&c->registers, p)) active |= 1u << lane;
    }
    return active;
}

static access_cost access_copy_cost(const access_copy *copy) {
    access_cost cost = {0};
    bool full = layout_is_full(&copy->registers);
    for (int warp = 0; warp < copy->threads.warps; warp++) {
        wavefront_memo memo = {0};
        for (int i = 0; i < copy->count; i++) {
            uint32_t active = full ? ~0u : lanes_inside(copy, warp, i);
            add_access(&cost, &memo, &copy->threads, access_copy_step(copy, i), warp, active,
                       copy->bytes);
        }
    }
    return cost;
}

static access_cost access_operand_cost(const access_operand *operand) {
    access_cost cost = {0};
    for (int warp = 0; warp < operand->threads.warps; warp++) {
        wavefront_memo memo = {0};
        for (int mn8 = 0; mn8 < operand->mn8; mn8 += 2) {
            for (int k8 = 0; k8 < operand->k8; k8 += 2) {
                access_load loads[ACCESS_LOADS_MAX];
                int count = access_operand_loads(operand, mn8, k8, loads);
                for (int i = 0; i < count; i++) {
                    int lanes = 8 * loads[i].matrices;
                    uint32_t active = lanes == LAYOUT_LANES ? ~0u : (1u << lanes) - 1;
                    add_access(&cost, &memo, &operand->threads, loads[i].step, warp, active,
                               SHARED_UNIT_BYTES);
                }
            }
        }
    }
    return cost;
}

#endif
