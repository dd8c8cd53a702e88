/* Small PTX programs: what collectives and atomics give, and what the machine finds. */
#include "emulate_support.h"

enum { WORDS = 128 };

typedef struct program {
    arena memory;
    emulate_result result;
    text_buffer report;
    uint32_t out[WORDS];
    bool is_read;
    bool is_early; /* before it is run */
} program;

/* %r0 is the thread, %d1 its word of the output; the body leaves its result in %r9. */
static void run_threads(program *p, const char *body, uint32_t threads) {
    *p = (program){.is_early = p->is_early};
    arena_init(&p->memory, 256u << 20);
    text_init(&p->report, 1u << 20);
    str text = str_format(
        &p->memory,
        ".version 7.8\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 raw[];\n"
        ".entry k(.param .u64 out) {\n.reg .pred %%p<8>; .reg .b16 %%h<8>; .reg .b32 %%r<40>;\n"
        ".reg .b64 %%d<16>; .reg .f32 %%f<8>;\n.local .align 8 .b8 stack[16];\n"
        "mov.u32 %%r0, %%tid.x; mov.u32 %%r1, raw; ld.param.u64 %%d0, [out];\n"
        "mad.wide.u32 %%d1, %%r0, 4, %%d0;\n%s\nst.global.u32 [%%d1], %%r9;\nret;\n}\n",
        body);
    diag_list diagnostics;
    diag_init(&diagnostics, &p->memory, STR("program.ptx"), text);
    emulate_module *module = emulate_read(&p->memory, text, &diagnostics);
    p->is_read = module != NULL;
    diag_render_text(&diagnostics, false, &p->report);
    if (!module) return;
    static const uint8_t parameters[8];
    emulate_buffer buffer = {.name = STR("out"),
                             .data = p->out,
                             .bytes = sizeof p->out,
                             .readable = true,
                             .writable = true};
    emulate_pointer pointer = {0, 0, 0};
    emulate_launch launch = {.grid = {1, 1, 1},
                             .block = {threads, 1, 1},
                             .dynamic_shared_bytes = 4096,
                             .parameters = parameters,
                             .parameter_bytes = 8,
                             .buffers = &buffer,
                             .buffer_count = 1,
                             .pointers = &pointer,
                             .pointer_count = 1,
                             .is_early = p->is_early,
                             .instruction_budget = 100000};
    emulate_run(module, &launch, &p->memory, &p->result);
    emulate_render_text(&p->result, STR("program.ptx"), &p->report);
}

static void end(program *p) {
    text_done(&p->report);
    arena_done(&p->memory);
}

static const char *report(const program *p) {
    return p->report.data ? p->report.data : "";
}

typedef uint32_t expected(uint32_t thread);

static void check(const char *body, uint32_t threads, expected *function) {
    program p = {0};
    run_threads(&p, body, threads);
    if (!p.is_read || p.result.outcome != EMULATE_CLEAN) fail_msg("%s\n%s", body, report(&p));
    for (uint32_t t = 0; t < threads; t++)
        if (p.out[t] != function(t))
            fail_msg("%s\nthread %u: 0x%x, not 0x%x", body, t, p.out[t], function(t));
    end(&p);
}

static void check_found(const char *body, uint32_t threads, emulate_kind kind, const char *words) {
    program p = {0};
    run_threads(&p, body, threads);
    bool found = false;
    for (int i = 0; i < p.result.finding_count; i++) found |= p.result.findings[i].kind == kind;
    if (!found || !strstr(report(&p), words))
        fail_msg("%s\nno %s with \"%s\" in:\n%s", body, emulate_kind_name(kind), words, report(&p));
    end(&p);
}

static void check_refused(const char *body, const char *words) {
    program p = {0};
    run_threads(&p, body, 32);
    if (p.is_read || !strstr(report(&p), words))
        fail_msg("%s\nno \"%s\" in:\n%s", body, words, report(&p));
    end(&p);
}

static uint32_t lane(uint32_t t) {
    return t & 31;
}
static uint32_t flipped(uint32_t t) {
    return t ^ 5;
}
static uint32_t shifted_up(uint32_t t) {
    return lane(t) < 3 ? t : t - 3;
}
static uint32_t shifted_down(uint32_t t) {
    return (t & 7) + 2 > 7 ? t : t + 2;
}
static uint32_t third(uint32_t t) {
    return (t & ~31u) + 3;
}
static uint32_t in_range(uint32_t t) {
    return lane(t) + 4 < 32;
}
static uint32_t odd_mask(uint32_t t) {
    (void)t;
    return 0xaaaaaaaa;
}
static uint32_t yes(uint32_t t) {
    (void)t;
    return 1;
}
static uint32_t no(uint32_t t) {
    (void)t;
    return 0;
}
static uint32_t below_40(uint32_t t) {
    return t < 40;
}
static uint32_t from_40(uint32_t t) {
    return t >= 40;
}
static uint32_t same_third(uint32_t t) {
    uint32_t mask = 0;
    for (uint32_t l = 0; l < 32; l++) mask |= (uint32_t)(l % 3 == t % 3) << l;
    return mask;
}
static uint32_t sum_of_lanes(uint32_t t) {
    (void)t;
    return 496;
}
static uint32_t thirty_one(uint32_t t) {
    (void)t;
    return 31;
}
static uint32_t total_of_64(uint32_t t) {
    (void)t;
    return 2016;
}
static uint32_t collatz(uint32_t t) {
    uint32_t steps = 0;
    for (uint32_t x = t + 1; x != 1; steps++) x = x & 1 ? 3 * x + 1 : x / 2;
    return steps;
}
static uint32_t cases(uint32_t t) {
    return t % 4 == 0 ? 100 : t % 4 == 1 ? 101 : t % 4 == 2 ? 102 : 103;
}
static uint32_t half_block(uint32_t t) {
    return (t ^ 32) * 10;
}

static void shuffles_and_votes(void **state) {
    (void)state;
    check("shfl.sync.bfly.b32 %r9, %r0, 5, 31, -1;", 64, flipped);
    check("shfl.sync.up.b32 %r9, %r0, 3, 0, -1;", 64, shifted_up);
    check("shfl.sync.down.b32 %r9, %r0, 2, 0x1807, -1;", 64, shifted_down);
    check("shfl.sync.idx.b32 %r9|%p1, %r0, 3, 31, 0xffffffff;", 64, third);
    check("shfl.sync.down.b32 %r8|%p1, %r0, 4, 31, -1; selp.u32 %r9, 1, 0, %p1;", 32, in_range);
    check("and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; vote.sync.ballot.b32 %r9, %p0, -1;", 32,
          odd_mask);
    check("setp.lt.u32 %p0, %r0, 64; vote.sync.all.pred %p1, %p0, -1; selp.u32 %r9, 1, 0, %p1;", 64,
          yes);
    check("setp.gt.u32 %p0, %r0, 64; vote.sync.uni.pred %p1, !%p0, -1; selp.u32 %r9, 1, 0, %p1;",
          64, yes);
    check("rem.u32 %r2, %r0, 3; match.any.sync.b32 %r9, %r2, -1;", 32, same_third);
    check("redux.sync.add.u32 %r9, %r0, -1;", 32, sum_of_lanes);
    check("redux.sync.max.s32 %r9, %r0, -1;", 32, thirty_one);
}

static uint32_t warps_threads(uint32_t t) {
    (void)t;
    return 64;
}

/* Wherever an instruction reads a predicate a number may stand: 0 is false, all else is true. */
static void predicates_as_numbers(void **state) {
    (void)state;
    static const struct {
        const char *code;
        expected *value;
    } cases[] = {
        {"and.pred %p1, %p0, 1;", below_40},
        {"and.pred %p1, -1, %p0;", below_40},
        {"and.pred %p1, %p0, 0;", no},
        {"and.pred %p1, 7, !%p0;", from_40},
        {"or.pred %p1, %p0, 0;", below_40},
        {"or.pred %p1, !%p0, 0;", from_40},
        {"or.pred %p1, 0, -1;", yes},
        {"or.pred %p1, 0, 0;", no},
        {"xor.pred %p1, %p0, -1;", from_40},
        {"xor.pred %p1, 1, %p0;", from_40},
        {"xor.pred %p1, %p0, 0;", below_40},
        {"xor.pred %p1, 2, 1;", no},
        {"not.pred %p1, 0;", yes},
        {"not.pred %p1, -1;", no},
        {"mov.pred %p1, 0;", no},
        {"mov.pred %p1, 0x10;", yes},
        {"mov.pred %p1, %p0;", below_40},
        {"setp.lt.and.u32 %p1, %r0, 40, -1;", below_40},
        {"setp.lt.and.u32 %p1, %r0, 40, 0;", no},
        {"setp.lt.or.u32 %p1, %r0, 40, 1;", yes},
        {"setp.lt.xor.u32 %p1, %r0, 40, -1;", from_40},
        {"setp.lt.xor.u32 %p2|%p1, %r0, 40, 0;", from_40},
        {"set.lt.and.u32.u32 %r2, %r0, 40, -1; setp.ne.u32 %p1, %r2, 0;", below_40},
        {"set.lt.or.u32.u32 %r2, %r0, 40, 0; setp.ne.u32 %p1, %r2, 0;", below_40},
        {"selp.u32 %r2, 1, 0, -1; setp.ne.u32 %p1, %r2, 0;", yes},
        {"selp.u32 %r2, 1, 0, 0; setp.ne.u32 %p1, %r2, 0;", no},
        {"vote.sync.all.pred %p1, 1, -1;", yes},
        {"vote.sync.any.pred %p1, 0, -1;", no},
        {"vote.sync.uni.pred %p1, 0, -1;", yes},
        {"vote.sync.ballot.b32 %r2, -1, -1; setp.eq.u32 %p1, %r2, -1;", yes},
        {"bar.red.and.pred %p1, 0, 1;", yes},
        {"bar.red.or.pred %p1, 0, 0;", no},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "setp.lt.u32 %%p0, %%r0, 40; %s selp.u32 %%r9, 1, 0, %%p1;",
                 cases[i].code);
        check(body, 64, cases[i].value);
    }
    check("bar.red.popc.u32 %r9, 0, -1;", 64, warps_threads);
    check("and.pred %p1, 0, 0; @!%p1 mov.u32 %r9, 1;", 64, yes);
    check_refused("and.pred %p1, _, 1; mov.u32 %r9, 1;", "expected a predicate");
    check_refused("and.pred %p1, %r0, 1; mov.u32 %r9, 1;", "expected a predicate");
}

static void lanes_part_and_meet(void **state) {
    (void)state;
    check("add.u32 %r2, %r0, 1; mov.u32 %r9, 0;\n"
          "again: setp.eq.u32 %p0, %r2, 1; @%p0 bra finished;\n"
          "and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra even;\n"
          "mad.lo.u32 %r2, %r2, 3, 1; bra counted;\n"
          "even: shr.u32 %r2, %r2, 1;\n"
          "counted: add.u32 %r9, %r9, 1; bra again;\n"
          "finished: bar.warp.sync -1;",
          64, collatz);
    check("and.b32 %r2, %r0, 3;\n"
          "table: .branchtargets a, b, c, d;\n"
          "brx.idx %r2, table;\n"
          "a: mov.u32 %r9, 100; bra meet;\nb: mov.u32 %r9, 101; bra meet;\n"
          "c: mov.u32 %r9, 102; bra meet;\nd: mov.u32 %r9, 103;\nmeet: bar.warp.sync -1;",
          32, cases);
    /* A guarded barrier of the warp: the others come to it by another way. */
    check("setp.lt.u32 %p0, %r0, 16; @%p0 bra first; bar.warp.sync 0xffff0000; bra meet;\n"
          "first: bar.warp.sync 0xffff;\nmeet: and.b32 %r9, %r0, 31;",
          32, lane);
}

static void atomics(void **state) {
    (void)state;
    check("setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [raw], 0; bar.sync 0;\n"
          "atom.shared.add.u32 %r8, [raw], %r0; bar.sync 0; ld.shared.u32 %r9, [raw];",
          64, total_of_64);
    check("setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.f32 [raw], 0f00000000; bar.sync 0;\n"
          "cvt.rn.f32.u32 %f0, %r0; red.shared.add.f32 [raw], %f0; bar.sync 0;\n"
          "ld.shared.f32 %f1, [raw]; cvt.rzi.u32.f32 %r9, %f1;",
          64, total_of_64);
    check_found("setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [raw], 0;\n"
                "atom.shared.add.u32 %r9, [raw], %r0;",
                64, EMULATE_RACE_OVERWRITE, "atom");
}

/* Two halves of the block hand data over through mbarriers. */
#define GATE "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 32; bar.sync 0;\n"

#define HAND_OVER(address)                                                                         \
    "setp.ge.u32 %p1, %r0, 32; mul.lo.u32 %r2, %r0, 10; shl.b32 %r3, %r0, 2;\n"                    \
    "add.u32 %r4, %r1, %r3; @%p1 bra second;\n"                                                    \
    "st.shared.u32 [%r4], %r2; mbarrier.arrive.shared.b64 %d4, [raw+1024];\n"                      \
    "mov.u32 %r9, 0; bra joined;\n"                                                                \
    "second: mbarrier.try_wait.parity.shared.b64 %p2, [raw+1024], " address                        \
    "; @!%p2 bra second;\n"                                                                        \
    "ld.shared.u32 %r9, [%r4+-128];\njoined: bar.sync 0;"

static uint32_t handed(uint32_t t) {
    return t < 32 ? 0 : (t - 32) * 10;
}

static void mbarriers(void **state) {
    (void)state;
    check(GATE HAND_OVER("0"), 64, handed);
    /* Parity 1 is what came before the first phase: no waiting, hence a race. */
    check_found(GATE HAND_OVER("1"), 64, EMULATE_UNINITIALISED, "ld.shared by warp 1");
    check_found("setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 33;\n"
                "bar.sync 0;\n" HAND_OVER("0"),
                64, EMULATE_DEADLOCK, "1 of 33 arrivals missing");
    check_found(
        "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 32;\n" HAND_OVER("0"),
        64, EMULATE_BARRIER_USE, "not visible yet");
    check_found("mbarrier.arrive.shared.b64 %d4, [raw+8];", 32, EMULATE_BARRIER_USE,
                "it is not initialised");
    check_found(GATE "ld.shared.u32 %r9, [raw+1024];", 32, EMULATE_BARRIER_USE,
                "touches an mbarrier object");
    check_found(
        "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 4; bar.sync 0;\n"
        "add.u32 %r3, %r0, 5; mbarrier.arrive.shared.b64 %d4, [raw+1024], %r3;",
        32, EMULATE_BARRIER_USE, "more arrivals");
}

/* An elected lane arrives for its warp: the others' stores need a __syncwarp before. */
#define ELECTED(sync)                                                                              \
    "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 1; bar.sync 0;\n"          \
    "setp.ge.u32 %p1, %r0, 32; mul.lo.u32 %r2, %r0, 10; shl.b32 %r3, %r0, 2;\n"                    \
    "add.u32 %r4, %r1, %r3; mov.u32 %r9, 0; @%p1 bra second;\n"                                    \
    "st.shared.u32 [%r4], %r2;\n" sync "@%p0 mbarrier.arrive.shared.b64 %d4, [raw+1024];\n"        \
    "bra joined;\n"                                                                                \
    "second: mbarrier.try_wait.parity.shared.b64 %p2, [raw+1024], 0; @!%p2 bra second;\n"          \
    "ld.shared.u32 %r9, [%r4+-128];\njoined: bar.sync 0;"

static void elected_arrivals(void **state) {
    (void)state;
    check(ELECTED("bar.warp.sync -1;\n"), 64, handed);
    check_found(ELECTED(""), 64, EMULATE_RACE_READ, "written by warp 0 lane 1");
}

/* Lanes of one warp hand over by an mbarrier, as those of two would, where each arrives for itself:
 * one lane in front of the others would speak for its own store alone.
 */
#define WITHIN(count, arrivals, wait)                                                              \
    "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], " count "; bar.sync 0;\n"  \
    "mul.lo.u32 %r2, %r0, 10; shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3;\n"                       \
    "st.shared.u32 [%r4], %r2;\n" arrivals " mbarrier.arrive.shared.b64 %d4, [raw+1024];\n" wait   \
    "xor.b32 %r5, %r3, 4; add.u32 %r5, %r1, %r5; ld.shared.u32 %r9, [%r5];"
#define AWAIT "again: mbarrier.try_wait.parity.shared.b64 %p2, [raw+1024], 0; @!%p2 bra again;\n"

static uint32_t neighbour(uint32_t t) {
    return (t ^ 1) * 10;
}

static void arrivals_within_a_warp(void **state) {
    (void)state;
    check(WITHIN("32", "", AWAIT), 32, neighbour);
    check_found(WITHIN("32", "", ""), 32, EMULATE_RACE_READ, "written by warp 0 lane 1");
    check_found(WITHIN("1", "@%p0", AWAIT), 32, EMULATE_RACE_READ, "written by warp 0 lane");
    check(WITHIN("1", "bar.warp.sync -1; @%p0", AWAIT), 32, neighbour);
}

static uint32_t seven(uint32_t thread) {
    (void)thread;
    return 7;
}

/* Shared memory does not begin at 0: who forgets where it begins, or adds it twice, is elsewhere.
 */
static void shared_memory_begins_somewhere(void **state) {
    (void)state;
    check("setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, 7; @%p0 st.shared.u32 [%r1], %r2; bar.sync 0;\n"
          "ld.shared.u32 %r9, [%r1];",
          64, seven);
    check_found("sub.u32 %r2, %r1, %r1; st.shared.u32 [%r2], 0;", 1, EMULATE_SHARED_BOUNDS,
                "4 bytes at byte -1024 of 4096");
    check_found("add.u32 %r2, %r1, %r1; st.shared.u32 [%r2+3072], 0;", 1, EMULATE_SHARED_BOUNDS,
                "4 bytes at byte 4096 of 4096");
    check_found("cvta.shared.u64 %d2, 0; st.u32 [%d2], 0;", 1, EMULATE_SHARED_BOUNDS, "-1024");
}

/* Copies that arrive on an mbarrier. */
#define COPIES(wait)                                                                               \
    "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [raw+1024], 64; bar.sync 0;\n"         \
    "mul.lo.u32 %r2, %r0, 7; st.global.u32 [%d1], %r2; shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, "    \
    "%r3;\n"                                                                                       \
    "cp.async.ca.shared.global [%r4], [%d1], 4;\n"                                                 \
    "cp.async.mbarrier.arrive.noinc.shared.b64 [raw+1024];\n" wait                                 \
    "xor.b32 %r5, %r3, 128; add.u32 %r5, %r1, %r5; ld.shared.u32 %r9, [%r5];"

static uint32_t copied(uint32_t t) {
    return (t ^ 32) * 7;
}

static void copies_arrive(void **state) {
    (void)state;
    check(
        COPIES("again: mbarrier.try_wait.parity.shared.b64 %p2, [raw+1024], 0; @!%p2 bra again;\n"),
        64, copied);
    check_found(COPIES(""), 64, EMULATE_FLIGHT_READ, "the copy was issued by warp");
}

static void zero_fill(void **state) {
    (void)state;
    program p = {0};
    run_threads(&p,
                "mov.u32 %r2, 0x11111111; st.global.u32 [%d1], %r2; bar.warp.sync -1;\n"
                "shl.b32 %r3, %r0, 4;\n"
                "add.u32 %r4, %r1, %r3; and.b32 %r5, %r0, 1; mul.lo.u32 %r5, %r5, 6;\n"
                "and.b32 %r6, %r0, 28; mad.wide.u32 %d2, %r6, 4, %d0;\n"
                "cp.async.cg.shared.global [%r4], [%d2], 16, %r5; cp.async.wait_all;\n"
                "bar.warp.sync -1;\n"
                "ld.shared.u32 %r9, [%r4+4];",
                32);
    assert_int_equal(p.result.outcome, EMULATE_CLEAN);
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(p.out[t], t & 1 ? 0x1111 : 0);
    end(&p);
}

/* Every thread has a part of a word: cells know their bytes. */
static uint32_t four_bytes(uint32_t t) {
    (void)t;
    return 0x03020100;
}
static uint32_t own_half(uint32_t t) {
    return t + 1;
}

static void parts_of_words(void **state) {
    (void)state;
    const char *bytes = "and.b32 %r2, %r0, 3; add.u32 %r3, %r1, %r0; st.shared.u8 [%r3], %r2;\n"
                        "bar.sync 0; and.b32 %r4, %r3, -4; ld.shared.u32 %r9, [%r4];";
    check(bytes, 64, four_bytes);
    check_found("and.b32 %r2, %r0, 3; add.u32 %r3, %r1, %r0; st.shared.u8 [%r3], %r2;\n"
                "and.b32 %r4, %r3, -4; ld.shared.u32 %r9, [%r4];",
                64, EMULATE_RACE_READ, "lane 0 reads");
    /* Own halves only: read and written without any barrier. */
    check("shl.b32 %r3, %r0, 1; add.u32 %r3, %r1, %r3; cvt.u16.u32 %h0, %r0;\n"
          "st.shared.u16 [%r3], %h0; ld.shared.u16 %h1, [%r3]; add.u16 %h1, %h1, 1;\n"
          "st.shared.u16 [%r3], %h1; ld.shared.u16 %h2, [%r3]; cvt.u32.u16 %r9, %h2;",
          64, own_half);
    /* The neighbour's half. */
    check_found("shl.b32 %r3, %r0, 1; add.u32 %r3, %r1, %r3; cvt.u16.u32 %h0, %r0;\n"
                "st.shared.u16 [%r3], %h0; xor.b32 %r4, %r3, 2; ld.shared.u16 %h1, [%r4];\n"
                "cvt.u32.u16 %r9, %h1;",
                64, EMULATE_RACE_READ, "written by warp 0 lane 1");
    check_found("shl.b32 %r3, %r0, 1; add.u32 %r3, %r1, %r3; mov.u16 %h0, 7;\n"
                "st.shared.u16 [%r3], %h0; bar.sync 0; ld.shared.u16 %h1, [%r3];\n"
                "xor.b32 %r4, %r3, 2; st.shared.u16 [%r4], %h0; mov.u32 %r9, 0;",
                32, EMULATE_RACE_OVERREAD, "read by warp 0 lane 1");
    check_found("mov.u16 %h0, 7; st.shared.u16 [raw], %h0; ld.shared.u32 %r9, [raw];", 1,
                EMULATE_UNINITIALISED, "ld.shared");
    /* A whole write after a barrier makes the word one again. */
    check("shl.b32 %r3, %r0, 1; add.u32 %r3, %r1, %r3; cvt.u16.u32 %h0, %r0;\n"
          "st.shared.u16 [%r3], %h0; bar.sync 0; shl.b32 %r4, %r0, 2; add.u32 %r4, %r1, %r4;\n"
          "add.u32 %r5, %r0, 1; st.shared.u32 [%r4], %r5; ld.shared.u32 %r9, [%r4];",
          64, own_half);
}

static void global_races(void **state) {
    (void)state;
    check("add.u32 %r2, %r0, 1; st.global.u32 [%d1], %r2; bar.sync 0; xor.b32 %r3, %r0, 1;\n"
          "mad.wide.u32 %d2, %r3, 4, %d0; ld.global.u32 %r4, [%d2]; bar.sync 0;\n"
          "add.u32 %r9, %r0, 1;",
          64, own_half);
    check_found("st.global.u32 [%d1], %r0; xor.b32 %r3, %r0, 1; mad.wide.u32 %d2, %r3, 4, %d0;\n"
                "ld.global.u32 %r9, [%d2];",
                64, EMULATE_GLOBAL_RACE, "reads out+4");
    check_found("xor.b32 %r3, %r0, 32; mad.wide.u32 %d2, %r3, 4, %d0; st.global.u32 [%d2], %r0;\n"
                "mov.u32 %r9, 0;",
                64, EMULATE_GLOBAL_RACE, "written by warp 0");
    check_found("xor.b32 %r3, %r0, 32; mad.wide.u32 %d2, %r3, 4, %d0; ld.global.u32 %r9, [%d2];",
                64, EMULATE_GLOBAL_RACE, "read by warp 0");
}

/* A launch that begins early: whoever has not waited touches no global memory and does not end. */
static void early_grids_wait(void **state) {
    (void)state;
    static const struct {
        const char *body;
        int findings; /* places */
        const char *who;
    } all[] = {
        {"griddepcontrol.wait; ld.global.u32 %r9, [%d1];", 0, ""},
        {"mov.u32 %r9, 7; st.shared.u32 [raw], %r9; griddepcontrol.launch_dependents;\n"
         "griddepcontrol.wait;",
         0, ""},
        {"mov.u32 %r9, 7;", 2, "st.global by warp 0 lane 0"},
        {"ld.global.u32 %r9, [%d1]; griddepcontrol.wait;", 1, "ld.global by warp 0 lane 0"},
        {"atom.global.add.u32 %r9, [%d0], 1; griddepcontrol.wait;", 1, "atom by warp 0"},
        {"mov.u32 %r9, 0; cp.async.ca.shared.global [%r1], [%d0], 4; griddepcontrol.wait;\n"
         "cp.async.wait_all;",
         1, "cp.async"},
        {"mov.u32 %r9, 0; setp.ne.u32 %p1, %r0, 5; @%p1 griddepcontrol.wait;", 2,
         "st.global by warp 0 lane 5"},
        {"mov.u32 %r9, 0; setp.eq.u32 %p1, %r0, 9; @%p1 ret; griddepcontrol.wait;", 1,
         "ret by warp 0 lane 9"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int early = 0; early < 2; early++) {
            program p = {.is_early = early};
            int found = 0;
            run_threads(&p, all[i].body, 32);
            assert_true(p.is_read);
            for (int k = 0; k < p.result.finding_count; k++)
                found += p.result.findings[k].kind == EMULATE_EARLY;
            if (found != early * all[i].findings || (found && !strstr(report(&p), all[i].who)))
                fail_msg("%s\n%d found:\n%s", all[i].body, found, report(&p));
            end(&p);
        }
}

static void unwaited_copies(void **state) {
    (void)state;
    const char *body = "bar.sync 0; shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3;\n"
                       "cp.async.ca.shared.global [%r4], [%d1], 4; mov.u32 %r9, 0;";
    check_found(body, 32, EMULATE_COPY_UNWAITED, "to dynamic shared memory+0");
}

/* 3 x 2^32 - 1 + t, then minus the same: all bits through two words. */
static uint32_t carried(uint32_t t) {
    return t ? 3 : 2;
}
static uint32_t borrowed(uint32_t t) {
    return t < 9 ? 0xffffffff : 0;
}
static uint32_t product_of_words(uint32_t t) {
    return (uint32_t)(0xfffffffeull * t >> 32) + 1;
}

static void carries(void **state) {
    (void)state;
    check("add.cc.u32 %r2, %r0, 0xffffffff; addc.u32 %r9, 1, 1;", 64, carried);
    check("sub.cc.u32 %r2, %r0, 9; subc.u32 %r9, 0, 0;", 64, borrowed);
    check("mad.lo.cc.u32 %r2, %r0, 0xfffffffe, 0; madc.hi.u32 %r9, %r0, 0xfffffffe, 1;", 64,
          product_of_words);
    check("cvt.u64.u32 %d2, %r0; add.cc.u64 %d3, %d2, -1; addc.u64 %d4, 1, 1;\n"
          "cvt.u32.u64 %r9, %d4;",
          64, carried);
    /* The sum may overwrite what the carry is made of. */
    check("mov.u32 %r2, %r0; add.cc.u32 %r2, %r2, 0xffffffff; addc.cc.u32 %r3, 1, 1;\n"
          "addc.u32 %r9, %r3, 0;",
          64, carried);
    check_refused("add.cc.f32 %r9, %r0, %r0;", "add.cc.f32");
}

static void named_barriers(void **state) {
    (void)state;
    /* Warp 0 gives, warp 1 takes; warp 2 is not concerned. */
    const char *body =
        "mul.lo.u32 %r2, %r0, 10; shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3;\n"
        "mov.u32 %r9, 0; setp.ge.u32 %p0, %r0, 64; @%p0 bra joined;\n"
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra second;\n"
        "st.shared.u32 [%r4], %r2; bar.arrive 1, 64; bra joined;\n"
        "second: bar.sync 1, 64; ld.shared.u32 %r9, [%r4+-128];\njoined: bar.sync 0;";
    program p = {0};
    run_threads(&p, body, 96);
    if (p.result.outcome != EMULATE_CLEAN) fail_msg("%s", report(&p));
    for (uint32_t t = 32; t < 64; t++) assert_int_equal(p.out[t], (t - 32) * 10);
    end(&p);
    check_found("bar.sync 1, 64; mov.u32 %r9, 1;", 96, EMULATE_DEADLOCK,
                "no thread can run: warp 2 at barrier 1");
    check("shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; mul.lo.u32 %r2, %r0, 10;\n"
          "st.shared.u32 [%r4], %r2; setp.lt.u32 %p0, %r0, 99; bar.red.and.pred %p1, 0, %p0;\n"
          "xor.b32 %r5, %r3, 128; add.u32 %r5, %r1, %r5; @%p1 ld.shared.u32 %r9, [%r5];",
          64, half_block);
}

static void faults_are_named(void **state) {
    (void)state;
    check_found("ld.shared.u32 %r9, [raw+2];", 32, EMULATE_MISALIGNED, "4 bytes at shared");
    check_found("ld.shared.u32 %r9, [raw+4096];", 32, EMULATE_SHARED_BOUNDS,
                "at byte 4096 of 4096");
    check_found("mov.u64 %d2, stack; ld.local.u32 %r9, [%d2+16];", 32, EMULATE_LOCAL_BOUNDS,
                "at byte 16 of 16");
    check_found("ld.shared.u32 %r9, [raw];", 32, EMULATE_UNINITIALISED, "dynamic shared memory+0");
    check_found("ld.global.u32 %r9, [%d0+-4];", 32, EMULATE_GLOBAL_BOUNDS, "at out-4");
    check_found("mov.u64 %d2, 0; ld.global.u32 %r9, [%d2];", 32, EMULATE_GLOBAL_BOUNDS,
                "in no buffer");
    check_found("setp.eq.u32 %p0, %r0, 7; @%p0 trap; mov.u32 %r9, 0;", 32, EMULATE_TRAP, "lane 7");
    check_found("again: bra again;", 32, EMULATE_BUDGET, "runaway");
    check_found("setp.lt.u32 %p0, %r0, 9; @%p0 shfl.sync.bfly.b32 %r9, %r0, 1, 31, -1;", 32,
                EMULATE_SHUFFLE_INACTIVE, "lane 8");
    check_found("setp.lt.u32 %p0, %r0, 9; @%p0 bra first;\n"
                "shfl.sync.bfly.b32 %r9, %r0, 1, 31, -1; bra joined;\n"
                "first: shfl.sync.bfly.b32 %r9, %r0, 1, 31, -1;\njoined: bar.sync 0;",
                32, EMULATE_DIVERGED, "of 0xffffffff");
    check_found("shfl.sync.bfly.b32 %r9, %r0, 1, 31, 0x0000ffff;", 32, EMULATE_MASK_WRONG,
                "lane 16 with mask 0x0000ffff");
    check_found("setp.ge.u32 %p0, %r0, 16; @%p0 bra past;\n"
                "shfl.sync.idx.b32 %r9, %r0, 20, 31, 0xffff;\npast: mov.u32 %r9, 1;",
                32, EMULATE_SHUFFLE_INACTIVE, "shfl");
    check_found("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [raw];", 20, EMULATE_LANES_MISSING,
                "lanes 0xfff00000");
    /* One warp's lanes exchange through shared memory without a __syncwarp. */
    check_found("shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; st.shared.u32 [%r4], %r0;\n"
                "xor.b32 %r5, %r3, 4; add.u32 %r5, %r1, %r5; ld.shared.u32 %r9, [%r5];",
                32, EMULATE_RACE_READ, "by warp 0 lane 1");
    check("shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; st.shared.u32 [%r4], %r0;\n"
          "bar.warp.sync -1;\n"
          "xor.b32 %r5, %r3, 20; add.u32 %r5, %r1, %r5; ld.shared.u32 %r9, [%r5];",
          32, flipped);
}

static uint32_t summed(uint32_t t) {
    return 10 + 6 * (t < 16 ? 200u : 100u);
}
static uint32_t counted(uint32_t t) {
    return 3 * (t & 3u) + 7;
}

/* Registers share rows: values must live through guards, loops and lanes that part. */
static void values_live_as_long_as_needed(void **state) {
    (void)state;
    check("mov.u32 %r9, 100; setp.lt.u32 %p1, %r0, 16; @%p1 mov.u32 %r9, 200;\n"
          "mov.u32 %r10, 0; mov.u32 %r11, 0;\n"
          "L: add.u32 %r12, %r10, %r9; mov.u32 %r13, %r12; add.u32 %r11, %r11, %r13;\n"
          "add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 5; @%p2 bra L;\n"
          "add.u32 %r9, %r11, %r9;\n",
          64, summed);
    check("and.b32 %r10, %r0, 3; mov.u32 %r11, 7; mov.u32 %r12, 0;\n"
          "L: setp.ge.u32 %p1, %r12, %r10; @%p1 bra X; add.u32 %r13, %r12, 1;\n"
          "mov.u64 %d3, 3; mov.u64 %d4, 5; cvt.u32.u64 %r14, %d3; add.u32 %r11, %r11, %r14;\n"
          "mov.u32 %r12, %r13; bra L;\nX: mov.u32 %r15, 1; mov.u32 %r16, 2; mov.u32 %r9, %r11;\n",
          64, counted);
}

static void unknown_text_is_refused(void **state) {
    (void)state;
    check_refused("tcgen05.wait::ld.sync.aligned;",
                  "does not know the instruction tcgen05.wait::ld");
    check_refused("add.s33 %r9, %r0, 1;", "add.s33");
    check_refused("mov.u32 %r9, %r99;", "nothing is called %r99");
    check_refused("bra nowhere;", "nothing is called nowhere");
    check_refused("add.u32 %r9, %r0;", "number of operands");
    check_refused("shfl.sync.up.b32 %r9, %r0;", "other operands were expected");
    check_refused("atom.shared.add.u32 %r9, %r1, 1;", "other operands were expected");
    check_refused("wgmma.wait_group.sync.aligned 8;", "the operands do not fit");
    check_refused("mov.u64 %r9, 1;", "a 64-bit operand");
    check_refused("add.u32 5, %r0, %r0;", "a register for the result");
    check_refused("call f, (%r0);", "device functions that are not inlined (f)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_and_votes),
        cmocka_unit_test(predicates_as_numbers),
        cmocka_unit_test(lanes_part_and_meet),
        cmocka_unit_test(atomics),
        cmocka_unit_test(mbarriers),
        cmocka_unit_test(elected_arrivals),
        cmocka_unit_test(arrivals_within_a_warp),
        cmocka_unit_test(copies_arrive),
        cmocka_unit_test(shared_memory_begins_somewhere),
        cmocka_unit_test(zero_fill),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(parts_of_words),
        cmocka_unit_test(global_races),
        cmocka_unit_test(early_grids_wait),
        cmocka_unit_test(unwaited_copies),
        cmocka_unit_test(carries),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(values_live_as_long_as_needed),
        cmocka_unit_test(unknown_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
