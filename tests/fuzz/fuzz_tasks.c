/* Any bytes: a file of tasks is read or refused with a place and a sentence, and what was read is
 * what the format promises.
 */
#include "evaluate/tasks.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds) {
    if (!holds) abort();
}

static void check_task(const task_list *list, int32_t at) {
    const evaluate_task *t = &list->items[at];
    insist(t->name[0] && strlen(t->name) < TASK_NAME_BYTES && !strpbrk(t->name, "/. \t\n"));
    insist(t->level < TASK_LEVEL_COUNT && t->line > 0 && strlen(t->hash) == 32);
    insist(t->words[0] && t->sketch[0] && t->sketch[strlen(t->sketch) - 1] == '\n');
    insist(t->pin_count >= 0 && t->pin_count <= TASK_PINS_MAX);
    for (int32_t i = 0; i < t->pin_count; i++) {
        int64_t value;
        insist(str_to_integer(str_from(t->pins[i].value), &value) && value > 0);
    }
    for (int32_t i = 0; i < at; i++) insist(strcmp(list->items[i].name, t->name) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    task_list list;
    task_error why = {0};
    bool is_read = tasks_read((str){(const char *)data, size}, &list, &why);
    insist(is_read ? list.count > 0 : why.line > 0 && why.text[0]);
    for (int32_t i = 0; is_read && i < list.count; i++) check_task(&list, i);
    tasks_done(&list);
    return 0;
}
