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
