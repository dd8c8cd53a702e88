/* Where loops over blocks begin and end, and which blocks need their mask: of tests that hold
 * together, of distances and of quotients. The bounds are read as text, which fails where one is
 * lost, and the kernels are run, which fails where one leaves out too much.
 */
#include "meaning_case.h"

/* Of blocks of 64 queries and 32 keys; NULL: there is no such bound. */
typedef struct bounds_case {
    const char *mask;
    const char *first, *blocks, *clear, *full;
} bounds_case;

static const bounds_case cases[] = {
    /* All have to hold: the farthest edge counts. */
    {"kv > q and kv >= prefix", NULL, "max(1, ceil(min(kv_len, max((q_block + 1)*BM, prefix))/BN))",
     NULL, "floor(min(kv_len, max(q_block*BM + 1, prefix))/BN)"},
    {"kv <= q - 40 and kv < 20", "max(0, floor(min(q_block*BM - 39, 20)/BN))",
     "max(first + 1, ceil(kv_len/BN))", "ceil(min((q_block + 1)*BM - 40, 20)/BN)",
     "floor(kv_len/BN)"},
    /* On both sides: a stretch in the middle, which empties no end. */
    {"kv > q and kv < 90", NULL, "max(1, ceil(kv_len/BN))", NULL,
     "floor(min(kv_len, q_block*BM + 1)/BN)"},
    /* Beside a test that says nothing: no block is empty, but some need no mask. */
    {"kv > q and (q + kv) % 3 != 0", NULL, "max(1, ceil(kv_len/BN))", NULL,
     "floor(min(kv_len, q_block*BM + 1)/BN)"},
    {"kv >= 40 and (kv > q or q > 50)", NULL,
     "max(1, ceil(min(kv_len, max(40, (q_block + 1)*BM))/BN))", NULL,
     "floor(min(kv_len, max(40, q_block*BM + 1), 40)/BN)"},
    /* Distances. */
    {"abs(q - kv) > 20", "max(0, floor((q_block*BM - 20)/BN))",
     "max(first + 1, ceil(min(kv_len, (q_block + 1)*BM + 20)/BN))",
     "ceil(((q_block + 1)*BM - 21)/BN)", "floor(min(kv_len, q_block*BM + 21)/BN)"},
    {"abs(kv - q) < 20", NULL, "max(1, ceil(kv_len/BN))", NULL,
     "floor(min(kv_len, q_block*BM - 19)/BN)"},
    {"abs(kv - q) > prefix",
     "max(0, floor((q_block*BM - max(-1073741824, min(1073741824, prefix)))/BN))",
     "max(first + 1, ceil(min(kv_len, max(-1073741824, min(1073741824, prefix)) + "
     "(q_block + 1)*BM)/BN))",
     "ceil(((q_block + 1)*BM - max(-1073741824, min(1073741824, prefix)) - 1)/BN)",
     "floor(min(kv_len, max(-1073741824, min(1073741824, prefix)) + q_block*BM + 1)/BN)"},
    /* Quotients. */
    {"kv/8 > q/8", NULL, "max(1, ceil(min(kv_len, 8*floor(((q_block + 1)*BM - 1)/8) + 8)/BN))",
     NULL, "floor(min(kv_len, 8*floor(q_block*BM/8) + 8)/BN)"},
    {"q/8 != kv/8", "max(0, floor(8*floor(q_block*BM/8)/BN))",
     "max(first + 1, ceil(min(kv_len, 8*floor(((q_block + 1)*BM - 1)/8) + 8)/BN))",
     "ceil(8*floor(((q_block + 1)*BM - 1)/8)/BN)",
     "floor(min(kv_len, 8*floor(q_block*BM/8) + 8)/BN)"},
    {"abs(min(max(q/8, 2), 9) - kv/8) > 1",
     "max(0, floor((8*min(max(floor(q_block*BM/8), 2), 9) - 8)/BN))",
     "max(first + 1, ceil(min(kv_len, 8*min(max(floor(((q_block + 1)*BM - 1)/8), 2), 9) + 16)/BN))",
     "ceil((8*min(max(floor(((q_block + 1)*BM - 1)/8), 2), 9) - 8)/BN)",
     "floor(min(kv_len, 8*min(max(floor(q_block*BM/8), 2), 9) + 16)/BN)"},
    {"kv >= (q + 40)/3", NULL, "max(1, ceil(min(kv_len, floor(((q_block + 1)*BM - 1 + 40)/3))/BN))",
     NULL, "floor(min(kv_len, floor((q_block*BM + 40)/3))/BN)"},
    {"kv < (2*q - min(q, 9) + 1)/2 - 7",
     "max(0, floor((floor((2*(q_block*BM) - min((q_block + 1)*BM - 1, 9) + 1)/2) - 7)/BN))",
     "max(first + 1, ceil(kv_len/BN))",
     "ceil((floor((2*((q_block + 1)*BM - 1) - min(q_block*BM, 9) + 1)/2) - 7)/BN)",
     "floor(kv_len/BN)"},
    /* A product that may leave a kernel's whole numbers is none: q/4 by 8 is twice q. */
    {"kv/8 > q/4", NULL, "max(1, ceil(kv_len/BN))", NULL, NULL},
    {"kv/8 > prefix", NULL, "max(1, ceil(kv_len/BN))", NULL, NULL},
    /* What is no whole number may be neither less nor greater. */
    {"kv != q", NULL, "max(1, ceil(kv_len/BN))", NULL, NULL},
    {"not (kv > q and kv >= prefix)", NULL, "max(1, ceil(kv_len/BN))", NULL, NULL},
};

enum { CASES = sizeof cases / sizeof *cases };

static const char *sketch_of(arena *memory, const char *mask) {
    const char *text = "kernel bounds\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\n"
                       "Input V (kv in kv_len, dv)\nInput prefix i32\nOutput O (q in q_len, dv)\n"
                       "Copy Q from global to shared\nfor j = 0:kv_len/BN\n"
                       "Copy K from global to shared\nCompute GEMM Q, K.T and get S\n"
                       "Compute Mask S where %s\nCompute Softmax S\n"
                       "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"
                       "Copy O from register to global\n";
    return str_copy_z(memory, str_format(memory, text, mask));
}

static request request_of(arena *memory, const char *mask) {
    return (request){.sketch = sketch_of(memory, mask),
                     .pins = {"d=16", "dv=24", "BM=64", "BN=32"},
                     .gpu = "a100",
                     .dtype = TL_F16};
}

/* What a let of the text stands for; "": there is none. */
static str value_of(str text, const char *name) {
    while (text.length > 0) {
        str line = str_cut(&text, '\n'), word = STR("let ");
        if (!str_starts(line, word)) continue;
        line = (str){line.data + word.length, line.length - word.length};
        str found = str_cut(&line, '=');
        if (!str_is((str){found.data, found.length - 1}, name)) continue;
        str value = {line.data + 1, line.length - 1}, comment = STR(" //");
        for (size_t i = 0; i + comment.length <= value.length; i++)
            if (!memcmp(value.data + i, comment.data, comment.length)) value.length = i;
        while (value.length > 0 && value.data[value.length - 1] == ' ') value.length--;
        return value;
    }
    return (str){"", 0};
}

static void is_bound(const bounds_case *c, str text, const char *name, const char *wanted) {
    str found = value_of(text, name);
    if (str_is(found, wanted ? wanted : "")) return;
    fail_msg("%s: %s is '%.*s', not '%s'\n%.*s", c->mask, name, STR_ARGS(found),
             wanted ? wanted : "", STR_ARGS(text));
}

static void say_where_loops_end(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        arena memory;
        answer a;
        arena_init(&memory, 1 << 20);
        request q = request_of(&memory, cases[i].mask);
        q.stop_after = "tile";
        ask(&q, &a);
        assert_non_null(a.result.program);
        is_bound(&cases[i], a.text, "first", cases[i].first);
        is_bound(&cases[i], a.text, "blocks", cases[i].blocks);
        is_bound(&cases[i], a.text, "clear", cases[i].clear);
        is_bound(&cases[i], a.text, "full", cases[i].full);
        done(&a);
        arena_done(&memory);
    }
}

static const struct lengths {
    int64_t q_len, kv_len;
    double prefix;
} lengths[] = {{70, 150, 33}, {150, 70, 100}, {64, 96, -5}, {1, 40, 0}};

static void keep_what_is_seen(bool by_warpgroups) {
    for (size_t i = 0; i < CASES; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            arena memory;
            arena_init(&memory, 1 << 20);
            trial t = {.q = request_of(&memory, cases[i].mask),
                       .sizes = {{"q_len", lengths[k].q_len}, {"kv_len", lengths[k].kv_len}},
                       .scalars = {{"prefix", lengths[k].prefix}},
                       .has_roles = by_warpgroups};
            if (by_warpgroups) t.q.gpu = "h200", t.q.pins[4] = "warpgroups=1";
            keeps_its_meaning(t);
            arena_done(&memory);
        }
}

static void leave_out_nothing_that_is_seen(void **state) {
    (void)state;
    keep_what_is_seen(false);
}

static void nor_by_warpgroups(void **state) {
    (void)state;
    keep_what_is_seen(true);
}

/* Far beyond all lengths a distance is none. */
static void far_distances(void **state) {
    (void)state;
    static const double far[] = {2147483647, -2147483648.0};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        arena memory;
        arena_init(&memory, 1 << 20);
        keeps_its_meaning((trial){.q = request_of(&memory, "abs(kv - q) > prefix"),
                                  .sizes = {{"q_len", 70}, {"kv_len", 90}},
                                  .scalars = {{"prefix", far[i]}}});
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(say_where_loops_end),
        cmocka_unit_test(leave_out_nothing_that_is_seen),
        cmocka_unit_test(nor_by_warpgroups),
        cmocka_unit_test(far_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
