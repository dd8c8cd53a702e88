/* Tiles are made from their Allocates: shapes, stages, and which thread has what. */
#include "translate/emit.h"

static bool known_extent(emit *t, const tl_expr *e, int *out) {
    int64_t value;
    if (!e || !tl_known_integer(e, &value) || value < 1 || value > LAYOUT_EXTENT_MAX) {
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_OPEN, e ? e->range : t->kernel->range,
                    STR("the shape of a tile"), STR("each extent must be known at compile time"));
        return false;
    }
    *out = (int)value;
    return true;
}

emit_tile *emit_tile_in(emit *t, const tl_symbol *s, tl_space space) {
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->symbol == s && tile->space == space) return emit_newest(tile);
    }
    for (int i = 0; space == TL_SHARED && i < t->parts.count; i++) {
        if (t->parts.items[i]->symbol == s) return t->parts.items[i];
    }
    return NULL;
}

emit_tile *emit_tile_of(emit *t, const tl_expr *name) {
    if (!name || name->kind != TL_NAME || !name->symbol) return NULL;
    if (name->space != TL_NOWHERE && name->space != TL_GLOBAL) {
        return emit_tile_in(t, name->symbol, name->space);
    }
    emit_tile *tile = emit_tile_in(t, name->symbol, TL_REGISTER);
    return tile ? tile : emit_tile_in(t, name->symbol, TL_SHARED);
}

emit_tile *emit_target_of(emit *t, const tl_statement *compute) {
    return emit_tile_of(t, tl_written_name(compute));
}

emit_value emit_extent(emit *t, const emit_tile *tile, int axis) {
    int extent = axis ? tile->columns : tile->rows;
    const tl_exprs *shape = &tile->tile->allocation->allocate.shape;
    const tl_expr *said = axis < shape->count ? shape->items[axis] : NULL;
    const emit_name *name = said && said->kind == TL_NAME ? emit_name_find(t, said->symbol) : NULL;
    bool is_it = name && name->low == extent && name->high == extent;
    return is_it ? emit_named(name->name, extent, extent) : emit_constant(t, extent);
}

/* --- registers -------------------------------------------------------------------------------- */

emit_shape emit_shape_of(const layout *l, bool is_lines) {
    enum { FRAGMENT_ROWS = 16, FRAGMENT_COLUMNS = 8, FRAGMENT_ELEMENTS = 4 };
    layout_pieces p = layout_pieces_of(l);
    emit_shape shape = {.is_lines = is_lines,
                        .down = p.down,
                        .across = p.across,
                        .elements = p.elements,
                        .row_step = p.row_step,
                        .column_step = p.column_step};
    if (is_lines) return shape;
    shape.across = p.across * p.elements / FRAGMENT_ELEMENTS, shape.elements = FRAGMENT_ELEMENTS;
    shape.row_step = FRAGMENT_ROWS, shape.column_step = FRAGMENT_COLUMNS;
    return shape;
}

bool emit_divide_operand(const emit *t, const tl_layout *said, access_operand_request *request) {
    model_spread spread = model_spread_of(t->now, said);
    request->warps_down = spread.down * t->now->executor_warps;
    request->warps_across = spread.across;
    return spread.across == 1 || t->now->executor_warps == 1;
}

bool emit_misfits(emit *t, diag_range range, const emit_tile *tile, layout_fit fit) {
    if (fit.status == LAYOUT_OK) return false;
    emit_unsupported(t, range, tile->name, "%d does not fit a multiple of %d", fit.found,
                     fit.multiple);
    return true;
}

static bool whole_layout(emit *t, const tl_statement *s, emit_tile *tile) {
    const tl_layout *l = &s->allocate.layout;
    bool is_narrow = tl_is_narrow(tile->type);
    if (l->kind != TL_MMA_A && l->kind != TL_MMA_C && l->kind != TL_LINES)
        return emit_unsupported(
            t, s->range, tile->name,
            "a matrix in registers is mma_A, mma_C or lines; a right operand is read "
            "from shared memory");
    bool is_quads = is_narrow && l->kind != TL_LINES;
    bool is_turned = l->is_permuted && l->kind != TL_MMA_C && !is_narrow;
    if (is_turned || (is_quads && tile->columns % (16 * (l->over_columns ? l->over_columns : 1))))
        return emit_unsupported(t, s->range, tile->name,
                                is_turned ? "permuted operands of 16 bits have no atoms"
                                          : "8-bit fragments have multiples of 16 columns");
    if (emit_misfits(t, s->range, tile, tile->bound->fit)) return false;
    tile->layout = *tile->bound->layout;
    tile->shape = emit_shape_of(&tile->layout, l->kind == TL_LINES);
    tile->shape.alternates = l->kind == TL_MMA_C && l->is_permuted;
    tile->is_packed = tl_type_bits(tile->type) <= 16;
    return true;
}

static bool vector_layout(emit *t, const tl_statement *s, emit_tile *tile) {
    const tl_layout *l = &s->allocate.layout;
    const emit_tile *base = l->of ? emit_tile_in(t, l->of->symbol, TL_REGISTER) : NULL;
    if (!base || base->is_vector || !tl_is_vector_layout(l))
        return emit_unsupported(t, s->range, tile->name,
                                "a vector in registers is `rows of` or `columns of` a matrix");
    tile->layout = *tile->bound->layout;
    tile->layout.partial = false;
    tile->shape = base->shape;
    tile->shape.part = l->kind == TL_ROWS ? PART_ROWS : PART_COLUMNS;
    tile->is_partial = l->is_partial;
    return true;
}

/* --- all of them ------------------------------------------------------------------------------ */

static emit_tile *start_tile(emit *t, const tl_statement *s, tl_symbol *symbol) {
    emit_tile *tile = arena_new(t->memory, emit_tile);
    const char *place = s->allocate.space == TL_SHARED ? "_shared" : "_register";
    bool has_other_place = symbol->parameter || symbol->view || symbol->shared.exists;
    bool bare = s->allocate.space == TL_REGISTER && !has_other_place;
    *tile = (emit_tile){.symbol = symbol, .space = s->allocate.space, .stages = 1};
    tile->bound = &t->model->tiles[model_find_tile(t->model, symbol, tile->space)];
    tile->tile = tile->space == TL_SHARED ? &symbol->shared : &symbol->in_register;
    tile->name = bare ? emit_clean(t, symbol->name)
                      : emit_format(t, "%.*s%s", STR_ARGS(symbol->name), place);
    tile->own_row = emit_format(t, "%.*s_row", STR_ARGS(tile->name));
    tile->own_column = emit_format(t, "%.*s_column", STR_ARGS(tile->name));
    tile->type = s->allocate.type;
    int count = s->allocate.shape.count;
    tile->is_vector = count == 1;
    tile->columns = 1;
    if (count < 1 || count > 2) {
        emit_unsupported(t, s->range, tile->name, "a tile has one axis or two here");
        return NULL;
    }
    if (!known_extent(t, s->allocate.shape.items[0], &tile->rows)) return NULL;
    if (count == 2 && !known_extent(t, s->allocate.shape.items[1], &tile->columns)) return NULL;
    int64_t stages = 1;
    if (s->allocate.stages &&
        (!tl_known_integer(s->allocate.stages, &stages) || stages < 1 || stages > 64)) {
        emit_unsupported(t, s->range, tile->name, "its stages are not known");
        return NULL;
    }
    bool rings = stages > 1 && tile->space == TL_REGISTER;
    if (rings && (!t->is_async || tile->is_vector || !tl_is_value_ring(t->kernel, symbol))) {
        emit_unsupported(t, s->range, tile->name,
                         "a ring in registers is of matrices that elementwise statements write, "
                         "beside asynchronous products");
        return NULL;
    }
    tile->stages = (int)stages;
    return tile;
}

/* A ring in registers: an array for each generation, named by number. */
static void make_generations(emit *t, emit_tile *tile) {
    tile->generations = arena_array(t->memory, emit_tile *, tile->stages);
    for (int i = 0; i < tile->stages; i++) {
        emit_tile *one = arena_new(t->memory, emit_tile);
        *one = *tile;
        one->generations = NULL;
        one->name = emit_format(t, "%.*s_%d", STR_ARGS(tile->name), i);
        tile->generations[i] = one;
    }
}

static void make_tiles_of(emit *t, const tl_statement *s, bool vectors) {
    if (s->allocate.space == TL_GLOBAL || (s->allocate.shape.count == 1) != vectors) return;
    for (int i = 0; i < s->allocate.name_count; i++) {
        emit_tile *tile = start_tile(t, s, s->allocate.symbols[i]);
        if (!tile) continue;
        if (tile->space == TL_SHARED) {
            emit_make_store(t, s, tile);
        } else if (tile->is_vector ? !vector_layout(t, s, tile) : !whole_layout(t, s, tile)) {
            continue;
        }
        if (tile->space == TL_REGISTER && tile->stages > 1) make_generations(t, tile);
        list_push(t->memory, &t->tiles, tile);
    }
}

void emit_make_tiles(emit *t) {
    for (int vectors = 0; vectors < 2; vectors++) {
        for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind == TL_ALLOCATE) make_tiles_of(t, s, vectors);
        }
    }
    emit_find_carriers(t);
    emit_make_parts(t);
    if (t->is_async) emit_find_lazy(t);
    emit_place_shared(t);
    emit_place_parts(t);
}
