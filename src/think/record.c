#include "think/record.h"

#include "base/json.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct record_writer {
    char *path;
    size_t bytes;     /* written so far */
    bool has_lost;    /* an event: a record with a hole in it would be no record */
    text_buffer last; /* line, with its end */
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
    text_init(&w->last, RECORD_BYTES_MAX);
    return FTL_OK;
}

void record_close(record_writer *w) {
    if (!w) return;
    text_done(&w->last);
    free(w->path);
    free(w);
}

ftl_status record_add(ftl_context *context, record_writer *w, const char *event, json_t *fields) {
    json_t *line = json_pack("{s:s}", "event", event);
    if (line) json_object_update(line, fields);
    json_decref(fields);
    char *text = json_write(NULL, line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(line);
    if (!text) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    text_done(&w->last);
    text_init(&w->last, RECORD_BYTES_MAX - w->bytes);
    text_add_z(&w->last, text);
    text_add_z(&w->last, "\n");
    free(text);
    os_error why;
    if (w->last.failed) return ftl_context_fail(context, FTL_NO_MEMORY, "the record is too long");
    if (w->has_lost) return ftl_context_fail(context, FTL_NO_FILE, "the record was not written");
    str added = text_str(&w->last);
    w->has_lost = w->path && !(w->bytes ? os_append_file(w->path, added, &why)
                                        : os_write_file(w->path, added, &why));
    w->bytes += added.length;
    return w->has_lost ? ftl_context_fail(context, FTL_NO_FILE, "%s", why.text) : FTL_OK;
}

str record_last(const record_writer *w) {
    return str_trim(text_str(&w->last));
}

/* --- reading ---------------------------------------------------------------------------------- */

ftl_status record_each(ftl_context *context, str text, const char *name,
                       void (*visit)(void *user, json_t *event), void *user) {
    for (int number = 1; text.length; number++) {
        str line = str_trim(str_cut(&text, '\n'));
        if (!line.length) continue;
        json_error_t why;
        json_t *event = json_loadb(line.data, line.length, 0, &why);
        bool is_event = *json_text(event, "event");
        if (is_event) visit(user, event);
        json_decref(event);
        if (!is_event) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "'%s' is no record: line %d is no event", name, number);
        }
    }
    return FTL_OK;
}

static void take_event(void *user, json_t *event) {
    json_array_append(user, event);
}

ftl_status record_read_text(ftl_context *context, str text, const char *name, record_reader **out) {
    *out = NULL;
    record_reader *r = calloc(1, sizeof *r);
    if (r) r->events = json_array();
    if (!r || !r->events) {
        free(r);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    ftl_status status = record_each(context, text, name, take_event, r->events);
    if (!status) {
        r->is_given = calloc(json_array_size(r->events) + 1, sizeof *r->is_given);
        if (!r->is_given) status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    if (status) record_reader_free(r);
    else *out = r;
    return status;
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
