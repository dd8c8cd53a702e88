/* Which register tiles of asynchronous products the CUDA compiler need not have in place. A product
 * that begins a sum has what the tile held before as an operand all the same. Where the compiler
 * knows that value (a constant, another tile's), or nothing has needed it yet, it may write the
 * registers where it pleases, after the product's fence too. Such a tile is loose: the text says
 * that what it held is forgotten. What an approximation gives comes from assembly, and is known to
 * nobody.
 */
#include "translate/emit.h"

static bool is_matrix(const emit_tile *tile) {
    return tile->space == TL_REGISTER && !tile->is_vector;
}

enum { TILES_MAX = 64 }; /* whose uses are followed */

static uint64_t bit_of(const emit_state *states, const emit_state *state) {
    return state - states < TILES_MAX ? (uint64_t)1 << (state - states) : 0;
}

static emit_state *state_of(const emit *t, emit_state *states, const tl_symbol *symbol) {
    for (int i = 0; symbol && i < t->tiles.count; i++) {
        if (is_matrix(t->tiles.items[i]) && t->tiles.items[i]->symbol == symbol) return &states[i];
    }
    return NULL;
}

/* The tile's value is a fresh one. */
static void put(const emit *t, emit_state *states, emit_state *state, bool is_known,
                uint64_t made_of) {
    const emit_tile *tile = t->tiles.items[state - states];
    for (int i = 0; i < t->tiles.count; i++) states[i].made_of &= ~bit_of(states, state);
    /* Of a ring's arrays one is written; what is known of the others stands. */
    state->is_known = is_known || (tile->generations && state->is_known);
    state->is_unused = true;
    state->made_of = made_of & ~bit_of(states, state);
}

/* Something needs the value, and so those that it is made of. */
static void use(const emit *t, emit_state *states, emit_state *state) {
    if (!state) return;
    uint64_t all = state->made_of;
    state->is_unused = false, state->made_of = 0;
    for (int i = 0; i < t->tiles.count && i < TILES_MAX; i++) {
        if (all >> i & 1) use(t, states, &states[i]);
    }
}

/* Is it a number that only the launch knows? */
static bool is_late(const tl_symbol *symbol) {
    bool is_let = symbol->kind == TL_SYMBOL_CONSTANT && symbol->value;
    return symbol->kind == TL_SYMBOL_SIZE || symbol->kind == TL_SYMBOL_SCALAR ||
           (is_let && symbol->value->kind == TL_ELEMENT);
}

static bool is_another(void *symbol, const tl_expr *e) {
    return e->kind != TL_NAME || e->symbol != symbol;
}

/* Does the comparison move with a number that only the launch knows? */
static bool waits_for_launch(const emit *t, const tl_expr *comparison) {
    for (int i = 0; i < t->kernel->symbol_count; i++) {
        tl_symbol *symbol = t->kernel->symbols[i];
        int64_t left, right;
        if (is_late(symbol) && tl_coefficient(comparison->left, is_another, symbol, &left) &&
            tl_coefficient(comparison->right, is_another, symbol, &right) && left != right)
            return true;
    }
    return false;
}

/* Might the compiler find that the condition holds, whatever the launch? */
static bool may_hold_always(const emit *t, const tl_expr *e) {
    if (e->kind != TL_BINARY) return true;
    if (e->operator== TL_AND) return may_hold_always(t, e->left) && may_hold_always(t, e->right);
    if (e->operator== TL_OR) return may_hold_always(t, e->left) || may_hold_always(t, e->right);
    return !waits_for_launch(t, e);
}

/* The operands of an elementwise statement: what the compiler can make of them. */
typedef struct operands {
    int unknown;      /* values that it does not know */
    emit_state *tile; /* one of these, if a matrix */
    uint64_t tiles;   /* all matrices */
    bool is_nested;   /* a matrix within an expression: nothing is said of that */
} operands;

static void add_operand(const emit *t, emit_state *states, const tl_expr *e, operands *found) {
    if (!e || e->kind == TL_INTEGER || e->kind == TL_NUMBER) return;
    emit_state *state = e->kind == TL_NAME ? state_of(t, states, e->symbol) : NULL;
    if (!state || !state->is_known) found->unknown++;
    if (state && !state->is_known) found->tile = state;
    if (state) found->tiles |= bit_of(states, state) | state->made_of;
    for (int i = 0; !state && i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (!is_matrix(tile) || !tl_expr_mentions(e, tile->symbol)) continue;
        states[i].is_known = found->is_nested = true;
    }
}

/* Of one unknown operand and known others the result may be that operand itself (times 1), or be
 * known (the larger of it and 0, then the smaller of that and 0).
 */
static void note_elements(const emit *t, const tl_compute *c, emit_state *states,
                          emit_state *target) {
    const tl_operation_facts *f = tl_facts(c->operation);
    operands found = {0};
    for (int i = 0; i < c->operand_count; i++) add_operand(t, states, c->operands[i].value, &found);
    if (c->target_kind == TL_ACCUMULATE) add_operand(t, states, c->target, &found);
    bool is_same = found.unknown == 1 && found.tile && found.tile != target;
    bool is_known = found.unknown == 0 || found.is_nested || is_same || f->ends_in == TL_CHOICE ||
                    (f->chooses && found.unknown == 1) || f->shape == TL_SHAPE_FILL ||
                    (c->operation == TL_MASK && may_hold_always(t, c->condition));
    if (f->ends_in == TL_ASSEMBLY) is_known = false;
    else if (is_same && !t->tiles.items[target - states]->is_packed) found.tile->is_known = true;
    put(t, states, target, is_known, found.tiles);
}

static void note_product(const emit *t, emit_state *states, emit_state *target) {
    bool is_ring = t->tiles.items[target - states]->generations != NULL;
    put(t, states, target, is_ring && target->is_known, 0);
    target->is_unused = false;
}

static void note_compute(const emit *t, const tl_statement *s, emit_state *states) {
    const tl_compute *c = &s->compute;
    const tl_expr *name = tl_written_name(s);
    emit_state *target = state_of(t, states, name ? name->symbol : NULL);
    bool is_product = c->operation == TL_GEMM;
    bool is_conversion = target && t->tiles.items[target - states]->is_packed;
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *e = c->operands[i].value;
        emit_state *state = e->kind == TL_NAME ? state_of(t, states, e->symbol) : NULL;
        if (!state) continue;
        /* Zeros that no text has written yet. */
        if (!is_product && state->holds != EMIT_HOLDS) state->is_known = true;
        if (is_product || is_conversion) use(t, states, state);
    }
    if (!target) return;
    bool is_lazy = t->tiles.items[target - states]->is_lazy;
    if (is_product) note_product(t, states, target);
    else if (!is_lazy || !emit_is_zero_fill(s)) note_elements(t, c, states, target);
    else target->is_known = false; /* the text forgets it there */
}

void emit_note_loose(const emit *t, const tl_statement *s, emit_state *states) {
    if (s->kind == TL_COMPUTE) {
        note_compute(t, s, states);
    } else if (s->kind == TL_RESHAPE) {
        use(t, states, state_of(t, states, s->reshape.what->symbol));
    } else if (s->kind == TL_COPY) {
        tl_end source = tl_copy_source(s), target = tl_copy_target(s);
        if (s->copy.from == TL_REGISTER) use(t, states, state_of(t, states, source.symbol));
        emit_state *to = s->copy.to == TL_REGISTER ? state_of(t, states, target.symbol) : NULL;
        if (to) put(t, states, to, false, 0);
    }
}
