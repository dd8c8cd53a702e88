/* Operands in shared memory, and Copy. */
#include "interpret/code.h"

#include <string.h>

/* --- shared tiles ----------------------------------------------------------------------------- */

/* Where a view's part of the base's tile begins on axis k: as the base, where it is the same axis.
 */
static void part_origin(const tl_symbol *view, const tile *base, tile *part) {
    const tl_expr *element = view->view->value;
    const tl_axes *axes = view->view_base->axes;
    for (int k = 0; k < part->axis_count; k++) {
        part->start[k] = 0;
        part->has_start[k] = true;
        for (int i = 0; i < element->item_count && axes && i < axes->count; i++) {
            const tl_expr *item = element->items[i];
            if (item->kind != TL_NAME || !str_equal(item->text, part->index[k])) continue;
            for (int b = 0; b < base->axis_count; b++) {
                if (!str_equal(base->index[b], tl_axis_index(axes, i))) continue;
                part->start[k] = base->start[b];
                part->has_start[k] = base->has_start[b];
            }
        }
    }
}

/* One row of a part: the view's own expression says which elements of the base's tile they are. */
static bool part_row(code_executor *e, const tl_symbol *view, const tile *base, tile *part,
                     int64_t row) {
    scope *s = &e->scope;
    const tl_expr *element = view->view->value;
    int lane_axis = part->axis_count - 1, width = (int)part->count[lane_axis];
    scope_bind_axis(s, part->index[lane_axis],
                    (lanes){.kind = LANES_RAMP, .value = (double)part->start[lane_axis]});
    if (lane_axis == 1) {
        scope_bind_axis(s, part->index[0],
                        (lanes){.kind = LANES_ONE, .value = (double)(part->start[0] + row)});
    }
    const double *at[MACHINE_AXES_MAX] = {NULL, NULL};
    bool is_done = base->axis_count > 0;
    for (int b = 0; b < base->axis_count && is_done; b++) {
        for (int i = 0; i < element->item_count; i++) {
            if (!str_equal(base->index[b], tl_axis_index(view->view_base->axes, i))) continue;
            lanes value;
            is_done = scope_lanes(s, element->items[i], NULL, 0, width, NULL, &value);
            if (is_done) at[b] = lanes_items(e->code->m, value, width);
        }
        is_done = is_done && at[b];
    }
    for (int k = 0; k < part->axis_count; k++) scope_unbind_axis(s, part->index[k]);
    double *to = part->data + row * (lane_axis == 1 ? part->count[1] : 0);
    for (int i = 0; i < width && is_done; i++) {
        int64_t y = (int64_t)at[0][i] - (base->has_start[0] ? base->start[0] : 0);
        int64_t x = base->axis_count == 2
                        ? (int64_t)at[1][i] - (base->has_start[1] ? base->start[1] : 0)
                        : 0;
        bool is_inside = y >= 0 && y < base->count[0] && x >= 0 && x < base->count[1];
        to[i] = is_inside ? base->data[y * base->count[1] + x] : 0;
    }
    return is_done;
}

static tile *read_part(code_executor *e, const tl_expr *name, const tile *base) {
    machine *m = e->code->m;
    const tl_symbol *view = name->symbol;
    const tl_tile *known = &view->shared;
    bool is_simple = view->view && view->view->value->kind == TL_ELEMENT && known->axis_count &&
                     known->axis_count <= MACHINE_AXES_MAX && view->view_base->axes;
    if (!is_simple || view->view_base->shared.part_of) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, name->range,
                     STR("a part of a tile of this form"));
        return NULL;
    }
    tile **part = &e->parts[view->position];
    if (!*part) {
        *part = arena_new(m->memory, tile);
        int64_t count[MACHINE_AXES_MAX];
        str index[MACHINE_AXES_MAX];
        for (int i = 0; i < known->axis_count; i++) {
            if (!scope_integer(&e->scope, known->axes[i].extent, &count[i])) return NULL;
            index[i] = i < known->axis_count ? known->axes[i].index : (str){NULL, 0};
        }
        tile_shape(m, *part, known->axis_count, count, index);
        if (m->has_failed) return NULL;
    }
    part_origin(view, base, *part);
    (*part)->is_defined = true;
    (*part)->writer = base->writer;
    int64_t rows = (*part)->axis_count == 2 ? (*part)->count[0] : 1;
    for (int64_t row = 0; row < rows; row++) {
        int used = m->scratch_used;
        if (!part_row(e, view, base, *part, row)) return NULL;
        m->scratch_used = used;
    }
    return *part;
}

/* An operand, wherever it is; with what it is for the queue of products. */
tile *code_read_operand(code_executor *e, const tl_expr *name, channels_source *source) {
    if (name->space == TL_REGISTER) return code_read_register(e, name, source);
    if (name->space != TL_SHARED) return NULL;
    tile *slot = code_slot(e, name, source);
    return slot && name->symbol->shared.part_of ? read_part(e, name, slot) : slot;
}

const tile *code_tile(scope *s, const tl_expr *name, const tl_statement *at) {
    (void)at;
    channels_source unused;
    return code_read_operand(s->owner, name, &unused);
}

/* --- Copy ------------------------------------------------------------------------------------- */

/* Where a Copy's tile is in its tensor; sets the tile's origin. */
static bool place_copy(code_executor *e, const tl_statement *s, const tl_symbol *tensor, tile *t,
                       tile_view *view) {
    machine *m = e->code->m;
    const tl_axes *axes = tensor->axes;
    const tl_place *place = &s->copy.place;
    int positions[TL_AXES_MAX], next = 0;
    int count = tl_copy_axes(s, axes, positions);
    if (count != t->axis_count) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, s->range,
                     STR("a tile of other axes than its Copy's"));
        return false;
    }
    *view = (tile_view){.tensor = tensor};
    for (int i = 0; i < axes->count; i++) {
        bool is_said = place->is_given && i < place->count && !place->items[i].is_all;
        bool is_tile = next < count && positions[next] == i;
        int64_t at = 0;
        if (is_said && !scope_integer(&e->scope, place->items[i].at, &at)) return false;
        view->axis_of[i] = is_tile ? next : -1;
        if (is_tile) {
            t->start[next] = is_said ? at * t->count[next] : 0;
            t->has_start[next] = true;
            next++;
            continue;
        }
        if (!is_said && !scope_integer(&e->scope, axes->items[i].coordinate, &at)) return false;
        view->fixed[i] = at;
    }
    return true;
}

/* What names mean at the place of a Copy: a view's lengths are those of its tile. */
static scope *scope_of(code_executor *e, const tl_statement *s) {
    return tl_copy_is_of_next(s) ? &e->following : &e->scope;
}

/* An executor's part of work that belongs to no layout: rows in equal parts. */
static tile_share even_share(const code_executor *e, const tile *t) {
    tile_share share = tile_whole(t);
    int count = e->role->executors;
    code_split(t->count[0], e->sync->executor, count, &share.first[0], &share.end[0]);
    return share;
}

/* Tiles of one shape: moves what the share says, rounded to the target's type. */
static bool move(code_executor *e, const tl_statement *s, const tile *from, tile *to,
                 const tile_share *share) {
    bool fits = from->axis_count == to->axis_count && from->count[0] == to->count[0] &&
                from->count[1] == to->count[1];
    if (!fits) {
        machine_stop(e->code->m, DIAG_INTERPRET_COUNTS, s->range, to->index[0],
                     code_number_text(e->code->m, from->count[0]),
                     code_number_text(e->code->m, to->count[0]));
        return false;
    }
    int64_t width = share->end[1] - share->first[1];
    for (int64_t row = share->first[0]; row < share->end[0] && width > 0; row++) {
        int64_t at = row * to->count[1] + share->first[1];
        memcpy(to->data + at, from->data + at, (size_t)width * sizeof *to->data);
    }
    for (int i = 0; i < to->axis_count; i++) {
        to->start[i] = from->start[i];
        to->has_start[i] = from->has_start[i];
    }
    tile_round(e->code->m, to, share, to->format);
    return true;
}

/* What is copied, as the name of the place that it is copied from. */
static tl_expr source_name(const tl_statement *s, tl_end source) {
    tl_expr name = *s->copy.what;
    name.symbol = source.symbol;
    name.space = source.space;
    return name;
}

static code_outcome copy_to_shared(code_executor *e, const tl_statement *s, tl_end source,
                                   tl_end target) {
    code *k = e->code;
    int at = code_channel_of(k, target.symbol);
    int holder;
    if (at < 0) return CODE_FAILED;
    if (!channels_may_fill(k->sync, e->sync, at, &holder)) return CODE_BLOCKED;
    code_channel *c = &k->channels[at];
    tile *slot = &c->slots[e->sync->fills[at] % c->stages];
    tile_share share;
    if (source.space == TL_GLOBAL) {
        tile_view view;
        if (!place_copy(e, s, source.symbol, slot, &view)) return CODE_FAILED;
        share = even_share(e, slot);
        if (!tile_load(scope_of(e, s), slot, &share, &view, s->range)) return CODE_FAILED;
    } else {
        tl_expr name = source_name(s, source);
        channels_source unused;
        const tile *from = code_read_operand(e, &name, &unused);
        code_register *r = e->registers[source.symbol->position];
        if (!from || (r && source.space == TL_REGISTER && !code_check_whole(e, &name, r))) {
            return CODE_FAILED;
        }
        share = source.space == TL_REGISTER ? from->share : even_share(e, slot);
        if (!move(e, s, from, slot, &share)) return CODE_FAILED;
    }
    slot->is_defined = true;
    slot->writer = s;
    e->sync->fills[at]++;
    return CODE_DONE;
}

static code_outcome copy_to_register(code_executor *e, const tl_statement *s, tl_end source,
                                     tl_end target) {
    tl_expr into = s->copy.target ? *s->copy.target : *s->copy.what;
    into.symbol = target.symbol;
    into.space = TL_REGISTER;
    code_open_value(e, &into, s);
    tile *to = code_write_register(e, &into, false);
    code_register *r = code_register_of(e, &into);
    if (!to || !r) return CODE_FAILED;
    if (source.space == TL_GLOBAL) {
        tile_view view;
        if (!place_copy(e, s, source.symbol, to, &view)) return CODE_FAILED;
        if (!tile_load(scope_of(e, s), to, &to->share, &view, s->range)) return CODE_FAILED;
        code_set_fresh_layout(r, s);
    } else {
        tl_expr name = source_name(s, source);
        channels_source unused;
        const tile *from = code_read_operand(e, &name, &unused);
        if (!from || !move(e, s, from, to, &to->share)) return CODE_FAILED;
        const code_register *other =
            source.space == TL_REGISTER ? code_register_of(e, &name) : NULL;
        if (other && !code_check_share(e, &name, from, to)) return CODE_FAILED;
        if (other) code_set_layout(r, &other->layout, s);
        else code_set_fresh_layout(r, s);
    }
    code_set_written(to, s);
    return CODE_DONE;
}

static code_outcome copy_to_global(code_executor *e, const tl_statement *s, tl_end source,
                                   tl_end target) {
    tl_expr name = source_name(s, source);
    channels_source operand;
    tile *from = code_read_operand(e, &name, &operand);
    if (!from) return CODE_FAILED;
    const code_register *r = source.space == TL_REGISTER ? code_register_of(e, &name) : NULL;
    if (r && !code_check_whole(e, &name, r)) return CODE_FAILED;
    tile placed = *from;
    tile_view view;
    if (!place_copy(e, s, target.symbol, &placed, &view)) return CODE_FAILED;
    for (int i = 0; i < placed.axis_count; i++) {
        if (!code_check_origin(e, &name, from, i, name.text, &placed, i, STR("the coordinate"))) {
            return CODE_FAILED;
        }
    }
    tile_share share = r ? from->share : even_share(e, from);
    bool accumulates = s->copy.target_kind == TL_ACCUMULATE;
    bool stores = !r || r->stores_alone;
    if (stores && !tile_store(scope_of(e, s), &placed, &share, &view, accumulates, s))
        return CODE_FAILED;
    if (s->copy.is_async) {
        channels_flight f = {.statement = s,
                             .tile = -1,
                             .stores = target.symbol,
                             .sources = {operand},
                             .source_count = 1};
        channels_launch(e->code->sync, e->sync, f);
    }
    return CODE_DONE;
}

code_outcome code_copy(code_executor *e, const tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    if (!source.symbol || !target.symbol) return CODE_FAILED;
    if (target.space == TL_SHARED) return copy_to_shared(e, s, source, target);
    if (target.space == TL_REGISTER) return copy_to_register(e, s, source, target);
    return copy_to_global(e, s, source, target);
}
