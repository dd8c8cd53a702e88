#include "reason/tiles.h"

#include "tl/names.h"

/* --- tensors ---------------------------------------------------------------------------------- */

const tl_axes *tiles_tensor(const tl_kernel *kernel, str name) {
    return tl_axes_of(kernel, edit_bare(name));
}

/* The first element of a tensor that a view's value names: what it shows, not what decides. */
static const tl_expr *first_element(const tl_kernel *kernel, const tl_expr *e) {
    if (!e) return NULL;
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    if (e->kind == TL_ELEMENT && tiles_tensor(kernel, e->text)) return e;
    const tl_expr *found = first_element(kernel, e->left);
    if (!found) found = first_element(kernel, e->right);
    for (int i = selects; i < e->item_count && !found; i++)
        found = first_element(kernel, e->items[i]);
    return found;
}

tl_type tiles_tensor_type(const tl_kernel *kernel, str name) {
    tl_tensor t;
    str bare = edit_bare(name);
    for (int depth = 0; depth < TL_NESTING_MAX && tl_find_tensor(kernel, bare, &t); depth++) {
        if (!t.view) return t.statement->parameter.type;
        const tl_expr *base = first_element(kernel, t.view->value);
        if (!base) break;
        bare = base->text;
    }
    return TL_OPEN;
}

const tl_axis *tiles_index(const tl_kernel *kernel, str name) {
    for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
        for (int i = 0; i < t.axes->count; i++)
            if (str_equal(tl_axis_index(t.axes, i), name)) return &t.axes->items[i];
    return NULL;
}

bool tiles_has_index(const tl_kernel *kernel, str name) {
    for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
        for (int i = 0; i < t.axes->count; i++)
            if (!t.axes->items[i].is_bare && str_equal(tl_axis_index(t.axes, i), name)) return true;
    return false;
}

bool tiles_is_length(const tl_kernel *kernel, str name) {
    for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
        for (int i = 0; i < t.axes->count; i++)
            if (tl_expr_names(t.axes->items[i].extent, name)) return true;
    return false;
}

/* --- tiles ------------------------------------------------------------------------------------ */

tiles_tile *tiles_find(const tiles_list *t, str name) {
    str bare = edit_bare(name);
    for (int i = 0; i < t->tiles.count; i++)
        if (str_equal(t->tiles.items[i].name, bare)) return &t->tiles.items[i];
    return NULL;
}

int tiles_axis(const tiles_tile *tile, str index) {
    for (int i = 0; i < tile->axis_count; i++)
        if (str_equal(tile->axes[i], index)) return i;
    return -1;
}

const tiles_span *tiles_extent(const tiles_list *t, str index) {
    for (int i = 0; i < t->extents.count; i++)
        if (str_equal(t->extents.items[i].index, index)) return &t->extents.items[i];
    return NULL;
}

const char *tiles_shape_text(reason *r, const tiles_list *t, const tiles_tile *tile) {
    str text = {"", 0};
    for (int i = 0; i < tile->axis_count; i++) {
        const tiles_span *e = tiles_extent(t, tile->axes[i]);
        str one = e ? tl_expr_text(r->memory, e->extent) : tile->axes[i];
        reason_list(r, &text, ", ", "%.*s", STR_ARGS(one));
    }
    return text.data;
}

static tiles_tile *tile_named(reason *r, tiles_list *t, str name, tl_statement *s) {
    tiles_tile *tile = tiles_find(t, name);
    if (tile) return tile;
    tiles_tile fresh = {.name = edit_bare(name), .axis_count = -1, .first = s};
    list_push(r->memory, &t->tiles, fresh);
    return &t->tiles.items[t->tiles.count - 1];
}

static void add_extent(reason *r, tiles_list *t, str index, tl_expr *extent, tl_expr *length) {
    if (tiles_extent(t, index)) return;
    tiles_span e = {index, extent, length};
    list_push(r->memory, &t->extents, e);
}

static bool has_input_of(const tl_kernel *kernel, tl_type type) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_INPUT && s->parameter.type == type) return true;
    return false;
}

/* The type of 16 bits that the kernel's Inputs have. */
static tl_type half_type(const tl_kernel *kernel) {
    return has_input_of(kernel, TL_BF16) && !has_input_of(kernel, TL_F16) ? TL_BF16 : TL_F16;
}

/* Elements of 8 bits are exact in both types of 16 bits: the one that the kernel's others have. */
static void set_storage(reason *r, tiles_tile *tile, tl_type type, bool is_load) {
    if (tile->storage != TL_OPEN) return;
    tile->storage = type;
    if (!is_load || !tl_is_narrow(type) || tiles_multiplies_bytes(r->kernel)) return;
    tile->storage = half_type(r->kernel);
    tile->narrow = type;
}

bool tiles_multiplies_bytes(const tl_kernel *kernel) {
    enum { BYTE_BITS = 8 };
    int64_t bits;
    const tl_binding *let = edit_find_let((tl_kernel *)(uintptr_t)kernel, STR("products"), NULL);
    return let && tl_known_integer(let->value, &bits) && bits == BYTE_BITS;
}

bool tiles_has_byte_warps(const reason *r) {
    return !gpu_has(r->target, GPU_FEATURE_wgmma) && tiles_multiplies_bytes(r->kernel);
}

bool tiles_widens(const tl_kernel *kernel, const tl_statement *copy) {
    return copy->copy.from == TL_GLOBAL && !tiles_multiplies_bytes(kernel) &&
           tl_is_narrow(tiles_tensor_type(kernel, copy->copy.what->text));
}

bool tiles_is_permuted(tl_kernel *kernel, str tile) {
    tl_tensor t;
    const tl_statement *load = edit_load_of(kernel, tile);
    return load && tl_find_tensor(kernel, load->copy.what->text, &t) && !t.view &&
           t.statement->parameter.is_permuted;
}

str tiles_permuted_input(const tl_kernel *kernel) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_INPUT && s->parameter.is_permuted) return s->parameter.name;
    return (str){"", 0};
}

bool tiles_copy_async(reason *r) {
    return gpu_has(r->target, GPU_FEATURE_cp_async);
}

static void read_global_copy(reason *r, tiles_list *t, tl_statement *s) {
    tl_copy *c = &s->copy;
    bool is_load = c->from == TL_GLOBAL;
    str tensor = edit_copied_tensor(s);
    const tl_axes *axes = tiles_tensor(r->kernel, tensor);
    tiles_tile *tile = tile_named(r, t, edit_copied_tile(s), s);
    if (is_load) tile->from_global = true;
    else tile->to_global = true;
    set_storage(r, tile, tiles_tensor_type(r->kernel, tensor), is_load);
    int count = 0;
    for (int i = 0; axes && i < axes->count; i++) {
        str index = tl_axis_index(axes, i);
        const tl_spot *spot = i < c->place.count ? &c->place.items[i] : NULL;
        bool is_single = spot && !spot->is_all && !spot->is_block; /* the axis is no tile's */
        if (is_single || index.length == 0) continue;
        tl_expr *extent = count < c->shape.count ? c->shape.items[count] : axes->items[i].extent;
        add_extent(r, t, index, extent, axes->items[i].extent);
        count++;
    }
}

bool tiles_operand_axes(const tiles_list *t, const tl_operand *o, str *row, str *column) {
    tiles_tile *tile = o->value->kind == TL_NAME ? tiles_find(t, o->value->text) : NULL;
    if (!tile || tile->axis_count != 2) return false;
    *row = tile->axes[o->is_transposed ? 1 : 0];
    *column = tile->axes[o->is_transposed ? 0 : 1];
    return true;
}

/* Products of i8 as they are: pass bytes has let their sums go to f32 block by block. */
static bool adds_whole(const reason *r, tiles_list *t, const tl_statement *s) {
    if (!edit_is_product(s) || !tiles_multiplies_bytes(r->kernel)) return false;
    const tiles_tile *right = tiles_find(t, edit_operand_name(s, 1));
    return right && right->storage == TL_I8;
}

/* What the statement makes, in the order of the text. */
static void read_statement(reason *r, tiles_list *t, tl_statement *s) {
    if (s->kind == TL_COPY && (s->copy.from == TL_GLOBAL || s->copy.to == TL_GLOBAL)) {
        read_global_copy(r, t, s);
    } else if (s->kind == TL_COPY) {
        if (s->copy.target && tiles_find(t, s->copy.what->text))
            tile_named(r, t, s->copy.target->text, s)->from_register = s->copy.from == TL_REGISTER;
    } else if (s->kind == TL_COMPUTE && edit_target_name(s).length) {
        tiles_tile *target = tile_named(r, t, edit_target_name(s), s);
        if (tl_facts(s->compute.operation)->gives_place && target->storage == TL_OPEN)
            target->storage = TL_I32;
        if (adds_whole(r, t, s)) target->storage = TL_I32;
        tl_expr *named[2] = {s->compute.maximum, s->compute.sum};
        for (int i = 0; i < 2; i++)
            if (named[i]) tile_named(r, t, named[i]->text, s);
    }
}

/* The axes that the language gives it, wherever it lies. */
static void read_axes(const tl_kernel *kernel, tiles_tile *tile) {
    const tl_symbol *symbol = tl_find_symbol(kernel, tile->name);
    const tl_tile *places[] = {symbol ? &symbol->in_register : NULL,
                               symbol ? &symbol->shared : NULL};
    for (int k = 0; k < 2 && symbol && tile->axis_count < 0; k++) {
        if (places[k]->axis_count < 1 || places[k]->axis_count > TILES_AXES_MAX) continue;
        tile->axis_count = places[k]->axis_count;
        for (int i = 0; i < tile->axis_count; i++) tile->axes[i] = places[k]->axes[i].index;
    }
}

/* Is the tile only brought from global memory and taken there, by statements of this kernel? */
static bool is_moved(reason *r, const tiles_tile *tile) {
    tl_type type = TL_OPEN;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COMPUTE && (edit_reads(s, tile->name) || edit_writes(s, tile->name)))
            return false;
        if (s->kind != TL_COPY) continue;
        if (!str_equal(edit_bare(edit_copied_tile(s)), tile->name)) continue;
        tl_type of = tiles_tensor_type(r->kernel, edit_copied_tensor(s));
        bool is_other = type != TL_OPEN && of != type;
        if (is_other || (s->copy.from != TL_GLOBAL && s->copy.to != TL_GLOBAL)) return false;
        type = of;
    }
    return tile->from_global && tile->to_global;
}

/* Elements of 8 bits that nothing is computed of stay as they are. */
static void find_moved(reason *r, tiles_list *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        tiles_tile *tile = &t->tiles.items[i];
        tile->is_moved = is_moved(r, tile);
        if (!tile->is_moved || tile->narrow == TL_OPEN) continue;
        tile->storage = tile->narrow;
        tile->narrow = TL_OPEN;
    }
}

/* A computed operand in shared memory has the type of 16 bits that the other one has in memory. */
static void type_stored(reason *r, tiles_list *t) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        for (int i = 0; edit_is_product(s) && i < 2; i++) {
            tiles_tile *stored = tiles_find(t, edit_operand_name(s, i));
            if (!stored || !stored->from_register || stored->storage != TL_OPEN) continue;
            const tiles_tile *other = tiles_find(t, edit_operand_name(s, 1 - i));
            bool is_plain = other && other->from_global && tl_type_bits(other->storage) == 16;
            stored->storage = is_plain ? other->storage : half_type(r->kernel);
        }
}

tiles_list *tiles_read(reason *r) {
    tiles_list *t = arena_new(r->memory, tiles_list);
    diag_list scratch;
    reason_bind_alone(r, &scratch);
    for (int known = -1; known != t->tiles.count;) { /* a Copy may come before what it copies */
        known = t->tiles.count;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            read_statement(r, t, s);
    }
    for (int i = 0; i < t->tiles.count; i++) read_axes(r->kernel, &t->tiles.items[i]);
    find_moved(r, t);
    type_stored(r, t);
    return t;
}

/* --- where a tile lies ------------------------------------------------------------------------ */

/* Which tile along that axis a Copy from or to global memory takes; false: it does not say. */
static bool find_spot(const reason *r, const tl_statement *copy, str index, tl_spot *spot) {
    const tl_place *place = &copy->copy.place;
    const tl_axes *axes = tiles_tensor(r->kernel, edit_copied_tensor(copy));
    for (int i = 0; axes && i < axes->count && i < place->count; i++)
        if (str_equal(tl_axis_index(axes, i), index) && place->items[i].is_block) {
            *spot = place->items[i];
            return true;
        }
    return false;
}

tl_statement *tiles_walk(reason *r, tl_statement *s, str index, tl_spot *spot) {
    tl_spot found;
    for (tl_statement *loop = edit_loop_of(s); loop; loop = edit_loop_of(loop)) {
        for (tl_statement *t = loop; t; t = tl_next(t, loop)) {
            if (t->kind != TL_COPY || (t->copy.from != TL_GLOBAL && t->copy.to != TL_GLOBAL) ||
                !find_spot(r, t, index, &found))
                continue;
            if (tl_expr_names(found.at, loop->loop.name)) {
                if (spot) *spot = found;
                return loop;
            }
        }
    }
    return NULL;
}

tl_place tiles_place(reason *r, const tiles_tile *tile, const tl_statement *at) {
    tl_place place = {.items = arena_array(r->memory, tl_spot, tile->axis_count), .is_given = true};
    for (int i = 0; i < tile->axis_count; i++) {
        tl_spot spot = {.is_all = true};
        if (!tiles_walk(r, (tl_statement *)at, tile->axes[i], &spot)) {
            /* A block of the grid: `L = q_block` where a copy says so. */
            for (tl_statement *s = r->kernel->body.first; s && spot.is_all; s = tl_next(s, NULL))
                if (s->kind == TL_COPY) find_spot(r, s, tile->axes[i], &spot);
        }
        place.items[i] = spot;
    }
    place.count = tile->axis_count;
    while (place.count > 0 && place.items[place.count - 1].is_all) place.count--;
    return place;
}
