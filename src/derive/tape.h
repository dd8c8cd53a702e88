/* A sketch as a tape: what it computes for one pair of blocks, each result a value of its own, and
 * after that the gradients of these values, added by reverse.c. Values know the names of their
 * axes, not which comes first: elementwise operations, masks and vectors go by names, so that the
 * kernels that are written from the tape (write.c) may turn every tile as they need it.
 */
#ifndef FLASHTL_DERIVE_TAPE_H
#define FLASHTL_DERIVE_TAPE_H

#include "diag/diag.h"
#include "tl/names.h"
#include "tl/tl.h"

enum {
    TAPE_NONE = -1,
    TAPE_AXES = 2,
    TAPE_OPERANDS = 3,
    TAPE_USES = 4,
    TAPE_PLACES = 8, /* of which the first is used: kernels find no fewer at a time */
    TAPE_ENTRIES = 8 /* of a table, whose gradients one pass makes */
};

typedef struct tape_value {
    str name; /* as it would be called; empty: whatever it is a part of */
    str axes[TAPE_AXES];
    int axis_count;
    int adjoint; /* the gradient so far: a value that may lack axes along which it is the same */
    int hidden;  /* of a gradient: number of the hiding where it is 0; 0: of none */
    int bare;    /* it before that is made so; TAPE_NONE: itself */
    bool may_overflow; /* it may be infinite, where a Mask hides that */
} tape_value;

typedef enum tape_kind {
    TAPE_LOAD,    /* of a tensor, a view, or what the forward pass leaves */
    TAPE_COMPUTE, /* products and reductions have 'over' */
    TAPE_MASK
} tape_kind;

/* A value, or an expression that names none. */
typedef struct tape_operand {
    int value; /* TAPE_NONE: */
    str text;
    const tl_expr *expression; /* of the sketch; NULL: of a rule, and names no axis */
} tape_operand;

/* A name of a condition that means a value. */
typedef struct tape_use {
    str name;
    int value;
} tape_use;

typedef struct tape_item {
    tape_kind kind;
    int value; /* that it makes */
    tl_operation operation;
    tape_operand operands[TAPE_OPERANDS];
    int operand_count;
    str over; /* the axis that a product or a sum contracts */
    int sum; /* number of the tape's sum that it is added to, or (LOAD) that it loads; 0: of none */
    str tensor;             /* LOAD of no sum */
    str input;              /* LOAD: the Input that it is of, by a view or itself */
    const tl_expr *element; /* LOAD of numbers of the Input that indices tell: those of a view that
                               is copied, or of this element of expressions */
    bool is_expression;     /* the latter: nothing is copied */
    int reading;            /* number among the ways in which the Input is read, each of which gives
                               a gradient of its own; 0: there is one */
    bool is_by_entries;     /* another item has its gradient, which is stored entry by entry: */
    unsigned tables;        /* of that one, a bit for each axis whose entries have tiles, */
    str entries;            /* the index of blocks of entries along the last of these, */
    int entry;              /* of which it is this one; empty: each entry has tiles */
    bool accumulates; /* an Add, Max or Min: the second operand is made to go into the first */
    int place;        /* number of the tape's place where an extreme is; 0: it is none */
    /* MASK: where this holds, or where operands[1] compares so with operands[2] */
    const tl_expr *condition;
    const char *compares;
    str fill; /* empty: minus infinity */
    tape_use uses[TAPE_USES];
    int use_count;
    const tl_statement *from; /* of the sketch, for messages */
} tape_item;

/* A sum over the blocks of a loop, or what a Fill before it leaves in it. */
typedef struct tape_sum {
    int loop;
    str name; /* of its tile */
    int value;
    int start;           /* what its tile has before the loop; TAPE_NONE: numbers */
    bool is_nonzero;     /* of these */
    bool is_extreme;     /* the largest, */
    bool is_least;       /* or the smallest, no sum */
    str begins;          /* as what an extreme's tile begins with, where that is a number */
    const char *why_not; /* an extreme has no gradient; NULL: it has */
} tape_sum;

/* Where the largest, or the smallest, of a row is: the forward pass leaves it where gradients need
 * it, since a product that is made again may differ in its last bits. Of equal ones it is the
 * first.
 */
typedef struct tape_place {
    str tensor;
    const tl_statement *at; /* that takes the extreme */
    str axis;               /* that each extreme has a place for */
    bool is_of_loop;        /* of all blocks */
    bool is_read;
    const char *why_not; /* it cannot be left; NULL: it can */
} tape_place;

/* A Mask that makes a gradient 0, or does so to the weights that it is multiplied by. */
typedef struct tape_hiding {
    int item;
    int next; /* number of another; 0: none */
} tape_hiding;

/* An Output, and the value that is stored there. */
typedef struct tape_store {
    const tl_statement *copy, *output;
    int value;
    bool is_statistic; /* made of a softmax's m and l, but for lse: no gradient comes to it */
} tape_store;

/* A loop that walks an axis in blocks. */
typedef struct tape_loop {
    const tl_statement *statement;
    str walked; /* an index name */
    int end;    /* items before this one are made in it or before it */
} tape_loop;

/* A sum that takes a walk of its own: a kernel before those that need it leaves it in memory. */
typedef struct tape_cut {
    int item;
    str tensor;
} tape_cut;

typedef struct tape {
    arena *memory;
    diag_list *diags;
    tl_kernel *kernel;
    LIST(tape_loop) loops;
    LIST(tape_cut) cuts;
    LIST(tape_value) values;
    LIST(tape_item) items;
    LIST(tape_sum) sums;
    LIST(tape_place) places;
    LIST(tape_hiding) hidings;
    LIST(tape_store) stores;
    int forward_items;            /* items from here on are made of gradients */
    int softmax_loop;             /* TAPE_NONE: it stands in no loop */
    int scores, shifted, weights; /* of the softmax: before it, less lse, after it; TAPE_NONE */
    int lse;                      /* as it is in memory; TAPE_NONE */
    str normalised;               /* the axis over which its weights sum to 1 */
    str lse_tensor;               /* the Output that has the log-sum-exp, or will */
    bool lse_is_output;           /* of the sketch itself */
    int starts[2];                /* what its m and l begin with; TAPE_NONE: nothing */
    int delta;                    /* sum of weights times their gradients, by row; TAPE_NONE */
    bool delta_walks;             /* it takes a walk of its own */
    const str *of;                /* the Inputs whose gradients are wanted; of_count 0: all */
    int of_count;
} tape;

/* Reads a bound sketch of one kernel, axes inferred. False: reported. */
bool tape_read(tape *t, tl_kernel *kernel, arena *memory, diag_list *diags);

/* Finds its loops; a part of tape_read. False: reported. */
bool tape_outline(tape *t);

/* Adds the gradients of all Inputs that the stores depend on. False: reported. */
bool tape_reverse(tape *t);

int tape_new_value(tape *t, str name, const str *axes, int axis_count);
int tape_add(tape *t, tape_item item); /* its value */
/* Where the Mask holds that this item is, the gradient is 0. */
void tape_hide(tape *t, int gradient, int item);
/* The item that makes a value, by its number. */
int tape_maker(const tape *t, int value);
/* The n-th value that an item reads, in its operands and its condition; TAPE_NONE: that is none. */
int tape_read_value(const tape_item *item, int n);
/* The gradient that was made of what an item loads. */
int tape_gradient(const tape *t, int load);
bool tape_has_axis(const tape *t, int value, str axis);
/* The axis that the softmax's loop walks, where weights sum to 1 along it; empty: they do in a
 * tile.
 */
str tape_softmax_walk(const tape *t);
/* An Input of numbers that a gradient may be of: neither places and codes nor a scalar. */
bool tape_is_number(const tl_statement *s);
/* The Input of that name. */
const tl_parameter *tape_tensor(const tape *t, str name);
/* The axes of the first Output: what comes before its matrix is a tile's place. */
const tl_axes *tape_output_axes(const tape *t);
/* The index by which a LOAD chooses on an axis of its tensor. */
const tl_expr *tape_index(const tape_item *load, const tl_parameter *of, int axis);
bool tape_is_element(const tl_expr *e); /* of an Input of numbers? */
/* The value that such an element is, copied or not; TAPE_NONE: it is none yet. */
int tape_element(const tape *t, const tl_expr *element);
/* Is it an axis of some Output's matrix? */
bool tape_is_of_outputs(const tape *t, str axis);
/* The element of an Input that a view shows; NULL: it shows another view, or chooses. */
const tl_expr *tape_view_element(const tl_symbol *view);
/* How an expression changes with an element in it, as text; empty: it does not. False: reported. */
bool tape_slope(tape *t, const tl_statement *at, const tl_expr *e, const tl_expr *element,
                str *out);
/* The Input of a LOAD whose gradient is wanted; NULL: it has none. */
const tl_statement *tape_wanted(const tape *t, const tape_item *load);
/* "M_places[b, q, 0]" */
str tape_place_element(const tape *t, const tape_place *place);
/* The name of the size of what is left of a loop's places. */
str tape_places_size(const tape *t);
/* 'wanted', or wanted_2, ...: what nothing of the sketch but its loop is called. */
str tape_free_name(const tape *t, const char *wanted);
/* Does the sketch mean something else than a tile by this name, so that no tensor may have it? */
bool tape_is_taken(const tape *t, str name);
/* Is its length known before the kernel runs, so that memory can be had for it? */
bool tape_is_length_known(const tape *t, str index);
/* The axis of the kernel's tensors with that index; NULL: there is none. */
const tl_axis *tape_axis(const tape *t, str index);
/* Reports that there is no gradient, at a statement (or the kernel). Always false. */
bool tape_refuse(tape *t, const tl_statement *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
