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


def of_products(code):
    """Names of the registers that asynchronous products read or write."""
    names = set()
    for line in code:
        m = re.match(r"\s*ftl_wgmma_m64\w+(?:<[^;(]*>)?\((.*)", line)
        if m:
            names |= set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"ftl_descriptor\(.*?\), ", "", m.group(1), count=2)))
    return names


def depth_of(line):
    return len(line) - len(line.lstrip())


def second_fence(mutant, code):
    new, old, at = changes(mutant, code)
    if new or [x.strip() for x in old] != ["ftl_wgmma_fence();"]:
        return None
    registers, deeper = of_products(code), False
    for line in reversed(code[:at]):
        if line.strip() == "ftl_wgmma_fence();" and depth_of(line) == depth_of(old[0]):
            return "no register of a product is touched after the fence before"
        if depth_of(line) < depth_of(old[0]) and not line.startswith("#"):
            return None                             # what comes before is perhaps done but once
        if re.match(NO_TOUCH, line):
            continue
        if registers & set(re.findall(r"[A-Za-z_]\w*", line)) or re.search(r"asm|goto|return|break|continue", line):
            return None
    return None


MEETS = r"\s*(ftl_meet(_later)?\([^;]*\);|\w+_held\.wait\([^;]*\);)$"


def moved_fence(mutant, code):
    """It orders registers: what other warps are told or waited for at the same place is nothing to it."""
    new, old, _ = changes(mutant, code)
    if sorted(new) == sorted(old) and len(old) == 2 and any(x.strip() == "ftl_wgmma_fence();" for x in old) and any(re.match(MEETS, x) for x in old):
        return "the fence is for registers, which no barrier touches"
    return None


READS = r"ftl_(ldmatrix|load_shared|lds|stmatrix)|ftl_wgmma_m64|ftl_tma_store|ftl_descriptor|ftl_cp_async_wait|asm|goto|return|break|continue"
WRITES = r"\s*(ftl_store_shared_\w+|ftl_cp_async_16\w*(?:<\d+>)?)\(\(?(\w+)"


def barrier_between_stores(mutant, code):
    """A barrier with nothing but stores to different tiles before it and after it, between two others of the same block."""
    new, old, at = changes(mutant, code)
    if new or [x.strip() for x in old] != ["ftl_block_barrier();"]:
        return None
    sides = []
    for lines in (code[at - 1::-1], code[at + 1:]):
        places, met = set(), False
        for line in lines:
            if depth_of(line) < depth_of(old[0]) and not line.startswith("#"):
                return None
            if line.strip() == "ftl_block_barrier();":
                met = depth_of(line) == depth_of(old[0])
                break
            if re.search(READS, line) or re.match(r"\s*ftl_cp_async", line):
                return None
            stored = re.match(WRITES, line)
            if stored:
                places.add(stored.group(2))
            elif re.search(r"ftl_\w*(shared|bulk|tma|mbarrier)\w*\(", line):
                return None
        if not met:
            return None
        sides.append(tiles_of(code, at, places, lines))
    if None in sides or sides[0] & sides[1]:
        return None
    return "another barrier comes before what is stored is read, and one came before it was stored"


def tiles_of(code, at, places, lines):
    """The tiles in which those addresses begin; None: not known."""
    found = set()
    for place in places:
        begins = [m.group(1) for m in (re.match(rf"\s*unsigned {place} = (\w+_shared);$", x) for x in lines) if m]
        moved = [x for x in lines if re.match(rf"\s*{place} \S*= ", x) and not re.match(rf"\s*{place} \+= \(unsigned\)\(line \* ", x)]
        if not begins or moved:
            return None
        found |= set(begins)
    return found if all(any(re.match(rf"\s*const unsigned {x} = shared \+ at::\w+;$", y) for y in code[:at]) for x in found) else None


def later_wait(mutant, code):
    """A wait for copies before another one for as many or more, with no read between the two."""
    new, old, at = changes(mutant, code)
    was = len(old) == 1 and re.match(r"\s*ftl_cp_async_wait<(\d+)>\(\);$", old[0])
    if new or not was:
        return None
    base, covered = depth_of(old[0]), None
    for i, line in enumerate(code[at + 1:], at + 1):
        if line.startswith("#"):
            continue
        if covered is not None:
            if depth_of(line) >= covered:
                continue
            covered = None
        if depth_of(line) < base:                       # the end of the kernel, or of less
            return "each read comes after a wait for all copies" if not any(x.strip() for x in code[i + 1:]) else None
        wait = re.match(r"\s*ftl_cp_async_wait<(\d+)>\(\);$", line)
        if wait and int(wait.group(1)) == 0:
            if depth_of(line) == base:
                return "a wait for all copies comes before anything reads"
            covered = depth_of(line)
        elif re.search(READS.replace("|ftl_cp_async_wait", ""), line):
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


def waited_by_mbarrier(mutant, code):
    """A wait for a thread's own copies, where what comes next is an mbarrier at which every thread arrives once its copies, those
    included, are there (PTX ISA, cp.async.mbarrier.arrive), and nothing is read before."""
    new, old, at = changes(mutant, code)
    if new or len(old) != 1 or not re.match(r"\s*ftl_cp_async_wait<0>\(\);$", old[0]):
        return None
    depth = depth_of(old[0])
    if any(re.match(r"\s*(for|while) ", code[i]) for i in enclosing(code, at)):
        return None
    after = next((i for i in range(at + 1, len(code)) if "ftl_mbarrier_wait(" in code[i]), None)
    barrier = after and re.match(r"\s*ftl_mbarrier_wait\(shared \+ at::(\w+_full)\b", code[after])
    harmless = r"\s*(ftl_block_barrier\(\);|\w+_shared = [^()]*(\([^()]*(\([^()]*\))*[^()]*\)[^()]*)*;)$"
    if not barrier or depth_of(code[after]) != depth or not all(re.match(harmless, x) and depth_of(x) == depth for x in code[at + 1:after]):
        return None
    # All that fills such a slot comes after the last of the copies that are waited for, and no thread leaves it out.
    committed = [i for i in range(at) if "ftl_cp_async_commit()" in code[i]]
    arrives = [i for i, x in enumerate(code) if f"at::{barrier.group(1)}" in x and "ftl_mbarrier_wait(" not in x and not re.match(r"\s*(if \([^;]*\) )?ftl_mbarriers?_init", x)]
    by_copies = arrives and all("ftl_mbarrier_arrive_after_copies(" in code[i] for i in arrives)
    first = [i for i in arrives if i < at]
    fits = committed and first and min(arrives) > committed[-1] and all(depth_of(code[i]) == depth for i in first)
    return "an mbarrier at which all threads arrive after these copies is waited for before anything reads" if by_copies and fits else None


PROOFS = (waited_by_mbarrier, first_slot, second_fence, moved_fence, barrier_between_stores, later_wait, no_instruction, more_registers, last_turn, last_release, initialised_later, wider_group)


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
        ftl_wgmma_m64n16k16_f16_left<0>(S, P[0], ftl_descriptor(K_right), true);
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


FENCES = """    ftl_wgmma_fence();
    ftl_wgmma_m64n16k16_f16_left<0>(S, P[0], ftl_descriptor(K_right), true);
    ftl_wgmma_commit();
    {
        ftl_load_global_f32x2(R[0], R[1], matrix);
    }
    ftl_meet(1, 256);
    ftl_wgmma_fence();
    ftl_wgmma_m64n16k16_f16_left<0>(O, P[0], ftl_descriptor(V_right), true);
}"""
FENCE = "    ftl_wgmma_fence();"
BARRIERS = """    const unsigned Q_shared = shared + at::Q_tile;
    const unsigned K_shared = shared + at::K_tile;
    for (int j = 0; j < blocks; j++) {
        ftl_block_barrier();
        {
            unsigned target = Q_shared;
            target += (unsigned)(line * 64);
            ftl_store_shared_16(target, a);
        }
        ftl_block_barrier();
        ftl_load_global_16(b, source);
        {
            unsigned place = K_shared;
            ftl_store_shared_4((place ^ 16), b);
        }
        ftl_block_barrier();
        ftl_ldmatrix_x4(c[0], c[1], c[2], c[3], Q_shared);
    }
}"""
WAITS = """kernel() {
    ftl_cp_async_commit();
    ftl_cp_async_wait<2>();
    ftl_block_barrier();
    for (int j = 0; j < steady; j++) {
        ftl_cp_async_wait<0>();
        ftl_block_barrier();
        ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], Q_shared);
    }
    ftl_store_global_f32(vector, a[0]);
}"""
RINGS = """kernel() {
    ftl_mbarriers_init<3>(shared + at::KV_full, 128);
    ftl_cp_async_16(target, source);
    ftl_cp_async_commit();
    ftl_cp_async_16(target, source);
    ftl_mbarrier_arrive_after_copies(shared + at::KV_full + KV_shared);
    ftl_cp_async_wait<0>();
    ftl_block_barrier();
    KV_shared = KV_shared < shared + (at::KV_tile + at::KV_slot) ? KV_shared + at::KV_slot : (KV_shared ^ 1) - at::KV_slot;
    ftl_mbarrier_wait(shared + at::KV_full + (KV_shared - shared), KV_shared & 1);
    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], Q_shared);
}"""
ARRIVES = "    ftl_mbarrier_arrive_after_copies(shared + at::KV_full + KV_shared);"
# A text, what is changed of it beforehand, the line that goes (with which it changes places), whether that is proved.
TEXTS = (
    (FENCES, "", "", 7, None, True), (FENCES, "R[0], R[1]", "O[0], R[1]", 7, None, False), (FENCES, "R[0], R[1]", "R[0], P[1]", 7, None, False),
    (FENCES, "    {\n", "    ftl_subtract(S[0]);\n    {\n", 8, None, False), (FENCES, FENCE + "\n    ftl_wgmma_m64n16k16_f16_left<0>(S", "    if (j > 0) {\n        ftl_wgmma_fence();\n    }\n    ftl_wgmma_m64n16k16_f16_left<0>(S", 9, None, False),
    (FENCES, "", "", 7, 6, True), (FENCES, "", "", 7, 8, False), (FENCES, "ftl_meet(1, 256)", "O[0] = ftl_add(O[0], 1.0f)", 7, 6, False),
    (BARRIERS, "", "", 9, None, True), (BARRIERS, "", "", 3, None, False), (BARRIERS, "", "", 15, None, False), (BARRIERS, "place = K_shared", "place = Q_shared", 9, None, False),
    (BARRIERS, "ftl_load_global_16(b, source)", "ftl_load_shared_16(b, Q_shared)", 9, None, False), (BARRIERS, "place = K_shared", "place = other", 9, None, False),
    (BARRIERS, "ftl_load_global_16(b, source)", "ftl_cp_async_16(K_shared, source)", 9, None, False),
    (RINGS, "", "", 6, None, True), (RINGS, "    ftl_block_barrier();\n", "    ftl_block_barrier();\n    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], Q_shared);\n", 6, None, False),
    (RINGS, ARRIVES, "    ftl_mbarrier_signal(shared + at::KV_full + KV_shared);", 6, None, False), (RINGS, "at::KV_full + (KV", "at::KV_empty + (KV", 6, None, False),
    (RINGS, ARRIVES, ARRIVES + "\n    ftl_cp_async_commit();", 7, None, False), (RINGS, ARRIVES, "    if (warp == 0) {\n    " + ARRIVES + "\n    }", 8, None, False),
    (RINGS, "    ftl_mbarriers_init<3>", ARRIVES + "\n    ftl_mbarriers_init<3>", 7, None, False), (RINGS, "wait<0>", "wait<1>", 6, None, False),
    (WAITS, "", "", 2, None, True), (WAITS, "", "", 5, None, False), (WAITS, "        ftl_cp_async_wait<0>();\n", "        ftl_cp_async_wait<1>();\n", 2, None, False),
    (WAITS, "    ftl_store_global_f32", "    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], K_shared);\n    ftl_store_global_f32", 2, None, False))


def in_texts():
    """What is said wrongly of the texts above."""
    wrong = []
    for text, old, new, at, other, proved in TEXTS:
        code = text.replace(old, new, 1).split("\n")
        mutant = code[:at] + code[at + 1:]
        if other is not None:
            mutant = list(code)
            mutant[at], mutant[other] = code[other], code[at]
        if bool(of_cuda(mutant, code)) != proved:
            wrong.append(f"{code[at].strip()} ({old.strip()} -> {new.strip()}): {of_cuda(mutant, code)}")
    return wrong


def main():
    found = in_texts()
    print("\n".join(found), end="\n" * bool(found))
    wrong = len(found)
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
    print(f"{len(EXAMPLES) + len(moves) + len(TEXTS)} examples, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
