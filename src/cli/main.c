/* flashtl: the command. Each command is a file of its name; this one finds it. */
#include "cli/cli.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const runs[CLI_COMMAND_COUNT])(cli *) = {
#define COMMAND(id, name, arguments, summary, description, examples) cli_run_##id,
#include "cli/commands.def"
#undef COMMAND
};

static int print_overview(FILE *to, int exit_status) {
    text_buffer text;
    text_init(&text, 1 << 20);
    cli_print_overview(&text);
    if (text.failed) exit_status = cli_say(EXIT_ENVIRONMENT, "out of memory");
    else fputs(text.data ? text.data : "", to);
    text_done(&text);
    return exit_status;
}

static int unknown_command(const char *name) {
    char words[NEAREST_BYTES];
    return cli_say(EXIT_USAGE, "there is no command '%s'%s", name,
                   cli_nearest_commands(name, words));
}

static int run(int command, cli *c) {
    if (!c->options.help) return runs[command](c);
    text_buffer text;
    text_init(&text, 1 << 20);
    cli_print_help(command, &text);
    return cli_print(&text);
}

/* A result that could not be written, to a full disk or a closed end, is no result. */
static int conclude(int exit_status) {
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (is_written || exit_status == EXIT_ENVIRONMENT) return exit_status;
    return cli_say(EXIT_ENVIRONMENT, "cannot write to standard output");
}

/* What the command itself writes as JSON is many small values; none may be lost without a word. */
static void *json_memory(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) cli_no_memory();
    return memory;
}

int main(int argc, char **argv) {
    json_set_alloc_funcs(json_memory, free);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, and told as one */
    if (argc < 2) return print_overview(stderr, EXIT_USAGE);
    if (strcmp(argv[1], "--version") == 0) {
        printf("flashtl %s\n", ftl_version());
        return conclude(EXIT_DONE);
    }
    bool wants_help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    if (wants_help) return conclude(print_overview(stdout, EXIT_DONE));
    int command = cli_find_command(argv[1]);
    if (command < 0) return unknown_command(argv[1]);
    static cli c; /* too large for a stack frame */
    c.argc = argc;
    c.argv = argv;
    char why[512];
    if (!cli_parse(command, argc, argv, &c.options, why)) return cli_say(EXIT_USAGE, "%s", why);
    const char *no_colour = getenv("NO_COLOR");
    c.colour = os_is_terminal(2) && !(no_colour && *no_colour);
    if (ftl_context_new(&c.context) != FTL_OK) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    int exit_status = run(command, &c);
    ftl_context_free(c.context);
    return conclude(exit_status);
}
