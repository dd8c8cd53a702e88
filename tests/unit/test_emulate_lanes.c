/* Lane functions: both processor kinds agree on all instructions, and single ones against C. */
#include "emulate/lanes.h"
#include "emulate/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11 ^ *state << 40;
}

/* Numbers that break things beside plain random ones. */
static uint64_t odd_number(uint64_t *state, int bytes) {
    static const uint32_t words[] = {
        0,          1,          2,          31,         32,         33,
        255,        256,        0x7f,       0x80,       0x7fff,     0x8000,
        0xffff,     0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0xbf800000,
        0x7f800000, 0xff800000, 0x7fc00000, 0x7fa17fa1, 0x00000001, 0x80000001,
        0x007fffff, 0x00800000, 0x7f7fffff, 0x3c003c00, 0x7c00fc00, 0x00010001,
        0x4b000000, 0x4f000000, 0xcf000000, 0x4f800000, 0x42fe0000, 0xc3160000,
    };
    uint64_t r = next(state);
    if (r % 3) return r >> 8;
    uint64_t word = words[r / 3 % (sizeof words / sizeof *words)];
    return bytes == 8 && r & 1024 ? word << 32 | (uint32_t)r : word;
}

static void fill(uint8_t *row, int bytes, uint64_t *state) {
    for (int l = 0; l < LANES; l++) {
        uint64_t value = odd_number(state, bytes);
        memcpy(row + l * bytes, &value, (size_t)bytes);
    }
}

/* The approximations go through other roundings where fused: these may differ in the last bits. */
static bool is_close(const lanes_entry *e, const uint8_t *a, const uint8_t *b) {
    float x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return strstr(e->spelling, "approx") && e->result_bytes == 4 &&
           fabsf(x - y) <= fabsf(x) * 1e-6f;
}

static void kinds_agree(void **state) {
    (void)state;
    uint64_t random = 1;
    const lanes_set *plain = lanes_choose(true), *best = lanes_choose(false);
    for (int i = 0; i < lanes_count; i++) {
        const lanes_entry *e = &lanes_entries[i];
        for (int round = 0; round < 40; round++) {
            uint8_t rows[LANES_INPUTS][256], a[256], b[256];
            const void *in[LANES_INPUTS] = {0};
            for (int n = 0; n < e->input_count; n++) {
                fill(rows[n], e->input_bytes[n], &random);
                in[n] = rows[n];
            }
            plain->functions[i](a, in);
            best->functions[i](b, in);
            for (int l = 0; l < LANES; l++) {
                const uint8_t *x = a + l * e->result_bytes, *y = b + l * e->result_bytes;
                if (memcmp(x, y, e->result_bytes) != 0 && !is_close(e, x, y))
                    fail_msg("%s differs in lane %d", e->spelling, l);
            }
            /* The result may be an input. */
            if (e->result_bytes != e->input_bytes[0]) continue;
            best->functions[i](rows[0], in);
            assert_memory_equal(rows[0], b, (size_t)e->result_bytes * LANES);
        }
    }
}

static int find(const char *spelling) {
    for (int i = 0; i < lanes_count; i++)
        if (strcmp(lanes_entries[i].spelling, spelling) == 0) return i;
    fail_msg("no %s", spelling);
    return -1;
}

static uint64_t one(const char *spelling, uint64_t x, uint64_t y, uint64_t z, uint64_t w) {
    int i = find(spelling);
    uint64_t values[LANES_INPUTS] = {x, y, z, w}, result[LANES], rows[LANES_INPUTS][LANES];
    const void *in[LANES_INPUTS];
    for (int n = 0; n < LANES_INPUTS; n++) {
        int bytes = n < lanes_entries[i].input_count ? lanes_entries[i].input_bytes[n] : 8;
        for (int l = 0; l < LANES; l++)
            memcpy((uint8_t *)rows[n] + l * bytes, &values[n], (size_t)bytes);
        in[n] = rows[n];
    }
    lanes_choose(false)->functions[i](result, in);
    uint64_t value = 0;
    memcpy(&value, result, lanes_entries[i].result_bytes);
    return value;
}

#define F(x) number_f32_bits(x)

static void integers(void **state) {
    (void)state;
    assert_int_equal(one("add.s32", 0x7fffffff, 1, 0, 0), 0x80000000);
    assert_int_equal(one("mul.hi.s32", 0xffffffff, 2, 0, 0), 0xffffffff);
    assert_int_equal(one("mul.wide.s32", 0xffffffff, 2, 0, 0), (uint64_t)-2);
    assert_int_equal(one("mad.wide.u32", 0xffffffff, 2, 5, 0), 0x200000003);
    assert_int_equal(one("div.s32", 0x80000000, 0xffffffff, 0, 0), 0x80000000);
    assert_int_equal(one("div.u32", 7, 0, 0, 0), 0xffffffff);
    assert_int_equal(one("rem.s32", (uint32_t)-7, 3, 0, 0), (uint32_t)-1);
    assert_int_equal(one("shr.s32", 0x80000000, 40, 0, 0), 0xffffffff);
    assert_int_equal(one("shl.b32", 1, 32, 0, 0), 0);
    assert_int_equal(one("shf.l.wrap.b32", 0x80000000, 1, 1, 0), 3);
    assert_int_equal(one("shf.r.clamp.b32", 0x12345678, 0x9abcdef0, 40, 0), 0x9abcdef0);
    assert_int_equal(one("prmt.b32", 0x33221100, 0x77665544, 0x5410, 0), 0x55441100);
    assert_int_equal(one("cvt.pack.sat.u8.s32.b32", 300, 0xffffffff, 0x11223344, 0), 0x3344ff00);
    assert_int_equal(one("cvt.pack.sat.u8.s32.b32", 18, 126, 0, 0), 0x127e);
    assert_int_equal(one("prmt.b32", 0x000000f0, 0, 0x8888, 0), 0xffffffff);
    assert_int_equal(one("lop3.b32", 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96),
                     0xf0f0f0f0 ^ 0xcccccccc ^ 0xaaaaaaaa);
    assert_int_equal(one("bfe.s32", 0x000000f0, 4, 4, 0), 0xffffffff);
    assert_int_equal(one("bfe.u32", 0xabcd1234, 8, 8, 0), 0x12);
    assert_int_equal(one("bfi.b32", 0xff, 0, 4, 8), 0xff0);
    assert_int_equal(one("clz.b32", 0, 0, 0, 0), 32);
    assert_int_equal(one("brev.b32", 1, 0, 0, 0), 0x80000000);
    assert_int_equal(one("mul24.lo.s32", 0xffffff, 2, 0, 0), (uint32_t)-2);
    assert_int_equal(one("dp4a.s32.s32", 0x01ff0203, 0x01010101, 10, 0), 15);
    assert_int_equal(one("sad.s32", (uint32_t)-3, 4, 1, 0), 8);
}

static void floats(void **state) {
    (void)state;
    uint32_t nan = 0x7fffffff;
    assert_int_equal(one("add.f32", 0x7f800000, 0xff800000, 0, 0), nan);
    assert_int_equal(one("mul.f32", 0x7fa17fa1, F(1.0f), 0, 0), nan);
    assert_int_equal(one("max.f32", 0x7fc00000, F(2.0f), 0, 0), F(2.0f));
    assert_int_equal(one("max.f32", 0x7fc00000, 0x7fc00000, 0, 0), nan);
    assert_int_equal(one("max.f32", 0x80000000, 0, 0, 0), 0);
    assert_int_equal(one("min.f32", 0x80000000, 0, 0, 0), 0x80000000);
    assert_int_equal(one("max.NaN.f32", nan, F(2.0f), 0, 0), nan);
    assert_int_equal(one("mul.ftz.f32", 0x00400000, F(1.0f), 0, 0), 0);
    assert_int_equal(one("mul.ftz.f32", F(-0x1p-126f), F(0.5f), 0, 0), 0x80000000);
    assert_int_equal(one("add.sat.f32", F(0.75f), F(0.75f), 0, 0), F(1.0f));
    assert_int_equal(one("fma.f32", F(1.0f + 0x1p-12f), F(1.0f + 0x1p-12f), F(-1.0f), 0),
                     F(fmaf(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f)));
    assert_int_equal(one("add.rz.f32", F(1.0f), F(0x1.8p-24f), 0, 0), F(1.0f));
    assert_int_equal(one("add.rp.f32", F(1.0f), F(0x1p-40f), 0, 0), F(1.0f + 0x1p-23f));
    assert_int_equal(one("copysign.f32", 0x80000000, F(3.0f), 0, 0), F(-3.0f));
    assert_int_equal(one("rcp.approx.ftz.f32", 0, 0, 0, 0), 0x7f800000);
    assert_int_equal(one("ex2.approx.ftz.f32", F(-INFINITY), 0, 0, 0), 0);
    assert_int_equal(one("ex2.approx.ftz.f32", F(-127.0f), 0, 0, 0), 0);
    assert_int_equal(one("ex2.approx.f32", F(-149.0f), 0, 0, 0), 1);
    assert_int_equal(one("ex2.approx.ftz.f32", F(128.0f), 0, 0, 0), 0x7f800000);
    for (int e = -126; e < 128; e++)
        assert_int_equal(one("ex2.approx.ftz.f32", F((float)e), 0, 0, 0), F(ldexpf(1.0f, e)));
}

/* The stated error of 2^x: within one unit in the last place. */
static void power_is_close(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int i = 0; i < 20000; i++) {
        float x = (float)(next(&random) % 2500000) / 10000.0f - 125.0f;
        double exact = exp2((double)x);
        float got = number_f32((uint32_t)one("ex2.approx.ftz.f32", F(x), 0, 0, 0));
        if (!(fabs(got - exact) <= exact * 0x1p-23)) fail_msg("2^%a: %a, not %a", x, got, exact);
    }
}

static void conversions(void **state) {
    (void)state;
    assert_int_equal(one("cvt.rzi.s32.f32", F(-1.9f), 0, 0, 0), (uint32_t)-1);
    assert_int_equal(one("cvt.rni.s32.f32", F(2.5f), 0, 0, 0), 2);
    assert_int_equal(one("cvt.rmi.s32.f32", F(-0.5f), 0, 0, 0), (uint32_t)-1);
    assert_int_equal(one("cvt.rzi.u32.f32", F(-5.0f), 0, 0, 0), 0);
    assert_int_equal(one("cvt.rzi.s32.f32", F(1e20f), 0, 0, 0), 0x7fffffff);
    assert_int_equal(one("cvt.rzi.s32.f32", 0x7fc00000, 0, 0, 0), 0);
    assert_int_equal(one("cvt.rzi.s64.f32", 0x7fc00000, 0, 0, 0), 0x8000000000000000u);
    assert_int_equal(one("cvt.s32.s8", 0x1ff, 0, 0, 0), 0xffffffff);
    assert_int_equal(one("cvt.sat.u8.s32", (uint32_t)-4, 0, 0, 0), 0);
    assert_int_equal(one("cvt.sat.s8.s32", 300, 0, 0, 0), 127);
    assert_int_equal(one("cvt.f16x2.f32", F(1.0f), F(2.0f), 0, 0), 0x3c004000);
    assert_int_equal(one("cvt.bf16x2.f32", F(1.0f), F(2.0f), 0, 0), 0x3f804000);
    assert_int_equal(one("cvt.satfinite.e4m3x2.f32", F(1.0f), F(500.0f), 0, 0), 0x387e);
    assert_int_equal(one("cvt.rna.tf32.f32", F(1.0f + 0x1p-11f), 0, 0, 0), F(1.0f + 0x1p-10f));
    assert_int_equal(one("fma.f16x2", 0x3c003c00, 0x40003c00, 0x3c000000, 0), 0x42003c00);
    assert_int_equal(one("setp.ltu.f32", 0x7fc00000, 0, 0, 0), 0xffffffff);
    assert_int_equal(one("setp.ne.f32", 0x7fc00000, 0, 0, 0), 0);
    assert_int_equal(one("setp.eq.f32z", 1, 0, 0, 0), 0xffffffff);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_agree),    cmocka_unit_test(integers),    cmocka_unit_test(floats),
        cmocka_unit_test(power_is_close), cmocka_unit_test(conversions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
