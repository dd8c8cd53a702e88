"""Between what a whole number of a traced function lies, as forms in the lengths: conditions of the launch come of it.

A form is {length: factor}, with its constant under ''. A range is two lists of forms, None where nothing is known: the number is at least
one of the first, at most one of the second."""
from fractions import Fraction
from math import floor, lcm

FORMS_MOST = 8
LONG = 2 ** 22  # what a length may well be
LENGTHS = {"b": "batch", "head": "q_heads", "q": "q_len", "kv": "kv_len"}  # of the places


def form(value):
    return {"": Fraction(value)}


def plus(a, b, factor=1):
    made = dict(a)
    for name, value in b.items():
        made[name] = made.get(name, 0) + factor * value
    return {name: value for name, value in made.items() if value or not name}


def constants(forms):
    return None if forms is None or any(len(x) > 1 for x in forms) else [x[""] for x in forms]


def each(a, b, make):
    """All sums of a form of a and one of b."""
    if a is None or b is None or len(a) * len(b) > FORMS_MOST:
        return None
    return [make(x, y) for x in a for y in b]


def times(forms, factor):
    return None if forms is None else [{name: value * factor for name, value in x.items()} for x in forms]


def together(a, b):
    return None if a is None or b is None else a + b


def nearest(a, b):
    """Of two bounds that both hold, one: a number where there is one."""
    known = [x for x in (a, b) if x is not None]
    return next((x for x in known if constants(x) is not None), known[0] if known else None)


def is_positive(forms):
    """Whether none of them is below 0, whatever the lengths are."""
    return forms is not None and all(x[""] >= 0 and all(value >= 0 for value in x.values()) for x in forms)


def by_lengths(x):
    """Of a place or an element of a table, whatever the lengths are."""
    if x.op == "element":
        return None, None
    return [form(0)], [{LENGTHS[x.value]: Fraction(1), "": Fraction(-1)}]


def for_long_ones(x):
    """As numbers: lengths are LONG at most, and of tables that can be seen the elements are known."""
    if x.op == "place":
        return [form(0)], [form(LONG - 1)]
    return tuple(None if bound is None else [form(bound)] for bound in x.value.bounds())


def range_of(x, of_leaf=by_lengths):
    """(low, high) of a Symbol that is a whole number."""
    if x.op == "number":
        return [form(x.value)], [form(x.value)]
    if x.op in ("place", "element"):
        return of_leaf(x) if x.kind == "int" else (None, None)
    if x.op == "select":
        a, b = (range_of(arg, of_leaf) for arg in x.args[1:])
        return together(a[0], b[0]), together(a[1], b[1])
    if x.kind != "int":
        return None, None
    ranges = [range_of(arg, of_leaf) for arg in x.args]
    return RULES[x.op](*ranges) if x.op in RULES else (None, None)


def product(a, b):
    if all(constants(forms) for forms in (*a, *b)):
        corners = [x * y for x in constants(a[0] + a[1]) for y in constants(b[0] + b[1])]
        return [form(min(corners))], [form(max(corners))]
    for one, other in ((a, b), (b, a)):
        if constants(one[0]) and one[0] == one[1]:
            factor = one[0][0][""]
            found = times(other[0], factor), times(other[1], factor)
            return found if factor >= 0 else found[::-1]
    return None, None


def quotient(a, b):
    divisor = b[0][0][""]
    low, high = times(a[0], 1 / divisor), times(a[1], 1 / divisor)
    if constants(low) is not None:
        low = [form(floor(x)) for x in constants(low)]
    elif is_positive(low):
        low = [form(0)]
    elif low is not None:
        low = [plus(x, form((divisor - 1) / divisor), -1) for x in low]
    return low, high  # a whole number below x/c + anything is at most x/c: rounding down is left to whoever compares


def rest(a, b):
    return [form(0)], [form(b[0][0][""] - 1)]


def size(a):
    if is_positive(a[0]):
        return a
    return [form(0)], together(a[1], times(a[0], -1))


def smallest(*ranges):
    low, high = ranges[0]
    for a, b in ranges[1:]:
        low, high = together(low, a), nearest(high, b)
    return low, high


def largest(*ranges):
    low, high = ranges[0]
    for a, b in ranges[1:]:
        low, high = nearest(low, a), together(high, b)
    return low, high


RULES = {"+": lambda a, b: (each(a[0], b[0], plus), each(a[1], b[1], plus)),
         "-": lambda a, b: (each(a[0], b[1], lambda x, y: plus(x, y, -1)), each(a[1], b[0], lambda x, y: plus(x, y, -1))),
         "-x": lambda a: (times(a[1], -1), times(a[0], -1)), "*": product, "//": quotient, "%": rest, "abs": size, "min": smallest,
         "max": largest}


def largest_size(x):
    """How far from 0 a whole number may come to lie while lengths are at most LONG; 0 where nothing is known, as of tables on a GPU."""
    return max((abs(value) for forms in range_of(x, for_long_ones) if forms for value in constants(forms)), default=0)


def written(one):
    """A form of whole factors as terms with their signs."""
    terms = [(value, name) for name, value in sorted(one.items(), key=lambda item: item[0] == "") if value]
    return [(int(value), str(abs(int(value))) if not name else name if abs(value) == 1 else f"{abs(int(value))}*{name}") for value, name in terms]


def condition(low, high):
    """'low <= high' of forms, without what it has on both sides; None where it always holds."""
    gap = plus(high, low, -1)
    factor = lcm(*(value.denominator for value in gap.values()))
    terms = written({name: value * factor for name, value in gap.items()})
    if all(value > 0 for value, _ in terms):
        return None
    left, right = (" + ".join(text for value, text in terms if (value > 0) == is_right) or "0" for is_right in (False, True))
    return f"{left} <= {right}"


def inside(x, extent):
    """Conditions for x to be 0 ... extent - 1, or None where its range is not known."""
    low, high = range_of(x)
    if low is None or high is None:
        return None
    zero = form(0)
    past = [plus({extent: Fraction(1), "": Fraction(-1)}, one, -1) for one in high]
    found = [condition(zero, one) for one in low]
    for one in past:  # floor(y) <= n - 1 is y < n: with whole numbers over a common divisor, y + 1/divisor <= n
        divisor = max(value.denominator for value in one.values())
        found.append(condition(form(0), plus(one, form(1 - Fraction(1, divisor)))))
    return list(dict.fromkeys(text for text in found if text))
