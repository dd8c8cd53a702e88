/* Pass tile: tile sizes, warps and stages from budgets and the cost model; then the loops' bounds.
 */
#include "reason/bounds.h"
#include "reason/cost_model.h"
#include "reason/narrow.h"
#include "reason/nominal.h"
#include "reason/pair.h"
#include "reason/panels.h"
#include "reason/shares.h"
#include "reason/warpgroups.h"
#include "reason/ways.h"

#include <stdlib.h>

enum {
    SCHEDULERS = 4, /* of a multiprocessor */
    WARPS_MOST = 16,
    EAGER_BLOCKS = 6, /* a tile of fewer has no time for a maximum that moved far to do so again */
    WARPGROUP_WAYS = 4, /* cuts into tiles for warpgroups that are tried before those for warps */
    FIRST_COLUMNS = 32, /* of a first block, that set its maximum where blocks are few */
    FIRST_SHARE_PERCENT = 90, /* and products take this much of what elements take, or more */
    MASK_PARTS = 2 /* of a block, told apart where blocks are few and products take less */
};

typedef struct search {
    reason *r;
    cost_model *model;
    int64_t pinned_warps, pinned_resident, pinned_warpgroups, pinned_pair;
    int pinned_hold;                 /* -1: open */
    int64_t least_warps, most_warps; /* that are tried */
    /* Asked for by each of many thousand candidates: read once. 0: open, but -1 for the last. */
    int64_t *pinned_stages, pinned_casts, pinned_panels, pinned_ahead; /* the first by tile */
    ways_list ways;
    bool is_padded; /* lengths are those that warpgroups can contract */
    int way; /* of the cuts into tiles, which one is to be chosen: those before it were refused */
    ways_candidate nearest; /* the one that misses the budget by least, for the message */
    bool has_nearest;
} search;

static void try_choice(search *s, const cost_choice *choice) {
    ways_candidate c = {*choice, choice->warpgroups > 0 ? cost_of_warpgroups(s->model, choice)
                                                        : cost_of(s->model, choice)};
    if (c.result.fits && c.result.resident >= s->pinned_resident) {
        ways_keep(&s->ways, &c);
        return;
    }
    if (c.result.shared_bytes > 0 &&
        (!s->has_nearest || c.result.shared_bytes < s->nearest.result.shared_bytes)) {
        s->nearest = c;
        s->has_nearest = true;
    }
}

/* --- stages ----------------------------------------------------------------------------------- */

/* The kernel as it is now, and what is pinned for its tiles. False: reported. */
static bool read_model(search *s) {
    s->model = cost_read(s->r);
    if (!s->model) return false;
    int count = s->model->plan.count;
    s->pinned_stages = arena_array(s->r->memory, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        s->pinned_stages[i] = reason_stages(s->r, s->model->plan.roles[i].tile->name, 0);
    s->pinned_hold = -1;
    for (int i = count - 1; i >= 0; i--) {
        int64_t value;
        str name = s->model->plan.roles[i].tile->name;
        if (reason_let_integer(s->r, reason_say(s->r, "%.*s_in_registers", STR_ARGS(name)), &value))
            s->pinned_hold = value != 0;
    }
    s->pinned_casts = reason_decided(s->r, 0, "casts");
    s->pinned_panels = reason_decided(s->r, 0, "panel_bytes");
    s->pinned_ahead = reason_decided(s->r, -1, "copies_ahead");
    return true;
}

/* All two; all three (loops whose tiles meet in one product); first two, others one; all one. */
static void try_stages(search *s, cost_choice *choice) {
    bool is_async = tiles_copy_async(s->r);
    int count = s->model->channel_count;
    bool all_heads = count > 0 && s->model->channel_is_head[count - 1];
    for (int form = 0; form < 4; form++) {
        if ((!is_async && form != 3) || (form == 1 && !all_heads) || (form == 2 && all_heads) ||
            (count == 0 && form != 3))
            continue;
        for (int i = 0; i < count; i++) {
            int tile = s->model->channels[i];
            int64_t stages = s->pinned_stages[tile];
            if (stages == 0)
                stages = form == 0   ? 2
                         : form == 1 ? 3
                         : form == 2 ? (s->model->channel_is_head[i] ? 2 : 1)
                                     : 1;
            choice->stages[tile] = stages;
        }
        int64_t ahead = s->pinned_ahead;
        for (int plain = 0; plain < (is_async || count == 0 ? 1 : 2); plain++) {
            choice->is_plain = plain;
            if (ahead < 0 || (ahead == 0) == (plain == 1)) try_choice(s, choice);
        }
    }
}

/* --- warpgroups ------------------------------------------------------------------------------- */

/* Slots of what loops copy, and of what is before them: two each, if they fit; more where an
 * iteration is short, and first of all where operands have 8 bits: a GEMM makes 1,059 TFLOPS with
 * two and 1,467 with four (m = n = k = 8,192, H200).
 */
static void try_rings(search *s, cost_choice *choice) {
    enum { LEAST = 2, MOST = 4 };
    const place_plan *plan = &s->model->plan;
    bool is_short = tiles_multiplies_bytes(s->r->kernel);
    for (int64_t more = 0; more <= MOST - LEAST; more++)
        for (int64_t standing = 2; standing >= 1; standing--) {
            for (int i = 0; i < plan->count; i++) {
                if (!plan->roles[i].in_shared) continue;
                int64_t pinned = s->pinned_stages[i];
                bool is_ring = plan->roles[i].is_loaded_in_loop;
                int64_t ring = is_short ? MOST - more : LEAST + more;
                bool is_made =
                    plan->roles[i].tile->from_register; /* used up before the next round */
                choice->stages[i] = pinned > 0 ? pinned : is_ring ? ring : is_made ? 1 : standing;
            }
            try_choice(s, choice);
        }
}

static void try_casts(search *s, cost_choice *choice) {
    int64_t pinned = s->pinned_casts;
    /* Sums in two places leave no registers for two of weights, beside blocks of 128. */
    if (pinned == 0 && tiles_multiplies_bytes(s->r->kernel)) pinned = 1;
    for (choice->casts = 2; choice->casts > 0; choice->casts--) {
        if (pinned > 0) choice->casts = pinned;
        try_rings(s, choice);
        if (pinned > 0) break;
    }
}

/* How wide panels are whose last one may be open. */
static void try_panels(search *s, cost_choice *choice) {
    int64_t pinned = s->pinned_panels;
    for (int64_t bytes = PANELS_MOST_BYTES; bytes >= PANELS_LEAST_BYTES; bytes /= 2) {
        choice->panel_bytes = pinned > 0 ? pinned : bytes;
        try_casts(s, choice);
        if (pinned > 0 || !s->model->may_open_panels) break;
    }
}

/* Tiles of few rows share nothing that they read: many warps that wait for memory are faster than
 * warpgroups with rows of their own.
 */
static bool has_lone_rows(const search *s) {
    return cost_has_few_rows(s->model) && warpgroups_copy_views(s->r);
}

/* Are the tiles that copies bring boxes of tensors, each in one page, or in each of its pages? */
static bool are_boxes(const search *s, const cost_choice *choice) {
    const place_plan *plan = &s->model->plan;
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *tile = plan->roles[i].tile;
        bool is_copied = plan->roles[i].in_shared && tile->from_global;
        int64_t rows = (int64_t)cost_value(choice, s->model->extents[i][0]);
        if (is_copied && !warpgroups_copies_boxes(s->r, tile->first, rows)) return false;
    }
    return true;
}

/* Two that share rows have one place for weights, and a slot for every other block. */
static void try_pair(search *s, cost_choice *choice) {
    const place_plan *plan = &s->model->plan;
    bool is_pinned_otherwise = s->pinned_warpgroups > 0 && s->pinned_warpgroups != PAIR;
    if (s->pinned_pair == 0 || is_pinned_otherwise || !cost_may_pair(s->model, choice)) return;
    choice->is_paired = true;
    choice->warpgroups = PAIR;
    choice->warps = WARPGROUP_WARPS; /* each has all of the rows */
    choice->casts = 1;
    choice->panel_bytes = PANELS_MOST_BYTES;
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].in_shared)
            choice->stages[i] = plan->roles[i].is_loaded_in_loop ? PAIR : 1;
    try_choice(s, choice);
    choice->is_paired = false;
}

static void try_groups(search *s, cost_choice *choice) {
    if (!are_boxes(s, choice)) return;
    try_pair(s, choice);
    if (s->pinned_pair > 0 || (has_lone_rows(s) && s->pinned_warpgroups < 0)) return;
    for (int64_t count = 1; count <= WARPGROUPS_MAX; count++) {
        if (s->pinned_warpgroups > 0 && count != s->pinned_warpgroups) continue;
        choice->warpgroups = count;
        choice->warps = count * WARPGROUP_WARPS;
        try_panels(s, choice);
    }
}

/* --- warps ------------------------------------------------------------------------------------ */

static void try_warps(search *s, cost_choice *choice) {
    for (int64_t warps = s->least_warps; warps <= s->most_warps; warps *= 2)
        for (int holds = 0; holds < (s->model->can_hold ? 2 : 1); holds++) {
            if (s->model->can_hold && s->pinned_hold >= 0 && holds != s->pinned_hold) continue;
            choice->warps = warps;
            choice->holds = holds;
            try_stages(s, choice);
        }
}

/* --- sizes ------------------------------------------------------------------------------------ */

enum { SIZES_MAX = 16 };

/* Parts of a short axis: none is ragged. */
static int parts_of(int64_t length, int64_t sizes[SIZES_MAX]) {
    enum { UNIT = 8, LEAST = 16 };
    int count = 0;
    for (int64_t size = length; size >= LEAST && count < SIZES_MAX; size -= UNIT)
        if (length % size == 0) sizes[count++] = size;
    if (count == 0) sizes[count++] = length;
    return count;
}

/* The sizes that are tried for an open one: of products of warps, of warpgroups. */
static int sizes_of(const cost_model *m, int open, bool is_wide, int64_t sizes[SIZES_MAX]) {
    enum { COLUMNS, ROWS, INNER, MOST = SIZES_MAX - 1 }; /* a 0 past the last */
    static const int64_t tried[2][3][MOST] = {
        {{256, 128, 96, 64, 48, 32, 16}, {256, 192, 128, 64, 32, 16}, {64, 32, 16}},
        {{256, 224, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16},
         {192, 128, 64},
         {128, 64, 32}}};
    if (m->open_parts[open]) return parts_of(m->open_parts[open], sizes);
    bool is_inner = m->open_is_inner[open] && (is_wide || m->has_products);
    const int64_t *of = tried[is_wide][m->open_is_rows[open] ? ROWS : is_inner ? INNER : COLUMNS];
    int count = 0;
    for (; of[count]; count++) sizes[count] = of[count];
    return count;
}

static void try_sizes(search *s, cost_choice *choice, int open, bool is_wide) {
    if (open == s->model->open_count) {
        (is_wide ? try_groups : try_warps)(s, choice);
        return;
    }
    int64_t sizes[SIZES_MAX];
    int count = sizes_of(s->model, open, is_wide, sizes);
    for (int i = 0; i < count; i++) {
        choice->sizes[open] = sizes[i];
        try_sizes(s, choice, open + 1, is_wide);
    }
}

/* --- the class -------------------------------------------------------------------------------- */

/* With lengths that products can contract; they stay as they are where nothing fits. False:
 * reported.
 */
static bool try_padded(search *s) {
    cost_choice choice = {0};
    warpgroups_padding padding = warpgroups_pad(s->r, &s->model->plan);
    if (padding.axes.count > 0 && !read_model(s)) return false;
    try_sizes(s, &choice, 0, true);
    if (s->ways.kept_count > 0) {
        warpgroups_explain_padding(s->r, &padding);
        s->is_padded = padding.axes.count > 0;
        return true;
    }
    warpgroups_unpad(s->r, &padding);
    return padding.axes.count == 0 || read_model(s);
}

static bool panel_bytes_are_known(reason *r) {
    int64_t bytes = reason_decided(r, PANELS_MOST_BYTES, "panel_bytes");
    return panels_dividing(bytes) == bytes ||
           reason_stuck(r, NULL, "panels of warpgroups have 32, 64 or 128 bytes, not %lld",
                        (long long)bytes);
}

/* Does a pin ask for what only the other class has? */
static bool asks_for_warps(search *s) {
    int64_t value;
    return s->pinned_warps > 0 || reason_let_integer(s->r, "copies_ahead", &value) ||
           s->pinned_resident > 1 || s->pinned_hold > 0;
}

/* After so many cuts of warpgroups were refused, warps are tried. */
static bool leaves_warpgroups(search *s) {
    if (s->way < WARPGROUP_WAYS || warpgroups_refusal(s->r, &s->model->plan)) return false;
    s->way -= WARPGROUP_WAYS;
    return true;
}

/* Elements of 8 bits stay as they are where warpgroups can multiply them so; else, and where that
 * is asked for, they widen. False: reported.
 */
static bool try_bytes(search *s) {
    enum { WIDE = 16, NARROW = 8 };
    reason *r = s->r;
    int64_t wanted = -1;
    if (!gpu_has(r->target, GPU_FEATURE_wgmma)) return true; /* pass bytes has decided */
    if (reason_let_integer(r, "products", &wanted)) {
        edit_remove_let(r->kernel, STR("products"));
        if (!read_model(s)) return false;
    }
    if (wanted >= 0 && wanted != WIDE && wanted != NARROW)
        return reason_stuck(r, NULL, "products take operands of 8 or 16 bits, not %lld",
                            (long long)wanted);
    if (wanted == NARROW && !narrow_are_multiplied(&s->model->plan))
        return reason_stuck(r, NULL, "no product of kernel %.*s has operands of 8 bits",
                            STR_ARGS(r->kernel->name));
    if (!narrow_are_multiplied(&s->model->plan)) return true;
    const char *why = narrow_refusal(r, &s->model->plan);
    if (!why && wanted == WIDE) why = reason_pin_word(r, "products");
    if (!why && (s->pinned_warpgroups == 0 || (s->pinned_warpgroups < 0 && asks_for_warps(s))))
        why = "warps of this GPU have no such products";
    if (!why && s->pinned_warpgroups < 0 && s->way >= WARPGROUP_WAYS) {
        s->way -= WARPGROUP_WAYS;
        why = "what was made of them was refused";
    }
    if (!why) {
        reason_let(r, "products", NARROW);
        if (!read_model(s)) return false;
        why = warpgroups_refusal(r, &s->model->plan);
        if (!why && !try_padded(s)) return false;
        if (!why && s->ways.kept_count == 0) why = "no tile sizes fit";
    }
    if (s->ways.kept_count > 0) {
        reason_offers_choice(r, "products", NARROW, (const int64_t[]){NARROW, WIDE}, 2);
        reason_decide(r, "products",
                      "operands of 8 bits are multiplied as they are, at twice the rate; what is "
                      "computed for them is rounded to 8 bits");
        return true;
    }
    if (wanted == NARROW)
        return reason_stuck(r, NULL, "products of 8 bits are not for this kernel: %s", why);
    if (!narrow_may_widen(r, why)) return false;
    reason_decide(r, "products", "operands of fewer bits widen to 16 on their way: %s", why);
    edit_remove_let(r->kernel, STR("products"));
    return read_model(s);
}

static void try_blocks(search *s);

/* A warpgroup alone has no other whose elements run beside its products, as two blocks of warps on
 * a multiprocessor have: there both classes are asked.
 */
static void prefer_warps(search *s) {
    const ways_candidate *best = &s->ways.kept[0];
    search others = *s;
    bool is_alone = best->choice.warpgroups == 1 || (best->choice.is_paired && has_lone_rows(s));
    if (!is_alone || s->is_padded) return;
    others.ways = (ways_list){.wants_cuts = s->ways.wants_cuts};
    try_blocks(&others);
    const ways_candidate *other = &others.ways.kept[0];
    if (others.ways.kept_count == 0 || other->result.tflops <= best->result.tflops) return;
    reason_decide(s->r, "class",
                  "warps issue their products themselves: predicted are %.0f TFLOPS, of %s, %.0f",
                  other->result.tflops,
                  best->choice.is_paired ? "two warpgroups that share rows"
                                         : "one warpgroup, which computes alone",
                  best->result.tflops);
    s->ways = others.ways;
}

/* Tries warpgroups where they may be. False when they are pinned and cannot be. */
static bool choose_class(search *s) {
    reason *r = s->r;
    s->pinned_warpgroups = reason_decided(r, -1, "warpgroups"); /* -1: open */
    s->pinned_pair = reason_decided(r, -1, "pair");
    if (!try_bytes(s)) return false;
    if (s->ways.kept_count > 0) return true;
    if (s->pinned_warpgroups == 0 || (s->pinned_warpgroups < 0 && asks_for_warps(s))) return true;
    if (s->pinned_warpgroups < 0 && leaves_warpgroups(s)) return true;
    bool is_pinned = s->pinned_warpgroups > 0;
    if (s->pinned_warpgroups > WARPGROUPS_MAX)
        return reason_stuck(r, NULL, "1 to %d warpgroups can compute, not %lld", WARPGROUPS_MAX,
                            (long long)s->pinned_warpgroups);
    if (!panel_bytes_are_known(r)) return false;
    const char *why = warpgroups_refusal(r, &s->model->plan);
    if (!why && !is_pinned && has_lone_rows(s) && !s->model->may_pair)
        why = "rows are fewer than the 64 of a product of theirs";
    if (why && is_pinned)
        return reason_stuck(r, NULL, "warpgroups cannot compute this kernel: %s", why);
    if (!why) {
        if (!try_padded(s)) return false;
        if (s->ways.kept_count > 0 && !is_pinned) prefer_warps(s);
        if (s->ways.kept_count > 0) return true;
        why = "no tile sizes fit: warpgroups take 64 rows each, contracted lengths that are "
              "multiples of 16, and others that are multiples of 8 up to 256";
        if (is_pinned) return reason_stuck(r, NULL, "%s", why);
    }
    if (s->model->has_products && gpu_has(r->target, GPU_FEATURE_wgmma))
        reason_decide(r, "class", "warps issue their products themselves: %s", why);
    return true;
}

/* Fewer than 4 warps leave schedulers without work: only where nothing else fits, or rows are few,
 * for which more read operands again.
 */
static void try_blocks(search *s) {
    cost_choice choice = {0};
    int64_t warps = s->pinned_warps;
    s->least_warps = warps > 0 ? warps : cost_has_few_rows(s->model) ? 1 : SCHEDULERS;
    s->most_warps = warps > 0 ? warps : WARPS_MOST;
    try_sizes(s, &choice, 0, false);
    if (warps > 0 || s->ways.kept_count > 0) return;
    s->least_warps = 1;
    s->most_warps = SCHEDULERS / 2;
    try_sizes(s, &choice, 0, false);
}

/* --- the decision ----------------------------------------------------------------------------- */

static void offer_warpgroups(search *s) {
    static const int64_t stages[] = {1, 2, 3, 4}, casts[] = {1, 2}, panels[] = {32, 64, 128};
    reason *r = s->r;
    const cost_choice *c = &s->ways.kept[0].choice;
    const place_plan *plan = &s->model->plan;
    for (int i = 0; i < plan->count; i++) {
        if (!plan->roles[i].in_shared) continue;
        const char *name = reason_say(r, "%.*s_stages", STR_ARGS(plan->roles[i].tile->name));
        reason_offers_choice(r, name, c->stages[i], stages, 4);
    }
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].has_cast) reason_offers_choice(r, "casts", c->casts, casts, 2);
    if (s->model->may_open_panels)
        reason_offers_choice(r, "panel_bytes", c->panel_bytes, panels, 3);
}

/* What a tuner may put in place of this choice. */
static void offer_choice(search *s) {
    static const int64_t groups[] = {0, 1, 2, 3}, warps[] = {4, 8, 16}, stages[] = {1, 2, 3, 4};
    reason *r = s->r;
    const cost_choice *c = &s->ways.kept[0].choice;
    if (c->warpgroups > 0) reason_offers_choice(r, "warpgroups", c->warpgroups, groups, 4);
    for (int i = 0; i < s->model->open_count; i++) {
        int64_t sizes[SIZES_MAX];
        int count = sizes_of(s->model, i, c->warpgroups > 0, sizes);
        reason_offers_choice(r, edit_z(r->memory, s->model->open_names[i]), c->sizes[i], sizes,
                             count);
    }
    if (c->warpgroups > 0) {
        offer_warpgroups(s);
        return;
    }
    reason_offers_choice(r, "warps", c->warps, warps, 3);
    bool is_async = tiles_copy_async(r);
    const place_plan *plan = &s->model->plan;
    for (int i = 0; i < s->model->channel_count; i++) {
        int tile = s->model->channels[i];
        const char *name = reason_say(r, "%.*s_stages", STR_ARGS(plan->roles[tile].tile->name));
        reason_offers_choice(r, name, c->stages[tile], stages, is_async ? 4 : 1);
    }
    if (!is_async && s->model->channel_count > 0)
        reason_offers_switch(r, "copies_ahead", !c->is_plain);
    for (int i = 0; s->model->can_hold && i < plan->count; i++)
        if (place_may_be_held(r, &plan->roles[i]) && plan->roles[i].in_shared)
            reason_offers_switch(
                r, reason_say(r, "%.*s_in_registers", STR_ARGS(plan->roles[i].tile->name)),
                c->holds);
}

static bool has_moving_maximum(const reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_compute(s, TL_ROW_MAX) && edit_loop_of(s)) return true;
    return false;
}

/* Writes the decisions down as lets; the passes that use them take them out again. */
static void write_choice(search *s) {
    reason *r = s->r;
    const cost_choice *c = &s->ways.kept[0].choice;
    const place_plan *plan = &s->model->plan;
    for (int i = 0; i < s->model->open_count; i++)
        reason_let(r, edit_z(r->memory, s->model->open_names[i]), c->sizes[i]);
    if (c->warpgroups > 0) {
        reason_settle(r, c->warpgroups, "warpgroups");
        if (c->is_paired) {
            reason_settle(r, 1, "pair");
            reason_settle(r, 0, "guard"); /* warps of both would have to agree */
        }
        if (c->casts > 1) reason_settle(r, c->casts, "casts");
        if (s->model->may_open_panels) reason_settle(r, c->panel_bytes, "panel_bytes");
        bool is_short =
            has_moving_maximum(r) && !c->is_paired && s->ways.kept[0].result.blocks < EAGER_BLOCKS;
        bool is_full = tiles_multiplies_bytes(r->kernel) && has_moving_maximum(r); /* registers */
        if (is_short || is_full) reason_settle(r, 0, "eager");
        const cost_result *t = &s->ways.kept[0].result;
        bool is_dense = 100 * t->tensor >= FIRST_SHARE_PERCENT * t->elements;
        if (has_moving_maximum(r) && is_dense && !c->is_paired) reason_settle(r, 1, "rounded_sums");
        if (is_short && is_dense) reason_settle(r, FIRST_COLUMNS, "first_columns");
        if (is_short && !is_dense) reason_settle(r, MASK_PARTS, "mask_parts");
        edit_remove_let(r->kernel, STR("warps"));
    } else {
        edit_remove_let(r->kernel, STR("warpgroups"));
        edit_remove_let(r->kernel, STR("casts"));
        edit_remove_let(r->kernel, STR("panel_bytes"));
        reason_settle(r, c->warps, "warps");
    }
    for (int i = 0; c->warpgroups > 0 && i < plan->count; i++)
        if (!plan->roles[i].is_loaded_in_loop && c->stages[i] > 1)
            reason_settle(r, c->stages[i], "%.*s_stages", STR_ARGS(plan->roles[i].tile->name));
    for (int i = 0; i < s->model->channel_count; i++) {
        int tile = s->model->channels[i];
        reason_settle(r, c->stages[tile], "%.*s_stages", STR_ARGS(plan->roles[tile].tile->name));
    }
    if (c->is_plain) reason_settle(r, 0, "copies_ahead");
    for (int i = 0; c->holds && i < plan->count; i++)
        if (place_may_be_held(r, &plan->roles[i]) && plan->roles[i].in_shared)
            reason_settle(r, 1, "%.*s_in_registers", STR_ARGS(plan->roles[i].tile->name));
    nominal_drop(r);
}

static bool report_nothing(search *s) {
    reason *r = s->r;
    int64_t odd = cost_odd_length(s->model);
    str found = odd ? str_format(r->memory, ", which %lld is not", (long long)odd) : STR("");
    if (!s->has_nearest)
        return reason_stuck(r, NULL,
                            "no tile sizes fit kernel %.*s: rows must be a multiple of 16 for "
                            "each warp, other lengths of 8%.*s%s",
                            STR_ARGS(r->kernel->name), STR_ARGS(found), r->whole);
    const ways_candidate *c = &s->nearest;
    return reason_stuck(
        r, NULL,
        "kernel %.*s does not fit %.*s; nearest: %s takes %lld bytes of shared "
        "memory (%s), %lld are there, and about %d registers a thread, %lld are there%s",
        STR_ARGS(r->kernel->name), STR_ARGS(r->target->title), ways_describe(r, s->model, c),
        (long long)c->result.shared_bytes, cost_shared_text(r, s->model, &c->choice),
        (long long)r->target->block_shared, c->result.registers,
        (long long)r->target->thread_registers, r->whole);
}

/* Without what makes a loop faster and its text longer: what is left has the fewest forms. */
static void choose_plain_form(reason *r) {
    static const char *const names[] = {"guard", "overlap", "peel", "split"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) reason_settle(r, 0, "%s", names[i]);
}

bool reason_tile(reason *r) {
    if (r->is_plain) choose_plain_form(r);
    search s = {.r = r, .way = r->way, .ways = {.wants_cuts = r->way > 0}};
    if (!read_model(&s)) return false;
    s.pinned_warps = reason_decided(r, 0, "warps");
    s.pinned_resident = reason_decided(r, 0, "resident");
    if (!choose_class(&s)) return false;
    if (s.ways.kept_count == 0) try_blocks(&s);
    if (!ways_choose(&s.ways, s.way)) return report_nothing(&s);
    ways_explain(r, s.model, &s.ways);
    shares_explain(r, &s.ways.kept[0].choice);
    offer_choice(&s);
    write_choice(&s);
    if (r->predicted_tflops == 0) r->predicted_tflops = s.ways.kept[0].result.tflops;
    return bounds_write(r);
}
