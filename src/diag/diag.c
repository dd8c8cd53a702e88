#include "diag/diag.h"

#include <assert.h>

typedef struct message {
    const char *name;
    diag_severity severity;
    const char *format;
} message;

static const message messages[] = {
#define DIAG(id, severity, format) {#id, severity, format},
#include "diag/messages.def"
#undef DIAG
};

void diag_init(diag_list *list, arena *memory, str source_name, str source) {
    *list = (diag_list){.memory = memory, .source_name = source_name, .source = source};
}

/* What a message quotes of a text that is longer than any message should be. */
static void add_argument(text_buffer *text, str argument) {
    enum { QUOTED_BYTES_MAX = 2000, BEGINNING_BYTES = 60 };
    bool is_long = argument.length > QUOTED_BYTES_MAX;
    if (is_long) argument.length = BEGINNING_BYTES;
    text_add(text, argument);
    if (is_long) text_add(text, STR("..."));
}

static str fill(arena *memory, const char *format, const str *arguments) {
    text_buffer text;
    text_init_in(&text, memory);
    for (const char *c = format; *c; c++) {
        bool is_slot = c[0] == '{' && c[1] >= '0' && c[1] < '0' + DIAG_ARGUMENTS_MAX && c[2] == '}';
        if (is_slot) {
            assert(arguments);
            add_argument(&text, arguments[c[1] - '0']);
            c += 2;
        } else {
            text_add(&text, (str){c, 1});
        }
    }
    return text_str(&text);
}

static void append(diag_list *list, diag *d) {
    if (list->last) list->last->next = d;
    else list->first = d;
    list->last = d;
}

static void attach(diag *to, diag *d) {
    diag **end = &to->attached;
    while (*end) end = &(*end)->next;
    *end = d;
}

diag *diag_add(diag_list *list, diag_id id, diag_range range, const str *arguments) {
    diag_severity severity = messages[id].severity;
    bool stands_alone = severity == DIAG_ERROR || severity == DIAG_WARNING;
    bool past_limit = list->error_count >= DIAG_ERROR_LIMIT;
    if (severity == DIAG_ERROR) list->error_count++;
    if (severity == DIAG_WARNING) list->warning_count++;
    if (past_limit || (!stands_alone && !list->last)) return NULL;
    diag *d = arena_new(list->memory, diag);
    *d = (diag){.id = id, .severity = severity, .range = range};
    d->message = fill(list->memory, messages[id].format, arguments);
    if (stands_alone) append(list, d);
    else attach(list->last, d);
    return d;
}

void diag_expected(diag *d, str expected, str found) {
    if (!d) return;
    d->expected = expected;
    d->found = found;
}

void diag_replace(diag *hint, str replacement) {
    if (hint) hint->replacement = replacement;
}

bool diag_has_errors(const diag_list *list) {
    return list->error_count > 0;
}

const char *diag_id_name(diag_id id) {
    return messages[id].name;
}

void diag_position(str source, uint32_t offset, int *line, int *column) {
    *line = *column = 1;
    if (offset > source.length) offset = (uint32_t)source.length;
    for (uint32_t i = 0; i < offset; i++) {
        if (source.data[i] == '\n') ++*line, *column = 1;
        else ++*column;
    }
}
