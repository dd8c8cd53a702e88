/* Pass overlap, loops whose first and last product read one tile: the last product of a block is
 * issued by the next iteration, before that one waits for its own tiles.
 *
 * It cannot be issued after the next block's first product, as in a rotated loop: by then the
 * tile's name means the next block's. But in the order in which they are anyway, the last product
 * of a block and the first ones of the next are one row, and nothing waits in between: they land in
 * that order, the slot is released when the last product has landed, and no product is in flight
 * where an iteration ends. A warpgroup that is through with its elements has all of a block's
 * products to issue, during which another one has its elements.
 */
#include "reason/leave.h"

#include "reason/peel.h"
#include "tl/names.h"

static bool is_arrival(const tl_statement *s) {
    return s->kind == TL_WAIT && str_ends(s->sync.what->text, STR("_shared"));
}

static bool is_landing(const tl_statement *s) {
    return s->kind == TL_RELEASE || (s->kind == TL_WAIT && !is_arrival(s));
}

static leave_last refuse(const char *why) {
    return (leave_last){.why = why};
}

/* The first statement of the row of products that ends the iteration; NULL: none does. */
static tl_statement *row_at_end(const tl_statement *loop) {
    tl_statement *first = NULL;
    for (tl_statement *s = loop->loop.body.last; s; s = s->previous) {
        if (edit_is_product(s)) first = s;
        else if (is_arrival(s) ? !first : !is_landing(s)) break;
    }
    while (first && first->previous && is_arrival(first->previous)) first = first->previous;
    return first;
}

/* May one more block of the tile be there while a product still reads this one? */
static bool has_slots(reason *r, str shared) {
    const tl_statement *tile = edit_shared_tile(r->kernel, edit_bare(shared));
    int64_t slots;
    return tile && tile->allocate.stages && reason_known(r, tile->allocate.stages, &slots) &&
           slots > 1;
}

static const char *add_product(reason *r, leave_last *last, const tl_statement *s) {
    str left = edit_operand_name(s, 0), target = edit_target_name(s);
    if (s->compute.target_kind != TL_ACCUMULATE) return "its last product adds to nothing";
    if (str_ends(left, STR("_shared")))
        return "its last product takes nothing that the iteration computed";
    names_add(r->memory, &last->targets, target);
    names_add(r->memory, &last->held, target);
    names_add(r->memory, &last->held, left);
    return NULL;
}

/* Copies call a tile by its bare name. */
static bool have_tile(const names *all, str tile) {
    for (int i = 0; i < all->count; i++)
        if (str_equal(edit_bare(all->items[i]), edit_bare(tile))) return true;
    return false;
}

/* Does the statement use what the products leave, or change what they take? */
static bool touches(reason *r, const leave_last *last, const tl_statement *s) {
    names reads = {0}, writes = {0};
    names_add_uses(r->memory, s, &reads, &writes);
    bool does = false;
    for (int i = 0; i < last->targets.count; i++) does |= have_tile(&reads, last->targets.items[i]);
    for (int i = 0; i < last->held.count; i++) does |= have_tile(&writes, last->held.items[i]);
    return does;
}

/* Where they have to have landed: products land in the order in which they are issued. */
static tl_statement *landing_place(reason *r, const tl_statement *loop, const leave_last *last) {
    tl_statement *s = loop->loop.body.first;
    while (s && !is_landing(s) && !touches(r, last, s)) s = s->next;
    return s;
}

static const char *refusal(reason *r, tl_statement *loop, const tl_statement *row,
                           leave_last *last) {
    const char *why = !row ? "it does not end with a product" : NULL;
    if (!why && !reason_is_never_empty(r, loop)) why = "it may run not at all";
    for (const tl_statement *s = row; s && !why; s = s->next) {
        if (edit_is_product(s)) why = add_product(r, last, s);
        if (s->kind == TL_RELEASE && !has_slots(r, s->sync.what->text))
            why = "a tile that its last product reads has one slot";
    }
    if (why) return why;
    int beside = 0;
    const tl_statement *place = landing_place(r, loop, last);
    for (const tl_statement *s = loop->loop.body.first; s && s != row; s = s->next) {
        if (s->kind == TL_LET) return "it defines constants of its own";
        if (s == place) place = NULL;
        beside += place && edit_is_product(s);
    }
    return beside ? NULL : "no product of the next iteration may run beside its last one";
}

/* --- other sums of the iteration -------------------------------------------------------------- */

/* A left operand that is made for each of several products, in a place for each: every one gets a
 * name, so that products need not be issued before the next one is made.
 */
static void name_places(reason *r, tl_statement *loop, tl_statement *tile) {
    tl_statement *role = tile->parent;
    str name = tile->allocate.names[0];
    int64_t places, inside = 0, all = 0;
    if (!reason_known(r, tile->allocate.stages, &places)) return;
    for (tl_statement *s = role->role.body.first; s; s = tl_next(s, role)) {
        if (s->kind != TL_COMPUTE || !edit_writes(s, name)) continue;
        all++;
        inside += s->parent == loop;
    }
    if (inside < 2 || all != inside || places < inside) return;
    tile->allocate.stages = NULL;
    str own = name;
    for (tl_statement *s = loop->loop.body.first; s; s = s->next) {
        bool is_made = s->kind == TL_COMPUTE && edit_writes(s, name);
        if (is_made && --inside < all - 1) {
            own = reason_fresh(r, "%.*s_%lld", STR_ARGS(name), (long long)(all - inside));
            edit_allocate_like(r->kernel, r->memory, tile, own, "the same, of another product");
        }
        for (tl_statement *t = s; t && !str_equal(own, name); t = tl_next(t, s))
            edit_rename(t, name, own);
    }
}

/* Is the product's sum left alone by the rest of the iteration, and its left operand there? */
static bool may_wait(reason *r, const tl_statement *product, const tl_statement *landing) {
    leave_last own = {0};
    str right = edit_operand_name(product, 1);
    if (!product->previous || is_arrival(product->previous) || add_product(r, &own, product))
        return false;
    for (const tl_statement *s = landing; s; s = s->next) {
        bool is_another = is_arrival(s) && str_equal(s->sync.what->text, right);
        if (is_another || s->kind == TL_LET || s->kind == TL_FOR || touches(r, &own, s))
            return false;
    }
    return true;
}

/* Sums of products whose operands are there go to the row that ends the iteration: one turn for all
 * of them, and elements that no product has to be issued between.
 */
static void gather_sums(reason *r, tl_statement *loop) {
    for (tl_statement *a = loop->parent->role.body.first; a; a = a->next)
        if (a->kind == TL_ALLOCATE && a->allocate.name_count == 1 && a->allocate.stages)
            name_places(r, loop, a);
    tl_statement *row = row_at_end(loop), *landing = row;
    while (landing && !is_landing(landing)) landing = landing->next;
    for (tl_statement *s = loop->loop.body.first, *next; landing && s && s != row; s = next) {
        next = s->next;
        tl_statement *after = s->next;
        if (!edit_is_product(s) || !after || after->kind != TL_WAIT ||
            !str_equal(after->sync.what->text, edit_target_name(s)))
            continue;
        tl_statement *end = after;
        while (end->next && end->next->kind == TL_RELEASE) end = end->next;
        if (!may_wait(r, s, end->next)) continue;
        next = end->next;
        edit_move_before(r->kernel, row, s);
        for (tl_statement *t = after, *then; t != next; t = then) {
            then = t->next;
            edit_move_before(r->kernel, landing, t);
        }
    }
}

leave_last leave_cut(reason *r, tl_statement *loop) {
    leave_last alone = {0}, last = {0};
    const char *why = refusal(r, loop, row_at_end(loop), &alone);
    if (why) return refuse(why);
    gather_sums(r, loop);
    tl_statement *row = row_at_end(loop);
    why = refusal(r, loop, row, &last);
    if (why) return refuse(why);
    for (tl_statement *s = row, *next; s; s = next) {
        next = s->next;
        edit_remove(r->kernel, s);
        tl_block_append(is_landing(s) ? &last.landing : &last.issue, NULL, s);
    }
    return last;
}

static bool reads(const leave_last *last, str tile) {
    for (const tl_statement *s = last->issue.first; s; s = s->next)
        if (edit_reads(s, tile)) return true;
    return false;
}

static tl_block copy_of(reason *r, const tl_block *block, const char *comment) {
    tl_block copy = {0};
    for (const tl_statement *s = block->first; s; s = s->next) {
        edit_append_copy(r->memory, &copy, s);
        if (edit_is_product(s)) copy.last->comment = str_from(comment);
    }
    return copy;
}

static bool uses(reason *r, const tl_statement *s, str tile) {
    names all = {0};
    names_add_uses(r->memory, s, &all, &all);
    return have_tile(&all, tile);
}

/* --- vectors ---------------------------------------------------------------------------------- */

/* A Copy of the walk's next block: past the last one it brings zeros that nobody uses. */
static tl_statement *of_next_block(reason *r, const tl_statement *loop, const tl_statement *copy) {
    tl_statement *next = tl_statement_copy(r->memory, copy);
    const tl_expr *at = tl_quote_expr(r->memory, "%s + 1", edit_z(r->memory, loop->loop.name));
    for (int i = 0; i < next->copy.place.count; i++)
        if (next->copy.place.items[i].at)
            next->copy.place.items[i].at =
                edit_substitute(r->memory, next->copy.place.items[i].at, loop->loop.name, at);
    next->comment = STR("of the next block");
    return next;
}

static bool is_vector(const tl_statement *loop, str tile) {
    const tl_statement *a =
        edit_find_allocation(loop->parent->role.body.first, edit_bare(tile), TL_REGISTER);
    return a && a->allocate.shape.count == 1;
}

/* The end of the run of elements that is the last to use the loaded vector, or what is made of it
 * alone; NULL: something after the loop uses it, too.
 */
static tl_statement *end_of_uses(reason *r, const tl_statement *loop, const tl_statement *load) {
    names all = names_of(r->memory, edit_target_name(load));
    tl_statement *last = NULL;
    for (tl_statement *s = load->next; s; s = s->next)
        for (int i = 0; i < all.count; i++) {
            if (!uses(r, s, all.items[i])) continue;
            last = s;
            bool is_made = s->kind == TL_COMPUTE && is_vector(loop, edit_target_name(s));
            if (is_made && !names_have(&all, edit_target_name(s)))
                names_add(r->memory, &all, edit_target_name(s));
        }
    for (const tl_statement *s = loop->next; s; s = s->next)
        for (int i = 0; i < all.count; i++)
            if (uses(r, s, all.items[i])) return NULL;
    while (last && last->next && !edit_is_product(last->next) &&
           (last->next->kind == TL_COMPUTE || last->next->kind == TL_RESHAPE))
        last = last->next;
    return last;
}

/* Vectors that come with each block are loaded a block ahead, into the registers of this one's:
 * from where the iteration begins memory takes longer than the first products.
 */
static void load_ahead(reason *r, tl_statement *loop) {
    tl_tensor tensor;
    for (tl_statement *s = loop->loop.body.first, *next; s && s->kind == TL_COPY; s = next) {
        next = s->next;
        /* An Output may still change; a view's place past the end need not exist. */
        bool is_plain = tl_find_tensor(r->kernel, s->copy.what->text, &tensor) &&
                        tensor.statement->kind == TL_INPUT;
        if (!is_plain || !is_vector(loop, edit_target_name(s))) continue;
        tl_statement *at = end_of_uses(r, loop, s);
        if (!at) continue;
        tl_block ahead = {0}, first = peel_iteration(r, loop, s, s->next, true);
        tl_block_append(&ahead, NULL, of_next_block(r, loop, s));
        edit_after(r->kernel, at, ahead);
        edit_before(r->kernel, loop, first);
        edit_remove(r->kernel, s);
    }
}

void leave_write(reason *r, tl_statement *loop, const leave_last *last) {
    load_ahead(r, loop);
    const tl_statement *first = loop->loop.body.first;
    edit_before(r->kernel, loop, peel_iteration(r, loop, first, NULL, true));
    tl_block after = copy_of(r, &last->issue, "of the last block");
    edit_join(&after, copy_of(r, &last->landing, ""));
    tl_block later = peel_iteration(r, loop, first, NULL, false);
    loop->loop.body = (tl_block){0};
    edit_append(&loop->loop.body, loop, later);
    edit_before(r->kernel, landing_place(r, loop, last), copy_of(r, &last->landing, ""));
    tl_statement *at = loop->loop.body.first; /* vectors are on their way before all products */
    while (at->kind == TL_COPY) at = at->next;
    edit_before(r->kernel, at, copy_of(r, &last->issue, "of the previous block"));
    at = loop; /* what they do not read is free before they run */
    while (at->next && at->next->kind == TL_RELEASE && !reads(last, at->next->sync.what->text))
        at = at->next;
    edit_after(r->kernel, at, after);
    peel_advance(r, loop);
}
