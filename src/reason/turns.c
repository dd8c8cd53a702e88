/* Pass turns: warpgroups issue products one after the other.
 *
 * While one of them computes on elements, another's products run. What keeps them apart is a turn
 * that goes round: each waits for it before it issues a row of products and passes it on
 * afterwards.
 */
#include "reason/warpgroups.h"

static bool is_issued(const tl_statement *s) {
    return edit_is_product(s) && s->compute.is_async;
}

/* The last product of the row that begins at 'first': only waits for operands are in between. */
static tl_statement *end_of_row(tl_statement *first) {
    tl_statement *last = first;
    for (tl_statement *s = first; s; s = s->next) {
        bool is_wait = s->kind == TL_WAIT && str_ends(s->sync.what->text, STR("_shared"));
        if (is_issued(s)) last = s;
        else if (!is_wait) break;
    }
    return last;
}

static int take_turns(reason *r, tl_block *block, const char *turn) {
    int rows = 0;
    for (tl_statement *s = block->first; s; s = s->next) {
        if (tl_statement_body(s)) rows += take_turns(r, tl_statement_body(s), turn);
        if (!is_issued(s)) continue;
        tl_statement *last = end_of_row(s);
        reason_before(r, s, "Wait %s // my turn", turn);
        reason_after(r, last, "Release %s // the next warpgroup's", turn);
        s = last->next;
        rows++;
    }
    return rows;
}

/* A turn pays where a warpgroup has elements to compute between its products. */
static bool has_elements(tl_statement *math) {
    for (tl_statement *s = math->role.body.first; s; s = tl_next(s, math))
        if (edit_is_product(s) && !str_ends(edit_operand_name(s, 0), STR("_shared"))) return true;
    return false;
}

bool reason_turns(reason *r) {
    tl_statement *math = warpgroups_role(r->kernel);
    bool meet = warpgroups_store_operands(r);
    int64_t wanted = reason_decided(r, !meet, "turns");
    if (!math || math->role.executors < 2 || !has_elements(math)) return true;
    reason_offers_switch(r, "turns", wanted != 0);
    if (wanted == 0) {
        reason_decide(r, "turns", "warpgroups issue products when they come to them, as %s",
                      meet ? "they meet in each round, to bring operands to shared memory"
                           : reason_pin_word(r, "turns"));
        return true;
    }
    str turn = reason_fresh(r, "tensor");
    int rows = take_turns(r, &math->role.body, edit_z(r->memory, turn));
    math->role.turns = arena_array(r->memory, str, 1);
    math->role.turns[0] = turn;
    math->role.turn_count = 1;
    reason_decide(r, "turns",
                  "%d warpgroups issue products in turns, so that one computes on elements while "
                  "another's products run; %d places",
                  math->role.executors, rows);
    return true;
}
