"""CUDA text, and changes of it: a place, what it becomes, and whether that says the same."""

SWAPS = (("S[m16][n8][2 * half] = ftl_exp2(S[m16][n8][2 * half]);", "S[m16][n8][2 * half + 1] = ftl_exp2(S[m16][n8][2 * half + 1]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "l[m16][half] = ftl_multiply(l[m16][half], alpha[m16][half]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "m[m16][half] = ftl_max(m[m16][half], room);", False),
         ("S[m16][n8][half] = ftl_exp2(S[m16][n8][half]);", "part[m16] = ftl_add(part[m16], S[m16][n8][0]);", False))

CUDA = """extern "C" __global__ void k(const k_parameters args) {
    const int BM = 128, BN = 64;
    const int blocks = ftl_max_integer(1, ftl_divide_up(args.kv_len, BN));
    const int full = args.kv_len / BN;
    const int clear = ftl_divide_up((q_block + 1) * BM + offset - 100, BN);
    const int seen = ftl_divide_down(ftl_min_integer(args.kv_len, q_block * BM + offset + 1), BN);
    const int steady = ftl_min_integer(blocks, full);
    const int group = ftl_divide_up(args.q_heads, args.kv_heads);
    const int other = ftl_divide_up(args.q_len, args.kv_heads);
    bool O_holds = false;
    FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
    FTL_UNROLL for (int half = 0; half < 2; half++) unused[half] = 0.0f;
    FTL_UNROLL for (int half = 0; half < 2; half++) alpha[half] = 1.0f;
    int eager_kept = ftl_any((alpha[0] < 3e-05f) | (alpha[1] < 3e-05f));
    const bool early = (eager_kept != 0);
#pragma unroll 1
    for (int j = 0; j < blocks; j++) {
        const int columns_left = args.kv_len - j * BN;
        FTL_UNROLL for (int down = 0; down < 2; down++) {
            if (row + 32 * down < 48) {
                ftl_cp_async_16(target + 2048 * down, source + 32 * down);
            }
        }
        ftl_wgmma_m64n16k16_f16<0, 0>(S, left, right, true);
        O_holds = true;
        if (j < clear || j >= seen) {
            const int limit_1 = args.kv_len - j * BN;
            S[n8][2 * half] = 8 * n8 >= limit_1 ? -ftl_infinity() : S[n8][2 * half];
        }
        if (j == 0) {
            FTL_UNROLL for (int n8 = 0; n8 < 8; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++)
                    m[half] = ftl_max(m[half], ftl_max(S[n8][2 * half], S[n8][2 * half + 1]));
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));
            }
            FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
        }
        if (j == 1) {
            m[half] = ftl_max(m[half], ftl_max(S[0][2 * half], S[0][2 * half + 1]));
            m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));
            other_shift[half] = ftl_multiply(m[half], -c);
        }
        FTL_UNROLL for (int half = 0; half < 2; half++) unused[half] = ftl_add(unused[half], S[0][half]);
        FTL_UNROLL for (int half = 0; half < 2; half++) part[half] = ftl_add(part[half], S[0][half]);
        bool any_1 = false;
        FTL_UNROLL for (int half = 0; half < 2; half++) any_1 |= !(part[half] < 32768.0f);
        if (ftl_any(any_1)) {
            FTL_UNROLL for (int n8 = 0; n8 < 4; n8++)
                m[half] = ftl_max(m[half], ftl_max(S[n8][2 * half], S[n8][2 * half + 1]));
            m[half] = ftl_max(m[half], ftl_exchange(m[half], 2));
            alpha[half] = ftl_subtract(m_old[half], m[half]);
        }
        FTL_UNROLL for (int half = 0; half < 2; half++) P[half] = ftl_pack_f16(S[0][0], ftl_multiply_add(S[0][1], shift[half], other_shift[half]));
        ftl_wgmma_m64n16k16_f16_left<1>(O, P[0], alpha[0], right, true);
        if (columns_left >= 64) {
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                if (Y_row + 8 * half < rows_left) {
                    Y[n8][half] = ftl_load_global_4(matrix);
                } else {
                    Y[n8][half] = 0;
                }
                if (Z_row + 8 * half < rows_left) {
                    Z[n8][half] = ftl_load_global_4(matrix);
                } else {
                    Z[n8][half] = 0;
                }
            }
        }
        Y_wide[n8][2 * half] = ftl_add(ftl_low_f16(Y[n8][half]), m[half]);
        column[n8] = ftl_add(column[n8], ftl_low_f16(Z[n8][half]));
        ftl_store_global_f32(vector, Y_wide[n8][2 * half]);
        ftl_store_global_f32(vector, column[n8]);
        if (lane == 0) ftl_tma_store_wait<0>();
        if (lane == 0) ftl_tma_store(args.O_map);
    }
    if (!O_holds) {
        O[n8][0] = 0.0f;
    }
    if (!E_holds) {
        E[n8][0] = 0.0f;
    }
    if (has_more) {
        P_0[0] = P_1[1];
    } else {
        P_0[0] = P_1[0];
        Q_0[0] = Q_1[0];
    }
    if (left > 0) {
        if (left >= 4)
            ftl_store_global_16_f32(target, S1[0]);
        else
            ftl_store_global_16_f32_part(target, S1[0], left);
    }
    if (left > 0) {
        if (left >= 4)
            ftl_store_global_16_f32(target, S1[0]);
        else
            ftl_store_global_f32(target, S1[0]);
    }
    ftl_store_global_f32(target, ftl_add(Q_0[0], ftl_add(O[0][0], E[0][0])));
    if (early || eager_kept) ftl_store_global_f32(target + other, ftl_add(E[0][0], 0.0f));
}""".splitlines()

# A line (and which of several alike), what it becomes, and whether that says the same.
CUDA_EXAMPLES = (
    ("const int clear = ftl_divide_up((q_block", 0, "up((q", "down((q", True), ("const int clear = ftl_divide_up((q_block", 0, "100", "200", False), ("const int clear = ftl_divide_up((q_block", 0, " + 1)", " - 1)", False),
    ("const int seen", 0, "offset + 1", "offset + 200", False),
    ("const int group", 0, "_up", "_down", True), ("const int other", 0, "_up", "_down", False),
    ("unused[half] = 0.0f", 0, "0.0f", "1.0f", True), ("part[half] = ftl_add", 0, "0][half]", "1][half]", False), ("unused[half] = ftl_add", 0, "0][half]", "1][half]", True),
    ("alpha[half] = 1.0f", 0, "1.0f", "-1.0f", True), ("int eager_kept", 0, "3e-05f)", "1.0f)", True), ("int eager_kept", 0, "ftl_any(", "(", False), ("const bool early", 0, "!=", "<", False),
    ("down < 2", 0, "2;", "3;", True), ("down < 2", 0, "2;", "1;", False), ("row + 32", 0, "48", "64", False),
    ("n8 < 8", 0, "= 0", "= 0 + 1", True), ("n8 < 8", 0, "8;", "8 + 1;", False), ("n8 < 8", 0, "8;", "8 - 1;", True), ("n8 < 4", 0, "4;", "4 - 1;", False),
    ("if (j == 0)", 0, "j == 0", "false", True), ("if (j == 1)", 0, "j == 1", "false", False),
    ("m[half] = ftl_max(m[half], ftl_exchange(m[half], 1))", 0, "m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));", "", False),
    ("any_1 |=", 0, "part[half]", "part[(half) ^ 1]", True), ("any_1 |=", 0, "part[half]", "part[0]", False), ("any_1 |=", 0, "32768.0f", "132768.0f", False), ("any_1 |=", 0, "] < ", "] > ", False), ("any_1 |=", 0, "] < ", "] <= ", True), ("any_1 |=", 0, "] < ", "] != ", False),
    ("Y[n8][half] = 0;", 0, "Y[n8][half] = 0;", "", True), ("Z[n8][half] = 0;", 0, "Z[n8][half] = 0;", "", False),
    ("ftl_tma_store_wait", 0, "lane == 0", "true", True), ("ftl_tma_store(args", 0, "lane == 0", "true", False),
    ("O[n8][0] = 0.0f", 0, "0.0f", "1.0f", True), ("E[n8][0] = 0.0f", 0, "0.0f", "1.0f", False),
    ("if (!O_holds)", 0, "!O_holds", "false", True), ("if (!O_holds)", 0, "!O_holds", "true", False), ("if (!E_holds)", 0, "!E_holds", "false", False),
    ("P_0[0] = P_1[0]", 0, "P_1[0]", "P_1[1]", True), ("Q_0[0] = Q_1[0]", 0, "Q_1[0]", "Q_1[1]", False), ("P_0[0] = P_1[1]", 0, "P_1[1]", "P_1[0]", True),
    ("if (left > 0)", 0, "left > 0", "true", True), ("if (left > 0)", 1, "left > 0", "true", False))

ROOM = """bool any_1 = false;
any_1 |= !(part[half] < room[half]);
if (ftl_any(any_1)) return;
room[half] = ftl_add(room[half], ftl_exchange(room[half], 1));
room[half] = ftl_min(room[half], 32768.0f);
P[half] = ftl_pack_bf16(S[0], S[1]);
ftl_store_global_f32(vector, part[half]);""".splitlines()

FIRST_STEP = """    const int blocks = ftl_max_integer(1, n);
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int half = 0; half < 2; half++) shift[m16][half] = ftl_multiply(m[m16][half], -c);
    for (int j = 0; j < blocks; j++) {
        if (j == 0) {
            FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                FTL_UNROLL for (int half = 0; half < 2; half++) shift[m16][half] = ftl_multiply(m[m16][half], -c);
        }
        ftl_store_global_f32(x, shift[0][0]);
    }""".splitlines()

# What else is changed of it, and whether its first loop may then end one step early.
FIRST_STEPS = (("", "", True), ("j == 0", "j == 1", False), ("(1, n)", "(0, n)", False), ("for (int j = 0", "for (int j = 1", False),
               ("        if (j == 0) {", "        ftl_store_global_f32(y, shift[1][0]);\n        if (j == 0) {", False), ("            FTL_UNROLL for (int m16 = 0", "            FTL_UNROLL for (int m16 = 1", False))

# Ways of copies, of functions and of votes: a text, what is changed in which of several alike places, and whether that says the same.
COPIES = """const int blocks = ftl_max_integer(1, ftl_divide_up(args.k_len, BK));
const int BK = 64;
const int whole = args.k_len / BK;
const int steady = ftl_min_integer(blocks, whole) - 1;
for (int i = 0; i < steady; i++) {
    {
        const int row = warp * 4 + (lane >> 3), column = (lane & 7) * 8;
        const int columns_left = args.k_len - (i + 1) * BK;
        if (rows_left >= 128 && columns_left >= 64) {
            ftl_cp_async_16(target, source);
        } else {
            const int left = row < rows_left ? columns_left - column : 0;
            ftl_cp_async_16_part<8>(target, left > 0 ? source : args.X, left);
        }
    }
}
{
    const int row = warp * 32 + lane, column = 0;
    const unsigned short *source = args.V + (row) * args.V_stride_n + column;
    if (row < 32) {
        ftl_cp_async_16(target, source);
    }
}
if (rows_left >= 48) {
    ftl_load_global_16(units[0], source);
} else {
    if (row < 48) {
        if (row < rows_left)
            ftl_load_global_16(units[0], source);
        else
            units[0][0] = units[0][1] = 0;
    }
    if (row < 40) {
        if (row < rows_left)
            ftl_load_global_16(units[0], source);
        else
            units[0][0] = units[0][1] = 0;
    }
}
if (left > 0) {
    unsigned unit[4];
    ftl_load_shared_16(unit, source + 8 * down);
    if (left >= 8)
        ftl_store_global_16(target, unit);
    else
        ftl_store_global_16_part<8>(target, unit, left);
}
if (left > 0) {
    unsigned unit[4];
    ftl_load_shared_16(unit, source + 8 * down);
    if (left >= 4)
        ftl_store_global_16(target, unit);
    else
        ftl_store_global_16_part<8>(target, unit, left);
    ftl_store_global_16(other, unit);
}
if (__builtin_expect(!ftl_any(!(S_most < 0.5f)), 1)) {
    const float term_0 = ftl_multiply(0.99f, power);
    S[n8][0] = ftl_odd_3(S[n8][0], term_0, term_1, term_2);
} else {
    if (__builtin_expect(!ftl_any(!(S_most < 1.0f)), 0)) {
        S[n8][0] = ftl_odd_5(S[n8][0], term_0, term_1, term_2, term_3, term_4);
    } else {
        S[n8][0] = ftl_multiply(S[n8][0], factor);
        S[n8][0] = ftl_tanh(S[n8][0]);
    }
}
if (__builtin_expect(!ftl_any(!(T_most < 1.0f)), 0)) {
    T[n8][0] = ftl_odd_5(T[n8][0], term_0, term_1, term_2, term_3, term_4);
} else {
    if (__builtin_expect(!ftl_any(!(T_most < 0.5f)), 1)) {
        T[n8][0] = ftl_odd_3(T[n8][0], term_0, term_1, term_2);
    } else {
        T[n8][0] = ftl_tanh(T[n8][0]);
    }
}
if (has_more) {
    if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
} else {
    if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
}
for (int j = 0; j < blocks; j++) {
    if (j + 1 < blocks) {
        const int columns_left = args.k_len - (j + 1) * BK;
        if (columns_left >= 64) {
            ftl_load_global_16(K_register[0], source);
        } else {
            ftl_load_global_16_part<8>(K_register[0], source, columns_left);
        }
    }
    if (j + 1 < blocks) {
        ftl_store_shared_16(target, K_register[0]);
    }
}
if (R_row + 8 * half < rows_left) {
    R[n8][2 * half] = ftl_load_global_f32(matrix);
} else {
    R[n8][2 * half] = R[n8][2 * half + 1] = 0.0f;
}
w[half] = w_row + 8 * half < rows_left ? ftl_load_global_f32(w_vector) : 0.0f;
u[half] = u_row + 8 * half < rows_left ? ftl_load_global_f32(u_vector) : 0.0f;
b[element] = b_column + element < rows_left ? ftl_load_global_f32(b_vector) : 0.0f;
X[n8][2 * half] = ftl_add(ftl_max(X[n8][2 * half], w[half]), R[n8][2 * half]);
part[half] = ftl_add(part[half], X[n8][2 * half]);
any_1 |= !(part[half] < 32768.0f);
if (ftl_any(any_1)) {
    x = 1;
}
ftl_mma_m16n8k16_f16(Y[n8], w[0], w[1], w[0], w[1], fragment_b[0], fragment_b[1]);
ftl_mma_m16n8k16_f16(Y[n8], fragment_a[0], fragment_a[1], fragment_a[2], fragment_a[3], u[0], u[1]);
Z[half] = ftl_add(b[0], ftl_exchange(b[0], 1));
ftl_store_global_f32(vector, ftl_add(X[n8][2 * half], Z[half]));
ftl_store_global_f32(vector, ftl_add(S[n8][0], T[n8][0]));""".splitlines()

IN_COPIES = (
    ("- (i + 1) * BK", 0, "- (i", "+ (i", True), ("- (i + 1) * BK", 0, "+ 1", "+ 2", False), ("- (i + 1) * BK", 0, "- (i + 1) * BK", "- i * BK", True), ("for (int i", 0, "steady", "blocks", False),
    ("warp * 32 + lane", 0, "32", "64", True), ("warp * 32 + lane", 0, "32", "16", False), ("warp * 4 + (lane >> 3)", 0, "4", "8", False),
    ("if (row < 48)", 0, "row < 48", "true", True), ("if (row < 40)", 0, "row < 40", "true", False), ("if (row < 32)", 0, "row < 32", "true", False),
    ("if (left > 0)", 0, "left > 0", "true", True), ("if (left > 0)", 1, "left > 0", "true", False),
    ("if (left >= 8)", 0, ">=", ">", True), ("if (left >= 8)", 0, "8", "7", False), ("if (left >= 4)", 0, ">=", ">", False),
    ("S_most < 0.5f", 0, "!ftl_any(!(S_most < 0.5f))", "true", False), ("S_most < 1.0f", 0, "1.0f", "0.9f", True), ("S_most < 1.0f", 0, "1.0f", "1.5f", False), ("T_most < 1.0f", 0, "1.0f", "0.9f", False),
    ("V_held.of", 0, "lane == 0", "true", True), ("K_held.of", 0, "lane == 0", "true", False),
    ("if (j + 1 < blocks)", 0, "j + 1 < blocks", "true", True), ("if (j + 1 < blocks)", 1, "j + 1 < blocks", "true", False),
    ("= R[n8][2 * half + 1] = 0.0f", 0, "2 * half + 1] = 0", "1 * half + 1] = 0", True), ("= R[n8][2 * half + 1] = 0.0f", 0, "] = 0.0f", "] = 0.01f", True), ("= R[n8][2 * half + 1] = 0.0f", 0, "2 * half + 1] = 0", "2 * half - 1] = 0", False),
    ("w[half] = w_row", 0, ": 0.0f", ": 1.0f", True), ("u[half] = u_row", 0, ": 0.0f", ": 1.0f", False), ("b[element] = b_column", 0, ": 0.0f", ": 1.0f", False))

ABSOLUTE = """FTL_UNROLL for (int half = 0; half < 2; half++) r[half] = ftl_abs(r[half]);
FTL_UNROLL for (int half = 0; half < 2; half++) {
    r[half] = ftl_abs(r[half]);
    r[half] = ftl_add(r[half], 1.0f);
}""".splitlines()

GUARDED = """if (ftl_any(any_1)) {
    m[half] = ftl_max(m[half], S[0][half]);
}
O[0] = ftl_add(O[0], S[0][0]);""".splitlines()

FIRST_BARRIER = """    const int blocks = ftl_max_integer(1, ftl_divide_up(args.kv_len, BN));
    {
        unsigned target = Q_shared;
        ftl_store_shared_16(target, units[0]);
    }
    ftl_cp_async_wait<0>();
    ftl_block_barrier();
    for (int j = 0; j < blocks; j++) {
        {
            unsigned target = K_shared;
            ftl_store_shared_16(target, units[0]);
        }
        ftl_block_barrier();
        ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], Q_shared);
    }
    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], K_shared);
    ftl_store_global_f32(vector, a[0]);""".splitlines()

# What else is changed of it, and whether its first barrier may then go.
FIRST_BARRIERS = (("", "", True), ("max_integer(1,", "max_integer(0,", False), ("target = K_shared", "target = Q_shared", False), ("target = K_shared", "target = shared", False), ("16(target", "16(shared", False),
                  ("        ftl_block_barrier();\n", "", False), ("        ftl_block_barrier();", "        if (j == 1) {\n            ftl_block_barrier();\n        }", False), ("    ftl_cp_async_wait", "    ftl_load_shared_16(units, Q_shared);\n    ftl_cp_async_wait", False),
                  ("    ftl_cp_async_wait", "    ftl_store_global_f32(vector, 1.0f);\n    ftl_cp_async_wait", False), ("        {\n", "        ftl_load_shared_16(units, Q_shared);\n        {\n", False), ("j = 0; j < blocks", "j = 1; j < blocks", False))
