#include "reason/ends.h"

#include "reason/scalar.h"

#include <math.h>

/* What is known of the elements in the stretch. */
typedef enum knowledge {
    ANYTHING,
    FINITE,
    POSITIVE, /* finite, above 0 */
    CONSTANT,
    UNCHANGED /* a tile's value at the beginning of the iteration */
} knowledge;

typedef struct ends_value {
    knowledge kind;
    double constant;
    int tile; /* UNCHANGED */
} ends_value;

typedef struct ends_state {
    reason *r;
    const tiles_list *tiles;
    const ends_question *question;
    ends_value *values; /* one per tile */
    ends_answer answer;
} ends_state;

static ends_value known(double constant) {
    return (ends_value){.kind = CONSTANT, .constant = constant};
}

static ends_value only(knowledge kind) {
    return (ends_value){.kind = kind};
}

static bool is_constant(ends_value v, double constant) {
    return v.kind == CONSTANT && v.constant == constant;
}

static bool is_finite(ends_value v) {
    return v.kind == FINITE || v.kind == POSITIVE || v.kind == UNCHANGED ||
           (v.kind == CONSTANT && isfinite(v.constant));
}

static bool is_positive(ends_value v) {
    return v.kind == POSITIVE || (v.kind == CONSTANT && v.constant > 0);
}

static int tile_number(const ends_state *state, str name) {
    const tiles_tile *tile = tiles_find(state->tiles, name);
    return tile ? (int)(tile - state->tiles->tiles.items) : -1;
}

static bool has_axis(const ends_state *state, str name) {
    const tiles_tile *tile = tiles_find(state->tiles, name);
    return tile && tiles_axis(tile, state->question->axis) >= 0;
}

static ends_value operand_value(const ends_state *state, const tl_expr *e) {
    double number;
    if (e->kind == TL_NAME && tile_number(state, e->text) >= 0)
        return state->values[tile_number(state, e->text)];
    if (scalar_number(state->r, e, &number)) return known(number);
    return only(scalar_is_positive(state->r, e) ? POSITIVE : FINITE);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static bool is_infinite(ends_value v) {
    return v.kind == CONSTANT && isinf(v.constant);
}

static ends_value multiply(ends_value a, ends_value b) {
    if (is_infinite(a) && is_infinite(b)) return only(ANYTHING);
    if (a.kind == CONSTANT && b.kind == CONSTANT) return known(a.constant * b.constant);
    for (int turn = 0; turn < 2; turn++) {
        if (is_constant(a, 0) && is_finite(b)) return known(0);
        if (is_constant(a, 1)) return b;
        if (a.kind == CONSTANT && isinf(a.constant) && is_positive(b)) return a;
        ends_value t = a;
        a = b;
        b = t;
    }
    if (is_positive(a) && is_positive(b)) return only(POSITIVE);
    return only(is_finite(a) && is_finite(b) ? FINITE : ANYTHING);
}

static ends_value add(ends_value a, ends_value b, double sign) {
    if (a.kind == CONSTANT && b.kind == CONSTANT) return known(a.constant + sign * b.constant);
    if (a.kind == UNCHANGED && b.kind == UNCHANGED && a.tile == b.tile && sign < 0) return known(0);
    if (is_constant(b, 0)) return a;
    if (is_constant(a, 0) && sign > 0) return b;
    if (a.kind == CONSTANT && isinf(a.constant) && is_finite(b)) return a;
    if (b.kind == CONSTANT && isinf(b.constant) && is_finite(a)) return known(sign * b.constant);
    if (sign > 0 && is_positive(a) && is_positive(b)) return only(POSITIVE);
    return only(is_finite(a) && is_finite(b) ? FINITE : ANYTHING);
}

static ends_value divide(ends_value a, ends_value b) {
    if (a.kind == CONSTANT && b.kind == CONSTANT && b.constant != 0)
        return known(a.constant / b.constant);
    if (!is_positive(b)) return only(ANYTHING);
    return is_constant(a, 0) ? a : multiply(a, only(POSITIVE));
}

/* Or the smaller of two: the checks follow only that of equal ones. */
static ends_value larger(ends_value a, ends_value b, double sign) {
    if (sign < 0 && is_finite(a) && is_finite(b) && !is_constant(a, b.constant))
        return only(is_positive(a) && is_positive(b) ? POSITIVE : FINITE);
    if (a.kind == CONSTANT && b.kind == CONSTANT)
        return known(sign > 0 ? fmax(a.constant, b.constant) : fmin(a.constant, b.constant));
    if (is_constant(a, -sign * INFINITY)) return b;
    if (is_constant(b, -sign * INFINITY)) return a;
    if (a.kind == UNCHANGED && b.kind == UNCHANGED && a.tile == b.tile) return a;
    if (sign > 0 && (is_positive(a) || is_positive(b)) && is_finite(a) && is_finite(b))
        return only(POSITIVE);
    return only(is_finite(a) && is_finite(b) ? FINITE : ANYTHING);
}

static double apply(tl_operation operation, double x) {
    switch (operation) {
    case TL_EXP: return exp(x);
    case TL_EXP2: return exp2(x);
    case TL_LOG: return log(x);
    case TL_LOG2: return log2(x);
    case TL_TANH: return tanh(x);
    case TL_ERF: return erf(x);
    case TL_ERFC: return erfc(x);
    case TL_SQRT: return sqrt(x);
    case TL_RSQRT: return 1 / sqrt(x);
    case TL_RECIPROCAL: return 1 / x;
    case TL_ABS: return fabs(x);
    default: return x;
    }
}

/* Of infinities no closer than the checks follow them (check/ends.c): they ask for the masks. */
static ends_value function(tl_operation operation, ends_value a) {
    bool is_curved = operation == TL_TANH || operation == TL_ERF || operation == TL_ERFC;
    if (operation == TL_CAST) return a;
    if (is_infinite(a) && is_curved) return only(FINITE);
    if (is_infinite(a) && operation == TL_ABS) return only(ANYTHING);
    if (a.kind == CONSTANT) return known(apply(operation, a.constant));
    switch (operation) {
    case TL_EXP:
    case TL_EXP2: return only(is_finite(a) ? POSITIVE : ANYTHING);
    case TL_TANH:
    case TL_ERF:
    case TL_ERFC:
    case TL_ABS: return only(is_finite(a) ? FINITE : ANYTHING);
    default: /* Sqrt, Rsqrt, Reciprocal, Log */
        return only(is_positive(a)
                        ? (operation == TL_LOG || operation == TL_LOG2 ? FINITE : POSITIVE)
                        : ANYTHING);
    }
}

static ends_value elementwise(const ends_state *state, const tl_compute *c) {
    ends_value a = operand_value(state, c->operands[0].value);
    if (c->operand_count == 1) return function(c->operation, a);
    ends_value b = operand_value(state, c->operands[1].value);
    bool is_square =
        c->operation == TL_MULTIPLY && tl_expr_equal(c->operands[0].value, c->operands[1].value);
    switch (c->operation) {
    case TL_ADD: return add(a, b, 1);
    case TL_SUBTRACT: return add(a, b, -1);
    case TL_MULTIPLY: return is_square && a.kind == POSITIVE ? a : multiply(a, b);
    case TL_DIVIDE: return divide(a, b);
    case TL_MAX: return larger(a, b, 1);
    case TL_MIN: return larger(a, b, -1);
    case TL_MULTIPLY_ADD: return add(multiply(a, b), operand_value(state, c->operands[2].value), 1);
    default: return only(ANYTHING);
    }
}

/* --- statements ------------------------------------------------------------------------------- */

static void hurt(ends_state *state, tl_statement *s, str tile, double neutral) {
    if (!state->answer.hurt) state->answer = (ends_answer){s, tile, neutral};
}

static void set(ends_state *state, str name, ends_value value) {
    int number = tile_number(state, name);
    if (number >= 0) state->values[number] = value;
}

static void run_product(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    ends_value a = operand_value(state, c->operands[0].value);
    ends_value b = operand_value(state, c->operands[1].value);
    str target = edit_target_name(s);
    bool is_sum = c->target_kind == TL_ACCUMULATE;
    ends_value product = multiply(a, b);
    if (product.kind == POSITIVE) product = only(FINITE);
    str left = edit_operand_name(s, 0);
    bool contracts = has_axis(state, left) && !has_axis(state, target);
    if (contracts && is_constant(product, 0) && is_sum) return; /* adds nothing */
    if (contracts && !is_constant(product, 0)) {
        hurt(state, s, left, 0);
        return;
    }
    if (!contracts && !has_axis(state, target)) {
        set(state, target, only(is_finite(product) ? FINITE : ANYTHING));
        return;
    }
    ends_value before =
        state->values[tile_number(state, target) < 0 ? 0 : tile_number(state, target)];
    set(state, target, is_sum ? add(before, product, 1) : product);
}

static void run_reduction(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    str from = edit_operand_name(s, 0), target = edit_target_name(s);
    ends_value a = operand_value(state, c->operands[0].value);
    bool is_sum = c->operation == TL_ROW_SUM;
    double neutral = is_sum ? 0 : -INFINITY;
    bool reduces = has_axis(state, from) && !has_axis(state, target);
    if (reduces && is_constant(a, neutral)) {
        if (c->target_kind != TL_ACCUMULATE)
            set(state, target, state->question->mode == ENDS_PART ? only(FINITE) : known(neutral));
        return;
    }
    if (reduces) {
        hurt(state, s, from, neutral);
        return;
    }
    set(state, target, only(is_finite(a) ? FINITE : ANYTHING));
}

static void run_mask(ends_state *state, tl_statement *s) {
    const tl_compute *c = &s->compute;
    double value = -INFINITY;
    if (c->operand_count > 1 && !scalar_number(state->r, c->operands[1].value, &value)) {
        set(state, edit_target_name(s), only(ANYTHING));
        return;
    }
    const ends_question *q = state->question;
    bool is_covered = q->mode == ENDS_MASKED ? s == q->mask : q->covers(q->context, s);
    ends_value before = operand_value(state, c->operands[0].value);
    bool is_same = is_constant(before, value);
    if (is_covered) set(state, edit_target_name(s), known(value));
    else if (!is_same)
        set(state, edit_target_name(s),
            only(is_finite(before) && isfinite(value) ? FINITE : ANYTHING));
}

static void run_copy(ends_state *state, tl_statement *s) {
    if (s->copy.to == TL_GLOBAL) {
        if (state->question->mode == ENDS_MASKED || s->copy.target_kind == TL_ACCUMULATE)
            hurt(state, s, (str){"", 0}, 0); /* the store has to happen */
        return;                              /* else what lies behind the end is dropped */
    }
    str name = edit_target_name(s);
    if (s->copy.from != TL_GLOBAL && tile_number(state, s->copy.what->text) >= 0)
        set(state, name, state->values[tile_number(state, s->copy.what->text)]);
    else if (has_axis(state, name) && state->question->mode != ENDS_MASKED)
        set(state, name, known(0));
    else set(state, name, only(FINITE));
}

static void run_statement(ends_state *state, tl_statement *s) {
    if (s->kind == TL_COPY) run_copy(state, s);
    if (s->kind != TL_COMPUTE) return;
    const tl_compute *c = &s->compute;
    switch (tl_operation_shape(c->operation)) {
    case TL_SHAPE_PRODUCT: run_product(state, s); break;
    case TL_SHAPE_REDUCTION: run_reduction(state, s); break;
    case TL_SHAPE_MASK: run_mask(state, s); break;
    case TL_SHAPE_FILL:
        set(state, edit_target_name(s), operand_value(state, c->operands[0].value));
        break;
    case TL_SHAPE_ELEMENTWISE: {
        ends_value value = elementwise(state, c);
        int number = tile_number(state, edit_target_name(s));
        if (c->target_kind == TL_ACCUMULATE && number >= 0)
            value = add(state->values[number], value, 1);
        set(state, edit_target_name(s), value);
        break;
    }
    case TL_SHAPE_SOFTMAX: break;
    }
}

/* Is the tile's value carried into the next iteration, or read after the loop before it is written?
 */
static bool is_carried(const ends_state *state, str name) {
    tl_statement *loop = state->question->loop;
    for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop)) {
        if (edit_reads(s, name)) return true;
        if (edit_writes(s, name)) break;
    }
    for (tl_statement *outer = loop; outer; outer = outer->parent) {
        for (tl_statement *top = outer->next; top; top = top->next)
            for (tl_statement *s = top; s; s = tl_next(s, top)) {
                if (edit_reads(s, name) || (s->kind == TL_COPY && s->copy.to == TL_GLOBAL &&
                                            edit_expr_mentions(s->copy.what, name)))
                    return true;
                if (edit_writes(s, name)) return false;
            }
        if (outer->parent && outer->parent->kind == TL_FOR)
            return true; /* an outer loop may come back to it */
    }
    return false;
}

/* A block that can be left out leaves all that it carries on as it was. */
static void check_unchanged(ends_state *state) {
    for (int i = 0; i < state->tiles->tiles.count; i++) {
        const tiles_tile *tile = &state->tiles->tiles.items[i];
        bool is_same = state->values[i].kind == UNCHANGED && state->values[i].tile == i;
        if (!is_same && edit_writes_within(state->question->loop, tile->name) &&
            is_carried(state, tile->name))
            hurt(state, state->question->loop, (str){"", 0}, 0);
    }
}

ends_answer ends_ask(reason *r, const tiles_list *tiles, const ends_question *question) {
    ends_state state = {.r = r, .tiles = tiles, .question = question};
    int count = tiles->tiles.count;
    state.values = arena_array(r->memory, ends_value, count > 0 ? count : 1);
    /* Beside other elements, a block changes what it carries; alone, it must not. */
    for (int i = 0; i < count; i++)
        state.values[i] =
            question->mode == ENDS_PART ? only(FINITE) : (ends_value){.kind = UNCHANGED, .tile = i};
    for (tl_statement *s = tl_next(question->loop, question->loop); s && !state.answer.hurt;
         s = tl_next(s, question->loop))
        run_statement(&state, s);
    if (!state.answer.hurt && question->mode != ENDS_PART) check_unchanged(&state);
    return state.answer;
}
