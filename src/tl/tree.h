/* The syntax tree of TL. Sketch and TL Code are one grammar and share it.
 *
 * Nodes live in the arena of their program and are plain data: passes read, change and link them
 * freely. Ranges count in the program's source text; nodes made by a pass have the range {0, 0}.
 * A program read by tl_parse has no symbols; tl_bind (tl/names.h) fills in what is marked "bound".
 */
#ifndef FLASHTL_TL_TREE_H
#define FLASHTL_TL_TREE_H

#include "diag/diag.h"
#include "tl/operation.h"

typedef struct tl_expr tl_expr;
typedef struct tl_statement tl_statement;
typedef struct tl_symbol tl_symbol; /* tl/names.h */

typedef enum tl_type {
    TL_OPEN, /* not said: the reasoner chooses */
#define TYPE(id, spelling, number, bits, kind, doc) TL_##id,
#include "base/types.def"
#undef TYPE
} tl_type;

typedef enum tl_space { TL_NOWHERE, TL_GLOBAL, TL_SHARED, TL_REGISTER } tl_space;

typedef enum tl_function {
#define FUNCTION(id, spelling, fewest, most, operation, doc) TL_FUNCTION_##id,
#include "tl/functions.def"
#undef FUNCTION
    TL_FUNCTION_UNKNOWN
} tl_function;

/* --- expressions ------------------------------------------------------------------------------ */

typedef enum tl_expr_kind {
    TL_INTEGER,
    TL_NUMBER, /* a real constant; 'text' keeps its spelling */
    TL_NAME,
    TL_ELEMENT, /* NAME[items]: an element of a tensor, table or tile */
    TL_CALL,    /* function(items) */
    TL_NEGATE,
    TL_BINARY, /* arithmetic, comparison, and, or */
    TL_NOT,
} tl_expr_kind;

typedef enum tl_operator {
#define OPERATOR(id, spelling, level) TL_##id,
#include "tl/operators.def"
#undef OPERATOR
    TL_OPERATORS
} tl_operator;

/* How tightly an expression binds: one is put in brackets where a tighter one is needed. */
typedef enum tl_level {
    TL_LEVEL_OR = 1,
    TL_LEVEL_AND,
    TL_LEVEL_NOT,
    TL_LEVEL_COMPARISON,
    TL_LEVEL_SUM,
    TL_LEVEL_PRODUCT,
    TL_LEVEL_UNARY,
    TL_LEVEL_PRIMARY
} tl_level;

/* What '/' means here (language study 5.2); bound. */
typedef enum tl_division {
    TL_DIVIDE_UNKNOWN,
    TL_DIVIDE_UP,   /* an extent into blocks */
    TL_DIVIDE_DOWN, /* an index: the block it is in */
    TL_DIVIDE_REAL
} tl_division;

struct tl_expr {
    tl_expr_kind kind;
    tl_operator operator;
    tl_function function;
    tl_division division; /* bound, of TL_OVER */
    diag_range range;
    int64_t integer;
    double number;
    str text;              /* NUMBER: its spelling. NAME, ELEMENT: the name as written (Q_shared) */
    tl_symbol *symbol;     /* bound, of NAME and ELEMENT */
    tl_space space;        /* bound, of NAME and ELEMENT that mean a tile: which place */
    tl_expr *left, *right; /* BINARY; NEGATE and NOT use left */
    tl_expr **items;       /* ELEMENT, CALL */
    int item_count;
};

typedef struct tl_exprs {
    tl_expr **items;
    int count;
} tl_exprs;

/* --- parts of statements ---------------------------------------------------------------------- */

/* One axis of a tensor: 'index in extent', or a bare extent that is its own index name.
 * The coordinate is a new index name, or an expression (head/group) that says where on that axis.
 * It is never NULL: of a bare axis it is the same node as the extent.
 */
typedef struct tl_axis {
    tl_expr *coordinate;
    tl_expr *extent;
    bool is_bare;
    diag_range range;
} tl_axis;

typedef struct tl_axes {
    tl_axis *items;
    int count;
    int matrix; /* number of axes before ';'; 0 when there is none */
    bool has_semicolon;
    diag_range range;
} tl_axes;

/* One entry of `in coordinate [...]`. */
typedef struct tl_spot {
    bool is_all;   /* ':' */
    bool is_block; /* 'L = e': tile number e; else one index e */
    tl_expr *at;
} tl_spot;

typedef struct tl_place {
    tl_spot *items;
    int count;
    bool is_given;
    diag_range range;
} tl_place;

typedef enum tl_layout_kind {
    TL_LAYOUT_NONE,
    TL_MMA_A,
    TL_MMA_B,
    TL_MMA_C,
    TL_LINES,
    TL_ROWS,
    TL_COLUMNS
} tl_layout_kind;

/* [partial] kind [permuted] [over (r, c)] [of NAME] */
typedef struct tl_layout {
    tl_layout_kind kind;
    bool is_partial, is_permuted;
    int over_rows, over_columns; /* 0, 0: unsaid, all executors on rows */
    tl_expr *of;                 /* NAME; NULL when unsaid */
    diag_range range;
} tl_layout;

typedef struct tl_operand {
    tl_expr *value;
    bool is_transposed; /* NAME.T */
    diag_range range;
} tl_operand;

typedef enum tl_target_kind { TL_NO_TARGET, TL_GET, TL_ACCUMULATE } tl_target_kind;

typedef struct tl_block {
    tl_statement *first, *last;
} tl_block;

/* --- statements ------------------------------------------------------------------------------- */

typedef enum tl_statement_kind {
#define STATEMENT(id, spelling, doc) TL_##id,
#include "tl/statements.def"
#undef STATEMENT
} tl_statement_kind;

/* Input or Output NAME [type] [axes] [permuted] [kept] [where condition] */
typedef struct tl_parameter {
    str name;
    tl_type type;
    tl_axes axes;     /* count 0: a scalar */
    bool is_permuted; /* its last axis is in the order in which accumulators hold it */
    bool is_kept;     /* of an Output: elements that nothing writes stay as they were */
    tl_expr *condition;
    tl_symbol *symbol; /* bound */
} tl_parameter;

/* One binding of `let`: with axes a view, else a constant. */
typedef struct tl_binding {
    str name;
    tl_axes axes;
    tl_expr *value;
    tl_symbol *symbol; /* bound */
    diag_range range;
} tl_binding;

typedef struct tl_walk {
    str name;
    tl_expr *extent;
    tl_expr *section; /* `sections E`: so many tuples, up to this walk, at a time; NULL: all */
    bool is_reversed;
    tl_symbol *symbol; /* bound */
    diag_range range;
} tl_walk;

typedef enum tl_grid_kind { TL_GRID_PLAIN, TL_GRID_PERSISTENT, TL_GRID_DYNAMIC } tl_grid_kind;

typedef struct tl_allocation {
    str *names;
    diag_range *name_ranges;
    int name_count;
    tl_space space;
    tl_type type;
    tl_exprs shape;
    tl_layout layout; /* register: `as ...` */
    bool by_columns, is_permuted;
    int swizzle_bytes; /* 0: unsaid, no swizzle */
    tl_expr *stages;   /* an INTEGER or a NAME; NULL: 1 */
    str in_place_of;   /* empty: a place of its own. As written: Q_shared */
    diag_range in_place_range;
    str channel;         /* shared: `by mbarrier`: how waits are realised; empty: block barriers */
    tl_expr *offset;     /* global, the paper's spelling: `with offset e` */
    tl_symbol **symbols; /* bound, one per name */
} tl_allocation;

typedef struct tl_copy {
    tl_expr *what; /* NAME */
    tl_exprs shape;
    tl_place place;
    tl_space from, to;
    tl_target_kind target_kind;
    tl_expr *target; /* NAME; NULL: the variable keeps its name */
    str atom;
    bool is_async;
} tl_copy;

typedef struct tl_compute {
    tl_operation operation;
    str operation_text; /* as written */
    tl_operand *operands;
    int operand_count;
    tl_place place;
    tl_expr *condition;     /* Mask: `where` */
    tl_expr *maximum, *sum; /* Softmax: `with m and l` */
    tl_expr *values;        /* RowTopK: `with V` */
    tl_target_kind target_kind;
    tl_expr *target; /* NAME */
    str atom;
    bool is_async;
} tl_compute;

typedef struct tl_role {
    str name;
    int executors;      /* how many units */
    bool is_warpgroups; /* a unit is 4 warps; else 1 */
    int registers;      /* 0: unsaid */
    str *turns;
    int turn_count;
    tl_symbol *symbol;        /* bound */
    tl_symbol **turn_symbols; /* bound */
    tl_block body;
} tl_role;

typedef struct tl_for {
    str name;
    tl_expr *from, *to; /* NULL for `for NAME in grid`: the walk over this block's tiles */
    bool is_grid_walk;
    tl_symbol *symbol; /* bound */
    tl_block body;
} tl_for;

/* Where a statement comes from, where passes were asked to remember. */
typedef struct tl_history {
    diag_range
        served;      /* of one that a pass made: the user's statement for whose sake it is there */
    uint32_t passes; /* bit by bit: those that made or changed it */
    uint64_t text;   /* hash of its header after the last of them */
} tl_history;

struct tl_statement {
    tl_statement_kind kind;
    diag_range range;      /* of the whole statement, without its body */
    diag_range name_range; /* of the name it declares, if any */
    str comment;           /* after the statement on its line, without "//", trimmed */
    str *lines_before;     /* comment lines of their own above it */
    int line_before_count;
    bool blank_before;
    str end_comment;       /* ROLE, FOR, IF: after 'end' */
    str *lines_before_end; /* and above it */
    int line_before_end_count;
    tl_history history;
    tl_statement *next, *previous;
    tl_statement *parent; /* the for, if or role around it; NULL in a kernel's own block */
    union {
        tl_parameter parameter; /* INPUT, OUTPUT */
        struct {
            tl_binding *items;
            int count;
        } let;
        struct {
            tl_grid_kind kind;
            bool is_early;    /* blocks begin before the kernels before this one have ended */
            bool is_yielding; /* blocks of the kernel after this one may be placed before it ends */
            tl_walk *items;
            int count;
        } grid;
        tl_allocation allocate;
        tl_copy copy;
        tl_compute compute;
        struct {
            tl_expr *what;
            tl_layout from, to;
        } reshape;
        struct {
            tl_expr *what;
        } sync; /* WAIT, RELEASE */
        tl_role role;
        tl_for loop;
        struct {
            tl_expr *condition;
            tl_block body;
        } branch; /* IF */
    };
};

typedef struct tl_kernel tl_kernel;
struct tl_kernel {
    str name;
    bool is_unnamed; /* no `kernel` line: printed as `kernel unnamed` */
    str gpu;         /* `for GPU`; empty when unsaid */
    diag_range range;
    str comment;
    str *lines_before;
    int line_before_count;
    tl_block body;
    tl_symbol **symbols; /* bound: every symbol of the kernel, in order of declaration */
    int symbol_count;
    tl_kernel *next;
};

typedef struct tl_program {
    arena *memory;
    str source; /* the text it was read from; ranges count in it */
    str source_name;
    tl_kernel *first;
    int kernel_count;
    str *lines_after; /* comment lines at the very end */
    int line_after_count;
} tl_program;

/* --- walking and changing --------------------------------------------------------------------- */

bool tl_is_parameter(const tl_statement *s);     /* Input or Output */
tl_expr *tl_copy_into(const tl_statement *copy); /* the name of what it writes */
/* The kernel of that number, from 0; NULL: there are fewer, or no program. */
tl_kernel *tl_kernel_at(const tl_program *program, int number);

/* The body of a role, for or if; NULL for the others. */
tl_block *tl_statement_body(tl_statement *s);
tl_block *tl_block_of(tl_kernel *kernel, const tl_statement *s); /* that it is in */
bool tl_accumulates(const tl_statement *s);                      /* Compute ... and accumulate */
bool tl_is_by_tma(const tl_copy *copy); /* by the unit that moves boxes of tensors */

/* The statement after s in reading order, bodies included; NULL at the end. 'within' bounds the
 * walk to one statement's body (or a kernel's block when NULL).
 */
tl_statement *tl_next(tl_statement *s, const tl_statement *within);

/* Calls visit for every expression in the header of s, each before its parts. Parts may be changed
 * by visit, and are visited as changed. Names that are no expressions (declared ones, in_place_of,
 * atoms) are not visited.
 */
typedef void tl_visit_expr(void *context, tl_expr *e);
void tl_each_expr(tl_statement *s, tl_visit_expr *visit, void *context);

void tl_block_append(tl_block *block, tl_statement *parent, tl_statement *s);
void tl_insert_before(tl_block *block, tl_statement *at, tl_statement *s);
void tl_insert_after(tl_block *block, tl_statement *at, tl_statement *s);
void tl_remove(tl_block *block, tl_statement *s);

tl_expr *tl_expr_copy(arena *memory, const tl_expr *e);
/* Bound expressions of others, which stay as they are. */
tl_expr *tl_new_integer(arena *memory, int64_t value);
tl_expr *tl_new_binary(arena *memory, tl_operator operator, const tl_expr * left,
                       const tl_expr *right);
tl_statement *tl_statement_copy(arena *memory, const tl_statement *s); /* deep, unlinked, unbound */
tl_program *tl_program_copy(arena *memory, const tl_program *p);

/* Does a bound expression name the symbol? */
/* Calls 'visit' for e and everything below it, until it returns false; whether it never did. e may
 * be NULL. Depth is the parser's.
 */
typedef bool tl_visitor(void *context, const tl_expr *e);
bool tl_visit(const tl_expr *e, tl_visitor *visit, void *context);
/* Is the symbol in e; is a NAME or ELEMENT so called, bound or not? */
bool tl_expr_mentions(const tl_expr *e, const tl_symbol *symbol);
bool tl_expr_names(const tl_expr *e, str name);
/* Is it the loop, `if` or role itself, or anything in it? */
bool tl_is_inside(const tl_statement *s, const tl_statement *outer);
bool tl_expr_equal(const tl_expr *a, const tl_expr *b); /* same structure and names */
bool tl_place_equal(const tl_place *a, const tl_place *b);

const char *tl_statement_word(tl_statement_kind kind); /* "Copy" */
const char *tl_type_name(tl_type type);
int tl_type_bits(tl_type type);
int tl_type_bytes(tl_type type);       /* of one that is not packed */
bool tl_is_narrow(tl_type type);       /* of 8 bits or 4: products alone take it */
bool tl_is_packed(tl_type type);       /* of 4 bits: two elements share a byte */
bool tl_is_narrow_whole(tl_type type); /* narrow whole numbers */
const char *tl_space_name(tl_space space);
tl_space tl_cut_place(str *name); /* Q_shared is Q, and shared; NOWHERE: it says no place */
const char *tl_operation_name(tl_operation operation);
tl_operation tl_operation_named(str name); /* TL_OPERATION_UNKNOWN: none is called so */
int tl_operation_operands(tl_operation operation);
tl_shape_rule tl_operation_shape(tl_operation operation);
/* The comparison that holds where this one does not, and the one with its sides exchanged. */
tl_operator tl_opposite(tl_operator comparison);
tl_operator tl_turned(tl_operator operator);
const char *tl_function_name(tl_function function);
int tl_function_fewest(tl_function function); /* arguments */
int tl_function_most(tl_function function);
/* What it is of numbers; TL_OPERATION_UNKNOWN: no operation of Compute. */
tl_operation tl_function_operation(tl_function function);
/* A function whose value is no matter of its argument's value alone, but of where and when it is
 * asked: any, first, more, next.
 */
bool tl_function_is_asked(tl_function function);
const char *tl_operator_text(tl_operator operator); /* "+", "<=", "and" */
tl_level tl_operator_level(tl_operator operator);
const char *tl_layout_kind_name(tl_layout_kind kind);
bool tl_is_vector_layout(const tl_layout *layout); /* rows or columns of a matrix */

#endif
