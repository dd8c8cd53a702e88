/* Words that are kept by other words: a small table of the last results of something that takes a
 * while and depends on nothing but its key.
 *
 * Any number of threads may use a table at once. None waits: who finds a place being written
 * computes the result itself.
 */
#ifndef FLASHTL_BASE_KEPT_H
#define FLASHTL_BASE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kept kept;

/* A table of 'count' results, a power of two from 4 on. NULL without memory. */
kept *kept_new(size_t count, size_t key_words, size_t result_words);
void kept_free(kept *table);

bool kept_find(kept *table, const uint64_t *key, uint64_t *result);
void kept_put(kept *table, const uint64_t *key, const uint64_t *result);

#endif
