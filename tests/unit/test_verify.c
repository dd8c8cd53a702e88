/* The verifier judged: an honest kernel passes everywhere; each planted fault is rejected and
 * described for what it is.
 */
#include "base/os.h"
#include "sample.h"
#include "verify/buffer.h"
#include "verify/judge.h"
#include "verify_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct log {
    int results, progresses;
    verify_result last_failed, last;
    char failures[8][VERIFY_LINE_BYTES];
    int failure_count;
} record;

static void on_result(void *user, const verify_result *result) {
    record *r = user;
    r->results++;
    r->last = *result;
    if (result->verdict != VERIFY_FAILED) return;
    r->last_failed = *result;
    if (r->failure_count < 8)
        memcpy(r->failures[r->failure_count++], result->what, VERIFY_LINE_BYTES);
}

static void on_progress(void *user, const verify_progress *progress) {
    record *r = user;
    r->progresses++;
    assert_true(progress->done <= progress->total);
}

static const char *const causal[] = {"causal", "lse"};

static ftl_status judge(fault planted, const ftl_plan *plan, bool is_causal, const char *shapes,
                        const char *cases, record *out, verify_summary *summary) {
    ftl_context *context;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    kernel k = {.fault = planted, .is_causal = is_causal};
    verify_program program = {.operator_name = "attention",
                              .settings = is_causal ? causal : causal + 1,
                              .setting_count = is_causal ? 2 : 1,
                              .sketch = SAMPLE_SKETCH,
                              .plan = plan};
    verify_runner runner = {"a C function", sample_launch, &k, 2e8, 0, false};
    verify_options options = {.shapes = shapes,
                              .seed = 5,
                              .cases = cases,
                              .command = "flashtl verify",
                              .on_result = on_result,
                              .on_progress = on_progress,
                              .user = out};
    *out = (record){0};
    ftl_status status = verify_run(context, &program, &runner, &options, summary);
    if (status == FTL_CHECK_FAILED)
        assert_true(strstr(ftl_context_error(context), "failed") != NULL);
    ftl_context_free(context);
    return status;
}

/* --- right kernels ---------------------------------------------------------------------------- */

static void honest_kernels_pass(void **state) {
    (void)state;
    record r;
    verify_summary s;
    for (int variant = 0; variant < 4; variant++) {
        if (!sample_takes()) continue;
        const ftl_plan *plan = variant & 1 ? &bf16_plan : &f16_plan;
        ftl_status status = judge(RIGHT, plan, variant & 2, "small", NULL, &r, &s);
        if (status) print_message("%s: %s\n", r.last_failed.name, r.last_failed.what);
        assert_int_equal(status, FTL_OK);
        assert_int_equal(s.failed, 0);
        assert_int_equal(s.passed + s.skipped, s.total);
        assert_true(s.total >= 15 && r.results == s.total && r.progresses == s.total + 1);
        assert_true(s.worst_rms > s.rms_bound / 20 && s.worst_rms < s.rms_bound);
    }
}

static void empty_shapes_run_and_compare_nothing(void **state) {
    (void)state;
    record r;
    verify_summary s;
    assert_int_equal(judge(RIGHT, &f16_plan, true, "0x6x6x5x5,2x6x2x0x7,2x6x2x7x0", NULL, &r, &s),
                     FTL_OK);
    assert_int_equal(s.passed, 6);
    assert_int_equal(s.compared, 2); /* rows without keys are zeros */
}

/* --- wrong kernels ---------------------------------------------------------------------------- */

static void assert_described(const record *r, const char *what) {
    for (int i = 0; i < r->failure_count; i++) {
        if (strstr(r->failures[i], what)) return;
    }
    for (int i = 0; i < r->failure_count; i++)
        print_message("not '%s': %s\n", what, r->failures[i]);
    fail();
}

static const struct {
    fault fault;
    bool is_causal;
    const char *shapes;
    const char *says[3]; /* in the description of one of the failures */
} faults[] = {
    {DROP_LAST_TILE, false, "70x203", {"keys 192..202 are missing (the last tile)", "O: "}},
    {MASK_MORE, true, "113x203", {"the causal mask is off by one (one key too many)"}},
    {MASK_LESS, true, "113x203", {"the causal mask is off by one (one key too few)"}},
    {TOP_LEFT, true, "113x203", {"aligned top left instead of bottom right"}},
    {NO_RESCALE, false, "65x203", {"not rescaled when the maximum moves (blocks of 64 keys)"}},
    {WRONG_HEAD, false, "2x6x2x33x65", {"(a wrong map of heads)", "2 of 6 head, first 1"}},
    {STALE_V, false, "65x203", {"keys 64..127 meet the values of the tile 1 before"}},
    {NO_END, false, "65x203", {"53 keys past the end were counted with score 0"}},
    {READ_BEHIND, false, "65x203", {"NaN or infinity out of place"}},
    {ROWS_UNWRITTEN,
     false,
     "113x203",
     {"elements not written, at all b, all head, q 64..112 of 113 (the last tile of 64), all dv"}},
    {ONE_WARP, false, "192x64", {"(one warp's: 16 of each 64), dv 5 of 48"}},
    {COLUMN_BLOCK, false, "70x65", {"all q, dv 16..23 of 48 (a block of 8)"}},
    {WRITE_BEHIND,
     false,
     "2x6x2x33x65",
     {"6 bytes outside of 'O' were written, first 0 bytes past its end"}},
    {WRITE_BEFORE,
     false,
     "2x6x2x33x65",
     {"2 bytes outside of 'O' were written, first 2 bytes before it"}},
    {WRITE_GAP, false, "2x6x2x33x65", {"2 bytes between the rows of 'O' were written"}},
    {WRITE_INPUT, false, "2x6x2x33x65", {"the Input 'Q', or memory beside it, was written to"}},
    {UNSTEADY, false, "33x65", {"elements differ between two launches", "q 3 of 33, dv 0 of 48"}},
    {WRONG_LSE, false, "33x65", {"lse: log-sum-exp 0.01"}},
    {NO_SCALE, false, "33x65", {"the scale is missing"}},
    {LATE_ROW, true, "1x2x2x1023x1024", {"relative rms of a row", "q 1022 of 1023"}},
};

static void planted_faults_are_found_and_described(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (!sample_takes()) continue;
        record r;
        verify_summary s;
        ftl_status status =
            judge(faults[i].fault, &f16_plan, faults[i].is_causal, faults[i].shapes, NULL, &r, &s);
        if (status != FTL_CHECK_FAILED) print_message("fault %d passes\n", (int)faults[i].fault);
        assert_int_equal(status, FTL_CHECK_FAILED);
        for (int k = 0; k < 3 && faults[i].says[k]; k++) assert_described(&r, faults[i].says[k]);
    }
}

/* In bf16 a tile of 64 keys among 16 tiles, or one masked key, must not hide in the type's error.
 */
static void faults_are_found_in_bf16(void **state) {
    (void)state;
    static const fault some[] = {DROP_LAST_TILE, MASK_MORE, MASK_LESS, STALE_V, NO_RESCALE, NO_END};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        if (!sample_takes()) continue;
        record r;
        verify_summary s;
        bool is_causal = some[i] == MASK_MORE || some[i] == MASK_LESS;
        assert_int_equal(judge(some[i], &bf16_plan, is_causal, "40x1000", NULL, &r, &s),
                         FTL_CHECK_FAILED);
        assert_true(s.failed >= 1);
    }
}

/* A maximum that starts at 0 is right for every row that has a score above -80 or so. */
static void very_negative_scores_are_drawn(void **state) {
    (void)state;
    record r;
    verify_summary s;
    assert_int_equal(judge(FROM_ZERO, &f16_plan, true, "small", NULL, &r, &s), FTL_CHECK_FAILED);
    assert_true(strstr(r.last_failed.name, "low scores") != NULL);
}

/* A case that does not fit is skipped with its reason; the others run. */
static void a_case_without_room_is_skipped(void **state) {
    (void)state;
    record r;
    verify_summary s;
    const char *shapes = "1x64x64x16777216x16,1x1x1x5x5";
    assert_int_equal(judge(RIGHT, &f16_plan, true, shapes, NULL, &r, &s), FTL_OK);
    assert_int_equal(s.skipped, 2);
    assert_int_equal(s.passed, 2);
    assert_int_equal(s.compared, 2);
}

static void a_failure_can_be_run_again(void **state) {
    (void)state;
    record all, one;
    verify_summary s;
    assert_int_equal(judge(MASK_MORE, &f16_plan, true, "small", NULL, &all, &s), FTL_CHECK_FAILED);
    char command[200];
    snprintf(command, sizeof command, "flashtl verify --shapes small --seed 5 --case %d",
             (int)all.last_failed.number);
    assert_string_equal(all.last_failed.repro, command);
    char number[16];
    snprintf(number, sizeof number, "%d", (int)all.last_failed.number);
    assert_int_equal(judge(MASK_MORE, &f16_plan, true, "small", number, &one, &s),
                     FTL_CHECK_FAILED);
    assert_int_equal(s.total, 1);
    assert_string_equal(one.last.what, all.last_failed.what);
    assert_true(one.last.error == all.last_failed.error);
}

static void cases_are_chosen_by_number(void **state) {
    (void)state;
    record r;
    verify_summary s;
    assert_int_equal(judge(RIGHT, &f16_plan, true, "small", "1,3..5,900", &r, &s), FTL_OK);
    assert_int_equal(s.total, 4);
    assert_int_equal(r.last.number, 5);
    assert_int_equal(judge(RIGHT, &f16_plan, true, "small", "900", &r, &s), FTL_INVALID_ARGUMENT);
    assert_true(verify_cases_are_readable("0") && verify_cases_are_readable("2..2,1"));
    static const char *const wrong[] = {"", "x", "1,", "3..1", "-1", "1..", "..2", "1...2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (verify_cases_are_readable(wrong[i])) fail_msg("'%s' was read", wrong[i]);
    }
}

/* --- the judge alone -------------------------------------------------------------------------- */

/* Values that f16 holds with few digits: correctly rounded they are right, two steps away they are
 * not.
 */
static void denormal_values_are_judged_by_their_steps(void **state) {
    (void)state;
    enum { N = 4 };
    static const double values[N] = {-5.296e-6, 3e-7, -6.8e-92, 1.7e-5};
    uint8_t known[N], unwritten[N] = {0};
    double got[N];
    memset(known, EXPECTED_KNOWN, sizeof known);
    arena memory;
    arena_init(&memory, 1 << 20);
    buffer of = {.format = CONVERT_F16, .rows = 1, .columns = N};
    expected wanted = {.of = &of, .values = (double *)values, .state = known};
    judged output = {.expected = &wanted, .got = got, .unwritten = unwritten, .tolerance = 1e-3};
    for (int steps = 0; steps <= 2; steps += 2) {
        for (int i = 0; i < N; i++)
            got[i] = convert_round(CONVERT_F16, values[i]) + steps * 0x1p-24;
        judgement j;
        judge_output(&output, &memory, &j);
        assert_int_equal(j.is_right, steps == 0);
    }
    arena_done(&memory);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void shapes_are_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *shapes;
        int32_t count; /* -1: refused */
        const char *why;
    } rows[] = {
        {"113x203,1x1024", 4, ""},
        {" 1 x 2 , 3x4", 4, ""},
        {"2x6x2x113x203", 2, ""},
        {"", -1, "no shape"},
        {"1x", -1,
         "has 1 lengths; expected q_len x kv_len, or batchxq_headsxkv_headsxq_lenxkv_len"},
        {"1x2x3", -1, "has 3 lengths"},
        {"1xa", -1, "'a' is no length"},
        {"-1x2", -1, "'-1' is no length"},
        {"1x99999999999999999999", -1, "is no length"},
        {"1x2,,3x4", -1, "has 0 lengths"},
    };
    arena memory;
    arena_init(&memory, 64 << 20);
    verify_program program = {
        .operator_name = "attention", .sketch = SAMPLE_SKETCH, .plan = &f16_plan};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const verify_case *cases;
        int32_t count = -1;
        char why[FTL_WHY_BYTES] = "";
        bool is_read = verify_cases(&program, &(verify_list){.shapes = rows[i].shapes}, 0, &memory,
                                    &cases, &count, why);
        assert_int_equal(is_read, rows[i].count >= 0);
        if (is_read) assert_int_equal(count, rows[i].count);
        else if (!strstr(why, rows[i].why)) fail_msg("'%s' in '%s'", rows[i].why, why);
    }
    arena_done(&memory);
}

static void all_cases_cover_what_the_design_asks(void **state) {
    (void)state;
    static const int64_t pairs[][2] = {{1, 1},       {63, 63},     {64, 64}, {65, 65},
                                       {113, 203},   {127, 513},   {799, 3}, {1, 1024},
                                       {1023, 1024}, {4224, 4224}, {0, 64},  {64, 0}};
    static const int64_t heads[][2] = {{6, 6}, {6, 2}, {6, 1}, {64, 8}};
    arena memory;
    arena_init(&memory, 64 << 20);
    verify_program program = {
        .operator_name = "attention", .sketch = SAMPLE_SKETCH, .plan = &f16_plan};
    const verify_case *all, *few;
    int32_t count, few_count;
    char why[FTL_WHY_BYTES];
    assert_true(
        verify_cases(&program, &(verify_list){.shapes = "all"}, 0, &memory, &all, &count, why));
    assert_true(verify_cases(&program, &(verify_list){.shapes = "all"}, 1e8, &memory, &few,
                             &few_count, why));
    assert_true(few_count > 0 && few_count < count);
    for (int32_t i = 0; i < few_count;
         i++) { /* a limit leaves cases out; the others keep their numbers */
        assert_in_range(few[i].number, 0, count - 1);
        assert_memory_equal(few[i].sizes, all[few[i].number].sizes, sizeof few[i].sizes);
    }
    int seen_pairs = 0, seen_heads = 0, layouts = 0, empty_batches = 0;
    for (int p = 0; p < 12; p++) {
        bool is_seen = false;
        for (int32_t i = 0; i < count; i++) {
            is_seen |= all[i].sizes[Q_LEN] == pairs[p][0] && all[i].sizes[KV_LEN] == pairs[p][1];
        }
        seen_pairs += is_seen;
    }
    for (int h = 0; h < 4; h++) {
        bool is_seen = false;
        for (int32_t i = 0; i < count; i++) {
            is_seen |=
                all[i].sizes[Q_HEADS] == heads[h][0] && all[i].sizes[KV_HEADS] == heads[h][1];
        }
        seen_heads += is_seen;
    }
    for (int32_t i = 0; i < count; i++) {
        layouts |= 1 << all[i].layout;
        empty_batches += all[i].sizes[BATCH] == 0;
        assert_int_equal(all[i].number, i);
    }
    assert_int_equal(seen_pairs, 12);
    assert_int_equal(seen_heads, 4);
    assert_int_equal(layouts, 15);
    assert_int_equal(empty_batches, 1);
    arena_done(&memory);
}

/* --- the interpreter as reference and as runner ----------------------------------------------- */

static ftl_status read_program(const char *path, text_buffer *text) {
    os_error why;
    text_init(text, 1 << 20);
    return os_read_file(path, 1 << 20, text, &why) ? FTL_OK : FTL_NO_FILE;
}

/* Sketches that are not shipped: parameters, cases, and both meanings of the same text agree. */
static void sketches_are_judged_by_interpretation(void **state) {
    (void)state;
    static const struct {
        const char *path, *shapes, *operator_name;
    } rows[] = {
        {"tests/exec/odd/sigmoid_attention.tl", "33x65,3x1", NULL},
        {"tests/exec/odd/relu_squared_window.tl", "33x165", NULL},
        {"tests/exec/odd/gemm_row_scale.tl", "33x65x40,1x1x8,65x3x0", NULL},
        {"sketches/row_softmax.tl", "5x200,65x1", "row_softmax"},
        {"sketches/chained_gemms.tl", "2x33x16x65x24", "chained_gemms"},
        {"sketches/gemm_bias_gelu.tl", "33x65x40,1x3x0", "gemm_bias_gelu"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[512];
        text_buffer text;
        snprintf(path, sizeof path, "%s/%s", FLASHTL_SOURCE_FOLDER, rows[i].path);
        assert_int_equal(read_program(path, &text), FTL_OK);
        ftl_source source = {rows[i].path, text.data, text.length};
        ftl_context *context;
        ftl_plan *plan;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        ftl_status status = ftl_parameters(context, &source, FTL_F16, &plan);
        if (status) print_message("%s\n", ftl_context_error(context));
        assert_int_equal(status, FTL_OK);
        verify_program program = {
            .operator_name = rows[i].operator_name, .sketch = source, .code = source, .plan = plan};
        verify_machine *machine;
        assert_int_equal(verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine),
                         FTL_OK);
        record r = {0};
        verify_summary s;
        verify_options options = {
            .shapes = rows[i].shapes, .seed = 1, .on_result = on_result, .user = &r};
        status = verify_run(context, &program, verify_machine_runner(machine), &options, &s);
        if (status || s.skipped)
            print_message("%s: %s %s\n", path, ftl_context_error(context), r.last.what);
        assert_int_equal(status, FTL_OK);
        assert_int_equal(s.passed, s.total);
        verify_machine_close(machine);
        ftl_plan_free(plan);
        ftl_context_free(context);
        text_done(&text);
    }
}

/* --- results as text -------------------------------------------------------------------------- */

static void results_are_lines(void **state) {
    (void)state;
    verify_result r = {.number = 3,
                       .name = "q_len 1",
                       .verdict = VERIFY_FAILED,
                       .rule = "relative rms",
                       .tensor = "O",
                       .error = INFINITY,
                       .bound = 1e-3,
                       .ran_on = "emulator",
                       .what = "O: \"wrong\"",
                       .repro = "flashtl verify --case 3"};
    text_buffer out;
    text_init(&out, 1 << 16);
    verify_result_text(&r, &out);
    assert_string_equal(
        out.data,
        "FAIL  case 3: q_len 1\n      O: \"wrong\"\n      again: flashtl verify --case 3\n");
    out.length = 0;
    verify_result_json(&r, &out);
    assert_true(strstr(out.data, "\"error\":null") && strstr(out.data, "O: \\\"wrong\\\""));
    text_done(&out);
}

/* Whoever counts on the stride of an axis that has one element reads what is nobody's. */
static void a_second_index_on_an_axis_of_one_leads_out(void **state) {
    (void)state;
    ftl_plan_tensor of = {.name = "X", .type = FTL_F16, .alignment_bytes = 16, .axis_count = 4};
    for (int i = 0; i < 4; i++) of.axes[i].stride_offset = i < 3 ? 8 * i : -1;
    for (int of_one = 0; of_one < 8; of_one++) {
        for (int layout = VERIFY_DENSE; layout <= VERIFY_TURNED_PADDED; layout++) {
            arena memory;
            buffer b;
            int64_t extents[4], span = 1;
            arena_init(&memory, 1 << 20);
            for (int i = 0; i < 4; i++) extents[i] = i == 3 ? 16 : of_one >> i & 1 ? 1 : 3 + i;
            buffer_new(&memory, &of, extents, (verify_layout)layout, &b);
            for (int i = 0; i < 4; i++) span += (extents[i] - 1) * b.argument.strides[i];
            for (int i = 0; i < 3; i++) {
                assert_int_equal(b.argument.strides[i] % 8, 0);
                if (extents[i] == 1) assert_true(b.argument.strides[i] >= span);
                else assert_true(b.argument.strides[i] < span);
            }
            arena_done(&memory);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_kernels_pass),
        cmocka_unit_test(a_second_index_on_an_axis_of_one_leads_out),
        cmocka_unit_test(empty_shapes_run_and_compare_nothing),
        cmocka_unit_test(planted_faults_are_found_and_described),
        cmocka_unit_test(faults_are_found_in_bf16),
        cmocka_unit_test(cases_are_chosen_by_number),
        cmocka_unit_test(denormal_values_are_judged_by_their_steps),
        cmocka_unit_test(very_negative_scores_are_drawn),
        cmocka_unit_test(a_case_without_room_is_skipped),
        cmocka_unit_test(a_failure_can_be_run_again),
        cmocka_unit_test(shapes_are_read_or_refused),
        cmocka_unit_test(all_cases_cover_what_the_design_asks),
        cmocka_unit_test(sketches_are_judged_by_interpretation),
        cmocka_unit_test(results_are_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
