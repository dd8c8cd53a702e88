/* Weights of 8 bits, judged by the noise that they cannot but make: what is merely rounded passes,
 * a tile that is left out, a wrong order, sums that are cut, a wrong factor do not.
 */
#include "verify/judge.h"
#include "verify/random.h"
#include "verify/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NOISY_ROWS = 16, NOISY_KEYS = 8192, NOISY_D = 64, NOISY_BLOCK = 128 };

typedef enum noisy_fault {
    ROUNDED,      /* weights to e4m3, and nothing else */
    TILE_DROPPED, /* 64 keys of 8,192 */
    EXCHANGED,    /* 8 pairs of rows of V: a wrong order of bytes in one tile */
    NEVER_MOVED,  /* sums keep 13 bits, and no f32 takes them over */
    MOVED,        /* with each block */
    SCALED,       /* by 2 %: a factor of V */
    LINEAR,       /* on the line between powers of two, as that form has them */
} noisy_fault;

/* A code of e4m3 is nearly linear in the logarithm: decision 022. */
static double on_the_line(double weight) {
    double code = rint(8 * (log2(weight) + 7) - 0.344);
    if (code < 8) return fmax(code, 0) * 0x1p-9;
    return ldexp(1 + fmod(code, 8) / 8, (int)(code / 8) - 7);
}

/* To zero, so many bits below the larger exponent: what a sum of products keeps. */
static double kept(double x, double top) {
    int exponent;
    frexp(top, &exponent);
    double unit = ldexp(1, exponent - 1 - 13);
    return trunc(x / unit) * unit;
}

static double add_group(double sum, const double terms[16]) {
    double top = fabs(sum), all;
    for (int i = 0; i < 16; i++) top = fmax(top, fabs(terms[i]));
    if (top == 0) return 0;
    all = kept(sum, top);
    for (int i = 0; i < 16; i++) all += kept(terms[i], top);
    return kept(all, all);
}

static void noisy_row(const reference_attention *p, int64_t row, noisy_fault fault, double largest,
                      double *out) {
    static double score[NOISY_KEYS], sum[NOISY_D + 1], part[NOISY_D + 1], weight[NOISY_KEYS];
    double most = -INFINITY;
    for (int64_t j = 0; j < p->kv_len; j++) {
        score[j] = 0;
        for (int64_t x = 0; x < p->d; x++) score[j] += p->q[row * p->d + x] * p->k[j * p->d + x];
        score[j] *= p->scale, most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < p->kv_len; j++) {
        weight[j] = largest * exp(score[j] - most);
        weight[j] =
            fault == LINEAR ? on_the_line(weight[j]) : convert_round(CONVERT_E4M3, weight[j]);
    }
    for (int64_t j = 4096; fault == TILE_DROPPED && j < 4096 + 64; j++) weight[j] = 0;
    memset(sum, 0, sizeof sum), memset(part, 0, sizeof part);
    bool cuts = fault == NEVER_MOVED || fault == MOVED;
    for (int64_t j = 0; j < p->kv_len; j += 16) {
        for (int64_t e = 0; e <= p->dv; e++) {
            double terms[16];
            for (int64_t i = 0; i < 16; i++) {
                bool is_other = fault == EXCHANGED && j == 4096;
                int64_t at = j + (is_other ? i ^ 1 : i);
                terms[i] = weight[j + i] * (e < p->dv ? p->v[at * p->dv + e] : 1);
            }
            if (cuts) part[e] = add_group(part[e], terms);
            else
                for (int i = 0; i < 16; i++) part[e] += terms[i];
            bool is_moved = fault == MOVED && (j + 16) % NOISY_BLOCK == 0;
            if (is_moved) sum[e] += part[e], part[e] = 0;
        }
    }
    double rest = 0; /* the denominator is exact, that the numerator's cut shows */
    for (int64_t j = 0; j < p->kv_len; j++) rest += weight[j];
    for (int64_t e = 0; e < p->dv; e++)
        out[e] = (sum[e] + part[e]) / rest * (fault == SCALED ? 1.02 : 1);
}

/* 'largest': what the kernel raises a row's largest weight to; 'known': what the judge knows of it.
 */
static bool noisy_passes(arena *memory, noisy_fault fault, double mean, bool is_ones,
                         double largest, double known) {
    double *q = arena_array(memory, double, NOISY_ROWS *NOISY_D);
    double *k = arena_array(memory, double, NOISY_KEYS *NOISY_D);
    double *v = arena_array(memory, double, NOISY_KEYS *NOISY_D);
    random_normal(21, 1, 0, NOISY_ROWS * NOISY_D, q);
    random_normal(21, 2, 0, NOISY_KEYS * NOISY_D, k);
    random_normal(21, 3, 0, NOISY_KEYS * NOISY_D, v);
    for (int64_t i = 0; i < NOISY_KEYS * NOISY_D; i++) v[i] = is_ones ? 1 : v[i] + mean;
    convert_round_all(CONVERT_E4M3, q, NOISY_ROWS * NOISY_D);
    convert_round_all(CONVERT_E4M3, k, NOISY_KEYS * NOISY_D);
    convert_round_all(CONVERT_E4M3, v, NOISY_KEYS * NOISY_D);
    reference_attention p = {.q = q,
                             .k = k,
                             .v = v,
                             .q_len = NOISY_ROWS,
                             .kv_len = NOISY_KEYS,
                             .d = NOISY_D,
                             .dv = NOISY_D,
                             .scale = 0.125};
    enum { COUNT = NOISY_ROWS * NOISY_D };
    double *got = arena_array(memory, double, COUNT);
    buffer of = {.format = CONVERT_F16, .rows = NOISY_ROWS, .columns = NOISY_D};
    expected wanted = {.of = &of,
                       .values = arena_array(memory, double, COUNT),
                       .errors = arena_array(memory, double, COUNT),
                       .effective = arena_array(memory, double, NOISY_ROWS),
                       .state = arena_array(memory, uint8_t, COUNT),
                       .is_noise = true};
    reference_noise to = {.weight = CONVERT_E4M3,
                          .is_linear = fault == LINEAR,
                          .largest = known,
                          .noise = wanted.errors,
                          .effective = wanted.effective};
    reference_attention_rows(&p, 0, NOISY_ROWS, CONVERT_F64, wanted.values, NULL, memory);
    reference_attention_noise(&p, 0, NOISY_ROWS, &to, memory);
    memset(wanted.state, EXPECTED_KNOWN, COUNT);
    for (int64_t r = 0; r < NOISY_ROWS; r++) noisy_row(&p, r, fault, largest, got + r * NOISY_D);
    convert_round_all(CONVERT_F16, got, COUNT);
    judged output = {.expected = &wanted, .got = got, .tolerance = 1e-3};
    judgement j;
    judge_output(&output, memory, &j);
    print_message("fault %d, mean %g: %s %.3g of %.3g\n", (int)fault, mean, j.rule, j.error,
                  j.bound);
    return j.is_right;
}

static void weights_of_eight_bits_are_judged_by_their_noise(void **state) {
    arena *memory = *state;
    static const struct {
        noisy_fault fault;
        double mean;
        bool is_ones, is_right;
    } rows[] = {
        {ROUNDED, 0, false, true},       {ROUNDED, 1, false, true},
        {ROUNDED, 0, true, true},        {MOVED, 0, false, true},
        {MOVED, 1, false, true},         {MOVED, 0, true, true},
        {TILE_DROPPED, 0, false, false}, {TILE_DROPPED, 1, false, false},
        {TILE_DROPPED, 0, true, true}, /* both sums leave them out: other values have to tell */
        {EXCHANGED, 0, false, false},    {NEVER_MOVED, 1, false, false},
        {NEVER_MOVED, 0, true, false},   {SCALED, 1, false, false},
        {LINEAR, 0, false, true},        {LINEAR, 1, false, true},
    };
    static const double raised[] = {256, 8}; /* with each block; below a vote */
    for (size_t i = 0; i < sizeof rows / sizeof *rows * 2; i++) {
        arena_mark mark = arena_here(memory);
        double largest = raised[i % 2];
        const noisy_fault fault = rows[i / 2].fault;
        bool passes =
            noisy_passes(memory, fault, rows[i / 2].mean, rows[i / 2].is_ones, largest, largest);
        if (passes != rows[i / 2].is_right)
            fail_msg("row %d, raised to %g, %s", (int)(i / 2), largest,
                     passes ? "passes" : "is refused");
        arena_reset(memory, mark);
    }
}

/* Weights that are raised less than is known lose more of the small ones than noise explains. */
static void how_far_weights_are_raised_is_judged(void **state) {
    assert_false(noisy_passes(*state, ROUNDED, 0, false, 0.25, 256));
}

int main(void) {
    arena memory;
    arena_init(&memory, 256 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(weights_of_eight_bits_are_judged_by_their_noise, &memory),
        cmocka_unit_test_prestate(how_far_weights_are_raised_is_judged, &memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&memory);
    return failed;
}
