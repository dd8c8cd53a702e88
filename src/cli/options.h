/* The command line: what commands.def and options.def say, and what the user said. */
#ifndef FLASHTL_CLI_OPTIONS_H
#define FLASHTL_CLI_OPTIONS_H

#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cli_command_id {
#define COMMAND(id, name, arguments, summary, description, examples) CLI_##id,
#include "cli/commands.def"
#undef COMMAND
    CLI_COMMAND_COUNT
} cli_command_id;

typedef struct cli_command {
    const char *name, *arguments, *summary, *description, *examples;
} cli_command;
extern const cli_command cli_commands[CLI_COMMAND_COUNT];

enum { CLI_LIST_MAX = 64, CLI_FILES_MAX = 1024 };

typedef struct cli_list {
    const char *items[CLI_LIST_MAX];
    int count;
} cli_list;

/* What the user said. Texts point into argv. */
typedef struct cli_options {
#define FIELD_FLAG bool
#define FIELD_TEXT const char *
#define FIELD_LIST cli_list
#define FIELD_EACH cli_list
#define OPTION(id, kind, name, value, commands, help) FIELD_##kind id;
#include "cli/options.def"
#undef OPTION
#undef FIELD_FLAG
#undef FIELD_TEXT
#undef FIELD_LIST
#undef FIELD_EACH
    const char *files[CLI_FILES_MAX];
    int file_count;
} cli_options;

typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_LIST, CLI_EACH } cli_kind;

typedef struct cli_option {
    cli_kind kind;
    const char *name, *value, *help;
    uint64_t commands; /* bit per command */
    size_t slot;       /* of the field in cli_options */
} cli_option;
extern const cli_option cli_option_list[];
extern const int cli_option_count;

/* The command of that name; -1 when there is none. */
int cli_find_command(const char *name);
/* The option of a command by its name, without dashes before it; NULL: it has none. */
const cli_option *cli_find_option(int command, const char *name);
/* Which commands a wrong name may have meant, after a sentence: "; did you mean 'fmt'?" */
const char *cli_nearest_commands(const char *name, char words[NEAREST_BYTES]);

/* Reads argv[2...] for a command: "--name value", "--name=value", "-o value", "--" ends the
 * options. False with one sentence in 'why'.
 */
bool cli_parse(int command, int argc, char **argv, cli_options *out, char why[512]);

/* The first option given that means something to models alone; NULL: there is none. */
const char *cli_model_option(const cli_options *options);

#endif
