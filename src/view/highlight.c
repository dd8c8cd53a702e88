#include "view/highlight.h"
#include "tl/lex.h"
#include "tl/tree.h"

#include <ctype.h>
#include <string.h>

/* Classes: k a word that begins statements or is the language's own, o an operation or instruction,
 * t a type, n a number, c a comment, f a function of ours, d a directive, r a register.
 */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static void mark(char *classes, size_t begin, size_t end, char class) {
    memset(classes + begin, class, end - begin);
}

/* --- TL: by the language's own lexer ---------------------------------------------------------- */

static bool is_type(str word) {
    static const tl_type types[] = {
#define TYPE(id, spelling, number, bits, kind, doc) TL_##id,
#include "base/types.def"
#undef TYPE
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(word, tl_type_name(types[i]))) return true;
    return false;
}

static char class_of(const lex_token *token, str word) {
    static const char *const own[] = {"from", "to",  "get",   "and",  "or",   "not", "where",
                                      "in",   "by",  "with",  "of",   "as",   "for", "grid",
                                      "if",   "end", "async", "role", "turns"};
    if (token->kind == LEX_INTEGER || token->kind == LEX_NUMBER) return 'n';
    if (token->kind != LEX_WORD) return ' ';
    if (lex_starts_statement(word)) return 'k';
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (lex_same_word(word, own[i])) return 'k';
    if (tl_operation_named(word) != TL_OPERATION_UNKNOWN) return 'o';
    return is_type(word) ? 't' : ' ';
}

/* What the lexer took out of the way is a comment. */
static void mark_comments(char *classes, str text, size_t begin, size_t end) {
    for (size_t i = begin; i + 1 < end; i++) {
        if (text.data[i] != '/' || text.data[i + 1] != '/') continue;
        size_t last = i;
        while (last < end && text.data[last] != '\n') last++;
        mark(classes, i, last, 'c');
        i = last;
    }
}

static void mark_tl(arena *memory, char *classes, str text) {
    lex_tokens tokens = lex_read(memory, text);
    size_t at = 0;
    for (int i = 0; i < tokens.count; i++) {
        const lex_token *token = &tokens.items[i];
        bool is_there = token->begin >= at && token->end > token->begin;
        if (token->kind == LEX_NEWLINE || token->kind == LEX_BLANK ||
            token->kind == LEX_COMMENT_LINE || !is_there)
            continue;
        mark_comments(classes, text, at, token->begin);
        str word = {text.data + token->begin, token->end - token->begin};
        mark(classes, token->begin, token->end, class_of(token, word));
        at = token->end;
    }
    mark_comments(classes, text, at, text.length);
}

/* --- CUDA and PTX ----------------------------------------------------------------------------- */

static char class_of_cuda(str word) {
    static const char *const own[] = {
        "if",       "else",  "for",      "while",      "return",     "const",     "constexpr",
        "struct",   "enum",  "template", "typename",   "namespace",  "static",    "extern",
        "asm",      "auto",  "break",    "do",         "__global__", "inline",    "__device__",
        "volatile", "using", "continue", "FTL_UNROLL", "FTL_INLINE", "__shared__"};
    static const char *const types[] = {"int",  "unsigned", "float", "long",
                                        "bool", "void",     "char",  "short"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (str_is(word, own[i])) return 'k';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(word, types[i])) return 't';
    return str_starts(word, STR("ftl_")) ? 'f' : ' ';
}

static size_t end_of_word(str text, size_t at, bool takes_dots) {
    while (at < text.length && (is_word(text.data[at]) || (takes_dots && text.data[at] == '.') ||
                                (takes_dots && text.data[at] == ':')))
        at++;
    return at;
}

static size_t end_of_line(str text, size_t at) {
    while (at < text.length && text.data[at] != '\n') at++;
    return at;
}

static size_t end_of_string(str text, size_t at) {
    for (at++; at < text.length && text.data[at] != '"' && text.data[at] != '\n'; at++)
        if (text.data[at] == '\\') at++;
    return at < text.length ? at + 1 : text.length;
}

/* One word or sign; where it ends. */
static size_t mark_word(char *classes, str text, size_t at, bool is_first, bool is_ptx) {
    char c = text.data[at];
    size_t end = at + 1;
    if (c == '/' && at + 1 < text.length && text.data[at + 1] == '/') {
        end = end_of_line(text, at);
        mark(classes, at, end, 'c');
    } else if (c == '#' && is_first) {
        end = end_of_line(text, at);
        mark(classes, at, end, 'd');
    } else if (c == '"') {
        end = end_of_string(text, at);
        mark(classes, at, end, 's');
    } else if (is_ptx && (c == '.' || c == '%')) {
        end = end_of_word(text, end, true);
        mark(classes, at, end, c == '.' ? 'd' : 'r');
    } else if (isdigit((unsigned char)c)) {
        end = end_of_word(text, at, true);
        mark(classes, at, end, 'n');
    } else if (is_word(c)) {
        end = end_of_word(text, at, is_ptx);
        str word = {text.data + at, end - at};
        mark(classes, at, end, is_ptx ? (is_first ? 'o' : ' ') : class_of_cuda(word));
    }
    return end;
}

static void mark_c(char *classes, str text, bool is_ptx) {
    bool is_first = true, is_guard = false; /* what follows `@%p` begins the line anew */
    for (size_t at = 0; at < text.length;) {
        char c = text.data[at];
        bool is_mark = is_ptx && is_first && (c == '@' || (is_guard && c == '!'));
        if (c == '\n') is_first = true, is_guard = false;
        if (is_mark) is_guard = true;
        if (is_mark || c == ' ' || c == '\t' || c == '\n') {
            at++;
            continue;
        }
        at = mark_word(classes, text, at, is_first, is_ptx);
        is_first = is_guard;
        is_guard = false;
    }
}

const char *view_classes(arena *memory, str text, view_language language) {
    char *classes = arena_array(memory, char, text.length + 1);
    mark(classes, 0, text.length, ' ');
    if (language == VIEW_TL) mark_tl(memory, classes, text);
    else mark_c(classes, text, language == VIEW_PTX);
    return classes;
}

/* --- as HTML ---------------------------------------------------------------------------------- */

void view_add_line(text_buffer *out, str line, const char *classes) {
    for (size_t i = 0; i < line.length;) {
        size_t end = i;
        char class = classes ? classes[i] : ' ';
        while (end < line.length && (!classes || classes[end] == class)) end++;
        if (class != ' ') text_format(out, "<i class=%c>", class);
        text_add_html(out, (str){line.data + i, end - i});
        if (class != ' ') text_add_z(out, "</i>");
        i = end;
    }
}
