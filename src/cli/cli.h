/* What the commands share: the user's words, a context, and how results and failures are shown.
 * Results go to standard output, messages to standard error.
 */
#ifndef FLASHTL_CLI_CLI_H
#define FLASHTL_CLI_CLI_H

#include "base/json.h"
#include "base/os.h"
#include "cli/options.h"
#include "flashtl/flashtl.h"
#include "flashtl/runtime.h"

#include <signal.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_REJECTED = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3 };

typedef struct cli {
    cli_options options;
    ftl_context *context;
    bool colour; /* of standard error */
    int argc;
    char **argv;
} cli;

/* One function per command, in the file of its name. Each returns the exit status. */
#define COMMAND(id, name, arguments, summary, description, examples) int cli_run_##id(cli *c);
#include "cli/commands.def"
#undef COMMAND

/* Says what the context has (diagnostics, else the error) and any warning; returns the exit status
 * that belongs to 'status'. With FTL_OK only warnings are shown.
 */
int cli_finish(cli *c, ftl_status status);
/* "flashtl: ..." on standard error; returns 'exit_status'. */
int cli_say(int exit_status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line, or a part of one, with texts that are not ours (a model's, a server's, names of files):
 * control characters are shown, but the newline at the end.
 */
void cli_tell(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The one FILE of a command, "-" when none was given. NULL after saying that there are too many. */
const char *cli_one_file(cli *c);
/* EXIT_USAGE after saying that an option is given that only a model's step ('--by') heeds. */
int cli_refuse_model_options(cli *c);
/* EXIT_USAGE after saying that more than one GPU is named. */
int cli_refuse_many_gpus(cli *c);
/* Reads a program. 'text' must be initialised and outlive 'out'. False after saying why. */
bool cli_read_source(cli *c, const char *path, text_buffer *text, ftl_source *out);
/* The value of --NAME, or an item of it: a number from 'least' on, up to 'most'. Without a text
 * *out stays as it is. EXIT_USAGE after saying what the option takes.
 */
int cli_read_integer(const char *name, const char *text, int64_t least, int64_t most, int64_t *out);
int cli_read_item(const char *name, str text, int64_t least, int64_t most, int64_t *out);
int cli_read_number(const char *name, const char *text, double least, double *out);
/* --seed, or 1. */
int cli_read_seed(const cli *c, uint64_t *seed);
/* --more, or 0. */
int cli_read_more(const cli *c, int32_t *more);
/* Writes to --output or standard output, and frees the text. */
int cli_put(cli *c, char *text);
/* The same of a text that is a result: with --json as a line, an object whose member "text" it is,
 * beside those of 'about' (NULL: none), which is taken over.
 */
int cli_put_text(cli *c, json_t *about, char *text);
/* A line of standard output; the object is taken over, NULL is one that there was no memory for. */
int cli_print_json(json_t *object);
/* Writes to standard output, and frees the text; what is not whole is not written, and ends the
 * process. The end of the command says where standard output could not be written.
 */
int cli_print(text_buffer *text);
/* The same, into a file. */
int cli_write(const char *path, text_buffer *text);
/* Ends the process with one sentence: where nothing is held that must be given back. */
_Noreturn void cli_no_memory(void);
/* --cache, FLASHTL_CACHE, or the user's cache folder; NULL when the environment names none. */
const char *cli_cache_folder(cli *c, char buffer[4096]);
/* A file of the user's data: 'wanted', what the variable names, or NAME in the user's data folder,
 * which is made. Returns EXIT_DONE, or the exit status after saying why.
 */
enum { CLI_PATH_BYTES = 4096 };
int cli_find_data_file(const char *wanted, const char *variable, const char *name,
                       char path[CLI_PATH_BYTES]);
/* A runtime with the libraries and the cache that the environment names. */
ftl_status cli_open_runtime(cli *c, ftl_runtime **out);
ftl_runtime_options cli_runtime_options(cli *c, char buffer[CLI_PATH_BYTES]);

/* From here on Ctrl-C does not end the process but sets what cli_interrupted points to: the work at
 * hand stops where it can and says what it has.
 */
void cli_catch_interrupts(void);
const volatile sig_atomic_t *cli_interrupted(void);

/* Prints the help of a command to 'out'. */
void cli_print_help(int command, text_buffer *out);
void cli_print_overview(text_buffer *out);

#endif
