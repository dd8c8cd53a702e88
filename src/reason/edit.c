#include "reason/edit.h"

#include <string.h>

/* --- places ----------------------------------------------------------------------------------- */

static void adopt(tl_statement *s, tl_statement *parent) {
    s->parent = parent;
    tl_block *body = tl_statement_body(s);
    for (tl_statement *t = body ? body->first : NULL; t; t = t->next) t->parent = s;
}

void edit_before(tl_kernel *kernel, tl_statement *at, tl_block quoted) {
    tl_block *block = tl_block_of(kernel, at);
    if (quoted.first && at->blank_before) {
        quoted.first->blank_before = true;
        at->blank_before = false;
    }
    for (tl_statement *s = quoted.first, *next; s; s = next) {
        next = s->next;
        tl_insert_before(block, at, s);
        adopt(s, at->parent);
    }
}

void edit_after(tl_kernel *kernel, tl_statement *at, tl_block quoted) {
    tl_block *block = tl_block_of(kernel, at);
    for (tl_statement *s = quoted.first, *next; s; s = next) {
        next = s->next;
        tl_insert_after(block, at, s);
        adopt(s, at->parent);
        at = s;
    }
}

void edit_append(tl_block *block, tl_statement *parent, tl_block quoted) {
    for (tl_statement *s = quoted.first, *next; s; s = next) {
        next = s->next;
        tl_block_append(block, parent, s);
        adopt(s, parent);
    }
}

void edit_join(tl_block *block, tl_block more) {
    edit_append(block, NULL, more);
}

void edit_append_copy(arena *memory, tl_block *block, const tl_statement *s) {
    if (!s) return;
    tl_statement *copy = tl_statement_copy(memory, s);
    copy->blank_before = false;
    tl_block_append(block, NULL, copy);
}

void edit_remove(tl_kernel *kernel, tl_statement *s) {
    tl_remove(tl_block_of(kernel, s), s);
}

void edit_replace(tl_kernel *kernel, tl_statement *s, tl_block quoted) {
    for (tl_statement *q = quoted.first; q; q = tl_next(q, NULL))
        if (q->range.end == 0) q->range = s->range;
    if (quoted.first && quoted.first->comment.length == 0) {
        quoted.first->comment = s->comment;
        quoted.first->range = s->range;
        quoted.first->lines_before = s->lines_before;
        quoted.first->line_before_count = s->line_before_count;
    }
    edit_before(kernel, s, quoted);
    edit_remove(kernel, s);
}

void edit_move_before(tl_kernel *kernel, tl_statement *at, tl_statement *s) {
    edit_remove(kernel, s);
    edit_before(kernel, at, (tl_block){s, s});
}

void edit_move_after(tl_kernel *kernel, tl_statement *at, tl_statement *s) {
    edit_remove(kernel, s);
    edit_after(kernel, at, (tl_block){s, s});
}

bool edit_is_within(const tl_statement *s, const tl_statement *outer) {
    for (; s; s = s->parent)
        if (s == outer) return true;
    return false;
}

tl_statement *edit_ancestor_in(tl_kernel *kernel, tl_statement *s, const tl_block *block) {
    for (; s; s = s->parent)
        if (tl_block_of(kernel, s) == block) return s;
    return NULL;
}

tl_statement *edit_loop_of(const tl_statement *s) {
    for (tl_statement *p = s->parent; p; p = p->parent)
        if (p->kind == TL_FOR) return p;
    return NULL;
}

bool edit_is_before(tl_kernel *kernel, const tl_statement *a, const tl_statement *b) {
    for (const tl_statement *s = kernel->body.first; s; s = tl_next((tl_statement *)s, NULL)) {
        if (s == b) return false;
        if (s == a) return true;
    }
    return false;
}

tl_statement *edit_find_allocation(tl_statement *first, str name, tl_space space) {
    for (tl_statement *s = first; s; s = s->next)
        if (s->kind == TL_ALLOCATE && s->allocate.space == space)
            for (int i = 0; i < s->allocate.name_count; i++)
                if (str_equal(s->allocate.names[i], edit_bare(name))) return s;
    return NULL;
}

tl_statement *edit_shared_tile(const tl_kernel *kernel, str name) {
    return edit_find_allocation(kernel->body.first, name, TL_SHARED);
}

bool edit_is_host(const tl_kernel *kernel, str name) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_ALLOCATE && s->allocate.in_place_of.length > 0 &&
            str_equal(edit_bare(s->allocate.in_place_of), edit_bare(name)))
            return true;
    return false;
}

tl_statement *edit_last_release(const tl_kernel *kernel, str name) {
    tl_statement *found = NULL;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_RELEASE && str_equal(edit_bare(s->sync.what->text), name)) found = s;
    return found;
}

tl_statement *edit_register_tile(const tl_kernel *kernel, str name) {
    tl_statement *found = NULL;
    for (const tl_statement *s = kernel->body.first; s && !found; s = s->next)
        if (s->kind == TL_ROLE) found = edit_find_allocation(s->role.body.first, name, TL_REGISTER);
    return found;
}

tl_statement *edit_allocate_like(tl_kernel *kernel, arena *memory, tl_statement *like, str name,
                                 const char *comment) {
    tl_statement *own = tl_statement_copy(memory, like);
    own->allocate.names = arena_new(memory, str);
    own->allocate.names[0] = name;
    own->allocate.name_ranges = arena_new(memory, diag_range);
    own->allocate.name_count = 1;
    own->comment = str_from(comment);
    edit_after(kernel, like, (tl_block){own, own});
    return own;
}

str edit_header(arena *memory, const tl_statement *s) {
    text_buffer text;
    text_init_in(&text, memory);
    tl_print_header(s, &text);
    return text_str(&text);
}

/* --- words ------------------------------------------------------------------------------------ */

const char *edit_z(arena *memory, str s) {
    return str_copy_z(memory, s);
}

const char *edit_text(arena *memory, const tl_expr *e) {
    return str_copy_z(memory, tl_expr_text(memory, e));
}

const char *edit_factor_text(arena *memory, const tl_expr *e) {
    bool is_simple = e->kind == TL_NAME || e->kind == TL_INTEGER || e->kind == TL_NUMBER ||
                     e->kind == TL_CALL || e->kind == TL_ELEMENT;
    return is_simple ? edit_text(memory, e)
                     : str_copy_z(memory, str_format(memory, "(%s)", edit_text(memory, e)));
}

str edit_bare(str name) {
    tl_cut_place(&name);
    return name;
}

/* --- uses ------------------------------------------------------------------------------------- */

typedef struct name_visit {
    edit_visitor *visit;
    void *context;
} name_visit;

/* What stands before brackets is a tensor, of which no tile is read. */
static bool goes_on(void *context, const tl_expr *e) {
    const name_visit *v = context;
    return e->kind != TL_NAME || !v->visit(v->context, e->text);
}

static bool any_name(const tl_expr *e, edit_visitor *visit, void *context) {
    return !tl_visit(e, goes_on, &(name_visit){visit, context});
}

bool edit_any_read(const tl_statement *s, edit_visitor *visit, void *context) {
    const tl_compute *c = &s->compute;
    switch (s->kind) {
    case TL_COPY: return s->copy.from != TL_GLOBAL && any_name(s->copy.what, visit, context);
    case TL_COMPUTE:
        for (int i = 0; i < c->operand_count; i++)
            if (any_name(c->operands[i].value, visit, context)) return true;
        return any_name(c->condition, visit, context) ||
               (c->target && c->target_kind == TL_ACCUMULATE && visit(context, c->target->text));
    case TL_RESHAPE: return any_name(s->reshape.what, visit, context);
    case TL_IF: return any_name(s->branch.condition, visit, context);
    default: return false;
    }
}

str edit_target_name(const tl_statement *s) {
    switch (s->kind) {
    case TL_COPY:
        if (s->copy.to == TL_GLOBAL) break;
        return s->copy.target ? s->copy.target->text : s->copy.what->text;
    case TL_COMPUTE: return s->compute.target ? s->compute.target->text : edit_operand_name(s, 0);
    case TL_RESHAPE: return s->reshape.what->text;
    default: break;
    }
    return (str){"", 0};
}

/* A Copy says the place of X beside its name, everything else in it: `X_register`. */
static bool is_name_in(const tl_statement *s, str written, str name, bool is_source) {
    if (str_equal(written, name)) return true;
    if (s->kind != TL_COPY || name.length <= written.length || !str_starts(name, written))
        return false;
    str place = {name.data + written.length, name.length - written.length};
    tl_space space = is_source ? s->copy.from : s->copy.to;
    return str_is(place, space == TL_SHARED ? "_shared" : "_register");
}

typedef struct search {
    const tl_statement *statement;
    str name;
} search;

static bool is_sought(void *context, str written) {
    const search *of = context;
    return is_name_in(of->statement, written, of->name, true);
}

bool edit_reads(const tl_statement *s, str name) {
    return edit_any_read(s, is_sought, &(search){s, name});
}

bool edit_writes(const tl_statement *s, str name) {
    str written = edit_target_name(s);
    return written.length > 0 && is_name_in(s, written, name, false);
}

static bool any_within(tl_statement *s, str name, bool (*test)(const tl_statement *, str)) {
    if (test(s, name)) return true;
    tl_block *body = tl_statement_body(s);
    for (tl_statement *t = body ? body->first : NULL; t; t = t->next)
        if (any_within(t, name, test)) return true;
    return false;
}

tl_statement *edit_last_write(const tl_statement *from, str name) {
    for (tl_statement *s = from->previous; s; s = s->previous)
        if (edit_writes_within(s, name)) return s;
    return NULL;
}

bool edit_reads_within(tl_statement *s, str name) {
    return any_within(s, name, edit_reads);
}

bool edit_writes_within(tl_statement *s, str name) {
    return any_within(s, name, edit_writes);
}

bool edit_is_compute(const tl_statement *s, tl_operation operation) {
    return s && s->kind == TL_COMPUTE && s->compute.operation == operation;
}

bool edit_fits_names(const tl_statement *s, const char *pattern, const str *names) {
    static const char *const kinds[] = {
        [TL_GET] = " and get ", [TL_ACCUMULATE] = " and accumulate "};
    if (!s || s->kind != TL_COMPUTE) return false;
    size_t length = strcspn(pattern, " ");
    if (!str_is((str){pattern, length}, tl_operation_name(s->compute.operation))) return false;
    const char *at = pattern + length;
    for (int i = 0; *at; i++, at++) {
        const char *kind = kinds[s->compute.target_kind];
        bool is_target = !strncmp(at, " and ", 5);
        if (is_target && (!kind || strncmp(at, kind, strlen(kind)) != 0)) return false;
        at += is_target ? strlen(kind) : i > 0 ? strlen(", ") : strlen(" ");
        str written = is_target ? edit_target_name(s) : edit_operand_name(s, i);
        if (*at == '_') continue;
        str name = names[*at - '0'];
        if (name.length == 0 || !str_equal(written, name)) return false;
    }
    return true;
}

bool edit_is_product(const tl_statement *s) {
    return edit_is_compute(s, TL_GEMM);
}

bool edit_is_fill(const tl_statement *s) {
    return s->kind == TL_COPY && s->copy.from == TL_GLOBAL && s->copy.to == TL_SHARED;
}

bool edit_is_store(const tl_statement *s) {
    return s->kind == TL_COPY && s->copy.from == TL_REGISTER && s->copy.to == TL_SHARED;
}

str edit_copied_tensor(const tl_statement *copy) {
    const tl_copy *c = &copy->copy;
    return c->target && c->from != TL_GLOBAL ? c->target->text : c->what->text;
}

str edit_copied_tile(const tl_statement *copy) {
    const tl_copy *c = &copy->copy;
    return c->target && c->from == TL_GLOBAL ? c->target->text : c->what->text;
}

bool edit_takes(const tl_statement *s, str name) {
    for (int i = 0; s->kind == TL_COMPUTE && i < s->compute.operand_count; i++)
        if (tl_expr_names(s->compute.operands[i].value, name)) return true;
    return false;
}

bool edit_loads(const tl_statement *s, str name) {
    return s->kind == TL_COPY && s->copy.from == TL_GLOBAL && edit_writes(s, name);
}

tl_statement *edit_load_of(tl_kernel *kernel, str name) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_loads(s, name)) return s;
    return NULL;
}

bool edit_is_computed(const tl_kernel *kernel, str name) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && edit_writes(s, name)) return true;
    return false;
}

bool edit_is_any(const tl_expr *e) {
    return e->kind == TL_CALL && e->function == TL_FUNCTION_ANY;
}

bool edit_is_vote(const tl_statement *s) {
    for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
        if (edit_is_any(s->let.items[i].value)) return true;
    return false;
}

bool edit_operand_is(const tl_statement *s, int i, str name) {
    return str_equal(edit_operand_name(s, i), name);
}

str edit_operand_name(const tl_statement *s, int i) {
    if (s->kind != TL_COMPUTE || i >= s->compute.operand_count ||
        s->compute.operands[i].value->kind != TL_NAME)
        return (str){"", 0};
    return s->compute.operands[i].value->text;
}

tl_binding *edit_find_let(tl_kernel *kernel, str name, tl_statement **statement) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
            if (str_equal(s->let.items[i].name, name)) {
                if (statement) *statement = s;
                return &s->let.items[i];
            }
    return NULL;
}

void edit_remove_let(tl_kernel *kernel, str name) {
    tl_statement *s = NULL;
    tl_binding *binding = edit_find_let(kernel, name, &s);
    if (!binding) return;
    int at = (int)(binding - s->let.items);
    for (int i = at; i + 1 < s->let.count; i++) s->let.items[i] = s->let.items[i + 1];
    if (--s->let.count == 0) edit_remove(kernel, s);
}
