/* The shipped sketches: sketches/NAME.tl, families by option (tl/variant.h). A new operator is a
 * file, a new option a few lines of it; nothing here knows their names.
 */
#include "base/embedded.h"
#include "base/nearest.h"
#include "base/needs.h"
#include "compile/compile.h"
#include "tl/variant.h"

#include <stdio.h>
#include <string.h>

enum { SETTINGS_MAX = 64 };

typedef struct sketch_arguments {
    const char *operator_name;
    const char *const *settings;
    int32_t setting_count;
    text_buffer out;
} sketch_arguments;

typedef struct family {
    const embedded_file *file;
    tl_variant_option *options;
    int option_count;
} family;

static family open_family(ftl_context *context, const embedded_file *file) {
    family f = {.file = file};
    str text = {file->data, file->length};
    f.option_count = tl_variant_options(&context->memory, text, &f.options);
    return f;
}

/* The family that has an operator: its file's name, or one of its "op" options (then *choice). */
static bool find_family(ftl_context *context, str name, family *out, str *choice) {
    for (const embedded_file *file = embedded_sketches; file->name; file++) {
        *out = open_family(context, file);
        *choice = STR("");
        if (str_is(name, file->name)) return true;
        for (int i = 0; i < out->option_count; i++) {
            const tl_variant_option *option = &out->options[i];
            if (!option->is_operator || !str_equal(option->name, name)) continue;
            *choice = name;
            return true;
        }
    }
    return false;
}

static ftl_status no_operator(ftl_context *context, str name) {
    char words[NEAREST_BYTES];
    nearest near = {.wanted = name};
    for (const embedded_file *file = embedded_sketches; file->name; file++) {
        family f = open_family(context, file);
        nearest_offer(&near, str_from(file->name));
        for (int i = 0; i < f.option_count; i++)
            if (f.options[i].is_operator) nearest_offer(&near, f.options[i].name);
    }
    return ftl_context_fail(context, FTL_NOT_FOUND, "no operator is called '%.*s'%s",
                            STR_ARGS(name), nearest_words(&near, "", words));
}

static ftl_status choose(ftl_context *context, const family *f, str setting,
                         tl_variant_choice *choice) {
    bool has_value = setting.length && memchr(setting.data, '=', setting.length);
    choice->name = str_cut(&setting, '=');
    choice->value = setting;
    double number;
    int64_t whole;
    bool is_positive =
        !has_value || (str_to_number(setting, &number) && number > 0 && number <= INT32_MAX);
    bool is_whole = !has_value || str_to_integer(setting, &whole);
    char words[NEAREST_BYTES];
    nearest near = {.wanted = choice->name};
    for (int i = 0; i < f->option_count; i++) {
        if (str_equal(f->options[i].name, choice->name)) {
            bool is_count = str_is(f->options[i].value, "N"); /* as the file's help calls it */
            if (is_positive && (is_whole || !is_count)) return FTL_OK;
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "the option '%.*s' needs a positive %snumber, not '%.*s'",
                                    STR_ARGS(choice->name), is_count ? "whole " : "",
                                    STR_ARGS(setting));
        }
        nearest_offer(&near, f->options[i].name);
    }
    return ftl_context_fail(context, FTL_NOT_FOUND, "operator '%s' has no option '%.*s'%s",
                            f->file->name, STR_ARGS(choice->name), nearest_words(&near, "", words));
}

static ftl_status write_sketch(ftl_context *context, void *arguments) {
    sketch_arguments *a = arguments;
    family f;
    str operator_choice, selected, why;
    str name = str_from(a->operator_name);
    if (!find_family(context, name, &f, &operator_choice)) return no_operator(context, name);
    tl_variant_choice choices[SETTINGS_MAX + 1];
    int count = 0;
    if (operator_choice.length) choices[count++] = (tl_variant_choice){.name = operator_choice};
    for (int32_t i = 0; i < a->setting_count && count < SETTINGS_MAX; i++) {
        ftl_status status = choose(context, &f, str_from(a->settings[i]), &choices[count++]);
        if (status) return status;
    }
    str text = {f.file->data, f.file->length};
    if (!tl_variant_select(&context->memory, text, choices, count, &selected, &why)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%.*s", STR_ARGS(why));
    }
    text_add(&a->out, selected);
    if (!str_ends(selected, STR("\n"))) text_add_z(&a->out, "\n");
    return FTL_OK;
}

ftl_status ftl_sketch(ftl_context *context, const char *operator_name, const char *const *settings,
                      int32_t setting_count, char **out) {
    NEEDS_RESULT(out);
    NEEDS(operator_name);
    if (!compile_is_list(settings, setting_count)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the list of settings is null, or an entry");
    }
    sketch_arguments a = {operator_name, settings, setting_count, {0}};
    text_init(&a.out, TL_SOURCE_BYTES_MAX);
    return compile_to_text(context, write_sketch, &a, &a.out, out);
}

typedef struct family_arguments {
    const char *operator_name;
    char *family;
} family_arguments;

static ftl_status name_family(ftl_context *context, void *arguments) {
    const family_arguments *a = arguments;
    family f;
    str choice, name = str_from(a->operator_name);
    if (!find_family(context, name, &f, &choice)) return no_operator(context, name);
    snprintf(a->family, 64, "%s", f.file->name);
    return FTL_OK;
}

ftl_status ftl_operator_family(ftl_context *context, const char *operator_name, char out[64]) {
    NEEDS(context);
    NEEDS(operator_name);
    NEEDS(out);
    family_arguments a = {operator_name, out};
    out[0] = 0;
    return compile_guarded(context, name_family, &a);
}

/* The first comment line that is no mark says what the operator is. */
static str about(const embedded_file *file) {
    str rest = {file->data, file->length};
    while (rest.length) {
        str line = str_trim(str_cut(&rest, '\n'));
        if (str_starts(line, STR("//")) && !str_starts(line, STR("//?"))) {
            return str_trim((str){line.data + 2, line.length - 2});
        }
    }
    return STR("");
}

static ftl_status list_operators(ftl_context *context, void *arguments) {
    sketch_arguments *a = arguments;
    for (const embedded_file *file = embedded_sketches; file->name; file++) {
        family f = open_family(context, file);
        text_format(&a->out, "%-16s %.*s\n", file->name, STR_ARGS(about(file)));
        for (int i = 0; i < f.option_count; i++) {
            const tl_variant_option *option = &f.options[i];
            str left = str_format(&context->memory, "%s%.*s %.*s", option->is_operator ? "" : "--",
                                  STR_ARGS(option->name), STR_ARGS(option->value));
            text_format(&a->out, "    %-12.*s %.*s\n", STR_ARGS(left), STR_ARGS(option->doc));
        }
    }
    return FTL_OK;
}

ftl_status ftl_operators(ftl_context *context, char **out) {
    NEEDS_RESULT(out);
    sketch_arguments a = {0};
    text_init(&a.out, TL_SOURCE_BYTES_MAX);
    return compile_to_text(context, list_operators, &a, &a.out, out);
}
