/* Results out: JSON lines, a Markdown table, a plot. */
#include "bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LENGTHS_MAX = 32 };

static bool is_fine(const bench_result *r, int contender) {
    return r->is_done && r->figures[contender].verdict == BENCH_FINE &&
           r->figures[contender].milliseconds > 0;
}

/* TFLOPS, or GB/s where nothing is multiplied. */
static double rate(const bench_result *r, int contender) {
    return r->what.flops > 0 ? r->figures[contender].tflops : r->figures[contender].gigabytes_per_s;
}

static void add_json_text(text_buffer *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') text_format(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20) text_add_z(out, " ");
        else text_format(out, "%c", *c);
    }
}

static void add_number(text_buffer *out, const char *name, double value, const char *format) {
    text_format(out, ",\"%s\":", name);
    if (isfinite(value)) text_format(out, format, value);
    else text_add_z(out, "null");
}

static void add_what(const bench_case *c, text_buffer *out) {
    const ftl_plan *plan = c->program->text.plan;
    text_add_z(out, "{\"name\":\"");
    add_json_text(out, c->name);
    text_add_z(out, "\",\"row\":\"");
    add_json_text(out, c->row);
    text_format(out, "\",\"kernel\":\"%s\",\"dtype\":\"%s\",\"length\":%" PRId64, plan->kernel,
                ftl_type_name(c->program->dtype), c->length);
    if (c->program->head_dim) {
        text_format(out, ",\"head_dim\":%d,\"value_dim\":%d", c->program->head_dim,
                    c->program->value_dim);
        char scores[SCORES_TEXT_BYTES];
        scores_print(c->scores, scores);
        text_format(out, ",\"scores\":\"%s\"", scores);
    }
    text_add_z(out, ",\"sizes\":{");
    for (int32_t i = 0; i < plan->size_count; i++) {
        text_format(out, "%s\"%s\":%" PRId64, i ? "," : "", plan->sizes[i].name, c->sizes[i]);
    }
    text_add_z(out, "}");
}

void bench_result_json(const bench_result *r, const bench_names *names, text_buffer *out) {
    for (int i = 0; r->is_done && i < names->count; i++) {
        const bench_figure *f = &r->figures[i];
        add_what(&r->what, out);
        text_add_z(out, ",\"gpu\":\"");
        add_json_text(out, names->gpu);
        text_format(out, "\",\"by\":\"%s\",\"verdict\":\"%s\"", names->contenders[i],
                    bench_verdict_name(f->verdict));
        if (is_fine(r, i)) {
            add_number(out, "milliseconds", f->milliseconds, "%.6f");
            add_number(out, "spread", f->spread, "%.4f");
            if (r->what.flops > 0) add_number(out, "tflops", f->tflops, "%.2f");
            add_number(out, "gigabytes_per_s", f->gigabytes_per_s, "%.1f");
            text_format(out, ",\"noisy\":%s,\"repeats\":%d", r->is_noisy ? "true" : "false",
                        r->repeats);
        }
        if (f->verdict != BENCH_ABSENT) {
            add_number(out, "error_before", f->error_before, "%.3g");
            add_number(out, "error_after", f->error_after, "%.3g");
        }
        if (f->why[0]) {
            text_add_z(out, ",\"why\":\"");
            add_json_text(out, f->why);
            text_add_z(out, "\"");
        }
        text_add_z(out, "}\n");
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool is_same_row(const bench_case *a, const bench_case *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->row, b->row) == 0;
}

/* Of the rows in which something was measured. */
static bool is_first_of_row(const bench_result *results, int i) {
    if (!results[i].is_done) return false;
    for (int before = 0; before < i; before++) {
        if (results[before].is_done && is_same_row(&results[before].what, &results[i].what))
            return false;
    }
    return true;
}

static int list_lengths(const bench_result *results, int count, int64_t lengths[LENGTHS_MAX]) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        if (!results[i].is_done) continue;
        while (k < found && lengths[k] != results[i].what.length) k++;
        if (k == found && found < LENGTHS_MAX) lengths[found++] = results[i].what.length;
    }
    return found;
}

static const bench_result *find_cell(const bench_result *results, int count, const bench_case *row,
                                     int64_t length) {
    for (int i = 0; i < count; i++) {
        if (is_same_row(&results[i].what, row) && results[i].what.length == length) {
            return &results[i];
        }
    }
    return NULL;
}

/* --- the table -------------------------------------------------------------------------------- */

static void add_figure(const bench_result *r, int contender, text_buffer *out) {
    if (!r || !r->is_done) text_add_z(out, " |");
    else if (!is_fine(r, contender)) {
        bench_verdict verdict = r->figures[contender].verdict;
        text_format(out, " %s |", verdict == BENCH_ABSENT ? "–" : bench_verdict_name(verdict));
    } else text_format(out, " %.0f%s |", rate(r, contender), r->is_noisy ? "~" : "");
}

static void add_line(const bench_result *results, int count, const bench_case *row,
                     const int64_t *lengths, int columns, int contender, const bench_names *names,
                     text_buffer *out) {
    text_format(out, "| %s | %s | %s, %s |", row->name, row->row, names->contenders[contender],
                row->flops > 0 ? "TFLOPS" : "GB/s");
    for (int k = 0; k < columns; k++) {
        add_figure(find_cell(results, count, row, lengths[k]), contender, out);
    }
    text_add_z(out, "\n");
}

static void add_ratios(const bench_result *results, int count, const bench_case *row,
                       const int64_t *lengths, int columns, int rival, const bench_names *names,
                       text_buffer *out) {
    text_format(out, "| %s | %s | %s / %s |", row->name, row->row, names->contenders[0],
                names->contenders[rival]);
    for (int k = 0; k < columns; k++) {
        const bench_result *r = find_cell(results, count, row, lengths[k]);
        if (r && is_fine(r, 0) && is_fine(r, rival)) {
            text_format(out, " **%.3f** |",
                        r->figures[rival].milliseconds / r->figures[0].milliseconds);
        } else text_add_z(out, " – |");
    }
    text_add_z(out, "\n");
}

static void add_means(const bench_result *results, int count, const bench_names *names,
                      text_buffer *out) {
    for (int rival = 1; rival < names->count; rival++) {
        double sum = 0, least = INFINITY;
        int cells = 0;
        for (int i = 0; i < count; i++) {
            if (!is_fine(&results[i], 0) || !is_fine(&results[i], rival)) continue;
            double ratio =
                results[i].figures[rival].milliseconds / results[i].figures[0].milliseconds;
            sum += log(ratio);
            least = fmin(least, ratio);
            cells++;
        }
        if (cells == 0) continue;
        text_format(out, "\n%s / %s: geometric mean %.3f, least %.3f, %d cells.\n",
                    names->contenders[0], names->contenders[rival], exp(sum / cells), least, cells);
    }
}

static void add_remarks(const bench_result *results, int count, const bench_names *names,
                        text_buffer *out) {
    bool is_any_noisy = false;
    char shown[FTL_WHY_BYTES] = "";
    for (int i = 0; i < count; i++) {
        is_any_noisy = is_any_noisy || (results[i].is_done && results[i].is_noisy);
        for (int k = 0; results[i].is_done && k < names->count; k++) {
            const bench_figure *f = &results[i].figures[k];
            if (f->verdict == BENCH_FINE || strcmp(f->why, shown) == 0) continue;
            text_format(out, "\n%s, %s, %s, %" PRId64 ": %s: %s\n", names->contenders[k],
                        results[i].what.name, results[i].what.row, results[i].what.length,
                        bench_verdict_name(f->verdict), f->why);
            memcpy(shown, f->why, sizeof shown);
        }
    }
    if (is_any_noisy) {
        text_add_z(out, "\n~: rounds spread by more than a tenth, also when taken anew.\n");
    }
}

void bench_table(const bench_result *results, int count, const bench_names *names,
                 text_buffer *out) {
    int64_t lengths[LENGTHS_MAX];
    int columns = list_lengths(results, count, lengths);
    text_add_z(out, "| operator | case | |");
    for (int k = 0; k < columns; k++) text_format(out, " %" PRId64 " |", lengths[k]);
    text_add_z(out, "\n|---|---|---|");
    for (int k = 0; k < columns; k++) text_add_z(out, "---|");
    text_add_z(out, "\n");
    for (int i = 0; i < count; i++) {
        const bench_case *row = &results[i].what;
        if (!is_first_of_row(results, i)) continue;
        for (int k = 0; k < names->count; k++) {
            add_line(results, count, row, lengths, columns, k, names, out);
        }
        for (int k = 1; k < names->count; k++) {
            add_ratios(results, count, row, lengths, columns, k, names, out);
        }
    }
    add_means(results, count, names, out);
    add_remarks(results, count, names, out);
}

/* --- the plot --------------------------------------------------------------------------------- */

enum { PANEL_COLUMNS = 3, PANEL_WIDTH = 460, PANEL_HEIGHT = 320 };

static void add_panel(const bench_result *results, int count, const bench_case *row,
                      const bench_names *names, text_buffer *out) {
    text_buffer data;
    text_init(&data, 1 << 20);
    text_add_z(out, "set title ");
    char title[BENCH_NAME_BYTES + BENCH_ROW_BYTES + 4];
    snprintf(title, sizeof title, "%s: %s", row->name, row->row);
    text_add_quoted(out, title);
    text_format(out, " noenhanced\nset ylabel '%s'\nplot", row->flops > 0 ? "TFLOPS" : "GB/s");
    for (int k = 0; k < names->count; k++) {
        text_format(out, "%s '-' using 1:2 with linespoints lw 2 title ", k ? "," : "");
        text_add_quoted(out, names->contenders[k]);
        for (int i = 0; i < count; i++) {
            if (!is_same_row(&results[i].what, row)) continue;
            if (is_fine(&results[i], k)) {
                text_format(&data, "%" PRId64 " %.2f\n", results[i].what.length,
                            rate(&results[i], k));
            } else {
                text_format(&data, "%" PRId64 " NaN\n", results[i].what.length);
            }
        }
        text_add_z(&data, "e\n");
    }
    text_add_z(out, "\n");
    text_add(out, text_str(&data));
    text_done(&data);
}

void bench_plot(const bench_result *results, int count, const bench_names *names, const char *path,
                text_buffer *out) {
    int panels = 0;
    for (int i = 0; i < count; i++) panels += is_first_of_row(results, i);
    int columns = panels < PANEL_COLUMNS ? panels : PANEL_COLUMNS;
    if (columns == 0) return;
    int lines = (panels + columns - 1) / columns;
    text_format(out, "set terminal svg size %d,%d dynamic background 'white'\nset output ",
                columns * PANEL_WIDTH, lines * PANEL_HEIGHT);
    text_add_quoted(out, path);
    text_format(out,
                "\nset multiplot layout %d,%d\nset logscale x 2\nset format x '%%.0f'\n"
                "set xlabel 'length'\nset key bottom right\nset grid\nset yrange [0:*]\n",
                lines, columns);
    for (int i = 0; i < count; i++) {
        if (is_first_of_row(results, i)) add_panel(results, count, &results[i].what, names, out);
    }
    text_add_z(out, "unset multiplot\n");
}
