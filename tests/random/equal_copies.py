"""Proofs about copies into shared memory and what they are guarded by, of CUDA text with a statement a line.

Tiles that are copied ahead have two slots in turn: what is written into the one that nobody holds yet, before it is filled, is
never read.
"""
import re

from equal_bounds import draws, enclosing, lets_before, loop_around, python_of
from equal_text import changes, real
from equal_ways import THREADS, depth_of, one_line

LOOP = r"FTL_UNROLL for \(int (\w+) = 0; \1 (<=|<) (\d+)( \+ 1)?; \1\+\+\)( \{)?$"


def threads_of(code):
    """How many threads a block has; None: it does not say."""
    found = next((re.search(r"__launch_bounds__\((\d+)", x) for x in code if "__launch_bounds__" in x), None)
    return int(found.group(1)) if found else None


def block_of(code, at):
    """The lines of the block that a line stands in, from the line above that opens it, to its end."""
    first = next(enclosing(code, at), None)
    last = next((i for i in range(at, len(code)) if depth_of(code[i]) < depth_of(code[at]) and not code[i].startswith("#")), len(code))
    return first, last


def a_step_further(mutant, code):
    """Before any barrier, a guarded copy into the first of two slots goes on into the second, which is filled anew before it is read."""
    found = one_line(mutant, code)
    a, b = [re.match(LOOP, x) for x in (found or ("", ""))[:2]]
    if not a or not b or a.group(1) != b.group(1) or b.group(2) != "<" or b.group(4) or a.group(3) != b.group(3) or not (a.group(2) == "<=" or a.group(4)):
        return None
    at, step, steps = found[2], b.group(1), int(b.group(3))
    if any(re.match(r"\s*(ftl_block_barrier|ftl_meet|for )", x) for x in code[:at]):
        return None
    body = [x.strip() for x in code[at + 1:block_of(code, at + 1)[1]] if x.strip() != "}"]
    guard = len(body) == 2 and re.match(rf"const (?:int left = row \+ (\d+) \* {step} < rows_left \? columns_left - column : 0|bool inside = row \+ (\d+) \* {step} < rows_left);$", body[0])
    copy = guard and re.match(rf"ftl_cp_async_16_(part<8>|or_zero)\(target \+ (\d+) \* {step}, (left > 0|inside) \? source \+ .* : args\.\w+, (left|inside)\);$", body[1])
    if not copy or ("left" in body[0].split(" = ")[0]) != (copy.group(4) == "left"):
        return None
    target = next((x.strip() for x in reversed(code[:at]) if re.match(r"\s*unsigned target = ", x)), "")
    slot = re.match(r"unsigned target = 2 \* shared \+ \(2 \* at::(\w+)_tile \+ at::\1_slot\) - (\w+);$", target)
    first = slot and f"unsigned {slot.group(2)} = shared + (at::{slot.group(1)}_tile + at::{slot.group(1)}_slot);"
    if not slot or not any(x.strip() == first for x in code[:at]):
        return None
    name, bytes_a_step = slot.group(2), int(copy.group(2))
    if steps * bytes_a_step < bytes_a_step or any(re.search(rf"\b{name}\b", x) and x.strip() not in (first, target) for x in code[:at]):
        return None
    later = next((i for i in range(at, len(code)) if re.match(r"\s*for \(int (\w+) = 0; ", code[i])), None)
    if later is None or not any(re.match(rf"\s*{name} = shared \+ at::{slot.group(1)}_tile \+ \(unsigned\)\(\w+ & 1\) \* at::{slot.group(1)}_slot;$", x) or
                                re.match(rf"\s*{name} = 2 \* shared \+ \(2 \* at::{slot.group(1)}_tile \+ at::{slot.group(1)}_slot\) - {name};$", x) for x in code[later:]):
        return None
    if any(re.match(r"\s*ftl_(ldmatrix|load_shared)", x) for x in code[at:later]):
        return None
    return "the other slot, which is filled anew before anything reads it; rows past the tensor's are not read"


def both_hold(mutant, code):
    """"and" that becomes "or" between bounds of a table's index that both hold: of a batch that there is, and of a row that is left."""
    found = one_line(mutant, code)
    if not found:
        return None
    now, was, at = found
    bounds = r"\(unsigned\)\(b\) < \(unsigned\)\(args\.batch\) && \(unsigned\)\(([^()]*(?:\([^()]*\))?[^()]*)\) < \(unsigned\)\(args\.(\w+)\)"
    places = [m for m in re.finditer(bounds, was) if was[:m.start()] + m.group(0).replace("&&", "||", 1) + was[m.end():] == now]
    if len(places) != 1 or not any(x.strip() == "const int b = (int)tile;" or re.match(r"const int b = \(int\)tile,", x.strip()) for x in code[:at]):
        return None
    way = way_of_rows(code, at, was[:places[0].start()], *places[0].groups())
    return way and f"{way}, and the batch is the grid's: both hold"


def way_of_rows(code, at, before, index, length):
    """Why a row of a copy is one of its tensor, by the way that the copy stands in; None: it is not known to be."""
    rows = re.match(r"(?:(.*) \+ )?row \+ (\d+) \* (\w+)$", index)
    left = next((re.match(rf"\s*const int rows_left = args\.{length}(?: - (.*))?;$", x) for x in reversed(code[:at]) if re.match(r"\s*const int rows_left = ", x)), None)
    if not rows or not left or (rows.group(1) or "") != (left.group(1) or ""):
        return None
    way = next((code[i].strip() for i in enclosing(code, at) if not re.match(r"\s*FTL_UNROLL for \(", code[i])), "")
    if code[at].strip().startswith("ftl_cp_async_16_or_zero(") and "inside ? " in before:
        same = code[at - 1].strip() == f"const bool inside = row + {rows.group(2)} * {rows.group(3)} < rows_left;"
        return "the row is inside" if same else None
    whole = re.match(r"if \(rows_left >= (\d+)\) \{$", way)
    loop = next((m for m in (re.match(LOOP, code[i].strip()) for i in range(at - 1, max(at - 4, 0), -1)) if m and m.group(1) == rows.group(3)), None)
    row = next((re.match(r"\s*const int row = ([^,;]*)[,;]", x) for x in reversed(code[:at]) if re.match(r"\s*const int row = ", x)), None)
    threads = threads_of(code)
    if not whole or not loop or not row or not threads or loop.group(2) != "<" or loop.group(4):
        return None
    most = max(eval(row.group(1), {"warp": w, "lane": n}) for w, n in THREADS if w < threads // 32)
    return "whole rows are left" if most + int(rows.group(2)) * (int(loop.group(3)) - 1) < int(whole.group(1)) else None


def earlier_row(mutant, code):
    """A bound of a row that is inside, asked of one before it: of a loop whose first step is not the tensor's first block."""
    found = one_line(mutant, code)
    if not found:
        return None
    now, was, at = found
    bound = r"\(unsigned\)\(((?:[^()]|\([^()]*\))*)\) < \(unsigned\)\(args\.(\w+)\)"
    pairs = [(a, b) for a, b in zip(re.finditer(bound, was), re.finditer(bound, now)) if a.group(0) != b.group(0)]
    if len(pairs) != 1 or pairs[0][0].group(2) != pairs[0][1].group(2) or was[:pairs[0][0].start()] + pairs[0][1].group(0) + was[pairs[0][0].end():] != now:
        return None
    index, other = pairs[0][0].group(1), pairs[0][1].group(1)
    step = re.match(r"\((\w+) \+ 1\) \* (\w+) \+ row \+ \d+ \* (\w+)$", index)
    if not step or not way_of_rows(code, at, was[:pairs[0][0].start()], *pairs[0][0].groups()) or set(re.findall(r"[a-z_]\w*", other, re.I)) - set(step.groups()) - {"row"}:
        return None
    lets, around = lets_before(code, at), loop_around(code, at, step.group(1))
    row = next((re.match(r"\s*const int row = ([^,;]*)[,;]", x) for x in reversed(code[:at]) if re.match(r"\s*const int row = ", x)), None)
    if not around or not row or not threads_of(code):
        return None
    rows = sorted({eval(row.group(1), {"warp": w, "lane": n}) for w, n in THREADS if w < threads_of(code) // 32})
    for drawn in draws(lets):
        low = int(drawn.value(around[0]))
        size = drawn.value(step.group(2))
        for i in (low, low + 1, low + 5):
            scope = {step.group(1): i, step.group(2): size, "row": drawn.r.choice((rows[0], rows[-1], drawn.r.choice(rows))), step.group(3): drawn.r.choice((0, 0, 1, 3))}
            if not 0 <= eval(python_of(other), {}, dict(scope)) <= eval(python_of(index), {}, dict(scope)):
                return None
    return "a row before one that is inside: both are"


def first_shift(mutant, code):
    """Of the first block, a shift that stays where it began: weights are then infinite, and the vote takes the block again."""
    new, old, at = changes(mutant, code)
    if len(new) > 1 or len(old) != 1:
        return None
    shifts = r"(\w+)(?:\[\w+\])+ = ftl_multiply\((m\w*)(?:\[\w+\])+, (-\w[\w.]*)\);$"
    loop = r"FTL_UNROLL for \(int (m16|half) = (0|0 \+ 1); \1 < (\d)( - 1)?; \1\+\+\)( " + shifts[:-1] + ")?$"
    if new and not (re.match(loop, old[0].strip()) and re.match(loop, new[0].strip()) and new[0].strip().replace("= 0 + 1;", "= 0;").replace(" - 1;", ";") == old[0].strip()):
        return None
    line = next((code[i].strip() for i in (at, at + 1) if i < len(code) and re.search(shifts, code[i].strip())), "")
    shift = re.search(shifts, line)
    if not shift or (not new and not re.match(shifts, old[0].strip())):
        return None
    if not new and re.match(r"\s*FTL_UNROLL for", code[at - 1]) and not code[at - 1].rstrip().endswith("{"):
        return None                                     # its loop would take the next statement
    above = next((i for i in enclosing(code, at) if not re.match(r"\s*FTL_UNROLL for \(", code[i])), None)
    if above is None or not re.match(r"if \(\w+ == 0\) \{$", code[above].strip()):
        return None
    if not real(shift.group(3)[1:]) >= 1e-20:
        return None                                     # one below 0 makes all weights 0, one near 1e-30 none that the vote notices
    name, maximum = re.escape(shift.group(1)), re.escape(shift.group(2))
    begins = [re.search(rf"\b{name}(?:\[\w+\])+ = ftl_multiply\({maximum}(?:\[\w+\])+, -\w[\w.]*\);$", x) is not None for x in code[:above]]
    started = any(re.search(rf"\b{maximum}(?:\[\w+\])+ = -1e\+30f;$", x) for x in code[:above])
    end = block_of(code, above + 1)[1]
    rest = code[end:]
    vote = next((i for i, x in enumerate(rest) if re.match(r"\s*if \(ftl_any\(any_\d+\)\) \{$", x)), None)
    if not started or sum(begins) != 1 or vote is None:
        return None
    used = [x for x in rest[:vote] if re.search(rf"\b{name}\b", x)]
    power = all(re.match(rf"\s*(\w+)(\[[^=]*\]) = ftl_multiply_add\(\1\2, \w[\w.]*, {name}(?:\[\w+\])+\);$", x) for x in used)
    noticed = re.search(r"any_\d+ \|= !\(part(?:\[\w+\])+ < 32768\.0f\);", " ".join(rest[:vote]))
    return "the vote takes the first block again, with its maximum: weights by a shift of 1e30 are infinite" if used and power and noticed else None


PROOFS = (a_step_further, both_hold, earlier_row, first_shift)
