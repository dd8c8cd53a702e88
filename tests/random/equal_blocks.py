"""Proofs about which of two loops a block goes to, and about a block of which nothing is seen."""
import fractions
import re

from equal_bounds import LET, UNREADABLE, Drawn, before_a_colon, condition_of, draws, enclosing, free_of, lets_of, made_of
from equal_text import changes, depth_of, lines_under
from equal_votes import holds_at, masks_of_scores

TERM = re.compile(r"(\w+) (<|<=|>|>=) ([\w +-]+)$")


def axes_of_sizes(code):
    """Which axis a tile's size counts: the one that copies of an Input have there."""
    inputs = {m.group(1): re.findall(r"\w+", re.sub(r" in \w+", "", m.group(2)))
              for m in (re.match(r"Input +(\w+) \w+ \(([^)]*)\)", x) for x in code) if m}
    found = {}
    for line in code:
        m = re.match(r"\s*Copy (\w+) \((\w+(?:, \w+)*)\) in coordinate .* from global", line)
        if m and m.group(1) in inputs:
            for size, axis in zip(reversed(m.group(2).split(", ")), reversed(inputs[m.group(1)])):
                if size.startswith("B") and found.setdefault(size, axis) != axis:
                    found[size] = None
    return found


def corners(code, mask, drawn, known, rows=None):
    """The corners of the tile that a Mask covers (of its rows, if they are named, those that exist), as {index: number}; None: its axes are not known by the grid and by a loop around."""
    m = re.match(r"\s*Compute Mask (\w+)(?:, \S+)? in coordinate \[(?:\w+, )*L = (\w+), L = (\w+)\] where ", code[mask])
    sizes = m and next((x for x in code if re.match(rf"\s*Allocate (?:\w+, )*{m.group(1)}(?:, \w+)* in register \w+ \((B\w+), (B\w+)\)", x)), None)
    if not sizes:
        return None
    tile, axes = re.search(r"\((B\w+), (B\w+)\)", sizes).groups(), axes_of_sizes(code)
    if not axes.get(tile[0]) or not axes.get(tile[1]) or axes[tile[0]] == axes[tile[1]]:
        return None
    ends = []
    for size, block in zip(tile, m.group(2, 3)):
        first = (known[block] if block in known else drawn.name(block)) * drawn.name(size)
        last = first + drawn.name(size) - 1
        if axes[size] == rows:                      # those past the last one are not stored
            last = min(last, drawn.name(f"{rows}_len") - 1)
        ends.append([(axes[size], first), (axes[size], last)])
    return [dict((a, b)) for a in ends[0] for b in ends[1]]


def covers(code, mask, lets, drawn, known, rows=None):
    """How many elements of its tile a Mask takes: "all", "none", or "some", as far as the corners tell of comparisons one by one."""
    terms = [TERM.match(x) for x in code[mask].split(" where ")[1].split(" or ")]
    places = corners(code, mask, drawn, known, rows)
    if not all(terms) or not places:
        raise ValueError(code[mask])
    values = [[bool(Drawn(lets, drawn.r, drawn.known | known | place).value(term.group(0))) for place in places] for term in terms]
    return "all" if any(all(x) for x in values) else "none" if not any(any(x) for x in values) else "some"


# --- from one loop to the next --------------------------------------------------------------------

def round_of(code, loop, index, lets, drawn, known):
    """What a round of a loop does: statements that compute, and copies. Masks that take nothing do nothing."""
    body, last = lines_under(code, loop)
    computed, copied, at = [], [], loop + 1
    while at < last:
        line = code[at].strip()
        if line.startswith("if "):
            condition = condition_of(code[at])
            inside, end = lines_under(code, at)
            if any(x.strip() == "else" for x in code[at:end + 1]):
                raise ValueError(line)
            at = at + 1 if Drawn(lets, drawn.r, drawn.known | known).value(condition) else end + 1
            continue
        if re.match(r"Copy .* from global to (shared|register)", line):
            copied.append(line)
        elif line.startswith("Compute Mask"):
            if covers(code, at, lets, drawn, known) != "none":
                computed.append(line)
        elif not re.match(r"(Wait|Release) \w+$|end$", line):
            computed.append(line)
        at += 1
    return computed, sorted(copied)


def other_loop(mutant, code):
    """A number by which blocks go to a loop or to the one that goes on from it, and by which the second one asks: each block is done
    once, in order, by the same statements."""
    new, old, _ = changes(mutant, code)
    if len(new) != len(old) or not old or not all(LET.match(x) for x in new + old) or len(mutant) != len(code):
        return None
    lets, changed = lets_of(code), lets_of(mutant)
    affected = set().union(*(made_of(lets, LET.match(x).group(1)) for x in old))
    heads = [i for i, x in enumerate(code) if before_a_colon(x)]
    pairs = [(i, k) for i, k in zip(heads, heads[1:]) if lines_under(code, i)[1] + 1 == k and depth_of(code[i]) == depth_of(code[k])]
    pairs = [(i, k) for i, k in pairs if before_a_colon(code[k])[1] == f"max({', '.join(before_a_colon(code[i])[1:])})"
             and before_a_colon(code[i])[0] == before_a_colon(code[k])[0]]
    if len(pairs) != 1:
        return None
    first, second = pairs[0]
    index, begin, between = before_a_colon(code[first])
    end = before_a_colon(code[second])[2]
    inside = range(first, lines_under(code, second)[1])
    # Votes look at numbers, lets at names: neither is followed here.
    if any(re.match(r"\s*(let|for) |\s*if any\(", code[i]) for i in inside if i not in (first, second)):
        return None
    uses = [i for i, x in enumerate(code) if not LET.match(x) and affected & set(re.findall(r"\w+", x))]
    if not all(i in inside and (i in (first, second) or re.match(r"\s*if ", code[i])) for i in uses):
        return None
    moved, named = 0, affected & set(re.findall(r"\w+", " ".join(code[i] for i in uses)))
    try:
        for one in draws(lets):
            for name in {begin, between, end} | named:
                one.value(name)
            two = Drawn(changed, one.r, free_of(one, lets, changed))
            low, split, high = [int(one.value(x)) for x in (begin, between, end)]
            other = int(two.value(between))
            if [int(two.value(begin)), int(two.value(end))] != [low, high] or max(split, other) > max(low, high):
                return None
            asked = {int(x.name(name)) for x in (one, two) for name in affected if name in named}
            near = sorted(j for j in {low, high - 1} | {s + k for s in asked | {split, other} for k in range(-2, 3)} if low <= j < high)
            for j in near:
                known = {index: fractions.Fraction(j)}
                was, now = [round_of(code, first if j < s else second, index, x, d, known)
                            for s, x, d in ((split, lets, one), (other, changed, two))]
                if was != now:
                    return None
                moved += (j < split) != (j < other)
    except UNREADABLE:
        return None
    return "blocks go to the other loop, which does the same with them" if moved else None


# --- a block of nothing ---------------------------------------------------------------------------

def no_round(mutant, code):
    """No round where one would be done of which masks leave nothing."""
    new, old, _ = changes(mutant, code)
    m = len(old) == len(new) == 1 and re.match(r"\s*let (blocks\w*) = max\(1, (ceil\(.*\))\)$", old[0])
    if not m or new[0].strip() != f"let {m.group(1)} = max(0, {m.group(2)})":
        return None
    name, lets = m.group(1), lets_of(code)
    loops = [i for i, x in enumerate(code) if re.match(rf"\s*for \w+ = 0:{name}$", x)]
    others = [x for x in code if re.search(rf"\b{name}\b", x) and x != old[0] and not re.match(rf"\s*(for \w+ = 0:{name}|if \w+ \+ 1 < {name})$", x)]
    if len(loops) != 1 or others:
        return None
    loop = loops[0]
    index, masks = before_a_colon(code[loop])[0], masks_of_scores(code, loop)
    # Past the last row nothing is stored, so that nobody asks what a block of such rows alone would see.
    rows = re.search(r"\b(\w+)_block in (\w+_len)/(B\w+)", "\n".join(code))
    if not masks or not rows:
        return None
    seen = 0
    try:
        for d in draws(lets):
            if d.name(f"{rows.group(1)}_block") * d.name(rows.group(3)) >= d.name(rows.group(2)) or d.value(m.group(2)) > 0:
                continue
            known, seen = {index: fractions.Fraction(0)}, seen + 1
            if not all(holds_at(code, lets, d, i, loop, known) and covers(code, i, lets, d, known, rows.group(1)) == "all" for i in masks):
                return None
    except UNREADABLE:
        return None
    return "a round less, of which masks leave nothing" if seen else None


def of_blocks(mutant, code):
    """Why a mutant says the same by where its blocks are done; None: nothing is known."""
    return other_loop(mutant, code) or no_round(mutant, code)
