/* What the integers of tables may be, found from their uses; and programs with tables, verified. */
#include "base/os.h"
#include "flashtl/execute.h"
#include "verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ftl_context *context;

static int open_context(void **state) {
    (void)state;
    return ftl_context_new(&context) != FTL_OK;
}

static int close_context(void **state) {
    (void)state;
    ftl_context_free(context);
    return 0;
}

static ftl_plan *parameters_of(const char *text) {
    ftl_source source = {"test.tl", text, strlen(text)};
    ftl_plan *plan = NULL;
    ftl_status status = ftl_parameters(context, &source, FTL_F16, &plan);
    if (status) print_message("%s\n", ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT));
    assert_int_equal(status, FTL_OK);
    return plan;
}

static const ftl_plan_tensor *tensor_named(const ftl_plan *plan, const char *name) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (strcmp(plan->tensors[t].name, name) == 0) return &plan->tensors[t];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* A program that reads X (x in x_len; d) at 'place', with tables t and u (i in t_len). */
static void uses_say_what_entries_may_be(void **state) {
    (void)state;
    static const struct {
        const char *lets, *length, *place;
        ftl_table_use use;
        const char *limit; /* of t */
    } rows[] = {
        {"", "n", "t[r]", FTL_TABLE_INDEX, "x_len"},
        {"", "n", "t[r/4]*4 + r % 4", FTL_TABLE_INDEX, "(x_len - (4 - 1))/4"},
        {"", "n", "t[r]/8", FTL_TABLE_INDEX, "x_len*8"},
        {"", "n", "t[u[r]]", FTL_TABLE_INDEX, "x_len"},
        {"", "n", "u[t[r]]", FTL_TABLE_INDEX, "t_len"},
        {"", "n", "t[r] + r", FTL_TABLE_INDEX, "x_len - (n - 1)"},
        {"let len = t[0]\n", "len", "r", FTL_TABLE_LENGTH, "x_len"},
        {"let len = t[0]\n", "len*8", "r", FTL_TABLE_LENGTH, "x_len/8"},
        {"let len = t[0]\n", "len", "u[r/16]*16 + r % 16", FTL_TABLE_LENGTH, "t_len*16"},
        {"let len = t[1] - t[0]\n", "len", "t[0] + r", FTL_TABLE_STARTS, "x_len"},
        {"", "n", "min(t[r], r)", FTL_TABLE_UNKNOWN, ""},
        {"", "n", "r", FTL_TABLE_FREE, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "kernel k\nInput X (x in x_len, d)\nInput Z (n, d)\nInput t i32 (i in t_len)\n"
                 "Input u i32 (i in t_len)\nOutput Y (n, d)\n%slet V (r in %s, d) = X[%s, d]\n"
                 "Copy V from global to register and get Y\nCopy Y from register to global\n",
                 rows[i].lets, rows[i].length, rows[i].place);
        ftl_plan *plan = parameters_of(text);
        const ftl_plan_tensor *t = tensor_named(plan, "t");
        if (t->use != rows[i].use) fail_msg("%s: use %d", rows[i].place, (int)t->use);
        const char *limit = t->limit.text ? t->limit.text : "";
        if (strcmp(limit, rows[i].limit) != 0) fail_msg("%s: '%s'", rows[i].place, limit);
        ftl_plan_free(plan);
    }
}

/* A table that says where results go names no place twice; one that is read through may. */
static void results_go_to_different_places(void **state) {
    (void)state;
    static const struct {
        const char *lets, *target;
        bool is_distinct;
    } rows[] = {
        {"let V (r in n, d) = Y[t[r], d]\n", "V", true},
        {"let V (r in n, d) = Y[t[r/4]*4 + r % 4, d]\n", "V", true},
        {"let W (r in n, d) = Y[t[r], d]\nlet V (r in n, d) = W[r, d]\n", "V", true},
        {"let U (r in n, d) = X[t[r], d]\nlet V (r in n, d) = Y[r, d]\n", "V", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "kernel k\nInput X (r in n, d)\nInput t i32 (r in n)\n"
                 "Output Y (y in room, d) kept\n%sCopy %s from global to register and get S\n"
                 "Copy S from register to global and get %s\n",
                 rows[i].lets, rows[i].is_distinct ? "X" : "U", rows[i].target);
        ftl_plan *plan = parameters_of(text);
        const ftl_plan_tensor *table = tensor_named(plan, "t");
        assert_int_equal(table->use, FTL_TABLE_INDEX);
        if (table->is_distinct != rows[i].is_distinct) fail_msg("row %zu", i);
        assert_true(tensor_named(plan, "Y")->is_kept);
        ftl_plan_free(plan);
    }
}

/* --- whole programs --------------------------------------------------------------------------- */

typedef struct record {
    int32_t passed;
    int64_t lengths; /* of all sizes together: cases differ */
} record;

static void on_result(void *user, const verify_result *result) {
    record *r = user;
    r->passed += result->verdict == VERIFY_PASSED;
    if (result->verdict == VERIFY_FAILED) print_message("%s: %s\n", result->name, result->what);
}

static void verify_file(const char *path, const char *cases, int32_t least) {
    char full[512];
    os_error why;
    text_buffer text;
    text_init(&text, 1 << 20);
    snprintf(full, sizeof full, "%s/%s", FLASHTL_SOURCE_FOLDER, path);
    assert_true(os_read_file(full, 1 << 20, &text, &why));
    ftl_source source = {path, text.data, text.length};
    ftl_plan *plan;
    assert_int_equal(ftl_parameters(context, &source, FTL_F16, &plan), FTL_OK);
    verify_program program = {.sketch = source, .code = source, .plan = plan};
    verify_machine *machine;
    assert_int_equal(verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine),
                     FTL_OK);
    record r = {0};
    verify_options how = {.seed = 3, .cases = cases, .on_result = on_result, .user = &r};
    verify_summary summary;
    ftl_status status =
        verify_run(context, &program, verify_machine_runner(machine), &how, &summary);
    if (status) print_message("%s: %s\n", path, ftl_context_error(context));
    assert_int_equal(status, FTL_OK);
    assert_true(r.passed >= least);
    verify_machine_close(machine);
    ftl_plan_free(plan);
    text_done(&text);
}

static void paged_and_ragged_programs(void **state) {
    (void)state;
    verify_file("tests/golden/tl/paged_decode.tl", "0,10", 2); /* two kernels */
    verify_file("tests/golden/tl/mla_decode.tl", "2,10", 2);   /* three roles */
    verify_file("tests/exec/odd/ragged_attention.tl", "0,1,4", 3);
}

/* One plan of two kernels: each name once, the stricter of two demands. */
static void plans_are_merged(void **state) {
    (void)state;
    char full[512];
    os_error why;
    text_buffer text;
    arena memory;
    text_init(&text, 1 << 20);
    arena_init(&memory, 16 << 20);
    snprintf(full, sizeof full, "%s/tests/golden/tl/paged_decode.tl", FLASHTL_SOURCE_FOLDER);
    assert_true(os_read_file(full, 1 << 20, &text, &why));
    ftl_source source = {"paged_decode.tl", text.data, text.length};
    ftl_product *product;
    assert_int_equal(ftl_build(context, &source, &(ftl_options)FTL_OPTIONS_INIT, &product), FTL_OK);
    const ftl_plan *plan = verify_merge_plans(product->kernels, product->kernel_count, &memory);
    assert_int_equal(plan->tensor_count, 8);
    assert_int_equal(plan->size_count, 8);
    assert_int_equal(tensor_named(plan, "O_part")->role, FTL_WORKSPACE);
    assert_int_equal(tensor_named(plan, "O")->role, FTL_OUTPUT);
    assert_int_equal(tensor_named(plan, "lse_part")->alignment_bytes, 4);
    const ftl_plan_tensor *lengths = tensor_named(plan, "kv_lens");
    assert_int_equal(lengths->use, FTL_TABLE_LENGTH);
    int64_t sizes[64] = {0};
    for (int32_t i = 0; i < plan->size_count; i++) sizes[i] = 10 + i;
    double value;
    assert_true(ftl_formula_evaluate(&lengths->limit, sizes, NULL, &value));
    int64_t expected_value = 1;
    for (int32_t i = 0; i < plan->size_count; i++) {
        const char *name = plan->sizes[i].name;
        bool counts = strcmp(name, "max_pages") == 0 || strcmp(name, "page_len") == 0;
        if (counts) expected_value *= sizes[i];
    }
    assert_true(value == (double)expected_value);
    ftl_product_free(product);
    arena_done(&memory);
    text_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_say_what_entries_may_be),
        cmocka_unit_test(results_go_to_different_places),
        cmocka_unit_test(plans_are_merged),
        cmocka_unit_test(paged_and_ragged_programs),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
