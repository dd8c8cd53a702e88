#include "check/layouts_flow.h"

#include "layout/reshape.h"
#include "tl/tl.h"

#include <string.h>

/* What holds where two ways meet. A tile that one way leaves unwritten is as the other left it:
 * reading it too early is found by the event machine. Returns whether 'into' changed.
 */
static bool join(layouts_flow *f, layouts_point *into, const layouts_point *other) {
    bool changed = false;
    for (int t = 0; t < f->model->tile_count; t++) {
        if (other[t].state == LAYOUTS_NOTHING || into[t].state == LAYOUTS_MIXED) continue;
        if (into[t].state == LAYOUTS_NOTHING || other[t].state == LAYOUTS_MIXED) {
            into[t] = other[t];
            changed = true;
        } else if (!model_same_words(f->model, t, &into[t].layout, &other[t].layout)) {
            into[t].state = LAYOUTS_MIXED;
            into[t].other_since = other[t].since;
            changed = true;
        }
    }
    return changed;
}

static void set_state(layouts_flow *f, layouts_point *to, const layouts_point *from) {
    memcpy(to, from, sizeof(layouts_point) * (size_t)f->model->tile_count);
}

static layouts_point *new_state(layouts_flow *f) {
    return arena_array(f->memory, layouts_point, f->model->tile_count + 1);
}

/* Once through the role. 'kept' has, by step: for the beginning of a loop, what holds at its head
 * on all ways seen so far; for an `if`, what holds before it. Returns whether a loop's head
 * changed.
 */
static bool pass(layouts_flow *f, layouts_point **kept) {
    bool changed = false;
    for (int t = 0; t < f->model->tile_count; t++) f->tiles[t] = (layouts_point){0};
    for (int i = 0; i < f->role->step_count; i++) {
        const model_step *step = &f->role->steps[i];
        switch (step->kind) {
        case STEP_FOR:
        case STEP_TILES:
            if (!kept[i]) kept[i] = new_state(f);
            join(f, kept[i], f->tiles);
            set_state(f, f->tiles, kept[i]);
            break;
        case STEP_END_FOR:
        case STEP_END_TILES:
            changed |= join(f, kept[step->other], f->tiles);
            set_state(f, f->tiles, kept[step->other]);
            break;
        case STEP_IF:
            if (!kept[i]) kept[i] = new_state(f);
            set_state(f, kept[i], f->tiles);
            break;
        case STEP_END_IF: join(f, f->tiles, kept[step->other]); break;
        default:
            if (step->read_count || step->has_target) layouts_visit(f, step);
        }
    }
    return changed;
}

/* Until no loop's head changes any more: each tile there changes twice at most. */
static void walk(layouts_flow *f) {
    enum { PASSES_MAX = 2 * TL_NESTING_MAX };
    layouts_point **kept = arena_array(f->memory, layouts_point *, f->role->step_count);
    f->reports = false;
    for (int i = 0; i < PASSES_MAX && pass(f, kept); i++) {
    }
    f->reports = true;
    pass(f, kept);
}

static str over_text(layouts_flow *f, const tl_layout *said) {
    return str_format(f->memory, "over (%d, %d)", said->over_rows, said->over_columns);
}

static bool covers_executors(const layouts_flow *f, const tl_layout *said) {
    int64_t places = (int64_t)said->over_rows * said->over_columns;
    return (!said->over_rows && !said->over_columns) || places == f->role->executors;
}

/* Warpgroups lie all down or all across. */
static bool is_square(const layouts_flow *f, const tl_layout *said) {
    return f->role->statement->role.is_warpgroups && said->over_rows > 1 && said->over_columns > 1;
}

static bool check_over(layouts_flow *f, int tile, const tl_layout *said) {
    const model_tile *t = &f->model->tiles[tile];
    const tl_symbol *of = said->of ? said->of->symbol : NULL;
    const tl_statement *base = of ? of->in_register.allocation : NULL;
    const tl_layout *whole = base ? &base->allocate.layout : said;
    bool covers = covers_executors(f, whole);
    if (base && (!covers || is_square(f, whole))) return false; /* it is said of the matrix */
    if (covers && !is_square(f, whole)) return true;
    if (!layouts_may_report(f, tile)) return false;
    if (covers) {
        diag_report(f->diags, DIAG_LAYOUT_GROUPS, t->declared, t->name, over_text(f, said));
    } else {
        int64_t places = (int64_t)said->over_rows * said->over_columns;
        diag_report(f->diags, DIAG_LAYOUT_OVER, t->declared, t->name, over_text(f, said),
                    str_format(f->memory, "%lld", (long long)places),
                    str_format(f->memory, "%d", f->role->executors));
    }
    return false;
}

static void check_exists(layouts_flow *f, int tile) {
    const model_tile *t = &f->model->tiles[tile];
    const tl_layout *said = &t->allocation->allocate.layout;
    if (said->kind == TL_LAYOUT_NONE) return; /* open: completeness reports it */
    if (!check_over(f, tile, said)) return;
    if (t->layout) {
        int count = t->axis_count;
        int64_t extents[2] = {t->axes[0].extent, t->axes[1].extent};
        if (count < 1 || count > 2 || !extents[0] || (count == 2 && !extents[1])) return;
        const layout *l = t->layout;
        bool fits = count == 2 ? l->rows == extents[0] && l->columns == extents[1]
                               : l->rows * l->columns == extents[0];
        if (!fits && layouts_may_report(f, tile)) {
            diag_report(f->diags, DIAG_LAYOUT_EXTENT, t->declared, t->name,
                        tl_layout_words(f->memory, said),
                        str_format(f->memory, "%lld", (long long)extents[0]),
                        str_format(f->memory, "%d", l->rows * l->columns));
        }
        return;
    }
    layout_fit fit = t->fit;
    if (fit.status == LAYOUT_UNKNOWN || !layouts_may_report(f, tile)) return;
    bool rows = fit.status == LAYOUT_BAD_ROWS || fit.status == LAYOUT_BAD_WARPS;
    str what = fit.status == LAYOUT_BAD_WARPS     ? STR("warps")
               : rows                             ? STR("rows")
               : fit.status == LAYOUT_BAD_COLUMNS ? STR("columns")
                                                  : STR("bytes");
    str wanted = fit.multiple ? str_format(f->memory, "a multiple of %d", fit.multiple)
                              : STR("another number");
    str found = str_format(f->memory, "%d", fit.found);
    diag_expected(diag_report(f->diags, DIAG_LAYOUT_FIT, t->declared, t->name,
                              tl_layout_words(f->memory, said), what, found, wanted),
                  wanted, found);
}

bool layouts_check(arena *memory, const model *m, diag_list *diags, check_facts *facts) {
    layouts_flow f = {.memory = memory, .model = m, .diags = diags, .reports = true};
    f.silent = arena_array(memory, bool, m->tile_count + 1);
    for (int r = 0; r < m->role_count; r++) {
        f.role = &m->roles[r];
        f.tiles = new_state(&f);
        f.reports = true;
        for (int t = 0; t < m->tile_count; t++) {
            if (m->tiles[t].space == TL_REGISTER && m->tiles[t].role == r) check_exists(&f, t);
        }
        walk(&f);
    }
    facts->layouts = f.facts.items;
    facts->layout_count = f.facts.count;
    return !f.failed;
}
