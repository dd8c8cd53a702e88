/* Does a sketch mean the same however the axis of a loop is cut into blocks?
 *
 * In `for j = 0:len/BN` with BN open nobody has said how often the body runs, nor where a block
 * ends. What a round makes of its block's own elements is the same for every cut, as are sums and
 * extremes over all blocks of what belongs to the elements. What a round does to a tile whatever
 * its block is (and so once more where blocks are smaller), what the last block alone leaves, and
 * sums of what is made of a block as a whole depend on the cut.
 *
 * Tiles that are changed from round to round in other ways (a running maximum that rescales a sum)
 * may well be the same in the end. That is not decided here: verification compares with the sketch
 * run on whole axes.
 */
#include "check/rules.h"

#include "tl/tl.h"

/* What a tile holds in a round; the later ones win where several meet. */
typedef enum nature {
    SAME,         /* as in every other round */
    OWN,          /* made of this block's elements, each for itself */
    PART_SUM,     /* a sum over the block, or what is linear in it */
    PART_EXTREME, /* a maximum or minimum over the block */
    PART,         /* made of the block as a whole in another way */
    RUNNING       /* from earlier rounds: not followed */
} nature;

typedef struct rounds {
    tl_kernel *kernel;
    const tl_statement *loop;
    const tl_expr *length, *size;
    diag_list *diags;
    nature *natures; /* by tl_symbol.position */
} rounds;

/* --- the loop --------------------------------------------------------------------------------- */

static bool is_open(const check_lengths *given, const tl_expr *size) {
    if (!size || size->kind != TL_NAME || !size->symbol) return false;
    for (int i = 0; given && i < given->count; i++)
        if (str_equal(given->items[i].name, size->text)) return false;
    return size->symbol->kind == TL_SYMBOL_OPEN;
}

static bool is_walked(const rounds *r, str index) {
    return tl_loop_walks_index(r->kernel, r->loop, r->length, index);
}

/* Without axes nothing is known of a tile: they could not be inferred. */
static bool has_axes(const tl_symbol *symbol) {
    return (!symbol->in_register.exists || symbol->in_register.axis_count) &&
           (!symbol->shared.exists || symbol->shared.axis_count);
}

/* Has the variable's tile an axis that the loop cuts into blocks? */
static bool has_block(const rounds *r, const tl_symbol *symbol) {
    const tl_tile *tiles[] = {&symbol->in_register, &symbol->shared};
    for (int t = 0; t < 2; t++)
        for (int i = 0; tiles[t]->exists && i < tiles[t]->axis_count; i++)
            if (is_walked(r, tiles[t]->axes[i].index)) return true;
    return false;
}

static tl_statement *first_in(const rounds *r) {
    return r->loop->loop.body.first;
}

/* --- who writes a tile ------------------------------------------------------------------------ */

typedef struct uses {
    const tl_symbol *symbol;
    int count;
} uses;

static void count_use(void *context, tl_expr *e) {
    uses *u = context;
    u->count += e->symbol == u->symbol;
}

/* A Copy from global memory names the tensor, which may be called like a tile. */
static bool names(tl_statement *s, const tl_symbol *symbol) {
    uses all = {symbol, 0};
    tl_each_expr(s, count_use, &all);
    bool is_tensor = s->kind == TL_COPY && s->copy.from == TL_GLOBAL && s->copy.target;
    if (is_tensor && s->copy.what->symbol == symbol) all.count--;
    return all.count > 0;
}

static bool takes(const tl_statement *s, const tl_symbol *symbol) {
    for (int i = 0; s->kind == TL_COMPUTE && i < s->compute.operand_count; i++)
        if (tl_expr_mentions(s->compute.operands[i].value, symbol)) return true;
    return s->kind == TL_COMPUTE && tl_expr_mentions(s->compute.condition, symbol);
}

/* Without a look at what the tile held. */
static bool writes_afresh(const tl_statement *s, const tl_symbol *symbol) {
    return tl_writes(s, symbol) && !tl_accumulates(s) && !takes(s, symbol);
}

/* Does an accumulator that nothing else gives a value start in a loop inside of this one? */
static bool starts_inside(const rounds *r, const tl_symbol *symbol) {
    tl_statement *first = NULL;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (writes_afresh(s, symbol)) return false;
        if (!first && tl_accumulates(s) && tl_writes(s, symbol)) first = s;
    }
    const tl_statement *start = first && tl_is_inside(first, r->loop) ? first->parent : NULL;
    for (; start && start != r->loop; start = start->parent) {
        bool fits = start->kind == TL_FOR;
        for (tl_statement *s = r->kernel->body.first; s && fits; s = tl_next(s, NULL)) {
            if (!names(s, symbol)) continue;
            bool accumulates = tl_accumulates(s) && tl_writes(s, symbol) && !takes(s, symbol);
            fits = accumulates == tl_is_inside(s, start);
        }
        if (fits) return true;
    }
    return false;
}

/* May a round find in the tile what an earlier one left? */
static bool is_carried(const rounds *r, const tl_symbol *symbol) {
    bool is_written = false;
    for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop)) {
        if (writes_afresh(s, symbol)) return false;
        is_written |= tl_writes(s, symbol);
        if (!is_written && names(s, symbol)) break; /* read first: whatever comes later, it stays */
    }
    for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop))
        is_written |= tl_writes(s, symbol);
    return is_written && !starts_inside(r, symbol);
}

/* --- natures ---------------------------------------------------------------------------------- */

/* The latest of all that the expression names. One of the block's length may undo what that
 * decides, so it is not followed.
 */
static nature nature_in(const rounds *r, const tl_expr *e) {
    if (!e) return SAME;
    nature most = SAME, part;
    if (e->symbol && (e->symbol == r->size->symbol || e->symbol == r->loop->loop.symbol))
        return RUNNING;
    if (e->symbol && tl_tile_of(e)) most = r->natures[e->symbol->position];
    for (int i = -2; i < e->item_count; i++) {
        part = nature_in(r, i == -2 ? e->left : i == -1 ? e->right : e->items[i]);
        if (part > most) most = part;
    }
    return most;
}

static bool contracts_block(const rounds *r, const tl_compute *c) {
    tl_product_axes product;
    tl_tile_axis axes[4];
    if (c->operation == TL_GEMM)
        return tl_product_of(&c->operands[0], &c->operands[1], &product) &&
               is_walked(r, product.contracted.index);
    tl_shape_rule shape = tl_operation_shape(c->operation);
    if (shape != TL_SHAPE_REDUCTION && shape != TL_SHAPE_CHOICE) return false;
    int count = tl_operand_axes(&c->operands[0], axes);
    return count > 0 && is_walked(r, axes[count - 1].index);
}

static bool is_zero_mask(const tl_compute *c) {
    double value;
    return c->operation == TL_MASK && c->operand_count == 2 &&
           tl_known_number(c->operands[1].value, &value) && value == 0;
}

/* What a Compute makes, of operands of which none is RUNNING or PART; one is a part at least. */
static nature of_parts(const tl_compute *c, const nature *operands, nature most, bool has_block) {
    if (has_block) return PART;
    if (most == PART_EXTREME)
        return tl_operation_shape(c->operation) == TL_SHAPE_ELEMENTWISE ? PART_EXTREME : PART;
    unsigned in = 0;
    for (int i = 0; i < c->operand_count; i++) in |= operands[i] == PART_SUM ? 1u << i : 0;
    bool stays = tl_is_linear(c->operation, in) || is_zero_mask(c);
    return stays ? PART_SUM : PART;
}

static nature made_by(const rounds *r, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    nature operands[TL_OPERANDS_MAX], most = nature_in(r, c->condition);
    for (int i = 0; i < c->operand_count && i < TL_OPERANDS_MAX; i++) {
        operands[i] = nature_in(r, c->operands[i].value);
        if (operands[i] > most) most = operands[i];
    }
    bool makes_block = has_block(r, tl_written_name(s)->symbol);
    if (most >= PART) return most;
    if (most >= PART_SUM) return of_parts(c, operands, most, makes_block);
    if (c->operation == TL_SOFTMAX) return most;
    if (makes_block || most == SAME) return makes_block ? OWN : SAME;
    if (!contracts_block(r, c)) return PART;
    if (c->operation == TL_GEMM || tl_reduces_by_sum(c->operation)) return PART_SUM;
    if (c->operation == TL_ROW_TOP_K && c->target_kind == TL_ACCUMULATE) return PART_EXTREME;
    return tl_reduces_by_choice(c->operation) ? PART_EXTREME : PART;
}

static void follow(rounds *r) {
    for (int i = 0; i < r->kernel->symbol_count; i++) {
        const tl_symbol *symbol = r->kernel->symbols[i];
        bool is_tile = symbol->kind == TL_SYMBOL_VARIABLE;
        bool is_open = is_tile && (!has_axes(symbol) || is_carried(r, symbol));
        r->natures[i] = is_open ? RUNNING : SAME;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop)) {
            const tl_expr *target = tl_written_name(s);
            if (!target || !target->symbol) continue;
            nature *to = &r->natures[target->symbol->position];
            nature made = s->kind == TL_COMPUTE ? made_by(r, s)
                          : s->kind == TL_COPY && s->copy.from != TL_GLOBAL
                              ? r->natures[s->copy.what->symbol->position]
                          : has_block(r, target->symbol) ? OWN
                                                         : SAME;
            if (made <= *to) continue;
            *to = made;
            changed = true;
        }
    }
}

/* --- what depends on the cut ------------------------------------------------------------------ */

typedef enum change {
    ADDS,    /* X + v */
    CHOOSES, /* the larger or smaller of X and v */
    REPEATS, /* once or often is the same */
    CHANGES, /* and of what is the same in each round alone */
    UNKNOWN_CHANGE
} change;

/* How a statement changes a tile that is carried, and of what nature the other operand is. */
static change change_of(const rounds *r, const tl_statement *s, const tl_symbol *symbol,
                        nature *by) {
    const tl_compute *c = &s->compute;
    *by = SAME;
    if (s->kind != TL_COMPUTE) return UNKNOWN_CHANGE;
    if (tl_accumulates(s)) {
        if (takes(s, symbol)) return UNKNOWN_CHANGE;
        *by = made_by(r, s);
        bool chooses = tl_operation_shape(c->operation) == TL_SHAPE_CHOICE ||
                       tl_facts(tl_combining(c->operation))->chooses;
        return chooses ? CHOOSES : ADDS;
    }
    unsigned own = 0;
    nature most = nature_in(r, c->condition);
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *value = c->operands[i].value;
        bool is_itself = value->kind == TL_NAME && value->symbol == symbol;
        if (!is_itself && tl_expr_mentions(value, symbol)) return UNKNOWN_CHANGE;
        if (is_itself) own |= 1u << i;
        nature other = is_itself ? SAME : nature_in(r, c->operands[i].value);
        if (other > most) most = other;
    }
    if (tl_expr_mentions(c->condition, symbol)) return UNKNOWN_CHANGE;
    *by = most;
    bool is_one = own == 1 || own == 2 || own == 4;
    if (is_one && c->operand_count == 2 && tl_facts(c->operation)->chooses) return CHOOSES;
    bool adds = c->operation == TL_ADD || (c->operation == TL_SUBTRACT && own == 1) ||
                (c->operation == TL_MULTIPLY_ADD && own == 4);
    if (is_one && adds) return ADDS;
    if (most != SAME) return UNKNOWN_CHANGE;
    bool repeats = c->operation == TL_MASK || c->operation == TL_ABS || c->operation == TL_CAST;
    return repeats ? REPEATS : CHANGES;
}

typedef struct changes {
    const tl_statement *repeated; /* does the same in each round, whatever the block */
    const tl_statement *mixed;    /* adds up, or chooses of, what the cut decides */
    const tl_statement *first;    /* of those that once or often does the same */
    bool adds, chooses, is_unknown;
} changes;

static changes changes_of(const rounds *r, const tl_symbol *symbol) {
    changes all = {0};
    for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop)) {
        nature by;
        if (!tl_writes(s, symbol)) continue;
        change how = change_of(r, s, symbol, &by);
        bool is_of_parts = by == PART_SUM || by == PART_EXTREME || by == PART;
        nature fits = how == ADDS ? PART_SUM : PART_EXTREME;
        all.adds |= how == ADDS;
        all.chooses |= how == CHOOSES;
        all.is_unknown |= how == UNKNOWN_CHANGE || by == RUNNING;
        bool repeats = how == REPEATS || (how == CHOOSES && by == SAME);
        if (repeats && !all.first) all.first = s;
        if (how == CHANGES || (how == ADDS && by == SAME)) all.repeated = s;
        else if (is_of_parts && by != fits) all.mixed = s;
    }
    return all;
}

static bool report(const rounds *r, diag_id id, const tl_statement *s, str name) {
    diag_report(r->diags, id, s->range, name, r->loop->loop.name, r->size->text);
    return false;
}

/* Is the tile used in the loop before the statement, but for what changes the tile itself? */
static bool is_used_before(const rounds *r, const tl_symbol *symbol, const tl_statement *until) {
    for (tl_statement *s = first_in(r); s && s != until; s = tl_next(s, r->loop))
        if (names(s, symbol) && !tl_writes(s, symbol)) return true;
    return false;
}

static bool check_carried(const rounds *r, const tl_symbol *symbol) {
    changes all = changes_of(r, symbol);
    bool is_mixture = all.adds && all.chooses; /* of sums and extremes: not followed */
    if (all.is_unknown || is_mixture) return true;
    if (all.repeated) return report(r, DIAG_SKETCH_ROUNDS, all.repeated, symbol->name);
    if (all.mixed) return report(r, DIAG_SKETCH_BLOCK_SUM, all.mixed, symbol->name);
    bool is_late = all.first && !all.adds && is_used_before(r, symbol, all.first);
    return is_late ? report(r, DIAG_SKETCH_FIRST_ROUND, all.first, symbol->name) : true;
}

/* A tile that a block as a whole decides, read after the loop. */
static bool check_left(const rounds *r, const tl_symbol *symbol) {
    bool is_after = false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (tl_is_inside(s, r->loop)) {
            is_after = true;
            continue;
        }
        if (!is_after || !names(s, symbol)) continue;
        if (writes_afresh(s, symbol)) return true;
        return report(r, DIAG_SKETCH_LAST_BLOCK, s, symbol->name);
    }
    return true;
}

/* Elements of the walked axis that the block as a whole decides. */
static bool check_stores(const rounds *r) {
    for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop)) {
        if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL || !s->copy.what->symbol) continue;
        bool is_cut = r->natures[s->copy.what->symbol->position] == PART &&
                      has_block(r, s->copy.what->symbol);
        if (is_cut) return report(r, DIAG_SKETCH_BLOCK_STORED, s, s->copy.what->text);
    }
    return true;
}

/* A tile with an axis that the loop walks, which a round adds to as the round before left it: that
 * one had another block.
 */
static bool check_kept(const rounds *r) {
    for (int i = 0; i < r->kernel->symbol_count; i++) {
        const tl_symbol *symbol = r->kernel->symbols[i];
        bool is_tile = symbol->kind == TL_SYMBOL_VARIABLE && has_axes(symbol);
        if (!is_tile || !has_block(r, symbol) || !is_carried(r, symbol)) continue;
        for (tl_statement *s = first_in(r); s; s = tl_next(s, r->loop)) {
            if (!tl_writes(s, symbol)) continue;
            diag_report(r->diags, DIAG_SKETCH_BLOCK_KEPT, s->range, symbol->name,
                        r->loop->loop.name);
            return false;
        }
    }
    return true;
}

static bool check_loop(rounds *r) {
    follow(r);
    for (int i = 0; i < r->kernel->symbol_count; i++) {
        const tl_symbol *symbol = r->kernel->symbols[i];
        bool is_written = false;
        for (tl_statement *s = first_in(r); s && symbol->kind == TL_SYMBOL_VARIABLE;
             s = tl_next(s, r->loop))
            is_written |= tl_writes(s, symbol);
        if (!is_written || !has_axes(symbol) || has_block(r, symbol)) continue;
        nature found = r->natures[i];
        bool is_part = found == PART_SUM || found == PART_EXTREME || found == PART;
        bool is_right = is_carried(r, symbol) ? check_carried(r, symbol)
                        : is_part             ? check_left(r, symbol)
                                              : true;
        if (!is_right) return false;
    }
    return check_stores(r);
}

bool rules_sketch_rounds(tl_kernel *kernel, const check_lengths *given, arena *memory,
                         diag_list *diags) {
    rounds r = {.kernel = kernel, .diags = diags};
    r.natures = arena_array(memory, nature, kernel->symbol_count + 1);
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        bool walks = s->kind == TL_FOR && !s->loop.is_grid_walk &&
                     tl_loop_walks(s, &r.length, &r.size) && r.size;
        r.loop = s;
        if (!walks) continue;
        if (!check_kept(&r) || (is_open(given, r.size) && !check_loop(&r))) return false;
    }
    return true;
}

/* --- sizes that may be any ------------------------------------------------------------------- */

/* Is the name in nothing but the bounds of loops, which go through an axis in blocks of that size,
 * and is their number nowhere asked for?
 */
static bool is_size_alone(const tl_kernel *kernel, const tl_symbol *symbol) {
    uses all = {symbol, 0};
    int sizes = 0;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        const tl_expr *length, *size;
        tl_each_expr(s, count_use, &all);
        bool walks =
            s->kind == TL_FOR && tl_loop_walks(s, &length, &size) && size && size->symbol == symbol;
        if (!walks) continue;
        sizes++;
        for (tl_statement *t = kernel->body.first; t; t = tl_next(t, NULL))
            if (names(t, s->loop.symbol)) return false;
    }
    return all.count == sizes;
}

void check_open_sizes(tl_kernel *kernel, arena *memory) {
    diag_list unheard;
    diag_init(&unheard, memory, STR(""), STR(""));
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        const tl_expr *length, *size;
        if (s->kind != TL_FOR || !tl_loop_walks(s, &length, &size) || !size) continue;
        bool is_given =
            size->kind == TL_NAME && size->symbol && size->symbol->kind == TL_SYMBOL_CONSTANT;
        if (!is_given || !is_size_alone(kernel, size->symbol)) continue;
        size->symbol->kind = TL_SYMBOL_OPEN;
        if (!rules_sketch_rounds(kernel, NULL, memory, &unheard))
            size->symbol->kind = TL_SYMBOL_CONSTANT;
    }
}
