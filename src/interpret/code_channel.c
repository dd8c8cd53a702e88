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

static bool shape_slots(code *k, const model_tile *of, code_channel *c, scope *s) {
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
    if (stages != of->stages) {
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

/* Each channel has one filler. */
static bool note_filler(code *k, const tl_statement *s) {
    tl_end end = tl_copy_target(s);
    int at = end.space == TL_SHARED && end.symbol ? code_channel_of(k, end.symbol) : -1;
    if (at < 0) return true;
    code_channel *c = &k->channels[at];
    int filler = k->model->tiles[at].role;
    if (!c->filler) c->filler = s;
    if (filler < 0 || k->model->roles[filler].statement == tl_role_of(s)) return true;
    machine_stop(k->m, DIAG_INTERPRET_TWO_FILLERS, s->range, c->symbol->name);
    diag_add(k->m->diags, DIAG_INTERPRET_MADE_HERE, c->filler->range, NULL);
    return false;
}

bool code_too_many_tiles(code *k, const tl_statement *at) {
    machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, at->range, STR("that many tiles"));
    return false;
}

bool code_find_channels(code *k) {
    machine *m = k->m;
    scope s;
    scope_init(&s, m);
    k->channel_of = arena_array(m->memory, int, m->kernel->symbol_count);
    k->channels = arena_array(m->memory, code_channel, k->model->tile_count + 1);
    for (int i = 0; i < m->kernel->symbol_count; i++) {
        const tl_symbol *symbol = m->kernel->symbols[i];
        k->channel_of[i] = -1;
        bool is_channel = symbol->kind == TL_SYMBOL_VARIABLE && symbol->shared.exists &&
                          symbol->shared.allocation && !symbol->shared.part_of;
        if (!is_channel) continue;
        int number = model_find_tile(k->model, symbol, TL_SHARED);
        if (number < 0) return code_too_many_tiles(k, symbol->shared.allocation);
        k->channel_of[i] = number;
        k->channels[number].symbol = symbol;
        if (!shape_slots(k, &k->model->tiles[number], &k->channels[number], &s)) return false;
    }
    for (int i = 0; i < m->statement_count; i++) {
        if (m->statements[i]->kind == TL_COPY && !note_filler(k, m->statements[i])) return false;
    }
    return true;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The cursor by which this executor reads that name; -1: none. */
static int cursor_of(const code_executor *e, int channel, const tl_symbol *name) {
    return channel < 0 ? -1 : model_find_cursor(e->code->model, e->sync->role, channel, name);
}

tile *code_slot(code_executor *e, const tl_expr *name, channels_source *source) {
    code *k = e->code;
    int at = code_channel_of(k, name->symbol), cursor = cursor_of(e, at, name->symbol);
    channels_answer answer = {.fault = CHANNELS_NOT_WAITED};
    if (at >= 0) answer = channels_read(k->sync, e->sync, at, cursor, false);
    if (answer.fault) {
        machine_stop(k->m, DIAG_INTERPRET_READ_EARLY, name->range, name->text);
        return NULL;
    }
    *source = (channels_source){at, answer.generation};
    return &k->channels[at].slots[answer.generation % k->channels[at].stages];
}

/* --- Wait and Release ------------------------------------------------------------------------- */

/* What a Wait or Release came to, reported where it broke a rule. */
static code_outcome synced(code_executor *e, const tl_statement *s, channels_answer answer) {
    machine *m = e->code->m;
    diag_id id;
    switch (answer.fault) {
    case CHANNELS_OK: return CODE_DONE;
    case CHANNELS_BLOCKED: return CODE_BLOCKED;
    case CHANNELS_HELD_ALREADY: id = DIAG_INTERPRET_HELD_ALREADY; break;
    case CHANNELS_NOT_HELD: id = DIAG_INTERPRET_NOT_HELD; break;
    case CHANNELS_READ_IN_FLIGHT: id = DIAG_INTERPRET_STILL_READ; break;
    default: id = DIAG_INTERPRET_NOTHING_TO_WAIT; break;
    }
    machine_stop(m, id, s->range, s->sync.what->text);
    if (answer.flight)
        diag_add(m->diags, DIAG_INTERPRET_MADE_HERE, answer.flight->statement->range, NULL);
    return CODE_FAILED;
}

code_outcome code_wait(code_executor *e, const tl_statement *s) {
    code *k = e->code;
    const tl_symbol *symbol = s->sync.what->symbol;
    if (symbol->kind == TL_SYMBOL_TURN)
        return synced(e, s,
                      channels_wait_turn(k->sync, e->sync, model_find_turn(k->model, symbol)));
    if (s->sync.what->space == TL_SHARED) {
        int at = code_channel_of(k, symbol), cursor = cursor_of(e, at, symbol);
        return cursor < 0 ? CODE_FAILED : synced(e, s, channels_wait(k->sync, e->sync, at, cursor));
    }
    if (s->sync.what->space != TL_REGISTER)
        return synced(e, s, channels_wait_stores(e->sync, symbol));
    const code_register *r = e->registers[symbol->position];
    channels_answer answer = {.fault = CHANNELS_NOTHING_IN_FLIGHT};
    return synced(e, s, r ? channels_wait(k->sync, e->sync, r->number, -1) : answer);
}

code_outcome code_release(code_executor *e, const tl_statement *s) {
    code *k = e->code;
    const tl_symbol *symbol = s->sync.what->symbol;
    if (symbol->kind == TL_SYMBOL_TURN)
        return synced(e, s,
                      channels_release_turn(k->sync, e->sync, model_find_turn(k->model, symbol)));
    bool is_register = s->sync.what->space == TL_REGISTER;
    const code_register *r = is_register ? e->registers[symbol->position] : NULL;
    int at = r ? r->number : is_register ? -1 : code_channel_of(k, symbol);
    int cursor = is_register ? -1 : cursor_of(e, at, symbol);
    channels_answer answer = {.fault = CHANNELS_NOT_HELD};
    return synced(e, s, at < 0 ? answer : channels_release(k->sync, e->sync, at, cursor));
}

/* --- ends ------------------------------------------------------------------------------------- */

static void left_over(code_executor *e, diag_range range, str what, const char *of_what) {
    machine *m = e->code->m;
    if (m->has_failed) return;
    machine_stop(m, DIAG_INTERPRET_LEFT_OVER, range, what,
                 str_format(m->memory, "%s (%.*s)", of_what, STR_ARGS(code_executor_text(e))));
}

void code_check_end(code_executor *e, const tl_statement *s, const char *of_what) {
    const model *all = e->code->model;
    arena *memory = e->code->m->memory;
    const channels_process *sync = e->sync;
    if (sync->flights.count) {
        const channels_flight *f = &sync->flights.items[0];
        left_over(e, f->statement->range,
                  f->tile < 0 ? STR("this store is not waited for")
                              : STR("this product is not waited for"),
                  of_what);
    }
    for (int c = 0; c < all->cursor_count; c++) {
        const model_cursor *cursor = &all->cursors[c];
        if (cursor->role != sync->role || sync->waits[c] <= sync->releases[c]) continue;
        left_over(e, s->range,
                  str_format(memory, "'%.*s_shared' is still held", STR_ARGS(cursor->symbol->name)),
                  of_what);
    }
    for (int i = 0; i < all->turn_count; i++) {
        if (!sync->has_turn[i]) continue;
        left_over(e, s->range,
                  str_format(memory, "the turn '%.*s' is still held", STR_ARGS(all->turns[i].name)),
                  of_what);
    }
    for (int t = 0; t < all->tile_count; t++) {
        bool is_open = sync->rings[t].opened != sync->rings[t].released;
        if (!channels_is_ring(&all->tiles[t]) || !is_open) continue;
        left_over(e, s->range,
                  str_format(memory, "a stage of '%.*s' is not released",
                             STR_ARGS(all->tiles[t].symbol->name)),
                  of_what);
    }
}

void code_check_block(code *k) {
    const model *all = k->model;
    for (int t = 0; t < all->tile_count && !k->m->has_failed; t++) {
        const model_tile *channel = &all->tiles[t];
        int64_t begun = channel->space == TL_SHARED ? channels_begun(k->sync, t) : 0;
        if (begun && !channel->cursor_count) {
            machine_stop(k->m, DIAG_INTERPRET_LEFT_OVER, k->channels[t].filler->range,
                         str_format(k->m->memory, "'%.*s_shared' is never waited for",
                                    STR_ARGS(channel->symbol->name)),
                         STR("the block"));
            return;
        }
        for (int n = 0; n < channel->cursor_count; n++) {
            const model_cursor *cursor = &all->cursors[channel->cursors[n]];
            const channels_process *reader = &k->sync->processes[k->sync->first[cursor->role]];
            if (reader->waits[channel->cursors[n]] >= begun) continue;
            machine_stop(k->m, DIAG_INTERPRET_LEFT_OVER, k->channels[t].filler->range,
                         str_format(k->m->memory,
                                    "a generation of '%.*s_shared' is never waited for",
                                    STR_ARGS(cursor->symbol->name)),
                         STR("the block"));
            return;
        }
    }
}
