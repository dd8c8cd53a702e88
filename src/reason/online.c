/* Pass online: Softmax becomes operations (language study 5.6).
 *
 * Where everything made from the scores is linear in them and ends in sums that are read after the
 * loop only, one walk suffices: sums are rescaled as the maximum grows, and divided at the end.
 * Otherwise the loop is split in two: one for maximum and sum, one that computes the scores again.
 */
#include "reason/carry.h"
#include "reason/names.h"
#include "reason/tiles.h"

/* One Softmax and all that is known about it. */
typedef struct online {
    tl_statement *softmax, *loop; /* loop: the one that walks the axis; NULL: none does */
    bool is_single;               /* the axis is walked in single steps: no axis of the tile */
    str axis;                     /* index name of the axis, when a tile has it */
    const char *scores, *result;  /* S, and what it becomes */
    const char *m, *l, *m_old, *alpha;
    bool m_is_given, l_is_given;
    const char *maximum; /* what is given out as m, which starts above minus infinity; or NULL */
    names sums;          /* accumulators that need the rescale */
    const char *why;     /* not online: the reason */
    str why_header;
} online;

/* --- what is asked ---------------------------------------------------------------------------- */

typedef LIST(tl_statement *) statements;

/* Which statements of the loop's own block, before 'end', does 'name' depend on? The last first. */
static statements slice(arena *memory, tl_statement *end, str name) {
    statements found = {0};
    names needed = names_of(memory, name);
    for (tl_statement *s = end->previous; s; s = s->previous) {
        names reads = {0}, writes = {0};
        names_add_uses(memory, s, &reads, &writes);
        if (!names_meet(&writes, &needed)) continue;
        for (int i = 0; i < reads.count; i++) names_add(memory, &needed, reads.items[i]);
        list_push(memory, &found, s);
    }
    return found;
}

/* Does S depend on the loop through a single index? */
static bool depends_singly(reason *r, tl_statement *softmax, const tl_statement *loop, str scores) {
    statements found = slice(r->memory, softmax, scores);
    for (int i = 0; i < found.count; i++) {
        const tl_place *place = &found.items[i]->copy.place;
        for (int k = 0; found.items[i]->kind == TL_COPY && k < place->count; k++)
            if (!place->items[k].is_block && tl_expr_names(place->items[k].at, loop->loop.name))
                return true;
    }
    return false;
}

static const char mask_advice[] =
    "leave the `if` out and say by a Mask what it leaves out, `Compute Mask S where "
    "allow[q/64, kv/64] == 0`; TL Code may leave out whole blocks by an `if`";

static bool find_axis(reason *r, const tiles_list *tiles, online *o) {
    const tiles_tile *tile = tiles_find(tiles, str_from(o->scores));
    if (!tile || tile->axis_count < 1)
        return reason_stuck(r, o->softmax, "the axes of %s are not known here", o->scores);
    int position = -1;
    /* the outermost loop wins: it is the last one on the way up */
    for (tl_statement *loop = edit_loop_of(o->softmax); loop; loop = edit_loop_of(loop)) {
        int walked = -1;
        for (int i = 0; i < tile->axis_count; i++)
            if (tiles_walk(r, o->softmax, tile->axes[i], NULL) == loop) walked = i;
        if (walked < 0 && !depends_singly(r, o->softmax, loop, str_from(o->scores))) continue;
        o->loop = loop;
        o->is_single = walked < 0;
        position = walked;
    }
    if (o->is_single && o->softmax->parent != o->loop)
        return reason_stuck(r, o->softmax,
                            "Softmax goes over %.*s, the outermost loop on which %s depends, and "
                            "must stand directly in it",
                            STR_ARGS(o->loop->loop.name), o->scores);
    if (o->is_single) return true;
    if (position < 0) position = tile->axis_count - 1;
    o->axis = tile->axes[position];
    if (position != tile->axis_count - 1 || tile->axis_count < 2)
        return reason_stuck(r, o->softmax,
                            "Softmax over %.*s needs it as the last of two axes of %s",
                            STR_ARGS(o->axis), o->scores);
    if (o->loop && o->softmax->parent != o->loop) {
        reason_stuck(r, o->softmax, "Softmax must stand directly in the loop over %.*s",
                     STR_ARGS(o->axis));
        return o->softmax->parent->kind == TL_IF && reason_advise(r, mask_advice);
    }
    return true;
}

static bool is_written_before(reason *r, const tl_statement *at, str name) {
    for (tl_statement *s = r->kernel->body.first; s && s != at; s = tl_next(s, NULL))
        if (edit_writes(s, name)) return true;
    return false;
}

/* log l + m: minus infinity by its logarithm where l is 0, whatever m is. */
static bool adds_to_logarithm(const tl_statement *s, str m, str l) {
    return edit_fits(s, "Add _, 0", m) &&
           edit_fits(edit_last_write(s, edit_operand_name(s, 0)), "Log 0 and get _", l);
}

/* Can what is after the softmax tell minus infinity from a number that stands for it? */
static bool is_given_out(const online *o) {
    const tl_compute *c = &o->softmax->compute;
    const tl_statement *from = o->loop ? o->loop : o->softmax;
    str m = c->maximum->text, l = c->sum->text;
    for (tl_statement *top = from->next; top; top = top->next)
        for (tl_statement *s = top; s; s = tl_next(s, top))
            if (edit_reads(s, m) && !adds_to_logarithm(s, m, l)) return true;
    return false;
}

static void choose_names(reason *r, online *o) {
    const tl_compute *c = &o->softmax->compute;
    const tl_statement *start = o->loop ? o->loop : o->softmax;
    if (c->maximum) {
        o->m = edit_z(r->memory, c->maximum->text);
        o->l = edit_z(r->memory, c->sum->text);
        o->m_is_given = is_written_before(r, start, c->maximum->text);
        o->l_is_given = is_written_before(r, start, c->sum->text);
        if (!o->m_is_given && is_given_out(o)) {
            o->maximum = o->m;
            o->m = reason_fresh_z(r, "%s_found", o->m);
        }
    } else {
        o->m = reason_fresh_z(r, "m");
        o->l = reason_fresh_z(r, "l");
    }
    o->m_old = reason_say(r, "%s_old", o->m);
    o->m_old = reason_fresh_z(r, "%s", o->m_old);
    o->alpha = reason_fresh_z(r, "alpha");
}

/* --- may it be online? ------------------------------------------------------------------------ */

static bool reject(reason *r, online *o, const tl_statement *s, const char *why) {
    o->why = why;
    o->why_header = s ? edit_header(r->memory, s) : (str){"", 0};
    return false;
}

/* A statement that reads a value derived from the scores: may it stay as it is? */
static bool allow_use(reason *r, const tiles_list *tiles, online *o, names *derived,
                      const tl_statement *s) {
    if (s->kind != TL_COMPUTE) return reject(r, o, s, "uses the scores themselves");
    const tl_compute *c = &s->compute;
    bool left = names_have(derived, edit_operand_name(s, 0));
    bool right = c->operand_count > 1 && names_have(derived, edit_operand_name(s, 1));
    str target = edit_target_name(s);
    bool is_sum = c->target_kind == TL_ACCUMULATE;
    tl_shape_rule shape = tl_operation_shape(c->operation);
    bool is_elementwise = shape == TL_SHAPE_ELEMENTWISE;
    if (shape == TL_SHAPE_PRODUCT && (!left || right || c->operands[0].is_transposed))
        return reject(r, o, s, "has the scores elsewhere than on the left");
    if (shape != TL_SHAPE_PRODUCT && !tl_is_linear(c->operation, left | (unsigned)right << 1))
        return reject(r, o, s, "is not linear in the scores");
    if (shape == TL_SHAPE_REDUCTION && c->operands[0].is_transposed)
        return reject(r, o, s, "sums over rows");
    if (!is_sum && is_elementwise) {
        names_add(r->memory, derived, target);
        return true;
    }
    if (!is_sum) return reject(r, o, s, "needs the finished scores inside the loop");
    const tiles_tile *sum = tiles_find(tiles, target);
    const tiles_tile *scores = tiles_find(tiles, str_from(o->scores));
    if (!sum || sum->axis_count < 1 || tiles_axis(sum, o->axis) >= 0)
        return reject(r, o, s, "sums along the rows of the scores");
    for (int i = 0; i < scores->axis_count; i++) {
        bool is_walked = !o->is_single && str_equal(scores->axes[i], o->axis);
        if (!is_walked && tiles_axis(sum, scores->axes[i]) < 0)
            return reject(r, o, s, "sums along an axis that the maximum has");
    }
    names_add(r->memory, &o->sums, target);
    return true;
}

static bool is_one_of(void *context, str name) {
    return names_have(context, name);
}

static bool reads_any(const tl_statement *s, names *n) {
    return edit_any_read(s, is_one_of, n);
}

/* The sums hold what the scores give and nothing else, and are not used in the loop: what else were
 * in them would be rescaled, too.
 */
static bool sums_are_free(reason *r, online *o, names *derived) {
    for (int i = 0; i < o->sums.count; i++)
        if (!carry_starts_at_zero(r, o->loop, o->sums.items[i]))
            return reject(r, o, o->loop, "does not begin with sums of 0");
    for (tl_statement *s = tl_next(o->loop, o->loop); s; s = tl_next(s, o->loop))
        for (int i = 0; i < o->sums.count; i++) {
            bool is_own = s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE &&
                          edit_writes(s, o->sums.items[i]);
            bool is_weighted = reads_any(s, derived) && !edit_is_before(r->kernel, s, o->softmax);
            if (is_own && !is_weighted) return reject(r, o, s, "adds something else to a sum");
            if (edit_takes(s, o->sums.items[i]) ||
                (!is_own && (edit_reads(s, o->sums.items[i]) || edit_writes(s, o->sums.items[i]))))
                return reject(r, o, s, "uses a sum before it is complete");
        }
    return true;
}

static bool may_be_online(reason *r, const tiles_list *tiles, online *o) {
    names derived = names_of(r->memory, str_from(o->result));
    for (tl_statement *top = o->softmax->next; top; top = top->next)
        for (tl_statement *s = top; s; s = tl_next(s, top)) {
            if (!reads_any(s, &derived)) {
                if (names_have(&derived, edit_target_name(s)))
                    return reject(r, o, s, "writes over the scores");
            } else if (!allow_use(r, tiles, o, &derived, s)) {
                return false;
            }
            const tl_compute *c = &o->softmax->compute;
            if (c->maximum && (edit_reads(s, c->maximum->text) || edit_reads(s, c->sum->text)))
                return reject(r, o, s, "needs maximum or sum inside the loop");
        }
    for (int i = 0; i < derived.count; i++) {
        if (carry_between(o->loop, derived.items[i]))
            return reject(r, o, o->loop, "uses the scores of the block before");
        if (carry_out(o->loop, derived.items[i]))
            return reject(r, o, o->loop, "leaves scores that are used after it");
    }
    return sums_are_free(r, o, &derived);
}

/* --- the forms -------------------------------------------------------------------------------- */

static void write_starts(reason *r, const online *o, tl_statement *at) {
    if (!o->m_is_given)
        reason_before(
            r, at, "Compute Fill -1e30 and get %s // finite, so that no inf - inf can occur below",
            o->m);
    if (!o->l_is_given)
        reason_before(r, at, "Compute Fill 0 and get %s // the denominator starts", o->l);
}

/* Maximum and sum include one more tile of scores; the tile becomes exp(S - m). */
static tl_block update_text(reason *r, const online *o) {
    str reduce = o->is_single
                     ? str_format(r->memory, "Max %s, %s and get %s", o->m, o->scores, o->m)
                     : str_format(r->memory, "RowMax %s and accumulate %s", o->scores, o->m);
    str add = o->is_single ? str_format(r->memory, "Add %s, %s and get %s", o->l, o->result, o->l)
                           : str_format(r->memory, "RowSum %s and accumulate %s", o->result, o->l);
    return tl_quote(r->memory,
                    "Compute Cast %s and get %s // the maximum so far\n"
                    "Compute %.*s // the new maximum\n"
                    "Compute Subtract %s, %s and get %s // how far it moved\n"
                    "Compute Exp %s and get %s // what all earlier terms must be multiplied by\n"
                    "Compute Subtract %s, %s and get %s\n"
                    "Compute Exp %s and get %s\n"
                    "Compute Multiply %s, %s and get %s\n"
                    "Compute %.*s // add this block to the denominator\n",
                    o->m, o->m_old, STR_ARGS(reduce), o->m_old, o->m, o->alpha, o->alpha, o->alpha,
                    o->scores, o->m, o->result, o->result, o->result, o->l, o->alpha, o->l,
                    STR_ARGS(add));
}

/* After 'at': a row that saw nothing has no maximum. */
static void give_out_maximum(reason *r, const online *o, tl_statement *at) {
    if (!o->maximum) return;
    reason_after(r, at,
                 "Compute Cast %s and get %s // the maximum that leaves the kernel\n"
                 "Compute Mask %s where %s <= 0 // a fully masked row has none",
                 o->m, o->maximum, o->maximum, o->l);
}

/* After the loop: the first statement of its block that needs the sums finished, since it reads or
 * changes one of them, or changes the denominator. */
static tl_statement *first_user(const online *o) {
    for (tl_statement *s = o->loop->next; s; s = s->next) {
        if (edit_writes_within(s, str_from(o->l))) return s;
        for (int i = 0; i < o->sums.count; i++)
            if (edit_reads_within(s, o->sums.items[i]) || edit_writes_within(s, o->sums.items[i]))
                return s;
    }
    return NULL;
}

/* 1/max(l, 1e-30) into 'inverse'; then each sum times it. */
static tl_block division_text(reason *r, const online *o, const char *inverse) {
    tl_block text = tl_quote(r->memory,
                             "Compute Max %s, 1e-30 and get %s // a fully masked row ends as 0\n"
                             "Compute Reciprocal %s and get %s\n",
                             o->l, inverse, inverse, inverse);
    for (int i = 0; i < o->sums.count; i++) {
        const char *sum = edit_z(r->memory, o->sums.items[i]);
        reason_append(r, &text, "Compute Multiply %s, %s and get %s // normalise", sum, inverse,
                      sum);
    }
    return text;
}

static void write_online(reason *r, online *o) {
    write_starts(r, o, o->loop);
    tl_statement *last = o->softmax;
    tl_block update = update_text(r, o);
    for (int i = 0; i < o->sums.count; i++) {
        const char *sum = edit_z(r->memory, o->sums.items[i]);
        reason_append(r, &update, "Compute Multiply %s, %s and get %s // the sum so far, rescaled",
                      sum, o->alpha, sum);
    }
    edit_replace(r->kernel, last, update);
    give_out_maximum(r, o, o->loop);
    if (!o->sums.count) return; /* m and l are all that is read */
    tl_statement *user = first_user(o), *from = user ? user : o->loop->next;
    const char *inverse = o->l;
    for (; from && inverse == o->l; from = from->next) /* who reads l wants it as it is */
        if (edit_reads_within(from, str_from(o->l))) inverse = reason_fresh_z(r, "inverse");
    tl_block division = division_text(r, o, inverse);
    if (user) edit_before(r->kernel, user, division);
    else edit_after(r->kernel, o->loop, division);
}

/* exp(S - m)/l in place of Softmax, with m and 1/l known. */
static tl_block final_text(reason *r, const online *o, const char *inverse) {
    return tl_quote(r->memory,
                    "Compute Subtract %s, %s and get %s\n"
                    "Compute Exp %s and get %s\n"
                    "Compute Multiply %s, %s and get %s // normalise\n",
                    o->scores, o->m, o->result, o->result, o->result, o->result, inverse,
                    o->result);
}

static tl_block inverse_text(reason *r, const online *o, const char *inverse) {
    return tl_quote(r->memory,
                    "Compute Max %s, 1e-30 and get %s // a fully masked row ends as 0\n"
                    "Compute Reciprocal %s and get %s\n",
                    o->l, inverse, inverse, inverse);
}

/* What leads to the scores runs twice: that must leave nothing for a later block, or for anybody
 * else.
 */
static bool may_run_twice(reason *r, const online *o, const statements *twice) {
    for (int i = 0; i < twice->count; i++)
        for (tl_statement *s = twice->items[i]; s; s = tl_next(s, twice->items[i])) {
            names reads = names_read(r->memory, s);
            str left = edit_target_name(s);
            if (!carry_between(o->loop, left)) left = (str){"", 0};
            for (int k = 0; k < reads.count && !left.length; k++)
                if (carry_between(o->loop, reads.items[k])) left = reads.items[k];
            bool is_store = s->kind == TL_COPY && s->copy.to == TL_GLOBAL;
            if (is_store) left = s->copy.what->text;
            if (!left.length) continue;
            return reason_stuck(
                r, s,
                "Softmax %s has to go through the loop over %.*s twice, since `%.*s` %s, but %.*s "
                "%s",
                o->scores, STR_ARGS(o->loop->loop.name), STR_ARGS(o->why_header), o->why,
                STR_ARGS(left),
                is_store ? "would be stored twice" : "goes on from one block to the next");
        }
    return true;
}

static bool write_two_passes(reason *r, online *o) {
    statements twice = slice(r->memory, o->softmax, str_from(o->scores));
    if (!may_run_twice(r, o, &twice)) return false;
    tl_statement *first = tl_statement_copy(r->memory, o->loop);
    first->loop.body = (tl_block){NULL, NULL};
    for (int i = twice.count - 1; i >= 0; i--) {
        tl_statement *copy = tl_statement_copy(r->memory, twice.items[i]);
        edit_append(&first->loop.body, first, (tl_block){copy, copy});
    }
    edit_append(&first->loop.body, first, update_text(r, o));
    edit_before(r->kernel, o->loop, (tl_block){first, first});
    write_starts(r, o, first);
    const char *inverse = reason_fresh_z(r, "inverse");
    edit_before(r->kernel, o->loop, inverse_text(r, o, inverse));
    give_out_maximum(r, o, first);
    edit_replace(r->kernel, o->softmax, final_text(r, o, inverse));
    return true;
}

static void write_whole(reason *r, online *o) {
    write_starts(r, o, o->softmax);
    const char *inverse = reason_fresh_z(r, "inverse");
    tl_block text;
    if (o->m_is_given || o->l_is_given) text = update_text(r, o);
    else
        text = tl_quote(r->memory,
                        "Compute RowMax %s and accumulate %s\n"
                        "Compute Subtract %s, %s and get %s\n"
                        "Compute Exp %s and get %s\n"
                        "Compute RowSum %s and accumulate %s\n",
                        o->scores, o->m, o->scores, o->m, o->result, o->result, o->result,
                        o->result, o->l);
    edit_before(r->kernel, o->softmax, text);
    edit_before(r->kernel, o->softmax, inverse_text(r, o, inverse));
    give_out_maximum(r, o, o->softmax);
    reason_replace(r, o->softmax, "Compute Multiply %s, %s and get %s // normalise", o->result,
                   inverse, o->result);
}

static bool rewrite(reason *r, tl_statement *softmax) {
    const tiles_list *tiles = tiles_read(r);
    online o = {.softmax = softmax};
    if (softmax->compute.operand_count < 1 || edit_operand_name(softmax, 0).length == 0)
        return reason_stuck(r, softmax, "Softmax needs a tile");
    o.scores = edit_z(r->memory, edit_operand_name(softmax, 0));
    o.result = edit_z(r->memory, edit_target_name(softmax));
    if (!find_axis(r, tiles, &o)) return false;
    choose_names(r, &o);
    if (!o.loop) {
        write_whole(r, &o);
        reason_decide(r, "softmax form",
                      "Softmax %s over %.*s: whole rows stand in one tile, so it "
                      "is computed directly",
                      o.scores, STR_ARGS(o.axis));
        return true;
    }
    if (may_be_online(r, tiles, &o)) {
        write_online(r, &o);
        reason_decide(r, "softmax form",
                      "Softmax %s is online: each of its uses is linear and ends in a sum that is "
                      "read after the loop only, so each block is read once and sums are rescaled",
                      o.scores);
        return true;
    }
    reason_decide(r, "softmax form",
                  "Softmax %s takes two walks, one for maximum and sum and one for the result, "
                  "because `%.*s` %s",
                  o.scores, STR_ARGS(o.why_header), o.why);
    return write_two_passes(r, &o);
}

bool reason_online(reason *r) {
    for (;;) {
        tl_statement *s = r->kernel->body.first;
        while (s && !edit_is_compute(s, TL_SOFTMAX)) s = tl_next(s, NULL);
        if (!s) return true;
        if (!rewrite(r, s)) return false;
    }
}
