/* flashtl reason: from a sketch to TL Code. */
#include "cli/agents.h"

int cli_run_REASON(cli *c) {
    cli_request r;
    char *code = NULL;
    int exit_status = request_open(c, &r);
    if (!exit_status) exit_status = request_one_gpu(c, &r);
    if (!exit_status && (c->options.by || c->options.show_prompts)) {
        exit_status = reason_by_model(c, &r);
        request_done(&r);
        return exit_status;
    }
    if (!exit_status) exit_status = cli_refuse_model_options(c);
    if (!exit_status) {
        ftl_status status = ftl_reason(c->context, &r.source, &r.options, &code);
        exit_status = cli_finish(c, status);
    }
    json_t *about = json_object();
    if (!exit_status) json_object_set_new(about, "gpu", json_from(str_from(r.options.gpu)));
    request_done(&r);
    if (!exit_status) return cli_put_text(c, about, code);
    json_decref(about);
    return exit_status;
}
