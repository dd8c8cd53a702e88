/* The values that control asks for: lengths that are chosen, a tile's indices, no data. */
#ifndef FLASHTL_TIMELINE_VALUES_H
#define FLASHTL_TIMELINE_VALUES_H

#include "model/model.h"

enum { VALUES_TILES = 2 };

/* What the lengths of a kernel are taken for. */
typedef struct values_lengths {
    const model *model;
    int64_t usual;
    bool *is_one;   /* by tl_symbol.position: this one is 1 */
    bool *is_asked; /* the same: control depends on it */
} values_lengths;

typedef struct values {
    const values_lengths *lengths;
    tl_values names;
    int tile; /* of the grid, by its number */
    bool is_first, has_more;
    bool is_silent;           /* what is asked for is not noted */
    struct values *following; /* the tile after it; NULL: there is none */
} values;

values_lengths values_lengths_new(arena *memory, const model *m, int64_t usual);
int64_t values_length(const values_lengths *lengths, const tl_symbol *symbol);

values *values_new(arena *memory, const values_lengths *lengths);
/* Indices are those of the tile, and nothing else has a value. 'walks': one block takes all. */
void values_start(values *v, int tile, bool walks);
/* False where only data decide it, or it is no integer. */
bool values_integer(values *v, const tl_expr *e, int64_t *value);

#endif
