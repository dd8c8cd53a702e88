"""Proofs that a mutant of TL Code says the same."""
import fractions
import math
import re

from equal_blocks import of_blocks
from equal_bounds import (FUNCTIONS, LET, UNREADABLE, Drawn, before_a_colon, body_of, bounds, changed_let, condition_of, conditions, draws, enclosing, free_of, lets_of, loop_around, loops, made_of, names_of,
                          of_one_tile, unreached)
from equal_constants import of_constants
from equal_conditions import REFUSED, Names, of_conditions
from equal_elements import of_elements
from equal_masks import of_masks
from equal_text import VOTE, above, anything, careful, changes, commutes, depth_of, gone, lines_under, of_one_word, order, order_of_sums, real
from equal_rounds import of_rounds
from equal_scores import scores_within
from equal_votes import AT_ONCE, of_votes


def effects_of_tl(line):
    def base(name):
        return re.sub(r"_(shared|register)$", "", name)
    names = [(base(n), []) for n in re.findall(r"[A-Za-z_]\w*", line)]
    line = line.strip()
    m = re.match(r"(Wait|Release) (.*)", line)
    if m:
        return [(base(n), []) for n in re.findall(r"\w+", m.group(2))], names
    written = re.findall(r"\b(?:get|accumulate) (\w+)", line)
    m = re.match(r"(?:Copy|Reshape|Compute Mask) (\w+)", line)
    if m and not written:
        written.append(m.group(1))
    return ([(base(n), []) for n in written], names) if written else None


# --- values that nothing comes of -----------------------------------------------------------------

def dead(code, names):
    """Whether nothing that is written to global memory is made of these tiles or numbers of TL Code."""
    uses = []
    for line in code:
        line = re.sub(r"//.*", "", line).strip()
        if re.match(r"(if|for|let|grid|Wait|Release|role)\b", line):
            uses.append((None, set(re.findall(r"\w+", line))))
        elif re.match(r"Copy .* to global", line):
            uses.append((None, set(re.findall(r"\w+", line))))
        elif re.match(r"(Compute|Copy|Reshape)\b", line):
            e = effects_of_tl(line)
            uses.append(({w[0] for w in e[0]} if e else None, {n[0] for n in effects_of_tl(line)[1]} if e else set(re.findall(r"\w+", line))))
    live = set()
    for target, read in uses:
        if target is None:
            live |= {re.sub(r"_(shared|register)$", "", n) for n in read}
    while True:
        more = {n for target, read in uses if target and target & live for n in read} - live
        if not more:
            break
        live |= more
    return bool(names) and not {re.sub(r"_(shared|register)$", "", n) for n in names} & live


def nothing_comes_of_it(mutant, code, tl, effects):
    """Statements that write only what no Output is made of, before and after."""
    new, old, at = changes(mutant, code)
    written = set()
    if len(new) == len(old) == 1 and re.match(r"\s*(for|if) ", old[0]):
        new, old = body_of(mutant, at), body_of(code, at)
        new, old = [[x for x in lines if not re.match(r"#|\}|end$|for |if |const int ", x)] for lines in (new, old)]
    for line in new + old:
        e = effects(line)
        if e is None:
            return None
        written |= {w[0] for w in e[0]}
    return "no Output is made of what this statement writes" if dead(tl, written) else None


def overwritten(mutant, code):
    """A tile of TL Code that is written anew before anything reads it."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1 or not re.match(r"\s*Compute (?!Mask|GEMM).* and get \w+$", old[0]):
        return None
    name, depth = old[0].split()[-1], len(old[0]) - len(old[0].lstrip())
    if new and not re.match(rf"\s*Compute (?!Mask|GEMM).* and get {name}$", new[0]):
        return None
    for line in code[at + 1:]:
        own, words = len(line) - len(line.lstrip()), re.findall(r"\w+", line)
        if own < depth:
            return None
        if name in words:
            again = own == depth and re.match(rf"\s*Compute .* and get {name}$", line) and words.count(name) == 1
            return "the next statement that names it writes it anew" if again else None
    return None


# --- the whole ------------------------------------------------------------------------------------

ONE_WORD = (
    (r"stages (\d+)$", anything, "slots of a ring: when a copy starts, not what it brings; the rules count those in flight"),
    (r"^Allocate .* in shared .* swizzled (\d+)", lambda old, new: new in ("32", "64", "128"), "where elements lie in shared memory, for who writes and who reads them; the rules count its bytes"),
    (r"registers (\d+)", anything, "registers that a role may have: the compiler's business"),
    (r"( in place of \w+)$", gone, "bytes of its own"),
    (r"^role math with (\d+) warps$", anything, "rows by more warps: the rules and the emulator count them anew"),
    (r"^if any\(not part\w* < (32768)\)$", above(-math.inf, 65504), VOTE),
    (r"^if any\(not part\w* < (9e18)\)$", above(-math.inf, 1e37), VOTE),
    (r"^let (?:slow|hard) = any\(not part\w* < (1024|65000)\)$", above(-math.inf, 65504), VOTE),
    (r"^(?:if|let (?:slow|hard) =) any\(not part\w* (<) [\d.e+]+\)$", lambda old, new: new == "<=", VOTE),
    (r"^let eager = any\(\w+ < ([\d.]+(?:e-?\d+)?)\)$", above(0, 1), AT_ONCE),
    (r"^Compute Fill (-1e\+?30) and get", above(-1e37, -1e29), "below all scores that f32 can weigh, and finite"),
    (r"^Compute Max \w+, ([\d.]+e-\d+) and get", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
    (r"(?:Input|Output) .* where \w+ (>) 0$", lambda old, new: new == ">=", "a launch is allowed that the sketch's own condition keeps from happening"),
    (r"(?:Input|Output) .* where \w+ (!=) 0$", lambda old, new: new in (">", "<", ">=", "<="), REFUSED),    # what is refused for 0 has no meaning there
    (r"(?:Input|Output) .* where \w+ (>=) 0$", lambda old, new: new in (">", "=="), REFUSED),
    (r"(?:Input|Output) .* where \w+ > (0)$", above(0, math.inf), REFUSED),
)


def first_round(mutant, code):
    """A tile that is made before a loop, and anew in its first round before anything reads it."""
    new, old, at = changes(mutant, code)
    m = len(old) == 1 and len(new) <= 1 and re.match(r"\s*Compute (?:(?:Add|Multiply) (\w+), -?[\w.]+|MultiplyAdd (\w+), -?[\w.]+(?:e-?\d+)?, \w+) and get (\w+)$", old[0])
    if not m:
        return None
    name, read = m.group(3), m.group(1) or m.group(2)
    if new and not re.match(rf"\s*Compute (?!Mask|GEMM|Softmax)\w+ {read}, -?[\w.]+(e-?\d+)?(, \w+)? and get {name}$", new[0]):
        return None
    for i in range(at + 1, len(code)):
        loop = re.match(r"\s*for (\w+) = (\w+):(\w+)$", code[i])
        if loop and depth_of(code[i]) == depth_of(old[0]):
            break
        if depth_of(code[i]) < depth_of(old[0]) or re.search(rf"\b{name}\b", code[i]) or re.match(r"\s*(if|for|role) ", code[i]):
            return None
    else:
        return None
    if not re.search(rf"let (?:.*, )?{loop.group(3)} = max\({loop.group(2)} \+ 1, |let (?:.*, )?{loop.group(3)} = max\(1, ", "\n".join(code[:at])):
        return None                                 # it may not run at all
    body, _ = lines_under(code, i)
    for k, line in enumerate(body):
        if re.match(rf"\s*if {loop.group(1)} == {loop.group(2)}$", line):
            inside, _ = lines_under(body, k)
            makes = [x for x in inside if re.search(rf"\b{name}\b", x)]
            return "the loop's first round makes it anew" if makes and re.match(rf"\s*Compute \w+ (?!.*\b{name}\b.*\b{name}\b).* and get {name}$", makes[0]) else None
        if re.search(rf"\b{name}\b", line):
            return None
    return None


def first_by_vote(mutant, code):
    """The short way of the first block left out, in part or whole: with the maximum's start far below all scores the vote
    holds for each row that sees a key, and the body of the vote does the block anew."""
    new, old, at = changes(mutant, code)
    if not old:
        return None
    at_if = at if re.match(r"\s*if \w+ == \w+$", old[0]) else next(iter(enclosing(code, at)), None)
    if at_if is None or not re.match(r"\s*if (\w+) == \w+$", code[at_if]):
        return None
    inside, end = lines_under(code, at_if)
    short = [re.match(p, x) for p, x in zip((r"\s*Compute RowMax \w+ and accumulate (\w+)$", r"\s*Compute Multiply (\w+), -([\w.]+) and get (\w+)$"), inside)]
    if len(inside) != 2 or not all(short) or short[0].group(1) != short[1].group(1) or not re.match(r"\s*for ", code[next(iter(enclosing(code, at_if)), 0)]):
        return None
    maximum, factor, shift = short[1].groups()
    before = [x.strip() for x in code[:at_if]]
    starts = f"Compute Fill -1e30 and get {maximum}" in before and any(re.match(rf"Compute Multiply {maximum}, -[\w.]+ and get {shift}$", x) for x in before)
    rest = code[end:]
    vote = next((i for i, x in enumerate(rest) if re.match(r"\s*if any\(not part\w* < [\w.]+\)$", x) and depth_of(x) == depth_of(code[at_if])), None)
    if not starts or vote is None:
        return None
    anew = [x.strip() for x in lines_under(rest, vote)[0]]
    if not any(x.startswith("Compute GEMM") for x in anew) or f"Compute RowMax {short[0].group(0).split()[2]} and accumulate {maximum}" not in anew \
            or not any(re.match(rf"Compute Multiply {maximum}, -[\w.]+ and get {shift}$", x) for x in anew):
        return None
    # A walk never comes to a block before the one that it begins with.
    begins = re.match(r"\s*if (\w+) == (\w+)$", code[at_if]).groups()
    walk = before_a_colon(code[next(iter(enclosing(code, at_if)))])
    begun = begins[1] == "0" or walk and walk[:2] == begins
    never = len(new) == len(old) == 1 and at == at_if and begun and new[0] == old[0].replace(" == ", " < ")
    whole = not new and at == at_if and len(old) == len(inside) + 2
    part = not new and old == inside[:1]
    # A shift that is not the maximum's own: right where the vote surely makes it anew, so not for a factor near 1e-30.
    less = not new and old == inside[1:] or new == old[::-1] == inside[::-1]
    more = len(new) == len(old) == 1 and old[0] == inside[1] and new[0] == inside[1].replace(" and get ", " and accumulate ")
    made = lets_of(code).get(factor, factor)
    sure = real(made) >= 1e-20
    # With the start's shift added, which is above 0, the largest weight of a row is at least 1: it is right, or the vote holds.
    scaled = re.match(r"(\w+)\*\d[\d.]*$", made)
    above_0 = scaled and any(re.match(rf"Input +{scaled.group(1)} f32 where {scaled.group(1)} > 0$", x) for x in code)
    return "the first block goes by the vote: the start of the maximum makes it hold" if never or whole or part or less and sure or more and (sure or above_0) else None


def asked_by_votes(code, name, but=()):
    """Whether a tile is how far a row's part may grow before its maximum moves, and nothing else; some lines apart."""
    uses = [x.strip() for i, x in enumerate(code) if re.search(rf"\b{name}\b", x) and not x.strip().startswith("Allocate") and i not in but]
    own = rf"Compute (Fill \d+|Add l, part|(Max|Multiply|Min) {name}, [\d.]+) and get {name}$|Reshape {name} from partial rows to rows$|if any\(not part\w* < {name}\)$"
    return all(re.match(own, x) for x in uses) and any(x.startswith("if any(") for x in uses)


def weights_most(code, known):
    """Up to what weights may grow in the types that take them; of other types what is known."""
    types = {x for line in code for x in re.findall(r"^\s*Allocate .* in register (\w+) ", line)}
    return 1e6 if types <= {"bf16", "f32", "i32"} else 65504 if types <= {"f16", "bf16", "f32", "i32"} else known


def room_of_votes(mutant, code):
    """Up to what a row's part may grow before its maximum moves: less, or as far as the weights' type holds."""
    new, old, _ = changes(mutant, code)
    m = [re.match(r"\s*Compute Min (\w+), ([\d.]+(?:e\d+)?) and get \1$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1) != m[1].group(1) or not asked_by_votes(code, m[0].group(1)):
        return None
    now, before = real(m[0].group(2)), real(m[1].group(2))
    return VOTE if now <= max(before, weights_most(code, before)) else None


def room_under_limit(mutant, code):
    """What makes a row's room, where a limit for it comes right after: with less room its maximum moves more often."""
    new, old, at = changes(mutant, code)
    m = [re.match(r"\s*Compute (?!Mask|GEMM).* and (?:get|accumulate) (\w+)$", x) for x in new + old]
    if len(old) != 1 or len(new) > 1 or not all(m) or len({x.group(1) for x in m}) != 1:
        return None
    name = m[0].group(1)
    if not asked_by_votes(code, name, (at,)) or new and not asked_by_votes(mutant, name, (at,)):
        return None
    for line in code[at + 1:]:
        limit = re.match(rf"\s*Compute Min {name}, ([\d.]+) and get {name}$", line)
        if depth_of(line) != depth_of(old[0]) or re.match(r"\s*if ", line):
            return None
        if limit:
            return VOTE if real(limit.group(1)) <= weights_most(code, 0) else None
    return None


def tile_size(mutant, code):
    """Another size of tiles, which the whole text takes by its name: the rules count rows, registers and bytes anew."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not re.match(r"\s*let \w+ = \d+(, \w+ = \d+)*$", old[0]):
        return None
    a, b = [dict(x.split(" = ") for x in line.strip()[4:].split(", ")) for line in (new[0], old[0])]
    other = [n for n in b if a.get(n) != b[n]]
    if len(other) != 1 or not re.match(r"B[A-Z]$", other[0]) or set(a) != set(b) or int(a[other[0]]) < 1:
        return None
    uses = [x.strip() for x in code if re.search(rf"\b{other[0]}\b", x) and x != old[0]]
    fits = all(re.match(r"(grid|Allocate|Copy|let|for|if) ", x) for x in uses)
    numbers = [x for x in code if re.search(rf"(?<![\w.]){b[other[0]]}(?![\w.])", x) and x != old[0] and not re.search(rf" swizzled {b[other[0]]}\b", x)]
    return "tiles of another size; all of the text names the size" if fits and not numbers else None


def same_uses(mutant, code):
    """A let whose change leaves all conditions and loops that it takes part in as they are, for all lengths."""
    name, lets = changed_let(mutant, code), lets_of(code)
    if not name or len(mutant) != len(code):
        return None
    affected = made_of(lets, name)
    places = [i for i, x in enumerate(code) if not LET.match(x) and affected & set(re.findall(r"\w+", x))]
    if not places or not all(re.match(r"\s*(if|for) ", code[i]) for i in places) or any(re.match(r"any\(", lets.get(n, "")) for n in affected):
        return None
    changed = lets_of(mutant)
    try:
        for one in draws(lets):
            before = [use_of(code, i, one) for i in places]
            two = Drawn(changed, one.r, free_of(one, lets, changed))
            if before != [use_of(code, i, two) for i in places]:
                return None
    except UNREADABLE:
        return None
    return "all loops and conditions that it takes part in are the same for all lengths"


def use_of(code, at, drawn):
    """The steps of a loop, or those of the loop around in which a condition holds, whatever votes say that lets keep."""
    loop = before_a_colon(code[at])
    if loop:
        return list(range(int(drawn.value(loop[1])), int(drawn.value(loop[2]))))
    condition = of_one_tile(condition_of(code[at]), drawn.lets)
    index = next((n for n in sorted(names_of(condition, {})) if loop_around(code, at, n)), None)
    names = names_of(condition, {}) - {index, "and", "or", "not"} - FUNCTIONS.keys()
    votes = sorted(n for n in names if re.match(r"any\(", drawn.lets.get(n, "")))
    if votes:
        ways = [re.sub(rf"\b{votes[0]}\b", said, condition) for said in ("true", "false")]
        return [use_of(code[:at] + [f"{' ' * depth_of(code[at])}if {way}"], at, drawn) for way in ways]
    for name in sorted(names):
        drawn.name(name)
    if not index:
        return bool(drawn.value(condition))
    low, high = [int(drawn.value(x)) for x in loop_around(code, at, index)]
    return [j for j in range(low, min(high, low + 60)) if Drawn(drawn.lets, drawn.r, drawn.known | {index: fractions.Fraction(j)}).value(condition)]


def no_block(mutant, code):
    """No round where nothing exists, for one whose elements are all past the end."""
    new, old, _ = changes(mutant, code)
    m = len(old) == len(new) == 1 and re.match(r"\s*let (\w+) = max\(1, (ceil\(\w+/\w+\))\)$", old[0])
    if not m or new[0].strip() != f"let {m.group(1)} = max(0, {m.group(2)})":
        return None
    for line in code:
        if re.search(rf"\b{m.group(1)}\b", line) and line != old[0] and not re.match(
                rf"\s*(for \w+ = (0|max\(0, \w+\)):{m.group(1)}|if \w+ \+ 1 < {m.group(1)}|let steady\w* = min\({m.group(1)}, \w+\)( - 1)?)$", line):
            return None
    return "a block less where nothing exists, whose elements are masked or zeros"


def column_of(code, length):
    """The index of the axis that a loop walks, by its length's name."""
    m = re.search(rf"\b(\w+) in {length}_len\b", "\n".join(code))
    return m.group(1) if m else length


def vote_never(mutant, code):
    """What a vote guards, where scores of bounded size never make it hold: their powers of 2, with the first block's maximum
    taken off, stay small, and so do sums over a block."""
    new, old, at = changes(mutant, code)
    if not old:
        return None
    vote = at if re.match(r"\s*if any\(not part\w* < 32768\)$", old[0]) and not new else next(
        (i for i in enclosing(code, at) if re.match(r"\s*if any\(not part\w* < 32768\)$", code[i])), None)
    if vote is None or at == vote and len(old) != len(lines_under(code, vote)[0]) + 2:
        return None
    if at != vote and lines_under(code, vote)[1] < at + len(old):
        return None
    depth = depth_of(code[vote])
    tail = [i for i in range(vote) if depth_of(code[i]) == depth and re.match(r"\s*Compute MultiplyAdd (\w+), 1\.44269504, (\w+) and get \1$", code[i])]
    if not tail:
        return None
    score = code[tail[-1]].split()[2].rstrip(",")
    start = [i for i in range(tail[-1]) if re.match(rf"\s*Compute GEMM .* and get {score} by ", code[i])]
    if not start:
        return None
    begun = [i for i in range(vote) if re.match(rf"\s*Compute RowMax {score} and accumulate ", code[i])]
    if all(any(re.match(r"\s*if any\(", code[k]) for k in enclosing(code, i)) for i in begun):
        return None                                     # the first block's maximum is not taken but by a vote
    body = [x for x in code[start[-1] + 1:tail[-1]] if re.search(rf"\b{score}\b", x) or re.match(r"\s*(if|end)\b", x)]
    short = [k for k, x in enumerate(body) if re.match(r"\s*if \w+ == \w+$", x)]
    around = [before_a_colon(code[i]) for i in enclosing(code, vote) if before_a_colon(code[i])]
    lets = lets_of(code)
    made = " ".join(lets.get(n, "") for n in sorted(names_of(around[0][2], lets))) if around else ""
    walked = re.search(r"ceil\((?:min\()?(\w+)_len\b", made)
    if not walked:
        return None
    within = scores_within([x for x in (body[:short[0]] if short else body) if not re.match(r"\s*if \w+ \+ 1 < ", x)], column_of(code, walked.group(1)), lets,
                           Names(code) if re.match(r"(0|1|max\([01], \w+\))$", around[0][1]) else None)
    block = re.search(r"\bB[NK] = (\d+)", "\n".join(code[:vote]))
    if within is None or block is None or not math.isfinite(within[1] - within[0]):
        return None
    most = int(block.group(1)) * math.exp(min(within[1] - within[0], 80)) * 1.01
    return "scores are so small that the vote never holds" if most < 32768 else None


def added_once(mutant, code):
    """An Output that is added up begins at zeros; where each element is written once, adding is storing."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not re.match(r"\s*Copy .* to global", old[0]):
        return None
    if re.sub(r" and accumulate (\w+)$", r" and get \1", new[0]) == re.sub(r" and accumulate (\w+)$", r" and get \1", old[0]) and "accumulate" in new[0]:
        return "an Output that is added up begins at zeros, and each of its elements is added once"
    return None


def order_of_copies(mutant, code):
    """Two Copies of tensors into shared tiles; the rules count anew which of them a Wait leaves in flight."""
    new, old, _ = changes(mutant, code)
    copies = [re.match(r"\s*Copy (\w+) \(.*\) in coordinate \[.*\] from global to shared(?: and get (\w+))? by \w+(?: async)?$", x) for x in old]
    if len(copies) != 2 or new != old[::-1] or not all(copies):
        return None
    a, b = (x.group(2) or x.group(1) for x in copies)
    return "copies into tiles of their own, in another order" if a != b else None


def let_of_nothing(mutant, code):
    """A number that only statements take which write what no Output is made of."""
    old = changes(mutant, code)[1]
    name, lets = changed_let(mutant, code), lets_of(code)
    if not name:
        return None
    affected = made_of(lets, name)
    uses = [x for x in code if x != old[0] and affected & set(re.findall(r"\w+", x)) and not (LET.match(x) and LET.match(x).group(1) in affected)]
    if not all(re.match(r"\s*Compute ", x) and effects_of_tl(x) for x in uses):
        return None
    written = {w[0] for x in uses for w in effects_of_tl(x)[0]}
    return "no Output is made of what takes this number" if dead(code, written) else None


def of_its_kernel(mutant, code):
    """Of a program of several kernels the one that is changed: what it gives out is the same, or it is not."""
    starts = [i for i, x in enumerate(code) if x.startswith("kernel ")]
    new, old, at = changes(mutant, code)
    first, last = max((i for i in starts if i <= at), default=0), min((i for i in starts if i > at), default=len(code))
    return (mutant[first:len(mutant) - (len(code) - last)], code[first:last]) if at + len(old) <= last else (mutant, code)


@careful
def of_tl(mutant, code):
    """Why a mutant of TL Code says the same; None: nothing is known."""
    mutant, code = of_its_kernel(mutant, code)
    return (of_one_word(ONE_WORD, mutant, code) or commutes(mutant, code) or first_round(mutant, code)
            or first_by_vote(mutant, code) or tile_size(mutant, code) or same_uses(mutant, code) or no_block(mutant, code) or vote_never(mutant, code) or added_once(mutant, code)
            or order(mutant, code, effects_of_tl) or order_of_sums(mutant, code) or order_of_copies(mutant, code) or overwritten(mutant, code) or nothing_comes_of_it(mutant, code, code, effects_of_tl) or bounds(mutant, code)
            or unreached(mutant, code) or conditions(mutant, code) or loops(mutant, code) or of_rounds(mutant, code) or of_votes(mutant, code) or let_of_nothing(mutant, code)
            or of_conditions(mutant, code) or of_elements(mutant, code) or of_masks(mutant, code) or of_blocks(mutant, code)
            or room_of_votes(mutant, code) or room_under_limit(mutant, code) or of_constants(mutant, code))
