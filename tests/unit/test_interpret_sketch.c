/* Sketches, run literally, against results from their definitions. */
#include "interpret_case.h"

static const attention_case cases[] = {
    CASE(1, 1, 1, 3, 5, 8, 8, true),
    CASE(1, 2, 1, 7, 7, 8, 16, true),
    CASE(2, 4, 2, 5, 13, 16, 8, true),
    CASE(1, 1, 1, 9, 4, 8, 8, true), /* q longer: rows see nothing */
    CASE(1, 3, 3, 1, 6, 8, 8, true),
    CASE(2, 2, 1, 0, 5, 8, 8, true),
    CASE(1, 2, 2, 4, 0, 8, 8, true),
    CASE(0, 2, 2, 4, 3, 8, 8, true),
    CASE(1, 6, 2, 17, 33, 24, 8, true),
};

static void run_all(const char *source, bool is_causal, interpret_mode mode, double tolerance,
                    bool has_lse) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention_case c = cases[i];
        c.is_causal = is_causal;
        case_make(&c);
        assert_int_equal(case_run(&c, str_from(source), mode, true), 0);
        if (!(case_error(&c) <= tolerance)) {
            fprintf(stderr, "case %zu: error %g\n", i, case_error(&c));
        }
        assert_true(case_error(&c) <= tolerance);
        assert_true(!has_lse || case_lse_error(&c) <= tolerance);
        case_done(&c);
    }
}

#define INPUTS                                                                                     \
    "let group = q_heads/kv_heads\n"                                                               \
    "Input Q f16 (b in batch, head in q_heads; q in q_len, d)\n"                                   \
    "Input K f16 (b in batch, head/group in kv_heads; kv in kv_len, d)\n"                          \
    "Input V f16 (b in batch, head/group in kv_heads; kv in kv_len, dv)\n"                         \
    "Input scale f32 where scale > 0\n"                                                            \
    "Output O f16 (b in batch, head in q_heads; q in q_len, dv)\n"
#define LSE "Output lse f32 (b in batch, head in q_heads; q in q_len)\n"
#define SCORES                                                                                     \
    "Copy Q from global to shared\n"                                                               \
    "for j = 0:kv_len/BN\n"                                                                        \
    "Copy K from global to shared\n"                                                               \
    "Compute GEMM Q, K.T and get S\n"                                                              \
    "Compute Multiply S, scale and get S\n"
#define CAUSAL "Compute Mask S where kv > q + kv_len - q_len\n"
#define REST                                                                                       \
    "Copy V from global to shared\n"                                                               \
    "Compute GEMM S, V and accumulate O\n"                                                         \
    "end\nCopy O from register to global\n"

static void attention(void **state) {
    (void)state;
    run_all(INPUTS SCORES CAUSAL "Compute Softmax S\n" REST, true, INTERPRET_EXACT, 1e-12, false);
    run_all(INPUTS SCORES "Compute Softmax S\n" REST, false, INTERPRET_EXACT, 1e-12, false);
    run_all(INPUTS SCORES CAUSAL "Compute Softmax S\n" REST, true, INTERPRET_ROUNDED, 1e-3, false);
    text_buffer file;
    str source = case_file("sketch_attention", &file);
    run_all(source.data, true, INTERPRET_EXACT, 1e-12, false);
    text_done(&file);
}

static void attention_in_pinned_blocks(void **state) {
    (void)state;
    run_all("let BN = 4\n" INPUTS SCORES CAUSAL "Compute Softmax S\n" REST, true, INTERPRET_EXACT,
            1e-12, false);
    run_all("let BN = 3\n" INPUTS SCORES "Compute Softmax S\n" REST, false, INTERPRET_EXACT, 1e-12,
            false);
    run_all("let BN = 1\n" INPUTS SCORES CAUSAL "Compute Softmax S\n" REST, true, INTERPRET_ROUNDED,
            1e-3, false);
}

static void log_sum_exp(void **state) {
    (void)state;
#define LOG                                                                                        \
    "Compute Log l and get lse\nCompute Add lse, m and get lse\nCopy lse from register to "        \
    "global\n"
    run_all(INPUTS LSE SCORES CAUSAL "Compute Softmax S with m and l\n" REST LOG, true,
            INTERPRET_EXACT, 1e-12, true);
    run_all("let BN = 4\n" INPUTS LSE SCORES CAUSAL "Compute Softmax S with m and l\n" REST LOG,
            true, INTERPRET_EXACT, 1e-12, true);
}

/* A sink of m = 0, l = 1: one more key of score 0 and value 0. */
static void softmax_takes_given_values(void **state) {
    (void)state;
    attention_case c = CASE(1, 2, 1, 5, 7, 8, 8, false);
    case_make(&c);
    assert_int_equal(
        case_run(&c,
                 STR("let BN = 2\n" INPUTS "Compute Fill 0 and get m\n"
                     "Compute Fill 1 and get l\n" SCORES "Compute Softmax S with m and l\n" REST),
                 INTERPRET_EXACT, true),
        0);
    for (int row = 0; row < 10; row++) {
        double share = exp(c.expected_lse[row]) / (exp(c.expected_lse[row]) + 1);
        for (int e = 0; e < 8; e++) c.expected[row * 8 + e] *= share;
    }
    assert_true(case_error(&c) < 1e-12);
    case_done(&c);
}

static void grid_and_coordinates(void **state) {
    (void)state;
    run_all("let BN = 4, BM = 2\n" INPUTS
            "grid head in q_heads, b in batch, i in q_len/BM reversed\n"
            "Copy Q in coordinate [b, head, L = i] from global to shared\nfor j = 0:kv_len/BN\n"
            "Copy K in coordinate [b, head/group, L = j] from global to shared\n"
            "Compute GEMM Q, K.T and get S\nCompute Multiply S, scale and get S\n"
            "Compute Mask S in coordinate [L = i, L = j] where kv > q + kv_len - q_len\n"
            "Compute Softmax S\nCopy V in coordinate [b, head/group, L = j] from global to shared\n"
            "Compute GEMM S, V and accumulate O\nend\n"
            "Copy O in coordinate [b, head, L = i] from register to global\n",
            true, INTERPRET_EXACT, 1e-12, false);
}

/* --- programs that are no softmax attention --------------------------------------------------- */

typedef double score_function(double score, int q, int kv);

static double sigmoid(double score, int q, int kv) {
    (void)q, (void)kv;
    return 1 / (1 + exp(-score));
}

static double relu_squared(double score, int q, int kv) {
    bool is_seen = kv <= q && kv > q - 3;
    return is_seen && score > 0 ? score * score : 0;
}

static void run_scores(const char *source, score_function *function) {
    attention_case c = CASE(2, 2, 1, 6, 11, 8, 16, false);
    case_make(&c);
    for (int row = 0; row < 24; row++) {
        int q = row % 6, b = row / 12;
        for (int e = 0; e < 16; e++) {
            double o = 0;
            for (int j = 0; j < 11; j++) {
                double s = 0;
                for (int x = 0; x < 8; x++) s += c.q[row * 8 + x] * c.k[(b * 11 + j) * 8 + x];
                o += function(s * c.scale, q + 5, j) * c.v[(b * 11 + j) * 16 + e];
            }
            c.expected[row * 16 + e] = o;
        }
    }
    assert_int_equal(case_run(&c, str_from(source), INTERPRET_EXACT, true), 0);
    assert_true(case_error(&c) < 1e-12);
    case_done(&c);
}

static void other_scores(void **state) {
    (void)state;
    const char *const sizes[] = {"", "let BN = 4\n"};
    for (int i = 0; i < 2; i++) {
        char source[4096];
        snprintf(source, sizeof source, "%s%s", sizes[i],
                 INPUTS SCORES "Compute Multiply S, -1 and get S\nCompute Exp S\nCompute Add S, 1\n"
                               "Compute Reciprocal S\n" REST);
        run_scores(source, sigmoid);
        snprintf(source, sizeof source, "%s%s", sizes[i],
                 INPUTS SCORES "Compute Max S, 0 and get S\nCompute Multiply S, S and get S\n"
                               "Compute Mask S, 0 where kv > q + kv_len - q_len or "
                               "kv <= q + kv_len - q_len - 3\n" REST);
        run_scores(source, relu_squared);
    }
}

static interpret_tensor matrix(const char *name, double *data, int rows, int columns) {
    return (interpret_tensor){.name = str_from(name),
                              .data = data,
                              .format = CONVERT_F64,
                              .axis_count = 2,
                              .extents = {rows, columns},
                              .strides = {columns, 1}};
}

static void run_text(const char *source, interpret_tensor *tensors, int count) {
    tl_text t;
    if (text_read(&t, str_from(source))) {
        interpret_request request = {.tensors = tensors, .tensor_count = count};
        for (tl_kernel *k = t.program->first; k; k = k->next) {
            interpret_kernel(k, &request, &t.memory, &t.diags, NULL);
        }
    }
    text_show(&t);
    assert_int_equal(t.diags.error_count, 0);
    arena_done(&t.memory);
}

static void gemm_with_scaled_rows(void **state) {
    (void)state;
    enum { M = 5, N = 7, K = 9 };
    double *a = case_numbers(M * K, 1), *b = case_numbers(K * N, 2), *r = case_numbers(M, 3);
    double *c = case_numbers(M * N, 4), *bias = case_numbers(N, 5);
    interpret_tensor tensors[] = {matrix("A", a, M, K), matrix("B", b, K, N), matrix("C", c, M, N),
                                  matrix("r", r, M, 1), matrix("bias", bias, N, 1)};
    tensors[3].axis_count = tensors[4].axis_count = 1;
    run_text("let BK = 4\nInput A f16 (i in m, k in kk)\nInput B f16 (k in kk, j in n)\n"
             "Input r f16 (i in m)\nInput bias f32 (j in n)\nOutput C f16 (i in m, j in n)\n"
             "for t = 0:kk/BK\nCopy A from global to shared\nCopy B from global to shared\n"
             "Compute GEMM A, B and accumulate C\nend\nCopy r from global to register\n"
             "Copy bias from global to register\nCompute Multiply C, r and get C\n"
             "Compute Add C, bias and get C\nCopy C from register to global\n",
             tensors, 5);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += a[i * K + k] * b[k * N + j];
            assert_true(fabs(c[i * N + j] - (sum * r[i] + bias[j])) < 1e-12);
        }
    }
    free(a), free(b), free(c), free(r), free(bias);
}

static void row_softmax(void **state) {
    (void)state;
    enum { M = 3, N = 10 };
    double *x = case_numbers(M * N, 1), *y = case_numbers(M * N, 2);
    interpret_tensor tensors[] = {matrix("X", x, M, N), matrix("Y", y, M, N)};
    const char *const bodies[] = {
        "Copy X from global to register\nCompute Softmax X\nCopy X from register to global and get "
        "Y\n",
        "let BN = 4\nfor j = 0:n/BN\nCopy X from global to register\nCompute Softmax X\n"
        "Copy X from register to global and get Y\nend\n"};
    for (int b = 0; b < 2; b++) {
        char source[512];
        snprintf(source, sizeof source,
                 "Input X f32 (i in m, c in n)\nOutput Y f32 (i in m, c in n)\n%s", bodies[b]);
        run_text(source, tensors, 2);
        for (int i = 0; i < M; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) sum += exp(x[i * N + j]);
            for (int j = 0; j < N; j++) {
                assert_true(fabs(y[i * N + j] - exp(x[i * N + j]) / sum) < 1e-14);
                y[i * N + j] = 0;
            }
        }
    }
    free(x), free(y);
}

/* Paged keys, and parts of a view: pages in a permuted order, NaN in the unused ones. */
static void views(void **state) {
    (void)state;
    enum { PAGE = 4, PAGES = 5, LENGTH = 10, D = 6 };
    double *pool = case_numbers(PAGES * PAGE * D, 1), *q = case_numbers(2 * D, 2);
    double *o = case_numbers(2 * 4, 3), pages[3] = {3, 0, 4}, lengths[1] = {LENGTH};
    for (int i = 0; i < PAGE * D; i++) pool[PAGE * D + i] = pool[2 * PAGE * D + i] = NAN;
    for (int i = 2 * D; i < PAGE * D; i++) pool[4 * PAGE * D + i] = NAN;
    interpret_tensor tensors[] = {{.name = STR("pool"),
                                   .data = pool,
                                   .format = CONVERT_F64,
                                   .axis_count = 3,
                                   .extents = {PAGES, PAGE, D},
                                   .strides = {PAGE * D, D, 1}},
                                  {.name = STR("table"),
                                   .data = pages,
                                   .format = CONVERT_F64,
                                   .axis_count = 2,
                                   .extents = {1, 3},
                                   .strides = {3, 1}},
                                  {.name = STR("lengths"),
                                   .data = lengths,
                                   .format = CONVERT_F64,
                                   .axis_count = 1,
                                   .extents = {1},
                                   .strides = {1}},
                                  {.name = STR("Q"),
                                   .data = q,
                                   .format = CONVERT_F64,
                                   .axis_count = 3,
                                   .extents = {1, 2, D},
                                   .strides = {2 * D, D, 1}},
                                  {.name = STR("O"),
                                   .data = o,
                                   .format = CONVERT_F64,
                                   .axis_count = 3,
                                   .extents = {1, 2, 4},
                                   .strides = {8, 4, 1}}};
    run_text(
        "let BN = 3\nInput pool f16 (page in pages, slot in page_len, d)\n"
        "Input table i32 (b in batch, n in most)\nInput lengths i32 (b in batch)\n"
        "Input Q f16 (b in batch; q in q_len, d)\nOutput O f16 (b in batch; q in q_len, dv)\n"
        "let kv_len = lengths[b]\n"
        "let C (kv in kv_len, d) = pool[table[b, kv/page_len], kv % page_len, d]\n"
        "let V (kv in kv_len, dv) = C[kv, dv + 1]\n"
        "Copy Q from global to shared\nfor j = 0:kv_len/BN\nCopy C from global to shared\n"
        "Compute GEMM Q, C.T and get S\nCompute Softmax S\nCompute GEMM S, V and accumulate O\n"
        "end\nCopy O from register to global\n",
        tensors, 5);
    for (int i = 0; i < 2; i++) {
        double s[LENGTH], sum = 0, expected[4] = {0};
        for (int j = 0; j < LENGTH; j++) {
            const double *row = pool + ((int)pages[j / PAGE] * PAGE + j % PAGE) * D;
            s[j] = 0;
            for (int e = 0; e < D; e++) s[j] += q[i * D + e] * row[e];
            sum += s[j] = exp(s[j]);
            for (int e = 0; e < 4; e++) expected[e] += s[j] * row[e + 1];
        }
        for (int e = 0; e < 4; e++) assert_true(fabs(o[i * 4 + e] - expected[e] / sum) < 1e-12);
    }
    free(pool), free(q), free(o);
}

/* --- findings --------------------------------------------------------------------------------- */

static void assert_finding(const char *source, const char *id) {
    attention_case c = CASE(1, 2, 1, 5, 7, 8, 8, false);
    case_make(&c);
    tl_text t;
    assert_true(text_read(&t, str_from(source)));
    case_run_kernel(&c, &t, INTERPRET_EXACT);
    if (t.diags.error_count != 1) text_show(&t);
    assert_int_equal(t.diags.error_count, 1);
    assert_string_equal(diag_id_name(t.diags.first->id), id);
    arena_done(&t.memory);
    case_done(&c);
}

/* `kept` is what makes an Output that nothing writes, or not all of, no mistake. */
static void elements_that_are_kept(void **state) {
    (void)state;
    attention_case c = CASE(1, 2, 1, 5, 7, 8, 8, false);
    case_make(&c);
    tl_text t;
    assert_true(
        text_read(&t, STR("Input Q f16 (b in batch, head in q_heads; q in q_len, d)\n"
                          "Output O f16 (b in batch, head in q_heads; q in q_len, d) kept\n"
                          "let few = min(3, q_len)\n"
                          "let X (b in batch, head in q_heads; r in few, d) = Q[b, head, r, d]\n"
                          "let Y (b in batch, head in q_heads; r in few, d) = O[b, head, r, d]\n"
                          "Copy X from global to register\n"
                          "Copy X from register to global and get Y\n")));
    case_run_kernel(&c, &t, INTERPRET_EXACT);
    if (t.diags.error_count) text_show(&t);
    assert_int_equal(t.diags.error_count, 0);
    arena_done(&t.memory);
    case_done(&c);
}

static void sketches_that_are_wrong(void **state) {
    (void)state;
    assert_finding(INPUTS SCORES
                   "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n",
                   "INTERPRET_NEVER_WRITTEN");
    assert_finding(INPUTS SCORES "Compute Softmax S\n" REST "Copy O from register to global\n",
                   "INTERPRET_WRITTEN_TWICE");
    assert_finding(INPUTS SCORES "Compute Add S, P and get P\nend\n", "INTERPRET_POISON");
    assert_finding("Input scale f32 where scale < 0\n"
                   "Output O f16 (b in batch, h in q_heads, q in q_len, dv)\n"
                   "Copy O from global to register\n",
                   "INTERPRET_CONDITION");
    assert_finding("Input Q f16 (b in batch, h in q_heads; q in q_len, d)\n"
                   "Output O f16 (b in batch, h in q_heads; q in q_len, d)\n"
                   "let W (w in q_len + 2, d) = Q[b, h, w, d]\nCopy W from global to register\n"
                   "Copy Q from global to register\nCopy Q from register to global and get O\n",
                   "INTERPRET_OUTSIDE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
        cmocka_unit_test(attention_in_pinned_blocks),
        cmocka_unit_test(log_sum_exp),
        cmocka_unit_test(softmax_takes_given_values),
        cmocka_unit_test(grid_and_coordinates),
        cmocka_unit_test(elements_that_are_kept),
        cmocka_unit_test(other_scores),
        cmocka_unit_test(gemm_with_scaled_rows),
        cmocka_unit_test(row_softmax),
        cmocka_unit_test(views),
        cmocka_unit_test(sketches_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
