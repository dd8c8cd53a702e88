/* Outputs of which elements stay as they were: what a kernel may leave, and must not touch. */
#include "base/convert.h"
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

/* Rows go where a table says. */
#define SCATTER(type, clause)                                                                      \
    "kernel scatter\nInput X " type " (r in n, d) where n <= room\nInput place i32 (r in n)\n"     \
    "Output Y " type " (x in room, d)" clause "\nlet Z (r in n, d) = Y[place[r], d]\n"             \
    "Copy X from global to register\nCopy X from register to global and get Z\n"

typedef enum fault { RIGHT, EXTRA, MISSING } fault;

typedef struct kernel {
    ftl_source source;
    fault fault;
    int planted; /* launches in which there was a place for the fault */
} kernel;

static const ftl_tensor *named(const ftl_arguments *arguments, const char *name) {
    for (int32_t i = 0; i < arguments->tensor_count; i++)
        if (strcmp(arguments->tensors[i].name, name) == 0) return &arguments->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The first row that the table names, or the first that it does not; -1: there is none. */
static int64_t find_row(const ftl_arguments *arguments, bool is_named) {
    const ftl_tensor *place = named(arguments, "place"), *y = named(arguments, "Y");
    const int32_t *entries = (const int32_t *)(uintptr_t)place->address;
    for (int64_t x = 0; x < y->extents[0]; x++) {
        bool is_found = false;
        for (int64_t r = 0; r < place->extents[0]; r++)
            is_found |= entries[r * place->strides[0]] == x;
        if (is_found == is_named) return x;
    }
    return -1;
}

/* As the interpreter; then a row too many is written, or one is put back. */
static ftl_status launch(void *user, ftl_context *context, const ftl_arguments *arguments,
                         double *milliseconds, text_buffer *detail) {
    (void)detail;
    kernel *k = user;
    *milliseconds = 1;
    const ftl_tensor *y = named(arguments, "Y");
    int64_t row = k->fault == RIGHT ? -1 : find_row(arguments, k->fault == MISSING);
    size_t bytes = ftl_type_bytes(y->type);
    char *at = (char *)(uintptr_t)y->address + row * y->strides[0] * (int64_t)bytes, before[4];
    bool is_planted = row >= 0 && y->extents[1] > 0;
    if (is_planted) memcpy(before, at, bytes);
    ftl_status status = ftl_interpret(context, &k->source, FTL_ROUNDED, arguments);
    if (!is_planted) return status;
    k->planted++;
    if (k->fault == MISSING) memcpy(at, before, bytes);
    else memset(at, 0x31, bytes);
    return status;
}

typedef struct record {
    int failed, skipped;
    bool is_open; /* no case could compare most of an Output */
    char what[1024];
} record;

static void on_result(void *user, const verify_result *result) {
    record *r = user;
    r->skipped += result->verdict == VERIFY_SKIPPED;
    if (result->verdict != VERIFY_FAILED) return;
    r->failed++;
    snprintf(r->what, sizeof r->what, "%s", result->what);
}

static ftl_status judge(const char *text, fault planted, record *r, kernel *k) {
    ftl_context *context;
    ftl_plan *plan;
    verify_summary summary;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    *r = (record){0};
    *k = (kernel){.source = {"scatter.tl", text, strlen(text)}, .fault = planted};
    assert_int_equal(ftl_parameters(context, &k->source, FTL_F16, &plan), FTL_OK);
    verify_program program = {.sketch = k->source, .plan = plan};
    verify_runner runner = {"a C function", launch, k, 2e8, 2e8, false};
    verify_options options = {.seed = 5, .on_result = on_result, .user = r};
    ftl_status status = verify_run(context, &program, &runner, &options, &summary);
    r->is_open = summary.open != NULL;
    ftl_plan_free(plan);
    ftl_context_free(context);
    return status;
}

static const char *const kept[] = {SCATTER("f32", " kept"), SCATTER("f16", " kept"),
                                   SCATTER("e4m3", " kept"), SCATTER("i8", " kept")};

static void what_nothing_writes_stays(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        record r;
        kernel k;
        if (judge(kept[i], RIGHT, &r, &k) != FTL_OK) fail_msg("%d: %s", i, r.what);
        assert_int_equal(r.failed, 0);
        assert_int_equal(r.skipped, 0); /* tables name no place twice */
    }
}

static void rows_too_many_and_too_few_are_found(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (fault f = EXTRA; f <= MISSING; f++) {
            record r;
            kernel k;
            assert_int_equal(judge(kept[i], f, &r, &k), FTL_CHECK_FAILED);
            assert_true(k.planted > 3 && r.failed > 3);
            bool is_byte = i >= 2;
            const char *says =
                f == EXTRA ? "elements written that stay as they were" : "elements not written";
            if (!strstr(r.what, says) && !(is_byte && f == MISSING)) fail_msg("%d: %s", i, r.what);
        }
    }
}

/* Without the word, elements that nothing writes are a mistake of the program. */
static void other_outputs_are_written_whole(void **state) {
    (void)state;
    record r;
    kernel k;
    assert_int_not_equal(judge(SCATTER("f32", ""), RIGHT, &r, &k), FTL_OK);
}

/* A program that no case makes write anything is not taken for verified. */
static void what_is_never_written_is_not_verified(void **state) {
    (void)state;
    record r;
    kernel k;
    static const char idle[] =
        "kernel idle\nInput X f32 (r in n, d) where n <= room\nInput place i32 (r in n)\n"
        "Input few i32 where few == 0\nOutput Y f32 (x in room, d) kept\n"
        "let some = min(few, n)\nlet W (i in some, d) = X[i, d]\n"
        "let Z (i in some, d) = Y[place[i], d]\n"
        "Copy W from global to register\nCopy W from register to global and get Z\n";
    assert_int_equal(judge(idle, RIGHT, &r, &k), FTL_OK);
    assert_true(r.is_open);
    assert_int_equal(judge(kept[0], RIGHT, &r, &k), FTL_OK);
    assert_false(r.is_open);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nothing_writes_stays),
        cmocka_unit_test(rows_too_many_and_too_few_are_found),
        cmocka_unit_test(what_is_never_written_is_not_verified),
        cmocka_unit_test(other_outputs_are_written_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
