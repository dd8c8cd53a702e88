#include "tune/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int find(const search_space *space, str name) {
    for (int i = 0; i < space->count; i++) {
        if (str_is(name, space->decisions[i]->name)) return i;
    }
    return -1;
}

void search_open(search_space *space, const ftl_decisions *decisions) {
    space->count = 0;
    for (int32_t i = 0; i < decisions->count; i++) {
        const ftl_decision *d = &decisions->items[i];
        bool is_open = !d->is_pinned && d->value_count > 1 && find(space, str_from(d->name)) < 0;
        if (is_open && space->count < SEARCH_DECISIONS_MAX) space->decisions[space->count++] = d;
    }
}

int search_around(const search_space *space, const search_choice *base, search_choice *out,
                  int most) {
    int count = 0;
    for (int i = 0; i < space->count; i++) {
        const ftl_decision *d = space->decisions[i];
        for (int32_t k = 0; k < d->value_count && count < most; k++) {
            int64_t now = base->is_pinned[i] ? base->values[i] : d->value;
            if (d->values[k] == now) continue;
            out[count] = *base;
            out[count].is_pinned[i] = true;
            out[count++].values[i] = d->values[k];
        }
        if (base->is_pinned[i] && count < most) {
            out[count] = *base;
            out[count++].is_pinned[i] = false;
        }
    }
    return count;
}

void search_text(const search_space *space, const search_choice *choice,
                 char text[SEARCH_TEXT_BYTES]) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < space->count; i++) {
        if (!choice->is_pinned[i]) continue;
        int more = snprintf(text + used, SEARCH_TEXT_BYTES - used, "%s%s=%" PRId64, used ? " " : "",
                            space->decisions[i]->name, choice->values[i]);
        if (more > 0 && (size_t)more < SEARCH_TEXT_BYTES - used) used += (size_t)more;
    }
    text[used] = 0;
}

bool search_read(const search_space *space, const char *text, search_choice *out) {
    *out = (search_choice){0};
    str rest = str_from(text);
    while (rest.length) {
        str value = str_cut(&rest, ' '), name = str_cut(&value, '=');
        int at = find(space, name);
        if (at < 0 || !str_to_integer(value, &out->values[at])) return false;
        out->is_pinned[at] = true;
    }
    return true;
}
