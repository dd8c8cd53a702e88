/* What bench, tune and demo share: kernels to time on this machine's GPU, and the cases. */
#ifndef FLASHTL_CLI_TIMED_H
#define FLASHTL_CLI_TIMED_H

#include "bench/bench.h"
#include "bench/grid.h"
#include "cli/request.h"

enum { TIMED_CASES_MAX = 512, TIMED_LENGTHS_MAX = 32 };

typedef struct timed_machine {
    ftl_runtime *runtime;
    ftl_device device;
    ftl_gpu gpu; /* the description that kernels are made for */
} timed_machine;

/* Opens the first GPU and finds its description, or that of --gpu. */
ftl_status timed_open(cli *c, const char *gpu, timed_machine *out);
void timed_close(timed_machine *machine);

/* A kernel made from a sketch or TL Code; owns what its program points to. */
typedef struct timed_kernel {
    bench_program program;
    ftl_product *product;
    char *sketch; /* of an operator; else NULL */
    ftl_source code;
    const char *settings[4];
    char group[24]; /* of decoding: a setting */
    bool is_short;  /* made for short sequences */
    bool is_whole;  /* decoding without splits, by one kernel */
    arena memory;   /* of the plan of several kernels */
} timed_kernel;
void timed_kernel_done(timed_kernel *kernel);

/* Is the cell one of short sequences, which may have a kernel of their own? */
bool timed_is_short(const grid_cell *cell);
/* Attention with these head sizes. */
ftl_status timed_attention(cli *c, const timed_machine *machine, const grid_cell *cell,
                           ftl_type dtype, timed_kernel *out);
/* Decoding with these heads, for which no formula is known: two kernels, or one without splits. */
ftl_status timed_decode(cli *c, const timed_machine *machine, const grid_cell *cell, ftl_type dtype,
                        bool is_whole, timed_kernel *out);
/* As many splits as the call would have for the cell; 'kernel' is decoding by two kernels. */
int64_t timed_splits(const timed_machine *machine, const grid_cell *cell,
                     const timed_kernel *kernel);
/* What the command line asks for; its texts stay the request's. */
ftl_status timed_request(cli *c, const timed_machine *machine, const cli_request *request,
                         timed_kernel *out);

/* The operator, settings, type and head sizes of a request; no texts, no kernel. */
bench_program timed_shape(const cli_request *request);

/* One cell of a grid as a case of its kernel. 'machine' may be NULL but for decoding. */
ftl_status timed_cell(cli *c, const timed_machine *machine, const grid_cell *cell,
                      const timed_kernel *kernel, bench_case *out);
/* The cases of --lengths, --heads, --batch. EXIT_USAGE after saying what is wrong. */
int timed_cases(cli *c, const cli_request *request, const timed_kernel *kernel, bench_case *cases,
                int most, int *count);

/* EXIT_USAGE after saying which of --lengths, --heads, --batch, --rounds is wrong: before anything
 * is opened.
 */
int timed_check(cli *c);

/* The options of a run: the data sheet's limits, --rounds. */
int timed_options(cli *c, const timed_machine *machine, bench_options *out);

#endif
