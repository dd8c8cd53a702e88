/* The page, from top to bottom. */
#include "base/embedded.h"
#include "view/figures.h"
#include "view/highlight.h"
#include "view/line.h"
#include "view/object.h"
#include "view/view.h"

#include <string.h>

enum { ARENA_BYTES_MAX = 256 << 20, LEVELS = 3 };

typedef struct page {
    arena memory;
    const json_t *trace, *kernels;
    int *bases; /* by kernel: the page's number of its first statement */
    int statement_count;
    line_numbers *decided; /* by statement: decisions that belong to it */
    int level;             /* 0: all; 1: PTX without marks; 2: no PTX */
    text_buffer *out;
    line_list lines;
} page;

static int item(const json_t *list, size_t i) {
    return (int)json_integer_value(json_array_get(list, i));
}

static const json_t *statements_of(const json_t *kernel) {
    return json_object_get(kernel, "statements");
}

/* --- which statements a line is about --------------------------------------------------------- */

typedef struct lines {
    str text;
    line_numbers *about; /* by line, from 1 on */
    int count;
} lines;

static lines lines_of(page *p, const char *text) {
    lines all = {.text = str_from(text)};
    for (str rest = all.text; rest.length; all.count++) str_cut(&rest, '\n');
    all.about = arena_array(&p->memory, line_numbers, all.count + 1);
    return all;
}

static void add_about(page *p, lines *all, const json_t *span, int statement) {
    for (int line = item(span, 0); line <= item(span, 1) && line <= all->count; line++) {
        line_numbers *about = &all->about[line];
        bool is_known = about->count && about->items[about->count - 1] == statement;
        if (line > 0 && !is_known) list_push(&p->memory, about, statement);
    }
}

/* 'key' is of a pair of lines, or of a list of such pairs. */
static void add_kernel(page *p, lines *all, size_t number, const char *key) {
    size_t i, k;
    const json_t *s, *span;
    json_array_foreach(statements_of(json_array_get(p->kernels, number)), i, s) {
        const json_t *given = json_object_get(s, key);
        int statement = p->bases[number] + (int)i;
        if (json_is_integer(json_array_get(given, 0))) {
            add_about(p, all, given, statement);
            continue;
        }
        json_array_foreach(given, k, span) add_about(p, all, span, statement);
    }
}

static void add_taken(page *p, lines *all) {
    size_t i, k;
    const json_t *taken, *number;
    json_array_foreach(json_object_get(p->trace, "taken"), i, taken) {
        size_t kernel = (size_t)integer_in(taken, "kernel");
        json_array_foreach(json_object_get(taken, "statements"), k, number) {
            int statement = p->bases[kernel] + (int)json_integer_value(number);
            add_about(p, all, json_object_get(taken, "sketch"), statement);
        }
    }
}

/* --- heat ------------------------------------------------------------------------------------- */

static const json_t *counts_at(const json_t *kernel, int line) {
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(kernel, "counts"), i, entry) {
        if (integer_in(entry, "line") == line) return json_object_get(entry, "counts");
    }
    return NULL;
}

static long long most_cost(const json_t *kernel) {
    size_t i;
    const json_t *entry;
    long long most = 0;
    json_array_foreach(json_object_get(kernel, "counts"), i, entry) {
        long long cost = line_cost(json_object_get(entry, "counts"));
        if (cost > most) most = cost;
    }
    return most;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_words(page *p, str line, str text, const char *classes) {
    size_t at = (size_t)(line.data - text.data);
    view_add_line(p->out, line, classes ? classes + at : NULL);
    text_add_z(p->out, "</li>\n");
}

static void open_pane(page *p, const char *id, const char *title) {
    text_format(p->out,
                "<section class=pane id=%s><h2>%s</h2><div class=scroll tabindex=0 "
                "aria-label=\"%s\">\n",
                id, title, title);
}

static void close_pane(page *p) {
    text_add_z(p->out, "</div></section>\n");
}

static bool is_decided(const page *p, const line_numbers *about) {
    for (int i = 0; i < about->count; i++)
        if (p->decided[about->items[i]].count) return true;
    return false;
}

/* Lines of the sketch for which no statement stands any more. */
static bool is_taken(const page *p, int line) {
    size_t i;
    const json_t *taken;
    json_array_foreach(json_object_get(p->trace, "taken"), i, taken) {
        const json_t *span = json_object_get(taken, "sketch");
        if (item(span, 0) <= line && line <= item(span, 1)) return true;
    }
    return false;
}

static const json_t *statement_at(const page *p, int number) {
    size_t k = json_array_size(p->kernels);
    while (k > 1 && p->bases[k - 1] > number) k--;
    return json_array_get(statements_of(json_array_get(p->kernels, k - 1)),
                          (size_t)(number - p->bases[k - 1]));
}

static void add_sketch(page *p) {
    const char *text = text_in(p->trace, "sketch");
    if (!*text) return;
    lines all = lines_of(p, text);
    for (size_t k = 0; k < json_array_size(p->kernels); k++) add_kernel(p, &all, k, "sketch");
    add_taken(p, &all);
    const char *classes = view_classes(&p->memory, all.text, VIEW_TL);
    open_pane(p, "sketch", "Sketch");
    line_open_list(&p->lines);
    str rest = all.text;
    for (int line = 1; line <= all.count; line++) {
        line_look how = {.prefix = "s", .class = is_taken(p, line) ? "gone" : ""};
        line_open(&p->lines, line, &all.about[line], how);
        add_words(p, str_cut(&rest, '\n'), all.text, classes);
    }
    line_close_list(&p->lines);
    close_pane(p);
}

static long long waits_of(const json_t *statement) {
    return integer_in(json_object_get(statement, "stall"), "clocks");
}

static void add_code(page *p) {
    lines all = lines_of(p, text_in(p->trace, "code"));
    long long most = 0, most_waits = 0;
    for (size_t k = 0; k < json_array_size(p->kernels); k++) add_kernel(p, &all, k, "code");
    for (int i = 0; i < p->statement_count; i++) {
        long long cost = line_cost(json_object_get(statement_at(p, i), "counts"));
        if (cost > most) most = cost;
        long long waits = waits_of(statement_at(p, i));
        if (waits > most_waits) most_waits = waits;
    }
    const char *classes = view_classes(&p->memory, all.text, VIEW_TL);
    open_pane(p, "code", "TL Code");
    line_open_list(&p->lines);
    str rest = all.text;
    for (int line = 1; line <= all.count; line++) {
        const line_numbers *about = &all.about[line];
        const json_t *s = about->count ? statement_at(p, about->items[0]) : NULL;
        line_look how = {.prefix = "c",
                         .class = is_decided(p, about) ? "decided" : "",
                         .counts = json_object_get(s, "counts"),
                         .most = most,
                         .waits = waits_of(s),
                         .most_waits = most_waits};
        line_open(&p->lines, line, about, how);
        add_words(p, str_cut(&rest, '\n'), all.text, classes);
    }
    line_close_list(&p->lines);
    close_pane(p);
}

static void add_name(page *p, const json_t *kernel) {
    if (json_array_size(p->kernels) < 2) return;
    text_add_z(p->out, "<h3>");
    text_add_html(p->out, str_from(text_in(kernel, "entry")));
    text_add_z(p->out, "</h3>\n");
}

static void add_cuda(page *p) {
    size_t k;
    const json_t *kernel;
    open_pane(p, "cuda", "CUDA");
    json_array_foreach(p->kernels, k, kernel) {
        lines all = lines_of(p, text_in(kernel, "cuda"));
        const char *classes = view_classes(&p->memory, all.text, VIEW_CUDA);
        const char *prefix = str_copy_z(&p->memory, str_format(&p->memory, "u%d-", (int)k));
        add_kernel(p, &all, k, "cuda");
        add_name(p, kernel);
        line_open_list(&p->lines);
        str rest = all.text;
        for (int line = 1; line <= all.count; line++) {
            line_look how = {.prefix = prefix,
                             .class = "",
                             .counts = counts_at(kernel, line),
                             .most = most_cost(kernel)};
            line_open(&p->lines, line, &all.about[line], how);
            add_words(p, str_cut(&rest, '\n'), all.text, classes);
        }
        line_close_list(&p->lines);
    }
    close_pane(p);
}

/* What a reader of instructions does not look for. */
static bool is_left_out(str line) {
    str word = str_trim(line);
    return !word.length || str_starts(word, STR(".loc")) || str_starts(word, STR(".file"));
}

static void add_ptx_lines(page *p, size_t k, const json_t *kernel) {
    lines all = lines_of(p, text_in(kernel, "ptx"));
    const char *classes = p->level ? NULL : view_classes(&p->memory, all.text, VIEW_PTX);
    const char *prefix = str_copy_z(&p->memory, str_format(&p->memory, "p%d-", (int)k));
    add_kernel(p, &all, k, "ptx");
    line_open_list(&p->lines);
    str rest = all.text;
    for (int line = 1; line <= all.count; line++) {
        str words = str_cut(&rest, '\n');
        if (str_starts(str_trim(words), STR(".section"))) break; /* tables for debuggers */
        if (is_left_out(words)) continue;
        line_open(&p->lines, line, &all.about[line], (line_look){.prefix = prefix, .class = ""});
        add_words(p, words, all.text, classes);
    }
    line_close_list(&p->lines);
}

static void add_ptx(page *p) {
    size_t k;
    const json_t *kernel;
    bool has_any = false;
    json_array_foreach(p->kernels, k, kernel) has_any |= *text_in(kernel, "ptx") != 0;
    if (!has_any || p->level == 2) return;
    open_pane(p, "ptx", "PTX");
    json_array_foreach(p->kernels, k, kernel) {
        add_name(p, kernel);
        if (*text_in(kernel, "ptx")) add_ptx_lines(p, k, kernel);
    }
    close_pane(p);
}

/* --- below the texts -------------------------------------------------------------------------- */

static void add_decision(page *p, const json_t *decision, int number) {
    size_t i;
    const json_t *part;
    line_numbers about = {0};
    size_t kernel = (size_t)integer_in(decision, "kernel");
    json_array_foreach(json_object_get(decision, "statements"), i, part) {
        list_push(&p->memory, &about, p->bases[kernel] + (int)json_integer_value(part));
    }
    text_format(p->out, "<article class=decision id=decision%d data-d=%d", number, number);
    line_add_numbers(p->out, "data-s", &about);
    text_add_z(p->out, "><h3>");
    text_add_html(p->out, str_from(text_in(decision, "subject")));
    text_add_z(p->out, " <small>");
    text_add_html(p->out, str_from(text_in(decision, "pass")));
    text_add_z(p->out, "</small></h3><p>");
    text_add_html(p->out, str_from(text_in(decision, "sentence")));
    text_add_z(p->out, "</p>\n");
    json_array_foreach(json_object_get(decision, "tables"), i, part) view_add_table(p->out, part);
    text_add_z(p->out, "</article>\n");
}

static void add_below(page *p) {
    size_t i;
    const json_t *one;
    const json_t *decisions = json_object_get(p->trace, "decisions");
    bool has_decisions = json_array_size(decisions) > 0;
    text_add_z(p->out, "<div id=below><div id=tabs role=tablist>"
                       "<button type=button role=tab data-for=chosen>Statement</button>");
    if (has_decisions)
        text_add_z(p->out, "<button type=button role=tab data-for=decisions>Decisions</button>");
    text_add_z(p->out,
               "<button type=button role=tab data-for=memory>Memory</button>"
               "<button type=button role=tab data-for=times>Timeline</button></div>\n"
               "<section id=chosen aria-live=polite><p>Choose a line: what it comes from and "
               "what became of it is marked in all texts. <kbd>1</kbd> to <kbd>4</kbd> go to "
               "a text, arrows from line to line and from text to text, <kbd>d</kbd> to the "
               "decisions, <kbd>t</kbd> to the timeline, <kbd>s</kbd> to the statement, "
               "<kbd>Esc</kbd> forgets.</p>"
               "</section>\n");
    if (has_decisions) {
        text_add_z(p->out, "<section id=decisions>\n");
        json_array_foreach(decisions, i, one) add_decision(p, one, (int)i);
        text_add_z(p->out, "</section>\n");
    }
    text_add_z(p->out, "<section id=memory>\n");
    json_array_foreach(p->kernels, i, one) view_add_memory(p->out, one, p->bases[i]);
    text_add_z(p->out, "</section>\n<section id=times>\n");
    json_array_foreach(p->kernels, i, one) view_add_timeline(p->out, one, p->bases[i]);
    text_add_z(p->out, "</section></div>\n");
}

/* --- data for the script ---------------------------------------------------------------------- */

static json_t *statement_data(page *p, json_writer *w, const json_t *s, int number) {
    static const char *const kept[] = {"text", "passes", "order", "counts", "stall"};
    json_t *object = json_object(), *decided = json_array();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *value = json_object_get(s, kept[i]);
        if (value) json_put(w, object, kept[i], json_incref(value));
    }
    for (int i = 0; i < p->decided[number].count; i++)
        json_add(w, decided, json_integer(p->decided[number].items[i]));
    json_put(w, object, "decisions", decided);
    return object;
}

static void add_data(page *p) {
    json_writer w = {0};
    json_t *root = json_object(), *statements = json_array(), *decisions = json_array();
    size_t i;
    const json_t *one;
    for (int n = 0; n < p->statement_count; n++)
        json_add(&w, statements, statement_data(p, &w, statement_at(p, n), n));
    json_array_foreach(json_object_get(p->trace, "decisions"), i, one) {
        json_t *object = json_object();
        json_put(&w, object, "subject", json_from(str_from(text_in(one, "subject"))));
        json_put(&w, object, "sentence", json_from(str_from(text_in(one, "sentence"))));
        json_add(&w, decisions, object);
    }
    json_put(&w, root, "statements", statements);
    json_put(&w, root, "decisions", decisions);
    text_buffer text;
    text_init(&text, 64 << 20);
    json_write_line(&w, root, JSON_COMPACT, &text);
    json_decref(root);
    text_add_z(p->out, "<script type=\"application/json\" id=data>");
    for (str rest = text_str(&text); rest.length;) { /* no "</script>" in a string ends it */
        str before = str_cut(&rest, '<');
        text_add(p->out, before);
        if (rest.length) text_add_z(p->out, "\\u003c");
    }
    text_add_z(p->out, "</script>\n");
    p->out->failed |= text.failed;
    text_done(&text);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void add_file(text_buffer *out, const char *name) {
    for (const embedded_file *f = embedded_view; f->name; f++)
        if (strcmp(f->name, name) == 0) text_add(out, (str){f->data, f->length});
}

static void add_head(page *p) {
    const json_t *first = json_array_get(p->kernels, 0);
    str name = str_from(text_in(first, "name"));
    text_add_z(p->out, "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
                       "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=generator content=\"FlashTL\">\n<title>");
    text_add_html(p->out, name);
    text_add_z(p->out, " for ");
    text_add_html(p->out, str_from(text_in(first, "gpu")));
    text_add_z(p->out, "</title>\n<style>\n");
    add_file(p->out, "style");
    text_add_z(p->out, "</style>\n</head>\n<body>\n<header><h1>");
    text_add_html(p->out, name);
    text_add_z(p->out, " <small>for ");
    text_add_html(p->out, str_from(text_in(first, "title")));
    text_add_z(p->out, "</small></h1>\n");
}

static void add_facts(page *p) {
    size_t k;
    const json_t *kernel;
    json_array_foreach(p->kernels, k, kernel) {
        long long blocks = integer_in(kernel, "blocks_per_sm");
        text_add_z(p->out, "<p class=facts>");
        if (json_array_size(p->kernels) > 1) {
            text_add_html(p->out, str_from(text_in(kernel, "entry")));
            text_add_z(p->out, ": ");
        }
        text_format(p->out,
                    "%lld threads, %lld block%s on a multiprocessor, about %lld registers a "
                    "thread, %lld bytes of shared memory",
                    integer_in(kernel, "threads"), blocks, blocks == 1 ? "" : "s",
                    integer_in(kernel, "registers"), integer_in(kernel, "shared_bytes"));
        double tflops = json_number_value(json_object_get(p->trace, "predicted_tflops"));
        if (!k && tflops > 0) text_format(p->out, ", %.0f TFLOPS predicted", tflops);
        text_add_z(p->out, "</p>\n");
        if (*text_in(kernel, "note")) {
            text_add_z(p->out, "<p class=note>");
            text_add_html(p->out, str_from(text_in(kernel, "note")));
            text_add_z(p->out, "</p>\n");
        }
    }
    if (p->level == 2)
        text_add_z(p->out, "<p class=note>PTX is left out: the page would be too large</p>\n");
    text_add_z(p->out, "<nav aria-label=Texts></nav></header>\n<main>\n");
}

static void number_statements(page *p) {
    size_t kernels = json_array_size(p->kernels), i, k;
    const json_t *decision, *number;
    p->bases = arena_array(&p->memory, int, kernels + 1);
    for (i = 0; i < kernels; i++) {
        p->bases[i] = p->statement_count;
        p->statement_count += (int)json_array_size(statements_of(json_array_get(p->kernels, i)));
    }
    p->decided = arena_array(&p->memory, line_numbers, p->statement_count + 1);
    json_array_foreach(json_object_get(p->trace, "decisions"), i, decision) {
        size_t kernel = (size_t)integer_in(decision, "kernel");
        json_array_foreach(json_object_get(decision, "statements"), k, number) {
            int statement = p->bases[kernel] + (int)json_integer_value(number);
            list_push(&p->memory, &p->decided[statement], (int)i);
        }
    }
}

static void write_page(page *p) {
    number_statements(p);
    add_head(p);
    add_facts(p);
    add_sketch(p);
    add_code(p);
    add_cuda(p);
    add_ptx(p);
    text_add_z(p->out, "</main>\n");
    add_below(p);
    add_data(p);
    text_add_z(p->out, "<script>\n");
    add_file(p->out, "script");
    text_add_z(p->out, "</script>\n</body>\n</html>\n");
}

/* False without memory. */
static bool try_page(page *p) {
    jmp_buf exhausted;
    if (setjmp(exhausted)) return false;
    p->memory.on_exhausted = &exhausted;
    write_page(p);
    return true;
}

void view_page(const json_t *trace, text_buffer *out) {
    size_t limit = out->limit_bytes;
    for (int level = 0; level < LEVELS; level++) {
        page p = {.trace = trace, .level = level, .out = out, .lines = {.out = out}};
        p.kernels = json_object_get(trace, "kernels");
        text_done(out);
        text_init(out, limit);
        arena_init(&p.memory, ARENA_BYTES_MAX);
        out->failed |= !try_page(&p);
        arena_done(&p.memory);
        if (out->failed || out->length <= VIEW_PAGE_BYTES_MAX) return;
    }
}
