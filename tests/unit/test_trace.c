/* Where each line comes from: the lines of sketch, TL Code and CUDA that a trace links belong
 * together, and nothing is left out on either side.
 */
#include "base/json.h"
#include "flashtl/flashtl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LINES_MAX = 8192 };

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

/* --- programs --------------------------------------------------------------------------------- */

typedef struct program {
    const char *name, *settings[3];
    ftl_pin pins[3];
} program;

static const program programs[] = {
    {"mha", {NULL}, {{"d", "64"}, {"dv", "64"}}},
    {"gqa", {"causal"}, {{"d", "128"}, {"dv", "128"}}},
    {"mha", {"causal", "window=100", "softcap=30"}, {{"d", "96"}, {"dv", "96"}}},
    {"mha", {"alibi", "lse"}, {{"d", "64"}, {"dv", "64"}}},
    {"decode", {"lse"}, {{"d", "128"}, {"dv", "128"}}},
    {"varlen", {"causal"}, {{"d", "128"}, {"dv", "128"}}},
    {"gemm_bias_gelu", {NULL}, {{NULL, NULL}}},
    {"row_softmax", {NULL}, {{NULL, NULL}}},
    {"block_sparse", {"causal"}, {{"d", "64"}, {"dv", "64"}}},
};
static const char *const gpus[] = {"t4", "a100", "h200"};

static char *sketch_of(const program *p) {
    int count = 0;
    char *text = NULL;
    while (count < 3 && p->settings[count]) count++;
    assert_int_equal(ftl_sketch(context, p->name, p->settings, count, &text), FTL_OK);
    return text;
}

static ftl_options options_of(const program *p, const char *gpu) {
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = gpu;
    options.pins = p->pins;
    while (options.pin_count < 3 && p->pins[options.pin_count].name) options.pin_count++;
    return options;
}

static json_t *trace_of(const char *text, const ftl_options *options) {
    ftl_source source = {"test.tl", text, strlen(text)};
    char *json = NULL;
    ftl_status status = ftl_trace(context, &source, options, &json);
    if (status) print_message("%s\n", ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT));
    assert_int_equal(status, FTL_OK);
    json_t *root = json_loads(json, 0, NULL);
    assert_non_null(root);
    ftl_free(json);
    return root;
}

/* --- texts by line ---------------------------------------------------------------------------- */

typedef struct page {
    str lines[LINES_MAX]; /* trimmed; from 1 on */
    int count;
} page;

static const char *string_in(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

static page *cut(const char *all) {
    page *t = calloc(1, sizeof *t);
    str rest = str_from(all);
    assert_non_null(t);
    while (rest.length) {
        assert_true(t->count + 1 < LINES_MAX);
        t->lines[++t->count] = str_trim(str_cut(&rest, '\n'));
    }
    return t;
}

static void range_in(const json_t *pair, const page *t, int *first, int *last) {
    *first = (int)json_integer_value(json_array_get(pair, 0));
    *last = (int)json_integer_value(json_array_get(pair, 1));
    assert_true(1 <= *first && *first <= *last && *last <= t->count);
}

static bool begins(str line, const char *word) {
    return str_starts(line, str_from(word));
}

/* Statements that do something at their place in a role. */
static bool acts(str line) {
    static const char *const words[] = {"Copy ",    "Compute ", "Wait ", "Release ",
                                        "Reshape ", "if ",      "for "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (begins(line, words[i])) return true;
    return false;
}

static str heading_of(str line) {
    bool is_one = begins(line, "// ") && !begins(line, "//  ");
    return is_one ? (str){line.data + 3, line.length - 3} : STR("");
}

/* --- what must hold --------------------------------------------------------------------------- */

static bool is_about(const json_t *statement, int line, const page *cuda) {
    size_t i;
    const json_t *span;
    json_array_foreach(json_object_get(statement, "cuda"), i, span) {
        int first, last;
        range_in(span, cuda, &first, &last);
        if (first <= line && line <= last) return true;
    }
    return false;
}

/* Each heading in the CUDA text is of the statement that the line is said to be about. */
static void headings_are_found(const json_t *statements, const page *cuda) {
    bool is_inside = false;
    for (int line = 1; line <= cuda->count; line++) {
        is_inside |= begins(cuda->lines[line], "extern \"C\" __global__");
        str heading = heading_of(cuda->lines[line]);
        if (!is_inside || !heading.length || !acts(heading)) continue;
        bool found = false;
        size_t i;
        const json_t *s;
        json_array_foreach(statements, i, s) found |=
            is_about(s, line, cuda) && str_starts(str_from(string_in(s, "text")), heading);
        if (!found) fail_msg("line %d is about nothing: %.*s", line, STR_ARGS(heading));
    }
}

/* Each statement that acts has lines, and its own heading in the first of them. */
static void statements_have_lines(const json_t *statements, const page *code, const page *cuda) {
    size_t i, k;
    const json_t *s, *span;
    json_array_foreach(statements, i, s) {
        int first, last;
        str header = str_from(string_in(s, "text"));
        range_in(json_object_get(s, "code"), code, &first, &last);
        assert_int_equal(first, last);
        assert_true(str_starts(code->lines[first], header));
        bool has_heading = !acts(header) || str_is(header, "for tile in grid");
        json_array_foreach(json_object_get(s, "cuda"), k, span) {
            range_in(span, cuda, &first, &last);
            for (int line = first; line <= last; line++) {
                str heading = heading_of(cuda->lines[line]);
                has_heading |= heading.length && str_starts(header, heading);
            }
        }
        if (!has_heading) fail_msg("no lines: %s", header.data);
    }
}

static bool is_pass(const char *name) {
    char *list = NULL;
    assert_int_equal(ftl_passes(context, &list), FTL_OK);
    char line[64];
    snprintf(line, sizeof line, "\n  %s ", name);
    bool found = strstr(list, line) != NULL;
    ftl_free(list);
    return found;
}

static void mark(const json_t *of, const page *sketch, bool *served) {
    int first, last;
    range_in(json_object_get(of, "sketch"), sketch, &first, &last);
    for (int line = first; line <= last; line++) served[line] = true;
}

/* Each statement of TL Code stands for one of the sketch or serves one, and each of the sketch is
 * there, or became something else by a pass that is named.
 */
static void sketch_is_served(const json_t *root, const json_t *statements, const page *sketch) {
    bool served[LINES_MAX] = {false};
    size_t i;
    const json_t *s, *taken;
    json_array_foreach(statements, i, s) {
        str header = str_from(string_in(s, "text"));
        bool is_frame = begins(header, "role ") || str_is(header, "for tile in grid");
        if (json_object_get(s, "sketch")) mark(s, sketch, served);
        else if (!is_frame) fail_msg("serves nothing: %s", header.data);
    }
    json_array_foreach(json_object_get(root, "taken"), i, taken) {
        assert_true(is_pass(string_in(taken, "pass")));
        assert_true(json_array_size(json_object_get(taken, "statements")) > 0);
        mark(taken, sketch, served);
    }
    for (int line = 1; line <= sketch->count; line++) {
        str header = sketch->lines[line];
        bool counts = acts(header) || begins(header, "Input ") || begins(header, "Output ");
        if (counts && !served[line]) fail_msg("became nothing: %.*s", STR_ARGS(header));
    }
}

static void decisions_belong(const json_t *root, const json_t *statements) {
    size_t i, k;
    const json_t *decision, *number;
    assert_true(json_array_size(json_object_get(root, "decisions")) > 0);
    json_array_foreach(json_object_get(root, "decisions"), i, decision) {
        const char *pass = string_in(decision, "pass");
        assert_true(*string_in(decision, "sentence"));
        json_array_foreach(json_object_get(decision, "statements"), k, number) {
            const json_t *s = json_array_get(statements, (size_t)json_integer_value(number));
            assert_non_null(s);
            bool is_its = false;
            size_t p;
            const json_t *name;
            json_array_foreach(json_object_get(s, "passes"), p, name) is_its |=
                strcmp(json_string_value(name), pass) == 0;
            assert_true(is_its);
        }
    }
}

static void shared_memory_fits(const json_t *kernel, const json_t *statements) {
    size_t i;
    const json_t *tile;
    int64_t bytes = json_integer_value(json_object_get(kernel, "shared_bytes"));
    assert_true(bytes <= json_integer_value(json_object_get(kernel, "shared_limit")));
    json_array_foreach(json_object_get(kernel, "shared"), i, tile) {
        int64_t offset = json_integer_value(json_object_get(tile, "offset"));
        int64_t end = offset + json_integer_value(json_object_get(tile, "bytes"));
        size_t number = (size_t)json_integer_value(json_object_get(tile, "statement"));
        const json_t *s = json_array_get(statements, number);
        assert_true(begins(str_from(string_in(s, "text")), "Allocate "));
        assert_non_null(json_object_get(tile, "used"));
        assert_true(0 <= offset && offset < end && end <= bytes);
    }
}

static void check_kernel(const json_t *root, size_t number) {
    const json_t *kernel = json_array_get(json_object_get(root, "kernels"), number);
    const json_t *statements = json_object_get(kernel, "statements");
    page *code = cut(string_in(root, "code")), *cuda = cut(string_in(kernel, "cuda"));
    assert_true(json_array_size(statements) > 0);
    statements_have_lines(statements, code, cuda);
    headings_are_found(statements, cuda);
    shared_memory_fits(kernel, statements);
    free(code);
    free(cuda);
}

static void lines_are_linked(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *text = sketch_of(&programs[i]);
        for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++) {
            ftl_options options = options_of(&programs[i], gpus[g]);
            print_message("%s for %s\n", programs[i].name, gpus[g]);
            json_t *root = trace_of(text, &options);
            const json_t *kernels = json_object_get(root, "kernels");
            for (size_t k = 0; k < json_array_size(kernels); k++) check_kernel(root, k);
            struct page *sketch = cut(string_in(root, "sketch"));
            const json_t *first = json_object_get(json_array_get(kernels, 0), "statements");
            if (json_array_size(kernels) == 1) sketch_is_served(root, first, sketch);
            if (json_array_size(kernels) == 1) decisions_belong(root, first);
            free(sketch);
            json_decref(root);
        }
        ftl_free(text);
    }
}

/* To look changes nothing. */
static void texts_are_those_of_build(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *text = sketch_of(&programs[i]);
        ftl_source source = {"test.tl", text, strlen(text)};
        ftl_options options = options_of(&programs[i], gpus[i % 3]);
        ftl_product *product = NULL;
        json_t *root = trace_of(text, &options);
        assert_int_equal(ftl_build(context, &source, &options, &product), FTL_OK);
        assert_string_equal(string_in(root, "code"), product->code);
        for (int32_t k = 0; k < product->kernel_count; k++) {
            const json_t *kernel = json_array_get(json_object_get(root, "kernels"), (size_t)k);
            assert_string_equal(string_in(kernel, "cuda"), product->kernels[k].cuda);
        }
        ftl_product_free(product);
        json_decref(root);
        ftl_free(text);
    }
}

/* TL Code is shown as it was written, and has no sketch. */
static void code_has_no_sketch(void **state) {
    (void)state;
    char *text = sketch_of(&programs[0]), *code = NULL;
    ftl_source source = {"test.tl", text, strlen(text)};
    ftl_options options = options_of(&programs[0], "a100");
    assert_int_equal(ftl_reason(context, &source, &options, &code), FTL_OK);
    ftl_options none = FTL_OPTIONS_INIT;
    char *spaced = malloc(strlen(code) + 3);
    assert_non_null(spaced);
    snprintf(spaced, strlen(code) + 3, "\n\n%s", code);
    json_t *root = trace_of(spaced, &none);
    assert_null(json_object_get(root, "sketch"));
    assert_string_equal(string_in(root, "code"), spaced);
    check_kernel(root, 0);
    json_decref(root);
    free(spaced);
    ftl_free(code);
    ftl_free(text);
}

/* Statements that the text does at once share its lines; one that says nothing shares none. */
static void runs_share_their_lines(void **state) {
    (void)state;
    char *text = sketch_of(&programs[5]);
    ftl_options options = options_of(&programs[5], "a100");
    json_t *root = trace_of(text, &options);
    const json_t *kernel = json_array_get(json_object_get(root, "kernels"), 0), *s;
    struct page *cuda = cut(string_in(kernel, "cuda"));
    size_t i;
    int releases = 0;
    json_array_foreach(json_object_get(kernel, "statements"), i, s) {
        if (!begins(str_from(string_in(s, "text")), "Release ")) continue;
        const json_t *span = json_array_get(json_object_get(s, "cuda"), 0);
        int first, last;
        range_in(span, cuda, &first, &last);
        for (int line = first; line <= last; line++)
            assert_false(begins(heading_of(cuda->lines[line]), "Compute "));
        releases++;
    }
    assert_true(releases > 0);
    free(cuda);
    json_decref(root);
    ftl_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_linked),
        cmocka_unit_test(texts_are_those_of_build),
        cmocka_unit_test(code_has_no_sketch),
        cmocka_unit_test(runs_share_their_lines),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
