/* What device_arrays.c knows while it goes through a kernel's text: names and their values
 * (device_values.c), and the elements of arrays that were written (device_unset.c).
 */
#ifndef FLASHTL_THINK_DEVICE_WALK_H
#define FLASHTL_THINK_DEVICE_WALK_H

#include "diag/diag.h"
#include "think/device_tokens.h"

#include <limits.h>

enum {
    DIMENSIONS_MAX = 4,
    DEPTH_MAX = 200,
    LOOP_STEPS_MAX = 1 << 12,
    ELEMENTS_MAX = 1 << 12,
    STEPS_MAX = 1 << 22, /* tokens that are looked at, all loops unrolled */
    NO_LOOP = INT_MAX
};

/* What a name stands for: a variable whose lengths are known (none: a scalar), a whole number with
 * the value that it has just now, or something that nothing is known of.
 */
typedef struct thing {
    int name, shadowed; /* the thing that had the name before, or -1 */
    enum { THING_UNKNOWN, THING_ARRAY, THING_NUMBER } kind;
    int dimensions;
    int64_t lengths[DIMENSIONS_MAX];
    int64_t value;
    int outermost; /* the place of the first loop variable that the value depends on, or NO_LOOP */
    uint8_t *elements; /* what has happened to each; NULL: nobody asks */
    int element_count;
} thing;

/* An index past its array. */
typedef struct excess {
    int at; /* the token */
    int64_t index, length;
    int outermost; /* of the index */
} excess;

/* An element that is read before anything is written to it, or perhaps: 'loop' may still write it.
 */
typedef struct unset {
    int at, place, element, loop;
    str what; /* with its indices */
} unset;

typedef struct loop_entry {
    int place, unsure, jumps;
} loop_entry;

/* A write that takes effect when its statement ends. */
typedef struct write {
    int place, first, count;
} write;

/* How a function takes its parameters, by bits; what is in neither may be an address. */
typedef struct function_form {
    uint32_t values, references;
    bool is_defined;
} function_form;

typedef enum walk_scope { SCOPE_FILE, SCOPE_TYPE, SCOPE_CODE } walk_scope;

typedef struct walk {
    diag_list *diags;
    str text;
    token_list tokens;
    LIST(thing) things;
    int *latest; /* by name: the place of its thing, or -1 */
    int at, depth, steps;
    int jumps;   /* what may end a loop before its last step, so far */
    int skipped; /* within a branch that a known condition leaves out */
    int unsure;  /* within so many conditions that are not known */
    int doubted; /* of which so many may be known to the compiler */
    int foreign; /* things before this place belong to who calls the function that is read */
    walk_scope scope;
    LIST(excess) found;
    LIST(unset) pending;
    LIST(unset) unset;
    LIST(loop_entry) loops;
    LIST(write) writes, unset_reads; /* of the statement */
    function_form *functions;        /* by name */
    uint8_t **elements;              /* by token: of the variable that is declared there */
    bool is_bound;                   /* what the statement names gets another name */
    bool has_goto;
} walk;

static inline const token *token_at(const walk *w, int at) {
    bool is_there = at >= 0 && at < w->tokens.count;
    return &w->tokens.items[is_there ? at : w->tokens.count - 1];
}

#define is_at(w, at, text) token_is(token_at((w), (at)), text)
#define is_here(w, text) is_at((w), (w)->at, text)

static inline bool is_ended(const walk *w) {
    return w->depth > DEPTH_MAX || token_at(w, w->at)->kind == TOKEN_END;
}

#define take(w, text) (is_here((w), text) && ++(w)->at)

/* --- device_values.c -------------------------------------------------------------------------- */

thing *find(walk *w, const token *name);
/* Makes it what its name stands for. */
void enter(walk *w, thing t);
/* Forgets all but the first 'count'. */
void leave(walk *w, int count);
/* The value of what stands here, and what it depends on. False: it is not known. */
bool value_here(walk *w, int64_t *v, int *outermost);
/* A value that ends before 'close'; is after it then. */
bool value_before(walk *w, const token *close, int64_t *v, int *outermost);
/* Whether a condition holds: 1, 0, or -1 where that is not known. */
int truth_of(walk *w, int begin, int end);

/* --- device_unset.c --------------------------------------------------------------------------- */

/* The round bracket that something stands in: whose arguments, and which of them. */
typedef struct bracket {
    int callee, argument; /* a name, or -1 */
} bracket;

void unset_start(walk *w);
/* The variable is declared at this token and has no value yet. */
void unset_declare(walk *w, thing *t, int at);
/* Elements 'first' to 'first' + 'count' - 1 of a thing, whose name is at a token and whose indices
 * end before 'end', stand in 'in'. 'is_whole': all indices are there.
 */
void unset_use(walk *w, int place, int at, int end, write elements, bool is_whole, bool is_certain,
               const bracket *in);
/* Nothing more is known of the variables named there. */
void unset_escape(walk *w, int begin, int end);
void unset_statement_ends(walk *w);
void unset_loop_begins(walk *w);
void unset_loop_ends(walk *w);

#endif
