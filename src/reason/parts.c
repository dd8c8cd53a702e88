/* Pass parts: what a mask leaves of a block.
 *
 * For kernels of warpgroups. Where a mask cuts a block along a diagonal, the upper rows see nothing
 * of its later columns. Told apart by parts (`by halves`), a warp works out one element a row of
 * those that its rows do not see. It pays where the blocks that are cut are a good part of all:
 * every block asks whether there is something to leave out.
 */
#include "atom/atom.h"
#include "reason/cuts.h"
#include "reason/warpgroups.h"

enum { COLUMNS_UNIT = 8 };

/* Does it ask of scalars and indices alone? */
static bool is_of_places(const tiles_list *tiles, const tl_expr *e) {
    if (!e) return true;
    if (e->kind == TL_ELEMENT || (e->kind == TL_NAME && tiles_find(tiles, e->text))) return false;
    for (int i = 0; i < e->item_count; i++)
        if (!is_of_places(tiles, e->items[i])) return false;
    return is_of_places(tiles, e->left) && is_of_places(tiles, e->right);
}

/* One test that takes later columns from a row the earlier the row is: `kv > q + n`. */
static bool is_diagonal(reason *r, const tiles_list *tiles, const tl_statement *s, int64_t parts) {
    const tiles_tile *tile = tiles_find(tiles, edit_target_name(s));
    const tl_expr *test = s->compute.condition;
    bool is_test = tile && tile->axis_count == 2 && s->compute.operand_count == 1 &&
                   s->compute.place.count == 2 && test->kind == TL_BINARY &&
                   (test->operator== TL_GREATER || test->operator== TL_GREATER_EQUAL) &&
                   is_of_places(tiles, test);
    if (!is_test) return false;
    cut found = cuts_solve(r, tile->axes[1], test);
    int64_t down, columns;
    return found.is_solved && found.is_upper && linear_factor(&found.edge, tile->axes[0], &down) &&
           down > 0 && reason_known(r, tiles_extent(tiles, tile->axes[1])->extent, &columns) &&
           columns % (COLUMNS_UNIT * parts) == 0;
}

static int tell_apart(reason *r, tl_statement *math, int64_t parts) {
    const tiles_list *tiles = tiles_read(r);
    int masks = 0;
    for (tl_statement *s = math->role.body.first; s; s = tl_next(s, math)) {
        bool is_open = edit_is_compute(s, TL_MASK) && s->compute.atom.length == 0;
        if (!is_open || !is_diagonal(r, tiles, s, parts)) continue;
        s->compute.atom = atom_mask_word(parts);
        masks++;
    }
    return masks;
}

bool reason_parts(reason *r) {
    static const int64_t choices[] = {1, 2, 4};
    tl_statement *math = warpgroups_role(r->kernel);
    int64_t parts = reason_decided(r, 1, "mask_parts");
    if (parts != 1 && atom_mask_word(parts).length == 0)
        return reason_stuck(r, NULL, "mask_parts is 1, 2 or 4, not %lld", (long long)parts);
    if (!math) return true;
    int masks = parts > 1 ? tell_apart(r, math, parts) : 0;
    if (parts > 1 && masks == 0) return true;
    if (masks > 0) reason_offers_choice(r, "mask_parts", parts, choices, 3);
    if (masks > 0)
        reason_decide(r, "masked parts",
                      "%d masks tell %lld parts of a block apart: a warp leaves out those of which "
                      "its rows see nothing",
                      masks, (long long)parts);
    return true;
}
