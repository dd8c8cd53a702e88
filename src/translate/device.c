/* Instruction wrappers: the paragraphs of src/device that a kernel's text names. */
#include "translate/emit.h"

#include "base/embedded.h"

#include <string.h>

typedef struct paragraph {
    str text;
    str name; /* what it defines; empty: a comment on the file */
    bool is_used;
} paragraph;

typedef LIST(paragraph) paragraphs;

/* The first word that starts with "ftl_" and is followed by '(': what the wrapper is called. */
static str defined_name(str text) {
    for (size_t i = 0; i + 4 < text.length; i++) {
        if (memcmp(text.data + i, "ftl_", 4) != 0) continue;
        size_t end = i;
        while (end < text.length &&
               (text.data[end] == '_' || (text.data[end] >= 'a' && text.data[end] <= 'z') ||
                (text.data[end] >= '0' && text.data[end] <= '9')))
            end++;
        if (end < text.length && text.data[end] == '(') return (str){text.data + i, end - i};
        i = end;
    }
    return (str){0};
}

static void read_paragraphs(emit *t, paragraphs *all) {
    for (const embedded_file *file = embedded_device; file->name; file++) {
        str rest = {file->data, file->length};
        while (rest.length) {
            const char *gap = strstr(rest.data, "\n\n");
            size_t length = gap ? (size_t)(gap - rest.data) + 1 : rest.length;
            paragraph p = {.text = {rest.data, length}};
            p.name = defined_name(p.text);
            if (p.name.length) list_push(t->memory, all, p);
            size_t used = gap ? length + 1 : length;
            rest = (str){rest.data + used, rest.length - used};
        }
    }
}

/* A program's kernels may share a file; what an earlier one brought is there already. */
static bool is_there(const text_buffer *out, str text) {
    str rest = text_str(out);
    while (rest.length >= text.length) {
        const char *found = memchr(rest.data, text.data[0], rest.length);
        if (!found) return false;
        rest.length -= (size_t)(found - rest.data);
        rest.data = found;
        if (str_starts(rest, text)) return true;
        rest.data++, rest.length--;
    }
    return false;
}

/* Marks what 'text' names. A wrapper that has another's name as its beginning is told apart by
 * whole words.
 */
static bool mark_used(paragraphs *all, str text) {
    bool changed = false;
    for (int i = 0; i < all->count; i++) {
        paragraph *p = &all->items[i];
        if (p->is_used || !emit_mentions(text, p->name)) continue;
        p->is_used = changed = true;
    }
    return changed;
}

void emit_device(emit *t, str kernel_text, text_buffer *out) {
    paragraphs all = {0};
    read_paragraphs(t, &all);
    mark_used(&all, kernel_text);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < all.count; i++) {
            if (all.items[i].is_used) changed |= mark_used(&all, all.items[i].text);
        }
    }
    /* A wrapper stands behind what it uses: the files' own order, needs first. */
    bool *written = arena_array(t->memory, bool, all.count + 1);
    for (int left = all.count; left > 0; left--) {
        for (int i = 0; i < all.count; i++) {
            if (!all.items[i].is_used || written[i]) continue;
            bool waits = false;
            for (int j = 0; j < all.count; j++) {
                waits |= j != i && all.items[j].is_used && !written[j] &&
                         emit_mentions(all.items[i].text, all.items[j].name);
            }
            if (waits) continue;
            written[i] = true;
            if (is_there(out, all.items[i].text)) continue;
            text_add(out, all.items[i].text);
            text_add_z(out, "\n");
        }
    }
}
