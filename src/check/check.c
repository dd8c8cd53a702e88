/* The order of the rules. A family that a broken one makes meaningless is not run. */
#include "check/check.h"

#include "check/events.h"
#include "check/hazards.h"
#include "check/layouts.h"
#include "check/rules.h"
#include "check/synchronise.h"

bool check_code(tl_kernel *kernel, const gpu *target, arena *memory, diag_list *diags,
                check_facts *facts) {
    check_facts unused;
    if (!facts) facts = &unused;
    *facts = (check_facts){0};
    if (!rules_complete(kernel, memory, diags)) return false;
    if (!tl_infer_axes(kernel, memory, diags) || !rules_indices(kernel, diags)) return false;
    const model *m = model_build(memory, kernel);
    facts->model = m;
    if (m->beyond.most) {
        diag_report(diags, DIAG_TOO_MANY, m->beyond.at, str_from(m->beyond.of),
                    str_from(m->beyond.what), str_format(memory, "%d", m->beyond.most));
        return false;
    }
    if (!rules_shapes(m, diags)) return false;
    bool types_fit = rules_types(m, target, diags), right = types_fit;
    right &= rules_views(kernel, NULL, memory, diags);
    right &= rules_orders(m, diags);
    right &= layouts_check(memory, m, diags, facts);
    right &= rules_budgets(memory, m, target, diags, facts);
    if (!types_fit) return false; /* who does what, where and when is not clear then */
    right &= rules_outputs(m, diags);
    right &= rules_votes(m, diags);
    const extents *x = extents_choose(memory, m);
    events_result events = events_run(memory, m, x);
    facts->run_count = x->run_count;
    facts->event_count = events.event_count;
    right &= hazards_report(memory, m, &events, diags);
    if (right) right = rules_whole(m, memory, diags);
    if (right) rules_long_sums(m, target, diags);
    if (right) synchronise(memory, m, &events, facts);
    return right;
}

/* The reasoner looks from each statement at all others, many times over. */
static bool fits_in_length(tl_kernel *kernel, diag_list *diags) {
    enum { STATEMENTS_MAX = 1000 };
    int count = 0;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (++count > STATEMENTS_MAX) {
            diag_report(diags, DIAG_SKETCH_TOO_LONG, s->range,
                        str_format(diags->memory, "%d", STATEMENTS_MAX));
            return false;
        }
    return true;
}

bool check_sketch(tl_program *program, const check_lengths *given, diag_list *diags) {
    bool right = true;
    for (tl_kernel *k = program->first; k; k = k->next) {
        bool fits = fits_in_length(k, diags) && rules_sketch_shapes(k, program->memory, diags);
        fits &= tl_infer_axes(k, program->memory, diags);
        if (fits) fits = rules_indices(k, diags);
        if (fits) fits = rules_views(k, given, program->memory, diags);
        if (fits) fits = rules_sketch_orders(k, diags);
        if (fits) fits = rules_sketch_layouts(k, program->memory, diags);
        if (fits && tl_is_sketch(k)) fits = rules_sketch_loops(k, program->memory, diags);
        if (fits) fits = rules_sketch_softmax(k, diags);
        if (fits) fits = rules_sketch_top(k, diags);
        if (fits && tl_is_sketch(k)) fits = rules_sketch_axes(k, diags);
        if (fits && tl_is_sketch(k)) fits = rules_sketch_outputs(k, diags);
        if (fits && tl_is_sketch(k)) fits = rules_sketch_infinity(k, program->memory, diags);
        if (fits && tl_is_sketch(k)) rules_sketch_far(k, diags);
        if (fits && tl_is_sketch(k)) fits = rules_sketch_rounds(k, given, program->memory, diags);
        right &= fits;
    }
    return right;
}

const check_shared *check_shared_of(const check_facts *facts, const tl_symbol *tile) {
    for (int i = 0; i < facts->shared_count; i++) {
        if (facts->shared[i].tile == tile) return &facts->shared[i];
    }
    return NULL;
}

const check_sync *check_sync_of(const check_facts *facts, const tl_statement *statement) {
    for (int i = 0; i < facts->sync_count; i++) {
        if (facts->syncs[i].statement == statement) return &facts->syncs[i];
    }
    return NULL;
}
