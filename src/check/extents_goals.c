/* What a set of values makes control do: which loops run how often, which way each `if` goes, and
 * which argument of a min, max or select decides. Loops are gone through at their first and last
 * iteration only, and nothing is executed.
 */
#include "check/extents_search.h"
#include "tl/tl.h"

#include <math.h>
enum { VISITS_MAX = 1000 }; /* of loops' bodies, by one set of values */

/* --- the points ------------------------------------------------------------------------------- */

typedef struct collector {
    search *s;
    const model_step *step;
    int parent;
} collector;

static void add_point(search *s, search_point point) {
    if (point.count > SEARCH_OUTCOMES_MAX - s->goals.outcome_count) point.is_free = true;
    if (point.is_free) point.count = 0;
    point.first = s->goals.outcome_count;
    s->goals.outcome_count += point.count;
    list_push(s->memory, &s->goals.points, point);
}

static bool is_choice(const tl_expr *e) {
    return e->kind == TL_CALL &&
           (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX ||
            e->function == TL_FUNCTION_SELECT);
}

static bool note_choice(void *context, const tl_expr *e) {
    collector *c = context;
    if (!is_choice(e)) return true;
    for (int i = 0; i < c->s->goals.points.count; i++) {
        const tl_expr *known = c->s->goals.points.items[i].choice;
        if (known && tl_expr_equal(known, e)) return true;
    }
    int count = e->function == TL_FUNCTION_SELECT ? 2 : e->item_count;
    add_point(c->s,
              (search_point){.step = c->step, .choice = e, .parent = c->parent, .count = count});
    return true;
}

static void note_choices(search *s, const model_step *step, int parent, const tl_expr *e) {
    collector c = {s, step, parent};
    model_visit_lets(s->x->model, e, false, note_choice, &c);
}

static bool finds_no_question(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_CALL || !tl_function_is_asked(e->function);
}

static void add_step(search *s, const model_step *step, int parent) {
    if (step->kind == STEP_FOR) {
        const tl_for *loop = &step->statement->loop;
        note_choices(s, step, parent, loop->from);
        note_choices(s, step, parent, loop->to);
        bool asks = extents_asks_table(s->x, loop->from) || extents_asks_table(s->x, loop->to);
        add_point(s, (search_point){.step = step,
                                    .parent = parent,
                                    .count = s->x->steps + 1,
                                    .asks_table = asks,
                                    .is_free = asks});
    } else if (step->kind == STEP_IF) {
        const tl_expr *condition = step->statement->branch.condition;
        bool asks = !model_visit_lets(s->x->model, condition, false, finds_no_question, NULL);
        bool is_free = step->depends_on_data || asks || extents_asks_table(s->x, condition);
        if (!is_free) note_choices(s, step, parent, condition);
        add_point(s,
                  (search_point){.step = step, .parent = parent, .count = 2, .is_free = is_free});
    }
}

void search_find_goals(search *s) {
    const model *m = s->x->model;
    search_goals *g = &s->goals;
    g->point_of = arena_array(s->memory, int *, m->role_count + 1);
    for (int r = 0; r < m->role_count; r++) {
        const model_role *role = &m->roles[r];
        int around[TL_NESTING_MAX + 2], depth = 0;
        g->point_of[r] = arena_array(s->memory, int, role->step_count);
        for (int i = 0; i < role->step_count; i++) {
            const model_step *step = &role->steps[i];
            bool opens = step->kind == STEP_FOR || step->kind == STEP_IF;
            g->point_of[r][i] = g->points.count;
            if (opens) {
                add_step(s, step, depth ? around[depth - 1] : -1);
                around[depth++] = g->points.count - 1;
            }
            if (step->kind == STEP_END_FOR || step->kind == STEP_END_IF) depth--;
        }
    }
    g->distances = arena_array(s->memory, double, g->outcome_count + 1);
    g->entries = arena_array(s->memory, double, g->points.count + 1);
}

/* --- how far ---------------------------------------------------------------------------------- */

/* From 0 to below 1, so that a nearer loop or `if` counts more than all around it. */
static double below_one(double distance) {
    return distance / (distance + 1);
}

static void lessen(double *least, double distance) {
    if (distance < *least) *least = distance;
}

static void measure_choice(search *s, search_point *p) {
    const tl_expr *e = p->choice;
    if (p->is_free) return;
    bool selects = e->function == TL_FUNCTION_SELECT;
    for (int k = 0; k < 2 && selects; k++) {
        double distance = search_distance(s->values, e->items[0], k == 0, NULL);
        lessen(&s->goals.distances[p->first + k], below_one(distance));
    }
    for (int k = 0; k < e->item_count && !selects; k++) {
        double lag = 0;
        int64_t mine, other;
        if (!extents_integer(s->values, e->items[k], &mine)) return;
        for (int i = 0; i < e->item_count; i++) {
            if (i == k || !extents_integer(s->values, e->items[i], &other)) continue;
            double gap = (double)mine - (double)other + 1;
            if (e->function == TL_FUNCTION_MAX) gap = 2 - gap;
            lag = fmax(lag, gap);
        }
        lessen(&s->goals.distances[p->first + k], below_one(lag));
    }
}

static void walk(search *s, int role, int begin, int end);

/* Of a place that is looked into, what a loop's first and last iteration lack counts together:
 * either may follow the loop's bounds, and never come nearer.
 */
static void note_way(search *s, const search_point *p, int way, double distance, bool is_deep) {
    double *least = &s->goals.distances[p->first + way], *sum = &s->goals.deep[way];
    if (!is_deep || distance == 0) lessen(least, below_one(distance));
    else if (*least != 0) *least = below_one(*sum += distance);
}

static void walk_loop(search *s, int role, int at, search_point *p, int point) {
    const model_step *step = p->step;
    const tl_for *loop = &step->statement->loop;
    int64_t from, to, count;
    bool is_known = !p->asks_table && extents_integer(s->values, loop->from, &from) &&
                    extents_integer(s->values, loop->to, &to) &&
                    !__builtin_sub_overflow(to, from, &count);
    if (!is_known) {
        s->goals.entries[point] = 0;
        walk(s, role, at + 1, step->other);
        return;
    }
    bool is_deep = point == s->goals.focus;
    double lag = count < 0 ? -(double)count : 0;
    if (count < 0) count = 0;
    lessen(&s->goals.entries[point], count ? 0 : below_one(1 + lag));
    for (int k = 0; k < p->count; k++) {
        double distance = fabs((double)count - k) + (k ? lag : 0);
        if (k == p->count - 1 && count > k) distance = 0;
        if (is_deep && count < k) distance = search_lack(s->values, loop, k);
        lessen(&s->goals.distances[p->first + k], below_one(distance));
    }
    for (int pass = 0; pass < 2 && pass < count && s->goals.visits++ < VISITS_MAX; pass++) {
        tl_values_set(&s->values->names, loop->symbol, pass ? to - 1 : from);
        walk(s, role, at + 1, step->other);
    }
    tl_values_forget(&s->values->names, loop->symbol);
}

/* Where the loop around a place begins; the condition itself where there is none. */
static const tl_expr *begin_of(const search *s, const search_point *p) {
    const tl_expr *own = p->step->statement->branch.condition;
    for (int at = p->parent; at >= 0; at = s->goals.points.items[at].parent) {
        const model_step *around = s->goals.points.items[at].step;
        if (around->kind == STEP_FOR) return around->statement->loop.from;
    }
    return own;
}

static void walk_if(search *s, int role, int at, search_point *p, int point) {
    const model_step *step = p->step;
    const tl_expr *condition = step->statement->branch.condition;
    if (p->is_free) {
        s->goals.entries[point] = 0;
        walk(s, role, at + 1, step->other);
        return;
    }
    bool is_deep = point == s->goals.focus;
    const tl_expr *deep = is_deep ? begin_of(s, p) : NULL;
    double distance = search_distance(s->values, condition, true, deep);
    lessen(&s->goals.entries[point], below_one(distance));
    note_way(s, p, 1, distance, is_deep);
    double other = search_distance(s->values, condition, false, deep);
    note_way(s, p, 0, other, is_deep);
    if (distance == 0) walk(s, role, at + 1, step->other);
}

static void forget_lets(search *s, const tl_statement *t) {
    for (int i = 0; i < t->let.count; i++) {
        const tl_symbol *symbol = t->let.items[i].symbol;
        if (symbol && symbol->kind == TL_SYMBOL_CONSTANT)
            tl_values_forget(&s->values->names, symbol);
    }
}

static void walk(search *s, int role, int begin, int end) {
    const model_role *r = &s->x->model->roles[role];
    for (int i = begin; i < end; i++) {
        const model_step *step = &r->steps[i];
        if (step->kind == STEP_LET) forget_lets(s, step->statement);
        if (step->kind != STEP_FOR && step->kind != STEP_IF) continue;
        int at = s->goals.point_of[role][i];
        search_point *p = &s->goals.points.items[at];
        for (; p->choice; p = &s->goals.points.items[++at]) measure_choice(s, p);
        if (step->kind == STEP_FOR) walk_loop(s, role, i, p, at);
        else walk_if(s, role, i, p, at);
        i = step->other;
    }
}

/* What was not reached is one step farther away than what kept control from it. */
static void measure_missed(search *s) {
    search_goals *g = &s->goals;
    for (int i = 0; i < g->points.count; i++) {
        const search_point *p = &g->points.items[i];
        double missed = p->parent < 0 ? 1 : 1 + g->entries[p->parent];
        if (isinf(g->entries[i])) g->entries[i] = missed;
        for (int k = 0; k < p->count; k++) lessen(&g->distances[p->first + k], missed);
    }
}

search_met search_measure(search *s) {
    search_goals *g = &s->goals;
    search_met met = {{0}};
    g->visits = 0;
    g->deep[0] = g->deep[1] = 0;
    for (int i = 0; i < g->outcome_count; i++) g->distances[i] = INFINITY;
    for (int i = 0; i < g->points.count; i++) g->entries[i] = INFINITY;
    for (int r = 0; r < s->x->model->role_count; r++) {
        walk(s, r, 0, s->x->model->roles[r].step_count);
    }
    measure_missed(s);
    for (int i = 0; i < g->outcome_count; i++) {
        if (g->distances[i] == 0) met.words[i / 64] |= UINT64_C(1) << i % 64;
    }
    return met;
}
