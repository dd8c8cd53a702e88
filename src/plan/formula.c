/* Formulas: postfix programs over sizes and scalars. Integers stay exact and every overflow is
 * seen; a real operand makes the result real.
 */
#include "flashtl/plan.h"

#include <math.h>

enum { STACK_MAX = 64 };

typedef struct value {
    bool is_real;
    int64_t integer;
    double real;
} value;

static double as_real(value v) {
    return v.is_real ? v.real : (double)v.integer;
}

static value integer_value(int64_t integer) {
    return (value){.integer = integer};
}

static value real_value(double real) {
    return (value){.is_real = true, .real = real};
}

static int64_t floor_quotient(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static bool divide_integers(ftl_formula_op op, int64_t a, int64_t b, value *out) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t down = floor_quotient(a, b), rest = a % b;
    if (op == FTL_DIVIDE_REAL) *out = real_value((double)a / (double)b);
    else if (op == FTL_DIVIDE_DOWN) *out = integer_value(down);
    else if (op == FTL_DIVIDE_UP) *out = integer_value(rest ? down + 1 : down);
    else *out = integer_value(rest && (rest < 0) != (b < 0) ? rest + b : rest);
    return true;
}

static bool divide(ftl_formula_op op, value a, value b, value *out) {
    if (!a.is_real && !b.is_real) return divide_integers(op, a.integer, b.integer, out);
    double x = as_real(a), y = as_real(b);
    if (y == 0) return false;
    if (op == FTL_DIVIDE_REAL) *out = real_value(x / y);
    else if (op == FTL_DIVIDE_DOWN) *out = real_value(floor(x / y));
    else if (op == FTL_DIVIDE_UP) *out = real_value(ceil(x / y));
    else *out = real_value(x - floor(x / y) * y);
    return true;
}

static bool is_nan(value v) {
    return v.is_real && isnan(v.real);
}

static int compare(value a, value b) {
    if (!a.is_real && !b.is_real) return (a.integer > b.integer) - (a.integer < b.integer);
    double x = as_real(a), y = as_real(b);
    return (x > y) - (x < y);
}

static bool arithmetic(ftl_formula_op op, value a, value b, value *out) {
    if (a.is_real || b.is_real) {
        double x = as_real(a), y = as_real(b);
        *out = real_value(op == FTL_ADD ? x + y : op == FTL_SUBTRACT ? x - y : x * y);
        return true;
    }
    int64_t result;
    bool overflows = op == FTL_ADD        ? __builtin_add_overflow(a.integer, b.integer, &result)
                     : op == FTL_SUBTRACT ? __builtin_sub_overflow(a.integer, b.integer, &result)
                                          : __builtin_mul_overflow(a.integer, b.integer, &result);
    *out = integer_value(overflows ? 0 : result);
    return !overflows;
}

static bool apply_two(ftl_formula_op op, value a, value b, value *out) {
    bool has_nan = is_nan(a) || is_nan(b);
    int order = compare(a, b);
    switch ((int)op) {
    case FTL_ADD:
    case FTL_SUBTRACT:
    case FTL_MULTIPLY: return arithmetic(op, a, b, out);
    case FTL_DIVIDE_UP:
    case FTL_DIVIDE_DOWN:
    case FTL_DIVIDE_REAL:
    case FTL_MODULO: return divide(op, a, b, out);
    case FTL_MIN: *out = is_nan(b) || (!is_nan(a) && order <= 0) ? a : b; return true;
    case FTL_MAX: *out = is_nan(b) || (!is_nan(a) && order >= 0) ? a : b; return true;
    case FTL_LESS: *out = integer_value(!has_nan && order < 0); return true;
    case FTL_LESS_EQUAL: *out = integer_value(!has_nan && order <= 0); return true;
    case FTL_GREATER: *out = integer_value(!has_nan && order > 0); return true;
    case FTL_GREATER_EQUAL: *out = integer_value(!has_nan && order >= 0); return true;
    case FTL_EQUAL: *out = integer_value(!has_nan && order == 0); return true;
    case FTL_NOT_EQUAL: *out = integer_value(has_nan || order != 0); return true;
    case FTL_AND: *out = integer_value(as_real(a) != 0 && as_real(b) != 0); return true;
    case FTL_OR: *out = integer_value(as_real(a) != 0 || as_real(b) != 0); return true;
    default: return false;
    }
}

static bool apply_one(ftl_formula_op op, value *top) {
    if (op == FTL_NOT) {
        *top = integer_value(as_real(*top) == 0);
    } else if (top->is_real) {
        top->real = op == FTL_NEGATE ? -top->real : fabs(top->real);
    } else {
        if (top->integer == INT64_MIN) return false;
        if (op == FTL_NEGATE || top->integer < 0) top->integer = -top->integer;
    }
    return true;
}

static bool push(const ftl_formula_step *step, const int64_t *sizes, const double *scalars,
                 value *out) {
    switch ((int)step->op) {
    case FTL_PUSH_INTEGER: *out = integer_value(step->integer); return true;
    case FTL_PUSH_NUMBER: *out = real_value(step->number); return true;
    case FTL_PUSH_SIZE:
        if (!sizes || step->index < 0) return false;
        *out = integer_value(sizes[step->index]);
        return true;
    case FTL_PUSH_SCALAR:
        if (!scalars || step->index < 0) return false;
        *out = real_value(scalars[step->index]);
        return true;
    default: return false;
    }
}

bool ftl_formula_evaluate(const ftl_formula *formula, const int64_t *sizes, const double *scalars,
                          double *result) {
    value stack[STACK_MAX];
    int depth = 0;
    if (!formula || !result || (formula->step_count > 0 && !formula->steps)) return false;
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        if (step->op <= FTL_PUSH_SCALAR) {
            if (depth == STACK_MAX || !push(step, sizes, scalars, &stack[depth])) return false;
            depth++;
        } else if (step->op == FTL_NOT || step->op == FTL_NEGATE || step->op == FTL_ABS) {
            if (depth < 1 || !apply_one(step->op, &stack[depth - 1])) return false;
        } else {
            if (depth < 2) return false;
            if (!apply_two(step->op, stack[depth - 2], stack[depth - 1], &stack[depth - 2])) {
                return false;
            }
            depth--;
        }
    }
    if (depth != 1) return false;
    *result = as_real(stack[0]);
    return !isnan(*result);
}
