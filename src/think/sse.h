/* Server-sent events: bytes in any portions in, data of whole events out. */
#ifndef FLASHTL_THINK_SSE_H
#define FLASHTL_THINK_SSE_H

#include "base/text.h"

typedef struct sse_reader {
    text_buffer line; /* what has come of the line */
    text_buffer data; /* of the event, its lines joined by newlines */
    bool has_data;
} sse_reader;

void sse_init(sse_reader *r);
void sse_done(sse_reader *r);
/* Calls 'take' with the data of each event that 'bytes' ends; false from it ends the reading. */
bool sse_feed(sse_reader *r, str bytes, bool (*take)(void *user, str data), void *user);
/* Gives out an event that the stream ended in the middle of its blank line. */
bool sse_finish(sse_reader *r, bool (*take)(void *user, str data), void *user);

#endif
