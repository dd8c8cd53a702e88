/* Pass fold: fewer operations per element, the meaning kept.
 *
 *   - a positive scale before a row maximum sinks below it: the maximum is kept in unscaled units;
 *   - exponentials go to base 2, the factor joins other factors of the same tile;
 *   - in an exponent, (S - m)*c becomes one fused multiply-add with -m*c, computed once a row,
 *     unless a whole row may lie far out; a positive factor of S goes into c;
 *   - what is the same for a whole tile (slope[head]) is computed once, by a let;
 *   - Multiply, then Add, becomes one fused multiply-add; masks of one tile become one.
 */
#include "reason/far.h"
#include "reason/linear.h"
#include "reason/names.h"
#include "reason/scalar.h"
#include "reason/terms.h"

#include <math.h>

static const char LOG2E[] = "1.44269504";

/* --- scales sink below the maximum ------------------------------------------------------------ */

enum { FOLD_SITES_MAX = 16 };

/* One maximum whose scores are multiplied by one positive factor everywhere. */
typedef struct sink {
    str m, m_old;
    tl_expr *factor;
    tl_statement *multiplies[FOLD_SITES_MAX];
    int multiply_count;
    tl_statement *differences[FOLD_SITES_MAX]; /* Subtract X, m · Subtract m_old, m */
    int difference_count;
    tl_statement *starts[FOLD_SITES_MAX], *readers[FOLD_SITES_MAX];
    int start_count, reader_count;
    const char *why; /* it may not sink */
} sink;

static bool refuse(sink *k, const char *why) {
    k->why = why;
    return false;
}

static bool is_bare_mask(const tl_statement *s) {
    return edit_is_compute(s, TL_MASK) && s->compute.operand_count == 1;
}

/* The `Multiply X, factor and get X` whose result a use of X sees through masks and maxima only. */
static tl_statement *scale_before(const tl_statement *use, str x, str m) {
    for (tl_statement *s = use->previous; s; s = s->previous) {
        if (!edit_reads_within(s, x) && !edit_writes_within(s, x)) continue;
        if (is_bare_mask(s) ||
            (edit_is_compute(s, TL_ROW_MAX) && edit_writes(s, m) && edit_operand_is(s, 0, x)))
            continue;
        bool is_scale = edit_is_compute(s, TL_MULTIPLY) && edit_operand_is(s, 0, x) &&
                        edit_writes(s, x) && s->compute.target_kind == TL_GET;
        return is_scale ? s : NULL;
    }
    return NULL;
}

static bool add_site(reason *r, const tiles_list *tiles, sink *k, tl_statement *use, str x) {
    tl_statement *scale = scale_before(use, x, k->m);
    if (!scale) return refuse(k, "the scores are not scaled right before the maximum");
    tl_expr *factor = scale->compute.operands[1].value;
    if (!scalar_is_uniform(r, tiles, factor))
        return refuse(k, "the factor is not one number for the whole tile");
    if (k->factor && !tl_expr_equal(k->factor, factor)) return refuse(k, "the factors differ");
    if (!scalar_is_positive(r, factor))
        return refuse(k, "the factor is not known to be positive (`where` on its Input says it)");
    k->factor = factor;
    for (int i = 0; i < k->multiply_count; i++)
        if (k->multiplies[i] == scale) return true;
    if (k->multiply_count == FOLD_SITES_MAX) return refuse(k, "it is used at too many places");
    k->multiplies[k->multiply_count++] = scale;
    return true;
}

static bool add_to(sink *k, tl_statement **list, int *count, tl_statement *s) {
    if (*count == FOLD_SITES_MAX) return refuse(k, "it is used at too many places");
    list[(*count)++] = s;
    return true;
}

/* Sorts one statement that reads or writes m. */
static bool sort_use(reason *r, const tiles_list *tiles, sink *k, tl_statement *s) {
    if (edit_is_compute(s, TL_ROW_MAX) && edit_writes(s, k->m))
        return s->compute.target_kind == TL_ACCUMULATE
                   ? add_site(r, tiles, k, s, edit_operand_name(s, 0))
                   : refuse(k, "it is stored by a maximum");
    if (edit_is_compute(s, TL_FILL) && edit_writes(s, k->m))
        return add_to(k, k->starts, &k->start_count, s);
    if (edit_writes(s, k->m)) return refuse(k, "it is computed otherwise, too");
    if (edit_is_compute(s, TL_CAST) && edit_operand_is(s, 0, k->m) && edit_loop_of(s)) {
        k->m_old = edit_target_name(s);
        return true;
    }
    if (edit_is_compute(s, TL_SUBTRACT) && edit_operand_is(s, 1, k->m)) {
        str x = edit_operand_name(s, 0);
        if (k->m_old.length > 0 && str_equal(x, k->m_old))
            return add_to(k, k->differences, &k->difference_count, s);
        return add_site(r, tiles, k, s, x) && add_to(k, k->differences, &k->difference_count, s);
    }
    return add_to(k, k->readers, &k->reader_count, s);
}

/* Between its scale and its difference the tile is used by masks and the maximum only. */
static bool scores_are_private(sink *k) {
    for (int i = 0; i < k->multiply_count; i++) {
        str x = edit_target_name(k->multiplies[i]);
        for (tl_statement *s = k->multiplies[i]->next; s; s = s->next) {
            bool is_difference = false;
            for (int d = 0; d < k->difference_count; d++)
                is_difference =
                    is_difference || (s == k->differences[d] && edit_operand_is(s, 0, x));
            if (is_difference && edit_writes(s, x)) break;
            bool is_maximum = edit_is_compute(s, TL_ROW_MAX) && edit_writes(s, k->m);
            if (!is_difference && !is_maximum && !is_bare_mask(s) && edit_reads_within(s, x))
                return refuse(k, "the scaled scores are used elsewhere, too");
        }
    }
    return true;
}

/* About -1e30 stands for minus infinity where differences from m are all that matters; a maximum
 * alone may end as the number it began with.
 */
static bool starts_are_scaled(reason *r, sink *k) {
    double value;
    for (int i = 0; i < k->start_count && k->difference_count == 0; i++) {
        const tl_expr *e = k->starts[i]->compute.operands[0].value;
        if (scalar_number(r, e, &value) && value <= -1e30 && isfinite(value))
            return refuse(k, "it starts at a number that may be its result");
    }
    return true;
}

static bool collect(reason *r, const tiles_list *tiles, sink *k) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if ((edit_reads(s, k->m) || edit_writes(s, k->m)) && !sort_use(r, tiles, k, s))
            return false;
        if (k->m_old.length > 0 && edit_reads(s, k->m_old) && !edit_is_compute(s, TL_SUBTRACT))
            return refuse(k, "the old maximum is used elsewhere, too");
    }
    return k->multiply_count > 0 && scores_are_private(k) && starts_are_scaled(r, k);
}

static void scale_start(reason *r, const sink *k, tl_statement *s) {
    double value;
    tl_expr *e = s->compute.operands[0].value;
    if (scalar_number(r, e, &value) && value <= -1e30)
        return; /* stands for minus infinity in any unit */
    s->compute.operands[0].value = tl_quote_expr(r->memory, "%s/%s", edit_factor_text(r->memory, e),
                                                 edit_factor_text(r->memory, k->factor));
}

static void scale_reader(reason *r, const sink *k, tl_statement *s) {
    const char *m = edit_z(r->memory, k->m), *factor = edit_text(r->memory, k->factor);
    if (edit_is_compute(s, TL_CAST) && s->compute.target_kind == TL_GET) {
        tl_block scaled = tl_quote(r->memory, "Compute Multiply %s, %s and get %s", m, factor,
                                   edit_z(r->memory, edit_target_name(s)));
        scaled.first->comment = s->comment;
        edit_replace(r->kernel, s, scaled);
        return;
    }
    bool is_second = edit_is_compute(s, TL_ADD) && edit_operand_is(s, 1, k->m);
    bool is_first = edit_is_compute(s, TL_ADD) && edit_operand_is(s, 0, k->m);
    if ((is_first || is_second) && s->compute.target_kind == TL_GET) {
        const tl_expr *other = s->compute.operands[is_second ? 0 : 1].value;
        reason_replace(
            r, s, "Compute MultiplyAdd %s, %s, %s and get %s // the maximum is in unscaled units",
            m, factor, edit_text(r->memory, other), edit_z(r->memory, edit_target_name(s)));
        return;
    }
    str wanted = str_format(r->memory, "%s_scaled", m);
    str name = reason_fresh(r, "%.*s", STR_ARGS(wanted));
    reason_before(r, s, "Compute Multiply %s, %s and get %.*s // the maximum is in unscaled units",
                  m, factor, STR_ARGS(name));
    if (s->kind == TL_COPY && !s->copy.target) { /* it leaves under its own name */
        s->copy.target = s->copy.what;
        s->copy.target_kind = TL_GET;
        s->copy.what = tl_name_expr(r->memory, name);
    } else {
        edit_rename(s, k->m, name);
    }
}

static void apply_sink(reason *r, sink *k) {
    const char *factor = edit_text(r->memory, k->factor);
    for (int i = 0; i < k->difference_count; i++) {
        const char *x = edit_z(r->memory, edit_target_name(k->differences[i]));
        reason_after(r, k->differences[i], "Compute Multiply %s, %s and get %s", x, factor, x);
    }
    for (int i = 0; i < k->start_count; i++) scale_start(r, k, k->starts[i]);
    for (int i = 0; i < k->reader_count; i++) scale_reader(r, k, k->readers[i]);
    for (int i = 0; i < k->multiply_count; i++) edit_remove(r->kernel, k->multiplies[i]);
}

static void sink_scales(reason *r) {
    str seen[FOLD_SITES_MAX];
    int seen_count = 0;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_compute(s, TL_ROW_MAX) || s->compute.operands[0].is_transposed) continue;
        bool is_seen = seen_count == FOLD_SITES_MAX;
        for (int i = 0; i < seen_count; i++)
            is_seen = is_seen || str_equal(seen[i], edit_target_name(s));
        if (is_seen) continue;
        sink k = {.m = edit_target_name(s)};
        seen[seen_count++] = k.m;
        if (collect(r, tiles_read(r), &k)) {
            apply_sink(r, &k);
            reason_decide(r, "scale",
                          "the factor %s sinks below the maximum %.*s, which is kept in "
                          "unscaled units: no multiplication per score before it",
                          edit_text(r->memory, k.factor), STR_ARGS(k.m));
        } else {
            reason_decide(r, "scale", "no factor sinks below the maximum %.*s: %s", STR_ARGS(k.m),
                          k.why ? k.why : "the scores have none");
        }
    }
}

/* --- peepholes -------------------------------------------------------------------------------- */

static bool is_scaling(reason *r, const tiles_list *tiles, const tl_statement *s) {
    return edit_is_compute(s, TL_MULTIPLY) && s->compute.target_kind == TL_GET &&
           edit_operand_name(s, 0).length > 0 && tiles_find(tiles, edit_operand_name(s, 0)) &&
           scalar_is_uniform(r, tiles, s->compute.operands[1].value);
}

static void to_base_two(reason *r) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_compute(s, TL_EXP) || s->compute.target_kind == TL_ACCUMULATE) continue;
        const char *x = edit_text(r->memory, s->compute.operands[0].value);
        const char *y = edit_z(r->memory, edit_target_name(s));
        reason_replace(r, s, "Compute Multiply %s, %s and get %s\nCompute Exp2 %s and get %s", x,
                       LOG2E, y, y, y);
    }
}

/* The factors of one tile, next to each other, become one. */
static void merge_scalings(reason *r) {
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        while (s->next && is_scaling(r, tiles, s) && is_scaling(r, tiles, s->next) &&
               edit_operand_is(s->next, 0, edit_target_name(s)) &&
               edit_writes(s->next, edit_target_name(s))) {
            tl_expr *product =
                scalar_product(r, s->compute.operands[1].value, s->next->compute.operands[1].value);
            const char *name = scalar_name(r, product, "c", "the factor, in log2 units");
            s->compute.operands[1].value = tl_quote_expr(r->memory, "%s", name);
            edit_remove(r->kernel, s->next);
        }
    }
}

/* Is the next use of what s writes an exponential of it? */
static bool is_exponent(const tl_statement *s) {
    str y = edit_target_name(s);
    for (tl_statement *t = s->next; t; t = t->next) {
        if (!edit_reads_within(t, y) && !edit_writes_within(t, y)) continue;
        bool is_power = edit_is_compute(t, TL_EXP2) || edit_is_compute(t, TL_EXP);
        return is_power && edit_operand_is(t, 0, y);
    }
    return false;
}

/* A positive factor that X was multiplied by, with nothing but masks since, goes into the factor of
 * a fused multiply-add of X: one rounding less, and minus infinity stays what it is.
 */
static void take_factor(reason *r, const tiles_list *tiles, tl_statement *fused) {
    str x = edit_target_name(fused);
    tl_statement *scale = edit_operand_is(fused, 0, x) ? scale_before(fused, x, STR("")) : NULL;
    if (!scale || !scalar_is_uniform(r, tiles, scale->compute.operands[1].value) ||
        !scalar_is_positive(r, scale->compute.operands[1].value))
        return;
    tl_expr *product =
        scalar_product(r, scale->compute.operands[1].value, fused->compute.operands[1].value);
    const char *name = scalar_name(r, product, "c", "the factor, in log2 units");
    fused->compute.operands[1].value = tl_quote_expr(r->memory, "%s", name);
    edit_remove(r->kernel, scale);
}

/* Subtract X, v · Multiply by c, where v is a vector: one fused multiply-add with -v*c. That errs
 * by a share of v*c, not of the difference: nothing to an exponent, whose own X errs by as much,
 * but all digits of a small difference that is itself a result. Where v*c may be so large that its
 * steps are octaves, a row at its own maximum would pass any range: there the difference is taken
 * first, exactly. A log-sum-exp as v has lost more than that by then.
 */
static void fuse_differences(reason *r) {
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_compute(s, TL_SUBTRACT) || !s->next || !is_scaling(r, tiles, s->next) ||
            s->compute.target_kind != TL_GET || !edit_operand_is(s->next, 0, edit_target_name(s)) ||
            !edit_writes(s->next, edit_target_name(s)) || !is_exponent(s->next))
            continue;
        const tiles_tile *x = tiles_find(tiles, edit_operand_name(s, 0));
        const tiles_tile *v = tiles_find(tiles, edit_operand_name(s, 1));
        if (!x || !v || v->axis_count >= x->axis_count) continue;
        if (far_is_maximum(r, v->name) && far_is_reached(r, tiles, x->name)) {
            reason_decide(r, "scores far out",
                          "what is added to %.*s may move whole rows far from 0: the maximum is "
                          "subtracted before the factor, exactly",
                          STR_ARGS(x->name));
            continue;
        }
        const char *c = edit_factor_text(r->memory, s->next->compute.operands[1].value);
        const char *shift = reason_fresh_z(r, "shift");
        tl_block text = tl_quote(
            r->memory,
            "Compute Multiply %s, -%s and get %s // once a row\n"
            "Compute MultiplyAdd %s, %s, %s and get %s // one fused operation per element\n",
            edit_z(r->memory, edit_operand_name(s, 1)), c, shift,
            edit_z(r->memory, edit_operand_name(s, 0)), c, shift,
            edit_z(r->memory, edit_target_name(s)));
        tl_statement *fused = text.last;
        next = tl_next(s->next, NULL);
        edit_remove(r->kernel, s->next);
        edit_replace(r->kernel, s, text);
        take_factor(r, tiles, fused);
    }
}

/* The `Add Y, b and get Y` that is the next to touch Y; what the product reads must be the same
 * there. */
static tl_statement *sum_after(reason *r, const tl_statement *multiply, str y, int *at) {
    names reads = names_read(r->memory, multiply);
    for (tl_statement *s = multiply->next; s; s = s->next) {
        if (edit_reads_within(s, y) || edit_writes_within(s, y)) {
            if (!edit_is_compute(s, TL_ADD) || s->compute.target_kind != TL_GET ||
                !edit_writes(s, y))
                return NULL;
            *at = edit_operand_is(s, 0, y) ? 0 : edit_operand_is(s, 1, y) ? 1 : -1;
            return *at < 0 || tl_expr_names(s->compute.operands[1 - *at].value, y) ? NULL : s;
        }
        for (int i = 0; i < reads.count; i++)
            if (edit_writes_within(s, reads.items[i])) return NULL;
    }
    return NULL;
}

/* Multiply X, a and get Y · Add Y, b and get Y: one rounding instead of two. */
static void fuse_sums(reason *r) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_compute(s, TL_MULTIPLY) || s->compute.target_kind != TL_GET) continue;
        int at = 0;
        str y = edit_target_name(s);
        tl_statement *add = sum_after(r, s, y, &at);
        if (!add) continue;
        tl_block text =
            tl_quote(r->memory, "Compute MultiplyAdd %s, %s, %s and get %.*s // rounded once",
                     edit_text(r->memory, s->compute.operands[0].value),
                     edit_text(r->memory, s->compute.operands[1].value),
                     edit_text(r->memory, add->compute.operands[1 - at].value), STR_ARGS(y));
        text.first->compute.place =
            add->compute.place.is_given ? add->compute.place : s->compute.place;
        next = s->next == add ? text.first : s->next;
        edit_replace(r->kernel, add, text);
        edit_remove(r->kernel, s);
    }
}

static int terms_in(const tl_expr *e) {
    if (!e) return 0;
    int count = 1 + terms_in(e->left) + terms_in(e->right);
    for (int i = 0; i < e->item_count; i++) count += terms_in(e->items[i]);
    return count;
}

/* Masks of one tile with one value, next to each other, become one, as long as it can be read. */
static void merge_masks(reason *r) {
    enum { MERGED_TERMS = 400 }; /* an expression has at most 1,000, and some are still to come */
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        while (edit_is_compute(s, TL_MASK) && edit_is_compute(s->next, TL_MASK) &&
               edit_operand_is(s->next, 0, edit_target_name(s)) &&
               s->compute.operand_count == s->next->compute.operand_count &&
               (s->compute.operand_count < 2 ||
                tl_expr_equal(s->compute.operands[1].value, s->next->compute.operands[1].value)) &&
               terms_in(s->compute.condition) + terms_in(s->next->compute.condition) <
                   MERGED_TERMS) {
            if (!s->compute.place.is_given) s->compute.place = s->next->compute.place;
            s->compute.condition =
                tl_quote_expr(r->memory, "%s or %s", edit_text(r->memory, s->compute.condition),
                              edit_text(r->memory, s->next->compute.condition));
            edit_remove(r->kernel, s->next);
        }
}

/* --- what is the same for a whole tile is computed once --------------------------------------- */

static tl_expr *name_parts(reason *r, const tiles_list *tiles, const tl_expr *e);

/* A sum of whole numbers: its uniform terms, if there are several, get one name. Places that cancel
 * are as far apart as a sequence is long: real terms between them would lose their last digits.
 */
static tl_expr *name_sum(reason *r, const tiles_list *tiles, const tl_expr *e) {
    if (scalar_is_real(r, tiles, e)) return NULL;
    tl_linear sum = linear_of(r, e, false), uniform = {0}, rest = {.constant = sum.constant};
    for (int i = 0; i < sum.count; i++) {
        const tl_linear_term *t = &sum.terms[i];
        bool is_uniform = scalar_is_uniform(r, tiles, t->atom);
        const tl_expr *atom = is_uniform ? t->atom : name_parts(r, tiles, t->atom);
        tl_linear_add_atom(is_uniform ? &uniform : &rest, atom, t->factor);
    }
    if (sum.is_broken || uniform.count == 0) return NULL;
    int sign = uniform.terms[0].factor > 0 ? 1 : -1; /* kv_len - q_len, as bounds have it */
    tl_linear signed_uniform = {0};
    tl_linear_add(&signed_uniform, &uniform, sign);
    tl_expr *value = linear_expr(r, &signed_uniform);
    const char *name = scalar_name(r, value, "offset", "the same for the whole tile");
    tl_linear_add_atom(&rest, tl_quote_expr(r->memory, "%s", name), sign);
    return linear_expr(r, &rest);
}

/* A condition is no number that a let could hold. */
static bool is_condition(const tl_expr *e) {
    return e->kind == TL_NOT || (e->kind == TL_BINARY && e->operator>= TL_LESS);
}

static bool is_no_element(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_ELEMENT;
}

/* What is worked out only where a condition holds, and must not be read where it does not: an
 * element of a table that is shorter than the axis.
 */
static bool is_guarded(const tl_expr *e, int item) {
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    return selects && item > 0 && !tl_visit(e->items[item], is_no_element, NULL);
}

static tl_expr *name_parts(reason *r, const tiles_list *tiles, const tl_expr *e) {
    if (!e || e->kind == TL_NAME || e->kind == TL_INTEGER || e->kind == TL_NUMBER)
        return (tl_expr *)e;
    if (is_condition(e) && scalar_is_uniform(r, tiles, e)) return (tl_expr *)e;
    if (scalar_is_uniform(r, tiles, e))
        return tl_quote_expr(r->memory, "%s",
                             scalar_name(r, e, "factor", "the same for the whole tile"));
    if (e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS)) {
        tl_expr *sum = name_sum(r, tiles, e);
        if (sum) return sum;
    }
    tl_expr *copy = arena_new(r->memory, tl_expr);
    *copy = *e;
    copy->left = name_parts(r, tiles, e->left);
    bool is_joined = e->operator== TL_AND || e->operator== TL_OR;
    bool is_open = e->kind != TL_BINARY || !is_joined || tl_visit(e->right, is_no_element, NULL);
    copy->right = is_open ? name_parts(r, tiles, e->right) : e->right;
    if (e->item_count > 0) {
        copy->items = arena_array(r->memory, tl_expr *, e->item_count);
        for (int i = 0; i < e->item_count; i++)
            copy->items[i] = is_guarded(e, i) ? e->items[i] : name_parts(r, tiles, e->items[i]);
    }
    return copy;
}

static void name_uniform_parts(reason *r) {
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || s->compute.operation == TL_GEMM) continue;
        for (int i = 0; i < s->compute.operand_count; i++) {
            tl_operand *o = &s->compute.operands[i];
            bool mentions_tile = o->value->kind == TL_NAME && tiles_find(tiles, o->value->text);
            double number;
            if (!mentions_tile && !scalar_number(r, o->value, &number) &&
                o->value->kind != TL_NEGATE)
                o->value = name_parts(r, tiles, o->value);
        }
    }
}

bool reason_fold(reason *r) {
    merge_masks(r);
    sink_scales(r);
    to_base_two(r);
    merge_scalings(r);
    fuse_differences(r);
    fuse_sums(r);
    name_uniform_parts(r);
    terms_merge(r);
    return true;
}
