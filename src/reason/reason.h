/* The reasoner: from a sketch to TL Code for one GPU.
 *
 * A list of passes, read top to bottom in reason.c. Each takes TL and leaves TL of the same
 * meaning, so that the text after any of them can be printed, edited, read back and reasoned on
 * from there: what a pass decides is in the text, as a `let` until the statement that uses it
 * exists. Pins are such lets that were there before: `let BN = 64` in the sketch, or an option.
 *
 * Pure; one thread per arena. Nothing here knows operators: the passes see statements.
 */
#ifndef FLASHTL_REASON_REASON_H
#define FLASHTL_REASON_REASON_H

#include "gpu/gpu.h"
#include "tl/tl.h"

/* NAME=VALUE: a length that the program leaves open (d=128), or a decision of reason_pin_list(). */
typedef struct reason_pin {
    str name, value;
    bool is_measured; /* a tuner's result rather than the user's word */
} reason_pin;

typedef struct reason_options {
    tl_type dtype;          /* of tensors whose type is open; TL_OPEN: f16 */
    const reason_pin *pins; /* overrule lets of the same name in the sketch */
    int pin_count;
    str stop_after;  /* the last pass to run; empty: all */
    str start_after; /* 'sketch' is what this pass left; empty: run all */
    /* By kernel: how many forms of it were refused by the rules of TL Code, so that the next one is
     * wanted; NULL: none. Below REASON_FORMS.
     */
    const int *refused; /* with room for kernels that passes add */
    bool wants_history; /* statements are to know where they come from (tl_statement.history) */
} reason_options;

/* Ways to cut a kernel into tiles that are tried, best first; each in the form that is fastest,
 * then each in the plainest.
 */
enum { REASON_WAYS = 6, REASON_FORMS = 2 * REASON_WAYS };

/* Operands of a kernel that kernels before it may turn: each of these is one more in the program.
 */
enum { REASON_TURNED_MOST = 4 };

/* What was compared for a decision: a row for each candidate, the one that was taken first. */
typedef struct reason_column {
    str name, unit; /* "shared", "bytes" */
    str *cells;     /* by row */
} reason_column;

typedef struct reason_table {
    str title; /* "candidates" */
    LIST(reason_column) columns;
    int row_count;
} reason_table;

/* One decision: what was chosen, its numbers, and what lost. */
typedef struct reason_decision {
    str kernel, pass;
    str subject;  /* "tile sizes" */
    str sentence; /* one paragraph, numbers included */
    LIST(reason_table) tables;
} reason_decision;

/* A decision that a pin of its name may take instead: what a tuner walks through. */
typedef struct reason_offer {
    str kernel, name; /* the pin's: "BN" */
    int64_t value;    /* taken */
    int64_t *values;  /* what a pin may say, 'value' among them; not every combination fits */
    int value_count;
    bool is_pinned; /* by an option */
} reason_offer;

/* With wants_history: a statement of the sketch for which none stands any more, and since when. */
typedef struct reason_taken {
    str kernel;
    diag_range range;
    int pass; /* its number; below 0: it is still there */
} reason_taken;

typedef struct reason_result {
    tl_program *program; /* NULL when an error was reported */
    int stuck_kernel;    /* then: which one, and whether another form of it may do */
    bool may_differ;
    reason_decision *decisions;
    int decision_count;
    reason_offer *offers;
    int offer_count;
    reason_taken *taken;
    int taken_count;
    double predicted_tflops; /* of the first kernel, long sequences; 0 when nothing was modelled */
} reason_result;

/* Reasons every kernel of 'sketch', which is not changed. The result lives in 'memory' and refers
 * to the sketch's source text. 'diags' must have that text as its source.
 */
reason_result reason_program(const tl_program *sketch, const gpu *target,
                             const reason_options *options, arena *memory, diag_list *diags);

typedef struct reason_pass_entry {
    const char *name, *doc;
} reason_pass_entry;

/* The passes in order; ends with a NULL name. */
const reason_pass_entry *reason_pass_list(void);
/* Decisions that may be pinned beside tile sizes; ends with a NULL name. */
const reason_pass_entry *reason_pin_list(void);

/* Whether a kernel is TL Code (it says who does what), not a sketch. */
bool reason_is_code(const tl_kernel *kernel);

/* Whether the pins of a request are about something that the bound program has, and numbers that it
 * may have; of TL Code that is what is known at launch only. Empty, or a sentence about the first
 * that is not, with the names that there are. A program that cannot be bound to begin with says
 * nothing here.
 */
str reason_check_pins(const tl_program *program, const reason_options *options, arena *memory);

/* explain.c: a paragraph and the tables of each decision, in lines of at most TEXT_LINE_MAX. */
void reason_explain(const reason_result *result, text_buffer *out);

#endif
