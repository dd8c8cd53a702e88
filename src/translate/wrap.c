/* Long lines of the finished text, broken as a person would: a comment between words, code where
 * its parentheses are the fewest.
 */
#include "translate/emit.h"

#include <limits.h>
#include <string.h>

enum { WIDTH = 120, CONTINUED = 4 };

static const str comment_mark = {"// ", 3};

/* Where a comment may be broken: the last space that leaves a line of 'most' characters. */
static size_t space_before(str words, size_t most) {
    for (size_t i = most; i > 0; i--)
        if (words.data[i] == ' ') return i;
    return 0;
}

static void put_comment(str words, size_t indent, text_buffer *out) {
    const char *mark = "// ";
    for (;;) {
        size_t most = WIDTH - indent - strlen(mark);
        size_t end = words.length > most ? space_before(words, most) : 0;
        text_format(out, "%*s%s%.*s\n", (int)indent, "", mark, (int)(end ? end : words.length),
                    words.data);
        if (!end) return;
        words = (str){words.data + end + 1, words.length - end - 1};
        mark = "//     ";
    }
}

/* How well a line ends before this character, or before the space that it is: the smaller the
 * better, 0 after a comma; negative: it may not.
 */
static int joint_at(str code, size_t at) {
    static const char *const signs[] = {" ? ", " : ",  " + ", " && ", " || ", " | ", " = ",
                                        " < ", " <= ", " > ", " >= ", " * ",  " / "};
    enum { AFTER_COMMA = 0, BEFORE_SIGN = 1, FIRST_WEAK = 7, WEAK = 1000 };
    str rest = {code.data + at, code.length - at};
    if (!at || code.data[at] != ' ') return -1;
    if (code.data[at - 1] == ',') return AFTER_COMMA;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (str_starts(rest, str_from(signs[i]))) return i < FIRST_WEAK ? BEFORE_SIGN : WEAK;
    return -1;
}

/* 1 where parentheses open, the brackets of a template's arguments among them; -1 where they close.
 */
static int nesting(str code, size_t at) {
    char c = code.data[at];
    bool is_open = c == '<' && at && str_is_word(code.data[at - 1]);
    bool is_close = c == '>' && at + 1 < code.length && code.data[at + 1] == '(';
    return (c == '(' || c == '[' || c == '{' || is_open) -
           (c == ')' || c == ']' || c == '}' || is_close);
}

/* The last place among those inside the fewest parentheses, after a comma there if there is one; 0:
 * there is none.
 */
static size_t joint_before(str code, size_t most) {
    size_t best = 0;
    int depth = 0, fewest = INT_MAX;
    for (size_t i = 0; i < code.length && i <= most; i++) {
        depth += nesting(code, i);
        int joint = joint_at(code, i);
        if (joint >= 0 && 2 * depth + joint <= fewest) best = i, fewest = 2 * depth + joint;
    }
    return best;
}

static void put_code(str code, size_t indent, text_buffer *out) {
    for (size_t most = WIDTH - indent;; most = WIDTH - indent - CONTINUED) {
        size_t end = code.length > most ? joint_before(code, most) : 0;
        size_t here = most == WIDTH - indent ? indent : indent + CONTINUED;
        text_format(out, "%*s%.*s\n", (int)here, "", (int)(end ? end : code.length), code.data);
        if (!end) return;
        code = (str){code.data + end + 1, code.length - end - 1};
    }
}

/* A comment after code goes before it. */
static str without_comment(str code, str *comment) {
    for (size_t i = 1; i + comment_mark.length <= code.length; i++) {
        str rest = {code.data + i, code.length - i};
        if (code.data[i - 1] != ' ' || !str_starts(rest, comment_mark)) continue;
        *comment = (str){rest.data + comment_mark.length, rest.length - comment_mark.length};
        return str_trim((str){code.data, i});
    }
    *comment = (str){0};
    return code;
}

static void put_line(str line, text_buffer *out) {
    str text = str_trim(line), comment;
    if (line.length <= WIDTH || text.data[0] == '#') {
        text_format(out, "%.*s\n", STR_ARGS(line));
        return;
    }
    size_t indent = (size_t)(text.data - line.data);
    if (str_starts(text, comment_mark)) {
        str words = {text.data + comment_mark.length, text.length - comment_mark.length};
        put_comment(words, indent, out);
        return;
    }
    text = without_comment(text, &comment);
    if (comment.length) put_comment(comment, indent, out);
    put_code(text, indent, out);
}

void emit_wrapped(str text, text_buffer *out) {
    while (text.length) put_line(str_cut(&text, '\n'), out);
}
