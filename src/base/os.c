/* Files, folders, clocks, libraries. */
#define _GNU_SOURCE /* dladdr */
#include "base/os_inside.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool os_fail(os_error *why, const char *what, const char *subject, int error) {
    snprintf(why->text, sizeof why->text, "cannot %s '%s': %s", what, subject, strerror(error));
    return false;
}

ssize_t os_read_some(int fd, text_buffer *out) {
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
    if (fd < 0) return os_fail(why, "read", path, errno);
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (!standard_input) close(fd);
        return os_fail(why, "read", path, EISDIR);
    }
    ssize_t got;
    do got = os_read_some(fd, out);
    while (got > 0 && !out->failed && out->length <= limit_bytes);
    int error = errno;
    if (!standard_input) close(fd);
    if (got < 0) return os_fail(why, "read", path, error);
    bool is_too_long = out->length > limit_bytes || out->length + (size_t)got > out->limit_bytes;
    if (is_too_long) return os_fail(why, "read", path, EFBIG);
    if (out->failed) return os_fail(why, "read", path, ENOMEM);
    return true;
}

bool os_read_input(text_buffer *out) {
    return os_read_some(STDIN_FILENO, out) > 0 && !out->failed;
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
    if (fd < 0) return os_fail(why, "write", path, errno);
    bool written = write_all(fd, content);
    int error = errno;
    if (close(fd) != 0 && written) written = false, error = errno;
    return written || os_fail(why, "write", path, error);
}

/* Creates a file of its own beside 'path', with those of the rights 'mode' that the umask leaves;
 * 'temporary' ends in six letters to fill in.
 */
static int create_beside(char *temporary, size_t length, mode_t mode) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    enum { TRIES = 100, LETTERS = sizeof letters - 1 };
    uint64_t draw = (uint64_t)os_time_ns() ^ (uint64_t)getpid() << 40;
    int fd = -1;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        for (size_t k = 1; k <= 6; k++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            temporary[length - k] = letters[(draw >> 33) % LETTERS];
        }
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

/* Who owned the file before and who could read it stays so. */
static bool keep_rights(int fd, const struct stat *before) {
    if (!before) return true;
    if (before->st_uid != geteuid() && fchown(fd, before->st_uid, before->st_gid) != 0)
        return false;
    return fchmod(fd, before->st_mode & 07777) == 0;
}

/* A temporary file beside 'path', renamed once it is whole and on the disk. */
static bool write_beside(const char *path, str content, mode_t mode, const struct stat *before,
                         os_error *why) {
    static const char ending[] = ".tmpXXXXXX";
    size_t length = strlen(path);
    char *temporary = malloc(length + sizeof ending);
    if (!temporary) return os_fail(why, "write", path, ENOMEM);
    memcpy(temporary, path, length);
    memcpy(temporary + length, ending, sizeof ending);
    int fd = create_beside(temporary, length + sizeof ending - 1, mode);
    int error = errno;
    if (fd >= 0) {
        bool written = write_all(fd, content) && fsync(fd) == 0 && keep_rights(fd, before);
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
    return os_fail(why, "write", path, error);
}

bool os_write_file(const char *path, str content, os_error *why) {
    struct stat info;
    if (lstat(path, &info) != 0) return write_beside(path, content, 0666, NULL, why);
    if (S_ISDIR(info.st_mode)) return os_fail(why, "write", path, EISDIR);
    if (!S_ISREG(info.st_mode)) return write_in_place(path, content, why);
    if (access(path, W_OK) != 0) return os_fail(why, "write", path, errno);
    /* Another's file that we may write stays theirs. */
    if (info.st_uid != geteuid() && geteuid() != 0) return write_in_place(path, content, why);
    return write_beside(path, content, 0600, &info, why);
}

bool os_replace_file(const char *path, str content, os_error *why) {
    return write_beside(path, content, 0644, NULL, why);
}

/* Nobody but us and root can have written it. */
static bool is_ours(const struct stat *info) {
    bool is_owned = info->st_uid == geteuid() || info->st_uid == 0;
    return is_owned && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool os_read_own_file(const char *path, size_t limit_bytes, text_buffer *out, os_error *why) {
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe waits for nobody */
    if (fd < 0) return os_fail(why, "read", path, errno);
    struct stat info;
    bool is_right = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && is_ours(&info);
    ssize_t got = -1;
    if (is_right) {
        do got = os_read_some(fd, out);
        while (got > 0 && !out->failed && out->length <= limit_bytes);
    }
    close(fd);
    if (!is_right) return os_fail(why, "trust", path, EPERM);
    if (got < 0) return os_fail(why, "read", path, EIO);
    if (out->failed || out->length > limit_bytes) return os_fail(why, "read", path, EFBIG);
    return true;
}

bool os_folder_is_ours(const char *path, os_error *why) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return errno == ENOENT || os_fail(why, "use the folder", path, errno);
    }
    if (!S_ISDIR(info.st_mode)) return os_fail(why, "use the folder", path, ENOTDIR);
    if (is_ours(&info)) return true;
    snprintf(why->text, sizeof why->text,
             "the folder '%s' %s, so that what lies there cannot be trusted", path,
             info.st_mode & (S_IWGRP | S_IWOTH) ? "can be written by others than its owner"
                                                : "belongs to another user");
    return false;
}

bool os_append_file(const char *path, str content, os_error *why) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return os_fail(why, "write", path, errno);
    struct stat before;
    bool is_plain = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    bool written = write_all(fd, content) && (!is_plain || fsync(fd) == 0);
    int error = errno;
    if (!written && is_plain && ftruncate(fd, before.st_size) != 0) error = errno;
    if (close(fd) != 0 && written) written = false, error = errno;
    return written || os_fail(why, "write", path, error);
}

bool os_rename_file(const char *from, const char *to, os_error *why) {
    return rename(from, to) == 0 || os_fail(why, "write", to, errno);
}

bool os_make_folders(const char *path, os_error *why) {
    char *copy = strdup(path);
    if (!copy) return os_fail(why, "create the folder", path, ENOMEM);
    for (char *slash = copy + 1;; slash++) {
        if (*slash && *slash != '/') continue;
        char kept = *slash;
        *slash = 0;
        if (mkdir(copy, 0755) != 0 && errno != EEXIST) {
            int error = errno;
            free(copy);
            return os_fail(why, "create the folder", path, error);
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

bool os_file_is_plain(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
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
    return os_fail(why, "remove", path, errno);
}

bool os_list_folder(const char *path, void (*visit)(void *context, const char *name), void *context,
                    os_error *why) {
    DIR *folder = opendir(path);
    if (!folder) return os_fail(why, "list", path, errno);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            visit(context, entry->d_name);
    }
    closedir(folder);
    return true;
}

/* Where temporary folders may lie, best first. */
enum { PARENTS = 4 };
static void list_parents(const char *parents[PARENTS]) {
    const char *wanted = getenv("TMPDIR");
    bool is_usable = wanted && *wanted && strlen(wanted) < 200;
    parents[0] = is_usable ? wanted : "/tmp";
    parents[1] = "/tmp";
    parents[2] = "/var/tmp";
    parents[3] = ".";
}

bool os_temporary_folder(char path[256], os_error *why) {
    const char *parents[PARENTS];
    list_parents(parents);
    for (int i = 0; i < PARENTS; i++) {
        snprintf(path, 256, "%s/flashtl-%d-XXXXXX", parents[i], (int)getpid());
        if (mkdtemp(path)) return true;
    }
    return os_fail(why, "create the folder", path, errno);
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
typedef struct leftovers {
    const char *parent;
    char prefix[32];
} leftovers;

static void remove_leftover(void *context, const char *name) {
    const leftovers *l = context;
    char path[512];
    if (strncmp(name, l->prefix, strlen(l->prefix)) != 0) return;
    snprintf(path, sizeof path, "%s/%s", l->parent, name);
    os_remove_folder(path);
}

void os_remove_folders_of(int pid) {
    os_error ignored;
    const char *parents[PARENTS];
    list_parents(parents);
    for (int i = 0; i < PARENTS; i++) {
        leftovers l = {.parent = parents[i]};
        snprintf(l.prefix, sizeof l.prefix, "flashtl-%d-", pid);
        os_list_folder(parents[i], remove_leftover, &l, &ignored);
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

bool os_own_path(char path[512]) {
    ssize_t length = readlink("/proc/self/exe", path, 511);
    if (length > 0) path[length] = 0;
    return length > 0;
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
