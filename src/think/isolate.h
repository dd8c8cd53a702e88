/* Work in a child process: what hangs, crashes or eats memory there does so alone. */
#ifndef FLASHTL_THINK_ISOLATE_H
#define FLASHTL_THINK_ISOLATE_H

#include "base/os.h"

#include <jansson.h>

typedef struct isolate_limits {
    double silence_s;    /* without a beat of the watch */
    double cpu_s;        /* of the child; 0: none */
    size_t memory_bytes; /* of its address space; 0: none (a CUDA context maps terabytes) */
    const volatile sig_atomic_t *stop;                  /* as of os_guard */
    void (*on_tick)(void *user, const os_watch *watch); /* likewise */
    void *user;
} isolate_limits;

typedef enum isolate_end {
    ISOLATE_DONE,
    ISOLATE_STOPPED,  /* or crashed: the doing of what ran there */
    ISOLATE_NO_RESULT /* it could not start, or ended by itself without a result: no memory, no room
                       */
} isolate_end;

/* Runs 'work' in a child; what it returns comes back as *result (a new reference). With a sentence
 * where it did not.
 */
isolate_end isolate_run(json_t *(*work)(void *user, os_watch *watch), void *user,
                        const isolate_limits *limits, json_t **result, os_error *why);

#endif
