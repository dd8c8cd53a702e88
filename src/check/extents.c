/* What control depends on, and which values of it are worth trying. */
#include "check/extents_search.h"

#include <string.h>

enum {
    CANDIDATES_MAX = 40,
    LOOK_AHEAD_MAX = 8,
    NEIGHBOURS_MAX = 6,
};

/* --- what control depends on ------------------------------------------------------------------ */

static void add_divisor(search *s, const tl_expr *e) {
    int64_t value;
    if (!e || tl_known_integer(e, &value) || s->divisor_count == SEARCH_DIVISORS_MAX) return;
    s->divisors[s->divisor_count++] = e;
}

static void add_granule(search *s, const tl_expr *e) {
    int64_t value;
    if (!e || !tl_known_integer(e, &value) || value <= 1 || value > (1 << 20)) return;
    for (int i = 0; i < s->granule_count; i++) {
        if (s->granules[i] == value) return;
    }
    if (s->granule_count < SEARCH_GRANULES_MAX) s->granules[s->granule_count++] = value;
}

/* NULL: there are too many. */
static extents_variable *need_variable(search *s, const tl_symbol *symbol, const tl_expr *element) {
    extents *x = s->x;
    const extents_variable *known = element ? extents_variable_of(x, element) : NULL;
    if (known) return &x->variables[known - x->variables];
    for (int i = 0; i < x->variable_count; i++)
        if (symbol && x->variables[i].symbol == symbol) return &x->variables[i];
    if (x->variable_count == EXTENTS_VARIABLES_MAX) {
        x->is_cut = true;
        return NULL;
    }
    extents_variable *v = &x->variables[x->variable_count++];
    *v = (extents_variable){.symbol = symbol, .element = element};
    if (symbol && symbol->kind == TL_SYMBOL_GRID) v->walk = tl_walk_of(symbol)->extent;
    v->is_of_tile = element && model_depends_on_grid(x->model, element);
    return v;
}

bool search_is_fixed(const extents_variable *v) {
    return v->uses == v->indexing || (v->element && v->uses == v->starting);
}

static bool varies(const tl_expr *e) {
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (!s || s->is_known) return false;
    return s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_GRID ||
           (s->kind == TL_SYMBOL_SCALAR && !s->is_real);
}

bool search_is_in_memory(const tl_expr *e) {
    return e->kind == TL_ELEMENT && e->space != TL_REGISTER && e->space != TL_SHARED;
}

static bool note_indexing(void *context, const tl_expr *e) {
    search *s = context;
    extents_variable *v = varies(e) ? need_variable(s, e->symbol, NULL) : NULL;
    if (v) v->indexing++;
    return true;
}

static void follow_element(search *s, const tl_expr *e) {
    bool has_own = extents_table_of(s->x, e);
    extents_variable *v = has_own ? NULL : need_variable(s, NULL, e);
    if (v) v->uses++;
    for (int i = 0; i < e->item_count; i++) tl_visit(e->items[i], note_indexing, s);
}

static bool follow(void *context, const tl_expr *e) {
    search *s = context;
    if (e->kind == TL_BINARY) {
        bool divides = e->operator== TL_OVER || e->operator== TL_MODULO;
        if (divides) add_divisor(s, e->right);
        if (divides || e->operator== TL_TIMES) add_granule(s, e->right);
        if (e->operator== TL_TIMES) add_granule(s, e->left);
        bool is_stretch = e->operator== TL_MINUS && search_is_in_memory(e->left) &&
                          search_is_in_memory(e->right) && e->left->symbol == e->right->symbol;
        is_stretch = is_stretch && !extents_table_of(s->x, e->right);
        extents_variable *start = is_stretch ? need_variable(s, NULL, e->right) : NULL;
        if (start) start->starting++;
        return true;
    }
    if (search_is_in_memory(e)) follow_element(s, e);
    extents_variable *v = varies(e) ? need_variable(s, e->symbol, NULL) : NULL;
    if (v) v->uses++;
    return true;
}

static void follow_all(search *s, const tl_expr *e) {
    model_visit_lets(s->x->model, e, false, follow, s);
}

/* A grid index is below its extent, which depends on more. */
static void follow_walks(search *s) {
    for (; s->walks_followed < s->x->variable_count; s->walks_followed++) {
        const extents_variable *v = &s->x->variables[s->walks_followed];
        if (!search_is_fixed(v)) follow_all(s, v->walk);
    }
}

static bool finds_no_loop(void *context, const tl_expr *e) {
    (void)context;
    return !(e->symbol && e->symbol->kind == TL_SYMBOL_LOOP);
}

bool search_follows_loop(const search *s, const tl_expr *e) {
    return !model_visit_lets(s->x->model, e, false, finds_no_loop, NULL);
}

/* Keeps the largest parts of a control expression that no loop changes. */
static void add_signature(search *s, const tl_expr *e) {
    if (!e || s->signature_count == SEARCH_SIGNATURE_MAX) return;
    if (search_follows_loop(s, e)) {
        add_signature(s, e->left);
        add_signature(s, e->right);
        for (int i = 0; i < e->item_count; i++) add_signature(s, e->items[i]);
        bool looks = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
        int64_t ahead;
        if (looks && e->right && tl_known_integer(e->right, &ahead)) {
            if (ahead < 0) ahead = -ahead;
            if (ahead > LOOK_AHEAD_MAX) ahead = LOOK_AHEAD_MAX;
            if (ahead > s->x->look_ahead) s->x->look_ahead = (int)ahead;
        }
        return;
    }
    int64_t value;
    if (tl_known_integer(e, &value)) return;
    for (int i = 0; i < s->signature_count; i++) {
        if (tl_expr_equal(s->signature[i], e)) return;
    }
    s->signature[s->signature_count++] = e;
}

static void add_control(search *s, const tl_expr *e) {
    follow_all(s, e);
    add_signature(s, e);
}

static void add_loop(search *s, const tl_for *loop) {
    int64_t value;
    bool fixed = tl_known_integer(loop->from, &value) && tl_known_integer(loop->to, &value);
    if (fixed || s->loop_count == SEARCH_LOOPS_MAX) return;
    if (search_follows_loop(s, loop->from) || search_follows_loop(s, loop->to)) return;
    s->loops[s->loop_count++] = loop;
}

static void collect(search *s) {
    const model *m = s->x->model;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_FOR) {
                add_control(s, step->statement->loop.from);
                add_control(s, step->statement->loop.to);
                add_loop(s, &step->statement->loop);
            }
            if (step->kind == STEP_IF && !step->depends_on_data) {
                add_control(s, step->statement->branch.condition);
            }
            const tl_place *place = step->kind == STEP_COPY      ? &step->statement->copy.place
                                    : step->kind == STEP_COMPUTE ? &step->statement->compute.place
                                                                 : NULL;
            for (int k = 0; place && k < place->count; k++) {
                if (place->items[k].at && search_follows_loop(s, place->items[k].at)) {
                    add_control(s, place->items[k].at);
                }
            }
        }
    }
}

/* How long axes are where that is no length of its own, as `kv_used[b] - pad[b]`. */
static void collect_lengths(search *s) {
    const tl_kernel *kernel = s->x->model->kernel;
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_axes *axes = kernel->symbols[i]->axes;
        for (int k = 0; axes && k < axes->count; k++) {
            const tl_expr *e = axes->items[k].extent;
            int64_t value;
            bool is_plain = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_SIZE;
            bool is_known = is_plain || tl_known_integer(e, &value);
            for (int j = 0; j < s->length_count; j++) is_known |= tl_expr_equal(s->lengths[j], e);
            if (!is_known && s->length_count < SEARCH_LENGTHS_MAX)
                s->lengths[s->length_count++] = e;
        }
    }
}

/* --- candidates ------------------------------------------------------------------------------- */

typedef struct mention {
    const extents *x;
    const extents_variable *only; /* NULL: any variable */
} mention;

static bool finds_no_other(void *context, const tl_expr *e) {
    const mention *m = context;
    if (e->kind == TL_ELEMENT) return false;
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (!s || s->is_known || s->kind == TL_SYMBOL_CONSTANT) return true;
    for (int i = 0; i < m->x->variable_count; i++) {
        const extents_variable *v = &m->x->variables[i];
        if (v->symbol == s && (!m->only || m->only == v)) return true;
    }
    return false;
}

/* Does the expression depend on the chosen variables (or on one of them) alone? */
static bool mentions_only(const extents *x, const extents_variable *only, const tl_expr *e) {
    mention m = {.x = x, .only = only};
    return model_visit_lets(x->model, e, false, finds_no_other, &m);
}

static const tl_expr *condition_of(const tl_statement *t) {
    bool is_parameter = t->kind == TL_INPUT || t->kind == TL_OUTPUT;
    return is_parameter ? t->parameter.condition : NULL;
}

/* When it speaks of the chosen variables alone. */
static const tl_expr *search_condition(const search *s, const tl_statement *statement) {
    const tl_expr *condition = condition_of(statement);
    return condition && mentions_only(s->x, NULL, condition) ? condition : NULL;
}

/* Does a value of one variable keep the launch conditions that speak of it alone? */
static bool keeps_conditions(search *s, int variable, int64_t value) {
    extents_values *v = s->values;
    extents_run run = {0};
    run.values[variable] = value;
    extents_values_start(v, &run);
    for (const tl_statement *t = s->x->model->kernel->body.first; t; t = t->next) {
        const tl_expr *condition = condition_of(t);
        int64_t holds;
        if (!condition || !mentions_only(s->x, &s->x->variables[variable], condition)) continue;
        if (extents_integer(v, condition, &holds) && !holds) return false;
    }
    return true;
}

typedef struct candidates {
    search *s;
    int variable, count;
    int64_t items[CANDIDATES_MAX];
} candidates;

static void add_candidate(candidates *list, int64_t value) {
    if (list->count == CANDIDATES_MAX) return;
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == value) return;
    }
    if (!keeps_conditions(list->s, list->variable, value)) return;
    list->items[list->count++] = value;
}

/* The most telling first: every number of whole blocks, then one element more, then small ones. */
static void find_candidates(search *s, int variable) {
    extents_variable *v = &s->x->variables[variable];
    candidates list = {.s = s, .variable = variable};
    int steps = s->x->steps;
    if (search_is_fixed(v)) {
        list.items[list.count++] = 0;
    } else if (v->walk) {
        for (int i = 0; i <= steps; i++) add_candidate(&list, i);
    } else {
        add_candidate(&list, 1);
        if (!s->granule_count) {
            for (int i = 0; i <= steps; i++) add_candidate(&list, i);
        }
        for (int i = 1; i <= steps; i++) {
            for (int g = 0; g < s->granule_count; g++) add_candidate(&list, i * s->granules[g]);
        }
        for (int i = 1; i <= steps; i++) {
            for (int g = 0; g < s->granule_count; g++) add_candidate(&list, i * s->granules[g] + 1);
        }
        for (int i = 0; i <= steps; i++) add_candidate(&list, i);
    }
    if (!list.count) list.items[list.count++] = 1;
    v->candidates = arena_array(s->memory, int64_t, list.count);
    v->candidate_count = list.count;
    memcpy(v->candidates, list.items, sizeof(int64_t) * (size_t)list.count);
}

/* How many candidates of each variable all combinations are tried of: the first ones. */
static void choose_lengths(search *s) {
    enum { WALK_CANDIDATES = 4 };
    extents *x = s->x;
    int64_t room = SEARCH_COMBINATIONS_MAX;
    int others = 0;
    for (int i = 0; i < x->variable_count; i++) {
        if (search_is_fixed(&x->variables[i])) continue;
        if (!x->variables[i].walk) others++;
        else if (room > WALK_CANDIDATES) room /= WALK_CANDIDATES;
    }
    int length = CANDIDATES_MAX;
    for (; length > 2; length--) {
        int64_t product = 1;
        for (int i = 0; i < others && product <= room; i++) product *= length;
        if (product <= room) break;
    }
    for (int i = 0; i < x->variable_count; i++) {
        extents_variable *v = &x->variables[i];
        int most = v->walk ? WALK_CANDIDATES : length;
        v->combined_count = v->candidate_count < most ? v->candidate_count : most;
    }
}

extents *extents_choose(arena *memory, const model *m) {
    extents *x = arena_new(memory, extents);
    *x = (extents){.model = m};
    search s = {.x = x, .memory = memory};
    search_find_tables(&s);
    collect(&s);
    collect_lengths(&s);
    follow_walks(&s);
    for (const tl_statement *t = m->kernel->body.first; t; t = t->next) {
        const tl_expr *condition = search_condition(&s, t);
        if (condition) follow_all(&s, condition);
    }
    for (const tl_statement *t = m->kernel->body.first; t; t = t->next) {
        const tl_expr *condition = search_condition(&s, t);
        if (condition) list_push(memory, &s.conditions, condition);
    }
    x->steps = m->stages_most + x->look_ahead + 2;
    x->neighbours = x->steps < NEIGHBOURS_MAX ? x->steps : NEIGHBOURS_MAX;
    s.values = extents_values_new(memory, x);
    for (int i = 0; i < x->variable_count; i++) find_candidates(&s, i);
    choose_lengths(&s);
    search_find_goals(&s);
    search_run(&s);
    return x;
}
