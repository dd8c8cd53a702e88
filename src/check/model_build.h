/* A model while it is made: model.c has its tiles and roles, model_steps.c the steps of a role. */
#ifndef FLASHTL_CHECK_MODEL_BUILD_H
#define FLASHTL_CHECK_MODEL_BUILD_H

#include "check/model.h"

typedef struct model_builder {
    model *model;
    LIST(model_tile) tiles;
    LIST(model_cursor) cursors;
    LIST(model_turn) turns;
    LIST(str) axis_names;
    LIST(model_step) steps;
    int role, depth;
} model_builder;

/* The number of an axis's name; -1 for none. */
int model_build_axis(model_builder *b, str name);
/* The tile of a variable in a space; -1: there is none. */
int model_build_find(const model_tile *tiles, int count, const tl_symbol *symbol, tl_space space);

/* model_steps.c: behind the role's other steps */
void model_build_step(model_builder *b, model_step step);
void model_build_block(model_builder *b, const tl_block *block);

#endif
