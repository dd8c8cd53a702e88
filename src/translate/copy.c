/* Copy: every way between global memory, shared memory and registers. Matrices move in lines (16
 * bytes a lane along the last axis) or, from and to fragments, in pairs of elements; vectors by
 * element.
 */
#include "translate/emit.h"

#include <string.h>

/* --- lines
 * ---------------------------------------------------------------------------------------- */

/* A matrix as 16-byte units: which unit a thread moves, and where that is on each side. */
typedef struct lines {
    emit *t;
    const tl_statement *s;
    layout layout;
    emit_shape shape;
    bool is_full;             /* every place lies inside the tile */
    int rows, columns, bytes; /* of the tile, of an element */
    access_copy access;       /* the shared side */
    emit_address address;     /* the global side */
    bool has_shared, has_global;
    bool converts; /* f32 lines in registers, a 16-bit tensor */
} lines;

static void refuse(emit *t, const tl_statement *s, const char *why) {
    emit_unsupported(t, s->range, STR("this Copy"), "%s", why);
}

/* The distribution of a copy that has no register tile: that of a tile `as lines`. */
static bool lines_layout(emit *t, const emit_tile *tile, layout *out) {
    layout_request r = {.kind = LAYOUT_LINES,
                        .rows = tile->rows,
                        .columns = tile->columns,
                        .warps_down = t->warps,
                        .warps_across = 1,
                        .element_bytes = tl_type_bytes(tile->type),
                        .warp_rows = true};
    if (layout_make(&r, out).status != LAYOUT_OK) return false;
    if (layout_is_full(out)) return true;
    r.warp_rows = false;
    return layout_make(&r, out).status == LAYOUT_OK;
}

bool emit_lines_stay_in_warp(emit *t, const emit_tile *tile) {
    layout l;
    if (tile->is_vector || tile->rows % t->warps || !lines_layout(t, tile, &l)) return false;
    return layout_is_full(&l) && l.spread[0].step.row == tile->rows / t->warps;
}

static void set_lines_shape(lines *x) {
    emit_shape *s = &x->shape;
    *s = (emit_shape){.is_lines = true, .elements = 16 / x->bytes};
    int chunks = x->columns / s->elements, along = chunks & -chunks;
    s->across = chunks / (along > LAYOUT_LANES ? LAYOUT_LANES : along);
    s->down = layout_elements(&x->layout) / s->elements / s->across;
    s->column_step = s->across > 1 ? layout_step(&x->layout, s->elements).column : 0;
    s->row_step = s->down > 1 ? layout_step(&x->layout, s->elements * s->across).row : 0;
    x->is_full = layout_is_full(&x->layout);
}

/* 'shared' or 'registers' may be NULL. */
static bool make_lines(lines *x, emit *t, const tl_statement *s, const emit_tile *shared,
                       const emit_tile *registers) {
    const emit_tile *tile = registers ? registers : shared;
    *x = (lines){.t = t,
                 .s = s,
                 .rows = tile->rows,
                 .columns = tile->columns,
                 .bytes = tl_type_bytes(tile->type)};
    x->has_shared = shared != NULL;
    x->has_global = s->copy.from == TL_GLOBAL || s->copy.to == TL_GLOBAL;
    if (registers) x->layout = registers->layout;
    else if (x->bytes < 2 || !lines_layout(t, tile, &x->layout)) {
        refuse(t, s, "its columns are no multiple of 16 bytes");
        return false;
    }
    set_lines_shape(x);
    if (x->has_shared) {
        layout_fit fit = access_copy_make(&x->layout, &shared->store, 16, &x->access);
        if (fit.status != LAYOUT_OK || x->access.bytes != 16 || shared->type != tile->type) {
            refuse(t, s, "its two sides do not share 16-byte units");
            return false;
        }
    }
    if (!x->has_global) return true;
    if (!emit_address_of(t, s, tile, &x->address)) return false;
    x->converts = x->address.type != tile->type;
    bool narrow = tl_type_bytes(x->address.type) == 2 && x->address.type != TL_OPEN;
    if (x->converts && !(registers && tile->type == TL_F32 && narrow)) {
        refuse(t, s,
               "only f32 lines in registers change their type on the way, to and from 16 bits");
        return false;
    }
    return true;
}

static str place_text(emit *t, const char *own, int step, const char *index) {
    return step ? emit_format(t, "%s + %d * %s", own, step, index) : str_from(own);
}

static void declare_own(lines *x) {
    emit_fresh_place(x->t, x->s);
    emit_declare_place(x->t, &x->layout, STR("row"), STR("column"));
}

static void declare_shared(lines *x, const char *name, str slot) {
    emit *t = x->t;
    emit_text(t, "unsigned %s = %.*s;", name, STR_ARGS(slot));
    emit_open(t, "{");
    str own = emit_own_address(t, &x->access.threads);
    emit_text(t, "%s += %.*s;", name, STR_ARGS(own));
    emit_close(t);
}

static str row_factor(emit *t, str stride) {
    bool simple = !emit_mentions(stride, STR("args")) || !memchr(stride.data, '+', stride.length);
    return simple ? stride : emit_format(t, "(%.*s)", STR_ARGS(stride));
}

static void declare_pointer(lines *x, const char *name) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    if (!a->row_affine) return;
    str pointer = emit_pointer(t, a, STR("row"), STR("column"));
    emit_text(t, "%.*s%s = %.*s;", STR_ARGS(a->pointer_type), name, STR_ARGS(pointer));
}

/* Inside the loops: the pointer to this unit. */
static str unit_pointer(lines *x, const char *name) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    const emit_shape *s = &x->shape;
    if (!a->row_affine) {
        return emit_pointer(t, a, place_text(t, "row", s->row_step, "down"),
                            place_text(t, "column", s->column_step, "across"));
    }
    str text = str_from(name);
    if (s->down > 1)
        text = emit_format(t, "%.*s + %d * down * %.*s", STR_ARGS(text), s->row_step,
                           STR_ARGS(row_factor(t, a->row_stride)));
    if (s->across > 1) text = emit_format(t, "%.*s + %d * across", STR_ARGS(text), s->column_step);
    return text;
}

static str unit_shared(lines *x, const char *name) {
    emit *t = x->t;
    const emit_shape *s = &x->shape;
    const access_threads *a = &x->access.threads;
    int swizzle = a->swizzle_bytes, column_bytes = s->column_step * x->bytes;
    str text = str_from(name), turn = {0};
    if (swizzle > SHARED_UNIT_BYTES) {
        if (s->down > 1 && s->row_step % 8) {
            turn = a->swizzle_shift
                       ? emit_format(t, "(%d * down & 7) >> %d << 4", s->row_step, a->swizzle_shift)
                       : emit_format(t, "(%d * down & 7) << 4", s->row_step);
        }
        if (s->across > 1 && column_bytes % swizzle) {
            str along = emit_format(t, "(%d * across & %d)", column_bytes, swizzle - 1);
            turn = turn.length ? emit_format(t, "%.*s ^ %.*s", STR_ARGS(along), STR_ARGS(turn))
                               : along;
        }
    }
    if (turn.length) text = emit_format(t, "(%.*s ^ %.*s)", STR_ARGS(text), STR_ARGS(turn));
    if (s->down > 1)
        text = emit_format(t, "%.*s + %d * down", STR_ARGS(text), s->row_step * a->pitch_bytes);
    if (s->across > 1) {
        text = swizzle > SHARED_UNIT_BYTES && column_bytes % swizzle
                   ? emit_format(t, "%.*s + (%d * across & ~%d)", STR_ARGS(text), column_bytes,
                                 swizzle - 1)
                   : emit_format(t, "%.*s + %d * across", STR_ARGS(text), column_bytes);
    }
    return text;
}

/* What the text of unit_shared comes to, against the layout's own constants. */
static void check_units(const lines *x) {
    const emit_shape *s = &x->shape;
    const access_threads *a = &x->access.threads;
    int swizzle = a->swizzle_bytes;
    for (int i = 0; i < s->down * s->across; i++) {
        int line = i / s->across * s->row_step, byte = i % s->across * s->column_step * x->bytes;
        int turn = swizzle > SHARED_UNIT_BYTES
                       ? (byte & (swizzle - 1)) ^ (((line & 7) >> a->swizzle_shift) << 4)
                       : 0;
        int inside = swizzle > SHARED_UNIT_BYTES ? byte & (swizzle - 1) : 0;
        access_step step = access_copy_step(&x->access, i);
        assert(step.xor_bytes == turn);
        assert(step.add_bytes == line * a->pitch_bytes + byte - inside);
        (void)step;
        (void)turn;
        (void)inside;
    }
}

static str both(emit *t, str a, str b) {
    if (!a.length) return b;
    if (!b.length) return a;
    return emit_format(t, "%.*s && %.*s", STR_ARGS(a), STR_ARGS(b));
}

/* The unit lies in the tile. */
static str tile_guard(lines *x) {
    if (x->is_full) return (str){0};
    return emit_format(x->t, "%.*s < %d",
                       STR_ARGS(place_text(x->t, "row", x->shape.row_step, "down")), x->rows);
}

/* The unit lies before the ends of the tensor. */
static str end_guard(lines *x) {
    emit *t = x->t;
    str guard = {0};
    if (!x->address.rows_complete) {
        guard = emit_format(t, "%.*s < rows_left",
                            STR_ARGS(place_text(t, "row", x->shape.row_step, "down")));
    }
    if (!x->address.columns_complete) {
        str columns =
            emit_format(t, "%.*s < columns_left",
                        STR_ARGS(place_text(t, "column", x->shape.column_step, "across")));
        guard = both(t, guard, columns);
    }
    return guard;
}

static void declare_rest(lines *x) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    if (!a->rows_complete) emit_text(t, "const int rows_left = %.*s;", STR_ARGS(a->rows_left.text));
    if (!a->columns_complete)
        emit_text(t, "const int columns_left = %.*s;", STR_ARGS(a->columns_left.text));
}

static bool is_ragged(const lines *x) {
    return !x->address.rows_complete || !x->address.columns_complete;
}

static str whole_condition(lines *x) {
    emit *t = x->t;
    str rows = {0}, columns = {0};
    if (!x->address.rows_complete) rows = emit_format(t, "rows_left >= %d", x->rows);
    if (!x->address.columns_complete) columns = emit_format(t, "columns_left >= %d", x->columns);
    return both(t, rows, columns);
}

typedef void unit_action(lines *x, bool ragged, void *context);

static void loop_over_units(lines *x, bool ragged, unit_action *action, void *context) {
    emit *t = x->t;
    emit_loop(t, "down", x->shape.down);
    if (x->shape.across > 1) emit_loop(t, "across", x->shape.across);
    str guard = tile_guard(x);
    if (guard.length) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    action(x, ragged, context);
    if (guard.length) emit_close(t);
    if (x->shape.across > 1) emit_close(t);
    emit_close(t);
}

/* Twice where the tile may be cut by the end of the tensor: whole tiles skip the comparisons. */
static void for_all_units(lines *x, unit_action *action, void *context) {
    emit *t = x->t;
    if (!is_ragged(x)) {
        loop_over_units(x, false, action, context);
        return;
    }
    emit_open(t, "if (%.*s) {", STR_ARGS(whole_condition(x)));
    loop_over_units(x, false, action, context);
    t->indent--;
    emit_open(t, "} else {");
    loop_over_units(x, true, action, context);
    emit_close(t);
}

static str unit_array(lines *x, const emit_tile *registers) {
    emit *t = x->t;
    str name = registers ? registers->name : STR("units");
    if (x->shape.across > 1 || registers) {
        return emit_format(t, "%.*s[down][%s]", STR_ARGS(name),
                           x->shape.across > 1 ? "across" : "0");
    }
    return emit_format(t, "%.*s[down]", STR_ARGS(name));
}

static void async_unit(lines *x, bool ragged, void *context) {
    (void)context;
    emit *t = x->t;
    str target = unit_shared(x, "target"), source = unit_pointer(x, "source");
    if (!ragged) {
        emit_text(t, "ftl_cp_async_16(%.*s, %.*s);", STR_ARGS(target), STR_ARGS(source));
        return;
    }
    emit_text(t, "const bool inside = %.*s;", STR_ARGS(end_guard(x)));
    emit_text(t, "ftl_cp_async_16_or_zero(%.*s, inside ? %.*s : args.%.*s, inside);",
              STR_ARGS(target), STR_ARGS(source), STR_ARGS(emit_clean(t, x->address.symbol->name)));
}

static bool is_f32_lines(const lines *x) {
    return x->bytes == 4;
}

static void load_unit(lines *x, bool ragged, void *context) {
    const emit_tile *registers = context;
    emit *t = x->t;
    str unit = unit_array(x, registers), source = unit_pointer(x, "source");
    const char *kind =
        registers && is_f32_lines(x) ? (registers->type == TL_I32 ? "_i32" : "_f32") : "";
    str load = emit_format(t, "ftl_load_global_16%s", kind);
    if (x->converts) load = emit_format(t, "ftl_load_global_8_%s", emit_type_word(x->address.type));
    if (!ragged) {
        emit_text(t, "%.*s(%.*s, %.*s);", STR_ARGS(load), STR_ARGS(unit), STR_ARGS(source));
        return;
    }
    emit_text(t, "if (%.*s)", STR_ARGS(end_guard(x)));
    t->indent++;
    emit_text(t, "%.*s(%.*s, %.*s);", STR_ARGS(load), STR_ARGS(unit), STR_ARGS(source));
    t->indent--;
    emit_text(t, "else");
    t->indent++;
    emit_text(t, "%.*s[0] = %.*s[1] = %.*s[2] = %.*s[3] = 0;", STR_ARGS(unit), STR_ARGS(unit),
              STR_ARGS(unit), STR_ARGS(unit));
    t->indent--;
}

static void put_unit(lines *x, bool ragged, void *context) {
    (void)ragged;
    const emit_tile *registers = context;
    const char *kind = registers && is_f32_lines(x) ? "_f32" : "";
    emit_text(x->t, "ftl_store_shared_16%s(%.*s, %.*s);", kind, STR_ARGS(unit_shared(x, "target")),
              STR_ARGS(unit_array(x, registers)));
}

static void take_unit(lines *x, bool ragged, void *context) {
    (void)ragged;
    const emit_tile *registers = context;
    const char *kind = registers && is_f32_lines(x) ? "_f32" : "";
    emit_text(x->t, "ftl_load_shared_16%s(%.*s, %.*s);", kind, STR_ARGS(unit_array(x, registers)),
              STR_ARGS(unit_shared(x, "source")));
}

static void store_unit(lines *x, bool ragged, void *context) {
    const emit_tile *registers = context;
    emit *t = x->t;
    str unit = registers ? unit_array(x, registers) : STR("unit"),
        target = unit_pointer(x, "target");
    const char *kind = registers && is_f32_lines(x) ? "_f32" : "";
    if (ragged) emit_open(t, "if (%.*s) {", STR_ARGS(end_guard(x)));
    if (!registers) {
        emit_text(t, "unsigned unit[4];");
        emit_text(t, "ftl_load_shared_16(unit, %.*s);", STR_ARGS(unit_shared(x, "source")));
    }
    str store = emit_format(t, "ftl_store_global_16%s", kind);
    if (x->converts)
        store = emit_format(t, "ftl_store_global_8_%s", emit_type_word(x->address.type));
    emit_text(t, "%.*s(%.*s, %.*s);", STR_ARGS(store), STR_ARGS(target), STR_ARGS(unit));
    if (ragged) emit_close(t);
}

/* --- the ways of lines --------------------------------------------------------------------------
 */

/* The slot that a Copy fills: a variable of its own, or so many slots from the one held. */
static str fill_slot(emit *t, const tl_statement *s, const emit_tile *tile) {
    if (tile->stages == 1) return tile->name;
    if (tile->has_fill_slot) return emit_format(t, "%.*s_fill", STR_ARGS(tile->name));
    int ahead = (check_sync_of(t->facts, s)->slots_ahead + 1) % tile->stages;
    long long first = tile->offset_bytes, step = tile->slot_bytes;
    if (ahead == 0) return tile->name;
    if (tile->stages == 2) {
        return emit_format(t, "2 * shared + %lld - %.*s", 2 * first + step, STR_ARGS(tile->name));
    }
    return emit_format(t, "(%.*s >= shared + %lld ? %.*s - %lld : %.*s + %lld)",
                       STR_ARGS(tile->name), first + step * (tile->stages - ahead),
                       STR_ARGS(tile->name), step * (tile->stages - ahead), STR_ARGS(tile->name),
                       step * ahead);
}

static void global_to_shared(emit *t, const tl_statement *s, const emit_tile *to) {
    lines x;
    if (!make_lines(&x, t, s, to, NULL)) return;
    check_units(&x);
    emit_open(t, "{");
    declare_own(&x);
    declare_rest(&x);
    declare_shared(&x, "target", fill_slot(t, s, to));
    declare_pointer(&x, "source");
    if (s->copy.is_async) {
        for_all_units(&x, async_unit, NULL);
    } else {
        if (x.shape.across > 1)
            emit_text(t, "unsigned units[%d][%d][4];", x.shape.down, x.shape.across);
        else emit_text(t, "unsigned units[%d][4];", x.shape.down);
        for_all_units(&x, load_unit, NULL);
        loop_over_units(&x, false, put_unit, NULL);
    }
    emit_close(t);
}

static void global_to_lines(emit *t, const tl_statement *s, const emit_tile *to) {
    lines x;
    if (!make_lines(&x, t, s, NULL, to)) return;
    emit_open(t, "{");
    declare_own(&x);
    declare_rest(&x);
    declare_pointer(&x, "source");
    for_all_units(&x, load_unit, (void *)(uintptr_t)to);
    emit_close(t);
}

static void lines_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                            const emit_tile *to) {
    lines x;
    if (!make_lines(&x, t, s, to, from)) return;
    check_units(&x);
    emit_open(t, "{");
    declare_own(&x);
    declare_shared(&x, "target", fill_slot(t, s, to));
    loop_over_units(&x, false, put_unit, (void *)(uintptr_t)from);
    emit_close(t);
}

static void shared_to_lines(emit *t, const tl_statement *s, const emit_tile *from,
                            const emit_tile *to) {
    lines x;
    if (!make_lines(&x, t, s, from, to)) return;
    check_units(&x);
    emit_open(t, "{");
    declare_own(&x);
    declare_shared(&x, "source", from->name);
    loop_over_units(&x, false, take_unit, (void *)(uintptr_t)to);
    emit_close(t);
}

static void shared_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    lines x;
    if (!make_lines(&x, t, s, from, NULL)) return;
    check_units(&x);
    emit_open(t, "{");
    declare_own(&x);
    declare_rest(&x);
    declare_shared(&x, "source", from->name);
    declare_pointer(&x, "target");
    for_all_units(&x, store_unit, NULL);
    emit_close(t);
}

static void lines_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    lines x;
    if (!make_lines(&x, t, s, NULL, from)) return;
    emit_open(t, "{");
    declare_own(&x);
    declare_rest(&x);
    declare_pointer(&x, "target");
    for_all_units(&x, store_unit, (void *)(uintptr_t)from);
    emit_close(t);
}

/* --- fragments: pairs of elements ---------------------------------------------------------------
 */

static void open_pairs(emit *t, const emit_tile *tile) {
    emit_loop(t, "m16", tile->shape.down);
    emit_loop(t, "n8", tile->shape.across);
    emit_loop(t, "half", 2);
}

static void close_pairs(emit *t) {
    for (int i = 0; i < 3; i++) emit_close(t);
}

/* Both elements of a fragment's pair as one 32-bit register of a 16-bit type. */
static str packed_pair(emit *t, const emit_tile *tile, tl_type type) {
    if (tile->is_packed && tile->type == type)
        return emit_format(t, "%.*s[m16][n8][half]", STR_ARGS(tile->name));
    return emit_format(t, "ftl_pack_%s(%.*s, %.*s)", emit_type_word(type),
                       STR_ARGS(emit_element(t, tile, &tile->shape, 0)),
                       STR_ARGS(emit_element(t, tile, &tile->shape, 1)));
}

/* Address of a pair in a shared tile. */
static bool pair_address(emit *t, const tl_statement *s, const emit_tile *registers,
                         const emit_tile *shared, str slot, str *address) {
    int bytes = tl_type_bytes(shared->type), swizzle;
    access_copy access;
    layout_fit fit = access_copy_make(&registers->layout, &shared->store, 2 * bytes, &access);
    if (fit.status != LAYOUT_OK || access.bytes != 2 * bytes) {
        refuse(t, s, "its elements do not lie in pairs on both sides");
        return false;
    }
    swizzle = access.threads.swizzle_bytes;
    emit_fresh_place(t, s);
    emit_text(t, "unsigned place = %.*s;", STR_ARGS(slot));
    emit_open(t, "{");
    str own = emit_own_address(t, &access.threads);
    emit_text(t, "place += %.*s;", STR_ARGS(own));
    emit_close(t);
    int step = 8 * bytes;
    str text = STR("place");
    if (swizzle > SHARED_UNIT_BYTES) {
        text = emit_format(t, "(place ^ (%d * n8 & %d)) + (%d * n8 & ~%d)", step, swizzle - 1, step,
                           swizzle - 1);
    } else {
        text = emit_format(t, "place + %d * n8", step);
    }
    *address = emit_format(t, "%.*s + %d * m16 + %d * half", STR_ARGS(text),
                           16 * access.threads.pitch_bytes, 8 * access.threads.pitch_bytes);
    return true;
}

static void fragments_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                                const emit_tile *to) {
    str address;
    emit_open(t, "{");
    if (pair_address(t, s, from, to, fill_slot(t, s, to), &address)) {
        open_pairs(t, from);
        if (tl_type_bytes(to->type) == 2) {
            emit_text(t, "ftl_store_shared_4(%.*s, %.*s);", STR_ARGS(address),
                      STR_ARGS(packed_pair(t, from, to->type)));
        } else {
            emit_text(t, "ftl_store_shared_f32x2(%.*s, %.*s, %.*s);", STR_ARGS(address),
                      STR_ARGS(emit_element(t, from, &from->shape, 0)),
                      STR_ARGS(emit_element(t, from, &from->shape, 1)));
        }
        close_pairs(t);
    }
    emit_close(t);
}

static void put_pair(emit *t, const emit_tile *to, tl_type type, str word) {
    str name = to->name;
    if (to->is_packed && to->type == type) {
        emit_text(t, "%.*s[m16][n8][half] = %.*s;", STR_ARGS(name), STR_ARGS(word));
        return;
    }
    emit_text(t, "const unsigned pair = %.*s;", STR_ARGS(word));
    emit_text(t, "%.*s = ftl_low_%s(pair);", STR_ARGS(emit_element(t, to, &to->shape, 0)),
              emit_type_word(type));
    emit_text(t, "%.*s = ftl_high_%s(pair);", STR_ARGS(emit_element(t, to, &to->shape, 1)),
              emit_type_word(type));
}

static bool ldmatrix_to_fragments(emit *t, const tl_statement *s, const emit_tile *from,
                                  const emit_tile *to) {
    access_operand_request request = {.warps_down = to->layout.spread[1].count,
                                      .warps_across = to->layout.spread[0].count};
    access_operand o;
    bool shares = request.warps_across == 1 || layout_warp_copies(&to->layout) > 1;
    if (!shares || !to->is_packed || from->type != to->type || from->store.by_columns ||
        access_operand_make(&request, &from->store, &o).status != LAYOUT_OK ||
        !gpu_has(t->gpu, GPU_FEATURE_ldmatrix)) {
        return false;
    }
    (void)s;
    int swizzle = o.threads.swizzle_bytes;
    str name = to->name;
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_text(t, "unsigned source = %.*s;", STR_ARGS(from->name));
    emit_open(t, "{");
    str own = emit_own_address(t, &o.threads);
    emit_text(t, "source += %.*s;", STR_ARGS(own));
    emit_close(t);
    for (int tail = 0; tail < 2; tail++) {
        if (tail ? o.k8 % 2 == 0 : o.k8 < 2) continue;
        if (tail) emit_open(t, "{");
        else emit_loop(t, "k16", o.k8 / 2);
        str k = tail ? emit_format(t, "%d", o.k8 - 1) : STR("2 * k16");
        emit_loop(t, "m16", to->shape.down);
        str at = swizzle > SHARED_UNIT_BYTES
                     ? emit_format(t, "(source ^ (%.*s * 16 & %d)) + (%.*s * 16 & ~%d)",
                                   STR_ARGS(k), swizzle - 1, STR_ARGS(k), swizzle - 1)
                     : emit_format(t, "source + %.*s * 16", STR_ARGS(k));
        at = emit_format(t, "%.*s + %d * m16", STR_ARGS(at), 16 * o.threads.pitch_bytes);
        if (tail) {
            emit_text(t, "ftl_ldmatrix_x2(%.*s[m16][%.*s][0], %.*s[m16][%.*s][1], %.*s);",
                      STR_ARGS(name), STR_ARGS(k), STR_ARGS(name), STR_ARGS(k), STR_ARGS(at));
        } else {
            emit_text(t,
                      "ftl_ldmatrix_x4(%.*s[m16][2 * k16][0], %.*s[m16][2 * k16][1], %.*s[m16][2 * "
                      "k16 + 1][0],",
                      STR_ARGS(name), STR_ARGS(name), STR_ARGS(name));
            emit_text(t, "                %.*s[m16][2 * k16 + 1][1], %.*s);", STR_ARGS(name),
                      STR_ARGS(at));
        }
        emit_close(t);
        emit_close(t);
    }
    emit_close(t);
    return true;
}

static void shared_to_fragments(emit *t, const tl_statement *s, const emit_tile *from,
                                const emit_tile *to) {
    if (ldmatrix_to_fragments(t, s, from, to)) return;
    if (str_is(s->copy.atom, "ldmatrix")) {
        refuse(t, s, "ldmatrix fills 16-bit fragments from rows of a shared tile");
        return;
    }
    str address;
    emit_open(t, "{");
    if (pair_address(t, s, to, from, from->name, &address)) {
        open_pairs(t, to);
        if (tl_type_bytes(from->type) == 2) {
            put_pair(t, to, from->type,
                     emit_format(t, "ftl_load_shared_4(%.*s)", STR_ARGS(address)));
        } else {
            emit_text(t, "ftl_load_shared_f32x2(%.*s, %.*s, %.*s);",
                      STR_ARGS(emit_element(t, to, &to->shape, 0)),
                      STR_ARGS(emit_element(t, to, &to->shape, 1)), STR_ARGS(address));
        }
        close_pairs(t);
    }
    emit_close(t);
}

/* The global side of fragments: opens a block and the loops, and the guard at the ends. */
static bool open_global_pairs(emit *t, const tl_statement *s, const emit_tile *tile,
                              emit_address *a, bool *guarded) {
    if (!emit_address_of(t, s, tile, a)) return false;
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, tile);
    if (!a->rows_complete) emit_text(t, "const int rows_left = %.*s;", STR_ARGS(a->rows_left.text));
    if (!a->columns_complete)
        emit_text(t, "const int columns_left = %.*s;", STR_ARGS(a->columns_left.text));
    if (a->row_affine) {
        str pointer = emit_pointer(t, a, tile->own_row, tile->own_column);
        emit_text(t, "%.*smatrix = %.*s;", STR_ARGS(a->pointer_type), STR_ARGS(pointer));
    }
    open_pairs(t, tile);
    str guard = {0};
    if (!a->rows_complete)
        guard = emit_format(t, "%.*s + 16 * m16 + 8 * half < rows_left", STR_ARGS(tile->own_row));
    if (!a->columns_complete)
        guard = both(t, guard,
                     emit_format(t, "%.*s + 8 * n8 < columns_left", STR_ARGS(tile->own_column)));
    *guarded = guard.length > 0;
    if (*guarded) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    return true;
}

static str pair_pointer(emit *t, const emit_tile *tile, const emit_address *a) {
    if (!a->row_affine) {
        return emit_pointer(t, a,
                            emit_format(t, "%.*s + 16 * m16 + 8 * half", STR_ARGS(tile->own_row)),
                            emit_format(t, "%.*s + 8 * n8", STR_ARGS(tile->own_column)));
    }
    return emit_format(t, "matrix + (16 * m16 + 8 * half) * %.*s + 8 * n8",
                       STR_ARGS(row_factor(t, a->row_stride)));
}

static void fragments_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    emit_address a;
    bool guarded;
    if (!open_global_pairs(t, s, from, &a, &guarded)) return;
    str pointer = pair_pointer(t, from, &a);
    str low = emit_element(t, from, &from->shape, 0), high = emit_element(t, from, &from->shape, 1);
    bool accumulates = s->copy.target_kind == TL_ACCUMULATE;
    if (accumulates && a.type != TL_F32) refuse(t, s, "adding into global memory needs f32 there");
    if (accumulates) {
        emit_text(t, "ftl_add_global_f32(%.*s, %.*s);", STR_ARGS(pointer), STR_ARGS(low));
        emit_text(t, "ftl_add_global_f32(%.*s + 1, %.*s);", STR_ARGS(pointer), STR_ARGS(high));
    } else if (tl_type_bytes(a.type) == 2) {
        emit_text(t, "ftl_store_global_4(%.*s, %.*s);", STR_ARGS(pointer),
                  STR_ARGS(packed_pair(t, from, a.type)));
    } else {
        emit_text(t, "ftl_store_global_f32x2(%.*s, %.*s, %.*s);", STR_ARGS(pointer), STR_ARGS(low),
                  STR_ARGS(high));
    }
    if (guarded) emit_close(t);
    close_pairs(t);
    emit_close(t);
}

static void global_to_fragments(emit *t, const tl_statement *s, const emit_tile *to) {
    emit_address a;
    bool guarded;
    if (!open_global_pairs(t, s, to, &a, &guarded)) return;
    str pointer = pair_pointer(t, to, &a);
    str low = emit_element(t, to, &to->shape, 0), high = emit_element(t, to, &to->shape, 1);
    if (tl_type_bytes(a.type) == 2) {
        put_pair(t, to, a.type, emit_format(t, "ftl_load_global_4(%.*s)", STR_ARGS(pointer)));
    } else {
        emit_text(t, "ftl_load_global_f32x2(%.*s, %.*s, %.*s);", STR_ARGS(low), STR_ARGS(high),
                  STR_ARGS(pointer));
    }
    if (guarded) {
        t->indent--;
        emit_open(t, "} else {");
        if (to->is_packed) emit_text(t, "%.*s[m16][n8][half] = 0;", STR_ARGS(to->name));
        else emit_text(t, "%.*s = %.*s = 0.0f;", STR_ARGS(low), STR_ARGS(high));
        emit_close(t);
    }
    close_pairs(t);
    emit_close(t);
}

/* --- vectors
 * ------------------------------------------------------------------------------------------ */

static int open_vector(emit *t, const emit_tile *v) {
    const emit_shape *s = &v->shape;
    bool rows = s->part == PART_ROWS;
    emit_loop(t, rows ? (s->is_lines ? "down" : "m16") : (s->is_lines ? "across" : "n8"),
              rows ? s->down : s->across);
    if (rows && s->is_lines) return 1;
    emit_loop(t, rows ? "half" : "element", !rows && s->is_lines ? s->elements : 2);
    return 2;
}

static str vector_place(emit *t, const emit_tile *v) {
    const emit_shape *s = &v->shape;
    if (s->part == PART_COLUMNS) {
        return s->is_lines ? emit_format(t, "%.*s + %d * across + element", STR_ARGS(v->own_column),
                                         s->column_step)
                           : emit_format(t, "%.*s + 8 * n8 + element", STR_ARGS(v->own_column));
    }
    if (!s->is_lines) return emit_format(t, "%.*s + 16 * m16 + 8 * half", STR_ARGS(v->own_row));
    return place_text(t, str_copy_z(t->memory, v->own_row), s->down > 1 ? s->row_step : 0, "down");
}

static str vector_element(emit *t, const emit_tile *v) {
    return emit_element(t, v, &v->shape, 0);
}

/* One of the lanes and warps that hold copies: the one whose bits that do not matter are 0. */
static str single_holder(emit *t, const emit_tile *v) {
    int masks[LAYOUT_LANE_BITS], count = layout_lane_copies(&v->layout, masks), bits = 0;
    for (int i = 0; i < count; i++) bits |= masks[i];
    str guard = bits ? emit_format(t, "(lane & %d) == 0", bits) : (str){0};
    int divisor = 1;
    for (int i = 0; i < 2; i++) {
        const layout_repeat *spread = &v->layout.spread[i];
        if (spread->count > 1 && spread->step.row == 0 && spread->step.column == 0) {
            guard = both(t, guard, emit_format(t, "warp / %d %% %d == 0", divisor, spread->count));
        }
        divisor *= spread->count;
    }
    return guard;
}

static str vector_pointer(emit *t, const emit_tile *v, const emit_address *a) {
    str place = vector_place(t, v);
    if (!a->row_affine) return emit_pointer(t, a, place, (str){0});
    return emit_format(t, "vector + (%.*s) * %.*s", STR_ARGS(place),
                       STR_ARGS(row_factor(t, a->row_stride)));
}

static void vector_global(emit *t, const tl_statement *s, const emit_tile *v, bool loads) {
    emit_address a;
    if (!emit_address_of(t, s, v, &a)) return;
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, v);
    if (!a.rows_complete) emit_text(t, "const int rows_left = %.*s;", STR_ARGS(a.rows_left.text));
    if (a.row_affine)
        emit_text(t, "%.*svector = %.*s;", STR_ARGS(a.pointer_type), STR_ARGS(a.base));
    int opened = open_vector(t, v);
    str guard = {0}, element = vector_element(t, v);
    if (!a.rows_complete) guard = emit_format(t, "%.*s < rows_left", STR_ARGS(vector_place(t, v)));
    str pointer = vector_pointer(t, v, &a);
    const char *type = emit_type_word(a.type);
    if (loads) {
        const char *zero = v->type == TL_I32 ? "0" : "0.0f";
        if (guard.length)
            emit_text(t, "%.*s = %.*s ? ftl_load_global_%s(%.*s) : %s;", STR_ARGS(element),
                      STR_ARGS(guard), type, STR_ARGS(pointer), zero);
        else
            emit_text(t, "%.*s = ftl_load_global_%s(%.*s);", STR_ARGS(element), type,
                      STR_ARGS(pointer));
    } else {
        guard = both(t, single_holder(t, v), guard);
        if (guard.length) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
        if (s->copy.target_kind == TL_ACCUMULATE) {
            if (a.type != TL_F32) refuse(t, s, "adding into global memory needs f32 there");
            emit_text(t, "ftl_add_global_f32(%.*s, %.*s);", STR_ARGS(pointer), STR_ARGS(element));
        } else {
            emit_text(t, "ftl_store_global_%s(%.*s, %.*s);", type, STR_ARGS(pointer),
                      STR_ARGS(element));
        }
        if (guard.length) emit_close(t);
    }
    for (int i = 0; i < opened; i++) emit_close(t);
    emit_close(t);
}

static void vector_shared(emit *t, const tl_statement *s, const emit_tile *v,
                          const emit_tile *shared, bool loads) {
    if (tl_type_bytes(shared->type) != 4 || shared->type != v->type) {
        refuse(t, s, "vectors in shared memory are f32 or i32");
        return;
    }
    const char *type = emit_type_word(shared->type);
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, v);
    str guard = loads ? (str){0} : single_holder(t, v);
    int opened = open_vector(t, v);
    str slot = loads ? shared->name : fill_slot(t, s, shared);
    str address =
        emit_format(t, "%.*s + 4 * (unsigned)(%.*s)", STR_ARGS(slot), STR_ARGS(vector_place(t, v)));
    if (guard.length) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    if (loads)
        emit_text(t, "%.*s = ftl_load_shared_%s(%.*s);", STR_ARGS(vector_element(t, v)), type,
                  STR_ARGS(address));
    else
        emit_text(t, "ftl_store_shared_%s(%.*s, %.*s);", type, STR_ARGS(address),
                  STR_ARGS(vector_element(t, v)));
    if (guard.length) emit_close(t);
    for (int i = 0; i < opened; i++) emit_close(t);
    emit_close(t);
}

/* --- which way
 * ------------------------------------------------------------------------------------------ */

static bool atom_fits(emit *t, const tl_statement *s) {
    const tl_copy *c = &s->copy;
    if (c->atom.length) {
        const atom_mover *atom = atom_find_mover(c->atom);
        if (!atom) {
            emit_unsupported(t, s->range, emit_format(t, "by %.*s", STR_ARGS(c->atom)),
                             "it is not in the table of atoms");
            return false;
        }
        if (!gpu_has(t->gpu, atom->feature)) {
            emit_unsupported(t, s->range, emit_format(t, "by %.*s", STR_ARGS(c->atom)),
                             "this GPU has no such instruction");
            return false;
        }
    }
    bool async_way = c->from == TL_GLOBAL && c->to == TL_SHARED && str_is(c->atom, "cp_async");
    if (c->is_async && !async_way) {
        refuse(t, s, "only copies from global to shared by cp_async are asynchronous here");
        return false;
    }
    return true;
}

static void between(emit *t, const tl_statement *s, const emit_tile *from, const emit_tile *to) {
    const emit_tile *registers = from && from->space == TL_REGISTER ? from
                                 : to && to->space == TL_REGISTER   ? to
                                                                    : NULL;
    bool vector = (from && from->is_vector) || (to && to->is_vector);
    bool is_lines = registers && registers->shape.is_lines;
    if (vector && !registers) refuse(t, s, "a vector passes through registers");
    else if (vector && !from) vector_global(t, s, to, true);
    else if (vector && !to) vector_global(t, s, from, false);
    else if (vector) vector_shared(t, s, registers, registers == from ? to : from, registers == to);
    else if (!from && to->space == TL_SHARED) global_to_shared(t, s, to);
    else if (!from && is_lines) global_to_lines(t, s, to);
    else if (!from) global_to_fragments(t, s, to);
    else if (!to && from->space == TL_SHARED) shared_to_global(t, s, from);
    else if (!to && is_lines) lines_to_global(t, s, from);
    else if (!to) fragments_to_global(t, s, from);
    else if (registers == from && is_lines) lines_to_shared(t, s, from, to);
    else if (registers == from) fragments_to_shared(t, s, from, to);
    else if (is_lines) shared_to_lines(t, s, from, to);
    else shared_to_fragments(t, s, from, to);
}

void emit_copy(emit *t, const tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    emit_tile *from =
        s->copy.from == TL_GLOBAL ? NULL : emit_tile_in(t, source.symbol, s->copy.from);
    emit_tile *to = s->copy.to == TL_GLOBAL ? NULL : emit_tile_in(t, target.symbol, s->copy.to);
    emit_header(t, s);
    bool missing =
        (s->copy.from != TL_GLOBAL && !from) || (s->copy.to != TL_GLOBAL && !to) || (!from && !to);
    if (missing) {
        refuse(t, s, "one of its sides has no tile");
        return;
    }
    if (!atom_fits(t, s)) return;
    emit_barrier_before(t, s);
    between(t, s, from, to);
    if (to && to->space == TL_SHARED) emit_channel_filled(t, s, to);
}
