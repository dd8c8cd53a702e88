"""Proofs about single elements of TL Code: zeros that are made zeros, signs that nothing sees, statements that leave every element as
it is by the range it is in, factors in another order, and rounds that change nothing.
"""
import ast
import math
import re

from equal_bounds import before_a_colon, enclosing, lets_of
from equal_conditions import Names, base, linear, minus, shape_of, tree_of
from equal_text import changes, depth_of, lines_under, real

# --- zeros past an end ----------------------------------------------------------------------------

def is_past_the_end(test, names):
    """Whether a comparison asks for places of an axis past its last one."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.GtE)) or not isinstance(test.left, ast.Name):
        return False
    index = test.left.id
    if not names.is_index(index) or not names.length(index):
        return False
    try:
        beyond = minus(linear(test.comparators[0], names), {names.length(index): 1})
    except ValueError:
        return False
    return set(beyond) <= {""} and beyond.get("", 0) >= (0 if isinstance(test.ops[0], ast.GtE) else -1)


def asks_past_the_end(test, names):
    if isinstance(test, ast.BoolOp):
        return (any if isinstance(test.op, ast.And) else all)(asks_past_the_end(x, names) for x in test.values)
    return is_past_the_end(test, names)


def zeros_again(mutant, code):
    """A Mask with 0 of elements past an axis' end, which the Copy before it made 0."""
    new, old, at = changes(mutant, code)
    m = [re.match(r"\s*Compute Mask (\w+), 0 in coordinate \[[^]]*\] where (.*)$", x) for x in new + old]
    if len(old) != 1 or len(new) > 1 or not all(m) or len({x.group(1) for x in m}) != 1:
        return None
    names, tile = Names(code), base(m[0].group(1))
    if not all(asks_past_the_end(tree_of(x.group(2)), names) for x in m):
        return None
    for line in reversed(code[:at]):
        if re.match(r"\s*if ", line):
            continue
        if re.match(rf"\s*Copy {tile} \(.*from global to register$", line) and depth_of(line) <= depth_of(old[0]):
            return "the Copy before it makes what is past an end 0"
        return None
    return None


# --- signs ----------------------------------------------------------------------------------------

def sign_unseen(mutant, code):
    """A factor's sign, or which of two is subtracted from the other, where of what comes of it only the size is taken."""
    new, old, at = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    m = [re.match(r"\s*Compute (Multiply|Divide) (\w+), (-?[\d.]+(?:e-?\d+)?) and get (\w+)$", x) for x in new + old]
    turned = [re.match(r"\s*Compute (Subtract) (\w+), (\w+) and get (\w+)$", x) for x in new + old]
    signs = all(m) and m[0].group(1, 2, 4) == m[1].group(1, 2, 4) and real(m[0].group(3)) == -real(m[1].group(3))
    if not signs and not (all(turned) and turned[0].group(2, 3, 4) == turned[1].group(3, 2, 4)):
        return None
    name, depth = (m[0] if signs else turned[0]).group(4), depth_of(old[0])
    for line in code[at + 1:]:
        if depth_of(line) < depth or re.match(r"\s*(for|if|role) ", line):
            return None
        if not re.search(rf"\b{base(name)}(_register|_shared)?\b", line):
            continue
        if re.match(rf"\s*Compute (Abs {name}|Multiply {name}, {name}|MultiplyAdd {name}, {name}, (?!{name}\b)[\w.-]+) and get {name}$", line):
            return "of what comes of it only the size is taken"
        if not re.match(rf"\s*Compute (Multiply|Divide) {name}, -?[\d.]+(e-?\d+)? and get {name}$", line):
            return None
    return None


# --- statements that leave every element as it is ---------------------------------------------------

ALL = (-math.inf, math.inf)


def product(a, b):
    ends = [x * y if x * y == x * y else 0.0 for x in a for y in b]
    return min(ends), max(ends)


def function(name, x):
    """Between what a function of one operand lies. Rounding to few bits keeps a sign, and little else."""
    low, high = x
    if name == "Cast":
        return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)
    if x == (0.0, 0.0) and name in ("Tanh", "Sin", "Erf", "Sqrt"):
        return x
    if high == -math.inf and name in ("Exp", "Exp2"):
        return 0.0, 0.0
    if name == "Abs":
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if name in ("Exp", "Exp2", "Sqrt", "Rsqrt", "Erfc"):
        return 0.0, math.inf
    if name in ("Tanh", "Sin", "Erf"):
        return -1.0, 1.0
    if name == "Reciprocal" and low > 0:
        return 0.0, math.inf
    if name == "RowSum":
        return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)
    if name == "RowMax":
        return -math.inf, high
    if name == "RowMin":
        return low, math.inf
    return ALL


def sum_of(x, y):
    """Rounding leaves a sum of what has one sign that sign; else it may pass 0 by as much as its terms are rounded."""
    low, high = x[0] + y[0], x[1] + y[1]
    if min(x[0], y[0]) < 0 and math.isfinite(low):
        low -= 1e-6 * (abs(x[0]) + abs(y[0]))
    if max(x[1], y[1]) > 0 and math.isfinite(high):
        high += 1e-6 * (abs(x[1]) + abs(y[1]))
    return low, high


def of_two(name, x, y):
    if name == "Add":
        return sum_of(x, y)
    if name == "Subtract":
        return sum_of(x, (-y[1], -y[0]))
    if name == "Multiply":
        return product(x, y)
    if name == "Divide" and (y[0] > 0 or y[1] < 0):
        return product(x, (1 / y[1], 1 / y[0]))
    if name == "Max":
        return max(x[0], y[0]), max(x[1], y[1])
    if name == "Min":
        return min(x[0], y[0]), min(x[1], y[1])
    return ALL


def known(x):
    return ALL if any(v != v for v in x) else x


def either(a, b):
    return min(a[0], b[0]), max(a[1], b[1])


def least(text):
    """What a number, or the largest of some, is at least."""
    if real(text) == real(text):
        return real(text)
    parts = re.match(r"max\(([^()]*)\)$", text)
    products = [math.prod(real(x) for x in part.split("*")) for part in parts.group(1).split(",")] if parts else []
    return max((x for x in products if x == x), default=-math.inf)


class Ranges:
    """Walks a text, and notes between what the elements of each tile are, and which statements change none."""

    COMPUTE = re.compile(r"Compute (\w+) (\w+)(?:, ([^ ]+))? and (get|accumulate) (\w+)$")

    def __init__(self, code):
        self.code, self.lets, self.idle, self.before = code, lets_of(code), {}, {}
        self.walk(0, len(code), {})

    def walk(self, first, last, state):
        i = first
        while i < last:
            line, end = self.code[i].strip(), i
            if re.match(r"(for|if|role) ", line):
                end = lines_under(self.code, i)[1]
            if line.startswith("role "):
                state = self.walk(i + 1, end, state)
            elif line.startswith("if "):
                inside = self.walk(i + 1, end, dict(state))
                state = inside if self.is_done(i) else self.join(inside, state)
            elif line.startswith("for "):
                state = self.loop(i + 1, end, state)
            else:
                self.before[i] = dict(state)
                self.statement(i, line, state)
            self.note(end, state)
            i = end + 1 if end > i else i + 1
        return state

    @staticmethod
    def join(a, b):
        return {n: either(a[n], b[n]) for n in a.keys() & b.keys()}

    def is_done(self, i):
        """Whether what stands under a condition is done always."""
        return False

    def note(self, i, state):
        """What is known after a line, or after what a line ends."""

    def loop(self, first, last, state):
        for turn in range(50):
            more = self.join(self.walk(first, last, dict(state)), state)
            if more == state:
                break
            if turn > 2:                                # what goes on growing has no end
                more = {n: (x[0] if x[0] == state.get(n, x)[0] else -math.inf, x[1] if x[1] == state.get(n, x)[1] else math.inf) for n, x in more.items()}
            state = more
        else:
            raise ValueError("a loop that always changes what is known")
        self.walk(first, last, dict(state))
        return state

    def statement(self, i, line, state):
        m = self.COMPUTE.match(line)
        if line.startswith("kernel "):
            state.clear()
        if not m:
            stored = re.match(r"Copy \w+ .* from register to global( |$)", line) is not None
            for name in re.findall(r"\b(?:get|accumulate) (\w+)|(?:Mask|Reshape|Wait) (\w+)" if stored else r"\b(?:get|accumulate) (\w+)|(?:Mask|Copy|Reshape|Wait) (\w+)", line):
                state.pop(base(name[0] or name[1]), None)
            return
        name, a, b, how, to = m.groups()
        x = state.get(base(a), ALL) if real(a) != real(a) else (real(a), real(a))
        if name == "Fill":
            r = x
        elif b is None:
            r = function(name, x)
        elif name == "Multiply" and a == b:
            r = 0.0, math.inf
        else:
            r = of_two(name, x, self.second(b, state))
        if how == "accumulate":
            before = state.get(base(to), ALL)
            r = {"RowMax": lambda: (before[0], max(before[1], r[1])), "RowMin": lambda: (min(before[0], r[0]), before[1])}.get(
                name, lambda: sum_of(before, r))()
        else:
            self.idle[i] = a == to and self.leaves(name, x, real(b) if b else math.nan)
        state[base(to)] = known(r)

    def second(self, text, state):
        """Between what a number or a tile lies."""
        if real(text) == real(text):
            return real(text), real(text)
        return state.get(base(text)) or (least(self.lets.get(text, "")), math.inf)

    @staticmethod
    def leaves(name, x, c):
        """Whether an operation with a number gives each element in a range back."""
        if name == "Abs":
            return x[0] >= 0
        if name in ("Multiply", "Divide"):
            return c == 1
        if name in ("Max", "Min"):
            if name == "Min":
                x, c = (-x[1], -x[0]), -c
            return x[0] >= 0 >= c or x[0] > c + 1e-2 * max(abs(c), 1)
        return False


def idle(mutant, code):
    """Statements that leave every element as it is, left out, or exchanged with one another."""
    new, old, _ = changes(mutant, code)
    if not all(re.match(r"\s*Compute (Abs|Max|Min|Multiply|Divide) ", x) for x in new + old):
        return None
    left = [[x for i, x in enumerate(text) if not found.idle.get(i)] for text, found in ((t, Ranges(t)) for t in (mutant, code))]
    return "statements that leave every element as it is" if left[0] == left[1] else None


def sizes(mutant, code):
    """The size taken before or after a number of at least 0 is added: of the largest or smallest of what is at least 0, which is infinite
    where there is none, and then the size of it is the same."""
    new, old, at = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    absolute, added = [[m for m in (re.match(p, x) for x in new) if m] for p in (r"\s*Compute Abs (\w+) and get \1$", r"\s*Compute Add (\w+), (\d[\d.]*) and get \1$")]
    if len(absolute) != 1 or len(added) != 1 or absolute[0].group(1) != added[0].group(1):
        return None
    name, lets = added[0].group(1), lets_of(code)
    for i in range(at - 1, -1, -1):
        if depth_of(code[i]) != depth_of(old[0]) or re.match(r"\s*(if|for|end)\b", code[i]):
            return None
        factor = re.match(rf"\s*Compute Multiply {name}, ([\w.]+) and get {name}$", code[i])
        largest = re.match(rf"\s*Compute Row(?:Max|Min) (\w+) and get {name}$", code[i])
        if largest:
            below = Ranges(code).before.get(i, {}).get(base(largest.group(1)), ALL)[0]
            return "the size of what is at least 0, or infinite" if below >= 0 else None
        if re.search(rf"\b{name}\b", code[i]) and not (factor and least(lets.get(factor.group(1), factor.group(1))) > 0):
            return None
    return None


# --- factors and rounds ---------------------------------------------------------------------------

def factors(mutant, code):
    """Factors, or summands, by places in another order."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    for names, why in (("Multiply|Divide", "factors in another order"), ("Add|Subtract", "summands in another order")):
        m = [re.match(rf"\s*Compute (?:{names}) (\w+), (.+?)(?: in coordinate (\[[^]]*\]))? and get \1$", x) for x in new]
        if all(m) and m[0].group(1) == m[1].group(1) and not any(re.search(rf"\b{m[0].group(1)}\b", x.group(2)) for x in m):
            places = {x.group(3) for x in m if x.group(3)}
            return why if len(places) <= 1 else None
    return None


def masked_later(mutant, code):
    """A Mask before or after what leaves its value as it is: minus infinity, or 0, times a number above 0, and 0 by functions whose
    value there is 0."""
    new, old, _ = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    functions = [m for m in (re.match(r"\s*Compute (Tanh|Sin|Erf|Sqrt|Abs) (\w+) and get \2$", x) for x in new) if m]
    masks = [m for m in (re.match(r"\s*Compute Mask (\w+)(, 0)? in coordinate \[[^]]*\] where (.*)$", x) for x in new) if m]
    changed = [m for m in (re.match(r"\s*Compute (Multiply|Divide|Add|Subtract) (\w+), (-?[\d.]+(?:e-?\d+)?) and get \2$", x) for x in new) if m]
    if len(masks) == 1 and len(functions) == 1 and masks[0].group(2) and masks[0].group(1) == functions[0].group(2):
        own = re.search(rf"\b{masks[0].group(1)}\b", masks[0].group(3))
        return None if own else "of the 0 that the Mask puts there the function beside it makes 0"
    if len(masks) != 1 or len(changed) != 1 or masks[0].group(1) != changed[0].group(2) or re.search(rf"\b{masks[0].group(1)}\b", masks[0].group(3)):
        return None
    name, number = changed[0].group(1), real(changed[0].group(3))
    kept = number > 0 if name in ("Multiply", "Divide") else not masks[0].group(2)
    return "the statement beside it leaves what the Mask puts there as it is" if kept else None


def made_anew(body, name):
    """Whether the first thing that is done with a tile in each round of a loop is that it is written, whole, by what is always done."""
    named = [i for i, x in enumerate(body) if name in [base(w) for w in re.findall(r"\w+", x)]]
    written = named and re.match(rf"\s*Compute (?!Mask|GEMM)\w+ (?!.*\b{name}\b.* and ).* and get {name}$", body[named[0]])
    around = set(enclosing(body, named[0])) if written else set()
    return bool(written) and not any(re.match(r"\s*if ", body[k]) for k in around) and all(around <= set(enclosing(body, i)) for i in named)


def rounds_more(mutant, code):
    """A round more, which changes no element of what is read after the loop."""
    new, old, at = changes(mutant, code)
    a, b = [before_a_colon(x[0]) if len(x) == 1 else None for x in (new, old)]
    if not a or not b or a[:2] != b[:2] or b[1] != "0" or a[2] != f"{b[2]} + 1":
        return None
    names = Names(code)
    rounds = names.lets.get(b[2], b[2])
    around = [i for i in enclosing(code, at) if re.match(r"\s*for ", code[i])]
    if not rounds.isdigit():
        return None
    body, end = lines_under(code, at)
    after = {base(x) for line in code[end:] for x in re.findall(r"\w+", line)}
    for line in body:
        m = re.match(r"\s*Compute Mask (\w+)(?:, \w+)? (?:in coordinate \[[^]]*\] )?where (.*)$", line)
        tests = [re.match(rf"(\w+) == {b[0]}$", x) for x in m.group(2).split(" and ")] if m and " or " not in m.group(2) else []
        whole = shape_of(code, m.group(1)) if m else ()
        below = [names.known_length(t.group(1)) for t in tests if t and names.is_index(t.group(1)) and names.length(t.group(1)) in whole]
        if any(x is not None and x <= int(rounds) for x in below):
            continue                                    # it holds for no element then
        m = m or re.match(r"\s*Compute \w+ .* and (?:get|accumulate) (\w+)$", line)
        if not m or base(m.group(1)) in after or around and not made_anew(lines_under(code, around[-1])[0], base(m.group(1))):
            return None
    return "a round more, which changes nothing that is read after the loop"


def of_elements(mutant, code):
    """Why a mutant says the same by what it makes of each element; None: nothing is known."""
    return next((why for why in (f(mutant, code) for f in (zeros_again, sign_unseen, idle, sizes, factors, masked_later, rounds_more)) if why), None)
