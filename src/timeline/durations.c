/* How long a statement takes, by the prices of the cost model. */
#include "reason/prices.h"
#include "timeline/course.h"

enum {
    VECTOR_LANES = 4, /* that hold a row's value */
    EVEN_BYTES = 32,  /* of rows: what memory moves at once */
};

static bool is_by_warpgroups(const course_process *p) {
    return p->role->statement->role.is_warpgroups;
}

/* A process stands for so many of its role's executors. */
static double share(const course_process *p) {
    return 1.0 / p->block->sync->count[p->sync->role];
}

double course_schedulers(const course *mc, const course_process *p) {
    double warps = p->role->warps * share(p), schedulers = (double)mc->target->schedulers;
    return warps < schedulers ? warps / schedulers : 1;
}

static double elements_of(const model_tile *tile) {
    double elements = 1;
    for (int i = 0; i < tile->axis_count; i++)
        elements *= tile->axes[i].extent > 0 ? (double)tile->axes[i].extent : 1;
    return elements;
}

static double rows_of(const model_tile *tile) {
    return tile->axis_count > 1 && tile->axes[0].extent > 0 ? (double)tile->axes[0].extent : 1;
}

static double bytes_of(const model_tile *tile) {
    return elements_of(tile) * tl_type_bits(tile->type) / 8;
}

/* --- elementwise work ------------------------------------------------------------------------- */

static prices_element operations_of(const course_process *p, const model_step *step) {
    tl_operation operation = step->statement->compute.operation;
    const tl_operation_facts *f = tl_facts(operation);
    prices_element of = {f->fp32, f->exp2, f->conversions};
    if (!is_by_warpgroups(p)) return of;
    if (operation == TL_TANH) return (prices_element){.fp32 = PRICES_NEAR_FP32};
    return of;
}

double course_issue(const course *mc, const course_process *p, const model_step *step) {
    const tl_compute *c = &step->statement->compute;
    bool reduces = tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION && step->read_count;
    int widest = reduces ? step->reads[0].tile : step->target.tile;
    if (widest < 0) return 0;
    const model_tile *tile = &mc->model->tiles[widest];
    double elements = elements_of(tile) * share(p);
    if (tile->axis_count < 2) elements *= VECTOR_LANES;
    prices_element of = operations_of(p, step);
    if (is_by_warpgroups(p))
        return prices_of_issue(mc->target, elements) *
               (c->operation == TL_MASK ? PRICES_MASK_CLOCKS : prices_of_element(of));
    prices_units units = prices_of_elements(mc->target, elements, of);
    return units.fp32 + units.exp2 + units.conversions;
}

double course_round(const course *mc, const course_process *p, const model_step *end) {
    if (!is_by_warpgroups(p)) return 0;
    for (int i = end->other; i < p->at; i++) {
        const model_step *step = &p->role->steps[i];
        if (step->kind == STEP_COMPUTE && step->is_async)
            return PRICES_STEP_CLOCKS / (double)mc->model->roles[p->sync->role].executors;
    }
    return 0;
}

/* --- products --------------------------------------------------------------------------------- */

double course_product(const course *mc, const course_process *p, const model_step *step) {
    const model_tile *left = NULL, *right = NULL, *target = &mc->model->tiles[step->target.tile];
    const tl_compute *c = &step->statement->compute;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (use->operand == &c->operands[0]) left = &mc->model->tiles[use->tile];
        if (use->operand == &c->operands[1]) right = &mc->model->tiles[use->tile];
    }
    if (!left || !right) return 0;
    double rows = rows_of(target);
    prices_product product = {.rows = rows * share(p),
                              .columns = elements_of(target) / rows,
                              .contracted = elements_of(left) / rows,
                              .operand_bytes = tl_type_bytes(right->type),
                              .reads_left = left->space == TL_SHARED,
                              .warps = p->role->warps * share(p),
                              .times = 1};
    if (!step->is_async) {
        prices_pair pair = prices_of_product(mc->target, product);
        return prices_together(pair.tensor, pair.shared);
    }
    return prices_of_async_product(mc->target, product) / PRICES_BUSY_SHARE;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Between memory and a tile. */
static course_copy travel(const course_process *p, const model_tile *tile, const tl_copy *copy) {
    double bytes = bytes_of(tile) * share(p), rows = rows_of(tile) * share(p);
    bool is_load = copy->from == TL_GLOBAL;
    if (!tl_is_by_tma(copy)) {
        bool is_loose = !is_load && copy->from == TL_REGISTER && is_by_warpgroups(p);
        return (course_copy){bytes / (is_loose ? PRICES_LOOSE_BYTES : PRICES_CACHE_BYTES),
                             is_load ? PRICES_LANDING_CLOCKS : 0};
    }
    int64_t line = (int64_t)(bytes_of(tile) / rows_of(tile));
    prices_copy clocks =
        prices_of_lines((prices_lines){.rows = rows,
                                       .bytes = line,
                                       .swizzle = tile->allocation->allocate.swizzle_bytes,
                                       .is_even = line % EVEN_BYTES == 0,
                                       .is_load = is_load});
    return (course_copy){is_load ? clocks.all : clocks.all + clocks.late,
                         is_load ? PRICES_LANDING_ASYNC_CLOCKS : 0};
}

course_copy course_copy_of(const course *mc, const course_process *p, const model_step *step) {
    const tl_copy *copy = &step->statement->copy;
    int number = step->has_target && copy->to != TL_GLOBAL ? step->target.tile
                 : step->read_count                        ? step->reads[0].tile
                                                           : -1;
    if (number < 0) return (course_copy){0};
    const model_tile *tile = &mc->model->tiles[number];
    if (copy->from == TL_GLOBAL || copy->to == TL_GLOBAL) return travel(p, tile, copy);
    return (course_copy){bytes_of(tile) * share(p) / mc->target->shared_rate, 0};
}
