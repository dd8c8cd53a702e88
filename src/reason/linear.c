#include "reason/linear.h"

enum { LINEAR_DEPTH_MAX = 64 };

void linear_add_atom(linear *to, const tl_expr *atom, int64_t factor) {
    for (int i = 0; i < to->count; i++)
        if (tl_expr_equal(to->terms[i].atom, atom)) {
            to->terms[i].coefficient += factor;
            if (to->terms[i].coefficient == 0) {
                for (int k = i; k + 1 < to->count; k++) to->terms[k] = to->terms[k + 1];
                to->count--;
            }
            return;
        }
    if (factor == 0) return;
    if (to->count == LINEAR_TERMS_MAX) to->is_broken = true;
    else to->terms[to->count++] = (linear_term){atom, factor};
}

void linear_add(linear *to, const linear *what, int64_t factor) {
    to->is_broken = to->is_broken || what->is_broken;
    int64_t product;
    if (__builtin_mul_overflow(what->constant, factor, &product) ||
        __builtin_add_overflow(to->constant, product, &to->constant))
        to->is_broken = true;
    for (int i = 0; i < what->count; i++) {
        int64_t coefficient;
        if (__builtin_mul_overflow(what->terms[i].coefficient, factor, &coefficient))
            to->is_broken = true;
        else linear_add_atom(to, what->terms[i].atom, coefficient);
    }
}

static linear of(reason *r, const tl_expr *e, bool expand, int depth) {
    linear sum = {0};
    if (depth > LINEAR_DEPTH_MAX) {
        sum.is_broken = true;
        return sum;
    }
    switch (e->kind) {
    case TL_INTEGER: sum.constant = e->integer; return sum;
    case TL_NEGATE: {
        linear inner = of(r, e->left, expand, depth + 1);
        linear_add(&sum, &inner, -1);
        return sum;
    }
    case TL_NAME: {
        tl_binding *let = expand ? edit_find_let(r->kernel, e->text, NULL) : NULL;
        if (let && let->axes.count == 0 && let->value->kind != TL_NUMBER)
            return of(r, let->value, expand, depth + 1);
        break;
    }
    case TL_BINARY: {
        if (e->operator!= TL_PLUS && e->operator!= TL_MINUS && e->operator!= TL_TIMES) break;
        linear a = of(r, e->left, expand, depth + 1), b = of(r, e->right, expand, depth + 1);
        if (e->operator== TL_TIMES && a.count> 0 && b.count> 0) break;
        if (e->operator== TL_TIMES) {
            linear_add(&sum, a.count > 0 ? &a : &b, a.count > 0 ? b.constant : a.constant);
            return sum;
        }
        sum = a;
        linear_add(&sum, &b, e->operator== TL_PLUS ? 1 : - 1);
        return sum;
    }
    default: break;
    }
    linear_add_atom(&sum, e, 1);
    return sum;
}

linear linear_of(reason *r, const tl_expr *e, bool expand) {
    return of(r, e, expand, 0);
}

int64_t linear_coefficient(const linear *l, str name) {
    for (int i = 0; i < l->count; i++)
        if (l->terms[i].atom->kind == TL_NAME && str_equal(l->terms[i].atom->text, name))
            return l->terms[i].coefficient;
    return 0;
}

bool linear_factor(const linear *l, str name, int64_t *factor) {
    *factor = linear_coefficient(l, name);
    for (int i = 0; i < l->count; i++)
        if (l->terms[i].atom->kind != TL_NAME && edit_expr_mentions(l->terms[i].atom, name))
            return false;
    return !l->is_broken;
}

void linear_drop(linear *l, str name) {
    int kept = 0;
    for (int i = 0; i < l->count; i++)
        if (l->terms[i].atom->kind != TL_NAME || !str_equal(l->terms[i].atom->text, name))
            l->terms[kept++] = l->terms[i];
    l->count = kept;
}

linear_cut linear_cut_of(reason *r, str axis, const tl_expr *test) {
    linear_cut cut = {0};
    if (test->kind != TL_BINARY || test->operator<TL_LESS || test->operator> TL_GREATER_EQUAL)
        return cut;
    linear left = linear_of(r, test->left, false), right = linear_of(r, test->right, false);
    linear_add(&left, &right, -1); /* left > 0, and so on */
    int64_t c;
    if (!linear_factor(&left, axis, &c) || (c != 1 && c != -1)) return cut;
    bool is_greater = test->operator== TL_GREATER || test->operator== TL_GREATER_EQUAL;
    bool is_strict = test->operator== TL_GREATER || test->operator== TL_LESS;
    linear_drop(&left, axis);
    /* c*kv + rest > 0: kv > -rest, or kv < rest. */
    linear_add(&cut.edge, &left, -c);
    cut.is_upper = is_greater == (c > 0);
    if (cut.is_upper != is_strict) cut.edge.constant -= 1; /* kv >= E: kv > E - 1; kv < E alike */
    cut.is_solved = true;
    return cut;
}

tl_expr *linear_expr(reason *r, const linear *l) {
    str text = {"", 0};
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int i = 0; i < l->count; i++) {
            int64_t c = l->terms[i].coefficient;
            if ((c > 0) != (sign > 0)) continue;
            const tl_expr *atom = l->terms[i].atom;
            bool is_sum = atom->kind == TL_BINARY &&
                          (atom->operator== TL_PLUS || atom->operator== TL_MINUS || c * sign != 1);
            str one = tl_expr_text(r->memory, atom);
            if (is_sum) one = str_format(r->memory, "(%.*s)", STR_ARGS(one));
            if (c * sign != 1)
                one = str_format(r->memory, "%lld*%.*s", (long long)c * sign, STR_ARGS(one));
            const char *joint =
                text.length > 0 ? (sign > 0 ? " + " : " - ") : (sign > 0 ? "" : "-");
            text = str_format(r->memory, "%.*s%s%.*s", STR_ARGS(text), joint, STR_ARGS(one));
        }
    if (text.length == 0) text = str_format(r->memory, "%lld", (long long)l->constant);
    else if (l->constant != 0)
        text = str_format(r->memory, "%.*s %c %lld", STR_ARGS(text), l->constant > 0 ? '+' : '-',
                          (long long)(l->constant > 0 ? l->constant : -l->constant));
    return tl_quote_expr(r->memory, "%.*s", STR_ARGS(text));
}
