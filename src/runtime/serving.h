/* What the calls of flashtl/serving.h share. */
#ifndef FLASHTL_RUNTIME_SERVING_H
#define FLASHTL_RUNTIME_SERVING_H

#include "flashtl/serving.h"
#include "runtime/attention.h"

/* What a launch is given: tensors by the names that the sketch has for them. */
enum { GIVEN_MAX = 16, SCALARS_MAX = 4 };
typedef struct given {
    ftl_tensor tensors[GIVEN_MAX];
    ftl_scalar scalars[SCALARS_MAX];
    int32_t count, scalar_count;
} given;

ftl_tensor *given_add(given *g, const char *name, uint64_t address, ftl_type type,
                      int32_t axis_count);
void given_axis(ftl_tensor *t, int32_t i, int64_t extent, int64_t stride);
/* (batch, head; length, d); without d: (batch, head; length). */
void given_matrix(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                  int64_t batch, int64_t heads, int64_t length, int64_t d);
/* (token, head, d); without d: (token, head). */
void given_tokens(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                  int64_t tokens, int64_t heads, int64_t d);
/* (page, slot, head, d) */
void given_pool(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                const ftl_pages *pages, int64_t heads, int64_t d);
/* (n), of f32 or of i32; (row, column) */
void given_vector(given *g, const char *name, uint64_t address, int64_t count);
void given_list(given *g, const char *name, uint64_t address, int64_t count);
void given_table(given *g, const char *name, uint64_t address, ftl_type type, int64_t rows,
                 int64_t columns, int64_t stride);

void given_scalar(given *g, const char *name, double value);
ftl_arguments given_arguments(const given *g);

/* A call's struct as it is today, of one that may come from a program that was compiled when it had
 * 'least' bytes: what it has not is 0. INVALID_ARGUMENT where it is null or has fewer.
 */
ftl_status serving_take(ftl_context *context, const void *call, size_t least, void *to,
                        size_t bytes, const char *init);

/* What ftl_scoring adds to a kernel, and to a launch: slopes, bias, padding and numbers. Sinks are
 * apart, since of two kernels the second has them. 'query_axis' is the queries' before each key's.
 */
ftl_status serving_check_scoring(ftl_context *context, const ftl_scoring *s);
void serving_choose(const ftl_scoring *s, attention_key *key);
typedef struct scoring_shape {
    int64_t batch, heads, queries;
    bool has_batch; /* of the bias: (batch, head, query, key), or (head, query, key) */
} scoring_shape;
void serving_give_scoring(given *g, const ftl_scoring *s, const attention_key *key,
                          scoring_shape shape);
void serving_give_sinks(given *g, const ftl_scoring *s, int64_t heads);

/* Of how many tokens may a page be? 0, for no pages, is for the caller to judge. */
ftl_status serving_check_page(ftl_context *context, int64_t page_len);

/* serving_check.c: where the runtime checks tables, waits for the stream, reads them and says in
 * one sentence what is wrong (INVALID_ARGUMENT). A stream that is captured cannot be waited for:
 * its calls are not checked, with a warning. Also OK where nothing is to be checked; the statuses
 * of reading.
 */
ftl_status serving_check_varlen(ftl_context *context, ftl_runtime *runtime, const ftl_varlen *v,
                                void *stream);
ftl_status serving_check_decode(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                                void *stream);
ftl_status serving_check_append(ftl_context *context, ftl_runtime *runtime, const ftl_append *a,
                                void *stream);

#endif
