/* Walking, linking and copying the tree, and the names of its enumerators. */
#include "tl/tree.h"

#include <string.h>

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

static void visit_axes(tl_axes *axes, tl_visit_expr *visit, void *context) {
    for (int i = 0; i < axes->count; i++) {
        if (!axes->items[i].is_bare) visit_expr(axes->items[i].coordinate, visit, context);
        visit_expr(axes->items[i].extent, visit, context);
    }
}

static void visit_place(tl_place *place, tl_visit_expr *visit, void *context) {
    for (int i = 0; i < place->count; i++) visit_expr(place->items[i].at, visit, context);
}

static void visit_shape(tl_exprs *shape, tl_visit_expr *visit, void *context) {
    for (int i = 0; i < shape->count; i++) visit_expr(shape->items[i], visit, context);
}

static void visit_compute(tl_compute *c, tl_visit_expr *visit, void *context) {
    for (int i = 0; i < c->operand_count; i++) visit_expr(c->operands[i].value, visit, context);
    visit_place(&c->place, visit, context);
    visit_expr(c->condition, visit, context);
    visit_expr(c->maximum, visit, context);
    visit_expr(c->sum, visit, context);
    visit_expr(c->values, visit, context);
    visit_expr(c->target, visit, context);
}

static void visit_declaration(tl_statement *s, tl_visit_expr *visit, void *context) {
    switch (s->kind) {
    case TL_LET:
        for (int i = 0; i < s->let.count; i++) {
            visit_axes(&s->let.items[i].axes, visit, context);
            visit_expr(s->let.items[i].value, visit, context);
        }
        break;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++) {
            visit_expr(s->grid.items[i].extent, visit, context);
            visit_expr(s->grid.items[i].section, visit, context);
        }
        break;
    case TL_ALLOCATE:
        visit_shape(&s->allocate.shape, visit, context);
        visit_expr(s->allocate.layout.of, visit, context);
        visit_expr(s->allocate.stages, visit, context);
        visit_expr(s->allocate.offset, visit, context);
        break;
    default:
        visit_axes(&s->parameter.axes, visit, context);
        visit_expr(s->parameter.condition, visit, context);
        break;
    }
}

void tl_each_expr(tl_statement *s, tl_visit_expr *visit, void *context) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT:
    case TL_LET:
    case TL_GRID:
    case TL_ALLOCATE: visit_declaration(s, visit, context); break;
    case TL_COPY:
        visit_expr(s->copy.what, visit, context);
        visit_shape(&s->copy.shape, visit, context);
        visit_place(&s->copy.place, visit, context);
        visit_expr(s->copy.target, visit, context);
        break;
    case TL_COMPUTE: visit_compute(&s->compute, visit, context); break;
    case TL_RESHAPE:
        visit_expr(s->reshape.what, visit, context);
        visit_expr(s->reshape.from.of, visit, context);
        visit_expr(s->reshape.to.of, visit, context);
        break;
    case TL_WAIT:
    case TL_RELEASE: visit_expr(s->sync.what, visit, context); break;
    case TL_FOR:
        visit_expr(s->loop.from, visit, context);
        visit_expr(s->loop.to, visit, context);
        break;
    case TL_IF: visit_expr(s->branch.condition, visit, context); break;
    case TL_ROLE:
    case TL_HOLE: break;
    }
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

static tl_expr **copy_items(arena *memory, tl_expr *const *items, int count) {
    if (count == 0) return NULL;
    tl_expr **copies = arena_array(memory, tl_expr *, count);
    for (int i = 0; i < count; i++) copies[i] = tl_expr_copy(memory, items[i]);
    return copies;
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
    copy->items = copy_items(memory, e->items, e->item_count);
    return copy;
}

static void *copy_array(arena *memory, const void *items, int count, size_t size) {
    if (count == 0) return NULL;
    void *copy = arena_alloc_array(memory, (size_t)count, size, 16);
    return memcpy(copy, items, (size_t)count * size);
}

static tl_exprs copy_exprs(arena *memory, tl_exprs list) {
    return (tl_exprs){copy_items(memory, list.items, list.count), list.count};
}

static tl_axes copy_axes(arena *memory, tl_axes axes) {
    axes.items = copy_array(memory, axes.items, axes.count, sizeof *axes.items);
    for (int i = 0; i < axes.count; i++) {
        tl_axis *axis = &axes.items[i];
        axis->extent = tl_expr_copy(memory, axis->extent);
        axis->coordinate = axis->is_bare ? axis->extent : tl_expr_copy(memory, axis->coordinate);
    }
    return axes;
}

static tl_place copy_place(arena *memory, tl_place place) {
    place.items = copy_array(memory, place.items, place.count, sizeof *place.items);
    for (int i = 0; i < place.count; i++) {
        place.items[i].at = tl_expr_copy(memory, place.items[i].at);
    }
    return place;
}

static tl_layout copy_layout(arena *memory, tl_layout layout) {
    layout.of = tl_expr_copy(memory, layout.of);
    return layout;
}

static void copy_block(arena *memory, tl_block *body, tl_statement *parent) {
    tl_block from = *body;
    *body = (tl_block){0};
    for (tl_statement *s = from.first; s; s = s->next) {
        tl_block_append(body, parent, tl_statement_copy(memory, s));
    }
}

static void copy_let(arena *memory, tl_statement *s) {
    s->let.items = copy_array(memory, s->let.items, s->let.count, sizeof *s->let.items);
    for (int i = 0; i < s->let.count; i++) {
        tl_binding *b = &s->let.items[i];
        b->axes = copy_axes(memory, b->axes);
        b->value = tl_expr_copy(memory, b->value);
        b->symbol = NULL;
    }
}

static void copy_grid(arena *memory, tl_statement *s) {
    s->grid.items = copy_array(memory, s->grid.items, s->grid.count, sizeof *s->grid.items);
    for (int i = 0; i < s->grid.count; i++) {
        s->grid.items[i].extent = tl_expr_copy(memory, s->grid.items[i].extent);
        s->grid.items[i].section = tl_expr_copy(memory, s->grid.items[i].section);
        s->grid.items[i].symbol = NULL;
    }
}

static void copy_allocation(arena *memory, tl_allocation *a) {
    a->names = copy_array(memory, a->names, a->name_count, sizeof *a->names);
    a->name_ranges = copy_array(memory, a->name_ranges, a->name_count, sizeof *a->name_ranges);
    a->shape = copy_exprs(memory, a->shape);
    a->layout = copy_layout(memory, a->layout);
    a->stages = tl_expr_copy(memory, a->stages);
    a->offset = tl_expr_copy(memory, a->offset);
    a->symbols = NULL;
}

static void copy_compute(arena *memory, tl_compute *c) {
    c->operands = copy_array(memory, c->operands, c->operand_count, sizeof *c->operands);
    for (int i = 0; i < c->operand_count; i++) {
        c->operands[i].value = tl_expr_copy(memory, c->operands[i].value);
    }
    c->place = copy_place(memory, c->place);
    c->condition = tl_expr_copy(memory, c->condition);
    c->maximum = tl_expr_copy(memory, c->maximum);
    c->sum = tl_expr_copy(memory, c->sum);
    c->values = tl_expr_copy(memory, c->values);
    c->target = tl_expr_copy(memory, c->target);
}

static void copy_role(arena *memory, tl_statement *s) {
    tl_role *role = &s->role;
    role->turns = copy_array(memory, role->turns, role->turn_count, sizeof *role->turns);
    role->symbol = NULL;
    role->turn_symbols = NULL;
    copy_block(memory, &role->body, s);
}

static void copy_parts(arena *memory, tl_statement *s) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT:
        s->parameter.axes = copy_axes(memory, s->parameter.axes);
        s->parameter.condition = tl_expr_copy(memory, s->parameter.condition);
        s->parameter.symbol = NULL;
        break;
    case TL_LET: copy_let(memory, s); break;
    case TL_GRID: copy_grid(memory, s); break;
    case TL_ALLOCATE: copy_allocation(memory, &s->allocate); break;
    case TL_COPY:
        s->copy.what = tl_expr_copy(memory, s->copy.what);
        s->copy.shape = copy_exprs(memory, s->copy.shape);
        s->copy.place = copy_place(memory, s->copy.place);
        s->copy.target = tl_expr_copy(memory, s->copy.target);
        break;
    case TL_COMPUTE: copy_compute(memory, &s->compute); break;
    case TL_RESHAPE:
        s->reshape.what = tl_expr_copy(memory, s->reshape.what);
        s->reshape.from = copy_layout(memory, s->reshape.from);
        s->reshape.to = copy_layout(memory, s->reshape.to);
        break;
    case TL_WAIT:
    case TL_RELEASE: s->sync.what = tl_expr_copy(memory, s->sync.what); break;
    case TL_ROLE: copy_role(memory, s); break;
    case TL_FOR:
        s->loop.from = tl_expr_copy(memory, s->loop.from);
        s->loop.to = tl_expr_copy(memory, s->loop.to);
        s->loop.symbol = NULL;
        copy_block(memory, &s->loop.body, s);
        break;
    case TL_IF:
        s->branch.condition = tl_expr_copy(memory, s->branch.condition);
        copy_block(memory, &s->branch.body, s);
        break;
    case TL_HOLE: break;
    }
}

tl_statement *tl_statement_copy(arena *memory, const tl_statement *s) {
    tl_statement *copy = arena_new(memory, tl_statement);
    *copy = *s;
    copy->next = copy->previous = copy->parent = NULL;
    copy_parts(memory, copy);
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
    int bytes;
} type_row;

static const type_row types[] = {
    {"", 0},
#define TYPE(id, spelling, bytes, doc) {spelling, bytes},
#include "tl/types.def"
#undef TYPE
};

const char *tl_type_name(tl_type type) {
    return types[type].name;
}

int tl_type_bytes(tl_type type) {
    return types[type].bytes;
}

const char *tl_space_name(tl_space space) {
    static const char *const names[] = {"", "global", "shared", "register"};
    return names[space];
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

tl_shape_rule tl_operation_shape(tl_operation operation) {
    return tl_facts(operation)->shape;
}

const char *tl_function_name(tl_function function) {
    static const char *const names[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc) spelling,
#include "tl/functions.def"
#undef FUNCTION
        ""};
    return names[function];
}

tl_operation tl_function_operation(tl_function function) {
    static const tl_operation operations[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc) TL_##operation,
#include "tl/functions.def"
#undef FUNCTION
        TL_OPERATION_UNKNOWN};
    return operations[function];
}

bool tl_function_is_asked(tl_function function) {
    return function == TL_FUNCTION_ANY || function == TL_FUNCTION_FIRST ||
           function == TL_FUNCTION_MORE || function == TL_FUNCTION_NEXT;
}

const char *tl_operator_text(tl_operator operator) {
    static const char *const texts[] = {
        "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"};
    return texts[operator];
}

bool tl_is_vector_layout(const tl_layout *layout) {
    return layout->kind == TL_ROWS || layout->kind == TL_COLUMNS;
}

const char *tl_layout_kind_name(tl_layout_kind kind) {
    static const char *const names[] = {"", "mma_A", "mma_B", "mma_C", "lines", "rows", "columns"};
    return names[kind];
}
