/* A model while it is made: model.c has its tiles and roles, steps.c the steps of a
 * role, traffic.c how shared tiles' data move. */
#ifndef FLASHTL_MODEL_BUILD_H
#define FLASHTL_MODEL_BUILD_H

#include "model/model.h"

typedef struct model_builder {
    model *model;
    LIST(model_tile) tiles;
    LIST(model_cursor) cursors;
    LIST(model_turn) turns;
    LIST(str) axis_names;
    LIST(model_step) steps;
    model_use reads[MODEL_READS_MAX]; /* of the step that is being made */
    int role, depth;
    int processes; /* of the roles so far */
} model_builder;

/* Notes that something is left out, for there are more than 'most' of its kind. */
void model_build_beyond(model_builder *b, model_limit limit);

/* The number of an axis's name; -1 for none. */
int model_build_axis(model_builder *b, str name);
/* As model_find_tile and model_find_cursor, of what has been found so far. */
int model_build_find(const model_tile *tiles, int count, const tl_symbol *symbol, tl_space space);
int model_build_cursor(const model_builder *b, int role, int tile, const tl_symbol *symbol);

/* registers.c: when the roles are known */
void model_build_layouts(model *m);

/* traffic.c: of a model that is complete but for it; warps first. */
void model_build_warps(model *m);
void model_build_traffic(model *m);

/* steps.c: after the role's other steps */
void model_build_step(model_builder *b, model_step step);
void model_build_block(model_builder *b, const tl_block *block);

#endif
