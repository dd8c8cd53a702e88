/* How far a command is, on standard error: on a terminal one line that is written over, elsewhere a
 * line now and then, rarer the longer it lasts. Nothing in the first two seconds.
 */
#ifndef FLASHTL_CLI_PROGRESS_H
#define FLASHTL_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool is_off, is_terminal;
    bool has_line; /* on the terminal, to be cleared */
    int64_t begun_ns, next_ns;
} progress;

progress progress_begin(bool is_off);
/* What is left when 'done' of 'total' equal parts took the time since it began; below 0: unknown.
 */
double progress_left(const progress *p, double done, double total);
/* Whether anything would be shown now; what is shown then, without an end of line. */
bool progress_is_due(const progress *p);
void progress_show(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Before anything else is written. */
void progress_clear(progress *p);

#endif
