#include "check/extents.h"

#include <string.h>

enum {
    CANDIDATES_MAX = 40,
    GRANULES_MAX = 8,
    COMBINATIONS_MAX = 1600,
    SIGNATURE_MAX = 32,
    LOOK_AHEAD_MAX = 8,
    LOOPS_MAX = 64,
    MIXED_SETS = 10,
};

/* --- what control depends on ------------------------------------------------------------------ */

typedef struct chooser {
    extents *x;
    arena *memory;
    int64_t granules[GRANULES_MAX];
    int granule_count;
    const tl_expr *signature[SIGNATURE_MAX];
    int signature_count;
    const tl_for
        *loops[LOOPS_MAX]; /* whose bounds are the same for a whole tile, but no constants */
    int loop_count;
    int walks_followed;
} chooser;

static void add_granule(chooser *c, const tl_expr *e) {
    int64_t value;
    if (!e || !tl_known_integer(e, &value) || value <= 1 || value > (1 << 20)) return;
    for (int i = 0; i < c->granule_count; i++) {
        if (c->granules[i] == value) return;
    }
    if (c->granule_count < GRANULES_MAX) c->granules[c->granule_count++] = value;
}

static const tl_expr *walk_extent(const model *m, const tl_symbol *symbol) {
    for (int i = 0; m->grid && i < m->grid->grid.count; i++) {
        if (m->grid->grid.items[i].symbol == symbol) return m->grid->grid.items[i].extent;
    }
    return NULL;
}

/* NULL: there are too many. */
static extents_variable *need_variable(chooser *c, const tl_symbol *symbol,
                                       const tl_expr *element) {
    extents *x = c->x;
    for (int i = 0; i < x->variable_count; i++) {
        extents_variable *v = &x->variables[i];
        if (symbol && v->symbol == symbol) return v;
        if (element && v->element && tl_expr_equal(v->element, element)) return v;
    }
    if (x->variable_count == EXTENTS_VARIABLES_MAX) return NULL;
    extents_variable *v = &x->variables[x->variable_count++];
    *v = (extents_variable){.symbol = symbol, .element = element};
    if (symbol && symbol->kind == TL_SYMBOL_GRID) v->walk = walk_extent(x->model, symbol);
    return v;
}

/* Does one value serve for it? */
static bool is_fixed(const extents_variable *v) {
    return v->uses == v->indexing || (v->element && v->uses == v->starting);
}

static bool varies(const tl_expr *e) {
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (!s || s->is_known) return false;
    return s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_GRID ||
           (s->kind == TL_SYMBOL_SCALAR && !s->is_real);
}

static bool is_in_memory(const tl_expr *e) {
    return e->kind == TL_ELEMENT && e->space != TL_REGISTER && e->space != TL_SHARED;
}

static bool note_indexing(void *context, const tl_expr *e) {
    chooser *c = context;
    extents_variable *v = varies(e) ? need_variable(c, e->symbol, NULL) : NULL;
    if (v) v->indexing++;
    return true;
}

static void follow_element(chooser *c, const tl_expr *e) {
    extents_variable *v = need_variable(c, NULL, e);
    if (v) v->uses++;
    for (int i = 0; i < e->item_count; i++) model_visit(e->items[i], note_indexing, c);
}

static bool follow(void *context, const tl_expr *e) {
    chooser *c = context;
    if (e->kind == TL_BINARY) {
        bool divides = e->operator== TL_OVER || e->operator== TL_MODULO;
        if (divides || e->operator== TL_TIMES) add_granule(c, e->right);
        if (e->operator== TL_TIMES) add_granule(c, e->left);
        bool is_stretch = e->operator== TL_MINUS && is_in_memory(e->left) &&
                          is_in_memory(e->right) && e->left->symbol == e->right->symbol;
        extents_variable *start = is_stretch ? need_variable(c, NULL, e->right) : NULL;
        if (start) start->starting++;
        return true;
    }
    if (is_in_memory(e)) follow_element(c, e);
    extents_variable *v = varies(e) ? need_variable(c, e->symbol, NULL) : NULL;
    if (v) v->uses++;
    return true;
}

static void follow_all(chooser *c, const tl_expr *e) {
    model_visit_lets(c->x->model, e, false, follow, c);
}

/* A grid index is below its extent, which depends on more. */
static void follow_walks(chooser *c) {
    for (; c->walks_followed < c->x->variable_count; c->walks_followed++) {
        const extents_variable *v = &c->x->variables[c->walks_followed];
        if (!is_fixed(v)) follow_all(c, v->walk);
    }
}

static bool finds_no_loop(void *context, const tl_expr *e) {
    (void)context;
    return !(e->symbol && e->symbol->kind == TL_SYMBOL_LOOP);
}

static bool follows_loop(const chooser *c, const tl_expr *e) {
    return !model_visit_lets(c->x->model, e, false, finds_no_loop, NULL);
}

/* Keeps the largest parts of a control expression that no loop changes. */
static void add_signature(chooser *c, const tl_expr *e) {
    if (!e || c->signature_count == SIGNATURE_MAX) return;
    if (follows_loop(c, e)) {
        add_signature(c, e->left);
        add_signature(c, e->right);
        for (int i = 0; i < e->item_count; i++) add_signature(c, e->items[i]);
        bool looks = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
        int64_t ahead;
        if (looks && e->right && tl_known_integer(e->right, &ahead)) {
            if (ahead < 0) ahead = -ahead;
            if (ahead > LOOK_AHEAD_MAX) ahead = LOOK_AHEAD_MAX;
            if (ahead > c->x->look_ahead) c->x->look_ahead = (int)ahead;
        }
        return;
    }
    int64_t value;
    if (tl_known_integer(e, &value)) return;
    for (int i = 0; i < c->signature_count; i++) {
        if (tl_expr_equal(c->signature[i], e)) return;
    }
    c->signature[c->signature_count++] = e;
}

static void add_control(chooser *c, const tl_expr *e) {
    follow_all(c, e);
    add_signature(c, e);
}

static void add_loop(chooser *c, const tl_for *loop) {
    int64_t value;
    bool fixed = tl_known_integer(loop->from, &value) && tl_known_integer(loop->to, &value);
    if (fixed || c->loop_count == LOOPS_MAX) return;
    if (follows_loop(c, loop->from) || follows_loop(c, loop->to)) return;
    c->loops[c->loop_count++] = loop;
}

static void collect(chooser *c) {
    const model *m = c->x->model;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_FOR) {
                add_control(c, step->statement->loop.from);
                add_control(c, step->statement->loop.to);
                add_loop(c, &step->statement->loop);
            }
            if (step->kind == STEP_IF && !step->depends_on_data) {
                add_control(c, step->statement->branch.condition);
            }
            const tl_place *place = step->kind == STEP_COPY      ? &step->statement->copy.place
                                    : step->kind == STEP_COMPUTE ? &step->statement->compute.place
                                                                 : NULL;
            for (int k = 0; place && k < place->count; k++) {
                if (place->items[k].at && follows_loop(c, place->items[k].at)) {
                    add_control(c, place->items[k].at);
                }
            }
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

static const tl_expr *condition_of(const tl_statement *s) {
    bool is_parameter = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
    return is_parameter ? s->parameter.condition : NULL;
}

/* Does a value of one variable keep the launch conditions that speak of it alone? */
static bool keeps_conditions(chooser *c, extents_values *v, int variable, int64_t value) {
    extents_run run = {0};
    run.values[variable] = value;
    extents_values_start(v, &run);
    for (const tl_statement *s = c->x->model->kernel->body.first; s; s = s->next) {
        const tl_expr *condition = condition_of(s);
        int64_t holds;
        if (!condition || !mentions_only(c->x, &c->x->variables[variable], condition)) continue;
        if (extents_integer(v, condition, &holds) && !holds) return false;
    }
    return true;
}

typedef struct candidates {
    chooser *c;
    extents_values *values;
    int variable, count, most;
    int64_t items[CANDIDATES_MAX];
} candidates;

static void add_candidate(candidates *list, int64_t value) {
    if (list->count == list->most) return;
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == value) return;
    }
    if (!keeps_conditions(list->c, list->values, list->variable, value)) return;
    list->items[list->count++] = value;
}

/* The most telling first: every number of whole blocks, then one element more, then small ones. */
static void find_candidates(chooser *c, extents_values *values, int variable, int most) {
    extents_variable *v = &c->x->variables[variable];
    candidates list = {.c = c, .values = values, .variable = variable, .most = most};
    int steps = c->x->steps;
    if (is_fixed(v)) {
        list.items[list.count++] = 0;
    } else if (v->walk) {
        for (int i = 0; i <= steps; i++) add_candidate(&list, i);
    } else {
        add_candidate(&list, 1);
        if (!c->granule_count) {
            for (int i = 0; i <= steps; i++) add_candidate(&list, i);
        }
        for (int i = 1; i <= steps; i++) {
            for (int g = 0; g < c->granule_count; g++) add_candidate(&list, i * c->granules[g]);
        }
        for (int i = 1; i <= steps; i++) {
            for (int g = 0; g < c->granule_count; g++) add_candidate(&list, i * c->granules[g] + 1);
        }
        for (int i = 0; i <= steps; i++) add_candidate(&list, i);
    }
    if (!list.count) list.items[list.count++] = 1;
    v->candidates = arena_array(c->memory, int64_t, list.count);
    v->candidate_count = list.count;
    memcpy(v->candidates, list.items, sizeof(int64_t) * (size_t)list.count);
}

static void find_all_candidates(chooser *c) {
    enum { WALK_CANDIDATES = 4 };
    extents *x = c->x;
    extents_values values = extents_values_new(c->memory, x);
    int64_t room = COMBINATIONS_MAX;
    int others = 0;
    for (int i = 0; i < x->variable_count; i++) {
        if (is_fixed(&x->variables[i])) continue;
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
        find_candidates(c, &values, i, x->variables[i].walk ? WALK_CANDIDATES : length);
    }
}

/* --- runs ------------------------------------------------------------------------------------- */

static bool allowed(chooser *c, extents_values *v) {
    const extents *x = c->x;
    int64_t value;
    for (int i = 0; i < x->variable_count; i++) {
        const tl_expr *walk = x->variables[i].walk;
        if (!walk || is_fixed(&x->variables[i])) continue;
        if (extents_integer(v, walk, &value) && v->run->values[i] >= value) return false;
    }
    for (const tl_statement *s = x->model->kernel->body.first; s; s = s->next) {
        const tl_expr *condition = condition_of(s);
        if (!condition || !mentions_only(x, NULL, condition)) continue;
        if (extents_integer(v, condition, &value) && !value) return false;
    }
    for (int i = 0; i < c->loop_count; i++) {
        int64_t from, to;
        if (!extents_integer(v, c->loops[i]->from, &from)) continue;
        if (!extents_integer(v, c->loops[i]->to, &to)) continue;
        if (to - from > x->steps) return false;
    }
    return true;
}

static uint64_t signature_of(chooser *c, extents_values *v) {
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < c->signature_count; i++) {
        int64_t value = INT64_MIN;
        extents_integer(v, c->signature[i], &value);
        hash = (hash ^ (uint64_t)value) * 1099511628211u;
        hash ^= hash >> 29;
    }
    /* Whole and ragged last blocks differ in what lies behind the end. */
    for (int i = 0; i < c->x->variable_count; i++) {
        for (int g = 0; g < c->granule_count && !c->x->variables[i].walk; g++) {
            bool is_whole = v->run->values[i] % c->granules[g] == 0;
            hash = (hash ^ (is_whole ? 1u : 2u)) * 1099511628211u;
        }
    }
    return hash;
}

static void choose_runs(chooser *c) {
    extents *x = c->x;
    bool has_data = false;
    for (int r = 0; r < x->model->role_count; r++) {
        for (int i = 0; i < x->model->roles[r].step_count; i++) {
            has_data |= x->model->roles[r].steps[i].depends_on_data;
        }
    }
    int patterns = has_data ? 4 : 1;
    LIST(extents_run) runs = {0};
    LIST(uint64_t) signatures = {0};
    extents_values values = extents_values_new(c->memory, x);
    int at[EXTENTS_VARIABLES_MAX] = {0};
    extents_run run = {0};
    for (;;) {
        for (int i = 0; i < x->variable_count; i++) {
            run.values[i] = x->variables[i].candidates[at[i]];
        }
        extents_values_start(&values, &run);
        if (allowed(c, &values) && runs.count + patterns <= EXTENTS_RUNS_MAX) {
            uint64_t signature = signature_of(c, &values);
            bool is_new = true;
            for (int i = 0; i < signatures.count; i++) is_new &= signatures.items[i] != signature;
            if (is_new) {
                list_push(c->memory, &signatures, signature);
                /* Mixed ways are tried with the first sets of values only. */
                int ways = signatures.count <= MIXED_SETS ? patterns : patterns > 2 ? 2 : patterns;
                for (run.pattern = 0; run.pattern < ways; run.pattern++) {
                    list_push(c->memory, &runs, run);
                }
                run.pattern = 0;
            }
        }
        int digit = 0;
        while (digit < x->variable_count && ++at[digit] == x->variables[digit].candidate_count) {
            at[digit++] = 0;
        }
        if (digit == x->variable_count) break;
    }
    x->runs = runs.items;
    x->run_count = runs.count;
}

extents *extents_choose(arena *memory, const model *m) {
    extents *x = arena_new(memory, extents);
    *x = (extents){.model = m};
    chooser c = {.x = x, .memory = memory};
    collect(&c);
    follow_walks(&c);
    for (const tl_statement *s = m->kernel->body.first; s; s = s->next) {
        const tl_expr *condition = condition_of(s);
        if (condition && mentions_only(x, NULL, condition)) follow_all(&c, condition);
    }
    x->steps = m->stages_most + x->look_ahead + 2;
    find_all_candidates(&c);
    choose_runs(&c);
    return x;
}
