/* Pass stage: when copies run, and who waits for what.
 *
 * A tile copied outside of loops is waited for before its first use and released after its last. A
 * tile that a loop copies becomes a ring: with asynchronous copies the next blocks are under way
 * while one is computed; without them the next block travels through registers.
 */
#include "reason/stage.h"
#include "reason/warpgroups.h"

/* --- uses ------------------------------------------------------------------------------------- */

static bool uses_within(tl_statement *s, str name, str shared) {
    for (tl_statement *t = s; t; t = tl_next(t, s))
        if (t->kind == TL_COPY ? t->copy.from == TL_SHARED && str_equal(t->copy.what->text, name)
                               : edit_reads(t, shared))
            return true;
    return false;
}

bool reason_find_uses(reason *r, tl_statement *copy, tl_statement **first, tl_statement **last) {
    str name = edit_target_name(copy), shared = stage_shared_name(r, name);
    *first = *last = NULL;
    for (tl_statement *s = copy->next; s; s = s->next)
        if (uses_within(s, name, shared)) {
            *first = *first ? *first : s;
            *last = s;
        }
    return *first ||
           reason_stuck(r, copy, "%.*s is copied and not used afterwards", STR_ARGS(name));
}

str stage_shared_name(reason *r, str name) {
    return str_format(r->memory, "%.*s_shared", STR_ARGS(name));
}

static void make_async(reason *r, tl_statement *copy) {
    if (!tiles_copy_async(r)) return;
    copy->copy.is_async = true;
    copy->copy.atom = STR("cp_async");
}

/* --- through registers, in place ----------------------------------------------------------------
 */

void stage_allocate_lines(reason *r, const tl_statement *copy) {
    const char *name = edit_z(r->memory, edit_target_name(copy));
    tl_statement *shared = edit_shared_tile(r->kernel, str_from(name));
    str shape = {"", 0};
    for (int i = 0; i < shared->allocate.shape.count; i++)
        reason_list(r, &shape, ", ", "%s", edit_text(r->memory, shared->allocate.shape.items[i]));
    tl_statement *role = r->kernel->body.last;
    for (tl_statement *s = role->role.body.first; s && s->kind == TL_ALLOCATE; s = s->next)
        if (str_equal(s->allocate.names[0], str_from(name))) return;
    tl_statement *last = role->role.body.first;
    while (last->next && last->next->kind == TL_ALLOCATE) last = last->next;
    reason_after(
        r, last, "Allocate %s in register %s (%.*s) as lines // in transit, 16 bytes a lane", name,
        tl_type_name(tiles_tensor_type(r->kernel, copy->copy.what->text)), STR_ARGS(shape));
}

/* Elements of 8 bits widen there. */
static void widen_in_place(reason *r, tl_statement *copy) {
    if (!tiles_widens(r->kernel, copy)) return;
    stage_allocate_lines(r, copy);
    copy->copy.to = TL_REGISTER;
    reason_after(r, copy, "Copy %.*s from register to shared // exact in 16 bits",
                 STR_ARGS(edit_target_name(copy)));
}

/* --- tiles copied outside of loops ------------------------------------------------------------ */

static bool stage_standing(reason *r, tl_statement *copy) {
    str name = edit_target_name(copy), shared = stage_shared_name(r, name);
    tl_statement *first, *last;
    if (!reason_find_uses(r, copy, &first, &last)) return false;
    if (!tiles_widens(r->kernel, copy)) make_async(r, copy);
    reason_before(r, first, "Wait %.*s // it has landed, for all warps", STR_ARGS(shared));
    reason_after(r, last, "Release %.*s // nothing reads it any more", STR_ARGS(shared));
    widen_in_place(r, copy);
    return true;
}

/* --- operands that are computed -----------------------------------------------------------------
 */

/* Until it is stored anew: waited for before its first use, released after its last. */
static bool stage_stored(reason *r, tl_statement *copy) {
    str name = edit_target_name(copy);
    tl_statement *first = NULL, *last = NULL;
    for (tl_statement *s = copy->next; s && !edit_writes(s, name); s = s->next)
        if (edit_reads_within(s, name)) {
            first = first ? first : s;
            last = s;
        }
    if (!first)
        return reason_stuck(r, copy, "no product takes %.*s from shared memory", STR_ARGS(name));
    reason_before(r, first, "Wait %.*s // all of it is there", STR_ARGS(name));
    reason_after(r, last, "Release %.*s // nothing reads it any more", STR_ARGS(name));
    return true;
}

bool stage_is_fill(const tl_statement *s) {
    return edit_is_fill(s) && !s->copy.is_async;
}

/* --- loops ------------------------------------------------------------------------------------ */

int64_t reason_stages(reason *r, str tile, int64_t otherwise) {
    otherwise = reason_decided(r, otherwise, "stages");
    return reason_decided(r, otherwise, "%.*s_stages", STR_ARGS(tile));
}

/* Is the bound `max(1, ...)`, or `max(first + 1, ...)`, or a positive number? */
bool reason_is_never_empty(reason *r, const tl_statement *loop) {
    const tl_expr *to = loop->loop.to;
    int64_t from, count;
    if (reason_known(r, loop->loop.from, &from) && reason_known(r, to, &count)) return count > from;
    if (to->kind == TL_NAME) {
        tl_binding *let = edit_find_let(r->kernel, to->text, NULL);
        to = let ? let->value : to;
    }
    if (to->kind != TL_CALL || to->function != TL_FUNCTION_MAX) return false;
    const tl_expr *least = to->items[0];
    if (reason_known(r, loop->loop.from, &from) && from == 0)
        return least->kind == TL_INTEGER && least->integer >= 1;
    return least->kind == TL_BINARY &&
           least->operator== TL_PLUS && tl_expr_equal(least->left, loop->loop.from) &&
           least->right->kind == TL_INTEGER && least->right->integer >= 1;
}

static bool add_channel(reason *r, stage_loop *l, tl_statement *copy) {
    if (l->count == STAGE_CHANNELS_MAX)
        return reason_stuck(r, copy, "more than %d tiles are copied in one loop",
                            STAGE_CHANNELS_MAX);
    str name = edit_target_name(copy);
    stage_channel c = {.name = edit_z(r->memory, name),
                       .copy = copy,
                       .stages = tiles_copy_async(r) ? reason_stages(r, name, 2) : 1};
    c.shared = edit_z(r->memory, stage_shared_name(r, name));
    if (c.stages < 1 || c.stages > STAGES_MAX)
        return reason_stuck(r, copy, "%s cannot have %lld stages; 1 to %d are possible", c.name,
                            (long long)c.stages, STAGES_MAX);
    for (int i = 0; i < l->count; i++)
        if (str_equal(str_from(l->channels[i].name), name))
            return reason_stuck(r, copy, "%s is copied twice in one iteration", c.name);
    if (!reason_find_uses(r, copy, &c.first_use, &c.last_use)) return false;
    int at = l->count++;
    for (; at > 0 && edit_is_before(r->kernel, c.first_use, l->channels[at - 1].first_use); at--)
        l->channels[at] = l->channels[at - 1];
    l->channels[at] = c;
    return true;
}

/* Waits at the head: tiles of the first product; all of them when each has a slot to spare, since
 * one barrier then serves the whole iteration.
 */
static void choose_heads(stage_loop *l) {
    bool all_double = true;
    for (int i = 0; i < l->count; i++) all_double = all_double && l->channels[i].stages > 1;
    for (int i = 0; i < l->count; i++)
        l->channels[i].is_head = all_double || l->channels[i].first_use == l->channels[0].first_use;
}

tl_statement *stage_copy_ahead(reason *r, const stage_loop *l, const stage_channel *c,
                               const char *base, int64_t ahead) {
    tl_statement *copy = tl_statement_copy(r->memory, c->copy);
    tl_expr *at = ahead == 0 ? tl_quote_expr(r->memory, "%s", base)
                  : str_is(str_from(base), "0")
                      ? tl_quote_expr(r->memory, "%lld", (long long)ahead)
                      : tl_quote_expr(r->memory, "%s + %lld", base, (long long)ahead);
    for (int i = 0; i < copy->copy.place.count; i++)
        if (copy->copy.place.items[i].at)
            copy->copy.place.items[i].at =
                edit_substitute(r->memory, copy->copy.place.items[i].at, str_from(l->variable), at);
    copy->comment = (str){"", 0};
    copy->blank_before = false;
    make_async(r, copy);
    return copy;
}

static void append(tl_block *block, tl_statement *s) {
    tl_block_append(block, NULL, s);
}

tl_block stage_under(reason *r, const char *condition, tl_block inner) {
    return condition[0] ? reason_under(r, condition, "", inner) : inner;
}

const char *stage_block_exists(reason *r, const stage_loop *l, const char *base, int64_t ahead) {
    if (ahead == 0) return reason_say(r, "%s < %s", base, l->to);
    return str_is(str_from(base), "0")
               ? reason_say(r, "%lld < %s", (long long)ahead, l->to)
               : reason_say(r, "%s + %lld < %s", base, (long long)ahead, l->to);
}

tl_statement *stage_prologue_point(const stage_loop *l) {
    tl_statement *at = l->loop;
    while (at->previous &&
           (at->previous->kind == TL_COMPUTE ||
            (at->previous->kind == TL_COPY && at->previous->copy.from == TL_SHARED)))
        at = at->previous;
    return at;
}

/* --- with asynchronous copies ----------------------------------------------------------------- */

/* Is the only slot filled again as soon as it is free? A head's is; a lone warp, which waits for
 * nobody, does so with all of them: the copies of two tiles are under way, not of one at a time.
 */
static bool is_refilled(const stage_loop *l, const stage_channel *c) {
    return c->stages == 1 && (c->is_head || l->is_lone);
}

/* How many blocks ahead of the iteration the channel's copy inside the loop is. */
static int64_t distance(const stage_loop *l, const stage_channel *c) {
    if (c->stages > 1) return c->stages - 1;
    return is_refilled(l, c) ? 1 : 0;
}

/* The first of the copies right before a statement. */
static tl_statement *first_copy_before(tl_statement *s) {
    while (s->previous && s->previous->kind == TL_COPY && s->previous->copy.to == TL_SHARED)
        s = s->previous;
    return s;
}

/* A lone warp issues copies one after another, and finds a place for each: those of the loop's
 * first tile come before those of tiles that it is multiplied with, which are smaller. What a table
 * says of their places is so read before anything is waited for.
 */
static void write_prologue(reason *r, stage_loop *l) {
    tl_statement *at = stage_prologue_point(l);
    for (int64_t ahead = 0; ahead < STAGES_MAX; ahead++) {
        bool is_sure = ahead == 0 && l->is_never_empty;
        tl_block copies = {0}, earlier = {0};
        for (int i = 0; i < l->count; i++)
            if (ahead < distance(l, &l->channels[i]))
                append(is_sure && l->is_lone && i == 0 ? &earlier : &copies,
                       stage_copy_ahead(r, l, &l->channels[i], l->from, ahead));
        tl_statement *first = earlier.first ? earlier.first : copies.first;
        if (!first) return;
        first->comment =
            ahead == 0 ? STR("the first block is in flight") : STR("one block further");
        if (earlier.first) edit_before(r->kernel, first_copy_before(at), earlier);
        if (copies.first)
            edit_before(
                r->kernel, at,
                stage_under(r, is_sure ? "" : stage_block_exists(r, l, l->from, ahead), copies));
    }
}

/* Copies that start at the head, once the head's tiles are here: those of this iteration first. */
static tl_block head_copies(reason *r, stage_loop *l) {
    tl_block all = {0};
    for (int64_t ahead = 0; ahead < STAGES_MAX; ahead++) {
        tl_block copies = {0};
        for (int i = 0; i < l->count; i++) {
            const stage_channel *c = &l->channels[i];
            if (distance(l, c) == ahead && !is_refilled(l, c))
                append(&copies, stage_copy_ahead(r, l, c, l->variable, ahead));
        }
        if (!copies.first) continue;
        copies.first->comment = ahead == 0 ? STR("of this block; needed later")
                                           : STR("the slot was released before the last barrier");
        tl_block one =
            stage_under(r, ahead == 0 ? "" : stage_block_exists(r, l, l->variable, ahead), copies);
        if (ahead > 0) one.first->comment = STR("not at the end");
        for (tl_statement *s = one.first, *next; s; s = next) {
            next = s->next;
            append(&all, s);
        }
    }
    return all;
}

/* A lone warp's: each right after its Release. */
static void refill_alone(reason *r, stage_loop *l) {
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        if (!is_refilled(l, c)) continue;
        tl_block copies = {0};
        append(&copies, stage_copy_ahead(r, l, c, l->variable, 1));
        copies.first->comment = STR("into the slot that was released");
        tl_block one = stage_under(r, stage_block_exists(r, l, l->variable, 1), copies);
        tl_statement *release = c->last_use->next;
        while (release->next && release->next->kind == TL_RELEASE) release = release->next;
        edit_after(r->kernel, release, one);
    }
}

/* Head tiles with one slot are refilled after the first Wait after their Releases, or right there.
 */
static void refill_heads(reason *r, stage_loop *l) {
    tl_block copies = {0};
    tl_statement *at = NULL;
    for (int i = 0; i < l->count; i++) {
        stage_channel *c = &l->channels[i];
        if (c->stages > 1 || !c->is_head) continue;
        append(&copies, stage_copy_ahead(r, l, c, l->variable, 1));
        if (!at || edit_is_before(r->kernel, at, c->last_use)) at = c->last_use;
    }
    if (!at) return;
    copies.first->comment = STR("into the slot that was released");
    while (at->next && at->next->kind == TL_RELEASE) at = at->next;
    for (tl_statement *s = at; s; s = s->next)
        if (s->kind == TL_WAIT) {
            at = s;
            break;
        }
    while (at->kind == TL_WAIT && at->next && at->next->kind == TL_WAIT) at = at->next;
    edit_after(r->kernel, at, stage_under(r, stage_block_exists(r, l, l->variable, 1), copies));
}

static void write_waits(reason *r, stage_loop *l) {
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        reason_after(r, c->last_use, "Release %s // the slot is free", c->shared);
        if (!c->is_head)
            reason_before(r, c->first_use, "Wait %s // this block's tile has landed", c->shared);
    }
}

static void write_async(reason *r, stage_loop *l) {
    write_prologue(r, l);
    for (int i = 0; i < l->count; i++) edit_remove(r->kernel, l->channels[i].copy);
    write_waits(r, l);
    tl_statement *first = l->loop->loop.body.first;
    for (int i = 0; i < l->count; i++)
        if (l->channels[i].is_head)
            reason_before(r, first, "Wait %s // this block's tile has landed, for all warps",
                          l->channels[i].shared);
    edit_before(r->kernel, first, head_copies(r, l));
    if (l->is_lone) refill_alone(r, l);
    else refill_heads(r, l);
}

/* --- through registers ------------------------------------------------------------------------ */

static tl_statement *load_ahead(reason *r, const stage_loop *l, const stage_channel *c,
                                const char *base, int64_t ahead, const char *comment) {
    tl_statement *copy = stage_copy_ahead(r, l, c, base, ahead);
    copy->copy.to = TL_REGISTER;
    copy->comment = str_from(comment);
    return copy;
}

static void write_staged(reason *r, stage_loop *l) {
    tl_block first = {0};
    for (int i = 0; i < l->count; i++) {
        stage_allocate_lines(r, l->channels[i].copy);
        if (l->channels[i].is_head)
            append(&first,
                   load_ahead(r, l, &l->channels[i], l->from, 0, "in flight until its first use"));
    }
    edit_before(
        r->kernel, stage_prologue_point(l),
        stage_under(r, l->is_never_empty ? "" : stage_block_exists(r, l, l->from, 0), first));
    for (int i = 0; i < l->count; i++) edit_remove(r->kernel, l->channels[i].copy);
    bool all_heads = l->channels[l->count - 1].is_head;
    tl_statement *body = l->loop->loop.body.first;
    tl_statement *loaded = NULL; /* the next block is loaded after this: it goes to registers */
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        reason_after(r, c->last_use, "Release %s // the slot is free", c->shared);
        if (c->is_head && (!loaded || edit_is_before(r->kernel, loaded, c->first_use)))
            loaded = c->first_use;
        if (c->is_head) reason_before(r, body, "Copy %s from register to shared", c->name);
    }
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        if (c->is_head) continue;
        tl_block load = {0};
        append(&load, load_ahead(r, l, c, l->variable, 0, "overlaps the products before its use"));
        edit_before(r->kernel, body, load);
        reason_before(r, c->first_use,
                      "Copy %s from register to shared\nWait %s // this block's tile has landed",
                      c->name, c->shared);
    }
    tl_block next = {0};
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        if (!c->is_head) continue;
        reason_before(r, body, "Wait %s // this block's tile has landed, for all warps", c->shared);
        append(&next, load_ahead(r, l, c, l->variable, 1, "of the next block"));
    }
    next = stage_under(r, stage_block_exists(r, l, l->variable, 1), next);
    while (loaded->next && loaded->next->kind == TL_RELEASE) loaded = loaded->next;
    if (all_heads) edit_before(r->kernel, body, next);
    else edit_after(r->kernel, loaded, next);
}

/* Does the loop take a tile's fragments to registers, under the name that blocks on their way would
 * have there?
 */
static bool has_fragments(const stage_loop *l) {
    for (const tl_statement *s = l->loop->loop.body.first; s; s = s->next)
        for (int i = 0; i < l->count; i++)
            if (s->kind == TL_COPY && s->copy.from == TL_SHARED && s->copy.to == TL_REGISTER &&
                str_is(edit_target_name(s), l->channels[i].name))
                return true;
    return false;
}

/* Copies in place: each right before its Wait. Fewest registers, nothing overlaps within a block.
 */
static void write_plain(reason *r, stage_loop *l) {
    for (int i = 0; i < l->count; i++) {
        const stage_channel *c = &l->channels[i];
        reason_after(r, c->last_use, "Release %s // the slot is free", c->shared);
        edit_move_before(r->kernel, c->first_use, c->copy);
        reason_before(r, c->first_use, "Wait %s // this block's tile has landed, for all warps",
                      c->shared);
        widen_in_place(r, c->copy);
    }
}

/* --- bytes used twice ------------------------------------------------------------------------- */

/* The last tile that a loop after 's' stores, and that hosts nothing yet. */
static tl_statement *find_host(reason *r, const tl_statement *s) {
    tl_statement *host = NULL;
    for (tl_statement *t = s->next; t && !host; t = t->next)
        for (tl_statement *u = t->kind == TL_FOR ? t->loop.body.first : NULL; u; u = u->next) {
            bool is_store = u->kind == TL_COPY && u->copy.to == TL_SHARED && !u->copy.is_async;
            if (is_store && !edit_is_host(r->kernel, u->copy.what->text))
                host = edit_shared_tile(r->kernel, u->copy.what->text);
        }
    return host;
}

/* Without asynchronous copies a loop's tiles are stored in the loop only, so that what passes
 * through shared memory before the loop can borrow the bytes of one.
 */
static void share_bytes(reason *r) {
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind != TL_ALLOCATE || s->allocate.space != TL_SHARED ||
            s->allocate.in_place_of.length > 0)
            continue;
        str name = s->allocate.names[0];
        const tl_statement *release = edit_last_release(r->kernel, name);
        if (!release || release->parent->kind != TL_ROLE || edit_is_host(r->kernel, name)) continue;
        tl_statement *host = find_host(r, release);
        if (!host || host == s) continue;
        s->allocate.in_place_of = stage_shared_name(r, host->allocate.names[0]);
        tl_statement *after = host;
        while (after->next && after->next->kind == TL_ALLOCATE) after = after->next;
        if (after != s) edit_move_after(r->kernel, after, s);
        reason_decide(r, "shared memory",
                      "%.*s only passes through, so it borrows the bytes of %.*s",
                      STR_ARGS(s->allocate.names[0]), STR_ARGS(host->allocate.names[0]));
    }
}

/* --- the pass --------------------------------------------------------------------------------- */

static bool stage_one(reason *r, tl_statement *loop) {
    stage_loop l = {.loop = loop};
    l.from = edit_factor_text(r->memory, loop->loop.from);
    l.to = edit_factor_text(r->memory, loop->loop.to);
    l.variable = edit_z(r->memory, loop->loop.name);
    l.is_never_empty = reason_is_never_empty(r, loop);
    const tl_role *role = &r->kernel->body.last->role;
    l.is_lone = role->executors == 1 && !role->is_warpgroups;
    if (tiles_copy_async(r)) stage_widen_loop(r, loop);
    for (tl_statement *s = loop->loop.body.first; s; s = s->next)
        if (stage_is_fill(s) && !add_channel(r, &l, s)) return false;
    if (l.count == 0) return true;
    if (tiles_copy_async(r) && stage_ring(r, &l)) return true;
    choose_heads(&l);
    for (int i = 0; i < l.count; i++) {
        const stage_channel *c = &l.channels[i];
        tl_statement *allocation = edit_shared_tile(r->kernel, str_from(c->name));
        if (c->stages > 1)
            allocation->allocate.stages = tl_quote_expr(r->memory, "%lld", (long long)c->stages);
    }
    if (tiles_copy_async(r)) write_async(r, &l);
    else if (!reason_decided(r, 1, "copies_ahead") || has_fragments(&l)) write_plain(r, &l);
    else write_staged(r, &l);
    stage_vectors_first(r, loop);
    return true;
}

void reason_forget_stages(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_ALLOCATE && i < s->allocate.name_count; i++)
            edit_remove_let(r->kernel,
                            str_format(r->memory, "%.*s_stages", STR_ARGS(s->allocate.names[i])));
}

bool reason_stage(reason *r) {
    /* Passes roles and pair have done it. */
    if (warpgroups_role(r->kernel) || warpgroups_are_paired(r->kernel)) return true;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_store(s) && !stage_stored(r, s)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_FOR && !stage_one(r, s)) return false;
    for (tl_statement *s = r->kernel->body.first, *next; s; s = next) {
        next = tl_next(s, NULL);
        if (stage_is_fill(s) && s->parent->kind == TL_ROLE && !stage_standing(r, s)) return false;
    }
    if (!tiles_copy_async(r)) share_bytes(r);
    reason_forget_stages(r);
    return true;
}
