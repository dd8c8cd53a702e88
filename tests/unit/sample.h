/* A wide test goes over many programs or shapes of one kind. All of them count, but not under every
 * compiler: with FLASHTL_SAMPLE=n in the environment each n-th is looked at, counted in the order
 * in which the test comes to them. Sanitizers make such a test five to ten times slower, and look
 * at code, which the cases share. A test whose cases are kernels that are compiled defines
 * SAMPLE_KERNELS: where the former is not set it goes by FLASHTL_KERNELS, as tests/sampling.py
 * does.
 */
#ifndef FLASHTL_TESTS_SAMPLE_H
#define FLASHTL_TESTS_SAMPLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static struct { long every, seen, taken, left; } sample_counts;

static inline void sample_report(void) {
    if (sample_counts.every > 1)
        printf("sample: %ld of %ld cases\n", sample_counts.taken,
               sample_counts.seen + sample_counts.left);
}

/* 1: all of them. */
static inline long sample_every(void) {
    if (sample_counts.every > 0) return sample_counts.every;
    const char *asked = getenv("FLASHTL_SAMPLE");
#ifdef SAMPLE_KERNELS
    if (!asked) asked = getenv("FLASHTL_KERNELS");
#endif
    long every = asked ? strtol(asked, NULL, 10) : 1;
    sample_counts.every = every > 1 ? every : 1;
    atexit(sample_report);
    return sample_counts.every;
}

/* Is the next case one to look at? The first one always is. */
static inline bool sample_takes(void) {
    bool is_taken = sample_counts.seen++ % sample_every() == 0;
    sample_counts.taken += is_taken;
    return is_taken;
}

/* The same for a case that is long because its shapes are: sanitizers are shown none of these, and
 * the next short one in its place.
 */
static inline bool sample_takes_long(void) {
    if (!getenv("FLASHTL_SAMPLE")) return sample_takes();
    sample_every();
    sample_counts.left++;
    return false;
}

#endif
