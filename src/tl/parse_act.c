/* Statements that act, and the headers of those that have a body. */
#include "tl/parse.h"

/* Clauses that Copy and Compute share: where, into what, by which instruction, when. */
typedef struct moving_clauses {
    tl_place *place;
    tl_target_kind *target_kind;
    tl_expr **target;
    str *atom;
    bool *is_async;
} moving_clauses;

/* False when it is none of them. */
static bool parse_moving_clause(parser *p, const moving_clauses *c) {
    if (parse_at_word(p, "in")) {
        if (!parse_clause_is_new(p, c->place->is_given, "'in coordinate'")) return true;
        parse_advance(p);
        parse_place(p, c->place);
    } else if (parse_at_target(p)) {
        if (parse_clause_is_new(p, *c->target, "the target"))
            parse_target(p, c->target_kind, c->target);
    } else if (parse_clause(p, "by", c->atom->length > 0)) {
        *c->atom = parse_name(p, "the name of an instruction");
    } else if (parse_accept_word(p, "async")) {
        *c->is_async = true;
    } else {
        return false;
    }
    return true;
}

static void parse_copy_clause(parser *p, tl_copy *c) {
    static const char *const words[] = {"in", "from", "to", "and", "by", "async", NULL};
    const moving_clauses clauses = {&c->place, &c->target_kind, &c->target, &c->atom, &c->is_async};
    if (parse_at(p, '(')) {
        if (parse_clause_is_new(p, c->shape.count > 0, "the shape")) parse_shape(p, &c->shape);
    } else if (parse_clause(p, "from", c->from != TL_NOWHERE)) {
        c->from = parse_space(p);
    } else if (parse_clause(p, "to", c->to != TL_NOWHERE)) {
        c->to = parse_space(p);
    } else if (!parse_moving_clause(p, &clauses)) {
        parse_fail_word(p, "a clause of Copy", words);
    }
}

static void parse_copy(parser *p, tl_statement *s) {
    tl_copy *c = &s->copy;
    c->what = parse_name_expr(p, "the name of what is copied");
    while (!p->failed && !parse_at_line_end(p)) parse_copy_clause(p, c);
    if (p->failed) return;
    if (c->from == TL_NOWHERE) parse_fail(p, "'from' and a space");
    else if (c->to == TL_NOWHERE) parse_fail(p, "'to' and a space");
}

static tl_operation parse_operation(parser *p, tl_compute *c) {
    static const char *const words[] = {
#define OPERATION(id, spelling, operands, shape, doc, ...) spelling,
#include "tl/operations.def"
#undef OPERATION
        NULL};
    lex_token t = parse_peek(p);
    if (t.kind != LEX_WORD) {
        parse_fail(p, "an operation");
        return TL_OPERATION_UNKNOWN;
    }
    c->operation_text = parse_text(p, t);
    for (int i = 0; words[i]; i++) {
        if (parse_accept_word(p, words[i])) return (tl_operation)i;
    }
    diag_range range = {t.begin, t.end};
    parse_fail_id(p, DIAG_UNKNOWN_OPERATION, range, c->operation_text);
    parse_hint_nearest(p, range, c->operation_text, words);
    return TL_OPERATION_UNKNOWN;
}

static tl_operand parse_operand(parser *p) {
    tl_operand operand = {0};
    uint32_t begin = parse_peek(p).begin;
    operand.value = parse_expr(p);
    if (!p->failed && parse_at(p, '.')) {
        lex_token dot = parse_peek(p);
        if (operand.value->kind != TL_NAME) {
            parse_fail_id(p, DIAG_TRANSPOSED_EXPRESSION, ((diag_range){dot.begin, dot.end}),
                          STR(""));
        }
        parse_advance(p);
        parse_expect_word(p, "T");
        operand.is_transposed = true;
    }
    operand.range = parse_range(p, begin);
    return operand;
}

static void parse_operands(parser *p, tl_compute *c) {
    LIST(tl_operand) list = {0};
    do {
        if (list.count == TL_OPERANDS_MAX) parse_fail_too_many(p, TL_OPERANDS_MAX);
        tl_operand operand = parse_operand(p);
        if (!p->failed) list_push(p->memory, &list, operand);
    } while (!p->failed && parse_accept(p, ','));
    c->operands = list.items;
    c->operand_count = list.count;
}

static void parse_compute_clause(parser *p, tl_compute *c) {
    static const char *const words[] = {"in", "where", "with", "and", "by", "async", NULL};
    const moving_clauses clauses = {&c->place, &c->target_kind, &c->target, &c->atom, &c->is_async};
    if (parse_clause(p, "where", c->condition)) {
        c->condition = parse_condition(p);
    } else if (c->operation == TL_ROW_TOP_K && parse_clause(p, "with", c->values)) {
        c->values = parse_name_expr(p, "the name of the values");
    } else if (parse_clause(p, "with", c->maximum)) {
        c->maximum = parse_name_expr(p, "the name of the maximum");
        parse_expect_word(p, "and");
        c->sum = parse_name_expr(p, "the name of the sum");
    } else if (parse_moving_clause(p, &clauses)) {
        return;
    } else if (c->operand_count < tl_operation_operands(c->operation)) {
        parse_fail(p, "',' and another operand");
    } else {
        parse_fail_word(p, "a clause of Compute", words);
    }
}

static void check_operand_count(parser *p, tl_compute *c, diag_range range) {
    int fewest = tl_operation_operands(c->operation);
    int most = c->operation == TL_MASK ? fewest + 1 : fewest;
    if (c->operand_count >= fewest && c->operand_count <= most) return;
    str wanted = fewest == most ? str_format(p->memory, "%d operand%s", fewest, &"s"[fewest == 1])
                                : str_format(p->memory, "%d or %d operands", fewest, most);
    parse_fail_id(p, DIAG_OPERAND_COUNT, range, str_from(tl_operation_name(c->operation)), wanted,
                  str_format(p->memory, "%d", c->operand_count));
}

/* Mask and Softmax change their operand, and no target is written. */
static void settle_change(parser *p, tl_compute *c, diag_range range, bool first_is_tile) {
    str name = str_from(tl_operation_name(c->operation));
    if (!first_is_tile) {
        parse_fail_id(p, DIAG_OPERAND_NO_TILE, c->operands[0].range, name);
    } else if (c->target) {
        bool is_same =
            c->target_kind == TL_GET && str_equal(c->target->text, c->operands[0].value->text);
        if (!is_same) parse_fail_id(p, DIAG_TARGET_FIXED, range, name);
        c->target = NULL;
        c->target_kind = TL_NO_TARGET;
    }
}

/* Without a target, an elementwise operation stores into its first operand. */
static void settle_target(parser *p, tl_compute *c, diag_range range) {
    tl_shape_rule shape = tl_operation_shape(c->operation);
    const tl_operand *first = &c->operands[0];
    bool first_is_tile = first->value->kind == TL_NAME && !first->is_transposed;
    if (shape == TL_SHAPE_MASK || shape == TL_SHAPE_SOFTMAX) {
        settle_change(p, c, range, first_is_tile);
    } else if (!c->target && shape == TL_SHAPE_ELEMENTWISE && first_is_tile) {
        c->target_kind = TL_GET;
        c->target = parse_copied_name(p, first->value);
    } else if (!c->target) {
        parse_fail_id(p, DIAG_TARGET_MISSING, range, str_from(tl_operation_name(c->operation)));
    }
}

static void check_clauses(parser *p, const tl_compute *c, diag_range range) {
    if (c->condition && c->operation != TL_MASK) {
        parse_fail_id(p, DIAG_CLAUSE_FOREIGN, range, STR("'where'"), STR("Mask"));
    }
    if (c->maximum && c->operation != TL_SOFTMAX) {
        parse_fail_id(p, DIAG_CLAUSE_FOREIGN, range, STR("'with'"), STR("Softmax or RowTopK"));
    }
}

static void parse_compute(parser *p, tl_statement *s) {
    tl_compute *c = &s->compute;
    lex_token operation = parse_peek(p);
    c->operation = parse_operation(p, c);
    if (!p->failed) parse_operands(p, c);
    diag_range range = p->failed ? (diag_range){0} : parse_range(p, operation.begin);
    while (!p->failed && !parse_at_line_end(p)) parse_compute_clause(p, c);
    if (!p->failed) check_operand_count(p, c, range);
    if (!p->failed) check_clauses(p, c, range);
    if (!p->failed) settle_target(p, c, range);
    bool lacks_condition = !p->failed && c->operation == TL_MASK && !c->condition;
    if (lacks_condition) parse_fail(p, "'where' and a condition");
}

static void parse_reshape(parser *p, tl_statement *s) {
    s->reshape.what = parse_name_expr(p, "a tile's name");
    parse_expect_word(p, "from");
    if (!p->failed) parse_layout(p, &s->reshape.from);
    parse_expect_word(p, "to");
    if (!p->failed) parse_layout(p, &s->reshape.to);
}

static void parse_role_clause(parser *p, tl_role *role) {
    static const char *const words[] = {"turns", "registers", NULL};
    if (parse_at_word(p, "turns")) {
        parse_advance(p);
        if (role->turn_count == TL_AXES_MAX) {
            parse_fail_too_many(p, TL_AXES_MAX);
            return;
        }
        LIST(str) turns = {role->turns, role->turn_count, role->turn_count};
        diag_range range;
        str name = parse_new_name(p, "the name of a turn", &range);
        list_push(p->memory, &turns, name);
        role->turns = turns.items;
        role->turn_count = turns.count;
    } else if (parse_peek(p).kind == LEX_INTEGER) {
        if (!parse_clause_is_new(p, role->registers > 0, "'registers'")) return;
        role->registers = parse_integer(p, "a number of registers");
        parse_expect_word(p, "registers");
    } else {
        parse_fail_word(p, "a number of registers, or 'turns'", words);
    }
}

static void parse_role(parser *p, tl_statement *s) {
    static const char *const units[] = {"warp", "warps", "warpgroup", "warpgroups", NULL};
    tl_role *role = &s->role;
    role->name = parse_new_name(p, "the role's name", &s->name_range);
    parse_expect_word(p, "with");
    role->executors = parse_integer(p, "how many warps or warpgroups");
    int unit = 0;
    while (units[unit] && !parse_accept_word(p, units[unit])) unit++;
    if (!units[unit]) parse_fail_word(p, "'warps' or 'warpgroups'", units);
    role->is_warpgroups = unit >= 2;
    while (!p->failed && parse_accept(p, ',')) parse_role_clause(p, role);
}

static void parse_for(parser *p, tl_statement *s) {
    tl_for *loop = &s->loop;
    loop->name = parse_new_name(p, "the name of the loop's index", &s->name_range);
    if (parse_accept_word(p, "in")) {
        if (parse_accept_word(p, "grid")) {
            loop->is_grid_walk = true;
            return;
        }
    } else {
        parse_expect(p, '=');
    }
    loop->from = parse_expr(p);
    parse_expect(p, ':');
    loop->to = parse_expr(p);
}

void parse_action(parser *p, tl_statement *s) {
    parse_advance(p);
    switch (s->kind) {
    case TL_COPY: parse_copy(p, s); break;
    case TL_COMPUTE: parse_compute(p, s); break;
    case TL_RESHAPE: parse_reshape(p, s); break;
    case TL_WAIT:
    case TL_RELEASE: s->sync.what = parse_name_expr(p, "the name of a tile or a turn"); break;
    case TL_ROLE: parse_role(p, s); break;
    case TL_FOR: parse_for(p, s); break;
    case TL_IF: s->branch.condition = parse_condition(p); break;
    default: break; /* a hole is complete */
    }
}
