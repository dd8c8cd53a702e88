#include "compile/ask.h"
#include "compile/decide.h"

ftl_status ask_open(ftl_context *context, const ftl_options *o, bool wants_decisions, ask *r) {
    arena *memory = &context->memory;
    ftl_status status = compile_find_gpu(context, o->gpu, &r->target);
    if (status) return status;
    reason_pin *pins = arena_array(memory, reason_pin, o->pin_count);
    for (int i = 0; i < o->pin_count; i++) {
        pins[i] = (reason_pin){.name = str_copy(memory, str_from(o->pins[i].name)),
                               .value = str_copy(memory, str_from(o->pins[i].value))};
    }
    r->options = (reason_options){.dtype = compile_type(o->dtype),
                                  .pins = pins,
                                  .pin_count = o->pin_count,
                                  .stop_after = str_copy(memory, str_from(o->stop_after))};
    str text = o->measured ? str_from(o->measured) : measured_shipped(o->gpu, &r->target);
    if (!text.length && !wants_decisions) return FTL_OK;
    r->identity = measured_sketch(memory, r->sketch);
    str dtype = str_from(ftl_type_name(o->dtype ? o->dtype : FTL_F16));
    reason_pin *meant = arena_array(memory, reason_pin, o->pin_count);
    int meant_count = 0;
    for (int i = 0; i < o->pin_count; i++) {
        bool is_usual = str_is(pins[i].name, "d") || str_is(pins[i].name, "dv");
        bool is_nothing = is_usual && !decide_is_length(r->sketch, pins[i].name);
        if (!is_nothing) meant[meant_count++] = pins[i];
    }
    r->has_measured =
        measured_find(memory, text, r->identity, dtype, meant, meant_count, &r->measured);
    r->uses_measured = r->has_measured && !r->measured.blocked.length;
    if (o->measured && *o->measured && !r->has_measured) {
        ftl_context_warn(context,
                         "the measured decisions that were given have none for kernel '%.*s' in "
                         "%.*s at these lengths, so they change nothing",
                         STR_ARGS(r->sketch->first->name), STR_ARGS(dtype));
    }
    return FTL_OK;
}

/* Puts a decision in front of the others: where they come from. */
static void add_origin(ftl_context *context, const ask *r, reason_result *result,
                       const char *format, str what) {
    arena *memory = &context->memory;
    reason_decision *longer = arena_array(memory, reason_decision, result->decision_count + 1);
    for (int i = 0; i < result->decision_count; i++) longer[i + 1] = result->decisions[i];
    str sentence = str_format(memory, "%s%.*s", format, STR_ARGS(what));
    longer[0] = (reason_decision){.kernel = r->sketch->first->name,
                                  .pass = STR("tuning"),
                                  .subject = STR("measured"),
                                  .sentence = sentence};
    result->decisions = longer;
    result->decision_count++;
}

/* With the measured pins; false when they do not fit (the passes have changed since). */
static bool try_measured(ftl_context *context, const ask *r, reason_result *result) {
    arena *memory = &context->memory;
    int count = r->options.pin_count + r->measured.pin_count;
    reason_pin *pins = arena_array(memory, reason_pin, count);
    str names = STR("");
    for (int i = 0; i < r->options.pin_count; i++) pins[i] = r->options.pins[i];
    for (int i = 0; i < r->measured.pin_count; i++) {
        const reason_pin *pin = &r->measured.pins[i];
        pins[r->options.pin_count + i] = *pin;
        names = str_format(memory, "%.*s%s%.*s = %.*s", STR_ARGS(names), i ? ", " : "",
                           STR_ARGS(pin->name), STR_ARGS(pin->value));
    }
    reason_options options = r->options;
    options.pins = pins;
    options.pin_count = count;
    diag_list scratch;
    diag_init(&scratch, memory, r->sketch->source_name, r->sketch->source);
    *result = reason_program(r->sketch, &r->target, &options, memory, &scratch);
    if (!result->program) return false;
    str what = str_format(memory, "%.*s: %.*s", STR_ARGS(names), STR_ARGS(r->measured.how));
    add_origin(context, r, result, "", what);
    return true;
}

reason_result ask_reasoner(ftl_context *context, const ask *r) {
    reason_result result;
    if (r->uses_measured && try_measured(context, r, &result)) return result;
    result = reason_program(r->sketch, &r->target, &r->options, &context->memory, &context->diags);
    if (!result.program || !r->has_measured) return result;
    if (r->measured.blocked.length)
        add_origin(context, r, &result, "decisions on record are not used beside the pin ",
                   r->measured.blocked);
    else add_origin(context, r, &result, "decisions on record do not fit any more", STR(""));
    return result;
}
