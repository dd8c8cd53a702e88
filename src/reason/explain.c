/* Decisions as text: paragraphs and aligned tables, in lines that fit a terminal. */
#include "reason/pass.h"

reason_table *reason_compare(reason *r, reason_decision *d, const char *title, int row_count) {
    reason_table table = {.title = str_from(title), .row_count = row_count};
    list_push(r->memory, &d->tables, table);
    return &d->tables.items[d->tables.count - 1];
}

reason_column *reason_add_column(reason *r, reason_table *table, const char *name,
                                 const char *unit) {
    reason_column column = {.name = str_from(name),
                            .unit = str_from(unit),
                            .cells = arena_array(r->memory, str, table->row_count + 1)};
    list_push(r->memory, &table->columns, column);
    return &table->columns.items[table->columns.count - 1];
}

static void indent(text_buffer *out, int columns) {
    text_format(out, "%*s", columns, "");
}

static void add_paragraph(text_buffer *out, int columns, str text) {
    text_wrap(out, columns, columns, text);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The first column names the rows. What is the same in all rows tells none apart. */
static bool tells_apart(const reason_table *t, int column) {
    const reason_column *c = &t->columns.items[column];
    if (column == 0 || t->row_count == 1) return true;
    for (int i = 1; i < t->row_count; i++)
        if (!str_equal(c->cells[i], c->cells[0])) return true;
    return false;
}

static int width_of(const reason_table *t, const reason_column *c) {
    size_t width = c->name.length > c->unit.length ? c->name.length : c->unit.length;
    for (int i = 0; i < t->row_count; i++)
        if (c->cells[i].length > width) width = c->cells[i].length;
    return (int)width;
}

enum { HEAD_NAMES = -2, HEAD_UNITS = -1 };

static str cell_of(const reason_column *c, int row) {
    return row == HEAD_NAMES ? c->name : row == HEAD_UNITS ? c->unit : c->cells[row];
}

/* Columns 'first' to before 'end' of a row, aligned to the right but for the first of the table. */
static void add_row(text_buffer *out, const reason_table *t, int columns, int first, int end,
                    int row) {
    const reason_column *name = &t->columns.items[0];
    str own = row == HEAD_NAMES ? STR("") : cell_of(name, row);
    indent(out, columns);
    text_format(out, "%-*.*s", width_of(t, name), STR_ARGS(own));
    for (int i = first; i < end; i++) {
        const reason_column *c = &t->columns.items[i];
        str cell = cell_of(c, row);
        if (tells_apart(t, i)) text_format(out, "  %*.*s", width_of(t, c), STR_ARGS(cell));
    }
    text_add_z(out, "\n");
}

/* Where the columns from 'first' on no longer fit a line. */
static int end_of_columns(const reason_table *t, int columns, int first) {
    int used = columns + width_of(t, &t->columns.items[0]), i = first;
    for (; i < t->columns.count; i++) {
        if (!tells_apart(t, i)) continue;
        used += 2 + width_of(t, &t->columns.items[i]);
        if (used > TEXT_LINE_MAX && i > first) break;
    }
    return i;
}

/* "all have: groups 2 of 64 rows, K 2 slots". */
static void add_shared_values(text_buffer *out, const reason_table *t, int columns) {
    text_buffer text;
    text_init(&text, 1 << 16);
    for (int i = 1; i < t->columns.count; i++) {
        const reason_column *c = &t->columns.items[i];
        if (tells_apart(t, i)) continue;
        text_format(&text, "%s%.*s %.*s%s%.*s",
                    text.length ? ", " : "all have: ", STR_ARGS(c->name), STR_ARGS(c->cells[0]),
                    c->unit.length ? " " : "", STR_ARGS(c->unit));
    }
    if (text.length) add_paragraph(out, columns, text_str(&text));
    out->failed |= text.failed;
    text_done(&text);
}

static void add_table(text_buffer *out, const reason_table *t, int columns) {
    if (t->columns.count == 0) return;
    add_paragraph(out, columns, t->title);
    for (int first = 1, end; first < t->columns.count; first = end) {
        end = end_of_columns(t, columns + 2, first);
        for (int row = HEAD_NAMES; row < t->row_count; row++)
            add_row(out, t, columns + 2, first, end, row);
    }
    add_shared_values(out, t, columns + 2);
}

void reason_explain(const reason_result *result, text_buffer *out) {
    enum { SUBJECT = 2, TEXT = 4 };
    str kernel = {"", 0};
    for (int i = 0; i < result->decision_count; i++) {
        const reason_decision *d = &result->decisions[i];
        if (i == 0 || !str_equal(kernel, d->kernel))
            text_format(out, "%skernel %.*s\n", i > 0 ? "\n" : "", STR_ARGS(d->kernel));
        kernel = d->kernel;
        indent(out, SUBJECT);
        text_format(out, "%.*s (%.*s)\n", STR_ARGS(d->subject), STR_ARGS(d->pass));
        add_paragraph(out, TEXT, d->sentence);
        for (int k = 0; k < d->tables.count; k++) add_table(out, &d->tables.items[k], TEXT);
    }
}
