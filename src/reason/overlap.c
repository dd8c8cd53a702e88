/* Pass overlap: products run beside the elements of the next block.
 *
 * An iteration that issues a product (its head), computes on the result, and ends with a product of
 * what it computed (its tail) leaves the tensor cores idle in between. So the loop is rotated: the
 * tail of a block is issued right after the head of the next one and runs beside the elements of
 * that block. Head and elements of the first block are before the loop, the tail of the last one
 * after it. What touches the tail's tiles waits until it has landed.
 */
#include "reason/names.h"
#include "reason/peel.h"
#include "reason/spread.h"
#include "reason/warpgroups.h"

/* --- head and tail ---------------------------------------------------------------------------- */

typedef struct rotation {
    arena *memory;
    tl_statement *loop;
    tl_statement *middle, *tail; /* the first statements after the head, and of the tail */
    names head_targets, targets; /* of the head; of the tail: accumulators */
    names operands;              /* of the tail: left operands that have one place */
    names rights;                /* of the tail: right operands, of its own block */
    bool is_together;            /* both land before the elements, which rewrite an operand */
    const char *why;             /* it cannot be rotated */
} rotation;

static bool refuse(rotation *o, const char *why) {
    o->why = why;
    return false;
}

static bool is_of_products(const tl_statement *s) {
    return edit_is_product(s) || s->kind == TL_WAIT || s->kind == TL_RELEASE;
}

static bool find_tail(rotation *o, const tl_statement *role) {
    tl_statement *s = o->loop->loop.body.last;
    bool any = false;
    for (; s && is_of_products(s); s = s->previous) {
        o->tail = s;
        if (!edit_is_product(s)) continue;
        any = true;
        names_add(o->memory, &o->targets, edit_target_name(s));
        str left = edit_operand_name(s, 0);
        if (s->compute.target_kind != TL_ACCUMULATE)
            return refuse(o, "its last product adds to nothing");
        if (str_ends(left, STR("_shared")))
            return refuse(o, "its last product takes nothing that the iteration computed");
        const tl_statement *a = edit_find_allocation(role->role.body.first, left, TL_REGISTER);
        if (!a || !a->allocate.stages) names_add(o->memory, &o->operands, left);
        names_add(o->memory, &o->rights, edit_operand_name(s, 1));
    }
    return any && s ? true : refuse(o, "it does not end with a product");
}

static bool find_head(rotation *o) {
    tl_statement *s = o->loop->loop.body.first;
    for (; s != o->tail && (is_of_products(s) || s->kind == TL_COPY); s = s->next) {
        if (!edit_is_product(s)) continue;
        str target = edit_target_name(s);
        if (names_have(&o->targets, target))
            return refuse(o, "first and last product have one target");
        if (names_have(&o->rights, edit_operand_name(s, 1)))
            return refuse(o, "first and last product read one tile, which is of one block");
        names_add(o->memory, &o->head_targets, target);
    }
    o->middle = s;
    if (o->head_targets.count == 0) return refuse(o, "it does not begin with a product");
    return s != o->tail ? true : refuse(o, "nothing stands between its products");
}

/* --- what has to wait for the tail ------------------------------------------------------------ */

typedef struct delay {
    names writes, reads; /* of the tail and of what was delayed */
} delay;

static bool is_delayed(const tl_statement *s, const delay *d, const rotation *o) {
    names reads = {0}, writes = {0};
    names_add_uses(o->memory, s, &reads, &writes);
    return names_meet(&writes, &d->writes) || names_meet(&writes, &d->reads) ||
           names_meet(&reads, &d->writes) || names_meet(&writes, &o->operands);
}

static bool mentions(const tl_statement *let, const names *of) {
    for (int i = 0; i < let->let.count; i++)
        for (int k = 0; k < of->count; k++)
            if (tl_expr_names(let->let.items[i].value, edit_bare(of->items[k]))) return true;
    return false;
}

/* Votes on what was known before the products are taken while these run. */
static tl_block take_early(tl_kernel *whole, const rotation *o) {
    tl_block early = {0};
    names later = {0}, reads = {0};
    for (int i = 0; i < o->head_targets.count; i++)
        names_add(o->memory, &later, o->head_targets.items[i]);
    for (int i = 0; i < o->targets.count; i++) names_add(o->memory, &later, o->targets.items[i]);
    for (tl_statement *s = whole->body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind != TL_LET || mentions(s, &later)) {
            names_add_uses(o->memory, s, &reads, &later);
            for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
                names_add(o->memory, &later, s->let.items[i].name);
            continue;
        }
        edit_remove(whole, s);
        tl_block_append(&early, NULL, s);
    }
    return early;
}

static bool is_kept_vote(const reason *r, const tl_statement *s) {
    tl_statement *let = NULL;
    return s && s->kind == TL_IF && s->branch.condition->kind == TL_NAME &&
           edit_find_let(r->kernel, s->branch.condition->text, &let) && edit_is_vote(let);
}

/* A branch at the edges and one on a vote after it are both seldom taken: one test for both, since
 * each way around a branch shows where all wait for the elements.
 */
static void share_tests(reason *r, tl_kernel *whole) {
    for (tl_statement *s = whole->body.first; s; s = s->next) {
        tl_statement *vote = s->next;
        if (s->kind != TL_IF || is_kept_vote(r, s) || !is_kept_vote(r, vote)) continue;
        tl_block both = tl_quote(r->memory, "if %s or %s // both are rare: one test\nend",
                                 edit_text(r->memory, s->branch.condition),
                                 edit_text(r->memory, vote->branch.condition));
        tl_statement *outer = both.first;
        edit_before(whole, s, both);
        edit_remove(whole, s);
        edit_remove(whole, vote);
        tl_block_append(&outer->branch.body, outer, s);
        tl_block_append(&outer->branch.body, outer, vote);
        s = outer;
    }
}

/* --- the rotated loop ------------------------------------------------------------------------- */

/* Of the statements from 'from' up to 'to': those that issue, or those that wait for it to land. */
static tl_block part_of(reason *r, const rotation *o, const tl_statement *from,
                        const tl_statement *to, bool landing) {
    tl_block part = {0};
    for (const tl_statement *s = from; s != to; s = s->next) {
        bool is_landing =
            s->kind == TL_RELEASE ||
            (s->kind == TL_WAIT && (names_have(&o->targets, s->sync.what->text) ||
                                    names_have(&o->head_targets, s->sync.what->text)));
        if (is_landing != landing) continue;
        edit_append_copy(r->memory, &part, s);
    }
    return part;
}

static void comment(tl_block block, const char *text) {
    for (tl_statement *s = block.first; s; s = s->next)
        if (edit_is_product(s)) s->comment = str_from(text);
}

static void write_before(reason *r, const rotation *o) {
    const tl_statement *first = o->loop->loop.body.first;
    tl_block head = part_of(r, o, first, o->middle, false);
    edit_join(&head, part_of(r, o, first, o->middle, true));
    comment(head, "of the first block");
    tl_block before = peel_iteration(r, o->loop, head.first, NULL, true);
    edit_join(&before, peel_iteration(r, o->loop, o->middle, o->tail, true));
    edit_before(r->kernel, o->loop, before);
}

/* The last block's tail: issued at once, waited for where its result is needed. */
static void write_after(reason *r, const rotation *o) {
    tl_block issue = part_of(r, o, o->tail, NULL, false);
    tl_block landing = part_of(r, o, o->tail, NULL, true);
    comment(issue, "of the last block");
    tl_statement *at = o->loop;
    while (at->next && at->next->kind == TL_RELEASE) at = at->next;
    edit_after(r->kernel, at, issue);
    while (at->next && is_of_products(at->next)) at = at->next;
    delay tail = {0};
    for (const tl_statement *s = o->tail; s; s = s->next)
        names_add_uses(o->memory, s, &tail.reads, &tail.writes);
    while (at->next && (at->next->kind == TL_COMPUTE || at->next->kind == TL_RESHAPE) &&
           !is_delayed(at->next, &tail, o))
        at = at->next;
    edit_after(r->kernel, at, landing);
}

/* Products land in the order in which they are issued: before another one is, among the elements,
 * or its tiles are waited for, the tail has landed. NULL: there is none.
 */
static tl_statement *find_other(const tl_kernel *middle) {
    tl_statement *s = middle->body.first;
    while (s && !edit_is_product(s)) s = s->next;
    while (s && s->previous && s->previous->kind == TL_WAIT) s = s->previous;
    return s;
}

static void write_inside(reason *r, rotation *o) {
    const tl_statement *first = o->loop->loop.body.first;
    tl_block body = {0}, delayed = {0};
    tl_block head = part_of(r, o, first, o->middle, false);
    tl_block tail = part_of(r, o, o->tail, NULL, false);
    tl_block tail_landing = part_of(r, o, o->tail, NULL, true);
    comment(tail, "of the previous block");
    edit_join(&body, head);
    edit_join(&body, tail);
    tl_block middle = peel_iteration(r, o->loop, o->middle, o->tail, false);
    tl_kernel whole = {.body = middle}; /* edits need a block to work in */
    edit_join(&body, take_early(&whole, o));
    share_tests(r, &whole);
    edit_join(&body, part_of(r, o, first, o->middle, true));
    if (o->is_together) edit_join(&body, tail_landing);
    delay d = {.writes = o->targets};
    tl_statement *other = find_other(&whole);
    for (tl_statement *s = whole.body.first, *next; s != other && !o->is_together; s = next) {
        next = s->next;
        if (!is_delayed(s, &d, o)) continue;
        names_add_uses(o->memory, s, &d.reads, &d.writes);
        edit_remove(&whole, s);
        tl_block_append(&delayed, NULL, s);
    }
    if (!o->is_together) {
        edit_join(&tail_landing, delayed);
        if (other) edit_before(&whole, other, tail_landing);
    }
    edit_join(&body, whole.body);
    if (!o->is_together && !other) edit_join(&body, tail_landing);
    o->loop->loop.body = (tl_block){0};
    edit_append(&o->loop->loop.body, o->loop, body);
    peel_advance(r, o->loop);
}

/* --- the order of copies ---------------------------------------------------------------------- */

/* The loop of the role that loads, if it holds nothing but copies. */
static tl_statement *find_loads(const reason *r, const rotation *o) {
    for (tl_statement *role = r->kernel->body.first; role; role = role->next) {
        if (role->kind != TL_ROLE || role->role.is_warpgroups) continue;
        for (tl_statement *s = role->role.body.first; s; s = s->next) {
            const tl_for *loop = &o->loop->loop;
            if (s->kind != TL_FOR || !str_equal(s->loop.name, loop->name) ||
                !tl_expr_equal(s->loop.from, loop->from) || !tl_expr_equal(s->loop.to, loop->to))
                continue;
            for (const tl_statement *t = s->loop.body.first; t; t = t->next)
                if (t->kind != TL_COPY) return NULL;
            return s;
        }
    }
    return NULL;
}

static bool is_tails(const rotation *o, const tl_statement *copy) {
    for (const tl_statement *s = o->tail; s; s = s->next)
        if (s->kind == TL_WAIT && str_equal(edit_bare(s->sync.what->text), copy->copy.what->text))
            return true;
    return false;
}

/* The copies of the tail's tiles, or the others, for the block 'at'. */
static tl_block copies_at(reason *r, const rotation *o, const tl_statement *loop, bool tails,
                          const tl_expr *at) {
    tl_block all = {0};
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next) {
        if (is_tails(o, s) != tails) continue;
        tl_statement *copy = tl_statement_copy(r->memory, s);
        for (int i = 0; i < copy->copy.place.count; i++)
            copy->copy.place.items[i].at =
                edit_substitute(r->memory, copy->copy.place.items[i].at, loop->loop.name, at);
        tl_block_append(&all, NULL, copy);
    }
    return all;
}

/* Copies start in the order in which they are waited for: a tail's after the next head's. */
static void rotate_loads(reason *r, const rotation *o) {
    tl_statement *loop = find_loads(r, o);
    if (!loop) return;
    const char *j = edit_z(r->memory, loop->loop.name);
    const char *to = edit_factor_text(r->memory, loop->loop.to);
    tl_expr *here = tl_name_expr(r->memory, loop->loop.name), *from = loop->loop.from;
    tl_block body = copies_at(r, o, loop, false, here);
    edit_join(&body, copies_at(r, o, loop, true, tl_quote_expr(r->memory, "%s - 1", j)));
    edit_before(r->kernel, loop, copies_at(r, o, loop, false, from));
    edit_after(r->kernel, loop,
               copies_at(r, o, loop, true, tl_quote_expr(r->memory, "%s - 1", to)));
    loop->loop.body = (tl_block){0};
    edit_append(&loop->loop.body, loop, body);
    peel_advance(r, loop);
    loop->comment = STR("in the order of use");
}

static bool may_rotate(reason *r, rotation *o, const tl_statement *role) {
    if (!find_tail(o, role) || !find_head(o)) return false;
    if (!reason_is_never_empty(r, o->loop)) return refuse(o, "it may run not at all");
    for (const tl_statement *s = o->loop->loop.body.first; s != o->tail; s = s->next)
        if (s->kind == TL_LET && !peel_has_test(o->loop)) /* would stand twice in one block */
            return refuse(o, "it defines constants of its own");
    /* A vote among the elements is between a left operand and its second making. */
    for (tl_statement *s = o->middle; s && s != o->tail; s = tl_next(s, o->loop))
        o->is_together |= o->operands.count > 0 && edit_is_vote(s);
    return true;
}

static void explain_spread(reason *r, const char *j, const char *why, const leave_last *last) {
    str left = {"", 0};
    for (int i = 0; i < last->targets.count; i++)
        reason_list(r, &left, " and ", "%.*s", STR_ARGS(edit_bare(last->targets.items[i])));
    const char *how =
        left.length > 0
            ? reason_say(r, "%.*s of a block %s issued by the next iteration, before its own: %s",
                         STR_ARGS(left), last->targets.count > 1 ? "are" : "is", why)
            : reason_say(r, "no block overlaps the next one: %s%s%s", why,
                         str_is(str_from(why), last->why) ? "" : "; ",
                         str_is(str_from(why), last->why) ? "" : last->why);
    reason_decide(r, "overlap",
                  "products of the loop over %s are issued when their operands are there and "
                  "waited for when they are needed; %s",
                  j, how);
}

static void overlap(reason *r, tl_statement *loop, const tl_statement *role, bool is_wanted) {
    rotation o = {.memory = r->memory, .loop = loop};
    const char *j = edit_z(r->memory, loop->loop.name);
    bool may = may_rotate(r, &o, role);
    leave_last last;
    int spread = may || !is_wanted ? 0 : spread_products(r, loop, &last);
    if (!may && spread == 0 && is_wanted) {
        reason_decide(r, "overlap", "the loop over %s stays as it is: %s", j, o.why);
        return;
    }
    reason_offers_switch(r, "overlap", is_wanted);
    if (!is_wanted) {
        reason_decide(r, "overlap", "the loop over %s stays as it is, as %s", j,
                      reason_pin_word(r, "overlap"));
        return;
    }
    if (!may) {
        explain_spread(r, j, o.why, &last);
        return;
    }
    str target = edit_bare(o.head_targets.items[0]), sum = edit_bare(o.targets.items[0]);
    rotate_loads(r, &o);
    write_before(r, &o);
    write_after(r, &o);
    write_inside(r, &o);
    reason_decide(r, "overlap",
                  "%.*s of a block is issued together with %.*s of the block before, %s",
                  STR_ARGS(target), STR_ARGS(sum),
                  o.is_together ? "and both land before the elements of this one: the left operand "
                                  "has one place"
                                : "which runs beside the elements of this one");
}

bool reason_overlap(reason *r) {
    int64_t wanted = reason_decided(r, 1, "overlap");
    tl_statement *role = warpgroups_role(r->kernel);
    if (!role) return true;
    for (tl_statement *s = role->role.body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind == TL_FOR) overlap(r, s, role, wanted != 0);
    }
    return true;
}
