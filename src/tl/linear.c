#include "tl/linear.h"

static bool is_same(const tl_linear_term *a, const tl_linear_term *b) {
    if (!a->atom || !b->atom) return a->axis == b->axis && a->atom == b->atom;
    if (a->atom->kind == TL_NAME && a->atom->symbol && b->atom->symbol)
        return b->atom->kind == TL_NAME && a->atom->symbol == b->atom->symbol;
    return tl_expr_equal(a->atom, b->atom);
}

void tl_linear_drop(tl_linear *l, int at) {
    for (l->count--; at < l->count; at++) l->terms[at] = l->terms[at + 1];
}

static void add_term(tl_linear *to, const tl_linear_term *what, int64_t times) {
    int at = 0;
    int64_t part;
    while (at < to->count && !is_same(&to->terms[at], what)) at++;
    if (at == TL_LINEAR_TERMS_MAX || __builtin_mul_overflow(what->factor, times, &part)) {
        to->is_broken = true;
        return;
    }
    if (at == to->count) to->terms[to->count++] = (tl_linear_term){what->atom, what->axis, 0};
    to->is_broken |= __builtin_add_overflow(to->terms[at].factor, part, &to->terms[at].factor);
    if (!to->terms[at].factor) tl_linear_drop(to, at);
}

void tl_linear_add_atom(tl_linear *to, const tl_expr *atom, int64_t times) {
    add_term(to, &(tl_linear_term){.atom = atom, .factor = 1}, times);
}

void tl_linear_add_index(tl_linear *to, const tl_axis *axis, int64_t times) {
    add_term(to, &(tl_linear_term){.axis = axis, .factor = 1}, times);
}

void tl_linear_add_constant(tl_linear *to, int64_t value, int64_t times) {
    int64_t part;
    to->is_broken |= __builtin_mul_overflow(value, times, &part) ||
                     __builtin_add_overflow(to->constant, part, &to->constant);
}

void tl_linear_add(tl_linear *to, const tl_linear *what, int64_t times) {
    to->is_broken |= what->is_broken;
    tl_linear_add_constant(to, what->constant, times);
    for (int i = 0; i < what->count; i++) add_term(to, &what->terms[i], times);
}

tl_linear tl_linear_of(const tl_linear_scope *scope, const tl_expr *e) {
    tl_linear sum = {0}, part;
    int64_t value;
    if (e->kind == TL_INTEGER || (scope && scope->folds && tl_known_integer(e, &value))) {
        sum.constant = e->kind == TL_INTEGER ? e->integer : value;
        return sum;
    }
    if (e->kind == TL_NEGATE) {
        part = tl_linear_of(scope, e->left);
        tl_linear_add(&sum, &part, -1);
        return sum;
    }
    if (e->kind == TL_NAME && scope && scope->means && scope->means(scope->context, e, &sum))
        return sum;
    bool is_sum = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (is_sum || (e->kind == TL_BINARY && e->operator== TL_TIMES)) {
        tl_linear left = tl_linear_of(scope, e->left);
        part = tl_linear_of(scope, e->right);
        if (is_sum) {
            tl_linear_add(&left, &part, e->operator== TL_PLUS ? 1 : - 1);
            return left;
        }
        bool is_scaled = left.count == 0;
        if (is_scaled || part.count == 0) {
            tl_linear_add(&sum, is_scaled ? &part : &left,
                          is_scaled ? left.constant : part.constant);
            sum.is_broken |= left.is_broken || part.is_broken;
            return sum;
        }
    }
    tl_linear_add_atom(&sum, e, 1);
    return sum;
}
