/* Hopper's asynchronous instructions one by one: boxes of tensors in all ranks, swizzles and edges,
 * plain bulk copies, and what is refused or found. hopper.cu (test_emulate_hopper.c) has them
 * together; tests/exec/conformance compares with a GPU.
 */
#include "emulate_support.h"

enum { WORDS = 4096, SHARED = 65536 };

typedef struct program {
    arena memory;
    emulate_result result;
    text_buffer report;
    _Alignas(64) uint8_t parameters[EMULATE_TENSOR_MAP_BYTES + 16];
    uint8_t in[WORDS * 4], out[WORDS * 4];
    bool is_read;
} program;

/* 128 threads. %d1 is the thread's word of the output, %p1 holds in thread 0, %bar names an
 * mbarrier of count 1, initialised and fenced; the body leaves its result in %r9.
 */
static const char head[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 raw[];\n"
    ".entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out) {\n"
    ".reg .pred %p<8>; .reg .b32 %r<40>; .reg .b32 %bar; .reg .b64 %d<16>; .reg .b64 %m;\n"
    ".reg .f32 %f<40>;\n"
    "mov.u32 %r0, %tid.x; mov.u32 %r1, raw; ld.param.u64 %d0, [out]; ld.param.u64 %d2, [in];\n"
    "mad.wide.u32 %d1, %r0, 4, %d0; mov.b64 %m, map; cvta.param.u64 %m, %m;\n"
    "setp.eq.u32 %p1, %r0, 0; add.u32 %bar, %r1, 60000; mov.u32 %r9, 0;\n"
    "@%p1 mbarrier.init.shared::cta.b64 [%bar], 1;\n"
    "@%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
static const char tail[] = "\nst.global.u32 [%d1], %r9;\nret;\n}\n";
#define WAIT                                                                                       \
    "{\nL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @%p2 bra D; bra L;\nD:\n}\n"
#define LOAD_3D                                                                                    \
    "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "     \
    "[%m, "

static void run_in_order(program *p, const emulate_tensor_map *map, const char *body,
                         uint64_t seed) {
    memset(p, 0, sizeof *p);
    arena_init(&p->memory, 256u << 20);
    text_init(&p->report, 1u << 20);
    for (size_t i = 0; i < WORDS; i++) memcpy(p->in + 4 * i, &(uint32_t){(uint32_t)i}, 4);
    if (map) {
        const char *broken = emulate_tensor_map_encode(map, p->parameters);
        if (broken) fail_msg("%s", broken);
    }
    str text = str_format(&p->memory, "%s%s%s", head, body, tail);
    diag_list diagnostics;
    diag_init(&diagnostics, &p->memory, STR("program.ptx"), text);
    emulate_module *module = emulate_read(&p->memory, text, &diagnostics);
    p->is_read = module != NULL;
    diag_render_text(&diagnostics, false, &p->report);
    if (!module) return;
    emulate_buffer buffers[] = {
        {.name = STR("in"), .data = p->in, .bytes = sizeof p->in, .readable = true},
        {.name = STR("out"), .data = p->out, .bytes = sizeof p->out, .writable = true},
    };
    buffers[1].readable = true;
    emulate_pointer pointers[] = {{EMULATE_TENSOR_MAP_BYTES, 0, 0},
                                  {EMULATE_TENSOR_MAP_BYTES + 8, 1, 0}};
    emulate_launch launch = {.grid = {1, 1, 1},
                             .block = {128, 1, 1},
                             .dynamic_shared_bytes = SHARED,
                             .parameters = p->parameters,
                             .parameter_bytes = sizeof p->parameters,
                             .buffers = buffers,
                             .buffer_count = 2,
                             .pointers = pointers,
                             .pointer_count = 2,
                             .seed = seed,
                             .instruction_budget = 1000000};
    emulate_run(module, &launch, &p->memory, &p->result);
    emulate_render_text(&p->result, STR("program.ptx"), &p->report);
}

static void run(program *p, const emulate_tensor_map *map, const char *body) {
    run_in_order(p, map, body, 0);
}

static void end(program *p) {
    text_done(&p->report);
    arena_done(&p->memory);
}

static void run_clean(program *p, const emulate_tensor_map *map, const char *body) {
    run(p, map, body);
    if (!p->is_read || p->result.outcome != EMULATE_CLEAN)
        fail_msg("%s\n%s", body, p->report.data ? p->report.data : "");
}

static void check_found(const emulate_tensor_map *map, const char *body, emulate_kind kind,
                        const char *words) {
    static program p;
    run(&p, map, body);
    bool found = false;
    for (int i = 0; i < p.result.finding_count; i++) found |= p.result.findings[i].kind == kind;
    const char *report = p.report.data ? p.report.data : "";
    if (!found || !strstr(report, words))
        fail_msg("%s\nno %s with \"%s\" in:\n%s", body, emulate_kind_name(kind), words, report);
    end(&p);
}

static void check_refused(const char *body, const char *words) {
    static program p;
    run(&p, NULL, body);
    if (p.is_read || !strstr(p.report.data, words))
        fail_msg("%s\nno \"%s\" in:\n%s", body, words, p.report.data ? p.report.data : "");
    end(&p);
}

/* --- boxes ------------------------------------------------------------------------------------ */

static const emulate_tensor_map cube = {.buffer = 0,
                                        .element_bytes = 4,
                                        .rank = 3,
                                        .extents = {10, 6, 5},
                                        .stride_bytes = {64, 512},
                                        .box = {8, 4, 2},
                                        .element_strides = {1, 1, 1}};

static uint32_t word_of(const uint8_t *bytes, int number) {
    uint32_t word;
    memcpy(&word, bytes + 4 * number, 4);
    return word;
}

/* Loads the box into the output through shared memory, word by word. */
static void load_box(program *p, const emulate_tensor_map *map, int dimensions,
                     const char *coordinates, int words) {
    static char body[2048];
    snprintf(body, sizeof body,
             "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%bar], %d;\n"
             "@%%p1 cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes"
             ".L2::cache_hint [%%r1], [%%m, {%s}], [%%bar], %%d2;\n%s"
             "mov.u32 %%r2, 0;\nN: mad.lo.u32 %%r3, %%r2, 128, %%r0; shl.b32 %%r4, %%r3, 2;\n"
             "setp.ge.u32 %%p3, %%r3, %d; @%%p3 bra X;\n"
             "add.u32 %%r5, %%r4, %%r1; ld.shared.u32 %%r6, [%%r5];\n"
             "mad.wide.u32 %%d3, %%r3, 4, %%d0; st.global.u32 [%%d3], %%r6;\n"
             "mov.u32 %%r9, %%r6; add.u32 %%r2, %%r2, 1; bra N;\nX: bar.sync 0; ret;\n",
             words * 4, dimensions, coordinates, WAIT, words);
    run_clean(p, map, body);
}

static void boxes_and_their_edges(void **state) {
    (void)state;
    static const int starts[][3] = {{0, 0, 0}, {4, 3, 1}, {4, 4, 4}, {-4, -2, -1}, {20, 0, 0}};
    static program p;
    for (size_t n = 0; n < sizeof starts / sizeof *starts; n++) {
        char coordinates[64];
        const int *at = starts[n];
        snprintf(coordinates, sizeof coordinates, "%d, %d, %d", at[0], at[1], at[2]);
        load_box(&p, &cube, 3, coordinates, 64);
        for (int z = 0; z < 2; z++)
            for (int y = 0; y < 4; y++)
                for (int x = 0; x < 8; x++) {
                    int i = x + at[0], j = y + at[1], k = z + at[2];
                    bool inside = i >= 0 && i < 10 && j >= 0 && j < 6 && k >= 0 && k < 5;
                    uint32_t expected = inside ? (uint32_t)(i + 16 * j + 128 * k) : 0;
                    assert_int_equal(word_of(p.out, x + 8 * y + 32 * z), expected);
                }
        end(&p);
    }
}

static void all_ranks(void **state) {
    (void)state;
    static program p;
    for (uint32_t rank = 1; rank <= 5; rank++) {
        emulate_tensor_map map = {.element_bytes = 4, .rank = rank};
        for (uint32_t d = 0; d < rank; d++) {
            map.extents[d] = d ? 3 : 4;
            map.box[d] = d ? 2 : 4;
            map.element_strides[d] = 1;
            if (d) map.stride_bytes[d - 1] = d == 1 ? 16 : map.stride_bytes[d - 2] * 3;
        }
        static const char *const ones[] = {"0", "0, 1", "0, 1, 1", "0, 1, 1, 1", "0, 1, 1, 1, 1"};
        int words = 4 << (rank - 1);
        load_box(&p, &map, (int)rank, ones[rank - 1], words);
        for (int n = 0; n < words; n++) {
            uint64_t at = (uint64_t)(n % 4) * 4;
            for (uint32_t d = 1; d < rank; d++)
                at += (1u + ((unsigned)n >> (1 + d) & 1u)) * map.stride_bytes[d - 1];
            assert_int_equal(word_of(p.out, n), at / 4);
        }
        end(&p);
    }
}

/* There are none along dimension 0. */
static void element_strides_skip(void **state) {
    (void)state;
    static program p;
    emulate_tensor_map map = cube;
    map.element_strides[0] = map.element_strides[1] = 2;
    load_box(&p, &map, 3, "0, 0, 0", 32);
    for (int n = 0; n < 32; n++)
        assert_int_equal(word_of(p.out, n), n % 8 + n / 8 % 2 * 32 + n / 16 * 128);
    end(&p);
}

static void swizzles(void **state) {
    (void)state;
    static program p;
    for (uint32_t span = 32; span <= 128; span *= 2) {
        emulate_tensor_map map = {.element_bytes = 4,
                                  .rank = 2,
                                  .extents = {64, 64},
                                  .stride_bytes = {256},
                                  .box = {span / 4, 32},
                                  .element_strides = {1, 1},
                                  .swizzle_bytes = span};
        int words = (int)span * 8;
        load_box(&p, &map, 2, "0, 0", words);
        for (int n = 0; n < words; n++) {
            uint32_t at = (uint32_t)n * 4, line = at / 128;
            uint32_t from = at ^ (line % (span / 16) * 16);
            assert_int_equal(word_of(p.out, n), from / span * 64 + from % span / 4);
        }
        end(&p);
    }
}

static void stores_are_clipped(void **state) {
    (void)state;
    static program p;
    emulate_tensor_map map = cube;
    map.buffer = 1;
    map.extents[0] = 8;
    map.byte_offset = 512;
    run_clean(&p, &map,
              "shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; add.u32 %r3, %r0, 1000;\n"
              "st.shared.u32 [%r2], %r3; fence.proxy.async; bar.sync 0; mov.u32 %r9, %r0;\n"
              "@!%p1 bra X;\n"
              "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%m, {4, 3, 4}], [%r1];\n"
              "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nX:\n");
    for (int n = 0; n < WORDS; n++) {
        int at = n - 128, x = at % 16 - 4, y = at / 16 % 8 - 3, z = at / 128 - 4;
        bool inside = at >= 0 && x >= 0 && x < 4 && y >= 0 && y < 3 && at / 16 % 8 < 6 && z == 0;
        uint32_t expected = n < 128 ? (uint32_t)n : inside ? (uint32_t)(1000 + x + 8 * y) : 0;
        if (word_of(p.out, n) != expected)
            fail_msg("word %d: %u, not %u", n, word_of(p.out, n), expected);
    }
    end(&p);
}

/* Sums of f32, of the part of a box that is in the tensor, twice; of other elements they are not
 * known.
 */
static void boxes_are_added(void **state) {
    (void)state;
    static program p;
    emulate_tensor_map map = cube;
    map.buffer = 1;
    map.extents[0] = 8;
    map.byte_offset = 512;
    map.is_f32 = true;
    static const char text[] =
        "shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; add.u32 %r3, %r0, 1000; cvt.rn.f32.u32 %f0, "
        "%r3;\n"
        "st.shared.f32 [%r2], %f0; fence.proxy.async; bar.sync 0; mov.u32 %r9, %r0;\n"
        "@!%p1 bra X;\n"
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%m, {4, 3, 4}], "
        "[%r1];\n"
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%m, {4, 3, 4}], "
        "[%r1];\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nX:\n";
    run_clean(&p, &map, text);
    for (int n = 128; n < WORDS; n++) {
        int at = n - 128, x = at % 16 - 4, y = at / 16 % 8 - 3, z = at / 128 - 4;
        bool inside = at >= 0 && x >= 0 && x < 4 && y >= 0 && y < 3 && at / 16 % 8 < 6 && z == 0;
        uint32_t bits = word_of(p.out, n);
        float found, expected = inside ? (float)(2 * (1000 + x + 8 * y)) : 0;
        memcpy(&found, &bits, sizeof found);
        if (found != expected) fail_msg("word %d: %g, not %g", n, (double)found, (double)expected);
    }
    end(&p);
    map.is_f32 = false;
    run(&p, &map, text);
    assert_true(p.is_read && p.result.finding_count > 0);
    assert_non_null(strstr(p.report.data, "of f32 alone"));
    end(&p);
}

/* Rows of 10 words end in the middle of 16 bytes: two words after each are written, and that is
 * said.
 */
static void stores_are_of_whole_pieces(void **state) {
    (void)state;
    static program p;
    emulate_tensor_map map = cube;
    map.buffer = 1;
    map.byte_offset = 512;
    run(&p, &map,
        "shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; add.u32 %r3, %r0, 1000;\n"
        "st.shared.u32 [%r2], %r3; fence.proxy.async; bar.sync 0; mov.u32 %r9, %r0;\n"
        "@!%p1 bra X;\n"
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%m, {8, 0, 0}], [%r1];\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nX:\n");
    assert_true(p.is_read && p.result.finding_count == 1);
    assert_int_equal(p.result.findings[0].kind, EMULATE_TENSOR);
    assert_non_null(strstr(p.report.data, "8 bytes past its rows"));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 8; x++)
            assert_int_equal(word_of(p.out, 128 + 16 * y + 8 + x), x < 4 ? 1000 + x + 8 * y : 0);
    end(&p);
}

static void plain_bulk_copies(void **state) {
    (void)state;
    static program p;
    run_clean(&p, NULL,
              "@!%p1 bra W;\n"
              "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%bar], 4096;\n"
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+2048], "
              "[%d2+16], 4096, [%bar];\nW:\n" WAIT "@!%p1 bra X;\n"
              "cp.async.bulk.global.shared::cta.bulk_group [%d0+512], [%r1+2048], 4096;\n"
              "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\nX:\n");
    for (int n = 0; n < 1024; n++) assert_int_equal(word_of(p.out, 128 + n), n + 4);
    end(&p);
}

#define COPY_BY_THREAD "@%p1 cp.async.ca.shared.global [%r1+2048], [%d2+16], 16;\n"
#define ARRIVE_AFTER "@%p1 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\n"
#define STORE_BULK                                                                                 \
    "@!%p1 bra X;\n"                                                                               \
    "cp.async.bulk.global.shared::cta.bulk_group [%d0+512], [%r1+2048], 16;\n"                     \
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nX:\n"

/* A fence helps what has landed before it: after the wait, not after the issue. */
static void copies_of_threads_need_a_fence_behind_their_landing(void **state) {
    (void)state;
    static program p;
    run_clean(&p, NULL, COPY_BY_THREAD ARRIVE_AFTER WAIT "fence.proxy.async;\n" STORE_BULK);
    for (int n = 0; n < 4; n++) assert_int_equal(word_of(p.out, 128 + n), n + 4);
    end(&p);
    check_found(NULL, COPY_BY_THREAD ARRIVE_AFTER WAIT STORE_BULK, EMULATE_PROXY, "reads");
    check_found(NULL, COPY_BY_THREAD "fence.proxy.async;\n" ARRIVE_AFTER WAIT STORE_BULK,
                EMULATE_PROXY, "reads");
}

/* --- what is found ---------------------------------------------------------------------------- */

#define EXPECT(bytes) "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], " #bytes ";\n"

static void wrong_copies_are_found(void **state) {
    (void)state;
    check_found(NULL, EXPECT(256) "@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n" WAIT, EMULATE_TENSOR,
                "there is no tensor map at this address");
    check_found(&cube,
                EXPECT(256) "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
                            "complete_tx::bytes [%r1], [%m, {0, 0}], [%bar];\n" WAIT,
                EMULATE_TENSOR, "the tensor map has 3 dimensions, the instruction 2");
    check_found(&cube, EXPECT(256) "add.u32 %r1, %r1, 64;\n@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n",
                EMULATE_TENSOR, "no multiple of 128");
    check_found(&cube,
                EXPECT(256) "add.u32 %r1, %r1, 65408;\n@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n",
                EMULATE_SHARED_BOUNDS, "256 bytes at byte 65408 of 65536");
    check_found(&cube, EXPECT(512) "@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n" WAIT, EMULATE_DEADLOCK,
                "parity 0), line");
    check_found(&cube, EXPECT(256) "@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n", EMULATE_COPY_UNWAITED,
                "cp.async.bulk.tensor by warp 0 lane 0");
    check_found(&cube, EXPECT(256) "@%p1 " LOAD_3D "{3, 0, 0}], [%bar];\n" WAIT, EMULATE_TENSOR,
                "no multiple of 16 bytes along dimension 0");
    check_found(&cube,
                "@%p1 cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%m, {0, -1, 0}], "
                "[%r1];\n",
                EMULATE_TENSOR, "begins before the tensor");
    check_found(&cube, EXPECT(1048576), EMULATE_BARRIER_USE, "2^20");
    check_found(NULL,
                "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], "
                "[%d2], 24, [%bar];\n",
                EMULATE_TENSOR, "multiples of 16");
    check_found(NULL,
                EXPECT(16) "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                           "[%r1], [%d2+16384], 16, [%bar];\n" WAIT,
                EMULATE_GLOBAL_BOUNDS, "in+16384");
    check_found(&cube,
                "st.shared.u32 [%r1], %r0; bar.sync 0;\n" EXPECT(256) "@%p1 " LOAD_3D
                                                                      "{0, 0, 0}], [%bar];\n" WAIT,
                EMULATE_PROXY, "overwrites");
    check_found(&cube,
                EXPECT(256) "@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n"
                            "@%p1 ld.shared.u32 %r9, [%r1+64];\n" WAIT,
                EMULATE_FLIGHT_READ, "its wait is missing");
    check_found(&cube,
                EXPECT(256) "@%p1 " LOAD_3D "{0, 0, 0}], [%bar];\n"
                            "@%p1 mbarrier.inval.shared::cta.b64 [%bar];\n",
                EMULATE_BARRIER_USE, "ended with copies in flight");
}

/* --- mbarriers -------------------------------------------------------------------------------- */

/* %r20 names a second mbarrier; thread 0 initialises it after the fence. */
#define SECOND(count)                                                                              \
    "add.u32 %r20, %bar, 8;\n@%p1 mbarrier.init.shared::cta.b64 [%r20], " count ";\n"
#define LOAD_BY_SECOND                                                                             \
    "bar.sync 0;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;\n@%p1 " LOAD_3D   \
    "{0, 0, 0}], [%r20];\n{\nL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @%p2 "    \
    "bra "                                                                                         \
    "D; bra L;\nD:\n}\n"

/* A copy is told to count at it only once fence.mbarrier_init, by the same thread, comes after its
 * initialisation. For arrivals of the block's threads the block's barrier is enough.
 */
static void initialisations_need_a_fence_after_them(void **state) {
    (void)state;
    static program p;
    run_clean(&p, &cube, SECOND("1") "@%p1 fence.mbarrier_init.release.cluster;\n" LOAD_BY_SECOND);
    end(&p);
    check_found(&cube, SECOND("1") LOAD_BY_SECOND, EMULATE_PROXY, "no fence.mbarrier_init after");
    check_found(&cube,
                SECOND("1") "setp.eq.u32 %p3, %r0, 1;\n"
                            "@%p3 fence.mbarrier_init.release.cluster;\n" LOAD_BY_SECOND,
                EMULATE_PROXY, "no fence.mbarrier_init after");
    run_clean(&p, NULL, SECOND("128") "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n");
    end(&p);
}

/* Thread 0 hands a number over by way of the mbarrier. */
#define HAND_OVER(arrive, wait)                                                                    \
    "@%p1 st.shared.u32 [%r1], 7;\n@%p1 mbarrier.arrive" arrive                                    \
    ".shared::cta.b64 _, [%bar];\n{\nL: mbarrier.try_wait.parity" wait                             \
    ".shared::cta.b64 %p2, [%bar], 0; @%p2 bra D; bra L;\nD:\n}\nld.shared.u32 %r9, [%r1];\n"

static void relaxed_mbarriers_order_nothing(void **state) {
    (void)state;
    static program p;
    run_clean(&p, NULL, HAND_OVER("", ""));
    end(&p);
    run_clean(&p, NULL, HAND_OVER(".release.cta", ".acquire.cta"));
    end(&p);
    check_found(NULL, HAND_OVER(".relaxed.cta", ""), EMULATE_RACE_READ, "written by warp 0 lane 0");
    check_found(NULL, HAND_OVER("", ".relaxed.cta"), EMULATE_RACE_READ, "written by warp 0 lane 0");
}

/* A count that is not that of who arrives: nobody has waited yet for what comes too early or late.
 */
static void counts_that_nobody_fills_are_found(void **state) {
    (void)state;
    static program p;
    check_found(NULL, SECOND("127") "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n",
                EMULATE_BARRIER_USE, "1 of 127 arrivals came");
    check_found(NULL, SECOND("129") "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n",
                EMULATE_BARRIER_USE, "128 of 129 arrivals came");
    run_clean(&p, NULL,
              SECOND("129") "bar.sync 0;\n"
                            "@%p1 mbarrier.arrive_drop.shared::cta.b64 _, [%r20];\n"
                            "mbarrier.arrive.shared::cta.b64 _, [%r20];\n");
    end(&p);
    run_clean(&p, NULL,
              SECOND("129") "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n"
                            "bar.sync 0;\n@%p1 mbarrier.inval.shared::cta.b64 [%r20];\n");
    end(&p);
}

/* Sums in %f0 to %f3, B at 0 and A at 4096 without swizzle; 128 threads wrote zeros there. */
#define FENCED                                                                                     \
    "mov.u32 %r2, 0;\nZ: mad.lo.u32 %r3, %r2, 128, %r0; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, "   \
    "%r1; st.shared.u32 [%r3], 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 16; @%p3 bra Z;\n"    \
    "fence.proxy.async; bar.sync 0; setp.eq.u32 %p4, %r0, %r0;\n"                                  \
    "mov.b64 %d5, 0x800080040; mov.b64 %d6, 0x800080140;\n"
#define PRODUCT(a, b)                                                                              \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, " a ", " b            \
    ", %p5, 1, 1, 0, 0;\n"
#define DONE "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"

/* Warps 0 and 1 answer each other eight times; warp 2 waits for each of these phases, and nobody
 * waits for it. Where all take turns it keeps step; it may also be late by any number of phases.
 */
#define STEPS(mine, theirs, warp)                                                                  \
    "{\n.reg .pred %q<4>; .reg .b32 %s<4>;\nsetp.ne.u32 %q0, %r0, " warp ";\n@%q0 bra E" warp      \
    ";\nmov.u32 %s0, 0;\nB" warp ":\n" mine "and.b32 %s1, %s0, 1;\nW" warp                         \
    ": mbarrier.try_wait.parity.shared::cta.b64 %q1, [" theirs "], %s1;\n@!%q1 bra W" warp         \
    ";\nadd.u32 %s0, %s0, 1;\nsetp.lt.u32 %q2, %s0, 8;\n@%q2 bra B" warp ";\nE" warp ":\n}\n"

static void warps_fall_behind_by_whole_phases(void **state) {
    (void)state;
    static const char body[] =
        ".reg .b32 %other; add.u32 %other, %bar, 8;\n"
        "@%p1 mbarrier.init.shared::cta.b64 [%other], 1;\n"
        "@%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n" STEPS(
            "mbarrier.arrive.shared::cta.b64 _, [%bar];\n", "%other", "0")
            STEPS("", "%bar",
                  "64") "{\n.reg .pred %q<4>; .reg .b32 %s<4>;\nsetp.ne.u32 %q0, %r0, 32;\n@%q0 "
                        "bra E;\n"
                        "mov.u32 %s0, 0;\nB: and.b32 %s1, %s0, 1;\n"
                        "W: mbarrier.try_wait.parity.shared::cta.b64 %q1, [%bar], %s1;\n@!%q1 bra "
                        "W;\n"
                        "mbarrier.arrive.shared::cta.b64 _, [%other];\nadd.u32 %s0, %s0, 1;\n"
                        "setp.lt.u32 %q2, %s0, 8;\n@%q2 bra B;\nE:\n}\n";
    static program p;
    int found = 0, clean = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        run_in_order(&p, NULL, body, seed * UINT64_C(0x9e3779b97f4a7c15));
        if (!p.is_read) fail_msg("%s", p.report.data);
        found += p.result.finding_count > 0;
        clean += p.result.outcome == EMULATE_CLEAN;
        end(&p);
    }
    if (!found || !clean) fail_msg("%d found, %d clean", found, clean);
}

static void wgmma_and_its_misuse(void **state) {
    (void)state;
    static program p;
    run_clean(&p, NULL,
              FENCED "wgmma.fence.sync.aligned;\n" PRODUCT("%d6", "%d5") DONE
              "mov.b32 %r9, %f3;\n");
    for (int n = 0; n < 128; n++) assert_int_equal(word_of(p.out, n), 0);
    end(&p);
    check_found(NULL, FENCED PRODUCT("%d6", "%d5") DONE, EMULATE_WGMMA_FENCE, "the first one");
    check_found(NULL,
                FENCED "wgmma.fence.sync.aligned;\nmov.f32 %f2, 0f00000000;\n" PRODUCT("%d6", "%d5")
                    DONE,
                EMULATE_WGMMA_FENCE, "takes a sum");
    check_found(NULL, FENCED "wgmma.fence.sync.aligned;\n" PRODUCT("%d6", "%d5"),
                EMULATE_WGMMA_UNWAITED, "wgmma.mma_async by warp 0");
    check_found(NULL,
                FENCED "wgmma.fence.sync.aligned;\n" PRODUCT(
                    "%d6", "%d5") "mov.f32 %f1, 0f00000000;\n" DONE,
                EMULATE_WGMMA_REGISTER, "overwrites a sum");
    check_found(NULL,
                FENCED "wgmma.fence.sync.aligned;\n" PRODUCT(
                    "%d6", "%d5") "st.shared.u32 [%r1], %r0;\n" DONE,
                EMULATE_RACE_OVERREAD, "read by wgmma of warps 0 to 3");
    check_found(NULL,
                FENCED "cvt.u64.u32 %d7, %laneid; add.s64 %d5, %d5, %d7;\n"
                       "wgmma.fence.sync.aligned;\n" PRODUCT("%d6", "%d5") DONE,
                EMULATE_WGMMA_USE, "the same in all lanes");
    check_found(NULL,
                FENCED "cvt.u64.u32 %d7, %warpid; add.s64 %d5, %d5, %d7;\n"
                       "wgmma.fence.sync.aligned;\n" PRODUCT("%d6", "%d5") DONE,
                EMULATE_WGMMA_USE, "disagree");
    check_found(NULL,
                FENCED
                "setp.lt.u32 %p3, %r0, 96; @!%p3 bra X;\nwgmma.fence.sync.aligned;\n" PRODUCT(
                    "%d6", "%d5") DONE "X:\n",
                EMULATE_DEADLOCK, "other warps of its warpgroup to commit");
    check_found(NULL,
                FENCED
                "mov.b64 %d5, 0x80008103f;\nwgmma.fence.sync.aligned;\n" PRODUCT("%d6", "%d5") DONE,
                EMULATE_SHARED_BOUNDS, "of 65536");
    check_found(NULL,
                "setp.eq.u32 %p3, %r0, 0; setmaxnreg.dec.sync.aligned.u32 40;\n"
                "setmaxnreg.inc.sync.aligned.u32 24;\n",
                EMULATE_REGISTERS, "inc to fewer registers");
    check_found(NULL,
                "setp.lt.u32 %p3, %r0, 32; @%p3 bra X;\n"
                "setmaxnreg.dec.sync.aligned.u32 40;\nX:\n",
                EMULATE_REGISTERS, "do not execute the same one");
}

static void wrong_text_is_refused(void **state) {
    (void)state;
    check_refused("setmaxnreg.inc.sync.aligned.u32 41;", "multiple of 8 from 24 to 256");
    check_refused("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, "
                  "%d6, %p1, 1, 1, 0, 0;",
                  "does not know the instruction");
    check_refused("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, "
                  "%d6, %p1, 1, 1, 0, 0;",
                  "another number of registers");
    check_refused("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, "
                  "%d6, %p1, 2, 1, 0, 0;",
                  "a factor is 1 or -1");
    check_refused("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                  "bytes [%r1], [%m, {0, 0, 0}], [%bar], {%r1};",
                  "does not know the instruction");
    check_refused(LOAD_3D "{0, 0}], [%bar];", "as many coordinates as dimensions");
}

static void limits_of_tensor_maps(void **state) {
    (void)state;
    uint8_t out[EMULATE_TENSOR_MAP_BYTES];
    emulate_tensor_map map = cube;
    assert_null(emulate_tensor_map_encode(&map, out));
#define BROKEN(change, words)                                                                      \
    map = cube;                                                                                    \
    map.change;                                                                                    \
    assert_non_null(emulate_tensor_map_encode(&map, out));                                         \
    assert_non_null(strstr(emulate_tensor_map_encode(&map, out), words))
    BROKEN(rank = 6, "one to five");
    BROKEN(byte_offset = 8, "multiple of 16");
    BROKEN(stride_bytes[1] = 24, "multiple of 16 bytes");
    BROKEN(extents[2] = 0, "1 to 2^32");
    BROKEN(box[1] = 257, "1 to 256");
    BROKEN(box[0] = 5, "multiple of 16 bytes");
    BROKEN(element_strides[0] = 9, "1 to 8");
    BROKEN(swizzle_bytes = 48, "32, 64 or 128");
    BROKEN(buffer = -1, "not there");
    map = cube;
    map.swizzle_bytes = 32;
    map.box[0] = 16;
    assert_non_null(strstr(emulate_tensor_map_encode(&map, out), "larger than its swizzle"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_and_their_edges),
        cmocka_unit_test(all_ranks),
        cmocka_unit_test(element_strides_skip),
        cmocka_unit_test(swizzles),
        cmocka_unit_test(stores_are_clipped),
        cmocka_unit_test(boxes_are_added),
        cmocka_unit_test(stores_are_of_whole_pieces),
        cmocka_unit_test(copies_of_threads_need_a_fence_behind_their_landing),
        cmocka_unit_test(plain_bulk_copies),
        cmocka_unit_test(wrong_copies_are_found),
        cmocka_unit_test(initialisations_need_a_fence_after_them),
        cmocka_unit_test(relaxed_mbarriers_order_nothing),
        cmocka_unit_test(counts_that_nobody_fills_are_found),
        cmocka_unit_test(warps_fall_behind_by_whole_phases),
        cmocka_unit_test(wgmma_and_its_misuse),
        cmocka_unit_test(wrong_text_is_refused),
        cmocka_unit_test(limits_of_tensor_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
