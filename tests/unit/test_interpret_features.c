/* What the study's programs do not use: rings of registers, votes, walks in roles, atomic sums,
 * concatenated views, strides and formats of memory, samples of the grid.
 */
#include "interpret_case.h"

static interpret_tensor vector(const char *name, double *data, int count) {
    return (interpret_tensor){.name = str_from(name),
                              .data = data,
                              .format = CONVERT_F64,
                              .axis_count = 1,
                              .extents = {count},
                              .strides = {1}};
}

static interpret_tensor matrix(const char *name, double *data, int rows, int columns) {
    return (interpret_tensor){.name = str_from(name),
                              .data = data,
                              .format = CONVERT_F64,
                              .axis_count = 2,
                              .extents = {rows, columns},
                              .strides = {columns, 1}};
}

static int run(const char *source, const interpret_tensor *tensors, int count,
               interpret_request request, const char *id) {
    tl_text t;
    request.tensors = tensors;
    request.tensor_count = count;
    if (text_read(&t, str_from(source))) {
        interpret_kernel(t.program->first, &request, &t.memory, &t.diags, NULL);
    }
    int findings = t.diags.error_count;
    const char *found = findings ? diag_id_name(t.diags.first->id) : "";
    if (strcmp(found, id)) text_show(&t);
    assert_string_equal(found, id);
    arena_done(&t.memory);
    return findings;
}

static double *products(const double *a, int rows, const double *b, int columns, int inner) {
    double *c = calloc((size_t)(rows * columns), sizeof *c);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            for (int k = 0; k < inner; k++)
                c[i * columns + j] += a[i * inner + k] * b[j * inner + k];
        }
    }
    return c;
}

/* --- a ring of register tiles, and a vote ----------------------------------------------------- */

static const char ring[] =
    "kernel ring for h200\nlet BM = 4, BN = 4, d = 8\n"
    "Input Q f16 (q in q_len, d)\nInput K f16 (kv in kv_len, d)\nOutput R f32 (q in q_len)\n"
    "grid i in q_len/BM\nlet blocks = ceil(kv_len/BN)\n"
    "Allocate Q in shared f16 (BM, d)\nAllocate K in shared f16 (BN, d) stages 2\n"
    "role load with 1 warp\n"
    "Copy Q (BM, d) in coordinate [L = i] from global to shared by tma async\n"
    "for j = 0:blocks\n"
    "Copy K (BN, d) in coordinate [L = j] from global to shared by tma async\nend\nend\n"
    "role math with 2 warpgroups\n"
    "Allocate S in register f32 (BM, BN) as mma_C stages 2\n"
    "Allocate R in register f32 (BM) as rows of S\n"
    "Compute Fill 0 and get R_register\nWait Q_shared\nWait K_shared\n"
    "Compute GEMM Q_shared, K_shared.T and get S by m64n8k16 async\n"
    "for j = 1:blocks\nWait S\nRelease K_shared\nWait K_shared\n"
    "Compute GEMM Q_shared, K_shared.T and get S by m64n8k16 async\n"
    "if any(S > 1)\nCompute Min S, 1 and get S\nend\n"
    "Compute RowSum S and accumulate R_register\nRelease S\nend\n"
    "Wait S\nRelease K_shared\nCompute Min S, 1 and get S\n"
    "Compute RowSum S and accumulate R_register\nRelease S\nRelease Q_shared\n"
    "Copy R (BM) in coordinate [L = i] from register to global\nend\n";

static void rings_and_votes(void **state) {
    (void)state;
    enum { M = 10, N = 19, D = 8 };
    double *q = case_numbers(M * D, 1), *k = case_numbers(N * D, 2), *r = case_numbers(M, 3);
    double *s = products(q, M, k, N, D);
    interpret_tensor tensors[] = {matrix("Q", q, M, D), matrix("K", k, N, D), vector("R", r, M)};
    run(ring, tensors, 3, (interpret_request){0}, "");
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) sum += fmin(s[i * N + j], 1);
        assert_true(fabs(sum - r[i]) < 1e-12);
    }
    /* Every Wait and Release of it is needed. */
    char *text = malloc(sizeof ring);
    memcpy(text, ring, sizeof ring);
    for (char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, "Wait", 4) && strncmp(line, "Release", 7)) continue;
        char saved[2] = {line[0], line[1]};
        memcpy(line, "//", 2);
        tl_text t;
        interpret_request request = {.tensors = tensors, .tensor_count = 3, .most_steps = 1 << 16};
        assert_true(text_read(&t, str_from(text)));
        interpret_kernel(t.program->first, &request, &t.memory, &t.diags, NULL);
        memcpy(line, saved, 2);
        if (!t.diags.error_count) fprintf(stderr, "not noticed: %.30s\n", line);
        assert_true(t.diags.error_count > 0);
        arena_done(&t.memory);
    }
    free(text), free(q), free(k), free(r), free(s);
}

/* --- a walk over the tiles inside a role ------------------------------------------------------ */

/* The load role runs ahead across tiles; sums of columns are added up atomically. */
static const char walking[] =
    "kernel walking for h200\nlet BM = 4, n = 6\n"
    "Input A f32 (i in m, j in n)\nOutput C f32 (i in m, j in n)\nOutput Z f32 (j in n)\n"
    "grid persistent t in m/BM reversed\nAllocate A in shared f32 (BM, n) stages 3\n"
    "role load with 1 warp\nfor tile in grid\n"
    "Copy A (BM, n) in coordinate [L = t] from global to shared by tma async\nend\nend\n"
    "role math with 1 warp\nAllocate C in register f32 (BM, n) as lines\n"
    "Allocate Z in register f32 (n) as columns of C\n"
    "for tile in grid\nWait A_shared\nCopy A from shared to register and get C\nRelease A_shared\n"
    "Compute RowSum C_register.T and get Z_register\n"
    "Copy Z (n) from register to global and accumulate Z\n"
    "Compute Multiply C_register, tile + 1 and get C_register\n"
    "Copy C (BM, n) in coordinate [L = t] from register to global\nend\nend\n";

static void walks_inside_roles(void **state) {
    (void)state;
    enum { M = 18, N = 6 };
    double *a = case_numbers(M * N, 1), *c = case_numbers(M * N, 2), z[N] = {0};
    interpret_tensor tensors[] = {matrix("A", a, M, N), matrix("C", c, M, N), vector("Z", z, N)};
    for (int blocks = 1; blocks < 7; blocks++) {
        memset(z, 0, sizeof z);
        run(walking, tensors, 3, (interpret_request){.resident_blocks = blocks}, "");
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int i = 0; i < M; i++) {
                sum += a[i * N + j];
                int tile = (M - 1) / 4 - i / 4; /* the walk is reversed */
                assert_true(c[i * N + j] == a[i * N + j] * (tile + 1));
            }
            assert_true(fabs(z[j] - sum) < 1e-12);
        }
    }
    free(a), free(c);
}

static void samples_of_the_grid(void **state) {
    (void)state;
    enum { M = 18, N = 6 };
    double *a = case_numbers(M * N, 1), *c = case_numbers(M * N, 2), z[N] = {0};
    for (int i = 0; i < M * N; i++) c[i] = 77;
    interpret_tensor tensors[] = {matrix("A", a, M, N), matrix("C", c, M, N), vector("Z", z, N)};
    const int64_t tiles[] = {1, 3};
    run(walking, tensors, 3, (interpret_request){.tiles = tiles, .tile_count = 2}, "");
    const int64_t missing[] = {5};
    run(walking, tensors, 3, (interpret_request){.tiles = missing, .tile_count = 1},
        "INTERPRET_NO_TILE");
    for (int i = 0; i < M; i++) {
        int tile = (M - 1) / 4 - i / 4;
        bool is_run = tile == 1 || tile == 3;
        assert_true((c[i * N] != 77) == is_run);
    }
    free(a), free(c);
}

/* --- views, memory ---------------------------------------------------------------------------- */

/* V with columns of ones: the product gives the row sums, too. */
static void concatenation_with_constants(void **state) {
    (void)state;
    enum { M = 3, N = 7, DV = 4 };
    double *p = case_numbers(M * N, 1), *v = case_numbers(N * DV, 2),
           *o = case_numbers(M * (DV + 1), 3);
    interpret_tensor tensors[] = {matrix("P", p, M, N), matrix("V", v, N, DV),
                                  matrix("O", o, M, DV + 1)};
    run("let BN = 2\nInput P f16 (q in q_len, kv in kv_len)\nInput V f16 (kv in kv_len, dv)\n"
        "Output O f32 (q in q_len, e in dv + 1)\n"
        "let W (kv in kv_len, e in dv + 1) = select(e < dv, V[kv, e], 1)\n"
        "for j = 0:kv_len/BN\nCopy P from global to shared\nCopy W from global to shared\n"
        "Compute GEMM P, W and accumulate O\nend\nCopy O from register to global\n",
        tensors, 3, (interpret_request){0}, "");
    for (int i = 0; i < M; i++) {
        for (int e = 0; e <= DV; e++) {
            double sum = 0;
            for (int j = 0; j < N; j++) sum += p[i * N + j] * (e < DV ? v[j * DV + e] : 1);
            assert_true(fabs(sum - o[i * (DV + 1) + e]) < 1e-12);
        }
    }
    free(p), free(v), free(o);
}

static void strides_and_formats(void **state) {
    (void)state;
    enum { M = 5, N = 3 };
    uint16_t half[M * N * 2];
    double y[M * N] = {0}, expected[M * N];
    for (int i = 0; i < M * N; i++) {
        expected[i] = (i - 7) / 8.0;
        half[2 * i] = (uint16_t)convert_to_bits(CONVERT_F16, expected[i]);
        half[2 * i + 1] = 0x7e00; /* NaN between the elements */
    }
    interpret_tensor x = {.name = STR("X"),
                          .data = half,
                          .format = CONVERT_F16,
                          .axis_count = 2,
                          .extents = {M, N},
                          .strides = {2 * N, 2}};
    interpret_tensor turned = matrix("Y", y, M, N);
    turned.strides[0] = 1; /* Y is stored by columns */
    turned.strides[1] = M;
    interpret_tensor tensors[] = {x, turned};
    run("Input X f16 (i in m, j in n)\nOutput Y bf16 (i in m, j in n)\nCopy X from global to "
        "register\n"
        "Compute Multiply X, 1.01 and get X\nCopy X from register to global and get Y\n",
        tensors, 2, (interpret_request){.mode = INTERPRET_ROUNDED}, "");
    for (int i = 0; i < M * N; i++) {
        double value = convert_round(CONVERT_BF16, (float)(expected[i] * 1.01));
        assert_true(fabs(y[i / N + i % N * M] - value) <= fabs(value) / 128);
        assert_true(convert_round(CONVERT_BF16, y[i / N + i % N * M]) == y[i / N + i % N * M]);
    }
}

/* --- what the caller gives -------------------------------------------------------------------- */

static void requests_that_do_not_fit(void **state) {
    (void)state;
    double x[12] = {0}, y[12] = {0};
    const char *text = "Input X f32 (i in m, j in n)\nInput s i32 where s > 2\n"
                       "Output Y f32 (i in m, j in n)\nCopy X from global to register\n"
                       "Copy X from register to global and get Y\n";
    interpret_scalar s = {STR("s"), 3}, small = {STR("s"), 2};
    interpret_request right = {.scalars = &s, .scalar_count = 1};
    interpret_tensor tensors[] = {matrix("X", x, 3, 4), matrix("Y", y, 3, 4)};
    run(text, tensors, 2, right, "");
    run(text, tensors, 1, right, "INTERPRET_NO_TENSOR");
    run(text, tensors, 2, (interpret_request){0}, "INTERPRET_NO_SCALAR");
    run(text, tensors, 2, (interpret_request){.scalars = &small, .scalar_count = 1},
        "INTERPRET_CONDITION");
    tensors[1].extents[0] = 2;
    run(text, tensors, 2, right, "INTERPRET_SIZE_DIFFERS");
    tensors[1] = vector("Y", y, 12);
    run(text, tensors, 2, right, "INTERPRET_AXIS_COUNT");
    tensors[1] = matrix("Y", y, -3, 4);
    run(text, tensors, 2, right, "INTERPRET_EXTENT");
    tensors[1] = matrix("Y", y, 3, 4);
    right.most_steps = 1;
    run(text, tensors, 2, right, "INTERPRET_STEPS");
    run("Input X f32 (i in m, j in n)\nOutput Y f32 (i in m, j in n)\n...\n", tensors, 2,
        (interpret_request){0}, "INTERPRET_HOLE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_and_votes),     cmocka_unit_test(walks_inside_roles),
        cmocka_unit_test(samples_of_the_grid), cmocka_unit_test(concatenation_with_constants),
        cmocka_unit_test(strides_and_formats), cmocka_unit_test(requests_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
