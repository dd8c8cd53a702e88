/* What a tuner may try: the decisions that pins can take, as the passes meet them. */
#include "reason/pass.h"

static const reason_pin *find_pin(const reason *r, const char *name) {
    for (int i = 0; i < r->options->pin_count; i++)
        if (str_is(r->options->pins[i].name, name)) return &r->options->pins[i];
    return NULL;
}

const char *reason_pin_word(const reason *r, const char *name) {
    const reason_pin *pin = find_pin(r, name);
    return pin && pin->is_measured ? "measured" : "pinned";
}

static reason_offer *place_for(reason *r, str name) {
    for (int i = 0; i < r->offers.count; i++) {
        reason_offer *known = &r->offers.items[i];
        if (str_equal(known->kernel, r->kernel->name) && str_equal(known->name, name)) return known;
    }
    list_push(r->memory, &r->offers, (reason_offer){0});
    return &r->offers.items[r->offers.count - 1];
}

void reason_offers_choice(reason *r, const char *name, int64_t value, const int64_t *values,
                          int count) {
    if (reason_is_made(r)) return;
    const reason_pin *pin = find_pin(r, name);
    str kept = str_copy(r->memory, str_from(name));
    int64_t *all = arena_array(r->memory, int64_t, count + 1);
    bool is_listed = false;
    for (int i = 0; i < count; i++) {
        all[i] = values[i];
        is_listed = is_listed || values[i] == value;
    }
    all[count] = value;
    *place_for(r, kept) = (reason_offer){.kernel = r->kernel->name,
                                         .name = kept,
                                         .value = value,
                                         .values = all,
                                         .value_count = is_listed ? count : count + 1,
                                         .is_pinned = pin && !pin->is_measured};
}

void reason_offers_switch(reason *r, const char *name, bool value) {
    static const int64_t both[] = {0, 1};
    reason_offers_choice(r, name, value, both, 2);
}
