/* Pass finish: the way of results to memory, and the order of tiles. */
#include "reason/panels.h"
#include "reason/walk.h"
#include "reason/warpgroups.h"

/* --- results through shared memory ------------------------------------------------------------ */

/* The role that computes. */
static tl_statement *find_role(const tl_kernel *kernel) {
    tl_statement *math = warpgroups_role(kernel);
    for (tl_statement *s = kernel->body.first; s && !math; s = s->next)
        if (s->kind == TL_ROLE) math = s;
    return math;
}

static int64_t slot_bytes(reason *r, const tl_statement *allocation, tl_type type, int swizzle) {
    int64_t lines = 1, extent = 0;
    for (int i = 0; i < allocation->allocate.shape.count; i++) {
        lines *= i > 0 ? extent : 1;
        if (!reason_known(r, allocation->allocate.shape.items[i], &extent)) return 0;
    }
    return lines * panels_line_bytes(extent * tl_type_bits(type) / 8, swizzle);
}

static int64_t all_bytes(reason *r, const tl_statement *allocation) {
    int64_t stages = 1;
    if (allocation->allocate.stages) reason_known(r, allocation->allocate.stages, &stages);
    return slot_bytes(r, allocation, allocation->allocate.type,
                      allocation->allocate.swizzle_bytes) *
           stages;
}

/* The last statement of the role that touches the shared tile must be before 's'. */
static bool is_done_before(reason *r, str name, const tl_statement *s) {
    const tl_statement *last = edit_last_release(r->kernel, name);
    return last && edit_is_before(r->kernel, last, s) &&
           !edit_is_within(s, edit_loop_of(last) ? edit_loop_of(last) : last);
}

/* Bytes of a tile's place: its own, or those of the longest tile that shares them. */
static int64_t place_bytes(reason *r, const tl_statement *allocation) {
    int64_t most = all_bytes(r, allocation);
    str name = allocation->allocate.names[0];
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        if (s->kind == TL_ALLOCATE && str_equal(edit_bare(s->allocate.in_place_of), name) &&
            all_bytes(r, s) > most)
            most = all_bytes(r, s);
    return most;
}

static int64_t total_bytes(reason *r) {
    int64_t total = 0;
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        if (s->kind == TL_ALLOCATE && s->allocate.space == TL_SHARED &&
            s->allocate.in_place_of.length == 0)
            total += place_bytes(r, s);
    return total;
}

/* Blocks that fit a multiprocessor, registers being what such kernels use. */
static int resident(reason *r, int64_t bytes) {
    enum { USUAL_REGISTERS = 200 };
    tl_statement *role = find_role(r->kernel);
    gpu_block block = {
        .threads = role->role.executors * 32, .registers = USUAL_REGISTERS, .shared_bytes = bytes};
    return bytes <= r->target->block_shared ? gpu_occupancy(r->target, block, NULL) : 0;
}

/* A shared tile whose bytes can take a result: free by then, and long enough, or growing does not
 * cost a resident block. Tiles that are no rings first, then the longest.
 */
static tl_statement *find_room(reason *r, const tl_statement *store, int64_t bytes) {
    tl_statement *best = NULL;
    int64_t total = total_bytes(r);
    for (tl_statement *s = r->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_SHARED ||
            s->allocate.in_place_of.length > 0 || edit_is_host(r->kernel, s->allocate.names[0]) ||
            !is_done_before(r, s->allocate.names[0], store))
            continue;
        int64_t own = all_bytes(r, s);
        if (own < bytes && resident(r, total - own + bytes) < resident(r, total)) continue;
        bool is_plain = !s->allocate.stages, best_is_plain = best && !best->allocate.stages;
        if (!best || (is_plain && !best_is_plain) ||
            (is_plain == best_is_plain && own > all_bytes(r, best)))
            best = s;
    }
    return best;
}

/* A box that is stored reaches to the end of 16 bytes of a row, where the row may end before; and
 * to the tensor's end, where a view of it may.
 */
static bool may_store_boxes(reason *r, str name) {
    enum { BOX_BITS = 128 };
    const tl_axes *axes = tiles_tensor(r->kernel, name);
    tl_tensor t;
    int64_t length;
    return tl_find_tensor(r->kernel, name, &t) && !t.view && axes->count > 0 &&
           reason_known(r, axes->items[axes->count - 1].extent, &length) &&
           length * tl_type_bits(tiles_tensor_type(r->kernel, name)) % BOX_BITS == 0;
}

/* Of a result on its way out. Its panels may be open where boxes end with the tensor's rows. */
static int swizzle_of(reason *r, const tl_statement *tile, str name) {
    const tl_exprs *shape = &tile->allocate.shape;
    const tl_axes *axes = tiles_tensor(r->kernel, name);
    int64_t columns = 0, widest, length;
    reason_known(r, shape->items[shape->count - 1], &columns);
    bool may_be_open = reason_let_integer(r, "panel_bytes", &widest) && may_store_boxes(r, name) &&
                       reason_known(r, axes->items[axes->count - 1].extent, &length) &&
                       columns >= length;
    return may_be_open ? panels_swizzle(columns * 2, widest) : panels_dividing(columns * 2);
}

/* The allocation of a result on its way out, without clauses that say whose bytes it takes. */
static const char *allocation_text(reason *r, const tl_statement *tile, str name, tl_type type) {
    const tl_exprs *shape = &tile->allocate.shape;
    str text = str_format(r->memory, "Allocate %.*s in shared %s (%s, %s)", STR_ARGS(name),
                          tl_type_name(type), edit_text(r->memory, shape->items[0]),
                          edit_text(r->memory, shape->items[1]));
    int swizzle = swizzle_of(r, tile, name);
    if (swizzle > 0) reason_list(r, &text, "", " swizzled %d", swizzle);
    return edit_z(r->memory, text);
}

static void allocate_after(reason *r, tl_statement *at, const char *text) {
    while (at->next && at->next->kind == TL_ALLOCATE) at = at->next;
    reason_after(r, at, "%s", text);
}

static void store_in_room(reason *r, tl_statement *store, const tl_statement *tile, tl_type type,
                          tl_statement *room) {
    str name = store->copy.what->text, host = room->allocate.names[0];
    allocate_after(r, room,
                   reason_say(r, "%s in place of %.*s_shared // the same bytes, afterwards",
                              allocation_text(r, tile, name, type), STR_ARGS(host)));
    reason_before(r, store,
                  "Copy %.*s from register to shared // rounds; starts when all warps have "
                  "released %.*s\n"
                  "Wait %.*s_shared // it has landed\n",
                  STR_ARGS(name), STR_ARGS(host), STR_ARGS(name));
    store->copy.from = TL_SHARED;
    store->comment = STR("lines of 16 bytes a lane; elements past the end are not stored");
    reason_after(r, store, "Release %.*s_shared // bytes free", STR_ARGS(name));
    reason_decide(r, "results",
                  "%.*s leaves through shared memory, in the bytes of %.*s: 16 bytes a "
                  "lane instead of 4",
                  STR_ARGS(name), STR_ARGS(host));
}

/* A tile that stands for the whole of a grid's tile and has one slot: its role refills it in strict
 * turns with a result that takes its bytes.
 */
static tl_statement *find_standing_room(reason *r, int64_t bytes) {
    for (tl_statement *s = r->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_SHARED || s->allocate.stages ||
            s->allocate.in_place_of.length > 0 || edit_is_host(r->kernel, s->allocate.names[0]) ||
            all_bytes(r, s) < bytes)
            continue;
        const tl_statement *release = edit_last_release(r->kernel, s->allocate.names[0]);
        if (release && !edit_loop_of(release)) return s;
    }
    return NULL;
}

/* Does a decision, or the want of bytes, let a result leave from registers? */
static bool is_kept_from_shared(reason *r, str name, bool has_bytes) {
    int64_t wanted = reason_take(r, 1, reason_say(r, "%.*s_in_shared", STR_ARGS(name)));
    if (has_bytes && wanted != 0) return false;
    reason_decide(r, "results", "%.*s leaves from registers%s", STR_ARGS(name),
                  has_bytes ? "" : ": no shared memory is left");
    return true;
}

/* Copies that store to the tensor, or add to it: a loop that later passes wrote out in parts has
 * several.
 */
static int count_stores(const tl_kernel *kernel, str tensor) {
    int count = 0;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        count += s->kind == TL_COPY && s->copy.to == TL_GLOBAL &&
                 str_equal(edit_copied_tensor(s), tensor);
    return count;
}

/* Bytes that are free when the next round brings its part: the unit has read the one before. */
static void free_before(reason *r, tl_statement *loop, tl_statement *store, str out, str tensor) {
    reason_before(r, store,
                  "if %.*s > %s // the round before has left these bytes\n"
                  "Wait %.*s_global // the unit has read its source\n"
                  "Release %.*s // bytes free\n"
                  "end\n",
                  STR_ARGS(loop->loop.name), edit_factor_text(r->memory, loop->loop.from),
                  STR_ARGS(tensor), STR_ARGS(out));
    tl_block last = tl_quote(r->memory,
                             "Wait %.*s_global // the unit has read its source\n"
                             "Release %.*s // bytes free\n",
                             STR_ARGS(tensor), STR_ARGS(out));
    if (!reason_is_never_empty(r, loop))
        last = reason_under(r,
                            reason_say(r, "%s < %s", edit_factor_text(r->memory, loop->loop.from),
                                       edit_factor_text(r->memory, loop->loop.to)),
                            "there was a round", last);
    edit_after(r->kernel, loop, last);
}

/* Warpgroups: by stmatrix and the tensor memory accelerator, each its own rows. */
static void store_by_tma(reason *r, tl_statement *store, const tl_statement *tile, tl_type type) {
    enum { BARRIER_BYTES = 1024 }; /* of all channels */
    str name = store->copy.what->text;
    int64_t bytes = slot_bytes(r, tile, type, swizzle_of(r, tile, name));
    bool has_own = total_bytes(r) + bytes + BARRIER_BYTES <= r->target->block_shared;
    tl_statement *loop = edit_loop_of(store);
    tl_statement *room = has_own || loop ? NULL : find_standing_room(r, bytes);
    if (is_kept_from_shared(r, name, has_own || room)) return;
    const char *text = allocation_text(r, tile, name, type);
    tl_statement *last = r->kernel->body.first;
    for (tl_statement *s = last; s; s = s->next)
        if (s->kind == TL_ALLOCATE) last = s;
    str clause = room ? str_format(r->memory, " in place of %.*s_shared // they take turns",
                                   STR_ARGS(room->allocate.names[0]))
                      : STR(" // on its way out");
    allocate_after(r, last, reason_say(r, "%s%.*s", text, STR_ARGS(clause)));
    bool is_boxed = may_store_boxes(r, name);
    str out = str_format(r->memory, "%.*s_shared", STR_ARGS(name));
    if (loop && is_boxed) free_before(r, loop, store, out, name);
    reason_before(r, store,
                  "Copy %.*s from register to shared by stmatrix // rounds\n"
                  "Wait %.*s_shared // among the warps that wrote these rows\n",
                  STR_ARGS(name), STR_ARGS(name));
    store->copy.from = TL_SHARED;
    if (is_boxed) {
        store->copy.atom = STR("tma");
        store->copy.is_async = true;
    }
    store->comment = STR("rows past the end are not stored");
    const char *wait = is_boxed && !loop ? reason_say(r,
                                                      "Wait %.*s_global // the store has "
                                                      "read its source\n",
                                                      STR_ARGS(name))
                                         : "";
    if (!loop || !is_boxed)
        reason_after(r, store, "%sRelease %.*s // bytes free\n", wait, STR_ARGS(out));
    reason_decide(r, "results", "%.*s leaves through shared memory, in %s, %s", STR_ARGS(name),
                  room ? reason_say(r, "the bytes of %.*s", STR_ARGS(room->allocate.names[0]))
                       : "bytes of its own",
                  is_boxed
                      ? "as boxes"
                      : "by lines: a box must end with 16 bytes of a row, and with its tensor");
}

/* --- sums in memory --------------------------------------------------------------------------- */

/* A round's part of sums in memory: added there by the tensor memory accelerator, which takes boxes
 * of bytes of their own, and beside the next round. From registers it would be added in pieces of 4
 * bytes.
 */
static void add_by_tma(reason *r, tl_statement *store) {
    enum { BARRIER_BYTES = 1024 };
    str name = store->copy.what->text, tensor = edit_copied_tensor(store);
    tl_statement *role = find_role(r->kernel), *loop = edit_loop_of(store);
    const tl_statement *tile = edit_find_allocation(role->role.body.first, name, TL_REGISTER);
    bool is_fit = tile && tile->allocate.type == TL_F32 && tile->allocate.layout.kind == TL_MMA_C &&
                  store->parent == loop && count_stores(r->kernel, tensor) == 1 &&
                  may_store_boxes(r, tensor) && reason_is_never_empty(r, loop);
    if (!is_fit) return;
    int64_t columns = 0;
    const tl_exprs *shape = &tile->allocate.shape;
    reason_known(r, shape->items[shape->count - 1], &columns);
    int swizzle = panels_dividing(columns * tl_type_bytes(TL_F32));
    int64_t bytes = slot_bytes(r, tile, TL_F32, swizzle);
    bool has_bytes = total_bytes(r) + bytes + BARRIER_BYTES <= r->target->block_shared;
    if (is_kept_from_shared(r, name, has_bytes)) return;
    str out = reason_fresh(r, "%.*s_out", STR_ARGS(name));
    tl_statement *last = r->kernel->body.first;
    for (tl_statement *s = last; s; s = s->next)
        if (s->kind == TL_ALLOCATE) last = s;
    allocate_after(r, last,
                   reason_say(r,
                              "Allocate %.*s in shared f32 (%s, %s) swizzled %d // on its way out",
                              STR_ARGS(out), edit_text(r->memory, shape->items[0]),
                              edit_text(r->memory, shape->items[1]), swizzle));
    free_before(r, loop, store, out, tensor);
    reason_before(r, store,
                  "Copy %.*s from register to shared and get %.*s\n"
                  "Wait %.*s // all of it is there\n",
                  STR_ARGS(name), STR_ARGS(out), STR_ARGS(out));
    store->copy.what = tl_name_expr(r->memory, out);
    store->copy.from = TL_SHARED;
    store->copy.atom = STR("tma");
    store->copy.is_async = true;
    store->comment = STR("in no order; rows past the end are not added");
    reason_decide(r, "results",
                  "parts of %.*s leave through shared memory, in bytes of their own, as boxes that "
                  "are added",
                  STR_ARGS(tensor));
}

static void store_through_shared(reason *r, tl_statement *store) {
    str name = store->copy.what->text;
    tl_statement *role = find_role(r->kernel);
    if (store->copy.target_kind == TL_ACCUMULATE) {
        if (role->role.is_warpgroups && edit_loop_of(store)) add_by_tma(r, store);
        return;
    }
    const tl_statement *tile = edit_find_allocation(role->role.body.first, name, TL_REGISTER);
    tl_type type = tiles_tensor_type(r->kernel, name);
    tl_statement *loop = edit_loop_of(store);
    if (!tile || tile->allocate.layout.kind != TL_MMA_C || tl_type_bits(type) != 16 ||
        store->copy.target)
        return;
    if (role->role.is_warpgroups) {
        bool is_one = store->parent == loop && count_stores(r->kernel, name) == 1;
        if ((!loop || is_one) && tiles_tensor(r->kernel, name)) store_by_tma(r, store, tile, type);
        return;
    }
    tl_statement *room = loop ? NULL : find_room(r, store, slot_bytes(r, tile, type, 0));
    if (room) store_in_room(r, store, tile, type, room);
}

/* --- the order of tiles ----------------------------------------------------------------------- */

static void order_tiles(reason *r) {
    tl_statement *grid = NULL;
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        if (s->kind == TL_GRID) grid = s;
    if (!grid || grid->grid.kind != TL_GRID_PLAIN) return;
    bool has_order = false, is_listed = false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        is_listed |= walk_is_listed(r, s);
        for (int i = 0; i < grid->grid.count; i++) {
            tl_walk *walk = &grid->grid.items[i];
            int up = walk_direction(r, s, walk->name);
            if (up == 0 || walk->is_reversed) continue;
            walk->is_reversed = up > 0;
            has_order = true;
            reason_decide(r, "order of tiles",
                          "tiles with more blocks start first (%.*s%s), so that "
                          "short ones fill the end; all tiles of equal length stand together",
                          STR_ARGS(walk->name), up > 0 ? " reversed" : "");
        }
    }
    if (has_order || grid->grid.count < 2) return;
    /* As far as is known all tiles take equally long: those that share what they read follow one
     * another. */
    tl_walk *items = arena_array(r->memory, tl_walk, grid->grid.count);
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < grid->grid.count; i++)
            if (str_ends(grid->grid.items[i].name, STR("_block")) == (pass == 0))
                items[count++] = grid->grid.items[i];
    grid->grid.items = items;
    reason_decide(r, "order of tiles",
                  "%s; those of one matrix follow one "
                  "another, so that what they share is read from the level-2 cache",
                  is_listed ? "a table says how long each tile takes"
                            : "all tiles take equally long");
}

bool reason_finish(reason *r) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (s->kind == TL_COPY && s->copy.to == TL_GLOBAL && s->copy.from == TL_REGISTER)
            store_through_shared(r, s);
    }
    order_tiles(r);
    return true;
}
