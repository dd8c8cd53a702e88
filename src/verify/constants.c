#include "verify/constants.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Of f16, BM_2, 0.5 and 1e-30 no part is a number of its own. */
static bool is_part(str text, size_t at) {
    char before = at ? text.data[at - 1] : ' ', first = at > 1 ? text.data[at - 2] : ' ';
    bool is_letter = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z');
    return is_letter || before == '_' || before == '.' || (before == '-' && first == 'e');
}

/* A number, or where there is none at 'at', nothing: how many characters it has. */
static size_t digits_at(str text, size_t at) {
    size_t end = at;
    while (end < text.length && is_digit(text.data[end])) end++;
    return end - at;
}

static size_t end_of_comment(str text, size_t at) {
    while (at < text.length && text.data[at] != '\n') at++;
    return at;
}

bool constants_next(str *text, int64_t *value) {
    for (size_t i = 0; i < text->length;) {
        bool begins = i + 1 < text->length && text->data[i] == '/' && text->data[i + 1] == '/';
        if (begins) {
            i = end_of_comment(*text, i);
            continue;
        }
        size_t length = digits_at(*text, i);
        bool is_alone = length && !is_part(*text, i) &&
                        (i + length == text->length || text->data[i + length] != '.');
        bool fits = is_alone && str_to_integer((str){text->data + i, length}, value) &&
                    *value <= VERIFY_CONSTANT_MOST;
        i += length ? length : 1;
        if (!fits) continue;
        *text = (str){text->data + i, text->length - i};
        return true;
    }
    *text = (str){0};
    return false;
}

int64_t verify_largest_constant(str text) {
    int64_t largest = 0, value;
    while (constants_next(&text, &value)) {
        if (value > largest) largest = value;
    }
    return largest;
}

static void add(constants *all, int64_t value) {
    for (int32_t i = 0; i < all->count; i++) {
        if (all->values[i] == value) return;
    }
    if (value > 0 && all->count < CONSTANTS_MOST) all->values[all->count++] = value;
}

static void add_text(constants *all, const ftl_source *source) {
    str text = {source->text, source->text ? source->length : 0};
    int64_t value;
    while (constants_next(&text, &value)) add(all, value);
}

constants constants_of(const verify_program *program) {
    constants all = {.count = 0};
    int64_t value;
    for (int32_t i = 0; i < program->pin_count; i++) {
        bool is_whole = str_to_integer(str_from(program->pins[i].value), &value);
        if (is_whole && value <= VERIFY_CONSTANT_MOST) add(&all, value);
    }
    add_text(&all, &program->sketch);
    add_text(&all, &program->code);
    return all;
}
