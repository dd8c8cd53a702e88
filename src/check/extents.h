/* Small extents: the finitely many runs that decide the hazard rules.
 *
 * A kernel's control (loop bounds, conditions, coordinates that follow a loop) depends on a few
 * lengths, table elements and grid indices. extents_choose tries small values for them, chosen
 * around multiples of the tile sizes they are divided by, and keeps one of each set of values that
 * the control cannot tell apart and in which every loop runs at most extents.steps times. Then it
 * looks for values that make control do what these do not: extents_search.h.
 */
#ifndef FLASHTL_CHECK_EXTENTS_H
#define FLASHTL_CHECK_EXTENTS_H

#include "check/check.h"
#include "model/model.h"

enum {
    EXTENTS_VARIABLES_MAX = 24,
    EXTENTS_TABLES_MAX = 8,
    EXTENTS_MEASURES_MAX = 32,
    EXTENTS_TABLE_VALUES_MAX = 12,
    EXTENTS_PATTERNS_ALL = 16, /* the first of those that go through all ways */
    EXTENTS_FAR = 1 << 20,     /* larger than what a table's element is compared with here */
};

/* Something control depends on: a symbol (length, scalar, grid index), or a table element. */
typedef struct extents_variable {
    const tl_symbol *symbol;
    const tl_expr *element;
    const tl_expr *walk; /* of a grid index: how many there are */
    /* How often control names it, in the index of an element, and as the start of a stretch, as in
     * `T[b + 1] - T[b]`. What it names in no other way has one value, 0: elements are told apart by
     * their text, and of a stretch only the length counts.
     */
    int uses, indexing, starting;
    bool is_of_tile; /* an element that another tile of the grid has another one of */
    int64_t *candidates;
    int candidate_count, combined_count; /* of the latter, all combinations are tried */
} extents_variable;

/* A table of which a loop walks elements that decide (extents_tables.c). */
typedef struct extents_table {
    const tl_symbol *symbol;
    int64_t values[EXTENTS_TABLE_VALUES_MAX]; /* that its elements may have, rising */
    int value_count, uses, compared;          /* the latter: with a number alone */
    bool is_open;                             /* compared with more than numbers */
    bool is_bound;                            /* of a loop */
} extents_table;

typedef struct extents_run {
    int64_t values[EXTENTS_VARIABLES_MAX];
    int pattern; /* which way an `if` on data goes: 0 never, 1 always, 2 and 3 in turns; and which
                    values the elements of tables have */
} extents_run;

typedef struct extents {
    const model *model;
    extents_variable variables[EXTENTS_VARIABLES_MAX];
    int variable_count;
    extents_table tables[EXTENTS_TABLES_MAX];
    int table_count;
    const tl_symbol *measures[EXTENTS_MEASURES_MAX]; /* tables that hold lengths and bounds */
    int measure_count;
    int neighbours; /* elements of a table that a pipeline looks at together */
    extents_run *runs;
    int run_count;
    int look_ahead; /* largest constant by which a guard or coordinate looks ahead */
    int steps;      /* most iterations of a loop whose bounds are not constants, where few do */
    bool is_cut;    /* control depends on more than was followed */
} extents;

/* The variable that an element of a table is; NULL: none. */
const extents_variable *extents_variable_of(const extents *x, const tl_expr *element);
/* NULL: it is no element of one. */
const extents_table *extents_table_of(const extents *x, const tl_expr *e);
/* Does the expression, with the lets it mentions, ask for such an element? */
bool extents_asks_table(const extents *x, const tl_expr *e);
/* ... or for one of another table, which holds no lengths: does what it leaves out follow from the
 * data alone?
 */
bool extents_chooses(const extents *x, const tl_expr *e);

extents *extents_choose(arena *memory, const model *m);

/* The values of names in one run. Names that control does not depend on have an arbitrary small
 * value. Real-valued names have none.
 */
typedef struct extents_values {
    const extents *extents;
    const extents_run *run;
    const extents_run *elements;      /* of the tile: those that differ from tile to tile */
    tl_values names, others;          /* the latter: of what this kernel's runs do not choose */
    int tile, tiles;                  /* the tile that the block is at, and how many it walks */
    struct extents_values *following; /* the values in the next tile, for next(...); or NULL */
} extents_values;

extents_values *extents_values_new(arena *memory, const extents *x);
void extents_values_start(extents_values *v, const extents_run *run);
/* In another tile of the block's walk, indices of the grid have other values, and so have elements
 * of tables that go by them.
 */
void extents_values_start_tile(extents_values *v, const extents_run *run, int tile, int tiles);
void extents_values_take(extents_values *v, const extents_values *from, extents_values *following);
/* False when the value is not known or no integer. */
static inline bool extents_integer(extents_values *v, const tl_expr *e, int64_t *value) {
    return tl_values_integer(&v->names, e, value);
}
/* The value of a table's element; false when its indices are not known. */
bool extents_table_value(extents_values *v, const extents_table *t, const tl_expr *e,
                         int64_t *value);

#endif
