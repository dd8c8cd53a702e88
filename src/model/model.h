/* A kernel as the rules see it: tiles, channels with their readers' cursors, and each role as a
 * flat list of steps with every operand resolved. Built once from a bound kernel; all later rules
 * read it. Lives in the arena it was built in and points into the tree, which must not change
 * meanwhile.
 */
#ifndef FLASHTL_MODEL_MODEL_H
#define FLASHTL_MODEL_MODEL_H

#include "layout/layout.h"
#include "tl/names.h"

enum {
    MODEL_READS_MAX = 12,
    MODEL_AXES_MAX = 4,
    MODEL_STAGES_MAX = 64,
    MODEL_TILES_MAX = 256,
    MODEL_ROLES_MAX = 16,
    MODEL_PROCESSES_MAX = 64,
    MODEL_WARPGROUP = 4, /* warps */
};

typedef struct model_axis {
    str name;       /* index name; empty when not known */
    int id;         /* equal names, equal numbers; -1 when not known */
    int64_t extent; /* of the tile; 0 when not known at compile time */
} model_axis;

/* A tile of `Allocate`: a channel when shared, divided over a role's threads when in registers. */
typedef struct model_tile {
    const tl_symbol *symbol;
    const tl_statement *allocation;
    diag_range declared;
    tl_space space;
    tl_type type;
    str name; /* as messages call it: K_shared, S */
    int stages;
    int role;  /* register: the role it belongs to; shared: the role that fills it; -1: none */
    int group; /* shared: tiles `in place of` one another have the same number */
    bool uses_mbarrier, by_tma;
    bool in_panels;       /* shared: swizzled, and TMA or asynchronous products go by that
                             (layout/shared.h) */
    bool is_value_ring;   /* register, stages > 1, not written by asynchronous products */
    const layout *layout; /* register, as allocated; NULL: there is none, 'fit' says why */
    layout_fit fit;
    model_axis axes[MODEL_AXES_MAX];
    int axis_count;
    const int *cursors; /* shared: of all its readers */
    int cursor_count;
    const int *partners; /* shared: the other tiles of its group */
    int partner_count;
    /* Shared, see traffic.c. Where it `uses_mbarrier`, each slot has a full and an empty barrier,
     * which count so many arrivals.
     */
    int full_arrivals, empty_arrivals;
    int turn_partner, turn_partner_count; /* partners that another role fills, in strict turns: the
                                             tile declared first begins */
    bool by_threads;    /* Copies other than by TMA fill it; beside by_tma: by turns */
    bool lands_late;    /* cp.async fills it: after the Copy, by no thread's doing */
    bool frees;         /* others wait until it is released: it has empty barriers */
    bool goes_async;    /* an asynchronous unit reads what threads wrote, or writes over it */
    bool is_loaded;     /* threads read it with loads of their own */
    bool is_shared_out; /* each executor writes and reads or stores its own rows */
    bool is_by_warps;   /* and so does each of its warps: nobody else wants the tile's bytes */
    bool waits_late;    /* only its filler wants its bytes again: its stores are waited for there */
    bool holds_several; /* a reader may hold more than one generation */
} model_tile;

/* Who arrives at a slot's empty barrier for a reader. */
typedef enum model_releaser {
    RELEASE_BY_THREADS, /* each for itself */
    RELEASE_BY_WARPS,   /* a thread of each */
    RELEASE_BY_EXECUTORS,
    RELEASE_BY_ROLE
} model_releaser;

/* A role's place in a channel's ring. A view that a role waits for by name has its own. */
typedef struct model_cursor {
    int tile, role;
    const tl_symbol *symbol;
    str name;
    model_releaser released_by;
} model_cursor;

/* One operand of a step. */
typedef struct model_use {
    int tile;
    int cursor;                /* shared: by which the generation is found; -1: no Wait names it */
    const tl_symbol *symbol;   /* as written: a view, perhaps */
    const tl_operand *operand; /* of a Compute; NULL when it is in an expression or a Copy */
    int axes[MODEL_AXES_MAX];  /* which axis of it each of the target's is; -1: none */
    diag_range range;
    str name;
} model_use;

typedef enum model_step_kind {
    STEP_ALLOCATE,
    STEP_COPY,
    STEP_COMPUTE,
    STEP_RESHAPE,
    STEP_WAIT,
    STEP_RELEASE,
    STEP_LET,
    STEP_FOR,
    STEP_END_FOR,
    STEP_IF,
    STEP_END_IF,
    STEP_TILES,
    STEP_END_TILES, /* the walk over this block's tiles */
    STEP_END
} model_step_kind;

typedef enum model_subject {
    SUBJECT_NONE,
    SUBJECT_CHANNEL, /* a cursor */
    SUBJECT_REGISTER,
    SUBJECT_STORES, /* of a global tensor */
    SUBJECT_TURN
} model_subject;

typedef struct model_step {
    model_step_kind kind;
    tl_statement *statement;
    int other; /* FOR, IF, TILES: the matching end; the ends: their beginning */
    int depth; /* loops around it */
    model_use *reads;
    int read_count;
    model_use target; /* tile -1 when it is none */
    bool has_target;
    bool accumulates, is_async;
    bool opens;              /* an asynchronous product that begins a generation of a ring */
    int contracted;          /* axis id, of a GEMM; -1 when not known */
    const tl_symbol *stores; /* Copy to global: the tensor or view */
    const tl_symbol *loads;  /* Copy from global */
    const tl_spot
        *origins[MODEL_AXES_MAX]; /* Copy from global: of each axis of the target; NULL: 0 */
    bool origin_known[MODEL_AXES_MAX];
    model_subject subject; /* WAIT, RELEASE */
    model_use what;
    int turn;
    bool depends_on_data; /* IF: a register tile decides */
    int commits;          /* COPY: 1 when it is a cp.async group; IF: of its whole body */
} model_step;

typedef struct model_role {
    const tl_statement *statement;
    str name;
    int executors, executor_warps, warps, threads;
    int first_warp, block_warps; /* in the block, with those that idle after its own */
    bool is_single;              /* one thread does it all */
    int processes; /* executors that have to be told apart: all when they take turns, else 1 */
    model_step *steps;
    int step_count;
} model_role;

typedef struct model_turn {
    const tl_symbol *symbol;
    int role;
    str name;
} model_turn;

/* Where a kernel has more of something than a model holds; 'most' 0: nowhere. */
typedef struct model_limit {
    int most;
    const char *of, *what; /* "this kernel", "roles" */
    diag_range at;
} model_limit;

typedef struct model {
    model_limit beyond;
    arena *memory;
    tl_kernel *kernel;
    model_tile *tiles;
    int tile_count;
    model_cursor *cursors;
    int cursor_count;
    model_role *roles;
    int role_count;
    model_turn *turns;
    int turn_count;
    const tl_statement *grid; /* NULL when there is none */
    bool is_async;   /* several roles, tiles walked by resident blocks, or asynchronous units */
    int block_warps; /* of all roles, with those that idle */
    str *axis_names;
    const tl_symbol **axis_symbols; /* index of that name; NULL when there is none */
    int axis_name_count;
    int stages_most;          /* largest `stages` */
    bool *is_block_index;     /* by tl_symbol.position: indices of the grid that Copies have as the
                                 number of a block */
    unsigned *stamps, *stamp; /* by tl_symbol.position: what model_visit_lets has been to */
} model;

/* Builds the model. Total: what cannot be resolved is left out (others report it), and what is
 * beyond its limits ('beyond' says where; the checks refuse it).
 */
model *model_build(arena *memory, tl_kernel *kernel);

/* The tile of a variable, or of what it is a view of, in a space; -1: there is none. */
int model_find_tile(const model *m, const tl_symbol *symbol, tl_space space);
/* By which cursor a role reads a channel under this name: a view's own, or the channel's; -1. */
int model_find_cursor(const model *m, int role, int tile, const tl_symbol *symbol);
int model_find_turn(const model *m, const tl_symbol *symbol); /* -1: none */
/* Number of the axis of that name in the tile; -1 when it has none. */
int model_axis_of(const model_tile *tile, int axis_id);

/* Of TILES and END_TILES: is it the walk that a role without one of its own has around its body? */
bool model_is_whole_body(const model_step *step);

/* Is the register tile divided over its role's warps by rows alone? */
bool model_is_by_rows(const model_tile *tile);

/* How the words put a role's executors on a tile: `over (down, across)`, else all down. */
typedef struct model_spread {
    int down, across;
} model_spread;
model_spread model_spread_of(const model_role *role, const tl_layout *said);
/* The register layout that 'said' means for a tile, divided over its role's warps; "rows of X" are
 * X's as allocated. False when it does not exist.
 */
bool model_layout(const model *m, int tile, const tl_layout *said, layout *out);
/* Same elements in the same threads and registers. What cannot be computed counts as different. */
bool model_same_layout(const model *m, int tile_a, const tl_layout *a, int tile_b,
                       const tl_layout *b);
/* The same by name: mma_A and mma_C are told apart even where they hold the same elements alike. */
bool model_same_words(const model *m, int tile, const tl_layout *a, const tl_layout *b);
/* What the words of a Reshape leave out goes by what the tile is in. */
void model_complete_reshape(const tl_layout *is, tl_layout *from, tl_layout *to);

/* Is the value decided by a vote, any(...), or kept from one by a let? */
bool model_is_vote(const tl_expr *e);

/* tl_visit, going on into the definitions of lets (and, with 'loops', into the bounds of loops)
 * that are mentioned, into each once. 'visit' must not call it again.
 */
bool model_visit_lets(const model *m, const tl_expr *e, bool loops, tl_visitor *visit,
                      void *context);
/* Is a walk of the grid in it, or an element of a table? Lets are gone into. */
bool model_depends_on_grid(const model *m, const tl_expr *e);
bool model_reads_element(const model *m, const tl_expr *e);

#endif
