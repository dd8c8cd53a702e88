/* Options of sketches, and the sketches we ship: every choice of options reads without an error. */
#include "base/os.h"
#include "tl/tl.h"
#include "tl/variant.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char family[] = "//? causal: no keys after the query\n"
                             "//? window N: only N keys\n"
                             "//? op mqa: one key head\n"
                             "kernel k // a comment\n"
                             "let window = 128 //? window\n"
                             "Wait A // kept comment //? causal\n"
                             "Wait B //? not causal\n"
                             "Wait C //? not causal, not mqa\n";

static str select_options(arena *memory, const tl_variant_choice *choices, int count) {
    str selected, why;
    bool is_done = tl_variant_select(memory, str_from(family), choices, count, &selected, &why);
    return is_done ? selected : why;
}

static void lines_follow_options(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    assert_string_equal(select_options(&memory, NULL, 0).data,
                        "kernel k // a comment\nWait B\nWait C\n");
    tl_variant_choice causal[] = {{STR("causal"), STR("")}, {STR("window"), STR("512")}};
    assert_string_equal(select_options(&memory, causal, 2).data,
                        "kernel k // a comment\nlet window = 512\nWait A // kept comment\n");
    causal[1].value = STR("");
    assert_string_equal(select_options(&memory, causal, 2).data,
                        "kernel k // a comment\nlet window = 128\nWait A // kept comment\n");
    tl_variant_choice mqa[] = {{STR("mqa"), STR("")}};
    assert_string_equal(select_options(&memory, mqa, 1).data, "kernel k // a comment\nWait B\n");
    arena_done(&memory);
}

/* Of a let with several bindings only the option's own value changes. */
static void bindings_beside_stay(void **state) {
    (void)state;
    static const char text[] =
        "//? group N: heads\n//? top N: blocks\n"
        "let a = min(b, 2), group = 4, c = (1 + 2)*3 // d, top = 1 //? group\n"
        "let group = q_heads/kv_heads, batch = starts - 1 //? group, top\n"
        "let top = 1, group = min(2, 3) //? group, top\n";
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_variant_choice both[] = {{STR("group"), STR("16")}, {STR("top"), STR("8")}};
    str selected, why;
    assert_true(tl_variant_select(&memory, str_from(text), both, 2, &selected, &why));
    assert_string_equal(selected.data,
                        "let a = min(b, 2), group = 16, c = (1 + 2)*3 // d, top = 1\n"
                        "let group = 16, batch = starts - 1\nlet top = 8, group = 16\n");
    arena_done(&memory);
}

static void choices_of_other_operators_are_refused(void **state) {
    (void)state;
    static const char text[] = "//? op one: the first\n//? op two: the second\n//? group N: heads\n"
                               "let group = q_heads/kv_heads, batch = 2 //? one\n"
                               "let group = 4 //? two, group\n";
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_variant_choice choices[] = {{STR("one"), STR("")}, {STR("group"), STR("16")}};
    str selected, why;
    assert_false(tl_variant_select(&memory, str_from(text), choices, 2, &selected, &why));
    assert_string_equal(why.data, "the option 'group' changes nothing in 'one'");
    choices[0].name = STR("two");
    assert_true(tl_variant_select(&memory, str_from(text), choices, 2, &selected, &why));
    assert_string_equal(selected.data, "let group = 16\n");
    assert_false(tl_variant_select(&memory, str_from(text), choices + 1, 1, &selected, &why));
    assert_string_equal(why.data, "the option 'group' changes nothing in this sketch");
    arena_done(&memory);
}

static void excluded_choices_say_why(void **state) {
    (void)state;
    static const char text[] = "//? latent: shared\n//? page_len N: pages\n"
                               "//? never latent, not page_len: 'latent' needs 'page_len'\n"
                               "Wait A //? latent\nlet page_len = 1 //? page_len\n";
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_variant_choice choices[] = {{STR("latent"), STR("")}, {STR("page_len"), STR("16")}};
    str selected, why;
    assert_false(tl_variant_select(&memory, str_from(text), choices, 1, &selected, &why));
    assert_string_equal(why.data, "'latent' needs 'page_len'");
    assert_true(tl_variant_select(&memory, str_from(text), choices, 2, &selected, &why));
    assert_string_equal(selected.data, "Wait A\nlet page_len = 16\n");
    tl_variant_option *options;
    assert_int_equal(tl_variant_options(&memory, str_from(text), &options), 2);
    arena_done(&memory);
}

static void wrong_choices_say_why(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_variant_choice unknown = {STR("alibi"), STR("")};
    assert_string_equal(select_options(&memory, &unknown, 1).data,
                        "this sketch has no option 'alibi'");
    tl_variant_choice flag = {STR("causal"), STR("3")};
    assert_string_equal(select_options(&memory, &flag, 1).data,
                        "the option 'causal' takes no value");
    tl_variant_choice word = {STR("window"), STR("many")};
    assert_string_equal(select_options(&memory, &word, 1).data,
                        "the option 'window' needs a number, not 'many'");
    str selected, why;
    assert_false(tl_variant_select(&memory, STR("Wait A //? causal\n"), NULL, 0, &selected, &why));
    assert_string_equal(why.data, "the sketch uses the option 'causal' but does not declare it");
    arena_done(&memory);
}

static void options_are_listed(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_variant_option *options;
    assert_int_equal(tl_variant_options(&memory, str_from(family), &options), 3);
    assert_true(str_is(options[0].name, "causal") && !options[0].value.length);
    assert_true(str_is(options[0].doc, "no keys after the query"));
    assert_true(str_is(options[1].name, "window") && str_is(options[1].value, "N"));
    assert_true(str_is(options[2].name, "mqa") && options[2].is_operator);
    arena_done(&memory);
}

static void read_sketch(arena *memory, str text) {
    diag_list diags;
    diag_init(&diags, memory, STR("sketch"), text);
    tl_parse(memory, STR("sketch"), text, &diags);
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(&diags, false, &out);
    if (diags.error_count) fprintf(stderr, "%s\n%s", out.data, text.data);
    assert_int_equal(diags.error_count, 0);
    text_done(&out);
}

static void shipped_sketches_read(void **state) {
    (void)state;
    static const char *const paths[] = {FLASHTL_SOURCE_FOLDER "/sketches/attention.tl",
                                        FLASHTL_SOURCE_FOLDER "/sketches/gemm_bias_gelu.tl",
                                        FLASHTL_SOURCE_FOLDER "/sketches/chained_gemms.tl",
                                        FLASHTL_SOURCE_FOLDER "/sketches/row_softmax.tl"};
    for (int i = 0; i < 4; i++) {
        arena memory;
        arena_init(&memory, 1 << 26);
        text_buffer text;
        os_error why;
        text_init(&text, 1 << 20);
        assert_true(os_read_file(paths[i], 1 << 20, &text, &why));
        tl_variant_option *options;
        int count = tl_variant_options(&memory, text_str(&text), &options);
        assert_in_range(count, 0, 10);
        for (int set = 0; set < 1 << count; set++) {
            tl_variant_choice choices[10];
            int chosen = 0;
            for (int n = 0; n < count; n++) {
                if (!(set >> n & 1)) continue;
                str value = options[n].value.length ? STR("64") : STR("");
                choices[chosen++] = (tl_variant_choice){options[n].name, value};
            }
            str selected, sentence;
            assert_true(
                tl_variant_select(&memory, text_str(&text), choices, chosen, &selected, &sentence));
            assert_null(strstr(selected.data, "//?"));
            read_sketch(&memory, selected);
        }
        text_done(&text);
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_follow_options),
        cmocka_unit_test(bindings_beside_stay),
        cmocka_unit_test(choices_of_other_operators_are_refused),
        cmocka_unit_test(excluded_choices_say_why),
        cmocka_unit_test(wrong_choices_say_why),
        cmocka_unit_test(options_are_listed),
        cmocka_unit_test(shipped_sketches_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
