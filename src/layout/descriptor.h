/* Operands of asynchronous products (wgmma): how the instruction finds a tile in shared memory.
 *
 * A product m64nNk16 (of 8 bits: m64nNk32) reads each operand from shared memory through a 64-bit
 * descriptor: a start address and two distances. The tile is swizzled 32, 64 or 128 and is in
 * panels of that many bytes a line (layout/shared.h). Where the contracted axis is the contiguous
 * one the operand is "K-major"; else it is "transposed", and the instruction is told so: of 16
 * bits, for those of 8 have no such form.
 *
 *     low word  = (start >> 4) | leading_bytes >> 4 << 16        start: address of the tile's slot
 *                                                                plus the offsets below
 *     high word = stride_bytes >> 4 | swizzle mode << 30         a constant
 *
 * Low words are sums: descriptor_low_step gives what a step of the contraction, and a share of the
 * other axis, add to the low word of the tile's beginning.
 */
#ifndef FLASHTL_LAYOUT_DESCRIPTOR_H
#define FLASHTL_LAYOUT_DESCRIPTOR_H

#include "layout/shared.h"

enum { DESCRIPTOR_DEPTH_BYTES = 32, DESCRIPTOR_UNIT_BYTES = 16 };

typedef struct descriptor {
    shared_layout tile;
    bool transposed;
    int mn, k; /* extents: of the rows of A or columns of B, and of the contracted axis */
    int depth; /* elements of k that an instruction takes: a step */
    int leading_bytes, stride_bytes;
    unsigned high;
    /* Step i along k adds i % run * step_bytes + i / run * run_bytes. */
    int run, step_bytes, run_bytes;
    /* mn moves in multiples of mn_unit elements, each adding mn_bytes. */
    int mn_unit, mn_bytes;
} descriptor;

/* 'contracted_is_rows': the tile is (k, mn) instead of (mn, k). Elements of 16 or 8 bits. */
layout_fit descriptor_make(const shared_layout *tile, bool contracted_is_rows, descriptor *out);

/* In units of 16 bytes: what the low word gains at a step along k for the part that begins at 'mn',
 * a multiple of mn_unit.
 */
int descriptor_low_step(const descriptor *d, int mn, int step);

/* Compares all of them; asserted by who prints the formula. */
bool descriptor_agrees(const descriptor *d);

#endif
