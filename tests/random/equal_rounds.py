"""Proofs about statements of TL Code that are left out, done again, or done at another time, in a round of a loop or in all."""
import fractions
import re

from equal_bounds import UNREADABLE, Drawn, before_a_colon, draws, enclosing, lets_of, loop_around, python_of
from equal_text import changes, depth_of, lines_under, real


def clamped(mutant, code):
    """What makes a tile that is clamped right after to one number alone."""
    new, old, at = changes(mutant, code)
    m = len(old) == 1 and len(new) <= 1 and re.match(r"\s*Compute (?!Mask).* and get (\w+)( by \w+)?$", old[0])
    if not m or new and not re.match(rf"\s*Compute (?!Mask).* and get {m.group(1)}( by \w+)?$", new[0]):
        return None
    name = m.group(1)
    two = [re.match(rf"\s*Compute (Min|Max) {name}, (-?[\d.]+(?:e-?\d+)?) and get {name}$", x) for x in code[at + 1:at + 3]]
    if len(two) != 2 or not all(two) or any(depth_of(x) != depth_of(old[0]) for x in code[at + 1:at + 3]) or two[0].group(1) == two[1].group(1):
        return None
    first, last = real(two[0].group(2)), real(two[1].group(2))
    meets = first <= last if two[1].group(1) == "Max" else first >= last
    return "the two statements after it make every element the same number, whatever it is" if meets else None


def tested_inside(mutant, code):
    """A condition `A or B` that is dropped, where all that stands under it is under `A` or `B` itself."""
    new, old, at = changes(mutant, code)
    if not old or not re.match(r"\s*if .* or ", old[0]) or " and " in old[0] or [x.strip() for x in new] != [x.strip() for x in old[1:-1]]:
        return None
    inside, _ = lines_under(code, at)
    if len(inside) != len(old) - 2 or not inside:
        return None
    parts = old[0].strip()[3:].split(" or ")
    heads = [x.strip() for x in inside if depth_of(x) == depth_of(inside[0])]
    under = all(x == "end" or x.startswith("if ") and set(x[3:].split(" or ")) <= set(parts) for x in heads)
    return "what stands under it is under some of its own parts" if under else None


def tested_otherwise(mutant, code):
    """A condition `A or B` with another `A`, which holds wherever it did, where all that stands under it is under `A` or `B` itself."""
    new, old, at = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not all(re.match(r"\s*if .* or ", x[0]) and " and " not in x[0] for x in (new, old)):
        return None
    now, parts = [x[0].strip()[3:].split(" or ") for x in (new, old)]
    other = [k for k, (a, b) in enumerate(zip(now, parts)) if a != b]
    inside, _ = lines_under(code, at)
    heads = [x.strip() for x in inside if depth_of(x) == depth_of(inside[0])]
    under = all(x == "end" or x.startswith("if ") and set(x[3:].split(" or ")) <= set(parts) for x in heads)
    loop = next((before_a_colon(code[i]) for i in enclosing(code, at) if before_a_colon(code[i])), None)
    if len(now) != len(parts) or len(other) != 1 or not inside or not under or not loop:
        return None
    try:
        for d in draws(lets_of(code)):
            for j in range(int(d.value(loop[1])), int(d.value(loop[2]))):
                here = Drawn(d.lets, d.r, d.known | {loop[0]: fractions.Fraction(j)})
                if here.value(python_of(parts[other[0]])) and not here.value(python_of(now[other[0]])):
                    return None
    except UNREADABLE:
        return None
    return "what stands under it is under some of the parts that it had, and it holds wherever one of them does"


def copied_again(mutant, code):
    """A Copy to registers left out that has been done before on the same way, in the same round, where nothing has written the tile since."""
    new, old, at = changes(mutant, code)
    m = len(old) == 1 and not new and re.match(r"\s*Copy (\w+) \([^)]*\) in coordinate \[[^]]*\] from global to register$", old[0])
    if not m or any(re.search(rf"\b{m.group(1)}\b", x) and " in place of " in x or re.match(rf"Output +{m.group(1)}\b", x) for x in code):
        return None
    name, depth = m.group(1), depth_of(old[0])
    indices = set(re.findall(r"\w+", re.search(r"coordinate (\[[^]]*\])", old[0]).group(1)))
    for line in reversed(code[:at]):
        depth = min(depth, depth_of(line))
        if depth_of(line) == depth and line.strip() == old[0].strip():
            return "the same Copy was done before, in the same round, and nothing has written the tile since"
        reads = re.match(rf"\s*Compute (?!Mask|Fill)\w+ .* and (?:get|accumulate) (?!{name}\b|{name}_)\w+( by \w+)?$", line)
        if re.match(r"\s*(role|kernel) ", line) or re.match(r"\s*for ", line) and depth_of(line) == depth:
            return None                                 # a round before this one had other blocks
        if re.search(rf"\b{name}(_register|_shared)?\b", line) and not reads or re.match(rf"\s*let ({'|'.join(indices)})\b", line):
            return None
    return None


def never_at_once(mutant, code):
    """The maximum is never kept at once, where the vote of the same round does all of that when it has to."""
    new, old, at = changes(mutant, code)
    if not old or new or not re.match(r"\s*if eager$", old[0]) or len(old) != len(lines_under(code, at)[0]) + 2:
        return None
    loop = next((i for i in enclosing(code, at) if before_a_colon(code[i])), None)
    if loop is None:
        return None
    body, _ = lines_under(code, loop)
    kept = [x.strip() for x in old[1:-1]]
    votes = [x.strip() for x in body if re.match(r"\s*let eager = ", x)]
    m = len(votes) == 1 and re.match(r"let eager = any\((\w+) < [\d.e-]+\)$", votes[0])
    slow = [k for k, x in enumerate(body) if re.match(r"\s*if slow$", x)]
    lets = [x.strip() for x in body if re.match(r"\s*let (slow|hard) = ", x)]
    if not m or len(slow) != 1 or len(lets) != 2 or not all(re.match(r"let \w+ = any\(not part < [\d.]+\)$", x) and real(x[:-1].split()[-1]) <= 65504 for x in lets):
        return None
    alpha = m.group(1)
    # Nothing but this condition and one around it looks at `eager`.
    if any(re.search(r"\beager\b", x) and not re.match(r"\s*(let eager = .*|if eager|if \w+ >= \w+ or eager)$", x) for x in body):
        return None
    inside, _ = lines_under(body, slow[0])
    hard = [k for k, x in enumerate(inside) if re.match(r"\s*if hard$", x)]
    if len(hard) != 1:
        return None
    anew, end = lines_under(inside, hard[0])
    anew = [x.strip() for x in anew]
    rest = [x.strip() for x in inside[:hard[0]] + inside[end + 1:]]
    only = all(re.match(rf"(let hard = .*|if not hard|end|Compute Fill [01] and get {alpha})$", x) for x in rest)
    last = max((k for k, x in enumerate(body) if x.strip() == kept[-1]), default=0)
    # The factor is read where it was made right before, and nowhere else.
    reads = [x.strip() for x in body if re.search(rf"\b{alpha}\b", x) and not re.match(rf"\s*(Compute Fill [01] and get {alpha}|let eager = .*)$", x)]
    made = [x for x in kept if re.search(rf"\b{alpha}\b", x)]
    whole = kept and anew[:len(kept)] == kept and any(re.match(r"Compute RowMax \w+ and accumulate \w+$", x) for x in kept) and last
    redone = [x.split()[1] for x in anew[len(kept):]] == ["MultiplyAdd", "Exp2", "RowSum", "Cast"]
    return "when the maximum is kept at once: the vote moves it before anything overflows" if only and whole and redone and reads == made * 2 else None


def other_slot(mutant, code):
    """A copy into another slot of a ring, and a product that reads one, or who gives one back: the rules count which slots are held."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    beside = [x for x in new if re.match(r"\s*(Compute GEMM .* by m16n8k\d+|Release \w+_shared)$", x)]
    copy = [re.match(r"\s*Copy (\w+) \([^)]*\) in coordinate \[.*\] from global to shared( by \w+)? async$", x) for x in new]
    copy = [m for m in copy if m]
    if len(beside) != 1 or len(copy) != 1:
        return None
    ring = re.search(rf"Allocate (?:\w+, )*{copy[0].group(1)}(?:, \w+)* in shared .* stages (\d+)", "\n".join(code))
    if not ring or int(ring.group(1)) < 2:
        return None
    if beside[0].strip().startswith("Release"):
        return "the copy goes to a slot of the ring that nothing holds, and another one is given back"
    written = re.search(r"and (?:get|accumulate) (\w+)", beside[0]).group(1)
    apart = not re.search(rf"\b{re.sub('_(shared|register)$', '', written)}\b", copy[0].group(0))
    return "the copy goes to a slot of the ring that nothing holds, and the product reads another one" if apart else None


def is_of_registers(line, code):
    """Whether a statement computes with tiles in registers alone, when its turn comes."""
    if not re.match(r"\s*Compute (?!GEMM)\w+ ", line):
        return False
    shared = {n for x in code for m in [re.match(r"\s*Allocate ([\w, ]+) in shared ", x)] if m for n in m.group(1).split(", ")}
    return not any(x in shared or x.endswith("_shared") for x in re.findall(r"\w+", line))


def slot_and_registers(mutant, code):
    """A slot of shared memory, waited for or given back, and what touches none: a copy from an Input in global memory to registers, or
    a statement that computes with registers alone."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    slot = [x for x in new if re.match(r"\s*(Wait|Release) \w+_shared$", x)]
    if len(slot) == 1 and any(is_of_registers(x, code) for x in new):
        return "the statement computes with registers alone, and touches no slot of shared memory"
    copy = [m for m in (re.match(r"\s*Copy (\w+) \([^)]*\) in coordinate \[[^]]*\] from global to register( and get \w+)?$", x) for x in new) if m]
    given = len(copy) == 1 and any(re.match(rf"Input +{copy[0].group(1)}\b", x) for x in code)
    return "the copy from global memory to registers touches no slot of shared memory" if len(slot) == 1 and given else None


def extremes_again(mutant, code):
    """A loop that does rounds of the loop before it once more, of which nothing comes but maxima and minima."""
    new, old, at = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not before_a_colon(new[0]) or not before_a_colon(old[0]):
        return None
    a, b = before_a_colon(new[0]), before_a_colon(old[0])
    before = next((i for i in range(at - 1, -1, -1) if before_a_colon(code[i]) and depth_of(code[i]) == depth_of(old[0])), None)
    if before is None or a[0] != b[0] or a[2] != b[2] or before_a_colon(code[before])[0] != a[0] or lines_under(code, before)[1] != at - 1:
        return None
    body, first = [], [x.strip() for x in lines_under(code, before)[0]]
    tests, left = [], [x.strip() for x in lines_under(code, at)[0]]
    while left:
        m = re.match(rf"if {a[0]} >= (\w+)$", left[0])
        if m and re.match(r"Compute Mask ", left[1]) and left[2] == "end":
            tests.append(m.group(1))
            left = left[3:]
        else:
            body.append(left.pop(0))
    made, gathered, early = set(), set(), set()
    for x in body:
        m = re.match(r"(?:Copy|Compute) .* and (get|accumulate) (\w+)$", x)
        if not m or re.match(r"Compute (GEMM|Mask|Softmax)", x):
            return None
        reads = set(re.findall(r"\w+", x[:m.start(1)]))
        if m.group(1) == "accumulate":
            if not re.match(r"Compute Row(Min|Max) \w+ and accumulate", x):
                return None
            gathered.add(m.group(2))
        else:
            early |= reads - made
            made.add(m.group(2))
    names = [n for x in body for n in re.findall(r"\w+", x)]
    # What is read before it is made is carried from round to round.
    if body != first or not gathered or gathered & made or early & made or any(names.count(n) != 1 for n in gathered):
        return None
    try:
        for d in draws(lets_of(code)):
            earlier, was, now = [set(range(int(d.value(x[1])), int(d.value(x[2])))) for x in (before_a_colon(code[before]), b, a)]
            if not was <= now or not now <= was | earlier or any(j >= d.value(t) for j in now - was for t in tests):
                return None
    except UNREADABLE:
        return None
    return "rounds that were done are done again, of which maxima and minima alone come"


def first_earlier(mutant, code):
    """A loop that begins some blocks earlier, all of whose columns a mask in every round covers."""
    new, old, _ = changes(mutant, code)
    m = [re.match(r"\s*let (first\w*) = max\(0, floor\((.*)/(B[A-Z])\)\)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1, 3) != m[1].group(1, 3):
        return None
    name, lets = m[0].group(1), lets_of(code)
    top = [x for x in code if re.search(rf"\b{name}\b", x) and x != old[0]]
    heads = [i for i, x in enumerate(code) if re.match(rf"\s*for \w+ = {name}:\w+$", x)]
    if len(heads) != 1 or not all(re.match(rf"\s*(for \w+ = {name}:|Copy .* L = {name}\] from global to|let (\w+) = max\({name} \+ 1, ceil\()", x) for x in top):
        return None
    index = before_a_colon(code[heads[0]])[0]
    body = lines_under(code, heads[0])[0]
    masks = [x for x in body if depth_of(x) == depth_of(body[0]) and re.match(rf"\s*Compute Mask \w+ in coordinate \[.*L = {index}\] where ", x)]
    terms = [t for x in masks if " and " not in x for t in x.split(" where ")[1].split(" or ")]
    # All columns of a block before the old first one are up to where it began.
    ends = [t.group(2) + (" + 1" if t.group(1) == "<=" else "") for t in (re.match(r"\w+ (<=|<) ([\w +-]+)$", t) for t in terms) if t]
    begun = re.sub(r"[()]", "", m[1].group(2))
    if begun not in ends or len(masks) != 1:
        return None
    try:
        for d in draws(lets):
            if d.value(f"floor({m[0].group(2)}/{m[0].group(3)})") > d.value(f"floor({m[1].group(2)}/{m[1].group(3)})"):
                return None
    except UNREADABLE:
        return None
    return "blocks more, before the first one that is seen, which the mask of every round covers whole"


def past_the_end(mutant, code):
    """The part of a mask that covers what is past the end, in a loop over whole blocks."""
    new, old, at = changes(mutant, code)
    m = [re.match(r"\s*(Compute Mask \w+(?:, \S+)? in coordinate \[.*L = (\w+)\]) where (.*)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1) != m[1].group(1):
        return None
    parts = [x.group(3).split(" or ") for x in m]
    other = [k for k, (a, b) in enumerate(zip(*parts)) if a != b]
    if len(parts[0]) != len(parts[1]) or len(other) != 1 or re.search(r"[()]|\bnot\b", m[0].group(3) + m[1].group(3)):
        return None
    a, b = [re.match(r"(\w+) (>=|>|==) ((\w+)_len)$", x[other[0]]) for x in parts]
    loop = loop_around(code, at, m[0].group(2))
    if not a or not b or a.group(1, 3) != b.group(1, 3) or a.group(1) != a.group(4) or not loop or not any(
            re.match(rf"\s*for {m[0].group(2)} = ", code[i]) for i in enclosing(code, at)):
        return None
    size = re.search(rf"floor\({a.group(3)}/(B[A-Z])\)", "\n".join(code))
    if not size:
        return None
    try:
        for d in draws(lets_of(code)):
            low, high = [int(d.value(x)) for x in loop]
            if high > low and high * d.name(size.group(1)) > d.name(a.group(3)):
                return None
    except UNREADABLE:
        return None
    return "a loop over whole blocks, where no column is past the end"


def one_column_less(now, before, condition):
    """Whether a part of a mask leaves one of a row's first columns more than before."""
    term = re.match(r"(\w+) <= ([\w +-]+)$", before)
    return term and " not " not in f" {condition}" and now == f"{term.group(1)} < {term.group(2)}" and not re.search(rf"\b{term.group(1)}\b", term.group(2))


def rows_less(now, before, code, score, mask):
    """Whether a part of a mask hides whole rows from a number on, later than before, and each maximum is taken of masked scores."""
    m = [re.match(r"(\w+) (>=|>) (\d+)$", x) for x in (now, before)]
    if not all(m) or m[0].group(1) != m[1].group(1) or f"[L = {m[0].group(1)}_block, " not in re.sub(r"\[(\w+, )*", "[", mask):
        return False
    later = [int(x.group(3)) + (x.group(2) == ">") for x in m]
    heads = [i for i, x in enumerate(code) if re.match(rf"\s*Compute RowMax {score} ", x)]
    # Right before each maximum, but for what does not name the scores.
    last = [next((x for x in reversed(code[:i]) if re.search(rf"\b{score}\b", x) or depth_of(x) != depth_of(code[i])), "") for i in heads]
    return later[0] >= later[1] and all(re.match(rf"\s*Compute Mask {score} in ", x) and depth_of(x) == depth_of(code[i]) for x, i in zip(last, heads))


def prefix_by_vote(mutant, code):
    """One column more that a mask of first columns leaves, or rows that all masks hide: such a row has seen nothing yet, so its vote
    holds and masks anew."""
    new, old, at = changes(mutant, code)
    m = [re.match(r"\s*Compute Mask (\w+) in coordinate \[.*L = (\w+)\] where (.*)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1, 2) != m[1].group(1, 2):
        return None
    score, parts = m[1].group(1), [x.group(3).split(" or ") for x in m]
    other = [(a, b) for a, b in zip(*parts) if a != b]
    if len(parts[0]) != len(parts[1]) or len(other) != 1 or re.search(r"[()]|\band\b", m[1].group(3)):
        return None
    if not one_column_less(*other[0], m[1].group(3)) and not rows_less(*other[0], code, m[1].group(1), old[0]):
        return None
    loop = next((i for i in enclosing(code, at) if before_a_colon(code[i])), None)
    if loop is None or before_a_colon(code[loop])[0] != m[1].group(2) or not re.search(r" = (1|\w+ \+ 1|max\(1, \w+\)|max\(\w+ \+ 1, \w+\)):", code[loop]):
        return None                                     # the first block stands before it, and made the shift of its maximum
    body = [x.strip() for x in lines_under(code, loop)[0]]
    vote = next((i for i in range(at, len(code)) if re.match(r"\s*if any\(not part\w* < [\d.]+\)$", code[i]) and depth_of(code[i]) == depth_of(code[loop]) + 4), None)
    if vote is None or vote > lines_under(code, loop)[1]:
        return None
    between = [x.strip() for x in code[at + 1:vote] if x.strip() != "end"]
    tail = [re.match(p, x) for p, x in zip((rf"Compute MultiplyAdd {score}, (\S+), (\w+) and get {score}$", rf"Compute Exp2 {score} and get {score}$",
                                            rf"Compute RowSum {score} and get part\w*$", rf"Compute Cast {score} and get \w+$"), between)]
    if len(between) != 4 or not all(tail):
        return None
    factor, shift = tail[0].groups()
    if not real(lets_of(code).get(factor, factor)) >= 1e-20:
        return None                                     # a factor near 1e-30, perhaps, for which no vote holds, or one below 0
    anew = [x.strip() for x in lines_under(code, vote)[0]]
    gathers = [re.match(rf"Compute RowMax {score} and accumulate (\w+)$", x) for x in anew]
    maximum = next((g.group(1) for g in gathers if g), None)
    masks = [x for x in code if re.match(rf"\s*Compute Mask {score}\b", x)]
    writes = [x.strip() for x in code if re.search(rf"and (get|accumulate) {maximum}\b", x)]
    steady = maximum and all(x in (f"Compute Fill -1e30 and get {maximum}", f"Compute RowMax {score} and accumulate {maximum}") for x in writes)
    moved = f"Compute Multiply {maximum}, -{factor} and get {shift}"
    made = [x.strip() for x in code if re.search(rf"and (get|accumulate) {shift}\b", x)]
    whole = anew[:1] and anew[0].startswith("Compute GEMM") and moved in anew and all(x == moved for x in made) and len(body) > len(anew)
    covers = all(other[0][1] in x.split(" where ")[1].split(" or ") for x in masks) and any(
        x.startswith(f"Compute Mask {score} ") for x in anew)
    return "a row that this element is masked for has seen none before it: its vote holds, and masks anew" if steady and whole and covers else None


def of_rounds(mutant, code):
    """Why a mutant says the same by what its rounds do; None: nothing is known."""
    return next((why for why in (f(mutant, code) for f in (
        clamped, tested_inside, tested_otherwise, copied_again, never_at_once, other_slot, slot_and_registers, extremes_again, first_earlier, past_the_end,
        prefix_by_vote)) if why), None)
