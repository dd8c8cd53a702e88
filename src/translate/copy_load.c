/* Copies from global memory: to shared memory, to lines, to fragments. */
#include "translate/copy.h"

static void async_unit(lines *x, lines_cut cut) {
    emit *t = x->t;
    str target = lines_shared(x, "target"), source = lines_pointer(x, "source");
    str tensor = emit_clean(t, x->address.symbol->name);
    if (cut == LINES_WHOLE) {
        emit_text(t, "ftl_cp_async_16(%.*s, %.*s);", STR_ARGS(target), STR_ARGS(source));
    } else if (cut == LINES_OR_NONE) {
        emit_text(t, "const bool inside = %.*s;", STR_ARGS(lines_guard(x)));
        emit_text(t, "ftl_cp_async_16_or_zero(%.*s, inside ? %.*s : args.%.*s, inside);",
                  STR_ARGS(target), STR_ARGS(source), STR_ARGS(tensor));
    } else {
        lines_declare_left(x);
        emit_text(t, "ftl_cp_async_16_part<%d>(%.*s, left > 0 ? %.*s : args.%.*s, left);",
                  x->shape.elements, STR_ARGS(target), STR_ARGS(source), STR_ARGS(tensor));
    }
}

static void one_line(emit *t, const char *condition, str action) {
    emit_text(t, "%s", condition);
    t->indent++;
    emit_text(t, "%.*s", STR_ARGS(action));
    t->indent--;
}

static void load_unit(lines *x, lines_cut cut) {
    emit *t = x->t;
    str unit = lines_unit(x), source = lines_pointer(x, "source");
    str load = emit_format(t, "ftl_load_global_16%s", lines_suffix(x));
    str whole =
        emit_format(t, "%.*s(%.*s, %.*s);", STR_ARGS(load), STR_ARGS(unit), STR_ARGS(source));
    if (cut == LINES_WHOLE) {
        emit_text(t, "%.*s", STR_ARGS(whole));
    } else if (cut == LINES_OR_NONE) {
        str zero = emit_format(t, "%.*s[0] = %.*s[1] = %.*s[2] = %.*s[3] = 0;", STR_ARGS(unit),
                               STR_ARGS(unit), STR_ARGS(unit), STR_ARGS(unit));
        one_line(t, str_copy_z(t->memory, emit_format(t, "if (%.*s)", STR_ARGS(lines_guard(x)))),
                 whole);
        one_line(t, "else", zero);
    } else {
        str part = emit_format(t, "%.*s_part%s(%.*s, %.*s, left);", STR_ARGS(load),
                               lines_elements(x), STR_ARGS(unit), STR_ARGS(source));
        lines_declare_left(x);
        one_line(t, str_copy_z(t->memory, emit_format(t, "if (left >= %d)", x->shape.elements)),
                 whole);
        one_line(t, "else", part);
    }
}

/* --- rows of an odd number of units, and of many -------------------------------------------------
 * Lines give each lane whole rows of them, a hundred registers in a few lanes. Where a copy has no
 * register tile its units can be dealt one by one, row after row, some at a time.
 */
enum { DEALT_UNITS_MIN = 9, DEALT_ACROSS_MIN = 13, UNITS_AT_ONCE = 4 };

typedef struct deal {
    int total, share;   /* units of the tile, of a thread */
    int batches, batch; /* of which so many times so many are on their way */
} deal;

static bool is_dealt(const lines *x) {
    int units = x->columns / x->shape.elements;
    bool is_odd = units % 2 == 1 && units >= DEALT_UNITS_MIN;
    return is_odd || x->shape.across >= DEALT_ACROSS_MIN;
}

static deal make_deal(const lines *x) {
    deal d = {.total = x->rows * (x->columns / x->shape.elements)};
    d.share = (d.total + x->t->threads - 1) / x->t->threads;
    d.batches = (d.share + UNITS_AT_ONCE - 1) / UNITS_AT_ONCE;
    d.batch = (d.share + d.batches - 1) / d.batches;
    return d;
}

static void deal_units(lines *x, const deal *d, lines_cut cut, lines_action *action) {
    emit *t = x->t;
    int threads = t->threads, along = x->columns / x->shape.elements;
    emit_loop(t, "down", d->batch);
    str place = d->batches > 1 ? emit_format(t, "(%d * across + down)", d->batch) : STR("down");
    emit_text(t, "const int unit = thread + %d * %.*s;", threads, STR_ARGS(place));
    emit_text(t, "const int row = unit / %d, column = unit %% %d * %d;", along, along,
              x->shape.elements);
    bool is_full = d->batches * d->batch * threads == d->total;
    if (!is_full) emit_open(t, "if (unit < %d) {", d->total);
    action(x, cut);
    if (!is_full) emit_close(t);
    emit_close(t);
}

static void load_dealt(lines *x, lines_cut cut) {
    lines_declare_pointer(x, "source");
    load_unit(x, cut);
}

static void store_dealt(lines *x, lines_cut cut) {
    (void)cut;
    emit *t = x->t;
    const access_threads *a = &x->access.threads;
    str byte = emit_format(t, "column * %d", x->bytes);
    if (a->panel_bytes) {
        byte = emit_format(t, "(%.*s %% %d ^ (row & 7) >> %d << 4) + %.*s", STR_ARGS(byte),
                           a->swizzle_bytes, a->swizzle_shift, STR_ARGS(emit_beyond(t, a, byte)));
    } else if (a->swizzle_bytes > SHARED_UNIT_BYTES) {
        byte = emit_format(t, "(%.*s ^ (row & 7) >> %d << 4)", STR_ARGS(byte), a->swizzle_shift);
    }
    emit_text(t, "ftl_store_shared_16(target + row * %d + %.*s, units[down]);", a->pitch_bytes,
              STR_ARGS(byte));
}

static void copy_dealt(lines *x, const emit_tile *to) {
    emit *t = x->t;
    deal d = make_deal(x);
    bool is_whole =
        x->address.rows_complete && x->address.columns_complete && !x->address.is_selected;
    lines_cut cut = is_whole ? LINES_WHOLE : x->is_partial ? LINES_PART : LINES_OR_NONE;
    x->shape.down = x->shape.across = 1;
    x->shape.row_step = x->shape.column_step = 0;
    emit_open(t, "{");
    emit_text(t, "const int thread = ftl_thread();");
    copy_declare_rest(t, &x->address);
    emit_text(t, "const unsigned target = %.*s;", STR_ARGS(emit_fill_place(t, x->s, to)));
    if (d.batches > 1) {
        emit_text(t, "#pragma unroll 1");
        emit_open(t, "for (int across = 0; across < %d; across++) {", d.batches);
    }
    emit_text(t, "unsigned units[%d][4];", d.batch);
    deal_units(x, &d, cut, load_dealt);
    deal_units(x, &d, LINES_WHOLE, store_dealt);
    if (d.batches > 1) emit_close(t);
    emit_close(t);
}

void copy_global_to_shared(emit *t, const tl_statement *s, const emit_tile *to) {
    lines x;
    if (!lines_make(&x, t, s, to, NULL)) return;
    if (!s->copy.is_async && is_dealt(&x)) {
        copy_dealt(&x, to);
        return;
    }
    emit_open(t, "{");
    lines_declare_own(&x);
    copy_declare_rest(t, &x.address);
    lines_declare_shared(&x, "target", emit_fill_place(t, s, to));
    lines_declare_pointer(&x, "source");
    if (s->copy.is_async) {
        lines_loop_to_ends(&x, async_unit);
    } else {
        if (x.shape.across > 1)
            emit_text(t, "unsigned units[%d][%d][4];", x.shape.down, x.shape.across);
        else emit_text(t, "unsigned units[%d][4];", x.shape.down);
        lines_loop_to_ends(&x, load_unit);
        copy_units_to_shared(&x);
    }
    emit_close(t);
}

/* Elements that lie apart come one by one, each unit's together. */
static void gather_unit(lines *x, lines_cut cut) {
    emit *t = x->t;
    str left = emit_format(t, "%d", x->shape.elements);
    if (cut == LINES_PART) {
        lines_declare_left(x);
        left = STR("left");
    } else if (cut == LINES_OR_NONE) {
        left = emit_format(t, "%.*s ? %.*s : 0", STR_ARGS(lines_guard(x)), STR_ARGS(left));
    }
    const char *kind = x->bytes == 1 ? "_bytes" : x->bytes == 2 ? "_halves" : lines_suffix(x);
    emit_text(t, "ftl_gather_global_16%s(%.*s, %.*s, %.*s, %.*s);", kind, STR_ARGS(lines_unit(x)),
              STR_ARGS(lines_pointer(x, "source")), STR_ARGS(x->address.column_stride),
              STR_ARGS(left));
}

void copy_global_to_lines(emit *t, const tl_statement *s, const emit_tile *to) {
    lines x;
    if (!lines_make(&x, t, s, NULL, to)) return;
    emit_open(t, "{");
    lines_declare_own(&x);
    copy_declare_rest(t, &x.address);
    lines_declare_pointer(&x, "source");
    lines_loop_to_ends(&x, x.is_gathered ? gather_unit : load_unit);
    emit_close(t);
}

/* --- fragments -------------------------------------------------------------------------------- */

static void load_whole_pair(const pairs *x) {
    emit *t = x->t;
    if (tl_type_bytes(x->address.type) == 2) {
        pairs_unpack(t, x->tile, x->address.type,
                     emit_format(t, "ftl_load_global_4(%.*s)", STR_ARGS(x->pointer)));
    } else {
        const char *pair = x->address.type == TL_I32 ? "i32x2" : "f32x2";
        emit_text(t, "ftl_load_global_%s(%.*s, %.*s, %.*s);", pair, STR_ARGS(x->low),
                  STR_ARGS(x->high), STR_ARGS(x->pointer));
    }
}

static void load_first_of_pair(const pairs *x) {
    emit *t = x->t;
    if (tl_type_bytes(x->address.type) == 2) {
        pairs_unpack(t, x->tile, x->address.type,
                     emit_format(t, "ftl_load_global_2(%.*s)", STR_ARGS(x->pointer)));
    } else {
        bool is_integer = x->address.type == TL_I32;
        emit_text(t, "%.*s = ftl_load_global_%s(%.*s);", STR_ARGS(x->low),
                  is_integer ? "i32" : "f32", STR_ARGS(x->pointer));
        emit_text(t, "%.*s = %s;", STR_ARGS(x->high), is_integer ? "0" : "0.0f");
    }
}

static void load_pair(const pairs *x) {
    emit *t = x->t;
    if (x->both_inside.length) {
        emit_open(t, "if (%.*s) {", STR_ARGS(x->both_inside));
        load_whole_pair(x);
        t->indent--;
        emit_open(t, "} else {");
        load_first_of_pair(x);
        emit_close(t);
    } else {
        load_whole_pair(x);
    }
    if (!x->is_guarded) return;
    t->indent--;
    emit_open(t, "} else {");
    if (x->tile->is_packed) emit_text(t, "%.*s[m16][n8][half] = 0;", STR_ARGS(x->tile->name));
    else
        emit_text(t, "%.*s = %.*s = %s;", STR_ARGS(x->low), STR_ARGS(x->high),
                  x->address.type == TL_I32 ? "0" : "0.0f");
}

void copy_global_to_fragments(emit *t, const tl_statement *s, const emit_tile *to) {
    pairs_move(t, s, to, load_pair);
}
