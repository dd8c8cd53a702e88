/* Results that are kept by what decides them: never another key's, and what a launch takes from
 * them is what it would have computed.
 */
#include "base/kept.h"
#include "plan/plan.h"
#include "plan_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 16, KEY_WORDS = 3, RESULT_WORDS = 5, ROUNDS = 20000 };

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void write_result(const uint64_t *key, uint64_t *result) {
    for (uint64_t i = 0; i < RESULT_WORDS; i++) result[i] = key[i % KEY_WORDS] * 31 + i;
}

/* More keys than there is room for, which differ in any of their words, 0 among them. */
static void a_key_finds_its_own(void **state) {
    (void)state;
    unsigned seed = 1;
    int found_count = 0;
    kept *table = kept_new(COUNT, KEY_WORDS, RESULT_WORDS);
    assert_non_null(table);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t key[KEY_WORDS], wanted[RESULT_WORDS], found[RESULT_WORDS];
        for (int k = 0; k < KEY_WORDS; k++) key[k] = next_random(&seed) % 3;
        write_result(key, wanted);
        if (kept_find(table, key, found)) {
            assert_memory_equal(found, wanted, sizeof wanted);
            found_count++;
        } else {
            kept_put(table, key, wanted);
            assert_true(kept_find(table, key, found));
            assert_memory_equal(found, wanted, sizeof wanted);
        }
    }
    assert_in_range(found_count, ROUNDS / 10, ROUNDS - COUNT);
    kept_free(table);
    kept_free(NULL);
}

/* --- launches --------------------------------------------------------------------------------- */

static const ftl_formula_step length_steps[] = {SIZE_STEP(SAMPLE_Q_LEN)};
static const ftl_plan_derived derived[] = {
    {"tiles", FTL_DERIVED_TILES, {.text = ""}, 152},
    {"length", FTL_DERIVED_VALUE, FORMULA("q_len", length_steps), 156},
    {"by_length", FTL_DERIVED_DIVISOR, FORMULA("q_len", length_steps), 160}};

static ftl_plan derived_plan(ftl_grid_kind grid) {
    ftl_plan plan = sample_plan;
    plan.derived = derived, plan.derived_count = 3, plan.parameter_bytes = 176;
    plan.grid_kind = grid, plan.resident_blocks = 20;
    plan.counters_offset = grid == FTL_GRID_DYNAMIC ? 168 : -1;
    return plan;
}

/* With the table and without it: the same launch, or the same sentence. */
static bool resolve_both(const ftl_plan *plan, kept *table, const sample_call *call) {
    static ftl_launch launches[2];
    char why[2][FTL_WHY_BYTES];
    const ftl_arguments arguments = {call->tensors, 4, call->scalars, 1};
    bool is_right = plan_resolve_checked(plan, &arguments, NULL, &launches[0], why[0]);
    assert_int_equal(plan_resolve_checked(plan, &arguments, table, &launches[1], why[1]), is_right);
    assert_string_equal(why[1], why[0]);
    if (!is_right) return false;
    assert_int_equal(launches[1].grid, launches[0].grid);
    assert_int_equal(launches[1].tiles, launches[0].tiles);
    assert_memory_equal(launches[1].sizes, launches[0].sizes, sizeof launches[0].sizes);
    assert_memory_equal(launches[1].parameters, launches[0].parameters,
                        (size_t)plan->parameter_bytes);
    return true;
}

static void launches_are_as_computed(void **state) {
    (void)state;
    static const ftl_grid_kind grids[] = {FTL_GRID_PLAIN, FTL_GRID_PERSISTENT, FTL_GRID_DYNAMIC};
    for (int g = 0; g < 3; g++) {
        ftl_plan plan = derived_plan(grids[g]);
        char why[FTL_WHY_BYTES];
        assert_true(ftl_plan_check(&plan, why));
        kept *table = plan_numbers_new(&plan);
        assert_non_null(table);
        unsigned seed = 7;
        int right = 0;
        for (int i = 0; i < 3000; i++) {
            int64_t lengths[] = {0, 1, 64, 65, 4096};
            sample_call call = sample_arguments(
                next_random(&seed) % 3, 1 + next_random(&seed) % 6, 1 + next_random(&seed) % 3,
                lengths[next_random(&seed) % 5], lengths[next_random(&seed) % 5]);
            call.scalars[0].value = next_random(&seed) % 4 - 1.0; /* at times not above 0 */
            call.tensors[0].address += 16 * (next_random(&seed) % 4);
            right += resolve_both(&plan, table, &call);
        }
        assert_in_range(right, 500, 2500);
        kept_free(table);
    }
}

/* What is kept is no excuse for what does not decide it: addresses and strides. */
static void addresses_are_looked_at_every_time(void **state) {
    (void)state;
    ftl_plan plan = derived_plan(FTL_GRID_PLAIN);
    kept *table = plan_numbers_new(&plan);
    sample_call right = sample_arguments(2, 8, 4, 100, 200), wrong[4];
    for (int i = 0; i < 4; i++) wrong[i] = right;
    wrong[0].tensors[1].address += 2;
    wrong[1].tensors[2].address = 0;
    wrong[2].tensors[3].strides[1] += 1;
    wrong[3].tensors[0].strides[3] = 2;
    for (int i = 0; i < 4; i++) {
        assert_true(resolve_both(&plan, table, &right));
        assert_false(resolve_both(&plan, table, &wrong[i]));
    }
    kept_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_finds_its_own),
        cmocka_unit_test(launches_are_as_computed),
        cmocka_unit_test(addresses_are_looked_at_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
