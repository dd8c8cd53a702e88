/* The cost model is read off the statements: extents, products, elements, copies, and where tiles
 * live.
 */
#include "reason/cost_model.h"

#include "check/check.h"
#include "reason/far.h"
#include "reason/nominal.h"
#include "reason/prices.h"
#include "reason/scalar.h"

enum { SECTOR_BITS = 256 /* what memory moves at once */ };

static cost_extent extent_of(cost_model *m, const tl_expr *e) {
    int64_t value;
    if (reason_known(m->r, e, &value)) return (cost_extent){value > 0 ? value : 1, -1};
    for (int i = 0; i < m->open_count && e->kind == TL_NAME; i++)
        if (str_equal(m->open_names[i], e->text)) return (cost_extent){0, i};
    if (e->kind == TL_NAME && !tiles_is_length(m->r->kernel, e->text) &&
        m->open_count < COST_OPEN_MAX) {
        m->open_names[m->open_count] = e->text;
        m->open_is_inner[m->open_count] = true;
        return (cost_extent){0, m->open_count++};
    }
    m->failed = true;
    return (cost_extent){1, -1};
}

static bool read_extents(cost_model *m) {
    int count = m->plan.count;
    m->extents = arena_alloc(m->r->memory, sizeof(cost_extent[2]) * (size_t)(count > 0 ? count : 1),
                             _Alignof(cost_extent));
    for (int i = 0; i < count; i++) {
        const tiles_tile *tile = m->plan.roles[i].tile;
        m->extents[i][0] = m->extents[i][1] = (cost_extent){1, -1};
        for (int k = 0; k < tile->axis_count && k < 2; k++) {
            const tiles_span *span = tiles_extent(m->plan.tiles, tile->axes[k]);
            m->extents[i][k] = extent_of(m, span->extent);
            if (m->failed)
                return reason_stuck(m->r, tile->first,
                                    "the length of %s is open; a tile of %.*s needs it now: pin it "
                                    "with `let %s = ...` or an option%s",
                                    edit_text(m->r->memory, span->extent), STR_ARGS(tile->name),
                                    edit_text(m->r->memory, span->extent), m->r->whole);
        }
    }
    return true;
}

/* Iterations of a loop: length/size. */
static void read_loops(cost_model *m, cost_item *it, const tl_statement *s) {
    it->share = 1;
    for (const tl_statement *p = s->parent; p; p = p->parent) {
        if (p->kind == TL_IF) it->share *= 0.1;
        if (p->kind != TL_FOR || it->loop_count == COST_LOOPS_MAX || p->loop.is_grid_walk) continue;
        const tl_expr *to = p->loop.to;
        if (to->kind == TL_CALL && to->function == TL_FUNCTION_CEIL) to = to->items[0];
        bool is_walk = to->kind == TL_BINARY && to->operator== TL_OVER;
        it->loop_sizes[it->loop_count] = is_walk ? extent_of(m, to->right) : (cost_extent){1, -1};
        it->loop_lengths[it->loop_count++] = is_walk ? nominal_value(m->r, to->left)
                                             : to->kind == TL_INTEGER ? (double)to->integer
                                                                      : 16;
    }
}

int cost_tile_index(const cost_model *m, str name) {
    const place_role *role = place_find(&m->plan, name);
    return role ? (int)(role - m->plan.roles) : -1;
}

static cost_item *add_item(cost_model *m, cost_item_kind kind, const tl_statement *s) {
    if (m->item_count == COST_ITEMS_MAX) return NULL;
    cost_item *it = &m->items[m->item_count++];
    it->kind = kind;
    it->tile = -1;
    read_loops(m, it, s);
    return it;
}

static void read_product(cost_model *m, const tl_statement *s) {
    int left = cost_tile_index(m, edit_operand_name(s, 0)),
        right = cost_tile_index(m, edit_operand_name(s, 1));
    cost_item *it = left >= 0 && right >= 0 ? add_item(m, COST_PRODUCT, s) : NULL;
    if (!it) return;
    bool flip = s->compute.operands[0].is_transposed;
    it->a = m->extents[left][flip ? 1 : 0];
    it->c = m->extents[left][flip ? 0 : 1];
    it->b = m->extents[right][s->compute.operands[1].is_transposed ? 0 : 1];
    it->tile = left;
    it->is_turned = flip;
    it->element_bits = tiles_has_byte_warps(m->r) ? 8 : 16;
    m->has_products = true;
    if (it->a.value == 0) m->open_is_rows[it->a.open] = true;
    for (int k = 0; k < 2; k++) {
        cost_extent e = k == 0 ? it->a : it->b;
        if (e.value == 0) m->open_is_inner[e.open] = false;
    }
}

/* `kv > q + ...`: of the blocks that a loop walks, tiles see more and more. */
static void note_triangle(cost_model *m, const tl_statement *s) {
    int tile = cost_tile_index(m, edit_operand_name(s, 0));
    const tl_expr *c = s->compute.condition;
    if (tile < 0 || m->plan.roles[tile].tile->axis_count != 2 || c->kind != TL_BINARY ||
        (c->operator!= TL_GREATER && c->operator!= TL_GREATER_EQUAL))
        return;
    const str *axes = m->plan.roles[tile].tile->axes;
    if (!tl_expr_names(c->left, axes[1]) || !tl_expr_names(c->right, axes[0])) return;
    m->is_triangular = true;
    m->triangle_rows = m->extents[tile][0];
}

static bool is_elementwise_of(const tl_statement *s, str tile) {
    return s && s->kind == TL_COMPUTE &&
           tl_operation_shape(s->compute.operation) == TL_SHAPE_ELEMENTWISE && edit_writes(s, tile);
}

/* Operations of a Tanh that warpgroups work out as a polynomial near 0, as translate/near.c does:
 * of a tile into itself, alone, or past a factor of the tile, which goes into the coefficients. 0:
 * each element is worked out.
 */
static double near_operations(const cost_model *m, const tl_statement *s) {
    str name = edit_target_name(s);
    const tl_statement *p = s->previous;
    if (!edit_operand_is(s, 0, name) || is_elementwise_of(s->next, name)) return 0;
    if (!is_elementwise_of(p, name)) return PRICES_NEAR_FP32;
    bool is_factor = edit_is_compute(p, TL_MULTIPLY) && edit_operand_is(p, 0, name) &&
                     cost_tile_index(m, edit_operand_name(p, 1)) < 0;
    return is_factor && !is_elementwise_of(p->previous, name) ? PRICES_NEAR_FP32 - 1 : 0;
}

static void read_elements(cost_model *m, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    str widest = tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION ? edit_operand_name(s, 0)
                                                                        : edit_target_name(s);
    int tile = cost_tile_index(m, widest);
    cost_item *it = tile >= 0 ? add_item(m, COST_ELEMENTS, s) : NULL;
    if (!it) return;
    it->a = m->extents[tile][0];
    it->b = m->extents[tile][1];
    it->is_vector = m->plan.roles[tile].tile->axis_count < 2;
    it->is_columns = it->is_vector && m->plan.roles[tile].layout == TL_COLUMNS;
    const tiles_tile *about = m->plan.roles[tile].tile;
    for (int i = 0; i < about->axis_count && c->operation != TL_MASK && !it->is_vector; i++) {
        if (!edit_reads(s, about->axes[i])) continue;
        m->uses_indices = true;
        m->index_columns = it->b;
    }
    m->is_curved = m->is_curved || (tl_facts(c->operation)->is_chain && !it->is_vector);
    int by = cost_tile_index(m, edit_operand_name(s, 1));
    bool is_rescale = c->operation == TL_MULTIPLY && m->plan.roles[tile].is_product && by >= 0 &&
                      m->plan.roles[by].tile->axis_count < 2;
    bool is_difference = c->operation == TL_SUBTRACT && !it->is_vector &&
                         far_is_maximum(m->r, edit_operand_name(s, 1)); /* guard_far.c */
    it->is_of_maximum =
        edit_loop_of(s) && (tl_reduces_by_choice(c->operation) || is_rescale || is_difference);
    const tl_operation_facts *f = tl_facts(c->operation);
    it->fp32 = f->fp32;
    it->exp2 = f->exp2;
    it->conversions = it->is_vector ? 0 : f->conversions;
    if (c->operation == TL_TANH) it->near_fp32 = near_operations(m, s);
    if (c->operation == TL_MASK) {
        note_triangle(m, s);
        it->is_mask = true;
        m->mask_tests++;
        for (const tl_expr *e = c->condition; e && e->kind == TL_BINARY; e = e->left)
            m->mask_tests += e->operator== TL_AND || e->operator== TL_OR;
    }
}

/* Do the tensor's rows begin at multiples of what memory moves at once? */
static bool has_even_rows(cost_model *m, const tiles_tile *tile, int element_bits) {
    int64_t length;
    if (tile->axis_count < 1) return true;
    const tiles_span *span = tiles_extent(m->plan.tiles, tile->axes[tile->axis_count - 1]);
    return !reason_known(m->r, span->length, &length) || length * element_bits % SECTOR_BITS == 0;
}

/* Its elements are rounded and stored, each once. */
static void read_stored(cost_model *m, const tl_statement *s) {
    int tile = cost_tile_index(m, s->copy.what->text);
    cost_item *it = tile >= 0 ? add_item(m, COST_ELEMENTS, s) : NULL;
    if (!it) return;
    it->a = m->extents[tile][0];
    it->b = m->extents[tile][1];
    it->fp32 = it->conversions = 1;
}

/* Is an element of a table in the expression that depends on the index? */
static bool looks_up(const tl_expr *e, str index) {
    if (!e) return false;
    bool found = e->kind == TL_ELEMENT && tl_expr_names(e, index);
    found = found || looks_up(e->left, index) || looks_up(e->right, index);
    for (int i = 0; i < e->item_count && !found; i++) found = looks_up(e->items[i], index);
    return found;
}

/* Does a view say by a table where each of its rows lies? */
static bool has_listed_rows(reason *r, str tensor) {
    const tl_binding *view = edit_find_let(r->kernel, tensor, NULL);
    if (!view || view->axes.count < 2 || view->value->kind != TL_ELEMENT) return false;
    str row = tl_axis_index(&view->axes, view->axes.count - 2);
    bool found = has_listed_rows(r, view->value->text);
    for (int i = 0; i < view->value->item_count && row.length && !found; i++)
        found = looks_up(view->value->items[i], row);
    return found;
}

static void read_copy(cost_model *m, const tl_statement *s) {
    bool is_load = s->copy.from == TL_GLOBAL;
    int tile = cost_tile_index(m, edit_copied_tile(s));
    cost_item *it = tile >= 0 ? add_item(m, COST_COPY, s) : NULL;
    if (!it) return;
    it->a = m->extents[tile][0];
    it->b = m->extents[tile][1];
    it->tile = tile;
    it->is_load = is_load;
    it->is_twin = is_load && m->plan.roles[tile].twin;
    it->to_shared = is_load && m->plan.roles[tile].in_shared;
    it->is_columns = is_load && !it->to_shared && m->plan.roles[tile].layout == TL_COLUMNS;
    int bits = cost_raw_bits(m, tile);
    it->element_bits = bits > 0 ? bits : 32;
    it->has_even_rows = has_even_rows(m, m->plan.roles[tile].tile, it->element_bits);
    tl_tensor t;
    bool is_view = it->to_shared && tl_find_tensor(m->r->kernel, s->copy.what->text, &t) && t.view;
    it->of_view = is_view ? s : NULL;
    m->makes_rows = m->makes_rows || cost_is_widened(m, tile) ||
                    (it->to_shared && has_listed_rows(m->r, s->copy.what->text));
}

/* --- where tiles live ------------------------------------------------------------------------- */

/* Points [begin, end] of a loop's body, in reading order. */
static cost_life stretch_of(const cost_model *m, const tl_statement *loop) {
    cost_life l = {0, 0};
    int point = 0;
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL), point++) {
        if (s == loop) l.first = point;
        if (edit_is_within(s, loop)) l.last = point;
    }
    return l;
}

static bool has_use(const tl_statement *s, str name) {
    return s->kind == TL_COPY
               ? tl_expr_names(s->copy.what, name) || tl_expr_names(s->copy.target, name)
               : edit_reads(s, name) || edit_writes(s, name);
}

static bool has_use_within(tl_statement *loop, str name) {
    for (tl_statement *s = loop->loop.body.first; s; s = tl_next(s, loop))
        if (has_use(s, name)) return true;
    return false;
}

static void read_lives(cost_model *m) {
    m->lives = arena_array(m->r->memory, cost_life, m->plan.count + 1);
    m->loops = arena_array(m->r->memory, cost_life, m->plan.count + 1);
    for (int i = 0; i < m->plan.count; i++) {
        str name = m->plan.roles[i].tile->name;
        cost_life l = {-1, -1};
        int point = 0;
        for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL), point++)
            if (has_use(s, name)) {
                if (l.first < 0) l.first = point;
                l.last = point;
            }
        m->point_count = point;
        m->loops[i] = (cost_life){-1, -1};
        /* What is there before a loop and used in it lives through all of it. */
        for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind != TL_FOR) continue;
            cost_life loop = stretch_of(m, s);
            if (has_use_within(s, name)) {
                cost_life *all = &m->loops[i];
                all->first = all->first < 0 ? loop.first : all->first;
                all->last = loop.last > all->last ? loop.last : all->last;
            }
            if (l.first < loop.first && l.last > loop.first && l.last < loop.last)
                l.last = loop.last;
        }
        m->lives[i] = l;
    }
}

/* Of what a loop copies: is the tile an operand of products that take what was copied alone, and of
 * a sum that takes what was computed? Pass overlap leaves that sum for the next iteration to issue.
 */
static void read_last_uses(cost_model *m) {
    bool is_first[COST_TILES_MAX] = {false};
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s)) continue;
        int left = cost_tile_index(m, edit_operand_name(s, 0));
        int right = cost_tile_index(m, edit_operand_name(s, 1));
        if (left < 0 || right < 0 || !m->plan.roles[right].is_loaded_in_loop) continue;
        bool is_sum = s->compute.target_kind == TL_ACCUMULATE && !m->plan.roles[left].in_shared;
        if (!is_sum) is_first[right] = true;
        else if (is_first[right]) m->is_read_last[right] = true, m->sums_left++;
    }
}

static void read_channels(cost_model *m) {
    read_last_uses(m);
    tl_statement *first_use = NULL;
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s)) continue;
        for (int k = 0; k < 2; k++) {
            int tile = cost_tile_index(m, edit_operand_name(s, k));
            if (tile < 0 || !m->plan.roles[tile].in_shared ||
                !m->plan.roles[tile].is_loaded_in_loop)
                continue;
            bool is_known = false;
            for (int i = 0; i < m->channel_count; i++)
                is_known = is_known || m->channels[i] == tile;
            if (is_known || m->channel_count == COST_TILES_MAX) continue;
            first_use = first_use ? first_use : s;
            m->channels[m->channel_count] = tile;
            m->channel_is_head[m->channel_count++] = s == first_use;
        }
    }
    for (int i = 0; i < m->plan.count && m->channel_count < COST_TILES_MAX; i++) {
        if (!m->plan.roles[i].is_through) continue;
        m->channels[m->channel_count] = i;
        m->channel_is_head[m->channel_count++] = true;
    }
}

static bool walks_rows(cost_model *m) {
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        int tile = s->kind == TL_COPY && s->copy.to == TL_GLOBAL
                       ? cost_tile_index(m, edit_copied_tile(s))
                       : -1;
        if (tile < 0 || m->plan.roles[tile].tile->axis_count != 2) continue;
        if (tiles_walk(m->r, s, m->plan.roles[tile].tile->axes[0], NULL)) return true;
    }
    return false;
}

static void read_grid(cost_model *m) {
    const tl_statement *grid = scalar_grid(m->r->kernel);
    for (int i = 0; grid && i < grid->grid.count && m->grid_count < TL_AXES_MAX; i++) {
        const tl_expr *e = grid->grid.items[i].extent;
        if (e->kind == TL_BINARY && e->operator== TL_OVER) {
            cost_extent size = extent_of(m, e->right);
            int64_t length;
            bool is_short = reason_known(m->r, e->left, &length) && length <= TILES_WHOLE_MAX;
            if (is_short && size.value == 0 && !m->open_is_rows[size.open] && m->walks_rows)
                m->open_parts[size.open] = length;
            m->grid_sizes[m->grid_count] = size;
            m->grid_lengths[m->grid_count++] = nominal_value(m->r, e->left);
            if (size.value == 0 && m->grid_count == 1 && !m->has_products)
                m->open_is_rows[size.open] = true;
        } else if (m->walks_rows && edit_find_let(m->r->kernel, e->text, NULL)) {
            m->pieces *= nominal_worth(m->r, e); /* segments of a length, say */
        }
    }
}

/* Is some result not to leave through shared memory? */
static bool has_loose_result(reason *r, const place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *tile = plan->roles[i].tile;
        if (tile->to_global && !reason_decided(r, 1, "%.*s_in_shared", STR_ARGS(tile->name)))
            return true;
    }
    return false;
}

cost_model *cost_read(reason *r) {
    cost_model *m = arena_new(r->memory, cost_model);
    m->r = r;
    m->plan.warps = 4;
    m->pieces = 1;
    m->is_async = tiles_copy_async(r);
    if (!place_plan_read(r, &m->plan)) return NULL;
    if (m->plan.count > COST_TILES_MAX) {
        reason_stuck(r, NULL, "more than %d tiles", COST_TILES_MAX);
        return NULL;
    }
    m->items = arena_array(r->memory, cost_item, COST_ITEMS_MAX);
    if (!read_extents(m)) return NULL;
    cost_read_panels(m);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (edit_is_product(s)) read_product(m, s);
        else if (s->kind == TL_COMPUTE) read_elements(m, s);
        else if (edit_is_store(s)) read_stored(m, s);
        else if (s->kind == TL_COPY) read_copy(m, s);
    }
    for (int i = 0; i < m->item_count; i++)
        m->is_guarded = m->is_guarded || m->items[i].is_of_maximum;
    m->is_guarded = m->is_guarded && reason_decided(r, 1, "guard") != 0;
    m->walks_rows = walks_rows(m);
    read_grid(m);
    read_lives(m);
    read_channels(m);
    cost_read_pair(m);
    m->is_loose = has_loose_result(r, &m->plan);
    for (int i = 0; i < m->plan.count; i++)
        m->can_hold = m->can_hold ||
                      (place_may_be_held(r, &m->plan.roles[i]) && !m->plan.roles[i].in_register);
    return m;
}
