/* The rules on whole programs: right ones pass, and every Wait, Release and Reshape is needed. */
#include "base/os.h"
#include "check/check.h"
#include "sample.h"
#include "tl/tl.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const programs[] = {"attention_a100",      "attention_t4", "attention_h200",
                                       "attention_h200_flat", "mla_decode",   "paged_decode"};

static str read_program(arena *memory, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/tl/%s.tl", FLASHTL_SOURCE_FOLDER, name);
    text_buffer text;
    os_error why;
    text_init(&text, 1 << 20);
    assert_true(os_read_file(path, 1 << 20, &text, &why));
    str copy = str_copy(memory, text_str(&text));
    text_done(&text);
    return copy;
}

static void show(const diag_list *diags) {
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(diags, false, &out);
    if (out.data) fprintf(stderr, "%s", out.data);
    text_done(&out);
}

static tl_program *read_from(arena *memory, const char *name, str source, diag_list *diags) {
    diag_init(diags, memory, str_from(name), source);
    tl_program *program = tl_parse(memory, str_from(name), source, diags);
    if (diags->error_count) show(diags);
    assert_int_equal(diags->error_count, 0);
    return program;
}

static bool check_all(tl_program *program, arena *memory, diag_list *diags) {
    if (!tl_bind(program, diags)) return false;
    bool right = true;
    for (tl_kernel *k = program->first; k; k = k->next) {
        gpu target;
        diag_list problems;
        assert_true(gpu_find(memory, k->gpu, &target, &problems));
        check_facts facts;
        right &= check_code(k, &target, memory, diags, &facts);
        if (right) assert_true(facts.run_count > 0);
    }
    return right;
}

static void right_programs_pass(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        arena memory;
        diag_list diags;
        arena_init(&memory, 1 << 27);
        str source = read_program(&memory, programs[i]);
        tl_program *program = read_from(&memory, programs[i], source, &diags);
        check_all(program, &memory, &diags);
        if (diags.first) show(&diags);
        assert_int_equal(diags.error_count, 0);
        assert_int_equal(diags.warning_count, 0);
        arena_done(&memory);
    }
}

static tl_statement *numbered(tl_program *program, int number) {
    for (tl_kernel *k = program->first; k; k = k->next) {
        for (tl_statement *s = k->body.first; s; s = tl_next(s, NULL)) {
            bool counts = s->kind == TL_WAIT || s->kind == TL_RELEASE || s->kind == TL_RESHAPE;
            if (counts && number-- == 0) return s;
        }
    }
    return NULL;
}

/* Each of them is removed in turn; the rules must notice, and name it at most a few times. */
static void every_sync_is_needed(void **state) {
    (void)state;
    int removed = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        for (int number = 0;; number++) {
            enum { FEW = 3 };
            arena memory;
            diag_list diags;
            arena_init(&memory, 1 << 27);
            str source = read_program(&memory, programs[i]);
            tl_program *program = read_from(&memory, programs[i], source, &diags);
            tl_statement *s = numbered(program, number);
            if (!s) {
                arena_done(&memory);
                break;
            }
            removed++;
            if (!sample_takes()) {
                arena_done(&memory);
                continue;
            }
            text_buffer header;
            text_init(&header, 4096);
            tl_print_header(s, &header);
            tl_remove(tl_statement_body(s->parent), s);
            bool right = check_all(program, &memory, &diags);
            if (right || diags.error_count > FEW) {
                fprintf(stderr, "%s without %s:\n", programs[i], header.data);
                show(&diags);
            }
            assert_false(right);
            assert_in_range(diags.error_count, 1, FEW);
            text_done(&header);
            arena_done(&memory);
        }
    }
    assert_true(removed > 60);
}

/* --- facts ------------------------------------------------------------------------------------ */

/* NULL when the statement does not touch that register tile. */
static const tl_layout *layout_of(const check_facts *facts, const tl_statement *s,
                                  const tl_symbol *tile) {
    for (int i = 0; i < facts->layout_count; i++) {
        const check_layout_at *at = &facts->layouts[i];
        if (at->statement == s && at->tile == tile) return &at->layout;
    }
    return NULL;
}

static const check_sync *sync_of(const check_facts *facts, const char *header, int number) {
    for (int i = 0; i < facts->sync_count; i++) {
        text_buffer text;
        text_init(&text, 4096);
        tl_print_header(facts->syncs[i].statement, &text);
        bool same = !strncmp(text.data, header, strlen(header)) && number-- == 0;
        text_done(&text);
        if (same) return &facts->syncs[i];
    }
    fail_msg("no %s", header);
    return NULL;
}

static void facts_of_the_a100_program(void **state) {
    (void)state;
    arena memory;
    diag_list diags;
    arena_init(&memory, 1 << 27);
    str source = read_program(&memory, "attention_a100");
    tl_program *program = read_from(&memory, "attention_a100", source, &diags);
    assert_true(tl_bind(program, &diags));
    check_facts facts;
    assert_true(check_code(program->first, NULL, &memory, &diags, &facts));
    const check_sync *wait_q = sync_of(&facts, "Wait Q_shared", 0);
    assert_true(wait_q->barrier_before && !wait_q->is_warp_scope);
    assert_int_equal(wait_q->groups_pending, 2); /* K and V of block 0 */
    assert_int_equal(sync_of(&facts, "Wait K_shared", 0)->groups_pending, 1);
    assert_int_equal(sync_of(&facts, "Wait V_shared", 0)->groups_pending, 2);
    assert_int_equal(sync_of(&facts, "if j + 1 < blocks", 0)->commits_otherwise, 2);
    assert_true(sync_of(&facts, "Copy K", 1)->commits);
    assert_false(sync_of(&facts, "Copy K", 1)->barrier_before);
    assert_true(sync_of(&facts, "Copy O", 0)->barrier_before);
    const check_sync *wait_o = sync_of(&facts, "Wait O_shared", 0);
    assert_true(wait_o->barrier_before && wait_o->is_warp_scope);
    const tl_symbol *p = tl_find_symbol(program->first, STR("P"));
    int products = 0;
    for (tl_statement *s = program->first->body.first; s; s = tl_next(s, NULL)) {
        const tl_layout *l = layout_of(&facts, s, p);
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_CAST && l) {
            assert_int_equal(l->kind, TL_MMA_C);
        }
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM && l) {
            assert_int_equal(l->kind, TL_MMA_A);
            products++;
        }
    }
    assert_int_equal(products, 1);
    arena_done(&memory);
}

/* --- variants of the A100 program ------------------------------------------------------------- */

/* The line that begins with 'begin' (after blanks), and those after it up to the one that begins
 * with 'end', give way to 'put'.
 */
static str with_lines(arena *memory, str source, const char *begin, const char *end,
                      const char *put) {
    text_buffer out;
    text_init(&out, 1 << 20);
    int state = 0; /* 0: before, 1: inside, 2: after */
    while (source.length) {
        str line = str_cut(&source, '\n'), bare = str_trim(line);
        if (state == 0 && str_starts(bare, str_from(begin))) {
            text_add_z(&out, put);
            state = 1;
        } else if (state == 1 && str_starts(bare, str_from(end))) {
            state = 2;
        }
        if (state == 1) continue;
        text_add(&out, line);
        text_add_z(&out, "\n");
    }
    assert_int_equal(state, 2);
    str copy = str_copy(memory, text_str(&out));
    text_done(&out);
    return copy;
}

static void check_variant(arena *memory, str source, check_facts *facts) {
    diag_list diags;
    tl_program *program = read_from(memory, "variant", source, &diags);
    assert_true(tl_bind(program, &diags));
    gpu target;
    diag_list problems;
    assert_true(gpu_find(memory, STR("a100"), &target, &problems));
    bool right = check_code(program->first, &target, memory, &diags, facts);
    if (!right) show(&diags);
    assert_true(right);
}

/* Waits by barrier objects: no block barrier in the loop, no groups but Q's. */
static void a_ring_by_mbarrier(void **state) {
    (void)state;
    arena memory;
    check_facts facts;
    arena_init(&memory, 1 << 27);
    str source =
        with_lines(&memory, read_program(&memory, "attention_a100"), "Allocate K in shared",
                   "Allocate O in shared",
                   "Allocate K in shared f16 (BN, d) by mbarrier swizzled 128 stages 2\n"
                   "Allocate V in shared f16 (BN, dv) by mbarrier swizzled 128 stages 2\n");
    check_variant(&memory, source, &facts);
    const check_sync *wait_k = sync_of(&facts, "Wait K_shared", 0);
    assert_true(wait_k->uses_mbarrier && !wait_k->barrier_before && wait_k->groups_pending < 0);
    assert_false(sync_of(&facts, "Copy K", 0)->commits);
    assert_int_equal(sync_of(&facts, "Wait Q_shared", 0)->groups_pending, 0);
    assert_int_equal(facts.shared_bytes, 98304 + 2 * 2 * 2 * CHECK_MBARRIER_BYTES);
    arena_done(&memory);
}

/* What does not fit the model is refused, and not left out of the checks. */
static void more_than_the_model_holds_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *before, *line, *after, *words;
        int fitting;
    } cases[] = {
        {"", "role more_%d with 1 warp\nend\n", "", "too many roles: at most 16", 15},
        {"", "Allocate X_%d in shared f32 (BM)\n", "", "too many tiles: at most 256", 255},
        {"role turning with 8 warps, turns", "%.0d",
         " a\nend\nrole also with 57 warps, turns b\nend\n",
         "too many executors that take turns: at most 64", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int excess = 0; excess < 2; excess++) {
            arena memory;
            diag_list diags;
            text_buffer text;
            arena_init(&memory, 1 << 27);
            text_init_in(&text, &memory);
            text_add_z(&text, "kernel k for h200\nlet BM = 64\nInput A f32 (i in rows)\n"
                              "Output B f32 (i in rows)\ngrid t in rows/BM\n"
                              "Allocate A in shared f32 (BM)\n");
            text_add_z(&text, cases[i].before);
            for (int k = 0; k < cases[i].fitting + excess; k++)
                text_format(&text, cases[i].line, k);
            text_add_z(&text, cases[i].after);
            text_add_z(&text, "role move with 1 warp\nend\n");
            tl_program *program = read_from(&memory, "many", text_str(&text), &diags);
            bool right =
                tl_bind(program, &diags) && check_code(program->first, NULL, &memory, &diags, NULL);
            bool says =
                diags.first && strstr(str_copy_z(&memory, diags.first->message), cases[i].words);
            bool expected = excess || !cases[i].fitting;
            if (says != expected || (expected && right)) {
                show(&diags);
                fail_msg("%s, %d", cases[i].words, excess);
            }
            arena_done(&memory);
        }
    }
}

/* A maximum that moves only when some score exceeds it by far: both ways of the vote are run. */
static void a_guarded_maximum(void **state) {
    (void)state;
    arena memory;
    check_facts facts;
    arena_init(&memory, 1 << 27);
    str source = read_program(&memory, "attention_a100");
    source = with_lines(&memory, source, "Allocate m, m_old", "Allocate l",
                        "Allocate m, m_old, alpha, shift, top in register f32 (BM) as rows of S\n");
    source = with_lines(&memory, source, "Compute Fill 0 and get l", "Wait Q_shared",
                        "Compute Fill 0 and get l\nCompute Fill 0 and get shift\n");
    source = with_lines(&memory, source, "Compute Cast m and get m_old", "Compute MultiplyAdd",
                        "Compute RowMax S and get top\n"
                        "if any(top > m + 8)\n"
                        "Compute Cast m and get m_old\n"
                        "Compute Max m, top and get m\n"
                        "Compute Subtract m_old, m and get alpha\n"
                        "Compute Exp2 alpha and get alpha\n"
                        "Compute Multiply m, -c and get shift\n"
                        "Compute Multiply l, alpha and get l\n"
                        "Compute Multiply O_register, alpha and get O_register\n"
                        "end\n");
    source =
        with_lines(&memory, source, "Compute Multiply l, alpha and get l   ", "Compute RowSum", "");
    source = with_lines(&memory, source, "Compute Multiply O_register, alpha and get O_register  ",
                        "Compute Cast S", "");
    check_variant(&memory, source, &facts);
    assert_int_equal(sync_of(&facts, "Wait V_shared", 0)->groups_pending, 2);
    arena_done(&memory);
}

/* A walk over the tiles inside the role: the next tile's Copy waits for the last one's readers. */
static void tiles_inside_the_role(void **state) {
    (void)state;
    arena memory;
    check_facts facts;
    arena_init(&memory, 1 << 27);
    str source = read_program(&memory, "attention_a100");
    source = with_lines(&memory, source, "grid head", "let blocks",
                        "grid persistent head in q_heads, b in batch, q_block in q_len/BM\n");
    source =
        with_lines(&memory, source, "Copy Q (BM", "Copy K (BN",
                   "for tile in grid\nCopy Q (BM, d) in coordinate [b, head, L = q_block] from "
                   "global to shared by cp_async async\n");
    source = str_format(&memory, "%.*send\n", STR_ARGS(source));
    check_variant(&memory, source, &facts);
    assert_true(sync_of(&facts, "Copy Q", 0)->barrier_before);
    arena_done(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_programs_pass),
        cmocka_unit_test(every_sync_is_needed),
        cmocka_unit_test(facts_of_the_a100_program),
        cmocka_unit_test(a_ring_by_mbarrier),
        cmocka_unit_test(a_guarded_maximum),
        cmocka_unit_test(more_than_the_model_holds_is_refused),
        cmocka_unit_test(tiles_inside_the_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
