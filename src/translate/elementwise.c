/* Runs of elementwise statements, fused: statements over one layout share one unrolled loop, where
 * each element sees them in order. Statements over other layouts, and those that need a finished
 * reduction, go into loops of their own, before or after as their operands allow.
 */
#include "translate/elements.h"
#include "translate/values.h"

#include <ctype.h>

enum { RUN_MAX = 64 };

typedef struct run {
    emit *t;
    elements_item items[RUN_MAX];
    int count;
} run;

bool emit_is_elementwise(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.operation != TL_GEMM &&
           s->compute.operation != TL_SOFTMAX;
}

/* --- what a statement touches ----------------------------------------------------------------- */

static void note_read(elements_item *x, const emit_tile *tile) {
    if (tile && x->read_count < READS_MAX) x->reads[x->read_count++] = tile;
}

typedef struct reader {
    emit *t;
    elements_item *x;
} reader;

static bool note_name(void *context, const tl_expr *e) {
    const reader *r = context;
    if (e->kind == TL_NAME) note_read(r->x, emit_tile_of(r->t, e));
    return true;
}

static void note_reads(emit *t, elements_item *x, const tl_expr *e) {
    tl_visit(e, note_name, &(reader){t, x});
}

static bool same_frame(const emit_tile *a, const emit_tile *b) {
    return a->shape.part == b->shape.part && a->shape.is_lines == b->shape.is_lines &&
           layout_equal(&a->layout, &b->layout);
}

static bool fits_frame(const emit_tile *tile, const emit_tile *frame) {
    if (tile->shape.part == frame->shape.part) return same_frame(tile, frame);
    if (frame->shape.part != PART_WHOLE) return false;
    layout vector =
        layout_vector(&frame->layout, tile->shape.part == PART_ROWS ? LAYOUT_ROWS : LAYOUT_COLUMNS);
    return layout_equal(&vector, &tile->layout);
}

bool elements_refuse(emit *t, const tl_statement *s, const char *why) {
    return emit_unsupported(t, s->range,
                            emit_format(t, "Compute %s", tl_operation_name(s->compute.operation)),
                            "%s", why);
}

/* A place counts along the whole axis: the tile has all of it, or the statement says where it lies.
 */
static bool fits_places(emit *t, const elements_item *x) {
    const tl_compute *c = &x->s->compute;
    if (x->target->type != TL_I32)
        return elements_refuse(t, x->s, "places are integers: its result is an i32 tile");
    if (c->target_kind == TL_ACCUMULATE)
        return elements_refuse(t, x->s,
                               "places do not add up: `Mask PLACE, NEW where MOST > OLD` "
                               "keeps the one of the larger value");
    if (c->place.count > 1 && !c->place.items[1].is_all) return true;
    const tl_tile_axis *axis = &x->frame->tile->axes[1];
    const tl_symbol *index = tl_find_index(t->kernel, axis->index);
    return (index && index->extent && axis->extent && tl_expr_equal(index->extent, axis->extent)) ||
           elements_refuse(t, x->s,
                           "it has to say which columns these are: `in coordinate [:, L = "
                           "j]`");
}

static bool make_item(emit *t, const tl_statement *s, elements_item *x) {
    const tl_compute *c = &s->compute;
    *x = (elements_item){.s = s, .reduces = tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION};
    for (int i = 0; i < c->operand_count; i++) note_reads(t, x, c->operands[i].value);
    note_reads(t, x, c->condition);
    if (t->is_async) emit_note_write(t, s);
    x->target = emit_target_of(t, s);
    if (!x->target || x->target->space != TL_REGISTER)
        return elements_refuse(t, s, "its target is a register tile");
    if (c->target_kind == TL_ACCUMULATE || c->operation == TL_MASK) note_read(x, x->target);
    x->frame = x->target;
    if (x->reduces) {
        x->frame = emit_tile_of(t, c->operands[0].value);
        x->partial = emit_tile_partial_at(t, s, x->target);
        if (!x->frame || x->frame->is_vector || x->target->shape.part != PART_ROWS ||
            c->operands[0].is_transposed) {
            return elements_refuse(t, s,
                                   "only matrices are reduced, along their rows; for the other "
                                   "axis the tile has to be copied the other way round");
        }
        if (tl_facts(c->operation)->gives_place && x->frame->shape.alternates)
            return elements_refuse(t, s,
                                   "columns of a tile in mma_C permuted do not come in order");
        if (tl_facts(c->operation)->gives_place && !fits_places(t, x)) return false;
        if (!x->partial && layout_warp_copies(&x->target->layout) > 1) {
            return elements_refuse(t, s, "a row lies in more than one warp");
        }
    }
    for (int i = 0; i < x->read_count; i++) {
        const emit_tile *tile = x->reads[i];
        if (tile->space != TL_REGISTER)
            return elements_refuse(t, s, "its operands are register tiles");
        if (!fits_frame(tile, x->frame)) {
            t->failed = true;
            diag_report(t->diags, DIAG_TRANSLATE_LAYOUT, s->range, tile->name, x->frame->name);
            return false;
        }
    }
    if (!fits_frame(x->target, x->frame)) {
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_LAYOUT, s->range, x->frame->name, x->target->name);
        return false;
    }
    return true;
}

/* --- order ------------------------------------------------------------------------------------ */

static bool reads_tile(const elements_item *x, const emit_tile *tile) {
    for (int i = 0; i < x->read_count; i++) {
        if (x->reads[i] == tile) return true;
    }
    return false;
}

static bool conflict_on(const elements_item *a, const elements_item *b, const emit_tile *tile) {
    bool a_writes = a->target == tile, b_writes = b->target == tile;
    return (a_writes && (b_writes || reads_tile(b, tile))) || (b_writes && reads_tile(a, tile));
}

/* May b come after a in one loop? Yes where all they share is touched element by element. */
static bool fuses(const elements_item *a, const elements_item *b) {
    const emit_tile *shared[2] = {a->target, b->target};
    for (int i = 0; i < 2; i++) {
        if (!conflict_on(a, b, shared[i])) continue;
        if (emit_has_quads(shared[i])) return false; /* an element is there with its neighbours */
        if (shared[i]->shape.part != a->frame->shape.part) return false;
    }
    return true;
}

static bool may_join(const run *r, const int *group, int count, int j) {
    const elements_item *x = &r->items[j];
    if (!same_frame(x->frame, r->items[group[0]].frame)) return false;
    if (masks_by_parts(x) || masks_by_parts(&r->items[group[0]])) return false;
    for (int k = 0; k < j; k++) {
        const elements_item *before = &r->items[k];
        if (before->is_done) continue;
        if (!conflict_on(before, x, before->target) && !conflict_on(before, x, x->target)) continue;
        bool inside = false;
        for (int i = 0; i < count; i++) inside |= group[i] == k;
        if (!inside || !fuses(before, x)) return false;
    }
    return true;
}

/* --- loops ------------------------------------------------------------------------------------ */

static emit_shape rows_of(const emit_shape *s) {
    emit_shape rows = *s;
    rows.part = PART_ROWS;
    return rows;
}

/* The first of the thread's columns, for a row in which nothing is larger than -inf. */
static void start_places(emit *t, const elements_item *x) {
    const emit_shape *s = &x->target->shape;
    const char *name = str_copy_z(t->memory, x->target->name);
    emit_value own = emit_named(x->frame->own_column, 0, INT16_MAX);
    emit_value first = emit_sum(t, elements_first_column(t, x), own);
    emit_text(t, "const int first_of_%s = %s%.*s;", name, emit_is_wide(first) ? "(int)" : "",
              STR_ARGS(emit_within(t, first, 15)));
    emit_text(t, "float most_of_%s%.*s;", name, STR_ARGS(emit_row_dimensions(t, s)));
    emit_shape rows = rows_of(&x->frame->shape);
    int opened = emit_open_frame(t, &rows);
    str to = emit_element(t, x->target, &rows, 0);
    emit_text(t, "most_of_%.*s = -ftl_infinity();", STR_ARGS(to));
    emit_text(t, "%.*s = first_of_%s;", STR_ARGS(to), name);
    emit_close_frame(t, opened);
}

static void finish_places(emit *t, const elements_item *x) {
    emit_shape rows = rows_of(&x->frame->shape);
    int masks[LAYOUT_LANE_BITS], count = layout_lane_copies(&x->target->layout, masks);
    int opened = emit_open_frame(t, &rows);
    str to = emit_element(t, x->target, &rows, 0);
    for (int i = 0; i < count; i++)
        emit_text(t, "ftl_exchange_larger(most_of_%.*s, %.*s, %d);", STR_ARGS(to), STR_ARGS(to),
                  masks[i]);
    emit_close_frame(t, opened);
}

/* What a reduction starts from. */
static void start_reduction(emit *t, const elements_item *x) {
    if (tl_facts(x->s->compute.operation)->gives_place) {
        start_places(t, x);
        return;
    }
    tl_operation operation = x->s->compute.operation;
    bool gets = x->s->compute.target_kind != TL_ACCUMULATE;
    bool whole_sum = tl_reduces_by_sum(operation) && !x->partial;
    if (whole_sum) {
        const emit_shape *s = &x->target->shape;
        emit_text(t, "float sum_of_%.*s%.*s;", STR_ARGS(x->target->name),
                  STR_ARGS(emit_row_dimensions(t, s)));
    }
    if (!gets && !whole_sum) return;
    emit_shape rows = rows_of(&x->frame->shape);
    int opened = emit_open_frame(t, &rows);
    str to = emit_element(t, x->target, &rows, 0);
    emit_text(t, "%s%.*s = %.*s;", whole_sum ? "sum_of_" : "", STR_ARGS(to),
              STR_ARGS(emit_float(t, tl_neutral(operation))));
    emit_close_frame(t, opened);
}

/* Puts the lanes' parts together: shuffles among the lanes that share a row. */
static void combine_lanes(emit *t, const emit_tile *vector, const char *prefix, tl_operation by,
                          const emit_shape *rows) {
    int masks[LAYOUT_LANE_BITS], count = layout_lane_copies(&vector->layout, masks);
    str to = emit_format(t, "%s%.*s", prefix, STR_ARGS(emit_element(t, vector, rows, 0)));
    if (t->is_async && count == 2 && masks[0] == 1 && masks[1] == 2) {
        emit_text(t, "%.*s = ftl_of_row<%s>(%.*s);", STR_ARGS(to), tl_facts(by)->wrapper,
                  STR_ARGS(to));
        return;
    }
    for (int i = 0; i < count; i++) {
        emit_text(t, "%.*s = %s(%.*s, ftl_exchange(%.*s, %d));", STR_ARGS(to),
                  tl_facts(by)->wrapper, STR_ARGS(to), STR_ARGS(to), masks[i]);
    }
}

static void finish_reduction(emit *t, const elements_item *x) {
    if (x->partial) return;
    if (tl_facts(x->s->compute.operation)->gives_place) {
        finish_places(t, x);
        return;
    }
    emit_shape rows = rows_of(&x->frame->shape);
    tl_operation operation = x->s->compute.operation;
    bool is_sum = tl_reduces_by_sum(operation);
    int opened = emit_open_frame(t, &rows);
    combine_lanes(t, x->target, is_sum ? "sum_of_" : "", tl_combining(operation), &rows);
    if (is_sum) {
        str to = emit_element(t, x->target, &rows, 0);
        bool gets = x->s->compute.target_kind != TL_ACCUMULATE;
        if (gets) emit_text(t, "%.*s = sum_of_%.*s;", STR_ARGS(to), STR_ARGS(to));
        else
            emit_text(t, "%.*s = ftl_add(%.*s, sum_of_%.*s);", STR_ARGS(to), STR_ARGS(to),
                      STR_ARGS(to));
    }
    emit_close_frame(t, opened);
}

/* Has a statement before it in the group the same tile's place? */
static bool is_declared(const run *r, const int *group, int at) {
    for (int i = 0; i < at; i++) {
        const elements_item *x = &r->items[group[i]];
        if (elements_use_places(x) && x->frame == r->items[group[at]].frame) return true;
    }
    return false;
}

static void emit_loops(run *r, const int *group, int count, const elements_mask *masks) {
    emit *t = r->t;
    elements_item *own[RUN_MAX];
    const elements_item *items[RUN_MAX];
    for (int i = 0; i < count; i++) items[i] = own[i] = &r->items[group[i]];
    if (masks_by_parts(items[0])) {
        masks_statement(t, &masks[0]);
        return;
    }
    const emit_tile *parted = masks_source(items, count);
    if (parted) {
        masks_run(t, items, count, parted);
        return;
    }
    int opened = near_run(t, items, count) ? 0 : once_open_frame(t, own, count);
    for (int i = 0; opened > 0 && i < count; i++) {
        if (count > 1) emit_header(t, items[i]->s);
        elements_statement(t, items[i], &masks[i]);
    }
    emit_close_frame(t, opened);
    for (int i = 0; i < count; i++) {
        const tl_compute *c = &items[i]->s->compute;
        bool masks_to_infinity = c->operation == TL_MASK && c->operand_count == 1;
        if (!items[i]->reduces && !masks_to_infinity) emit_forget_unseen(t, items[i]->target);
    }
}

/* Bytes past the last code are no numbers that were meant: they are rare, and put right here. */
static void settle_high(emit *t, const elements_item *x) {
    const emit_tile *tile = x->target;
    str high = emit_high_name(t, tile);
    emit_text(t, "%.*s = ftl_any_high(%.*s_noted);", STR_ARGS(high), STR_ARGS(tile->name));
    if (elements_has_codes(x))
        emit_text(t, "if (%.*s) ftl_quads_most(%.*s);", STR_ARGS(high), STR_ARGS(tile->name));
    t->coded = tile->symbol;
}

/* What a group's function is told: its arrays and numbers. */
typedef struct told {
    emit *t;
    const run *r;
    const int *group;
    int group_count;
    emit_parameter items[RUN_MAX];
    int count;
    bool fits; /* nothing else comes in */
} told;

static void tell(told *x, str here, str name, str declaration) {
    for (int i = 0; i < x->count; i++) {
        bool is_there = str_equal(x->items[i].here, here);
        if (!is_there && str_equal(x->items[i].name, name)) x->fits = false;
        if (is_there) return;
    }
    if (x->count < RUN_MAX) x->items[x->count++] = (emit_parameter){here, name, declaration};
    else x->fits = false;
}

/* An array of a ring is called as the ring: which of them it is, the call says. */
static void tell_array(told *x, const emit_tile *tile) {
    emit *t = x->t;
    bool is_written = false;
    for (int i = 0; i < x->group_count; i++) is_written |= x->r->items[x->group[i]].target == tile;
    str name = tile->stages > 1 ? emit_clean(t, tile->symbol->name) : tile->name;
    str array = emit_array_parameter(t, tile, name);
    tell(x, tile->name, name,
         emit_format(t, "%s%.*s", is_written ? "" : "const ", STR_ARGS(array)));
}

static bool tell_operand(void *context, const tl_expr *e) {
    told *x = context;
    emit *t = x->t;
    if (e->kind == TL_ELEMENT || e->kind == TL_CALL) x->fits = false;
    if (e->kind != TL_NAME) return x->fits;
    const emit_tile *tile = emit_tile_of(t, e);
    if (tile) {
        tell_array(x, tile);
        return x->fits;
    }
    emit_value v = emit_expression(t, e, NULL);
    const char *type = v.is_real ? "float" : emit_is_wide(v) ? "long long" : "int";
    str name = emit_clean(t, e->symbol->name);
    if (v.precedence == VALUES_PRIMARY && isalpha((unsigned char)*v.text.data))
        tell(x, v.text, name, emit_format(t, "%s %.*s", type, STR_ARGS(name)));
    return x->fits;
}

/* Are the lines those of any place, with what it is told? Masks and what goes by their parts have
 * numbers of their own.
 */
static bool is_plain(const run *r, const int *group, int count) {
    for (int i = 0; i < count; i++) {
        const elements_item *x = &r->items[group[i]];
        if (elements_use_places(x) || emit_has_quads(x->target) || x->target->mask_parts)
            return false;
        for (int k = 0; k < x->read_count; k++)
            if (x->reads[k]->mask_parts) return false;
    }
    return true;
}

/* The lines from 'first' on are the group's: a function, if others are the same. */
static void offer_function(const run *r, const int *group, int count, int first) {
    told x = {.t = r->t, .r = r, .group = group, .group_count = count, .fits = true};
    if (!is_plain(r, group, count)) return;
    for (int i = 0; i < count; i++) {
        const tl_compute *c = &r->items[group[i]].s->compute;
        for (int k = 0; k < c->operand_count; k++) tl_visit(c->operands[k].value, tell_operand, &x);
        tl_visit(c->condition, tell_operand, &x);
        tell_array(&x, r->items[group[i]].target);
    }
    const elements_item *last = &r->items[group[count - 1]];
    if (x.fits) emit_may_be_function(r->t, first, last->s, last->target, x.items, x.count);
}

static void emit_group(run *r, const int *group, int count) {
    emit *t = r->t;
    emit_about(t, r->items[group[0]].s);
    elements_mask masks[RUN_MAX];
    bool scoped = false, places = false;
    for (int i = 0; i < count; i++) {
        const elements_item *x = &r->items[group[i]];
        places |= elements_use_places(x);
        scoped |= !x->partial && tl_reduces_by_sum(x->s->compute.operation);
        scoped |= emit_has_quads(x->target);
    }
    if (count == 1) emit_header(t, r->items[group[0]].s);
    scoped |= places;
    const tl_statement *only = r->items[group[0]].s;
    if (!only->previous && !only->next && only->parent && only->parent->kind == TL_IF &&
        t->is_async)
        scoped = false; /* the branch's braces serve */
    int first_line = t->lines.count;
    if (scoped) emit_open(t, "{");
    if (places) emit_fresh_thread(t);
    for (int i = 0; i < count; i++) {
        elements_item *x = &r->items[group[i]];
        masks[i] = (elements_mask){.x = x};
        if (elements_use_places(x) && !is_declared(r, group, i)) emit_declare_own(t, x->frame);
        elements_declare_first(t, x);
        once_for_rows(t, x);
        if (x->s->compute.operation == TL_MASK)
            elements_find_limits(t, &masks[i], x->s->compute.condition);
        if (x->reduces) start_reduction(t, x);
        if (emit_has_quads(x->target))
            emit_text(t, "float %.*s_rest[2][2];", STR_ARGS(x->target->name));
        if (elements_notes_high(t, x))
            emit_text(t, "unsigned %.*s_noted = 0;", STR_ARGS(x->target->name));
        if (t->coded == x->target->symbol) t->coded = NULL;
    }
    emit_loops(r, group, count, masks);
    for (int i = 0; i < count; i++)
        if (elements_notes_high(t, &r->items[group[i]])) settle_high(t, &r->items[group[i]]);
    for (int i = 0; i < count; i++) {
        const elements_item *x = &r->items[group[i]];
        if (!x->reduces) continue;
        finish_reduction(t, x);
        if (!x->target->shape.is_lines && x->target->type == TL_F32) t->pin = x->target;
    }
    if (scoped) emit_close(t);
    offer_function(r, group, count, first_line);
}

/* Two statements of a loop may not give one index name two origins. */
static bool same_places(const run *r, const int *group, int count, int j) {
    str names[2];
    elements_index_names(&r->items[j], names);
    for (int axis = 0; axis < 2; axis++) {
        if (!elements_use(r->items[j].s, names[axis])) continue;
        for (int i = 0; i < count; i++) {
            if (elements_use(r->items[group[i]].s, names[axis])) return false;
        }
    }
    return true;
}

/* --- what is tracked from statement to statement, see track.c --------------------------------- */

static bool is_lazy_fill(emit *t, const tl_statement *s) {
    const emit_tile *target = emit_is_zero_fill(s) ? emit_target_of(t, s) : NULL;
    return target && target->is_lazy;
}

/* Opens the next generation of a ring whose last one is named earlier in the run. */
static bool opens_after_use(const run *r, const tl_statement *s) {
    if (!emit_opens_generation(r->t, s)) return false;
    const emit_tile *last = emit_target_of(r->t, s);
    for (int i = 0; i < r->count; i++) {
        if (r->items[i].target == last || reads_tile(&r->items[i], last)) return true;
    }
    return false;
}

const tl_statement *emit_elementwise_run(emit *t, const tl_statement *first) {
    if (t->is_async && is_lazy_fill(t, first)) {
        emit_header(t, first);
        emit_note_fill(t, first);
        return first->next;
    }
    if (emit_is_sum_by_ones(t, first)) {
        emit_sum_by_ones(t, first);
        return first->next;
    }
    run *r = arena_new(t->memory, run);
    r->t = t;
    const tl_statement *s = first;
    for (; s && emit_is_elementwise(s) && r->count < RUN_MAX; s = s->next) {
        if (emit_is_sum_by_ones(t, s)) break;
        if (t->is_async && s != first && (is_lazy_fill(t, s) || opens_after_use(r, s))) break;
        elements_item *x = &r->items[r->count];
        if (!make_item(t, s, x)) continue;
        for (int i = 0; i < x->read_count; i++) emit_settle(t, x->reads[i], false);
        emit_settle(t, x->target, true);
        r->count++;
    }
    for (int i = 0; i < r->count; i++) {
        if (r->items[i].is_done) continue;
        int group[RUN_MAX] = {i}, count = 1;
        for (int j = i + 1; j < r->count; j++) {
            if (r->items[j].is_done) continue;
            if (may_join(r, group, count, j) && same_places(r, group, count, j)) group[count++] = j;
        }
        emit_group(r, group, count);
        for (int k = 0; k < count; k++) r->items[group[k]].is_done = true;
    }
    return s;
}

/* --- what else works on elements -------------------------------------------------------------- */

void emit_reshape(emit *t, const tl_statement *s) {
    emit_tile *tile = emit_tile_of(t, s->reshape.what);
    emit_header(t, s);
    if (!tile || tile->space != TL_REGISTER) {
        emit_unsupported(t, s->range, STR("this Reshape"), "it takes a register tile");
        return;
    }
    const tl_layout *from = &s->reshape.from, *to = &s->reshape.to;
    if (from->is_partial && !to->is_partial && from->kind == to->kind &&
        tile->shape.part == PART_ROWS) {
        int opened = emit_open_frame(t, &tile->shape);
        combine_lanes(t, tile, "", TL_ADD, &tile->shape);
        emit_close_frame(t, opened);
        return;
    }
    bool fragments = (from->kind == TL_MMA_C || from->kind == TL_MMA_A) &&
                     (to->kind == TL_MMA_C || to->kind == TL_MMA_A);
    bool has_quads = emit_has_quads(tile);
    /* Out of the accumulator's order, or that of alternating column tiles, into the other one. */
    bool moves = has_quads && from->kind == TL_MMA_C && to->kind == TL_MMA_A &&
                 from->is_permuted == to->is_permuted;
    if (fragments && tile->is_packed && layout_warp_copies(&tile->layout) == 1 &&
        (has_quads ? from->kind == TL_MMA_C : !to->is_permuted) &&
        (!moves || (tile->shape.down == 1 && !from->is_permuted))) {
        if (moves) emit_text(t, "ftl_quads_to_neighbours(%.*s);", STR_ARGS(tile->name));
        /* It may not be moved past what is in flight: it is ready here, not at its use. */
        if (t->is_async && tile->shape.down == 1) {
            emit_text(t, "ftl_keep_pairs(%.*s);%s", STR_ARGS(tile->name),
                      moves ? "" : " // (the same registers)");
            emit_note_touched(t, s->reshape.what, false);
        } else if (!moves) {
            emit_text(t, "// (the same registers)");
        }
        return;
    }
    emit_unsupported(t, s->range, STR("this Reshape"), "its elements would change threads");
}

static const emit_tile *first_tile(emit *t, const tl_expr *e) {
    if (!e) return NULL;
    if (e->kind == TL_NAME && emit_tile_of(t, e)) return emit_tile_of(t, e);
    const emit_tile *found = first_tile(t, e->left);
    if (!found) found = first_tile(t, e->right);
    for (int i = 0; i < e->item_count && !found; i++) found = first_tile(t, e->items[i]);
    return found;
}

/* A thread has two rows: the condition on both. */
static str any_of_two(emit *t, const tl_expr *condition, const emit_shape *frame) {
    emit_scope scope = {.frame = frame};
    str each = emit_with(t, emit_expression(t, condition, &scope).text, STR("m16"), STR("0"));
    return emit_format(t, "ftl_any((%.*s) | (%.*s))",
                       STR_ARGS(emit_with(t, each, STR("half"), STR("0"))),
                       STR_ARGS(emit_with(t, each, STR("half"), STR("1"))));
}

/* `not P < 256`, where the text has the vote already? */
bool emit_asks_for_high(emit *t, const tl_expr *call, const emit_tile *tile) {
    enum { HIGH = 256 };
    int64_t limit;
    bool is_any = call->kind == TL_CALL && call->function == TL_FUNCTION_ANY;
    const tl_expr *test = is_any && call->items[0]->kind == TL_NOT ? call->items[0]->left : NULL;
    return tile && test && test->kind == TL_BINARY &&
           test->operator== TL_LESS && emit_tile_of(t, test->left) &&
           emit_tile_of(t, test->left)->symbol == tile->symbol &&
           tl_known_integer(test->right, &limit) && limit == HIGH;
}

str emit_any(emit *t, const tl_expr *call) {
    const tl_expr *condition = call->items[0];
    const emit_tile *frame = first_tile(t, condition);
    bool is_voted = frame && t->coded && t->coded == frame->symbol;
    if (is_voted && emit_asks_for_high(t, call, frame)) return emit_high_name(t, frame);
    str name = emit_format(t, "any_%d", ++t->statement_number);
    if (!frame || frame->space != TL_REGISTER) {
        emit_unsupported(t, call->range, STR("any(...)"), "its condition needs a register tile");
        return STR("false");
    }
    const emit_shape *shape = &frame->shape;
    if (t->is_async && shape->part == PART_ROWS && !shape->is_lines && shape->down == 1)
        return any_of_two(t, condition, shape);
    emit_text(t, "bool %.*s = false;", STR_ARGS(name));
    int opened = emit_open_frame(t, &frame->shape);
    int elements = frame->shape.part == PART_WHOLE ? 2 : 1;
    for (int e = 0; e < elements; e++) {
        emit_scope scope = {.frame = &frame->shape, .element = e};
        emit_value v = emit_expression(t, condition, &scope);
        emit_text(t, "%.*s |= %.*s;", STR_ARGS(name), STR_ARGS(v.text));
    }
    emit_close_frame(t, opened);
    return emit_format(t, "ftl_any(%.*s)", STR_ARGS(name));
}
