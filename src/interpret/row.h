/* Expressions for a row of elements, as row.c and row_element.c share them. */
#ifndef FLASHTL_INTERPRET_ROW_H
#define FLASHTL_INTERPRET_ROW_H

#include "interpret/machine.h"

/* What is under a condition counts in the lanes where its values are as wanted. */
typedef struct row_guard {
    const struct row_guard *outer;
    const double *values;
    bool wants_true;
} row_guard;

typedef struct row_context {
    scope *s;
    const tile *of;
    int64_t row, first_lane;
    int width;
    const uint8_t *active;  /* by the caller; NULL: all */
    const row_guard *guard; /* of the conditions around, the innermost */
    int depth;
} row_context;

static inline lanes row_one(double value) {
    return (lanes){.kind = LANES_ONE, .value = value};
}

bool row_of(row_context *c, const tl_expr *e, lanes *out);
/* The lanes that all conditions around leave to be computed; NULL: all. False: no memory. */
bool row_active(const row_context *c, const uint8_t **active);

/* An element by its indices. */
bool row_element(row_context *c, const tl_expr *e, lanes *out);
/* A tile among values: its element at the place of the row's elements, found by the axes' names. */
bool row_tile(row_context *c, const tl_expr *e, lanes *out);

#endif
