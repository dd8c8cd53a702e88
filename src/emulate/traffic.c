/* What memory instructions cost: passes of the shared memory's banks, sectors of global memory. */
#include "emulate/machine.h"

/* Shared memory serves 32 banks of 4 bytes at once. 8-byte accesses go in two halves of the warp,
 * 16-byte ones in four quarters; lanes with the same word share it (CUDA programming guide,
 * "Shared Memory").
 */
static uint32_t passes(const uint32_t offsets[LANES], uint32_t mask, int first, int lanes,
                       uint32_t bytes, uint32_t *distinct) {
    uint32_t shift = (uint32_t)__builtin_ctz(bytes), last_bank = (128u >> shift) - 1u;
    uint32_t used = 0, clashes = 0;
    for (int l = first; l < first + lanes; l++) {
        uint32_t bit = mask >> l & 1u ? 1u << (offsets[l] >> shift & last_bank) : 0u;
        clashes += used & bit ? 1u : 0u;
        used |= bit;
    }
    if (!clashes) { /* no two lanes in one bank */
        *distinct += (uint32_t)__builtin_popcount(used);
        return used != 0;
    }
    uint32_t seen[LANES], count = 0, load[LANES] = {0}, most = 0;
    for (int l = first; l < first + lanes; l++) {
        if (!(mask >> l & 1u)) continue;
        uint32_t at = offsets[l] >> shift, bank = at & last_bank;
        bool known = false;
        if (load[bank])
            for (uint32_t i = 0; i < count; i++) known |= seen[i] == at;
        if (known) continue;
        seen[count++] = at;
        if (++load[bank] > most) most = load[bank];
    }
    *distinct += count;
    return most;
}

void traffic_shared(machine_count *count, const uint32_t offsets[LANES], uint32_t mask,
                    uint32_t bytes) {
    if (!mask) return;
    int lanes = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32;
    uint32_t unit = bytes < 4 ? 4 : bytes > 16 ? 16 : bytes, distinct = 0, total = 0;
    for (int first = 0; first < LANES; first += lanes)
        total += passes(offsets, mask, first, lanes, unit, &distinct);
    uint32_t least = (distinct * unit + 127u) / 128u;
    count->wavefronts += total;
    count->least_wavefronts += least < total ? least : total;
    count->space = PTX_SHARED;
}

void traffic_global(machine_count *count, const uint64_t addresses[LANES], uint32_t mask,
                    uint32_t bytes) {
    if (!mask) return;
    enum { WINDOW = 2048 };
    uint64_t bits[WINDOW / 64] = {0};
    uint64_t origin = addresses[machine_first_lane(mask)] / 32u - WINDOW / 2;
    uint32_t sectors = 0, lanes = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        lanes++;
        for (uint64_t s = addresses[l] / 32u; s <= (addresses[l] + bytes - 1u) / 32u; s++) {
            uint64_t at = s - origin;
            if (at >= WINDOW) {
                sectors++; /* far away from the first lane: taken as its own */
            } else if (!(bits[at / 64] >> at % 64 & 1u)) {
                bits[at / 64] |= 1ull << at % 64;
                sectors++;
            }
        }
    }
    uint32_t least = (lanes * bytes + 31u) / 32u;
    count->sectors += sectors;
    count->least_sectors += least < sectors ? least : sectors;
    count->space = PTX_GLOBAL;
}
