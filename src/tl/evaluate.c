/* The value of expressions. */
#include "tl/names.h"

#include <math.h>

enum { DEPTH_MAX = 1200 };

/* --- kinds ------------------------------------------------------------------------------------ */

bool tl_expr_is_real_by(const tl_expr *e, tl_visitor *is_real, void *context) {
    if (!e) return false;
    switch (e->kind) {
    case TL_INTEGER:
    case TL_NOT: return false;
    case TL_NUMBER: return true;
    case TL_NAME:
    case TL_ELEMENT: return is_real(context, e);
    case TL_NEGATE: return tl_expr_is_real_by(e->left, is_real, context);
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
                if (tl_expr_is_real_by(e->items[i], is_real, context)) return true;
            }
            return false;
        }
        default: return true;
        }
    case TL_BINARY:
        if (e->operator>= TL_LESS) return false;
        return tl_expr_is_real_by(e->left, is_real, context) ||
               tl_expr_is_real_by(e->right, is_real, context);
    }
    return false;
}

static bool bound_is_real(void *context, const tl_expr *e) {
    (void)context;
    if (e->kind == TL_ELEMENT) return !e->symbol || e->symbol->is_real;
    /* A tile among values: its elements. */
    return e->symbol && (e->symbol->kind == TL_SYMBOL_VARIABLE || e->symbol->is_real);
}

bool tl_expr_is_real(const tl_expr *e) {
    return tl_expr_is_real_by(e, bound_is_real, NULL);
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

static bool is_no_index(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_NAME || !e->symbol || e->symbol->kind != TL_SYMBOL_INDEX;
}

bool tl_expr_mentions_index(const tl_expr *e) {
    return !tl_visit(e, is_no_index, NULL);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

/* As tl_value, but in two registers. */
typedef struct worth {
    enum { WORTH_NONE, WORTH_INTEGER, WORTH_REAL } kind;
    union {
        int64_t integer;
        double real;
    };
} worth;

static const worth NONE = {.kind = WORTH_NONE};

static worth of_integer(int64_t integer) {
    return (worth){.kind = WORTH_INTEGER, .integer = integer};
}

static worth of_real(double real) {
    return (worth){.kind = WORTH_REAL, .real = real};
}

static bool is_real(worth v) {
    return v.kind == WORTH_REAL;
}

static double real_of(worth v) {
    return is_real(v) ? v.real : (double)v.integer;
}

static bool is_true(worth v) {
    return is_real(v) ? v.real != 0 : v.integer != 0;
}

static worth to_integer(double real) {
    return real >= -9.2e18 && real <= 9.2e18 ? of_integer((int64_t)real) : NONE;
}

static worth divide(tl_division division, worth a, worth b) {
    if (is_real(a) || is_real(b) || division == TL_DIVIDE_REAL)
        return of_real(real_of(a) / real_of(b));
    if (b.integer == 0 || (a.integer == INT64_MIN && b.integer == -1)) return NONE;
    int64_t quotient = a.integer / b.integer, rest = a.integer % b.integer;
    bool is_same_sign = (rest < 0) == (b.integer < 0);
    if (division == TL_DIVIDE_UP && rest != 0 && is_same_sign) quotient++;
    if (division == TL_DIVIDE_DOWN && rest != 0 && !is_same_sign) quotient--;
    return division == TL_DIVIDE_UNKNOWN ? NONE : of_integer(quotient);
}

static worth modulo(worth a, worth b) {
    if (is_real(a) || is_real(b)) {
        double y = real_of(b), rest = fmod(real_of(a), y);
        return of_real(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
    }
    if (b.integer == 0) return NONE;
    if (b.integer == -1) return of_integer(0);
    int64_t rest = a.integer % b.integer;
    return of_integer(rest != 0 && (rest < 0) != (b.integer < 0) ? rest + b.integer : rest);
}

static worth arithmetic(const tl_expr *e, worth a, worth b) {
    if (e->operator== TL_OVER) return divide(e->division, a, b);
    if (e->operator== TL_MODULO) return modulo(a, b);
    if (is_real(a) || is_real(b)) {
        double x = real_of(a), y = real_of(b);
        return of_real(e->operator== TL_PLUS ? x + y : e->operator== TL_MINUS ? x - y : x * y);
    }
    int64_t result;
    bool overflows = e->operator== TL_PLUS ? __builtin_add_overflow(a.integer, b.integer, &result)
                     : e->operator== TL_MINUS
                         ? __builtin_sub_overflow(a.integer, b.integer, &result)
                         : __builtin_mul_overflow(a.integer, b.integer, &result);
    return overflows ? NONE : of_integer(result);
}

static bool compare(tl_operator operator, worth a, worth b) {
    int order;
    if (is_real(a) || is_real(b)) {
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

static worth compound(tl_values *ev, const tl_expr *e, int depth);
static worth unknown_name(tl_values *ev, const tl_expr *e, int depth);

/* Most of an expression are numbers, and names whose values are known. */
__attribute__((always_inline)) static inline worth value_of(tl_values *ev, const tl_expr *e,
                                                            int depth) {
    if (!e) return NONE;
    if (e->kind == TL_INTEGER) return of_integer(e->integer);
    if (e->kind != TL_NAME) return compound(ev, e, depth);
    bool is_known = ev->is_known && e->symbol && ev->is_known[e->symbol->position];
    return is_known ? of_integer(ev->integers[e->symbol->position]) : unknown_name(ev, e, depth);
}

static worth ask(tl_values *ev, const tl_expr *e) {
    tl_value v = {0};
    if (!ev->lookup || !ev->lookup(ev->context, e, &v)) return NONE;
    return v.is_real ? of_real(v.real) : of_integer(v.integer);
}

static worth unknown_name(tl_values *ev, const tl_expr *e, int depth) {
    const tl_symbol *symbol = e->symbol;
    bool is_constant = symbol && symbol->kind == TL_SYMBOL_CONSTANT;
    if (is_constant && symbol->is_known)
        return symbol->is_integer ? of_integer(symbol->integer) : of_real(symbol->number);
    worth v = ask(ev, e);
    if (v.kind || !is_constant) return v;
    v = depth < DEPTH_MAX ? value_of(ev, symbol->value, depth + 1) : NONE;
    if (ev->is_known && v.kind == WORTH_INTEGER) tl_values_set(ev, symbol, v.integer);
    return v;
}

static worth least_or_most(tl_values *ev, const tl_expr *e, int depth) {
    bool wants_most = e->function == TL_FUNCTION_MAX, has_real = false;
    worth best = NONE;
    for (int i = 0; i < e->item_count; i++) {
        worth item = value_of(ev, e->items[i], depth);
        if (!item.kind) return NONE;
        has_real |= is_real(item);
        bool takes = i == 0 || compare(wants_most ? TL_GREATER : TL_LESS, item, best);
        if (takes || isnan(real_of(best))) best = item;
    }
    return has_real ? of_real(real_of(best)) : best;
}

static worth call(tl_values *ev, const tl_expr *e, int depth) {
    if (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX)
        return least_or_most(ev, e, depth);
    if (tl_function_is_asked(e->function)) return ask(ev, e);
    worth x = e->item_count < 1 ? NONE : value_of(ev, e->items[0], depth);
    if (!x.kind) return NONE;
    switch (e->function) {
    case TL_FUNCTION_SELECT:
        return e->item_count == 3 ? value_of(ev, e->items[is_true(x) ? 1 : 2], depth) : NONE;
    case TL_FUNCTION_CEIL: return is_real(x) ? to_integer(ceil(x.real)) : x;
    case TL_FUNCTION_FLOOR: return is_real(x) ? to_integer(floor(x.real)) : x;
    case TL_FUNCTION_ABS:
        if (is_real(x)) return of_real(fabs(x.real));
        if (x.integer == INT64_MIN) return NONE;
        return of_integer(x.integer < 0 ? -x.integer : x.integer);
    default: break;
    }
    const tl_operation_facts *f = tl_facts(tl_function_operation(e->function));
    return f->of ? of_real(f->of(real_of(x), 0, 0)) : NONE;
}

static worth binary(tl_values *ev, const tl_expr *e, int depth) {
    worth a = value_of(ev, e->left, depth);
    if (!a.kind) return NONE;
    bool joins = e->operator== TL_AND || e->operator== TL_OR;
    if (joins && is_true(a) == (e->operator== TL_OR)) return of_integer(is_true(a));
    worth b = value_of(ev, e->right, depth);
    if (!b.kind) return NONE;
    if (joins) return of_integer(is_true(b));
    return e->operator<TL_LESS ? arithmetic(e, a, b) : of_integer(compare(e->operator, a, b));
}

static worth negated(worth x) {
    if (is_real(x)) return of_real(-x.real);
    return !x.kind || x.integer == INT64_MIN ? NONE : of_integer(-x.integer);
}

static worth compound(tl_values *ev, const tl_expr *e, int depth) {
    if (depth >= DEPTH_MAX) return NONE;
    switch (e->kind) {
    case TL_NUMBER: return of_real(e->number);
    case TL_ELEMENT: return ask(ev, e);
    case TL_CALL: return call(ev, e, depth + 1);
    case TL_NEGATE: return negated(value_of(ev, e->left, depth + 1));
    case TL_NOT: {
        worth x = value_of(ev, e->left, depth + 1);
        return x.kind ? of_integer(!is_true(x)) : NONE;
    }
    case TL_BINARY: return binary(ev, e, depth + 1);
    default: return NONE;
    }
}

bool tl_evaluate(const tl_expr *e, tl_lookup *lookup, void *context, tl_value *value) {
    worth v = value_of(&(tl_values){.lookup = lookup, .context = context}, e, 0);
    *value = (tl_value){.is_real = is_real(v)};
    if (is_real(v)) value->real = v.real;
    else if (v.kind) value->integer = v.integer;
    return v.kind != WORTH_NONE;
}

bool tl_give(tl_value *out, int64_t value) {
    *out = (tl_value){.integer = value, .real = (double)value};
    return true;
}

tl_values tl_values_new(arena *memory, const tl_kernel *kernel, tl_lookup *lookup, void *context) {
    size_t count = (size_t)kernel->symbol_count + 1;
    return (tl_values){.integers = arena_array(memory, int64_t, count),
                       .is_known = arena_array(memory, bool, count),
                       .lookup = lookup,
                       .context = context};
}

void tl_values_set(tl_values *values, const tl_symbol *symbol, int64_t value) {
    if (!symbol) return;
    values->integers[symbol->position] = value;
    values->is_known[symbol->position] = true;
}

void tl_values_forget(tl_values *values, const tl_symbol *symbol) {
    if (symbol) values->is_known[symbol->position] = false;
}

bool tl_values_integer(tl_values *values, const tl_expr *e, int64_t *value) {
    worth v = value_of(values, e, 0);
    if (v.kind != WORTH_INTEGER) return false;
    *value = v.integer;
    return true;
}

bool tl_known_integer(const tl_expr *e, int64_t *value) {
    worth v = value_of(&(tl_values){0}, e, 0);
    if (v.kind != WORTH_INTEGER) return false;
    *value = v.integer;
    return true;
}

bool tl_known_number(const tl_expr *e, double *value) {
    worth v = value_of(&(tl_values){0}, e, 0);
    if (v.kind) *value = real_of(v);
    return v.kind != WORTH_NONE;
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
