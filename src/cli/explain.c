/* flashtl explain: why a kernel is as it is. */
#include "cli/request.h"

static json_t *decision_of(const ftl_decision *d) {
    json_writer w = {0};
    json_t *one = json_object(), *values = json_array();
    for (int32_t i = 0; i < d->value_count; i++) json_add(&w, values, json_integer(d->values[i]));
    json_put(&w, one, "kernel", json_from(str_from(d->kernel)));
    json_put(&w, one, "name", json_from(str_from(d->name)));
    json_put(&w, one, "value", json_integer(d->value));
    json_put(&w, one, "values", values);
    json_put(&w, one, "pinned", json_boolean(d->is_pinned));
    return one;
}

static json_t *cell_of(const char *cell) {
    int64_t integer;
    double number;
    str text = str_from(cell);
    if (str_to_integer(text, &integer)) return json_integer(integer);
    return str_to_number(text, &number) ? json_real(number) : json_from(text);
}

/* A list of columns with their units, and of rows with a value for each. */
static json_t *comparison_of(const ftl_comparison *c) {
    json_writer w = {0};
    json_t *one = json_object(), *columns = json_array(), *rows = json_array();
    for (int32_t i = 0; i < c->column_count; i++) {
        json_t *column = json_object();
        json_put(&w, column, "name", json_from(str_from(c->columns[i])));
        json_put(&w, column, "unit", json_from(str_from(c->units[i])));
        json_add(&w, columns, column);
    }
    for (int32_t i = 0; i < c->row_count; i++) {
        json_t *row = json_array();
        for (int32_t k = 0; k < c->column_count; k++)
            json_add(&w, row, cell_of(c->cells[i * c->column_count + k]));
        json_add(&w, rows, row);
    }
    json_put(&w, one, "kernel", json_from(str_from(c->kernel)));
    json_put(&w, one, "subject", json_from(str_from(c->subject)));
    json_put(&w, one, "title", json_from(str_from(c->title)));
    json_put(&w, one, "columns", columns);
    json_put(&w, one, "rows", rows);
    if (!w.failed) return one;
    json_decref(one);
    return NULL;
}

/* Of a sketch, what was decided, as data; of TL Code, in which all is decided, nothing. */
static int decisions_of(cli *c, const cli_request *r, json_t *about) {
    ftl_decisions *decisions = NULL;
    ftl_status status = ftl_decide(c->context, &r->source, &r->options, &decisions);
    if (status == FTL_INVALID_ARGUMENT) return EXIT_DONE;
    if (status) return cli_finish(c, status);
    json_writer w = {0};
    json_t *list = json_array();
    for (int32_t i = 0; i < decisions->count; i++)
        json_add(&w, list, decision_of(&decisions->items[i]));
    json_put(&w, about, "predicted_tflops", json_real(decisions->predicted_tflops));
    json_put(&w, about, "decisions", list);
    json_t *tables = json_array();
    for (int32_t i = 0; i < decisions->comparison_count; i++)
        json_add(&w, tables, comparison_of(&decisions->comparisons[i]));
    json_put(&w, about, "comparisons", tables);
    ftl_decisions_free(decisions);
    return w.failed ? cli_say(EXIT_ENVIRONMENT, "out of memory") : EXIT_DONE;
}

int cli_run_EXPLAIN(cli *c) {
    cli_request r;
    char *text = NULL;
    int exit_status = request_open(c, &r);
    if (!exit_status) exit_status = cli_refuse_many_gpus(c);
    if (!exit_status) {
        ftl_status status = ftl_explain(c->context, &r.source, &r.options, &text);
        exit_status = cli_finish(c, status);
    }
    json_t *about = json_object();
    if (!exit_status && c->options.json) exit_status = decisions_of(c, &r, about);
    request_done(&r);
    if (!exit_status) return cli_put_text(c, about, text);
    json_decref(about);
    ftl_free(text);
    return exit_status;
}
