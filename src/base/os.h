/* Everything of the operating system that the product uses: files, processes, clocks, libraries.
 * POSIX is in os*.c alone. Failures come back as false with one sentence in 'why', which names
 * the path or program and the system's own words.
 */
#ifndef FLASHTL_BASE_OS_H
#define FLASHTL_BASE_OS_H

#include "base/text.h"
#include <signal.h>

typedef struct os_error {
    char text[512];
} os_error;

/* Reads a whole file, or standard input for "-", up to limit_bytes. 'out' must be initialised. */
bool os_read_file(const char *path, size_t limit_bytes, text_buffer *out, os_error *why);
/* Writes a temporary file beside 'path', syncs it and renames it: readers see all or nothing.
 * Devices, pipes and links are written where they are. The rights are those that the umask leaves,
 * or those that the file had.
 */
bool os_write_file(const char *path, str content, os_error *why);
/* The same for files of our own making: whatever bears the name is replaced, a link not followed,
 * and only we can write it, whatever the umask leaves.
 */
bool os_replace_file(const char *path, str content, os_error *why);
/* Reads a plain file that nobody but this user and root can have written: no link, no pipe. */
bool os_read_own_file(const char *path, size_t limit_bytes, text_buffer *out, os_error *why);
/* Can nobody but this user and root write to the folder? True, too, where there is none yet. */
bool os_folder_is_ours(const char *path, os_error *why);
/* Adds to the end of a file that is there, and syncs it: all of the content or nothing. */
bool os_append_file(const char *path, str content, os_error *why);
bool os_rename_file(const char *from, const char *to, os_error *why);
bool os_make_folders(const char *path, os_error *why);
bool os_file_exists(const char *path);
/* Does it keep what is written to it? Devices, pipes and folders do not. */
bool os_file_is_plain(const char *path);
bool os_file_info(const char *path, int64_t *bytes, int64_t *modified_s);
/* Only its owner may read it. */
bool os_file_is_private(const char *path);
bool os_remove_file(const char *path, os_error *why);
/* Calls 'visit' with each name in a folder (no path, not "." and "..") in the system's order. */
bool os_list_folder(const char *path, void (*visit)(void *context, const char *name), void *context,
                    os_error *why);
/* Creates a folder for temporary files, in TMPDIR where that is set; 'path' receives its name.
 * os_remove_folder removes it with the files in it.
 */
bool os_temporary_folder(char path[256], os_error *why);
void os_remove_folder(const char *path);
/* Programs that this process starts from now on put their own temporary files there. */
void os_direct_temporary_files(const char *folder);

/* Runs argv[0] (searched in PATH) with standard input from 'input' and collects both outputs.
 * True when the program ran and ended; *exit_code is then its status, or 128 + signal.
 * Past timeout_s the child is killed and false is returned.
 */
bool os_run(const char *const *argv, str input, double timeout_s, text_buffer *out,
            text_buffer *err, int *exit_code, os_error *why);

/* The same for a program that works in a temporary folder of ours, its own temporary files
 * included, and may start others: when this process ends first, by a signal or otherwise, they end
 * and the folder goes. Nothing is given to read.
 */
bool os_run_in(const char *folder, const char *const *argv, double timeout_s, text_buffer *out,
               text_buffer *err, int *exit_code, os_error *why);

/* A child process that runs beside us. Its outputs are collected in buffers of the caller's. */
typedef struct os_child {
    int pid;          /* 0: none */
    int in, out, err; /* our ends of its pipes; -1 when closed */
    str input;        /* still to be given to it */
    text_buffer *output, *errors;
} os_child;

/* Starts argv[0] (searched in PATH) as a process group of its own. */
bool os_child_start(os_child *child, const char *const *argv, str input, text_buffer *output,
                    text_buffer *errors, os_error *why);
/* Moves data for at most wait_ms, or until the file 'also' (-1: none) has something to read, which
 * *also_ready tells. False once the child has closed both outputs.
 */
bool os_child_attend(os_child *child, int also, int wait_ms, bool *also_ready);
/* Waits for the end; with 'kills' ends it and all it started first. Its status, or 128 + signal. */
int os_child_end(os_child *child, bool kills);
/* Appends what standard input has: waits for it. False at the end, or on failure. */
bool os_read_input(text_buffer *out);
/* Is nobody there any more to read standard output? */
bool os_output_is_closed(void);
/* The path of the program that is running; false when the system does not tell. */
bool os_own_path(char path[512]);

/* Runs 'work' in a child process that shares only 'watch' with us: work whose loops or crashes must
 * not be ours. 'work' raises watch->beats as it gets on and says in watch->doing what it is at.
 * When no beat comes for silence_s, the child is killed and false returned; the same when a signal
 * ended it.
 */
typedef struct os_watch {
    volatile int beats;
    volatile double seconds_left; /* about; 0: unknown */
    char doing[256];
} os_watch;
bool os_run_watched(int (*work)(void *context, os_watch *watch), void *context, double silence_s,
                    int *exit_code, os_error *why);

/* The same, watched more closely: the child is a process group of its own, so that with it ends all
 * that it started, and the folders go that it made for temporary files.
 */
typedef struct os_guard {
    double silence_s;
    const volatile sig_atomic_t
        *stop; /* set: the child ends now, with the words "stopped"; or NULL */
    void (*on_tick)(void *user, const os_watch *watch); /* some times a second; or NULL */
    void *user;
} os_guard;
bool os_run_guarded(int (*work)(void *context, os_watch *watch), void *context,
                    const os_guard *guard, int *exit_code, os_error *why);

/* Work in a child process beside us, of which several may run: a process group of its own, which
 * dies with us. What 'work' writes to 'shared' (zeroed memory) is ours to read once it has ended.
 */
typedef struct os_worker {
    int pid; /* 0: none runs */
    char *shared;
    size_t shared_bytes;
    bool is_interrupted;
} os_worker;
bool os_worker_start(os_worker *worker, size_t shared_bytes,
                     int (*work)(void *context, char *shared), void *context, os_error *why);
/* True once it has ended: *exit_code is its status, or 128 + signal. */
bool os_worker_has_ended(os_worker *worker, int *exit_code);
/* Asks it to end what it started, and itself: one interrupt, as by Ctrl-C. */
void os_worker_interrupt(os_worker *worker);
/* Ends it, if it still runs: asks, waits a little, and ends its group; frees the shared memory. */
void os_worker_done(os_worker *worker);

/* Limits what this process may use from now on, 0: no limit. For children that run untrusted work;
 * the address space is not limited under sanitizers, which map more than any limit.
 */
void os_limit_self(size_t memory_bytes, double cpu_s, size_t file_bytes);

int os_process_id(void);
bool os_process_lives(int process_id); /* false also for what is no process number */
int os_processor_count(void);          /* at least 1 */
int64_t os_time_ns(void);              /* monotonic */
int64_t os_clock_s(void);              /* of the calendar: seconds since 1970 */
void os_sleep_ns(int64_t time_ns);
bool os_is_terminal(int file); /* 0, 1, 2: standard input, output, errors */
int64_t os_cpu_time_ns(void);

/* dlopen and dlsym; os_library_open tries the NULL-terminated names in order. What was opened stays
 * so: a driver does not like to be unloaded.
 */
void *os_library_open(const char *const *names, os_error *why);
/* The path of the file that 'symbol' came from; false when unknown. */
bool os_symbol_path(const void *symbol, char path[512]);
void *os_library_symbol(void *library, const char *symbol);

#endif
