/* Any bytes: reading never fails otherwise than by diagnostics, and what was read without an error
 * prints to a text that reads without an error and prints the same.
 */
#include "tl/tl.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEMORY_BYTES_MAX = 1 << 30 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_copy(arena *memory, const tl_program *program, text_buffer *out) {
    text_init(out, 64 << 20);
    tl_print(tl_program_copy(memory, program), out);
}

static bool read(arena *memory, str source, text_buffer *out) {
    diag_list diags;
    diag_init(&diags, memory, STR("fuzz"), source);
    tl_program *program = tl_parse(memory, STR("fuzz"), source, &diags);
    text_buffer rendered;
    text_init(&rendered, 1 << 20);
    diag_render_text(&diags, false, &rendered);
    text_done(&rendered);
    print_copy(memory, program, out);
    return !diag_has_errors(&diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    arena memory;
    arena_init(&memory, MEMORY_BYTES_MAX);
    text_buffer once, again;
    bool is_program = read(&memory, (str){(const char *)data, size}, &once);
    if (is_program && once.length <= TL_SOURCE_BYTES_MAX) {
        bool reads_back = read(&memory, text_str(&once), &again);
        if (!reads_back || !str_equal(text_str(&once), text_str(&again))) {
            fprintf(stderr, "--- once\n%s--- again\n%s", once.data, again.data ? again.data : "");
            abort();
        }
        text_done(&again);
    }
    text_done(&once);
    arena_done(&memory);
    return 0;
}
