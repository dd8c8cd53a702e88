/* What two warpgroups that share rows take, for the cost model of warpgroups. */
#include "reason/cost_model.h"
#include "reason/pair.h"

#include "tl/boxes.h"

void cost_read_pair(cost_model *m) {
    pair_form form;
    m->may_pair = !pair_read(m->r->kernel, &form);
    for (int i = 0; m->may_pair && i < form.tail_count; i++) {
        int sum = cost_tile_index(m, edit_target_name(form.tails[i]));
        m->may_pair = sum >= 0;
        if (sum >= 0) m->is_pair_sum[sum] = true;
    }
    for (int i = 0; m->may_pair && i < form.head_count; i++) {
        int left = cost_tile_index(m, edit_operand_name(form.heads[i], 0));
        if (left >= 0 && pair_holds_left(&form, i)) m->is_pair_held[left] = true;
    }
}

/* Of tiles whose lengths no table holds the checks want all of an axis in each slot, and here every
 * other block is in one.
 */
bool cost_may_pair(const cost_model *m, const cost_choice *c) {
    for (int i = 0; m->may_pair && i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        tl_box box;
        int rows = (int)cost_value(c, m->extents[i][0]);
        if (role->in_shared && role->is_loaded_in_loop &&
            (!tl_box_of(m->r->kernel, role->tile->first, rows, &box) || box.is_within))
            return false;
    }
    return m->may_pair;
}

bool cost_is_pair_held(const cost_model *m, const cost_choice *c, int tile) {
    return c->is_paired && m->is_pair_held[tile];
}

double cost_pair_bytes(const cost_model *m, const cost_choice *c) {
    for (int i = 0; c->is_paired && i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT) /* the first one makes scores */
            return (double)pair_exchange_bytes((int64_t)cost_value(c, m->items[i].a),
                                               (int64_t)cost_value(c, m->items[i].b));
    return 0;
}

/* Each has half of the sums. */
double cost_pair_registers(const cost_model *m, const cost_choice *c, int tile, double own) {
    return c->is_paired && m->is_pair_sum[tile] ? own / PAIR : own;
}
