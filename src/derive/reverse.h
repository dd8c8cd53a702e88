/* What the files that reverse a tape share: items that are added to it, and gradients that grow. */
#ifndef FLASHTL_DERIVE_REVERSE_H
#define FLASHTL_DERIVE_REVERSE_H

#include "derive/tape.h"

typedef struct reversal {
    tape *t;
    bool *is_active; /* by value: does a wanted Input change it? */
    int value_count; /* before the reversal */
} reversal;

tape_operand reverse_of(int value);
tape_operand reverse_text(const char *text);
/* Has the one value all axes of the other? */
bool reverse_covers(const tape_value *wide, const tape_value *narrow);
bool reverse_is_stored(const tape *t, int value);

/* Items at the tape's end: their values; TAPE_NONE: reported. */
int reverse_elements(tape *t, tape_item item, const tl_statement *at);
int reverse_two(tape *t, const tl_statement *at, tl_operation operation, tape_operand a,
                tape_operand b);
int reverse_row_sum(tape *t, const tl_statement *at, int of, str over);
/* g along all axes of 'like'. */
int reverse_spread(tape *t, const tl_statement *at, int g, int like);
/* The gradient of a result, of an operand that has fewer axes: their sum. */
int reverse_narrow(tape *t, const tl_statement *at, int g, int result, int operand);
/* What an operation's result gives this operand; NULL: there is no rule. */
const char *reverse_rule(tl_operation operation, int operand);
/* What 'steps', a rule, make of g, which a Mask may have made 0: what is 0 there stays so. */
int reverse_steps_masked(tape *t, const tape_item *item, int g, const char *steps);
/* g times a factor, likewise. */
int reverse_times(tape *t, const tl_statement *at, int g, tape_operand factor);

/* x's gradient grows by g. False: reported, or g was. */
bool reverse_gain(reversal *r, const tl_statement *at, int x, int g);

/* The softmax's sum of weights times their gradients, without a walk of its own where it can be. */
bool reverse_delta(reversal *r);
/* The item that makes the weights; g: their gradient, or TAPE_NONE. */
bool reverse_softmax(reversal *r, const tape_item *item, int g);

#endif
