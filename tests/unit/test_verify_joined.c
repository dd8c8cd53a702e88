/* What drawn cases join so that it decides: the limit of a Mask inside a block, scores of one sign,
 * factors that leave scores as they are planted, as many matrices as an axis is long; and a text
 * that is run without rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flashtl/execute.h"
#include "verify/drawn.h"
#include "verify/limits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES = 64, WIDTH = 16 };

/* A factor of scores, a number in a window by way of lets, and keys that are values, too. */
static const char window[] =
    "kernel k\nlet BM = 80, BN = 48\nInput A (b in batch; i in rows, e)\n"
    "Input B (b in batch; j in columns, e)\nInput w f32 (b in batch, i in rows)\n"
    "Input lim i32\nlet offset = columns - rows\nlet first = offset - lim\n"
    "Output D (b in batch; i in rows, e)\nCopy A from global to shared\n"
    "for n = 0:columns/BN\n    Copy B from global to shared\n    Compute GEMM A, B.T and get S\n"
    "    Compute Multiply S, w[b, i] and get S\n"
    "    Compute Mask S where i >= 40 or not j <= i + first - 1\n"
    "    Compute Softmax S\n    Compute GEMM S, B and accumulate D\nend\n"
    "Copy D from register to global\n";

/* As many heads as keys. */
static const char tied[] =
    "kernel k\nlet BM = 80, BN = 48\nInput A (h in heads; i in rows, e) where heads == columns\n"
    "Input B (h in heads; j in columns, e)\nOutput C f32 (h in heads; i in rows, j in columns)\n"
    "Copy A from global to shared\nfor n = 0:columns/BN\n    Copy B from global to shared\n"
    "    Compute GEMM A, B.T and get S\n    Copy S from register to global and get C\nend\n";

typedef struct subject {
    ftl_context *context;
    ftl_plan *plan;
    verify_program program;
    ftl_pin pin;
    const verify_case *cases;
    int32_t count;
    arena memory;
} subject;

static void begin(subject *s, const char *text, const char *width) {
    char why[FTL_WHY_BYTES] = "";
    verify_list list = {"none", CASES, 1};
    *s = (subject){.plan = NULL};
    assert_int_equal(ftl_context_new(&s->context), FTL_OK);
    ftl_source source = {"program", text, strlen(text)};
    ftl_status status = ftl_parameters(s->context, &source, FTL_F16, &s->plan);
    if (status) print_message("%s\n%s\n", text, ftl_context_error(s->context));
    assert_int_equal(status, FTL_OK);
    s->pin = (ftl_pin){"e", width};
    s->program =
        (verify_program){.plan = s->plan, .sketch = source, .pins = &s->pin, .pin_count = 1};
    arena_init(&s->memory, 256 << 20);
    if (!verify_cases(&s->program, &list, 0, &s->memory, &s->cases, &s->count, why))
        fail_msg("%s", why);
}

static void end(subject *s) {
    arena_done(&s->memory);
    ftl_plan_free(s->plan);
    ftl_context_free(s->context);
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

/* --- numbers ---------------------------------------------------------------------------------- */

/* The last key that row 0 sees is inside the second or third block, or a row's in 24 before it. */
static void limits_are_inside_blocks(void **state) {
    (void)state;
    subject s;
    begin(&s, window, "16");
    int by_blocks = 0, inside = 0;
    for (int32_t n = 0; n < s.count; n++) {
        const verify_case *c = &s.cases[n];
        double block = c->draw.block, value;
        double offset = (double)(size_of(&s, n, "columns") - size_of(&s, n, "rows"));
        case_data data = {.program = &s.program, .of = c, .seed = 3};
        assert_true(limits_inside_block(&data, "lim", (uint64_t)n, &value));
        double key = offset - value - 1; /* of row 0 */
        assert_true(key >= block - 24 && key <= 3 * block);
        assert_false(limits_inside_block(&data, "li", 0, &value));
        if (c->input != VERIFY_BLOCKS) continue;
        data = data_of(&s, n);
        key = offset - data.scalars[0].value - 1;
        by_blocks++, inside += key >= block - 24 && key <= 3 * block;
    }
    print_message("%d of %d with scores by blocks have their limit inside\n", inside, by_blocks);
    assert_true(inside >= by_blocks / 3);
    end(&s);
}

/* --- scores ----------------------------------------------------------------------------------- */

static void scores_of_one_sign_are_drawn(void **state) {
    (void)state;
    subject s;
    begin(&s, window, "16");
    int found = 0;
    for (int32_t n = 0; n < s.count; n++) {
        case_data data = data_of(&s, n);
        int64_t below = 0, count = 0;
        for (int t = 0; t < 2; t++) {
            double row[WIDTH];
            for (int64_t r = 0; r < data.tensors[t].rows; r++) {
                buffer_load_row(&data.tensors[t], r, row);
                for (int e = 0; e < WIDTH; e++) below += row[e] < 0, count++;
            }
        }
        found += count > 100 && !below;
    }
    print_message("%d of one sign\n", found);
    assert_true(found >= 2);
    end(&s);
}

/* Scores are what they were planted to be, and high enough for keys that are values, too. */
static void planted_scores_are_kept(void **state) {
    (void)state;
    subject s;
    begin(&s, window, "16");
    int by_blocks = 0, plain = 0, large = 0, long_enough = 0;
    for (int32_t n = 0; n < s.count; n++) {
        const verify_case *c = &s.cases[n];
        if (c->input != VERIFY_BLOCKS) continue;
        case_data data = data_of(&s, n);
        double *factors = buffer_load(&data.tensors[2], &s.memory);
        bool is_one = true;
        for (int64_t i = 0; i < data.tensors[2].rows * data.tensors[2].columns; i++)
            is_one &= factors[i] == 1;
        by_blocks++, plain += is_one, large += c->draw.gain == DRAWN_LARGE_KEYS;
        long_enough += size_of(&s, n, "columns") >= 3 * c->draw.block;
    }
    print_message("of %d: factors of 1 %d, large keys %d, three blocks %d\n", by_blocks, plain,
                  large, long_enough);
    assert_true(plain >= by_blocks / 4 && plain < by_blocks);
    assert_true(large >= by_blocks / 5 && long_enough >= by_blocks / 3);
    end(&s);
}

/* --- lengths ---------------------------------------------------------------------------------- */

static void matrices_follow_a_length(void **state) {
    (void)state;
    enum { BLOCK = 48 };
    subject s;
    begin(&s, tied, "128");
    int several = 0;
    for (int32_t n = 0; n < s.count; n++) {
        assert_int_equal(size_of(&s, n, "heads"), size_of(&s, n, "columns"));
        several += size_of(&s, n, "heads") > BLOCK;
        assert_true(s.cases[n].flops <= 8e7);
    }
    print_message("%d with more than a block of heads\n", several);
    assert_true(several >= 2);
    end(&s);
}

/* --- without rounding ------------------------------------------------------------------------- */

#define SHIFTED(first, second)                                                                     \
    "kernel k\nInput A f16 (m in rows, n in columns)\nInput t i32 (m in rows)\n"                   \
    "Output C f32 (m in rows, n in columns)\nfor j = 0:columns/BN\n"                               \
    "    Copy A from global to register and get S\n    Compute " first "\n    Compute " second     \
    "\n    Copy S from register to global and get C\nend\n"
#define MASK "Mask S, -3.0 where t[m] == 0"

static int failed_of(const char *text, const char *code) {
    subject s;
    verify_machine *machine;
    verify_summary summary;
    begin(&s, text, "16");
    s.program.code = (ftl_source){"code", code, strlen(code)};
    assert_int_equal(verify_machine_open(s.context, &s.program, VERIFY_INTERPRETER, NULL, &machine),
                     FTL_OK);
    verify_options options = {.shapes = "none", .more = 24, .seed = 1};
    verify_run(s.context, &s.program, verify_machine_runner(machine), &options, &summary);
    int failed = summary.failed;
    assert_true(summary.compared + failed > 12);
    verify_machine_close(machine);
    end(&s);
    return failed;
}

/* Four steps of f32 are no more than rounding may do, and the text is wrong all the same; factors
 * in another order are right.
 */
static void texts_are_run_without_rounding(void **state) {
    (void)state;
    static const char text[] = SHIFTED(MASK, "Subtract S, 1e-06 and get S");
    assert_int_equal(failed_of(text, text), 0);
    assert_true(failed_of(text, SHIFTED("Subtract S, 1e-06 and get S", MASK)) > 4);
    static const char factors[] = SHIFTED("Multiply S, 0.3 and get S", "Multiply S, 0.7 and get S");
    assert_int_equal(
        failed_of(factors, SHIFTED("Multiply S, 0.7 and get S", "Multiply S, 0.3 and get S")), 0);
}

/* --- NaN -------------------------------------------------------------------------------------- */

#define LARGEST(before)                                                                            \
    "kernel k\nlet top = 8\nInput A f16 (m in rows, n in columns)\nOutput I i32 (m in rows, "      \
    "top)\n"                                                                                       \
    "for j = 0:columns/BN\n    Copy A from global to register\n" before                            \
    "    Compute RowTopK A, top and accumulate I\nend\nCopy I from register to global\n"

/* It is never among the largest: a text that takes it for a number is found, a right one is not. */
static void nan_is_no_element(void **state) {
    (void)state;
    static const char text[] = LARGEST("");
    assert_int_equal(failed_of(text, text), 0);
    assert_true(failed_of(text, LARGEST("    Compute Mask A, 1000 where not A > log(0)\n")) > 0);
}

#define PLACES(matrix, operand)                                                                    \
    "kernel k\nlet f = 8, d = 32, top = 16\nInput Q f16 (m in rows, f)\nInput Y f16 " matrix "\n"  \
    "Output I i32 (m in rows, top)\nCopy Q from global to shared\nCopy Y from global to shared\n"  \
    "Compute GEMM Q, " operand " and get S\nCompute RowTopK S, top and get I\n"                    \
    "Copy I from register to global\n"

/* Rows, or columns, of a matrix that have a NaN. */
static int64_t places_with_nan(subject *s, const buffer *b, bool is_by_row) {
    double *values = buffer_load(b, &s->memory);
    int64_t count = 0;
    for (int64_t i = 0; i < (is_by_row ? b->rows : b->columns); i++) {
        bool is_nan = false;
        for (int64_t k = 0; k < (is_by_row ? b->columns : b->rows); k++)
            is_nan |= isnan(values[is_by_row ? i * b->columns + k : k * b->columns + i]);
        count += is_nan;
    }
    return count;
}

/* Of most places that a RowTopK chooses from, where it asks for half of them. */
static void few_places_are_left(void **state) {
    (void)state;
    enum { PLACES_ALL = 32 };
    static const char *const texts[] = {PLACES("(f, d)", "Y"), PLACES("(d, f)", "Y.T")};
    for (int i = 0; i < 2; i++) {
        subject s;
        int found = 0;
        begin(&s, texts[i], "16");
        for (int32_t n = 0; n < s.count; n++) {
            case_data data = data_of(&s, n);
            int64_t count = places_with_nan(&s, &data.tensors[1], i == 1);
            found += count > PLACES_ALL / 2 && count < PLACES_ALL;
        }
        print_message("%d of %d with few places\n", found, s.count);
        assert_true(found >= 3);
        assert_int_equal(failed_of(texts[i], texts[i]), 0);
        end(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_inside_blocks),
        cmocka_unit_test(scores_of_one_sign_are_drawn),
        cmocka_unit_test(planted_scores_are_kept),
        cmocka_unit_test(matrices_follow_a_length),
        cmocka_unit_test(texts_are_run_without_rounding),
        cmocka_unit_test(nan_is_no_element),
        cmocka_unit_test(few_places_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
