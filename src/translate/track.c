/* What is known, place by place in the text, of register tiles in kernels of asynchronous units:
 * which array holds the newest generation of a ring of values, and whether an accumulator holds a
 * sum yet. Arrays are named statically, so the body of a loop that moves a ring on is a function of
 * them, called as often as it takes to come round; ways that meet with different arrays move
 * registers.
 */
#include "translate/emit.h"

#include <ctype.h>

static int find_tile(const emit *t, const tl_expr *name) {
    if (!name || name->kind != TL_NAME || name->space == TL_SHARED || name->space == TL_GLOBAL)
        return -1;
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->symbol == name->symbol && tile->space == TL_REGISTER) return i;
    }
    return -1;
}

static emit_state *save(emit *t);
static void restore(emit *t, const emit_state *states);

static bool is_product(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM;
}

bool emit_is_zero_fill(const tl_statement *s) {
    if (s->kind != TL_COMPUTE || s->compute.operation != TL_FILL) return false;
    const tl_expr *e = s->compute.operands[0].value;
    return (e->kind == TL_INTEGER && e->integer == 0) || (e->kind == TL_NUMBER && e->number == 0);
}

/* --- rings ------------------------------------------------------------------------------------ */

emit_tile *emit_newest(emit_tile *tile) {
    return tile->generations ? tile->generations[tile->state.newest] : tile;
}

static void open_next(const emit_tile *tile, emit_state *state) {
    if (!tile->generations || !state->is_operand) return;
    state->newest = (state->newest + 1) % tile->stages;
    state->is_operand = false;
}

void emit_note_passed(emit *t, const tl_statement *from, const tl_statement *to) {
    emit_state *states = save(t);
    for (const tl_statement *s = from; s != to; s = s->next) emit_note_loose(t, s, states);
    restore(t, states);
}

bool emit_is_loose(emit *t, const tl_expr *name) {
    int i = find_tile(t, name);
    return i >= 0 && (t->tiles.items[i]->state.is_known || t->tiles.items[i]->state.is_unused);
}

void emit_note_touched(emit *t, const tl_expr *name, bool is_touched) {
    int i = find_tile(t, name);
    if (i >= 0) t->tiles.items[i]->state.is_touched = is_touched;
}

bool emit_is_touched(emit *t, const tl_expr *name) {
    int i = find_tile(t, name);
    return i >= 0 && t->tiles.items[i]->state.is_touched;
}

/* What arithmetic reads is touched, too: it could be read past the fence of a product that adds to
 * it. */
void emit_note_write(emit *t, const tl_statement *s) {
    for (int k = 0; k < s->compute.operand_count; k++)
        emit_note_touched(t, s->compute.operands[k].value, true);
    int i = find_tile(t, tl_written_name(s));
    if (i >= 0) t->tiles.items[i]->state.is_touched = true;
    if (i >= 0 && tl_writes_afresh(s, t->tiles.items[i]->symbol))
        open_next(t->tiles.items[i], &t->tiles.items[i]->state);
}

bool emit_opens_generation(emit *t, const tl_statement *s) {
    int i = find_tile(t, tl_written_name(s));
    return i >= 0 && t->tiles.items[i]->generations && t->tiles.items[i]->state.is_operand &&
           tl_writes_afresh(s, t->tiles.items[i]->symbol);
}

void emit_note_product(emit *t, const tl_statement *s) {
    for (int k = 0; k < s->compute.operand_count; k++) {
        int i = find_tile(t, s->compute.operands[k].value);
        if (i >= 0) t->tiles.items[i]->state.is_operand = true;
        emit_note_touched(t, s->compute.operands[k].value, false);
    }
    int i = find_tile(t, tl_written_name(s));
    if (i < 0) return;
    t->tiles.items[i]->state.holds = EMIT_HOLDS;
    t->tiles.items[i]->state.is_touched = false;
}

/* 'rarely': a move on one way out of a loop. The compiler, left alone, would give the array after
 * the loop the registers of the one before it, and move at every entry instead; to it this move is
 * arithmetic.
 */
static void move_ring(emit *t, const emit_tile *tile, int from, int to, bool rarely) {
    const char *target = str_copy_z(t->memory, tile->generations[to]->name);
    const char *source = str_copy_z(t->memory, tile->generations[from]->name);
    const emit_shape *s = &tile->shape;
    emit_loop(t, "m16", s->down);
    emit_loop(t, "n8", emit_has_quads(tile) ? s->across / 2 : s->across);
    emit_loop(t, "half", tile->is_packed ? 2 : 4);
    emit_text(t, "%s[m16][n8][half] = %s[m16][n8][half]%s;", target, source,
              rarely && tile->is_packed ? " ^ ftl_zero()" : "");
    for (int i = 0; i < 3; i++) emit_close(t);
}

/* --- states ----------------------------------------------------------------------------------- */

static emit_state *save(emit *t) {
    emit_state *states = arena_array(t->memory, emit_state, t->tiles.count + 1);
    for (int i = 0; i < t->tiles.count; i++) states[i] = t->tiles.items[i]->state;
    return states;
}

static void restore(emit *t, const emit_state *states) {
    for (int i = 0; i < t->tiles.count; i++) t->tiles.items[i]->state = states[i];
}

static emit_state joined(emit_state a, emit_state b) {
    if (a.holds != b.holds) a.holds = EMIT_MAY_HOLD;
    a.is_operand |= b.is_operand;
    a.is_touched |= b.is_touched;
    a.is_known |= b.is_known;
    a.is_unused |= b.is_unused;
    a.made_of &= b.made_of;
    return a;
}

/* The way that was taken goes on as if it were the other: with the same arrays. */
static void move_to(emit *t, const emit_state *wanted, bool rarely) {
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (!tile->generations || tile->state.newest == wanted[i].newest) continue;
        move_ring(t, tile, tile->state.newest, wanted[i].newest, rarely);
        tile->state.is_touched = tile->state.is_known = true;
    }
}

static void join_states(const emit *t, emit_state *a, const emit_state *b, bool newest_of_b) {
    for (int i = 0; i < t->tiles.count; i++) {
        int newest = newest_of_b ? b[i].newest : a[i].newest;
        a[i] = joined(a[i], b[i]);
        a[i].newest = newest;
    }
}

static void join(emit *t, const emit_state *other) {
    emit_state *own = save(t);
    join_states(t, own, other, true);
    restore(t, own);
}

/* --- looking ahead ---------------------------------------------------------------------------- */

static void look(emit *t, const tl_block *block, emit_state *states);

static bool is_opposite(const tl_statement *s, const tl_statement *next) {
    return s->kind == TL_IF && next && next->kind == TL_IF &&
           next->branch.condition->kind == TL_NOT &&
           tl_expr_equal(next->branch.condition->left, s->branch.condition);
}

static emit_state *copy_of(emit *t, const emit_state *states) {
    emit_state *copy = arena_array(t->memory, emit_state, t->tiles.count + 1);
    for (int i = 0; i < t->tiles.count; i++) copy[i] = states[i];
    return copy;
}

/* What a loop's body meets: the states before it, or after itself. What is known of a tile follows
 * from what is known of others, so that one round through the body may not be enough.
 */
static void enter_loop(emit *t, const tl_block *body, emit_state *states) {
    for (int i = 0; i < t->tiles.count; i++) states[i].is_operand = false;
    for (bool changes = true; changes;) {
        emit_state *after = copy_of(t, states);
        look(t, body, after);
        changes = false;
        for (int i = 0; i < t->tiles.count; i++) {
            emit_state was = states[i];
            states[i] = joined(was, after[i]);
            states[i].is_operand = false;
            changes |= states[i].is_known != was.is_known || states[i].is_unused != was.is_unused ||
                       states[i].made_of != was.made_of;
        }
    }
}

static int exit_of(const emit *t, const emit_tile *tile, int newest, int gain) {
    return gain ? (newest + t->exit_shift) % tile->stages : newest;
}

static void look_into_loop(emit *t, const tl_block *body, emit_state *states) {
    emit_state *before = copy_of(t, states);
    enter_loop(t, body, states);
    emit_state *after = copy_of(t, states);
    look(t, body, after);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        int gain = after[i].newest - before[i].newest;
        int newest = tile->generations ? exit_of(t, tile, before[i].newest, gain) : 0;
        states[i] = joined(before[i], after[i]);
        states[i].newest = newest;
    }
}

static void look_at(emit *t, const tl_statement *s, emit_state *states) {
    for (int k = 0; is_product(s) && k < s->compute.operand_count; k++) {
        int i = find_tile(t, s->compute.operands[k].value);
        if (i >= 0) states[i].is_operand = true, states[i].is_touched = false;
    }
    for (int k = 0; emit_is_elementwise(s) && k < s->compute.operand_count; k++) {
        int i = find_tile(t, s->compute.operands[k].value);
        if (i >= 0) states[i].is_touched = true;
    }
    int waited = s->kind == TL_WAIT ? find_tile(t, s->sync.what) : -1;
    if (waited >= 0) states[waited].is_touched = false;
    emit_note_loose(t, s, states);
    int i = find_tile(t, tl_written_name(s));
    if (i < 0) return;
    if (tl_writes_afresh(s, t->tiles.items[i]->symbol)) open_next(t->tiles.items[i], &states[i]);
    states[i].holds = emit_is_zero_fill(s) && t->tiles.items[i]->is_lazy ? EMIT_EMPTY : EMIT_HOLDS;
    bool is_kept = is_product(s) || s->kind == TL_RESHAPE || states[i].holds == EMIT_EMPTY;
    states[i].is_touched = !is_kept;
}

static void look(emit *t, const tl_block *block, emit_state *states) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        if (s->kind == TL_FOR) {
            look_into_loop(t, &s->loop.body, states);
        } else if (s->kind == TL_IF) {
            emit_state *other = copy_of(t, states);
            look(t, &s->branch.body, states);
            bool both = is_opposite(s, s->next);
            if (both) look(t, &s->next->branch.body, other);
            join_states(t, states, other, !both);
            if (both) s = s->next;
        } else {
            look_at(t, s, states);
        }
    }
}

/* --- control ---------------------------------------------------------------------------------- */

static void scoped_block(emit *t, const tl_block *block) {
    int names = t->names.count;
    emit_block(t, block);
    t->names.count = names;
}

/* After the first of two opposite branches comes `else`. Returns the statement after. */
const tl_statement *emit_branch(emit *t, const tl_statement *s) {
    bool both = is_opposite(s, s->next);
    emit_header(t, s);
    emit_value v = emit_expression(t, s->branch.condition, NULL);
    bool rare = model_is_vote(s->branch.condition);
    emit_open(t, rare ? "if (__builtin_expect(%.*s, 0)) {" : "if (%.*s) {", STR_ARGS(v.text));
    emit_state *before = save(t);
    scoped_block(t, &s->branch.body);
    emit_walk_after(t, s);
    if (rare) t->pin = NULL; /* what was voted on is there */
    if (rare) emit_renew_votes(t, &s->branch.body);
    if (!both) {
        move_to(t, before, false);
        join(t, before);
        emit_close_branch(t);
        return s->next;
    }
    emit_state *first = save(t);
    restore(t, before);
    emit_else(t);
    emit_header(t, s->next);
    scoped_block(t, &s->next->branch.body);
    move_to(t, first, false);
    join(t, first);
    emit_close(t);
    return s->next->next;
}

/* How often a body is written until all rings have come round. */
static int copies_of(emit *t, const tl_block *body) {
    emit_state *states = save(t);
    int copies = 0;
    for (bool same = false; !same; copies++) {
        look(t, body, states);
        same = true;
        for (int i = 0; i < t->tiles.count; i++) {
            states[i].is_operand = false;
            same &= states[i].newest == t->tiles.items[i]->state.newest;
        }
    }
    return copies;
}

/* What a body calls the arrays of a ring, by how far on they are from the one that is the newest
 * where it begins.
 */
static str ahead_name(emit *t, const emit_tile *tile, int ahead) {
    if (ahead == 0) return emit_format(t, "%.*s_held", STR_ARGS(tile->name));
    if (tile->stages == 2) return emit_format(t, "%.*s_next", STR_ARGS(tile->name));
    return emit_format(t, "%.*s_next_%d", STR_ARGS(tile->name), ahead);
}

static int array_ahead(const emit_tile *tile, int newest, int ahead) {
    return (newest + ahead) % tile->stages;
}

/* What the arrays of rings are called here: a list, for restore_names. In a body they have the
 * names of its parameters, and those again past a loop inside it.
 */
static str *name_as_parameters(emit *t) {
    int count = 0, at = 0;
    for (int i = 0; i < t->tiles.count; i++) count += t->tiles.items[i]->stages;
    str *names = arena_array(t->memory, str, count + 1);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        for (int k = 0; tile->generations && k < tile->stages; k++) {
            emit_tile *array = tile->generations[array_ahead(tile, tile->state.newest, k)];
            names[at++] = array->name;
            array->name = ahead_name(t, tile, k);
        }
    }
    return names;
}

/* 'head': what held when they were named as parameters. */
static void restore_names(emit *t, const emit_state *head, const str *names) {
    int at = 0;
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        for (int k = 0; tile->generations && k < tile->stages; k++)
            tile->generations[array_ahead(tile, head[i].newest, k)]->name = names[at++];
    }
}

static str parameters_of(emit *t) {
    str text = {0};
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        for (int k = 0; tile->generations && k < tile->stages; k++)
            text = emit_format(t, "%.*s%s%.*s", STR_ARGS(text), text.length ? ", " : "",
                               STR_ARGS(emit_array_parameter(t, tile, ahead_name(t, tile, k))));
    }
    return text;
}

static str arguments_of(emit *t) {
    str text = {0};
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        for (int k = 0; tile->generations && k < tile->stages; k++) {
            int array = array_ahead(tile, tile->state.newest, k);
            text = emit_format(t, "%.*s%s%.*s", STR_ARGS(text), text.length ? ", " : "",
                               STR_ARGS(tile->generations[array]->name));
        }
    }
    return text;
}

/* The body of a loop as a function of its rings' arrays, which change places from one iteration to
 * the next: written once, from what holds at the head of every iteration.
 */
static void define_body(emit *t, const tl_block *body, const char *name) {
    emit_state *head = save(t);
    emit_text(t, "// an iteration; its arrays change places from one to the next");
    emit_open(t, "const auto %s = [&](%.*s) FTL_INLINE {", name, STR_ARGS(parameters_of(t)));
    str *names = name_as_parameters(t);
    scoped_block(t, body);
    restore_names(t, head, names);
    t->indent--;
    emit_text(t, "};");
}

/* Past a call of the body: what holds past it wherever it began, and the rings as far on as it
 * moves them.
 */
static void move_on(emit *t, const emit_state *head, const emit_state *after) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        int newest = tile->state.newest + after[i].newest - head[i].newest;
        t->tiles.items[i]->state = after[i];
        t->tiles.items[i]->state.is_operand = false;
        if (tile->generations)
            t->tiles.items[i]->state.newest = (newest + tile->stages) % tile->stages;
    }
}

static void leave_from(emit *t, const char *name, const char *to, const emit_state *wanted) {
    emit_state *here = save(t);
    emit_open(t, "if (%s >= %s) {", name, to);
    move_to(t, wanted, true);
    emit_text(t, "break;");
    emit_close(t);
    restore(t, here);
}

/* A number that stays what it is, by a name. */
static bool is_name(str text) {
    bool is_it = text.length > 0;
    for (size_t i = 0; i < text.length; i++)
        is_it &= isalnum((unsigned char)text.data[i]) || text.data[i] == '_' || text.data[i] == '.';
    return is_it;
}

static void counting_loop(emit *t, const tl_block *body, const char *name, str from,
                          const char *to) {
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "for (int %s = %.*s; %s < %s; %s++) {", name, STR_ARGS(from), name, to, name);
    scoped_block(t, body);
    emit_close(t);
}

/* 'name' counts from 'from' to 'to'. */
void emit_tracked_loop(emit *t, const tl_block *body, str name, str from, str to) {
    emit_state *before = save(t), *head = save(t);
    const char *i = str_copy_z(t->memory, name), *end = str_copy_z(t->memory, to);
    emit_open(t, "{");
    int votes = emit_open_votes(t, body);
    enter_loop(t, body, head);
    restore(t, head);
    int copies = copies_of(t, body);
    if (copies == 1 && t->votes.count == votes && is_name(to) && !t->walk.reads_early) {
        t->lines.count--, t->indent--; /* nothing is declared */
        counting_loop(t, body, i, from, end);
        join(t, before);
        return;
    }
    emit_text(t, "const int %s_end = %s;", i, end);
    end = str_copy_z(t->memory, emit_format(t, "%s_end", i));
    if (copies == 1) {
        counting_loop(t, body, i, from, end);
        emit_close(t);
        emit_close_votes(t, votes);
        join(t, before);
        return;
    }
    emit_text(t, "int %s = %.*s;", i, STR_ARGS(from));
    emit_state *wanted = copy_of(t, before), *once = copy_of(t, before);
    look(t, body, once);
    for (int k = 0; k < t->tiles.count; k++) {
        const emit_tile *tile = t->tiles.items[k];
        int gain = once[k].newest - before[k].newest;
        if (tile->generations) wanted[k].newest = exit_of(t, tile, before[k].newest, gain);
        wanted[k].is_touched |= gain != 0;
    }
    const char *call = str_copy_z(t->memory, emit_format(t, "iteration_of_%s", i));
    define_body(t, body, call);
    emit_state *after = save(t);
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "for (;;) {");
    restore(t, head);
    for (int copy = 0; copy < copies; copy++) {
        leave_from(t, i, end, wanted);
        emit_text(t, "%s(%.*s);", call, STR_ARGS(arguments_of(t)));
        emit_text(t, "%s++;", i);
        move_on(t, head, after);
    }
    emit_close(t);
    emit_close(t);
    emit_close_votes(t, votes);
    join(t, wanted);
}

/* Is the tile, at the head of a walk, poison: written afresh before anything else names it? */
static bool is_written_first(emit *t, const tl_block *body, int tile) {
    for (const tl_statement *s = body->first; s; s = s->next) {
        tl_statement *within = (tl_statement *)(uintptr_t)s;
        int written = find_tile(t, tl_written_name(s));
        if (written == tile && tl_writes_afresh(s, t->tiles.items[tile]->symbol)) return true;
        const tl_block *inner = tl_statement_body(within);
        for (tl_statement *at = inner ? inner->first : within; at;
             at = inner ? tl_next(at, within) : NULL) {
            if (find_tile(t, tl_written_name(at)) == tile) return false;
            for (int k = 0; is_product(at) && k < at->compute.operand_count; k++) {
                if (find_tile(t, at->compute.operands[k].value) == tile) return false;
            }
        }
    }
    return true;
}

/* A walk's body: chooses how inner loops leave their rings, so that it ends as it begins. */
void emit_tracked_walk(emit *t, const tl_block *body) {
    emit_state *before = save(t);
    for (t->exit_shift = 0; t->exit_shift < 2; t->exit_shift++) {
        emit_state *states = copy_of(t, before);
        enter_loop(t, body, states);
        look(t, body, states);
        bool closes = true;
        for (int i = 0; i < t->tiles.count; i++)
            closes &= states[i].newest == before[i].newest || is_written_first(t, body, i);
        if (closes) break;
    }
    if (t->exit_shift == 2) t->exit_shift = 0;
    emit_state *head = copy_of(t, before);
    enter_loop(t, body, head);
    restore(t, head);
    emit_block(t, body);
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        bool moves = tile->generations && tile->state.newest != before[i].newest;
        if (moves && !is_written_first(t, body, i))
            move_ring(t, tile, tile->state.newest, before[i].newest, false);
    }
    join(t, before);
}

/* --- accumulators ----------------------------------------------------------------------------- */

/* A sum that a product begins needs no zeros: the product is told not to add. */
void emit_note_fill(emit *t, const tl_statement *s) {
    int i = find_tile(t, tl_written_name(s));
    if (i < 0) return;
    emit_tile *tile = t->tiles.items[i];
    tile->state.holds = EMIT_EMPTY;
    tile->state.is_touched = false; /* what it held is not added to */
    if (tile->state.is_known) emit_text(t, "ftl_forget(%.*s);", STR_ARGS(tile->name));
    tile->state.is_known = false;
    emit_text(t, "%.*s_holds = false; // no zeros: its first product does not add",
              STR_ARGS(tile->name));
}

static void fill_now(emit *t, emit_tile *tile) {
    const char *name = str_copy_z(t->memory, tile->name);
    if (tile->state.holds == EMIT_MAY_HOLD) emit_open(t, "if (!%s_holds) {", name);
    emit_loop(t, "m16", tile->shape.down);
    emit_loop(t, "n8", tile->shape.across);
    emit_loop(t, "element", 4);
    emit_text(t, "%s[m16][n8][element] = 0.0f;", name);
    for (int i = 0; i < 3; i++) emit_close(t);
    if (tile->state.holds == EMIT_MAY_HOLD) emit_close(t);
    emit_text(t, "%s_holds = true;", name);
    tile->state.holds = EMIT_HOLDS;
    tile->state.is_touched = tile->state.is_known = true;
}

/* Before anything but a product touches the tile. */
void emit_settle(emit *t, const emit_tile *tile, bool is_overwritten) {
    for (int i = 0; tile && i < t->tiles.count; i++) {
        emit_tile *own = t->tiles.items[i];
        if (own != tile || !own->is_lazy || own->state.holds == EMIT_HOLDS) continue;
        if (!is_overwritten) fill_now(t, own);
        else own->state.holds = EMIT_HOLDS;
    }
}

str emit_holds(emit *t, const emit_tile *target, const char *step) {
    if (!target->is_lazy || target->state.holds == EMIT_HOLDS) return STR("true");
    if (target->state.holds == EMIT_EMPTY) return emit_format(t, "%s != 0", step);
    return emit_format(t, "%s != 0 || %.*s_holds", step, STR_ARGS(target->name));
}

/* Which accumulators are filled with 0 and added to by asynchronous products. */
void emit_find_lazy(emit *t) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        int i = find_tile(t, s->kind == TL_COMPUTE ? tl_written_name(s) : NULL);
        if (i < 0) continue;
        emit_tile *tile = t->tiles.items[i];
        bool adds = is_product(s) && s->compute.is_async && s->compute.target_kind == TL_ACCUMULATE;
        if (adds && !tile->generations && tile->type == TL_F32 && !tile->shape.is_lines)
            tile->is_lazy = true;
    }
}
