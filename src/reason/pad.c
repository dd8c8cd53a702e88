/* Lengths that products of warpgroups cannot contract, made up to one that they can.
 *
 * A product contracts 16 at a time, of 8 bits 32; a head dimension of 72 is no multiple of that. A
 * tile of 80 columns reaches past the end of the axis, where a Copy makes elements 0 and a store
 * leaves them out, as at any other end: so only the shapes of copies change. It may be done where
 * nothing but such zeros meets what comes of zeros: the axis is contracted between tiles from
 * memory only, and nothing is reduced along it. An axis that no product contracts needs no more
 * than multiples of 8.
 */
#include "reason/warpgroups.h"

enum { STORED_UNIT_BYTES = 16 }; /* the tensor memory accelerator's lines are multiples of it */

/* Does nothing reduce along the axis, or contract it with a left operand that was computed? */
static bool zeros_stay_apart(reason *r, const place_plan *plan, str axis) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || s->compute.operand_count < 1) continue;
        str row, column;
        bool is_known = tiles_operand_axes(plan->tiles, &s->compute.operands[0], &row, &column);
        bool is_along = is_known && str_equal(column, axis);
        const place_role *left = place_find(plan, edit_operand_name(s, 0));
        bool reduces = tl_operation_shape(s->compute.operation) == TL_SHAPE_REDUCTION;
        bool contracts =
            edit_is_product(s) && left && is_along && (left->is_computed || !left->in_shared);
        if (contracts || (reduces && (is_along || !is_known))) return false;
    }
    return true;
}

static bool is_contracted(reason *r, const place_plan *plan, str axis) {
    str row, inner;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) &&
            tiles_operand_axes(plan->tiles, &s->compute.operands[0], &row, &inner) &&
            str_equal(inner, axis))
            return true;
    return false;
}

static bool is_of_shared(const place_plan *plan, str axis) {
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].in_shared && tiles_axis(plan->roles[i].tile, axis) >= 0) return true;
    return false;
}

/* The axis' length, if a tile takes all of it and it should be longer; else 0. */
static int64_t length_to_pad(reason *r, const place_plan *plan, const tiles_span *span) {
    int64_t extent, length;
    if (!reason_known(r, span->extent, &extent) || !reason_known(r, span->length, &length) ||
        extent != length || length % warpgroups_step(r) == 0 ||
        length * WARPGROUP_STEP_BYTES / warpgroups_step(r) % STORED_UNIT_BYTES != 0 ||
        !is_of_shared(plan, span->index) || !is_contracted(r, plan, span->index) ||
        !zeros_stay_apart(r, plan, span->index))
        return 0;
    return length;
}

/* All Copies' shapes along the axis. */
static void write_padded(reason *r, const tiles_list *tiles, const warpgroups_padded *axis,
                         warpgroups_padding *all) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY) continue;
        const tiles_tile *tile = tiles_find(tiles, edit_copied_tile(s));
        int at = tile ? tiles_axis(tile, axis->index) : -1;
        if (at < 0 || at >= s->copy.shape.count) continue;
        warpgroups_shape one = {&s->copy.shape.items[at], s->copy.shape.items[at]};
        list_push(r->memory, &all->shapes, one);
        *one.place = tl_name_expr(r->memory, axis->name);
    }
}

warpgroups_padding warpgroups_pad(reason *r, const place_plan *plan) {
    warpgroups_padding all = {0};
    for (int i = 0; i < plan->tiles->extents.count; i++) {
        const tiles_span *span = &plan->tiles->extents.items[i];
        warpgroups_padded axis = {.index = span->index, .length = length_to_pad(r, plan, span)};
        if (axis.length == 0) continue;
        axis.name = reason_fresh(r, "%.*s_padded", STR_ARGS(span->index));
        int step = warpgroups_step(r);
        axis.padded = (axis.length + step - 1) / step * step;
        reason_let(r, edit_z(r->memory, axis.name), axis.padded);
        write_padded(r, plan->tiles, &axis, &all);
        list_push(r->memory, &all.axes, axis);
    }
    return all;
}

void warpgroups_unpad(reason *r, const warpgroups_padding *all) {
    for (int i = 0; i < all->shapes.count; i++)
        *all->shapes.items[i].place = all->shapes.items[i].before;
    for (int i = 0; i < all->axes.count; i++) edit_remove_let(r->kernel, all->axes.items[i].name);
}

void warpgroups_explain_padding(reason *r, const warpgroups_padding *all) {
    for (int i = 0; i < all->axes.count; i++)
        reason_decide(r, "padding",
                      "tiles have %lld columns along %.*s, not %lld: products contract multiples "
                      "of %d; copies fill up with zeros",
                      (long long)all->axes.items[i].padded, STR_ARGS(all->axes.items[i].index),
                      (long long)all->axes.items[i].length, warpgroups_step(r));
}
