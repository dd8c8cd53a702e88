/* Bank conflicts of shared memory, computed from addresses: 32 banks of 4 bytes.
 *
 * Accesses of 16 bytes a lane are served in phases of 8 lanes, 8 bytes in phases of 16, narrower
 * ones in one phase. A phase takes as many wavefronts as the busiest bank has distinct words.
 * An ldmatrix is a 16-byte access: 8 lanes name the 8 rows of one matrix.
 */
#ifndef FLASHTL_LAYOUT_BANKS_H
#define FLASHTL_LAYOUT_BANKS_H

#include <stdint.h>

typedef struct banks_access {
    uint32_t offset[32]; /* bytes */
    uint32_t active;     /* bit per lane */
    int bytes;           /* a lane: 1, 2, 4, 8 or 16 */
} banks_access;

int banks_wavefronts(const banks_access *access);
/* The fewest with which the distinct bytes of this access could be served, phases kept. */
int banks_ideal(const banks_access *access);

#endif
