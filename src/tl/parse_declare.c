/* Statements that declare: Input, Output, let, grid, Allocate. */
#include "tl/parse.h"

/* `kept`, of an Output. */
static void parse_kept(parser *p, tl_statement *s) {
    lex_token word = parse_peek(p);
    if (!parse_clause_is_new(p, s->parameter.is_kept, "'kept'")) return;
    if (s->kind != TL_OUTPUT) {
        parse_fail_id(p, DIAG_CLAUSE_FOREIGN, ((diag_range){word.begin, word.end}), STR("'kept'"),
                      STR("Output"));
        return;
    }
    parse_advance(p);
    s->parameter.is_kept = true;
}

static void parse_parameter(parser *p, tl_statement *s) {
    static const char *const words[] = {"permuted", "kept", "where",
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
                                        NULL};
    tl_parameter *parameter = &s->parameter;
    parameter->name = parse_new_name(p, "the parameter's name", &s->name_range);
    while (!p->failed && !parse_at_line_end(p)) {
        if (parse_at(p, '(')) {
            if (parse_clause_is_new(p, parameter->axes.count > 0, "the list of axes")) {
                parse_axes(p, &parameter->axes);
            }
        } else if (parse_clause(p, "permuted", parameter->is_permuted)) {
            parameter->is_permuted = true;
        } else if (parse_at_word(p, "kept")) {
            parse_kept(p, s);
        } else if (parse_clause(p, "where", parameter->condition)) {
            parameter->condition = parse_condition(p);
        } else if (parameter->type != TL_OPEN || !parse_accept_type(p, &parameter->type)) {
            parse_fail_word(p, "a type, a list of axes or 'where'", words);
        }
    }
}

static void parse_let(parser *p, tl_statement *s) {
    LIST(tl_binding) list = {0};
    do {
        tl_binding binding = {0};
        lex_token start = parse_peek(p);
        diag_range name_range = {0};
        binding.name = parse_new_name(p, "a name to define", &name_range);
        if (list.count == 0) s->name_range = name_range;
        if (parse_at(p, '(')) parse_axes(p, &binding.axes);
        parse_expect(p, '=');
        binding.value = parse_expr(p);
        binding.range = parse_range(p, start.begin);
        if (!p->failed) list_push(p->memory, &list, binding);
    } while (!p->failed && parse_accept(p, ','));
    s->let.items = list.items;
    s->let.count = list.count;
}

static void parse_grid(parser *p, tl_statement *s) {
    LIST(tl_walk) list = {0};
    if (!parse_next_is_word(p, "in")) {
        if (parse_accept_word(p, "persistent")) s->grid.kind = TL_GRID_PERSISTENT;
        else if (parse_accept_word(p, "dynamic")) s->grid.kind = TL_GRID_DYNAMIC;
    }
    if (!parse_next_is_word(p, "in")) s->grid.is_early = parse_accept_word(p, "early");
    if (!parse_next_is_word(p, "in")) s->grid.is_yielding = parse_accept_word(p, "yielding");
    bool has_sections = false;
    do {
        tl_walk walk = {0};
        uint32_t begin = parse_peek(p).begin;
        if (list.count == TL_AXES_MAX) parse_fail_too_many(p, TL_AXES_MAX);
        diag_range name_range = {0};
        walk.name = parse_new_name(p, "the name of a tile index", &name_range);
        if (list.count == 0) s->name_range = name_range;
        parse_expect_word(p, "in");
        walk.extent = parse_expr(p);
        walk.is_reversed = parse_accept_word(p, "reversed");
        lex_token clause = parse_peek(p);
        if (parse_accept_word(p, "sections")) {
            if (has_sections) {
                parse_fail_id(p, DIAG_CLAUSE_TWICE, ((diag_range){clause.begin, clause.end}),
                              STR("'sections'"));
            }
            has_sections = true;
            walk.section = parse_expr(p);
        }
        walk.range = parse_range(p, begin);
        if (!p->failed) list_push(p->memory, &list, walk);
    } while (!p->failed && parse_accept(p, ','));
    s->grid.items = list.items;
    s->grid.count = list.count;
}

static void parse_allocated_names(parser *p, tl_statement *s) {
    LIST(str) names = {0};
    LIST(diag_range) ranges = {0};
    do {
        diag_range range = {0};
        str name = parse_new_name(p, "the name of a tile", &range);
        list_push(p->memory, &names, name);
        list_push(p->memory, &ranges, range);
        if (names.count > PARSE_NAMES_MAX) parse_fail_too_many(p, PARSE_NAMES_MAX);
    } while (!p->failed && parse_accept(p, ','));
    s->name_range = ranges.items[0];
    s->allocate.names = names.items;
    s->allocate.name_ranges = ranges.items;
    s->allocate.name_count = names.count;
}

/* `in SPACE` or `in place of Y` */
static void parse_allocate_in(parser *p, tl_allocation *a) {
    if (parse_next_is_word(p, "place")) {
        if (!parse_clause_is_new(p, a->in_place_of.length > 0, "'in place of'")) return;
        parse_advance(p);
        parse_advance(p);
        parse_expect_word(p, "of");
        lex_token name = parse_peek(p);
        a->in_place_of = parse_name(p, "a tile's name");
        a->in_place_range = parse_range(p, name.begin);
    } else if (parse_clause_is_new(p, a->space != TL_NOWHERE, "the space")) {
        parse_advance(p);
        a->space = parse_space(p);
    }
}

static void parse_allocate_by(parser *p, tl_allocation *a) {
    static const char *const words[] = {"columns", "mbarrier", NULL};
    parse_advance(p);
    if (parse_at_word(p, "columns")) {
        if (parse_clause_is_new(p, a->by_columns, "'by columns'")) parse_advance(p);
        a->by_columns = true;
    } else if (parse_at_word(p, "mbarrier")) {
        if (parse_clause_is_new(p, a->channel.length > 0, "'by mbarrier'")) parse_advance(p);
        a->channel = STR("mbarrier");
    } else {
        parse_fail_word(p, "'columns' or 'mbarrier'", words);
    }
}

/* No whole expression: the shape may come after it, and `N (BM, d)` would be a call. */
static tl_expr *parse_stages(parser *p) {
    uint32_t begin = parse_peek(p).begin;
    if (parse_peek(p).kind != LEX_INTEGER) return parse_name_expr(p, "how many stages");
    int64_t stages = parse_integer(p, "how many stages");
    tl_expr *e = arena_new(p->memory, tl_expr);
    *e = (tl_expr){.kind = TL_INTEGER, .integer = stages, .range = parse_range(p, begin)};
    return e;
}

static void parse_allocate_clause(parser *p, tl_allocation *a) {
    static const char *const words[] = {"in", "as", "by", "permuted", "swizzled", "stages", "with",
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
                                        NULL};
    if (parse_at(p, '(')) {
        if (parse_clause_is_new(p, a->shape.count > 0, "the shape")) parse_shape(p, &a->shape);
    } else if (parse_at_word(p, "in")) {
        parse_allocate_in(p, a);
    } else if (parse_clause(p, "as", a->layout.kind != TL_LAYOUT_NONE)) {
        parse_layout(p, &a->layout);
    } else if (parse_at_word(p, "by")) {
        parse_allocate_by(p, a);
    } else if (parse_clause(p, "swizzled", a->swizzle_bytes > 0)) {
        a->swizzle_bytes = parse_integer(p, "how many bytes a row of the swizzle has");
    } else if (parse_clause(p, "stages", a->stages)) {
        a->stages = parse_stages(p);
    } else if (parse_accept_word(p, "permuted")) {
        a->is_permuted = true;
    } else if (parse_at_word(p, "with")) {
        if (!parse_clause_is_new(p, a->offset, "'with offset'")) return;
        parse_advance(p);
        parse_expect_word(p, "offset");
        a->offset = parse_expr(p);
    } else if (a->type != TL_OPEN || !parse_accept_type(p, &a->type)) {
        parse_fail_word(p, "a clause of Allocate", words);
    }
}

/* Which clauses go with which space. */
static void check_allocation(parser *p, const tl_allocation *a, diag_range range) {
    const struct {
        bool is_given;
        tl_space space;
        const char *clause;
    } rules[] = {
        {a->layout.kind != TL_LAYOUT_NONE, TL_REGISTER, "'as'"},
        {a->by_columns, TL_SHARED, "'by columns'"},
        {a->is_permuted, TL_SHARED, "'permuted'"},
        {a->swizzle_bytes > 0, TL_SHARED, "'swizzled'"},
        {a->in_place_of.length > 0, TL_SHARED, "'in place of'"},
        {a->channel.length > 0, TL_SHARED, "'by mbarrier'"},
        {a->offset != NULL, TL_GLOBAL, "'with offset'"},
        {a->stages && a->space == TL_GLOBAL, TL_SHARED, "'stages'"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].is_given || a->space == rules[i].space) continue;
        str space = str_format(p->memory, "a tile in %s", tl_space_name(rules[i].space));
        parse_fail_id(p, DIAG_CLAUSE_FOREIGN, range, str_from(rules[i].clause), space);
    }
}

static void parse_allocate(parser *p, tl_statement *s) {
    tl_allocation *a = &s->allocate;
    uint32_t begin = parse_peek(p).begin;
    parse_allocated_names(p, s);
    while (!p->failed && !parse_at_line_end(p)) parse_allocate_clause(p, a);
    if (p->failed) return;
    if (a->space == TL_NOWHERE) parse_fail(p, "'in shared' or 'in register'");
    else if (a->shape.count == 0) parse_fail(p, "the shape, such as (BM, d)");
    else check_allocation(p, a, parse_range(p, begin));
}

void parse_declaration(parser *p, tl_statement *s) {
    parse_advance(p);
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: parse_parameter(p, s); break;
    case TL_LET: parse_let(p, s); break;
    case TL_GRID: parse_grid(p, s); break;
    default: parse_allocate(p, s); break;
    }
}
