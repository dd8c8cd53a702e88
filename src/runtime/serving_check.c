/* Tables as a call is given them: starts that fall, lengths past the end, pages that are none. */
#include "runtime/serving.h"

#include "runtime/driver.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct checking {
    ftl_context *context;
    ftl_runtime *runtime;
    int64_t batch; /* sequences, or tokens: entries of most tables */
} checking;

static const int64_t WAIT_MS = 60000; /* for what the stream has to do before */

/* Is there something to check, and may the stream be waited for? */
static bool can_check(const checking *c, void *stream, ftl_status *status) {
    const cuda_driver *cuda = &c->runtime->cuda;
    *status = FTL_OK;
    if (!c->runtime->checks_tables || c->batch <= 0) return false;
    int is_captured = 0;
    uint64_t id = 0;
    void *graph = NULL;
    const void **nodes = NULL;
    size_t node_count = 0;
    int result = cuda->stream_capture
                     ? cuda->stream_capture(stream, &is_captured, &id, &graph, &nodes, &node_count)
                     : 0;
    *status = runtime_cuda_status(c->context, cuda, result, "ask whether a stream is captured");
    if (*status) return false;
    if (is_captured) {
        ftl_context_warn(c->context, "tables are not checked while a stream is captured");
        return false;
    }
    *status = ftl_stream_wait(c->context, c->runtime, stream, WAIT_MS);
    return !*status;
}

static ftl_status refuse(const checking *c, const char *format, const char *table, int64_t at,
                         int64_t value, int64_t other) {
    return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT, format, table, at, value, other);
}

/* 'count' entries, malloc'd. */
static ftl_status read_list(const checking *c, uint64_t address, int64_t count, int32_t **out) {
    *out = malloc((size_t)count * sizeof **out + 1);
    if (!*out) return ftl_context_fail(c->context, FTL_NO_MEMORY, "out of memory");
    return ftl_device_read(c->context, c->runtime, *out, address, (size_t)count * sizeof **out);
}

/* From 0 on, never falling, up to 'limit' at most. A null table is the launch's to refuse. */
static ftl_status check_starts(const checking *c, const char *name, uint64_t address, int64_t limit,
                               int32_t **out) {
    *out = NULL;
    if (!address) return FTL_OK;
    ftl_status status = read_list(c, address, c->batch + 1, out);
    for (int64_t i = 0; i <= c->batch && !status; i++) {
        int32_t at = (*out)[i], before = i ? (*out)[i - 1] : 0;
        if (at < before)
            status =
                refuse(c, "%s[%" PRId64 "] is %" PRId64 ", below the start before it: %" PRId64,
                       name, i, at, before);
        else if (at > limit)
            status = refuse(c, "%s[%" PRId64 "] is %" PRId64 "; there are %" PRId64 " tokens", name,
                            i, at, limit);
    }
    return status;
}

/* Of each sequence: from 0 on, up to 'most', or up to what lies between its starts. */
static ftl_status check_lengths(const checking *c, const char *name, uint64_t address,
                                const int32_t *starts, int64_t most, int32_t **out) {
    *out = NULL;
    if (!address) return FTL_OK;
    ftl_status status = read_list(c, address, c->batch, out);
    for (int64_t i = 0; i < c->batch && !status; i++) {
        int64_t length = (*out)[i], room = starts ? starts[i + 1] - starts[i] : most;
        if (length >= 0 && length <= room) continue;
        status = refuse(c, "%s[%" PRId64 "] is %" PRId64 "; it may be 0 to %" PRId64, name, i,
                        length, room);
    }
    return status;
}

static ftl_status check_row(const checking *c, const ftl_pages *pages, int64_t row,
                            const int32_t *entries, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (entries[i] < 0 || entries[i] >= pages->count)
            return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                    "entry %" PRId64 " of the table's row %" PRId64 " is %" PRId32
                                    "; there are %" PRId64 " pages",
                                    i, row, entries[i], pages->count);
        for (int64_t j = 0; j < i; j++) {
            if (entries[j] != entries[i]) continue;
            return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                    "row %" PRId64 " of the table names page %" PRId32
                                    " twice, as entries %" PRId64 " and %" PRId64,
                                    row, entries[i], j, i);
        }
    }
    return FTL_OK;
}

/* Of sequences with these lengths, or of those between starts: a row of the bias has a column for
 * each key, and there is no more padding than keys.
 */
static ftl_status check_scoring(const checking *c, const ftl_scoring *s, const int32_t *lens,
                                const int32_t *starts) {
    int32_t *padding = NULL;
    ftl_status status = FTL_OK;
    if (!lens && !starts) return FTL_OK;
    if (s->padding) status = read_list(c, s->padding, c->batch, &padding);
    for (int64_t i = 0; i < c->batch && !status; i++) {
        int64_t keys = lens ? lens[i] : starts[i + 1] - starts[i];
        if (s->bias && keys > s->bias_columns)
            status = ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                      "sequence %" PRId64 " has %" PRId64
                                      " keys; bias_columns is %" PRId64,
                                      i, keys, s->bias_columns);
        else if (padding && (padding[i] < 0 || padding[i] > keys))
            status = refuse(c, "%s[%" PRId64 "] is %" PRId64 "; the sequence has %" PRId64 " keys",
                            "padding", i, padding[i], keys);
    }
    free(padding);
    return status;
}

/* The pages that are read: no sequence has more than its row of the table names. */
static ftl_status check_pages(const checking *c, const ftl_pages *pages, const char *name,
                              uint64_t lengths, const ftl_scoring *scoring) {
    int32_t *lens;
    int64_t most = pages->columns > 0 ? pages->columns * pages->page_len : 0;
    ftl_status status = check_lengths(c, name, lengths, NULL, most, &lens);
    for (int64_t row = 0; row < c->batch && !status && lens && pages->table; row++) {
        int64_t count = (lens[row] + pages->page_len - 1) / pages->page_len;
        int32_t *entries;
        status = read_list(c, pages->table + (uint64_t)(row * pages->stride) * sizeof *entries,
                           count, &entries);
        if (!status) status = check_row(c, pages, row, entries, count);
        free(entries);
    }
    if (!status) status = check_scoring(c, scoring, lens, NULL);
    free(lens);
    return status;
}

/* What max_q_len leaves out would stay as it was in the output. */
static ftl_status check_longest(const checking *c, const ftl_varlen *v, const int32_t *starts,
                                const int32_t *used) {
    for (int64_t i = 0; i < c->batch && starts; i++) {
        int64_t length = used ? used[i] : starts[i + 1] - starts[i];
        if (length > v->max_q_len)
            return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                    "sequence %" PRId64 " has %" PRId64
                                    " queries; max_q_len is %" PRId64,
                                    i, length, v->max_q_len);
    }
    return FTL_OK;
}

ftl_status serving_check_varlen(ftl_context *context, ftl_runtime *runtime, const ftl_varlen *v,
                                void *stream) {
    const checking c = {context, runtime, v->batch};
    int32_t *q_start = NULL, *kv_start = NULL, *q_used = NULL, *kv_used = NULL;
    ftl_status status;
    if (!can_check(&c, stream, &status)) return status;
    status = check_starts(&c, "q_start", v->q_start, v->q_tokens, &q_start);
    if (!status) status = check_lengths(&c, "q_used", v->q_used, q_start, v->q_tokens, &q_used);
    if (!status) status = check_longest(&c, v, q_start, q_used);
    if (!status && v->pages.page_len)
        status = check_pages(&c, &v->pages, "kv_used", v->kv_used, &v->scoring);
    if (!status && !v->pages.page_len) {
        status = check_starts(&c, "kv_start", v->kv_start, v->kv_tokens, &kv_start);
        if (!status)
            status = check_lengths(&c, "kv_used", v->kv_used, kv_start, v->kv_tokens, &kv_used);
        if (!status) status = check_scoring(&c, &v->scoring, kv_used, kv_start);
    }
    free(q_start);
    free(kv_start);
    free(q_used);
    free(kv_used);
    return status;
}

ftl_status serving_check_decode(ftl_context *context, ftl_runtime *runtime, const ftl_decode *d,
                                void *stream) {
    const checking c = {context, runtime, d->batch};
    ftl_status status;
    if (!can_check(&c, stream, &status)) return status;
    return check_pages(&c, &d->pages, "kv_lens", d->kv_lens, &d->scoring);
}

/* Entries from 0 on, below 'count'. */
static ftl_status check_places(const checking *c, const char *name, uint64_t address, int64_t count,
                               int32_t **out) {
    *out = NULL;
    if (!address) return FTL_OK;
    ftl_status status = read_list(c, address, c->batch, out);
    for (int64_t i = 0; i < c->batch && !status; i++) {
        int64_t place = (*out)[i];
        if (place >= 0 && place < count) continue;
        status =
            refuse(c, "%s[%" PRId64 "] is %" PRId64 "; there are %" PRId64, name, i, place, count);
    }
    return status;
}

static int compare_places(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Two tokens in one place: whichever is written last stays. Sorts the slots. */
static ftl_status check_distinct(const checking *c, int32_t *slots) {
    if (slots) qsort(slots, (size_t)c->batch, sizeof *slots, compare_places);
    for (int64_t i = 1; slots && i < c->batch; i++) {
        if (slots[i] == slots[i - 1])
            return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                    "two entries of slots are %" PRId32, slots[i]);
    }
    return FTL_OK;
}

ftl_status serving_check_append(ftl_context *context, ftl_runtime *runtime, const ftl_append *a,
                                void *stream) {
    const checking c = {context, runtime, a->tokens};
    ftl_status status;
    int32_t *slots = NULL, *places = NULL;
    if (!can_check(&c, stream, &status)) return status;
    int64_t room = a->pages > 0 && a->pages <= INT32_MAX ? a->pages * a->page_len : 0;
    status = check_places(&c, "slots", a->slots, room, &slots);
    if (!status) status = check_distinct(&c, slots);
    if (!status && a->rotary_dim)
        status = check_places(&c, "places", a->places, a->places_count, &places);
    free(slots);
    free(places);
    return status;
}
