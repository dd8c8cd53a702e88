/* Pass stage, vectors: where their loads begin. */
#include "reason/stage.h"
#include "reason/warpgroups.h"

/* Nothing before it in the iteration has to do with the copy's target, or says what it copies. */
static bool may_be_first(const tl_statement *copy) {
    str name = edit_target_name(copy);
    for (const tl_statement *s = copy->previous; s; s = s->previous)
        for (const tl_statement *t = s; t; t = tl_next((tl_statement *)(uintptr_t)t, s))
            if (t->kind == TL_LET || edit_reads(t, name) || edit_writes(t, name)) return false;
    return true;
}

/* Values for each row or column that come from memory are on their way while the iteration waits
 * for its tiles. Where warpgroups bring operands to shared memory, a round's registers are few: the
 * first ones are, and others come when those are used.
 */
void stage_vectors_first(reason *r, tl_statement *loop) {
    tl_statement *at = loop->loop.body.first;
    bool is_one = warpgroups_role(r->kernel) && warpgroups_store_operands(r);
    for (tl_statement *s = loop->loop.body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL || s->copy.to != TL_REGISTER) continue;
        const tl_statement *tile = edit_find_allocation(r->kernel->body.last->role.body.first,
                                                        edit_target_name(s), TL_REGISTER);
        if (!tile || tile->allocate.shape.count != 1 || !may_be_first(s)) continue;
        if (s == at) at = s->next;
        else edit_move_before(r->kernel, at, s);
        if (is_one) return;
    }
}
