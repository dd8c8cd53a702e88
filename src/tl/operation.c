/* The table of operations. */
#include "tl/operation.h"

#include "base/wide.h"
#include "tl/holds.h"

#include <math.h>
#include <string.h>

/* Results are put together apart from operands, of which the target may be one. */
enum { CHUNK = 64 };

/* Codes of e4m3 are numbers in rising order, eight to a power of two from 2^-6 on. */
static double of_code(double code) {
    enum { STEPS = 8, BIAS = 7, LAST = 126 };
    if (!(code > 0)) return 0;
    if (code > LAST) code = LAST;
    double octave = code < STEPS ? 1 : floor(code / STEPS);
    double part = code / STEPS - octave; /* -1 to 0 where numbers are subnormal */
    return ldexp(1 + part, (int)octave - BIAS);
}

#define OPERATION(id, spelling, operands, shape, doc, made, exact, deviation, ...)                 \
    static double of_##id(double a, double b, double c) {                                          \
        (void)a, (void)b, (void)c;                                                                 \
        return made;                                                                               \
    }                                                                                              \
    WIDE_VECTORS static void row_##id(const double *a, const double *b, const double *c,           \
                                      int count, double *out) {                                    \
        for (int first = 0; first < count; first += CHUNK) {                                       \
            double made_here[CHUNK];                                                               \
            int length = count - first < CHUNK ? count - first : CHUNK;                            \
            for (int i = first; i < first + length; i++)                                           \
                made_here[i - first] = of_##id(a[i], b[i], c[i]);                                  \
            memcpy(out + first, made_here, (size_t)length * sizeof *out);                          \
        }                                                                                          \
    }                                                                                              \
    static bool exact_##id(double a, double b, double result) {                                    \
        (void)a, (void)b, (void)result;                                                            \
        return exact;                                                                              \
    }                                                                                              \
    static double error_##id(double size, double operand) {                                        \
        (void)size, (void)operand;                                                                 \
        return deviation;                                                                          \
    }                                                                                              \
    WIDE_VECTORS static void errors_##id(const double *results, const double *firsts, int count,   \
                                         double *restrict out) {                                   \
        for (int i = 0; i < count; i++) out[i] = error_##id(fabs(results[i]), fabs(firsts[i]));    \
    }
#include "tl/operations.def"

#define PER_ELEMENT(shape) ((shape) == TL_SHAPE_ELEMENTWISE || (shape) == TL_SHAPE_FILL)

static const tl_operation_facts rows[] = {
#define OPERATION(id, spelling, count, rule, doc, made, exact, deviation, ...)                     \
    {.name = spelling,                                                                             \
     .operands = count,                                                                            \
     .shape = TL_SHAPE_##rule,                                                                     \
     .of = PER_ELEMENT(TL_SHAPE_##rule) ? of_##id : NULL,                                          \
     .row = PER_ELEMENT(TL_SHAPE_##rule) ? row_##id : NULL,                                        \
     .is_exact = exact_##id,                                                                       \
     .errors = errors_##id,                                                                        \
     __VA_ARGS__},
#include "tl/operations.def"
    {.name = "", .shape = TL_SHAPE_ELEMENTWISE, .is_exact = exact_GEMM, .errors = errors_GEMM},
};

const tl_operation_facts *tl_facts(tl_operation operation) {
    return &rows[operation];
}

tl_operation tl_combining(tl_operation operation) {
    return rows[operation].shape == TL_SHAPE_REDUCTION ? rows[operation].combines_by : TL_ADD;
}

double tl_neutral(tl_operation operation) {
    return rows[tl_combining(operation)].neutral;
}

double tl_start(tl_operation operation) {
    if (rows[operation].shape == TL_SHAPE_CHOICE) return TL_NO_PLACE;
    return rows[operation].gives_place ? 0 : tl_neutral(operation);
}

const char *tl_neutral_text(double neutral) {
    return neutral == 0 ? "0" : neutral < 0 ? "log(0)" : "-log(0)";
}

bool tl_reduces_by_sum(tl_operation operation) {
    return rows[operation].shape == TL_SHAPE_REDUCTION &&
           rows[tl_combining(operation)].linear & TL_IN_BOTH;
}

bool tl_reduces_by_choice(tl_operation operation) {
    return rows[operation].shape == TL_SHAPE_REDUCTION && !rows[operation].gives_place &&
           rows[tl_combining(operation)].chooses;
}

bool tl_is_linear(tl_operation operation, unsigned operands) {
    return rows[operation].linear >> operands & 1;
}

bool tl_is_fused(tl_operation operation, bool has_matrix, bool has_partial_target) {
    tl_shape_rule shape = rows[operation].shape;
    if (shape == TL_SHAPE_ELEMENTWISE || shape == TL_SHAPE_MASK) return has_matrix;
    return tl_reduces_by_sum(operation) && has_partial_target;
}
