/* A small cache of encoded tensor maps: sets of a few places, found by a hash of the numbers.
 *
 * Each place is a sequence lock: its version is odd while somebody writes it, and who reads it
 * believes what he read if the version was even and is the same afterwards. All words are atomic;
 * acquire and release keep them in order, which costs nothing on x86 and little elsewhere.
 */
#include "runtime/maps.h"
#include "plan/plan.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAYS = 4,                /* places that a map may take */
    SETS = MAPS_KEPT / WAYS, /* a power of two */
    KEY_WORDS = 2 + FTL_MAP_RANK_MAX + (FTL_MAP_RANK_MAX - 1),
    MAP_WORDS = FTL_MAP_BYTES / 8,
    PLACE_BYTES = 256, /* whole lines of the processor's cache */
};

/* What decides a map's encoding beside what the plan says of it: which of the plan's it is,
 * address, extents, strides.
 */
typedef struct map_key {
    uint64_t words[KEY_WORDS];
} map_key;

typedef struct map_place {
    _Alignas(PLACE_BYTES) atomic_uint_least64_t version; /* 0: never written */
    atomic_uint_least64_t key[KEY_WORDS];
    atomic_uint_least64_t map[MAP_WORDS];
} map_place;

typedef struct map_set {
    map_place places[WAYS];
} map_set;

struct map_store {
    map_set sets[SETS];
    atomic_uint next[SETS]; /* place to be written next, modulo WAYS */
};

map_store *map_store_new(void) {
    map_store *store = aligned_alloc(PLACE_BYTES, sizeof *store);
    if (store) memset(store, 0, sizeof *store);
    return store;
}

void map_store_free(map_store *store) {
    free(store);
}

static map_key key_of(const ftl_tensor_map *map, int32_t number, uint64_t address) {
    map_key key = {.words = {(uint64_t)number, address}};
    memcpy(key.words + 2, map->extents, sizeof map->extents);
    memcpy(key.words + 2 + FTL_MAP_RANK_MAX, map->stride_bytes, sizeof map->stride_bytes);
    return key;
}

/* Products that do not wait for one another. */
static size_t set_of(const map_key *key) {
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t hash = 0;
    for (unsigned i = 0; i < KEY_WORDS; i++) hash += key->words[i] * (golden * (2 * i + 1));
    return (hash ^ hash >> 29) * golden >> 32 & (SETS - 1);
}

static bool read_place(map_place *place, const map_key *key, unsigned char map[FTL_MAP_BYTES]) {
    uint64_t version = atomic_load_explicit(&place->version, memory_order_acquire);
    if (version == 0 || version % 2) return false;
    for (int i = 0; i < KEY_WORDS; i++) {
        if (atomic_load_explicit(&place->key[i], memory_order_acquire) != key->words[i])
            return false;
    }
    uint64_t words[MAP_WORDS];
    for (int i = 0; i < MAP_WORDS; i++) {
        words[i] = atomic_load_explicit(&place->map[i], memory_order_acquire);
    }
    if (atomic_load_explicit(&place->version, memory_order_relaxed) != version) return false;
    memcpy(map, words, sizeof words);
    return true;
}

static bool find(map_store *store, const map_key *key, unsigned char map[FTL_MAP_BYTES]) {
    map_set *set = &store->sets[set_of(key)];
    for (int i = 0; i < WAYS; i++) {
        if (read_place(&set->places[i], key, map)) return true;
    }
    return false;
}

static void keep(map_store *store, const map_key *key, const unsigned char map[FTL_MAP_BYTES]) {
    size_t s = set_of(key);
    unsigned at = atomic_fetch_add_explicit(&store->next[s], 1, memory_order_relaxed) % WAYS;
    map_place *place = &store->sets[s].places[at];
    uint64_t version = atomic_load_explicit(&place->version, memory_order_relaxed);
    bool is_mine = version % 2 == 0 && atomic_compare_exchange_strong_explicit(
                                           &place->version, &version, version + 1,
                                           memory_order_acquire, memory_order_relaxed);
    if (!is_mine) return; /* another thread is writing it: keep nothing */
    uint64_t words[MAP_WORDS];
    memcpy(words, map, sizeof words);
    for (int i = 0; i < KEY_WORDS; i++) {
        atomic_store_explicit(&place->key[i], key->words[i], memory_order_release);
    }
    for (int i = 0; i < MAP_WORDS; i++) {
        atomic_store_explicit(&place->map[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&place->version, version + 2, memory_order_release);
}

enum { MAP_PROMOTE_256 = 3 }; /* CUtensorMapL2promotion: L2 fetches 256 bytes at once */

static int map_swizzle(int bytes) {
    return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

static ftl_status encode(ftl_context *context, const cuda_driver *cuda, const ftl_plan *plan,
                         const ftl_tensor_map *m, uint64_t address,
                         unsigned char out[FTL_MAP_BYTES]) {
    static const uint32_t steps[FTL_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    int result = cuda->map_encode(out, plan_map_type(m->type), (uint32_t)m->rank,
                                  (void *)(uintptr_t)address, m->extents, m->stride_bytes, m->box,
                                  steps, 0, map_swizzle(m->swizzle_bytes), MAP_PROMOTE_256, 0);
    if (!result) return FTL_OK;
    char what[256];
    snprintf(what, sizeof what, "describe '%s' to the copy unit for kernel '%s'",
             plan->tensors[m->tensor].name, plan->kernel);
    return runtime_cuda_status(context, cuda, result, what);
}

ftl_status maps_write(ftl_context *context, const cuda_driver *cuda, map_store *store,
                      const ftl_plan *plan, uint64_t zeros, ftl_launch *launch) {
    if (launch->map_count && !cuda->map_encode) {
        return ftl_context_fail(context, FTL_NO_DRIVER,
                                "the CUDA driver has no tensor maps: it is too old");
    }
    for (int32_t i = 0; i < launch->map_count; i++) {
        const ftl_tensor_map *m = &launch->maps[i];
        _Alignas(64) unsigned char bytes[FTL_MAP_BYTES];
        uint64_t address = m->is_empty ? zeros : m->address;
        map_key key = key_of(m, i, address);
        if (!find(store, &key, bytes)) {
            ftl_status status = encode(context, cuda, plan, m, address, bytes);
            if (status) return status;
            keep(store, &key, bytes);
        }
        memcpy(launch->parameters + m->offset, bytes, sizeof bytes);
    }
    return FTL_OK;
}
