/* Which sets of values are run.
 *
 * First come all combinations of the most telling values. What these do not make control do is
 * looked for one by one: from the set that came nearest, one value after the other is changed as
 * long as that brings it nearer. Runs are then chosen so that every outcome that was met, and every
 * pair of them, is in one of them.
 */
#include "check/extents_search.h"

#include <math.h>

enum {
    RUNS_MAX = 160,      /* of the combinations, in their order */
    ADDED_SETS_MAX = 64, /* for outcomes and pairs that those do not have */
    MIXED_SETS = 10,     /* mixed ways of votes are tried with the first sets of values only */
    COMBINED_MAX = 600,  /* combinations that are measured */
    POOL_MAX = 1024,
    MEASURES_MAX = 1200,  /* of the search for single outcomes, with short loops and with long, */
    MEASURES_OF_ONE = 40, /* for one of them, */
    MEASURES_OF_NEEDED = 600, /* and for one that steps wait for */
    STEPS_LONG = 48,          /* of a loop, where no shorter one meets an outcome */
    SIGNATURES_MAX = 4096,    /* a power of two */
};

static const int64_t VALUE_MOST = INT64_C(1) << 40;

typedef struct candidate {
    extents_run run;
    search_met met;
} candidate;

typedef struct explorer {
    search *s;
    LIST(candidate) pool;
    uint64_t *signatures; /* open hash; 0: free */
    int signature_count;
    double *nearest; /* by outcome */
    extents_run *nearest_runs;
    search_met met;
    int64_t most; /* iterations that a loop may have */
    int measures;
    uint64_t dice;
} explorer;

/* --- one set of values ------------------------------------------------------------------------ */

/* Sets the values; a grid's index that is too large becomes the last one. */
static void start(explorer *e, extents_run *run) {
    const extents *x = e->s->x;
    extents_values *v = e->s->values;
    extents_values_start(v, run);
    for (int i = 0; i < x->variable_count; i++) {
        const extents_variable *variable = &x->variables[i];
        int64_t count;
        if (!variable->walk || search_is_fixed(variable)) continue;
        if (!extents_integer(v, variable->walk, &count) || run->values[i] < count) continue;
        run->values[i] = count > 0 ? count - 1 : 0;
        extents_values_start(v, run);
    }
}

/* How far the values are from being those of a launch with short loops; 0: they are. */
static double misfit(explorer *e) {
    const search *s = e->s;
    const extents *x = s->x;
    extents_values *v = e->s->values;
    double sum = 0;
    for (int i = 0; i < x->variable_count; i++) {
        int64_t count;
        const extents_variable *variable = &x->variables[i];
        if (!variable->walk || search_is_fixed(variable)) continue;
        if (!extents_integer(v, variable->walk, &count)) continue;
        if (v->run->values[i] >= count) sum += (double)v->run->values[i] - (double)count + 1;
    }
    for (int i = 0; i < s->conditions.count; i++) {
        int64_t holds;
        if (!extents_integer(v, s->conditions.items[i], &holds) || holds) continue;
        sum += search_distance(v, s->conditions.items[i], true, NULL);
    }
    for (int i = 0; i < s->divisor_count; i++) {
        int64_t value;
        if (extents_integer(v, s->divisors[i], &value) && !value) sum += 1;
    }
    for (int i = 0; i < s->length_count; i++) {
        int64_t length;
        if (extents_integer(v, s->lengths[i], &length) && length < 0) sum -= (double)length;
    }
    for (int i = 0; i < s->loop_count; i++) {
        int64_t from, to, count;
        if (!extents_integer(v, s->loops[i]->from, &from)) continue;
        if (!extents_integer(v, s->loops[i]->to, &to)) continue;
        if (__builtin_sub_overflow(to, from, &count)) return 1e18;
        if (count > e->most) sum += (double)(count - e->most);
    }
    return sum;
}

static uint64_t signature_of(explorer *e) {
    search *s = e->s;
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < s->signature_count; i++) {
        int64_t value = INT64_MIN;
        extents_integer(s->values, s->signature[i], &value);
        hash = (hash ^ (uint64_t)value) * 1099511628211u;
        hash ^= hash >> 29;
    }
    /* Whole and ragged last blocks differ in what is past the end. */
    for (int i = 0; i < s->x->variable_count; i++) {
        for (int g = 0; g < s->granule_count && !s->x->variables[i].walk; g++) {
            bool is_whole = s->values->run->values[i] % s->granules[g] == 0;
            hash = (hash ^ (is_whole ? 1u : 2u)) * 1099511628211u;
        }
    }
    return hash ? hash : 1;
}

/* Has control not been told these values apart from earlier ones? Then they are known now. */
static bool is_new(explorer *e) {
    uint64_t signature = signature_of(e);
    int at = (int)(signature & (SIGNATURES_MAX - 1));
    if (e->signature_count == SIGNATURES_MAX / 2) return false;
    for (; e->signatures[at]; at = (at + 1) & (SIGNATURES_MAX - 1)) {
        if (e->signatures[at] == signature) return false;
    }
    e->signatures[at] = signature;
    e->signature_count++;
    return true;
}

static bool has(const search_met *met, int outcome) {
    return met->words[outcome / 64] >> outcome % 64 & 1;
}

/* Measures the values that were started, and keeps what they are best at. */
static search_met measure(explorer *e, const extents_run *run) {
    search_goals *g = &e->s->goals;
    search_met met = search_measure(e->s);
    for (int i = 0; i < g->outcome_count; i++) {
        if (g->distances[i] >= e->nearest[i]) continue;
        e->nearest[i] = g->distances[i];
        e->nearest_runs[i] = *run;
    }
    return met;
}

static void keep(explorer *e, const extents_run *run, const search_met *met) {
    if (e->pool.count == POOL_MAX) return;
    candidate c = {*run, *met};
    list_push(e->s->memory, &e->pool, c);
    for (int w = 0; w < SEARCH_WORDS; w++) e->met.words[w] |= met->words[w];
}

/* --- all combinations of few values ----------------------------------------------------------- */

static bool next_combination(const extents *x, int *at) {
    for (int i = 0; i < x->variable_count; i++) {
        if (++at[i] < x->variables[i].combined_count) return true;
        at[i] = 0;
    }
    return false;
}

static void combine(explorer *e) {
    const extents *x = e->s->x;
    int at[EXTENTS_VARIABLES_MAX] = {0}, tried = 0;
    extents_run run = {0};
    do {
        for (int i = 0; i < x->variable_count; i++) {
            run.values[i] = x->variables[i].candidates[at[i]];
        }
        extents_values_start(e->s->values, &run);
        if (misfit(e) > 0 || !is_new(e)) continue;
        search_met met = measure(e, &run);
        keep(e, &run, &met);
    } while (e->pool.count < COMBINED_MAX && ++tried < 2 * SEARCH_COMBINATIONS_MAX &&
             next_combination(x, at));
}

/* --- one outcome ------------------------------------------------------------------------------ */

/* How far the values are from an outcome; what they meet on the way is kept. */
static double judge(explorer *e, extents_run *run, int outcome) {
    start(e, run);
    e->measures++;
    double wrong = misfit(e);
    if (wrong > 0) return 1000 + wrong;
    search_met met = measure(e, run);
    double distance = e->s->goals.distances[outcome];
    bool meets = false;
    for (int w = 0; w < SEARCH_WORDS; w++) meets |= (met.words[w] & ~e->met.words[w]) != 0;
    if (meets && is_new(e)) keep(e, run, &met);
    return distance;
}

typedef struct climb {
    explorer *e;
    int outcome, last; /* the latter: measures at which it is given up */
    extents_run run;
    double distance;
} climb;

static bool is_done(const climb *c) {
    return c->distance == 0 || c->e->measures >= c->last;
}

static bool improves(climb *c, int variable, int64_t value) {
    if (is_done(c) || value < -VALUE_MOST || value > VALUE_MOST) return false;
    if (value == c->run.values[variable]) return false;
    const tl_symbol *symbol = c->e->s->x->variables[variable].symbol;
    bool counts = symbol && symbol->kind != TL_SYMBOL_SCALAR; /* a length or an index of the grid */
    if (counts && value < 0) return false;
    extents_run trial = c->run;
    trial.values[variable] = value;
    double distance = judge(c->e, &trial, c->outcome);
    if (distance >= c->distance) return false;
    c->distance = distance;
    c->run = trial;
    return true;
}

/* Goes on in a direction that helps, in steps that double. */
static bool stride(climb *c, int variable, int64_t step) {
    bool moved = false;
    while (improves(c, variable, c->run.values[variable] + step)) {
        moved = true;
        if (step < VALUE_MOST && step > -VALUE_MOST) step *= 2;
    }
    return moved;
}

static bool change_one(climb *c, int variable, bool tries_all) {
    const search *s = c->e->s;
    const extents_variable *v = &s->x->variables[variable];
    bool moved = false;
    if (search_is_fixed(v)) return false;
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int g = 0; g < s->granule_count && !v->walk; g++) {
            moved |= stride(c, variable, sign * s->granules[g]);
        }
        moved |= stride(c, variable, sign);
    }
    for (int i = 0; i < v->candidate_count && tries_all && !moved; i++) {
        moved = improves(c, variable, v->candidates[i]);
    }
    return moved;
}

static uint64_t roll(explorer *e, int sides) {
    e->dice = e->dice * 6364136223846793005u + 1442695040888963407u;
    return (e->dice >> 33) % (uint64_t)sides;
}

/* Elsewhere: two variables get other values, or the same one, as `where q_len == kv_len` asks. */
static void shake(climb *c) {
    const extents *x = c->e->s->x;
    int64_t value = 0;
    for (int i = 0; i < 2; i++) {
        int at = (int)roll(c->e, x->variable_count);
        const extents_variable *v = &x->variables[at];
        bool repeats = i && roll(c->e, 2);
        if (search_is_fixed(v)) continue;
        if (!repeats) value = v->candidates[roll(c->e, v->candidate_count)];
        c->run.values[at] = value;
    }
    c->distance = judge(c->e, &c->run, c->outcome);
}

/* From another set in which control comes to the place: where a min or max keeps a single value
 * from having an effect, it may not there.
 */
static void start_elsewhere(climb *c) {
    enum { TRIES = 16 };
    explorer *e = c->e;
    for (int i = 0; i < TRIES && e->pool.count; i++) {
        c->run = e->pool.items[roll(e, e->pool.count)].run;
        c->distance = judge(e, &c->run, c->outcome);
        if (c->distance < 1) return;
    }
    shake(c);
}

static void climb_to(explorer *e, int point, int outcome, int measures) {
    e->s->goals.focus = point;
    climb c = {.e = e, .outcome = outcome, .run = e->nearest_runs[outcome]};
    int left = MEASURES_MAX - e->measures;
    c.last = e->measures + (left < measures ? left : measures);
    c.distance = judge(e, &c.run, outcome);
    for (int round = 0; !is_done(&c); round++) {
        climb best = c;
        if (round % 2) start_elsewhere(&c);
        else if (round) shake(&c);
        bool moves = true;
        while (moves && !is_done(&c)) {
            moves = false;
            for (int i = 0; i < e->s->x->variable_count; i++) moves |= change_one(&c, i, !round);
        }
        if (c.distance > best.distance) c = best;
    }
}

/* Must it be met for all steps to be run, and all loops more than once? */
static bool is_needed(const explorer *e, const search_point *p, int number) {
    bool repeats = p->step->kind == STEP_FOR && number == 2;
    if (p->choice || (number != 1 && !repeats)) return false;
    for (int k = number; k < p->count; k++) {
        if (has(&e->met, p->first + k)) return false;
    }
    return true;
}

static void climb_to_all(explorer *e, bool needed) {
    const search_goals *g = &e->s->goals;
    for (int i = 0; i < g->points.count && e->s->x->variable_count; i++) {
        const search_point *p = &g->points.items[i];
        for (int k = 0; k < p->count; k++) {
            if (has(&e->met, p->first + k) || is_needed(e, p, k) != needed) continue;
            /* How often a loop runs beside longer ones is of no account. */
            bool counts = p->step->kind == STEP_FOR && !p->choice;
            if (counts && !needed && e->most > e->s->x->steps) continue;
            if (e->measures < MEASURES_MAX)
                climb_to(e, i, p->first + k, needed ? MEASURES_OF_NEEDED : MEASURES_OF_ONE);
        }
    }
}

/* --- the choice ------------------------------------------------------------------------------- */

typedef struct selection {
    const explorer *e;
    search_met met, in_pairs; /* the latter: the outcomes whose pairs count */
    search_met *pairs;        /* by outcome: what was met beside it */
    bool *is_chosen;
    search_met all_ways; /* the outcomes beside which tables went through all ways */
    search_met mixed; /* the loops, by how often they ran, in which votes went through mixed ones */
    int patterns, sets;
    LIST(extents_run) runs;
} selection;

static int patterns_of(const extents *x) {
    enum { OF_VOTES = 4, OF_TABLES = 8 };
    const model *m = x->model;
    if (x->table_count) return OF_TABLES;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            if (m->roles[r].steps[i].depends_on_data) return OF_VOTES;
        }
    }
    return 1;
}

static void find_pairs(selection *c) {
    const search_goals *g = &c->e->s->goals;
    for (int i = 0; i < g->points.count; i++) {
        const search_point *p = &g->points.items[i];
        for (int k = 0; k < p->count && !p->choice && p->parent < 0; k++) {
            if (k > 2 && k < p->count - 1) continue;
            int outcome = p->first + k;
            c->in_pairs.words[outcome / 64] |= UINT64_C(1) << outcome % 64;
        }
    }
    c->pairs = arena_array(c->e->s->memory, search_met, g->outcome_count + 1);
}

static bool adds_outcome(const selection *c, const search_met *met) {
    for (int w = 0; w < SEARCH_WORDS; w++) {
        if (met->words[w] & ~c->met.words[w]) return true;
    }
    return false;
}

/* Does the set meet two outcomes at once that no earlier one met so? Notes them when 'notes'. */
static bool adds_pair(selection *c, const search_met *met, bool notes) {
    bool adds = false;
    for (int i = 0; i < c->e->s->goals.outcome_count; i++) {
        if (!has(met, i) || !has(&c->in_pairs, i)) continue;
        for (int w = 0; w < SEARCH_WORDS; w++) {
            uint64_t beside = met->words[w] & c->in_pairs.words[w];
            adds |= (beside & ~c->pairs[i].words[w]) != 0;
            if (notes) c->pairs[i].words[w] |= beside;
        }
    }
    return adds;
}

static void add_runs(selection *c, const candidate *chosen, int from, int to) {
    extents_run run = chosen->run;
    for (run.pattern = from; run.pattern < to; run.pattern++)
        list_push(c->e->s->memory, &c->runs, run);
}

/* Does a loop around the place run as often here as in no set that is noted; its longest, where
 * 'longest' asks for that, or at all? Notes it.
 */
static bool adds_loop(const selection *c, const search_point *place, const search_met *met,
                      bool longest, search_met *noted) {
    const search_goals *g = &c->e->s->goals;
    bool adds = false;
    for (int at = place->parent; at >= 0; at = g->points.items[at].parent) {
        const search_point *loop = &g->points.items[at];
        if (loop->step->kind != STEP_FOR) continue;
        for (int k = longest ? loop->count - 1 : 1; k >= 0 && k < loop->count; k++) {
            int outcome = loop->first + k;
            if (!has(met, outcome)) continue;
            adds |= !has(noted, outcome);
            noted->words[outcome / 64] |= UINT64_C(1) << outcome % 64;
        }
    }
    return adds;
}

/* The first sets, and of those in which a loop around a vote runs so often the first. */
static bool is_mixed(selection *c, const search_met *met) {
    const search_goals *g = &c->e->s->goals;
    bool adds = c->sets++ < MIXED_SETS;
    for (int i = 0; i < g->points.count; i++) {
        const search_point *p = &g->points.items[i];
        if (p->choice || p->step->kind != STEP_IF || !p->step->depends_on_data) continue;
        adds |= adds_loop(c, p, met, false, &c->mixed);
    }
    return adds;
}

static void choose(selection *c, int number) {
    const candidate *chosen = &c->e->pool.items[number];
    int few = c->patterns > 2 ? 2 : c->patterns;
    add_runs(c, chosen, 0, is_mixed(c, &chosen->met) ? c->patterns : few);
    c->is_chosen[number] = true;
    for (int w = 0; w < SEARCH_WORDS; w++) c->met.words[w] |= chosen->met.words[w];
    adds_pair(c, &chosen->met, true);
}

/* Does a loop in which a table is asked run its longest here, as in no set before? */
static bool adds_long_walk(selection *c, const search_met *met) {
    const explorer *e = c->e;
    const search_goals *g = &e->s->goals;
    bool adds = false;
    for (int i = 0; i < g->points.count; i++) {
        const search_point *p = &g->points.items[i];
        bool asks =
            p->asks_table || (!p->choice && p->step->kind == STEP_IF &&
                              extents_asks_table(e->s->x, p->step->statement->branch.condition));
        if (asks) adds |= adds_loop(c, p, met, true, &c->all_ways);
    }
    return adds;
}

/* Where tables decide from one iteration to the next, pipelines meet all ways of neighbours. */
static void choose_all_ways(selection *c) {
    const explorer *e = c->e;
    for (int i = 0; i < e->pool.count && e->s->x->table_count; i++) {
        const candidate *set = &e->pool.items[i];
        if (!adds_long_walk(c, &set->met)) continue;
        choose(c, i);
        add_runs(c, set, EXTENTS_PATTERNS_ALL, EXTENTS_PATTERNS_ALL + (1 << e->s->x->neighbours));
    }
}

static void choose_runs(explorer *e) {
    selection c = {.e = e, .patterns = patterns_of(e->s->x)};
    int added = 0;
    c.is_chosen = arena_array(e->s->memory, bool, e->pool.count + 1);
    find_pairs(&c);
    choose_all_ways(&c);
    int most = c.runs.count + RUNS_MAX;
    for (int i = 0; i < e->pool.count && c.runs.count + c.patterns <= most; i++) {
        if (!c.is_chosen[i]) choose(&c, i);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < e->pool.count && added < ADDED_SETS_MAX; i++) {
            const search_met *met = &e->pool.items[i].met;
            if (c.is_chosen[i] || !(pass ? adds_pair(&c, met, false) : adds_outcome(&c, met)))
                continue;
            choose(&c, i);
            added++;
        }
    }
    e->s->x->runs = c.runs.items;
    e->s->x->run_count = c.runs.count;
}

void search_run(search *s) {
    int outcomes = s->goals.outcome_count + 1;
    explorer e = {.s = s, .most = s->x->steps, .dice = 1};
    e.signatures = arena_array(s->memory, uint64_t, SIGNATURES_MAX);
    e.nearest = arena_array(s->memory, double, outcomes);
    e.nearest_runs = arena_array(s->memory, extents_run, outcomes);
    for (int i = 0; i < outcomes; i++) e.nearest[i] = INFINITY;
    s->goals.focus = -1;
    combine(&e);
    for (int pass = 0; pass < 2; pass++) {
        e.measures = 0;
        if (!e.pool.count) combine(&e); /* all loops may be longer than that */
        climb_to_all(&e, true);
        climb_to_all(&e, false);
        e.most = STEPS_LONG;
    }
    choose_runs(&e);
}
