/* Child processes: programs, and work of our own. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/number.h"
#include "base/os_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int os_process_id(void) {
    return (int)getpid();
}

bool os_process_lives(int process_id) {
    return process_id > 0 && (kill(process_id, 0) == 0 || errno == EPERM);
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* A group of its own ends with us: nobody would wait for it any more. */
static void become(const char *const *argv, int pipes[3][2], bool as_group, pid_t parent) {
    if (as_group) setpgid(0, 0);
#ifdef __linux__
    if (as_group) prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (as_group && getppid() != parent) _exit(127);
#endif
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
            return os_fail(why, "start", argv[0], error);
        }
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(argv, pipes, as_group, parent);
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
    return os_fail(why, "start", argv[0], error);
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
    if (ends[0].revents && os_read_some(c->out, c->output) <= 0) close_end(&c->out);
    if (ends[1].revents && os_read_some(c->err, c->errors) <= 0) close_end(&c->err);
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

bool os_output_is_closed(void) {
    struct pollfd end = {STDOUT_FILENO, 0, 0}; /* errors are told without being asked for */
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static void wait_for(pid_t pid, int *status) {
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
}

static int exit_code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int reap(os_child *c) {
    int status = 0;
    close_end(&c->in), close_end(&c->out), close_end(&c->err);
    wait_for(c->pid, &status);
    c->pid = 0;
    return exit_code_of(status);
}

int os_child_end(os_child *child, bool kills) {
    if (kills) kill(-child->pid, SIGKILL);
    return reap(child);
}

static bool run(const char *const *argv, str input, double timeout_s, bool as_group,
                text_buffer *out, text_buffer *err, int *exit_code, os_error *why) {
    os_child c = {.input = input, .output = out, .errors = err};
    if (!start(&c, argv, as_group, why)) return false;
    int64_t deadline_ns = os_time_ns() + (int64_t)(timeout_s * 1e9), left_ns;
    bool unused, goes_on = true;
    while ((left_ns = deadline_ns - os_time_ns()) > 0 && goes_on) {
        int wait_ms = left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1;
        goes_on = os_child_attend(&c, -1, wait_ms, &unused);
    }
    if (goes_on) kill(as_group ? -c.pid : c.pid, SIGKILL);
    *exit_code = reap(&c);
    return !goes_on;
}

static bool has_ended(bool in_time, const char *program, double timeout_s, int exit_code,
                      const text_buffer *out, const text_buffer *err, os_error *why) {
    if (!in_time) {
        number_print(why->text, sizeof why->text, "'%s' did not end within %.0f s and was stopped",
                     program, timeout_s);
        return false;
    }
    if (exit_code == 127 && out->length == 0 && err->length == 0)
        return os_fail(why, "start", program, ENOENT);
    return true;
}

bool os_run(const char *const *argv, str input, double timeout_s, text_buffer *out,
            text_buffer *err, int *exit_code, os_error *why) {
    why->text[0] = 0;
    bool in_time = run(argv, input, timeout_s, false, out, err, exit_code, why);
    if (!in_time && *why->text) return false;
    return has_ended(in_time, argv[0], timeout_s, *exit_code, out, err, why);
}

/* A shell is between us and the program. It is told when we end, however that happens; then it
 * ends its group, which is the program and all that it started, and removes the folder.
 */
static const char guardian[] =
    "TMPDIR=$1; export TMPDIR; shift\n"
    "command -v \"$1\" > /dev/null || exit 127\n"
    "end() { trap '' TERM INT HUP; kill -TERM 0; wait; rm -rf \"$TMPDIR\"; exit 143; }\n"
    "trap end TERM INT HUP\n"
    "\"$@\" &\n"
    "wait $!\n";

bool os_run_in(const char *folder, const char *const *argv, double timeout_s, text_buffer *out,
               text_buffer *err, int *exit_code, os_error *why) {
    enum { OWN_WORDS = 5, WORDS_MAX = 64 };
    const char *words[WORDS_MAX + 1] = {"sh", "-c", guardian, "flashtl", folder};
    int count = OWN_WORDS;
    for (int i = 0; argv[i]; i++) {
        if (count == WORDS_MAX) return os_fail(why, "start", argv[0], E2BIG);
        words[count++] = argv[i];
    }
    why->text[0] = 0;
    bool in_time = run(words, (str){"", 0}, timeout_s, true, out, err, exit_code, why);
    if (!in_time && *why->text) return false;
    return has_ended(in_time, argv[0], timeout_s, *exit_code, out, err, why);
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
    wait_for(pid, status);
    os_remove_folders_of(pid);
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
    } else {
        kill(pid, SIGKILL);
        wait_for(pid, status);
    }
    return false;
}

/* Forks, with zeroed memory that both processes share; the child dies with us. 0 in the child, -1
 * without one.
 */
static pid_t fork_sharing(size_t bytes, bool as_group, void **shared, os_error *why) {
    *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (*shared == MAP_FAILED) {
        os_fail(why, "share memory with", "a child process", errno);
        return -1;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        os_fail(why, "start", "a child process", errno);
        munmap(*shared, bytes);
        return -1;
    }
    if (as_group) setpgid(pid, pid); /* both of us: whoever comes first */
#ifdef __linux__
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would wait for it any more */
#endif
    return pid;
}

static _Noreturn void end_child(int exit_code) {
    fflush(NULL);
    _exit(exit_code);
}

static bool run_in_child(int (*work)(void *context, os_watch *watch), void *context,
                         const os_guard *guard, bool as_group, int *exit_code, os_error *why) {
    void *shared;
    pid_t pid = fork_sharing(sizeof(os_watch), as_group, &shared, why);
    if (pid < 0) return false;
    os_watch *watch = shared;
    if (pid == 0) end_child(work(context, watch));
    int status = 0;
    bool in_time = attend(pid, watch, guard, as_group, &status);
    bool ended_itself = in_time && WIFEXITED(status);
    watch->doing[sizeof watch->doing - 1] = 0;
    if (!in_time && guard->stop && *guard->stop) {
        snprintf(why->text, sizeof why->text, "stopped");
    } else if (!in_time) {
        number_print(why->text, sizeof why->text, "%s did not end within %.0f s and was stopped",
                     watch->doing, guard->silence_s);
    } else if (!ended_itself) {
        snprintf(why->text, sizeof why->text, "%s ended with signal %d (%s)", watch->doing,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    *exit_code = ended_itself ? WEXITSTATUS(status) : -1;
    munmap(watch, sizeof *watch);
    return ended_itself;
}

bool os_run_watched(int (*work)(void *context, os_watch *watch), void *context, double silence_s,
                    int *exit_code, os_error *why) {
    return run_in_child(work, context, &(os_guard){.silence_s = silence_s}, false, exit_code, why);
}

bool os_run_guarded(int (*work)(void *context, os_watch *watch), void *context,
                    const os_guard *guard, int *exit_code, os_error *why) {
    return run_in_child(work, context, guard, true, exit_code, why);
}

bool os_worker_start(os_worker *w, size_t shared_bytes, int (*work)(void *context, char *shared),
                     void *context, os_error *why) {
    void *shared;
    *w = (os_worker){0};
    pid_t pid = fork_sharing(shared_bytes, true, &shared, why);
    if (pid < 0) return false;
    if (pid == 0) end_child(work(context, shared));
    *w = (os_worker){.pid = (int)pid, .shared = shared, .shared_bytes = shared_bytes};
    return true;
}

bool os_worker_has_ended(os_worker *w, int *exit_code) {
    int status = 0;
    if (!w->pid || waitpid(w->pid, &status, WNOHANG) != w->pid) return false;
    kill(-w->pid, SIGKILL); /* what it may have left */
    w->pid = 0;
    *exit_code = exit_code_of(status);
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
        wait_for(w->pid, &status);
    }
    if (w->shared) munmap(w->shared, w->shared_bytes);
    *w = (os_worker){0};
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
