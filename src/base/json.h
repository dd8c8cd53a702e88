/* JSON that is written whole or not at all.
 *
 * Without memory jansson makes no value, or does not take one, and goes on; json_dumps may even cut
 * a text. A json_writer remembers that anything was lost, and json_write gives no text then.
 */
#ifndef FLASHTL_BASE_JSON_H
#define FLASHTL_BASE_JSON_H

#include "base/text.h"

#include <jansson.h>

typedef struct json_writer {
    bool failed;
} json_writer;

/* Both take over 'value'; NULL, what jansson's constructors return without memory, is a loss. */
void json_put(json_writer *w, json_t *object, const char *key, json_t *value);
void json_add(json_writer *w, json_t *array, json_t *value);

/* A value of any bytes: those that are no UTF-8 are shown as '?'. */
json_t *json_from(str s);

/* malloc'd, ended by a NUL; NULL where anything was lost or 'root' is NULL. 'w' may be NULL. */
char *json_write(const json_writer *w, const json_t *root, size_t flags);
/* Adds the text and a newline to 'out', which has failed where anything was lost. */
void json_write_line(const json_writer *w, const json_t *root, size_t flags, text_buffer *out);

#endif
