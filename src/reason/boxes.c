/* Pass boxes: tiles of views go by TMA where they are boxes, and by lines where they are not.
 *
 * For kernels of warpgroups. A box is clipped at the end of its tensor alone; a view may end
 * before: a sequence among others, the last page of a table. So the copy of a view's tile stands
 * twice: of a whole one as a box, of one that the view's end cuts line by line, which leaves zeros
 * where the view has no rows. What memory holds there, a page of nobody's with NaN in it, is not
 * read and reaches no product. Each sequence has one such tile at most.
 */
#include "reason/scalar.h"
#include "reason/warpgroups.h"

#include "tl/boxes.h"

static bool box_of(reason *r, const tl_statement *copy, tl_box *box) {
    int64_t rows;
    return reason_known(r, copy->copy.shape.items[0], &rows) &&
           tl_box_of(r->kernel, copy, (int)rows, box);
}

bool warpgroups_read_end(reason *r, const tl_statement *copy, warpgroups_end *out) {
    const tl_place *place = &copy->copy.place;
    tl_box box;
    if (!box_of(r, copy, &box) || box.tile_axis >= place->count) return false;
    const tl_axes *axes = tiles_tensor(r->kernel, copy->copy.what->text);
    tl_expr *whole = tl_quote_expr(r->memory, "floor(%s/%s)",
                                   edit_factor_text(r->memory, axes->items[box.tile_axis].extent),
                                   edit_factor_text(r->memory, copy->copy.shape.items[0]));
    const char *name = reason_say(r, "whole_%.*s", STR_ARGS(tl_axis_index(axes, box.tile_axis)));
    out->whole = scalar_name(r, whole, name, "tiles before this one end within their view");
    if (tl_copy_is_of_next(copy)) out->whole = reason_say(r, "next(%s)", out->whole);
    out->at = edit_text(r->memory, place->items[box.tile_axis].at);
    return true;
}

static tl_block copy_of(reason *r, const tl_statement *s, const char *atom) {
    tl_block copy = {0};
    edit_append_copy(r->memory, &copy, s);
    copy.first->copy.atom = str_from(atom);
    return copy;
}

static void write_both(reason *r, tl_statement *s, const warpgroups_end *end) {
    const char *before = reason_say(r, "%s < %s", end->at, end->whole);
    const char *after = reason_say(r, "%s >= %s", end->at, end->whole);
    edit_before(r->kernel, s, reason_under(r, before, "a box", copy_of(r, s, "tma")));
    edit_before(r->kernel, s,
                reason_under(r, after, "cut: what is past the end stays unread",
                             copy_of(r, s, "cp_async")));
    edit_remove(r->kernel, s);
}

static tl_statement *load_role(const tl_kernel *kernel) {
    const tl_statement *math = warpgroups_role(kernel);
    for (tl_statement *s = kernel->body.first; s && math; s = s->next)
        if (s->kind == TL_ROLE && s != math) return s;
    return NULL;
}

bool reason_boxes(reason *r) {
    tl_statement *load = load_role(r->kernel);
    diag_list ignored;
    int count = 0;
    if (!load || !warpgroups_copy_views(r)) return true;
    reason_bind_alone(r, &ignored);
    for (tl_statement *s = load->role.body.first, *next; s; s = next) {
        warpgroups_end end;
        tl_box box;
        next = tl_next(s, load);
        bool is_cut = edit_is_fill(s) && box_of(r, s, &box) && !box.is_within;
        if (!is_cut || !warpgroups_read_end(r, s, &end)) continue;
        write_both(r, s, &end);
        count++;
    }
    if (count)
        reason_decide(r, "boxes",
                      "%d copies bring whole tiles of a view as boxes, and those that its end cuts "
                      "line by line: past it memory may hold anything",
                      count);
    return true;
}
