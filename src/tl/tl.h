/* Reading and writing TL.
 *
 * The reader is lenient: it takes every spelling of docs/language.md's table, goes on after an
 * error and reports up to DIAG_ERROR_LIMIT of them. The printer is strict: one canonical text for a
 * tree, and tl_parse(tl_print(p)) prints the same bytes again. Pure: the same text gives the same
 * tree.
 */
#ifndef FLASHTL_TL_TL_H
#define FLASHTL_TL_TL_H

#include "tl/tree.h"

enum {
    TL_SOURCE_BYTES_MAX = 1 << 20,
    TL_NESTING_MAX = 64, /* of blocks and of expressions */
    /* Of an expression with its definitions written out: whoever goes through lets, to
     * the end and without remembering where it was, ends after as many steps.
     */
    TL_HEIGHT_MAX = 256,
    TL_TERMS_MAX = 4096,
    TL_STATEMENTS_MAX = 20000,
    TL_AXES_MAX = 8,
    TL_OPERANDS_MAX = 4,
};

/* Reads a program. Always returns one, with what could be understood; errors are in 'diags', whose
 * source must be 'source'. The program refers to 'source', which must outlive it.
 */
tl_program *tl_parse(arena *memory, str source_name, str source, diag_list *diags);

/* Is it a word that nothing can be called by? */
bool tl_is_reserved(str word);

/* Writes the canonical text, comments kept. */
void tl_print(const tl_program *program, text_buffer *out);
void tl_print_header(const tl_statement *s,
                     text_buffer *out); /* one line, no comment, no newline */
str tl_expr_text(arena *memory, const tl_expr *e);

/* Quotation, for passes: reads statements from a format string, e.g.
 *   tl_quote(memory, "Compute Multiply %s, %s and get %s", ...)
 * The text must be right (it is ours): a syntax error is an assertion. The statements are linked to
 * one another, have no parent and no ranges.
 */
tl_block tl_quote(arena *memory, const char *format, ...) __attribute__((format(printf, 2, 3)));
tl_block tl_quote_list(arena *memory, const char *format, va_list arguments);
tl_expr *tl_quote_expr(arena *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
tl_expr *tl_name_expr(arena *memory, str name); /* just that NAME */

typedef enum tl_grammar_format {
    TL_GRAMMAR_EBNF,
    TL_GRAMMAR_GBNF,
    TL_GRAMMAR_LARK
} tl_grammar_format;
void tl_grammar_print(tl_grammar_format format, text_buffer *out);

#endif
