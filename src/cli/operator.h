/* The operator that --op and its options name. */
#ifndef FLASHTL_CLI_OPERATOR_H
#define FLASHTL_CLI_OPERATOR_H

#include "cli/cli.h"

/* The sketch of --op with --causal, --window, ... and --with. Free with ftl_free. */
ftl_status cli_sketch(cli *c, char **out);

#endif
