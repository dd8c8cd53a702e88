/* Sums, maxima and products take all of their axis: at once, by a loop, or in parts that the stores
 * tell apart.
 */
#include "check/check.h"
#include "tl/names.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct row {
    const char *lets, *condition, *output, *grid, *load, *body, *store;
    bool is_part;
} row;

#define SUM "Compute RowSum X_register and get s\n"
#define LOAD(columns) "Copy X (BM, BN) in coordinate [L = i" columns "] from global to register\n"
#define STORE "Copy s (BM) in coordinate [L = i] from register to global\n"
#define VECTOR "Output s f32 (r in rows)\n"
#define SAME                                                                                       \
    "Compute Subtract X_register, s and get X_register\n"                                          \
    "Copy X (BM, BN) in coordinate [L = i, L = j] from register to global and get Y\n"

static const row rows[] = {
    /* from the start: as long as the tile, or not */
    {"", "", VECTOR, "", LOAD(""), SUM, STORE, true},
    {", cols = 32", "", VECTOR, "", LOAD(""), SUM, STORE, false},
    {", cols = 30", "", VECTOR, "", LOAD(""), SUM, STORE, false},
    {", cols = 33", "", VECTOR, "", LOAD(""), SUM, STORE, true},
    {"", "where cols <= 32", VECTOR, "", LOAD(""), SUM, STORE, false},
    {"", "where cols == 16 and rows > 3", VECTOR, "", LOAD(""), SUM, STORE, false},
    {"", "where cols <= 40", VECTOR, "", LOAD(""), SUM, STORE, true},
    /* a block of the grid */
    {"", "", "Output Y f32 (r in rows, c in cols)\n", ", j in cols/BN", LOAD(", L = j"), SUM, SAME,
     true},
    {"", "", "Output Y f32 (r in rows, c in cols)\n", ", j in cols/BN", LOAD(", L = j"),
     "Compute RowSum X_register and get t\nCompute Multiply t, 2 and get s\n", SAME, true},
    {", cols = 32", "", "Output Y f32 (r in rows, c in cols)\n", ", j in cols/BN", LOAD(", L = j"),
     SUM, SAME, false},
    {"", "", "Output s f32 (n in parts, r in rows)\n", ", j in cols/BN", LOAD(", L = j"), SUM,
     "Copy s (BM) in coordinate [j, L = i] from register to global\n", false},
    {"", "", VECTOR, ", j in cols/BN", LOAD(", L = j"), SUM,
     "Copy s (BM) in coordinate [L = i] from register to global and accumulate s\n", false},
    /* a loop */
    {"", "", VECTOR, "", "",
     "Compute Fill 0 and get s\nfor j = 0:cols/BN\n" LOAD(
         ", L = j") "Compute RowSum X_register and accumulate s\nend\n",
     STORE, false},
    {"", "", VECTOR, "", "",
     "Compute Fill 0 and get s\nfor j = 0:cols/BN\n" LOAD(
         ", L = j") "Compute Exp X_register and get X_register\n"
                    "Compute Mask X_register, 0 in coordinate [L = i, L = j] where c >= cols\n"
                    "Compute RowSum X_register and get t\nCompute Add s, t and get s\nend\n",
     STORE, false},
    /* what a Mask takes out need not be there */
    {"", "", VECTOR, "", LOAD(""),
     "Compute Mask X_register, 0 in coordinate [L = i] where c >= 20\n" SUM, STORE, false},
};

static bool is_right(const row *r) {
    arena memory;
    arena_init(&memory, 1 << 26);
    str source = str_format(
        &memory,
        "kernel sums for a100\nlet BM = 64, BN = 32%s\nInput X f32 (r in rows, c in cols) %s\n%s"
        "grid i in rows/BM%s\nrole math with 4 warps\n"
        "Allocate X in register f32 (BM, BN) as mma_C\n"
        "Allocate s, t in register f32 (BM) as rows of X\n%s%s%send\n",
        r->lets, r->condition, r->output, r->grid, r->load, r->body, r->store);
    diag_list diags;
    diag_init(&diags, &memory, STR("code"), source);
    tl_program *program = tl_parse(&memory, STR("code"), source, &diags);
    if (!diags.error_count && tl_bind(program, &diags))
        check_code(program->first, NULL, &memory, &diags, NULL);
    bool right =
        diags.error_count == r->is_part && (!r->is_part || diags.first->id == DIAG_TAKEN_IN_PART);
    if (!right) {
        text_buffer out;
        text_init(&out, 1 << 20);
        diag_render_text(&diags, false, &out);
        fprintf(stderr, "%.*sexpected %s, found:\n%s\n", STR_ARGS(source),
                r->is_part ? "a part" : "nothing", out.data ? out.data : "nothing");
        text_done(&out);
    }
    arena_done(&memory);
    return right;
}

static void parts_of_axes(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) wrong += !is_right(&rows[i]);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_axes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
