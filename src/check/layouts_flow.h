/* Layouts on their way through a role: layouts.c has the ways, layouts_rules.c what each statement
 * demands and leaves.
 */
#ifndef FLASHTL_CHECK_LAYOUTS_FLOW_H
#define FLASHTL_CHECK_LAYOUTS_FLOW_H

#include "check/layouts.h"

typedef enum layouts_held { LAYOUTS_NOTHING, LAYOUTS_KNOWN, LAYOUTS_MIXED } layouts_held;

/* What a tile is in at a point of the program. */
typedef struct layouts_point {
    layouts_held state;
    tl_layout layout;
    const tl_statement *since, *other_since; /* the statements that left it so */
} layouts_point;

typedef struct layouts_flow {
    arena *memory;
    const model *model;
    const model_role *role;
    diag_list *diags;
    layouts_point *tiles; /* by tile */
    bool reports;         /* the last pass over the role */
    bool failed;
    LIST(check_layout_at) facts;
    bool *silent; /* by tile: reported once */
} layouts_flow;

/* Whether a report about the tile is due: in the last pass, and once for each tile. */
bool layouts_may_report(layouts_flow *f, int tile);
/* Judges a step, and notes in what it leaves its tiles. */
void layouts_visit(layouts_flow *f, const model_step *step);

#endif
