/* Roles: which warps run them, with how many registers; the walk over tiles; turns. */
#include "translate/emit.h"

enum { BARRIERS_MAX = 16, SETTING_MAX = 256, SETTING_UNIT = 8 };

/* --- who -------------------------------------------------------------------------------------- */

static void set_role(emit *t, int index) {
    t->now = &t->model->roles[index];
    t->role = t->now->statement, t->warps = t->now->warps;
}

bool emit_find_roles(emit *t) {
    const model *m = t->model;
    if (!m->role_count) {
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_OPEN, t->kernel->range, t->kernel->name,
                    STR("without a role nothing runs"));
        return false;
    }
    t->is_async = m->is_async;
    t->threads = 32 * m->block_warps;
    set_role(t, m->role_count - 1);
    return true;
}

static emit_meetings *meetings(emit *t) {
    return &t->meetings[t->now - t->model->roles];
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
    const model_role *r = t->now;
    if (r->executors == 1) of_executor = false;
    int *first = of_executor ? &meetings(t)->executors : &meetings(t)->role;
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
    const model_role *r = t->now;
    int *first = &meetings(t)->turns;
    if (!*first) *first = take_barriers(t, r->executors * r->statement->role.turn_count);
    return *first + turn * r->executors;
}

void emit_wait_turn(emit *t, const tl_statement *s) {
    if (t->now->executors > 1)
        emit_text(t, "ftl_meet(%d + executor, %d);", turn_barrier(t, turn_of(t, s->sync.what)),
                  2 * emit_executor_threads(t));
}

void emit_release_turn(emit *t, const tl_statement *s) {
    int count = t->now->executors;
    if (count == 1) return;
    int first = turn_barrier(t, turn_of(t, s->sync.what));
    str next = count == 2 ? emit_format(t, "%d - executor", first + 1)
                          : emit_format(t, "executor == %d ? %d : %d + executor", count - 1, first,
                                        first + 1);
    emit_text(t, "ftl_meet_later(%.*s, %d);", STR_ARGS(next), 2 * emit_executor_threads(t));
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
    const model_role *r = t->now;
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
    const model_role *r = &t->model->roles[index];
    int names = t->names.count, end = r->first_warp + r->block_warps;
    bool is_last = index == t->model->role_count - 1;
    set_role(t, index);
    if (index) t->indent--;
    if (t->model->role_count == 1) emit_open(t, "{");
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
    for (int i = 0; i < t->model->role_count; i++) one_role(t, i);
    emit_close(t);
}
