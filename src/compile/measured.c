#include "compile/measured.h"

#include "base/embedded.h"
#include "base/hash.h"

#include <string.h>

enum { WORDS_MAX = 96 };

typedef struct words {
    str items[WORDS_MAX];
    int count;
} words;

static words split(str line) {
    words out = {.count = 0};
    while (line.length && out.count < WORDS_MAX) {
        str word = str_cut(&line, ' ');
        if (word.length) out.items[out.count++] = word;
    }
    return out;
}

/* --- what a sketch says ----------------------------------------------------------------------- */

str measured_sketch(arena *memory, const tl_program *sketch) {
    tl_program *plain = tl_program_copy(memory, sketch);
    plain->line_after_count = 0;
    for (tl_kernel *k = plain->first; k; k = k->next) {
        k->comment = k->gpu = STR("");
        k->line_before_count = 0;
        for (tl_statement *s = k->body.first; s; s = tl_next(s, NULL)) {
            s->comment = s->end_comment = STR("");
            s->line_before_count = s->line_before_end_count = 0;
            s->blank_before = false;
            if (tl_is_parameter(s)) s->parameter.condition = NULL;
        }
    }
    text_buffer text;
    text_init_in(&text, memory);
    tl_print(plain, &text);
    char digits[33];
    hash_digits(hash_bytes(text_str(&text)), digits);
    str name = plain->first ? plain->first->name : STR("nothing");
    return str_format(memory, "%.*s %.16s", STR_ARGS(name), digits);
}

str measured_shipped(const char *gpu_name, const gpu *target) {
    bool is_file = strchr(gpu_name, '/') || str_ends(str_from(gpu_name), STR(".gpu"));
    for (const embedded_file *file = embedded_tuned; !is_file && file->name; file++) {
        if (str_is(target->name, file->name)) return (str){file->data, file->length};
    }
    return STR("");
}

/* --- entries ---------------------------------------------------------------------------------- */

static const reason_pin *pin_named(const reason_pin *pins, int count, str name) {
    for (int i = 0; i < count; i++) {
        if (str_equal(pins[i].name, name)) return &pins[i];
    }
    return NULL;
}

/* "problem KERNEL HASH DTYPE NAME=VALUE...": the lengths' names go to 'lengths'. */
static bool is_problem(const words *line, str sketch, str dtype, const reason_pin *pins, int count,
                       words *lengths) {
    str hash = sketch, kernel = str_cut(&hash, ' ');
    lengths->count = 0;
    if (line->count < 4 || !str_equal(line->items[1], kernel) || !str_equal(line->items[2], hash) ||
        !str_equal(line->items[3], dtype)) {
        return false;
    }
    for (int i = 4; i < line->count && *line->items[i].data != '#'; i++) {
        str value = line->items[i], name = str_cut(&value, '=');
        const reason_pin *pin = pin_named(pins, count, name);
        if (!pin || !str_equal(pin->value, value)) return false;
        lengths->items[lengths->count++] = name;
    }
    return true;
}

static void read_pins(arena *memory, const words *line, measured_entry *out) {
    out->pins = arena_array(memory, reason_pin, line->count);
    for (int i = 1; i < line->count; i++) {
        str value = line->items[i], name = str_cut(&value, '=');
        out->pins[out->pin_count++] = (reason_pin){
            .name = str_copy(memory, name), .value = str_copy(memory, value), .is_measured = true};
    }
}

/* The first pin of the user's that is no length of the problem. */
static str find_block(const reason_pin *pins, int count, const words *lengths) {
    for (int i = 0; i < count; i++) {
        bool is_length = false;
        for (int k = 0; k < lengths->count; k++) {
            is_length = is_length || str_equal(lengths->items[k], pins[i].name);
        }
        if (!is_length) return pins[i].name;
    }
    return STR("");
}

static bool are_pairs(const words *line, int from, int least) {
    for (int i = from; i < line->count && *line->items[i].data != '#'; i++) {
        str value = line->items[i], name = str_cut(&value, '=');
        double number;
        if (!name.length || !str_to_number(value, &number)) return false;
    }
    return line->count >= from + least;
}

str measured_check(arena *memory, str text) {
    enum { SHOWN = 60 };
    bool has_problem = false;
    for (int number = 1; text.length; number++) {
        str line = str_trim(str_cut(&text, '\n'));
        words parts = split(line);
        if (parts.count == 0 || *line.data == '#') continue;
        bool is_problem = str_is(parts.items[0], "problem") && are_pairs(&parts, 4, 0);
        bool is_pins = str_is(parts.items[0], "pins") && are_pairs(&parts, 1, 1);
        bool is_how = str_is(parts.items[0], "measured");
        has_problem = has_problem || is_problem;
        if (is_problem || (has_problem && (is_pins || is_how))) continue;
        if (line.length > SHOWN) line.length = SHOWN;
        return str_format(memory,
                          "line %d of the measured decisions is '%.*s': expected 'problem KERNEL "
                          "HASH TYPE NAME=VALUE...', then 'pins NAME=VALUE...' and 'measured ...', "
                          "as 'flashtl tune --output' writes them",
                          number, STR_ARGS(line));
    }
    return STR("");
}

bool measured_find(arena *memory, str text, str sketch, str dtype, const reason_pin *pins,
                   int pin_count, measured_entry *out) {
    *out = (measured_entry){0};
    bool is_found = false;
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        words parts = split(line), lengths;
        if (parts.count == 0 || *line.data == '#') continue;
        if (str_is(parts.items[0], "problem")) {
            if (is_found) break;
            is_found = is_problem(&parts, sketch, dtype, pins, pin_count, &lengths);
            if (is_found) out->blocked = find_block(pins, pin_count, &lengths);
        } else if (is_found && str_is(parts.items[0], "pins")) {
            read_pins(memory, &parts, out);
        } else if (is_found && str_is(parts.items[0], "measured")) {
            str_cut(&line, ' ');
            out->how = str_copy(memory, str_trim(line));
        }
    }
    return is_found && out->pin_count > 0;
}
