/* Running a program on small invented cases, for what verify does not ask: is it consistent with
 * itself, and if it is wrong, what do its results depend on?
 */
#ifndef FLASHTL_THINK_TRIAL_H
#define FLASHTL_THINK_TRIAL_H

#include "flashtl/execute.h"
#include "verify/inputs.h"

enum { TRIAL_SCALARS_MAX = 24, TRIAL_OPEN_MAX = 8 };

/* One case: inputs, and where outputs go. All of it lives in an arena. */
typedef struct trial {
    verify_program program;
    verify_case of;
    case_data data;
} trial;

/* Lays out and fills the case; false, with a sentence, when the program's conditions exclude it. */
bool trial_make(const ftl_plan *plan, const int64_t *sizes, uint64_t seed, arena *memory,
                trial *out, char why[FTL_WHY_BYTES]);
/* The same with a case's sizes and its kind of inputs. */
bool trial_make_case(const ftl_plan *plan, const verify_case *c, uint64_t seed, arena *memory,
                     trial *out, char why[FTL_WHY_BYTES]);
/* Sizes that fit the program's conditions: about 'rows' for lengths of matrices, few for others.
 * False when none were found.
 */
bool trial_sizes(const ftl_plan *plan, int64_t rows, int64_t columns, arena *memory,
                 int64_t sizes[VERIFY_SIZES_MAX]);
/* Shapes in verify's words: its decisive ones, and some that are drawn from the seed, with lengths
 * that are shorter, longer and much longer than a tile, each in turn the longest.
 */
void trial_shapes(const ftl_plan *plan, uint64_t seed, arena *memory, text_buffer *out);

/* What runs: a text by the interpreter, or a kernel by a runner of verify. */
typedef struct trial_machine {
    const ftl_source *source;
    ftl_arithmetic arithmetic;
    const ftl_scalar *pins; /* open sizes of a sketch */
    int32_t pin_count;
    const verify_runner *runner; /* instead of the source */
} trial_machine;

/* Poisons the outputs, runs, and loads output t to values[t], dense (NULL for inputs). Elements
 * that were not written are NAN. OK, and what the machine says; but want of memory says nothing of
 * a program, so NO_MEMORY is the arena's, and does not return.
 */
ftl_status trial_run(ftl_context *context, trial *t, const trial_machine *machine, arena *memory,
                     double ***values);
/* The same, with a runner's words about what went wrong; NULL: nobody asks for them. */
ftl_status trial_run_telling(ftl_context *context, trial *t, const trial_machine *machine,
                             arena *memory, double ***values, text_buffer *detail);

/* Names of tile sizes that a canonical sketch leaves open: "BN". */
int trial_open_sizes(str canonical, str names[TRIAL_OPEN_MAX]);

/* ‖a − b‖ / ‖b‖ over count elements; a NAN anywhere but in both gives INFINITY. */
double trial_distance(const double *a, const double *b, int64_t count);

int64_t trial_count(const buffer *b); /* elements */

#endif
