"""Proofs that a text which was changed in one place says the same: of TL Code (equal_tl.py) and of CUDA text (equal_cuda.py).

Each proof gives its sentence, or None. This file holds their test: changes that say the same, and such that do not (equal_examples_*.py).
"""
import sys

from equal_cuda import of_cuda
from equal_examples_blocks import IN_BLOCKS
from equal_examples_constants import IN_CONSTANTS
from equal_examples_copies import GUARDED_STEP, RING, RINGS, SHIFT, SHIFTS, TABLE, TABLES
from equal_examples_cuda import (
    ABSOLUTE, COPIES, CUDA, CUDA_EXAMPLES, FIRST_BARRIER, FIRST_BARRIERS, FIRST_STEP, FIRST_STEPS, GUARDED,
    IN_COPIES, ROOM, SWAPS)
from equal_examples_elements import IN_ELEMENTS
from equal_examples_masks import IN_MASKS
from equal_examples_order import IN_ORDER
from equal_examples_paths import BARRIER, EXCHANGED, LAST, LAST_BARRIERS, PATHS, PLACES, TILES
from equal_examples_tl import AFTER_COPIES, EXAMPLES, EXCHANGED_COPIES, HIDDEN, IN_ROUNDS, IN_VOTES, LINEAR, TL, VOTES
from equal_examples_votes import IN_MORE
from equal_text import changes  # noqa: F401, for who explains what is not proved
from equal_tl import REFUSED, of_tl


def in_votes():
    """What the proofs say wrongly of the texts with votes, with rounds and with single elements."""
    wrong = []
    for text, first, count, new, same in IN_VOTES + IN_ROUNDS + IN_MORE + IN_ELEMENTS + IN_BLOCKS + IN_MASKS + IN_ORDER + IN_CONSTANTS:
        at = text.index(first)
        mutant = text[:at] + new + text[at + count:]
        if bool(of_tl(mutant, text)) != same:
            wrong.append(f"{first.strip()} ({count}) -> {new}: {of_tl(mutant, text)}")
    if not of_tl([x for k, x in enumerate(VOTES) if k not in (VOTES.index("    if eager"), VOTES.index("    if eager") + 5)], VOTES):
        wrong.append("`if eager` without its condition")
    return wrong


def in_ways():
    """What the proofs say wrongly of ways, of launches and of absolute values."""
    wrong = []

    def tell(what, mutant, text, tl, same):
        if mutant == text or bool(of_cuda(mutant, text, tl)) != same:
            wrong.append(f"{what}: {of_cuda(mutant, text, tl)}")
    for mark, which, old, new, same in IN_COPIES:
        at = [i for i, x in enumerate(COPIES) if mark in x][which]
        text = COPIES
        if "for (int i" in mark:                        # the loop over all blocks: the change is that of the columns then
            text = COPIES[:at] + [COPIES[at].replace(old, new)] + COPIES[at + 1:]
            at, old, new = next(i for i, x in enumerate(text) if "- (i + 1) * BK" in x), "- (i", "+ (i"
        tell(f"{text[at].strip()}: {old} -> {new}", text[:at] + [text[at].replace(old, new, 1)] + text[at + 1:], text, TL, same)
    for at, limit in ((i, x) for i, x in enumerate(COPIES) if "_most <" in x):
        tell(f"{limit.strip()} -> false", COPIES[:at] + [limit[:len(limit) - len(limit.lstrip())] + "if (false) {"] + COPIES[at + 1:], COPIES, TL, "T_most < 1.0f" not in limit)
    for first, added, same in (("ftl_abs(r", "1.0f", True), ("ftl_exp2(r", "1.0f", False), ("ftl_abs(r", "-1.0f", False), ("half < 2; half++) r[half] = ftl_abs(r", "1.0f", True), ("half < 1; half++) r[half] = ftl_abs(r", "1.0f", False)):
        head = ABSOLUTE[0].replace("half < 2; half++) r[half] = ftl_abs(r" if "half++" in first else "ftl_abs(r", first)
        text = [head, *ABSOLUTE[1:3], ABSOLUTE[3].replace("1.0f", added), ABSOLUTE[4]]
        tell(f"an absolute value after {head}", [*text[:2], text[3], text[2], text[4]], text, TL, same)
    for tl, at, same in ((VOTES, 1, True), (VOTES, 3, False), (LINEAR, 1, False), (HIDDEN, 1, False)):
        tell(f"under a vote: {GUARDED[at]}", GUARDED[:at] + [GUARDED[at].replace("S[0]", "S[1]")] + GUARDED[at + 1:], GUARDED, tl, same)
    for old, new, same in FIRST_BARRIERS:
        text = "\n".join(FIRST_BARRIER).replace(old, new).splitlines()
        at = text.index("    ftl_block_barrier();")
        tell(f"a first barrier: {old} -> {new}", text[:at] + text[at + 1:], text, TL, same)
    tell("a first barrier of tiles in one place", FIRST_BARRIER[:6] + FIRST_BARRIER[7:], FIRST_BARRIER, TL + ["Allocate K in shared f16 (BN, d) in place of Q_shared"], False)
    last = COPIES[:4] + ["for (int i = ftl_max_integer(0, steady); i < blocks; i++) {", "    const int columns_left = args.k_len - (i + 1) * BK;",
                         "    if (columns_left >= 64) {", "        ftl_cp_async_16(target, source);", "    }", "}"]
    for now, same in (("> 64", True), ("<= 64", False)):
        tell(f"a condition of the last blocks: {now}", [x.replace(">= 64", now) for x in last], last, TL, same)
    up, down = [[f"const int group = ftl_divide_{x}(args.q_heads, args.kv_heads);"] for x in ("up", "down")]
    for held, same in (("q_heads % kv_heads == 0", True), ("q_heads == kv_heads", True), ("kv_heads == 1", True), ("q_heads == 1", False), ("kv_heads == 1 or q_heads > 3", False), ("kv_heads == 1 and q_heads > 3", True),
                       ("kv_heads == 12", False), ("kv_heads % q_heads == 0", False), ("all_kv_heads == 1", False)):
        tell(held, up, down, [f"Input  K f16 (kv in kv_len) where {held}"], same)
    return wrong


def in_copies():
    """What the proofs say wrongly of copies a step further, of tables' bounds and of a first block's shift."""
    wrong = []

    def tell(what, text, old, new, at, line, tl, same):
        code = "\n".join(text).replace(old, new).splitlines()
        at = at(code)
        found = of_cuda(code[:at] + [line(code[at])] + code[at + 1:], code, tl)
        if bool(found) != same:
            wrong.append(f"{what}: {old.strip()} -> {new.strip()}: {found}")
    for old, new, step, same in RINGS:
        tell("a step further", RING, old, new, lambda code, step=step: code.index(step), lambda x: x.replace("down < 8", "down <= 8"), TL, same)
        tell("a step further", RING, old, new, lambda code, step=step: code.index(step), lambda x: x.replace("down < 8", "down < 8 + 1"), TL, same)
    for old, new, which, same in TABLES:
        tell("both hold", TABLE, old, new, lambda code, which=which: [i for i, x in enumerate(code) if "&&" in x][which], lambda x: x.replace("&&", "||"), TL, same)
    for old, new, same in SHIFTS:
        tell("a first shift", SHIFT, old, new, lambda code: max(i for i, x in enumerate(code) if "half++) shift" in x), lambda x: x.replace("half = 0", "half = 0 + 1"), TL, same)
    return wrong


def in_paths():
    """What the proofs say wrongly of paths, and of what lies past an end."""
    wrong = []

    def tell(what, mutant, text, tl, same):
        if mutant == text or bool(of_cuda(mutant, text, tl)) != same:
            wrong.append(f"{what}: {of_cuda(mutant, text, tl)}")
    for text, old, new, begin, now, same in PATHS:
        code = text.replace(old, new).splitlines() if old else text.splitlines()
        at = next(i for i, x in enumerate(code) if x.startswith(begin))
        line = [code[at].replace(*now, 1)] if isinstance(now, tuple) else [now] if now else []
        if old and old not in text:
            wrong.append(f"{old.strip()} does not stand in its example")
        tell(f"{old.strip()} -> {new.strip()}; {code[at].strip()} -> {line}", code[:at] + line + code[at + 1:], code, TL, same)
    for old, new, same in LAST_BARRIERS:
        code, tl = (LAST.replace(old, new) if old else LAST).splitlines(), (TILES.replace(old, new) if old else TILES).splitlines()
        if old and old not in LAST + TILES:
            wrong.append(f"{old.strip()} does not stand in its example")
        at = max(i for i, x in enumerate(code) if x == BARRIER)
        tell(f"the last barrier: {old.strip()} -> {new.strip()}", code[:at] + code[at + 1:], code, tl, same)
    for place, same in EXCHANGED:
        code = PLACES.replace("place ^ 16", place).splitlines()
        tell(f"stores to place and {place}", code[::-1], code, TL, same)
    return wrong


def main():
    wrong = in_votes() + in_ways() + in_copies() + in_paths()
    for old, new, same in EXAMPLES:
        at = TL.index(old)
        mutant = TL[:at] + ([] if new is None else [new]) + TL[at + 1:]
        if bool(of_tl(mutant, TL)) != same:
            wrong.append(f"{old.strip()} -> {new}: {of_tl(mutant, TL)}")
    for a, b, same in EXCHANGED_COPIES:
        if bool(of_tl([b, a, *AFTER_COPIES], [a, b, *AFTER_COPIES])) != same:
            wrong.append(f"{a} <-> {b}: {of_tl([b, a, *AFTER_COPIES], [a, b, *AFTER_COPIES])}")
    for a, b, same in SWAPS:
        if bool(of_cuda([b, a], [a, b], TL)) != same:
            wrong.append(f"{a} <-> {b}: {of_cuda([b, a], [a, b], TL)}")
    for old, new, same in (("if (rows_left >= 64) {", "if (rows_left > 64) {", True), ("if (rows_left >= 64) {", "if (rows_left >= 63) {", False), ("if (rows_left >= 64) {", "if (true) {", False)):
        if bool(of_cuda([new], [old], TL)) != same:
            wrong.append(f"{old} -> {new}")
    for mark, which, old, new, same in CUDA_EXAMPLES:
        at = [i for i, x in enumerate(CUDA) if mark in x][which]
        line = CUDA[at].replace(old, new, 1)
        mutant = CUDA[:at] + ([line] if line.strip() else []) + CUDA[at + 1:]
        why = of_cuda(mutant, CUDA, ["Input  K (kv in kv_len) where q_heads % kv_heads == 0"])
        if mutant == CUDA or bool(why) != same:
            wrong.append(f"{CUDA[at].strip()} -> {line.strip()}: {why}")
    for old, new, same in FIRST_STEPS:
        text = "\n".join(FIRST_STEP).replace(old, new).splitlines()
        why = of_cuda([text[0], text[1].replace("2;", "2 - 1;")] + text[2:], text, TL)
        if bool(why) != same:
            wrong.append(f"a first step: {old} -> {new}: {why}")
    for old, new, text, same in (("min", "max", ROOM, True), ("32768.0f", "-1.0f", ROOM, True), ("32768.0f", "1e30f", ROOM, False), ("exchange", "add", ROOM, True),
                                 ("min", "max", [x.replace("bf16", "f16") for x in ROOM], False), ("min", "max", ROOM + ["ftl_store_global_f32(vector, room[half]);"], False)):
        at = 4 if old in text[4] else 3
        if bool(of_cuda(text[:at] + [text[at].replace(old, new)] + text[at + 1:], text, TL)) != same:
            wrong.append(f"{text[at]}: {old} -> {new}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
