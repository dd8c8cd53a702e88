/* What the files that read a sketch share: what its tiles' names mean where they stand. */
#ifndef FLASHTL_DERIVE_READ_H
#define FLASHTL_DERIVE_READ_H

#include "derive/tape.h"

/* What is made of a softmax's m and l on the way to its log-sum-exp, m + log l. */
typedef enum statistic { NO_STATISTIC, MAXIMUM, SUM, LOG_OF_SUM, OTHER_STATISTIC } statistic;

/* What a tile's name means at a place of the sketch. */
typedef struct named {
    str name;
    int value;
    int made;                /* in this loop, or OUTSIDE; a sum's end, too, is made outside */
    bool is_filled, is_zero; /* with a number, 0 */
    statistic statistic;     /* made of a softmax's m and l; the log-sum-exp is none: a value */
} named;

enum { OUTSIDE = -1 };

typedef struct reading {
    tape *t;
    int loop; /* where statements are read; or OUTSIDE */
    LIST(named) names;
} reading;

/* NULL: nothing is called so yet. */
named *read_find(reading *r, str name);
void read_set(reading *r, named what);
/* The value of a name here; TAPE_NONE: reported. */
int read_meaning(reading *r, const tl_statement *s, const tl_expr *name);
bool read_axes(reading *r, const tl_statement *s, const tl_expr *name, str out[2], int *count);
/* The loop's own sum of that name; NULL: there is none. */
tape_sum *read_sum(const reading *r, str name);

/* A Compute becomes items. False: reported. */
bool read_compute(reading *r, const tl_statement *s);

#endif
