/* The decisions of the reasoner as data, for tuners; and the data that tuners leave. */
#include "compile/decide.h"

#include <stdlib.h>
#include <string.h>

/* Everything that a ftl_decisions points to is in one block: first structs, pointers and numbers,
 * then texts. It is laid out twice: without memory, to count the bytes, then into them.
 */
typedef struct block {
    char *base; /* NULL: the bytes are only counted */
    size_t used;
} block;

static void *take(block *b, size_t bytes) {
    void *at = b->base ? b->base + b->used : NULL;
    b->used += bytes;
    return at;
}

static const char *put_text(block *b, str text) {
    char *at = take(b, text.length + 1);
    if (at && text.length) memcpy(at, text.data, text.length);
    if (at) at[text.length] = 0;
    return at;
}

/* Texts come after all that needs an alignment. */
typedef struct parts {
    block fixed, texts;
} parts;

static void put_names(parts *p, const reason_table *t, ftl_comparison *out) {
    size_t columns = (size_t)t->columns.count, cells = columns * (size_t)t->row_count;
    const char **names = take(&p->fixed, columns * sizeof *names);
    const char **units = take(&p->fixed, columns * sizeof *units);
    const char **rows = take(&p->fixed, cells * sizeof *rows);
    for (size_t i = 0; i < columns; i++) {
        const reason_column *c = &t->columns.items[i];
        const char *name = put_text(&p->texts, c->name), *unit = put_text(&p->texts, c->unit);
        if (names) names[i] = name, units[i] = unit;
        for (size_t row = 0; row < (size_t)t->row_count; row++) {
            const char *cell = put_text(&p->texts, c->cells[row]);
            if (rows) rows[row * columns + i] = cell;
        }
    }
    out->columns = names, out->units = units, out->cells = rows;
    out->column_count = (int32_t)columns, out->row_count = t->row_count;
}

static void put_comparisons(parts *p, const reason_result *result, ftl_decisions *out) {
    int count = 0, at = 0;
    for (int i = 0; i < result->decision_count; i++) count += result->decisions[i].tables.count;
    ftl_comparison *all = take(&p->fixed, (size_t)count * sizeof *all);
    for (int i = 0; i < result->decision_count; i++) {
        const reason_decision *d = &result->decisions[i];
        for (int k = 0; k < d->tables.count; k++) {
            ftl_comparison one = {.kernel = put_text(&p->texts, d->kernel),
                                  .subject = put_text(&p->texts, d->subject),
                                  .title = put_text(&p->texts, d->tables.items[k].title)};
            put_names(p, &d->tables.items[k], &one);
            if (all) all[at++] = one;
        }
    }
    out->comparisons = all, out->comparison_count = count;
}

static void put_offers(parts *p, const reason_result *result, ftl_decisions *out) {
    ftl_decision *items = take(&p->fixed, (size_t)result->offer_count * sizeof *items);
    for (int i = 0; i < result->offer_count; i++) {
        const reason_offer *o = &result->offers[i];
        size_t bytes = (size_t)o->value_count * sizeof(int64_t);
        int64_t *values = take(&p->fixed, bytes);
        if (values && bytes) memcpy(values, o->values, bytes);
        ftl_decision one = {.kernel = put_text(&p->texts, o->kernel),
                            .name = put_text(&p->texts, o->name),
                            .value = o->value,
                            .values = values,
                            .value_count = o->value_count,
                            .is_pinned = o->is_pinned};
        if (items) items[i] = one;
    }
    out->items = items, out->count = result->offer_count;
}

static ftl_decisions *lay_out(parts *p, const reason_result *result, str problem) {
    ftl_decisions *place = take(&p->fixed, sizeof *place), out = {0};
    put_offers(p, result, &out);
    put_comparisons(p, result, &out);
    out.problem = put_text(&p->texts, problem);
    out.predicted_tflops = result->predicted_tflops;
    if (place) *place = out;
    return place;
}

ftl_decisions *decide_copy(const reason_result *result, str problem) {
    parts counted = {0};
    lay_out(&counted, result, problem);
    char *memory = calloc(1, counted.fixed.used + counted.texts.used);
    if (!memory) return NULL;
    parts real = {.fixed = {.base = memory}, .texts = {.base = memory + counted.fixed.used}};
    return lay_out(&real, result, problem);
}

void ftl_decisions_free(ftl_decisions *decisions) {
    free(decisions);
}

bool decide_is_length(const tl_program *sketch, str name) {
    for (const tl_kernel *k = sketch->first; k; k = k->next) {
        const tl_symbol *symbol = tl_find_symbol(k, name);
        if (symbol && symbol->kind != TL_SYMBOL_OPEN) return true;
    }
    return false;
}

str decide_problem(arena *memory, const tl_program *sketch, str identity, str dtype,
                   const reason_pin *pins, int pin_count) {
    str out = str_format(memory, "%.*s %.*s", STR_ARGS(identity), STR_ARGS(dtype));
    for (int i = 0; i < pin_count; i++) {
        if (!decide_is_length(sketch, pins[i].name)) continue;
        out = str_format(memory, "%.*s %.*s=%.*s", STR_ARGS(out), STR_ARGS(pins[i].name),
                         STR_ARGS(pins[i].value));
    }
    return out;
}
