/* Inside the parser: its state and what its files share.
 *
 * An error sets 'failed'; from then to the end of the statement nothing more is reported, tokens
 * are not consumed, and every function returns something well-formed. The statement is then
 * dropped.
 */
#ifndef FLASHTL_TL_PARSE_H
#define FLASHTL_TL_PARSE_H

#include "tl/lex.h"
#include "tl/tl.h"

enum {
    PARSE_EXPRESSION_NODES_MAX =
        1000,             /* bounds the depth of a tree, and so all recursion over it */
    PARSE_NAMES_MAX = 64, /* in one list */
};

typedef struct parser {
    arena *memory;
    str source;
    diag_list *diags;
    lex_tokens tokens;
    int at;
    bool failed;
    int resume_at;       /* token at which a new statement begins after this error; -1: by line */
    bool stopped;        /* past a limit: the rest is not read */
    bool without_ranges; /* quotations */
    int depth, node_count;
} parser;

/* parse_token.c */
lex_token parse_peek(const parser *p);
lex_token parse_peek_next(const parser *p);
void parse_advance(parser *p);
bool parse_at_line_end(const parser *p);
str parse_text(const parser *p, lex_token t);
bool parse_at(const parser *p, int kind);
bool parse_at_word(const parser *p, const char *word);
bool parse_next_is_word(const parser *p, const char *word);
bool parse_accept(parser *p, int kind);
bool parse_accept_word(parser *p, const char *word);
void parse_expect(parser *p, int kind); /* of one character */
void parse_expect_word(parser *p, const char *word);
diag_range parse_range(const parser *p, uint32_t begin); /* from 'begin' to the last token read */
diag_range parse_token_range(const parser *p, lex_token t);
void parse_fail(parser *p, const char *expected); /* "expected ..., found <this token>" */
/* The same, with a hint when the word here is close to one of 'words' (NULL ends them). */
void parse_fail_word(parser *p, const char *expected, const char *const *words);
/* parse_fail_id(p, DIAG_X, range, a, b): the arguments are str values. */
#define parse_fail_id(p, id, range, ...)                                                           \
    parse_fail_of((p), (id), (range), (const str[]){__VA_ARGS__, {NULL, 0}})
void parse_fail_of(parser *p, diag_id id, diag_range range, const str *arguments);
void parse_hint_nearest(parser *p, diag_range range, str word, const char *const *words);
void parse_fail_too_many(parser *p, int most); /* "at most {most} are allowed here" */
/* Is there the clause that begins with this word? The word is then read, once: given already, it is
 * an error.
 */
bool parse_clause(parser *p, const char *word, bool is_given);
bool parse_clause_is_new(parser *p, bool is_given, const char *clause); /* else fails */
str parse_name(parser *p, const char *what);                            /* a name that is used */
str parse_new_name(parser *p, const char *what, diag_range *range);     /* one that is declared */
bool parse_is_reserved(str word);                                       /* no name, in any case */
int parse_integer(parser *p, const char *what);                         /* 0 ... INT_MAX */

/* parse_expr.c */
tl_expr *parse_expr(parser *p);
tl_expr *parse_condition(parser *p);
tl_expr *parse_name_expr(parser *p, const char *what);
tl_expr *parse_copied_name(parser *p, const tl_expr *name); /* as if it stood here */
void parse_list(parser *p, int close, bool conditions, int most, tl_exprs *out);

/* parse_part.c: parts of statements */
void parse_shape(parser *p, tl_exprs *out);
void parse_axes(parser *p, tl_axes *out);
void parse_place(parser *p, tl_place *out); /* after `in` */
void parse_layout(parser *p, tl_layout *out);
tl_space parse_space(parser *p);
bool parse_accept_type(parser *p, tl_type *out);
void parse_target(parser *p, tl_target_kind *kind, tl_expr **target); /* at `and get` */
bool parse_at_target(const parser *p);

/* parse_declare.c and parse_act.c: the statement whose word is the current token. */
void parse_declaration(parser *p, tl_statement *s);
void parse_action(parser *p, tl_statement *s);

/* parse.c: a text of ours, for tl_quote. */
tl_program *parse_quotation(arena *memory, str source, diag_list *diags);

/* spelling.c: names as the reader takes them, made canonical. */
void spelling_settle(tl_program *program);

#endif
