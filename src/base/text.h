/* Slices of text, and a growable buffer.
 *
 * A str points into memory that someone else owns and need not end in NUL.
 * A text_buffer owns malloc'd bytes up to a limit; past the limit, or without memory, it drops what
 * does not fit and remembers that in 'failed', which the owner checks once at the end.
 * One that grows in an arena never fails: what the arena cannot serve jumps, as all of its
 * allocations do, so its text may be used without a check and needs no text_done.
 */
#ifndef FLASHTL_BASE_TEXT_H
#define FLASHTL_BASE_TEXT_H

#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct str {
    const char *data;
    size_t length;
} str;

#define STR(literal) ((str){"" literal, sizeof(literal) - 1})
/* For printf's "%.*s"; evaluates its argument twice. */
#define STR_ARGS(s) (int)(s).length, (s).data

str str_from(const char *c_string);
bool str_equal(str a, str b);
bool str_is(str a, const char *c_string);
bool str_starts(str a, str prefix);
bool str_ends(str a, str suffix);
str str_trim(str a);
uint32_t str_hash(str a);                      /* FNV-1a */
bool str_is_word(char c);                      /* a letter of ASCII, a digit or '_' */
size_t str_find(str text, str what);           /* where it begins; the text's length: nowhere */
const char *str_find_word(str text, str name); /* where it stands as a whole word; NULL: nowhere */
/* Cuts off everything up to the end of the next word, and returns that; empty: there is none. */
str str_cut_word(str *rest);
/* Cuts the part before 'separator' off *rest; without a separator, all of it. */
str str_cut(str *rest, char separator);
str str_copy(arena *a, str s);
/* The same, with a NUL after it. */
char *str_copy_z(arena *a, str s);
/* malloc'd, with a NUL after it; NULL without memory. */
char *str_new(str s);
str str_format(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
str str_format_list(arena *a, const char *format, va_list arguments);
/* Parses all of 's'; false when it is not a number or does not fit. */
bool str_to_integer(str s, int64_t *value);
bool str_to_number(str s, double *value);
/* Bytes of the UTF-8 sequence that begins here; 0 when it is none. */
size_t str_utf8_bytes(str s);
/* The same of what a terminal may have: 0 also for control characters, for marks that turn the
 * direction of writing, and for those that end a line.
 */
size_t str_plain_bytes(str s);
/* The least number of insertions, removals, changes and swaps of neighbours from a to b. */
int str_distance(str a, str b);
/* The distance below which another name may be what 'name' was meant to be: never half its letters.
 */
int str_distance_limit(str name);

typedef struct text_buffer {
    char *data; /* always ends in NUL once something was added; NULL before */
    size_t length, capacity, limit_bytes;
    arena *memory; /* where it grows; NULL: by malloc */
    bool failed;
} text_buffer;

void text_init(text_buffer *buffer, size_t limit_bytes);
/* The buffer's text lives as long as the arena's objects do. */
void text_init_in(text_buffer *buffer, arena *memory);
void text_done(text_buffer *buffer);
void text_add(text_buffer *buffer, str s);
void text_add_z(text_buffer *buffer, const char *c_string);
/* With the signs of HTML as entities, in elements and in quoted attributes alike. */
void text_add_html(text_buffer *buffer, str text);
/* As gnuplot's '...', in which a quote is doubled. */
void text_add_quoted(text_buffer *buffer, const char *c_string);
void text_format(text_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void text_repeat(text_buffer *buffer, char c, size_t count);
/* Text that is not ours, for a terminal or a log: what is not plain is added as \n, \x1b, \u202e.
 * 'kept' are those control characters that stay as they are.
 */
void text_add_shown(text_buffer *buffer, str s, const char *kept);
/* Adds a paragraph as lines of at most TEXT_LINE_MAX characters, the first after 'indent' blanks,
 * those that follow after 'hanging'. Words are not cut.
 */
enum { TEXT_LINE_MAX = 116 };
void text_wrap(text_buffer *buffer, int indent, int hanging, str text);
str text_str(const text_buffer *buffer);

#endif
