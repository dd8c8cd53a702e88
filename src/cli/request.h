/* What a command works on: a file or an operator, and what the reasoner is told. */
#ifndef FLASHTL_CLI_REQUEST_H
#define FLASHTL_CLI_REQUEST_H

#include "cli/cli.h"

enum {
    REQUEST_PINS_MAX = CLI_LIST_MAX + 2,
    REQUEST_SETTINGS_MAX = 2 * CLI_LIST_MAX + 8,
    REQUEST_COPIES_MAX = REQUEST_PINS_MAX + REQUEST_SETTINGS_MAX + 2 * CLI_LIST_MAX
};

typedef struct cli_request {
    ftl_source source;
    ftl_options options; /* gpu: the only or first one */
    ftl_pin pins[REQUEST_PINS_MAX];
    char family[64]; /* file of the operator's sketch ("attention"); "" for a file of the user's */
    const char *settings[REQUEST_SETTINGS_MAX]; /* that chose the sketch */
    int setting_count;

    text_buffer text;                 /* of the file */
    text_buffer measured;             /* of --measured */
    char *sketch;                     /* of the operator */
    char *typed;                      /* either, with the types of --type */
    char *copies[REQUEST_COPIES_MAX]; /* what settings, pins, types point to */
    int copy_count;
} cli_request;

/* Reads FILE or makes the sketch of --op; reads --gpu, --type, --dtype, --head-dim, --let. Returns
 * EXIT_DONE, or the exit status after saying what is wrong. Free with request_done in both cases.
 */
int request_open(cli *c, cli_request *r);
/* The same with or without a text to work on: without one only the options are read. */
int request_open_options(cli *c, cli_request *r, bool has_text);
void request_done(cli_request *r);

/* Pins NAME=VALUE unless it is pinned already. */
void request_pin(cli_request *r, const char *name, int64_t value);

/* The one GPU of --gpu. EXIT_USAGE after saying that there is none or more than one. */
int request_one_gpu(cli *c, const cli_request *r);

/* The sketch of --op with the options chosen; free with ftl_free. */
ftl_status request_sketch(cli *c, cli_request *r, char **out);

#endif
