/* Types of tiles in registers, and layouts of matrices that meet. */
#include "reason/names.h"
#include "reason/place.h"
#include "reason/terms.h"

/* --- types ------------------------------------------------------------------------------------ */

bool place_is_16_bit(tl_type type) {
    return type == TL_F16 || type == TL_BF16;
}

void place_choose_type(place_role *role) {
    if (role->layout == TL_MMA_A || role->is_rounded) role->type = role->tile->storage;
    else if (role->tile->from_global && !role->is_changed && !role->is_product)
        role->type = role->tile->storage;
    else role->type = role->tile->storage == TL_I32 ? TL_I32 : TL_F32;
}

/* --- layouts ---------------------------------------------------------------------------------- */

/* The matrices that meet in a statement that works element by element, in expressions, too. */
int place_matrices_in(reason *r, const place_plan *plan, const tl_statement *s,
                      place_role *met[PLACE_MET_MAX]) {
    tl_shape_rule shape =
        s->kind == TL_COMPUTE ? tl_operation_shape(s->compute.operation) : TL_SHAPE_PRODUCT;
    if (shape != TL_SHAPE_ELEMENTWISE && shape != TL_SHAPE_MASK && shape != TL_SHAPE_FILL) return 0;
    names all = names_read(r->memory, s);
    int count = 0;
    for (int i = -1; i < all.count && count < PLACE_MET_MAX; i++) {
        place_role *role = place_find(plan, i < 0 ? edit_target_name(s) : all.items[i]);
        if (role && role->tile->axis_count == 2) met[count++] = role;
    }
    return count;
}

/* They share one layout: spreads kinds until nothing changes. */
void place_spread_layouts(reason *r, place_plan *plan) {
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
            place_role *met[PLACE_MET_MAX];
            int count = place_matrices_in(r, plan, s, met);
            tl_layout_kind kind = TL_LAYOUT_NONE;
            for (int i = count - 1; i >= 0; i--)
                if (met[i]->layout != TL_LAYOUT_NONE) kind = met[i]->layout;
            for (int i = 0; i < count; i++) {
                is_new = is_new || (met[i]->layout == TL_LAYOUT_NONE && kind != TL_LAYOUT_NONE);
                if (met[i]->layout == TL_LAYOUT_NONE) met[i]->layout = kind;
            }
        }
    }
}

/* Does pass place make an f32 tile beside it, for what is computed of it? */
static bool is_widened(const place_role *role) {
    return role->tile->from_global && !role->in_shared && role->is_changed &&
           place_is_16_bit(role->tile->storage);
}

/* Is it made by one statement, and then does nothing but leave? */
static bool only_leaves(reason *r, const place_role *role) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || !edit_writes(s, role->tile->name)) continue;
        tl_shape_rule shape = tl_operation_shape(s->compute.operation);
        return (shape == TL_SHAPE_ELEMENTWISE || shape == TL_SHAPE_FILL) &&
               s->compute.target_kind == TL_GET && !edit_takes(s, role->tile->name) &&
               terms_only_leave(r, role->tile, s, s);
    }
    return false;
}

/* Bits of the elements of tiles that are lines. */
static int widths_of_lines(place_plan *plan) {
    int widths = 0;
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].layout == TL_LINES) {
            place_choose_type(&plan->roles[i]);
            widths |= tl_type_bits(plan->roles[i].type);
            if (is_widened(&plan->roles[i])) widths |= tl_type_bits(plan->roles[i].tile->storage);
        }
    return widths;
}

/* Of a matrix that meets no product: 16 bytes a lane, if all that it meets is of one width; lines
 * of 16-bit and of 32-bit elements are in different lanes, accumulators do not. Results may be
 * rounded where they are made rather than where they leave.
 */
tl_layout_kind place_free_layout(reason *r, place_plan *plan, place_role *role) {
    role->layout = TL_LINES;
    place_spread_layouts(r, plan);
    int widths = widths_of_lines(plan);
    if (widths == (16 | 32)) {
        for (int i = 0; i < plan->count; i++)
            plan->roles[i].is_rounded =
                plan->roles[i].layout == TL_LINES && only_leaves(r, &plan->roles[i]);
        widths = widths_of_lines(plan);
    }
    if ((widths & (widths - 1)) == 0 && widths) return TL_LINES;
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].layout == TL_LINES)
            plan->roles[i].layout = TL_MMA_C, plan->roles[i].is_rounded = false;
    return TL_MMA_C;
}
