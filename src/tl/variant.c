#include "tl/variant.h"

typedef struct variant {
    arena *memory;
    const tl_variant_option *options;
    int option_count;
    const tl_variant_choice *choices;
    int choice_count;
    str why;
} variant;

/* Splits a line at its last mark. Returns false when it has none. */
static bool split_at_mark(str line, str *before, str *mark) {
    for (size_t at = line.length; at-- > 0;) {
        str rest = {line.data + at, line.length - at};
        if (!str_starts(rest, STR("//?"))) continue;
        *before = (str){line.data, at};
        *mark = str_trim((str){rest.data + 3, rest.length - 3});
        return true;
    }
    return false;
}

static bool is_declaration(str before) {
    return str_trim(before).length == 0;
}

int tl_variant_options(arena *memory, str text, tl_variant_option **options) {
    LIST(tl_variant_option) list = {0};
    while (text.length) {
        str line = str_cut(&text, '\n'), before, doc;
        if (!split_at_mark(line, &before, &doc) || !is_declaration(before)) continue;
        str head = str_trim(str_cut(&doc, ':'));
        tl_variant_option option = {.doc = str_trim(doc)};
        option.name = str_cut(&head, ' ');
        option.is_operator = str_is(option.name, "op");
        if (option.is_operator) option.name = str_cut(&head, ' ');
        option.value = str_trim(head);
        list_push(memory, &list, option);
    }
    *options = list.items;
    return list.count;
}

static const tl_variant_option *find_option(const variant *v, str name) {
    for (int i = 0; i < v->option_count; i++) {
        if (str_equal(v->options[i].name, name)) return &v->options[i];
    }
    return NULL;
}

static const tl_variant_choice *find_choice(const variant *v, str name) {
    for (int i = 0; i < v->choice_count; i++) {
        if (str_equal(v->choices[i].name, name)) return &v->choices[i];
    }
    return NULL;
}

static bool check_choices(variant *v) {
    for (int i = 0; i < v->choice_count; i++) {
        const tl_variant_choice *choice = &v->choices[i];
        const tl_variant_option *option = find_option(v, choice->name);
        double number;
        if (!option) {
            v->why =
                str_format(v->memory, "this sketch has no option '%.*s'", STR_ARGS(choice->name));
        } else if (choice->value.length && !option->value.length) {
            v->why =
                str_format(v->memory, "the option '%.*s' takes no value", STR_ARGS(choice->name));
        } else if (choice->value.length && !str_to_number(choice->value, &number)) {
            v->why = str_format(v->memory, "the option '%.*s' needs a number, not '%.*s'",
                                STR_ARGS(choice->name), STR_ARGS(choice->value));
        } else {
            continue;
        }
        return false;
    }
    return true;
}

/* Whether all terms of a mark hold: "causal", "not mha, not mqa". */
static bool mark_holds(variant *v, str mark) {
    bool holds = true;
    while (mark.length) {
        str term = str_trim(str_cut(&mark, ','));
        bool is_wanted = !str_starts(term, STR("not "));
        if (!is_wanted) term = str_trim((str){term.data + 4, term.length - 4});
        if (!find_option(v, term)) {
            v->why =
                str_format(v->memory, "the sketch uses the option '%.*s' but does not declare it",
                           STR_ARGS(term));
            return false;
        }
        holds = holds && (find_choice(v, term) != NULL) == is_wanted;
    }
    return holds;
}

static str trim_end(str s) {
    while (s.length && (s.data[s.length - 1] == ' ' || s.data[s.length - 1] == '\t')) s.length--;
    return s;
}

/* `let NAME = ...` binds the option NAME: writes its line with the value chosen, if there is one.
 */
static bool write_binding(const variant *v, str line, text_buffer *out) {
    str value = line, head = str_trim(str_cut(&value, '='));
    if (!str_starts(head, STR("let "))) return false;
    str name = str_trim((str){head.data + 4, head.length - 4});
    const tl_variant_option *option = find_option(v, name);
    const tl_variant_choice *choice = find_choice(v, name);
    if (!option || !option->value.length || !choice || !choice->value.length) return false;
    text_format(out, "%.*s = %.*s\n", STR_ARGS(head), STR_ARGS(choice->value));
    return true;
}

static bool write_selection(variant *v, str text, text_buffer *out) {
    while (text.length) {
        str line = str_cut(&text, '\n'), before, mark;
        if (!split_at_mark(line, &before, &mark)) {
            text_format(out, "%.*s\n", STR_ARGS(line));
            continue;
        }
        if (is_declaration(before)) continue;
        bool is_kept = mark_holds(v, mark);
        if (v->why.length) return false;
        if (!is_kept) continue;
        before = trim_end(before);
        if (!write_binding(v, before, out)) text_format(out, "%.*s\n", STR_ARGS(before));
    }
    return true;
}

bool tl_variant_select(arena *memory, str text, const tl_variant_choice *choices, int count,
                       str *selected, str *why) {
    enum { TEXT_BYTES_MAX = 1 << 20 };
    tl_variant_option *options;
    int option_count = tl_variant_options(memory, text, &options);
    variant v = {memory, options, option_count, choices, count, {NULL, 0}};
    text_buffer out;
    text_init_in(&out, memory);
    bool is_done = check_choices(&v) && write_selection(&v, text, &out);
    if (is_done && out.length > TEXT_BYTES_MAX) {
        v.why = STR("the sketch is too long");
        is_done = false;
    }
    *selected = is_done ? text_str(&out) : (str){"", 0};
    *why = v.why;
    return is_done;
}
