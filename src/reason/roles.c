/* Pass roles: copies move to a role of their own; products become asynchronous.
 *
 * For kernels of warpgroups. One warp walks the same loops as the warpgroups that compute and does
 * nothing but start copies; it runs ahead as far as the rings have slots, into the next tile. The
 * others wait for a tile before its first use and release it after its last, which of a product's
 * operand is after the product has landed. Each product is waited for at once; pass overlap moves
 * these Waits.
 */
#include "reason/warpgroups.h"

enum { CHANNELS_MAX = 32 };

static bool has_fill(tl_statement *s) {
    if (edit_is_fill(s)) return true;
    tl_block *body = tl_statement_body(s);
    for (tl_statement *t = body ? body->first : NULL; t; t = t->next)
        if (has_fill(t)) return true;
    return false;
}

/* --- the role that loads ---------------------------------------------------------------------- */

/* The copies of a block in their loops, and the constants of these. */
static tl_block loads_of(reason *r, const tl_block *block) {
    tl_block loads = {0};
    for (tl_statement *s = block->first; s; s = s->next) {
        if (s->kind != TL_LET && !has_fill(s)) continue;
        if (s->kind == TL_LET && (s->parent->kind == TL_ROLE || edit_is_vote(s))) continue;
        tl_statement *copy = tl_statement_copy(r->memory, s);
        copy->blank_before = false;
        tl_block *body = tl_statement_body(copy);
        if (body) {
            *body = (tl_block){0};
            edit_append(body, copy, loads_of(r, tl_statement_body(s)));
        }
        if (edit_is_fill(copy)) {
            copy->copy.is_async = true;
            copy->copy.atom = STR("tma");
        }
        tl_block_append(&loads, NULL, copy);
    }
    return loads;
}

static void write_load_role(reason *r, tl_statement *math) {
    int registers = warpgroups_load_registers(r, math->role.executors);
    tl_block role =
        tl_quote(r->memory,
                 "role load with 1 warp, %d registers // runs ahead as far as slots are free\nend",
                 registers);
    edit_append(&role.first->role.body, role.first, loads_of(r, &math->role.body));
    edit_before(r->kernel, math, role);
}

/* --- waits and releases of shared tiles ------------------------------------------------------- */

typedef struct channel {
    const char *shared; /* K_shared */
    tl_statement *first, *last;
} channel;

typedef struct channels {
    channel items[CHANNELS_MAX];
    int count;
} channels;

static bool take_channel(reason *r, channels *all, tl_statement *copy) {
    str name = edit_target_name(copy);
    channel c = {.shared = reason_say(r, "%.*s_shared", STR_ARGS(name))};
    if (!reason_find_uses(r, copy, &c.first, &c.last)) return false;
    if (all->count == CHANNELS_MAX)
        return reason_stuck(r, copy, "more than %d copies into shared memory", CHANNELS_MAX);
    bool is_in_loop = copy->parent->kind == TL_FOR;
    int64_t stages = is_in_loop ? reason_stages(r, name, 2)
                                : reason_decided(r, 1, "%.*s_stages", STR_ARGS(name));
    tl_statement *tile = edit_shared_tile(r->kernel, name);
    if (stages > 1 && tile)
        tile->allocate.stages = tl_quote_expr(r->memory, "%lld", (long long)stages);
    all->items[all->count++] = c;
    return true;
}

/* What the warpgroups themselves bring there is a channel, too, until they do so anew. */
static bool take_store(reason *r, channels *all, tl_statement *copy) {
    str name = edit_target_name(copy);
    channel c = {.shared = edit_z(r->memory, name)};
    for (tl_statement *s = copy->next; s && !edit_writes(s, name); s = s->next)
        if (edit_reads_within(s, name)) {
            c.first = c.first ? c.first : s;
            c.last = s;
        }
    if (!c.first)
        return reason_stuck(r, copy, "no product takes %.*s from shared memory", STR_ARGS(name));
    if (all->count == CHANNELS_MAX)
        return reason_stuck(r, copy, "more than %d copies into shared memory", CHANNELS_MAX);
    /* Parts of rows, which is what each of several warpgroups has of them, are stored as they are.
     */
    const tl_statement *from = edit_register_tile(r->kernel, copy->copy.what->text);
    if (!from || from->allocate.layout.over_columns < 2) copy->copy.atom = STR("stmatrix");
    all->items[all->count++] = c;
    return true;
}

static bool take_channels(reason *r, channels *all, tl_statement *math) {
    for (tl_statement *s = math->role.body.first, *next; s; s = next) {
        next = tl_next(s, math);
        if (edit_is_store(s) && !take_store(r, all, s)) return false;
        if (!edit_is_fill(s)) continue;
        if (!take_channel(r, all, s)) return false;
        edit_remove(r->kernel, s);
    }
    return true;
}

static void write_product_waits(reason *r, tl_statement *math) {
    for (tl_statement *s = math->role.body.first; s; s = tl_next(s, math)) {
        if (!edit_is_product(s)) continue;
        s->compute.is_async = true;
        str target = edit_target_name(s);
        bool is_last = /* of a row of products into the same tile, waited for together */
            !edit_is_product(s->next) || !str_equal(edit_target_name(s->next), target);
        if (is_last) reason_after(r, s, "Wait %.*s // it has landed", STR_ARGS(target));
    }
}

static tl_statement *landing_of(tl_statement *product) {
    tl_statement *s = product->next;
    str target = edit_target_name(product);
    while (s->kind != TL_WAIT || !str_equal(s->sync.what->text, target)) s = s->next;
    return s;
}

bool reason_roles(reason *r) {
    tl_statement *math = warpgroups_role(r->kernel);
    if (!math) return true;
    channels all = {0};
    write_load_role(r, math);
    if (!take_channels(r, &all, math)) return false;
    write_product_waits(r, math);
    for (int i = 0; i < all.count; i++) {
        const channel *c = &all.items[i];
        reason_before(r, c->first, "Wait %s // it has landed", c->shared);
        tl_statement *last = edit_is_product(c->last) ? landing_of(c->last) : c->last;
        while (last->next && last->next->kind == TL_RELEASE) last = last->next;
        reason_after(r, last, "Release %s // the slot is free", c->shared);
    }
    reason_forget_stages(r);
    reason_decide(r, "roles",
                  "one warp starts the copies of %d tiles and runs ahead as far as their slots are "
                  "free; %d warpgroups compute",
                  all.count, math->role.executors);
    return true;
}
