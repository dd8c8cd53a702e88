"""Proofs about votes of TL Code and what they guard: a running maximum that moves more often, later or downwards, a factor that
only votes look at, blocks before the first one that is seen, and sums that begin with nothing."""
import itertools
import math
import re

from equal_bounds import UNREADABLE, Drawn, before_a_colon, condition_of, draws, enclosing, free_of, lets_of
from equal_scores import scores_within
from equal_text import VOTE, changes, depth_of, lines_under, real

AT_ONCE = "when the maximum is kept at once: both ways give the same"


def base(name):
    return re.sub(r"_(shared|register)$", "", name)


# --- a factor between two maxima ------------------------------------------------------------------

def clause_of(line, at):
    """A condition as its alternatives, (name, holds): of names that lets keep; what else is said stands for itself alone."""
    parts = line.strip()[3:].split(" or ") if line.strip().startswith("if ") and " and " not in line else [f"line {at}"]
    named = [re.match(r"(not )?(\w+)$", x) for x in parts]
    return [(m.group(2), not m.group(1)) if m else (f"{at}: {x}", True) for m, x in zip(named, parts)]


def follows(path, ways):
    """Whether who comes this way (clauses that all hold) has come one of those ways as well."""
    names = sorted({name for way in [path, *ways] for clause in way for name, _ in clause})
    if len(names) > 10:
        return False
    for values in itertools.product((False, True), repeat=len(names)):
        value = dict(zip(names, values))

        def holds(way):
            return all(any(value[name] == wanted for name, wanted in clause) for clause in way)
        if holds(path) and not any(holds(way) for way in ways):
            return False
    return True


def factor_is_voted(code, name, own=None):
    """Whether a factor between two maxima is read where it was made in the same round, whatever way that came, and else by the vote
    alone by which the maximum is kept at once. `own`: the lines whose Fills are in doubt; None: those of all lines."""
    ways, around, votes = [], [], 0                 # ways on which it was made
    for at, line in enumerate(code):
        while around and depth_of(line) <= around[-1][0]:
            if around.pop()[2]:
                ways = []
        head = re.match(r"\s*(if|else|for)\b", line)
        if head:
            around.append((depth_of(line), clause_of(line, at), head.group(1) == "for"))
            ways = [] if head.group(1) == "for" else ways
        path = [clause for _, clause, _ in around]
        kept = re.match(r"\s*let (\w+) = ", line)
        if kept:
            ways = [way for way in ways if all(x != kept.group(1) for clause in way for x, _ in clause)]
        if not re.search(rf"\b{name}\b", line) or line.strip().startswith("Allocate"):
            continue
        fill = re.match(rf"\s*Compute Fill [01] and (get|accumulate) {name}$", line)
        if fill:
            certain = own is not None and at not in own and fill.group(1) == "get"
            ways = ways + [path] if certain else []
        elif re.match(rf"\s*Compute Subtract \w+, \w+ and get {name}$", line):
            ways = ways + [path]
        elif re.match(rf"\s*let eager = any\({name} < ", line):
            votes += 1
        elif not follows(path, ways):
            return False
    return votes > 0


def filled_alone(lines):
    """The one factor that these lines fill, with or without conditions around, and nothing else; None: they do other things."""
    names, depth = set(), 0
    for line in lines:
        fill = re.match(r"\s*Compute Fill [01] and (?:get|accumulate) (\w+)$", line)
        depth += bool(re.match(r"\s*if ", line))
        depth -= line.strip() == "end"
        if depth < 0 or not fill and not re.match(r"\s*(if .*|end)$", line):
            return None
        names |= {fill.group(1)} if fill else set()
    return names.pop() if depth == 0 and len(names) == 1 else None


def kept_at_once(mutant, code):
    """A factor's value from one block to the next, filled elsewhere, always or never: the vote alone looks at it."""
    new, old, at = changes(mutant, code)
    # Two texts that differ in one `end` are compared with the one after it.
    for more in range(3):
        own = [range(at, at + len(part) + more) for part in (new, old)]
        names = {filled_alone([lines[i] for i in x]) for lines, x in zip((mutant, code), own) if x}
        if len(names) == 1 and None not in names:
            name = names.pop()
            return AT_ONCE if all(factor_is_voted(lines, name, x) for lines, x in zip((mutant, code), own)) else None
    return None


# --- votes that hold more often -------------------------------------------------------------------

def vote_is_alone(code, at, name):
    """Whether a vote that a let keeps decides about one body, about conditions around it, and else about what a factor is filled
    with when it does not hold."""
    made = next((i for i in range(at - 1, -1, -1) if re.match(rf"\s*let {name} = any\(", code[i])), None)
    if made is None:
        return False
    around = set(enclosing(code, at))
    for i in range(made + 1, len(code)):
        if depth_of(code[i]) < depth_of(code[made]) or re.match(rf"\s*let {name} = ", code[i]):
            break
        if i == at or i in around or not re.search(rf"\b{name}\b", code[i]):
            continue
        filled = filled_alone(lines_under(code, i)[0]) if re.match(rf"\s*if not {name}$", code[i]) else None
        if not filled or not factor_is_voted(code, filled):
            return False
    return True


def vote_dropped(mutant, code):
    """The body of a vote, done always. A warp votes for all of its rows: the body is done for a row, whatever it holds, whenever
    another one asks for it."""
    new, old, at = changes(mutant, code)
    if not old or [x.strip() for x in new] != [x.strip() for x in old[1:-1]] or old[-1].strip() != "end":
        return None
    if re.match(r"\s*if any\(not part\w* < ", old[0]):
        return VOTE
    kept = re.match(r"\s*if (\w+)$", old[0])
    if not kept or not vote_is_alone(code, at, kept.group(1)):
        return None
    votes = [re.match(rf"\s*let {kept.group(1)} = any\((not part\w*|\w+) < [\d.e-]+\)$", x) for x in code[:at]]
    voted = next((v.group(1) for v in reversed(votes) if v), "")
    if voted.startswith("not "):
        return VOTE
    return AT_ONCE if voted and factor_is_voted(code, voted) else None


# --- maxima that may fall -------------------------------------------------------------------------

FALLS_MOST = 64     # powers of 2 that a sum may grow by: of 2^31 keys, and values of f16, f32 holds it


def moved_with(code, at, maximum):
    """The factor of powers by which all that belongs to a maximum moves with it, right after it: -, shift and sums. None: it does not."""
    old = re.match(rf"\s*Compute Cast {maximum} and get (\w+)$", code[at - 1])
    after = lines_under(code, next(iter(enclosing(code, at))))[0]
    after = [x.strip() for x in after[at - next(iter(enclosing(code, at))):]]
    made = old and re.match(rf"Compute Subtract {old.group(1)}, {maximum} and get (\w+)$", after[0])
    if not made or len(after) < 5:
        return None
    factor = made.group(1)
    scaled = re.match(rf"Compute Multiply {factor}, ([\d.]+) and get {factor}$", after[1])
    if not scaled or after[2] != f"Compute Exp2 {factor} and get {factor}":
        return None
    shift = re.match(rf"Compute Multiply {maximum}, -{re.escape(scaled.group(1))} and get \w+$", after[3])
    sums = [x for x in after[4:] if re.match(rf"Compute Multiply (\w+), {factor} and get \1$", x)]
    uses = [x.strip() for x in code if re.search(rf"\b{maximum}\b", x) and not x.strip().startswith("Allocate")]
    known = rf"Compute (Fill -1e30 and get {maximum}|RowMax \w+ and accumulate {maximum}|Cast {maximum} and get {old.group(1)}|" \
            rf"Subtract {old.group(1)}, {maximum} and get {factor}|Multiply {maximum}, -{re.escape(scaled.group(1))} and get \w+)$"
    return real(scaled.group(1)) if shift and sums and all(re.match(known, x) for x in uses) else None


def unmoved(mutant, code):
    """A maximum that is not kept at once: the factor by which all moves with it becomes 1, and the vote after it moves it when it has to."""
    new, old, at = changes(mutant, code)
    m = len(old) == 1 and not new and re.match(r"\s*Compute RowMax \w+ and accumulate (\w+)$", old[0])
    around = next(iter(enclosing(code, at)), None)
    if not m or around is None or not re.match(r"\s*if eager$", code[around]) or not vote_is_alone(code, around, "eager"):
        return None
    maximum, factor = m.group(1), re.match(r"\s*Compute Subtract \w+, \w+ and get (\w+)$", code[at + 1])
    after = [x.strip() for x in lines_under(code, around)[0]][at - around:]
    shift = moved_with(code, at, maximum) and re.match(rf"Compute Multiply {maximum}, -[\d.]+ and get (\w+)$", after[3])
    if not shift or not factor_is_voted(code, factor.group(1)) or not any(re.match(rf"\s*let eager = any\({factor.group(1)} < ", x) for x in code):
        return None
    only_sums = all(re.match(rf"Compute Multiply (\w+), {factor.group(1)} and get \1$", x) for x in after[4:])
    # The shift is that of the maximum wherever the maximum was moved.
    moves = [i for i, x in enumerate(code) if re.search(rf"and (?:get|accumulate) {maximum}$", x)]
    shifted = all(any(x.strip() == after[3] for x in code[i:i + 5]) for i in moves if "RowMax" in code[i])
    made = [x.strip() for x in code if re.search(rf"and (?:get|accumulate) {shift.group(1)}$", x)]
    return AT_ONCE if only_sums and shifted and set(made) == {after[3]} else None


def rounds_see_all_rows(code, loop, masks):
    """Whether in each round of a loop every row has an element that is seen: masks leave out what is past the end alone."""
    column = [re.match(r"\s*Compute Mask \w+ in coordinate \[.*L = (\w+)\] where (\w+) >= (\2_len)$", x) for x in masks]
    index, low, high = before_a_colon(code[loop])
    if not all(column) or {m.group(1) for m in column if m} - {index}:
        return False
    length = column[0].group(3) if column else None
    size = length and re.search(rf"floor\({length}/(B[A-Z])\)", "\n".join(code))
    if not size:
        return False
    try:
        for d in draws(lets_of(code)):
            first, last = int(d.value(low)), int(d.value(high))
            if last > first and (last - 1) * d.name(size.group(1)) >= d.name(length):
                return False
    except UNREADABLE:
        return False
    return True


def falls(mutant, code):
    """A maximum that becomes this block's, and may fall: all that belongs to it moves with it, by a factor that f32 holds, where
    scores are bounded and each row sees a key in every block."""
    new, old, at = changes(mutant, code)
    m = len(new) == len(old) == 1 and re.match(r"\s*Compute RowMax (\w+) and accumulate (\w+)$", old[0])
    if not m or new[0] != old[0].replace(" accumulate ", " get ") or "bf16" in "\n".join(code):
        return None
    score, maximum = m.groups()
    loop = next((i for i in enclosing(code, at) if before_a_colon(code[i])), None)
    factor = moved_with(code, at, maximum)
    if loop is None or factor is None:
        return None
    start = max((i for i in range(loop, at) if re.match(rf"\s*Compute GEMM .* and get {score} by ", code[i])), default=None)
    if start is None:
        return None
    made = [x for x in code[start + 1:at] if re.search(rf"\b(get|accumulate) {score}\b|\bMask {score}\b", x)]
    masks = [x for x in made if re.match(r"\s*Compute Mask", x)]
    bounded = [i for i, x in enumerate(made) if re.match(rf"\s*Compute (Tanh|Sin|Erf|Erfc) {score} and get {score}$", x)]
    within = scores_within([x for x in made[bounded[-1]:] if x not in masks], "", lets_of(code)) if bounded else None
    if not within or not math.isfinite(within[1] - within[0]) or factor * (within[1] - within[0]) > FALLS_MOST:
        return None
    if not rounds_see_all_rows(code, loop, masks):
        return None
    return "scores are so small that the maximum may fall: all that belongs to it moves with it, as far as f32 holds"


# --- blocks before the first one ------------------------------------------------------------------

def holds_at(code, lets, d, line, loop, known):
    """Whether all conditions between a loop and a line in it hold; votes apart, whose bodies are done when they hold."""
    for i in enclosing(code, line):
        if i == loop:
            return True
        condition = condition_of(code[i])
        if condition is None:
            return False
        if not re.match(r"\s*if any\(", code[i]) and not Drawn(lets, d.r, d.known | known).value(condition):
            return False
    return False


def walk_from(mutant, code):
    """A loop that alone begins at a let which the change moves: (name, block, row's block of the let, index, end, where it stands).
    None: the change is another one."""
    new, old, _ = changes(mutant, code)
    m = [re.match(r"\s*let (\w+) = max\(0, floor\((.*)/(B[A-Z])\)\)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1, 3) != m[1].group(1, 3):
        return None
    name, tile = m[0].group(1), re.search(r"(\w+)_block\*(B[A-Z])\b", m[1].group(2))
    uses = [i for i, x in enumerate(code) if re.search(rf"\b{name}\b", x) and x != old[0]]
    loops = [i for i in uses if re.match(rf"\s*for \w+ = {name}:\w+$", code[i])]
    if not tile or len(loops) != 1:
        return None
    index, _, end = before_a_colon(code[loops[0]])
    others = [code[i] for i in uses if i != loops[0]]
    fits = all(re.match(rf"\s*(if {index} == {name}|let {end} = max\({name} \+ 1, .*\))$", x) for x in others)
    return (name, m[0].group(3), tile.groups(), index, end, loops[0]) if fits else None


def is_of_scores(code, loop, score):
    """Whether all that a loop adds up is made of its scores: nothing else that it copies is computed with."""
    body = [x.strip() for x in lines_under(code, loop)[0]]
    copied = {x.split()[1] for x in body if re.match(r"Copy .* from global ", x)}
    made = [re.match(r"Compute (\w+) ([^ ]+(?:, [^ ]+)*)(?: in coordinate .*)? and (?:get|accumulate) (\w+)( by .*)?$", x) for x in body]
    derived = {score}
    for m in made:
        if m and base(m.group(2).split(", ")[0]) in derived and m.group(1) != "GEMM":
            derived.add(base(m.group(3)))
    for m in made:
        if not m:
            continue
        operands = [base(re.sub(r"\.T$", "", x)) for x in m.group(2).split(", ")]
        product = m.group(1) == "GEMM" and (base(m.group(3)) == score or operands[0] in derived)
        if not product and (copied & set(operands) or m.group(1) == "GEMM"):
            return False
    return all(m or not x.startswith("Compute") or re.match(rf"Compute (Mask {score} in|Fill) ", x) for m, x in zip(made, body))


def masks_of_scores(code, loop):
    """The Masks of the only scores of a loop, one for each time that they are made; None: more is made of them than powers below their
    maximum, or more is added up than what is made of them."""
    last = lines_under(code, loop)[1]
    masks = [i for i in range(loop, last) if re.match(r"\s*Compute Mask \w+ in ", code[i])]
    scores = {code[i].split()[2] for i in masks}
    if len(scores) != 1:
        return None
    score = min(scores)
    made = sum(bool(re.match(rf"\s*Compute GEMM .* and get {score} by ", x)) for x in code[loop:last])
    kept = all(re.match(rf"\s*Compute RowMax {score} and accumulate \w+$", x) for x in code if re.match(r"\s*Compute Row(?!Sum)", x))
    starts = any(re.match(r"\s*Compute Fill -1e30 and get ", x) for x in code[:loop])
    return masks if made == len(masks) and kept and starts and is_of_scores(code, loop, score) else None


def masked_from_below(code, loop):
    """Those Masks, and the part of their one condition that leaves out columns up to a row's limit; None: they have another one."""
    masks = masks_of_scores(code, loop)
    conditions = {code[i].split(" where ")[1] for i in masks or ()}
    if len(conditions) != 1 or re.search(r"\b(and|not)\b", min(conditions)):
        return None
    terms = [t for t in min(conditions).split(" or ") if re.match(r"\w+ <=? [^<>=]*$", t)]
    return (masks, terms[0]) if len(terms) == 1 else None


def begins_earlier(mutant, code):
    """A loop that begins a block earlier, of which no row sees anything. A row of a tile that begins in a later block than the
    tile's first row does has such blocks already: a mask that leaves nothing changes neither its maximum nor its sums."""
    walk = walk_from(mutant, code)
    seen = walk and masked_from_below(code, walk[-1])
    if not seen:
        return None
    (name, block, (row, rows), index, end, loop), (masks, term) = walk, seen
    lets, changed, late = lets_of(code), lets_of(mutant), False
    try:
        for d in draws(lets):
            top, count = d.name(f"{row}_block") * d.name(rows), d.name(rows)
            if top >= d.name(f"{row}_len"):
                continue                            # no launch has such a tile
            first, stop = int(d.name(name)), int(d.value(end))
            two = Drawn(changed, d.r, free_of(d, lets, changed))
            start = int(two.name(name))
            if not first - 1 <= start <= first or stop != int(two.value(end)):
                return None

            def is_hidden(j, q):
                known = {row: q, term.split()[0]: (j + 1) * d.name(block) - 1}
                return bool(Drawn(lets, d.r, d.known | known).value(term))
            late = late or first + 1 < stop and is_hidden(first, top + count - 1)
            if start < first and not (is_hidden(start, top) and all(holds_at(code, lets, d, i, loop, {index: start}) for i in masks)):
                return None
    except UNREADABLE:
        return None
    return "a block before the first one that is seen, of which its mask leaves nothing, as other rows have it already" if late else None


# --- sums that begin with nothing -----------------------------------------------------------------

def added_to_zeros(mutant, code):
    """A product that is added to zeros, or stands in their place."""
    new, old, at = changes(mutant, code)
    forms = [re.match(r"(\s*Compute GEMM .*) and (get|accumulate) (\w+)( by .*)?$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(forms) or forms[0].group(1, 3, 4) != forms[1].group(1, 3, 4):
        return None
    name, depth = base(forms[0].group(3)), depth_of(old[0])
    for line in reversed(code[:at]):
        if depth_of(line) < depth:
            return None                             # a loop, perhaps, in which it is added to again
        if not any(base(x) == name for x in re.findall(r"\w+", line)) or line.strip().startswith(("Wait", "Release")):
            continue
        zeros = depth_of(line) == depth and re.match(r"\s*Compute Fill 0 and get \w+$", line)
        return "the product is added to zeros, before anything else is" if zeros else None
    return None


def of_votes(mutant, code):
    """Why a mutant says the same by what its votes and maxima are; None: nothing is known."""
    return next((why for why in (f(mutant, code) for f in (kept_at_once, vote_dropped, unmoved, falls, begins_earlier, added_to_zeros)) if why), None)
