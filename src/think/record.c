#include "think/record.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct record_writer {
    char *path;
    text_buffer text;
};

struct record_reader {
    json_t *events;
    bool *is_given;
};

const char *json_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double json_number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* --- writing ---------------------------------------------------------------------------------- */

ftl_status record_open(ftl_context *context, const char *path, record_writer **out) {
    record_writer *w = calloc(1, sizeof *w);
    char *copy = path ? str_new(str_from(path)) : NULL;
    *out = w;
    if (!w || (path && !copy)) {
        free(w);
        free(copy);
        *out = NULL;
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    w->path = copy;
    text_init(&w->text, RECORD_BYTES_MAX);
    return FTL_OK;
}

void record_close(record_writer *w) {
    if (!w) return;
    text_done(&w->text);
    free(w->path);
    free(w);
}

ftl_status record_add(ftl_context *context, record_writer *w, const char *event, json_t *fields) {
    json_t *line = json_pack("{s:s}", "event", event);
    if (line) json_object_update(line, fields);
    json_decref(fields);
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    if (!text) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    text_add_z(&w->text, text);
    text_add_z(&w->text, "\n");
    free(text);
    os_error why;
    if (w->text.failed) return ftl_context_fail(context, FTL_NO_MEMORY, "the record is too long");
    if (!w->path || os_write_file(w->path, text_str(&w->text), &why)) return FTL_OK;
    return ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
}

str record_text(const record_writer *w) {
    return text_str(&w->text);
}

/* --- reading ---------------------------------------------------------------------------------- */

ftl_status record_read_text(ftl_context *context, str text, const char *name, record_reader **out) {
    *out = NULL;
    record_reader *r = calloc(1, sizeof *r);
    if (r) r->events = json_array();
    if (!r || !r->events) {
        free(r);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    for (int number = 1; text.length; number++) {
        str line = str_trim(str_cut(&text, '\n'));
        if (!line.length) continue;
        json_error_t why;
        json_t *event = json_loadb(line.data, line.length, 0, &why);
        if (!event || !*json_text(event, "event")) {
            json_decref(event);
            record_reader_free(r);
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "'%s' is no record: line %d is no event", name, number);
        }
        json_array_append_new(r->events, event);
    }
    r->is_given = calloc(json_array_size(r->events) + 1, sizeof *r->is_given);
    if (!r->is_given) {
        record_reader_free(r);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    *out = r;
    return FTL_OK;
}

ftl_status record_read(ftl_context *context, const char *path, record_reader **out) {
    text_buffer text;
    os_error why;
    *out = NULL;
    text_init(&text, RECORD_BYTES_MAX + 1);
    ftl_status status = FTL_OK;
    if (os_read_file(path, RECORD_BYTES_MAX, &text, &why)) {
        status = record_read_text(context, text_str(&text), path, out);
    } else {
        status = ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    }
    text_done(&text);
    return status;
}

void record_reader_free(record_reader *r) {
    if (!r) return;
    json_decref(r->events);
    free(r->is_given);
    free(r);
}

int32_t record_count(const record_reader *r) {
    return (int32_t)json_array_size(r->events);
}

json_t *record_at(const record_reader *r, int32_t index) {
    return json_array_get(r->events, (size_t)index);
}

json_t *record_next_ask(record_reader *r, const char *key) {
    for (int32_t i = 0; i < record_count(r); i++) {
        json_t *event = record_at(r, i);
        bool fits = strcmp(json_text(event, "event"), "ask") == 0 && !r->is_given[i] &&
                    strcmp(json_text(event, "key"), key) == 0;
        if (!fits) continue;
        r->is_given[i] = true;
        return event;
    }
    return NULL;
}

json_t *record_pending_ask(const record_reader *r, const char *step) {
    for (int32_t i = 0; i < record_count(r); i++) {
        json_t *event = record_at(r, i);
        bool fits = strcmp(json_text(event, "event"), "ask") == 0 && !r->is_given[i] &&
                    strcmp(json_text(event, "step"), step) == 0;
        if (fits) return event;
    }
    return NULL;
}
