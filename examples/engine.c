/* The attention of an engine that serves, in C: prompts in chunks, then a token of each sequence by
 * steps. docs/serving.md goes through it; here it runs, on tensors of the simplest kind: all values
 * are 1, so that every result is.
 *
 *     cc engine.c -lflashtl -o engine && ./engine     0: every result is 1; 3: there is no GPU
 */
#include <flashtl/serving.h>

enum { HEADS = 32, KV_HEADS = 8, D = 128, PAGE_LEN = 16 };

typedef struct engine {
    ftl_context *context;
    ftl_runtime *runtime;
    void *stream;
    uint64_t q, rotated, o; /* f16 (token, head, d) */
    uint64_t new_k, new_v;  /* f16 (token, head, d) */
    uint64_t k, v;          /* f16 (page, slot, head, d) */
    uint64_t cosine, sine;  /* f32 (longest sequence, D / 2) */
    uint64_t slots, places; /* i32 (token): where its key goes, and its place in the sequence */
    int64_t longest;
    int64_t pages, max_pages; /* of the cache, of a sequence */
    uint64_t table;           /* i32 (batch, max_pages) */
    uint64_t starts, lengths; /* i32 (batch + 1) and (batch): the step's queries, all keys so far */
    uint64_t workspace;
    size_t workspace_bytes;
    int is_ready; /* to decode */
} engine;

static ftl_pages pages_of(const engine *e) {
    ftl_pages pages = {PAGE_LEN, e->pages, e->table, e->max_pages, e->max_pages};
    return pages;
}

/* From token to token, from head to head; of the cache from page to page, too. */
static ftl_attention_tensor tokens(uint64_t address) {
    ftl_attention_tensor t = {address, 0, HEADS * D, D};
    return t;
}

static ftl_attention_tensor new_tokens(uint64_t address) {
    ftl_attention_tensor t = {address, 0, KV_HEADS * D, D};
    return t;
}

static ftl_attention_tensor cache(uint64_t address) {
    ftl_attention_tensor t = {address, PAGE_LEN * KV_HEADS * D, KV_HEADS * D, D};
    return t;
}

static ftl_status append(engine *e, int64_t rows) {
    ftl_append call = FTL_APPEND_INIT;
    call.dtype = FTL_F16, call.tokens = rows;
    call.q_heads = HEADS, call.kv_heads = KV_HEADS, call.head_dim = call.rotary_dim = D;
    call.q = tokens(e->q), call.q_rotated = tokens(e->rotated);
    call.k = new_tokens(e->new_k), call.v = new_tokens(e->new_v);
    call.k_pool = cache(e->k), call.v_pool = cache(e->v);
    call.page_len = PAGE_LEN, call.pages = e->pages, call.slots = e->slots;
    call.cosine = e->cosine, call.sine = e->sine, call.angle_stride = D / 2;
    call.places_count = e->longest, call.places = e->places;
    return ftl_attention_append(e->context, e->runtime, &call, e->stream);
}

static ftl_status prefill(engine *e, int64_t batch, int64_t rows, int64_t longest) {
    ftl_varlen call = FTL_VARLEN_INIT;
    call.dtype = FTL_F16, call.causal = true;
    call.batch = batch, call.q_tokens = rows, call.max_q_len = longest;
    call.q_heads = HEADS, call.kv_heads = KV_HEADS, call.head_dim = D;
    call.q = tokens(e->rotated), call.o = tokens(e->o);
    call.k = cache(e->k), call.v = cache(e->v);
    call.q_start = e->starts, call.kv_used = e->lengths;
    call.pages = pages_of(e);
    return ftl_attention_varlen(e->context, e->runtime, &call, e->stream);
}

static ftl_decode decode_call(const engine *e, int64_t batch) {
    ftl_decode call = FTL_DECODE_INIT;
    call.dtype = FTL_F16, call.causal = true;
    call.batch = batch, call.q_len = 1;
    call.q_heads = HEADS, call.kv_heads = KV_HEADS, call.head_dim = D;
    call.q = tokens(e->rotated), call.q.batch_stride = HEADS * D;
    call.o = tokens(e->o), call.o.batch_stride = HEADS * D;
    call.k = cache(e->k), call.v = cache(e->v);
    call.kv_lens = e->lengths, call.pages = pages_of(e);
    call.workspace = e->workspace, call.workspace_bytes = e->workspace_bytes;
    return call;
}

/* Before the first step: the kernel, and memory for the largest batch. */
static ftl_status begin_decoding(engine *e, int64_t batch) {
    ftl_decode call = decode_call(e, batch);
    ftl_status status = ftl_attention_decode_prepare(e->context, e->runtime, &call);
    if (!status)
        status = ftl_attention_decode_workspace(e->context, e->runtime, &call, &e->workspace_bytes);
    if (!status)
        status = ftl_device_allocate(e->context, e->runtime, e->workspace_bytes, &e->workspace);
    e->is_ready = !status;
    return status;
}

static ftl_status decode(engine *e, int64_t batch) {
    ftl_decode call = decode_call(e, batch);
    return ftl_attention_decode(e->context, e->runtime, &call, e->stream);
}

/* One step: chunks of prompts, or a token of each sequence that has all of its prompt. */
ftl_status step(engine *e, int64_t prompts, int64_t rows, int64_t longest, int64_t sequences);
ftl_status step(engine *e, int64_t prompts, int64_t rows, int64_t longest, int64_t sequences) {
    ftl_status status = FTL_OK;
    if (!e->is_ready) status = begin_decoding(e, sequences);
    if (!status) status = append(e, rows);
    if (!status && prompts) return prefill(e, prompts, rows, longest);
    return status ? status : decode(e, sequences);
}

/* --- a run ------------------------------------------------------------------------------------ */

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 3, ROWS = 64, LONGEST = 128, PAGES = 32, COLUMNS = 8, STEPS = 4 };
static const uint32_t ONES = 0x3c003c00, SMALL = 0x28002800; /* two f16: 1, and 1/32 */
static const int32_t PROMPTS[SEQUENCES] = {40, 7, 16};

static int failed(const engine *e, ftl_status status) {
    if (!status) return 0;
    fprintf(stderr, "engine: %s: %s\n", ftl_status_text(status), ftl_context_error(e->context));
    return status == FTL_NO_DRIVER || status == FTL_NO_DEVICE ? 3 : 1;
}

/* Memory of 'words' times four bytes, all of them 'word'. */
static ftl_status filled(engine *e, uint64_t *address, size_t words, uint32_t word) {
    ftl_status status = ftl_device_allocate(e->context, e->runtime, words * 4, address);
    return status ? status : ftl_device_fill(e->context, e->runtime, *address, word, words);
}

static ftl_status open_engine(engine *e) {
    ftl_status status = ftl_context_new(&e->context);
    if (!status) status = ftl_runtime_open(e->context, NULL, &e->runtime);
    if (!status) status = ftl_device_use(e->context, e->runtime, 0);
    e->longest = LONGEST, e->pages = PAGES, e->max_pages = COLUMNS;
    const size_t rows = (size_t)ROWS * HEADS * D / 2, new_rows = (size_t)ROWS * KV_HEADS * D / 2;
    const size_t pool = (size_t)PAGES * PAGE_LEN * KV_HEADS * D / 2;
    struct {
        uint64_t *address;
        size_t words;
        uint32_t word;
    } memory[] = {{&e->q, rows, SMALL},
                  {&e->rotated, rows, 0},
                  {&e->o, rows, 0},
                  {&e->new_k, new_rows, SMALL},
                  {&e->new_v, new_rows, ONES},
                  {&e->k, pool, 0x7e007e00}, /* NaN: nobody's key */
                  {&e->v, pool, 0x7e007e00},
                  {&e->cosine, LONGEST * D / 2, 0x3f800000},
                  {&e->sine, LONGEST * D / 2, 0},
                  {&e->slots, ROWS, 0},
                  {&e->places, ROWS, 0},
                  {&e->table, SEQUENCES * COLUMNS, 0},
                  {&e->starts, SEQUENCES + 1, 0},
                  {&e->lengths, SEQUENCES, 0}};
    for (size_t i = 0; i < sizeof memory / sizeof *memory && !status; i++)
        status = filled(e, memory[i].address, memory[i].words, memory[i].word);
    return status;
}

/* The runtime frees its kernels; memory is the engine's. NULL and 0 are fine. */
static void close_engine(engine *e) {
    const uint64_t memory[] = {e->q,      e->rotated, e->o,      e->new_k,   e->new_v,
                               e->k,      e->v,       e->cosine, e->sine,    e->slots,
                               e->places, e->table,   e->starts, e->lengths, e->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        ftl_device_free(e->runtime, memory[i]);
    ftl_runtime_close(e->runtime);
    ftl_context_free(e->context);
}

/* What a step's tables say: 'counts' new tokens of each sequence after 'lengths' old ones. */
static ftl_status write_tables(engine *e, const int32_t *counts, const int32_t *lengths,
                               int64_t *rows) {
    int32_t table[SEQUENCES][COLUMNS], slots[ROWS], places[ROWS];
    int32_t starts[SEQUENCES + 1] = {0}, all[SEQUENCES], row = 0;
    for (int b = 0; b < SEQUENCES; b++) {
        for (int n = 0; n < COLUMNS; n++) table[b][n] = (n * SEQUENCES + b) % PAGES;
        for (int i = lengths[b]; i < lengths[b] + counts[b]; i++, row++) {
            slots[row] = table[b][i / PAGE_LEN] * PAGE_LEN + i % PAGE_LEN;
            places[row] = i;
        }
        starts[b + 1] = row, all[b] = lengths[b] + counts[b];
    }
    *rows = row;
    const size_t count = (size_t)row * sizeof *slots;
    ftl_status status = ftl_device_write(e->context, e->runtime, e->table, table, sizeof table);
    if (!status) status = ftl_device_write(e->context, e->runtime, e->slots, slots, count);
    if (!status) status = ftl_device_write(e->context, e->runtime, e->places, places, count);
    if (!status)
        status = ftl_device_write(e->context, e->runtime, e->starts, starts, sizeof starts);
    if (!status) status = ftl_device_write(e->context, e->runtime, e->lengths, all, sizeof all);
    return status;
}

/* How many elements of the step's rows are 1. */
static ftl_status count_ones(engine *e, int64_t rows, int64_t *ones) {
    static uint16_t o[ROWS * HEADS * D];
    const size_t count = (size_t)rows * HEADS * D;
    ftl_status status = ftl_stream_wait(e->context, e->runtime, e->stream, 10000);
    if (!status) status = ftl_device_read(e->context, e->runtime, o, e->o, count * sizeof *o);
    for (size_t i = 0; i < count; i++) *ones += o[i] >= 0x3bff && o[i] <= 0x3c01;
    return status;
}

/* The prompts, then a token of each. */
static ftl_status run(engine *e, int64_t *ones, int64_t *all) {
    int32_t lengths[SEQUENCES] = {0}, counts[SEQUENCES];
    int64_t rows = 0;
    ftl_status status = FTL_OK;
    for (int i = 0; i <= STEPS && !status; i++) {
        int32_t longest = 0;
        for (int b = 0; b < SEQUENCES; b++) {
            counts[b] = i ? 1 : PROMPTS[b];
            longest = counts[b] > longest ? counts[b] : longest;
        }
        status = write_tables(e, counts, lengths, &rows);
        if (!status) status = step(e, i ? 0 : SEQUENCES, rows, longest, SEQUENCES);
        if (!status) status = count_ones(e, rows, ones);
        for (int b = 0; b < SEQUENCES; b++) lengths[b] += counts[b];
        *all += rows * HEADS * D;
    }
    return status;
}

int main(void) {
    engine e;
    memset(&e, 0, sizeof e);
    int64_t ones = 0, all = 0;
    ftl_status status = open_engine(&e);
    if (!status) status = run(&e, &ones, &all);
    int result = failed(&e, status);
    if (!status)
        printf("%d steps: %lld of %lld results are 1\n", STEPS + 1, (long long)ones,
               (long long)all);
    close_engine(&e);
    return status ? result : ones != all;
}
