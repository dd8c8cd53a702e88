#include "verify/expected.h"

#include "flashtl/execute.h"
#include "verify/drawn.h"
#include "verify/narrow.h"
#include "verify/plan_find.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- which reference -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    expected_formula formula;
    const char *tensors; /* these must be there, with the axes written after them */
} formulas[] = {
    {"attention", EXPECTED_ATTENTION, "Q4K4V4O4"},
    {"gemm_bias_gelu", EXPECTED_GEMM, "A2B2C2"},
    {"chained_gemms", EXPECTED_CHAINED, "A3B3C3O3"},
    {"row_softmax", EXPECTED_SOFTMAX, "X2Y2"},
};

expected_formula expected_choose(const verify_program *program) {
    if (!program->operator_name) return EXPECTED_INTERPRETATION;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (strcmp(formulas[i].name, program->operator_name) != 0) continue;
        for (const char *t = formulas[i].tensors; *t; t += 2) {
            int32_t at = plan_find_tensor(program->plan, (char[]){t[0], 0});
            if (at < 0 || program->plan->tensors[at].axis_count != t[1] - '0')
                return EXPECTED_INTERPRETATION;
        }
        return formulas[i].formula;
    }
    return EXPECTED_INTERPRETATION;
}

const char *expected_setting(const verify_program *program, const char *name) {
    size_t length = strlen(name);
    for (int32_t i = 0; i < program->setting_count; i++) {
        const char *s = program->settings[i];
        if (strncmp(s, name, length) != 0) continue;
        if (!s[length]) return s + length;
        if (s[length] == '=') return s + length + 1;
    }
    return NULL;
}

static double setting_number(const verify_program *program, const char *name) {
    const char *text = expected_setting(program, name);
    double value = 0;
    if (text) str_to_number(str_from(text), &value);
    return value;
}

/* --- attention -------------------------------------------------------------------------------- */

static double *load_matrix(const buffer *b, int64_t matrix, arena *memory) {
    int64_t rows = b->argument.extents[b->argument.axis_count - 2];
    double *values = arena_array(memory, double, rows * b->columns + 1);
    for (int64_t r = 0; r < rows && b->columns; r++) {
        buffer_load_row(b, matrix * rows + r, values + r * b->columns);
    }
    return values;
}

void expected_attention_head(const case_data *data, int64_t batch, int64_t head, int64_t kv_head,
                             arena *memory, expected_head *out) {
    const buffer *q = inputs_find(data, "Q"), *k = inputs_find(data, "K"),
                 *v = inputs_find(data, "V");
    int64_t heads = q->argument.extents[1], kv_heads = k->argument.extents[1];
    *out = (expected_head){.kv_heads = kv_heads, .group = kv_heads ? heads / kv_heads : 1};
    out->kv_head = kv_head >= 0 ? kv_head : head / out->group;
    reference_attention *p = &out->formula;
    p->q_len = q->argument.extents[2], p->kv_len = k->argument.extents[2];
    p->d = q->columns, p->dv = v->columns;
    p->q = load_matrix(q, batch * heads + head, memory);
    p->k = load_matrix(k, batch * kv_heads + out->kv_head, memory);
    p->v = load_matrix(v, batch * kv_heads + out->kv_head, memory);
    p->scale = inputs_scalar(data, "scale", 1);
    p->is_causal = expected_setting(data->program, "causal") != NULL;
    p->window = (int64_t)setting_number(data->program, "window");
    p->softcap = setting_number(data->program, "softcap");
    if (expected_setting(data->program, "alibi") && inputs_find(data, "slope")) {
        double *slopes = buffer_load(inputs_find(data, "slope"), memory);
        p->slope = slopes[head];
    }
}

typedef struct attention_work {
    const case_data *data;
    expected *o, *lse; /* lse: NULL when there is none */
    convert_format model;
    int64_t step;          /* every how many blocks of rows one is computed */
    bool is_noisy;         /* weights have 8 bits, */
    convert_format weight; /* those of this type, */
    bool is_linear;        /* on the line between powers of two, */
    double largest_weight; /* raised so far */
    arena *memory;
} attention_work;

enum { BLOCK = 16 };
static const double ALL_ROWS_FLOPS = 2e9;

/* Every row that is judged is modelled, too: the bound of the largest error is the largest of the
 * model over the same elements.
 */
static void attention_rows(const attention_work *w, const reference_attention *p, int64_t matrix,
                           int64_t first, int64_t rows) {
    int64_t at = (matrix * p->q_len + first) * p->dv, lse_at = matrix * p->q_len + first;
    double *lse = w->lse ? w->lse->values + lse_at : NULL;
    reference_attention_rows(p, first, rows, CONVERT_F64, w->o->values + at, lse, w->memory);
    if (w->is_noisy) {
        reference_noise to = {w->weight, w->is_linear, w->largest_weight, w->o->errors + at,
                              w->o->effective + matrix * p->q_len + first};
        reference_attention_noise(p, first, rows, &to, w->memory);
    } else {
        reference_attention_rows(p, first, rows, w->model, w->o->model + at, NULL, w->memory);
    }
    memset(w->o->state + at, EXPECTED_KNOWN | EXPECTED_MODELLED, (size_t)(rows * p->dv));
    if (lse) memset(w->lse->state + lse_at, EXPECTED_KNOWN, (size_t)rows);
}

/* The first and the last rows of a head always, in between every step-th block, other ones in each
 * head.
 */
static void attention_head(const attention_work *w, int64_t batch, int64_t head, int64_t heads) {
    arena_mark mark = arena_here(w->memory);
    expected_head h;
    expected_attention_head(w->data, batch, head, -1, w->memory, &h);
    const reference_attention *p = &h.formula;
    int64_t blocks = (p->q_len + BLOCK - 1) / BLOCK, matrix = batch * heads + head;
    if (w->step == 1) attention_rows(w, p, matrix, 0, p->q_len);
    for (int64_t i = 0; w->step > 1 && i < blocks; i++) {
        bool is_end = i == 0 || i == blocks - 1;
        if (!is_end && (i + matrix) % w->step != 0) continue;
        int64_t rows = p->q_len - i * BLOCK < BLOCK ? p->q_len - i * BLOCK : BLOCK;
        attention_rows(w, p, matrix, i * BLOCK, rows);
    }
    arena_reset(w->memory, mark);
}

static expected *find_output(const case_data *data, expected *outputs, const char *name) {
    const buffer *b = inputs_find(data, name);
    return b ? &outputs[b - data->tensors] : NULL;
}

static void attention(const case_data *data, double flops_most, arena *memory, expected *outputs) {
    attention_work w = {.data = data,
                        .memory = memory,
                        .step = 1,
                        .o = find_output(data, outputs, "O"),
                        .lse = find_output(data, outputs, "lse")};
    const buffer *q = inputs_find(data, "Q");
    if (q->of->type == FTL_BF16) w.model = CONVERT_BF16;
    else w.model = CONVERT_F16;
    if (w.lse) w.lse->is_logarithm = true;
    narrow kind = narrow_of(data->program);
    w.is_noisy = kind.weights;
    w.weight = kind.has_e5m2 ? CONVERT_E5M2 : CONVERT_E4M3;
    w.is_linear = kind.is_linear, w.largest_weight = kind.largest_weight;
    if (w.is_noisy) {
        w.o->is_noise = true;
        w.o->is_anywhere = kind.is_voted;
        w.o->errors = arena_array(memory, double, w.o->of->rows *w.o->of->columns + 1);
        w.o->effective = arena_array(memory, double, w.o->of->rows + 1);
    }
    /* every third block of 16 rows meets every tile, and every place in a tile in some of them */
    if (flops_most > 0 && data->of->flops > ALL_ROWS_FLOPS) {
        w.step = (int64_t)fmax(3, ceil(data->of->flops / flops_most));
    }
    int64_t batches = q->argument.extents[0], heads = q->argument.extents[1];
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t h = 0; h < heads; h++) attention_head(&w, b, h, heads);
    }
}

/* --- the other formulas ----------------------------------------------------------------------- */

static const double *matrix_named(const case_data *data, const char *name, int64_t matrix,
                                  arena *memory) {
    const buffer *b = inputs_find(data, name);
    if (!b) return NULL;
    return b->argument.axis_count > 1 ? load_matrix(b, matrix, memory) : buffer_load(b, memory);
}

static int64_t extent(const case_data *data, const char *name, int axis) {
    return inputs_find(data, name)->argument.extents[axis];
}

static void gemm(const case_data *data, convert_format model, arena *memory, double *to) {
    reference_gemm(matrix_named(data, "A", 0, memory), matrix_named(data, "B", 0, memory),
                   matrix_named(data, "bias", 0, memory), extent(data, "A", 0),
                   extent(data, "B", 0), extent(data, "A", 1), model, to);
}

static void chained(const case_data *data, convert_format model, arena *memory, double *to) {
    int64_t m = extent(data, "A", 1), dv = extent(data, "C", 2);
    for (int64_t b = 0; b < extent(data, "A", 0); b++) {
        reference_chained(matrix_named(data, "A", b, memory), matrix_named(data, "B", b, memory),
                          matrix_named(data, "C", b, memory), m, extent(data, "B", 1),
                          extent(data, "A", 2), dv, model, to + b * m * dv, memory);
    }
}

static void closed_formula(const case_data *data, expected_formula formula, arena *memory,
                           expected *outputs) {
    const char *name = formula == EXPECTED_GEMM ? "C" : formula == EXPECTED_CHAINED ? "O" : "Y";
    expected *out = find_output(data, outputs, name);
    int64_t m = out->of->rows, n = out->of->columns;
    for (int i = 0; i < 2; i++) {
        convert_format model = i ? out->of->format : CONVERT_F64;
        double *to = i ? out->model : out->values;
        if (formula == EXPECTED_GEMM) gemm(data, model, memory, to);
        else if (formula == EXPECTED_CHAINED) chained(data, model, memory, to);
        else reference_softmax(matrix_named(data, "X", 0, memory), m, n, model, to);
    }
    memset(out->state, EXPECTED_KNOWN | EXPECTED_MODELLED, (size_t)(m * n));
}

/* --- interpretation --------------------------------------------------------------------------- */

ftl_status expected_run(ftl_context *context, const case_data *data, const ftl_source *source,
                        ftl_arithmetic arithmetic, arena *memory, buffer **out) {
    const ftl_plan *plan = data->program->plan;
    ftl_tensor *tensors = arena_array(memory, ftl_tensor, plan->tensor_count + 1);
    buffer *wide = arena_array(memory, buffer, plan->tensor_count + 1);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        tensors[t] = data->arguments_of_tensors[t];
        if (plan->tensors[t].role == FTL_INPUT) continue;
        ftl_plan_tensor *of = arena_new(memory, ftl_plan_tensor);
        *of = plan->tensors[t];
        of->type = FTL_F32, of->alignment_bytes = 4;
        buffer_new(memory, of, tensors[t].extents, VERIFY_DENSE, &wide[t]);
        tensors[t] = wide[t].argument;
    }
    ftl_arguments arguments = data->arguments;
    arguments.tensors = tensors;
    *out = wide;
    return ftl_interpret(context, source, arithmetic, &arguments);
}

static void take_rows(const buffer *wide, double *to) {
    for (int64_t r = 0; r < wide->rows; r++) buffer_load_row(wide, r, to + r * wide->columns);
}

/* Which elements the program leaves as they were. */
static void mark_kept(const buffer *wide, arena *memory, expected *e) {
    int64_t count = wide->rows * wide->columns;
    uint8_t *unwritten = arena_array(memory, uint8_t, count + 1);
    buffer_copy(wide, BUFFER_POISON, memory, unwritten);
    for (int64_t i = 0; i < count; i++)
        if (unwritten[i]) e->state[i] = EXPECTED_KEPT;
}

static ftl_status interpretation(ftl_context *context, const case_data *data, arena *memory,
                                 expected *outputs) {
    const ftl_plan *plan = data->program->plan;
    const ftl_source *source = &data->program->sketch;
    buffer *wide;
    if (!source->text || !source->length) source = &data->program->code;
    ftl_status status = expected_run(context, data, source, FTL_EXACT, memory, &wide);
    for (int32_t t = 0; !status && t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        take_rows(&wide[t], outputs[t].values);
        memset(outputs[t].state, EXPECTED_KNOWN, (size_t)(wide[t].rows * wide[t].columns));
        if (plan->tensors[t].is_kept) mark_kept(&wide[t], memory, &outputs[t]);
        outputs[t].model = NULL;
    }
    return status;
}

/* Nothing is known of an element whose computation may leave the types on the way. */
static void open_elements(expected *e, int64_t count) {
    enum { FAR = 16 };
    for (int64_t i = 0; i < count; i++) {
        if (e->state[i] & EXPECTED_KEPT) continue;
        double reach = fabs(e->values[i]) + FAR * e->errors[i];
        bool may_overflow = isfinite(convert_round(e->of->format, e->values[i])) &&
                            !isfinite(convert_round(e->of->format, reach));
        if (!isfinite(e->errors[i]) || may_overflow) e->state[i] = EXPECTED_OPEN;
    }
}

/* The errors of a right kernel's arithmetic, as the sketch says what is computed. */
static ftl_status find_errors(ftl_context *context, const case_data *data, arena *memory,
                              expected *outputs) {
    const ftl_plan *plan = data->program->plan;
    const ftl_source *sketch = &data->program->sketch;
    buffer *wide;
    if (!sketch->text || !sketch->length) return FTL_OK;
    narrow kind = narrow_of(data->program);
    ftl_status status = expected_run(
        context, data, sketch, kind.products ? FTL_ERRORS_OF_BYTES : FTL_ERRORS, memory, &wide);
    if (status == FTL_INVALID_ARGUMENT) return FTL_OK; /* they are not known of all programs */
    for (int32_t t = 0; !status && t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        int64_t count = wide[t].rows * wide[t].columns;
        outputs[t].is_noise = kind.weights;
        outputs[t].errors = arena_array(memory, double, count + 1);
        take_rows(&wide[t], outputs[t].errors);
        open_elements(&outputs[t], count);
    }
    return status;
}

/* Types of 8 bits hold their largest number where a result is beyond it. */
static void saturate(expected *e) {
    double most = convert_round(e->of->format, DBL_MAX);
    double least = convert_round(e->of->format, -DBL_MAX);
    if (!isfinite(most)) return;
    for (int64_t i = 0; i < e->of->rows * e->of->columns; i++)
        if (isfinite(e->values[i])) e->values[i] = fmax(least, fmin(most, e->values[i]));
}

ftl_status expected_make(ftl_context *context, const case_data *data, double flops_most,
                         arena *memory, expected **outputs) {
    const ftl_plan *plan = data->program->plan;
    expected *all = arena_array(memory, expected, plan->tensor_count + 1);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        const buffer *b = &data->tensors[t];
        all[t] = (expected){.of = b,
                            .values = arena_array(memory, double, b->rows * b->columns + 1),
                            .model = arena_array(memory, double, b->rows * b->columns + 1),
                            .state = arena_array(memory, uint8_t, b->rows * b->columns + 1)};
    }
    *outputs = all;
    expected_formula formula = expected_choose(data->program);
    if (formula == EXPECTED_ATTENTION) {
        attention(data, flops_most, memory, all);
        return FTL_OK;
    }
    ftl_status status = FTL_OK;
    if (formula == EXPECTED_INTERPRETATION) status = interpretation(context, data, memory, all);
    else closed_formula(data, formula, memory, all);
    if (!status) status = find_errors(context, data, memory, all);
    bool has_nan = drawn_has_nan(data);
    for (int32_t t = 0; !status && t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        saturate(&all[t]);
        /* Of NaN that an Input holds an extreme makes NaN, or passes over it. */
        for (int64_t i = 0; i < all[t].of->rows * all[t].of->columns && has_nan; i++)
            if (isnan(all[t].values[i])) all[t].state[i] = EXPECTED_OPEN;
    }
    return status;
}
