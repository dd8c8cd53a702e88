/* Tools: what is offered, and how a call becomes a command line. */
#include "mcp/internal.h"

#include <stdio.h>
#include <string.h>

enum { ARGUMENT_BYTES_MAX = 1 << 20, CALL_BYTES_MAX = 4 << 20, LIST_ITEMS_MAX = 32 };

static const mcp_tool all_tools[MCP_TOOL_COUNT] = {
#define TOOL(name, command, title, description) {#name, command, title, description},
#include "mcp/tools.def"
};

enum {
#define TOOL(name, command, title, description) TOOL_##name,
#include "mcp/tools.def"
};

static const mcp_property all_properties[MCP_PROPERTY_COUNT] = {
#define PROPERTY(tool, name, kind, is_required, option, description)                               \
    {TOOL_##tool, #name, MCP_##kind, is_required, option, description},
#include "mcp/tools.def"
};

/* --- options of commands ---------------------------------------------------------------------- */

enum { OPTION_BYTES = 64 };

/* A property whose words are in the command's own table, and any other as it is. 'words' holds
 * what the result points to.
 */
typedef struct option_words {
    char option[OPTION_BYTES], description[512];
} option_words;

static bool resolve(const mcp_options *options, const mcp_property *p, option_words *words,
                    mcp_property *out) {
    *out = *p;
    if (p->option) return true;
    char command[OPTION_BYTES];
    mcp_option found;
    snprintf(command, sizeof command, "%s", all_tools[p->tool].command);
    command[strcspn(command, " ")] = 0;
    snprintf(words->option, sizeof words->option, "--%s", p->name);
    for (char *c = words->option; *c; c++) {
        if (*c == '_') *c = '-';
    }
    if (!options->find_option(options->user, command, words->option + 2, &found)) return false;
    snprintf(words->description, sizeof words->description, "%s: %s", found.value, found.help);
    out->option = words->option;
    out->description = words->description;
    return true;
}

/* --- what is offered -------------------------------------------------------------------------- */

static bool is_number(const mcp_property *p) {
    return p->kind == MCP_NUMBER || p->kind == MCP_OFFSET || p->kind == MCP_LIMIT;
}

static int least_of(const mcp_property *p) {
    return p->kind == MCP_LIMIT ? 1 : 0;
}

static json_t *schema_of(const mcp_property *p) {
    bool is_list = p->kind == MCP_LIST;
    json_t *schema = json_pack("{s:s, s:s}", "type",
                               is_list        ? "array"
                               : is_number(p) ? "integer"
                                              : "string",
                               "description", p->description);
    if (is_list) {
        json_object_set_new(schema, "items", json_pack("{s:s}", "type", "string"));
        json_object_set_new(schema, "maxItems", json_integer(LIST_ITEMS_MAX));
    }
    if (is_number(p)) json_object_set_new(schema, "minimum", json_integer(least_of(p)));
    return schema;
}

json_t *mcp_list_tools(const mcp_options *options) {
    json_t *list = json_array();
    for (int t = 0; t < MCP_TOOL_COUNT; t++) {
        json_t *properties = json_object(), *required = json_array();
        for (int i = 0; i < MCP_PROPERTY_COUNT; i++) {
            const mcp_property *p = &all_properties[i];
            if (p->tool != t) continue;
            option_words words;
            mcp_property resolved;
            if (!resolve(options, p, &words, &resolved)) continue;
            json_object_set_new(properties, p->name, schema_of(&resolved));
            if (p->is_required) json_array_append_new(required, json_string(p->name));
        }
        json_t *schema = json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties",
                                   properties, "required", required, "additionalProperties", 0);
        json_t *hints = json_pack("{s:b, s:b}", "readOnlyHint", 1, "openWorldHint", 0);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name",
                                              all_tools[t].name, "title", all_tools[t].title,
                                              "description", all_tools[t].description,
                                              "inputSchema", schema, "annotations", hints));
    }
    return list;
}

/* --- a call ----------------------------------------------------------------------------------- */

static bool add(mcp_call *call, const char *argument) {
    if (call->argument_count == MCP_ARGUMENTS_MAX) return false;
    call->argv[call->argument_count++] = argument;
    return true;
}

/* OPTION=VALUE in one word, so that no value can be taken for an option. */
static bool add_option(mcp_call *call, const char *option, const char *value) {
    if (!*option) return add(call, value);
    str word = str_format(&call->memory, "%s=%s", option, value);
    return add(call, str_copy_z(&call->memory, word));
}

static bool add_file(mcp_call *call, const mcp_property *p, const char *text, char why[512]) {
    os_error problem;
    if (!*call->folder && !os_temporary_folder(call->folder, &problem)) {
        snprintf(why, 512, "%s", problem.text);
        return false;
    }
    str path = str_format(&call->memory, "%s/%s.%s", call->folder, p->name, p->option);
    const char *file = str_copy_z(&call->memory, path);
    if (!os_write_file(file, str_from(text), &problem)) {
        snprintf(why, 512, "%s", problem.text);
        return false;
    }
    bool is_kernel = strcmp(p->option, "cu") == 0;
    char option[64];
    snprintf(option, sizeof option, "--%s", p->name);
    return is_kernel ? add(call, file) : add_option(call, option, file);
}

static bool wrong(const mcp_property *p, const char *wanted, char why[512]) {
    snprintf(why, 512, "the argument '%s' must be %s", p->name, wanted);
    return false;
}

static bool add_list(mcp_call *call, const mcp_property *p, const json_t *value, char why[512]) {
    size_t count = json_array_size(value);
    bool is_list = json_is_array(value) && count <= LIST_ITEMS_MAX;
    for (size_t i = 0; is_list && i < count; i++) {
        const char *item = json_string_value(json_array_get(value, i));
        is_list = item && add_option(call, p->option, item);
    }
    return is_list || wrong(p, "a list of at most 32 strings", why);
}

static bool add_number(mcp_call *call, const mcp_property *p, const json_t *value, char why[512]) {
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least_of(p))
        return wrong(p, least_of(p) ? "a number from 1" : "a number from 0", why);
    if (p->kind == MCP_OFFSET) call->offset = number;
    else if (p->kind == MCP_LIMIT) call->limit = number;
    else {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)number);
        return add_option(call, p->option, text);
    }
    return true;
}

/* Commands take files where names are wanted ('--gpu ./mine.gpu'); a client's model is not to read
 * this machine's.
 */
static bool is_word(const mcp_property *p, const char *text) {
    if (strpbrk(text, "/\\\n") || *text == '.' || str_ends(str_from(text), STR(".gpu")))
        return false;
    return p->kind != MCP_NAME || !os_file_exists(text);
}

static bool add_argument(mcp_call *call, const mcp_property *p, const json_t *value,
                         char why[512]) {
    const char *text = json_string_value(value);
    if (p->kind == MCP_LIST) return add_list(call, p, value, why);
    if (is_number(p)) return add_number(call, p, value, why);
    if (!text) return wrong(p, "a string", why);
    if (json_string_length(value) > ARGUMENT_BYTES_MAX || strlen(text) != json_string_length(value))
        return wrong(p, "text of at most a megabyte without NUL", why);
    if (p->kind == MCP_PROGRAM) {
        call->input = str_from(text);
        return true;
    }
    if (p->kind == MCP_FILE_OF) return add_file(call, p, text, why);
    bool is_option = !*p->option && *text == '-';
    if (is_option || !is_word(p, text)) return wrong(p, "a name; files are not read", why);
    return add_option(call, p->option, text);
}

const mcp_tool *mcp_find_tool(const char *name) {
    for (int t = 0; t < MCP_TOOL_COUNT; t++) {
        if (strcmp(all_tools[t].name, name) == 0) return &all_tools[t];
    }
    return NULL;
}

/* Arguments that the tool does not take. */
static bool knows_all(const mcp_tool *tool, const json_t *arguments, char why[512]) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) {
        bool is_known = false;
        for (int i = 0; i < MCP_PROPERTY_COUNT; i++) {
            const mcp_property *p = &all_properties[i];
            is_known |= &all_tools[p->tool] == tool && strcmp(p->name, name) == 0;
        }
        if (is_known) continue;
        snprintf(why, 512, "the tool '%s' takes no argument '%.100s'", tool->name, name);
        return false;
    }
    return true;
}

static bool prepare(mcp_call *call, const mcp_options *options, const json_t *arguments,
                    char why[512]) {
    add(call, options->program);
    str command = str_copy(&call->memory, str_from(call->tool->command));
    while (command.length) add(call, str_copy_z(&call->memory, str_cut(&command, ' ')));
    /* Each command says its findings as data, but those whose output is a text alone. */
    if (strcmp(call->tool->name, "sketch") != 0) add(call, "--json");
    if (!knows_all(call->tool, arguments, why)) return false;
    for (int i = 0; i < MCP_PROPERTY_COUNT; i++) {
        const mcp_property *p = &all_properties[i];
        if (&all_tools[p->tool] != call->tool) continue;
        call->is_paged |= p->kind == MCP_OFFSET;
        const json_t *value = json_object_get(arguments, p->name);
        if (json_is_null(value)) value = NULL;
        if (!value && p->is_required) {
            snprintf(why, 512, "the tool '%s' needs the argument '%s'", call->tool->name, p->name);
            return false;
        }
        option_words words;
        mcp_property resolved;
        bool is_there = value && resolve(options, p, &words, &resolved);
        if (is_there && !add_argument(call, &resolved, value, why)) return false;
    }
    if (call->input.data) add(call, "-");
    call->argv[call->argument_count] = NULL;
    return true;
}

bool mcp_call_prepare(mcp_call *call, const mcp_options *options, const mcp_tool *tool,
                      const json_t *arguments, char why[512]) {
    jmp_buf exhausted;
    *call = (mcp_call){.tool = tool};
    arena_init(&call->memory, CALL_BYTES_MAX);
    if (setjmp(exhausted)) {
        snprintf(why, 512,
                 call->memory.is_over_limit
                     ? "the arguments of a call are at most %d bytes together"
                     : "out of memory",
                 CALL_BYTES_MAX);
        return false;
    }
    call->memory.on_exhausted = &exhausted;
    bool is_ready = prepare(call, options, arguments, why);
    call->memory.on_exhausted = NULL;
    return is_ready;
}

void mcp_call_done(mcp_call *call) {
    if (*call->folder) os_remove_folder(call->folder);
    arena_done(&call->memory);
}
