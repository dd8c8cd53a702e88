/* Lines of a text in lists, with what marks them: which statements they are about, and bars in the
 * margin.
 */
#ifndef FLASHTL_VIEW_LINE_H
#define FLASHTL_VIEW_LINE_H

#include "base/arena.h"
#include "base/json.h"

typedef LIST(int) line_numbers;

/* Where lines go, and how many are in the list that is open. */
typedef struct line_list {
    text_buffer *out;
    int listed;
} line_list;

typedef struct line_look {
    const char *prefix; /* of the lines' ids */
    const char *class;  /* "" or what is special about the line */
    const json_t *counts;
    long long most;
    long long waits, most_waits; /* clocks, predicted */
} line_look;

void line_open_list(line_list *l);
void line_close_list(line_list *l);
void line_open(line_list *l, int line, const line_numbers *about, line_look how);

/* An attribute that has the numbers; nothing where there are none. */
void line_add_numbers(text_buffer *out, const char *key, const line_numbers *list);

/* What the bar of such counts is as long as. */
long long line_cost(const json_t *counts);

#endif
