/* Pass place: spaces, types, layouts and instructions; casts between products; one role. */
#include "reason/place.h"
#include "atom/atom.h"

#include "reason/panels.h"
#include "reason/scalar.h"
#include "reason/warpgroups.h"

/* --- 16-bit copies of computed left operands -------------------------------------------------- */

/* Type of the right operand that a computed left operand meets. */
static tl_type operand_type(const place_plan *plan, const tl_statement *s) {
    const place_role *right = place_find(plan, edit_operand_name(s, 1));
    return right && right->tile->storage != TL_OPEN ? right->tile->storage : TL_F16;
}

typedef struct cast_tile {
    str from, name;
    tl_type type;
} cast_tile;

typedef LIST(cast_tile) cast_tiles;

/* The Reshape that last made a left operand of 'from', if 'from' was not written since. */
static bool is_still_cast(const tl_statement *s, str from, str cast) {
    for (const tl_statement *p = s->previous; p; p = p->previous) {
        if (p->kind == TL_RESHAPE && str_equal(p->reshape.what->text, cast)) return true;
        if (edit_writes_within((tl_statement *)p, from)) return false;
    }
    return false;
}

/* Weights of 8 bits that are equal round alike: where numerator and denominator take the same ones,
 * none of that is left in their quotient.
 */
static void sum_rounded(reason *r, tl_statement *product, str from, str cast) {
    tl_statement *sum = NULL, *reshape = NULL;
    for (tl_statement *s = product->previous; s && !sum; s = s->previous) {
        if (s->kind == TL_RESHAPE && str_equal(s->reshape.what->text, cast)) reshape = s;
        if (edit_is_compute(s, TL_ROW_SUM) && edit_operand_is(s, 0, from)) sum = s;
    }
    if (!sum || !reshape) return;
    edit_move_before(r->kernel, reshape, sum);
    sum->compute.operands[0].value = tl_name_expr(r->memory, cast);
    sum->comment = STR("of weights as they are rounded: a product with ones");
}

static void cast_operands(reason *r, place_plan *plan, cast_tiles *casts) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s)) continue;
        str from = edit_operand_name(s, 0);
        const place_role *role = place_find(plan, from);
        if (!role || !role->has_cast) continue;
        const cast_tile *cast = NULL;
        for (int i = 0; i < casts->count; i++)
            if (str_equal(casts->items[i].from, from)) cast = &casts->items[i];
        if (!cast) {
            cast_tile fresh = {from, reason_fresh(r, "P"), operand_type(plan, s)};
            list_push(r->memory, casts, fresh);
            cast = &casts->items[casts->count - 1];
        }
        bool is_byte = tiles_has_byte_warps(r) && tl_is_narrow(cast->type); /* by warps */
        bool stays = is_byte || tiles_is_permuted(r->kernel, edit_operand_name(s, 1));
        if (!is_still_cast(s, from, cast->name))
            reason_before(r, s,
                          "Compute Cast %.*s and get %.*s // rounded to %d bits, same layout\n"
                          "Reshape %.*s from mma_C to mma_A%s // accumulator to left operand: %s\n",
                          STR_ARGS(from), STR_ARGS(cast->name), tl_type_bits(cast->type),
                          STR_ARGS(cast->name), stays ? " permuted" : "",
                          stays                      ? "packing alone"
                          : tl_is_narrow(cast->type) ? "shuffles"
                                                     : "a renaming");
        s->compute.operands[0].value = tl_name_expr(r->memory, cast->name);
        if (is_byte) sum_rounded(r, s, from, cast->name);
    }
}

/* --- loaded tiles that are computed on -------------------------------------------------------- */

/* A 16-bit tile from memory that arithmetic writes again becomes an f32 tile of its own. */
static void widen(reason *r, place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        place_role *role = &plan->roles[i];
        if (!role->tile->from_global || role->in_shared || !role->is_changed ||
            role->tile->storage == TL_F32 || role->tile->storage == TL_I32)
            continue;
        str name = role->tile->name;
        str wide = reason_fresh(r, "%.*s_wide", STR_ARGS(name));
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (edit_loads(s, name)) {
                tl_block cast = tl_quote(r->memory, "Compute Cast %.*s and get %.*s // exact",
                                         STR_ARGS(name), STR_ARGS(wide));
                tl_statement *made = cast.first;
                edit_after(r->kernel, s, cast);
                edit_rename_from(made->next, name, wide);
            }
        }
    }
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *place_name(reason *r, const place_role *role, bool is_shared) {
    bool is_tensor = tiles_tensor(r->kernel, role->tile->name) != NULL;
    bool is_filled = role->in_shared && role->tile->from_global; /* a channel, by its place */
    bool is_plain = !is_tensor && !is_filled && role->in_shared != role->in_register;
    return edit_z(r->memory, is_plain ? role->tile->name
                                      : str_format(r->memory, "%.*s_%s", STR_ARGS(role->tile->name),
                                                   is_shared ? "shared" : "register"));
}

/* Bare names become names of places. */
static void name_places(reason *r, place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        const place_role *role = &plan->roles[i];
        str to = str_from(place_name(r, role, !role->in_register));
        if (str_equal(to, role->tile->name)) continue;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (s->kind != TL_COPY) edit_rename(s, role->tile->name, to);
    }
}

/* --- copies ----------------------------------------------------------------------------------- */

static void place_copies(reason *r, place_plan *plan) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY) continue;
        if (s->copy.to == TL_GLOBAL) {
            s->copy.from = TL_REGISTER;
            continue;
        }
        if (s->copy.from != TL_GLOBAL) continue;
        const place_role *role = place_find(plan, edit_target_name(s));
        s->copy.to = role->in_shared ? TL_SHARED : TL_REGISTER;
    }
}

/* The statement of the copy's block that uses the tile first, or has one in it that does. */
static tl_statement *first_use_of(reason *r, tl_statement *copy, str name) {
    for (tl_statement *s = tl_next(copy, NULL); s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && (edit_reads(s, name) || edit_writes(s, name)))
            return edit_ancestor_in(r->kernel, s, tl_block_of(r->kernel, copy));
    return NULL;
}

/* What is copied twice comes once. */
static void read_twins(reason *r, const place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *tile = plan->roles[i].tile, *twin = plan->roles[i].twin;
        if (!twin) continue;
        tl_statement *copy = edit_load_of(r->kernel, tile->name),
                     *source = edit_load_of(r->kernel, twin->name),
                     *first = first_use_of(r, copy, tile->name);
        if (!first) continue;
        if (edit_is_before(r->kernel, copy, source)) edit_move_before(r->kernel, copy, source);
        reason_before(r, first,
                      "Copy %.*s from shared to register and get %.*s by ldmatrix // the rows of "
                      "each warp",
                      STR_ARGS(twin->name), STR_ARGS(tile->name));
        edit_remove(r->kernel, copy);
        reason_decide(r, "copies", "%.*s is read from the slot of %.*s, which is the same",
                      STR_ARGS(tile->name), STR_ARGS(twin->name));
    }
}

/* What is held in registers comes there right before its first use, or that use's loop. */
static bool hold_operands(reason *r, place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        const place_role *role = &plan->roles[i];
        if (!role->in_shared || !role->in_register) continue;
        const char *name = edit_z(r->memory, role->tile->name);
        tl_statement *copy = NULL, *first = NULL;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind == TL_COPY && s->copy.from == TL_GLOBAL &&
                edit_writes(s, role->tile->name)) {
                if (copy)
                    return reason_stuck(r, s, "%s is held in registers and copied twice", name);
                copy = s;
            }
        }
        if (copy) first = first_use_of(r, copy, role->tile->name);
        if (!copy || !first)
            return reason_stuck(r, role->tile->first, "%s is used before it is copied", name);
        reason_before(r, first, "Copy %s from shared to register by ldmatrix // %s", name,
                      role->is_through ? "the rows of each warp" : "fragments of all steps");
        edit_remove_let(r->kernel, str_format(r->memory, "%s_in_registers", name));
    }
    return true;
}

/* Parts of a sum are added up right after the loop. */
static void complete_sums(reason *r, place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        if (!plan->roles[i].is_partial) continue;
        tl_statement *loop = NULL;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (edit_is_compute(s, TL_ROW_SUM) && edit_writes(s, plan->roles[i].tile->name))
                for (tl_statement *l = edit_loop_of(s); l; l = edit_loop_of(l)) loop = l;
        if (loop)
            reason_after(
                r, loop,
                "Reshape %.*s from partial rows to rows // the lanes of a row, once a tile",
                STR_ARGS(plan->roles[i].tile->name));
    }
}

/* --- instructions ----------------------------------------------------------------------------- */

/* On how many parts of the columns its warpgroups work. */
static int64_t column_parts(reason *r, const place_plan *plan, const tl_statement *s) {
    str row, column;
    int64_t rows = 0;
    const place_role *left = place_find(plan, edit_operand_name(s, 0));
    bool is_stored = left && left->in_shared &&
                     (left->tile->from_register || s->compute.operands[0].is_transposed);
    if (!plan->warpgroups || !is_stored ||
        !tiles_operand_axes(plan->tiles, &s->compute.operands[0], &row, &column) ||
        !reason_known(r, tiles_extent(plan->tiles, row)->extent, &rows))
        return 1;
    int64_t parts = warpgroups_column_parts(rows, plan->warpgroups, is_stored);
    return parts > 0 ? parts : 1;
}

/* The columns of a product of warpgroups: an atom per width, m64n128k16. 0: none fits. */
static int product_width(reason *r, const place_plan *plan, const tl_statement *s) {
    str row, column;
    int64_t columns = 0;
    bool is_known = tiles_operand_axes(plan->tiles, &s->compute.operands[1], &row, &column) &&
                    reason_known(r, tiles_extent(plan->tiles, column)->extent, &columns);
    columns /= column_parts(r, plan, s);
    bool fits = is_known && columns > 0 && columns <= ATOM_WIDTH_MAX;
    return fits && columns % ATOM_WIDTH_UNIT == 0 ? (int)columns : 0;
}

static bool choose_atoms(reason *r, const place_plan *plan, bool is_async) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s) || s->compute.atom.length > 0) continue;
        const atom_product *atom = atom_best_product(r->target, operand_type(plan, s), is_async);
        if (!atom)
            return reason_stuck(r, s, "%.*s has no product instruction for %s operands",
                                STR_ARGS(r->target->title), tl_type_name(operand_type(plan, s)));
        int width = is_async ? product_width(r, plan, s) : atom->n;
        if (!width)
            return reason_stuck(r, s,
                                "a product of warpgroups has a multiple of %d columns, up to %d",
                                ATOM_WIDTH_UNIT, ATOM_WIDTH_MAX);
        s->compute.atom = atom_product_word(r->memory, atom, width);
    }
    return true;
}

/* The same of the products that take this right operand. */
static int64_t parts_of_right(reason *r, const place_plan *plan, str name) {
    int64_t most = 1;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        bool takes = edit_is_product(s) && str_equal(edit_bare(edit_operand_name(s, 1)), name);
        int64_t parts = takes ? column_parts(r, plan, s) : 1;
        if (parts > most) most = parts;
    }
    return most;
}

/* Sums whose columns are divided among the warpgroups say so. */
static void divide_columns(reason *r, const place_plan *plan, tl_block registers) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        int64_t parts = edit_is_product(s) ? column_parts(r, plan, s) : 1;
        if (parts < 2) continue;
        for (tl_statement *a = registers.first; a; a = a->next)
            if (str_equal(a->allocate.names[0], edit_bare(edit_target_name(s)))) {
                tl_layout *layout = &a->allocate.layout;
                layout->over_rows = 1;
                layout->over_columns = (int)parts;
            }
    }
}

/* --- allocations ------------------------------------------------------------------------------ */

/* The widest swizzle whose runs divide a line; of panels that may be open, the one chosen. */
static int swizzle_of(reason *r, const place_plan *plan, const place_role *role,
                      int64_t *line_bytes) {
    const tiles_span *last =
        tiles_extent(plan->tiles, role->tile->axes[role->tile->axis_count - 1]);
    int64_t columns = 0, widest;
    if (!last || !reason_known(r, last->extent, &columns)) return 0;
    *line_bytes = columns * tl_type_bytes(role->tile->storage);
    int64_t parts = parts_of_right(r, plan, role->tile->name);
    if (parts > 1) return panels_dividing(*line_bytes / parts); /* none is of two warpgroups */
    return reason_let_integer(r, "panel_bytes", &widest) &&
                   panels_may_be_open(r, plan->tiles, role->tile)
               ? panels_swizzle(*line_bytes, widest)
               : panels_dividing(*line_bytes);
}

static int64_t tile_elements(reason *r, const place_plan *plan, const tiles_tile *tile) {
    int64_t elements = 1, extent;
    for (int i = 0; i < tile->axis_count; i++) {
        const tiles_span *e = tiles_extent(plan->tiles, tile->axes[i]);
        if (!e || !reason_known(r, e->extent, &extent)) return 0;
        elements *= extent;
    }
    return elements;
}

static tl_block shared_allocations(reason *r, place_plan *plan) {
    tl_block all = {0};
    for (int i = 0; i < plan->count; i++) {
        const place_role *role = &plan->roles[i];
        if (!role->in_shared) continue;
        int64_t line_bytes = 0;
        int swizzle = swizzle_of(r, plan, role, &line_bytes);
        int64_t bytes = tile_elements(r, plan, role->tile) * tl_type_bytes(role->tile->storage);
        if (line_bytes > 0) bytes = bytes / line_bytes * panels_line_bytes(line_bytes, swizzle);
        str text = str_format(r->memory, "Allocate %.*s in shared %s (%s)",
                              STR_ARGS(role->tile->name), tl_type_name(role->tile->storage),
                              tiles_shape_text(r, plan->tiles, role->tile));
        if (tiles_is_permuted(r->kernel, role->tile->name)) reason_list(r, &text, "", " permuted");
        if (swizzle > 0) reason_list(r, &text, "", " swizzled %d", swizzle);
        reason_append(r, &all, "%.*s // %lld KiB a slot", STR_ARGS(text),
                      (long long)((bytes + 1023) / 1024));
    }
    return all;
}

static str layout_text(reason *r, const place_role *role) {
    const char *partial = role->is_partial ? "partial " : "";
    if (role->layout == TL_ROWS || role->layout == TL_COLUMNS)
        return str_format(r->memory, "%s%s of %.*s", partial, tl_layout_kind_name(role->layout),
                          STR_ARGS(role->of));
    if (role->alternates && role->layout == TL_MMA_C) return STR("mma_C permuted");
    return str_from(tl_layout_kind_name(role->layout));
}

static void add_register(reason *r, tl_block *all, const char *names, tl_type type,
                         const char *shape, str layout, const char *comment) {
    reason_append(r, all, "Allocate %s in register %s (%s) as %.*s // %s", names,
                  tl_type_name(type), shape, STR_ARGS(layout), comment);
}

static bool same_allocation(reason *r, const place_plan *plan, const place_role *a,
                            const place_role *b) {
    return a->tile->axis_count == b->tile->axis_count && a->type == b->type &&
           str_equal(layout_text(r, a), layout_text(r, b)) &&
           str_equal(str_from(tiles_shape_text(r, plan->tiles, a->tile)),
                     str_from(tiles_shape_text(r, plan->tiles, b->tile)));
}

static void allocate_group(reason *r, place_plan *plan, int first, bool *done, tl_block *all) {
    const place_role *role = &plan->roles[first];
    str names = role->tile->name;
    done[first] = true;
    bool is_vector = role->tile->axis_count == 1;
    for (int i = first + 1; is_vector && i < plan->count; i++) {
        if (done[i] || !plan->roles[i].in_register ||
            !same_allocation(r, plan, role, &plan->roles[i]))
            continue;
        reason_list(r, &names, ", ", "%.*s", STR_ARGS(plan->roles[i].tile->name));
        done[i] = true;
    }
    const char *comment = "";
    if (!is_vector) {
        int64_t registers =
            tile_elements(r, plan, role->tile) * tl_type_bits(role->type) / 32 / (plan->warps * 32);
        comment = reason_say(r, "%lld registers a thread", (long long)registers);
    } else if (role->is_partial) {
        comment = "each lane holds its own part of the sum";
    } else {
        comment = role->layout == TL_ROWS ? "a value per row" : "a value per column";
    }
    add_register(r, all, edit_z(r->memory, names), role->type,
                 tiles_shape_text(r, plan->tiles, role->tile), layout_text(r, role), comment);
}

/* In two places, one may be made while a product still reads the other. */
static str cast_layout(reason *r) {
    int64_t stages = reason_decided(r, 1, "casts");
    return stages > 1 ? str_format(r->memory, "mma_C stages %lld", (long long)stages)
                      : STR("mma_C");
}

static tl_block register_allocations(reason *r, place_plan *plan, const cast_tiles *casts) {
    tl_block all = {0};
    bool *done = arena_array(r->memory, bool, plan->count > 0 ? plan->count : 1);
    for (int want_vectors = 0; want_vectors < 2; want_vectors++)
        for (int i = 0; i < plan->count; i++) {
            const place_role *role = &plan->roles[i];
            if (done[i] || !role->in_register || (role->tile->axis_count == 1) != want_vectors)
                continue;
            allocate_group(r, plan, i, done, &all);
            for (int k = 0; k < casts->count; k++)
                if (str_equal(casts->items[k].from, role->tile->name))
                    add_register(r, &all, edit_z(r->memory, casts->items[k].name),
                                 casts->items[k].type, tiles_shape_text(r, plan->tiles, role->tile),
                                 cast_layout(r),
                                 reason_say(r, "its %d-bit copy, a left operand",
                                            tl_type_bits(casts->items[k].type)));
        }
    return all;
}

/* --- the role --------------------------------------------------------------------------------- */

static tl_block role_header(reason *r, const place_plan *plan, int64_t warpgroups) {
    if (warpgroups > 0)
        return tl_quote(r->memory,
                        "role math with %lld warpgroup%s, %d registers // %d rows each\nend",
                        (long long)warpgroups, warpgroups == 1 ? "" : "s",
                        warpgroups_math_registers(r, warpgroups), WARPGROUP_ROWS);
    return tl_quote(r->memory,
                    "role math with %lld warp%s // all of them execute every statement\nend",
                    (long long)plan->warps, plan->warps == 1 ? "" : "s");
}

static void wrap_in_role(reason *r, tl_block role, tl_block shared, tl_block registers) {
    tl_kernel *kernel = r->kernel;
    tl_statement *math = role.first;
    edit_append(&math->role.body, math, registers);
    for (tl_statement *s = kernel->body.first, *next; s; s = next) {
        next = s->next;
        bool is_action = s->kind != TL_INPUT && s->kind != TL_OUTPUT && s->kind != TL_LET &&
                         s->kind != TL_GRID && s->kind != TL_ALLOCATE;
        if (!is_action) continue;
        tl_remove(&kernel->body, s);
        edit_append(&math->role.body, math, (tl_block){s, s});
    }
    edit_append(&kernel->body, NULL, shared);
    edit_append(&kernel->body, NULL, role);
}

bool reason_place(reason *r) {
    place_plan plan = {.warps = reason_decided(r, 4, "warps")};
    int64_t warpgroups = reason_decided(r, 0, "warpgroups");
    if (reason_decided(r, 0, "pair")) warpgroups = 1; /* pass pair makes two of it */
    plan.warpgroups = warpgroups;
    if (warpgroups > 0) plan.warps = warpgroups * WARPGROUP_WARPS;
    if (plan.warps < 1 || plan.warps > r->target->block_threads / 32)
        return reason_stuck(r, NULL, "a block of %lld warps does not exist on %.*s",
                            (long long)plan.warps, STR_ARGS(r->target->title));
    if (!place_plan_read(r, &plan)) return false;
    widen(r, &plan);
    if (!place_plan_read(r, &plan)) return false;
    cast_tiles casts = {0};
    complete_sums(r, &plan);
    cast_operands(r, &plan, &casts);
    read_twins(r, &plan);
    if (!hold_operands(r, &plan) || !choose_atoms(r, &plan, warpgroups > 0)) return false;
    place_copies(r, &plan);
    tl_block shared = shared_allocations(r, &plan);
    tl_block registers = register_allocations(r, &plan, &casts);
    if (warpgroups > 0) divide_columns(r, &plan, registers);
    name_places(r, &plan);
    wrap_in_role(r, role_header(r, &plan, warpgroups), shared, registers);
    return true;
}
