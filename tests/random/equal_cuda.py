"""Proofs that a mutant of CUDA text says the same."""
import fractions
import functools
import math
import random
import re

from equal_bounds import DRAWN, Drawn, LET, body_of, bounds, condition_of, conditions, draws, enclosing, lets_of, loop_around, loops, masks_alone, unreached
from equal_copies import PROOFS as OF_COPIES
from equal_paths import PROOFS as OF_PATHS, PROOFS_BY_TL as OF_PATHS_BY_TL
from equal_registers import bare, eager, lower_maximum, names, nothing_read, past_an_end, permuted_vote, room, times_zero, written_at_first_step
from equal_text import VOTE, above, careful, changes, commutes, of_one_word, order, order_of_sums, references
from equal_tl import nothing_comes_of_it
from equal_ways import PROOFS as OF_WAYS, first_barrier, under_a_vote


def statements(lines):
    """CUDA text with one statement, or the head of one, a line; numbers that are declared together, each by itself."""
    found, begun = [], ""
    for line in lines:
        begun = f"{begun} {line.strip()}" if begun else line.rstrip()
        whole = begun.count("(") == begun.count(")")
        text = begun.strip()
        head = re.match(r"(FTL_UNROLL )?(for|if|while) \(.*\)$", text) or text == "else" or text.startswith("#")
        if not whole or not (head or text[-1:] in ";{}"):
            continue
        together = re.match(r"(\s*const int )(\w+ = \w+(?:, \w+ = \w+)+);$", begun)
        found += [f"{together.group(1)}{part};" for part in together.group(2).split(", ")] if together else [begun]
        begun = ""
    return found + ([begun] if begun else [])


def effects_of_cuda(line):
    """What a statement writes and all that it names; None: not known."""
    line = line.strip()
    m = re.match(r"(?:const \w+ )?(\w+(?:\[[^=]*?\])*) ([-+*^|&]?)= (.*);$", line)
    if m:
        return [references(m.group(1))[0]], references(line)
    m = re.match(r"ftl_(\w+?)(?:<[^;]*>)?\((.*)\);$", line)
    if not m:
        return None
    if "mma" in m.group(1) and references(m.group(2)):
        return [references(m.group(2))[0]], references(m.group(2))
    if re.match(r"tma_load|block_barrier|mbarrier_(try_)?wait|mbarrier_expect", m.group(1)):
        return [("memory", [])], references(m.group(2)) + [("memory", [])]
    return None


# --- ways of CUDA text ----------------------------------------------------------------------------

def whole_blocks(mutant, code):
    """The way of whole blocks, taken more seldom: that of cut ones does for both."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    before, now = condition_of(old[0]), condition_of(new[0])
    if not before or not now or not re.match(r"\s*if \((rows|columns)_left >= ", old[0]) or set(re.findall(r"[a-z]\w*", now)) - {"rows_left", "columns_left", "and", "or", "not", "false"}:
        return None
    r, sides = random.Random(1), re.findall(r"\d+", old[0])
    near = [int(x) + k for x in sides for k in (-1, 0, 1, 2)] + [0, 1, 5, 1000]
    for _ in range(DRAWN):
        scope = {"rows_left": r.choice(near), "columns_left": r.choice(near), "false": False}
        if eval(now, {}, scope) and not eval(before, {}, scope):
            return None
    return "whole blocks by the way of cut ones, which does for both"


def groups(mutant, code):
    """A group of copies that is not closed by itself: the emulator counts groups, and a copy lands as late as waits let it."""
    new, old, _ = changes(mutant, code)
    if not new and len(old) == 1 and old[0].strip() == "ftl_cp_async_commit();":
        return "its copies are closed with the next group, or waited for by wait<0>; the emulator lets each land as late as waits allow, at every number of blocks up to several"
    return None


def first_of_a_ring(mutant, code):
    """A loader's wait for a slot that nobody has had yet; a reader's signal after which no tile comes."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or new and new[0] != old[0].replace("if (lane == 0)", "if (true)", 1):
        return None
    m = not new and re.match(r"\s*ftl_mbarrier_try_wait\(shared \+ \d+ \+ 8 \* (\w+_fill), \1_parity\);", old[0])
    if m:
        above = next(iter(enclosing(code, at)), None)
        inside = code[above + 1:at] if above is not None else []
        if above is not None and code[above].strip() == "if (is_first) {" and not any(m.group(1) + " =" in x for x in inside):
            return "the first fill of a ring finds its slot free"
    if re.match(r"\s*if \(lane == 0\) ftl_mbarrier_signal\(", old[0]):
        above = next(iter(enclosing(code, at)), None)
        if above is not None and code[above].strip() == "} else {":
            depth = len(code[above]) - len(code[above].lstrip())
            opening = next((x for x in reversed(code[:above]) if x.strip() and len(x) - len(x.lstrip()) == depth and not x.startswith("#")), "")
            if opening.strip() == "if (has_more) {":
                return "the last tile's last slot: nobody fills it again"
    return None


def let_of_masks(mutant, code):
    """A number that conditions on masks alone are made of, by which as many blocks are masked, or more."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    a, b = LET.match(new[0]), LET.match(old[0])
    if not a or not b or a.group(1) != b.group(1):
        return None
    name, lets = b.group(1), (lets_of(mutant), lets_of(code))
    uses = [i for i, x in enumerate(code) if re.search(rf"\b{name}\b", x) and not LET.match(x) and not re.search(r"tile_place ?\{", x)]
    if not uses or name not in lets[1]:
        return None
    for i in uses:
        way = re.match(r"\s*if \(__builtin_expect\(\((.*)\) \|\| eager, 0\)\) \{$", code[i])
        if way and code[i + 1].strip() == f"if ({way.group(1)}) {{":
            continue
        condition = condition_of(code[i])
        body = body_of(code, i)
        if condition is None or not re.match(r"\s*if ", code[i]) or not masks_alone(body):
            return None
        index = next((n for n in re.findall(r"[a-z]\w*", condition) if loop_around(code, i, n)), None)
        for before in draws(lets[1]):
            if index:
                low, high = [int(before.value(x)) for x in loop_around(code, i, index)]
                if high <= low:
                    continue
                before.known[index] = fractions.Fraction(before.r.randrange(low, high))
            held = before.value(condition)
            free = {n: v for n, v in before.known.items() if n not in lets[1] or n.endswith("_block") or n == index}
            if held and not Drawn(lets[0], before.r, free).value(condition):
                return None
    return "as many blocks are masked, or more"


def past_the_guard(mutant, code):
    """A step more of a loop, under a condition that ends it as well."""
    new, old, at = changes(mutant, code)
    loop = r"\s*FTL_UNROLL for \(int (\w+) = 0; \1 (<=?) (\d+)( \+ 1)?; \1\+\+\) \{$"
    if len(new) != 1 or len(old) != 1 or not re.match(loop, new[0]) or not re.match(loop, old[0]):
        return None
    name, before, steps = re.match(loop, old[0]).group(1, 2, 3)
    more = re.match(loop, new[0])
    if before != "<" or more.group(2) == "<=" and (more.group(4) or more.group(3) != steps):
        return None
    guard = re.match(rf"if \(row \+ (\d+) \* {name} < (\d+)\) \{{$", code[at + 1].strip())
    depth = len(old[0]) - len(old[0].lstrip())
    alone = [x for x in code[at + 1:] if not x.startswith("#") and len(x) - len(x.lstrip()) <= depth + 4]
    if guard and more.group(1) == name and int(more.group(3)) >= int(steps) and int(guard.group(1)) * int(steps) >= int(guard.group(2)) and alone[1].strip() == "}":
        return "the condition under the loop ends it: rows of a tile are counted from 0"
    return None


def divides(line, length, other):
    """Whether what must hold at a launch, by an Input's line, makes a length one that another divides."""
    held = re.sub(r"//.*", "", line).partition(" where ")[2]
    parts = [x.strip() for x in held.split(" and ")]
    return " or " not in held and any(x in (f"{length} % {other} == 0", f"{length} == {other}", f"{other} == {length}", f"{other} == 1") for x in parts)


def without_effect(mutant, code, tl):
    """Conditions that let in what does nothing, and what is left in registers for a tile that does not come."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1:
        return None
    now, was = new[0].strip() if new else "", old[0].strip()
    if was == "if (left > 0) {" and now == "if (true) {" and re.match(r"if \(left >= \d+\)$", code[at + 1].strip()):
        body = body_of(code, at)
        if len(body) in (4, 5) and body[2] == "else" and re.match(r"ftl_store_global_\w+_part\(.*, left\);$", body[3]):
            return "of a part of no elements none is stored"
    divided = re.search(r"ftl_divide_(up|down)\(args\.(\w+), args\.(\w+)\)", was)
    if divided and any(divides(x, divided.group(2), divided.group(3)) for x in tl):
        other = divided.group(0).replace("_up", "_?").replace("_down", "_up").replace("_?", "_down")
        if now == was.replace(divided.group(0), other, 1):
            return "a launch has lengths that divide without a rest"
    above = ([at] if now == "if (false) {" else []) + list(enclosing(code, at))
    holds = next((re.match(r"if \(!(\w+_holds)\) \{$", code[i].strip()) for i in above if re.match(r"\s*if \(!\w+_holds\) \{$", code[i])), None)
    if holds:
        set_at = next((i for i in range(at - 1, 0, -1) if code[i].strip() == f"{holds.group(1)} = true;"), None)
        around = set_at and next((code[i].strip() for i in enclosing(code, set_at)), "")
        least = lets_of(code).get("blocks", "")
        if around and re.match(r"for \(int (\w+) = 0; \1 < (tile\.)?blocks; \1\+\+\) \{$", around) and least.startswith("ftl_max_integer(1, "):
            return "there is a block at least, and its product begins the sum"
    copied = re.match(r"(\w+)(\[\w+\])+ = \w+(\[\w+\])+;$", bare(code[min(at + 1, len(code) - 1)] if was.endswith(")") else was))
    last = next((i for i in above if code[i].strip() == "} else {"), None)
    if copied and last is not None:
        depth = len(code[last]) - len(code[last].lstrip())
        opening = next((x.strip() for x in reversed(code[:last]) if x.strip() and not x.startswith("#") and len(x) - len(x.lstrip()) == depth), "")
        end = next(i for i in range(last + 1, len(code)) if len(code[i]) - len(code[i].lstrip()) == depth)
        within = {w for x in code[at + 2:end] for w in names(bare(x))}
        after = {w for x in code[end:] for w in names(x)}
        if opening == "if (has_more) {" and copied.group(1) not in within | after:
            return "the last tile leaves it for one that does not come"
    return None


def dead_in_tl(mutant, code, tl):
    """A tile of the TL Code, by the same name here, of which no Output is made."""
    new, old, _ = changes(mutant, code)
    known = {w for line in tl for w in re.findall(r"\w+", line)}
    written = {w[0] for line in new + old for w in (effects_of_cuda(line) or ((None,),))[0]}
    return nothing_comes_of_it(mutant, code, tl, effects_of_cuda) if written <= known else None


def slot_of_two(mutant, code):
    """A number that is 0 or 1 is at least 1 where it is 1."""
    new, old, _ = changes(mutant, code)
    if len(new) == len(old) == 1:
        m = re.match(r"\s*(\w+_(?:parity|slot|fill)) (?:\^?=) (\w+_(?:slot|fill)) == 1\b", old[0])
        if m and new[0] == old[0].replace(f"{m.group(2)} == 1", f"{m.group(2)} >= 1", 1):
            return "a ring of two slots: at least 1 is 1"
    return None


def apart_in_shared(mutant, code):
    """Two stores of a thread into 16 bytes each of shared memory, which lie beside one another."""
    new, old, _ = changes(mutant, code)
    stores = [re.match(r"\s*ftl_store_shared_16\((\w+)(?: (\^|\+) (\d+))?, \w+\);$", x) for x in old]
    if len(old) != 2 or new != old[::-1] or not all(stores) or stores[0].group(1) != stores[1].group(1):
        return None
    plain, moved = sorted(stores, key=lambda m: m.group(2) is not None)
    if plain.group(2) is None and moved.group(2) and int(moved.group(3)) >= 16 and int(moved.group(3)) % 16 == 0:
        return "two stores to places that lie 16 bytes apart, or more"
    return None


def kept_always_or_never(mutant, code):
    """The way on which the maximum is kept at once, where nothing goes by its condition but one around it."""
    new, old, _ = changes(mutant, code)
    condition = "__builtin_expect(eager, 0)"
    if len(new) != 1 or len(old) != 1 or old[0].strip() != f"if ({condition}) {{":
        return None
    others = [x for x in code if re.search(r"\beager\b", x) and x.strip() != old[0].strip()]
    around = r"\s*(const bool eager = .*;|if \(__builtin_expect\((\(.*\)|\w+ >= [\w.]+) \|\| eager, 0\)\) \{)$"
    ways = [old[0].replace(condition, x) for x in ("true", "false", "__builtin_expect(0, eager)")]
    return "the maximum is kept at once always, or never: both ways give the same" if new[0] in ways and all(re.match(around, x) for x in others) else None


# --- the whole ------------------------------------------------------------------------------------

ONE_WORD = (
    (r"any_\d+ \|= !\(part\S* < (32768\.0f)\);$", above(-math.inf, 65504), VOTE),
    (r"any_\d+ \|= !\(part\S* < (9e\+?18f)\);$", above(-math.inf, 1e37), VOTE),
    (r"any_\d+ \|= !\(part\S* (<) [\d.e+]+f\);$", lambda old, new: new in ("<=", "=="), VOTE),
    (r"^if \((ftl_any\(any_\d+\))\) \{$", lambda old, new: new == "true", VOTE),
    (r"ftl_max\(\S+, ([\d.]+e-\d+f)\);$", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
)


PROOFS = (kept_always_or_never, functools.partial(of_one_word, ONE_WORD), commutes, lambda mutant, code: order(mutant, code, effects_of_cuda), order_of_sums,
          eager, permuted_vote, room, lower_maximum, nothing_read, past_an_end, times_zero, written_at_first_step, let_of_masks, past_the_guard,
          whole_blocks, groups, first_of_a_ring, slot_of_two, apart_in_shared, unreached, bounds, conditions, loops) + OF_WAYS + OF_COPIES + OF_PATHS
PROOFS_BY_TL = (without_effect, dead_in_tl, under_a_vote, first_barrier) + OF_PATHS_BY_TL


def of_cuda(mutant, code, tl):
    """Why a mutant of CUDA text, of which 'tl' is the TL Code, says the same; None: nothing is known."""
    mutant, code = statements(mutant), statements(code)
    proofs = (careful(p)(mutant, code) for p in PROOFS)
    return next(filter(None, proofs), None) or next(filter(None, (careful(p)(mutant, code, tl) for p in PROOFS_BY_TL)), None)
