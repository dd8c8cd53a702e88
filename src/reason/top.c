/* RowTopK becomes operations: the largest is taken and masked, as often as places are asked for.
 *
 * Of a row that is there as a whole the rounds give the places in order. Of rows that come block by
 * block the largest so far stay in two small tiles, values and places, in no order: a round lets
 * the block's largest in for the least of them, and has nothing to do once no row of the warp has
 * such an element. After the loop they are put in order, by the same rounds.
 *
 * A place is an integer that f32 holds, so rows have at most 2^24 elements.
 */
#include "reason/meant.h"
#include "reason/tiles.h"
#include "tl/names.h"

enum {
    PLACES_MAX = 1 << 24,
    COLUMNS_UNIT =
        8, /* rows of several tiles lie alike as accumulators, whose columns are so many */
    WHOLE_COLUMNS = 256 /* of a row that a tile has as a whole */
};

/* The names that one RowTopK takes. */
typedef struct top {
    reason *r;
    tl_statement *statement;
    const char *rows, *count, *places; /* S, k and I of `RowTopK S, k and get I` */
    const char *left, *column;         /* what is masked of S, and its last axis */
    const char *round, *best, *at;
    const char *values; /* V, or a tile of its own; NULL: nobody asks */
    const char *places_of, *least, *worst, *order, *rest; /* of blocks */
} top;

static const char *fresh(reason *r, const char *of, const char *what) {
    str name = reason_fresh(r, "%s_%s", of, what);
    return edit_z(r->memory, name);
}

/* Does a statement other than those that make it, and this one, name the tile? */
static bool is_used_elsewhere(const top *t, str name) {
    const tl_statement *s = t->statement->previous;
    while (s && !edit_writes(s, name)) s = s->previous;
    if (!s) return true; /* made outside of this block: a loop would find it changed */
    for (tl_statement *n = t->r->kernel->body.first; n; n = tl_next(n, NULL)) {
        if (n == t->statement || (!edit_reads(n, name) && !edit_writes(n, name))) continue;
        bool is_before = edit_is_before(t->r->kernel, n, t->statement);
        if (!is_before) return true;
    }
    return false;
}

/* What is masked: S itself where nobody needs it afterwards. Neither NaN nor minus infinity is
 * ever chosen.
 */
static const char *first_mask(top *t) {
    str name = str_from(t->rows);
    const char *copied = "";
    t->left = t->rows;
    if (is_used_elsewhere(t, name)) {
        t->left = fresh(t->r, t->rows, "left");
        copied = reason_say(t->r, "Compute Cast %s and get %s\n", t->rows, t->left);
    }
    return reason_say(t->r, "%sCompute Mask %s where not %s > log(0) // nor is NaN chosen\n",
                      copied, t->left, t->left);
}

/* --- whole rows ------------------------------------------------------------------------------- */

static void write_whole(top *t) {
    reason *r = t->r;
    const char *mask = first_mask(t);
    const char *start = reason_say(r, "Compute Fill -1 and get %s // no place\n", t->places);
    const char *keep = "";
    if (t->values) {
        start = reason_say(r, "%sCompute Fill log(0) and get %s\n", start, t->values);
        keep = reason_say(r, "Compute Mask %s, %s where %s == %s\n", t->values, t->best, t->count,
                          t->round);
    }
    reason_replace(r, t->statement,
                   "%s%s"
                   "for %s = 0:%s\n"
                   "Compute RowMax %s and get %s // the largest that is left\n"
                   "Compute RowArgMax %s and get %s\n"
                   "Compute Mask %s where %s == %s\n"
                   "Compute Mask %s, %s where %s == %s and %s > log(0)\n"
                   "%send\n",
                   mask, start, t->round, t->count, t->left, t->best, t->left, t->at, t->left,
                   t->column, t->at, t->places, t->at, t->count, t->round, t->best, keep);
}

/* --- rows that come block by block ------------------------------------------------------------ */

/* Which of the kept ones is the next to go: the least, of equal ones the last place. */
static const char *find_worst(const top *t) {
    return reason_say(t->r,
                      "Compute RowMin %s and get %s\n"
                      "Compute Cast %s and get %s\n"
                      "Compute Mask %s, -2 where %s > %s\n"
                      "Compute RowArgMax %s and get %s // of equal ones the last place goes\n",
                      t->values, t->least, t->places_of, t->order, t->order, t->values, t->least,
                      t->order, t->worst);
}

static void write_start(const top *t, tl_statement *loop) {
    reason *r = t->r;
    reason_before(r, loop,
                  "Compute Fill -1 and get %s // no place\n"
                  "Compute Cast %s and get %s\n"
                  "Compute Cast %s and get %s\n"
                  "Compute Mask %s where %s >= 0 // nothing yet\n"
                  "%s",
                  t->places, t->places, t->places_of, t->places_of, t->values, t->values, t->count,
                  find_worst(t));
}

static void write_rounds(top *t) {
    reason *r = t->r;
    const char *mask = first_mask(t);
    const char *enters =
        reason_say(r, "%s == %s and %s > %s", t->count, t->worst, t->best, t->least);
    reason_replace(r, t->statement,
                   "%s"
                   "Compute RowMax %s and get %s // the block's largest\n"
                   "for %s = 0:%s\n"
                   "if any(%s > %s) // is larger than the least that is kept\n"
                   "Compute RowArgMax %s and get %s\n"
                   "Compute Mask %s where %s == %s\n"
                   "Compute Mask %s, %s where %s\n"
                   "Compute Mask %s, %s where %s\n"
                   "Compute RowMax %s and get %s\n"
                   "%s"
                   "end\nend\n",
                   mask, t->left, t->best, t->round, t->count, t->best, t->least, t->left, t->at,
                   t->left, t->column, t->at, t->places_of, t->at, enters, t->values, t->best,
                   enters, t->left, t->best, find_worst(t));
}

/* In order: the largest first, of equal ones the first place. */
static void write_order(const top *t, tl_statement *loop) {
    reason *r = t->r;
    const char *first = fresh(r, t->places, "first"), *most = fresh(r, t->places, "most");
    reason_after(r, loop,
                 "Compute Cast %s and get %s\n"
                 "for %s = 0:%s\n"
                 "Compute RowMax %s and get %s // the largest that is left\n"
                 "Compute Cast %s and get %s\n"
                 "Compute Mask %s, %d where %s < %s\n"
                 "Compute RowMin %s and get %s // of equal ones the first place\n"
                 "Compute Mask %s, %s where %s == %s\n"
                 "Compute Mask %s, %s where %s == %s\n"
                 "Compute Mask %s where %s == %s\n"
                 "end\n",
                 t->values, t->rest, t->round, t->count, t->rest, most, t->places_of, t->order,
                 t->order, PLACES_MAX, t->rest, most, t->order, first, t->places, first, t->count,
                 t->round, t->values, most, t->count, t->round, t->rest, t->places_of, first);
}

static void limit_places(const top *t, const tl_expr *length) {
    int64_t known;
    if (tl_known_integer(length, &known) && known <= PLACES_MAX) return;
    const char *limit =
        reason_say(t->r, "%s <= %d", edit_factor_text(t->r->memory, length), PLACES_MAX);
    for (tl_statement *s = t->r->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_INPUT) continue;
        const tl_expr *own = s->parameter.condition;
        s->parameter.condition =
            own ? tl_quote_expr(t->r->memory, "(%s) and %s", edit_text(t->r->memory, own), limit)
                : tl_quote_expr(t->r->memory, "%s", limit);
        return;
    }
}

static void write_blocks(top *t) {
    reason *r = t->r;
    tl_statement *loop = t->statement->parent;
    const tl_expr *length, *size;
    tl_loop_walks(loop, &length, &size);
    if (!t->values) t->values = fresh(r, t->places, "values");
    t->places_of = fresh(r, t->places, "places");
    t->least = fresh(r, t->places, "least");
    t->worst = fresh(r, t->places, "worst");
    t->order = fresh(r, t->places, "order");
    t->rest = fresh(r, t->places, "rest");
    write_order(t, loop);
    write_start(t, loop);
    write_rounds(t);
    limit_places(t, length);
    reason_decide(r, "top",
                  "RowTopK %s, %s collects block by block: a block's largest goes in for the least "
                  "of the %s that are kept, as long as some row of the warp has one",
                  t->rows, t->count, t->count);
}

/* --- the pass's part -------------------------------------------------------------------------- */

/* Are rows and places as long as tiles are that lie alike? */
static bool may_be_written(reason *r, const tl_statement *s, const tl_tile_axis *column) {
    const tl_compute *c = &s->compute;
    int64_t count, columns;
    if (!reason_known(r, c->operands[1].value, &count))
        return reason_stuck(r, s, "how many places RowTopK gives has to be known: `let %.*s = 16`",
                            STR_ARGS(c->operands[1].value->text));
    if (count < 1 || count > TL_TOP_MAX || count % COLUMNS_UNIT)
        return reason_stuck(r, s,
                            "kernels have RowTopK of %d, %d, ... %d places, not of %lld: take the "
                            "next multiple of %d and use the first ones",
                            COLUMNS_UNIT, 2 * COLUMNS_UNIT, TL_TOP_MAX, (long long)count,
                            COLUMNS_UNIT);
    if (c->target_kind == TL_ACCUMULATE || edit_loop_of(s)) return true;
    const tl_symbol *index = tl_find_index(r->kernel, column->index);
    bool is_known = index && index->extent && reason_known(r, index->extent, &columns);
    if (is_known && columns % COLUMNS_UNIT == 0 && columns <= WHOLE_COLUMNS) return true;
    return reason_stuck(r, s,
                        "whole rows of %.*s are too many for registers, or no multiple of %d, or "
                        "of a length that is not known (up to %d are taken): bring them block by "
                        "block, `for j = 0:%s/BN ... RowTopK ... and accumulate %.*s`",
                        STR_ARGS(column->index), COLUMNS_UNIT, WHOLE_COLUMNS,
                        index && index->extent ? edit_text(r->memory, index->extent) : "length",
                        STR_ARGS(c->target->text));
}

static void write_top(reason *r, tl_statement *s, str column) {
    const tl_compute *c = &s->compute;
    top t = {.r = r,
             .statement = s,
             .rows = edit_z(r->memory, c->operands[0].value->text),
             .count = edit_z(r->memory, c->operands[1].value->text),
             .places = edit_z(r->memory, c->target->text),
             .column = edit_z(r->memory, column),
             .values = c->values ? edit_z(r->memory, c->values->text) : NULL};
    t.round = fresh(r, t.places, "round");
    t.best = fresh(r, t.places, "best");
    t.at = fresh(r, t.places, "at");
    if (c->target_kind == TL_ACCUMULATE) {
        write_blocks(&t);
        return;
    }
    write_whole(&t);
    reason_decide(r, "top", "RowTopK %s, %s: whole rows are there, so each round gives one place",
                  t.rows, t.count);
}

bool reason_top(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_compute(s, TL_ROW_TOP_K)) continue;
        if (!meant_read(r)) return false;
        tl_tile_axis axes[4];
        if (tl_operand_axes(&s->compute.operands[0], axes) != 2)
            return reason_stuck(r, s, "the axes of what RowTopK looks through are not known");
        if (!may_be_written(r, s, &axes[1])) return false;
        tl_statement *before = s->previous, *parent = s->parent;
        write_top(r, s, axes[1].index);
        s = before ? before : parent ? parent : r->kernel->body.first;
    }
    return true;
}
