/* Compute on an executor's share of the tiles. */
#include "interpret/code.h"

/* --- products --------------------------------------------------------------------------------- */

/* The slot a product writes: of a ring, `get` opens the next generation. */
static tile *product_target(code_executor *e, const tl_statement *s, int64_t *generation) {
    const tl_compute *c = &s->compute;
    code_register *r = code_register_of(e, c->target);
    *generation = 0;
    if (!r) return NULL;
    bool opens = c->target_kind == TL_GET && channels_is_ring(&e->code->model->tiles[r->number]);
    if (!opens) {
        code_open_value(e, c->target, s);
        *generation = channels_meant(e->code->sync, e->sync, r->number);
        bool follows = c->is_async && c->target_kind == TL_ACCUMULATE;
        return code_write_register(e, c->target, follows);
    }
    if (!channels_may_open(e->code->sync, e->sync, r->number)) {
        machine_stop(e->code->m, DIAG_INTERPRET_RING_FULL, c->target->range, c->target->text);
        return NULL;
    }
    *generation = e->sync->rings[r->number].opened++;
    return code_slot_of(r, *generation);
}

static bool is_permuted(const code_executor *e, const tl_expr *name) {
    if (name->space == TL_REGISTER) return e->registers[name->symbol->position]->layout.is_permuted;
    const tl_statement *a = name->symbol->shared.allocation;
    return a && a->allocate.is_permuted;
}

/* 8-bit elements that lie across are put into the left operand's order as they are read. */
static bool may_reorder(const tl_operand *right) {
    const tl_expr *name = right->value;
    const tl_statement *a = name->space == TL_SHARED ? name->symbol->shared.allocation : NULL;
    return a && tl_is_narrow(a->allocate.type) && tl_lies_across(right, true, a);
}

static bool check_product_layouts(code_executor *e, const tl_compute *c) {
    static const struct {
        tl_layout_kind kind;
        const char *rule, *name;
    } wanted[2] = {{TL_MMA_A, "the left operand must be in mma_A", "mma_A"},
                   {TL_MMA_B, "the right operand must be in mma_B", "mma_B"}};
    for (int i = 0; i < 2; i++) {
        const tl_expr *name = c->operands[i].value;
        if (name->space != TL_REGISTER || c->operands[i].is_transposed) continue;
        const code_register *r = code_register_of(e, name);
        if (!r || r->layout.kind == wanted[i].kind || r->layout.kind == TL_LAYOUT_NONE) continue;
        return code_stop_layout(e, name, r, str_from(wanted[i].rule), wanted[i].name);
    }
    if (!may_reorder(&c->operands[1]) &&
        is_permuted(e, c->operands[0].value) != is_permuted(e, c->operands[1].value)) {
        machine_stop(e->code->m, DIAG_INTERPRET_LAYOUT, c->operands[1].range,
                     STR("both operands must hold the contracted axis in the same order"),
                     c->operands[0].value->text,
                     is_permuted(e, c->operands[0].value) ? STR("permuted order")
                                                          : STR("plain order"));
        return false;
    }
    return true;
}

static bool check_product_target(code_executor *e, const tl_compute *c, const tile *t) {
    const code_register *r = code_register_of(e, c->target);
    if (c->target_kind != TL_ACCUMULATE) return true;
    if (!t->is_defined) {
        machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return false;
    }
    if (r->layout.kind == TL_MMA_C || r->layout.kind == TL_LAYOUT_NONE) return true;
    return code_stop_layout(e, c->target, r, STR("an accumulator must be in mma_C"), "mma_C");
}

/* Shapes, shares and origins of a, b and target. */
static bool check_product(code_executor *e, const tl_compute *c, const tile *a, const tile *b,
                          const tile *t) {
    machine *m = e->code->m;
    const tl_operand *x = &c->operands[0], *y = &c->operands[1];
    int row = x->is_transposed, inner_a = !row, column = !y->is_transposed, inner_b = !column;
    bool fits = a->count[inner_a] == b->count[inner_b] && a->count[row] == t->count[0] &&
                b->count[column] == t->count[1];
    if (!fits) {
        machine_stop(m, DIAG_INTERPRET_COUNTS, y->range, b->index[inner_b],
                     code_number_text(m, b->count[inner_b]),
                     code_number_text(m, a->count[inner_a]));
        return false;
    }
    bool has_rows =
        a->share.first[row] <= t->share.first[0] && a->share.end[row] >= t->share.end[0];
    bool has_inner = a->share.first[inner_a] == 0 && a->share.end[inner_a] == a->count[inner_a];
    bool has_columns = b->share.first[column] <= t->share.first[1] &&
                       b->share.end[column] >= t->share.end[1] && b->share.first[inner_b] == 0 &&
                       b->share.end[inner_b] == b->count[inner_b];
    if (!has_rows || !has_inner || !has_columns) {
        const tl_operand *bad = has_rows && has_inner ? y : x;
        machine_stop(m, DIAG_INTERPRET_SHARE, bad->range, bad->value->text);
        return false;
    }
    if (!code_check_origin(e, y->value, a, inner_a, x->value->text, b, inner_b, y->value->text)) {
        return false;
    }
    bool adds = c->target_kind == TL_ACCUMULATE;
    return !adds ||
           (code_check_origin(e, c->target, a, row, x->value->text, t, 0, c->target->text) &&
            code_check_origin(e, c->target, b, column, y->value->text, t, 1, c->target->text));
}

static code_outcome product(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    channels_flight f = {.statement = s, .source_count = 2};
    tile *a = code_read_operand(e, c->operands[0].value, &f.sources[0]);
    tile *b = a ? code_read_operand(e, c->operands[1].value, &f.sources[1]) : NULL;
    if (!a || !b || !check_product_layouts(e, c)) return CODE_FAILED;
    for (int i = 0; i < 2; i++) channels_use(e->sync, f.sources[i].tile);
    tile *t = product_target(e, s, &f.generation);
    if (!t || !check_product_target(e, c, t) || !check_product(e, c, a, b, t)) return CODE_FAILED;
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (!tile_product(&e->scope, t, &t->share, a, c->operands[0].is_transposed, b,
                      c->operands[1].is_transposed, adds)) {
        return CODE_FAILED;
    }
    if (!adds) code_forget_origin(t);
    code_take_origin(t, 0, a, c->operands[0].is_transposed);
    code_take_origin(t, 1, b, !c->operands[1].is_transposed);
    if (!adds) code_set_fresh_layout(code_register_of(e, c->target), s);
    code_set_written(t, s);
    f.tile = code_register_of(e, c->target)->number;
    if (c->is_async) channels_launch(e->code->sync, e->sync, f);
    return CODE_DONE;
}

/* --- elementwise, reductions, Mask ------------------------------------------------------------ */

/* The coordinate of a Compute says where the tile lies; it must agree with where its data came
 * from. */
static bool place_compute(code_executor *e, const tl_statement *s, const tl_expr *name, tile *t) {
    machine *m = e->code->m;
    const tl_place *place = &s->compute.place;
    for (int i = 0; place->is_given && i < t->axis_count; i++) {
        tl_spot spot = {.is_all = true}; /* as what is left out at the end */
        if (i < place->count) spot = place->items[i];
        int64_t at = 0;
        if (!spot.is_all && !scope_integer(&e->scope, spot.at, &at)) return false;
        int64_t start = spot.is_block ? at * t->count[i] : at;
        if (t->has_start[i] && t->start[i] != start) {
            machine_stop(m, DIAG_INTERPRET_PLACE, place->range, t->index[i],
                         code_number_text(m, start), name->text, code_number_text(m, t->start[i]));
            code_note(e, t->writer);
            return false;
        }
        t->start[i] = start;
        t->has_start[i] = true;
    }
    return true;
}

typedef struct elementwise_operands {
    const tl_operand *widest;
    const tile *widest_tile;
    code_register *layout_from;
    bool has_partial;
} elementwise_operands;

/* The operands, a bit each, that are parts of sums. */
static unsigned partial_operands(code_executor *e, const tl_compute *c) {
    unsigned operands = 0;
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *name = c->operands[i].value;
        bool is_tile = name->kind == TL_NAME && tl_tile_of(name) && name->space == TL_REGISTER;
        if (is_tile && code_register_of(e, name)->layout.is_partial) operands |= 1u << i;
    }
    return operands;
}

/* Does each thread hold the same elements of both, whole or as parts of a sum? */
static bool lies_alike(const code_executor *e, const code_register *a, const code_register *b) {
    tl_layout x = a->layout, y = b->layout;
    x.is_partial = y.is_partial = false;
    return model_same_layout(e->code->model, a->number, &x, b->number, &y);
}

static bool look_at_operands(code_executor *e, const tl_compute *c, const tile *target,
                             elementwise_operands *found) {
    *found = (elementwise_operands){0};
    bool is_narrow = target->format == CONVERT_F16 || target->format == CONVERT_BF16;
    bool is_linear = tl_is_linear(c->operation, partial_operands(e, c)) &&
                     !(is_narrow && tl_facts(c->operation)->is_identity);
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *name = c->operands[i].value;
        if (name->kind != TL_NAME || !tl_tile_of(name)) continue;
        channels_source operand;
        const tile *t = code_read_operand(e, name, &operand);
        if (!t || !code_check_share(e, name, t, target)) return false;
        code_register *r = name->space == TL_REGISTER ? code_register_of(e, name) : NULL;
        if (r && r->layout.is_partial) {
            if (!is_linear && !code_check_whole(e, name, r)) return false;
            found->has_partial = true;
            found->layout_from = r;
        }
        bool is_other = found->layout_from && found->widest_tile && r && t->axis_count == 2 &&
                        found->widest_tile->axis_count == 2 &&
                        !lies_alike(e, r, found->layout_from);
        if (is_other) {
            return code_stop_layout(e, name, r, STR("both operands must lie alike"),
                                    tl_layout_kind_name(found->layout_from->layout.kind));
        }
        if (found->widest_tile && t->axis_count <= found->widest_tile->axis_count) continue;
        found->widest = &c->operands[i];
        found->widest_tile = t;
        if (r && !found->has_partial) found->layout_from = r;
    }
    return true;
}

static bool check_fill(code_executor *e, const tl_compute *c, const code_register *r) {
    tl_value value;
    bool is_part =
        c->operation == TL_FILL && r->symbol->in_register.allocation->allocate.layout.is_partial;
    if (!is_part || !scope_evaluate(&e->scope, c->operands[0].value, &value)) return true;
    bool is_zero = value.is_real ? value.real == 0 : value.integer == 0;
    if (is_zero) return true;
    machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, c->target->range, c->target->text);
    return false;
}

static code_outcome elementwise(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    code_open_value(e, c->target, s);
    tile *t = code_write_register(e, c->target, false);
    code_register *r = code_register_of(e, c->target);
    elementwise_operands found;
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (!t || !r || !look_at_operands(e, c, t, &found) || !check_fill(e, c, r)) return CODE_FAILED;
    if (adds && (!t->is_defined || r->layout.is_partial)) {
        if (t->is_defined) code_check_whole(e, c->target, r);
        else machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    bool is_self = found.widest_tile == t;
    if (!adds && !is_self) code_forget_origin(t);
    for (int i = 0; found.widest_tile && !is_self && i < t->axis_count; i++) {
        int from = found.widest->is_transposed ? t->axis_count - 1 - i : i;
        if (from >= found.widest_tile->axis_count) continue;
        if (adds && !code_check_origin(e, c->target, found.widest_tile, from,
                                       found.widest->value->text, t, i, c->target->text)) {
            return CODE_FAILED;
        }
        code_take_origin(t, i, found.widest_tile, from);
    }
    if (!place_compute(e, s, c->target, t)) return CODE_FAILED;
    if (!tile_elementwise(&e->scope, s, t, &t->share, adds)) return CODE_FAILED;
    if (found.layout_from && found.layout_from != r)
        code_set_layout(r, &found.layout_from->layout, s);
    if (!found.layout_from && !adds) code_set_fresh_layout(r, s);
    code_set_written(t, s);
    return CODE_DONE;
}

static code_outcome reduce(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_operand *operand = &c->operands[0];
    channels_source unused;
    const tile *from = code_read_operand(e, operand->value, &unused);
    code_open_value(e, c->target, s);
    tile *t = from ? code_write_register(e, c->target, false) : NULL;
    code_register *r = code_register_of(e, c->target);
    if (!t || !r || from->axis_count != 2) return CODE_FAILED;
    int kept = operand->is_transposed ? 1 : 0, gone = 1 - kept;
    bool is_own = from->share.first[gone] == 0 && from->share.end[gone] == from->count[gone] &&
                  from->share.first[kept] <= t->share.first[0] &&
                  from->share.end[kept] >= t->share.end[0] && from->count[kept] == t->count[0];
    if (!is_own) {
        machine_stop(e->code->m, DIAG_INTERPRET_SHARE, operand->range, operand->value->text);
        return CODE_FAILED;
    }
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (adds && !t->is_defined) {
        machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    const tl_layout *fresh = &r->symbol->in_register.allocation->allocate.layout;
    bool is_partial = adds ? r->layout.is_partial : fresh->is_partial;
    if (is_partial && !tl_reduces_by_sum(c->operation)) {
        machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    if (adds &&
        !code_check_origin(e, c->target, from, kept, operand->value->text, t, 0, c->target->text)) {
        return CODE_FAILED;
    }
    if (!tile_reduce(&e->scope, c->operation, t, &t->share, from, operand->is_transposed, adds)) {
        return CODE_FAILED;
    }
    if (!adds) code_forget_origin(t);
    code_take_origin(t, 0, from, kept);
    if (!adds) code_set_fresh_layout(r, s);
    code_set_written(t, s);
    return CODE_DONE;
}

static code_outcome mask(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_expr *name = c->operands[0].value;
    channels_source unused;
    if (c->target && c->target->symbol != name->symbol) {
        machine_stop(e->code->m, DIAG_INTERPRET_UNSUPPORTED, s->range,
                     STR("Mask into another tile"));
        return CODE_FAILED;
    }
    tile *t = code_read_register(e, name, &unused);
    if (!t || !code_write_register(e, name, false) || !place_compute(e, s, name, t))
        return CODE_FAILED;
    if (!code_check_whole(e, name, code_register_of(e, name))) return CODE_FAILED;
    return tile_mask(&e->scope, s, t, &t->share) ? CODE_DONE : CODE_FAILED;
}

code_outcome code_compute(code_executor *e, const tl_statement *s) {
    e->scope.at = s;
    switch (tl_operation_shape(s->compute.operation)) {
    case TL_SHAPE_PRODUCT: return product(e, s);
    case TL_SHAPE_REDUCTION: return reduce(e, s);
    case TL_SHAPE_MASK: return mask(e, s);
    case TL_SHAPE_CHOICE:
    case TL_SHAPE_SOFTMAX:
        machine_stop(e->code->m, DIAG_INTERPRET_UNSUPPORTED, s->range,
                     str_format(e->code->m->memory, "%s in TL Code",
                                tl_operation_name(s->compute.operation)));
        return CODE_FAILED;
    default: return elementwise(e, s);
    }
}
