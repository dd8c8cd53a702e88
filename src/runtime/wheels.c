#define _XOPEN_SOURCE 700 /* realpath */
#include "runtime/wheels.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_BYTES = 1024, PATTERN_BYTES = 2 * PLACE_BYTES + 100 };

typedef struct found {
    char *path;
    size_t size;
    long version; /* of the best one in this place */
} found;

/* A folder's name as a pattern that matches only itself; false where there is no room. */
static bool quote(const char *name, char quoted[2 * PLACE_BYTES]) {
    if (strlen(name) >= PLACE_BYTES) return false;
    for (; *name; name++) {
        if (strchr("*?[]\\", *name)) *quoted++ = '\\';
        *quoted++ = *name;
    }
    *quoted = 0;
    return true;
}

static void keep_newest(const glob_t *files, found *f) {
    for (size_t i = 0; i < files->gl_pathc; i++) {
        const char *path = files->gl_pathv[i];
        long version = strtol(strrchr(path, '.') + 1, NULL, 10);
        if (version <= f->version || strlen(path) >= f->size) continue;
        snprintf(f->path, f->size, "%s", path);
        f->version = version;
    }
}

/* Where Python is installed at 'prefix': lib/python3.N/site-packages, Debian's also dist-packages.
 */
static bool search_prefix(const char *prefix, found *f) {
    static const char *const packages[] = {
        "lib*/python3*/site-packages", "lib*/python3*/dist-packages", "lib*/python3/dist-packages"};
    char quoted[2 * PLACE_BYTES], pattern[PATTERN_BYTES];
    if (prefix[0] != '/' || !quote(prefix, quoted)) return false;
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        glob_t files;
        snprintf(pattern, sizeof pattern, "%s/%s/nvidia/*/lib/libnvrtc.so.[0-9]*", quoted,
                 packages[i]);
        if (glob(pattern, 0, NULL, &files) == 0) keep_newest(&files, f);
        globfree(&files);
    }
    return f->version > 0;
}

/* What is in ROOT/shims is a script that starts one of several Pythons: pyenv's are below
 * ROOT/versions, those of asdf and mise below ROOT/installs/python. Which one it would start, a
 * file in any folder may say; a compiler is as good from each. */
static bool search_shims(const char *python, found *f) {
    static const char *const homes[] = {"versions/*", "installs/python/*"};
    static const char shim[] = "/shims/python3";
    size_t length = strlen(python);
    char root[PLACE_BYTES], quoted[2 * PLACE_BYTES], pattern[PATTERN_BYTES];
    if (length < sizeof shim || strcmp(python + length - (sizeof shim - 1), shim) != 0)
        return false;
    snprintf(root, sizeof root, "%.*s", (int)(length - (sizeof shim - 1)), python);
    if (!quote(root, quoted)) return false;
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        glob_t files;
        snprintf(pattern, sizeof pattern, "%s/%s", quoted, homes[i]);
        if (glob(pattern, 0, NULL, &files) == 0) {
            for (size_t k = 0; k < files.gl_pathc; k++) search_prefix(files.gl_pathv[k], f);
        }
        globfree(&files);
    }
    return f->version > 0;
}

/* From PREFIX/bin/python3 to PREFIX, as the name stands and as its links lead. */
static bool search_python(const char *python, found *f) {
    char prefix[PLACE_BYTES];
    char *real = realpath(python, NULL);
    const char *const names[] = {python, real};
    bool is_found = false;
    for (int i = 0; i < 2 && real && !is_found; i++) {
        if (strlen(names[i]) >= sizeof prefix) continue;
        snprintf(prefix, sizeof prefix, "%s", names[i]);
        for (int up = 0; up < 2; up++) {
            char *slash = strrchr(prefix, '/');
            if (slash) *slash = 0;
        }
        is_found = search_prefix(prefix, f);
    }
    if (real && !is_found) is_found = search_shims(python, f);
    free(real);
    return is_found;
}

static bool search_path(const char *path, found *f) {
    char python[PLACE_BYTES];
    while (path && *path) {
        size_t length = strcspn(path, ":");
        if (length && length + sizeof "/python3" <= sizeof python) {
            snprintf(python, sizeof python, "%.*s/python3", (int)length, path);
            if (search_python(python, f)) return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

bool wheels_find_nvrtc(char *path, size_t size) {
    found f = {path, size, 0};
    char user[PLACE_BYTES];
    const char *environment = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
    const char *base = getenv("PYTHONUSERBASE");
    if (environment && search_prefix(environment, &f)) return true;
    if (search_path(getenv("PATH"), &f)) return true;
    if (base && search_prefix(base, &f)) return true;
    if (home && strlen(home) + sizeof "/.local" <= sizeof user) {
        snprintf(user, sizeof user, "%s/.local", home);
        if (search_prefix(user, &f)) return true;
    }
    return search_prefix("/usr/local", &f) || search_prefix("/usr", &f);
}
