/* Pass peel: the first iteration is before its loop.
 *
 * Where a loop has an `if` that only its first iteration takes, every iteration pays for the
 * branch, and the compiler orders the statements around it worse. When the loop surely runs at
 * least once, its first iteration is written out before it and the branch is gone from both. The
 * price is text.
 */
#include "reason/peel.h"
#include "reason/tiles.h"

typedef struct replacement {
    str name;
    const tl_expr *value;
} replacement;

static void replace_name(void *context, tl_expr *e) {
    const replacement *r = context;
    if (e->kind == TL_NAME && str_equal(e->text, r->name)) *e = *r->value;
    bool is_sum = e->kind == TL_BINARY && e->operator== TL_PLUS;
    if (!is_sum) return;
    /* 0 + 1 is written 1; the parts are visited after their whole, so look ahead. */
    bool left_is_it = e->left->kind == TL_NAME && str_equal(e->left->text, r->name);
    const tl_expr *left = left_is_it ? r->value : e->left;
    if (left->kind != TL_INTEGER || e->right->kind != TL_INTEGER) return;
    int64_t sum;
    if (__builtin_add_overflow(left->integer, e->right->integer, &sum)) return;
    *e = (tl_expr){.kind = TL_INTEGER, .integer = sum};
}

void peel_put(tl_block *block, str name, const tl_expr *value) {
    replacement r = {name, value};
    for (tl_statement *s = block->first; s; s = s->next) {
        tl_each_expr(s, replace_name, &r);
        if (tl_statement_body(s)) peel_put(tl_statement_body(s), name, value);
    }
}

typedef enum first_test { NO_TEST, FIRST_ONLY, LATER_ONLY } first_test;

/* Of the loop `for j = A:B`: is s `if j == A`, or `if j > A`? */
static first_test test_of(const tl_statement *s, const tl_statement *loop) {
    if (s->kind != TL_IF) return NO_TEST;
    const tl_expr *c = s->branch.condition;
    bool is_about_first = c->kind == TL_BINARY && c->left->kind == TL_NAME &&
                          str_equal(c->left->text, loop->loop.name) &&
                          tl_expr_equal(c->right, loop->loop.from);
    if (!is_about_first) return NO_TEST;
    return c->operator== TL_EQUAL ? FIRST_ONLY : c->operator== TL_GREATER ? LATER_ONLY : NO_TEST;
}

bool peel_has_test(const tl_statement *loop) {
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next)
        if (test_of(s, loop) != NO_TEST) return true;
    return false;
}

/* Is the constant read after its let, in statements that the iteration has? */
static bool is_read(const tl_statement *let, const tl_statement *loop, first_test absent) {
    for (tl_statement *s = let->next; s; s = s->next)
        for (int i = 0; test_of(s, loop) != absent && i < let->let.count; i++)
            if (edit_reads_within(s, let->let.items[i].name)) return true;
    return false;
}

tl_block peel_iteration(reason *r, const tl_statement *loop, const tl_statement *from,
                        const tl_statement *to, bool is_first) {
    tl_block made = {0};
    first_test absent = is_first ? LATER_ONLY : FIRST_ONLY;
    for (const tl_statement *s = from; s != to; s = s->next) {
        first_test test = test_of(s, loop);
        if (test == absent || (s->kind == TL_LET && !is_read(s, loop, absent))) continue;
        bool is_inside = test != NO_TEST;
        const tl_statement *t = is_inside ? s->branch.body.first : s;
        for (; t; t = is_inside ? t->next : NULL)
            tl_block_append(&made, NULL, tl_statement_copy(r->memory, t));
    }
    if (is_first) peel_put(&made, loop->loop.name, loop->loop.from);
    return made;
}

void peel_advance(reason *r, tl_statement *loop) {
    tl_expr *second =
        tl_quote_expr(r->memory, "%s + 1", edit_factor_text(r->memory, loop->loop.from));
    replacement nothing = {STR(""), loop->loop.from};
    replace_name(&nothing, second);
    loop->loop.from = second;
    if (loop->comment.length == 0) loop->comment = STR("the first iteration stands above");
}

static void peel(reason *r, tl_statement *loop) {
    const tl_statement *body = loop->loop.body.first;
    tl_block later = peel_iteration(r, loop, body, NULL, false);
    edit_before(r->kernel, loop, peel_iteration(r, loop, body, NULL, true));
    loop->loop.body = (tl_block){0};
    edit_append(&loop->loop.body, loop, later);
    peel_advance(r, loop);
}

bool reason_wants_peel(reason *r) {
    int64_t wanted = reason_decided(r, -1, "peel");
    return wanted < 0 ? tiles_copy_async(r) : wanted > 0;
}

bool reason_peel(reason *r) {
    bool wants = reason_wants_peel(r);
    int64_t wanted = reason_decided(r, -1, "peel");
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_FOR || s->loop.is_grid_walk || !peel_has_test(s)) continue;
        const char *j = edit_z(r->memory, s->loop.name);
        if (reason_is_never_empty(r, s)) reason_offers_switch(r, "peel", wants);
        if (!reason_is_never_empty(r, s)) {
            reason_decide(r, "first iteration",
                          "the loop over %s may run not at all: its first "
                          "iteration stays inside",
                          j);
        } else if (wanted == 0) {
            reason_decide(r, "first iteration", "stays in the loop over %s, as %s", j,
                          reason_pin_word(r, "peel"));
        } else if (!wants) {
            reason_decide(r, "first iteration",
                          "stays in the loop over %s: its copies pass through "
                          "registers, and the text would double",
                          j);
        } else {
            peel(r, s);
            reason_decide(r, "first iteration",
                          "stands before the loop over %s, which is rid of its "
                          "branch",
                          j);
        }
    }
    return true;
}
