#include "layout/descriptor.h"

enum { LINES = 8 /* a swizzle repeats every 8 lines */ };

static unsigned swizzle_mode(int bytes) {
    return bytes == 128 ? 1 : bytes == 64 ? 2 : 3;
}

layout_fit descriptor_make(const shared_layout *tile, bool contracted_is_rows, descriptor *out) {
    *out = (descriptor){.tile = *tile};
    int bytes = tile->element_bits / 8, swizzle = tile->swizzle_bytes;
    if (bytes != 1 && bytes != 2) return (layout_fit){LAYOUT_BAD_BYTES, bytes, 2};
    if (swizzle == SHARED_UNIT_BYTES || tile->pitch_bytes != swizzle) {
        return (layout_fit){LAYOUT_BAD_BYTES, tile->pitch_bytes, swizzle};
    }
    out->mn = contracted_is_rows ? tile->columns : tile->rows;
    out->k = contracted_is_rows ? tile->rows : tile->columns;
    layout_status bad_k = contracted_is_rows ? LAYOUT_BAD_ROWS : LAYOUT_BAD_COLUMNS;
    layout_status bad_mn = contracted_is_rows ? LAYOUT_BAD_COLUMNS : LAYOUT_BAD_ROWS;
    out->transposed = contracted_is_rows != tile->by_columns;
    if (out->transposed && bytes == 1) return (layout_fit){LAYOUT_BAD_ORDER, bytes, 2};
    out->depth = DESCRIPTOR_DEPTH_BYTES / bytes;
    if (out->k % out->depth) return (layout_fit){bad_k, out->k, out->depth};
    if (out->mn % LINES) return (layout_fit){bad_mn, out->mn, LINES};
    out->stride_bytes = LINES * swizzle;
    int panel = shared_panel_bytes(tile);
    if (out->transposed) {
        out->leading_bytes = panel ? panel : shared_bytes(tile);
        out->run = out->k / out->depth, out->step_bytes = out->depth * swizzle;
        out->mn_unit = swizzle / bytes, out->mn_bytes = out->leading_bytes;
    } else {
        out->leading_bytes = SHARED_UNIT_BYTES; /* not looked at */
        out->run = swizzle / DESCRIPTOR_DEPTH_BYTES;
        out->step_bytes = DESCRIPTOR_DEPTH_BYTES, out->run_bytes = panel;
        out->mn_unit = LINES, out->mn_bytes = LINES * swizzle;
    }
    out->high = (unsigned)out->stride_bytes >> 4 | swizzle_mode(swizzle) << 30;
    return (layout_fit){LAYOUT_OK, 0, 0};
}

int descriptor_low_step(const descriptor *d, int mn, int step) {
    int bytes = step % d->run * d->step_bytes + step / d->run * d->run_bytes;
    return (bytes + mn / d->mn_unit * d->mn_bytes) / DESCRIPTOR_UNIT_BYTES;
}

/* The swizzle acts on the bits of the address; slots begin where it repeats. */
static int swizzled(const descriptor *d, int byte) {
    int units = d->tile.swizzle_bytes / SHARED_UNIT_BYTES - 1;
    return byte ^ (byte >> 7 & units) * SHARED_UNIT_BYTES;
}

/* The byte, relative to the slot's start, that the hardware reads for element (mn, k) of the step
 * and part whose low word has gained 'low_step'; mn and k count from there. For tests and
 * assertions: it must be what shared_offset says.
 */
static int descriptor_hardware_byte(const descriptor *d, int low_step, int mn, int k) {
    int byte = low_step * DESCRIPTOR_UNIT_BYTES, swizzle = d->tile.swizzle_bytes;
    int bytes = d->tile.element_bits / 8;
    if (d->transposed) {
        int width = swizzle / bytes;
        byte += mn / width * d->leading_bytes + mn % width * bytes;
        byte += k / LINES * d->stride_bytes + k % LINES * swizzle;
    } else {
        byte += mn / LINES * d->stride_bytes + mn % LINES * swizzle + k * bytes;
    }
    return swizzled(d, byte);
}

bool descriptor_agrees(const descriptor *d) {
    bool k_is_rows = d->transposed != d->tile.by_columns;
    for (int mn = 0; mn < d->mn; mn++) {
        for (int k = 0; k < d->k; k++) {
            layout_point place = k_is_rows ? (layout_point){k, mn} : (layout_point){mn, k};
            int from = mn / d->mn_unit * d->mn_unit;
            int step = descriptor_low_step(d, from, k / d->depth);
            int whole = descriptor_low_step(d, 0, k / d->depth);
            int expected = shared_offset(&d->tile, place), inside = k % d->depth;
            if (descriptor_hardware_byte(d, step, mn - from, inside) != expected) return false;
            if (descriptor_hardware_byte(d, whole, mn, inside) != expected) return false;
        }
    }
    return true;
}
