"""Proofs about Masks of TL Code by what other statements do with the elements that they take: conditions of whole numbers that hold
for the same ones, elements that a later Mask takes anyway, and NaN that no choice of the largest looks at.
"""
import fractions
import re

from equal_blocks import covers
from equal_bounds import UNREADABLE, Drawn, before_a_colon, condition_of, draws, enclosing, lets_of
from equal_conditions import Names, base, shape_of, tree_of
from equal_logic import differ_within, hold_alike
from equal_text import changes, depth_of, lines_under

MASK = re.compile(r"\s*(Compute Mask (\w+)(?:, \S+)? in coordinate (\[[^]]*\])) where (.*)$")


def changed_mask(mutant, code):
    """The Mask whose condition alone is another one: (its match, the two conditions); None: the change is about something else."""
    new, old, _ = changes(mutant, code)
    m = [MASK.match(x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1) != m[1].group(1):
        return None
    return m[1], [tree_of(x.group(4)) for x in m]


def same_places(mutant, code):
    """A Mask whose condition says the same of all whole numbers."""
    changed = changed_mask(mutant, code)
    return "the condition holds for the same elements" if changed and hold_alike(*changed[1], Names(code)) else None


# --- elements that another Mask takes ---------------------------------------------------------------

def takes_none_else(code, guard, mask):
    """Whether a Mask takes nothing of the blocks for which the condition around it does not hold."""
    lets, condition, taken = lets_of(code), condition_of(code[guard]), MASK.match(code[mask]).group(4)
    axes = {n for n in re.findall(r"[a-z]\w*", taken) if Names(code).is_index(n)}
    loop = next((i for i in enclosing(code, guard) if before_a_colon(code[i])), None)
    if loop is None or condition is None or re.search(r"\bany\(", condition):
        return False
    index, begin, end = before_a_colon(code[loop])
    left = 0
    try:
        for d in draws(lets):
            low, high = int(d.value(begin)), int(d.value(end))
            for name in sorted(set(re.findall(r"[A-Za-z_]\w*", f"{condition} {taken}")) - axes - {index, "and", "or", "not", "min", "max"}):
                d.name(name)
            rounds = [{index: fractions.Fraction(j)} for j in range(low, min(high, low + 60))]
            skipped = [x for x in rounds if not Drawn(lets, d.r, d.known | x).value(condition)]
            left += len(skipped)
            if any(covers(code, mask, lets, d, x) != "none" for x in skipped[:1] + skipped[-2:]):
                return False
    except UNREADABLE:
        return False
    return left > 0


def masked_anyway(mutant, code):
    """A Mask that takes other elements, all of which a later Mask takes; between the two each element is made of itself, and of
    what else there is at its place."""
    changed = changed_mask(mutant, code)
    if not changed:
        return None
    (mask, conditions), at = changed, changes(mutant, code)[2]
    name, names = mask.group(2), Names(code)
    if len(shape_of(code, name)) != 2:
        return None
    for i in range(at + 1, len(code)):
        line, depth = code[i], depth_of(code[i])
        if depth < depth_of(code[at]) or re.match(r"\s*(for|else|role)\b", line):
            return None
        if base(name) not in [base(x) for x in re.findall(r"\w+", line)]:
            continue
        if depth == depth_of(code[at]) and re.match(rf"\s*Compute (Add|Subtract|Multiply|Divide|Max|Min) {name}, (?!{name}\b)[^ ]+ and get {name}$", line):
            continue
        later = MASK.match(line)
        if not later or later.group(2, 3) != mask.group(2, 3) or re.search(rf"\b{name}\b", later.group(4)):
            return None
        guard = next(iter(enclosing(code, i))) if depth > depth_of(code[at]) else None
        # Two conditions around it, or more in its block than it, are not followed.
        if guard is not None and (depth_of(code[guard]) != depth_of(code[at]) or len(lines_under(code, guard)[0]) != 1 or not takes_none_else(code, guard, i)):
            return None
        within = differ_within(*conditions, tree_of(later.group(4)), names)
        return "a later Mask takes all elements of which one of the two conditions holds alone" if within else None
    return None


# --- NaN among what is chosen from ------------------------------------------------------------------

def not_chosen(mutant, code):
    """The Mask that takes NaN out before the largest elements are chosen. RowMax and RowArgMax pass over it: the largest is the same,
    minus infinity where nothing else is left, and its place is taken where it is more than that."""
    new, old, at = changes(mutant, code)
    m = len(old) == 1 and not new and re.match(r"\s*Compute Mask (\w+) where not \1 > log\(0\)$", old[0])
    if not m:
        return None
    name, around = m.group(1), depth_of(old[0])
    uses = [i for i, x in enumerate(code) if i != at and name in [base(x) for x in re.findall(r"\w+", x)] and not x.strip().startswith("Allocate")]
    before, after = [i for i in uses if i < at], [i for i in uses if i > at]
    # It is made anew, whole, before each choice, and read by nothing else.
    made = len(before) == 1 and depth_of(code[before[0]]) == around and re.match(rf"\s*Compute \w+ .*and get {name}( by \w+)?$", code[before[0]])
    if not made or len(after) != 3 or any(depth_of(x) < around for x in code[before[0]:at]):
        return None
    largest, place, taken = [re.match(p, code[i]) for p, i in zip(
        (rf"\s*Compute RowMax {name} and get (\w+)$", rf"\s*Compute RowArgMax {name} and get (\w+)$",
         rf"\s*Compute Mask {name} in coordinate \[[^]]*\] where (\w+) == (\w+)$"), after)]
    if not largest or not place or not taken or taken.group(2) != place.group(1) or not Names(code).is_index(taken.group(1)):
        return None
    rounds = next(iter(enclosing(code, after[0])))
    if not re.match(r"\s*for \w+ = 0:\w+$", code[rounds]) or depth_of(code[rounds]) != around or any(next(iter(enclosing(code, i))) != rounds for i in after):
        return None
    if any(depth_of(x) < around for x in code[at:rounds]):
        return None
    best, chosen = largest.group(1), place.group(1)
    for i, line in enumerate(code):
        if i in after or line.strip().startswith("Allocate") or chosen not in re.findall(r"\w+", line):
            continue
        given = re.match(rf"\s*Compute Mask (\w+), {chosen} (?:in coordinate \[[^]]*\] )?where (.*)$", line)
        parts = given.group(2).split(" and ") if given else []
        held = i > after[1] and next(iter(enclosing(code, i))) == rounds and f"{best} > log(0)" in parts and not re.search(
            r"\b(or|not)\b|\(", given.group(2).replace("log(0)", ""))
        if not held or re.search(rf"\b{chosen}\b", given.group(2)):
            return None
    writes = [x for x in code if re.search(rf"\b(get|accumulate) ({best}|{chosen})\b|(Mask|Copy|Reshape) ({best}|{chosen})\b", x)]
    return "neither the largest element nor its place is that of NaN, and the place of minus infinity is not taken" if len(writes) == 2 else None


def of_masks(mutant, code):
    """Why a mutant says the same by what its Masks take; None: nothing is known."""
    return same_places(mutant, code) or masked_anyway(mutant, code) or not_chosen(mutant, code)
