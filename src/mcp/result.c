/* What a call gives back: short enough for a context window, and as data beside the text. */
#include "mcp/internal.h"

#include "base/json.h"

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

static json_t *content_of(str text) {
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
    return json_pack("{s:s, s:o}", "type", "text", "text", string);
}

/* Whole lines of a text: those that were asked for, as many as fit, at least one. */
typedef struct page {
    str text;
    int64_t end, total; /* lines: after the last one of the page; of the text */
} page;

static page page_of(str text, int64_t offset, int64_t limit) {
    page p = {.end = offset};
    bool is_full = false;
    for (; text.length; p.total++) {
        const char *begin = text.data;
        str_cut(&text, '\n');
        if (p.total < offset || is_full) continue;
        if (p.total == offset) p.text.data = begin;
        size_t length = (size_t)(text.data - p.text.data);
        is_full =
            (limit && p.total - offset >= limit) || (p.total > offset && length > TEXT_BYTES_MAX);
        if (!is_full) p.text.length = length, p.end = p.total + 1;
    }
    return p;
}

static void add_lines(text_buffer *out, const json_t *objects) {
    for (size_t i = 0; i < json_array_size(objects); i++) {
        json_write_line(NULL, json_array_get(objects, i), JSON_COMPACT, out);
    }
}

/* The texts of the objects, one after the other; what else the objects hold goes to 'results'. */
static void take_texts(const json_t *objects, json_t *results, text_buffer *out) {
    for (size_t i = 0; i < json_array_size(objects); i++) {
        json_t *object = json_array_get(objects, i);
        const json_t *text = json_object_get(object, "text");
        text_add(out, (str){json_string_value(text), json_string_length(text)});
        json_object_del(object, "text");
        if (json_object_size(object)) json_array_append(results, object);
    }
}

/* A text as it is, a page of it; where it goes on, and what was found, are beside it. */
static json_t *paged_result(const mcp_call *call, str output, json_t *findings) {
    text_buffer text;
    text_init(&text, 64 << 20);
    json_t *objects = objects_of(output, &text), *results = json_array();
    take_texts(objects, results, &text);
    json_decref(objects);
    page p = page_of(text_str(&text), call->offset, call->limit);
    bool has_more = p.end < p.total;
    json_t *data =
        json_pack("{s:i, s:O, s:o, s:I, s:I}", "exit_status", 0, "findings", findings, "results",
                  results, "offset", (json_int_t)call->offset, "lines", (json_int_t)p.total);
    if (has_more) json_object_set_new(data, "next_offset", json_integer(p.end));
    text_buffer beside;
    text_init(&beside, 1 << 20);
    add_lines(&beside, findings);
    if (p.end == call->offset)
        text_format(&beside, "no line is left: the text has %lld\n", (long long)p.total);
    else if (call->offset || has_more)
        text_format(&beside, "lines %lld to %lld of %lld, counted from 0\n",
                    (long long)call->offset, (long long)p.end - 1, (long long)p.total);
    if (has_more)
        text_format(&beside, "the text goes on: ask again with offset %lld\n", (long long)p.end);
    json_t *contents = json_pack("[o]", content_of(p.text));
    text_done(&text);
    if (beside.length) json_array_append_new(contents, content_of(text_str(&beside)));
    text_done(&beside);
    return json_pack("{s:o, s:o, s:b}", "content", contents, "structuredContent", data, "isError",
                     0);
}

/* Findings, cases worth telling and whatever else was printed, in one text. */
static json_t *told_result(const mcp_call *call, str output, str said, json_t *findings,
                           int exit_code) {
    text_buffer printed, text;
    text_init(&printed, 64 << 20);
    text_init(&text, 64 << 20);
    bool is_plan = strcmp(call->tool->name, "plan") == 0; /* its JSON is the result itself */
    json_t *all = is_plan ? json_array() : objects_of(output, &printed);
    if (is_plan) text_add(&printed, output);
    json_t *results = worth_telling(all);
    add_lines(&text, findings);
    add_lines(&text, results);
    text_add(&text, text_str(&printed));
    if (exit_code || (!text.length && said.length)) text_add(&text, said);
    if (!text.length) text_add_z(&text, exit_code ? "it failed without a word\n" : "all is well\n");
    json_t *data = json_pack("{s:i, s:O, s:o}", "exit_status", exit_code, "findings", findings,
                             "results", results);
    json_t *result = json_pack("{s:[o], s:o, s:b}", "content", content_of(text_str(&text)),
                               "structuredContent", data, "isError", exit_code != 0);
    json_decref(all);
    text_done(&printed);
    text_done(&text);
    return result;
}

json_t *mcp_call_result(const mcp_call *call, str output, str errors, int exit_code) {
    text_buffer said;
    text_init(&said, 1 << 20);
    json_t *findings = objects_of(errors, &said);
    bool is_text = call->is_paged && !exit_code && output.length;
    json_t *result = is_text ? paged_result(call, output, findings)
                             : told_result(call, output, text_str(&said), findings, exit_code);
    json_decref(findings);
    text_done(&said);
    return result;
}

json_t *mcp_call_failure(const char *why) {
    return json_pack("{s:[o], s:b}", "content", content_of(str_from(why)), "isError", 1);
}
