/* Which kernels multiply 8-bit floats as they are; and pass promote.
 *
 * A left operand that is computed is rounded to the type of the right one. Only weights of a
 * softmax are, whose noise is known and judged: other values may have any range.
 */
#include "reason/narrow.h"

#include "reason/softmax.h"
#include "reason/warpgroups.h"

bool narrow_are_multiplied(const place_plan *plan) {
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].tile->narrow != TL_OPEN) return true;
    return false;
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Is the maximum, or a logarithm, of use past the loop? Weights are not those of the maximum. */
static bool is_told_apart(tl_statement *product, str maximum) {
    tl_statement *loop = edit_loop_of(product);
    for (tl_statement *s = loop ? loop->next : NULL; s; s = s->next)
        for (tl_statement *t = s; t; t = tl_next(t, s))
            if (edit_reads(t, maximum) || edit_is_compute(t, TL_LOG) ||
                edit_is_compute(t, TL_LOG2) ||
                (t->kind == TL_COPY && str_equal(edit_bare(t->copy.what->text), maximum)))
                return true;
    return loop && loop->parent && loop->parent->kind == TL_FOR;
}

/* Does the statement leave what it reads of the sum no use but as the divisor of a quotient? */
static bool divides_by(tl_statement *s, str sum) {
    if (s->kind == TL_RESHAPE) return true;
    if (edit_is_compute(s, TL_MAX) || edit_is_compute(s, TL_RECIPROCAL))
        return edit_operand_is(s, 0, sum) && edit_writes(s, sum);
    bool is_quotient = edit_fits(s, "Multiply _, 0", sum) || edit_fits(s, "Divide _, 0", sum);
    return is_quotient && !edit_operand_is(s, 0, sum);
}

/* Are the weights, or the sums of their rows, of use but for quotients? Both are raised alike. */
static bool is_used_otherwise(reason *r, tl_statement *product, softmax_weights *w) {
    tl_statement *loop = edit_loop_of(product);
    if (!softmax_has_sum(w)) return true;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (edit_is_within(s, loop) || edit_is_before(r->kernel, s, loop)) continue;
        str copied = s->kind == TL_COPY ? edit_bare(s->copy.what->text) : (str){"", 0};
        if (str_equal(copied, w->l) || str_equal(copied, w->s) || edit_reads(s, w->s) ||
            (edit_reads(s, w->l) && !divides_by(s, w->l)))
            return true;
    }
    return false;
}

/* --- may they be? ----------------------------------------------------------------------------- */

static const char *computed_refusal(reason *r, const place_role *left, const place_role *right,
                                    tl_statement *s) {
    softmax_weights w;
    if (right->tile->narrow != TL_E4M3)
        return reason_say(r, "%.*s would be rounded to %s", STR_ARGS(left->tile->name),
                          tl_type_name(right->tile->narrow));
    if (!softmax_read(s, &w))
        return reason_say(r, "%.*s is computed, and no weight of a softmax",
                          STR_ARGS(left->tile->name));
    if (is_used_otherwise(r, s, &w))
        return reason_say(r, "%.*s, or the sums of its rows, are used for more than quotients",
                          STR_ARGS(left->tile->name));
    if (is_told_apart(s, w.m))
        return reason_say(r, "%.*s, or a logarithm, is used past the loop", STR_ARGS(w.m));
    return NULL;
}

static const char *product_refusal(reason *r, const place_plan *plan, tl_statement *s) {
    const place_role *left = place_find(plan, edit_operand_name(s, 0));
    const place_role *right = place_find(plan, edit_operand_name(s, 1));
    if (!left || !right) return "a product has an operand that is no tile";
    if (right->tile->narrow != TL_E4M3 && right->tile->narrow != TL_E5M2)
        return reason_say(r, "%.*s is no 8-bit float", STR_ARGS(right->tile->name));
    if (!s->compute.operands[1].is_transposed)
        return reason_say(r,
                          "%.*s lies across: products of 8 bits by warpgroups take a right operand "
                          "whose contracted axis is the contiguous one",
                          STR_ARGS(right->tile->name));
    if (!left->tile->from_global) return computed_refusal(r, left, right, s);
    if (tiles_is_permuted(r->kernel, left->tile->name) !=
        tiles_is_permuted(r->kernel, right->tile->name))
        return reason_say(r, "%.*s and %.*s differ in the order of what they contract",
                          STR_ARGS(left->tile->name), STR_ARGS(right->tile->name));
    if (left->tile->narrow != right->tile->narrow)
        return reason_say(r, "%.*s and %.*s differ in type", STR_ARGS(left->tile->name),
                          STR_ARGS(right->tile->name));
    return NULL;
}

bool narrow_may_widen(reason *r, const char *why) {
    str permuted = tiles_permuted_input(r->kernel);
    return !permuted.length ||
           reason_stuck(r, NULL,
                        "%.*s is permuted, an order for products of 8 bits, and here operands "
                        "would widen to 16: %s",
                        STR_ARGS(permuted), why);
}

const char *narrow_refusal(reason *r, const place_plan *plan) {
    if (!gpu_has(r->target, GPU_FEATURE_wgmma) || gpu_product_rate(r->target, 1, true) <= 0)
        return "the GPU has no such products by warpgroups";
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        const char *why = edit_is_product(s) ? product_refusal(r, plan, s) : NULL;
        if (why) return why;
    }
    return NULL;
}

/* --- sums ------------------------------------------------------------------------------------- */

static bool sums_are_cut(reason *r) {
    return tiles_multiplies_bytes(r->kernel) && !tiles_has_byte_warps(r) &&
           gpu_cuts_byte_sums(r->target);
}

static bool wants_promotion(reason *r) {
    return sums_are_cut(r) && reason_decided(r, 1, "promote") != 0;
}

bool narrow_is_promoted(reason *r, const tiles_tile *tile) {
    if (!wants_promotion(r)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_fits_names(s, "GEMM _, _ and accumulate _", NULL) && edit_loop_of(s) &&
            str_equal(edit_bare(edit_target_name(s)), tile->name))
            return true;
    return false;
}

/* --- pass promote ----------------------------------------------------------------------------- */

typedef struct promoted {
    str sum, part; /* as statements name them */
} promoted;

typedef LIST(promoted) promoted_list;

static str allocate_part(reason *r, str sum) {
    tl_statement *role = warpgroups_role(r->kernel);
    str part = reason_fresh(r, "%.*s_block", STR_ARGS(edit_bare(sum)));
    edit_allocate_like(r->kernel, r->memory,
                       edit_find_allocation(role->role.body.first, sum, TL_REGISTER), part,
                       "of a block: products of 8 bits keep few bits of a sum");
    return part;
}

static str part_of(reason *r, promoted_list *all, str sum) {
    for (int i = 0; i < all->count; i++)
        if (str_equal(all->items[i].sum, sum)) return all->items[i].part;
    promoted one = {sum, allocate_part(r, sum)};
    list_push(r->memory, all, one);
    return one.part;
}

/* The product's sums go to a tile of their own; where they have landed, f32 takes them over. */
static bool promote(reason *r, promoted_list *all, tl_statement *product) {
    str sum = edit_target_name(product);
    tl_statement *wait = product->next;
    while (wait && !(wait->kind == TL_WAIT && str_equal(wait->sync.what->text, sum)))
        wait = wait->next;
    if (!wait)
        return reason_stuck(r, product, "nothing waits for %.*s beside its product", STR_ARGS(sum));
    str part = part_of(r, all, sum);
    product->compute.target = tl_name_expr(r->memory, part);
    product->compute.target_kind = TL_GET;
    wait->sync.what = tl_name_expr(r->memory, part);
    tl_statement *last = wait;
    while (last->next && (last->next->kind == TL_RELEASE || last->next->kind == TL_WAIT))
        last = last->next;
    reason_after(r, last, "Compute Add %.*s, %.*s and get %.*s // in f32, block by block",
                 STR_ARGS(sum), STR_ARGS(part), STR_ARGS(sum));
    return true;
}

bool reason_promote(reason *r) {
    promoted_list all = {0};
    bool is_cut = sums_are_cut(r), wants = wants_promotion(r);
    for (tl_statement *s = r->kernel->body.first, *next; s && wants; s = next) {
        next = tl_next(s, NULL);
        bool adds = edit_is_product(s) && s->compute.target_kind == TL_ACCUMULATE;
        if (adds && !promote(r, &all, s)) return false;
    }
    for (int i = 0; i < all.count; i++)
        reason_decide(r, "sums",
                      "%.*s takes over the sums of each block in f32: products of 8 bits keep %lld "
                      "bits of a sum, and terms of one sign would get lost",
                      STR_ARGS(all.items[i].sum), (long long)r->target->mma8_sum_bits);
    if (is_cut && (all.count > 0 || !wants)) reason_offers_switch(r, "promote", wants);
    if (is_cut && !wants)
        reason_decide(r, "sums", "stay in products of 8 bits, which keep %lld bits of them, as %s",
                      (long long)r->target->mma8_sum_bits, reason_pin_word(r, "promote"));
    return true;
}
