/* Rules of sketches: the names of a Softmax are known after its loop. And which block sizes mean
 * nothing.
 */
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

/* A sketch that gives the size of its blocks, and whether it means the same with any other. */
static const struct {
    const char *first, *in_loop;
    bool is_any;
} sized[] = {
    {"", "Compute GEMM Q, K.T and get S\nCompute Softmax S\n", true},
    {"let half = 16\n", "Compute GEMM Q, K.T and get S\nCompute Softmax S\n", true},
    {"let half = BN/2\n", "Compute GEMM Q, K.T and get S\nCompute Softmax S\n", false},
    {"", "Compute GEMM Q, K.T and get S\nCompute Mask S where kv < BN\nCompute Softmax S\n", false},
    {"", "Compute GEMM Q, K.T and get S\nCompute Multiply S, j and get S\n", false},
    {"", "Compute Multiply Q, 2 and get Q\nCompute GEMM Q, K.T and get S\n", false},
    {"",
     "Compute GEMM Q, K.T and get S\nCompute RowMax S and get m\nCompute Subtract S, m and get S\n",
     false},
};

static bool is_opened(arena *memory, const char *first, const char *in_loop) {
    str source =
        str_format(memory,
                   "kernel k\nlet BN = 32\n%sInput Q (q in q_len, d)\n"
                   "Input K (kv in kv_len, d)\nInput V (kv in kv_len, dv)\n"
                   "Output O (q in q_len, dv)\nCopy Q from global to register\n"
                   "for j = 0:kv_len/BN\nCopy K from global to shared\n%s"
                   "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"
                   "Copy O from register to global\n",
                   first, in_loop);
    diag_list diags;
    diag_init(&diags, memory, STR("sketch"), source);
    tl_program *program = tl_parse(memory, STR("sketch"), source, &diags);
    bool is_bound = !diags.error_count && tl_bind(program, &diags) &&
                    tl_infer_axes(program->first, memory, &diags);
    assert_true(is_bound);
    check_open_sizes(program->first, memory);
    bool found = false;
    for (int i = 0; i < program->first->symbol_count; i++) {
        const tl_symbol *symbol = program->first->symbols[i];
        if (str_is(symbol->name, "BN")) found = symbol->kind == TL_SYMBOL_OPEN;
    }
    return found;
}

static void sizes_that_mean_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sized / sizeof *sized; i++) {
        arena memory;
        arena_init(&memory, 1 << 26);
        if (is_opened(&memory, sized[i].first, sized[i].in_loop) != sized[i].is_any)
            fail_msg("sketch %d: %s", (int)i, sized[i].in_loop);
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_a_softmax),
                                       cmocka_unit_test(sizes_that_mean_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
