#include "tl/variant.h"

typedef struct variant {
    arena *memory;
    const tl_variant_option *options;
    int option_count;
    const tl_variant_choice *choices;
    int choice_count;
    str why;
} variant;

static const str never = {"never ", 6}; /* begins a line of options that exclude each other */

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
        if (str_starts(doc, never)) continue;
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

static str next_term(str *mark, bool *is_wanted) {
    str term = str_trim(str_cut(mark, ','));
    *is_wanted = !str_starts(term, STR("not "));
    return *is_wanted ? term : str_trim((str){term.data + 4, term.length - 4});
}

/* Whether all terms of a mark hold: "causal", "not mha, not mqa". */
static bool mark_holds(variant *v, str mark) {
    bool holds = true;
    while (mark.length) {
        bool is_wanted;
        str term = next_term(&mark, &is_wanted);
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

/* A `let` may have several bindings: where the one at 'from' ends, without what is after its value.
 */
static size_t binding_end(str line, size_t from, size_t *next) {
    int depth = 0;
    size_t at = from;
    for (; at < line.length; at++) {
        char c = line.data[at];
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (depth == 0 && c == ',') break;
        if (str_starts((str){line.data + at, line.length - at}, STR("//"))) {
            line.length = at;
            break;
        }
    }
    *next = at < line.length ? at + 1 : line.length + 1;
    return from + trim_end((str){line.data + from, at - from}).length;
}

/* `let NAME = ...` binds the option NAME: writes its line with the values chosen, if there are any.
 */
static bool write_binding(const variant *v, str line, text_buffer *out) {
    size_t from = 4, next, copied = 0;
    if (!str_starts(line, STR("let "))) return false;
    for (bool is_last = false; !is_last; from = next) {
        size_t end = binding_end(line, from, &next);
        str value = {line.data + from, end - from}, name = str_trim(str_cut(&value, '='));
        const tl_variant_option *option = find_option(v, name);
        const tl_variant_choice *choice = find_choice(v, name);
        is_last = next > line.length || line.data[next - 1] != ',';
        if (!option || !option->value.length || !choice || !choice->value.length) continue;
        str before = {line.data + copied, (size_t)(value.data - line.data) - copied};
        text_format(out, "%.*s %.*s", STR_ARGS(before), STR_ARGS(choice->value));
        copied = end;
    }
    if (!copied) return false;
    text_format(out, "%.*s\n", (int)(line.length - copied), line.data + copied);
    return true;
}

/* Whether a line goes by the option, of those that the operator chosen leaves in. */
static bool mark_asks(const variant *v, str mark, str name) {
    bool asks = false;
    while (mark.length) {
        bool is_wanted;
        str term = next_term(&mark, &is_wanted);
        const tl_variant_option *option = find_option(v, term);
        bool is_chosen = find_choice(v, term) != NULL;
        if (option && option->is_operator && is_chosen != is_wanted) return false;
        asks |= str_equal(term, name);
    }
    return asks;
}

static bool some_line_asks(const variant *v, str text, str name) {
    while (text.length) {
        str line = str_cut(&text, '\n'), before, mark;
        bool is_marked = split_at_mark(line, &before, &mark) && !is_declaration(before);
        if (is_marked && mark_asks(v, mark, name)) return true;
    }
    return false;
}

/* A choice that no line of its operator goes by would be forgotten without a word. */
static bool check_lines(variant *v, str text) {
    str operator= STR("this sketch");
    for (int i = 0; i < v->choice_count; i++) {
        const tl_variant_option *option = find_option(v, v->choices[i].name);
        if (option->is_operator) operator= str_format(v->memory, "'%.*s'", STR_ARGS(option->name));
    }
    for (int i = 0; i < v->choice_count; i++) {
        str name = v->choices[i].name;
        if (find_option(v, name)->is_operator || some_line_asks(v, text, name)) continue;
        v->why = str_format(v->memory, "the option '%.*s' changes nothing in %.*s", STR_ARGS(name),
                            STR_ARGS(operator));
        return false;
    }
    return true;
}

/* `never latent, not page_len: 'latent' needs 'page_len'`: refused by that sentence. */
static bool check_excluded(variant *v, str mark) {
    if (!str_starts(mark, never)) return true;
    str sentence = {mark.data + never.length, mark.length - never.length};
    str terms = str_trim(str_cut(&sentence, ':'));
    if (mark_holds(v, terms)) v->why = str_format(v->memory, "%.*s", STR_ARGS(str_trim(sentence)));
    return v->why.length == 0;
}

static bool write_selection(variant *v, str text, text_buffer *out) {
    while (text.length) {
        str line = str_cut(&text, '\n'), before, mark;
        if (!split_at_mark(line, &before, &mark)) {
            text_format(out, "%.*s\n", STR_ARGS(line));
            continue;
        }
        if (is_declaration(before)) {
            if (!check_excluded(v, mark)) return false;
            continue;
        }
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
    bool is_done = check_choices(&v) && check_lines(&v, text) && write_selection(&v, text, &out);
    if (is_done && out.length > TEXT_BYTES_MAX) {
        v.why = STR("the sketch is too long");
        is_done = false;
    }
    *selected = is_done ? text_str(&out) : (str){"", 0};
    *why = v.why;
    return is_done;
}
