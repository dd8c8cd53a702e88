#include "verify/tables.h"

#include "base/number.h"
#include "verify/drawn.h"
#include "verify/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double no_scalars[64] = {0}; /* limits are made of sizes */

/* Every third place is nobody's, where there are that many. */
static int64_t place_below(const case_data *data, uint64_t stream, uint64_t at, int64_t limit) {
    int64_t place = (int64_t)random_below(data->seed, stream, at, (uint64_t)limit);
    if (data->of->draw.seed && limit > 0) {
        drawn_order order = drawn_order_of(data->of);
        if (order == DRAWN_RISING) return (int64_t)at % limit;
        if (order == DRAWN_FROM_END) return limit - 1 - (int64_t)at % limit;
    }
    return limit > 3 && place % 3 == 1 ? place - 1 : place;
}

/* The longest, none, one, and the sides of a tile come first, then any; from where, the case's
 * number says, so that one sequence has all of them by turns.
 */
static int64_t length_up_to(const case_data *data, uint64_t stream, uint64_t at, int64_t limit) {
    const verify_draw *d = &data->of->draw;
    if (d->seed && d->tables != DRAWN_MIXED) return drawn_length(data, stream, at, limit);
    const int64_t first[] = {limit, limit / 2 + 1, 1, 0, 64, 65, 63};
    uint64_t turn = at + (data->of->is_long ? 0 : (uint64_t)data->of->number);
    int64_t length = turn % 11 < 7
                         ? first[turn % 11]
                         : (int64_t)random_below(data->seed, stream, at, (uint64_t)limit + 1);
    return length < limit ? length : limit;
}

/* Stretches between 0 and the limit, some of them empty. */
static void starts(const case_data *data, uint64_t stream, int64_t row, int64_t count,
                   int64_t limit, double *values) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)at;
        int64_t left = limit - at, rest = count - 1 - i;
        if (rest <= 1) {
            at = limit;
        } else if (data->of->draw.seed && data->of->draw.tables != DRAWN_MIXED) {
            at += drawn_length(data, stream, (uint64_t)(row * count + i), left);
        } else if (random_below(data->seed, stream, (uint64_t)(row * count + i), 4)) {
            at += (int64_t)random_below(data->seed, stream + 1, (uint64_t)(row * count + i),
                                        (uint64_t)(2 * left / rest + 1));
            if (at > limit) at = limit;
        }
    }
}

/* Numbers that say nothing of where they are used: by turns few different ones, as kinds and marks
 * are, and lengths or places up to the longest axis. Each turn has two cases, so that both kinds of
 * inputs meet both.
 */
static int64_t any_number(const case_data *data, uint64_t stream, uint64_t at) {
    enum { KINDS = 4 };
    const verify_case *c = data->of;
    bool are_few = c->draw.seed ? c->draw.seed / 2 % 2 : c->number / 2 % 2 == 0;
    if (are_few) return (int64_t)random_below(data->seed, stream, at, KINDS);
    int64_t longest = KINDS;
    for (int32_t i = 0; i < data->program->plan->size_count; i++)
        if (c->sizes[i] > longest) longest = c->sizes[i];
    return length_up_to(data, stream, at, longest);
}

static void fill_row(const case_data *data, const buffer *table, uint64_t stream, int64_t row,
                     int64_t limit, double *values) {
    if (table->of->use == FTL_TABLE_STARTS) {
        starts(data, stream, row, table->columns, limit, values);
        return;
    }
    for (int64_t i = 0; i < table->columns; i++) {
        uint64_t at = (uint64_t)(row * table->columns + i);
        switch (table->of->use) {
        case FTL_TABLE_INDEX: values[i] = (double)place_below(data, stream, at, limit); break;
        case FTL_TABLE_UNKNOWN:
        case FTL_TABLE_LENGTH: values[i] = (double)length_up_to(data, stream, at, limit); break;
        default: values[i] = (double)any_number(data, stream, at);
        }
    }
}

/* Places that differ, in any order: the first 'count' of all of them, shuffled. */
static void fill_distinct(const case_data *data, buffer *table, uint64_t stream, int64_t limit,
                          arena *memory) {
    int64_t count = table->rows * table->columns;
    double *places = arena_array(memory, double, limit + 1);
    for (int64_t i = 0; i < limit; i++) places[i] = (double)i;
    for (int64_t i = 0; i < count; i++) {
        int64_t other =
            i + (int64_t)random_below(data->seed, stream, (uint64_t)i, (uint64_t)(limit - i));
        double place = places[other];
        places[other] = places[i], places[i] = place;
    }
    for (int64_t row = 0; row < table->rows; row++)
        buffer_store_row(table, row, places + row * table->columns);
}

static bool is_tried(const ftl_plan_tensor *of) {
    bool is_table = of->role == FTL_INPUT && of->type == FTL_I32;
    bool is_limited =
        of->use == FTL_TABLE_FREE || (of->use != FTL_TABLE_UNKNOWN && of->limit.step_count > 0);
    return is_table && !is_limited;
}

bool tables_are_tried(const ftl_plan *plan) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (is_tried(&plan->tensors[t])) return true;
    }
    return false;
}

/* A size of the program, or a part of one; at last nothing but 0. */
static int64_t tried_limit(const case_data *data, uint64_t position) {
    enum { ROUND = 6 };
    int32_t sizes = data->program->plan->size_count, attempt = data->attempt;
    if (sizes < 1 || attempt >= TABLES_ATTEMPTS - 1) return 0;
    uint64_t stream = 700 + position;
    int64_t size =
        data->of->sizes[random_below(data->seed, stream, (uint64_t)attempt, (uint64_t)sizes)];
    return size >> (attempt / ROUND);
}

bool tables_fill(const case_data *data, buffer *table, int32_t position, arena *memory,
                 char why[FTL_WHY_BYTES]) {
    const ftl_plan_tensor *of = table->of;
    double limit = 0;
    bool is_known = of->use == FTL_TABLE_FREE || is_tried(of) ||
                    ftl_formula_evaluate(&of->limit, data->of->sizes, no_scalars, &limit);
    if (!is_known) {
        snprintf(why, FTL_WHY_BYTES, "the limit '%s' of '%s' cannot be computed", of->limit.text,
                 of->name);
        return false;
    }
    if (is_tried(of)) limit = (double)tried_limit(data, (uint64_t)position);
    bool has_entries = table->rows > 0 && table->columns > 0;
    if (has_entries && of->use == FTL_TABLE_INDEX && limit < 1) {
        number_print(why, FTL_WHY_BYTES, "'%s' has entries, and nothing to name: %s = %.0f",
                     of->name, of->limit.text, limit);
        return false;
    }
    if (of->use == FTL_TABLE_STARTS && table->columns < 2 && limit > 0) {
        number_print(why, FTL_WHY_BYTES,
                     "'%s' has no room for a start and an end: %s = %.0f is nobody's", of->name,
                     of->limit.text, limit);
        return false;
    }
    int64_t count = table->rows * table->columns;
    if (of->is_distinct && (double)count > limit) {
        number_print(why, FTL_WHY_BYTES,
                     "'%s' says where results go, and has %.0f entries for %s = %.0f places",
                     of->name, (double)count, of->limit.text, limit);
        return false;
    }
    if (of->is_distinct) {
        fill_distinct(data, table, 500 + 2 * (uint64_t)position, (int64_t)limit, memory);
        return true;
    }
    double *values = arena_array(memory, double, table->columns + 1);
    for (int64_t row = 0; row < table->rows; row++) {
        fill_row(data, table, 500 + 2 * (uint64_t)position, row, (int64_t)fmax(limit, 0), values);
        buffer_store_row(table, row, values);
    }
    return true;
}

static bool names(const buffer *table, int64_t place) {
    double values[256];
    for (int64_t row = 0; row < table->rows; row++) {
        if (table->columns > 256) return true;
        buffer_load_row(table, row, values);
        for (int64_t i = 0; i < table->columns; i++) {
            if (values[i] == (double)place) return true;
        }
    }
    return false;
}

bool tables_reach(const case_data *data, const buffer *b, int64_t row) {
    const ftl_plan *plan = data->program->plan;
    int64_t index[FTL_AXES_MAX] = {0};
    buffer_row_index(b, row, index);
    for (int i = 0; i + 1 < b->argument.axis_count; i++) {
        bool is_named = false, has_table = false;
        for (int32_t t = 0; t < plan->tensor_count && !is_named; t++) {
            const ftl_plan_tensor *of = &plan->tensors[t]; /* its limit is a size alone */
            bool is_one = of->use == FTL_TABLE_INDEX && of->limit.step_count == 1 &&
                          of->limit.steps[0].op == FTL_PUSH_SIZE;
            if (!is_one || of->limit.steps[0].index != b->of->axes[i].size) continue;
            has_table = true;
            is_named = names(&data->tensors[t], index[i]);
        }
        if (has_table && !is_named) return false;
    }
    return true;
}
