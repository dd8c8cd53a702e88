/* Who writes a name wrong is told the nearest ones that there are, up to three. */
#ifndef FLASHTL_BASE_NEAREST_H
#define FLASHTL_BASE_NEAREST_H

#include "base/text.h"

enum { NEAREST_MOST = 3, NEAREST_BYTES = 320 };

typedef struct nearest {
    str wanted;
    str names[NEAREST_MOST]; /* the nearest first; of equal ones, as they came */
    int distances[NEAREST_MOST], count;
    bool is_near; /* few letters differ from the first, or the wanted one is its beginning */
} nearest;

/* Offers a name that there is. Names live as long as 'n'. */
void nearest_offer(nearest *n, str name);
/* "; did you mean '--gpu', '--on' or '--op'?" with 'mark' before each name; where none is near, ";
 * the nearest are '--gpu', '--on' and '--op'"; "" without any. Returns 'words'.
 */
const char *nearest_words(const nearest *n, const char *mark, char words[NEAREST_BYTES]);

#endif
