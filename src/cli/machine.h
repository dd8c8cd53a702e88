/* What run, verify and demo work with: a request made into kernels, and where they are to run. */
#ifndef FLASHTL_CLI_MACHINE_H
#define FLASHTL_CLI_MACHINE_H

#include "cli/request.h"
#include "verify/verify.h"

typedef struct machine_program {
    ftl_product *product; /* NULL: the interpreter runs the sketch itself */
    ftl_plan *parameters; /* then its parameters */
    const ftl_plan *plan; /* of the kernel or of all, or the parameters */
    arena memory;         /* of a plan of all */
    ftl_source code;      /* what the interpreter runs */
} machine_program;

/* --on, or what --gpu suggests. EXIT_USAGE after saying that it is wrong. */
int machine_read_on(cli *c, const cli_request *r, verify_on *on);

/* Builds the request for its GPU; without a GPU (interpreter only) reads its parameters. */
int machine_make(cli *c, const cli_request *r, verify_on on, machine_program *out);
void machine_done(machine_program *made);

verify_program machine_verify_program(const machine_program *made, const cli_request *r);

#endif
