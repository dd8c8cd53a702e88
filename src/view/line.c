#include "view/line.h"

#include "view/object.h"

long long line_cost(const json_t *counts) {
    return integer_in(counts, "wavefronts") + integer_in(counts, "sectors");
}

static bool clashes(const json_t *counts) {
    return 4 * integer_in(counts, "wavefronts") > 5 * integer_in(counts, "least_wavefronts") ||
           4 * integer_in(counts, "sectors") > 5 * integer_in(counts, "least_sectors");
}

void line_add_numbers(text_buffer *out, const char *key, const line_numbers *list) {
    if (!list->count) return;
    text_format(out, " %s=\"", key);
    for (int i = 0; i < list->count; i++) text_format(out, "%s%d", i ? " " : "", list->items[i]);
    text_add_z(out, "\"");
}

/* Lines stand in lists of LIST_LINES, so that a browser lays out those alone that are in sight
 * (style.css, `content-visibility`). */
enum { LIST_LINES = 50 };

void line_open_list(line_list *l) {
    text_add_z(l->out, "<ol>\n");
    l->listed = 0;
}

void line_close_list(line_list *l) {
    text_add_z(l->out, "</ol>\n");
}

static void add_counted(line_list *l, const json_t *counts) {
    text_format(l->out, "%lld times by a warp", integer_in(counts, "executed"));
    if (integer_in(counts, "wavefronts"))
        text_format(l->out, "; %lld wavefronts, %lld at best", integer_in(counts, "wavefronts"),
                    integer_in(counts, "least_wavefronts"));
    if (integer_in(counts, "sectors"))
        text_format(l->out, "; %lld sectors, %lld at best", integer_in(counts, "sectors"),
                    integer_in(counts, "least_sectors"));
}

static void add_share(line_list *l, const char *name, long long part, long long whole) {
    long long share = 100 * part / whole;
    text_format(l->out, "--%s:%lld.%02lld;", name, share / 100, share % 100);
}

/* Bars in the line's margin, and what they stand for. */
static void add_bars(line_list *l, line_look how, bool is_hot) {
    if (!is_hot && !how.waits) return;
    text_add_z(l->out, " style=\"");
    if (is_hot) add_share(l, "h", line_cost(how.counts), how.most);
    if (how.waits) add_share(l, "w", how.waits, how.most_waits);
    text_add_z(l->out, "\" title=\"");
    if (is_hot) add_counted(l, how.counts);
    if (how.waits)
        text_format(l->out, "%spredicted to wait %lld clocks in two tiles", is_hot ? "; " : "",
                    how.waits);
    text_add_z(l->out, "\"");
}

void line_open(line_list *l, int line, const line_numbers *about, line_look how) {
    if (l->listed == LIST_LINES) {
        line_close_list(l);
        line_open_list(l);
    }
    l->listed++;
    bool is_hot = how.counts && how.most > 0 && line_cost(how.counts) > 0;
    text_format(l->out, "<li id=%s%d value=%d", how.prefix, line, line);
    line_add_numbers(l->out, "data-s", about);
    const char *hot = !is_hot ? "" : clashes(how.counts) ? " hot clash" : " hot";
    const char *stalls = how.waits ? " stalls" : "";
    if (*how.class || is_hot || how.waits)
        text_format(l->out, " class=\"%s%s%s\"", how.class, hot, stalls);
    add_bars(l, how, is_hot);
    text_add_z(l->out, ">");
}
