/* What became of the search for tile sizes, in words and as tables. */
#include "reason/warpgroups.h"
#include "reason/ways.h"

const char *ways_describe(reason *r, const cost_model *m, const ways_candidate *c) {
    str text = {"", 0};
    for (int i = 0; i < m->open_count; i++)
        reason_list(r, &text, ", ", "%.*s = %lld", STR_ARGS(m->open_names[i]),
                    (long long)c->choice.sizes[i]);
    if (c->choice.warpgroups > 0)
        reason_list(r, &text, ", ", "%lld warpgroup%s %s %d rows", (long long)c->choice.warpgroups,
                    c->choice.warpgroups == 1 ? "" : "s", c->choice.is_paired ? "that share" : "of",
                    WARPGROUP_ROWS);
    if (c->choice.warpgroups > 0 && m->may_open_panels)
        reason_list(r, &text, ", ", "panels of %lld bytes", (long long)c->choice.panel_bytes);
    if (c->choice.warpgroups == 0)
        reason_list(r, &text, ", ", "%lld warp%s of %d rows", (long long)c->choice.warps,
                    c->choice.warps == 1 ? "" : "s", c->result.rows_per_warp);
    for (int i = 0; i < m->channel_count; i++) {
        int tile = m->channels[i];
        reason_list(r, &text, ", ", "%.*s in %lld", STR_ARGS(m->plan.roles[tile].tile->name),
                    (long long)c->choice.stages[tile]);
    }
    if (m->channel_count > 0)
        reason_list(r, &text, "", " slots%s", c->choice.is_plain ? ", copied in place" : "");
    if (c->result.is_tight) reason_list(r, &text, ", ", "tight in registers");
    if (c->choice.holds) reason_list(r, &text, ", ", "left operand held in registers");
    return text.data;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* One table that is being filled from the candidates. */
typedef struct filling {
    reason *r;
    const cost_model *m;
    const ways_list *w;
    reason_table *table;
} filling;

typedef str filler(const filling *f, const ways_candidate *c, int what);

static str number_of(const filling *f, double value, int digits) {
    return str_format(f->r->memory, "%.*f", digits, value);
}

static void add(const filling *f, const char *name, const char *unit, filler *fill, int what) {
    reason_column *column = reason_add_column(f->r, f->table, name, unit);
    for (int i = 0; i < f->w->kept_count; i++) column->cells[i] = fill(f, &f->w->kept[i], what);
}

static str place(const filling *f, const ways_candidate *c, int what) {
    (void)what;
    int at = (int)(c - f->w->kept);
    return at == 0 ? STR("taken") : number_of(f, at + 1, 0);
}

static str size(const filling *f, const ways_candidate *c, int open) {
    return number_of(f, (double)c->choice.sizes[open], 0);
}

static str slots(const filling *f, const ways_candidate *c, int tile) {
    return number_of(f, (double)cost_slots(f->m, &c->choice, tile), 0);
}

enum { WARPS, WARP_ROWS, GROUPS, PANELS, CASTS };

static str form(const filling *f, const ways_candidate *c, int what) {
    const cost_choice *choice = &c->choice;
    const int64_t of[] = {choice->warps, c->result.rows_per_warp, choice->warpgroups,
                          choice->panel_bytes, choice->casts};
    return number_of(f, (double)of[what], 0);
}

enum { PLAIN, HOLDS, TIGHT };

static str flag(const filling *f, const ways_candidate *c, int what) {
    (void)f;
    const bool of[] = {c->choice.is_plain, c->choice.holds, c->result.is_tight};
    return of[what] ? STR("yes") : STR("no");
}

/* A column only where some candidate has it. */
static void add_flag(const filling *f, const char *name, int what) {
    bool any = false;
    for (int i = 0; i < f->w->kept_count; i++) any |= str_is(flag(f, &f->w->kept[i], what), "yes");
    if (any) add(f, name, "", flag, what);
}

enum { SHARED, REGISTERS, RESIDENT, TFLOPS, GIGABYTES, SLOWER };

static str outcome(const filling *f, const ways_candidate *c, int what) {
    const cost_result *t = &c->result;
    double best = f->w->kept[0].result.per_element;
    switch (what) {
    case SHARED: return number_of(f, (double)t->shared_bytes, 0);
    case REGISTERS: return number_of(f, t->registers, 0);
    case RESIDENT: return number_of(f, t->resident, 0);
    case TFLOPS: return number_of(f, t->tflops, 0);
    case GIGABYTES: return number_of(f, t->gigabytes_per_s, 0);
    default: return number_of(f, best > 0 ? 100 * (t->per_element / best - 1) : 0, 1);
    }
}

enum { PRODUCTS, ELEMENTS, CHAIN, CACHE, MEMORY, FP32, EXP2, BARRIERS, TOGETHER };

static str clocks(const filling *f, const ways_candidate *c, int what) {
    const cost_result *t = &c->result;
    const double of[] = {t->tensor, t->elements, t->chain,    t->cache, t->shared,
                         t->fp32,   t->exp2,     t->barriers, t->clocks};
    return number_of(f, of[what], 0);
}

static void compare_choices(filling *f, bool has_groups, bool is_memory_bound) {
    add(f, "candidate", "", place, 0);
    for (int i = 0; i < f->m->open_count; i++)
        add(f, edit_z(f->r->memory, f->m->open_names[i]), "", size, i);
    if (has_groups) {
        add(f, "groups", "of 64 rows", form, GROUPS);
        if (f->m->may_open_panels) add(f, "panels", "bytes", form, PANELS);
    } else {
        add(f, "warps", "", form, WARPS);
        add(f, "a warp", "rows", form, WARP_ROWS);
    }
    for (int i = 0; i < f->m->plan.count; i++) {
        str name = f->m->plan.roles[i].tile->name;
        if (cost_slots(f->m, &f->w->kept[0].choice, i) > 0)
            add(f, edit_z(f->r->memory, name), "slots", slots, i);
    }
    if (has_groups) add(f, "casts", "", form, CASTS);
    add_flag(f, "in place", PLAIN);
    add_flag(f, "held", HOLDS);
    add_flag(f, "tight", TIGHT);
    add(f, "shared", "bytes", outcome, SHARED);
    add(f, "registers", "a thread", outcome, REGISTERS);
    add(f, "blocks", "an SM", outcome, RESIDENT);
    if (is_memory_bound) add(f, "memory", "GB/s", outcome, GIGABYTES);
    else add(f, "predicted", "TFLOPS", outcome, TFLOPS);
    add(f, "slower", "%", outcome, SLOWER);
}

static void compare_clocks(filling *f, bool has_groups) {
    add(f, "candidate", "", place, 0);
    add(f, "products", "clocks", clocks, PRODUCTS);
    if (has_groups) {
        add(f, "elements", "clocks", clocks, ELEMENTS);
        add(f, "one warpgroup", "clocks", clocks, CHAIN);
        add(f, "L2 cache", "clocks", clocks, CACHE);
    } else {
        add(f, "shared memory", "clocks", clocks, MEMORY);
        add(f, "f32", "clocks", clocks, FP32);
        add(f, "special", "clocks", clocks, EXP2);
        add(f, "barriers", "clocks", clocks, BARRIERS);
    }
    add(f, "together", "clocks", clocks, TOGETHER);
}

void ways_explain(reason *r, const cost_model *m, const ways_list *w) {
    const ways_candidate *best = &w->kept[0];
    const cost_result *t = &best->result;
    bool has_groups = best->choice.warpgroups > 0, is_memory_bound = t->gigabytes_per_s > 0;
    reason_decision *d = reason_decide(
        r, "tile sizes",
        "%s: %lld bytes of shared memory (%s), about %d registers a thread, %d block%s on a "
        "multiprocessor; predicted %.0f %s. %d candidate%s fit%s%s",
        ways_describe(r, m, best), (long long)t->shared_bytes,
        cost_shared_text(r, m, &best->choice), t->registers, t->resident,
        t->resident == 1 ? "" : "s", is_memory_bound ? t->gigabytes_per_s : t->tflops,
        is_memory_bound ? "GB/s" : "TFLOPS", w->fitting, w->fitting == 1 ? "" : "s",
        w->fitting == 1 ? "s" : "",
        r->way > 0 || r->is_plain ? "; the rules of TL Code refused what was chosen before this"
                                  : "");
    filling f = {r, m, w, reason_compare(r, d, "the best candidates", w->kept_count)};
    compare_choices(&f, has_groups, is_memory_bound);
    f.table = reason_compare(r, d, "clocks of a tile, each part alone", w->kept_count);
    compare_clocks(&f, has_groups);
    if (has_groups) cost_explain_panels(m, &best->choice);
}
