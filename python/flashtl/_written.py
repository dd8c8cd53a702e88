"""Symbols as text of TL: expressions, and statements for what only tiles have."""
import math

from . import _ranges
from ._symbols import EDGE, FunctionError, WHOLE_MOST, inverse, is_constant

OR, AND, NOT, COMPARED, SUM, PRODUCT, SIGN, ATOM = range(8)
LETTERS_MOST = 4000  # of an expression
STATEMENTS_MOST = 200
FREE = {"kernel", "input", "output", "let", "grid", "allocate", "copy", "compute", "reshape", "wait", "release", "role", "for", "if", "end",
        "and", "get", "accumulate", "with", "from", "to", "in", "of", "where", "by", "as", "or", "not", "global", "shared", "register", "kept",
        "f16", "bf16", "f32", "e4m3", "e5m2", "i8", "i4", "u4", "i32", "min", "max", "abs", "exp", "exp2", "log", "log2", "ceil", "floor", "select", "any",
        "first", "more", "next", "coordinate", "async", "mma_a", "mma_b", "mma_c", "rows", "columns", "lines", "partial", "persistent",
        "dynamic", "early", "sections", "offset", "permuted", "swizzled", "stages", "place", "turns", "over"}
LISTED = {"X", "Y", "Z", "K_listed", "V_listed", "i", "r", "s", "n", "tile_rows", "keys", "block", "listed", "full", "q_blocks", "kv_blocks"}
TAKEN = {"Q", "K", "V", "O", "S", "L", "b", "head", "q", "kv", "d", "dv", "j", "m", "l", "lse", "scale", "group", "batch", "q_heads", "kv_heads",
         "q_len", "kv_len"}


def bracketed(text, level, least):
    return text if level >= least else f"({text})"


def number_text(x):
    if x.kind == "bool":
        return "0 == 0" if x.value else "0 != 0", COMPARED
    if x.value in (math.inf, -math.inf):
        raise FunctionError("minus infinity is what a score becomes by np.where(condition, score, -np.inf) or score + np.where(...); nothing else is "
                      "computed with it", x)
    return repr(x.value), ATOM if x.value >= 0 else SIGN


class Text:
    """Writes Symbols. 'tables' are the Inputs that come of it: {key: [table, places, name, conditions of the launch]}; 'shared' are
    those found before, so that an array that several places index becomes Inputs called by these, too. 'places' says what places are where
    they are no indices themselves, {place: (text, level)}, and 'within' what they are as indices of tables."""

    def __init__(self, shared=(), places=None, within=None):
        self.shared, self.places, self.within = shared, places or {}, (within or places or {}, {})
        self.tables, self.tiles, self.statements = {}, {}, []
        self.written, self.names, self.scale = {}, TAKEN | LISTED if places else set(TAKEN), "scale"
        self.given = {}  # names of tables that have one in another kernel: {key: name}

    # --- expressions ---

    def expression(self, x, least=OR):
        """What x is, in brackets where it binds less than 'least'."""
        if id(x) in self.tiles:
            return self.tiles[id(x)]
        if id(x) not in self.written:
            text, level = self.made(x)
            if len(text) > LETTERS_MOST:
                raise FunctionError(f"an expression becomes more than {LETTERS_MOST} letters long", x)
            if x.kind == "int" and x.op != "element" and _ranges.largest_size(x) > WHOLE_MOST:
                raise FunctionError(f"'{text}' may come to lie beyond the whole numbers of a kernel; a real factor (2.0 in place of 2) makes it real", x)
            self.written[id(x)] = text, level, x
        text, level, _ = self.written[id(x)]
        return bracketed(text, level, least)

    def made(self, x):
        write, args = self.expression, x.args
        if x.op == "number":
            return number_text(x)
        if x.op == "place":
            return self.places.get(x.value, (x.value, ATOM))
        if x.op == "element":
            return self.element(x), ATOM
        if x.op == "select":
            return f"select({write(args[0])}, {write(args[1])}, {write(args[2])})", ATOM
        if x.op in ("+", "-"):
            return f"{write(args[0], SUM)} {x.op} {write(args[1], PRODUCT)}", SUM
        if x.op in ("*", "/"):
            return f"{write(args[0], PRODUCT)}{x.op}{write(args[1], SIGN)}", PRODUCT
        if x.op == "//":
            return self.quotient(*args)
        if x.op == "%":
            return f"{write(args[0], SIGN)} % {write(args[1], SIGN)}", PRODUCT
        if x.op == "-x":
            return f"-{write(args[0], SIGN)}", SIGN
        if x.op == "real":
            return f"1.0*{write(args[0], SIGN)}", PRODUCT
        if x.op in ("and", "or"):
            level = AND if x.op == "and" else OR
            return f"{write(args[0], level)} {x.op} {write(args[1], level + 1)}", level
        if x.op == "not":
            return f"not {write(args[0], ATOM)}" if args[0].op not in EDGE else f"not {write(args[0], COMPARED)}", NOT
        if x.op in EDGE:
            return f"{write(args[0], SUM)} {x.op} {write(args[1], SUM)}", COMPARED
        return f"{x.op}({', '.join(map(write, args))})", ATOM

    def quotient(self, a, b):
        """An index, and what is a sum with one, divides downwards by '/'; of others it is said outright."""
        text = f"{self.expression(a, PRODUCT)}/{self.expression(b, SIGN)}"
        return (text, PRODUCT) if has_index(a) else (f"floor({text})", ATOM)

    # --- tables ---

    def element(self, x):
        """An element of a table. An axis that is indexed by a place alone is that place's axis."""
        table, places = x.value, [index.value if index.op == "place" else None for index in x.args]
        places = tuple(place if place not in places[:i] else None for i, place in enumerate(places))
        key = id(table), places
        if key not in self.tables:
            self.tables[key] = [table, places, None, {}]
        self.conditions_of(x, places, self.tables[key][3])
        name = self.name_of(key)
        outside, (self.places, self.written) = (self.places, self.written), self.within
        indices = [self.expression(index) for index in x.args]
        self.places, self.written = outside
        return f"{name}[{', '.join(indices)}]" if indices else name

    def name_of(self, key):
        """The variable's, with the places that index it where others do, too."""
        table, places, name, _ = self.tables[key]
        if name is None and key in self.given:
            self.tables[key][2] = name = self.given[key]
        if name is None:
            words = [place for place in places if place]
            plain = table.name if table.name.isascii() and table.name.isidentifier() else "table"
            plain = plain.strip("_") or "table"
            if plain.rpartition("_")[2] in ("global", "shared", "register"):
                plain += "_table"  # what ends so is a place of a tile
            others = [other[1] for other in self.shared if other[0] is table]
            words = [word for word in words if not all(word in other for other in others)]
            plain = "_".join([plain, *words])
            self.tables[key][2] = name = self.new_name(plain)
        return name

    def new_name(self, plain):
        name, count = plain, 1
        while name in self.names or name.lower() in FREE:
            count += 1
            name = f"{plain}_{count}"
        self.names.add(name)
        return name

    def conditions_of(self, x, places, found):
        for axis, (index, place) in enumerate(zip(x.args, places)):
            if place or index.op == "element":
                continue
            conditions = _ranges.inside(index, f"{{axis{axis}}}")
            if conditions is None:
                raise FunctionError(f"nothing bounds the index of axis {axis} of '{x.value.name}'; np.clip(index, 0, n - 1) does, "
                              "and so does an element of a table alone", x)
            for text in conditions:
                if not any(letter.isalpha() for letter in text):
                    raise FunctionError(f"the index of axis {axis} of '{x.value.name}' may lie before its first element", x)
                found[text] = True

    # --- statements ---

    def say(self, text):
        if len(self.statements) >= STATEMENTS_MOST:
            raise FunctionError(f"the score takes more than {STATEMENTS_MOST} statements")
        self.statements.append(text)

    def score(self, root, start):
        """Statements that make of S what the function gives; the name of the tile that it is in."""
        if not depends_on(root, start, {}):
            raise FunctionError("what the function gives does not depend on its score", root)
        self.uses = {}
        count_uses(root, self.uses, set())
        self.uses[id(root)] = 1
        self.tiles[id(start)] = "S"
        self.is_used_once = self.uses.get(id(start)) == 1
        for x in in_order(root):
            if id(x) not in self.tiles and not self.is_in_scale(x, start):
                self.statement(x)
        return self.tiles[id(root)]

    def is_in_scale(self, x, start):
        """Whether x is the score by what is no tile, and nothing else uses the score: the scale has it in it, then."""
        is_number = x.op in ("*", "/") and is_constant(x.args[1])
        is_chosen = x.op == "*" and x.args[1].op == "select" and not x.args[1].is_tile
        if not (is_number or is_chosen) or x.args[0] is not start or not self.is_used_once:
            return False
        self.scale = f"scale{x.op}{self.expression(x.args[1], SIGN)}"
        self.tiles[id(x)] = "S"
        return True

    def drop(self, x):
        """One use of it less; True where it was the last."""
        self.uses[id(x)] -= 1
        return self.uses[id(x)] == 0

    def target(self, x, free):
        """The tile that x is written to: that of an operand that nothing uses after it, or one of its own."""
        name = free[0] if free else self.new_name("T")
        self.tiles[id(x)] = name
        return name

    def statement(self, x):
        if x.op == "select":
            return self.choice(x)
        tiles = [arg for arg in x.args if arg.is_tile]
        operands = [self.expression(arg) for arg in x.args]
        free = [self.tiles[id(arg)] for arg in tiles if self.drop(arg)]
        if not tiles:  # a function of an expression, that tiles alone have
            name = self.target(x, [])
            self.say(f"Compute Fill {operands[0]} and get {name}")
            operands = [name]
        name = self.tiles.get(id(x)) or self.target(x, free)
        operation, operands = self.operation(x, operands)
        self.say(f"Compute {operation} {', '.join(operands)} and get {name}")

    def operation(self, x, operands):
        binary = {"+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide", "min": "Min", "max": "Max"}
        unary = {"abs": "Abs", "exp": "Exp", "exp2": "Exp2", "log": "Log", "log2": "Log2"}
        if x.op == "-x":
            return "Multiply", [operands[0], "-1"]
        if x.op == "/" and is_constant(x.args[1]):
            return "Multiply", [operands[0], f"1.0/{bracketed(operands[1], SIGN if operands[1][0] == '-' else ATOM, ATOM)}"]
        if x.op == "real":
            return "Multiply", [operands[0], "1.0"]
        if x.op in binary:
            if x.op in "+*" and not x.args[0].is_tile:
                operands = operands[::-1]
            return binary[x.op], operands
        if x.op not in unary and not x.op[0].isupper():
            raise FunctionError(f"'{x.op}' of a score is not in a sketch", x)
        return unary.get(x.op, x.op), operands

    def choice(self, x):
        """a where the condition holds, else b, by a Mask of one of the two."""
        condition, a, b = x.args
        keeps_b = is_constant(a, -math.inf) or not a.is_tile and not is_constant(b, -math.inf)
        if a.is_tile and b.is_tile and self.uses[id(a)] > 1 and self.uses[id(b)] == 1:
            keeps_b = True  # a is used after this
        hidden, kept, value = (condition, b, a) if keeps_b else (inverse(condition), a, b)
        if not kept.is_tile:  # the condition alone has a tile
            name = self.new_name("T")
            self.say(f"Compute Fill {self.expression(kept)} and get {name}")
        text = self.expression(hidden)
        given = "" if is_constant(value, -math.inf) else f", {self.expression(value)}"
        for tile in tiles_in(condition):
            self.drop(tile)
        if value.is_tile:
            self.drop(value)
        if kept.is_tile:
            name = self.tiles[id(kept)]
            if not self.drop(kept):
                name = self.new_name("T")
                self.say(f"Compute Add {self.tiles[id(kept)]}, 0 and get {name}")
        self.tiles[id(x)] = name
        self.say(f"Compute Mask {name}{given} where {text}")

    def mask(self, seen, tile, where=""):
        """A Mask for each of the conditions that are to hold together: of linear ones the compiler finds out where loops begin and end.
        'where': it is only there that they need to be asked."""
        if seen.op == "and":
            for x in seen.args:
                self.mask(x, tile, where)
            return
        if is_constant(seen, True):
            return
        if is_constant(seen):
            raise FunctionError("the mask sees nothing", seen)
        text = f"Compute Mask {tile} where {where}{self.expression(inverse(seen), NOT if where else OR)}"
        if text not in self.statements:
            self.say(text)


def has_index(x):
    """Whether an index takes part in it as a term of a sum."""
    if x.op in ("+", "-", "-x", "*"):
        return any(map(has_index, x.args))
    return x.op == "place" or x.op == "element" and bool(x.args)


def tiles_in(x):
    """The tiles that an expression or a condition names, once for each time."""
    if not x.is_tile:
        return []
    return [x] if x.kind != "bool" else [tile for arg in x.args for tile in tiles_in(arg)]


def parts(x):
    """What has to be made before x: of conditions, the tiles in them."""
    return [tile for arg in x.args for tile in tiles_in(arg)]


def count_uses(x, uses, seen):
    if id(x) in seen:
        return
    seen.add(id(x))
    for part in parts(x):
        uses[id(part)] = uses.get(id(part), 0) + 1
        count_uses(part, uses, seen)


def in_order(x):
    """All tiles that x is made of, each after its parts."""
    found, seen = [], set()

    def visit(one):
        if id(one) not in seen:
            seen.add(id(one))
            for part in parts(one):
                visit(part)
            found.append(one)
    visit(x)
    return found


def depends_on(x, start, known):
    if id(x) not in known:
        known[id(x)] = x is start or any(depends_on(arg, start, known) for arg in x.args)
    return known[id(x)]
