/* The warp that copies for two warpgroups that share rows. */
#include "reason/pair_text.h"

#include "reason/peel.h"
#include "reason/scalar.h"
#include "reason/warpgroups.h"

/* How many blocks are whole. NULL: reported. */
static const char *read_whole(pairing *p) {
    const char *whole = NULL;
    for (int i = 0; i < p->tile_count; i++) {
        warpgroups_end end;
        bool is_known = warpgroups_read_end(p->r, p->tiles[i].fill, &end);
        if (!is_known || (whole && !str_equal(str_from(whole), str_from(end.whole)))) {
            reason_stuck(p->r, p->tiles[i].fill,
                         "two warpgroups share tiles that end alike, and this one does not");
            return NULL;
        }
        whole = end.whole;
    }
    return whole;
}

static void put_copy(pairing *p, tl_block *to, const pair_tile *tile, int parity,
                     const char *pair_number, const char *atom) {
    tl_block one = {0};
    edit_append_copy(p->r->memory, &one, tile->fill);
    tl_copy *copy = &one.first->copy;
    copy->target_kind = TL_GET;
    copy->target = tl_name_expr(p->r->memory, str_from(tile->slots[parity]));
    copy->is_async = true;
    copy->atom = str_from(atom);
    peel_put(&one, p->form->loop->loop.name,
             tl_quote_expr(p->r->memory, "%s", pair_block(p, parity, pair_number)));
    edit_join(to, one);
}

/* Those of one parity whose values are in sums of that side; -1: that are no values. */
static void put_copies(pairing *p, tl_block *to, int side, int parity, const char *pair_number,
                       const char *atom) {
    for (int i = 0; i < p->tile_count; i++)
        if (p->tiles[i].side == side) put_copy(p, to, &p->tiles[i], parity, pair_number, atom);
}

/* All of a block, in the order of use by the one that makes its weights. */
static tl_block block_copies(pairing *p, int parity, const char *pair_number, const char *atom) {
    tl_block all = {0};
    put_copies(p, &all, -1, parity, pair_number, atom);
    put_copies(p, &all, parity, parity, pair_number, atom);
    put_copies(p, &all, 1 - parity, parity, pair_number, atom);
    return all;
}

/* Pairs of whole blocks, in the order in which the two give slots back. */
static tl_block pair_copies(pairing *p, const char *pairs) {
    static const struct {
        int side, parity;
    } order[] = {{-1, 0}, {0, 0}, {-1, 1}, {1, 0}, {1, 1}, {0, 1}};
    const char *i = reason_fresh_z(p->r, "i");
    tl_block loop =
        tl_quote(p->r->memory,
                 "for %s = 0:%s // in the order in which the two give slots back\nend", i, pairs);
    tl_block body = {0};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        put_copies(p, &body, order[k].side, order[k].parity, i, "tma");
    edit_append(&loop.first->loop.body, loop.first, body);
    return loop;
}

/* What pairs of whole blocks leave: an even block, whole or cut, and an odd one that is cut. */
static tl_block rest_copies(pairing *p, const char *pairs, const char *whole) {
    reason *r = p->r;
    const char *even = pair_block(p, 0, pairs);
    tl_block rest = {0}, last = {0};
    edit_join(&last, reason_under(r, reason_say(r, "%s < %s", even, whole), "",
                                  block_copies(p, 0, pairs, "tma")));
    edit_join(&last, reason_under(r, reason_say(r, "%s >= %s", even, whole),
                                  "cut: what is past the end stays unread",
                                  block_copies(p, 0, pairs, "cp_async")));
    edit_join(&rest, reason_under(r, reason_say(r, "%s > 2*%s", p->count, pairs),
                                  "what is left: an even block", last));
    edit_join(&rest,
              reason_under(r, reason_say(r, "%s > 2*%s + 1", p->count, pairs),
                           "and an odd one that is cut", block_copies(p, 1, pairs, "cp_async")));
    return rest;
}

/* Pairs of blocks that go as boxes. */
static const char *whole_pairs(pairing *p, const char *whole) {
    reason *r = p->r;
    const tl_for *loop = &p->form->loop->loop;
    const char *to = edit_text(r->memory, loop->to),
               *from = edit_factor_text(r->memory, loop->from);
    bool is_from_0 = loop->from->kind == TL_INTEGER && loop->from->integer == 0;
    tl_expr *pairs =
        is_from_0 ? tl_quote_expr(r->memory, "floor(min(%s, %s)/2)", whole, to)
                  : tl_quote_expr(r->memory, "floor(max(0, min(%s, %s) - %s)/2)", whole, to, from);
    return scalar_name(r, pairs, "pairs", "of blocks that no end cuts");
}

bool pair_load(pairing *p, tl_block *role) {
    reason *r = p->r;
    diag_list ignored;
    reason_bind_alone(r, &ignored); /* the copies' boxes */
    const char *whole = read_whole(p);
    if (!whole) return false;
    const char *pairs = whole_pairs(p, whole);
    *role = tl_quote(r->memory,
                     "role load with 1 warp, %d registers // runs ahead as far as slots are "
                     "free\nend",
                     warpgroups_paired_load_registers());
    tl_block body = {0};
    for (tl_statement *s = p->math->role.body.first; s != p->form->loop; s = s->next) {
        if (!edit_is_fill(s) || pair_is_held(p, s)) continue;
        edit_append_copy(r->memory, &body, s);
        body.last->copy.is_async = true;
        body.last->copy.atom = STR("tma");
    }
    edit_join(&body, pair_copies(p, pairs));
    edit_join(&body, rest_copies(p, pairs, whole));
    edit_append(&role->first->role.body, role->first, body);
    return true;
}
