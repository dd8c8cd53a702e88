/* Slots that are free before a tile ends.
 *
 * What stands for the whole of a tile, the left operand of its first products, is read for the last
 * time by the last block's product, a block before the tile ends. With one slot the next tile's can
 * only come when this one's is released: so it is released there, not after the loop.
 */
#include "reason/walk.h"

/* After the Wait for all products that read the tile, in a block where nothing else does; NULL:
 * there is no such place.
 */
static tl_statement *find_landing(const tl_block *block, str shared) {
    str target = {"", 0};
    tl_statement *landing = NULL;
    for (tl_statement *s = block->first; s; s = s->next) {
        if (edit_fits(s, "GEMM 0", shared) || edit_fits(s, "GEMM _, 0", shared)) {
            if (landing) return NULL;
            target = edit_target_name(s);
        } else if (s->kind != TL_WAIT && edit_reads_within(s, shared)) {
            return NULL;
        } else if (target.length > 0 && s->kind == TL_WAIT &&
                   str_equal(s->sync.what->text, target)) {
            landing = s;
        }
    }
    while (landing && landing->next && landing->next->kind == TL_RELEASE) landing = landing->next;
    return landing;
}

static void release_if(reason *r, tl_block *block, tl_statement *parent, tl_statement *at,
                       const char *condition, const char *comment, str shared) {
    tl_block branch = tl_quote(r->memory, "if %s // %s\n    Release %.*s\nend", condition, comment,
                               STR_ARGS(shared));
    tl_insert_after(block, at, branch.first);
    branch.first->parent = parent;
}

bool walk_has_one_slot(const reason *r, str name) {
    const tl_statement *a = edit_shared_tile(r->kernel, name);
    return a && !a->allocate.stages;
}

void walk_release_early(reason *r, tl_block *beginning, tl_statement *loop, tl_block *releases) {
    const char *to = edit_text(r->memory, loop->loop.to);
    const char *from = edit_text(r->memory, loop->loop.from);
    const char *j = edit_z(r->memory, loop->loop.name);
    for (tl_statement *s = releases->first, *next; s; s = next) {
        next = s->next;
        str shared = s->sync.what->text;
        if (!walk_has_one_slot(r, edit_bare(shared))) continue;
        tl_statement *first = find_landing(beginning, shared);
        tl_statement *inside = find_landing(&loop->loop.body, shared);
        if (!first || !inside) continue;
        release_if(r, beginning, NULL, first, reason_say(r, "%s == %s", to, from),
                   "no product reads it any more", shared);
        release_if(r, &loop->loop.body, loop, inside, reason_say(r, "%s + 1 == %s", j, to),
                   "no product reads it any more", shared);
        tl_remove(releases, s);
        reason_decide(
            r, "early release",
            "%.*s has one slot, free for the next tile's when the last product that reads "
            "it has landed",
            STR_ARGS(edit_bare(shared)));
    }
}
