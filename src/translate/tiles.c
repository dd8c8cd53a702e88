/* Tiles: where each lies in shared memory, and how registers are arrayed. */
#include "translate/emit.h"

enum { SHARED_ALIGNMENT = 128, MBARRIER_BYTES = 8 };

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

const char *emit_type_word(tl_type type) {
    return tl_type_name(type);
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
        shape->down = tile->rows / r->warps_down / 16;
        shape->across = tile->columns / across / 8;
        shape->elements = 4, shape->row_step = 16, shape->column_step = 8;
    }
}

static bool refused(emit *t, diag_range range, const emit_tile *tile, layout_fit fit) {
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
    switch (l->kind) {
    case TL_MMA_A: r.kind = LAYOUT_MMA_A; break;
    case TL_MMA_C: r.kind = LAYOUT_MMA_C; break;
    case TL_LINES: r.kind = LAYOUT_LINES; break;
    default:
        emit_unsupported(t, s->range, tile->name,
                         "a matrix in registers is mma_A, mma_C or lines here");
        return false;
    }
    if (l->is_permuted || bytes < 2) {
        emit_unsupported(t, s->range, tile->name, "8-bit and permuted tiles have no atoms yet");
        return false;
    }
    /* Warps take consecutive rows where that leaves none idle, so that what a warp wrote it reads.
     */
    r.warp_rows = true;
    if (refused(t, s->range, tile, layout_make(&r, &tile->layout))) return false;
    if (r.kind == LAYOUT_LINES && !layout_is_full(&tile->layout)) {
        r.warp_rows = false;
        if (refused(t, s->range, tile, layout_make(&r, &tile->layout))) return false;
    }
    set_shape(tile, l, &r);
    tile->is_packed = bytes == 2;
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

static int array_length(const emit_tile *tile) {
    const emit_shape *s = &tile->shape;
    if (s->part == PART_ROWS) return s->is_lines ? s->down : s->down * 2;
    if (s->part == PART_COLUMNS) return s->is_lines ? s->across * s->elements : s->across * 2;
    return s->down * s->across * s->elements / (tile->is_packed ? 2 : 1);
}

static str dimensions(emit *t, const emit_tile *tile) {
    const emit_shape *s = &tile->shape;
    if (s->part == PART_ROWS) return emit_format(t, s->is_lines ? "[%d]" : "[%d][2]", s->down);
    if (s->part == PART_COLUMNS)
        return emit_format(t, "[%d][%d]", s->across, s->is_lines ? s->elements : 2);
    return emit_format(t, "[%d][%d][%d]", s->down, s->across,
                       s->elements / (tile->is_packed ? 2 : 1));
}

str emit_array_type(const emit_tile *tile) {
    if (tile->is_packed) return STR("unsigned");
    return tile->type == TL_I32 ? STR("int") : STR("float");
}

str emit_terms(emit *t, const bitmatrix *lanes) {
    bitmatrix_term terms[BITMATRIX_TERMS_MAX];
    int count = bitmatrix_terms(lanes, terms);
    assert(count >= 0);
    str text = {0};
    for (int i = 0; i < count; i++) {
        bool whole = terms[i].mask == 31u >> terms[i].from;
        str piece = STR("lane");
        if (terms[i].from) piece = emit_format(t, "(lane >> %d)", terms[i].from);
        if (!whole) piece = emit_format(t, "(%.*s & %u)", STR_ARGS(piece), terms[i].mask);
        if (terms[i].to) piece = emit_format(t, "%.*s * %d", STR_ARGS(piece), 1 << terms[i].to);
        text = text.length ? emit_format(t, "%.*s + %.*s", STR_ARGS(text), STR_ARGS(piece)) : piece;
    }
    return text.length ? text : STR("0");
}

static str warp_digit(emit *t, int divisor, int count) {
    if (divisor == 1 && count == t->warps) return STR("warp");
    if (divisor == 1) return emit_format(t, "warp %% %d", count);
    if (divisor * count == t->warps) return emit_format(t, "warp / %d", divisor);
    return emit_format(t, "warp / %d %% %d", divisor, count);
}

static str plus(emit *t, str a, str b) {
    if (str_is(a, "0")) return b;
    if (str_is(b, "0")) return a;
    return emit_format(t, "%.*s + %.*s", STR_ARGS(a), STR_ARGS(b));
}

static str own_text(emit *t, const layout *l, layout_axis axis) {
    bitmatrix lanes = layout_lane_map(l, axis);
    str text = STR("0");
    int divisor = 1;
    for (int i = 0; i < 2; i++) {
        int step = axis == LAYOUT_ROWS ? l->spread[i].step.row : l->spread[i].step.column;
        if (step && l->spread[i].count > 1) {
            text = plus(t, text,
                        emit_format(t, "%.*s * %d",
                                    STR_ARGS(warp_digit(t, divisor, l->spread[i].count)), step));
        }
        divisor *= l->spread[i].count;
    }
    return plus(t, text, emit_terms(t, &lanes));
}

str emit_own_address(emit *t, const access_threads *threads) {
    str line = STR("0"), byte = STR("0");
    for (int i = 0; i < 2; i++) {
        const access_share *share = &threads->shares[i];
        if (share->count == 1) continue;
        str digit = warp_digit(t, share->divisor, share->count);
        if (share->lines)
            line = plus(t, line, emit_format(t, "%.*s * %d", STR_ARGS(digit), share->lines));
        if (share->bytes)
            byte = plus(t, byte, emit_format(t, "%.*s * %d", STR_ARGS(digit), share->bytes));
    }
    str lane_line = emit_terms(t, &threads->lane_line),
        lane_byte = emit_terms(t, &threads->lane_byte);
    line = plus(t, line, lane_line);
    byte = plus(t, byte, lane_byte);
    emit_text(t, "const int line = %.*s, byte = %.*s;", STR_ARGS(line), STR_ARGS(byte));
    if (threads->swizzle_bytes == SHARED_UNIT_BYTES)
        return emit_format(t, "(unsigned)(line * %d + byte)", threads->pitch_bytes);
    str turn = threads->swizzle_shift
                   ? emit_format(t, "(line & 7) >> %d << 4", threads->swizzle_shift)
                   : STR("(line & 7) << 4");
    return emit_format(t, "(unsigned)(line * %d + (byte ^ %.*s))", threads->pitch_bytes,
                       STR_ARGS(turn));
}

static emit_tile **ring_of(const emit *t, const tl_symbol *symbol) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->symbol == symbol && tile->space == TL_REGISTER) return tile->generations;
    }
    return NULL;
}

void emit_declare_register(emit *t, const tl_statement *s) {
    for (int i = 0; i < s->allocate.name_count; i++) {
        emit_tile *tile = emit_tile_in(t, s->allocate.symbols[i], TL_REGISTER);
        if (!tile) continue;
        emit_tile **generations = ring_of(t, tile->symbol);
        for (int k = 0; k < (generations ? tile->stages : 1); k++) {
            const emit_tile *one = generations ? generations[k] : tile;
            emit_text(t, "%.*s %.*s%.*s;", STR_ARGS(emit_array_type(one)), STR_ARGS(one->name),
                      STR_ARGS(dimensions(t, one)));
            t->array_registers += array_length(one);
        }
        if (tile->is_lazy) {
            str holds = emit_format(t, "%.*s_holds", STR_ARGS(tile->name));
            emit_declare(t, holds, "bool %.*s = true; // a sum that products add to",
                         STR_ARGS(holds));
        }
    }
}

void emit_fresh_thread(emit *t) {
    emit_declare(t, STR("thread"), "const int thread = ftl_thread();");
    emit_declare(t, STR("lane"), "const int lane = thread & 31;");
    if (t->is_async && t->now->first_warp)
        emit_declare(t, STR("warp"), "const int warp = (thread >> 5) - %d;", t->now->first_warp);
    else emit_declare(t, STR("warp"), "const int warp = thread >> 5;");
}

void emit_declare_place(emit *t, const layout *l, str row, str column) {
    emit_declare(t, row, "const int %.*s = %.*s;", STR_ARGS(row),
                 STR_ARGS(own_text(t, l, LAYOUT_ROWS)));
    emit_declare(t, column, "const int %.*s = %.*s;", STR_ARGS(column),
                 STR_ARGS(own_text(t, l, LAYOUT_COLUMNS)));
}

void emit_declare_own(emit *t, const emit_tile *tile) {
    emit_declare_place(t, &tile->layout, tile->own_row, tile->own_column);
}

/* The C expression of one element, inside the loops of a frame: m16, n8, half over fragments; down,
 * across, half over lines; 'e' tells the two elements of a pair apart. Loops over column vectors
 * have `element` in place of half.
 */
str emit_element(emit *t, const emit_tile *tile, const emit_shape *frame, int e) {
    const char *down = frame->is_lines ? "down" : "m16",
               *across = frame->is_lines ? "across" : "n8";
    str name = tile->name;
    if (tile->shape.part == PART_ROWS) {
        if (frame->is_lines) return emit_format(t, "%.*s[down]", STR_ARGS(name));
        return emit_format(t, "%.*s[m16][half]", STR_ARGS(name));
    }
    if (tile->shape.part == PART_COLUMNS) {
        if (frame->part == PART_COLUMNS)
            return emit_format(t, "%.*s[%s][element]", STR_ARGS(name), across);
        if (!frame->is_lines) return emit_format(t, "%.*s[n8][%d]", STR_ARGS(name), e);
        return emit_format(t, e ? "%.*s[across][2 * half + 1]" : "%.*s[across][2 * half]",
                           STR_ARGS(name));
    }
    if (tile->is_packed) {
        return emit_format(t, "ftl_%s_%s(%.*s[%s][%s][half])", e ? "high" : "low",
                           emit_type_word(tile->type), STR_ARGS(name), down, across);
    }
    return emit_format(t, e ? "%.*s[%s][%s][2 * half + 1]" : "%.*s[%s][%s][2 * half]",
                       STR_ARGS(name), down, across);
}

bool emit_tile_partial_at(emit *t, const tl_statement *s, const emit_tile *tile) {
    for (int i = 0; t->facts && i < t->facts->layout_count; i++) {
        const check_layout_at *at = &t->facts->layouts[i];
        if (at->statement == s && at->tile == tile->symbol) return at->layout.is_partial;
    }
    return tile->is_partial;
}

/* --- shared memory ---------------------------------------------------------------------------- */

/* TMA and asynchronous products know lines of at most the swizzle's bytes. */
static bool is_in_panels(emit *t, const tl_symbol *symbol, int swizzle_bytes) {
    if (swizzle_bytes <= SHARED_UNIT_BYTES) return false;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY && str_is(s->copy.atom, "tma")) {
            tl_end from = tl_copy_source(s), to = tl_copy_target(s);
            if (from.space == TL_SHARED && from.symbol == symbol) return true;
            if (to.space == TL_SHARED && to.symbol == symbol) return true;
        }
        if (s->kind != TL_COMPUTE || !s->compute.is_async) continue;
        for (int i = 0; i < s->compute.operand_count; i++) {
            const tl_expr *e = s->compute.operands[i].value;
            if (e->kind == TL_NAME && e->symbol == symbol && e->space != TL_REGISTER) return true;
        }
    }
    return false;
}

static void make_store(emit *t, const tl_statement *s, emit_tile *tile) {
    int bytes = tl_type_bytes(tile->type);
    if (tile->is_vector) {
        tile->store = (shared_layout){.rows = tile->rows,
                                      .columns = 1,
                                      .element_bytes = bytes,
                                      .pitch_bytes = bytes,
                                      .swizzle_bytes = SHARED_UNIT_BYTES};
        tile->slot_bytes = (int64_t)tile->rows * bytes;
    } else {
        layout_fit fit =
            is_in_panels(t, tile->symbol, s->allocate.swizzle_bytes)
                ? shared_make_panels(tile->rows, tile->columns, bytes, s->allocate.swizzle_bytes,
                                     s->allocate.by_columns, &tile->store)
                : shared_make(tile->rows, tile->columns, bytes, s->allocate.swizzle_bytes,
                              s->allocate.by_columns, 0, &tile->store);
        if (refused(t, s->range, tile, fit)) return;
        tile->slot_bytes = shared_bytes(&tile->store);
    }
    tile->slot_bytes =
        (tile->slot_bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    if (s->allocate.is_permuted) {
        emit_unsupported(t, s->range, tile->name, "8-bit and permuted tiles have no atoms yet");
    }
    tile->by_mbarrier = s->allocate.channel.length > 0;
    if (tile->by_mbarrier && !gpu_has(t->gpu, GPU_FEATURE_mbarrier)) {
        emit_unsupported(t, s->range, tile->name, "this GPU has no mbarrier");
    }
}

static emit_tile *root_of(emit_tile *tile) {
    while (tile->base) tile = tile->base;
    return tile;
}

/* A swizzle of N bytes repeats every 8 N, and TMA and descriptors go by the address. */
static int64_t alignment_of(const emit_tile *tile) {
    return tile->store.panels ? 8 * tile->store.swizzle_bytes : SHARED_ALIGNMENT;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static void place_shared(emit *t) {
    int64_t offset = 0;
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *root = t->tiles.items[i];
        if (root->space != TL_SHARED || root->base) continue;
        int64_t bytes = 0;
        for (int j = 0; j < t->tiles.count; j++) {
            emit_tile *tile = t->tiles.items[j];
            if (tile->space == TL_SHARED && root_of(tile) == root)
                offset = round_up(offset, alignment_of(tile));
        }
        for (int j = 0; j < t->tiles.count; j++) {
            emit_tile *tile = t->tiles.items[j];
            if (tile->space != TL_SHARED || root_of(tile) != root) continue;
            tile->offset_bytes = offset;
            if (tile->slot_bytes * tile->stages > bytes) bytes = tile->slot_bytes * tile->stages;
        }
        offset += bytes;
    }
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED || !(tile->by_mbarrier || tile->frees)) continue;
        offset = round_up(offset, MBARRIER_BYTES);
        tile->full_offset = offset;
        tile->empty_offset = offset + tile->stages * MBARRIER_BYTES;
        offset += 2 * tile->stages * MBARRIER_BYTES;
    }
    if (t->is_async) emit_plan_walk(t, &offset);
    t->shared_bytes = offset;
}

void emit_declare_shared(emit *t) {
    emit_declare(t, STR("shared"), "const unsigned shared = ftl_shared_base();");
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        if (t->is_async) {
            emit_declare(t, tile->name, "%sunsigned %.*s = shared + %lld;",
                         tile->stages == 1 ? "const " : "", STR_ARGS(tile->name),
                         (long long)tile->offset_bytes);
            continue;
        }
        tile->has_fill_slot = tile->stages > 1 && emit_fills_vary(t, tile);
        str fill = emit_format(t, "%.*s_fill", STR_ARGS(tile->name));
        if (tile->stages == 1) {
            emit_declare(t, tile->name, "const unsigned %.*s = shared + %lld;",
                         STR_ARGS(tile->name), (long long)tile->offset_bytes);
        } else {
            int64_t last = tile->offset_bytes + (tile->stages - 1) * tile->slot_bytes;
            emit_declare(t, tile->name,
                         "unsigned %.*s = shared + %lld; // slot of the generation held",
                         STR_ARGS(tile->name), (long long)last);
            if (tile->has_fill_slot)
                emit_declare(t, fill, "unsigned %.*s = shared + %lld; // slot of the next copy",
                             STR_ARGS(fill), (long long)tile->offset_bytes);
        }
        if (tile->by_mbarrier) emit_declare_ring(t, tile);
    }
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
            make_store(t, s, tile);
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
    for (int i = 0; role && i < t->roles.count; i++) {
        if (t->roles.items[i].statement == role) t->warps = t->roles.items[i].warps;
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
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        const tl_symbol *base = tl_in_place_of(t->kernel, tile->tile->allocation);
        if (base) tile->base = emit_tile_in(t, base, TL_SHARED);
    }
    if (t->is_async) {
        emit_plan_channels(t);
        emit_find_lazy(t);
    }
    place_shared(t);
}
