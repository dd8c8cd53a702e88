/* WIDE_VECTORS before a function has it compiled a second time, with wider vectors, for processors
 * that have them; which of both runs is found out when the program starts. Results do not differ.
 */
#ifndef FLASHTL_BASE_WIDE_H
#define FLASHTL_BASE_WIDE_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE_VECTORS
#endif

#endif
