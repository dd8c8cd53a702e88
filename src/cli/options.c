#include "cli/options.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const cli_command cli_commands[CLI_COMMAND_COUNT] = {
#define COMMAND(id, name, arguments, summary, description, examples)                               \
    {name, arguments, summary, description, examples},
#include "cli/commands.def"
#undef COMMAND
};

/* Sets of commands for options.def. */
#define ON(id) (UINT64_C(1) << CLI_##id)
#define ALL_COMMANDS ((UINT64_C(1) << CLI_COMMAND_COUNT) - 1)
#define REASON_COMMANDS                                                                            \
    (ON(REASON) | ON(EXPLAIN) | ON(VIEW) | ON(BUILD) | ON(VERIFY) | ON(RUN) | ON(THINK))
#define MODEL_COMMANDS (ON(SKETCH) | ON(REASON) | ON(TRANSLATE) | ON(THINK))
#define ASKING_COMMANDS (MODEL_COMMANDS | ON(EVALUATE))
#define OPERATOR_COMMANDS (ON(SKETCH) | ON(DERIVE) | REASON_COMMANDS | TIMED_COMMANDS)
#define TIMED_COMMANDS (ON(BENCH) | ON(TUNE))

const cli_option cli_option_list[] = {
#define OPTION(id, kind, name, value, commands, help)                                              \
    {CLI_##kind, name, value, help, commands, offsetof(cli_options, id)},
#include "cli/options.def"
#undef OPTION
};
const int cli_option_count = sizeof cli_option_list / sizeof *cli_option_list;

int cli_find_command(const char *name) {
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (strcmp(cli_commands[i].name, name) == 0) return i;
    }
    return -1;
}

const char *cli_nearest_commands(const char *name, char words[NEAREST_BYTES]) {
    nearest near = {.wanted = str_from(name)};
    for (int i = 0; i < CLI_COMMAND_COUNT; i++)
        nearest_offer(&near, str_from(cli_commands[i].name));
    return nearest_words(&near, "", words);
}

static const cli_option *find_option(int command, str name) {
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_option_list[i];
        if ((option->commands >> command & 1) && str_is(name, option->name)) return option;
    }
    return NULL;
}

const cli_option *cli_find_option(int command, const char *name) {
    return find_option(command, str_from(name));
}

static bool unknown_option(int command, str name, char why[512]) {
    enum { SHOWN = 100 };
    char words[NEAREST_BYTES];
    nearest near = {.wanted = name};
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_option_list[i];
        if (option->commands >> command & 1) nearest_offer(&near, str_from(option->name));
    }
    snprintf(why, 512, "'%s' has no option '--%.*s'%s", cli_commands[command].name,
             name.length < SHOWN ? (int)name.length : SHOWN, name.data,
             nearest_words(&near, "--", words));
    return false;
}

static bool add_item(const cli_option *option, cli_list *list, const char *text, char why[512]) {
    if (list->count == CLI_LIST_MAX) {
        snprintf(why, 512, "'--%s' takes at most %d values", option->name, CLI_LIST_MAX);
        return false;
    }
    if (!*text) {
        snprintf(why, 512, "'--%s' has an empty value; expected %s", option->name, option->value);
        return false;
    }
    list->items[list->count++] = text;
    return true;
}

/* Commas separate items of a list; each item is ended by a NUL in place of its comma. */
static bool add_items(const cli_option *option, cli_list *list, char *text, char why[512]) {
    for (char *item = text; item;) {
        char *comma = strchr(item, ',');
        if (comma) *comma = 0;
        if (!add_item(option, list, item, why)) return false;
        item = comma ? comma + 1 : NULL;
    }
    return true;
}

/* The values of an option whose table lists them ("f16|bf16|f32"), one after the other, from NULL
 * on; NULL after the last, and for all other options.
 */
static const char *next_choice(const cli_option *option, const char *before, size_t *length) {
    static const char choice_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const char *all = option->value;
    if (!*all || strspn(all, "abcdefghijklmnopqrstuvwxyz0123456789|") != strlen(all)) return NULL;
    const char *at = before ? before + strspn(before, choice_letters) : all;
    if (before && !*at++) return NULL;
    *length = strspn(at, choice_letters);
    return at;
}

/* Where the option's table lists the values that it takes, it takes no other. */
static bool is_choice(const cli_option *option, const char *value, char why[512]) {
    size_t length, used = 0;
    char words[256] = "";
    const char *at = next_choice(option, NULL, &length);
    if (!at) return true;
    for (; at; at = next_choice(option, at, &length)) {
        bool is_it = strlen(value) == length && memcmp(at, value, length) == 0;
        if (is_it) return true;
        bool is_last = !at[length];
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%.*s",
                                 !used     ? ""
                                 : is_last ? " or "
                                           : ", ",
                                 (int)length, at);
    }
    snprintf(why, 512, "'--%s' is %s; found '%.100s'", option->name, words, value);
    return false;
}

static bool set_option(const cli_option *option, char *value, cli_options *out, char why[512]) {
    void *field = (char *)out + option->slot;
    if (option->kind == CLI_FLAG) *(bool *)field = true;
    if (option->kind == CLI_TEXT) {
        *(const char **)field = value;
        return is_choice(option, value, why);
    }
    if (option->kind == CLI_EACH) return add_item(option, field, value, why);
    return option->kind != CLI_LIST || add_items(option, field, value, why);
}

/* Reads the option in argv[*at]; *at moves to its last word. */
static bool parse_option(int command, int argc, char **argv, int *at, cli_options *out,
                         char why[512]) {
    char *word = argv[*at];
    char *equals = strchr(word, '=');
    str name = strcmp(word, "-o") == 0   ? STR("output")
               : strcmp(word, "-h") == 0 ? STR("help")
               : word[1] != '-'          ? (str){word + 1, strlen(word + 1)}
               : equals                  ? (str){word + 2, (size_t)(equals - word) - 2}
                                         : str_from(word + 2);
    const cli_option *option = find_option(command, name);
    if (!option || (word[1] != '-' && word[2])) return unknown_option(command, name, why);
    char *value = equals && word[1] == '-' ? equals + 1 : NULL;
    if (option->kind == CLI_FLAG && value) {
        snprintf(why, 512, "'--%s' takes no value", option->name);
        return false;
    }
    if (option->kind != CLI_FLAG && !value) {
        if (*at + 1 == argc) {
            snprintf(why, 512, "'--%s' needs a value: %s", option->name, option->value);
            return false;
        }
        value = argv[++*at];
    }
    if (value && !*value) {
        snprintf(why, 512, "'--%s' has an empty value; expected %s", option->name, option->value);
        return false;
    }
    return set_option(option, value, out, why);
}

bool cli_parse(int command, int argc, char **argv, cli_options *out, char why[512]) {
    bool options_ended = false;
    for (int at = 2; at < argc; at++) {
        const char *word = argv[at];
        bool is_option = !options_ended && word[0] == '-' && word[1];
        if (is_option && strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (is_option) {
            if (!parse_option(command, argc, argv, &at, out, why)) return false;
        } else if (out->file_count == CLI_FILES_MAX) {
            snprintf(why, 512, "at most %d files are taken", CLI_FILES_MAX);
            return false;
        } else {
            out->files[out->file_count++] = word;
        }
    }
    return true;
}

static bool is_given(const cli_option *option, const cli_options *options) {
    const void *field = (const char *)options + option->slot;
    switch (option->kind) {
    case CLI_FLAG: return *(const bool *)field;
    case CLI_TEXT: return *(const char *const *)field != NULL;
    case CLI_LIST:
    case CLI_EACH: return ((const cli_list *)field)->count > 0;
    }
    return false;
}

const char *cli_model_option(const cli_options *options) {
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_option_list[i];
        bool is_for_models = (option->commands & ~(ON(VERIFY) | ON(EVALUATE))) == MODEL_COMMANDS;
        if (is_for_models && is_given(option, options)) return option->name;
    }
    return NULL;
}
