#include "base/os.h"
#include "plan_sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ftl_launch launch;
static char why[FTL_WHY_BYTES];

static bool resolve(const ftl_plan *plan, const sample_call *call) {
    ftl_arguments arguments = {call->tensors, 4, call->scalars, 1};
    memset(&launch, 0xab, sizeof launch);
    return ftl_plan_resolve(plan, &arguments, &launch, why);
}

static void refuses(const sample_call *call, const char *sentence) {
    assert_false(resolve(&sample_plan, call));
    assert_string_equal(why, sentence);
}

static int64_t parameter(int offset, int bytes) {
    int64_t wide = 0;
    memcpy(&wide, launch.parameters + offset, (size_t)bytes);
    return wide;
}

static void lays_out_the_parameters(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    assert_true(resolve(&sample_plan, &call));
    assert_int_equal(launch.grid, 8 * 2 * 2);
    assert_int_equal(launch.parameter_bytes, 152);
    assert_int_equal(parameter(0, 8), 0x10000);
    assert_int_equal(parameter(8, 8), 8 * 100 * 64);
    assert_int_equal(parameter(32 + 16, 8), 200 * 64);
    assert_int_equal(parameter(32 + 24, 8), 64);
    assert_int_equal(parameter(140, 4), 100);
    assert_int_equal(parameter(144, 4), 200);
    float scale;
    memcpy(&scale, launch.parameters + 148, 4);
    assert_true(scale == 0.125f);
    assert_int_equal(launch.sizes[SAMPLE_KV_LEN], 200);
}

static void takes_any_order_of_axes_in_memory(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    call.tensors[0].strides[1] = 64; /* batch, length, heads, d */
    call.tensors[0].strides[2] = 8 * 64;
    assert_true(resolve(&sample_plan, &call));
    assert_int_equal(parameter(16, 8), 64);
    call.tensors[0].strides[2] = -8 * 64; /* rows backwards, from the last */
    call.tensors[0].address = 0x10000000;
    assert_true(resolve(&sample_plan, &call));
}

static void empty_work_is_no_launch(void **state) {
    (void)state;
    const int64_t shapes[][5] = {
        {0, 8, 4, 100, 200}, {2, 8, 4, 0, 200}, {2, 0, 0, 100, 200}, {2, 8, 4, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        sample_call call = sample_arguments(s[0], s[1], s[2], s[3], s[4]);
        for (int t = 0; t < 4; t++) call.tensors[t].address = 0;
        assert_true(resolve(&sample_plan, &call));
        assert_int_equal(launch.grid, 0);
    }
    sample_call call = sample_arguments(2, 8, 4, 100, 0); /* rows that see no key are written */
    call.tensors[1].address = call.tensors[2].address = 0;
    assert_true(resolve(&sample_plan, &call));
    assert_int_equal(launch.grid, 32);
}

/* The blocks that are launched for these lengths where K, V and O have other roles. */
static int64_t grid_of(ftl_tensor_role k, ftl_tensor_role v, ftl_tensor_role o, int64_t q_len,
                       int64_t kv_len) {
    ftl_plan_tensor tensors[4];
    memcpy(tensors, sample_tensors, sizeof tensors);
    tensors[1].role = k;
    tensors[2].role = v;
    tensors[3].role = o;
    ftl_plan plan = sample_plan;
    plan.tensors = tensors;
    sample_call call = sample_arguments(2, 8, 4, q_len, kv_len);
    assert_true(resolve(&plan, &call));
    return launch.grid;
}

/* The first kernel of a split: all that it writes is read by the next one. */
static void a_kernel_may_write_workspace_alone(void **state) {
    (void)state;
    assert_int_equal(grid_of(FTL_INPUT, FTL_INPUT, FTL_WORKSPACE, 100, 200), 32);
    /* Of what an earlier kernel left nothing matters here. */
    assert_int_equal(grid_of(FTL_WORKSPACE, FTL_INPUT, FTL_OUTPUT, 0, 200), 0);
}

/* Beside an output that is empty: `kv_len` keys of V, which are none. */
static void workspace_is_written_beside_empty_outputs(void **state) {
    (void)state;
    assert_int_equal(grid_of(FTL_INPUT, FTL_OUTPUT, FTL_WORKSPACE, 100, 0), 32);
}

static void names_what_is_wrong(void **state) {
    (void)state;
    sample_call good = sample_arguments(2, 8, 4, 100, 200), call = good;
    call.tensors[0].address = 0;
    refuses(&call, "the address of 'Q' is null");
    call.tensors[0].address = 0x10004;
    refuses(&call, "the address of 'Q' (0x10004) must be a multiple of 16 bytes");
    call = good;
    call.tensors[2].extents[2] = 201;
    refuses(&call, "'kv_len' is 200 in K (axis kv) and 201 in V (axis kv)");
    call = good;
    call.tensors[1].extents[3] = 128;
    refuses(&call, "axis d of 'K' must have the length d = 64, not 128");
    call = good;
    call.tensors[3].extents[2] = -1;
    refuses(&call, "axis q of 'O' has the length -1");
    call = good;
    call.tensors[0].strides[3] = 2;
    refuses(&call, "axis d of 'Q' must have stride 1, not 2");
    call = good;
    call.tensors[0].strides[2] = 65;
    refuses(&call, "stride 65 of axis q of 'Q' must be a multiple of 8 elements (16 bytes)");
    call = good;
    call.tensors[0].strides[2] = (int64_t)1 << 31;
    refuses(&call, "stride 2147483648 of axis q of 'Q' does not fit 32 bits");
    call = good;
    call.tensors[0].strides[0] = (int64_t)1 << 31; /* of another axis it may be as long */
    assert_true(resolve(&sample_plan, &call));
    call = good;
    call.tensors[0].extents[1] = call.tensors[3].extents[1] = 8;
    call.tensors[0].strides[0] = 4;
    refuses(&call, "stride 4 of axis b of 'Q' must be a multiple of 8 elements (16 bytes)");
    call = good;
    call.tensors[3].strides[0] = 0;
    refuses(&call, "axis b of 'O' has stride 0: its elements would share one place");
    call = good;
    call.tensors[0].type = FTL_BF16;
    refuses(&call, "tensor 'Q' must be f16, not bf16");
    call = good;
    call.tensors[0].axis_count = 3;
    refuses(&call, "tensor 'Q' has 4 axes, not 3");
    call = good;
    call.tensors[3].name = "P";
    refuses(&call, "kernel 'attention' has no tensor 'P'");
    call.tensors[3].name = "Q";
    refuses(&call, "tensor 'Q' is given twice");
    call.tensors[3].name = NULL;
    refuses(&call, "argument 3 has no name");
}

static void names_wrong_scalars_and_conditions(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 6, 4, 100, 200);
    refuses(&call, "kernel 'attention' demands q_heads % kv_heads == 0; here q_heads = 6, "
                   "kv_heads = 4");
    call = sample_arguments(2, 8, 0, 100, 200);
    refuses(&call, "kernel 'attention' demands q_heads % kv_heads == 0; it cannot be computed from "
                   "q_heads = 8, kv_heads = 0");
    call = sample_arguments(2, 8, 4, 100, 200);
    call.scalars[0].value = 0;
    refuses(&call, "kernel 'attention' demands scale > 0; here scale = 0");
    call.scalars[0].value = 1e300;
    refuses(&call, "scalar 'scale' is 1e+300, which no f32 can hold");
    call.scalars[0].value = (double)NAN;
    refuses(&call, "scalar 'scale' is not finite");
    call.scalars[0] = (ftl_scalar){"scales", 1};
    refuses(&call, "scalar 'scale' is missing");
}

static void sees_every_overflow(void **state) {
    (void)state;
    sample_call call = sample_arguments(1, 8, 8, 100, (int64_t)1 << 31);
    refuses(&call, "'kv_len' is 2147483648; at most 2147483647 is possible");
    call = sample_arguments(1, 8, 8, INT32_MAX, 200);
    call.tensors[0].strides[2] = call.tensors[3].strides[2] = INT64_MAX / 8 * 8;
    refuses(&call, "the size of 'Q' overflows");
    call = sample_arguments(1, 8, 8, 100, 200);
    call.tensors[0].address = UINT64_MAX - 15;
    refuses(&call, "'Q' reaches beyond the end of the address space");
    call = sample_arguments(INT32_MAX, 8, 8, 1, 1);
    refuses(&call, "the grid has more than 2147483647 blocks");
}

static void null_arguments(void **state) {
    (void)state;
    sample_call call = sample_arguments(1, 8, 8, 1, 1);
    ftl_arguments none = {NULL, 4, call.scalars, 1};
    assert_false(ftl_plan_resolve(&sample_plan, &none, &launch, why));
    assert_string_equal(why, "the list of tensors or scalars is null");
    assert_false(ftl_plan_resolve(NULL, &none, &launch, why));
    assert_false(ftl_plan_resolve(&sample_plan, NULL, &launch, why));
    ftl_arguments few = {call.tensors, 3, call.scalars, 1};
    assert_false(ftl_plan_resolve(&sample_plan, &few, &launch, why));
    assert_string_equal(why, "tensor 'O' is missing");
}

static double evaluate(const ftl_formula_step *steps, int count, bool *is_known) {
    const int64_t sizes[] = {7, -7, INT64_MAX};
    const double scalars[] = {0.5};
    ftl_formula formula = {"", steps, count};
    double value = 0;
    *is_known = ftl_formula_evaluate(&formula, sizes, scalars, &value);
    return value;
}

static void formulas(void **state) {
    (void)state;
    static const struct {
        ftl_formula_op op;
        int64_t a, b;
        bool is_known;
        double value;
    } cases[] = {
        {FTL_DIVIDE_UP, 7, 2, true, 4},
        {FTL_DIVIDE_UP, -7, 2, true, -3},
        {FTL_DIVIDE_DOWN, -7, 2, true, -4},
        {FTL_DIVIDE_DOWN, 7, -2, true, -4},
        {FTL_MODULO, -7, 4, true, 1},
        {FTL_MODULO, 7, 0, false, 0},
        {FTL_DIVIDE_REAL, 7, 2, true, 3.5},
        {FTL_DIVIDE_UP, INT64_MIN, -1, false, 0},
        {FTL_ADD, INT64_MAX, 1, false, 0},
        {FTL_MULTIPLY, INT64_MAX, 2, false, 0},
        {FTL_SUBTRACT, -2, INT64_MAX, false, 0},
        {FTL_MIN, -7, 2, true, -7},
        {FTL_MAX, -7, 2, true, 2},
        {FTL_LESS, 1, 2, true, 1},
        {FTL_GREATER_EQUAL, 1, 2, true, 0},
        {FTL_EQUAL, INT64_MAX, INT64_MAX - 1, true, 0},
        {FTL_AND, 3, 0, true, 0},
        {FTL_OR, 3, 0, true, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ftl_formula_step steps[] = {INTEGER_STEP(cases[i].a), INTEGER_STEP(cases[i].b),
                                    OP_STEP(cases[i].op)};
        bool is_known;
        double value = evaluate(steps, 3, &is_known);
        assert_int_equal(is_known, cases[i].is_known);
        if (is_known) assert_true(value == cases[i].value);
    }
    bool is_known;
    ftl_formula_step too_few[] = {INTEGER_STEP(1), OP_STEP(FTL_ADD)};
    evaluate(too_few, 2, &is_known);
    assert_false(is_known);
    ftl_formula_step scaled[] = {
        SIZE_STEP(1), OP_STEP(FTL_ABS), {.op = FTL_PUSH_SCALAR, .index = 0}, OP_STEP(FTL_MULTIPLY)};
    assert_true(evaluate(scaled, 4, &is_known) == 3.5 && is_known);
}

static void json_keeps_everything(void **state) {
    (void)state;
    char *text = ftl_plan_write(&sample_plan);
    assert_non_null(text);
    ftl_plan *read = ftl_plan_read(text, strlen(text), why);
    assert_non_null(read);
    char *again = ftl_plan_write(read);
    assert_string_equal(text, again);
    assert_int_equal(read->tensors[1].axes[2].stride_offset, 56);
    assert_true(read->tensors[1].axes[2].is_stride_short);
    assert_false(read->tensors[1].axes[1].is_stride_short);
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    assert_true(resolve(read, &call));
    assert_int_equal(launch.grid, 32);
    free(text);
    free(again);
    ftl_plan_free(read);
    ftl_plan_free(NULL);
}

/* What a plan says of a kernel that begins early, JSON and header say; of others they say nothing.
 */
static void early_kernels_say_so(void **state) {
    (void)state;
    ftl_plan plan = sample_plan;
    for (int i = 0; i < 2; i++) {
        plan.is_early = i;
        char *text = ftl_plan_write(&plan), *header = ftl_plan_header(&plan, "attention_a100");
        assert_non_null(text);
        assert_non_null(header);
        assert_int_equal(strstr(text, "early") != NULL, i);
        assert_int_equal(strstr(header, "PROGRAMMATIC_STREAM_SERIALIZATION") != NULL, i);
        ftl_plan *read = ftl_plan_read(text, strlen(text), why);
        assert_non_null(read);
        assert_int_equal(read->is_early, i);
        free(text);
        free(header);
        ftl_plan_free(read);
    }
}

/* n / d by the constants of a launch, for divisors of all sizes. */
static void derived_parameters(void **state) {
    (void)state;
    static const ftl_formula_step length[] = {SIZE_STEP(SAMPLE_Q_LEN)};
    const ftl_plan_derived derived[] = {
        {"tiles", FTL_DERIVED_TILES, {.text = ""}, 152},
        {"length", FTL_DERIVED_VALUE, FORMULA("q_len", length), 156},
        {"by_length", FTL_DERIVED_DIVISOR, FORMULA("q_len", length), 160}};
    ftl_plan plan = sample_plan;
    plan.derived = derived, plan.derived_count = 3, plan.parameter_bytes = 168;
    static const int lengths[] = {1, 2, 3, 5, 7, 64, 100, 127, 4095, 65537, 1 << 20};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int d = lengths[i];
        sample_call call = sample_arguments(1, 4, 4, d, 8);
        assert_true(resolve(&plan, &call));
        assert_int_equal(parameter(152, 4), launch.tiles);
        assert_int_equal(parameter(156, 4), d);
        uint64_t multiplier = (uint32_t)parameter(160, 4), shift = (uint32_t)parameter(164, 4);
        for (int64_t k = 0; k < 3000; k++) {
            int64_t at[] = {k, k * d, k * d - 1, INT32_MAX - k, INT32_MAX / d * d - k};
            for (int j = 0; j < 5; j++) {
                if (at[j] < 0 || at[j] > INT32_MAX) continue;
                uint64_t twice = (uint64_t)at[j] * 2;
                assert_int_equal((int64_t)((twice * multiplier >> 32) >> shift), at[j] / d);
            }
        }
    }
}

static const ftl_plan_map sample_map = {
    "Q_map", 0,   192,
    5,       128, {{3, 32, 32, 0}, {2, 64, 0, 0}, {3, 2, 32, 1}, {1, 1, 0, 0}, {0, 1, 0, 0}}};

/* Maps of tensors: an axis in panels, strides of every order, and what the unit cannot do. */
static void tensor_maps(void **state) {
    (void)state;
    ftl_plan plan = sample_plan;
    plan.maps = &sample_map, plan.map_count = 1, plan.parameter_bytes = 320;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    assert_true(resolve(&plan, &call));
    assert_int_equal(launch.map_count, 1);
    const ftl_tensor_map *map = &launch.maps[0];
    static const uint64_t extents[] = {32, 100, 2, 8, 2};
    static const uint64_t strides[] = {128, 64, 12800, 102400};
    for (int i = 0; i < 5; i++) assert_int_equal(map->extents[i], extents[i]);
    for (int i = 0; i < 4; i++) assert_int_equal(map->stride_bytes[i], strides[i]);
    assert_int_equal(map->address, call.tensors[0].address);
    call.tensors[0].strides[2] = -64;
    assert_false(resolve(&plan, &call));
    assert_non_null(strstr(why, "axis q of 'Q' must be positive"));
}

/* Its limits: bases and strides of 16 bytes, strides between them and 2^40 bytes, where a stride is
 * used; lengths as long as they may be anyway.
 */
static void maps_have_limits(void **state) {
    (void)state;
    ftl_plan plan = sample_plan;
    plan.maps = &sample_map, plan.map_count = 1, plan.parameter_bytes = 320;
    const sample_call good = sample_arguments(2, 8, 4, 100, 200);
    sample_call call = good;
    for (int axis = 0; axis < 3; axis++) {
        call = good;
        call.tensors[0].strides[axis] += 4;
        assert_false(resolve(&plan, &call));
        assert_non_null(strstr(why, "must be a multiple of 8 elements (16 bytes)"));
    }
    call = good;
    call.tensors[0].address += 8;
    assert_false(resolve(&plan, &call));
    assert_non_null(strstr(why, "must be a multiple of 16 bytes"));
    call = good;
    call.tensors[0].strides[0] = 0; /* a broadcast */
    assert_false(resolve(&plan, &call));
    assert_non_null(strstr(why, "stride 0 of axis b of 'Q' must be positive"));
    call = good;
    call.tensors[0].strides[0] = (int64_t)1 << 39;
    assert_false(resolve(&plan, &call));
    assert_non_null(strstr(why, "of axis b of 'Q' must be positive, a multiple of 16 bytes and "
                                "below 2^40 bytes"));
    call.tensors[0].strides[0] = ((int64_t)1 << 39) - 8;
    assert_true(resolve(&plan, &call));
    assert_int_equal(launch.maps[0].stride_bytes[3], ((uint64_t)1 << 40) - 16);
    call = sample_arguments(1, 8, 4, INT32_MAX, 1);
    call.tensors[0].strides[0] = 0; /* of one matrix: not used */
    assert_true(resolve(&plan, &call));
    assert_int_equal(launch.maps[0].extents[1], INT32_MAX);
}

/* A plan from a file may say anything; nothing outside it may be touched. */
static void json_is_checked(void **state) {
    (void)state;
    static const char *const edits[][3] = {
        {"\"threads\":128", "\"threads\":4096", "the plan's 'threads' is out of range"},
        {"\"offset\":148", "\"offset\":152",
         "the plan's 'scalars[0].offset' lies outside the parameters"},
        {"\"offset\":148", "\"offset\":146", "the plan's 'scalars[0].offset' is not aligned"},
        {"[\"size\",4]", "[\"size\",5]",
         "the plan's 'tensors[1].axes[2].extent' has a step that is none, or pushes what is not "
         "there"},
        {"[\"scalar\",0]", "[\"scalar\",1]",
         "the plan's 'conditions[1].formula' has a step that is none, or pushes what is not there"},
        {"[\"size\",4]", "[\"length\",4]", "the plan's 'steps' has a wrong step"},
        {"[\"size\",4]", "[\"size\"]", "the plan's 'steps' has a wrong step"},
        {"\"size\":0", "\"size\":5", "the plan's 'tensors[0].axes[0].size' is not there"},
        {"\"format\":1", "\"format\":2", "the plan's 'format' is missing or not known"},
        {"\"role\":\"output\"", "\"role\":\"out\"", "the plan's 'role' is missing or not known"},
        {"\"walks\":[", "\"walks\":[7,", "the plan's 'steps' is missing, no list, or too long"},
    };
    char *text = ftl_plan_write(&sample_plan);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *at = strstr(text, edits[i][0]);
        assert_non_null(at);
        char edited[16384];
        int length = snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text,
                              edits[i][1], at + strlen(edits[i][0]));
        assert_null(ftl_plan_read(edited, (size_t)length, why));
        assert_string_equal(why, edits[i][2]);
    }
    for (size_t cut = 0; cut < strlen(text); cut += 7) assert_null(ftl_plan_read(text, cut, why));
    assert_null(ftl_plan_read(NULL, 0, why));
    free(text);
}

/* The header is what a stranger compiles: give it to one, with a program, and see what that says.
 */
static void ask_header(const ftl_plan *plan, const char *body, const char *answer) {
    char *header = ftl_plan_header(plan, "attention_a100");
    assert_non_null(header);
    char folder[256], path[512], program[512], binary[512];
    os_error error;
    assert_true(os_temporary_folder(folder, &error));
    snprintf(path, sizeof path, "%s/attention_a100.h", folder);
    snprintf(program, sizeof program, "%s/main.c", folder);
    snprintf(binary, sizeof binary, "%s/main", folder);
    assert_true(os_write_file(path, str_from(header), &error));
    assert_true(os_write_file(program, str_from(body), &error));
    const char *compile[] = {"cc", "-Wall", "-Wextra", "-Werror", program, "-o", binary, NULL};
    const char *run[] = {binary, NULL};
    text_buffer out, err;
    int code;
    text_init(&out, 4096);
    text_init(&err, 65536);
    assert_true(os_run(compile, STR(""), 60, &out, &err, &code, &error));
    assert_string_equal(err.data ? err.data : "", "");
    assert_true(os_run(run, STR(""), 60, &out, &err, &code, &error));
    assert_string_equal(out.data, answer);
    text_done(&out);
    text_done(&err);
    os_remove_folder(folder);
    free(header);
}

static void header_says_the_same(void **state) {
    (void)state;
    ask_header(
        &sample_plan,
        "#include \"attention_a100.h\"\n#include <stddef.h>\n#include <stdio.h>\n"
        "int main(void) {\n"
        "    const char *bad = attention_a100_check(2, 6, 4, 100, 200, 1);\n"
        "    printf(\"%d %d %d %d %s %s\", (int)attention_a100_blocks(2, 8, 4, 100, 200, 1),\n"
        "           (int)sizeof(attention_a100_arguments),\n"
        "           (int)offsetof(attention_a100_arguments, scale),\n"
        "           (int)offsetof(attention_a100_arguments, K_stride_kv), bad,\n"
        "           attention_a100_check(2, 8, 4, 100, 200, 1) ? \"bad\" : \"good\");\n"
        "    return 0;\n}\n",
        "32 152 148 56 q_heads % kv_heads == 0 good");
}

/* What a launch derives, the header derives too. */
static void header_derives_and_describes(void **state) {
    (void)state;
    static const ftl_formula_step length[] = {SIZE_STEP(SAMPLE_Q_LEN)};
    const ftl_plan_derived derived[] = {
        {"tiles", FTL_DERIVED_TILES, {.text = ""}, 152},
        {"by_length", FTL_DERIVED_DIVISOR, FORMULA("q_len", length), 156}};
    ftl_plan plan = sample_plan;
    plan.derived = derived, plan.derived_count = 2;
    plan.maps = &sample_map, plan.map_count = 1, plan.parameter_bytes = 320;
    plan.grid_kind = FTL_GRID_DYNAMIC, plan.resident_blocks = 20, plan.counters_offset = 168;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    assert_true(resolve(&plan, &call));
    assert_int_equal(launch.grid, 20);
    const ftl_tensor_map *map = &launch.maps[0];
    char answer[256];
    snprintf(answer, sizeof answer, "%u %u %u %u %d %d %d %d %d", launch.grid, launch.tiles,
             (unsigned)parameter(156, 4), (unsigned)parameter(160, 4), (int)map->extents[1],
             (int)map->extents[2], (int)map->stride_bytes[0], (int)map->stride_bytes[1], 192);
    ask_header(
        &plan,
        "#include \"attention_a100.h\"\n#include <stddef.h>\n#include <stdio.h>\n"
        "static int numbers[4];\n"
        "static int encode(void *map, int type, uint32_t rank, void *address,\n"
        "                  const uint64_t *extents, const uint64_t *strides, const uint32_t *box,\n"
        "                  const uint32_t *steps, int interleave, int swizzle, int promotion,\n"
        "                  int fill) {\n"
        "    (void)map, (void)address, (void)steps, (void)interleave, (void)promotion, "
        "(void)fill;\n"
        "    numbers[0] = (int)extents[1], numbers[1] = (int)extents[2];\n"
        "    numbers[2] = (int)strides[0], numbers[3] = (int)strides[1];\n"
        "    return type != 6 || rank != 5 || box[1] != 64 || swizzle != 3;\n}\n"
        "int main(void) {\n"
        "    attention_a100_arguments p = {0};\n"
        "    p.Q_stride_q = 64;\n"
        "    attention_a100_derive(&p, 2, 8, 4, 100, 200, 1);\n"
        "    if (attention_a100_describe(&p, encode, 2, 8, 4, 100, 200, 1)) return 1;\n"
        "    printf(\"%d %d %u %u %d %d %d %d %d\",\n"
        "           (int)attention_a100_blocks(2, 8, 4, 100, 200, 1), p.tiles, p.by_length[0],\n"
        "           p.by_length[1], numbers[0], numbers[1], numbers[2], numbers[3],\n"
        "           (int)offsetof(attention_a100_arguments, Q_map));\n"
        "    return 0;\n}\n",
        answer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lays_out_the_parameters),
        cmocka_unit_test(takes_any_order_of_axes_in_memory),
        cmocka_unit_test(empty_work_is_no_launch),
        cmocka_unit_test(a_kernel_may_write_workspace_alone),
        cmocka_unit_test(workspace_is_written_beside_empty_outputs),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(names_wrong_scalars_and_conditions),
        cmocka_unit_test(sees_every_overflow),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(formulas),
        cmocka_unit_test(derived_parameters),
        cmocka_unit_test(tensor_maps),
        cmocka_unit_test(maps_have_limits),
        cmocka_unit_test(json_keeps_everything),
        cmocka_unit_test(early_kernels_say_so),
        cmocka_unit_test(json_is_checked),
        cmocka_unit_test(header_says_the_same),
        cmocka_unit_test(header_derives_and_describes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
