/* Whether a plan is one: callers may have made it by hand, or from zeros. */
#include "compile/plan_check.h"
#include "compile/plan_words.h"

#include <stdio.h>

enum { THREADS_MAX = 1024, STEPS_MAX = 256, FORMULAS_MAX = 64, BOX_MAX = 256 };

bool plan_is_identifier(const char *name) {
    if (!name || !*name || (*name >= '0' && *name <= '9')) return false;
    for (const char *c = name; *c; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!is_letter && !(*c >= '0' && *c <= '9')) return false;
    }
    return true;
}

/* The first thing that is wrong is said, by the name of its list and its place there. */
static bool complain(char why[FTL_WHY_BYTES], const char *list, int32_t item, const char *what) {
    if (item < 0) snprintf(why, FTL_WHY_BYTES, "the plan's %s %s", list, what);
    else snprintf(why, FTL_WHY_BYTES, "the plan's %s, item %d: %s", list, (int)item, what);
    return false;
}

static bool is_known(const plan_word *words, int value) {
    return *plan_word_name(words, value) != 0;
}

/* Room for so many bytes at that offset, which -1 may be where it is optional. */
static bool fits(const ftl_plan *plan, int32_t offset, int32_t bytes, bool is_optional) {
    return (is_optional && offset == -1) ||
           (offset >= 0 && offset <= plan->parameter_bytes - bytes && offset % 4 == 0);
}

static bool has_lists(const ftl_plan *plan, char why[FTL_WHY_BYTES]) {
    const struct {
        const char *name;
        const void *items;
        int32_t count;
        int32_t most;
    } lists[] = {
        {"tensors", plan->tensors, plan->tensor_count, PLAN_ITEMS_MAX},
        {"sizes", plan->sizes, plan->size_count, PLAN_ITEMS_MAX},
        {"scalars", plan->scalars, plan->scalar_count, PLAN_ITEMS_MAX},
        {"derived", plan->derived, plan->derived_count, PLAN_ITEMS_MAX},
        {"maps", plan->maps, plan->map_count, FTL_MAPS_MAX},
        {"walks", plan->walks, plan->walk_count, FORMULAS_MAX},
        {"conditions", plan->conditions, plan->condition_count, FORMULAS_MAX},
        {"tiles", plan->tiles, plan->tile_count, PLAN_ITEMS_MAX},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i].count < 0 || lists[i].count > lists[i].most)
            return complain(why, lists[i].name, -1, "are more or fewer than there may be");
        if (lists[i].count && !lists[i].items)
            return complain(why, lists[i].name, -1, "are counted, but the list is null");
    }
    return true;
}

static bool has_whole_tensor(const ftl_plan *plan, int32_t at, char why[FTL_WHY_BYTES]) {
    const ftl_plan_tensor *t = &plan->tensors[at];
    if (!t->name) return complain(why, "tensors", at, "there is no name");
    if (!ftl_type_bytes(t->type)) return complain(why, "tensors", at, "the type is unknown");
    if (!is_known(plan_roles, (int)t->role))
        return complain(why, "tensors", at, "the role is unknown");
    if (t->axis_count < 0 || t->axis_count > FTL_AXES_MAX)
        return complain(why, "tensors", at, "there are too many axes, or fewer than none");
    bool is_placed = fits(plan, t->pointer_offset, 8, false);
    for (int32_t i = 0; i < t->axis_count; i++) {
        if (!t->axes[i].name) return complain(why, "tensors", at, "an axis has no name");
        if (t->axes[i].size < -1 || t->axes[i].size >= plan->size_count)
            return complain(why, "tensors", at, "an axis has a size that is not there");
        is_placed = is_placed && fits(plan, t->axes[i].stride_offset, 8, true);
    }
    return is_placed || complain(why, "tensors", at, "an offset lies outside the parameters");
}

static bool has_whole_map(const ftl_plan *plan, int32_t at, char why[FTL_WHY_BYTES]) {
    const ftl_plan_map *m = &plan->maps[at];
    bool is_whole = m->name && m->tensor >= 0 && m->tensor < plan->tensor_count &&
                    fits(plan, m->offset, FTL_MAP_BYTES, false) && m->offset % 64 == 0 &&
                    m->rank >= 1 && m->rank <= FTL_MAP_RANK_MAX;
    for (int32_t i = 0; is_whole && i < m->rank; i++) {
        const ftl_map_dimension *d = &m->dimensions[i];
        is_whole = d->axis >= 0 && d->axis < plan->tensors[m->tensor].axis_count && d->box >= 1 &&
                   d->box <= BOX_MAX && d->panel >= 0 && (d->panel || !d->is_panel_number);
    }
    return is_whole || complain(why, "maps", at, "its tensor, place or dimensions are none");
}

static bool has_whole_items(const ftl_plan *plan, char why[FTL_WHY_BYTES]) {
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (!plan->sizes[i].name || !fits(plan, plan->sizes[i].offset, 4, true))
            return complain(why, "sizes", i, "the name is null or the offset outside");
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        const ftl_plan_scalar *s = &plan->scalars[i];
        if (!s->name || !ftl_type_bytes(s->type) || !fits(plan, s->offset, 4, false))
            return complain(why, "scalars", i, "the name is null, or type or offset is none");
    }
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        int32_t bytes = d->kind == FTL_DERIVED_DIVISOR ? 8 : 4;
        bool is_whole = d->name && is_known(plan_derivations, (int)d->kind) &&
                        fits(plan, d->offset, bytes, false);
        if (!is_whole)
            return complain(why, "derived", i, "the name is null, or kind or offset is none");
    }
    for (int32_t i = 0; i < plan->tile_count; i++) {
        if (!plan->tiles[i].name || !ftl_type_bytes(plan->tiles[i].type))
            return complain(why, "tiles", i, "the name is null, or the type is unknown");
    }
    return true;
}

bool plan_parts_are_whole(const ftl_plan *plan, char why[FTL_WHY_BYTES]) {
    if (!plan->kernel) return complain(why, "kernel", -1, "has no name");
    if (plan->parameter_bytes < 0 || plan->parameter_bytes > FTL_PARAMETER_BYTES_MAX)
        return complain(why, "parameters", -1, "are larger than parameters may be");
    if (!has_lists(plan, why) || !has_whole_items(plan, why)) return false;
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        if (!has_whole_tensor(plan, i, why)) return false;
    }
    for (int32_t i = 0; i < plan->map_count; i++) {
        if (!has_whole_map(plan, i, why)) return false;
    }
    if (plan->grid_kind == FTL_GRID_PLAIN) return true;
    if (!is_known(plan_grids, (int)plan->grid_kind) || plan->resident_blocks < 1)
        return complain(why, "grid", -1, "is of no known kind, or has no resident blocks");
    bool needs_counters = plan->grid_kind == FTL_GRID_DYNAMIC;
    return fits(plan, plan->counters_offset, 8, !needs_counters) ||
           complain(why, "counters", -1, "lie outside the parameters");
}

/* --- formulas --------------------------------------------------------------------------------- */

bool plan_formula_is_whole(const ftl_plan *plan, const ftl_formula *formula) {
    if (!formula->text) return false;
    if (formula->step_count < 0 || formula->step_count > STEPS_MAX) return false;
    if (formula->step_count && !formula->steps) return false;
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        int32_t count = step->op == FTL_PUSH_SIZE     ? plan->size_count
                        : step->op == FTL_PUSH_SCALAR ? plan->scalar_count
                                                      : INT32_MAX;
        if (count < INT32_MAX && (step->index < 0 || step->index >= count)) return false;
    }
    return true;
}

static bool is_whole_formula(const ftl_plan *plan, const ftl_formula *formula) {
    if (!plan_formula_is_whole(plan, formula)) return false;
    for (int32_t i = 0; i < formula->step_count; i++) {
        if (!is_known(plan_operators, (int)formula->steps[i].op)) return false;
    }
    return true;
}

bool plan_formula_value(const ftl_plan *plan, const ftl_formula *formula, const int64_t *sizes,
                        const double *scalars, double *value) {
    return plan_formula_is_whole(plan, formula) &&
           ftl_formula_evaluate(formula, sizes, scalars, value);
}

static bool are_whole(const ftl_plan *plan, const ftl_formula *formulas, int32_t count,
                      const char *list, char why[FTL_WHY_BYTES]) {
    for (int32_t i = 0; i < count; i++) {
        if (!is_whole_formula(plan, &formulas[i]))
            return complain(why, list, i, "a step of its formula is none, or the text is null");
    }
    return true;
}

bool ftl_plan_check(const ftl_plan *plan, char why[FTL_WHY_BYTES]) {
    char unread[FTL_WHY_BYTES];
    if (!why) why = unread;
    why[0] = 0;
    if (!plan) return complain(why, "address", -1, "is null");
    if (!plan_parts_are_whole(plan, why)) return false;
    if (!plan->entry || !plan->gpu || !plan->target)
        return complain(why, "entry, GPU or target", -1, "is null");
    if (plan->threads < 1 || plan->threads > THREADS_MAX || plan->shared_bytes < 0)
        return complain(why, "threads", -1,
                        "are none or too many, or the shared memory is negative");
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        bool is_whole = !tensor->limit.step_count || is_whole_formula(plan, &tensor->limit);
        for (int32_t i = 0; i < tensor->axis_count; i++)
            is_whole = is_whole && is_whole_formula(plan, &tensor->axes[i].extent);
        if (!is_whole)
            return complain(why, "tensors", t, "a formula of an axis or a limit is none");
    }
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        if (d->kind != FTL_DERIVED_TILES && !are_whole(plan, &d->formula, 1, "derived", why))
            return false;
    }
    return are_whole(plan, plan->walks, plan->walk_count, "walks", why) &&
           are_whole(plan, plan->conditions, plan->condition_count, "conditions", why);
}
