/* What one step does, and when it has done it. */
#include "reason/prices.h"
#include "timeline/course.h"

#include <math.h>

static double later(double a, double b) {
    return a > b ? a : b;
}

static bool is_shared(const course *mc, int tile) {
    return mc->model->tiles[tile].space == TL_SHARED;
}

/* The process waited for this step up to now. */
static void note_wait(course *mc, course_process *p, const tl_statement *s) {
    if (p->arrived >= 0) course_box(mc, p->lane, p, s, p->arrived, mc->now, true);
}

/* It waits until 'ready', and is busy for some clocks after that. */
static void stop(course *mc, course_process *p, const tl_statement *s, double ready, double busy) {
    double from = p->arrived >= 0 ? p->arrived : mc->now;
    ready = later(ready, mc->now);
    course_box(mc, p->lane, p, s, from, ready, true);
    course_box(mc, p->lane, p, s, ready, ready + busy, false);
    p->until = ready + busy;
    if (p->until > mc->now) p->state = COURSE_WAITING;
}

/* Copies into registers go on until something needs what they bring. False: it is on its way. */
static bool has_landed(course *mc, course_process *p, const model_step *step) {
    double ready = 0;
    for (int i = 0; i < step->read_count; i++)
        if (!is_shared(mc, step->reads[i].tile))
            ready = later(ready, p->loaded[step->reads[i].tile]);
    if (step->has_target && !is_shared(mc, step->target.tile))
        ready = later(ready, p->loaded[step->target.tile]);
    if (ready <= mc->now) return true;
    p->until = ready;
    p->state = COURSE_WAITING;
    return false;
}

static double barrier_clocks(const course *mc, const tl_statement *s) {
    const check_sync *sync = check_sync_of(mc->facts, s);
    return sync && sync->barrier_before && !sync->is_warp_scope ? PRICES_BARRIER_CLOCKS : 0;
}

/* --- Copy ------------------------------------------------------------------------------------- */

/* Between memory and the multiprocessor: when it has left, and when it is there. */
typedef struct journey {
    double left, there;
} journey;

/* Requests travel while others' bytes do. */
static journey travel(course *mc, const course_process *p, const model_step *step) {
    course_copy copy = course_copy_of(mc, p, step);
    mc->copies_free = later(mc->now, mc->copies_free) + copy.busy;
    double there = later(mc->now + copy.landing, mc->copies_free);
    course_box(mc, mc->copies_lane, p, step->statement, mc->now, there, false);
    return (journey){mc->copies_free, there};
}

static void fill(course *mc, course_process *p, const model_step *step) {
    const tl_statement *s = step->statement;
    int tile = step->target.tile;
    int64_t generation = p->sync->fills[tile]++;
    double *landed = &p->block->landed[tile].at[generation % MODEL_STAGES_MAX];
    double ends, barrier = barrier_clocks(mc, s);
    note_wait(mc, p, s);
    p->arrived = -1;
    if (s->copy.from != TL_GLOBAL) {
        stop(mc, p, s, mc->now, barrier + course_copy_of(mc, p, step).busy);
        ends = p->until;
    } else {
        ends = travel(mc, p, step).there;
        if (!step->is_async) stop(mc, p, s, ends, 0);
        else if (barrier > 0) stop(mc, p, s, mc->now, barrier);
    }
    *landed = later(*landed, ends);
}

static void store(course *mc, course_process *p, const model_step *step) {
    note_wait(mc, p, step->statement);
    p->arrived = -1;
    journey way = travel(mc, p, step);
    if (!step->is_async) {
        stop(mc, p, step->statement, mc->now, way.left - mc->now);
        return;
    }
    p->stored = later(p->stored, way.left);
    channels_flight flight = {.statement = step->statement, .tile = -1, .stores = step->stores};
    channels_launch(p->block->sync, p->sync, flight);
}

static course_outcome act_copy(course *mc, course_process *p, const model_step *step) {
    const tl_statement *s = step->statement;
    int holder;
    bool fills = step->has_target && is_shared(mc, step->target.tile);
    if (fills && !channels_may_fill(p->block->sync, p->sync, step->target.tile, &holder))
        return COURSE_BLOCKED;
    if (!has_landed(mc, p, step)) return COURSE_BLOCKED;
    if (fills) {
        fill(mc, p, step);
    } else if (s->copy.to == TL_GLOBAL) {
        store(mc, p, step);
    } else if (s->copy.from == TL_GLOBAL) {
        note_wait(mc, p, s);
        if (step->has_target) p->loaded[step->target.tile] = travel(mc, p, step).there;
    } else {
        note_wait(mc, p, s);
        p->arrived = -1;
        stop(mc, p, s, mc->now, course_copy_of(mc, p, step).busy);
    }
    return COURSE_MOVED;
}

/* --- Compute ---------------------------------------------------------------------------------- */

static void multiply(course *mc, course_process *p, const model_step *step) {
    const tl_statement *s = step->statement;
    double start = later(mc->now, mc->tensor_free), clocks = course_product(mc, p, step);
    int tile = step->target.tile;
    mc->tensor_free = start + clocks;
    course_box(mc, mc->tensor_lane, p, s, start, mc->tensor_free, false);
    note_wait(mc, p, s);
    p->arrived = -1;
    if (!step->is_async) { /* few warps have not all tensor cores: others use the rest */
        stop(mc, p, s, mc->now, start + clocks / course_schedulers(mc, p) - mc->now);
        return;
    }
    int64_t generation =
        step->opens ? p->sync->rings[tile].opened++ : channels_meant(p->block->sync, p->sync, tile);
    p->products[tile].at[generation % MODEL_STAGES_MAX] = mc->tensor_free;
    channels_flight flight = {.statement = s, .tile = tile, .generation = generation};
    channels_launch(p->block->sync, p->sync, flight);
}

static course_outcome act_compute(course *mc, course_process *p, const model_step *step) {
    if (step->opens && !channels_may_open(p->block->sync, p->sync, step->target.tile))
        return COURSE_BLOCKED;
    if (!has_landed(mc, p, step)) return COURSE_BLOCKED;
    if (!step->has_target) return COURSE_MOVED;
    if (step->statement->compute.operation == TL_GEMM) {
        multiply(mc, p, step);
        return COURSE_MOVED;
    }
    note_wait(mc, p, step->statement);
    p->work = course_issue(mc, p, step);
    p->begun = mc->now;
    p->by = step->statement;
    if (p->work > 0) p->state = COURSE_ISSUING;
    return COURSE_MOVED;
}

/* --- Wait and Release ------------------------------------------------------------------------- */

static course_outcome wait_channel(course *mc, course_process *p, const model_step *step) {
    int tile = step->what.tile, cursor = step->what.cursor;
    if (cursor < 0) return COURSE_MOVED;
    int64_t generation = p->sync->waits[cursor];
    if (mc->model->tiles[tile].is_shared_out && p->sync->fills[tile] > generation) {
        p->sync->waits[cursor]++; /* its own rows: nobody else's are waited for */
    } else {
        channels_answer answer = channels_wait(p->block->sync, p->sync, tile, cursor);
        if (answer.fault) return COURSE_BLOCKED;
        generation = answer.generation;
    }
    stop(mc, p, step->statement, p->block->landed[tile].at[generation % MODEL_STAGES_MAX],
         barrier_clocks(mc, step->statement));
    return COURSE_MOVED;
}

static void wait_register(course *mc, course_process *p, const model_step *step) {
    int tile = step->what.tile;
    bool is_ring = channels_is_ring(&mc->model->tiles[tile]);
    int64_t generation = is_ring ? p->sync->rings[tile].waited : 0;
    channels_wait(p->block->sync, p->sync, tile, -1);
    stop(mc, p, step->statement, p->products[tile].at[generation % MODEL_STAGES_MAX], 0);
}

static course_outcome wait_turn(course *mc, course_process *p, const model_step *step) {
    if (channels_wait_turn(p->block->sync, p->sync, step->turn).fault) return COURSE_BLOCKED;
    stop(mc, p, step->statement, mc->now, 0);
    return COURSE_MOVED;
}

static course_outcome act_wait(course *mc, course_process *p, const model_step *step) {
    switch (step->subject) {
    case SUBJECT_CHANNEL: return wait_channel(mc, p, step);
    case SUBJECT_REGISTER: wait_register(mc, p, step); return COURSE_MOVED;
    case SUBJECT_STORES:
        channels_wait_stores(p->sync, step->stores);
        stop(mc, p, step->statement, p->stored, 0);
        return COURSE_MOVED;
    case SUBJECT_TURN: return wait_turn(mc, p, step);
    default: return COURSE_MOVED;
    }
}

static void act_release(course_process *p, const model_step *step) {
    channels *sync = p->block->sync;
    if (step->subject == SUBJECT_TURN) channels_release_turn(sync, p->sync, step->turn);
    else if (step->what.tile >= 0)
        channels_release(sync, p->sync, step->what.tile, step->what.cursor);
}

course_outcome course_act(course *mc, course_process *p, const model_step *step) {
    switch (step->kind) {
    case STEP_COPY: return act_copy(mc, p, step);
    case STEP_COMPUTE: return act_compute(mc, p, step);
    case STEP_WAIT: return act_wait(mc, p, step);
    case STEP_RELEASE: act_release(p, step); return COURSE_MOVED;
    default: return COURSE_MOVED;
    }
}
