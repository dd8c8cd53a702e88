/* Gradients through a softmax. */
#include "derive/reverse.h"

bool reverse_is_stored(const tape *t, int value) {
    for (int i = 0; i < t->stores.count; i++)
        if (!t->stores.items[i].is_statistic && t->stores.items[i].value == value) return true;
    return false;
}

/* --- delta ------------------------------------------------------------------------------------ */

/* In which operands (a bit each) is it linear in the weights, and does its result stay so, along
 * their axis still?
 */
static bool keeps_linear(const tape *t, const tape_item *item, const bool *is_linear,
                         unsigned *operands) {
    *operands = 0;
    for (int i = 0; i < item->operand_count; i++)
        if (item->operands[i].value >= 0 && is_linear[item->operands[i].value])
            *operands |= 1u << i;
    if (item->kind == TAPE_MASK) return *operands == 1 && str_is(item->fill, "0");
    bool is_along = tape_has_axis(t, item->value, t->normalised);
    return is_along && tl_is_linear(item->operation, *operands) && !item->sum;
}

/* sum over the row of P*dP = sum over A of dA*A, where the sums A are linear in P (Euler's
 * theorem): without a walk of its own. Where something else is made of the weights, it takes that
 * walk.
 */
bool reverse_delta(reversal *r) {
    tape *t = r->t;
    if (!tape_softmax_walk(t).length || !r->is_active[t->weights]) return true;
    bool *is_linear = arena_array(t->memory, bool, r->value_count);
    bool *is_counted = arena_array(t->memory, bool, t->sums.count + 1);
    is_linear[t->weights] = true;
    str row = t->values.items[t->weights]
                  .axes[str_equal(t->values.items[t->weights].axes[0], t->normalised)];
    t->delta_walks = reverse_is_stored(t, t->weights);
    if (t->delta_walks) return true;
    for (int i = 0; i < t->forward_items; i++) {
        tape_item item = t->items.items[i];
        unsigned operands;
        bool is_kept = keeps_linear(t, &item, is_linear, &operands);
        if (operands && is_kept) is_linear[item.value] = true;
        if (!operands || is_kept) continue;
        const tape_sum *into = item.sum ? &t->sums.items[item.sum - 1] : NULL;
        bool is_alone = into && into->start == TAPE_NONE && !into->is_nonzero;
        if (!is_alone || !str_equal(item.over, t->normalised) || (operands & (operands - 1))) {
            t->delta = TAPE_NONE, t->delta_walks = true;
            return true;
        }
        int sum = t->sums.items[item.sum - 1].value, g = t->values.items[sum].adjoint;
        if (g == TAPE_NONE || is_counted[item.sum]) continue;
        is_counted[item.sum] = true;
        int part = reverse_two(t, item.from, TL_MULTIPLY, reverse_of(g), reverse_of(sum));
        if (part == TAPE_NONE) return false;
        const tape_value v = t->values.items[part];
        for (int k = 0; k < v.axis_count && part != TAPE_NONE; k++)
            if (!str_equal(v.axes[k], row)) part = reverse_row_sum(t, item.from, part, v.axes[k]);
        if (part != TAPE_NONE && t->delta != TAPE_NONE)
            part = reverse_two(t, item.from, TL_ADD, reverse_of(t->delta), reverse_of(part));
        if (part == TAPE_NONE) return false;
        t->delta = part;
    }
    if (t->delta != TAPE_NONE) t->values.items[t->delta].name = STR("delta");
    return true;
}

/* --- the softmax ---------------------------------------------------------------------------- */

/* What lse's own gradient takes from delta. False: reported. */
static bool join_lse(reversal *r, const tape_item *item) {
    tape *t = r->t;
    int dlse = t->values.items[t->lse].adjoint;
    if (dlse == TAPE_NONE) return true;
    t->delta = reverse_two(t, item->from, TL_SUBTRACT, reverse_of(t->delta), reverse_of(dlse));
    if (t->delta != TAPE_NONE) t->values.items[t->delta].name = STR("delta");
    return t->delta != TAPE_NONE;
}

/* What m and l begin with weighs as a key does, l0*exp(m0 - lse), to which no value belongs. 'less'
 * is what each weight's gradient has taken from it; without a delta, what it is.
 */
static bool reverse_starts(reversal *r, const tl_statement *at, int less, bool is_delta) {
    tape *t = r->t;
    int m = t->starts[0], l = t->starts[1];
    if (m == TAPE_NONE || l == TAPE_NONE || (!r->is_active[m] && !r->is_active[l])) return true;
    int lse = t->items.items[tape_maker(t, t->shifted)].operands[1].value;
    int power = reverse_two(t, at, TL_SUBTRACT, reverse_of(m), reverse_of(lse));
    if (power == TAPE_NONE) return false;
    tape_item exponential = {.kind = TAPE_COMPUTE,
                             .operation = TL_EXP,
                             .operands = {reverse_of(power)},
                             .operand_count = 1};
    power = reverse_elements(t, exponential, at);
    if (power != TAPE_NONE)
        power = reverse_two(t, at, TL_MULTIPLY, reverse_of(power), reverse_of(less));
    if (power != TAPE_NONE && is_delta)
        power = reverse_two(t, at, TL_MULTIPLY, reverse_of(power), reverse_text("-1"));
    if (power == TAPE_NONE || !reverse_gain(r, at, l, power)) return false;
    return !r->is_active[m] ||
           reverse_gain(r, at, m,
                        reverse_two(t, at, TL_MULTIPLY, reverse_of(power), reverse_of(l)));
}

/* dS = P*(dP - delta + dlse), where dlse is a part of delta */
bool reverse_softmax(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    if (g == TAPE_NONE) {
        int dlse = t->values.items[t->lse].adjoint;
        return reverse_starts(r, item->from, dlse, false) &&
               reverse_gain(r, item->from, t->scores,
                            reverse_two(t, item->from, TL_MULTIPLY, reverse_of(t->weights),
                                        reverse_of(dlse)));
    }
    if (t->delta == TAPE_NONE) { /* the whole row is here, or walked for it */
        int products =
            reverse_two(t, item->from, TL_MULTIPLY, reverse_of(t->weights), reverse_of(g));
        t->delta = products == TAPE_NONE ? products
                                         : reverse_row_sum(t, item->from, products, t->normalised);
        if (t->delta == TAPE_NONE) return false;
        t->values.items[t->delta].name = STR("delta");
    }
    if (!join_lse(r, item) || !reverse_starts(r, item->from, t->delta, true)) return false;
    int wide = reverse_spread(t, item->from, g, t->weights);
    if (wide == TAPE_NONE) return false;
    int rest = reverse_two(t, item->from, TL_SUBTRACT, reverse_of(wide), reverse_of(t->delta));
    if (rest == TAPE_NONE) return false;
    t->values.items[rest].name =
        str_format(t->memory, "d%.*s", STR_ARGS(t->values.items[t->scores].name));
    return reverse_gain(
        r, item->from, t->scores,
        reverse_two(t, item->from, TL_MULTIPLY, reverse_of(t->weights), reverse_of(rest)));
}
