/* Asking a server: one request, its retries, and what its failures mean. */
#include "base/json.h"
#include "think/provider_internal.h"
#include "think/retry.h"
#include "think/sse.h"

#include "base/number.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_BYTES = 2 * PROVIDER_NAME_BYTES, REDIRECTS_MOST = 3 };

typedef struct question {
    ftl_context *context;
    provider *p;
    const wire *wire;
    char url[URL_BYTES];
    char *body;
    char idempotency[80];
    /* of one attempt */
    sse_reader events;
    wire_state state;
    bool is_broken; /* an event was no JSON */
} question;

static void tell(const question *q, const char *event, const char *text) {
    const provider_options *o = &q->p->options;
    if (o->on_progress) o->on_progress(o->user, event, q->state.answer->text.length, text);
}

/* --- a stream --------------------------------------------------------------------------------- */

static bool take_event(void *user, str data) {
    question *q = user;
    if (str_is(str_trim(data), "[DONE]")) {
        q->state.is_complete = true;
        return true;
    }
    json_t *event = json_loadb(data.data, data.length, 0, NULL);
    if (!event) {
        q->is_broken = true;
        return false;
    }
    q->wire->read_event(event, &q->state);
    json_decref(event);
    return !q->state.error[0] && !q->state.answer->text.failed;
}

static bool take_bytes(void *user, str bytes) {
    question *q = user;
    return sse_feed(&q->events, bytes, take_event, q);
}

static void on_wait(void *user) {
    question *q = user;
    tell(q, q->state.answer->text.length ? "answer" : "wait", "");
}

/* --- one attempt ------------------------------------------------------------------------------ */

/* A key goes into a header only where its base URL is asked. */
static void add_headers(const question *q, http_request *r, char key_header[2048]) {
    int count = 0;
    const char *key = provider_key_for(q->p, q->url);
    r->headers[count++] = "Content-Type: application/json";
    r->headers[count++] = q->idempotency;
    if (q->p->kind == PROVIDER_ANTHROPIC) r->headers[count++] = "anthropic-version: 2023-06-01";
    if (!key) return;
    snprintf(key_header, 2048,
             q->p->kind == PROVIDER_ANTHROPIC ? "x-api-key: %s" : "Authorization: Bearer %s", key);
    r->headers[count] = key_header;
}

/* Servers may repeat a key in an error. */
static void scrub(const question *q, char *text) {
    for (int32_t i = 0; i < q->p->options.key_count; i++) {
        const char *key = q->p->options.keys[i].key;
        size_t length = strlen(key);
        for (char *at = text; length > 3 && (at = strstr(at, key));) memset(at, '*', length);
    }
}

static ftl_status post(question *q, http_response *response) {
    const provider_options *o = &q->p->options;
    char key_header[2048] = "";
    http_request r = {.url = q->url,
                      .body = str_from(q->body),
                      .connect_timeout_s = o->connect_timeout_s,
                      .idle_timeout_s = o->idle_timeout_s,
                      .total_timeout_s = o->total_timeout_s,
                      .stop = o->stop,
                      .on_bytes = o->no_streaming ? NULL : take_bytes,
                      .on_wait = on_wait,
                      .user = q};
    add_headers(q, &r, key_header);
    q->state.answer->text.length = 0;
    q->state = (wire_state){.answer = q->state.answer};
    q->is_broken = false;
    sse_init(&q->events);
    ftl_status status = http_post(q->context, q->p->http, &r, response);
    if (!status && !o->no_streaming) sse_finish(&q->events, take_event, q);
    sse_done(&q->events);
    memset(key_header, 0, sizeof key_header);
    return status;
}

static ftl_status bad_answer(question *q, const http_response *r, const char *what) {
    str shown = str_trim(text_str(&r->body));
    if (shown.length > 120) shown.length = 120;
    char words[160];
    snprintf(words, sizeof words, "%.*s", STR_ARGS(shown));
    scrub(q, words);
    for (char *c = words; *c; c++) {
        if ((unsigned char)*c < 32) *c = ' ';
    }
    return ftl_context_fail(q->context, FTL_BAD_ANSWER, "the server's answer %s%s%s%s (%s): %s",
                            what, r->request_id[0] ? ", request " : "", r->request_id, "",
                            r->content_type[0] ? r->content_type : "no content type", words);
}

/* A 2xx answer: a stream was read as it came; a server that does not stream sends it whole. */
static ftl_status read_answer(question *q, const http_response *r) {
    bool is_stream = strstr(r->content_type, "text/event-stream") != NULL;
    bool is_json = strstr(r->content_type, "json") != NULL || !r->content_type[0];
    if (!is_stream && !is_json) return bad_answer(q, r, "is no JSON");
    if (!is_stream) {
        json_t *body = json_loadb(r->body.data ? r->body.data : "", r->body.length, 0, NULL);
        if (!body) return bad_answer(q, r, "is cut off, or no JSON");
        q->state.answer->text.length = 0;
        q->wire->read_whole(body, &q->state);
        json_decref(body);
    }
    if (q->state.error[0]) {
        scrub(q, q->state.error);
        return ftl_context_fail(q->context, FTL_REFUSED, "the server says: %s", q->state.error);
    }
    if (q->state.answer->text.failed) {
        return ftl_context_fail(q->context, FTL_BAD_ANSWER, "the answer is longer than %d MiB",
                                PROVIDER_ANSWER_BYTES_MAX >> 20);
    }
    if (q->is_broken) return bad_answer(q, r, "has an event that is no JSON");
    if (!q->state.is_complete) return bad_answer(q, r, "ends in the middle");
    return FTL_OK;
}

static ftl_status read_failure(question *q, const http_response *r) {
    json_t *body = json_loadb(r->body.data ? r->body.data : "", r->body.length, 0, NULL);
    if (body) wire_read_error(body, &q->state);
    json_decref(body);
    if (!q->state.error[0]) {
        str words = str_trim(text_str(&r->body));
        if (words.length > 200) words.length = 200;
        snprintf(q->state.error, sizeof q->state.error, "%.*s", STR_ARGS(words));
    }
    scrub(q, q->state.error);
    ftl_status status =
        r->status == 402 || retry_is_about_money(q->state.error_type) ? FTL_QUOTA : FTL_REFUSED;
    const char *advice = r->status == 401 || r->status == 403
                             ? "; is there a key for this base URL? (variable or --key-file)"
                             : "";
    return ftl_context_fail(q->context, status, "%s answers %d: %s%s%s%s", q->p->base_url,
                            r->status, q->state.error[0] ? q->state.error : "(no words)", advice,
                            r->request_id[0] ? "; request " : "", r->request_id);
}

/* --- redirects -------------------------------------------------------------------------------- */

/* "https://host:port" of a URL. */
static str origin_of(str url) {
    size_t i = 0, slashes = 0;
    while (i < url.length && (url.data[i] != '/' || slashes < 2)) slashes += url.data[i++] == '/';
    return (str){url.data, i};
}

/* Within the origin a redirect is followed, with its key where the key's base URL holds; elsewhere
 * neither the key nor the prompt goes.
 */
static ftl_status redirect(question *q, const http_response *r) {
    str to = str_from(r->location), at = str_from(q->url), origin = origin_of(at);
    char url[URL_BYTES];
    if (str_starts(to, STR("/")) && !str_starts(to, STR("//"))) {
        snprintf(url, sizeof url, "%.*s%s", STR_ARGS(origin), r->location);
    } else if (str_equal(origin_of(to), origin)) {
        snprintf(url, sizeof url, "%s", r->location);
    } else {
        return ftl_context_fail(q->context, FTL_REFUSED,
                                "%s redirects to another host ('%.*s'): neither key nor prompt was "
                                "sent there; name that base URL if you mean it",
                                q->p->base_url, STR_ARGS(origin_of(to)));
    }
    memcpy(q->url, url, sizeof url);
    return FTL_OK;
}

static ftl_status attempt(question *q, http_response *response) {
    for (int turn = 0;; turn++) {
        ftl_status status = post(q, response);
        bool is_redirect = !status && response->status >= 300 && response->status <= 308;
        if (status) return status;
        if (is_redirect && turn < REDIRECTS_MOST && response->location[0]) {
            status = redirect(q, response);
            if (status) return status;
            http_response_done(response);
            continue;
        }
        bool is_good = response->status >= 200 && response->status <= 299;
        return is_good ? read_answer(q, response) : read_failure(q, response);
    }
}

/* --- retries ---------------------------------------------------------------------------------- */

static bool is_stopped(const question *q) {
    return q->p->options.stop && *q->p->options.stop;
}

static ftl_status wait(question *q, double seconds) {
    enum { STEP_NS = 50000000 };
    char text[96];
    number_print(text, sizeof text, "again in %.1f s", seconds);
    int64_t end_ns = os_time_ns() + (int64_t)(seconds * 1e9);
    tell(q, "retry", text);
    while (os_time_ns() < end_ns) {
        if (is_stopped(q)) return ftl_context_fail(q->context, FTL_STOPPED, "stopped");
        int64_t left_ns = end_ns - os_time_ns();
        os_sleep_ns(left_ns < STEP_NS ? left_ns : STEP_NS);
    }
    return FTL_OK;
}

/* A server that does not know the grammar's field says so once. */
static bool refuses_grammar(const question *q, const http_response *r) {
    bool is_sent =
        provider_takes_grammar(q->p) != PROVIDER_NO_GRAMMAR && strstr(q->body, "grammar");
    return is_sent && (r->status == 400 || r->status == 422);
}

static ftl_status make_body(question *q, const provider_request *request) {
    json_t *body = q->wire->make_body(q->p, request);
    free(q->body);
    q->body = json_write(NULL, body, JSON_COMPACT);
    json_decref(body);
    return q->body ? FTL_OK : ftl_context_fail(q->context, FTL_NO_MEMORY, "out of memory");
}

static ftl_status ask(question *q, const provider_request *request) {
    ftl_status status = make_body(q, request);
    for (int32_t tries = 0; !status; tries++) {
        http_response response;
        status = attempt(q, &response);
        if (refuses_grammar(q, &response)) {
            q->p->is_grammar_refused = true;
            http_response_done(&response);
            tell(q, "retry", "the server does not take the grammar; again without");
            status = make_body(q, request);
            continue;
        }
        retry_facts facts = {.status = response.status,
                             .result = status,
                             .error_type = q->state.error_type,
                             .retry_after = response.retry_after,
                             .retry_after_ms = response.retry_after_ms,
                             .should_retry = response.should_retry,
                             .tries = tries,
                             .now_s = os_clock_s(),
                             .salt = (uint64_t)os_time_ns()};
        double seconds = 0;
        retry_decision decision = retry_decide(&facts, &seconds);
        http_response_done(&response);
        if (!status) return FTL_OK;
        if (decision == RETRY_TOO_LATE) {
            return ftl_context_fail(q->context, FTL_REFUSED,
                                    "the server is busy and asks to come back in %.0f s", seconds);
        }
        if (decision == RETRY_NO || tries >= q->p->options.retries) return status;
        q->state.answer->retries++;
        status = wait(q, seconds);
    }
    return status;
}

ftl_status remote_ask(ftl_context *context, provider *p, const provider_request *request,
                      provider_answer *answer) {
    question q = {.context = context,
                  .p = p,
                  .wire = p->kind == PROVIDER_ANTHROPIC ? &wire_anthropic : &wire_openai,
                  .state.answer = answer};
    char key[33];
    provider_request_key(p, request, key);
    snprintf(q.idempotency, sizeof q.idempotency, "Idempotency-Key: flashtl-%s-%llx", key,
             (unsigned long long)os_time_ns());
    snprintf(q.url, sizeof q.url, "%s%s", p->base_url, q.wire->path);
    int64_t begin_ns = os_time_ns();
    ftl_status status = ask(&q, request);
    int64_t took_ms = (os_time_ns() - begin_ns) / 1000000;
    answer->ms = (double)took_ms;
    if (status) answer->text.length = 0;
    free(q.body);
    return status;
}
