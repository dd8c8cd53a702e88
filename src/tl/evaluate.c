/* The value of expressions. */
#include "tl/names.h"

#include <math.h>

enum { DEPTH_MAX = 1200 };

/* --- kinds ------------------------------------------------------------------------------------ */

static bool symbol_is_real(const tl_symbol *symbol) {
    return symbol && symbol->is_real;
}

bool tl_expr_is_real(const tl_expr *e) {
    if (!e) return false;
    switch (e->kind) {
    case TL_INTEGER:
    case TL_NOT: return false;
    case TL_NUMBER: return true;
    case TL_NAME:
        /* A tile among values: its elements. */
        return e->symbol && e->symbol->kind == TL_SYMBOL_VARIABLE ? true
                                                                  : symbol_is_real(e->symbol);
    case TL_ELEMENT: return e->symbol ? symbol_is_real(e->symbol) : true;
    case TL_NEGATE: return tl_expr_is_real(e->left);
    case TL_CALL:
        switch (e->function) {
        case TL_FUNCTION_CEIL:
        case TL_FUNCTION_FLOOR:
        case TL_FUNCTION_ANY:
        case TL_FUNCTION_FIRST:
        case TL_FUNCTION_MORE: return false;
        case TL_FUNCTION_MIN:
        case TL_FUNCTION_MAX:
        case TL_FUNCTION_ABS:
        case TL_FUNCTION_NEXT:
        case TL_FUNCTION_SELECT: {
            int first = e->function == TL_FUNCTION_SELECT;
            for (int i = first; i < e->item_count; i++) {
                if (tl_expr_is_real(e->items[i])) return true;
            }
            return false;
        }
        default: return true;
        }
    case TL_BINARY:
        if (e->operator>= TL_LESS) return false;
        return tl_expr_is_real(e->left) || tl_expr_is_real(e->right);
    }
    return false;
}

bool tl_expr_is_index_like(const tl_expr *e) {
    if (!e) return false;
    if (e->kind == TL_ELEMENT) return true;
    if (e->kind == TL_NAME) {
        return e->symbol && (e->symbol->is_index_like || e->symbol->kind == TL_SYMBOL_VARIABLE);
    }
    for (int i = 0; i < e->item_count; i++) {
        if (tl_expr_is_index_like(e->items[i])) return true;
    }
    return tl_expr_is_index_like(e->left) || tl_expr_is_index_like(e->right);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static tl_value of_integer(int64_t integer) {
    return (tl_value){.integer = integer};
}

static tl_value of_real(double real) {
    return (tl_value){.is_real = true, .real = real};
}

static double real_of(tl_value v) {
    return v.is_real ? v.real : (double)v.integer;
}

static bool is_true(tl_value v) {
    return v.is_real ? v.real != 0 : v.integer != 0;
}

static bool to_integer(double real, tl_value *out) {
    if (!(real >= -9.2e18 && real <= 9.2e18)) return false;
    *out = of_integer((int64_t)real);
    return true;
}

static bool divide(tl_division division, tl_value a, tl_value b, tl_value *out) {
    if (a.is_real || b.is_real || division == TL_DIVIDE_REAL) {
        *out = of_real(real_of(a) / real_of(b));
        return true;
    }
    if (b.integer == 0 || (a.integer == INT64_MIN && b.integer == -1)) return false;
    int64_t quotient = a.integer / b.integer, rest = a.integer % b.integer;
    bool is_same_sign = (rest < 0) == (b.integer < 0);
    if (division == TL_DIVIDE_UP && rest != 0 && is_same_sign) quotient++;
    if (division == TL_DIVIDE_DOWN && rest != 0 && !is_same_sign) quotient--;
    *out = of_integer(quotient);
    return division != TL_DIVIDE_UNKNOWN;
}

static bool modulo(tl_value a, tl_value b, tl_value *out) {
    if (a.is_real || b.is_real) {
        double y = real_of(b), rest = fmod(real_of(a), y);
        *out = of_real(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
        return true;
    }
    if (b.integer == 0) return false;
    if (b.integer == -1) {
        *out = of_integer(0);
        return true;
    }
    int64_t rest = a.integer % b.integer;
    *out = of_integer(rest != 0 && (rest < 0) != (b.integer < 0) ? rest + b.integer : rest);
    return true;
}

static bool arithmetic(const tl_expr *e, tl_value a, tl_value b, tl_value *out) {
    if (e->operator== TL_OVER) return divide(e->division, a, b, out);
    if (e->operator== TL_MODULO) return modulo(a, b, out);
    if (a.is_real || b.is_real) {
        double x = real_of(a), y = real_of(b);
        *out = of_real(e->operator== TL_PLUS ? x + y : e->operator== TL_MINUS ? x - y : x * y);
        return true;
    }
    int64_t result;
    bool overflows = e->operator== TL_PLUS ? __builtin_add_overflow(a.integer, b.integer, &result)
                     : e->operator== TL_MINUS
                         ? __builtin_sub_overflow(a.integer, b.integer, &result)
                         : __builtin_mul_overflow(a.integer, b.integer, &result);
    *out = of_integer(result);
    return !overflows;
}

static bool compare(tl_operator operator, tl_value a, tl_value b) {
    int order;
    if (a.is_real || b.is_real) {
        double x = real_of(a), y = real_of(b);
        if (isnan(x) || isnan(y)) return operator== TL_NOT_EQUAL;
        order = (x > y) - (x < y);
    } else {
        order = (a.integer > b.integer) - (a.integer < b.integer);
    }
    switch (operator) {
    case TL_LESS: return order < 0;
    case TL_LESS_EQUAL: return order <= 0;
    case TL_GREATER: return order > 0;
    case TL_GREATER_EQUAL: return order >= 0;
    case TL_EQUAL: return order == 0;
    default: return order != 0;
    }
}

/* --- expressions ------------------------------------------------------------------------------ */

typedef struct evaluation {
    tl_lookup *lookup;
    void *context;
    int depth;
} evaluation;

static bool value_of(evaluation *ev, const tl_expr *e, tl_value *out);

static bool name_value(evaluation *ev, const tl_expr *e, tl_value *out) {
    const tl_symbol *symbol = e->symbol;
    bool is_constant = e->kind == TL_NAME && symbol && symbol->kind == TL_SYMBOL_CONSTANT;
    if (is_constant && symbol->is_known) {
        *out = symbol->is_integer ? of_integer(symbol->integer) : of_real(symbol->number);
        return true;
    }
    if (ev->lookup && ev->lookup(ev->context, e, out)) return true;
    return is_constant && symbol->value && value_of(ev, symbol->value, out);
}

static bool least_or_most(evaluation *ev, const tl_expr *e, tl_value *out) {
    bool wants_most = e->function == TL_FUNCTION_MAX;
    bool is_real = false;
    for (int i = 0; i < e->item_count; i++) {
        tl_value item;
        if (!value_of(ev, e->items[i], &item)) return false;
        is_real |= item.is_real;
        bool takes = i == 0 || compare(wants_most ? TL_GREATER : TL_LESS, item, *out);
        if (takes || isnan(real_of(*out))) *out = item;
    }
    if (is_real) *out = of_real(real_of(*out));
    return e->item_count > 0;
}

static bool call(evaluation *ev, const tl_expr *e, tl_value *out) {
    if (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX) {
        return least_or_most(ev, e, out);
    }
    if (tl_function_is_asked(e->function)) return ev->lookup && ev->lookup(ev->context, e, out);
    tl_value x;
    if (e->item_count < 1 || !value_of(ev, e->items[0], &x)) return false;
    switch (e->function) {
    case TL_FUNCTION_SELECT:
        return e->item_count == 3 && value_of(ev, e->items[is_true(x) ? 1 : 2], out);
    case TL_FUNCTION_CEIL:
    case TL_FUNCTION_FLOOR:
        *out = x;
        if (!x.is_real) return true;
        return to_integer(e->function == TL_FUNCTION_CEIL ? ceil(x.real) : floor(x.real), out);
    case TL_FUNCTION_ABS:
        if (!x.is_real && x.integer == INT64_MIN) return false;
        *out =
            x.is_real ? of_real(fabs(x.real)) : of_integer(x.integer < 0 ? -x.integer : x.integer);
        return true;
    default: break;
    }
    const tl_operation_facts *f = tl_facts(tl_function_operation(e->function));
    if (f->of) *out = of_real(f->of(real_of(x), 0, 0));
    return f->of != NULL;
}

static bool binary(evaluation *ev, const tl_expr *e, tl_value *out) {
    tl_value a, b;
    if (!value_of(ev, e->left, &a)) return false;
    if (e->operator== TL_AND || e->operator== TL_OR) {
        bool decides = is_true(a) == (e->operator== TL_OR);
        if (!decides && !value_of(ev, e->right, &b)) return false;
        *out = of_integer(decides ? is_true(a) : is_true(b));
        return true;
    }
    if (!value_of(ev, e->right, &b)) return false;
    if (e->operator<TL_LESS) return arithmetic(e, a, b, out);
    *out = of_integer(compare(e->operator, a, b));
    return true;
}

static bool value_of_kind(evaluation *ev, const tl_expr *e, tl_value *out) {
    tl_value x;
    switch (e->kind) {
    case TL_INTEGER: *out = of_integer(e->integer); return true;
    case TL_NUMBER: *out = of_real(e->number); return true;
    case TL_NAME:
    case TL_ELEMENT: return name_value(ev, e, out);
    case TL_CALL: return call(ev, e, out);
    case TL_NEGATE:
        if (!value_of(ev, e->left, &x)) return false;
        if (!x.is_real && x.integer == INT64_MIN) return false;
        *out = x.is_real ? of_real(-x.real) : of_integer(-x.integer);
        return true;
    case TL_NOT:
        if (!value_of(ev, e->left, &x)) return false;
        *out = of_integer(!is_true(x));
        return true;
    case TL_BINARY: return binary(ev, e, out);
    }
    return false;
}

static bool value_of(evaluation *ev, const tl_expr *e, tl_value *out) {
    if (!e || ev->depth >= DEPTH_MAX) return false;
    ev->depth++;
    bool is_found = value_of_kind(ev, e, out);
    ev->depth--;
    return is_found;
}

bool tl_evaluate(const tl_expr *e, tl_lookup *lookup, void *context, tl_value *value) {
    evaluation ev = {.lookup = lookup, .context = context};
    *value = (tl_value){0};
    return value_of(&ev, e, value);
}

bool tl_known_integer(const tl_expr *e, int64_t *value) {
    tl_value v;
    bool is_known = tl_evaluate(e, NULL, NULL, &v) && !v.is_real;
    if (is_known) *value = v.integer;
    return is_known;
}

bool tl_known_number(const tl_expr *e, double *value) {
    tl_value v;
    bool is_known = tl_evaluate(e, NULL, NULL, &v);
    if (is_known) *value = real_of(v);
    return is_known;
}

/* --- linear forms ----------------------------------------------------------------------------- */

typedef struct leaf {
    tl_visitor *is_other;
    void *context;
} leaf;

static const tl_expr *let_of(const tl_expr *e) {
    bool is_let = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT;
    return is_let ? e->symbol->value : NULL;
}

static bool is_free(void *context, const tl_expr *e) {
    const leaf *x = context;
    return x->is_other(x->context, e) && tl_visit(let_of(e), is_free, context);
}

bool tl_coefficient(const tl_expr *e, tl_visitor *is_other, void *context, int64_t *a) {
    leaf x = {is_other, context};
    int64_t left = 0, right, factor;
    *a = 0;
    if (tl_visit(e, is_free, &x)) return true;
    if (!is_other(context, e)) return *a = 1, true;
    if (let_of(e)) return tl_coefficient(let_of(e), is_other, context, a);
    if (e->kind != TL_BINARY && e->kind != TL_NEGATE) return false;
    if (!tl_coefficient(e->left, is_other, context, &left)) return false;
    if (e->kind == TL_NEGATE) return !__builtin_sub_overflow((int64_t)0, left, a);
    if (!tl_coefficient(e->right, is_other, context, &right)) return false;
    switch (e->operator) {
    case TL_PLUS: return !__builtin_add_overflow(left, right, a);
    case TL_MINUS: return !__builtin_sub_overflow(left, right, a);
    case TL_TIMES:
        if (left == 0 && tl_known_integer(e->left, &factor))
            return !__builtin_mul_overflow(factor, right, a);
        return right == 0 && tl_known_integer(e->right, &factor) &&
               !__builtin_mul_overflow(factor, left, a);
    default: return false;
    }
}
