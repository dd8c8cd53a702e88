/* References against numbers computed by hand, against a second, naive writing of the formula, and
 * against each other; the generator's statistics.
 */
#include "verify/random.h"
#include "verify/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define assert_close(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static int setup(void **state) {
    static arena memory;
    arena_init(&memory, 256 << 20);
    *state = &memory;
    return 0;
}

static int teardown(void **state) {
    arena_done(*state);
    return 0;
}

/* --- the generator ---------------------------------------------------------------------------- */

static void normal_has_the_moments_of_normal(void **state) {
    enum { COUNT = 1 << 18 };
    double *x = arena_array(*state, double, COUNT);
    random_normal(7, 3, 0, COUNT, x);
    double mean = 0, square = 0, cube = 0, fourth = 0, neighbours = 0;
    int beyond_two = 0, beyond_four = 0;
    for (int i = 0; i < COUNT; i++) {
        mean += x[i] / COUNT;
        square += x[i] * x[i] / COUNT;
        cube += x[i] * x[i] * x[i] / COUNT;
        fourth += x[i] * x[i] * x[i] * x[i] / COUNT;
        if (i) neighbours += x[i] * x[i - 1] / COUNT;
        beyond_two += fabs(x[i]) > 2;
        beyond_four += fabs(x[i]) > 4;
    }
    assert_close(mean, 0, 0.01);
    assert_close(square, 1, 0.012);
    assert_close(cube, 0, 0.03);
    assert_close(fourth, 3, 0.08);
    assert_close(neighbours, 0, 0.01);
    assert_close((double)beyond_two / COUNT, 0.0455, 0.002);
    assert_in_range(beyond_four, 4, 40); /* 16.6 are expected */
}

static void normal_is_a_function_of_its_counter(void **state) {
    (void)state;
    double whole[9], part[4];
    random_normal(1, 2, 0, 9, whole);
    random_normal(1, 2, 3, 4, part);
    assert_memory_equal(whole + 3, part, sizeof part);
    random_normal(2, 2, 3, 4, part);
    assert_true(part[0] != whole[3]);
    random_normal(1, 3, 3, 4, part);
    assert_true(part[0] != whole[3]);
    /* the bits themselves, which no machine may change */
    assert_true(random_bits(1, 2, 3) == UINT64_C(0x1ed16cce0a16ada7));
    assert_true(random_below(5, 5, 5, 1) == 0);
}

static void normal_agrees_with_libm(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        double pair[2];
        random_normal(11, 4, 2 * i, 2, pair);
        uint64_t bits = random_bits(11, 4, i);
        double radius = sqrt(-2 * log(((double)(bits >> 32) + 0.5) / 4294967296.0));
        double angle = 6.283185307179586 * (double)(bits & UINT32_MAX) / 4294967296.0;
        assert_close(pair[0], radius * cos(angle), 1e-13);
        assert_close(pair[1], radius * sin(angle), 1e-13);
    }
}

/* --- attention, by hand ----------------------------------------------------------------------- */

static void two_keys_by_hand(void **state) {
    const double q[] = {1, 0}, k[] = {1, 5, 3, -2}, v[] = {10, 20};
    reference_attention p = {
        .q = q, .k = k, .v = v, .q_len = 1, .kv_len = 2, .d = 2, .dv = 1, .scale = 0.5};
    double out, lse;
    reference_attention_rows(&p, 0, 1, CONVERT_F64, &out, &lse, *state);
    /* scores 0.5 and 1.5: weights 1/(1+e) and e/(1+e) */
    double e = exp(1.0);
    assert_close(out, (10 + 20 * e) / (1 + e), 1e-14);
    assert_close(lse, log(exp(0.5) + exp(1.5)), 1e-14);
    p.softcap = 2;
    reference_attention_rows(&p, 0, 1, CONVERT_F64, &out, &lse, *state);
    assert_close(lse, log(exp(2 * tanh(0.25)) + exp(2 * tanh(0.75))), 1e-14);
    p.softcap = 0, p.slope = 0.25; /* query 0 stands at key 1: key 0 is one away */
    reference_attention_rows(&p, 0, 1, CONVERT_F64, &out, &lse, *state);
    assert_close(lse, log(exp(0.25) + exp(1.5)), 1e-14);
}

static void masks_by_hand(void **state) {
    /* equal scores: the output is the mean of the values that are seen */
    const double zero[8] = {0}, v[] = {1, 2, 4, 8};
    double out[6], lse[6];
    reference_attention p = {.q = zero,
                             .k = zero,
                             .v = v,
                             .q_len = 2,
                             .kv_len = 4,
                             .d = 1,
                             .dv = 1,
                             .scale = 1,
                             .is_causal = true};
    reference_attention_rows(&p, 0, 2, CONVERT_F64, out, lse, *state);
    assert_close(out[0], 7.0 / 3, 1e-15); /* bottom right: query 0 sees three keys */
    assert_close(out[1], 15.0 / 4, 1e-15);
    p.window = 2;
    reference_attention_rows(&p, 0, 2, CONVERT_F64, out, lse, *state);
    assert_close(out[0], 3, 1e-15);
    assert_close(out[1], 6, 1e-15);
    p.is_causal = false; /* p - 2 < j < p + 2 */
    reference_attention_rows(&p, 0, 2, CONVERT_F64, out, lse, *state);
    assert_close(out[0], 14.0 / 3, 1e-15);
    assert_close(lse[1], log(2), 1e-15);
    p = (reference_attention){.q = zero,
                              .k = zero,
                              .v = v,
                              .q_len = 6,
                              .kv_len = 4,
                              .d = 1,
                              .dv = 1,
                              .scale = 1,
                              .is_causal = true};
    reference_attention_rows(&p, 0, 6, CONVERT_F64, out, lse, *state);
    assert_true(out[0] == 0 && out[1] == 0 && isinf(lse[0]) && lse[1] < 0);
    assert_close(out[2], 1, 1e-15);
    p.q_len = 1, p.kv_len = 0, p.is_causal = false;
    reference_attention_rows(&p, 0, 1, CONVERT_F64, out, lse, *state);
    assert_true(out[0] == 0 && isinf(lse[0]) && lse[0] < 0);
}

/* --- attention, written again ----------------------------------------------------------------- */

static void naive_row(const reference_attention *p, int64_t i, double *out, double *lse) {
    double sum = 0;
    for (int64_t e = 0; e < p->dv; e++) out[e] = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        int64_t place = i + p->kv_len - p->q_len;
        if (p->is_causal && j > place) continue;
        if (p->window && j <= place - p->window) continue;
        if (p->window && !p->is_causal && j >= place + p->window) continue;
        double s = 0;
        for (int64_t e = 0; e < p->d; e++) s += p->q[i * p->d + e] * p->k[j * p->d + e];
        s *= p->scale;
        if (p->softcap > 0) s = p->softcap * tanh(s / p->softcap);
        s -= p->slope * fabs((double)(place - j));
        sum += exp(s);
        for (int64_t e = 0; e < p->dv; e++) out[e] += exp(s) * p->v[j * p->dv + e];
    }
    for (int64_t e = 0; e < p->dv && sum > 0; e++) out[e] /= sum;
    *lse = log(sum);
}

static void attention_agrees_with_the_naive_formula(void **state) {
    enum { D = 5, DV = 7, Q = 37, KV = 53 };
    double q[Q * D], k[KV * D], v[KV * DV], out[Q * DV], lse[Q], row[DV], row_lse;
    random_normal(1, 0, 0, Q * D, q);
    random_normal(1, 1, 0, KV * D, k);
    random_normal(1, 2, 0, KV * DV, v);
    for (int variant = 0; variant < 32; variant++) {
        reference_attention p = {.q = q,
                                 .k = k,
                                 .v = v,
                                 .q_len = Q,
                                 .kv_len = variant & 16 ? 23 : KV,
                                 .d = D,
                                 .dv = DV,
                                 .scale = 0.4,
                                 .is_causal = variant & 1,
                                 .window = variant & 2 ? 9 : 0,
                                 .softcap = variant & 4 ? 1.5 : 0,
                                 .slope = variant & 8 ? 0.125 : 0};
        reference_attention_rows(&p, 0, Q, CONVERT_F64, out, lse, *state);
        for (int i = 0; i < Q; i++) {
            naive_row(&p, i, row, &row_lse);
            for (int e = 0; e < DV; e++) assert_close(out[i * DV + e], row[e], 1e-12);
            assert_true(lse[i] == row_lse || fabs(lse[i] - row_lse) < 1e-12);
        }
        double part[3 * DV];
        reference_attention_rows(&p, 11, 3, CONVERT_F64, part, NULL, *state);
        for (int x = 0; x < 3 * DV; x++) assert_close(part[x], out[11 * DV + x], 1e-13);
    }
}

static double relative_rms(const double *a, const double *b, int count) {
    double error = 0, size = 0;
    for (int i = 0; i < count; i++) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
    return sqrt(error / size);
}

static void models_err_as_much_as_their_types(void **state) {
    enum { D = 64, N = 200 };
    double *x = arena_array(*state, double, 3 * N * D),
           *out = arena_array(*state, double, 2 * N * D);
    random_normal(5, 0, 0, 3 * N * D, x);
    convert_round_all(CONVERT_BF16, x, 3 * N * D);
    reference_attention p = {.q = x,
                             .k = x + N * D,
                             .v = x + 2 * N * D,
                             .q_len = N,
                             .kv_len = N,
                             .d = D,
                             .dv = D,
                             .scale = 0.125};
    reference_attention_rows(&p, 0, N, CONVERT_F64, out, NULL, *state);
    reference_attention_rows(&p, 0, N, CONVERT_F16, out + N * D, NULL, *state);
    double half = relative_rms(out + N * D, out, N * D);
    reference_attention_rows(&p, 0, N, CONVERT_BF16, out + N * D, NULL, *state);
    double brain = relative_rms(out + N * D, out, N * D);
    assert_true(half > 1e-4 && half < 1.5e-3);
    assert_true(brain > 4 * half && brain < 16 * half);
}

/* --- the others ------------------------------------------------------------------------------- */

static void products_by_hand(void **state) {
    const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, b_turned[] = {5, 7, 6, 8},
                 bias[] = {0.5, -22};
    double c[4];
    reference_gemm(a, b_turned, NULL, 2, 2, 2, CONVERT_F64, c);
    assert_true(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
    reference_gemm(a, b_turned, bias, 2, 2, 2, CONVERT_F64, c);
    assert_close(c[0], 19.5, 1e-12);
    assert_true(c[1] == 0); /* GELU(0) */
    /* A B^T = (17 23; 39 53), times C = (1 0; 0 2) */
    const double turn[] = {1, 0, 0, 2};
    reference_chained(a, b, turn, 2, 2, 2, 2, CONVERT_F64, c, *state);
    assert_true(c[0] == 17 && c[1] == 46 && c[2] == 39 && c[3] == 106);
    const double x[] = {0, 0.6931471805599453, -1000, 3};
    reference_softmax(x, 2, 2, CONVERT_F64, c);
    assert_close(c[0], 1.0 / 3, 1e-15);
    assert_close(c[1], 2.0 / 3, 1e-15);
    assert_true(c[2] == 0 && c[3] == 1);
}

static void references_agree_with_each_other(void **state) {
    enum { M = 19, N = 33, D = 21, DV = 6 };
    double a[M * D], b[N * D], c[N * DV], c_turned[N * DV], s[M * N], p[M * N], y[M * DV],
        out[M * DV];
    random_normal(9, 0, 0, M * D, a);
    random_normal(9, 1, 0, N * D, b);
    random_normal(9, 2, 0, N * DV, c);
    for (int i = 0; i < N * DV; i++) c_turned[i % DV * N + i / DV] = c[i];
    /* attention = softmax(a b^T) c */
    reference_gemm(a, b, NULL, M, N, D, CONVERT_F64, s);
    reference_softmax(s, M, N, CONVERT_F64, p);
    reference_gemm(p, c_turned, NULL, M, DV, N, CONVERT_F64, y);
    reference_attention all = {
        .q = a, .k = b, .v = c, .q_len = M, .kv_len = N, .d = D, .dv = DV, .scale = 1};
    reference_attention_rows(&all, 0, M, CONVERT_F64, out, NULL, *state);
    for (int i = 0; i < M * DV; i++) assert_close(out[i], y[i], 1e-12);
    /* chained = two products */
    reference_gemm(s, c_turned, NULL, M, DV, N, CONVERT_F64, y);
    reference_chained(a, b, c, M, N, D, DV, CONVERT_F64, out, *state);
    for (int i = 0; i < M * DV; i++) assert_close(out[i], y[i], 1e-11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_has_the_moments_of_normal),
        cmocka_unit_test(normal_is_a_function_of_its_counter),
        cmocka_unit_test(normal_agrees_with_libm),
        cmocka_unit_test(two_keys_by_hand),
        cmocka_unit_test(masks_by_hand),
        cmocka_unit_test(attention_agrees_with_the_naive_formula),
        cmocka_unit_test(models_err_as_much_as_their_types),
        cmocka_unit_test(products_by_hand),
        cmocka_unit_test(references_agree_with_each_other),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
