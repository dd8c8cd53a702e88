"""Proofs that a mutant of CUDA text says the same."""
import math
import random
import re

from equal_bounds import DRAWN, bounds, condition_of, conditions, enclosing, loops, unreached
from equal_text import VOTE, above, careful, changes, commutes, of_one_word, order, order_of_sums, references
from equal_tl import nothing_comes_of_it


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
    if new or len(old) != 1:
        return None
    m = re.match(r"\s*ftl_mbarrier_try_wait\(shared \+ \d+ \+ 8 \* (\w+_fill), \1_parity\);", old[0])
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


def slot_of_two(mutant, code):
    """A number that is 0 or 1 is at least 1 where it is 1."""
    new, old, _ = changes(mutant, code)
    if len(new) == len(old) == 1:
        m = re.match(r"\s*(\w+_(?:parity|slot|fill)) (?:\^?=) (\w+_(?:slot|fill)) == 1\b", old[0])
        if m and new[0] == old[0].replace(f"{m.group(2)} == 1", f"{m.group(2)} >= 1", 1):
            return "a ring of two slots: at least 1 is 1"
    return None


# --- the whole ------------------------------------------------------------------------------------

ONE_WORD = (
    (r"any_\d+ \|= !\(part\S* < (32768\.0f)\);$", above(-math.inf, 65504), VOTE),
    (r"any_\d+ \|= !\(part\S* < (9e\+?18f)\);$", above(-math.inf, 1e37), VOTE),
    (r"any_\d+ \|= !\(part\S* (<) [\d.e+]+f\);$", lambda old, new: new in (">", ">=", "<=", "!="), VOTE),
    (r"^if \((ftl_any\(any_\d+\))\) \{$", lambda old, new: new == "true", VOTE),
    (r"^if \((__builtin_expect\(eager, 0\))\) \{$", lambda old, new: new == "true", "the maximum is kept at once always: both ways give the same"),
    (r"ftl_max\(\S+, ([\d.]+e-\d+f)\);$", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
)


@careful
def of_cuda(mutant, code, tl):
    """Why a mutant of CUDA text, of which 'tl' is the TL Code, says the same; None: nothing is known."""
    mutant, code = statements(mutant), statements(code)
    return (of_one_word(ONE_WORD, mutant, code) or commutes(mutant, code) or order(mutant, code, effects_of_cuda) or order_of_sums(mutant, code)
            or whole_blocks(mutant, code) or groups(mutant, code) or first_of_a_ring(mutant, code) or slot_of_two(mutant, code)
            or nothing_comes_of_it(mutant, code, tl, effects_of_cuda) or unreached(mutant, code) or bounds(mutant, code) or conditions(mutant, code) or loops(mutant, code))
