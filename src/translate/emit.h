/* Inside the translator: what all of its files share.
 *
 * The text grows as a list of lines. A line may declare a name; when the text is put together such
 * a line is dropped if nothing after it uses the name, so declarations can be written generously.
 */
#ifndef FLASHTL_TRANSLATE_EMIT_H
#define FLASHTL_TRANSLATE_EMIT_H

#include "atom/atom.h"
#include "layout/access.h"
#include "layout/layout.h"
#include "layout/shared.h"
#include "tl/tl.h"
#include "translate/translate.h"

#include <assert.h>

enum {
    EMIT_LINES_MAX = 100000,
    EMIT_INDENT = 4,
    /* Sizes known at launch are at most this, so that sums of a few of them stay int. */
    EMIT_SIZE_MAX = 536870911,
};

/* --- tiles ------------------------------------------------------------------------------------ */

/* What part of a two-axis shape a register tile is. */
typedef enum emit_part { PART_WHOLE, PART_ROWS, PART_COLUMNS } emit_part;

/* How a thread's elements are arrayed: the dimensions of the emitted array and the places they step
 * over. The first dimension of fragments goes where it is 1. Fragments: [down][across][4], element
 * 2*half + e at row 16*down + 8*half and column 8*across + e; 16-bit ones [down][across][2] pairs;
 * 8-bit ones [down][across / 2][2] quads, of columns 0, 1, 8 and 9 of 16. Where column tiles
 * alternate (mma_C permuted), tiles 2n and 2n + 1 have the even and the odd columns of 16: quads of
 * four neighbours. Lines: [down][across][elements], 16-bit ones pairs, 8-bit ones quads. Row
 * vectors: [down][2] and [down]; column vectors: [across][2] and [across][elements].
 */
typedef struct emit_shape {
    bool is_lines, alternates;
    emit_part part;
    int down, across;
    int elements; /* of a piece; lines: of 16 bytes */
    int row_step; /* rows from one 'down' to the next */
    int column_step;
} emit_shape;

/* Does an accumulator hold a sum? Empty: it was filled with 0, which is not written. */
typedef enum emit_holding { EMIT_HOLDS, EMIT_EMPTY, EMIT_MAY_HOLD } emit_holding;

/* What is known of a register tile at a place of the text, see track.c. */
typedef struct emit_state {
    int newest; /* of a ring: which array */
    bool is_operand;
    bool is_touched;  /* by other than products, since the text last kept it in its place */
    bool is_known;    /* the CUDA compiler may know a value of it, see loose.c */
    bool is_unused;   /* nothing has needed its values yet */
    uint64_t made_of; /* tiles: who needs this one needs them */
    emit_holding holds;
} emit_state;

/* What carries a ring on, see ring.c. */
typedef enum emit_carrier {
    CARRIER_ADDRESS,
    CARRIER_PLACE,
    CARRIER_BARRIER,
    CARRIER_SLOT,
    CARRIER_RING
} emit_carrier;

/* Of a ring, for whoever asks: the one it waited for last, the one a Copy fills next, the first
 * that it still holds.
 */
typedef enum emit_generation {
    GENERATION_HELD,
    GENERATION_NEXT,
    GENERATION_OLDEST
} emit_generation;

typedef struct emit_tile emit_tile;
struct emit_tile {
    const tl_symbol *symbol;
    const tl_tile *tile;
    const model_tile *bound; /* of a part: the tile that it is in */
    tl_space space;
    str name; /* in the text */
    tl_type type;
    int rows, columns; /* a vector: columns 1 */
    bool is_vector;
    /* register */
    layout layout; /* of a vector: the vector's */
    emit_shape shape;
    bool is_packed;          /* two 16-bit elements a register, four of 8 bits */
    bool is_partial;         /* as allocated */
    str own_row, own_column; /* names of this thread's place in the tile */
    emit_tile **generations; /* of a ring: its arrays; else NULL */
    emit_state state;
    bool is_lazy;   /* an accumulator whose zeros need not be written */
    int mask_parts; /* that a Mask tells apart, see masks.c; 0: it is masked as a whole */
    /* shared */
    shared_layout store;
    int64_t offset_bytes, slot_bytes;
    int stages;
    emit_carrier carrier;
    bool has_fill_slot; /* the address of the next copy's slot is a variable: it does not follow
                           from the held one */
    int64_t full_offset, empty_offset; /* mbarriers, 8 bytes per slot */
    emit_tile *part_of;                /* of a view's part: the tile it is in, see parts.c */
    int first_column;                  /* a part's, in the tile that has the bytes */
};

/* First numbers of the barriers that a role uses; 0: none yet. */
typedef struct emit_meetings {
    int turns, executors, role;
} emit_meetings;

/* --- views: where the elements of a tensor or view lie ---------------------------------------- */

/* A value in the text: integer with bounds, or real. */
typedef struct emit_value {
    str text;
    int precedence; /* of C's operators, higher binds closer */
    bool is_real, is_condition;
    int64_t low, high; /* of integers; outside int32: the text is of type long long */
    /* Of integers inside unrolled loops, beside the text: a sum of what is the same for all rounds
     * and of what is a number in each; empty where it is no such sum.
     */
    str same, unrolled;
} emit_value;

/* What index names and tiles mean where an expression stands. */
typedef struct emit_index {
    str name; /* index name */
    emit_value value;
} emit_index;

/* An element of a table that the text has read into a variable, see once.c. */
typedef struct emit_read {
    const tl_expr *element;
    str name; /* with its subscripts, but that of a pair's elements */
    bool is_pair;
} emit_read;

typedef LIST(emit_read) emit_reads;

typedef struct emit_scope {
    const emit_index *indices;
    int index_count;
    const emit_shape *frame; /* of the elementwise loop around it; NULL: no tile elements here */
    int element;             /* of a pair: 0 or 1 */
    const emit_reads *reads; /* what need not be read again; NULL: nothing */
} emit_scope;

/* --- the translation -------------------------------------------------------------------------- */

typedef struct emit_line {
    str text; /* without the blanks before it */
    int indent;
    str declares; /* empty: kept whatever comes */
    const tl_statement *about;
    bool is_heading; /* of that statement */
    bool is_dropped; /* from the finished text */
} emit_line;

/* A loop of one round, which the text leaves out. */
typedef struct emit_round {
    str variable;
    int indent; /* of what is in it */
} emit_round;

/* A number that a table gave, kept for the copies after it in the same block. */
typedef struct emit_number {
    str text, name;
    const tl_statement *by; /* whose copy asked first */
} emit_number;

typedef struct emit_name {
    const void *of; /* symbol, or binding */
    str name;
    int64_t low, high;
} emit_name;

/* A name in a text that may become a function, and what it is a parameter as. */
typedef struct emit_parameter {
    str here, name; /* what the text says; what the function calls it */
    str declaration;
} emit_parameter;

/* Lines that may become a call, see functions.c. */
typedef struct emit_candidate {
    int first, count; /* lines */
    int indent;
    str name;
    str parameters, body; /* of the function */
    str arguments;
    bool is_done;
} emit_candidate;

/* The walk over tiles that is being translated. */
typedef struct emit_walk {
    const tl_block *body; /* NULL: none */
    bool asks_first, asks_more, asks_next;
    bool found_next;    /* the text has worked out the next tile */
    bool reads_early;   /* dynamic: the next tile's number is known when this one's loop ends */
    bool fetches_early; /* searched: as it is where the loop's last iteration begins */
    const tl_statement *loop;
    const tl_statement *shadow_of_first, *shadow_of_loop, *shadow_of_more; /* Waits after it */
    LIST(emit_name) next_names; /* what grid indices and lets are called for it */
    LIST(emit_name) own_names;  /* and for this one */
    bool is_pending;            /* the next tile is known, its indices are not worked out yet */
    int64_t offset_bytes;       /* dynamic: barriers and tile numbers in shared memory */
} emit_walk;

/* The array that an asynchronous product reads. */
typedef struct emit_flight {
    const tl_statement *statement;
    const emit_tile *operand;
} emit_flight;

/* A vote whose outcome a loop carries on. */
typedef struct emit_vote {
    const tl_expr *call;
    str name;
} emit_vote;

typedef struct emit {
    arena *memory;
    diag_list *diags;
    tl_kernel *kernel;
    const gpu *gpu;
    str target; /* its architecture: "90a" */
    const check_facts *facts;
    bool failed;

    LIST(emit_line) lines;
    LIST(emit_candidate) candidates;
    const tl_statement *about; /* what the next line is written for; NULL: none in particular */
    int indent;
    LIST(emit_round) single_rounds; /* around what is written */
    LIST(emit_tile *) tiles;
    LIST(emit_tile *) parts; /* of shared tiles */
    LIST(emit_name) names;

    const model *model;
    emit_meetings meetings[MODEL_ROLES_MAX]; /* by role */
    const tl_statement *role;                /* the one being translated */
    const model_role *now;                   /* the same */
    int warps;                               /* of the role */
    int threads;                             /* of the block */
    bool as_cute;                            /* instructions through CuTe's atoms */
    translate_spans *spans;                  /* of the request */
    str entry;                               /* symbol; "": the kernel's name */
    bool is_async;                           /* the model's */
    bool is_exact;                           /* uses instructions of this architecture alone */
    int barriers;                            /* numbered barriers in use, from 1 on */
    int role_line;                           /* where the role's declarations begin */
    int exit_shift;                          /* how many generations on loops leave their rings */
    LIST(emit_flight) flights;
    LIST(emit_vote) votes;  /* kept by the loops around */
    const tl_symbol *coded; /* what FromCode made last, and the text has voted on: `P_high` */
    const emit_tile *pin;   /* sums over what was computed since the last product was issued */
    emit_walk walk;
    int64_t shared_bytes;
    int blocks_per_sm;
    int array_registers;
    int statement_number;

    ftl_plan *plan;
    translate_conditions conditions;
    LIST(ftl_plan_derived) derived;
    LIST(ftl_plan_map) maps;
    LIST(emit_number) numbers; /* of tables, read for copies by TMA */
    int loops_by_rounds;       /* in all: loops of which several rounds are made at once */
    int numbers_read;          /* in all */
} emit;

/* lines.c: text */
void emit_text(emit *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line that is dropped when 'declares' is not used after it. */
void emit_declare(emit *t, str declares, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void emit_open(emit *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emit_else(emit *t);
void emit_either(emit *t, str condition, str line, str otherwise);
void emit_close(emit *t);
void emit_close_branch(emit *t);                          /* of an `if` without else */
void emit_header(emit *t, const tl_statement *s);         /* the statement as a comment */
void emit_loop(emit *t, const char *variable, int count); /* unrolled; opens a block */
void emit_loop_from(emit *t, const char *variable, int from, int to, int step);
/* Loops over a thread's elements of that shape, a pair a round; how many were opened. */
int emit_open_frame(emit *t, const emit_shape *s);
void emit_close_frame(emit *t, int opened);
void emit_write(emit *t, text_buffer *out); /* the kept lines */
/* From here on lines are about the statement; returns what they were about before. */
const tl_statement *emit_about(emit *t, const tl_statement *s);
bool emit_mentions(str text, str name); /* as a whole word */
bool emit_is_comment(const emit_line *line);
/* The text with a value for a variable; [m16], the subscript of the only row tile, goes. */
str emit_with(emit *t, str text, str variable, str value);
/* Says why there is no translation; false. */
bool emit_unsupported(emit *t, diag_range range, str what, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* Has the GPU the instruction `by` that name? Says so where it has not. */
bool emit_has(emit *t, const tl_statement *s, str atom, gpu_feature feature);
str emit_format(emit *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* functions.c: what the text does at several places, written once */
/* The lines from 'first' on, with the statement's word for what it does to its target. */
void emit_may_be_function(emit *t, int first, const tl_statement *s, const emit_tile *target,
                          const emit_parameter *parameters, int count);
void emit_functions(emit *t, text_buffer *out); /* when all lines are there, before emit_write */

/* wrap.c: the text with no line longer than 120 characters, where it can be broken */
void emit_wrapped(str text, text_buffer *out);

/* spans.c: what was written, wrapped; notes which lines are about which statement */
void emit_finished(emit *t, str kernel_text, text_buffer *out);

/* device.c: the wrappers that the text names, with what they need */
void emit_device(emit *t, str kernel_text, text_buffer *out);

/* cute.c: what a file for CuTe has besides */
void emit_cute_headers(text_buffer *out);
void emit_cute_layouts(emit *t, text_buffer *out);

/* expression.c */
emit_value emit_expression(emit *t, const tl_expr *e, const emit_scope *scope);
/* The read of that element; NULL: there is none. */
const emit_read *emit_find_read(const emit_reads *reads, const tl_expr *element);
emit_value emit_integer(emit *t, const tl_expr *e, const emit_scope *scope); /* must be one */

/* values.c */
emit_value emit_constant(emit *t, int64_t value);
emit_value emit_named(str name, int64_t low, int64_t high);
emit_value emit_sum(emit *t, emit_value a, emit_value b);
emit_value emit_difference(emit *t, emit_value a, emit_value b);
emit_value emit_product(emit *t, emit_value a, emit_value b);
str emit_real(emit *t, emit_value v);                   /* as a float */
str emit_within(emit *t, emit_value v, int precedence); /* parenthesised where needed */
str emit_float(emit *t, double value);
bool emit_is_wide(emit_value v);

/* names.c */
str emit_name_of(emit *t, const tl_symbol *symbol);
void emit_name_set(emit *t, const void *of, str name, int64_t low, int64_t high);
const emit_name *emit_name_find(emit *t, const void *of);
str emit_axis_name(emit *t, const tl_axes *axes, int axis); /* different for all axes of a tensor */
str emit_clean(emit *t, str name); /* no word of C++ or of the text's own */

/* tiles.c */
void emit_make_tiles(emit *t);
emit_tile *emit_tile_of(emit *t, const tl_expr *name); /* NULL when it is none */
emit_tile *emit_tile_in(emit *t, const tl_symbol *s, tl_space space);
emit_tile *emit_target_of(emit *t, const tl_statement *compute);
/* How long the tile is along an axis: by the name that the program gives the number. */
emit_value emit_extent(emit *t, const emit_tile *tile, int axis);
emit_shape emit_shape_of(const layout *l, bool is_lines);
/* Divides an operand in shared memory over the role's warps as a tile of these words is divided.
 * False where executors of several warps are side by side: warps that are neighbours are not then.
 */
bool emit_divide_operand(const emit *t, const tl_layout *said, access_operand_request *request);
/* Reports a tile that its layout does not fit. */
bool emit_misfits(emit *t, diag_range range, const emit_tile *tile, layout_fit fit);

/* tiles_shared.c */
void emit_make_store(emit *t, const tl_statement *allocate, emit_tile *tile);
void emit_place_shared(emit *t); /* all of them, and their barriers */
void emit_declare_shared(emit *t);
/* A number of a shared tile by its name: "at::K_shared_full". */
typedef enum emit_fact {
    FACT_TILE,  /* where its first slot begins, in bytes */
    FACT_SLOT,  /* bytes from one slot to the next */
    FACT_BYTES, /* that a copy by TMA brings */
    FACT_FULL,  /* its barriers, a slot each */
    FACT_EMPTY,
} emit_fact;
str emit_fact_of(emit *t, const emit_tile *tile, emit_fact fact);
/* Where a slot begins. */
str emit_slot_place(emit *t, const emit_tile *tile, int slot);
/* Bytes from one slot to the next, in units of 'divisor' bytes. */
str emit_slot_step(emit *t, const emit_tile *tile, int divisor);
/* Of two slots, the one that the variable does not hold. */
str emit_other_slot(emit *t, const emit_tile *tile, str variable);
/* The facts that the kernel's text names. */
void emit_shared_facts(emit *t, str kernel_text, text_buffer *out);

/* tiles_text.c */
void emit_declare_register(emit *t, const tl_statement *s);
/* In a block of its own: this thread's number, read anew, so that nothing made from it occupies
 * registers through the loops in between; and its place in a layout.
 */
void emit_fresh_thread(emit *t);
void emit_declare_place(emit *t, const layout *l, str row, str column);
void emit_declare_own(emit *t, const emit_tile *tile);
/* Dimensions of an array with a value for each of the thread's rows; and where in its tile the row
 * lies that the loops of a frame of fragments are at, counted from the thread's first one.
 */
str emit_row_dimensions(emit *t, const emit_shape *s);
str emit_fragment_row(const emit_shape *s);
/* Is there a number from 256 on among what FromCode made of the tile? The vote's name in the text.
 */
str emit_high_name(emit *t, const emit_tile *tile);
/* Is the call `any(not P < 256)`, where bits tell? */
bool emit_asks_for_high(emit *t, const tl_expr *call, const emit_tile *tile);
/* Matrices of 8 bits; and the register that an element shares with three others. */
bool emit_has_quads(const emit_tile *tile);
str emit_quad(emit *t, const emit_tile *tile);
/* The same in fragments. */
bool emit_is_bytes(const emit_tile *tile);
/* Inside a loop over n8, where a column tile's element e is, from the thread's own column on. */
str emit_fragment_column(const emit_shape *s, int e);
/* A row sum of 8-bit fragments, by warps: a product with ones. product.c */
bool emit_is_sum_by_ones(emit *t, const tl_statement *s);
void emit_sum_by_ones(emit *t, const tl_statement *s);
/* A reference to such an array as the tile's. */
str emit_array_parameter(emit *t, const emit_tile *tile, str name);
str emit_element(emit *t, const emit_tile *tile, const emit_shape *frame, int e);
const char *emit_type_word(tl_type type); /* f16, bf16, f32, i32: suffix of wrappers */
bool emit_tile_partial_at(emit *t, const tl_statement *s, const emit_tile *tile);
/* Declares a thread's own address in a slot of a tile in shared memory, see layout/access.h. */
void emit_declare_address(emit *t, const char *name, str slot, const access_threads *threads);
/* The address so many bytes along a line, a product, from there on; past a swizzle's bytes or not.
 */
str emit_along(emit *t, const access_threads *threads, str address, str along, bool goes_beyond);
/* The text of access_beyond for the multiple of swizzle_bytes in 'byte', a product. */
str emit_beyond(emit *t, const access_threads *threads, str byte);

/* parts.c: views of shared tiles */
void emit_make_parts(emit *t);
void emit_place_parts(emit *t); /* when the tiles they are in have their place and channels */
/* The tile, or the part of one, by whose Wait the role that is translated reads it. */
const emit_tile *emit_cursor(emit *t, const emit_tile *tile);
/* parameters.c: the parameter struct, the plan, the prologue */
void emit_make_plan(emit *t);
const ftl_plan_tensor *emit_plan_tensor(const emit *t, str name); /* NULL: no parameter */
const tl_symbol *emit_tensor_under(const tl_symbol *s); /* of a view; a tensor is its own */
str emit_stride(emit *t, const ftl_plan_tensor *tensor, int axis); /* text, of type long long */
/* The same as pointers count: bytes of packed elements. */
str emit_pointer_stride(emit *t, const ftl_plan_tensor *tensor, int axis);
void emit_parameter_struct(emit *t, text_buffer *out);
void emit_prologue(emit *t);
void emit_let(emit *t, const tl_statement *s);
/* What came up while the statements were translated: derived parameters and maps. */
void emit_finish_plan(emit *t);
/* a / b by multiplication, where b is known at launch; false where it is not. */
bool emit_divisor(emit *t, const tl_expr *b, str *multiplier, str *shift);
void emit_divide(emit *t, ftl_formula formula, const char *called, str *multiplier, str *shift);
const char *emit_divisor_name(emit *t, const tl_expr *b); /* for it; NULL: none of its own */
/* The name of a parameter that the launch derives; equal formulas are one. 'called': what it should
 * be called if nothing else is; NULL: by a number.
 */
str emit_derived(emit *t, ftl_derived_kind kind, ftl_formula formula, const char *called);
void emit_tile_lets(emit *t); /* of a tile whose indices have names */
/* The lets that an expression names and that are not there yet. */
void emit_lets_of(emit *t, const tl_expr *e);

/* formula.c */
bool emit_formula(emit *t, const tl_expr *e, ftl_formula *out);
int emit_size_index(const ftl_plan *plan, str name); /* negative: it has none of that name */
/* tables_most.c: the most that a length can be, where tables take part in it, as a formula. */
bool emit_most(emit *t, const tl_expr *e, ftl_formula *out);

/* grid.c: blocks with a tile each */
void emit_plan_grid(emit *t);
void emit_grid(emit *t); /* the block's indices */
/* A let may be before the grid whose indices it uses. */
bool emit_depends_on_grid(const emit *t, const tl_expr *e);
bool emit_reads_table(const emit *t, const tl_expr *e);
/* Of a grid that begins early, the wait: first of all, where a let reads a table before the tile is
 * known, else as soon as it is.
 */
void emit_wait_for_grids(emit *t, bool is_first);
/* Of a kernel that lets the next one begin, the word, if it belongs before that statement. */
void emit_yield(emit *t, const tl_statement *before);
/* In a block of its own: what emit_fresh_thread declares, and for a store to global memory after a
 * loop also the walks of the grid.
 */
void emit_fresh_place(emit *t, const tl_statement *s);
/* Is a block one warp? Nobody is beside it while it divides integers, so the launch makes constants
 * of their divisors; and what keeps its lanes together is no barrier of the block.
 */
bool emit_has_lone_warp(const emit *t);
/* How many tiles a walk has; the launch has checked that it fits an int. */
emit_value emit_walk_extent(emit *t, const tl_walk *walk);

/* address.c: where elements of tensors and views lie */
typedef struct emit_address {
    str base;          /* pointer expression without row and column parts, parenthesised */
    bool row_affine;   /* element (row, column) is base + row*row_stride + column */
    int section;       /* it is so from one of so many rows to the next */
    str row_stride;    /* text, elements, or bytes of packed ones */
    str column_stride; /* the same, where columns do not lie side by side; else empty */
    tl_type type;
    str pointer_type;                     /* "const unsigned short *" */
    emit_value rows_left, columns_left;   /* from the tile's origin to the axis' end */
    bool rows_complete, columns_complete; /* known to be at least the tile's */
    int64_t columns_multiple;             /* columns_left is known to be a multiple of this */
    int64_t origin_multiple; /* elements from a multiple of 16 bytes to column 0; 0: none */
    bool is_selected;        /* a view leaves rows out: emit_selected says which */
    const tl_symbol *symbol;
    const tl_statement *statement;
} emit_address;
const char *emit_pointer_type(tl_type type, bool store); /* "const float *" */
bool emit_address_of(emit *t, const tl_statement *copy, const emit_tile *tile, emit_address *out);
/* The same; columns may be as far from one another as rows are elsewhere. */
bool emit_address_across(emit *t, const tl_statement *copy, const emit_tile *tile,
                         emit_address *out);
/* Where a tile is on each axis of its tensor. */
typedef struct emit_corner {
    int tensor; /* of the plan */
    int count;
    emit_value at[TL_AXES_MAX];
    int row_axis, column_axis; /* of the tensor; the others are single places */
    int rows;                  /* of a box: the tile's, or of equal parts of it */
} emit_corner;
/* Of the box that begins with that row of the tile. False, with the reason reported, where the tile
 * is no box of its tensor, nor are parts of it.
 */
bool emit_corner_of(emit *t, const tl_statement *copy, const emit_tile *tile, int row,
                    emit_corner *out);
/* Where a view leaves rows out: the condition under which this one is there, as text. */
str emit_selected(emit *t, const emit_address *a, str row);
/* Pointer to the element at row 'row' (relative to the tile) of an address, column text added. */
str emit_pointer(emit *t, const emit_address *a, str row, str column);

/* roles.c */
bool emit_find_roles(emit *t);
void emit_roles(emit *t); /* their text */
/* The number of a barrier of this role, or of its executor: text. */
str emit_meeting(emit *t, bool of_executor);
void emit_wait_turn(emit *t, const tl_statement *s);
void emit_release_turn(emit *t, const tl_statement *s);
bool emit_is_turn(const emit *t, const tl_expr *name);

/* channels.c: shared tiles: waited for, released, before and after a Copy fills them */
void emit_init_channels(emit *t);
void emit_declare_channels(emit *t); /* of the role that begins */
void emit_channel_wait(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_channel_release(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_channel_acquire(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_meet_block(emit *t); /* a barrier of all threads */
void emit_channel_fill(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_wait_stores(emit *t, const tl_statement *s);
void emit_end_stores(emit *t); /* at the end of a role */
/* Does each warp store its own rows of the tile? */
bool emit_is_by_warps(const emit_tile *tile);
/* The thread that issues for its executor, or for the role; empty when there is but one. */
str emit_issuer(emit *t, const emit_tile *stored);

/* product_async.c */
void emit_async_product(emit *t, const tl_statement *s);
void emit_declare_descriptors(emit *t); /* of the role that begins */
void emit_wait_products(emit *t, const tl_statement *s, const emit_tile *tile);

/* walk*.c: resident blocks walk the grid */
void emit_plan_walk(emit *t, int64_t *offset_bytes);              /* its place in shared memory */
void emit_walk_facts(emit *t, str kernel_text, text_buffer *out); /* as emit_shared_facts */
void emit_init_walk(emit *t);  /* one thread, beside the channels */
void emit_start_walk(emit *t); /* declarations of the role that begins */
/* Opens the loop over this block's tiles, up to their lets. */
void emit_open_walk(emit *t, const tl_block *body);
void emit_close_walk(emit *t);
/* Before a statement of the walk's own block: the next tile is found where it is first asked for.
 */
void emit_walk_before(emit *t, const tl_statement *s);
void emit_walk_after(emit *t, const tl_statement *s);
emit_value emit_asked(emit *t, const tl_expr *call); /* first, more, next */

/* track.c */
emit_tile *emit_newest(emit_tile *tile);
bool emit_opens_generation(emit *t, const tl_statement *s);
void emit_note_write(emit *t, const tl_statement *s);
void emit_note_product(emit *t, const tl_statement *s);
/* Its registers are (not) written by something that the compiler may move past a fence. */
void emit_note_touched(emit *t, const tl_expr *name, bool is_touched);
bool emit_is_touched(emit *t, const tl_expr *name);
/* The text is after these statements of one block. */
void emit_note_passed(emit *t, const tl_statement *from, const tl_statement *to);
/* Could the compiler write what it held anywhere, see loose.c? */
bool emit_is_loose(emit *t, const tl_expr *name);
const tl_statement *emit_branch(emit *t, const tl_statement *s); /* the one after it */
void emit_tracked_loop(emit *t, const tl_block *body, str name, str from, str to);
void emit_tracked_walk(emit *t, const tl_block *body);
bool emit_is_zero_fill(const tl_statement *s);
void emit_note_fill(emit *t, const tl_statement *s);
void emit_settle(emit *t, const emit_tile *tile, bool is_overwritten);
/* When a product into the tile adds: text, with the number of its step. */
str emit_holds(emit *t, const emit_tile *target, const char *step);
void emit_find_lazy(emit *t);

/* loose.c: the states after the statement */
void emit_note_loose(const emit *t, const tl_statement *s, emit_state *states);

/* masks.c: masks by parts */
void emit_declare_unseen(emit *t, emit_tile *tile);      /* after the tile's array */
void emit_forget_unseen(emit *t, const emit_tile *tile); /* its elements are new */

/* votes.c: votes that a loop keeps from iteration to iteration */
int emit_open_votes(emit *t, const tl_block *body); /* before the loop; for emit_close_votes */
void emit_close_votes(emit *t, int before);
void emit_renew_votes(emit *t, const tl_block *body);   /* at the end of a body under a vote */
str emit_kept_vote(const emit *t, const tl_expr *call); /* a number; empty: it is not kept */

/* copy_tensor.c */
void emit_tensor_copy(emit *t, const tl_statement *s, const emit_tile *tile, bool loads);
void emit_prefetch_maps(emit *t);

/* translate.c: statements, and what the checks found that they need */
void emit_block(emit *t, const tl_block *block);
void emit_barrier_before(emit *t, const tl_statement *s);

/* copy.c, product.c, elementwise.c */
void emit_copy(emit *t, const tl_statement *s);
void emit_product_statement(emit *t, const tl_statement *s);
const tl_statement *emit_elementwise_run(emit *t, const tl_statement *first); /* the one after it */
void emit_reshape(emit *t, const tl_statement *s);
bool emit_is_elementwise(const tl_statement *s);
str emit_any(emit *t, const tl_expr *call); /* if any(...): declares and computes the flag */

/* ring.c: where the generations of shared tiles are, and their barriers */
void emit_find_carriers(emit *t);
void emit_declare_addresses(emit *t);                     /* of all shared tiles */
void emit_declare_cursor(emit *t, const emit_tile *tile); /* of the role that begins: held */
void emit_declare_fill(emit *t, const emit_tile *tile);   /* and of the next copy */
/* A variable of the tile's ring: "K_fill". */
str emit_ring_part(emit *t, const emit_tile *tile, const char *what);
/* The address of a shared tile in the generation held, and of the slot that the Copy fills. */
str emit_held(emit *t, const emit_tile *tile);
str emit_fill_place(emit *t, const tl_statement *copy, const emit_tile *tile);
/* What a slot's number adds to the tile's first byte: "K_held.slot * at::K_slot", or empty. */
str emit_slot_bytes(emit *t, const emit_tile *tile, emit_generation which, int divisor);
/* The barrier of a generation's slot; 's': of the next one, the Copy. */
str emit_barrier_of(emit *t, const tl_statement *s, const emit_tile *tile, emit_fact barriers,
                    emit_generation which);
/* By its mbarriers: until the next generation is there, until the Copy's slot is free. */
void emit_ring_wait(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_ring_acquire(emit *t, const tl_statement *s, const emit_tile *tile);
void emit_ring_hold(emit *t, const tl_statement *wait, const emit_tile *tile);
void emit_ring_next(emit *t, const emit_tile *tile, emit_generation which);

/* copy_lines.c: copies of this shared tile in lines: does each warp move its own consecutive share
 * of the rows?
 */
bool emit_lines_stay_in_warp(emit *t, const emit_tile *tile);

#endif
