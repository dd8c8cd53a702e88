/* Expressions and conditions, by recursive descent: one function per level of precedence. */
#include "tl/parse.h"

static tl_expr *new_expr(parser *p, tl_expr_kind kind, uint32_t begin) {
    if (++p->node_count > PARSE_EXPRESSION_NODES_MAX && !p->failed) {
        parse_fail_id(p, DIAG_EXPRESSION_TOO_LONG, parse_range(p, begin), STR(""));
    }
    tl_expr *e = arena_new(p->memory, tl_expr);
    e->kind = kind;
    e->range = parse_range(p, begin);
    return e;
}

/* Enters a level of nesting; false, with an error, when there are too many. */
static bool enter(parser *p) {
    if (p->depth >= TL_NESTING_MAX) {
        lex_token t = parse_peek(p);
        parse_fail_id(p, DIAG_EXPRESSION_TOO_DEEP, ((diag_range){t.begin, t.end}),
                      str_format(p->memory, "%d", TL_NESTING_MAX));
        return false;
    }
    p->depth++;
    return true;
}

static tl_expr *binary(parser *p, tl_operator operator, tl_expr * left, tl_expr *right,
                       uint32_t begin) {
    tl_expr *e = new_expr(p, TL_BINARY, begin);
    e->operator= operator;
    e->left = left;
    e->right = right;
    return e;
}

static void check_function(parser *p, str name, const tl_expr *call, diag_range name_range) {
    static const char *const spellings[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc) spelling,
#include "tl/functions.def"
#undef FUNCTION
        NULL};
    if (p->failed) return;
    if (call->function == TL_FUNCTION_UNKNOWN) {
        parse_fail_id(p, DIAG_UNKNOWN_FUNCTION, name_range, name);
        parse_hint_nearest(p, name_range, name, spellings);
        return;
    }
    int fewest = tl_function_fewest(call->function), most = tl_function_most(call->function);
    if (call->item_count >= fewest && call->item_count <= most) return;
    str wanted = fewest == most ? str_format(p->memory, "%d argument%s", fewest, &"s"[fewest == 1])
                                : str_format(p->memory, "%d to %d arguments", fewest, most);
    parse_fail_id(p, DIAG_ARGUMENT_COUNT, call->range, name, wanted,
                  str_format(p->memory, "%d", call->item_count));
}

void parse_list(parser *p, int close, bool conditions, int most, tl_exprs *out) {
    LIST(tl_expr *) list = {0};
    do {
        if (list.count == most) parse_fail_too_many(p, most);
        tl_expr *item = conditions ? parse_condition(p) : parse_expr(p);
        if (!p->failed) list_push(p->memory, &list, item);
    } while (!p->failed && parse_accept(p, ','));
    parse_expect(p, close);
    out->items = list.items;
    out->count = list.count;
}

/* NAME, NAME[...] or function(...). */
static tl_expr *parse_named(parser *p) {
    lex_token start = parse_peek(p);
    str name = parse_name(p, "an expression");
    tl_exprs list = {0};
    tl_expr_kind kind = TL_NAME;
    if (parse_accept(p, '[')) {
        kind = TL_ELEMENT;
        parse_list(p, ']', false, TL_AXES_MAX, &list);
    } else if (parse_accept(p, '(')) {
        kind = TL_CALL;
        parse_list(p, ')', true, PARSE_NAMES_MAX, &list);
    }
    tl_expr *e = new_expr(p, kind, start.begin);
    e->items = list.items;
    e->item_count = list.count;
    if (kind != TL_CALL) {
        e->text = name;
    } else {
        while (e->function < TL_FUNCTION_UNKNOWN &&
               !lex_same_word(name, tl_function_name(e->function)))
            e->function++;
        check_function(p, name, e, (diag_range){start.begin, start.end});
    }
    return e;
}

static tl_expr *parse_number(parser *p) {
    lex_token start = parse_peek(p);
    str text = parse_text(p, start);
    parse_advance(p);
    bool is_integer = start.kind == LEX_INTEGER;
    tl_expr *e = new_expr(p, is_integer ? TL_INTEGER : TL_NUMBER, start.begin);
    bool fits = is_integer ? str_to_integer(text, &e->integer) : str_to_number(text, &e->number);
    if (!is_integer) e->text = text;
    if (!fits) {
        parse_fail_id(p, DIAG_NUMBER_TOO_LARGE, ((diag_range){start.begin, start.end}), text);
    }
    return e;
}

static tl_expr *parse_unary(parser *p) {
    lex_token start = parse_peek(p);
    if (p->failed || !enter(p)) return new_expr(p, TL_INTEGER, start.begin);
    tl_expr *e;
    if (parse_accept(p, '-')) {
        tl_expr *operand = parse_unary(p);
        e = new_expr(p, TL_NEGATE, start.begin);
        e->left = operand;
    } else if (parse_accept(p, '(')) {
        e = parse_condition(p);
        parse_expect(p, ')');
    } else if (start.kind == LEX_INTEGER || start.kind == LEX_NUMBER) {
        e = parse_number(p);
    } else {
        e = parse_named(p);
    }
    p->depth--;
    return e;
}

static bool accept_operator(parser *p, tl_level level, tl_operator *found) {
    str text = parse_text(p, parse_peek(p));
    /* `where kv > q and get S`: that `and` belongs to the target. */
    if (p->failed || (level == TL_LEVEL_AND && parse_at_target(p))) return false;
    for (*found = 0; *found < TL_OPERATORS; ++*found) {
        if (tl_operator_level(*found) != level || !lex_same_word(text, tl_operator_text(*found)))
            continue;
        parse_advance(p);
        return true;
    }
    return false;
}

static tl_expr *parse_test(parser *p);

/* Operands with operators of one level between them. */
static tl_expr *parse_chain(parser *p, tl_level level) {
    uint32_t begin = parse_peek(p).begin;
    tl_expr *e = NULL;
    tl_operator operator= TL_OPERATORS;
    do {
        tl_expr *operand = level == TL_LEVEL_AND       ? parse_test(p)
                           : level == TL_LEVEL_PRODUCT ? parse_unary(p)
                                                       : parse_chain(p, level + 1);
        e = e ? binary(p, operator, e, operand, begin) : operand;
    } while (accept_operator(p, level, &operator));
    return e;
}

tl_expr *parse_expr(parser *p) {
    return parse_chain(p, TL_LEVEL_SUM);
}

static tl_expr *parse_test(parser *p) {
    uint32_t begin = parse_peek(p).begin;
    if (parse_accept_word(p, "not")) {
        if (!enter(p)) return new_expr(p, TL_INTEGER, begin);
        tl_expr *operand = parse_test(p);
        p->depth--;
        tl_expr *e = new_expr(p, TL_NOT, begin);
        e->left = operand;
        return e;
    }
    tl_expr *e = parse_expr(p);
    tl_operator operator;
    if (accept_operator(p, TL_LEVEL_COMPARISON, &operator)) {
        tl_expr *right = parse_expr(p);
        e = binary(p, operator, e, right, begin);
    } else if (parse_at(p, '=')) {
        lex_token sign = parse_peek(p);
        parse_fail(p, "a comparison");
        diag *hint =
            diag_report(p->diags, DIAG_DID_YOU_MEAN, parse_token_range(p, sign), STR("=="));
        diag_replace(hint, STR("=="));
    }
    return e;
}

tl_expr *parse_condition(parser *p) {
    return parse_chain(p, TL_LEVEL_OR);
}

tl_expr *parse_name_expr(parser *p, const char *what) {
    lex_token start = parse_peek(p);
    str name = parse_name(p, what);
    tl_expr *e = new_expr(p, TL_NAME, start.begin);
    e->text = name;
    return e;
}

tl_expr *parse_copied_name(parser *p, const tl_expr *name) {
    tl_expr *e = new_expr(p, TL_NAME, name->range.begin);
    e->text = name->text;
    e->range = name->range;
    return e;
}
