/* What decides whether a Copy's tile is a box of one tensor, as TMA moves: rows that follow one
 * another along one axis, columns along the last, one place on every other axis; and whether the
 * tile ends within its view, for a box is clipped at the end of the tensor alone. One home for the
 * passes, which choose tile sizes by it, and the translator, which writes the corners.
 *
 * The kernel is bound.
 */
#ifndef FLASHTL_TL_BOXES_H
#define FLASHTL_TL_BOXES_H

#include "tl/names.h"

/* Parts of a tile that are boxes have a multiple of so many rows: the lines of a swizzle. */
enum { TL_BOX_ROWS = 8 };

/* --- multiples.c: lengths and ends ------------------------------------------------------------ */

/* Is the length surely a multiple of n, by numbers and launch conditions? */
bool tl_is_multiple(const tl_kernel *kernel, const tl_expr *e, int64_t n);
/* Does tile number 'at' of that size surely end within the length, where s stands? */
bool tl_is_whole(const tl_kernel *kernel, const tl_statement *s, const tl_expr *at, int64_t size,
                 const tl_expr *length);

/* --- boxes.c: indices in a tile's rows and columns -------------------------------------------- */

/* Does the index of that name take part; and as 'factor' times it, plus what is free of it? */
bool tl_uses_index(const tl_expr *e, str name);
bool tl_index_factor(const tl_expr *e, str name, int64_t *factor);

int64_t tl_common_divisor(int64_t a, int64_t b);
/* What divides an expression, as far as is known before launch; 0: it is 0. */
int64_t tl_divisor(const tl_expr *e);

/* An index of a tensor or view, as a tile's rows and columns walk it. */
typedef struct tl_course {
    int64_t row, column; /* what it gains from one row or column to the next */
    bool is_affine;      /* in rows */
    int64_t multiple;    /* what divides it in every row, at column 0; 0: it is 0 there */
    int64_t start;       /* the same, in the tile's first row */
} tl_course;

/* Of a view's indices: 'names' are those of its axes. */
typedef struct tl_courses {
    const str *names;
    const tl_course *items;
    int count;
} tl_courses;

/* Of an expression over a view's indices. 'section': rows of the tile, or of equal parts of it, in
 * which no folded index (kv/page_len, kv % page_len) is cut; made as short as the expression takes.
 * False: its columns do not lie side by side.
 */
bool tl_course_of(const tl_kernel *kernel, const tl_expr *e, const tl_courses *of, int *section,
                  tl_course *out);

/* Do a view's rows, 'length' of them by the index 'row', fill an axis of the tensor that they are
 * folded over (r/group of a tensor's queries, of group*q_len rows)? Then they end where it does,
 * and boxes are clipped there.
 */
bool tl_fills_axis(const tl_symbol *view, str row, const tl_expr *length);

/* The axes of a tensor along which its rows and its columns go, each one by one, columns along the
 * last one; false: they go otherwise.
 */
bool tl_box_axes(const tl_course *items, int count, int *row_axis, int *column_axis);

/* What a view shows elements of, TENSOR[...] or select(CONDITION, TENSOR[...], 0): the element, and
 * the condition or NULL. NULL: it has another form.
 */
const tl_expr *tl_shown_element(const tl_binding *view, const tl_expr **condition);

/* Is the condition of a view's `select` one that a box keeps by itself? Each of its parts is either
 * the same for all rows of a section, or says that the element's index on the row axis is before
 * the tensor's end, where boxes are clipped. 'uniform' gets the parts of the first kind.
 */
enum { TL_PARTS_MAX = 8 };
typedef struct tl_uniform {
    const tl_expr *parts[TL_PARTS_MAX];
    int count;
} tl_uniform;
bool tl_box_selects(const tl_kernel *kernel, const tl_expr *condition, const tl_expr *element,
                    const tl_courses *of, int *section, tl_uniform *uniform);

/* --- the box of a Copy ------------------------------------------------------------------------ */

typedef struct tl_box {
    const tl_symbol *tensor;   /* the Input or Output */
    int row_axis, column_axis; /* of the tensor */
    int tile_axis;             /* of what is copied: the one that the tile's rows walk */
    int rows;                  /* of a box: all of the tile's, or a part of them */
    bool is_view;              /* the tile is of a view */
    bool is_within; /* no tile is cut where the tensor is not: nothing need be known of ends */
} tl_box;

/* Of a Copy from or to global memory whose tile has so many rows; false: it is no box, nor are
 * parts of it.
 */
bool tl_box_of(const tl_kernel *kernel, const tl_statement *copy, int rows, tl_box *out);

#endif
