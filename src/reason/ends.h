/* What elements past the end of an axis hold, and whether anybody is hurt (language study 5.5).
 *
 * One iteration of a loop is executed abstractly for the elements of a stretch of the walked axis:
 * those past its end, or those of a block that one Mask covers entirely. Of an axis that the grid
 * divides, it is the whole kernel, each loop once.
 */
#ifndef FLASHTL_REASON_ENDS_H
#define FLASHTL_REASON_ENDS_H

#include "reason/tiles.h"

typedef enum ends_mode {
    ENDS_PART,  /* the elements past the end, in a block that also has others */
    ENDS_WHOLE, /* a block all of whose elements are past the end */
    ENDS_MASKED /* a block all of whose elements one Mask covers */
} ends_mode;

typedef struct ends_question {
    tl_statement *loop; /* NULL: the grid divides the axis; ENDS_PART */
    str axis;
    ends_mode mode;
    const tl_statement *mask; /* ENDS_MASKED: the one that covers the block */
    /* Does this Mask cover the elements past the end? */
    bool (*covers)(void *context, const tl_statement *mask);
    void *context;
} ends_question;

typedef struct ends_answer {
    tl_statement *hurt; /* the first statement whose result would change; NULL: none, all is well */
    str tile;           /* the tile along whose axis it reduces; empty: none */
    double neutral;     /* what the elements of 'tile' had to be: 0 or an infinity */
} ends_answer;

ends_answer ends_ask(reason *r, const tiles_list *tiles, const ends_question *question);

#endif
