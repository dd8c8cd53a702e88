/* The package of Python runs with glibc from 2.28 on, also where it is built with a later one: what
 * has a later version there is called by the version that 2.28 has. The linker sends every call
 * here (--wrap), also those of archives. What moved into libc.so.6 with 2.34 is in libdl.so.2 and
 * libpthread.so.0 before, which the package names as needed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <threads.h>

#ifdef __aarch64__
#define FIRST "GLIBC_2.17"
#define STAT_VERSION 0
#else
#define FIRST "GLIBC_2.2.5"
#define STAT_VERSION 1
#endif
#define THREADS "GLIBC_2.28" /* which C11's begin with */

#define OLD(version, result, name, parameters)                                                     \
    __asm__(".symver old_" #name ", " #name "@" version);                                          \
    result old_##name parameters;                                                                  \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters

OLD(FIRST, int, dladdr, (const void *address, Dl_info *info)) {
    return old_dladdr(address, info);
}
OLD(FIRST, int, dlclose, (void *library)) {
    return old_dlclose(library);
}
OLD(FIRST, char *, dlerror, (void)) {
    return old_dlerror();
}
OLD(FIRST, void *, dlopen, (const char *name, int flags)) {
    return old_dlopen(name, flags);
}
OLD(FIRST, void *, dlsym, (void *library, const char *name)) {
    return old_dlsym(library, name);
}

OLD(FIRST, double, exp, (double x)) {
    return old_exp(x);
}
OLD(FIRST, double, exp2, (double x)) {
    return old_exp2(x);
}
OLD(FIRST, double, log, (double x)) {
    return old_log(x);
}
OLD(FIRST, double, log2, (double x)) {
    return old_log2(x);
}
OLD(FIRST, double, pow, (double x, double y)) {
    return old_pow(x, y);
}

OLD(FIRST, int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *a, void *(*run)(void *), void *x)) {
    return old_pthread_create(thread, a, run, x);
}
OLD(FIRST, int, pthread_join, (pthread_t thread, void **result)) {
    return old_pthread_join(thread, result);
}
OLD(FIRST, void *, pthread_getspecific, (pthread_key_t key)) {
    return old_pthread_getspecific(key);
}
OLD(FIRST, int, pthread_setspecific, (pthread_key_t key, const void *value)) {
    return old_pthread_setspecific(key, value);
}
OLD(FIRST, int, pthread_key_create, (pthread_key_t * key, void (*end)(void *))) {
    return old_pthread_key_create(key, end);
}
OLD(FIRST, int, pthread_mutex_trylock, (pthread_mutex_t * lock)) {
    return old_pthread_mutex_trylock(lock);
}
OLD(FIRST, int, pthread_mutexattr_init, (pthread_mutexattr_t * a)) {
    return old_pthread_mutexattr_init(a);
}
OLD(FIRST, int, pthread_mutexattr_settype, (pthread_mutexattr_t * a, int type)) {
    return old_pthread_mutexattr_settype(a, type);
}
OLD(FIRST, int, pthread_mutexattr_destroy, (pthread_mutexattr_t * a)) {
    return old_pthread_mutexattr_destroy(a);
}

OLD(THREADS, int, mtx_init, (mtx_t * lock, int type)) {
    return old_mtx_init(lock, type);
}
OLD(THREADS, int, mtx_lock, (mtx_t * lock)) {
    return old_mtx_lock(lock);
}
OLD(THREADS, int, mtx_unlock, (mtx_t * lock)) {
    return old_mtx_unlock(lock);
}
OLD(THREADS, void, mtx_destroy, (mtx_t * lock)) {
    old_mtx_destroy(lock);
}
OLD(THREADS, int, thrd_create, (thrd_t * thread, thrd_start_t run, void *x)) {
    return old_thrd_create(thread, run, x);
}
OLD(THREADS, int, thrd_join, (thrd_t thread, int *result)) {
    return old_thrd_join(thread, result);
}

/* Before 2.33 these were inline, over functions that are told which struct is meant. */
OLD(FIRST, int, __xstat64, (int version, const char *path, struct stat *out)) {
    return old___xstat64(version, path, out);
}
OLD(FIRST, int, __lxstat64, (int version, const char *path, struct stat *out)) {
    return old___lxstat64(version, path, out);
}
OLD(FIRST, int, __fxstat64, (int version, int file, struct stat *out)) {
    return old___fxstat64(version, file, out);
}

#define STAT(name, older, what)                                                                    \
    int __wrap_##name(what from, struct stat *out);                                                \
    int __wrap_##name(what from, struct stat *out) {                                               \
        return old_##older(STAT_VERSION, from, out);                                               \
    }
STAT(stat, __xstat64, const char *)
STAT(stat64, __xstat64, const char *)
STAT(lstat, __lxstat64, const char *)
STAT(lstat64, __lxstat64, const char *)
STAT(fstat, __fxstat64, int)
STAT(fstat64, __fxstat64, int)

/* Of the command: what runs before main. It has nothing to be begun or ended by the two functions
 * that older versions call. */
OLD(FIRST, int, __libc_start_main,
    (int (*run)(int, char **, char **), int count, char **words, void (*begin)(void),
     void (*end)(void), void (*unload)(void), void *stack)) {
    return old___libc_start_main(run, count, words, begin, end, unload, stack);
}
