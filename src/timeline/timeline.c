#include "timeline/timeline.h"

#include "timeline/course.h"

enum {
    LENGTH_MOST = 4096, /* that lengths are taken for */
    LENGTH_LEAST = 8,
    ROUNDS = 8,       /* of the longest loop, at most, where lengths decide that */
    BOXES_MAX = 4000, /* of a picture */
};

/* --- what there is ---------------------------------------------------------------------------- */

static bool walks_grid(const model *m) {
    for (int r = 0; r < m->role_count; r++)
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_TILES && !model_is_whole_body(step)) return true;
        }
    return false;
}

/* Executors are told apart where they are warpgroups: warps are in step. */
static bool has_warpgroups(const model *m) {
    for (int r = 0; r < m->role_count; r++)
        if (m->roles[r].statement->role.is_warpgroups) return true;
    return false;
}

static int add_lane(course *mc, timeline_lane_kind kind, str name) {
    timeline_lane lane = {kind, name, 1};
    list_push(mc->memory, &mc->out->lanes, lane);
    return mc->out->lanes.count - 1;
}

static str name_of(const course *mc, const course_process *p, int number, int of) {
    str name = p->role->name;
    if (of > 1) name = str_format(mc->memory, "%.*s %d", STR_ARGS(name), number + 1);
    if (mc->block_count == 1) return name;
    return str_format(mc->memory, "block %d, %.*s", (int)(p->block - mc->blocks) + 1,
                      STR_ARGS(name));
}

static void make_process(course *mc, course_block *block, int number) {
    const model *m = mc->model;
    course_process *p = &block->processes[number];
    *p = (course_process){.sync = &block->sync->processes[number], .block = block, .arrived = -1};
    p->role = &m->roles[p->sync->role];
    p->products = arena_array(mc->memory, course_ends, m->tile_count + 1);
    p->loaded = arena_array(mc->memory, double, m->tile_count + 1);
    p->values = values_new(mc->memory, &mc->lengths);
    if (mc->walks) p->values->following = values_new(mc->memory, &mc->lengths);
    values_start(p->values, mc->walks ? 0 : (int)(block - mc->blocks), mc->walks);
    int of = block->sync->count[p->sync->role];
    p->lane = add_lane(mc, TIMELINE_EXECUTOR,
                       name_of(mc, p, number - block->sync->first[p->sync->role], of));
}

static void make_block(course *mc, int number) {
    const model *m = mc->model;
    course_block *block = &mc->blocks[number];
    block->sync = channels_new(mc->memory, m, has_warpgroups(m));
    block->landed = arena_array(mc->memory, course_ends, m->tile_count + 1);
    block->processes = arena_array(mc->memory, course_process, block->sync->process_count + 1);
    for (int i = 0; i < block->sync->process_count; i++) make_process(mc, block, i);
}

/* --- lengths ---------------------------------------------------------------------------------- */

typedef struct subject {
    arena *memory;
    const check_facts *facts;
    const gpu *target;
    int blocks;
} subject;

static course run(const subject *of, values_lengths lengths, timeline *out, bool records) {
    course mc = {.memory = of->memory,
                 .facts = of->facts,
                 .model = of->facts->model,
                 .target = of->target,
                 .lengths = lengths,
                 .out = out,
                 .records = records};
    mc.walks = out->walks = walks_grid(mc.model);
    mc.beside = out->beside = !mc.walks && of->blocks > 1;
    mc.block_count = mc.walks ? 1 : COURSE_BLOCKS;
    for (int i = 0; i < mc.block_count; i++) make_block(&mc, i);
    mc.tensor_lane = add_lane(&mc, TIMELINE_TENSOR, STR("tensor cores"));
    mc.copies_lane = add_lane(&mc, TIMELINE_COPIES, STR("copies"));
    course_run(&mc);
    out->clocks = mc.now;
    out->note = mc.stuck;
    return mc;
}

/* Of a run that nobody sees: how often its longest loop ran, 0 where it got stuck. */
typedef struct measure {
    int64_t rounds;
    bool fits; /* into a picture */
} measure;

static measure measure_with(const subject *of, const values_lengths *lengths) {
    arena_mark mark = arena_here(of->memory);
    timeline nothing = {0};
    course mc = run(of, *lengths, &nothing, false);
    arena_reset(of->memory, mark);
    int64_t rounds = mc.stuck.length ? 0 : mc.most_rounds;
    return (measure){rounds, mc.boxes <= BOXES_MAX};
}

/* Lengths that share loops out are 1: the more there are of such parts, the shorter are loops.
 * Then all others are as long as loops of few rounds need; where that makes no loop shorter, they
 * may be long.
 */
static values_lengths choose_lengths(const subject *of) {
    const tl_kernel *kernel = of->facts->model->kernel;
    values_lengths lengths = values_lengths_new(of->memory, of->facts->model, LENGTH_MOST);
    measure found = measure_with(of, &lengths);
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_symbol *s = kernel->symbols[i];
        if (s->kind != TL_SYMBOL_SIZE || !lengths.is_asked[s->position]) continue;
        lengths.is_one[s->position] = true;
        measure with = measure_with(of, &lengths);
        lengths.is_one[s->position] = with.rounds > found.rounds;
        if (with.rounds > found.rounds) found = with;
    }
    while ((found.rounds > ROUNDS || !found.fits) && lengths.usual > LENGTH_LEAST) {
        lengths.usual /= 2;
        measure with = measure_with(of, &lengths);
        if (with.rounds >= found.rounds && found.fits) {
            lengths.usual *= 2;
            break;
        }
        found = with;
    }
    return lengths;
}

static void list_lengths(timeline *out, arena *memory, const values_lengths *lengths) {
    const tl_kernel *kernel = lengths->model->kernel;
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_symbol *s = kernel->symbols[i];
        if (!lengths->is_asked[s->position]) continue;
        timeline_length length = {s->name, values_length(lengths, s)};
        list_push(memory, &out->lengths, length);
    }
}

timeline timeline_of(arena *memory, const check_facts *facts, const gpu *target, int blocks) {
    subject of = {memory, facts, target, blocks};
    timeline out = {0};
    values_lengths lengths = choose_lengths(&of);
    bool fits = measure_with(&of, &lengths).fits;
    run(&of, lengths, &out, fits);
    if (!fits && !out.note.length) out.note = STR("its two tiles are too much for a picture");
    if (out.note.length) out.boxes.count = 0;
    list_lengths(&out, memory, &lengths);
    return out;
}
