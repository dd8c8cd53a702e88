/* Every example of docs/language.md is read without an error. */
#include "base/os.h"
#include "tl/tl.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static int read_example(str text) {
    arena memory;
    arena_init(&memory, 1 << 26);
    diag_list diags;
    diag_init(&diags, &memory, STR("language.md"), text);
    tl_parse(&memory, STR("language.md"), text, &diags);
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(&diags, false, &out);
    if (diags.error_count) fprintf(stderr, "%s%.*s", out.data, STR_ARGS(text));
    text_done(&out);
    arena_done(&memory);
    return diags.error_count;
}

static void examples_are_read(void **state) {
    (void)state;
    text_buffer document;
    os_error why;
    text_init(&document, 1 << 20);
    assert_true(os_read_file(FLASHTL_SOURCE_FOLDER "/docs/language.md", 1 << 20, &document, &why));
    str rest = text_str(&document);
    int examples = 0, errors = 0;
    while (rest.length) {
        if (!str_is(str_cut(&rest, '\n'), "```tl")) continue;
        const char *begin = rest.data, *end = begin;
        while (rest.length) {
            end = rest.data;
            if (str_is(str_cut(&rest, '\n'), "```")) break;
        }
        errors += read_example((str){begin, (size_t)(end - begin)});
        examples++;
    }
    assert_int_equal(errors, 0);
    assert_in_range(examples, 25, 200);
    text_done(&document);
}

/* Each statement has a section of its own, and each operation, function and type a mention. */
static void nothing_is_missing(void **state) {
    (void)state;
    static const char *const wanted[] = {
#define OPERATION(id, spelling, operands, shape, doc, ...) "`" spelling "`",
#include "tl/operations.def"
#undef OPERATION
#define FUNCTION(id, spelling, fewest, most, operation, doc) "`" spelling "(",
#include "tl/functions.def"
#undef FUNCTION
#define TYPE(id, spelling, number, bits, kind, doc) "`" spelling "`",
#include "base/types.def"
#undef TYPE
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
    };
    text_buffer document;
    os_error why;
    text_init(&document, 1 << 20);
    assert_true(os_read_file(FLASHTL_SOURCE_FOLDER "/docs/language.md", 1 << 20, &document, &why));
    str text = text_str(&document);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        bool is_found = false;
        for (size_t at = 0; at < text.length && !is_found; at++) {
            is_found = str_starts((str){text.data + at, text.length - at}, str_from(wanted[i]));
        }
        if (!is_found) fprintf(stderr, "docs/language.md does not mention %s\n", wanted[i]);
        assert_true(is_found);
    }
    text_done(&document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_read),
        cmocka_unit_test(nothing_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
