/* Preloaded: the FAIL_ATth allocation that the program itself asks for fails; those of the
 * libraries it opens do not count. With FAIL_COUNT their number goes to standard error at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

static uintptr_t code_begin, code_end;
static long fail_at;
static atomic_long asked;

/* The first object is the program. */
static int find_code(struct dl_phdr_info *object, size_t bytes, void *user) {
    (void)bytes, (void)user;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        code_begin = object->dlpi_addr + part->p_vaddr;
        code_end = code_begin + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FAIL_AT");
    fail_at = text ? strtol(text, NULL, 10) : 0;
    dl_iterate_phdr(find_code, NULL);
}

__attribute__((destructor)) static void end(void) {
    if (getenv("FAIL_COUNT")) fprintf(stderr, "%ld allocations\n", atomic_load(&asked));
}

static bool fails(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    if (at < code_begin || at >= code_end) return false;
    if (atomic_fetch_add(&asked, 1) + 1 != fail_at) return false;
    errno = ENOMEM;
    return true;
}

#pragma GCC visibility push(default)

void *malloc(size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

#pragma GCC visibility pop
