/* Diagnostics: what is wrong with a text, where, and how to fix it.
 *
 * Every message has an id in one table (diag/messages.def, which includes one file per family).
 * Detection and rendering are apart: code that finds something adds it to a diag_list; the list is
 * rendered as text with carets (clang's manner) or as JSON lines. After DIAG_ERROR_LIMIT errors,
 * further ones are counted only. A diag_list belongs to one thread at a time.
 */
#ifndef FLASHTL_DIAG_DIAG_H
#define FLASHTL_DIAG_DIAG_H

#include "base/text.h"

enum { DIAG_ERROR_LIMIT = 20, DIAG_ARGUMENTS_MAX = 6 };

/* Bytes [begin, end) of the source text. {0, 0} means the text as a whole. */
typedef struct diag_range {
    uint32_t begin, end;
} diag_range;

typedef enum diag_severity { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE, DIAG_HINT } diag_severity;

typedef enum diag_id {
#define DIAG(id, severity, format) DIAG_##id,
#include "diag/messages.def"
#undef DIAG
    DIAG_ID_COUNT
} diag_id;

typedef struct diag diag;
struct diag {
    diag_id id;
    diag_severity severity;
    diag_range range;
    str message;  /* lower case, no full stop */
    str expected; /* set by diag_expected; empty when unsaid */
    str found;
    str replacement; /* of a hint: text to put in place of 'range'; empty when none */
    diag *attached;  /* notes and hints of this error or warning, in order */
    diag *next;
};

typedef struct diag_list {
    arena *memory;
    str source_name; /* as shown before the line number: a path, or "<stdin>" */
    str source;      /* the text that ranges count in */
    diag *first, *last;
    int error_count, warning_count;
} diag_list;

void diag_init(diag_list *list, arena *memory, str source_name, str source);

/* Adds a message. The format's {0}, {1}, ... are replaced by 'arguments' (NULL when it has none).
 * Notes and hints attach to the error or warning before them. Returns the message, or NULL past
 * the limit; the other calls accept NULL.
 */
diag *diag_add(diag_list *list, diag_id id, diag_range range, const str *arguments);
void diag_expected(diag *d, str expected, str found);
void diag_replace(diag *hint, str replacement);

/* diag_report(list, DIAG_X, range, a, b): the arguments are str values. */
#define diag_report(list, id, range, ...)                                                          \
    diag_add((list), (id), (range), (const str[]){__VA_ARGS__, {NULL, 0}})

bool diag_has_errors(const diag_list *list);
const char *diag_id_name(diag_id id); /* "undefined_name": stable, for JSON and tests */

/* 1-based line and column (in bytes) of an offset. */
void diag_position(str source, uint32_t offset, int *line, int *column);

/* FILE:LINE:COLUMN: error: message, the line, the caret; then notes and hints; then the count. */
void diag_render_text(const diag_list *list, bool colour, text_buffer *out);
/* One JSON object a line: id, severity, file, line, column, end_line, end_column, message,
 * expected, found, notes, hints (with replacement).
 */
void diag_render_json(const diag_list *list, text_buffer *out);

#endif
