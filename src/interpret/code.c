/* TL Code: instructions, the scheduler, blocks and tiles. */
#include "interpret/code.h"

/* --- instructions ----------------------------------------------------------------------------- */

static int emit(code *k, code_role *r, code_kind kind, const tl_statement *s) {
    code_instruction one = {kind, s, 0};
    list_push(k->m->memory, &r->code, one);
    return r->code.count - 1;
}

static void flatten(code *k, code_role *r, const tl_block *block);

static void flatten_loop(code *k, code_role *r, const tl_statement *s) {
    bool is_walk = s->loop.is_grid_walk;
    int head = emit(k, r, is_walk ? CODE_TILE : CODE_FOR, s);
    flatten(k, r, &s->loop.body);
    int next = emit(k, r, is_walk ? CODE_TILE_NEXT : CODE_NEXT, s);
    r->code.items[next].jump = head;
    r->code.items[head].jump = next + 1;
    r->has_own_walk |= is_walk;
}

static void flatten(code *k, code_role *r, const tl_block *block) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        if (s->kind == TL_FOR) {
            flatten_loop(k, r, s);
        } else if (s->kind == TL_IF) {
            int head = emit(k, r, CODE_IF, s);
            flatten(k, r, &s->branch.body);
            r->code.items[head].jump = r->code.count;
        } else {
            emit(k, r, CODE_ACT, s);
        }
    }
}

static bool has_walk(const tl_statement *role) {
    for (tl_statement *s = role->role.body.first; s; s = tl_next(s, role)) {
        if (s->kind == TL_FOR && s->loop.is_grid_walk) return true;
    }
    return false;
}

/* A role without a walk of its own has it around its whole body. */
static void add_role(code *k, const tl_statement *s) {
    code_role r = {.statement = s};
    bool is_wrapped = !has_walk(s);
    int head = is_wrapped ? emit(k, &r, CODE_TILE, s) : 0;
    flatten(k, &r, &s->role.body);
    if (is_wrapped) {
        int next = emit(k, &r, CODE_TILE_NEXT, s);
        r.code.items[next].jump = head;
        r.code.items[head].jump = next + 1;
    }
    emit(k, &r, CODE_END, s);
    r.first_executor = k->executors.count;
    r.executor_count = s->role.executors;
    list_push(k->m->memory, &k->roles, r);
}

/* The machine of the channels, with a process for each executor. */
static bool make_sync(code *k) {
    int executors = 0;
    for (int r = 0; r < k->roles.count; r++) {
        const code_role *role = &k->roles.items[r];
        bool fits =
            role->executor_count >= 1 && role->executor_count <= CODE_EXECUTORS_MAX - executors;
        if (!fits || r == MODEL_ROLES_MAX) {
            machine_stop(k->m, DIAG_INTERPRET_UNSUPPORTED, role->statement->range,
                         fits ? STR("that many roles") : STR("that many executors"));
            return false;
        }
        executors += role->executor_count;
    }
    k->model = model_build(k->m->memory, k->m->kernel);
    k->sync = channels_new(k->m->memory, k->model, true);
    return true;
}

static bool add_executors(code *k) {
    machine *m = k->m;
    int count = m->kernel->symbol_count;
    for (int r = 0; r < k->roles.count; r++) {
        code_role *role = &k->roles.items[r];
        role->first_executor = k->executors.count;
        for (int n = 0; n < role->executor_count; n++) {
            code_executor *e = arena_new(m->memory, code_executor);
            *e = (code_executor){.code = k, .role = r, .number = n};
            scope_init(&e->scope, m);
            scope_init(&e->following, m);
            e->scope.following = &e->following;
            e->scope.owner = e;
            e->scope.tile_of = code_tile;
            e->ends = arena_array(m->memory, int64_t, role->code.count);
            e->registers = arena_array(m->memory, code_register *, count);
            e->parts = arena_array(m->memory, tile *, count);
            e->sync = &k->sync->processes[k->sync->first[r] + n];
            list_push(m->memory, &k->executors, e);
            if (!code_make_registers(e)) return false;
        }
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
    if (e->role == 0 && e->number == 0) k->m->tiles_run++;
    return true;
}

/* --- one executor ----------------------------------------------------------------------------- */

static code_outcome step_for(code_executor *e, const code_instruction *now) {
    int64_t from;
    if (!scope_integer(&e->scope, now->statement->loop.from, &from)) return CODE_FAILED;
    if (!scope_integer(&e->scope, now->statement->loop.to, &e->ends[e->at])) return CODE_FAILED;
    scope_set(&e->scope, now->statement->loop.symbol, from);
    e->at = from < e->ends[e->at] ? e->at + 1 : now->jump;
    return CODE_DONE;
}

static code_outcome step_next(code_executor *e, const code_instruction *now) {
    const tl_symbol *index = now->statement->loop.symbol;
    int64_t i = e->scope.values[index->position].integer + 1;
    scope_set(&e->scope, index, i);
    int head = now->jump;
    e->at = i < e->ends[head] ? head + 1 : e->at + 1;
    return CODE_DONE;
}

static code_outcome step_if(code_executor *e, const code_instruction *now) {
    tl_value value;
    e->scope.at = now->statement;
    if (!scope_value(&e->scope, now->statement->branch.condition, &value)) return CODE_FAILED;
    bool holds = value.is_real ? value.real != 0 : value.integer != 0;
    e->at = holds ? e->at + 1 : now->jump;
    return CODE_DONE;
}

static code_outcome step(code_executor *e) {
    code_role *role = &e->code->roles.items[e->role];
    const code_instruction *now = &role->code.items[e->at];
    if (!machine_step(e->code->m, now->statement)) return CODE_FAILED;
    code_outcome outcome = CODE_DONE;
    switch (now->kind) {
    case CODE_ACT:
        outcome = code_act(e, now->statement);
        if (outcome == CODE_DONE) e->at++;
        break;
    case CODE_FOR: outcome = step_for(e, now); break;
    case CODE_NEXT: outcome = step_next(e, now); break;
    case CODE_IF: outcome = step_if(e, now); break;
    case CODE_TILE: e->at = take_tile(e, now->statement) ? e->at + 1 : now->jump; break;
    case CODE_TILE_NEXT:
        if (!role->has_own_walk) code_check_end(e, now->statement, "a tile");
        e->at = now->jump;
        break;
    case CODE_END:
        code_check_end(e, now->statement, "the role");
        e->is_done = true;
        break;
    }
    e->code->m->scratch_used = 0;
    return e->code->m->has_failed ? CODE_FAILED : outcome;
}

str code_executor_text(const code_executor *e) {
    const code_role *role = &e->code->roles.items[e->role];
    return str_format(e->code->m->memory, "%s %d of role '%.*s'",
                      role->statement->role.is_warpgroups ? "warpgroup" : "warp", e->number,
                      STR_ARGS(role->statement->role.name));
}

static void report_deadlock(code *k) {
    bool is_first = true;
    for (int i = 0; i < k->executors.count; i++) {
        const code_executor *e = k->executors.items[i];
        if (e->is_done) continue;
        const tl_statement *s = k->roles.items[e->role].code.items[e->at].statement;
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

bool code_run(machine *m) {
    code *k = arena_new(m->memory, code);
    k->m = m;
    for (tl_statement *s = m->kernel->body.first; s; s = s->next) {
        if (s->kind == TL_ROLE) add_role(k, s);
    }
    if (!measure_grid(k) || !machine_tiles_exist(m) || !make_sync(k) || !code_find_channels(k) ||
        !add_executors(k))
        return false;
    int64_t tiles = tile_count(k);
    int resident = m->request->resident_blocks > 0 ? m->request->resident_blocks : 2;
    int64_t blocks = k->is_plain || tiles < resident ? tiles : resident;
    for (int64_t b = 0; b < blocks; b++) {
        k->block = b;
        k->block_step = blocks;
        if (!run_block(k)) return false;
    }
    return true;
}
