/* When is a kernel right? Runs a kernel on a grid of cases and judges every element it wrote.
 *
 * A case is a set of sizes, a memory layout and a kind of input, all drawn from one seed by a
 * counter (the same on every machine). The judge compares with an fp64 reference that shares no
 * code with the kernel: closed formulas for the shipped operators (reference.h), the exact
 * interpretation of the sketch for every other program. Memory is checked, too: every element
 * written, nothing else touched, what is past the ends is NaN, two launches agree bit for bit.
 * docs/verification.md says what is compared with which bound, and why.
 *
 * Nothing here prints; results go to callbacks. One run per context at a time.
 */
#ifndef FLASHTL_VERIFY_VERIFY_H
#define FLASHTL_VERIFY_VERIFY_H

#include "base/arena.h"
#include "base/text.h"
#include "flashtl/flashtl.h"
#include "flashtl/plan.h"
#include "flashtl/runtime.h"

#include <signal.h>

/* --- what is verified ------------------------------------------------------------------------- */

/* All texts and the plan stay the caller's and must outlive the run. */
typedef struct verify_program {
    /* The name of the shipped sketch's file ("attention") and its settings ("causal", "window=128")
     * choose the reference formula. NULL: a program of the user's own, judged by interpretation.
     */
    const char *operator_name;
    const char *const *settings;
    int32_t setting_count;
    const ftl_pin *pins; /* lengths that all cases have: d=64 */
    int32_t pin_count;
    ftl_source sketch; /* what the kernel should mean; without text: 'code' is judged by itself */
    ftl_source code;   /* TL Code: what the interpreter runs */
    const ftl_plan *plan; /* of the kernel; of several, verify_merge_plans */
    const char *cuda;     /* the kernel's text; NULL: only the interpreter can run, or ... */
    const ftl_kernel
        *kernels; /* ... several kernels run in turn; NULL: the one of 'plan' and 'cuda' */
    int32_t kernel_count;
    const ftl_image *image; /* of 'plan', compiled already; NULL: made when it is loaded */
} verify_program;

/* The parameters of all kernels as one plan: tensors, sizes and scalars by name, with what each
 * kernel demands of them; all walks, conditions and tiles. It is not to be launched. Made in
 * 'memory', with texts of the kernels' own plans; of one kernel its own plan.
 */
const ftl_plan *verify_merge_plans(const ftl_kernel *kernels, int32_t count, arena *memory);

/* Runs the kernel once on host arrays and reports the time it took; 'detail' (a few words about the
 * first finding) may be filled in when the status is not OK. Outputs are written in place. Around
 * each tensor's elements there are VERIFY_GUARD_BYTES of readable and writable memory, which a
 * launch on another memory takes along and brings back, so that writes beside a tensor show.
 */
typedef ftl_status verify_launch(void *user, ftl_context *context, const ftl_arguments *arguments,
                                 double *milliseconds, text_buffer *detail);

/* Where kernels run. 'title' is in results: "interpreter", "emulator (compute_75)". */
typedef struct verify_runner {
    const char *title;
    verify_launch *launch;
    void *user;
    double flops_per_s; /* about how fast, for limits and the time that is left */
    /* Cases up to this are launched twice and compared bit by bit; 0: all. A machine that cannot
     * but repeat itself, and that finds reads of what nothing wrote, has little to gain from it.
     */
    double repeated_flops_most;
    bool is_interpreter; /* of drawn cases the text is run without rounding, too */
} verify_runner;

typedef enum verify_on { VERIFY_INTERPRETER = 1, VERIFY_EMULATOR = 2, VERIFY_GPU = 3 } verify_on;

/* Opens what runs cases: for the emulator compiles the text to PTX and reads it, for the GPU loads
 * it and allocates on the current device. 'runtime' may be NULL for the interpreter. The program
 * must outlive the machine. Statuses as of ftl_compile_cuda, ftl_module_load and ftl_emulator_open;
 * INVALID_ARGUMENT when the program has no CUDA text.
 */
typedef struct verify_machine verify_machine;
ftl_status verify_machine_open(ftl_context *context, const verify_program *program, verify_on on,
                               ftl_runtime *runtime, verify_machine **out);
const verify_runner *verify_machine_runner(const verify_machine *machine);
void verify_machine_close(verify_machine *machine); /* NULL is fine */

/* --- cases ------------------------------------------------------------------------------------ */

enum {
    VERIFY_GUARD_BYTES = 4096,
    VERIFY_SIZES_MAX = 16,
    VERIFY_NAME_BYTES = 160,
    VERIFY_LINE_BYTES = 640
};

typedef enum verify_input {
    VERIFY_NORMAL,   /* N(0,1) */
    VERIFY_DOMINANT, /* one key dominates, rows of values code their index (programs with scores) */
    VERIFY_ENDS,     /* the last and the tile-edge index of each axis weigh 4 times as much */
    VERIFY_CLIMBING, /* scores rise from key to key, fall or jump (programs with scores) */
    VERIFY_LOW,      /* rows of scores near -128 between others near 0; values have a mean */
    VERIFY_MATCHED,  /* each query has a key of its own, far above all others */
    VERIFY_ROWS,  /* rows of every size: near zero, one element far above the others, far below */
    VERIFY_BLOCKS /* scores that go up or down by blocks of keys, for some rows (drawn cases) */
} verify_input;

typedef enum verify_layout {
    VERIFY_DENSE,
    VERIFY_PADDED, /* rows and matrices lie further apart than they are long */
    VERIFY_TURNED, /* (b, q, head, d) for (b, head; q, d): the matrix' rows outside the axis before
                    */
    VERIFY_TURNED_PADDED
} verify_layout;

/* What a drawn case has beside its sizes: kinds, as of verify/drawn.h. */
typedef struct verify_draw {
    uint64_t seed; /* of what follows from no kind; 0: the case was not drawn */
    int32_t block; /* keys of a block, as some text says */
    uint8_t pattern, other_pattern, rows, tables, scalars, gain;
} verify_draw;

typedef struct verify_case {
    int32_t number;                  /* position in the list of its shapes */
    int64_t sizes[VERIFY_SIZES_MAX]; /* by position in plan->sizes */
    verify_input input;
    verify_layout layout;
    int32_t plant; /* DOMINANT: which place of the list of places; of other scores 1: as high as f32
                      holds */
    bool is_long;  /* the first length in each table is the longest that it may hold */
    int32_t turn;  /* which of the program's chains of products are planted */
    double flops;  /* about */
    verify_draw draw;
} verify_case;

/* Which cases. */
typedef struct verify_list {
    const char *shapes; /* see verify_cases */
    int32_t more;       /* so many that are drawn, after the others */
    uint64_t seed;      /* from which those are drawn */
} verify_list;

/* Lists the cases of 'shapes' (verify_list), separated by commas: "small" (also NULL; a sample that
 * CI runs), "all", "decisive" (a part of both: long lengths and low scores alone), or sizes such as
 * "113x203,1x1024": two numbers are q_len x kv_len where the program has these sizes; otherwise,
 * and in general, as many numbers as plan->sizes in that order. Cases beyond 'flops_most' are left
 * out (0: no limit). Drawn cases join at random what the text makes decisive: lengths of every
 * axis, scalars, what tables hold, how scores go; pairs of kinds that no case has had come first.
 * The list is allocated in 'memory'. False, with one sentence in 'why', when 'shapes' cannot be
 * read.
 */
bool verify_cases(const verify_program *program, const verify_list *list, double flops_most,
                  arena *memory, const verify_case **cases, int32_t *count,
                  char why[FTL_WHY_BYTES]);

/* The largest whole number of a text up to that, comments apart: it could be a length, past which
 * other things happen (a window). 0: there is none.
 */
enum { VERIFY_CONSTANT_MOST = 4096 };
int64_t verify_largest_constant(str text);

/* Does a list of numbers ("3,7..9"; NULL: all numbers) hold 'number'? Is it one? */
bool verify_cases_hold(const char *list, int32_t number);
bool verify_cases_are_readable(const char *list);

/* "batch 2, heads 6/2, 113 x 203, turned, normal" */
void verify_case_name(const verify_program *program, const verify_case *c,
                      char name[VERIFY_NAME_BYTES]);

/* --- running ---------------------------------------------------------------------------------- */

typedef enum verify_verdict {
    VERIFY_PASSED,
    VERIFY_FAILED,
    VERIFY_SKIPPED /* the conditions of the program exclude the case: 'what' says which */
} verify_verdict;

typedef struct verify_result {
    int32_t number;
    char name[VERIFY_NAME_BYTES];
    verify_verdict verdict;
    const char *tensor;  /* the Output that came closest to its bound, or beyond; NULL: none */
    const char *rule;    /* "relative rms", "largest error", ...; "" when nothing was compared */
    double error, bound; /* of that rule */
    double relative_rms; /* of all outputs the one that is nearest to its bound, or beyond */
    double rms_bound;    /* of that */
    int64_t compared;    /* elements of Outputs whose value is known */
    int64_t open;        /* and those for which anything may be right, or infinity is */
    double milliseconds; /* of one launch */
    const char *ran_on;
    /* One line: a failure's pattern (where, which, how much), why a case was skipped, or, of one
     * that passed, that most elements of an Output were not compared. */
    char what[VERIFY_LINE_BYTES];
    char repro[VERIFY_LINE_BYTES]; /* a command that runs this case alone; "" without a command */
} verify_result;

typedef struct verify_progress {
    int32_t done, total;
    double seconds_left; /* estimated from what is done; negative while unknown */
} verify_progress;

typedef struct verify_options {
    const char *shapes; /* as of verify_cases */
    int32_t more;       /* drawn cases after those */
    uint64_t seed;
    const char *cases;   /* their numbers, "3,7..9"; NULL: all */
    double seconds_most; /* about, per case; larger ones are left out. 0: 4 s */
    const char *command; /* how to get here again: "flashtl verify --op gqa --gpu t4"; or NULL */
    const volatile sig_atomic_t *stop; /* set it to end the run after the current case; or NULL */
    void (*on_result)(void *user, const verify_result *result);       /* may be NULL */
    void (*on_progress)(void *user, const verify_progress *progress); /* may be NULL */
    void *user;
} verify_options;

typedef struct verify_summary {
    int32_t total, passed, failed, skipped;
    int32_t left_out; /* as they would take longer than seconds_most; not in the total */
    int32_t compared; /* passed cases that had elements to compare */
    const char *open; /* an Output of which no case compared most elements; NULL: there is none */
    double seconds;
    double worst_rms, rms_bound; /* of a passed case that came nearest to its bound, and that */
} verify_summary;

/* Runs the cases. OK (all passed or skipped), CHECK_FAILED (some failed), STOPPED, INVALID_ARGUMENT
 * (shapes, or a case number that is not there), NO_MEMORY, and what the world can do to a launch
 * (KERNEL_FAULT and TIMEOUT count as that case's failure and end the run).
 */
ftl_status verify_run(ftl_context *context, const verify_program *program,
                      const verify_runner *runner, const verify_options *options,
                      verify_summary *summary);

/* One line of text ("pass  case 3 ... "), and one JSON object on a line. */
void verify_result_text(const verify_result *result, text_buffer *out);
/* A case of a list, before it runs: "case 3: NAME, about 4.5e+08 operations". */
void verify_case_text(const verify_program *program, const verify_case *c, text_buffer *out);
void verify_case_json(const verify_program *program, const verify_case *c, text_buffer *out);
void verify_result_json(const verify_result *result, text_buffer *out);
void verify_summary_json(const verify_summary *summary, text_buffer *out);

#endif
