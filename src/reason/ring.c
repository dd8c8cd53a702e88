/* Pass stage, one ring: two tiles of one shape that a loop copies take turns in its slots.
 *
 * Where shared memory has room for three slots, two tiles with slots of their own (two and one)
 * meet at two barriers a block: one tile's only slot is copied anew right after its last use. In a
 * ring of three the slot that a copy takes was released half a block ago, so that nobody waits for
 * it; with an mbarrier for each slot there is no barrier of the block left in the loop.
 *
 * Where each tile has two slots, one barrier a block serves both, and a ring brings nothing.
 *
 * A tile has the axes of what is copied into it, so both must end in an axis of one name: where the
 * lengths have names of their own (`d` and `dv`), the axes of all tensors get a common index name.
 */
#include "reason/stage.h"
#include "reason/tiles.h"

typedef struct ring {
    reason *r;
    stage_loop *l;
    stage_channel *first, *second; /* in the order of their uses */
    tl_statement *first_tile, *second_tile;
    str name;
    int64_t slots;
} ring;

/* --- does the loop have the form? ------------------------------------------------------------- */

static bool is_alike(reason *r, const tl_allocation *a, const tl_allocation *b) {
    bool is_plain = a->name_count == 1 && b->name_count == 1 && a->type == b->type &&
                    a->swizzle_bytes == b->swizzle_bytes && !a->by_columns && !b->by_columns &&
                    !a->is_permuted && !b->is_permuted && !a->in_place_of.length &&
                    !b->in_place_of.length && a->shape.count == b->shape.count;
    for (int i = 0; is_plain && i < a->shape.count; i++) {
        int64_t one, other;
        is_plain = reason_known(r, a->shape.items[i], &one) &&
                   reason_known(r, b->shape.items[i], &other) && one == other;
    }
    return is_plain;
}

static str last_index(const reason *r, const stage_channel *c) {
    tl_tensor t;
    bool is_parameter = tl_find_tensor(r->kernel, c->copy->copy.what->text, &t) && !t.view;
    return is_parameter && t.axes->count ? tl_axis_index(t.axes, t.axes->count - 1) : (str){"", 0};
}

/* Can the index be renamed: does no element depend on it, and no view? */
static bool is_name_alone(reason *r, str index) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if ((s->kind == TL_COMPUTE || s->kind == TL_IF) && edit_mentions(s, index)) return false;
    for (tl_tensor t = {0}; tl_next_tensor(r->kernel, &t);)
        for (int i = 0; i < t.axes->count && t.view; i++)
            if (str_equal(tl_axis_index(t.axes, i), index)) return false;
    return true;
}

/* Is the tile read in shared memory only, and not by a copy into registers? */
static bool is_used_in_place(const reason *r, const stage_channel *c) {
    for (const tl_statement *s = r->kernel->body.first; s;
         s = tl_next((tl_statement *)(uintptr_t)s, NULL)) {
        bool is_tile = s->kind == TL_COPY && str_equal(s->copy.what->text, str_from(c->name));
        if (is_tile && s != c->copy) return false;
        if (s->kind == TL_ALLOCATE && str_equal(s->allocate.in_place_of, str_from(c->shared)))
            return false;
    }
    return c->copy->copy.target == NULL;
}

static bool has_form(ring *g) {
    reason *r = g->r;
    stage_loop *l = g->l;
    if (l->count != 2 || !gpu_has(r->target, GPU_FEATURE_mbarrier)) return false;
    g->first = &l->channels[0], g->second = &l->channels[1];
    g->slots = g->first->stages + g->second->stages;
    if (g->slots < 3 || g->slots > 4 || l->loop->parent->kind != TL_ROLE) return false;
    if (!edit_is_before(r->kernel, g->first->last_use, g->second->first_use)) return false;
    tl_statement *from = r->kernel->body.first;
    g->first_tile = edit_find_allocation(from, str_from(g->first->name), TL_SHARED);
    g->second_tile = edit_find_allocation(from, str_from(g->second->name), TL_SHARED);
    if (!is_alike(r, &g->first_tile->allocate, &g->second_tile->allocate)) return false;
    str a = last_index(r, g->first), b = last_index(r, g->second);
    if (!a.length || !b.length) return false;
    bool is_named = str_equal(a, b) || (is_name_alone(r, a) && is_name_alone(r, b));
    return is_named && is_used_in_place(r, g->first) && is_used_in_place(r, g->second);
}

/* --- names ------------------------------------------------------------------------------------ */

static void name_axis(reason *r, str index, str name) {
    for (tl_tensor t = {0}; tl_next_tensor(r->kernel, &t);)
        for (int i = 0; i < t.axes->count && !t.view; i++) {
            if (!str_equal(tl_axis_index(t.axes, i), index)) continue;
            t.axes->items[i].is_bare = false;
            t.axes->items[i].coordinate = tl_name_expr(r->memory, name);
        }
}

static void share_axis(ring *g) {
    reason *r = g->r;
    str a = last_index(r, g->first), b = last_index(r, g->second);
    if (str_equal(a, b)) return;
    str name = reason_fresh(r, "column");
    name_axis(r, a, name);
    name_axis(r, b, name);
}

static void share_tile(ring *g) {
    reason *r = g->r;
    const char *a = g->first->name, *b = g->second->name;
    bool are_letters = a[1] == 0 && b[1] == 0;
    const char *joined = reason_say(r, are_letters ? "%s%s" : "%s_%s", a, b);
    g->name = reason_fresh(r, "%s", joined);
    tl_allocation *tile = &g->first_tile->allocate;
    tile->names[0] = g->name;
    tile->stages = tl_quote_expr(r->memory, "%lld", (long long)g->slots);
    tile->channel = STR("mbarrier");
    g->first_tile->comment = str_from(reason_say(r, "%s and %s take turns in its slots", a, b));
    edit_remove(r->kernel, g->second_tile);
    edit_remove_let(r->kernel, str_from(reason_say(r, "%s_stages", a)));
    edit_remove_let(r->kernel, str_from(reason_say(r, "%s_stages", b)));
    tl_statement *from = r->kernel->body.first;
    edit_rename_from(from, str_from(g->first->shared), g->name);
    edit_rename_from(from, str_from(g->second->shared), g->name);
}

/* --- copies and waits ------------------------------------------------------------------------- */

static void append_copy(const ring *g, tl_block *to, const stage_channel *c, const char *base,
                        int64_t ahead, const char *comment) {
    tl_statement *copy = stage_copy_ahead(g->r, g->l, c, base, ahead);
    copy->copy.target_kind = TL_GET;
    copy->copy.target = tl_name_expr(g->r->memory, g->name);
    copy->comment = str_from(comment);
    tl_block_append(to, NULL, copy);
}

static void write_first_copies(const ring *g) {
    tl_block copies = {0};
    append_copy(g, &copies, g->first, g->l->from, 0, "the first block is under way");
    append_copy(g, &copies, g->second, g->l->from, 0, "");
    const char *condition =
        g->l->is_never_empty ? "" : stage_block_exists(g->r, g->l, g->l->from, 0);
    edit_before(g->r->kernel, stage_prologue_point(g->l), stage_under(g->r, condition, copies));
}

/* Of the next block, after a statement of this one's. */
static void write_next(const ring *g, tl_statement *after, tl_block copies) {
    tl_block next = stage_under(g->r, stage_block_exists(g->r, g->l, g->l->variable, 1), copies);
    next.first->comment = STR("not at the end");
    edit_after(g->r->kernel, after, next);
}

static void write_waits(const ring *g, const stage_channel *c) {
    const char *name = edit_z(g->r->memory, g->name);
    reason_before(g->r, c->first_use, "Wait %s // this block's %s has landed", name, c->name);
    reason_after(g->r, c->last_use, "Release %s // the slot is free", name);
}

static void write_ring(ring *g) {
    reason *r = g->r;
    share_axis(g);
    share_tile(g);
    write_first_copies(g);
    write_waits(g, g->first);
    write_waits(g, g->second);
    tl_block early = {0}, late = {0};
    append_copy(g, &early, g->first, g->l->variable, 1, "into a slot that is free since the last");
    append_copy(g, g->slots > 3 ? &early : &late, g->second, g->l->variable, 1, "");
    write_next(g, g->first->last_use->next, early);
    if (late.first) write_next(g, g->second->last_use->next, late);
    edit_remove(r->kernel, g->first->copy);
    edit_remove(r->kernel, g->second->copy);
}

/* A power of two, beside which addresses leave registers for the ring (docs/registers.md). */
static bool has_even_rows(const ring *g) {
    const tl_exprs *shape = &g->first_tile->allocate.shape;
    int64_t width = 0;
    reason_known(g->r, shape->items[shape->count - 1], &width);
    return width > 0 && (width & (width - 1)) == 0;
}

bool stage_ring(reason *r, stage_loop *l) {
    ring g = {.r = r, .l = l};
    int64_t wanted = reason_decided(r, -1, "ring");
    if (!has_form(&g)) return false;
    bool wants = wanted < 0 ? g.slots == 3 && has_even_rows(&g) : wanted > 0;
    reason_offers_switch(r, "ring", wants);
    if (!wants) {
        if (wanted == 0)
            reason_decide(r, "slots", "%s and %s have slots of their own, as %s", g.first->name,
                          g.second->name, reason_pin_word(r, "ring"));
        return false;
    }
    reason_decide(r, "slots",
                  "%s and %s take turns in one ring of %lld, with an mbarrier for each: a copy "
                  "waits for those that still read its slot, half a block later, and no warp for "
                  "all at a barrier",
                  g.first->name, g.second->name, (long long)g.slots);
    write_ring(&g);
    return true;
}
