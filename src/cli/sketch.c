/* flashtl sketch: the sketch of a shipped operator. */
#include "cli/agents.h"

int cli_run_SKETCH(cli *c) {
    char *text = NULL;
    if (c->options.by || c->options.show_prompts) return sketch_by_model(c);
    if (cli_refuse_model_options(c)) return EXIT_USAGE;
    if (c->options.file_count == 0 && !c->options.op) {
        ftl_status status = ftl_operators(c->context, &text);
        return status ? cli_finish(c, status) : cli_put(c, text);
    }
    if (c->options.file_count > 1 || (c->options.file_count == 1 && c->options.op)) {
        return cli_say(EXIT_USAGE, "one operator is expected");
    }
    if (c->options.file_count == 1) c->options.op = c->options.files[0];
    cli_request r = {0};
    ftl_status status = request_sketch(c, &r, &text);
    request_done(&r);
    return status ? cli_finish(c, status) : cli_put(c, text);
}
