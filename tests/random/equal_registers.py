"""Proofs about registers of CUDA text: what nothing is made of, what lies past an end, and when a maximum moves.

The texts have a statement a line (equal_cuda.statements).
"""
import re

from equal_bounds import enclosing
from equal_text import changes

LOOPS = re.compile(r"^\s*((?:FTL_UNROLL )?for \([^{};]*;[^{};]*;[^{}]*?\) )(?=\S)")
ASSIGNMENT = re.compile(r"^((?:const )?(?:\w+ )?(\w+)((?:\[[^]=]*\])*)) ([-+*/&|^]?)= (.*);$")
VOTE_LINE = re.compile(r"any_\d+ \|= !\(part|ftl_any\(\(?!\(part")


def bare(line):
    """A statement without the loops in front of it."""
    line = line.strip()
    while LOOPS.match(line):
        line = line[LOOPS.match(line).end():].strip()
    return line


def names(text):
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?![\w(])", text))


def assignment(line):
    """(target, its indices, what is read); None: no plain assignment."""
    m = ASSIGNMENT.match(bare(line))
    if not m:
        return None
    own = {m.group(2)} if m.group(4) else set()
    return m.group(2), m.group(3), names(m.group(5)) | names(m.group(3)) | own


def targets(lines, at):
    """What a statement writes, or all that stand under the head of a loop or a condition; None: not known."""
    found, left = set(), [at]
    if not bare(lines[at]).endswith(";") or re.match(r"\s*(FTL_UNROLL )?for \(.*\)$", lines[at]):
        depth = len(lines[at]) - len(lines[at].lstrip())
        left = []
        for i in range(at + 1, len(lines)):
            if lines[i].strip() and not lines[i].startswith("#") and len(lines[i]) - len(lines[i].lstrip()) <= depth:
                break
            left.append(i)
    for i in left:
        text = bare(lines[i])
        if text in ("", "{", "}", "} else {", "else") or text.startswith("#") or re.match(r"(FTL_UNROLL )?(for|if) \(", text) and not text.endswith(";"):
            continue
        written = assignment(lines[i])
        if not written:
            return None
        found.add(written[0])
    return found


def live(lines):
    """The names of which something else than a register is made."""
    kept, made = set(), []
    for line in lines:
        text = bare(line)
        kept |= names(line.strip()[:len(line.strip()) - len(text)])     # of the loops in front of it
        written = assignment(line)
        if written:
            made.append((written[0], written[2]))
        elif not re.match(r"(unsigned|float|int|bool) \w+(\[\w+\])*(, \w+(\[\w+\])*)*;$", text):
            kept |= names(text)
    while True:
        more = {n for target, read in made if target in kept for n in read} - kept
        if not more:
            return kept
        kept |= more


def nothing_read(mutant, code):
    """Statements whose results only become one another."""
    new, old, at = changes(mutant, code)
    written = set()
    if not any(re.match(r"\s*ftl_(store_global|tma_store|tma_reduce|stmatrix)", x) for x in code):
        return None
    for lines, count in ((mutant, len(new)), (code, len(old))):
        for i in range(at, at + count):
            found = targets(lines, i)
            if found is None:
                return None
            written |= found
    if written and not written & live(mutant) and not written & live(code):
        return "nothing that leaves the registers is made of what this statement writes"
    return None


# --- past an end ---------------------------------------------------------------------------------

def made_of(lines, name):
    """Statements by which a register's values reach others: [(index of the line, target, target's indices)], and all names."""
    reached, found = {name}, {}
    while True:
        before = len(found)
        for i, line in enumerate(lines):
            written = assignment(line)
            if written and written[2] & reached and i not in found:
                found[i] = written[:2]
                reached.add(written[0])
        if len(found) == before:
            return found, reached


ROW_INDEX = r"\b(m16|half|down)\b"


def lanes_of_a_row(lines, name):
    """How many lanes that follow one another have elements of one row, by the text's own words for a tile's row."""
    found = {int(m.group(1)) for x in lines for m in [re.search(rf"\b{name}_row = (?:\w+ \* \d+ \+ )?\(lane >> (\d)\)[,;]", x)] if m}
    return 1 << found.pop() if len(found) == 1 else 4


def mixing(lines, name):
    """Exchanges with lanes of other rows."""
    return r"ftl_exchange\([^()]*, (" + "|".join(str(1 << k) for k in range(5) if 1 << k >= lanes_of_a_row(lines, name)) + r")\)"


def stays(lines, name, across, mix):
    """Whether elements of a tile keep their row (and, unless 'across', their column) in all that is made of them."""
    found, reached = made_of(lines, name)
    for i, (_, indices) in found.items():
        text = bare(lines[i])
        source = text.split("= ", 1)[1]
        if re.search(mix, source):
            return False
        if VOTE_LINE.search(text):
            continue                                    # it may hold more often: both ways give the same
        columns = "n8" in source or "element" in source
        if not across and columns and not re.search(r"n8|element", indices):
            return False
        if re.search(ROW_INDEX, source) and not re.search(ROW_INDEX, indices):
            return False
    for i, line in enumerate(lines):
        text = bare(line)
        if i in found or assignment(line) or not names(text) & reached:
            continue
        first = re.match(r"ftl_\w*mma\w*(?:<[^;]*?>)?\(([^,]*),(.*)$", text)
        if first and not names(first.group(2)) & reached:
            continue                                    # sums into them, each into its own
        if re.match(r"ftl_(store_shared|stmatrix)", text) and not any(re.search("mma|ldmatrix", x) for x in lines[i + 1:]):
            continue                                    # on its way out
        if re.match(r"(ftl_store_global_|ftl_keep\(|ftl_forget\(|ftl_load_global_|(unsigned|float) )", text):
            continue
        if re.match(r"if \(ftl_any\(any_\d+\)\) \{$", text):
            continue
        own_rows = re.search(r"\w+\[m16\]|_left<", text) or re.search(r", fragment_b\[\w+\]\);$", text) and "fragment_b" not in reached
        if first and across and own_rows:
            continue                                    # the left operand: rows stay apart
        if re.match(r"(if|for|FTL_UNROLL)", text) and not names(text) & reached - {"half", "m16", "n8"}:
            continue
        return False
    return True


def condition_of_else(code, at):
    """The condition on what is left of a tensor, in whose other way a statement stands; None: it does not."""
    above = next(iter(enclosing(code, at)), None)
    if above is None or code[above].strip() != "} else {":
        return None
    depth = len(code[above]) - len(code[above].lstrip())
    head = next((x for x in reversed(code[:above]) if x.strip() and len(x) - len(x.lstrip()) == depth and not x.startswith("#")), "")
    return head.strip() if re.match(r"if \(.* < (rows|columns)_left(?: && .* < columns_left)?\) \{$", head.strip()) else None


def zeros(now, before):
    """Whether zeros are written to the two elements of a pair, and now another number, or to such of the same pair alone."""
    pair = r"(\w+(?:\[\w+\])*)\[([^]]*)\] = \1\[([^]]*)\] = 0\.0f;$"
    if re.match(pair, before) and re.fullmatch(re.escape(before[:-len("0.0f;")]) + r"-?[\d.e+-]+f;", now):
        return True
    a, b = re.match(pair, now), re.match(pair, before)
    if not a or not b or a.group(1) != b.group(1) or b.group(2, 3) != ("2 * half", "2 * half + 1"):
        return False
    forms = all(re.fullmatch(r"[\d half*+-]+", x) for x in a.group(2, 3))
    return forms and all(eval(x, {"half": half}) in (2 * half, 2 * half + 1) for half in (0, 1) for x in a.group(2, 3))


def past_an_end(mutant, code):
    """What an element past a tensor's end is, where each stays in its place, and none past the end is stored."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1:
        return None
    change = re.match(r"(\w+)((?:\[[^]]*\])+) = (?:\1(?:\[[^]]*\])+ = )?(?:0|0\.0f);$", bare(old[0]))
    chosen = re.match(r"(\w+)((?:\[[^]]*\])+) = (.* < rows_left|.* < columns_left) \? (.*) : 0\.0f;$", bare(old[0]))
    if change and (not new or " = " not in bare(old[0]).partition(" = ")[2]):
        name = change.group(1)
        if new and not re.match(rf"{name}((?:\[[^]]*\])+) = -?[\d.e+-]+f?;$", bare(new[0])):
            return None
        condition = condition_of_else(code, at)
        if condition is None:
            return None
        if new and (re.findall(r"\[([^]]*)\]", bare(new[0])) != re.findall(r"\[([^]]*)\]", bare(old[0]))):
            return None
    elif chosen and new:
        name = chosen.group(1)
        if not re.match(re.escape(bare(old[0]))[:-len(re.escape("0.0f;"))] + r"-?[\d.e+-]+f;$", bare(new[0])):
            return None
        condition = chosen.group(3)
    elif new and zeros(bare(new[0]), bare(old[0])):
        name = bare(old[0]).partition("[")[0]
        condition = condition_of_else(code, at)
        if condition is None:
            return None
    else:
        return None
    rows_alone = "column" not in condition
    if stays(code, name, rows_alone, mixing(code, name) if rows_alone else r"ftl_exchange|ftl_of_row"):
        return "an element past the end, of which only elements past the end are made"
    return None


def times_zero(mutant, code):
    """A number above 0 in place of a 0 past the end, which only meets zeros: those of a tile in shared memory, copied up to the same end."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) != 1 or not zeros(bare(new[0]), bare(old[0])) or bare(new[0]).endswith("= 0.0f;") or bare(new[0]).split()[-1].startswith("-"):
        return None
    name, condition = bare(old[0]).partition("[")[0], condition_of_else(code, at)
    left = next((m for x in reversed(code[:at]) for m in [re.match(r"\s*const int rows_left = args\.(\w+)( - [^;]*)?;$", x)] if m), None)
    if condition is None or "column" in condition or not left:
        return None
    beside = set()
    for line in code:
        text = bare(line)
        if not re.search(rf"\b{name}\b", text) or re.match(r"(float|if \()", text) or re.match(rf"ftl_load_global_\w+\({name}\[", text) or zeros(text, text):
            continue
        element = rf"{name}(?:\[[^]]*\])+"
        product = re.match(rf"\w+(?:\[[^]]*\])+ = ftl_multiply(?:_add)?\(ftl_(?:low|high)_\w+\((\w+)_register(?:\[[^]]*\])+\), {element}(?:, (?!.*\b{name}\b).*)?\);$", text)
        if not product:
            return None
        beside.add(product.group(1))
    ends = rf"const int rows_left = args\.{left.group(1)}(?: - [^;]*)?;$"
    return "it is multiplied by zeros alone" if beside and all(zeros_past_the_end(code, x, ends) for x in beside) else None


def zeros_past_the_end(code, tile, ends):
    """Whether a tile in shared memory is filled by copies alone that write zeros past the end of its tensor, and read back as it was filled."""
    copies = 0
    for i, line in enumerate(code):
        text = line.strip()
        if re.match(rf"unsigned target = .*\bat::{tile}_tile\b|unsigned target = {tile}_shared;", text):
            block = code[next(enclosing(code, i)):]
            block = block[:next((k for k, x in enumerate(block) if k and len(x) - len(x.lstrip()) <= len(block[0]) - len(block[0].lstrip()) and not x.startswith("#")), len(block))]
            written = [bare(x) for x in block if re.search(r"ftl_(cp_async_\d|store_shared)", x)]
            cut = [x for x in written if re.match(r"ftl_cp_async_16_or_zero\(.*, inside\);$", x)]
            whole = [x for x in written if re.match(r"ftl_cp_async_16\(", x)]
            guarded = any(re.match(r"if \(rows_left >= \d+\) \{$", x.strip()) for x in block) if whole else True
            told = any(re.match(ends, x.strip()) for x in block) and any(re.match(r"const bool inside = row(?: \+ \d+ \* \w+)? < rows_left;$", x.strip()) for x in block)
            steady = whole and not cut and not any("rows_left" in x for x in block)       # of whole blocks alone
            if not steady and (not cut or len(cut) + len(whole) != len(written) or not guarded or not told):
                return False
            copies += bool(cut)
        elif re.search(rf"\bplace = .*\b{tile}_shared\b", text):
            return False
        elif re.match(rf"ftl_ldmatrix\w*\(.*\b{tile}_register\b", bare(text)):
            source = next((x.strip() for x in reversed(code[:i]) if re.match(r"\s*unsigned source = ", x)), "")
            if source != f"unsigned source = {tile}_shared;" or not re.search(r"\bsource\b", text):
                return False
        elif re.search(rf"\b{tile}_register\[.*\] [-+*/]?= ", text) or re.match(rf"ftl_load_global_\w+\({tile}_register\[", text):
            return False
    return copies > 0


# --- when a maximum moves ------------------------------------------------------------------------

def lower_maximum(mutant, code):
    """A maximum over fewer elements, or none, before a vote that moves it where a weight grows too large."""
    new, old, at = changes(mutant, code)
    taken = r"(\w+)(?:\[\w+\])+ = ftl_max\(\1(?:\[\w+\])+, ftl_max\(\w+(?:\[\w+\])*\[2 \* half\], \w+(?:\[\w+\])*\[2 \* half \+ 1\]\)\);$"
    if len(old) != 1 or len(new) > 1:
        return None
    statement = None
    for i in range(at, min(at + 5, len(code))):
        statement = re.match(taken, bare(code[i]))
        if statement or not re.match(r"\s*(FTL_UNROLL )?for \(", code[i]):
            break
    whole = re.match(r"\s*if \(\w+ == \w+\) \{$", old[0])
    if whole and new and new[0].strip() == "if (false) {":
        return block_of_maximum(code, at) and before_vote(code, at, block_of_maximum(code, at)) and MOVES
    if not statement:
        return None
    loop = r"\s*FTL_UNROLL for \(int (\w+) = (\d+)( \+ 1)?; \1 (<|<=|>|>=|==|!=) (\d+)( - 1)?; \1\+\+\)$"
    if new and new[0].strip() != "":
        a, b = re.match(loop, new[0]), re.match(loop, old[0])
        within = a and b and a.group(1) == b.group(1) and b.group(4) == "<" and (a.group(4) in ("<", "<=", "==") and int(a.group(5)) + (a.group(4) == "<=") <= int(b.group(5))
                                                                                               or a.group(4) in (">", ">=") and int(a.group(2)) < int(a.group(5)) - (a.group(6) is not None))
        if not within:
            return None
    elif not re.match(taken, bare(old[0])):
        return None
    return MOVES if before_vote(code, at, statement.group(1)) else None


MOVES = "a lower maximum than could be, before the vote that moves it: both ways give the same"


def block_of_maximum(code, at):
    """The maximum that a block takes, where it does nothing but that; None: it does more."""
    found, shift = set(), set()
    for i in range(at + 1, len(code)):
        if len(code[i]) - len(code[i].lstrip()) <= len(code[at]) - len(code[at].lstrip()):
            break
        text = bare(code[i])
        if re.match(r"(FTL_UNROLL )?for \(.*[\){]$", text) or text in ("{", "}"):
            continue
        maximum = re.match(r"(\w+)(?:\[\w+\])+ = ftl_max\(\1", text)
        moved = re.match(r"(\w+)(?:\[\w+\])+ = ftl_multiply\((\w+)(?:\[\w+\])+, -\w+", text)
        if maximum:
            found.add(maximum.group(1))
        elif moved:
            shift.add(moved.group(1))
        else:
            return None
    if len(found) != 1 or any(not re.search(rf"^\s*(?:FTL_UNROLL for \(.*\) )?{s}(\[\w+\])+ = ", "\n".join(code[:at]), re.M) for s in shift):
        return None
    return found.pop()


def before_vote(code, at, maximum):
    """Whether the lanes of a row agree on the maximum, and vote, before a product takes the weights."""
    agreed = False
    for line in code[at + 1:]:
        agreed |= re.search(rf"\b{maximum}(\[\w+\])+ = (ftl_max\({maximum}(\[\w+\])+, ftl_exchange|ftl_of_row<ftl_max>)", line) is not None
        if VOTE_LINE.search(line):
            return agreed
        if "mma" in line or re.match(r"\s*(while|for) \((?!int)", line):
            return False
    return False


def eager(mutant, code):
    """Whether a maximum is kept at once, or the vote waited for: both ways give the same."""
    new, old, at = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    kept = [re.match(r"\s*(?:int |const bool )?(eager(?:_kept)?) = (ftl_any\(|\(eager_kept )[^?;]*;$", x) for x in (new[0], old[0])]
    if all(kept) and kept[0].group(1, 2) == kept[1].group(1, 2):
        return "when the maximum is kept at once: both ways give the same"
    first = [re.match(r"(alpha\w*)(?:\[\w+\])+ = -?[\d.]+f;$", bare(x)) for x in (new[0], old[0])]
    if all(first) and first[0].group(1) == first[1].group(1):
        uses = [bare(x) for x in code[at + 1:] if re.search(rf"\b{first[0].group(1)}\b", x)]
        begin = next((i for i, x in enumerate(uses) if "eager_kept = " not in x), 0)
        if begin and re.match(rf"{first[0].group(1)}(\[\w+\])+ = (?!.*\b{first[0].group(1)}\b)", uses[begin]):
            return "it only says when the maximum is kept at once: both ways give the same"
    return None


def room(mutant, code):
    """How much a row's part may grow before its maximum moves, where weights are bf16, which are as wide as f32."""
    new, old, at = changes(mutant, code)
    if len(old) != 1 or len(new) > 1 or any("ftl_pack_f16" in x for x in code):
        return None
    names_of_votes = {m.group(1) for x in code for m in re.finditer(r"any_\d+ \|= !\(part\S* < ([a-z]\w*)\[", x)}
    for line in old + new:
        m = re.match(r"(\w+)(?:\[\w+\])+ = (.*);$", bare(line))
        if not m or m.group(1) not in names_of_votes:
            return None
        words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"[\d.]+(e[+-]?\d+)?f\b", "", m.group(2))))
        if words - {m.group(1), "l", "part", "ftl_add", "ftl_max", "ftl_min", "ftl_multiply", "ftl_exchange", "m16", "half"}:
            return None
        if any(not abs(float(x)) <= 1e6 for x in re.findall(r"([\d.]+(?:e[+-]?\d+)?)f\b", m.group(2))):
            return None
    uses = [x for x in code if re.search(rf"\b({'|'.join(names_of_votes)})\[", x) and not re.search(r"any_\d+ \|=|^\s*float ", x)]
    if any(not assignment(x) or assignment(x)[0] not in names_of_votes for x in uses):
        return None
    return "when the maximum moves: the row's parts stay far below what bf16 and f32 hold"


def permuted_vote(mutant, code):
    """A vote over all halves of all rows, in another order."""
    new, old, _ = changes(mutant, code)
    if len(new) != 1 or len(old) != 1:
        return None
    m = re.match(r"(any_\d+) \|= !\((part)((?:\[\w+\])+) < ([\d.e+]+f)\);$", bare(old[0]))
    if m:
        for index in re.findall(r"\[(\w+)\]", m.group(3)):
            if new[0] == old[0].replace(f"[{index}]", f"[({index}) ^ 1]", 1):
                loop = re.search(rf"for \(int {index} = 0; {index} < (\d+); ", "\n".join(code[:code.index(old[0]) + 1][-3:]))
                if loop and int(loop.group(1)) % 2 == 0:
                    return "a vote over the same parts in another order"
    return None


def written_at_first_step(mutant, code):
    """What stands before a loop whose first step writes it anew, whole, before anything reads it."""
    new, old, at = changes(mutant, code)
    written = targets(code, at) if old else None
    if len(old) != 1 or len(new) > 1 or not written or len(written) != 1 or (new and targets(mutant, at) != written):
        return None
    name = next(iter(written))
    depth = len(code[at]) - len(code[at].lstrip())
    head = next((i for i in range(at + 1, len(code)) if len(code[i]) - len(code[i].lstrip()) == depth and re.match(r"\s*for \(int \w+ = (\w+); .*\{$", code[i])), None)
    if head is None:
        return None
    index, first = re.match(r"\s*for \(int (\w+) = (\w+); ", code[head]).groups()
    statement = next((bare(x) for x in code[at:head] if re.search(rf"\b{name}\[", x)), None)
    opening = next((i for i in range(head + 1, len(code)) if re.search(rf"\b{name}\b", code[i])), None)
    least = [x for x in code[:head] if re.match(r"\s*const int blocks = ftl_max_integer\((1|first \+ 1), ", x)]
    if statement is None or opening is None or not least or "blocks" not in code[head] or any(re.search(rf"\b{name}\b", x) and bare(x) != statement for x in code[at:head]):
        return None
    above = next(enclosing(code, opening), None)
    while above is not None and re.match(r"\s*(FTL_UNROLL )?for \(", code[above]):
        above = next(enclosing(code, above), None)
    same_loops = [x.strip() for x in code[opening - 1:opening + 1]] == [x.strip() for x in code[at:at + 2]]
    if above is not None and code[above].strip() == f"if ({index} == {first}) {{" and bare(code[opening]) == statement and same_loops:
        return "the loop's first step writes it anew before anything reads it"
    return None
