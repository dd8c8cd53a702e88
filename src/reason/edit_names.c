/* Names in a kernel's text: which are free, who mentions one, and what stands for another. */
#include "reason/edit.h"

static bool declares(const tl_statement *s, str name) {
    bool found = false;
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: return str_equal(s->parameter.name, name);
    case TL_FOR: return str_equal(s->loop.name, name);
    case TL_ROLE: return str_equal(s->role.name, name);
    case TL_LET:
        for (int i = 0; i < s->let.count; i++) found |= str_equal(s->let.items[i].name, name);
        return found;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++) found |= str_equal(s->grid.items[i].name, name);
        return found;
    case TL_ALLOCATE:
        for (int i = 0; i < s->allocate.name_count; i++)
            found |= str_equal(s->allocate.names[i], name);
        return found;
    default: return false;
    }
}

typedef struct mentions {
    str name;
    int count;
} mentions;

static void count_mention(void *context, tl_expr *e) {
    mentions *m = context;
    bool is_name = e->kind == TL_NAME || e->kind == TL_ELEMENT;
    m->count += is_name && (str_equal(e->text, m->name) || str_equal(edit_bare(e->text), m->name));
}

int edit_mentions(tl_statement *s, str name) {
    mentions m = {name, 0};
    tl_each_expr(s, count_mention, &m);
    return m.count;
}

str edit_fresh_name(tl_kernel *kernel, arena *memory, const char *wanted) {
    str name = str_copy(memory, str_from(wanted));
    for (int number = 2;; number++) {
        bool is_taken = tl_is_reserved(name);
        for (tl_statement *s = kernel->body.first; s && !is_taken; s = tl_next(s, NULL))
            is_taken = declares(s, name) || edit_mentions(s, name) > 0;
        if (!is_taken) return name;
        name = str_format(memory, "%s_%d", wanted, number);
    }
}

tl_expr *edit_exchange(arena *memory, const tl_expr *e, edit_other *other, void *context) {
    if (!e) return NULL;
    tl_expr *instead = other(context, e);
    if (instead) return instead;
    tl_expr *copy = arena_new(memory, tl_expr);
    *copy = *e;
    copy->left = edit_exchange(memory, e->left, other, context);
    copy->right = edit_exchange(memory, e->right, other, context);
    if (e->item_count) copy->items = arena_array(memory, tl_expr *, e->item_count);
    for (int i = 0; i < e->item_count; i++)
        copy->items[i] = edit_exchange(memory, e->items[i], other, context);
    return copy;
}

typedef struct substitution {
    arena *memory;
    str name;
    const tl_expr *value;
} substitution;

static tl_expr *value_of_name(void *context, const tl_expr *e) {
    const substitution *s = context;
    bool is_it = e->kind == TL_NAME && str_equal(e->text, s->name);
    return is_it ? tl_expr_copy(s->memory, s->value) : NULL;
}

tl_expr *edit_substitute(arena *memory, const tl_expr *e, str name, const tl_expr *value) {
    return edit_exchange(memory, e, value_of_name, &(substitution){memory, name, value});
}

void edit_rename_expr(tl_expr *e, str from, str to) {
    if (!e) return;
    if (e->kind == TL_NAME && str_equal(e->text, from)) e->text = to;
    edit_rename_expr(e->left, from, to);
    edit_rename_expr(e->right, from, to);
    for (int i = 0; i < e->item_count; i++) edit_rename_expr(e->items[i], from, to);
}

void edit_rename(tl_statement *s, str from, str to) {
    switch (s->kind) {
    case TL_COPY:
        edit_rename_expr(s->copy.what, from, to);
        edit_rename_expr(s->copy.target, from, to);
        break;
    case TL_COMPUTE:
        for (int i = 0; i < s->compute.operand_count; i++)
            edit_rename_expr(s->compute.operands[i].value, from, to);
        edit_rename_expr(s->compute.condition, from, to);
        edit_rename_expr(s->compute.maximum, from, to);
        edit_rename_expr(s->compute.sum, from, to);
        edit_rename_expr(s->compute.values, from, to);
        edit_rename_expr(s->compute.target, from, to);
        break;
    case TL_RESHAPE: edit_rename_expr(s->reshape.what, from, to); break;
    case TL_WAIT:
    case TL_RELEASE: edit_rename_expr(s->sync.what, from, to); break;
    case TL_IF: edit_rename_expr(s->branch.condition, from, to); break;
    default: break;
    }
}

void edit_rename_from(tl_statement *first, str from, str to) {
    for (tl_statement *s = first; s; s = s->next) {
        edit_rename(s, from, to);
        if (tl_statement_body(s)) edit_rename_from(tl_statement_body(s)->first, from, to);
    }
}
