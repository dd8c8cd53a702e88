#include "reason/panels.h"

enum { UNIT_BYTES = 16 };

int panels_dividing(int64_t line_bytes) {
    for (int swizzle = PANELS_MOST_BYTES; swizzle >= PANELS_LEAST_BYTES; swizzle /= 2)
        if (line_bytes % swizzle == 0) return swizzle;
    return 0;
}

int panels_swizzle(int64_t line_bytes, int64_t widest) {
    int divides = panels_dividing(line_bytes), swizzle = PANELS_LEAST_BYTES;
    if (line_bytes % UNIT_BYTES != 0) return 0;
    while (swizzle < widest && swizzle < PANELS_MOST_BYTES && swizzle < line_bytes) swizzle *= 2;
    return swizzle > divides ? swizzle : divides;
}

int64_t panels_line_bytes(int64_t line_bytes, int swizzle) {
    return swizzle > 0 ? (line_bytes + swizzle - 1) / swizzle * swizzle : line_bytes;
}

bool panels_may_be_open(reason *r, const tiles_list *tiles, const tiles_tile *tile) {
    int64_t extent, length;
    if (tile->axis_count != 2) return false;
    const tiles_span *span = tiles_extent(tiles, tile->axes[tile->axis_count - 1]);
    return span && reason_known(r, span->extent, &extent) &&
           reason_known(r, span->length, &length) && extent >= length;
}
