/* flashtl sketch: the sketch of a shipped operator. */
#include "cli/operator.h"

int cli_run_SKETCH(cli *c) {
    char *text = NULL;
    if (c->options.file_count == 0 && !c->options.op) {
        ftl_status status = ftl_operators(c->context, &text);
        return status ? cli_finish(c, status) : cli_put(c, text);
    }
    if (c->options.file_count > 1 || (c->options.file_count == 1 && c->options.op)) {
        return cli_say(EXIT_USAGE, "one operator is expected");
    }
    if (c->options.file_count == 1) c->options.op = c->options.files[0];
    ftl_status status = cli_sketch(c, &text);
    return status ? cli_finish(c, status) : cli_put(c, text);
}
