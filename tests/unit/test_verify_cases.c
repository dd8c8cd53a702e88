/* Which sizes, scalars and scores are drawn: by what a program says, and not by its names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flashtl/execute.h"
#include "sample.h"
#include "verify/conditions.h"
#include "verify/inputs.h"
#include "verify/planted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ftl_plan *plan_of(const char *text) {
    ftl_context *context;
    ftl_plan *plan = NULL;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_source source = {"program", text, strlen(text)};
    ftl_status status = ftl_parameters(context, &source, FTL_F16, &plan);
    if (status) print_message("%s\n%s\n", text, ftl_context_error(context));
    assert_int_equal(status, FTL_OK);
    ftl_context_free(context);
    return plan;
}

static int32_t size_named(const ftl_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (strcmp(plan->sizes[i].name, name) == 0) return i;
    }
    fail_msg("no size '%s'", name);
    return -1;
}

/* --- conditions ------------------------------------------------------------------------------- */

#define ROWS(conditions, scalar)                                                                   \
    "kernel k\nInput X (a in n, b in m) where " conditions "\nInput Z (c in l, e in o)\n" scalar   \
    "Output Y (a in n, b in m)\nCopy X from global to register\nCopy X from register to global "   \
    "and get Y\n"

static void conditions_are_solved(void **state) {
    (void)state;
    static const char *const texts[] = {
        ROWS("l == n/128 and o == m/128", ""),
        ROWS("n % l == 0 and m >= 2*o", ""),
        ROWS("n + m == l + 7", ""),
        ROWS("l*o <= 16 and n > m", ""),
        ROWS("min(n, m) == 5 and max(l, o) == 900", ""),
        ROWS("n == 3 or m == 4", ""),
        ROWS("n - m == 12 and n % 16 == 0", ""),
        ROWS("n > 0", "Input s f32 where s > 0\nInput t f32 where t < -1\n"),
        ROWS("n > 0", "Input s f32 where s >= 0.25 and s <= 0.25\nInput w i32 where w % 8 == 0\n"),
        ROWS("n > 0", "Input s f32 where s != 1\nInput w i32 where w >= n\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ftl_plan *plan = plan_of(texts[i]);
        for (uint64_t seed = 0; seed < 50; seed++) {
            int64_t sizes[16] = {65, 33, 97, 24};
            double scalars[16] = {1, -0.5, 3};
            conditions_values values = {sizes, scalars, NULL};
            if (!conditions_solve(plan, seed, &values)) fail_msg("not solved:\n%s", texts[i]);
            assert_true(conditions_hold(plan, sizes, scalars));
        }
        ftl_plan_free(plan);
    }
}

static void what_is_pinned_stays(void **state) {
    (void)state;
    ftl_plan *plan = plan_of(ROWS("l == n/128", ""));
    int32_t n = size_named(plan, "n"), l = size_named(plan, "l");
    for (uint64_t seed = 0; seed < 50; seed++) {
        int64_t sizes[16] = {65, 33, 97, 24};
        double scalars[16] = {0};
        bool is_pinned[16] = {false};
        is_pinned[n] = true, sizes[n] = 300;
        assert_true(conditions_solve(plan, seed, &(conditions_values){sizes, scalars, is_pinned}));
        assert_true(sizes[n] == 300 && sizes[l] == 3);
        is_pinned[l] = true, sizes[l] = 4;
        assert_false(conditions_solve(plan, seed, &(conditions_values){sizes, scalars, is_pinned}));
        assert_true(sizes[n] == 300 && sizes[l] == 4);
    }
    ftl_plan_free(plan);
}

/* --- decisive lengths ------------------------------------------------------------------------- */

static const char window[] =
    "kernel k // 3000 is no constant\nlet reach = 700\n"
    "Input  A (b in batch, h in heads; i in rows, e)\nInput  B (b in batch, h in heads; j in "
    "columns, e)\n"
    "Input  C (b in batch, h in heads; j in columns, f)\nInput temperature f32\n"
    "Output D (b in batch, h in heads; i in rows, f)\nCopy A from global to shared\n"
    "for n = 0:columns/BN\n    Copy B from global to shared\n    Compute GEMM A, B.T and get S\n"
    "    Compute Multiply S, temperature and get S\n    Compute Mask S where j < i - reach\n"
    "    Compute Softmax S\n    Copy C from global to shared\n    Compute GEMM S, C and accumulate "
    "D\nend\n"
    "Copy D from register to global\n";

static void lengths_pass_blocks_and_constants(void **state) {
    (void)state;
    assert_int_equal(verify_largest_constant((str){window, sizeof window - 1}), 700);
    ftl_plan *plan = plan_of(window);
    verify_program program = {.plan = plan, .sketch = {"k", window, sizeof window - 1}};
    const verify_case *cases;
    int32_t count;
    char why[FTL_WHY_BYTES];
    arena memory;
    arena_init(&memory, 64 << 20);
    static const char *const lists[] = {"small", "all", "decisive"};
    for (int k = 0; k < 3; k++) {
        assert_true(verify_cases(&program, &(verify_list){.shapes = lists[k]}, 0, &memory, &cases,
                                 &count, why));
        static const char *const lengths[] = {"rows", "columns"};
        for (int s = 0; s < 2; s++) {
            int64_t longest = 0;
            for (int32_t i = 0; i < count; i++) {
                int64_t length = cases[i].sizes[size_named(plan, lengths[s])];
                if (length > longest) longest = length;
            }
            assert_true(longest > 700);
        }
        bool has_both = false, has_low = false;
        for (int32_t i = 0; i < count; i++) {
            int64_t rows = cases[i].sizes[size_named(plan, "rows")];
            int64_t columns = cases[i].sizes[size_named(plan, "columns")];
            has_both |= rows > 128 && columns > 128 && rows != columns;
            has_low |= cases[i].input == VERIFY_LOW;
        }
        assert_true(has_both && has_low);
    }
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* A table of places on one axis does not shorten the others: these are long together in some case.
 */
static void lengths_beside_tables_are_long(void **state) {
    (void)state;
    static const char text[] =
        "kernel k\nInput Q (b in batch; m in m_len, x in dv)\nInput lens i32 (kv in kv_len)\n"
        "Input Y0 (b in batch; s in kv_room, x in dv)\n"
        "let Y01 (b in batch; kv in kv_len, x in dv) = Y0[b, lens[kv], x]\n"
        "Input W (b in batch; kv1 in kv_room, d)\n"
        "let Vals (b in batch; kv in kv_len, d) = W[b, lens[kv], d]\n"
        "Output Out (b in batch; m in m_len, d)\nCopy Q from global to register\n"
        "for i = 0:kv_len/BN\n    Copy Y01 from global to shared\n"
        "    Compute GEMM Q, Y01.T and get S1\n    Compute Mask S1 where kv > m\n"
        "    Compute Softmax S1\n    Copy Vals from global to shared\n"
        "    Compute GEMM S1, Vals and accumulate E0\nend\n"
        "Copy E0 from register to global and get Out\n";
    static const ftl_pin pins[] = {{"d", "32"}, {"dv", "192"}};
    ftl_source source = {"program", text, strlen(text)};
    ftl_options options = {
        .struct_bytes = sizeof options, .gpu = "a100", .pins = pins, .pin_count = 2};
    ftl_context *context;
    ftl_product *product;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_int_equal(ftl_build(context, &source, &options, &product), FTL_OK);
    const ftl_plan *plan = product->kernels[0].plan;
    verify_program program = {.plan = plan, .sketch = {"k", text, sizeof text - 1}};
    const verify_case *cases;
    int32_t count;
    char why[FTL_WHY_BYTES];
    arena memory;
    arena_init(&memory, 64 << 20);
    assert_true(verify_cases(&program, &(verify_list){.shapes = "decisive"}, 0, &memory, &cases,
                             &count, why));
    bool has_both = false;
    for (int32_t i = 0; i < count; i++)
        has_both |= cases[i].sizes[size_named(plan, "m_len")] > 128 &&
                    cases[i].sizes[size_named(plan, "kv_len")] > 128;
    assert_true(has_both);
    arena_done(&memory);
    ftl_product_free(product);
    ftl_context_free(context);
}

/* The decisive cases of a sketch; arena_done(memory) and ftl_plan_free(plan) end them. */
static ftl_plan *decisive_of(const char *text, arena *memory, const verify_case **cases,
                             int32_t *count) {
    char why[FTL_WHY_BYTES];
    ftl_plan *plan = plan_of(text);
    verify_program program = {.plan = plan, .sketch = {"k", text, strlen(text)}};
    arena_init(memory, 64 << 20);
    assert_true(
        verify_cases(&program, &(verify_list){.shapes = "decisive"}, 0, memory, cases, count, why));
    return plan;
}

/* Lengths of several loops do not multiply: each is long in some case, and all are long in one. */
static void loops_have_lengths_of_their_own(void **state) {
    (void)state;
    static const char text[] =
        "kernel k\nInput  A (i in rows, e)\nInput  B (j in first, e)\nInput  C (k in second, e)\n"
        "Input  D (l in third, e)\nInput  E (n in fourth, e)\nOutput F (i in rows)\n"
        "Copy A from global to shared\nfor s = 0:first/BN\n    Copy B from global to shared\n"
        "    Compute GEMM A, B.T and get S\n    Compute RowSum S and accumulate r\nend\n"
        "for s = 0:second/BN\n    Copy C from global to shared\n    Compute GEMM A, C.T and get T\n"
        "    Compute RowSum T and accumulate r\nend\nfor s = 0:third/BN\n"
        "    Copy D from global to shared\n    Compute GEMM A, D.T and get U\n"
        "    Compute RowSum U and accumulate r\nend\nfor s = 0:fourth/BN\n"
        "    Copy E from global to shared\n    Compute GEMM A, E.T and get V\n"
        "    Compute RowSum V and accumulate r\nend\nCopy r from register to global and get F\n";
    static const char *const lengths[] = {"rows", "first", "second", "third", "fourth"};
    const verify_case *cases;
    int32_t count;
    arena memory;
    ftl_plan *plan = decisive_of(text, &memory, &cases, &count);
    bool has_all = false;
    for (int32_t i = 0; i < count; i++) {
        bool is_long = true;
        for (int s = 0; s < 5; s++) is_long &= cases[i].sizes[size_named(plan, lengths[s])] > 128;
        has_all |= is_long;
    }
    assert_true(has_all);
    for (int s = 0; s < 5; s++) {
        int64_t longest = 0;
        for (int32_t i = 0; i < count; i++)
            if (cases[i].sizes[size_named(plan, lengths[s])] > longest)
                longest = cases[i].sizes[size_named(plan, lengths[s])];
        assert_true(longest > 512);
    }
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* A batch that a vector for each matrix has is no length, and what shares it alone is not
 * multiplied: lengths of two loops stay long together.
 */
static void batches_are_no_lengths(void **state) {
    (void)state;
    static const char text[] =
        "kernel k\nInput  Q (b in batch; i in rows, e)\nInput  K (b in batch; j in first, e)\n"
        "Input  V (b in batch; j in first, f)\nInput  R (b in batch; i in rows, f)\n"
        "Input  A (b in batch; l in second, e)\nInput  B (b in batch; l in second, f)\n"
        "Input  used i32 (b in batch)\nInput  places i32 (i in rows)\nOutput r f32 (b in batch; i "
        "in rows)\n"
        "Output O (b in batch; i in rows, f)\nlet e = 64\nlet f = 64\n"
        "Copy Q from global to shared\nfor s = 0:first/BN\n    Copy K from global to shared\n"
        "    Compute GEMM Q, K.T and get S\n    Compute Mask S where places[i] == 0\n    Compute "
        "RowSum S and accumulate r\n"
        "    Copy V from global to shared\n    Compute GEMM S, V and accumulate O\nend\n"
        "Copy R from global to shared\nfor s = 0:second/BN\n    Copy A from global to shared\n"
        "    Compute GEMM Q, A.T and get T\n    Copy B from global to shared\n"
        "    Compute GEMM R, B.T and accumulate T\n    Compute Mask T where l < used[b]\n    "
        "Compute Softmax T\n"
        "    Compute GEMM T, B and accumulate P\nend\nCompute Subtract P, O and get O\n"
        "Copy r from register to global\nCopy O from register to global\n";
    static const char *const lengths[] = {"rows", "first", "second"};
    const verify_case *cases;
    int32_t count;
    arena memory;
    ftl_plan *plan = decisive_of(text, &memory, &cases, &count);
    bool has_all = false;
    for (int32_t i = 0; i < count; i++) {
        bool is_long = true;
        for (int s = 0; s < 3; s++) is_long &= cases[i].sizes[size_named(plan, lengths[s])] > 128;
        has_all |= is_long;
        assert_true(cases[i].sizes[size_named(plan, "batch")] < 8);
    }
    assert_true(has_all);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* Many heads of long sequences, and matrices for each: the cases become cheap, not none. */
static void cases_are_cheap_and_there(void **state) {
    (void)state;
    static const char text[] =
        "kernel k\nInput  A (b in batch, h in heads; t in len, x)\nInput  B (b in batch, h in "
        "heads; t in len, y)\n"
        "Output C f32 (b in batch, h in heads; x, y)\nfor n = 0:len/BK\n    Copy A from global to "
        "shared\n"
        "    Copy B from global to shared\n    Compute GEMM A.T, B and accumulate C\nend\n"
        "Copy C from register to global\n";
    ftl_plan *plan = plan_of(text);
    verify_program program = {.plan = plan, .sketch = {"k", text, sizeof text - 1}};
    const verify_case *cases;
    int32_t count, few = 0;
    char why[FTL_WHY_BYTES];
    arena memory;
    arena_init(&memory, 64 << 20);
    assert_true(
        verify_cases(&program, &(verify_list){.shapes = "small"}, 0, &memory, &cases, &count, why));
    for (int32_t i = 0; i < count; i++) few += cases[i].flops > 0 && cases[i].flops <= 2e8;
    assert_true(few >= 9);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* --- scores ----------------------------------------------------------------------------------- */

static case_data drawn(const verify_program *program, const verify_case *c, arena *memory) {
    case_data data = {.program = program, .of = c, .seed = 3};
    char why[FTL_WHY_BYTES] = "";
    if (!inputs_make(&data, memory, why)) fail_msg("%s", why);
    return data;
}

#define ROWS_BY_KEYS                                                                               \
    "Copy Q from global to shared\nfor t = 0:n/BN\n    Copy K from global to shared\n"
#define WEIGHED                                                                                    \
    "    Copy V from global to shared\n    Compute GEMM S, V and accumulate O\nend\n"              \
    "Copy O from register to global\n"

/* "Q K V": left, right and values of each chain of a turn, turns apart by a bar. */
static void assert_chains(const char *text, const char *wanted) {
    ftl_plan *plan = plan_of(text);
    verify_program program = {.plan = plan, .sketch = {"k", text, strlen(text)}};
    planted_turns all = planted_find(&program);
    char found[256] = "";
    for (int32_t turn = 0; turn < all.count; turn++) {
        if (turn) strcat(found, " | ");
        for (int32_t i = 0; i < all.turns[turn].count; i++) {
            const planted_chain *c = &all.turns[turn].chains[i];
            const planted_matrix *parts[] = {&c->left, &c->right, &c->values};
            if (i) strcat(found, ", ");
            for (int k = 0; k < 3; k++) {
                if (parts[k]->tensor < 0) continue;
                if (k) strcat(found, " ");
                strcat(found, plan->tensors[parts[k]->tensor].name);
            }
        }
    }
    ftl_plan_free(plan);
    assert_string_equal(found, wanted);
}

/* Axes may have one name (TL Code calls all columns so), lengths be the same, texts have views. */
static void chains_are_read_from_statements(void **state) {
    (void)state;
    assert_chains(window, "A B C");
    assert_chains("kernel k\nInput Q (i in m, x in e)\nInput K (j in n, x in e)\n"
                  "Input V (j in n, x in e)\nOutput O (i in m, x in e)\n" ROWS_BY_KEYS
                  "    Compute GEMM Q, K.T and get S\n    Compute Softmax S\n" WEIGHED,
                  "Q K V");
    assert_chains("kernel k\nInput  V (j in n, f)\nInput  K (e, j in n)\nInput  Q (i in m, e)\n"
                  "Output O (i in m, f)\n" ROWS_BY_KEYS "    Compute GEMM Q, K and get S\n" WEIGHED,
                  "Q K V");
    assert_chains("kernel k\nlet e = 64\nlet x = 64\nInput  all (row in m, x in x)\n"
                  "let Q (i in m, e) = all[i, e]\nInput  K (j in n, e)\nInput  V (j in n, f)\n"
                  "Output O (i in m, f)\n" ROWS_BY_KEYS
                  "    Compute GEMM Q, K.T and get S\n" WEIGHED,
                  "all K V");
    assert_chains(
        "kernel k\nInput Q (i in m, e)\nInput pool (page in pages, slot in len, head in h, e)\n"
        "Input V (j in n, f)\nInput table i32 (page in pages)\nOutput O (i in m, f)\n"
        "let K (j in n, e) = select(table[j/len] % 2 == 0, pool[table[j/len], j % len, 0, e], "
        "0)\n" ROWS_BY_KEYS "    Compute GEMM Q, K.T and get S\n" WEIGHED,
        "Q pool V");
    /* keys are values, and a changed operand is still what it was */
    assert_chains("kernel k\nInput  Q (i in m, e)\nInput  K (j in n, e)\nOutput O (i in m, e)\n"
                  "Copy Q from global to register\nCompute Multiply Q, 2 and get P\n"
                  "for t = 0:n/BN\n    Copy K from global to shared\n"
                  "    Compute GEMM P, K.T and get S\n    Compute Softmax S\n"
                  "    Compute GEMM S, K and accumulate O\nend\nCopy O from register to global\n",
                  "Q K K");
    assert_chains(
        "kernel k\nInput  Q (i in m, e)\nInput  K (j in n, e)\nOutput O (i in m, e)\n" ROWS_BY_KEYS
        "    Compute GEMM Q, K.T and get S\n    Compute GEMM S, K and accumulate O\nend\n"
        "Copy O from register to global\n",
        "");
    /* scores that weigh nothing */
    assert_chains(
        "kernel k\nInput  A (i in m, e)\nInput  B (j in n, e)\nOutput C (i in m, j in n)\n"
        "for t = 0:e/BK\n    Copy A from global to shared\n    Copy B from global to shared\n"
        "    Compute GEMM A, B.T and accumulate C\nend\nCopy C from register to global\n",
        "A B");
}

#define TWO_LOOPS(right, values)                                                                   \
    "kernel k\nInput Q (i in m, e)\nInput K (j in n, e)\nInput V (j in n, f)\n"                    \
    "Input B (l in o, e)\nInput W (l in o, f)\nOutput O (i in m, f)\n" ROWS_BY_KEYS                \
    "    Compute GEMM Q, K.T and get S\n    Compute Softmax S\n    Copy V from global to shared\n" \
    "    Compute GEMM S, V and accumulate O\nend\nfor t = 0:o/BN\n"                                \
    "    Copy B from global to shared\n    Copy W from global to shared\n"                         \
    "    Compute GEMM Q, " right ".T and get T\n    Compute Softmax T\n"                           \
    "    Compute GEMM T, " values " and accumulate P\nend\nCompute Add O, P and get O\n"           \
    "Copy O from register to global\n"

/* Together where no tensor has two parts to play, else by turns. */
static void all_chains_are_planted(void **state) {
    (void)state;
    assert_chains(TWO_LOOPS("B", "W"), "Q K V, Q B W");
    assert_chains("kernel k\nInput Q (i in m, e)\nInput R (i in m, e)\nInput K (j in n, e)\n"
                  "Input B (j in n, e)\nInput V (j in n, f)\nOutput O (i in m, f)\n"
                  "Copy R from global to shared\n" ROWS_BY_KEYS "    Copy B from global to shared\n"
                  "    Compute GEMM Q, K.T and get S\n    Compute GEMM R, B.T and accumulate S\n"
                  "    Compute Softmax S\n" WEIGHED,
                  "Q K V | R B V");
    /* each has a decisive case of climbing scores */
    static const char *const texts[] = {TWO_LOOPS("B", "W"), window};
    for (int k = 0; k < 2; k++) {
        ftl_plan *plan = plan_of(texts[k]);
        verify_program program = {.plan = plan, .sketch = {"k", texts[k], strlen(texts[k])}};
        const verify_case *cases;
        int32_t count;
        char why[FTL_WHY_BYTES];
        arena memory;
        arena_init(&memory, 64 << 20);
        assert_true(verify_cases(&program, &(verify_list){.shapes = "decisive"}, 0, &memory, &cases,
                                 &count, why));
        planted_turns all = planted_find(&program);
        for (int32_t turn = 0; turn < all.count; turn++) {
            bool has_climbing = false;
            for (int32_t i = 0; i < count; i++)
                has_climbing |= cases[i].input == VERIFY_CLIMBING && cases[i].turn == turn;
            assert_true(has_climbing);
        }
        arena_done(&memory);
        ftl_plan_free(plan);
    }
}

static void scores_are_as_low_as_planted(void **state) {
    (void)state;
    ftl_plan *plan = plan_of(window);
    verify_program program = {.plan = plan, .sketch = {"k", window, sizeof window - 1}};
    verify_case c = {.input = VERIFY_LOW, .sizes = {0}};
    for (int32_t s = 0; s < plan->size_count; s++) c.sizes[s] = 40;
    arena memory;
    arena_init(&memory, 64 << 20);
    case_data data = drawn(&program, &c, &memory);
    double a[64], b[64], lowest = 0, highest = -1e9, mean = 0;
    for (int64_t i = 0; i < 40; i++) {
        double score = 0;
        buffer_load_row(&data.tensors[0], i, a);
        buffer_load_row(&data.tensors[1], 7, b);
        for (int e = 0; e < 40; e++) score += a[e] * b[e];
        score *= data.scalars[0].value;
        lowest = fmin(lowest, score), highest = fmax(highest, score);
        buffer_load_row(&data.tensors[2], i, a);
        for (int e = 0; e < 40; e++) mean += a[e] / 1600;
    }
    assert_true(lowest < -110 && lowest > -150 && highest > -10 && mean > 0.8);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* Scores of head 0, by query and key, in units of e. */
static void scores_of(const case_data *data, int64_t rows, int64_t keys, int width,
                      double *scores) {
    double a[256], b[256];
    for (int64_t i = 0; i < rows; i++) {
        buffer_load_row(&data->tensors[0], i, a);
        for (int64_t k = 0; k < keys; k++) {
            double sum = 0;
            buffer_load_row(&data->tensors[1], k, b);
            for (int e = 0; e < width; e++) sum += a[e] * b[e];
            scores[i * keys + k] = sum * data->scalars[0].value;
        }
    }
}

/* The maximum of one row is no maximum of another one that lanes, fragments or warps have: rows
 * whose numbers differ in one bit lie so far apart that f32 holds no power of the difference. A
 * maximum over some of the columns is none: each query has a key of its own, in all columns of a
 * block.
 */
static void rows_have_maxima_of_their_own(void **state) {
    enum { ROWS = 128, KEYS = 128, WIDTH = 64, APART = 88 };
    (void)state;
    ftl_plan *plan = plan_of(window);
    verify_program program = {.plan = plan, .sketch = {"k", window, sizeof window - 1}};
    verify_case c = {.input = VERIFY_LOW, .plant = 1, .sizes = {0}};
    for (int32_t s = 0; s < plan->size_count; s++) c.sizes[s] = WIDTH;
    c.sizes[size_named(plan, "rows")] = ROWS;
    c.sizes[size_named(plan, "columns")] = KEYS;
    c.sizes[size_named(plan, "heads")] = c.sizes[size_named(plan, "batch")] = 1;
    arena memory;
    arena_init(&memory, 64 << 20);
    double *scores = arena_array(&memory, double, ROWS *KEYS);
    case_data low = drawn(&program, &c, &memory);
    scores_of(&low, ROWS, KEYS, WIDTH, scores);
    for (int bit = 1; bit < ROWS; bit *= 2) {
        for (int64_t i = 0; i < ROWS; i++)
            assert_true(fabs(scores[i * KEYS] - scores[(i ^ bit) * KEYS]) > APART);
    }
    c.input = VERIFY_MATCHED;
    case_data matched = drawn(&program, &c, &memory);
    scores_of(&matched, ROWS, KEYS, WIDTH, scores);
    bool is_best[KEYS] = {false};
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t best = 0;
        double second = -1e9;
        for (int64_t k = 1; k < KEYS; k++)
            if (scores[i * KEYS + k] > scores[i * KEYS + best]) best = k;
        for (int64_t k = 0; k < KEYS; k++)
            if (k != best) second = fmax(second, scores[i * KEYS + k]);
        assert_true(scores[i * KEYS + best] - second > APART);
        is_best[best] = true;
    }
    int columns[16] = {0};
    for (int64_t k = 0; k < KEYS; k++) columns[k % 16] += is_best[k];
    for (int k = 0; k < 16; k++) assert_true(columns[k] >= 4);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* Inputs without scores: rows that stand out, vanish, or lie low, too. */
static void rows_have_every_size(void **state) {
    enum { ROWS = 128, COLUMNS = 16 };
    (void)state;
    static const char text[] =
        "kernel k\nInput X (i in rows, j in columns)\nOutput Y (i in rows, j in columns)\n"
        "for t = 0:columns/BN\n    Copy X from global to register and get S\n"
        "    Compute Softmax S\n    Copy S from register to global and get Y\nend\n";
    ftl_plan *plan = plan_of(text);
    verify_program program = {.plan = plan, .sketch = {"k", text, sizeof text - 1}};
    const verify_case *cases, *c = NULL;
    int32_t count;
    char why[FTL_WHY_BYTES];
    arena memory;
    arena_init(&memory, 64 << 20);
    assert_true(verify_cases(&program, &(verify_list){.shapes = "decisive"}, 0, &memory, &cases,
                             &count, why));
    for (int32_t i = 0; i < count; i++)
        if (cases[i].input == VERIFY_ROWS) c = &cases[i];
    assert_non_null(c);
    case_data data = drawn(&program, c, &memory);
    int64_t rows = c->sizes[size_named(plan, "rows")],
            width = c->sizes[size_named(plan, "columns")];
    assert_true(rows >= ROWS && width >= COLUMNS && width % COLUMNS == 0);
    double *x = arena_array(&memory, double, width);
    bool stands_out[COLUMNS] = {false};
    int near_zero = 0, low = 0;
    for (int64_t i = 0; i < rows; i++) {
        buffer_load_row(&data.tensors[0], i, x);
        int64_t best = 0;
        double second = -1e9, least = 0;
        for (int64_t k = 1; k < width; k++) best = x[k] > x[best] ? k : best;
        for (int64_t k = 0; k < width; k++) {
            if (k != best) second = fmax(second, x[k]);
            least = fmin(least, x[k]);
        }
        if (x[best] - second > 100) stands_out[best % COLUMNS] = true;
        near_zero += x[best] < 0.01 && least > -0.01;
        low += x[best] < -100;
    }
    int covered = 0;
    for (int k = 0; k < COLUMNS; k++) covered += stands_out[k];
    assert_true(covered == COLUMNS && near_zero >= 16 && low >= 16);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* Whatever a maximum that moves by 2^15 alone can meet: by turns of 16 rows scores rise, rise by
 * steps, fall, or one key stands out so little that what came before still weighs something.
 */
static void scores_climb_in_every_way(void **state) {
    enum { ROWS = 80, KEYS = 549, BITS = 15 };
    (void)state;
    ftl_plan *plan = plan_of(window);
    verify_program program = {.plan = plan, .sketch = {"k", window, sizeof window - 1}};
    verify_case c = {.input = VERIFY_CLIMBING, .sizes = {0}};
    for (int32_t s = 0; s < plan->size_count; s++) c.sizes[s] = 64;
    c.sizes[size_named(plan, "rows")] = ROWS;
    c.sizes[size_named(plan, "columns")] = KEYS;
    c.sizes[size_named(plan, "heads")] = c.sizes[size_named(plan, "batch")] = 1;
    arena memory;
    arena_init(&memory, 64 << 20);
    case_data data = drawn(&program, &c, &memory);
    int moves[5] = {0}, late = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        double a[64], b[64], maximum = -1e9, top = -1e9;
        buffer_load_row(&data.tensors[0], i, a);
        for (int64_t key = 0; key < KEYS; key++) {
            double score = 0;
            buffer_load_row(&data.tensors[1], key, b);
            for (int e = 0; e < 64; e++) score += a[e] * b[e];
            score *= data.scalars[0].value / log(2);
            if (key == KEYS - 2) late += score - top > BITS && score - top < BITS + 3;
            top = fmax(top, score);
            if (score < maximum + BITS) continue;
            moves[i / 16] += maximum > -1e9;
            maximum = score;
        }
    }
    assert_true(moves[0] == 16 && moves[1] >= 16 && moves[2] == 16);
    assert_true(moves[3] == 4 * 16 && moves[4] == 0 && late >= 8);
    arena_done(&memory);
    ftl_plan_free(plan);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void count_passed(void *user, const verify_result *r) {
    int *with_elements = user;
    *with_elements += r->verdict == VERIFY_PASSED && r->compared > 0;
    if (r->verdict == VERIFY_FAILED) print_message("%s: %s\n", r->name, r->what);
}

/* Lengths that tables hold, through differences, min and max: found by trial. */
static void tables_of_involved_uses_are_filled(void **state) {
    (void)state;
    static const char *const lengths[] = {"let len = used[b] - pad[b]",
                                          "let len = min(used[b], max(0, places - pad[b]))",
                                          "let len = max(0, min(used[b] - pad[b], 40))"};
    for (int i = 0; i < 3; i++) {
        if (!sample_takes()) continue;
        char text[2048];
        snprintf(text, sizeof text,
                 "kernel k\nInput X (b in batch; m in rows, e)\nInput used i32 (b in batch)\n"
                 "Input pad i32 (b in batch)\n%s\nInput all (b in batch, place in places, e)\n"
                 "let Y (b in batch; n in len, e) = all[b, pad[b] + n, e]\n"
                 "Output R f32 (b in batch; m in rows)\nCopy X from global to shared\n"
                 "for j = 0:len/BN\n    Copy Y from global to shared\n"
                 "    Compute GEMM X, Y.T and get S\n    Compute RowSum S and accumulate R\nend\n"
                 "Copy R from register to global\n",
                 lengths[i]);
        ftl_context *context;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        ftl_plan *plan = plan_of(text);
        ftl_source source = {"k", text, strlen(text)};
        verify_program program = {.plan = plan, .sketch = source, .code = source};
        verify_machine *machine;
        verify_summary summary;
        int with_elements = 0;
        assert_int_equal(verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine),
                         FTL_OK);
        verify_options options = {.seed = 1, .on_result = count_passed, .user = &with_elements};
        ftl_status status =
            verify_run(context, &program, verify_machine_runner(machine), &options, &summary);
        if (status) print_message("%s\n", ftl_context_error(context));
        assert_int_equal(status, FTL_OK);
        assert_true(with_elements >= 8 && summary.compared == with_elements);
        verify_machine_close(machine);
        ftl_plan_free(plan);
        ftl_context_free(context);
    }
}

#define WALK                                                                                       \
    "Output O (b in batch, h in heads; q in rows, y)\nCopy Q from global to shared\n"              \
    "for j = 0:len/BN\n    Copy K from global to shared\n    Compute GEMM Q, K.T and get S\n"      \
    "    Compute Multiply S, scale and get S\n    Compute Softmax S\n"                             \
    "    Copy V from global to shared\n    Compute GEMM S, V and accumulate O\nend\n"              \
    "Copy O from register to global\n"

typedef struct looked_up {
    const char *text;
    const char *table;    /* an Input that says how long things are; NULL: 'sizes' do */
    const char *sizes[2]; /* whose product is the length */
} looked_up;

static const looked_up tables_with_lengths[] = {
    {"kernel pages\nlet x = 64, y = 32\nInput Q (b in batch, h in heads; q in rows, x)\n"
     "Input pool (page in pages, slot in room, x)\n"
     "Input values (page in pages, slot in room, y)\nInput table i32 (b in batch, place in "
     "most)\n"
     "Input lens i32 (b in batch)\nInput scale f32 where scale > 0\nlet len = lens[b]\n"
     "let K (b in batch; n in len, x) = pool[table[b, n/room], n % room, x]\n"
     "let V (b in batch; n in len, y) = values[table[b, n/room], n % room, y]\n" WALK,
     "lens",
     {0}},
    {"kernel chosen\nlet x = 64, y = 32\nlet len = top*room\nInput Q (b in batch, h in heads; q in "
     "rows, x)\n"
     "Input pool (b in batch, block in blocks; slot in room, x)\n"
     "Input values (b in batch, block in blocks; slot in room, y)\n"
     "Input table i32 (b in batch, place in top)\nInput scale f32 where scale > 0\n"
     "let K (b in batch; n in len, x) = pool[b, table[b, n/room], n % room, x]\n"
     "let V (b in batch; n in len, y) = values[b, table[b, n/room], n % room, y]\n" WALK,
     NULL,
     {"top", "room"}},
    {"kernel ragged\nlet x = 64, y = 32\nlet batch = starts - 1\n"
     "Input Q (b in batch, h in heads; q in rows, x)\nInput pool (t in tokens, h in heads, x)\n"
     "Input values (t in tokens, h in heads, y)\n"
     "Input start i32 (i in starts)\nInput scale f32 where scale > 0\n"
     "let len = start[b + 1] - start[b]\n"
     "let K (b in batch, h in heads; n in len, x) = pool[start[b] + n, h, x]\n"
     "let V (b in batch, h in heads; n in len, y) = values[start[b] + n, h, y]\n" WALK,
     "start",
     {0}},
};

/* The lengths of the case's sequences: the longest, and all of them together. */
static int64_t lengths_in(const looked_up *p, const ftl_plan *plan, const case_data *data,
                          int64_t *sum) {
    double values[256];
    int64_t batch =
        data->of
            ->sizes[size_named(plan, p->table && !strcmp(p->table, "start") ? "starts" : "batch")];
    if (!p->table) {
        int64_t length = data->of->sizes[size_named(plan, p->sizes[0])] *
                         data->of->sizes[size_named(plan, p->sizes[1])];
        *sum = batch * length;
        return length;
    }
    const buffer *table = inputs_find(data, p->table);
    bool has_starts = table->of->use == FTL_TABLE_STARTS;
    int64_t longest = 0;
    assert_true(table->columns <= 256);
    buffer_load_row(table, 0, values);
    *sum = 0;
    for (int64_t i = 0; i < table->columns - has_starts; i++) {
        int64_t length = (int64_t)(has_starts ? values[i + 1] - values[i] : values[i]);
        if (length > longest) longest = length;
        *sum += length;
    }
    return longest;
}

/* Two blocks of whatever block, by lengths that stand in no size; no case costs more than it says,
 * by the lengths that its tables hold, or more than can be waited for.
 */
static void lengths_in_tables_pass_blocks(void **state) {
    (void)state;
    enum { TWO_BLOCKS = 256, WIDTHS = 64 + 32 };
    for (size_t i = 0; i < sizeof tables_with_lengths / sizeof *tables_with_lengths; i++) {
        const looked_up *p = &tables_with_lengths[i];
        ftl_plan *plan = plan_of(p->text);
        verify_program program = {.plan = plan, .sketch = {"k", p->text, strlen(p->text)}};
        static const char *const lists[] = {"decisive", "small"};
        for (int k = 0; k < 2; k++) {
            const verify_case *cases;
            int32_t count;
            char why[FTL_WHY_BYTES];
            bool has_normal = false, has_climbing = false;
            arena memory;
            arena_init(&memory, 256 << 20);
            assert_true(verify_cases(&program, &(verify_list){.shapes = lists[k]}, 0, &memory,
                                     &cases, &count, why));
            for (int32_t n = 0; n < count; n++) {
                case_data data = {.program = &program, .of = &cases[n], .seed = 3};
                if (!inputs_make(&data, &memory, why)) continue;
                const int64_t *sizes = cases[n].sizes;
                int64_t sum, longest = lengths_in(p, plan, &data, &sum);
                double rows =
                    (double)(sizes[size_named(plan, "heads")] * sizes[size_named(plan, "rows")]);
                assert_true(cases[n].flops >= 2 * rows * (double)sum * WIDTHS);
                assert_true(cases[n].flops <= 4e8);
                bool is_long = longest > TWO_BLOCKS && sizes[size_named(plan, "rows")] > 0;
                has_normal |= is_long && cases[n].input == VERIFY_NORMAL;
                has_climbing |= is_long && cases[n].input == VERIFY_CLIMBING;
            }
            if (!has_normal || !has_climbing) print_message("%s, %s\n", p->text, lists[k]);
            assert_true(has_normal && has_climbing);
            arena_done(&memory);
        }
        ftl_plan_free(plan);
    }
}

/* --- what was not compared -------------------------------------------------------------------- */

typedef struct noticed {
    int32_t noted, mostly; /* cases that passed and said so, and those that compared most */
    char line[VERIFY_LINE_BYTES];
} noticed;

static void notice(void *user, const verify_result *r) {
    noticed *n = user;
    text_buffer json;
    text_init(&json, 1 << 16);
    verify_result_json(r, &json);
    assert_non_null(strstr(json.data, "\"compared\":"));
    if (r->verdict == VERIFY_FAILED) fail_msg("%s: %s", r->name, r->what);
    assert_int_equal(r->open > r->compared, r->what[0] != 0);
    assert_int_equal(r->what[0] != 0, strstr(json.data, "\"what\":") != NULL);
    text_done(&json);
    assert_int_equal(r->verdict, VERIFY_PASSED);
    n->noted += r->open > r->compared;
    n->mostly += r->compared > r->open && !strstr(r->name, " 0,"); /* a loop that does nothing */
    if (r->open > r->compared) snprintf(n->line, sizeof n->line, "%s", r->what);
}

#define STEEP(kernel, before, after)                                                               \
    "kernel " kernel                                                                               \
    "\nlet k = 16\nInput A (m in rows, k)\nInput B (n in columns, k)\nOutput C (m in rows)\n"      \
    "Copy A from global to shared\nfor j = 0:columns/BN\n    Copy B from global to shared\n"       \
    "    Compute GEMM A, B.T and get S\n    Compute Multiply S, S and get S\n" before              \
    "    Compute RowSum S and accumulate r\nend\n" after "Copy r from register to global and get " \
    "C\n"

/* Powers that f64 cannot hold either stand beside such that only f32 cannot. */
static const char beyond[] =
    "kernel beyond\nlet k = 16, e = 16\nInput A (m in rows, k)\nInput B (n in columns, k)\n"
    "Input V (n in columns, e)\nOutput C (m in rows)\nCopy A from global to shared\n"
    "for j = 0:columns/BN\n    Copy B from global to shared\n    Compute GEMM A, B.T and get S\n"
    "    Compute Multiply S, 150 and get S\n    Compute Exp S\n    Copy V from global to shared\n"
    "    Compute GEMM S, V and accumulate O\nend\nCompute RowMin O and get r\n"
    "Copy r from register to global and get C\n";

/* What overflows on the way is not compared, and that is said: by the case, where it is most of an
 * Output, and by the summary, where no case compared most of it.
 */
static void what_is_not_compared_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_open;
    } programs[] = {
        {STEEP("always", "    Compute Add S, 99 and get S\n    Compute Exp S\n", ""), true},
        {STEEP("long", "", "Compute Multiply r, 0.05 and get r\nCompute Exp r\n"), false},
        {beyond, false},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        ftl_context *context;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        ftl_plan *plan = plan_of(programs[i].text);
        ftl_source source = {"k", programs[i].text, strlen(programs[i].text)};
        verify_program program = {.plan = plan, .sketch = source, .code = source};
        verify_machine *machine;
        verify_summary summary;
        noticed seen = {0};
        assert_int_equal(verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine),
                         FTL_OK);
        verify_options options = {.seed = 1, .on_result = notice, .user = &seen};
        ftl_status status =
            verify_run(context, &program, verify_machine_runner(machine), &options, &summary);
        if (status) print_message("%s\n", ftl_context_error(context));
        assert_int_equal(status, FTL_OK);
        assert_true(seen.noted > 0 && (seen.mostly > 0) != programs[i].is_open);
        assert_non_null(strstr(seen.line, " elements of C were compared"));
        assert_int_equal(summary.open != NULL, programs[i].is_open);
        if (summary.open) assert_string_equal(summary.open, "C");
        verify_machine_close(machine);
        ftl_plan_free(plan);
        ftl_context_free(context);
    }
}

/* --- scalars ---------------------------------------------------------------------------------- */

static void scalars_have_every_sign_and_magnitude(void **state) {
    (void)state;
    ftl_plan *plan = plan_of(window);
    verify_program program = {.plan = plan, .sketch = {"k", window, sizeof window - 1}};
    arena memory;
    arena_init(&memory, 64 << 20);
    double least = 1e9, most = -1e9, smallest = 1e9;
    for (int32_t n = 0; n < 12; n++) {
        verify_case c = {.input = VERIFY_NORMAL, .number = n};
        for (int32_t s = 0; s < plan->size_count; s++) c.sizes[s] = 4;
        case_data data = drawn(&program, &c, &memory);
        double value = data.scalars[0].value;
        least = fmin(least, value), most = fmax(most, value);
        smallest = fmin(smallest, fabs(value));
    }
    assert_true(least < -0.1 && most > 1 && smallest < 0.01);
    arena_done(&memory);
    ftl_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_are_solved),
        cmocka_unit_test(what_is_pinned_stays),
        cmocka_unit_test(lengths_pass_blocks_and_constants),
        cmocka_unit_test(lengths_beside_tables_are_long),
        cmocka_unit_test(loops_have_lengths_of_their_own),
        cmocka_unit_test(batches_are_no_lengths),
        cmocka_unit_test(cases_are_cheap_and_there),
        cmocka_unit_test(chains_are_read_from_statements),
        cmocka_unit_test(all_chains_are_planted),
        cmocka_unit_test(rows_have_maxima_of_their_own),
        cmocka_unit_test(rows_have_every_size),
        cmocka_unit_test(scores_are_as_low_as_planted),
        cmocka_unit_test(scores_climb_in_every_way),
        cmocka_unit_test(tables_of_involved_uses_are_filled),
        cmocka_unit_test(lengths_in_tables_pass_blocks),
        cmocka_unit_test(what_is_not_compared_is_said),
        cmocka_unit_test(scalars_have_every_sign_and_magnitude),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
