/* How the threads of a kernel address a shared tile, with few registers.
 *
 * An access is a thread's own offset, computed once, and per instruction two constants:
 *
 *     byte offset inside the tile = add_bytes + (own(warp, lane) ^ xor_bytes)
 *     own(warp, lane)   = line*pitch_bytes + (byte ^ line_xor(line))
 *     and in panels     = line*pitch_bytes + (byte % swizzle_bytes ^ line_xor(line))
 *                         + byte / swizzle_bytes * panel_bytes
 *     line              = lane_line(lane) + sum of share*lines    over 'shares'
 *     byte              = lane_byte(lane) + sum of share*bytes
 *     share             = warp / divisor % count
 *     line_xor(line)    = ((line & 7) >> swizzle_shift) << 4      (0 when swizzle_bytes is 16)
 *
 * Steps with the same xor_bytes share one address register: of a tile swizzled 128 an ldmatrix.x4
 * needs 4, whatever the tile's size. The tile must start at a multiple of swizzle_bytes.
 * lane_line and lane_byte are written with bitmatrix_terms.
 */
#ifndef FLASHTL_LAYOUT_ACCESS_H
#define FLASHTL_LAYOUT_ACCESS_H

#include "layout/shared.h"

/* What a warp adds to its lanes' place. A count of 1: nothing. */
typedef struct access_share {
    int divisor, count, lines, bytes;
} access_share;

typedef struct access_threads {
    bitmatrix lane_line, lane_byte;
    access_share shares[2];
    int warps;
    int pitch_bytes, swizzle_bytes, swizzle_shift;
    int panel_bytes; /* from panel to panel; 0: lines are whole, or there is one */
} access_threads;

typedef struct access_step {
    int xor_bytes, add_bytes;
} access_step;

/* What a multiple of swizzle_bytes along a line comes to. */
int access_beyond(const access_threads *threads, int byte);

/* --- registers to shared and back, in any register layout ------------------------------------- */

/* Serves `lines` copies (cp.async, 16-byte loads and stores: the shared side) and fragments. */
typedef struct access_copy {
    access_threads threads;
    layout registers;
    shared_layout tile;
    int bytes;    /* of one access: the widest both sides allow */
    int elements; /* of one access */
    int count;    /* accesses per thread */
} access_copy;

/* 'registers' has the tile's extents. max_bytes limits the width (16; 4 for 32-bit stores). */
layout_fit access_copy_make(const layout *registers, const shared_layout *tile, int max_bytes,
                            access_copy *out);
/* Access 'index' moves the elements [index*elements, (index + 1)*elements). Skip it where
 * layout_inside(registers, own + layout_step(index*elements)) is false.
 */
access_step access_copy_step(const access_copy *copy, int index);

/* --- operands of a product, by ldmatrix ------------------------------------------------------- */

/* A 16-bit operand in shared memory. Its axes are called mn (m of A, n of B) and k (contracted).
 * Everything counts in 8x8 matrices of this warp's share: mn8, k8.
 *
 * Of 8 bits, two elements count as one of 16, along the contiguous axis: where that is contracted,
 * a matrix is 8 by 16, and fragments of k32 are those of k16 of 16 bits. A right operand that lies
 * across gives matrices of 16 columns: of those of k 0 ... 7 and k 8 ... 15 the lower bytes are a
 * fragment of the even columns, the upper ones of the odd ones, in the order of an accumulator, or,
 * `in_order`, in that of the left operand's own fragments.
 */
typedef struct access_operand_request {
    bool right;              /* B; else A */
    bool contracted_is_rows; /* the tile is (k, mn): A.T, or B as V in P V; else (mn, k) as Q and K
                              */
    bool in_order;           /* 8 bits, across: k in the plain order */
    int warps_down,
        warps_across; /* as the product is spread: A's share is by warps down, B's across */
} access_operand_request;

typedef struct access_operand {
    access_threads threads;
    shared_layout tile;
    bool right, contracted_is_rows;
    bool in_order;
    bool transposed; /* ldmatrix.trans: the contracted axis is not the contiguous one */
    bool mn_first; /* order of the matrices of an x4: (mn0 k0, mn1 k0, mn0 k1, mn1 k1), else k first
                    */
    int mn8, k8;   /* this warp's extents, in matrices */
    int variants;  /* distinct xor_bytes over all loads: address registers that serve them all */
    int variant_bytes; /* variant v has xor_bytes v*variant_bytes */
} access_operand;

/* Needs multiples of 8 on both axes, and of 16 rows a warp for A. Where the warps' axis is the
 * contiguous one, a warp's share must be a power of two or a multiple of swizzle_bytes.
 */
layout_fit access_operand_make(const access_operand_request *request, const shared_layout *tile,
                               access_operand *out);

/* One ldmatrix: .x1, .x2 or .x4. Register r receives the fragment of matrix (mn8[r], k8[r]): lane L
 * gets the elements (mn, k) = (8*mn8 + L/4, 8*k8 + 2*(L%4) + {0, 1}), which is what a and b of
 * m16n8k8 and m16n8k16 want:
 *     A, m tile i, k16 step s: a0..a3 = (2i, 2s), (2i+1, 2s), (2i, 2s+1), (2i+1, 2s+1)
 *     A, m tile i, k8 step s:  a0, a1 = (2i, s), (2i+1, s)
 *     B, n tile j, k16 step s: b0, b1 = (j, 2s), (j, 2s+1);     k8 step s: b0 = (j, s)
 */
typedef struct access_load {
    int matrices; /* 1, 2 or 4 */
    int mn8[4], k8[4];
    access_step step;
    int variant; /* 0 .. variants-1: which address register */
} access_load;

enum { ACCESS_LOADS_MAX = 2 };

/* The loads of the block of up to 2x2 matrices that starts at (mn8, k8), both even. At an odd end
 * of either axis the block is smaller. Returns how many instructions it takes: 1, or 2. Lanes from
 * 8*matrices on may name an address outside the tile; the instruction does not look at it.
 */
int access_operand_loads(const access_operand *operand, int mn8, int k8,
                         access_load loads[ACCESS_LOADS_MAX]);

#endif
