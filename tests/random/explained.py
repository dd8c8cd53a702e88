"""Mutants of shipped programs that say the same by a property of that one program: no rule, but a sentence for each.

An entry is the subject, the lines that were changed, what they became, and why; all must match to the letter. A mutant that
stands here is counted as 'explained', and it hides no other.
"""
EXPLAINED = (
    ("softmax_off_by_one", "l[m16][half] = ftl_max(l[m16][half], 1e-30f); l[m16][half] = ftl_reciprocal(l[m16][half]);",
     "l[m16][half] = ftl_reciprocal(l[m16][half]); l[m16][half] = ftl_max(l[m16][half], 1e-30f);",
     "the sum holds the weight of the score 0 beside the row's, one of which is the maximum: it is 1 at least"),
    ("softmax_off_by_one", "l[m16][half] = ftl_max(l[m16][half], 1e-30f);", "l[m16][half] = ftl_max(l[m16][half], -1e-30f);",
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
)


def of(subject, old, new):
    """Why this change of this program says the same; None: nobody said so."""
    return next((why for name, before, after, why in EXPLAINED if (name, before, after) == (subject, old, new)), None)
