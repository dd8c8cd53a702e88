/* What a call gives back: short enough for a context window, and as data beside the text. */
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINDINGS_MAX = 20, FAILURES_MAX = 10, TEXT_BYTES_MAX = 200000 };

/* The objects among the lines; other lines go to 'rest'. */
static json_t *objects_of(str lines, text_buffer *rest) {
    json_t *list = json_array();
    while (lines.length) {
        str line = str_cut(&lines, '\n');
        json_t *object =
            line.length && *line.data == '{' ? json_loadb(line.data, line.length, 0, NULL) : NULL;
        if (object) {
            json_array_append_new(list, object);
        } else if (line.length) {
            text_add(rest, line);
            text_add(rest, STR("\n"));
        }
    }
    return list;
}

/* Of many cases those that failed, and the summary. */
static json_t *worth_telling(const json_t *cases) {
    json_t *list = json_array();
    int failures = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);
        const char *verdict = json_string_value(json_object_get(one, "verdict"));
        bool passed = verdict && strcmp(verdict, "passed") == 0;
        bool failed = verdict && strcmp(verdict, "failed") == 0;
        if (passed || (failed && failures++ >= FAILURES_MAX)) continue;
        if (json_array_size(list) < FINDINGS_MAX + FAILURES_MAX) json_array_append(list, one);
    }
    return list;
}

static json_t *text_content(str text) {
    char cut[64] = "";
    if (text.length > TEXT_BYTES_MAX) {
        snprintf(cut, sizeof cut, "\n... %zu further bytes\n", text.length - TEXT_BYTES_MAX);
        text.length = TEXT_BYTES_MAX;
        while (text.length && ((unsigned char)text.data[text.length] & 0xC0) == 0x80) text.length--;
    }
    text_buffer whole;
    text_init(&whole, TEXT_BYTES_MAX + sizeof cut + 1);
    text_add(&whole, text);
    text_add_z(&whole, cut);
    json_t *string = json_stringn(whole.data ? whole.data : "", whole.length);
    if (!string) string = json_string("the output is no text");
    text_done(&whole);
    return json_pack("[{s:s, s:o}]", "type", "text", "text", string);
}

static void add_lines(text_buffer *out, const json_t *objects) {
    for (size_t i = 0; i < json_array_size(objects); i++) {
        char *line = json_dumps(json_array_get(objects, i), JSON_COMPACT);
        text_format(out, "%s\n", line ? line : "");
        free(line);
    }
}

json_t *mcp_call_result(const mcp_call *call, str output, str errors, int exit_code) {
    text_buffer said, printed, text;
    text_init(&said, 1 << 20);
    text_init(&printed, 64 << 20);
    text_init(&text, 64 << 20);
    json_t *findings = objects_of(errors, &said);
    bool is_plan = strcmp(call->tool->name, "plan") == 0; /* its JSON is the result itself */
    json_t *all = is_plan ? json_array() : objects_of(output, &printed);
    if (is_plan) text_add(&printed, output);
    json_t *results = worth_telling(all);
    add_lines(&text, findings);
    add_lines(&text, results);
    text_add(&text, text_str(&printed));
    if (exit_code || (!text.length && said.length)) text_add(&text, text_str(&said));
    if (!text.length) text_add_z(&text, exit_code ? "it failed without a word\n" : "all is well\n");
    json_t *data = json_pack("{s:i, s:o, s:o}", "exit_status", exit_code, "findings", findings,
                             "results", results);
    json_t *result = json_pack("{s:o, s:o, s:b}", "content", text_content(text_str(&text)),
                               "structuredContent", data, "isError", exit_code != 0);
    json_decref(all);
    text_done(&said);
    text_done(&printed);
    text_done(&text);
    return result;
}

json_t *mcp_call_failure(const char *why) {
    return json_pack("{s:o, s:b}", "content", text_content(str_from(why)), "isError", 1);
}
