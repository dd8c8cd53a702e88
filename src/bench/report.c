/* Grids in, results out: lines of a grid, JSON, a Markdown table, a plot. */
#include "bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 16384, SHORTEST = 512, LENGTHS_MAX = 16 };

typedef struct grid_row {
    const char *grid, *name;
    int32_t q_heads, kv_heads, head_dim, value_dim;
    bool causal;
} grid_row;

static const grid_row rows[] = {
#define GRID_ROW(grid, name, q_heads, kv_heads, head_dim, value_dim, causal)                       \
    {grid, name, q_heads, kv_heads, head_dim, value_dim, causal},
#include "bench/grids.def"
#undef GRID_ROW
};

static int shipped_grid(const char *grid, ftl_type dtype, bench_case *cases, int most) {
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const grid_row *row = &rows[i];
        if (strcmp(row->grid, grid) != 0) continue;
        for (int64_t length = SHORTEST; length <= TOKENS && count < most; length *= 2) {
            bench_case *c = &cases[count++];
            *c = (bench_case){.batch = TOKENS / length,
                              .length = length,
                              .q_heads = row->q_heads,
                              .kv_heads = row->kv_heads,
                              .head_dim = row->head_dim,
                              .value_dim = row->value_dim,
                              .causal = row->causal,
                              .dtype = dtype};
            snprintf(c->name, sizeof c->name, "%s", row->name);
        }
    }
    return count;
}

static bool read_size(str text, int64_t most, int64_t *value) {
    return str_to_integer(text, value) && *value >= 1 && *value <= most;
}

/* "NAME BATCH LENGTH Q_HEADS KV_HEADS D[:DV] causal|full" */
static bool read_line(str line, ftl_type dtype, bench_case *out) {
    str words[7];
    int count = 0;
    while (line.length && count < 7) {
        str word = str_cut(&line, ' ');
        if (word.length) words[count++] = word;
    }
    if (count != 7 || str_trim(line).length) return false;
    str value = words[5], key = str_cut(&value, ':');
    int64_t sizes[6];
    bool is_right =
        read_size(words[1], 1 << 20, &sizes[0]) && read_size(words[2], 1 << 24, &sizes[1]) &&
        read_size(words[3], 4096, &sizes[2]) && read_size(words[4], 4096, &sizes[3]) &&
        read_size(key, 4096, &sizes[4]) && read_size(value.length ? value : key, 4096, &sizes[5]) &&
        (str_is(words[6], "causal") || str_is(words[6], "full"));
    if (!is_right) return false;
    *out = (bench_case){.batch = sizes[0],
                        .length = sizes[1],
                        .q_heads = (int32_t)sizes[2],
                        .kv_heads = (int32_t)sizes[3],
                        .head_dim = (int32_t)sizes[4],
                        .value_dim = (int32_t)sizes[5],
                        .causal = str_is(words[6], "causal"),
                        .dtype = dtype};
    snprintf(out->name, sizeof out->name, "%.*s", STR_ARGS(words[0]));
    return true;
}

int bench_grid(const char *grid, str text, ftl_type dtype, bench_case *cases, int most,
               char why[FTL_WHY_BYTES]) {
    int count = text.data ? 0 : shipped_grid(grid, dtype, cases, most);
    if (count) return count;
    if (!text.data) {
        snprintf(why, FTL_WHY_BYTES, "there is no grid '%s': paper, llm, or a file", grid);
        return -1;
    }
    for (int line_number = 1; text.length; line_number++) {
        str line = str_cut(&text, '\n');
        line = str_trim(str_cut(&line, '#'));
        if (!line.length) continue;
        if (count == most || !read_line(line, dtype, &cases[count])) {
            snprintf(why, FTL_WHY_BYTES,
                     "%s:%d: expected 'NAME BATCH LENGTH Q_HEADS KV_HEADS D[:DV] causal|full', "
                     "found '%.*s'",
                     grid, line_number, STR_ARGS(line));
            return -1;
        }
        count++;
    }
    return count;
}

void bench_result_json(const bench_result *r, const char *gpu, text_buffer *out) {
    const bench_case *c = &r->what;
    text_format(out,
                "{\"name\":\"%s\",\"gpu\":\"%s\",\"dtype\":\"%s\",\"batch\":%" PRId64
                ",\"length\":%" PRId64 ",\"q_heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,"
                "\"value_dim\":%d,\"causal\":%s,\"milliseconds\":%.6f,\"fastest\":%.6f,"
                "\"slowest\":%.6f,\"tflops\":%.1f,\"stable\":%s}\n",
                c->name, gpu, ftl_type_name(c->dtype), c->batch, c->length, c->q_heads, c->kv_heads,
                c->head_dim, c->value_dim, c->causal ? "true" : "false", r->milliseconds,
                r->fastest_ms, r->slowest_ms, r->is_possible ? r->tflops : 0,
                r->is_stable ? "true" : "false");
}

static bool is_same_row(const bench_case *a, const bench_case *b) {
    return strcmp(a->name, b->name) == 0 && a->q_heads == b->q_heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->value_dim == b->value_dim && a->causal == b->causal;
}

static int list_lengths(const bench_result *results, int count, int64_t lengths[LENGTHS_MAX]) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < found && lengths[k] != results[i].what.length) k++;
        if (k == found && found < LENGTHS_MAX) lengths[found++] = results[i].what.length;
    }
    return found;
}

static void add_cell(const bench_result *r, text_buffer *out) {
    if (!r->is_stable) text_add_z(out, " unstable |");
    else if (!r->is_possible) text_add_z(out, " impossible |");
    else text_format(out, " %.0f |", r->tflops);
}

void bench_table(const bench_result *results, int count, text_buffer *out) {
    int64_t lengths[LENGTHS_MAX];
    int columns = list_lengths(results, count, lengths);
    text_add_z(out, "| operator | heads q/kv | d_qk/d_v | mask |");
    for (int k = 0; k < columns; k++) text_format(out, " %" PRId64 " |", lengths[k]);
    text_add_z(out, "\n|---|---|---|---|");
    for (int k = 0; k < columns; k++) text_add_z(out, "---|");
    text_add_z(out, "\n");
    for (int i = 0; i < count; i++) {
        const bench_case *c = &results[i].what;
        bool is_first = true;
        for (int before = 0; before < i; before++) {
            is_first = is_first && !is_same_row(&results[before].what, c);
        }
        if (!is_first) continue;
        text_format(out, "| %s | %d/%d | %d/%d | %s |", c->name, c->q_heads, c->kv_heads,
                    c->head_dim, c->value_dim, c->causal ? "causal" : "full");
        for (int k = 0; k < columns; k++) {
            const bench_result *cell = NULL;
            for (int r = 0; r < count; r++) {
                if (is_same_row(&results[r].what, c) && results[r].what.length == lengths[k]) {
                    cell = &results[r];
                }
            }
            if (cell) add_cell(cell, out);
            else text_add_z(out, " |");
        }
        text_add_z(out, "\n");
    }
}

void bench_plot(const bench_result *results, int count, const char *path, text_buffer *out) {
    text_format(
        out,
        "set terminal svg size 900,540 dynamic\nset output '%s'\nset logscale x 2\n"
        "set xlabel 'length'\nset ylabel 'TFLOPS'\nset key outside\nset grid\nset yrange [0:*]\n",
        path);
    text_buffer data;
    text_init(&data, 1 << 20);
    const char *comma = "plot";
    for (int i = 0; i < count; i++) {
        const bench_case *c = &results[i].what;
        bool is_first = i == 0 || !is_same_row(&results[i - 1].what, c);
        if (!is_first) continue;
        text_format(out, "%s '-' using 1:2 with linespoints title '%s %d/%d d %d %s'", comma,
                    c->name, c->q_heads, c->kv_heads, c->head_dim, c->causal ? "causal" : "full");
        comma = ",";
        for (int r = i; r < count && is_same_row(&results[r].what, c); r++) {
            text_format(&data, "%" PRId64 " %.2f\n", results[r].what.length, results[r].tflops);
        }
        text_add_z(&data, "e\n");
    }
    text_add_z(out, "\n");
    text_add(out, text_str(&data));
    text_done(&data);
}
