#include "compile/compile.h"
#include "base/needs.h"
#include "plan/plan.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

ftl_status compile_hand_over(ftl_context *context, text_buffer *text, char **out) {
    if (text->failed) {
        text_done(text);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    text_add_z(text, ""); /* so that there is a text, also when it is empty */
    *out = text->data ? text->data : calloc(1, 1);
    return *out ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
}

ftl_status compile_guarded(ftl_context *context, compile_work *work, void *arguments) {
    jmp_buf exhausted;
    context_begin(context);
    context->is_compiling = true;
    if (setjmp(exhausted)) {
        context->memory.on_exhausted = NULL;
        context->is_compiling = false;
        if (!context->memory.is_over_limit)
            return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
        return ftl_context_fail(context, FTL_NO_MEMORY, "the program needs more than %zu MiB",
                                context->memory.limit_bytes >> 20);
    }
    context->memory.on_exhausted = &exhausted;
    ftl_status status = work(context, arguments);
    context->memory.on_exhausted = NULL;
    context->is_compiling = false;
    return status;
}

ftl_status compile_to_text(ftl_context *context, compile_work *work, void *arguments,
                           text_buffer *text, char **out) {
    ftl_status status = compile_guarded(context, work, arguments);
    if (!status) return compile_hand_over(context, text, out);
    text_done(text);
    return status;
}

ftl_status compile_verdict(ftl_context *context) {
    if (!diag_has_errors(&context->diags)) return FTL_OK;
    return ftl_context_fail(context, FTL_REJECTED, "%s", ftl_status_text(FTL_REJECTED));
}

tl_program *compile_read(ftl_context *context, const ftl_source *source) {
    arena *memory = &context->memory;
    str name = str_copy(memory, str_from(source->name ? source->name : "<text>"));
    str text = str_copy(memory, (str){source->text, source->text ? source->length : 0});
    diag_init(&context->diags, memory, name, text);
    return tl_parse(memory, name, text, &context->diags);
}

ftl_status compile_take_options(ftl_context *context, const ftl_options *options,
                                ftl_options *out) {
    enum { FIRST_BYTES = offsetof(ftl_options, measured) + sizeof(const char *), MOST = 4096 };
    *out = (ftl_options)FTL_OPTIONS_INIT;
    NEEDS(options);
    size_t given = options->struct_bytes, known = given < sizeof *out ? given : sizeof *out;
    if (given < FIRST_BYTES || given > MOST) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the options were not begun with FTL_OPTIONS_INIT");
    }
    for (size_t i = known; i < given; i++) {
        if (!((const char *)options)[i]) continue;
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the options have fields that version %s of the library lacks",
                                ftl_version());
    }
    memcpy(out, options, known);
    out->struct_bytes = sizeof *out;
    if (out->entry && !plan_is_identifier(out->entry)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the symbol '%.100s' is no identifier of C", out->entry);
    }
    if (!out->dtype || ftl_type_bytes(out->dtype)) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "there is no type of the number %d",
                            (int)out->dtype);
}

bool compile_is_list(const char *const *items, int32_t count) {
    if (count < 0 || (count > 0 && !items)) return false;
    for (int32_t i = 0; i < count; i++)
        if (!items[i]) return false;
    return true;
}

bool compile_is_pin_list(const ftl_pin *items, int32_t count) {
    if (count < 0 || (count > 0 && !items)) return false;
    for (int32_t i = 0; i < count; i++)
        if (!items[i].name || !items[i].value) return false;
    return true;
}

tl_type compile_type(ftl_type type) {
    switch (type) {
#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    case FTL_##id:                                                                                 \
        return TL_##id;
#include "base/types.def"
#undef TYPE
    }
    return TL_OPEN;
}

/* --- texts ------------------------------------------------------------------------------------ */

typedef struct format_arguments {
    const ftl_source *source;
    text_buffer out;
} format_arguments;

static ftl_status format(ftl_context *context, void *arguments) {
    format_arguments *a = arguments;
    const tl_program *program = compile_read(context, a->source);
    ftl_status status = compile_verdict(context);
    if (!status) tl_print(program, &a->out);
    return status;
}

ftl_status ftl_format(ftl_context *context, const ftl_source *source, char **out) {
    NEEDS_RESULT(out);
    NEEDS(source);
    format_arguments a = {.source = source};
    text_init(&a.out, 16 << 20);
    return compile_to_text(context, format, &a, &a.out, out);
}

ftl_status ftl_grammar(ftl_context *context, ftl_grammar_form form, char **out) {
    NEEDS_RESULT(out);
    context_begin(context);
    text_buffer text;
    text_init(&text, 1 << 20);
    switch (form) {
    case FTL_EBNF: tl_grammar_print(TL_GRAMMAR_EBNF, &text); break;
    case FTL_GBNF: tl_grammar_print(TL_GRAMMAR_GBNF, &text); break;
    case FTL_LARK: tl_grammar_print(TL_GRAMMAR_LARK, &text); break;
    default: return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "no such form of a grammar");
    }
    return compile_hand_over(context, &text, out);
}
