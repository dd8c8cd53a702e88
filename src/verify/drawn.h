/* What a case that was drawn has beside its sizes, and what comes of it: scores by blocks of keys,
 * scalars, lengths in tables, magnitudes. Everything is a function of the case alone.
 */
#ifndef FLASHTL_VERIFY_DRAWN_H
#define FLASHTL_VERIFY_DRAWN_H

#include "verify/planted.h"

/* How scores go along the keys, block by block (VERIFY_BLOCKS). */
typedef enum drawn_pattern {
    DRAWN_CLIMB,      /* a step up in each block */
    DRAWN_FALL,       /* a step down */
    DRAWN_LAST_BLOCK, /* up in the last block alone, which may be short */
    DRAWN_LAST_KEY,
    DRAWN_ONE_BLOCK, /* up in one block, all of its columns, low before it */
    DRAWN_COLUMNS,   /* a step up in each block, in one column of it, another one each time */
    DRAWN_FAINT,     /* all near 0 */
    DRAWN_DEEP,      /* all far below 0, a step up in each block */
    DRAWN_EVEN, /* near 0, but for one key that weighs about as much as all before it together */
    DRAWN_PATTERNS
} drawn_pattern;

/* Which rows of queries see it; the others see another pattern. */
typedef enum drawn_rows {
    DRAWN_ALL_ROWS,
    DRAWN_ONE_OF_8,
    DRAWN_UPPER_8, /* rows 8..15 of 16 */
    DRAWN_LOWER_8,
    DRAWN_OTHER_16, /* every other 16 rows */
    DRAWN_ONE_ROW,
    DRAWN_ROWS
} drawn_rows;

/* What lengths in tables are. */
typedef enum drawn_table {
    DRAWN_MIXED,
    DRAWN_LONGEST,
    DRAWN_WHOLE_BLOCKS,
    DRAWN_RAGGED,
    DRAWN_EDGES, /* 0, 1, one short of a block, a block, one past it */
    DRAWN_ANY,
    DRAWN_TABLES
} drawn_table;

/* Which places tables name: any, as other cases have them; the first in turn; the last in turn. */
typedef enum drawn_order { DRAWN_ANYWHERE, DRAWN_RISING, DRAWN_FROM_END, DRAWN_ORDERS } drawn_order;
drawn_order drawn_order_of(const verify_case *c);

/* What scalars are. */
typedef enum drawn_scalar {
    DRAWN_USUAL,  /* as scores need them; integers are small */
    DRAWN_HALF,   /* integers near half a length */
    DRAWN_BEYOND, /* integers past every length, limits past every value */
    DRAWN_BELOW,  /* the same below 0 */
    DRAWN_BLOCKS, /* integers near blocks */
    DRAWN_ODD,    /* any of these for each */
    DRAWN_SCALARS,
    DRAWN_INSIDE = DRAWN_SCALARS /* of scores by blocks: a Mask's limit is then inside a block of
                                    keys for one of the first rows */
} drawn_scalar;

/* Where scores have their size from, and which Input is larger or smaller by a power of two. */
typedef enum drawn_gain {
    DRAWN_PLAIN,
    DRAWN_LARGE_KEYS, /* of queries that a program divides by their length, say */
    DRAWN_LARGE_QUERIES,
    DRAWN_ONE_LARGER, /* a tensor 2^5 times as large, or 2^8 */
    DRAWN_ONE_SMALLER,
    DRAWN_GAINS,
    DRAWN_ONE_SIGN = DRAWN_GAINS /* what products read has no element below 0 */
} drawn_gain;

/* VERIFY_BLOCKS: a query's share of an element, and the score of a key for it. */
double drawn_share(const case_data *data, int64_t query, int64_t contracted, int64_t summed);
double drawn_score(const case_data *data, int64_t key, int64_t keys, int64_t contracted,
                   int64_t summed, int64_t matrix, double highest);
/* The mean of a key's values: of the one that weighs as much as the others, another one. */
double drawn_mean(const case_data *data, int64_t key, int64_t keys, int64_t matrix);
/* VERIFY_MATCHED: the key of each query lies so far past its number. */
int64_t drawn_distance(const case_data *data, int64_t rows, int64_t keys);

/* The longest of a case's sizes. */
int64_t drawn_longest(const case_data *data);
/* Does a scalar bound a walk of the grid? */
bool drawn_is_bound(const ftl_plan *plan, int32_t scalar);
int32_t drawn_whole_scalars(const ftl_plan *plan); /* how many: limits of masks, mostly */
double drawn_scalar_value(const case_data *data, int32_t scalar, double usual);
/* A length of at most 'limit' for the entry of a table. */
int64_t drawn_length(const case_data *data, uint64_t stream, uint64_t at, int64_t limit);
/* By how much the elements of an Input are larger: mostly of one that makes no scores. */
double drawn_factor(const case_data *data, const planted *p, int32_t tensor);

/* Do Inputs hold NaN, which a RowTopK passes over? What else comes of it is open. */
bool drawn_has_nan(const case_data *data);
/* Changes a row of an Input further: scores of one sign, factors that leave scores as planted, NaN.
 */
void drawn_row(const case_data *data, const planted *p, int32_t tensor, int64_t row, int64_t count,
               double *values);

/* ", climbing in one row of 8, ..." for the name of a drawn case. */
void drawn_describe(const verify_case *c, char *out, size_t capacity);

#endif
