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
    if (is_known(n, name)) return;
    n->is_near |= is_beginning || distance < str_distance_limit(n->wanted);
    int at = n->count;
    while (at > 0 && n->distances[at - 1] > distance) at--;
    if (at == NEAREST_MOST) return;
    n->count += n->count < NEAREST_MOST;
    for (int i = n->count - 1; i > at; i--) {
        n->names[i] = n->names[i - 1];
        n->distances[i] = n->distances[i - 1];
    }
    n->names[at] = name;
    n->distances[at] = distance;
}

const char *nearest_words(const nearest *n, const char *mark, char words[NEAREST_BYTES]) {
    enum { SHOWN = 64 };
    size_t used = 0;
    words[0] = 0;
    const char *first = n->is_near      ? "; did you mean "
                        : n->count == 1 ? "; the nearest is "
                                        : "; the nearest are ";
    const char *last = n->is_near ? " or " : " and ";
    for (int i = 0; i < n->count; i++) {
        const char *before = i == 0 ? first : i == n->count - 1 ? last : ", ";
        int length = n->names[i].length < SHOWN ? (int)n->names[i].length : SHOWN;
        int more = snprintf(words + used, NEAREST_BYTES - used, "%s'%s%.*s'", before, mark, length,
                            n->names[i].data);
        used += (size_t)more < NEAREST_BYTES - used ? (size_t)more : 0;
    }
    if (n->is_near) snprintf(words + used, NEAREST_BYTES - used, "?");
    return words;
}
