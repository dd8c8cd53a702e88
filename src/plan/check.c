/* Whether a plan is one: callers may have made it by hand, or from zeros. A walk over the table of
 * fields, then what no field can say alone.
 */
#include "plan/fields.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

bool plan_is_identifier(const char *name) {
    if (!name || !*name || (*name >= '0' && *name <= '9')) return false;
    for (const char *c = name; *c; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!is_letter && !(*c >= '0' && *c <= '9')) return false;
    }
    return true;
}

/* Where the walk is: "tensors[1].axes[0]". The first thing that is wrong is said. */
typedef struct walk {
    const ftl_plan *plan;
    char *why;
    const struct walk *up;
    const char *list;
    int32_t item;
} walk;

static void write_place(const walk *w, char *out, size_t capacity) {
    *out = 0;
    if (w->up) {
        write_place(w->up, out, capacity);
        size_t length = strlen(out);
        snprintf(out + length, capacity - length, "%s[%d].", w->list, (int)w->item);
    }
}

static bool complain(const walk *w, const char *key, const char *what) {
    char place[FTL_WHY_BYTES / 4];
    write_place(w, place, sizeof place);
    snprintf(w->why, FTL_WHY_BYTES, "the plan's '%s%s' %s", place, key, what);
    return false;
}

/* --- formulas --------------------------------------------------------------------------------- */

static bool has_operand(const ftl_plan *plan, const ftl_formula_step *step) {
    int32_t count = step->op == FTL_PUSH_SIZE     ? plan->size_count
                    : step->op == FTL_PUSH_SCALAR ? plan->scalar_count
                                                  : INT32_MAX;
    return count == INT32_MAX || (step->index >= 0 && step->index < count);
}

static bool check_formula(const walk *w, const char *key, const ftl_formula *formula) {
    if (!formula->text) return complain(w, key, "has no text");
    if (formula->step_count < 0 || formula->step_count > PLAN_STEPS_MAX ||
        (formula->step_count && !formula->steps))
        return complain(w, key, "has more steps than there may be, or none are there");
    for (int32_t i = 0; i < formula->step_count; i++) {
        if (!plan_operator_of(formula->steps[i].op) || !has_operand(w->plan, &formula->steps[i]))
            return complain(w, key, "has a step that is none, or pushes what is not there");
    }
    return true;
}

/* --- fields ----------------------------------------------------------------------------------- */

static bool check_record(const walk *w, const plan_record *record, const void *item);

static bool check_items(const walk *w, const plan_field *field, const void *item) {
    int32_t count = plan_field_count(field, item);
    if (count < field->least || count > field->most)
        return complain(w, field->key, "has more or fewer items than there may be");
    const char *items = plan_field_items(field, item);
    if (count && !items) return complain(w, field->key, "is counted, but null");
    for (int32_t i = 0; i < count; i++) {
        walk inside = {w->plan, w->why, w, field->key, i};
        const void *one =
            items + (size_t)i * (field->record ? field->record->bytes : sizeof(ftl_formula));
        bool is_right = field->kind == PLAN_FORMULAS ? check_formula(&inside, "formula", one)
                                                     : check_record(&inside, field->record, one);
        if (!is_right) return false;
    }
    return true;
}

/* Room in the parameters, or -1 where that says that there is none. */
static bool check_offset(const walk *w, const plan_field *field, int32_t offset) {
    if (offset == -1 && field->least == -1) return true;
    if (offset < 0 || offset > w->plan->parameter_bytes - field->most)
        return complain(w, field->key, "lies outside the parameters");
    return offset % field->align == 0 || complain(w, field->key, "is not aligned");
}

static bool check_field(const walk *w, const plan_field *field, const void *item) {
    const void *at = (const char *)item + field->at;
    switch (field->kind) {
    case PLAN_TEXT: return *(const char *const *)at || complain(w, field->key, "is missing");
    case PLAN_NUMBER: {
        int32_t number = *(const int32_t *)at;
        return (number >= field->least && number <= field->most) ||
               complain(w, field->key, "is out of range");
    }
    case PLAN_FLAG: return true;
    case PLAN_WORD:
        return *plan_word_name(field->words, *(const int *)at) ||
               complain(w, field->key, "is not known");
    case PLAN_OFFSET: return check_offset(w, field, *(const int32_t *)at);
    case PLAN_FORMULA: return check_formula(w, field->key, at);
    default: return check_items(w, field, item);
    }
}

static bool check_record(const walk *w, const plan_record *record, const void *item) {
    for (int i = 0; i < record->count; i++) {
        const plan_field *field = &record->fields[i];
        if (field->presence == PLAN_IF_RESIDENT && w->plan->grid_kind == FTL_GRID_PLAIN) continue;
        if (plan_field_is_empty(field, item)) continue;
        if (!check_field(w, field, item)) return false;
    }
    return true;
}

/* --- what fields say of one another ------------------------------------------------------------
 */

static bool check_maps(const walk *w) {
    const ftl_plan *plan = w->plan;
    for (int32_t i = 0; i < plan->map_count; i++) {
        const ftl_plan_map *map = &plan->maps[i];
        walk inside = {plan, w->why, w, "maps", i};
        if (map->tensor >= plan->tensor_count) return complain(&inside, "tensor", "is not there");
        for (int32_t k = 0; k < map->rank; k++) {
            const ftl_map_dimension *d = &map->dimensions[k];
            walk deeper = {plan, w->why, &inside, "dimensions", k};
            if (d->axis >= plan->tensors[map->tensor].axis_count)
                return complain(&deeper, "axis", "is not there");
            if (d->is_panel_number && !d->panel)
                return complain(&deeper, "panel", "is 0, but this dimension counts panels");
        }
    }
    return true;
}

static bool check_relations(const walk *w) {
    const ftl_plan *plan = w->plan;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        walk inside = {plan, w->why, w, "tensors", t};
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            walk deeper = {plan, w->why, &inside, "axes", i};
            if (plan->tensors[t].axes[i].size >= plan->size_count)
                return complain(&deeper, "size", "is not there");
        }
    }
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        walk inside = {plan, w->why, w, "derived", i};
        if (d->kind == FTL_DERIVED_DIVISOR && d->offset > plan->parameter_bytes - 8)
            return complain(&inside, "offset", "lies outside the parameters");
        if (d->kind != FTL_DERIVED_TILES && !d->formula.step_count)
            return complain(&inside, "formula", "is missing");
    }
    if (plan->grid_kind == FTL_GRID_DYNAMIC && plan->counters_offset < 0)
        return complain(w, "counters_offset", "is missing");
    return check_maps(w);
}

bool ftl_plan_check(const ftl_plan *plan, char why[FTL_WHY_BYTES]) {
    char unread[FTL_WHY_BYTES];
    if (!why) why = unread;
    why[0] = 0;
    if (!plan) {
        snprintf(why, FTL_WHY_BYTES, "the plan is null");
        return false;
    }
    walk root = {.plan = plan, .why = why};
    return check_record(&root, &plan_root, plan) && check_relations(&root);
}
