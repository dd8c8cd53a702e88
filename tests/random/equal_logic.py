"""Which conditions of TL Code can hold together, for any whole numbers: their comparisons as sums that are at least 0, of which one
name after the other is eliminated (Fourier and Motzkin). What has no solution in fractions has none in whole numbers.
"""
import ast
import itertools

from equal_conditions import minus, tree_of

WAYS_MOST, SUMS_MOST = 256, 300
FLIPPED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}


class Logic:
    """Conditions over the names of a text. What is no comparison of sums of whole numbers holds or does not, whatever else does."""

    def __init__(self, names):
        self.names, self.quotients = names, {}

    def sum_of(self, node, depth=0):
        """An expression as {name: how often}, "" for the constant; ValueError: it is no sum of whole numbers."""
        if depth > 20:
            raise ValueError("a circle")
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return {"": node.value}
        if isinstance(node, ast.Name):
            text = self.names.lets.get(node.id, "")
            if text.isdigit():
                return {"": int(text)}
            if self.names.is_whole(node.id):
                return {node.id: 1}
            return self.sum_of(tree_of(text), depth + 1) if text else self.unknown(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return minus({}, self.sum_of(node.operand, depth + 1))
        if not isinstance(node, ast.BinOp):
            return self.unknown(node)
        a, b = self.sum_of(node.left, depth + 1), self.sum_of(node.right, depth + 1)
        if isinstance(node.op, ast.Add):
            return minus(a, minus({}, b))
        if isinstance(node.op, ast.Sub):
            return minus(a, b)
        if isinstance(node.op, ast.Mult) and (set(a) <= {""} or set(b) <= {""}):
            factor, other = (a, b) if set(a) <= {""} else (b, a)
            return {n: k * factor.get("", 0) for n, k in other.items()}
        if isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return self.quotient(node, a, b)
        return self.unknown(node)

    @staticmethod
    def unknown(node):
        raise ValueError(ast.dump(node))

    def quotient(self, node, a, b):
        """A quotient in which an index takes part rounds down; one of lengths alone rounds up, and is not known here."""
        if set(b) != {""} or b[""] <= 0 or not any(k and self.names.is_index(n) for n, k in a.items()):
            return self.unknown(node)
        name = f"floor({sorted(a.items())}/{b['']})"
        self.quotients[name] = a, b[""]
        return {name: 1}

    def comparison(self, node, holds):
        """The ways in which a comparison holds, or does not: each a list of sums at least 0, or of what is known to hold or not."""
        op = type(node.ops[0]) if holds else FLIPPED.get(type(node.ops[0]))
        try:
            less = minus(self.sum_of(node.comparators[0]), self.sum_of(node.left))
        except ValueError:
            # Of NaN neither < nor >= holds: only one and the same comparison is known to be its own opposite.
            return [[(ast.dump(node), holds)]]
        more = minus({}, less)

        def beyond(x):
            return {**x, "": x.get("", 0) - 1}
        return {ast.Lt: [[beyond(less)]], ast.LtE: [[less]], ast.Gt: [[beyond(more)]], ast.GtE: [[more]], ast.Eq: [[less, more]],
                ast.NotEq: [[beyond(less)], [beyond(more)]]}[op]

    def ways(self, node, holds):
        """The ways in which a condition holds, or does not."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.ways(node.operand, not holds)
        if isinstance(node, ast.BoolOp):
            parts = [self.ways(x, holds) for x in node.values]
            return list(itertools.chain(*parts)) if isinstance(node.op, ast.Or) == holds else joined(parts)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
            return self.comparison(node, holds)
        return [[(ast.dump(node), holds)]]

    def never(self, *wanted):
        """Whether conditions, each with whether it is to hold, never do so together."""
        return all(self.has_none(way) for way in joined([self.ways(node, holds) for node, holds in wanted]))

    def has_none(self, way):
        """Whether nothing fulfils all of these."""
        said = {x for x in way if isinstance(x, tuple)}
        if any((text, not holds) in said for text, holds in said):
            return True
        sums = [x for x in way if isinstance(x, dict)]
        for name, (a, b) in self.quotients.items():     # b times the quotient is a, or less by below b
            rest = minus(a, {name: b})
            sums += [rest, {**minus({}, rest), "": b - 1 - rest.get("", 0)}]
        found = {n for x in sums for n in x} - {""}
        sums += [{n: 1} for n in found if n not in self.names.scalars and n not in self.names.lets and n not in self.quotients]
        return contradict(sums, found)


def joined(parts):
    """All ways to take one way of each part; ValueError: there are too many."""
    ways = [[]]
    for part in parts:
        ways = [a + b for a in ways for b in part]
        if len(ways) > WAYS_MOST:
            raise ValueError("too many ways")
    return ways


def contradict(sums, names):
    """Whether sums cannot all be at least 0."""
    sums = {tuple(sorted((n, k) for n, k in x.items() if k)) for x in sums}
    for name in sorted(names):
        up, down, rest = [], [], set()
        for x in sums:
            k = dict(x).get(name, 0)
            (up if k > 0 else down).append(dict(x)) if k else rest.add(x)
        for a, b in itertools.product(up, down):
            both = {n: a.get(n, 0) * -b[name] + b.get(n, 0) * a[name] for n in a.keys() | b.keys()}
            rest.add(tuple(sorted((n, k) for n, k in both.items() if k)))
        sums = rest
        if len(sums) > SUMS_MOST:
            return False
    return any(dict(x).get("", 0) < 0 for x in sums)


def hold_alike(a, b, names):
    """Whether two conditions hold for the same whole numbers."""
    try:
        logic = Logic(names)
        return logic.never((a, True), (b, False)) and logic.never((a, False), (b, True))
    except ValueError:
        return False


def differ_within(a, b, within, names):
    """Whether a third condition holds wherever one of two does and the other one does not."""
    try:
        logic = Logic(names)
        return logic.never((a, True), (b, False), (within, False)) and logic.never((a, False), (b, True), (within, False))
    except ValueError:
        return False


def holds_below(node, names, whole=None):
    """Whether a condition holds wherever its indices are below their lengths: all of them, or those of these lengths alone."""
    found = sorted({x.id for x in ast.walk(node) if isinstance(x, ast.Name) and names.is_index(x.id) and names.length(x.id)})
    below = [tree_of(f"{n} < {names.length(n)}") for n in found if whole is None or names.length(n) in whole]
    try:
        return Logic(names).never((node, False), *((x, True) for x in below))
    except ValueError:
        return False
