#include "think/report.h"

#include "base/embedded.h"
#include "think/record.h"

#include <string.h>

/* --- pieces ----------------------------------------------------------------------------------- */

static void add_escaped_z(text_buffer *out, const char *text) {
    text_add_html(out, str_from(text));
}

static void add_row(text_buffer *out, const char *name, const char *value) {
    if (!*value) return;
    text_format(out, "<div><dt>%s</dt><dd>", name);
    add_escaped_z(out, value);
    text_add_z(out, "</dd></div>\n");
}

static void add_style(text_buffer *out) {
    for (const embedded_file *f = embedded_prompts; f->name; f++) {
        if (strcmp(f->name, "report") == 0) text_add(out, (str){f->data, f->length});
    }
}

/* --- a text with its findings ----------------------------------------------------------------- */

static void add_message(text_buffer *out, const json_t *finding, const char *class) {
    text_format(out, "<p class=\"%s\"><b>", class);
    add_escaped_z(out, json_text(finding, "id"));
    text_add_z(out, "</b> ");
    add_escaped_z(out, json_text(finding, "message"));
    const char *expected = json_text(finding, "expected"), *found = json_text(finding, "found");
    if (*expected) {
        text_add_z(out, " <span>expected <code>");
        add_escaped_z(out, expected);
        text_add_z(out, "</code>, found <code>");
        add_escaped_z(out, found);
        text_add_z(out, "</code></span>");
    }
    const char *replacement = json_text(finding, "replacement");
    if (*replacement) {
        text_add_z(out, ": <code>");
        add_escaped_z(out, replacement);
        text_add_z(out, "</code>");
    }
    text_add_z(out, "</p>\n");
}

static void add_finding(text_buffer *out, const json_t *finding) {
    add_message(out, finding, "finding");
    const char *const lists[] = {"notes", "hints"};
    for (int i = 0; i < 2; i++) {
        const json_t *list = json_object_get(finding, lists[i]);
        for (size_t k = 0; k < json_array_size(list); k++) {
            add_message(out, json_array_get(list, k), "note");
        }
    }
}

static bool is_at(const json_t *finding, int line) {
    bool is_elsewhere = json_object_get(finding, "in") != NULL;
    return line > 0 && !is_elsewhere && (int)json_number(finding, "line") == line;
}

/* Lines with numbers; under each line what was found there. 'verdict' numbers the page's texts, so
 * that links find the lines.
 */
static void add_text(text_buffer *out, str text, const json_t *findings, int verdict) {
    text_add_z(out, "<div class=\"text\" tabindex=\"0\"><ol>\n");
    for (int line = 1; text.length; line++) {
        bool has_finding = false;
        str words = str_cut(&text, '\n');
        for (size_t i = 0; i < json_array_size(findings); i++) {
            has_finding |= is_at(json_array_get(findings, i), line);
        }
        if (has_finding)
            text_format(out, "<li class=\"wrong\" id=\"v%dl%d\"><code>", verdict, line);
        else text_add_z(out, "<li><code>");
        text_add_html(out, words);
        text_add_z(out, "</code>");
        for (size_t i = 0; i < json_array_size(findings); i++) {
            const json_t *finding = json_array_get(findings, i);
            if (is_at(finding, line)) add_finding(out, finding);
        }
        text_add_z(out, "</li>\n");
    }
    text_add_z(out, "</ol></div>\n");
}

static int line_count(str text) {
    int count = 0;
    while (text.length) {
        str_cut(&text, '\n');
        count++;
    }
    return count;
}

/* Findings without a line, or past the end of the text. */
static void add_others(text_buffer *out, const json_t *findings, int lines) {
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        bool is_shown = false;
        for (int line = 1; line <= lines && !is_shown; line++) is_shown = is_at(finding, line);
        if (!is_shown) add_finding(out, finding);
    }
}

/* In a long text a finding may stand out of sight: links to all of them. */
static void add_links(text_buffer *out, const json_t *findings, int lines, int verdict) {
    enum { IN_SIGHT = 30 };
    bool has_any = false;
    for (size_t i = 0; i < json_array_size(findings) && lines > IN_SIGHT; i++) {
        const json_t *finding = json_array_get(findings, i);
        int line = (int)json_number(finding, "line");
        if (!is_at(finding, line) || line > lines) continue;
        text_format(out, "%s<li><a href=\"#v%dl%d\">line %d</a>: ",
                    has_any ? "" : "<ul class=\"links\">", verdict, line, line);
        add_escaped_z(out, json_text(finding, "message"));
        text_add_z(out, "</li>\n");
        has_any = true;
    }
    if (has_any) text_add_z(out, "</ul>\n");
}

/* --- events ----------------------------------------------------------------------------------- */

static void add_folded(text_buffer *out, const char *title, const char *text) {
    text_format(out, "<details><summary>%s</summary><pre tabindex=\"0\">", title);
    add_escaped_z(out, text);
    text_add_z(out, "</pre></details>\n");
}

static void add_ask(text_buffer *out, const json_t *e) {
    text_format(out, "<p class=\"ask\">Round %d of <b>%s</b>: asked ", (int)json_number(e, "round"),
                json_text(e, "step"));
    add_escaped_z(out, json_text(e, "model"));
    text_format(out, ", answered in %.1f s", json_number(e, "ms") / 1000);
    if (json_number(e, "answer_tokens") > 0) {
        text_format(out, " (%.0f tokens in, %.0f out)", json_number(e, "prompt_tokens"),
                    json_number(e, "answer_tokens"));
    }
    text_add_z(out, "</p>\n");
    add_folded(out, "the question", json_text(e, "question"));
    add_folded(out, "the whole answer", json_text(e, "answer"));
}

static void add_facts(text_buffer *out, const json_t *facts) {
    const char *name;
    json_t *value;
    bool has_any = false;
    json_object_foreach((json_t *)(uintptr_t)facts, name, value) {
        if (!json_is_number(value)) continue;
        text_format(out, "%s%s %.6g", has_any ? ", " : "<p class=\"facts\">", name,
                    json_number_value(value));
        has_any = true;
    }
    if (has_any) text_add_z(out, "</p>\n");
    json_t *skipped = json_object_get(facts, "skipped");
    json_object_foreach(skipped, name, value) {
        text_format(out, "<p class=\"facts\">not judged by '%s': ", name);
        add_escaped_z(out, json_string_value(value) ? json_string_value(value) : "");
        text_add_z(out, "</p>\n");
    }
}

static void add_verdict(text_buffer *out, const json_t *e, int number) {
    bool passed = json_is_true(json_object_get(e, "passed"));
    const json_t *findings = json_object_get(e, "findings");
    str text = str_from(json_text(e, "text"));
    text_format(out, "<section class=\"round %s\"><h3>", passed ? "good" : "bad");
    add_escaped_z(out, json_text(e, "by"));
    if (json_number(e, "round") > 0) text_format(out, ", round %d", (int)json_number(e, "round"));
    text_format(out,
                "</h3><p><span class=\"badge\">%s '%s'</span> <span class=\"took\">judged in %.2f "
                "s</span></p>\n",
                passed ? "passed up to" : "failed", json_text(e, "rung"),
                json_number(e, "ms") / 1000);
    add_others(out, findings, line_count(text));
    add_links(out, findings, line_count(text), number);
    if (text.length) add_text(out, text, findings, number);
    add_facts(out, json_object_get(e, "facts"));
    text_add_z(out, "</section>\n");
}

static void add_column(text_buffer *out, const char *title, const char *text) {
    if (!*text) return;
    text_format(out, "<div><h3>%s</h3>", title);
    add_text(out, str_from(text), NULL, 0);
    text_add_z(out, "</div>\n");
}

static void add_result(text_buffer *out, const json_t *e) {
    bool is_verified = json_is_true(json_object_get(e, "verified"));
    text_format(
        out,
        "<section id=\"result\"><h2>What came of it</h2><p><span class=\"badge %s\">%s</span> ",
        is_verified ? "good" : "bad", is_verified ? "verified" : "no kernel");
    if (is_verified) {
        text_format(out, "up to '%s', by ", json_text(e, "rung"));
        add_escaped_z(out, json_text(e, "by"));
        text_format(out, " (candidate %d)", (int)json_number(e, "kept"));
    } else {
        add_escaped_z(out, json_text(e, "error"));
    }
    text_add_z(out, "</p><ul>\n");
    if (json_number(e, "tflops") > 0) {
        text_format(out, "<li>%.1f TFLOPS measured</li>\n", json_number(e, "tflops"));
    }
    const json_t *limits = json_object_get(e, "limits");
    for (size_t i = 0; i < json_array_size(limits); i++) {
        text_add_z(out, "<li>");
        add_escaped_z(out, json_string_value(json_array_get(limits, i)));
        text_add_z(out, "</li>\n");
    }
    text_format(out, "<li>%d answers, %.0f tokens</li></ul>\n", (int)json_number(e, "questions"),
                json_number(e, "tokens"));
    text_add_z(out, "<div class=\"columns\">\n");
    add_column(out, "Sketch", json_text(e, "sketch"));
    add_column(out, "TL Code", json_text(e, "code"));
    add_column(out, "CUDA", json_text(e, "cuda"));
    text_add_z(out, "</div></section>\n");
}

static void add_run(text_buffer *out, const json_t *e) {
    const char *step;
    json_t *model;
    const char *request = json_text(e, "request");
    text_add_z(out, "<header><h1>");
    add_escaped_z(out, *request ? request : "A kernel of a given sketch");
    text_add_z(out, "</h1><dl>\n");
    add_row(out, "GPU", json_text(e, "gpu"));
    add_row(out, "type", json_text(e, "dtype"));
    json_object_foreach(json_object_get(e, "agents"), step, model)
        add_row(out, step, json_string_value(model));
    add_row(out, "record", json_text(e, "id"));
    text_add_z(out, "</dl></header>\n<main>\n");
}

typedef struct report {
    text_buffer *page;
    int events;
} report;

static void add_event(void *user, json_t *e) {
    report *r = user;
    text_buffer *out = r->page;
    int number = r->events++;
    const char *kind = json_text(e, "event");
    if (strcmp(kind, "run") == 0) add_run(out, e);
    else if (strcmp(kind, "prompt") == 0)
        add_folded(out, "what the model was told first", json_text(e, "system"));
    else if (strcmp(kind, "ask") == 0) add_ask(out, e);
    else if (strcmp(kind, "verdict") == 0) add_verdict(out, e, number);
    else if (strcmp(kind, "result") == 0) add_result(out, e);
}

ftl_status report_write(ftl_context *context, str record, text_buffer *page) {
    report r = {.page = page};
    text_add_z(page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<title>How a kernel came to be</title>\n<style>\n");
    add_style(page);
    text_add_z(page, "</style></head>\n<body>\n");
    ftl_status status = record_each(context, record, "the record", add_event, &r);
    text_add_z(page, "</main></body></html>\n");
    if (status) return status;
    return page->failed ? ftl_context_fail(context, FTL_NO_MEMORY, "the page is too long") : FTL_OK;
}
