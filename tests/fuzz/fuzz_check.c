/* Any bytes: what reads and binds can be checked, as a sketch and as TL Code for each GPU it may
 * name, within a bounded time and without harm.
 */
#include "base/os.h"
#include "check/check.h"
#include "derive/derive.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

enum { MEMORY_BYTES_MAX = 1 << 30, TIME_MS_MAX = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of this process: on a busy machine the wall's clock finds slowness that is none. */
static double now_ms(void) {
    return (double)os_cpu_time_ns() / 1e6;
}

/* What a right sketch's gradients are, or why it has none. */
static void derive(arena *memory, tl_program *program, str source, const derive_request *request) {
    diag_list diags;
    text_buffer text;
    diag_init(&diags, memory, STR("fuzz"), source);
    text_init_in(&text, memory);
    bool is_ready = !program->first->next && tl_infer_axes(program->first, memory, &diags);
    bool is_derived = is_ready && derive_gradients(program->first, request, memory, &diags, &text);
    if (is_ready && is_derived == diag_has_errors(&diags)) abort();
}

static void check(arena *memory, str source) {
    diag_list diags, problems, sketch_diags;
    gpu target;
    bool known = gpu_find(memory, STR("a100"), &target, &problems);
    diag_init(&diags, memory, STR("fuzz"), source);
    diag_init(&sketch_diags, memory, STR("fuzz"), source);
    tl_program *program = tl_parse(memory, STR("fuzz"), source, &diags);
    if (diag_has_errors(&diags) || !tl_bind(program, &diags)) return;
    bool is_right = check_sketch(program, NULL, &sketch_diags);
    for (int fused = 0; fused < 2 && is_right; fused++)
        derive(memory, program, source, &(derive_request){.is_fused = fused});
    for (tl_kernel *k = program->first; k; k = k->next) {
        check_facts facts;
        size_t errors = (size_t)diags.error_count;
        bool right = check_code(k, known ? &target : NULL, memory, &diags, &facts);
        /* Saying no and giving a reason are the same. */
        if (right != (errors == (size_t)diags.error_count)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    arena memory;
    jmp_buf exhausted;
    double start = now_ms();
    arena_init(&memory, MEMORY_BYTES_MAX);
    memory.on_exhausted = &exhausted;
    if (!setjmp(exhausted)) check(&memory, (str){(const char *)data, size});
    arena_done(&memory);
    double took = now_ms() - start;
    if (took > TIME_MS_MAX) {
        fprintf(stderr, "%zu bytes took %.0f ms\n", size, took);
        abort();
    }
    return 0;
}
