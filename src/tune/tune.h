/* Which decisions make a program fastest on this machine's GPU? A walk from the model's own choice:
 * all choices that differ from the best so far in one decision are built (in parallel), dropped by
 * the model's forecast and the compiler's report, verified, and timed in turns with the model's
 * choice, until nothing is better or the time is over. Everything tried stays in a database
 * (store.h), so a tuner goes on where one before it ended, however that ended. docs/tuning.md
 * explains it.
 *
 * A kernel may hang or take its process with it, so the walk is done in a child process; tune_run
 * starts it, blames the candidate that it was at, and starts it again.
 */
#ifndef FLASHTL_TUNE_TUNE_H
#define FLASHTL_TUNE_TUNE_H

#include "bench/bench.h"
#include "tune/store.h"

enum { TUNE_CASES_MAX = 16, TUNE_TITLE_BYTES = 256 };

typedef struct tune_progress {
    int round, done, total; /* candidates of this round */
    double best_ratio;      /* over the model's choice */
    const char *best_pins;
    double seconds_left; /* of the budget */
    const char *doing;   /* "building", "measuring", "confirming" */
} tune_progress;

/* What to tune; all of it the caller's. */
typedef struct tune_request {
    ftl_source source;   /* a sketch */
    ftl_options options; /* what is pinned stays; 'measured' does not count */
    bench_program shape; /* operator, settings, type and head sizes; its texts are not used */
    /* Fills in the cases for a kernel; at most TUNE_CASES_MAX. */
    ftl_status (*make_cases)(void *user, ftl_context *context, const bench_program *program,
                             bench_case *cases, int *count);
    ftl_runtime_options runtime;
    const char *database;
    const char *title;      /* for people */
    const char *cases_text; /* what decides the cases: figures of others are not compared */
    double seconds;         /* about; 0: 300 */
    double silence_seconds; /* after which a candidate hangs; 0: 60 */
    int32_t jobs;           /* compilers at a time; 0: one per processor */
    bench_options timing;   /* rounds, bursts; limits are filled in */
    const volatile sig_atomic_t *stop;
    void (*on_progress)(void *user, const tune_progress *progress); /* in the child; or NULL */
    /* At the end, also after an interruption: the description and the problem that was tuned. */
    void (*on_done)(void *user, ftl_context *c, const char *gpu, const char *problem);
    void (*on_failure)(void *user, ftl_context *c, ftl_status status); /* the same */
    void *user;
} tune_request;

/* Tunes in child processes. OK (also when interrupted: what was measured is kept), and what went
 * wrong with the world; on_failure has shown it where it went wrong.
 */
ftl_status tune_run(ftl_context *context, tune_request *request);

/* The text of measured decisions (docs/decisions/016-tuning.md) of a GPU's description: the best of
 * each problem in the database, as pins of every decision.
 */
ftl_status tune_export(ftl_context *context, const char *path, const char *gpu, text_buffer *out);
/* A table of the best candidates of a problem, and how many came to what. */
ftl_status tune_report(ftl_context *context, const char *path, const char *gpu, const char *problem,
                       int most, text_buffer *out);
/* All of them as JSON, an object a line, the best ones first. */
ftl_status tune_report_json(ftl_context *context, const char *path, const char *gpu,
                            const char *problem, text_buffer *out);

#endif
