/* Walking, linking and copying the tree. */
#include "tl/tree.h"

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

tl_block *tl_block_of(tl_kernel *kernel, const tl_statement *s) {
    return s->parent ? tl_statement_body(s->parent) : &kernel->body;
}

bool tl_accumulates(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE;
}

bool tl_is_by_tma(const tl_copy *copy) {
    return str_is(copy->atom, "tma");
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

bool tl_place_equal(const tl_place *a, const tl_place *b) {
    bool is_same = a->count == b->count;
    for (int i = 0; i < a->count && is_same; i++) {
        const tl_spot *one = &a->items[i], *other = &b->items[i];
        is_same = one->is_all == other->is_all && one->is_block == other->is_block &&
                  (one->is_all || tl_expr_equal(one->at, other->at));
    }
    return is_same;
}
