/* The translator on whole programs: golden texts, and single facts about the text and the plan.
 * With FLASHTL_UPDATE_GOLDEN set, the golden texts are written anew.
 */
#include "base/os.h"
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

typedef struct translated {
    arena memory;
    diag_list diags;
    text_buffer cuda;
    ftl_plan *plan;
    bool ok;
} translated;

static void translate_text(translated *x, str name, str text, const char *gpu_name) {
    arena_init(&x->memory, (size_t)1 << 28);
    diag_init(&x->diags, &x->memory, name, text);
    text_init(&x->cuda, (size_t)4 << 20);
    x->ok = false;
    gpu target;
    diag_list problems;
    assert_true(gpu_find(&x->memory, str_from(gpu_name), &target, &problems));
    tl_program *program = tl_parse(&x->memory, name, text, &x->diags);
    assert_false(diag_has_errors(&x->diags));
    assert_true(tl_bind(program, &x->diags));
    tl_kernel *kernel = program->first;
    assert_true(tl_infer_axes(kernel, &x->memory, &x->diags));
    check_facts facts = {0};
    if (!check_code(kernel, &target, &x->memory, &x->diags, &facts)) return;
    translate_request request = {.kernel = kernel, .target = &target, .facts = &facts};
    x->ok = translate_kernel(&request, &x->memory, &x->diags, &x->cuda, &x->plan);
}

static void show_diagnostics(translated *x) {
    text_buffer text;
    text_init(&text, 1 << 16);
    diag_render_text(&x->diags, false, &text);
    if (text.data) print_message("%s", text.data);
    text_done(&text);
}

static void read_text(const char *name, text_buffer *out) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/cuda/%s", FLASHTL_SOURCE_FOLDER, name);
    os_error why;
    text_init(out, 4 << 20);
    if (!os_read_file(path, 4 << 20, out, &why)) fail_msg("%s", why.text);
}

static void translate_file(translated *x, const char *name, const char *gpu_name,
                           text_buffer *source) {
    read_text(name, source);
    translate_text(x, str_from(name), text_str(source), gpu_name);
    if (!x->ok) show_diagnostics(x);
}

static void done(translated *x, text_buffer *source) {
    text_done(&x->cuda);
    text_done(source);
    arena_done(&x->memory);
}

static int count(const text_buffer *text, const char *what) {
    int n = 0;
    for (const char *at = text->data; at && (at = strstr(at, what)); at++) n++;
    return n;
}

static void is_golden(const char *name, const char *gpu_name) {
    char tl[128], cu[128], path[512];
    snprintf(tl, sizeof tl, "%s.tl", name);
    snprintf(cu, sizeof cu, "%s.cu", name);
    translated x;
    text_buffer source, expected;
    translate_file(&x, tl, gpu_name, &source);
    assert_true(x.ok);
    if (getenv("FLASHTL_UPDATE_GOLDEN")) {
        os_error why;
        snprintf(path, sizeof path, "%s/tests/golden/cuda/%s", FLASHTL_SOURCE_FOLDER, cu);
        assert_true(os_write_file(path, text_str(&x.cuda), &why));
    }
    read_text(cu, &expected);
    assert_string_equal(x.cuda.data, expected.data);
    text_done(&expected);
    done(&x, &source);
}

static void golden_texts(void **state) {
    (void)state;
    is_golden("attention_a100", "a100");
    is_golden("attention_t4", "t4");
    is_golden("combine", "a100");
    is_golden("attention_h200_d64", "h200");
    is_golden("attention_h200_d128", "h200");
}

static void same_text_twice(void **state) {
    (void)state;
    translated x, y;
    text_buffer a, b;
    translate_file(&x, "attention_mbarrier.tl", "a100", &a);
    translate_file(&y, "attention_mbarrier.tl", "a100", &b);
    assert_true(x.ok && y.ok);
    assert_string_equal(x.cuda.data, y.cuda.data);
    done(&x, &a);
    done(&y, &b);
}

/* Only the wrappers that are named are in the file, and assembly stands in them alone. */
static void wrappers(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "attention_a100.tl", "a100", &source);
    assert_true(x.ok);
    const char *kernel = strstr(x.cuda.data, "extern \"C\" __global__");
    assert_non_null(kernel);
    assert_null(strstr(kernel, "asm"));
    assert_null(strstr(x.cuda.data, "m16n8k8"));
    assert_null(strstr(x.cuda.data, "mbarrier"));
    assert_null(strstr(x.cuda.data, "#include"));
    assert_int_equal(count(&x.cuda, "void ftl_mma_m16n8k16_f16("), 1);
    assert_int_equal(count(&x.cuda, "void ftl_mma_m16n8k16_f16_start("), 1);
    done(&x, &source);
    translate_file(&x, "attention_t4.tl", "t4", &source);
    assert_true(x.ok);
    assert_null(strstr(x.cuda.data, "cp.async"));
    assert_null(strstr(x.cuda.data, "m16n8k16"));
    assert_non_null(strstr(x.cuda.data, "ftl_mma_m16n8k8_f16_start(S[n8], Q_register[2 * k16][0]"));
    done(&x, &source);
}

/* What the rules derive stands in the text: groups, barriers, empty commits on the other way. */
static void synchronisation(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "attention_a100.tl", "a100", &source);
    assert_non_null(strstr(
        x.cuda.data, "// Wait Q_shared\n    ftl_cp_async_wait<2>();\n    ftl_block_barrier();\n"));
    assert_non_null(strstr(
        x.cuda.data,
        "} else {\n            ftl_cp_async_commit();\n            ftl_cp_async_commit();\n"));
    assert_non_null(strstr(x.cuda.data, "// Wait O_shared\n    ftl_warp_barrier();\n"));
    done(&x, &source);
    translate_file(&x, "attention_mbarrier.tl", "a100", &source);
    assert_int_equal(count(&x.cuda, "ftl_mbarriers_init<2>(shared"), 4);
    assert_non_null(strstr(x.cuda.data, "ftl_mbarrier_arrive_after_copies(shared"));
    /* Every lane arrives: racecheck follows no order through a barrier of the warp. */
    assert_int_equal(count(&x.cuda, ", 256); // and is free again"), 2);
    assert_null(strstr(x.cuda.data, "ftl_warp_barrier();\n        if ((ftl_thread() & 31) == 0)"));
    /* A slot's address and its barrier's parity are one register. */
    assert_non_null(
        strstr(x.cuda.data, "unsigned K_shared = shared + (at::K_tile + at::K_slot) + 1;\n"));
    assert_non_null(strstr(x.cuda.data, "unsigned right = (K_shared & ~1u);"));
    assert_null(strstr(x.cuda.data, "K_shared_parity"));
    done(&x, &source);
}

/* However executors of one warp or of four divide a tile, each loads from shared memory the rows of
 * its fragments.
 */
static void warps_load_their_own_rows(void **state) {
    (void)state;
    static const struct {
        const char *role, *over, *line; /* of the load */
        int rows;
    } rows[] = {
        {"4 warps", "", "line = warp * 16 + (lane & 15)", 64},
        {"4 warps", "over (2, 2)", "line = warp / 2 * 32 + (lane & 15)", 64},
        {"4 warps", "over (1, 4)", "line = (lane & 15)", 64},
        {"2 warpgroups", "", "line = warp * 16 + (lane & 15)", 128},
        {"2 warpgroups", "over (2, 1)", "line = warp * 16 + (lane & 15)", 128},
        {"2 warpgroups", "over (1, 2)", "line = warp % 4 * 16 + (lane >> 2)", 64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "kernel k for h200\nlet n = 64, BM = %d\nInput A f16 (i in rows, n)\n"
                 "Output B f16 (i in rows, n)\ngrid t in rows/BM\n"
                 "Allocate A in shared f16 (BM, n) swizzled 128\nrole math with %s\n"
                 "Allocate A in register f16 (BM, n) as mma_A %s\n"
                 "Copy A (BM, n) in coordinate [L = t] from global to shared by cp_async async\n"
                 "Wait A_shared\nCopy A from shared to register\nRelease A_shared\n"
                 "Copy A (BM, n) in coordinate [L = t] from register to global and get B\nend\n",
                 rows[i].rows, rows[i].role, rows[i].over);
        translated x;
        text_buffer none = {0};
        translate_text(&x, STR("k"), str_from(text), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        if (!strstr(x.cuda.data, rows[i].line)) fail_msg("%s", x.cuda.data);
        done(&x, &none);
    }
}

/* Statements over one layout share a loop, wherever their operands allow. */
static void fusion(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "attention_a100.tl", "a100", &source);
    const char *first = strstr(x.cuda.data, "// Compute MultiplyAdd S, c, shift and get S");
    const char *last = first ? strstr(first, "// Compute Cast S and get P") : NULL;
    assert_non_null(last);
    const char *loop = strstr(first, "for (");
    assert_true(!loop || loop > last);
    done(&x, &source);
}

static void plan_of_attention(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "attention_a100.tl", "a100", &source);
    assert_true(x.ok);
    const ftl_plan *p = x.plan;
    assert_string_equal(p->entry, "attention");
    assert_string_equal(p->target, "compute_80");
    assert_int_equal(p->threads, 128);
    assert_int_equal(p->shared_bytes, 96 * 1024);
    assert_int_equal(p->tensor_count, 4);
    assert_int_equal(p->size_count, 5);
    assert_int_equal(p->scalar_count, 1);
    assert_int_equal(p->walk_count, 3);
    assert_int_equal(p->tensors[0].axes[3].stride_offset, -1);
    assert_int_equal(p->tensors[1].alignment_bytes, 16);
    assert_string_equal(p->conditions[0].text, "q_heads % kv_heads == 0");
    double value;
    int64_t sizes[8] = {0};
    for (int i = 0; i < p->size_count; i++) {
        sizes[i] = strcmp(p->sizes[i].name, "q_len") == 0 ? 300 : 8;
    }
    assert_true(ftl_formula_evaluate(&p->walks[2], sizes, NULL, &value));
    assert_true(value == 3);
    done(&x, &source);
}

static void other_programs(void **state) {
    (void)state;
    static const struct {
        const char *file, *fact;
    } programs[] = {
        {"gemm_bias.tl", "warp % 2 * 64"},
        {"decode_split.tl", "args.table + b * args.table_stride_b"},
        {"combine.tl", "ftl_store_global_8_f16("},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        translated x;
        text_buffer source;
        translate_file(&x, programs[i].file, "a100", &source);
        assert_true(x.ok);
        if (!strstr(x.cuda.data, programs[i].fact))
            fail_msg("%s: no %s", programs[i].file, programs[i].fact);
        done(&x, &source);
    }
}

static const char mover[] =
    "kernel mover for a100\nlet BM = 64, BN = 64\nInput X f16 (row in row_len, column in %s)\n"
    "Output Y f16 (row in row_len, column in %s)\n"
    "grid row_block in row_len/BM, column_block in %s/BN\n"
    "Allocate X in shared f16 (BM, BN) swizzled 128\nrole move with 4 warps\n"
    "    Copy X (BM, BN) in coordinate [L = row_block, L = column_block] from global to shared by "
    "cp_async async\n    Wait X_shared\n"
    "    Copy X (BM, BN) in coordinate [L = row_block, L = column_block] from shared to global and "
    "get Y\n    Release X_shared\nend\n";

/* Whole tiles move in whole units; where a row may end inside one, what is left is counted; where
 * it ends between two, or where the tile does, nothing of that is in the text.
 */
static void ends_of_rows(void **state) {
    (void)state;
    static const struct {
        const char *columns;
        int parts, zeros, cuts;
    } rows[] = {{"column_len", 2, 0, 2}, {"68", 2, 0, 2}, {"72", 0, 2, 2}, {"128", 0, 2, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[2048];
        const char *columns = rows[i].columns;
        snprintf(text, sizeof text, mover, columns, columns, columns);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("mover"), str_from(text), "a100");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        assert_int_equal(count(&x.cuda, "_16_part<8>("), rows[i].parts);
        assert_int_equal(count(&x.cuda, "ftl_cp_async_16_or_zero("), rows[i].zeros);
        assert_int_equal(count(&x.cuda, "columns_left >= 64"), rows[i].cuts);
        assert_int_equal(count(&x.cuda, "ftl_cp_async_16("), 2);
        done(&x, &none);
    }
}

/* Rows of an odd number of units: one by one over all threads, four at a time, with the ends that
 * there are. The tile of 48 x 120 has 720 units for 128 threads.
 */
static void uneven_rows_are_dealt(void **state) {
    (void)state;
    static const struct {
        const char *columns, *gpu;
        int batch, dealt, parts;
    } copies[] = {{"120", "t4", 1, 2, 0}, {"k_len", "t4", 1, 2, 1}, {"120", "a100", 1, 2, 0}};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "kernel move for %s\nlet BM = 48, BK = 120\nInput A f16 (m in m_len, k in %s)\n"
            "Output B f16 (m in m_len, k in %s)\ngrid i in m_len/BM, j in %s/BK\n"
            "Allocate A in shared f16 (BM, BK)\nrole move with 4 warps\n"
            "    Copy A (BM, BK) in coordinate [L = i, L = j] from global to shared\n"
            "    Wait A_shared\n    Copy A (BM, BK) in coordinate [L = i, L = j] from shared to "
            "global and get B\n    Release A_shared\nend\n",
            copies[i].gpu, copies[i].columns, copies[i].columns, copies[i].columns);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("move"), str_from(text), copies[i].gpu);
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        assert_int_equal(count(&x.cuda, "unsigned units[3][4];"), copies[i].batch);
        assert_int_equal(count(&x.cuda, "const int row = unit / 15, column = unit % 15 * 8;"),
                         copies[i].dealt);
        assert_int_equal(count(&x.cuda, "if (unit < 720)"), copies[i].dealt);
        assert_int_equal(count(&x.cuda, "ftl_load_global_16_part<8>("), copies[i].parts);
        done(&x, &none);
    }
}

/* `document_q[q] != document_kv[kv]` and a place in a list: an element is read once for all of the
 * tile, for a row, or for a column, whichever it is the same for; what select(...) may not read is
 * read where it stands.
 */
static void elements_are_read_once(void **state) {
    (void)state;
    static const struct {
        const char *condition;
        int loads; /* in the text */
    } masks[] = {{"row[q] != column[kv]", 3},
                 {"row[q] != column[kv] or row[q] < 3 or column[kv] > 7", 3},
                 {"row[q]*2 < kv", 1},
                 {"whole[b] < kv", 1},
                 {"column[column[kv]] > q", 4},
                 {"both[q, kv] > 0", 2},
                 {"abs(row[q] - kv) % 2 == 1", 1},
                 {"row[q] < 3 or not (row[q] > 9 and whole[b] > 4)", 2},
                 {"select(b < 3 and whole[b] > 0, 1, 0) > 0", 2},
                 {"select(kv < 3, column[kv], 0) > 0", 2}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char text[2048];
        snprintf(
            text, sizeof text,
            "kernel look for a100\nInput row i32 (q in q_len)\nInput column i32 (kv in kv_len)\n"
            "Input whole i32 (b in batch)\nInput both i32 (q in q_len, kv in kv_len)\n"
            "Input A f32 (b in batch; q in q_len, kv in kv_len)\n"
            "Output B f32 (b in batch; q in q_len, kv in kv_len)\n"
            "grid i in q_len/64, j in kv_len/64, b in batch\nrole look with 4 warps\n"
            "    Allocate A in register f32 (64, 64) as mma_C\n"
            "    Copy A (64, 64) in coordinate [b, L = i, L = j] from global to register\n"
            "    Compute Mask A, 0 in coordinate [L = i, L = j] where %s\n"
            "    Copy A (64, 64) in coordinate [b, L = i, L = j] from register to global and get "
            "B\n"
            "end\n",
            masks[i].condition);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("look"), str_from(text), "a100");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        assert_int_equal(count(&x.cuda, "ftl_load_global_i32_if((unsigned)") +
                             count(&x.cuda, "ftl_load_global_i32(args"),
                         masks[i].loads);
        done(&x, &none);
    }
}

/* A Mask's limit of a row may be in a table: it is loaded once a row, not for each element, and
 * shares the comparison with what else masks on that side. So in both Masks of that text.
 */
static void limits_in_tables(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    read_text("../reason/counted_blocks_h200.out", &source);
    translate_text(&x, STR("counted_blocks_h200.out"), text_str(&source), "h200");
    if (!x.ok) show_diagnostics(&x);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "args.seen + "), 2);
    assert_int_equal(count(&x.cuda, "8 * n8 + 1 >= limit_"), 2);
    done(&x, &source);
}

/* Copies in a loop are not cut where what bounds the loop says that their tiles are whole. Those of
 * iterations that are none, as the loop begins past them, do not count. */
static void whole_tiles_of_loops(void **state) {
    (void)state;
    static const char written[] = "let steady = min(blocks, full) - 1 ";
    static const struct {
        const char *steady;
        int more; /* cut copies than in the text as written */
    } loops[] = {{"min(blocks, full) - 1", 0},
                 {"full - 1", 0},
                 {"min(blocks - 1, full) - 0", 2},
                 {"min(7, min(full, blocks) - 1)", 0},
                 {"max(1, min(blocks, full) - 1)", 0},
                 {"max(1, min(blocks - 1, full))", 2},
                 {"min(full - 2, blocks) + 1", 0},
                 {"2*floor(full/2) - 1", 0},
                 {"2*floor(full/3) - 1", 2},
                 {"2*floor((full - 1)/2)", 0},
                 {"2*ceil(full/2) - 2", 2},
                 {"ceil(kv_len/BN) - 2", 0},
                 {"ceil(kv_len/BN) - 1", 2},
                 {"max(3, ceil(kv_len/BN)) - 2", 0},
                 {"max(2, ceil(kv_len/BN)) - 1", 2},
                 {"max(1, min(blocks, full)) - 2", 0}};
    int cuts = 0;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        translated x;
        text_buffer source, edited;
        read_text("../reason/full_h200.out", &source);
        text_init(&edited, 1 << 20);
        const char *at = strstr(source.data, written);
        assert_non_null(at);
        text_format(&edited, "%.*slet steady = %s %s", (int)(at - source.data), source.data,
                    loops[i].steady, at + strlen(written));
        translate_text(&x, STR("full_h200.out"), text_str(&edited), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        int found = count(&x.cuda, "ftl_cp_async_16_or_zero(target");
        if (i == 0) cuts = found;
        assert_true(cuts > 0);
        if (found - cuts != loops[i].more) print_message("steady = %s\n", loops[i].steady);
        assert_int_equal(found - cuts, loops[i].more);
        text_done(&edited);
        done(&x, &source);
    }
}

/* What warpgroups write to shared memory row by row: who reads it in a product says who has to meet
 * before and after.
 */
static void writers_and_readers_meet(void **state) {
    (void)state;
    static const struct {
        const char *inputs, *result, *product;
        bool is_own; /* each warpgroup reads what it wrote, and no more */
    } forms[] = {
        {"Input X f16 (b in batch; q in q_len, e)\nOutput O f32 (b in batch; kv in kv_len, e)\n",
         "O in register f32 (BN, e) as mma_C over (1, 2)",
         "Compute GEMM P_shared.T, X_shared and get O by m64n64k16 async", false},
        {"Input X f16 (b in batch; w in w_len, q in q_len)\nOutput O f32 (b in batch; w in w_len, "
         "kv in kv_len)\n",
         "O in register f32 (e, BN) as mma_C over (2, 1)",
         "Compute GEMM X_shared, P_shared and get O by m64n64k16 async", false},
        {"Input X f16 (b in batch; w in w_len, kv in kv_len)\nOutput O f32 (b in batch; w in "
         "w_len, q in q_len)\n",
         "O in register f32 (e, BM) as mma_C over (2, 1)",
         "Compute GEMM X_shared, P_shared.T and get O by m64n128k16 async", false},
        {"Input X f16 (b in batch; w in w_len, kv in kv_len)\nOutput O f32 (b in batch; q in "
         "q_len, w in w_len)\n",
         "O in register f32 (BM, e) as mma_C over (2, 1)",
         "Compute GEMM P_shared, X_shared.T and get O by m64n128k16 async", true},
    };
    static const char *const loaded[] = {"(BM, e)", "(e, BM)", "(e, BN)", "(e, BN)"};
    static const char *const stored[] = {"(BN, e)", "(e, BN)", "(e, BM)", "(BM, e)"};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        char text[4096];
        snprintf(
            text, sizeof text,
            "kernel meeting for h200\nlet d = 64, e = 128, BM = 128, BN = 64, w_len = 128, q_len = "
            "128, kv_len = 64\n"
            "Input Q f16 (b in batch; q in q_len, d)\nInput K f16 (b in batch; kv in kv_len, d)\n%s"
            "grid b in batch\n"
            "Allocate Q in shared f16 (BM, d) swizzled 128\n"
            "Allocate K in shared f16 (BN, d) swizzled 128\n"
            "Allocate X in shared f16 %s swizzled 128\n"
            "Allocate P in shared f16 (BM, BN) swizzled 128\n"
            "role load with 1 warp\n"
            "    Copy Q (BM, d) in coordinate [b, L = 0, L = 0] from global to shared by tma "
            "async\n"
            "    Copy K (BN, d) in coordinate [b, L = 0, L = 0] from global to shared by tma "
            "async\n"
            "    Copy X %s in coordinate [b, L = 0, L = 0] from global to shared by tma "
            "async\nend\n"
            "role math with 2 warpgroups\n"
            "    Allocate S in register f32 (BM, BN) as mma_C over (2, 1)\n"
            "    Allocate P in register f16 (BM, BN) as mma_C over (2, 1)\n"
            "    Allocate %s\n    Wait Q_shared\n    Wait K_shared\n"
            "    Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async\n    Wait S\n"
            "    Release Q_shared\n    Release K_shared\n    Compute Cast S and get P_register\n"
            "    Copy P from register to shared\n    Wait P_shared\n    Wait X_shared\n"
            "    %s\n    Wait O\n    Release P_shared\n    Release X_shared\n"
            "    Copy O %s in coordinate [b, L = 0, L = 0] from register to global\nend\n",
            forms[k].inputs, loaded[k], loaded[k], forms[k].result, forms[k].product, stored[k]);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("meeting"), str_from(text), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        assert_int_equal(count(&x.cuda, "ftl_meet(1, 256);") > 0, !forms[k].is_own);
        assert_int_equal(count(&x.cuda, "ftl_meet(1 + executor, 128);") > 0, forms[k].is_own);
        done(&x, &none);
    }
}

static const char register_mover[] =
    "kernel mover for %s\nlet BM = 64, d = 64\nInput X f16 (row in row_len, d)\n"
    "Output Y f16 (row in row_len, d)\ngrid %stile_row in row_len/BM\nrole move with 4 warps\n"
    "    Allocate X in register f16 (BM, d) as %s\n"
    "    Copy X (BM, d) in coordinate [L = tile_row] from global to register\n"
    "    Copy X (BM, d) in coordinate [L = tile_row] from register to global and get Y\nend\n";

/* What has no translation is one message that names it. */
static void refusals(void **state) {
    (void)state;
    char program[1024];
    snprintf(program, sizeof program, register_mover, "a100", "", "mma_B");
    translated x;
    translate_text(&x, STR("fragments"), str_from(program), "a100");
    assert_false(x.ok);
    assert_int_equal(x.diags.error_count, 1);
    assert_non_null(strstr(x.diags.first->message.data, "mma_A, mma_C or lines"));
    text_buffer none;
    text_init(&none, 1);
    done(&x, &none);
}

/* --- asynchronous units ----------------------------------------------------------------------- */

/* Resident blocks walk the tiles; the launch makes what the walk needs. */
static void resident_blocks(void **state) {
    (void)state;
    char program[1024];
    snprintf(program, sizeof program, register_mover, "a100", "persistent ", "lines");
    translated x;
    translate_text(&x, STR("persistent"), str_from(program), "a100");
    if (!x.ok) show_diagnostics(&x);
    assert_true(x.ok);
    assert_int_equal(x.plan->grid_kind, FTL_GRID_PERSISTENT);
    assert_int_equal(x.plan->resident_blocks, 108 * x.plan->blocks_per_sm);
    assert_int_equal(x.plan->derived_count, 1);
    assert_string_equal(x.plan->target, "compute_80");
    assert_int_equal(count(&x.cuda, "tile_number + (int)gridDim.x;"), 1);
    text_buffer none;
    text_init(&none, 1);
    done(&x, &none);
}

static void roles_and_async_units(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../tl/attention_h200.tl", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(x.plan->threads, 384);
    assert_string_equal(x.plan->target, "compute_90a");
    assert_int_equal(x.plan->shared_bytes, 163936);
    assert_int_equal(x.plan->map_count, 4);
    for (int i = 0; i < 4; i++) {
        const ftl_plan_map *map = &x.plan->maps[i];
        assert_int_equal(map->offset % 64, 0);
        assert_int_equal(map->swizzle_bytes, 128);
        assert_int_equal(map->rank, i < 3 ? 5 : 4); /* the store goes panel by panel */
    }
    /* A product's wrapper is made for the width that is named, once for each kind of operand. */
    assert_int_equal(count(&x.cuda, "void ftl_wgmma_m64n128k16_f16("), 1);
    assert_int_equal(count(&x.cuda, "void ftl_wgmma_m64n128k16_f16_left("), 1);
    assert_int_equal(count(&x.cuda, "void ftl_wgmma_m64n"), 2);
    assert_int_equal(count(&x.cuda, "@"), 1); /* of an instruction's predicate */
    /* After two products in flight, the older one is waited for. */
    assert_int_equal(count(&x.cuda, "ftl_wgmma_wait<1>();"), 2);
    assert_int_equal(count(&x.cuda, "ftl_registers_shrink<24>();"), 1);
    assert_int_equal(count(&x.cuda, "ftl_registers_grow<240>();"), 1);
    assert_int_equal(count(&x.cuda, " / args.") + count(&x.cuda, " / group"), 0);
    done(&x, &source);
}

/* A view that begins inside 16 bytes is not moved by the 16; one that begins between them is. */
static void views_begin_at_units(void **state) {
    (void)state;
    static const char text[] =
        "kernel shifted for a100\nlet BM = 64, BN = 64\nInput X f16 (row in row_len, column in "
        "column_len) where column_len >= half + BN\nOutput Y f16 (row in row_len, e in BN)\nlet "
        "half = %s\n"
        "let V (row in row_len, e in BN) = X[row, half + e]\ngrid row_block in row_len/BM\n"
        "Allocate V in shared f16 (BM, BN) swizzled 128\nrole move with 4 warps\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from global to shared by cp_async "
        "async\n    Wait V_shared\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from shared to global and get Y\n"
        "    Release V_shared\nend\n";
    static const char *const halves[] = {"24", "20", "8*row_len", "row_len"};
    for (int i = 0; i < 4; i++) {
        char program[2048];
        snprintf(program, sizeof program, text, halves[i]);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("shifted"), str_from(program), "a100");
        assert_int_equal(x.ok, i % 2 == 0);
        assert_int_equal(x.diags.error_count, i % 2);
        if (!x.ok) assert_non_null(strstr(x.diags.first->message.data, "its rows begin at"));
        done(&x, &none);
    }
}

/* A tile of 64 rows in pages: a pointer for each page, or part of one, that several of a thread's
 * rows, 4 apart, lie in. Places between tiles have none.
 */
static void pages_are_found_once(void **state) {
    (void)state;
    static const char text[] =
        "kernel paged for a100\nlet BM = 64, BN = 64, page_len = %d\n"
        "Input K f16 (page in pages, slot in page_len, e in BN)\n"
        "Input table i32 (p in max_pages)\n"
        "Output Y f16 (row in row_len, e in BN) where row_len + %d <= max_pages*page_len\n"
        "let V (row in row_len, e in BN) = K[table[(%d + row)/page_len], (%d + row) %% page_len, "
        "e]\n"
        "grid row_block in row_len/BM\n"
        "Allocate V in shared f16 (BM, BN) swizzled 128\nrole move with 1 warp\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from global to shared by cp_async "
        "async\n    Wait V_shared\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from shared to global and get Y\n"
        "    Release V_shared\nend\n";
    static const struct {
        int page_len, first;
        const char *pointers;
    } pages[] = {{128, 0, " *source = "}, {64, 64, " *source = "}, {16, 0, " *source[4];"},
                 {48, 0, " *source[4];"}, {16, 8, " *source[8];"}, {4, 0, NULL},
                 {16, 4, NULL},           {64, 1, NULL},           {1, 0, NULL}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char program[2048];
        snprintf(program, sizeof program, text, pages[i].page_len, pages[i].first, pages[i].first,
                 pages[i].first);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("paged"), str_from(program), "a100");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        const char *wanted = pages[i].pointers;
        int found = count(&x.cuda, " *source = ") + count(&x.cuda, " *source[");
        assert_int_equal(found, wanted ? 1 : 0);
        if (wanted) assert_int_equal(count(&x.cuda, wanted), 1);
        done(&x, &none);
    }
}

/* Tiles of views by TMA: a box in each page that is no fraction of 8 rows; what a `select` leaves
 * out of all of a box's rows is a box outside, what the tensor's end does is clipped.
 */
static void boxes_of_views(void **state) {
    (void)state;
    static const char text[] =
        "kernel boxes for h200\nlet BM = 64, BN = 64\n"
        "Input P f16 (page in pages, slot in %d, e in BN)\nInput K f16 (k in k_len, e in BN)\n"
        "Input table i32 (p in max_pages)\nInput limit i32\n"
        "Output Y f16 (row in row_len, e in BN) where row_len %% 64 == 0 and row_len <= "
        "max_pages*4\nlet V (row in row_len, e in BN) = %s\n"
        "grid row_block in row_len/BM\nAllocate V in shared f16 (BM, BN) swizzled 128\n"
        "role load with 1 warp\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from global to shared by tma "
        "async\nend\n"
        "role store with 1 warpgroup\n    Wait V_shared\n"
        "    Copy V (BM, BN) in coordinate [L = row_block] from shared to global and get Y\n"
        "    Release V_shared\nend\n";
#define PAGES(N) "P[table[row/" #N "], row % " #N ", e]"
#define LISTED(TEST) "select(" TEST ", K[table[row/32]*32 + row % 32, e], 0)"
    static const struct {
        int page_len;
        const char *view;
        int boxes, outside; /* 0 boxes: it is refused */
    } views[] = {
        {128, PAGES(128), 1, 0},
        {64, PAGES(64), 1, 0},
        {48, PAGES(48), 4, 0},
        {16, PAGES(16), 4, 0},
        {8, PAGES(8), 8, 0},
        {12, PAGES(12), 0, 0},
        {4, PAGES(4), 0, 0},
        {4, "K[row, e]", 1, 0}, /* its tiles are whole */
        {4, LISTED("table[row/32] >= 0"), 2, 2},
        {4, LISTED("table[row/32] >= 0 and table[row/32]*32 + row % 32 < k_len"), 2, 2},
        {4, LISTED("table[row/32]*32 + row % 32 < k_len"), 2, 0},
        {4, LISTED("table[row/32]*32 + row % 32 < limit"), 0, 0},
        {4, LISTED("table[row/32] >= 0 or row < limit"), 0, 0},
        {4, LISTED("table[row/16] >= 0"), 4, 4},
    };
#undef PAGES
#undef LISTED
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char program[2048];
        snprintf(program, sizeof program, text, views[i].page_len, views[i].view);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("boxes"), str_from(program), "h200");
        if (x.ok != (views[i].boxes > 0)) show_diagnostics(&x);
        assert_int_equal(x.ok, views[i].boxes > 0);
        if (x.ok) {
            int boxes = count(&x.cuda, "ftl_tma_load_2(shared + ") +
                        count(&x.cuda, "ftl_tma_load_3(shared + ");
            int outside = count(&x.cuda, " : -32)") + count(&x.cuda, " : -16)");
            if (boxes != views[i].boxes || outside != views[i].outside)
                fail_msg("%s: %d boxes, %d outside", views[i].view, boxes, outside);
        } else {
            assert_non_null(strstr(x.diags.first->message.data, "the tile is no box of "));
        }
        done(&x, &none);
    }
}

/* Boxes of a tensor: loads end anywhere, stores at whole 16 bytes. */
static void boxes_end_at_units(void **state) {
    (void)state;
    static const char text[] =
        "kernel mover for h200\nlet BM = 64, BN = 64\n"
        "Input X f16 (row in row_len, column in %s)\nOutput Y f16 (row in row_len, column in %s)\n"
        "grid row_block in row_len/BM, column_block in %s/BN\n"
        "Allocate X in shared f16 (BM, BN) swizzled 128\nrole move with 1 warp\n"
        "    Copy X (BM, BN) in coordinate [L = row_block, L = column_block] from global to shared "
        "by "
        "tma async\n    Wait X_shared\n"
        "    Copy X (BM, BN) in coordinate [L = row_block, L = column_block] from shared to global "
        "and get Y by tma async\n    Wait Y_global\n    Release X_shared\nend\n";
    static const char *const columns[] = {"72", "column_len", "68"};
    for (int i = 0; i < 3; i++) {
        char program[2048];
        snprintf(program, sizeof program, text, columns[i], columns[i], columns[i]);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("mover"), str_from(program), "h200");
        assert_int_equal(x.ok, i == 0);
        if (x.ok) assert_int_equal(count(&x.cuda, "    ftl_tma_store_2("), 1);
        else assert_non_null(strstr(x.diags.first->message.data, "tma stores whole 16 bytes"));
        done(&x, &none);
    }
}

/* The next tile's first product beside this tile's last: rings named statically, a walk that asks
 * for the next tile, tiles from a counter.
 */
static void a_walk_that_looks_ahead(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../tl/attention_h200_flat.tl", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(x.plan->grid_kind, FTL_GRID_DYNAMIC);
    assert_true(x.plan->counters_offset > 0 && x.plan->counters_offset % 8 == 0);
    /* The loop's body is written once, for both arrays of P, and the loop moves registers at one of
     * its exits; so does the way of the block's last tile.
     */
    assert_int_equal(count(&x.cuda, "unsigned P_0[16][2], P_1[16][2];"), 1);
    assert_int_equal(count(&x.cuda, "(unsigned (&P_held)[16][2], unsigned (&P_next)[16][2])"), 1);
    assert_int_equal(count(&x.cuda, "iteration_of_j(P_0, P_1);"), 1);
    assert_int_equal(count(&x.cuda, "iteration_of_j(P_1, P_0);"), 1);
    assert_int_equal(count(&x.cuda, "P_1[n8][half] = P_0[n8][half] ^ ftl_zero();"), 1);
    assert_int_equal(count(&x.cuda, "P_0[n8][half] = P_1[n8][half];"), 1);
    /* No zeros are written for O. */
    assert_int_equal(count(&x.cuda, "O_register_holds = false;"), 1);
    assert_int_equal(count(&x.cuda, "= 0.0f;"), count(&x.cuda, "[half] = 0.0f;"));
    /* A number is fetched when it is needed, and read after the last products of a tile: in the
     * loop's body, or where a tile of one block begins.
     */
    assert_int_equal(count(&x.cuda, "ftl_fetch_tile(args.tile_counters);"), 1);
    assert_int_equal(count(&x.cuda, "if (j + 1 == j_end) {"), 1);
    assert_int_equal(count(&x.cuda, "tile_known = ftl_load_shared_i32("), 3);
    assert_int_equal(count(&x.cuda, "ftl_end_tiles(args.tile_counters);"), 1);
    assert_int_equal(count(&x.cuda, "const bool has_more = "), 1);
    /* Every lane says that it has read: racecheck follows no order through a warp's barrier. */
    assert_int_equal(count(&x.cuda, ", 256); // and was read"), 1);
    assert_null(
        strstr(x.cuda.data, "ftl_warp_barrier();\n                    if (lane == 0) ftl_m"));
    assert_int_equal(count(&x.cuda, "ftl_mbarrier_signal_each(number_held.of("), 3);
    /* One thread of a warp stores; where is the same for all of them. */
    assert_int_equal(count(&x.cuda, "const int O_at_1 = ftl_uniform(tile.head);"), 1);
    assert_int_equal(count(&x.cuda, "} else {"), 2); /* roles; more tiles or not */
    done(&x, &source);
}

/* Translates the text with the walk over sequences before the one that they decide. */
static void translate_uncounted(translated *x, const char *name) {
    static const char counted[] = "q_block in q_len/BM reversed, b in batch";
    text_buffer source, text;
    read_text(name, &source);
    const char *at = strstr(source.data, counted);
    assert_non_null(at);
    text_init(&text, 1 << 20);
    text_format(&text, "%.*sb in batch, q_block in q_len/BM reversed%s", (int)(at - source.data),
                source.data, at + strlen(counted));
    translate_text(x, STR("uncounted"), text_str(&text), "h200");
    text_done(&source);
    text_done(&text);
}

/* Resident blocks of a walk that a table measures, numbered as the longest: numbers past its end
 * are skipped where they are fetched, and by a block whose own is one. Whether there is a next tile
 * is not asked.
 */
static void resident_blocks_skip_what_is_no_tile(void **state) {
    (void)state;
    translated x;
    text_buffer none = {0};
    translate_uncounted(&x, "../reason/roles_paged_h200.out");
    assert_true(x.ok);
    assert_int_equal(x.plan->grid_kind, FTL_GRID_DYNAMIC);
    assert_int_equal(count(&x.cuda, "if (tile_exists(tile)) {"), 2); /* a role each */
    assert_int_equal(
        count(&x.cuda, "while (tile_fetched < args.tiles && !tile_exists(tile_at(tile_fetched)))"),
        1);
    assert_int_equal(count(&x.cuda, "tile_find("), 0);
    done(&x, &none);
    translate_uncounted(&x, "../reason/roles_ragged_h200.out");
    assert_false(x.ok);
    assert_non_null(strstr(x.diags.first->message.data, "there is a next tile is not asked"));
    done(&x, &none);
}

/* Where the walk stands before the one that decides how long it is, tiles are counted: the thread
 * that fetches a number looks for its indices, in the loop's last iteration, before a loop that has
 * none, and for the first tile; all roles get them with the number.
 */
static void counted_tiles_are_searched(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_ragged_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(x.plan->grid_kind, FTL_GRID_DYNAMIC);
    assert_int_equal(count(&x.cuda, "tile_exists"), 0);
    assert_int_equal(count(&x.cuda, "const auto tile_find = "), 1);
    assert_int_equal(count(&x.cuda, "tile_find((int)blockIdx.x, searched, tile_found)"), 1);
    assert_int_equal(
        count(&x.cuda, "tile_find(ftl_fetch_tile(args.tile_counters), searched, tile_found)"), 2);
    assert_int_equal(count(&x.cuda, "if (j + 1 == tile.blocks) {"), 1);
    assert_int_equal(count(&x.cuda, "if (1 >= tile.blocks) {"), 2); /* fetched, and read */
    /* Of the two pages of a tile each number is read before the wait for the slot. */
    assert_int_equal(count(&x.cuda, "const int K_pool_number_"), 6);
    assert_int_equal(count(&x.cuda, "const int V_pool_number_"), 4);
    /* What is copied of the next tile ends where that tile's sequence does. */
    assert_non_null(strstr(x.cuda.data, "const int rows_left = next.kv_len;"));
    done(&x, &source);
    translate_file(&x, "../reason/roles_paged_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(
        count(&x.cuda, "tile_find(ftl_fetch_tile(args.tile_counters), searched, tile_found)"), 1);
    done(&x, &source);
}

/* Walks as long as a table says: blocks for the most that it may say, wherever the walk stands. */
static void walks_of_tables(void **state) {
    (void)state;
    static const struct {
        const char *lets, *axes, *grid, *said[2], *formula;
    } rows[] = {
        {"let n = t[b + 1] - t[b]\nlet V (b in batch; r in n, d) = X[t[b] + r, d]\n"
         "let W (b in batch; r in n, d) = Y[t[b] + r, d]\n",
         "t i32 (i in starts)",
         "b in batch, block in n/16",
         {"if (block_number >= (int)ftl_divide_up_wide(n, 16)) return;", "block = block_number;"},
         "x_len/16"},
        {"let n = t[b + 1] - t[b]\nlet V (b in batch; r in n, d) = X[t[b] + r, d]\n"
         "let W (b in batch; r in n, d) = Y[t[b] + r, d]\n",
         "t i32 (i in starts)",
         "block in n/16 reversed, b in batch",
         {"block_number = tile - block_rest * args.value_0",
          "ftl_divide_up_wide(n, 16) - 1 - block_number;"},
         "x_len/16"},
        {"let n = t[b]\nlet V (b in batch; r in n, d) = X[r, d]\n"
         "let W (b in batch; r in n, d) = Y[r, d]\n",
         "t i32 (i in starts)",
         "b in batch, block in min(n, 64)/16",
         {"if (block_number >= ", "block = block_number;"},
         "min(x_len, 64)/16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "kernel k for a100\nlet d = 64, batch = starts - 1\nInput X f16 (x in x_len, d)\n"
                 "Input %s\nOutput Y f16 (y in x_len, d)\n%sgrid %s\n"
                 "Allocate V in register f16 (16, d) as lines\n"
                 "role all with 1 warp\nCopy V (16, d) in coordinate [b, L = block] from global to "
                 "register\nCopy V from register to global and get W (16, d) in coordinate "
                 "[b, L = block]\nend\n",
                 rows[i].axes, rows[i].lets, rows[i].grid);
        translated x;
        text_buffer none = {0};
        translate_text(&x, STR("walk"), str_from(text), "a100");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        for (int k = 0; k < 2; k++) {
            if (!count(&x.cuda, rows[i].said[k])) fail_msg("%s", x.cuda.data);
        }
        int walk = str_starts(str_from(rows[i].grid), STR("block")) ? 0 : 1;
        assert_string_equal(x.plan->walks[walk].text, rows[i].formula);
        done(&x, &none);
    }
}

/* A vote over tiles that only bodies under votes change is taken before the loop and after these
 * bodies; one over what every iteration computes, where it stands.
 */
static void votes_are_kept(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_guarded_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "int eager_kept = ftl_any("), 1);
    assert_int_equal(count(&x.cuda, "                eager_kept = ftl_any("), 5);
    assert_int_equal(count(&x.cuda, "const bool eager = (eager_kept != 0);"), 1);
    assert_int_equal(count(&x.cuda, "const bool slow = ftl_any("), 1);
    assert_int_equal(count(&x.cuda, "if (__builtin_expect(j >= tile.full || eager, 0)) {"), 1);
    done(&x, &source);

    /* `if not C` past `if C` is the way that is mostly taken: a vote on what both change is none to
     * keep.
     */
    translate_file(&x, "../reason/roles_full_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "const bool rough = (rough_kept != 0);"), 1);
    assert_int_equal(count(&x.cuda, "const bool slow = ftl_any("), 1);
    assert_int_equal(count(&x.cuda, "slow_kept"), 0);
    done(&x, &source);
}

/* tanh of arguments that a vote finds small is a polynomial, beside products; the factor before it
 * is in the coefficients.
 */
static void tanh_is_near_zero(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_capped_h200.out", "h200", &source);
    assert_true(x.ok);
    int runs = count(&x.cuda, "if (__builtin_expect(!ftl_any(!(S_most < 0.5f)), 1)) {");
    assert_int_equal(runs, 1);                                     /* a function */
    assert_int_equal(count(&x.cuda, "    attention_get_S_2("), 3); /* first, in the loop, next */
    assert_int_equal(count(&x.cuda, "if (__builtin_expect(!ftl_any(!(S_most < 1.0f)), 0)) {"),
                     runs);
    assert_int_equal(count(&x.cuda, "= ftl_odd_3(S[n8][2 * half], term_0,"), runs);
    assert_int_equal(count(&x.cuda, "= ftl_odd_5(S[n8][2 * half], term_0,"), runs);
    assert_int_equal(count(&x.cuda, "= ftl_tanh(S[n8][2 * half]);"), runs);
    done(&x, &source);
}

/* A test of columns that lie at a constant place against a constant is left to the compiler. */
static void constant_tests_of_columns(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_short_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "kv_at >= 32 ? -ftl_infinity()"), 2);
    assert_int_equal(count(&x.cuda, "kv_at + 1 >= 32 ? -ftl_infinity()"), 2);
    assert_true(count(&x.cuda, "8 * n8 >= limit_") > 0);
    done(&x, &source);
}

/* A Mask by halves asks once for the warp; the runs that read its tile work out one element a row
 * where the answer is yes, and a new product forgets it. Bodies under votes work out all.
 */
static void masks_by_parts(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_parts_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "bool S_unseen_1 = false;"), 1);
    int asked = count(&x.cuda, "S_unseen_1 = ftl_all(56 > limit_");
    assert_int_equal(asked, 3); /* first, in the loop, next */
    assert_int_equal(count(&x.cuda, "if (ftl_any(57 > limit_"), asked);
    assert_int_equal(count(&x.cuda, "if (S_unseen_1) {"), asked);
    assert_int_equal(count(&x.cuda, "                S_unseen_1 = false;"), asked);
    assert_int_equal(count(&x.cuda, "ftl_multiply_add(T[n8][2 * half + 1], 14.0f, "), asked);
    done(&x, &source);

    /* In quarters there are three to ask for; what is no diagonal is refused. */
    static const char *const forms[] = {"kv > q + offset by quarters",
                                        "kv > q/2 + offset by halves"};
    for (int i = 0; i < 2; i++) {
        text_buffer text, edited;
        read_text("../reason/roles_parts_h200.out", &text);
        text_init(&edited, 1 << 20);
        for (str rest = text_str(&text); rest.length;) {
            str line = str_cut(&rest, '\n'), old = STR("kv > q + offset by halves");
            bool is_mask = str_ends(line, old);
            if (is_mask) line.length -= old.length;
            text_format(&edited, "%.*s%s\n", STR_ARGS(line), is_mask ? forms[i] : "");
        }
        translate_text(&x, STR("parts"), text_str(&edited), "h200");
        assert_int_equal(x.ok, i == 0);
        if (x.ok) assert_int_equal(count(&x.cuda, "_unseen_3 = ftl_all(88 > limit_"), asked);
        else assert_non_null(strstr(x.diags.first->message.data, "one limit for all rows"));
        done(&x, &edited);
        text_done(&text);
    }
}

/* Who fetches a tile's number works out its indices, too, and publishes them beside it. */
static void indices_are_published(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_parts_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "int tile_known[1][4]"), 1);
    assert_int_equal(count(&x.cuda, "ftl_load_shared_16_i32(tile_known[0], shared + "), 3);
    assert_int_equal(count(&x.cuda, ", ftl_uniform(tile_known[0][3]));"), 1);
    assert_int_equal(count(&x.cuda, "next = tile_at(tile_next);"), 1); /* by one role alone */
    assert_int_equal(count(&x.cuda, "* number_fill.slot, next.q_block);"), 1);
    done(&x, &source);
}

/* Each warp stores the rows that it wrote: no barrier among warps on a result's way out. */
static void warps_store_their_rows(void **state) {
    (void)state;
    translated x;
    text_buffer source;
    translate_file(&x, "../reason/roles_parts_h200.out", "h200", &source);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "+ warp * 2048, 0, O_at_2 + warp * 16, O_at_1,"), 1);
    assert_int_equal(count(&x.cuda, "if (lane == 0) ftl_tma_store_wait<0>();"), 2);
    assert_int_equal(x.plan->maps[3].dimensions[1].box, 16);
    done(&x, &source);
}

/* What a tile held is kept, or forgotten, before the fence of a product into it where the compiler
 * could write it after: it may know the value, it is another tile's, or nothing needs it. Else
 * there is no more text.
 */
static void fences_hold_known_values(void **state) {
    (void)state;
    static const struct {
        const char *between, *verb;
        int forgotten, kept;
    } rows[] = {
        {"Compute Exp2 S and get S", "get", 0, 0},
        {"Compute Multiply S, scale and get S", "get", 0, 0},
        {"Compute Mask S in coordinate [L = 0, L = 0] where kv >= kv_len", "get", 0, 0},
        {"Compute Mask S in coordinate [L = 0, L = 0] where kv > q and kv >= limit", "get", 0, 0},
        {"Compute Max S, scale and get S", "get", 0, 0},
        {"Compute Mask S, 0 in coordinate [L = 0, L = 0] where kv >= 0", "get", 1, 0},
        {"Compute Mask S, 0 in coordinate [L = 0, L = 0] where kv >= kv_len or kv < 100", "get", 1,
         0},
        {"Compute Mask S, 0 in coordinate [L = 0, L = 0] where kv_len - kv_len <= kv", "get", 1, 0},
        {"Compute Max S, 0 and get S", "get", 1, 0},
        {"Compute Max S, 0 and get S\nCompute Exp2 S and get S", "get", 0, 0},
        {"Compute Max S, 0 and get S\nCompute Multiply S, scale and get S", "get", 0, 0},
        {"Compute Max S, 0 and get S\nCompute Multiply S, 2 and get S", "get", 1, 0},
        {"Compute Fill 2 and get S", "get", 1, 0},
        {"Compute Fill scale and get S", "get", 1, 0},
        {"Compute Cast S and get T\nCompute Exp S and get S", "get", 0, 0},
        {"Compute Cast S and get T", "get", 1, 0},
        {"Compute Cast S and get T", "accumulate", 0, 1},
        {"Compute Multiply S, scale and get T", "accumulate", 0, 1}, /* read, not past the fence */
        {"Compute Multiply S, scale and get S", "accumulate", 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[4096];
        snprintf(
            text, sizeof text,
            "kernel fences for h200\nlet d = 64, BM = 64, BN = 64\n"
            "Input Q f16 (b in batch; q in q_len, d)\nInput K f16 (b in batch; kv in kv_len, d)\n"
            "Input scale f32\nInput limit i32\n"
            "Output O f32 (b in batch; q in q_len, kv in kv_len)\n"
            "Output P f32 (b in batch; q in q_len, kv in kv_len)\n"
            "grid b in batch\n"
            "Allocate Q in shared f16 (BM, d) swizzled 128\n"
            "Allocate K in shared f16 (BN, d) swizzled 128\n"
            "role load with 1 warp\n"
            "    Copy Q (BM, d) in coordinate [b, L = 0] from global to shared by tma async\n"
            "    Copy K (BN, d) in coordinate [b, L = 0] from global to shared by tma async\nend\n"
            "role math with 1 warpgroup\n"
            "    Allocate S in register f32 (BM, BN) as mma_C\n"
            "    Allocate T in register f32 (BM, BN) as mma_C\n"
            "    Wait Q_shared\n    Wait K_shared\n    Compute Fill 0 and get T\n"
            "    Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async\n    Wait S\n"
            "    %s\n"
            "    Copy S (BM, BN) in coordinate [b, L = 0, L = 0] from register to global and get "
            "P\n"
            "    Compute GEMM Q_shared, K_shared.T and %s S by m64n64k16 async\n    Wait S\n"
            "    Release Q_shared\n    Release K_shared\n    Compute Add S, T and get S\n"
            "    Copy S (BM, BN) in coordinate [b, L = 0, L = 0] from register to global and get "
            "O\n"
            "end\n",
            rows[i].between, rows[i].verb);
        translated x;
        text_buffer none;
        text_init(&none, 1);
        translate_text(&x, STR("fences"), str_from(text), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        int forgotten = count(&x.cuda, "ftl_forget(S);\n"), kept = count(&x.cuda, "ftl_keep(S);\n");
        if (forgotten != rows[i].forgotten || kept != rows[i].kept + 2)
            fail_msg("%s: %d forgotten, %d kept", rows[i].between, forgotten, kept);
        done(&x, &none);
    }
}

/* What a person would not write: long lines, loops of one round, bare places in shared memory. */
/* Kernels of gradients: of queries, then of keys and values. A block's values of columns come in
 * pairs, or one by one at the end and in other strides; minus infinity is a number.
 */
static void values_of_columns_come_in_pairs(void **state) {
    (void)state;
    text_buffer source;
    read_text("../reason/roles_gradients_h200.out", &source);
    str whole = text_str(&source);
    const char *second = strstr(whole.data, "\nkernel attention_gradient_K_V");
    assert_non_null(second);
    const str texts[] = {{whole.data, (size_t)(second - whole.data) + 1}, str_from(second + 1)};
    for (int i = 0; i < 2; i++) {
        translated x;
        translate_text(&x, STR("gradients"), texts[i], "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        assert_int_equal(count(&x.cuda, "ftl_log(0"), 0);
        assert_int_equal(count(&x.cuda, "< -1e+30f ? ftl_infinity()"), i == 0 ? 1 : 2);
        int loads = i == 0 ? 0 : 3; /* of the first block, of the second, and in the loop */
        assert_int_equal(count(&x.cuda, "ftl_load_global_f32x2(lse_register[n8][0]"), loads);
        assert_int_equal(count(&x.cuda, "ftl_load_global_f32x2(delta_register[n8][0]"), loads);
        assert_int_equal(count(&x.cuda, "% 8 == 0 && rows_left >= 48) {"), 2 * loads);
        text_done(&x.cuda);
        arena_done(&x.memory);
    }
    text_done(&source);
}

static void written_as_by_hand(void **state) {
    (void)state;
    static const char *const programs[][2] = {{"attention_h200_d128.tl", "h200"},
                                              {"attention_h200_d64.tl", "h200"},
                                              {"attention_a100.tl", "a100"},
                                              {"attention_mbarrier.tl", "a100"},
                                              {"attention_t4.tl", "t4"},
                                              {"combine.tl", "a100"},
                                              {"decode_split.tl", "a100"},
                                              {"../reason/roles_padded_h200.out", "h200"},
                                              {"../reason/roles_one_slot_h200.out", "h200"}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        translated x;
        text_buffer source;
        translate_file(&x, programs[i][0], programs[i][1], &source);
        assert_true(x.ok);
        int lines = 0;
        for (str rest = text_str(&x.cuda); rest.length; lines++) {
            str line = str_cut(&rest, '\n');
            if (line.length > 120) fail_msg("%s: %.*s", programs[i][0], STR_ARGS(line));
        }
        assert_int_equal(count(&x.cuda, " < 1; "), 0);
        for (char digit = '0'; digit <= '9'; digit++) {
            char place[] = {'s', 'h', 'a', 'r', 'e', 'd', ' ', '+', ' ', digit, 0};
            assert_int_equal(count(&x.cuda, place), 0);
        }
        if (i == 0 && lines > 985) fail_msg("%s: %d lines", programs[i][0], lines);
        done(&x, &source);
    }
}

/* A name that the text makes of one of the program's is never another of the program's: one would
 * hide the other.
 */
static void made_names_are_free(void **state) {
    (void)state;
    static const char *const made[] = {"Q_held", "K_fill",  "Q_left", "P_0",     "P_next",
                                       "S_row",  "q_first", "at",     "tile_at", "next"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        text_buffer text, edited;
        translated x;
        char declared[64];
        read_text("attention_h200_d128.tl", &text);
        text_init(&edited, 1 << 20);
        for (str rest = text_str(&text); rest.length;) {
            bool is_it = str_starts(rest, STR("offset"));
            text_add(&edited, is_it ? str_from(made[i]) : (str){rest.data, 1});
            rest.data += is_it ? 6 : 1, rest.length -= is_it ? 6 : 1;
        }
        translate_text(&x, STR("names"), text_str(&edited), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        snprintf(declared, sizeof declared, "const int %s_ = args.kv_len - args.q_len;", made[i]);
        if (count(&x.cuda, declared) != 1) fail_msg("%s is taken", made[i]);
        done(&x, &edited);
        text_done(&text);
    }
}

/* A block that is one warp: its number is divided by constants of the launch; rows that a view
 * folds have an address each, not each pair of elements; and where the kernel yields, it says so
 * before its first loop.
 */
static void lone_warps(void **state) {
    (void)state;
    static const char format[] =
        "kernel folded for h200\n"
        "let BM = %d, d = 64, group = 4\n"
        "Output Y f32 (b in batch, head in heads, q in q_len, d) where heads == group\n"
        "let rows = group*q_len\n"
        "let W (b in batch; r in rows, d) = Y[b, r %% group, r/group, d]\n"
        "grid yielding r_block in rows/BM, b in batch\n"
        "role math with %d warp\n"
        "    Allocate W in register f32 (BM, d) as mma_C\n"
        "    Compute Fill 0 and get W_register\n"
        "    for s = 0:q_len\n"
        "        Compute Add W_register, 1 and get W_register\n"
        "    end\n"
        "    Copy W (BM, d) in coordinate [b, L = r_block] from register to global\n"
        "end\n";
    for (int warps = 1; warps <= 2; warps++) {
        translated x;
        text_buffer none = {0};
        char text[1024];
        snprintf(text, sizeof text, format, 16 * warps, warps);
        translate_text(&x, STR("folded"), str_from(text), "h200");
        if (!x.ok) show_diagnostics(&x);
        assert_true(x.ok);
        bool is_alone = warps == 1;
        assert_int_equal(count(&x.cuda, "const int r_block_rest = ftl_quotient(tile, "), is_alone);
        assert_int_equal(count(&x.cuda, "tile /= ") > 0, !is_alone);
        assert_int_equal(count(&x.cuda, "line[half] = args.Y + "), 1);
        assert_int_equal(count(&x.cuda, "half) >> 2) * "), 1);
        assert_int_equal(count(&x.cuda, "ftl_store_global_f32x2(line[half] + 8 * n8, "), 1);
        assert_int_equal(count(&x.cuda, "    ftl_let_next_begin();\n    // for s = 0:q_len\n"), 1);
        done(&x, &none);
    }
}

/* Two loops of one name that make several rounds at once, and integers that are made of their sums.
 */
static void sums_become_integers(void **state) {
    (void)state;
    static const char text[] =
        "kernel sums for h200\n"
        "let BM = 1, d = 128\n"
        "Input X f32 (s in parts, r in rows, d)\n"
        "Output Y i32 (r in rows, d)\n"
        "let part (s in parts; r in rows, d) = X[s, r, d]\n"
        "grid r_block in rows/BM\n"
        "role math with 1 warp\n"
        "    Allocate part, again, twice, half in register f32 (BM, d) as lines\n"
        "    Allocate Y, Z in register i32 (BM, d) as lines\n"
        "    Compute Fill 0 and get twice\n"
        "    Compute Fill 0 and get half\n"
        "    for s = 0:parts\n"
        "        Copy part (BM, d) in coordinate [s, L = r_block] from global to register\n"
        "        Compute Multiply part_register, 2 and accumulate twice\n"
        "    end\n"
        "    for s = 0:parts\n"
        "        Copy part (BM, d) in coordinate [s, L = r_block] from global to register and get "
        "again\n"
        "        Compute Multiply again, 0.5 and accumulate half\n"
        "    end\n"
        "    Compute Add twice, half and get Z\n"
        "    Compute Subtract Z, 1 and get Z\n"
        "    Compute Multiply twice, 3 and get Y_register\n"
        "    Compute Add Y_register, Z and get Y_register\n"
        "    Copy Y (BM, d) in coordinate [L = r_block] from register to global\n"
        "end\n";
    translated x;
    text_buffer none = {0};
    translate_text(&x, STR("sums"), str_from(text), "h200");
    if (!x.ok) show_diagnostics(&x);
    assert_true(x.ok);
    assert_int_equal(count(&x.cuda, "const int s_whole = "), 1);
    assert_int_equal(count(&x.cuda, "const int s_whole_2 = "), 1);
    assert_int_equal(count(&x.cuda, "s < s_whole_2; s++"), 1);
    assert_int_equal(count(&x.cuda, "s = s_whole_2;"), 1);
    assert_int_equal(count(&x.cuda, "= ftl_nearest(ftl_add(twice[0][0][2 * half],"), 1);
    assert_int_equal(count(&x.cuda, "= ftl_nearest(ftl_multiply(twice[0][0][2 * half], 3.0f));"),
                     1);
    assert_int_equal(count(&x.cuda, "= (long long)Z[0][0][2 * half] - 1;"), 1);
    done(&x, &none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_columns_come_in_pairs),
        cmocka_unit_test(lone_warps),
        cmocka_unit_test(sums_become_integers),
        cmocka_unit_test(written_as_by_hand),
        cmocka_unit_test(made_names_are_free),
        cmocka_unit_test(fences_hold_known_values),
        cmocka_unit_test(constant_tests_of_columns),
        cmocka_unit_test(masks_by_parts),
        cmocka_unit_test(indices_are_published),
        cmocka_unit_test(warps_store_their_rows),
        cmocka_unit_test(votes_are_kept),
        cmocka_unit_test(tanh_is_near_zero),
        cmocka_unit_test(golden_texts),
        cmocka_unit_test(same_text_twice),
        cmocka_unit_test(wrappers),
        cmocka_unit_test(synchronisation),
        cmocka_unit_test(warps_load_their_own_rows),
        cmocka_unit_test(fusion),
        cmocka_unit_test(plan_of_attention),
        cmocka_unit_test(other_programs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(ends_of_rows),
        cmocka_unit_test(views_begin_at_units),
        cmocka_unit_test(pages_are_found_once),
        cmocka_unit_test(boxes_of_views),
        cmocka_unit_test(resident_blocks),
        cmocka_unit_test(roles_and_async_units),
        cmocka_unit_test(uneven_rows_are_dealt),
        cmocka_unit_test(limits_in_tables),
        cmocka_unit_test(whole_tiles_of_loops),
        cmocka_unit_test(writers_and_readers_meet),
        cmocka_unit_test(a_walk_that_looks_ahead),
        cmocka_unit_test(boxes_end_at_units),
        cmocka_unit_test(elements_are_read_once),
        cmocka_unit_test(resident_blocks_skip_what_is_no_tile),
        cmocka_unit_test(counted_tiles_are_searched),
        cmocka_unit_test(walks_of_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
