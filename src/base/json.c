#include "base/json.h"

#include <stdlib.h>

void json_put(json_writer *w, json_t *object, const char *key, json_t *value) {
    w->failed |= json_object_set_new(object, key, value) != 0;
}

void json_add(json_writer *w, json_t *array, json_t *value) {
    w->failed |= json_array_append_new(array, value) != 0;
}

json_t *json_from(str s) {
    json_t *text = json_stringn(s.data ? s.data : "", s.length);
    if (text) return text;
    char *copy = malloc(s.length + 1);
    if (!copy) return NULL;
    for (size_t i = 0; i < s.length; i++) {
        copy[i] = (unsigned char)s.data[i] < 128 && s.data[i] ? s.data[i] : '?';
    }
    text = json_stringn(copy, s.length);
    free(copy);
    return text;
}

/* json_dumpb asks for no memory of its own, so what it writes is whole. */
char *json_write(const json_writer *w, const json_t *root, size_t flags) {
    bool is_whole = root && !(w && w->failed);
    size_t length = is_whole ? json_dumpb(root, NULL, 0, flags) : 0;
    char *text = length ? malloc(length + 1) : NULL;
    if (text && json_dumpb(root, text, length, flags) != length) {
        free(text);
        text = NULL;
    }
    if (text) text[length] = 0;
    return text;
}

/* jansson writes U+007F and U+0080 to U+009F as they are, which a terminal obeys. */
static void add_escaped(text_buffer *out, const char *text) {
    const char *from = text;
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)at[0], next = (unsigned char)at[1];
        bool is_delete = c == 0x7f, is_control = c == 0xc2 && next >= 0x80 && next <= 0x9f;
        if (!is_delete && !is_control) continue;
        text_add(out, (str){from, (size_t)(at - from)});
        text_format(out, "\\u%04x", is_delete ? 0x7fu : (unsigned)next);
        at += is_control;
        from = at + 1;
    }
    text_add_z(out, from);
}

void json_write_line(const json_writer *w, const json_t *root, size_t flags, text_buffer *out) {
    char *text = json_write(w, root, flags);
    if (text) {
        add_escaped(out, text);
        text_add_z(out, "\n");
    } else {
        out->failed = true;
    }
    free(text);
}
