/* A few rows of an output, exactly, and how far a kernel is from them. */
#include "base/convert.h"
#include "bench/set.h"
#include "verify/buffer.h"
#include "verify/expected.h"
#include "verify/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, PLACES = 3, COLUMNS = 64, HEADS = 3 };
enum { SCRATCH_BYTES = 1 << 30 };

double set_bound(ftl_type type) {
    return type == FTL_BF16 ? 3e-3 : type == FTL_F32 ? 1e-4 : 1e-3;
}

/* Where blocks of ROWS rows lie: at the start, in the middle, at the end. */
static int64_t place(int which, int64_t rows, int64_t block) {
    int64_t last = rows > block ? rows - block : 0;
    return which == 0 ? 0 : which == 1 ? last / 2 : last;
}

typedef struct sampling {
    const bench_set *set;
    set_sample *out;
    arena memory;
    int32_t output; /* the tensor */
} sampling;

static double *load(sampling *s, int32_t tensor, int64_t start, int64_t rows, int64_t row_stride,
                    int64_t columns) {
    double *values = arena_array(&s->memory, double, rows *columns + 1);
    for (int64_t i = 0; i < rows; i++) {
        set_values(s->set, tensor, start + i * row_stride, columns, values + i * columns);
    }
    return values;
}

/* Takes 'rows' of 'columns' values at 'start' of the output. */
static bool keep(sampling *s, const double *values, int64_t start, int64_t rows, int64_t row_stride,
                 int64_t columns) {
    set_sample *out = s->out;
    size_t count = (size_t)(out->count + rows * columns);
    double *longer = realloc(out->values, count * sizeof *longer);
    if (longer) out->values = longer;
    int64_t *elements = realloc(out->elements, count * sizeof *elements);
    if (elements) out->elements = elements;
    if (!longer || !elements) return false;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t e = 0; e < columns; e++, out->count++) {
            out->values[out->count] = values[i * columns + e];
            out->elements[out->count] = start + i * row_stride + e;
        }
    }
    out->block = (int32_t)(rows * columns);
    return true;
}

/* --- attention -------------------------------------------------------------------------------- */

static bool sample_head(sampling *s, int64_t batch, int64_t head) {
    const bench_set *set = s->set;
    const bench_attention *a = &set->attention;
    int32_t q = set_find(set, "Q"), k = set_find(set, "K"), v = set_find(set, "V");
    int32_t slope = set_find(set, "slope"), scale = 0;
    while (scale < set->plan->scalar_count && strcmp(set->scalars[scale].name, "scale") != 0) {
        scale++;
    }
    const set_tensor *of_q = &set->tensors[q], *of_k = &set->tensors[k], *of_v = &set->tensors[v];
    const set_tensor *of_o = &set->tensors[s->output];
    int64_t kv_head = head / (a->q_heads / a->kv_heads);
    arena_mark mark = arena_here(&s->memory);
    reference_attention formula = {
        .q_len = a->q_len,
        .kv_len = a->kv_len,
        .d = a->d,
        .dv = a->dv,
        .scale = scale < set->plan->scalar_count ? set->scalar_values[scale] : 1,
        .is_causal = a->is_causal,
        .window = a->window,
        .softcap = a->softcap,
        .slope = slope >= 0 ? set_value(set, slope, head) : 0};
    formula.k = load(s, k, batch * of_k->strides[0] + kv_head * of_k->strides[1], a->kv_len,
                     of_k->strides[2], a->d);
    formula.v = load(s, v, batch * of_v->strides[0] + kv_head * of_v->strides[1], a->kv_len,
                     of_v->strides[2], a->dv);
    formula.q = load(s, q, batch * of_q->strides[0] + head * of_q->strides[1], a->q_len,
                     of_q->strides[2], a->d);
    int64_t rows = a->q_len < ROWS ? a->q_len : ROWS;
    double *values = arena_array(&s->memory, double, rows * a->dv + 1);
    bool is_kept = true;
    for (int i = 0; is_kept && i < PLACES; i++) {
        int64_t first = place(i, a->q_len, rows);
        reference_attention_rows(&formula, first, rows, CONVERT_F64, values, NULL, &s->memory);
        int64_t start = batch * of_o->strides[0] + head * of_o->strides[1];
        is_kept = keep(s, values, start + first * of_o->strides[2], rows, of_o->strides[2], a->dv);
    }
    arena_reset(&s->memory, mark);
    return is_kept;
}

static bool sample_attention(sampling *s) {
    const bench_attention *a = &s->set->attention;
    int64_t heads[HEADS] = {0, a->q_heads / 3, a->q_heads - 1};
    int64_t batches[HEADS] = {0, a->batch / 2, a->batch - 1};
    bool is_kept = true;
    for (int i = 0; is_kept && i < HEADS; i++) is_kept = sample_head(s, batches[i], heads[i]);
    return is_kept;
}

/* --- products and rows ------------------------------------------------------------------------ */

static bool sample_gemm(sampling *s) {
    const bench_set *set = s->set;
    int32_t a = set_find(set, "A"), b = set_find(set, "B"), bias = set_find(set, "bias");
    int64_t m = set->tensors[a].extents[0], k = set->tensors[a].extents[1];
    int64_t n = set->tensors[b].extents[0];
    int64_t rows = m < ROWS ? m : ROWS, columns = n < COLUMNS ? n : COLUMNS;
    bool is_kept = true;
    for (int i = 0; is_kept && i < PLACES; i++) {
        arena_mark mark = arena_here(&s->memory);
        int64_t row = place(i, m, rows), column = place(i, n, columns);
        double *values = arena_array(&s->memory, double, rows *columns + 1);
        reference_gemm(load(s, a, row * k, rows, k, k), load(s, b, column * k, columns, k, k),
                       bias < 0 ? NULL : load(s, bias, column, 1, 0, columns), rows, columns, k,
                       CONVERT_F64, values);
        is_kept = keep(s, values, row * n + column, rows, n, columns);
        arena_reset(&s->memory, mark);
    }
    return is_kept;
}

static bool sample_softmax(sampling *s) {
    const bench_set *set = s->set;
    int32_t x = set_find(set, "X");
    int64_t m = set->tensors[x].extents[0], n = set->tensors[x].extents[1];
    int64_t rows = m < ROWS ? m : ROWS;
    bool is_kept = true;
    for (int i = 0; is_kept && i < PLACES; i++) {
        arena_mark mark = arena_here(&s->memory);
        int64_t row = place(i, m, rows);
        double *values = arena_array(&s->memory, double, rows *n + 1);
        reference_softmax(load(s, x, row * n, rows, n, n), rows, n, CONVERT_F64, values);
        is_kept = keep(s, values, row * n, rows, n, n);
        arena_reset(&s->memory, mark);
    }
    return is_kept;
}

/* --- the sample ------------------------------------------------------------------------------- */

static int32_t find_output(const bench_set *set) {
    for (int32_t i = 0; i < set->plan->tensor_count; i++) {
        if (set->plan->tensors[i].role == FTL_OUTPUT) return i;
    }
    return 0;
}

bool set_sample_make(const bench_set *set, set_sample *out) {
    jmp_buf exhausted;
    sampling s = {.set = set, .out = out, .output = find_output(set)};
    *out = (set_sample){0};
    arena_init(&s.memory, SCRATCH_BYTES);
    if (setjmp(exhausted)) {
        arena_done(&s.memory);
        return false;
    }
    s.memory.on_exhausted = &exhausted;
    bool is_made = true;
    switch (expected_choose(&set->what->program->text)) {
    case EXPECTED_ATTENTION: is_made = !set->is_attention || sample_attention(&s); break;
    case EXPECTED_GEMM: is_made = sample_gemm(&s); break;
    case EXPECTED_SOFTMAX: is_made = sample_softmax(&s); break;
    case EXPECTED_CHAINED:
    case EXPECTED_INTERPRETATION: break;
    }
    arena_done(&s.memory);
    return is_made;
}

void set_sample_free(set_sample *sample) {
    free(sample->values);
    free(sample->elements);
    *sample = (set_sample){0};
}

static double element(ftl_type type, const void *output, int64_t at) {
    double value;
    convert_load(buffer_format(type), output, at, 1, 1, &value);
    return value;
}

static bool is_all_finite(ftl_type type, const void *output, int64_t count) {
    enum { PIECE = 4096 };
    double values[PIECE];
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t some = count - first < PIECE ? count - first : PIECE;
        convert_load(buffer_format(type), output, first, 1, (size_t)some, values);
        for (int64_t i = 0; i < some; i++)
            if (!isfinite(values[i])) return false;
    }
    return true;
}

double set_sample_error(const bench_set *set, const set_sample *sample, const void *output) {
    const set_tensor *t = &set->tensors[find_output(set)];
    if (!is_all_finite(t->of->type, output, t->elements)) return NAN;
    double worst = 0;
    for (int32_t first = 0; first < sample->count; first += sample->block) {
        double wrong = 0, all = 0;
        for (int32_t i = first; i < first + sample->block; i++) {
            double difference =
                element(t->of->type, output, sample->elements[i]) - sample->values[i];
            wrong += difference * difference;
            all += sample->values[i] * sample->values[i];
        }
        double error = all > 0 ? sqrt(wrong / all) : wrong > 0 ? INFINITY : 0;
        if (error > worst) worst = error;
    }
    return worst;
}
