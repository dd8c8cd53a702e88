/* diag_tl TEXT...: reads each text and compares the parser's diagnostics with its comments. */
#include "base/os.h"
#include "diag/expect.h"
#include "tl/tl.h"

enum { MEMORY_BYTES_MAX = 256 << 20 };

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
    tl_parse(&memory, str_from(path), text_str(&source), &diags);
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
