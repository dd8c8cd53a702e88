/* Which cases there are. The list depends on the plan and on 'shapes' alone, so that a case's
 * number names it in a command.
 */
#include "base/number.h"
#include "verify/inputs.h"
#include "verify/plan_find.h"
#include "verify/random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES_MAX = 100000, SIZE_MOST = 1 << 24 };

typedef struct listing {
    const verify_program *program;
    const ftl_plan *plan;
    arena *memory;
    LIST(verify_case) cases;
    int32_t next;      /* number of the next case, also of those that are left out */
    double flops_most; /* 0: no limit */
    int32_t q_len, kv_len, batch, q_heads, kv_heads; /* positions of these sizes, or -1 */
} listing;

static bool has_lengths(const listing *l) {
    return l->q_len >= 0 && l->kv_len >= 0;
}

/* --- cost ------------------------------------------------------------------------------------- */

/* The lengths known from the plan alone (head dimensions), each name once. */
static double fixed_lengths(const ftl_plan *plan) {
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

static int64_t tile_of(const listing *l, int32_t size) {
    int64_t tile = 64;
    inputs_tiles(l->plan, size, &tile, 1);
    return tile;
}

static bool is_table(const ftl_plan_tensor *tensor) {
    return tensor->role == FTL_INPUT && tensor->use > FTL_TABLE_FREE;
}

static bool has_tables(const ftl_plan *plan) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (is_table(&plan->tensors[t])) return true;
    }
    return false;
}

static double value_of(const ftl_formula *formula, const verify_case *c) {
    static const double ones[64] = {0};
    double value;
    return ftl_formula_evaluate(formula, c->sizes, ones, &value) && value > 0 ? value : 0;
}

static double elements_of(const ftl_plan_tensor *tensor, const verify_case *c) {
    double product = 1;
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        product *= value_of(&tensor->axes[i].extent, c);
    }
    return product;
}

/* Where lengths stand in tables: each element written sees the longest stretch, twice. */
static double count_ragged_flops(const ftl_plan *plan, const verify_case *c) {
    double longest = 1, written = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        if (tensor->role == FTL_OUTPUT) written += elements_of(tensor, c);
        if (is_table(tensor) && tensor->use != FTL_TABLE_INDEX)
            longest = fmax(longest, value_of(&tensor->limit, c));
    }
    return 4 * written * longest;
}

/* Whether two axes of different names are so long: queries against keys of one sequence, say. */
static bool is_length_of_two(const ftl_plan *plan, int32_t size) {
    const char *first = NULL;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            const ftl_plan_axis *axis = &plan->tensors[t].axes[i];
            const ftl_formula_step *step = axis->extent.steps;
            if (axis->extent.step_count != 1 || step->op != FTL_PUSH_SIZE || step->index != size)
                continue;
            if (first && strcmp(first, axis->name) != 0) return true;
            first = axis->name;
        }
    }
    return false;
}

/* Kernels work on whole tiles: a single query costs as much as a block of them. */
static double count_flops(const listing *l, const verify_case *c) {
    double product = 2;
    if (has_tables(l->plan)) return count_ragged_flops(l->plan, c);
    for (int32_t i = 0; i < l->plan->size_count; i++) {
        if (has_lengths(l) && i == l->kv_heads) continue; /* q_heads counts */
        bool is_tiled = i == l->q_len || i == l->kv_len || !has_lengths(l);
        int64_t tile = is_tiled ? tile_of(l, i) : 1;
        int64_t whole = (c->sizes[i] + tile - 1) / tile * tile;
        product *= (double)whole * (is_length_of_two(l->plan, i) ? (double)whole : 1);
    }
    return product * fixed_lengths(l->plan);
}

/* --- programs with lengths of queries and keys ------------------------------------------------ */

/* Whether the launch conditions hold for a case's sizes. (Scalars are chosen to fit.) */
static bool is_allowed(const listing *l, const verify_case *c) {
    double ones[64], holds;
    for (int i = 0; i < 64; i++) ones[i] = 1;
    for (int32_t i = 0; i < l->plan->condition_count; i++) {
        bool is_known = ftl_formula_evaluate(&l->plan->conditions[i], c->sizes, ones, &holds);
        if (!is_known || holds == 0) return false;
    }
    return true;
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
    c.flops = count_flops(l, &c);
    if (l->flops_most > 0 && c.flops > l->flops_most) return;
    if (l->cases.count < CASES_MAX) list_push(l->memory, &l->cases, c);
}

/* With the sizes that the user fixed. */
static void add_case(listing *l, verify_case c) {
    for (int32_t i = 0; i < l->program->pin_count; i++) {
        int32_t size = plan_find_size(l->plan, l->program->pins[i].name);
        int64_t value;
        bool is_length = size >= 0 && str_to_integer(str_from(l->program->pins[i].value), &value);
        if (is_length && value >= 0 && value <= SIZE_MOST) c.sizes[size] = value;
    }
    put_case(l, c);
}

/* Sizes that nothing below sets: head dimensions that a sketch leaves open. */
static verify_case blank(const listing *l) {
    verify_case c = {0};
    for (int32_t i = 0; i < l->plan->size_count; i++) c.sizes[i] = 24;
    return c;
}

/* A pair with normal inputs, and 'plants' times with a dominant key elsewhere. */
static void add_pair(listing *l, int64_t q, int64_t kv, int plants) {
    bool has_keys = inputs_have_keys(l->program) && q > 0 && kv > 0;
    int32_t turn = l->next;
    for (int i = 0; i <= (has_keys ? plants : 0); i++, turn++) {
        verify_case c = blank(l);
        c.sizes[l->q_len] = q, c.sizes[l->kv_len] = kv;
        choose_heads(l, turn, &c);
        c.layout = (verify_layout)((turn + turn / 4) % 4);
        c.input = i ? VERIFY_DOMINANT : VERIFY_NORMAL;
        c.plant = i ? turn : 0;
        add_case(l, c);
    }
}

/* What a softmax over several blocks of keys has to keep up with. */
static void add_climbing(listing *l, int64_t q, int64_t kv) {
    if (!inputs_have_keys(l->program) || q == 0) return;
    verify_case c = blank(l);
    int32_t turn = l->next;
    c.sizes[l->q_len] = q, c.sizes[l->kv_len] = kv;
    choose_heads(l, turn, &c);
    c.layout = (verify_layout)(turn % 4);
    c.input = VERIFY_CLIMBING;
    add_case(l, c);
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
    int64_t q_tile = tile_of(l, l->q_len), kv_tile = tile_of(l, l->kv_len);
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
    verify_case none = blank(l);
    none.sizes[l->q_len] = none.sizes[l->kv_len] = 64;
    choose_heads(l, 0, &none);
    none.sizes[l->batch] = 0;
    add_case(l, none);
}

/* --- all other programs ----------------------------------------------------------------------- */

enum { LENGTHS = 11 };

static void lengths_of(const listing *l, int32_t size, int64_t lengths[LENGTHS]) {
    int64_t t = tile_of(l, size);
    const int64_t values[LENGTHS] = {t + 1, 1, t, 97, 3, 2 * t + 1, t - 1, 200, 2, 333, 0};
    memcpy(lengths, values, sizeof values);
}

static bool is_small(const listing *l, const verify_case *c) {
    static const double ELEMENTS_MOST = 1 << 19;
    double sum = 0;
    for (int32_t t = 0; t < l->plan->tensor_count; t++) sum += elements_of(&l->plan->tensors[t], c);
    return sum <= ELEMENTS_MOST;
}

/* A length of what the caller has; others (a number of splits) only multiply the work. */
static bool is_shown(const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            bool is_own = plan->tensors[t].role != FTL_WORKSPACE;
            if (is_own && plan->tensors[t].axes[i].size == size) return true;
        }
    }
    return false;
}

/* Sizes that the program's conditions allow ("group*q_len <= BM"), found by drawing; all 1 where
 * none is found.
 */
static void draw_sizes(const listing *l, int32_t n, verify_case *c) {
    enum { ATTEMPTS = 20000 };
    for (uint64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        verify_case drawn = *c;
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            const int64_t lengths[] = {1, 2, 3, 4, 6, 8, 16, 24, 33, 64, 128, tile_of(l, s) + 1};
            uint64_t stream = (uint64_t)n * ATTEMPTS + attempt;
            uint64_t few = 6, all = sizeof lengths / sizeof *lengths;
            drawn.sizes[s] =
                lengths[random_below(99, stream, (uint64_t)s, is_shown(l->plan, s) ? all : few)];
        }
        if (!is_allowed(l, &drawn) || !is_small(l, &drawn)) continue;
        *c = drawn;
        return;
    }
    for (int32_t s = 0; s < l->plan->size_count; s++) c->sizes[s] = 1;
}

/* Every length meets every size; which of other sizes' lengths it meets there differs from round to
 * round. (The odd steps are coprime to their number.)
 */
static void add_sizes(listing *l, bool is_all) {
    int rounds = is_all ? 6 : 1;
    for (int32_t n = 0; n < rounds * LENGTHS; n++) {
        verify_case c = blank(l);
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            int64_t lengths[LENGTHS];
            lengths_of(l, s, lengths);
            int64_t step = 1 + (s * 2 + n / LENGTHS * (s + 1)) % (LENGTHS - 1);
            c.sizes[s] = lengths[(n * step + s * 3) % LENGTHS];
        }
        if (has_tables(l->plan) || !is_allowed(l, &c)) draw_sizes(l, n, &c);
        bool is_none = has_tables(l->plan) && n % LENGTHS == LENGTHS - 1;
        if (is_none) c.sizes[n / LENGTHS % l->plan->size_count] = 0;
        c.layout = (verify_layout)((n + n / 4) % 4);
        c.input = n % 2 ? VERIFY_ENDS : VERIFY_NORMAL;
        add_case(l, c);
    }
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
    if (count == l->plan->size_count && !(count == 2 && has_lengths(l))) {
        verify_case c = blank(l);
        memcpy(c.sizes, numbers, (size_t)count * sizeof *numbers);
        put_case(l, c);
        c.input = inputs_have_keys(l->program) ? VERIFY_DOMINANT : VERIFY_ENDS;
        c.layout = VERIFY_PADDED, c.plant = l->next;
        put_case(l, c);
        return true;
    }
    if (count == 2 && has_lengths(l)) {
        add_pair(l, numbers[0], numbers[1], 1);
        return true;
    }
    char sizes[FTL_WHY_BYTES / 2];
    list_sizes(l, sizes, sizeof sizes);
    return refuse(why, "shape '%.*s' has %" PRId32 " lengths; expected %s%s", STR_ARGS(shape),
                  count, has_lengths(l) ? "q_len x kv_len, or " : "", sizes);
}

/* Where all heads are alike, one name is enough. */
static int32_t find_heads(const ftl_plan *plan) {
    int32_t heads = plan_find_size(plan, "q_heads");
    return heads >= 0 ? heads : plan_find_size(plan, "heads");
}

bool verify_cases(const verify_program *program, const char *shapes, double flops_most,
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
                 .q_heads = find_heads(plan),
                 .kv_heads = plan_find_size(plan, "kv_heads")};
    if (plan->size_count > VERIFY_SIZES_MAX) {
        return refuse(why, "the program has %" PRId32 " sizes; at most %d are possible",
                      plan->size_count, VERIFY_SIZES_MAX);
    }
    str words = str_from(shapes ? shapes : "small");
    bool is_all = str_is(words, "all");
    if (is_all || str_is(words, "small")) {
        if (has_lengths(&l)) add_pairs(&l, is_all);
        else add_sizes(&l, is_all);
    } else {
        if (!str_trim(words).length) return refuse(why, "there is no shape in ''");
        while (words.length) {
            if (!add_shape(&l, str_trim(str_cut(&words, ',')), why)) return false;
        }
    }
    *cases = l.cases.items, *count = l.cases.count;
    return true;
}

/* --- lists of numbers ------------------------------------------------------------------------- */

/* Cuts "7..9" or "3" off the list. */
static bool cut_range(str *list, int64_t *first, int64_t *last) {
    str word = str_trim(str_cut(list, ','));
    const char *dots = NULL;
    for (size_t i = 0; i + 1 < word.length && !dots; i++) {
        if (word.data[i] == '.' && word.data[i + 1] == '.') dots = word.data + i;
    }
    str low = word, high = word;
    if (dots) {
        low.length = (size_t)(dots - word.data);
        high = (str){dots + 2, word.length - low.length - 2};
    }
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
    static const char *const inputs[] = {"normal", "dominant key", "heavy ends", "climbing scores"};
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
}
