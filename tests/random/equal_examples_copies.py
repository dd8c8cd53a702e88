"""Texts for equal.py: copies a step further, tables' bounds, and the shift of a first block."""
RING = """    unsigned A_shared = shared + (at::A_tile + at::A_slot);
    {
        const int row = warp * 4 + (lane >> 3), column = (lane & 7) * 8;
        unsigned target = 2 * shared + (2 * at::A_tile + at::A_slot) - A_shared;
        {
            target += (unsigned)(line * 128 + (byte ^ (line & 7) << 4));
        }
        if (rows_left >= 256) {
            FTL_UNROLL for (int down = 0; down < 8; down++)
                ftl_cp_async_16(target + 4096 * down, source + 32 * down * (long long)args.A_stride_m);
        } else {
            FTL_UNROLL for (int down = 0; down < 8; down++) {
                const bool inside = row + 32 * down < rows_left;
                ftl_cp_async_16_or_zero(target + 4096 * down, inside ? source + 32 * down * (long long)args.A_stride_m : args.A, inside);
            }
        }
    }
    for (int j = 0; j < blocks; j++) {
        A_shared = shared + at::A_tile + (unsigned)(j & 1) * at::A_slot;
        ftl_cp_async_wait<0>();
        ftl_block_barrier();
        ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], A_shared);
    }""".splitlines()
GUARDED_STEP, WHOLE_STEP = RING[11], RING[8]
# What else is changed of it, the loop that goes a step further, and whether that is proved.
RINGS = (("", "", GUARDED_STEP, True), ("", "", WHOLE_STEP, False), ("(at::A_tile + at::A_slot);", "at::A_tile;", GUARDED_STEP, False), ("row + 32 * down < rows_left", "row < rows_left", GUARDED_STEP, False),
         ("    unsigned A_shared", "    ftl_block_barrier();\n    unsigned A_shared", GUARDED_STEP, False), ("        A_shared = shared + at::A_tile + (unsigned)(j & 1) * at::A_slot;\n", "", GUARDED_STEP, False),
         ("    for (int j", "    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], A_shared);\n    for (int j", GUARDED_STEP, False), ("        const int row", "        ftl_store_shared_16(A_shared, x);\n        const int row", GUARDED_STEP, False))

TABLE = """extern "C" __global__ void __launch_bounds__(128, 1)
k(const __grid_constant__ k_parameters args) {
    const int b = (int)tile;
    {
        const int row = warp * 8 + (lane >> 2), column = (lane & 3) * 8;
        const int rows_left = args.len - blk * BN;
        if (rows_left >= 64) {
            FTL_UNROLL for (int down = 0; down < 2; down++)
                ftl_cp_async_16(target + 64 * down, args.B + ftl_load_global_i32_if((unsigned)(b) < (unsigned)(args.batch) && (unsigned)(blk * BN + row + 32 * down) < (unsigned)(args.len), args.lens + b) * 8);
        } else {
            FTL_UNROLL for (int down = 0; down < 2; down++) {
                const bool inside = row + 32 * down < rows_left;
                ftl_cp_async_16_or_zero(target + 64 * down, inside ? args.B + ftl_load_global_i32_if((unsigned)(b) < (unsigned)(args.batch) && (unsigned)(blk * BN + row + 32 * down) < (unsigned)(args.len), args.lens + b) * 8 : args.B, inside);
            }
        }
    }""".splitlines()
# What else is changed of it, which of the two conditions says "or", and whether that is proved.
TABLES = (("", "", 0, True), ("", "", 1, True), ("__launch_bounds__(128", "__launch_bounds__(256", 0, False), (">= 64", ">= 48", 0, False), ("down < 2; down++)\n", "down < 3; down++)\n", 0, False),
          ("rows_left = args.len - blk * BN", "rows_left = args.len - (blk + 1) * BN", 0, False), ("rows_left = args.len - blk * BN", "rows_left = args.room - blk * BN", 1, False),
          ("row + 32 * down < rows_left", "row + 16 * down < rows_left", 1, False), ("int b = (int)tile;", "int b = args.first;", 0, False), ("inside ? args.B", "true ? args.B", 1, False))

SHIFT = """    m[half] = -1e+30f;
    FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -1.44269504f);
    for (int j = 0; j < blocks; j++) {
        if (j == 0) {
            m[half] = ftl_max(m[half], S[half]);
            FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -1.44269504f);
        }
        S[half] = ftl_multiply_add(S[half], 1.44269504f, shift[half]);
        S[half] = ftl_exp2(S[half]);
        part[half] = ftl_add(part[half], S[half]);
        any_4 |= !(part[half] < 32768.0f);
        if (ftl_any(any_4)) {
            shift[half] = ftl_multiply(m[half], -1.44269504f);
        }
    }""".splitlines()
# What else is changed of it, and whether the shift of the first block may then begin at its second row.
SHIFTS = (("", "", True), ("1.44269504f", "c", False), ("1.44269504f", "-1.44269504f", False), ("1.44269504f", "0.0f", False), ("1.44269504f", "0.00000000000000000000000000001f", False),
          ("-1e+30f", "0.0f", False), ("        any_4 |= !(part[half] < 32768.0f);\n", "", False), ("if (j == 0)", "if (j >= 0)", False),
          ("    for (int j", "    shift[half] = ftl_multiply(m[half], -0.5f);\n    for (int j", False))
