/* An engine's steps on a GPU: captured once, replayed with other tables, and compared with
 * attention written down plainly. At last, what calls cost the host, and how fast they read a
 * cache.
 *
 *     serving [CACHE_FOLDER]     prints a line for each; 0 when all is right, 3 without a GPU
 */
#define _POSIX_C_SOURCE 200809L
#include "flashtl/serving.h"
#include "base/convert.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HEADS = 8,
    KV_HEADS = 2,
    D = 64,
    PAGE = 16,
    PAGES = 400,
    COLUMNS = 24, /* pages of a sequence */
    BATCH = 8,
    TOKENS = 256,
    LONGEST = 96, /* queries of a sequence */
    PLACES = 1024,
    REPLAYS = 12,
    NON_BLOCKING = 1,
    CAPTURE_RELAXED = 2
};

static struct driver {
    int (*stream_create)(void **stream, unsigned flags);
    int (*synchronize)(void);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_launch)(void *executable, void *stream);
} cuda;

static ftl_context *context;
static ftl_runtime *runtime;
static uint32_t seed = 1;

/* What lies on the device, and the host's copy of it. */
typedef struct both {
    uint64_t device;
    void *host;
    size_t bytes;
} both;

static both q, q_rotated, o, lse, k_new, v_new, k_pool, v_pool, cosine, sine;
static both workspace, starts, lengths, slots, places, table;

/* Statuses of FlashTL's and of the driver's. */
#define must(status, what) check_status((int)(status), what)

static void check_status(int status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "%s: %d %s\n", what, status, ftl_context_error(context));
    exit(1);
}

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) exit(3);
    static const char *const names[] = {"cuStreamCreate",
                                        "cuCtxSynchronize",
                                        "cuStreamBeginCapture_v2",
                                        "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) exit(3);
        memcpy((char *)&cuda + i * sizeof symbol, &symbol, sizeof symbol);
    }
}

static both room(size_t bytes) {
    both b = {0, calloc(1, bytes), bytes};
    must(b.host == NULL, "memory");
    must(ftl_device_allocate(context, runtime, bytes, &b.device), "memory");
    return b;
}

static void up(both b) {
    must(ftl_device_write(context, runtime, b.device, b.host, b.bytes), "write");
}

static void down(both b) {
    must(ftl_device_read(context, runtime, b.host, b.device, b.bytes), "read");
}

static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static void fill(both b) {
    uint16_t *to = b.host;
    for (size_t i = 0; i < b.bytes / 2; i++) {
        double value = (double)draw(2001) / 1000 - 1;
        convert_store(CONVERT_F16, &value, 1, to, (int64_t)i, 1);
    }
    up(b);
}

static double element(both b, int64_t i) {
    double value;
    convert_load(CONVERT_F16, b.host, i, 1, 1, &value);
    return value;
}

static void set_up(const char *cache) {
    must(ftl_context_new(&context), "context");
    ftl_runtime_options options = FTL_RUNTIME_OPTIONS_INIT;
    options.cache_folder = cache, options.is_unverified = true; /* what it computes is seen here */
    must(ftl_runtime_open(context, &options, &runtime), "runtime");
    must(ftl_device_use(context, runtime, 0), "device");
    q = room(TOKENS * HEADS * D * 2), q_rotated = room(q.bytes), o = room(q.bytes);
    lse = room(TOKENS * HEADS * 4);
    k_new = room(TOKENS * KV_HEADS * D * 2), v_new = room(k_new.bytes);
    k_pool = room(PAGES * PAGE * KV_HEADS * D * 2), v_pool = room(k_pool.bytes);
    cosine = room(PLACES * D / 2 * 4), sine = room(cosine.bytes);
    starts = room((BATCH + 1) * 4), lengths = room(BATCH * 4), table = room(BATCH * COLUMNS * 4);
    workspace = room(64 << 20);
    slots = room(TOKENS * 4), places = room(TOKENS * 4);
    fill(q), fill(k_new), fill(v_new), fill(k_pool), fill(v_pool);
    for (int i = 0; i < PLACES * D / 2; i++) {
        double angle = i / (D / 2) * pow(10000, -(double)(i % (D / 2)) / (D / 2));
        ((float *)cosine.host)[i] = (float)cos(angle), ((float *)sine.host)[i] = (float)sin(angle);
    }
    up(cosine), up(sine);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Sequences of any lengths, some of them empty, in pages that are nobody else's. */
static void draw_tables(void) {
    int32_t *start = starts.host, *length = lengths.host, *page = table.host;
    int32_t *slot = slots.host, *place = places.host, pages[PAGES];
    for (int i = 0; i < PAGES; i++) pages[i] = i;
    for (int i = 0; i < BATCH * COLUMNS; i++) {
        int other = i + (int)draw((uint32_t)(PAGES - i)), taken = pages[other];
        pages[other] = pages[i], pages[i] = page[i] = taken;
    }
    for (int b = 0; b < BATCH; b++) {
        int queries = draw(4) ? (int)draw(40) : 0, before = (int)draw(COLUMNS * PAGE - LONGEST);
        if (b == (int)draw(BATCH)) queries = (int)draw(LONGEST + 1);
        if (start[b] + queries > TOKENS) queries = TOKENS - start[b];
        start[b + 1] = start[b] + queries, length[b] = before + queries;
        for (int i = 0; i < queries; i++) {
            int at = before + i;
            slot[start[b] + i] = page[b * COLUMNS + at / PAGE] * PAGE + at % PAGE;
            place[start[b] + i] = at;
        }
    }
    /* Rows that are no token's go where nobody reads: pages that no sequence has. */
    for (int i = start[BATCH]; i < TOKENS; i++)
        slot[i] = pages[BATCH * COLUMNS + (i / PAGE)] * PAGE + i % PAGE, place[i] = 0;
    up(starts), up(lengths), up(table), up(slots), up(places);
}

static ftl_attention_tensor rows_of(both b, int64_t heads) {
    return (ftl_attention_tensor){b.device, heads * D, heads * D, D};
}

static ftl_attention_tensor pool_of(both b) {
    return (ftl_attention_tensor){b.device, PAGE * KV_HEADS * D, KV_HEADS * D, D};
}

static ftl_pages all_pages(void) {
    return (ftl_pages){PAGE, PAGES, table.device, COLUMNS, COLUMNS};
}

static void append(void *stream) {
    ftl_append a = FTL_APPEND_INIT;
    a.dtype = FTL_F16, a.tokens = TOKENS, a.q_heads = HEADS, a.kv_heads = KV_HEADS, a.head_dim = D;
    a.q = rows_of(q, HEADS), a.q_rotated = rows_of(q_rotated, HEADS);
    a.k = rows_of(k_new, KV_HEADS), a.v = rows_of(v_new, KV_HEADS);
    a.k_pool = pool_of(k_pool), a.v_pool = pool_of(v_pool), a.page_len = PAGE, a.pages = PAGES;
    a.slots = slots.device, a.rotary_dim = D, a.cosine = cosine.device, a.sine = sine.device;
    a.angle_stride = D / 2, a.places_count = PLACES, a.places = places.device;
    must(ftl_attention_append(context, runtime, &a, stream), "append");
}

static ftl_varlen prefill_call(void) {
    ftl_varlen v = FTL_VARLEN_INIT;
    v.dtype = FTL_F16, v.causal = true, v.batch = BATCH, v.q_tokens = TOKENS;
    v.max_q_len = LONGEST, v.q_heads = HEADS, v.kv_heads = KV_HEADS, v.head_dim = D;
    v.q = rows_of(q_rotated, HEADS), v.o = rows_of(o, HEADS), v.k = pool_of(k_pool);
    v.v = pool_of(v_pool), v.lse = (ftl_attention_tensor){lse.device, 0, HEADS, 1};
    v.q_start = starts.device, v.kv_used = lengths.device, v.pages = all_pages();
    return v;
}

static ftl_decode decode_call(void) {
    ftl_decode c = FTL_DECODE_INIT;
    c.dtype = FTL_F16, c.batch = BATCH, c.q_len = 1, c.q_heads = HEADS, c.kv_heads = KV_HEADS;
    c.head_dim = D, c.q = rows_of(q, HEADS), c.o = rows_of(o, HEADS), c.k = pool_of(k_pool);
    c.v = pool_of(v_pool), c.lse = (ftl_attention_tensor){lse.device, HEADS, HEADS, 1};
    c.kv_lens = lengths.device, c.pages = all_pages();
    c.workspace = workspace.device, c.workspace_bytes = workspace.bytes;
    return c;
}

/* --- what is right ---------------------------------------------------------------------------- */

static double worst, worst_lse;
static int64_t wrong_elements;

static void note(double off, double *most) {
    wrong_elements += !(off < 3e-3); /* NaN is wrong, too */
    *most = fmax(*most, off);
}

static void compare_row(int64_t row, int head, both queries, int b, int64_t seen) {
    const int32_t *page = (const int32_t *)table.host + b * COLUMNS;
    double weights[COLUMNS * PAGE], most = -INFINITY, sum = 0, want[D] = {0};
    for (int64_t j = 0; j < seen; j++) {
        int64_t at =
            ((page[j / PAGE] * PAGE + j % PAGE) * KV_HEADS + head / (HEADS / KV_HEADS)) * D;
        double score = 0;
        for (int i = 0; i < D; i++)
            score += element(queries, (row * HEADS + head) * D + i) * element(k_pool, at + i);
        weights[j] = score / sqrt(D);
        most = fmax(most, weights[j]);
    }
    for (int64_t j = 0; j < seen; j++) sum += weights[j] = exp(weights[j] - most);
    for (int64_t j = 0; j < seen; j++) {
        int64_t at =
            ((page[j / PAGE] * PAGE + j % PAGE) * KV_HEADS + head / (HEADS / KV_HEADS)) * D;
        for (int i = 0; i < D; i++) want[i] += weights[j] / sum * element(v_pool, at + i);
    }
    for (int i = 0; i < D; i++) {
        note(fabs(element(o, (row * HEADS + head) * D + i) - want[i]), &worst);
    }
    double got = (double)((float *)lse.host)[row * HEADS + head];
    note(seen ? fabs(got - most - log(sum)) : got == -INFINITY ? 0 : NAN, &worst_lse);
}

static int judge(const char *what, int64_t rows) {
    int64_t wrong = wrong_elements;
    printf("%s: %lld rows, largest error %.2g, of the log-sum-exp %.2g, %lld wrong\n", what,
           (long long)rows, worst, worst_lse, (long long)wrong);
    worst = worst_lse = 0, wrong_elements = 0;
    return wrong != 0;
}

static int64_t compare_prefill(void) {
    const int32_t *start = starts.host, *length = lengths.host;
    down(q_rotated), down(o), down(lse), down(k_pool), down(v_pool);
    for (int b = 0; b < BATCH; b++) {
        int queries = start[b + 1] - start[b];
        for (int i = 0; i < queries; i++)
            for (int head = 0; head < HEADS; head++)
                compare_row(start[b] + i, head, q_rotated, b, length[b] - queries + i + 1);
    }
    return start[BATCH];
}

static int64_t compare_decode(void) {
    down(o), down(lse);
    for (int b = 0; b < BATCH; b++)
        for (int head = 0; head < HEADS; head++)
            compare_row(b, head, q, b, ((int32_t *)lengths.host)[b]);
    return BATCH;
}

/* A new token's key is in its slot, rotated; so is each query. */
static int check_append(void) {
    const int32_t *slot = slots.host, *place = places.host;
    double most = 0;
    for (int t = 0; t < TOKENS * (KV_HEADS + HEADS); t++) {
        int token = t / (KV_HEADS + HEADS), head = t % (KV_HEADS + HEADS) - KV_HEADS;
        both from = head < 0 ? k_new : q, to = head < 0 ? k_pool : q_rotated;
        int64_t row = head < 0 ? token * KV_HEADS + head + KV_HEADS : token * HEADS + head;
        int64_t at = head < 0 ? (int64_t)slot[token] * KV_HEADS + head + KV_HEADS : row;
        for (int i = 0; i < D / 2; i++) {
            double c = (double)((float *)cosine.host)[place[token] * D / 2 + i];
            double s = (double)((float *)sine.host)[place[token] * D / 2 + i];
            double x = element(from, row * D + i), y = element(from, row * D + D / 2 + i);
            note(fabs(element(to, at * D + i) - (x * c - y * s)), &most);
            note(fabs(element(to, at * D + D / 2 + i) - (y * c + x * s)), &most);
        }
    }
    int64_t wrong = wrong_elements;
    printf("append: largest error %.2g, %lld wrong\n", most, (long long)wrong);
    wrong_elements = 0;
    return wrong != 0;
}

/* --- captured once, replayed with other tables ------------------------------------------------ */

/* Decoding, as captured: the lengths that it finds, and results. */
static int64_t replay_decode(void *step, void *stream) {
    int64_t rows = 0;
    for (int i = 0; i < REPLAYS; i++) {
        draw_tables();
        if (i == 0) memset(lengths.host, 0, lengths.bytes), up(lengths);
        must(cuda.graph_launch(step, stream), "replay");
        must(ftl_stream_wait(context, runtime, stream, 10000), "wait");
        rows += compare_decode();
    }
    return rows;
}

static int replay_steps(void *stream) {
    enum { PREFILL, DECODE, STRETCHES, STEPS };
    void *graphs[STEPS], *steps[STEPS];
    int wrong = 0;
    int64_t rows = 0;
    ftl_varlen prefill = prefill_call();
    ftl_decode decode = decode_call(), told = decode;
    told.total_keys = 1; /* splits by the lengths */
    append(stream);
    must(ftl_attention_varlen_prepare(context, runtime, &prefill), "prepare");
    must(ftl_attention_decode_prepare(context, runtime, &decode), "prepare");
    must(cuda.synchronize(), "synchronize");
    for (int g = 0; g < STEPS; g++) {
        must(cuda.capture_begin(stream, CAPTURE_RELAXED), "capture");
        if (g == PREFILL) append(stream);
        must(g == PREFILL ? (int)ftl_attention_varlen(context, runtime, &prefill, stream)
                          : (int)ftl_attention_decode(context, runtime,
                                                      g == DECODE ? &decode : &told, stream),
             "launch");
        must(cuda.capture_end(stream, &graphs[g]), "capture");
        must(cuda.instantiate(&steps[g], graphs[g], 0), "instantiate");
    }
    for (int i = 0; i < REPLAYS; i++) {
        draw_tables();
        must(cuda.graph_launch(steps[PREFILL], stream), "replay");
        must(ftl_stream_wait(context, runtime, stream, 10000), "wait");
        if (i == 0) down(q_rotated), down(k_pool), wrong += check_append();
        rows += compare_prefill();
    }
    wrong += judge("prompts over pages, replayed", rows);
    wrong += judge("tokens over pages, replayed", replay_decode(steps[DECODE], stream));
    return wrong + judge("tokens over pages by stretches, replayed",
                         replay_decode(steps[STRETCHES], stream));
}

/* --- what it costs ---------------------------------------------------------------------------- */

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void call_again(int which, void *stream) {
    ftl_varlen prefill = prefill_call();
    ftl_decode decode = decode_call();
    if (which == 0) append(stream);
    if (which == 1) must(ftl_attention_varlen(context, runtime, &prefill, stream), "launch");
    if (which == 2) must(ftl_attention_decode(context, runtime, &decode, stream), "launch");
}

static void time_calls(void *stream) {
    static const char *const names[] = {"append", "varlen", "decode"};
    enum { TIMED = 100 };
    for (int which = 0; which < 3; which++) {
        double best = 1e9, waited = 1e9;
        for (int round = 0; round < 40; round++) {
            double start = now_us();
            for (int i = 0; i < TIMED; i++) call_again(which, stream);
            best = fmin(best, (now_us() - start) / TIMED);
            must(cuda.synchronize(), "synchronize");
            start = now_us();
            call_again(which, stream);
            must(ftl_stream_wait(context, runtime, stream, 10000), "wait");
            waited = fmin(waited, now_us() - start);
        }
        printf("%s: a call takes the host %.2f us; with its work and ftl_stream_wait %.1f us\n",
               names[which], best, waited);
    }
}

/* 32/8 heads of 128: how fast a batch's keys and values are read. */
static void time_decode(void *stream, int64_t batch, int64_t keys, int64_t page_len) {
    enum { Q_HEADS = 32, HEADS_OF_KEYS = 8, LONG_D = 128 };
    int64_t columns = keys / page_len, count = batch * columns;
    size_t bytes = (size_t)(batch * keys) * HEADS_OF_KEYS * LONG_D * 2;
    ftl_timer *timer;
    uint64_t pools[2], rows, entries, lens;
    int32_t *list = malloc((size_t)(count + batch) * 4);
    must(list == NULL, "memory");
    for (int64_t i = 0; i < count; i++) list[i] = (int32_t)((i * 7919 + 13) % count);
    for (int64_t b = 0; b < batch; b++) list[count + b] = (int32_t)keys;
    for (int i = 0; i < 2; i++) {
        must(ftl_device_allocate(context, runtime, bytes, &pools[i]), "memory");
        must(ftl_device_fill(context, runtime, pools[i], 0x30003000, bytes / 4), "fill");
    }
    must(ftl_device_allocate(context, runtime, (size_t)batch * Q_HEADS * LONG_D * 2, &rows),
         "memory");
    must(ftl_device_allocate(context, runtime, (size_t)(count + batch) * 4, &entries), "memory");
    must(ftl_device_write(context, runtime, entries, list, (size_t)(count + batch) * 4), "write");
    lens = entries + (uint64_t)count * 4;
    ftl_decode c = FTL_DECODE_INIT;
    c.dtype = FTL_F16, c.batch = batch, c.q_len = 1, c.q_heads = Q_HEADS;
    c.kv_heads = HEADS_OF_KEYS, c.head_dim = LONG_D;
    c.q = c.o = (ftl_attention_tensor){rows, Q_HEADS * LONG_D, Q_HEADS * LONG_D, LONG_D};
    c.k = c.v = (ftl_attention_tensor){pools[0], page_len * HEADS_OF_KEYS * LONG_D,
                                       HEADS_OF_KEYS * LONG_D, LONG_D};
    c.v.address = pools[1], c.kv_lens = lens;
    c.pages = (ftl_pages){page_len, count, entries, columns, columns};
    must(ftl_attention_decode_workspace(context, runtime, &c, &c.workspace_bytes), "workspace");
    must(c.workspace_bytes > workspace.bytes, "workspace");
    c.workspace = workspace.device;
    must(ftl_timer_new(context, runtime, &timer), "timer");
    double best_ms = 1e9;
    for (int round = 0; round < 8; round++) {
        double ms;
        must(ftl_timer_start(context, timer, stream), "timer");
        for (int i = 0; i < 5; i++)
            must(ftl_attention_decode(context, runtime, &c, stream), "launch");
        must(ftl_timer_stop(context, timer, stream, &ms), "timer");
        best_ms = fmin(best_ms, ms / 5);
    }
    printf("decode 32/8, batch %lld, %lld keys, pages of %lld: %.1f us, %.0f GB/s\n",
           (long long)batch, (long long)keys, (long long)page_len, best_ms * 1e3,
           2 * (double)bytes / best_ms / 1e6);
    ftl_timer_free(timer);
    for (int i = 0; i < 2; i++) ftl_device_free(runtime, pools[i]);
    ftl_device_free(runtime, rows), ftl_device_free(runtime, entries);
    free(list);
}

int main(int argc, char **argv) {
    void *stream;
    open_driver();
    set_up(argc > 1 ? argv[1] : NULL);
    must(cuda.stream_create(&stream, NON_BLOCKING), "stream");
    draw_tables();
    int wrong = replay_steps(stream);
    time_calls(stream);
    static const int64_t batches[] = {1, 8, 64};
    for (int i = 0; i < 3; i++) {
        time_decode(stream, batches[i], 8192, 16);
        time_decode(stream, batches[i], 8192, 64);
    }
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return wrong != 0;
}
