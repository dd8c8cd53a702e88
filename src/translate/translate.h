/* The translator: TL Code to one self-contained CUDA file.
 *
 * It knows statements, not operators: each statement becomes a block of text headed by the
 * statement itself, made of instruction wrappers (src/device) chosen from the table of atoms. The
 * shape of the text is decision 009. The same kernel gives the same bytes.
 */
#ifndef FLASHTL_TRANSLATE_TRANSLATE_H
#define FLASHTL_TRANSLATE_TRANSLATE_H

#include "check/check.h"
#include "flashtl/plan.h"

/* Lines of the file that a statement became, its own heading among them; they count from 1. */
typedef struct translate_span {
    const tl_statement *statement;
    int first, last;
} translate_span;
typedef LIST(translate_span) translate_spans; /* in the order of the file */

/* What to translate: a bound and checked kernel, for a GPU. */
typedef struct translate_request {
    tl_kernel *kernel;
    const gpu *target;
    const check_facts *facts; /* of check_code */
    bool as_cute;             /* instructions through CuTe's atoms */
    str entry;                /* symbol; "": the kernel's name */
    translate_spans *spans;   /* whoever wants to know them, in the arena; NULL: nobody */
} translate_request;

/* Translates a kernel. Appends the file to 'cuda'. The plan and all it points to live in 'memory'
 * (it is not for ftl_plan_free). Returns false when an error was reported: a statement that has no
 * translation for this GPU.
 */
bool translate_kernel(const translate_request *request, arena *memory, diag_list *diags,
                      text_buffer *cuda, ftl_plan **plan);

/* An expression as a postfix program over the sizes and scalars of 'plan', which are there
 * already. All of it lives in 'memory'. Returns false when the expression has anything else in it:
 * 'out' is then good for its text only.
 */
bool translate_formula(const tl_expr *e, const ftl_plan *plan, arena *memory, ftl_formula *out);

ftl_type translate_type(tl_type type); /* as plans have it */

typedef LIST(ftl_formula) translate_conditions;
/* Adds how long axes have to be for the indices on them. */
void translate_reach_conditions(const tl_kernel *kernel, const ftl_plan *plan, arena *memory,
                                translate_conditions *to);
/* Adds what lengths that are made of others ask of them, in a bound kernel: none is below 0. What
 * tables say is not known at the launch, and asks nothing.
 */
void translate_length_conditions(const tl_kernel *kernel, const ftl_plan *plan, arena *memory,
                                 translate_conditions *to);

/* Fills in 'use' and 'limit' of a table of integers, from all places of a bound kernel where its
 * elements stand. The plan has its sizes.
 */
void translate_table(tl_kernel *kernel, const tl_symbol *table, const ftl_plan *plan, arena *memory,
                     ftl_plan_tensor *out);
/* The same limit as an expression; NULL: none. */
const tl_expr *translate_table_limit(tl_kernel *kernel, const tl_symbol *table,
                                     const ftl_plan *plan, arena *memory, ftl_table_use *use);

#endif
