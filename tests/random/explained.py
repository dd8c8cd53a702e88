"""Mutants of shipped programs that say the same by a property of that one program: no rule, but a sentence for each.

An entry is the subject, the lines that were changed, what they became, and why; all must match to the letter, and a fifth
part, if there is one, the line that follows. A mutant that stands here is counted as 'explained', and it hides no other.
"""
EXPLAINED = (
    ("softmax_off_by_one", "l[m16][half] = ftl_max(l[m16][half], 1e-30f); l[m16][half] = ftl_reciprocal(l[m16][half]);",
     "l[m16][half] = ftl_reciprocal(l[m16][half]); l[m16][half] = ftl_max(l[m16][half], 1e-30f);",
     "the sum holds the weight of the score 0 beside the row's, one of which is the maximum: it is 1 at least"),
    ("softmax_off_by_one", "l[m16][half] = ftl_max(l[m16][half], 1e-30f);", "l[m16][half] = ftl_max(l[m16][half], -1e-30f);",
     "the sum holds the weight of the score 0 beside the row's, one of which is the maximum: it is 1 at least"),
    ("softmax_off_by_one", "Compute Max l, 1e-30 and get l", "",
     "the sum holds the weight of the score 0 beside the row's, one of which is the maximum: it is 1 at least"),
    ("random 70002", "Compute Multiply Acc, 0.33333 and get Acc", "Compute Multiply Acc, -0.33333 and get Acc",
     "the Mask before it has the condition e_index >= e_index - 3, which always holds: all elements are 0"),
    ("row_softmax", "inverse[m16][half] = ftl_max(l[m16][half], 1e-30f);", "inverse[m16][half] = ftl_max(l[m16][half], -1e-30f);",
     "every row has an element, and the weight of the largest one is 1: the sum is 1 at least"),
    ("row_softmax", "S[m16][n8][half] = 0;", "",
     "what is past the last column is masked before the maximum takes it, and neither it nor a row past the last one is stored"),
    ("random 64013", "Compute Max stat, 1e-30 and get inverse", "Compute Max stat, -1e-30 and get inverse",
     "each row sees key 0, so its sum is about 1 or more; where there are no keys, the Mask with 0 after the product covers the whole block"),
    ("random 64017", "Compute Mask S, shift0 in coordinate [L = q_block] where q > d1_index + q_len - d1_index and (d1_index + q) % 3 == 0 or d1_index <= q + d1_index - q_len - 52",
     "Compute Mask S, shift0 in coordinate [L = q_block] where q > d1_index + q_len - d1_index and (d1_index + q) % 3 >= 0 or d1_index <= q + d1_index - q_len - 52",
     "the condition beside it asks for a row past q_len, and there is none"),
    ("random 64040", "r01[m16][half] = ftl_multiply(r01[m16][half], alpha[m16][half]);", "r01[m16][(half) ^ 1] = ftl_multiply(r01[m16][half], alpha[m16][half]);",
     "keys past 20 are masked, so there is one block, before which all sums are 0: 0 times a power of at most 1"),
    ("random 64040", "O[m16][n8][2 * half + 1] = ftl_multiply(O[m16][n8][2 * half + 1], alpha[m16][half]);",
     "O[0][n8][2 * half + 1] = ftl_multiply(O[m16][n8][2 * half + 1], alpha[m16][half]);",
     "keys past 20 are masked, so there is one block, before which all sums are 0: 0 times a power of at most 1"),
    ("random 64020", "FTL_UNROLL for (int half = 0; half < 2; half++) {", "FTL_UNROLL for (int half = 0; half < 2 - 1; half++) {",
     "rows from 4 on are masked whole: rows 8..15 of a tile have no maximum, and results of 0", "m[m16][half] = ftl_max(m[m16][half], ftl_exchange(m[m16][half], 1));"),
    ("random 64004", "S[m16][n8][2 * half] = (8 * n8 > limit_7[m16][half]) && (kv_at / 32 > q_at / 32) ? 0.5f",
     "S[m16][n8][2 * half] = (8 * n8 > limit_7[m16][half]) || (kv_at / 32 > q_at / 32) ? 0.5f",
     "both ways the condition asks for a key after the query, and the next Mask leaves out all of those"),
    ("residual_gemm", "const int lane = (int)threadIdx.x & 31, block_warp = ftl_warp_index();",
     "const int lane = (int)threadIdx.x & 62, block_warp = ftl_warp_index();",
     "the lane only says who signals: lanes 0 and 1 of the even warps, as often as lane 0 of each warp; a wgmma is over for the whole warpgroup once one of its warps has waited for it"),
    ("random 64155", "&& (unsigned)((j + 1) * BN + row + 8 * down) < (unsigned)(args.kv_len)", "|| (unsigned)((j + 1) * BN + row + 8 * down) < (unsigned)(args.kv_len)",
     "in the way of whole blocks: 32 rows are left, and rows are below 32, so that both hold", "? ftl_load_global_i32(args.lo + b * args.lo_stride_b"),
    ("random 60190", "const int whole = ftl_divide_down(kv2_len, BN);", "const int whole = ftl_divide_down(BN, kv2_len);",
     "the loop without tests ends there or at the last block but one: past 32 keys it has no step, up to 32 there is one block, of which it takes none"),
    ("random 60190", "m[m16][half] = ftl_max(m[m16][half], ftl_exchange(m[m16][half], 1));", "m[m16][half] = ftl_max(m[m16][half], ftl_exchange(1, m[m16][half]));",
     "scores are a sigmoid's, between 0 and 1: a maximum of 1 leaves all powers between 1/e and 1"),
    ("random 64058", "T[m16][n8][2 * half + 1] = 8 * n8 + 1 >= limit_1 ? 0.0f : T[m16][n8][2 * half + 1];",
     "T[m16][n8][2 * half + 1] = 8 * n8 + 1 >= limit_1 ? 1.0f : T[m16][n8][2 * half + 1];",
     "past the last key it is multiplied by rows that are zeros"),
    ("random 60016", "if (row + 32 * down < 48) {", "if (row + 33 * down < 48) {",
     "in the way of cut blocks row 47 is past the end: its line keeps what an earlier block left, its scores are masked, and its weights are 0", "const bool inside = row + 32 * down < rows_left;"),
    ("chosen_blocks", "const int rows_left = (int)ftl_max_wide(ftl_min_wide(len - (long long)(j + 1) * BN, 536870911LL), 0LL);",
     "const int rows_left = (int)ftl_max_wide(ftl_max_wide(len - (long long)(j + 1) * BN, 536870911LL), 0LL);",
     "past the table's places an entry is 0, so that rows of block 0 are copied, which exist; their scores are masked",
     "unsigned target = 2 * shared + (2 * at::K_tile + at::K_slot) - K_shared;"),
    ("random 80119", "if blk >= full Compute Mask P0, 0 in coordinate [L = query_block, L = blk] where n >= n_len end", "",
     "past the last key scores are exactly 0, since keys are zeros there, and what they are multiplied by lies between 0 and the bias, which is finite: a weight, at least 0, or the bias where that is less"),
    ("random 80086", "+ ftl_load_global_i32_if((unsigned)((g0 + 1) * BK + row) < (unsigned)(args.kv_len),", "+ ftl_load_global_i32_if((unsigned)((g0 + 1) * BK + row) <= (unsigned)(args.kv_len),",
     "in the way of whole blocks: 48 rows are left, and rows are below 48, so that both hold", "args.lens + ((g0 + 1) * BK + row) * args.lens_stride_kv) * (long long)args.Y0_stride_kv2"),
    ("--op mqa --window 100 --causal --head-dim 64", "if (executor == 2) ftl_meet_later(1, 256);", "if (true) ftl_meet_later(1, 256);",
     "all three executors arrive: two of them complete a phase for which nobody waits, the third is the one that is meant; who goes first is a matter of speed alone"),
    ("random 80568", "let full_2 = floor(kv2_len/BK)", "let full_2 = ceil(kv2_len/BK)",
     "past the last key it is multiplied by rows that are zeros: nothing comes of a weight that f16 holds, that is while eps0 * vec is below 110"),
    ("random 60172", "units[down][0] = units[down][1] = units[down][2] = units[down][3] = 0;", "units[down][0] = units[down][2] = units[down][2] = units[down][3] = 0;",
     "keys past the last one: whatever their scores are, `kv > u + kv_len - u_len` masks them in each row that is stored"),
)


def of(subject, code, change):
    """Why this change (new lines, old ones, where: equal.changes) of a program's lines says the same; None: nobody said so."""
    new, old, at = change
    old_text, new_text = (" ".join(x.strip() for x in part) for part in (old, new))
    beside = code[at + len(old)].strip() if at + len(old) < len(code) else ""
    for name, before, after, why, *follows in EXPLAINED:
        if (name, before, after) == (subject, old_text, new_text) and follows in ([], [beside]):
            return why
    return None
