/* golden_tl TEXT EXPECTED: prints TEXT canonically and compares; then reads what was printed, which
 * must print the same again. With --update as a third argument EXPECTED is written instead.
 */
#include "base/os.h"
#include "tl/tl.h"

#include <stdio.h>
#include <string.h>

enum { MEMORY_BYTES_MAX = 256 << 20 };

/* Prints the first line that differs. */
static void show_difference(str wanted, str got) {
    for (int line = 1; wanted.length || got.length; line++) {
        str a = str_cut(&wanted, '\n'), b = str_cut(&got, '\n');
        if (str_equal(a, b)) continue;
        fprintf(stderr, "line %d\n  wanted: %.*s\n  got:    %.*s\n", line, STR_ARGS(a),
                STR_ARGS(b));
        return;
    }
}

static bool print_canonically(arena *memory, str name, str source, text_buffer *out) {
    diag_list diags;
    diag_init(&diags, memory, name, source);
    tl_program *program = tl_parse(memory, name, source, &diags);
    text_init(out, MEMORY_BYTES_MAX);
    if (diag_has_errors(&diags)) {
        diag_render_text(&diags, false, out);
        fprintf(stderr, "%s", out->data);
        return false;
    }
    tl_print(program, out);
    return !out->failed;
}

static bool compare(arena *memory, const char *text_path, const char *expected_path, bool update) {
    text_buffer source, expected, once, again;
    os_error why;
    text_init(&source, TL_SOURCE_BYTES_MAX + 1);
    text_init(&expected, MEMORY_BYTES_MAX);
    if (!os_read_file(text_path, TL_SOURCE_BYTES_MAX + 1, &source, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return false;
    }
    bool is_good = print_canonically(memory, str_from(text_path), text_str(&source), &once);
    if (is_good && update) return os_write_file(expected_path, text_str(&once), &why);
    if (!os_read_file(expected_path, MEMORY_BYTES_MAX, &expected, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return false;
    }
    if (is_good) is_good = print_canonically(memory, STR("printed"), text_str(&once), &again);
    else return false;
    bool is_same = str_equal(text_str(&expected), text_str(&once));
    if (!is_same) show_difference(text_str(&expected), text_str(&once));
    bool is_stable = is_good && str_equal(text_str(&once), text_str(&again));
    if (!is_stable) {
        fprintf(stderr, "the printed text prints differently\n");
        show_difference(text_str(&once), text_str(&again));
    }
    text_done(&source);
    text_done(&expected);
    text_done(&once);
    text_done(&again);
    return is_same && is_stable;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    bool update = argc > 3 && strcmp(argv[3], "--update") == 0;
    arena memory;
    arena_init(&memory, MEMORY_BYTES_MAX);
    bool is_good = compare(&memory, argv[1], argv[2], update);
    arena_done(&memory);
    return is_good ? 0 : 1;
}
