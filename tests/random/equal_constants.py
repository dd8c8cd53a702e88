"""Proofs about TL Code of which nothing comes, because a tile that is made of it is one number all over, whatever went into it: zeros
that a Mask makes of all that exists, products with them, and what is clamped to where it cannot be.
"""
import math
import re

from equal_bounds import always, enclosing
from equal_conditions import Names, base, shape_of, tree_of
from equal_elements import ALL, Ranges, either, function, known, of_two, sum_of
from equal_logic import holds_below
from equal_masks import rows_alone
from equal_text import lines_under, real

POINT = re.compile(r"Compute (\w+) (\w+)(?:, (.+?))?(?: in coordinate \[[^]]*\])? and (get|accumulate) (\w+)$")
ZERO = (0.0, 0.0)


def words(line):
    return {base(x) for x in re.findall(r"[A-Za-z_]\w*", line)}


def target(line):
    """The tile that a statement writes; None: it writes none."""
    m = re.search(r"\b(?:get|accumulate) (\w+)", line) or re.match(r"\s*(?:Copy|Reshape|Compute Mask) (\w+)", line)
    return base(m.group(1)) if m and re.match(r"\s*(Copy|Compute|Reshape) ", line) else None


class Points(Ranges):
    """Between what elements are, also of tiles that are copied from place to place. A product is 0 where one factor is and the other
    one is a finite number: of an Input, which is taken to hold no others."""

    def __init__(self, code):
        self.names, self.after, self.done = Names(code), {}, {}
        tiles = [re.match(r"\s*Allocate ([\w, ]+) in (register|shared) (.*)$", x) for x in code]
        self.places = {place: {n for m in tiles if m and m.group(2) == place for n in m.group(1).split(", ")} for place in ("register", "shared")}
        self.overlaid = {n for m in tiles if m and " in place of " in m.group(3) for n in [*m.group(1).split(", "), m.group(3).split()[-1]]}
        self.tables = {m.group(1) for m in (re.match(r"Input +(\w+) +\w+ \(", x) for x in code) if m}
        self.chosen = {m.group(1) for m in (re.match(r"let (\w+) \([^)]*\) = (\w+)\[", x) for x in code) if m and m.group(2) in self.tables}
        super().__init__(code)

    def is_done(self, i):
        if i not in self.done:
            self.done[i] = always(self.code, i)
        return self.done[i]

    @staticmethod
    def join(a, b):
        """Of a tile that one way has not written, what the other one has: nobody reads it before it is written."""
        found = {}
        for n in a.keys() | b.keys():
            tile = " ".join(n.split()[:2])
            if n in a and n in b:
                found[n] = either(a[n], b[n])
            elif tile not in a or tile not in b:
                found[n] = (a if n in a else b)[n]
        return found

    def note(self, i, state):
        self.after[i] = dict(state)                     # the last time that a loop is walked stands

    def key(self, name, place=None):
        """A tile with its place; None: nothing is noted of it."""
        place = place or ("shared" if name.endswith("_shared") or base(name) not in self.places["register"] else "register")
        return None if base(name) in self.overlaid or base(name) not in self.places[place] else f"{base(name)} {place}"

    def operand(self, text, state):
        """Between what a number or a tile lies, and whether it is a finite number."""
        if real(text) == real(text):
            return (real(text), real(text)), True
        if re.match(r"\w+(\.T)?$", text) and base(text.split(".")[0]) in self.places["register"] | self.places["shared"]:
            key = self.key(text.split(".")[0])
            return state.get(key, ALL), f"{key} given" in state
        return ALL, self.is_finite(text)

    def is_finite(self, text, depth=0):
        """Whether an expression of numbers that are finite is so as well."""
        names, tiles = set(re.findall(r"[A-Za-z_]\w*", text)), self.places["register"] | self.places["shared"]
        plain = set(re.findall(r"(\w+)\(", text)) <= {"select", "min", "max", "abs"} and "/" not in re.sub(r"/[1-9][\d.]*(?![\w(])", "", text)
        return depth < 9 and plain and not names & tiles and all(self.is_finite(self.names.lets[n], depth + 1) for n in names & self.names.lets.keys())

    def put(self, state, key, found, given=False, past=None):
        if not key:
            return
        state[key] = known(found)
        for name, value in ((f"{key} given", ZERO if given else None), (f"{key} past", past)):
            state.pop(name, None)
            if value is not None:
                state[name] = value

    def statement(self, i, line, state):
        if line.startswith("kernel "):
            state.clear()
        if line.startswith("Copy "):
            self.copy(line, state)
        elif line.startswith("Compute Mask "):
            self.mask(i, line, state)
        elif line.startswith("Compute GEMM "):
            self.gemm(line, state)
        elif POINT.match(line):
            self.compute(*POINT.match(line).groups(), state)
        elif target(line) and not re.match(r"Reshape \w+ from mma_C to mma_A$", line):
            self.forget(target(line), state)

    def forget(self, name, state):
        for place in ("register", "shared"):
            self.put(state, f"{name} {place}", ALL)

    def copy(self, line, state):
        m = re.match(r"Copy (\w+)(?: \(.*\) in coordinate \[.*\])? from (\w+) to (\w+)(?: and get (\w+))?( |$)", line)
        if not m:
            return self.forget(target(line), state)
        source, place, to = m.group(1), m.group(2), m.group(3)
        if to == "global":
            return None
        key = self.key(m.group(4) or source, to)
        if place == "global":
            return self.put(state, key, ALL, base(source) in self.tables | self.chosen, ZERO if base(source) in self.tables else None)
        old = self.key(source, place)
        return self.put(state, key, state.get(old, ALL), f"{old} given" in state, state.get(f"{old} past"))

    def mask(self, i, line, state):
        m = re.match(r"Compute Mask (\w+)(?:, (-?[\d.]+))?(?: in coordinate (\[[^]]*\]))? where (.*)$", line)
        if not m:
            return self.forget(target(line), state)
        key, value = self.key(m.group(1)), real(m.group(2)) if m.group(2) else -math.inf
        old, past = state.get(key, ALL), state.get(f"{key} past")
        condition, found, axes = tree_of(m.group(4)), (value, value), shape_of(self.code, m.group(1))
        if not any(re.match(r"\s*for ", self.code[k]) for k in enclosing(self.code, i)):
            axes = axes | {rows_alone(self.code, i, m.group(1), m.group(3) or "")}
        if not holds_below(condition, self.names, axes):     # of axes that the tile has whole, and of rows that are stored
            whole = past is not None and holds_below(condition, self.names)
            found = either(past if whole else old, found)
        return self.put(state, key, found, f"{key} given" in state and math.isfinite(value))

    def gemm(self, line, state):
        m = re.match(r"Compute GEMM (\S+), (\S+) and (get|accumulate) (\w+)( by \w+)?( async)?$", line)
        if not m:
            return self.forget(target(line), state)
        (x, finite_x), (y, finite_y) = [self.operand(t, state) for t in m.group(1, 2)]
        r = ZERO if x == ZERO and (finite_y or y == ZERO) or y == ZERO and finite_x else ALL
        key = self.key(m.group(4))
        return self.put(state, key, sum_of(state.get(key, ALL), r) if m.group(3) == "accumulate" else r)

    def compute(self, name, a, b, how, to, state):
        (x, finite_x), (y, finite_y) = [self.operand(t, state) if t else (ALL, True) for t in (a, b)]
        if name == "Fill":
            r = x
        elif b is None:
            r = function(name, x)
        elif name in ("Multiply", "Divide") and ZERO in (x, y):
            r = of_two(name, x, y) if (finite_x or x == ZERO) and (finite_y or y == ZERO) else ALL
        elif name == "Multiply" and a == b:
            r = 0.0, math.inf
        else:
            r = of_two(name, x, y)
        key = self.key(to)
        if how == "accumulate":
            before = state.get(key, ALL)
            r = {"RowMax": lambda: (before[0], max(before[1], r[1])), "RowMin": lambda: (min(before[0], r[0]), before[1])}.get(
                name, lambda: sum_of(before, r))()
        past = state.get(f"{self.key(a)} past") if name == "Cast" and how == "get" else None
        self.put(state, key, r, past=past)


# --- what is left -----------------------------------------------------------------------------------

def with_numbers(code):
    """The text with each tile made anew where it is one number all over, under a name of its own from there on; None: there is none."""
    found = Points(code)
    role = [i for i, x in enumerate(code) if x.startswith("role ")]
    if len(role) != 1:
        return None
    at, end = role[0] + 1, lines_under(code, role[0])[1]
    lines, renamed = code[:at], {}

    def now(line):
        return re.sub(r"\b[A-Za-z_]\w*\b", lambda m: renamed.get(base(m.group(0)), m.group(0)), line)
    while at < end:
        after = lines_under(code, at)[1] if re.match(r"\s*(if|for) ", code[at]) else at
        lines += [now(x) for x in code[at:after + 1]]
        for name in sorted({target(x) for x in code[at:after + 1]} - {None}):
            value = found.after.get(after, {}).get(f"{name} register", ALL)
            if value[0] == value[1] and math.isfinite(value[0]) and name not in found.places["shared"]:
                renamed[name] = f"{renamed.get(name, name)}_now"
                lines.append(f"    Compute Fill {value[0] + 0.0} and get {renamed[name]}")
        at = after + 1
    return lines + code[end:] if renamed else None


def what_counts(code):
    """The lines that an Output is made of, with the conditions and loops around them, and what the whole kernel is."""
    live, kept, around, open_at = set(), set(), {}, []
    for i, line in enumerate(code):
        if line.strip() == "end":
            around[i] = [open_at.pop()] if open_at else []
            continue
        around[i] = list(open_at)
        if re.match(r"\s*(if|for|role) ", line):
            open_at.append(i)
    while True:
        before = len(kept), len(live)
        for i, line in enumerate(code):
            is_let = line.strip().startswith("let ") and set(re.findall(r"(?:\blet|,) (\w+)(?= =| \()", line)) & live
            if i in kept or not (is_let or re.match(r"\s*(grid\b|Copy .* to global)", line) or target(line) in live and target(line)):
                continue
            for k in [i, *around[i]]:
                if k not in kept:
                    kept.add(k)
                    live |= words(code[k])
        if (len(kept), len(live)) == before:
            break
    kept |= {i for i in around if code[i].strip() == "end" and set(around[i]) <= kept}
    fixed = r"\s*(kernel|Input|Output|role)\b"
    waits = [i for i, x in enumerate(code) if re.match(r"\s*(Wait|Release|Allocate) ", x) and words(x.strip().split(" in ")[0].partition(" ")[2]) & live and set(around[i]) <= kept | {
        k for k in around[i] if re.match(fixed, code[k])}]
    return [x for i, x in enumerate(code) if i in kept or i in waits or re.match(fixed, x)]


def of_constants(mutant, code):
    """Why a mutant says the same by what is one number whatever it is made of; None: nothing is known."""
    was = with_numbers(code)
    now = was and with_numbers(mutant)
    if not now or what_counts(now) != what_counts(was):
        return None
    return "of finite numbers, what it goes into is one number all over, whatever is changed"
