/* flashtl fmt: the canonical text. */
#include "cli/cli.h"

static int format_file(cli *c, const char *path) {
    text_buffer text;
    ftl_source source;
    if (!cli_read_source(c, path, &text, &source)) return EXIT_ENVIRONMENT;
    char *formatted = NULL;
    ftl_status status = ftl_format(c->context, &source, &formatted);
    int exit_status = cli_finish(c, status);
    bool is_same = !status && str_is(text_str(&text), formatted);
    text_done(&text);
    if (status) return exit_status;
    if (!c->options.in_place) return cli_put_text(c, NULL, formatted);
    os_error why;
    if (!is_same && !os_write_file(path, str_from(formatted), &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    ftl_free(formatted);
    return exit_status;
}

int cli_run_FMT(cli *c) {
    if (!c->options.in_place) {
        const char *path = cli_one_file(c);
        return path ? format_file(c, path) : EXIT_USAGE;
    }
    if (c->options.file_count == 0) return cli_say(EXIT_USAGE, "'--in-place' needs a file");
    if (c->options.output) {
        return cli_say(EXIT_USAGE, "give '--in-place' or '--output', not both");
    }
    int worst = EXIT_DONE;
    for (int i = 0; i < c->options.file_count; i++) {
        int exit_status = format_file(c, c->options.files[i]);
        if (exit_status > worst) worst = exit_status;
    }
    return worst;
}
