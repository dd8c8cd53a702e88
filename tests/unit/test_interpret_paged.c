/* Paged programs: MLA decoding in three roles, and split decoding with the kernel that combines. */
#include "interpret_case.h"

enum { PAGE = 8, PAGES = 12, MOST = 5 };

/* The text of a file with each 'from' replaced by 'to'; the caller frees. */
static char *edited(const char *file, const char *const (*edits)[2], int count) {
    text_buffer buffer;
    str source = case_file(file, &buffer);
    char *text = malloc(source.length + 1);
    memcpy(text, source.data, source.length + 1);
    for (int i = 0; i < count; i++) {
        char *at = strstr(text, edits[i][0]);
        assert_non_null(at);
        size_t room = strlen(text) + strlen(edits[i][1]) + 1;
        char *next = malloc(room);
        snprintf(next, room, "%.*s%s%s", (int)(at - text), text, edits[i][1],
                 at + strlen(edits[i][0]));
        free(text);
        text = next;
    }
    text_done(&buffer);
    return text;
}

static interpret_tensor tensor(const char *name, double *data, int axis_count,
                               const int64_t *extents) {
    interpret_tensor t = {
        .name = str_from(name), .data = data, .format = CONVERT_F64, .axis_count = axis_count};
    int64_t stride = 1;
    for (int i = axis_count - 1; i >= 0; i--) {
        t.extents[i] = extents[i];
        t.strides[i] = stride;
        stride *= extents[i];
    }
    return t;
}
#define TENSOR(name, data, ...)                                                                    \
    tensor(name, data, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),                    \
           (const int64_t[]){__VA_ARGS__})

/* Pages in a scattered order; what no sequence uses is NaN. */
static void fill_pages(double *pool, double *table, const double *lengths, int batch, int row) {
    double *numbers = case_numbers((size_t)(PAGES * PAGE * row), 11);
    for (int i = 0; i < PAGES * PAGE * row; i++) pool[i] = NAN;
    for (int b = 0; b < batch; b++) {
        for (int n = 0; n < MOST; n++) {
            int page = (b * MOST + n) * 7 % PAGES;
            table[b * MOST + n] = page;
            for (int s = 0; s < PAGE && n * PAGE + s < lengths[b]; s++) {
                int at = (page * PAGE + s) * row;
                memcpy(pool + at, numbers + at, (size_t)row * sizeof *pool);
            }
        }
    }
    free(numbers);
}

/* --- MLA -------------------------------------------------------------------------------------- */

enum { BATCH = 2, QUERIES = 2, HEADS = 8, D = 24, DV = 16 };

typedef struct mla {
    double pool[PAGES * PAGE * D], table[BATCH * MOST], lengths[BATCH];
    double *q, o[BATCH * QUERIES * HEADS * DV];
} mla;

static void mla_make(mla *x) {
    x->lengths[0] = 19;
    x->lengths[1] = 8;
    fill_pages(x->pool, x->table, x->lengths, BATCH, D);
    x->q = case_numbers(BATCH * QUERIES * HEADS * D, 3);
    for (int i = 0; i < BATCH * QUERIES * HEADS * DV; i++) x->o[i] = NAN;
}

static double mla_error(const mla *x) {
    double worst = 0;
    for (int row = 0; row < BATCH * QUERIES * HEADS; row++) {
        int b = row / (QUERIES * HEADS), i = row / HEADS % QUERIES, length = (int)x->lengths[b];
        int seen = i + length - QUERIES + 1;
        double expected[DV] = {0}, sum = 0;
        for (int j = 0; j < seen; j++) {
            const double *key =
                x->pool + ((int)x->table[b * MOST + j / PAGE] * PAGE + j % PAGE) * D;
            double s = 0;
            for (int e = 0; e < D; e++) s += x->q[row * D + e] * key[e];
            sum += s = exp(s / 5);
            for (int e = 0; e < DV; e++) expected[e] += s * key[e];
        }
        for (int e = 0; e < DV; e++) {
            double difference = fabs(x->o[row * DV + e] - expected[e] / sum);
            if (!(difference <= worst)) worst = isnan(difference) ? 1e9 : difference;
        }
    }
    return worst;
}

static const char *const mla_sizes[][2] = {{"let d = 576, dv = 512, half = 256, BM = 64, BN = 64",
                                            "let d = 24, dv = 16, half = 8, BM = 4, BN = 4"}};

static int mla_run(mla *x, const char *text, interpret_mode mode, bool is_shown) {
    interpret_tensor tensors[] = {
        TENSOR("Q_all", x->q, BATCH, QUERIES, HEADS, D), TENSOR("pool", x->pool, PAGES, PAGE, D),
        TENSOR("table", x->table, BATCH, MOST), TENSOR("kv_lens", x->lengths, BATCH),
        TENSOR("O_all", x->o, BATCH, QUERIES, HEADS, DV)};
    interpret_scalar scale = {STR("scale"), 0.2};
    interpret_request request = {.tensors = tensors,
                                 .tensor_count = 5,
                                 .scalars = &scale,
                                 .scalar_count = 1,
                                 .mode = mode,
                                 .most_steps = 1 << 22};
    tl_text t;
    if (text_read(&t, str_from(text))) {
        interpret_kernel(t.program->first, &request, &t.memory, &t.diags, NULL);
    }
    int findings = t.diags.error_count;
    if (findings && is_shown) text_show(&t);
    arena_done(&t.memory);
    return findings;
}

static void mla_decoding(void **state) {
    (void)state;
    char *text = edited("mla_decode", mla_sizes, 1);
    for (int rounded = 0; rounded < 2; rounded++) {
        mla x;
        mla_make(&x);
        assert_int_equal(mla_run(&x, text, rounded ? INTERPRET_ROUNDED : INTERPRET_EXACT, true), 0);
        if (!(mla_error(&x) < (rounded ? 3e-2 : 1e-7)))
            fprintf(stderr, "error %g\n", mla_error(&x));
        assert_true(mla_error(&x) < (rounded ? 3e-2 : 1e-7));
        free(x.q);
    }
    free(text);
}

static void every_statement_of_mla_is_needed(void **state) {
    (void)state;
    char *text = edited("mla_decode", mla_sizes, 1);
    int tried = 0;
    for (char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        char *word = line + strspn(line, " ");
        bool is_one = !strncmp(word, "Wait ", 5) || !strncmp(word, "Release ", 8) ||
                      !strncmp(word, "Reshape ", 8);
        if (!is_one) continue;
        char saved[2] = {word[0], word[1]};
        memcpy(word, "//", 2);
        mla x;
        mla_make(&x);
        int findings = mla_run(&x, text, INTERPRET_EXACT, false);
        memcpy(word, saved, 2);
        if (!findings) fprintf(stderr, "not noticed: %.60s\n", word);
        assert_true(findings > 0);
        free(x.q);
        tried++;
    }
    assert_in_range(tried, 10, 40);
    free(text);
}

/* --- split decoding --------------------------------------------------------------------------- */

static const char *const split_sizes[][2] = {
    {"let d = 128, dv = 128, BM = 64, BN = 64", "let d = 24, dv = 16, BM = 8, BN = 4"},
    {"let dv = 128, BM = 8", "let dv = 16, BM = 4"}};

static void split_decoding(void **state) {
    (void)state;
    enum { SPLITS = 3, KV_HEADS = 2, Q_HEADS = 6, ROWS = BATCH * Q_HEADS * QUERIES };
    char *text = edited("paged_decode", split_sizes, 2);
    double table[BATCH * MOST], lengths[BATCH] = {33, 2};
    double *k = case_numbers(PAGES * PAGE * KV_HEADS * D, 1),
           *v = case_numbers(PAGES * PAGE * KV_HEADS * DV, 2);
    fill_pages(k, table, lengths, BATCH, KV_HEADS * D);
    fill_pages(v, table, lengths, BATCH, KV_HEADS * DV);
    double *q = case_numbers(ROWS * D, 3), *part = case_numbers(SPLITS * ROWS * DV, 4);
    double *lse = case_numbers(SPLITS * ROWS, 5), *o = case_numbers(ROWS * DV, 6);
    interpret_tensor tensors[] = {TENSOR("Q_all", q, BATCH, Q_HEADS, QUERIES, D),
                                  TENSOR("K_pool", k, PAGES, PAGE, KV_HEADS, D),
                                  TENSOR("V_pool", v, PAGES, PAGE, KV_HEADS, DV),
                                  TENSOR("table", table, BATCH, MOST),
                                  TENSOR("kv_lens", lengths, BATCH),
                                  TENSOR("O_part", part, SPLITS, BATCH, Q_HEADS, QUERIES, DV),
                                  TENSOR("lse_part", lse, SPLITS, BATCH, Q_HEADS, QUERIES),
                                  TENSOR("O", o, BATCH, Q_HEADS, QUERIES, DV)};
    interpret_scalar scale = {STR("scale"), 0.2};
    interpret_request request = {
        .tensors = tensors, .tensor_count = 8, .scalars = &scale, .scalar_count = 1};
    tl_text t;
    assert_true(text_read(&t, str_from(text)));
    for (tl_kernel *kernel = t.program->first; kernel; kernel = kernel->next) {
        interpret_kernel(kernel, &request, &t.memory, &t.diags, NULL);
    }
    text_show(&t);
    assert_int_equal(t.diags.error_count, 0);
    for (int row = 0; row < ROWS; row++) {
        int b = row / (Q_HEADS * QUERIES), h = row / QUERIES % Q_HEADS, i = row % QUERIES;
        double expected[DV] = {0}, sum = 0;
        for (int j = 0; j < i + (int)lengths[b] - QUERIES + 1; j++) {
            int at = ((int)table[b * MOST + j / PAGE] * PAGE + j % PAGE) * KV_HEADS + h / 3;
            double s = 0;
            for (int e = 0; e < D; e++) s += q[row * D + e] * k[at * D + e];
            sum += s = exp(0.2 * s);
            for (int e = 0; e < DV; e++) expected[e] += s * v[at * DV + e];
        }
        for (int e = 0; e < DV; e++) assert_true(fabs(o[row * DV + e] - expected[e] / sum) < 1e-7);
    }
    arena_done(&t.memory);
    free(text), free(k), free(v), free(q), free(part), free(lse), free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mla_decoding),
        cmocka_unit_test(every_statement_of_mla_is_needed),
        cmocka_unit_test(split_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
