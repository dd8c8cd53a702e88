/* Arenas: memory that is freed all at once.
 *
 * An arena hands out zeroed memory and never frees single objects. When memory runs out, or an
 * arena's limit is passed, arena_alloc does not return: it jumps to where the owner's on_exhausted
 * says. Where that may happen, hold only arenas: no files, locks or malloc'd blocks.
 * An arena belongs to one thread at a time.
 */
#ifndef FLASHTL_BASE_ARENA_H
#define FLASHTL_BASE_ARENA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct arena_block arena_block;

typedef struct arena {
    arena_block *blocks;   /* newest first */
    size_t used_bytes;     /* handed out so far */
    size_t limit_bytes;    /* most that may be handed out */
    bool is_over_limit;    /* it was the limit that was passed; else memory ran out */
    jmp_buf *on_exhausted; /* where arena_alloc jumps when it cannot serve; NULL aborts */
} arena;

typedef struct arena_mark {
    arena_block *block;
    size_t block_used;
    size_t used_bytes;
} arena_mark;

void arena_init(arena *a, size_t limit_bytes);
void arena_done(arena *a);

/* Returns 'bytes' zeroed bytes, aligned to 'alignment' (a power of two up to 64). Never NULL. */
void *arena_alloc(arena *a, size_t bytes, size_t alignment);

/* Returns room for count objects of size bytes each; jumps to on_exhausted on overflow. */
void *arena_alloc_array(arena *a, size_t count, size_t bytes, size_t alignment);

/* For an owner whose work ran out of memory elsewhere: as an allocation that cannot be served. */
_Noreturn void arena_give_up(arena *a);

/* A place to return to: what was allocated after arena_here is freed by arena_reset. */
arena_mark arena_here(const arena *a);
void arena_reset(arena *a, arena_mark mark);

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T), _Alignof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc_array((a), (size_t)(n), sizeof(T), _Alignof(T)))

/* A growable array in an arena: declare as LIST(int) xs = {0}; then list_push(a, &xs, value).
 * Growing leaves the old storage to the arena, so pointers into the list do not survive a push.
 */
#define LIST(T)                                                                                    \
    struct {                                                                                       \
        T *items;                                                                                  \
        int count, capacity;                                                                       \
    }

#define list_push(a, list, value)                                                                  \
    do {                                                                                           \
        if ((list)->count == (list)->capacity)                                                     \
            list_grow((a), (void **)&(list)->items, &(list)->capacity, sizeof *(list)->items);     \
        (list)->items[(list)->count++] = (value);                                                  \
    } while (0)

void list_grow(arena *a, void **items, int *capacity, size_t item_bytes);

#endif
