/* Pass tile: tile sizes, warps and stages from budgets and the cost model; then the loops' bounds.
 */
#include "reason/bounds.h"
#include "reason/cost.h"
#include "reason/narrow.h"
#include "reason/nominal.h"
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
    int64_t pinned_warps, pinned_resident, pinned_warpgroups;
    int64_t least_warps, most_warps; /* that are tried */
    /* Asked for by each of many thousand candidates: read once. 0: open, but -1 for the last. */
    int64_t *pinned_stages, pinned_casts, pinned_panels, pinned_ahead; /* the first by tile */
    ways_list ways;
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

static int64_t read_stages(search *s, int tile) {
    int64_t stages = 0;
    str name = cost_plan(s->model)->roles[tile].tile->name;
    reason_let_integer(s->r, "stages", &stages);
    reason_let_integer(
        s->r, edit_z(s->r->memory, str_format(s->r->memory, "%.*s_stages", STR_ARGS(name))),
        &stages);
    return stages;
}

/* The kernel as it is now, and what is pinned for its tiles. False: reported. */
static bool read_model(search *s) {
    s->model = cost_read(s->r);
    if (!s->model) return false;
    int count = cost_plan(s->model)->count;
    s->pinned_stages = arena_array(s->r->memory, int64_t, count + 1);
    for (int i = 0; i < count; i++) s->pinned_stages[i] = read_stages(s, i);
    s->pinned_casts = s->pinned_panels = 0, s->pinned_ahead = -1;
    reason_let_integer(s->r, "casts", &s->pinned_casts);
    reason_let_integer(s->r, "panel_bytes", &s->pinned_panels);
    reason_let_integer(s->r, "copies_ahead", &s->pinned_ahead);
    return true;
}

/* All two; all three (loops whose tiles meet in one product); first two, others one; all one. */
static void try_stages(search *s, cost_choice *choice) {
    bool is_async = tiles_copy_async(s->r);
    int count = cost_channel_count(s->model);
    bool all_heads = count > 0 && cost_channel_is_head(s->model, count - 1);
    for (int form = 0; form < 4; form++) {
        if ((!is_async && form != 3) || (form == 1 && !all_heads) || (form == 2 && all_heads) ||
            (count == 0 && form != 3))
            continue;
        for (int i = 0; i < count; i++) {
            int tile = cost_channel_tile(s->model, i);
            int64_t stages = s->pinned_stages[tile];
            if (stages == 0)
                stages = form == 0   ? 2
                         : form == 1 ? 3
                         : form == 2 ? (cost_channel_is_head(s->model, i) ? 2 : 1)
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

/* --- holding left operands -------------------------------------------------------------------- */

/* -1: not pinned. */
static int pinned_hold(search *s) {
    const place_plan *plan = cost_plan(s->model);
    for (int i = 0; i < plan->count; i++) {
        int64_t value;
        str name =
            str_format(s->r->memory, "%.*s_in_registers", STR_ARGS(plan->roles[i].tile->name));
        if (reason_let_integer(s->r, edit_z(s->r->memory, name), &value)) return value != 0;
    }
    return -1;
}

static void try_holds(search *s, cost_choice *choice, int pinned) {
    for (int holds = 0; holds < (cost_can_hold(s->model) ? 2 : 1); holds++) {
        if (cost_can_hold(s->model) && pinned >= 0 && holds != pinned) continue;
        choice->holds = holds;
        try_stages(s, choice);
    }
}

/* --- warpgroups ------------------------------------------------------------------------------- */

/* Slots of what loops copy, and of what is before them: two each, if they fit; more where an
 * iteration is short, and first of all where operands have 8 bits: a GEMM makes 1,059 TFLOPS with
 * two and 1,467 with four (m = n = k = 8,192, H200).
 */
static void try_rings(search *s, cost_choice *choice) {
    enum { LEAST = 2, MOST = 4 };
    const place_plan *plan = cost_plan(s->model);
    bool is_short = tiles_multiplies_bytes(s->r->kernel);
    for (int64_t more = 0; more <= MOST - LEAST; more++)
        for (int64_t standing = 2; standing >= 1; standing--) {
            for (int i = 0; i < plan->count; i++) {
                if (!plan->roles[i].in_shared) continue;
                int64_t pinned = s->pinned_stages[i];
                bool is_ring = plan->roles[i].is_loaded_in_loop;
                int64_t ring = is_short ? MOST - more : LEAST + more;
                choice->stages[i] = pinned > 0 ? pinned : is_ring ? ring : standing;
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

/* The sizes that are tried for an open one. */
static int list_wide_sizes(const cost_model *model, int open, const int64_t **values) {
    static const int64_t rows[] = {192, 128, 64};
    static const int64_t columns[] = {256, 224, 192, 176, 160, 144, 128,
                                      112, 96,  80,  64,  48,  32,  16};
    static const int64_t inner[] = {128, 64, 32};
    bool is_rows = cost_open_is_rows(model, open), is_inner = cost_open_is_inner(model, open);
    *values = is_rows ? rows : is_inner ? inner : columns;
    return is_rows || is_inner ? 3 : (int)(sizeof columns / sizeof *columns);
}

/* How wide panels are whose last one may be open. */
static void try_panels(search *s, cost_choice *choice) {
    int64_t pinned = s->pinned_panels;
    for (int64_t bytes = PANELS_MOST_BYTES; bytes >= PANELS_LEAST_BYTES; bytes /= 2) {
        choice->panel_bytes = pinned > 0 ? pinned : bytes;
        try_casts(s, choice);
        if (pinned > 0 || !cost_may_open_panels(s->model)) break;
    }
}

static void try_warpgroups(search *s, cost_choice *choice, int open) {
    if (open < cost_open_count(s->model)) {
        const int64_t *values;
        int count = list_wide_sizes(s->model, open, &values);
        for (int i = 0; i < count; i++) {
            choice->sizes[open] = values[i];
            try_warpgroups(s, choice, open + 1);
        }
        return;
    }
    for (int64_t count = 1; count <= WARPGROUPS_MAX; count++) {
        if (s->pinned_warpgroups > 0 && count != s->pinned_warpgroups) continue;
        choice->warpgroups = count;
        choice->warps = count * WARPGROUP_WARPS;
        try_panels(s, choice);
    }
}

/* With lengths that products can contract; they stay as they are where nothing fits. False:
 * reported.
 */
static bool try_padded(search *s) {
    cost_choice choice = {0};
    warpgroups_padding padding = warpgroups_pad(s->r, cost_plan(s->model));
    if (padding.axes.count > 0 && !read_model(s)) return false;
    try_warpgroups(s, &choice, 0);
    if (s->ways.kept_count > 0) {
        warpgroups_explain_padding(s->r, &padding);
        return true;
    }
    warpgroups_unpad(s->r, &padding);
    return padding.axes.count == 0 || read_model(s);
}

static bool panel_bytes_are_known(reason *r) {
    int64_t bytes = PANELS_MOST_BYTES;
    reason_let_integer(r, "panel_bytes", &bytes);
    return panels_dividing(bytes) == bytes ||
           reason_stuck(r, NULL, "panels of warpgroups have 32, 64 or 128 bytes, not %lld",
                        (long long)bytes);
}

/* Does a pin ask for what only the other class has? */
static bool asks_for_warps(search *s) {
    int64_t value;
    return s->pinned_warps > 0 || reason_let_integer(s->r, "copies_ahead", &value) ||
           s->pinned_resident > 1 || pinned_hold(s) > 0;
}

/* After so many cuts of warpgroups were refused, warps are tried. */
static bool leaves_warpgroups(search *s) {
    if (s->way < WARPGROUP_WAYS || warpgroups_refusal(s->r, cost_plan(s->model))) return false;
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
    if (wanted == NARROW && !narrow_are_multiplied(cost_plan(s->model)))
        return reason_stuck(r, NULL, "no product of kernel %.*s has operands of 8 bits",
                            STR_ARGS(r->kernel->name));
    if (!narrow_are_multiplied(cost_plan(s->model))) return true;
    const char *why = narrow_refusal(r, cost_plan(s->model));
    if (!why && wanted == WIDE) why = reason_pin_word(r, "products");
    if (!why && (s->pinned_warpgroups == 0 || (s->pinned_warpgroups < 0 && asks_for_warps(s))))
        why = "warps of this GPU have no such products";
    if (!why && s->pinned_warpgroups < 0 && s->way >= WARPGROUP_WAYS) {
        s->way -= WARPGROUP_WAYS;
        why = "what was made of them was refused";
    }
    if (!why) {
        reason_let(r, "products", NARROW, "");
        if (!read_model(s)) return false;
        why = warpgroups_refusal(r, cost_plan(s->model));
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
    reason_decide(r, "products", "operands of 8 bits widen to 16 on their way: %s", why);
    edit_remove_let(r->kernel, STR("products"));
    return read_model(s);
}

/* Tries warpgroups where they may be. False when they are pinned and cannot be. */
static bool choose_class(search *s) {
    reason *r = s->r;
    s->pinned_warpgroups = -1; /* open */
    reason_let_integer(r, "warpgroups", &s->pinned_warpgroups);
    if (!try_bytes(s)) return false;
    if (s->ways.kept_count > 0) return true;
    if (s->pinned_warpgroups == 0 || (s->pinned_warpgroups < 0 && asks_for_warps(s))) return true;
    if (s->pinned_warpgroups < 0 && leaves_warpgroups(s)) return true;
    bool is_pinned = s->pinned_warpgroups > 0;
    if (s->pinned_warpgroups > WARPGROUPS_MAX)
        return reason_stuck(r, NULL, "1 to %d warpgroups can compute, not %lld", WARPGROUPS_MAX,
                            (long long)s->pinned_warpgroups);
    if (!panel_bytes_are_known(r)) return false;
    const char *why = warpgroups_refusal(r, cost_plan(s->model));
    if (why && is_pinned)
        return reason_stuck(r, NULL, "warpgroups cannot compute this kernel: %s", why);
    if (!why) {
        if (!try_padded(s)) return false;
        if (s->ways.kept_count > 0) return true;
        why = "no tile sizes fit: warpgroups take 64 rows each, contracted lengths that are "
              "multiples of 16, and others that are multiples of 8 up to 256";
        if (is_pinned) return reason_stuck(r, NULL, "%s", why);
    }
    if (cost_has_products(s->model) && gpu_has(r->target, GPU_FEATURE_wgmma))
        reason_decide(r, "class", "warps issue their products themselves: %s", why);
    return true;
}

/* --- warps and sizes -------------------------------------------------------------------------- */

static void try_warps(search *s, cost_choice *choice, int pinned) {
    for (int64_t warps = s->least_warps; warps <= s->most_warps; warps *= 2) {
        choice->warps = warps;
        try_holds(s, choice, pinned);
    }
}

/* The sizes that are tried for an open one. */
static int list_sizes(const cost_model *model, int open, const int64_t **values) {
    static const int64_t rows[] = {256, 192, 128, 64, 32, 16};
    static const int64_t columns[] = {256, 128, 96, 64, 48, 32, 16};
    static const int64_t inner[] = {64, 32, 16};
    bool is_rows = cost_open_is_rows(model, open);
    bool is_inner = cost_open_is_inner(model, open) && cost_has_products(model);
    *values = is_rows ? rows : is_inner ? inner : columns;
    return is_rows ? 6 : is_inner ? 3 : 7;
}

static void try_sizes(search *s, cost_choice *choice, int open, int pinned) {
    if (open == COST_OPEN_MAX || open == cost_open_count(s->model)) {
        try_warps(s, choice, pinned);
        return;
    }
    const int64_t *values;
    int count = list_sizes(s->model, open, &values);
    for (int i = 0; i < count; i++) {
        choice->sizes[open] = values[i];
        try_sizes(s, choice, open + 1, pinned);
    }
}

/* Fewer than 4 warps leave schedulers without work: only where nothing else fits, or rows are few,
 * for which more read operands again.
 */
static void try_blocks(search *s) {
    cost_choice choice = {0};
    int64_t warps = s->pinned_warps;
    s->least_warps = warps > 0 ? warps : cost_has_few_rows(s->model) ? 1 : SCHEDULERS;
    s->most_warps = warps > 0 ? warps : WARPS_MOST;
    try_sizes(s, &choice, 0, pinned_hold(s));
    if (warps > 0 || s->ways.kept_count > 0) return;
    s->least_warps = 1;
    s->most_warps = SCHEDULERS / 2;
    try_sizes(s, &choice, 0, pinned_hold(s));
}

/* --- the decision ----------------------------------------------------------------------------- */

/* The same for warpgroups. */
static void offer_warpgroups(search *s) {
    static const int64_t groups[] = {0, 1, 2, 3}, stages[] = {1, 2, 3, 4}, casts[] = {1, 2},
                         panels[] = {32, 64, 128};
    reason *r = s->r;
    const cost_choice *c = &s->ways.kept[0].choice;
    const place_plan *plan = cost_plan(s->model);
    reason_offers_choice(r, "warpgroups", c->warpgroups, groups, 4);
    for (int i = 0; i < cost_open_count(s->model); i++) {
        const int64_t *values;
        int count = list_wide_sizes(s->model, i, &values);
        reason_offers_choice(r, edit_z(r->memory, cost_open_name(s->model, i)), c->sizes[i], values,
                             count);
    }
    for (int i = 0; i < plan->count; i++) {
        if (!plan->roles[i].in_shared) continue;
        str name = str_format(r->memory, "%.*s_stages", STR_ARGS(plan->roles[i].tile->name));
        reason_offers_choice(r, edit_z(r->memory, name), c->stages[i], stages, 4);
    }
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].has_cast) reason_offers_choice(r, "casts", c->casts, casts, 2);
    if (cost_may_open_panels(s->model))
        reason_offers_choice(r, "panel_bytes", c->panel_bytes, panels, 3);
}

/* What a tuner may put in place of this choice. */
static void offer_choice(search *s) {
    if (s->ways.kept[0].choice.warpgroups > 0) {
        offer_warpgroups(s);
        return;
    }
    static const int64_t warps[] = {4, 8, 16}, stages[] = {1, 2, 3, 4};
    reason *r = s->r;
    const cost_choice *c = &s->ways.kept[0].choice;
    for (int i = 0; i < cost_open_count(s->model); i++) {
        const int64_t *values;
        int count = list_sizes(s->model, i, &values);
        reason_offers_choice(r, edit_z(r->memory, cost_open_name(s->model, i)), c->sizes[i], values,
                             count);
    }
    reason_offers_choice(r, "warps", c->warps, warps, 3);
    bool is_async = tiles_copy_async(r);
    const place_plan *plan = cost_plan(s->model);
    for (int i = 0; i < cost_channel_count(s->model); i++) {
        int tile = cost_channel_tile(s->model, i);
        str name = str_format(r->memory, "%.*s_stages", STR_ARGS(plan->roles[tile].tile->name));
        reason_offers_choice(r, edit_z(r->memory, name), c->stages[tile], stages, is_async ? 4 : 1);
    }
    if (!is_async && cost_channel_count(s->model) > 0)
        reason_offers_switch(r, "copies_ahead", !c->is_plain);
    for (int i = 0; cost_can_hold(s->model) && i < plan->count; i++) {
        str name = str_format(r->memory, "%.*s_in_registers", STR_ARGS(plan->roles[i].tile->name));
        if (place_may_be_held(r, &plan->roles[i]) && plan->roles[i].in_shared)
            reason_offers_switch(r, edit_z(r->memory, name), c->holds);
    }
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
    int64_t known;
    for (int i = 0; i < cost_open_count(s->model); i++)
        reason_let(r, edit_z(r->memory, cost_open_name(s->model, i)), c->sizes[i], "");
    if (c->warpgroups > 0) {
        if (!reason_let_integer(r, "warpgroups", &known))
            reason_let(r, "warpgroups", c->warpgroups, "");
        if (c->casts > 1 && !reason_let_integer(r, "casts", &known))
            reason_let(r, "casts", c->casts, "");
        if (cost_may_open_panels(s->model) && !reason_let_integer(r, "panel_bytes", &known))
            reason_let(r, "panel_bytes", c->panel_bytes, "");
        bool is_short = has_moving_maximum(r) && s->ways.kept[0].result.blocks < EAGER_BLOCKS;
        bool is_full = tiles_multiplies_bytes(r->kernel) && has_moving_maximum(r); /* registers */
        if ((is_short || is_full) && !reason_let_integer(r, "eager", &known))
            reason_let(r, "eager", 0, "");
        const cost_result *t = &s->ways.kept[0].result;
        bool is_dense = 100 * t->tensor >= FIRST_SHARE_PERCENT * t->elements;
        if (has_moving_maximum(r) && is_dense && !reason_let_integer(r, "rounded_sums", &known))
            reason_let(r, "rounded_sums", 1, "");
        if (is_short && is_dense && !reason_let_integer(r, "first_columns", &known))
            reason_let(r, "first_columns", FIRST_COLUMNS, "");
        if (is_short && !is_dense && !reason_let_integer(r, "mask_parts", &known))
            reason_let(r, "mask_parts", MASK_PARTS, "");
        edit_remove_let(r->kernel, STR("warps"));
    } else {
        edit_remove_let(r->kernel, STR("warpgroups"));
        edit_remove_let(r->kernel, STR("casts"));
        edit_remove_let(r->kernel, STR("panel_bytes"));
        if (!reason_let_integer(r, "warps", &known)) reason_let(r, "warps", c->warps, "");
    }
    for (int i = 0; i < cost_plan(s->model)->count; i++) {
        str name = str_format(r->memory, "%.*s_stages",
                              STR_ARGS(cost_plan(s->model)->roles[i].tile->name));
        bool is_standing = !cost_plan(s->model)->roles[i].is_loaded_in_loop;
        if (c->warpgroups > 0 && is_standing && c->stages[i] > 1 &&
            !reason_let_integer(r, edit_z(r->memory, name), &known))
            reason_let(r, edit_z(r->memory, name), c->stages[i], "");
    }
    for (int i = 0; i < cost_channel_count(s->model); i++) {
        int tile = cost_channel_tile(s->model, i);
        str name = str_format(r->memory, "%.*s_stages",
                              STR_ARGS(cost_plan(s->model)->roles[tile].tile->name));
        if (!reason_let_integer(r, edit_z(r->memory, name), &known))
            reason_let(r, edit_z(r->memory, name), c->stages[tile], "");
    }
    if (c->is_plain && !reason_let_integer(r, "copies_ahead", &known))
        reason_let(r, "copies_ahead", 0, "");
    const place_plan *plan = cost_plan(s->model);
    for (int i = 0; c->holds && i < plan->count; i++) {
        str name = str_format(r->memory, "%.*s_in_registers", STR_ARGS(plan->roles[i].tile->name));
        if (place_may_be_held(r, &plan->roles[i]) && plan->roles[i].in_shared &&
            !reason_let_integer(r, edit_z(r->memory, name), &known))
            reason_let(r, edit_z(r->memory, name), 1, "");
    }
    edit_remove_let(r->kernel, STR("resident"));
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
    int64_t known;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!reason_let_integer(r, names[i], &known)) reason_let(r, names[i], 0, "");
}

bool reason_tile(reason *r) {
    if (r->is_plain) choose_plain_form(r);
    search s = {.r = r, .way = r->way, .ways = {.wants_cuts = r->way > 0}};
    if (!read_model(&s)) return false;
    reason_let_integer(r, "warps", &s.pinned_warps);
    reason_let_integer(r, "resident", &s.pinned_resident);
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
