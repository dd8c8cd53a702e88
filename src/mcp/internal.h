/* What the files of the server share. */
#ifndef FLASHTL_MCP_INTERNAL_H
#define FLASHTL_MCP_INTERNAL_H

#include "mcp/mcp.h"

#include <jansson.h>

/* Codes of JSON-RPC, and the protocol's own for a revision that is not spoken. */
enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_RESOURCE_NOT_FOUND = -32002,
    MCP_UNSUPPORTED_VERSION = -32022
};

typedef enum mcp_kind {
    MCP_TEXT,
    MCP_NAME,
    MCP_NUMBER,
    MCP_LIST,
    MCP_PROGRAM,
    MCP_FILE_OF,
    MCP_OFFSET,
    MCP_LIMIT
} mcp_kind;

typedef struct mcp_property {
    int tool;
    const char *name;
    mcp_kind kind;
    bool is_required;
    const char *option, *description; /* NULL: as the command's own table has them */
} mcp_property;

typedef struct mcp_tool {
    const char *name, *command, *title, *description;
} mcp_tool;

enum {
    MCP_TOOL_COUNT = 0
#define TOOL(name, command, title, description) +1
#include "mcp/tools.def"
    ,
    MCP_PROPERTY_COUNT = 0
#define PROPERTY(tool, name, kind, is_required, option, description) +1
#include "mcp/tools.def"
};

const mcp_tool *mcp_find_tool(const char *name); /* NULL: none */

/* `tools` of tools/list. */
json_t *mcp_list_tools(const mcp_options *options);

/* A call of a tool, made ready: an argument vector and what goes to standard input. */
enum { MCP_ARGUMENTS_MAX = 160 };
typedef struct mcp_call {
    const mcp_tool *tool;
    const char *argv[MCP_ARGUMENTS_MAX + 1];
    int argument_count;
    str input;
    arena memory;          /* of the arguments' texts */
    char folder[256];      /* with files of its own; "": none */
    bool is_paged;         /* what it prints is a text, given from line 'offset' on */
    int64_t offset, limit; /* 0: as many lines as fit */
} mcp_call;

/* Makes a call of a tool ready from its arguments; false with the reason, which the client's
 * model is to read. Free with mcp_call_done in both cases.
 */
bool mcp_call_prepare(mcp_call *call, const mcp_options *options, const mcp_tool *tool,
                      const json_t *arguments, char why[512]);
void mcp_call_done(mcp_call *call);
/* The result of a call that ended: what it printed, findings as data, short enough to be read. */
json_t *mcp_call_result(const mcp_call *call, str output, str errors, int exit_code);
/* A result that says why there is none. */
json_t *mcp_call_failure(const char *why);

#endif
