/* Executors and the clock. */
#include "reason/prices.h"
#include "timeline/course.h"

#include <math.h>

enum { STEPS_MAX = 1 << 19 };

/* Clocks are told apart down to this. */
static const double SOON = 1e-6;

static void stick(course *mc, const char *why) {
    if (!mc->stuck.length) mc->stuck = str_from(why);
}

/* --- boxes ------------------------------------------------------------------------------------ */

/* Copies that are on their way at once lie over one another, as long as there are rows. */
static int row_of(course *mc, double begin) {
    enum { ROWS_MAX = 8 };
    timeline_lane *lane = &mc->out->lanes.items[mc->copies_lane];
    double ends[ROWS_MAX] = {0};
    for (int i = 0; i < mc->out->boxes.count; i++) {
        const timeline_box *box = &mc->out->boxes.items[i];
        if (box->lane == mc->copies_lane) ends[box->row] = fmax(ends[box->row], box->end);
    }
    int row = 0;
    for (int i = 0; i < ROWS_MAX && ends[row] > begin + SOON; i++)
        if (ends[i] <= begin + SOON || ends[i] < ends[row]) row = i;
    if (row >= lane->rows) lane->rows = row + 1;
    return row;
}

void course_box(course *mc, int lane, const course_process *p, const tl_statement *s, double begin,
                double end, bool waits) {
    if (end - begin < SOON) return;
    mc->boxes++;
    if (!mc->records) return;
    int row = lane == mc->copies_lane ? row_of(mc, begin) : 0;
    int last = p->tile < VALUES_TILES ? p->tile : VALUES_TILES - 1; /* past the walk: of its end */
    int tile = mc->walks ? last : (int)(p->block - mc->blocks);
    timeline_box box = {s, lane, row, tile, begin, end, waits};
    list_push(mc->memory, &mc->out->boxes, box);
}

/* --- control ---------------------------------------------------------------------------------- */

static void enter_if(course_process *p, const model_step *step) {
    int64_t taken;
    if (!values_integer(p->values, step->statement->branch.condition, &taken)) taken = 0;
    p->at = taken ? p->at + 1 : step->other + 1;
}

static void enter_for(course *mc, course_process *p, const model_step *step) {
    const tl_for *loop = &step->statement->loop;
    int64_t from, to;
    if (!values_integer(p->values, loop->from, &from) ||
        !values_integer(p->values, loop->to, &to)) {
        stick(mc, "how often a loop runs follows from data alone");
        return;
    }
    if (from >= to) {
        p->at = step->other + 1;
        return;
    }
    p->nest[p->nest_count++] = (course_loop){p->at, from, to, 1};
    tl_values_set(&p->values->names, loop->symbol, from);
    p->at++;
}

static void repeat_for(course *mc, course_process *p, const model_step *step) {
    course_loop *loop = &p->nest[p->nest_count - 1];
    const tl_symbol *symbol = step->statement->loop.symbol;
    p->work = course_round(mc, p, step);
    if (p->work > 0) {
        p->begun = mc->now;
        p->by = step->statement;
        p->state = COURSE_ISSUING;
    }
    if (loop->rounds > mc->most_rounds) mc->most_rounds = loop->rounds;
    if (++loop->value < loop->end) {
        loop->rounds++;
        tl_values_set(&p->values->names, symbol, loop->value);
        p->at = loop->step + 1;
        return;
    }
    tl_values_forget(&p->values->names, symbol);
    p->nest_count--;
    p->at++;
}

static void redo_lets(course_process *p, const tl_statement *s) {
    for (int i = 0; i < s->let.count; i++) {
        const tl_symbol *symbol = s->let.items[i].symbol;
        if (symbol && symbol->kind == TL_SYMBOL_CONSTANT)
            tl_values_forget(&p->values->names, symbol);
    }
    p->at++;
}

static void end_tile(course *mc, course_process *p, const model_step *step) {
    if (!mc->walks || ++p->tile >= VALUES_TILES) {
        p->at++;
        return;
    }
    values_start(p->values, p->tile, true);
    p->at = step->other + 1;
}

static bool is_control(model_step_kind kind) {
    return kind != STEP_COPY && kind != STEP_COMPUTE && kind != STEP_WAIT && kind != STEP_RELEASE;
}

static void control(course *mc, course_process *p, const model_step *step) {
    switch (step->kind) {
    case STEP_LET: redo_lets(p, step->statement); break;
    case STEP_FOR: enter_for(mc, p, step); break;
    case STEP_END_FOR: repeat_for(mc, p, step); break;
    case STEP_IF: enter_if(p, step); break;
    case STEP_END_TILES: end_tile(mc, p, step); break;
    case STEP_END: p->state = COURSE_DONE; break;
    default: p->at++; break;
    }
}

/* Moves a process as far as it gets at this clock. Returns how many steps it made. */
static int advance(course *mc, course_process *p) {
    int moves = 0;
    for (; p->state == COURSE_READY && !mc->stuck.length; moves++) {
        const model_step *step = &p->role->steps[p->at];
        if (++mc->steps > STEPS_MAX) stick(mc, "two tiles take too many statements");
        if (is_control(step->kind)) {
            control(mc, p, step);
            continue;
        }
        if (course_act(mc, p, step) == COURSE_BLOCKED) {
            if (p->arrived < 0) p->arrived = mc->now;
            return moves;
        }
        p->arrived = -1;
        p->at++;
    }
    return moves;
}

/* --- the clock -------------------------------------------------------------------------------- */

static bool is_done(const course_block *block) {
    bool all = block->has_begun;
    for (int i = 0; all && i < block->sync->process_count; i++)
        all = block->processes[i].state == COURSE_DONE;
    return all;
}

static void begin_blocks(course *mc) {
    for (int i = 0; i < mc->block_count; i++)
        mc->blocks[i].has_begun |= mc->beside || i == 0 || is_done(&mc->blocks[i - 1]);
}

/* How fast a process issues beside others: schedulers are shared, and among warpgroups the gaps of
 * one are filled by others. 1 is the speed of all schedulers; few warps have not all of them.
 */
static double speed(const course *mc, const course_process *p) {
    bool by_warpgroups = p->role->statement->role.is_warpgroups;
    double own = by_warpgroups ? 1 : course_schedulers(mc, p);
    if (mc->issuing < 2) return own;
    return fmin(own, 1 / (mc->issuing * (by_warpgroups ? PRICES_TOGETHER_SHARE : 1)));
}

typedef void visit(course *mc, course_process *p);

static void each(course *mc, visit *what) {
    for (int b = 0; b < mc->block_count; b++)
        for (int i = 0; mc->blocks[b].has_begun && i < mc->blocks[b].sync->process_count; i++)
            what(mc, &mc->blocks[b].processes[i]);
}

static void move(course *mc, course_process *p) {
    mc->moves += advance(mc, p);
}

static void count_issuing(course *mc, course_process *p) {
    mc->issuing += p->state == COURSE_ISSUING;
}

/* The clock at which something ends, should nothing begin before it. */
static void find_next(course *mc, course_process *p) {
    if (p->state == COURSE_WAITING) mc->next = fmin(mc->next, p->until);
    if (p->state == COURSE_ISSUING) mc->next = fmin(mc->next, mc->now + p->work / speed(mc, p));
}

static void go_on(course *mc, course_process *p) {
    if (p->state == COURSE_WAITING && p->until <= mc->next + SOON) p->state = COURSE_READY;
    if (p->state != COURSE_ISSUING) return;
    p->work -= (mc->next - mc->now) * speed(mc, p);
    if (p->work > SOON) return;
    p->state = COURSE_READY;
    course_box(mc, p->lane, p, p->by, p->begun, mc->next, false);
}

void course_run(course *mc) {
    while (!mc->stuck.length) {
        do {
            mc->moves = 0;
            begin_blocks(mc);
            each(mc, move);
        } while (mc->moves && !mc->stuck.length);
        mc->issuing = 0;
        mc->next = INFINITY;
        each(mc, count_issuing);
        each(mc, find_next);
        if (mc->next == INFINITY) break;
        each(mc, go_on);
        mc->now = mc->next;
    }
    if (!is_done(&mc->blocks[mc->block_count - 1])) stick(mc, "its executors wait for one another");
}
