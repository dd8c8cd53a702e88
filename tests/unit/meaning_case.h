/* A sketch, run by the interpreter before and after each pass: what tests of its meaning share. */
#ifndef FLASHTL_TESTS_MEANING_CASE_H
#define FLASHTL_TESTS_MEANING_CASE_H

#include "reason_case.h"
#include "sample.h"

#include "interpret/interpret.h"

#include <math.h>
#include <stdlib.h>

enum { SIZES_MAX = 12, TENSORS_MAX = 10, SCALARS_MAX = 6 };

typedef struct size {
    const char *name;
    int64_t value;
} size;

typedef struct trial {
    request q;
    const char *truth;     /* a sketch that means the same beyond doubt; NULL: the sketch itself */
    size sizes[SIZES_MAX]; /* lengths known at launch */
    struct {
        const char *name;
        double value;
    } scalars[SCALARS_MAX];
    double factor;  /* of all Inputs; 0: 2 */
    double growth;  /* of the scores, from key to key; they rise or fall */
    int64_t spikes; /* above 0: every n-th key has it, times its place; the others have none */
    bool is_open;   /* tile sizes are left to the cost model */
    bool has_roles; /* warpgroups compute, another role loads */
} trial;

typedef struct memory_of {
    interpret_tensor tensors[TENSORS_MAX];
    bool is_output[TENSORS_MAX];
    size_t counts[TENSORS_MAX];
    int count;
} memory_of;

static inline int64_t length_of(const tl_kernel *kernel, const trial *t, const tl_expr *e) {
    int64_t value;
    for (int i = 0; i < SIZES_MAX && t->sizes[i].name; i++)
        if (e->kind == TL_NAME && str_is(e->text, t->sizes[i].name)) return t->sizes[i].value;
    for (const char *const *pin = t->q.pins; *pin; pin++) {
        str rest = str_from(*pin), name = str_cut(&rest, '=');
        if (e->kind == TL_NAME && str_equal(e->text, name) && str_to_integer(rest, &value))
            return value;
    }
    if (tl_known_integer(e, &value)) return value;
    fail_msg("no length for %.*s in %.*s", STR_ARGS(e->text), STR_ARGS(kernel->name));
    return 0;
}

static inline double next_number(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / (double)(1 << 24) - 0.5;
}

/* Q's first column is 1, so that K's is what all rows add to a key's score. */
static inline double grown(const trial *t, char name, int64_t row) {
    if (name == 'Q') return 1;
    return t->spikes > 0 && row % t->spikes > 0 ? 0 : t->growth * (double)row;
}

static inline void make_memory(const tl_kernel *kernel, const trial *t, memory_of *m) {
    uint64_t seed = 7;
    convert_format format = t->q.dtype == TL_BF16 ? CONVERT_BF16 : CONVERT_F16;
    *m = (memory_of){0};
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        bool is_tensor = (s->kind == TL_INPUT || s->kind == TL_OUTPUT) && s->parameter.axes.count;
        if (!is_tensor) continue;
        interpret_tensor *x = &m->tensors[m->count];
        *x = (interpret_tensor){.name = s->parameter.name, .format = CONVERT_F64};
        x->axis_count = s->parameter.axes.count;
        int64_t stride = 1;
        for (int i = x->axis_count - 1; i >= 0; i--) {
            x->extents[i] = length_of(kernel, t, s->parameter.axes.items[i].extent);
            x->strides[i] = stride;
            stride *= x->extents[i];
        }
        double *data = calloc((size_t)stride + 1, sizeof *data);
        double factor = t->factor > 0 ? t->factor : 2;
        for (int64_t i = 0; i < stride; i++)
            data[i] =
                s->kind == TL_INPUT ? convert_round(format, factor * next_number(&seed)) : NAN;
        char name = x->name.length == 1 ? x->name.data[0] : 0;
        if (t->growth != 0 && (name == 'Q' || name == 'K')) {
            int64_t columns = x->extents[x->axis_count - 1], rows = x->extents[x->axis_count - 2];
            for (int64_t i = 0; i < stride; i += columns)
                data[i] = convert_round(format, grown(t, name, i / columns % rows));
        }
        x->data = data;
        m->is_output[m->count] = s->kind == TL_OUTPUT;
        m->counts[m->count++] = (size_t)stride;
    }
}

static inline void free_memory(memory_of *m) {
    for (int i = 0; i < m->count; i++) free(m->tensors[i].data);
}

/* Runs a text; false with its findings shown. */
static inline bool run(const char *what, str text, const trial *t, memory_of *m,
                       interpret_mode mode) {
    arena memory;
    diag_list diags;
    arena_init(&memory, (size_t)1 << 31);
    diag_init(&diags, &memory, str_from(what), text);
    tl_program *program = tl_parse(&memory, str_from(what), text, &diags);
    bool is_good = !diag_has_errors(&diags) && tl_bind(program, &diags) &&
                   tl_infer_axes(program->first, &memory, &diags);
    interpret_scalar scalars[SCALARS_MAX + TENSORS_MAX];
    interpret_request asked = {
        .tensors = m->tensors, .tensor_count = m->count, .scalars = scalars, .mode = mode};
    for (int i = 0; i < SCALARS_MAX && t->scalars[i].name; i++)
        scalars[asked.scalar_count++] =
            (interpret_scalar){str_from(t->scalars[i].name), t->scalars[i].value};
    is_good = is_good && interpret_kernel(program->first, &asked, &memory, &diags, NULL);
    if (!is_good) {
        fprintf(stderr, "%s, %s on %s\n", what, t->q.sketch, t->q.gpu);
        show(&diags, text);
    }
    arena_done(&memory);
    return is_good;
}

/* Relative rms error over all Outputs; infinities must agree. */
static inline double error_of(const memory_of *got, const memory_of *wanted) {
    double difference = 0, total = 0;
    for (int k = 0; k < got->count; k++) {
        const double *a = got->tensors[k].data, *b = wanted->tensors[k].data;
        for (size_t i = 0; got->is_output[k] && i < got->counts[k]; i++) {
            if (a[i] == b[i]) continue;
            if (!isfinite(a[i]) || !isfinite(b[i])) return 1e9;
            difference += (a[i] - b[i]) * (a[i] - b[i]);
            total += b[i] * b[i];
        }
    }
    return total > 0 ? sqrt(difference / total) : sqrt(difference);
}

static inline void compare(const char *what, str text, const trial *t, const tl_kernel *kernel,
                           const memory_of *wanted, interpret_mode mode, double tolerance) {
    memory_of got;
    make_memory(kernel, t, &got);
    bool is_good = run(what, text, t, &got, mode);
    double error = is_good ? error_of(&got, wanted) : 1e9;
    if (error > tolerance) {
        fprintf(stderr, "%s, %s on %s: error %g, at most %g;", what, t->q.sketch, t->q.gpu, error,
                tolerance);
        for (int i = 0; i < SIZES_MAX && t->sizes[i].name; i++)
            fprintf(stderr, " %s=%lld", t->sizes[i].name, (long long)t->sizes[i].value);
        fprintf(stderr, "\n%.*s\n", STR_ARGS(text));
    }
    free_memory(&got);
    assert_true(error <= tolerance);
}

static inline bool has_empty_length(const trial *t) {
    for (int i = 0; i < SIZES_MAX && t->sizes[i].name; i++)
        if (t->sizes[i].value == 0) return true;
    return false;
}

static inline void keeps_its_meaning(trial t) {
    if (!sample_takes()) return;
    arena memory;
    arena_init(&memory, 64u << 20);
    str sketch = read_sketch(&memory, &t.q);
    diag_list diags;
    diag_init(&diags, &memory, STR("sketch"), sketch);
    tl_program *program = tl_parse(&memory, STR("sketch"), sketch, &diags);
    assert_false(diag_has_errors(&diags));
    tl_bind(program, &diags);
    memory_of wanted;
    make_memory(program->first, &t, &wanted);
    str truth = t.truth ? str_from(t.truth) : sketch;
    assert_true(run(t.truth ? "the truth" : "the sketch", truth, &t, &wanted, INTERPRET_EXACT));
    if (t.truth) compare("the sketch", sketch, &t, program->first, &wanted, INTERPRET_EXACT, 1e-9);
    double rounded = t.q.dtype == TL_BF16 ? 6e-3 : 8e-4;
    for (const reason_pass_entry *pass = reason_pass_list(); pass->name; pass++) {
        answer a;
        t.q.stop_after = pass->name;
        ask(&t.q, &a);
        if (!a.result.program) show(&a.diags, sketch);
        assert_non_null(a.result.program);
        bool is_sketch = strstr(str_copy_z(&a.memory, a.text), "role math") == NULL;
        bool is_last = !pass[1].name;
        /* Roles wait for all that they start; the passes after only move that. */
        is_last = is_last || (t.has_roles && (str_is(str_from(pass->name), "roles") ||
                                              str_is(str_from(pass->name), "overlap")));
        str what = str_format(&a.memory, "after %s", pass->name);
        /* In a sketch a block past the end has no elements at all; code has one, all masked. */
        bool is_beyond = is_sketch && str_is(str_from(pass->name), "tile") && has_empty_length(&t);
        if ((is_sketch && !t.is_open && !is_beyond) || is_last)
            compare(str_copy_z(&a.memory, what), a.text, &t, program->first, &wanted,
                    is_sketch ? INTERPRET_EXACT : INTERPRET_ROUNDED, is_sketch ? 1e-6 : rounded);
        done(&a);
    }
    free_memory(&wanted);
    arena_done(&memory);
}

static const char *const gpus[] = {"a100", "t4", "h200"};

static inline void on_all(trial t) {
    for (int g = 0; g < 3; g++) {
        t.q.gpu = gpus[g];
        t.q.dtype = g == 2 ? TL_BF16 : TL_F16;
        keeps_its_meaning(t);
    }
}

#endif
