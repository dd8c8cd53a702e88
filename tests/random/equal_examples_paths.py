"""CUDA text with a statement a line for the proofs of equal_paths.py and of zeros past an end: a text, what it is changed to
beforehand, the line that is changed (the first that begins so), what it becomes (None: it goes), and whether that says the same."""

ASKED = """    for (int j = 0; j < blocks; j++) {
        if (__builtin_expect(j >= full || eager, 0)) {
            if (j >= full) {
                S[half] = limit_1 > 0 ? -ftl_infinity() : S[half];
            }
            if (__builtin_expect(eager, 0)) {
                m[half] = ftl_max(m[half], S[half]);
            }
        }
        ftl_store_global_f32(x, m[half]);
    }"""
OUTER = "        if (__builtin_expect(j >= full"
IF_TRUE = "        if (true) {"

WAITS = """    if (lane == 0 && warp % 4 == 0) ftl_tma_store_wait<0>();
    if (lane == 0 && warp % 4 == 0) ftl_tma_store_4(args.O_map, at, 0);"""

HELD = """    const int b = (int)tile, O_row = warp * 64 + (lane >> 2);
    const int rows_left = args.q_len - q_block * BM;
    FTL_UNROLL for (int half = 0; half < 2; half++) {
        if (O_row + 8 * half < rows_left) {
            ftl_add_global_f32(args.Z + ftl_load_global_i32_if((unsigned)(b) < (unsigned)(args.batch) && (unsigned)(q_block * BM + O_row + 8 * half) < (unsigned)(args.q_len), args.lens + b), O[half]);
        }
    }"""
ADDED = "            ftl_add"

TOLD = """extern "C" __global__ void k() {
    float alpha[2], O[2];
    for (int j = 1; j < blocks; j++) {
        const bool eager = (eager_kept != 0);
        if (__builtin_expect(eager, 0)) {
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                alpha[half] = ftl_subtract(m_old[half], m[half]);
                alpha[half] = ftl_exp2(alpha[half]);
            }
            eager_kept = ftl_any((alpha[0] < 3e-05f) | (alpha[1] < 3e-05f));
        }
        const bool slow = ftl_any((!(part[0] < 1024.0f)) | (!(part[1] < 1024.0f)));
        if (__builtin_expect(slow, 0)) {
            if (__builtin_expect(!eager, 0)) {
                FTL_UNROLL for (int half = 0; half < 2; half++) alpha[half] = 1.0f;
            }
        }
        if (__builtin_expect(eager || slow, 0)) {
            FTL_UNROLL for (int half = 0; half < 2; half++) O[half] = ftl_multiply(O[half], alpha[half]);
            if (ftl_any(part[0] >= 1024.0f)) {
                FTL_UNROLL for (int half = 0; half < 2; half++) alpha[half] = 0.0f;
                eager_kept = ftl_any((alpha[0] < 3e-05f) | (alpha[1] < 3e-05f));
            }
        }
    }
    ftl_store_global_f32(x, O[0]);
}"""
WAY = TOLD.replace("eager || slow", "slow").replace("            eager_kept", "            O[0] = ftl_multiply(O[0], alpha[0]);\n            eager_kept").replace(
    "            if (__builtin_expect(!eager, 0)) {\n                FTL_UNROLL for (int half = 0; half < 2; half++) alpha[half] = 1.0f;\n            }\n", "")
KEPT = "        if (__builtin_expect(eager, 0)) {"
SAYS, NEVER = "            if (ftl_any(part[0] >= 1024", "            if (false) {"

AGAIN = """    const int BN = 64;
    const int blocks = ftl_max_integer(1, ftl_divide_up(args.s_len, BN));
    const int full = args.s_len / BN;
    const int steady = ftl_min_integer(blocks, full) - 1;
    for (int j = 0; j < steady; j++) {
        r[half] = ftl_min(r[half], ftl_min(S[0], S[1]));
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            r[half] = ftl_min(r[half], ftl_exchange(r[half], 1));
            r[half] = ftl_min(r[half], ftl_exchange(r[half], 2));
        }
    }
    for (int j = ftl_max_integer(0, steady); j < blocks; j++) {
        r[half] = ftl_min(r[half], ftl_min(S[0], S[1]));
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            r[half] = ftl_min(r[half], ftl_exchange(r[half], 1));
            r[half] = ftl_min(r[half], ftl_exchange(r[half], 2));
        }
    }
    ftl_store_global_f32(x, r[0]);"""
MET = "            r[half] = ftl_min(r[half], ftl_exchange(r[half], 2"

BEGINS = """    const int BM = 64;
    const int BK = 64;
    const long long offset = (long long)(args.kv_len - args.u_len) - args.win;
    const int first = ftl_max_integer(0, (int)ftl_divide_down_wide(ftl_max_wide(u_block * BM + offset + 1, (long long)args.cut + 1), BK));
    const int blocks = ftl_max_integer(first + 1, ftl_divide_up(args.kv_len, BK));
    const int clear = (int)ftl_divide_up_wide(ftl_max_wide((u_block + 1) * BM + offset, (long long)args.cut + 1), BK);
    const unsigned short *source = args.B + ((long long)first * BK + row) * stride;
    if (first < clear || first >= full) {
        S[0] = 8 <= limit_1 ? -ftl_infinity() : S[0];
    }
    for (int i = first + 1; i < blocks; i++) {
        if (i < clear || i >= full) {
            S[0] = 8 <= limit_2 ? -ftl_infinity() : S[0];
        }
        if (ftl_any(any_1)) {
            m[0] = ftl_max(m[0], S[0]);
        }
    }"""
FIRST = "    const int first = "
EARLIER = "    const int first = ftl_max_integer(0, (int)ftl_divide_down_wide(ftl_min_wide(u_block * BM + offset + 1, (long long)args.cut + 1), BK));"
LATER = EARLIER.replace("min_wide", "max_wide").replace("offset + 1", "offset + 100")
BELOW = EARLIER.replace("ftl_max_integer(0", "ftl_max_integer(-1")

LAST = """    for (int j = 0; j < blocks; j++) {
        ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], (left ^ Q_shared));
        ftl_block_barrier();
        if (j + 1 < blocks) {
            {
                unsigned target = K_shared;
                ftl_cp_async_16(target, source);
            }
        }
        {
            unsigned right = V_shared;
            ftl_ldmatrix_x4_trans(b[0], b[1], b[2], b[3], right);
        }
    }
    l[0] = ftl_reciprocal(l[0]);
    ftl_block_barrier();
    {
        unsigned place = O_shared;
        ftl_store_shared_4(place, o[0]);
    }
    ftl_warp_barrier();
    {
        unsigned source = O_shared;
        ftl_load_shared_16(unit, source);
    }
}"""
LAST = "    const int blocks = ftl_max_integer(1, ftl_divide_up(args.kv_len, 64));\n" + LAST
TILES = """let d = 64, dv = 64, BM = 128, BN = 48
Allocate Q in shared f16 (BM, d) swizzled 128               // 16 KiB a slot
Allocate V in shared f16 (BN, dv) swizzled 128              // 6 KiB a slot
Allocate O in shared f16 (BM, dv) swizzled 128 in place of Q_shared  // the same bytes, afterwards"""
BARRIER = "    ftl_block_barrier();"

ZEROS = """    for (int j = 0; j < blocks; j++) {
        {
            const int rows_left = args.kv_len - (j + 1) * BN;
            unsigned target = 2 * shared + (2 * at::K_tile + at::K_slot) - K_shared;
            if (rows_left >= 64) {
                ftl_cp_async_16(target, source);
            } else {
                const bool inside = row < rows_left;
                ftl_cp_async_16_or_zero(target, inside ? source : args.K, inside);
            }
        }
        {
            const int rows_left = args.kv_len - j * BN;
            if (sine_row + 8 * half < rows_left) {
                ftl_load_global_f32x2(sine[n8][2 * half], sine[n8][2 * half + 1], matrix);
            } else {
                sine[n8][2 * half] = sine[n8][2 * half + 1] = 0.0f;
            }
        }
        {
            unsigned source = K_shared;
            ftl_ldmatrix_x4(K_register[0][0], K_register[0][1], K_register[1][0], K_register[1][1], source);
        }
        T[n8][2 * half] = ftl_multiply(ftl_low_f16(K_register[n8][half]), sine[n8][2 * half]);
        ftl_store_shared_4(place, ftl_pack_f16(T[n8][0], T[n8][1]));
        ftl_ldmatrix_x4(b[0], b[1], b[2], b[3], place);
        ftl_store_global_f32(x, b[0]);
    }"""
SINE = "                sine[n8][2 * half] = sine"
ONE = "                sine[n8][2 * half] = sine[n8][2 * half + 1] = 1.0f;"

ROWS = """    {
        const int w_row = warp * 32 + (lane >> 4);
        FTL_UNROLL for (int down = 0; down < 16; down++) w[down] = w_row + 2 * down < rows_left ? ftl_load_global_f32(vector) : 0.0f;
    }
    stat[down] = ftl_max(stat[down], ftl_exchange(stat[down], 8));
    stat[down] = ftl_multiply(stat[down], w[down]);
    ftl_store_global_f32(vector, stat[down]);"""
WEIGHT = "        FTL_UNROLL for (int down = 0; down < 16; down++) w[down]"
WEIGHT_ONE = WEIGHT + " = w_row + 2 * down < rows_left ? ftl_load_global_f32(vector) : 1.0f;"

PAIR = """    if (pair_row + 8 * half < rows_left) {
        ftl_load_global_f32x2(pair[n8][2 * half], pair[n8][2 * half + 1], matrix);
    } else {
        pair[n8][2 * half] = pair[n8][2 * half + 1] = 0.0f;
    }
    S[n8][2 * half] = ftl_add(S[n8][2 * half], pair[n8][2 * half]);
    ftl_store_global_f32(vector, S[n8][2 * half]);"""
PAIR_ZERO = "        pair[n8][2 * half] = pair"

PLACES = """    ftl_store_shared_16(place, low);
    ftl_store_shared_16(place ^ 16, high);"""

GUARD = """        FTL_UNROLL for (int down = 0; down < 2; down++) {
            if (row + 32 * down < 48) {
                ftl_store_shared_16(target, x);
            }
        }"""
STEPS, ONE_MORE = "        FTL_UNROLL for (int down", "        FTL_UNROLL for (int down = 0; down <= 2; down++) {"

TABLE_ROWS = """extern "C" __global__ void __launch_bounds__(128, 2) k() {
    const int BN = 64;
    for (int i = 1; i < blocks; i++) {
        const int row = warp * 8 + (lane >> 2), column = (lane & 3) * 8;
        const int rows_left = args.kv_len - (i + 1) * BN;
        if (rows_left >= 64) {
            FTL_UNROLL for (int down = 0; down < 2; down++)
                ftl_cp_async_16(target, args.W + ((unsigned)((i + 1) * BN + row + 32 * down) < (unsigned)(args.kv_len) ? ftl_load_global_i32(args.lens + row) : 0) * s);
        }
    }"""
COPIED = "                ftl_cp_async_16(target, args.W"

HALVES = """    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int n8 = 0; n8 < 3; n8++) {
            if (column + 1 < columns_left) {
                ftl_store_global_4(matrix + 8 * n8, ftl_pack_f16(O[m16][n8][0], O[m16][n8][1]));
            } else {
                ftl_store_global_2(matrix + 8 * n8, ftl_pack_f16(O[m16][n8][0], O[m16][n8][1]));
            }
        }"""
BOTH, LOWER = "                ftl_store_global_4", "                ftl_store_global_2"
SECOND, THIRD = ("O[m16][n8][1]", "O[(m16) ^ 1][n8][1]"), ("O[m16][n8][1]", "O[m16][(n8) ^ 1][1]")

PATHS = (
    (HALVES, "", "", LOWER, SECOND, True), (HALVES, "", "", BOTH, SECOND, False), (HALVES, "", "", LOWER, ("O[m16][n8][0]", "O[(m16) ^ 1][n8][0]"), False), (HALVES, "", "", LOWER, THIRD, False),
    (HALVES, "", "", LOWER, ("O[m16][n8][1]", "O[0][n8][1]"), True), (HALVES, "", "", LOWER, ("O[m16][n8][1]", "O[m16][n8][4]"), False), (HALVES, "", "", LOWER, ("8 * n8, ftl", "8 * m16, ftl"), False),
    (TABLE_ROWS, "", "", COPIED, ("i + 1", "i - 1"), True), (TABLE_ROWS, "", "", COPIED, ("i + 1", "i + 2"), False), (TABLE_ROWS, "", "", COPIED, ("BN + row", "BN - row"), True), (TABLE_ROWS, "", "", COPIED, ("BN + row", "BN - 8 * row"), False),
    (TABLE_ROWS, "int i = 1", "int i = 0", COPIED, ("i + 1", "i - 1"), False), (TABLE_ROWS, "rows_left >= 64", "rows_left >= 63", COPIED, ("i + 1", "i - 1"), False),
    (TABLE_ROWS, "rows_left = args.kv_len", "rows_left = args.q_len", COPIED, ("i + 1", "i - 1"), False), (TABLE_ROWS, "down < 2", "down < 3", COPIED, ("i + 1", "i - 1"), False),
    (TABLE_ROWS, "", "", COPIED, ("lens + row", "lens - row"), False),
    (ASKED, "", "", OUTER, IF_TRUE, True), (ASKED, "", "", OUTER, "        if (false) {", False), (ASKED, "", "", OUTER, "        if (j >= full) {", False),
    (ASKED, "            if (j >= full) {", "            if (j > 0) {", OUTER, IF_TRUE, False),
    (ASKED, "            if (j >= full) {", "            x[0] = 1.0f;\n            if (j >= full) {", OUTER, IF_TRUE, False),
    (WAITS, "", "", "    if (lane == 0 && warp", "    if (lane == 0 || warp % 4 == 0) ftl_tma_store_wait<0>();", True),
    (WAITS, "", "", "    if (lane == 0 && warp", "    if (true) ftl_tma_store_wait<0>();", True), (WAITS, "", "", "    if (lane == 0 && warp", "    if (false) ftl_tma_store_wait<0>();", False),
    (WAITS, "&& warp", "|| warp", "    if (lane == 0 || warp", "    if (lane == 0 && warp % 4 == 0) ftl_tma_store_wait<0>();", False),
    (WAITS, "ftl_tma_store_wait<0>", "ftl_tma_store_commit", "    if (lane == 0 && warp", "    if (true) ftl_tma_store_commit();", False),
    (HELD, "", "", ADDED, ("half) < (", "half) <= ("), True), (HELD, "", "", ADDED, ("&&", "||"), True), (HELD, "", "", ADDED, ("half) < (", "half) > ("), False),
    (HELD, "", "", ADDED, ("half) < (", "half) == ("), False), (HELD, "O_row + 8 * half < rows_left", "O_row < rows_left", ADDED, ("half) < (", "half) <= ("), False),
    (HELD, "args.q_len - q_block", "args.kv_len - q_block", ADDED, ("half) < (", "half) <= ("), False), (HELD, "(lane >> 2)", "(lane >> 2) - 8", ADDED, ("half) < (", "half) != ("), False),
    *((WAY, "", "", KEPT, f"        if ({x}) {{", True) for x in ("true", "false", "__builtin_expect(0, eager)")), (WAY, "", "", KEPT, "        if (j == 3) {", False),
    *((TOLD, "", "", KEPT, f"        if ({x}) {{", False) for x in ("true", "false", "__builtin_expect(0, eager)")),
    (TOLD, "", "", SAYS, NEVER, True), (TOLD, "", "", SAYS, "            if (true) {", True), (TOLD, "if (__builtin_expect(!eager, 0))", "if (j == 2)", SAYS, NEVER, False),
    (TOLD, "const bool slow", "bool slow", SAYS, NEVER, False), (TOLD, "alpha[half] = 1.0f", "O[half] = 1.0f", SAYS, NEVER, False),
    (TOLD, "half++) alpha[half] = 1.0f", "half++) alpha[0] = 1.0f", SAYS, NEVER, False), (TOLD, "half = 0; half < 2; half++) alpha[half] = 1.0f", "half = 1; half < 2; half++) alpha[half] = 1.0f", SAYS, NEVER, False),
    (TOLD, "    ftl_store_global_f32(x, O[0]);", "    ftl_store_global_f32(x, alpha[0]);", SAYS, NEVER, False),
    (TOLD, "        if (__builtin_expect(eager || slow, 0)) {", "        if (__builtin_expect(eager || slow || j == 3, 0)) {", SAYS, NEVER, False),
    (TOLD, "half++) alpha[half] = 0.0f;", "half++) O[half] = 0.0f;", SAYS, NEVER, False),
    (AGAIN, "", "", MET, None, True), (AGAIN, "ftl_divide_up(args.s_len, BN)", "ftl_divide_down(args.s_len, BN)", MET, None, True), (AGAIN, ", full) - 1", ", full)", MET, None, False),
    (AGAIN, "    for (int j = ftl_max", "    ftl_store_global_f32(x, r[0]);\n    for (int j = ftl_max", MET, None, False), (AGAIN, "ftl_min(r[half], ftl_exchange", "ftl_add(r[half], ftl_exchange", MET.replace("ftl_min", "ftl_add"), None, False),
    (AGAIN, "    for (int j = 0; j < steady; j++) {\n", "    for (int j = 0; j < steady; j++) {\n        S[0] = ftl_add(S[0], r[0]);\n", MET, None, False),
    (AGAIN, "        }\n    }\n    ftl_store_global_f32", "        }\n        r[half] = ftl_min(r[half], S[1]);\n    }\n    ftl_store_global_f32", MET, None, False),
    (BEGINS, "", "", FIRST, EARLIER, True), (BEGINS, "", "", FIRST, LATER, False), (BEGINS, "", "", FIRST, BELOW, False),
    (BEGINS, "(u_block + 1) * BM + offset", "u_block * BM + offset - 100", FIRST, EARLIER, False), (BEGINS, "    if (first < clear ||", "    if (first < other ||", FIRST, EARLIER, False),
    (BEGINS, "S[0] = 8 <= limit_2 ? -ftl_infinity() : S[0]", "S[0] = 0.0f", FIRST, EARLIER, False), (BEGINS, "        if (ftl_any(any_1)) {", "        if (any_1) {", FIRST, EARLIER, False),
    (BEGINS, "    for (int i = first", "    x = first;\n    for (int i = first", FIRST, EARLIER, False), (BEGINS, "        if (ftl_any(any_1)) {", "        K_shared = K + (unsigned)(i & 1) * 8;\n        if (ftl_any(any_1)) {", FIRST, EARLIER, False),
    (ZEROS, "", "", SINE, ONE, True), (ZEROS, "", "", SINE, ONE.replace("1.0f", "-1.0f"), False), (ZEROS, "16_or_zero(target, inside ? source : args.K, inside)", "16(target, source)", SINE, ONE, False),
    (ZEROS, "ftl_multiply(ftl_low_f16(K_register[n8][half]), sine", "ftl_add(ftl_low_f16(K_register[n8][half]), sine", SINE, ONE, False), (ZEROS, "unsigned source = K_shared", "unsigned source = V_shared", SINE, ONE, False),
    (ZEROS, "args.kv_len - (j + 1)", "args.q_len - (j + 1)", SINE, ONE, False), (ZEROS, "        ftl_store_global_f32(x, b[0]);", "        ftl_store_global_f32(x, sine[0][0]);", SINE, ONE, False),
    (ZEROS, "        T[n8][2 * half] =", "        K_register[n8][half] = 1;\n        T[n8][2 * half] =", SINE, ONE, False),
    (ROWS, "", "", WEIGHT, WEIGHT_ONE, True), (ROWS, "stat[down], 8)", "stat[down], 16)", WEIGHT, WEIGHT_ONE, False), (ROWS, "lane >> 4", "lane >> 2", WEIGHT, WEIGHT_ONE, False),
    (ROWS, "    ftl_store", "    sum = ftl_add(sum, stat[down]);\n    ftl_store", WEIGHT, WEIGHT_ONE, False),
    (PAIR, "", "", PAIR_ZERO, None, True), (PAIR, "    ftl_store", "    T[n8] = ftl_add(S[n8][2 * half], S[n8][2 * half + 1]);\n    ftl_store", PAIR_ZERO, None, False),
    (PAIR, "pair_row + 8 * half < rows_left", "pair_row + 8 * half < limit", PAIR_ZERO, None, False),
    (GUARD, "", "", STEPS, ONE_MORE, True), (GUARD, "", "", STEPS, ONE_MORE.replace("<= 2", "<= 1"), False), (GUARD, "< 48", "< 80", STEPS, ONE_MORE, False), (GUARD, "            if (row", "            x[down] = 1;\n            if (row", STEPS, ONE_MORE, False))

# Whether the barrier after the loop may go, by what else is changed of the text, or of its tiles.
LAST_BARRIERS = (
    ("", "", True), ("ftl_max_integer(1, ", "ftl_max_integer(0, ", False), ("right = V_shared", "right = Q_shared", False), ("target = K_shared", "target = O_shared", False),
    ("        ftl_block_barrier();\n", "", False), ("        ftl_block_barrier();", "        if (j > 0) {\n            ftl_block_barrier();\n        }", False),
    ("    l[0] = ", "    ftl_load_shared_16(unit, Q_shared);\n    l[0] = ", False), ("        unsigned source = O_shared", "        unsigned source = V_shared", False),
    (" in place of Q_shared", "", False), ("f16 (BM, dv)", "f32 (BM, dv)", False), (", right)", ", V_at)", False))

# Two stores that are exchanged, by what else the second one's place is.
EXCHANGED = (("place ^ 16", True), ("place + 32", True), ("place ^ 8", False), ("other ^ 16", False), ("place", False))
