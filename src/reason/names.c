#include "reason/names.h"

bool names_have(const names *n, str name) {
    for (int i = 0; i < n->count; i++)
        if (str_equal(edit_bare(n->items[i]), edit_bare(name))) return true;
    return false;
}

void names_add(arena *memory, names *n, str name) {
    if (name.length > 0 && !names_have(n, name)) list_push(memory, n, name);
}

bool names_meet(const names *a, const names *b) {
    for (int i = 0; i < a->count; i++)
        if (names_have(b, a->items[i])) return true;
    return false;
}

names names_of(arena *memory, str name) {
    names n = {0};
    names_add(memory, &n, name);
    return n;
}

typedef struct reading {
    arena *memory;
    names *into;
} reading;

static bool push_read(void *context, str name) {
    const reading *to = context;
    list_push(to->memory, to->into, name);
    return false;
}

names names_read(arena *memory, const tl_statement *s) {
    names n = {0};
    edit_any_read(s, push_read, &(reading){memory, &n});
    return n;
}

void names_add_uses(arena *memory, const tl_statement *s, names *reads, names *writes) {
    names own = names_read(memory, s);
    for (int i = 0; i < own.count; i++) names_add(memory, reads, own.items[i]);
    names_add(memory, writes, edit_target_name(s));
    const tl_block *body = tl_statement_body((tl_statement *)(uintptr_t)s);
    for (const tl_statement *t = body ? body->first : NULL; t; t = t->next)
        names_add_uses(memory, t, reads, writes);
}
