"""Proofs about conditions of TL Code, of elements and of launches: which of them hold for the same ones, by what declarations say of
names: an index is below its length, and neither is ever below 0.
"""
import ast
import re

from equal_bounds import lets_of, python_of
from equal_text import changes, real


def base(name):
    return re.sub(r"_(shared|register)$", "", name)


class Names:
    """What the declarations of a text say of names: which length an index stays below, and which names are whole numbers."""

    def __init__(self, code):
        self.lets, self.length_of, self.scalars = lets_of(code), {}, set()
        for line in code:
            m = re.match(r"\s*(?:(?:Input|Output) +(\w+)(?: +(\w+))?|let \w+) *\(([^)]*)\)", line)
            for axis in re.split("[;,] *", m.group(3)) if m else ():
                index, _, length = axis.strip().rpartition(" in ")
                self.length_of.setdefault(index or length, set()).add(length)
            m = re.match(r"\s*Input +(\w+) +i32$", line)
            if m:
                self.scalars.add(m.group(1))

    def length(self, index):
        """The name of the length of an index; None: it has none, or several."""
        found = self.length_of.get(index, set())
        return min(found) if len(found) == 1 else None

    def known_length(self, index):
        text = self.lets.get(self.length(index), self.length(index) or "")
        return int(text) if text.isdigit() else None

    def is_index(self, name):
        return name in self.length_of and name not in self.lets

    def is_whole(self, name):
        return name in self.length_of or name in self.scalars or any(name in x for x in self.length_of.values())


def tree_of(text):
    return ast.parse(python_of(text), mode="eval").body


def linear(node, names):
    """A sum of whole numbers as {name: how often}, "" for the constant; ValueError: it is none."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return {"": node.value}
    if isinstance(node, ast.Name) and names.is_whole(node.id):
        return {node.id: 1}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return {n: -k for n, k in linear(node.operand, names).items()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        a, b = linear(node.left, names), linear(node.right, names)
        sign = 1 if isinstance(node.op, ast.Add) else -1
        return {n: a.get(n, 0) + sign * b.get(n, 0) for n in a.keys() | b.keys()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        a, b = linear(node.left, names), linear(node.right, names)
        if not set(b) <= {""}:
            a, b = b, a
        if set(b) <= {""}:
            return {n: k * b.get("", 0) for n, k in a.items()}
    raise ValueError(ast.dump(node))


def minus(a, b):
    """The difference of two sums, without what is 0."""
    return {n: k for n, k in ((n, a.get(n, 0) - b.get(n, 0)) for n in a.keys() | b.keys()) if k}


# --- of elements -----------------------------------------------------------------------------------

def same_number(a, b, names):
    """Whether two expressions are the same number, where they differ in what is added below a remainder."""
    if ast.dump(a) == ast.dump(b):
        return True
    if not isinstance(a, ast.BinOp) or not isinstance(b, ast.BinOp) or type(a.op) is not type(b.op):
        return False
    if isinstance(a.op, ast.Mod) and ast.dump(a.right) == ast.dump(b.right) and isinstance(a.right, ast.Constant) and type(a.right.value) is int and a.right.value > 0:
        try:
            return all(k % a.right.value == 0 for k in minus(linear(a.left, names), linear(b.left, names)).values())
        except ValueError:
            return False
    return same_number(a.left, b.left, names) and same_number(a.right, b.right, names)


def truths(node, names, whole):
    """What a comparison says of each element of a known axis that the tile has whole; None: it asks for more."""
    found = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
    index = found.pop() if len(found) == 1 else None
    length = index and names.is_index(index) and names.length(index) in whole and names.known_length(index)
    if not length or any(not isinstance(x, (ast.Compare, ast.BinOp, ast.Name, ast.Constant, ast.cmpop, ast.operator, ast.expr_context)) for x in ast.walk(node)):
        return None
    if any(isinstance(x, ast.Constant) and type(x.value) is not int or isinstance(x, (ast.Div, ast.Pow)) for x in ast.walk(node)):
        return None
    code = compile(ast.Expression(node), "", "eval")
    return [bool(eval(code, {"__builtins__": {}}, {index: i})) for i in range(length)]


def at_least_0(node, names):
    """A comparison as a sum of whole numbers that is at least 0; None: it is none."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return None
    try:
        a, b = linear(node.left, names), linear(node.comparators[0], names)
    except ValueError:
        return None
    if isinstance(node.ops[0], (ast.Lt, ast.LtE)):
        a, b = b, a
    strict = isinstance(node.ops[0], (ast.Lt, ast.Gt))
    return minus(a, {**b, "": b.get("", 0) + strict})


def implies(a, b, names):
    """Whether a sum that is at least 0 makes another one so: lengths and indices are never below 0."""
    return all(k >= 0 and n not in names.scalars for n, k in minus(b, a).items())


def without_implied(node, names):
    """A condition without those of its parts that others imply: of "and" what follows from another one, of "or" what leads to it."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return "not", without_implied(node.operand, names)
    if not isinstance(node, ast.BoolOp):
        found = at_least_0(node, names)
        return tuple(sorted(found.items())) if found is not None else ast.dump(node)
    is_all = isinstance(node.op, ast.And)
    parts = [(x, at_least_0(x, names)) for x in node.values]
    kept = []
    for i, (x, mine) in enumerate(parts):
        others = [y for k, (_, y) in enumerate(parts) if k != i and y is not None and not (k > i and y == mine)] if mine is not None else []
        if not any(implies(*((y, mine) if is_all else (mine, y)), names) for y in others):
            kept.append(x)
    if len(kept) == 1:
        return without_implied(kept[0], names)
    return type(node.op).__name__, *(without_implied(x, names) for x in kept)


def of_remainders(node):
    """What a comparison of a remainder with a number says of each remainder there is; None: it is another one."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.left, ast.BinOp) or not isinstance(node.left.op, ast.Mod):
        return None
    numbers = [x.value if isinstance(x, ast.Constant) and type(x.value) is int else None for x in (node.left.right, node.comparators[0])]
    if None in numbers or not 0 < numbers[0] <= 4096:
        return None
    holds = {ast.Lt: int.__lt__, ast.LtE: int.__le__, ast.Gt: int.__gt__, ast.GtE: int.__ge__, ast.Eq: int.__eq__, ast.NotEq: int.__ne__}[type(node.ops[0])]
    return ast.dump(node.left), [holds(i, numbers[1]) for i in range(numbers[0])]


def same_test(a, b, names, whole):
    """Whether two conditions hold for the same elements, part by part."""
    if ast.dump(a) == ast.dump(b) or without_implied(a, names) == without_implied(b, names):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, ast.BoolOp):
        return type(a.op) is type(b.op) and len(a.values) == len(b.values) and all(same_test(x, y, names, whole) for x, y in zip(a.values, b.values))
    if isinstance(a, ast.UnaryOp):
        return isinstance(a.op, ast.Not) and isinstance(b.op, ast.Not) and same_test(a.operand, b.operand, names, whole)
    if not isinstance(a, ast.Compare) or len(a.ops) != 1 or len(b.ops) != 1:
        return False
    if of_remainders(a) is not None and of_remainders(a) == of_remainders(b):
        return True
    if truths(a, names, whole) is not None and truths(a, names, whole) == truths(b, names, whole):
        return True
    return type(a.ops[0]) is type(b.ops[0]) and same_number(a.left, b.left, names) and same_number(a.comparators[0], b.comparators[0], names)


def shape_of(code, tile):
    """The lengths of a register tile, as Allocate says them."""
    for line in code:
        m = re.match(r"\s*Allocate ([\w, ]+) in register \w+ \(([^)]*)\)", line)
        if m and base(tile) in m.group(1).split(", "):
            return set(m.group(2).split(", "))
    return set()


def same_elements(mutant, code):
    """A Mask of the same elements."""
    new, old, _ = changes(mutant, code)
    m = [re.match(r"\s*(Compute Mask (\w+)(?:, \S+)? (?:in coordinate \[[^]]*\] )?)where (.*)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1) != m[1].group(1):
        return None
    a, b = [tree_of(x.group(3)) for x in m]
    return "the condition holds for the same elements" if same_test(a, b, Names(code), shape_of(code, m[0].group(2))) else None


# --- what a launch demands ------------------------------------------------------------------------

ALLOWED = "a launch is allowed that the sketch's own condition keeps from happening"
REFUSED = "a launch is refused that could be done; none is wrong"


def launches(mutant, code):
    """A launch condition of numbers that are known, or of the size of a scalar."""
    new, old, _ = changes(mutant, code)
    m = [re.match(r"((?:Input|Output) .*) where (.*)$", x) for x in new + old]
    if len(new) != 1 or len(old) != 1 or not all(m) or m[0].group(1) != m[1].group(1):
        return None
    sizes = [re.match(r"abs\((\w+)\) (<=?) ([\d.]+(?:e-?\d+)?)$", x.group(2)) for x in m]
    if all(sizes) and sizes[0].group(1) == sizes[1].group(1) and real(sizes[0].group(3)) > 0:
        now, before = [(real(x.group(3)), x.group(2)) for x in sizes]       # "<" comes before "<="
        return ALLOWED if now >= before else REFUSED
    whole = [re.match(r"(\w+_heads|\w+_len) % (\w+_heads|\w+_len) (==|<=) 0$", x.group(2)) for x in m]
    if all(whole) and whole[0].group(1, 2) == whole[1].group(1, 2):
        return "a remainder is never below 0"
    lets = {n: int(t) for n, t in lets_of(code).items() if t.isdigit()}
    trees = [tree_of(x.group(2)) for x in m]
    found = {x.id for t in trees for x in ast.walk(t) if isinstance(x, ast.Name)}
    plain = (ast.Compare, ast.BoolOp, ast.BinOp, ast.Name, ast.Constant, ast.cmpop, ast.operator, ast.boolop, ast.expr_context)
    if not found <= lets.keys() or not all(isinstance(x, plain) and not isinstance(x, (ast.Div, ast.FloorDiv, ast.Pow)) for t in trees for x in ast.walk(t)):
        return None
    held = [bool(eval(compile(ast.Expression(t), "", "eval"), {"__builtins__": {}}, lets)) for t in trees]
    return "the condition holds for the lengths that the text knows" if all(held) else None


def of_conditions(mutant, code):
    """Why a mutant's conditions say the same; None: nothing is known."""
    return same_elements(mutant, code) or launches(mutant, code)
