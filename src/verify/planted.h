/* Inputs that make scores what decides: one that dominates, scores that climb, very negative ones.
 * Which tensors meet in a product is read from the sketch's statements, or seen from axes.
 */
#ifndef FLASHTL_VERIFY_PLANTED_H
#define FLASHTL_VERIFY_PLANTED_H

#include "verify/inputs.h"

/* A matrix of an Input: two of its axes, one of which a product contracts. */
typedef struct planted_matrix {
    int32_t tensor;      /* of the plan; -1: there is none */
    int row, contracted; /* axes; of the values the row is what weights run along */
} planted_matrix;

/* Rows of 'left' (queries) meet rows of 'right' (keys) in scores, and those weigh rows of 'values',
 * which may be the keys themselves.
 */
typedef struct planted_chain {
    planted_matrix left, right, values;
    str scores;       /* what the text calls them; or empty */
    bool has_softmax; /* weights are divided by their sum, as far as the text says */
    bool is_changed;  /* a product takes what was computed of an Input: its size is another */
} planted_chain;

enum { PLANTED_CHAINS = 4, PLANTED_TURNS = 3 };

/* What is planted at once: chains in which no tensor has two parts to play. */
typedef struct planted {
    planted_chain chains[PLANTED_CHAINS];
    int32_t count;
    uint64_t scored;     /* bits of tensors that are the left ones of scores, planted or not */
    uint64_t multiplied; /* and of all that products read */
} planted;

typedef enum planted_part {
    PLANTED_NOTHING,
    PLANTED_LEFT,
    PLANTED_RIGHT, /* also of keys that are values, too */
    PLANTED_VALUES
} planted_part;

/* All chains of a program, by turns: at least one, which may have none. */
typedef struct planted_turns {
    planted turns[PLANTED_TURNS];
    int32_t count;
} planted_turns;

planted_turns planted_find(const verify_program *program);

/* What a tensor is to the program's products, planted or not; of keys and values VALUES. */
planted_part planted_part_of(const planted *p, int32_t tensor);
/* Are there scores? Do they weigh anything? */
bool planted_has_scores(const planted *p);
bool planted_has_values(const planted *p);

/* What brings scores of N(0,1) to a standard deviation of 1: one over the root of what is summed.
 */
double planted_scale(const case_data *data, const planted *p);

/* What the elements of one of some ways stand for those of the others, too; of too few there is one
 * way.
 */
double planted_weight(int64_t way, int64_t ways, int64_t summed);

/* 0..3, another one for each number that differs in one bit alone: rows that a warp's lanes, its
 * fragments or two warps could take for one another.
 */
int64_t planted_fold(int64_t row);
/* A column for each row: those of a block have theirs everywhere in a block of columns. */
int64_t planted_match(int64_t row, int64_t columns);

/* Changes a row of N(0,1) of the Input at 'position' of the plan into what the case asks for. */
void planted_row(const case_data *data, const planted *p, int32_t position, int64_t row,
                 double *values);

#endif
