/* Decisions that a tuner measured: a text (docs/decisions/016-tuning.md), and what of it a sketch
 * may use. They come to the reasoner as pins; nothing else of it knows of them.
 */
#ifndef FLASHTL_COMPILE_MEASURED_H
#define FLASHTL_COMPILE_MEASURED_H

#include "gpu/gpu.h"
#include "reason/reason.h"

typedef struct measured_entry {
    reason_pin *pins;
    int pin_count;
    str how;     /* what was measured, for people */
    str blocked; /* not empty: the user's pin of this name leaves the entry unused */
} measured_entry;

/* "attention 5f0c2e8112345678": the first kernel's name, and a hash of what the sketch says:
 * comments and the conditions of its parameters left out, so that spellings of one computation for
 * other numbers of heads share what was measured.
 */
str measured_sketch(arena *memory, const tl_program *sketch);

/* The text shipped for a GPU that was named, not given as a file; empty when there is none. */
str measured_shipped(const char *gpu_name, const gpu *target);

/* Says what is wrong with a text that a user gives as one of measured decisions; empty: nothing. */
str measured_check(arena *memory, str text);

/* Finds the entry of a sketch at these lengths: those that the entry names must be pinned to its
 * values; any other pin blocks it. False when there is none.
 */
bool measured_find(arena *memory, str text, str sketch, str dtype, const reason_pin *pins,
                   int pin_count, measured_entry *out);

#endif
