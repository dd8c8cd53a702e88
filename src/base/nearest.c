#include "base/nearest.h"

#include <stdio.h>

enum { PREFIX_LEAST = 2 /* letters that make a beginning */ };

static bool is_known(const nearest *n, str name) {
    for (int i = 0; i < n->count; i++)
        if (str_equal(n->names[i], name)) return true;
    return false;
}

void nearest_offer(nearest *n, str name) {
    bool is_beginning = n->wanted.length >= PREFIX_LEAST && str_starts(name, n->wanted);
    int distance = is_beginning ? 1 : str_distance(n->wanted, name);
    if (distance >= str_distance_limit(n->wanted) && !is_beginning) return;
    if (is_known(n, name)) return;
    if (n->count && distance > n->distance) return;
    if (n->count && distance < n->distance) n->count = 0;
    if (n->count == NEAREST_MOST) return;
    n->distance = distance;
    n->names[n->count++] = name;
}

const char *nearest_words(const nearest *n, const char *mark, char words[NEAREST_BYTES]) {
    enum { SHOWN = 64 };
    size_t used = 0;
    words[0] = 0;
    for (int i = 0; i < n->count; i++) {
        const char *before = i == 0 ? "; did you mean " : i == n->count - 1 ? " or " : ", ";
        int length = n->names[i].length < SHOWN ? (int)n->names[i].length : SHOWN;
        int more = snprintf(words + used, NEAREST_BYTES - used, "%s'%s%.*s'", before, mark, length,
                            n->names[i].data);
        used += (size_t)more < NEAREST_BYTES - used ? (size_t)more : 0;
    }
    if (n->count) snprintf(words + used, NEAREST_BYTES - used, "?");
    return words;
}
