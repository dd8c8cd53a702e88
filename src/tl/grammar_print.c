/* The grammar as EBNF, as GBNF (llama.cpp's dialect) and as Lark. */
#include "tl/grammar.h"
#include "tl/tl.h"

/* --- EBNF ------------------------------------------------------------------------------------- */

enum { LINE_WIDTH = 100, NAME_WIDTH = 18 };

/* Cuts off what should stay on one line: a word, or a bracket that is not too long; a '|' goes with
 * what follows it.
 */
static str cut_unit(str *rest) {
    enum { LONGEST = 60 };
    str all = *rest, word = str_cut(rest, ' ');
    if (str_is(word, "|")) {
        str next = cut_unit(rest);
        return (str){word.data, (size_t)(next.data + next.length - word.data)};
    }
    int depth = 0;
    for (str after = all; after.length;) {
        str part = str_cut(&after, ' ');
        bool opens =
            part.length == 1 && (*part.data == '(' || *part.data == '[' || *part.data == '{');
        bool closes =
            part.length == 1 && (*part.data == ')' || *part.data == ']' || *part.data == '}');
        depth += opens - closes;
        str unit = {all.data, (size_t)(part.data + part.length - all.data)};
        if (unit.length > LONGEST) return word;
        if (depth > 0) continue;
        *rest = after;
        return unit;
    }
    return word;
}

static void print_ebnf_rule(const grammar_rule *rule, text_buffer *out) {
    size_t column = NAME_WIDTH + 3;
    text_format(out, "%-*.*s =", NAME_WIDTH, STR_ARGS(rule->name));
    str rest = rule->definition;
    while (rest.length) {
        str unit = cut_unit(&rest);
        if (column + 1 + unit.length + 2 > LINE_WIDTH) {
            text_add_z(out, "\n");
            text_repeat(out, ' ', NAME_WIDTH + 2);
            column = NAME_WIDTH + 2;
        }
        text_format(out, " %.*s", STR_ARGS(unit));
        column += 1 + unit.length;
    }
    text_add_z(out, " ;\n");
}

/* --- GBNF ------------------------------------------------------------------------------------- */

/* GBNF works on characters: spaces are part of it. Between two words stands 'sp', elsewhere 'gap'.
 */
static const char *separator(const grammar *g, const grammar_node *sequence, int before, int next) {
    bool ends_with_word = false;
    for (int i = before; i >= 0; i--) {
        ends_with_word |= grammar_can_end_with_word(g, sequence->items[i]);
        if (!grammar_can_be_empty(g, sequence->items[i])) break;
    }
    const grammar_node *item = sequence->items[next];
    bool is_line_end = item->kind == GRAMMAR_TOKEN && str_is(item->text, "NEWLINE");
    if (is_line_end) return "";
    return ends_with_word && grammar_can_begin_with_word(g, item) ? "sp " : "gap ";
}

static bool ends_line(const grammar *g, const grammar_node *node) {
    switch (node->kind) {
    case GRAMMAR_TOKEN: return str_is(node->text, "NEWLINE");
    case GRAMMAR_RULE: return ends_line(g, g->rules[node->rule].body);
    case GRAMMAR_WORD: return false;
    default: return ends_line(g, node->items[node->count - 1]);
    }
}

static void print_gbnf_name(str name, text_buffer *out) {
    for (size_t i = 0; i < name.length; i++) {
        char c = name.data[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        text_add(out, (str){c == '_' ? "-" : &c, 1});
    }
}

static void print_gbnf(const grammar *g, const grammar_node *node, text_buffer *out);

static void print_gbnf_sequence(const grammar *g, const grammar_node *node, text_buffer *out) {
    bool has_started = false;
    for (int i = 0; i < node->count; i++) {
        const grammar_node *item = node->items[i];
        bool is_optional = item->kind == GRAMMAR_OPTION || item->kind == GRAMMAR_REPEAT;
        const char *mark = item->kind == GRAMMAR_OPTION ? "?" : "*";
        if (i) text_add_z(out, " ");
        const char *gap = "";
        if (has_started && !ends_line(g, node->items[i - 1])) gap = separator(g, node, i - 1, i);
        if (!is_optional) {
            text_add_z(out, gap);
            bool in_brackets = item->kind == GRAMMAR_CHOICE;
            if (in_brackets) text_add_z(out, "(");
            print_gbnf(g, item, out);
            if (in_brackets) text_add_z(out, ")");
            has_started = true;
            continue;
        }
        text_format(out, "(%s", gap);
        bool is_choice = item->items[0]->kind == GRAMMAR_CHOICE && *gap;
        if (is_choice) text_add_z(out, "(");
        print_gbnf(g, item->items[0], out);
        if (is_choice) text_add_z(out, ")");
        bool leads = !has_started && !ends_line(g, item) && i + 1 < node->count;
        if (leads) text_format(out, " %s", str_trim(str_from(separator(g, node, i, i + 1))).data);
        text_format(out, ")%s", mark);
    }
}

static void print_gbnf(const grammar *g, const grammar_node *node, text_buffer *out) {
    switch (node->kind) {
    case GRAMMAR_WORD: text_format(out, "\"%.*s\"", STR_ARGS(node->text)); break;
    case GRAMMAR_RULE:
    case GRAMMAR_TOKEN: print_gbnf_name(node->text, out); break;
    case GRAMMAR_SEQUENCE: print_gbnf_sequence(g, node, out); break;
    case GRAMMAR_CHOICE:
        for (int i = 0; i < node->count; i++) {
            if (i) text_add_z(out, " | ");
            print_gbnf(g, node->items[i], out);
        }
        break;
    case GRAMMAR_OPTION:
    case GRAMMAR_REPEAT: {
        grammar_node alone = {
            .kind = GRAMMAR_SEQUENCE, .items = (grammar_node *[]){NULL}, .count = 1};
        alone.items[0] = (grammar_node *)node;
        print_gbnf_sequence(g, &alone, out);
        break;
    }
    }
}

static void print_all_gbnf(const grammar *g, text_buffer *out) {
    text_add_z(out, "root ::= line-break? gap program\n");
    for (int i = 0; i < g->count; i++) {
        print_gbnf_name(g->rules[i].name, out);
        text_add_z(out, " ::= ");
        print_gbnf(g, g->rules[i].body, out);
        text_add_z(out, "\n");
    }
    text_add_z(out, "name ::= [A-Za-z_] [A-Za-z0-9_]*\n"
                    "integer ::= [0-9]+\n"
                    "number ::= [0-9]+ \".\" [0-9]+ exponent? | [0-9]+ exponent\n"
                    "exponent ::= [eE] [-+]? [0-9]+\n"
                    "sp ::= \" \"+\n"
                    "gap ::= \" \"*\n"
                    "comment ::= \"//\" [^\\n]*\n"
                    "line-break ::= (gap comment? \"\\n\")+\n"
                    "newline ::= line-break gap\n");
}

/* --- Lark ------------------------------------------------------------------------------------- */

static void print_lark(const grammar_node *node, bool in_brackets, text_buffer *out) {
    const char *open = "", *between = " ", *close = "";
    switch (node->kind) {
    case GRAMMAR_WORD: text_format(out, "\"%.*s\"", STR_ARGS(node->text)); return;
    case GRAMMAR_RULE:
        /* Rules named like words of Lark or of Python are left as they are: Lark allows them. */
    case GRAMMAR_TOKEN: text_add(out, node->text); return;
    case GRAMMAR_SEQUENCE: break;
    case GRAMMAR_CHOICE:
        between = " | ";
        if (in_brackets) open = "(", close = ")";
        break;
    case GRAMMAR_OPTION: open = "(", close = ")?"; break;
    case GRAMMAR_REPEAT: open = "(", close = ")*"; break;
    }
    bool inner_brackets = node->kind == GRAMMAR_SEQUENCE;
    text_add_z(out, open);
    for (int i = 0; i < node->count; i++) {
        if (i) text_add_z(out, between);
        print_lark(node->items[i], inner_brackets, out);
    }
    text_add_z(out, close);
}

static void print_all_lark(const grammar *g, text_buffer *out) {
    text_add_z(out, "// For Lark's Earley parser.\nstart: NEWLINE? program\n");
    for (int i = 0; i < g->count; i++) {
        text_format(out, "%.*s: ", STR_ARGS(g->rules[i].name));
        print_lark(g->rules[i].body, false, out);
        text_add_z(out, "\n");
    }
    text_add_z(out, "NAME: /[A-Za-z_][A-Za-z0-9_]*/\n"
                    "INTEGER: /[0-9]+/\n"
                    "NUMBER: /[0-9]+(\\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)/\n"
                    "NEWLINE: /([ \\t]*(\\/\\/[^\\n]*)?\\r?\\n)+/\n"
                    "%ignore /[ \\t]+/\n");
}

void tl_grammar_print(tl_grammar_format format, text_buffer *out) {
    enum { MEMORY_BYTES_MAX = 1 << 20 };
    arena memory;
    jmp_buf exhausted;
    arena_init(&memory, MEMORY_BYTES_MAX);
    if (setjmp(exhausted)) {
        out->failed = true;
    } else {
        memory.on_exhausted = &exhausted;
        grammar g = grammar_read(&memory);
        for (int i = 0; i < g.count && format == TL_GRAMMAR_EBNF; i++)
            print_ebnf_rule(&g.rules[i], out);
        if (format == TL_GRAMMAR_GBNF) print_all_gbnf(&g, out);
        if (format == TL_GRAMMAR_LARK) print_all_lark(&g, out);
    }
    arena_done(&memory);
}
