/* Distributions of scores: scores.def by name, and the numbers that they need. */
#ifndef FLASHTL_BENCH_SCORES_H
#define FLASHTL_BENCH_SCORES_H

#include "base/text.h"

typedef enum scores_kind {
#define SCORES(id, name, usual) SCORES_##id,
#include "bench/scores.def"
#undef SCORES
    SCORES_KIND_COUNT
} scores_kind;

typedef struct bench_scores {
    scores_kind kind; /* zero-initialised: N(0,1) */
    double number;    /* 0 where the kind has none */
} bench_scores;

enum { SCORES_TEXT_BYTES = 32, SCORES_LIMIT = 1000 };

/* "peaked", "peaked:8": false when that is no distribution, or its number is not above 0 and below
 * SCORES_LIMIT.
 */
bool scores_read(str text, bench_scores *out);
/* "normal", "peaked:4": always with its number. */
void scores_print(bench_scores scores, char text[SCORES_TEXT_BYTES]);
/* "normal, peaked[:NUMBER], ...". */
void scores_list(text_buffer *out);

#endif
