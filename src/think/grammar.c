/* Grammars of answers: the language's own, cut down to the step and to the task's names, so that a
 * decoder that keeps to it cannot name what is not there.
 */
#include "think/prompt.h"

#include <stdio.h>
#include <string.h>

typedef struct replacement {
    const char *rule, *gbnf, *lark;
} replacement;

/* A sketch has no layout, wait, role, shape or instruction; its Copies go to the chip or leave it.
 */
static const replacement sketch_rules[] = {
    {"block", "(let | action)+ \"end\" newline", "(let | action)+ \"end\" NEWLINE"},
    {"kernel", "\"kernel\" sp name newline", "\"kernel\" NAME NEWLINE"},
    {"declaration", "input | let", "input | let"},
    {"action", "for | if | copy | compute", "for | if | copy | compute"},
    {"for", "\"for\" sp name gap \"=\" gap expr gap \":\" gap expr newline block",
     "\"for\" NAME \"=\" expr \":\" expr NEWLINE block"},
    {"copy",
     "\"Copy\" sp name sp (\"from global to shared\" | \"from global to register\" | \"from "
     "register "
     "to global\") (sp target)? newline",
     "\"Copy\" NAME (\"from\" \"global\" \"to\" (\"shared\" | \"register\") | \"from\" "
     "\"register\" "
     "\"to\" \"global\") target? NEWLINE"},
    {"compute", "\"Compute\" sp (formula sp target | change) newline",
     "\"Compute\" (formula target | change) NEWLINE"},
    {"formula",
     "unary-operation sp operand | binary-operation sp operand gap \",\" gap operand | "
     "ternary-operation sp operand gap \",\" gap operand gap \",\" gap operand",
     "unary_operation operand | binary_operation operand \",\" operand | ternary_operation operand "
     "\",\" operand \",\" operand"},
    {"change",
     "\"Mask\" sp name (gap \",\" gap operand)? sp \"where\" sp cond | \"Softmax\" sp name (sp "
     "\"with\" sp name sp \"and\" sp name)?",
     "\"Mask\" NAME (\",\" operand)? \"where\" cond | \"Softmax\" NAME (\"with\" NAME \"and\" "
     "NAME)?"},
};

/* TL Code has no hole and no Softmax; a product's right operand is in shared memory or a fragment,
 * its left one too, and it names its instruction.
 */
static const replacement code_rules[] = {
    {"action", "role | for | if | copy | compute | reshape | wait | release",
     "role | for | if | copy | compute | reshape | wait | release"},
    {"compute",
     "\"Compute\" sp (product | formula sp target | change) (sp \"async\")? newline\n"
     "product ::= \"GEMM\" sp name \".T\"? gap \",\" gap name \".T\"? sp target sp \"by\" sp atom\n"
     "atom ::= \"m16n8k8\" | \"m16n8k16\" | \"m64n\" integer \"k16\"",
     "\"Compute\" (product | formula target | change) \"async\"? NEWLINE\n"
     "product: \"GEMM\" NAME (\".\" \"T\")? \",\" NAME (\".\" \"T\")? target \"by\" atom\n"
     "atom: \"m16n8k8\" | \"m16n8k16\" | /m64n[0-9]+k16/"},
    {"change", "\"Mask\" sp name (gap \",\" gap operand)? (sp place)? sp \"where\" sp cond",
     "\"Mask\" NAME (\",\" operand)? place? \"where\" cond"},
    {"binding", "other (gap axes)? gap \"=\" gap expr", "NAME axes? \"=\" expr"},
    {"let",
     "\"let\" sp (tile gap \"=\" gap length | binding) (gap \",\" gap (tile gap \"=\" gap length | "
     "binding))* newline\n"
     "tile ::= \"BM\" | \"BN\" | \"BK\"\n"
     "length ::= \"16\" | \"32\" | \"48\" | \"64\" | \"80\" | \"96\" | \"112\" | \"128\" | \"192\" "
     "| \"256\"",
     "\"let\" (tile \"=\" length | binding) (\",\" (tile \"=\" length | binding))* NEWLINE\n"
     "tile: \"BM\" | \"BN\" | \"BK\"\n"
     "length: \"16\" | \"32\" | \"48\" | \"64\" | \"80\" | \"96\" | \"112\" | \"128\" | \"192\" | "
     "\"256\""},
};

/* --- names ------------------------------------------------------------------------------------ */

enum { NAMES_MAX = 96 };

static void add_name(str *names, int *count, str name) {
    for (int i = 0; i < *count; i++) {
        if (str_equal(names[i], name)) return;
    }
    if (*count < NAMES_MAX) names[(*count)++] = name;
}

/* Words of the language are no names. */
static bool is_language(str word) {
    static const char *const words[] = {
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
#define OPERATION(id, spelling, operands, shape, doc, ...) spelling,
#include "tl/operations.def"
#undef OPERATION
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
        "kernel", "end",      "from", "to", "get",   "accumulate", "with",      "and",
        "or",     "not",      "in",   "of", "by",    "as",         "where",     "global",
        "shared", "register", "T",    "L",  "async", "place",      "coordinate"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is(word, words[i])) return true;
    }
    return false;
}

/* The names of a text, and those that TL Code usually has beside them. */
static int find_names(str text, str names[NAMES_MAX]) {
    static const char *const usual[] = {
        "S",        "P",       "m",      "l",       "alpha",     "shift",        "part",     "c",
        "j",        "tile",    "blocks", "full",    "offset",    "first",        "math",     "load",
        "BM",       "BN",      "BK",     "q_block", "row_block", "column_block", "cp_async", "tma",
        "ldmatrix", "stmatrix"};
    int count = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        add_name(names, &count, str_from(usual[i]));
    for (size_t i = 0; i < text.length;) {
        if (text.data[i] == '/' && i + 1 < text.length && text.data[i + 1] == '/') {
            while (i < text.length && text.data[i] != '\n') i++;
            continue;
        }
        size_t begin = i;
        while (i < text.length && str_is_word(text.data[i])) i++;
        str word = {text.data + begin, i - begin};
        bool is_number = word.length && *word.data >= '0' && *word.data <= '9';
        if (word.length && !is_number && !is_language(word)) add_name(names, &count, word);
        if (i == begin) i++;
    }
    return count;
}

static bool is_tile(str name) {
    return str_is(name, "BM") || str_is(name, "BN") || str_is(name, "BK");
}

static void add_bases(const str *names, int count, bool has_tiles, ftl_grammar_form form,
                      text_buffer *out) {
    bool is_first = true, is_gbnf = form == FTL_GBNF;
    for (int i = 0; i < count; i++) {
        if (is_tile(names[i]) && !has_tiles) continue;
        text_add_z(out, is_first ? "" : is_gbnf ? " | " : "|");
        text_format(out, is_gbnf ? "\"%.*s\"" : "%.*s", STR_ARGS(names[i]));
        is_first = false;
    }
}

/* A name of the sketch, or one that is derived from it: K_shared, m_old, S_2; or a new one in lower
 * case, as indices, numbers and vectors have. Tile sizes are no names to be defined at will.
 */
static void add_names_rule(const prompt_task *task, ftl_grammar_form form, text_buffer *out) {
    str names[NAMES_MAX];
    int count = find_names(str_from(task->sketch), names);
    if (form == FTL_LARK) {
        text_add_z(out, "NAME: /(");
        add_bases(names, count, true, form, out);
        text_add_z(out, ")(_[a-z0-9_]+)?|[a-z][a-z0-9_]*/\n");
        return;
    }
    text_add_z(out, "name ::= base (\"_\" [a-z0-9] [a-z0-9_]*)? | [a-z] [a-z0-9_]*\nbase ::= ");
    add_bases(names, count, true, form, out);
    text_add_z(out, "\nother ::= (");
    add_bases(names, count, false, form, out);
    text_add_z(out, ") (\"_\" [a-z0-9] [a-z0-9_]*)? | [a-z] [a-z0-9_]*\n");
}

/* --- rules ------------------------------------------------------------------------------------ */

/* The line without one of its words. */
static void add_without(str line, const char *word, text_buffer *out) {
    size_t length = strlen(word);
    for (size_t i = 0; i < line.length; i++) {
        bool is_here = i + length <= line.length && memcmp(line.data + i, word, length) == 0;
        if (is_here) i += length - 1;
        else text_add(out, (str){line.data + i, 1});
    }
    text_add_z(out, "\n");
}

/* The name of the rule that a line defines, as the tables have it; empty when it defines none. */
static str rule_of(str line, ftl_grammar_form form, char name[64]) {
    size_t length = 0;
    while (length < line.length && length < 63 &&
           (str_is_word(line.data[length]) || line.data[length] == '-')) {
        name[length] = line.data[length] == '-' ? '_' : line.data[length];
        length++;
    }
    str rest = {line.data + length, line.length - length};
    bool is_rule = length && str_starts(rest, form == FTL_GBNF ? STR(" ::=") : STR(":"));
    return (str){name, is_rule ? length : 0};
}

static const replacement *find_replacement(const prompt_task *task, str rule) {
    bool is_sketch = task->step == THINK_SKETCH;
    const replacement *rules = is_sketch ? sketch_rules : code_rules;
    size_t count = is_sketch ? sizeof sketch_rules / sizeof *sketch_rules
                             : sizeof code_rules / sizeof *code_rules;
    for (size_t i = 0; i < count; i++) {
        if (str_is(rule, rules[i].rule)) return &rules[i];
    }
    return NULL;
}

static void add_literal(text_buffer *out, str text) {
    text_add_z(out, "\"");
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (c == '\n') text_add_z(out, "\\n");
        else if (c == '"' || c == '\\') text_format(out, "\\%c", c);
        else text_add(out, (str){&c, 1});
    }
    text_add_z(out, "\"");
}

/* Parameters that were fixed are in the grammar as they are. */
static void add_program_rule(const prompt_task *task, ftl_grammar_form form, text_buffer *out) {
    bool is_gbnf = form == FTL_GBNF, is_sketch = task->step == THINK_SKETCH;
    bool is_fixed = is_gbnf && is_sketch && task->parameters && *task->parameters;
    text_add_z(out, is_gbnf ? "program ::= kernel " : "program: kernel ");
    if (is_fixed) {
        text_add_z(out, "let* ");
        add_literal(out, str_from(task->parameters));
        text_add_z(out, " line-break? let* action+\n");
    } else {
        text_add_z(out, is_sketch ? "declaration+ action+\n" : "declaration+ role+\n");
    }
}

static void add_kernel_rule(const prompt_task *task, ftl_grammar_form form, text_buffer *out) {
    const char *gpu = task->options->gpu ? task->options->gpu : "";
    if (form == FTL_GBNF)
        text_format(out, "kernel ::= \"kernel\" sp name \" for %s\" newline\n", gpu);
    else text_format(out, "kernel: \"kernel\" NAME \"for\" \"%s\" NEWLINE\n", gpu);
}

static void add_rule(const prompt_task *task, ftl_grammar_form form, str line, text_buffer *out) {
    char name[64];
    str rule = rule_of(line, form, name);
    bool is_gbnf = form == FTL_GBNF, is_code = task->step == THINK_REASON;
    const replacement *r = find_replacement(task, rule);
    if (str_is(rule, "root")) { /* thinking is free, the answer is fenced */
        text_add_z(out, "root ::= thinking \"```tl\\n\" gap program \"```\" \"\\n\"?\n"
                        "thinking ::= [^`]*\n");
    } else if (str_is(rule, "program")) {
        add_program_rule(task, form, out);
    } else if (str_is(rule, "kernel") && is_code) {
        add_kernel_rule(task, form, out);
    } else if ((str_is(rule, "name") || str_is(rule, "NAME")) && is_code && task->sketch) {
        add_names_rule(task, form, out);
    } else if (str_is(rule, "binary_operation") && is_code) { /* GEMM has a rule of its own */
        add_without(line, "\"GEMM\" | ", out);
    } else if (r) {
        size_t length = rule.length;
        text_format(out, "%.*s%s %s\n", (int)length, line.data, is_gbnf ? " ::=" : ":",
                    is_gbnf ? r->gbnf : r->lark);
    } else {
        text_format(out, "%.*s\n", STR_ARGS(line));
    }
}

/* --- what is left ----------------------------------------------------------------------------- */

enum { LINES_MAX = 200 };

typedef struct grammar_line {
    str text, name; /* name: of the rule, as it is spelled; empty for what is no rule */
    bool is_reached;
} grammar_line;

static bool is_rule_character(char c) {
    return str_is_word(c) || c == '-';
}

/* Marks the rules that a line's body names; literals, classes and patterns are passed over. */
static bool reach_from(grammar_line *lines, int count, const grammar_line *from) {
    bool has_reached = false;
    str body = {from->text.data + from->name.length, from->text.length - from->name.length};
    for (size_t i = 0; i < body.length;) {
        char c = body.data[i], close = c == '"' ? '"' : c == '[' ? ']' : c == '/' ? '/' : 0;
        if (close) {
            for (i++; i < body.length && body.data[i] != close; i++) i += body.data[i] == '\\';
            i++;
            continue;
        }
        size_t begin = i;
        while (i < body.length && is_rule_character(body.data[i])) i++;
        str word = {body.data + begin, i - begin};
        for (int k = 0; k < count && word.length; k++) {
            if (lines[k].is_reached || !str_equal(lines[k].name, word)) continue;
            lines[k].is_reached = has_reached = true;
        }
        if (i == begin) i++;
    }
    return has_reached;
}

/* Rules that nothing leads to any more are left out. */
static void add_reached(str whole, ftl_grammar_form form, text_buffer *out) {
    grammar_line lines[LINES_MAX];
    int count = 0;
    while (whole.length && count < LINES_MAX) {
        char name[64];
        str line = str_cut(&whole, '\n'), rule = rule_of(line, form, name);
        str spelled = {line.data, rule.length};
        bool is_root = str_is(spelled, "root") || str_is(spelled, "start");
        lines[count++] = (grammar_line){line, spelled, is_root || !rule.length};
    }
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int i = 0; i < count; i++)
            goes_on |= lines[i].is_reached && reach_from(lines, count, &lines[i]);
    }
    for (int i = 0; i < count; i++) {
        if (lines[i].is_reached) text_format(out, "%.*s\n", STR_ARGS(lines[i].text));
    }
}

ftl_status prompt_grammar(ftl_context *context, const prompt_task *task, ftl_grammar_form form,
                          text_buffer *out) {
    char *whole = NULL;
    if (task->step == THINK_TRANSLATE) return FTL_OK;
    ftl_status status = ftl_grammar(context, form, &whole);
    if (status) return status;
    text_buffer cut;
    text_init(&cut, PROMPT_BYTES_MAX);
    for (str rest = str_from(whole); rest.length;) add_rule(task, form, str_cut(&rest, '\n'), &cut);
    add_reached(text_str(&cut), form, out);
    bool is_whole = !cut.failed && !out->failed;
    text_done(&cut);
    ftl_free(whole);
    return is_whole ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
}
