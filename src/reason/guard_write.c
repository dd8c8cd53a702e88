/* The guarded form of an online softmax, statement by statement; see guard.c. */
#include "reason/guard.h"
#include "reason/scalar.h"
#include "reason/warpgroups.h"

static const char HAS_MOVED[] = "else it has moved above";

/* A vote of each warp, and why its body is under it. */
typedef struct guard_vote {
    const char *name, *condition, *reason, *comment;
} guard_vote;

/* The powers leave the scores alone: a tile of their own, which no register has to hold for longer
 * than an element's way from the scores to its 16-bit copy.
 */
static void keep_scores(reason *r, guard_form *g) {
    g->t = reason_fresh(r, "T");
    tl_statement *first = g->difference ? g->difference : g->bias;
    first->compute.target = tl_name_expr(r->memory, g->t);
    if (g->difference) edit_rename(g->bias, g->s, g->t);
    edit_rename(g->power, g->s, g->t);
    edit_rename(g->add, g->s, g->t);
    edit_rename(g->cast, g->s, g->t);
    guard_allocate_like(r, g->s, edit_z(r->memory, g->t),
                        "an element at a time: held in no register for long");
}

void guard_lift_shift(reason *r, guard_form *g) {
    if (g->lift == 0) return;
    tl_statement **product = g->shift ? &g->shift : &g->bias; /* what the lift goes with */
    const tl_compute *c = &(*product)->compute;
    tl_block lifted = tl_quote(r->memory, "Compute MultiplyAdd %s, %s, %d and get %s",
                               edit_text(r->memory, c->operands[0].value),
                               edit_text(r->memory, c->operands[1].value), -g->lift,
                               edit_text(r->memory, c->target));
    lifted.first->comment = (*product)->comment;
    edit_before(r->kernel, *product, lifted);
    edit_remove(r->kernel, *product);
    *product = lifted.first;
}

static void append_shift(reason *r, tl_block *block, const guard_form *g) {
    edit_append_copy(r->memory, block, g->shift);
    for (int i = 0; i < GUARD_SHIFT_STEPS; i++) edit_append_copy(r->memory, block, g->shifts[i]);
}

/* The maximum moves with this block; what was summed up so far is rescaled. */
static tl_block move(reason *r, const guard_form *g) {
    tl_block body = {0};
    edit_append_copy(r->memory, &body, g->save);
    edit_append_copy(r->memory, &body, g->maximum);
    edit_append_copy(r->memory, &body, g->moved);
    edit_append_copy(r->memory, &body, g->scaled);
    edit_append_copy(r->memory, &body, g->factor);
    append_shift(r, &body, g);
    edit_append_copy(r->memory, &body, g->rescale);
    if (g->has_exact)
        reason_append(r, &body, "Compute Multiply %s, %.*s and get %s", g->exact,
                      STR_ARGS(g->alpha), g->exact);
    for (int i = 0; i < g->sum_count && !g->is_apart; i++)
        edit_append_copy(r->memory, &body, g->sums[i]);
    return body;
}

/* Where a block reaches far up, and not too far, nothing is done but for the next one, which moves
 * the maximum before its powers: a move to come would cost that one's powers twice.
 */
static tl_block expect_move(reason *r, const guard_form *g) {
    return tl_quote(r->memory,
                    "Compute Fill 0 and get %.*s // the next block moves it without a vote",
                    STR_ARGS(g->alpha));
}

/* From here on the range alone limits a block's part, and the denominator takes rounded weights. */
static tl_block open_room(reason *r, const guard_form *g) {
    return tl_quote(r->memory, "Compute Max %s, %s and get %s // so are all sums from here on",
                    g->room, g->high, g->room);
}

/* Before the powers, which the maximum is then exact for: the vote after them sets the room. */
static tl_block move_at_once(reason *r, const guard_form *g) {
    tl_block body = move(r, g);
    if (g->is_again) edit_join(&body, open_room(r, g));
    else if (g->is_near)
        reason_append(r, &body, "Compute Fill 0 and get %s // is set below", g->room);
    return body;
}

static tl_block powers_as(reason *r, const guard_form *g, bool is_rounded, bool is_voted,
                          const char *comment) {
    tl_block body = {0};
    if (is_voted && g->fused) {
        edit_append_copy(r->memory, &body, g->fused);
    } else {
        edit_append_copy(r->memory, &body, g->difference);
        edit_append_copy(r->memory, &body, g->bias);
    }
    edit_append_copy(r->memory, &body, g->power);
    if (g->has_exact)
        reason_append(r, &body, "Compute RowSum %.*s and get %s // exact weights", STR_ARGS(g->t),
                      g->exact_part);
    if (is_rounded) edit_append_copy(r->memory, &body, g->cast);
    str weights = is_rounded ? edit_target_name(g->cast) : g->t;
    reason_append(r, &body, "Compute RowSum %.*s and get %s%s", STR_ARGS(weights), g->part,
                  comment);
    if (!is_rounded) edit_append_copy(r->memory, &body, g->cast);
    return body;
}

static tl_block powers(reason *r, const guard_form *g, const char *comment) {
    return powers_as(r, g, g->is_rounded, false, comment);
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

/* Does a vote have a name, since after it the other asks for it? */
static bool is_kept(const guard_form *g) {
    return g->keeps || (g->is_near && g->is_eager);
}

/* The slow way: scores again (where they were overwritten), the maximum moves, powers again. What
 * scores are made from is loaded again, too: no register has to hold it until then.
 */
static tl_block slow_way(reason *r, const guard_form *g) {
    tl_block body = {0};
    for (tl_statement *s = g->loop->loop.body.first; s != g->maximum && !g->keeps; s = s->next)
        if (edit_writes_within(s, g->s) || loads_for_scores(r, g, s))
            edit_append_copy(r->memory, &body, s);
    if (body.first) body.first->comment = STR("the scores were overwritten: compute them again");
    tl_block moves = move(r, g);
    if (g->fused && g->is_eager && is_kept(g)) /* a row far out fails the vote all the same */
        moves = reason_under(r, reason_say(r, "not %s", g->eager), HAS_MOVED, moves);
    edit_join(&body, moves);
    edit_join(&body, powers(r, g, ""));
    return body;
}

static const char *reaches(reason *r, const guard_form *g, const char *limit) {
    return reason_say(r, "any(not (%s < %s))", g->part, limit);
}

static tl_block if_high(reason *r, const guard_form *g) {
    return reason_under(r, reason_say(r, "any(%s >= %s)", g->part, g->high),
                        "it comes close to the limit", expect_move(r, g));
}

/* Past a vote on what a part may reach before the next block has to act: the slow way where this
 * one must. A product that still adds to the sums meets their factor later, 1 if nothing moved.
 */
static tl_block slow_or_next(reason *r, const guard_form *g) {
    if (!g->foresees) return slow_way(r, g);
    tl_block body = {0};
    if (g->is_apart)
        edit_join(&body, reason_under(r, reason_say(r, "not %s", g->eager), "nor does it move now",
                                      tl_quote(r->memory, "Compute Fill 1 and get %.*s",
                                               STR_ARGS(g->alpha))));
    reason_append(r, &body, "let %s = %s // it must move now", g->hard, reaches(r, g, g->limit));
    edit_join(&body, reason_under(r, g->hard, "the scores are still there", slow_way(r, g)));
    if (!g->is_apart)
        edit_join(&body,
                  reason_under(r, reason_say(r, "not %s", g->hard), "not yet", expect_move(r, g)));
    return body;
}

/* A lane's part may reach half as much again as the whole row has so far, which is at least 1, the
 * weight of its maximum (and of a row that has seen nothing). By chance no lane gets there.
 */
static tl_block set_room(reason *r, const guard_form *g) {
    const char *room = g->room;
    return tl_quote(r->memory,
                    "Compute Add %.*s, %s and get %s // what the row has so far\n"
                    "Reshape %s from partial rows to rows\n"
                    "Compute Max %s, %s and get %s\n"
                    "Compute Multiply %s, 1.5 and get %s\n"
                    "Compute Min %s, %s and get %s",
                    STR_ARGS(g->l), g->part, room, room, room, g->least, room, room, room, room,
                    g->high, room);
}

/* A block that may outweigh all before: its weights as the product takes them, and from here on a
 * room that only the range limits. The maximum moves where it must.
 */
static tl_block sum_again(reason *r, const guard_form *g) {
    tl_block body = {0};
    const char *must = reaches(r, g, g->limit);
    if (g->foresees) reason_append(r, &body, "let %s = %s // it must move now", g->hard, must);
    edit_join(&body, reason_under(r, g->foresees ? g->hard : must, "the maximum must move",
                                  slow_way(r, g)));
    reason_append(r, &body, "Compute RowSum %.*s and get %s // rounded as the product's operand is",
                  STR_ARGS(edit_target_name(g->cast)), g->part);
    edit_join(&body, open_room(r, g));
    if (g->foresees)
        edit_join(&body,
                  reason_under(r, reason_say(r, "not %s", g->hard), "not yet", if_high(r, g)));
    return body;
}

/* A block that may outweigh all before gets its own maximum; where it moved at once it has. */
static tl_block heavy_way(reason *r, const guard_form *g) {
    if (g->is_again) return sum_again(r, g);
    tl_block body = slow_way(r, g);
    if (g->is_eager && !g->fused)
        body = reason_under(r, reason_say(r, "not %s", g->eager), HAS_MOVED, body);
    edit_join(&body, set_room(r, g));
    return body;
}

static bool is_first_without_vote(reason *r, const guard_form *g) {
    return g->keeps || reason_wants_peel(r);
}

bool guard_first_is_apart(reason *r, const guard_form *g) {
    return g->keeps && reason_wants_peel(r) && reason_is_never_empty(r, g->loop);
}

/* The first block has its own maximum: none of its terms is above 1, and nothing moves. */
static tl_block under_later(reason *r, const guard_form *g, tl_block body) {
    if (!is_first_without_vote(r, g)) return body; /* costs less there than another branch */
    const char *j = edit_z(r->memory, g->loop->loop.name);
    const char *from = edit_factor_text(r->memory, g->loop->loop.from);
    return reason_under(r, reason_say(r, "%s > %s", j, from), "not above its own maximum", body);
}

void guard_allocate_like(reason *r, str like, const char *name, const char *comment) {
    tl_statement *a = edit_register_tile(r->kernel, like);
    if (a) edit_allocate_like(r->kernel, r->memory, a, str_from(name), comment);
}

/* `if any(...)`; or a vote that is kept, since a part of what depends on it may have to wait. */
static tl_block vote(reason *r, const guard_form *g, const guard_vote *v, tl_block body) {
    if (!is_kept(g)) return under_later(r, g, reason_under(r, v->condition, v->reason, body));
    tl_block kept = tl_quote(r->memory, "let %s = %s // %s", v->name, v->condition, v->reason);
    edit_join(&kept, under_later(r, g, reason_under(r, v->name, v->comment, body)));
    return kept;
}

/* A product that still adds to the sums lands first, so they follow after all else. */
static tl_block rescale(reason *r, const guard_form *g, const char *votes) {
    tl_block body = {0};
    for (int i = 0; i < g->sum_count; i++) edit_append_copy(r->memory, &body, g->sums[i]);
    if (g->foresees)
        edit_join(&body, reason_under(r, g->slow, "past their factor's last use", if_high(r, g)));
    return under_later(r, g, reason_under(r, votes, "the sums so far follow", body));
}

/* What was carried from block to block begins: the shift belongs to the start, nothing moved. */
static void write_start(reason *r, const guard_form *g) {
    tl_block start = {0};
    append_shift(r, &start, g);
    bool is_first_apart = guard_first_is_apart(r, g);
    if (start.first) start.first->comment = STR("so far");
    if (start.first && !is_first_apart) edit_before(r->kernel, g->loop, start);
    if (g->is_near && !is_first_apart)
        reason_before(r, g->loop, "Compute Fill 0 and get %s // the first block sets it", g->room);
    if (g->is_eager)
        reason_before(r, g->loop, "Compute Fill 1 and get %.*s // nothing has moved",
                      STR_ARGS(g->alpha));
}

/* The mask of the scores, which says where they lie. */
static const tl_statement *find_mask(const guard_form *g) {
    for (tl_statement *s = g->product; s && s != g->maximum; s = tl_next(s, g->loop))
        if (edit_is_compute(s, TL_MASK) && edit_operand_is(s, 0, g->s)) return s;
    return NULL;
}

int64_t guard_first_columns(reason *r, const guard_form *g) {
    int64_t wanted = reason_decided(r, 0, "first_columns"), from, columns = 0;
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
        edit_append_copy(r->memory, &body, g->maximum);
    } else {
        const char *t = edit_z(r->memory, g->t);
        const tiles_tile *s = tiles_find(tiles_read(r), g->s);
        reason_append(r, &body, "Compute Cast %.*s and get %s", STR_ARGS(g->s), t);
        tl_block mask =
            tl_quote(r->memory, "Compute Mask %s where %.*s >= %lld // of the first columns alone",
                     t, STR_ARGS(s->axes[1]), (long long)columns);
        mask.first->compute.place =
            tl_statement_copy(r->memory, find_mask(g))->compute.place; /* as deep a copy */
        edit_join(&body, mask);
        reason_append(r, &body, "Compute RowMax %s and accumulate %.*s", t, STR_ARGS(g->m));
    }
    append_shift(r, &body, g);
    return body;
}

static tl_block take_in(reason *r, const guard_form *g) {
    tl_block body = tl_quote(
        r->memory, "Compute Add %.*s, %s and get %.*s // add this block to the denominator",
        STR_ARGS(g->l), g->part, STR_ARGS(g->l));
    if (g->has_exact)
        reason_append(r, &body, "Compute Add %s, %s and get %s", g->exact, g->exact_part, g->exact);
    return body;
}

/* Logarithms of l are those of exact weights: a sum of their own, which starts and ends as l does.
 */
static void write_exact_sum(reason *r, guard_form *g) {
    g->exact = reason_fresh_z(r, "l_exact");
    g->exact_part = reason_fresh_z(r, "part_exact");
    guard_allocate_like(r, g->l, g->exact_part, "this block's part of it");
    guard_allocate_like(r, g->l, g->exact, "the sum of weights as they are, for its logarithm");
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        bool starts_or_joins = edit_is_compute(s, TL_FILL) || s->kind == TL_RESHAPE;
        if (starts_or_joins && edit_writes(s, g->l)) {
            tl_block copy = {0};
            edit_append_copy(r->memory, &copy, s);
            edit_rename(copy.first, g->l, str_from(g->exact));
            edit_after(r->kernel, s, copy);
        } else if (edit_is_compute(s, TL_LOG) || edit_is_compute(s, TL_LOG2)) {
            edit_rename(s, g->l, str_from(g->exact));
        }
    }
}

/* Powers two ways: by the block's room their weights are added up rounded, or as they are. The left
 * operand, which the block before left as its product takes it, is an accumulator's again, so that
 * both ways begin alike.
 */
static tl_block powers_by_room(reason *r, const guard_form *g) {
    const char *rough = reason_fresh_z(r, "rough");
    str p = edit_target_name(g->cast);
    tl_block body = tl_quote(r->memory,
                             "let %s = any(%s >= %s) // a block has outweighed all before it\n"
                             "Reshape %.*s from mma_A to mma_C // its product has landed",
                             rough, g->room, g->high, STR_ARGS(p));
    edit_join(&body,
              reason_under(r, rough, "the denominator adds weights as rounded as the product's",
                           powers_as(r, g, true, true, "")));
    edit_join(&body, reason_under(r, reason_say(r, "not %s", rough), "exact weights",
                                  powers_as(r, g, false, true, " // inside the lane")));
    return body;
}

void guard_write(reason *r, guard_form *g) {
    g->part = reason_fresh_z(r, "part");
    g->eager = reason_fresh_z(r, "eager");
    if (g->is_near) g->room = reason_fresh_z(r, "room");
    const char *j = edit_z(r->memory, g->loop->loop.name);
    const char *from = edit_factor_text(r->memory, g->loop->loop.from);
    g->slow = reason_fresh_z(r, "slow");
    g->hard = reason_fresh_z(r, "hard");
    const guard_vote slow = {g->slow, reaches(r, g, g->is_near ? g->room : g->high),
                             g->is_near    ? "rarely: it may outweigh all before"
                             : g->foresees ? "rarely: the maximum must move, now or next"
                                           : "rarely: the maximum must move",
                             "the scores are still there"};
    const guard_vote eager = {g->eager, reason_say(r, "any(%.*s < %s)", STR_ARGS(g->alpha), g->far),
                              "the maximum moved far, so it may again",
                              "at once, before the powers"};
    if (g->is_near) guard_allocate_like(r, g->l, g->room, "what a part may reach");
    guard_allocate_like(r, g->l, g->part, "this block's part of it");
    if (g->has_exact) write_exact_sum(r, g);
    if (g->keeps) keep_scores(r, g);
    guard_fuse(r, g);
    guard_lift_shift(r, g);
    write_start(r, g);

    int64_t columns = guard_first_columns(r, g);
    const char *at_first = reason_say(r, "%s == %s", j, from);
    tl_block tail = {0}, first = reason_under(r, at_first, "the first block sets the maximum",
                                              maximum_of_first(r, g, columns));
    if (g->is_eager) edit_join(&tail, vote(r, g, &eager, move_at_once(r, g)));
    if (g->is_again) {
        edit_join(&tail,
                  reason_under(r, at_first, "exact weights", powers(r, g, " // inside the lane")));
        edit_join(&tail, under_later(r, g, powers_by_room(r, g)));
    } else if (g->fused && is_first_without_vote(r, g)) {
        edit_join(&tail, reason_under(r, at_first, "exact differences",
                                      powers(r, g, " // inside the lane")));
        edit_join(&tail,
                  under_later(r, g, powers_as(r, g, g->is_rounded, true, " // inside the lane")));
    } else {
        edit_join(&tail, powers_as(r, g, g->is_rounded, true, " // inside the lane"));
    }
    if (columns > 0) { /* else the maximum of all, and powers again */
        tl_block again = maximum_of_first(r, g, 0);
        edit_join(&again, powers(r, g, ""));
        again = reason_under(r, reaches(r, g, g->limit),
                             "a column past the first ones is far above", again);
        edit_join(&tail, reason_under(r, at_first, "its later columns", again));
    }
    if (g->is_near && is_first_without_vote(r, g))
        edit_join(&tail,
                  reason_under(r, at_first, "its own maximum: none above 1", set_room(r, g)));
    edit_join(&tail, vote(r, g, &slow, g->is_near ? heavy_way(r, g) : slow_or_next(r, g)));
    if (g->keeps) edit_join(&tail, take_in(r, g));
    else edit_append(&g->loop->loop.body, g->loop, take_in(r, g)); /* see docs/registers.md */
    if (g->is_apart && g->sum_count > 0)
        edit_join(&tail, rescale(r, g,
                                 g->is_eager ? reason_say(r, "%s or %s", eager.name, slow.name)
                                             : slow.name));

    edit_before(r->kernel, g->maximum, first);
    edit_before(r->kernel, g->maximum, tail);
    tl_statement *own[GUARD_STATEMENTS_MAX];
    int count = guard_statements(g, own);
    for (int i = 0; i < count; i++) edit_remove(r->kernel, own[i]);
}
