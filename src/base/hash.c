#include "base/hash.h"

#define XXH_INLINE_ALL
#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

hash128 hash_bytes(str bytes) {
    XXH128_hash_t h = XXH3_128bits(bytes.data, bytes.length);
    return (hash128){h.high64, h.low64};
}

void hash_digits(hash128 hash, char digits[33]) {
    snprintf(digits, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}
