/* Copies by TMA: one thread names a box of a tensor by its corner; the unit moves it. The launch
 * describes tensor and box in a map (plan.h). A tile of several panels is one box where the
 * tensor's rows are cut into panels by the map, else a box for each panel. The last one may reach
 * past the tile's columns: what it brings there is never read. A tile whose rows lie in several
 * pages is a box, or one for each panel, in each of them.
 */
#include "tl/boxes.h"
#include "translate/copy.h"

#include <limits.h>

enum { BOX_MAX = 256, PARTS_MAX = BOX_MAX / TL_BOX_ROWS };

typedef struct box {
    emit *t;
    const tl_statement *s;
    const emit_tile *tile;
    emit_corner *corners; /* by part of the tile's rows that is a box by itself */
    int parts;
    const ftl_plan_tensor *tensor;
    int rows, columns; /* of one copy: columns of a panel */
    int panels;
    bool is_shared_out; /* each executor, or warp, moves rows of its own */
    bool is_whole;      /* one copy takes all panels */
    ftl_plan_map map;
} box;

static bool refuse(box *x, const char *why) {
    return copy_refuse(x->t, x->s, why);
}

static void add_dimension(box *x, int axis, int taken, int panel, bool is_number) {
    ftl_map_dimension *d = &x->map.dimensions[x->map.rank++];
    *d = (ftl_map_dimension){
        .axis = axis, .box = taken, .panel = panel, .is_panel_number = is_number};
}

/* The length of the contiguous axis; negative: it is not known. */
static int64_t known_length(const box *x) {
    const ftl_formula *extent = &x->tensor->axes[x->corners[0].column_axis].extent;
    bool known = extent->step_count == 1 && extent->steps[0].op == FTL_PUSH_INTEGER;
    return known ? extent->steps[0].integer : -1;
}

/* Is the contiguous axis known to be cut into whole panels? */
static bool panels_are_whole(const box *x) {
    emit_value at = x->corners[0].at[x->corners[0].column_axis];
    return known_length(x) >= 0 && known_length(x) % x->columns == 0 && at.low == at.high &&
           at.low % x->columns == 0;
}

/* The unit stores whole 16 bytes of the contiguous axis: its end may be between them only. */
static bool ends_at_units(const box *x) {
    int64_t bytes = known_length(x) * (int64_t)ftl_type_bytes(x->tensor->type);
    return bytes >= 0 && bytes % SHARED_UNIT_BYTES == 0;
}

/* Does the tile reach to the end of the contiguous axis, or past it? What an open panel has there
 * stays where it is.
 */
static bool ends_at_axis(const box *x) {
    emit_value at = x->corners[0].at[x->corners[0].column_axis];
    return known_length(x) >= 0 && at.low + x->tile->columns >= known_length(x);
}

static bool find_corners(box *x, bool loads) {
    emit *t = x->t;
    int rows = x->tile->rows;
    x->corners = arena_array(t->memory, emit_corner, PARTS_MAX);
    if (!emit_corner_of(t, x->s, x->tile, 0, x->corners)) return false;
    x->rows = x->corners[0].rows, x->parts = rows / x->rows;
    if (x->parts > 1 && !loads) return refuse(x, "tma stores a tile that is one box");
    if (x->parts > PARTS_MAX) return refuse(x, "tma moves tiles of up to 256 rows");
    for (int part = 1; part < x->parts; part++)
        if (!emit_corner_of(t, x->s, x->tile, part * x->rows, &x->corners[part])) return false;
    return true;
}

static bool make_box(box *x, bool loads) {
    emit *t = x->t;
    const emit_tile *tile = x->tile;
    if (!gpu_has(t->gpu, GPU_FEATURE_tma)) return refuse(x, "this GPU has no tma");
    if (tile->is_vector) return refuse(x, "tma moves matrices");
    if (!find_corners(x, loads)) return false;
    const emit_corner *corner = x->corners;
    x->tensor = &t->plan->tensors[corner->tensor];
    if (ftl_type_bits(x->tensor->type) != (size_t)tl_type_bits(tile->type) ||
        tl_is_packed(tile->type) || tile->store.by_columns)
        return refuse(x, "tma changes neither types nor the order of elements");
    if (!loads && !ends_at_units(x))
        return refuse(x, "tma stores whole 16 bytes: the contiguous axis must be known to be a "
                         "multiple of them");
    if (!loads && shared_is_open(&tile->store) && !ends_at_axis(x))
        return refuse(x, "tma stores whole panels: one that is not full must lie at the end of the "
                         "contiguous axis");
    int shares = 1;
    if (!loads && tile->bound->is_shared_out)
        shares = emit_is_by_warps(tile) ? t->now->warps : t->now->executors;
    x->rows /= shares, x->is_shared_out = shares > 1;
    x->panels = tile->store.panels > 1 ? tile->store.panels : 1;
    x->columns =
        tile->store.panels ? tile->store.pitch_bytes / tl_type_bytes(tile->type) : tile->columns;
    int outer = corner->count - 2;
    x->is_whole = x->panels > 1 && x->rows == tile->rows && outer + 3 <= FTL_MAP_RANK_MAX &&
                  panels_are_whole(x) && !shared_is_open(&tile->store);
    if (outer + 2 > FTL_MAP_RANK_MAX) return refuse(x, "a tensor map has at most 5 dimensions");
    if (x->rows > BOX_MAX || x->columns > BOX_MAX || x->panels > BOX_MAX)
        return refuse(x, "a box has at most 256 elements along an axis");
    x->map = (ftl_plan_map){.name = x->tensor->name, .tensor = corner->tensor};
    x->map.swizzle_bytes =
        tile->store.swizzle_bytes > SHARED_UNIT_BYTES ? tile->store.swizzle_bytes : 0;
    add_dimension(x, corner->column_axis, x->columns, x->is_whole ? x->columns : 0, false);
    add_dimension(x, corner->row_axis, x->rows, 0, false);
    if (x->is_whole) add_dimension(x, corner->column_axis, x->panels, x->columns, true);
    for (int i = corner->count - 1; i >= 0; i--) {
        if (i != corner->row_axis && i != corner->column_axis) add_dimension(x, i, 1, 0, false);
    }
    return true;
}

static bool same_map(const ftl_plan_map *a, const ftl_plan_map *b) {
    bool same =
        a->tensor == b->tensor && a->rank == b->rank && a->swizzle_bytes == b->swizzle_bytes;
    for (int i = 0; same && i < a->rank; i++) {
        const ftl_map_dimension *x = &a->dimensions[i], *y = &b->dimensions[i];
        same = x->axis == y->axis && x->box == y->box && x->panel == y->panel &&
               x->is_panel_number == y->is_panel_number;
    }
    return same;
}

/* The name of a map in the parameters; equal ones are one. */
static str map_of(emit *t, const ftl_plan_map *map) {
    int of_tensor = 0;
    for (int i = 0; i < t->maps.count; i++) {
        const ftl_plan_map *other = &t->maps.items[i];
        if (same_map(other, map)) return str_from(other->name);
        of_tensor += other->tensor == map->tensor;
    }
    if (t->maps.count == FTL_MAPS_MAX) {
        emit_unsupported(t, t->kernel->range, t->kernel->name, "it needs more than %d tensor maps",
                         FTL_MAPS_MAX);
        return STR("");
    }
    ftl_plan_map copy = *map;
    str name = emit_clean(t, str_from(t->plan->tensors[map->tensor].name));
    name = of_tensor ? emit_format(t, "%.*s_map_%d", STR_ARGS(name), of_tensor + 1)
                     : emit_format(t, "%.*s_map", STR_ARGS(name));
    copy.name = str_copy_z(t->memory, name);
    list_push(t->memory, &t->maps, copy);
    return name;
}

/* Who moves rows of its own: the name of its number. */
static str sharer(const box *x) {
    return emit_is_by_warps(x->tile) ? STR("warp") : STR("executor");
}

static str corner_text(box *x, int dimension, int part, int panel) {
    emit *t = x->t;
    const ftl_map_dimension *d = &x->map.dimensions[dimension];
    emit_value at = x->corners[part].at[d->axis];
    if (d->panel && !d->is_panel_number) return STR("0");
    if (d->is_panel_number && d->panel) return emit_constant(t, at.low / d->panel).text;
    if (dimension == 0) at = emit_sum(t, at, emit_constant(t, (int64_t)panel * x->columns));
    if (dimension == 1 && x->is_shared_out) {
        emit_value share = emit_product(t, emit_named(sharer(x), 0, x->tile->rows / x->rows),
                                        emit_constant(t, x->rows));
        at = emit_sum(t, at, share);
    }
    if (emit_is_wide(at)) return emit_format(t, "(int)(%.*s)", STR_ARGS(at.text));
    return at.text;
}

static str full_barrier(emit *t, const tl_statement *s, const emit_tile *tile) {
    return emit_barrier_of(t, s, tile, FACT_FULL, GENERATION_NEXT);
}

static void one_copy(box *x, bool loads, int part, int panel) {
    emit *t = x->t;
    const emit_tile *tile = x->tile;
    str map = map_of(t, &x->map), at = {0};
    for (int i = 0; i < x->map.rank; i++)
        at = emit_format(t, "%.*s, %.*s", STR_ARGS(at), STR_ARGS(corner_text(x, i, part, panel)));
    str place = emit_format(t, "shared + %.*s", STR_ARGS(emit_slot_place(t, tile, 0)));
    int inside =
        panel * (int)shared_panel_bytes(&tile->store) + part * x->rows * tile->store.pitch_bytes;
    if (inside)
        place =
            emit_format(t, "shared + (%.*s + %d)", STR_ARGS(emit_slot_place(t, tile, 0)), inside);
    str slot = emit_slot_bytes(t, tile, loads ? GENERATION_NEXT : GENERATION_HELD, 1);
    if (slot.length) place = emit_format(t, "%.*s + %.*s", STR_ARGS(place), STR_ARGS(slot));
    if (x->is_shared_out)
        place = emit_format(t, "%.*s + %.*s * %d", STR_ARGS(place), STR_ARGS(sharer(x)),
                            x->rows * tile->store.pitch_bytes);
    if (!loads) {
        const char *does = x->s->copy.target_kind == TL_ACCUMULATE ? "add" : "store";
        emit_text(t, "ftl_tma_%s_%d(args.%.*s, %.*s%.*s);", does, x->map.rank, STR_ARGS(map),
                  STR_ARGS(place), STR_ARGS(at));
        return;
    }
    str full = full_barrier(t, x->s, tile);
    if (!inside && tile->bound->by_threads) {
        emit_text(t, "ftl_mbarrier_expect(%.*s, %.*s);", STR_ARGS(full),
                  STR_ARGS(emit_fact_of(t, tile, FACT_BYTES)));
    }
    emit_text(t, "ftl_tma_load_%d(%.*s, args.%.*s, %.*s%.*s);", x->map.rank, STR_ARGS(place),
              STR_ARGS(map), STR_ARGS(full), STR_ARGS(at));
}

/* A corner that changes from tile to tile, made one for the warp before a branch leaves one thread:
 * there the compiler would take it for a value of each thread and try the copy for all of them.
 */
static void make_corner_uniform(box *x) {
    emit *t = x->t;
    str tensor = emit_clean(t, str_from(x->tensor->name));
    for (int i = 0; i < x->corners[0].count; i++) {
        emit_value *at = &x->corners[0].at[i];
        if (at->low == at->high) continue;
        str name = emit_format(t, "%.*s_at_%d", STR_ARGS(tensor), i);
        str value =
            emit_is_wide(*at) ? emit_format(t, "(int)(%.*s)", STR_ARGS(at->text)) : at->text;
        emit_text(t, "const int %.*s = ftl_uniform(%.*s);", STR_ARGS(name), STR_ARGS(value));
        *at = emit_named(name, at->low, at->high);
    }
}

/* Is the number still declared, in this block or one around it, where the next line is written? */
static bool is_known_still(const emit *t, const emit_number *number, const tl_statement *s) {
    int least = INT_MAX;
    if (number->by->parent != s->parent) return false;
    for (int i = t->lines.count - 1; i >= 0; i--) {
        const emit_line *line = &t->lines.items[i];
        if (str_equal(line->declares, number->name)) return line->indent <= least;
        bool is_code = line->text.length && line->text.data[0] != '#';
        if (is_code && line->indent < least) least = line->indent;
    }
    return false;
}

static bool reads_table(str text) {
    return emit_mentions(text, STR("ftl_load_global_i32_if")) ||
           emit_mentions(text, STR("ftl_load_global_i32"));
}

/* A corner that a table gives, the number of a page, say, is read before the copy waits for its
 * slot, not after that, and once for all copies of a block that ask for it.
 */
static void read_corner(box *x, emit_corner *corner) {
    emit *t = x->t;
    for (int i = 0; i < corner->count; i++) {
        emit_value *at = &corner->at[i];
        if (!reads_table(at->text)) continue;
        str value =
            emit_is_wide(*at) ? emit_format(t, "(int)(%.*s)", STR_ARGS(at->text)) : at->text;
        str name = {0};
        for (int k = 0; k < t->numbers.count; k++) {
            const emit_number *number = &t->numbers.items[k];
            if (str_equal(number->text, value) && is_known_still(t, number, x->s))
                name = number->name;
        }
        if (!name.length) {
            str tensor = emit_clean(t, str_from(x->tensor->name));
            name = emit_format(t, "%.*s_number_%d", STR_ARGS(tensor), ++t->numbers_read);
            emit_number number = {value, name, x->s};
            emit_declare(t, name, "const int %.*s = %.*s;", STR_ARGS(name), STR_ARGS(value));
            list_push(t->memory, &t->numbers, number);
        }
        *at = emit_named(name, at->low, at->high);
    }
}

static void read_corners(box *x) {
    emit *t = x->t;
    for (int k = 0; k < t->numbers.count; k++) /* the same block once more: numbers are others */
        if (t->numbers.items[k].by == x->s) t->numbers.count = 0;
    for (int part = 0; part < x->parts; part++) read_corner(x, &x->corners[part]);
}

void emit_tensor_copy(emit *t, const tl_statement *s, const emit_tile *tile, bool loads) {
    box x = {.t = t, .s = s, .tile = tile};
    if (!s->copy.is_async) {
        copy_refuse(t, s, "copies by tma are asynchronous");
        return;
    }
    if (!make_box(&x, loads)) return;
    t->is_exact = true;
    str issuer = emit_issuer(t, loads ? NULL : tile);
    bool is_chosen = !loads && issuer.length > 0;
    if (is_chosen) {
        emit_open(t, "{");
        make_corner_uniform(&x);
    }
    /* Where threads fill the tile too, all of them arrive, and so wait until it is free. */
    bool all_arrive = loads && tile->bound->by_threads;
    if (loads) read_corners(&x);
    if (all_arrive) emit_channel_acquire(t, s, tile);
    if (issuer.length) emit_open(t, "if (%.*s) {", STR_ARGS(issuer));
    if (loads && !all_arrive) emit_channel_acquire(t, s, tile);
    for (int part = 0; part < x.parts; part++)
        for (int panel = 0; panel < (x.is_whole ? 1 : x.panels); panel++)
            one_copy(&x, loads, part, panel);
    if (!loads) emit_text(t, "ftl_tma_store_commit();");
    if (all_arrive) {
        emit_else(t);
        emit_text(t, "ftl_mbarrier_signal(%.*s);", STR_ARGS(full_barrier(t, s, tile)));
    }
    if (issuer.length) emit_close(t);
    if (is_chosen) emit_close(t);
    if (loads) emit_channel_fill(t, s, tile);
}

/* All maps are fetched at the beginning, by one thread. What a copy's map is follows from its
 * statement. */
void emit_prefetch_maps(emit *t) {
    const tl_statement *role = t->role;
    const model_role *now = t->now;
    int first = t->maps.count;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY || !tl_is_by_tma(&s->copy)) continue;
        bool loads = s->copy.to == TL_SHARED;
        tl_end end = loads ? tl_copy_target(s) : tl_copy_source(s);
        box x = {.t = t, .s = s, .tile = emit_tile_in(t, end.symbol, TL_SHARED)};
        for (int i = 0; i < t->model->role_count; i++) {
            if (t->model->roles[i].statement == tl_role_of(s)) t->now = &t->model->roles[i];
        }
        t->role = t->now->statement;
        if (x.tile && make_box(&x, loads)) map_of(t, &x.map);
        t->role = role, t->now = now;
    }
    for (int i = first; i < t->maps.count; i++)
        emit_text(t, "ftl_tma_prefetch_map(args.%s);", t->maps.items[i].name);
}
