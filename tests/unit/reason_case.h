/* A sketch, reasoned for a GPU: what the tests of the reasoner share. */
#ifndef FLASHTL_TESTS_REASON_CASE_H
#define FLASHTL_TESTS_REASON_CASE_H

#include "base/os.h"
#include "check/check.h"
#include "reason/reason.h"
#include "tl/variant.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PINS_MAX = 8, CHOICES_MAX = 6 };

typedef struct request {
    const char *sketch;               /* a path from the root without ".tl", or a text */
    const char *options[CHOICES_MAX]; /* "causal", "window=100" */
    const char *pins[PINS_MAX];       /* "d=64" */
    const char *gpu;
    tl_type dtype;
    const char *stop_after;
} request;

typedef struct answer {
    arena memory;
    diag_list diags;
    reason_result result;
    str text;
} answer;

static inline str read_sketch(arena *memory, const request *q) {
    if (strchr(q->sketch, '\n')) return str_from(q->sketch);
    text_buffer text;
    os_error why;
    str path = str_format(memory, "%s/%s.tl", FLASHTL_SOURCE_FOLDER, q->sketch);
    text_init(&text, 1 << 20);
    assert_true(os_read_file(str_copy_z(memory, path), 1 << 20, &text, &why));
    tl_variant_choice choices[CHOICES_MAX];
    int count = 0;
    for (; count < CHOICES_MAX && q->options[count]; count++) {
        str rest = str_from(q->options[count]);
        choices[count].name = str_cut(&rest, '=');
        choices[count].value = rest;
    }
    str selected, problem;
    if (!tl_variant_select(memory, str_copy(memory, text_str(&text)), choices, count, &selected,
                           &problem))
        fail_msg("%.*s", STR_ARGS(problem));
    text_done(&text);
    return selected;
}

static inline void show(const diag_list *diags, str text) {
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(diags, false, &out);
    fprintf(stderr, "%.*s\n%s", STR_ARGS(text), out.data ? out.data : "");
    text_done(&out);
}

static inline void ask(const request *q, answer *a) {
    arena_init(&a->memory, 256u << 20);
    str source = read_sketch(&a->memory, q);
    diag_init(&a->diags, &a->memory, str_from(q->sketch), source);
    tl_program *sketch = tl_parse(&a->memory, a->diags.source_name, source, &a->diags);
    if (diag_has_errors(&a->diags)) show(&a->diags, source);
    assert_false(diag_has_errors(&a->diags));
    gpu target;
    diag_list problems;
    assert_true(gpu_find(&a->memory, str_from(q->gpu), &target, &problems));
    reason_pin pins[PINS_MAX] = {0};
    reason_options options = {.dtype = q->dtype, .pins = pins};
    for (; options.pin_count < PINS_MAX && q->pins[options.pin_count]; options.pin_count++) {
        str rest = str_from(q->pins[options.pin_count]);
        pins[options.pin_count].name = str_cut(&rest, '=');
        pins[options.pin_count].value = rest;
    }
    if (q->stop_after) options.stop_after = str_from(q->stop_after);
    a->result = reason_program(sketch, &target, &options, &a->memory, &a->diags);
    if (!a->result.program) return;
    text_buffer out;
    text_init(&out, 1 << 20);
    tl_print(a->result.program, &out);
    a->text = str_copy(&a->memory, text_str(&out));
    text_done(&out);
}

static inline void done(answer *a) {
    arena_done(&a->memory);
}

#endif
