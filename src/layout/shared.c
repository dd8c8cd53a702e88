#include "layout/shared.h"

#include <assert.h>

static bool is_power_of_two(int value) {
    return value > 0 && (value & (value - 1)) == 0;
}

static int log2_exact(int value) {
    return __builtin_ctz((unsigned)value);
}

layout_fit shared_make(int rows, int columns, int element_bits, int swizzle_bytes, bool by_columns,
                       int padding_bytes, shared_layout *out) {
    *out = (shared_layout){0};
    if (swizzle_bytes == 0) swizzle_bytes = SHARED_UNIT_BYTES;
    if (rows < 1 || rows > LAYOUT_EXTENT_MAX) return (layout_fit){LAYOUT_BAD_ROWS, rows, 0};
    if (columns < 1 || columns > LAYOUT_EXTENT_MAX) {
        return (layout_fit){LAYOUT_BAD_COLUMNS, columns, 0};
    }
    if (!is_power_of_two(element_bits) || element_bits < 4 || element_bits > 64) {
        return (layout_fit){LAYOUT_BAD_BYTES, element_bits / 8, 1};
    }
    if (!is_power_of_two(swizzle_bytes) || swizzle_bytes < SHARED_UNIT_BYTES ||
        swizzle_bytes > SHARED_SWIZZLE_MAX) {
        return (layout_fit){LAYOUT_BAD_BYTES, swizzle_bytes, SHARED_UNIT_BYTES};
    }
    int64_t pitch = (int64_t)(by_columns ? rows : columns) * element_bits / 8 + padding_bytes;
    if (padding_bytes < 0 || padding_bytes > LAYOUT_EXTENT_MAX || pitch % swizzle_bytes ||
        pitch * (by_columns ? columns : rows) > INT32_MAX) {
        return (layout_fit){LAYOUT_BAD_BYTES, (int)pitch, swizzle_bytes};
    }
    *out = (shared_layout){.rows = rows,
                           .columns = columns,
                           .element_bits = element_bits,
                           .pitch_bytes = (int)pitch,
                           .swizzle_bytes = swizzle_bytes,
                           .by_columns = by_columns};
    return (layout_fit){LAYOUT_OK, 0, 0};
}

layout_fit shared_make_panels(int rows, int columns, int element_bits, int swizzle_bytes,
                              bool by_columns, shared_layout *out) {
    int64_t line = (int64_t)(by_columns ? rows : columns) * element_bits / 8;
    if (swizzle_bytes <= SHARED_UNIT_BYTES || swizzle_bytes > SHARED_SWIZZLE_MAX ||
        line % SHARED_UNIT_BYTES) {
        *out = (shared_layout){0};
        return (layout_fit){LAYOUT_BAD_BYTES, (int)line, swizzle_bytes};
    }
    int open = (int)((swizzle_bytes - line % swizzle_bytes) % swizzle_bytes);
    layout_fit fit = shared_make(rows, columns, element_bits, swizzle_bytes, by_columns, open, out);
    if (fit.status != LAYOUT_OK) return fit;
    out->panels = out->pitch_bytes / out->swizzle_bytes;
    out->pitch_bytes = out->swizzle_bytes;
    return fit;
}

int shared_lines(const shared_layout *l) {
    return l->by_columns ? l->columns : l->rows;
}

int shared_line_bytes(const shared_layout *l) {
    return (l->by_columns ? l->rows : l->columns) * l->element_bits / 8;
}

bool shared_is_open(const shared_layout *l) {
    return l->panels > 0 && shared_line_bytes(l) % l->pitch_bytes != 0;
}

int shared_bytes(const shared_layout *l) {
    return shared_lines(l) * l->pitch_bytes * (l->panels ? l->panels : 1);
}

int shared_panel_bytes(const shared_layout *l) {
    return l->panels ? shared_lines(l) * l->pitch_bytes : 0;
}

int shared_line_xor(const shared_layout *l, int line) {
    int bits = log2_exact(l->swizzle_bytes / SHARED_UNIT_BYTES);
    return ((line & 7) >> (3 - bits)) * SHARED_UNIT_BYTES;
}

int shared_offset(const shared_layout *l, layout_point place) {
    int line = l->by_columns ? place.column : place.row;
    int byte = (l->by_columns ? place.row : place.column) * l->element_bits / 8;
    int panel = l->panels ? byte / l->pitch_bytes : 0;
    byte -= panel * l->pitch_bytes;
    return panel * shared_panel_bytes(l) + line * l->pitch_bytes +
           (byte ^ shared_line_xor(l, line));
}
