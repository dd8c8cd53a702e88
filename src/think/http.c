#include "think/http.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct curl_message {
    int message; /* 1: a transfer has ended */
    void *easy;
    union {
        void *anything;
        int result;
    } data;
} curl_message;

enum {
#define CURL_OPTION(name, value) OPTION_##name = (value),
#define CURL_INFO(name, value) INFO_##name = (value),
#define CURL_CODE(name, value) CODE_##name = (value),
#include "think/curl.def"
#undef CURL_OPTION
#undef CURL_INFO
#undef CURL_CODE
    HTTP_AND_HTTPS = 3
};

struct http {
    void *library;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define CURL(name, symbol, result, parameters) result(*name) parameters;
#include "think/curl.def"
#undef CURL
};

/* --- the library ------------------------------------------------------------------------------ */

static bool find_functions(http *h, const char **missing) {
#define CURL(name, symbol, result, parameters)                                                     \
    *(void **)&h->name = os_library_symbol(h->library, symbol);                                    \
    if (!h->name) *missing = symbol;
#include "think/curl.def"
#undef CURL
    return !*missing;
}

ftl_status http_open(ftl_context *context, const char *library, http **out) {
    static const char *const usual[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so", NULL};
    const char *const asked[] = {library, NULL};
    os_error why;
    *out = NULL;
    http *h = calloc(1, sizeof *h);
    if (!h) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    h->library = os_library_open(library ? asked : usual, &why);
    if (!h->library) {
        free(h);
        return ftl_context_fail(context, FTL_NO_NETWORK,
                                "endpoints need libcurl (Debian: libcurl4), 'exec:COMMAND' does "
                                "not: %s",
                                why.text);
    }
    const char *missing = NULL;
    if (!find_functions(h, &missing)) {
        http_close(h);
        return ftl_context_fail(context, FTL_NO_NETWORK,
                                "this libcurl has no function '%s': 7.66 or later is needed",
                                missing);
    }
    if (h->global_init(HTTP_AND_HTTPS) != CODE_OK) {
        http_close(h);
        return ftl_context_fail(context, FTL_NO_NETWORK, "libcurl cannot be set up");
    }
    *out = h;
    return FTL_OK;
}

/* The library stays: others of this process may use it, and its threads do not like to lose it. */
void http_close(http *h) {
    free(h);
}

/* --- an exchange ------------------------------------------------------------------------------ */

typedef struct exchange {
    http *h;
    void *easy;
    const http_request *request;
    http_response *response;
    int64_t heard_ns; /* when the last byte came */
    bool is_too_long;
} exchange;

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static void keep_header(str line, const char *name, char *to, size_t bytes) {
    size_t length = strlen(name);
    if (line.length <= length) return;
    for (size_t i = 0; i < length; i++) {
        if (lower(line.data[i]) != name[i]) return;
    }
    str value = str_trim((str){line.data + length, line.length - length});
    snprintf(to, bytes, "%.*s", STR_ARGS(value));
}

static size_t take_header(char *data, size_t size, size_t count, void *user) {
    exchange *x = user;
    http_response *r = x->response;
    str line = {data, size * count};
    x->heard_ns = os_time_ns();
    keep_header(line, "content-type:", r->content_type, sizeof r->content_type);
    keep_header(line, "retry-after:", r->retry_after, sizeof r->retry_after);
    keep_header(line, "retry-after-ms:", r->retry_after_ms, sizeof r->retry_after_ms);
    keep_header(line, "x-should-retry:", r->should_retry, sizeof r->should_retry);
    keep_header(line, "x-request-id:", r->request_id, sizeof r->request_id);
    keep_header(line, "request-id:", r->request_id, sizeof r->request_id);
    keep_header(line, "location:", r->location, sizeof r->location);
    return size * count;
}

static size_t take_bytes(char *data, size_t size, size_t count, void *user) {
    exchange *x = user;
    str bytes = {data, size * count};
    long status = 0;
    x->heard_ns = os_time_ns();
    x->h->easy_getinfo(x->easy, INFO_RESPONSE_CODE, &status);
    text_add(&x->response->body, bytes);
    if (x->response->body.failed) {
        x->is_too_long = true;
        return 0;
    }
    bool goes_on = !x->request->on_bytes || status < 200 || status > 299 ||
                   x->request->on_bytes(x->request->user, bytes);
    if (!goes_on) x->response->was_ended = true;
    return goes_on ? bytes.length : 0;
}

static long milliseconds(double seconds) {
    return (long)(seconds * 1000) + 1;
}

static void *set_up(exchange *x, char *error) {
    const http_request *q = x->request;
    http *h = x->h;
    void *headers = NULL, *easy = x->easy;
    for (int i = 0; i < HTTP_HEADERS_MAX && q->headers[i]; i++) {
        headers = h->slist_append(headers, q->headers[i]);
    }
    headers = h->slist_append(headers, "Expect:"); /* no round trip before a long body */
    h->easy_setopt(easy, OPTION_URL, q->url);
    h->easy_setopt(easy, OPTION_PROTOCOLS, (long)HTTP_AND_HTTPS);
    h->easy_setopt(easy, OPTION_FOLLOW_LOCATION, 0L);
    h->easy_setopt(easy, OPTION_NO_SIGNAL, 1L);
    h->easy_setopt(easy, OPTION_POST, 1L);
    h->easy_setopt(easy, OPTION_POST_FIELDS, q->body.data);
    h->easy_setopt(easy, OPTION_POST_FIELD_BYTES, (int64_t)q->body.length);
    h->easy_setopt(easy, OPTION_HTTP_HEADER, headers);
    h->easy_setopt(easy, OPTION_USER_AGENT, "flashtl/" FLASHTL_VERSION);
    h->easy_setopt(easy, OPTION_CONNECT_TIMEOUT_MS, milliseconds(q->connect_timeout_s));
    h->easy_setopt(easy, OPTION_TIMEOUT_MS, milliseconds(q->total_timeout_s));
    h->easy_setopt(easy, OPTION_ERROR_BUFFER, error);
    h->easy_setopt(easy, OPTION_WRITE_FUNCTION, take_bytes);
    h->easy_setopt(easy, OPTION_WRITE_DATA, x);
    h->easy_setopt(easy, OPTION_HEADER_FUNCTION, take_header);
    h->easy_setopt(easy, OPTION_HEADER_DATA, x);
    return headers;
}

typedef enum ending { ENDED, ENDED_IDLE, ENDED_STOPPED } ending;

/* Drives the transfer; *code is libcurl's result. */
static ending drive(exchange *x, void *multi, int *code) {
    enum { TURN_MS = 100 };
    const http_request *q = x->request;
    int running = 1;
    while (running) {
        if (q->stop && *q->stop) return ENDED_STOPPED;
        if ((double)(os_time_ns() - x->heard_ns) > q->idle_timeout_s * 1e9) return ENDED_IDLE;
        int many = 0;
        if (x->h->multi_perform(multi, &running) != 0) break;
        if (running && x->h->multi_poll(multi, NULL, 0, TURN_MS, &many) != 0) break;
        if (q->on_wait) q->on_wait(q->user);
    }
    int left = 0;
    *code = -1;
    for (curl_message *m; (m = x->h->multi_read(multi, &left));) {
        if (m->message == 1) *code = m->data.result;
    }
    return ENDED;
}

static ftl_status judge(ftl_context *context, exchange *x, ending how, int code,
                        const char *error) {
    const http_request *q = x->request;
    if (how == ENDED_STOPPED) return ftl_context_fail(context, FTL_STOPPED, "stopped");
    if (how == ENDED_IDLE) {
        return ftl_context_fail(context, FTL_TIMEOUT, "the server has been silent for %g s",
                                q->idle_timeout_s);
    }
    if (x->is_too_long) {
        return ftl_context_fail(context, FTL_BAD_ANSWER,
                                "the server's answer is longer than %d MiB",
                                HTTP_BODY_BYTES_MAX >> 20);
    }
    if (code == CODE_OK || (code == CODE_WRITE_ERROR && x->response->was_ended)) return FTL_OK;
    if (code == CODE_TIMED_OUT) {
        double connect_s = 0; /* 0: there was no connection yet */
        x->h->easy_getinfo(x->easy, INFO_CONNECT_TIME, &connect_s);
        return ftl_context_fail(context, FTL_TIMEOUT,
                                connect_s > 0 ? "the server did not end its answer within %g s"
                                              : "no connection to the server within %g s",
                                connect_s > 0 ? q->total_timeout_s : q->connect_timeout_s);
    }
    return ftl_context_fail(context, FTL_NO_NETWORK, "%s",
                            *error ? error : x->h->easy_strerror(code));
}

ftl_status http_post(ftl_context *context, http *h, const http_request *request,
                     http_response *response) {
    enum { CURL_ERROR_BYTES = 256 };
    *response = (http_response){0};
    text_init(&response->body, HTTP_BODY_BYTES_MAX);
    char error[CURL_ERROR_BYTES] = "";
    exchange x = {.h = h, .request = request, .response = response, .heard_ns = os_time_ns()};
    x.easy = h->easy_init();
    void *multi = h->multi_init();
    ftl_status status =
        x.easy && multi ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (!status) {
        void *headers = set_up(&x, error);
        int code = -1;
        h->multi_add(multi, x.easy);
        ending how = drive(&x, multi, &code);
        status = judge(context, &x, how, code, error);
        long number = 0;
        h->easy_getinfo(x.easy, INFO_RESPONSE_CODE, &number);
        response->status = (int)number;
        h->multi_remove(multi, x.easy);
        h->slist_free(headers);
    }
    if (x.easy) h->easy_cleanup(x.easy);
    if (multi) h->multi_cleanup(multi);
    return status;
}

void http_response_done(http_response *response) {
    text_done(&response->body);
}
