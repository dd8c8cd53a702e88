"""Between what scores lie, by the statements of TL Code that make them."""
import math
import re

from equal_conditions import linear, tree_of
from equal_text import real

# What functions give, whatever they are given.
BOUNDED = {"Tanh": (-1, 1), "Sin": (-1, 1), "Erf": (-1, 1), "Erfc": (0, 2)}


def hides_rows(test, column, names):
    """Whether a part of a Mask's condition hides all of a row, or none of its first column: what goes on from a column to the last
    one, or does not ask for columns, or (with `names`, of a walk from the first column on) does not hold for column 0."""
    atoms = test.split(" and ")
    if all(re.match(rf"{column} >=? (?!.*\b{column}\b)[^<>=%]+$", x) or not re.search(rf"\b{column}\b", x) for x in atoms):
        return True
    for x in atoms if names else ():
        m = re.match(rf"{column} (>=?) (.+)$", x)
        try:
            least = linear(tree_of(m.group(2)), names) if m else {"": -1}
        except (ValueError, SyntaxError):
            continue
        sums = all(k >= 0 and (n == "" or n not in names.scalars) for n, k in least.items())
        if sums and least.get("", 0) >= (1 if m.group(1) == ">=" else 0):
            return True
    return False


def scores_within(lines, column, lets, names=None):
    """Between what the scores lie, by the statements that make them; masked ones are none. None: not known."""
    low, high, is_masked = -math.inf, math.inf, False
    for line in lines:
        m = re.match(r"\s*Compute (\w+) (\w+)(?:, (.+?))?(?: in coordinate \[[^]]*\])? and get (\w+)$", line)
        if re.match(r"\s*(if \w+ [<>]=? \w+( or \w+ [<>]=? \w+)*|end)$", line):
            continue
        if re.match(r"\s*Compute Mask \w+ in ", line):
            # What is seen is seen from the first block on.
            condition = line.split(" where ")[1]
            if "not (" in condition or not all(hides_rows(x, column, names) for x in condition.split(" or ")):
                return None
            is_masked = True
            continue
        if not m or m.group(2) != m.group(4):
            return None
        name, c = m.group(1), real(lets.get(m.group(3), m.group(3))) if m.group(3) else None
        c = None if c != c else c
        if is_masked and name != "Cast" and not (c is not None and (name in ("Add", "Subtract") or name in ("Multiply", "Divide") and c > 0)):
            return None                                 # of minus infinity it may make something that counts
        if name in BOUNDED:
            low, high = BOUNDED[name]
        elif name in ("Multiply", "Add", "Subtract", "Divide", "Max", "Min") and c is not None and not (name == "Divide" and c == 0):
            f = {"Multiply": lambda x: x * c if x * c == x * c else 0, "Add": lambda x: x + c, "Subtract": lambda x: x - c, "Divide": lambda x: x / c,
                 "Max": lambda x: max(x, c), "Min": lambda x: min(x, c)}[name]
            low, high = sorted((f(low), f(high)))
        elif name in ("Exp", "Exp2"):
            f = math.exp if name == "Exp" else math.exp2
            low, high = 0 if low == -math.inf else f(low), math.inf if high > 80 else f(high)
        elif name == "Multiply" and m.group(3) == m.group(2):
            low, high = (0 if low <= 0 <= high else min(low * low, high * high)), max(low * low, high * high)
        elif name in ("Multiply", "Add", "Subtract", "Divide", "Max", "Min"):
            low, high = -math.inf, math.inf             # of a number, or a place, that is not known
        elif name == "Rsqrt" and low > 0:
            low, high = 0 if high == math.inf else high ** -0.5, low ** -0.5
        elif name == "Reciprocal" and low > 0:
            low, high = 0 if high == math.inf else 1 / high, 1 / low
        elif name == "Abs":
            low, high = (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        elif name != "Cast":
            return None
    return low, high
