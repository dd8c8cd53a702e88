/* Cases that are drawn: the same ones for a seed, with everything joined that a text makes
 * decisive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flashtl/execute.h"
#include "sample.h"
#include "verify/constants.h"
#include "verify/drawn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES = 128, BLOCK = 48 };

/* Blocks of 48 and 80, a window, a limit, two products in turn. */
static const char sketch[] =
    "kernel k // 3000 is no constant\nlet BM = 80, BN = 48, reach = 200\n"
    "Input  A (b in batch; i in rows, e)\nInput  B (b in batch; j in columns, e)\n"
    "Input  C (b in batch; j in columns, f)\nInput temperature f32\nInput most f32\n"
    "Input  lim i32\n"
    "Output D (b in batch; i in rows, f)\nCopy A from global to shared\n"
    "for n = 0:columns/BN\n    Copy B from global to shared\n    Compute GEMM A, B.T and get S\n"
    "    Compute Multiply S, temperature and get S\n    Compute Min S, most and get S\n"
    "    Compute Mask S where j < i - reach or j > i + lim\n"
    "    Compute Softmax S\n    Copy C from global to shared\n    Compute GEMM S, C and accumulate "
    "D\nend\nCopy D from register to global\n";

static const char paged[] =
    "kernel k\nlet x = 64, BN = 32\nInput Q (b in batch; q in rows, x)\n"
    "Input pool (page in pages, slot in room, x)\n"
    "Input table i32 (b in batch, place in most)\nInput lens i32 (b in batch)\n"
    "Input scale f32 where scale > 0\nlet len = lens[b]\n"
    "let K (b in batch; n in len, x) = pool[table[b, n/room], n % room, x]\n"
    "Output O (b in batch; q in rows, x)\nCopy Q from global to shared\nfor t = 0:len/BN\n"
    "    Copy K from global to shared\n    Compute GEMM Q, K.T and get S\n"
    "    Compute Multiply S, scale and get S\n    Compute Softmax S\n"
    "    Compute GEMM S, K and accumulate O\nend\nCopy O from register to global\n";

/* Queries that are divided by their length. */
static const char divided[] =
    "kernel k\nlet BN = 48\nInput A (i in rows, e)\nInput B (j in columns, e)\n"
    "Input C (j in columns, f)\nOutput D (i in rows, f)\nCopy A from global to register\n"
    "Compute Multiply A, A and get S\nCompute RowSum S and get r\nCompute Rsqrt r and get r\n"
    "Compute Multiply A, r and get A\nfor n = 0:columns/BN\n    Copy B from global to shared\n"
    "    Compute GEMM A, B.T and get S\n    Compute Softmax S\n"
    "    Copy C from global to shared\n    Compute GEMM S, C and accumulate D\nend\n"
    "Copy D from register to global\n";

/* Nothing but single elements, step by step. */
static const char single[] =
    "kernel k\nInput A (b in batch, n in steps; i in rows, j in columns)\n"
    "Input g f32 (n in steps)\nOutput C (b in batch, head in heads; i in rows, j in columns)\n"
    "for n = 0:steps\n    Copy A from global to register\n"
    "    Compute Multiply A, g[n] and get A\n    Compute Cast A and accumulate D\nend\n"
    "Copy D from register to global and get C\n";

typedef struct subject {
    ftl_plan *plan;
    verify_program program;
    ftl_pin pins[2];
    const verify_case *cases;
    int32_t count;
    arena memory;
} subject;

static void draw(subject *s, const char *shapes, int32_t more, uint64_t seed) {
    char why[FTL_WHY_BYTES] = "";
    verify_list list = {shapes, more, seed};
    if (!verify_cases(&s->program, &list, 0, &s->memory, &s->cases, &s->count, why))
        fail_msg("%s", why);
}

static void begin(subject *s, const char *text) {
    ftl_context *context;
    *s = (subject){.plan = NULL};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_source source = {"program", text, strlen(text)};
    ftl_status status = ftl_parameters(context, &source, FTL_F16, &s->plan);
    if (status) print_message("%s\n%s\n", text, ftl_context_error(context));
    assert_int_equal(status, FTL_OK);
    ftl_context_free(context);
    s->pins[0] = (ftl_pin){"e", "16"}, s->pins[1] = (ftl_pin){"f", "16"};
    s->program =
        (verify_program){.plan = s->plan, .sketch = source, .pins = s->pins, .pin_count = 2};
    arena_init(&s->memory, 256 << 20);
    draw(s, "none", CASES, 1);
    assert_int_equal(s->count, CASES);
}

static void end(subject *s) {
    arena_done(&s->memory);
    ftl_plan_free(s->plan);
}

static int64_t size_of(const subject *s, int32_t n, const char *name) {
    for (int32_t i = 0; i < s->plan->size_count; i++)
        if (!strcmp(s->plan->sizes[i].name, name)) return s->cases[n].sizes[i];
    fail_msg("no size '%s'", name);
    return -1;
}

static case_data data_of(subject *s, int32_t n) {
    case_data data = {.program = &s->program, .of = &s->cases[n], .seed = 3};
    char why[FTL_WHY_BYTES] = "";
    if (!inputs_make(&data, &s->memory, why)) fail_msg("%s", why);
    return data;
}

/* --- lists ------------------------------------------------------------------------------------ */

static void numbers_are_of_no_name(void **state) {
    (void)state;
    static const char text[] = "let BM_2 = 64 // 77\nA f16 1e-30 0.5 x7 12.5 9*d + 5000 -8, 64";
    static const int64_t wanted[] = {64, 1, 9, 8};
    verify_program program = {.sketch = {"k", text, sizeof text - 1}};
    constants found = constants_of(&program);
    assert_int_equal(found.count, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(found.values[i], wanted[i]);
}

static void a_seed_draws_the_same(void **state) {
    (void)state;
    subject s;
    begin(&s, sketch);
    const verify_case *all = s.cases;
    draw(&s, "none", CASES / 4, 1);
    assert_int_equal(s.count, CASES / 4);
    for (int32_t i = 0; i < s.count; i++) { /* fewer are the first of more */
        assert_memory_equal(s.cases[i].sizes, all[i].sizes, sizeof all[i].sizes);
        assert_true(s.cases[i].draw.seed == all[i].draw.seed && s.cases[i].number == i);
    }
    draw(&s, "none", CASES / 4, 2);
    int differ = 0;
    for (int32_t i = 0; i < s.count; i++)
        differ += memcmp(s.cases[i].sizes, all[i].sizes, sizeof all[i].sizes) != 0;
    assert_true(differ > CASES / 8);
    draw(&s, "decisive", 0, 1); /* a list is what it was, and those that are drawn come after it */
    int32_t listed = s.count;
    draw(&s, "decisive", 5, 1);
    assert_int_equal(s.count, listed + 5);
    for (int32_t i = 0; i < s.count; i++) {
        assert_int_equal(s.cases[i].number, i);
        assert_int_equal(s.cases[i].draw.seed != 0, i >= listed);
    }
    end(&s);
}

/* --- lengths ---------------------------------------------------------------------------------- */

/* Lengths about blocks of the text, several of them in several matrices, and steps between two. */
static void lengths_are_joined(void **state) {
    (void)state;
    enum { KINDS = 7 };
    subject s;
    begin(&s, sketch);
    int one[2][KINDS] = {{0}}, joined = 0, many = 0, equal = 0, empty = 0, met = 0;
    bool both[KINDS][KINDS] = {{false}};
    for (int32_t n = 0; n < CASES; n++) {
        int64_t length[2] = {size_of(&s, n, "rows"), size_of(&s, n, "columns")};
        int kind[2];
        for (int k = 0; k < 2; k++) {
            int64_t blocks = length[k] / BLOCK, rest = length[k] % BLOCK;
            kind[k] = length[k] < 2 ? 0 : length[k] < 32 ? 1 : !blocks ? 2 : blocks < 2 ? 3 : 0;
            if (blocks >= 2) kind[k] = blocks >= 3 ? 6 : rest ? 5 : 4;
            one[k][kind[k]]++;
        }
        both[kind[0]][kind[1]] = true;
        bool are_several = size_of(&s, n, "batch") >= 2;
        joined += are_several && length[0] > BLOCK && length[1] > 2 * BLOCK;
        many += length[1] > 3 * BLOCK && length[1] % BLOCK != 0;
        equal += length[0] == length[1] && length[0] > BLOCK;
        empty += (length[0] == 0) != (length[1] == 0);
        assert_true(s.cases[n].flops <= 8e7);
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < KINDS; i++) assert_true(one[k][i] > 0);
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++) met += both[i][k];
    print_message("%d pairs met; %d joined, %d long, %d equal, %d empty\n", met, joined, many,
                  equal, empty);
    assert_true(met >= 30 && joined >= 12 && many >= 12 && equal >= 3 && empty >= 6);
    end(&s);
}

/* An instruction for a few elements, of which a row's block takes its share: no case is so long
 * that a right kernel is taken for one that does not end.
 */
static void single_elements_cost_more(void **state) {
    (void)state;
    subject s;
    double most = 0;
    begin(&s, single);
    for (int32_t n = 0; n < CASES; n++) most = fmax(most, s.cases[n].flops);
    print_message("%g at most\n", most);
    assert_true(most > 1e6 && most <= 2.5e6);
    end(&s);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* A mask's number covers all of a row's keys, some, or none; a limit is near the values, or far. */
static void numbers_decide(void **state) {
    (void)state;
    subject s;
    begin(&s, sketch);
    int none = 0, half = 0, all = 0, near = 0, far = 0, low = 0, negative = 0;
    for (int32_t n = 0; n < CASES; n++) {
        case_data data = data_of(&s, n);
        double rows = (double)size_of(&s, n, "rows"), columns = (double)size_of(&s, n, "columns");
        double temperature = data.scalars[0].value, most = data.scalars[1].value;
        double lim = data.scalars[2].value;
        all += lim<-rows, none += lim> columns;
        half += fabs(lim) > 8 && lim > -rows && lim < columns;
        near += fabs(most) <= 8, far += most > 1000, low += most < -1000;
        negative += temperature < 0;
    }
    print_message("covers none %d, half %d, all %d; near %d, far %d, below %d; negative %d\n", none,
                  half, all, near, far, low, negative);
    assert_true(none >= 8 && half >= 8 && all >= 8);
    assert_true(near >= 8 && far >= 8 && low >= 8 && negative >= 8);
    end(&s);
}

static void sizes_of_values_differ(void **state) {
    (void)state;
    subject s;
    begin(&s, sketch);
    int larger = 0, smaller = 0;
    planted_turns chains = planted_find(&s.program);
    for (int32_t n = 0; n < CASES; n++) {
        case_data data = {.program = &s.program, .of = &s.cases[n]};
        for (int32_t t = 0; t < s.plan->tensor_count; t++) {
            larger += drawn_factor(&data, &chains.turns[0], t) > 16;
            smaller += drawn_factor(&data, &chains.turns[0], t) < 0.1;
        }
    }
    assert_true(larger >= 4 && smaller >= 4);
    end(&s);
}

/* Where queries are made small before they meet keys, those are large in half of all cases. */
static void keys_outweigh_changes(void **state) {
    (void)state;
    const char *const texts[] = {sketch, divided};
    int large[2] = {0};
    for (int i = 0; i < 2; i++) {
        subject s;
        begin(&s, texts[i]);
        for (int32_t n = 0; n < CASES; n++) large[i] += s.cases[n].draw.gain == DRAWN_LARGE_KEYS;
        end(&s);
    }
    print_message("%d and %d with large keys\n", large[0], large[1]);
    assert_true(large[0] >= 4 && large[0] <= CASES / 4 && large[1] > CASES / 4);
}

/* --- scores ----------------------------------------------------------------------------------- */

/* By how much the largest score of a block of keys is above all before it; blocks - 1 numbers. */
static int climbs_of(const case_data *data, int64_t row, int64_t keys, int64_t block, double step) {
    double a[64], b[64], top = -1e9, before = -1e9;
    int climbs = 0;
    buffer_load_row(&data->tensors[0], row, a);
    for (int64_t key = 0; key < keys; key++) {
        double score = 0;
        if (key % block == 0) before = top;
        buffer_load_row(&data->tensors[1], key, b);
        for (int e = 0; e < 64; e++) score += a[e] * b[e];
        top = fmax(top, score * data->scalars[0].value);
        bool is_last = key % block == block - 1 || key == keys - 1;
        climbs += is_last && before > -1e8 && top - before > step;
    }
    return climbs;
}

/* Every pattern, for the rows that should see it, by more than a vote's threshold. */
static void scores_go_by_blocks(void **state) {
    (void)state;
    enum { ROWS = 40, KEYS = 3 * BLOCK + 7, BLOCKS = 4 };
    subject s;
    begin(&s, sketch);
    static const uint8_t climbing[] = {DRAWN_CLIMB, DRAWN_COLUMNS, DRAWN_LAST_BLOCK,
                                       DRAWN_LAST_KEY};
    for (uint8_t rows = 0; rows < DRAWN_ROWS; rows++) {
        for (size_t p = 0; p < sizeof climbing; p++) {
            verify_case c = {.input = VERIFY_BLOCKS, .plant = 1, .sizes = {0}};
            for (int32_t i = 0; i < s.plan->size_count; i++) {
                const char *name = s.plan->sizes[i].name;
                c.sizes[i] = !strcmp(name, "rows") ? ROWS : !strcmp(name, "columns") ? KEYS : 1;
                if (!strcmp(name, "e") || !strcmp(name, "f")) c.sizes[i] = 64;
            }
            c.draw = (verify_draw){.seed = 7,
                                   .block = BLOCK,
                                   .pattern = climbing[p],
                                   .other_pattern = DRAWN_FAINT,
                                   .rows = rows};
            case_data data = {.program = &s.program, .of = &c, .seed = 3};
            char why[FTL_WHY_BYTES];
            assert_true(inputs_make(&data, &s.memory, why));
            int seeing = 0, some = 0, wanted = p < 2 ? BLOCKS - 1 : 1;
            for (int64_t row = 0; row < ROWS; row++) {
                int found = climbs_of(&data, row, KEYS, BLOCK, 7);
                seeing += found >= (wanted < 2 ? 1 : 2), some += found > 0;
            }
            static const int few[] = {ROWS, 5, 16, 24, 16, 0};
            bool is_exact = rows == DRAWN_ALL_ROWS || rows == DRAWN_ONE_OF_8 ||
                            rows == DRAWN_UPPER_8 || rows == DRAWN_LOWER_8;
            if (is_exact && (seeing != few[rows] || some != few[rows]))
                fail_msg("pattern %d, rows %d: %d, %d rows", climbing[p], rows, seeing, some);
            assert_true(is_exact || some <= ROWS * 2 / 3);
        }
    }
    end(&s);
}

/* Has a row a key past the first block that weighs about as much as all before it, and much more
 * than each of them? Those after it weigh little.
 */
static bool is_even(const case_data *data, int64_t row, int64_t keys, int64_t block) {
    double a[64], b[64], sum = 0, most = -INFINITY, scores[1024];
    bool is_found = false;
    buffer_load_row(&data->tensors[0], row, a);
    for (int64_t key = 0; key < keys; key++) {
        scores[key] = 0;
        buffer_load_row(&data->tensors[1], key, b);
        for (int e = 0; e < 16; e++) scores[key] += a[e] * b[e];
        scores[key] *= data->scalars[0].value;
    }
    for (int64_t key = 0; key < keys; key++) {
        double weight = exp(scores[key] - most);
        bool is_here = key >= block && weight > 32 && weight > 1.5 * sum && weight < 6 * sum;
        is_found = is_here || (is_found && weight < 0.5);
        sum = weight > 1 ? sum / weight + 1 : sum + weight;
        most = fmax(most, scores[key]);
    }
    return is_found;
}

/* Where a maximum moves, what was summed before it counts: in rows of many cases. */
static void sums_are_even(void **state) {
    (void)state;
    enum { MANY = 256 };
    subject s;
    begin(&s, sketch);
    draw(&s, "none", MANY, 1);
    int cases = 0, all = 0;
    for (int32_t n = 0; n < s.count; n++) {
        int64_t rows = size_of(&s, n, "rows"), keys = size_of(&s, n, "columns");
        if (s.cases[n].input != VERIFY_BLOCKS || keys > 1024 || keys <= BLOCK) continue;
        case_data data = data_of(&s, n);
        int found = 0;
        for (int64_t row = 0; row < rows; row++) found += is_even(&data, row, keys, BLOCK);
        cases += found > 0, all += found;
    }
    print_message("%d cases, %d rows\n", cases, all);
    assert_true(cases >= 6 && all >= 48);
    end(&s);
}

/* All patterns, rows, tables and inputs are there, and most pairs of patterns and rows. */
static void kinds_are_paired(void **state) {
    (void)state;
    subject s;
    begin(&s, sketch);
    bool seen[DRAWN_PATTERNS][DRAWN_ROWS] = {{false}}, inputs[VERIFY_BLOCKS + 1] = {false};
    int pairs = 0, by_blocks = 0;
    for (int32_t n = 0; n < CASES; n++) {
        const verify_case *c = &s.cases[n];
        inputs[c->input] = true, by_blocks += c->input == VERIFY_BLOCKS;
        seen[c->draw.pattern][c->draw.rows] = true;
    }
    for (int p = 0; p < DRAWN_PATTERNS; p++)
        for (int r = 0; r < DRAWN_ROWS; r++) pairs += seen[p][r];
    for (int i = 0; i <= VERIFY_BLOCKS; i++) assert_true(inputs[i]);
    print_message("%d of %d pairs, %d planted by blocks\n", pairs, DRAWN_PATTERNS * DRAWN_ROWS,
                  by_blocks);
    assert_true(pairs >= 42 && by_blocks >= CASES / 4);
    end(&s);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void tables_have_every_length(void **state) {
    (void)state;
    subject s;
    begin(&s, paged);
    int none = 0, one = 0, two = 0, three = 0, ragged = 0, longest = 0;
    for (int32_t n = 0; n < CASES; n++) {
        case_data data = data_of(&s, n);
        int64_t most = size_of(&s, n, "most") * size_of(&s, n, "room"),
                block = s.cases[n].draw.block;
        for (int32_t t = 0; t < s.plan->tensor_count; t++) {
            if (strcmp(s.plan->tensors[t].name, "lens")) continue;
            double values[64];
            buffer_load_row(&data.tensors[t], 0, values);
            for (int64_t i = 0; i < data.tensors[t].columns && i < 64; i++) {
                int64_t length = (int64_t)values[i];
                assert_true(length >= 0 && length <= most);
                none += length == 0, one += length == 1, longest += length == most && most > 64;
                two += length == 2 * block, three += length == 3 * block;
                ragged += length > 2 * block && length % block;
            }
        }
    }
    print_message("none %d, one %d, two %d, three %d, ragged %d, longest %d\n", none, one, two,
                  three, ragged, longest);
    assert_true(none > 0 && one > 0 && two > 0 && three > 0 && ragged > 0 && longest > 0);
    end(&s);
}

/* --- right programs --------------------------------------------------------------------------- */

#define SUMS(kernel, after)                                                                        \
    "kernel " kernel "\nlet k = 64\nInput A (m in rows, k)\nInput B (n in columns, k)\n"           \
    "Output C f32 (m in rows, n in columns)\nCopy A from global to shared\n"                       \
    "Copy B from global to shared\nCompute GEMM A, B.T and get S\n" after                          \
    "Copy S from register to global and get C\n"

static void count_failed(void *user, const verify_result *r) {
    int *failed = user;
    *failed += r->verdict == VERIFY_FAILED;
    if (r->verdict == VERIFY_FAILED) print_message("%s: %s\n", r->name, r->what);
}

/* Angles that may be anywhere on the circle, and products of two numbers that may be 0: what a
 * right kernel errs by there is not told by a place on either side of each operand.
 */
static void right_programs_do_not_fail(void **state) {
    (void)state;
    static const char *const texts[] = {
        SUMS("angles", "Compute Exp S\nCompute Sin S and get S\n"),
        SUMS("near_zero", "Compute Multiply S, S and get S\nCompute Cast S and get P\n"
                          "Compute Multiply P, 1.0 and get S\nCompute Sin S and get S\n"
                          "Compute Abs S and get T\nCompute Multiply T, 1.0 and get T\n"
                          "Compute Multiply S, T and get S\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ftl_context *context;
        subject s;
        int failed = 0;
        verify_machine *machine;
        verify_summary summary;
        begin(&s, texts[i]);
        s.program.code = s.program.sketch;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        assert_int_equal(
            verify_machine_open(context, &s.program, VERIFY_INTERPRETER, NULL, &machine), FTL_OK);
        verify_options options = {
            .shapes = "none", .more = 32, .seed = 1, .on_result = count_failed, .user = &failed};
        verify_run(context, &s.program, verify_machine_runner(machine), &options, &summary);
        assert_true(failed == 0 && summary.compared > 16);
        verify_machine_close(machine);
        ftl_context_free(context);
        end(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_of_no_name),
        cmocka_unit_test(a_seed_draws_the_same),
        cmocka_unit_test(lengths_are_joined),
        cmocka_unit_test(numbers_decide),
        cmocka_unit_test(sizes_of_values_differ),
        cmocka_unit_test(single_elements_cost_more),
        cmocka_unit_test(keys_outweigh_changes),
        cmocka_unit_test(scores_go_by_blocks),
        cmocka_unit_test(sums_are_even),
        cmocka_unit_test(kinds_are_paired),
        cmocka_unit_test(tables_have_every_length),
        cmocka_unit_test(right_programs_do_not_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
