/* The reasoner: every shipped sketch becomes TL Code in which the checks find nothing open, on
 * every GPU, and each pass leaves text that reads back the same.
 */
#include "reason_case.h"
#include "sample.h"

static bool has(const answer *a, const char *part) {
    return a->text.length > 0 && strstr(str_copy_z((arena *)&a->memory, a->text), part) != NULL;
}

/* The text reads back, prints the same, and the checks find nothing in it. */
static void complete(const request *q) {
    if (!sample_takes()) return;
    answer a;
    ask(q, &a);
    if (!a.result.program) show(&a.diags, STR(""));
    assert_non_null(a.result.program);
    diag_list diags;
    diag_init(&diags, &a.memory, STR("code"), a.text);
    tl_program *code = tl_parse(&a.memory, STR("code"), a.text, &diags);
    gpu target;
    diag_list problems;
    assert_true(gpu_find(&a.memory, str_from(q->gpu), &target, &problems));
    bool is_good = !diag_has_errors(&diags) && tl_bind(code, &diags);
    for (tl_kernel *k = code->first; k && is_good; k = k->next) {
        check_facts facts;
        is_good = check_code(k, &target, &a.memory, &diags, &facts);
    }
    if (!is_good) {
        fprintf(stderr, "%s on %s\n", q->sketch, q->gpu);
        show(&diags, a.text);
    }
    assert_true(is_good);
    text_buffer again;
    text_init(&again, 1 << 20);
    tl_print(code, &again);
    assert_true(str_equal(text_str(&again), a.text));
    text_done(&again);
    done(&a);
}

static const char *const gpus[] = {"t4", "a100", "l40s", "h200"};

static void everywhere(request q) {
    for (int g = 0; g < 4; g++)
        for (int t = 0; t < 2; t++) {
            q.gpu = gpus[g];
            q.dtype = t == 0 ? TL_F16 : TL_BF16;
            if (t == 0 || g > 0) complete(&q);
        }
}

/* --- completeness ----------------------------------------------------------------------------- */

static void attention_is_complete(void **state) {
    (void)state;
    static const char *const options[][CHOICES_MAX] = {
        {NULL},
        {"causal", NULL},
        {"causal", "window=100", NULL},
        {"window=64", "lse", NULL},
        {"softcap=30", "alibi", "causal", NULL},
        {"causal", "lse", "alibi", NULL},
        {"softcap=50", "lse", "window=4096", "causal", NULL},
    };
    static const char *const lengths[][3] = {
        {"d=64", "dv=64", NULL}, {"d=128", "dv=128", NULL}, {"d=192", "dv=128", NULL}};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            request q = {.sketch = "sketches/attention"};
            memcpy(q.options, options[o], sizeof q.options);
            memcpy(q.pins, lengths[l], sizeof lengths[l]);
            everywhere(q);
        }
}

static void head_lengths_are_complete(void **state) {
    (void)state;
    static const char *const lengths[][3] = {{"d=16", "dv=16", NULL},  {"d=24", "dv=40", NULL},
                                             {"d=80", "dv=80", NULL},  {"d=96", "dv=96", NULL},
                                             {"d=256", "dv=16", NULL}, {"d=256", "dv=256", NULL},
                                             {"d=72", "dv=200", NULL}};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        request q = {.sketch = "sketches/attention", .options = {"causal"}};
        memcpy(q.pins, lengths[l], sizeof lengths[l]);
        everywhere(q);
    }
}

static void other_programs_are_complete(void **state) {
    (void)state;
    everywhere((request){.sketch = "sketches/gemm_bias_gelu"});
    everywhere((request){.sketch = "sketches/chained_gemms", .pins = {"k=64", "e=128"}});
    everywhere((request){.sketch = "sketches/row_softmax"});
    everywhere((request){.sketch = "sketches/attention_decode", .pins = {"d=128", "dv=128"}});
    everywhere((request){.sketch = "sketches/attention_decode",
                         .options = {"causal", "page_len=64", "lse"},
                         .pins = {"d=64", "dv=64"}});
    everywhere((request){.sketch = "tests/exec/odd/gemm_row_scale"});
    everywhere(
        (request){.sketch = "tests/exec/odd/relu_squared_window", .pins = {"d=64", "dv=64"}});
    everywhere(
        (request){.sketch = "tests/exec/odd/sigmoid_attention", .pins = {"d=128", "dv=128"}});
}

/* Rows that no product shares: their values stand in as many lanes as a row has pieces of 16 bytes.
 */
static void rows_are_complete(void **state) {
    (void)state;
#define ROWS(type) "kernel rows\nInput X " type " (row in row_len, column in column_len)\n"
#define WALK(body)                                                                                 \
    "for i = 0:column_len/BN\n    Copy X from global to register and get S\n" body "end\n"
    static const char *const sketches[] = {
        ROWS("f16") "Output r f32 (row in row_len)\n" WALK(
            "Compute RowSum S and accumulate r\n") "Copy r from register to global\n",
        ROWS("f32") "Output r f32 (row in row_len)\nCompute Fill -1e30 and get top\n" WALK(
            "Compute RowMax S and accumulate top\n")
            WALK("Compute Subtract S, top and get S\nCompute Exp S and get S\n"
                 "Compute RowSum S and accumulate r\n") "Copy r from register to global\n",
        ROWS("f16") "Output r f32 (row in row_len)\n" WALK("Compute RowSum S and accumulate mean\n")
            WALK("Compute Subtract S, mean and get S\nCompute Multiply S, S and get S\n"
                 "Compute RowSum S and accumulate r\n") "Copy r from register to global\n",
        ROWS("f16") "Output Y f32 (row in row_len, column in column_len)\n" WALK(
            "Copy S from register to global and get Y\n"),
    };
    for (size_t i = 0; i < sizeof sketches / sizeof *sketches; i++)
        everywhere((request){.sketch = sketches[i]});
}

static void pins_are_respected(void **state) {
    (void)state;
    answer a;
    request q = {.sketch = "sketches/attention",
                 .options = {"causal"},
                 .pins = {"d=64", "dv=64", "BM=64", "BN=32", "stages=3", "Q_in_registers=1"},
                 .gpu = "a100"};
    ask(&q, &a);
    assert_non_null(a.result.program);
    assert_true(has(&a, "let d = 64, dv = 64, BM = 64, BN = 32"));
    assert_true(has(&a, "stages 3"));
    assert_true(has(&a, "j + 2 < blocks"));
    assert_true(has(&a, "Copy Q from shared to register by ldmatrix"));
    done(&a);
    complete(&q);
}

/* --- single passes ---------------------------------------------------------------------------- */

#define ATTENTION(middle)                                                                          \
    "kernel k\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\nInput V (kv in kv_len, dv)\n"   \
    "Input scale f32 where scale > 0\nOutput O (q in q_len, dv)\nCopy Q from global to shared\n"   \
    "for j = 0:kv_len/BN\nCopy K from global to shared\nCompute GEMM Q, K.T and get S\n" middle    \
    "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"                      \
    "Copy O from register to global\n"

static void after(const char *sketch, const char *pass, const char *part, bool wanted) {
    answer a;
    request q = {.sketch = sketch, .pins = {"d=64", "dv=64"}, .gpu = "a100", .stop_after = pass};
    ask(&q, &a);
    if (!a.result.program || has(&a, part) != wanted) {
        fprintf(stderr, "%s: after %s\n", part, pass);
        show(&a.diags, a.text);
    }
    assert_non_null(a.result.program);
    assert_int_equal(has(&a, part), wanted);
    done(&a);
}

static void bind_places_tiles(void **state) {
    (void)state;
    const char *sketch = ATTENTION("Compute Mask S where kv > q\n");
    after(sketch, "bind", "grid q_block in q_len/BM", true);
    after(sketch, "bind", "Copy K (BN, d) in coordinate [L = j] from global", true);
    after(sketch, "bind", "Mask S in coordinate [L = q_block, L = j] where kv > q", true);
    after(sketch, "bind", "Compute Fill 0 and get O", true);
    after(sketch, "bind", "Input  Q f16", true);
}

/* A loaded tile keeps its 16 bits as long as nothing is put there that they do not hold. */
static void mask_values_have_room(void **state) {
    (void)state;
    static const struct {
        const char *value;
        bool fits;
    } rows[] = {{"", true},          {", 0", true},    {", 7", true}, {", 1.442695", false},
                {", 100000", false}, {", fill", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sketch[512];
        snprintf(sketch, sizeof sketch,
                 "kernel rows\nInput X f16 (row in row_len, column in column_len)\nInput fill f32\n"
                 "Output r f32 (row in row_len)\nfor i = 0:column_len/BN\n"
                 "Copy X from global to register and get S\n"
                 "Compute Mask S%s where column > row\nCompute RowSum S and accumulate r\nend\n"
                 "Copy r from register to global\n",
                 rows[i].value);
        after(sketch, "place", "in register f32 (BM, BN)", !rows[i].fits);
    }
}

static void softmax_is_online_where_allowed(void **state) {
    (void)state;
    after(ATTENTION("Compute Softmax S\n"), "online", "Compute Multiply O, alpha and get O", true);
    /* A square of the scores is not linear in them: two walks. */
    after(ATTENTION("Compute Softmax S\nCompute Multiply S, S and get S\n"), "online",
          "Compute Multiply O, alpha and get O", false);
    after(ATTENTION("Compute Softmax S\nCompute Multiply S, S and get S\n"), "online",
          "Compute Multiply S, inverse and get S", true);
}

static void scales_sink_where_positive(void **state) {
    (void)state;
    after(ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n"), "fold",
          "let c = scale*1.44269504", true);
    after(ATTENTION("Compute Multiply S, -scale and get S\nCompute Softmax S\n"), "fold",
          "Compute Multiply S, -scale and get S", true);
    after(ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n"), "fold",
          "Compute Multiply S, scale and get S", false);
    after(ATTENTION("Compute Multiply S, 2 and get S\nCompute Add S, 1 and get S\n"), "fold",
          "Compute MultiplyAdd S, 2, 1 and get S", true);
}

static void ends_are_masked_where_it_matters(void **state) {
    (void)state;
    /* Softmax needs it; finite scores meet zeros of V; a causal mask covers the end already. */
    after(ATTENTION("Compute Softmax S\n"), "tile", "where kv >= kv_len", true);
    after(ATTENTION(""), "tile", "Mask", false);
    after(ATTENTION("Compute Exp S and get S\n"), "tile", "Mask", false);
    after(ATTENTION("Compute Log S and get S\n"), "tile", "Mask S, 0", true);
    after(ATTENTION("Compute Mask S where kv > q + kv_len - q_len\nCompute Softmax S\n"), "tile",
          "kv >= kv_len", false);
    after(ATTENTION("Compute Mask S where kv > q\nCompute Softmax S\n"), "tile", "or kv >= kv_len",
          true);
}

static void empty_blocks_leave_the_loop(void **state) {
    (void)state;
    const char *causal =
        ATTENTION("Compute Mask S where kv > q + kv_len - q_len\nCompute Softmax S\n");
    after(causal, "tile", "max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))", true);
    after(causal, "tile", "floor(min(kv_len, q_block*BM + offset + 1)/BN)", true);
    const char *window =
        ATTENTION("Compute Mask S where kv <= q - 100 or kv > q\nCompute Softmax S\n");
    after(window, "tile", "max(0, floor((q_block*BM - 99)/BN))", true);
    after(window, "tile", "for j = first:blocks", true);
    /* Scores of masked blocks that are not neutral have to be computed. */
    after(ATTENTION("Compute Mask S, 1 where kv > q\n"), "tile", "ceil(min(kv_len", false);
}

static void refused(const char *sketch, const char *gpu_name, tl_type dtype, const char *pin,
                    const char *message) {
    answer a;
    request q = {.sketch = sketch, .pins = {"d=64", "dv=64", pin}, .gpu = gpu_name, .dtype = dtype};
    ask(&q, &a);
    assert_null(a.result.program);
    assert_int_equal(a.diags.error_count, 1);
    if (!strstr(str_copy_z(&a.memory, a.diags.first->message), message)) show(&a.diags, STR(""));
    assert_non_null(strstr(str_copy_z(&a.memory, a.diags.first->message), message));
    done(&a);
}

#define LOOKS "the loop itself reads the maximum, the denominator or the sums"
#define STANDARD(middle)                                                                           \
    "kernel k\nlet BN = 64\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\n"                  \
    "Input V (kv in kv_len, dv)\nInput c f32 where c > 0\nOutput O (q in q_len, dv)\n"             \
    "Output W f32 (q in q_len)\nCopy Q from global to shared\nCompute Fill -1e30 and get m\n"      \
    "Compute Fill 0 and get l\nCompute Fill 0 and get W\nCompute Fill 0 and get O\n"               \
    "for j = 0:kv_len/BN\nCopy K from global to shared\nCompute GEMM Q, K.T and get S\n"           \
    "Compute Cast m and get m_old\nCompute RowMax S and accumulate m\n"                            \
    "Compute Subtract m_old, m and get alpha\nCompute Multiply alpha, c and get alpha\n"           \
    "Compute Exp2 alpha and get alpha\nCompute Multiply m, -c and get shift\n"                     \
    "Compute MultiplyAdd S, c, shift and get S\nCompute Exp2 S and get S\n"                        \
    "Compute Multiply l, alpha and get l\nCompute RowSum S and accumulate l\n"                     \
    "Compute Multiply O, alpha and get O\n" middle                                                 \
    "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"                      \
    "Compute Reciprocal l and get l\nCompute Multiply O, l and get O\n"                            \
    "Copy O from register to global\nCopy W from register to global\n"

/* What is masked with minus infinity goes on through functions: where it ends as no neutral
 * element, it is masked again, as the checks want it.
 */
static void masked_elements_are_followed(void **state) {
    (void)state;
    static const char *const sketches[] = {
        ATTENTION("Compute Mask S where kv > q\nCompute Tanh S and get S\n"
                  "Compute Add S, 0.25 and get S\nCompute Max S, 0 and get S\n"),
        ATTENTION("Compute Mask S where kv > q\nCompute Multiply S, S and get S\n"
                  "Compute Tanh S and get S\nCompute Add S, 0.01 and get S\n"),
        ATTENTION(
            "Compute Mask S where kv > q\nCompute Abs S and get S\nCompute Min S, 2 and get S\n")};
    for (size_t i = 0; i < sizeof sketches / sizeof *sketches; i++) {
        request q = {.sketch = sketches[i], .pins = {"d=64", "dv=64"}};
        everywhere(q);
    }
}

static void maximum_is_guarded_where_it_may(void **state) {
    (void)state;
    const char *plain = ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n");
    after(plain, "guard", "if any(not part < 32768)", true);
    after(plain, "guard", "if j == 0", true);
    after(plain, "place", "any(", false);
    /* A sink starts the denominator at 1: then the first block rescales it. */
    const char *sink =
        "kernel k\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\nInput V (kv in kv_len, dv)\n"
        "Output O (q in q_len, dv)\nCopy Q from global to shared\nCompute Fill 0 and get m\n"
        "Compute Fill 1 and get l\nfor j = 0:kv_len/BN\nCopy K from global to shared\n"
        "Compute GEMM Q, K.T and get S\nCompute Softmax S with m and l\n"
        "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"
        "Copy O from register to global\n";
    after(sink, "guard", "any(", false);
    refused(sink, "a100", TL_F16, "guard=1", "the denominator does not start at 0");
    request q = {.sketch = sink, .pins = {"d=64", "dv=64"}};
    everywhere(q);
    /* The standard form, written out: its denominator is another after a guard. */
    refused(STANDARD("Compute Max W, l and get W\n"), "a100", TL_F16, "guard=1", LOOKS);
    refused(STANDARD("Compute Max W, l and get W\n"), "h200", TL_F16, "guard=1", LOOKS);
    refused(STANDARD("Compute Add W, alpha and get W\n"), "a100", TL_F16, "guard=1",
            "otherwise, too");
    refused(STANDARD("Compute RowSum O and accumulate W\n"), "a100", TL_F16, "guard=1", LOOKS);
    after(STANDARD(""), "guard", "if any(not part < 32768)", true);
}

/* A value of rows that a tile's end reads is set aside, where the next tile begins before: under
 * all of its names, and it leaves for the Output that it was.
 */
static void values_are_set_aside_by_all_names(void **state) {
    (void)state;
    const char *sketch =
        "kernel k\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\nInput V (kv in kv_len, dv)\n"
        "Output O (q in q_len, dv)\nOutput W f32 (q in q_len)\nCopy Q from global to shared\n"
        "Compute Fill 1 and get W\nfor j = 0:kv_len/BN\nCopy K from global to shared\n"
        "Compute GEMM Q, K.T and get S\nCompute Multiply S, S and get S\n"
        "Compute RowSum S and accumulate W\nCopy V from global to shared\n"
        "Compute GEMM S, V and accumulate O\nend\nCompute Log W and get W\n"
        "Copy O from register to global\nCopy W from register to global\n";
    request q = {.sketch = sketch, .pins = {"d=64", "dv=64"}};
    everywhere(q);
    answer a;
    q.gpu = "h200";
    ask(&q, &a);
    assert_non_null(a.result.program);
    assert_true(has(&a, "Compute Log W_end and get W_end"));
    assert_true(has(&a, "from register to global and get W"));
    done(&a);
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* With 8 bits of significand one weight's rounding would be seen. By warpgroups the denominator
 * adds weights as rounded as the product takes them: all, where products take as long as elements,
 * where the left operand has two places, and where scores saturate, whose weights all round alike;
 * else from the first block on that may outweigh all before it. Where the denominator's logarithm
 * is wanted, it is that of a second sum, of weights as they are. By warps alone no block outweighs
 * all before it unless it has its own maximum; scores that saturate keep the standard form there.
 */
static void coarse_weights_stay_near_the_maximum(void **state) {
    (void)state;
    const char *plain = ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n");
    const char *flat = ATTENTION("Compute Tanh S and get S\nCompute Softmax S\n");
    static const char near[] = "any(not part < room)", far[] = "any(not part < 32768)";
    static const char next[] = "let hard = any(not part < 65000)"; /* or the block past this one */
    static const char rounded[] = "any(not part < 9e18)", again[] = "if not rough";
    static const char narrow[] = ATTENTION("Compute Multiply S, scale and get S\n"
                                           "Compute Softmax S\n");
    static const char wanted[] = "the logarithm, too", exact[] = "Compute Log l_exact_end";
    const struct {
        const char *sketch, *gpu;
        tl_type dtype;
        const char *pin, *vote; /* NULL: none */
    } cases[] = {{plain, "a100", TL_BF16, NULL, near},
                 {plain, "l40s", TL_BF16, "peel=0", near},
                 {plain, "h200", TL_BF16, NULL, rounded},
                 {plain, "h200", TL_BF16, "nominal_length=512", rounded},
                 {plain, "h200", TL_BF16, "rounded_sums=0", near}, /* two places */
                 {wanted, "h200", TL_BF16, NULL, rounded},
                 {wanted, "h200", TL_BF16, "warpgroups=3", near}, /* no registers for two sums */
                 {wanted, "h200", TL_BF16, "rounded_sums=0", near},
                 {wanted, "h200", TL_F16, NULL, next},
                 {wanted, "a100", TL_BF16, NULL, near},
                 {narrow, "h200", TL_BF16, NULL, again},
                 {narrow, "h200", TL_BF16, "casts=2", rounded},
                 {narrow, "h200", TL_BF16, "peel=0", rounded},
                 {narrow, "h200", TL_BF16, "rounded_sums=1", rounded},
                 {narrow, "h200", TL_BF16, "near_maximum=0", next},
                 {narrow, "h200", TL_F16, NULL, next},
                 {narrow, "h200", TL_F16, "eager=0", far},
                 {flat, "h200", TL_BF16, NULL, rounded},
                 {plain, "a100", TL_BF16, "near_maximum=0", far},
                 {plain, "a100", TL_F16, NULL, far},
                 {plain, "h200", TL_F16, NULL, next},
                 {plain, "t4", TL_F16, "near_maximum=1", near},
                 {flat, "a100", TL_BF16, NULL, NULL},
                 {flat, "a100", TL_F16, NULL, far}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer a;
        request q = {.sketch = cases[i].sketch,
                     .gpu = cases[i].gpu,
                     .dtype = cases[i].dtype,
                     .pins = {"d=128", "dv=128", cases[i].pin}};
        if (cases[i].sketch == narrow) q.pins[0] = "d=64", q.pins[1] = "dv=64";
        bool is_again = cases[i].vote == again, is_wanted = cases[i].sketch == wanted;
        if (is_wanted) {
            q.sketch = "sketches/attention";
            q.options[0] = "lse";
        }
        ask(&q, &a);
        assert_non_null(a.result.program);
        const char *text = str_copy_z(&a.memory, a.text);
        bool is_exact = is_wanted && cases[i].vote == rounded;
        assert_int_equal(strstr(text, exact) != NULL, is_exact);
        assert_int_equal(strstr(text, ", -32 and get shift") != NULL,
                         (is_again || cases[i].vote == rounded) && !is_exact);
        assert_int_equal(strstr(text, again) != NULL, is_again);
        assert_int_equal(strstr(text, near) != NULL, cases[i].vote == near || is_again);
        assert_int_equal(strstr(text, rounded) != NULL, cases[i].vote == rounded || is_again);
        assert_int_equal(strstr(text, far) != NULL, cases[i].vote == far);
        assert_int_equal(strstr(text, next) != NULL, cases[i].vote == next);
        assert_null(cases[i].vote == near ? strstr(text, "where kv >= 32") : NULL);
        done(&a);
    }
    refused(flat, "a100", TL_BF16, "guard=1", "weights would round alike");
}

/* After a far move the next block moves the maximum at once: by warpgroups, where a tile has more
 * than a few blocks, or as pinned. The vote stands where products run already, and in no role but
 * the one that votes.
 */
static void far_moves_are_expected_again(void **state) {
    (void)state;
    const char *plain = ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n");
    static const struct {
        const char *gpu, *pins[3];
        bool is_kept;  /* by a let, to be taken early */
        bool is_apart; /* the sums wait for a product */
        int votes;
        const char *first; /* what the first block's maximum is taken over */
    } cases[] = {
        {"h200", {"d=128", "dv=128"}, true, true, 1, "S"},
        {"h200", {"d=128", "dv=128", "eager=0"}, true, true, 0, "S"},
        {"h200", {"d=128", "dv=128", "casts=1"}, true, false, 1, "S"},
        {"h200", {"d=128", "dv=128", "first_columns=16"}, true, true, 1, "T where kv >= 16"},
        {"h200", {"d=128", "dv=128", "first_columns=48"}, true, true, 1, "S"}, /* not few */
        {"h200", {"d=128", "dv=128", "nominal_length=1024"}, true, true, 1, "S"},
        {"h200", {"d=128", "dv=128", "nominal_length=512"}, true, true, 0, "T where kv >= 32"},
        {"h200", {"d=64", "dv=64", "nominal_length=512"}, true, false, 0, "S"},
        {"a100", {"d=64", "dv=64"}, false, false, 0, "S"},
        {"a100", {"d=64", "dv=64", "eager=1"}, false, false, 2, "S"}}; /* split: two loops */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer a;
        request q = {.sketch = plain, .gpu = cases[i].gpu, .dtype = TL_F16};
        for (int k = 0; k < 3; k++) q.pins[k] = cases[i].pins[k];
        ask(&q, &a);
        assert_non_null(a.result.program);
        const char *text = str_copy_z(&a.memory, a.text);
        const char *expected = cases[i].is_kept ? "any(alpha < 3e-5)" : "any(alpha < 0.0625)";
        const char *vote = strstr(text, expected);
        assert_int_equal(occurrences(text, expected), cases[i].votes);
        /* What reaches far up leaves the move to the block past it; its own sums still meet their
         * factor, which is 1 where nothing has moved. */
        bool foresees = vote && cases[i].is_kept;
        assert_int_equal(occurrences(text, "Compute Fill 0 and get alpha"), foresees);
        assert_int_equal(foresees && cases[i].is_apart, strstr(text, "if not eager") != NULL);
        assert_int_equal(vote && occurrences(text, "let eager = "), vote && cases[i].is_kept);
        assert_int_equal(vote && cases[i].is_apart, strstr(text, "if eager or slow") != NULL);
        const char *maximum = strstr(text, "Compute RowMax ");
        assert_int_equal(maximum[strlen("Compute RowMax ")], cases[i].first[0]);
        assert_true(cases[i].first[0] == 'S' || strstr(text, cases[i].first + 2));
        if (vote && cases[i].is_kept) {
            const char *math = strstr(text, "role math"), *head = vote;
            while (strncmp(head, "Compute GEMM", 12) != 0) head--; /* the one before */
            assert_true(math < vote && strstr(head, "Wait S ") > vote);
        }
        done(&a);
    }
}

static void shared_slots(const char *const *pins, const char *part, bool wanted) {
    answer a;
    request q = {.sketch = "sketches/attention", .options = {"causal"}, .gpu = "a100"};
    for (int i = 0; i < PINS_MAX && pins[i]; i++) q.pins[i] = pins[i];
    ask(&q, &a);
    assert_non_null(a.result.program);
    if (has(&a, part) != wanted) show(&a.diags, a.text);
    assert_int_equal(has(&a, part), wanted);
    done(&a);
    complete(&q);
}

static void tiles_take_turns_in_a_ring(void **state) {
    (void)state;
    static const char three[] = "stages 3 by mbarrier", four[] = "stages 4 by mbarrier";
#define PINS(...) ((const char *const[]){__VA_ARGS__, NULL})
    shared_slots(PINS("d=128", "dv=128"), three, true);
    shared_slots(PINS("d=128", "dv=128"), "kv in kv_len, column in dv)", true);
    shared_slots(PINS("d=128", "dv=128", "ring=0"), "mbarrier", false);
    /* Where both have two slots it has to be wished for; so it has where rows are uneven. */
    shared_slots(PINS("d=64", "dv=64"), "mbarrier", false);
    shared_slots(PINS("d=64", "dv=64", "ring=1"), four, true);
    shared_slots(PINS("d=120", "dv=120", "V_stages=1", "K_stages=2"), "mbarrier", false);
    shared_slots(PINS("d=120", "dv=120", "V_stages=1", "K_stages=2", "ring=1"), three, true);
    /* Tiles of two shapes have none, whatever is wished. */
    shared_slots(PINS("d=192", "dv=128", "ring=1"), "mbarrier", false);
    /* No test stands around the copies of the main loop, and they start after its product. */
    shared_slots(PINS("d=128", "dv=128"),
                 "        Compute GEMM Q_shared, KV.T and get S by m16n8k16\n"
                 "        Copy K (BN, d) in coordinate [b, head/group, L = j + 1]",
                 true);
#undef PINS
}

/* The class that an H200 gets, and the reason where it is the other one. */
static void class_is(const char *sketch, const char *const *pins, bool is_warpgroups,
                     const char *why) {
    answer a;
    request q = {.sketch = sketch, .gpu = "h200", .dtype = TL_F16};
    for (int i = 0; i < PINS_MAX && pins[i]; i++) q.pins[i] = pins[i];
    ask(&q, &a);
    assert_non_null(a.result.program);
    bool has_role = strstr(str_copy_z(&a.memory, a.text), "role load with 1 warp") != NULL;
    bool is_told = why == NULL;
    for (int i = 0; i < a.result.decision_count && !is_told; i++)
        is_told = str_is(a.result.decisions[i].subject, "class") &&
                  strstr(str_copy_z(&a.memory, a.result.decisions[i].sentence), why) != NULL;
    if (has_role != is_warpgroups || !is_told) show(&a.diags, a.text);
    assert_int_equal(has_role, is_warpgroups);
    assert_true(is_told);
    done(&a);
}

static const char paged[] =
    "kernel k\nInput Q (q in q_len, d)\nInput table i32 (n in pages)\n"
    "Input P (page in all_pages; slot in page_len, d)\nlet kv_len = page_len*pages\n"
    "let K (kv in kv_len, d) = P[table[kv/page_len], kv % page_len, d]\n"
    "Output O (q in q_len, d)\nCopy Q from global to shared\nfor j = 0:kv_len/BN\n"
    "Copy K from global to shared\nCompute GEMM Q, K.T and get S\nCompute Softmax S\n"
    "Compute GEMM S, K and accumulate O\nend\nCopy O from register to global\n";

static void warpgroups_compute_where_they_may(void **state) {
    (void)state;
    const char *plain = ATTENTION("Compute Multiply S, scale and get S\nCompute Softmax S\n");
    class_is(plain, (const char *const[]){"d=64", "dv=64", NULL}, true, NULL);
    class_is(plain, (const char *const[]){"d=128", "dv=64", "BN=64", NULL}, true, NULL);
    class_is(plain, (const char *const[]){"d=40", "dv=40", NULL}, true, NULL);
    class_is(plain, (const char *const[]){"d=64", "dv=64", "BM=256", NULL}, false, "64 rows");
    class_is(plain, (const char *const[]){"d=64", "dv=64", "warpgroups=0", NULL}, false, NULL);
    class_is(plain, (const char *const[]){"d=64", "dv=64", "warps=4", NULL}, false, NULL);
    /* Pages are boxes where their length is known and no fraction of 8 rows. */
    class_is(paged, (const char *const[]){"d=64", "page_len=64", NULL}, true, NULL);
    class_is(paged, (const char *const[]){"d=64", "page_len=16", NULL}, true, NULL);
    class_is(paged, (const char *const[]){"d=64", "page_len=48", "BN=96", NULL}, true, NULL);
    class_is(paged, (const char *const[]){"d=64", "page_len=12", NULL}, false, "K is a view");
    class_is(paged, (const char *const[]){"d=64", NULL}, false, "a known multiple of 8");
    refused(plain, "h200", TL_F16, "warpgroups=4", "1 to 3 warpgroups can compute, not 4");
    refused(plain, "a100", TL_F16, "warpgroups=2", "the GPU has no wgmma");
}

static void what_cannot_be_is_said(void **state) {
    (void)state;
    refused(ATTENTION(""), "t4", TL_BF16, NULL, "has no products of bf16");
    refused(ATTENTION(""), "t4", TL_F16, "BM=1024", "does not fit");
    refused(ATTENTION("Allocate P in register f16 (BM, BN) as mma_C\n"), "a100", TL_F16, NULL,
            "take out this Allocate");
    refused(ATTENTION(""), "a100", TL_F16, "stages=9", "stages");
    refused(ATTENTION(""), "a100", TL_F16, "BN=many", "is no number");
    refused(ATTENTION(""), "a100", TL_F16, "BNN=64",
            "has no length, scalar, tile size or decision 'BNN'; did you mean 'BN', 'BM' or 'd'?");
    refused(ATTENTION(""), "a100", TL_F16, "X_stages=2",
            "decision 'X_stages'; did you mean 'stages', ");
    refused("kernel k\nInput A (m in rows, k in inner)\nOutput C (m in rows, k in inner)\n"
            "Copy A from global to shared\n",
            "a100", TL_F16, NULL, "copies nothing to global");
    refused("kernel k\n", "a100", TL_F16, NULL, "kernel k does nothing");
    refused("kernel k\nlet n = 3\nInput Q (q in q_len, d)\n", "a100", TL_F16, NULL,
            "kernel k does nothing");
}

/* A pin can make a divisor 0, in whatever stands there. */
static void pins_divide_by_something(void **state) {
    (void)state;
    static const char *const divided[][2] = {
        {"group=0", "'head/group' divides by 0: 'group' is 0 here"},
        {"BN=0", "'kv_len/BN' divides by 0"},
        {"page=0", "'kv/page' divides by 0"},
        {"rest=0", "'kv_len % (rest + rest)' divides by 0"},
        {"far=0", "'(kv + 1)/far' divides by 0"},
    };
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++)
        refused("kernel k\nlet group = q_heads/kv_heads, page = 16, rest = 3, far = 7\n"
                "Input Q (head in q_heads; q in q_len, d) where kv_len % (rest + rest) == 0\n"
                "Input table i32 (n in pages)\nInput P (p in all, s in 16, d)\n"
                "Input V (head/group in kv_heads; kv in kv_len, dv)\n"
                "let K (kv in kv_len, d) = P[table[kv/page], kv % page, d]\n"
                "Output O (head in q_heads; q in q_len, dv)\nCopy Q from global to shared\n"
                "for j = 0:kv_len/BN\nCopy K from global to shared\n"
                "Compute GEMM Q, K.T and get S\nCompute Mask S where (kv + 1)/far > q\n"
                "Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n"
                "Copy O from register to global\n",
                "a100", TL_F16, divided[i][0], divided[i][1]);
}

/* What lengths usually are decides sizes, also through lets and sums; it is no part of the code. */
static void usual_lengths_decide_sizes(void **state) {
    (void)state;
#define GROUPS(lets)                                                                               \
    "kernel k\n" lets "let group = 4, rows = group*q_len\n"                                        \
    "Input Q (h in heads, g in group; q in q_len, d)\nInput K (h in heads; kv in kv_len, d)\n"     \
    "Output O f32 (h in heads, g in group; q in q_len, d)\n"                                       \
    "let X (h in heads; r in rows, d) = Q[h, r % group, r/group, d]\n"                             \
    "let Y (h in heads; r in rows, d) = O[h, r % group, r/group, d]\n"                             \
    "Copy X from global to shared\nfor j = 0:kv_len/BN\nCopy K from global to shared\n"            \
    "Compute GEMM X, K.T and get S\nCompute Softmax S\nCompute GEMM S, K and accumulate Y\nend\n"  \
    "Copy Y from register to global\n"
    static const struct {
        const char *sketch, *pin;
        bool is_few;
    } cases[] = {
        {GROUPS(""), NULL, false},
        {GROUPS(""), "nominal_q_len=1", true},
        {GROUPS(""), "nominal_rows=8", true},
        {GROUPS(""), "nominal_q_len=512", false},
        {GROUPS(""), "nominal_length=8", true},
        {GROUPS("let nominal_q_len = 2\n"), NULL, true},
        {GROUPS("let nominal_q_len = 2\n"), "nominal_q_len=512", false},
        {GROUPS(""), "nominal_kv_len=1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer a;
        request q = {.sketch = cases[i].sketch,
                     .gpu = "a100",
                     .dtype = TL_F16,
                     .pins = {"d=64", cases[i].pin}};
        ask(&q, &a);
        if (!a.result.program) show(&a.diags, STR(""));
        assert_non_null(a.result.program);
        assert_int_equal(has(&a, "BM = 16"), cases[i].is_few);
        assert_int_equal(has(&a, "role math with 1 warp "), cases[i].is_few);
        assert_false(has(&a, "nominal"));
        done(&a);
    }
    refused(GROUPS(""), "a100", TL_F16, "nominal_queries=1", "decision 'nominal_queries'");
#undef GROUPS
}

/* What `explain` says of how many blocks share a loop: the second column, or NULL. */
static const reason_column *shares_of(const answer *a) {
    for (int i = 0; i < a->result.decision_count; i++) {
        const reason_decision *d = &a->result.decisions[i];
        if (str_is(d->subject, "blocks that share a loop"))
            return &d->tables.items[0].columns.items[1];
    }
    return NULL;
}

static int64_t cell(const reason_column *column, int row) {
    int64_t value = 0;
    assert_true(str_to_integer(column->cells[row], &value));
    return value;
}

/* The more tiles there are, the fewer blocks share one's loop; the longer the loop, the more do;
 * and a GPU with fewer multiprocessors needs fewer. The code does not depend on it.
 */
static void blocks_share_long_loops(void **state) {
    (void)state;
    enum { FEW = 1, ROWS = 6 };
    static const char *const gpus_small_first[] = {"t4", "h200"};
    int64_t found[2][2];
    for (int g = 0; g < 2; g++)
        for (int length = 0; length < 2; length++) {
            answer a;
            request q = {.sketch = "sketches/attention_decode",
                         .gpu = gpus_small_first[g],
                         .dtype = TL_F16,
                         .pins = {"d=128", "dv=128",
                                  length ? "nominal_kv_len=65536" : "nominal_kv_len=2048"}};
            ask(&q, &a);
            const reason_column *splits = shares_of(&a);
            assert_non_null(splits);
            assert_true(str_is(splits->name, "splits"));
            for (int i = 1; i < ROWS; i++) assert_true(cell(splits, i) <= cell(splits, i - 1));
            assert_true(cell(splits, FEW) > 1 && cell(splits, ROWS - 1) <= 8);
            assert_false(has(&a, "nominal"));
            found[g][length] = cell(splits, FEW);
            done(&a);
        }
    assert_true(found[0][0] <= found[0][1] && found[1][0] <= found[1][1]);
    assert_true(found[0][1] < found[1][1]);
    answer a;
    request whole = {.sketch = "sketches/attention",
                     .gpu = "h200",
                     .dtype = TL_F16,
                     .pins = {"d=128", "dv=128", "nominal_q_len=1"}};
    ask(&whole, &a);
    assert_null(shares_of(&a));
    done(&a);
}

/* Slots of one tile each: one warp copies the next block's keys once its scores are weights, and
 * the next values once those are used, so that both have a copy before the loop. Two warps have to
 * meet first: values by turns with keys.
 */
static void a_lone_warp_refills_at_once(void **state) {
    (void)state;
    for (int warps = 1; warps <= 2; warps++) {
        answer a;
        request q = {.sketch = "sketches/attention",
                     .gpu = "a100",
                     .dtype = TL_F16,
                     .pins = {"d=128", "dv=128", "BN=32", "K_stages=1", "V_stages=1", "peel=0",
                              "split=0", warps == 1 ? "warps=1" : "warps=2"}};
        ask(&q, &a);
        const char *text = str_copy_z(&a.memory, a.text);
        assert_true(has(&a, warps == 1 ? "role math with 1 warp" : "role math with 2 warps"));
        assert_int_equal(occurrences(text, "L = 0] from global to shared"), warps == 1 ? 2 : 1);
        assert_int_equal(occurrences(text, "L = j + 1] from global to shared"), warps == 1 ? 2 : 1);
        done(&a);
    }
}

/* In tiles that do not cross listed blocks, which block and where in it are said by the tile's
 * number, in each copy of the statement by its own; in others as the sketch says it.
 */
static void quotients_are_those_of_the_tile(void **state) {
    (void)state;
    for (int columns = 16; columns <= 64; columns *= 2) {
        answer a;
        request q = {.sketch = "tests/forms/listed_blocks",
                     .gpu = "a100",
                     .dtype = TL_F16,
                     .pins = {"d=64", "dv=64",
                              columns == 16   ? "BN=16"
                              : columns == 32 ? "BN=32"
                                              : "BN=64"}};
        ask(&q, &a);
        assert_int_equal(has(&a, "min(block[b, head, i, j/2]*32 + (s - j/2*32), kv_len - 1)"),
                         columns == 16);
        assert_int_equal(has(&a, "min(block[b, head, i, j]*32 + (s - j*32), kv_len - 1)"),
                         columns == 32);
        assert_int_equal(has(&a, "min(block[b, head, i, s/32]*32 + s % 32, kv_len - 1)"),
                         columns == 64);
        done(&a);
    }
}

/* Where a table says how many blocks a tile walks, whoever is free takes the next tile. */
static void listed_tiles_are_taken_by_who_is_free(void **state) {
    (void)state;
    static const char *const sketches[] = {"sketches/attention", "sketches/block_sparse"};
    for (int i = 0; i < 2; i++) {
        answer a;
        request q = {
            .sketch = sketches[i], .gpu = "h200", .dtype = TL_F16, .pins = {"d=128", "dv=128"}};
        ask(&q, &a);
        assert_int_equal(has(&a, "grid dynamic"), i == 1);
        assert_int_equal(has(&a, "grid persistent"), i == 0);
        done(&a);
    }
}

/* A box begins at a multiple of 16 bytes of a row: the hardware takes no other. */
static void boxes_begin_at_units(void **state) {
    (void)state;
    for (int offset = 2; offset <= 16; offset += 2)
        for (int bytes = 1; bytes <= 2; bytes++) {
            char text[1024];
            snprintf(text, sizeof text,
                     "kernel shifted\nInput A (q in q_len, x in 80)\n"
                     "let B (q in q_len, c in 64) = A[q, c + %d]\nInput K (n in n_len, c in 64)\n"
                     "Output S f16 (q in q_len, n in n_len)\nCopy B from global to shared\n"
                     "Copy K from global to shared\nCompute GEMM B, K.T and get S\n"
                     "Copy S from register to global\n",
                     offset);
            answer a;
            request q = {.sketch = text, .gpu = "h200", .dtype = bytes == 1 ? TL_E4M3 : TL_F16};
            ask(&q, &a);
            bool by_box =
                has(&a, "Copy B (BM, 64) in coordinate [L = q_block] from global to shared by tma");
            if (offset * bytes % 16) assert_false(a.result.program && by_box);
            else if (bytes == 2) assert_true(a.result.program && by_box);
            done(&a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_warp_refills_at_once),
        cmocka_unit_test(quotients_are_those_of_the_tile),
        cmocka_unit_test(boxes_begin_at_units),
        cmocka_unit_test(listed_tiles_are_taken_by_who_is_free),
        cmocka_unit_test(blocks_share_long_loops),
        cmocka_unit_test(usual_lengths_decide_sizes),
        cmocka_unit_test(bind_places_tiles),
        cmocka_unit_test(mask_values_have_room),
        cmocka_unit_test(softmax_is_online_where_allowed),
        cmocka_unit_test(scales_sink_where_positive),
        cmocka_unit_test(ends_are_masked_where_it_matters),
        cmocka_unit_test(empty_blocks_leave_the_loop),
        cmocka_unit_test(masked_elements_are_followed),
        cmocka_unit_test(maximum_is_guarded_where_it_may),
        cmocka_unit_test(values_are_set_aside_by_all_names),
        cmocka_unit_test(coarse_weights_stay_near_the_maximum),
        cmocka_unit_test(far_moves_are_expected_again),
        cmocka_unit_test(tiles_take_turns_in_a_ring),
        cmocka_unit_test(warpgroups_compute_where_they_may),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(pins_divide_by_something),
        cmocka_unit_test(pins_are_respected),
        cmocka_unit_test(other_programs_are_complete),
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(head_lengths_are_complete),
        cmocka_unit_test(attention_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
