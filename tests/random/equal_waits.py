#!/usr/bin/env python3
"""Proofs that CUDA text without a statement of synchronisation says the same, after the emulator found nothing wrong.

Run by itself it tests them on examples, and on texts of which they must not hold.
"""
import re
import sys

from equal_bounds import enclosing
from equal_cuda import statements
from equal_text import careful, changes

# What may stand between two wgmma.fence without touching a register of a product. ftl_keep and ftl_forget have no instruction.
NO_TOUCH = (r"\s*(ftl_wgmma_(m64\w+<|commit\(|wait<)|ftl_keep(_pairs)?\(|ftl_forget\(|ftl_meet(_later)?\(|\w+_held\.wait\("
            r"|if \(lane == 0\) ftl_mbarrier_signal\(|\w+_holds = true;|FTL_UNROLL for \(int k16 = 0; k16 < \d+; k16\+\+\)$)")


def first_slot(mutant, code):
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1:
        return None
    m = re.match(r"\s*(\w+_fill)\.acquire\(", old[0])
    if not m or (new and not re.match(rf"\s*ftl_mbarrier_expect\({m.group(1)}\.of\(", new[0])):
        return None
    if not new and old[0].count(",") != 0:
        return None                                 # the bytes to come are announced there, too
    above = next(iter(enclosing(code, at)), None)
    if above is None or code[above].strip() != "if (is_first) {" or any(f"{m.group(1)}.next(" in x for x in code[above:at]):
        return None
    return "the first fill of a ring finds its slot free"


def second_fence(mutant, code):
    new, old, at = changes(mutant, code)
    if new or [x.strip() for x in old] != ["ftl_wgmma_fence();"]:
        return None
    for line in reversed(code[:at]):
        if line.strip() == "ftl_wgmma_fence();":
            return "no register of a product is touched after the fence before"
        if not re.match(NO_TOUCH, line):
            return None
    return None


def no_instruction(mutant, code):
    new, old, _ = changes(mutant, code)
    bare = [[x.strip() for x in part if not re.match(r"\s*(ftl_keep(_pairs)?|ftl_forget|ftl_tma_prefetch_map)\(", x)] for part in (new, old)]
    if bare[0] != bare[1] or sum(len(x) for x in (new, old)) == sum(len(x) for x in bare):
        return None
    return "it has no instruction, or is a hint: what the compiler made of the text was judged"


def more_registers(mutant, code):
    new, old, _ = changes(mutant, code)
    if not new and len(old) == 1 and re.match(r"\s*ftl_registers_grow<\d+>\(\);$", old[0]):
        return "how many registers a thread has changes no value"
    return None


def last_turn(mutant, code):
    new, old, at = changes(mutant, code)
    if not new and len(old) == 1 and re.match(r"\s*if \(executor == 0\) ftl_meet\(1, \d+\);$", old[0]) and all(x.strip() in ("}", "") for x in code[at + 1:]):
        return "nobody comes to this barrier again"
    return None


def last_release(mutant, code):
    new, old, at = changes(mutant, code)
    if new or len(old) != 1 or not re.match(r"\s*if \(lane == 0\) ftl_mbarrier_signal\(\w+_held\.of\(", old[0]):
        return None
    above = next(iter(enclosing(code, at)), None)
    if above is None or code[above].strip() != "} else {":
        return None
    depth = re.match(r"\s*", code[above]).group(0)
    opening = next((x for x in reversed(code[:above]) if x.startswith(depth) and x[len(depth):len(depth) + 1].strip() and not x.startswith("#")), "")
    return "the last tile's last slot: nobody fills it again" if opening.strip() == "if (has_more) {" else None


def initialised_later(mutant, code):
    """An mbarrier at which no copy counts bytes: the block's barrier orders its initialisation."""
    new, old, _ = ([x.strip() for x in part] if isinstance(part, list) else part for part in changes(mutant, code))
    fence = "ftl_mbarrier_init_fence();"
    if sorted(new) != sorted(old) or fence not in old:
        return None
    moved = set(old[:old.index(fence)]) ^ set(new[:new.index(fence)])
    if moved and all(re.match(r"ftl_mbarriers_init<\d+>\(shared \+ at::(\w+_empty|numbers_\w+), \d+\);$", x) for x in moved):
        return "no copy counts at it, and the block's barrier comes before its first use"
    return None


def wider_group(mutant, code):
    new, old, _ = changes(mutant, code)
    if not new and [x.strip() for x in old] == ["ftl_wgmma_commit();"]:
        return "its products are closed with the next group; the emulator runs each as late as waits allow, and names what is released before"
    return None


PROOFS = (first_slot, second_fence, no_instruction, more_registers, last_turn, last_release, initialised_later, wider_group)


def of_cuda(mutant, code):
    """Why a mutant that the emulator let pass says the same; None: nothing is known."""
    mutant, code = statements(mutant), statements(code)
    return next(filter(None, (careful(p)(mutant, code) for p in PROOFS)), None)


CODE = """    if (is_first) {
        Q_fill.acquire(shared + at::Q_empty, shared + at::Q_full, at::Q_bytes);
        Q_fill.next();
        Q_fill.acquire(shared + at::Q_empty, shared + at::Q_full, 16);
    }
    Q_fill.acquire(shared + at::Q_empty, shared + at::Q_full, 8);
    ftl_mbarriers_init<2>(shared + at::Q_empty, 8);
    ftl_mbarriers_init<2>(shared + at::Q_full, 1);
    ftl_mbarrier_init_fence();
    ftl_registers_shrink<32>();
    ftl_registers_grow<160>();
    ftl_wgmma_fence();
    FTL_UNROLL for (int k16 = 0; k16 < 4; k16++)
        ftl_wgmma_m64n16k16_f16<0>(S, ftl_descriptor(K_right), true);
    ftl_wgmma_commit();
    if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
    K_held.wait(shared + at::K_full);
    ftl_wgmma_fence();
    P[0] = 1;
    ftl_wgmma_fence();
    ftl_keep(S);
    ftl_meet(1, 256);
    if (has_more) {
        x = 1;
        if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
    } else {
        if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
    }
    if (executor == 0) ftl_meet(1, 256);
}""".split("\n")
Q = "        ftl_mbarrier_expect(Q_fill.of(shared + at::Q_full), at::Q_bytes);"
EXAMPLES = (  # the line, what takes its place, whether that is proved
    (1, [Q], True), (1, [], False), (3, ["        ftl_mbarrier_expect(Q_fill.of(shared + at::Q_full), 16);"], False),
    (5, ["    ftl_mbarrier_expect(Q_fill.of(shared + at::Q_full), 8);"], False), (6, [], False), (8, [], False), (9, [], False), (10, [], True),
    (11, [], False), (13, [], False), (15, [], False), (16, [], False), (17, [], True), (19, [], False), (20, [], True), (21, [], False), (24, [], False), (26, [], True), (28, [], True))


def main():
    wrong = 0
    for at, new, proved in EXAMPLES:
        found = of_cuda(CODE[:at] + new + CODE[at + 1:], CODE)
        if bool(found) != proved:
            wrong += 1
            print(f"{CODE[at].strip()} -> {new}: {found or 'not proved'}")
    moves = (((6, 8), True), ((7, 8), False))
    for (first, fence), proved in moves:
        moved = [x for i, x in enumerate(CODE[:fence + 1]) if i != first] + [CODE[first]] + CODE[fence + 1:]
        if bool(of_cuda(moved, CODE)) != proved:
            wrong += 1
            print(f"{CODE[first].strip()} after the fence: {of_cuda(moved, CODE)}")
    print(f"{len(EXAMPLES) + len(moves)} examples, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
