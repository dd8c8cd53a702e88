/* The record of a run: a file of JSON lines, and its reader.
 *
 *     {"event":"run", ...}      what was asked for, and of whom
 *     {"event":"machine", ...}  where it ran: the one line that differs between machines
 *     {"event":"ask", ...}      a request, keyed by what it means, and its answer
 *     {"event":"verdict", ...}  what came of an answer: rung, findings, facts, time
 *     {"event":"result", ...}   what the run ended with
 * Keys, tokens of access and URLs are never in it. docs/thinking.md describes the fields.
 */
#ifndef FLASHTL_THINK_RECORD_H
#define FLASHTL_THINK_RECORD_H

#include "base/text.h"
#include "flashtl/context.h"

#include <jansson.h>

enum { RECORD_BYTES_MAX = 256 << 20 };

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct record_writer record_writer;

/* 'path' may be NULL: nothing is written. The file begins anew with the first event and grows by
 * whole lines, so an interrupted run leaves a record, and one of many rounds takes no memory for
 * it. NO_MEMORY.
 */
ftl_status record_open(ftl_context *context, const char *path, record_writer **out);
void record_close(record_writer *w); /* NULL is fine */
/* Adds an event; takes over 'fields' (an object). OK, NO_FILE, NO_MEMORY. */
ftl_status record_add(ftl_context *context, record_writer *w, const char *event, json_t *fields);
str record_last(const record_writer *w); /* the last event's line, without its end */

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct record_reader record_reader;

/* OK, NO_FILE, INVALID_ARGUMENT (a line is no event). Free with record_reader_free. */
ftl_status record_read(ftl_context *context, const char *path, record_reader **out);
ftl_status record_read_text(ftl_context *context, str text, const char *name, record_reader **out);
void record_reader_free(record_reader *r); /* NULL is fine */
/* Calls 'visit' with each event of a record, in order. OK, INVALID_ARGUMENT, NO_MEMORY. */
ftl_status record_each(ftl_context *context, str text, const char *name,
                       void (*visit)(void *user, json_t *event), void *user);
int32_t record_count(const record_reader *r);
json_t *record_at(const record_reader *r, int32_t index); /* borrowed */
/* The next ask with this key that was not given out yet; NULL when there is none. */
json_t *record_next_ask(record_reader *r, const char *key);
/* The ask of a step that was recorded but not asked for yet; NULL when there is none. */
json_t *record_pending_ask(const record_reader *r, const char *step);

const char *json_text(const json_t *object, const char *key); /* "" when it is not there */
double json_number(const json_t *object, const char *key);    /* 0 when it is not there */

#endif
