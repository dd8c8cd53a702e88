"""Proofs about ways of CUDA text: copies of whole and of cut blocks, rows past a tile, fast ways of functions, and votes that
never hold.

The texts have a statement a line (equal_cuda.statements).
"""
import fractions
import re

from equal_bounds import body_of, draws, enclosing, lets_before, loop_around, python_of
from equal_registers import bare
from equal_text import changes
from equal_tl import vote_never

THREADS = [(warp, lane) for warp in range(32) for lane in range(32)]


def depth_of(line):
    return len(line) - len(line.lstrip())


def head_of_else(code, at):
    """The line whose other way a `} else {` begins."""
    return next((x.strip() for x in reversed(code[:at]) if x.strip() and not x.startswith("#") and depth_of(x) == depth_of(code[at])), "")


def one_line(mutant, code):
    """The line that differs: (now, before, its place); None: others do."""
    new, old, at = changes(mutant, code)
    return (new[0].strip(), old[0].strip(), at) if len(new) == len(old) == 1 else None


# --- parts of what is moved at once --------------------------------------------------------------

PART = r"ftl_(store|load)_global_16(_\w+?)?_part(?:<(\d+)>)?\((.*), left\);$"


def part(mutant, code):
    """The way of a part also for a whole: it moves as many elements as are left."""
    found = one_line(mutant, code)
    now, was, at = found or ("", "", 0)
    a, b = [re.match(r"if \(left (>=|>) (\d+)\)$", x) for x in (now, was)]
    if not a or not b or at + 3 >= len(code) or code[at + 2].strip() != "else":
        return None
    whole, cut = code[at + 1].strip(), re.match(PART, code[at + 3].strip())
    if not cut or not cut.group(3) or int(cut.group(3)) != int(b.group(2)) or b.group(1) != ">=":
        return None
    least = int(a.group(2)) + (a.group(1) == ">")
    if whole == f"ftl_{cut.group(1)}_global_16{cut.group(2) or ''}({cut.group(4)});" and least >= int(b.group(2)):
        return "a part of all elements is the whole"
    return None


def no_part(mutant, code):
    """What is stored of a part of no elements, though it was loaded."""
    found = one_line(mutant, code)
    if not found or found[0] != "if (true) {" or found[1] != "if (left > 0) {":
        return None
    body = body_of(code, found[2])
    while body and re.match(r"unsigned \w+\[4\];$|ftl_load_shared_16\(\w+, [^;]*\);$", body[0]):
        body = body[1:]
    if len(body) == 4 and re.match(r"if \(left >= \d+\)$", body[0]) and body[2] == "else" and (re.match(PART, body[3]) or [""])[1] == "store":
        return "of a part of no elements none is stored"
    return None


# --- rows of a tile ------------------------------------------------------------------------------

def rows_of_threads(mutant, code):
    """A thread's row, where it differs for those alone whose rows are past the tile."""
    found = one_line(mutant, code)
    form = r"const int row = (warp \* \d+(?: \+ (?:lane|\(lane >> \d+\)))?)(, column = [^;]*)?;$"
    a, b = [re.match(form, x) for x in (found or ("", ""))[:2]]
    if not a or not b or a.group(2) != b.group(2):
        return None
    at, limits, inside = found[2], [], None
    for line in code[at + 1:]:
        if depth_of(line) < depth_of(code[at]) and not line.startswith("#"):
            break
        if inside is not None and depth_of(line) > inside:
            continue
        guard = re.match(r"\s*if \(row < (\d+)\) \{$", line)
        inside = depth_of(line) if guard else None
        limits += [int(guard.group(1))] if guard else []
        if not guard and re.search(r"\b(row|source)\b", line) and not re.match(r"\s*const unsigned (short|char) \*source = ", line):
            return None
    values = [[eval(x.group(1), {"warp": w, "lane": n}) for w, n in THREADS] for x in (a, b)]
    if limits and all(x == y or min(x, y) >= max(limits) for x, y in zip(*values)):
        return "the same rows, but for threads whose rows are past the tile"
    return None


def rows_of_a_tile(mutant, code):
    """Zeros for rows past the tile, which nobody stores."""
    found = one_line(mutant, code)
    guard = found and found[0] == "if (true) {" and re.match(r"if \(row < (\d+)\) \{$", found[1])
    if not guard:
        return None
    at, body = found[2], body_of(code, found[2])
    way = next((i for i in enclosing(code, at) if not re.match(r"\s*FTL_UNROLL for \(", code[i])), None)
    cut = way is not None and code[way].strip() == "} else {" and re.match(r"if \(rows_left >= (\d+)(?: && [^()]*)?\) \{$", head_of_else(code, way))
    if not cut or "&&" in cut.group(0) or int(cut.group(1)) > int(guard.group(1)) or len(body) != 4:
        return None
    loaded = re.match(r"ftl_load_global_\w+\((\w+)\[", body[1])
    zeros = loaded and re.match(rf"(?:{loaded.group(1)}(?:\[\w+\])+ = )+0;$", body[3])
    if body[0] == "if (row < rows_left)" and body[2] == "else" and zeros:
        return "rows past the tile are past what is left of it: zeros in registers"
    return None


def whole_columns(mutant, code):
    """How many columns are left, where before and now there are as many as a block has."""
    found = one_line(mutant, code)
    form = r"const int columns_left = (.*);$"
    a, b = [re.match(form, x) for x in (found or ("", ""))[:2]]
    if not a or not b:
        return None
    at, wanted, uses = found[2], [], []
    for line in code[at + 1:]:
        if depth_of(line) < depth_of(code[at]) and not line.startswith("#"):
            break
        uses += [line.strip()] if re.search(r"\b(columns_left|left)\b", line) else []
    for line in uses:
        whole = re.match(r"if \((?:rows_left >= \d+ && )?columns_left >= (\d+)\) \{$", line)
        wanted += [int(whole.group(1))] if whole else []
        if not whole and not re.match(r"const int left = [^?]*rows_left \? columns_left - column : 0;$|ftl_cp_async_16_part<8>\([^;]*, left\);$", line):
            return None
        if line.startswith("const int left") and "columns_left" in line.split("?")[0]:
            return None
    column = next((re.search(r"\bcolumn = ([^,;]*)[,;]", x) for x in reversed(code[:at]) if re.search(r"\bcolumn = ", x)), None)
    index = next((n for n in re.findall(r"[a-z]\w*", b.group(1)) if loop_around(code, at, n)), None)
    if not wanted or not column or not index or len(set(wanted)) != 1:
        return None
    if max(eval(column.group(1), {"warp": w, "lane": n}) for w, n in THREADS) + 8 > wanted[0]:
        return None
    for drawn in draws(lets_before(code, at)):
        low, high = [int(drawn.value(x)) for x in loop_around(code, at, index)]
        for j in {low, high - 1, (low + high) // 2} if low < high else ():
            drawn.known[index] = fractions.Fraction(j)
            if min(drawn.value(python_of(x.group(1))) for x in (a, b)) < wanted[0]:
                return None
    return "in these blocks all columns are there, before and now"


# --- functions and votes -------------------------------------------------------------------------

def narrow_way(mutant, code):
    """A function by the way for all arguments, though all that vote are small."""
    found = one_line(mutant, code)
    small = r"if \(__builtin_expect\(!ftl_any\(!\((\w+_most) < ([\d.]+)f\)\), [01]\)\) \{$"
    was = found and re.match(small, found[1])
    now = found and re.match(small, found[0])
    if not was or not (found[0] == "if (false) {" or now and now.group(1) == was.group(1) and float(now.group(2)) <= float(was.group(2))):
        return None
    at = found[2]
    other = next((i for i in range(at + 1, len(code)) if depth_of(code[i]) == depth_of(code[at])), None)
    if other is None or code[other].strip() != "} else {":
        return None
    steps = r"(const )?(float )?(power|term_\d+) = |(FTL_UNROLL )?for |[{}]|\} else \{$|(\w+)(\[[^]]*\])+ = ftl_odd_\d\(\5\["
    wider = body_of(code, other)
    limits = [float(m.group(2)) for m in (re.match(small, x) for x in wider) if m]
    if any(not re.match(steps, x) for x in (bare(y) for y in body_of(code, at))) or any(x <= float(was.group(2)) for x in limits):
        return None
    last = r"(\w+)(\[[^]]*\])+ = (ftl_multiply\(\1(\[[^]]*\])+, factor|ftl_(tanh|sin|erf|erfc)\(\1\[)"
    if all(re.match(steps, bare(x)) or re.match(small, x) or re.match(last, bare(x)) for x in wider) and any("ftl_odd" not in x and re.match(last, bare(x)) for x in wider):
        return "the way for all arguments, taken for small ones, too"
    return None


def under_a_vote(mutant, code, tl):
    """What a vote guards that never holds, by the scores of the TL Code."""
    new, old, at = changes(mutant, code)
    votes = [i for i, x in enumerate(code) if re.match(r"\s*if \(ftl_any\(any_\d+\)\) \{$", x)]
    told = [i for i, x in enumerate(tl) if re.match(r"\s*if any\(not part\w* < 32768\)$", x)]
    within = next((i for i in enclosing(code, at) if i in votes), None)
    if within is None or len(votes) != len(told) or len(votes) != sum(x.lstrip().startswith("if any(not") for x in tl):
        return None
    end = next(i for i in range(within + 1, len(code)) if depth_of(code[i]) <= depth_of(code[within]) and not code[i].startswith("#"))
    first = told[votes.index(within)]
    if at + len(old) > end or not vote_never(tl[:first + 1] + tl[first + 2:], tl):
        return None
    return "scores are so small that the vote never holds"


def absolute(mutant, code):
    """A number of at least 0 is added before the absolute value is taken of what is one already."""
    new, old, at = changes(mutant, code)
    if len(new) != 2 or new != old[::-1]:
        return None
    taken = re.match(r"(\w+)((?:\[\w+\])+) = ftl_abs\(\1\2\);$", bare(old[0]))
    if not taken or not re.match(rf"{re.escape(taken.group(1) + taken.group(2))} = ftl_add\({re.escape(taken.group(1) + taken.group(2))}, [\d.]+f\);$", bare(old[1])):
        return None
    name = taken.group(1)
    writes = [i for i in range(at) if re.search(rf"(^|[(,] ?){name}(\[[^]]*\])+( [-+*^|&]?=|,)", bare(code[i])) and not re.match(r"ftl_store_global", bare(code[i]))]
    last = writes[-1] if writes else None

    def loops(i):
        """The loops around a statement, those in front of it as well."""
        around = [code[k].strip().rstrip(" {") for k in enclosing(code, i)]
        line = code[i].strip()
        return sorted([x for x in around if "for (" in x] + re.findall(r"FTL_UNROLL for \([^()]*\)", line[:len(line) - len(bare(line))]))
    outer = [code[k].strip() for k in (enclosing(code, last) if last is not None else ())]
    if last is not None and bare(code[last]) == bare(old[0]) and loops(last) == loops(at) and not any(re.match(r"if |\} else|while", x) for x in outer):
        return "what is added to is an absolute value already"
    return None


# What reads shared memory, or meets others; and what of TL Code may lie where another tile lies.
TOLD = re.compile(r"ftl_\w*(ldmatrix|load_shared|wgmma|tma|mbarrier|meet|reduce|held|ring|barrier|stmatrix)|_held\b|_fill\b|\basm\b|\breturn\b|\bbreak\b|\bcontinue\b|\bgoto\b")


def tiles_written(lines):
    """The tiles that copies name; None: a copy writes where nothing is known."""
    if any(re.search(r"ftl_(store_shared|cp_async_\d)", x) and not re.search(r"ftl_(store_shared|cp_async)_\w+(<\d+>)?\(\(?(target|place)\b", x) for x in lines):
        return None
    found = [set(re.findall(r"\b\w+_shared\b", x)) for x in lines if re.match(r"\s*(const )?unsigned (target|place) = ", x) and not re.search(r"= (target|place);", x)]
    return set().union(*found) if all(found) else None


def runs(line, code):
    """Whether what stands under a line is done for certain, once at least."""
    if line.strip() == "{":
        return True
    loop = re.match(r"\s*(?:FTL_UNROLL )?for \(int (\w+) = 0; \1 < (\w+); ", line)
    least = [x for x in code if loop and re.match(rf"\s*(const )?int {loop.group(2)} = ", x)]
    return bool(loop) and (loop.group(2).isdigit() and loop.group(2) != "0" or len(least) == 1 and "int blocks = ftl_max_integer(1, " in least[0])


def first_barrier(mutant, code, tl):
    """A barrier before which nobody read shared memory, and after which another one comes before anybody does."""
    new, old, at = changes(mutant, code)
    if new or len(old) != 1 or old[0].strip() != "ftl_block_barrier();" or depth_of(old[0]) != 4:
        return None
    before = [x for x in code[:at] if not re.match(r"extern|#", x)]
    if any(TOLD.search(x) or re.search("ftl_(store_global|atomic|add_global)", x) for x in before) or any(" in place of " in x for x in tl):
        return None
    met, opened, since = False, [], []
    for i in range(at + 1, len(code)):
        line = code[i]
        if not line.strip() or line.startswith("#"):
            continue
        while opened and depth_of(line) <= depth_of(opened[-1][0]):
            head, state = opened.pop()
            met = met and (state or runs(head, code))
        if not met and line.strip() != "ftl_block_barrier();":
            if TOLD.search(line):
                return None
            since.append(line)
        met |= line.strip() == "ftl_block_barrier();"
        if line.rstrip().endswith(("{", ")")) or line.strip() == "else":
            opened.append((line, met))
    first, then = tiles_written(before), tiles_written(since)
    if first is None or then is None or first & then:
        return None
    return "nobody read shared memory before it, and another barrier comes before anybody does"


PROOFS = (part, no_part, rows_of_threads, rows_of_a_tile, whole_columns, narrow_way, absolute)
