/* Drawings of a page: what candidates were predicted, who has which bytes when, what runs when. */
#ifndef FLASHTL_VIEW_FIGURES_H
#define FLASHTL_VIEW_FIGURES_H

#include "base/json.h"

/* A decision's table: all of its cells, and bars of what they say where they can be compared. */
void view_add_table(text_buffer *out, const json_t *table);

/* Shared memory of a kernel from statement to statement; 'base' is the number of its first one. */
void view_add_memory(text_buffer *out, const json_t *kernel, int base);

/* What runs when in a kernel's first two tiles, as predicted, or why that is not known. */
void view_add_timeline(text_buffer *out, const json_t *kernel, int base);

#endif
