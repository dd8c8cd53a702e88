#include "bench/scores.h"

#include "base/number.h"

#include <stdio.h>

static const struct {
    const char *name;
    double usual;
} kinds[] = {
#define SCORES(id, name, usual) {name, usual},
#include "bench/scores.def"
#undef SCORES
};

bool scores_read(str text, bench_scores *out) {
    str number = text, name = str_cut(&number, ':');
    bool is_given = name.length < text.length;
    for (int i = 0; i < SCORES_KIND_COUNT; i++) {
        if (!str_is(name, kinds[i].name)) continue;
        *out = (bench_scores){(scores_kind)i, kinds[i].usual};
        if (!is_given) return true;
        return kinds[i].usual > 0 && str_to_number(number, &out->number) && out->number > 0 &&
               out->number < SCORES_LIMIT;
    }
    return false;
}

void scores_print(bench_scores scores, char text[SCORES_TEXT_BYTES]) {
    if (scores.kind == SCORES_NORMAL) snprintf(text, SCORES_TEXT_BYTES, "%s", kinds[0].name);
    else number_print(text, SCORES_TEXT_BYTES, "%s:%g", kinds[scores.kind].name, scores.number);
}

void scores_list(text_buffer *out) {
    for (int i = 0; i < SCORES_KIND_COUNT; i++) {
        text_format(out, "%s%s%s", i ? ", " : "", kinds[i].name,
                    kinds[i].usual > 0 ? "[:NUMBER]" : "");
    }
}
