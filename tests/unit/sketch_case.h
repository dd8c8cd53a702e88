/* A sketch and the one thing that its check has to say: what tests of such rules share. */
#ifndef FLASHTL_TESTS_SKETCH_CASE_H
#define FLASHTL_TESTS_SKETCH_CASE_H

#include "check/check.h"
#include "tl/names.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Is there one error, of this id and with this part of its message; with NULL, none? Else both are
 * printed.
 */
static bool sketch_gives(arena *memory, str source, diag_id id, const char *message) {
    diag_list diags;
    diag_init(&diags, memory, STR("sketch"), source);
    tl_program *program = tl_parse(memory, STR("sketch"), source, &diags);
    if (!diags.error_count && tl_bind(program, &diags)) check_sketch(program, NULL, &diags);
    bool right = diags.error_count == (message != NULL);
    if (right && message) {
        right = diags.first->id == id && strstr(str_copy_z(memory, diags.first->message), message);
    }
    if (!right) {
        text_buffer out;
        text_init(&out, 1 << 20);
        diag_render_text(&diags, false, &out);
        fprintf(stderr, "%.*s\nexpected %s, found:\n%s\n", STR_ARGS(source),
                message ? message : "nothing", out.data ? out.data : "nothing");
        text_done(&out);
    }
    return right;
}

#endif
