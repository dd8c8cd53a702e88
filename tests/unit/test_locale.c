/* A program that called setlocale (Qt, GTK, R, Python do) gets the same bytes as any other: the
 * whole pipeline under a locale whose numbers have commas, set for the process or for the thread.
 * The locale is made by localedef where the machine has the sources; else the test is skipped.
 */
#define _GNU_SOURCE /* newlocale, setenv */
#include "base/number.h"
#include "base/os.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COMMA_LOCALE "de_DE.UTF-8"

static char folder[256];

static bool has_comma(void) {
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

/* Makes the locale in a folder of its own. False where the machine cannot. */
static bool make_locale(void) {
    char place[300];
    os_error why;
    int status = 1;
    text_buffer out, err;
    text_init(&out, 1 << 20), text_init(&err, 1 << 20);
    if (!os_temporary_folder(folder, &why)) return false;
    snprintf(place, sizeof place, "%s/" COMMA_LOCALE, folder);
    const char *argv[] = {"localedef", "-i", "de_DE", "-f", "UTF-8", place, NULL};
    bool is_made = os_run(argv, (str){"", 0}, 120, &out, &err, &status, &why) && status == 0;
    text_done(&out), text_done(&err);
    return is_made && setenv("LOCPATH", folder, 1) == 0;
}

static int forget_locale(void **state) {
    const char *const remove[] = {"rm", "-rf", folder, NULL};
    (void)state;
    text_buffer out, err;
    os_error why;
    int status;
    setlocale(LC_ALL, "C");
    text_init(&out, 1 << 16), text_init(&err, 1 << 16);
    if (*folder) os_run(remove, (str){"", 0}, 60, &out, &err, &status, &why);
    text_done(&out), text_done(&err);
    return 0;
}

static bool set_comma(void) {
    if (setlocale(LC_ALL, COMMA_LOCALE) && has_comma()) return true;
    return make_locale() && setlocale(LC_ALL, COMMA_LOCALE) && has_comma();
}

/* --- everything that the library prints ------------------------------------------------------- */

static void add(text_buffer *all, const char *what, ftl_status status, ftl_context *c, char *text) {
    text_format(all, "== %s: %d %s\n", what, (int)status, ftl_context_error(c));
    if (text) text_add_z(all, text);
    char *found = ftl_context_diagnostics(c, FTL_DIAGNOSTICS_JSON);
    text_add_z(all, found);
    ftl_free(found);
    ftl_free(text);
}

static void add_product(text_buffer *all, ftl_context *c, const ftl_source *source,
                        const ftl_options *options) {
    ftl_product *product = NULL;
    ftl_status status = ftl_build(c, source, options, &product);
    add(all, "build", status, c, NULL);
    for (int i = 0; product && i < product->kernel_count; i++) {
        char *json = ftl_plan_write(product->kernels[i].plan), why[FTL_WHY_BYTES] = "";
        ftl_plan *back = ftl_plan_read(json, strlen(json), why);
        assert_non_null(back);
        char *header = ftl_plan_header(product->kernels[i].plan, "it"), *again;
        again = ftl_plan_write(back);
        assert_string_equal(again, json);
        text_add_z(all, product->kernels[i].cuda);
        text_add_z(all, json);
        text_add_z(all, header);
        ftl_plan_free(back);
        free(json), free(again), free(header);
    }
    if (product) text_add_z(all, product->reasons);
    ftl_product_free(product);
}

static void add_operator(text_buffer *all, ftl_context *c, const char *name,
                         const char *const *settings, int count, const char *gpu) {
    static const ftl_pin pins[] = {{"d", "64"}, {"dv", "64"}};
    char *sketch = NULL, *text = NULL;
    ftl_status status = ftl_sketch(c, name, settings, count, &sketch);
    if (status) {
        add(all, name, status, c, NULL);
        return;
    }
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = gpu,
                           .pins = pins,
                           .pin_count = strstr(sketch, "dv") ? 2 : 1};
    ftl_source source = {"it.tl", sketch, strlen(sketch)};
    status = ftl_format(c, &source, &text);
    add(all, "format", status, c, text);
    status = ftl_explain(c, &source, &options, &text);
    add(all, "explain", status, c, text);
    add_product(all, c, &source, &options);
    ftl_free(sketch);
}

/* Scalars and constants as a run sees them. */
static void add_run(text_buffer *all, ftl_context *c) {
    static const char program[] = "kernel halves\n"
                                  "Input X f32 (row in row_len, d)\n"
                                  "Input scale f32 where scale > 0.25\n"
                                  "Output Y f32 (row in row_len, d)\n"
                                  "Copy X from global to register and get Y\n"
                                  "Compute Multiply Y, scale and get Y\n"
                                  "Compute Multiply Y, 1.5 and get Y\n"
                                  "Copy Y from register to global\n";
    static const double scales[] = {2.5, 0.125};
    ftl_source source = {"halves.tl", program, sizeof program - 1};
    for (int i = 0; i < 2; i++) {
        float x[4] = {1, 2, 3.5f, 4}, y[4] = {0};
        ftl_tensor tensors[] = {
            {"X", (uint64_t)(uintptr_t)x, FTL_F32, {2, 2}, {2, 1}, 2},
            {"Y", (uint64_t)(uintptr_t)y, FTL_F32, {2, 2}, {2, 1}, 2},
        };
        ftl_scalar scale = {"scale", scales[i]};
        ftl_arguments arguments = {tensors, 2, &scale, 1};
        add(all, "run", ftl_interpret(c, &source, FTL_EXACT, &arguments), c, NULL);
        for (int k = 0; k < 4; k++) text_format(all, "%.9g\n", (double)y[k]);
    }
}

static void write_all(text_buffer *all) {
    static const char *const gpus[] = {"t4", "a100", "l40s", "h200"};
    static const char *const settings[] = {"causal", "softcap=30.25", "alibi"};
    static const char *const names[] = {"attention", "mla", "row_softmax", "gemm_bias_gelu",
                                        "chained_gemms"};
    ftl_context *c;
    text_init(all, 64 << 20);
    assert_int_equal(ftl_context_new(&c), FTL_OK);
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++) {
        char *text = NULL;
        add(all, "gpu", ftl_gpu_text(c, gpus[g], &text), c, text);
        add_operator(all, c, "attention", settings, 3, gpus[g]);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            add_operator(all, c, names[i], NULL, 0, gpus[g]);
    }
    add_run(all, c);
    ftl_context_free(c);
    assert_false(all->failed);
}

static void assert_same(const text_buffer *plain, const text_buffer *comma) {
    size_t at = 0;
    while (at < plain->length && at < comma->length && plain->data[at] == comma->data[at]) at++;
    if (at == plain->length && at == comma->length) return;
    size_t from = at > 60 ? at - 60 : 0;
    fail_msg("the texts part at byte %zu: \"%.100s\" became \"%.100s\"", at, plain->data + from,
             comma->data + from);
}

static void texts_do_not_change(void **state) {
    (void)state;
    text_buffer plain, comma;
    setlocale(LC_ALL, "C");
    write_all(&plain);
    assert_non_null(strstr(plain.data, "1.44269504"));
    if (!set_comma()) {
        text_done(&plain);
        print_message("no locale with decimal commas, and localedef cannot make one\n");
        skip();
    }
    write_all(&comma);
    assert_true(has_comma()); /* and the caller's locale stays as it was */
    assert_same(&plain, &comma);
    text_done(&comma);

    setlocale(LC_ALL, "C");
    locale_t own = newlocale(LC_ALL_MASK, COMMA_LOCALE, (locale_t)0);
    assert_true(own != (locale_t)0);
    locale_t before = uselocale(own);
    assert_true(has_comma());
    write_all(&comma);
    assert_true(has_comma() && uselocale((locale_t)0) == own);
    uselocale(before);
    freelocale(own);
    assert_same(&plain, &comma);
    text_done(&comma), text_done(&plain);
}

/* --- the home of numbers ---------------------------------------------------------------------- */

static void numbers_survive(void **state) {
    (void)state;
    static const double values[] = {0.1,      1.44269504,     -0.0,    1e300,
                                    4.9e-324, 123456789.0625, -2.5e-9, 0};
    if (!set_comma()) skip();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64];
        double back = 7;
        assert_true(number_print(text, sizeof text, "%.17g", values[i]) > 0);
        assert_null(strchr(text, ','));
        assert_true(number_read(text, &back));
        assert_memory_equal(&back, &values[i], sizeof back);
    }
    double unused;
    static const char *const no_numbers[] = {"",     " 1",    "\t1",    "1 ",   "1,5",
                                             "1.5x", "1e999", "-1e999", "point"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++)
        assert_false(number_read(no_numbers[i], &unused));
    setlocale(LC_ALL, "C");
}

/* glibc keeps what LOCPATH names and forgets where. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
    return "leak:argz_add_sep\n";
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_do_not_change),
        cmocka_unit_test(numbers_survive),
    };
    return cmocka_run_group_tests(tests, NULL, forget_locale);
}
