/* Tile counters: a kernel whose blocks take the next free tile counts in a pair of words that no
 * other launch may touch while it runs; its last block leaves zeros. Which pair a launch gets:
 *
 *   on a stream        that of the stream, whose launches follow one another
 *   while captured     one of its own, kept until the last graph that holds the launch is gone
 *   where none is left none: the launch needs a block for each tile (counters_spare)
 *
 * Any number of threads may ask at once: no lock, no heap.
 */
#ifndef FLASHTL_RUNTIME_COUNTERS_H
#define FLASHTL_RUNTIME_COUNTERS_H

#include "runtime/driver.h"

/* How many streams and captured launches of one kernel have a pair at once. */
enum { COUNTERS_STREAMS = 4096, COUNTERS_CAPTURES = 8192, COUNTERS_ZERO_BYTES = 128 };

typedef struct tile_counters tile_counters;

/* Allocates in the current CUDA context; 'for_tiles' false: only the line of zeros. A CUresult; on
 * failure *out is NULL. counters_close takes NULL; graphs may outlive it, launches of them may not.
 */
int counters_open(const cuda_driver *cuda, bool for_tiles, tile_counters **out);
void counters_close(const cuda_driver *cuda, tile_counters *counters);

/* Device address of COUNTERS_ZERO_BYTES zeros, which nobody writes. */
uint64_t counters_zeros(const tile_counters *counters);

/* Device address of the pair for a launch on 'stream' now; 0: there is none. */
uint64_t counters_take(const cuda_driver *cuda, tile_counters *counters, void *stream);

/* A pair for all launches that got none. They may run at the same time, and need a block for each
 * tile: whatever number a block then fetches from counters that are not negative is past the
 * last tile. Before each the pair is set to 0 in its stream, so that it never grows far.
 */
uint64_t counters_spare(const tile_counters *counters);

#endif
