/* golden_reason TEXT EXPECTED [--update]: reasons the sketch TEXT and compares the TL Code.
 * Its first line says how: "// reason: a100 f16 d=128 dv=128 [after PASS]". The text that follows a
 * pass, read back and reasoned on, must come out the same as in one go.
 */
#include "base/os.h"
#include "reason/reason.h"

#include <stdio.h>
#include <string.h>

enum { MEMORY_BYTES_MAX = 256 << 20, PINS_MAX = 16 };

typedef struct request {
    gpu target;
    reason_pin pins[PINS_MAX];
    reason_options options;
} request;

static bool read_request(arena *memory, str line, request *q) {
    diag_list problems;
    str prefix = STR("// reason: ");
    if (!str_starts(line, prefix)) return false;
    line = (str){line.data + prefix.length, line.length - prefix.length};
    if (!gpu_find(memory, str_cut(&line, ' '), &q->target, &problems)) return false;
    q->options = (reason_options){.pins = q->pins};
    while (line.length > 0 && q->options.pin_count < PINS_MAX) {
        str word = str_cut(&line, ' ');
        if (str_is(word, "after")) {
            q->options.stop_after = str_cut(&line, ' ');
        } else if (str_is(word, "f16") || str_is(word, "bf16")) {
            q->options.dtype = str_is(word, "f16") ? TL_F16 : TL_BF16;
        } else {
            reason_pin *pin = &q->pins[q->options.pin_count++];
            str name = str_cut(&word, '=');
            *pin = (reason_pin){.name = name, .value = word};
        }
    }
    return true;
}

static bool reason_text(arena *memory, const request *q, str source, str *out) {
    diag_list diags;
    diag_init(&diags, memory, STR("sketch"), source);
    tl_program *sketch = tl_parse(memory, STR("sketch"), source, &diags);
    reason_result result = {0};
    if (!diag_has_errors(&diags))
        result = reason_program(sketch, &q->target, &q->options, memory, &diags);
    text_buffer text;
    text_init(&text, MEMORY_BYTES_MAX);
    if (result.program) tl_print(result.program, &text);
    else diag_render_text(&diags, false, &text);
    *out = str_copy(memory, text_str(&text));
    text_done(&text);
    return result.program != NULL;
}

static void show_difference(str wanted, str got) {
    for (int line = 1; wanted.length || got.length; line++) {
        str a = str_cut(&wanted, '\n'), b = str_cut(&got, '\n');
        if (str_equal(a, b)) continue;
        fprintf(stderr, "line %d\n  wanted: %.*s\n  got:    %.*s\n", line, STR_ARGS(a),
                STR_ARGS(b));
        return;
    }
}

/* After each pass the text is all there is: reading it back and going on gives the same code. */
static bool goes_on(arena *memory, const request *q, str source, str whole) {
    bool is_good = true;
    for (const reason_pass_entry *pass = reason_pass_list(); pass->name && is_good; pass++) {
        request part = *q, rest = *q;
        str half, code;
        part.options.pins = part.pins;
        part.options.stop_after = str_from(pass->name);
        if (str_equal(q->options.stop_after, part.options.stop_after)) return true;
        rest.options.pin_count = 0;
        rest.options.start_after = part.options.stop_after;
        is_good =
            reason_text(memory, &part, source, &half) && reason_text(memory, &rest, half, &code);
        if (!is_good || !str_equal(code, whole)) {
            fprintf(stderr, "after %s:\n", pass->name);
            show_difference(whole, code);
            is_good = false;
        }
    }
    return is_good;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    arena memory;
    os_error why;
    text_buffer source, expected;
    request q;
    str code;
    arena_init(&memory, (size_t)MEMORY_BYTES_MAX * 2);
    text_init(&source, TL_SOURCE_BYTES_MAX);
    text_init(&expected, MEMORY_BYTES_MAX);
    if (!os_read_file(arguments[1], TL_SOURCE_BYTES_MAX, &source, &why)) return 2;
    str text = text_str(&source), line = text;
    if (!read_request(&memory, str_cut(&line, '\n'), &q)) return 2;
    bool is_good = reason_text(&memory, &q, text, &code);
    if (!is_good) fprintf(stderr, "%.*s", STR_ARGS(code));
    if (is_good && count > 3) return !os_write_file(arguments[2], code, &why);
    if (is_good && !os_read_file(arguments[2], MEMORY_BYTES_MAX, &expected, &why)) return 2;
    if (is_good && !str_equal(text_str(&expected), code)) {
        show_difference(text_str(&expected), code);
        is_good = false;
    }
    is_good = is_good && goes_on(&memory, &q, text, code);
    text_done(&source);
    text_done(&expected);
    arena_done(&memory);
    return !is_good;
}
