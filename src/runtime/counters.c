#include "runtime/counters.h"

#include <stdlib.h>

enum {
    PAIR_BYTES = 16,
    PROBES = 32, /* of a stream's place in the table */
    OUT_OF_MEMORY = 2,
    CAPTURE_NONE = 0,
    CAPTURE_ACTIVE = 1,
    NO_DESTRUCTOR_SYNC = 1,
    MOVE = 1
};

/* The launch in a graph that has this pair; the graph's reference to it is a user object, which the
 * driver destroys with the last graph, once no launch of that runs any more.
 */
typedef struct captured_pair {
    _Atomic(tile_counters *) owner; /* NULL: free */
} captured_pair;

/* Lives until it is closed and the last graph is gone: a graph's end is told from a thread of the
 * driver's, at any time.
 */
struct tile_counters {
    atomic_int references;
    uint64_t memory; /* zeros, the spare pair, those of streams, those of captured launches */
    bool for_tiles;
    atomic_uint next_captured;
    _Atomic uint64_t streams[COUNTERS_STREAMS]; /* ids that the driver never gives out again */
    captured_pair captured[COUNTERS_CAPTURES];
};

enum {
    SPARE_OFFSET = COUNTERS_ZERO_BYTES,
    LEGACY_OFFSET = SPARE_OFFSET + PAIR_BYTES,
    STREAMS_OFFSET = LEGACY_OFFSET + PAIR_BYTES,
    CAPTURED_OFFSET = STREAMS_OFFSET + COUNTERS_STREAMS * PAIR_BYTES,
    ALL_BYTES = CAPTURED_OFFSET + COUNTERS_CAPTURES * PAIR_BYTES
};

static void let_go(tile_counters *counters) {
    if (atomic_fetch_sub(&counters->references, 1) == 1) free(counters);
}

int counters_open(const cuda_driver *cuda, bool for_tiles, tile_counters **out) {
    tile_counters *counters = calloc(1, sizeof *counters);
    *out = NULL;
    if (!counters) return OUT_OF_MEMORY;
    size_t bytes = for_tiles ? ALL_BYTES : COUNTERS_ZERO_BYTES;
    uint32_t last = 0;
    counters->for_tiles = for_tiles;
    counters->references = 1;
    int result = cuda->memory_allocate(&counters->memory, bytes);
    if (!result) result = cuda->memory_fill(counters->memory, 0, bytes / sizeof last);
    /* Filling does not wait, and streams of their own do not wait for it; reading does. */
    if (!result) result = cuda->memory_read(&last, counters->memory + bytes - sizeof last, 4);
    if (result) counters_close(cuda, counters);
    else *out = counters;
    return result;
}

void counters_close(const cuda_driver *cuda, tile_counters *counters) {
    if (!counters) return;
    if (counters->memory) cuda->memory_free(counters->memory);
    let_go(counters);
}

uint64_t counters_zeros(const tile_counters *counters) {
    return counters->memory;
}

uint64_t counters_spare(const tile_counters *counters) {
    return counters->memory + SPARE_OFFSET;
}

/* The pair of that stream: taken for good at its first launch. */
static uint64_t of_stream(tile_counters *counters, uint64_t id) {
    uint64_t key = id + 1, hash = id * 0x9e3779b97f4a7c15u >> 32; /* a key of 0 is free */
    for (uint64_t i = 0; i < PROBES && key; i++) {
        uint64_t slot = (hash + i) % COUNTERS_STREAMS, holder = 0;
        bool is_taken = atomic_compare_exchange_strong(&counters->streams[slot], &holder, key);
        if (is_taken || holder == key) return counters->memory + STREAMS_OFFSET + slot * PAIR_BYTES;
    }
    return 0;
}

static void release_captured(void *pair) {
    tile_counters *counters = atomic_exchange(&((captured_pair *)pair)->owner, NULL);
    let_go(counters);
}

/* A pair of its own for the launch that is captured into 'graph'. */
static uint64_t of_capture(const cuda_driver *cuda, tile_counters *counters, void *graph) {
    void *object;
    for (int i = 0; i < COUNTERS_CAPTURES; i++) {
        unsigned slot = atomic_fetch_add(&counters->next_captured, 1) % COUNTERS_CAPTURES;
        captured_pair *pair = &counters->captured[slot];
        tile_counters *nobody = NULL;
        if (!atomic_compare_exchange_strong(&pair->owner, &nobody, counters)) continue;
        atomic_fetch_add(&counters->references, 1);
        if (cuda->object_create(&object, pair, release_captured, 1, NO_DESTRUCTOR_SYNC)) {
            release_captured(pair);
            return 0;
        }
        if (cuda->graph_retain(graph, object, 1, MOVE)) {
            cuda->object_release(object, 1); /* which gives the pair back */
            return 0;
        }
        return counters->memory + CAPTURED_OFFSET + (uint64_t)slot * PAIR_BYTES;
    }
    return 0;
}

uint64_t counters_take(const cuda_driver *cuda, tile_counters *counters, void *stream) {
    /* The default stream, which is never captured, has two handles. */
    if ((uintptr_t)stream <= 1) return counters->memory + LEGACY_OFFSET;
    int capture = CAPTURE_NONE;
    uint64_t id = 0;
    void *graph = NULL;
    bool can_ask = cuda->stream_capture && cuda->stream_id && cuda->object_create &&
                   cuda->object_release && cuda->graph_retain;
    if (!can_ask || cuda->stream_capture(stream, &capture, &id, &graph, NULL, NULL)) return 0;
    if (capture == CAPTURE_ACTIVE) return of_capture(cuda, counters, graph);
    if (capture != CAPTURE_NONE || cuda->stream_id(stream, &id)) return 0;
    return of_stream(counters, id);
}
