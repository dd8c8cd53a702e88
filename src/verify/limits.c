#include "verify/limits.h"

#include "verify/cases.h"
#include "verify/planted.h"
#include "verify/program.h"
#include "verify/random.h"

#include <math.h>
#include <string.h>

enum { FOUND_MOST = 16, DEPTH_MOST = 6, STREAM = 700 };

/* A condition without brackets around its sums: two sides, either of which may have the number. */
typedef struct condition {
    str left, right;
} condition;

/* What a sum comes to: the number so many times, and all else, with indices at their places. */
typedef struct sum {
    double times, rest;
} sum;

typedef struct limits {
    const case_data *data;
    str text; /* of the sketch */
    const planted *chains;
    const char *scalar;
    uint64_t turn, next;
    bool is_first_far; /* of two indices: which one is a key's */
    int index_count;
    str indices[2];
} limits;

static int64_t below(limits *l, int64_t count) {
    return (int64_t)random_below(l->data->of->draw.seed, STREAM + l->turn, l->next++,
                                 (uint64_t)count);
}

/* --- names ------------------------------------------------------------------------------------ */

/* What stands after "let NAME = " or ", NAME = ": empty if nothing does. */
static str definition_of(str text, str name) {
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        if (!str_starts(line, STR("let "))) continue;
        line = (str){line.data + 4, line.length - 4};
        while (line.length) {
            str one = str_trim(str_cut(&line, ','));
            str left = str_trim(str_cut(&one, '='));
            if (str_equal(left, name)) return str_trim(one);
        }
    }
    return (str){0};
}

/* A length that a table says is mostly the longest that it may be. */
static bool length_in_table(const limits *l, str definition, double *value) {
    const ftl_plan *plan = l->data->program->plan;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        size_t length = strlen(plan->tensors[t].name);
        bool is_it = definition.length > length && definition.data[length] == '[' &&
                     memcmp(definition.data, plan->tensors[t].name, length) == 0;
        if (!is_it || !cases_is_table(&plan->tensors[t])) continue;
        *value = cases_value(&plan->tensors[t].limit, l->data->of);
        return true;
    }
    return false;
}

static bool size_called(const limits *l, str name, double *value) {
    const ftl_plan *plan = l->data->program->plan;
    for (int32_t s = 0; s < plan->size_count; s++) {
        if (!str_is(name, plan->sizes[s].name)) continue;
        *value = (double)l->data->of->sizes[s];
        return true;
    }
    return false;
}

/* Is it the axis of queries of a chain that is planted? */
static bool is_row(const limits *l, str name) {
    for (int32_t i = 0; i < l->chains->count; i++) {
        const planted_matrix *m = &l->chains->chains[i].left;
        if (str_is(name, l->data->program->plan->tensors[m->tensor].axes[m->row].name)) return true;
    }
    return false;
}

/* One index has a place in a block past the first, the other one is that of a row of the first. */
static bool index_place(limits *l, str name, double *value) {
    enum { ROWS = 24, BLOCKS = 2 };
    int at = 0;
    while (at < l->index_count && !str_equal(l->indices[at], name)) at++;
    if (at == 2) return false;
    if (at == l->index_count) l->indices[l->index_count++] = name;
    int64_t block = l->data->of->draw.block > 0 ? l->data->of->draw.block : 1;
    bool is_far = l->chains->count ? !is_row(l, name) : (at == 0) == l->is_first_far;
    uint64_t seed = l->data->of->draw.seed, own = STREAM + l->turn;
    int64_t inside = (int64_t)random_below(seed, own, 1000 + (uint64_t)at, (uint64_t)block);
    int64_t which = (int64_t)random_below(seed, own, 2000 + (uint64_t)at, BLOCKS);
    *value = is_far ? (double)(block * (1 + which) + inside) : (double)(inside % ROWS);
    return true;
}

/* --- sums ------------------------------------------------------------------------------------- */

static bool add_sum(limits *l, str text, double sign, int depth, sum *to);

static bool add_name(limits *l, str name, double sign, int depth, sum *to) {
    double value;
    int64_t number;
    if (str_to_integer(name, &number)) {
        to->rest += sign * (double)number;
        return true;
    }
    for (size_t i = 0; i < name.length; i++)
        if (!str_is_word(name.data[i])) return false;
    if (!name.length) return false;
    if (str_is(name, l->scalar)) {
        to->times += sign;
        return true;
    }
    const ftl_plan *plan = l->data->program->plan;
    for (int32_t i = 0; i < plan->scalar_count; i++) /* another number is as if it were 0 */
        if (str_is(name, plan->scalars[i].name)) return true;
    str definition = definition_of(l->text, name);
    bool is_known = size_called(l, name, &value) || length_in_table(l, definition, &value);
    if (!is_known && definition.length)
        return depth < DEPTH_MOST && add_sum(l, definition, sign, depth + 1, to);
    if (!is_known && !index_place(l, name, &value)) return false;
    to->rest += sign * value;
    return true;
}

/* Names and numbers that are added and subtracted. */
static bool add_sum(limits *l, str text, double sign, int depth, sum *to) {
    double next = sign;
    while (text.length) {
        size_t end = 0;
        while (end < text.length && text.data[end] != '+' && text.data[end] != '-') end++;
        str part = str_trim((str){text.data, end});
        bool is_begun = part.length > 0;
        if (is_begun && !add_name(l, part, next, depth, to)) return false;
        if (end == text.length) return is_begun;
        next = text.data[end] == '-' ? -sign : sign;
        text = (str){text.data + end + 1, text.length - end - 1};
    }
    return false;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* Cuts a text after the next " and " or " or ". */
static str cut_test(str *rest) {
    for (size_t i = 0; i < rest->length; i++) {
        str here = {rest->data + i, rest->length - i};
        size_t word = str_starts(here, STR(" and ")) ? 5 : str_starts(here, STR(" or ")) ? 4 : 0;
        if (!word) continue;
        str test = {rest->data, i};
        *rest = (str){here.data + word, here.length - word};
        return test;
    }
    str test = *rest;
    *rest = (str){rest->data, 0};
    return test;
}

static bool split(str test, condition *out) {
    test = str_trim(test);
    if (str_starts(test, STR("not "))) test = (str){test.data + 4, test.length - 4};
    for (size_t i = 0; i < test.length; i++) {
        char c = test.data[i];
        if (c != '<' && c != '>' && c != '=' && c != '!') continue;
        size_t after = i + 1 < test.length && test.data[i + 1] == '=' ? i + 2 : i + 1;
        *out = (condition){str_trim((str){test.data, i}),
                           str_trim((str){test.data + after, test.length - after})};
        return true;
    }
    return false;
}

static int find(str text, condition *found) {
    int count = 0;
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        if (!str_starts(line, STR("Compute Mask "))) continue;
        size_t where = str_find(line, STR(" where ")) + 7;
        str rest = {line.data + where, where < line.length ? line.length - where : 0};
        while (rest.length && count < FOUND_MOST) {
            str test = cut_test(&rest);
            count += split(test, &found[count]);
        }
    }
    return count;
}

/* The number may be in a definition that the condition names. */
static bool solve(limits *l, const condition *c, double *value) {
    sum s = {0};
    l->index_count = 0, l->is_first_far = below(l, 2);
    if (!add_sum(l, c->left, 1, 0, &s) || !add_sum(l, c->right, -1, 0, &s)) return false;
    if (s.times == 0 || l->index_count == 0) return false;
    *value = floor(-s.rest / s.times);
    return fabs(*value) <= 1 << 24;
}

bool limits_inside_block(const case_data *data, const char *scalar, uint64_t turn, double *value) {
    condition found[FOUND_MOST];
    planted_turns turns = planted_find(data->program);
    limits l = {.data = data,
                .text = program_text(data->program),
                .chains = &turns.turns[data->of->turn % turns.count],
                .scalar = scalar,
                .turn = turn};
    int count = find(l.text, found), first = count ? (int)below(&l, count) : 0;
    for (int i = 0; i < count; i++)
        if (solve(&l, &found[(first + i) % count], value)) return true;
    return false;
}
