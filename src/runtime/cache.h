/* The cache on disk: one file per kernel.
 *
 *   FLASHTL CACHE 2          format; another one is another cache
 *   <32 digits>              hash of everything after this line
 *   <name> <bytes>           then for each section: its bytes and a newline
 *
 * An entry is written to a temporary name and renamed, so it is whole or not there; the hash finds
 * what a disk did to it later. Nothing is locked: two writers of one key write the same bytes, but
 * for the verdict, which only grows.
 */
#ifndef FLASHTL_RUNTIME_CACHE_H
#define FLASHTL_RUNTIME_CACHE_H

#include "base/os.h"
#include "flashtl/runtime.h"

/* What names an entry: fields in order, each with its name. */
typedef struct cache_key {
    text_buffer fields;
    char digits[33]; /* after cache_key_end */
} cache_key;

void cache_key_begin(cache_key *key);
void cache_key_add(cache_key *key, const char *name, str value);
void cache_key_end(cache_key *key); /* frees what begin took */

typedef struct cache_entry {
    str plan, cuda, image;
    ftl_image_kind kind;
    bool is_verified;    /* its kernel computes what its program says */
    text_buffer storage; /* of the slices above, when read */
} cache_entry;

typedef enum cache_result {
    CACHE_FOUND,
    CACHE_ABSENT,
    CACHE_DAMAGED,
    CACHE_NO_MEMORY, /* nothing is known of it */
} cache_result;

/* Reads an entry; cache_done frees it. */
cache_result cache_read(const char *folder, const char digits[33], cache_entry *out);
bool cache_write(const char *folder, const char digits[33], const cache_entry *entry,
                 os_error *why);
void cache_done(cache_entry *entry);

#endif
