/* Hopper's instructions on a real GPU and on the emulator: what the recorder and the comparison
 * share. Each case of hopper.def becomes a PTX module of one kernel; its inputs are random numbers
 * of a kind that suits. Results have hopper_words words a block. hopper.bin holds a hash of each
 * 128 of them, in the order of the list: new cases go to its end.
 */
#ifndef FLASHTL_TESTS_CONFORMANCE_HOPPER_H
#define FLASHTL_TESTS_CONFORMANCE_HOPPER_H

#include "conformance.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    HOPPER_AREA = 40960,                 /* bytes of shared memory that hold inputs */
    HOPPER_SHARED = HOPPER_AREA + 2048,  /* with an mbarrier after, and room to align */
    HOPPER_AREA_WORDS = HOPPER_AREA / 4, /* inputs: the area, sums, first factors */
    HOPPER_SUMS = 128,
    HOPPER_INPUT_WORDS = HOPPER_AREA_WORDS + (HOPPER_SUMS + 4) * 128,
    HOPPER_BLOCKS_MAX = 6,
    HOPPER_OUTPUT_WORDS_MAX = 128 * 128 * HOPPER_BLOCKS_MAX,
    HOPPER_STORE_WORDS = 16384,
    HOPPER_HASH_WORDS = 128,
    HOPPER_TEXT_MAX = 1 << 18
};

typedef enum hopper_kind {
    HOPPER_WGMMA,
    HOPPER_LOAD,     /* a box into shared memory */
    HOPPER_STORE,    /* a box out of it */
    HOPPER_BULK,     /* bytes there and back */
    HOPPER_STMATRIX, /* 'n' matrices */
    HOPPER_MBARRIER  /* tests after arrivals, as bits */
} hopper_kind;

/* Words of the area, the sums and the first factors. */
typedef enum hopper_data {
    HOPPER_BITS,
    HOPPER_SMALL,  /* whole numbers of the type: sums are exact */
    HOPPER_WIDE,   /* all exponents: sums round, cancel, overflow */
    HOPPER_PATTERN /* each 16 bits their own number */
} hopper_data;

typedef struct hopper_case {
    const char *name;
    hopper_kind kind;
    hopper_data data;
    conformance_form form; /* of numbers */
    int blocks;            /* 0: 1 */
    /* wgmma */
    int n, k;
    const char *types;                        /* "f32.f16.f16" */
    int registers;                            /* A in registers */
    int swizzle_a, swizzle_b, base_a, base_b; /* as in descriptors: 0, 1 (128), 2 (64), 3 (32) */
    uint32_t start_a, start_b, lead_a, lead_b, stride_a, stride_b;
    int transpose_a, transpose_b, negate_a, negate_b, replaces; /* replaces: scale-d is false */
    int chain; /* products one after the other, 32 bytes further; 0: 1 */
    /* boxes */
    uint32_t rank, bytes, swizzle, offset;
    uint64_t extents[5], strides[4];
    uint32_t box[5], steps[5];
    int at[5];
    const char *option; /* of stmatrix */
} hopper_case;

/* Later fields of a case overrule those of its family. */
#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
static const hopper_case hopper_cases[] = {
#define CASE(name, ...) {#name, __VA_ARGS__},
#include "hopper.def"
#undef CASE
};
#pragma GCC diagnostic pop
enum { HOPPER_CASES = sizeof hopper_cases / sizeof *hopper_cases };

static inline int hopper_blocks(const hopper_case *c) {
    return c->blocks ? c->blocks : 1;
}

static inline uint32_t hopper_box_bytes(const hopper_case *c) {
    uint32_t bytes = c->bytes;
    for (uint32_t d = 0; d < c->rank; d++) {
        uint32_t step = d && c->steps[d] ? c->steps[d] : 1;
        bytes *= (c->box[d] + step - 1) / step;
    }
    return bytes;
}

/* Registers of sums a thread. */
static inline int hopper_sums(const hopper_case *c) {
    return strncmp(c->types, "f16", 3) == 0 ? c->n / 4 : c->n / 2;
}

/* Of a block; a multiple of 128. */
static inline int hopper_words(const hopper_case *c) {
    switch (c->kind) {
    case HOPPER_WGMMA: return hopper_sums(c) * 128;
    case HOPPER_LOAD: return (int)((hopper_box_bytes(c) / 4 + 127) / 128 * 128);
    case HOPPER_STORE: return HOPPER_STORE_WORDS;
    case HOPPER_BULK: return 1024;
    case HOPPER_STMATRIX: return 1024;
    default: return 128;
    }
}

/* --- inputs ----------------------------------------------------------------------------------- */

static inline uint32_t hopper_fp8(uint64_t *state, int block) {
    uint32_t word = conformance_random(state);
    return block < 2 ? word & 0xbfbfbfbfu : block < 4 ? word & 0xfbfbfbfbu : word;
}

static inline uint32_t hopper_word(const hopper_case *c, int place, int block, uint64_t *state) {
    int is_sum = place >= HOPPER_AREA_WORDS && place < HOPPER_AREA_WORDS + HOPPER_SUMS * 128;
    int is_fp8 = c->k == 32, halves = c->types && strncmp(c->types, "f16", 3) == 0;
    static const int spreads[HOPPER_BLOCKS_MAX] = {0, 3, 5, 8, 11, 15};
    float x = conformance_value(state, 1), y = conformance_value(state, 1);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    switch (c->data) {
    case HOPPER_BITS: return conformance_random(state);
    case HOPPER_PATTERN: return (uint32_t)(place * 2) | (uint32_t)(place * 2 + 1) << 16;
    case HOPPER_SMALL:
        if (is_sum) return halves ? conformance_f16(x) | conformance_f16(y) << 16 : bits;
        if (is_fp8) return conformance_random(state) & 0xb8b8b8b8u; /* powers of two */
        return conformance_word(c->form, 0, state, 1);
    case HOPPER_WIDE:
        if (is_fp8 && !is_sum) return hopper_fp8(state, block);
        if (is_fp8 && halves) return conformance_word(F16, 0, state, 1);
        if (is_fp8) return bits;
        return conformance_wide_word(c->form, is_sum ? 8 : 0, spreads[block], state);
    }
    return 0;
}

static inline void hopper_inputs(int number, uint32_t *words) {
    const hopper_case *c = &hopper_cases[number];
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(number + 101);
    for (int b = 0; b < hopper_blocks(c); b++)
        for (int n = 0; n < HOPPER_INPUT_WORDS; n++)
            words[b * HOPPER_INPUT_WORDS + n] = hopper_word(c, n, b, &state);
}

static inline uint64_t hopper_hash(const uint32_t words[HOPPER_HASH_WORDS]) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int n = 0; n < HOPPER_HASH_WORDS; n++) hash = (hash ^ words[n]) * 0x100000001b3u;
    return hash;
}

/* --- kernels ---------------------------------------------------------------------------------- */

typedef struct hopper_text {
    char *at, *end;
} hopper_text;

static inline void hopper_add(hopper_text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    t->at += vsnprintf(t->at, (size_t)(t->end - t->at), format, arguments);
    va_end(arguments);
}

/* %base: the area; %in and %out: the block's words; %bar: an mbarrier of count 1. */
static inline void hopper_begin(hopper_text *t, const hopper_case *c) {
    hopper_add(t,
               ".version 8.0\n.target sm_90a\n.address_size 64\n"
               ".extern .shared .align 1024 .b8 raw[];\n"
               ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 from,\n"
               ".param .u64 to) {\n"
               ".reg .pred %%p<8>; .reg .b32 %%r<32>; .reg .b64 %%d<16>; .reg .b64 %%in;\n"
               ".reg .b64 %%out; .reg .b64 %%map; .reg .b32 %%base; .reg .b32 %%bar;\n"
               ".reg .f32 %%s<128>; .reg .b32 %%a<4>; .reg .b32 %%thread;\n"
               "mov.u32 %%thread, %%tid.x; mov.u32 %%r1, %%ctaid.x;\n"
               "ld.param.u64 %%in, [from]; ld.param.u64 %%out, [to];\n"
               "mad.wide.u32 %%in, %%r1, %d, %%in; mad.wide.u32 %%out, %%r1, %d, %%out;\n"
               "mad.wide.u32 %%in, %%thread, 4, %%in; mad.wide.u32 %%out, %%thread, 4, %%out;\n"
               "mov.b64 %%map, map; cvta.param.u64 %%map, %%map;\n"
               "mov.u32 %%base, raw; add.u32 %%base, %%base, 1023;\n"
               "and.b32 %%base, %%base, 0xfffffc00; add.u32 %%bar, %%base, %d;\n"
               "setp.eq.u32 %%p1, %%thread, 0;\n"
               "@%%p1 mbarrier.init.shared::cta.b64 [%%bar], 1;\n"
               "@%%p1 fence.mbarrier_init.release.cluster;\n",
               HOPPER_INPUT_WORDS * 4, hopper_words(c) * 4, HOPPER_AREA);
}

/* Fills the area, for the asynchronous proxy too. */
static inline void hopper_fill(hopper_text *t) {
    hopper_add(t,
               "mov.u32 %%r2, 0; mov.u64 %%d1, %%in; mad.lo.u32 %%r3, %%thread, 4, %%base;\n"
               "FILL: ld.global.u32 %%r4, [%%d1]; st.shared.u32 [%%r3], %%r4;\n"
               "add.s64 %%d1, %%d1, 512; add.u32 %%r3, %%r3, 512; add.u32 %%r2, %%r2, 1;\n"
               "setp.lt.u32 %%p2, %%r2, %d; @%%p2 bra FILL;\n"
               "fence.proxy.async; bar.sync 0;\n",
               HOPPER_AREA_WORDS / 128);
}

/* The first words of the area become the results. */
static inline void hopper_dump(hopper_text *t, int words) {
    hopper_add(t,
               "mov.u32 %%r2, 0; mad.lo.u32 %%r3, %%thread, 4, %%base;\n"
               "DUMP: ld.shared.u32 %%r4, [%%r3]; st.global.u32 [%%out], %%r4;\n"
               "add.s64 %%out, %%out, 512; add.u32 %%r3, %%r3, 512; add.u32 %%r2, %%r2, 1;\n"
               "setp.lt.u32 %%p2, %%r2, %d; @%%p2 bra DUMP;\n",
               words / 128);
}

static inline void hopper_wait(hopper_text *t) {
    hopper_add(t, "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%bar], 0;\n"
                  "@!%%p2 bra WAIT;\n");
}

static inline void hopper_descriptor(hopper_text *t, const char *name, uint32_t start,
                                     uint32_t lead, uint32_t stride, int swizzle, int base) {
    uint64_t rest = (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
                    (uint64_t)base << 49 | (uint64_t)swizzle << 62;
    hopper_add(t,
               "add.u32 %%r5, %%base, %u; shr.u32 %%r5, %%r5, 4; cvt.u64.u32 %s, %%r5;\n"
               "or.b64 %s, %s, 0x%llx;\n",
               start, name, name, name, (unsigned long long)rest);
}

static inline void hopper_wgmma(hopper_text *t, const hopper_case *c) {
    int sums = hopper_sums(c), half = c->k == 16;
    int halves = strncmp(c->types, "f16", 3) == 0;
    const char *sum = halves ? "%r" : "%s";
    if (halves) hopper_add(t, ".reg .b32 %%h<64>;\n"), sum = "%h";
    for (int n = 0; n < sums; n++)
        hopper_add(t, "ld.global.%s %s%d, [%%in+%d];\n", halves ? "u32" : "f32", sum, n,
                   (HOPPER_AREA_WORDS + n * 128) * 4);
    for (int n = 0; n < 4; n++)
        hopper_add(t, "ld.global.u32 %%a%d, [%%in+%d];\n", n,
                   (HOPPER_AREA_WORDS + (HOPPER_SUMS + n) * 128) * 4);
    hopper_add(t, "setp.eq.u32 %%p3, %%thread, %s;\n", c->replaces ? "4096" : "%thread");
    for (int n = 0; n < (c->chain ? c->chain : 1); n++) {
        hopper_descriptor(t, "%d5", c->start_a + 32u * (uint32_t)n, c->lead_a, c->stride_a,
                          c->swizzle_a, c->base_a);
        hopper_descriptor(t, "%d6", c->start_b + 32u * (uint32_t)n, c->lead_b, c->stride_b,
                          c->swizzle_b, c->base_b);
        if (n == 0) hopper_add(t, "wgmma.fence.sync.aligned;\n");
        hopper_add(t, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s {", c->n, c->k, c->types);
        for (int r = 0; r < sums; r++) hopper_add(t, "%s%s%d", r ? ", " : "", sum, r);
        hopper_add(t, "}, %s, %%d6, %%p3, %d, %d", c->registers ? "{%a0, %a1, %a2, %a3}" : "%d5",
                   c->negate_a ? -1 : 1, c->negate_b ? -1 : 1);
        if (half && !c->registers) hopper_add(t, ", %d", c->transpose_a);
        if (half) hopper_add(t, ", %d", c->transpose_b);
        hopper_add(t, ";\n");
    }
    hopper_add(t, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    for (int n = 0; n < sums; n++)
        hopper_add(t, "st.global.%s [%%out+%d], %s%d;\n", halves ? "u32" : "f32", n * 512, sum, n);
}

static inline void hopper_coordinates(hopper_text *t, const hopper_case *c) {
    for (uint32_t d = 0; d < c->rank; d++) hopper_add(t, "%s%d", d ? ", " : "", c->at[d]);
}

static inline void hopper_tensor(hopper_text *t, const hopper_case *c) {
    if (c->kind == HOPPER_LOAD) {
        hopper_add(t,
                   "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%bar], %u;\n"
                   "@%%p1 cp.async.bulk.tensor.%ud.shared::cluster.global.mbarrier::"
                   "complete_tx::bytes [%%base], [%%map, {",
                   hopper_box_bytes(c), c->rank);
        hopper_coordinates(t, c);
        hopper_add(t, "}], [%%bar];\n");
        hopper_wait(t);
        return;
    }
    hopper_add(t, "@%%p1 cp.async.bulk.tensor.%ud.global.shared::cta.bulk_group [%%map, {",
               c->rank);
    hopper_coordinates(t, c);
    hopper_add(t, "}], [%%base];\n@%%p1 cp.async.bulk.commit_group;\n"
                  "@%%p1 cp.async.bulk.wait_group 0;\n");
}

static inline void hopper_bulk(hopper_text *t) {
    hopper_add(t, "@%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%bar], 4096;\n"
                  "@%%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                  "[%%base+2048], [%%in+4096], 4096, [%%bar];\n");
    hopper_wait(t);
    hopper_add(t, "@%%p1 cp.async.bulk.global.shared::cta.bulk_group [%%out], [%%base+2048], "
                  "4096;\n@%%p1 cp.async.bulk.commit_group;\n"
                  "@%%p1 cp.async.bulk.wait_group 0;\n");
}

/* Each warp its own kilobyte; rows 32 bytes apart, in the lanes' order backwards. */
static inline void hopper_stmatrix(hopper_text *t, const hopper_case *c) {
    hopper_add(t, "and.b32 %%r6, %%thread, 31; sub.u32 %%r6, 31, %%r6; shr.u32 %%r7, %%thread, 5;\n"
                  "mad.lo.u32 %%r8, %%r7, 1024, %%base; mad.lo.u32 %%r8, %%r6, 32, %%r8;\n");
    for (int n = 0; n < 4; n++)
        hopper_add(t, "ld.global.u32 %%a%d, [%%in+%d];\n", n,
                   (HOPPER_AREA_WORDS + (HOPPER_SUMS + n) * 128) * 4);
    hopper_add(t, "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r8], {%s};\nbar.sync 0;\n", c->n,
               c->option ? c->option : "",
               c->n == 4   ? "%a0, %a1, %a2, %a3"
               : c->n == 2 ? "%a0, %a1"
                           : "%a0");
}

/* Thread 0 alone: what tests give after each step, one bit each. */
static inline void hopper_mbarrier(hopper_text *t) {
    static const char *const steps[] = {
        "",
        "mbarrier.arrive.shared::cta.b64 _, [%bar];",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 64;",
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%bar];",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 32;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 32;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 16;",
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%bar], 16;",
        "mbarrier.arrive_drop.shared::cta.b64 %d7, [%bar];",
    };
    hopper_add(t, "mov.u32 %%r9, 0;\n@!%%p1 bra END;\n");
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        hopper_add(t, "%s\n", steps[n]);
        for (int parity = 0; parity < 2; parity++)
            hopper_add(t,
                       "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %%p4, [%%bar], %d;\n"
                       "selp.u32 %%r10, 1, 0, %%p4; shl.b32 %%r9, %%r9, 1;\n"
                       "or.b32 %%r9, %%r9, %%r10;\n",
                       parity);
    }
    hopper_add(t, "END: st.global.u32 [%%out], %%r9;\n");
}

/* The case's PTX; the buffer has HOPPER_TEXT_MAX bytes. */
static inline void hopper_ptx(const hopper_case *c, char *buffer) {
    hopper_text t = {buffer, buffer + HOPPER_TEXT_MAX};
    hopper_begin(&t, c);
    if (c->kind != HOPPER_MBARRIER && c->kind != HOPPER_BULK) hopper_fill(&t);
    else hopper_add(&t, "bar.sync 0;\n");
    switch (c->kind) {
    case HOPPER_WGMMA: hopper_wgmma(&t, c); break;
    case HOPPER_LOAD:
    case HOPPER_STORE: hopper_tensor(&t, c); break;
    case HOPPER_BULK: hopper_bulk(&t); break;
    case HOPPER_STMATRIX: hopper_stmatrix(&t, c); break;
    case HOPPER_MBARRIER: hopper_mbarrier(&t); break;
    }
    if (c->kind == HOPPER_LOAD || c->kind == HOPPER_STMATRIX) hopper_dump(&t, hopper_words(c));
    hopper_add(&t, "ret;\n}\n");
}

#endif
