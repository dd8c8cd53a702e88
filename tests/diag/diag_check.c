/* diag_check TEXT...: reads, binds and checks each text and compares the diagnostics with its
 * comments. A kernel with a role or a GPU is judged as TL Code, any other as a sketch.
 */
#include "base/os.h"
#include "check/check.h"
#include "diag/expect.h"
#include "tl/tl.h"

enum { MEMORY_BYTES_MAX = 256 << 20 };

static void check(tl_program *program, arena *memory, diag_list *diags) {
    if (diags->error_count || !tl_bind(program, diags)) return;
    bool is_code = false;
    for (tl_kernel *k = program->first; k; k = k->next)
        is_code |= k->gpu.length || !tl_is_sketch(k);
    if (!is_code) {
        check_sketch(program, NULL, diags);
        return;
    }
    for (tl_kernel *k = program->first; k; k = k->next) {
        gpu target;
        diag_list problems;
        bool known = k->gpu.length && gpu_find(memory, k->gpu, &target, &problems);
        check_code(k, known ? &target : NULL, memory, diags, NULL);
    }
}

static int check_file(const char *path) {
    text_buffer source;
    os_error why;
    text_init(&source, TL_SOURCE_BYTES_MAX + 1);
    if (!os_read_file(path, TL_SOURCE_BYTES_MAX + 1, &source, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    arena memory;
    arena_init(&memory, MEMORY_BYTES_MAX);
    diag_list diags;
    diag_init(&diags, &memory, str_from(path), text_str(&source));
    check(tl_parse(&memory, str_from(path), text_str(&source), &diags), &memory, &diags);
    int wrong = expect_compare(&diags);
    if (wrong) fprintf(stderr, "%s: %d differences\n", path, wrong);
    arena_done(&memory);
    text_done(&source);
    return wrong;
}

int main(int argc, char **argv) {
    int wrong = 0;
    for (int i = 1; i < argc; i++) wrong += check_file(argv[i]);
    return wrong ? 1 : 0;
}
