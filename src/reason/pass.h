/* What the passes share: their context, and the list of them. */
#ifndef FLASHTL_REASON_PASS_H
#define FLASHTL_REASON_PASS_H

#include "reason/edit.h"
#include "reason/reason.h"

typedef LIST(reason_decision) reason_log;
typedef LIST(reason_offer) reason_offers;

typedef struct reason {
    arena *memory;
    tl_program *program;
    tl_kernel *kernel; /* the one at hand */
    const gpu *target;
    const reason_options *options;
    diag_list *diags;
    const char *pass; /* the one at hand */
    int way;          /* of the cuts into tiles, best first, the one that is wanted */
    bool is_plain;    /* the plainest form of it */
    bool is_halved;   /* its first form has keys in parts (halve.c) */
    reason_log log;
    reason_offers offers;
    LIST(reason_taken) taken;
    double predicted_tflops;
    const char *whole; /* of this kernel: which axes of its Outputs the grid may not cut, and why */
    bool *pin_is_used; /* by pin: some kernel has what it is about */
    LIST(tl_kernel *) made;  /* kernels that pass turn put into the program */
    const tl_kernel *turned; /* the one that reads what the last of them write */
} reason;

/* The passes. Each returns false when it reported why it cannot go on. */
#define PASS(name, what) bool reason_##name(reason *r);
#include "reason/passes.def"
#undef PASS

/* Reports that the program cannot be reasoned on, at a statement (NULL: as a whole). False. */
bool reason_stuck(reason *r, const tl_statement *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says, after that, what may help. False. */
bool reason_advise(reason *r, const char *advice);

/* Is the kernel at hand one that pass turn made? Pins are for those of the user. */
bool reason_is_made(const reason *r);

/* Binds the kernel as it stands, without the others of its program, and infers the axes of its
 * tiles. False: 'why' says so.
 */
bool reason_bind_alone(reason *r, diag_list *why);

/* `if condition // comment`, the statements in it; an empty comment is none. */
tl_block reason_under(reason *r, const char *condition, const char *comment, tl_block body);

/* A formatted text, ending in NUL. */
const char *reason_say(reason *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds to a text, which ends in NUL then, too: what joins it to what is there, and a part. */
void reason_list(reason *r, str *text, const char *joint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A name that occurs nowhere in the kernel: the one wanted, or that with a number. */
str reason_fresh(reason *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *reason_fresh_z(reason *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A quotation (tl_quote) beside a statement, or in its place, or at the end of what is no part of
 * the kernel yet.
 */
void reason_before(reason *r, tl_statement *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reason_after(reason *r, tl_statement *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reason_replace(reason *r, tl_statement *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reason_append(reason *r, tl_block *block, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Before the first pass: operands of 8 bits that lie across get a kernel that turns them, which is
 * the one at hand then. turn.c
 */
bool reason_turn(reason *r);

/* Gives views that are used without a Copy one beside that of their base. views.c */
void reason_copy_parts(reason *r);

/* Gives a tile that is changed before products take it a name of its own. versions.c */
void reason_name_versions(reason *r);

/* Copies keys whose first columns are the values in parts, where two warpgroups may share their
 * sums: the first of the forms that are tried; after it come those that there would be without.
 * halve.c
 */
void reason_halve(reason *r);

/* Factors of operands of 8 bits go past the products. scales.c */
void reason_scales(reason *r);

/* RowTopK becomes operations. top.c */
bool reason_top(reason *r);

/* Takes out the lets that said how many slots tiles have and how far copies run ahead, once that is
 * written in the text. stage.c
 */
void reason_forget_stages(reason *r);

/* How many slots a tile that a loop copies has, if that is decided. stage.c */
int64_t reason_stages(reason *r, str tile, int64_t otherwise);

/* The first and the last statement after a copy into shared memory, in its block, that use the tile
 * or have a use in them. False: there is none, which is reported. stage.c
 */
bool reason_find_uses(reason *r, tl_statement *copy, tl_statement **first, tl_statement **last);

/* Writes down a decision. */
reason_decision *reason_decide(reason *r, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a table of 'row_count' candidates to the decision; its columns are added one by one, and
 * their cells set by the caller. Both are good until the next one is added.
 */
reason_table *reason_compare(reason *r, reason_decision *d, const char *title, int row_count);
reason_column *reason_add_column(reason *r, reason_table *table, const char *name,
                                 const char *unit);

/* Says that a pin 'name' could have taken this decision: 'value' was taken, 'values' are legal ones
 * ('value' is added where it is missing). A kernel's second offer of a name replaces its first.
 */
void reason_offers_choice(reason *r, const char *name, int64_t value, const int64_t *values,
                          int count);
/* The same for a yes or no. */
void reason_offers_switch(reason *r, const char *name, bool value);
/* "pinned", or "measured" where the pin is a tuner's (reason_pin.is_measured). */
const char *reason_pin_word(const reason *r, const char *name);

/* Does the loop surely run: is its bound `max(1, ...)`, `max(first + 1, ...)` or a number? */
bool reason_is_never_empty(reason *r, const tl_statement *loop);

/* Notes what the pass with that number made and changed; below 0: the sketch as it is. history.c */
void reason_note_history(reason *r, int pass);

/* Will the first iteration of a loop be written out before it, if the loop runs at least once?
 * Copies through registers keep it inside, and a pin decides.
 */
bool reason_wants_peel(reason *r);

/* The integer a `let` gives to a decision or size; false when there is none. */
bool reason_let_integer(reason *r, const char *name, int64_t *value);
/* The same, or 'otherwise'. After the last pass that asks for them (pins.def) lets are taken out;
 * reason_take takes one out at once.
 */
int64_t reason_decided(reason *r, int64_t otherwise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t reason_take(reason *r, int64_t otherwise, const char *name);
/* Gives it that value, unless it has one. */
void reason_settle(reason *r, int64_t value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* `let name = value` in front of everything else, joined to the lets of this pass that are there.
 */
void reason_let(reason *r, const char *name, int64_t value);
/* The value of a constant expression: integers, lets of such, arithmetic. */
bool reason_known(reason *r, const tl_expr *e, int64_t *value);

#endif
