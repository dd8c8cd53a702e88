/* What the files that list cases share. */
#ifndef FLASHTL_VERIFY_CASES_H
#define FLASHTL_VERIFY_CASES_H

#include "verify/planted.h"

typedef struct listing {
    const verify_program *program;
    const ftl_plan *plan;
    arena *memory;
    LIST(verify_case) cases;
    int32_t next;      /* number of the next case, also of those that are left out */
    double flops_most; /* 0: no limit */
    int32_t q_len, kv_len, batch, q_heads, kv_heads; /* positions of these sizes, or -1 */
    planted_turns chains;
    bool has_scores, has_values; /* of the first turn */
} listing;

int64_t cases_tile(const listing *l, int32_t size);
double cases_flops(const listing *l, const verify_case *c);
double cases_elements(const ftl_plan *plan, const verify_case *c);
uint32_t cases_sizes_in(const ftl_formula *formula); /* a bit each: at most VERIFY_SIZES_MAX */
/* The sum of the lengths that the plan alone knows. */
double cases_fixed_lengths(const ftl_plan *plan);
double cases_value(const ftl_formula *formula, const verify_case *c); /* 0: it has none */
/* Have the matrices of two tensors an axis of one name? Tables of integers have none. */
bool cases_do_meet(const ftl_plan_tensor *one, const ftl_plan_tensor *other);
/* Is the size one of rows or columns? Others count matrices. */
bool cases_is_length(const ftl_plan *plan, int32_t size);
bool cases_counts_matrices(const listing *l, int32_t size); /* by its name, too */
/* May a case of so many operations and elements be in any list? */
bool cases_are_cheap(const listing *l, const verify_case *c);

/* What the user fixed. */
void cases_pin(const listing *l, verify_case *c);
bool cases_is_fixed(const listing *l, int32_t size);

/* A case with sizes that nothing else sets, and its way into the list, with what the user fixed. */
verify_case cases_blank(const listing *l);
void cases_add(listing *l, verify_case c);
void cases_add_in_turn(listing *l, verify_case c); /* layouts take turns */
/* Changes sizes, but none that is fixed, nor 'kept' (-1: none) or one of a pair of lengths, so
 * that the program's conditions hold.
 */
bool cases_solve(const listing *l, uint64_t seed, int32_t kept, verify_case *c);

/* Of programs without a pair of lengths: every length meets every size. */
void cases_add_sizes(listing *l, bool is_all);
/* Of every program: lengths past two blocks of any tile and past the text's constants, several such
 * lengths that differ, very negative scores.
 */
void cases_add_decisive(listing *l);

/* Cases at random, of every program (cases_drawn.c). */
void cases_add_random(listing *l, uint64_t seed, int32_t count);

/* Of programs with tables that say how long things are, or where they lie (cases_tables.c). */
bool cases_is_table(const ftl_plan_tensor *tensor);
bool cases_have_tables(const ftl_plan *plan);
double cases_table_flops(const listing *l, const verify_case *c);
bool cases_have_room(const listing *l, const verify_case *c); /* no table is empty, or too short */
/* A case in which each loop has more than two blocks, as far as that is cheap. */
void cases_add_long_tables(listing *l, verify_input input);

#endif
