/* The families of rules that look at one statement or declaration at a time; each has its file. All
 * report what is wrong and return false when they reported an error.
 */
#ifndef FLASHTL_CHECK_RULES_H
#define FLASHTL_CHECK_RULES_H

#include "check/check.h"
#include "model/model.h"

/* What a sketch leaves open and TL Code must say. */
bool rules_complete(tl_kernel *kernel, arena *memory, diag_list *diags);

/* Lengths of tiles: positive, not absurd, multiples of what instructions take. */
bool rules_shapes(const model *m, diag_list *diags);
/* The same for the lengths that a sketch fixes. */
bool rules_sketch_shapes(tl_kernel *kernel, arena *memory, diag_list *diags);

/* Products of products in a sketch that says where its operands are. */
bool rules_sketch_layouts(tl_kernel *kernel, arena *memory, diag_list *diags);

/* It is clear which index a loop walks, and a tile that holds a block of it is not used past the
 * loop.
 */
bool rules_sketch_loops(tl_kernel *kernel, arena *memory, diag_list *diags);

/* It is known which axes each computed tile has. */
bool rules_sketch_axes(tl_kernel *kernel, diag_list *diags);

/* What a sketch means does not depend on the sizes of blocks that it leaves open. */
bool rules_sketch_rounds(tl_kernel *kernel, const check_lengths *given, arena *memory,
                         diag_list *diags);

/* The maximum and sum that a Softmax names are not used in its loop. */
bool rules_sketch_softmax(tl_kernel *kernel, diag_list *diags);

/* Warns of scores that a number of the text moves so far out that f32 loses their differences. */
void rules_sketch_far(tl_kernel *kernel, diag_list *diags);

/* The names of a RowTopK, and what it collects block by block. */
bool rules_sketch_top(tl_kernel *kernel, diag_list *diags);

/* Spaces, element types, instructions; against the GPU unless 'target' is NULL. */
bool rules_types(const model *m, const gpu *target, diag_list *diags);
/* Tensors that are permuted, and tiles: who may name them, and what goes where. */
bool rules_sketch_orders(tl_kernel *kernel, diag_list *diags);
bool rules_orders(const model *m, diag_list *diags);
/* What passes a vote on sums fits into the type that their summands are rounded to. */
bool rules_votes(const model *m, diag_list *diags);
/* Warns of sums of 8-bit products that the GPU cuts too short. */
void rules_long_sums(const model *m, const gpu *target, diag_list *diags);

/* Elements that views name are in what they are views of. Sketches and TL Code. */
bool rules_views(tl_kernel *kernel, const check_lengths *given, arena *memory, diag_list *diags);

/* What counts elements is an integer. Sketches and TL Code. */
bool rules_indices(tl_kernel *kernel, diag_list *diags);

/* Products and row reductions take all of their axis, at once or by a loop. */
bool rules_whole(const model *m, arena *memory, diag_list *diags);

/* Outputs: written at all, and each element once. */
bool rules_outputs(const model *m, diag_list *diags);
bool rules_sketch_outputs(tl_kernel *kernel, diag_list *diags);
/* What a Mask takes out is not stored in a type without infinity. */
bool rules_sketch_infinity(tl_kernel *kernel, arena *memory, diag_list *diags);

/* Going through a sketch: which statement made of a tile what is asked of it; NULL: none did. */
typedef struct rules_note {
    const tl_symbol *tile;
    const tl_statement *by;
} rules_note;

typedef struct rules_notes {
    arena *memory;
    LIST(rules_note) items;
} rules_notes;

const tl_statement *rules_noted(const rules_notes *notes, const tl_expr *e);
void rules_note_tile(rules_notes *notes, const tl_expr *e, const tl_statement *by);

/* The Output that a view shows, or the Output itself; NULL for what shows none. */
const tl_symbol *rules_output_of(const tl_symbol *symbol);

/* Shared memory, threads and registers; fills in facts->shared and the sums. */
bool rules_budgets(arena *memory, const model *m, const gpu *target, diag_list *diags,
                   check_facts *facts);

/* Does the register tile live only inside runs of elementwise statements, each of which makes it
 * anew? Then it takes no registers.
 */
bool rules_is_fused_away(const model *m, const model_role *role, int tile);

#endif
