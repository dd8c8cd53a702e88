#include "base/arena.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    arena_block *older;
    size_t used, capacity;
    _Alignas(16) unsigned char bytes[]; /* 16: what malloc guarantees */
};

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ONE_OBJECT_PER_BLOCK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ONE_OBJECT_PER_BLOCK 1
#endif
#endif
#ifndef ARENA_ONE_OBJECT_PER_BLOCK
#define ARENA_ONE_OBJECT_PER_BLOCK 0
#endif

enum { BLOCK_BYTES = 64 * 1024 };

void arena_init(arena *a, size_t limit_bytes) {
    *a = (arena){.limit_bytes = limit_bytes};
}

void arena_done(arena *a) {
    while (a->blocks) {
        arena_block *older = a->blocks->older;
        free(a->blocks);
        a->blocks = older;
    }
    a->used_bytes = 0;
}

static _Noreturn void exhausted(arena *a, bool is_over_limit) {
    a->is_over_limit = is_over_limit;
    if (!a->on_exhausted) abort();
    longjmp(*a->on_exhausted, 1);
}

void arena_give_up(arena *a) {
    exhausted(a, false);
}

/* Under the address sanitizer every object gets a malloc of its own, so that it sees each bound. */
static arena_block *block_for(arena *a, size_t bytes) {
    arena_block *block = a->blocks;
    if (block && !ARENA_ONE_OBJECT_PER_BLOCK && block->capacity - block->used >= bytes) {
        return block;
    }
    size_t capacity = ARENA_ONE_OBJECT_PER_BLOCK || bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    block = malloc(sizeof *block + capacity);
    if (!block) exhausted(a, false);
    block->older = a->blocks;
    block->used = 0;
    block->capacity = capacity;
    a->blocks = block;
    return block;
}

void *arena_alloc(arena *a, size_t bytes, size_t alignment) {
    assert(alignment && alignment <= 64 && (alignment & (alignment - 1)) == 0);
    if (bytes > a->limit_bytes || a->used_bytes > a->limit_bytes - bytes) exhausted(a, true);
    bool is_exact = ARENA_ONE_OBJECT_PER_BLOCK && alignment <= 16;
    arena_block *block = block_for(a, is_exact ? bytes : bytes + alignment - 1);
    uintptr_t free_from = (uintptr_t)block->bytes + block->used;
    uintptr_t aligned = (free_from + alignment - 1) & ~(uintptr_t)(alignment - 1);
    size_t start = block->used + (size_t)(aligned - free_from);
    block->used = start + bytes;
    a->used_bytes += bytes;
    return memset(block->bytes + start, 0, bytes);
}

void *arena_alloc_array(arena *a, size_t count, size_t bytes, size_t alignment) {
    if (bytes && count > SIZE_MAX / 2 / bytes) exhausted(a, true);
    return arena_alloc(a, count * bytes, alignment);
}

arena_mark arena_here(const arena *a) {
    return (arena_mark){a->blocks, a->blocks ? a->blocks->used : 0, a->used_bytes};
}

void arena_reset(arena *a, arena_mark mark) {
    while (a->blocks != mark.block) {
        arena_block *older = a->blocks->older;
        free(a->blocks);
        a->blocks = older;
    }
    if (a->blocks) a->blocks->used = mark.block_used;
    a->used_bytes = mark.used_bytes;
}

void list_grow(arena *a, void **items, int *capacity, size_t item_bytes) {
    if (*capacity > INT_MAX / 2) exhausted(a, true);
    int wider = *capacity ? *capacity * 2 : 8;
    void *moved = arena_alloc_array(a, (size_t)wider, item_bytes, 16);
    if (*capacity) memcpy(moved, *items, (size_t)*capacity * item_bytes);
    *items = moved;
    *capacity = wider;
}
