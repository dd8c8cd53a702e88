"""Proofs about the paths through CUDA text: conditions that others imply, values that no path reads, sums that a later loop
completes, and blocks that a walk begins with.

The texts have a statement a line (equal_cuda.statements).
"""
import fractions
import itertools
import re

from equal_bounds import LET, UNREADABLE, Drawn, body_of, condition_of, draws, enclosing, free_of, lets_before, lets_of, loop_around, masks_alone
from equal_registers import bare
from equal_text import changes, depth_of, lines_under
from equal_ways import TOLD, one_line

# --- conditions -----------------------------------------------------------------------------------


def plain(condition):
    """A condition without what it says to the compiler."""
    m = re.fullmatch(r"__builtin_expect\((.*), [01]\)", condition.strip())
    return m.group(1) if m else condition.strip()


def parts(condition, word):
    """What stands on both sides of a word outside brackets."""
    found, depth, begun = [], 0, ""
    for piece in re.split(r"([()]|" + re.escape(word) + ")", condition):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == word and not depth:
            found.append(begun.strip())
            begun = ""
        else:
            begun += piece
    return found + [begun.strip()]


def closes(text, at):
    """Where the bracket that opens at a place is closed; -1: nowhere."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i
    return -1


def whole(condition):
    """A condition without brackets around all of it."""
    condition = condition.strip()
    while condition.startswith("(") and closes(condition, 0) == len(condition) - 1:
        condition = condition[1:-1].strip()
    return condition


def denied(condition):
    """What a condition says the opposite of; None: it does not."""
    if condition.startswith("!(") and closes(condition, 1) == len(condition) - 1:
        return condition[1:]
    return condition[1:] if re.fullmatch(r"!\w+", condition) else None


def truth(condition, held):
    """The value of a condition by those of its atoms, which held(atom) gives."""
    condition = whole(plain(whole(condition)))
    for word, join in (("||", any), ("&&", all)):
        sides = parts(condition, word)
        if len(sides) > 1:
            return join([truth(x, held) for x in sides])
    if denied(condition):
        return not truth(denied(condition), held)
    return {"true": True, "false": False}.get(condition) if condition in ("true", "false") else held(condition)


def atoms_of(*conditions):
    found = []

    def note(atom):
        found.append(atom)
        return False
    for x in conditions:
        truth(x, note)
    return sorted(set(found))


def head(line):
    """The condition of `if (...) {`, or of `if (...) statement;`, and what comes after it; None: it is none."""
    line = line.strip()
    end = closes(line, 3) if line.startswith("if (") else -1
    return (line[4:end], line[end + 1:].strip()) if end > 0 else None


def implies(one, other):
    """Whether a condition holds wherever another one does, by their atoms alone."""
    atoms = atoms_of(one, other)
    if len(atoms) > 10:
        return False
    for values in itertools.product((False, True), repeat=len(atoms)):
        known = dict(zip(atoms, values))
        if truth(one, known.get) and not truth(other, known.get):
            return False
    return True


def asked_again(mutant, code):
    """A condition whose body asks for each of its parts again."""
    found = one_line(mutant, code)
    before, now = (head(found[1]), head(found[0])) if found else (None, None)
    if not before or not now or before[1] != "{" or now[1] != "{":
        return None
    body, _ = lines_under(code, found[2])
    depth = min((depth_of(x) for x in body if x.strip() and not x.startswith("#")), default=0)
    steps = [x for x in body if depth_of(x) == depth and not x.startswith("#") and x.strip() != "}"]
    inner = [head(x) for x in steps]
    pure = r"[\w.\[\]\s<>=!&|+*-]+"
    if not inner or not all(x and x[1] == "{" and re.fullmatch(pure, plain(x[0])) for x in inner):
        return None
    if all(implies(x[0], before[0]) and implies(x[0], now[0]) for x in inner):
        return "each part of what it lets in asks for its own condition again"
    return None


def more_wait(mutant, code):
    """A wait of the thread's own stores, for more threads: those that stored nothing wait for nothing."""
    found = one_line(mutant, code)
    before, now = (head(found[1]), head(found[0])) if found else (None, None)
    if before and now and before[1] == now[1] and re.match(r"ftl_tma_store_wait<\d+>\(\);$", now[1]) and implies(before[0], now[0]):
        return "lanes that stored nothing wait for nothing"
    return None


BOUND = r"\(unsigned\)\(((?:[^()]|\([^()]*\))*)\) (<|<=|>|>=|==|!=) \(unsigned\)\(args\.(\w+)\)"


def bounds_hold(mutant, code):
    """Bounds of a table's place that hold, by the condition that the statement stands under: the same as before if they hold now."""
    found = one_line(mutant, code)
    if not found:
        return None
    now, was, at = found
    above = next(enclosing(code, at), None)
    guard = above is not None and re.match(r"if \((.*) < rows_left\) \{$", code[above].strip())
    left = next((re.match(r"\s*const int rows_left = args\.(\w+) - (\w+_block \* \w+);$", x) for x in reversed(code[:at]) if re.match(r"\s*const int rows_left = ", x)), None)
    batch = any(re.match(r"\s*const int b = \(int\)tile[,;]", x) for x in code[:at])
    if not guard or not left or not batch:
        return None
    row = re.match(r"(\w+_row)\b", guard.group(1))
    rows = row and next((x for x in reversed(code[:at]) if re.search(rf"\b{row.group(1)} = ", x)), "")
    if not rows or not re.search(rf"\b{row.group(1)} = (warp \* \d+ \+ )?\(lane >> \d\)[,;]", rows) or "-" in guard.group(1):
        return None
    inside = {("b", "batch"), (f"{left.group(2)} + {guard.group(1)}", left.group(1))}

    def value(line):
        """The line with its conditions of bounds as true or false."""
        def told(m):
            if (m.group(1), m.group(3)) not in inside:
                raise ValueError(m.group(1))
            return "true" if m.group(2) in ("<", "<=", "!=") else "false"
        line = re.sub(BOUND, told, line)
        return re.sub(r"_if\((true|false)( (?:&&|\|\|) (?:true|false))*,", lambda m: f"_if({truth(m.group(0)[4:-1], lambda x: None)},", line)
    before, after = value(was), value(now)
    return "the row is inside and the batch is the grid's: the bounds hold, before and now" if "_if(True," in before and before == after else None


# --- values that no path reads --------------------------------------------------------------------

STEP = re.compile(r"\s*(#pragma|const auto \w+ = \[&\]|for \(|while \(|extern )")


def region_of(code, at):
    """The step that a line is part of: where the innermost loop that is not unrolled, or the function that is called in one, begins."""
    for i in enclosing(code, at):
        if STEP.match(code[i]):
            return i
    return next((i for i, x in enumerate(code) if x.rstrip().endswith("{")), 0)


def path_to(code, at, region):
    """The conditions that a line stands under within its step; None: one is not known."""
    found = []
    for i in enclosing(code, at):
        if i == region:
            return found
        line = code[i].strip()
        if line == "{" or re.match(r"FTL_UNROLL for \(", line):
            continue
        if line == "} else {":
            opening = next((k for k in range(i - 1, -1, -1) if depth_of(code[k]) == depth_of(code[i]) and code[k].strip() and not code[k].startswith("#") and code[k].strip() != "} else {"), None)
            before = opening is not None and head(code[opening])
            if not before:
                return None
            found.append(f"!({before[0]})")
            continue
        own = head(line)
        if not own:
            return None
        found.append(own[0])
    return found


def writes_whole(code, at, name, declared):
    """Whether a statement gives each element of a register a value that is not made of it."""
    text = bare(code[at])
    m = re.match(rf"{name}((?:\[\w+\])+) = (.*);$", text)
    if not m or re.search(rf"\b{name}\b", m.group(2)):
        return False
    loops = {}
    front = [code[at].strip()[:len(code[at].strip()) - len(text)]] + [code[i].strip() for i in enclosing(code, at) if re.match(r"\s*FTL_UNROLL for \(", code[i])]
    for i in range(at - 1, max(at - 3, 0), -1):             # loops on lines of their own, without braces
        if not re.match(r"\s*FTL_UNROLL for \(.*\)$", code[i]):
            break
        front.append(code[i].strip())
    for x in front:
        for n in re.finditer(r"for \(int (\w+) = 0; \1 < (\d+); \1\+\+\)", x):
            loops[n.group(1)] = n.group(2)
    indices = re.findall(r"\[(\w+)\]", m.group(1))
    return len(set(indices)) == len(indices) and [loops.get(i) for i in indices] == declared


def declared_as(code, name):
    found = next((m for x in code for m in [re.search(rf"(?:float|unsigned|int) (?:.*, )?{name}((?:\[\d+\])+)[,;]", x)] if m), None)
    return re.findall(r"\[(\d+)\]", found.group(1)) if found else None


def known_atoms(code, region, conditions):
    """Names that stand for one value throughout a step; what else is asked may change."""
    body, _ = lines_under(code, region)
    fixed = {m.group(1) for x in body for m in [re.match(r"\s*const bool (\w+) = ", x)] if m}
    return [a for a in atoms_of(*conditions) if a in fixed]


def read_before_written(code, name, after, end):
    """Whether a step anywhere may read a register before it wrote it in the same step, or read what [after, end) wrote."""
    declared = declared_as(code, name)
    reads = [i for i, x in enumerate(code) if re.search(rf"\b{name}\b", bare(x)) and not re.match(rf"{name}(\[\w+\])+ = (?!.*\b{name}\b)", bare(x))
             and not re.match(r"(const )?(int |bool )?eager_kept = ", bare(x)) and not re.match(r"(float|unsigned|int) ", bare(x)) and not after <= i < end]
    if declared is None:
        return True
    for read in reads:
        region = region_of(code, read)
        path = path_to(code, read, region)
        if path is None:
            return True
        first = end if region_of(code, after) == region and read >= end else region + 1
        writes = [path_to(code, i, region) for i in range(first, read) if region_of(code, i) == region and re.match(rf"{name}\[", bare(code[i])) and writes_whole(code, i, name, declared)]
        writes = [w for w in writes if w is not None]
        names = known_atoms(code, region, path + [c for w in writes for c in w])
        if len(names) > 8:
            return True
        for values in itertools.product((False, True), repeat=len(names)):
            known = dict(zip(names, values))
            may_read = all(truth_or(c, known, True) for c in path)
            if may_read and not any(all(truth_or(c, known, False) for c in w) or written_with(w, path) for w in writes):
                return True
    return False


def written_with(write, path):
    """Whether a write stands under no condition but those that the read stands under as well."""
    return set(write) <= set(path) and all(re.fullmatch(r"[\w!|& ()]+", plain(c)) for c in write)


def truth_or(condition, known, unknown):
    """A condition's value, where what is not known makes it what is feared."""
    condition = whole(plain(whole(condition)))
    for word, join in (("||", any), ("&&", all)):
        sides = parts(condition, word)
        if len(sides) > 1:
            return join([truth_or(x, known, unknown) for x in sides])
    if denied(condition):
        return not truth_or(denied(condition), known, not unknown)
    return known.get(condition, unknown)


def only_says_when(mutant, code):
    """What only says that the next maximum is kept at once: no path reads it before it is written anew."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1:
        return None
    before = head(old[0])
    if before and before[1] == "{" and new and new[0].strip() in ("if (false) {", "if (true) {"):
        inside, end = lines_under(code, at)
        if end < len(code) and code[end].strip() != "}":
            return None
        first = at + 1
    elif not new or bare(new[0]) == "":
        inside, first, end = [old[0]], at, at + 1
        if re.match(r"\s*FTL_UNROLL for \(.*\)$", code[at - 1]):
            return None                                     # its loop would take the next statement
    else:
        return None
    written = set()
    for line in inside:
        text = bare(line)
        value = re.match(r"(alpha\w*)(?:\[\w+\])+ = -?[\d.]+f;$", text)
        if value:
            written.add(value.group(1))
        elif not re.match(r"eager_kept = ftl_any\(", text) and text not in ("{", "}", "") and not re.match(r"(FTL_UNROLL )?for \(", text):
            return None
    if len(written) != 1 or read_before_written(code, next(iter(written)), first, end):
        return None
    return "it only says when the maximum is kept at once: both ways give the same"


def loops_over(code, at):
    """How many steps the unrolled loops around a statement have, and those in front of it."""
    lines = [code[at]] + [code[i] for i in enclosing(code, at)]
    return {m.group(1): int(m.group(2)) for x in lines for m in re.finditer(r"FTL_UNROLL for \(int (\w+) = 0; \1 < (\d+); \1\+\+\)", x)}


def upper_half(mutant, code):
    """The upper half of a pair, of which the lower one alone is stored."""
    found = one_line(mutant, code)
    form = r"(ftl_store_global_2\(.*, ftl_pack_(?:f16|bf16)\((\w+)\[[^,;]*\], )(\w+)((?:\[[^][]*\])+)(\)\);)$"
    now, was = [re.match(form, bare(x)) for x in (found or ("", ""))[:2]]
    if not now or not was or now.group(1, 3, 5) != was.group(1, 3, 5) or now.group(2) != now.group(3):
        return None
    steps = loops_over(code, found[2])
    for new, old in zip(*(re.findall(r"\[([^][]*)\]", x.group(4)) for x in (now, was))):
        other = re.fullmatch(r"\((\w+)\) \^ 1", new)
        if new not in (old, "0") and not (other and other.group(1) == old and steps.get(old, 1) % 2 == 0):
            return None
    same = now.group(4).count("[") == was.group(4).count("[")
    return "of the two elements that are packed the first alone is stored" if same else None


# --- what a later loop completes ------------------------------------------------------------------

def completed_later(mutant, code):
    """Lanes exchange a maximum or a minimum in one loop, and again in a later one that has a step at least, before anything else reads it."""
    new, old, at = changes(mutant, code)
    form = r"(\w+)((?:\[\w+\])+) = (ftl_max|ftl_min)\(\1\2, ftl_exchange\(\1\2, (\d+)\)\);$"
    dropped = re.match(form, bare(old[0])) if len(old) == 1 and not new else None
    if not dropped or (re.match(r"\s*FTL_UNROLL for \(.*\)$", code[at - 1])):
        return None
    name, operation = re.escape(dropped.group(1)), dropped.group(3)
    first = region_of(code, at)
    again = None
    for i in range(len(lines_under(code, first)[0]) + first + 1, len(code)):
        loop = re.match(r"\s*for \(int (\w+) = (.*?); \1 < (.*?); \1\+\+\) \{$", code[i])
        if loop and depth_of(code[i]) == depth_of(code[first]) and any(re.search(rf"\b{name}\b", x) for x in lines_under(code, i)[0]):
            again = i
            break
    if not code[first].lstrip().startswith("for (int") or again is None:
        return None
    update = rf"{name}((?:\[\w+\])+) = {operation}\({name}\1, (?:(?!.*\b{name}\b).*|ftl_exchange\({name}\1, \d+\))\);$"
    end = again + 1 + len(lines_under(code, again)[0])
    uses = [i for i in range(first, end) if re.search(rf"\b{name}\b", code[i])]
    if not all(re.match(update, bare(code[i])) for i in uses):
        return None
    base = depth_of(code[again])
    exchanged = []
    for i in (k for k in uses if k > again):
        m = re.match(form, bare(code[i]))
        around = [code[k] for k in enclosing(code, i) if depth_of(code[k]) > base]
        if m and all(re.match(r"\s*FTL_UNROLL for \(int \w+ = 0; ", x) for x in around):
            exchanged.append(int(m.group(4)))
        elif not m and exchanged:
            return None                                     # taken after the lanes met
    own = [int(m.group(4)) for i in uses if i < again for m in [re.match(form, bare(code[i]))] if m]
    if not set(own) <= set(exchanged) or sorted(exchanged) != sorted(set(exchanged)):
        return None
    try:
        for d in draws(lets_before(code, again)):
            low, high = [int(d.value(x)) for x in loop_around(code, again + 1, re.match(r"\s*for \(int (\w+)", code[again]).group(1))]
            if low >= high:
                return None
    except UNREADABLE:
        return None
    return "a later loop, which has a step at least, lets all lanes meet again before anything else reads it"


# --- where a walk begins --------------------------------------------------------------------------

def begins_earlier(mutant, code):
    """A walk that begins with blocks that are masked whole: the text that leaves them out says so."""
    new, old, _ = changes(mutant, code)
    a, b = [LET.match(x[0]) if len(x) == 1 else None for x in (new, old)]
    if not a or not b or a.group(1) != b.group(1) or not re.fullmatch(r"first\w*", b.group(1)):
        return None
    name, lets, now = b.group(1), lets_of(code), lets_of(mutant)
    ends = [n for n, text in lets.items() if re.search(rf"\b{name}\b", text) and re.fullmatch(r"blocks\w*", n)]
    masks, heads = [], 0
    for i, line in enumerate(code):
        if not re.search(rf"\b{name}\b", line) or LET.match(line) and LET.match(line).group(1) in [name, *ends]:
            continue
        text = line.strip()
        loop = re.match(rf"for \(int (\w+) = {name}(?: \+ 1)?; \1 < ({'|'.join(ends) or '-'}); \1\+\+\) \{{$", text)
        heads += bool(loop)
        masked = condition_of(line) and re.match(rf"if \({name} < (\w+)(?: \|\| {name} >= \w+)?\) \{{$", text)
        if masked:
            masks += [masked.group(1)] if masks_alone(body_of(code, i)) else []
        rest = re.sub(rf"(\({name} \+ 1\)|\b{name}) \* \w+", "", text)
        if not (loop or masked or re.match(rf"if \({name} \+ 1 < \w+\) \{{$", text)) and re.search(rf"\b{name}\b", rest):
            return None
    if heads != 1 or len(ends) != 1:
        return None
    start = next(i for i, x in enumerate(code) if re.match(rf"\s*for \(int \w+ = {name}(?: \+ 1)?; ", x))
    index, peeled = re.match(rf"\s*for \(int (\w+) = {name}( \+ 1)?; ", code[start]).groups()
    body, end = lines_under(code, start)
    within = [m.group(1) for i in range(start, end) for m in [re.match(rf"\s*if \({index} < (\w+)(?: \|\| {index} >= \w+)?\) \{{$", code[i])] if m and masks_alone(body_of(code, i))]
    by_index = any(re.search(rf"\b{index} & 1\b|\b{index} % ", x) for x in body)
    if not within or peeled and not masks or len(set(masks + within)) != 1 or by_index or not any("ftl_any(" in x for x in body):
        return None
    masks += within
    if not lets[ends[0]].startswith(f"ftl_max_integer({name} + 1, "):
        return None
    try:
        for before in draws(lets):
            old_first, clear = before.name(name), before.name(masks[0])
            after = Drawn(now, before.r, free_of(before, lets, now))
            new_first = after.name(name)
            if not fractions.Fraction(0) <= new_first <= old_first or new_first < old_first and clear < old_first:
                return None
    except UNREADABLE:
        return None
    return "blocks that are masked whole come before the first one that is not"


# --- the last barrier -----------------------------------------------------------------------------

BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "i4": 0.5, "u4": 0.5}


def bytes_of(tile, tl):
    """The bytes of a tile in shared memory by the TL Code; None: it does not say, or the tile has several slots."""
    numbers = {m.group(1): m.group(2) for x in tl if re.match(r"\s*let ", x) for m in re.finditer(r"\b(\w+) = (\d+)(?=,|\s*(?://.*)?$)", x)}
    found = [m for x in tl for m in [re.match(rf"\s*Allocate {tile} in shared (\w+) \(([^()]*)\)(.*)", re.sub(r"//.*", "", x))] if m]
    if len(found) != 1 or re.search(r"slots|ring", found[0].group(3)) or found[0].group(1) not in BYTES:
        return None
    count = BYTES[found[0].group(1)]
    for side in found[0].group(2).split(", "):
        if not numbers.get(side, side).isdigit():
            return None
        count *= int(numbers.get(side, side))
    return count


def last_barrier(mutant, code, tl):
    """A barrier before results are stored where an operand lay, which the last loop's own barrier comes after the last read of."""
    new, old, at = changes(mutant, code)
    if new or len(old) != 1 or old[0].strip() != "ftl_block_barrier();" or depth_of(old[0]) != 4:
        return None
    after = {n for x in code[at + 1:] for n in re.findall(r"\b\w+_shared\b", x)}
    place = [m.groups() for x in tl for m in [re.match(r"\s*Allocate (\w+) in shared .* in place of (\w+)_shared\b", x)] if m]
    if len(after) != 1 or len(place) != 1 or after != {f"{place[0][0]}_shared"}:
        return None
    sizes = [bytes_of(x, tl) for x in place[0]]
    if None in sizes or sizes[0] > sizes[1] or any(re.search(r"\bftl_\w*(wgmma|tma|mbarrier|reduce|meet)", x) for x in code[at + 1:]):
        return None
    loop = next((i for i in range(at - 1, 0, -1) if re.match(r"    for \(int \w+ = ", code[i])), None)
    if loop is None:
        return None
    body, end = lines_under(code, loop)
    barrier = next((i for i in range(end - 1, loop, -1) if code[i].strip() == "ftl_block_barrier();" and depth_of(code[i]) == 8), None)
    if barrier is None or any(TOLD.search(x) for x in code[end:at]):
        return None
    met = {n for x in code[barrier + 1:at] for n in re.findall(r"\b\w+_shared\b", x)}
    if any(re.search(r"\b(return|break|continue|goto|asm)\b", x) for x in body) or met & {f"{x}_shared" for x in place[0]}:
        return None
    if any(re.search(r"ftl_(ldmatrix|load_shared|store_shared|cp_async_\d)\w*(<\d+>)?\((?!.*\b(target|place|right|left|source)\b)", x) for x in code[barrier + 1:at]):
        return None
    index = re.match(r"\s*for \(int (\w+)", code[loop]).group(1)
    for d in draws(lets_before(code, loop)):
        low, high = [int(d.value(x)) for x in loop_around(code, loop + 1, index)]
        if low >= high:
            return None
    return "the last loop has a step at least, whose barrier comes after the last read of what the results are stored over"


PROOFS = (asked_again, more_wait, bounds_hold, upper_half, only_says_when, completed_later, begins_earlier)
PROOFS_BY_TL = (last_barrier,)
