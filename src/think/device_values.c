/* Names and numbers of a kernel's text. */
#include "think/device_walk.h"

thing *find(walk *w, const token *name) {
    int place = name->name >= 0 ? w->latest[name->name] : -1;
    return place >= 0 ? &w->things.items[place] : NULL;
}

void enter(walk *w, thing t) {
    if (t.name < 0) return;
    t.shadowed = w->latest[t.name];
    w->latest[t.name] = w->things.count;
    list_push(w->diags->memory, &w->things, t);
}

void leave(walk *w, int count) {
    while (w->things.count > count) {
        const thing *t = &w->things.items[--w->things.count];
        w->latest[t->name] = t->shadowed;
    }
}

static bool sum(walk *w, int level, int64_t *v, int *outermost);

static bool unary(walk *w, int64_t *v, int *outermost) {
    const token *t = token_at(w, w->at++);
    if (w->depth > DEPTH_MAX) return false;
    if (t->kind == TOKEN_NUMBER) {
        str digits = t->text;
        while (digits.length && strchr("uUlL", digits.data[digits.length - 1])) digits.length--;
        return str_to_integer(digits, v) && *v <= INT32_MAX;
    }
    if (t->kind == TOKEN_NAME) {
        const thing *known = find(w, t);
        *v = token_is(t, "true");
        if (!known && (*v || token_is(t, "false"))) return true;
        if (!known || known->kind != THING_NUMBER) return false;
        *v = known->value;
        if (known->outermost < *outermost) *outermost = known->outermost;
        return true;
    }
    if (token_is(t, "(")) {
        w->depth++;
        bool is_good = sum(w, 0, v, outermost) && take(w, ")");
        w->depth--;
        return is_good;
    }
    bool is_not = token_is(t, "!");
    if ((!is_not && !token_is(t, "-")) || !unary(w, v, outermost)) return false;
    *v = is_not ? !*v : -*v;
    return true;
}

/* One step of an expression of 32 bits; false: it has no value, or passes them. */
static bool apply(int sign, int64_t a, int64_t b, int64_t *v) {
    bool is_shift = sign == '<' + '<' * 256 || sign == '>' + '>' * 256;
    if ((sign == '/' || sign == '%') && b == 0) return false;
    if (is_shift && (b < 0 || b > 30 || a < 0)) return false;
    switch (sign) {
    case '=' + '=' * 256: *v = a == b; break;
    case '!' + '=' * 256: *v = a != b; break;
    case '<' + '=' * 256: *v = a <= b; break;
    case '>' + '=' * 256: *v = a >= b; break;
    case '<': *v = a < b; break;
    case '>': *v = a > b; break;
    case '|': *v = a | b; break;
    case '^': *v = a ^ b; break;
    case '&': *v = a & b; break;
    case '<' + '<' * 256: *v = a * ((int64_t)1 << b); break;
    case '>' + '>' * 256: *v = a >> b; break;
    case '+': *v = a + b; break;
    case '-': *v = a - b; break;
    case '*': *v = a * b; break;
    case '/': *v = a / b; break;
    default: *v = a % b; break;
    }
    return *v <= INT32_MAX && *v >= INT32_MIN;
}

/* A sign of one or two characters as a number. */
static int sign_number(const token *t) {
    if (t->kind != TOKEN_SIGN || t->text.length > 2) return 0;
    return t->text.data[0] + (t->text.length > 1 ? t->text.data[1] * 256 : 0);
}

/* By precedence: | ^ & equality, order, shifts, sums, products. False: something else is there. */
static bool sum(walk *w, int level, int64_t *v, int *outermost) {
    enum { LEVELS = 8 };
    static const int signs[LEVELS][4] = {{'|'},
                                         {'^'},
                                         {'&'},
                                         {'=' + '=' * 256, '!' + '=' * 256},
                                         {'<', '>', '<' + '=' * 256, '>' + '=' * 256},
                                         {'<' + '<' * 256, '>' + '>' * 256},
                                         {'+', '-'},
                                         {'*', '/', '%'}};
    if (level == LEVELS) return unary(w, v, outermost);
    if (!sum(w, level + 1, v, outermost)) return false;
    for (;;) {
        int sign = sign_number(token_at(w, w->at)), i = 0;
        while (i < 4 && signs[level][i] && signs[level][i] != sign) i++;
        int64_t right;
        if (!sign || i == 4 || !signs[level][i]) return true;
        w->at++;
        if (!sum(w, level + 1, &right, outermost) || !apply(sign, *v, right, v)) return false;
    }
}

bool value_here(walk *w, int64_t *v, int *outermost) {
    *outermost = NO_LOOP;
    return sum(w, 0, v, outermost);
}

bool value_before(walk *w, const token *close, int64_t *v, int *outermost) {
    return value_here(w, v, outermost) && token_at(w, w->at++) == close;
}

/* Where a sign stands outside of all brackets; 'end': nowhere. */
static int place_of(const walk *w, int begin, int end, bool is_or) {
    for (int i = begin, deep = 0; i < end; i++) {
        if (is_at(w, i, "(") || is_at(w, i, "[")) deep++;
        if (is_at(w, i, ")") || is_at(w, i, "]")) deep--;
        if (!deep && (is_or ? is_at(w, i, "||") : is_at(w, i, "&&"))) return i;
    }
    return end;
}

int truth_of(walk *w, int begin, int end) {
    int was_at = w->at, outermost;
    int64_t v;
    for (int is_or = 1; is_or >= 0; is_or--) {
        int middle = place_of(w, begin, end, is_or);
        if (middle == end) continue;
        int left = truth_of(w, begin, middle), right = truth_of(w, middle + 1, end);
        if (left == is_or || right == is_or) return is_or;
        return left < 0 || right < 0 ? -1 : !is_or;
    }
    w->at = begin;
    bool is_known = value_here(w, &v, &outermost) && w->at == end;
    w->at = was_at;
    return is_known ? v != 0 : -1;
}
