/* A device whose streams run side by side: work is queued, and run_all does it in an order drawn
 * from a seed, a step of a block of a launch of a stream at a time. Its kernel is what a kernel
 * that takes the next free tile does with its counters; each tile adds 1 to an element of O.
 */
#ifndef TESTS_FAKE_DEVICE_H
#define TESTS_FAKE_DEVICE_H

#include "fake_cuda.h"
#include "fake_library.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { DEVICE_RESIDENT = 6, DEVICE_BLOCKS_MAX = 64 };

/* Where the kernel's parameters stand. */
typedef struct device_layout {
    int32_t counters, tiles, output;
} device_layout;

/* A launch, or a fill of two words. */
typedef struct device_work {
    bool is_fill;
    unsigned grid;
    int32_t tiles;
    uint32_t *counters;
    int *output;
} device_work;

typedef struct device_stream {
    uint64_t id; /* 0: none */
    device_work *work;
    int count, capacity, at;
    int32_t tile[DEVICE_BLOCKS_MAX]; /* of the launch that runs: each block's; -1: it has ended */
    bool is_begun;
} device_stream;

typedef struct device {
    device_layout layout;
    mtx_t lock;
    device_stream *streams;
    int stream_count, stream_capacity;
    uint64_t (*id_of)(void *stream); /* set by the test */
    void *captured;                  /* the handle of the stream that is captured, into 'graph' */
    fake_graph *graph;
    device_stream recording;
    int full_grids; /* launches with a block for each tile */
} device;

static device the_device;

static void device_append(device_stream *s, device_work work) {
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 8;
        s->work = realloc(s->work, (size_t)s->capacity * sizeof *s->work);
        assert_non_null(s->work);
    }
    s->work[s->count++] = work;
}

static device_stream *device_stream_of(uint64_t id) {
    for (int i = the_device.stream_count - 1; i >= 0; i--) {
        if (the_device.streams[i].id == id) return &the_device.streams[i];
    }
    if (the_device.stream_count == the_device.stream_capacity) {
        the_device.stream_capacity = the_device.stream_capacity * 2 + 8;
        the_device.streams = realloc(the_device.streams, (size_t)the_device.stream_capacity *
                                                             sizeof *the_device.streams);
        assert_non_null(the_device.streams);
    }
    device_stream *s = &the_device.streams[the_device.stream_count++];
    *s = (device_stream){.id = id};
    return s;
}

static int device_put(void *handle, device_work work) {
    mtx_lock(&the_device.lock);
    bool is_captured = the_device.graph && handle == the_device.captured;
    device_append(
        is_captured ? &the_device.recording : device_stream_of(the_device.id_of(handle) + 1), work);
    if (!work.is_fill) the_device.full_grids += work.grid == (unsigned)work.tiles;
    mtx_unlock(&the_device.lock);
    return 0;
}

static int device_launch(void *user, void *stream, unsigned grid, const unsigned char *parameters) {
    const device *d = user;
    device_work work = {.grid = grid};
    uint64_t counters, output;
    memcpy(&counters, parameters + d->layout.counters, 8);
    memcpy(&work.tiles, parameters + d->layout.tiles, 4);
    memcpy(&output, parameters + d->layout.output, 8);
    work.counters = (uint32_t *)(uintptr_t)counters;
    work.output = (int *)(uintptr_t)output;
    assert_true(grid <= DEVICE_BLOCKS_MAX);
    return device_put(stream, work);
}

static int device_fill(void *user, void *stream, uint64_t address, unsigned word, size_t words) {
    (void)user;
    assert_true(word == 0 && words == 2);
    return device_put(stream,
                      (device_work){.is_fill = true, .counters = (uint32_t *)(uintptr_t)address});
}

static uint64_t device_id(void *user, void *stream) {
    (void)user;
    return the_device.id_of(stream);
}

static fake_graph *device_graph(void *user, void *stream) {
    (void)user;
    return stream == the_device.captured ? the_device.graph : NULL;
}

/* One step of a block: its tile, the number of the next, or its end. False when it has ended. */
static bool device_step_block(device_stream *s, const device_work *w, int block) {
    int32_t tile = s->tile[block];
    if (tile < 0) return false;
    if (tile < w->tiles) {
        w->output[tile]++;
        s->tile[block] = (int32_t)(w->counters[0]++ + w->grid);
        return true;
    }
    if (w->counters[1]++ == w->grid - 1) w->counters[0] = w->counters[1] = 0;
    s->tile[block] = -1;
    return false;
}

/* Some step of what a stream has first. False when the stream is at its end. */
static bool device_step(device_stream *s, uint32_t draw) {
    if (s->at == s->count) return false;
    const device_work *w = &s->work[s->at];
    if (w->is_fill) {
        w->counters[0] = w->counters[1] = 0;
        s->at++;
        return true;
    }
    if (!s->is_begun) {
        for (unsigned i = 0; i < w->grid; i++) s->tile[i] = (int32_t)i;
        s->is_begun = true;
    }
    int resident[DEVICE_RESIDENT], count = 0;
    for (unsigned i = 0; i < w->grid && count < DEVICE_RESIDENT; i++) {
        if (s->tile[i] >= 0) resident[count++] = (int)i;
    }
    if (count) {
        device_step_block(s, w, resident[draw % (unsigned)count]);
    } else {
        s->is_begun = false;
        s->at++;
    }
    return true;
}

static void device_run_all(uint32_t seed) {
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        for (int i = 0; i < the_device.stream_count; i++) {
            seed = seed * 1664525u + 1013904223u;
            int steps = (int)(seed >> 28);
            for (int k = 0; k < steps; k++) {
                seed = seed * 1664525u + 1013904223u;
                device_step(&the_device.streams[i], seed >> 8);
            }
            goes_on |= the_device.streams[i].at < the_device.streams[i].count;
        }
    }
}

static void device_begin_capture(void *stream, fake_graph *graph) {
    the_device.captured = stream;
    the_device.graph = graph;
    the_device.recording = (device_stream){0};
}

/* What was captured; the caller frees its 'work'. */
static device_stream device_end_capture(void) {
    device_stream recorded = the_device.recording;
    the_device.graph = NULL;
    the_device.captured = NULL;
    return recorded;
}

/* Puts a captured graph after what the stream of that number has. */
static void device_replay(const device_stream *graph, uint64_t id) {
    for (int i = 0; i < graph->count; i++) device_append(device_stream_of(id), graph->work[i]);
}

static void device_open(fake_record *driver, device_layout layout, uint64_t (*id_of)(void *)) {
    the_device = (device){.layout = layout, .id_of = id_of};
    assert_int_equal(mtx_init(&the_device.lock, mtx_plain), thrd_success);
    driver->user = &the_device;
    driver->on_queue = device_launch, driver->on_fill = device_fill;
    driver->stream_id = device_id, driver->stream_graph = device_graph;
}

static void device_close(void) {
    for (int i = 0; i < the_device.stream_count; i++) free(the_device.streams[i].work);
    free(the_device.streams);
    mtx_destroy(&the_device.lock);
}

#endif
