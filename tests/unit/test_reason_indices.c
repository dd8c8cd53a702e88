/* Indices are told apart by their names, not by the lengths that they share, and a sum along an
 * axis takes all of it: each sketch against one that says the same with a length, or an index, for
 * each.
 */
#include "meaning_case.h"

/* Replaces a word wherever it stands alone; ' ' in 'names' separates pairs old:new. */
static str with_names(arena *memory, const char *text, const char *names) {
    text_buffer out;
    text_init(&out, 1 << 16);
    for (const char *at = text; *at;) {
        size_t length =
            strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (!length) {
            text_add(&out, (str){at++, 1});
            continue;
        }
        str word = {at, length};
        for (const char *pair = names; *pair;) {
            size_t end = strcspn(pair, " ");
            str to = {pair, end}, from = str_cut(&to, ':');
            if (str_equal(from, word)) {
                word = to;
                break;
            }
            pair += end + (pair[end] == ' ');
        }
        text_add(&out, word);
        at += length;
    }
    str result = str_copy(memory, text_str(&out));
    text_done(&out);
    return result;
}

/* The text with {names}: as they stand, against the same with other names. */
static void same_as(const char *sketch, const char *names, trial t) {
    arena memory;
    arena_init(&memory, 1 << 20);
    static const char plain[] = "len_a:len len_b:len len_c:len";
    str shared = with_names(&memory, sketch, plain), apart = with_names(&memory, sketch, names);
    t.q.sketch = str_copy_z(&memory, shared);
    t.truth = str_copy_z(&memory, apart);
    on_all(t);
    arena_done(&memory);
}

#define TWO_LENGTHS                                                                                \
    {                                                                                              \
        {"len", 70}, {"len_a", 70}, {"len_b", 70}, {"len_c", 70}, {"batch", 2}, {                  \
            "b_len", 3                                                                             \
        }                                                                                          \
    }

#define ENCODER(inputs, middle)                                                                    \
    "kernel k\nInput Q (q in len_a, d)\nInput K (kv in len_b, d)\nInput V (kv in len_b, "          \
    "dv)\n" inputs "Output O (q in len_a, dv)\nCopy Q from global to shared\nfor j = 0:len_b/BN\n" \
    "Copy K from global to shared\nCompute GEMM Q, K.T and get S\n" middle                         \
    "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"                      \
    "Copy O from register to global\n"

/* A tile of the queries is none of the keys, copied in the loop over the keys or not. */
static void queries_and_keys(void **state) {
    (void)state;
    static const char *const encoders[] = {
        ENCODER("Input w f32 (q in len_a)\n",
                "Copy w from global to register\nCompute Multiply S, w and get S\n"),
        ENCODER("Input w f32 (kv in len_b)\n",
                "Copy w from global to register\nCompute Multiply S, w and get S\n"),
        ENCODER("Input bias f32 (q in len_a, kv in len_b)\n",
                "Copy bias from global to register\nCompute Add S, bias and get S\n"
                "Compute Softmax S\n"),
        ENCODER("Input u f32 (q in len_a)\nInput w f32 (kv in len_b)\n",
                "Compute Add S, u[q] - w[kv] and get S\nCompute Mask S where kv > q\n"
                "Compute Softmax S\n"),
        ENCODER("Input G (i in len_a, kv in len_b)\nlet H (q in len_a, kv in len_b) = G[q, kv]\n",
                "Copy H from global to register and get h\nCompute Multiply S, h and get S\n"),
    };
    /* Blocks of one size hide a block of the wrong index; of two sizes, the axes differ. */
    static const char *const pins[][4] = {{"d=16", "dv=24", "BM=64", "BN=64"},
                                          {"d=16", "dv=24", "BM=64", "BN=16"}};
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++)
        for (int p = 0; p < 2; p++) {
            trial t = {.sizes = TWO_LENGTHS};
            memcpy(t.q.pins, pins[p], sizeof pins[p]);
            same_as(encoders[i], "", t);
        }
}

/* Both in an Output; three in a product of squares. */
static void square_tensors(void **state) {
    (void)state;
    same_as("kernel k\nInput Q (q in len_a, d)\nInput K (kv in len_b, d)\n"
            "Output S (q in len_a, kv in len_b)\nCopy Q from global to shared\n"
            "for j = 0:len_b/BN\nCopy K from global to shared\nCompute GEMM Q, K.T and get S\n"
            "Copy S from register to global\nend\n",
            "", (trial){.q = {.pins = {"d=16", "BM=64", "BN=32"}}, .sizes = TWO_LENGTHS});
    same_as("kernel k\nInput A (m in len_a, k in len_b)\nInput B (n in len_c, k in len_b)\n"
            "Output C (m in len_a, n in len_c)\nfor j = 0:len_b/BK\nCopy A from global to shared\n"
            "Copy B from global to shared\nCompute GEMM A, B.T and accumulate C\nend\n"
            "Copy C from register to global\n",
            "", (trial){.q = {.pins = {"BM=64", "BN=32", "BK=16"}}, .sizes = TWO_LENGTHS});
}

/* Loops in steps of one, and elements by their index. */
static void single_steps(void **state) {
    (void)state;
    static const char *const programs[] = {
        "kernel k\nInput Q (g in len_b; q in q_len, d)\nInput K (g in len_b; kv in b_len, d)\n"
        "Input W f32 (head in len_a, g in len_b)\nOutput A f32 (head in len_a; q in q_len, kv in "
        "b_len)\n"
        "for %s = 0:len_b\nCopy Q from global to shared\nCopy K from global to shared\n"
        "Compute GEMM Q, K.T and get S\nCompute Multiply S, W[head, %s] and accumulate A\nend\n"
        "Copy A from register to global\n",
    };
    arena memory;
    arena_init(&memory, 1 << 20);
    for (int named = 0; named < 2; named++) {
        str text = str_format(&memory, programs[0], named ? "g" : "i", "g");
        same_as(str_copy_z(&memory, text), "",
                (trial){.q = {.pins = {"d=16", "BM=64", "BN=32"}},
                        .sizes = {{"len", 3},
                                  {"len_a", 3},
                                  {"len_b", 3},
                                  {"len_c", 3},
                                  {"q_len", 35},
                                  {"b_len", 40}}});
        text = str_format(
            &memory,
            "kernel k\nInput H f32 (n in len_b; r in rows, c in cols)\n"
            "Output P f32 (m in len_a; r in rows, c in cols)\nfor %s = 0:len_b\n"
            "Copy H from global to register\nCompute Mask H, 0 where n >= m\n"
            "Compute Cast H and accumulate A\nend\nCopy A from register to global and get P\n",
            named ? "n" : "i");
        same_as(str_copy_z(&memory, text), "",
                (trial){.q = {.pins = {"BM=64", "BN=32"}},
                        .sizes = {{"len", 4},
                                  {"len_a", 4},
                                  {"len_b", 4},
                                  {"len_c", 4},
                                  {"rows", 33},
                                  {"cols", 40}}});
    }
    arena_done(&memory);
}

/* A bare axis is an index where the tile has it, and a length where it has not. */
static void bare_axes(void **state) {
    (void)state;
    static const char *const middles[] = {
        "Compute Subtract A, w[e] and get A\n",
        "Compute Multiply A, select(e < 7, 1, 0.5) and get A\n",
        "Compute Multiply A, exp(-0.1*e) and get A\n",
        "Compute Mask A, 0 where e > q\n",
        "Compute Add A, w[e] + W2[q, e]/d and get A\nCompute Multiply A, 1.0/d and get A\n",
        "Compute Fill u[e]*q and get B\nCompute Add A, B and get A\n",
        ("Copy u from global to register and get v\nCompute Add v, e*0.5 and get v\n"
         "Compute Multiply A, v and get A\n"),
    };
    arena memory;
    arena_init(&memory, 1 << 20);
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        static const char form[] = "kernel k\nInput Q (q in q_len, d)\nInput W (d, %s)\n"
                                   "Input w f32 (%s)\nInput W2 f32 (q in q_len, %s)\n"
                                   "let u (%s) = w[e]\nOutput Y (q in q_len, %s)\n"
                                   "Copy Q from global to shared\nCopy W from global to shared\n"
                                   "Compute GEMM Q, W and get A\n%s"
                                   "Copy A from register to global and get Y\n";
        static const char *const ways[] = {"e", "e in e_len"};
        const char *texts[2];
        for (int way = 0; way < 2; way++) {
            const char *e = ways[way];
            texts[way] = str_copy_z(&memory, str_format(&memory, form, e, e, e, e, e, middles[i]));
        }
        on_all((trial){.q = {.sketch = texts[0], .pins = {"d=40", "e=24", "BM=64"}},
                       .truth = texts[1],
                       .sizes = {{"q_len", 70}, {"e_len", 24}}});
    }
    arena_done(&memory);
}

/* Longer than a tile that the grid would have cut the axis into. */
static void whole_axes(void **state) {
    (void)state;
    on_all((trial){
        .q = {.sketch = "kernel k\nInput A (m in m_len, k in k_len)\n"
                        "Input B (n in n_len, k in k_len)\nOutput C (m in m_len, n in n_len)\n"
                        "for j = 0:k_len/BK\nCopy A from global to shared\n"
                        "Copy B from global to shared\nCompute GEMM A, B.T and accumulate C\nend\n"
                        "Compute RowMax C and get s\nCompute Subtract C, s and get C\n"
                        "Copy C from register to global\n",
              .pins = {"n_len=288", "BM=64", "BK=16", "warpgroups=0"}},
        .sizes = {{"m_len", 70}, {"n_len", 288}, {"k_len", 40}}});
    on_all((trial){.q = {.sketch = "kernel k\nInput X (r in rows, c in cols)\n"
                                   "Output Y (r in rows, c in cols)\n"
                                   "Copy X from global to register\nCompute RowSum X and get s\n"
                                   "Compute Subtract X, s and get X\n"
                                   "Copy X from register to global and get Y\n",
                         .pins = {"cols=320", "BM=64"}},
                   .sizes = {{"rows", 70}, {"cols", 320}}});
    on_all((trial){.q = {.sketch = "kernel k\nInput X (r in rows, c in cols)\n"
                                   "Input W (c in cols, e)\nOutput Y (r in rows, c in cols)\n"
                                   "Output Z (r in rows, e)\nCopy X from global to shared\n"
                                   "Copy W from global to shared\nCompute GEMM X, W and get Z\n"
                                   "Copy X from global to register and get T\n"
                                   "Copy T from register to global and get Y\n"
                                   "Copy Z from register to global\n",
                         .pins = {"cols=320", "e=16", "BM=64", "warpgroups=0"}},
                   .sizes = {{"rows", 70}, {"cols", 320}}});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_and_keys), cmocka_unit_test(square_tensors),
        cmocka_unit_test(single_steps),     cmocka_unit_test(bare_axes),
        cmocka_unit_test(whole_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
