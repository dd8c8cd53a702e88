/* Tables that loops walk, and that decide: which blocks a loop leaves out, say, or how often a loop
 * inside it runs.
 *
 * An `if` on an element that a loop walks goes one way in this iteration and another way in the
 * next, and what one iteration copies ahead the next one waits for. So each element of such a table
 * has a value of its own, the same wherever it is read: it follows from the run's pattern, the
 * table, and the numbers that the element's indices have there. All elements of the table are such,
 * those too that no loop walks, since `T[0]` may stand ahead of the loop that reads `T[j]`.
 */
#include "check/extents_search.h"
#include "tl/tl.h"

typedef struct found_elements {
    search *s;
    LIST(const tl_expr *) elements, comparisons, bounds;
} found_elements;

static bool is_comparison(tl_operator o) {
    return o == TL_LESS || o == TL_LESS_EQUAL || o == TL_GREATER || o == TL_GREATER_EQUAL ||
           o == TL_EQUAL || o == TL_NOT_EQUAL;
}

static bool note_element(void *context, const tl_expr *e) {
    found_elements *f = context;
    if (search_is_in_memory(e)) list_push(f->s->memory, &f->elements, e);
    if (e->kind == TL_BINARY && is_comparison(e->operator))
        list_push(f->s->memory, &f->comparisons, e);
    return true;
}

const extents_table *extents_table_of(const extents *x, const tl_expr *e) {
    for (int i = 0; i < x->table_count && search_is_in_memory(e); i++)
        if (x->tables[i].symbol == e->symbol) return &x->tables[i];
    return NULL;
}

static bool finds_no_table(void *context, const tl_expr *e) {
    return !extents_table_of(context, e);
}

bool extents_asks_table(const extents *x, const tl_expr *e) {
    return x->table_count &&
           !model_visit_lets(x->model, e, false, finds_no_table, (void *)(uintptr_t)x);
}

static bool is_measure(const extents *x, const tl_symbol *symbol) {
    for (int i = 0; i < x->measure_count; i++)
        if (x->measures[i] == symbol) return true;
    return false;
}

static bool finds_no_choice(void *context, const tl_expr *e) {
    const extents *x = context;
    return !search_is_in_memory(e) || is_measure(x, e->symbol);
}

bool extents_chooses(const extents *x, const tl_expr *e) {
    return extents_asks_table(x, e) ||
           !model_visit_lets(x->model, e, false, finds_no_choice, (void *)(uintptr_t)x);
}

/* --- which tables ----------------------------------------------------------------------------- */

static void add_table(search *s, const tl_expr *element) {
    extents *x = s->x;
    bool is_walked = false;
    for (int i = 0; i < element->item_count; i++)
        is_walked |= search_follows_loop(s, element->items[i]);
    if (!is_walked || extents_table_of(x, element)) return;
    if (x->table_count == EXTENTS_TABLES_MAX) {
        x->is_cut = true;
        return;
    }
    x->tables[x->table_count++] = (extents_table){.symbol = element->symbol};
}

/* --- which values ----------------------------------------------------------------------------- */

static void add_value(extents_table *t, int64_t value) {
    int at = 0;
    while (at < t->value_count && t->values[at] < value) at++;
    if (at < t->value_count && t->values[at] == value) return;
    if (t->value_count == EXTENTS_TABLE_VALUES_MAX) return;
    for (int i = t->value_count++; i > at; i--) t->values[i] = t->values[i - 1];
    t->values[at] = value;
}

/* What a name stands for, where it is one that a let gives. */
static const tl_expr *without_lets(const tl_expr *e) {
    for (int deep = 0; deep < TL_HEIGHT_MAX && e->kind == TL_NAME && e->symbol; deep++) {
        const tl_symbol *s = e->symbol;
        if (s->kind != TL_SYMBOL_CONSTANT || s->is_known || !s->value) break;
        e = s->value;
    }
    return e;
}

/* Both sides of a comparison with a number. */
static void add_values_around(extents *x, const tl_expr *element, tl_operator comparison,
                              const tl_expr *other) {
    const tl_expr *meant = without_lets(element);
    extents_table *t = (extents_table *)(uintptr_t)extents_table_of(x, meant);
    int64_t number;
    if (!t) {
        bool calculates = extents_asks_table(x, element);
        for (int i = 0; i < x->table_count && calculates; i++) x->tables[i].is_open = true;
        return;
    }
    if (!tl_known_integer(other, &number) || number < -EXTENTS_FAR || number > EXTENTS_FAR) {
        t->is_open = true;
        return;
    }
    bool below = comparison == TL_LESS || comparison == TL_GREATER_EQUAL;
    add_value(t, number);
    add_value(t, below ? number - 1 : number + 1);
    t->compared++;
}

/* What is compared with more than a number, or calculated with, has small values and a large one,
 * if no loop runs so often.
 */
static void add_open_values(extents_table *t) {
    enum { SMALL = 4 };
    for (int i = 0; i < SMALL; i++) add_value(t, i);
    if (!t->is_bound) add_value(t, EXTENTS_FAR);
}

/* --- tables that bound loops ------------------------------------------------------------------ */

typedef struct bounding {
    extents *x;
    const tl_expr *bound;
} bounding;

/* What a bound is divided by, which is how many elements one iteration more needs. */
static bool add_values_of_blocks(void *context, const tl_expr *e) {
    enum { BLOCKS = 3 };
    const bounding *b = context;
    int64_t divisor;
    bool divides = e->kind == TL_BINARY && e->operator== TL_OVER;
    if (!divides || !tl_known_integer(e->right, &divisor) || divisor < 2 || divisor > EXTENTS_FAR)
        return true;
    for (int i = 0; i < b->x->table_count; i++) {
        extents_table *t = &b->x->tables[i];
        if (!t->is_bound) continue;
        for (int k = 1; k <= BLOCKS; k++) add_value(t, k * divisor + k % 2);
    }
    return true;
}

/* A loop runs as often as an element says, another number of times each time it is come to. */
static void add_values_of_bounds(const found_elements *f) {
    extents *x = f->s->x;
    for (int i = 0; i < f->bounds.count; i++) {
        bounding b = {x, f->bounds.items[i]};
        if (extents_asks_table(x, b.bound))
            model_visit_lets(x->model, b.bound, false, add_values_of_blocks, &b);
    }
}

static bool note_bound(void *context, const tl_expr *e) {
    extents_table *t = (extents_table *)(uintptr_t)extents_table_of(context, e);
    if (t) t->is_bound = t->is_open = true;
    return true;
}

static void find_elements(found_elements *f) {
    const model *m = f->s->x->model;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_IF)
                model_visit_lets(m, step->statement->branch.condition, false, note_element, f);
            if (step->kind != STEP_FOR) continue;
            list_push(f->s->memory, &f->bounds, step->statement->loop.from);
            list_push(f->s->memory, &f->bounds, step->statement->loop.to);
        }
    }
    for (int i = 0; i < f->bounds.count; i++)
        model_visit_lets(m, f->bounds.items[i], false, note_element, f);
}

static bool note_measure(void *context, const tl_expr *e) {
    extents *x = context;
    bool is_room = x->measure_count < EXTENTS_MEASURES_MAX;
    if (search_is_in_memory(e) && is_room && !is_measure(x, e->symbol))
        x->measures[x->measure_count++] = e->symbol;
    return true;
}

/* What says how long axes are, and how often loops run. */
static void find_measures(extents *x) {
    const model *m = x->model;
    for (int i = 0; i < m->kernel->symbol_count; i++) {
        const tl_axes *axes = m->kernel->symbols[i]->axes;
        for (int k = 0; axes && k < axes->count; k++)
            model_visit_lets(m, axes->items[k].extent, false, note_measure, x);
    }
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind != STEP_FOR) continue;
            model_visit_lets(m, step->statement->loop.from, false, note_measure, x);
            model_visit_lets(m, step->statement->loop.to, false, note_measure, x);
        }
    }
}

void search_find_tables(search *s) {
    found_elements f = {.s = s};
    extents *x = s->x;
    find_measures(x);
    find_elements(&f);
    for (int i = 0; i < f.elements.count; i++) add_table(s, f.elements.items[i]);
    for (int i = 0; i < f.elements.count; i++) {
        extents_table *t = (extents_table *)(uintptr_t)extents_table_of(x, f.elements.items[i]);
        if (t) t->uses++;
    }
    for (int i = 0; i < f.comparisons.count; i++) {
        const tl_expr *e = f.comparisons.items[i];
        add_values_around(x, e->left, e->operator, e->right);
        add_values_around(x, e->right, tl_turned(e->operator), e->left);
    }
    for (int i = 0; i < f.bounds.count; i++)
        model_visit_lets(x->model, f.bounds.items[i], false, note_bound, x);
    add_values_of_bounds(&f);
    for (int i = 0; i < x->table_count; i++) {
        extents_table *t = &x->tables[i];
        if (t->is_open || t->compared < t->uses || t->value_count < 2) add_open_values(t);
    }
}

/* --- the value of an element ------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* Patterns 0 and 1 give all elements the lowest and the highest value. Those of
 * EXTENTS_PATTERNS_ALL go through all ways of as many neighbours as a pipeline looks at, in lower
 * and higher values; the others are mixed.
 */
static int64_t choose_value(const extents *x, const extents_run *run, const extents_table *t,
                            uint64_t place, int64_t sum) {
    int number = (int)(t - x->tables), count = t->value_count;
    if (run->pattern < 2) return run->pattern ? t->values[count - 1] : t->values[0];
    uint64_t hash = mix(mix((uint64_t)run->pattern, (uint64_t)number), place);
    int ways = run->pattern - EXTENTS_PATTERNS_ALL;
    if (ways < 0) return t->values[hash % (uint64_t)count];
    int64_t at = sum % x->neighbours;
    if (at < 0) at += x->neighbours;
    uint64_t bits = number ? mix((uint64_t)ways, (uint64_t)number) : (uint64_t)ways;
    int half = count / 2;
    return bits >> at & 1 ? t->values[half + (int)(hash % (uint64_t)(count - half))]
                          : t->values[hash % (uint64_t)half];
}

bool extents_table_value(extents_values *v, const extents_table *t, const tl_expr *e,
                         int64_t *value) {
    uint64_t place = 0;
    int64_t sum = 0, index;
    for (int i = 0; i < e->item_count; i++) {
        if (!extents_integer(v, e->items[i], &index)) return false;
        place = mix(place, (uint64_t)index);
        sum = (int64_t)((uint64_t)sum + (uint64_t)index);
    }
    *value = choose_value(v->extents, v->run, t, place, sum);
    return true;
}
