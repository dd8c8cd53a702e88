/* Pass weights: the sum of a row of 8-bit weights is a product with ones.
 *
 * A weight of 8 bits is rounded by up to 6 %. Where one outweighs all others of its row, that is
 * the result's error, unless the denominator adds the same rounded weights. No register has those
 * but as operands of products; so a product makes the sum, too, with a tile of ones that a block
 * fills once. The vote on whether the maximum must move looks at the weights themselves.
 *
 * Their bits, read as a whole number, are nearly linear in their logarithm. `linear_weights = 1`
 * makes them so: no power is taken, and a weight is up to 3 % off.
 *
 * This pass comes late, and reads the few forms in which sums of rows stand by then. Any other one
 * is refused: the result would be off by as much as a weight is rounded.
 */
#include "reason/narrow.h"

#include "reason/names.h"
#include "reason/panels.h"
#include "reason/warpgroups.h"
#include "tl/names.h"

enum {
    ONES_ROWS = 8, /* the least columns of a product */
    HIGH = 256     /* what weights stay below, of 448 */
};

typedef struct weights {
    tl_statement *role;
    tl_statement *product; /* the first that takes them */
    str p, sum;            /* the weights; what their product adds to, as statements name it */
    str l, part, end; /* the sum of a row, a block's part of it, and that of a tile that ends */
    str made_of;      /* the tile that is cast */
    const char *whole, *ones; /* names: the sums as a matrix; the tile of ones */
} weights;

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_weights_product(const weights *w, const tl_statement *s) {
    return edit_fits(s, "GEMM 0, _ and accumulate _", w->p);
}

static bool find_weights(weights *w) {
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role)) {
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_REGISTER ||
            !tl_is_narrow(s->allocate.type))
            continue;
        if (w->p.length || s->allocate.name_count != 1) return false;
        w->p = s->allocate.names[0];
    }
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role)) {
        if (edit_is_compute(s, TL_CAST) && edit_writes(s, w->p))
            w->made_of = edit_operand_name(s, 0);
        if (!is_weights_product(w, s)) continue;
        if (w->sum.length && !str_equal(w->sum, edit_target_name(s))) return false;
        if (!w->product) w->product = s;
        w->sum = edit_target_name(s);
    }
    return w->p.length && w->made_of.length && w->product;
}

static bool is_row_sum(const weights *w, const tl_statement *s) {
    return edit_fits(s, "RowSum 0", w->made_of);
}

static bool find_sums(weights *w) {
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role)) {
        if (!is_row_sum(w, s)) continue;
        str *to = s->compute.target_kind == TL_ACCUMULATE ? &w->l : &w->part;
        if (to->length && !str_equal(*to, edit_target_name(s))) return false;
        *to = edit_target_name(s);
    }
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role))
        if (!w->l.length && edit_fits(s, "Add _, 0", w->part)) w->l = edit_target_name(s);
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role))
        if (edit_fits(s, "Cast 0", w->l)) w->end = edit_target_name(s);
    if (!w->end.length) w->end = w->l;
    return w->l.length > 0;
}

typedef enum sum_form {
    FORM_OTHER, /* it has nothing to do with the sums */
    FORM_KEPT,
    FORM_GONE,
    FORM_VOTE,
    FORM_INVERSE, /* made anew where the quotient is */
    FORM_QUOTIENT,
    FORM_WRONG
} sum_form;

static bool names_sum(const weights *w, const tl_statement *s) {
    const str sums[] = {w->l, w->part, w->end};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i].length && (edit_reads(s, sums[i]) || edit_writes(s, sums[i]))) return true;
    return false;
}

static bool is_vote(const weights *w, const tl_statement *s) {
    const tl_expr *any = s->kind == TL_LET && s->let.count == 1 ? s->let.items[0].value : NULL;
    const tl_expr *test =
        any && edit_is_any(any) && any->items[0]->kind == TL_NOT ? any->items[0]->left : NULL;
    return test && w->part.length && test->kind == TL_BINARY &&
           test->operator== TL_LESS && test->left->kind == TL_NAME &&
           str_equal(test->left->text, w->part);
}

static bool mentions_sum(const weights *w, const tl_expr *e) {
    return (w->part.length && tl_expr_names(e, w->part)) || tl_expr_names(e, w->l) ||
           tl_expr_names(e, w->end);
}

static sum_form form_of_compute(const weights *w, const tl_statement *s) {
    bool gets = s->compute.target_kind == TL_GET;
    str to = edit_target_name(s);
    bool to_sum = str_equal(to, w->l) || str_equal(to, w->part), to_end = str_equal(to, w->end);
    if (is_row_sum(w, s)) return to_sum ? FORM_GONE : FORM_WRONG;
    switch (s->compute.operation) {
    case TL_ADD:
        return str_equal(to, w->l) && edit_fits(s, "Add 0, 1", w->l, w->part) ? FORM_GONE
                                                                              : FORM_WRONG;
    case TL_FILL: return to_sum ? FORM_GONE : FORM_WRONG;
    case TL_CAST: return to_end && edit_operand_is(s, 0, w->l) ? FORM_GONE : FORM_WRONG;
    case TL_MULTIPLY:
        if (edit_operand_is(s, 1, w->end))
            return gets && str_equal(to, w->sum) ? FORM_QUOTIENT : FORM_WRONG;
        return str_equal(to, w->l) && edit_operand_is(s, 0, w->l) ? FORM_GONE : FORM_WRONG;
    case TL_MAX:
    case TL_RECIPROCAL: return to_end && edit_operand_is(s, 0, w->end) ? FORM_INVERSE : FORM_WRONG;
    default: return FORM_WRONG;
    }
}

static sum_form form_of(const weights *w, const tl_statement *s) {
    if (is_vote(w, s)) return FORM_VOTE;
    if (s->kind == TL_LET) {
        for (int i = 0; i < s->let.count; i++)
            if (mentions_sum(w, s->let.items[i].value)) return FORM_WRONG;
        return FORM_OTHER;
    }
    if (s->kind == TL_IF) return mentions_sum(w, s->branch.condition) ? FORM_WRONG : FORM_OTHER;
    if (s->kind == TL_ALLOCATE || !names_sum(w, s)) return FORM_OTHER;
    if (s->kind == TL_RESHAPE) return FORM_GONE;
    return s->kind == TL_COMPUTE ? form_of_compute(w, s) : FORM_WRONG;
}

/* Is every statement about the sums one that is known, and do all of a tile end in a quotient? What
 * is made of that is nobody's concern here.
 */
static bool reads_well(const weights *w) {
    int quotients = 0;
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role)) {
        sum_form form = form_of(w, s);
        if (form == FORM_WRONG) return false;
        quotients += form == FORM_QUOTIENT;
        if (quotients) continue;
        bool is_scaled = edit_fits(s, "Multiply 0", w->sum) && edit_writes(s, w->sum);
        bool touches = s->kind != TL_ALLOCATE && !edit_is_product(s) && edit_writes(s, w->sum);
        if (touches && !is_scaled && !edit_is_compute(s, TL_FILL)) return false;
    }
    return quotients == 1;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void remove_name(reason *r, tl_statement *allocation, str name) {
    tl_allocation *a = &allocation->allocate;
    for (int i = 0; i < a->name_count; i++) {
        if (!str_equal(a->names[i], name)) continue;
        for (int k = i + 1; k < a->name_count; k++) {
            a->names[k - 1] = a->names[k];
            a->name_ranges[k - 1] = a->name_ranges[k];
        }
        if (--a->name_count == 0) edit_remove(r->kernel, allocation);
        return;
    }
}

static tl_statement *allocation_of(const weights *w, str name) {
    for (tl_statement *s = w->role->role.body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_ALLOCATE && i < s->allocate.name_count; i++)
            if (str_equal(s->allocate.names[i], name)) return s;
    return NULL;
}

static bool allocate(reason *r, weights *w) {
    tl_statement *p = allocation_of(w, w->p), *end = allocation_of(w, w->end);
    const tl_exprs *shape = &p->allocate.shape;
    int64_t columns;
    if (!end || shape->count != 2 || !reason_known(r, shape->items[1], &columns)) return false;
    const char *rows = edit_text(r->memory, shape->items[0]);
    const char *keys = edit_text(r->memory, shape->items[1]);
    const char *of = edit_z(r->memory, edit_bare(w->sum)), *type = tl_type_name(p->allocate.type);
    w->whole = reason_fresh_z(r, "row_sums");
    w->ones = reason_fresh_z(r, "ones");
    reason_after(r, p,
                 "Allocate %s in register f32 (%s, %d) as mma_C // of the weights, each in "
                 "all columns\nAllocate %s in register %s (%d, %s) as lines",
                 w->whole, rows, ONES_ROWS, w->ones, type, ONES_ROWS, keys);
    tl_statement *first = r->kernel->body.first;
    while (first->kind != TL_ROLE) first = first->next;
    const tl_statement *beside = edit_shared_tile(r->kernel, edit_operand_name(w->product, 1));
    bool is_permuted = beside && beside->allocate.is_permuted; /* both take one left operand */
    reason_before(r, first,
                  "Allocate %s in shared %s (%d, %s)%s swizzled %d // what sums of rows are "
                  "products with",
                  w->ones, type, ONES_ROWS, keys, is_permuted ? " permuted" : "",
                  panels_dividing(columns));
    const str gone[] = {w->l, w->part, w->end};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        tl_statement *a = gone[i].length ? allocation_of(w, gone[i]) : NULL;
        if (a) remove_name(r, a, gone[i]);
    }
    reason_after(r, p, "Allocate %.*s in register f32 (%s) as rows of %s", STR_ARGS(w->end), rows,
                 of);
    return true;
}

/* Ones before the first tile, and their bytes' end after the last. */
static void fill_ones(reason *r, const weights *w) {
    tl_statement *first = w->role->role.body.first;
    while (first && first->kind == TL_ALLOCATE) first = first->next;
    reason_before(r, first,
                  "Compute Fill 1 and get %s_register\nCopy %s from register to shared\n"
                  "Wait %s_shared // once a block",
                  w->ones, w->ones, w->ones);
    edit_append(&w->role->role.body, w->role, tl_quote(r->memory, "Release %s_shared", w->ones));
}

static void rewrite(reason *r, const weights *w) {
    str least = STR("1e-30");
    bool is_over = false;
    for (tl_statement *s = w->role->role.body.first, *next; s && !is_over; s = next) {
        next = tl_next(s, w->role);
        sum_form form = form_of(w, s);
        is_over = form == FORM_QUOTIENT;
        if (form == FORM_GONE || form == FORM_INVERSE) {
            if (edit_is_compute(s, TL_MAX))
                least = str_from(edit_text(r->memory, s->compute.operands[1].value));
            edit_remove(r->kernel, s);
        } else if (form == FORM_VOTE) {
            s->let.items[0].value =
                tl_quote_expr(r->memory, "any(not %.*s < %d)", STR_ARGS(w->p), HIGH);
        } else if (form == FORM_QUOTIENT) {
            reason_before(r, s,
                          "Compute RowMax %s and get %.*s // one of its columns\n"
                          "Compute Max %.*s, %.*s and get %.*s // a fully masked row ends as "
                          "0\nCompute Reciprocal %.*s and get %.*s",
                          w->whole, STR_ARGS(w->end), STR_ARGS(w->end), STR_ARGS(least),
                          STR_ARGS(w->end), STR_ARGS(w->end), STR_ARGS(w->end));
        } else if (is_weights_product(w, s)) {
            reason_after(r, s,
                         "Compute GEMM %.*s, %s_shared.T and accumulate %s by m64n%dk32%s // sums "
                         "of rows",
                         STR_ARGS(w->p), w->ones, w->whole, ONES_ROWS,
                         s->compute.is_async ? " async" : "");
            next = s->next->next ? s->next->next : tl_next(s->next, w->role);
        } else if (s->kind == TL_WAIT && str_equal(s->sync.what->text, w->sum)) {
            reason_after(r, s, "Wait %s", w->whole);
        } else if (edit_is_compute(s, TL_FILL) && edit_writes(s, w->sum)) {
            reason_after(r, s, "Compute Fill 0 and get %s", w->whole);
        } else if (edit_is_compute(s, TL_MULTIPLY) && edit_writes(s, w->sum)) {
            reason_after(r, s, "Compute Multiply %s, %.*s and get %s", w->whole,
                         STR_ARGS(edit_operand_name(s, 1)), w->whole);
        }
    }
}

/* --- on the line between powers of two -------------------------------------------------------- */

/* Eight codes to a power of two, from 2^-6, code 8, on; 0.344 puts the error's middle at 0. */
static void write_code(reason *r, tl_statement *exponent) {
    tl_operand *factor = &exponent->compute.operands[1], *rise = &exponent->compute.operands[2];
    double value;
    factor->value = tl_quote_expr(r->memory, "8*(%s)", edit_text(r->memory, factor->value));
    if (tl_known_number(rise->value, &value))
        rise->value = tl_quote_expr(r->memory, "%.6g", 8 * (7 + value) - 0.344);
}

/* Exponents become codes; returns the name of their shift, which is empty where they are products
 * of exact differences (reason/far.h): then the rise is their own.
 */
static str write_exponents(reason *r, const weights *w) {
    str shift = {0};
    for (tl_statement *s = w->role->role.body.first, *next; s; s = next) {
        next = tl_next(s, w->role);
        bool is_cast = edit_is_compute(s, TL_CAST) && edit_writes(s, w->p);
        if (is_cast) s->compute.operation = TL_FROM_CODE;
        if (is_cast) s->comment = STR("their bits");
        if (!edit_is_compute(s, TL_EXP2) || !edit_writes(s, w->made_of)) continue;
        tl_statement *exponent = s->previous;
        while (exponent && !edit_writes(exponent, w->made_of)) exponent = exponent->previous;
        if (edit_is_compute(exponent, TL_MULTIPLY_ADD)) {
            str name = edit_operand_name(exponent, 2);
            if (name.length) shift = name;
            write_code(r, exponent);
        }
        edit_remove(r->kernel, s);
    }
    return shift;
}

static void write_codes(reason *r, const weights *w) {
    str shift = write_exponents(r, w);
    double rise;
    for (tl_statement *s = w->role->role.body.first; s; s = tl_next(s, w->role))
        if (shift.length && edit_is_compute(s, TL_MULTIPLY_ADD) && edit_writes(s, shift) &&
            tl_known_number(s->compute.operands[2].value, &rise))
            write_code(r, s);
}

bool reason_weights(reason *r) {
    weights w = {.role = warpgroups_role(r->kernel)};
    int64_t linear = reason_decided(r, 0, "linear_weights");
    bool has_sums =
        w.role && tiles_multiplies_bytes(r->kernel) && find_weights(&w) && find_sums(&w);
    bool is_it = has_sums && reads_well(&w) && allocate(r, &w);
    if (!is_it && linear)
        return reason_stuck(r, NULL,
                            "linear weights are those of a softmax in 8 bits by warpgroups, whose "
                            "sums are used for quotients alone");
    if (has_sums && !is_it)
        return reason_stuck(
            r, w.product,
            "weights of 8 bits want their sums of rows as they are rounded, and here "
            "these are used for more than quotients: `products=16` keeps 16 bits");
    if (!is_it) return true;
    rewrite(r, &w);
    fill_ones(r, &w);
    if (linear) write_codes(r, &w);
    reason_offers_switch(r, "linear_weights", linear != 0);
    reason_decide(r, "weights",
                  "sums of rows are products with ones, so that they are of the weights as "
                  "rounded; %s",
                  linear ? "weights lie on the line between powers of two: no power is taken, the "
                           "noise is 1.2 times that of exact ones, and NaN has the weight 0"
                         : "linear_weights=1 would leave out the powers, for 1.2 times the noise");
    return true;
}
