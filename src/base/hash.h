/* Content hashes (xxHash, 128 bits), printed as 32 hexadecimal digits. */
#ifndef FLASHTL_BASE_HASH_H
#define FLASHTL_BASE_HASH_H

#include "base/text.h"

typedef struct hash128 {
    uint64_t high, low;
} hash128;

hash128 hash_bytes(str bytes);
/* 'digits' holds 33 bytes: 32 digits and a NUL. */
void hash_digits(hash128 hash, char digits[33]);

#endif
