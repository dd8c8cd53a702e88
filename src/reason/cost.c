#include "reason/cost_model.h"

#include "check/check.h"
#include "reason/scalar.h"

#include <math.h>

enum {
    NOMINAL_LENGTH = 4096,      /* of axes that are known at launch only */
    BARRIER_CLOCKS = 50,        /* a block barrier, with the wait for the slowest warp */
    COPY_CLOCKS = 700,          /* from the start of a copy from memory until it is in place */
    CACHE_BYTES_PER_CLOCK = 24, /* of the level-2 cache, a multiprocessor's share */
    SECTOR_BYTES = 32,          /* what memory moves at once */
    BYTES_IN_FLIGHT = 32768,    /* a multiprocessor needs to keep device memory busy */
    REGISTERS_BASE = 24, /* addresses, fragments, counters; and half a register per row of a warp */
};

/* Products and shared memory are busy together, but not perfectly: (a^p + b^p)^(1/p). */
static const double TOGETHER = 3.2;
static const double LONE_WARP = 1.05;
static const double LONG_SCORES =
    1.15; /* more than 64 registers of scores: their work hides less */

int cost_open_count(const cost_model *m) {
    return m->open_count;
}
str cost_open_name(const cost_model *m, int i) {
    return m->open_names[i];
}
bool cost_open_is_rows(const cost_model *m, int i) {
    return m->open_is_rows[i];
}
bool cost_open_is_inner(const cost_model *m, int i) {
    return m->open_is_inner[i];
}
bool cost_has_products(const cost_model *m) {
    return m->has_products;
}
const place_plan *cost_plan(const cost_model *m) {
    return &m->plan;
}
int cost_channel_count(const cost_model *m) {
    return m->channel_count;
}
int cost_channel_tile(const cost_model *m, int i) {
    return m->channels[i];
}
bool cost_channel_is_head(const cost_model *m, int i) {
    return m->channel_is_head[i];
}
bool cost_can_hold(const cost_model *m) {
    return m->can_hold;
}

/* --- reading ---------------------------------------------------------------------------------- */

static cost_extent extent_of(cost_model *m, const tl_expr *e) {
    int64_t value;
    if (reason_known(m->r, e, &value)) return (cost_extent){value > 0 ? value : 1, -1};
    for (int i = 0; i < m->open_count && e->kind == TL_NAME; i++)
        if (str_equal(m->open_names[i], e->text)) return (cost_extent){0, i};
    if (e->kind == TL_NAME && !tiles_is_index(m->r->kernel, e->text) &&
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
                                    "with `let %s = ...` or an option",
                                    edit_text(m->r->memory, span->extent), STR_ARGS(tile->name),
                                    edit_text(m->r->memory, span->extent));
        }
    }
    return true;
}

static double nominal(cost_model *m, const tl_expr *length) {
    int64_t value, pinned = NOMINAL_LENGTH;
    reason_let_integer(m->r, "nominal_length", &pinned);
    return (double)(reason_known(m->r, length, &value) ? (value > 0 ? value : 1) : pinned);
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
        it->loop_lengths[it->loop_count++] = is_walk                  ? nominal(m, to->left)
                                             : to->kind == TL_INTEGER ? (double)to->integer
                                                                      : 16;
    }
}

static int tile_index(const cost_model *m, str name) {
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
    int left = tile_index(m, edit_operand_name(s, 0)),
        right = tile_index(m, edit_operand_name(s, 1));
    cost_item *it = left >= 0 && right >= 0 ? add_item(m, COST_PRODUCT, s) : NULL;
    if (!it) return;
    bool flip = s->compute.operands[0].is_transposed;
    it->a = m->extents[left][flip ? 1 : 0];
    it->c = m->extents[left][flip ? 0 : 1];
    it->b = m->extents[right][s->compute.operands[1].is_transposed ? 0 : 1];
    it->tile = left;
    m->has_products = true;
    if (it->a.value == 0) m->open_is_rows[it->a.open] = true;
    for (int k = 0; k < 2; k++) {
        cost_extent e = k == 0 ? it->a : it->b;
        if (e.value == 0) m->open_is_inner[e.open] = false;
    }
}

static int count_tests(const tl_expr *condition) {
    int joints = 0;
    for (const tl_expr *e = condition; e && e->kind == TL_BINARY; e = e->left)
        joints += e->operator== TL_AND || e->operator== TL_OR;
    return joints + 1;
}

/* `kv > q + ...`: of the blocks that a loop walks, tiles see more and more. */
static void note_triangle(cost_model *m, const tl_statement *s) {
    int tile = tile_index(m, edit_operand_name(s, 0));
    const tl_expr *c = s->compute.condition;
    if (tile < 0 || m->plan.roles[tile].tile->axis_count != 2 || c->kind != TL_BINARY ||
        (c->operator!= TL_GREATER && c->operator!= TL_GREATER_EQUAL))
        return;
    const str *axes = m->plan.roles[tile].tile->axes;
    if (!edit_expr_mentions(c->left, axes[1]) || !edit_expr_mentions(c->right, axes[0])) return;
    m->is_triangular = true;
    m->triangle_rows = m->extents[tile][0];
}

static void read_elements(cost_model *m, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    str widest =
        c->operation == TL_ROW_MAX || c->operation == TL_ROW_SUM || c->operation == TL_ROW_ARG_MAX
            ? edit_operand_name(s, 0)
            : edit_target_name(s);
    int tile = tile_index(m, widest);
    cost_item *it = tile >= 0 ? add_item(m, COST_ELEMENTS, s) : NULL;
    if (!it) return;
    it->a = m->extents[tile][0];
    it->b = m->extents[tile][1];
    it->is_vector = m->plan.roles[tile].tile->axis_count < 2;
    const tiles_tile *about = m->plan.roles[tile].tile;
    for (int i = 0; i < about->axis_count && c->operation != TL_MASK && !it->is_vector; i++) {
        if (!edit_reads(s, about->axes[i])) continue;
        m->uses_indices = true;
        m->index_columns = it->b;
    }
    m->is_curved = m->is_curved || (check_is_chain(c->operation) && !it->is_vector);
    bool is_rescale = c->operation == TL_MULTIPLY && m->plan.roles[tile].is_product &&
                      tile_index(m, edit_operand_name(s, 1)) >= 0;
    it->is_of_maximum = edit_loop_of(s) && (c->operation == TL_ROW_MAX || is_rescale);
    switch (c->operation) {
    case TL_FILL: it->fp32 = 0; break;
    case TL_EXP:
    case TL_EXP2:
    case TL_LOG:
    case TL_LOG2:
    case TL_SQRT:
    case TL_RSQRT:
    case TL_RECIPROCAL: it->exp2 = 1; break;
    case TL_DIVIDE:
        it->exp2 = 1;
        it->fp32 = 2;
        break;
    case TL_TANH: /* in hardware, or from one exponential and one reciprocal */
        it->exp2 = gpu_has(m->r->target, GPU_FEATURE_tanh) ? 1 : 2;
        it->fp32 = gpu_has(m->r->target, GPU_FEATURE_tanh) ? 0 : 4;
        break;
    case TL_ERF:
        it->fp32 = 20;
        it->exp2 = 1;
        break;
    case TL_ERFC:
        it->fp32 = 15;
        it->exp2 = 2;
        break;
    case TL_MASK:
        note_triangle(m, s);
        it->is_mask = true;
        m->mask_tests += count_tests(c->condition);
        it->fp32 = 0.2; /* at the edges only */
        break;
    case TL_CAST: it->conversions = it->is_vector ? 0 : 1; break;
    default: it->fp32 = 1;
    }
}

/* Do the tensor's rows begin at multiples of what memory moves at once? */
static bool has_even_rows(cost_model *m, const tiles_tile *tile, int element_bytes) {
    int64_t length;
    if (tile->axis_count < 1) return true;
    const tiles_span *span = tiles_extent(m->plan.tiles, tile->axes[tile->axis_count - 1]);
    return !reason_known(m->r, span->length, &length) || length * element_bytes % SECTOR_BYTES == 0;
}

static void read_copy(cost_model *m, const tl_statement *s) {
    bool is_load = s->copy.from == TL_GLOBAL;
    int tile = tile_index(m, is_load && s->copy.target ? s->copy.target->text : s->copy.what->text);
    cost_item *it = tile >= 0 ? add_item(m, COST_COPY, s) : NULL;
    if (!it) return;
    it->a = m->extents[tile][0];
    it->b = m->extents[tile][1];
    it->tile = tile;
    it->is_load = is_load;
    it->to_shared = is_load && m->plan.roles[tile].in_shared;
    tl_type type = m->plan.roles[tile].tile->storage;
    it->element_bytes = tl_type_bytes(type) > 0 ? tl_type_bytes(type) : 4;
    it->has_even_rows = has_even_rows(m, m->plan.roles[tile].tile, it->element_bytes);
}

/* --- where tiles live ------------------------------------------------------------------------- */

static bool touches(const tl_statement *s, str name) {
    if (s->kind == TL_COPY)
        return edit_expr_mentions(s->copy.what, name) || edit_expr_mentions(s->copy.target, name);
    return edit_reads(s, name) || edit_writes(s, name);
}

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

static void read_lives(cost_model *m) {
    m->lives = arena_array(m->r->memory, cost_life, m->plan.count > 0 ? m->plan.count : 1);
    for (int i = 0; i < m->plan.count; i++) {
        str name = m->plan.roles[i].tile->name;
        cost_life l = {-1, -1};
        int point = 0;
        for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL), point++)
            if (touches(s, name)) {
                if (l.first < 0) l.first = point;
                l.last = point;
            }
        m->point_count = point;
        /* What is there before a loop and used in it lives through all of it. */
        for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind != TL_FOR) continue;
            cost_life loop = stretch_of(m, s);
            if (l.first < loop.first && l.last > loop.first && l.last < loop.last)
                l.last = loop.last;
        }
        m->lives[i] = l;
    }
}

static void read_channels(cost_model *m) {
    tl_statement *first_use = NULL;
    for (tl_statement *s = m->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_compute(s, TL_GEMM)) continue;
        for (int k = 0; k < 2; k++) {
            int tile = tile_index(m, edit_operand_name(s, k));
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
}

static void read_grid(cost_model *m) {
    const tl_statement *grid = scalar_grid(m->r->kernel);
    for (int i = 0; grid && i < grid->grid.count && m->grid_count < TL_AXES_MAX; i++) {
        const tl_expr *e = grid->grid.items[i].extent;
        if (e->kind == TL_BINARY && e->operator== TL_OVER) {
            cost_extent size = extent_of(m, e->right);
            m->grid_sizes[m->grid_count] = size;
            m->grid_lengths[m->grid_count++] = nominal(m, e->left);
            if (size.value == 0 && m->grid_count == 1 && !m->has_products)
                m->open_is_rows[size.open] = true;
        }
    }
}

/* Is some result not to leave through shared memory? */
static bool has_loose_result(reason *r, const place_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *tile = plan->roles[i].tile;
        int64_t through = 1;
        reason_let_integer(r, reason_say(r, "%.*s_in_shared", STR_ARGS(tile->name)), &through);
        if (tile->to_global && through == 0) return true;
    }
    return false;
}

cost_model *cost_read(reason *r) {
    cost_model *m = arena_new(r->memory, cost_model);
    m->r = r;
    m->plan.warps = 4;
    m->is_async = gpu_has(r->target, GPU_FEATURE_cp_async);
    int64_t guard = 1;
    reason_let_integer(r, "guard", &guard);
    m->is_guarded = guard != 0;
    if (!place_plan_read(r, &m->plan)) return NULL;
    if (m->plan.count > COST_TILES_MAX) {
        reason_stuck(r, NULL, "more than %d tiles", COST_TILES_MAX);
        return NULL;
    }
    m->items = arena_array(r->memory, cost_item, COST_ITEMS_MAX);
    if (!read_extents(m)) return NULL;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (edit_is_compute(s, TL_GEMM)) read_product(m, s);
        else if (s->kind == TL_COMPUTE) read_elements(m, s);
        else if (s->kind == TL_COPY) read_copy(m, s);
    }
    read_grid(m);
    read_lives(m);
    read_channels(m);
    m->is_loose = has_loose_result(r, &m->plan);
    for (int i = 0; i < m->plan.count; i++)
        m->can_hold = m->can_hold ||
                      (place_may_be_held(r, &m->plan.roles[i]) && !m->plan.roles[i].in_register);
    return m;
}

/* --- evaluating ------------------------------------------------------------------------------- */

double cost_value(const cost_choice *c, cost_extent e) {
    return (double)(e.value > 0 ? e.value : c->sizes[e.open]);
}

static double tile_elements(const cost_model *m, const cost_choice *c, int tile) {
    return cost_value(c, m->extents[tile][0]) * cost_value(c, m->extents[tile][1]);
}

double cost_tile_bytes(const cost_model *m, const cost_choice *c, int tile) {
    return tile_elements(m, c, tile) * tl_type_bytes(m->plan.roles[tile].tile->storage);
}

static bool is_held(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    return role->in_shared && (role->in_register || (c->holds && role->is_left && !role->is_right &&
                                                     !role->is_loaded_in_loop));
}

static double shared_bytes(const cost_model *m, const cost_choice *c) {
    double bytes = 0, passing = 0, host = 0;
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!role->in_shared || role->is_loaded_in_loop) continue;
        /* Without asynchronous copies, what only passes through borrows a loop tile's bytes. */
        if (!m->is_async && is_held(m, c, i) && passing == 0) passing = cost_tile_bytes(m, c, i);
        else bytes += cost_tile_bytes(m, c, i);
    }
    for (int i = 0; i < m->channel_count; i++) {
        double own = cost_tile_bytes(m, c, m->channels[i]) * (double)c->stages[m->channels[i]];
        bytes += own;
        if (!m->channel_is_head[i]) host = fmax(host, own);
    }
    return bytes + fmax(0, passing - host);
}

double cost_tile_registers(const cost_model *m, const cost_choice *c, int tile) {
    const place_role *role = &m->plan.roles[tile];
    double threads = (double)c->warps * WARP_LANES;
    if (role->tile->axis_count < 2) {
        if (role->layout == TL_COLUMNS) return cost_value(c, m->extents[tile][0]) / 4;
        return cost_value(c, m->extents[tile][0]) / (double)c->warps / 8;
    }
    int bytes = role->in_shared ? tl_type_bytes(role->tile->storage) : tl_type_bytes(role->type);
    return tile_elements(m, c, tile) * bytes / 4 / threads;
}

/* A tile on its way through registers, 16 bytes a lane: lanes stand along a row as far as its
 * 16-byte pieces are a power of two, the others down the rows; where rows run out, registers hold
 * nothing.
 */
static double line_registers(const cost_model *m, const cost_choice *c, int tile, bool *is_cut) {
    enum {
        DEALT_UNITS_MIN = 9,
        DEALT_ACROSS_MIN = 13,
        UNITS_AT_ONCE = 4
    }; /* translate/copy_load.c */
    int64_t rows = (int64_t)cost_value(c, m->extents[tile][0]);
    int64_t pieces = (int64_t)cost_value(c, m->extents[tile][1]) *
                     tl_type_bytes(m->plan.roles[tile].tile->storage) / 16;
    int64_t along = pieces & -pieces;
    if (along < 1 || along > WARP_LANES) along = along < 1 ? 1 : WARP_LANES;
    int64_t rows_at_once = WARP_LANES / along * c->warps;
    int64_t registers = pieces / along * ((rows + rows_at_once - 1) / rows_at_once) * 4;
    *is_cut = rows % rows_at_once != 0;
    bool is_odd = along == 1 && pieces >= DEALT_UNITS_MIN;
    if (c->is_plain &&
        (is_odd || pieces / along >= DEALT_ACROSS_MIN)) { /* one by one, over all threads */
        int64_t threads = (int64_t)WARP_LANES * c->warps, all = rows * pieces;
        int64_t share = (all + threads - 1) / threads;
        *is_cut = true;
        return (double)(share < UNITS_AT_ONCE ? share : UNITS_AT_ONCE) * 4;
    }
    return (double)registers;
}

/* Seven units of a row in each lane, or more, whose addresses do not follow from one another. */
static bool is_long_line(const cost_model *m, const cost_choice *c, int tile) {
    enum { LONG = 7 };
    int64_t pieces = (int64_t)cost_value(c, m->extents[tile][1]) *
                     tl_type_bytes(m->plan.roles[tile].tile->storage) / 16;
    return !c->is_plain && pieces > 0 && pieces / (pieces & -pieces) >= LONG;
}

/* Products of more than 128 columns or steps: their fragments lie in more places in shared memory
 * than the compiler works out from one another.
 */
static double wide_registers(const cost_model *m, const cost_choice *c) {
    enum { NARROW = 128, WIDE_REGISTERS = 16, COLUMNS_A_REGISTER = 8 };
    double most = NARROW;
    for (int i = 0; i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT)
            most = fmax(most, fmax(cost_value(c, m->items[i].b), cost_value(c, m->items[i].c)));
    return most > NARROW ? WIDE_REGISTERS + (most - NARROW) / COLUMNS_A_REGISTER : 0;
}

/* Where all tiles have one slot, each has a copy of its own place in an iteration, between Waits,
 * beside elements whose function may need steps of its own.
 */
static double copy_registers(const cost_model *m, const cost_choice *c) {
    enum { SECOND_PLACE = 7, BESIDE_CURVED = 8 };
    for (int i = 0; i < m->channel_count; i++)
        if (c->stages[m->channels[i]] != 1) return 0;
    if (!m->is_async || m->channel_count < 2) return 0;
    return SECOND_PLACE + (m->is_curved ? BESIDE_CURVED : 0);
}

/* The most registers that tiles take at a time, and what the compiler takes beside them. */
typedef struct demand {
    double tiles, beside;
} demand;

static demand staging_registers(const cost_model *m, const cost_choice *c) {
    enum { CUT_LINES = 16, LONG_LINE = 8 };
    demand all = {0};
    for (int i = 0; !m->is_async && i < m->channel_count; i++) {
        bool is_cut;
        double own = line_registers(m, c, m->channels[i], &is_cut);
        /* Where rows run out, units move under conditions, by way of copies of their registers. */
        double cut = is_cut ? own + CUT_LINES : is_long_line(m, c, m->channels[i]) ? LONG_LINE : 0;
        /* In place: one tile at a time. */
        all.tiles = c->is_plain ? fmax(all.tiles, own) : all.tiles + own;
        all.beside = c->is_plain ? fmax(all.beside, cut) : all.beside + cut;
    }
    return all;
}

static demand registers_of(const cost_model *m, const cost_choice *c, double rows_per_warp) {
    enum { FURTHER_TEST = 16 }; /* of a mask: where the loop begins, and until where it masks */
    static const double TOGETHER_SHARE = 0.75;
    double live[COST_ITEMS_MAX] = {0}, most = 0;
    int points = m->point_count < COST_ITEMS_MAX ? m->point_count : COST_ITEMS_MAX;
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!is_held(m, c, i) && (!role->in_register || role->in_shared)) continue;
        double registers = cost_tile_registers(m, c, i);
        for (int p = m->lives[i].first; p >= 0 && p <= m->lives[i].last && p < points; p++)
            live[p] += registers;
    }
    for (int p = 0; p < points; p++) most = fmax(most, live[p]);
    check_elements elements = {.uses_indices = m->uses_indices, .is_curved = m->is_curved};
    if (m->uses_indices) elements.columns = (int64_t)cost_value(c, m->index_columns);
    demand all = staging_registers(m, c);
    all.tiles += most + REGISTERS_BASE + rows_per_warp / 4;
    /* Products and elements take theirs at different times, but not wholly. */
    double wide = wide_registers(m, c), element = check_element_registers(&elements);
    all.beside += fmax(wide, element) + fmin(wide, element) * TOGETHER_SHARE;
    all.beside += rows_per_warp > 32 ? (rows_per_warp - 32) / 4 : 0; /* a third row of fragments */
    all.beside += copy_registers(m, c);
    all.beside += m->mask_tests > 1 ? (m->mask_tests - 1) * FURTHER_TEST : 0;
    return all;
}

double cost_runs(const cost_choice *c, const cost_item *it) {
    double runs = it->share;
    for (int i = 0; i < it->loop_count; i++)
        runs *= ceil(it->loop_lengths[i] / cost_value(c, it->loop_sizes[i]));
    return runs;
}

static void add_times(const cost_model *m, const cost_choice *c, cost_result *out,
                      double *memory_bytes, double *flops) {
    const gpu *g = m->r->target;
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        double a = cost_value(c, it->a), b = cost_value(c, it->b), runs = cost_runs(c, it);
        if (it->kind == COST_PRODUCT) {
            double k = cost_value(c, it->c), left_bytes = 2 * a * k;
            bool from_shared = m->plan.roles[it->tile].in_shared && !is_held(m, c, it->tile);
            *flops += runs * 2 * a * b * k;
            out->tensor += runs * 2 * a * b * k / g->mma;
            out->shared += runs * (2 * (double)c->warps * b * k + (from_shared ? left_bytes : 0)) /
                           g->shared_rate;
        } else if (it->kind == COST_ELEMENTS) {
            double elements = it->is_vector ? a * 4 : a * b; /* four lanes hold a row's value */
            out->fp32 += runs * elements * it->fp32 / g->fp32;
            out->exp2 += runs * elements * it->exp2 / g->exp2;
            out->fp32 += runs * elements * it->conversions / g->conversions;
        } else {
            double bytes = a * b * it->element_bytes * runs;
            out->cache += bytes / CACHE_BYTES_PER_CLOCK;
            if (it->to_shared) out->shared += bytes / g->shared_rate;
            if (!m->has_products) *memory_bytes += bytes;
        }
    }
}

/* Barriers of an iteration: one when every tile that it copies has a slot to spare, else one for
 * the head and one for each tile that comes later; without asynchronous copies one more for one
 * slot.
 */
static double barrier_count(const cost_model *m, const cost_choice *c) {
    bool all_double = true;
    int later = 0;
    for (int i = 0; i < m->channel_count; i++) {
        all_double = all_double && c->stages[m->channels[i]] > 1;
        later += !m->channel_is_head[i];
    }
    if (m->channel_count == 0) return 0;
    return all_double ? 1 : 1 + later + (later == 0 ? 1 : 0);
}

static double iterations(const cost_model *m, const cost_choice *c) {
    double most = 0;
    for (int i = 0; i < m->item_count; i++)
        if (m->items[i].kind == COST_PRODUCT) most = fmax(most, cost_runs(c, &m->items[i]));
    return most;
}

/* How many iterations before its use a tile's copy starts, the least over all tiles. */
static double copy_lead(const cost_model *m, const cost_choice *c) {
    double least = 16;
    bool all_heads = m->channel_count > 0 && m->channel_is_head[m->channel_count - 1];
    for (int i = 0; i < m->channel_count; i++) {
        double stages = (double)c->stages[m->channels[i]];
        if (c->is_plain) return 0;
        least = fmin(least, stages > 1 ? stages - 1 : all_heads && m->is_async ? 0 : 0.5);
    }
    return least;
}

/* Clocks an iteration that a block waits for copies while its neighbours have nothing to do either.
 */
static double copy_wait(const cost_model *m, const cost_choice *c, const cost_result *t,
                        double base) {
    double runs = iterations(m, c);
    if (m->channel_count == 0 || runs < 1) return 0;
    double one = base / runs * t->resident;
    double wait = COPY_CLOCKS - copy_lead(m, c) * one - (t->resident - 1) * base / runs;
    return wait > 0 ? wait / t->resident * runs : 0;
}

/* The part of a block's other work that products of its neighbours do not hide. */
static double exposed_share(int resident, double warps) {
    double groups = (double)resident * (warps > 4 ? sqrt(warps / 4) * 0.7 : warps / 4);
    return groups <= 1 ? 1 : groups < 3 ? 0.6 : 0.5;
}

/* Registers of the largest product that is made anew in each iteration. */
static double score_registers(const cost_model *m, const cost_choice *c) {
    double most = 0;
    for (int i = 0; i < m->plan.count; i++)
        if (m->plan.roles[i].is_product && m->plan.roles[i].is_left)
            most = fmax(most, cost_tile_registers(m, c, i));
    return most;
}

double cost_grid_elements(const cost_model *m, const cost_choice *c) {
    double elements = 1;
    for (int i = 0; i < m->grid_count; i++) elements *= cost_value(c, m->grid_sizes[i]);
    return elements;
}

static bool shapes_fit(const cost_model *m, const cost_choice *c, cost_result *out) {
    for (int i = 0; i < m->item_count; i++) {
        const cost_item *it = &m->items[i];
        if (it->kind != COST_PRODUCT) continue;
        int64_t a = (int64_t)cost_value(c, it->a);
        if (a % (16 * c->warps) != 0 || (int64_t)cost_value(c, it->b) % 8 != 0 ||
            (int64_t)cost_value(c, it->c) % 8 != 0)
            return false;
        out->rows_per_warp = (int)(a / c->warps);
    }
    for (int i = 0; i < m->plan.count && !m->has_products; i++) {
        const place_role *role = &m->plan.roles[i];
        if (role->in_register && role->tile->axis_count == 2) {
            out->rows_per_warp = (int)(cost_value(c, m->extents[i][0]) / (double)c->warps);
            if (role->layout == TL_MMA_C &&
                (int64_t)cost_value(c, m->extents[i][0]) % (16 * c->warps))
                return false;
        }
    }
    return true;
}

static void add_up(const cost_model *m, const cost_choice *c, cost_result *out) {
    const gpu *g = m->r->target;
    double memory_bytes = 0, flops = 0;
    add_times(m, c, out, &memory_bytes, &flops);
    out->barriers = barrier_count(m, c) * BARRIER_CLOCKS * iterations(m, c);
    double base = pow(pow(out->tensor, TOGETHER) + pow(out->shared, TOGETHER), 1 / TOGETHER);
    double exposed = exposed_share(out->resident, (double)c->warps);
    if (score_registers(m, c) > 64) exposed *= LONG_SCORES;
    if (out->resident * c->warps <= 4)
        base *= LONE_WARP; /* a scheduler with one warp waits for each product's issue */
    out->clocks =
        base + exposed * (out->fp32 + out->exp2 + out->barriers) + copy_wait(m, c, out, base);
    out->clocks = fmax(out->clocks, fmax(out->fp32, out->exp2));
    if (m->has_products) {
        out->clocks = fmax(out->clocks, out->cache);
        out->tflops = flops / out->clocks * (double)g->sms * g->clock * 1e6 / 1e12;
    } else {
        double per_clock = g->memory * 1e9 / ((double)g->sms * g->clock * 1e6);
        double in_flight = 0;
        for (int i = 0; i < m->item_count; i++)
            if (m->items[i].kind == COST_COPY && m->items[i].is_load)
                in_flight += cost_value(c, m->items[i].a) * cost_value(c, m->items[i].b) *
                             m->items[i].element_bytes;
        in_flight *= out->resident;
        double busy = fmin(1, in_flight / BYTES_IN_FLIGHT);
        out->clocks = fmax(out->clocks, memory_bytes / per_clock / (busy > 0 ? busy : 1));
        out->gigabytes_per_s = memory_bytes / out->clocks * (double)g->sms * g->clock * 1e6 / 1e9;
    }
    out->per_element = out->clocks / cost_grid_elements(m, c);
}

cost_result cost_of(const cost_model *m, const cost_choice *c) {
    cost_result out = {0};
    const gpu *g = m->r->target;
    if (!shapes_fit(m, c, &out)) return out;
    out.shared_bytes = (int64_t)shared_bytes(m, c);
    demand registers = registers_of(m, c, out.rows_per_warp);
    out.registers = (int)(registers.tiles + registers.beside);
    if (registers.tiles > (double)g->thread_registers || out.shared_bytes > g->block_shared)
        return out;
    out.is_tight = out.registers > g->thread_registers;
    int most = (int)g->thread_registers;
    gpu_block block = {.threads = (int)c->warps * WARP_LANES,
                       .registers = out.is_tight ? most : out.registers,
                       .shared_bytes = out.shared_bytes};
    out.resident = gpu_occupancy(g, block, NULL);
    out.fits = out.resident > 0;
    if (out.fits) add_up(m, c, &out);
    return out;
}

const char *cost_shared_text(reason *r, const cost_model *m, const cost_choice *c) {
    str text = {"", 0};
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        if (!role->in_shared) continue;
        int64_t bytes = (int64_t)cost_tile_bytes(m, c, i);
        int64_t stages = role->is_loaded_in_loop || c->warpgroups > 0 ? c->stages[i] : 1;
        str one = stages > 1 ? str_format(r->memory, "%.*s %lld x %lld", STR_ARGS(role->tile->name),
                                          (long long)stages, (long long)bytes)
                             : str_format(r->memory, "%.*s %lld", STR_ARGS(role->tile->name),
                                          (long long)bytes);
        text = text.length > 0 ? str_format(r->memory, "%.*s, %.*s", STR_ARGS(text), STR_ARGS(one))
                               : one;
    }
    return edit_z(r->memory, text);
}
