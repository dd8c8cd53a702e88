/* waits_lengths [--runs N] [--seed N] TEXT...: do the waits, barriers and groups of kernels hold
 * for lengths that the checks did not choose?
 *
 * Of each TL Code that `check` accepts, N runs at drawn lengths, table elements and grid indices
 * are gone through by the same machine as the chosen ones; none may break a rule, and in none may
 * what was decided (check_sync) leave a Copy or Wait without a barrier or group wait that it needs,
 * or fill another slot than the next.
 */
#include "base/os.h"
#include "check/check.h"
#include "check/events.h"
#include "tl/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES_MAX = 1 << 30, TRIES = 20, GENERATIONS_MAX = 2048, GROUPS_MAX = 1 << 15 };

/* --- drawing ---------------------------------------------------------------------------------- */

static uint64_t dice;

static int64_t roll(int64_t sides) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((dice >> 33) % (uint64_t)sides);
}

/* Is it a launch that the conditions of Inputs and Outputs allow, with no negative length? */
static bool is_launch(const extents *x, extents_values *values) {
    const tl_kernel *kernel = x->model->kernel;
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        bool declares = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
        const tl_expr *condition = declares ? s->parameter.condition : NULL;
        int64_t value;
        if (condition && extents_integer(values, condition, &value) && !value) return false;
    }
    for (int i = 0; i < kernel->symbol_count; i++) {
        const tl_axes *axes = kernel->symbols[i]->axes;
        for (int k = 0; axes && k < axes->count; k++) {
            int64_t length;
            if (extents_integer(values, axes->items[k].extent, &length) && length < 0) return false;
        }
    }
    return true;
}

static bool draw(const extents *x, extents_values *values, extents_run *run) {
    *run = (extents_run){.pattern = (int)roll(4)};
    for (int i = 0; i < x->variable_count; i++) {
        const extents_variable *v = &x->variables[i];
        int64_t value = v->candidates[roll(v->candidate_count)];
        bool moves = roll(3) == 0 && v->uses != v->indexing && v->candidate_count > 1;
        run->values[i] = moves ? value + roll(9) - 4 : value;
        if (run->values[i] < 0 && v->symbol && v->symbol->kind != TL_SYMBOL_SCALAR)
            run->values[i] = 0;
    }
    extents_values_start(values, run);
    for (int i = 0; i < x->variable_count; i++) {
        int64_t count;
        if (!x->variables[i].walk || !extents_integer(values, x->variables[i].walk, &count))
            continue;
        run->values[i] = count > 0 ? run->values[i] % count : 0;
    }
    extents_values_start(values, run);
    return is_launch(x, values);
}

/* --- judging ---------------------------------------------------------------------------------- */

/* What one thread knows of a generation: the number of barriers when it landed and was released;
 * -1: it has not.
 */
typedef struct generation {
    int landed, released;
} generation;

static generation generations[MODEL_TILES_MAX][GENERATIONS_MAX];
static generation *groups[GROUPS_MAX]; /* what each brings; NULL: nothing */

typedef struct judge {
    const check_facts *facts;
    const model *model;
    const model_role *role;
    int last_release[MODEL_TILES_MAX];
    int next_wait[MODEL_TILES_MAX]; /* the generation that is to be waited for */
    int groups, landed, barriers;
    const events_record *waited[MODEL_TILES_MAX];
    int waited_count;
} judge;

static bool judge_fill(judge *j, const check_sync *sync, const events_record *e) {
    const model_tile *t = &j->model->tiles[e->tile];
    if (sync->barrier_before && !sync->is_warp_scope) j->barriers++;
    int before = e->generation - t->stages;
    bool good = before < 0 || generations[e->tile][before].released != j->barriers;
    for (int k = 0; k < t->partner_count; k++)
        good &= j->last_release[t->partners[k]] != j->barriers;
    int ahead = (e->generation - j->next_wait[e->tile]) % t->stages;
    good &= sync->slots_ahead < 0 || sync->slots_ahead == ahead;
    generation *g = &generations[e->tile][e->generation];
    *g = (generation){.landed = sync->commits ? -1 : j->barriers, .released = -1};
    if (sync->commits) groups[j->groups++] = g;
    return good;
}

static void land(judge *j, int pending) {
    for (; j->landed < j->groups - pending; j->landed++) {
        generation *g = groups[j->landed];
        if (g) g->landed = j->barriers;
    }
}

static bool judge_wait(judge *j, const check_sync *sync, const events_record *e) {
    bool good = true;
    j->waited[j->waited_count++] = e;
    if (e->generation >= j->next_wait[e->tile]) j->next_wait[e->tile] = e->generation + 1;
    if (sync->joins_next_wait) return true;
    if (sync->groups_pending >= 0) land(j, sync->groups_pending);
    for (int i = 0; i < j->waited_count; i++) {
        const generation *g = &generations[j->waited[i]->tile][j->waited[i]->generation];
        good &= g->landed >= 0 && (g->landed != j->barriers || sync->barrier_before);
    }
    j->waited_count = 0;
    if (sync->barrier_before && !sync->is_warp_scope) j->barriers++;
    return good;
}

/* The first record that lacks something; NULL: none does. */
static const events_record *judge_trace(judge *j, const events_trace *trace) {
    memset(generations, 0, (size_t)j->model->tile_count * sizeof generations[0]);
    for (int t = 0; t < j->model->tile_count; t++) j->last_release[t] = -1, j->next_wait[t] = 0;
    j->groups = j->landed = j->barriers = j->waited_count = 0;
    for (int i = 0; i < trace->count; i++) {
        const events_record *e = &trace->records[i];
        for (int k = 0; e->kind == EVENT_SKIP && k < e->generation && j->groups < GROUPS_MAX; k++)
            groups[j->groups++] = NULL;
        if (e->tile < 0 || j->model->tiles[e->tile].uses_mbarrier) continue;
        const check_sync *sync = check_sync_of(j->facts, j->role->steps[e->step].statement);
        bool good = true;
        if (e->generation >= GENERATIONS_MAX || j->groups >= GROUPS_MAX) return NULL;
        if (e->kind == EVENT_FILL) good = judge_fill(j, sync, e);
        if (e->kind == EVENT_WAIT) good = judge_wait(j, sync, e);
        if (e->kind == EVENT_RELEASE) {
            generations[e->tile][e->generation].released = j->barriers;
            j->last_release[e->tile] = j->barriers;
        }
        if (!good) return e;
    }
    return NULL;
}

/* --- a text ----------------------------------------------------------------------------------- */

typedef struct subject {
    const char *file;
    str source;
    const check_facts *facts;
    extents *x;
    arena *memory;
} subject;

static void tell(const subject *s, const tl_statement *at, const char *what) {
    int line = 1;
    for (uint32_t i = 0; at && i < at->range.begin; i++) line += s->source.data[i] == '\n';
    fprintf(stderr, "%s:%d: %s where", s->file, at ? line : 0, what);
    for (int i = 0; i < s->x->variable_count; i++) {
        const tl_symbol *symbol = s->x->variables[i].symbol;
        str name = symbol ? symbol->name : STR("an element");
        fprintf(stderr, " %.*s = %lld", STR_ARGS(name), (long long)s->x->runs[0].values[i]);
    }
    fprintf(stderr, ", pattern %d\n", s->x->runs[0].pattern);
}

/* Goes through the run that s->x holds. */
static bool holds(const subject *s) {
    const model *m = s->facts->model;
    events_result events = events_run(s->memory, m, s->x);
    judge j = {.facts = s->facts, .model = m};
    for (int i = 0; i < events.finding_count; i++) {
        events_fault fault = events.findings[i].fault;
        if (fault == FAULT_TOO_LONG) return true;
        if (fault == FAULT_UNREACHED) continue;
        tell(s, events.findings[i].at, "a rule is broken");
        return false;
    }
    for (int i = 0; i < events.trace_count; i++) {
        j.role = &m->roles[events.traces[i].role];
        const events_record *e = judge_trace(&j, &events.traces[i]);
        if (!e) continue;
        tell(s, j.role->steps[e->step].statement,
             "a barrier or group wait is missing, or the slot is another one,");
        return false;
    }
    return true;
}

/* -1: it is no TL Code that the checks accept. */
static int judge_text(const char *file, str source, int runs, arena *memory) {
    diag_list diags;
    check_facts facts;
    diag_init(&diags, memory, STR("text"), source);
    tl_program *program = tl_parse(memory, STR("text"), source, &diags);
    if (diag_has_errors(&diags) || !tl_bind(program, &diags)) return -1;
    int tried = 0;
    for (tl_kernel *k = program->first; k; k = k->next) {
        if (!check_code(k, NULL, memory, &diags, &facts)) return -1;
        subject s = {file, source, &facts, extents_choose(memory, facts.model), memory};
        extents_values *values = extents_values_new(memory, s.x);
        extents_run run;
        s.x->runs = &run;
        s.x->run_count = 1;
        for (int i = 0; i < runs * TRIES && tried < runs; i++) {
            if (!draw(s.x, values, &run)) continue;
            tried++;
            if (!holds(&s)) return -2;
        }
    }
    return tried;
}

int main(int count, char **arguments) {
    int runs = 100, failed = 0, tried = 0, texts = 0;
    for (int i = 1; i < count; i++) {
        bool has_value = i + 1 < count;
        if (has_value && !strcmp(arguments[i], "--runs")) {
            runs = atoi(arguments[++i]);
            continue;
        }
        if (has_value && !strcmp(arguments[i], "--seed")) {
            dice = (uint64_t)atoi(arguments[++i]);
            continue;
        }
        arena memory;
        text_buffer source;
        os_error why;
        arena_init(&memory, MEMORY_BYTES_MAX);
        text_init(&source, TL_SOURCE_BYTES_MAX);
        if (!os_read_file(arguments[i], TL_SOURCE_BYTES_MAX, &source, &why)) return 2;
        int result = judge_text(arguments[i], text_str(&source), runs, &memory);
        if (result == -1) fprintf(stderr, "%s: is refused\n", arguments[i]);
        failed += result < 0;
        texts++;
        tried += result > 0 ? result : 0;
        text_done(&source);
        arena_done(&memory);
    }
    printf("%d texts, %d runs at drawn lengths, %d failed\n", texts, tried, failed);
    return failed || !tried;
}
