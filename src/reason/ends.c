#include "reason/ends.h"

#include "reason/carry.h"
#include "reason/scalar.h"
#include "tl/tl.h"

#include <math.h>

/* What is known of a tile's elements in the stretch. */
typedef struct ends_value {
    holds_value may;
    int same_as; /* 1 + the tile whose value at the beginning of the iteration it is; 0: none */
} ends_value;

typedef struct ends_state {
    reason *r;
    const tiles_list *tiles;
    const ends_question *question;
    ends_value *values; /* one per tile */
    ends_answer answer;
} ends_state;

static ends_value value_of(holds_value may) {
    return (ends_value){.may = may};
}

static ends_value only(unsigned may) {
    return value_of(holds_these(may));
}

static bool is_zero(ends_value v) {
    return holds_only(v.may, HOLDS_ZERO);
}

static bool is_finite(ends_value v) {
    return holds_only(v.may, HOLDS_FINITE);
}

static bool is_given(ends_value v) {
    return holds_only(v.may, HOLDS_GIVEN);
}

static int tile_number(const ends_state *state, str name) {
    const tiles_tile *tile = tiles_find(state->tiles, name);
    return tile ? (int)(tile - state->tiles->tiles.items) : -1;
}

static bool has_axis(const ends_state *state, str name) {
    const tiles_tile *tile = tiles_find(state->tiles, name);
    return tile && tiles_axis(tile, state->question->axis) >= 0;
}

/* Elements under a Mask exist: products of theirs are taken to stay in f32. */
static ends_value of_range(const ends_state *state, ends_value value) {
    const unsigned vast = HOLDS_VAST_BELOW | HOLDS_VAST_ABOVE;
    if (state->question->mode == ENDS_MASKED && value.may.may & vast)
        value.may = holds_these((value.may.may & ~vast) | HOLDS_FAR_BELOW | HOLDS_FAR_ABOVE);
    return value;
}

/* Of the tile that a statement is about, whose axes its index names walk. */
static ends_value operand_value(const ends_state *state, const tl_statement *s, int number) {
    const tl_expr *e = s->compute.operands[number].value;
    if (e->kind == TL_NAME && tile_number(state, e->text) >= 0)
        return state->values[tile_number(state, e->text)];
    const tiles_tile *tile = tiles_find(state->tiles, edit_target_name(s));
    return of_range(state, value_of(scalar_holds(state->r, tile, e)));
}

/* --- arithmetic ------------------------------------------------------------------------------- */

/* What leaves a value as it was at the beginning of the iteration. */
static int same_as(tl_operation operation, ends_value a, ends_value b) {
    const tl_operation_facts *f = tl_facts(operation);
    if (f->is_identity || (f->chooses && a.same_as == b.same_as)) return a.same_as;
    if (holds_leaves(operation, 1, b.may)) return a.same_as;
    return holds_leaves(operation, 0, a.may) ? b.same_as : 0;
}

static ends_value apply(tl_operation operation, const ends_value *e, int count) {
    holds_value operands[TL_OPERANDS_MAX] = {{0}};
    for (int i = 0; i < count; i++) operands[i] = e[i].may;
    if (operation == TL_SUBTRACT && e[0].same_as && e[0].same_as == e[1].same_as)
        return only(HOLDS_ZERO);
    ends_value second = count > 1 ? e[1] : only(HOLDS_ANY);
    return (ends_value){holds_apply(NULL, operation, operands, count),
                        same_as(operation, e[0], second)};
}

static ends_value two(tl_operation operation, ends_value a, ends_value b) {
    ends_value both[] = {a, b};
    return apply(operation, both, 2);
}

/* --- statements ------------------------------------------------------------------------------- */

static void hurt(ends_state *state, tl_statement *s, str tile, double neutral) {
    if (!state->answer.hurt) state->answer = (ends_answer){s, tile, neutral};
}

static void set(ends_state *state, str name, ends_value value) {
    int number = tile_number(state, name);
    if (number >= 0) state->values[number] = of_range(state, value);
}

/* What a tile holds, in the type of what takes it. Elements that exist are taken to fit: those of
 * other axes and those under a Mask.
 */
static ends_value rounded(const ends_state *state, str name, ends_value value, tl_type type) {
    if (state->question->mode != ENDS_MASKED && has_axis(state, name))
        value.may = holds_rounded(value.may, type);
    return value;
}

/* An operand as a product takes it: one that is computed is rounded to the type of the right one.
 */
static ends_value factor(const ends_state *state, const tl_statement *s, int number) {
    const tiles_tile *right = tiles_find(state->tiles, edit_operand_name(s, 1));
    tl_type type = right && right->storage != TL_OPEN ? right->storage : TL_F16;
    return rounded(state, edit_operand_name(s, number), operand_value(state, s, number), type);
}

static void run_product(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    ends_value a = factor(state, s, 0), b = factor(state, s, 1);
    str target = edit_target_name(s), left = edit_operand_name(s, 0);
    bool is_sum = c->target_kind == TL_ACCUMULATE;
    bool is_nothing = (is_zero(a) && is_finite(b)) || (is_zero(b) && is_finite(a));
    bool contracts = has_axis(state, left) && !has_axis(state, target);
    if (contracts && is_nothing && is_sum) return; /* adds nothing */
    if (contracts && !is_nothing) {
        hurt(state, s, is_finite(a) && !is_finite(b) ? edit_operand_name(s, 1) : left, 0);
        return;
    }
    ends_value product = only(is_nothing                   ? HOLDS_ZERO
                              : is_given(a) && is_given(b) ? HOLDS_GIVEN
                                                           : HOLDS_ANY);
    if (!contracts && !has_axis(state, target)) {
        set(state, target, product);
        return;
    }
    ends_value before =
        state->values[tile_number(state, target) < 0 ? 0 : tile_number(state, target)];
    set(state, target, is_sum ? two(TL_ADD, before, product) : product);
}

static void run_reduction(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    str from = edit_operand_name(s, 0), target = edit_target_name(s);
    ends_value a = operand_value(state, s, 0);
    holds_value neutral = holds_neutral(c->operation);
    bool is_neutral = holds_only(a.may, neutral.may);
    bool reduces = has_axis(state, from) && !has_axis(state, target);
    if (reduces && is_neutral) {
        if (c->target_kind != TL_ACCUMULATE)
            set(state, target,
                state->question->mode == ENDS_PART ? only(HOLDS_GIVEN) : value_of(a.may));
        return;
    }
    if (reduces) {
        hurt(state, s, from, neutral.number);
        return;
    }
    ends_value made = value_of(holds_reduced(NULL, c->operation, a.may));
    int number = tile_number(state, target);
    if (c->target_kind == TL_ACCUMULATE && number >= 0)
        made = two(tl_combining(c->operation), state->values[number], made);
    set(state, target, made);
}

static void run_mask(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    ends_value value = c->operand_count > 1 ? operand_value(state, s, 1) : only(HOLDS_LOW);
    const ends_question *q = state->question;
    bool is_covered = q->mode == ENDS_MASKED ? s == q->mask : q->covers(q->context, s);
    ends_value before = operand_value(state, s, 0);
    if (is_covered) set(state, edit_target_name(s), value);
    else if (!holds_equal(before.may, value.may))
        set(state, edit_target_name(s), value_of(holds_either(before.may, value.may)));
}

/* What is past the end is dropped, or was left out of the sum that the tile is. Else a store has to
 * happen, unless it adds nothing.
 */
static void run_store(ends_state *state, tl_statement *s) {
    bool adds = s->copy.target_kind == TL_ACCUMULATE;
    int number = tile_number(state, s->copy.what->text);
    ends_mode mode = state->question->mode;
    bool is_dropped =
        mode == ENDS_PART || (mode == ENDS_WHOLE && (!adds || has_axis(state, s->copy.what->text)));
    bool is_nothing = adds && number >= 0 && is_zero(state->values[number]);
    if (!is_dropped && !is_nothing) hurt(state, s, (str){"", 0}, 0);
}

static void run_copy(ends_state *state, tl_statement *s) {
    if (s->copy.to == TL_GLOBAL) {
        run_store(state, s);
        return;
    }
    str name = edit_target_name(s);
    const tiles_tile *tile = tiles_find(state->tiles, name);
    tl_type type = tile ? tile->storage : TL_OPEN;
    int from = s->copy.from != TL_GLOBAL ? tile_number(state, s->copy.what->text) : -1;
    if (from >= 0) set(state, name, rounded(state, name, state->values[from], type));
    else if (has_axis(state, name) && state->question->mode != ENDS_MASKED)
        set(state, name, only(HOLDS_ZERO));
    else set(state, name, value_of(holds_given(type)));
}

/* What a round may find there of the one before may be anything that exists. */
static void enter_loop(ends_state *state, tl_statement *loop) {
    for (int i = 0; i < state->tiles->tiles.count; i++)
        if (carry_between(loop, state->tiles->tiles.items[i].name))
            state->values[i] = only(HOLDS_GIVEN);
}

static void run_statement(ends_state *state, tl_statement *s) {
    if (s->kind == TL_FOR) enter_loop(state, s);
    if (s->kind == TL_COPY) run_copy(state, s);
    if (s->kind != TL_COMPUTE) return;
    const tl_compute *c = &s->compute;
    switch (tl_operation_shape(c->operation)) {
    case TL_SHAPE_PRODUCT: run_product(state, s); break;
    case TL_SHAPE_REDUCTION: run_reduction(state, s); break;
    case TL_SHAPE_MASK: run_mask(state, s); break;
    case TL_SHAPE_FILL: set(state, edit_target_name(s), operand_value(state, s, 0)); break;
    case TL_SHAPE_ELEMENTWISE: {
        ends_value e[TL_OPERANDS_MAX] = {{{0}, 0}};
        for (int i = 0; i < c->operand_count; i++) e[i] = operand_value(state, s, i);
        ends_value value = apply(c->operation, e, c->operand_count);
        int number = tile_number(state, edit_target_name(s));
        if (c->target_kind == TL_ACCUMULATE && number >= 0)
            value = two(TL_ADD, state->values[number], value);
        set(state, edit_target_name(s), value);
        break;
    }
    case TL_SHAPE_CHOICE:
    case TL_SHAPE_SOFTMAX: break;
    }
}

/* A block that can be left out leaves all that it carries on as it was. */
static void check_unchanged(ends_state *state) {
    for (int i = 0; i < state->tiles->tiles.count; i++) {
        const tiles_tile *tile = &state->tiles->tiles.items[i];
        bool is_same = state->values[i].same_as == i + 1;
        tl_statement *loop = state->question->loop; /* one around it may come back to the tile */
        if (!is_same && edit_writes_within(loop, tile->name) &&
            (edit_loop_of(loop) || carry_between(loop, tile->name) || carry_out(loop, tile->name)))
            hurt(state, loop, (str){"", 0}, 0);
    }
}

ends_answer ends_ask(reason *r, const tiles_list *tiles, const ends_question *question) {
    ends_state state = {.r = r, .tiles = tiles, .question = question};
    int count = tiles->tiles.count;
    state.values = arena_array(r->memory, ends_value, count > 0 ? count : 1);
    /* Beside other elements, a block changes what it carries; alone, it must not. */
    for (int i = 0; i < count; i++)
        state.values[i] =
            (ends_value){holds_these(HOLDS_GIVEN), question->mode == ENDS_PART ? 0 : i + 1};
    tl_statement *loop = question->loop;
    tl_statement *first = loop ? tl_next(loop, loop) : r->kernel->body.first;
    for (tl_statement *s = first; s && !state.answer.hurt; s = tl_next(s, loop))
        run_statement(&state, s);
    if (!state.answer.hurt && question->mode != ENDS_PART) check_unchanged(&state);
    return state.answer;
}
