/* Pass overlap, loops that are not rotated: an iteration of several products, as gradients have it.
 *
 * Pass roles waits for each product at once. Here a product moves up to the one before it, unless
 * what it takes is made in between, so that both are issued together; its Wait moves down to what
 * needs its result, or writes over its operand. Products land in the order in which they are
 * issued, and that order stays. Values for each row or column that come from memory are loaded
 * before all of it.
 */
#include "reason/spread.h"

#include "reason/names.h"
#include "reason/stage.h"
#include "reason/warpgroups.h"

typedef struct uses {
    names reads, writes;
} uses;

static bool is_issued(const tl_statement *s) {
    return edit_is_product(s) && s->compute.is_async;
}

/* A Wait for a shared tile, not for a product: what warpgroups bring there has no other place. */
static bool is_arrival(const reason *r, const tl_statement *s) {
    if (s->kind != TL_WAIT) return false;
    str name = s->sync.what->text;
    return str_ends(name, STR("_shared")) ||
           (str_equal(edit_bare(name), name) && edit_shared_tile(r->kernel, name));
}

/* To wait for what is somewhere, or to release it, changes it. */
static void add_uses(reason *r, const tl_statement *s, uses *u) {
    names_add_uses(r->memory, s, &u->reads, &u->writes);
    if (s->kind == TL_WAIT || s->kind == TL_RELEASE)
        names_add(r->memory, &u->writes, s->sync.what->text);
}

/* May what has these uses change places with s? */
static bool may_pass(reason *r, const uses *u, const tl_statement *s) {
    uses other = {0};
    if (s->kind == TL_LET || s->kind == TL_FOR) return false;
    add_uses(r, s, &other);
    return !names_meet(&other.writes, &u->writes) && !names_meet(&other.writes, &u->reads) &&
           !names_meet(&other.reads, &u->writes);
}

/* Moves the statements from 'first' to 'last' so that 'at', not one of them, is next. */
static void move_before(reason *r, tl_statement *at, tl_statement *first, tl_statement *last) {
    tl_statement *end = last->next;
    for (tl_statement *s = first, *next; s != end; s = next) {
        next = s->next;
        edit_move_before(r->kernel, at, s);
    }
}

/* --- issued as soon as its operands are there ------------------------------------------------- */

static bool issue_early(reason *r, tl_statement *product) {
    uses own = {0};
    add_uses(r, product, &own);
    tl_statement *first = product;
    while (first->previous && is_arrival(r, first->previous) &&
           names_have(&own.reads, first->previous->sync.what->text))
        first = first->previous;
    for (const tl_statement *s = first; s != product; s = s->next) add_uses(r, s, &own);
    tl_statement *at = first;
    while (at->previous && !is_issued(at->previous) && may_pass(r, &own, at->previous))
        at = at->previous;
    if (at == first) return false;
    move_before(r, at, first, product);
    return true;
}

/* --- waited for when it is needed ------------------------------------------------------------- */

/* The left operand in registers of the products that leave what 'wait' is for: the last of them
 * reads it. Empty: it is in shared memory.
 */
static str operand_of(const tl_statement *wait) {
    const tl_statement *s = wait->previous;
    while (s && !(is_issued(s) && str_equal(edit_target_name(s), wait->sync.what->text)))
        s = s->previous;
    str left = s ? edit_operand_name(s, 0) : STR("");
    return str_ends(left, STR("_shared")) ? STR("") : left;
}

/* How often the tile may be written while a product still reads it: it has a place for each. */
static int64_t places_beside(reason *r, const tl_statement *role, str tile) {
    const tl_statement *a = edit_find_allocation(role->role.body.first, tile, TL_REGISTER);
    int64_t places;
    return a && a->allocate.stages && reason_known(r, a->allocate.stages, &places) ? places - 1 : 0;
}

static bool wait_late(reason *r, const tl_statement *role, tl_statement *wait) {
    str operand = operand_of(wait);
    int64_t left = places_beside(r, role, operand);
    uses own = {.writes = names_of(r->memory, wait->sync.what->text)};
    bool is_written = false;   /* the operand, in another of its places */
    tl_statement *last = wait; /* with the slots that it frees */
    while (last->next && last->next->kind == TL_RELEASE) last = last->next;
    tl_statement *at = last->next;
    for (; at; at = at->next) {
        bool is_landing = at->kind == TL_WAIT && !is_arrival(r, at);
        if (is_landing || at->kind == TL_RELEASE || !may_pass(r, &own, at)) break;
        if (operand.length == 0 || !edit_writes_within(at, operand)) continue;
        if (at->kind == TL_RESHAPE ? !is_written : left == 0) break;
        left -= at->kind != TL_RESHAPE;
        is_written = true;
    }
    if (at == last->next) return false;
    if (at) {
        move_before(r, at, wait, last);
    } else { /* to the end of the iteration */
        tl_statement *end = last;
        while (end->next) end = end->next;
        for (tl_statement *s = wait, *next, *stop = last->next; s != stop; s = next) {
            next = s->next;
            edit_move_after(r->kernel, end, s);
            end = s;
        }
    }
    return true;
}

/* Second places are for an operand that is made again while a product reads it. */
static void drop_places(tl_statement *role, tl_statement *loop) {
    for (tl_statement *a = role->role.body.first; a; a = a->next) {
        if (a->kind != TL_ALLOCATE || a->allocate.name_count != 1 || !a->allocate.stages) continue;
        int inside = 0, all = 0;
        for (tl_statement *s = role->role.body.first; s; s = tl_next(s, role)) {
            if (s->kind != TL_COMPUTE || !edit_writes(s, a->allocate.names[0])) continue;
            all++;
            inside += edit_is_within(s, loop);
        }
        if (all == 1 && inside == 1) a->allocate.stages = NULL;
    }
}

int spread_products(reason *r, tl_statement *loop, leave_last *last) {
    tl_statement *role = warpgroups_role(r->kernel);
    int count = 0;
    *last = (leave_last){0};
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next) count += is_issued(s);
    if (count < 2) return 0;
    int moved = 0;
    for (tl_statement *s = loop->loop.body.first, *next; s; s = next) {
        next = s->next;
        if (is_issued(s)) moved += issue_early(r, s);
    }
    *last = leave_cut(r, loop);
    for (tl_statement *s = loop->loop.body.last, *previous; s; s = previous) {
        previous = s->previous;
        if (s->kind == TL_WAIT && !is_arrival(r, s)) moved += wait_late(r, role, s);
    }
    if (moved == 0 && last->targets.count == 0) return 0;
    stage_vectors_first(r, loop);
    drop_places(role, loop);
    if (last->targets.count > 0) leave_write(r, loop, last);
    return moved + last->targets.count;
}
