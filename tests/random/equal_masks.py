"""Proofs about Masks of TL Code by what other statements do with the elements that they take: conditions of whole numbers that hold
for the same ones, elements that a later Mask takes anyway, NaN that no choice of the largest looks at, rounds in which nothing is left to choose from,
and rows that are not stored.
"""
import fractions
import re

from equal_blocks import covers
from equal_bounds import UNREADABLE, Drawn, before_a_colon, condition_of, draws, enclosing, lets_of
from equal_conditions import Names, base, shape_of, tree_of
from equal_logic import Logic, differ_within, hold_alike, holds_below
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


def nothing_left(mutant, code):
    """A round more or less in which the largest element of each row is chosen and taken out, where there are no more elements than
    rounds: minus infinity is left, and its place is not taken."""
    new, old, at = changes(mutant, code)
    loops = [before_a_colon(x[0]) if len(x) == 1 else None for x in (new, old)]
    if not all(loops) or loops[0][:2] != loops[1][:2] or loops[1][1] != "0":
        return None
    names, (body, end), depth = Names(code), lines_under(code, at), depth_of(old[0])
    rounds = [Logic(names).sum_of(tree_of(x[2])) for x in loops]
    parts = [re.match(p, x) for p, x in zip((r"\s*Compute RowMax (\w+) and get (\w+)$", r"\s*Compute RowArgMax (\w+) and get (\w+)$",
                                             r"\s*Compute Mask (\w+) in coordinate \[[^]]*\] where (\w+) == (\w+)$"), body)]
    if len(parts) != 3 or not all(parts) or len({x.group(1) for x in parts}) != 1 or parts[2].group(3) != parts[1].group(2) or any(set(x) != {""} for x in rounds):
        return None
    left, best, place, index = parts[0].group(1), parts[0].group(2), parts[1].group(2), parts[2].group(2)
    count = names.known_length(index) if names.is_index(index) and names.length(index) in shape_of(code, left) else None
    if count is None or len({left, best, place}) != 3 or min(x[""] for x in rounds) < count:
        return None
    for line in body[3:]:
        given = re.match(r"\s*Compute Mask (\w+), \w+ (?:in coordinate \[[^]]*\] )?where (.*)$", line)
        if not given or given.group(1) in (left, best, place) or f"{best} > log(0)" not in given.group(2).split(" and ") or re.search(r"\b(or|not)\b", given.group(2)):
            return None
    # What is left is made anew before, and nothing else looks at it.
    outside = [(i, x) for i, x in enumerate(code) if not at <= i <= end and not x.strip().startswith("Allocate") and {left, best, place} & {base(w) for w in re.findall(r"\w+", x)}]
    made = outside and re.match(rf"\s*Compute (?!Mask)\w+ (?!.*\b{left}\b.* and ).* and get {left}$", outside[0][1])
    alone = all(i < at and depth_of(x) == depth and re.match(rf"\s*Compute .*\b{left}\b", x) for i, x in outside)
    return "every element has been taken out before the last round" if made and alone and all(depth_of(x) >= depth for x in code[outside[0][0]:at]) else None


# --- rows that are not stored -----------------------------------------------------------------------

def rows_alone(code, first, tile, coordinate):
    """The length of the rows that a tile has, from a line on where each row is computed by itself and those past the last one are not
    stored; None: it is not known."""
    block = re.match(r"\[(?:\w+, )*L = (\w+)", coordinate)
    length = block and next((x.group(1) for x in (re.search(rf"\b{block.group(1)} in (\w+)/B\w+", x) for x in code if x.startswith("grid ")) if x), None)
    tiles = [re.match(r"\s*Allocate ([\w, ]+) in register \w+ \((\w+)", x) for x in code]
    rows = {n: x.group(2) for x in tiles if x for n in x.group(1).split(", ")}
    own = rows.get(base(tile), "")
    if not length or not own.startswith("B"):
        return None
    # Votes look at several rows, and so do products with a tile that comes from registers.
    shared = [re.match(r"\s*Copy (\w+) from register to shared", x) for x in code[first:]]
    if any(re.search(r"\bany\(", x) for x in code[first:]) or any(x and rows.get(base(x.group(1))) == own for x in shared):
        return None
    stored = [x for x in code[first:] if re.search(r" to global( |$)", x)]
    return length if all(re.search(rf"coordinate \[(?:\w+, )*L = {block.group(1)}\b", x) for x in stored) else None


def takes_nothing(mutant, code):
    """A Mask that takes no element, or nothing but elements of rows past the last one."""
    new, old, _ = changes(mutant, code)
    m = [MASK.match(x) for x in new + old]
    if len(old) != 1 or len(new) > 1 or not all(m) or len({x.group(2) for x in m}) != 1:
        return None
    names, shape = Names(code), shape_of(code, m[0].group(2))
    conditions = [tree_of(f"not ({x.group(4)})") for x in m]
    if all(holds_below(x, names, shape) for x in conditions):
        return "no element is taken"
    length = rows_alone(code, 0, *m[0].group(2, 3))
    return "only rows past the last one are taken, which are not stored" if length and all(holds_below(x, names, shape | {length}) for x in conditions) else None


def of_masks(mutant, code):
    """Why a mutant says the same by what its Masks take; None: nothing is known."""
    return same_places(mutant, code) or masked_anyway(mutant, code) or not_chosen(mutant, code) or nothing_left(mutant, code) or takes_nothing(mutant, code)
