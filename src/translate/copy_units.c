/* Copies in 16-byte units, every way: what is done to a unit, and what is declared before. */
#include "translate/copy.h"

/* --- from global memory ----------------------------------------------------------------------- */

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
                  lines_counted(x), STR_ARGS(target), STR_ARGS(source), STR_ARGS(tensor));
    }
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
        emit_either(t, lines_guard(x), whole, zero);
    } else {
        str part = emit_format(t, "%.*s_part%s(%.*s, %.*s, left);", STR_ARGS(load),
                               lines_elements(x), STR_ARGS(unit), STR_ARGS(source));
        lines_declare_left(x);
        emit_either(t, emit_format(t, "left >= %d", lines_counted(x)), whole, part);
    }
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
    const char *kind = x->bits == 8 ? "_bytes" : x->bits == 16 ? "_halves" : lines_suffix(x);
    emit_text(t, "ftl_gather_global_16%s(%.*s, %.*s, %.*s, %.*s);", kind, STR_ARGS(lines_unit(x)),
              STR_ARGS(lines_pointer(x, "source")), STR_ARGS(x->address.column_stride),
              STR_ARGS(left));
}

/* --- to global memory ------------------------------------------------------------------------- */

static bool adds(const lines *x) {
    return x->s->copy.target_kind == TL_ACCUMULATE;
}

/* The wrapper that takes a unit to global memory; '_part' and 'elements' make it one for a part. */
static str wrapper(lines *x) {
    if (adds(x)) return STR("ftl_add_global_16_f32");
    if (x->is_permuted) return STR("ftl_store_global_16_permuted");
    if (x->converts)
        return emit_format(x->t, "ftl_store_global_%d_%s", 4 * tl_type_bytes(x->address.type),
                           emit_type_word(x->address.type));
    return emit_format(x->t, "ftl_store_global_16%s", lines_suffix(x));
}

static bool may_add(lines *x) {
    bool fits = !adds(x) || (!x->converts && x->address.type == TL_F32);
    if (!fits) copy_refuse(x->t, x->s, "lines add f32 to f32 in global memory");
    return fits;
}

static void store_unit(lines *x, lines_cut cut) {
    emit *t = x->t;
    str unit = x->registers ? lines_unit(x) : STR("unit"), target = lines_pointer(x, "target");
    if (cut == LINES_PART) lines_declare_left(x);
    if (cut != LINES_WHOLE) {
        str guard = cut == LINES_PART ? STR("left > 0") : lines_guard(x);
        emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    }
    if (!x->registers) {
        emit_text(t, "%s unit[4];", adds(x) ? "float" : "unsigned");
        emit_text(t, "ftl_load_shared_16%s(unit, %.*s);", adds(x) ? "_f32" : "",
                  STR_ARGS(lines_shared(x, "source")));
    }
    str store = wrapper(x);
    str whole =
        emit_format(t, "%.*s(%.*s, %.*s);", STR_ARGS(store), STR_ARGS(target), STR_ARGS(unit));
    if (cut == LINES_PART) {
        str part = emit_format(t, "%.*s_part%s(%.*s, %.*s, left);", STR_ARGS(store),
                               adds(x) ? "" : lines_elements(x), STR_ARGS(target), STR_ARGS(unit));
        emit_either(t, emit_format(t, "left >= %d", x->shape.elements), whole, part);
    } else {
        emit_text(t, "%.*s", STR_ARGS(whole));
    }
    if (cut != LINES_WHOLE) emit_close(t);
}

/* --- between registers and shared memory ------------------------------------------------------ */

/* Do the first wide units of 8 lanes, 32 or 64 bytes apart in a row, meet in the banks? Those past
 * 128 bytes then store their second half first.
 */
static bool takes_turns(const lines *x) {
    enum { LANES_AT_ONCE = 8, WIDE_BYTES = 2, BANKS_BYTES = LANES_AT_ONCE * SHARED_UNIT_BYTES };
    int chunks = x->columns / x->shape.elements;
    return (chunks & -chunks) * x->shape.elements * WIDE_BYTES > BANKS_BYTES &&
           x->access.threads.swizzle_bytes == BANKS_BYTES;
}

/* 32 elements of 4 bits fill four units, side by side in a run of the swizzle or beyond it. */
static void put_packed_unit(lines *x, bool turns) {
    emit *t = x->t;
    int swizzle = x->access.threads.swizzle_bytes;
    str unit = turns ? STR("turned") : lines_unit(x);
    if (turns) {
        emit_text(t, "const unsigned turn = (unsigned)(column & 64) >> 1;");
        emit_text(t, "unsigned turned[4];");
        emit_text(t, "ftl_turn(turned, %.*s, turn);", STR_ARGS(lines_unit(x)));
    }
    emit_text(t, "const unsigned place = %.*s%s;", STR_ARGS(lines_shared(x, "target")),
              turns ? " ^ turn" : "");
    emit_text(t, "unsigned wide[4][4];");
    emit_text(t, "ftl_widen_%s_%s(wide, %.*s);", emit_type_word(x->registers->type),
              emit_type_word(x->widens_to->type), STR_ARGS(unit));
    emit_text(t, "ftl_store_shared_16(place, wide[0]);");
    for (int i = 1; i < 4; i++) {
        int byte = SHARED_UNIT_BYTES * i;
        int inside = swizzle > SHARED_UNIT_BYTES ? byte & (swizzle - 1) : 0;
        str at = inside ? emit_format(t, byte > inside ? "(place ^ %d)" : "place ^ %d", inside)
                        : STR("place");
        if (byte > inside) at = emit_format(t, "%.*s + %d", STR_ARGS(at), byte - inside);
        emit_text(t, "ftl_store_shared_16(%.*s, wide[%d]);", STR_ARGS(at), i);
    }
}

static void put_turned_unit(lines *x) {
    emit *t = x->t;
    str unit = lines_unit(x);
    emit_text(t, "const unsigned turn = (unsigned)(column & 64) >> 2;");
    emit_text(t, "const unsigned place = %.*s ^ turn;", STR_ARGS(lines_shared(x, "target")));
    emit_text(t, "unsigned turned[4], first[4], second[4];");
    emit_text(t, "ftl_turn(turned, %.*s, turn);", STR_ARGS(unit));
    emit_text(t, "ftl_widen_%s_%s(first, second, turned);", emit_type_word(x->registers->type),
              emit_type_word(x->widens_to->type));
    emit_text(t, "ftl_store_shared_16(place, first);");
    emit_text(t, "ftl_store_shared_16(place ^ 16, second);");
}

/* A unit of 8 bits fills two of 16, side by side. */
static void put_wide_unit(lines *x) {
    emit *t = x->t;
    str second = x->access.threads.swizzle_bytes > SHARED_UNIT_BYTES ? STR("^ 16") : STR("+ 16");
    const char *to = emit_type_word(x->widens_to->type);
    emit_text(t, "const unsigned place = %.*s;", STR_ARGS(lines_shared(x, "target")));
    emit_text(t, "unsigned low[4], high[4];");
    emit_text(t, "ftl_widen_%s_%s(low, high, %.*s);", emit_type_word(x->registers->type), to,
              STR_ARGS(lines_unit(x)));
    emit_text(t, "ftl_store_shared_16(place, low);");
    emit_text(t, "ftl_store_shared_16(place %.*s, high);", STR_ARGS(second));
}

static void put_unit(lines *x, lines_cut cut) {
    (void)cut;
    if (x->widens_to && x->bits < 8) {
        put_packed_unit(x, takes_turns(x));
        return;
    }
    if (x->widens_to && takes_turns(x)) {
        put_turned_unit(x);
        return;
    }
    if (x->widens_to) {
        put_wide_unit(x);
        return;
    }
    emit_text(x->t, "ftl_store_shared_16%s(%.*s, %.*s);",
              x->is_permuted ? "_permuted" : lines_suffix(x), STR_ARGS(lines_shared(x, "target")),
              STR_ARGS(lines_unit(x)));
}

static void take_unit(lines *x, lines_cut cut) {
    (void)cut;
    emit_text(x->t, "ftl_load_shared_16%s(%.*s, %.*s);", lines_suffix(x), STR_ARGS(lines_unit(x)),
              STR_ARGS(lines_shared(x, "source")));
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
    str byte = x->bits < 8 ? STR("column / 2") : emit_format(t, "column * %d", x->bits / 8);
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

/* --- all ways --------------------------------------------------------------------------------- */

/* Units pass through registers where neither side has any and the copy is not asynchronous. */
static void load_through_registers(lines *x) {
    emit *t = x->t;
    if (x->shape.across > 1)
        emit_text(t, "unsigned units[%d][%d][4];", x->shape.down, x->shape.across);
    else emit_text(t, "unsigned units[%d][4];", x->shape.down);
    lines_loop_to_ends(x, load_unit);
    lines_loop(x, LINES_WHOLE, put_unit);
}

void copy_in_lines(emit *t, const tl_statement *s, const emit_tile *from, const emit_tile *to) {
    lines x;
    const emit_tile *shared = from && from->space == TL_SHARED ? from : to;
    if (shared && shared->space != TL_SHARED) shared = NULL;
    const emit_tile *registers = shared == from ? to : from;
    if (!lines_make(&x, t, s, shared, registers) || (!to && !may_add(&x))) return;
    if (!from && !registers && !s->copy.is_async && is_dealt(&x)) {
        copy_dealt(&x, to);
        return;
    }
    bool fills = shared && shared == to, is_global = !from || !to;
    emit_open(t, "{");
    lines_declare_own(&x);
    if (is_global) copy_declare_rest(t, &x.address);
    if (fills) emit_declare_address(t, "target", emit_fill_place(t, s, to), &x.access.threads);
    else if (shared) emit_declare_address(t, "source", emit_held(t, from), &x.access.threads);
    if (is_global) lines_declare_pointer(&x, from ? "target" : "source");
    if (!is_global) lines_loop(&x, LINES_WHOLE, fills ? put_unit : take_unit);
    else if (from) lines_loop_to_ends(&x, store_unit);
    else if (s->copy.is_async) lines_loop_to_ends(&x, async_unit);
    else if (registers) lines_loop_to_ends(&x, x.is_gathered ? gather_unit : load_unit);
    else load_through_registers(&x);
    emit_close(t);
}
