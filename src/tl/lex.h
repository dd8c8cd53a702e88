/* Tokens of TL.
 *
 * The lexer knows lines: it decides where a statement ends (a line break, unless a bracket is open
 * or the line's last word cannot end one) and takes comments out of the way, so that the parser
 * sees statements only. It never reports anything: what is no token becomes LEX_BAD.
 */
#ifndef FLASHTL_TL_LEX_H
#define FLASHTL_TL_LEX_H

#include "base/text.h"

typedef enum lex_kind {
    LEX_END,
    LEX_NEWLINE,      /* the end of a statement; 'comment' is what stood after it */
    LEX_BLANK,        /* an empty line between statements */
    LEX_COMMENT_LINE, /* a comment on a line of its own, between statements */
    LEX_WORD,
    LEX_INTEGER,
    LEX_NUMBER,
    LEX_BAD, /* bytes that begin no token */
    LEX_ELLIPSIS,
    LEX_LESS_EQUAL,
    LEX_GREATER_EQUAL,
    LEX_EQUAL,
    LEX_NOT_EQUAL,
    /* Tokens of one character are that character. */
    LEX_CHARACTERS = 32
} lex_kind;

typedef struct lex_token {
    int kind; /* lex_kind, or the character */
    uint32_t begin, end;
    int comment;         /* NEWLINE, COMMENT_LINE: index into lex_tokens.comments; -1: none */
    bool continues_line; /* first on its line, in a statement that began above */
} lex_token;

typedef struct lex_tokens {
    lex_token *items; /* the last one is LEX_END */
    int count;
    str *comments; /* without "//", trimmed */
} lex_tokens;

lex_tokens lex_read(arena *memory, str source);

/* Equality of words as the reader sees them: in any case. */
bool lex_same_word(str a, const char *word);

/* True for the words that begin statements, in any case: Copy, for, kernel, end ... */
bool lex_starts_statement(str word);

#endif
