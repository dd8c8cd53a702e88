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

/* Registers of a thread for a tile of f32 as products leave their sums, or for its columns. */
static int64_t registers_of(reason *r, const tl_statement *tile, int64_t threads) {
    enum { COLUMN_LANES = 4 };
    int64_t elements = 1, extent;
    for (int i = 0; i < tile->allocate.shape.count; i++) {
        if (!reason_known(r, tile->allocate.shape.items[i], &extent)) return INT16_MAX;
        elements *= extent;
    }
    return tile->allocate.shape.count == 1 ? elements / COLUMN_LANES : elements / threads;
}

static bool is_vector_load(const tl_statement *role, const tl_statement *s) {
    if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL || s->copy.to != TL_REGISTER) return false;
    const tl_statement *tile =
        edit_find_allocation(role->role.body.first, edit_target_name(s), TL_REGISTER);
    return tile && tile->allocate.shape.count == 1;
}

/* Does a loop's tile have its values while vectors are there: those of rounds before it, or made
 * before the last of them is used?
 */
static bool is_beside(const tl_statement *loop, const tl_statement *last, str name) {
    const tl_statement *s = loop->loop.body.first;
    while (s && !edit_writes(s, name)) s = s->next;
    bool is_sum = s && s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE;
    for (; s && !is_sum; s = s->next)
        if (s == last) return true;
    return is_sum;
}

/* Are there registers for all values of rows and columns at once, beside what is there with them?
 */
static bool holds_all(reason *r, const tl_statement *role, const tl_statement *loop) {
    enum { WARPGROUP_THREADS = 128, OTHERS = 16 };
    const tl_statement *last = NULL;
    int64_t all = OTHERS, threads = role->role.executors * WARPGROUP_THREADS;
    for (tl_statement *s = loop->loop.body.first; s; s = s->next)
        for (tl_statement *v = loop->loop.body.first; v; v = v->next)
            if (is_vector_load(role, v) && edit_reads(s, edit_target_name(v))) last = s;
    for (const tl_statement *s = role->role.body.first; s; s = s->next)
        if (s->kind == TL_ALLOCATE && s->allocate.type == TL_F32 && s->allocate.shape.count == 2 &&
            is_beside(loop, last, s->allocate.names[0]))
            all += registers_of(r, s, threads);
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next)
        if (is_vector_load(role, s))
            all += registers_of(
                r, edit_find_allocation(role->role.body.first, edit_target_name(s), TL_REGISTER),
                threads);
    return all <= role->role.registers;
}

/* Values for each row or column that come from memory are on their way while the iteration waits
 * for its tiles. Where warpgroups bring operands to shared memory, a round's registers may be few:
 * then the first ones are, and others come when those are used.
 */
void stage_vectors_first(reason *r, tl_statement *loop) {
    tl_statement *at = loop->loop.body.first, *role = warpgroups_role(r->kernel);
    bool is_one = role && warpgroups_store_operands(r) && !holds_all(r, role, loop);
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
