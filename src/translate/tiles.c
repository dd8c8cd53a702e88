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

static void set_shape(emit_tile *tile, const tl_layout *l, const layout_request *r) {
    emit_shape *shape = &tile->shape;
    *shape = (emit_shape){.is_lines = l->kind == TL_LINES};
    if (shape->is_lines) {
        shape->elements = 16 / r->element_bytes;
        int chunks = tile->columns / shape->elements, along = chunks & -chunks;
        shape->across = chunks / (along > LAYOUT_LANES ? LAYOUT_LANES : along);
        shape->down = layout_elements(&tile->layout) / shape->elements / shape->across;
        shape->column_step = layout_step(&tile->layout, shape->elements).column;
        shape->row_step = layout_step(&tile->layout, shape->elements * shape->across).row;
        if (shape->across == 1) shape->column_step = 0;
    } else {
        int across = l->kind == TL_MMA_C ? r->warps_across : 1;
        shape->down = tile->rows / (r->warps_down * (r->group ? r->group : 1)) / 16;
        shape->across = tile->columns / across / 8;
        shape->elements = 4, shape->row_step = 16, shape->column_step = 8;
        shape->alternates = l->kind == TL_MMA_C && l->is_permuted;
    }
}

bool emit_misfits(emit *t, diag_range range, const emit_tile *tile, layout_fit fit) {
    if (fit.status == LAYOUT_OK) return false;
    emit_unsupported(t, range, tile->name, "%d does not fit a multiple of %d", fit.found,
                     fit.multiple);
    return true;
}

static bool whole_layout(emit *t, const tl_statement *s, emit_tile *tile) {
    const tl_layout *l = &s->allocate.layout;
    int bytes = tl_type_bytes(tile->type);
    bool over = l->over_rows > 0;
    layout_request r = {.rows = tile->rows,
                        .columns = tile->columns,
                        .element_bytes = bytes,
                        .warps_down = over ? l->over_rows : t->warps,
                        .warps_across = over ? l->over_columns : 1};
    if (over) r.group = t->warps / (l->over_rows * l->over_columns);
    switch (l->kind) {
    case TL_MMA_A: r.kind = LAYOUT_MMA_A; break;
    case TL_MMA_C: r.kind = LAYOUT_MMA_C; break;
    case TL_LINES: r.kind = LAYOUT_LINES; break;
    default:
        emit_unsupported(t, s->range, tile->name,
                         "a matrix in registers is mma_A, mma_C or lines; a right operand is read "
                         "from shared memory");
        return false;
    }
    bool is_quads = bytes == 1 && l->kind != TL_LINES;
    r.permuted = l->is_permuted;
    bool is_turned = l->is_permuted && l->kind != TL_MMA_C && bytes > 1;
    if (is_turned || (is_quads && tile->columns % (16 * r.warps_across))) {
        emit_unsupported(t, s->range, tile->name,
                         is_turned ? "permuted operands of 16 bits have no atoms"
                                   : "8-bit fragments have multiples of 16 columns");
        return false;
    }
    /* Warps take consecutive rows where that leaves none idle, so that what a warp wrote it reads.
     */
    r.warp_rows = true;
    if (emit_misfits(t, s->range, tile, layout_make(&r, &tile->layout))) return false;
    if (r.kind == LAYOUT_LINES && !layout_is_full(&tile->layout)) {
        r.warp_rows = false;
        if (emit_misfits(t, s->range, tile, layout_make(&r, &tile->layout))) return false;
    }
    set_shape(tile, l, &r);
    tile->is_packed = bytes <= 2;
    return true;
}

static emit_tile *vector_base(emit *t, const tl_statement *s, const emit_tile *tile) {
    const tl_layout *l = &s->allocate.layout;
    if (l->of) return emit_tile_in(t, l->of->symbol, TL_REGISTER);
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *other = t->tiles.items[i];
        int extent = l->kind == TL_ROWS ? other->rows : other->columns;
        if (other->space == TL_REGISTER && !other->is_vector && extent == tile->rows) return other;
    }
    return NULL;
}

static bool vector_layout(emit *t, const tl_statement *s, emit_tile *tile) {
    const tl_layout *l = &s->allocate.layout;
    const emit_tile *base = vector_base(t, s, tile);
    if (!base || base->is_vector || (l->kind != TL_ROWS && l->kind != TL_COLUMNS)) {
        emit_unsupported(t, s->range, tile->name,
                         "a vector in registers is `rows of` or `columns of` a matrix");
        return false;
    }
    layout_axis axis = l->kind == TL_ROWS ? LAYOUT_ROWS : LAYOUT_COLUMNS;
    if ((axis == LAYOUT_ROWS ? base->rows : base->columns) != tile->rows) {
        emit_unsupported(t, s->range, tile->name, "its extent is not that of %.*s",
                         STR_ARGS(base->name));
        return false;
    }
    tile->layout = layout_vector(&base->layout, axis);
    tile->shape = base->shape;
    tile->shape.part = axis == LAYOUT_ROWS ? PART_ROWS : PART_COLUMNS;
    tile->is_partial = l->is_partial;
    return true;
}
/* --- all of them ------------------------------------------------------------------------------ */

static bool has_other_place(const tl_symbol *s, tl_space space) {
    if (s->parameter || s->view) return true;
    return space == TL_REGISTER ? s->shared.exists : s->in_register.exists;
}

static emit_tile *start_tile(emit *t, const tl_statement *s, tl_symbol *symbol) {
    emit_tile *tile = arena_new(t->memory, emit_tile);
    const char *place = s->allocate.space == TL_SHARED ? "_shared" : "_register";
    bool bare = s->allocate.space == TL_REGISTER && !has_other_place(symbol, TL_REGISTER);
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

/* A register tile is divided over the warps of its role. */
static void set_role_of(emit *t, const tl_statement *s) {
    const tl_statement *role = tl_role_of(s);
    for (int i = 0; role && i < t->model->role_count; i++) {
        if (t->model->roles[i].statement == role) t->warps = t->model->roles[i].warps;
    }
}

void emit_make_tiles(emit *t) {
    for (int vectors = 0; vectors < 2; vectors++) {
        for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind != TL_ALLOCATE) continue;
            set_role_of(t, s);
            make_tiles_of(t, s, vectors);
        }
    }
    emit_find_carriers(t);
    emit_make_parts(t);
    if (t->is_async) emit_find_lazy(t);
    emit_place_shared(t);
    emit_place_parts(t);
}
