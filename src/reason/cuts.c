#include "reason/cuts.h"

#include "reason/scalar.h"

#include <stdlib.h>

enum {
    SMALL_MOST = 1 << 20, /* of numbers that are added to an index */
    FAR_MOST = 1 << 30    /* no length is as long: what lies farther away is clamped to it */
};

/* sum OPERATOR 0. */
typedef struct comparison {
    tl_linear sum;
    bool is_greater, is_strict, is_different; /* >, >=; > and <; != */
} comparison;

static bool read_comparison(reason *r, const tl_expr *test, comparison *out) {
    if (test->kind != TL_BINARY) return false;
    tl_operator op = test->operator;
    bool is_order = op >= TL_LESS && op <= TL_GREATER_EQUAL;
    if ((!is_order && op != TL_NOT_EQUAL) || scalar_names_real(r, test)) return false;
    tl_linear right = linear_of(r, test->right, false);
    *out = (comparison){.sum = linear_of(r, test->left, false),
                        .is_greater = op == TL_GREATER || op == TL_GREATER_EQUAL,
                        .is_strict = op == TL_GREATER || op == TL_LESS,
                        .is_different = op == TL_NOT_EQUAL};
    tl_linear_add(&out->sum, &right, -1);
    return true;
}

/* --- one comparison --------------------------------------------------------------------------- */

/* c*y + rest > 0: y > -rest, or y < rest; 'y' is no longer in the sum. */
static cut solve_for(const comparison *of, int64_t c) {
    cut found = {.is_solved = true, .is_upper = of->is_greater == (c > 0)};
    tl_linear_add(&found.edge, &of->sum, -c);
    if (found.is_upper != of->is_strict) /* kv >= E: kv > E - 1; kv < E alike */
        found.edge.constant -= 1;
    return found;
}

static bool is_quotient(reason *r, const tl_expr *e, int64_t *divisor) {
    return e->kind == TL_BINARY &&
           e->operator== TL_OVER && e->left->kind == TL_NAME &&
           reason_known(r, e->right, divisor) &&
           *divisor > 0;
}

/* Is n times this one of a kernel's whole numbers? Of a quotient of an index it is the index at
 * most.
 */
static bool is_small(reason *r, const tl_expr *e, int64_t n) {
    int64_t divisor;
    if (e->kind == TL_INTEGER) return llabs(e->integer) <= SMALL_MOST / n;
    if (e->kind == TL_CALL && (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX)) {
        for (int i = 0; i < e->item_count; i++)
            if (!is_small(r, e->items[i], n)) return false;
        return true;
    }
    return is_quotient(r, e, &divisor) && divisor >= n && tiles_has_index(r->kernel, e->left->text);
}

static bool is_small_sum(reason *r, const tl_linear *l, int64_t n) {
    bool is_one = l->count == 0 || (l->count == 1 && llabs(l->terms[0].factor) == 1 &&
                                    is_small(r, l->terms[0].atom, n));
    return is_one && n <= SMALL_MOST && llabs(l->constant) <= SMALL_MOST / n;
}

/* The term of the axis's quotient, which is in no other: -1 where there is none. */
static int find_quotient(reason *r, str axis, const tl_linear *sum, int64_t *divisor) {
    int found = -1;
    for (int i = 0; i < sum->count; i++) {
        const tl_expr *atom = sum->terms[i].atom;
        if (!tl_expr_names(atom, axis)) continue;
        bool is_own = found < 0 && is_quotient(r, atom, divisor) &&
                      str_equal(atom->left->text, axis) && llabs(sum->terms[i].factor) == 1;
        if (!is_own) return -1;
        found = i;
    }
    return found;
}

/* kv/n > E where kv > n*E + n - 1, and kv/n <= E where kv <= that. */
static cut solve_quotient(reason *r, str axis, comparison of) {
    int64_t n = 0;
    int at = find_quotient(r, axis, &of.sum, &n);
    if (at < 0) return (cut){0};
    int64_t c = of.sum.terms[at].factor;
    tl_linear_drop(&of.sum, at);
    if (!is_small_sum(r, &of.sum, n)) return (cut){0};
    cut found = solve_for(&of, c);
    tl_linear edge = {.constant = n - 1};
    tl_linear_add(&edge, &found.edge, n);
    found.edge = edge;
    found.is_solved = !edge.is_broken;
    return found;
}

static cut solve(reason *r, str axis, comparison of) {
    int64_t c;
    if (of.sum.is_broken || of.is_different) return (cut){0};
    if (!linear_factor(&of.sum, axis, &c) || (c != 1 && c != -1))
        return solve_quotient(r, axis, of);
    linear_drop(&of.sum, axis);
    return solve_for(&of, c);
}

cut cuts_solve(reason *r, str axis, const tl_expr *test) {
    comparison of;
    return read_comparison(r, test, &of) ? solve(r, axis, of) : (cut){0};
}

/* --- conditions ------------------------------------------------------------------------------- */

typedef struct reading {
    reason *r;
    str axis;
    int most;
    bool is_cut;
} reading;

static void add(reading *c, cuts_list *to, const cuts *one) {
    if (to->items.count < c->most) list_push(c->r->memory, &to->items, *one);
    else c->is_cut = true;
}

static cuts_list one_of(reading *c, comparison of) {
    cuts_list list = {0};
    cuts one = {.is_whole = true};
    one.items[0] = solve(c->r, c->axis, of);
    one.count = one.is_whole = one.items[0].is_solved;
    add(c, &list, &one);
    return list;
}

static cuts_list either(reading *c, const cuts_list *a, const cuts_list *b) {
    cuts_list list = {0};
    for (int i = 0; i < a->items.count; i++) add(c, &list, &a->items.items[i]);
    for (int i = 0; i < b->items.count; i++) add(c, &list, &b->items.items[i]);
    return list;
}

static cuts together(const cuts *a, const cuts *b) {
    cuts both = *a;
    both.is_whole = a->is_whole && b->is_whole;
    for (int i = 0; i < b->count; i++) {
        if (both.count == CUTS_TOGETHER_MAX) both.is_whole = false;
        else both.items[both.count++] = b->items[i];
    }
    return both;
}

static cuts_list each(reading *c, const cuts_list *a, const cuts_list *b) {
    cuts_list list = {0};
    for (int i = 0; i < a->items.count; i++)
        for (int k = 0; k < b->items.count; k++) {
            cuts both = together(&a->items.items[i], &b->items.items[k]);
            add(c, &list, &both);
        }
    return list;
}

/* A number that only the launch knows may be so large that its sum with an index is none: in
 * abs(q - kv) > w it is in no sum.
 */
static void clamp_given(reason *r, tl_linear *l) {
    for (int i = 0; i < l->count; i++) {
        const tl_expr *atom = l->terms[i].atom;
        int64_t value;
        bool is_place = atom->kind == TL_NAME && tiles_has_index(r->kernel, atom->text);
        if (is_place || reason_known(r, atom, &value)) continue;
        l->terms[i].atom = tl_quote_expr(r->memory, "max(-%d, min(%d, %s))", FAR_MOST, FAR_MOST,
                                         edit_text(r->memory, atom));
    }
}

/* c*abs(x) + rest against 0, as comparisons of c*x + rest and of -c*x + rest. */
static bool open_abs(reading *c, const comparison *of, comparison *up, comparison *down,
                     bool *is_either) {
    for (int i = 0; i < of->sum.count; i++) {
        const tl_linear_term *t = &of->sum.terms[i];
        bool is_abs = t->atom->kind == TL_CALL && t->atom->function == TL_FUNCTION_ABS;
        if (!is_abs || !tl_expr_names(t->atom, c->axis) || of->is_different) continue;
        tl_linear inner = linear_of(c->r, t->atom->items[0], false);
        *up = *down = *of;
        tl_linear_drop(&up->sum, i);
        clamp_given(c->r, &up->sum);
        down->sum = up->sum;
        tl_linear_add(&up->sum, &inner, t->factor);
        tl_linear_add(&down->sum, &inner, -t->factor);
        *is_either = of->is_greater == (t->factor > 0);
        return true;
    }
    return false;
}

/* Quotients that differ are whole numbers: one is less, or greater. */
static bool open_different(reading *c, const comparison *of, comparison *up, comparison *down) {
    if (!of->is_different) return false;
    *up = *down = *of;
    up->is_different = down->is_different = false;
    up->is_strict = down->is_strict = up->is_greater = true;
    down->is_greater = false;
    return solve_quotient(c->r, c->axis, *up).is_solved;
}

static cuts_list read_condition(reading *c, const tl_expr *e) {
    bool is_or = e->kind == TL_BINARY && e->operator== TL_OR;
    if (is_or || (e->kind == TL_BINARY && e->operator== TL_AND)) {
        cuts_list left = read_condition(c, e->left), right = read_condition(c, e->right);
        return is_or ? either(c, &left, &right) : each(c, &left, &right);
    }
    comparison of = {.is_different = true}, up, down;
    bool is_either = true;
    if (!read_comparison(c->r, e, &of) ||
        (!open_different(c, &of, &up, &down) && !open_abs(c, &of, &up, &down, &is_either)))
        return one_of(c, of);
    cuts_list above = one_of(c, up), below = one_of(c, down);
    return is_either ? either(c, &above, &below) : each(c, &above, &below);
}

cuts_list cuts_of(reason *r, str axis, const tl_expr *condition, int most) {
    reading c = {.r = r, .axis = axis, .most = most};
    cuts_list list = read_condition(&c, condition);
    list.is_cut = c.is_cut;
    return list;
}
