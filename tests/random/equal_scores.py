"""Between what scores lie, by the statements of TL Code that make them."""
import math
import re

from equal_text import real

# What functions give, whatever they are given.
BOUNDED = {"Tanh": (-1, 1), "Sin": (-1, 1), "Erf": (-1, 1), "Erfc": (0, 2)}


def scores_within(lines, column, lets):
    """Between what the scores lie, by the statements that make them; masked ones are none. None: not known."""
    low, high = -math.inf, math.inf
    for line in lines:
        m = re.match(r"\s*Compute (\w+) (\w+)(?:, (-?[\w.]+(?:e-?\d+)?))? and get (\w+)$", line)
        if re.match(r"\s*(if \w+ [<>]=? \w+( or \w+ [<>]=? \w+)*|end)$", line):
            continue
        if re.match(r"\s*Compute Mask \w+ in ", line):
            # What is seen is seen from the first block on: conditions hold from a column on.
            if not all(re.match(rf"{column} >=? (?!.*\b{column}\b)[^<>=%]+$", x) for x in line.split(" where ")[1].split(" or ")):
                return None
            continue
        if not m or m.group(2) != m.group(4):
            return None
        name, c = m.group(1), real(lets.get(m.group(3), m.group(3))) if m.group(3) else None
        c = None if c != c else c
        if name in BOUNDED:
            low, high = BOUNDED[name]
        elif name in ("Multiply", "Add", "Subtract", "Divide", "Max", "Min") and c is not None and not (name == "Divide" and c == 0):
            f = {"Multiply": lambda x: x * c if x * c == x * c else 0, "Add": lambda x: x + c, "Subtract": lambda x: x - c, "Divide": lambda x: x / c,
                 "Max": lambda x: max(x, c), "Min": lambda x: min(x, c)}[name]
            low, high = sorted((f(low), f(high)))
        elif name in ("Exp", "Exp2"):
            f = math.exp if name == "Exp" else math.exp2
            low, high = 0 if low == -math.inf else f(low), math.inf if high > 80 else f(high)
        elif name == "Reciprocal" and low > 0:
            low, high = 0 if high == math.inf else 1 / high, 1 / low
        elif name == "Abs":
            low, high = (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        elif name != "Cast":
            return None
    return low, high
