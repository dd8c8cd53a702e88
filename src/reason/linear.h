/* Integer expressions as sums: constant + coefficient*atom + ... An atom is a name, or anything
 * that is not linear itself (q/heads, a table's element), compared by its text.
 */
#ifndef FLASHTL_REASON_LINEAR_H
#define FLASHTL_REASON_LINEAR_H

#include "reason/tiles.h"

enum { LINEAR_TERMS_MAX = 12 };

typedef struct linear_term {
    const tl_expr *atom;
    int64_t coefficient;
} linear_term;

typedef struct linear {
    int64_t constant;
    linear_term terms[LINEAR_TERMS_MAX];
    int count;
    bool is_broken; /* too many terms, or overflow */
} linear;

/* 'expand': lets are replaced by what they stand for, as far as that is linear. */
linear linear_of(reason *r, const tl_expr *e, bool expand);
void linear_add(linear *to, const linear *what, int64_t factor);
void linear_add_atom(linear *to, const tl_expr *atom, int64_t factor);
int64_t linear_coefficient(const linear *l, str name);
/* Is it linear in the name, which then is in no other atom, and with which factor? */
bool linear_factor(const linear *l, str name, int64_t *factor);
void linear_drop(linear *l, str name); /* the term of that name */

/* What a comparison takes out along an axis: kv > edge ('is_upper'), or kv <= edge. */
typedef struct linear_cut {
    bool is_solved, is_upper;
    linear edge; /* over other names */
} linear_cut;

linear_cut linear_cut_of(reason *r, str axis, const tl_expr *test);

/* Positive terms first, then the others, the constant last. */
tl_expr *linear_expr(reason *r, const linear *l);

#endif
