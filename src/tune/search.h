/* Which candidates are there? Pure: choices are the reasoner's decisions with some of them pinned;
 * the rest is reasoned around the pins.
 */
#ifndef FLASHTL_TUNE_SEARCH_H
#define FLASHTL_TUNE_SEARCH_H

#include "base/text.h"
#include "flashtl/flashtl.h"

enum { SEARCH_DECISIONS_MAX = 32, SEARCH_CHOICES_MAX = 512, SEARCH_TEXT_BYTES = 512 };

/* The decisions of a problem, each name once, as the model took them. */
typedef struct search_space {
    const ftl_decision *decisions[SEARCH_DECISIONS_MAX]; /* the caller's */
    int count;
} search_space;

typedef struct search_choice {
    bool is_pinned[SEARCH_DECISIONS_MAX];
    int64_t values[SEARCH_DECISIONS_MAX]; /* of the pinned ones */
} search_choice;

/* Decisions that the user pinned are left out, and what has one value only. */
void search_open(search_space *space, const ftl_decisions *decisions);
/* All choices that differ from 'base' in one decision: another value, or a pin less. Returns how
 * many (at most 'most').
 */
int search_around(const search_space *space, const search_choice *base, search_choice *out,
                  int most);
/* "BN=96 warps=8", in the order of the space; "" for the model's own choice. */
void search_text(const search_space *space, const search_choice *choice,
                 char text[SEARCH_TEXT_BYTES]);
/* The reverse; false when a name or value is none of the space's. */
bool search_read(const search_space *space, const char *text, search_choice *out);

#endif
