"""Proofs that a mutant of TL Code says the same."""
import math
import re

from equal_bounds import body_of, bounds, conditions, loops, unreached
from equal_text import VOTE, above, anything, careful, changes, commutes, gone, of_one_word, order, order_of_sums


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
    (r"registers (\d+)", anything, "registers that a role may have: the compiler's business"),
    (r"( in place of \w+)$", gone, "bytes of its own"),
    (r"^role math with (\d+) warps$", anything, "rows by more warps: the rules and the emulator count them anew"),
    (r"^if any\(not part\w* < (32768)\)$", above(-math.inf, 65504), VOTE),
    (r"^if any\(not part\w* < (9e18)\)$", above(-math.inf, 1e37), VOTE),
    (r"^if any\(not part\w* (<) [\d.e+]+\)$", lambda old, new: new in (">", ">=", "<="), VOTE),
    (r"^let eager = any\(alpha < ([\d.]+)\)$", above(0, 1), "when the maximum is kept at once: both ways give the same"),
    (r"^Compute Fill (-1e\+?30) and get", above(-1e37, -1e29), "below all scores that f32 can weigh, and finite"),
    (r"^Compute Max \w+, ([\d.]+e-\d+) and get", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
    (r"(?:Input|Output) .* where \w+ (>) 0$", lambda old, new: new == ">=", "a launch is allowed that the sketch's own condition keeps from happening"),
    (r"(?:Input|Output) .* where \w+ > (0)$", above(0, math.inf), "a launch is refused that could be done; none is wrong"),
)


def vote_dropped(mutant, code):
    """The body of a vote, done always."""
    new, old, _ = changes(mutant, code)
    if old and re.match(r"\s*if any\(not part\w* < ", old[0]) and [x.strip() for x in new] == [x.strip() for x in old[1:-1]]:
        return VOTE
    return None


def added_once(mutant, code):
    """An Output that is added up begins at zeros; where each element is written once, adding is storing."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not re.match(r"\s*Copy .* to global", old[0]):
        return None
    if re.sub(r" and accumulate (\w+)$", r" and get \1", new[0]) == re.sub(r" and accumulate (\w+)$", r" and get \1", old[0]) and "accumulate" in new[0]:
        return "an Output that is added up begins at zeros, and each of its elements is added once"
    return None


@careful
def of_tl(mutant, code):
    """Why a mutant of TL Code says the same; None: nothing is known."""
    return (of_one_word(ONE_WORD, mutant, code) or commutes(mutant, code) or vote_dropped(mutant, code) or added_once(mutant, code)
            or order(mutant, code, effects_of_tl) or order_of_sums(mutant, code) or overwritten(mutant, code) or nothing_comes_of_it(mutant, code, code, effects_of_tl) or bounds(mutant, code)
            or unreached(mutant, code) or conditions(mutant, code) or loops(mutant, code))
