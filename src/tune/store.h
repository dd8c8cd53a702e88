/* What tuners measured, in an SQLite database that several may use at once: write-ahead log, one
 * statement per change, so that a process may be killed at any moment and only the measurement in
 * flight is lost. Not thread-safe; a connection does not survive a fork.
 */
#ifndef FLASHTL_TUNE_STORE_H
#define FLASHTL_TUNE_STORE_H

#include "base/os.h"

enum { STORE_PINS_BYTES = 512, STORE_WHY_BYTES = 256, STORE_OWNER_BYTES = 64, STORE_ATTEMPTS = 3 };

typedef enum store_state {
#define STATE(id, name, sentence) STORE_##id,
#include "tune/states.def"
#undef STATE
    STORE_STATE_COUNT
} store_state;
const char *store_state_name(store_state state);
const char *store_state_sentence(store_state state);

/* What figures are valid for. All are texts of the caller's. */
typedef struct store_key {
    const char *problem;  /* ftl_decisions.problem */
    const char *title;    /* for people: "--op gqa --causal" */
    const char *gpu;      /* description: "h200" */
    const char *device;   /* "NVIDIA H200" */
    const char *software; /* driver, compiler and product */
    const char *cases;    /* lengths and heads */
} store_key;

typedef struct store_row {
    int64_t id;                     /* 0: not stored yet */
    char pins[STORE_PINS_BYTES];    /* what differs from the model's choice */
    char decided[STORE_PINS_BYTES]; /* every decision, of what was measured; else "" */
    char kernel[33];                /* hash of its CUDA text */
    store_state state;
    double predicted_tflops;
    int32_t registers, spill_bytes, shared_bytes;
    double ratio; /* speed over that of the model's choice, in turns; geometric mean of the cases */
    double tflops, model_tflops, spread;
    int32_t attempts;
    char why[STORE_WHY_BYTES];
} store_row;

typedef struct store store;

/* Opens or creates the database. False with one sentence: no file, no database, of another version.
 */
bool store_open(const char *path, store **out, os_error *why);
void store_close(store *s); /* NULL is fine */
/* One sentence about the last failure. */
const char *store_error(const store *s);

/* The number of a problem, made when it is new; 0 on failure. */
int64_t store_problem(store *s, const store_key *key);
/* The newest of that name on a GPU's description; 0: there is none. */
int64_t store_newest(store *s, const char *gpu, const char *problem);
/* Adds a candidate or replaces what is known of it (by problem and pins); fills in row->id. A row
 * that is being measured, or is final, of the same kernel, is left alone and read instead.
 */
bool store_put(store *s, int64_t problem, store_row *row);
/* Whether the same kernel was tried already, under other pins. */
bool store_knows_kernel(store *s, int64_t problem, const store_row *row);
/* Visits the candidates of a problem, best first, then by age. */
bool store_each(store *s, int64_t problem, void (*visit)(void *user, const store_row *row),
                void *user);

/* Takes a built candidate for measuring; false when another tuner has it, or on failure. */
bool store_claim(store *s, int64_t id, const char *owner);
/* Writes what a claimed or built candidate came to. */
bool store_finish(store *s, const store_row *row);
/* The candidates that 'owner' was measuring: they ended it. True also when there was none. */
bool store_blame(store *s, const char *owner, store_state state, const char *why);
/* Gives back what owners that are no more were measuring; after STORE_ATTEMPTS it is abandoned. */
bool store_recover(store *s);
/* "PID" of this process, for claims. */
void store_owner(char owner[STORE_OWNER_BYTES]);

/* The GPU itself: one tuner measures at a time. False: another has it; ask again. */
bool store_take_device(store *s, const char *device, const char *owner);
bool store_leave_device(store *s, const char *device, const char *owner);

/* Visits, for each problem of a GPU's description, its best measured candidate (ratio above 0). */
typedef struct store_best {
    const char *problem, *title, *device, *software, *cases;
    const store_row *row;
} store_best;
bool store_each_best(store *s, const char *gpu, void (*visit)(void *user, const store_best *best),
                     void *user);

#endif
