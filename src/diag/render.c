#include "diag/diag.h"

#include <jansson.h>
#include <stdlib.h>

static const char *const severity_names[] = {"error", "warning", "note", "hint"};
static const char *const severity_colours[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m",
                                               "\033[1;32m"};

static str line_of(str source, uint32_t offset, uint32_t *line_begin) {
    uint32_t begin = offset > source.length ? (uint32_t)source.length : offset;
    while (begin && source.data[begin - 1] != '\n') begin--;
    uint32_t end = begin;
    while (end < source.length && source.data[end] != '\n' && source.data[end] != '\r') end++;
    *line_begin = begin;
    return (str){source.data + begin, end - begin};
}

/* The source line and under it the range: '^' first, '~' behind. Long lines show a window. */
static void render_caret(const diag_list *list, diag_range range, bool colour, text_buffer *out) {
    enum { WIDEST = 200, BEFORE = 60 };
    uint32_t begin;
    str line = line_of(list->source, range.begin, &begin);
    uint32_t column = range.begin - begin;
    if (column > line.length) column = (uint32_t)line.length;
    uint32_t skipped = line.length > WIDEST && column > BEFORE ? column - BEFORE : 0;
    str shown = {line.data + skipped, line.length - skipped};
    if (shown.length > WIDEST) shown.length = WIDEST;
    text_add_z(out, "    ");
    for (size_t i = 0; i < shown.length; i++) {
        char c = shown.data[i];
        text_add(out, c == '\t' ? STR(" ") : (unsigned char)c < 32 ? STR("?") : (str){&c, 1});
    }
    text_add_z(out, "\n    ");
    text_repeat(out, ' ', column - skipped);
    if (colour) text_add_z(out, "\033[1;32m");
    text_add_z(out, "^");
    uint32_t width = range.end > range.begin ? range.end - range.begin : 1;
    uint32_t room = (uint32_t)(shown.length + skipped) > column
                        ? (uint32_t)(shown.length + skipped) - column
                        : 1;
    text_repeat(out, '~', (width < room ? width : room) - 1);
    if (colour) text_add_z(out, "\033[0m");
    text_add_z(out, "\n");
}

static void render_one(const diag_list *list, const diag *d, bool colour, text_buffer *out) {
    bool has_place = d->range.end > 0 || d->range.begin > 0;
    text_format(out, "%.*s:", STR_ARGS(list->source_name));
    if (has_place) {
        int line, column;
        diag_position(list->source, d->range.begin, &line, &column);
        text_format(out, "%d:%d:", line, column);
    }
    text_format(out, " %s%s:%s ", colour ? severity_colours[d->severity] : "",
                severity_names[d->severity], colour ? "\033[0m" : "");
    text_add(out, d->message);
    text_add_z(out, "\n");
    if (has_place) render_caret(list, d->range, colour, out);
    if (d->replacement.length) text_format(out, "    %.*s\n", STR_ARGS(d->replacement));
    for (const diag *note = d->attached; note; note = note->next) {
        render_one(list, note, colour, out);
    }
}

void diag_render_text(const diag_list *list, bool colour, text_buffer *out) {
    for (const diag *d = list->first; d; d = d->next) render_one(list, d, colour, out);
    if (list->error_count > DIAG_ERROR_LIMIT) {
        text_format(out, "%d more errors are not shown\n", list->error_count - DIAG_ERROR_LIMIT);
    }
}

/* JSON wants UTF-8; bytes that are none are shown as '?'. */
static json_t *json_text(str s) {
    json_t *text = json_stringn(s.data ? s.data : "", s.length);
    if (text) return text;
    char *copy = malloc(s.length + 1);
    if (!copy) return json_null();
    for (size_t i = 0; i < s.length; i++) {
        copy[i] = (unsigned char)s.data[i] < 128 && s.data[i] ? s.data[i] : '?';
    }
    text = json_stringn(copy, s.length);
    free(copy);
    return text ? text : json_null();
}

static json_t *to_json(const diag_list *list, const diag *d) {
    json_t *object = json_object();
    json_object_set_new(object, "id", json_string(diag_id_name(d->id)));
    json_object_set_new(object, "severity", json_string(severity_names[d->severity]));
    json_object_set_new(object, "file", json_text(list->source_name));
    if (d->range.end > 0) {
        int line, column, end_line, end_column;
        diag_position(list->source, d->range.begin, &line, &column);
        diag_position(list->source, d->range.end, &end_line, &end_column);
        json_object_set_new(object, "line", json_integer(line));
        json_object_set_new(object, "column", json_integer(column));
        json_object_set_new(object, "end_line", json_integer(end_line));
        json_object_set_new(object, "end_column", json_integer(end_column));
    }
    json_object_set_new(object, "message", json_text(d->message));
    if (d->expected.length) json_object_set_new(object, "expected", json_text(d->expected));
    if (d->found.length) json_object_set_new(object, "found", json_text(d->found));
    if (d->replacement.length)
        json_object_set_new(object, "replacement", json_text(d->replacement));
    if (d->attached) {
        json_t *attached = json_array();
        for (const diag *note = d->attached; note; note = note->next) {
            json_array_append_new(attached, to_json(list, note));
        }
        json_object_set_new(object, "notes", attached);
    }
    return object;
}

void diag_render_json(const diag_list *list, text_buffer *out) {
    for (const diag *d = list->first; d; d = d->next) {
        json_t *object = to_json(list, d);
        char *line = json_dumps(object, JSON_COMPACT);
        if (line) {
            text_add_z(out, line);
            text_add_z(out, "\n");
        }
        free(line);
        json_decref(object);
    }
}
