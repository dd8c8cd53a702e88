/* Launches at once on a GPU: several threads on their default streams, graphs captured on one
 * stream and replayed on two, streams destroyed while they work. Every output must be, byte for
 * byte, that of a launch alone. At last, what a launch costs the host on streams of each kind.
 *
 *     launches [CACHE_FOLDER]     prints a line for each; 0 when all is right, 3 without a GPU
 */
#define _POSIX_C_SOURCE 200809L
#include "flashtl/attention.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

enum {
    BATCH = 2,
    LENGTH = 256,
    HEADS = 70, /* two small tiles for each multiprocessor: many launches run at once */
    D = 128,
    ELEMENTS = BATCH * LENGTH * HEADS * D,
    OUTPUTS = 960,
    THREADS = 4,
    ROUNDS = 6,
    GRAPHS = 2,
    TIMED = 200,
    NON_BLOCKING = 1,
    CAPTURE_RELAXED = 2
};

static struct driver {
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*synchronize)(void);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_launch)(void *executable, void *stream);
    int (*graph_destroy)(void *graph);
    int (*executable_destroy)(void *executable);
} cuda;

static ftl_context *context;
static ftl_runtime *runtime;
static uint64_t q, k, v, outputs;
static uint16_t *alone, *found;

static void must(int status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "%s: %d %s\n", what, status, ftl_context_error(context));
    exit(1);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) exit(3);
    static const char *const names[] = {
        "cuStreamCreate",          "cuStreamDestroy_v2", "cuCtxSynchronize",
        "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",           "cuGraphDestroy",     "cuGraphExecDestroy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) exit(3);
        memcpy((char *)&cuda + i * sizeof symbol, &symbol, sizeof symbol);
    }
}

static ftl_attention call(uint64_t output) {
    ftl_attention a = FTL_ATTENTION_INIT;
    const ftl_attention_tensor t = {0, (int64_t)LENGTH * HEADS * D, HEADS * D, D};
    a.dtype = FTL_F16, a.causal = true, a.batch = BATCH, a.q_len = a.kv_len = LENGTH;
    a.q_heads = a.kv_heads = HEADS, a.head_dim = D;
    a.q = a.k = a.v = a.o = t;
    a.q.address = q, a.k.address = k, a.v.address = v, a.o.address = output;
    return a;
}

static uint64_t output(int i) {
    return outputs + (uint64_t)i * ELEMENTS * 2;
}

static void launch(ftl_context *from, void *stream, int i) {
    ftl_attention a = call(output(i));
    must(ftl_attention_forward(from, runtime, &a, stream), "launch");
}

static void poison(void) {
    must(ftl_device_fill(context, runtime, outputs, 0x7fff7fff, (size_t)OUTPUTS * ELEMENTS / 2),
         "poison");
    must(cuda.synchronize(), "synchronize");
}

/* How many of the first outputs differ from that of a launch alone. */
static int judge(const char *what, int count) {
    int wrong = 0;
    must(cuda.synchronize(), what);
    for (int i = 0; i < count; i++) {
        must(ftl_device_read(context, runtime, found, output(i), (size_t)ELEMENTS * 2), "read");
        wrong += memcmp(found, alone, (size_t)ELEMENTS * 2) != 0;
    }
    printf("%s: %d of %d outputs are wrong\n", what, wrong, count);
    return wrong;
}

static void set_up(const char *cache) {
    must(ftl_context_new(&context), "context");
    ftl_runtime_options options = {.struct_bytes = sizeof options, .cache_folder = cache};
    must(ftl_runtime_open(context, &options, &runtime), "runtime");
    must(ftl_device_use(context, runtime, 0), "device");
    alone = malloc((size_t)ELEMENTS * 2), found = malloc((size_t)ELEMENTS * 2);
    uint64_t *const inputs[] = {&q, &k, &v};
    uint32_t seed = 1;
    for (int n = 0; n < 3; n++) {
        for (int i = 0; i < ELEMENTS; i++) {
            seed = seed * 1664525u + 1013904223u;
            found[i] = (uint16_t)(0x3000 | (seed >> 16 & 0x8bff)); /* small numbers of both signs */
        }
        must(ftl_device_allocate(context, runtime, (size_t)ELEMENTS * 2, inputs[n]), "memory");
        must(ftl_device_write(context, runtime, *inputs[n], found, (size_t)ELEMENTS * 2), "write");
    }
    must(ftl_device_allocate(context, runtime, (size_t)OUTPUTS * ELEMENTS * 2, &outputs), "memory");
    poison();
    launch(context, NULL, 0);
    must(cuda.synchronize(), "the launch alone");
    must(ftl_device_read(context, runtime, alone, outputs, (size_t)ELEMENTS * 2), "read");
    for (int i = 0; i < ELEMENTS; i++) must(alone[i] == 0x7fff, "the launch alone");
}

static int launch_some(void *argument) {
    int first = *(const int *)argument;
    ftl_context *own;
    if (ftl_context_new(&own) || ftl_device_use(own, runtime, 0)) return 1;
    for (int i = 0; i < OUTPUTS / THREADS; i++) launch(own, (void *)2, first + i);
    ftl_context_free(own);
    return 0;
}

static int threads_at_once(void) {
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        thrd_t threads[THREADS];
        int firsts[THREADS];
        poison();
        for (int i = 0; i < THREADS; i++) {
            firsts[i] = i * (OUTPUTS / THREADS);
            must(thrd_create(&threads[i], launch_some, &firsts[i]) != thrd_success, "thread");
        }
        for (int i = 0; i < THREADS; i++) thrd_join(threads[i], NULL);
        wrong += judge("threads on their default streams", OUTPUTS);
    }
    return wrong;
}

static int graphs_at_once(void) {
    void *streams[GRAPHS], *graphs[GRAPHS], *executables[GRAPHS];
    int wrong = 0, each = OUTPUTS / GRAPHS;
    for (int g = 0; g < GRAPHS; g++) must(cuda.stream_create(&streams[g], NON_BLOCKING), "stream");
    for (int g = 0; g < GRAPHS; g++) {
        must(cuda.capture_begin(streams[0], CAPTURE_RELAXED), "capture");
        for (int i = 0; i < each; i++) launch(context, streams[0], g * each + i);
        must(cuda.capture_end(streams[0], &graphs[g]), "capture");
        must(cuda.instantiate(&executables[g], graphs[g], 0), "instantiate");
        if (g) must(cuda.graph_destroy(graphs[g]), "destroy");
    }
    for (int round = 0; round < ROUNDS; round++) {
        poison();
        for (int g = 0; g < GRAPHS; g++)
            must(cuda.graph_launch(executables[g], streams[g]), "replay");
        wrong += judge("graphs captured on one stream", OUTPUTS);
    }
    for (int g = 0; g < GRAPHS; g++) must(cuda.executable_destroy(executables[g]), "destroy");
    must(cuda.graph_destroy(graphs[0]), "destroy");
    for (int g = 0; g < GRAPHS; g++) must(cuda.stream_destroy(streams[g]), "destroy");
    return wrong;
}

static int streams_come_and_go(void) {
    poison();
    for (int i = 0; i < OUTPUTS; i++) {
        void *stream;
        must(cuda.stream_create(&stream, NON_BLOCKING), "stream");
        launch(context, stream, i);
        must(cuda.stream_destroy(stream), "destroy");
    }
    return judge("streams destroyed while they work", OUTPUTS);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The best of some rounds: of short sequences, so that the queue never fills. */
static void time_launches(const char *what, void *stream) {
    double best = 1e9;
    ftl_attention a = call(outputs);
    a.batch = 1, a.q_len = a.kv_len = 64, a.q_heads = a.kv_heads = 1;
    for (int round = 0; round < 60; round++) {
        double start = now_us();
        for (int i = 0; i < TIMED; i++)
            must(ftl_attention_forward(context, runtime, &a, stream), "launch");
        double took = (now_us() - start) / TIMED;
        if (took < best) best = took;
        must(cuda.synchronize(), "synchronize");
    }
    printf("a launch on %s: %.2f us\n", what, best);
}

int main(int argc, char **argv) {
    open_driver();
    set_up(argc > 1 ? argv[1] : NULL);
    int wrong = threads_at_once() + graphs_at_once() + streams_come_and_go();
    void *stream;
    must(cuda.stream_create(&stream, NON_BLOCKING), "stream");
    time_launches("the default stream", NULL);
    time_launches("a stream of its own", stream);
    time_launches("the thread's default stream", (void *)2);
    must(cuda.stream_destroy(stream), "destroy");
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return wrong != 0;
}
