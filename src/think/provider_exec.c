/* Any other tool as a model: the prompt on its standard input, the answer on its standard output.
 */
#include "think/provider_internal.h"

#include "base/number.h"
#include "base/os.h"

#include <stdio.h>

static void add_turns(const provider_request *request, text_buffer *out) {
    text_add(out, request->system);
    for (int32_t i = 0; i < request->turn_count; i++) {
        const provider_turn *turn = &request->turns[i];
        if (turn->is_answer) text_add_z(out, "\n\n--- your answer was ---\n\n");
        else if (i) text_add_z(out, "\n\n--- what came of it ---\n\n");
        else text_add_z(out, "\n\n");
        text_add(out, turn->text);
    }
    text_add_z(out, "\n");
}

static ftl_status fail_with_words(ftl_context *context, const provider *p, int exit_code,
                                  str errors) {
    str line = str_trim(errors);
    line = str_trim(str_cut(&line, '\n'));
    if (line.length > 300) line.length = 300;
    return ftl_context_fail(context, FTL_BAD_ANSWER, "'%s' ended with status %d%s%.*s", p->model,
                            exit_code, line.length ? ": " : "", STR_ARGS(line));
}

static bool must_stop(const provider *p) {
    return p->options.stop && *p->options.stop;
}

/* Until the command has closed its output; false when it was stopped, or its time was up. */
static bool attend(provider *p, os_child *child, const text_buffer *answer) {
    enum { WAIT_MS = 100, TICKS = 5 };
    int64_t end_ns = os_time_ns() + (int64_t)(p->options.total_timeout_s * 1e9);
    bool unused, goes_on = true;
    for (int tick = 0; goes_on; tick++) {
        if (must_stop(p) || os_time_ns() > end_ns) return false;
        if (p->options.on_progress && tick % TICKS == 0)
            p->options.on_progress(p->options.user, "wait", answer->length, "");
        goes_on = os_child_attend(child, -1, WAIT_MS, &unused);
    }
    return true;
}

ftl_status exec_ask(ftl_context *context, provider *p, const provider_request *request,
                    provider_answer *answer) {
    enum { PROMPT_BYTES_MAX = 64 << 20, ERROR_BYTES_MAX = 1 << 20 };
    text_buffer prompt, errors;
    text_init(&prompt, PROMPT_BYTES_MAX);
    text_init(&errors, ERROR_BYTES_MAX);
    add_turns(request, &prompt);
    const char *const argv[] = {"/bin/sh", "-c", p->name, NULL};
    int exit_code = 0;
    os_error why;
    int64_t begin_ns = os_time_ns();
    os_child child;
    bool has_begun = os_child_start(&child, argv, text_str(&prompt), &answer->text, &errors, &why);
    bool has_run = has_begun && attend(p, &child, &answer->text);
    if (has_begun) exit_code = os_child_end(&child, !has_run);
    if (has_begun && !has_run) {
        number_print(why.text, sizeof why.text,
                     "'%.300s' did not end within %.0f s and was stopped", p->model,
                     p->options.total_timeout_s);
    }
    int64_t took_ms = (os_time_ns() - begin_ns) / 1000000;
    answer->ms = (double)took_ms;
    ftl_status status = FTL_OK;
    if (must_stop(p)) {
        status = ftl_context_fail(context, FTL_STOPPED, "stopped");
    } else if (!has_run) {
        status = ftl_context_fail(context, FTL_TIMEOUT, "%s", why.text);
    } else if (exit_code) {
        status = fail_with_words(context, p, exit_code, text_str(&errors));
    } else if (answer->text.failed) {
        status =
            ftl_context_fail(context, FTL_BAD_ANSWER, "the answer of '%s' is longer than %d MiB",
                             p->model, PROVIDER_ANSWER_BYTES_MAX >> 20);
    }
    text_done(&prompt);
    text_done(&errors);
    return status;
}
