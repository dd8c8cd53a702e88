/* Programs that are no attention, from sketch to the PTX of their text, on the emulator: tiles
 * whose last axis ends inside 16 bytes, and a program of two kernels with a workspace between them.
 * Where there is no CUDA compiler, the tests are skipped.
 */
#define SAMPLE_KERNELS
#include "base/convert.h"
#include "base/os.h"
#include "flashtl/execute.h"
#include "flashtl/runtime.h"
#include "sample.h"
#include "verify/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ftl_context *context;
static ftl_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .nvrtc_library = getenv("FLASHTL_NVRTC")};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return 0;
}

static void succeeds(ftl_status status) {
    if (status == FTL_NO_COMPILER) skip();
    if (status == FTL_REJECTED) {
        char *text = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
        print_message("%s\n", text);
        ftl_free(text);
    } else if (status) {
        print_message("%s\n", ftl_context_error(context));
    }
    assert_int_equal(status, FTL_OK);
}

static ftl_source read_source(const char *path, text_buffer *text) {
    char full[512];
    os_error why;
    snprintf(full, sizeof full, "%s/%s", FLASHTL_SOURCE_FOLDER, path);
    text_init(text, 1 << 20);
    assert_true(os_read_file(full, 1 << 20, text, &why));
    return (ftl_source){path, text->data, text->length};
}

/* --- ends inside 16 bytes --------------------------------------------------------------------- */

static void show(void *user, const verify_result *result) {
    (void)user;
    if (result->verdict == VERIFY_PASSED) return;
    print_message("%s: %s\n", result->name, result->what);
}

static void verify_taken(const char *path, const char *gpu, ftl_type dtype, const ftl_pin *pins,
                         int pin_count, const char *shapes) {
    text_buffer text;
    ftl_source source = read_source(path, &text);
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = gpu,
                           .dtype = dtype,
                           .pins = pins,
                           .pin_count = pin_count};
    ftl_product *product;
    succeeds(ftl_build(context, &source, &options, &product));
    verify_program program = {.sketch = source,
                              .code = {"code.tl", product->code, strlen(product->code)},
                              .plan = product->kernels[0].plan,
                              .cuda = product->kernels[0].cuda};
    verify_machine *machine;
    ftl_status status = verify_machine_open(context, &program, VERIFY_EMULATOR, runtime, &machine);
    if (!status) {
        verify_options how = {.shapes = shapes, .seed = 7, .on_result = show};
        verify_summary summary = {0};
        status = verify_run(context, &program, verify_machine_runner(machine), &how, &summary);
        verify_machine_close(machine);
        if (!status) assert_true(summary.total > 0 && summary.passed == summary.total);
    }
    ftl_product_free(product);
    text_done(&text);
    if (status) print_message("%s for %s\n", path, gpu);
    succeeds(status);
}

static void verify_pinned(const char *path, const char *gpu, ftl_type dtype, const ftl_pin *pins,
                          int pin_count, const char *shapes) {
    if (sample_takes()) verify_taken(path, gpu, dtype, pins, pin_count, shapes);
}

static void verify_heads(const char *path, const char *gpu, ftl_type dtype, const char *d,
                         const char *shapes) {
    const ftl_pin pins[] = {{"d", d}, {"dv", "64"}};
    verify_pinned(path, gpu, dtype, pins, 2, shapes);
}

static void verify_on_emulator(const char *path, const char *gpu, ftl_type dtype,
                               const char *shapes) {
    verify_heads(path, gpu, dtype, "64", shapes);
}

/* m x k x n: every remainder of 8 on both contiguous axes, lines cut in their first and last unit,
 * and rows that lie further apart than they are long.
 */
static void products_of_any_width(void **state) {
    (void)state;
    static const char shapes[] =
        "3x1x1,70x66x67,70x67x66,129x68x69,5x69x68,70x70x71,70x71x70,64x64x64,65x200x136,33x0x9";
    verify_on_emulator("sketches/gemm_bias_gelu.tl", "a100", FTL_F16, shapes);
    verify_on_emulator("sketches/gemm_bias_gelu.tl", "t4", FTL_F16, "3x1x1,70x67x66,129x68x69");
    verify_on_emulator("tests/exec/odd/gemm_row_scale.tl", "a100", FTL_BF16, "70x71x70,70x66x67");
}

/* Fragments straight from and to global memory: a pair may lose its second element. */
static void rows_of_any_width(void **state) {
    (void)state;
    verify_on_emulator("sketches/row_softmax.tl", "a100", FTL_F16,
                       "3x1,70x2,70x63,70x64,65x65,5x131,33x200");
    verify_on_emulator("sketches/row_softmax.tl", "t4", FTL_F16, "70x63,65x130");
}

/* Every kind of unit: through registers and shared memory, f32, and f32 in registers alone. */
static void units_of_any_kind(void **state) {
    (void)state;
    verify_on_emulator("tests/exec/odd/copy_kinds.tl", "a100", FTL_F16,
                       "70x1,70x65,3x66,33x67,65x68,70x71,70x128,2x3");
}

/* Erf and Erfc of anything, and a GELU whose three results lie where 1 + erf has no digits left. */
static void small_values_keep_their_digits(void **state) {
    (void)state;
    verify_on_emulator("tests/exec/odd/error_functions.tl", "a100", FTL_F16, "33x130");
    verify_on_emulator("sketches/gemm_bias_gelu.tl", "t4", FTL_F16, "1x333x3");
}

/* Blocks that a diagonal cuts, told apart by parts: at tiles' edges, past the keys' end, with
 * more keys than queries and the reverse, and with scores that climb, where the maximum moves.
 */
static void masks_by_parts(void **state) {
    (void)state;
    const char *path = "tests/golden/reason/roles_parts_h200.tl";
    const ftl_pin pins[] = {{"d", "64"}, {"dv", "64"}, {"nominal_length", "1024"}};
    if (sample_takes_long()) verify_taken(path, "h200", FTL_F16, pins, 3, "300x413,413x300");
    verify_pinned(path, "h200", FTL_F16, pins, 3, "64x64,65x65,1x129");
    const ftl_pin quarters[] = {
        {"d", "64"}, {"dv", "64"}, {"nominal_length", "1024"}, {"mask_parts", "4"}};
    verify_pinned(path, "h200", FTL_BF16, quarters, 4, "97x97,300x413");
}

/* --- a length per sequence -------------------------------------------------------------------- */

/* q_tokens x q_heads x kv_tokens x kv_heads x starts: a sequence, several, some of them empty. */
static void ragged_batches(void **state) {
    (void)state;
    const char *path = "tests/exec/odd/ragged_attention.tl";
    verify_on_emulator(path, "a100", FTL_F16, "300x2x210x1x4,1x1x1x1x2,5x2x130x2x9");
    verify_on_emulator(path, "t4", FTL_F16, "200x3x77x1x3");
}

/* batch x q_len x heads x pages x page_len x max_pages: the value is the first columns of the key,
 * rows are queries and heads in one, keys lie in pages, and each sequence has its own length.
 */
static void latent_decoding(void **state) {
    (void)state;
    const char *path = "tests/exec/odd/latent_decode.tl";
    verify_heads(path, "a100", FTL_F16, "96", "3x2x17x9x16x5,1x1x128x3x64x2");
    verify_heads(path, "h200", FTL_BF16, "96", "2x3x6x7x5x11");
}

/* --- two kernels ------------------------------------------------------------------------------ */

enum {
    BATCH = 4,
    Q_HEADS = 6,
    KV_HEADS = 2,
    QUERIES = 2,
    D = 128,
    PAGE = 24,
    PAGES = 60,
    MOST = 14,
    SPLITS = 3,
    ROWS = BATCH * Q_HEADS * QUERIES,
};

typedef struct decoding {
    double q[ROWS * D], k[PAGES * PAGE * KV_HEADS * D], v[PAGES * PAGE * KV_HEADS * D];
    double table[BATCH * MOST], lengths[BATCH], o[ROWS * D];
    uint16_t q16[ROWS * D], k16[PAGES * PAGE * KV_HEADS * D], v16[PAGES * PAGE * KV_HEADS * D];
    uint16_t o16[ROWS * D];
    int32_t table32[BATCH * MOST], lengths32[BATCH];
    float part[SPLITS * ROWS * D], lse[SPLITS * ROWS]; /* workspace */
} decoding;

/* A value in [-1, 1) that f16 holds. */
static double number_at(uint64_t n) {
    n = (n + 1) * 0x9e3779b97f4a7c15u;
    n = (n ^ (n >> 29)) * 0xbf58476d1ce4e5b9u;
    return (double)(n >> 54) / 512 - 1;
}

static void fill_decoding(decoding *x) {
    static const double lengths[BATCH] = {333, 64, 1, 0}; /* one lacks keys for its first query */
    for (int i = 0; i < ROWS * D; i++) x->q[i] = number_at((uint64_t)i);
    for (int i = 0; i < PAGES * PAGE * KV_HEADS * D; i++) x->k[i] = x->v[i] = NAN;
    for (int b = 0; b < BATCH; b++) {
        x->lengths[b] = lengths[b];
        for (int n = 0; n < MOST; n++) x->table[b * MOST + n] = (b * MOST + n) * 7 % PAGES;
        for (int j = 0; j < (int)lengths[b]; j++) {
            int slot = (int)x->table[b * MOST + j / PAGE] * PAGE + j % PAGE;
            for (int e = 0; e < KV_HEADS * D; e++) {
                int at = slot * KV_HEADS * D + e;
                x->k[at] = number_at((uint64_t)at + 1000000);
                x->v[at] = number_at((uint64_t)at + 2000000);
            }
        }
    }
    convert_store(CONVERT_F16, x->q, ROWS * D, x->q16, 0, 1);
    convert_store(CONVERT_F16, x->k, PAGES * PAGE * KV_HEADS * D, x->k16, 0, 1);
    convert_store(CONVERT_F16, x->v, PAGES * PAGE * KV_HEADS * D, x->v16, 0, 1);
    convert_store(CONVERT_I32, x->table, BATCH * MOST, x->table32, 0, 1);
    convert_store(CONVERT_I32, x->lengths, BATCH, x->lengths32, 0, 1);
    for (int i = 0; i < SPLITS * ROWS * D; i++) x->part[i] = NAN;
    for (int i = 0; i < SPLITS * ROWS; i++) x->lse[i] = NAN;
}

static ftl_tensor tensor(const char *name, ftl_type type, void *data, int count,
                         const int64_t *extents) {
    ftl_tensor t = {
        .name = name, .type = type, .address = (uint64_t)(uintptr_t)data, .axis_count = count};
    int64_t stride = 1;
    for (int i = count - 1; i >= 0; i--) {
        t.extents[i] = extents[i], t.strides[i] = stride;
        stride *= extents[i];
    }
    return t;
}
#define TENSOR(name, type, data, ...)                                                              \
    tensor(name, type, data, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),              \
           (const int64_t[]){__VA_ARGS__})

/* One kernel with those of 'all' that its plan names. */
static ftl_status launch(const ftl_kernel *kernel, const ftl_arguments *all) {
    const ftl_plan *plan = kernel->plan;
    ftl_tensor tensors[16];
    ftl_arguments own = {.tensors = tensors, .scalars = all->scalars};
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        for (int32_t k = 0; k < all->tensor_count; k++) {
            bool is_it = strcmp(all->tensors[k].name, plan->tensors[i].name) == 0;
            if (is_it) tensors[own.tensor_count++] = all->tensors[k];
        }
    }
    own.scalar_count = plan->scalar_count ? all->scalar_count : 0;
    ftl_image image;
    ftl_emulator *emulator;
    ftl_status status =
        ftl_compile_cuda(context, runtime, kernel->cuda, plan->kernel, plan->target, &image);
    if (status) return status;
    status = ftl_emulator_open(context, plan, image.bytes, image.length, plan->kernel, &emulator);
    ftl_image_done(&image);
    if (status) return status;
    ftl_emulation result;
    ftl_emulation_options zeros = {0}, options = FTL_EMULATION_OPTIONS_INIT;
    assert_int_equal(ftl_emulate(context, emulator, &own, &zeros, &result), FTL_INVALID_ARGUMENT);
    options.struct_bytes += 64; /* of a program that knows more fields */
    status = ftl_emulate(context, emulator, &own, &options, &result);
    if (result.findings && *result.findings) print_message("%s", result.findings);
    ftl_emulation_done(&result);
    ftl_emulator_close(emulator);
    return status;
}

static double decoding_error(decoding *x, double scale) {
    double worst = 0;
    convert_load(CONVERT_F16, x->o16, 0, 1, ROWS * D, x->o);
    for (int row = 0; row < ROWS; row++) {
        int b = row / (Q_HEADS * QUERIES), h = row / QUERIES % Q_HEADS, i = row % QUERIES;
        double expected[D] = {0}, sum = 0;
        for (int j = 0; j < i + (int)x->lengths[b] - QUERIES + 1; j++) {
            int slot = (int)x->table[b * MOST + j / PAGE] * PAGE + j % PAGE;
            int at = (slot * KV_HEADS + h / (Q_HEADS / KV_HEADS)) * D;
            double s = 0;
            for (int e = 0; e < D; e++) s += x->q[row * D + e] * x->k[at + e];
            sum += s = exp(scale * s);
            for (int e = 0; e < D; e++) expected[e] += s * x->v[at + e];
        }
        for (int e = 0; e < D; e++) {
            double difference = fabs(x->o[row * D + e] - (sum > 0 ? expected[e] / sum : 0));
            if (!(difference <= worst)) worst = isnan(difference) ? 1e9 : difference;
        }
    }
    return worst;
}

static void paged_decoding(void **state) {
    (void)state;
    text_buffer text;
    ftl_source source = read_source("tests/golden/tl/paged_decode.tl", &text);
    ftl_product *product;
    succeeds(ftl_build(context, &source, &(ftl_options)FTL_OPTIONS_INIT, &product));
    assert_int_equal(product->kernel_count, 2);
    decoding *x = aligned_alloc(16, (sizeof *x + 15) / 16 * 16);
    assert_non_null(x);
    fill_decoding(x);
    ftl_tensor tensors[] = {TENSOR("Q_all", FTL_F16, x->q16, BATCH, Q_HEADS, QUERIES, D),
                            TENSOR("K_pool", FTL_F16, x->k16, PAGES, PAGE, KV_HEADS, D),
                            TENSOR("V_pool", FTL_F16, x->v16, PAGES, PAGE, KV_HEADS, D),
                            TENSOR("table", FTL_I32, x->table32, BATCH, MOST),
                            TENSOR("kv_lens", FTL_I32, x->lengths32, BATCH),
                            TENSOR("O_part", FTL_F32, x->part, SPLITS, BATCH, Q_HEADS, QUERIES, D),
                            TENSOR("lse_part", FTL_F32, x->lse, SPLITS, BATCH, Q_HEADS, QUERIES),
                            TENSOR("O", FTL_F16, x->o16, BATCH, Q_HEADS, QUERIES, D)};
    ftl_scalar scale = {"scale", 0.125};
    ftl_arguments all = {
        .tensors = tensors, .tensor_count = 8, .scalars = &scale, .scalar_count = 1};
    ftl_status status = FTL_OK;
    for (int i = 0; i < 2 && !status; i++) status = launch(&product->kernels[i], &all);
    double error = status ? 0 : decoding_error(x, scale.value);
    free(x);
    ftl_product_free(product);
    text_done(&text);
    succeeds(status);
    if (!(error < 1e-3)) fail_msg("error %g", error);
}

/* --- rings of slots --------------------------------------------------------------------------- */

/* The text without its n-th line that has all these words; false: there is none. */
static bool without_line(const char *text, const char *const words[2], int n, text_buffer *out) {
    bool found = false;
    text_init(out, 1 << 22);
    for (const char *at = text, *end; *at; at = end) {
        end = strchr(at, '\n');
        end = end ? end + 1 : at + strlen(at);
        str line = {at, (size_t)(end - at)};
        bool has_all = true;
        for (int i = 0; i < 2; i++) {
            const char *word = strstr(at, words[i]);
            has_all &= word && word < end;
        }
        if (has_all && n-- == 0) found = true;
        else text_add(out, line);
    }
    return found;
}

static void expect_refused(const ftl_source *sketch, const ftl_product *product, const char *cuda,
                           const char *what) {
    verify_program program = {.sketch = *sketch,
                              .code = {"code.tl", product->code, strlen(product->code)},
                              .plan = product->kernels[0].plan,
                              .cuda = cuda};
    verify_machine *machine = NULL;
    verify_options how = {.shapes = "decisive", .seed = 7};
    verify_summary summary = {0};
    succeeds(verify_machine_open(context, &program, VERIFY_EMULATOR, runtime, &machine));
    ftl_status status =
        verify_run(context, &program, verify_machine_runner(machine), &how, &summary);
    verify_machine_close(machine);
    if (status != FTL_CHECK_FAILED) fail_msg("no case misses a line with %s", what);
}

/* A slot that is never released shows where a block comes back to it: also in rings of which each
 * tile takes one slot. The decisive cases alone have to suffice. What the last tile releases, last
 * in the text, nobody waits for.
 */
static void rings_come_around(void **state) {
    (void)state;
    enum { RELEASES_LEAST = 5 };
    static const char *const releases[][2] = {{"ftl_mbarrier_signal(", "_empty"},
                                              {"ftl_mbarrier_signal_each(", "numbers_read"}};
    text_buffer text, cuda;
    ftl_source source = read_source("examples/distance_bias.tl", &text);
    const ftl_pin pins[] = {{"d", "64"}, {"dv", "64"}};
    ftl_options options = {
        .struct_bytes = sizeof options, .gpu = "h200", .pins = pins, .pin_count = 2};
    ftl_product *product;
    succeeds(ftl_build(context, &source, &options, &product));
    int broken = 0;
    for (int k = 0; k < 2; k++) {
        for (int n = 0;; n++, broken++) {
            int last = k == 0 ? n + 1 : n;
            bool found = without_line(product->kernels[0].cuda, releases[k], last, &cuda);
            text_done(&cuda);
            if (!found) break;
            if (!sample_takes()) continue;
            without_line(product->kernels[0].cuda, releases[k], n, &cuda);
            expect_refused(&source, product, cuda.data, releases[k][1]);
            text_done(&cuda);
        }
    }
    assert_true(broken >= RELEASES_LEAST);
    ftl_product_free(product);
    text_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_any_width), cmocka_unit_test(rows_of_any_width),
        cmocka_unit_test(units_of_any_kind),     cmocka_unit_test(small_values_keep_their_digits),
        cmocka_unit_test(masks_by_parts),        cmocka_unit_test(ragged_batches),
        cmocka_unit_test(rings_come_around),     cmocka_unit_test(latent_decoding),
        cmocka_unit_test(paged_decoding),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
