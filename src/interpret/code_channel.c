/* Shared tiles as channels, turns, and what is in flight (language study 5.9 and 6). */
#include "interpret/code.h"

/* --- finding them ----------------------------------------------------------------------------- */

int code_channel_of(const code *k, const tl_symbol *symbol) {
    const tl_symbol *root = symbol->variable ? symbol->variable : symbol;
    for (int depth = 0; root->shared.part_of && depth < TL_NESTING_MAX; depth++) {
        root = root->shared.part_of;
    }
    return k->channel_of[root->position];
}

static bool shape_slots(code *k, code_channel *c, scope *s) {
    const tl_tile *known = &c->symbol->shared;
    const tl_exprs *shape = &known->allocation->allocate.shape;
    /* A tile that nothing is ever copied to has no axes; its Wait will say so. */
    bool fits = (known->axis_count == shape->count || !known->axis_count) &&
                shape->count <= MACHINE_AXES_MAX;
    if (!fits) {
        machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, known->allocation->range,
                     STR("tiles of more than two axes"));
        return false;
    }
    int64_t count[MACHINE_AXES_MAX], stages = 1;
    str index[MACHINE_AXES_MAX];
    for (int i = 0; i < shape->count; i++) {
        if (!scope_integer(s, shape->items[i], &count[i])) return false;
        index[i] = i < known->axis_count ? known->axes[i].index : (str){NULL, 0};
    }
    const tl_expr *said = known->allocation->allocate.stages;
    if (said && !scope_integer(s, said, &stages)) return false;
    if (stages < 1 || stages > CODE_STAGES_MAX) {
        machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, known->allocation->range,
                     STR("that many stages"));
        return false;
    }
    c->stages = (int)stages;
    c->slots = arena_array(k->m->memory, tile, c->stages);
    for (int i = 0; i < c->stages; i++) {
        c->slots[i].format = k->m->is_exact ? CONVERT_F64 : interpret_format(known->type);
        tile_shape(k->m, &c->slots[i], shape->count, count, index);
    }
    return !k->m->has_failed;
}

static int role_number(const code *k, const tl_statement *s) {
    const tl_statement *role = tl_role_of(s);
    for (int i = 0; i < k->roles.count; i++) {
        if (k->roles.items[i].statement == role) return i;
    }
    return -1;
}

static bool add_filler(code *k, const tl_statement *s) {
    tl_end end = tl_copy_target(s);
    int at = end.space == TL_SHARED && end.symbol ? code_channel_of(k, end.symbol) : -1;
    if (at < 0) return true;
    code_channel *c = &k->channels.items[at];
    int role = role_number(k, s);
    if (c->filler_role >= 0 && c->filler_role != role) {
        machine_stop(k->m, DIAG_INTERPRET_TWO_FILLERS, s->range, c->symbol->name);
        diag_add(k->m->diags, DIAG_INTERPRET_MADE_HERE, c->filler->range, NULL);
        return false;
    }
    if (c->filler_role >= 0 || role < 0) return true;
    c->filler_role = role;
    c->filler = s;
    c->filled = arena_array(k->m->memory, int64_t, k->roles.items[role].executor_count);
    return true;
}

static void add_cursor(code *k, const tl_statement *s) {
    const tl_expr *what = s->sync.what;
    bool is_shared =
        what->symbol && what->symbol->kind == TL_SYMBOL_VARIABLE && what->space == TL_SHARED;
    int at = is_shared ? code_channel_of(k, what->symbol) : -1;
    int role = role_number(k, s);
    if (at < 0 || role < 0) return;
    code_channel *c = &k->channels.items[at];
    for (int i = 0; i < c->cursors.count; i++) {
        if (c->cursors.items[i].role == role && c->cursors.items[i].name == what->symbol) return;
    }
    int count = k->roles.items[role].executor_count;
    code_cursor cursor = {.role = role, .name = what->symbol};
    cursor.waits = arena_array(k->m->memory, int64_t, count);
    cursor.releases = arena_array(k->m->memory, int64_t, count);
    list_push(k->m->memory, &c->cursors, cursor);
}

static void add_partner(code *k, int a, int b, bool is_second) {
    code_channel *c = &k->channels.items[a];
    if (c->partner_count == CODE_PARTNERS_MAX) return;
    c->partners[c->partner_count] = b;
    c->is_second[c->partner_count++] = is_second;
}

static void find_partners(code *k) {
    for (int i = 0; i < k->channels.count; i++) {
        const tl_statement *s = k->channels.items[i].symbol->shared.allocation;
        const tl_symbol *other = tl_in_place_of(k->m->kernel, s);
        int partner = other ? code_channel_of(k, other) : -1;
        if (partner < 0 || partner == i) continue;
        add_partner(k, i, partner, true);
        add_partner(k, partner, i, false);
    }
}

bool code_find_channels(code *k) {
    machine *m = k->m;
    scope s;
    scope_init(&s, m);
    k->channel_of = arena_array(m->memory, int, m->kernel->symbol_count);
    for (int i = 0; i < m->kernel->symbol_count; i++) {
        tl_symbol *symbol = m->kernel->symbols[i];
        k->channel_of[i] = -1;
        bool is_channel = symbol->kind == TL_SYMBOL_VARIABLE && symbol->shared.exists &&
                          symbol->shared.allocation && !symbol->shared.part_of;
        if (!is_channel) continue;
        k->channel_of[i] = k->channels.count;
        code_channel c = {.symbol = symbol, .filler_role = -1};
        if (!shape_slots(k, &c, &s)) return false;
        list_push(m->memory, &k->channels, c);
    }
    for (int i = 0; i < m->statement_count; i++) {
        const tl_statement *at = m->statements[i];
        if (at->kind == TL_COPY && !add_filler(k, at)) return false;
        if (at->kind == TL_WAIT) add_cursor(k, at);
    }
    find_partners(k);
    return true;
}

void code_reset_channels(code *k) {
    for (int i = 0; i < k->channels.count; i++) {
        code_channel *c = &k->channels.items[i];
        int fillers = c->filler_role >= 0 ? k->roles.items[c->filler_role].executor_count : 0;
        for (int e = 0; e < fillers; e++) c->filled[e] = 0;
        for (int n = 0; n < c->cursors.count; n++) {
            code_cursor *cursor = &c->cursors.items[n];
            int readers = k->roles.items[cursor->role].executor_count;
            for (int e = 0; e < readers; e++) cursor->waits[e] = cursor->releases[e] = 0;
        }
    }
}

/* --- counting --------------------------------------------------------------------------------- */

static int64_t least_filled(const code *k, const code_channel *c) {
    if (c->filler_role < 0) return 0;
    int64_t least = INT64_MAX;
    for (int e = 0; e < k->roles.items[c->filler_role].executor_count; e++) {
        if (c->filled[e] < least) least = c->filled[e];
    }
    return least;
}

static int64_t most_filled(const code *k, const code_channel *c) {
    int64_t most = 0;
    for (int e = 0; c->filler_role >= 0 && e < k->roles.items[c->filler_role].executor_count; e++) {
        if (c->filled[e] > most) most = c->filled[e];
    }
    return most;
}

/* Generations that every reader has released; all that were begun when there is no reader. */
static int64_t least_released(const code *k, const code_channel *c) {
    int64_t least = c->cursors.count ? INT64_MAX : most_filled(k, c);
    for (int n = 0; n < c->cursors.count; n++) {
        const code_cursor *cursor = &c->cursors.items[n];
        for (int e = 0; e < k->roles.items[cursor->role].executor_count; e++) {
            if (cursor->releases[e] < least) least = cursor->releases[e];
        }
    }
    return least;
}

/* One role that fills both partners takes them in the order of its text; two roles, in strict
 * turns. */
static bool partner_is_free(const code *k, const code_channel *c, int which, int64_t generation) {
    const code_channel *p = &k->channels.items[c->partners[which]];
    int64_t released = least_released(k, p);
    if (p->filler_role == c->filler_role) return released >= most_filled(k, p);
    int64_t wanted = c->is_second[which] ? generation + 1 : generation;
    return least_filled(k, p) >= wanted && released >= wanted;
}

bool code_may_fill(const code *k, const code_executor *e, int channel) {
    const code_channel *c = &k->channels.items[channel];
    int64_t generation = c->filled[e->number];
    if (c->cursors.count && generation - least_released(k, c) >= c->stages) return false;
    for (int i = 0; i < c->partner_count; i++) {
        if (!partner_is_free(k, c, i, generation)) return false;
    }
    return true;
}

/* The cursor by which this executor reads that name, or NULL. */
static code_cursor *code_cursor_of(code *k, const code_executor *e, const tl_symbol *name) {
    int at = code_channel_of(k, name);
    if (at < 0) return NULL;
    code_channel *c = &k->channels.items[at];
    code_cursor *of_base = NULL;
    for (int i = 0; i < c->cursors.count; i++) {
        code_cursor *cursor = &c->cursors.items[i];
        if (cursor->role != e->role) continue;
        if (cursor->name == name) return cursor;
        if (cursor->name == c->symbol) of_base = cursor;
    }
    return of_base;
}

tile *code_slot(code_executor *e, const tl_expr *name, int64_t *generation) {
    code *k = e->code;
    code_cursor *cursor = code_cursor_of(k, e, name->symbol);
    bool is_held = cursor && cursor->waits[e->number] > cursor->releases[e->number];
    if (!is_held) {
        machine_stop(k->m, DIAG_INTERPRET_READ_EARLY, name->range, name->text);
        return NULL;
    }
    code_channel *c = &k->channels.items[code_channel_of(k, name->symbol)];
    *generation = cursor->waits[e->number] - 1;
    return &c->slots[*generation % c->stages];
}

/* --- Wait ------------------------------------------------------------------------------------- */

static code_outcome wait_shared(code_executor *e, const tl_statement *s) {
    code *k = e->code;
    code_cursor *cursor = code_cursor_of(k, e, s->sync.what->symbol);
    if (!cursor) return CODE_FAILED;
    const code_channel *c = &k->channels.items[code_channel_of(k, s->sync.what->symbol)];
    if (least_filled(k, c) <= cursor->waits[e->number]) return CODE_BLOCKED;
    cursor->waits[e->number]++;
    return CODE_DONE;
}

static void land(code_executor *e, int count) {
    /* Products land in order; stores are their own queue and stay. */
    int kept = 0;
    for (int i = 0; i < e->flights.count; i++) {
        bool has_landed = i < count && !e->flights.items[i].is_store;
        if (!has_landed) e->flights.items[kept++] = e->flights.items[i];
    }
    e->flights.count = kept;
}

static code_outcome nothing_to_wait(code_executor *e, const tl_statement *s) {
    machine_stop(e->code->m, DIAG_INTERPRET_NOTHING_TO_WAIT, s->range, s->sync.what->text);
    return CODE_FAILED;
}

static code_outcome wait_register(code_executor *e, const tl_statement *s) {
    code_register *r = e->registers[s->sync.what->symbol->position];
    if (!r) return nothing_to_wait(e, s);
    bool is_ring = r->stages > 1;
    int last = -1;
    for (int i = 0; i < e->flights.count; i++) {
        const code_flight *f = &e->flights.items[i];
        bool is_it =
            !f->is_store && f->target == r->symbol && (!is_ring || f->generation == r->waited);
        if (is_it) last = i;
    }
    if (is_ring ? r->opened <= r->waited : last < 0) return nothing_to_wait(e, s);
    if (is_ring) r->waited++;
    land(e, last + 1);
    return CODE_DONE;
}

static code_outcome wait_global(code_executor *e, const tl_statement *s) {
    int kept = 0;
    bool is_found = false;
    for (int i = 0; i < e->flights.count; i++) {
        const code_flight *f = &e->flights.items[i];
        bool is_it = f->is_store && f->target == s->sync.what->symbol;
        is_found |= is_it;
        if (!is_it) e->flights.items[kept++] = *f;
    }
    e->flights.count = kept;
    return is_found ? CODE_DONE : nothing_to_wait(e, s);
}

code_outcome code_wait(code_executor *e, const tl_statement *s) {
    const tl_symbol *symbol = s->sync.what->symbol;
    if (symbol->kind == TL_SYMBOL_TURN) {
        if (e->holds_turn[symbol->position]) {
            machine_stop(e->code->m, DIAG_INTERPRET_HELD_ALREADY, s->range, s->sync.what->text);
            return CODE_FAILED;
        }
        if (e->code->turn_holders[symbol->position] != e->number) return CODE_BLOCKED;
        e->holds_turn[symbol->position] = true;
        return CODE_DONE;
    }
    switch (s->sync.what->space) {
    case TL_SHARED: return wait_shared(e, s);
    case TL_REGISTER: return wait_register(e, s);
    default: return wait_global(e, s);
    }
}

/* --- Release ---------------------------------------------------------------------------------- */

static code_outcome not_held(code_executor *e, const tl_statement *s) {
    machine_stop(e->code->m, DIAG_INTERPRET_NOT_HELD, s->range, s->sync.what->text);
    return CODE_FAILED;
}

static code_outcome still_read(code_executor *e, const tl_statement *s, const tl_statement *by) {
    machine_stop(e->code->m, DIAG_INTERPRET_STILL_READ, s->range, s->sync.what->text);
    diag_add(e->code->m->diags, DIAG_INTERPRET_MADE_HERE, by->range, NULL);
    return CODE_FAILED;
}

static const tl_statement *reader_in_flight(const code_executor *e, const tl_symbol *symbol,
                                            int channel, int64_t generation) {
    for (int i = 0; i < e->flights.count; i++) {
        const code_flight *f = &e->flights.items[i];
        for (int o = 0; o < f->operand_count; o++) {
            const code_operand *operand = &f->operands[o];
            bool is_same = channel >= 0 ? operand->channel == channel
                                        : operand->channel < 0 && operand->symbol == symbol;
            if (is_same && operand->generation == generation) return f->statement;
        }
    }
    return NULL;
}

static code_outcome release_ring(code_executor *e, const tl_statement *s) {
    code_register *r = e->registers[s->sync.what->symbol->position];
    if (!r || r->stages < 2 || r->waited <= r->released) return not_held(e, s);
    const tl_statement *by = reader_in_flight(e, r->symbol, -1, r->released);
    if (by) return still_read(e, s, by);
    r->released++;
    return CODE_DONE;
}

code_outcome code_release(code_executor *e, const tl_statement *s) {
    code *k = e->code;
    const tl_symbol *symbol = s->sync.what->symbol;
    if (symbol->kind == TL_SYMBOL_TURN) {
        if (!e->holds_turn[symbol->position]) return not_held(e, s);
        e->holds_turn[symbol->position] = false;
        int *holder = &k->turn_holders[symbol->position];
        *holder = (*holder + 1) % k->roles.items[e->role].executor_count;
        return CODE_DONE;
    }
    if (s->sync.what->space == TL_REGISTER) return release_ring(e, s);
    code_cursor *cursor = code_cursor_of(k, e, symbol);
    if (!cursor || cursor->waits[e->number] <= cursor->releases[e->number]) return not_held(e, s);
    int64_t generation = cursor->releases[e->number];
    const tl_statement *by = reader_in_flight(e, symbol, code_channel_of(k, symbol), generation);
    if (by) return still_read(e, s, by);
    cursor->releases[e->number]++;
    return CODE_DONE;
}

/* --- ends ------------------------------------------------------------------------------------- */

static void left_over(code_executor *e, diag_range range, str what, const char *of_what) {
    machine *m = e->code->m;
    if (m->has_failed) return;
    machine_stop(m, DIAG_INTERPRET_LEFT_OVER, range, what,
                 str_format(m->memory, "%s (%.*s)", of_what, STR_ARGS(code_executor_text(e))));
}

void code_check_end(code_executor *e, const tl_statement *s, const char *of_what) {
    code *k = e->code;
    machine *m = k->m;
    if (e->flights.count) {
        const code_flight *f = &e->flights.items[0];
        left_over(e, f->statement->range,
                  f->is_store ? STR("this store is not waited for")
                              : STR("this product is not waited for"),
                  of_what);
    }
    for (int i = 0; i < k->channels.count; i++) {
        const code_channel *c = &k->channels.items[i];
        for (int n = 0; n < c->cursors.count; n++) {
            const code_cursor *cursor = &c->cursors.items[n];
            bool is_held =
                cursor->role == e->role && cursor->waits[e->number] > cursor->releases[e->number];
            if (!is_held) continue;
            left_over(
                e, s->range,
                str_format(m->memory, "'%.*s_shared' is still held", STR_ARGS(cursor->name->name)),
                of_what);
        }
    }
    for (int i = 0; i < m->kernel->symbol_count; i++) {
        const code_register *r = e->registers[i];
        if (e->holds_turn[i]) {
            left_over(e, s->range,
                      str_format(m->memory, "the turn '%.*s' is still held",
                                 STR_ARGS(m->kernel->symbols[i]->name)),
                      of_what);
        }
        if (r && r->stages > 1 && !r->is_value_ring && r->opened != r->released) {
            left_over(e, s->range,
                      str_format(m->memory, "a stage of '%.*s' is not released",
                                 STR_ARGS(r->symbol->name)),
                      of_what);
        }
    }
}

void code_check_block(code *k) {
    for (int i = 0; i < k->channels.count && !k->m->has_failed; i++) {
        const code_channel *c = &k->channels.items[i];
        if (c->filler_role < 0) continue;
        if (!c->cursors.count && most_filled(k, c)) {
            machine_stop(k->m, DIAG_INTERPRET_LEFT_OVER, c->filler->range,
                         str_format(k->m->memory, "'%.*s_shared' is never waited for",
                                    STR_ARGS(c->symbol->name)),
                         STR("the block"));
            return;
        }
        for (int n = 0; n < c->cursors.count; n++) {
            const code_cursor *cursor = &c->cursors.items[n];
            if (cursor->waits[0] >= most_filled(k, c)) continue;
            machine_stop(k->m, DIAG_INTERPRET_LEFT_OVER, c->filler->range,
                         str_format(k->m->memory,
                                    "a generation of '%.*s_shared' is never waited for",
                                    STR_ARGS(cursor->name->name)),
                         STR("the block"));
            return;
        }
    }
}
