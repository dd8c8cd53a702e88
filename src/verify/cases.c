/* Which cases there are. The list depends on the plan and on 'shapes' alone, so that a case's
 * number names it in a command.
 */
#include "verify/cases.h"

#include "base/number.h"
#include "verify/conditions.h"
#include "verify/drawn.h"
#include "verify/plan_find.h"
#include "verify/planted.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES_MAX = 100000, SIZE_MOST = 1 << 24 };

/* Lengths of queries and of keys: lists of lengths then mean pairs of them. */
static bool has_pair(const listing *l) {
    return l->q_len >= 0 && l->kv_len >= 0;
}

/* --- cost ------------------------------------------------------------------------------------- */

/* The lengths known from the plan alone (head dimensions), each name once. */
double cases_fixed_lengths(const ftl_plan *plan) {
    double sum = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            const ftl_plan_axis *axis = &plan->tensors[t].axes[i];
            if (axis->extent.step_count != 1 || axis->extent.steps[0].op != FTL_PUSH_INTEGER)
                continue;
            bool is_again = false;
            for (int32_t s = 0; s < t; s++) {
                for (int32_t k = 0; k < plan->tensors[s].axis_count; k++) {
                    is_again |= strcmp(plan->tensors[s].axes[k].name, axis->name) == 0;
                }
            }
            if (!is_again) sum += (double)axis->extent.steps[0].integer;
        }
    }
    return sum > 0 ? sum : 1;
}

int64_t cases_tile(const listing *l, int32_t size) {
    int64_t tile = 64;
    inputs_tiles(l->plan, size, &tile, 1);
    return tile;
}

double cases_value(const ftl_formula *formula, const verify_case *c) {
    static const double ones[64] = {0};
    double value;
    return ftl_formula_evaluate(formula, c->sizes, ones, &value) && value > 0 ? value : 0;
}

double cases_elements(const ftl_plan *plan, const verify_case *c) {
    double sum = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        double product = 1;
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++)
            product *= cases_value(&plan->tensors[t].axes[i].extent, c);
        sum += product;
    }
    return sum;
}

/* The name of an axis of a tensor that is so long; NULL: none. 'but' is another one. */
static const char *axis_of_length(const ftl_plan_tensor *tensor, int32_t size, const char *but) {
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        const ftl_plan_axis *axis = &tensor->axes[i];
        const ftl_formula_step *step = axis->extent.steps;
        bool is_so_long =
            axis->extent.step_count == 1 && step->op == FTL_PUSH_SIZE && step->index == size;
        if (is_so_long && !(but && strcmp(but, axis->name) == 0)) return axis->name;
    }
    return NULL;
}

/* Whether two axes of different names meet that are so long: those of one tensor, or one that is
 * written with one that is read, as queries and keys of one sequence. What a table of integers has
 * is looked up, not multiplied.
 */
static bool is_length_of_two(const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *one = &plan->tensors[t];
        const char *first = one->type == FTL_I32 ? NULL : axis_of_length(one, size, NULL);
        if (!first) continue;
        if (axis_of_length(one, size, first)) return true;
        for (int32_t o = 0; one->role == FTL_OUTPUT && o < plan->tensor_count; o++) {
            const ftl_plan_tensor *other = &plan->tensors[o];
            if (other->type != FTL_I32 && axis_of_length(other, size, first)) return true;
        }
    }
    return false;
}

/* Kernels work on whole tiles: a single query costs as much as a block of them. */
static double tiled(const listing *l, const verify_case *c, int32_t size) {
    int64_t tile = 1;
    if (has_pair(l) && size == l->kv_heads) return 1; /* q_heads counts */
    inputs_known_tiles(l->plan, size, &tile, 1);
    double whole = (double)((c->sizes[size] + tile - 1) / tile * tile);
    return whole * (is_length_of_two(l->plan, size) ? whole : 1);
}

static bool has_size(const ftl_plan_tensor *tensor, int32_t size) {
    return axis_of_length(tensor, size, NULL) != NULL;
}

static int32_t first_of_matrix(const ftl_plan_tensor *tensor) {
    return tensor->axis_count > 2 ? tensor->axis_count - 2 : 0;
}

/* What counts matrices (a batch, a head) is no axis of a product. */
bool cases_do_meet(const ftl_plan_tensor *one, const ftl_plan_tensor *other) {
    if (one->type == FTL_I32 || other->type == FTL_I32) return false;
    for (int32_t a = first_of_matrix(one); a < one->axis_count; a++)
        for (int32_t b = first_of_matrix(other); b < other->axis_count; b++)
            if (!strcmp(one->axes[a].name, other->axes[b].name)) return true;
    return false;
}

/* Tensors are multiplied two by two, over the axes that the two have. */
static double count_by_pairs(const listing *l, const verify_case *c) {
    double sum = 0;
    for (int32_t i = 0; i < l->plan->tensor_count; i++)
        for (int32_t k = 0; k < i; k++) {
            const ftl_plan_tensor *one = &l->plan->tensors[i], *other = &l->plan->tensors[k];
            double product = 2;
            for (int32_t s = 0; s < l->plan->size_count; s++)
                if (has_size(one, s) || has_size(other, s)) product *= tiled(l, c, s);
            if (cases_do_meet(one, other)) sum += product;
        }
    return sum;
}

/* At most: all lengths meet. Where a program has several loops, its lengths do not. */
double cases_flops(const listing *l, const verify_case *c) {
    double product = 2;
    if (cases_have_tables(l->plan)) return cases_table_flops(l, c);
    for (int32_t i = 0; i < l->plan->size_count; i++) product *= tiled(l, c, i);
    double pairs = count_by_pairs(l, c);
    return (pairs > 0 && pairs < product ? pairs : product) * cases_fixed_lengths(l->plan);
}

/* --- programs with lengths of queries and keys ------------------------------------------------ */

/* Scalars are chosen to fit. */
bool cases_solve(const listing *l, uint64_t seed, int32_t kept, verify_case *c) {
    double ones[64];
    bool is_pinned[VERIFY_SIZES_MAX] = {false};
    for (int i = 0; i < 64; i++) ones[i] = 1;
    if (kept >= 0) is_pinned[kept] = true;
    if (has_pair(l)) is_pinned[l->q_len] = is_pinned[l->kv_len] = true;
    for (int32_t i = 0; i < l->program->pin_count; i++) {
        int32_t size = plan_find_size(l->plan, l->program->pins[i].name);
        if (size >= 0) is_pinned[size] = true;
    }
    return conditions_solve(l->plan, seed, &(conditions_values){c->sizes, ones, is_pinned});
}

static bool is_allowed(const listing *l, const verify_case *c) {
    double ones[64];
    for (int i = 0; i < 64; i++) ones[i] = 1;
    return conditions_hold(l->plan, c->sizes, ones);
}

/* Head counts by turns: as many, grouped, one; 64 on 8 where that is cheap. The next ones that the
 * program allows (a multi-query kernel has one key head).
 */
static void choose_heads(const listing *l, int32_t turn, verify_case *c) {
    static const int64_t counts[][2] = {{6, 6}, {6, 2}, {6, 1}, {64, 8}};
    static const int64_t few[][2] = {{2, 1}, {2, 2}};
    int64_t scores = c->sizes[l->q_len] * c->sizes[l->kv_len];
    bool is_large = scores >= 1 << 20;
    bool is_cheap = scores <= 4096 && c->sizes[l->q_len] + c->sizes[l->kv_len] <= 260;
    int kinds = is_large ? 2 : is_cheap ? 4 : 3;
    if (l->batch >= 0) c->sizes[l->batch] = is_large ? 1 : 1 + turn % 3;
    for (int i = 0; i < kinds; i++) {
        const int64_t *heads = is_large ? few[(turn + i) % kinds] : counts[(turn + i) % kinds];
        if (l->q_heads >= 0) c->sizes[l->q_heads] = heads[0];
        if (l->kv_heads >= 0) c->sizes[l->kv_heads] = heads[1];
        if (is_allowed(l, c)) return;
    }
}

static void put_case(listing *l, verify_case c) {
    c.number = l->next++;
    c.flops = cases_flops(l, &c);
    if (l->flops_most > 0 && c.flops > l->flops_most) return;
    if (l->cases.count < CASES_MAX) list_push(l->memory, &l->cases, c);
}

/* The sizes that the user fixed. */
void cases_pin(const listing *l, verify_case *c) {
    for (int32_t i = 0; i < l->program->pin_count; i++) {
        int32_t size = plan_find_size(l->plan, l->program->pins[i].name);
        int64_t value;
        bool is_length = size >= 0 && str_to_integer(str_from(l->program->pins[i].value), &value);
        if (is_length && value >= 0 && value <= SIZE_MOST) c->sizes[size] = value;
    }
}

void cases_add(listing *l, verify_case c) {
    cases_pin(l, &c);
    if (!is_allowed(l, &c)) cases_solve(l, (uint64_t)l->next, -1, &c);
    put_case(l, c);
}

void cases_add_in_turn(listing *l, verify_case c) {
    c.layout = (verify_layout)(l->next % 4);
    cases_add(l, c);
}

/* Sizes that nothing below sets: head dimensions that a sketch leaves open. */
verify_case cases_blank(const listing *l) {
    verify_case c = {0};
    for (int32_t i = 0; i < l->plan->size_count; i++) c.sizes[i] = 24;
    return c;
}

/* A pair with normal inputs, and 'plants' times with a dominant key elsewhere. */
static void add_pair(listing *l, int64_t q, int64_t kv, int plants) {
    bool has_keys = l->has_values && q > 0 && kv > 0;
    int32_t turn = l->next;
    for (int i = 0; i <= (has_keys ? plants : 0); i++, turn++) {
        verify_case c = cases_blank(l);
        c.sizes[l->q_len] = q, c.sizes[l->kv_len] = kv;
        choose_heads(l, turn, &c);
        c.layout = (verify_layout)((turn + turn / 4) % 4);
        c.input = i ? VERIFY_DOMINANT : VERIFY_NORMAL;
        c.plant = i ? turn : 0;
        c.turn = turn % l->chains.count;
        cases_add(l, c);
    }
}

/* What a softmax over several blocks of keys has to keep up with. */
static void add_climbing(listing *l, int64_t q, int64_t kv) {
    if (!l->has_values || q == 0) return;
    verify_case c = cases_blank(l);
    int32_t turn = l->next;
    c.sizes[l->q_len] = q, c.sizes[l->kv_len] = kv;
    choose_heads(l, turn, &c);
    c.layout = (verify_layout)(turn % 4);
    c.input = VERIFY_CLIMBING;
    c.turn = turn % l->chains.count;
    c.plant = turn % 2;
    cases_add(l, c);
}

static void add_pairs(listing *l, bool is_all) {
    enum { SMALL, ALL };
    enum { TILE_MARK = 1 << 30 };
#define TILE(k) (TILE_MARK + (k))
    static const struct {
        int64_t q, kv;
        int level;
    } pairs[] = {
#define PAIR(q, kv, level) {q, kv, level},
#include "verify/cases.def"
    };
#undef TILE
    int64_t q_tile = cases_tile(l, l->q_len), kv_tile = cases_tile(l, l->kv_len);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].level == ALL && !is_all) continue;
        int64_t q = pairs[i].q, kv = pairs[i].kv;
        if (q >= TILE_MARK / 2) q = q - TILE_MARK + q_tile;
        if (kv >= TILE_MARK / 2) kv = kv - TILE_MARK + kv_tile;
        add_pair(l, q, kv, is_all ? 3 : 1);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bool is_long = pairs[i].kv < TILE_MARK / 2 && pairs[i].kv > kv_tile;
        if (is_long && (pairs[i].level == SMALL || is_all))
            add_climbing(l, pairs[i].q, pairs[i].kv);
    }
    if (l->batch < 0) return;
    verify_case none = cases_blank(l);
    none.sizes[l->q_len] = none.sizes[l->kv_len] = 64;
    choose_heads(l, 0, &none);
    none.sizes[l->batch] = 0;
    cases_add(l, none);
}

/* --- shapes in words -------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    number_print_list(why, FTL_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* "q_len, kv_len": what the numbers of a shape may stand for. */
static void list_sizes(const listing *l, char *out, size_t capacity) {
    size_t length = 0;
    *out = 0;
    for (int32_t i = 0; i < l->plan->size_count && length < capacity; i++) {
        int wrote =
            snprintf(out + length, capacity - length, "%s%s", i ? "x" : "", l->plan->sizes[i].name);
        length += (size_t)wrote;
    }
}

static bool add_shape(listing *l, str shape, char why[FTL_WHY_BYTES]) {
    int64_t numbers[VERIFY_SIZES_MAX];
    int32_t count = 0;
    for (str rest = shape; rest.length;) {
        str word = str_trim(str_cut(&rest, 'x'));
        bool fits = count < VERIFY_SIZES_MAX && str_to_integer(word, &numbers[count]) &&
                    numbers[count] >= 0 && numbers[count] <= SIZE_MOST;
        if (!fits) {
            return refuse(why, "shape '%.*s': '%.*s' is no length from 0 to %d", STR_ARGS(shape),
                          STR_ARGS(word), SIZE_MOST);
        }
        count++;
    }
    if (count == l->plan->size_count && !(count == 2 && has_pair(l))) {
        verify_case c = cases_blank(l);
        memcpy(c.sizes, numbers, (size_t)count * sizeof *numbers);
        put_case(l, c);
        c.input = l->has_values ? VERIFY_DOMINANT : VERIFY_ENDS;
        c.layout = VERIFY_PADDED, c.plant = l->next;
        put_case(l, c);
        return true;
    }
    if (count == 2 && has_pair(l)) {
        add_pair(l, numbers[0], numbers[1], 1);
        return true;
    }
    char sizes[FTL_WHY_BYTES / 2];
    list_sizes(l, sizes, sizeof sizes);
    return refuse(why, "shape '%.*s' has %" PRId32 " lengths; expected %s%s", STR_ARGS(shape),
                  count, has_pair(l) ? "q_len x kv_len, or " : "", sizes);
}

/* Lists that have a name. False when this is none. */
static bool add_list(listing *l, str word) {
    bool is_all = str_is(word, "all"), is_decisive = str_is(word, "decisive");
    if (str_is(word, "none")) return true;
    if (!is_all && !is_decisive && !str_is(word, "small")) return false;
    if (!is_decisive && has_pair(l)) add_pairs(l, is_all);
    else if (!is_decisive) cases_add_sizes(l, is_all);
    cases_add_decisive(l);
    return true;
}

bool verify_cases(const verify_program *program, const verify_list *list, double flops_most,
                  arena *memory, const verify_case **cases, int32_t *count,
                  char why[FTL_WHY_BYTES]) {
    const ftl_plan *plan = program->plan;
    listing l = {.program = program,
                 .plan = plan,
                 .memory = memory,
                 .flops_most = flops_most,
                 .q_len = plan_find_size(plan, "q_len"),
                 .kv_len = plan_find_size(plan, "kv_len"),
                 .batch = plan_find_size(plan, "batch"),
                 .q_heads = plan_find_size(plan, "q_heads"),
                 .kv_heads = plan_find_size(plan, "kv_heads")};
    if (l.q_heads < 0) l.q_heads = plan_find_size(plan, "heads"); /* all are alike */
    l.chains = planted_find(program);
    l.has_scores = planted_has_scores(&l.chains.turns[0]);
    l.has_values = planted_has_values(&l.chains.turns[0]);
    if (plan->size_count > VERIFY_SIZES_MAX) {
        return refuse(why, "the program has %" PRId32 " sizes; at most %d are possible",
                      plan->size_count, VERIFY_SIZES_MAX);
    }
    str words = str_from(list->shapes ? list->shapes : "small");
    if (!str_trim(words).length) return refuse(why, "there is no shape in ''");
    while (words.length) {
        str word = str_trim(str_cut(&words, ','));
        if (!add_list(&l, word) && !add_shape(&l, word, why)) return false;
    }
    cases_add_random(&l, list->seed, list->more);
    *cases = l.cases.items, *count = l.cases.count;
    return true;
}

/* --- lists of numbers ------------------------------------------------------------------------- */

/* Cuts "7..9" or "3" off the list. */
static bool cut_range(str *list, int64_t *first, int64_t *last) {
    str word = str_trim(str_cut(list, ','));
    size_t dots = str_find(word, STR(".."));
    str low = {word.data, dots}, high = word;
    if (dots < word.length) high = (str){word.data + dots + 2, word.length - dots - 2};
    return str_to_integer(low, first) && str_to_integer(high, last) && *first >= 0 &&
           *first <= *last;
}

bool verify_cases_are_readable(const char *list) {
    int64_t first, last;
    if (!list) return true;
    str rest = str_from(list);
    if (rest.length && rest.data[rest.length - 1] == ',') return false;
    do {
        if (!cut_range(&rest, &first, &last)) return false;
    } while (rest.length);
    return true;
}

bool verify_cases_hold(const char *list, int32_t number) {
    int64_t first, last;
    if (!list) return true;
    for (str rest = str_from(list); rest.length;) {
        if (cut_range(&rest, &first, &last) && number >= first && number <= last) return true;
    }
    return false;
}

/* --- names ------------------------------------------------------------------------------------ */

void verify_case_name(const verify_program *program, const verify_case *c,
                      char name[VERIFY_NAME_BYTES]) {
    static const char *const layouts[] = {"dense", "padded", "turned", "turned padded"};
    static const char *const inputs[] = {
        "normal",     "dominant key",         "heavy ends",         "climbing scores",
        "low scores", "a key for each query", "rows of every size", "scores by blocks"};
    const ftl_plan *plan = program->plan;
    size_t length = 0;
    *name = 0;
    for (int32_t i = 0; i < plan->size_count && length < VERIFY_NAME_BYTES; i++) {
        length += (size_t)snprintf(name + length, VERIFY_NAME_BYTES - length, "%s%s %" PRId64,
                                   i ? ", " : "", plan->sizes[i].name, c->sizes[i]);
    }
    if (length >= VERIFY_NAME_BYTES) return;
    snprintf(name + length, VERIFY_NAME_BYTES - length, "%s%s, %s", length ? ", " : "",
             layouts[c->layout], inputs[c->input]);
    length = strlen(name);
    drawn_describe(c, name + length, VERIFY_NAME_BYTES - length);
}
