/* The emulator against a real GPU: tests/exec/conformance/results.bin holds what record.c got
 * there, on an H200. Kernels past the end of that file are not recorded yet: these only have to
 * run without a finding. Products of small whole numbers have to be exact whatever was recorded.
 */
#include "../exec/conformance/conformance.h"
#include "base/os.h"
#include "emulate/emulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define FOLDER FLASHTL_SOURCE_FOLDER "/tests/exec/conformance/"

enum { RECORDED_ON = 90, SHOWN_A_KERNEL = 4 };

static uint32_t inputs[CONFORMANCE_INPUT_WORDS], outputs[CONFORMANCE_OUTPUT_WORDS];

static void run_kernel(arena *memory, const emulate_module *module, int kernel) {
    static const uint8_t parameters[16];
    conformance_inputs(kernel, inputs);
    memset(outputs, 0, sizeof outputs);
    emulate_buffer buffers[2] = {
        {.name = STR("in"), .data = inputs, .bytes = sizeof inputs, .readable = true},
        {.name = STR("out"), .data = outputs, .bytes = sizeof outputs, .writable = true}};
    emulate_pointer pointers[2] = {{0, 0, 0}, {8, 1, 0}};
    emulate_launch launch = {.entry = str_from(conformance_kernels[kernel].entry),
                             .grid = {CONFORMANCE_BLOCKS, 1, 1},
                             .block = {32, 1, 1},
                             .parameters = parameters,
                             .parameter_bytes = 16,
                             .buffers = buffers,
                             .buffer_count = 2,
                             .pointers = pointers,
                             .pointer_count = 2,
                             .processor = RECORDED_ON};
    emulate_result result;
    if (emulate_run(module, &launch, memory, &result) == EMULATE_CLEAN) return;
    text_buffer text;
    text_init(&text, 1 << 16);
    emulate_render_text(&result, str_from(conformance_kernels[kernel].name), &text);
    fail_msg("%s", text.data);
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double half_of(uint32_t bits) {
    int exponent = (int)(bits >> 10 & 31u);
    double x = exponent ? ldexp(1024 + (bits & 1023u), exponent - 25) : ldexp(bits & 1023u, -24);
    return bits & 0x8000u ? -x : x;
}

static bool close_enough(const conformance_kernel *k, uint32_t ours, uint32_t theirs) {
    if (ours == theirs) return true;
    int64_t apart = (int64_t)ours - (int64_t)theirs;
    if (k->units && apart <= k->units && -apart <= k->units) return true;
    return k->absolute > 0.0 &&
           fabs((double)float_of(ours) - (double)float_of(theirs)) <= k->absolute;
}

static size_t recorded_bytes(const conformance_kernel *k) {
    return (size_t)(CONFORMANCE_BLOCKS * k->outputs * 32 * 4);
}

/* How many results differ; the first few are printed. */
static int compare(int kernel, const uint8_t *recorded) {
    const conformance_kernel *k = &conformance_kernels[kernel];
    int wrong = 0;
    for (int at = 0; at < CONFORMANCE_BLOCKS * k->outputs * 32; at++) {
        int block = at / 32 / k->outputs, output = at / 32 % k->outputs, lane = at % 32;
        uint32_t ours = outputs[(block * CONFORMANCE_OUTPUTS + output) * 32 + lane], theirs;
        memcpy(&theirs, recorded + 4 * at, sizeof theirs);
        if (close_enough(k, ours, theirs) || wrong++ >= SHOWN_A_KERNEL) continue;
        const uint32_t *in = inputs + block * CONFORMANCE_INPUTS * 32 + lane;
        print_error("%s, block %d, output %d, lane %d: 0x%08x; the GPU has 0x%08x; its inputs "
                    "0x%08x 0x%08x 0x%08x\n",
                    k->name, block, output, lane, ours, theirs, in[0], in[32], in[64]);
    }
    if (wrong) print_error("%s: %d results differ\n", k->name, wrong);
    return wrong;
}

/* Fragments as the ISA draws them: A(row, k) of m16n8k16, lane by lane. */
static float element(const uint32_t *block, int input, int lane, int half) {
    return (float)half_of(block[input * 32 + lane] >> 16 * half & 0xffffu);
}

static void check_exact_product(void) {
    for (int b = 0; b < CONFORMANCE_BLOCKS / 2; b++) {
        const uint32_t *in = inputs + b * CONFORMANCE_INPUTS * 32;
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                int slot = row / 8 * 2 + column % 2, lane = row % 8 * 4 + column / 2;
                float sum = float_of(in[(8 + slot) * 32 + lane]);
                for (int k = 0; k < 16; k++) {
                    int part = k % 8 / 2, upper = k / 8;
                    float a = element(in, row / 8 + 2 * upper, row % 8 * 4 + part, k % 2);
                    float x = element(in, 4 + upper, column * 4 + part, k % 2);
                    sum += a * x;
                }
                float got = float_of(outputs[(b * CONFORMANCE_OUTPUTS + slot) * 32 + lane]);
                assert_true(got == sum);
            }
    }
}

static void like_a_gpu(void **state) {
    (void)state;
    arena memory;
    text_buffer ptx, recorded;
    os_error why;
    arena_init(&memory, 1u << 30);
    text_init(&ptx, 16 << 20);
    text_init(&recorded, 64 << 20);
    if (!os_read_file(FOLDER "kernels.ptx", 16 << 20, &ptx, &why)) fail_msg("%s", why.text);
    if (!os_read_file(FOLDER "results.bin", 64 << 20, &recorded, &why)) fail_msg("%s", why.text);
    size_t at = 0;
    int wrong = 0;
    diag_list diagnostics;
    diag_init(&diagnostics, &memory, STR("kernels.ptx"), text_str(&ptx));
    emulate_module *module = emulate_read(&memory, text_str(&ptx), &diagnostics);
    assert_non_null(module);
    for (int k = 0; k < CONFORMANCE_KERNELS; k++) {
        arena_mark mark = arena_here(&memory);
        run_kernel(&memory, module, k);
        if (strcmp(conformance_kernels[k].name, "mma_k16_f16") == 0) check_exact_product();
        size_t bytes = recorded_bytes(&conformance_kernels[k]);
        if (at + bytes <= recorded.length) wrong += compare(k, (uint8_t *)recorded.data + at);
        at += bytes;
        arena_reset(&memory, mark);
    }
    assert_true(at >= recorded.length);
    assert_int_equal(wrong, 0);
    text_done(&ptx);
    text_done(&recorded);
    arena_done(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
