/* Integer expressions as sums: constant + factor*atom + ... An atom is a name, anything that is not
 * linear itself (q/heads, a table's element), or the index that goes through an axis.
 */
#ifndef FLASHTL_TL_LINEAR_H
#define FLASHTL_TL_LINEAR_H

#include "tl/names.h"

enum { TL_LINEAR_TERMS_MAX = 16 };

typedef struct tl_linear_term {
    const tl_expr *atom; /* names are equal by what they name, else by their text */
    const tl_axis *axis; /* atom NULL: its index */
    int64_t factor;      /* not 0 */
} tl_linear_term;

typedef struct tl_linear {
    int64_t constant;
    tl_linear_term terms[TL_LINEAR_TERMS_MAX];
    int count;
    bool is_broken; /* too many terms, overflow, or something unknown: it says nothing */
} tl_linear;

/* What names stand for. */
typedef struct tl_linear_scope {
    bool (*means)(void *context, const tl_expr *name, tl_linear *out); /* false: itself */
    void *context;
    bool folds; /* what is known at compile time is its value */
} tl_linear_scope;

/* 'scope' NULL: names stand for themselves. */
tl_linear tl_linear_of(const tl_linear_scope *scope, const tl_expr *e);
void tl_linear_add(tl_linear *to, const tl_linear *what, int64_t times);
void tl_linear_add_atom(tl_linear *to, const tl_expr *atom, int64_t times);
void tl_linear_add_index(tl_linear *to, const tl_axis *axis, int64_t times);
void tl_linear_add_constant(tl_linear *to, int64_t value, int64_t times);
void tl_linear_drop(tl_linear *l, int at); /* a term */

#endif
