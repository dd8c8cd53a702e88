/* Everything of the operating system that the product uses: files, processes, clocks, libraries.
 * POSIX stands in os.c alone. Failures come back as false with one sentence in 'why', which names
 * the path or program and the system's own words.
 */
#ifndef FLASHTL_BASE_OS_H
#define FLASHTL_BASE_OS_H

#include "base/text.h"

typedef struct os_error {
    char text[512];
} os_error;

/* Reads a whole file, or standard input for "-", up to limit_bytes. 'out' must be initialised. */
bool os_read_file(const char *path, size_t limit_bytes, text_buffer *out, os_error *why);
/* Writes a temporary file beside 'path', syncs it and renames it: readers see all or nothing. */
bool os_write_file(const char *path, str content, os_error *why);
bool os_make_folders(const char *path, os_error *why);
bool os_file_exists(const char *path);

/* Runs argv[0] (searched in PATH) with standard input from 'input' and collects both outputs.
 * True when the program ran and ended; *exit_code is then its status, or 128 + signal.
 * Past timeout_s the child is killed and false is returned.
 */
bool os_run(const char *const *argv, str input, double timeout_s, text_buffer *out,
            text_buffer *err, int *exit_code, os_error *why);

int64_t os_time_ns(void); /* monotonic */
int64_t os_cpu_time_ns(void);

/* dlopen and dlsym; os_library_open tries the NULL-terminated names in order. */
void *os_library_open(const char *const *names, os_error *why);
void *os_library_symbol(void *library, const char *symbol);
void os_library_close(void *library);

#endif
