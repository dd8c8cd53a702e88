"""Proofs that a text which was changed in one place says the same: of TL Code and of CUDA text alike.

Each proof gives its sentence, or None. What depends on lengths is decided by drawing many (LENGTHS): conditions and bounds
are made of them, of blocks' sizes and of an index alone; where anything else stands in them, nothing is proved.
"""
import fractions
import math
import random
import re
import sys

DRAWN = 3000
LENGTHS = tuple(range(0, 6)) + (15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300, 383, 511, 549, 700, 1647)


def changes(mutant, code):
    """The lines that differ: (those of the mutant, those of the original, how many stand before them)."""
    first = 0
    while first < min(len(mutant), len(code)) and mutant[first] == code[first]:
        first += 1
    last = 0
    while last < min(len(mutant), len(code)) - first and mutant[-1 - last] == code[-1 - last]:
        last += 1
    return mutant[first:len(mutant) - last], code[first:len(code) - last], first


# --- order ---------------------------------------------------------------------------------------

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


def effects_of_cuda(line):
    """What a statement writes and all that it names; None: not known."""
    line = line.strip()
    m = re.match(r"(?:const \w+ )?(\w+(?:\[[^=]*?\])*) ([-+*^|&]?)= (.*);$", line)
    if m:
        return [references(m.group(1))[0]], references(line)
    m = re.match(r"ftl_(\w+?)(?:<[^;]*>)?\((.*)\);$", line)
    if not m:
        return None
    if "mma" in m.group(1) and references(m.group(2)):
        return [references(m.group(2))[0]], references(m.group(2))
    if re.match(r"tma_load|block_barrier|mbarrier_(try_)?wait|mbarrier_expect", m.group(1)):
        return [("memory", [])], references(m.group(2)) + [("memory", [])]
    return None


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
    factors = [re.match(r"\s*Compute (Multiply|Divide) (\S+), \S+ and get \2$", x) for x in new]
    if all(factors) and factors[0].group(2) == factors[1].group(2):
        return "factors in another order"
    starts = [re.match(r"\s*ftl_mbarrier_init\((shared \+ \d+), \d+\);$", x) for x in new]
    if all(starts) and starts[0].group(1) != starts[1].group(1):
        return "two barriers, made in another order before the fence"
    return None


# --- values that nothing comes of ----------------------------------------------------------------

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


# --- bounds and conditions -----------------------------------------------------------------------

def python_of(text):
    """An expression of TL or CUDA for Python; names of functions stay."""
    text = re.sub(r"\((?:int|long long|unsigned|float)\)", "", text)
    text = re.sub(r"\bargs\.", "", text)
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


class Drawn:
    """Values of names for lengths drawn; an expression that needs more is not known."""

    def __init__(self, lets, r, fixed):
        self.lets, self.r, self.known = lets, r, dict(fixed)

    def value(self, text):
        tree = compile(text, "", "eval")
        scope = {}
        for name in tree.co_names:
            if name in FUNCTIONS:
                continue
            scope[name] = self.name(name)
        return eval(tree, {"__builtins__": {}} | FUNCTIONS, scope)

    def name(self, name):
        if name not in self.known:
            if name.endswith("_block"):
                self.known[name] = fractions.Fraction(self.r.randrange(9))
            elif name.endswith("_len") and "[" in self.lets.get(name, ""):
                self.known[name] = fractions.Fraction(self.r.choice(LENGTHS))    # of a table
            elif name in self.lets and re.search(r"[?\[]|any\(|blockIdx|threadIdx|ftl_(thread|quotient|load)|shared|select|%|scale|\.", self.lets[name]) is None:
                self.known[name] = None                # no circle
                self.known[name] = fractions.Fraction(self.value(self.lets[name]))
            elif name in self.lets or not re.search(r"(_len|_steps|_block|_room|_number|^offset|^win|^lim|^cut|^room|^j\d?|^i|^first)$", name) and name not in ("batch",):
                raise ValueError(name)
            else:
                self.known[name] = fractions.Fraction(self.r.choice(LENGTHS))
        if self.known[name] is None:
            raise ValueError(name)
        return self.known[name]


def drawn(mutant, code, names, check):
    """Whether check(new, old) holds of the values of names in both texts, for all lengths drawn; None: not known."""
    r, new_lets, old_lets = random.Random(1), lets_of(mutant), lets_of(code)
    try:
        for _ in range(DRAWN):
            old = Drawn(old_lets, r, {})
            for n in names:
                old.name(n)
            free = {n: v for n, v in old.known.items() if n not in old_lets or n.endswith("_block") or "[" in old_lets[n]}
            new = Drawn(new_lets, r, free)
            for n in names:
                new.name(n)
            # What does not fit into a tensor is no launch: queries' blocks lie inside.
            if not check(new, old):
                return False
    except (ValueError, SyntaxError, NameError, TypeError, ZeroDivisionError):
        return None
    return True


def before_a_colon(line):
    m = re.match(r"\s*for (\w+) = (.*):(.*?)\s*(?://.*)?$", line)
    return m and (m.group(1), python_of(m.group(2)), python_of(m.group(3)))


def bounds(mutant, code):
    """A let whose change moves blocks to where they are done as well, or nothing at all."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    a, b = LET.match(new[0]), LET.match(old[0])
    if not a or not b or a.group(1) != b.group(1):
        return None
    lets = lets_of(code)
    name = b.group(1)
    if name not in lets:
        return None
    affected = {name}
    while True:
        more = {n for n, t in lets.items() if affected & set(re.findall(r"\w+", t))} - affected
        if not more:
            break
        affected |= more
    used = " ".join(x for x in code if not LET.match(x))
    told = [n for n in sorted(affected) if re.search(rf"\b{n}\b", used)]
    if not told:
        return None

    def fits(new, old):
        for n in told:
            x, y = new.name(n), old.name(n)
            if x == y:
                continue
            if n.startswith("steady"):
                others = [m for m in re.findall(r"[a-z]\w*", lets[n]) if m in lets]
                next = 1 if "- 1" in lets[n] else 0
                if any(x > (old.name(m) - next if m.startswith("blocks") else old.name(m)) for m in others) or not others:
                    return False
            elif n.startswith("blocks"):
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


def conditions(mutant, code):
    """A condition on a mask or a copy that holds for all blocks for which it held, and for others to which it does nothing."""
    new, old, at = changes(mutant, code)
    if not old or condition_of(old[0]) is None:
        return None
    before = condition_of(old[0])
    now = condition_of(new[0]) if new and condition_of(new[0]) is not None and not new[0].strip().startswith(("Compute", "Copy")) else None
    if now is None:
        first = old[0]
        if re.match(r"\s*if ", first) and [x.strip() for x in new] == [x.strip() for x in old[1:-1]]:
            now = "true"                            # dropped, and its body is done always
        else:
            return None
    elif len(new) != 1 or len(old) != 1:
        return None
    body = body_of(code, at)
    masks = all(re.match(r"Compute Mask|end$|if ", x) for x in body if x) or any("-ftl_infinity()" in x for x in body) and not any("ftl_cp_async" in x or "mma" in x for x in body)
    copies = all(re.match(r"Copy .* from global|end$|if |\{|\}|for |const |unsigned |ftl_load_global_\w+\(|ftl_cp_async_16|\w+_register(\[\w+\])+ = ", x) for x in body if x)
    r, lets = random.Random(1), lets_of(code)
    index = next((n for n in re.findall(r"[a-z]\w*", before) if loop_around(code, at, n)), None)
    same, more = True, True
    try:
        for _ in range(DRAWN):
            d = Drawn(lets, r, {})
            places = [None]
            if index:
                low, high = loop_around(code, at, index)
                low, high = int(d.value(low)), int(d.value(high))
                if high <= low:
                    continue
                places = sorted({low, high - 1, r.randrange(low, high), r.randrange(low, high)})
            for j in places:
                if index:
                    d.known[index] = fractions.Fraction(j)
                x, y = bool(d.value(now)), bool(d.value(before))
                same &= x == y
                more &= x or not y
    except (ValueError, SyntaxError, NameError, TypeError, ZeroDivisionError):
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
    r, lets = random.Random(1), lets_of(code)
    same, longer = True, True
    try:
        for _ in range(DRAWN):
            d = Drawn(lets, r, {})
            x, y = [range(int(d.value(t[1])), int(d.value(t[2]))) for t in (a, b)]
            same &= list(x) == list(y)
            longer &= x.start == y.start and x.stop == y.stop + 1
    except (ValueError, SyntaxError, NameError, TypeError, ZeroDivisionError):
        return None
    if same:
        return "the loop has the same steps for all lengths"
    if longer and b[2].startswith("blocks"):
        return "a block more, past the end, whose elements are masked or zeros"
    return None


# --- changes of one word -------------------------------------------------------------------------

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
ONE_WORD = (
    (r"stages (\d+)$", anything, "slots of a ring: when a copy starts, not what it brings; the rules count those in flight"),
    (r"registers (\d+)", anything, "registers that a role may have: the compiler's business"),
    (r"( in place of \w+)$", gone, "bytes of its own"),
    (r"^role math with (\d+) warps$", anything, "rows by more warps: the rules and the emulator count them anew"),
    (r"^if any\(not part\w* < (32768)\)$", above(-math.inf, 65504), VOTE),
    (r"^if any\(not part\w* < (9e18)\)$", above(-math.inf, 1e37), VOTE),
    (r"^if any\(not part\w* (<) [\d.e+]+\)$", lambda old, new: new in (">", ">=", "<="), VOTE),
    (r"any_\d+ \|= !\(part\S* < (32768\.0f)\);$", above(-math.inf, 65504), VOTE),
    (r"any_\d+ \|= !\(part\S* < (9e\+?18f)\);$", above(-math.inf, 1e37), VOTE),
    (r"any_\d+ \|= !\(part\S* (<) [\d.e+]+f\);$", lambda old, new: new in (">", ">=", "<=", "!="), VOTE),
    (r"^if \((ftl_any\(any_\d+\))\) \{$", lambda old, new: new == "true", VOTE),
    (r"^let eager = any\(alpha < ([\d.]+)\)$", above(0, 1), "when the maximum is kept at once: both ways give the same"),
    (r"^if \((__builtin_expect\(eager, 0\))\) \{$", lambda old, new: new == "true", "the maximum is kept at once always: both ways give the same"),
    (r"^Compute Fill (-1e\+?30) and get", above(-1e37, -1e29), "below all scores that f32 can weigh, and finite"),
    (r"^Compute Max \w+, ([\d.]+e-\d+) and get", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
    (r"ftl_max\(\S+, ([\d.]+e-\d+f)\);$", above(1e-37, 1e-20), "what keeps a division from 0: far below all sums"),
    (r"(?:Input|Output) .* where \w+ (>) 0$", lambda old, new: new == ">=", "a launch is allowed that the sketch's own condition keeps from happening"),
    (r"(?:Input|Output) .* where \w+ > (0)$", above(0, math.inf), "a launch is refused that could be done; none is wrong"),
)


def vote_dropped(mutant, code):
    """The body of a vote, done always."""
    new, old, _ = changes(mutant, code)
    if old and re.match(r"\s*if any\(not part\w* < ", old[0]) and [x.strip() for x in new] == [x.strip() for x in old[1:-1]]:
        return VOTE
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


def added_once(mutant, code):
    """An Output that is added up begins at zeros; where each element is written once, adding is storing."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1 or not re.match(r"\s*Copy .* to global", old[0]):
        return None
    if re.sub(r" and accumulate (\w+)$", r" and get \1", new[0]) == re.sub(r" and accumulate (\w+)$", r" and get \1", old[0]) and "accumulate" in new[0]:
        return "an Output that is added up begins at zeros, and each of its elements is added once"
    return None


def careful(prove):
    """A text of a form that a proof does not foresee is not proved."""
    def proved(*texts):
        try:
            return prove(*texts)
        except (IndexError, AttributeError, KeyError, OverflowError, RecursionError, ValueError, TypeError, re.error):
            return None
    return proved


@careful
def of_tl(mutant, code):
    """Why a mutant of TL Code says the same; None: nothing is known."""
    return (of_one_word(ONE_WORD, mutant, code) or commutes(mutant, code) or vote_dropped(mutant, code) or added_once(mutant, code)
            or order(mutant, code, effects_of_tl) or order_of_sums(mutant, code) or overwritten(mutant, code) or nothing_comes_of_it(mutant, code, code, effects_of_tl) or bounds(mutant, code)
            or unreached(mutant, code) or conditions(mutant, code) or loops(mutant, code))


# --- what is never reached -----------------------------------------------------------------------

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


def never(lines, at):
    """Whether the condition or the loop of a line never lets anything in."""
    line, lets, r = lines[at], lets_before(lines, at), random.Random(1)
    loop = before_a_colon(line)
    m = re.match(r"\s*for \(int (\w+) = (.*?); \1 < (.*?); \1\+\+\) \{", line)
    if m:
        loop = m.group(1), python_of(m.group(2)), python_of(m.group(3))
    condition = None if loop else condition_at(lines, at)
    if not loop and condition is None:
        return False
    index = None if loop else next((n for n in sorted(names_of(condition, lets)) if loop_around(lines, at, n)), None)
    try:
        for _ in range(DRAWN):
            d = Drawn(lets, r, {})
            if loop:
                if int(d.value(loop[2])) > int(d.value(loop[1])):
                    return False
                continue
            places = [None]
            if index:
                low, high = [int(d.value(x)) for x in loop_around(lines, at, index)]
                places = range(low, min(high, low + 40))
            for j in places:
                here = Drawn(lets, r, d.known | ({index: fractions.Fraction(j)} if index else {}))
                if here.value(condition):
                    return False
    except (ValueError, SyntaxError, NameError, TypeError, ZeroDivisionError):
        return False
    return True


def unreached(mutant, code):
    new, old, at = changes(mutant, code)
    if not old:
        return None
    if re.match(r"\s*if ", old[0]) and never(code, at) and all(len(x) - len(x.lstrip()) > len(old[0]) - len(old[0].lstrip()) or x.strip() in ("end", "}") for x in old[1:]) and not new:
        return "the condition never holds"
    if any(never(code, i) for i in enclosing(code, at)):
        return "it stands where no length leads"
    return None


# --- ways of CUDA text ---------------------------------------------------------------------------

def whole_blocks(mutant, code):
    """The way of whole blocks, taken more seldom: that of cut ones does for both."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    before, now = condition_of(old[0]), condition_of(new[0])
    if not before or not now or not re.match(r"\s*if \((rows|columns)_left >= ", old[0]) or set(re.findall(r"[a-z]\w*", now)) - {"rows_left", "columns_left", "and", "or", "not", "false"}:
        return None
    r, sides = random.Random(1), re.findall(r"\d+", old[0])
    near = [int(x) + k for x in sides for k in (-1, 0, 1, 2)] + [0, 1, 5, 1000]
    for _ in range(DRAWN):
        scope = {"rows_left": r.choice(near), "columns_left": r.choice(near), "false": False}
        if eval(now, {}, scope) and not eval(before, {}, scope):
            return None
    return "whole blocks by the way of cut ones, which does for both"


def groups(mutant, code):
    """A group of copies that is not closed by itself: the emulator counts groups, and a copy lands as late as waits let it."""
    new, old, _ = changes(mutant, code)
    if not new and len(old) == 1 and old[0].strip() == "ftl_cp_async_commit();":
        return "its copies are closed with the next group, or waited for by wait<0>; the emulator lets each land as late as waits allow, at every number of blocks up to several"
    return None


def first_of_a_ring(mutant, code):
    """A loader's wait for a slot that nobody has had yet; a reader's signal after which no tile comes."""
    new, old, at = changes(mutant, code)
    if new or len(old) != 1:
        return None
    m = re.match(r"\s*ftl_mbarrier_try_wait\(shared \+ \d+ \+ 8 \* (\w+_fill), \1_parity\);", old[0])
    if m:
        above = next(iter(enclosing(code, at)), None)
        inside = code[above + 1:at] if above is not None else []
        if above is not None and code[above].strip() == "if (is_first) {" and not any(m.group(1) + " =" in x for x in inside):
            return "the first fill of a ring finds its slot free"
    if re.match(r"\s*if \(lane == 0\) ftl_mbarrier_signal\(", old[0]):
        above = next(iter(enclosing(code, at)), None)
        if above is not None and code[above].strip() == "} else {":
            depth = len(code[above]) - len(code[above].lstrip())
            opening = next((x for x in reversed(code[:above]) if x.strip() and len(x) - len(x.lstrip()) == depth and not x.startswith("#")), "")
            if opening.strip() == "if (has_more) {":
                return "the last tile's last slot: nobody fills it again"
    return None


def slot_of_two(mutant, code):
    """A number that is 0 or 1 is at least 1 where it is 1."""
    new, old, _ = changes(mutant, code)
    if len(new) == len(old) == 1:
        m = re.match(r"\s*(\w+_(?:parity|slot|fill)) (?:\^?=) (\w+_(?:slot|fill)) == 1\b", old[0])
        if m and new[0] == old[0].replace(f"{m.group(2)} == 1", f"{m.group(2)} >= 1", 1):
            return "a ring of two slots: at least 1 is 1"
    return None


@careful
def of_cuda(mutant, code, tl):
    """The same of CUDA text, of which 'tl' is the TL Code."""
    return (of_one_word(ONE_WORD, mutant, code) or commutes(mutant, code) or order(mutant, code, effects_of_cuda) or order_of_sums(mutant, code)
            or whole_blocks(mutant, code) or groups(mutant, code) or first_of_a_ring(mutant, code) or slot_of_two(mutant, code)
            or nothing_comes_of_it(mutant, code, tl, effects_of_cuda) or unreached(mutant, code) or bounds(mutant, code) or conditions(mutant, code) or loops(mutant, code))


# --- the proofs themselves -----------------------------------------------------------------------

TL = """let BM = 64, BN = 32
let blocks = max(1, ceil(kv_len/BN))
let full = floor(kv_len/BN)
let steady = min(blocks, full) - 1
Compute Fill 0 and get O
Compute Fill 1 and get start
Compute Fill 3 and get start
Compute Fill -1e30 and get m
for j = 0:steady
    Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    Compute GEMM Q, K.T and get S
    Compute RowMax S and get unused
    Compute GEMM S, V and accumulate O
end
for j = max(0, steady):blocks
    if j + 1 < blocks
        Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    end
    Compute GEMM Q, K.T and get S
    if j >= full
        Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
    end
    Compute GEMM S, V and accumulate O
end
Compute Subtract O, m and get O
Compute Subtract O, start and get O
Copy O from register to global""".splitlines()

# A line, what it becomes (None: it goes), and whether that says the same.
EXAMPLES = (
    ("let blocks = max(1, ceil(kv_len/BN))", "let blocks = max(2, ceil(kv_len/BN))", True), ("let blocks = max(1, ceil(kv_len/BN))", "let blocks = max(1, floor(kv_len/BN))", False),
    ("let full = floor(kv_len/BN)", "let full = ceil(kv_len/BN)", False), ("let full = floor(kv_len/BN)", "let full = floor(kv_len/BN) - 1", True),
    ("let steady = min(blocks, full) - 1", "let steady = min(blocks, full) - 2", True), ("let steady = min(blocks, full) - 1", "let steady = min(blocks, full) + 1", False),
    ("    if j >= full", "    if j <= full", True), ("    if j >= full", "    if j > full", False), ("    if j + 1 < blocks", "    if j < blocks", True),
    ("    if j + 1 < blocks", "    if j + 2 < blocks", False), ("    Compute RowMax S and get unused", None, True), ("    Compute GEMM S, V and accumulate O", None, False),
    ("for j = 0:steady", "for j = 1:steady", False), ("for j = max(0, steady):blocks", "for j = max(0, steady):blocks + 1", True),
    ("for j = max(0, steady):blocks", "for j = max(0, steady):blocks - 1", False), ("Compute Fill -1e30 and get m", "Compute Fill -1.01e30 and get m", True),
    ("Compute Fill -1e30 and get m", "Compute Fill -1 and get m", False), ("Compute Fill 1 and get start", "Compute Fill 2 and get start", True),
    ("Compute Fill 3 and get start", "Compute Fill 2 and get start", False))
SWAPS = (("S[m16][n8][2 * half] = ftl_exp2(S[m16][n8][2 * half]);", "S[m16][n8][2 * half + 1] = ftl_exp2(S[m16][n8][2 * half + 1]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "l[m16][half] = ftl_multiply(l[m16][half], alpha[m16][half]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "m[m16][half] = ftl_max(m[m16][half], room);", False),
         ("S[m16][n8][half] = ftl_exp2(S[m16][n8][half]);", "part[m16] = ftl_add(part[m16], S[m16][n8][0]);", False))


def main():
    wrong = []
    for old, new, same in EXAMPLES:
        at = TL.index(old)
        mutant = TL[:at] + ([] if new is None else [new]) + TL[at + 1:]
        if bool(of_tl(mutant, TL)) != same:
            wrong.append(f"{old.strip()} -> {new}: {of_tl(mutant, TL)}")
    for a, b, same in SWAPS:
        if bool(of_cuda([b, a], [a, b], TL)) != same:
            wrong.append(f"{a} <-> {b}: {of_cuda([b, a], [a, b], TL)}")
    for old, new, same in (("if (rows_left >= 64) {", "if (rows_left > 64) {", True), ("if (rows_left >= 64) {", "if (rows_left >= 63) {", False), ("if (rows_left >= 64) {", "if (true) {", False)):
        if bool(of_cuda([new], [old], TL)) != same:
            wrong.append(f"{old} -> {new}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
