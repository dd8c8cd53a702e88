/* How far a right kernel's results may be from the exact ones, against float64: operands of
 * products are rounded to 16 bits with many factors, as kernels hold them multiplied by some, and
 * what that does to sums is compared with what FTL_ERRORS says. Of blocks that a list names once,
 * and of such that it names again and again, whose roundings are the same each time.
 */
#include "base/convert.h"
#include "flashtl/execute.h"
#include "verify/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 16, D = 16, BLOCK = 16, SEEN = 12, BLOCKS = 32, KEYS = BLOCKS * BLOCK, FACTORS = 64 };

/* What a block means depends on its size, so that blocks are gone through one by one. */
#define LISTED(inputs, output, body)                                                               \
    "kernel listed\n"                                                                              \
    "let block_len = 16, BN = 16, keys = most*block_len\n" inputs                                  \
    "Input  K (kv in kv_len, e in d)\n"                                                            \
    "Input  V (kv in kv_len, dv)\n"                                                                \
    "Input  list i32 (m in most)\n"                                                                \
    "Output O f32 (" output ", dv)\n"                                                              \
    "let K_in (s in keys, e in d) = K[list[s/block_len]*block_len + s % block_len, e]\n"           \
    "let V_in (s in keys, dv) = V[list[s/block_len]*block_len + s % block_len, dv]\n"              \
    "for j = 0:keys/BN\n"                                                                          \
    "    Copy K_in from global to shared\n"                                                        \
    "    Copy V_in from global to shared\n" body "end\n"                                           \
    "Copy O from register to global\n"
#define WEIGHED(operation)                                                                         \
    LISTED("Input  Q (q in q_len, e in d)\n", "q in q_len",                                        \
           "    Copy Q from global to shared\n"                                                    \
           "    Compute GEMM Q, K_in.T and get S\n"                                                \
           "    Compute Multiply S, 0.25 and get S\n"                                              \
           "    Compute Mask S where s >= j*block_len + 12\n"                                      \
           "    Compute " operation "\n"                                                           \
           "    Compute GEMM S, V_in and accumulate O\n")

static const char *const by_softmax = WEIGHED("Softmax S");
static const char *const by_powers = WEIGHED("Exp S and get S");
/* The right operand is the one that is computed, from a block that comes again. */
static const char *const of_powers = LISTED("", "e in d",
                                            "    Compute Exp V_in and get W\n"
                                            "    Compute Mask W, 0 where s >= j*block_len + 12\n"
                                            "    Compute GEMM K_in.T, W and accumulate O\n");

typedef struct listed {
    double q[ROWS * D], k[KEYS * D], v[KEYS * D];
    uint16_t q_bits[ROWS * D], k_bits[KEYS * D], v_bits[KEYS * D];
    int32_t list[BLOCKS];
    float errors[ROWS * D];
    double weights[ROWS * KEYS], right[KEYS * D];
} listed;

static void draw(uint64_t stream, int64_t count, double *values, uint16_t *bits) {
    random_normal(1, stream, 0, (size_t)count, values);
    for (int64_t i = 0; i < count; i++) {
        bits[i] = (uint16_t)convert_to_bits(CONVERT_F16, values[i]);
        values[i] = convert_from_bits(CONVERT_F16, bits[i]);
    }
}

static void run(const char *text, const ftl_arguments *arguments) {
    ftl_source source = {"errors.tl", text, strlen(text)};
    ftl_context *context;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_status status = ftl_interpret(context, &source, FTL_ERRORS, arguments);
    if (status) print_message("%s\n", ftl_context_error(context));
    assert_int_equal(status, FTL_OK);
    ftl_context_free(context);
}

static void interpret(listed *l, const char *text) {
    ftl_tensor tensors[] = {
        {"K", (uintptr_t)l->k_bits, FTL_F16, {KEYS, D}, {D, 1}, 2},
        {"V", (uintptr_t)l->v_bits, FTL_F16, {KEYS, D}, {D, 1}, 2},
        {"list", (uintptr_t)l->list, FTL_I32, {BLOCKS}, {1}, 1},
        {"O", (uintptr_t)l->errors, FTL_F32, {ROWS, D}, {D, 1}, 2},
        {"Q", (uintptr_t)l->q_bits, FTL_F16, {ROWS, D}, {D, 1}, 2},
    };
    run(text, &(ftl_arguments){.tensors = tensors, .tensor_count = text == of_powers ? 4 : 5});
}

/* Rows of weights, and what they are multiplied by, key by key of the list. */
static void weigh(listed *l, const char *text) {
    for (int64_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int64_t s = 0; s < KEYS; s++) {
            int64_t key = l->list[s / BLOCK] * BLOCK + s % BLOCK;
            double score = 0;
            for (int64_t x = 0; x < D; x++) score += l->q[row * D + x] * l->k[key * D + x];
            double *w = &l->weights[row * KEYS + s];
            *w = s % BLOCK < SEEN ? exp(0.25 * score) : 0;
            if (text == of_powers) *w = s % BLOCK < SEEN ? l->k[key * D + row] : 0;
            sum += *w;
            for (int64_t x = 0; x < D && row == 0; x++)
                l->right[s * D + x] =
                    text == of_powers ? exp(l->v[key * D + x]) : l->v[key * D + x];
        }
        for (int64_t s = 0; s < KEYS && text == by_softmax; s++) l->weights[row * KEYS + s] /= sum;
    }
}

static double rounded(double x, double factor) {
    return convert_round(CONVERT_F16, factor * x) / factor;
}

/* The mean square of what rounding the computed operand does to results. */
static double square_of_rounding(const listed *l, bool is_right) {
    double all = 0;
    for (int n = 0; n < FACTORS; n++) {
        double factor = exp2((n + 0.5) / FACTORS);
        for (int64_t row = 0; row < ROWS; row++) {
            for (int64_t x = 0; x < D; x++) {
                double off = 0;
                for (int64_t s = 0; s < KEYS; s++) {
                    double w = l->weights[row * KEYS + s], v = l->right[s * D + x];
                    off += is_right ? w * (rounded(v, factor) - v) : (rounded(w, factor) - w) * v;
                }
                all += off * off;
            }
        }
    }
    return all / (FACTORS * ROWS * D);
}

/* 'different': so many blocks are named, by turns. Returns what is said over what is found. */
static double compare(const char *text, int different) {
    static listed l;
    draw(1, ROWS * D, l.q, l.q_bits);
    draw(2, KEYS * D, l.k, l.k_bits);
    draw(3, KEYS * D, l.v, l.v_bits);
    for (int i = 0; i < BLOCKS; i++) l.list[i] = i % different;
    interpret(&l, text);
    weigh(&l, text);
    double said = 0;
    for (int64_t i = 0; i < ROWS * D; i++) said += (double)l.errors[i] * (double)l.errors[i];
    return sqrt(said / (ROWS * D) / square_of_rounding(&l, text == of_powers));
}

static void blocks_that_come_again_are_rounded_alike(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
    } programs[] = {{"softmax", by_softmax}, {"powers", by_powers}, {"of powers", of_powers}};
    for (int i = 0; i < 3; i++) {
        for (int different = 1; different <= BLOCKS; different *= 2) {
            double ratio = compare(programs[i].text, different);
            print_message("%s, %d blocks: %.2f\n", programs[i].name, different, ratio);
            assert_true(ratio > 0.7 && ratio < 1.5);
        }
    }
}

/* Inside of an expression every operation is rounded: where terms cancel that is all there is. */
static const char cancels[] = "kernel cancels\n"
                              "Input  A f32 (m in m_len, n in n_len)\n"
                              "Input  B f32 (m in m_len, n in n_len)\n"
                              "Input  C f32 (m in m_len, n in n_len)\n"
                              "Output O f32 (m in m_len, n in n_len)\n"
                              "Copy A from global to register\n"
                              "Copy B from global to register\n"
                              "Copy C from global to register\n"
                              "Compute Fill A*2.75 + B*A - C and get O\n"
                              "Copy O from register to global\n";

static void operations_of_expressions_round(void **state) {
    (void)state;
    enum { COUNT = ROWS * D };
    static double drawn[2 * COUNT];
    static float a[COUNT], b[COUNT], c[COUNT], errors[COUNT];
    random_normal(1, 4, 0, 2 * COUNT, drawn);
    double found = 0, said = 0;
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)drawn[i], b[i] = (float)drawn[COUNT + i];
        c[i] = (float)((double)a[i] * 2.75 + (double)b[i] * (double)a[i]);
        volatile float first = a[i] * 2.75f, second = b[i] * a[i], sum = first + second;
        double exact = (double)a[i] * 2.75 + (double)b[i] * (double)a[i] - (double)c[i];
        double off = (double)(sum - c[i]) - exact;
        found += off * off;
    }
    ftl_tensor tensors[] = {
        {"A", (uintptr_t)a, FTL_F32, {ROWS, D}, {D, 1}, 2},
        {"B", (uintptr_t)b, FTL_F32, {ROWS, D}, {D, 1}, 2},
        {"C", (uintptr_t)c, FTL_F32, {ROWS, D}, {D, 1}, 2},
        {"O", (uintptr_t)errors, FTL_F32, {ROWS, D}, {D, 1}, 2},
    };
    run(cancels, &(ftl_arguments){.tensors = tensors, .tensor_count = 4});
    for (int i = 0; i < COUNT; i++) said += (double)errors[i] * (double)errors[i];
    double ratio = sqrt(said / found);
    print_message("terms that cancel: %.2f\n", ratio);
    assert_true(ratio > 1 && ratio < 4); /* a rounding counts as half a step */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_expressions_round),
        cmocka_unit_test(blocks_that_come_again_are_rounded_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
