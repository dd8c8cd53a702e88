#include "compile/context.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ftl_status_name(ftl_status status) {
    switch (status) {
#define FTL_STATUS(name, value, sentence)                                                          \
    case FTL_##name: return #name;
        FTL_STATUS_LIST(FTL_STATUS)
#undef FTL_STATUS
    }
    return "UNKNOWN";
}

const char *ftl_status_text(ftl_status status) {
    switch (status) {
#define FTL_STATUS(name, value, sentence)                                                          \
    case FTL_##name: return sentence;
        FTL_STATUS_LIST(FTL_STATUS)
#undef FTL_STATUS
    }
    return "an unknown status";
}

const char *ftl_version(void) {
    return FLASHTL_VERSION;
}

ftl_status ftl_context_new(ftl_context **out) {
    if (!out) return FTL_INVALID_ARGUMENT;
    *out = calloc(1, sizeof **out);
    if (!*out) return FTL_NO_MEMORY;
    arena_init(&(*out)->memory, CONTEXT_ARENA_BYTES);
    diag_init(&(*out)->diags, &(*out)->memory, STR(""), STR(""));
    return FTL_OK;
}

void ftl_context_free(ftl_context *context) {
    if (!context) return;
    arena_done(&context->memory);
    free(context);
}

void context_begin(ftl_context *context) {
    arena_done(&context->memory);
    arena_init(&context->memory, CONTEXT_ARENA_BYTES);
    diag_init(&context->diags, &context->memory, STR(""), STR(""));
    context->error[0] = 0;
}

const char *ftl_context_error(const ftl_context *context) {
    return context ? context->error : "";
}

const char *ftl_context_take_warning(ftl_context *context) {
    if (!context) return "";
    memcpy(context->taken_warning, context->warning, sizeof context->warning);
    context->warning[0] = 0;
    return context->taken_warning;
}

char *ftl_context_diagnostics(const ftl_context *context, ftl_diagnostics_form form) {
    text_buffer text;
    if (!context) return calloc(1, 1);
    text_init(&text, 16 << 20);
    if (form == FTL_DIAGNOSTICS_JSON) diag_render_json(&context->diags, &text);
    else diag_render_text(&context->diags, form == FTL_DIAGNOSTICS_COLOUR, &text);
    return text.data ? text.data : calloc(1, 1);
}

int32_t ftl_context_error_count(const ftl_context *context) {
    return context ? context->diags.error_count : 0;
}

int32_t ftl_context_warning_count(const ftl_context *context) {
    return context ? context->diags.warning_count : 0;
}

ftl_status ftl_context_fail(ftl_context *context, ftl_status status, const char *format, ...) {
    if (!context) return status;
    /* Those of an earlier call would be taken for this one's. */
    if (!context->is_compiling && status != FTL_REJECTED && status != FTL_OK)
        diag_init(&context->diags, &context->memory, STR(""), STR(""));
    va_list arguments;
    va_start(arguments, format);
    number_print_list(context->error, sizeof context->error, format, arguments);
    va_end(arguments);
    return status;
}

void ftl_context_warn(ftl_context *context, const char *format, ...) {
    if (!context) return;
    va_list arguments;
    va_start(arguments, format);
    number_print_list(context->warning, sizeof context->warning, format, arguments);
    va_end(arguments);
}

void ftl_free(void *text) {
    free(text);
}
