/* The grid of a kernel whose blocks have a tile each: how many there are, and from a block's number
 * to its indices.
 *
 * A walk may be as long as a table says (`q_block in q_len/BM`, with a length per sequence). Then
 * the launch has tiles for the most that the table may say. Blocks with a tile each leave at once
 * where it is past the end; resident blocks go on to the next one.
 */
#include "translate/walk.h"

#include <limits.h>

/* Is the number of a walk's tiles known at launch? */
static bool is_known(emit *t, const tl_walk *walk) {
    ftl_formula f;
    return emit_formula(t, walk->extent, &f);
}

void emit_plan_grid(emit *t) {
    int count = t->model->grid ? t->model->grid->grid.count : 0;
    if (count && t->model->grid->grid.is_yielding && t->is_async)
        emit_unsupported(t, t->model->grid->range, STR("'yielding'"),
                         "blocks of several roles, or of warpgroups, do not say so");
    ftl_formula *walks = arena_array(t->memory, ftl_formula, count + 1);
    for (int i = 0; i < count; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        if (emit_formula(t, walk->extent, &walks[i])) continue;
        if (emit_most(t, walk->extent, &walks[i])) continue;
        emit_unsupported(t, walk->range, walk->name,
                         "how many tiles there are is not known at launch");
    }
    t->plan->walks = walks, t->plan->walk_count = count;
}

emit_value emit_walk_extent(emit *t, const tl_walk *walk) {
    emit_value v = emit_integer(t, walk->extent, NULL);
    if (!emit_is_wide(v)) return v;
    /* The launch has checked that all tiles together are fewer than 2^31. */
    return (emit_value){.text = emit_format(t, "(int)%.*s", STR_ARGS(emit_within(t, v, 15))),
                        .precedence = 15,
                        .low = 0,
                        .high = INT_MAX};
}

/* How many numbers a walk takes: text. Of a walk whose length a table says, those of the longest.
 */
static str numbers_of(emit *t, int index) {
    const tl_walk *walk = &t->model->grid->grid.items[index];
    if (is_known(t, walk)) return emit_within(t, emit_walk_extent(t, walk), 15);
    str name = emit_derived(t, FTL_DERIVED_VALUE, t->plan->walks[index], NULL);
    return emit_format(t, "args.%.*s", STR_ARGS(name));
}

/* The walk's index, from its own part of the block's number. */
static void declare_index(emit *t, const tl_walk *walk, str part) {
    emit_value extent = emit_walk_extent(t, walk);
    str name = emit_clean(t, walk->name);
    int64_t high = extent.high > 0 ? extent.high - 1 : 0;
    emit_name_set(t, walk->symbol, name, 0, high);
    if (walk->is_reversed) {
        part =
            emit_format(t, "%.*s - 1 - %.*s", STR_ARGS(emit_within(t, extent, 12)), STR_ARGS(part));
    }
    emit_declare(t, name, "const int %.*s = %.*s;", STR_ARGS(name), STR_ARGS(part));
}

static str part_name(emit *t, const tl_walk *walk) {
    return emit_format(t, "%.*s_number", STR_ARGS(emit_clean(t, walk->name)));
}

/* Walks whose length is known, and the parts of the others. */
static void decode_number(emit *t, int index) {
    const tl_walk *walk = &t->model->grid->grid.items[index];
    bool last = index == t->model->grid->grid.count - 1;
    str part = STR("(int)tile");
    if (!last) {
        part = emit_format(t, "(int)(tile %% (unsigned)%.*s)", STR_ARGS(numbers_of(t, index)));
    }
    if (is_known(t, walk)) {
        declare_index(t, walk, part);
    } else {
        str name = part_name(t, walk);
        emit_declare(t, name, "const int %.*s = %.*s;", STR_ARGS(name), STR_ARGS(part));
    }
    if (!last) emit_text(t, "tile /= (unsigned)%.*s;", STR_ARGS(numbers_of(t, index)));
}

/* A walk whose length the others' indices decide; the block ends here if it has no tile. */
static void decode_ragged(emit *t, int index, bool leaves) {
    const tl_walk *walk = &t->model->grid->grid.items[index];
    if (is_known(t, walk)) return;
    emit_lets_of(t, walk->extent);
    str part = part_name(t, walk);
    if (leaves) {
        emit_text(t, "if (%.*s >= %.*s) return; // the walk is shorter here", STR_ARGS(part),
                  STR_ARGS(emit_within(t, emit_walk_extent(t, walk), 10)));
    }
    declare_index(t, walk, part);
}

/* --- what comes before it ------------------------------------------------------------------- */

bool emit_depends_on_grid(const emit *t, const tl_expr *e) {
    return model_depends_on_grid(t->model, e);
}

bool emit_reads_table(const emit *t, const tl_expr *e) {
    return model_reads_element(t->model, e);
}

/* Does a let that is evaluated before the grid read a table? */
static bool reads_before_grid(const emit *t) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            const tl_binding *b = &s->let.items[i];
            bool is_read = !b->axes.count && !emit_depends_on_grid(t, b->value) &&
                           emit_reads_table(t, b->value);
            if (is_read) return true;
        }
    return false;
}

void emit_wait_for_grids(emit *t, bool is_first) {
    bool is_early = t->model->grid && t->model->grid->grid.is_early;
    if (!is_early || is_first != reads_before_grid(t)) return;
    if (is_first || t->is_async) emit_header(t, t->model->grid);
    emit_text(t, "ftl_wait_for_grids();");
    t->plan->is_early = true;
}

/* Blocks of a kernel that yields say so when their first copies are on their way: before they wait
 * for one, or begin a loop. Those of the next kernel are placed once all blocks of this one have
 * said it, so none of this one's waits for the room that they take.
 */
static bool is_where_it_yields(const tl_statement *s) {
    if (s->kind != TL_WAIT && s->kind != TL_FOR) return false;
    if (!s->parent || s->parent->kind != TL_ROLE) return false;
    for (const tl_statement *before = s->previous; before; before = before->previous)
        if (before->kind == TL_WAIT || before->kind == TL_FOR) return false;
    return true;
}

void emit_yield(emit *t, const tl_statement *before) {
    const tl_statement *grid = t->model->grid;
    if (!grid || !grid->grid.is_yielding || !is_where_it_yields(before)) return;
    emit_text(t, "ftl_let_next_begin();");
}

/* --- the block's indices ---------------------------------------------------------------------- */

bool emit_has_lone_warp(const emit *t) {
    return t->warps == 1 && !t->is_async;
}

/* 'begins': where the block does, which waits for earlier kernels before it reads a table. */
static void decode_grid(emit *t, const char *block, bool begins) {
    int count = t->model->grid->grid.count;
    if (emit_has_lone_warp(t)) {
        emit_text(t, "const int tile = (int)%s;", block);
        walk_decode(t, STR("tile"), 0, count);
    } else {
        emit_text(t, "%sunsigned tile = %s;", count == 1 ? "const " : "", block);
        for (int i = 0; i < count; i++) decode_number(t, i);
    }
    if (begins) emit_wait_for_grids(t, false);
    for (int i = 0; i < count; i++) decode_ragged(t, i, begins);
}

bool walk_is_ragged(emit *t) {
    if (walk_is_searched(t)) return false;
    for (int i = 0; t->model->grid && i < t->model->grid->grid.count; i++)
        if (!is_known(t, &t->model->grid->grid.items[i])) return true;
    return false;
}

bool walk_is_open(emit *t, int index) {
    return !is_known(t, &t->model->grid->grid.items[index]);
}

str walk_part_of(emit *t, int index) {
    return part_name(t, &t->model->grid->grid.items[index]);
}

str walk_numbers(emit *t, int index) {
    return numbers_of(t, index);
}

void walk_place_ragged(emit *t) {
    for (int i = 0; i < t->model->grid->grid.count; i++) decode_ragged(t, i, false);
}

str walk_existence(emit *t) {
    str all = {0};
    for (int i = 0; i < t->model->grid->grid.count; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        const emit_name *own = emit_name_find(t, walk->symbol);
        if (is_known(t, walk) || !own) continue;
        str extent = emit_walk_extent(t, walk).text;
        all = emit_format(t, "%.*s%s(unsigned)%.*s < (unsigned)(%.*s)", STR_ARGS(all),
                          all.length ? " && " : "", STR_ARGS(own->name), STR_ARGS(extent));
    }
    return all;
}

void emit_grid(emit *t) {
    if (!t->model->grid) return;
    emit_header(t, t->model->grid);
    decode_grid(t, "blockIdx.x", true);
    emit_about(t, NULL);
}

/* A store after a loop finds its tile anew, so that nothing of it is kept in registers meanwhile.
 */
static bool is_store_after_loop(const tl_statement *s) {
    if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL) return false;
    if (!s->parent || s->parent->kind != TL_ROLE) return false;
    for (const tl_statement *before = s->previous; before; before = before->previous) {
        if (before->kind == TL_FOR) return true;
    }
    return false;
}

void emit_fresh_place(emit *t, const tl_statement *s) {
    emit_fresh_thread(t);
    if (t->model->grid && !t->is_async && is_store_after_loop(s))
        decode_grid(t, "ftl_block()", false);
}
