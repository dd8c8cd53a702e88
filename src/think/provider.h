/* Models: one interface before endpoints, commands and recordings.
 *
 * A provider is opened from a spec:
 *     openai:NAME, anthropic:NAME     the makers' own endpoints, or those of the given base URL
 *     http://host:8080/v1#NAME        any OpenAI-compatible endpoint (https, too)
 *     exec:COMMAND                    a shell command: prompt on standard input, answer on its
 * output replay:FILE                     the answers of a record Nothing here prints or reads the
 * environment; the key comes with the base URL it belongs to. One question at a time per provider.
 */
#ifndef FLASHTL_THINK_PROVIDER_H
#define FLASHTL_THINK_PROVIDER_H

#include "base/text.h"
#include "flashtl/context.h"
#include "think/record.h"

#include <signal.h>

enum { PROVIDER_NAME_BYTES = 512, PROVIDER_ANSWER_BYTES_MAX = 8 << 20 };

/* What a server is sent a grammar as. */
typedef enum provider_grammar {
    PROVIDER_NO_GRAMMAR,
    PROVIDER_GBNF,       /* llama.cpp: "grammar" */
    PROVIDER_STRUCTURED, /* vLLM: "structured_outputs" */
    PROVIDER_LARK        /* OpenAI: a custom tool with a Lark grammar */
} provider_grammar;

typedef struct provider_key {
    const char *base_url; /* only requests to this origin and path get the key */
    const char *key;
} provider_key;

typedef struct provider_options {
    const char *openai_base_url, *anthropic_base_url; /* NULL: the makers' own */
    const provider_key *keys;
    int32_t key_count;
    const char *curl_library; /* NULL: the usual names */
    provider_grammar grammar;
    double connect_timeout_s, idle_timeout_s, total_timeout_s; /* 0: 10, 120, 900 */
    int32_t retries;                                           /* negative: 4 */
    bool no_streaming;
    const char *step;                  /* of a replayed run whose answers are meant: "sketch" */
    const volatile sig_atomic_t *stop; /* set it to end a question; or NULL */
    /* Called while an answer arrives (about ten times a second) and while waiting: 'event' is
     * "wait", "retry" or "answer", 'text' a sentence or "". May be NULL.
     */
    void (*on_progress)(void *user, const char *event, size_t answer_bytes, const char *text);
    void *user;
} provider_options;

typedef struct provider provider;

typedef struct provider_turn {
    bool is_answer; /* of the model; else ours */
    str text;
} provider_turn;

typedef struct provider_request {
    str system; /* the stable part: servers may cache it */
    const provider_turn *turns;
    int32_t turn_count;
    str grammar_gbnf, grammar_lark; /* of the answer; empty: none */
    int64_t answer_tokens_most;     /* 0: 16,000 */
} provider_request;

typedef struct provider_answer {
    text_buffer text;
    bool is_cut_off;                      /* the server stopped at its limit */
    int64_t prompt_tokens, answer_tokens; /* as reported; 0: unknown */
    int64_t cached_tokens;
    double ms; /* from question to end; of a replay, what was recorded */
    int32_t retries;
} provider_answer;

/* OK, INVALID_ARGUMENT (the spec), NOT_FOUND (no model is named), NO_FILE, NO_MEMORY. The texts in
 * 'options' must outlive the provider. Close it with provider_close.
 */
ftl_status provider_open(ftl_context *context, const char *spec, const provider_options *options,
                         provider **out);
void provider_close(provider *p); /* NULL is fine */
/* What is in records: the spec; of a replay, the one that was recorded. */
const char *provider_model(const provider *p);
/* The record that a replay answers from; NULL for other kinds. */
const record_reader *provider_recording(const provider *p);
provider_grammar provider_takes_grammar(const provider *p);

/* OK; CHECK_FAILED (the record has no such request), REFUSED, QUOTA, NO_NETWORK, BAD_ANSWER,
 * TIMEOUT, STOPPED, NO_FILE, NO_MEMORY. The answer's text is empty on failure; call
 * provider_answer_done in both cases.
 */
ftl_status provider_ask(ftl_context *context, provider *p, const provider_request *request,
                        provider_answer *answer);
void provider_answer_done(provider_answer *answer);

/* 32 hexadecimal digits over what a request means: model, system, turns, grammar. */
void provider_request_key(const provider *p, const provider_request *request, char key[33]);

/* About how many tokens a text has; rather too many. */
int64_t provider_estimate_tokens(str text);

#endif
