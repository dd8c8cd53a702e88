/* Hopper's instructions on the emulator against a real GPU: tests/exec/conformance/hopper.bin holds
 * hashes of what record_hopper.c got there, on an H200; of cases that the GPU refused, zeros. Cases
 * past the end of that file are not recorded yet: these only have to run without a finding.
 */
#include "../exec/conformance/hopper.h"
#include "base/os.h"
#include "emulate/emulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FOLDER FLASHTL_SOURCE_FOLDER "/tests/exec/conformance/"

static uint32_t inputs[HOPPER_INPUT_WORDS * HOPPER_BLOCKS_MAX];
static uint32_t outputs[HOPPER_OUTPUT_WORDS_MAX];

static void put_map(const hopper_case *c, uint8_t *parameters) {
    emulate_tensor_map map = {.buffer = c->kind == HOPPER_STORE,
                              .byte_offset = c->offset,
                              .element_bytes = c->bytes,
                              .rank = c->rank,
                              .swizzle_bytes = c->swizzle};
    memcpy(map.extents, c->extents, sizeof map.extents);
    memcpy(map.stride_bytes, c->strides, sizeof map.stride_bytes);
    memcpy(map.box, c->box, sizeof map.box);
    for (int d = 0; d < 5; d++) map.element_strides[d] = c->steps[d] ? c->steps[d] : 1;
    const char *broken = emulate_tensor_map_encode(&map, parameters);
    if (broken) fail_msg("%s: %s", c->name, broken);
}

/* 'refused': the GPU takes no such copy, and the machine must say so. */
static void run_case(int number, bool refused) {
    const hopper_case *c = &hopper_cases[number];
    static char ptx[HOPPER_TEXT_MAX];
    _Alignas(64) uint8_t parameters[144] = {0};
    arena memory;
    text_buffer report;
    diag_list diagnostics;
    arena_init(&memory, (size_t)256 << 20);
    text_init(&report, 1 << 16);
    hopper_ptx(c, ptx);
    hopper_inputs(number, inputs);
    memset(outputs, 0, sizeof outputs);
    if (c->rank) put_map(c, parameters);
    diag_init(&diagnostics, &memory, str_from(c->name), str_from(ptx));
    emulate_module *module = emulate_read(&memory, str_from(ptx), &diagnostics);
    if (!module) {
        diag_render_text(&diagnostics, false, &report);
        fail_msg("%s: %s", c->name, report.data);
    }
    emulate_buffer buffers[2] = {
        {.name = STR("in"), .data = inputs, .bytes = sizeof inputs, .readable = true},
        {.name = STR("out"), .data = outputs, .bytes = sizeof outputs, .writable = true}};
    emulate_pointer pointers[2] = {{128, 0, 0}, {136, 1, 0}};
    emulate_launch launch = {.grid = {(uint32_t)hopper_blocks(c), 1, 1},
                             .block = {128, 1, 1},
                             .dynamic_shared_bytes = HOPPER_SHARED,
                             .parameters = parameters,
                             .parameter_bytes = sizeof parameters,
                             .buffers = buffers,
                             .buffer_count = 2,
                             .pointers = pointers,
                             .pointer_count = 2};
    emulate_result result;
    emulate_outcome outcome = emulate_run(module, &launch, &memory, &result);
    bool found = outcome == EMULATE_FOUND && result.findings[0].kind == EMULATE_TENSOR;
    bool noted = found && c->kind == HOPPER_STORE; /* stored all the same, past the tensor */
    if (refused ? !found : outcome != EMULATE_CLEAN && !noted) {
        emulate_render_text(&result, str_from(c->name), &report);
        fail_msg("%s: %.*s\n%s", c->name, STR_ARGS(result.refusal), report.data ? report.data : "");
    }
    text_done(&report);
    arena_done(&memory);
}

/* Returns the number of rows of 128 words that differ. */
static int compare(const hopper_case *c, const uint64_t *hashes) {
    int rows = hopper_words(c) * hopper_blocks(c) / HOPPER_HASH_WORDS, wrong = 0;
    for (int row = 0; row < rows; row++) {
        const uint32_t *ours = outputs + row * HOPPER_HASH_WORDS;
        if (hopper_hash(ours) == hashes[row]) continue;
        if (!wrong++) print_message("%s: row %d differs\n", c->name, row);
    }
    if (wrong) print_message("%s: %d of %d rows differ\n", c->name, wrong, rows);
    return wrong;
}

static void same_as_a_gpu(void **state) {
    (void)state;
    text_buffer recorded;
    os_error why;
    text_init(&recorded, 64 << 20);
    if (!os_read_file(FOLDER "hopper.bin", 64 << 20, &recorded, &why)) fail_msg("%s", why.text);
    static uint64_t hashes[HOPPER_OUTPUT_WORDS_MAX / HOPPER_HASH_WORDS];
    size_t at = 0;
    int wrong = 0;
    for (int n = 0; n < HOPPER_CASES; n++) {
        const hopper_case *c = &hopper_cases[n];
        size_t bytes = (size_t)(hopper_words(c) * hopper_blocks(c)) / HOPPER_HASH_WORDS * 8;
        bool is_recorded = at + bytes <= recorded.length;
        if (is_recorded) memcpy(hashes, recorded.data + at, bytes);
        at += bytes;
        run_case(n, is_recorded && !hashes[0]);
        if (!is_recorded || !hashes[0]) continue;
        wrong += compare(c, hashes) != 0;
    }
    text_done(&recorded);
    if (wrong) fail_msg("%d of %d cases differ from the GPU", wrong, (int)HOPPER_CASES);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
