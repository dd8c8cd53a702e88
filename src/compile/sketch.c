/* Sketches that are shipped: sketches/NAME.tl, with what may be chosen in comments that begin with
 * "//?". In front of the kernel they say what the operator is and which options it has; behind a
 * line they say when the line is part of the sketch:
 *
 *   //? about SENTENCE                 //? also NAME, NAME
 *   //? option NAME [VALUE]: SENTENCE
 *   TEXT  //? NAME and not NAME        "$NAME" in the text is the value that was given
 *
 * So a new operator is a file, and a new option is a few lines of it.
 */
#include "base/embedded.h"
#include "compile/compile.h"
#include "flashtl/flashtl.h"

#include <stdlib.h>
#include <string.h>

enum { SETTINGS_MAX = 32, OPTIONS_MAX = 32 };

typedef struct option {
    str name, value_name; /* value_name: empty when it takes none */
    str sentence;
    bool is_set;
    str value;
} option;

typedef struct choice {
    const embedded_file *file;
    str about, also;
    option options[OPTIONS_MAX];
    int option_count;
} choice;

static const str mark = {"//?", 3};

/* The part of a line before the mark, and behind it; false when there is no mark. */
static bool split_line(str line, str *text, str *note) {
    for (size_t i = 0; i + mark.length <= line.length; i++) {
        if (memcmp(line.data + i, mark.data, mark.length) != 0) continue;
        *text = (str){line.data, i};
        *note = str_trim((str){line.data + i + mark.length, line.length - i - mark.length});
        return true;
    }
    *text = line;
    *note = STR("");
    return false;
}

static bool take_word(str *rest, const char *word) {
    str begin = str_from(word);
    bool is_there = str_starts(*rest, begin) &&
                    (rest->length == begin.length || rest->data[begin.length] == ' ');
    if (!is_there) return false;
    *rest = str_trim((str){rest->data + begin.length, rest->length - begin.length});
    return true;
}

static void read_heading(choice *c, str note) {
    if (take_word(&note, "about")) {
        c->about = note;
    } else if (take_word(&note, "also")) {
        c->also = note;
    } else if (take_word(&note, "option") && c->option_count < OPTIONS_MAX) {
        str head = str_cut(&note, ':');
        option *o = &c->options[c->option_count++];
        *o = (option){.name = str_cut(&head, ' '), .sentence = str_trim(note)};
        o->value_name = str_trim(head);
    }
}

static choice read_choice(const embedded_file *file) {
    choice c = {.file = file};
    str rest = {file->data, file->length}, text, note;
    while (rest.length) {
        str line = str_cut(&rest, '\n');
        if (split_line(line, &text, &note) && str_trim(text).length == 0) read_heading(&c, note);
    }
    return c;
}

static bool has_name(const choice *c, str name) {
    if (str_is(name, c->file->name)) return true;
    str rest = c->also;
    while (rest.length) {
        if (str_equal(str_trim(str_cut(&rest, ',')), name)) return true;
    }
    return false;
}

static option *find_option(choice *c, str name) {
    for (int i = 0; i < c->option_count; i++) {
        if (str_equal(c->options[i].name, name)) return &c->options[i];
    }
    return NULL;
}

/* "causal and not window" */
static bool holds(choice *c, str condition) {
    while (condition.length) {
        bool is_wanted = !take_word(&condition, "not");
        str name = str_cut(&condition, ' ');
        const option *o = find_option(c, name);
        if ((o && o->is_set) != is_wanted) return false;
        condition = str_trim(condition);
        take_word(&condition, "and");
    }
    return true;
}

/* A line with "$NAME" replaced by what was given for that option. */
static void add_line(choice *c, str text, text_buffer *out) {
    while (text.length && text.data[text.length - 1] == ' ') text.length--;
    while (text.length) {
        bool has_more = memchr(text.data, '$', text.length) != NULL;
        text_add(out, str_cut(&text, '$'));
        if (!has_more) break;
        size_t length = 0;
        while (length < text.length && text.data[length] >= 'a' && text.data[length] <= 'z')
            length++;
        const option *o = find_option(c, (str){text.data, length});
        if (o) text_add(out, o->value);
        text = (str){text.data + length, text.length - length};
    }
    text_add_z(out, "\n");
}

static void write_sketch(choice *c, text_buffer *out) {
    str rest = {c->file->data, c->file->length}, text, note;
    while (rest.length) {
        str line = str_cut(&rest, '\n');
        bool is_marked = split_line(line, &text, &note);
        bool is_heading = is_marked && str_trim(text).length == 0;
        if (!is_heading && (!is_marked || holds(c, note))) add_line(c, text, out);
    }
}

/* --- finding, with the nearest name on a typo
 * ------------------------------------------------------ */

static ftl_status no_operator(ftl_context *context, const char *name) {
    str wanted = str_from(name);
    const char *nearest = NULL;
    int least = 4;
    for (const embedded_file *file = embedded_sketches; file->name; file++) {
        choice c = read_choice(file);
        int distance = str_distance(wanted, str_from(file->name));
        if (distance < least) least = distance, nearest = file->name;
        for (str rest = c.also; rest.length;) {
            distance = str_distance(wanted, str_trim(str_cut(&rest, ',')));
            if (distance < least) least = distance, nearest = file->name;
        }
    }
    return ftl_context_fail(context, FTL_NOT_FOUND, "no operator is called '%s'%s%s%s", name,
                            nearest ? "; did you mean '" : "", nearest ? nearest : "",
                            nearest ? "'?" : "");
}

static ftl_status no_option(ftl_context *context, const choice *c, str name) {
    const option *nearest = NULL;
    int least = 4;
    for (int i = 0; i < c->option_count; i++) {
        int distance = str_distance(name, c->options[i].name);
        if (distance < least) least = distance, nearest = &c->options[i];
    }
    str shown = nearest ? nearest->name : STR("");
    return ftl_context_fail(context, FTL_NOT_FOUND, "operator '%s' has no option '%.*s'%s%.*s%s",
                            c->file->name, STR_ARGS(name), nearest ? "; did you mean '" : "",
                            STR_ARGS(shown), nearest ? "'?" : "");
}

/* "window=128": a positive number where the option takes one. */
static ftl_status set_option(ftl_context *context, choice *c, str setting) {
    str name = str_cut(&setting, '=');
    option *o = find_option(c, name);
    if (!o) return no_option(context, c, name);
    double number;
    bool takes_value = o->value_name.length > 0;
    bool is_right = takes_value
                        ? str_to_number(setting, &number) && number > 0 && number <= 2147483647
                        : setting.length == 0;
    if (!is_right) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                takes_value ? "option '%.*s' needs a positive number, not '%.*s'"
                                            : "option '%.*s' takes no value, found '%.*s'",
                                STR_ARGS(name), STR_ARGS(setting));
    }
    o->is_set = true;
    o->value = setting;
    return FTL_OK;
}

ftl_status ftl_sketch(ftl_context *context, const char *operator_name, const char *const *settings,
                      int32_t setting_count, char **out) {
    *out = NULL;
    context_begin(context);
    const embedded_file *file = embedded_sketches;
    choice c = {0};
    for (; file->name; file++) {
        c = read_choice(file);
        if (has_name(&c, str_from(operator_name))) break;
    }
    if (!file->name) return no_operator(context, operator_name);
    for (int32_t i = 0; i < setting_count; i++) {
        ftl_status status = set_option(context, &c, str_from(settings[i]));
        if (status) return status;
    }
    text_buffer text;
    text_init(&text, 1 << 20);
    write_sketch(&c, &text);
    return compile_hand_over(context, &text, out);
}

ftl_status ftl_operators(ftl_context *context, char **out) {
    *out = NULL;
    text_buffer text;
    text_init(&text, 1 << 20);
    for (const embedded_file *file = embedded_sketches; file->name; file++) {
        choice c = read_choice(file);
        text_format(&text, "%-14s %.*s\n", file->name, STR_ARGS(c.about));
        if (c.also.length) text_format(&text, "%-14s also called %.*s\n", "", STR_ARGS(c.also));
        for (int i = 0; i < c.option_count; i++) {
            const option *o = &c.options[i];
            int width = 12 - (int)o->name.length - 1;
            text_format(&text, "    %.*s %-*.*s %.*s\n", STR_ARGS(o->name), width > 0 ? width : 0,
                        STR_ARGS(o->value_name), STR_ARGS(o->sentence));
        }
    }
    return compile_hand_over(context, &text, out);
}
