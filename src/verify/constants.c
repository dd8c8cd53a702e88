#include "verify/constants.h"

/* Of f16, BM_2, 0.5 and 1e-30 no part is a number of its own. */
static bool is_part(str text, size_t at) {
    char before = at ? text.data[at - 1] : ' ', first = at > 1 ? text.data[at - 2] : ' ';
    return str_is_word(before) || before == '.' || (before == '-' && first == 'e');
}

/* Cuts the text after its next whole number, which stands alone outside of comments and is at most
 * VERIFY_CONSTANT_MOST. False: there is none.
 */
static bool next_constant(str *text, int64_t *value) {
    for (size_t i = 0; i < text->length;) {
        size_t end = i;
        if (str_starts((str){text->data + i, text->length - i}, STR("//")))
            while (end < text->length && text->data[end] != '\n') end++;
        bool is_comment = end > i;
        while (!is_comment && end < text->length && text->data[end] >= '0' &&
               text->data[end] <= '9')
            end++;
        str digits = {text->data + i, end - i};
        bool is_alone = !is_comment && digits.length && !is_part(*text, i) &&
                        (end == text->length || text->data[end] != '.');
        i = end > i ? end : i + 1;
        if (!is_alone || !str_to_integer(digits, value) || *value > VERIFY_CONSTANT_MOST) continue;
        *text = (str){text->data + i, text->length - i};
        return true;
    }
    *text = (str){0};
    return false;
}

int64_t verify_largest_constant(str text) {
    int64_t largest = 0, value;
    while (next_constant(&text, &value)) {
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
    while (next_constant(&text, &value)) add(all, value);
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
