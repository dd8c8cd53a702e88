/* What the checks accept and the translator refuses: each message, with what it is about, once. A
 * right program with one thing changed is refused at that statement, and said so once.
 */
#include "tl/tl.h"
#include "translate/translate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EDITS_MAX = 8, TEXT_MAX = 4096 };

typedef struct edit {
    const char *find, *put; /* everywhere */
} edit;

typedef struct row {
    const char *program;
    const char *words; /* in the first error's message */
    edit edits[EDITS_MAX];
} row;

/* A product of warps. */
#define WARPS                                                                                      \
    "kernel product for a100\n"                                                                    \
    "let d = 64, BM = 64, BN = 32\n"                                                               \
    "Input Q f16 (q in q_len, d)\n"                                                                \
    "Input K f16 (kv in kv_len, d)\n"                                                              \
    "Output S f32 (q in q_len, kv in kv_len)\n"                                                    \
    "grid i in q_len/BM, j in kv_len/BN\n"                                                         \
    "Allocate Q in shared f16 (BM, d) swizzled 128\n"                                              \
    "Allocate K in shared f16 (BN, d) swizzled 128\n"                                              \
    "role math with 4 warps\n"                                                                     \
    "    Allocate S in register f32 (BM, BN) as mma_C\n"                                           \
    "    Copy Q (BM, d) in coordinate [L = i] from global to shared by cp_async async\n"           \
    "    Copy K (BN, d) in coordinate [L = j] from global to shared by cp_async async\n"           \
    "    Wait Q_shared\n"                                                                          \
    "    Wait K_shared\n"                                                                          \
    "    Compute GEMM Q_shared, K_shared.T and get S_register by m16n8k16\n"                       \
    "    // here\n"                                                                                \
    "    Release Q_shared\n"                                                                       \
    "    Release K_shared\n"                                                                       \
    "    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global\n"                   \
    "end\n"

/* The same by a warpgroup, with a role that loads. */
#define WARPGROUP                                                                                  \
    "kernel product for h200\n"                                                                    \
    "let d = 64, BM = 64, BN = 64\n"                                                               \
    "Input Q f16 (q in q_len, d)\n"                                                                \
    "Input K f16 (kv in kv_len, d)\n"                                                              \
    "Output S f32 (q in q_len, kv in kv_len)\n"                                                    \
    "grid i in q_len/BM, j in kv_len/BN\n"                                                         \
    "Allocate Q in shared f16 (BM, d) swizzled 128\n"                                              \
    "Allocate K in shared f16 (BN, d) swizzled 128\n"                                              \
    "// more\n"                                                                                    \
    "role load with 1 warp\n"                                                                      \
    "    Copy Q (BM, d) in coordinate [L = i] from global to shared by tma async\n"                \
    "    Copy K (BN, d) in coordinate [L = j] from global to shared by tma async\n"                \
    "    // load\n"                                                                                \
    "end\n"                                                                                        \
    "role math with 1 warpgroup\n"                                                                 \
    "    Allocate S in register f32 (BM, BN) as mma_C\n"                                           \
    "    Wait Q_shared\n"                                                                          \
    "    Wait K_shared\n"                                                                          \
    "    Compute GEMM Q_shared, K_shared.T and get S_register by m64n64k16 async\n"                \
    "    Wait S_register\n"                                                                        \
    "    Release Q_shared\n"                                                                       \
    "    Release K_shared\n"                                                                       \
    "    // here\n"                                                                                \
    "    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global\n"                   \
    "end\n"

/* A tile on its way. */
#define MOVE                                                                                       \
    "kernel move for h200\n"                                                                       \
    "let n = 64, BM = 64\n"                                                                        \
    "Input A f16 (i in rows, n)\n"                                                                 \
    "Output B f16 (i in rows, n)\n"                                                                \
    "grid t in rows/BM\n"                                                                          \
    "Allocate A in shared f16 (BM, n) swizzled 128\n"                                              \
    "role math with 4 warps\n"                                                                     \
    "    Allocate A in register f16 (BM, n) as lines\n"                                            \
    "    Copy A (BM, n) in coordinate [L = t] from global to shared by cp_async async\n"           \
    "    Wait A_shared\n"                                                                          \
    "    Copy A from shared to register\n"                                                         \
    "    Release A_shared\n"                                                                       \
    "    Copy A (BM, n) in coordinate [L = t] from register to global and get B\n"                 \
    "end\n"

#define THROUGH_VIEW                                                                               \
    {"Allocate A in shared", "Allocate W in shared"},                                              \
        {"Allocate A in register", "Allocate W in register"}, {"Copy A ", "Copy W "}, {            \
        "A_shared", "W_shared"                                                                     \
    }
#define HERE "    // here\n"

static const row rows[] = {
    /* tensors and views */
    {MOVE,
     "do not lie in lines",
     {{"Input A f16 (i in rows, n)", "Input A f16 (n, i in rows)\nlet W (i in rows, n) = A[n, i]"},
      THROUGH_VIEW}},
    {MOVE,
     "its rows begin at multiples of 4 elements",
     {{"Input A f16 (i in rows, n)",
       "Input A f16 (i in rows, m in 72)\nlet W (i in rows, n) = A[i, n + 4]"},
      THROUGH_VIEW}},
    {MOVE,
     "a view that leaves elements out is read only",
     {{"Output B f16 (i in rows, n)",
       "Output B f16 (i in rows, n)\nlet W (i in rows, n) = select(i % 2 == 0, B[i, n], 0)"},
      {"get B", "get W"}}},
    {MOVE,
     "a condition of the launch uses sizes and scalars only",
     {{"n)\nOutput", "n) where A[0, 0] > 0\nOutput"}}},
    {MOVE,
     "how many tiles there are is not known at launch",
     {{"grid t in rows/BM", "Input lens i32 (b in batch)\nlet r = lens[0]\ngrid t in r/BM"}}},
    /* copies */
    {WARPS,
     "a vector passes through registers",
     {{"role math", "Input b f32 (kv in kv_len)\nAllocate b in shared f32 (BN)\nrole math"},
      {"    Wait Q_shared", "    Copy b (BN) in coordinate [L = j] from global to shared\n"
                            "    Wait b_shared\n    Release b_shared\n    Wait Q_shared"}}},
    {MOVE,
     "its two sides do not share 16-byte units",
     {{"(BM, n) swiz", "(BM, n) by columns swiz"}}},
    {WARPS,
     "stmatrix takes fragments of whole rows",
     {{"Output S f32", "Output S f16"},
      {"role math", "Allocate S in shared f16 (BM, BN) by columns\nrole math"},
      {"    Copy S (BM", "    Copy S from register to shared by stmatrix\n    Wait S_shared\n"
                         "    Copy S (BM"},
      {"from register to global", "from shared to global"},
      {"global\nend", "global\n    Release S_shared\nend"},
      {"a100", "h200"}}},
    /* executors of several warps side by side: neighbouring warps are below one another */
    {MOVE,
     "ldmatrix fills fragments of 16 or 8 bits",
     {{"role math with 4 warps", "role math with 2 warpgroups"},
      {"as lines", "as mma_A over (1, 2)"},
      {"from shared to register", "from shared to register by ldmatrix"}}},
    {WARPS,
     "warpgroups side by side",
     {{"for a100", "for h200"},
      {"role math with 4 warps", "role math with 2 warpgroups"},
      {"as mma_C", "as mma_C over (1, 2)"}}},
    {MOVE,
     "ldmatrix fills fragments of 16 or 8 bits",
     {{"f16", "f32"},
      {"as lines", "as mma_C"},
      {"from shared to register", "from shared to register by ldmatrix"},
      {"n = 64", "n = 32"}}},
    {WARPGROUP,
     "tma moves matrices",
     {{"// more", "Input b f32 (kv in kv_len)\nAllocate b in shared f32 (BN)"},
      {"    // load\n",
       "    Copy b (BN) in coordinate [L = j] from global to shared by tma async\n"},
      {HERE, "    Wait b_shared\n    Release b_shared\n"}}},
    {WARPGROUP,
     "tma changes neither types nor the order of elements",
     {{"K in shared f16 (BN, d) swizzled 128", "K in shared f16 (BN, d) by columns swizzled 128"}}},
    {WARPGROUP,
     "a box has at most 256 elements along an axis",
     {{"BM = 64", "BM = 384"}, {"1 warpgroup", "6 warpgroups"}}},
    /* products */
    {WARPS,
     "a right operand is read from shared memory",
     {{"    Wait Q_shared", "    Allocate K in register f16 (BN, d) as mma_B\n    Wait Q_shared"},
      {"    Compute GEMM Q_shared, K_shared.T",
       "    Copy K from shared to register\n    Compute GEMM Q_shared, K_register.T"}}},
    {WARPGROUP, "a warpgroup has 64 rows", {{"BM = 64", "BM = 128"}}},
    {WARPGROUP,
     "an asynchronous product reads tiles swizzled 32, 64 or 128",
     {{"K in shared f16 (BN, d) swizzled 128", "K in shared f16 (BN, d)"}}},
    /* tiles and roles */
    {WARPS, "a ring in registers is of matrices", {{"as mma_C", "as mma_C stages 2"}}},
    {WARPGROUP,
     "registers of a role are a multiple of 8 from 24 to 256",
     {{"with 1 warpgroup", "with 1 warpgroup, 100 registers"},
      {"with 1 warp\n", "with 1 warp, 24 registers\n"}}},
    /* elements */
    {WARPS, "its elements would change threads", {{HERE, "    Reshape S from mma_C to lines\n"}}},
    {WARPS,
     "only matrices are reduced, along their rows",
     {{"BN = 32", "BN = 32, q_len = 64"},
      {HERE, "    Allocate s in register f32 (BN) as columns of S\n"
             "    Compute RowSum S.T and get s\n"}}},
    {WARPS, "it takes integers", {{HERE, "    Compute Multiply S, 1.5 % 2 and get S\n"}}},
};

/* --- one row ---------------------------------------------------------------------------------- */

static void replace(char text[TEXT_MAX], const edit *e) {
    char out[TEXT_MAX];
    size_t used = 0, length = strlen(e->find);
    bool found = false;
    for (const char *at = text; *at;) {
        bool here = strncmp(at, e->find, length) == 0;
        const char *put = here ? e->put : at;
        size_t count = here ? strlen(e->put) : 1;
        found |= here;
        assert_true(used + count < sizeof out);
        memcpy(out + used, put, count);
        used += count;
        at += here ? length : 1;
    }
    out[used] = 0;
    if (!found) fail_msg("nothing says '%s'", e->find);
    memcpy(text, out, used + 1);
}

/* The first error of the checks or the translator, and how many there are; empty: none. */
static int first_error(const char *text, char message[512]) {
    arena memory;
    diag_list diags, problems;
    gpu target;
    arena_init(&memory, (size_t)1 << 26);
    diag_init(&diags, &memory, STR("refused"), str_from(text));
    tl_program *program = tl_parse(&memory, STR("refused"), str_from(text), &diags);
    bool ok = !diag_has_errors(&diags) && tl_bind(program, &diags) &&
              tl_infer_axes(program->first, &memory, &diags);
    if (ok) assert_true(gpu_find(&memory, program->first->gpu, &target, &problems));
    check_facts facts = {0};
    ok = ok && check_code(program->first, &target, &memory, &diags, &facts);
    message[0] = 0;
    if (!ok) snprintf(message, 512, "(the checks) ");
    if (ok) {
        text_buffer cuda;
        ftl_plan *plan;
        translate_request request = {.kernel = program->first, .target = &target, .facts = &facts};
        text_init(&cuda, (size_t)1 << 20);
        ok = translate_kernel(&request, &memory, &diags, &cuda, &plan);
        text_done(&cuda);
        assert_true(ok == !diag_has_errors(&diags));
    }
    if (diags.first)
        snprintf(message + strlen(message), 512 - strlen(message), "%.*s",
                 STR_ARGS(diags.first->message));
    int count = diags.error_count;
    arena_done(&memory);
    return count;
}

static void unchanged_programs_translate(void **state) {
    (void)state;
    const char *const programs[] = {WARPS, WARPGROUP, MOVE};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char message[512];
        if (first_error(programs[i], message)) fail_msg("%zu: %s", i, message);
    }
}

static void each_is_refused_with_its_reason(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[TEXT_MAX], message[512];
        snprintf(text, sizeof text, "%s", rows[i].program);
        for (int k = 0; k < EDITS_MAX && rows[i].edits[k].find; k++)
            replace(text, &rows[i].edits[k]);
        int count = first_error(text, message);
        if (count && strstr(message, rows[i].words) && !strstr(message, "(the checks)")) continue;
        print_message("'%s' expected, found '%s'\n", rows[i].words, message);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* A statement that is looked at twice, for its map and for its text, is complained of once. */
static void nothing_is_said_twice(void **state) {
    (void)state;
    char text[TEXT_MAX] = WARPGROUP, message[512];
    edit by_columns = {"K in shared f16 (BN, d) swizzled 128",
                       "K in shared f16 (BN, d) by columns swizzled 128"};
    replace(text, &by_columns);
    assert_int_equal(first_error(text, message), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_programs_translate),
        cmocka_unit_test(each_is_refused_with_its_reason),
        cmocka_unit_test(nothing_is_said_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
