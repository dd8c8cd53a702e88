/* Pass guard: a maximum that moves only when it must.
 *
 * The online softmax needs a number to subtract, not the true maximum: any m with exp(S - m) in the
 * range of the 16-bit left operand gives the same quotient. So the first block sets m; later blocks
 * keep it, and vote on their sums. Only where a sum leaves the range, the scores are computed
 * again, the maximum moves, and the sums are rescaled. A NaN or an infinity fails the comparison,
 * so rows that saw nothing yet (m = -1e30) take that way, too.
 *
 * That is another m, and another l with it. So what is after the loop must not be able to
 * tell: sums over l, and log l + m.
 *
 * Every block saves a maximum per score, the rescale of the sums, and a row's chain of dependent
 * steps.
 *
 * Scores that grow from block to block would make every block compute its powers twice. So the
 * factor of the last move is kept: where that was a far one, the next block moves the maximum at
 * once, before its powers, as the standard form does, until a maximum hardly moves any more.
 * Kernels of warpgroups do not wait for the first such move: a block that reaches far up, but not
 * too far, leaves 0 as that factor.
 */
#include "reason/guard.h"
#include "reason/carry.h"
#include "reason/names.h"
#include "reason/scalar.h"
#include "reason/warpgroups.h"

#include <stddef.h>

static bool refuse(guard_form *g, const char *why) {
    g->why = why;
    return false;
}

/* `Subtract S, m` and `Multiply S, c` in turn: scores may lie far out (reason/far.h). */
static bool is_difference(const guard_form *g, const tl_statement *s) {
    return edit_fits(s, "Subtract 0, 1 and get 0", g->s, g->m) &&
           edit_fits(s->next, "Multiply 0, _ and get 0", g->s);
}

/* The form's statements after the maximum, each of which is there once. */
static const struct form_part {
    size_t at;
    const char *pattern; /* 0: S, 1: m, 2: m_old, 3: alpha, 4: shift */
} form_parts[] = {
    {offsetof(guard_form, moved), "Subtract 2, 1"},
    {offsetof(guard_form, shift), "Multiply 1"},
    {offsetof(guard_form, scaled), "Multiply 3, _ and get 3"},
    {offsetof(guard_form, factor), "Exp2 _ and get 3"},
    {offsetof(guard_form, bias), "MultiplyAdd 0, _, 4 and get 0"},
    {offsetof(guard_form, power), "Exp2 _ and get 0"},
    {offsetof(guard_form, add), "RowSum 0 and accumulate _"},
    {offsetof(guard_form, cast), "Cast 0"},
};

static bool take_part(guard_form *g, tl_statement *s) {
    const str holes[] = {g->s, g->m, g->m_old, g->alpha, g->shift_name};
    for (size_t i = 0; i < sizeof form_parts / sizeof *form_parts; i++) {
        tl_statement **part = (tl_statement **)((char *)g + form_parts[i].at);
        if (*part || !edit_fits_names(s, form_parts[i].pattern, holes)) continue;
        *part = s;
        if (s == g->moved) g->alpha = edit_target_name(s);
        if (s == g->shift) g->shift_name = edit_target_name(s);
        if (s == g->add) g->l = edit_target_name(s);
        return true;
    }
    return false;
}

/* Sorts one statement of the loop's own block that is after the maximum. */
static bool sort_statement(guard_form *g, tl_statement *s) {
    if (is_difference(g, s)) g->difference = s, g->bias = s->next;
    if (s == g->difference || s == g->bias || take_part(g, s)) return true;
    if (edit_fits(s, "Multiply 0, 1 and get 0", edit_operand_name(s, 0), g->alpha)) {
        if (g->sum_count == GUARD_SUMS_MAX) return refuse(g, "too many sums are rescaled");
        g->sums[g->sum_count++] = s;
        return true;
    }
    if (edit_reads_within(s, g->m) || edit_writes_within(s, g->m) ||
        (g->alpha.length > 0 && edit_reads_within(s, g->alpha)) || edit_reads_within(s, g->m_old) ||
        (!g->cast && edit_reads_within(s, g->s)))
        return refuse(g, "maximum, factor or scores are used otherwise, too");
    g->is_read_later = g->is_read_later || edit_reads_within(s, g->s);
    return true;
}

int guard_statements(const guard_form *g, tl_statement *list[GUARD_STATEMENTS_MAX]) {
    tl_statement *const own[] = {g->save,   g->maximum, g->moved,      g->scaled,
                                 g->factor, g->shift,   g->difference, g->bias,
                                 g->power,  g->rescale, g->add,        g->cast};
    int count = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i]) list[count++] = own[i];
    for (int i = 0; i < g->sum_count; i++) list[count++] = g->sums[i];
    return count;
}

/* Among the rescaled, l is no sum of products. */
static void take_denominator(guard_form *g) {
    int kept = 0;
    for (int i = 0; i < g->sum_count; i++) {
        if (edit_writes(g->sums[i], g->l)) g->rescale = g->sums[i];
        else g->sums[kept++] = g->sums[i];
    }
    g->sum_count = kept;
}

/* The statements before the maximum that make S: from its first product on. */
static bool find_product(guard_form *g) {
    for (tl_statement *s = g->loop->loop.body.first; s != g->maximum; s = s->next) {
        if (!g->product && edit_writes_within(s, g->s)) {
            bool is_fresh = edit_is_product(s) && s->compute.target_kind == TL_GET;
            if (!is_fresh) return refuse(g, "the scores do not begin with a product");
            g->product = s;
        }
        if (edit_is_compute(s, TL_CAST) && edit_operand_is(s, 0, g->m)) {
            g->save = s;
            g->m_old = edit_target_name(s);
        } else if (edit_reads_within(s, g->m)) {
            return refuse(g, "the maximum is used before it moves");
        }
    }
    return g->product && g->save ? true : refuse(g, "the scores are made outside of the loop");
}

/* Between blocks m is not the maximum so far, nor are l and the sums what belongs to it: nobody
 * else in the loop may look at them. What adds to a sum does not look.
 */
static bool is_looked_at(const guard_form *g, const tl_statement *s) {
    tl_statement *own[GUARD_STATEMENTS_MAX];
    int count = guard_statements(g, own);
    const str claimed[] = {g->m, g->l, g->m_old, g->alpha, g->shift_name};
    for (int i = 0; i < count; i++)
        if (s == own[i]) return false;
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++)
        if (edit_reads(s, claimed[i]) || edit_writes(s, claimed[i])) return true;
    for (int i = 0; i < g->sum_count; i++) {
        str sum = edit_target_name(g->sums[i]);
        bool adds = s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE;
        if (adds ? edit_takes(s, sum) : edit_reads(s, sum) || edit_writes(s, sum)) return true;
    }
    return false;
}

/* What S is made from must be the same when it is made again: nothing else writes it in between. */
static bool can_repeat(reason *r, guard_form *g) {
    for (tl_statement *s = g->product; s != g->maximum; s = s->next) {
        if (!edit_writes_within(s, g->s) && s != g->save && s->kind != TL_COPY)
            return refuse(g, "the scores are made together with other tiles");
        for (tl_statement *t = s; t; t = tl_next(t, s)) {
            names reads = names_read(r->memory, t);
            for (int i = 0; edit_writes_within(s, g->s) && i < reads.count; i++)
                for (tl_statement *w = t->parent == g->loop ? t->next : NULL; w && w != g->cast;
                     w = w->next)
                    if (!str_equal(reads.items[i], g->s) && edit_writes_within(w, reads.items[i]))
                        return refuse(g,
                                      "what the scores are made from changes before they are used");
        }
    }
    return true;
}

/* What is after the loop, so far: tiles that m and l went into. */
typedef struct guard_after {
    str logarithm;      /* log l, which waits for m; else empty */
    bool had_logarithm; /* it has met m, or it still waits */
    str inverse;        /* what the sums are multiplied with, or divided by */
} guard_after;

static bool is_sum_over_l(const guard_form *g, const tl_statement *s, const guard_after *b) {
    if (!edit_fits(s, "Multiply _, 0", b->inverse) && !edit_fits(s, "Divide _, 0", b->inverse))
        return false;
    for (int i = 0; i < g->sum_count; i++)
        if (edit_operand_is(s, 0, edit_target_name(g->sums[i]))) return true;
    return false;
}

/* m is not the maximum then, and l not what belongs to it; but sums over l, and log l + m, are what
 * they would be.
 */
static bool keeps_its_value(reason *r, const guard_form *g, const tl_statement *s, guard_after *b) {
    double least;
    if (edit_fits(s, "MultiplyAdd 0, _, 1", g->m, b->logarithm) ||
        edit_fits(s, "Add 1, 0", g->m, b->logarithm)) {
        b->logarithm = STR("");
        return true;
    }
    bool is_logarithm = edit_is_compute(s, TL_LOG) || edit_is_compute(s, TL_LOG2);
    if (is_logarithm && edit_operand_is(s, 0, g->l) && !b->logarithm.length) {
        b->logarithm = edit_target_name(s);
        b->had_logarithm = true;
        return true;
    }
    if (edit_reads(s, g->m) || (b->logarithm.length && edit_reads(s, b->logarithm))) return false;
    if (s->kind == TL_RESHAPE || is_sum_over_l(g, s, b)) return true;
    if (edit_is_compute(s, TL_RECIPROCAL)) {
        bool is_first = edit_operand_is(s, 0, g->l);
        if (is_first) b->inverse = edit_target_name(s);
        return is_first || edit_writes(s, b->inverse);
    }
    b->inverse = edit_target_name(s);
    return edit_is_compute(s, TL_MAX) && edit_operand_is(s, 0, g->l) &&
           scalar_number(r, s->compute.operands[1].value, &least) && least <= 1e-20;
}

/* Is the guarded form told from the standard one by what is after the loop? Another loop makes
 * scores of its own with them.
 */
static bool is_seen_after(reason *r, guard_form *g) {
    guard_after b = {.inverse = g->l};
    for (tl_statement *s = g->loop; s;) {
        bool is_loop = s->kind == TL_FOR;
        bool uses = edit_reads(s, g->m) || edit_reads(s, g->l) || edit_reads(s, b.inverse) ||
                    (b.logarithm.length && edit_reads(s, b.logarithm));
        if (uses && !is_loop && !keeps_its_value(r, g, s, &b)) return true;
        tl_statement *last = s; /* a loop's body is passed over */
        for (tl_statement *t = is_loop ? tl_next(s, s) : NULL; t; t = tl_next(t, s)) last = t;
        s = tl_next(last, NULL);
    }
    g->has_logarithm = b.had_logarithm;
    return false;
}

/* --- how exact the weights are ---------------------------------------------------------------- */

/* A weight is rounded for the product, not in the denominator. Among many that averages out. In the
 * standard form the largest is 1, which is exact. After a guard it is any number, and where it
 * outweighs all others its rounding is the result's: with 8 bits of significand (bf16) as much as
 * the result's own, and twice that at worst; with 11 (f16) little beside what is allowed.
 *
 * Where numerator and denominator take the same rounded weights, no rounding that weights share is
 * left in their quotient. Then the maximum moves for the sake of the range alone, and bf16 has that
 * of f32. Rounded weights cost an operation each to add up: where products hide it they always are
 * (rounded_sums), elsewhere from the first block of a tile on that may outweigh all before. A
 * logarithm of the denominator wants the exact sum: where the left operand has two places it has
 * one to itself beside the rounded one. With one place three warpgroups leave no registers for
 * both, and warps alone keep no scores: there the maximum moves.
 */

static tl_type type_of_weights(reason *r, const tl_statement *cast) {
    const tl_statement *a = edit_register_tile(r->kernel, edit_target_name(cast));
    return a ? a->allocate.type : TL_OPEN;
}

/* Do scores go through a function that is flat far out? Then many are equal, their weights round
 * alike, and no error averages out.
 */
static bool is_saturating(const guard_form *g) {
    for (tl_statement *s = g->product; s != g->maximum; s = s->next)
        if (s->kind == TL_COMPUTE && tl_facts(s->compute.operation)->levels_off) return true;
    return false;
}

/* Which weights the denominator adds up, and when; what range they have. With f32's exponents m
 * lies above the maximum, so that weights begin at 2^-32 and end at 2^63: sums of products with
 * values up to 2^49 stay finite, and values down to 2^-86 count. Two ways to the powers, which
 * change from a block on, need a left operand in one place and a first block that is before the
 * loop.
 */
_Static_assert(GUARD_LIFT + GUARD_REACH + GUARD_LOST <= GUARD_LEAST,
               "a move by a factor that becomes 0 loses what still counts");

static void choose_weights(reason *r, guard_form *g) {
    tl_type type = type_of_weights(r, g->cast);
    g->is_coarse = type == TL_BF16;
    g->is_byte = tl_is_narrow(type);
    const tl_statement *role = warpgroups_role(r->kernel);
    bool has_place_for_two_sums = role && role->role.executors <= 2; /* three leave no registers */
    bool is_free =
        g->keeps && (!g->has_logarithm || (g->is_coarse && g->is_apart && has_place_for_two_sums));
    bool has_two_ways = is_free && !g->is_apart && guard_first_is_apart(r, g) && !is_saturating(g);
    int64_t is_near = reason_decided(r, -1, "near_maximum");
    int64_t is_rounded = reason_decided(r, -1, "rounded_sums");
    if (is_near < 0) is_near = g->is_coarse;
    if (is_rounded < 0) is_rounded = !has_two_ways;
    g->is_rounded = is_free && is_near > 0 && is_rounded > 0;
    g->is_near = !g->is_rounded && is_near > 0;
    g->is_again = g->is_near && has_two_ways;
    g->has_exact = g->has_logarithm && g->is_rounded;
}

/* How far up a part of a row may reach, and how far a move is expected to be followed by another.
 * To foresee moves takes another vote: not where every weight is rounded, whose range is moved
 * through seldom.
 */
static void choose_reach(guard_form *g) {
    bool is_wide = g->is_coarse && (g->is_rounded || g->is_again);
    bool is_lifted = is_wide && !g->has_logarithm; /* which would have to come down again */
    g->foresees =
        g->is_eager && g->keeps && !g->is_rounded && !g->is_byte && (!g->is_near || g->is_again);
    g->limit = g->is_byte ? "448" : is_wide ? "9e18" : g->foresees ? "65000" : "32768";
    g->high = !g->foresees ? g->limit : is_wide ? "1e9" : "1024";
    g->far = g->foresees ? (is_wide ? "8e-25" : "3e-5") : is_wide ? "1e-14" : "0.0625";
    g->least = is_lifted ? "2.3283064e-10" : "1";
    g->lift = g->is_byte ? -GUARD_BYTE_RISE : is_lifted ? GUARD_LIFT : 0;
}

/* --- reading the form ------------------------------------------------------------------------- */

static bool read_form(reason *r, tl_statement *maximum, guard_form *g) {
    *g = (guard_form){.maximum = maximum, .loop = maximum->parent};
    g->s = edit_operand_name(maximum, 0);
    g->m = edit_target_name(maximum);
    if (!g->loop || g->loop->kind != TL_FOR || !find_product(g))
        return g->why ? false : refuse(g, "the maximum is in no loop");
    for (tl_statement *s = maximum->next; s; s = s->next)
        if (!sort_statement(g, s)) return false;
    take_denominator(g);
    if (!g->cast) return refuse(g, "the scores become no 16-bit operand");
    if (!g->moved || !g->factor || !g->shift == !g->difference || !g->bias || !g->power ||
        !g->rescale || !g->add)
        return refuse(g, "it is not the online form with one power per score");
    if (!carry_starts_at_zero(r, g->loop, g->l))
        return refuse(g, "the denominator does not start at 0");
    for (int i = 0; i < g->sum_count; i++)
        if (!carry_starts_at_zero(r, g->loop, edit_target_name(g->sums[i])))
            return refuse(g, "a sum does not start at 0");
    for (tl_statement *s = g->loop->loop.body.first; s; s = tl_next(s, g->loop))
        if (is_looked_at(g, s))
            return refuse(g, "the loop itself reads the maximum, the denominator or the sums");
    if (is_seen_after(r, g)) {
        return refuse(g, "it, or the denominator, is used after the loop for more than quotients");
    }
    g->keeps = warpgroups_role(r->kernel) != NULL;
    if (g->keeps && g->is_read_later)
        return refuse(g, "the powers are also used after their 16-bit copy");
    g->t = g->s;
    const tl_statement *left = edit_register_tile(r->kernel, edit_target_name(g->cast));
    g->is_apart = g->keeps && left && left->allocate.stages;
    choose_weights(r, g);
    if (g->is_near && is_saturating(g))
        return refuse(g, "scores that saturate are equal, and their weights would round alike");
    return g->keeps || can_repeat(r, g);
}

/* Operations per score that the guarded form saves: the maximum, and the rescale of the sums. */
static double saved_operations(reason *r, const guard_form *g) {
    const tiles_list *tiles = tiles_read(r);
    const tiles_tile *s = tiles_find(tiles, g->s);
    int64_t columns = 0, own;
    if (!s || s->axis_count != 2 ||
        !reason_known(r, tiles_extent(tiles, s->axes[1])->extent, &columns) || columns < 1)
        return 1;
    double saved = 1;
    for (int i = 0; i < g->sum_count; i++) {
        const tiles_tile *a = tiles_find(tiles, edit_target_name(g->sums[i]));
        if (a && a->axis_count == 2 &&
            reason_known(r, tiles_extent(tiles, a->axes[1])->extent, &own))
            saved += (double)own / (double)columns;
    }
    return saved;
}

static const char *weights_text(const guard_form *g) {
    if (g->is_rounded)
        return "; the denominator adds weights as rounded as the product takes them, so that their "
               "rounding is none of the result's";
    if (g->is_again)
        return "; from the first block on where that reaches 1.5 times the row's sum, weights are "
               "added up as rounded as the product takes them: one weight's rounding would be the "
               "result's";
    if (g->is_near)
        return "; also where it reaches 1.5 times the row's sum: one weight's rounding would be "
               "the result's";
    return "";
}

static void say_guarded(reason *r, const guard_form *g, double saved) {
    reason_decide(
        r, "moving maximum",
        "%.*s is set by the first block and moves only when a part of a row's sum reaches "
        "%s: saves %.1f operations a score; 16-bit %.*s holds %s%s%s%s",
        STR_ARGS(g->m), g->limit, saved, STR_ARGS(edit_target_name(g->cast)),
        g->is_coarse ? "what f32 holds" : "up to twice that",
        g->foresees   ? reason_say(r,
                                   "; past a far move, or where a part reaches %s, the next block "
                                     "moves it at once",
                                   g->high)
        : g->is_eager ? "; past a far move the next block moves it at once"
                      : "",
        g->is_few ? "; few of the first block's columns set it" : "", weights_text(g));
}

/* Weights of 8 bits with a maximum that moves with every block: none is above the maximum's. */
static bool raise_weights(reason *r, tl_statement *maximum) {
    guard_form g = {.s = edit_operand_name(maximum, 0),
                    .m = edit_target_name(maximum),
                    .lift = -GUARD_BYTE_MOST};
    if (tiles_has_byte_warps(r)) return true; /* by warps: pass bytes did */
    for (tl_statement *s = maximum->next; s; s = s->next) {
        bool is_shift = edit_is_compute(s, TL_MULTIPLY) && s->compute.target_kind == TL_GET &&
                        edit_operand_is(s, 0, g.m);
        if (is_shift && !g.shift) g.shift = s;
        if (is_difference(&g, s)) g.bias = s->next;
        if (!edit_is_compute(s, TL_CAST) || !tl_is_narrow(type_of_weights(r, s))) continue;
        if (!g.shift && !g.bias)
            return reason_stuck(r, s, "the weights' range cannot be put into 8 bits");
        g.shift_name = g.shift ? edit_target_name(g.shift) : (str){0};
        guard_lift_shift(r, &g);
        return true;
    }
    return true;
}

bool reason_guard(reason *r) {
    int64_t wanted = reason_decided(r, -1, "guard"), eager = reason_take(r, -1, "eager");
    bool any = false;
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_compute(s, TL_ROW_MAX) || !s->parent || s->parent->kind != TL_FOR) continue;
        guard_form g;
        if (!read_form(r, s, &g)) {
            if (!raise_weights(r, s)) return false;
            reason_decide(r, "moving maximum", "%.*s moves with every block: %s",
                          STR_ARGS(edit_target_name(s)), g.why);
            continue;
        }
        reason_offers_switch(r, "guard", wanted != 0);
        if (wanted == 0) {
            if (!raise_weights(r, s)) return false;
            reason_decide(r, "moving maximum", "%.*s moves with every block, as %s", STR_ARGS(g.m),
                          reason_pin_word(r, "guard"));
            continue;
        }
        g.is_eager = eager < 0 ? g.keeps : eager > 0;
        choose_reach(&g);
        g.is_few = guard_first_columns(r, &g) > 0;
        double saved = saved_operations(r, &g);
        next = g.loop->next; /* the loop's body is written anew */
        guard_write(r, &g);
        any = true;
        say_guarded(r, &g, saved);
    }
    if (wanted == 1 && !any)
        return reason_stuck(
            r, NULL, "no maximum of kernel %.*s can be guarded: %s", STR_ARGS(r->kernel->name),
            r->log.count > 0 ? edit_z(r->memory, r->log.items[r->log.count - 1].sentence)
                             : "it has none");
    return true;
}
