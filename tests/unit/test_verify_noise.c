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
} noisy_fault;

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

static void noisy_row(const reference_attention *p, int64_t row, noisy_fault fault, double *out) {
    static double score[NOISY_KEYS], sum[NOISY_D + 1], part[NOISY_D + 1], weight[NOISY_KEYS];
    double most = -INFINITY;
    for (int64_t j = 0; j < p->kv_len; j++) {
        score[j] = 0;
        for (int64_t x = 0; x < p->d; x++) score[j] += p->q[row * p->d + x] * p->k[j * p->d + x];
        score[j] *= p->scale, most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < p->kv_len; j++)
        weight[j] = convert_round(CONVERT_E4M3, 256 * exp(score[j] - most));
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

static bool noisy_passes(arena *memory, noisy_fault fault, double mean, bool is_ones) {
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
    reference_noise to = {CONVERT_E4M3, wanted.errors, wanted.effective};
    reference_attention_rows(&p, 0, NOISY_ROWS, CONVERT_F64, wanted.values, NULL, memory);
    reference_attention_noise(&p, 0, NOISY_ROWS, &to, memory);
    memset(wanted.state, EXPECTED_KNOWN, COUNT);
    for (int64_t r = 0; r < NOISY_ROWS; r++) noisy_row(&p, r, fault, got + r * NOISY_D);
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
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arena_mark mark = arena_here(memory);
        bool passes = noisy_passes(memory, rows[i].fault, rows[i].mean, rows[i].is_ones);
        if (passes != rows[i].is_right)
            fail_msg("row %d %s", (int)i, passes ? "passes" : "is refused");
        arena_reset(memory, mark);
    }
}

int main(void) {
    arena memory;
    arena_init(&memory, 256 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(weights_of_eight_bits_are_judged_by_their_noise, &memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&memory);
    return failed;
}
