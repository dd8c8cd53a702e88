/* Editing TL: names, uses and places of statements, for the passes. */
#ifndef FLASHTL_REASON_EDIT_H
#define FLASHTL_REASON_EDIT_H

#include "tl/tl.h"

/* --- places ----------------------------------------------------------------------------------- */

/* Moves quoted statements into the tree, keeping their order. */
void edit_before(tl_kernel *kernel, tl_statement *at, tl_block quoted);
void edit_after(tl_kernel *kernel, tl_statement *at, tl_block quoted);
void edit_append(tl_block *block, tl_statement *parent, tl_block quoted);
void edit_join(tl_block *block, tl_block more); /* neither is in a tree yet */
void edit_append_copy(arena *memory, tl_block *block, const tl_statement *s); /* NULL: nothing */
void edit_remove(tl_kernel *kernel, tl_statement *s);
void edit_replace(tl_kernel *kernel, tl_statement *s, tl_block quoted);
/* Takes s out of its place and puts it before 'at'. */
void edit_move_before(tl_kernel *kernel, tl_statement *at, tl_statement *s);
void edit_move_after(tl_kernel *kernel, tl_statement *at, tl_statement *s);

/* Is s inside 'outer' (or the same)? */
bool edit_is_within(const tl_statement *s, const tl_statement *outer);
/* Of the statements around s (or s itself), the one that is directly in 'block'. */
tl_statement *edit_ancestor_in(tl_kernel *kernel, tl_statement *s, const tl_block *block);
/* The nearest `for` around s; NULL when there is none. */
tl_statement *edit_loop_of(const tl_statement *s);
/* Does a come before b in reading order? */
bool edit_is_before(tl_kernel *kernel, const tl_statement *a, const tl_statement *b);

/* The Allocate of a tile in that space, among the statements from 'first' on; NULL: none. */
tl_statement *edit_find_allocation(tl_statement *first, str name, tl_space space);

/* The Allocate of a shared tile; of a register tile, in the first role that has one. */
tl_statement *edit_shared_tile(const tl_kernel *kernel, str name);
tl_statement *edit_register_tile(const tl_kernel *kernel, str name);
/* Do others lie in the tile's bytes? */
bool edit_is_host(const tl_kernel *kernel, str name);
tl_statement *edit_last_release(const tl_kernel *kernel, str name); /* NULL: there is none */
/* An allocation of its own for 'name', like that one and after it. */
tl_statement *edit_allocate_like(tl_kernel *kernel, arena *memory, tl_statement *like, str name,
                                 const char *comment);

/* A short label, e.g. "Compute GEMM Q, K.T and get S", for messages. */
str edit_header(arena *memory, const tl_statement *s);

/* --- names ------------------------------------------------------------------------------------ */

/* 'wanted', or wanted_2, wanted_3, ... : a name that occurs nowhere in the kernel. */
str edit_fresh_name(tl_kernel *kernel, arena *memory, const char *wanted);
/* How often the header of s has the name, or a place of that one (X_shared of X), in expressions.
 */
int edit_mentions(tl_statement *s, str name);
/* A copy of e, in which each part that 'other' has something for is that, without going into it. */
typedef tl_expr *edit_other(void *context, const tl_expr *e); /* NULL: it stays */
tl_expr *edit_exchange(arena *memory, const tl_expr *e, edit_other *other, void *context);
/* Every NAME called 'name', an index, becomes a copy of 'value'. */
tl_expr *edit_substitute(arena *memory, const tl_expr *e, str name, const tl_expr *value);
/* A tile or an index; what stands before brackets is a tensor, and stays. */
void edit_rename_expr(tl_expr *e, str from, str to);
void edit_rename(tl_statement *s, str from, str to); /* s itself, not its body */
/* Renames in all statements of the block from 'first' on, bodies included. */
void edit_rename_from(tl_statement *first, str from, str to);
/* The text of an expression, ending in NUL. */
const char *edit_text(arena *memory, const tl_expr *e);
/* The same, in parentheses unless it is a name, a number or a call. */
const char *edit_factor_text(arena *memory, const tl_expr *e);
const char *edit_z(arena *memory, str s);
/* "X" of "X_shared" and "X_register". */
str edit_bare(str name);

/* --- uses ------------------------------------------------------------------------------------- */

/* Calls 'visit' for the names that a statement itself reads, its body excluded, until it returns
 * true: then true. Reading includes scalars and index names of its expressions; a copy's coordinate
 * is not read here. An accumulated target is read and written. Copy's names are those of tiles:
 * `Copy K from global to shared` writes K and reads none.
 */
typedef bool edit_visitor(void *context, str name);
bool edit_any_read(const tl_statement *s, edit_visitor *visit, void *context);
str edit_target_name(const tl_statement *s); /* what it writes; empty: nothing */
bool edit_reads(const tl_statement *s, str name);
bool edit_writes(const tl_statement *s, str name);
/* The statement before 'from', in its block, that last wrote the tile, or has one in it that did.
 */
tl_statement *edit_last_write(const tl_statement *from, str name);
bool edit_takes(const tl_statement *s, str name); /* in an operand of Compute */
/* Does any statement of the body (or s itself) read, or write, the name? */
bool edit_reads_within(tl_statement *s, str name);
bool edit_writes_within(tl_statement *s, str name);
/* Of a Copy: what is, or would be, in global memory, and the tile in the block. */
str edit_copied_tensor(const tl_statement *copy);
str edit_copied_tile(const tl_statement *copy);
/* Does s copy the tile from global memory? */
bool edit_loads(const tl_statement *s, str name);
/* The first statement that does; NULL: none. */
tl_statement *edit_load_of(tl_kernel *kernel, str name);
/* Does a Compute write the tile? */
bool edit_is_computed(const tl_kernel *kernel, str name);

bool edit_is_compute(const tl_statement *s, tl_operation operation);
/* Does a Compute read so, up to where the pattern ends? A digit is that one of the names that
 * follow (an empty one is nowhere), `_` anything:
 *     edit_fits(s, "Multiply 0, _ and get 0", x)
 */
#define edit_fits(s, pattern, ...) edit_fits_names(s, pattern, (const str[]){__VA_ARGS__})
bool edit_fits_names(const tl_statement *s, const char *pattern, const str *names);
bool edit_is_product(const tl_statement *s);
bool edit_is_fill(const tl_statement *s);  /* a Copy from global to shared memory */
bool edit_is_store(const tl_statement *s); /* a Copy from registers to shared memory */
bool edit_is_any(const tl_expr *e);
/* `let NAME = any(...)`: what the warps of a role found in their tiles. */
bool edit_is_vote(const tl_statement *s);
/* Operand i is just this NAME. */
bool edit_operand_is(const tl_statement *s, int i, str name);
str edit_operand_name(const tl_statement *s, int i); /* empty when it is no plain NAME */

/* The binding of `let NAME = ...`; NULL when there is none. */
tl_binding *edit_find_let(tl_kernel *kernel, str name, tl_statement **statement);
/* Takes a binding out of its let (and an empty let out of the kernel). */
void edit_remove_let(tl_kernel *kernel, str name);

#endif
