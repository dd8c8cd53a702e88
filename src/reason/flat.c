/* The flat walk: the next tile's first block beside this tile's last product.
 *
 * A tile whose loop was rotated begins with a block that waits for its product alone and ends with
 * a product that waits alone. In a walk over tiles both can be one step: the next tile's first
 * product is issued with this tile's last one, and its elements run beside that. What the next
 * tile's beginning writes and this tile's end still reads is copied first; names of the next tile
 * are in `next(...)`.
 */
#include "reason/walk.h"

#include "reason/names.h"
#include "reason/scalar.h"

enum { ATOMS_MAX = 64 };

typedef struct flat_walk {
    tl_statement *walk, *loop;
    names targets;    /* of the tail's products */
    names channels;   /* shared tiles that the tail waits for */
    bool is_together; /* the tail lands before the elements, which rewrite its left operand */
    names moved;      /* values of this tile that the next one's beginning overwrites */
    tl_block beginning, starts, releases, issue, landing, copies, scalars, end;
    const char *why;
} flat_walk;

static bool refuse(flat_walk *f, const char *why) {
    f->why = why;
    return false;
}

/* Does it wait for a product into one of the tiles? */
static bool waits_for(const tl_statement *s, const names *targets) {
    return s->kind == TL_WAIT && !str_ends(s->sync.what->text, STR("_shared")) &&
           !str_ends(s->sync.what->text, STR("_global")) && names_have(targets, s->sync.what->text);
}

/* --- the parts -------------------------------------------------------------------------------- */

static bool find_loop(flat_walk *f) {
    for (tl_statement *s = f->walk->loop.body.first; s; s = s->next) {
        if (s->kind != TL_FOR) continue;
        if (f->loop) return refuse(f, "a tile has more than one loop");
        f->loop = s;
    }
    return f->loop ? true : refuse(f, "a tile has no loop");
}

static tl_statement *find_allocation(const flat_walk *f, str name) {
    return edit_find_allocation(f->walk->parent->role.body.first, name, TL_REGISTER);
}

/* Do the tail's products leave their left operands alone when these are made anew? */
static bool has_two_places(const flat_walk *f) {
    for (const tl_statement *s = f->issue.first; s; s = s->next) {
        const tl_statement *a =
            edit_is_product(s) ? find_allocation(f, edit_operand_name(s, 0)) : NULL;
        if (a && !a->allocate.stages) return false;
    }
    return true;
}

/* After the loop: releases, the tail's products, and all that follows. */
static bool read_end(reason *r, flat_walk *f) {
    const tl_statement *s = f->loop->next;
    for (; s && s->kind == TL_RELEASE; s = s->next) edit_append_copy(r->memory, &f->releases, s);
    for (; s && (edit_is_product(s) || s->kind == TL_WAIT); s = s->next) {
        if (waits_for(s, &f->targets)) break;
        if (s->kind == TL_WAIT) names_add(r->memory, &f->channels, s->sync.what->text);
        else names_add(r->memory, &f->targets, edit_target_name(s));
        edit_append_copy(r->memory, &f->issue, s);
    }
    if (f->targets.count == 0) return refuse(f, "no product is left for a tile's end");
    f->is_together = !has_two_places(f);
    for (; s; s = s->next) {
        bool is_landing = waits_for(s, &f->targets) ||
                          (s->kind == TL_RELEASE && names_have(&f->channels, s->sync.what->text));
        edit_append_copy(r->memory, is_landing ? &f->landing : &f->end, s);
    }
    return true;
}

/* Does the tail read the tile, which it does not wait for itself? By the time that the next tile's
 * first product has been issued the name would mean that one's.
 */
static bool is_held_for_tail(const flat_walk *f, str tile) {
    bool is_read = false;
    for (const tl_statement *s = f->issue.first; s; s = s->next)
        is_read |= edit_is_product(s) && edit_reads(s, tile);
    return is_read && !names_have(&f->channels, tile);
}

/* Before the loop: where the tail's sums start, and the first block. */
static bool read_beginning(reason *r, flat_walk *f) {
    bool has_product = false;
    for (const tl_statement *s = f->walk->loop.body.first; s != f->loop; s = s->next) {
        names reads = {0}, writes = {0};
        names_add_uses(r->memory, s, &reads, &writes);
        bool is_start = edit_is_compute(s, TL_FILL) && names_meet(&writes, &f->targets);
        if (!is_start && (names_meet(&writes, &f->targets) || names_meet(&reads, &f->targets)))
            return refuse(f, "a tile's beginning touches what its end adds up");
        if (s->kind == TL_WAIT && is_held_for_tail(f, s->sync.what->text))
            return refuse(f, "its last product reads a tile that its first one reads, too");
        has_product = has_product || edit_is_product(s);
        edit_append_copy(r->memory, is_start ? &f->starts : &f->beginning, s);
    }
    return has_product ? true : refuse(f, "a tile's beginning has no product");
}

/* A result in the bytes of a tile that the beginning waits for would wait for itself. */
static bool shares_bytes(const reason *r, const flat_walk *f) {
    for (const tl_statement *s = r->kernel->body.first; s; s = s->next)
        for (const tl_statement *w = f->beginning.first; w; w = w->next)
            if (s->kind == TL_ALLOCATE && w->kind == TL_WAIT &&
                str_equal(s->allocate.in_place_of, w->sync.what->text))
                return true;
    return false;
}

/* Values of this tile: what both the beginning writes and the end uses. */
static bool find_moved(reason *r, flat_walk *f) {
    names begins = {0}, ends = {0}, reads = {0};
    for (const tl_statement *s = f->beginning.first; s; s = s->next)
        names_add_uses(r->memory, s, &reads, &begins);
    for (const tl_statement *s = f->end.first; s; s = s->next)
        names_add_uses(r->memory, s, &ends, &ends);
    for (int i = 0; i < begins.count; i++) {
        if (!names_have(&ends, begins.items[i])) continue;
        const tl_statement *a = find_allocation(f, begins.items[i]);
        if (!a || a->allocate.shape.count != 1)
            return refuse(f, "a tile's end uses a matrix that the next tile's beginning writes");
        names_add(r->memory, &f->moved, edit_bare(begins.items[i]));
    }
    return true;
}

/* --- names of the next tile ------------------------------------------------------------------- */

typedef struct renaming {
    reason *r;
    const tl_expr *made[ATOMS_MAX]; /* inside `next(...)` already */
    int count;
} renaming;

static void name_next(void *context, tl_expr *e) {
    renaming *n = context;
    tl_statement *at = NULL;
    if (e->kind != TL_NAME || !scalar_depends_on_tile(n->r, e) ||
        (edit_find_let(n->r->kernel, e->text, &at) && at->parent))
        return; /* the same in all tiles, or of this block's own */
    for (int i = 0; i < n->count; i++)
        if (n->made[i] == e) return;
    if (n->count == ATOMS_MAX) return;
    tl_expr *inner = tl_expr_copy(n->r->memory, e);
    n->made[n->count++] = inner;
    *e = *tl_quote_expr(n->r->memory, "next(%.*s)", STR_ARGS(inner->text));
    e->items[0] = inner;
}

static void name_next_in(reason *r, tl_block *block) {
    for (tl_statement *s = block->first; s; s = s->next) {
        renaming n = {.r = r};
        tl_each_expr(s, name_next, &n);
        if (tl_statement_body(s)) name_next_in(r, tl_statement_body(s));
    }
}

/* --- the flat walk ---------------------------------------------------------------------------- */

static tl_block copy_block(reason *r, const tl_block *block) {
    tl_block copy = {0};
    for (const tl_statement *s = block->first; s; s = s->next)
        edit_append_copy(r->memory, &copy, s);
    return copy;
}

/* The end's first statements, on values of rows alone: they fit into the wait for products. */
static void split_end(reason *r, flat_walk *f) {
    for (tl_statement *s = f->end.first, *next; s; s = next) {
        next = s->next;
        names reads = {0}, writes = {0};
        names_add_uses(r->memory, s, &reads, &writes);
        if ((s->kind != TL_COMPUTE && s->kind != TL_RESHAPE) || names_meet(&reads, &f->targets) ||
            names_meet(&writes, &f->targets))
            return;
        tl_remove(&f->end, s);
        tl_block_append(&f->scalars, NULL, s);
    }
}

/* Does a product of the beginning land at 's' or after it? Products land in order. */
static bool lands_later(const tl_statement *s, const names *products) {
    for (; s; s = s->next)
        if (waits_for(s, products)) return true;
    return false;
}

/* The next tile's first block, this tile's last product issued after its own. */
static tl_block next_beginning(reason *r, const flat_walk *f) {
    tl_block next = copy_block(r, &f->beginning), all = copy_block(r, &f->copies);
    name_next_in(r, &next);
    bool is_issued = false, is_landed = false;
    names products = {0};
    for (tl_statement *s = next.first, *after; s; s = after) {
        after = s->next;
        if (edit_is_product(s)) names_add(r->memory, &products, edit_target_name(s));
        if (waits_for(s, &products) && !is_issued) {
            tl_block issue = copy_block(r, &f->issue);
            for (tl_statement *t = issue.first; t; t = t->next)
                if (edit_is_product(t)) t->comment = STR("of this tile's last block");
            edit_join(&all, issue);
            edit_join(&all, copy_block(r, &f->scalars));
            is_issued = true;
        }
        if (is_issued && !is_landed && f->is_together && s->kind != TL_WAIT &&
            s->kind != TL_RELEASE && !lands_later(s, &products)) {
            edit_join(&all, copy_block(r, &f->landing));
            is_landed = true;
        }
        tl_block_append(&all, NULL, s);
    }
    if (!is_landed) edit_join(&all, copy_block(r, &f->landing));
    return all;
}

static tl_block last_end(reason *r, const flat_walk *f) {
    tl_block all = copy_block(r, &f->copies);
    edit_join(&all, copy_block(r, &f->issue));
    edit_join(&all, copy_block(r, &f->scalars));
    edit_join(&all, copy_block(r, &f->landing));
    return all;
}

/* From here on the value has another name, but where it goes to in global memory. */
static void rename_value(reason *r, tl_block *block, str name, str fresh) {
    str here = str_format(r->memory, "%.*s_register", STR_ARGS(name));
    for (tl_statement *s = block->first; s; s = s->next) {
        bool leaves = s->kind == TL_COPY && s->copy.to == TL_GLOBAL &&
                      (edit_reads(s, name) || edit_reads(s, here));
        tl_expr *target =
            leaves ? tl_expr_copy(r->memory, s->copy.target ? s->copy.target : s->copy.what) : NULL;
        edit_rename(s, name, fresh);
        edit_rename(s, here, fresh);
        if (leaves) {
            s->copy.target = target;
            if (s->copy.target_kind == TL_NO_TARGET) s->copy.target_kind = TL_GET;
        }
        if (tl_statement_body(s)) rename_value(r, tl_statement_body(s), name, fresh);
    }
}

/* What statements call the register tile whose bare name this is; empty where none writes it. */
static str written_as(const tl_block *block, str name) {
    for (tl_statement *s = block->first; s; s = s->next) {
        str writes = edit_target_name(s);
        if (str_equal(edit_bare(writes), name)) return writes;
        const tl_block *body = tl_statement_body(s);
        str within = body ? written_as(body, name) : (str){0};
        if (within.length > 0) return within;
    }
    return (str){0};
}

/* Copies of this tile's values, under names of their own from here on. */
static tl_block move_values(reason *r, flat_walk *f) {
    tl_block copies = {0};
    for (int i = 0; i < f->moved.count; i++) {
        str name = f->moved.items[i];
        str fresh = reason_fresh(r, "%.*s_end", STR_ARGS(name));
        edit_allocate_like(r->kernel, r->memory, find_allocation(f, name), fresh,
                           "of the tile that ends while the next one begins");
        edit_join(&copies,
                  tl_quote(r->memory, "Compute Cast %.*s and get %.*s // this tile's, kept aside",
                           STR_ARGS(written_as(&f->beginning, name)), STR_ARGS(fresh)));
        rename_value(r, &f->end, name, fresh);
    }
    return copies;
}

static void write_walk(reason *r, flat_walk *f) {
    const char *tile = edit_z(r->memory, f->walk->loop.name);
    const char *first = reason_say(r, "first(%s)", tile);
    const char *more = reason_say(r, "more(%s)", tile);
    const char *last = reason_say(r, "not %s", more);
    tl_statement *loop = f->loop;
    edit_remove(r->kernel, loop);
    walk_release_early(r, &f->beginning, loop, &f->releases);
    tl_block body = {0};
    edit_join(&body,
              reason_under(r, first, "nothing is in flight yet", copy_block(r, &f->beginning)));
    edit_join(&body, f->starts);
    tl_block_append(&body, NULL, loop);
    edit_join(&body, f->releases);
    f->copies = move_values(r, f);
    split_end(r, f);
    edit_join(&body,
              reason_under(r, more, "the next tile's first block beside this one's last product",
                           next_beginning(r, f)));
    edit_join(&body, reason_under(r, last, "the last product, alone", last_end(r, f)));
    edit_join(&body, f->end);
    f->walk->loop.body = (tl_block){0};
    edit_append(&f->walk->loop.body, f->walk, body);
}

/* The copies of a block into tiles of one slot, or of more. */
static tl_block copies_of(reason *r, const tl_block *block, bool has_one_slot) {
    tl_block all = {0};
    for (const tl_statement *s = block->first; s; s = s->next)
        if (walk_has_one_slot(r, s->copy.what->text) == has_one_slot)
            edit_append_copy(r->memory, &all, s);
    return all;
}

static void load_next(reason *r, tl_statement *walk, tl_statement *at, tl_block copies) {
    if (!copies.first) return;
    const char *more = reason_say(r, "more(%.*s)", STR_ARGS(walk->loop.name));
    name_next_in(r, &copies);
    edit_after(r->kernel, at, reason_under(r, more, "the next tile's first block", copies));
}

/* The role that loads does the same: the next tile's first copies before this one's last. What has
 * one slot waits for this tile's last products and would hold up the copies after it.
 */
static void flatten_loads(reason *r, tl_statement *walk) {
    tl_statement *loop = NULL;
    for (tl_statement *s = walk->loop.body.first; s; s = s->next) {
        if (s->kind == TL_FOR && loop) return;
        if (s->kind == TL_FOR) loop = s;
        else if (s->kind != TL_COPY) return;
    }
    if (!loop || !loop->next || !loop->previous) return;
    const char *tile = edit_z(r->memory, walk->loop.name);
    tl_block first = {0};
    for (tl_statement *s = walk->loop.body.first, *next; s != loop; s = next) {
        next = s->next;
        edit_remove(r->kernel, s);
        tl_block_append(&first, NULL, s);
    }
    load_next(r, walk, walk->loop.body.last, copies_of(r, &first, true));
    load_next(r, walk, loop, copies_of(r, &first, false));
    edit_before(
        r->kernel, loop,
        reason_under(r, reason_say(r, "first(%s)", tile), "later ones were begun below", first));
}

/* Where tiles stay apart, what waits for bytes to be free is after the other first copies. */
static void begin_with_free(reason *r, tl_statement *walk) {
    tl_statement *loop = walk->loop.body.first;
    while (loop && loop->kind == TL_COPY) loop = loop->next;
    if (!loop) return;
    tl_statement *last = loop->previous;
    for (tl_statement *s = walk->loop.body.first, *next; last && s != loop; s = next) {
        next = s == last ? loop : s->next;
        if (walk_has_one_slot(r, s->copy.what->text)) edit_move_before(r->kernel, loop, s);
    }
}

/* Do tables say where what is copied ends? One warp then brings boxes and lines. */
static bool ends_by_tile(reason *r, tl_statement *loads) {
    for (tl_statement *s = loads->loop.body.first; s; s = tl_next(s, loads))
        if (s->kind == TL_COPY && walk_goes_by_tile(r, s)) return true;
    return false;
}

void walk_flatten(reason *r, tl_statement *loads, tl_statement *walk) {
    enum { UNSAID = -1 };
    flat_walk f = {.walk = walk};
    int64_t wanted = reason_decided(r, UNSAID, "flat");
    bool may = find_loop(&f) && read_end(r, &f) && read_beginning(r, &f) && find_moved(r, &f);
    if (may && !walk_is_counted(r, scalar_grid(r->kernel)))
        may = refuse(&f, "tables say how many tiles there are, and they are not counted");
    if (may && shares_bytes(r, &f))
        may = refuse(&f, "its result leaves in the bytes of a tile that the next one begins with");
    if (may && wanted == UNSAID && ends_by_tile(r, loads)) {
        reason_offers_switch(r, "flat", false);
        may = refuse(&f, "tables say where its copies end, and a warp that brings boxes and lines "
                         "was the slower for beginning the next tile before this one's last copy");
    }
    if (!may) {
        begin_with_free(r, loads);
        reason_decide(r, "flat walk", "each tile ends before the next one begins: %s", f.why);
        return;
    }
    reason_offers_switch(r, "flat", wanted != 0);
    if (wanted == 0) {
        reason_decide(r, "flat walk", "each tile ends before the next one begins, as %s",
                      reason_pin_word(r, "flat"));
        return;
    }
    str target = edit_bare(f.targets.items[0]);
    write_walk(r, &f);
    flatten_loads(r, loads);
    reason_decide(r, "flat walk",
                  "the next tile's first block runs beside this tile's last product into %.*s",
                  STR_ARGS(target));
}
