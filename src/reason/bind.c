/* Pass bind: types, lengths, the grid, starts of sums, a place for every tile (language study 5.3).
 */
#include "reason/meant.h"
#include "reason/pins.h"
#include "reason/scalar.h"
#include "tl/names.h"

#include <string.h>

/* --- types ------------------------------------------------------------------------------------ */

static bool choose_types(reason *r) {
    tl_type dtype = r->options->dtype == TL_OPEN ? TL_F16 : r->options->dtype;
    for (tl_statement *s = r->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_INPUT && s->kind != TL_OUTPUT) continue;
        if (s->parameter.type == TL_OPEN)
            s->parameter.type = s->parameter.axes.count > 0 ? dtype : TL_F32;
        if (r->target && s->parameter.type == TL_BF16 && !gpu_has(r->target, GPU_FEATURE_bf16))
            return reason_stuck(r, s, "%.*s has no products of bf16; f16 is what it has",
                                STR_ARGS(r->target->title));
    }
    return true;
}

/* --- how loops walk --------------------------------------------------------------------------- */

/* A loop `0:length/size` takes blocks of 'size', `0:length` single steps (size NULL). */
typedef struct bind_walk {
    tl_expr *length, *size;
} bind_walk;

static bool walk_of(const tl_statement *loop, bind_walk *walk) {
    tl_expr *to = loop->loop.to;
    if (loop->loop.is_grid_walk || !to) return false;
    if (to->kind == TL_CALL && to->function == TL_FUNCTION_CEIL) to = to->items[0];
    if (to->kind == TL_BINARY && to->operator== TL_OVER) {
        *walk = (bind_walk){to->left, to->right};
        return true;
    }
    *walk = (bind_walk){to, NULL};
    return to->kind == TL_NAME;
}

/* The loop around s that walks the axis, by its index: another axis may be as long. */
static tl_statement *loop_over(reason *r, const tl_statement *s, const tl_axis *axis,
                               bind_walk *walk) {
    for (tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop))
        if (walk_of(loop, walk) && tl_expr_equal(walk->length, axis->extent) &&
            tl_loop_walks_index(r->kernel, loop, walk->length, tl_axis_name(axis)))
            return loop;
    return NULL;
}

static bool is_loop_size(reason *r, const char *name) {
    bind_walk walk;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_FOR && walk_of(s, &walk) && walk.size && walk.size->kind == TL_NAME &&
            str_is(walk.size->text, name))
            return true;
    return false;
}

/* --- the grid --------------------------------------------------------------------------------- */

/* An axis of Outputs that the grid walks: by index, or in blocks of 'size'. */
typedef struct bind_axis {
    str index, variable, size;
    tl_expr *length;
    bool is_block;
} bind_axis;

typedef LIST(bind_axis) bind_axes;

static const bind_axis *find_grid_axis(const bind_axes *grid, str index) {
    for (int i = 0; i < grid->count; i++)
        if (str_equal(grid->items[i].index, index)) return &grid->items[i];
    return NULL;
}

static str size_name(reason *r, const bind_axes *grid, str index, bool is_row) {
    str wanted[] = {is_row ? STR("BM") : STR("BN"),
                    str_format(r->memory, "B%.*s", STR_ARGS(index))};
    for (int k = 0; k < 2; k++) {
        bool is_taken = tl_is_reserved(wanted[k]) || /* `By` for an index y */
                        is_loop_size(r, edit_z(r->memory, wanted[k]));
        for (int i = 0; i < grid->count; i++)
            is_taken = is_taken || str_equal(grid->items[i].size, wanted[k]);
        if (!is_taken) return wanted[k];
    }
    return reason_fresh(r, "%.*s", STR_ARGS(wanted[1]));
}

static void add_block_axis(reason *r, bind_axes *grid, str index, tl_expr *length, bool is_row) {
    if (index.length == 0 || find_grid_axis(grid, index)) return;
    bind_axis axis = {index, reason_fresh(r, "%.*s_block", STR_ARGS(index)),
                      size_name(r, grid, index, is_row), length, true};
    list_push(r->memory, grid, axis);
}

static void add_index_axis(reason *r, bind_axes *grid, str index, tl_expr *length) {
    if (index.length == 0 || find_grid_axis(grid, index)) return;
    bind_axis axis = {index, index, {"", 0}, length, false};
    list_push(r->memory, grid, axis);
}

/* The axis that introduces an index name, in any parameter: for `b` in `pool[table[b, n], ...]`. */
static const tl_axis *axis_of_index(const tl_kernel *kernel, str index) {
    for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
        for (int i = 0; i < t.axes->count && !t.view; i++)
            if (str_equal(tl_axis_index(t.axes, i), index)) return &t.axes->items[i];
    return NULL;
}

/* Index names that a view uses, by way of lets, too, and does not introduce: they belong to the
 * grid.
 */
static void add_free_indices(reason *r, bind_axes *grid, const tl_axes *own, const tl_expr *e,
                             int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return;
    if (e->kind == TL_NAME) {
        for (int i = 0; i < own->count; i++)
            if (str_equal(tl_axis_index(own, i), e->text)) return;
        const tl_binding *let = edit_find_let(r->kernel, e->text, NULL);
        if (let) add_free_indices(r, grid, own, let->value, depth + 1);
        const tl_axis *axis = let ? NULL : axis_of_index(r->kernel, e->text);
        if (axis && !axis->is_bare) add_index_axis(r, grid, e->text, axis->extent);
    }
    add_free_indices(r, grid, own, e->left, depth + 1);
    add_free_indices(r, grid, own, e->right, depth + 1);
    for (int i = 0; i < e->item_count; i++) add_free_indices(r, grid, own, e->items[i], depth + 1);
}

/* A sum along an axis of the Output has to see all of it: no tile of the grid may have a part. */
static bool stays_whole(reason *r, str index, bool *is_whole) {
    const tl_statement *by = NULL;
    if (index.length && !meant_whole_by(r, index, &by)) return false;
    *is_whole = by != NULL;
    if (!by) return true;
    str header = edit_header(r->memory, by);
    reason_decide(r, "grid", "%.*s is not cut into tiles: '%.*s' takes all of it together",
                  STR_ARGS(index), STR_ARGS(header));
    r->whole = reason_say(r,
                          "%s; no tile may have a part of %.*s, for '%.*s' takes all of it "
                          "together",
                          r->whole, STR_ARGS(index), STR_ARGS(header));
    return true;
}

static bool collect_output(reason *r, tl_statement *store, bind_axes *grid, bool want_blocks) {
    str name = edit_copied_tensor(store);
    const tl_axes *axes = tiles_tensor(r->kernel, name);
    if (!axes)
        return reason_stuck(r, store, "%.*s is no Output, and no view of one", STR_ARGS(name));
    int start = tl_matrix_begin(axes);
    bind_walk walk;
    for (int i = start - 1; i >= 0 && !want_blocks; i--) {
        str index = tl_axis_index(axes, i);
        if (index.length == 0)
            return reason_stuck(r, store,
                                "axis %d of %.*s has an expression for its index; an "
                                "Output needs an index name there",
                                i + 1, STR_ARGS(name));
        if (!loop_over(r, store, &axes->items[i], &walk))
            add_index_axis(r, grid, index, axes->items[i].extent);
    }
    tl_binding *view = edit_find_let(r->kernel, edit_bare(name), NULL);
    if (view && view->axes.count > 0 && !want_blocks)
        add_free_indices(r, grid, axes, view->value, 0);
    int count = axes->count - start;
    /* Where a loop walks the rows, columns are all that tiles of the grid can share out. */
    bool is_walked = count > 1 && loop_over(r, store, &axes->items[start], &walk);
    for (int i = start; i < axes->count && want_blocks; i++) {
        int64_t length;
        bool is_row = i == start;
        str index = tl_axis_index(axes, i);
        bool is_short = !(is_row && count > 1) && !is_walked &&
                        reason_known(r, axes->items[i].extent, &length) &&
                        length <= TILES_WHOLE_MAX;
        if (is_short || loop_over(r, store, &axes->items[i], &walk)) continue;
        if (find_grid_axis(grid, index)) continue;
        bool is_whole;
        if (!stays_whole(r, index, &is_whole)) return false;
        if (!is_whole) add_block_axis(r, grid, index, axes->items[i].extent, is_row);
    }
    return true;
}

/* Lists the walks: single indices, the last axis first; then blocks. Tiles of matrices come before
 * those of vectors, so that a vector shares its matrix's blocks.
 */
static bool collect_grid(reason *r, bind_axes *grid) {
    bool any = false;
    for (int round = 0; round < 3; round++)
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL) continue;
            any = true;
            const tl_axes *axes = tiles_tensor(r->kernel, edit_copied_tensor(s));
            bool is_matrix = axes && axes->count - tl_matrix_begin(axes) > 1;
            if ((round == 1 && !is_matrix) || (round == 2 && is_matrix)) continue;
            if (!collect_output(r, s, grid, round > 0)) return false;
        }
    return any || reason_stuck(r, NULL, "kernel %.*s copies nothing to global memory",
                               STR_ARGS(r->kernel->name));
}

static tl_statement *first_action(const tl_kernel *kernel) {
    for (tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind != TL_INPUT && s->kind != TL_OUTPUT && s->kind != TL_LET &&
            s->kind != TL_GRID && s->kind != TL_ALLOCATE)
            return s;
    return NULL;
}

/* A grid that is there already is taken as it is. */
static void read_grid(reason *r, const tl_statement *s, bind_axes *grid) {
    for (int i = 0; i < s->grid.count; i++) {
        const tl_walk *w = &s->grid.items[i];
        bind_axis axis = {w->name, w->name, {"", 0}, w->extent, false};
        if (w->extent->kind == TL_BINARY && w->extent->operator== TL_OVER &&
                                            w->extent->right->kind == TL_NAME &&
                                            str_ends(w->name, STR("_block"))) {
            axis.index = (str){w->name.data, w->name.length - STR("_block").length};
            axis.size = w->extent->right->text;
            axis.length = w->extent->left;
            axis.is_block = true;
        }
        list_push(r->memory, grid, axis);
    }
}

static void write_grid(reason *r, const bind_axes *grid) {
    str text = {"", 0};
    for (int i = 0; i < grid->count; i++) {
        const bind_axis *a = &grid->items[i];
        reason_list(r, &text, ", ", "%.*s in %s", STR_ARGS(a->variable),
                    a->is_block ? edit_factor_text(r->memory, a->length)
                                : edit_text(r->memory, a->length));
        if (a->is_block) reason_list(r, &text, "/", "%.*s", STR_ARGS(a->size));
    }
    reason_before(r, first_action(r->kernel), "grid %.*s // one tile per index tuple",
                  STR_ARGS(text));
}

/* --- places ----------------------------------------------------------------------------------- */

static tl_spot single_spot(reason *r, str index) {
    return (tl_spot){.at = tl_name_expr(r->memory, index)};
}

static tl_spot block_spot(reason *r, str variable) {
    return (tl_spot){.is_block = true, .at = tl_name_expr(r->memory, variable)};
}

/* What the coordinate says on one axis of a tensor, and how long the tile is there (NULL: the axis
 * is none of the tile's). False when nothing walks the axis.
 */
static bool find_spot(reason *r, const bind_axes *grid, const tl_statement *s, const tl_axes *axes,
                      int i, tl_spot *spot, tl_expr **extent) {
    const tl_axis *axis = &axes->items[i];
    str index = tl_axis_name(axis);
    bind_walk walk;
    tl_statement *loop = loop_over(r, s, axis, &walk);
    *extent = NULL;
    if (loop && !walk.size) {
        *spot = single_spot(r, loop->loop.name);
        return true;
    }
    if (i < tl_matrix_begin(axes)) {
        const tl_expr *at = axis->coordinate ? axis->coordinate : axis->extent;
        *spot = (tl_spot){.at = tl_expr_copy(r->memory, at)};
        return index.length == 0 || find_grid_axis(grid, index) || !tiles_index(r->kernel, index);
    }
    const bind_axis *block = find_grid_axis(grid, index);
    if (!loop && block && !block->is_block) {
        *spot = single_spot(r, block->variable);
        return true;
    }
    *extent = loop ? walk.size : block ? tl_name_expr(r->memory, block->size) : axis->extent;
    *spot = loop    ? block_spot(r, loop->loop.name)
            : block ? block_spot(r, block->variable)
                    : (tl_spot){.is_all = true};
    return true;
}

static void set_place(reason *r, tl_place *place, const tl_spot *spots, int count) {
    while (count > 0 && spots[count - 1].is_all) count--;
    place->is_given = count > 0;
    place->count = count;
    place->items = arena_array(r->memory, tl_spot, count > 0 ? count : 1);
    for (int i = 0; i < count; i++) place->items[i] = spots[i];
}

static bool place_copy(reason *r, const bind_axes *grid, tl_statement *s) {
    tl_copy *c = &s->copy;
    str tensor = edit_copied_tensor(s);
    const tl_axes *axes = tiles_tensor(r->kernel, tensor);
    if (!axes) return reason_stuck(r, s, "%.*s is no tensor in global memory", STR_ARGS(tensor));
    if (axes->count > TL_AXES_MAX)
        return reason_stuck(r, s, "%.*s has %d axes; at most %d", STR_ARGS(tensor), axes->count,
                            TL_AXES_MAX);
    tl_spot spots[TL_AXES_MAX];
    tl_expr *extents[TL_AXES_MAX];
    int count = 0;
    for (int i = 0; i < axes->count; i++) {
        tl_expr *extent;
        if (!find_spot(r, grid, s, axes, i, &spots[i], &extent))
            return reason_stuck(r, s,
                                "index %.*s of %.*s is walked by no loop, and no Output has it",
                                STR_ARGS(spots[i].at->text), STR_ARGS(tensor));
        if (extent) extents[count++] = extent;
    }
    if (!c->place.is_given) set_place(r, &c->place, spots, axes->count);
    if (c->shape.count == 0) {
        c->shape.items = arena_array(r->memory, tl_expr *, count > 0 ? count : 1);
        c->shape.count = count;
        for (int i = 0; i < count; i++) c->shape.items[i] = tl_expr_copy(r->memory, extents[i]);
    }
    return true;
}

/* Index names in expressions that no tile axis carries: the loop that steps along them. */
static void name_single_steps(reason *r, tl_statement *s) {
    bind_walk walk;
    for (tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop)) {
        if (!walk_of(loop, &walk) || walk.size) continue;
        for (tl_tensor t = {0}; tl_next_tensor(r->kernel, &t);)
            for (int i = 0; i < t.axes->count && !t.view; i++) {
                const tl_axis *a = &t.axes->items[i];
                str index = tl_axis_name(a);
                if (index.length > 0 && !a->is_bare && tl_expr_equal(a->extent, walk.length) &&
                    tl_loop_walks_index(r->kernel, loop, walk.length, index))
                    edit_rename(s, index, loop->loop.name);
            }
    }
}

static void place_compute(reason *r, const tiles_list *tiles, const bind_axes *grid,
                          tl_statement *s) {
    bool finds_places = s->kind == TL_COMPUTE &&
                        tl_facts(s->compute.operation)->gives_place; /* along the whole axis */
    const tiles_tile *tile =
        tiles_find(tiles, finds_places ? edit_operand_name(s, 0) : edit_target_name(s));
    if (!tile || tile->axis_count < 1 || s->compute.place.is_given) return;
    bool mentions = false;
    tl_spot spots[TILES_AXES_MAX];
    for (int i = 0; i < tile->axis_count; i++) {
        mentions = mentions || edit_reads(s, tile->axes[i]);
        const bind_axis *block = find_grid_axis(grid, tile->axes[i]);
        if (tiles_walk(r, s, tile->axes[i], &spots[i]))
            spots[i].at = tl_expr_copy(r->memory, spots[i].at);
        else if (block && block->is_block) spots[i] = block_spot(r, block->variable);
        else spots[i] = (tl_spot){.is_all = true};
    }
    mentions = mentions || (finds_places && !spots[tile->axis_count - 1].is_all);
    if (mentions) set_place(r, &s->compute.place, spots, tile->axis_count);
}

/* An index that no axis of the tile carries has its value from a loop or from the grid. */
static const tl_expr *lost_index(reason *r, const tiles_tile *tile, const bind_axes *grid,
                                 const tl_statement *s, const tl_expr *e) {
    if (!e) return NULL;
    if (e->kind == TL_NAME && tiles_has_index(r->kernel, e->text) &&
        tiles_axis(tile, e->text) < 0) {
        const bind_axis *walk = find_grid_axis(grid, e->text);
        bool has_value = walk && !walk->is_block;
        for (tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop))
            has_value = has_value || str_equal(loop->loop.name, e->text);
        if (!has_value) return e;
    }
    const tl_expr *lost = lost_index(r, tile, grid, s, e->left);
    if (!lost) lost = lost_index(r, tile, grid, s, e->right);
    for (int i = 0; i < e->item_count && !lost; i++)
        lost = lost_index(r, tile, grid, s, e->items[i]);
    return lost;
}

static bool indices_have_values(reason *r, const tiles_list *tiles, const bind_axes *grid,
                                const tl_statement *s) {
    const tiles_tile *tile = tiles_find(tiles, edit_target_name(s));
    if (!tile || tile->axis_count < 0) return true;
    const tl_expr *lost = lost_index(r, tile, grid, s, s->compute.condition);
    for (int i = 0; i < s->compute.operand_count && !lost; i++)
        lost = lost_index(r, tile, grid, s, s->compute.operands[i].value);
    return !lost || reason_stuck(r, s,
                                 "the index %.*s has no value here: no loop around this walks it, "
                                 "and no Output has it",
                                 STR_ARGS(lost->text));
}

static bool place_computes(reason *r, const bind_axes *grid) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE) name_single_steps(r, s);
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE) {
            if (!indices_have_values(r, tiles, grid, s)) return false;
            place_compute(r, tiles, grid, s);
        }
    return true;
}

/* --- starts of sums --------------------------------------------------------------------------- */

/* The outermost loop around the first accumulation that holds all accumulations into 'name' and no
 * other use of it.
 */
static tl_statement *start_point(reason *r, tl_statement *s, str name) {
    tl_statement *at = s;
    for (tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop)) {
        for (tl_statement *t = tl_next(loop, loop); t; t = tl_next(t, loop)) {
            bool is_sum = t->kind == TL_COMPUTE && t->compute.target_kind == TL_ACCUMULATE &&
                          edit_writes(t, name);
            if ((edit_reads(t, name) || edit_writes(t, name)) && (!is_sum || edit_takes(t, name)))
                return at;
        }
        for (tl_statement *t = r->kernel->body.first; t; t = tl_next(t, NULL))
            if (t->kind == TL_COMPUTE && t->compute.target_kind == TL_ACCUMULATE &&
                edit_writes(t, name) && !edit_is_within(t, loop) &&
                edit_is_before(r->kernel, t, loop))
                return at;
        at = loop;
    }
    return at;
}

static bool start_sums(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || s->compute.target_kind != TL_ACCUMULATE) continue;
        str name = s->compute.target->text;
        const tl_statement *use = NULL;
        bool is_started = false;
        for (tl_statement *t = r->kernel->body.first; t != s; t = tl_next(t, NULL)) {
            if (!use && !is_started && edit_reads(t, name)) use = t;
            is_started = is_started || edit_writes(t, name);
        }
        if (use) { /* it would start in each round after its use */
            reason_stuck(r, use, "%.*s is read before anything is written to it", STR_ARGS(name));
            return reason_advise(r, "what goes on from round to round starts before the loop: "
                                    "`Compute Fill 0 and get ...`");
        }
        if (is_started) continue;
        double start = tl_start(s->compute.operation);
        reason_before(r, start_point(r, s, name), "Compute Fill %s and get %.*s // %s",
                      tl_neutral_text(start), STR_ARGS(name),
                      start < 0   ? "minus infinity: the maximum of nothing"
                      : start > 0 ? "infinity: the minimum of nothing"
                                  : "the sum starts");
    }
    return true;
}

/* Where tiles lie is decided by later passes, which would write a second Allocate. */
static bool refuse_allocates(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_ALLOCATE)
            return reason_stuck(r, s,
                                "a kernel without a role is a sketch, whose tiles get their place "
                                "from the reasoner: take out this Allocate (`let BN = 64` pins a "
                                "size, `let stages = 3` the slots of tiles that a loop copies)");
    return true;
}

bool reason_bind(reason *r) {
    r->whole = "";
    if (r->target) r->kernel->gpu = r->target->word;
    if (!refuse_allocates(r)) return false;
    if (!first_action(r->kernel))
        return reason_stuck(r, NULL, "kernel %.*s does nothing", STR_ARGS(r->kernel->name));
    if (!pins_apply(r) || !choose_types(r)) return false;
    reason_scales(r);
    if (!reason_top(r)) return false;
    reason_copy_parts(r);
    reason_name_versions(r);
    reason_halve(r);
    if (!meant_name_indices(r)) return false;
    bind_axes grid = {0};
    tl_statement *given = scalar_grid(r->kernel);
    if (given) {
        read_grid(r, given, &grid);
    } else {
        if (!collect_grid(r, &grid)) return false;
        write_grid(r, &grid);
    }
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COPY && (s->copy.from == TL_GLOBAL || s->copy.to == TL_GLOBAL) &&
            !place_copy(r, &grid, s))
            return false;
    if (!place_computes(r, &grid)) return false;
    if (!start_sums(r)) return false;
    pins_drop(r);
    return true;
}
