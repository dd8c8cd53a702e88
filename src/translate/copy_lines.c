/* Copies in 16-byte units along the last axis: which unit a thread moves, and where it is. */
#include "translate/copy.h"

#include <string.h>

enum { UNROLLED = 8 }; /* units of a thread, one below the other, where a loop is rolled up */

/* The distribution of a copy that has no register tile: that of a tile `as lines`. By consecutive
 * rows a warp reads what it wrote itself; by turns all its lines lie alike in the swizzle, so that
 * one address serves them.
 */
static bool lines_layout(emit *t, const emit_tile *tile, bool by_turns, layout *out) {
    layout_request r = {.kind = LAYOUT_LINES,
                        .rows = tile->rows,
                        .columns = tile->columns,
                        .warps_down = t->warps,
                        .warps_across = 1,
                        .element_bits = tl_type_bits(tile->type)};
    layout_fit fit = by_turns ? layout_make(&r, out) : layout_lines(&r, out);
    return fit.status == LAYOUT_OK;
}

bool emit_lines_stay_in_warp(emit *t, const emit_tile *tile) {
    layout l;
    if (tile->is_vector || tile->rows % t->warps || !lines_layout(t, tile, false, &l)) return false;
    return layout_is_full(&l) && l.spread[0].step.row == tile->rows / t->warps;
}

/* What the text of lines_shared comes to, against the layout's own constants. */
static void check_units(const lines *x) {
    const emit_shape *s = &x->shape;
    const access_threads *a = &x->access.threads;
    int swizzle = a->swizzle_bytes, pieces = x->widens_to ? 16 / x->bits : 1;
    for (int i = 0; i < s->down * s->across; i++) {
        int line = i / s->across * s->row_step;
        int byte = i % s->across * s->column_step * x->access.tile.element_bits / 8;
        int turn = swizzle > SHARED_UNIT_BYTES
                       ? (byte & (swizzle - 1)) ^ (((line & 7) >> a->swizzle_shift) << 4)
                       : 0;
        int inside = swizzle > SHARED_UNIT_BYTES ? byte & (swizzle - 1) : 0;
        access_step step = access_copy_step(&x->access, pieces * i);
        assert(step.xor_bytes == turn);
        assert(step.add_bytes == line * a->pitch_bytes + access_beyond(a, byte - inside));
        (void)step;
        (void)turn;
        (void)inside;
    }
}

/* Is the last axis of a view as long as that of its tensor, inside of which each element is? */
static bool ends_with_tensor(const tl_symbol *from) {
    const tl_symbol *tensor = emit_tensor_under(from);
    if (!from || !from->view || tensor == from) return true;
    const tl_axes *a = &from->view->axes, *b = tensor ? tensor->axes : NULL;
    return b && tl_expr_equal(a->items[a->count - 1].extent, b->items[b->count - 1].extent);
}

/* Two elements a byte: a line is whole bytes of neighbours. Where a tensor's own axis ends the
 * launch sees to that.
 */
static bool packed_fit(const lines *x) {
    if (x->is_gathered)
        return copy_refuse(x->t, x->s, "elements that share bytes move as they lie, not across");
    if (x->address.columns_complete || x->address.columns_multiple % 2 == 0 ||
        ends_with_tensor(tl_copy_source(x->s).symbol))
        return true;
    return copy_refuse(x->t, x->s,
                       "the view's rows may end within a byte, which two elements share; make its "
                       "last axis a known even length");
}

/* The global side: where the units are, and how the end of the tensor may cut them. */
static bool set_global(lines *x, const emit_tile *tile) {
    emit *t = x->t;
    emit_address *a = &x->address;
    bool is_load = x->registers && x->s->copy.from == TL_GLOBAL;
    bool is_found =
        is_load ? emit_address_across(t, x->s, tile, a) : emit_address_of(t, x->s, tile, a);
    if (!is_found) return false;
    x->converts = a->type != tile->type;
    bool narrow = tl_type_bits(a->type) <= 16 && a->type != TL_OPEN;
    bool rounds = x->registers && tile->type == TL_F32 && narrow && x->s->copy.to == TL_GLOBAL;
    if (x->converts && !rounds)
        return copy_refuse(
            t, x->s,
            "only f32 lines in registers change their type, on the way out to 16 bits or 8");
    x->is_gathered = a->column_stride.length > 0;
    x->is_permuted = x->registers && tl_is_permuted(a->symbol);
    if (tl_is_packed(tile->type) && !packed_fit(x)) return false;
    if (!x->is_gathered && !copy_is_aligned(t, x->s, a, x->shape.elements)) return false;
    x->is_partial = !a->columns_complete && a->columns_multiple % x->shape.elements;
    return true;
}

bool lines_make(lines *x, emit *t, const tl_statement *s, const emit_tile *shared,
                const emit_tile *registers) {
    const emit_tile *tile = registers ? registers : shared;
    *x = (lines){.t = t,
                 .s = s,
                 .rows = tile->rows,
                 .columns = tile->columns,
                 .bits = tl_type_bits(tile->type),
                 .registers = registers};
    if (registers) {
        x->layout = registers->layout;
    } else if (!lines_layout(t, tile, s->copy.from == TL_GLOBAL, &x->layout))
        return copy_refuse(t, s, "its columns are no multiple of 16 bytes");
    x->shape = emit_shape_of(&x->layout, true);
    x->is_full = layout_is_full(&x->layout);
    x->is_rolled = t->is_async && t->warps == 1 && s->copy.is_async && x->shape.down > UNROLLED;
    if (shared) {
        layout_fit fit = access_copy_make(&x->layout, &shared->store, 16, &x->access);
        bool widens = x->bits <= 8 && tl_type_bits(shared->type) == 16;
        x->widens_to = widens ? shared : NULL;
        x->is_permuted = registers && shared->tile->allocation->allocate.is_permuted;
        if (fit.status != LAYOUT_OK || x->access.bytes != 16 ||
            (shared->type != tile->type && !widens))
            return copy_refuse(t, s, "its two sides do not share 16-byte units");
        check_units(x);
    }
    bool has_global = s->copy.from == TL_GLOBAL || s->copy.to == TL_GLOBAL;
    return !has_global || set_global(x, tile);
}

/* --- text ------------------------------------------------------------------------------------- */

static str place_text(emit *t, const char *own, int step, const char *index) {
    return step ? emit_format(t, "%s + %d * %s", own, step, index) : str_from(own);
}

void lines_declare_own(lines *x) {
    emit_fresh_place(x->t, x->s);
    emit_declare_place(x->t, &x->layout, STR("row"), STR("column"));
}

/* Do so many of a thread's units, one below the other, lie in one section of the rows, whichever
 * thread it is? 0: a section has no more than one of them, or cuts them unevenly.
 */
static int units_of_section(const lines *x) {
    int step = x->shape.row_step, section = x->address.section, first = 0;
    if (step < 1 || section <= step || section % step) return 0;
    for (int warp = 0; warp < x->t->warps; warp++)
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            int row = layout_own(&x->layout, warp, lane).row % section;
            first = row > first ? row : first;
        }
    return first < step ? section / step : 0;
}

/* A pointer for each section: what finds it, an element of a table for one, is read once for all
 * of a section's units.
 */
static void declare_sections(lines *x, const char *name, int units) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    int count = (x->shape.down + units - 1) / units;
    str row = place_text(t, "row", x->shape.row_step * units, "section");
    str pointer = emit_pointer(t, a, row, STR("column"));
    emit_text(t, "%.*s%s[%d];", STR_ARGS(a->pointer_type), name, count);
    emit_loop(t, "section", count);
    emit_text(t, "%s[section] = %.*s;", name, STR_ARGS(pointer));
    emit_close(t);
}

void lines_declare_pointer(lines *x, const char *name) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    if (x->is_gathered) return;
    int units = a->row_affine ? 0 : units_of_section(x);
    if (units && x->is_rolled) x->pointer = name;
    else if (units) declare_sections(x, name, units);
    if (!a->row_affine) return;
    str pointer = emit_pointer(t, a, STR("row"), STR("column"));
    emit_text(t, "%.*s%s = %.*s;", STR_ARGS(a->pointer_type), name, STR_ARGS(pointer));
}

/* Inside the loops: the pointer to this unit. */
str lines_pointer(lines *x, const char *name) {
    emit *t = x->t;
    const emit_address *a = &x->address;
    const emit_shape *s = &x->shape;
    int units = a->row_affine ? 0 : units_of_section(x);
    if ((!a->row_affine && !units) || x->is_gathered) {
        return emit_pointer(t, a, place_text(t, "row", s->row_step, "down"),
                            place_text(t, "column", s->column_step, "across"));
    }
    str text = str_from(name), stride = copy_factor(t, a->row_stride);
    if (units && x->is_rolled)
        text = emit_format(t, "%.*s + %d * (down - %d * section) * %.*s", STR_ARGS(text),
                           s->row_step, units, STR_ARGS(stride));
    else if (units)
        text = emit_format(t, "%.*s[down / %d] + %d * (down %% %d) * %.*s", STR_ARGS(text), units,
                           s->row_step, units, STR_ARGS(stride));
    else if (s->down > 1)
        text = emit_format(t, "%.*s + %d * down * %.*s", STR_ARGS(text), s->row_step,
                           STR_ARGS(stride));
    int step = x->bits < 8 ? s->column_step / 2 : s->column_step; /* bytes of packed ones */
    if (s->across > 1) text = emit_format(t, "%.*s + %d * across", STR_ARGS(text), step);
    return text;
}

str lines_shared(lines *x, const char *name) {
    emit *t = x->t;
    const emit_shape *s = &x->shape;
    const access_threads *a = &x->access.threads;
    int swizzle = a->swizzle_bytes, column_bytes = s->column_step * x->access.tile.element_bits / 8;
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
        str along = emit_format(t, "%d * across", column_bytes);
        if (a->panel_bytes || (swizzle > SHARED_UNIT_BYTES && column_bytes % swizzle))
            along = emit_beyond(t, a, along);
        text = emit_format(t, "%.*s + %.*s", STR_ARGS(text), STR_ARGS(along));
    }
    return text;
}

str lines_unit(lines *x) {
    emit *t = x->t;
    str name = x->registers ? x->registers->name : STR("units");
    if (x->shape.across > 1) return emit_format(t, "%.*s[down][across]", STR_ARGS(name));
    return emit_format(t, x->registers ? "%.*s[down][0]" : "%.*s[down]", STR_ARGS(name));
}

const char *lines_suffix(const lines *x) {
    if (!x->registers || x->bits != 32) return "";
    return x->registers->type == TL_I32 ? "_i32" : "_f32";
}

const char *lines_elements(const lines *x) {
    if (x->registers && x->bits == 32) return "";
    if (x->bits <= 8) return "_bytes";
    return x->shape.elements == 8 ? "<8>" : "<4>";
}

/* --- ends ------------------------------------------------------------------------------------- */

static str unit_row(lines *x) {
    return place_text(x->t, "row", x->shape.row_step, "down");
}

static str unit_column(lines *x) {
    return place_text(x->t, "column", x->shape.column_step, "across");
}

static str row_guard(lines *x) {
    str selected = emit_selected(x->t, &x->address, unit_row(x));
    if (x->address.rows_complete) return selected;
    return copy_both(x->t, emit_format(x->t, "%.*s < rows_left", STR_ARGS(unit_row(x))), selected);
}

str lines_guard(lines *x) {
    emit *t = x->t;
    str rows = row_guard(x), columns = {0};
    if (!x->address.columns_complete)
        columns = emit_format(t, "%.*s < columns_left", STR_ARGS(unit_column(x)));
    return copy_both(t, rows, columns);
}

int lines_counted(const lines *x) {
    return x->bits < 8 ? SHARED_UNIT_BYTES : x->shape.elements;
}

void lines_declare_left(lines *x) {
    emit *t = x->t;
    str rows = row_guard(x), column = unit_column(x);
    const char *format = x->shape.column_step ? "columns_left - (%.*s)" : "columns_left - %.*s";
    str left = emit_format(t, format, STR_ARGS(column));
    if (rows.length) left = emit_format(t, "%.*s ? %.*s : 0", STR_ARGS(rows), STR_ARGS(left));
    if (x->bits < 8) left = emit_format(t, "(%.*s) / 2", STR_ARGS(left));
    emit_text(t, "const int left = %.*s;", STR_ARGS(left));
}

static str whole_condition(lines *x) {
    emit *t = x->t;
    str rows = {0}, columns = {0};
    if (!x->address.rows_complete) rows = emit_format(t, "rows_left >= %d", x->rows);
    if (!x->address.columns_complete) columns = emit_format(t, "columns_left >= %d", x->columns);
    return copy_both(t, rows, columns);
}

static void open_section(lines *x, int units) {
    emit *t = x->t;
    str row = place_text(t, "row", x->shape.row_step * units, "section");
    str pointer = emit_pointer(t, &x->address, row, STR("column"));
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "for (int section = 0; section < %d; section++) {", x->shape.down / units);
    emit_text(t, "%.*s%s = %.*s;", STR_ARGS(x->address.pointer_type), x->pointer,
              STR_ARGS(pointer));
}

/* Opens the loops over units that lie one below the other. How many it opened. */
static int open_down(lines *x) {
    emit *t = x->t;
    int down = x->shape.down, units = x->address.row_affine ? 0 : units_of_section(x);
    if (!x->is_rolled) {
        emit_loop(t, "down", down);
        return 1;
    }
    if (x->pointer) open_section(x, units);
    bool is_looked_up = x->address.is_selected || (!x->address.row_affine && !units);
    emit_text(t, "#pragma unroll %d", is_looked_up ? 1 : UNROLLED);
    if (!x->pointer) {
        emit_open(t, "for (int down = 0; down < %d; down++) {", down);
        return 1;
    }
    emit_open(t, "for (int down = %d * section; down < %d * section + %d; down++) {", units, units,
              units);
    return 2;
}

void lines_loop(lines *x, lines_cut cut, lines_action *action) {
    emit *t = x->t;
    int opened = open_down(x);
    if (x->shape.across > 1) emit_loop(t, "across", x->shape.across);
    if (!x->is_full) emit_open(t, "if (%.*s < %d) {", STR_ARGS(unit_row(x)), x->rows);
    action(x, cut);
    if (!x->is_full) emit_close(t);
    if (x->shape.across > 1) emit_close(t);
    while (opened-- > 0) emit_close(t);
}

void lines_loop_to_ends(lines *x, lines_action *action) {
    emit *t = x->t;
    lines_cut cut = x->is_partial ? LINES_PART : LINES_OR_NONE;
    bool is_whole = x->address.rows_complete && x->address.columns_complete;
    if (x->address.is_selected || (x->is_rolled && !is_whole)) {
        lines_loop(x, cut, action);
        return;
    }
    if (is_whole) {
        lines_loop(x, LINES_WHOLE, action);
        return;
    }
    emit_open(t, "if (%.*s) {", STR_ARGS(whole_condition(x)));
    lines_loop(x, LINES_WHOLE, action);
    emit_else(t);
    lines_loop(x, cut, action);
    emit_close(t);
}
