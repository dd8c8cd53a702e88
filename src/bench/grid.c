#include "bench/grid.h"

#include <stdio.h>
#include <string.h>

typedef struct grid_row {
    const char *grid, *name;
    int32_t q_heads, kv_heads, head_dim, value_dim;
    bool is_causal;
} grid_row;

static const grid_row rows[] = {
#define GRID_ROW(grid, name, q_heads, kv_heads, head_dim, value_dim, causal)                       \
    {grid, name, q_heads, kv_heads, head_dim, value_dim, causal},
#define GRID_DECODE(name, batch, q_heads, kv_heads, head_dim)
#include "bench/grids.def"
#undef GRID_ROW
#undef GRID_DECODE
};

typedef struct decode_row {
    const char *name;
    int64_t batch;
    int32_t q_heads, kv_heads, head_dim;
} decode_row;

static const decode_row decode_rows[] = {
#define GRID_ROW(grid, name, q_heads, kv_heads, head_dim, value_dim, causal)
#define GRID_DECODE(name, batch, q_heads, kv_heads, head_dim)                                      \
    {name, batch, q_heads, kv_heads, head_dim},
#include "bench/grids.def"
#undef GRID_ROW
#undef GRID_DECODE
};

static int decode_grid(grid_cell *cells, int most) {
    int count = 0;
    for (size_t i = 0; i < sizeof decode_rows / sizeof *decode_rows; i++) {
        const decode_row *row = &decode_rows[i];
        for (int64_t keys = GRID_DECODE_SHORTEST; keys <= GRID_DECODE_LONGEST; keys *= 4) {
            if (keys * row->batch > GRID_DECODE_KEYS || count == most) continue;
            grid_cell *c = &cells[count++];
            *c = (grid_cell){.batch = row->batch,
                             .length = keys,
                             .q_heads = row->q_heads,
                             .kv_heads = row->kv_heads,
                             .head_dim = row->head_dim,
                             .value_dim = row->head_dim,
                             .is_decode = true};
            snprintf(c->name, sizeof c->name, "%s", row->name);
        }
    }
    return count;
}

static int shipped_grid(const char *grid, grid_cell *cells, int most) {
    int count = 0;
    if (strcmp(grid, "decode") == 0) return decode_grid(cells, most);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const grid_row *row = &rows[i];
        if (strcmp(row->grid, grid) != 0) continue;
        for (int64_t length = GRID_SHORTEST; length <= GRID_TOKENS && count < most; length *= 2) {
            grid_cell *c = &cells[count++];
            *c = (grid_cell){.batch = GRID_TOKENS / length,
                             .length = length,
                             .q_heads = row->q_heads,
                             .kv_heads = row->kv_heads,
                             .head_dim = row->head_dim,
                             .value_dim = row->value_dim,
                             .is_causal = row->is_causal};
            snprintf(c->name, sizeof c->name, "%s", row->name);
        }
    }
    return count;
}

static bool read_size(str text, int64_t most, int64_t *value) {
    return str_to_integer(text, value) && *value >= 1 && *value <= most;
}

static bool read_line(str line, grid_cell *out) {
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
        sizes[2] % sizes[3] == 0 && (str_is(words[6], "causal") || str_is(words[6], "full"));
    if (!is_right) return false;
    *out = (grid_cell){.batch = sizes[0],
                       .length = sizes[1],
                       .q_heads = (int32_t)sizes[2],
                       .kv_heads = (int32_t)sizes[3],
                       .head_dim = (int32_t)sizes[4],
                       .value_dim = (int32_t)sizes[5],
                       .is_causal = str_is(words[6], "causal")};
    snprintf(out->name, sizeof out->name, "%.*s", STR_ARGS(words[0]));
    return true;
}

int grid_read(const char *grid, str text, grid_cell *cells, int most, char why[FTL_WHY_BYTES]) {
    int count = text.data ? 0 : shipped_grid(grid, cells, most);
    if (count) return count;
    if (!text.data) {
        snprintf(why, FTL_WHY_BYTES, "there is no grid '%s': paper, llm, decode, or a file", grid);
        return -1;
    }
    for (int line_number = 1; text.length; line_number++) {
        str line = str_cut(&text, '\n');
        line = str_trim(str_cut(&line, '#'));
        if (!line.length) continue;
        if (count == most || !read_line(line, &cells[count])) {
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
