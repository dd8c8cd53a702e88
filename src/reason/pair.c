/* Pass pair: two warpgroups share 64 rows, each with half of the sums. */
#include "reason/pair.h"
#include "reason/place.h"
#include "reason/warpgroups.h"

/* --- the form --------------------------------------------------------------------------------- */

static bool adds_to(const tl_statement *product, str name) {
    return product->compute.target_kind == TL_ACCUMULATE &&
           str_equal(edit_target_name(product), name);
}

/* The loop with products; those of the kernel are in one loop, and directly. */
static const char *find_loop(const tl_kernel *kernel, pair_form *form) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s)) continue;
        if (!s->parent || s->parent->kind != TL_FOR || s->parent->loop.is_grid_walk)
            return "a product is in no loop, or under a condition";
        if (form->loop && form->loop != s->parent) return "products are in several loops";
        form->loop = s->parent;
    }
    return form->loop ? NULL : "it has no products";
}

static const char *add_head(pair_form *form, tl_statement *s) {
    if (form->head_count == PAIR_HEADS_MAX) return "scores are the sum of too many products";
    bool is_first = form->head_count == 0;
    if (is_first ? s->compute.target_kind != TL_GET : !adds_to(s, edit_target_name(form->heads[0])))
        return "its first products do not add up to scores";
    form->heads[form->head_count++] = s;
    return NULL;
}

static const char *add_tail(pair_form *form, tl_statement *s) {
    if (form->tail_count == PAIR_TAILS_MAX) return "it has too many sums";
    if (s->compute.target_kind != TL_ACCUMULATE) return "a product of weights starts a sum";
    for (int i = 0; i < form->tail_count; i++)
        if (!str_equal(edit_operand_name(s, 0), edit_operand_name(form->tails[i], 0)) ||
            adds_to(s, edit_target_name(form->tails[i])))
            return "its last products are not of the same weights into sums of their own";
    form->tails[form->tail_count++] = s;
    return NULL;
}

const char *pair_read(const tl_kernel *kernel, pair_form *form) {
    *form = (pair_form){0};
    const char *why = find_loop(kernel, form);
    bool has_elements = false;
    for (tl_statement *s = why ? NULL : form->loop->loop.body.first; s && !why; s = s->next) {
        if (edit_is_product(s) && !has_elements) why = add_head(form, s);
        else if (edit_is_product(s)) why = add_tail(form, s);
        else if (s->kind == TL_LET || s->kind == TL_FOR) why = "its loop has constants or loops";
        else if (!edit_is_fill(s) && form->tail_count > 0)
            why = "something follows its last products";
        else if (!edit_is_fill(s)) has_elements = true;
    }
    bool is_even = form->tail_count > 0 && form->tail_count % PAIR == 0;
    return why ? why : is_even ? NULL : "its sums cannot be halved";
}

int pair_side(const pair_form *form, int tail) {
    return tail / (form->tail_count / PAIR);
}

int pair_side_of(const pair_form *form, int head) {
    str right = edit_operand_name(form->heads[head], 1);
    for (int i = 0; i < form->tail_count; i++)
        if (str_equal(edit_operand_name(form->tails[i], 1), right)) return pair_side(form, i);
    return -1;
}

bool pair_holds_left(const pair_form *form, int head) {
    return form->head_count > 1 && pair_side_of(form, head) < 0;
}

int64_t pair_exchange_bytes(int64_t rows, int64_t columns) {
    enum { WEIGHT_BYTES = 2, VALUE_BYTES = 4, VECTORS = 2, BARRIERS = 256 };
    return PAIR * rows * (columns * WEIGHT_BYTES + VECTORS * VALUE_BYTES) + BARRIERS;
}

/* --- the pass --------------------------------------------------------------------------------- */

bool reason_pair(reason *r) {
    tl_statement *math = warpgroups_role(r->kernel);
    pair_form form;
    if (!math || !reason_decided(r, 0, "pair")) return true;
    const char *why = pair_read(r->kernel, &form);
    if (why) return reason_stuck(r, NULL, "two warpgroups cannot share rows here: %s", why);
    if (!reason_is_never_empty(r, form.loop))
        return reason_stuck(r, form.loop, "two warpgroups share the rows of loops that surely run");
    reason_forget_stages(r);
    if (!pair_write(r, math, &form)) return false;
    reason_decide(r, "pair",
                  "two warpgroups share %d rows: each has half of the sums and makes the "
                  "weights of every other block, which the other gets through shared memory: each "
                  "block is copied once, and its scores are computed once",
                  WARPGROUP_ROWS);
    return true;
}
