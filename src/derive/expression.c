/* How an expression of the sketch changes with one of the elements in it. */
#include "derive/tape.h"

typedef struct slope {
    tape *t;
    const tl_statement *at;
    const tl_expr *element;
    bool is_stuck; /* reported */
} slope;

static str of(slope *s, const tl_expr *e);

static bool is_other(void *element, const tl_expr *e) {
    return !tl_expr_equal(e, element);
}

static bool depends_on(const tl_expr *e, const tl_expr *element) {
    return !tl_visit(e, is_other, (void *)element);
}

static str text_of(const slope *s, const tl_expr *e) {
    return tl_expr_text(s->t->memory, e);
}

/* Brackets that are not needed go away. */
static str written(const slope *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static str written(const slope *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(s->t->memory, format, arguments);
    va_end(arguments);
    return text_of(s, tl_quote_expr(s->t->memory, "%.*s", STR_ARGS(text)));
}

/* a*b, where either may be 0, which is empty, or 1 */
static str product(const slope *s, str a, str b) {
    if (!a.length || !b.length) return STR("");
    if (str_is(a, "1")) return b;
    if (str_is(b, "1")) return a;
    if (str_is(a, "-1")) return written(s, "-(%.*s)", STR_ARGS(b));
    return written(s, "(%.*s)*(%.*s)", STR_ARGS(a), STR_ARGS(b));
}

static str negative(const slope *s, str a) {
    return a.length ? written(s, "-(%.*s)", STR_ARGS(a)) : a;
}

static str sum(const slope *s, str a, str b) {
    if (!a.length) return b;
    return b.length ? written(s, "(%.*s) + (%.*s)", STR_ARGS(a), STR_ARGS(b)) : a;
}

static str number(str change) {
    return change.length ? change : STR("0");
}

static str stuck(slope *s, const tl_expr *e) {
    if (!s->is_stuck)
        tape_refuse(s->t, s->at, "there is no gradient of %.*s in this expression",
                    STR_ARGS(text_of(s, e)));
    s->is_stuck = true;
    return STR("");
}

static str of_binary(slope *s, const tl_expr *e) {
    str a = of(s, e->left), b = of(s, e->right);
    str left = text_of(s, e->left), right = text_of(s, e->right);
    switch (e->operator) {
    case TL_PLUS: return sum(s, a, b);
    case TL_MINUS: return sum(s, a, negative(s, b));
    case TL_TIMES: return sum(s, product(s, a, right), product(s, left, b));
    case TL_OVER: { /* a/r - b*l/(r*r), of real numbers: what is left of the first may be whole ones
                     */
        str over = a.length ? written(s, "1.0*(%.*s)/(%.*s)", STR_ARGS(a), STR_ARGS(right)) : a;
        str less = product(s, b, left);
        if (less.length)
            less = written(s, "-(%.*s)/((%.*s)*(%.*s))", STR_ARGS(less), STR_ARGS(right),
                           STR_ARGS(right));
        return sum(s, over, less);
    }
    case TL_MODULO: return b.length ? stuck(s, e) : a;
    default: return STR(""); /* conditions */
    }
}

/* The first of the largest, or of the smallest, has the gradient. */
static str of_choice(slope *s, const tl_expr *e, int from) {
    str own = of(s, e->items[from]);
    if (from + 1 == e->item_count) return own;
    str rest = of_choice(s, e, from + 1), others = text_of(s, e->items[from + 1]);
    if (!own.length && !rest.length) return own;
    bool is_least = e->function == TL_FUNCTION_MIN;
    for (int i = from + 2; i < e->item_count; i++)
        others = written(s, "%s(%.*s, %.*s)", is_least ? "min" : "max", STR_ARGS(others),
                         STR_ARGS(text_of(s, e->items[i])));
    return written(s, "select(%.*s %s %.*s, %.*s, %.*s)", STR_ARGS(text_of(s, e->items[from])),
                   is_least ? "<=" : ">=", STR_ARGS(others), STR_ARGS(number(own)),
                   STR_ARGS(number(rest)));
}

static str of_call(slope *s, const tl_expr *e) {
    bool is_choice = e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX;
    if (is_choice) return of_choice(s, e, 0);
    if (e->function == TL_FUNCTION_SELECT) {
        str a = of(s, e->items[1]), b = of(s, e->items[2]);
        if (!a.length && !b.length) return a;
        return written(s, "select(%.*s, %.*s, %.*s)", STR_ARGS(text_of(s, e->items[0])),
                       STR_ARGS(number(a)), STR_ARGS(number(b)));
    }
    str inner = of(s, e->items[0]), x = text_of(s, e->items[0]), own = text_of(s, e);
    if (!inner.length) return inner;
    switch (e->function) {
    case TL_FUNCTION_ABS: /* none at 0, as of the operation */
        return written(s, "select(%.*s > 0, %.*s, select(%.*s < 0, -(%.*s), 0))", STR_ARGS(x),
                       STR_ARGS(inner), STR_ARGS(x), STR_ARGS(inner));
    case TL_FUNCTION_EXP: return product(s, own, inner);
    case TL_FUNCTION_EXP2: return product(s, own, product(s, STR("0.69314718055994531"), inner));
    case TL_FUNCTION_LOG: return written(s, "(%.*s)/(%.*s)", STR_ARGS(inner), STR_ARGS(x));
    case TL_FUNCTION_LOG2:
        return written(s, "(%.*s)/(%.*s)", STR_ARGS(product(s, STR("1.4426950408889634"), inner)),
                       STR_ARGS(x));
    case TL_FUNCTION_CEIL:
    case TL_FUNCTION_FLOOR: return STR("");
    default: return stuck(s, e);
    }
}

/* Empty: 0. */
static str of(slope *s, const tl_expr *e) {
    if (!depends_on(e, s->element)) return STR("");
    if (tl_expr_equal(e, s->element)) return STR("1");
    switch (e->kind) {
    case TL_NEGATE: return negative(s, of(s, e->left));
    case TL_BINARY: return of_binary(s, e);
    case TL_CALL: return of_call(s, e);
    default: return STR(""); /* an index of a table, rounded, or a condition */
    }
}

bool tape_slope(tape *t, const tl_statement *at, const tl_expr *e, const tl_expr *element,
                str *out) {
    slope s = {.t = t, .at = at, .element = element};
    *out = of(&s, e);
    return !s.is_stuck;
}
