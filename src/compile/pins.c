/* Pins as the API has them: checked before anything is made of them. */
#include "base/needs.h"
#include "compile/compile.h"
#include "compile/measured.h"
#include "reason/reason.h"

ftl_status compile_check_pins(ftl_context *context, const tl_program *program,
                              const ftl_options *options) {
    arena *memory = &context->memory;
    if (!options) return FTL_OK;
    if (!compile_is_pin_list(options->pins, options->pin_count)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the list of pins is null, or a name or value");
    }
    reason_pin *pins = arena_array(memory, reason_pin, options->pin_count + 1);
    for (int32_t i = 0; i < options->pin_count; i++) {
        pins[i] = (reason_pin){.name = str_from(options->pins[i].name),
                               .value = str_from(options->pins[i].value)};
    }
    const reason_options o = {.pins = pins, .pin_count = options->pin_count};
    str why = reason_check_pins(program, &o, memory);
    if (!why.length && options->measured) why = measured_check(memory, str_from(options->measured));
    if (!why.length) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%.*s", STR_ARGS(why));
}

check_lengths compile_lengths(arena *memory, const ftl_options *o) {
    check_length *items = arena_array(memory, check_length, o->pin_count + 1);
    int count = 0;
    for (int32_t i = 0; i < o->pin_count; i++) {
        check_length one = {.name = str_from(o->pins[i].name)};
        if (str_to_integer(str_from(o->pins[i].value), &one.value)) items[count++] = one;
    }
    return (check_lengths){items, count};
}

typedef struct pins_arguments {
    const ftl_source *source;
    const ftl_options *options;
} pins_arguments;

static ftl_status check_pins(ftl_context *context, void *arguments) {
    const pins_arguments *a = arguments;
    tl_program *program = compile_bind(context, a->source);
    if (!program) return compile_verdict(context);
    ftl_status status = compile_check_pins(context, program, a->options);
    if (status) return status;
    const ftl_options none = FTL_OPTIONS_INIT;
    check_lengths given = compile_lengths(&context->memory, a->options ? a->options : &none);
    return compile_check(context, program, NULL, &given);
}

ftl_status ftl_check_pins(ftl_context *context, const ftl_source *source,
                          const ftl_options *options) {
    NEEDS(context);
    NEEDS(source);
    ftl_options taken;
    ftl_status status = options ? compile_take_options(context, options, &taken) : FTL_OK;
    if (status) return status;
    pins_arguments a = {source, options ? &taken : NULL};
    return compile_guarded(context, check_pins, &a);
}
