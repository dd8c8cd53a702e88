/* Register tiles in the text: their arrays, a thread's place in them, their elements. */
#include "translate/emit.h"

enum { WIDTH = 100 };

const char *emit_type_word(tl_type type) {
    return tl_type_name(type);
}

bool emit_is_bytes(const emit_tile *tile) {
    return emit_has_quads(tile) && !tile->shape.is_lines;
}

str emit_fragment_column(const emit_shape *s, int e) {
    if (s->alternates) return e ? STR("(n8 / 2 * 16 + n8 % 2 + 2)") : STR("(n8 / 2 * 16 + n8 % 2)");
    return e ? STR("8 * n8 + 1") : STR("8 * n8");
}

/* How many elements of a matrix share a variable. */
static int per_word(const emit_tile *tile) {
    return tile->is_packed ? 32 / tl_type_bits(tile->type) : 1;
}

bool emit_has_quads(const emit_tile *tile) {
    return tile->is_packed && tl_is_narrow(tile->type);
}

str emit_high_name(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s_high", STR_ARGS(emit_clean(t, tile->symbol->name)));
}

static int array_length(const emit_tile *tile) {
    const emit_shape *s = &tile->shape;
    if (s->part == PART_ROWS) return s->is_lines ? s->down : s->down * 2;
    if (s->part == PART_COLUMNS) return s->is_lines ? s->across * s->elements : s->across * 2;
    return s->down * s->across * s->elements / per_word(tile);
}

str emit_row_dimensions(emit *t, const emit_shape *s) {
    if (s->is_lines) return emit_format(t, "[%d]", s->down);
    return s->down == 1 ? STR("[2]") : emit_format(t, "[%d][2]", s->down);
}

str emit_fragment_row(const emit_shape *s) {
    return s->down == 1 ? STR("8 * half") : STR("16 * m16 + 8 * half");
}

static str dimensions(emit *t, const emit_tile *tile) {
    const emit_shape *s = &tile->shape;
    if (s->part == PART_ROWS) return emit_row_dimensions(t, s);
    if (s->part == PART_COLUMNS)
        return emit_format(t, "[%d][%d]", s->across, s->is_lines ? s->elements : 2);
    int across = s->across, words = s->elements / per_word(tile);
    if (emit_has_quads(tile) && !s->is_lines) across /= 2, words *= 2;
    if (!s->is_lines && s->down == 1) return emit_format(t, "[%d][%d]", across, words);
    return emit_format(t, "[%d][%d][%d]", s->down, across, words);
}

static str emit_array_type(const emit_tile *tile) {
    if (tile->is_packed) return STR("unsigned");
    return tile->type == TL_I32 ? STR("int") : STR("float");
}

/* The lane's part; "0" when it has none. */
static str lane_terms(emit *t, const bitmatrix *lanes) {
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
    return plus(t, text, lane_terms(t, &lanes));
}

/* The thread's part, in bytes; its line and byte are declared. */
static str own_address(emit *t, const access_threads *threads) {
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
    str lane_line = lane_terms(t, &threads->lane_line),
        lane_byte = lane_terms(t, &threads->lane_byte);
    line = plus(t, line, lane_line);
    byte = plus(t, byte, lane_byte);
    emit_text(t, "const int line = %.*s, byte = %.*s;", STR_ARGS(line), STR_ARGS(byte));
    if (threads->swizzle_bytes == SHARED_UNIT_BYTES)
        return emit_format(t, "(unsigned)(line * %d + byte)", threads->pitch_bytes);
    str turn = threads->swizzle_shift
                   ? emit_format(t, "(line & 7) >> %d << 4", threads->swizzle_shift)
                   : STR("(line & 7) << 4");
    if (threads->panel_bytes) {
        return emit_format(t, "(unsigned)(line * %d + (byte & %d ^ %.*s) + byte / %d * %d)",
                           threads->pitch_bytes, threads->swizzle_bytes - 1, STR_ARGS(turn),
                           threads->swizzle_bytes, threads->panel_bytes);
    }
    return emit_format(t, "(unsigned)(line * %d + (byte ^ %.*s))", threads->pitch_bytes,
                       STR_ARGS(turn));
}

void emit_declare_address(emit *t, const char *name, str slot, const access_threads *threads) {
    emit_text(t, "unsigned %s = %.*s;", name, STR_ARGS(slot));
    emit_open(t, "{");
    str own = own_address(t, threads);
    emit_text(t, "%s += %.*s;", name, STR_ARGS(own));
    emit_close(t);
}

str emit_beyond(emit *t, const access_threads *threads, str byte) {
    if (threads->panel_bytes)
        return emit_format(t, "%.*s / %d * %d", STR_ARGS(byte), threads->swizzle_bytes,
                           threads->panel_bytes);
    return emit_format(t, "(%.*s & ~%d)", STR_ARGS(byte), threads->swizzle_bytes - 1);
}

str emit_along(emit *t, const access_threads *threads, str address, str along, bool goes_beyond) {
    int swizzle = threads->swizzle_bytes;
    if (swizzle <= SHARED_UNIT_BYTES)
        return emit_format(t, "%.*s + %.*s", STR_ARGS(address), STR_ARGS(along));
    str at =
        emit_format(t, "(%.*s ^ (%.*s & %d))", STR_ARGS(address), STR_ARGS(along), swizzle - 1);
    if (!goes_beyond) return at;
    return emit_format(t, "%.*s + %.*s", STR_ARGS(at), STR_ARGS(emit_beyond(t, threads, along)));
}

str emit_array_parameter(emit *t, const emit_tile *tile, str name) {
    return emit_format(t, "%.*s (&%.*s)%.*s", STR_ARGS(emit_array_type(tile)), STR_ARGS(name),
                       STR_ARGS(dimensions(t, tile)));
}

static emit_tile **ring_of(const emit *t, const tl_symbol *symbol) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->symbol == symbol && tile->space == TL_REGISTER) return tile->generations;
    }
    return NULL;
}

/* Arrays of one Allocate and type share a line while it is short: the last one of 'line'. */
static void declare_array(emit *t, const emit_tile *tile, int *line) {
    str type = emit_array_type(tile);
    str array = emit_format(t, "%.*s%.*s", STR_ARGS(tile->name), STR_ARGS(dimensions(t, tile)));
    str *text = *line >= 0 ? &t->lines.items[*line].text : NULL;
    size_t indent = (size_t)(t->indent * EMIT_INDENT);
    bool joins = text && *line == t->lines.count - 1 && str_starts(*text, type) &&
                 indent + text->length + array.length < WIDTH;
    if (!joins) {
        *line = t->lines.count;
        emit_text(t, "%.*s %.*s;", STR_ARGS(type), STR_ARGS(array));
        return;
    }
    text->length--;
    *text = emit_format(t, "%.*s, %.*s;", STR_ARGS(*text), STR_ARGS(array));
}

void emit_declare_register(emit *t, const tl_statement *s) {
    int line = -1;
    for (int i = 0; i < s->allocate.name_count; i++) {
        emit_tile *tile = emit_tile_in(t, s->allocate.symbols[i], TL_REGISTER);
        if (!tile) continue;
        emit_tile **generations = ring_of(t, tile->symbol);
        for (int k = 0; k < (generations ? tile->stages : 1); k++) {
            const emit_tile *one = generations ? generations[k] : tile;
            declare_array(t, one, &line);
            t->array_registers += array_length(one);
        }
        if (emit_has_quads(tile)) {
            str high = emit_high_name(t, tile);
            emit_declare(t, high,
                         "[[maybe_unused]] bool %.*s = false; // holds a number from 256 on",
                         STR_ARGS(high));
        }
        if (tile->is_lazy) {
            str holds = emit_format(t, "%.*s_holds", STR_ARGS(tile->name));
            emit_declare(t, holds,
                         "[[maybe_unused]] bool %.*s = true; // a sum that products add to",
                         STR_ARGS(holds));
        }
        if (!generations) emit_declare_unseen(t, tile);
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

str emit_quad(emit *t, const emit_tile *tile) {
    const char *place = tile->shape.is_lines ? "[down][across][half / 2]" : "[m16][n8 / 2][half]";
    return emit_format(t, "%.*s%s", STR_ARGS(tile->name), place);
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
    if (emit_is_bytes(tile) && tile->shape.alternates)
        return emit_format(t, "ftl_quad_%s(%.*s, n8 %% 2 + %d)", emit_type_word(tile->type),
                           STR_ARGS(emit_quad(t, tile)), 2 * e);
    if (emit_has_quads(tile))
        return emit_format(t, "ftl_quad_%s(%.*s, %s %% 2 * 2 + %d)", emit_type_word(tile->type),
                           STR_ARGS(emit_quad(t, tile)), tile->shape.is_lines ? "half" : "n8", e);
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
