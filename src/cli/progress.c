#include "cli/progress.h"

#include "base/number.h"
#include "cli/cli.h"

#include <stdarg.h>

static const int64_t SECOND_NS = 1000000000;

progress progress_begin(bool is_off) {
    int64_t now_ns = os_time_ns();
    return (progress){.is_off = is_off,
                      .is_terminal = os_is_terminal(2),
                      .begun_ns = now_ns,
                      .next_ns = now_ns + 2 * SECOND_NS};
}

static double progress_seconds(const progress *p) {
    return (double)(os_time_ns() - p->begun_ns) / 1e9;
}

double progress_left(const progress *p, double done, double total) {
    return done > 0 ? progress_seconds(p) * (total - done) / done : -1;
}

bool progress_is_due(const progress *p) {
    return !p->is_off && os_time_ns() >= p->next_ns;
}

/* On a terminal ten times a second; else after 2 s, 4 s, 8 s, ... and then every five minutes. */
static int64_t pause_ns(const progress *p, int64_t now_ns) {
    static const int64_t LONGEST_S = 300;
    if (p->is_terminal) return SECOND_NS / 10;
    int64_t so_far_ns = now_ns - p->begun_ns;
    return so_far_ns < LONGEST_S * SECOND_NS ? so_far_ns : LONGEST_S * SECOND_NS;
}

void progress_show(progress *p, const char *format, ...) {
    char text[512];
    va_list arguments;
    if (!progress_is_due(p)) return;
    int64_t now_ns = os_time_ns();
    p->next_ns = now_ns + pause_ns(p, now_ns);
    va_start(arguments, format);
    number_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!p->is_terminal) {
        cli_say(0, "%s", text);
        return;
    }
    fputs("\r\033[K", stderr);
    cli_tell(stderr, "%s", text);
    p->has_line = true;
}

void progress_clear(progress *p) {
    if (p->has_line) fputs("\r\033[K", stderr);
    p->has_line = false;
}
