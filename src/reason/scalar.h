/* Scalar expressions: what is the same for a whole tile, what is positive, products of them. */
#ifndef FLASHTL_REASON_SCALAR_H
#define FLASHTL_REASON_SCALAR_H

#include "reason/tiles.h"
#include "tl/holds.h"

/* The same for all elements of a tile: no tile and no index of a tile's axis takes part. */
bool scalar_is_uniform(reason *r, const tiles_list *tiles, const tl_expr *e);
/* What it may be as an operand about a tile; 'tile' NULL: no index of an axis takes part. */
holds_value scalar_holds(reason *r, const tiles_tile *tile, const tl_expr *e);
/* May it be another number than a whole one? Sums of such are rounded as they are written. */
bool scalar_is_real(reason *r, const tiles_list *tiles, const tl_expr *e);
/* Does a number take part that is real, and known at launch or later? No loop ends by it. */
bool scalar_names_real(reason *r, const tl_expr *e);
/* Surely above 0: literals, sizes, Inputs with `where x > 0`, products, quotients and sums of such.
 */
bool scalar_is_positive(reason *r, const tl_expr *e);
/* Does the name take part, directly or through lets? */
bool scalar_depends_on(reason *r, const tl_expr *e, str name);
/* Is it known per tile only: does a walk of the grid take part, directly or through lets? */
bool scalar_depends_on_tile(reason *r, const tl_expr *e);
bool scalar_number(reason *r, const tl_expr *e, double *value); /* known now */

/* The name of a constant of that value: an existing `let`, or a new one called 'wanted' where all
 * that it needs is known. Simple expressions come back as they are.
 */
const char *scalar_name(reason *r, const tl_expr *e, const char *wanted, const char *comment);
/* a*b, constants multiplied out. */
tl_expr *scalar_product(reason *r, const tl_expr *a, const tl_expr *b);

tl_statement *scalar_grid(const tl_kernel *kernel); /* the `grid` statement; NULL: none */

#endif
