/* The reader: what it takes and how that is printed, bad input, limits, quotation, editing. */
#include "tl/tl.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    arena memory;
    diag_list diags;
    tl_program *program;
    str printed;
} reading;

static reading *read_bytes(const char *data, size_t length) {
    reading *r = calloc(1, sizeof *r);
    assert_non_null(r);
    arena_init(&r->memory, (size_t)1 << 30);
    str source = {data, length};
    diag_init(&r->diags, &r->memory, STR("test.tl"), source);
    r->program = tl_parse(&r->memory, STR("test.tl"), source, &r->diags);
    text_buffer out;
    text_init(&out, 1 << 24);
    tl_print(r->program, &out);
    r->printed = str_copy(&r->memory, text_str(&out));
    text_done(&out);
    return r;
}

static void done(reading *r) {
    arena_done(&r->memory);
    free(r);
}

static void show_errors(const reading *r) {
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(&r->diags, false, &out);
    if (out.length) fprintf(stderr, "%s", out.data);
    text_done(&out);
}

static void reads_as(const char *source, const char *expected) {
    reading *r = read_bytes(source, strlen(source));
    if (r->diags.error_count) show_errors(r);
    assert_int_equal(r->diags.error_count, 0);
    assert_string_equal(r->printed.data, expected);
    done(r);
}

/* The table of lenient spellings in docs/language.md, row by row. */
static void lenient_spellings(void **state) {
    (void)state;
    reads_as("KERNEL k FOR t4\ncopy Q FROM Global TO shared\ncompute gemm Q, K.t AND Get S\n",
             "kernel k for t4\nCopy Q from global to shared\nCompute GEMM Q, K.T and get S\n");
    reads_as("kernel k\nfor i=0:N\nWait A\nend\n", "kernel k\nfor i = 0:N\n    Wait A\nend\n");
    reads_as("kernel k\nfor i in 0:N\nWait A\nend\n", "kernel k\nfor i = 0:N\n    Wait A\nend\n");
    reads_as(
        "kernel k\nfor i in 0:N:\n  Wait A\n  if i > 1:\n    Wait B\n  Wait C\nWait D\n",
        "kernel k\nfor i = 0:N\n    Wait A\n    if i > 1\n        Wait B\n    end\n    Wait C\n"
        "end\nWait D\n");
    reads_as("kernel k\nfor i = 0:N:\n  Wait A\nend\nWait B\n",
             "kernel k\nfor i = 0:N\n    Wait A\nend\nWait B\n");
    reads_as("kernel k\nfor i = 0:N: Wait A\nWait B\n",
             "kernel k\nfor i = 0:N\n    Wait A\nend\nWait B\n");
    reads_as("kernel k\nfor i = 0:N:\nWait A\nend\nWait B\n",
             "kernel k\nfor i = 0:N\n    Wait A\nend\nWait B\n");
    reads_as("kernel k\nCopy Q in coor [L=i+1] from global memory to shared memory\n",
             "kernel k\nCopy Q in coordinate [L = i + 1] from global to shared\n");
    reads_as("kernel k\nCompute Multiply A, x and get new B\nCompute Multiply A, x\n",
             "kernel k\nCompute Multiply A, x and get B\nCompute Multiply A, x and get A\n");
    reads_as("kernel k\nCompute Add A, x and get new\n",
             "kernel k\nCompute Add A, x and get new\n");
    reads_as("kernel k\nReshape S from (MMA_C, MMA_M, MMA_N) to\n(MMA_A, MMA_M, MMA_N_new)\n",
             "kernel k\nReshape S from mma_C to mma_A\n");
    reads_as("kernel k\nCopy K async by tma to shared from global in coordinate [L = 0] (BN, d)\n",
             "kernel k\nCopy K (BN, d) in coordinate [L = 0] from global to shared by tma async\n");
    reads_as("kernel k\nAllocate K stages 2 swizzled 128 (BN, d) f16 in shared\n",
             "kernel k\nAllocate K in shared f16 (BN, d) swizzled 128 stages 2\n");
    reads_as("Copy Q from global to shared\n", "kernel unnamed\nCopy Q from global to shared\n");
    reads_as("kernel k\nCompute GEMM S, V and accumulate\n0_reg\n",
             "kernel k\nCompute GEMM S, V and accumulate O_register\n");
    reads_as("kernel k\n...\n. . .\n\xe2\x80\xa6\n", "kernel k\n...\n...\n...\n");
    reads_as("kernel k\nAllocate A in global (M, K) with offset batch*M*K\n",
             "kernel k\nAllocate A in global (M, K) with offset batch*M*K\n");
}

static void names_with_prefixes(void **state) {
    (void)state;
    reads_as("kernel k\nCopy Q from global to shared\nCompute GEMM sQ, sK.T and get S\n"
             "Reshape rS from mma_C to mma_A\n",
             "kernel k\nCopy Q from global to shared\nCompute GEMM Q_shared, sK.T and get S\n"
             "Reshape S from mma_C to mma_A\n");
    reads_as(
        "kernel k\nInput Q (q in q_len, d)\nAllocate sQ in shared (BM, d)\nWait sQ\nCopy rQ from "
        "register to global\n",
        "kernel k\nInput  Q (q in q_len, d)\nAllocate sQ in shared (BM, d)\nWait sQ\n"
        "Copy Q from register to global\n");
    reads_as("kernel k\nInput K (kv in kv_len, d)\nAllocate K_shared in shared (BN, d)\n"
             "Copy K_global from global to shared and get K_shared\nWait K\nRelease K\n",
             "kernel k\nInput  K (kv in kv_len, d)\nAllocate K in shared (BN, d)\n"
             "Copy K from global to shared\nWait K_shared\nRelease K_shared\n");
    /* An output may be waited for in two places: nothing is guessed. */
    reads_as("kernel k\nOutput O (q in q_len, d)\nAllocate O in shared (BN, d)\nWait O\n",
             "kernel k\nOutput O (q in q_len, d)\nAllocate O in shared (BN, d)\nWait O\n");
    reads_as("kernel k\nInput C (kv in kv_len, d)\nlet V (kv in kv_len, dv) = C[kv, dv]\n"
             "Allocate C in shared (BN, d)\nWait V\n",
             "kernel k\nInput  C (kv in kv_len, d)\nlet V (kv in kv_len, dv) = C[kv, dv]\n"
             "Allocate C in shared (BN, d)\nWait V_shared\n");
}

static void bytes_of_all_kinds(void **state) {
    (void)state;
    reads_as("\xef\xbb\xbfkernel k\r\n\tWait A\t// c\r\n",
             "kernel k\nWait A                                                      // c\n");
    reads_as("kernel k\nWait A", "kernel k\nWait A\n");
    reads_as(
        "kernel k\nWait A // no line break",
        "kernel k\nWait A                                                      // no line break\n");
    reading *r = read_bytes("kernel k\nWait\0A\nWait B\n", 23);
    assert_int_equal(r->diags.error_count, 1);
    assert_string_equal(r->diags.first->message.data, "a NUL byte is no part of the language");
    assert_string_equal(r->printed.data, "kernel k\nWait B\n");
    done(r);
    r = read_bytes("", 0);
    assert_int_equal(r->diags.error_count, 1);
    assert_int_equal(r->diags.first->id, DIAG_EMPTY_PROGRAM);
    done(r);
    r = read_bytes("// only a comment\n", 18);
    assert_int_equal(r->diags.first->id, DIAG_EMPTY_PROGRAM);
    done(r);
}

static void comments_stay(void **state) {
    (void)state;
    const char *text =
        "// before the kernel\n"
        "//\n"
        "kernel k                                                    // on the kernel\n"
        "let a = 1                                                   // on a let\n"
        "\n"
        "// above the loop\n"
        "for j = 0:a                                                 // on the loop\n"
        "    // inside\n"
        "    Wait A\n"
        "    // before the end\n"
        "end                                                         // on the end\n"
        "// at the end\n";
    reads_as(text, text);
    reads_as("kernel k\nCompute Add A, // one\n    b and  // two\n    // three\n get C // four\n",
             "kernel k\nCompute Add A, b and get C                                  // one two "
             "three four\n");
}

static int error_count_of(const char *unit, int count, diag_id *first) {
    size_t length = strlen(unit);
    char *text = malloc(length * (size_t)count + 1);
    assert_non_null(text);
    for (int i = 0; i < count; i++) memcpy(text + length * (size_t)i, unit, length);
    reading *r = read_bytes(text, length * (size_t)count);
    int errors = r->diags.error_count;
    *first = r->diags.first ? r->diags.first->id : DIAG_ID_COUNT;
    done(r);
    free(text);
    return errors;
}

static void limits_hold(void **state) {
    (void)state;
    diag_id id;
    assert_int_equal(error_count_of("for i = 0:3\n", 10000, &id), 1);
    assert_int_equal(id, DIAG_BLOCKS_TOO_DEEP);
    assert_int_equal(error_count_of("if a:\n", 10000, &id), 1);
    assert_int_equal(id, DIAG_BLOCKS_TOO_DEEP);
    assert_int_equal(error_count_of("Wait A\n", 30000, &id), 1);
    assert_int_equal(id, DIAG_TOO_MANY_STATEMENTS);
    assert_int_equal(error_count_of("kernel a\n", 30000, &id), 1);
    assert_int_equal(id, DIAG_TOO_MANY_STATEMENTS);
    assert_int_equal(error_count_of("Wait A\n", 200000, &id), 1);
    assert_int_equal(id, DIAG_SOURCE_TOO_LONG);
    assert_int_equal(error_count_of("let a = (", 1, &id), 1);
    assert_int_equal(error_count_of("let a = ((((((((( ", 50000, &id), 1);
    assert_int_equal(error_count_of("not ", 90000, &id), 1);
    assert_int_equal(error_count_of("let a = 1 +\n", 40000, &id), 40000);
    char *sum = malloc(100001);
    assert_non_null(sum);
    memcpy(sum, "let a = ", 8);
    for (int i = 8; i < 100000; i += 2) memcpy(sum + i, "1+", 2);
    sum[99999] = '1';
    reading *r = read_bytes(sum, 100000);
    assert_int_equal(r->diags.error_count, 1);
    assert_int_equal(r->diags.first->id, DIAG_EXPRESSION_TOO_LONG);
    done(r);
    free(sum);
}

static void noise_ends(void **state) {
    (void)state;
    size_t length = 1 << 20;
    char *noise = malloc(length);
    assert_non_null(noise);
    uint32_t seed = 7;
    for (size_t i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u;
        noise[i] = (char)(seed >> 24);
    }
    reading *r = read_bytes(noise, length);
    assert_true(r->diags.error_count >= 1);
    int shown = 0;
    for (const diag *d = r->diags.first; d; d = d->next) shown++;
    assert_in_range(shown, 1, DIAG_ERROR_LIMIT);
    done(r);
    free(noise);
}

static void names_of_gpus(void **state) {
    (void)state;
    reads_as("kernel k for rtx-2080-ti // c\nWait A\n",
             "kernel k for rtx-2080-ti                                    // c\nWait A\n");
    diag_id id;
    assert_int_equal(error_count_of("kernel k for rtx-\n", 1, &id), 1);
    assert_int_equal(error_count_of("kernel k for rtx-(2)\n", 1, &id), 1);
}

/* Ranges point at what was written. */
static void ranges(void **state) {
    (void)state;
    const char *text = "kernel k\nCompute GEMM Q_shared, K_shared.T and get S by m16n8k16 // c\n";
    reading *r = read_bytes(text, strlen(text));
    const tl_statement *s = r->program->first->body.first;
    assert_memory_equal(text + s->range.begin, "Compute", 7);
    assert_memory_equal(text + s->range.end - 8, "m16n8k16", 8);
    diag_range operand = s->compute.operands[1].range;
    assert_memory_equal(text + operand.begin, "K_shared.T", operand.end - operand.begin);
    done(r);
}

static void quotation(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_block block =
        tl_quote(&memory, "for j = 0:%s\n    Compute Multiply %s, c and get S\nend\nWait S\n",
                 "blocks", "S");
    assert_int_equal(block.first->kind, TL_FOR);
    assert_ptr_equal(block.first->next, block.last);
    assert_null(block.first->parent);
    assert_ptr_equal(block.first->loop.body.first->parent, block.first);
    assert_int_equal(block.last->range.end, 0);
    tl_expr *e = tl_quote_expr(&memory, "%s + 1 < %d", "j", 4);
    assert_string_equal(tl_expr_text(&memory, e).data, "j + 1 < 4");
    assert_int_equal(e->range.end, 0);
    arena_done(&memory);
}

/* What a pass quotes is right. Were it not, what comes back is refused wherever it is read. */
static void quotations_that_cannot_be_read(void **state) {
    (void)state;
    static const char *const wrong[] = {"for j = 0:", "Compute", "Wait S and\n", "end"};
    arena memory;
    arena_init(&memory, 1 << 20);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tl_block block = tl_quote(&memory, "%s", wrong[i]);
        assert_int_equal(block.first->kind, TL_WAIT);
        assert_string_equal(tl_expr_text(&memory, block.first->sync.what).data,
                            "quotation_that_cannot_be_read");
        tl_expr *e = tl_quote_expr(&memory, "1 + (%s", wrong[i]);
        assert_string_equal(tl_expr_text(&memory, e).data, "quotation_that_cannot_be_read");
    }
    arena_done(&memory);
}

static void editing(void **state) {
    (void)state;
    reading *r = read_bytes("kernel k\nWait A\nWait C\n", 23);
    tl_block *body = &r->program->first->body;
    tl_statement *b = tl_quote(&r->memory, "Wait B").first;
    tl_insert_after(body, body->first, b);
    tl_insert_before(body, body->first, tl_statement_copy(&r->memory, body->last));
    tl_statement *loop = tl_quote(&r->memory, "for j = 0:3\n    Release A\nend").first;
    tl_insert_after(body, body->last, loop);
    tl_remove(body, body->first->next);
    tl_program *copy = tl_program_copy(&r->memory, r->program);
    tl_remove(body, b);
    text_buffer out;
    text_init(&out, 1 << 16);
    tl_print(copy, &out);
    assert_string_equal(out.data,
                        "kernel k\nWait C\nWait B\nWait C\nfor j = 0:3\n    Release A\nend\n");
    text_done(&out);
    tl_print(r->program, &out);
    assert_string_equal(out.data, "kernel k\nWait C\nWait C\nfor j = 0:3\n    Release A\nend\n");
    text_done(&out);
    int count = 0;
    for (tl_statement *s = copy->first->body.first; s; s = tl_next(s, NULL)) count++;
    assert_int_equal(count, 5);
    tl_statement *copied_loop = copy->first->body.last;
    assert_ptr_equal(tl_next(copied_loop, copied_loop), copied_loop->loop.body.first);
    assert_null(tl_next(copied_loop->loop.body.first, copied_loop));
    done(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenient_spellings),
        cmocka_unit_test(names_with_prefixes),
        cmocka_unit_test(bytes_of_all_kinds),
        cmocka_unit_test(comments_stay),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(noise_ends),
        cmocka_unit_test(names_of_gpus),
        cmocka_unit_test(ranges),
        cmocka_unit_test(quotation),
        cmocka_unit_test(quotations_that_cannot_be_read),
        cmocka_unit_test(editing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
