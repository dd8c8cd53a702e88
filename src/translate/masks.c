/* Masks by parts: `Compute Mask S ... by halves` (or quarters).
 *
 * Where a mask cuts a block, a warp may have rows that see nothing of a part of its columns. There
 * all elements are alike: minus infinity, and what runs of elementwise statements make of that and
 * of values of rows. The Mask asks, once for the warp, which parts its rows see nothing of; the
 * runs that read S work out one element a row there. Elements have their values all the same, so
 * nothing else need know. A new product into S forgets what the Mask has found.
 */
#include "translate/elements.h"

enum { COLUMNS = 8, ROWS = 16, HALF_ROWS = 8, PAIR = 2 };

static int parts_of_mask(const tl_statement *s) {
    bool is_mask = s->kind == TL_COMPUTE && s->compute.operation == TL_MASK;
    return is_mask ? atom_mask_parts(s->compute.atom) : 0;
}

static str flag(emit *t, const emit_tile *tile, int part) {
    return emit_format(t, "%.*s_unseen_%d", STR_ARGS(tile->name), part);
}

static int first_column(const emit_tile *tile, int part) { /* in columns of 8 */
    return tile->shape.across * part / tile->mask_parts;
}

void emit_declare_unseen(emit *t, emit_tile *tile) {
    tl_statement *role = (tl_statement *)(uintptr_t)t->role;
    tile->mask_parts = 0;
    for (tl_statement *s = role ? role->role.body.first : NULL; s; s = tl_next(s, role)) {
        int parts = parts_of_mask(s);
        if (parts > tile->mask_parts && emit_target_of(t, s) == tile) tile->mask_parts = parts;
    }
    for (int part = 1; part < tile->mask_parts; part++) {
        emit_text(t, "bool %.*s = false; // do this warp's rows see none of its columns?",
                  STR_ARGS(flag(t, tile, part)));
    }
}

void emit_forget_unseen(emit *t, const emit_tile *tile) {
    for (int part = 1; tile && part < tile->mask_parts; part++)
        emit_text(t, "%.*s = false;", STR_ARGS(flag(t, tile, part)));
}

bool masks_by_parts(const elements_item *x) {
    return parts_of_mask(x->s) > 0;
}

/* --- the Mask --------------------------------------------------------------------------------- */

/* One test of columns against a limit that all rows share, from some column on. */
static bool fits(const elements_mask *m) {
    const elements_item *x = m->x;
    const elements_limit *l = &m->limits[0];
    return m->count == 1 && l->test == x->s->compute.condition && !l->by_row && l->slant >= 0 &&
           x->s->compute.operand_count == 1 && x->frame->shape.part == PART_WHOLE &&
           !x->frame->shape.is_lines && x->frame->mask_parts == parts_of_mask(x->s) &&
           x->frame->shape.across % x->frame->mask_parts == 0 &&
           (l->operator== TL_GREATER || l->operator== TL_GREATER_EQUAL);
}

/* In the frame's columns [from, to), in units of 8. */
static int open_columns(emit *t, const emit_shape *s, int from, int to) {
    emit_loop(t, "m16", s->down);
    emit_loop_from(t, "n8", from, to, 1);
    emit_loop(t, "half", 2);
    return 3;
}

void masks_statement(emit *t, const elements_mask *m) {
    const emit_tile *tile = m->x->frame;
    if (!fits(m)) {
        elements_refuse(t, m->x->s,
                        "by parts it compares columns with one limit for all rows, as kv > q + n");
        return;
    }
    const elements_limit *l = &m->limits[0];
    const char *sign = tl_operator_text(l->operator);
    int last_row = (tile->shape.down - 1) * ROWS + HALF_ROWS;
    for (int part = 1; part < tile->mask_parts; part++) {
        str name = flag(t, tile, part);
        long long corner = (long long)first_column(tile, part) * COLUMNS - l->slant * last_row;
        emit_text(t, "%.*s = ftl_all(%lld %s %.*s);", STR_ARGS(name), corner, sign,
                  STR_ARGS(l->name));
    }
    for (int part = 0; part < tile->mask_parts; part++) {
        bool is_last = part + 1 == tile->mask_parts;
        int from = first_column(tile, part), to = first_column(tile, part + 1);
        if (!is_last) {
            emit_open(t, "if (ftl_any(%d %s %.*s)) {", to * COLUMNS - COLUMNS + 1, sign,
                      STR_ARGS(l->name));
        }
        int opened = open_columns(t, &tile->shape, from, to);
        elements_statement(t, m->x, m);
        emit_close_frame(t, opened + !is_last);
    }
}

/* --- runs ------------------------------------------------------------------------------------- */

static bool is_under_vote(const tl_statement *s) {
    for (; s; s = s->parent)
        if (s->kind == TL_IF && model_is_vote(s->branch.condition)) return true;
    return false;
}

static bool is_made(const elements_item *const *items, int count, const emit_tile *tile) {
    for (int i = 0; i < count; i++)
        if (items[i]->target == tile) return true;
    return false;
}

/* Does the item make the same of all elements of a row, where those of 'tile' are alike? */
static bool is_alike(const elements_item *const *items, int at, const emit_tile *tile) {
    const elements_item *x = items[at];
    tl_operation operation = x->s->compute.operation;
    if (elements_use_places(x) || operation == TL_MASK || x->target == tile) return false;
    if (tl_facts(operation)->gives_place) return false;
    for (int i = 0; i < x->read_count; i++) {
        const emit_tile *read = x->reads[i];
        bool is_known = read == tile || read->shape.part == PART_ROWS || is_made(items, at, read);
        if (!is_known) return false;
    }
    return true;
}

const emit_tile *masks_source(const elements_item *const *items, int count) {
    const emit_tile *tile = NULL;
    bool makes = false;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < items[i]->read_count; k++)
            if (items[i]->reads[k]->mask_parts > 1) tile = items[i]->reads[k];
        makes |= !items[i]->reduces;
        if (emit_has_quads(items[i]->target)) return NULL;
    }
    if (!tile || !makes || is_under_vote(items[0]->s)) return NULL;
    for (int i = 0; i < count; i++)
        if (!is_alike(items, i, tile)) return NULL;
    return tile;
}

static void all_statements(emit *t, const elements_item *const *items, int count) {
    for (int i = 0; i < count; i++) {
        emit_header(t, items[i]->s);
        elements_statement(t, items[i], &(elements_mask){.x = items[i]});
    }
}

/* One element a row, for all of the part: `n8` is at its first columns. */
static void one_for_all(emit *t, const elements_item *const *items, int count, int from, int to) {
    const emit_shape *shape = &items[0]->frame->shape;
    int opened = open_columns(t, shape, from, from + 1);
    all_statements(t, items, count);
    for (int i = 0; i < count; i++) {
        const elements_item *x = items[i];
        if (!tl_reduces_by_sum(x->s->compute.operation)) continue;
        elements_add_alike(t, x, PAIR * (to - from - 1));
    }
    emit_close_frame(t, opened);
    if (to - from == 1) return;
    opened = open_columns(t, shape, from + 1, to);
    for (int i = 0; i < count; i++) {
        const emit_tile *tile = items[i]->target;
        if (items[i]->reduces) continue;
        int registers = tile->is_packed ? 1 : 2;
        for (int e = 0; e < registers; e++) {
            str place = tile->is_packed ? STR("half") : e ? STR("2 * half + 1") : STR("2 * half");
            emit_text(t, "%.*s[m16][n8][%.*s] = %.*s[m16][%d][%.*s];", STR_ARGS(tile->name),
                      STR_ARGS(place), STR_ARGS(tile->name), from, STR_ARGS(place));
        }
    }
    emit_close_frame(t, opened);
}

void masks_run(emit *t, const elements_item *const *items, int count, const emit_tile *tile) {
    for (int part = 0; part < tile->mask_parts; part++) {
        int from = first_column(tile, part), to = first_column(tile, part + 1);
        if (part > 0) {
            emit_open(t, "if (%.*s) {", STR_ARGS(flag(t, tile, part)));
            one_for_all(t, items, count, from, to);
            emit_else(t);
        }
        int opened = open_columns(t, &tile->shape, from, to);
        all_statements(t, items, count);
        emit_close_frame(t, opened + (part > 0));
    }
}
