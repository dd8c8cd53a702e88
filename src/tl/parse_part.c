/* Parts that several statements share. */
#include "tl/parse.h"

void parse_shape(parser *p, tl_exprs *out) {
    parse_expect(p, '(');
    parse_list(p, ')', false, TL_AXES_MAX, out);
}

static tl_axis parse_axis(parser *p) {
    tl_axis axis = {0};
    uint32_t begin = parse_peek(p).begin;
    axis.coordinate = axis.extent = parse_expr(p);
    axis.is_bare = true;
    if (!p->failed && parse_accept_word(p, "in")) {
        axis.extent = parse_expr(p);
        axis.is_bare = false;
    }
    axis.range = parse_range(p, begin);
    return axis;
}

void parse_axes(parser *p, tl_axes *out) {
    LIST(tl_axis) list = {0};
    uint32_t begin = parse_peek(p).begin;
    parse_expect(p, '(');
    while (!p->failed) {
        if (list.count == TL_AXES_MAX) parse_fail_too_many(p, TL_AXES_MAX);
        tl_axis axis = parse_axis(p);
        if (p->failed) break;
        list_push(p->memory, &list, axis);
        if (!out->has_semicolon && parse_accept(p, ';')) {
            out->has_semicolon = true;
            out->matrix = list.count;
        } else if (!parse_accept(p, ',')) {
            break;
        }
    }
    parse_expect(p, ')');
    out->items = list.items;
    out->count = list.count;
    out->range = parse_range(p, begin);
}

static tl_spot parse_spot(parser *p) {
    tl_spot spot = {0};
    if (parse_accept(p, ':')) {
        spot.is_all = true;
        return spot;
    }
    if (parse_at_word(p, "L") && parse_peek_next(p).kind == '=') {
        parse_advance(p);
        parse_advance(p);
        spot.is_block = true;
    }
    spot.at = parse_expr(p);
    return spot;
}

void parse_place(parser *p, tl_place *out) {
    LIST(tl_spot) list = {0};
    uint32_t begin = parse_peek(p).begin;
    if (!parse_accept_word(p, "coor") && !parse_accept_word(p, "coord")) {
        parse_expect_word(p, "coordinate");
    }
    parse_expect(p, '[');
    do {
        if (list.count == TL_AXES_MAX) parse_fail_too_many(p, TL_AXES_MAX);
        tl_spot spot = parse_spot(p);
        if (!p->failed) list_push(p->memory, &list, spot);
    } while (!p->failed && parse_accept(p, ','));
    parse_expect(p, ']');
    out->items = list.items;
    out->count = list.count;
    out->is_given = true;
    out->range = parse_range(p, begin);
}

static const char *const layout_words[] = {"mma_A", "mma_B",   "mma_C",   "lines",
                                           "rows",  "columns", "partial", NULL};

static tl_layout_kind parse_layout_kind(parser *p) {
    for (int i = 0; i < TL_COLUMNS - TL_LAYOUT_NONE; i++) {
        if (parse_accept_word(p, layout_words[i])) return (tl_layout_kind)(TL_MMA_A + i);
    }
    parse_fail_word(p, "a layout (mma_A, mma_B, mma_C, lines, rows or columns)", layout_words);
    return TL_LAYOUT_NONE;
}

/* The paper's (MMA_C, MMA_M, MMA_N): the kind, and repetition counts that follow from the shape. */
static void parse_layout_in_brackets(parser *p, tl_layout *out) {
    parse_expect(p, '(');
    out->kind = parse_layout_kind(p);
    while (!p->failed && parse_accept(p, ',')) parse_expr(p);
    parse_expect(p, ')');
}

void parse_layout(parser *p, tl_layout *out) {
    uint32_t begin = parse_peek(p).begin;
    if (parse_at(p, '(')) {
        parse_layout_in_brackets(p, out);
        out->range = parse_range(p, begin);
        return;
    }
    out->is_partial = parse_accept_word(p, "partial");
    out->kind = parse_layout_kind(p);
    out->is_permuted = parse_accept_word(p, "permuted");
    if (parse_accept_word(p, "over")) {
        parse_expect(p, '(');
        out->over_rows = parse_integer(p, "how many executors share the rows");
        parse_expect(p, ',');
        out->over_columns = parse_integer(p, "how many executors share the columns");
        parse_expect(p, ')');
    }
    if (parse_accept_word(p, "of")) out->of = parse_name_expr(p, "a tile's name");
    out->range = parse_range(p, begin);
}

tl_space parse_space(parser *p) {
    static const char *const words[] = {"global", "shared", "register", "registers", NULL};
    static const tl_space spaces[] = {TL_GLOBAL, TL_SHARED, TL_REGISTER, TL_REGISTER};
    for (int i = 0; words[i]; i++) {
        if (!parse_accept_word(p, words[i])) continue;
        parse_accept_word(p, "memory");
        return spaces[i];
    }
    parse_fail_word(p, "a space (global, shared or register)", words);
    return TL_NOWHERE;
}

bool parse_accept_type(parser *p, tl_type *out) {
    static const char *const words[] = {
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
        NULL};
    for (int i = 0; words[i]; i++) {
        if (!parse_accept_word(p, words[i])) continue;
        *out = (tl_type)(TL_OPEN + 1 + i);
        return true;
    }
    return false;
}

bool parse_at_target(const parser *p) {
    return parse_at_word(p, "and") &&
           (parse_next_is_word(p, "get") || parse_next_is_word(p, "accumulate"));
}

void parse_target(parser *p, tl_target_kind *kind, tl_expr **target) {
    parse_expect_word(p, "and");
    *kind = TL_ACCUMULATE;
    if (parse_accept_word(p, "get")) {
        *kind = TL_GET;
        lex_token next = parse_peek_next(p);
        bool is_filler = parse_at_word(p, "new") && next.kind == LEX_WORD &&
                         !lex_same_word(parse_text(p, next), "by") &&
                         !lex_same_word(parse_text(p, next), "async");
        if (is_filler) parse_advance(p);
    } else {
        parse_expect_word(p, "accumulate");
    }
    *target = parse_name_expr(p, "the name of the result");
}
