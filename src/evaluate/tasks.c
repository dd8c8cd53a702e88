#include "evaluate/tasks.h"

#include "base/hash.h"
#include "base/number.h"

#include <stdio.h>
#include <string.h>

static const char *const level_names[] = {
#define LEVEL(id, name) name,
    TASK_LEVEL_LIST(LEVEL)
#undef LEVEL
};

const char *task_level_name(task_level level) {
    return level_names[level];
}

bool task_level_read(str name, task_level *out) {
    for (int i = 0; i < TASK_LEVEL_COUNT; i++) {
        if (!str_is(name, level_names[i])) continue;
        *out = (task_level)i;
        return true;
    }
    return false;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reader {
    str rest;
    int line; /* of the line that was read last */
    task_list *list;
    task_error *why;
    text_buffer words, sketch;
} reader;

__attribute__((format(printf, 3, 4))) static bool fail(reader *r, int line, const char *format,
                                                       ...) {
    va_list arguments;
    va_start(arguments, format);
    number_print_list(r->why->text, sizeof r->why->text, format, arguments);
    va_end(arguments);
    r->why->line = line;
    return false;
}

/* The next line, without what ends it. False at the end. */
static bool next_line(reader *r, str *line) {
    if (!r->rest.length) return false;
    *line = str_cut(&r->rest, '\n');
    while (line->length && (line->data[line->length - 1] == '\r')) line->length--;
    r->line++;
    return true;
}

static bool is_heading(str line) {
    return str_starts(line, STR("## "));
}

static bool is_name(str text) {
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || (c == '-' && i);
        if (!fits) return false;
    }
    return text.length > 0 && text.length < TASK_NAME_BYTES;
}

static bool add_pin(reader *r, evaluate_task *t, str text) {
    str value = text, name = str_trim(str_cut(&value, '='));
    int64_t number;
    value = str_trim(value);
    if (!is_name(name) || !str_to_integer(value, &number) || number < 1) {
        return fail(r, t->line, "a size is NAME=NUMBER; found '%.*s'", (int)text.length % 64,
                    text.data);
    }
    for (int32_t i = 0; i < t->pin_count; i++) {
        if (str_is(name, t->pins[i].name)) {
            return fail(r, t->line, "the size '%.*s' stands here twice", STR_ARGS(name));
        }
    }
    if (t->pin_count == TASK_PINS_MAX - 2) return fail(r, t->line, "too many sizes");
    arena *memory = &r->list->memory;
    t->pins[t->pin_count++] = (ftl_pin){str_copy_z(memory, name), str_copy_z(memory, value)};
    return true;
}

/* "NAME (LEVEL, SIZE=VALUE)" */
static bool read_heading(reader *r, str text, evaluate_task *t) {
    str rest = str_trim(text), name = str_trim(str_cut(&rest, '('));
    if (!is_name(name)) {
        return fail(r, t->line,
                    "a task's heading is 'NAME (LEVEL)', its name of letters, digits, '_' and '-'");
    }
    snprintf(t->name, sizeof t->name, "%.*s", STR_ARGS(name));
    for (int32_t i = 0; i < r->list->count; i++) {
        if (strcmp(r->list->items[i].name, t->name) != 0) continue;
        return fail(r, t->line, "there is a task '%s' already, in line %d", t->name,
                    r->list->items[i].line);
    }
    if (!str_ends(rest, STR(")"))) {
        return fail(r, t->line, "'%s' has no level: 'NAME (LEVEL)'", t->name);
    }
    rest.length--;
    str level = str_trim(str_cut(&rest, ','));
    if (!task_level_read(level, &t->level)) {
        return fail(r, t->line, "the level of '%s' is easy, medium or hard; found '%.*s'", t->name,
                    level.length > 40 ? 40 : (int)level.length, level.data);
    }
    while (rest.length) {
        if (!add_pin(r, t, str_trim(str_cut(&rest, ',')))) return false;
    }
    return true;
}

/* Lines of a paragraph are joined: where a file breaks them says nothing. */
static bool read_words(reader *r, evaluate_task *t) {
    bool is_open = false;
    for (str line; next_line(r, &line);) {
        str text = str_trim(line);
        if (str_is(text, "```tl")) {
            if (r->words.length) return true;
            return fail(r, t->line, "'%s' has no request", t->name);
        }
        if (is_heading(line)) break;
        if (str_starts(text, STR("```"))) {
            return fail(r, r->line, "the reference stands in a block marked tl; found '%.*s'",
                        text.length > 40 ? 40 : (int)text.length, text.data);
        }
        if (text.length && r->words.length) text_add_z(&r->words, is_open ? " " : "\n\n");
        text_add(&r->words, text);
        is_open = text.length > 0;
    }
    return fail(r, t->line, "'%s' has no reference: a block marked tl", t->name);
}

static bool read_sketch(reader *r, evaluate_task *t) {
    int begin = r->line;
    for (str line; next_line(r, &line);) {
        if (str_is(str_trim(line), "```")) {
            if (r->sketch.length) return true;
            return fail(r, begin, "the reference of '%s' is empty", t->name);
        }
        text_add(&r->sketch, line);
        text_add_z(&r->sketch, "\n");
    }
    return fail(r, begin, "this block does not end");
}

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        bool begins = at == text || !str_is_word(at[-1]);
        if (begins && !str_is_word(at[length])) return true;
    }
    return false;
}

/* Head dimensions that the task has and does not give. */
static void add_default(evaluate_task *t, const char *name) {
    bool is_there = false;
    for (int32_t i = 0; i < t->pin_count; i++) is_there |= strcmp(t->pins[i].name, name) == 0;
    if (!is_there && has_word(t->sketch, name)) t->pins[t->pin_count++] = (ftl_pin){name, "64"};
}

static void name_by_content(arena *memory, evaluate_task *t) {
    text_buffer all;
    text_init_in(&all, memory);
    text_format(&all, "%zu %s%zu %s", strlen(t->words), t->words, strlen(t->sketch), t->sketch);
    for (int32_t i = 0; i < t->pin_count; i++) {
        text_format(&all, " %s=%s", t->pins[i].name, t->pins[i].value);
    }
    hash_digits(hash_bytes(text_str(&all)), t->hash);
}

static bool read_task(reader *r, str heading) {
    evaluate_task *t = &r->list->items[r->list->count];
    *t = (evaluate_task){.line = r->line};
    r->words.length = r->sketch.length = 0;
    if (!read_heading(r, heading, t) || !read_words(r, t) || !read_sketch(r, t)) return false;
    t->words = str_copy_z(&r->list->memory, text_str(&r->words));
    t->sketch = str_copy_z(&r->list->memory, text_str(&r->sketch));
    add_default(t, "d");
    add_default(t, "dv");
    name_by_content(&r->list->memory, t);
    r->list->count++;
    return true;
}

/* Characters that no text has: the file is something else. */
static bool find_odd_bytes(reader *r, str text) {
    int line = 1;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.data[i];
        line += c == '\n';
        if (c < ' ' && c != '\n' && c != '\r' && c != '\t') {
            return !fail(r, line, "this is no text: there is a byte %d", c);
        }
    }
    return false;
}

static bool read_all(reader *r) {
    str line;
    while (next_line(r, &line) && !is_heading(line)) {
    }
    if (r->line == 0 || !is_heading(line)) {
        return fail(r, r->line ? r->line : 1, "there is no task: a heading '## NAME (LEVEL)'");
    }
    for (bool goes_on = true; goes_on;) {
        if (r->list->count == TASKS_MAX) {
            return fail(r, r->line, "a file has at most %d tasks", TASKS_MAX);
        }
        if (!read_task(r, (str){line.data + 3, line.length - 3})) return false;
        do {
            goes_on = next_line(r, &line);
        } while (goes_on && !str_trim(line).length);
        if (goes_on && !is_heading(line)) {
            return fail(r, r->line, "after the reference of '%s' the next task is expected",
                        r->list->items[r->list->count - 1].name);
        }
    }
    return true;
}

bool tasks_read(str text, task_list *out, task_error *why) {
    reader r = {.rest = text, .list = out, .why = why};
    jmp_buf exhausted;
    *out = (task_list){0};
    why->is_out_of_memory = false;
    arena_init(&out->memory, 64 << 20);
    text_init_in(&r.words, &out->memory);
    text_init_in(&r.sketch, &out->memory);
    volatile bool is_read = false;
    if (text.length >= TASKS_BYTES_MAX) {
        fail(&r, 1, "a file of tasks has at most %d MiB", TASKS_BYTES_MAX >> 20);
    } else if (setjmp(exhausted)) {
        fail(&r, 1, "out of memory");
        why->is_out_of_memory = true;
    } else {
        out->memory.on_exhausted = &exhausted;
        out->items = arena_array(&out->memory, evaluate_task, TASKS_MAX);
        is_read = !find_odd_bytes(&r, text) && read_all(&r);
    }
    out->memory.on_exhausted = NULL;
    return is_read;
}

void tasks_done(task_list *list) {
    arena_done(&list->memory);
    *list = (task_list){0};
}
