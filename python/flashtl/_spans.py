"""Of a block of queries by a block of keys: whether a condition may hold somewhere in it, and whether it surely holds everywhere, by the
least and the largest of the whole numbers that it compares.

What a place is in a block, its number says. What has an element of a table in it and goes by the query alone, or by the key alone, is
looked at: its least and its largest over the block's queries, or keys, are made by a kernel, before (_listing.py). Everything else may be
anything. So both answers are Symbols again, in places of blocks; the first is never false, nor the second ever true, where it should not be."""
from ._symbols import FUNCTIONS, Symbol, inverse, is_constant, symbol

SIDES = "q", "kv"


class Spans:
    """'looked_at': {"q": [Symbols], "kv": [Symbols]}, whose least and largest over a block have the names 'q_low_0', 'q_high_0', ..."""

    def __init__(self):
        self.looked_at, self.known, self.places = {side: [] for side in SIDES}, {}, {}

    # --- conditions ---

    def may_hold(self, x):
        return self.answer(x, True)

    def surely_holds(self, x):
        return self.answer(x, False)

    def answer(self, x, may):
        """Where x may hold, or where it surely holds."""
        if is_constant(x):
            return x
        if x.op in ("and", "or"):
            return FUNCTIONS[x.op](*(self.answer(arg, may) for arg in x.args))
        if x.op == "not":
            return inverse(self.answer(x.args[0], not may))
        bounds = [self.bounds(arg) for arg in x.args] if x.op in COMPARED and all(arg.kind == "int" for arg in x.args) else [None]
        return symbol(may) if None in bounds else COMPARED[x.op][0 if may else 1](*bounds)

    # --- whole numbers ---

    def bounds(self, x):
        """(least, largest) in a block, or None."""
        if id(x) not in self.known:
            self.known[id(x)] = x, self.found_bounds(x)
        return self.known[id(x)][1]

    def found_bounds(self, x):
        sides, has_element, _ = of_what(x)
        if x.is_tile:  # made by statements, on scores
            return None
        if not sides:
            return x, x
        if x.op == "place":
            return self.place(f"{x.value}_begin"), self.place(f"{x.value}_end")
        if has_element and len(sides) == 1:
            return self.look_at(x, *sides)
        if x.kind != "int" or x.op not in RULES or has_element and x.op in ("//", "%"):
            return None
        bounds = [self.bounds(arg) for arg in x.args]
        return None if None in bounds else RULES[x.op](*bounds)

    def look_at(self, x, side):
        number = len(self.looked_at[side])
        self.looked_at[side].append(x)
        return self.place(f"{side}_low_{number}"), self.place(f"{side}_high_{number}")

    def place(self, name):
        return self.places.setdefault(name, Symbol("place", "int", value=name))


def of_what(x):
    """(which of the two sides are in it, whether an element of a table is, all places in it)."""
    places, has_element, seen, left = set(), False, set(), [x]
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            left.extend(one.args)
            places |= {one.value} if one.op == "place" else set()
            has_element = has_element or one.op == "element"
    return places & set(SIDES), has_element, places


def same(a, b):
    """A comparison of bounds that are all one number."""
    return (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])


def meet(a, b):
    return (a[0] <= b[1]) & (b[0] <= a[1])


# Of bounds a and b: where it may hold, where it surely does.
COMPARED = {"<": (lambda a, b: a[0] < b[1], lambda a, b: a[1] < b[0]), "<=": (lambda a, b: a[0] <= b[1], lambda a, b: a[1] <= b[0]),
            ">": (lambda a, b: a[1] > b[0], lambda a, b: a[0] > b[1]), ">=": (lambda a, b: a[1] >= b[0], lambda a, b: a[0] >= b[1]),
            "==": (meet, same), "!=": (lambda a, b: inverse(same(a, b)), lambda a, b: inverse(meet(a, b)))}


def product(a, b):
    for one, other in ((a, b), (b, a)):
        if is_constant(one[0]) and one[0] is one[1]:
            found = other[0] * one[0], other[1] * one[0]
            return found if one[0].value >= 0 else found[::-1]
    return None


def size(a):
    larger = FUNCTIONS["maximum"]
    return larger(larger(a[0], -a[1]), 0), larger(-a[0], a[1])


def each(name):
    return lambda *bounds: tuple(FUNCTIONS[name](*ends) for ends in zip(*bounds))


RULES = {"+": lambda a, b: (a[0] + b[0], a[1] + b[1]), "-": lambda a, b: (a[0] - b[1], a[1] - b[0]), "-x": lambda a: (-a[1], -a[0]),
         "*": product, "//": lambda a, b: (a[0] // b[0].value, a[1] // b[0].value), "%": lambda a, b: (symbol(0), b[0] - 1), "abs": size,
         "min": each("minimum"), "max": each("maximum")}
