/* Rules of sketches: the names of a Softmax are known after its loop. */
#include "sketch_case.h"

typedef struct sketch_case {
    const char *in_loop, *after; /* statements after the Softmax, and after the loop */
    const char *message;         /* NULL: right */
} sketch_case;

static const sketch_case cases[] = {
    {"", "Compute Log l and get W\nCompute Add W, m and get W\n", NULL},
    {"Compute Max W, l and get W\n", "",
     "l is the sum of whole rows, which is known after the loop over j"},
    {"Compute Cast m and get W\n", "", "m is the maximum of whole rows"},
    {"if j > 0\nCompute Fill 1 and get l\nend\n", "", "l is the sum of whole rows"},
    {"if j > 0\nCompute Add W, l and get W\nend\n", "", "l is the sum of whole rows"},
};

static bool is_right(const sketch_case *c) {
    arena memory;
    arena_init(&memory, 1 << 26);
    str source = str_format(
        &memory,
        "kernel k\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\n"
        "Input V (kv in kv_len, dv)\nOutput O (q in q_len, dv)\nOutput W f32 (q in q_len)\n"
        "Copy Q from global to shared\nCompute Fill 0 and get W\nfor j = 0:kv_len/BN\n"
        "Copy K from global to shared\nCompute GEMM Q, K.T and get S\n"
        "Compute Softmax S with m and l\n%sCopy V from global to shared\n"
        "Compute GEMM S, V and accumulate O\nend\n%sCopy O from register to global\n"
        "Copy W from register to global\n",
        c->in_loop, c->after);
    bool right = sketch_gives(&memory, source, DIAG_SKETCH_EARLY, c->message);
    arena_done(&memory);
    return right;
}

static void names_of_a_softmax(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) wrong += !is_right(&cases[i]);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_a_softmax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
