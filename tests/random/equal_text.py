"""What proofs of TL Code and of CUDA text share: which lines differ, statements in another order, and changes of one word."""
import math
import re


def changes(mutant, code):
    """The lines that differ: (those of the mutant, those of the original, how many stand before them)."""
    first = 0
    while first < min(len(mutant), len(code)) and mutant[first] == code[first]:
        first += 1
    last = 0
    while last < min(len(mutant), len(code)) - first and mutant[-1 - last] == code[-1 - last]:
        last += 1
    return mutant[first:len(mutant) - last], code[first:len(code) - last], first


def depth_of(line):
    return len(line) - len(line.lstrip())


def lines_under(lines, at):
    """What stands under a line, and where its end is."""
    last = next((i for i in range(at + 1, len(lines)) if depth_of(lines[i]) <= depth_of(lines[at])), len(lines))
    return lines[at + 1:last], last


def careful(prove):
    """A text of a form that a proof does not foresee is not proved."""
    def proved(*texts):
        try:
            return prove(*texts)
        except (IndexError, AttributeError, KeyError, OverflowError, RecursionError, ValueError, TypeError, SyntaxError, re.error):
            return None
    return proved


# --- order ----------------------------------------------------------------------------------------

REFERENCE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)((?:\[[^][]*\])*)(?!\w|\()")


def references(text):
    """Variables with their indices: [("S", ["m16", "n8", "2 * half"])]."""
    return [(m.group(1), re.findall(r"\[([^][]*)\]", m.group(2))) for m in REFERENCE.finditer(text)]


def apart(one, other):
    """Whether two references are never of one element: other variables, or an index that is another one."""
    if one[0] != other[0]:
        return True
    for a, b in zip(one[1], other[1]):
        if a == b + " + 1" or b == a + " + 1" or (a.isdigit() and b.isdigit() and a != b):
            return True
    return False


def order(mutant, code, effects):
    """Two statements that follow one another, neither of which writes what the other one names."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    a, b = effects(old[0]), effects(old[1])
    if a is None or b is None:
        return None
    words = {"Compute", "Copy", "from", "to", "in", "and", "get", "accumulate", "global", "shared", "register", "coordinate", "L", "by", "async", "Wait", "Release"}
    free = all(apart(w, n) for w in a[0] for n in b[1] if n[0] not in words) and all(apart(w, n) for w in b[0] for n in a[1] if n[0] not in words)
    return "neither of the two statements writes what the other one names" if free else None


def order_of_sums(mutant, code):
    """A sum, or a maximum over lanes, whose parts come in another order."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    lanes = [re.match(r"\s*(\S+) = ftl_(max|min|add|maximum|minimum)\(\1, ftl_exchange\(\1, (\d+)\)\);$", x) for x in new]
    if all(lanes) and lanes[0].group(1, 2) == lanes[1].group(1, 2):
        return "the lanes of a row, two by two, in another order"
    products = [re.match(r"\s*(ftl_mma_\w+)\(([^,]+\]), (.*)\);$", x) for x in new]
    if all(products) and products[0].group(1, 2) == products[1].group(1, 2) and "start" not in products[0].group(1):
        return "products that are summed in another order"
    for names, why in (("Multiply|Divide", "factors in another order"), ("Add|Subtract", "summands in another order")):
        parts = [re.match(rf"\s*Compute (?:{names}) (\w+), (?!\1 )\S+ and get \1$", x) for x in new]
        if all(parts) and parts[0].group(1) == parts[1].group(1):
            return why
    starts = [re.match(r"\s*ftl_mbarrier_init\((shared \+ \d+), \d+\);$", x) for x in new]
    if all(starts) and starts[0].group(1) != starts[1].group(1):
        return "two barriers, made in another order before the fence"
    return None


def commutes(mutant, code):
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    m = [re.match(r"\s*Compute (Add|Multiply|Max|Min) (\S+), (\S+) and", x) for x in (new[0], old[0])]
    if all(m) and m[0].group(1, 2, 3) == m[1].group(1, 3, 2):
        return "the operation commutes"
    m = [re.search(r"ftl_(add|multiply|max|min|max_integer|min_integer)\(([^(),]+), ([^(),]+)\)", x) for x in (new[0], old[0])]
    if all(m) and m[0].group(1, 2, 3) == m[1].group(1, 3, 2) and new[0].replace(m[0].group(0), "") == old[0].replace(m[1].group(0), ""):
        return "the operation commutes"
    return None


# --- changes of one word --------------------------------------------------------------------------

def of_one_word(rows, mutant, code):
    """A line in which one word alone is another one: rows of (the line, with the word in brackets; what the other may be; why)."""
    new, old, _ = changes(mutant, code)
    if len(old) != 1 or len(new) > 1:
        return None
    now = new[0].strip() if new else ""
    for pattern, allowed, why in rows:
        m = re.search(pattern, old[0].strip())
        if not m:
            continue
        before, after = old[0].strip()[:m.start(1)], old[0].strip()[m.end(1):]
        fits = now.startswith(before) and now.endswith(after) and len(now) >= len(before) + len(after)
        if fits and allowed(m.group(1), now[len(before):len(now) - len(after)]):
            return why
    return None


def real(word):
    try:
        return float(word.rstrip("f"))
    except ValueError:
        return math.nan


def anything(old, new):
    return True


def gone(old, new):
    return not new.strip()


def above(least, most):
    return lambda old, new: least <= real(new) <= most


# A maximum moves where this block's part of a row is too large for what takes it: f16 up to 65504, f32 up to 3e38.
VOTE = "the vote may hold more often, or a little later, before anything overflows: both ways give the same"
