#include "base/json.h"
#include "diag/diag.h"

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

/* The line as a terminal may have it, each byte in its column: what cannot be shown is '?'. */
static void render_line(str line, text_buffer *out) {
    for (size_t i = 0; i < line.length;) {
        str rest = {line.data + i, line.length - i};
        size_t bytes = str_plain_bytes(rest);
        if (bytes) text_add(out, (str){rest.data, bytes});
        else text_add_z(out, *rest.data == '\t' ? " " : "?");
        i += bytes ? bytes : 1;
    }
}

/* The source line and under it the range: '^' first, '~' after. Long lines show a window. */
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
    render_line(shown, out);
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
    text_add_shown(out, list->source_name, "");
    text_add_z(out, ":");
    if (has_place) {
        int line, column;
        diag_position(list->source, d->range.begin, &line, &column);
        text_format(out, "%d:%d:", line, column);
    }
    text_format(out, " %s%s:%s ", colour ? severity_colours[d->severity] : "",
                severity_names[d->severity], colour ? "\033[0m" : "");
    text_add_shown(out, d->message, "");
    text_add_z(out, "\n");
    if (has_place) render_caret(list, d->range, colour, out);
    if (d->replacement.length) {
        text_add_z(out, "    ");
        text_add_shown(out, d->replacement, "");
        text_add_z(out, "\n");
    }
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

static json_t *to_json(json_writer *w, const diag_list *list, const diag *d) {
    json_t *object = json_object();
    json_put(w, object, "id", json_string(diag_id_name(d->id)));
    json_put(w, object, "severity", json_string(severity_names[d->severity]));
    json_put(w, object, "file", json_from(list->source_name));
    if (d->range.end > 0) {
        int line, column, end_line, end_column;
        diag_position(list->source, d->range.begin, &line, &column);
        diag_position(list->source, d->range.end, &end_line, &end_column);
        json_put(w, object, "line", json_integer(line));
        json_put(w, object, "column", json_integer(column));
        json_put(w, object, "end_line", json_integer(end_line));
        json_put(w, object, "end_column", json_integer(end_column));
    }
    json_put(w, object, "message", json_from(d->message));
    if (d->expected.length) json_put(w, object, "expected", json_from(d->expected));
    if (d->found.length) json_put(w, object, "found", json_from(d->found));
    if (d->replacement.length) json_put(w, object, "replacement", json_from(d->replacement));
    if (d->attached) {
        json_t *attached = json_array();
        for (const diag *note = d->attached; note; note = note->next) {
            json_add(w, attached, to_json(w, list, note));
        }
        json_put(w, object, "notes", attached);
    }
    return object;
}

void diag_render_json(const diag_list *list, text_buffer *out) {
    for (const diag *d = list->first; d; d = d->next) {
        json_writer w = {0};
        json_t *object = to_json(&w, list, d);
        json_write_line(&w, object, JSON_COMPACT, out);
        json_decref(object);
    }
}
