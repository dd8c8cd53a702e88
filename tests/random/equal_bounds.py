"""Proofs about bounds, conditions and loops, of TL Code and of CUDA text alike.

What depends on lengths is decided by drawing many (a_length): conditions and bounds are made of them, of blocks' sizes and of
an index alone; where anything else stands in them, nothing is proved.
"""
import fractions
import functools
import math
import random
import re

from equal_text import changes

DRAWN = 3000
LENGTHS = tuple(range(0, 6)) + (15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300, 383, 511, 549, 700, 1647)


def a_length(r):
    """One of the lengths at which blocks begin or end, or any."""
    return fractions.Fraction(r.choice(LENGTHS) if r.random() < 0.5 else r.randrange(1000))


@functools.lru_cache(1 << 16)
def python_of(text):
    """An expression of TL or CUDA for Python; names of functions stay."""
    text = re.sub(r"\((?:int|long long|unsigned|float)\)", "", text)
    text = re.sub(r"\b(args|tile|next)\.", "", text)
    text = re.sub(r"(\d)(?:LL|u)\b", r"\1", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    if "ceil(" not in text and "floor(" not in text:
        text = re.sub(r" / ", " // ", text)             # of whole numbers in CUDA; TL says ceil or floor
    return text.strip()


FUNCTIONS = {"min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "ftl_min_integer": min, "ftl_max_integer": max, "ftl_min_wide": min,
             "ftl_max_wide": max, "ftl_divide_up": lambda a, b: math.ceil(a / b), "ftl_divide_up_wide": lambda a, b: math.ceil(a / b),
             "ftl_divide_down": lambda a, b: math.floor(a / b), "ftl_divide_down_wide": lambda a, b: math.floor(a / b), "true": True, "false": False}
LET = re.compile(r"\s*(?:let|const int|constexpr int|const long long|int) (\w+) = ([^;]*?);?\s*(?://.*)?$")


def one_let(line):
    """A line that gives one name a meaning; of one that gives several it is not known which one is changed."""
    m = LET.match(line)
    return m if m and not re.search(r", \w+ = ", m.group(2)) else None


def lets_of(lines):
    """Names of whole numbers and their expressions, each once; a name that has two meanings is left out."""
    found, twice = {}, set()
    for line in lines:
        for part in re.sub(r"//.*", "", line).split(", ") if line.strip().startswith("let ") and re.match(r"\s*let \w+ = \d+, ", line) else [line]:
            m = LET.match(part if "let " in part or "int " in part or "long" in part else "let " + part)
            if not m:
                continue
            name, text = m.group(1), python_of(m.group(2))
            if name in found and found[name] != text:
                twice.add(name)
            found.setdefault(name, text)
    return {n: t for n, t in found.items() if n not in twice}


def lets_before(lines, at):
    """The same, as they stand where a line is: of several of one name the last one before it."""
    found = lets_of(lines)
    for line in lines[:at]:
        m = LET.match(line) if re.match(r"\s*(let|const int) ", line) else None
        if m:
            found[m.group(1)] = python_of(m.group(2))
    return found


# What drawing values may raise where a text says more than is known here: then nothing is proved of it.
UNREADABLE = (ValueError, SyntaxError, NameError, TypeError, ZeroDivisionError)


@functools.lru_cache(1 << 16)
def read(text):
    """The expression, and the names that it takes."""
    tree = compile(text, "", "eval")
    return tree, [name for name in tree.co_names if name not in FUNCTIONS]


class Drawn:
    """Values of names for lengths drawn; an expression that needs more is not known."""

    def __init__(self, lets, r, fixed):
        self.lets, self.r, self.known = lets, r, dict(fixed)
        self.drawn = set()                              # names that were given numbers, not made of others

    def value(self, text):
        tree, names = read(text)
        return eval(tree, {"__builtins__": {}} | FUNCTIONS, {name: self.name(name) for name in names})

    def name(self, name):
        if name not in self.known:
            if name.endswith("_block"):
                self.known[name] = fractions.Fraction(self.r.randrange(9))
            elif name.endswith("_len") and re.search(r"\[|ftl_load_global", self.lets.get(name, "")):
                self.known[name] = a_length(self.r)    # of a table
            elif name in self.lets and re.search(r"[?\[]|any\(|blockIdx|threadIdx|ftl_(thread|quotient|load)|shared|select|%|scale|\.", self.lets[name]) is None:
                self.known[name] = None                # no circle
                try:
                    self.known[name] = fractions.Fraction(self.value(self.lets[name]))
                except ValueError:
                    if not name.endswith("len"):
                        raise
                    self.known[name] = a_length(self.r)    # of numbers that nothing else takes
                    self.drawn.add(name)
            elif name in self.lets or not re.search(r"(^len|_len|_steps|_block|_room|_number|^offset|^(?:off|win|lim|cut)\d*|^room|^j\d?|^i|^first)$", name) and name not in ("batch",):
                raise ValueError(name)
            else:
                below = re.match(r"(off|win|lim|cut)\d*$", name) and self.r.random() < 0.2    # of scalars, which may be below 0
                self.known[name] = -a_length(self.r) if below else a_length(self.r)
        if self.known[name] is None:
            raise ValueError(name)
        return self.known[name]


def draws(lets):
    """Lengths and scalars, drawn again and again, always the same ones: what each name is then."""
    r = random.Random(1)
    for _ in range(DRAWN):
        yield Drawn(lets, r, {})


def free_of(old, old_lets, new_lets):
    """What was drawn for one text and stands for the same in the other one, which takes it over."""
    free = {n: v for n, v in old.known.items() if n not in old_lets or n.endswith("_block") or "[" in old_lets[n] or n in old.drawn}
    if any(old_lets.get(n) != new_lets.get(n) for n in free):
        raise ValueError("a name that stands for something else")
    return free


def drawn(mutant, code, names, check):
    """Whether check(new, old) holds of the values of names in both texts, for all lengths drawn; None: not known."""
    new_lets, old_lets = lets_of(mutant), lets_of(code)
    try:
        for old in draws(old_lets):
            for n in names:
                old.name(n)
            new = Drawn(new_lets, old.r, free_of(old, old_lets, new_lets))
            for n in names:
                new.name(n)
            # What does not fit into a tensor is no launch: queries' blocks lie inside.
            if not check(new, old):
                return False
    except UNREADABLE:
        return None
    return True


@functools.lru_cache(1 << 16)
def before_a_colon(line):
    m = re.match(r"\s*for (\w+) = (.*):(.*?)\s*(?://.*)?$", line)
    return m and (m.group(1), python_of(m.group(2)), python_of(m.group(3)))


def changed_let(mutant, code):
    """The name whose definition is all that the change is about; None: it is about something else."""
    new, old, _ = changes(mutant, code)
    m = [one_let(x) for x in new + old]
    is_one = len(new) == 1 and len(old) == 1 and all(m) and m[0].group(1) == m[1].group(1)
    return m[0].group(1) if is_one else None


def made_of(lets, name):
    """The name, and all lets that it takes part in."""
    affected = {name}
    while True:
        more = {n for n, t in lets.items() if affected & set(re.findall(r"\w+", t))} - affected
        if not more:
            return affected
        affected |= more


def start_of_both(used, name):
    """The number from which a loop goes to a let, and on from there the next one, where nothing else looks at the let: the first loop
    has no round while the let is not above it."""
    first = re.search(rf"for (\w+) = (\d+):{name}\b", used)
    index, start = first.groups() if first else ("", "")
    alone = first and len(re.findall(rf"\b{name}\b", used)) == 2 and re.search(rf"for {index} = max\({start}, {name}\):", used[first.end():])
    return int(start) if alone else -math.inf


def bounds(mutant, code):
    """A let whose change moves blocks to where they are done as well, or nothing at all."""
    name, lets = changed_let(mutant, code), lets_of(code)
    if name not in lets:
        return None
    affected = made_of(lets, name)
    used = " ".join(x for x in code if not LET.match(x))
    told = [n for n in sorted(affected) if re.search(rf"\b{n}\b", used)]
    if not told:
        return None
    starts = {n: start_of_both(used, n) for n in told if n.startswith("steady")}

    def fits(new, old):
        for n in told:
            x, y = new.name(n), old.name(n)
            if x == y:
                continue
            if n.startswith("steady"):
                # What it leaves comes to the loop that goes on from it.
                if x < y and not re.search(rf" = (max|ftl_max_integer)\([^,:;]*, {n}\)[:;]", used):
                    return False
                others = [m for m in re.findall(r"[a-z]\w*", lets[n]) if m in lets]
                next = 1 if "- 1" in lets[n] else 0
                # Blocks past the end may have come to the loop as well: what may be there is told by its other limits.
                ends = {m: max(old.name(m), new.name(m)) if m in affected else old.name(m) for m in others if m.startswith("blocks")}
                if x > starts[n] and any(x > (ends[m] - next if m in ends else old.name(m)) for m in others) or not others or ends and len(ends) == len(others) and any(
                        ends[m] > old.name(m) for m in ends):
                    return False
            elif n.startswith("blocks") or lets[n].startswith("blocks"):
                if x < y:
                    return False
            elif n.startswith(("full", "whole")):
                if x > y or re.search(rf"(<|<=) {n}\b", used):
                    return False
            elif n.startswith("clear"):
                if x < y or re.search(rf"(>|>=) {n}\b", used):
                    return False
            else:
                return False
        return True
    if drawn(mutant, code, told, fits):
        return "blocks go from a loop without tests to the one with them, are masked though they need not be, or lie past the end and are masked whole"
    return None


# --- conditions and loops -------------------------------------------------------------------------

def loop_around(lines, at, index):
    """The bounds of the loop over an index, by its line in front."""
    for line in reversed(lines[:at]):
        m = before_a_colon(line)
        if m and m[0] == index:
            return m[1], m[2]
        m = re.match(rf"\s*for \((?:int|const int) {index} = (.*?); {index} < (.*?); {index}\+\+\) \{{", line)
        if m:
            return python_of(m.group(1)), python_of(m.group(2))
    return None


def condition_of(line):
    m = re.match(r"\s*if \((.*)\) \{$", line) or re.match(r"\s*if (.*?)\s*(?://.*)?$", line)
    return m and python_of(m.group(1))


def body_of(lines, at):
    """What stands under a condition, by its indentation."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    body = []
    for line in lines[at + 1:]:
        if line.startswith("#"):
            continue
        if len(line) - len(line.lstrip()) <= depth:
            break
        body.append(line.strip())
    return body


MASK = r"(\w+(?:\[[^]]*\])+) = .*limit_\d+.* \? (-ftl_infinity\(\)|-?[\d.]+(e[+-]?\d+)?f) : \1;$"


def masks_alone(body):
    """Whether lines of CUDA text do nothing but mask elements by limits of what exists."""
    written = [x for x in body if re.match(r"\w+(\[[^]]*\])+ = ", x) and not re.match(r"limit_\d+\[", x)]
    calls = [x for x in body if re.match(r"ftl_", x)]
    return bool(written) and not calls and all(re.match(MASK, x) for x in written)


def of_one_tile(condition, lets):
    """A condition that asks for the next tile alone is one of any tile; of this and the next one at once it stays what it is."""
    if "next(" not in condition:
        return condition
    rest = names_of(re.sub(r"\bnext\(\w+\)", "", condition), lets)
    return condition if any(n.endswith("_block") or n in ("b", "head") for n in rest) else re.sub(r"\bnext\((\w+)\)", r"\1", condition)


def conditions(mutant, code):
    """A condition on a mask or a copy that holds for all blocks for which it held, and for others to which it does nothing."""
    new, old, at = changes(mutant, code)
    if not old or condition_of(old[0]) is None:
        return None
    lets = lets_of(code)
    before = of_one_tile(condition_of(old[0]), lets)
    now = of_one_tile(condition_of(new[0]), lets) if new and condition_of(new[0]) is not None and not new[0].strip().startswith(("Compute", "Copy")) else None
    if now is None:
        first = old[0]
        if re.match(r"\s*if ", first) and [x.strip() for x in new] == [x.strip() for x in old[1:-1]]:
            now = "true"                            # dropped, and its body is done always
        else:
            return None
    elif len(new) != 1 or len(old) != 1 or ("next(" in old[0]) != ("next(" in new[0]):
        return None
    body = body_of(code, at)
    masks = all(re.match(r"Compute Mask|end$|if ", x) for x in body if x) or masks_alone(body)
    copies = all(re.match(r"Copy .* from global|end$|if |else$|\{|\}|(FTL_UNROLL )?for |const |unsigned |ftl_load_global_\w+(<8>)?\(|ftl_cp_async_16|\w+_register(\[\w+\])+ = ", x) for x in body if x)
    index = next((n for n in re.findall(r"[a-z]\w*", before) if loop_around(code, at, n)), None)
    same, more = True, True
    try:
        for d in draws(lets_of(code)):
            places = [None]
            if index:
                low, high = loop_around(code, at, index)
                low, high = int(d.value(low)), int(d.value(high))
                if high <= low:
                    continue
                places = sorted({low, high - 1, d.r.randrange(low, high), d.r.randrange(low, high)})
            for j in places:
                if index:
                    d.known[index] = fractions.Fraction(j)
                x, y = bool(d.value(now)), bool(d.value(before))
                same &= x == y
                more &= x or not y
    except UNREADABLE:
        return None
    if same:
        return "the condition is the same for every block"
    if more and masks:
        return "more blocks are masked, by a mask that leaves what exists"
    if more and copies:
        return "a block past the end is copied, as zeros that nobody reads"
    return None


def loops(mutant, code):
    """A loop over the same blocks, or over one more past the end."""
    new, old, at = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    a, b = before_a_colon(new[0]), before_a_colon(old[0])
    if not a or not b:
        m = [re.match(r"\s*for \(int (\w+) = (.*?); \1 (?:<|!=) (.*?); \1\+\+\) \{", x) for x in (new[0], old[0])]
        if not all(m):
            return None
        a, b = [(x.group(1), python_of(x.group(2)), python_of(x.group(3))) for x in m]
    same, longer = True, True
    try:
        for d in draws(lets_of(code)):
            x, y = [range(int(d.value(t[1])), int(d.value(t[2]))) for t in (a, b)]
            same &= list(x) == list(y)
            longer &= x.start == y.start and x.stop == y.stop + 1
    except UNREADABLE:
        return None
    if same:
        return "the loop has the same steps for all lengths"
    if longer and b[2].startswith("blocks"):
        return "a block more, past the end, whose elements are masked or zeros"
    return None


# --- what is never reached ------------------------------------------------------------------------

def enclosing(lines, at):
    """The lines that a line stands under, by indentation, the innermost first."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    for i in range(at - 1, -1, -1):
        line = lines[i]
        own = len(line) - len(line.lstrip())
        if line.strip() and not line.startswith("#") and own < depth:
            depth = own
            yield i


def condition_at(lines, at):
    """The condition of a line that begins a block, also of what is done else."""
    if lines[at].strip() != "} else {":
        return condition_of(lines[at])
    depth = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        if len(line) - len(line.lstrip()) == depth and not line.startswith("#"):
            return condition_of(line) and f"not ({condition_of(line)})"
    return None


def names_of(text, lets):
    """The names in an expression, and in what those are made of."""
    found, left = set(), re.findall(r"[A-Za-z_]\w*", text)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += re.findall(r"[A-Za-z_]\w*", lets.get(name, ""))
    return found


def condition_holds(lines, at):
    """Whether the condition of a line holds, of one draw of lengths after the other, and of rounds of the loop around that it asks for."""
    lets, condition = lets_before(lines, at), condition_at(lines, at)
    index = next((n for n in sorted(names_of(condition, lets)) if loop_around(lines, at, n)), None)
    for d in draws(lets):
        places = [None]
        if index:
            low, high = [int(d.value(x)) for x in loop_around(lines, at, index)]
            places = [*range(low, min(high, low + 40)), *range(max(low + 40, high - 2), high)]
        for j in places:
            yield bool(Drawn(lets, d.r, d.known | ({index: fractions.Fraction(j)} if index else {})).value(condition))


def always(lines, at):
    """Whether the condition of a line lets everything in."""
    try:
        return condition_at(lines, at) is not None and all(condition_holds(lines, at))
    except UNREADABLE:
        return False


def never(lines, at):
    """Whether the condition or the loop of a line never lets anything in."""
    line, lets = lines[at], lets_before(lines, at)
    loop = before_a_colon(line)
    m = re.match(r"\s*for \(int (\w+) = (.*?); \1 < (.*?); \1\+\+\) \{", line)
    if m:
        loop = m.group(1), python_of(m.group(2)), python_of(m.group(3))
    try:
        if loop:
            return not any(int(d.value(loop[2])) > int(d.value(loop[1])) for d in draws(lets))
        return condition_at(lines, at) is not None and not any(condition_holds(lines, at))
    except UNREADABLE:
        return False


def unreached(mutant, code):
    new, old, at = changes(mutant, code)
    if not old:
        return None
    if re.match(r"\s*if ", old[0]) and never(code, at) and all(len(x) - len(x.lstrip()) > len(old[0]) - len(old[0].lstrip()) or x.strip() in ("end", "}") for x in old[1:]) and not new:
        return "the condition never holds"
    if len(new) == len(old) == 1 and all(re.match(r"\s*if ", x[0]) for x in (new, old)) and never(code, at) and never(mutant, at):
        return "the condition never holds, before or now"
    if any(never(code, i) for i in enclosing(code, at)):
        return "it stands where no length leads"
    return None
