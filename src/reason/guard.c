/* Pass guard: a maximum that moves only when it must.
 *
 * The online softmax needs a number to subtract, not the true maximum: any m with exp(S - m) in the
 * range of the 16-bit left operand gives the same quotient. So the first block sets m; later blocks
 * keep it, and vote on their sums. Only where a sum leaves the range, the scores are computed
 * again, the maximum moves, and the sums are rescaled. A NaN or an infinity fails the comparison,
 * so rows that saw nothing yet (m = -1e30) take that way, too.
 *
 * That is another m, and another l with it. So what stands behind the loop must not be able to
 * tell: sums over l, and log l + m.
 *
 * Every block saves a maximum per score, the rescale of the sums, and a row's chain of dependent
 * steps.
 *
 * Scores that grow from block to block would make every block compute its powers twice. So the
 * factor of the last move is kept: where that was a far one, the next block moves the maximum at
 * once, before its powers, as the standard form does, until a maximum hardly moves any more.
 */
#include "reason/scalar.h"
#include "reason/warpgroups.h"

enum {
    GUARD_SUMS_MAX = 8,
    GUARD_LIMIT = 32768, /* half of f16's range: a part of a row stays below */
    GUARD_FAR = 16,      /* a move by this factor is a far one: the next is expected to be, too */
    GUARD_FEW = 4        /* so manyth part of a block's columns are few */
};

/* The standard form in one loop, statement by statement. */
typedef struct guard_form {
    tl_statement *loop;
    tl_statement *product;              /* the first statement that makes S in an iteration */
    tl_statement *save;                 /* Cast m and get m_old */
    tl_statement *maximum;              /* RowMax S and accumulate m */
    tl_statement *moved;                /* Subtract m_old, m and get alpha */
    tl_statement *scaled;               /* Multiply alpha, c and get alpha */
    tl_statement *factor;               /* Exp2 alpha and get alpha */
    tl_statement *shift;                /* Multiply m, -c and get shift */
    tl_statement *bias;                 /* MultiplyAdd S, c, shift and get S */
    tl_statement *power;                /* Exp2 S and get S */
    tl_statement *rescale;              /* Multiply l, alpha and get l */
    tl_statement *add;                  /* RowSum S and accumulate l */
    tl_statement *sums[GUARD_SUMS_MAX]; /* Multiply A, alpha and get A */
    int sum_count;
    tl_statement *cast; /* Cast S and get P */
    str s, m, l, alpha, m_old, shift_name;
    bool keeps;    /* the scores stay until the vote; powers get a tile of their own */
    bool is_apart; /* a product of the block before still runs: the left operand has two places */
    bool is_read_later;              /* the powers, behind their cast */
    bool is_eager;                   /* a far move is expected to be followed by another */
    bool is_few;                     /* few of the first block's columns set its maximum */
    bool is_near;                    /* it also moves where a block may outweigh all before it */
    const char *part, *room, *eager; /* names: a block's part of l, what it may reach, the vote */
    str t;                           /* the tile of the powers: s, unless it is kept */
    const char *why;                 /* it is not that form */
} guard_form;

/* A vote of each warp, and why its body stands under it. */
typedef struct guard_vote {
    const char *name, *condition, *reason, *comment;
} guard_vote;

static bool refuse(guard_form *g, const char *why) {
    g->why = why;
    return false;
}

static bool is_get(const tl_statement *s, tl_operation operation, str target) {
    return edit_is_compute(s, operation) && s->compute.target_kind == TL_GET &&
           edit_writes(s, target);
}

/* Sorts one statement of the loop's own block that stands behind the maximum. */
static bool sort_statement(guard_form *g, tl_statement *s) {
    if (edit_is_compute(s, TL_SUBTRACT) && edit_operand_is(s, 0, g->m_old) &&
        edit_operand_is(s, 1, g->m)) {
        g->moved = s;
        g->alpha = edit_target_name(s);
    } else if (edit_is_compute(s, TL_MULTIPLY) && edit_operand_is(s, 0, g->m)) {
        g->shift = s;
        g->shift_name = edit_target_name(s);
    } else if (g->alpha.length > 0 && edit_operand_is(s, 0, g->alpha) &&
               is_get(s, TL_MULTIPLY, g->alpha)) {
        g->scaled = s;
    } else if (g->alpha.length > 0 && is_get(s, TL_EXP2, g->alpha)) {
        g->factor = s;
    } else if (is_get(s, TL_MULTIPLY_ADD, g->s) && edit_operand_is(s, 0, g->s) &&
               edit_operand_is(s, 2, g->shift_name)) {
        g->bias = s;
    } else if (is_get(s, TL_EXP2, g->s)) {
        g->power = s;
    } else if (!g->add && edit_is_compute(s, TL_ROW_SUM) && edit_operand_is(s, 0, g->s) &&
               s->compute.target_kind == TL_ACCUMULATE) {
        g->add = s;
        g->l = edit_target_name(s);
    } else if (edit_is_compute(s, TL_CAST) && edit_operand_is(s, 0, g->s)) {
        g->cast = s;
    } else if (edit_is_compute(s, TL_MULTIPLY) && edit_operand_is(s, 1, g->alpha) &&
               is_get(s, TL_MULTIPLY, edit_operand_name(s, 0))) {
        if (g->sum_count == GUARD_SUMS_MAX) return refuse(g, "too many sums are rescaled");
        g->sums[g->sum_count++] = s;
    } else if (edit_reads_within(s, g->m) || edit_writes_within(s, g->m) ||
               (g->alpha.length > 0 && edit_reads_within(s, g->alpha)) ||
               edit_reads_within(s, g->m_old) || (!g->cast && edit_reads_within(s, g->s))) {
        return refuse(g, "maximum, factor or scores are used otherwise, too");
    } else if (edit_reads_within(s, g->s)) {
        g->is_read_later = true;
    }
    return true;
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
            bool is_fresh = edit_is_compute(s, TL_GEMM) && s->compute.target_kind == TL_GET;
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

/* What S is made from must be the same when it is made again: nothing else writes it in between. */
static bool can_repeat(guard_form *g) {
    for (tl_statement *s = g->product; s != g->maximum; s = s->next) {
        if (!edit_writes_within(s, g->s) && s != g->save && s->kind != TL_COPY)
            return refuse(g, "the scores are made together with other tiles");
        for (tl_statement *t = s; t; t = tl_next(t, s)) {
            edit_uses uses = edit_uses_of(t);
            for (int i = 0; edit_writes_within(s, g->s) && i < uses.read_count; i++)
                for (tl_statement *w = t->parent == g->loop ? t->next : NULL; w && w != g->cast;
                     w = w->next)
                    if (!str_equal(uses.reads[i], g->s) && edit_writes_within(w, uses.reads[i]))
                        return refuse(g,
                                      "what the scores are made from changes before they are used");
        }
    }
    return true;
}

static bool starts_at_zero(reason *r, const guard_form *g, str name) {
    const tl_statement *start = NULL;
    for (tl_statement *s = r->kernel->body.first; s && s != g->loop; s = tl_next(s, NULL))
        if (edit_writes(s, name)) start = s;
    double value;
    return start && edit_is_compute(start, TL_FILL) &&
           scalar_number(r, start->compute.operands[0].value, &value) && value == 0;
}

/* What stands behind the loop, so far: tiles that m and l went into. */
typedef struct guard_behind {
    str logarithm; /* log l, which waits for m; else empty */
    str inverse;   /* what the sums are multiplied with, or divided by */
} guard_behind;

static bool is_sum_over_l(const guard_form *g, const tl_statement *s, const guard_behind *b) {
    bool is_quotient = edit_is_compute(s, TL_MULTIPLY) || edit_is_compute(s, TL_DIVIDE);
    if (!is_quotient || !edit_operand_is(s, 1, b->inverse)) return false;
    for (int i = 0; i < g->sum_count; i++)
        if (edit_operand_is(s, 0, edit_target_name(g->sums[i]))) return true;
    return false;
}

static bool takes_maximum(const guard_form *g, const tl_statement *s, const guard_behind *b) {
    if (!b->logarithm.length) return false;
    if (edit_is_compute(s, TL_MULTIPLY_ADD))
        return edit_operand_is(s, 0, g->m) && edit_operand_is(s, 2, b->logarithm);
    return edit_is_compute(s, TL_ADD) && edit_operand_is(s, 0, b->logarithm) &&
           edit_operand_is(s, 1, g->m);
}

/* m is not the maximum then, and l not what belongs to it; but sums over l, and log l + m, are what
 * they would be.
 */
static bool keeps_its_value(reason *r, const guard_form *g, const tl_statement *s,
                            guard_behind *b) {
    double least;
    if (takes_maximum(g, s, b)) {
        b->logarithm = STR("");
        return true;
    }
    bool is_logarithm = edit_is_compute(s, TL_LOG) || edit_is_compute(s, TL_LOG2);
    if (is_logarithm && edit_operand_is(s, 0, g->l) && !b->logarithm.length) {
        b->logarithm = edit_target_name(s);
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

/* Is the guarded form told from the standard one by what stands behind the loop? Another loop makes
 * scores of its own with them.
 */
static bool is_seen_behind(reason *r, const guard_form *g) {
    guard_behind b = {.inverse = g->l};
    for (tl_statement *s = g->loop; s;) {
        bool is_loop = s->kind == TL_FOR;
        bool uses = edit_reads(s, g->m) || edit_reads(s, g->l) || edit_reads(s, b.inverse) ||
                    (b.logarithm.length && edit_reads(s, b.logarithm));
        if (uses && !is_loop && !keeps_its_value(r, g, s, &b)) return true;
        tl_statement *last = s; /* a loop's body is passed over */
        for (tl_statement *t = is_loop ? tl_next(s, s) : NULL; t; t = tl_next(t, s)) last = t;
        s = tl_next(last, NULL);
    }
    return false;
}

/* --- how exact the weights are ---------------------------------------------------------------- */

/* A weight is rounded for the product, not in the denominator. Among many that averages out. In the
 * standard form the largest is 1, which is exact. Behind a guard it is any number, and where it
 * outweighs all others its rounding is the result's: with 8 bits of significand (bf16) as much as
 * the result's own, and twice that at worst; with 11 (f16) little beside what is allowed.
 */

static bool is_coarse(reason *r, const guard_form *g) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_ALLOCATE && s->allocate.space == TL_REGISTER &&
            str_equal(s->allocate.names[0], edit_bare(edit_target_name(g->cast))))
            return s->allocate.type == TL_BF16;
    return false;
}

/* Do scores go through a function that is flat far out? Then many are equal, their weights round
 * alike, and no error averages out.
 */
static bool is_saturating(const guard_form *g) {
    for (tl_statement *s = g->product; s != g->maximum; s = s->next)
        if (edit_is_compute(s, TL_TANH) || edit_is_compute(s, TL_ERF)) return true;
    return false;
}

static bool is_near_wanted(reason *r, const guard_form *g) {
    int64_t wanted = -1;
    reason_let_integer(r, "near_maximum", &wanted);
    return wanted < 0 ? is_coarse(r, g) : wanted > 0;
}

/* --- reading the form ------------------------------------------------------------------------- */

static bool read_form(reason *r, tl_statement *maximum, guard_form *g) {
    *g = (guard_form){.maximum = maximum, .loop = maximum->parent};
    g->s = edit_operand_name(maximum, 0);
    g->m = edit_target_name(maximum);
    if (!g->loop || g->loop->kind != TL_FOR || !find_product(g))
        return g->why ? false : refuse(g, "the maximum stands in no loop");
    for (tl_statement *s = maximum->next; s; s = s->next)
        if (!sort_statement(g, s)) return false;
    take_denominator(g);
    if (!g->cast) return refuse(g, "the scores become no 16-bit operand");
    if (!g->moved || !g->factor || !g->shift || !g->bias || !g->power || !g->rescale || !g->add)
        return refuse(g, "it is not the online form with one fused multiply-add per score");
    if (!starts_at_zero(r, g, g->l)) return refuse(g, "the denominator does not start at 0");
    for (int i = 0; i < g->sum_count; i++)
        if (!starts_at_zero(r, g, edit_target_name(g->sums[i])))
            return refuse(g, "a sum does not start at 0");
    if (is_seen_behind(r, g)) {
        return refuse(g, "it, or the denominator, is used behind the loop for more than quotients");
    }
    g->keeps = warpgroups_role(r->kernel) != NULL;
    if (g->keeps && g->is_read_later)
        return refuse(g, "the powers are used behind their 16-bit copy, too");
    g->t = g->s;
    g->is_near = is_near_wanted(r, g);
    if (g->is_near && is_saturating(g))
        return refuse(g, "scores that saturate are equal, and their weights would round alike");
    return g->keeps || can_repeat(g);
}

/* --- the guarded form ------------------------------------------------------------------------- */

static void append_copy(reason *r, tl_block *block, const tl_statement *s) {
    if (!s) return;
    tl_statement *copy = tl_statement_copy(r->memory, s);
    copy->blank_before = false;
    edit_append(block, NULL, (tl_block){copy, copy});
}

static void append_quote(tl_block *block, tl_block quoted) {
    edit_append(block, NULL, quoted);
}

/* The powers leave the scores alone: a tile of their own, which no register has to hold for longer
 * than an element's way from the scores to its 16-bit copy.
 */
static void keep_scores(reason *r, guard_form *g) {
    g->t = edit_fresh_name(r->kernel, r->memory, "T");
    g->bias->compute.target = tl_quote_expr(r->memory, "%.*s", STR_ARGS(g->t));
    edit_rename(g->power, g->s, g->t);
    edit_rename(g->add, g->s, g->t);
    edit_rename(g->cast, g->s, g->t);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_REGISTER ||
            !str_equal(s->allocate.names[0], g->s))
            continue;
        tl_statement *copy = tl_statement_copy(r->memory, s);
        copy->allocate.names[0] = g->t;
        copy->comment = STR("an element at a time: in no register for long");
        edit_after(r->kernel, s, (tl_block){copy, copy});
        return;
    }
}

/* The maximum takes in this block; what was summed up so far is rescaled. */
static tl_block move(reason *r, const guard_form *g) {
    tl_block body = {0};
    append_copy(r, &body, g->save);
    append_copy(r, &body, g->maximum);
    append_copy(r, &body, g->moved);
    append_copy(r, &body, g->scaled);
    append_copy(r, &body, g->factor);
    append_copy(r, &body, g->shift);
    append_copy(r, &body, g->rescale);
    for (int i = 0; i < g->sum_count && !g->is_apart; i++) append_copy(r, &body, g->sums[i]);
    return body;
}

/* Before the powers, which the maximum is then exact for: the vote behind them sets the room. */
static tl_block move_at_once(reason *r, const guard_form *g) {
    tl_block body = move(r, g);
    if (g->is_near)
        append_quote(&body,
                     tl_quote(r->memory, "Compute Fill 0 and get %s // is set below", g->room));
    return body;
}

static tl_block powers(reason *r, const guard_form *g, const char *comment) {
    tl_block body = {0};
    append_copy(r, &body, g->bias);
    append_copy(r, &body, g->power);
    append_quote(&body, tl_quote(r->memory, "Compute RowSum %.*s and get %s%s", STR_ARGS(g->t),
                                 g->part, comment));
    append_copy(r, &body, g->cast);
    return body;
}

/* Does it load what the scores are made from into registers? */
static bool loads_for_scores(reason *r, const guard_form *g, const tl_statement *s) {
    if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL || s->copy.to != TL_REGISTER) return false;
    str name = edit_target_name(s);
    str place = str_format(r->memory, "%.*s_register", STR_ARGS(name));
    for (tl_statement *t = g->product; t != g->maximum; t = t->next)
        if (edit_writes_within(t, g->s) &&
            (edit_reads_within(t, name) || edit_reads_within(t, place)))
            return true;
    return false;
}

/* The slow way: scores again (where they were overwritten), the maximum moves, powers again. What
 * scores are made from is loaded again, too: no register has to hold it until then.
 */
static tl_block slow_way(reason *r, const guard_form *g) {
    tl_block body = {0};
    for (tl_statement *s = g->loop->loop.body.first; s != g->maximum && !g->keeps; s = s->next)
        if (edit_writes_within(s, g->s) || loads_for_scores(r, g, s)) append_copy(r, &body, s);
    if (body.first) body.first->comment = STR("the scores were overwritten: again");
    append_quote(&body, move(r, g));
    append_quote(&body, powers(r, g, ""));
    return body;
}

static tl_block under(reason *r, const char *condition, const char *comment, tl_block body) {
    tl_block branch = tl_quote(r->memory, "if %s // %s\nend", condition, comment);
    edit_append(&branch.first->branch.body, branch.first, body);
    return branch;
}

static const char *reaches(reason *r, const guard_form *g) {
    return reason_say(r, "any(not (%s < %d))", g->part, GUARD_LIMIT);
}

/* A lane's part may reach half as much again as the whole row has so far, which is at least 1, the
 * weight of its maximum (and of a row that has seen nothing). By chance no lane gets there.
 */
static tl_block set_room(reason *r, const guard_form *g) {
    const char *room = g->room;
    return tl_quote(r->memory,
                    "Compute Add %.*s, %s and get %s // what the row has so far\n"
                    "Reshape %s from partial rows to rows\n"
                    "Compute Max %s, 1 and get %s\n"
                    "Compute Multiply %s, 1.5 and get %s\n"
                    "Compute Min %s, %d and get %s",
                    STR_ARGS(g->l), g->part, room, room, room, room, room, room, room, GUARD_LIMIT,
                    room);
}

/* A block that may outweigh all before gets its own maximum; where it moved at once it has. */
static tl_block heavy_way(reason *r, const guard_form *g) {
    tl_block body = slow_way(r, g);
    if (g->is_eager)
        body = under(r, reason_say(r, "not %s", g->eager), "else it has moved above", body);
    append_quote(&body, set_room(r, g));
    return body;
}

static bool is_first_without_vote(reason *r, const guard_form *g) {
    return g->keeps || reason_wants_peel(r);
}

/* The first block has its own maximum: none of its terms is above 1, and nothing moves. */
static tl_block under_later(reason *r, const guard_form *g, tl_block body) {
    if (!is_first_without_vote(r, g)) return body; /* costs less there than another branch */
    const char *j = edit_z(r->memory, g->loop->loop.name);
    const char *from = edit_factor_text(r->memory, g->loop->loop.from);
    return under(r, reason_say(r, "%s > %s", j, from), "not above its own maximum", body);
}

/* `Allocate name` like l. */
static void allocate_like_l(reason *r, const guard_form *g, const char *name, const char *comment) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_REGISTER) continue;
        for (int i = 0; i < s->allocate.name_count; i++)
            if (str_equal(s->allocate.names[i], edit_bare(g->l))) {
                tl_statement *copy = tl_statement_copy(r->memory, s);
                copy->allocate.names = arena_new(r->memory, str);
                copy->allocate.names[0] = str_from(name);
                copy->allocate.name_ranges = arena_new(r->memory, diag_range);
                copy->allocate.name_count = 1;
                copy->comment = str_from(comment);
                edit_after(r->kernel, s, (tl_block){copy, copy});
                return;
            }
    }
}

static void remove_if(reason *r, tl_statement *s) {
    if (s) edit_remove(r->kernel, s);
}

/* `if any(...)`; or a vote that is kept, since a part of what depends on it may have to wait. */
static tl_block vote(reason *r, const guard_form *g, const guard_vote *v, tl_block body) {
    bool is_kept = g->keeps || (g->is_near && g->is_eager); /* behind it, the other asks for it */
    if (!is_kept) return under_later(r, g, under(r, v->condition, v->reason, body));
    tl_block kept = tl_quote(r->memory, "let %s = %s // %s", v->name, v->condition, v->reason);
    append_quote(&kept, under_later(r, g, under(r, v->name, v->comment, body)));
    return kept;
}

/* A product that still adds to the sums lands first, so they follow behind all else. */
static tl_block rescale(reason *r, const guard_form *g, const char *votes) {
    tl_block body = {0};
    for (int i = 0; i < g->sum_count; i++) append_copy(r, &body, g->sums[i]);
    return under_later(r, g, under(r, votes, "the sums so far follow", body));
}

/* What was carried from block to block begins: the shift belongs to the start, nothing moved. */
static void write_start(reason *r, const guard_form *g) {
    tl_block start = {0};
    append_copy(r, &start, g->shift);
    start.first->comment = STR("so far");
    bool is_first_apart = g->keeps && reason_wants_peel(r) && reason_is_never_empty(r, g->loop);
    if (!is_first_apart) edit_before(r->kernel, g->loop, start);
    if (g->is_near && !is_first_apart)
        edit_before(
            r->kernel, g->loop,
            tl_quote(r->memory, "Compute Fill 0 and get %s // the first block sets it", g->room));
    if (g->is_eager)
        edit_before(r->kernel, g->loop,
                    tl_quote(r->memory, "Compute Fill 1 and get %.*s // nothing has moved",
                             STR_ARGS(g->alpha)));
}

/* The mask of the scores, which says where they lie. */
static const tl_statement *find_mask(const guard_form *g) {
    for (tl_statement *s = g->product; s && s != g->maximum; s = tl_next(s, g->loop))
        if (edit_is_compute(s, TL_MASK) && edit_operand_is(s, 0, g->s)) return s;
    return NULL;
}

/* How many columns of the first block its maximum is taken over: 0 for all. Any column's score is a
 * number to subtract, as long as the vote fails; the largest of a few is found sooner.
 */
static int64_t first_columns(reason *r, const guard_form *g) {
    int64_t wanted = 0, from, columns = 0;
    reason_let_integer(r, "first_columns", &wanted);
    const tl_statement *mask = find_mask(g);
    const tiles_list *tiles = tiles_read(r);
    const tiles_tile *s = tiles_find(tiles, g->s);
    bool is_known = g->keeps && !g->is_near && mask && mask->compute.place.count == 2 && s &&
                    s->axis_count == 2 &&
                    reason_known(r, tiles_extent(tiles, s->axes[1])->extent, &columns) &&
                    reason_known(r, g->loop->loop.from, &from) && from == 0;
    return is_known && wanted > 0 && GUARD_FEW * wanted <= columns ? wanted : 0;
}

static tl_block maximum_of_first(reason *r, const guard_form *g, int64_t columns) {
    tl_block body = {0};
    if (columns == 0) {
        append_copy(r, &body, g->maximum);
    } else {
        const char *t = edit_z(r->memory, g->t);
        const tiles_tile *s = tiles_find(tiles_read(r), g->s);
        append_quote(&body, tl_quote(r->memory, "Compute Cast %.*s and get %s", STR_ARGS(g->s), t));
        tl_block mask =
            tl_quote(r->memory, "Compute Mask %s where %.*s >= %lld // of the first columns alone",
                     t, STR_ARGS(s->axes[1]), (long long)columns);
        mask.first->compute.place =
            tl_statement_copy(r->memory, find_mask(g))->compute.place; /* as deep a copy */
        append_quote(&body, mask);
        append_quote(
            &body, tl_quote(r->memory, "Compute RowMax %s and accumulate %.*s", t, STR_ARGS(g->m)));
    }
    append_copy(r, &body, g->shift);
    return body;
}

/* A column behind the first ones is far above them: the maximum of all, and powers again. */
static tl_block first_again(reason *r, const guard_form *g) {
    tl_block body = maximum_of_first(r, g, 0);
    append_quote(&body, powers(r, g, ""));
    return under(r, reaches(r, g), "a column behind the first ones is far above", body);
}

static tl_block take_in(reason *r, const guard_form *g) {
    return tl_quote(r->memory,
                    "Compute Add %.*s, %s and get %.*s // the denominator takes in this block",
                    STR_ARGS(g->l), g->part, STR_ARGS(g->l));
}

static void write_guard(reason *r, guard_form *g) {
    g->part = edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "part"));
    g->eager = edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "eager"));
    if (g->is_near) g->room = edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "room"));
    const char *j = edit_z(r->memory, g->loop->loop.name);
    const char *from = edit_factor_text(r->memory, g->loop->loop.from);
    const guard_vote slow = {
        edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "slow")),
        g->is_near ? reason_say(r, "any(not (%s < %s))", g->part, g->room) : reaches(r, g),
        g->is_near ? "rarely: it may outweigh all before" : "rarely: the maximum must move",
        "the scores are still there"};
    const guard_vote eager = {
        g->eager, reason_say(r, "any(%.*s < %g)", STR_ARGS(g->alpha), 1.0 / GUARD_FAR),
        "the maximum moved far, so it may again", "at once, before the powers"};
    if (g->is_near) allocate_like_l(r, g, g->room, "what a part may reach");
    allocate_like_l(r, g, g->part, "this block's part of it");
    if (g->keeps) keep_scores(r, g);
    write_start(r, g);

    int64_t columns = first_columns(r, g);
    const char *at_first = reason_say(r, "%s == %s", j, from);
    tl_block tail = {0}, first = under(r, at_first, "the first block sets the maximum",
                                       maximum_of_first(r, g, columns));
    if (g->is_eager) append_quote(&tail, vote(r, g, &eager, move_at_once(r, g)));
    append_quote(&tail, powers(r, g, " // inside the lane"));
    if (columns > 0)
        append_quote(&tail, under(r, at_first, "its later columns", first_again(r, g)));
    if (g->is_near && is_first_without_vote(r, g))
        append_quote(&tail, under(r, at_first, "its own maximum: none above 1", set_room(r, g)));
    append_quote(&tail, vote(r, g, &slow, g->is_near ? heavy_way(r, g) : slow_way(r, g)));
    if (g->keeps) append_quote(&tail, take_in(r, g));
    else edit_append(&g->loop->loop.body, g->loop, take_in(r, g)); /* see docs/registers.md */
    if (g->is_apart && g->sum_count > 0)
        append_quote(&tail, rescale(r, g,
                                    g->is_eager ? reason_say(r, "%s or %s", eager.name, slow.name)
                                                : slow.name));

    edit_before(r->kernel, g->maximum, first);
    edit_before(r->kernel, g->maximum, tail);
    remove_if(r, g->save);
    remove_if(r, g->maximum);
    remove_if(r, g->moved);
    remove_if(r, g->scaled);
    remove_if(r, g->factor);
    remove_if(r, g->shift);
    remove_if(r, g->bias);
    remove_if(r, g->power);
    remove_if(r, g->rescale);
    remove_if(r, g->add);
    for (int i = 0; i < g->sum_count; i++) remove_if(r, g->sums[i]);
    remove_if(r, g->cast);
}

/* Has the left operand two places, so that its product runs beside the next block's elements? */
static bool has_two_places(const reason *r, const guard_form *g) {
    tl_statement *role = warpgroups_role(r->kernel);
    const tl_statement *a =
        role ? edit_find_allocation(role->role.body.first, edit_target_name(g->cast), TL_REGISTER)
             : NULL;
    return a && a->allocate.stages;
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

static void say_guarded(reason *r, const guard_form *g, double saved) {
    reason_decide(
        r, "moving maximum",
        "%.*s is set by the first block and moves only when a part of a row's sum reaches "
        "%d: saves %.1f operations a score; 16-bit %.*s holds up to twice that%s%s%s",
        STR_ARGS(g->m), GUARD_LIMIT, saved, STR_ARGS(edit_target_name(g->cast)),
        g->is_eager ? "; behind a far move the next block moves it at once" : "",
        g->is_few ? "; few of the first block's columns set it" : "",
        g->is_near ? "; also where it reaches 1.5 times the row's sum: one weight's rounding "
                     "would be the result's"
                   : "");
}

bool reason_guard(reason *r) {
    int64_t wanted = -1, eager = -1;
    bool any = false;
    reason_let_integer(r, "guard", &wanted);
    reason_let_integer(r, "eager", &eager);
    edit_remove_let(r->kernel, STR("eager"));
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (!edit_is_compute(s, TL_ROW_MAX) || !s->parent || s->parent->kind != TL_FOR) continue;
        guard_form g;
        if (!read_form(r, s, &g)) {
            reason_decide(r, "moving maximum", "%.*s moves with every block: %s",
                          STR_ARGS(edit_target_name(s)), g.why);
            continue;
        }
        reason_offers_switch(r, "guard", wanted != 0);
        if (wanted == 0) {
            reason_decide(r, "moving maximum", "%.*s moves with every block, as %s", STR_ARGS(g.m),
                          reason_pin_word(r, "guard"));
            continue;
        }
        g.is_apart = has_two_places(r, &g);
        g.is_eager = eager < 0 ? g.keeps : eager > 0;
        g.is_few = first_columns(r, &g) > 0;
        double saved = saved_operations(r, &g);
        next = g.loop->next; /* the loop's body is written anew */
        write_guard(r, &g);
        any = true;
        say_guarded(r, &g, saved);
    }
    edit_remove_let(r->kernel, STR("guard"));
    edit_remove_let(r->kernel, STR("first_columns"));
    edit_remove_let(r->kernel, STR("near_maximum"));
    if (wanted == 1 && !any)
        return reason_stuck(
            r, NULL, "no maximum of kernel %.*s can be guarded: %s", STR_ARGS(r->kernel->name),
            r->log.count > 0 ? edit_z(r->memory, r->log.items[r->log.count - 1].sentence)
                             : "it has none");
    return true;
}
