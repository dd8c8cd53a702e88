/* Expressions over sizes and scalars as the postfix programs of a plan. */
#include "translate/emit.h"

enum { FORMULA_STEPS_MAX = 256 };

typedef struct formula {
    arena *memory;
    const ftl_plan *plan;
    LIST(ftl_formula_step) steps;
    bool failed;
} formula;

static void push(formula *f, ftl_formula_step step) {
    if (f->steps.count >= FORMULA_STEPS_MAX) {
        f->failed = true;
        return;
    }
    list_push(f->memory, &f->steps, step);
}

static void push_op(formula *f, ftl_formula_op op) {
    push(f, (ftl_formula_step){.op = op});
}

static void push_number(formula *f, double number) {
    push(f, (ftl_formula_step){.op = FTL_PUSH_NUMBER, .number = number});
}

static void push_integer(formula *f, int64_t integer) {
    push(f, (ftl_formula_step){.op = FTL_PUSH_INTEGER, .integer = integer});
}

int emit_size_index(const ftl_plan *plan, str name) {
    for (int i = 0; i < plan->size_count; i++) {
        if (str_is(name, plan->sizes[i].name)) return i;
    }
    return -1;
}

static int scalar_index(const ftl_plan *plan, str name) {
    for (int i = 0; i < plan->scalar_count; i++) {
        if (str_is(name, plan->scalars[i].name)) return i;
    }
    return -1;
}

static void build(formula *f, const tl_expr *e, bool up, bool down);

static void build_name(formula *f, const tl_expr *e) {
    const tl_symbol *s = e->symbol;
    if (s && s->kind == TL_SYMBOL_CONSTANT) {
        if (s->is_known && s->is_integer) push_integer(f, s->integer);
        else if (s->is_known) push_number(f, s->number);
        else build(f, s->value, false, false);
        return;
    }
    int size = s && s->kind == TL_SYMBOL_SIZE ? emit_size_index(f->plan, s->name) : -1;
    int scalar = s && s->kind == TL_SYMBOL_SCALAR ? scalar_index(f->plan, s->name) : -1;
    if (size >= 0) push(f, (ftl_formula_step){.op = FTL_PUSH_SIZE, .index = size});
    else if (scalar >= 0) push(f, (ftl_formula_step){.op = FTL_PUSH_SCALAR, .index = scalar});
    else f->failed = true;
}

static void build_call(formula *f, const tl_expr *e) {
    switch (e->function) {
    case TL_FUNCTION_CEIL: build(f, e->items[0], true, false); return;
    case TL_FUNCTION_FLOOR: build(f, e->items[0], false, true); return;
    case TL_FUNCTION_ABS:
        build(f, e->items[0], false, false);
        push_op(f, FTL_ABS);
        return;
    case TL_FUNCTION_MIN:
    case TL_FUNCTION_MAX:
        build(f, e->items[0], false, false);
        for (int i = 1; i < e->item_count; i++) {
            build(f, e->items[i], false, false);
            push_op(f, e->function == TL_FUNCTION_MIN ? FTL_MIN : FTL_MAX);
        }
        return;
    default: f->failed = true;
    }
}

static ftl_formula_op binary_op(const tl_expr *e, bool up, bool down) {
    static const ftl_formula_op ops[] = {
        [TL_PLUS] = FTL_ADD,        [TL_MINUS] = FTL_SUBTRACT,
        [TL_TIMES] = FTL_MULTIPLY,  [TL_MODULO] = FTL_MODULO,
        [TL_LESS] = FTL_LESS,       [TL_LESS_EQUAL] = FTL_LESS_EQUAL,
        [TL_GREATER] = FTL_GREATER, [TL_GREATER_EQUAL] = FTL_GREATER_EQUAL,
        [TL_EQUAL] = FTL_EQUAL,     [TL_NOT_EQUAL] = FTL_NOT_EQUAL,
        [TL_AND] = FTL_AND,         [TL_OR] = FTL_OR};
    if (e->operator!= TL_OVER) return ops[e->operator];
    if (up) return FTL_DIVIDE_UP;
    if (down) return FTL_DIVIDE_DOWN;
    return e->division == TL_DIVIDE_REAL ? FTL_DIVIDE_REAL
           : e->division == TL_DIVIDE_UP ? FTL_DIVIDE_UP
                                         : FTL_DIVIDE_DOWN;
}

/* up, down: the expression is in ceil or floor, which decides the quotients at its top. */
static void build(formula *f, const tl_expr *e, bool up, bool down) {
    if (f->failed) return;
    switch (e->kind) {
    case TL_INTEGER: push_integer(f, e->integer); return;
    case TL_NUMBER: push_number(f, e->number); return;
    case TL_NAME: build_name(f, e); return;
    case TL_CALL: build_call(f, e); return;
    case TL_NEGATE:
    case TL_NOT:
        build(f, e->left, false, false);
        push_op(f, e->kind == TL_NOT ? FTL_NOT : FTL_NEGATE);
        return;
    case TL_BINARY: {
        bool over = e->operator== TL_OVER;
        build(f, e->left, over && up, over && down);
        build(f, e->right, false, false);
        push_op(f, binary_op(e, up, down));
        return;
    }
    case TL_ELEMENT: f->failed = true; return;
    }
}

bool translate_formula(const tl_expr *e, const ftl_plan *plan, arena *memory, ftl_formula *out) {
    formula f = {.memory = memory, .plan = plan};
    build(&f, e, false, false);
    *out = (ftl_formula){.text = str_copy_z(memory, tl_expr_text(memory, e)),
                         .steps = f.steps.items,
                         .step_count = f.steps.count};
    return !f.failed;
}

bool emit_formula(emit *t, const tl_expr *e, ftl_formula *out) {
    return translate_formula(e, t->plan, t->memory, out);
}
