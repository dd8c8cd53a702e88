/* flashtl mcp: the commands as tools for other programs' models. */
#include "mcp/mcp.h"
#include "base/embedded.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOURCES_MAX = 64, NAME_BYTES = 128 };

static const double CALL_TIMEOUT_S = 600;

typedef struct offers {
    cli *c;
    mcp_resource items[RESOURCES_MAX];
    char uris[RESOURCES_MAX][NAME_BYTES], names[RESOURCES_MAX][NAME_BYTES];
    int count;
} offers;

static void offer(offers *o, const char *kind, const char *name, const char *description,
                  const char *mime_type) {
    if (o->count == RESOURCES_MAX) return;
    int i = o->count++;
    snprintf(o->uris[i], NAME_BYTES, "flashtl://%s%s%s", kind, *name ? "/" : "", name);
    snprintf(o->names[i], NAME_BYTES, "%s%s%s", kind, *name ? " " : "", name);
    o->items[i] = (mcp_resource){o->uris[i], o->names[i], description, mime_type};
}

static void offer_all(offers *o) {
    ftl_gpu gpu = FTL_GPU_INIT;
    offer(o, "language", "", "the language TL: the reference, with examples", "text/markdown");
    offer(o, "grammar", "ebnf", "the grammar of what the printer writes", "text/plain");
    offer(o, "grammar", "gbnf", "the same for constrained decoding", "text/plain");
    offer(o, "operators", "", "the shipped sketches and their options", "text/plain");
    for (int32_t i = 0; ftl_gpu_at(o->c->context, i, &gpu) == FTL_OK; i++) {
        offer(o, "gpus", gpu.name, "what the compiler knows of this GPU", "text/plain");
    }
}

static bool is_under(const char *uri, const char *folder, const char **name) {
    size_t length = strlen(folder);
    if (strncmp(uri, folder, length) != 0) return false;
    *name = uri + length;
    return true;
}

static bool read_offer(void *user, const char *uri, text_buffer *out) {
    const offers *o = user;
    ftl_context *context = o->c->context;
    const char *name = "";
    char *text = NULL;
    ftl_status status = FTL_NOT_FOUND;
    if (is_under(uri, "flashtl://language", &name)) {
        text_add_z(out, embedded_documents[0].data);
        return true;
    }
    if (is_under(uri, "flashtl://grammar/", &name)) {
        status = ftl_grammar(context, strcmp(name, "gbnf") ? FTL_EBNF : FTL_GBNF, &text);
    } else if (is_under(uri, "flashtl://operators", &name)) status = ftl_operators(context, &text);
    else if (is_under(uri, "flashtl://gpus/", &name)) status = ftl_gpu_text(context, name, &text);
    if (!status) text_add_z(out, text);
    ftl_free(text);
    return status == FTL_OK;
}

static bool find_option(void *user, const char *command, const char *name, mcp_option *out) {
    (void)user;
    int found = cli_find_command(command);
    const cli_option *option = found < 0 ? NULL : cli_find_option(found, name);
    if (!option || option->kind == CLI_FLAG) return false;
    *out = (mcp_option){option->value, option->help};
    return true;
}

int cli_run_MCP(cli *c) {
    char program[512];
    os_error why;
    if (c->options.file_count) return cli_say(EXIT_USAGE, "'mcp' takes no file");
    if (!os_own_path(program))
        return cli_say(EXIT_ENVIRONMENT, "cannot find the path of this program");
    static offers o;
    o.c = c;
    offer_all(&o);
    mcp_options options = {.program = program,
                           .version = ftl_version(),
                           .timeout_s = CALL_TIMEOUT_S,
                           .resources = o.items,
                           .resource_count = o.count,
                           .find_option = find_option,
                           .read = read_offer,
                           .user = &o};
    if (os_is_terminal(0)) {
        cli_say(0, "waiting for JSON-RPC on standard input; a client starts this command itself");
    }
    return mcp_serve(&options, &why) ? EXIT_DONE : cli_say(EXIT_ENVIRONMENT, "%s", why.text);
}
