#include "layout/banks.h"

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

int banks_wavefronts(const banks_access *access) {
    int total = 0;
    bank_words set;
    for (int first = 0; first < LANES; first += phase_lanes(access->bytes)) {
        touch_phase(access, first, &set);
        total += set.busiest;
    }
    return total;
}

int banks_ideal(const banks_access *access) {
    int total = 0;
    bank_words set;
    for (int first = 0; first < LANES; first += phase_lanes(access->bytes)) {
        touch_phase(access, first, &set);
        total += (set.total + BANKS - 1) / BANKS;
    }
    return total;
}
