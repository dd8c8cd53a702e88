/* Elements of tensors and of tiles among the values of a row. */
#include "interpret/row.h"

/* Does it say which element of the tile this is? */
static bool uses_place(const scope *s, const tl_expr *e) {
    if (!e) return false;
    if (e->kind == TL_NAME) return e->symbol && s->has_index[e->symbol->position];
    bool uses = uses_place(s, e->left) || uses_place(s, e->right);
    for (int i = 0; i < e->item_count && !uses; i++) uses = uses_place(s, e->items[i]);
    return uses;
}

/* Elements that are taken by their indices do not carry what they err by. */
static bool note_errors(row_context *c, const tl_expr *e, const lanes *at, int width,
                        const uint8_t *active) {
    machine *m = c->s->machine;
    bool has_errors = m->has_errors && memory_tensor(m, e->symbol)->memory.errors;
    if (!has_errors || e == m->viewed) return true;
    double *off = machine_vector(m);
    if (!off || !memory_read_errors(c->s, e->symbol, at, width, active, off, e->range))
        return false;
    for (int i = 0; i < width; i++) m->errors_are_unknown |= !(off[i] == 0);
    return true;
}

/* Of how many lanes, from the first, the element of the tile is inside its axes. */
static bool lanes_inside(row_context *c, int64_t *count) {
    scope *s = c->s;
    *count = c->width;
    for (int k = 0; k < c->of->axis_count; k++) {
        const tl_symbol *index = tl_find_index(s->machine->kernel, c->of->index[k]);
        int64_t extent;
        if (!index || !index->extent || !s->has_index[index->position]) continue;
        if (!scope_integer(s, index->extent, &extent)) return false;
        const lanes *at = &s->indices[index->position];
        int64_t left = extent - (int64_t)at->value;
        if (at->kind == LANES_ONE && left <= 0) *count = 0;
        if (at->kind == LANES_RAMP && left < *count) *count = left > 0 ? left : 0;
    }
    return true;
}

/* What is past the end of the tile's axes means nothing: it reads 0 before the begin of a tensor
 * without a report, as it does past its end.
 */
static bool leave_meaningless(row_context *c, const lanes *at, int axis_count, int width,
                              const uint8_t **active) {
    machine *m = c->s->machine;
    int64_t inside;
    if (!lanes_inside(c, &inside)) return false;
    if (inside >= width) return true;
    uint8_t *meant = (uint8_t *)machine_vector(m);
    if (!meant) return false;
    for (int i = 0; i < width; i++) meant[i] = !*active || (*active)[i];
    for (int k = 0; k < axis_count; k++) {
        const double *x = lanes_items(m, at[k], width);
        if (!x) return false;
        for (int i = (int)inside; i < width; i++) meant[i] = meant[i] && x[i] >= 0;
    }
    *active = meant;
    return true;
}

bool row_element(row_context *c, const tl_expr *e, lanes *out) {
    machine *m = c->s->machine;
    if (e->space != TL_GLOBAL) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, e->range,
                     STR("an element of a tile by its index"));
        return false;
    }
    lanes at[TL_AXES_MAX] = {0};
    bool is_one = true;
    for (int i = 0; i < e->item_count; i++) {
        if (!row_of(c, e->items[i], &at[i])) return false;
        is_one &= at[i].kind == LANES_ONE;
    }
    double *z = machine_vector(m);
    if (!z) return false;
    /* A single element is read for all lanes if any of them wants it. */
    const uint8_t *wanted;
    if (!row_active(c, &wanted)) return false;
    bool is_wanted = !wanted;
    for (int i = 0; i < c->width && !is_wanted; i++) is_wanted = wanted[i];
    if (is_one && !is_wanted) {
        *out = row_one(0);
        return true;
    }
    int width = is_one ? 1 : c->width;
    const uint8_t *active = is_one ? NULL : wanted;
    /* a view is no tile: its elements are in the tensor */
    bool may_end = m->is_code && c->of && uses_place(c->s, e);
    if (may_end && !leave_meaningless(c, at, e->item_count, width, &active)) return false;
    bool is_read = may_end ? memory_read_clipped(c->s, e->symbol, at, width, active, z, e->range)
                           : memory_read(c->s, e->symbol, at, width, active, z, e->range);
    if (!is_read || !note_errors(c, e, at, width, active)) return false;
    *out = is_one ? row_one(z[0]) : (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

bool row_tile(row_context *c, const tl_expr *e, lanes *out) {
    scope *s = c->s;
    machine *m = s->machine;
    const tile *t = s->tile_of ? s->tile_of(s, e, s->at) : NULL;
    if (!t || !c->of) return false;
    int64_t offset = 0, lane_step = 0, step = 1;
    int lane_axis = c->of->axis_count - 1;
    for (int k = t->axis_count - 1; k >= 0; k--) {
        int axis = 0;
        while (axis < c->of->axis_count && !str_equal(c->of->index[axis], t->index[k])) axis++;
        if (axis == c->of->axis_count) {
            machine_stop(m, DIAG_INTERPRET_AXIS, e->range, e->text, t->index[k]);
            return false;
        }
        if (t->count[k] != c->of->count[axis]) {
            machine_stop(m, DIAG_INTERPRET_COUNTS, e->range, t->index[k],
                         str_format(m->memory, "%lld", (long long)t->count[k]),
                         str_format(m->memory, "%lld", (long long)c->of->count[axis]));
            return false;
        }
        if (axis == lane_axis) {
            lane_step = step;
            offset += c->first_lane * step;
        } else {
            offset += c->row * step;
        }
        step *= t->count[k];
    }
    if (m->has_errors && errors_are_on(m, t)) {
        double *z = machine_vector(m);
        if (!z) return false;
        errors_apart(m, t->data + offset, tile_errors(m, t) + offset, lane_step, c->width, z);
        *out = lane_step ? (lanes){.kind = LANES_MANY, .items = z} : row_one(z[0]);
        return true;
    }
    if (lane_step == 0) {
        *out = row_one(t->data[offset]);
        return true;
    }
    if (lane_step == 1) {
        *out = (lanes){.kind = LANES_MANY, .items = t->data + offset};
        return true;
    }
    double *z = machine_vector(m);
    if (!z) return false;
    for (int i = 0; i < c->width; i++) z[i] = t->data[offset + i * lane_step];
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}
