/* Which part of an axis a condition takes out. */
#ifndef FLASHTL_REASON_CUTS_H
#define FLASHTL_REASON_CUTS_H

#include "reason/linear.h"

enum { CUTS_TOGETHER_MAX = 4 };

/* What a comparison takes out: kv > edge ('is_upper'), or kv <= edge. */
typedef struct cut {
    bool is_solved, is_upper;
    tl_linear edge; /* over other names */
} cut;

/* What is taken out where all of 'items' hold and, unless it 'is_whole', something else does too.
 */
typedef struct cuts {
    cut items[CUTS_TOGETHER_MAX];
    int count;
    bool is_whole;
} cuts;

typedef struct cuts_list {
    LIST(cuts) items;
    bool is_cut; /* there are more than was asked for */
} cuts_list;

/* Of one comparison of a sum in which the axis, or its quotient by a number, has the factor 1 or
 * -1.
 */
cut cuts_solve(reason *r, str axis, const tl_expr *test);

/* Of any condition: it holds where one of the list's conjunctions does. abs(...) on one side of a
 * comparison is two of them.
 */
cuts_list cuts_of(reason *r, str axis, const tl_expr *condition, int most);

#endif
