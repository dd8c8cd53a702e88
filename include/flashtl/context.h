/* flashtl/context.h: statuses, and the object that holds what went wrong.
 *
 * Two kinds of failure are told apart. A program that is wrong gives FTL_REJECTED and diagnostics
 * (ftl_context_diagnostics). A world that fails (a file, a driver, a compiler) gives another status
 * and one sentence (ftl_context_error), with the failing component's own words.
 */
#ifndef FLASHTL_CONTEXT_H
#define FLASHTL_CONTEXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FTL_API
#define FTL_API __attribute__((visibility("default")))
#endif

/* A struct whose 'struct_bytes' says how large it is to the caller, all else 0: so that structs can
 * grow while programs that were compiled before go on. In C an initializer, in C++ a value.
 */
#ifdef __cplusplus
} /* templates have C++'s linkage */
template <typename T> inline T ftl_struct_init() {
    T made = T();
    made.struct_bytes = sizeof(T);
    return made;
}
extern "C" {
#define FTL_STRUCT_INIT(type) ftl_struct_init<type>()
#else
#define FTL_STRUCT_INIT(type)                                                                      \
    { .struct_bytes = sizeof(type) }
#endif

/* X(NAME, value, sentence). Values are ABI: never renumbered; gaps leave room per group. */
#define FTL_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(REJECTED, 1, "the program was rejected; the diagnostics say why")                            \
    X(INVALID_ARGUMENT, 2, "an argument is wrong")                                                 \
    X(NO_MEMORY, 3, "out of memory")                                                               \
    X(NOT_FOUND, 4, "there is nothing of that name")                                               \
    X(CHECK_FAILED, 5, "a check failed")                                                           \
    X(NO_FILE, 10, "a file cannot be read or written")                                             \
    X(NO_DRIVER, 20, "there is no CUDA driver")                                                    \
    X(NO_DEVICE, 21, "there is no such GPU")                                                       \
    X(DRIVER_TOO_OLD, 22, "the CUDA driver is too old for this kernel")                            \
    X(NO_COMPILER, 23, "there is no CUDA compiler")                                                \
    X(COMPILER_FAILED, 24, "the CUDA compiler rejected the text")                                  \
    X(DRIVER_FAILED, 25, "the CUDA driver reported an error")                                      \
    X(KERNEL_FAULT, 26, "the kernel faulted on the GPU")                                           \
    X(TIMEOUT, 27, "the work did not end in time")                                                 \
    X(STOPPED, 28, "the work was stopped")                                                         \
    X(COMPILER_BROKEN, 29, "the CUDA compiler that is there cannot work")                          \
    X(NO_NETWORK, 30, "a model's server cannot be reached")                                        \
    X(REFUSED, 31, "a model's server refused the request")                                         \
    X(QUOTA, 32, "a budget of tokens or money is spent")                                           \
    X(BAD_ANSWER, 33, "a model's server answered what cannot be read")

typedef enum ftl_status {
#define FTL_STATUS(name, value, sentence) FTL_##name = value,
    FTL_STATUS_LIST(FTL_STATUS)
#undef FTL_STATUS
} ftl_status;

FTL_API const char *ftl_status_name(ftl_status status); /* "NO_DRIVER" */
FTL_API const char *ftl_status_text(ftl_status status); /* the sentence of the list */
FTL_API const char *ftl_version(void);                  /* "0.1.0" */

/* A context belongs to one thread at a time; use one per thread. Functions that take a context
 * replace its error and diagnostics, those of the last call stay until the next.
 * A null pointer where none is allowed gives INVALID_ARGUMENT in all functions that return a
 * status.
 */
typedef struct ftl_context ftl_context;

/* Makes a context; the caller frees it with ftl_context_free (which takes NULL, too). OK,
 * NO_MEMORY. */
FTL_API ftl_status ftl_context_new(ftl_context **out);
FTL_API void ftl_context_free(ftl_context *context);

/* One sentence about the last failure, "" when there was none. Valid until the next call. */
FTL_API const char *ftl_context_error(const ftl_context *context);

/* One sentence about something that went wrong and was worked around (a cache that cannot be
 * written), "" when there was nothing; reading it takes it away.
 */
FTL_API const char *ftl_context_take_warning(ftl_context *context);

typedef enum ftl_diagnostics_form {
    FTL_DIAGNOSTICS_TEXT = 1,   /* FILE:LINE:COLUMN: error: ..., the line, a caret */
    FTL_DIAGNOSTICS_COLOUR = 2, /* the same with terminal colours */
    FTL_DIAGNOSTICS_JSON = 3    /* an object per line */
} ftl_diagnostics_form;

/* The diagnostics of the last call, errors and warnings; the caller frees them with ftl_free. Never
 * NULL except without memory. A form that is none is TEXT.
 */
FTL_API char *ftl_context_diagnostics(const ftl_context *context, ftl_diagnostics_form form);
FTL_API int32_t ftl_context_error_count(const ftl_context *context);
FTL_API int32_t ftl_context_warning_count(const ftl_context *context);

/* For code that builds on the library: records a sentence as printf does, returns 'status'. The
 * context may be NULL.
 */
FTL_API ftl_status ftl_context_fail(ftl_context *context, ftl_status status, const char *format,
                                    ...) __attribute__((format(printf, 3, 4)));
FTL_API void ftl_context_warn(ftl_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Frees text that the library handed over; NULL is fine. */
FTL_API void ftl_free(void *text);

#ifdef __cplusplus
}
#endif

#endif
