/* How extents_choose looks for values, shared by its files: extents.c finds out what control
 * depends on and which values are worth trying, extents_goals.c what a set of values makes control
 * do, extents_search.c walks through sets of values until every part of control has been met, or
 * its time is up.
 */
#ifndef FLASHTL_CHECK_EXTENTS_SEARCH_H
#define FLASHTL_CHECK_EXTENTS_SEARCH_H

#include "check/extents.h"

enum {
    SEARCH_COMBINATIONS_MAX = 1600,
    SEARCH_GRANULES_MAX = 16,
    SEARCH_SIGNATURE_MAX = 96,
    SEARCH_LOOPS_MAX = 64,
    SEARCH_DIVISORS_MAX = 16,
    SEARCH_LENGTHS_MAX = 32,
    SEARCH_WORDS = 12, /* of a set of outcomes */
    SEARCH_OUTCOMES_MAX = 64 * SEARCH_WORDS,
};

/* What a set of values makes control do: a bit an outcome. */
typedef struct search_met {
    uint64_t words[SEARCH_WORDS];
} search_met;

/* A place where control parts. Its outcomes are numbered one after the other: a loop's by how often
 * it runs (the last one: `steps` times or more), an `if`'s 0 and 1, those of a min, max or select
 * by the argument that decides.
 */
typedef struct search_point {
    const model_step *step; /* FOR, IF; of a choice: the step whose expressions it is in */
    const tl_expr *choice;
    int parent; /* the loop or `if` around it; -1: none */
    int first, count;
    bool asks_table; /* FOR: an element of a table that loops walk bounds it */
    bool is_free;    /* what decides is no length: both ways are gone, and no outcome is noted */
} search_point;

typedef struct search_goals {
    LIST(search_point) points;
    int **point_of; /* by role and step: the point of a loop or `if`, and the first choice */
    int outcome_count;
    double *distances; /* by outcome: how far the values measured last are from it */
    double *entries;   /* by point: ... from its body */
    int focus;         /* the point whose distances are deep; -1: none */
    double deep[2];    /* what the visits of that `if` lacked so far, by its ways */
    int visits;
} search_goals;

typedef struct search {
    extents *x;
    arena *memory;
    extents_values *values;
    int64_t granules[SEARCH_GRANULES_MAX];
    int granule_count;
    const tl_expr *signature[SEARCH_SIGNATURE_MAX];
    int signature_count;
    const tl_for *loops[SEARCH_LOOPS_MAX]; /* whose bounds are the same for a whole tile, but no
                                              constants */
    int loop_count;
    const tl_expr *divisors[SEARCH_DIVISORS_MAX]; /* that are no constants: never 0 */
    int divisor_count;
    const tl_expr *lengths[SEARCH_LENGTHS_MAX]; /* of axes, made of other values: never below 0 */
    int length_count;
    LIST(const tl_expr *) conditions; /* of the launch, that speak of chosen variables alone */
    int walks_followed;
    search_goals goals;
} search;

/* extents.c */
bool search_is_fixed(const extents_variable *v); /* does one value serve for it? */
bool search_is_in_memory(const tl_expr *e);
bool search_follows_loop(const search *s, const tl_expr *e);

/* extents_tables.c */
void search_find_tables(search *s);

/* extents_goals.c */
void search_find_goals(search *s);
/* Measures how far the values of s->values are from each outcome: 0 where it is met, below 1 where
 * control came to the place, more where it did not.
 */
search_met search_measure(search *s);

/* extents_distance.c: how far a condition is from being true (or false); 0: it is. Deep, where it
 * says where the loop around it begins.
 */
double search_distance(extents_values *v, const tl_expr *e, bool wanted, const tl_expr *deep);
/* How far, deep, a loop that runs less often is from running so often. */
double search_lack(extents_values *v, const tl_for *loop, int count);

/* extents_search.c */
void search_run(search *s);

#endif
