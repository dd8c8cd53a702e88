#define _GNU_SOURCE /* dladdr, MAP_ANONYMOUS */
#include "base/os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool fail(os_error *why, const char *what, const char *subject, int error) {
    snprintf(why->text, sizeof why->text, "cannot %s '%s': %s", what, subject, strerror(error));
    return false;
}

/* Appends what is there to read; 0 at the end, -1 on failure with errno. */
static ssize_t read_some(int fd, text_buffer *out) {
    char chunk[65536];
    ssize_t got;
    do got = read(fd, chunk, sizeof chunk);
    while (got < 0 && errno == EINTR);
    if (got > 0) text_add(out, (str){chunk, (size_t)got});
    return got;
}

bool os_read_file(const char *path, size_t limit_bytes, text_buffer *out, os_error *why) {
    bool standard_input = strcmp(path, "-") == 0;
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(why, "read", path, errno);
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (!standard_input) close(fd);
        return fail(why, "read", path, EISDIR);
    }
    ssize_t got;
    do got = read_some(fd, out);
    while (got > 0 && out->length <= limit_bytes);
    int error = errno;
    if (!standard_input) close(fd);
    if (got < 0) return fail(why, "read", path, error);
    if (out->failed || out->length > limit_bytes) return fail(why, "read", path, EFBIG);
    return true;
}

static bool write_all(int fd, str content) {
    while (content.length) {
        ssize_t wrote = write(fd, content.data, content.length);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        content.data += wrote;
        content.length -= (size_t)wrote;
    }
    return true;
}

/* What is no plain file (a device, a pipe, a link) keeps being what it is. */
static bool write_in_place(const char *path, str content, os_error *why) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return fail(why, "write", path, errno);
    bool written = write_all(fd, content);
    int error = errno;
    if (close(fd) != 0 && written) written = false, error = errno;
    return written || fail(why, "write", path, error);
}

bool os_write_file(const char *path, str content, os_error *why) {
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return write_in_place(path, content, why);
    size_t length = strlen(path);
    char *temporary = malloc(length + 12);
    if (!temporary) return fail(why, "write", path, ENOMEM);
    memcpy(temporary, path, length);
    memcpy(temporary + length, ".tmpXXXXXX", 11);
    int fd = mkstemp(temporary);
    int error = errno;
    if (fd >= 0) {
        bool written = fchmod(fd, 0644) == 0 && write_all(fd, content) && fsync(fd) == 0;
        error = errno;
        if (close(fd) != 0 && written) written = false, error = errno;
        if (written && rename(temporary, path) == 0) {
            free(temporary);
            return true;
        }
        if (written) error = errno;
        unlink(temporary);
    }
    free(temporary);
    return fail(why, "write", path, error);
}

bool os_make_folders(const char *path, os_error *why) {
    char *copy = strdup(path);
    if (!copy) return fail(why, "create the folder", path, ENOMEM);
    for (char *slash = copy + 1;; slash++) {
        if (*slash && *slash != '/') continue;
        char kept = *slash;
        *slash = 0;
        if (mkdir(copy, 0755) != 0 && errno != EEXIST) {
            int error = errno;
            free(copy);
            return fail(why, "create the folder", path, error);
        }
        *slash = kept;
        if (!kept) break;
    }
    free(copy);
    return true;
}

bool os_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool os_file_info(const char *path, int64_t *bytes, int64_t *modified_s) {
    struct stat info;
    if (stat(path, &info) != 0) return false;
    *bytes = (int64_t)info.st_size;
    *modified_s = (int64_t)info.st_mtime;
    return true;
}

bool os_file_is_private(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

bool os_remove_file(const char *path, os_error *why) {
    if (unlink(path) == 0 || errno == ENOENT) return true;
    return fail(why, "remove", path, errno);
}

bool os_list_folder(const char *path, void (*visit)(void *context, const char *name), void *context,
                    os_error *why) {
    DIR *folder = opendir(path);
    if (!folder) return fail(why, "list", path, errno);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            visit(context, entry->d_name);
    }
    closedir(folder);
    return true;
}

static const char *const parents[] = {"/tmp", "/var/tmp", "."};

bool os_temporary_folder(char path[256], os_error *why) {
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        snprintf(path, 256, "%s/flashtl-%d-XXXXXX", parents[i], (int)getpid());
        if (mkdtemp(path)) return true;
    }
    return fail(why, "create the folder", path, errno);
}

static void remove_entry(void *context, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", (const char *)context, name);
    unlink(path);
}

void os_remove_folder(const char *path) {
    os_error ignored;
    char copy[512];
    snprintf(copy, sizeof copy, "%s", path);
    os_list_folder(path, remove_entry, copy, &ignored);
    rmdir(path);
}

void os_direct_temporary_files(const char *folder) {
    setenv("TMPDIR", folder, 1);
}

/* The folders in 'parent' that process 'pid' made and cannot remove any more. */
typedef struct left_behind {
    const char *parent;
    char prefix[32];
} left_behind;

static void remove_left_behind(void *context, const char *name) {
    const left_behind *l = context;
    char path[512];
    if (strncmp(name, l->prefix, strlen(l->prefix)) != 0) return;
    snprintf(path, sizeof path, "%s/%s", l->parent, name);
    os_remove_folder(path);
}

static void remove_folders_of(pid_t pid) {
    os_error ignored;
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        left_behind l = {.parent = parents[i]};
        snprintf(l.prefix, sizeof l.prefix, "flashtl-%d-", (int)pid);
        os_list_folder(parents[i], remove_left_behind, &l, &ignored);
    }
}

int64_t os_clock_s(void) {
    return (int64_t)time(NULL);
}

void os_sleep_ns(int64_t time_ns) {
    struct timespec pause = {(time_t)(time_ns / 1000000000), (long)(time_ns % 1000000000)};
    nanosleep(&pause, NULL);
}

bool os_is_terminal(int file) {
    return isatty(file) == 1;
}

int os_process_id(void) {
    return (int)getpid();
}

bool os_process_lives(int process_id) {
    return process_id > 0 && (kill(process_id, 0) == 0 || errno == EPERM);
}

int os_processor_count(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

int64_t os_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t os_cpu_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *os_library_open(const char *const *names, os_error *why) {
    const char *reason = "no name given";
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
        reason = dlerror();
    }
    snprintf(why->text, sizeof why->text, "cannot open the library: %s", reason);
    return NULL;
}

bool os_symbol_path(const void *symbol, char path[512]) {
    Dl_info info;
    if (!dladdr(symbol, &info) || !info.dli_fname) return false;
    char *absolute = realpath(info.dli_fname, NULL);
    snprintf(path, 512, "%s", absolute ? absolute : info.dli_fname);
    free(absolute);
    return true;
}

void *os_library_symbol(void *library, const char *symbol) {
    return dlsym(library, symbol);
}

void os_library_close(void *library) {
    if (library) dlclose(library);
}

/* --- child processes -------------------------------------------------------------------------- */

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void become(const char *const *argv, int pipes[3][2], bool as_group) {
    if (as_group) setpgid(0, 0);
    dup2(pipes[0][0], STDIN_FILENO);
    dup2(pipes[1][1], STDOUT_FILENO);
    dup2(pipes[2][1], STDERR_FILENO);
    for (int i = 0; i < 3; i++) close(pipes[i][0]), close(pipes[i][1]);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool start(os_child *c, const char *const *argv, bool as_group, os_error *why) {
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    for (int i = 0; i < 3; i++) {
        if (pipe(pipes[i]) != 0) {
            int error = errno;
            for (int k = 0; k < 3; k++) close_end(&pipes[k][0]), close_end(&pipes[k][1]);
            return fail(why, "start", argv[0], error);
        }
    }
    pid_t pid = fork();
    if (pid == 0) become(argv, pipes, as_group);
    int error = errno;
    close(pipes[0][0]), close(pipes[1][1]), close(pipes[2][1]);
    c->pid = pid, c->in = pipes[0][1], c->out = pipes[1][0], c->err = pipes[2][0];
    if (pid >= 0) {
        if (as_group) setpgid(pid, pid); /* whoever comes first */
        for (int i = 0; i < 3; i++) {
            int fd = i == 0 ? c->in : i == 1 ? c->out : c->err;
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
        fcntl(c->in, F_SETFL, O_NONBLOCK);
        return true;
    }
    close_end(&c->in), close_end(&c->out), close_end(&c->err);
    return fail(why, "start", argv[0], error);
}

bool os_child_start(os_child *child, const char *const *argv, str input, text_buffer *output,
                    text_buffer *errors, os_error *why) {
    *child = (os_child){.input = input, .output = output, .errors = errors};
    return start(child, argv, true, why);
}

bool os_child_attend(os_child *c, int also, int wait_ms, bool *also_ready) {
    *also_ready = false;
    if (c->input.length == 0) close_end(&c->in);
    struct pollfd ends[4] = {
        {c->out, POLLIN, 0}, {c->err, POLLIN, 0}, {c->in, POLLOUT, 0}, {also, POLLIN, 0}};
    if (poll(ends, 4, wait_ms) < 0) return errno == EINTR;
    if (ends[0].revents && read_some(c->out, c->output) <= 0) close_end(&c->out);
    if (ends[1].revents && read_some(c->err, c->errors) <= 0) close_end(&c->err);
    *also_ready = ends[3].revents != 0;
    if (ends[2].revents && c->in >= 0) {
        struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
        sigaction(SIGPIPE, &ignore, &before);
        ssize_t wrote = write(c->in, c->input.data, c->input.length);
        if (wrote > 0) c->input.data += wrote, c->input.length -= (size_t)wrote;
        else if (errno != EAGAIN && errno != EINTR) c->input.length = 0;
        sigaction(SIGPIPE, &before, NULL);
    }
    return c->out >= 0 || c->err >= 0;
}

static int reap(os_child *c) {
    int status = 0;
    close_end(&c->in), close_end(&c->out), close_end(&c->err);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    c->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int os_child_end(os_child *child, bool kills) {
    if (kills) kill(-child->pid, SIGKILL);
    return reap(child);
}

bool os_read_input(text_buffer *out) {
    return read_some(STDIN_FILENO, out) > 0 && !out->failed;
}

bool os_own_path(char path[512]) {
    ssize_t length = readlink("/proc/self/exe", path, 511);
    if (length > 0) path[length] = 0;
    return length > 0;
}

bool os_run(const char *const *argv, str input, double timeout_s, text_buffer *out,
            text_buffer *err, int *exit_code, os_error *why) {
    os_child c = {.input = input, .output = out, .errors = err};
    if (!start(&c, argv, false, why)) return false;
    int64_t deadline_ns = os_time_ns() + (int64_t)(timeout_s * 1e9), left_ns;
    bool unused, goes_on = true;
    while ((left_ns = deadline_ns - os_time_ns()) > 0 && goes_on) {
        int wait_ms = left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1;
        goes_on = os_child_attend(&c, -1, wait_ms, &unused);
    }
    if (goes_on) kill(c.pid, SIGKILL);
    *exit_code = reap(&c);
    if (goes_on) {
        snprintf(why->text, sizeof why->text, "'%s' did not end within %.0f s and was stopped",
                 argv[0], timeout_s);
        return false;
    }
    if (*exit_code == 127 && out->length == 0 && err->length == 0) {
        return fail(why, "start", argv[0], ENOENT);
    }
    return true;
}

/* Ends a group: compilers remove their own temporary files when they are asked to end. */
static void end_group(pid_t pid, int *status) {
    enum { WAITS = 50 };
    kill(-pid, SIGTERM);
    for (int i = 0; i < WAITS && kill(-pid, 0) == 0; i++) {
        waitpid(pid, status, WNOHANG);
        os_sleep_ns(4000000);
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    remove_folders_of(pid);
}

/* Waits for the child; ends it when it stays silent, or is to stop. False then. */
static bool attend(pid_t pid, os_watch *watch, const os_guard *guard, bool as_group, int *status) {
    int beats = watch->beats;
    int64_t heard_ns = os_time_ns(), silence_ns = (int64_t)(guard->silence_s * 1e9);
    for (int64_t pause_ns = 100000;; pause_ns = pause_ns < 10000000 ? pause_ns * 2 : pause_ns) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return true;
        if (watch->beats != beats) beats = watch->beats, heard_ns = os_time_ns();
        if (os_time_ns() - heard_ns > silence_ns) break;
        if (guard->stop && *guard->stop) break;
        if (guard->on_tick) guard->on_tick(guard->user, watch);
        os_sleep_ns(pause_ns);
    }
    if (as_group) {
        end_group(pid, status);
        return false;
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return false;
}

static bool run_in_child(int (*work)(void *context, os_watch *watch), void *context,
                         const os_guard *guard, bool as_group, int *exit_code, os_error *why) {
    os_watch *watch =
        mmap(NULL, sizeof *watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watch == MAP_FAILED) return fail(why, "share memory with", "a child process", errno);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (as_group) setpgid(0, 0);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would watch it any more */
#endif
        int code = work(context, watch);
        fflush(NULL);
        _exit(code);
    }
    if (pid < 0) {
        munmap(watch, sizeof *watch);
        return fail(why, "start", "a child process", errno);
    }
    if (as_group) setpgid(pid, pid); /* whoever comes first */
    int status = 0;
    bool in_time = attend(pid, watch, guard, as_group, &status);
    bool ended_itself = in_time && WIFEXITED(status);
    watch->doing[sizeof watch->doing - 1] = 0;
    if (!in_time && guard->stop && *guard->stop) {
        snprintf(why->text, sizeof why->text, "stopped");
    } else if (!in_time) {
        snprintf(why->text, sizeof why->text, "%s did not end within %.0f s and was stopped",
                 watch->doing, guard->silence_s);
    } else if (!ended_itself) {
        snprintf(why->text, sizeof why->text, "%s ended with signal %d (%s)", watch->doing,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    *exit_code = ended_itself ? WEXITSTATUS(status) : -1;
    munmap(watch, sizeof *watch);
    return ended_itself;
}

bool os_worker_start(os_worker *w, size_t shared_bytes, int (*work)(void *context, char *shared),
                     void *context, os_error *why) {
    void *shared =
        mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *w = (os_worker){0};
    if (shared == MAP_FAILED) return fail(why, "share memory with", "a child process", errno);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read what it finds */
#endif
        int code = work(context, shared);
        fflush(NULL);
        _exit(code);
    }
    if (pid < 0) {
        munmap(shared, shared_bytes);
        return fail(why, "start", "a child process", errno);
    }
    setpgid(pid, pid); /* whoever comes first */
    *w = (os_worker){.pid = (int)pid, .shared = shared, .shared_bytes = shared_bytes};
    return true;
}

bool os_worker_has_ended(os_worker *w, int *exit_code) {
    int status = 0;
    if (!w->pid || waitpid(w->pid, &status, WNOHANG) != w->pid) return false;
    kill(-w->pid, SIGKILL); /* what it may have left */
    w->pid = 0;
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

void os_worker_interrupt(os_worker *w) {
    if (w->pid && !w->is_interrupted) kill(w->pid, SIGINT);
    w->is_interrupted = true;
}

void os_worker_done(os_worker *w) {
    enum { PAUSE_NS = 5000000, PAUSES = 400 };
    int status;
    os_worker_interrupt(w);
    for (int i = 0; w->pid && i < PAUSES && !os_worker_has_ended(w, &status); i++) {
        os_sleep_ns(PAUSE_NS);
    }
    if (w->pid) {
        kill(-w->pid, SIGKILL);
        kill(w->pid, SIGKILL); /* before it has become a group */
        while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (w->shared) munmap(w->shared, w->shared_bytes);
    *w = (os_worker){0};
}

bool os_run_watched(int (*work)(void *context, os_watch *watch), void *context, double silence_s,
                    int *exit_code, os_error *why) {
    return run_in_child(work, context, &(os_guard){.silence_s = silence_s}, false, exit_code, why);
}

bool os_run_guarded(int (*work)(void *context, os_watch *watch), void *context,
                    const os_guard *guard, int *exit_code, os_error *why) {
    return run_in_child(work, context, guard, true, exit_code, why);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OS_HAS_SANITIZER
#endif
#endif

void os_limit_self(size_t memory_bytes, double cpu_s, size_t file_bytes) {
    /* one that cannot be set leaves the others */
    const struct rlimit none = {0, 0}, memory = {memory_bytes, memory_bytes};
    const struct rlimit cpu = {(rlim_t)cpu_s + 1, (rlim_t)cpu_s + 1},
                        file = {file_bytes, file_bytes};
    setrlimit(RLIMIT_CORE, &none);
#if !defined(OS_HAS_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
    if (memory_bytes) setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    if (cpu_s > 0) setrlimit(RLIMIT_CPU, &cpu);
    if (file_bytes) setrlimit(RLIMIT_FSIZE, &file);
}
