/* What models are evaluated on: requests in plain words, each with the sketch that it means.
 *
 * A file of tasks is Markdown. What is before the first heading of the second level is for
 * readers; then come tasks:
 *
 *     ## NAME (LEVEL, SIZE=VALUE, ...)       level: easy, medium or hard; sizes may be left out
 *
 *     The request in plain words.
 *
 *     ```tl
 *     the reference
 *     ```
 */
#ifndef FLASHTL_EVALUATE_TASKS_H
#define FLASHTL_EVALUATE_TASKS_H

#include "base/text.h"
#include "flashtl/flashtl.h"

enum { TASKS_MAX = 1000, TASKS_BYTES_MAX = 4 << 20, TASK_NAME_BYTES = 64, TASK_PINS_MAX = 10 };

#define TASK_LEVEL_LIST(LEVEL)                                                                     \
    LEVEL(EASY, "easy")                                                                            \
    LEVEL(MEDIUM, "medium")                                                                        \
    LEVEL(HARD, "hard")

typedef enum task_level {
#define LEVEL(id, name) TASK_##id,
    TASK_LEVEL_LIST(LEVEL)
#undef LEVEL
        TASK_LEVEL_COUNT
} task_level;

const char *task_level_name(task_level level);
/* False when it is none. */
bool task_level_read(str name, task_level *out);

typedef struct evaluate_task {
    char name[TASK_NAME_BYTES]; /* letters, digits, '_', '-' */
    task_level level;
    const char *words, *sketch;
    ftl_pin pins[TASK_PINS_MAX]; /* its own; head dimensions d and dv are 64 */
    int32_t pin_count;
    int line;      /* of the heading, from 1 */
    char hash[33]; /* of all that decides a result: words, sketch, pins */
} evaluate_task;

typedef struct task_list {
    evaluate_task *items;
    int32_t count;
    arena memory; /* of the texts */
} task_list;

typedef struct task_error {
    int line;
    bool is_out_of_memory; /* the text may be right */
    char text[256];
} task_error;

/* False, with the place and a sentence, where the text is no file of tasks; free the list with
 * tasks_done in both cases.
 */
bool tasks_read(str text, task_list *out, task_error *why);
void tasks_done(task_list *list);

#endif
