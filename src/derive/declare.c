/* What a kernel's text names of the sketch: Inputs and definitions, and the lengths in them. */
#include "derive/writer.h"

#include <string.h>

bool writer_has_word(const words *w, str word) {
    for (int i = 0; i < w->count; i++)
        if (str_equal(w->items[i], word)) return true;
    return false;
}

void writer_add_word(arena *memory, words *w, str word) {
    if (!writer_has_word(w, word)) list_push(memory, w, word);
}

void writer_add_words(arena *memory, words *w, str text) {
    for (str word = str_cut_word(&text); word.length; word = str_cut_word(&text))
        writer_add_word(memory, w, word);
}

str writer_header(const tape *t, const tl_statement *s) {
    text_buffer text;
    text_init_in(&text, t->memory);
    tl_print_header(s, &text);
    return text_str(&text);
}

bool writer_declares(const tl_statement *s, const words *needed) {
    if (s->kind == TL_INPUT) return writer_has_word(needed, s->parameter.name);
    for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
        if (writer_has_word(needed, s->let.items[i].name)) return true;
    return false;
}

/* Is the word all that its line says of a length? Of k_len/8 there is no telling k_len. */
static bool is_whole_length(str line, str word) {
    const char *after = word.data + word.length, *end = line.data + line.length;
    bool is_divided = after + 1 < end && after[0] == ')' && after[1] == '/';
    return after < end && strchr(",;)", *after) && !is_divided;
}

/* Lengths and indices of a text's tensors. */
static words words_of_tensors(const tape *t, str text) {
    words found = {0};
    while (text.length) {
        str line = str_cut(&text, '\n');
        bool is_tensor = str_starts(line, STR("Input ")) || str_starts(line, STR("Output "));
        line.length = str_find(line, STR(" where "));
        str rest = line;
        for (str word = str_cut_word(&rest); is_tensor && word.length; word = str_cut_word(&rest))
            if (is_whole_length(line, word)) writer_add_word(t->memory, &found, word);
    }
    return found;
}

/* A length that is named comes with an Input that has it. NULL: some tensor here has, or it is
 * none. */
static const tl_statement *length_giver(const tape *t, str name, str text, const words *needed) {
    const tl_statement *giver = NULL;
    words here = words_of_tensors(t, text);
    const tl_symbol *length = tl_find_symbol(t->kernel, name);
    if (!length || length->kind != TL_SYMBOL_SIZE || writer_has_word(&here, name)) return NULL;
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_INPUT && i < s->parameter.axes.count; i++) {
            if (!tl_expr_names(s->parameter.axes.items[i].extent, name)) continue;
            if (writer_has_word(needed, s->parameter.name)) return NULL;
            if (!giver) giver = s;
        }
    return giver;
}

void write_declared(const tape *t, str text, text_buffer *out) {
    const tl_block *body = &t->kernel->body;
    words needed = {0};
    writer_add_words(t->memory, &needed, text);
    for (bool is_more = true; is_more;) {
        int before = needed.count;
        for (const tl_statement *s = body->first; s; s = s->next)
            if (writer_declares(s, &needed))
                writer_add_words(t->memory, &needed, writer_header(t, s));
        for (int i = 0; i < before; i++) {
            const tl_statement *giver = length_giver(t, needed.items[i], text, &needed);
            if (giver) writer_add_word(t->memory, &needed, giver->parameter.name);
        }
        is_more = needed.count > before;
    }
    for (const tl_statement *s = body->first; s; s = s->next) {
        if (!writer_declares(s, &needed)) continue;
        text_add(out, writer_header(t, s));
        text_add_z(out, "\n");
    }
}
