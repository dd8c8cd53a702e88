/* Any bytes: reading PTX fails by diagnostics only, and what was read runs, or is refused, without
 * harm to the process. Needs no knowledge of the text: every 8-byte parameter becomes a
 * pointer, every one of 128 bytes a tensor map.
 */
#include "emulate/ptx.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_BYTES = 256 << 20, BUFFER_BYTES = 4096, POINTERS = 8, PARAMETER_BYTES = 4096 };

/* A box of words in the one buffer. */
static void put_map(uint8_t *to) {
    static const emulate_tensor_map map = {.byte_offset = 64,
                                           .element_bytes = 2,
                                           .rank = 3,
                                           .extents = {64, 9, 3},
                                           .stride_bytes = {128, 1152},
                                           .box = {64, 8, 2},
                                           .element_strides = {1, 1, 1},
                                           .swizzle_bytes = 128};
    emulate_tensor_map_encode(&map, to);
}

static void run_entry(arena *memory, const emulate_module *module, const ptx_function *e) {
    _Alignas(64) uint8_t parameters[PARAMETER_BYTES] = {0};
    emulate_pointer pointers[POINTERS];
    emulate_buffer buffer = {.name = STR("buffer"),
                             .bytes = BUFFER_BYTES,
                             .readable = true,
                             .writable = true,
                             .output = true,
                             .element_bytes = 4};
    int count = 0;
    if (e->parameter_bytes > PARAMETER_BYTES) return;
    for (int p = 0; p < e->parameters.count; p++) {
        const ptx_variable *at = &e->parameters.items[p];
        if (at->bytes == 8 && count < POINTERS)
            pointers[count++] = (emulate_pointer){at->offset, 0, 64};
        if (at->bytes == EMULATE_TENSOR_MAP_BYTES) put_map(parameters + at->offset);
    }
    buffer.data = arena_array(memory, uint8_t, BUFFER_BYTES);
    emulate_launch launch = {.entry = e->name,
                             .grid = {2, 1, 1},
                             .block = {136, 1, 1},
                             .dynamic_shared_bytes = 20480,
                             .parameters = parameters,
                             .parameter_bytes = e->parameter_bytes,
                             .buffers = &buffer,
                             .buffer_count = 1,
                             .pointers = pointers,
                             .pointer_count = count,
                             .instruction_budget = 20000,
                             .seed = 1,
                             .go_on = true};
    if (e->threads_required) launch.block[0] = e->threads_required;
    emulate_result result;
    text_buffer text;
    emulate_run(module, &launch, memory, &result);
    text_init(&text, 1 << 20);
    emulate_render_text(&result, STR("kernel.cu"), &text);
    emulate_render_statistics(&result, STR("kernel.cu"), &text);
    emulate_render_json(&result, STR("kernel.cu"), &text);
    text_done(&text);
}

static void read_and_run(arena *memory, str ptx) {
    diag_list diagnostics;
    diag_init(&diagnostics, memory, STR("fuzz.ptx"), ptx);
    emulate_module *module = emulate_read(memory, ptx, &diagnostics);
    text_buffer text;
    text_init(&text, 1 << 20);
    diag_render_text(&diagnostics, false, &text);
    text_done(&text);
    for (int i = 0; module && i < module->entries.count && i < 4; i++)
        run_entry(memory, module, &module->entries.items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    arena memory;
    jmp_buf exhausted;
    arena_init(&memory, MEMORY_BYTES);
    memory.on_exhausted = &exhausted;
    if (!setjmp(exhausted)) read_and_run(&memory, (str){(const char *)data, size});
    arena_done(&memory);
    return 0;
}
