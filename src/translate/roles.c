/* Roles: which warps run them, with how many registers; the walk over tiles; turns. */
#include "translate/emit.h"

enum { WARPGROUP = 4, BARRIERS_MAX = 16, SETTING_MAX = 256, SETTING_UNIT = 8 };

/* --- who -------------------------------------------------------------------------------------- */

static bool is_tma(const tl_statement *s) {
    return s->kind == TL_COPY && str_is(s->copy.atom, "tma");
}

/* Does the role nothing but copies by TMA and waiting? Then a single thread does it all. */
static bool is_single(const tl_statement *role) {
    tl_statement *body = (tl_statement *)(uintptr_t)role;
    for (tl_statement *s = role->role.body.first; s; s = tl_next(s, body)) {
        if (s->kind == TL_COMPUTE || s->kind == TL_RESHAPE || s->kind == TL_ALLOCATE) return false;
        if (s->kind == TL_COPY && !is_tma(s)) return false;
    }
    return true;
}

static bool uses_async_units(const emit *t) {
    if (t->roles.count > 1 || (t->grid && t->grid->grid.kind != TL_GRID_PLAIN)) return true;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (is_tma(s) || (s->kind == TL_COMPUTE && s->compute.is_async)) return true;
        if (s->kind == TL_ROLE && s->role.turn_count) return true;
    }
    return false;
}

static void add_role(emit *t, const tl_statement *s) {
    const tl_role *role = &s->role;
    emit_role r = {.statement = s,
                   .executors = role->executors,
                   .executor_warps = role->is_warpgroups ? WARPGROUP : 1};
    r.warps = r.executors * r.executor_warps;
    r.threads = 32 * r.warps;
    r.block_warps = r.warps;
    if (role->registers) r.block_warps = (r.warps + WARPGROUP - 1) / WARPGROUP * WARPGROUP;
    r.is_single = is_single(s);
    /* A warpgroup begins at a multiple of four warps: those before it idle. */
    for (int i = 0; role->is_warpgroups && i < t->roles.count; i++) {
        emit_role *before = &t->roles.items[i];
        before->block_warps = (before->block_warps + WARPGROUP - 1) / WARPGROUP * WARPGROUP;
    }
    for (int i = 0; i < t->roles.count; i++) r.first_warp += t->roles.items[i].block_warps;
    list_push(t->memory, &t->roles, r);
}

bool emit_find_roles(emit *t) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (s->kind == TL_GRID) t->grid = s;
        if (s->kind == TL_ROLE) add_role(t, s);
    }
    if (!t->roles.count) {
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_OPEN, t->kernel->range, t->kernel->name,
                    STR("without a role nothing runs"));
        return false;
    }
    t->is_async = uses_async_units(t);
    int warps = 0;
    for (int i = 0; i < t->roles.count; i++) {
        emit_role *r = &t->roles.items[i];
        if (!t->is_async) r->block_warps = r->warps, r->is_single = false;
        warps += r->block_warps;
    }
    t->threads = 32 * warps;
    emit_role *last = &t->roles.items[t->roles.count - 1];
    if (t->threads < 32 || t->threads > 1024 || t->threads > t->gpu->block_threads) {
        emit_unsupported(t, last->statement->range, last->statement->role.name,
                         "a block of %d threads is too large", t->threads);
        return false;
    }
    t->role = last->statement, t->now = last, t->warps = last->warps;
    return true;
}

/* --- barriers among some of the threads ------------------------------------------------------- */

static int take_barriers(emit *t, int count) {
    int first = t->barriers + 1;
    t->barriers += count;
    if (t->barriers >= BARRIERS_MAX) {
        emit_unsupported(t, t->role->range, t->role->role.name,
                         "the roles need more than %d numbered barriers", BARRIERS_MAX - 1);
    }
    return first;
}

static int emit_executor_threads(const emit *t) {
    return 32 * t->now->executor_warps;
}

str emit_meeting(emit *t, bool of_executor) {
    emit_role *r = t->now;
    if (r->executors == 1) of_executor = false;
    int *first = of_executor ? &r->executor_barrier : &r->role_barrier;
    if (!*first) *first = take_barriers(t, of_executor ? r->executors : 1);
    if (of_executor)
        return emit_format(t, "ftl_meet(%d + executor, %d);", *first, emit_executor_threads(t));
    return emit_format(t, "ftl_meet(%d, %d);", *first, r->threads);
}

/* --- turns: a barrier for each executor, where it waits for the one before it ----------------- */

static int turn_of(const emit *t, const tl_expr *name) {
    for (int i = 0; i < t->role->role.turn_count; i++) {
        if (name->symbol == t->role->role.turn_symbols[i]) return i;
    }
    return -1;
}

bool emit_is_turn(const emit *t, const tl_expr *name) {
    return t->is_async && turn_of(t, name) >= 0;
}

static int turn_barrier(emit *t, int turn) {
    emit_role *r = t->now;
    if (!r->turn_barrier)
        r->turn_barrier = take_barriers(t, r->executors * r->statement->role.turn_count);
    return r->turn_barrier + turn * r->executors;
}

static void wait_turn(emit *t, int turn) {
    emit_text(t, "ftl_meet(%d + executor, %d);", turn_barrier(t, turn),
              2 * emit_executor_threads(t));
}

static void release_turn(emit *t, int turn) {
    int first = turn_barrier(t, turn), count = t->now->executors;
    str next = count == 2 ? emit_format(t, "%d - executor", first + 1)
                          : emit_format(t, "executor == %d ? %d : %d + executor", count - 1, first,
                                        first + 1);
    emit_text(t, "ftl_meet_later(%.*s, %d);", STR_ARGS(next), 2 * emit_executor_threads(t));
}

void emit_wait_turn(emit *t, const tl_statement *s) {
    if (t->now->executors > 1) wait_turn(t, turn_of(t, s->sync.what));
}

void emit_release_turn(emit *t, const tl_statement *s) {
    if (t->now->executors > 1) release_turn(t, turn_of(t, s->sync.what));
}

static void start_turns(emit *t) {
    for (int i = 0; i < t->role->role.turn_count && t->now->executors > 1; i++) {
        emit_text(t,
                  "if (executor == %d) ftl_meet_later(%d, %d); // the first turn is executor 0's",
                  t->now->executors - 1, turn_barrier(t, i), 2 * emit_executor_threads(t));
    }
}

/* The last one's last release is taken, so that no barrier is left half full. */
static void end_turns(emit *t) {
    for (int i = 0; i < t->role->role.turn_count && t->now->executors > 1; i++) {
        emit_text(t, "if (executor == 0) ftl_meet(%d, %d); // takes the last turn back",
                  turn_barrier(t, i), 2 * emit_executor_threads(t));
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void set_registers(emit *t) {
    int said = t->role->role.registers, all = (int)t->gpu->registers / t->threads;
    if (!said || !gpu_has(t->gpu, GPU_FEATURE_setmaxnreg)) return;
    all = all / SETTING_UNIT * SETTING_UNIT;
    if (all > t->gpu->thread_registers) all = (int)t->gpu->thread_registers;
    if (said % SETTING_UNIT || said < 24 || said > SETTING_MAX) {
        emit_unsupported(t, t->role->range, t->role->role.name,
                         "registers of a role are a multiple of %d from 24 to %d", SETTING_UNIT,
                         SETTING_MAX);
    }
    t->is_exact = true;
    if (said < all) emit_text(t, "ftl_registers_shrink<%d>();", said);
    if (said > all) emit_text(t, "ftl_registers_grow<%d>();", said);
}

static bool walks_tiles(const tl_statement *role) {
    for (const tl_statement *s = role->role.body.first; s; s = s->next) {
        if (s->kind == TL_FOR && s->loop.is_grid_walk) return true;
    }
    return false;
}

static void role_body(emit *t) {
    const emit_role *r = t->now;
    emit_declare(t, STR("warp"), "const int warp = block_warp - %d;", r->first_warp);
    emit_declare(t, STR("executor"), "const int executor = warp / %d;", r->executor_warps);
    emit_declare_channels(t);
    emit_start_walk(t);
    emit_declare_descriptors(t);
    if (t->failed) return; /* said once */
    start_turns(t);
    bool walks = walks_tiles(t->role);
    if (r->is_single) emit_prefetch_maps(t);
    if (walks) {
        emit_block(t, &t->role->role.body);
    } else {
        emit_open_walk(t, &t->role->role.body);
        emit_tracked_walk(t, &t->role->role.body);
        emit_close_walk(t);
    }
    emit_end_stores(t);
    end_turns(t);
}

static void one_role(emit *t, int index) {
    emit_role *r = &t->roles.items[index];
    int names = t->names.count, end = r->first_warp + r->block_warps;
    bool is_last = index == t->roles.count - 1;
    t->role = r->statement, t->now = r, t->warps = r->warps;
    if (index) t->indent--;
    if (t->roles.count == 1) emit_open(t, "{");
    else if (is_last) emit_open(t, "} else {");
    else emit_open(t, "%sif (block_warp < %d) {", index ? "} else " : "", end);
    emit_header(t, r->statement);
    set_registers(t);
    bool some = r->is_single || r->warps < r->block_warps;
    if (r->is_single) emit_open(t, "if (threadIdx.x == %d) {", 32 * r->first_warp);
    else if (some) emit_open(t, "if (block_warp < %d) {", r->first_warp + r->warps);
    role_body(t);
    if (some) emit_close(t);
    t->names.count = names;
}

void emit_roles(emit *t) {
    for (int i = 0; i < t->roles.count; i++) one_role(t, i);
    emit_close(t);
}
