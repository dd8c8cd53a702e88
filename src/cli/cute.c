#include "cli/cute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PYTHON_S = 20;

int cute_form(const cli *c, ftl_text_form *form) {
    const char *to = c->options.to;
    *form = FTL_PLAIN_CUDA;
    if (!to || strcmp(to, "cuda") == 0) return EXIT_DONE;
    *form = FTL_CUTE;
    if (strcmp(to, "cute") == 0) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--to' is cuda or cute; found '%s'", to);
}

/* "ROOT/include", or ROOT itself, when CuTe is there. */
static bool is_there(const char *root, char folder[CUTE_PATH_BYTES]) {
    static const char *const below[] = {"/include", ""};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        char file[CUTE_PATH_BYTES + 32];
        int64_t bytes, modified_s;
        int length = snprintf(folder, CUTE_PATH_BYTES, "%s%s", root, below[i]);
        if (length < 0 || length >= CUTE_PATH_BYTES) continue;
        snprintf(file, sizeof file, "%s/cute/layout.hpp", folder);
        if (os_file_info(file, &bytes, &modified_s)) return true;
    }
    return false;
}

/* The package keeps CUTLASS beside its Python files. It is found without running any of them. */
static bool is_in_package(char folder[CUTE_PATH_BYTES]) {
    const char *const argv[] = {"python3", "-c",
                                "import importlib.util as u, os\n"
                                "s = u.find_spec('cutlass_library')\n"
                                "print(os.path.join(os.path.dirname(s.origin), 'source'))",
                                NULL};
    text_buffer out, errors;
    os_error why;
    int code = 0;
    text_init(&out, CUTE_PATH_BYTES);
    text_init(&errors, 1 << 20);
    bool has_run = os_run(argv, STR(""), PYTHON_S, &out, &errors, &code, &why) && code == 0;
    char root[CUTE_PATH_BYTES];
    snprintf(root, sizeof root, "%.*s", STR_ARGS(str_trim(text_str(&out))));
    text_done(&out);
    text_done(&errors);
    return has_run && is_there(root, folder);
}

int cute_headers(char folder[CUTE_PATH_BYTES]) {
    const char *path = getenv("CUTLASS_PATH");
    bool is_named = path && *path;
    if (is_named && is_there(path, folder)) return EXIT_DONE;
    if (is_named) {
        return cli_say(EXIT_ENVIRONMENT, "CUTLASS_PATH is '%s', and no CuTe is there: %s/include",
                       path, path);
    }
    if (is_in_package(folder)) return EXIT_DONE;
    return cli_say(EXIT_ENVIRONMENT,
                   "CuTe by a model is compiled with CUTLASS's headers: set CUTLASS_PATH, or 'pip "
                   "install nvidia-cutlass' for python3");
}
