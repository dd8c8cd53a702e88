/* flashtl check: what is wrong with a program. */
#include "cli/cli.h"

int cli_run_CHECK(cli *c) {
    const char *path = cli_one_file(c);
    if (!path || cli_refuse_many_gpus(c)) return EXIT_USAGE;
    text_buffer text;
    ftl_source source;
    if (!cli_read_source(c, path, &text, &source)) return EXIT_ENVIRONMENT;
    const char *gpu = c->options.gpu.count ? c->options.gpu.items[0] : NULL;
    ftl_status status = ftl_check(c->context, &source, gpu);
    text_done(&text);
    return cli_finish(c, status);
}
