/* flashtl derive: from a sketch to the sketches of its gradients. */
#include "cli/request.h"

int cli_run_DERIVE(cli *c) {
    cli_request r;
    char *text = NULL;
    int exit_status = request_open(c, &r);
    if (!exit_status) {
        ftl_status status = ftl_derive(c->context, &r.source, c->options.of.items,
                                       c->options.of.count, c->options.fused, &text);
        exit_status = cli_finish(c, status);
    }
    request_done(&r);
    return exit_status ? exit_status : cli_put_text(c, NULL, text);
}
