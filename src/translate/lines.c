/* Lines of the emitted text, gathered in the arena. */
#include "translate/emit.h"

#include <ctype.h>
#include <string.h>

static str indented(emit *t, const char *format, va_list arguments) {
    str text = str_format_list(t->memory, format, arguments);
    if (!text.length || text.data[0] == '#') return text;
    return str_format(t->memory, "%*s%.*s", t->indent * EMIT_INDENT, "", STR_ARGS(text));
}

static void push(emit *t, str declares, const char *format, va_list arguments) {
    if (t->lines.count >= EMIT_LINES_MAX) {
        t->failed = true;
        return;
    }
    emit_line line = {indented(t, format, arguments), declares};
    list_push(t->memory, &t->lines, line);
}

void emit_text(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, (str){0}, format, arguments);
    va_end(arguments);
}

void emit_declare(emit *t, str declares, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, declares, format, arguments);
    va_end(arguments);
}

void emit_open(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, (str){0}, format, arguments);
    va_end(arguments);
    t->indent++;
}

void emit_close(emit *t) {
    t->indent--;
    emit_text(t, "}");
}

void emit_header(emit *t, const tl_statement *s) {
    text_buffer text;
    text_init_in(&text, t->memory);
    tl_print_header(s, &text);
    emit_text(t, "// %.*s", STR_ARGS(text_str(&text)));
}

void emit_loop(emit *t, const char *variable, int count) {
    emit_text(t, "#pragma unroll");
    emit_open(t, "for (int %s = 0; %s < %d; %s++) {", variable, variable, count, variable);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

bool emit_mentions(str text, str name) {
    for (size_t at = 0; at + name.length <= text.length; at++) {
        const char *found = memchr(text.data + at, name.data[0], text.length - at);
        if (!found) return false;
        at = (size_t)(found - text.data);
        if (at + name.length > text.length) return false;
        if (memcmp(found, name.data, name.length) != 0) continue;
        bool starts = at == 0 || !is_word(found[-1]);
        bool ends = at + name.length == text.length || !is_word(found[name.length]);
        if (starts && ends) return true;
    }
    return false;
}

static bool is_comment(str text) {
    return str_starts(str_trim(text), STR("//"));
}

static size_t indentation(str text) {
    return (size_t)(str_trim(text).data - text.data);
}

static bool leaves_block(str text, size_t indent) {
    return text.length && text.data[0] != '#' && indentation(text) < indent;
}

/* Looks to the end of the block that the declaration stands in; where an inner block declares the
 * name again, the rest of that block does not count.
 */
static bool is_used_behind(const emit *t, const bool *kept, int at) {
    str name = t->lines.items[at].declares;
    size_t indent = indentation(t->lines.items[at].text), hidden = 0;
    for (int i = at + 1; i < t->lines.count; i++) {
        str text = t->lines.items[i].text;
        if (leaves_block(text, indent)) return false;
        if (hidden && leaves_block(text, hidden)) hidden = 0;
        if (hidden || !kept[i] || is_comment(text)) continue;
        if (str_equal(t->lines.items[i].declares, name)) hidden = indentation(text);
        else if (emit_mentions(text, name)) return true;
    }
    return false;
}

void emit_write(emit *t, text_buffer *out) {
    bool *kept = arena_array(t->memory, bool, t->lines.count + 1);
    for (int i = t->lines.count - 1; i >= 0; i--) {
        kept[i] = !t->lines.items[i].declares.length || is_used_behind(t, kept, i);
    }
    for (int i = 0; i < t->lines.count; i++) {
        if (!kept[i]) continue;
        text_add(out, t->lines.items[i].text);
        text_add_z(out, "\n");
    }
}

str emit_format(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(t->memory, format, arguments);
    va_end(arguments);
    return text;
}

void emit_unsupported(emit *t, diag_range range, str what, const char *why, ...) {
    va_list arguments;
    va_start(arguments, why);
    str reason = str_format_list(t->memory, why, arguments);
    va_end(arguments);
    t->failed = true;
    /* A statement may be looked at more than once: for its maps, and for its text. */
    for (const diag *d = t->diags->first; d; d = d->next) {
        if (d->id == DIAG_TRANSLATE_UNSUPPORTED && d->range.begin == range.begin &&
            d->range.end == range.end && str_ends(d->message, reason))
            return;
    }
    diag_report(t->diags, DIAG_TRANSLATE_UNSUPPORTED, range, what, t->gpu->word, reason);
}
