/* Are a text's parameters those that were asked for? Without that nothing can be compared: names,
 * roles, types, axes by their lengths, and lengths that were decided.
 */
#include "think/judge_internal.h"
#include "verify/plan_find.h"

#include <string.h>

static diag_range whole(void) {
    return (diag_range){0, 0};
}

static str text_of(climb *c, const char *z) {
    return str_copy(&c->memory, str_from(z));
}

static str axes_of(climb *c, const ftl_plan_tensor *t) {
    str all = STR("");
    for (int32_t i = 0; i < t->axis_count; i++) {
        all = str_format(&c->memory, "%.*s%s%s in %s", STR_ARGS(all), i ? ", " : "",
                         t->axes[i].name, t->axes[i].extent.text);
    }
    return all;
}

static str role_of(const ftl_plan_tensor *t) {
    return t->role == FTL_INPUT ? STR("Input") : STR("Output");
}

static void compare_types(climb *c, const char *name, ftl_type is, ftl_type should) {
    if (is == should) return;
    diag_report(&c->diags, DIAG_MEANING_PARAMETER_TYPE, whole(), text_of(c, name),
                str_from(ftl_type_name(is)), str_from(ftl_type_name(should)));
}

/* A length that was decided, and that the text fixes: "d = 64". */
static void compare_length(climb *c, const ftl_formula *extent) {
    const ftl_options *o = c->task->options;
    bool is_fixed = extent->step_count == 1 && extent->steps[0].op == FTL_PUSH_INTEGER;
    for (int32_t i = 0; is_fixed && i < o->pin_count; i++) {
        int64_t value;
        bool is_it = strcmp(o->pins[i].name, extent->text) == 0 &&
                     str_to_integer(str_from(o->pins[i].value), &value);
        if (!is_it || value == extent->steps[0].integer) continue;
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_LENGTH, whole(), text_of(c, extent->text),
                    str_format(&c->memory, "%lld", (long long)extent->steps[0].integer),
                    text_of(c, o->pins[i].value));
    }
}

static void compare_tensor(climb *c, const ftl_plan_tensor *got, const ftl_plan_tensor *want) {
    bool fits = got->axis_count == want->axis_count;
    for (int32_t k = 0; fits && k < want->axis_count; k++) {
        fits = strcmp(got->axes[k].extent.text, want->axes[k].extent.text) == 0;
    }
    if (!fits) {
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_AXES, whole(), text_of(c, want->name),
                    axes_of(c, got), axes_of(c, want));
        return;
    }
    compare_types(c, want->name, got->type, want->type);
    for (int32_t k = 0; k < got->axis_count && !diag_has_errors(&c->diags); k++) {
        compare_length(c, &got->axes[k].extent);
    }
}

static void compare_tensors(climb *c, const ftl_plan *is, const ftl_plan *should) {
    for (int32_t i = 0; i < should->tensor_count; i++) {
        const ftl_plan_tensor *want = &should->tensors[i];
        int32_t at = plan_find_tensor(is, want->name);
        if (want->role == FTL_WORKSPACE) continue;
        if (at >= 0 && is->tensors[at].role == want->role) {
            compare_tensor(c, &is->tensors[at], want);
            continue;
        }
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_MISSING, whole(), role_of(want),
                    text_of(c, want->name));
    }
    for (int32_t i = 0; i < is->tensor_count; i++) {
        const ftl_plan_tensor *got = &is->tensors[i];
        if (got->role == FTL_WORKSPACE || plan_find_tensor(should, got->name) >= 0) continue;
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_EXTRA, whole(), role_of(got),
                    text_of(c, got->name));
    }
}

static void compare_scalars(climb *c, const ftl_plan *is, const ftl_plan *should) {
    for (int32_t i = 0; i < should->scalar_count; i++) {
        const ftl_plan_scalar *want = &should->scalars[i];
        int32_t at = plan_find_scalar(is, want->name);
        if (at >= 0) {
            compare_types(c, want->name, is->scalars[at].type, want->type);
            continue;
        }
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_MISSING, whole(), STR("Input"),
                    text_of(c, want->name));
    }
    for (int32_t i = 0; i < is->scalar_count; i++) {
        if (plan_find_scalar(should, is->scalars[i].name) >= 0) continue;
        diag_report(&c->diags, DIAG_MEANING_PARAMETER_EXTRA, whole(), STR("Input"),
                    text_of(c, is->scalars[i].name));
    }
}

void climb_parameters(climb *c, const ftl_plan *is, const ftl_plan *should) {
    compare_tensors(c, is, should);
    compare_scalars(c, is, should);
}
