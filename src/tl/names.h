/* Names: what every name of a kernel means, and the axes of every tile.
 *
 * tl_bind resolves all names of a program, fills in the fields of the tree marked "bound" and
 * builds each kernel's symbols. It may be called again after the tree changed; it starts afresh.
 * Names that nothing declares are errors, except in sketches, where a tile comes into being by
 * being written.
 */
#ifndef FLASHTL_TL_NAMES_H
#define FLASHTL_TL_NAMES_H

#include "tl/tree.h"

typedef enum tl_symbol_kind {
    TL_SYMBOL_VARIABLE, /* a tensor and/or its tiles: up to three places */
    TL_SYMBOL_SCALAR,   /* Input without axes: known at launch */
    TL_SYMBOL_CONSTANT, /* let NAME = e */
    TL_SYMBOL_SIZE,     /* a length known at launch: the extent of an axis that no let fixes */
    TL_SYMBOL_INDEX,    /* index name of an axis: kv, q, head. A bare axis d has two symbols of one
                         * name: this one, and its size (SIZE, CONSTANT or SCALAR) */
    TL_SYMBOL_GRID,     /* walk of `grid`: the tile's own index */
    TL_SYMBOL_LOOP,
    TL_SYMBOL_ROLE,
    TL_SYMBOL_TURN,
    TL_SYMBOL_OPEN /* a tile size that a sketch leaves open: BN in `0:kv_len/BN` */
} tl_symbol_kind;

/* How a tile's axis relates to the tensor's: which index name it carries, and how long it is. */
typedef struct tl_tile_axis {
    str index;       /* index name: "kv" */
    tl_expr *extent; /* of the tile: BN, d; NULL when still open (a sketch) */
} tl_tile_axis;

typedef struct tl_tile {
    bool exists;
    tl_statement *allocation; /* NULL in a sketch; of a view's part: the base's */
    tl_symbol *part_of; /* a view's part of its base's tile (V1_shared of C_shared); else NULL */
    tl_type type;       /* TL_OPEN when unsaid */
    tl_tile_axis axes[4];
    int axis_count; /* 0: not known */
} tl_tile;

struct tl_symbol {
    tl_symbol_kind kind;
    int position; /* in tl_kernel.symbols: for tables with an entry per symbol */
    str name;
    diag_range declared;     /* where; {0, 0} for what a sketch brings into being */
    tl_statement *statement; /* that declares it; NULL as above */

    /* VARIABLE */
    tl_statement *parameter; /* Input or Output; NULL for a view or a pure tile */
    const tl_binding *view;  /* let with axes */
    const tl_axes *axes;     /* of the parameter or view */
    bool is_output;
    tl_tile shared, in_register;
    tl_symbol *view_base;   /* view: the variable whose elements it names; else NULL */
    bool is_workspace;      /* an Output that a later kernel takes as Input, and that Input */
    tl_symbol *produced_by; /* such an Input: the Output of the earlier kernel; else NULL */
    /* A variable may have a register tile in several roles. The first is 'in_register' above; each
     * further one has a symbol of its own, which only names meaning that tile have: 'variable' is
     * the variable it belongs to, 'role' the role whose tile it is. They hang on 'other_roles'.
     */
    tl_symbol *variable, *other_roles;
    const tl_statement *role;

    /* CONSTANT */
    tl_expr *value;
    int terms, height; /* of the value with all its definitions written out: below */
    bool is_known;     /* a number at compile time: 'integer' or 'number' */
    bool is_integer;
    int64_t integer;
    double number;

    /* INDEX */
    const tl_expr *extent; /* the length of the axes that carry it */

    /* all values */
    bool is_index_like; /* a value of an index or table takes part: '/' rounds down */
    bool is_extent;     /* serves as the length of an axis: '/' rounds up in spite of that */
    bool is_real;
};

/* Binds every kernel. Returns false when an error was reported. Spellings that the printer does not
 * write (sQ, O_reg, `Wait K`) are put into the canonical form.
 *
 * In an expression a name means, first to last: an axis of the view it is in; a loop or let
 * around it; a walk of the grid; a let, scalar or size of the kernel; an index name; a variable.
 * In a Compute, a name that is an axis of its tile means that axis, which tl_infer_axes decides:
 * run it before evaluating expressions of Compute.
 */
bool tl_bind(tl_program *program, diag_list *diags);

/* The symbol of a name as the kernel's own block sees it: loops and lets inside of it come last, an
 * index name only when nothing else has the name. NULL when there is none.
 */
tl_symbol *tl_find_symbol(const tl_kernel *kernel, str name);
tl_symbol *tl_find_index(const tl_kernel *kernel, str index);

/* A kernel without a role: tiles come into being by being written, names are bare. */
bool tl_is_sketch(const tl_kernel *kernel);

/* Of an index of the grid. */
const tl_walk *tl_walk_of(const tl_symbol *index);

/* The role around a statement, or NULL. */
const tl_statement *tl_role_of(const tl_statement *s);

/* One end of a Copy: the symbol that has the place (a role's own symbol for a register tile), and
 * its tile there; NULL for global memory.
 */
typedef struct tl_end {
    tl_symbol *symbol;
    tl_space space;
    tl_tile *tile;
} tl_end;
tl_end tl_copy_source(const tl_statement *copy);
tl_end tl_copy_target(const tl_statement *copy);

/* Is the Output only added to, by Copies that accumulate into it or into views of it? */
bool tl_is_sum(const tl_kernel *kernel, const tl_symbol *output);
/* May elements that nothing writes stay as they were: is it `kept`, or only added to? */
bool tl_may_keep(const tl_kernel *kernel, const tl_symbol *output);

/* Does memory have the tensor's last axis in the order in which accumulators hold it? */
bool tl_is_permuted(const tl_symbol *tensor);
/* The place of an element on such an axis: of each 16, 4t ... 4t + 3 have 2t, 2t + 1, 8 + 2t and
 * 8 + 2t + 1.
 */
enum { TL_PERMUTED_UNIT = 16 };
int64_t tl_permuted_place(int64_t index);

/* The tile that a statement writes besides what it reads: target of Copy and Compute, the operand
 * of Mask, Softmax and Reshape. NULL for the others, and for Copies into global memory.
 */
const tl_expr *tl_written_name(const tl_statement *s);

/* A register tile with `stages N` (N > 1) that no asynchronous product opens: a statement that
 * writes it afresh opens the next generation if the newest one has been an operand of a product,
 * else rewrites the newest, which all other uses mean.
 */
bool tl_is_value_ring(const tl_kernel *kernel, const tl_symbol *symbol);

/* Is the axis that a product contracts another than the contiguous one of this operand, which a
 * tile in shared memory is? NULL: no such tile.
 */
bool tl_lies_across(const tl_operand *operand, bool is_right, const tl_statement *allocation);

/* Is it the written name's? */
bool tl_writes(const tl_statement *s, const tl_symbol *symbol);

/* Does the statement write the register tile without reading it? */
bool tl_writes_afresh(const tl_statement *s, const tl_symbol *symbol);

/* Allocate ... in place of Y: the variable Y. NULL when unsaid. */
tl_symbol *tl_in_place_of(const tl_kernel *kernel, const tl_statement *allocation);

/* What a loop of a sketch walks (language study 5.3): `for j = 0:length/size`, or `0:length` for
 * steps of one (then *size is NULL). False when its bounds have another form.
 */
bool tl_loop_walks(const tl_statement *loop, const tl_expr **length, const tl_expr **size);

/* The indices that such a loop walks: of axes of its length, those that are copied in it and have
 * no place elsewhere. Several are walked together. The tree need not be bound.
 */
enum { TL_WALKED_MAX = 8 };
typedef struct tl_walked {
    str names[TL_WALKED_MAX];
    int count;
    bool is_unclear;   /* the first two could be meant, and not both */
    bool is_of_others; /* the loop has the name of an index that it does not walk */
} tl_walked;
tl_walked tl_loop_indices(const tl_kernel *kernel, const tl_statement *loop, const tl_expr *length);
bool tl_loop_walks_index(const tl_kernel *kernel, const tl_statement *loop, const tl_expr *length,
                         str index);

/* The tensors that a kernel declares, one after the other: parameters, and lets with axes.
 *     for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
 * The tree need not be bound.
 */
typedef struct tl_tensor {
    tl_statement *statement; /* Input, Output or let */
    tl_binding *view;        /* NULL: a parameter */
    str name;
    tl_axes *axes; /* of a scalar: none */
    int at;
} tl_tensor;
bool tl_next_tensor(const tl_kernel *kernel, tl_tensor *t);
bool tl_find_tensor(const tl_kernel *kernel, str name, tl_tensor *out); /* false: there is none */
const tl_axes *tl_axes_of(const tl_kernel *kernel, str tensor);         /* NULL: there is none */

/* The name of an axis's index: of its coordinate, or of a bare extent; empty for an expression. */
str tl_axis_name(const tl_axis *axis);
str tl_axis_index(const tl_axes *axes, int i);

/* The axis of a tensor at which its matrix begins: after ';', else the last two. */
int tl_matrix_begin(const tl_axes *axes);

/* Which axes of a tensor a Copy's tile has: out[k] is the position of the tile's axis k. Axes that
 * the coordinate fixes are left out; without a coordinate those of the matrix, or all when the
 * Copy's shape has as many entries. Returns how many (at most TL_AXES_MAX).
 */
int tl_copy_axes(const tl_statement *copy, const tl_axes *axes, int *out);
/* Does a coordinate say next(...)? The place is then one of the block's next tile, and so is what
 * else decides which elements are meant: the lengths of a view's axes.
 */
bool tl_place_is_of_next(const tl_place *place);
bool tl_copy_is_of_next(const tl_statement *copy);

/* The tile that a bound NAME means (X_shared, X_register, or the one place X has); NULL otherwise.
 */
tl_tile *tl_tile_of(const tl_expr *name);

/* Infers the axes of every tile of a bound kernel from Copy, Compute and Allocate (language study
 * 5.1), and reports what can't be: a product whose contracted axes differ, a broadcast along a
 * missing axis, an axis of two lengths. Returns false when an error was reported.
 */
bool tl_infer_axes(tl_kernel *kernel, arena *memory, diag_list *diags);

/* The axes of an operand that is a tile, `.T` applied: how many, 0 when it is none or not known. */
int tl_operand_axes(const tl_operand *operand, tl_tile_axis out[4]);

/* The axes of a product, by position: which axis of a and b is contracted. False when none or
 * several fit. Operands as written, `.T` applied.
 */
typedef struct tl_product_axes {
    tl_tile_axis row, contracted, column;
} tl_product_axes;
bool tl_product_of(const tl_operand *a, const tl_operand *b, tl_product_axes *out);

/* What a Softmax of a sketch normalises over (language study 5.6): the outermost enclosing loop on
 * which its tile depends, with the axis of the tile that it walks; axis -1 when the loop walks
 * single indices of an axis that the tile has not. Without such a loop *loop is NULL and the axis
 * the last.
 */
void tl_softmax_axis(const tl_kernel *kernel, const tl_statement *softmax,
                     const tl_statement **loop, int *axis);

/* --- values ----------------------------------------------------------------------------------- */

/* The value of an expression: integer or real. */
typedef struct tl_value {
    bool is_real;
    int64_t integer;
    double real;
} tl_value;

bool tl_give(tl_value *out, int64_t value); /* true */

/* Asks the caller for the value of a name or element; false when it has none. */
typedef bool tl_lookup(void *context, const tl_expr *e, tl_value *value);

/* Evaluates a bound expression exactly as TL means it (division by kind, floor and ceil exact, '%'
 * rounds as floor does). Conditions give 0 or 1. Names that are known at compile time are not asked
 * for; a let that 'lookup' (may be NULL) has no value for is evaluated from its definition.
 * Elements and calls of any, first, more and next are asked for as they stand. False when a name
 * has no value, on overflow and on division by zero.
 */
bool tl_evaluate(const tl_expr *e, tl_lookup *lookup, void *context, tl_value *value);

/* Integers of a kernel's names, by tl_symbol.position: those that are set, and of lets what they
 * came to when they were first asked for. 'lookup' has the others.
 */
typedef struct tl_values {
    int64_t *integers;
    bool *is_known; /* NULL: all are asked for again and again */
    tl_lookup *lookup;
    void *context;
} tl_values;

tl_values tl_values_new(arena *memory, const tl_kernel *kernel, tl_lookup *lookup, void *context);
/* Nothing where there is no symbol. */
void tl_values_set(tl_values *values, const tl_symbol *symbol, int64_t value);
void tl_values_forget(tl_values *values, const tl_symbol *symbol);
/* As tl_evaluate; false when the value is no integer, too. */
bool tl_values_integer(tl_values *values, const tl_expr *e, int64_t *value);

/* Whether a bound expression is real, and whether an index or a table's value takes part in it. */
bool tl_expr_is_real(const tl_expr *e);
/* The same of names that are not bound: 'is_real' says it of a name and an element. */
bool tl_expr_is_real_by(const tl_expr *e, tl_visitor *is_real, void *context);
bool tl_expr_is_index_like(const tl_expr *e);
/* Does the place of an element on an axis take part? */
bool tl_expr_mentions_index(const tl_expr *e);

/* e as a * x + b: x is what stands where 'is_other' is false, b is free of it; lets are written
 * out. False where e has no such form.
 */
bool tl_coefficient(const tl_expr *e, tl_visitor *is_other, void *context, int64_t *a);

/* The value known at compile time: numbers, constants, arithmetic on them. */
bool tl_known_integer(const tl_expr *e, int64_t *value);
bool tl_known_number(const tl_expr *e, double *value);

/* A layout as messages call it: "partial rows of S". */
str tl_layout_words(arena *memory, const tl_layout *layout);

#endif
