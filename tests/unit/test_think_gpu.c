/* The last rung of the judgement, on a GPU that is none: kernels that are right wherever there is
 * no GPU and cheat on it. Each must be found out, and the honest one must pass.
 */
#include "fake_scaled.h"
#include "think/device_arrays.h"
#include "think/device_text.h"
#include "think/judge.h"
#include "think/record.h"

#include <stdlib.h>
#include <string.h>

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_runtime *runtime;
static ftl_product *product;
static char *ptx;

/* --- what kernels do on the GPU --------------------------------------------------------------- */

enum { CANDIDATE = 1 }; /* the first module that is loaded; the second is the built-in agent's */

typedef enum conduct {
    HONEST,
    WRITES_BESIDE, /* an element past the last row */
    WRITES_AN_INPUT,
    LEAVES_A_ROW,   /* unwritten: what stood there before */
    REPEATS_ITSELF, /* the first launch's results, whatever the inputs are */
    IS_UNSTEADY,    /* other bits in every other launch */
    IS_IDLE_WHEN_LONG,
    IS_WRONG_LATER, /* once it was timed */
    CONDUCTS
} conduct;

typedef struct gpu {
    conduct conduct;
    int launches; /* of the candidate */
    double launch_ms;
    bool was_timed;
    uint16_t first; /* the element that its first launch wrote */
} gpu;

static void cheat(gpu *g, const unsigned char *parameters, int64_t rows, int64_t columns) {
    const ftl_plan *plan = product->kernels[0].plan;
    uint16_t *last = scaled_element(plan, 1, parameters, rows - 1, columns - 1);
    uint16_t *top = scaled_element(plan, 1, parameters, 0, 0);
    switch (g->conduct) {
    case WRITES_BESIDE: last[8] = 0; break;
    case WRITES_AN_INPUT: *scaled_element(plan, 0, parameters, 0, 0) ^= 1; break;
    case REPEATS_ITSELF:
        if (g->launches == 1) g->first = *top;
        *top = g->first;
        break;
    case IS_UNSTEADY: *last = (uint16_t)(*last ^ (g->launches % 2)); break;
    case IS_WRONG_LATER:
        g->was_timed |= rows > 1000;
        if (g->was_timed && rows < 1000) *top ^= 0x4000;
        break;
    default: break;
    }
}

static void on_launch(void *user, const unsigned char *parameters) {
    gpu *g = user;
    const ftl_plan *plan = product->kernels[0].plan;
    bool is_candidate = driver->module == CANDIDATE;
    int64_t rows = fake_size(plan, parameters, "n"), columns = fake_size(plan, parameters, "m");
    driver->clock_ms += g->launch_ms;
    g->launches += is_candidate;
    if (is_candidate && g->conduct == IS_IDLE_WHEN_LONG && rows > 1000) return;
    for (int64_t i = 0; i < rows; i++) {
        if (is_candidate && g->conduct == LEAVES_A_ROW && i == rows / 2) continue;
        for (int64_t j = 0; j < columns; j++)
            scaled_put(plan, parameters, i, j, scaled_value(plan, parameters, i, j));
    }
    if (is_candidate) cheat(g, parameters, rows, columns);
}

/* --- judging ---------------------------------------------------------------------------------- */

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_source source = {"scaled", SCALED_SKETCH, strlen(SCALED_SKETCH)};
    assert_int_equal(ftl_build(context, &source, &scaled_options, &product), FTL_OK);
    ptx = scaled_ptx(context, product);
    if (!ptx) return 0; /* the tests are skipped */
    ftl_runtime_options fake = {
        .struct_bytes = sizeof fake, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &fake, &runtime), FTL_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    if (ptx) ftl_runtime_close(runtime);
    free(ptx);
    ftl_product_free(product);
    ftl_context_free(context);
    return 0;
}

/* The kernel's text is the built-in one; what it does on the GPU is not. */
static void judge(judge_verdict *verdict) {
    judge_task task = {.options = &scaled_options,
                       .seed = 3,
                       .highest = THINK_RUNG_GPU,
                       .has_gpu = true,
                       .runtime = runtime};
    str cuda = str_from(product->kernels[0].cuda);
    assert_int_equal(judge_cuda(context, &task, SCALED_SKETCH, product, cuda, verdict), FTL_OK);
}

static void set_up(gpu *g) {
    if (!ptx) skip();
    scaled_set_up(driver, compiler, product, ptx, on_launch, g);
    if (g->launch_ms <= 0) g->launch_ms = 0.5;
}

static char *said(const judge_verdict *verdict) {
    return json_dumps(verdict->findings, JSON_COMPACT);
}

static void honest_kernels_pass(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST};
    judge_verdict verdict;
    set_up(&g);
    judge(&verdict);
    char *findings = said(&verdict);
    assert_string_equal(findings, "[]");
    assert_true(verdict.passed && verdict.rung == THINK_RUNG_GPU);
    assert_true(verdict.tflops > 0);
    free(findings);
    judge_done(&verdict);
}

static void cheats_are_found(void **state) {
    (void)state;
    static const char *const words[CONDUCTS] = {
        [WRITES_BESIDE] = "B",
        [WRITES_AN_INPUT] = "the Input 'A'",
        [LEAVES_A_ROW] = "not written",
        [REPEATS_ITSELF] = "B:",
        [IS_UNSTEADY] = "differ between two launches",
        [IS_IDLE_WHEN_LONG] = "while it is timed",
        [IS_WRONG_LATER] = "B:",
    };
    for (int i = WRITES_BESIDE; i < CONDUCTS; i++) {
        gpu g = {.conduct = (conduct)i};
        judge_verdict verdict;
        set_up(&g);
        judge(&verdict);
        char *findings = said(&verdict);
        bool is_found = !verdict.passed && verdict.rung == THINK_RUNG_GPU &&
                        strstr(findings, words[i]) && verdict.tflops >= 0;
        if (!is_found) fail_msg("conduct %d is not found: %s", i, findings);
        free(findings);
        judge_done(&verdict);
    }
}

static void no_speed_above_what_a_gpu_can_do(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST, .launch_ms = 1e-9};
    judge_verdict verdict;
    set_up(&g);
    judge(&verdict);
    assert_true(verdict.passed);
    assert_true(verdict.tflops == 0);
    assert_non_null(strstr(json_text(verdict.facts, "untimed"), "more than this GPU can do"));
    judge_done(&verdict);
}

static void faults_end_a_kernel_not_the_run(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST};
    judge_verdict verdict;
    set_up(&g);
    driver->launch_result = 700;
    judge(&verdict);
    char *findings = said(&verdict);
    assert_false(verdict.passed);
    assert_int_equal(verdict.rung, THINK_RUNG_GPU);
    assert_non_null(strstr(findings, "illegal memory access"));
    free(findings);
    judge_done(&verdict);
}

/* `_Pragma` unrolls and does nothing else. */
static void pragmas_unroll(void **state) {
    (void)state;
    static const struct {
        const char *word;
        bool passes;
    } rows[] = {
        {"_Pragma(\"unroll\")", true},         {"#define U _Pragma(\"unroll\")\nU", true},
        {"_Pragma(\"push_macro(x)\")", false}, {"#define U(x) _Pragma(x)\nU(\"unroll\")", false},
        {"_Pragma (\"unroll\")", false},       {"_Pragma", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        arena memory;
        diag_list diags;
        snprintf(text, sizeof text,
                 "extern \"C\" __global__ void k(int n) {\n%s\nfor (int i = 0; i < 4; i++);\n}\n",
                 rows[i].word);
        arena_init(&memory, 1 << 20);
        diag_init(&diags, &memory, STR("k.cu"), str_from(text));
        bool passes = device_text_check(str_from(text), "k", FTL_PLAIN_CUDA, &diags);
        if (passes != rows[i].passes) fail_msg("%s", rows[i].word);
        arena_done(&memory);
    }
}

/* A loop past its array is undefined, and unrolled it leaves no trace in what runs. */
static void loops_stay_within_arrays(void **state) {
    (void)state;
    static const struct {
        const char *body;
        const char *said; /* NULL: it passes */
    } rows[] = {
        {"for (int i = 0; i < 4; i++) a[i] = 0;", NULL},
        {"for (int i = 0; i < 5; i++) a[i] = 0;", "'a' becomes 4"},
        {"for (int i = 0; i <= 4; i++) a[i] = 0;", "'a' becomes 4"},
        {"for (int i = 0; i < 4; i++) { x += b[i]; }", "'b' becomes 2"},
        {"U for (int i = 0; i < 2; i++)\nU for (int k = 0; k < 3; k++) b[i][2 * k] = 0;",
         "'b' becomes 4"},
        {"for (int i = 0; i < 2; i++) for (int k = 0; k < 2; k++) b[i][2 * k + 1] = 0;", NULL},
        {"for (int i = 0; i < 2; i++) for (int k = 0; k < 2; k++) b[i][2 * k - 1] = 0;",
         "'b' becomes -1"},
        {"for (int i = 0; i < 2; i++) for (int k = 0; k < 2; k++) b[i ^ 1][(k << 1) + 1] = 0;",
         NULL},
        {"for (int i = 0; i < 4; i += 2) a[i + 1] = 0;", NULL},
        {"for (int i = 0; i < 6; i += 2) a[i] = 0;", "'a' becomes 4"},
        {"const int N = 5; for (int i = 0; i < N; i++) a[i] = 0;", "'a' becomes 4"},
        {"for (int i = 0; i < n; i++) a[i] = 0;", NULL},
        {"for (int i = 0; i < 5; i++) if (i < n) a[i] = 0;", NULL},
        {"for (int i = 0; i < 5; i++) if (n) a[i] = 0; else a[i] = 1;", "'a' becomes 4"},
        {"for (int i = 0; i < 5; i++) if (n) a[i] = 0; else x = 1;", NULL},
        {"if (n) for (int i = 0; i < 5; i++) a[i] = 0;", "'a' becomes 4"},
        {"while (n) for (int i = 0; i < 5; i++) a[i] = 0;", "'a' becomes 4"},
        {"for (int i = 0; i < 5; i++) x += i < 4 ? a[i] : 0;", NULL},
        {"for (int i = 0; i < 5; i++) a[i] = n ? 1 : 0;", "'a' becomes 4"},
        {"for (int i = 0; i < 5; i++) n && a[i];", NULL},
        {"for (int i = 0; i < 5; i++) { if (i == 4) break; a[i] = 0; }", NULL},
        {"for (int i = 0; i < 5; i++) { a[i] = 0; i += n; }", NULL},
        {"for (int i = 0; i < 5; i++) { float a[5]; a[i] = 0; }", NULL},
        {"for (int i = 0; i < 5; i++) { float a[5]; a[i] = 0; } for (int i = 0; i < 5; i++) a[i] = "
         "0;",
         "'a' becomes 4"},
        {"const auto f = [&](float *a) { for (int i = 0; i < 5; i++) a[i] = 0; }; f(c);", NULL},
        {"const auto f = [&](int k) { for (int i = 0; i < 5; i++) a[i] = k; }; f(1);",
         "'a' becomes 4"},
        {"for (int i = 0; i < 1; i++) f(&a[4]);", NULL},
        {"// for (int i = 0; i < 5; i++) a[i] = 0;", NULL},
        {"a[3] = b[1][3];", NULL},
        {"a[4] = 0;", "'a' becomes 4"},
        {"for (int i = 0; i < 0; i++) a[4] = 0;", NULL},
        {"switch (n) { case 1: a[4] = 0; }", "'a' becomes 4"},
        {"if (n) x = 1; else x = b[1][4];", "'b' becomes 4"},
        {"for (int i = 0; i < n; i++) a[4] = 0;", "'a' becomes 4"},
        {"if (N > 4) a[4] = 0;", NULL},
        {"if constexpr (sizeof(n) > 4) a[4] = 0;", NULL},
        {"for (int i = 0; i < 4; i++) if (i == 0) x += a[2 * i - 1]; else x += a[i];",
         "'a' becomes -1"},
        {"for (int i = 0; i < 8; i++) if (i < 4) a[i] = 0; else if (!(i & 1)) x = a[i - 4];", NULL},
        {"for (int i = 0; i < 8; i++) if (i < 4 || n) x += a[i];", NULL},
        {"for (int i = 0; i < 8; i++) if (i >= 6 || n) for (int k = 0; k < 2; k++) x += a[i - k];",
         "'a' becomes 6"},
        {"for (int i = 0; i < 2; i++) for (int k = i; k < 4; k++) b[i][k + i] = 0;",
         "'b' becomes 4"},
        {"for (int i = 0; i < 2; i++) { const int k = 4 * i; if (n) a[k] = 0; }", NULL},
        {"do { for (int i = 0; i < 5; i++) a[i]++; } while (n);", "'a' becomes 4"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        arena memory;
        diag_list diags;
        snprintf(text, sizeof text,
                 "extern \"C\" __global__ void k(int n) {\nfloat x = 0, a[4] = {}, b[2][4] = {}, "
                 "c[8] = {};\n%s\n}\n",
                 rows[i].body);
        arena_init(&memory, 1 << 20);
        diag_init(&diags, &memory, STR("k.cu"), str_from(text));
        bool passes = device_arrays_check(str_from(text), &diags);
        const char *said = diags.first ? str_copy_z(&memory, diags.first->message) : "";
        if (passes != !rows[i].said || (rows[i].said && !strstr(said, rows[i].said)))
            fail_msg("%s: %s", rows[i].body, said);
        arena_done(&memory);
    }
}

/* What a variable holds before anything is written to it is undefined, and a compiler may take
 * what is right by chance.
 */
static void values_are_written_before_they_are_read(void **state) {
    (void)state;
    static const struct {
        const char *body;
        const char *said; /* NULL: it passes */
    } rows[] = {
        {"for (int i = 0; i < 4; i++) a[i] = 0; x = a[3];", NULL},
        {"for (int i = 0 + 1; i < 4; i++) a[i] = 0; for (int i = 0; i < 4; i++) x += a[i];",
         "'a[0]'"},
        {"for (int i = 0; i < 4 - 1; i++) a[i] = 0; for (int i = 0; i < 4; i++) x += a[i];",
         "'a[3]'"},
        {"for (int i = 1; i < 4; i++) a[i] = 0; for (int i = 0; i < 4; i++) a[i] = high(a[i], x);",
         "'a[0]'"},
        {"for (int i = 1; i < 4; i++) a[i] = 0; for (int i = 0; i < 4; i++) a[i] += 1;", "'a[0]'"},
        {"for (int i = 0; i < 2; i++) for (int k = 0; k < 4; k += 2) b[i][k] = 0; x = b[1][2];"
         " x = b[1][3];",
         "'b[1][3]'"},
        {"x = y;", "'y'"},
        {"x = a[1] = a[2] = 0; x = a[2];", NULL},
        {"a[0] = a[0] + 1;", "'a[0]'"},
        {"if (n) a[0] = 1; x = a[0];", NULL},
        {"if (n) x = a[0]; else x = 1;", "'a[0]'"},
        {"x = n ? a[0] : 0;", "'a[0]'"},
        {"a[n] = 0; x = a[1];", NULL},
        {"x = a[n];", NULL},
        {"load(a[0], x); x = a[0];", NULL},
        {"load(a[0], a[1]); x = a[0];", "'a[1]'"},
        {"x = high(a[0], 1);", "'a[0]'"},
        {"other(a[0]); x = a[0];", NULL},
        {"other(a); x = a[0];", NULL},
        {"row(b[1]); x = b[1][2]; x = b[0][2];", "'b[0][2]'"},
        {"other(b[1]); x = b[0][2];", NULL},
        {"other(&a[0]); x = a[1];", NULL},
        {"*(float4 *)a = z(); x = a[1];", NULL},
        {"(float4 &)a[0] = z(); x = a[1];", NULL},
        {"reinterpret_cast<float4 &>(a[0]) = z(); x = a[1];", NULL},
        {"asm(\"mov\" : \"=f\"(a[0])); x = a[0];", NULL},
        {"float &r = a[2]; r = 1; x = a[2];", NULL},
        {"for (float &r : a) r = 1; x = a[2];", NULL},
        {"const auto f = [&] { a[0] = 1; }; f(); x = a[0];", NULL},
        {"while (n) { if (n > 1) x = a[0]; a[0] = 1; }", NULL},
        {"while (n) { if (n > 1) x = a[0]; a[1] = 1; }", "'a[0]'"},
        {"while (n) { x = a[0]; a[0] = 1; }", "'a[0]'"},
        {"while (n) { if (n > 1) a[0] = 2 * a[0]; a[0] = a[0] + 1; }", "'a[0]'"},
        {"while (n) { if (n > 1) a[0] *= 2; if (n > 2) a[0] += 1; } x = a[0];", "'a[0]'"},
        {"while (n) { if (n > 1) a[0] *= 2; if (n > 2) a[0] = 1; } x = a[0];", NULL},
        {"while (n) { if (n > 3) continue; x = a[0]; a[0] = 1; }", NULL},
        {"for (int i = 0; i < n; i++) { if (i > 0) x += a[0]; a[0] = x; }", NULL},
        {"for (int i = 0; i < 4; i++) { if (i > 0) x += a[i - 1]; a[i] = x; }", NULL},
        {"for (int i = 0; i < 4; i++) { if (i >= 0) x += a[i]; a[i] = x; }", "'a[0]'"},
        {"for (int i = 0; i < 4; i++) { x += a[i ^ 1]; a[i] = x; }", "'a[1]'"},
        {"for (int i = 0; i < 4; i++) { float z; if (i) z = 1; x += z; }", "'z'"},
        {"while (n) { float z; if (n) z = 1; x += z; }", NULL},
        {"do { y = x; } while (y < 1); x = y;", NULL},
        {"while (n) { y = n; if (y) break; } x = y;", NULL},
        {"struct two { float p, q; float sum() { return p + q; } }; two v; x = v.p;", NULL},
        {"again: if (n) x = y; y = 1; goto again;", NULL},
        {"SET; x = s;", NULL},
        {"if (N > 4) x = y;", NULL},
        {"__shared__ float z[2]; x = z[1];", NULL},
        {"unsigned m, l; m = l = 0; n = m + l;", NULL},
        {"unsigned m, l; m = 0; n = m + l;", "'l'"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        arena memory;
        diag_list diags;
        snprintf(text, sizeof text,
                 "#define SET s = 0\n#define N 4\n"
                 "static __device__ void load(float &to, float from) { to = from; }\n"
                 "static __device__ void row(float (&r)[4]) { r[0] = r[1] = r[2] = 0; }\n"
                 "static __device__ float high(float a, float b) { return a > b ? a : b; }\n"
                 "extern \"C\" __global__ void k(int n) {\n"
                 "float x = 0, y, s, a[4], b[2][4];\n%s\n}\n",
                 rows[i].body);
        arena_init(&memory, 1 << 20);
        diag_init(&diags, &memory, STR("k.cu"), str_from(text));
        bool passes = device_arrays_check(str_from(text), &diags);
        const char *said = diags.first ? str_copy_z(&memory, diags.first->message) : "";
        if (passes != !rows[i].said || (rows[i].said && !strstr(said, rows[i].said)))
            fail_msg("%s: %s", rows[i].body, said);
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_written_before_they_are_read),
        cmocka_unit_test(loops_stay_within_arrays),
        cmocka_unit_test(pragmas_unroll),
        cmocka_unit_test(honest_kernels_pass),
        cmocka_unit_test(cheats_are_found),
        cmocka_unit_test(no_speed_above_what_a_gpu_can_do),
        cmocka_unit_test(faults_end_a_kernel_not_the_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
