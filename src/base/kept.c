/* Sets of a few places, found by a hash of the key.
 *
 * Each place is a sequence lock: its version is odd while somebody writes it, and who reads it
 * believes what he read if the version was even and is the same afterwards. All words are atomic;
 * acquire and release keep them in order, which costs nothing on x86 and little elsewhere.
 */
#include "base/kept.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    WAYS = 4,        /* places that a result may take */
    LINE_BYTES = 64, /* of the processor's cache */
    VERSION = 0,     /* of a place's words: 0 is never written; after it key and result */
    FIRST = 1,
};

typedef atomic_uint_least64_t word;

struct kept {
    size_t set_count, key_words, result_words, place_words;
    word *places;
    atomic_uint *next; /* of each set: the place to be written next, modulo WAYS */
};

kept *kept_new(size_t count, size_t key_words, size_t result_words) {
    size_t bytes = (FIRST + key_words + result_words) * sizeof(word);
    size_t place_bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    kept *table = malloc(sizeof *table);
    if (!table) return NULL;
    *table = (kept){count / WAYS, key_words, result_words, place_bytes / sizeof(word), NULL, NULL};
    table->places = aligned_alloc(LINE_BYTES, count * place_bytes);
    table->next = calloc(table->set_count, sizeof *table->next);
    if (table->places && table->next) {
        for (size_t i = 0; i < count * table->place_words; i++) atomic_init(&table->places[i], 0);
        return table;
    }
    kept_free(table);
    return NULL;
}

void kept_free(kept *table) {
    if (!table) return;
    free(table->places);
    free(table->next);
    free(table);
}

/* Products that do not wait for one another. */
static size_t set_of(const kept *table, const uint64_t *key) {
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t hash = 0;
    for (size_t i = 0; i < table->key_words; i++) hash += key[i] * (golden * (2 * i + 1));
    return (size_t)((hash ^ hash >> 29) * golden >> 32) & (table->set_count - 1);
}

static word *place_of(const kept *table, size_t set, size_t way) {
    return table->places + (set * WAYS + way) * table->place_words;
}

static bool read_place(const kept *table, word *place, const uint64_t *key, uint64_t *result) {
    uint64_t version = atomic_load_explicit(&place[VERSION], memory_order_acquire);
    if (version == 0 || version % 2) return false;
    word *at = place + FIRST;
    for (size_t i = 0; i < table->key_words; i++)
        if (atomic_load_explicit(at++, memory_order_acquire) != key[i]) return false;
    for (size_t i = 0; i < table->result_words; i++)
        result[i] = atomic_load_explicit(at++, memory_order_acquire);
    return atomic_load_explicit(&place[VERSION], memory_order_relaxed) == version;
}

bool kept_find(kept *table, const uint64_t *key, uint64_t *result) {
    size_t set = set_of(table, key);
    for (size_t way = 0; way < WAYS; way++)
        if (read_place(table, place_of(table, set, way), key, result)) return true;
    return false;
}

void kept_put(kept *table, const uint64_t *key, const uint64_t *result) {
    size_t set = set_of(table, key);
    unsigned way = atomic_fetch_add_explicit(&table->next[set], 1, memory_order_relaxed) % WAYS;
    word *place = place_of(table, set, way), *at = place + FIRST;
    uint64_t version = atomic_load_explicit(&place[VERSION], memory_order_relaxed);
    bool is_mine = version % 2 == 0 && atomic_compare_exchange_strong_explicit(
                                           &place[VERSION], &version, version + 1,
                                           memory_order_acquire, memory_order_relaxed);
    if (!is_mine) return; /* another thread is writing it: keep nothing */
    for (size_t i = 0; i < table->key_words; i++)
        atomic_store_explicit(at++, key[i], memory_order_release);
    for (size_t i = 0; i < table->result_words; i++)
        atomic_store_explicit(at++, result[i], memory_order_release);
    atomic_store_explicit(&place[VERSION], version + 2, memory_order_release);
}
