/* Walking, linking and copying the tree, and the names of its enumerators. */
#include "tl/tree.h"

#include <assert.h>
#include <string.h>

bool tl_is_parameter(const tl_statement *s) {
    return s->kind == TL_INPUT || s->kind == TL_OUTPUT;
}

tl_expr *tl_copy_into(const tl_statement *copy) {
    return copy->copy.target ? copy->copy.target : copy->copy.what;
}

tl_kernel *tl_kernel_at(const tl_program *program, int number) {
    tl_kernel *k = program ? program->first : NULL;
    for (; k && number > 0; number--) k = k->next;
    return k;
}

tl_block *tl_statement_body(tl_statement *s) {
    switch (s->kind) {
    case TL_ROLE: return &s->role.body;
    case TL_FOR: return &s->loop.body;
    case TL_IF: return &s->branch.body;
    default: return NULL;
    }
}

tl_statement *tl_next(tl_statement *s, const tl_statement *within) {
    tl_block *body = tl_statement_body(s);
    if (body && body->first) return body->first;
    while (s && s != within) {
        if (s->next) return s->next;
        s = s->parent;
    }
    return NULL;
}

static void visit_expr(tl_expr *e, tl_visit_expr *visit, void *context) {
    if (!e) return;
    visit(context, e);
    visit_expr(e->left, visit, context);
    visit_expr(e->right, visit, context);
    for (int i = 0; i < e->item_count; i++) visit_expr(e->items[i], visit, context);
}

/* Goes through the places of a header where expressions stand. */
typedef struct places {
    void (*each)(void *context, tl_expr **place);
    void *context;
    arena *copies; /* lists on the way become copies in there; NULL: they stay */
} places;

static void *list_of(const places *p, void *items, int count, size_t size) {
    if (!p->copies) return items;
    if (count == 0) return NULL;
    return memcpy(arena_alloc_array(p->copies, (size_t)count, size, 16), items,
                  (size_t)count * size);
}

static void go_through_axes(const places *p, tl_axes *axes) {
    axes->items = list_of(p, axes->items, axes->count, sizeof *axes->items);
    for (int i = 0; i < axes->count; i++) {
        tl_axis *axis = &axes->items[i];
        if (!axis->is_bare) p->each(p->context, &axis->coordinate);
        p->each(p->context, &axis->extent);
        if (axis->is_bare) axis->coordinate = axis->extent;
    }
}

static void go_through_place(const places *p, tl_place *place) {
    place->items = list_of(p, place->items, place->count, sizeof *place->items);
    for (int i = 0; i < place->count; i++) p->each(p->context, &place->items[i].at);
}

static void go_through_shape(const places *p, tl_exprs *shape) {
    shape->items = list_of(p, shape->items, shape->count, sizeof(tl_expr *));
    for (int i = 0; i < shape->count; i++) p->each(p->context, &shape->items[i]);
}

static void go_through_compute(const places *p, tl_compute *c) {
    c->operands = list_of(p, c->operands, c->operand_count, sizeof *c->operands);
    for (int i = 0; i < c->operand_count; i++) p->each(p->context, &c->operands[i].value);
    go_through_place(p, &c->place);
    p->each(p->context, &c->condition);
    p->each(p->context, &c->maximum);
    p->each(p->context, &c->sum);
    p->each(p->context, &c->values);
    p->each(p->context, &c->target);
}

static void go_through_allocation(const places *p, tl_allocation *a) {
    a->names = list_of(p, a->names, a->name_count, sizeof *a->names);
    a->name_ranges = list_of(p, a->name_ranges, a->name_count, sizeof *a->name_ranges);
    go_through_shape(p, &a->shape);
    p->each(p->context, &a->layout.of);
    p->each(p->context, &a->stages);
    p->each(p->context, &a->offset);
}

static void go_through_header(const places *p, tl_statement *s) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT:
        go_through_axes(p, &s->parameter.axes);
        p->each(p->context, &s->parameter.condition);
        break;
    case TL_LET:
        s->let.items = list_of(p, s->let.items, s->let.count, sizeof *s->let.items);
        for (int i = 0; i < s->let.count; i++) {
            go_through_axes(p, &s->let.items[i].axes);
            p->each(p->context, &s->let.items[i].value);
        }
        break;
    case TL_GRID:
        s->grid.items = list_of(p, s->grid.items, s->grid.count, sizeof *s->grid.items);
        for (int i = 0; i < s->grid.count; i++) {
            p->each(p->context, &s->grid.items[i].extent);
            p->each(p->context, &s->grid.items[i].section);
        }
        break;
    case TL_ALLOCATE: go_through_allocation(p, &s->allocate); break;
    case TL_COPY:
        p->each(p->context, &s->copy.what);
        go_through_shape(p, &s->copy.shape);
        go_through_place(p, &s->copy.place);
        p->each(p->context, &s->copy.target);
        break;
    case TL_COMPUTE: go_through_compute(p, &s->compute); break;
    case TL_RESHAPE:
        p->each(p->context, &s->reshape.what);
        p->each(p->context, &s->reshape.from.of);
        p->each(p->context, &s->reshape.to.of);
        break;
    case TL_WAIT:
    case TL_RELEASE: p->each(p->context, &s->sync.what); break;
    case TL_ROLE:
        s->role.turns = list_of(p, s->role.turns, s->role.turn_count, sizeof *s->role.turns);
        break;
    case TL_FOR:
        p->each(p->context, &s->loop.from);
        p->each(p->context, &s->loop.to);
        break;
    case TL_IF: p->each(p->context, &s->branch.condition); break;
    case TL_HOLE: break;
    }
}

typedef struct visiting {
    tl_visit_expr *visit;
    void *context;
} visiting;

static void visit_place(void *context, tl_expr **place) {
    const visiting *v = context;
    visit_expr(*place, v->visit, v->context);
}

void tl_each_expr(tl_statement *s, tl_visit_expr *visit, void *context) {
    visiting v = {visit, context};
    go_through_header(&(places){.each = visit_place, .context = &v}, s);
}

void tl_block_append(tl_block *block, tl_statement *parent, tl_statement *s) {
    s->parent = parent;
    s->previous = block->last;
    s->next = NULL;
    if (block->last) block->last->next = s;
    else block->first = s;
    block->last = s;
}

void tl_insert_before(tl_block *block, tl_statement *at, tl_statement *s) {
    s->parent = at->parent;
    s->next = at;
    s->previous = at->previous;
    if (at->previous) at->previous->next = s;
    else block->first = s;
    at->previous = s;
}

void tl_insert_after(tl_block *block, tl_statement *at, tl_statement *s) {
    s->parent = at->parent;
    s->previous = at;
    s->next = at->next;
    if (at->next) at->next->previous = s;
    else block->last = s;
    at->next = s;
}

void tl_remove(tl_block *block, tl_statement *s) {
    if (s->previous) s->previous->next = s->next;
    else block->first = s->next;
    if (s->next) s->next->previous = s->previous;
    else block->last = s->previous;
    s->next = s->previous = s->parent = NULL;
}

/* --- copies ----------------------------------------------------------------------------------- */

tl_expr *tl_new_integer(arena *memory, int64_t value) {
    tl_expr *e = arena_new(memory, tl_expr);
    *e = (tl_expr){.kind = TL_INTEGER, .integer = value};
    return e;
}

tl_expr *tl_new_binary(arena *memory, tl_operator operator, const tl_expr * left,
                       const tl_expr *right) {
    tl_expr *e = arena_new(memory, tl_expr);
    *e = (tl_expr){.kind = TL_BINARY, .operator= operator, .division = TL_DIVIDE_UP };
    e->left = (tl_expr *)(uintptr_t)left, e->right = (tl_expr *)(uintptr_t)right;
    return e;
}

tl_expr *tl_expr_copy(arena *memory, const tl_expr *e) {
    if (!e) return NULL;
    tl_expr *copy = arena_new(memory, tl_expr);
    *copy = *e;
    copy->symbol = NULL;
    copy->space = TL_NOWHERE;
    copy->division = TL_DIVIDE_UNKNOWN;
    copy->left = tl_expr_copy(memory, e->left);
    copy->right = tl_expr_copy(memory, e->right);
    copy->items = e->item_count ? arena_array(memory, tl_expr *, e->item_count) : NULL;
    for (int i = 0; i < e->item_count; i++) copy->items[i] = tl_expr_copy(memory, e->items[i]);
    return copy;
}

static void copy_place(void *memory, tl_expr **place) {
    *place = tl_expr_copy(memory, *place);
}

static void copy_block(arena *memory, tl_block *body, tl_statement *parent) {
    tl_block from = *body;
    *body = (tl_block){0};
    for (tl_statement *s = from.first; s; s = s->next) {
        tl_block_append(body, parent, tl_statement_copy(memory, s));
    }
}

/* What tl_bind filled in beside expressions. */
static void unbind(tl_statement *s) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: s->parameter.symbol = NULL; break;
    case TL_LET:
        for (int i = 0; i < s->let.count; i++) s->let.items[i].symbol = NULL;
        break;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++) s->grid.items[i].symbol = NULL;
        break;
    case TL_ALLOCATE: s->allocate.symbols = NULL; break;
    case TL_ROLE: s->role.symbol = NULL, s->role.turn_symbols = NULL; break;
    case TL_FOR: s->loop.symbol = NULL; break;
    default: break;
    }
}

tl_statement *tl_statement_copy(arena *memory, const tl_statement *s) {
    tl_statement *copy = arena_new(memory, tl_statement);
    *copy = *s;
    copy->next = copy->previous = copy->parent = NULL;
    go_through_header(&(places){.each = copy_place, .context = memory, .copies = memory}, copy);
    unbind(copy);
    tl_block *body = tl_statement_body(copy);
    if (body) copy_block(memory, body, copy);
    return copy;
}

tl_program *tl_program_copy(arena *memory, const tl_program *p) {
    tl_program *copy = arena_new(memory, tl_program);
    *copy = *p;
    copy->memory = memory;
    tl_kernel **end = &copy->first;
    for (const tl_kernel *k = p->first; k; k = k->next) {
        tl_kernel *kernel = arena_new(memory, tl_kernel);
        *kernel = *k;
        kernel->symbols = NULL;
        kernel->symbol_count = 0;
        kernel->next = NULL;
        copy_block(memory, &kernel->body, NULL);
        *end = kernel;
        end = &kernel->next;
    }
    return copy;
}

bool tl_visit(const tl_expr *e, tl_visitor *visit, void *context) {
    if (!e) return true;
    if (!visit(context, e) || !tl_visit(e->left, visit, context) ||
        !tl_visit(e->right, visit, context))
        return false;
    for (int i = 0; i < e->item_count; i++) {
        if (!tl_visit(e->items[i], visit, context)) return false;
    }
    return true;
}

static bool is_of_another(void *context, const tl_expr *e) {
    return e->symbol != context;
}

bool tl_expr_mentions(const tl_expr *e, const tl_symbol *symbol) {
    return !tl_visit(e, is_of_another, (void *)(uintptr_t)symbol);
}

bool tl_is_inside(const tl_statement *s, const tl_statement *outer) {
    while (s && s != outer) s = s->parent;
    return s != NULL;
}

static bool is_called_otherwise(void *context, const tl_expr *e) {
    return (e->kind != TL_NAME && e->kind != TL_ELEMENT) ||
           !str_equal(e->text, *(const str *)context);
}

bool tl_expr_names(const tl_expr *e, str name) {
    return !tl_visit(e, is_called_otherwise, &name);
}

bool tl_expr_equal(const tl_expr *a, const tl_expr *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind || a->item_count != b->item_count) return false;
    switch (a->kind) {
    case TL_INTEGER: return a->integer == b->integer;
    case TL_NUMBER: return !(a->number < b->number) && !(a->number > b->number);
    case TL_NAME: return str_equal(a->text, b->text);
    case TL_ELEMENT:
        if (!str_equal(a->text, b->text)) return false;
        break;
    case TL_CALL:
        if (a->function != b->function) return false;
        break;
    case TL_NEGATE:
    case TL_NOT: return tl_expr_equal(a->left, b->left);
    case TL_BINARY:
        return a->operator== b->operator&& tl_expr_equal(a->left, b->left) &&
               tl_expr_equal(a->right, b->right);
    }
    for (int i = 0; i < a->item_count; i++) {
        if (!tl_expr_equal(a->items[i], b->items[i])) return false;
    }
    return true;
}

/* --- names of enumerators --------------------------------------------------------------------- */

const char *tl_statement_word(tl_statement_kind kind) {
    static const char *const words[] = {
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
    };
    return words[kind];
}

typedef struct type_row {
    const char *name;
    int bits;
    bool is_real;
} type_row;

static const type_row types[] = {
    {"", 0, false},
#define SIGNED false
#define UNSIGNED false
#define REAL true
#define TYPE(id, spelling, number, bits, kind, doc) {spelling, bits, kind},
#include "base/types.def"
#undef TYPE
#undef REAL
#undef UNSIGNED
#undef SIGNED
};

const char *tl_type_name(tl_type type) {
    return types[type].name;
}

int tl_type_bits(tl_type type) {
    return types[type].bits;
}

int tl_type_bytes(tl_type type) {
    assert(types[type].bits % 8 == 0);
    return (types[type].bits + 7) / 8;
}

bool tl_is_narrow(tl_type type) {
    return type != TL_OPEN && types[type].bits <= 8;
}

bool tl_is_packed(tl_type type) {
    return type != TL_OPEN && types[type].bits < 8;
}

bool tl_is_narrow_whole(tl_type type) {
    return tl_is_narrow(type) && !types[type].is_real;
}

const char *tl_space_name(tl_space space) {
    static const char *const names[] = {"", "global", "shared", "register"};
    return names[space];
}

tl_space tl_cut_place(str *name) {
    for (tl_space space = TL_GLOBAL; space <= TL_REGISTER; space++) {
        str place = str_from(tl_space_name(space));
        if (name->length < place.length + 2 || !str_ends(*name, place)) continue;
        if (name->data[name->length - place.length - 1] != '_') continue;
        name->length -= place.length + 1;
        return space;
    }
    return TL_NOWHERE;
}

const char *tl_operation_name(tl_operation operation) {
    return tl_facts(operation)->name;
}

tl_operation tl_operation_named(str name) {
    for (int i = 0; i < TL_OPERATION_UNKNOWN; i++)
        if (str_is(name, tl_operation_name((tl_operation)i))) return (tl_operation)i;
    return TL_OPERATION_UNKNOWN;
}

int tl_operation_operands(tl_operation operation) {
    return tl_facts(operation)->operands;
}

tl_operator tl_opposite(tl_operator comparison) {
    switch (comparison) {
    case TL_LESS: return TL_GREATER_EQUAL;
    case TL_LESS_EQUAL: return TL_GREATER;
    case TL_GREATER: return TL_LESS_EQUAL;
    case TL_GREATER_EQUAL: return TL_LESS;
    case TL_EQUAL: return TL_NOT_EQUAL;
    default: return TL_EQUAL;
    }
}

tl_operator tl_turned(tl_operator operator) {
    switch (operator) {
    case TL_LESS: return TL_GREATER;
    case TL_LESS_EQUAL: return TL_GREATER_EQUAL;
    case TL_GREATER: return TL_LESS;
    case TL_GREATER_EQUAL: return TL_LESS_EQUAL;
    default: return operator;
    }
}

tl_shape_rule tl_operation_shape(tl_operation operation) {
    return tl_facts(operation)->shape;
}

typedef struct function_row {
    const char *name;
    int fewest, most;
    tl_operation operation;
} function_row;

static const function_row functions[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc)                                       \
    {spelling, fewest, most, TL_##operation},
#include "tl/functions.def"
#undef FUNCTION
    {"", 0, 0, TL_OPERATION_UNKNOWN},
};

const char *tl_function_name(tl_function function) {
    return functions[function].name;
}

int tl_function_fewest(tl_function function) {
    return functions[function].fewest;
}

int tl_function_most(tl_function function) {
    return functions[function].most;
}

tl_operation tl_function_operation(tl_function function) {
    return functions[function].operation;
}

bool tl_function_is_asked(tl_function function) {
    return function == TL_FUNCTION_ANY || function == TL_FUNCTION_FIRST ||
           function == TL_FUNCTION_MORE || function == TL_FUNCTION_NEXT;
}

const char *tl_operator_text(tl_operator operator) {
    static const char *const texts[] = {
#define OPERATOR(id, spelling, level) spelling,
#include "tl/operators.def"
#undef OPERATOR
    };
    return texts[operator];
}

tl_level tl_operator_level(tl_operator operator) {
    static const tl_level levels[] = {
#define OPERATOR(id, spelling, level) TL_LEVEL_##level,
#include "tl/operators.def"
#undef OPERATOR
    };
    return levels[operator];
}

bool tl_is_vector_layout(const tl_layout *layout) {
    return layout->kind == TL_ROWS || layout->kind == TL_COLUMNS;
}

const char *tl_layout_kind_name(tl_layout_kind kind) {
    static const char *const names[] = {"", "mma_A", "mma_B", "mma_C", "lines", "rows", "columns"};
    return names[kind];
}
