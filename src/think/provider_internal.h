/* What the kinds of providers share. */
#ifndef FLASHTL_THINK_PROVIDER_INTERNAL_H
#define FLASHTL_THINK_PROVIDER_INTERNAL_H

#include "think/http.h"
#include "think/provider.h"
#include "think/record.h"

#include <jansson.h>

typedef enum provider_kind {
    PROVIDER_OPENAI,
    PROVIDER_ANTHROPIC,
    PROVIDER_EXEC,
    PROVIDER_REPLAY
} provider_kind;

struct provider {
    provider_kind kind;
    provider_options options;
    char model[PROVIDER_NAME_BYTES]; /* as recorded: the spec */
    char name[PROVIDER_NAME_BYTES];  /* what the server calls it; the command of exec */
    char base_url[PROVIDER_NAME_BYTES];
    bool is_makers_own; /* openai: or anthropic: rather than a URL */
    bool is_grammar_refused;
    http *http;
    record_reader *recording;
};

ftl_status exec_ask(ftl_context *context, provider *p, const provider_request *request,
                    provider_answer *answer);
ftl_status replay_ask(ftl_context *context, provider *p, const provider_request *request,
                      provider_answer *answer);
/* HTTP with retries; the wire formats below. */
ftl_status remote_ask(ftl_context *context, provider *p, const provider_request *request,
                      provider_answer *answer);

/* A wire format: what is sent where, and how an answer is read. */
typedef struct wire_state {
    provider_answer *answer;
    bool is_complete;     /* the end was announced */
    bool has_reason;      /* thinking has been seen outside of the answer's text */
    char error[512];      /* the server's words, "" when none */
    char error_type[128]; /* "insufficient_quota" */
} wire_state;

typedef struct wire {
    const char *path; /* after the base URL */
    json_t *(*make_body)(const provider *p, const provider_request *request);
    void (*read_event)(json_t *event, wire_state *state); /* of a stream */
    void (*read_whole)(json_t *body, wire_state *state);
} wire;
extern const wire wire_openai, wire_anthropic;

/* The sentence of a server's error object, "" when there is none. */
void wire_read_error(json_t *body, wire_state *state);

/* A number of tokens that a server or a record reports; 0, unknown, for what can be none: a
 * negative or broken number, a text, more than any context has.
 */
int64_t provider_tokens(const json_t *reported);

const char *provider_key_for(const provider *p, const char *url);

#endif
