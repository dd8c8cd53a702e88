/* Loops of sketches: which index they walk, and what is left of it past their end. */
#include "check/rules.h"

#include "tl/tl.h"

typedef struct block_use {
    tl_kernel *kernel;
    tl_statement *at;
    arena *memory;
    diag_list *diags;
    bool is_right;
} block_use;

/* --- which index ------------------------------------------------------------------------------ */

static bool check_walk(tl_kernel *kernel, const tl_statement *loop, arena *memory,
                       diag_list *diags) {
    const tl_expr *length, *size;
    if (loop->loop.is_grid_walk || !tl_loop_walks(loop, &length, &size)) return true;
    tl_walked walked = tl_loop_indices(kernel, loop, length);
    if (walked.is_unclear) {
        diag_report(diags, DIAG_SKETCH_WALK, loop->range, loop->loop.name,
                    tl_expr_text(memory, length), walked.names[0], walked.names[1]);
    } else if (walked.is_of_others) {
        diag_report(diags, DIAG_SKETCH_LOOP_NAME, loop->name_range, loop->loop.name);
    }
    return !walked.is_unclear && !walked.is_of_others;
}

/* --- blocks past their loop ------------------------------------------------------------------- */

/* The last statement in front of 'at' that writes the tile. */
static const tl_statement *writer_before(const block_use *use, const tl_symbol *symbol) {
    const tl_statement *last = NULL;
    for (tl_statement *s = use->kernel->body.first; s && s != use->at; s = tl_next(s, NULL)) {
        if (tl_writes(s, symbol)) last = s;
    }
    return last;
}

/* The axis of the tile that the loop walks block by block; empty when there is none. */
static str block_axis(const tl_kernel *kernel, const tl_statement *loop, const tl_tile *tile) {
    const tl_expr *length, *size;
    if (loop->loop.is_grid_walk || !tl_loop_walks(loop, &length, &size) || !size) return STR("");
    for (int i = 0; i < tile->axis_count; i++) {
        str index = tile->axes[i].index;
        if (tl_loop_walks_index(kernel, loop, length, index)) return index;
    }
    return STR("");
}

static void check_use(void *context, tl_expr *e) {
    block_use *use = context;
    const tl_statement *s = use->at;
    const tl_tile *tile = tl_tile_of(e);
    bool is_made =
        (s->kind == TL_COPY && e == s->copy.target) ||
        (s->kind == TL_COPY && !s->copy.target && s->copy.from == TL_GLOBAL) ||
        (s->kind == TL_COMPUTE && s->compute.target_kind == TL_GET && e == s->compute.target);
    if (!tile || is_made || !use->is_right) return;
    const tl_statement *writer = writer_before(use, tile->part_of ? tile->part_of : e->symbol);
    for (const tl_statement *p = writer ? writer->parent : NULL; p; p = p->parent) {
        if (p->kind != TL_FOR || tl_is_inside(s, p)) continue;
        str axis = block_axis(use->kernel, p, tile);
        if (!axis.length) continue;
        diag_report(use->diags, DIAG_SKETCH_BLOCK_AFTER, e->range, e->text, axis, p->loop.name);
        diag_report(use->diags, DIAG_SKETCH_BLOCK_MADE, writer->range, e->text);
        use->is_right = false;
        return;
    }
}

bool rules_sketch_loops(tl_kernel *kernel, arena *memory, diag_list *diags) {
    bool right = true;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_FOR) right &= check_walk(kernel, s, memory, diags);
    }
    if (!right) return false;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        block_use use = {kernel, s, memory, diags, true};
        if (s->kind == TL_COPY || s->kind == TL_COMPUTE) tl_each_expr(s, check_use, &use);
        right &= use.is_right;
    }
    return right;
}
