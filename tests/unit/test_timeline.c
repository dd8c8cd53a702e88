/* Timelines: what a kernel of few statements takes, clock by clock; that lanes hold one thing at a
 * time and waits end when what they wait for is there; and that the whole is about what the cost
 * model says of a tile.
 */
#include "base/json.h"
#include "flashtl/flashtl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static json_t *trace_of_operator(const char *name, const char *const *settings, const char *gpu,
                                 const char *d) {
    ftl_pin pins[] = {{"d", d}, {"dv", d}};
    ftl_options options = FTL_OPTIONS_INIT;
    int count = settings && *settings ? 1 : 0;
    char *text = NULL;
    options.gpu = gpu, options.pins = pins, options.pin_count = d ? 2 : 0;
    assert_int_equal(ftl_sketch(context, name, settings, count, &text), FTL_OK);
    json_t *root = trace_of(text, &options);
    ftl_free(text);
    return root;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int whole(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static const json_t *kernel_at(const json_t *root, size_t number) {
    return json_array_get(json_object_get(root, "kernels"), number);
}

static const json_t *boxes_of(const json_t *kernel) {
    return json_object_get(json_object_get(kernel, "timeline"), "boxes");
}

static const json_t *lane_of(const json_t *kernel, const json_t *box) {
    const json_t *lanes = json_object_get(json_object_get(kernel, "timeline"), "lanes");
    return json_array_get(lanes, (size_t)whole(box, "lane"));
}

static const char *text_of(const json_t *kernel, const json_t *box) {
    const json_t *statements = json_object_get(kernel, "statements");
    return word(json_array_get(statements, (size_t)whole(box, "statement")), "text");
}

static bool waits(const json_t *box) {
    return json_is_true(json_object_get(box, "waits"));
}

/* --- clock by clock --------------------------------------------------------------------------- */

#define LOAD "Copy X (BM, d) in coordinate [b, L = m_block] from global to register"

static const char few_statements[] =
    "kernel twice for a100\n"
    "let d = 64, BM = 64\n"
    "Input X f32 (b in batch; m in len, d)\n"
    "Output Y f32 (b in batch; m in len, d)\n"
    "grid m_block in len/BM, b in batch\n"
    "role math with 4 warps\n"
    "    Allocate X in register f32 (BM, d) as lines\n"
    "    " LOAD "\n"
    "    Compute Multiply X, 2 and get X\n"
    "    Copy X (BM, d) in coordinate [b, L = m_block] from register to global and get Y\n"
    "end\n";

/* 16 KiB at 24 bytes a clock take 683 clocks, and land after 700; 4,096 products at 64 a clock take
 * 64; two such blocks, side by side, bring 1,365 clocks' bytes.
 */
static void few_statements_take_their_clocks(void **state) {
    (void)state;
    static const struct {
        const char *lane, *statement;
        int begin, end;
        bool waits;
    } wanted[] = {
        {"copies", LOAD, 0, 700, false},
        {"copies", LOAD, 0, 1365, false},
        {"block 1, math", "Compute Multiply X_register, 2 and get X_register", 0, 700, true},
        {"block 1, math", "Compute Multiply X_register, 2 and get X_register", 700, 764, false},
        {"block 2, math", "Compute Multiply X_register, 2 and get X_register", 0, 1365, true},
        {"block 2, math", "Compute Multiply X_register, 2 and get X_register", 1365, 1429, false},
    };
    ftl_options options = FTL_OPTIONS_INIT;
    json_t *root = trace_of(few_statements, &options);
    const json_t *kernel = kernel_at(root, 0);
    assert_string_equal(word(json_object_get(kernel, "timeline"), "blocks"), "beside");
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++) {
        size_t i;
        const json_t *box;
        int found = 0;
        json_array_foreach(boxes_of(kernel), i, box) {
            found += strcmp(word(lane_of(kernel, box), "name"), wanted[n].lane) == 0 &&
                     strcmp(text_of(kernel, box), wanted[n].statement) == 0 &&
                     whole(box, "begin") == wanted[n].begin && whole(box, "end") == wanted[n].end &&
                     waits(box) == wanted[n].waits;
        }
        if (found != 1) print_message("row %zu\n", n);
        assert_int_equal(found, 1);
    }
    json_decref(root);
}

/* --- what holds of each ----------------------------------------------------------------------- */

typedef struct program {
    const char *name, *settings[2], *gpu, *d;
} program;

static const program programs[] = {
    {"mha", {NULL}, "h200", "64"},
    {"mha", {NULL}, "h200", "128"},
    {"gqa", {"causal"}, "h200", "256"},
    {"mha", {NULL}, "a100", "128"},
    {"mha", {"causal"}, "t4", "64"},
    {"decode", {NULL}, "h200", "128"},
    {"varlen", {"causal"}, "a100", "128"},
    {"gemm_bias_gelu", {NULL}, "h200", NULL},
    {"row_softmax", {NULL}, "l40s", NULL},
    {"nsa_selected", {NULL}, "h200", "128"},
    {"block_sparse", {"causal"}, "a100", "64"},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static bool share_a_row(const json_t *a, const json_t *b) {
    return whole(a, "lane") == whole(b, "lane") && whole(a, "row") == whole(b, "row");
}

/* Clocks are rounded, so boxes may meet. */
static void boxes_lie_apart(const json_t *kernel) {
    enum { ROWS_MOST = 8 };
    int clocks = whole(json_object_get(kernel, "timeline"), "clocks");
    size_t i, k;
    const json_t *a, *b;
    json_array_foreach(boxes_of(kernel), i, a) {
        assert_true(0 <= whole(a, "begin") && whole(a, "begin") <= whole(a, "end"));
        assert_true(whole(a, "end") <= clocks ||
                    strcmp(word(lane_of(kernel, a), "kind"), "copies") == 0);
        if (whole(lane_of(kernel, a), "rows") == ROWS_MOST) continue;
        json_array_foreach(boxes_of(kernel), k, b) {
            bool apart =
                whole(a, "end") <= whole(b, "begin") || whole(b, "end") <= whole(a, "begin");
            if (k > i && share_a_row(a, b)) assert_true(apart);
        }
    }
}

static void stalls_are_summed(const json_t *kernel) {
    size_t n, i;
    const json_t *s, *box;
    json_array_foreach(json_object_get(kernel, "statements"), n, s) {
        int clocks = 0, times = 0;
        json_array_foreach(boxes_of(kernel), i, box) {
            if (!waits(box) || (size_t)whole(box, "statement") != n) continue;
            clocks += whole(box, "end") - whole(box, "begin");
            times++;
        }
        const json_t *stall = json_object_get(s, "stall");
        assert_int_equal(whole(stall, "times"), times);
        assert_true(abs(whole(stall, "clocks") - clocks) <= times); /* rounded each */
    }
}

static bool ends_with_another(const json_t *kernel, const json_t *wait) {
    size_t i;
    const json_t *box;
    json_array_foreach(boxes_of(kernel), i, box) {
        if (box == wait || waits(box)) continue;
        if (whole(box, "end") == whole(wait, "end") && !share_a_row(box, wait)) return true;
    }
    return false;
}

/* A Wait goes on at the clock at which work elsewhere ends: a copy, a product, an executor's. */
static void waits_end_with_what_they_wait_for(const json_t *kernel) {
    size_t i;
    const json_t *box;
    json_array_foreach(boxes_of(kernel), i, box) {
        bool is_wait = waits(box) && strncmp(text_of(kernel, box), "Wait", 4) == 0;
        bool is_of_shared = strstr(text_of(kernel, box), "_global") == NULL;
        if (!is_wait || !is_of_shared) continue;
        if (!ends_with_another(kernel, box))
            print_message("%s waits until %d\n", text_of(kernel, box), whole(box, "end"));
        assert_true(ends_with_another(kernel, box));
    }
}

static void all_of_them_hold_together(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        const program *p = &programs[i];
        json_t *root = trace_of_operator(p->name, p->settings, p->gpu, p->d);
        print_message("%s for %s\n", p->name, p->gpu);
        for (size_t k = 0; k < json_array_size(json_object_get(root, "kernels")); k++) {
            const json_t *kernel = kernel_at(root, k);
            assert_string_equal(word(json_object_get(kernel, "timeline"), "note"), "");
            assert_true(json_array_size(boxes_of(kernel)) > 8);
            boxes_lie_apart(kernel);
            stalls_are_summed(kernel);
            waits_end_with_what_they_wait_for(kernel);
        }
        json_decref(root);
    }
}

/* --- beside the cost model -------------------------------------------------------------------- */

static int value_after(const char *code, const char *words) {
    const char *at = strstr(code, words);
    assert_non_null(at);
    return atoi(at + strlen(words));
}

/* Two tiles of few rounds beside what the model says of whole launches of long ones. */
static void the_cost_model_says_about_the_same(void **state) {
    (void)state;
    static const struct {
        const char *gpu;
        double flops_per_clock; /* of the GPU: multiprocessors and MHz, as its description has it */
    } gpus[] = {{"h200", 132 * 1830e6}, {"a100", 108 * 1410e6}, {"t4", 40 * 1590e6}};
    static const char *const sizes[] = {"64", "128"};
    for (int i = 0; i < 6; i++) {
        json_t *root = trace_of_operator("mha", NULL, gpus[i / 2].gpu, sizes[i % 2]);
        const json_t *timeline = json_object_get(kernel_at(root, 0), "timeline");
        const json_t *length = json_array_get(json_object_get(timeline, "lengths"), 0);
        int rows = value_after(word(root, "code"), "BM = ");
        double flops = 2.0 * 4 * rows * whole(length, "value") * atoi(sizes[i % 2]);
        double found = flops / whole(timeline, "clocks") * gpus[i / 2].flops_per_clock * 1e-12;
        double predicted = json_number_value(json_object_get(root, "predicted_tflops"));
        print_message("%s, d %s: %.0f, the model %.0f TFLOPS\n", gpus[i / 2].gpu, sizes[i % 2],
                      found, predicted);
        assert_string_equal(word(length, "name"), "kv_len");
        assert_true(0.8 * predicted < found && found < 1.4 * predicted);
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_statements_take_their_clocks),
        cmocka_unit_test(all_of_them_hold_together),
        cmocka_unit_test(the_cost_model_says_about_the_same),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
