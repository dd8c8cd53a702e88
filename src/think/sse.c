#include "think/sse.h"

#include <string.h>

enum { EVENT_BYTES_MAX = 16 << 20 };

void sse_init(sse_reader *r) {
    *r = (sse_reader){0};
    text_init(&r->line, EVENT_BYTES_MAX);
    text_init(&r->data, EVENT_BYTES_MAX);
}

void sse_done(sse_reader *r) {
    text_done(&r->line);
    text_done(&r->data);
}

static void clear(text_buffer *b) {
    b->length = 0;
    if (b->data) b->data[0] = 0;
}

static bool end_event(sse_reader *r, bool (*take)(void *user, str data), void *user) {
    bool goes_on = !r->has_data || take(user, text_str(&r->data));
    clear(&r->data);
    r->has_data = false;
    return goes_on;
}

/* Fields but 'data' (event, id, retry) repeat what the data say. */
static bool end_line(sse_reader *r, bool (*take)(void *user, str data), void *user) {
    str line = text_str(&r->line);
    bool goes_on = true;
    if (line.length && line.data[line.length - 1] == '\r') line.length--;
    if (!line.length) {
        goes_on = end_event(r, take, user);
    } else if (str_starts(line, STR("data:"))) {
        line = (str){line.data + 5, line.length - 5};
        if (line.length && *line.data == ' ') line.data++, line.length--;
        if (r->has_data) text_add_z(&r->data, "\n");
        text_add(&r->data, line);
        r->has_data = true;
    }
    clear(&r->line);
    return goes_on;
}

bool sse_feed(sse_reader *r, str bytes, bool (*take)(void *user, str data), void *user) {
    while (bytes.length) {
        const char *newline = memchr(bytes.data, '\n', bytes.length);
        size_t length = newline ? (size_t)(newline - bytes.data) : bytes.length;
        text_add(&r->line, (str){bytes.data, length});
        if (!newline) break;
        bytes = (str){newline + 1, bytes.length - length - 1};
        if (!end_line(r, take, user)) return false;
    }
    return !r->line.failed && !r->data.failed;
}

bool sse_finish(sse_reader *r, bool (*take)(void *user, str data), void *user) {
    if (r->line.length && !end_line(r, take, user)) return false;
    return end_event(r, take, user);
}
