/* The server: messages in, messages out, one call at a time. */
#include "base/json.h"
#include "base/number.h"
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES_MAX = 16 << 20,
    INPUT_BYTES_MAX = 2 * LINE_BYTES_MAX, /* with what came with the end of the longest line */
    WAITING_MAX = 256,
    WAITING_BYTES_MAX = 64 << 20,
    OUTPUT_BYTES_MAX = 64 << 20,
    BEAT_MS = 200
};

#define META_PREFIX "io.modelcontextprotocol/"

static const char *const handshake_revisions[] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                                  "2025-11-25"};
static const char *const plain_revision = "2026-07-28"; /* without a handshake */
enum { HANDSHAKE_COUNT = sizeof handshake_revisions / sizeof *handshake_revisions };

typedef struct server {
    const mcp_options *options;
    text_buffer input;    /* what has come and is no whole line yet */
    json_t *waiting;      /* messages that came and were not answered yet */
    size_t waiting_bytes; /* of their lines, since nothing waited last */
    bool is_skipping;     /* the rest of a line that is too long */
    bool has_ended;       /* standard input has */
    bool is_broken;       /* standard output is */
    bool is_plain;        /* the request at hand is of the form without a handshake */
} server;

/* --- out -------------------------------------------------------------------------------------- */

static void send_message(server *s, json_t *message) {
    char *line = json_write(NULL, message, JSON_COMPACT);
    bool is_written = line && fputs(line, stdout) >= 0 && fputc('\n', stdout) >= 0;
    if (!is_written || fflush(stdout) != 0) s->is_broken = true;
    free(line);
    json_decref(message);
}

static void answer_error(server *s, const json_t *id, int code, const char *words, json_t *data) {
    json_t *error = json_pack("{s:i, s:s}", "code", code, "message", words);
    if (data) json_object_set_new(error, "data", data);
    send_message(s, json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id, "error", error));
}

/* In the form without a handshake every result says that it is whole, and who made it. */
static void answer(server *s, const json_t *id, json_t *result) {
    if (s->is_plain) {
        json_object_set_new(result, "resultType", json_string("complete"));
        json_object_set_new(result, "_meta",
                            json_pack("{s:{s:s, s:s}}", META_PREFIX "serverInfo", "name", "flashtl",
                                      "version", s->options->version));
    }
    send_message(s, json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

/* Lists that stay the same as long as the program does. */
static json_t *cacheable(const server *s, json_t *result) {
    if (!s->is_plain) return result;
    json_object_set_new(result, "ttlMs", json_integer(3600000));
    json_object_set_new(result, "cacheScope", json_string("public"));
    return result;
}

/* --- in --------------------------------------------------------------------------------------- */

static bool has_no_room(server *s, size_t bytes) {
    if (json_array_size(s->waiting) == 0) s->waiting_bytes = 0;
    return json_array_size(s->waiting) >= WAITING_MAX ||
           s->waiting_bytes + bytes > WAITING_BYTES_MAX;
}

static void take_line(server *s, str line) {
    bool is_rest = s->is_skipping;
    s->is_skipping = false;
    if (is_rest || str_trim(line).length == 0) return;
    json_error_t problem;
    json_t *message =
        json_loadb(line.data, line.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (!message) answer_error(s, NULL, MCP_PARSE_ERROR, problem.text, NULL);
    else if (!json_is_object(message)) {
        answer_error(s, NULL, MCP_INVALID_REQUEST, "a message is one JSON object", NULL);
    } else if (json_object_get(message, "id") && has_no_room(s, line.length)) {
        answer_error(s, json_object_get(message, "id"), MCP_INVALID_REQUEST,
                     "too many requests are waiting", NULL);
    } else if (json_array_size(s->waiting) < 2 * WAITING_MAX) { /* a cancellation finds room */
        json_array_append(s->waiting, message);
        s->waiting_bytes += line.length;
    }
    json_decref(message);
}

/* A line longer than a message may be is answered once, and read past. */
static void skip_line(server *s) {
    if (!s->is_skipping)
        answer_error(s, NULL, MCP_INVALID_REQUEST, "a message is longer than 16 MiB", NULL);
    s->is_skipping = true;
}

/* Reads what there is and takes the whole lines of it. */
static void read_more(server *s) {
    if (!os_read_input(&s->input)) s->has_ended = true;
    str rest = text_str(&s->input);
    for (const char *end; (end = memchr(rest.data, '\n', rest.length)) != NULL;) {
        size_t length = (size_t)(end - rest.data);
        if (length > LINE_BYTES_MAX) skip_line(s);
        take_line(s, (str){rest.data, length});
        rest.data += length + 1;
        rest.length -= length + 1;
    }
    if (rest.length > LINE_BYTES_MAX) skip_line(s);
    if (s->is_skipping) rest.length = 0;
    if (s->has_ended) take_line(s, rest), rest.length = 0;
    if (rest.length) memmove(s->input.data, rest.data, rest.length);
    s->input.length = rest.length;
}

static json_t *next_message(server *s) {
    while (!s->has_ended && json_array_size(s->waiting) == 0) read_more(s);
    json_t *message = json_array_get(s->waiting, 0);
    json_incref(message);
    if (message) json_array_remove(s->waiting, 0);
    return message;
}

static const char *method_of(const json_t *message) {
    const char *method = json_string_value(json_object_get(message, "method"));
    return method ? method : "";
}

/* Was the request with this id cancelled by what came meanwhile? Answers pings, too. */
static bool look_through(server *s, const json_t *id) {
    bool is_cancelled = false;
    for (size_t i = 0; i < json_array_size(s->waiting);) {
        const json_t *message = json_array_get(s->waiting, i);
        const json_t *params = json_object_get(message, "params");
        bool cancels = strcmp(method_of(message), "notifications/cancelled") == 0;
        bool pings = strcmp(method_of(message), "ping") == 0;
        is_cancelled |= cancels && json_equal(json_object_get(params, "requestId"), id);
        if (pings) answer(s, json_object_get(message, "id"), json_object());
        if (cancels || pings) json_array_remove(s->waiting, i);
        else i++;
    }
    return is_cancelled;
}

/* --- tools ------------------------------------------------------------------------------------ */

typedef struct progress {
    const json_t *token; /* NULL: nobody wants to hear */
    size_t seen_bytes;
    int lines, told;
} progress;

static void tell_progress(server *s, progress *p, const text_buffer *output) {
    for (; p->seen_bytes < output->length; p->seen_bytes++) {
        p->lines += output->data[p->seen_bytes] == '\n';
    }
    if (!p->token || p->lines == p->told) return;
    p->told = p->lines;
    char words[64];
    snprintf(words, sizeof words, "%d lines of results", p->lines);
    send_message(s, json_pack("{s:s, s:s, s:{s:O, s:i, s:s}}", "jsonrpc", "2.0", "method",
                              "notifications/progress", "params", "progressToken", p->token,
                              "progress", p->lines, "message", words));
}

typedef enum call_end { CALL_ENDED, CALL_CANCELLED, CALL_TOO_LONG } call_end;

static call_end attend(server *s, os_child *child, const json_t *id, progress *p) {
    int64_t deadline_ns = os_time_ns() + (int64_t)(s->options->timeout_s * 1e9);
    bool has_input = false, goes_on = true;
    while (goes_on) {
        goes_on = os_child_attend(child, s->has_ended ? -1 : 0, BEAT_MS, &has_input);
        if (has_input) read_more(s);
        /* Who has said all may still listen. Who is gone needs no answer; nor does one that took
         * its question back.
         */
        if (s->is_broken || os_output_is_closed() || look_through(s, id)) return CALL_CANCELLED;
        tell_progress(s, p, child->output);
        if (os_time_ns() > deadline_ns) return CALL_TOO_LONG;
    }
    return CALL_ENDED;
}

static void run_call(server *s, const json_t *id, const mcp_call *call, const json_t *token) {
    text_buffer output, errors;
    os_child child;
    os_error why;
    text_init(&output, OUTPUT_BYTES_MAX);
    text_init(&errors, OUTPUT_BYTES_MAX);
    if (!os_child_start(&child, call->argv, call->input, &output, &errors, &why)) {
        answer(s, id, mcp_call_failure(why.text));
    } else {
        progress p = {.token = token};
        call_end end = attend(s, &child, id, &p);
        int exit_code = os_child_end(&child, end != CALL_ENDED);
        char words[128];
        number_print(words, sizeof words,
                     "the call was stopped after %.0f s; ask for less at a time",
                     s->options->timeout_s);
        if (end == CALL_TOO_LONG) answer(s, id, mcp_call_failure(words));
        else if (end == CALL_ENDED) {
            json_t *result = mcp_call_result(call, text_str(&output), text_str(&errors), exit_code);
            answer(s, id, result ? result : mcp_call_failure("out of memory"));
        }
    }
    text_done(&output);
    text_done(&errors);
}

static void call_tool(server *s, const json_t *id, const json_t *params) {
    const char *name = json_string_value(json_object_get(params, "name"));
    const json_t *arguments = json_object_get(params, "arguments");
    const mcp_tool *tool = name ? mcp_find_tool(name) : NULL;
    if (!tool || (arguments && !json_is_object(arguments))) {
        answer_error(s, id, MCP_INVALID_PARAMS,
                     tool ? "'arguments' must be an object" : "there is no such tool", NULL);
        return;
    }
    mcp_call call;
    char why[512];
    if (mcp_call_prepare(&call, s->options, tool, arguments, why)) {
        const json_t *meta = json_object_get(params, "_meta");
        run_call(s, id, &call, json_object_get(meta, "progressToken"));
    } else {
        answer(s, id, mcp_call_failure(why));
    }
    mcp_call_done(&call);
}

/* --- resources -------------------------------------------------------------------------------- */

static void list_resources(server *s, const json_t *id) {
    json_t *list = json_array();
    for (int i = 0; i < s->options->resource_count; i++) {
        const mcp_resource *r = &s->options->resources[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s}", "uri", r->uri, "name", r->name,
                                        "description", r->description, "mimeType", r->mime_type));
    }
    answer(s, id, cacheable(s, json_pack("{s:o}", "resources", list)));
}

static void read_resource(server *s, const json_t *id, const json_t *params) {
    const char *uri = json_string_value(json_object_get(params, "uri"));
    text_buffer text;
    text_init(&text, 4 << 20);
    const mcp_resource *found = NULL;
    for (int i = 0; uri && i < s->options->resource_count; i++) {
        if (strcmp(s->options->resources[i].uri, uri) == 0) found = &s->options->resources[i];
    }
    if (!found || !s->options->read(s->options->user, uri, &text)) {
        answer_error(s, id, s->is_plain ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
                     "there is no such resource", uri ? json_pack("{s:s}", "uri", uri) : NULL);
    } else {
        json_t *content = json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType", found->mime_type,
                                    "text", text.data ? text.data : "", text.length);
        answer(s, id, cacheable(s, json_pack("{s:[o]}", "contents", content)));
    }
    text_done(&text);
}

/* --- requests --------------------------------------------------------------------------------- */

static json_t *capabilities(void) {
    return json_pack("{s:{}, s:{}}", "tools", "resources");
}

static const char instructions[] =
    "FlashTL compiles TL, a small language of tiles, to CUDA kernels, and proves them right. Read "
    "flashtl://language first, write a sketch, then: check, interpret (is it what was meant?), "
    "reason (for a GPU), translate, verify. Every finding says where, what was expected and what "
    "was found.";

static void initialize(server *s, const json_t *id, const json_t *params) {
    const char *wanted = json_string_value(json_object_get(params, "protocolVersion"));
    const char *spoken = handshake_revisions[HANDSHAKE_COUNT - 1];
    for (int i = 0; wanted && i < HANDSHAKE_COUNT; i++) {
        if (strcmp(handshake_revisions[i], wanted) == 0) spoken = handshake_revisions[i];
    }
    answer(s, id,
           json_pack("{s:s, s:o, s:{s:s, s:s}, s:s}", "protocolVersion", spoken, "capabilities",
                     capabilities(), "serverInfo", "name", "flashtl", "version",
                     s->options->version, "instructions", instructions));
}

static json_t *all_revisions(void) {
    json_t *list = json_array();
    for (int i = 0; i < HANDSHAKE_COUNT; i++)
        json_array_append_new(list, json_string(handshake_revisions[i]));
    json_array_append_new(list, json_string(plain_revision));
    return list;
}

static void discover(server *s, const json_t *id) {
    answer(s, id,
           cacheable(s, json_pack("{s:o, s:o, s:s}", "supportedVersions", all_revisions(),
                                  "capabilities", capabilities(), "instructions", instructions)));
}

/* Does the request name a revision that is not spoken? Notes the form it is of. */
static bool refuses_revision(server *s, const json_t *id, const json_t *params) {
    const json_t *meta = json_object_get(params, "_meta");
    const char *named = json_string_value(json_object_get(meta, META_PREFIX "protocolVersion"));
    s->is_plain = named != NULL;
    if (!named || strcmp(named, plain_revision) == 0) return false;
    s->is_plain = false;
    answer_error(s, id, MCP_UNSUPPORTED_VERSION, "that revision of the protocol is not spoken",
                 json_pack("{s:o, s:s}", "supported", all_revisions(), "requested", named));
    return true;
}

static void handle(server *s, const json_t *message) {
    const json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");
    const char *method = method_of(message);
    bool is_answer = json_object_get(message, "result") || json_object_get(message, "error");
    if (is_answer) return;      /* we ask for nothing */
    if (!id && *method) return; /* notifications change nothing here */
    if (!*method || !(json_is_string(id) || json_is_integer(id))) {
        answer_error(s, NULL, MCP_INVALID_REQUEST, "a request has a 'method' and an 'id'", NULL);
        return;
    }
    if (refuses_revision(s, id, params)) return;
    if (strcmp(method, "initialize") == 0) initialize(s, id, params);
    else if (strcmp(method, "server/discover") == 0) discover(s, id);
    else if (strcmp(method, "ping") == 0) answer(s, id, json_object());
    else if (strcmp(method, "tools/list") == 0)
        answer(s, id, cacheable(s, json_pack("{s:o}", "tools", mcp_list_tools(s->options))));
    else if (strcmp(method, "tools/call") == 0) call_tool(s, id, params);
    else if (strcmp(method, "resources/list") == 0) list_resources(s, id);
    else if (strcmp(method, "resources/templates/list") == 0)
        answer(s, id, cacheable(s, json_pack("{s:[]}", "resourceTemplates")));
    else if (strcmp(method, "resources/read") == 0) read_resource(s, id, params);
    else answer_error(s, id, MCP_METHOD_NOT_FOUND, "there is no such method", NULL);
}

bool mcp_serve(const mcp_options *options, os_error *why) {
    server s = {.options = options, .waiting = json_array()};
    text_init(&s.input, INPUT_BYTES_MAX);
    json_t *message;
    while (!s.is_broken && !s.input.failed && (message = next_message(&s)) != NULL) {
        handle(&s, message);
        json_decref(message);
    }
    bool is_well = !s.is_broken && !s.input.failed;
    if (!is_well) {
        snprintf(why->text, sizeof why->text, "%s",
                 s.is_broken ? "cannot write to standard output" : "out of memory");
    }
    json_decref(s.waiting);
    text_done(&s.input);
    return is_well;
}
