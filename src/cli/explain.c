/* flashtl explain: why a kernel is as it is. */
#include "cli/request.h"

int cli_run_EXPLAIN(cli *c) {
    cli_request r;
    char *text = NULL;
    int exit_status = request_open(c, &r);
    if (!exit_status) exit_status = cli_refuse_many_gpus(c);
    if (!exit_status) {
        ftl_status status = ftl_explain(c->context, &r.source, &r.options, &text);
        exit_status = cli_finish(c, status);
    }
    request_done(&r);
    return exit_status ? exit_status : cli_put(c, text);
}
