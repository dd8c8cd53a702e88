/* A server of the Model Context Protocol over standard input and output: JSON-RPC 2.0, a message a
 * line. It offers this program's commands as tools (tools.def) and its texts as resources.
 *
 * Both forms of the protocol are spoken, as the client begins: the handshake (`initialize`,
 * revisions 2024-11-05 to 2025-11-25) and the form without one (revision 2026-07-28:
 * `server/discover`, and each request naming its revision in `_meta`).
 *
 * Every tool call is a child process that runs one of the commands, so a crash or a kernel that
 * hangs ends that call and nothing else, and cancelling it is killing it. One call runs at a time;
 * requests that come meanwhile wait, except for cancellations and pings.
 */
#ifndef FLASHTL_MCP_MCP_H
#define FLASHTL_MCP_MCP_H

#include "base/os.h"

/* A text to offer: by uri. 'make' fills in the content; false after saying why. */
typedef struct mcp_resource {
    const char *uri, *name, *description, *mime_type;
} mcp_resource;

/* An option of a command: what it takes ("N", "NAME=VALUE"), and what it means. */
typedef struct mcp_option {
    const char *value, *help;
} mcp_option;

typedef struct mcp_options {
    const char *program; /* path of the command whose runs the tools are */
    const char *version;
    double timeout_s; /* of a tool call */
    const mcp_resource *resources;
    int resource_count;
    /* An option of a command by its name, without dashes before it; false: it has none. */
    bool (*find_option)(void *user, const char *command, const char *name, mcp_option *out);
    bool (*read)(void *user, const char *uri, text_buffer *out); /* content of a resource */
    void *user;
} mcp_options;

/* Serves until standard input ends. False, with the reason, when it cannot go on (standard output
 * is closed, memory is short).
 */
bool mcp_serve(const mcp_options *options, os_error *why);

#endif
