/* The wire formats of OpenAI-compatible endpoints and of Anthropic's messages. */
#include "think/provider_internal.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_TOKENS = 16000 };

/* --- texts ------------------------------------------------------------------------------------ */

/* A text as JSON takes it: what is no UTF-8 becomes U+FFFD. */
static json_t *wire_string(str text) {
    json_t *whole = json_stringn(text.data ? text.data : "", text.length);
    if (whole) return whole;
    text_buffer clean;
    text_init(&clean, 3 * text.length + 1);
    for (size_t i = 0; i < text.length;) {
        size_t count = str_utf8_bytes((str){text.data + i, text.length - i});
        if (count) text_add(&clean, (str){text.data + i, count});
        else text_add_z(&clean, "\xef\xbf\xbd");
        i += count ? count : 1;
    }
    whole = json_stringn(clean.data ? clean.data : "", clean.length);
    text_done(&clean);
    return whole;
}

static void take_text(wire_state *state, const json_t *text) {
    if (!json_is_string(text)) return;
    text_add(&state->answer->text, (str){json_string_value(text), json_string_length(text)});
}

void wire_read_error(json_t *body, wire_state *state) {
    const json_t *error = json_object_get(body, "error");
    if (!error) return;
    const char *message =
        json_is_string(error) ? json_string_value(error) : json_text(error, "message");
    const char *code = json_text(error, "code"), *type = json_text(error, "type");
    snprintf(state->error, sizeof state->error, "%s",
             *message ? message : "an error without words");
    snprintf(state->error_type, sizeof state->error_type, "%s", *code ? code : type);
}

/* --- OpenAI: POST chat/completions ------------------------------------------------------------ */

static json_t *message(const char *role, str text) {
    return json_pack("{s:s,s:o}", "role", role, "content", wire_string(text));
}

static void add_grammar(const provider *p, const provider_request *request, json_t *body) {
    switch (provider_takes_grammar(p)) {
    case PROVIDER_NO_GRAMMAR: return;
    case PROVIDER_GBNF:
        json_object_set_new(body, "grammar", wire_string(request->grammar_gbnf));
        return;
    case PROVIDER_STRUCTURED:
        json_object_set_new(body, "structured_outputs",
                            json_pack("{s:o}", "grammar", wire_string(request->grammar_gbnf)));
        return;
    case PROVIDER_LARK: break;
    }
    json_t *grammar =
        json_pack("{s:s,s:o}", "syntax", "lark", "definition", wire_string(request->grammar_lark));
    json_t *format = json_pack("{s:s,s:o}", "type", "grammar", "grammar", grammar);
    json_t *tool = json_pack("{s:s,s:{s:s,s:s,s:o}}", "type", "custom", "custom", "name", "submit",
                             "description", "Takes the program.", "format", format);
    json_object_set_new(body, "tools", json_pack("[o]", tool));
}

static json_t *openai_body(const provider *p, const provider_request *request) {
    json_t *messages = json_array();
    json_array_append_new(messages, message("system", request->system));
    for (int32_t i = 0; i < request->turn_count; i++) {
        const provider_turn *turn = &request->turns[i];
        json_array_append_new(messages,
                              message(turn->is_answer ? "assistant" : "user", turn->text));
    }
    json_t *body = json_pack("{s:s,s:o}", "model", p->name, "messages", messages);
    /* Reasoning models of the maker take only the new name, other servers only the old one. */
    const char *most = p->is_makers_own ? "max_completion_tokens" : "max_tokens";
    int64_t tokens = request->answer_tokens_most > 0 ? request->answer_tokens_most : ANSWER_TOKENS;
    json_object_set_new(body, most, json_integer(tokens));
    if (!p->options.no_streaming) {
        json_object_set_new(body, "stream", json_true());
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    }
    if (request->grammar_gbnf.length) add_grammar(p, request, body);
    return body;
}

static void openai_usage(const json_t *body, wire_state *state) {
    const json_t *usage = json_object_get(body, "usage");
    if (!json_is_object(usage)) return;
    provider_answer *a = state->answer;
    a->prompt_tokens = provider_tokens(json_object_get(usage, "prompt_tokens"));
    a->answer_tokens = provider_tokens(json_object_get(usage, "completion_tokens"));
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    a->cached_tokens = provider_tokens(json_object_get(details, "cached_tokens"));
}

static void openai_part(json_t *body, const char *name, wire_state *state) {
    wire_read_error(body, state);
    openai_usage(body, state);
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    const json_t *part = json_object_get(choice, name);
    take_text(state, json_object_get(part, "content"));
    state->has_reason |= *json_text(part, "reasoning_content") || *json_text(part, "reasoning");
    const json_t *calls = json_object_get(part, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) { /* of a custom tool: the program itself */
        const json_t *custom = json_object_get(json_array_get(calls, i), "custom");
        take_text(state, json_object_get(custom, "input"));
    }
    const char *reason = json_text(choice, "finish_reason");
    if (*reason) state->is_complete = true;
    if (strcmp(reason, "length") == 0) state->answer->is_cut_off = true;
}

static void openai_event(json_t *event, wire_state *state) {
    openai_part(event, "delta", state);
}

static void openai_whole(json_t *body, wire_state *state) {
    openai_part(body, "message", state);
}

const wire wire_openai = {"/chat/completions", openai_body, openai_event, openai_whole};

/* --- Anthropic: POST v1/messages -------------------------------------------------------------- */

static json_t *anthropic_body(const provider *p, const provider_request *request) {
    json_t *messages = json_array();
    for (int32_t i = 0; i < request->turn_count; i++) {
        const provider_turn *turn = &request->turns[i];
        json_array_append_new(messages,
                              message(turn->is_answer ? "assistant" : "user", turn->text));
    }
    /* The mark of the end of what stays the same from request to request. */
    json_t *system = json_pack("[{s:s,s:o,s:{s:s}}]", "type", "text", "text",
                               wire_string(request->system), "cache_control", "type", "ephemeral");
    int64_t tokens = request->answer_tokens_most > 0 ? request->answer_tokens_most : ANSWER_TOKENS;
    return json_pack("{s:s,s:I,s:o,s:o,s:b}", "model", p->name, "max_tokens", (json_int_t)tokens,
                     "system", system, "messages", messages, "stream", !p->options.no_streaming);
}

static void anthropic_usage(const json_t *usage, wire_state *state) {
    provider_answer *a = state->answer;
    int64_t fresh = provider_tokens(json_object_get(usage, "input_tokens"));
    int64_t cached = provider_tokens(json_object_get(usage, "cache_read_input_tokens"));
    int64_t written = provider_tokens(json_object_get(usage, "cache_creation_input_tokens"));
    int64_t out = provider_tokens(json_object_get(usage, "output_tokens"));
    if (fresh + cached + written) a->prompt_tokens = fresh + cached + written;
    if (cached) a->cached_tokens = cached;
    if (out) a->answer_tokens = out;
}

static void anthropic_stop(const json_t *of, wire_state *state) {
    const char *reason = json_text(of, "stop_reason");
    if (*reason) state->is_complete = true;
    if (strcmp(reason, "max_tokens") == 0) state->answer->is_cut_off = true;
}

static void anthropic_event(json_t *event, wire_state *state) {
    const char *type = json_text(event, "type");
    wire_read_error(event, state);
    if (strcmp(type, "message_start") == 0) {
        anthropic_usage(json_object_get(json_object_get(event, "message"), "usage"), state);
    } else if (strcmp(type, "content_block_delta") == 0) {
        const json_t *delta = json_object_get(event, "delta");
        take_text(state, json_object_get(delta, "text"));
        state->has_reason |= *json_text(delta, "thinking") != 0;
    } else if (strcmp(type, "message_delta") == 0) {
        anthropic_usage(json_object_get(event, "usage"), state);
        anthropic_stop(json_object_get(event, "delta"), state);
    } else if (strcmp(type, "message_stop") == 0) {
        state->is_complete = true;
    }
}

static void anthropic_whole(json_t *body, wire_state *state) {
    wire_read_error(body, state);
    anthropic_usage(json_object_get(body, "usage"), state);
    anthropic_stop(body, state);
    const json_t *blocks = json_object_get(body, "content");
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        take_text(state, json_object_get(json_array_get(blocks, i), "text"));
    }
}

const wire wire_anthropic = {"/v1/messages", anthropic_body, anthropic_event, anthropic_whole};
