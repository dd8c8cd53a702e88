/* POST over HTTP and HTTPS, by libcurl, which is opened when first needed. */
#ifndef FLASHTL_THINK_HTTP_H
#define FLASHTL_THINK_HTTP_H

#include "base/text.h"
#include "flashtl/context.h"

#include <signal.h>

enum { HTTP_HEADERS_MAX = 8, HTTP_BODY_BYTES_MAX = 32 << 20 };

typedef struct http http;

/* OK, NO_NETWORK (no libcurl, with how to get it), NO_MEMORY. */
ftl_status http_open(ftl_context *context, const char *library, http **out);
void http_close(http *h); /* NULL is fine */

typedef struct http_request {
    const char *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "Name: value"; a NULL ends them */
    str body;
    double connect_timeout_s, idle_timeout_s, total_timeout_s;
    const volatile sig_atomic_t *stop; /* or NULL */
    /* Each part of a 2xx body as it comes; false ends the transfer. May be NULL. */
    bool (*on_bytes)(void *user, str bytes);
    void (*on_wait)(void *user); /* about ten times a second; may be NULL */
    void *user;
} http_request;

typedef struct http_response {
    int status; /* 0: none came */
    text_buffer body;
    char content_type[128], retry_after[64], retry_after_ms[64], should_retry[16], request_id[128];
    char location[512];
    bool was_ended; /* by on_bytes */
} http_response;

/* One exchange; redirects are not followed. OK (whatever the status is), NO_NETWORK (no connection,
 * or lost), TIMEOUT, STOPPED, BAD_ANSWER (the body is too long), NO_MEMORY. Call http_response_done
 * in any case.
 */
ftl_status http_post(ftl_context *context, http *h, const http_request *request,
                     http_response *response);
void http_response_done(http_response *response);

#endif
