/* TL Code: executors over the steps of their roles, the scheduler, blocks and tiles. */
#include "interpret/code.h"

/* --- executors -------------------------------------------------------------------------------- */

/* The machine of the channels, with a process for each executor. */
static bool make_sync(code *k) {
    int roles = 0, executors = 0;
    for (const tl_statement *s = k->m->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_ROLE) continue;
        bool fits = s->role.executors >= 1 && s->role.executors <= CODE_EXECUTORS_MAX - executors;
        if (!fits || roles++ == MODEL_ROLES_MAX) {
            machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, s->range,
                         fits ? STR("that many roles") : STR("that many executors"));
            return false;
        }
        executors += s->role.executors;
    }
    k->model = model_build(k->m->memory, k->m->kernel);
    k->sync = channels_new(k->m->memory, k->model, true);
    return true;
}

static bool add_executor(code *k, channels_process *sync) {
    machine *m = k->m;
    int symbols = m->kernel->symbol_count;
    code_executor *e = arena_new(m->memory, code_executor);
    *e = (code_executor){.code = k, .role = &k->model->roles[sync->role], .sync = sync};
    scope_init(&e->scope, m);
    scope_init(&e->following, m);
    e->scope.following = &e->following;
    e->scope.owner = e;
    e->scope.tile_of = code_tile;
    e->ends = arena_array(m->memory, int64_t, e->role->step_count);
    e->registers = arena_array(m->memory, code_register *, symbols);
    e->parts = arena_array(m->memory, tile *, symbols);
    list_push(m->memory, &k->executors, e);
    return code_make_registers(e);
}

static bool add_executors(code *k) {
    for (int i = 0; i < k->sync->process_count; i++) {
        if (!add_executor(k, &k->sync->processes[i])) return false;
    }
    return true;
}

/* --- tiles of the grid ------------------------------------------------------------------------ */

/* The kernel's own lets, once per tile. Those that need more than the tile are left open. */
static void set_lets(scope *own) {
    const tl_statement *first = own->machine->kernel->body.first;
    for (const tl_statement *s = first; s; s = s->next) {
        if (s->kind != TL_LET) continue;
        for (int i = 0; i < s->let.count; i++) {
            const tl_symbol *symbol = s->let.items[i].symbol;
            if (symbol->kind == TL_SYMBOL_CONSTANT) own->has_value[symbol->position] = false;
        }
    }
    for (const tl_statement *s = first; s; s = s->next) {
        if (s->kind != TL_LET) continue;
        for (int i = 0; i < s->let.count; i++) {
            const tl_binding *binding = &s->let.items[i];
            tl_value value;
            bool is_constant = binding->symbol->kind == TL_SYMBOL_CONSTANT;
            if (is_constant && scope_evaluate(own, binding->value, &value)) {
                scope_set_value(own, binding->symbol, value);
            }
        }
    }
}

static int64_t tile_count(const code *k) {
    return k->m->request->tiles ? k->m->request->tile_count : k->m->tiles_total;
}

static int64_t tile_number(const code *k, int64_t position) {
    return k->m->request->tiles ? k->m->request->tiles[position] : position;
}

static bool take_tile(code_executor *e, const tl_statement *s) {
    code *k = e->code;
    if (e->next_tile >= tile_count(k)) return false;
    int64_t number = tile_number(k, e->next_tile);
    e->scope.is_first_tile = e->next_tile == k->block;
    e->next_tile += k->block_step;
    grid_set(&k->grid, &e->scope, number);
    set_lets(&e->scope);
    e->scope.has_more_tiles = e->next_tile < tile_count(k);
    if (e->scope.has_more_tiles) {
        grid_set(&k->grid, &e->following, tile_number(k, e->next_tile));
        set_lets(&e->following);
    }
    if (s->kind == TL_FOR) scope_set(&e->scope, s->loop.symbol, number);
    if (e->sync == k->sync->processes) k->m->tiles_run++;
    return true;
}

/* --- one executor ----------------------------------------------------------------------------- */

static code_outcome enter_for(code_executor *e, const model_step *step) {
    const tl_for *loop = &step->statement->loop;
    int64_t from;
    if (!scope_integer(&e->scope, loop->from, &from)) return CODE_FAILED;
    if (!scope_integer(&e->scope, loop->to, &e->ends[e->at])) return CODE_FAILED;
    scope_set(&e->scope, loop->symbol, from);
    e->at = from < e->ends[e->at] ? e->at + 1 : step->other + 1;
    return CODE_DONE;
}

static code_outcome repeat_for(code_executor *e, const model_step *step) {
    const tl_symbol *index = step->statement->loop.symbol;
    int64_t i = e->scope.values[index->position].integer + 1;
    scope_set(&e->scope, index, i);
    e->at = i < e->ends[step->other] ? step->other + 1 : e->at + 1;
    return CODE_DONE;
}

static code_outcome enter_if(code_executor *e, const model_step *step) {
    tl_value value;
    e->scope.at = step->statement;
    if (!scope_value(&e->scope, step->statement->branch.condition, &value)) return CODE_FAILED;
    bool holds = value.is_real ? value.real != 0 : value.integer != 0;
    e->at = holds ? e->at + 1 : step->other + 1;
    return CODE_DONE;
}

static code_outcome step(code_executor *e) {
    const model_step *now = &e->role->steps[e->at];
    if (!machine_step(e->code->m, now->statement)) return CODE_FAILED;
    code_outcome outcome = CODE_DONE;
    switch (now->kind) {
    case STEP_FOR: outcome = enter_for(e, now); break;
    case STEP_END_FOR: outcome = repeat_for(e, now); break;
    case STEP_IF: outcome = enter_if(e, now); break;
    case STEP_END_IF: e->at++; break;
    case STEP_TILES: e->at = take_tile(e, now->statement) ? e->at + 1 : now->other + 1; break;
    case STEP_END_TILES:
        if (model_is_whole_body(now)) code_check_end(e, now->statement, "a tile");
        e->at = now->other;
        break;
    case STEP_END:
        code_check_end(e, now->statement, "the role");
        e->is_done = true;
        break;
    default:
        outcome = code_act(e, now->statement);
        if (outcome == CODE_DONE) e->at++;
    }
    e->code->m->scratch_used = 0;
    return e->code->m->has_failed ? CODE_FAILED : outcome;
}

str code_executor_text(const code_executor *e) {
    return str_format(e->code->m->memory, "%s %d of role '%.*s'",
                      e->role->statement->role.is_warpgroups ? "warpgroup" : "warp",
                      e->sync->executor, STR_ARGS(e->role->name));
}

static void report_deadlock(code *k) {
    bool is_first = true;
    for (int i = 0; i < k->executors.count; i++) {
        const code_executor *e = k->executors.items[i];
        if (e->is_done) continue;
        const tl_statement *s = e->role->steps[e->at].statement;
        if (is_first) machine_stop(k->m, DIAG_INTERPRET_DEADLOCK, s->range, code_executor_text(e));
        else diag_report(k->m->diags, DIAG_INTERPRET_STANDS_HERE, s->range, code_executor_text(e));
        is_first = false;
    }
}

/* --- one block -------------------------------------------------------------------------------- */

static void reset_executor(code_executor *e) {
    e->at = 0;
    e->is_done = false;
    e->next_tile = e->code->block;
    for (int i = 0; i < e->code->m->kernel->symbol_count; i++) {
        code_register *r = e->registers[i];
        for (int n = 0; r && n < r->stages; n++) r->slots[n].is_defined = false;
    }
}

/* Round robin: each executor runs until it has to wait. Channels have one filler and blocking ends,
 * so every order gives the same result.
 */
static bool run_block(code *k) {
    channels_reset(k->sync);
    for (int i = 0; i < k->executors.count; i++) reset_executor(k->executors.items[i]);
    for (;;) {
        bool has_moved = false, is_done = true;
        for (int i = 0; i < k->executors.count; i++) {
            code_executor *e = k->executors.items[i];
            while (!e->is_done) {
                code_outcome outcome = step(e);
                if (outcome == CODE_FAILED) return false;
                if (outcome == CODE_BLOCKED) break;
                has_moved = true;
            }
            is_done &= e->is_done;
        }
        if (is_done) break;
        if (has_moved) continue;
        report_deadlock(k);
        return false;
    }
    code_check_block(k);
    return !k->m->has_failed;
}

static bool measure_grid(code *k) {
    machine *m = k->m;
    scope s;
    scope_init(&s, m);
    k->is_plain = true;
    for (const tl_statement *g = m->kernel->body.first; g; g = g->next) {
        if (g->kind != TL_GRID) continue;
        grid_add_all(&k->grid, m->kernel, g);
        k->is_plain = g->grid.kind == TL_GRID_PLAIN;
    }
    bool is_known = grid_measure(&k->grid, m, &s);
    m->tiles_total = k->grid.total;
    return is_known;
}

/* By turns two that walk many tiles each, and so many that their first tiles are of most indices of
 * the grid while some still walk another.
 */
static int64_t resident_blocks(int64_t tiles) {
    bool is_many = tiles / 2 % 2 != 0 && tiles > 2;
    return is_many ? tiles - tiles / 3 : 2;
}

bool code_run(machine *m) {
    code *k = arena_new(m->memory, code);
    k->m = m;
    if (!measure_grid(k) || !machine_tiles_exist(m) || !make_sync(k) || !code_find_channels(k) ||
        !add_executors(k))
        return false;
    int64_t tiles = tile_count(k), resident = m->request->resident_blocks;
    if (resident <= 0) resident = resident_blocks(tiles);
    int64_t blocks = k->is_plain || tiles < resident ? tiles : resident;
    for (int64_t b = 0; b < blocks; b++) {
        k->block = b;
        k->block_step = blocks;
        if (!run_block(k)) return false;
    }
    return true;
}
