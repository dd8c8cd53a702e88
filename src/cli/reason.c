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
    request_done(&r);
    return exit_status ? exit_status : cli_put(c, code);
}
