/* The tokens of a kernel's text, as far as device_arrays.c has to know them. */
#ifndef FLASHTL_THINK_DEVICE_TOKENS_H
#define FLASHTL_THINK_DEVICE_TOKENS_H

#include "base/arena.h"
#include "base/text.h"

#include <string.h>

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_SIGN } token_kind;

/* What the language's own words do. */
enum {
    WORD_JUMP = 1,
    WORD_NO_TYPE = 2,
    WORD_TYPE = 4,
    WORD_CONSTANT = 8,
    WORD_KEPT = 16,
    WORD_PLAIN = 32,
    WORD_INDEX = 64
};

typedef struct token {
    token_kind kind;
    int name; /* the same for the same text, from 0; of signs and numbers -1 */
    str text;
} token;

typedef struct token_list {
    token *items;
    int count, capacity;
    int name_count;
    bool *is_of_macro; /* by name: a #define speaks of it */
    uint8_t *meanings; /* by name */
} token_list;

/* Comments, blanks and directives are left out; the last token is TOKEN_END. */
void device_tokens_read(arena *memory, str text, token_list *tokens);

static inline bool token_is_bytes(const token *t, const char *text, size_t length) {
    return t->text.length == length && memcmp(t->text.data, text, length) == 0;
}

static inline bool token_means(const token_list *tokens, const token *t, int meaning) {
    return t->name >= 0 && (tokens->meanings[t->name] & meaning) != 0;
}

/* 'text' is a literal: this is asked for every token, time and again. */
#define token_is(t, text) token_is_bytes((t), "" text, sizeof(text) - 1)

#endif
