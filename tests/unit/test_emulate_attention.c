/* The emulator on attention kernels: right values against fp64, and every planted bug named. */
#include "emulate_support.h"

#include <math.h>
#include <stdlib.h>

enum { D = 64 };

typedef struct problem {
    int heads, q_rows, kv_rows, causal;
    uint16_t *q, *k, *v, *o;
    uint8_t parameters[48];
    emulate_buffer buffers[4];
    emulate_pointer pointers[4];
} problem;

static const emulate_tile tiles[] = {
    {{"Q", 1}, 0, 64, 128, 1, 8192},
    {{"K", 1}, 8192, 64, 128, 2, 8192},
    {{"V", 1}, 3 * 8192, 64, 128, 2, 8192},
};

static uint16_t half_of(double x) {
    int exponent;
    double mantissa = frexp(fabs(x), &exponent);
    uint16_t sign = x < 0 ? 0x8000 : 0;
    if (x == 0.0 || exponent < -20) return sign;
    if (exponent <= -14) return (uint16_t)(sign | (int)nearbyint(ldexp(mantissa, exponent + 24)));
    int bits = (int)nearbyint(ldexp(mantissa, 11)) - 1024;
    return (uint16_t)(sign | (((exponent + 14) << 10) + bits));
}

static double value_of(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double x = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31) x = NAN;
    return half & 0x8000 ? -x : x;
}

static double normal(uint64_t *state) {
    double sum = 0.0;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 40) / (double)(1 << 24);
    }
    return sum - 6.0;
}

static void fill(uint16_t *to, int count, uint64_t seed) {
    for (int i = 0; i < count; i++) to[i] = half_of(normal(&seed));
}

static void prepare(emulate_case *c, problem *p, int heads, int q_rows, int kv_rows, int causal) {
    *p = (problem){.heads = heads, .q_rows = q_rows, .kv_rows = kv_rows, .causal = causal};
    int q_count = heads * q_rows * D, kv_count = heads * kv_rows * D;
    p->q = malloc((size_t)q_count * 2 + 1);
    p->o = malloc((size_t)q_count * 2 + 1);
    p->k = malloc((size_t)kv_count * 2 + 1);
    p->v = malloc((size_t)kv_count * 2 + 1);
    fill(p->q, q_count, 1);
    fill(p->k, kv_count, 2);
    fill(p->v, kv_count, 3);
    memset(p->o, 0xff, (size_t)q_count * 2);
    void *data[4] = {p->q, p->k, p->v, p->o};
    static const char *const names[4] = {"Q", "K", "V", "O"};
    for (int i = 0; i < 4; i++) {
        size_t bytes = (size_t)(i == 0 || i == 3 ? q_count : kv_count) * 2;
        p->buffers[i] = (emulate_buffer){
            .name = str_from(names[i]), .data = data[i], .bytes = bytes, .readable = i < 3};
        p->pointers[i] = (emulate_pointer){(uint32_t)i * 8, i, 0};
    }
    p->buffers[3].writable = p->buffers[3].output = p->buffers[3].whole = p->buffers[3].once = true;
    p->buffers[3].element_bytes = 2;
    float scale = (float)(1.4426950408889634 / 8.0);
    memcpy(p->parameters + 32, &(int32_t[]){q_rows, kv_rows}, 8);
    memcpy(p->parameters + 40, &scale, 4);
    memcpy(p->parameters + 44, &causal, 4);
    c->launch = (emulate_launch){.grid = {(uint32_t)(q_rows + 63) / 64, (uint32_t)heads, 1},
                                 .block = {128, 1, 1},
                                 .dynamic_shared_bytes = 6 * 8192,
                                 .parameters = p->parameters,
                                 .parameter_bytes = 48,
                                 .buffers = p->buffers,
                                 .buffer_count = 4,
                                 .pointers = p->pointers,
                                 .pointer_count = 4,
                                 .tiles = tiles,
                                 .tile_count = 3};
}

static void done(problem *p) {
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->o);
}

static double relative_error(const problem *p) {
    double difference = 0.0, size = 0.0;
    double *weights = malloc((size_t)p->kv_rows * sizeof *weights);
    for (int h = 0; h < p->heads; h++)
        for (int i = 0; i < p->q_rows; i++) {
            const uint16_t *q = p->q + (size_t)(h * p->q_rows + i) * D;
            int visible = p->causal ? i + p->kv_rows - p->q_rows + 1 : p->kv_rows;
            double most = -INFINITY, total = 0.0;
            for (int j = 0; j < visible; j++) {
                const uint16_t *k = p->k + (size_t)(h * p->kv_rows + j) * D;
                double s = 0.0;
                for (int x = 0; x < D; x++) s += value_of(q[x]) * value_of(k[x]);
                weights[j] = s / 8.0;
                most = fmax(most, weights[j]);
            }
            for (int j = 0; j < visible; j++) total += weights[j] = exp(weights[j] - most);
            for (int x = 0; x < D; x++) {
                double sum = 0.0;
                for (int j = 0; j < visible; j++)
                    sum += weights[j] * value_of(p->v[(h * p->kv_rows + j) * D + x]);
                double reference = visible > 0 ? sum / total : 0.0;
                double ours = value_of(p->o[(h * p->q_rows + i) * D + x]);
                difference += (ours - reference) * (ours - reference);
                size += reference * reference;
            }
        }
    free(weights);
    return sqrt(difference / size);
}

static void check_right(const char *variant, int q_rows, int kv_rows, int causal, bool plain) {
    emulate_case c;
    problem p;
    case_open(&c, "attention", variant);
    prepare(&c, &p, 2, q_rows, kv_rows, causal);
    c.launch.plain = plain;
    case_run_clean(&c);
    double error = relative_error(&p);
    if (!(error < 5e-4)) fail_msg("relative error %g at %d x %d", error, q_rows, kv_rows);
    done(&p);
    case_close(&c);
}

static void right_with_copies(void **state) {
    (void)state;
    check_right("", 64, 64, 0, false);
    check_right("", 1, 1, 0, false);
    check_right("", 65, 127, 0, false);
    check_right("", 200, 200, 1, false);
    check_right("", 70, 200, 1, false);
    check_right("", 200, 200, 1, true);
}

static void right_through_registers(void **state) {
    (void)state;
    check_right("-k8", 64, 64, 0, false);
    check_right("-k8", 130, 127, 0, false);
    check_right("-k8", 200, 200, 1, false);
}

/* Runs a variant with a planted bug; the caller looks at the findings. */
static void run_planted(emulate_case *c, const char *variant) {
    problem p;
    case_open(c, "attention", variant);
    prepare(c, &p, 1, 200, 200, 0);
    emulate_outcome outcome = case_run(c);
    done(&p);
    if (outcome != EMULATE_FOUND) fail_msg("%s: nothing was found", variant);
}

typedef struct planted {
    const char *variant;
    emulate_kind kind;
    const char *mark, *other;
    const char *words; /* in the report */
} planted;

static void planted_bugs_are_named(void **state) {
    (void)state;
    static const planted rows[] = {
        {"-no-wait", EMULATE_FLIGHT_READ, "load_k", "next_k", "K stage 1[row"},
        {"-no-commit", EMULATE_FLIGHT_READ, "load_k", "next_k", "its wait is missing"},
        {"-same-stage", EMULATE_FLIGHT_READ, "load_k", "next_k", "K stage 0[row"},
        {"-no-barrier-before", EMULATE_RACE_READ, "load_k", "next_k", "K stage 1[row"},
        {"-no-barrier-after", EMULATE_RACE_OVERREAD, "next_k", "load_k", "K stage 0[row"},
        {"-no-syncwarp", EMULATE_RACE_READ, "load_o", "store_o", "Q[row"},
        {"-uninitialised", EMULATE_UNINITIALISED, "load_nothing", NULL, "dynamic shared memory+"},
        {"-rows-unchecked", EMULATE_GLOBAL_BOUNDS, "next_k", NULL, "which has 25600 bytes"},
        {"-rows-stored", EMULATE_GLOBAL_BOUNDS, "write_o", NULL, "at O+25600"},
        {"-divergent-mma", EMULATE_DIVERGED, "mma_s", NULL, "lanes 0xffffffdf"},
        {"-barrier-in-one-warp", EMULATE_BARRIER_EXITED, "last_barrier", NULL,
         "warp 0 lane 0 has ended"},
        {"-barrier-in-some-lanes", EMULATE_DIVERGED, "lane_barrier", NULL, "lanes 0x0000007f"},
        {"-k8-no-barrier-before", EMULATE_RACE_READ, "load_k", "staged_k", "K stage 1[row"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        emulate_case c;
        run_planted(&c, rows[i].variant);
        case_expect(&c, rows[i].kind, rows[i].mark, rows[i].other);
        if (!strstr(c.report.data, rows[i].words))
            fail_msg("%s: no \"%s\" in\n%s", rows[i].variant, rows[i].words, c.report.data);
        case_close(&c);
    }
}

static uint64_t wavefronts(const char *variant, uint64_t *least) {
    emulate_case c;
    problem p;
    case_open(&c, "attention", variant);
    prepare(&c, &p, 1, 64, 128, 0);
    case_run_clean(&c);
    uint64_t total = 0;
    *least = 0;
    for (int i = 0; i < c.result.traffic_count; i++) {
        const emulate_traffic *t = &c.result.traffic[i];
        if (!str_starts(t->place.opcode, STR("ldmatrix"))) continue;
        total += t->wavefronts;
        *least += t->least_wavefronts;
    }
    done(&p);
    case_close(&c);
    return total;
}

static void bank_conflicts_are_counted(void **state) {
    (void)state;
    uint64_t least;
    /* 4 warps x (4 for Q + 2 tiles x 32) instructions of 4 wavefronts each. */
    assert_int_equal(wavefronts("", &least), 4 * (4 + 2 * 32) * 4);
    assert_int_equal(least, 4 * (4 + 2 * 32) * 4);
    assert_int_equal(wavefronts("-no-swizzle", &least), 8 * 4 * (4 + 2 * 32) * 4);
}

static void too_little_shared_memory(void **state) {
    (void)state;
    emulate_case c;
    problem p;
    case_open(&c, "attention", "");
    prepare(&c, &p, 1, 64, 128, 0);
    c.launch.dynamic_shared_bytes = 5 * 8192 - 16;
    assert_int_equal(case_run(&c), EMULATE_FOUND);
    case_expect(&c, EMULATE_SHARED_BOUNDS, "next_v", NULL);
    done(&p);
    case_close(&c);
}

static void budget_stops_a_run(void **state) {
    (void)state;
    emulate_case c;
    problem p;
    case_open(&c, "attention", "");
    prepare(&c, &p, 1, 64, 128, 0);
    c.launch.instruction_budget = 1000;
    assert_int_equal(case_run(&c), EMULATE_FOUND);
    case_expect(&c, EMULATE_BUDGET, NULL, NULL);
    done(&p);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_with_copies),        cmocka_unit_test(right_through_registers),
        cmocka_unit_test(planted_bugs_are_named),   cmocka_unit_test(bank_conflicts_are_counted),
        cmocka_unit_test(too_little_shared_memory), cmocka_unit_test(budget_stops_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
