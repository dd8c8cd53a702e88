/* Pass bytes: products of 8 bits by warps (decision 022).
 *
 *   - the kernel multiplies 8-bit floats as they are where the GPU has a unit for that and every
 *     product can: its operands are 8-bit Inputs of one type, or the left one is a softmax's
 *     weights, which are rounded to the right one's type;
 *   - these weights are 2^8 at most instead of 1, so that few of them fall below the type's range:
 *     the exponent of each is 8 more, numerator and denominator alike. The denominator adds them as
 *     they are rounded (pass place): many that are equal round alike;
 *   - sums go to f32 with each block where the GPU cuts them: a product gets a tile of its own, and
 *     an Add takes it over;
 *   - sums of i8 are i32, exact in any block, and go to f32 with each: no length makes them
 * overflow.
 */
#include "atom/atom.h"
#include "reason/narrow.h"
#include "reason/scalar.h"
#include "reason/softmax.h"

enum {
    DEEP_UNIT = 32, /* an instruction contracts so many elements */
    OFFSET = 8,     /* octaves by which weights are raised: 2^8 of 448 */
    WEIGHTS_MOST = 8
};

/* A softmax whose weights are a left operand, and what has to know that they are raised. */
typedef struct weights {
    softmax_weights of;
    str sums[WEIGHTS_MOST];
    int sum_count;
} weights;

typedef struct kinds {
    weights softmax[WEIGHTS_MOST];
    int count;
} kinds;

/* --- what the operands are -------------------------------------------------------------------- */

static tl_type type_of(reason *r, str name) {
    const tl_statement *copy = edit_load_of(r->kernel, name);
    return copy ? tiles_tensor_type(r->kernel, copy->copy.what->text) : TL_OPEN;
}

static bool has_byte_operand(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        for (int i = 0; edit_is_product(s) && i < 2; i++)
            if (tl_is_narrow(type_of(r, edit_operand_name(s, i)))) return true;
    return false;
}

/* --- weights ---------------------------------------------------------------------------------- */

static const char *find_weights(const tl_statement *product, softmax_weights *w) {
    return softmax_read(product, w) && softmax_has_sum(w)
               ? NULL
               : "the left operand is computed, and is not the weights of a softmax in the online "
                 "form: nothing says that 8 bits hold it";
}

/* In the loop, and before: only the start at 0, the rescale, and what adds. */
static bool is_own_step(reason *r, const weights *w, tl_statement *s) {
    double value;
    if (edit_is_compute(s, TL_FILL))
        return scalar_number(r, s->compute.operands[0].value, &value) && value == 0;
    if (edit_is_compute(s, TL_MULTIPLY) && s->compute.target_kind == TL_GET)
        return edit_operand_is(s, 0, edit_target_name(s)) && edit_operand_name(s, 1).length > 0;
    return s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE &&
           (edit_is_product(s) || edit_operand_is(s, 0, w->of.s));
}

/* After it: sums over l alone, in whose quotient the offset and what weights share of their
 * rounding are gone. The logarithm of l wants the exact sum.
 */
static const char *check_after(reason *r, const weights *w) {
    static const char otherwise[] = "the softmax's denominator, a sum of rounded weights, is used "
                                    "for more than quotients, or its sums before they are divided";
    bool is_divided[WEIGHTS_MOST] = {0};
    const tl_statement *loop = edit_loop_of(w->of.power);
    str inverse = w->of.l;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        bool of_l = edit_reads(s, w->of.l) || edit_writes(s, w->of.l) || edit_reads(s, inverse);
        bool of_sum = false;
        for (int i = 0; i < w->sum_count; i++)
            of_sum |=
                !is_divided[i] && (edit_reads(s, w->sums[i]) || edit_writes(s, w->sums[i]) ||
                                   (s->kind == TL_COPY && tl_expr_names(s->copy.what, w->sums[i])));
        if (s->kind == TL_COPY && s->copy.to == TL_GLOBAL)
            of_l |= tl_expr_names(s->copy.what, w->of.l);
        if (!of_l && !of_sum) continue;
        if (loop && (edit_is_within(s, loop) || edit_is_before(r->kernel, s, loop))) {
            if (!is_own_step(r, w, s)) return otherwise;
            continue;
        }
        bool is_quotient = false;
        for (int i = 0; i < w->sum_count; i++)
            if (edit_fits(s, "Divide 0, 1", w->sums[i], inverse) ||
                edit_fits(s, "Multiply 0, 1", w->sums[i], inverse))
                is_quotient = is_divided[i] = true;
        double least;
        bool is_inverse =
            edit_fits(s, "Reciprocal 0", inverse) ||
            (edit_fits(s, "Max 0", inverse) &&
             scalar_number(r, s->compute.operands[1].value, &least) && least <= 1e-20);
        bool asks_for_sign = /* `Mask m where l <= 0` */
            edit_is_compute(s, TL_MASK) && !of_sum && !edit_writes(s, w->of.l);
        if (is_inverse && !is_quotient) inverse = edit_target_name(s);
        else if (!is_quotient && !asks_for_sign) return otherwise;
    }
    return NULL;
}

static const char *read_weights(tl_statement *product, kinds *all) {
    str s = edit_operand_name(product, 0);
    for (int i = 0; i < all->count; i++) {
        weights *known = &all->softmax[i];
        if (!str_equal(known->of.s, s)) continue;
        weights again = {0};
        const char *why = find_weights(product, &again.of);
        if (why || again.of.shift != known->of.shift)
            return why ? why : "one tile has weights twice";
        if (known->sum_count == WEIGHTS_MOST) return "too many products take the weights";
        known->sums[known->sum_count++] = edit_target_name(product);
        return NULL;
    }
    if (all->count == WEIGHTS_MOST) return "there are too many softmaxes";
    weights w = {0};
    const char *why = find_weights(product, &w.of);
    if (why) return why;
    if (product->compute.target_kind != TL_ACCUMULATE)
        return "what the weights give is not added up";
    w.sums[w.sum_count++] = edit_target_name(product);
    all->softmax[all->count++] = w;
    return NULL;
}

/* --- may they? -------------------------------------------------------------------------------- */

/* Whole numbers are summed up exactly, in 32 bits: no sum is too long for a block of them. */
static bool is_whole(reason *r, const tl_statement *s) {
    return type_of(r, edit_operand_name(s, 1)) == TL_I8;
}

static const char *refuse_product(reason *r, tl_statement *s, kinds *all) {
    str left = edit_operand_name(s, 0), right = edit_operand_name(s, 1);
    tl_type type = type_of(r, right), left_type = type_of(r, left);
    if (!tl_is_narrow(type) || edit_is_computed(r->kernel, right))
        return reason_say(r, "%.*s is not an 8-bit Input as it is", STR_ARGS(right));
    if (!atom_best_product(r->target, type, false))
        return reason_say(r, "the GPU has no products of %s", tl_type_name(type));
    if (s->compute.operands[0].is_transposed)
        return reason_say(r, "%.*s is transposed", STR_ARGS(left));
    if (left_type != TL_OPEN && (left_type != type || edit_is_computed(r->kernel, left)))
        return reason_say(r, "%.*s is not of the type %s as it is", STR_ARGS(left),
                          tl_type_name(type));
    str row, column;
    int64_t deep;
    const tiles_list *tiles = tiles_read(r);
    if (tiles_operand_axes(tiles, &s->compute.operands[1], &row, &column) &&
        reason_known(r, tiles_extent(tiles, row)->extent, &deep)) {
        if (deep % DEEP_UNIT)
            return reason_say(r, "the contracted length %lld is no multiple of %d", (long long)deep,
                              DEEP_UNIT);
        if (deep > GPU_SHORT_SUM_MOST && type != TL_I8)
            return reason_say(r, "%lld terms are too many for one sum", (long long)deep);
    }
    bool is_permuted = tiles_is_permuted(r->kernel, right);
    if (left_type != TL_OPEN && is_permuted != tiles_is_permuted(r->kernel, left))
        return reason_say(r, "%.*s and %.*s differ in the order of what they contract",
                          STR_ARGS(left), STR_ARGS(right));
    if (left_type != TL_OPEN) return NULL;
    if (type == TL_I8)
        return reason_say(r, "%.*s is computed: nothing says that whole numbers hold it",
                          STR_ARGS(left));
    if (s->compute.operands[1].is_transposed && !is_permuted)
        return reason_say(r,
                          "%.*s is computed, and %.*s does not lie across: their elements are in "
                          "other orders",
                          STR_ARGS(left), STR_ARGS(right));
    return read_weights(s, all);
}

static const char *refusal(reason *r, kinds *all) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        const char *why = edit_is_product(s) ? refuse_product(r, s, all) : NULL;
        if (why) return why;
    }
    for (int i = 0; i < all->count; i++) {
        const char *why = check_after(r, &all->softmax[i]);
        if (why) return why;
    }
    return NULL;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void raise_weights(reason *r, const kinds *all) {
    for (int i = 0; i < all->count; i++) {
        tl_statement *shift = all->softmax[i].of.shift;
        bool is_of_row = !edit_writes(shift, all->softmax[i].of.s);
        reason_replace(
            r, shift, "Compute MultiplyAdd %s, %s, %d and get %.*s // %sthe largest weight is 2^%d",
            edit_text(r->memory, shift->compute.operands[0].value),
            edit_text(r->memory, shift->compute.operands[1].value), OFFSET,
            STR_ARGS(edit_target_name(shift)), is_of_row ? "once a row; " : "", OFFSET);
    }
}

/* The `Multiply SUM, FACTOR and get SUM` of this round, if nothing else touches either up to 's'.
 */
static tl_statement *rescale_of(tl_statement *s, str sum) {
    tl_statement *scale = edit_last_write(s, sum);
    if (!edit_fits(scale, "Multiply 0, _ and get 0", sum)) return NULL;
    str factor = edit_operand_name(scale, 1);
    for (tl_statement *t = scale->next; t != s; t = t->next)
        if (edit_reads_within(t, sum) || (factor.length && edit_writes_within(t, factor)))
            return NULL;
    return factor.length ? scale : NULL;
}

static void promote_sums(reason *r, bool cuts) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_product(s)) continue;
        bool adds = s->compute.target_kind == TL_ACCUMULATE, whole = is_whole(r, s);
        if (!whole && !(adds && cuts && edit_loop_of(s))) continue;
        str sum = edit_target_name(s), part = reason_fresh(r, "T");
        tl_statement *scale = adds ? rescale_of(s, sum) : NULL;
        if (!adds) {
            reason_after(r, s, "Compute Cast %.*s and get %.*s // from i32", STR_ARGS(part),
                         STR_ARGS(sum));
        } else if (scale) {
            str factor = edit_operand_name(scale, 1);
            reason_after(r, s,
                         "Compute MultiplyAdd %.*s, %.*s, %.*s and get %.*s // the sum so far, "
                         "rescaled, and this block's, in f32",
                         STR_ARGS(sum), STR_ARGS(factor), STR_ARGS(part), STR_ARGS(sum));
            edit_remove(r->kernel, scale);
        } else {
            reason_after(r, s, "Compute Add %.*s, %.*s and get %.*s // in f32", STR_ARGS(sum),
                         STR_ARGS(part), STR_ARGS(sum));
        }
        s->compute.target = tl_name_expr(r->memory, part);
        s->compute.target_kind = TL_GET;
    }
}

static bool has_whole(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && is_whole(r, s)) return true;
    return false;
}

static bool has_float(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && !is_whole(r, s)) return true;
    return false;
}

static bool wants_promotion(reason *r) {
    if (!has_float(r)) return false;
    bool cut = gpu_cuts_byte_sums(r->target);
    int64_t wanted = reason_decided(r, cut, "promote");
    reason_offers_switch(r, "promote", wanted != 0);
    if (wanted)
        reason_decide(r, "sums of 8-bit products",
                      "go to f32 with each block: the GPU keeps %lld bits of them",
                      (long long)r->target->mma8_sum_bits);
    else
        reason_decide(
            r, "sums of 8-bit products", "%s",
            cut ? "stay where the GPU cuts them, as pinned: terms of one sign get lost in "
                  "long sums"
                : "are as exact as those of 16 bits");
    return wanted != 0;
}

static bool has_unit(reason *r) {
    if (has_whole(r) && !has_float(r)) return gpu_has(r->target, GPU_FEATURE_int8_mma);
    return gpu_product_rate(r->target, 1, false) > gpu_product_rate(r->target, 2, false);
}

bool reason_bytes(reason *r) {
    enum { NARROW = 8, WIDE = 16 };
    int64_t wanted = 0;
    if (gpu_has(r->target, GPU_FEATURE_wgmma)) return true; /* pass tile decides there */
    bool is_pinned = reason_let_integer(r, "products", &wanted);
    if (is_pinned && wanted != NARROW && wanted != WIDE)
        return reason_stuck(r, NULL, "products are of 8 or 16 bits, not %lld", (long long)wanted);
    edit_remove_let(r->kernel, STR("products"));
    if (!has_byte_operand(r))
        return wanted != NARROW ||
               reason_stuck(r, NULL, "no product of kernel %.*s has operands of 8 bits",
                            STR_ARGS(r->kernel->name));
    kinds all = {0};
    bool has_products = gpu_has(r->target, GPU_FEATURE_fp8_mma) || has_unit(r);
    const char *why = !has_products                ? "the GPU has no products of 8 bits"
                      : wanted == WIDE             ? reason_pin_word(r, "products")
                      : !is_pinned && !has_unit(r) ? "the GPU has no faster ones by warps"
                                                   : refusal(r, &all);
    place_plan plan = {.warps = 4};
    if (!why) reason_let(r, "products", NARROW);
    if (!why && !place_plan_read(r, &plan)) return false;
    if (!why && plan.mixes_orders)
        why = "a tile meets sums whose columns are in another order, or is loaded in 16 bits";
    if (why && wanted == NARROW)
        return reason_stuck(r, NULL, "products cannot be of 8 bits: %s", why);
    if (why && !narrow_may_widen(r, why)) return false;
    if (why) {
        edit_remove_let(r->kernel, STR("products"));
        reason_decide(r, "products", "are of 16 bits, to which Inputs of fewer widen: %s", why);
    } else {
        reason_offers_choice(r, "products", NARROW, (const int64_t[]){NARROW, WIDE}, 2);
        reason_decide(r, "products", "are of 8 bits: all their Inputs are, and the GPU has them");
        raise_weights(r, &all);
        bool cuts = wants_promotion(r);
        if (has_whole(r))
            reason_decide(r, "sums of whole numbers",
                          "are i32, exact in each block, and go to f32 with it");
        promote_sums(r, cuts);
    }
    return true;
}
