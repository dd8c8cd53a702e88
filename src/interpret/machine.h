/* What the files of the interpreter share. */
#ifndef FLASHTL_INTERPRET_MACHINE_H
#define FLASHTL_INTERPRET_MACHINE_H

#include "interpret/interpret.h"

enum {
    MACHINE_AXES_MAX = 2,            /* of a tile */
    MACHINE_TILE_ELEMENTS = 1 << 26, /* most of one tile */
    MACHINE_LANES_MAX = 1 << 16,     /* columns of a tile */
    MACHINE_SCRATCH_VECTORS = 96,    /* a statement's intermediate rows */
};

/* --- memory ----------------------------------------------------------------------------------- */

/* A parameter with its tensor. Outputs remember which statement wrote each element. */
typedef struct machine_tensor {
    const tl_symbol *symbol;
    interpret_tensor memory;
    convert_format rounding; /* on a store, before the memory's own format */
    double least, most;      /* the declared type saturates there */
    uint16_t *writers;       /* 0: nobody; else statement number + 1, in a dense row-major map */
    int64_t element_count;
    bool is_reported; /* one finding of a kind per tensor is enough */
} machine_tensor;

/* --- tiles ------------------------------------------------------------------------------------ */

/* The part of axis i that an executor owns: elements [first[i], end[i]). */
typedef struct tile_share {
    int64_t first[MACHINE_AXES_MAX], end[MACHINE_AXES_MAX];
} tile_share;

/* A matrix or vector of doubles, row-major. A vector has one axis and columns = 1. */
typedef struct tile {
    double *data;
    int axis_count;
    str index[MACHINE_AXES_MAX];
    int64_t count[MACHINE_AXES_MAX]; /* extent; 1 after axis_count */
    int64_t start[MACHINE_AXES_MAX]; /* where it is on its axes */
    bool has_start[MACHINE_AXES_MAX];
    bool is_defined;
    const tl_statement *writer;
    convert_format format; /* of storage; F64 in EXACT */
    int64_t capacity;      /* elements that 'data' holds, tile_parts times */
    bool is_narrow;        /* as it is in memory: what a product takes without rounding */
    int64_t product; /* with errors: the one that last added to it; 0: it was made otherwise */
    /* With errors: the share of their variance that elements along an axis have in common, all in
     * one direction, and with 'signs' (as many as elements; NULL: none are known).
     */
    double alike[MACHINE_AXES_MAX], turned[MACHINE_AXES_MAX], *signs[MACHINE_AXES_MAX];
    int64_t sign_counts[MACHINE_AXES_MAX]; /* that there is room for */
    tile_share share;                      /* what its executor owns; all of it elsewhere */
} tile;

/* --- values ----------------------------------------------------------------------------------- */

/* Values of one row of a tile, or of one value in all lanes. */
typedef enum lanes_kind { LANES_ONE, LANES_RAMP, LANES_MANY } lanes_kind;

typedef struct lanes {
    lanes_kind kind;
    double value;        /* ONE; RAMP: the first, each next is 1 more */
    const double *items; /* MANY */
} lanes;

typedef struct machine machine;
typedef struct scope scope;

/* Gives the tile that a bound name means, for reading; reports and returns NULL when it can't be.
 */
typedef const tile *scope_tile(scope *s, const tl_expr *name, const tl_statement *at);

/* What names mean to one executor (or to a sketch). */
struct scope {
    machine *machine;
    tl_value *values; /* by symbol position */
    bool *has_value;
    scope_tile *tile_of;
    void *owner;
    const tl_statement *at;             /* the statement being executed */
    bool is_first_tile, has_more_tiles; /* of a walk over this block's tiles */
    scope *following;                   /* the next tile's names; NULL outside of TL Code */

    /* The element a row of lanes stands for: values of index symbols, by symbol position. */
    lanes *indices;
    bool *has_index;
};

struct machine {
    tl_kernel *kernel;
    const interpret_request *request;
    arena *memory;
    diag_list *diags;
    bool is_exact;
    bool has_errors;         /* errors are carried along, */
    bool multiplies_bytes;   /* of a kernel whose products take 8-bit operands */
    struct errors *errors;   /* what that takes (errors.c) */
    bool errors_are_unknown; /* some were not carried along */
    const tl_expr *viewed;   /* the element that the view being read is: the reader carries its
                                errors */
    bool is_code;            /* elements past the end of an axis exist */
    machine_tensor *tensors; /* by symbol position; data NULL for other symbols */
    tl_value *launch_values; /* sizes and scalars, by symbol position */
    bool *has_launch_value;
    double *scratch; /* vectors of 'scratch_width' lanes */
    int scratch_width, scratch_used;
    const tl_statement **statements; /* by number */
    int statement_count;
    int last_number; /* of machine_statement_number */
    int64_t steps, most_steps, tiles_run, tiles_total;
    bool has_failed; /* stop: a finding that makes going on pointless */
};

/* --- interpret.c ------------------------------------------------------------------------------ */

void *machine_block(machine *m, size_t count, size_t bytes); /* zeroed; belongs to the arena */
void machine_reserve(machine *m, int64_t width);      /* scratch vectors of that many lanes */
bool machine_tiles_exist(machine *m);                 /* those that the caller asks for */
bool machine_step(machine *m, const tl_statement *s); /* false when steps ran out */
int machine_statement_number(machine *m, const tl_statement *s);
/* Reports at 's' and stops the run. */
#define machine_stop(m, id, range, ...)                                                            \
    ((m)->has_failed = true,                                                                       \
     diag_add((m)->diags, (id), (range), (const str[]){__VA_ARGS__, {NULL, 0}}))

/* --- value.c ---------------------------------------------------------------------------------- */

void scope_init(scope *s, machine *m);
void scope_set(scope *s, const tl_symbol *symbol, int64_t value);
void scope_set_value(scope *s, const tl_symbol *symbol, tl_value value);
/* A value that is the same for all elements; false, with a report, when it has none. */
bool scope_integer(scope *s, const tl_expr *e, int64_t *value);
bool scope_value(scope *s, const tl_expr *e, tl_value *value);
bool scope_evaluate(scope *s, const tl_expr *e, tl_value *value); /* silent */

/* --- row.c ------------------------------------------------------------------------------------ */

/* Binds index names to a tile's axes, evaluates, unbinds. 'width' lanes; lanes with active[i] = 0
 * may hold anything and touch no memory (NULL: all are active).
 */
void scope_bind_axis(scope *s, str index, lanes at);
void scope_unbind_axis(scope *s, str index);
bool scope_lanes(scope *s, const tl_expr *e, const tile *of, int64_t row, int width,
                 const uint8_t *active, lanes *out);
/* The same for the lanes [first, first + width) of a row of the tile 'of'. */
bool scope_lanes_at(scope *s, const tl_expr *e, const tile *of, int64_t row, int64_t first,
                    int width, lanes *out);
double *machine_vector(machine *m); /* NULL, with a report, when there are none left */
const double *lanes_items(machine *m, lanes values, int width); /* as an array */

/* --- memory.c --------------------------------------------------------------------------------- */

/* Elements of a tensor or view at 'at' (a lane vector per axis). Outside of a view's axes, and at
 * negative indices, they are 0; an index past a tensor's end is reported.
 */
bool memory_read(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                 const uint8_t *active, double *out, diag_range range);
bool memory_write(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                  const double *values, bool accumulates, const tl_statement *writer);
/* The same, but what is past the end of the tensor's own axes is 0 as well: a tile's ragged
 * end. */
bool memory_read_clipped(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const uint8_t *active, double *out, diag_range range);
/* The same for what the elements of a tensor that has errors err by. */
bool memory_read_errors(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                        const uint8_t *active, double *out, diag_range range);
bool memory_write_errors(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const double *values, bool accumulates, const tl_statement *writer);
machine_tensor *memory_tensor(const machine *m,
                              const tl_symbol *symbol); /* a view's is its base's */
bool memory_read_one(scope *s, const tl_symbol *symbol, const int64_t *at, double *out,
                     diag_range range);
/* Elements of Outputs that nobody wrote. */
void memory_check_written(machine *m);

/* --- tile.c ----------------------------------------------------------------------------------- */

void tile_shape(machine *m, tile *t, int axis_count, const int64_t *count, const str *index);
int64_t tile_size(const tile *t);
tile_share tile_whole(const tile *t);
void tile_round(machine *m, tile *t, const tile_share *share, convert_format format);

/* Copies between tile and global memory: entry i of 'at' is the fixed index of the tensor's axis i,
 * or, where axis_of[i] >= 0, that axis of the tile.
 */
typedef struct tile_view {
    const tl_symbol *tensor;
    int axis_of[TL_AXES_MAX];
    int64_t fixed[TL_AXES_MAX];
} tile_view;
/* A tile may reach past the ends of its own axes. Reports its index on another axis that is past
 * the axis' end, if the tile begins inside its own.
 */
bool memory_check_fixed(scope *s, const tl_symbol *symbol, const tile_view *view,
                        const int64_t *start, diag_range range);
bool tile_load(scope *s, tile *t, const tile_share *share, const tile_view *view, diag_range range);
bool tile_store(scope *s, const tile *t, const tile_share *share, const tile_view *view,
                bool accumulates, const tl_statement *writer);

/* One Compute on tiles. Operands that are tiles come through the scope; the target has its shape.
 */
bool tile_product(scope *s, tile *target, const tile_share *share, const tile *a, bool a_turned,
                  const tile *b, bool b_turned, bool accumulates);
bool tile_elementwise(scope *s, const tl_statement *at, tile *target, const tile_share *share,
                      bool accumulates);
bool tile_reduce(scope *s, tl_operation operation, tile *target, const tile_share *share,
                 const tile *from, bool is_turned, bool accumulates);
bool tile_mask(scope *s, const tl_statement *at, tile *target, const tile_share *share);

/* --- errors.c --------------------------------------------------------------------------------- */

/* Next to a tile's elements; NULL where none are carried along. */
double *tile_errors(const machine *m, const tile *t);
/* Of a sum that grows: what roundings add up to, what those that are alike have in common, and how
 * much of its variance that is by now. */
double *tile_drift(const machine *m, const tile *t);
double *tile_together(const machine *m, const tile *t);
double *tile_counted(const machine *m, const tile *t);
size_t tile_parts(const machine *m); /* elements, and as many numbers for each of these */
void tile_copy_errors(machine *m, tile *to, const tile *from);
bool errors_open(machine *m);
/* What was loaded is as it is. */
void errors_of_load(machine *m, tile *t, const tl_symbol *tensor);
bool errors_are_stored(const machine *m, const tl_symbol *tensor);
/* Of values that become elements of a tensor between kernels, in its type. */
void errors_of_store(const machine *m, const tl_symbol *tensor, const double *values,
                     const double *errors, int width, double *out);
void errors_of_reduction(machine *m, tl_operation operation, tile *target, const tile *from,
                         bool is_turned, const double *before);

/* An elementwise row is computed again for each f32 operation inside of its operands: each
 * computation 'begins', an operation asks whether it is the one that is off by its rounding.
 */
void errors_begin_expressions(machine *m);
bool errors_next_rounding(machine *m); /* of those that were counted; false: that was the last */
bool errors_rounds(machine *m);
void errors_off_by_rounding(const double *values, int width, double *out);

/* An elementwise row is computed again for each tile that it reads, with that tile off by its
 * errors times each 'reach' of the operation, up and then down: 'begin' before the first time,
 * 'next' until there is none. Whoever reads a tile asks whether it is off. 'open' gets
 * what operands err by where that is infinite or NaN, else 0.
 */
void errors_begin(machine *m, tl_operation operation, double *open);
bool errors_next(machine *m);
bool errors_are_last(const machine *m); /* of the reaches on that side */
/* What errors of elements of 'target' have in common: 'begin' before its first row, 'add' for each
 * variance that comes of the tile that is off (NULL: of the element's own arithmetic), 'end' after
 * the last.
 */
void errors_begin_common(machine *m, const tile *target);
void errors_add_common(machine *m, const tile *target, const tile *from, double variance);
void errors_end_common(machine *m, tile *target);
const tile *errors_off(const machine *m); /* the tile that is off */
bool errors_are_on(machine *m, const tile *t);
bool errors_are_up(const machine *m); /* by the first reach */
/* Once more with all tiles off, where an operation asks for it. */
bool errors_all(machine *m, tl_operation operation);
/* Elements of such a tile, 'step' apart. */
void errors_apart(const machine *m, const double *values, const double *errors, int64_t step,
                  int width, double *out);
/* Of an operation's own arithmetic, whose first operands are given. */
void errors_own(tl_operation operation, const double *results, const double *firsts, int width,
                double *out);
/* Variances of sums in f32 that each grow by a term: adds them, and what roundings add up to, with
 * their signs. Returns what all of them grew by.
 */
double errors_of_adding(const double *sums, const double *terms, int width, double *variances,
                        double *drift);
/* What two results differ by, of operands that are 'reach' errors apart, for each of these. NaN
 * where all that lies between is possible: past a pole, or back from what has overflown.
 */
typedef struct errors_results {
    const double *results, *firsts; /* of the operands the first */
} errors_results;
void errors_between(const machine *m, tl_operation operation, errors_results a, errors_results b,
                    int width, double *out);
/* Of a share of a whole that was rounded to what products take, as weights are. */
double errors_of_weight(const machine *m);
double errors_of_least(const machine *m); /* below which an operand may be 0 */
/* Of operands once they are rounded to what products take; and the distance of the type's numbers
 * there.
 */
void errors_of_rounding(const machine *m, const double *values, int64_t count, double *out);
void errors_steps(const machine *m, const double *values, int64_t count, double *out);
double *errors_room(machine *m, int which, int64_t count); /* until it is asked for again */
int64_t errors_next_product(machine *m);                   /* a number for it, from 1 */

void errors_round(const machine *m, double *values, int64_t count); /* to what products take */
/* What elements of a tile have in common along an axis, but for their signs. */
void errors_keep_signs(machine *m, tile *t, int axis, const double *signs, double share);

/* --- errors_product.c ------------------------------------------------------------------------- */

void errors_of_product(machine *m, const tl_statement *at, tile *target, const tile *a,
                       bool a_turned, const tile *b, bool b_turned, bool accumulates);

/* --- sketch.c, code.c ------------------------------------------------------------------------- */

bool sketch_run(machine *m);
bool code_run(machine *m);

#endif
