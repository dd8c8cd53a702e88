/* A sketch being run: shared by sketch*.c. */
#ifndef FLASHTL_INTERPRET_SKETCH_H
#define FLASHTL_INTERPRET_SKETCH_H

#include "interpret/machine.h"

enum { SKETCH_LOOPS_MAX = TL_NESTING_MAX };

/* A loop under way: which length it walks, in blocks of which size (0: single indices). */
typedef struct sketch_loop {
    const tl_statement *statement;
    const tl_expr *length; /* NULL: it walks none */
    int64_t size, value;
} sketch_loop;

/* Maximum and sum of a Softmax, by row; one for each place of the rows that the loop meets. */
typedef struct sketch_rows {
    int64_t start, count;
    double *maximum, *sum;
    double *off, *squares; /* of the weights: their errors' sum, the sum of their squares */
} sketch_rows;

typedef struct sketch_softmax {
    const tl_statement *statement, *loop; /* loop NULL: over the tile's own last axis */
    int axis;                             /* -1: single indices */
    bool is_known;
    bool is_multiplied; /* the weights are operands of a product */
    LIST(sketch_rows) rows;
    tile first_maximum, first_sum; /* given before the loop */
} sketch_softmax;

typedef struct sketch {
    machine *m;
    scope scope;
    tile *tiles; /* by symbol position: a variable has one value, wherever it is */
    sketch_loop loops[SKETCH_LOOPS_MAX];
    int loop_count;
    sketch_softmax *softmaxes;
    int softmax_count;
    int gathering;  /* the softmax that this pass gathers for; -1: the pass that counts */
    bool is_silent; /* a gathering pass: nothing is stored */
    const tl_statement **zero_loops; /* by symbol position: entering it empties the accumulator */
    tile *values;                    /* by symbol position: beside the places of a RowTopK */
    double *starts;                  /* by symbol position: from what that accumulator starts */
} sketch;

bool sketch_softmax_run(sketch *k, const tl_statement *s);
/* Runs a loop; with Softmax over it, once for each of them before the pass that counts. */
bool sketch_loop_passes(sketch *k, const tl_statement *s);
bool sketch_loop_once(sketch *k, const tl_statement *s);
void sketch_find_softmaxes(sketch *k);
bool sketch_top_run(sketch *k, const tl_statement *s);
bool sketch_top_of_none(sketch *k, const tl_statement *loop);

/* Shapes a tile by its inferred axes at this place. */
bool sketch_shape(sketch *k, tile *t, const tl_tile *known, diag_range range);
const tile *sketch_tile(scope *s, const tl_expr *name, const tl_statement *at);

bool sketch_copy(sketch *k, const tl_statement *s);
tile *sketch_own_tile(sketch *k, const tl_expr *name);
convert_format sketch_format(const sketch *k, const tl_expr *name, tl_type otherwise);

/* The outermost loop that holds all accumulates of a tile and no other use of it: entering it
 * empties the tile. 'start': from what it starts. NULL when there is none.
 */
const tl_statement *sketch_zero_loop(const machine *m, const tl_symbol *symbol, double *start);
/* Whether the tile is given a value somewhere, with which it starts then. */
bool sketch_is_given_value(const machine *m, const tl_symbol *symbol);

#endif
