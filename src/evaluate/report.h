/* Figures as Markdown, as JSON lines and as a plot. */
#ifndef FLASHTL_EVALUATE_REPORT_H
#define FLASHTL_EVALUATE_REPORT_H

#include "evaluate/figures.h"

/* One table: a row for each model and setting. */
void report_table(const figures_table *t, text_buffer *out);
/* A page: what was done ('what', of evaluate_key), the table, levels, tasks, what failed, and what
 * the columns mean.
 */
void report_page(const figures_table *t, const char *what, text_buffer *out);
/* An object for each model and setting, then for each of them and each task. */
void report_json(const figures_table *t, text_buffer *out);
/* A script of gnuplot: pass@1 of each setting, a bar for each model. */
void report_plot(const figures_table *t, const char *path, text_buffer *out);

/* The tasks: name, level, and how the request begins. */
void report_tasks(const evaluate_request *r, text_buffer *out);
void report_tasks_json(const evaluate_request *r, text_buffer *out);

#endif
