/* Elements that come again in a later product of one sum, as those of a block that a list names
 * twice: they are rounded alike there as they would be in one product. What one product's operands
 * have in common errors_rounding.c sees; here is what a sum's earlier products had. A kernel whose
 * maximum stays where it is gives such elements one rounding, another one gives them several, so
 * what they add up to counts where it is more than what each makes alone.
 */
#include "interpret/errors_operand.h"

#include <math.h>
#include <string.h>

enum { SUMS_MOST = 16, NUMBERS_MOST = 1 << 22, ELEMENTS_MOST = 1 << 19, NONE = -1 };

typedef struct errors_past errors_past;

/* Vectors, one after the other. */
typedef struct numbers {
    double *items;
    int64_t count, capacity;
} numbers;

/* An element of one line. What it was multiplied by: at 'first' of the rows, where it was there
 * once, else their sum at 'sum' of the sums.
 */
typedef struct known_element {
    int64_t line, first, sum; /* NONE */
    int64_t place;            /* among the places of elements */
    float value;
} known_element;

/* Of one operand of one statement: what was added up since the sum began. */
struct errors_past {
    const tl_statement *of;
    bool is_left;
    int64_t id, lines, width;
    numbers rows, sums;
    known_element *elements;
    int64_t element_count, element_room;
    int64_t *places, place_count; /* of elements, by their hash: NONE where there is none */
};

static int64_t add_numbers(machine *m, numbers *to, const double *from, int64_t step,
                           int64_t count) {
    int64_t at = to->count;
    if (at + count > NUMBERS_MOST) return NONE;
    if (at + count > to->capacity) {
        int64_t room = to->capacity ? to->capacity : 1 << 12;
        while (room < at + count) room *= 2;
        double *grown = machine_block(m, (size_t)room, sizeof *grown);
        if (at) memcpy(grown, to->items, (size_t)at * sizeof *grown);
        to->items = grown, to->capacity = room;
    }
    for (int64_t i = 0; i < count; i++) to->items[at + i] = from[i * step];
    to->count += count;
    return at;
}

/* --- elements by line and value --------------------------------------------------------------- */

/* Where the element is in the table, or the free place for it. */
static int64_t place_of(const errors_past *s, int64_t line, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t hash = ((uint64_t)line << 32 ^ bits) * UINT64_C(0x9E3779B97F4A7C15);
    int64_t at = (int64_t)(hash >> 20) & (s->place_count - 1);
    for (;; at = (at + 1) & (s->place_count - 1)) {
        if (s->places[at] == NONE) return at;
        const known_element *e = &s->elements[s->places[at]];
        if (e->line == line && e->value == value) return at;
    }
}

static void grow(machine *m, errors_past *s) {
    int64_t room = s->element_room ? 2 * s->element_room : 1 << 10;
    known_element *elements = machine_block(m, (size_t)room, sizeof *elements);
    if (s->element_count)
        memcpy(elements, s->elements, (size_t)s->element_count * sizeof *elements);
    s->elements = elements, s->element_room = room;
    s->place_count = 2 * room;
    s->places = machine_block(m, (size_t)s->place_count, sizeof *s->places);
    for (int64_t i = 0; i < s->place_count; i++) s->places[i] = NONE;
    for (int64_t i = 0; i < s->element_count; i++) {
        elements[i].place = place_of(s, elements[i].line, elements[i].value);
        s->places[elements[i].place] = i;
    }
}

static known_element *find(const errors_past *s, int64_t line, float value) {
    int64_t at = s->element_room ? s->places[place_of(s, line, value)] : NONE;
    return at == NONE ? NULL : &s->elements[at];
}

/* One for which there is no room is not known, and counts as independent of all others. */
static void add_element(machine *m, errors_past *s, int64_t line, float value, int64_t first) {
    if (s->element_count == ELEMENTS_MOST) return;
    if (s->element_count == s->element_room) grow(m, s);
    int64_t at = place_of(s, line, value);
    s->places[at] = s->element_count;
    s->elements[s->element_count++] = (known_element){line, first, NONE, at, value};
}

/* --- one product ------------------------------------------------------------------------------ */

static const double *sum_of(const errors_past *s, const known_element *e) {
    return e->sum == NONE ? s->rows.items + e->first : s->sums.items + e->sum;
}

/* Of (sum + y)^2 what is neither the sum's square nor y's. */
static void add_together(const errors_past *s, const known_element *e, double variance,
                         const double *y, int64_t across, double *to, int64_t stride) {
    const double *sum = sum_of(s, e);
    for (int64_t t = 0; t < s->width; t++) to[t * stride] += 2 * variance * sum[t] * y[t * across];
}

static void add_to_sum(machine *m, errors_past *s, known_element *e, const double *y,
                       int64_t across) {
    if (e->sum == NONE) e->sum = add_numbers(m, &s->sums, s->rows.items + e->first, 1, s->width);
    if (e->sum == NONE) return;
    double *sum = s->sums.items + e->sum;
    for (int64_t t = 0; t < s->width; t++) sum[t] += y[t * across];
}

/* The line's elements with those of products before, then with one another for those after. */
static void add_line(machine *m, errors_past *s, const operand *o, const operand *by,
                     const meeting *of, int64_t line, int64_t rows, double *to, int64_t stride) {
    const double *x = o->t->data + line * of->line;
    for (int64_t k = 0; k < of->count; k++) {
        double value = x[k * of->step], off = 0;
        const known_element *e = isfinite(value) && value != 0 ? find(s, line, (float)value) : NULL;
        if (!e) continue;
        errors_of_rounding(m, &value, 1, &off);
        if (isfinite(off))
            add_together(s, e, off * off, by->t->data + k * of->along, of->across, to, stride);
    }
    for (int64_t k = 0; k < of->count; k++) {
        double value = x[k * of->step];
        if (!isfinite(value) || value == 0) continue;
        known_element *e = find(s, line, (float)value);
        if (e) add_to_sum(m, s, e, by->t->data + k * of->along, of->across);
        else add_element(m, s, line, (float)value, rows + k * s->width);
    }
}

/* The sum that the target holds, if this statement made all of it; else one that begins. */
static errors_past *sum_at(machine *m, const tl_statement *at, const tile *target, bool is_left,
                           const meeting *of, bool accumulates) {
    errors_past **kept = errors_past_of(m), *all = *kept;
    int i = 0;
    if (!all) *kept = all = machine_block(m, SUMS_MOST, sizeof *all);
    while (i < SUMS_MOST && all[i].of && (all[i].of != at || all[i].is_left != is_left)) i++;
    if (i == SUMS_MOST) return NULL;
    errors_past *s = &all[i];
    bool goes_on = accumulates && s->of && s->id == target->product && s->lines == of->lines &&
                   s->width == of->width;
    if (goes_on) return s;
    s->of = at, s->is_left = is_left;
    s->lines = of->lines, s->width = of->width;
    for (int64_t k = 0; k < s->element_count; k++) s->places[s->elements[k].place] = NONE;
    s->rows.count = s->sums.count = s->element_count = 0;
    return s;
}

void errors_add_repeated(machine *m, const tl_statement *at, const tile *target, int64_t id,
                         const operand *o, const operand *by, bool is_left, bool accumulates,
                         double *together) {
    meeting of = errors_meeting(o, by, is_left);
    errors_past *s = o->t->is_narrow ? NULL : sum_at(m, at, target, is_left, &of, accumulates);
    if (!s) return;
    s->id = id;
    int64_t rows = s->rows.count;
    for (int64_t k = 0; k < of.count; k++)
        if (add_numbers(m, &s->rows, by->t->data + k * of.along, of.across, of.width) == NONE) {
            s->rows.count = rows;
            return;
        }
    for (int64_t i = 0; i < of.lines; i++)
        add_line(m, s, o, by, &of, i, rows, together + (is_left ? i * of.width : i),
                 is_left ? 1 : of.lines);
}
