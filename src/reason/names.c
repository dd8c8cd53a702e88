#include "reason/names.h"

bool names_have(const names *n, str name) {
    for (int i = 0; i < n->count; i++)
        if (str_equal(n->items[i], edit_bare(name))) return true;
    return false;
}

void names_add(names *n, str name) {
    if (name.length > 0 && !names_have(n, name) && n->count < NAMES_MAX)
        n->items[n->count++] = edit_bare(name);
}

bool names_meet(const names *a, const names *b) {
    for (int i = 0; i < a->count; i++)
        if (names_have(b, a->items[i])) return true;
    return false;
}

void names_add_uses(const tl_statement *s, names *reads, names *writes) {
    edit_uses uses = edit_uses_of(s);
    for (int i = 0; i < uses.read_count; i++) names_add(reads, uses.reads[i]);
    names_add(writes, uses.writes);
    const tl_block *body = tl_statement_body((tl_statement *)(uintptr_t)s);
    for (const tl_statement *t = body ? body->first : NULL; t; t = t->next)
        names_add_uses(t, reads, writes);
}
