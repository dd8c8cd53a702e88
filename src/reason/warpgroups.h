/* The class of kernels whose products run beside their warps: roles of warpgroups, tiles brought by
 * the tensor memory accelerator, asynchronous products.
 *
 * `let warpgroups = N` chooses it (0: the class whose warps issue and wait for each product
 * themselves) until pass place has written it into the role's header, where it stands from then on.
 */
#ifndef FLASHTL_REASON_WARPGROUPS_H
#define FLASHTL_REASON_WARPGROUPS_H

#include "reason/place.h"

enum {
    WARPGROUP_WARPS = 4,
    WARPGROUP_ROWS = 64,       /* of one product */
    WARPGROUP_STEP_BYTES = 32, /* a contracted length: a multiple of it */
    WARPGROUPS_MAX = 3,
};

/* Why the kernel, as pass fold leaves it, cannot be of this class on this GPU; NULL: it can, as far
 * as can be said before sizes are known.
 */
const char *warpgroups_refusal(reason *r, const place_plan *plan);

/* Do all warpgroups together bring operands of a round's products to shared memory? They meet there
 * then, and no round runs beside another.
 */
bool warpgroups_store_operands(const reason *r);

/* Does a Copy bring tiles of a view into shared memory? */
bool warpgroups_copy_views(const reason *r);
/* Does the Copy bring tiles of so many rows as boxes: one, or a few, each in a page of its own? */
bool warpgroups_copies_boxes(const reason *r, const tl_statement *copy, int64_t rows);

/* Of the tiles that a Copy brings as boxes: how many end within their tensor or view, and the
 * number of the one at hand. False: they have no numbers. The kernel is bound. boxes.c
 */
typedef struct warpgroups_end {
    const char *whole, *at;
} warpgroups_end;
bool warpgroups_read_end(reason *r, const tl_statement *copy, warpgroups_end *out);

typedef struct warpgroups_padded {
    str index, name; /* of the axis; of the length that its tiles have */
    int64_t length, padded;
} warpgroups_padded;

typedef struct warpgroups_shape {
    tl_expr **place, *before;
} warpgroups_shape;

/* What was changed so that tiles are longer than their axes. */
typedef struct warpgroups_padding {
    LIST(warpgroups_padded) axes;
    LIST(warpgroups_shape) shapes;
} warpgroups_padding;

/* Makes tiles longer where they take all of an axis whose length products of warpgroups cannot
 * contract. Place plans and cost models read before are out of date afterwards; so after undoing
 * it.
 */
warpgroups_padding warpgroups_pad(reason *r, const place_plan *plan);
void warpgroups_unpad(reason *r, const warpgroups_padding *all);
void warpgroups_explain_padding(reason *r, const warpgroups_padding *all);

/* The role whose products are asynchronous, from pass place on; NULL: the kernel has none, or two
 * that pass pair wrote.
 */
tl_statement *warpgroups_role(const tl_kernel *kernel);

/* On how many parts of its columns that many warpgroups work where a product has so many rows: 1,
 * each has its own 64 rows; 'count', all have the same 64 of a left operand that they brought to
 * shared memory. 0: neither.
 */
int64_t warpgroups_column_parts(int64_t rows, int64_t count, bool is_stored);

/* What contracted lengths are multiples of, in elements. */
int warpgroups_step(const reason *r);

/* Registers a thread of the role that loads, and of one of 'count' warpgroups that compute. */
int warpgroups_load_registers(const reason *r, int64_t count);
int warpgroups_math_registers(const reason *r, int64_t count);
/* The same, of two that share rows. */
int warpgroups_paired_load_registers(void);
int warpgroups_paired_registers(const reason *r);
/* Did pass pair write the kernel? Its text is complete. */
bool warpgroups_are_paired(const tl_kernel *kernel);

#endif
