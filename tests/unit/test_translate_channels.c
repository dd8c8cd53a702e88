/* Shared tiles' barriers: what the model says of a tile (src/model/traffic.c) is what the checks
 * count and the text has. Each row is a program with lines put in, and what is found then: words of
 * the text, or of the first error.
 */
#include "tl/tl.h"
#include "translate/translate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LINES_MAX = 4, TEXT_MAX = 4096 };

/* A tile comes by TMA, and goes out by TMA through another one. */
static const char base[] =
    "kernel move for h200\n"
    "let n = 64, BM = 64\n"
    "Input A f16 (i in rows, n)\n"
    "Output B f16 (i in rows, n)\n"
    "Output C f16 (i in rows, n)\n"
    "grid t in rows/BM\n"
    "Allocate A in shared f16 (BM, n) swizzled 128\n"
    "Allocate B in shared f16 (BM, n) swizzled 128$1\n"
    "Allocate C in shared f16 (BM, n) swizzled 128$2\n"
    "role load with 1 warp\n"
    "    Copy A (BM, n) in coordinate [L = t] from global to shared by tma async\n"
    "$3"
    "end\n"
    "role math with $4\n"
    "    Allocate A in register f16 (BM, n) as mma_C\n"
    "    Wait A_shared\n"
    "    Copy A from shared to register by ldmatrix\n"
    "    Release A_shared\n"
    "    Copy A from register to shared and get B\n"
    "$5"
    "end\n";

#define STORE(tile)                                                                                \
    "    Wait " tile "_shared\n"                                                                   \
    "    Copy " tile " (BM, n) in coordinate [L = t] from shared to global by tma async\n"         \
    "    Wait " tile "_global\n"                                                                   \
    "    Release " tile "_shared\n"
#define WRITE_C "    Copy A from register to shared and get C\n"

typedef struct row {
    const char *lines[5]; /* for $1 to $5 */
    const char *words;
} row;

static const row rows[] = {
    /* One role's own tile: barriers of its threads, or by its name an mbarrier. */
    {{"", "", "", "1 warpgroup", STORE("B") WRITE_C STORE("C")}, "ftl_warp_barrier();"},
    {{" by mbarrier", "", "", "1 warpgroup", STORE("B") WRITE_C STORE("C")},
     "B_held.wait(shared + at::B_full);"},
    /* In place of one another: the tile declared first begins, whoever reads it. */
    {{" in place of A", "", "", "1 warpgroup", STORE("B") WRITE_C STORE("C")},
     "unsigned A_place_parity = 1;"},
    {{" in place of A", "", STORE("B"), "1 warpgroup", WRITE_C STORE("C")},
     "unsigned A_place_parity = 1;"},
    {{" in place of A", " in place of B", "", "1 warpgroup", STORE("B") WRITE_C STORE("C")},
     "at most two tiles of different roles take turns in one place"},
};

static void fill_in(const char *const lines[5], char out[TEXT_MAX]) {
    size_t used = 0;
    for (const char *at = base; *at; at++) {
        bool here = *at == '$';
        const char *put = here ? lines[*++at - '1'] : at;
        size_t count = here ? strlen(put) : 1;
        assert_true(used + count < TEXT_MAX);
        memcpy(out + used, put, count);
        used += count;
    }
    out[used] = 0;
}

/* The emitted text, or the first error. */
static void translated(const char *text, arena *memory, char *out, size_t room) {
    diag_list diags, problems;
    gpu target;
    check_facts facts;
    text_buffer cuda;
    ftl_plan *plan;
    diag_init(&diags, memory, STR("channels"), str_from(text));
    text_init_in(&cuda, memory);
    tl_program *program = tl_parse(memory, STR("channels"), str_from(text), &diags);
    bool ok = !diag_has_errors(&diags) && tl_bind(program, &diags);
    assert_true(gpu_find(memory, program->first->gpu, &target, &problems));
    ok = ok && check_code(program->first, &target, memory, &diags, &facts);
    translate_request request = {.kernel = program->first, .target = &target, .facts = &facts};
    ok = ok && translate_kernel(&request, memory, &diags, &cuda, &plan);
    str found = ok ? text_str(&cuda) : diags.first->message;
    snprintf(out, room, "%.*s", STR_ARGS(found));
}

static void the_text_has_the_models_barriers(void **state) {
    (void)state;
    static char found[1 << 18];
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arena memory;
        char text[TEXT_MAX];
        arena_init(&memory, (size_t)1 << 26);
        fill_in(rows[i].lines, text);
        translated(text, &memory, found, sizeof found);
        arena_done(&memory);
        if (strstr(found, rows[i].words)) continue;
        print_message("row %zu: no '%s' in %.400s\n", i, rows[i].words, found);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* Warps that idle so that a warpgroup begins at a multiple of four are threads of the block. */
static void idle_warps_are_counted(void **state) {
    (void)state;
    char text[TEXT_MAX], found[512];
    const char *const lines[] = {"", "", "", "8 warpgroups", STORE("B") WRITE_C STORE("C")};
    arena memory;
    arena_init(&memory, (size_t)1 << 26);
    fill_in(lines, text);
    for (char *at; (at = strstr(text, "BM = 64"));) memcpy(at, "BM=0512", 7);
    translated(text, &memory, found, sizeof found);
    if (!strstr(found, "the roles have 1152 threads")) fail_msg("%s", found);
    arena_done(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_has_the_models_barriers),
        cmocka_unit_test(idle_warps_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
