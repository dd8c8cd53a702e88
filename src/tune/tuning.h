/* One walk, as its parts see it. */
#ifndef FLASHTL_TUNE_TUNING_H
#define FLASHTL_TUNE_TUNING_H

#include "tune/build.h"

typedef struct tuning {
    tune_request *request;
    os_watch *watch;
    int64_t deadline_ns;
    ftl_context *context;
    ftl_runtime *runtime;
    store *database;
    int64_t problem;
    char owner[STORE_OWNER_BYTES];
    ftl_device device;
    ftl_gpu here;
    char target[32];
    ftl_decisions *decisions;
    search_space space;
    build_candidate model; /* the model's own choice: what all are compared with */
    bench_program model_program;
    bench_kernel rival;
    search_choice best;
    double best_ratio;
    char best_pins[STORE_PINS_BYTES];
} tuning;

/* Has the time passed, or somebody stopped it? */
bool tuning_is_over(const tuning *t);
/* Tells the watching parent and the user where the walk is. */
void tuning_tell(tuning *t, int round, int done, int total, const char *doing);
/* The database's words as the context's error. */
ftl_status tuning_database_failure(const tuning *t);
/* A fault or a hang: this process can do no more on the device. */
bool tuning_is_lost(ftl_status status);

/* A candidate as what is verified and timed; it must outlive the program. */
void measure_program(const tuning *t, const build_candidate *c, bench_program *out);
/* Verifies and times one candidate that this process has claimed; with 'rounds', one that has been
 * measured before. What the candidate did is its row's state, which is stored; a status is the
 * world's, STOPPED, KERNEL_FAULT or TIMEOUT.
 */
ftl_status measure_candidate(tuning *t, build_candidate *c, int32_t rounds);
/* The model's own choice against itself: what the noise is, and the row that all others must beat.
 * CHECK_FAILED when it is wrong.
 */
ftl_status measure_model(tuning *t);

#endif
