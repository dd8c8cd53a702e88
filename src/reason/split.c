/* Pass split: iterations that need no `if` have a loop of their own.
 *
 * A loop over blocks asks in each iteration what is true at its ends only: does another block
 * follow, does this one reach past the edge, is the next copy cut? A branch between a product and
 * what is computed from it keeps the compiler from mixing their instructions, so that the units for
 * products and for special functions take turns where they could work side by side. Where such
 * tests become false, or true, for good at a known iteration, all before it are in a loop
 * without them, and the others follow in a loop as it was. The price is text.
 *
 * There, copies for later iterations start after the first product, beside which their addresses
 * are worked out, instead of delaying it. They stay before it where that takes registers which the
 * mixture needs: elements computed from index names, rows that are no power of two or not alike.
 * And the loop stays whole where rows are wider than 128 elements, with fragments in too many
 * places, where rows of two lengths are copied, and where both elements and uneven rows want
 * registers for their places (docs/registers.md).
 */
#include "reason/scalar.h"
#include "reason/tiles.h"

enum { SPLIT_LIMITS_MAX = 8, WIDTH_MAX = 128 };

/* Something holds for all j < edge - ahead. */
typedef struct limit {
    const tl_expr *edge;
    int64_t ahead;
} limit;

typedef struct split_plan {
    reason *r;
    tl_statement *loop;
    limit limits[SPLIT_LIMITS_MAX];
    int limit_count;
    int tests; /* branches that the first loop does without */
    bool is_open;
    bool copies_after; /* of the first product */
    bool has_places;   /* elements are computed from index names */
    bool is_uneven;    /* copied rows are no power of two, or not alike */
    bool is_mixed;     /* not alike */
    bool is_wide;      /* or longer than WIDTH_MAX */
} split_plan;

/* j, or j + n with n >= 0. */
static bool is_ahead(const tl_expr *e, str j, int64_t *n) {
    *n = 0;
    if (e->kind == TL_NAME) return str_equal(e->text, j);
    if (e->kind != TL_BINARY || e->operator!= TL_PLUS || e->right->kind != TL_INTEGER) return false;
    *n = e->right->integer;
    return *n >= 0 && e->left->kind == TL_NAME && str_equal(e->left->text, j);
}

/* Is the condition settled for all iterations before some edge: `j + 1 < blocks` true, `j >= full`
 * false?
 */
static bool settles(const tl_expr *c, str j, limit *l, bool *holds) {
    if (c->kind != TL_BINARY || !is_ahead(c->left, j, &l->ahead)) return false;
    if (tl_expr_names(c->right, j)) return false;
    l->edge = c->right;
    *holds = c->operator== TL_LESS;
    return c->operator== TL_LESS || c->operator== TL_GREATER_EQUAL;
}

/* Of several limits with one edge the nearest remains. */
static void add_limit(split_plan *p, limit l) {
    for (int i = 0; i < p->limit_count; i++) {
        limit *old = &p->limits[i];
        if (!tl_expr_equal(old->edge, l.edge)) continue;
        if (l.ahead > old->ahead) old->ahead = l.ahead;
        return;
    }
    if (p->limit_count == SPLIT_LIMITS_MAX) p->is_open = true;
    else p->limits[p->limit_count++] = l;
}

static void read_branch(split_plan *p, const tl_statement *s) {
    limit l;
    bool holds;
    if (edit_is_any(s->branch.condition)) return;
    if (!settles(s->branch.condition, p->loop->loop.name, &l, &holds)) {
        p->is_open = true;
        return;
    }
    p->tests++;
    add_limit(p, l);
}

/* A copy from tile j + n on is not cut while that tile lies wholly before the end of its axis. */
static void read_copy(split_plan *p, const tiles_list *tiles, const tl_statement *s) {
    reason *r = p->r;
    const tl_axes *axes = tiles_tensor(r->kernel, s->copy.what->text);
    for (int i = 0; axes && i < axes->count && i < s->copy.place.count; i++) {
        const tl_spot *spot = &s->copy.place.items[i];
        limit l;
        int64_t length, size;
        if (spot->is_all || !spot->is_block) continue;
        if (!is_ahead(spot->at, p->loop->loop.name, &l.ahead)) continue;
        const tiles_span *span = tiles_extent(tiles, tl_axis_index(axes, i));
        if (!span) continue;
        if (reason_known(r, span->length, &length) && reason_known(r, span->extent, &size) &&
            size > 0 && length % size == 0)
            continue;
        tl_expr *whole =
            tl_quote_expr(r->memory, "floor(%s/%s)", edit_text(r->memory, span->length),
                          edit_factor_text(r->memory, span->extent));
        l.edge = tl_quote_expr(r->memory, "%s",
                               scalar_name(r, whole, "whole", "blocks before this one are whole"));
        add_limit(p, l);
    }
}

/* How many elements are in a row of what the loop copies. */
static void read_widths(split_plan *p) {
    int64_t first = 0, width;
    for (tl_statement *s = tl_next(p->loop, p->loop); s; s = tl_next(s, p->loop)) {
        const tl_exprs *shape = &s->copy.shape;
        if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL || shape->count == 0) continue;
        if (!reason_known(p->r, shape->items[shape->count - 1], &width)) continue;
        first = first ? first : width;
        p->is_mixed = p->is_mixed || width != first;
        p->is_uneven = p->is_uneven || width != first || (width & (width - 1)) != 0;
        p->is_wide = p->is_wide || width > WIDTH_MAX;
    }
}

static split_plan make_plan(reason *r, tl_statement *loop, bool copies_after) {
    split_plan p = {.r = r, .loop = loop, .copies_after = copies_after};
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop)) {
        if (s->kind == TL_IF) read_branch(&p, s);
        p.is_open = p.is_open || s->kind == TL_FOR;
        p.has_places = p.has_places || (s->kind == TL_COMPUTE && s->compute.place.is_given &&
                                        s->compute.operation != TL_MASK);
    }
    if (p.is_open || p.tests == 0) return p;
    read_widths(&p);
    for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop))
        if (s->kind == TL_COPY && s->copy.from == TL_GLOBAL) read_copy(&p, tiles, s);
    add_limit(&p, (limit){loop->loop.to, 0});
    return p;
}

static bool is_settled(const split_plan *p, const tl_statement *s, bool *holds) {
    limit l;
    return s->kind == TL_IF && !edit_is_any(s->branch.condition) &&
           settles(s->branch.condition, p->loop->loop.name, &l, holds);
}

/* Copies statements from s on, or s alone, without the tests that the limits settle. */
static void append_settled(const split_plan *p, tl_block *to, tl_statement *parent,
                           const tl_statement *s, bool is_alone) {
    for (; s; s = is_alone ? NULL : s->next) {
        bool holds = false, is_test = is_settled(p, s, &holds);
        if (is_test && holds) append_settled(p, to, parent, s->branch.body.first, false);
        if (is_test) continue;
        tl_statement *copy = tl_statement_copy(p->r->memory, s);
        tl_block_append(to, parent, copy);
        tl_block *body = tl_statement_body(copy);
        if (!body) continue;
        const tl_statement *first = body->first;
        *body = (tl_block){0};
        append_settled(p, body, copy, first, false);
    }
}

static str filled(const tl_statement *copy) {
    return edit_bare(edit_target_name(copy));
}

static const tl_statement *ring_of(const split_plan *p, const tl_statement *copy) {
    const tl_statement *ring = edit_shared_tile(p->r->kernel, filled(copy));
    return ring && ring->allocate.channel.length ? ring : NULL;
}

/* Slots of a ring that no generation may take when the loop begins: nor in any iteration, since
 * each fills as many as it releases.
 */
static int64_t free_slots(const split_plan *p, const tl_statement *ring) {
    int64_t slots = 1;
    if (ring->allocate.stages) reason_known(p->r, ring->allocate.stages, &slots);
    str name = ring->allocate.names[0];
    tl_statement *role = p->loop->parent;
    for (tl_statement *s = role->role.body.first; s && s != p->loop; s = tl_next(s, role)) {
        if (s->kind == TL_RELEASE && str_equal(edit_bare(s->sync.what->text), name)) slots++;
        if (s->kind == TL_COPY && s->copy.to == TL_SHARED && ring_of(p, s) == ring) slots--;
    }
    return slots;
}

/* Copies into a ring that are after a Release, and need not: other slots are free. */
static bool may_rise(const split_plan *p, const tl_statement *s, const tl_statement **ring) {
    int64_t count = 0;
    bool holds = false;
    if (!is_settled(p, s, &holds) || !holds) return false;
    for (const tl_statement *copy = s->branch.body.first; copy; copy = copy->next, count++) {
        if (copy->kind != TL_COPY || copy->copy.to != TL_SHARED) return false;
        const tl_statement *its = ring_of(p, copy);
        if (!its || (*ring && its != *ring)) return false;
        *ring = its;
    }
    return *ring && count <= free_slots(p, *ring);
}

/* Copies that fill slots for later iterations, in a test that is settled. They may be put off until
 * after the product: nothing between uses them, or fills the same tile in their stead. (What else
 * a test lets happen, a Mask or a step of one's own, may change what the product takes.)
 */
static bool may_wait(const split_plan *p, const tl_statement *s, const tl_statement *product) {
    bool holds = false;
    if (!is_settled(p, s, &holds) || !holds) return false;
    for (const tl_statement *copy = s->branch.body.first; copy; copy = copy->next) {
        if (!edit_is_fill(copy)) return false;
        for (const tl_statement *t = s->next; t != product; t = t->next)
            if (t->kind == TL_COPY && t->copy.to == TL_SHARED && str_equal(filled(t), filled(copy)))
                return false;
    }
    return true;
}

/* The loop's own statements. Copies for later iterations that are before the first product follow
 * it.
 */
static void append_body(const split_plan *p, tl_statement *to) {
    const tl_statement *first = p->loop->loop.body.first, *product = NULL;
    for (const tl_statement *s = first; s && !product; s = s->next)
        if (edit_is_product(s)) product = s;
    tl_block later = {0};
    bool moves = product && p->copies_after && !p->has_places && !p->is_uneven;
    const tl_statement *ring = NULL, *risen = NULL;
    for (const tl_statement *s = product; s && moves && !ring; s = s->next)
        if (may_rise(p, s, &ring)) risen = s;
    bool is_before = moves;
    for (const tl_statement *s = first; s; s = s->next) {
        bool is_later = is_before && may_wait(p, s, product);
        if (s != risen) append_settled(p, is_later ? &later : &to->loop.body, to, s, true);
        if (s != product) continue;
        is_before = false;
        if (risen) append_settled(p, &later, NULL, risen, true);
        edit_append(&to->loop.body, to, later);
    }
}

/* The first iteration that keeps its tests: min(full, blocks) - 1, min(full, blocks - 1). */
static const char *edge_text(const split_plan *p) {
    arena *memory = p->r->memory;
    int64_t least = p->limits[0].ahead;
    for (int i = 1; i < p->limit_count; i++)
        if (p->limits[i].ahead < least) least = p->limits[i].ahead;
    str list = {"", 0};
    for (int i = 0; i < p->limit_count; i++) {
        const limit *l = &p->limits[i];
        reason_list(p->r, &list, ", ", "%s", edit_text(memory, l->edge));
        if (l->ahead > least)
            reason_list(p->r, &list, " - ", "%lld", (long long)(l->ahead - least));
    }
    if (p->limit_count > 1) list = str_format(memory, "min(%.*s)", STR_ARGS(list));
    if (least) reason_list(p->r, &list, " - ", "%lld", (long long)least);
    return list.data;
}

static void split(const split_plan *p) {
    reason *r = p->r;
    tl_statement *loop = p->loop;
    const char *name = edit_z(r->memory, loop->loop.name);
    const char *from = edit_text(r->memory, loop->loop.from);
    tl_expr *edge = tl_quote_expr(r->memory, "%s", edge_text(p));
    const char *steady = scalar_name(r, edge, "steady", "iterations before this one have no ends");
    tl_block first = tl_quote(r->memory, "for %s = %s:%s // no tests in these iterations\nend",
                              name, from, steady);
    append_body(p, first.first);
    edit_before(r->kernel, loop, first);
    loop->loop.from = tl_quote_expr(r->memory, "max(%s, %s)", from, steady);
    loop->comment = STR("the iterations at the end");
    reason_decide(r, "iterations at the end",
                  "stand in a loop over %s of their own; those before `%s` are rid of %d branches",
                  name, steady, p->tests);
}

bool reason_split(reason *r) {
    int64_t wanted = reason_decided(r, -1, "split"), after = reason_decided(r, 1, "copies_after");
    int roles = 0; /* with several, each is short */
    for (tl_statement *s = r->kernel->body.first; s; s = s->next) roles += s->kind == TL_ROLE;
    bool wants = wanted < 0 ? tiles_copy_async(r) : wanted > 0;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        bool is_main =
            s->kind == TL_FOR && !s->loop.is_grid_walk && s->parent && s->parent->kind == TL_ROLE;
        if (!is_main || roles != 1) continue;
        split_plan p = make_plan(r, s, after != 0);
        const char *j = edit_z(r->memory, s->loop.name);
        if (p.tests == 0) continue;
        bool is_full = p.is_wide || p.is_mixed || (p.is_uneven && p.has_places);
        bool wants_this = wanted < 0 ? wants && !is_full : wants;
        if (!p.is_open) reason_offers_switch(r, "split", wants_this);
        if (p.is_open) {
            reason_decide(r, "iterations at the end",
                          "stay in the loop over %s: it has tests at both ends", j);
        } else if (wanted == 0) {
            reason_decide(r, "iterations at the end", "stay in the loop over %s, as %s", j,
                          reason_pin_word(r, "split"));
        } else if (wants && !wants_this) {
            reason_decide(r, "iterations at the end",
                          "stay in the loop over %s: %s need the registers", j,
                          p.is_wide    ? "fragments of rows of more than 128 elements"
                          : p.is_mixed ? "copies of rows of two lengths"
                                       : "uneven rows and elements computed from their places");
        } else if (!wants) {
            reason_decide(r, "iterations at the end",
                          "stay in the loop over %s: its copies pass through registers, and the "
                          "text would grow by half",
                          j);
        } else {
            if (!p.has_places && !p.is_uneven) reason_offers_switch(r, "copies_after", after != 0);
            split(&p);
        }
    }
    return true;
}
