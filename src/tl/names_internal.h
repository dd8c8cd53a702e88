/* The state of tl_bind, shared by names_*.c. Not for other modules. */
#ifndef FLASHTL_TL_NAMES_INTERNAL_H
#define FLASHTL_TL_NAMES_INTERNAL_H

#include "tl/names.h"
#include "tl/tl.h"

/* Everything one name means in a kernel. */
typedef struct names_entry {
    str name;
    tl_symbol *value; /* let, scalar, size or open size of the kernel */
    tl_symbol *index;
    tl_symbol *grid;
    tl_symbol *variable;
    tl_symbol *label; /* role or turn */
    tl_symbol *local; /* innermost loop or let of a block around */
    int let_position; /* of 'value' in names_binder.lets, from 1; 0: it is no let */
} names_entry;

typedef struct names_shadow {
    names_entry *entry;
    tl_symbol *before;
} names_shadow;

/* How far a let of the kernel's own block is settled: its value resolved and folded. */
typedef enum names_progress { NAMES_UNSEEN, NAMES_UNDERWAY, NAMES_SETTLED } names_progress;

typedef struct names_let {
    tl_symbol *symbol;
    tl_binding *binding;
    int order; /* position among the kernel's bindings */
    names_progress progress;
} names_let;

typedef struct names_binder {
    arena *memory;
    diag_list *diags;
    tl_program *program;
    tl_kernel *kernel;
    bool is_sketch;
    names_entry **table; /* open addressing; a power of two */
    int table_size, entry_count;
    LIST(tl_symbol *) symbols;
    LIST(names_shadow) shadows;
    LIST(names_let) lets;
    const tl_axes *own_axes;  /* of the view or parameter being resolved */
    int let_order;            /* of the let being resolved; -1 elsewhere */
    const tl_statement *role; /* around the statement being resolved */
    int depth;
} names_binder;

enum { NAMES_DEPTH_MAX = 1000 };

names_entry *names_enter(names_binder *b, str name);      /* finds or makes */
names_entry *names_look(const names_binder *b, str name); /* finds, or NULL */
tl_symbol *names_new(names_binder *b, tl_symbol_kind kind, str name, diag_range range,
                     tl_statement *s);
void names_twice(names_binder *b, str name, diag_range range, const tl_symbol *first);
void names_undefined(names_binder *b, str name, diag_range range);
void names_push(names_binder *b, tl_symbol *symbol, diag_range range);
void names_pop(names_binder *b, int count);

/* Declares what the kernel's own block declares, its tiles, sizes and open sizes. */
void names_declare(names_binder *b);

/* Resolves every name in e (values, indices, elements, tiles with their places) and decides its
 * divisions; reports what it can't. NULL is accepted.
 */
void names_resolve(names_binder *b, tl_expr *e);
/* Decides every division in a resolved expression anew. */
void names_decide_divisions(tl_expr *e);
/* The variable of a NAME that must be one; its place as written or TL_NOWHERE. NULL when reported.
 */
tl_symbol *names_variable(names_binder *b, tl_expr *e, tl_space *written);
/* The same with its tile in 'space' as the current role sees it; reports its absence. */
tl_tile *names_tile(names_binder *b, tl_expr *e, tl_space space);
/* In how many places is it? */
int names_place_count(const tl_symbol *variable);
str names_with_place(names_binder *b, str name, tl_space space); /* Q_shared */
/* Are two lengths one, as numbers or as they are written? */
bool names_same_length(const tl_expr *a, const tl_expr *b);
/* Settles a let: resolves and folds its value. */
void names_settle(names_binder *b, tl_symbol *symbol, tl_binding *binding);
/* Settles every let of the kernel's own block, then its views and parameters. */
void names_settle_all(names_binder *b);

tl_tile *names_tile_in(tl_symbol *variable, tl_space space, const tl_statement *role,
                       tl_symbol **holder);
/* Cuts a place off a name's end: Q_shared, O_reg. */
tl_space names_cut_place(str *name);

/* How long an axis of a view's part is: as the base's tile where that has a block of the axis, else
 * as the view's axis.
 */
tl_expr *names_part_extent(const tl_symbol *view, const tl_tile *base, int position);
/* What index names in expressions of Compute mean, once all tiles have their axes. */
void names_point_indices(tl_kernel *kernel, arena *memory, diag_list *diags);
str names_axes_text(arena *memory, const tl_tile_axis *axes, int count); /* "q, kv" */

void names_bind_statements(names_binder *b, tl_block *block);

#endif
