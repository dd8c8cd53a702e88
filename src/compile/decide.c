/* The decisions of the reasoner as data, for tuners; and the data that tuners leave. */
#include "compile/decide.h"

#include <stdlib.h>
#include <string.h>

/* Everything that a ftl_decisions points to lies after it in one block. */
typedef struct block {
    char *next;
} block;

static size_t bytes_of(const reason_result *result, str problem) {
    size_t bytes = sizeof(ftl_decisions) + problem.length + 1;
    for (int i = 0; i < result->offer_count; i++) {
        const reason_offer *o = &result->offers[i];
        bytes += sizeof(ftl_decision) + (size_t)o->value_count * sizeof(int64_t);
        bytes += o->kernel.length + o->name.length + 2;
    }
    return bytes;
}

static const char *put_text(block *b, str text) {
    char *at = b->next;
    if (text.length) memcpy(at, text.data, text.length);
    at[text.length] = 0;
    b->next += text.length + 1;
    return at;
}

ftl_decisions *decide_copy(const reason_result *result, str problem) {
    char *memory = calloc(1, bytes_of(result, problem));
    if (!memory) return NULL;
    size_t count = (size_t)result->offer_count;
    ftl_decisions *out = (ftl_decisions *)(void *)memory;
    ftl_decision *items = (ftl_decision *)(void *)(out + 1);
    int64_t *values = (int64_t *)(void *)(items + count);
    size_t value_count = 0;
    for (size_t i = 0; i < count; i++) value_count += (size_t)result->offers[i].value_count;
    block b = {(char *)(values + value_count)};
    for (size_t i = 0; i < count; i++) {
        const reason_offer *o = &result->offers[i];
        memcpy(values, o->values, (size_t)o->value_count * sizeof *values);
        items[i] = (ftl_decision){.kernel = put_text(&b, o->kernel),
                                  .name = put_text(&b, o->name),
                                  .value = o->value,
                                  .values = values,
                                  .value_count = o->value_count,
                                  .is_pinned = o->is_pinned};
        values += o->value_count;
    }
    *out = (ftl_decisions){.items = items,
                           .count = (int32_t)count,
                           .problem = put_text(&b, problem),
                           .predicted_tflops = result->predicted_tflops};
    return out;
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
