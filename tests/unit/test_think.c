/* The parts of src/think that are pure: retries, events of streams, programs in answers, records.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "think/extract.h"
#include "think/provider.h"
#include "think/record.h"
#include "think/retry.h"
#include "think/sse.h"

#include <string.h>

/* --- retries ---------------------------------------------------------------------------------- */

static retry_decision decide(int status, const char *type, const char *after, const char *should,
                             int32_t tries, double *seconds) {
    retry_facts facts = {.status = status,
                         .result = status ? FTL_REFUSED : FTL_NO_NETWORK,
                         .error_type = type,
                         .retry_after = after,
                         .retry_after_ms = "",
                         .should_retry = should,
                         .tries = tries,
                         .now_s = 784111770}; /* Sun, 06 Nov 1994 08:49:30 GMT */
    return retry_decide(&facts, seconds);
}

static void waits_as_asked(void **state) {
    (void)state;
    double s;
    assert_int_equal(decide(429, "", "1.5", "", 0, &s), RETRY_WAIT);
    assert_true(s == 1.5);
    assert_int_equal(decide(503, "", "Sun, 06 Nov 1994 08:49:37 GMT", "", 0, &s), RETRY_WAIT);
    assert_true(s == 7);
    assert_int_equal(decide(503, "", "Sun, 06 Nov 1994 08:00:00 GMT", "", 0, &s), RETRY_WAIT);
    assert_true(s == 0);
    assert_int_equal(decide(429, "", "3600", "", 0, &s), RETRY_TOO_LATE);
    assert_true(s == 3600);
    assert_int_equal(decide(429, "", "soon", "", 0, &s), RETRY_WAIT);
    assert_true(s > 0.3 && s <= 0.5);
}

static void backs_off(void **state) {
    (void)state;
    double s, before = 0;
    for (int32_t tries = 0; tries < 40; tries++) {
        assert_int_equal(decide(500, "", "", "", tries, &s), RETRY_WAIT);
        assert_true(s >= before && s <= 8);
        before = s;
    }
    assert_true(before == 8);
}

static void asks_again_only_where_it_helps(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *type, *should;
        retry_decision decision;
    } rows[] = {{0, "", "", RETRY_WAIT},
                {408, "", "", RETRY_WAIT},
                {409, "", "", RETRY_WAIT},
                {529, "", "", RETRY_WAIT},
                {400, "", "", RETRY_NO},
                {401, "", "", RETRY_NO},
                {402, "", "", RETRY_NO},
                {404, "", "", RETRY_NO},
                {429, "insufficient_quota", "", RETRY_NO},
                {500, "", "false", RETRY_NO},
                {400, "", "true", RETRY_WAIT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double s;
        assert_int_equal(decide(rows[i].status, rows[i].type, "", rows[i].should, 0, &s),
                         rows[i].decision);
    }
}

/* --- streams ---------------------------------------------------------------------------------- */

static bool collect(void *user, str data) {
    text_buffer *all = user;
    text_add(all, data);
    text_add_z(all, "|");
    return true;
}

static void events_in_any_portions(void **state) {
    (void)state;
    static const char stream[] =
        ": hello\r\n\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\nid: 3\n\n\n\ndata: last";
    for (size_t portion = 1; portion < sizeof stream; portion++) {
        sse_reader r;
        text_buffer all;
        sse_init(&r);
        text_init(&all, 4096);
        for (size_t at = 0; at < sizeof stream - 1; at += portion) {
            size_t left = sizeof stream - 1 - at;
            assert_true(
                sse_feed(&r, (str){stream + at, left < portion ? left : portion}, collect, &all));
        }
        assert_true(sse_finish(&r, collect, &all));
        assert_string_equal(all.data, "one|two\nlines|last|");
        text_done(&all);
        sse_done(&r);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

#define WHOLE                                                                                      \
    "kernel k\nInput X (a in n, b)\nOutput Y (a in n, b)\nCopy X from global to register\n"

static void programs_in_answers(void **state) {
    (void)state;
    static const struct {
        const char *answer;
        bool is_cut_off;
        extract_result result;
        const char *begins;
    } rows[] = {
        {"```tl\n" WHOLE "```", false, EXTRACT_FOUND, "kernel k"},
        {"```\n" WHOLE "```\nand\n```tl\n" WHOLE "// this\n```", false, EXTRACT_FOUND, "kernel k"},
        {"```tl\n" WHOLE "```\n```\nkernel other\n" WHOLE "```", false, EXTRACT_FOUND, "kernel k"},
        {"~~~~tl\n```\n" WHOLE "~~~~", false, EXTRACT_FOUND, "```"},
        {"```tl\n" WHOLE, false, EXTRACT_CUT_OFF, ""},
        {"```tl\n" WHOLE "```", true, EXTRACT_FOUND, "kernel k"},
        {WHOLE, false, EXTRACT_FOUND, "kernel k"},
        {WHOLE, true, EXTRACT_CUT_OFF, ""},
        {"<think>" WHOLE "</think>No.", false, EXTRACT_NOTHING, ""},
        {"<think>" WHOLE, false, EXTRACT_CUT_OFF, ""},
        {"thoughts</thinking>```tl\n" WHOLE "```", false, EXTRACT_FOUND, "kernel k"},
        {"For each row, copy what you like.\nIf not, wait.\nLet it be.", false, EXTRACT_NOTHING,
         ""},
        {"```\n", false, EXTRACT_NOTHING, ""},
        {"```", false, EXTRACT_NOTHING, ""},
        {"", false, EXTRACT_NOTHING, ""},
        {"", true, EXTRACT_CUT_OFF, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str text;
        extract_result got =
            extract_program(str_from(rows[i].answer), EXTRACT_TL, rows[i].is_cut_off, &text);
        if (got != rows[i].result) fail_msg("answer %zu: %d", i, (int)got);
        if (got == EXTRACT_FOUND && !str_starts(text, str_from(rows[i].begins)))
            fail_msg("answer %zu: text", i);
    }
}

static void cuda_in_answers(void **state) {
    (void)state;
    str text;
    const char *answer = "```cpp\nint x;\n```\n```cuda\nextern \"C\" __global__ void k() {}\n```";
    assert_int_equal(extract_program(str_from(answer), EXTRACT_CUDA, false, &text), EXTRACT_FOUND);
    assert_true(str_starts(text, STR("extern")));
}

/* --- records ---------------------------------------------------------------------------------- */

static void records_give_answers_by_key(void **state) {
    (void)state;
    static const char lines[] =
        "{\"event\":\"ask\",\"step\":\"sketch\",\"key\":\"a\",\"answer\":\"1\"}\n\n"
        "{\"event\":\"ask\",\"step\":\"sketch\",\"key\":\"a\",\"answer\":\"2\"}\n";
    ftl_context *context;
    record_reader *r;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_int_equal(record_read_text(context, str_from(lines), "r", &r), FTL_OK);
    assert_string_equal(json_text(record_next_ask(r, "a"), "answer"), "1");
    assert_non_null(record_pending_ask(r, "sketch"));
    assert_string_equal(json_text(record_next_ask(r, "a"), "answer"), "2");
    assert_null(record_next_ask(r, "a"));
    assert_null(record_pending_ask(r, "sketch"));
    record_reader_free(r);
    assert_int_equal(record_read_text(context, STR("no json"), "r", &r), FTL_INVALID_ARGUMENT);
    ftl_context_free(context);
}

static void tokens_are_not_too_few(void **state) {
    (void)state;
    assert_int_equal(provider_estimate_tokens(STR("")), 0);
    assert_in_range(provider_estimate_tokens(STR("Compute GEMM Q, K.T and get S")), 9, 14);
    assert_in_range(provider_estimate_tokens(STR("\xc3\xa4\xc3\xb6\xc3\xbc")), 3, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_as_asked),
        cmocka_unit_test(backs_off),
        cmocka_unit_test(asks_again_only_where_it_helps),
        cmocka_unit_test(events_in_any_portions),
        cmocka_unit_test(programs_in_answers),
        cmocka_unit_test(cuda_in_answers),
        cmocka_unit_test(records_give_answers_by_key),
        cmocka_unit_test(tokens_are_not_too_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
