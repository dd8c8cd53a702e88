/* Pages: which lines of PTX come of which statement, what was counted where, and what a page holds.
 */
#include "flashtl/flashtl.h"
#include "view/highlight.h"
#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A kernel of three statements: lines 10 to 12, 13, and 14 with 20 of its CUDA text. */
static const char traced[] =
    "{\"code\": \"kernel k\\nCopy A\\nWait A\\nif b\\n\", \"decisions\": [], \"taken\": [],"
    " \"kernels\": [{\"name\": \"k\", \"gpu\": \"a100\", \"title\": \"A100\", \"entry\": \"k\","
    " \"cuda\": \"text\\n\", \"shared\": [], \"statements\": ["
    "{\"text\": \"Copy A\", \"code\": [2, 2], \"cuda\": [[10, 12]]},"
    "{\"text\": \"Wait A\", \"code\": [3, 3], \"cuda\": [[13, 13]]},"
    "{\"text\": \"if b\", \"code\": [4, 4], \"cuda\": [[14, 14], [20, 20]]}]}]}";

static json_t *new_trace(void) {
    json_t *trace = json_loads(traced, 0, NULL);
    assert_non_null(trace);
    return trace;
}

static json_t *statement(const json_t *trace, size_t number) {
    const json_t *kernel = json_array_get(json_object_get(trace, "kernels"), 0);
    return json_array_get(json_object_get(kernel, "statements"), number);
}

static void says(const json_t *trace, size_t number, const char *key, const char *wanted) {
    json_t *value = json_object_get(statement(trace, number), key);
    char *found = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (wanted) assert_string_equal(found ? found : "nothing", wanted);
    else assert_null(found);
    free(found);
}

/* --- PTX -------------------------------------------------------------------------------------- */

/* An instruction belongs to the line of the kernel that led to it, through any number of inlined
 * functions; labels, directives and what stands before the first place belong to none.
 */
static void lines_of_ptx_are_found(void **state) {
    (void)state;
    static const char ptx[] =
        ".visible .entry k()\n"                                                /* 1 */
        "{\n"                                                                  /* 2 */
        "\tmov.u32 %r1, 0;\n"                                                  /* 3: none yet */
        "\t.loc 1 10 5\n"                                                      /* 4 */
        "\tadd.s32 %r1, %r1, 1;\n"                                             /* 5: Copy */
        "\tadd.s32 %r1, %r1, 2;\n"                                             /* 6: Copy */
        "\t.loc 1 300 9, function_name $L__info_string0, inlined_at 1 13 5\n"  /* 7 */
        "\tbar.sync 0;\n"                                                      /* 8: Wait */
        "\t.loc 1 400 3, function_name $L__info_string1, inlined_at 1 300 9\n" /* 9: in turn */
        "$L__BB0_2:\n"                                                         /* 10: a label */
        "\tbar.sync 1;\n"                                                      /* 11: Wait */
        "\t.loc 1 300 9, function_name $L__info_string0, inlined_at 1 20 5\n"  /* 12: elsewhere */
        "\t.loc 1 400 3, function_name $L__info_string1, inlined_at 1 300 9\n" /* 13 */
        "\t@%p1 bra $L__BB0_2;\n"                                              /* 14: if */
        "\t.loc 1 99 1\n"                                                      /* 15: nobody's */
        "\tret;\n"                                                             /* 16 */
        "}\n"
        "\t.section .debug_str\n"
        "\tadd.s32 %r1, %r1, 3;\n";
    json_t *trace = new_trace();
    assert_true(view_add_ptx(trace, 0, str_from(ptx)));
    says(trace, 0, "ptx", "[[5,6]]");
    says(trace, 1, "ptx", "[[8,8],[11,11]]");
    says(trace, 2, "ptx", "[[14,14]]");
    json_decref(trace);
}

/* --- counts ----------------------------------------------------------------------------------- */

static void counts_are_summed(void **state) {
    (void)state;
    static const char told[] =
        "{\"blocks\": 2, \"traffic\": ["
        "{\"place\": {\"frames\": [{\"line\": 11}, {\"line\": 300}]}, \"executed\": 2,"
        " \"wavefronts\": 8, \"least_wavefronts\": 4, \"sectors\": 0, \"least_sectors\": 0},"
        "{\"place\": {\"frames\": [{\"line\": 11}]}, \"executed\": 1,"
        " \"wavefronts\": 1, \"least_wavefronts\": 1, \"sectors\": 5, \"least_sectors\": 5},"
        "{\"place\": {\"frames\": [{\"line\": 99}]}, \"executed\": 7,"
        " \"wavefronts\": 0, \"least_wavefronts\": 0, \"sectors\": 7, \"least_sectors\": 7}]}";
    json_t *trace = new_trace();
    assert_true(view_add_counts(trace, 0, str_from(told)));
    says(trace, 0, "counts",
         "{\"executed\":3,\"least_sectors\":5,\"least_wavefronts\":5,\"sectors\":5,"
         "\"wavefronts\":9}");
    says(trace, 1, "counts", NULL);
    const json_t *kernel = json_array_get(json_object_get(trace, "kernels"), 0);
    assert_int_equal(json_array_size(json_object_get(kernel, "counts")), 2); /* lines 11 and 99 */
    assert_false(view_add_counts(trace, 0, STR("no JSON")));
    json_decref(trace);
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool holds(const text_buffer *page, const char *words) {
    return strstr(page->data, words) != NULL;
}

static void page_of(const json_t *trace, text_buffer *out) {
    text_init(out, 256 << 20);
    view_page(trace, out);
    assert_false(out->failed);
}

static void notes_are_shown_as_text(void **state) {
    (void)state;
    json_t *trace = new_trace();
    text_buffer page;
    assert_true(view_add_note(trace, 0, STR("<b>&\"</script>")));
    page_of(trace, &page);
    assert_true(holds(&page, "&lt;b&gt;&amp;&quot;&lt;/script&gt;"));
    assert_false(holds(&page, "<b>&"));
    assert_false(holds(&page, "id=ptx"));
    text_done(&page);
    json_decref(trace);
}

/* A page stays below its bound: first PTX loses its colours, then the page its PTX, and says so. */
static void large_texts_are_left_out(void **state) {
    (void)state;
    static const struct {
        int lines;
        bool has_ptx, has_colours;
    } rows[] = {{1000, true, true}, {13000, true, false}, {60000, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *trace = new_trace();
        text_buffer ptx, page;
        text_init(&ptx, 64 << 20);
        text_add_z(&ptx, "{\n\t.loc 1 10 5\n");
        for (int line = 0; line < rows[i].lines; line++)
            text_add_z(&ptx, "\tfma.rn.f32 %f1, %f2, %f3, %f4, 0f3f800000, %f5, %f6, %f7, %f8;\n");
        assert_true(view_add_ptx(trace, 0, text_str(&ptx)));
        page_of(trace, &page);
        assert_true(page.length <= VIEW_PAGE_BYTES_MAX);
        assert_int_equal(holds(&page, "id=ptx"), rows[i].has_ptx);
        assert_int_equal(holds(&page, "<i class=r>"), rows[i].has_colours);
        assert_int_equal(holds(&page, "PTX is left out"), !rows[i].has_ptx);
        text_done(&page);
        text_done(&ptx);
        json_decref(trace);
    }
}

/* --- words ------------------------------------------------------------------------------------ */

static void words_are_marked(void **state) {
    (void)state;
    static const struct {
        view_language language;
        const char *text, *classes;
    } rows[] = {
        {VIEW_TL, "Compute Exp2 S and get S // as 2", "kkkkkkk oooo   kkk kkk   ccccccc"},
        {VIEW_TL, "Input  Q f16 (b; d)", "kkkkk    ttt       "},
        {VIEW_CUDA, "const int a = ftl_f(3u, \"b\"); // c", "kkkkk ttt     fffff nn  sss   cccc"},
        {VIEW_CUDA, "#pragma unroll 1", "dddddddddddddddd"},
        {VIEW_PTX, "@!%p1 bra $L;", "  rrr ooo    "},
        {VIEW_PTX, ".reg .b32 %r<3>; @", "dddd dddd rr n    "},
        {VIEW_CUDA, "\"open", "sssss"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arena memory;
        arena_init(&memory, 1 << 20);
        const char *found = view_classes(&memory, str_from(rows[i].text), rows[i].language);
        assert_string_equal(found, rows[i].classes);
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_ptx_are_found),  cmocka_unit_test(counts_are_summed),
        cmocka_unit_test(notes_are_shown_as_text), cmocka_unit_test(large_texts_are_left_out),
        cmocka_unit_test(words_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
