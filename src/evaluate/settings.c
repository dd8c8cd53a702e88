#include "evaluate/settings.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *meaning;
} stages_list[] =
    {
#define STAGES(id, name, what) {name, what},
        SETTING_STAGES_LIST(STAGES)
#undef STAGES
},
  part_list[] = {
#define PART(id, name, what) {name, what},
      SETTING_PART_LIST(PART)
#undef PART
};

const char *setting_stages_name(setting_stages stages) {
    return stages_list[stages].name;
}

const char *setting_stages_meaning(setting_stages stages) {
    return stages_list[stages].meaning;
}

const char *setting_part_name(setting_part part) {
    return part_list[part].name;
}

const char *setting_part_meaning(setting_part part) {
    return part_list[part].meaning;
}

static void write_name(evaluate_setting *s) {
    int length = snprintf(s->name, sizeof s->name, "%s", stages_list[s->stages].name);
    for (int i = 0; i < SETTING_PART_COUNT; i++) {
        if (!(s->without >> i & 1)) continue;
        length +=
            snprintf(s->name + length, sizeof s->name - (size_t)length, "-%s", part_list[i].name);
    }
}

static evaluate_setting make(setting_stages stages, uint32_t without) {
    evaluate_setting s = {.stages = stages, .without = without};
    write_name(&s);
    return s;
}

bool setting_read(str text, evaluate_setting *out) {
    str rest = text, word = str_cut(&rest, '-');
    *out = (evaluate_setting){.stages = SETTING_STAGES_COUNT};
    for (int i = 0; i < SETTING_STAGES_COUNT; i++) {
        if (str_is(word, stages_list[i].name)) out->stages = (setting_stages)i;
    }
    bool is_read = out->stages != SETTING_STAGES_COUNT && !str_ends(text, STR("-"));
    while (is_read && rest.length) {
        uint32_t bit = 0;
        word = str_cut(&rest, '-');
        for (uint32_t i = 0; i < SETTING_PART_COUNT; i++) {
            if (str_is(word, part_list[i].name)) bit = 1u << i;
        }
        is_read = bit && !(out->without & bit);
        out->without |= bit;
    }
    if (is_read) write_name(out);
    return is_read;
}

int32_t settings_all(bool has_grammar, evaluate_setting out[SETTINGS_MAX]) {
    int32_t count = 0;
    for (int stages = 0; stages < SETTING_STAGES_COUNT; stages++) {
        for (uint32_t without = 0; without < 1u << SETTING_PART_COUNT; without++) {
            bool is_same = !has_grammar && without >> SETTING_GRAMMAR & 1;
            if (!is_same) out[count++] = make((setting_stages)stages, without);
        }
    }
    return count;
}

int32_t settings_usual(bool has_grammar, evaluate_setting out[SETTINGS_MAX]) {
    int32_t count = 0;
    for (int stages = 0; stages < SETTING_STAGES_COUNT; stages++) {
        out[count++] = make((setting_stages)stages, 0);
    }
    for (uint32_t part = 0; part < SETTING_PART_COUNT; part++) {
        bool is_same = !has_grammar && part == SETTING_GRAMMAR;
        if (!is_same) out[count++] = make(SETTING_SKETCH, 1u << part);
    }
    return count;
}

uint32_t setting_muted_rungs(const evaluate_setting *s) {
    uint32_t muted = 0;
    if (s->without >> SETTING_CHECKER & 1) {
        muted |= 1u << THINK_RUNG_READ | 1u << THINK_RUNG_CHECK | 1u << THINK_RUNG_BUILD |
                 1u << THINK_RUNG_COMPILE;
    }
    if (s->without >> SETTING_INTERPRETER & 1) {
        muted |= 1u << THINK_RUNG_MEANING | 1u << THINK_RUNG_EMULATE | 1u << THINK_RUNG_GPU;
    }
    return muted;
}
