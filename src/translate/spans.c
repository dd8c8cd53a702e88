/* Which lines of the finished text are about which statement.
 *
 * A line knows what it was written for. Headings that follow one another without a line between
 * them, of statements of one kind that stand side by side, share what comes after them: the text
 * does all of that at once.
 */
#include "translate/emit.h"

#include <string.h>

enum { SHARED_MOST = 64 };

/* The statements that the line before was about. */
typedef struct subject {
    const tl_statement *items[SHARED_MOST];
    int count;
    bool was_heading;
} subject;

static bool stands_beside(const tl_statement *a, const tl_statement *b) {
    return a != b && a->kind == b->kind && a->parent == b->parent &&
           !tl_statement_body((tl_statement *)(uintptr_t)a) &&
           !tl_statement_body((tl_statement *)(uintptr_t)b);
}

static void turn_to(subject *now, const emit_line *line) {
    const tl_statement *last = now->count ? now->items[now->count - 1] : NULL;
    bool joins = now->was_heading && line->is_heading && last && line->about &&
                 stands_beside(last, line->about) && now->count < SHARED_MOST;
    if (joins) now->items[now->count++] = line->about;
    else if (line->about != last || line->is_heading)
        now->count = line->about != NULL, now->items[0] = line->about;
    now->was_heading = line->is_heading;
}

static void add_lines(emit *t, const tl_statement *s, int first, int last) {
    translate_spans *spans = t->spans;
    for (int i = spans->count - 1; i >= 0 && i >= spans->count - SHARED_MOST; i--) {
        translate_span *span = &spans->items[i];
        if (span->statement != s) continue;
        if (span->last + 1 != first) break;
        span->last = last;
        return;
    }
    list_push(t->memory, spans, ((translate_span){s, first, last}));
}

static int count_lines(const char *text, size_t bytes) {
    int count = 0;
    for (size_t i = 0; i < bytes; i++) count += text[i] == '\n';
    return count;
}

void emit_finished(emit *t, str kernel_text, text_buffer *out) {
    if (!t->spans) {
        emit_wrapped(kernel_text, out);
        return;
    }
    subject now = {0};
    int line = 1 + count_lines(out->data, out->length);
    for (int i = 0; i < t->lines.count; i++) {
        const emit_line *written = &t->lines.items[i];
        if (written->is_dropped) continue;
        size_t bytes = (size_t)written->indent + written->text.length + 1, before = out->length;
        emit_wrapped((str){kernel_text.data, bytes}, out);
        kernel_text = (str){kernel_text.data + bytes, kernel_text.length - bytes};
        int next = line + count_lines(out->data + before, out->length - before);
        turn_to(&now, written);
        for (int k = 0; k < now.count; k++) add_lines(t, now.items[k], line, next - 1);
        line = next;
    }
}
