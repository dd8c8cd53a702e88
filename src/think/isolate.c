#include "think/isolate.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { RESULT_BYTES_MAX = 64 << 20, FILE_BYTES_MAX = 256 << 20 };

typedef struct isolation {
    json_t *(*work)(void *user, os_watch *watch);
    void *user;
    const isolate_limits *limits;
    char path[300], folder[256];
} isolation;

static int run(void *user, os_watch *watch) {
    const isolation *i = user;
    os_error why;
    os_direct_temporary_files(i->folder);
    os_limit_self(i->limits->memory_bytes, i->limits->cpu_s, FILE_BYTES_MAX);
    json_t *result = i->work(i->user, watch);
    char *text = json_write(NULL, result, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(result);
    bool is_written = text && os_write_file(i->path, str_from(text), &why);
    free(text);
    return is_written ? 0 : 1;
}

isolate_end isolate_run(json_t *(*work)(void *user, os_watch *watch), void *user,
                        const isolate_limits *limits, json_t **result, os_error *why) {
    isolation i = {.work = work, .user = user, .limits = limits};
    int exit_code = 0;
    *result = NULL;
    if (!os_temporary_folder(i.folder, why)) return ISOLATE_NO_RESULT;
    snprintf(i.path, sizeof i.path, "%s/result", i.folder);
    const os_guard guard = {limits->silence_s, limits->stop, limits->on_tick, limits->user};
    bool has_ended = os_run_guarded(run, &i, &guard, &exit_code, why);
    text_buffer text;
    text_init(&text, RESULT_BYTES_MAX);
    bool is_read =
        has_ended && exit_code == 0 && os_read_file(i.path, RESULT_BYTES_MAX - 1, &text, why);
    if (is_read) *result = json_loadb(text.data ? text.data : "", text.length, 0, NULL);
    if (has_ended && !*result) {
        snprintf(
            why->text, sizeof why->text,
            "what ran in a process of its own gave no result: is there memory, and room in '%s'?",
            i.folder);
    }
    text_done(&text);
    os_remove_folder(i.folder);
    if (*result) return ISOLATE_DONE;
    return has_ended ? ISOLATE_NO_RESULT : ISOLATE_STOPPED;
}
