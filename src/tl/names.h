/* Names: what every name of a kernel means, and the axes of every tile.
 *
 * tl_bind resolves all names of a program, fills in the fields of the tree marked "bound" and builds
 * each kernel's symbols. It may be called again after the tree changed; it starts afresh. Names that
 * nothing declares are errors, except in sketches, where a tile comes into being by being written.
 */
#ifndef FLASHTL_TL_NAMES_H
#define FLASHTL_TL_NAMES_H

#include "tl/tree.h"

typedef enum tl_symbol_kind {
    TL_SYMBOL_VARIABLE, /* a tensor and/or its tiles: up to three places */
    TL_SYMBOL_SCALAR,   /* Input without axes: known at launch */
    TL_SYMBOL_CONSTANT, /* let NAME = e */
    TL_SYMBOL_SIZE,     /* a length known at launch: the extent of an axis that no let fixes */
    TL_SYMBOL_INDEX,    /* index name of an axis: kv, q, head; also a bare d, which is a size, too */
    TL_SYMBOL_GRID,     /* walk of `grid`: the tile's own index */
    TL_SYMBOL_LOOP,
    TL_SYMBOL_ROLE,
    TL_SYMBOL_TURN
} tl_symbol_kind;

/* How a tile's axis relates to the tensor's: which index name it carries, and how long it is. */
typedef struct tl_tile_axis {
    str index;       /* index name: "kv" */
    tl_expr *extent; /* of the tile: BN, d; NULL when still open (a sketch) */
} tl_tile_axis;

typedef struct tl_tile {
    bool exists;
    tl_statement *allocation; /* NULL in a sketch */
    tl_type type;             /* TL_OPEN when unsaid */
    tl_tile_axis axes[4];
    int axis_count;           /* 0: not known */
} tl_tile;

struct tl_symbol {
    tl_symbol_kind kind;
    str name;
    diag_range declared;       /* where; {0, 0} for what a sketch brings into being */
    tl_statement *statement;   /* that declares it; NULL as above */

    /* VARIABLE */
    tl_statement *parameter;   /* Input or Output; NULL for a view or a pure tile */
    const tl_binding *view;    /* let with axes */
    const tl_axes *axes;       /* of the parameter or view */
    bool is_output;
    tl_tile shared, in_register;
    tl_symbol *view_base;      /* view: the variable whose elements it names; else NULL */

    /* CONSTANT */
    tl_expr *value;
    bool is_known;             /* a number at compile time: 'integer' or 'number' */
    bool is_integer;
    int64_t integer;
    double number;

    /* SIZE, and bare axes: the size of axis INDEX */
    bool is_index_like;        /* a value of an index or table takes part: '/' rounds down */
    bool is_real;
};

/* Binds every kernel. Returns false when an error was reported. */
bool tl_bind(tl_program *program, diag_list *diags);

tl_symbol *tl_find_symbol(const tl_kernel *kernel, str name);

/* The tile that a bound NAME means (X_shared, X_register, or the one place X has); NULL otherwise. */
tl_tile *tl_tile_of(const tl_expr *name);

/* Infers the axes of every tile of a bound kernel from Copy, Compute and Allocate (language study
 * 5.1), and reports what can't be: a product whose contracted axes differ, a broadcast along a
 * missing axis, an axis of two lengths. Returns false when an error was reported.
 */
bool tl_infer_axes(tl_kernel *kernel, arena *memory, diag_list *diags);

/* The axes of a product, by position: which axis of a and b is contracted. False when none or
 * several fit. Operands as written, `.T` applied.
 */
typedef struct tl_product_axes {
    tl_tile_axis row, contracted, column;
} tl_product_axes;
bool tl_product_of(const tl_operand *a, const tl_operand *b, tl_product_axes *out);

/* --- values -------------------------------------------------------------------------------------- */

/* The value of an expression: integer or real. */
typedef struct tl_value {
    bool is_real;
    int64_t integer;
    double real;
} tl_value;

/* Asks the caller for the value of a name or element; false when it has none. */
typedef bool tl_lookup(void *context, const tl_expr *e, tl_value *value);

/* Evaluates a bound expression exactly as TL means it (division by kind, floor and ceil exact).
 * Conditions give 0 or 1. False when a name has no value, on overflow and on division by zero.
 */
bool tl_evaluate(const tl_expr *e, tl_lookup *lookup, void *context, tl_value *value);

/* The value known at compile time: numbers, constants, arithmetic on them. */
bool tl_known_integer(const tl_expr *e, int64_t *value);
bool tl_known_number(const tl_expr *e, double *value);

#endif
