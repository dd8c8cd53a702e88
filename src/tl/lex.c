#include "tl/lex.h"

#include <string.h>

typedef struct lexer {
    arena *memory;
    str source;
    uint32_t at;
    LIST(lex_token) tokens;
    LIST(str) comments;
    int open_brackets;
    int statement_start;    /* index of the first token of the current statement */
    int comment;            /* of the current statement so far; -1 */
    bool line_has_anything; /* a token or a comment */
    bool is_continued;      /* a line break was passed over since the last token */
} lexer;

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool lex_same_word(str a, const char *word) {
    size_t i = 0;
    for (; i < a.length && word[i]; i++) {
        if (lower(a.data[i]) != lower(word[i])) return false;
    }
    return i == a.length && !word[i];
}

static bool is_one_of(str word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (lex_same_word(word, words[i])) return true;
    }
    return false;
}

bool lex_starts_statement(str word) {
    static const char *const words[] = {
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
        "kernel", "end"};
    return is_one_of(word, words, sizeof words / sizeof *words);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_part(char c) {
    return is_name_start(c) || is_digit(c);
}

/* The byte 'ahead' of the current one; NUL past the end. */
static char peek(const lexer *l, uint32_t ahead) {
    size_t at = (size_t)l->at + ahead;
    return at < l->source.length ? l->source.data[at] : 0;
}

/* Whether a statement may end with this token. A trailing ':' may: it opens a body. */
static bool can_end(const lexer *l, lex_token t) {
    static const char *const open_words[] = {"and", "get", "accumulate", "with",  "from",
                                             "to",  "in",  "of",         "where", "by",
                                             "as",  "or",  "not"};
    if (t.kind == LEX_WORD) {
        return !is_one_of((str){l->source.data + t.begin, t.end - t.begin}, open_words,
                          sizeof open_words / sizeof *open_words);
    }
    if (t.kind >= LEX_LESS_EQUAL && t.kind <= LEX_NOT_EQUAL) return false;
    return t.kind < LEX_CHARACTERS || !strchr("=,;+-*/%<>", t.kind);
}

static void push(lexer *l, int kind, uint32_t begin, uint32_t end, int comment) {
    list_push(l->memory, &l->tokens, ((lex_token){kind, begin, end, comment, false}));
}

static bool in_statement(const lexer *l) {
    return l->tokens.count > l->statement_start;
}

static void end_statement(lexer *l) {
    uint32_t end = l->tokens.items[l->tokens.count - 1].end;
    push(l, LEX_NEWLINE, end, end, l->comment);
    l->statement_start = l->tokens.count;
    l->comment = -1;
    l->open_brackets = 0;
    l->is_continued = false;
}

static void push_token(lexer *l, int kind, uint32_t begin) {
    str text = {l->source.data + begin, l->at - begin};
    /* An open bracket must not swallow the rest of the program. */
    if (l->is_continued && kind == LEX_WORD && lex_starts_statement(text)) end_statement(l);
    push(l, kind, begin, l->at, -1);
    l->tokens.items[l->tokens.count - 1].continues_line = l->is_continued;
    l->is_continued = false;
    l->line_has_anything = true;
    if (kind == '(' || kind == '[') l->open_brackets++;
    if ((kind == ')' || kind == ']') && l->open_brackets) l->open_brackets--;
}

static void read_line_break(lexer *l) {
    if (in_statement(l)) {
        lex_token last = l->tokens.items[l->tokens.count - 1];
        if (l->open_brackets || !can_end(l, last)) l->is_continued = true;
        else end_statement(l);
    } else if (!l->line_has_anything) {
        push(l, LEX_BLANK, l->at, l->at, -1);
        l->statement_start = l->tokens.count;
    }
    l->line_has_anything = false;
    l->at++;
}

/* Where a comment ends: with its line, or before a control character, which no text has: comments
 * go into every text that is made of this one.
 */
static uint32_t end_of_comment(const lexer *l) {
    uint32_t at = l->at;
    while (at < l->source.length && l->source.data[at] != '\n') {
        str rest = {l->source.data + at, l->source.length - at};
        unsigned char c = (unsigned char)*rest.data;
        bool is_control = c < 32 || c == 127 || (c == 0xc2 && !str_plain_bytes(rest));
        if (is_control && c != '\t' && c != '\r') break;
        at++;
    }
    return at;
}

static void read_comment(lexer *l) {
    uint32_t begin = l->at;
    l->at = end_of_comment(l);
    str text = str_trim((str){l->source.data + begin + 2, l->at - begin - 2});
    l->line_has_anything = true;
    if (!in_statement(l)) {
        list_push(l->memory, &l->comments, text);
        push(l, LEX_COMMENT_LINE, begin, l->at, l->comments.count - 1);
        l->statement_start = l->tokens.count;
    } else if (l->comment < 0) {
        list_push(l->memory, &l->comments, text);
        l->comment = l->comments.count - 1;
    } else if (text.length) { /* a statement over several lines has one comment */
        str *joined = &l->comments.items[l->comment];
        if (joined->length + text.length < 4096) {
            *joined = str_format(l->memory, "%.*s%s%.*s", STR_ARGS(*joined),
                                 joined->length ? " " : "", STR_ARGS(text));
        }
    }
}

static void skip_digits(lexer *l) {
    while (is_digit(peek(l, 0))) l->at++;
}

static void read_number(lexer *l) {
    uint32_t begin = l->at;
    int kind = LEX_INTEGER;
    skip_digits(l);
    /* A misread O_x: optical readers and models make '0' of the letter. */
    bool is_misread_name = l->at == begin + 1 && l->source.data[begin] == '0' &&
                           peek(l, 0) == '_' && is_name_start(peek(l, 1));
    if (is_misread_name) {
        while (is_name_part(peek(l, 0))) l->at++;
        push_token(l, LEX_WORD, begin);
        return;
    }
    if (peek(l, 0) == '.' && peek(l, 1) != '.' && !is_name_start(peek(l, 1))) {
        kind = LEX_NUMBER;
        l->at++;
        skip_digits(l);
    }
    uint32_t sign = peek(l, 1) == '+' || peek(l, 1) == '-' ? 1 : 0;
    if (lower(peek(l, 0)) == 'e' && is_digit(peek(l, 1 + sign))) {
        kind = LEX_NUMBER;
        l->at += 1 + sign;
        skip_digits(l);
    }
    if (is_name_part(peek(l, 0))) kind = LEX_BAD;
    while (is_name_part(peek(l, 0))) l->at++;
    push_token(l, kind, begin);
}

static void read_sign(lexer *l) {
    static const struct {
        char text[4];
        int kind;
    } signs[] = {{"...", LEX_ELLIPSIS}, {"\xe2\x80\xa6", LEX_ELLIPSIS}, {"<=", LEX_LESS_EQUAL},
                 {"==", LEX_EQUAL},     {">=", LEX_GREATER_EQUAL},      {"!=", LEX_NOT_EQUAL}};
    uint32_t begin = l->at;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        str rest = {l->source.data + begin, l->source.length - begin};
        str text = str_from(signs[i].text);
        if (!str_starts(rest, text)) continue;
        l->at += (uint32_t)text.length;
        push_token(l, signs[i].kind, begin);
        return;
    }
    char c = peek(l, 0);
    if (c && strchr("()[],;:.=<>+-*/%", c)) {
        l->at++;
        push_token(l, c, begin);
    } else { /* up to what may begin a token */
        do l->at++, c = peek(l, 0);
        while (l->at < l->source.length && !is_name_part(c) &&
               !(c && strchr(" \t\r\n()[],;:.=<>+-*/%!", c)));
        push_token(l, LEX_BAD, begin);
    }
}

static void read_one(lexer *l) {
    char c = peek(l, 0);
    if (c == '\n') {
        read_line_break(l);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        l->at++;
    } else if (c == '/' && peek(l, 1) == '/') {
        read_comment(l);
    } else if (is_digit(c) || (c == '.' && is_digit(peek(l, 1)))) {
        read_number(l);
    } else if (is_name_start(c)) {
        uint32_t begin = l->at;
        while (is_name_part(peek(l, 0))) l->at++;
        push_token(l, LEX_WORD, begin);
    } else {
        read_sign(l);
    }
}

lex_tokens lex_read(arena *memory, str source) {
    lexer l = {.memory = memory, .source = source, .comment = -1};
    if (str_starts(source, STR("\xef\xbb\xbf"))) l.at = 3;
    while (l.at < source.length) read_one(&l);
    if (in_statement(&l)) end_statement(&l);
    push(&l, LEX_END, l.at, l.at, -1);
    return (lex_tokens){l.tokens.items, l.tokens.count, l.comments.items};
}
