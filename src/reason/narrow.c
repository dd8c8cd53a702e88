/* Which kernels multiply 8-bit floats as they are; and pass promote.
 *
 * A left operand that is computed is rounded to the type of the right one. Only weights of a
 * softmax are, whose noise is known and judged: other values may have any range.
 */
#include "reason/narrow.h"

#include "reason/warpgroups.h"

bool narrow_are_multiplied(const place_plan *plan) {
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].tile->narrow != TL_OPEN) return true;
    return false;
}

/* --- weights ---------------------------------------------------------------------------------- */

/* The statement of the operand's loop that makes it so, before the product. */
static tl_statement *made_by(tl_statement *product, tl_operation operation, str name) {
    for (tl_statement *s = product->previous; s; s = s->previous)
        if (edit_is_compute(s, operation) && edit_writes(s, name)) return s;
    return NULL;
}

static bool is_written_between(tl_statement *from, tl_statement *to, str name) {
    for (tl_statement *s = from->next; s && s != to; s = s->next)
        if (edit_writes_within(s, name)) return true;
    return false;
}

/* What is subtracted from exponents: -c times it is the shift of a fused multiply-add; where scores
 * may lie far out (reason/far.h), the difference is taken first. Empty: nothing is.
 */
static str subtracted(tl_statement *power, str weights) {
    tl_statement *bias = made_by(power, TL_MULTIPLY_ADD, weights);
    if (bias && !is_written_between(bias, power, weights)) {
        tl_statement *shift = made_by(bias, TL_MULTIPLY, edit_operand_name(bias, 2));
        return shift ? edit_operand_name(shift, 0) : (str){0};
    }
    tl_statement *scaled = made_by(power, TL_MULTIPLY, weights);
    tl_statement *difference = scaled ? made_by(scaled, TL_SUBTRACT, weights) : NULL;
    bool is_exact = difference && edit_operand_is(difference, 0, weights) &&
                    edit_operand_is(scaled, 0, weights) &&
                    !is_written_between(difference, scaled, weights) &&
                    !is_written_between(scaled, power, weights);
    return is_exact ? edit_operand_name(difference, 1) : (str){0};
}

/* The maximum that a softmax's form subtracts; empty: the operand is no such weight. */
static str maximum_of(tl_statement *product) {
    str weights = edit_operand_name(product, 0);
    tl_statement *power = made_by(product, TL_EXP2, weights);
    if (!power || is_written_between(power, product, weights)) return (str){0};
    str m = subtracted(power, weights);
    tl_statement *maximum = m.length ? made_by(power, TL_ROW_MAX, m) : NULL;
    return maximum && edit_operand_is(maximum, 0, weights) ? edit_target_name(maximum) : (str){0};
}

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
    bool is_quotient = edit_is_compute(s, TL_MULTIPLY) || edit_is_compute(s, TL_DIVIDE);
    return is_quotient && edit_operand_is(s, 1, sum) && !edit_operand_is(s, 0, sum);
}

/* Are the weights, or the sums of their rows, of use but for quotients? Both are raised alike. */
static bool is_used_otherwise(reason *r, tl_statement *product) {
    str weights = edit_operand_name(product, 0), sum = {0};
    tl_statement *loop = edit_loop_of(product);
    tl_statement *power = made_by(product, TL_EXP2, weights);
    for (tl_statement *s = power->next; s; s = s->next) {
        if (!edit_reads_within(s, weights)) continue;
        bool is_sum = edit_is_compute(s, TL_ROW_SUM) && s->compute.target_kind == TL_ACCUMULATE;
        if (is_sum && !sum.length) sum = edit_target_name(s);
        else if (!edit_is_product(s) || !edit_operand_is(s, 0, weights)) return true;
    }
    for (tl_statement *s = r->kernel->body.first; s && sum.length; s = tl_next(s, NULL)) {
        if (edit_is_within(s, loop) || edit_is_before(r->kernel, s, loop)) continue;
        bool leaves = s->kind == TL_COPY && (str_equal(edit_bare(s->copy.what->text), sum) ||
                                             str_equal(edit_bare(s->copy.what->text), weights));
        if (leaves || edit_reads(s, weights) || (edit_reads(s, sum) && !divides_by(s, sum)))
            return true;
    }
    return !sum.length;
}

/* --- may they be? ----------------------------------------------------------------------------- */

static const char *computed_refusal(reason *r, const place_role *left, const place_role *right,
                                    tl_statement *s) {
    str maximum = maximum_of(s);
    if (right->tile->narrow != TL_E4M3)
        return reason_say(r, "%.*s would be rounded to %s", STR_ARGS(left->tile->name),
                          tl_type_name(right->tile->narrow));
    if (!maximum.length)
        return reason_say(r, "%.*s is computed, and no weight of a softmax",
                          STR_ARGS(left->tile->name));
    if (is_used_otherwise(r, s))
        return reason_say(r, "%.*s, or the sums of its rows, are used for more than quotients",
                          STR_ARGS(left->tile->name));
    if (is_told_apart(s, maximum))
        return reason_say(r, "%.*s, or a logarithm, is used past the loop", STR_ARGS(maximum));
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
    if (left->tile->narrow != right->tile->narrow)
        return reason_say(r, "%.*s and %.*s differ in type", STR_ARGS(left->tile->name),
                          STR_ARGS(right->tile->name));
    return NULL;
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
    int64_t wanted = 1;
    reason_let_integer(r, "promote", &wanted);
    return sums_are_cut(r) && wanted != 0;
}

static bool adds_in_loop(tl_statement *s) {
    return edit_is_product(s) && s->compute.target_kind == TL_ACCUMULATE && edit_loop_of(s);
}

bool narrow_is_promoted(reason *r, const tiles_tile *tile) {
    if (!wants_promotion(r)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (adds_in_loop(s) && str_equal(edit_bare(edit_target_name(s)), tile->name)) return true;
    return false;
}

/* --- pass promote ----------------------------------------------------------------------------- */

typedef struct promoted {
    str sum, part; /* as statements name them */
} promoted;

typedef LIST(promoted) promoted_list;

static str allocate_part(reason *r, str sum) {
    tl_statement *role = warpgroups_role(r->kernel);
    str bare = edit_bare(sum);
    str part = edit_fresh_name(r->kernel, r->memory, reason_say(r, "%.*s_block", STR_ARGS(bare)));
    tl_statement *allocation = edit_find_allocation(role->role.body.first, bare, TL_REGISTER);
    tl_statement *copy = tl_statement_copy(r->memory, allocation);
    copy->allocate.names = arena_new(r->memory, str);
    copy->allocate.names[0] = part;
    copy->allocate.name_ranges = arena_new(r->memory, diag_range);
    copy->allocate.name_count = 1;
    copy->comment = STR("of a block: products of 8 bits keep few bits of a sum");
    edit_after(r->kernel, allocation, (tl_block){copy, copy});
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
    product->compute.target = tl_quote_expr(r->memory, "%.*s", STR_ARGS(part));
    product->compute.target_kind = TL_GET;
    wait->sync.what = tl_quote_expr(r->memory, "%.*s", STR_ARGS(part));
    tl_statement *last = wait;
    while (last->next && (last->next->kind == TL_RELEASE || last->next->kind == TL_WAIT))
        last = last->next;
    edit_after(r->kernel, last,
               tl_quote(r->memory, "Compute Add %.*s, %.*s and get %.*s // in f32, block by block",
                        STR_ARGS(sum), STR_ARGS(part), STR_ARGS(sum)));
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
    edit_remove_let(r->kernel, STR("promote"));
    edit_remove_let(r->kernel, STR("products"));
    return true;
}
