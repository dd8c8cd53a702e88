"""Kernels that list for a mask which blocks of keys each block of queries sees something of, before the kernel that walks the lists.

What a captured table holds is known to kernels alone, and may change from call to call. So they look at it in each call, once for each
block in place of once for each score: of its least and its largest numbers _spans.py says whether a block is empty, or whole."""
from ._spans import Spans, of_what
from ._symbols import Symbol, inverse, is_constant
from ._written import ATOM, OR, PRODUCT, SUM, Text

EXACT = 2 ** 24  # below it f32 has all whole numbers
BESIDE = {"i", "n", "s", "m", "size", "some", "whole", "place", "next_place", "kind", "listed", "full", "block", "tile_rows", "q_blocks", "kv_blocks"}

Q = "Input  Q (b in batch, head in q_heads; q in q_len, d)\n"
K = "Input  K (b in batch, h in kv_heads; kv in kv_len, d)\n"
LENGTHS = "let q_blocks = ceil(q_len/{size}), kv_blocks = ceil(kv_len/{size})\n"
KEY_BOUNDS = """kernel key_bounds                                           // the least and the largest of each block of keys
let size = {size}, BM = 8
{lengths}{inputs}{outputs}{bounds}"""
COUNTS = """kernel listed_counts                                        // how many blocks of keys a block of queries sees
let size = {size}, BM = 16
{lengths}{inputs}{outputs}Output kind f32 ({axes}; i in q_blocks, n in kv_blocks) // 2: a whole block, 1: a part of it, 0: nothing
Output listed i32 ({axes}; i in q_blocks)
Output full i32 ({axes}; i in q_blocks)                     // and so many of them as a whole
{rows}{bounds}for j = 0:kv_blocks/BN
    Compute Fill 2 and get kind
    Compute Mask kind, 1 where {part}
    Compute Mask kind, 0 where {none}
    Copy kind from register to global
    Compute Min kind, 1 and get some
    Compute RowSum some and accumulate listed
    Compute Subtract kind, some and get whole
    Compute RowSum whole and accumulate full
end
Copy listed from register to global
Copy full from register to global
{count_rows}"""
ROWS = "Output tile_rows i32 ({axes}; i in q_blocks)\n"
COUNT_ROWS = """Compute Fill min(q_len - i*{size}, {size}) and get tile_rows
Copy tile_rows from register to global
"""
BLOCKS = """kernel listed_blocks                                        // which they are: whole ones first
let size = {size}, BM = 8, BN = 32
{lengths}{inputs}Input  kind f32 ({axes}, i in q_blocks, n in kv_blocks)
Input  full i32 ({axes}; i in q_blocks)
Output block i32 ({axes}; i in q_blocks, m in kv_blocks)
Compute Fill 0 and get block                                // a list of nothing names the first
Copy full from global to register
Compute Multiply full, 0 and get place
Compute Add full, 0 and get next_place
for n = 0:kv_blocks
    Compute Multiply place, 0 and get some
    Compute Add some, kind[{at}, i, n] and get some
    Compute Mask block, n where some == 2 and m == place
    Compute Mask block, n where some == 1 and m == next_place
    Compute Max some, 1 and get whole
    Compute Subtract whole, 1 and get whole
    Compute Add place, whole and get place
    Compute Min some, 1 and get some
    Compute Subtract some, whole and get some
    Compute Add next_place, some and get next_place
end
Copy block from register to global
"""
# A bound that f32 rounds is none: the number may be anything there.
BOUNDS = """Compute Fill {value} and get {name}
Compute RowMin {name} and get {low}
Compute RowMax {name} and get {high}
Compute Mask {low}, -3e9 where {low} <= -{exact}
Compute Mask {high}, 3e9 where {high} >= {exact}
Compute Min {low}, {exact} and get {low}
Compute Max {high}, -{exact} and get {high}
Compute Mask {name}, {low} where s == 0
Compute Mask {name}, {high} where s == 1
Copy {name} from register to global
"""


class Listing:
    """Of a mask's condition. 'is_found': tables decide which blocks are empty, in a way that is seen here."""

    def __init__(self, seen, size):
        self.size, self.spans = size, Spans()
        self.some, self.whole = self.spans.may_hold(seen), self.spans.surely_holds(seen)
        looked_at = self.spans.looked_at
        self.is_found = any(looked_at.values()) and not is_constant(self.some)
        if not looked_at["q"]:  # the kernel that counts has rows of queries
            self.spans.look_at(Symbol("place", "int", value="q"), "q")
        by_head = "head" in of_what(seen)[2]
        self.at, self.axes = ("b, head", "b in batch, head in q_heads") if by_head else ("b", "b in batch")
        self.taken = BESIDE | {f"{side}_{what}_{number}" for side, found in looked_at.items() for number in range(len(found))
                               for what in ("bounds", "low", "high")}

    def kernels(self, names, is_ragged):
        """Their text; 'names' are those that the tables have as Inputs of the kernel after them."""
        self.names = names
        return (self.key_bounds() if self.spans.looked_at["kv"] else "") + self.counts(is_ragged) + self.blocks()

    def text(self, places):
        text = Text((), places)
        text.names |= self.taken | set(self.names.values())
        text.given = self.names
        return text

    def bounds(self, text, side):
        """(Outputs, statements) of the numbers of a side that are looked at."""
        row, count = ("i", "q_blocks") if side == "q" else ("n", "kv_blocks")
        outputs, found = "", ""
        for number, x in enumerate(self.spans.looked_at[side]):
            name = f"{side}_bounds_{number}"
            outputs += f"Output {name} f32 ({self.axes}; {row} in {count}, s in size)\n"
            found += BOUNDS.format(value=text.expression(x), name=name, low=f"{side}_low_{number}", high=f"{side}_high_{number}", exact=EXACT)
        return outputs, found

    def read(self, side):
        row, count = ("i", "q_blocks") if side == "q" else ("n", "kv_blocks")
        return "".join(f"Input  {side}_bounds_{number} f32 ({self.axes}, {row} in {count}, s in size)\n"
                       for number in range(len(self.spans.looked_at[side])))

    def places(self):
        """What the places of a block are: the bounds of queries are in registers, those of keys in tables."""
        size, found = self.size, {}
        for side, row in (("q", "i"), ("kv", "n")):
            found[f"{side}_begin"], found[f"{side}_end"] = (f"{row}*{size}", PRODUCT), (f"{row}*{size} + {size - 1}", SUM)
            for number in range(len(self.spans.looked_at[side])):
                for column, end in enumerate(("low", "high")):
                    name = f"{side}_{end}_{number}"
                    found[name] = (name if side == "q" else f"kv_bounds_{number}[{self.at}, n, {column}]"), ATOM
        return found

    def tests(self, text):
        end = f"n*{self.size} + {self.size} > kv_len"
        part = "" if is_constant(self.whole, True) else text.expression(inverse(self.whole), OR) + " or "
        return {"none": text.expression(inverse(self.some), OR), "part": part + end}

    def written(self, form, text, inputs, **named):
        from ._flex import inputs_of
        lengths = LENGTHS.format(size=self.size)
        return form.format(size=self.size, axes=self.axes, at=self.at, lengths=lengths, inputs=Q + K + inputs + "".join(inputs_of(text)[0]), **named)

    def key_bounds(self):
        text = self.text({"kv": (f"min(n*{self.size} + s, kv_len - 1)", ATOM)})
        outputs, bounds = self.bounds(text, "kv")
        return self.written(KEY_BOUNDS, text, "", outputs=outputs, bounds=bounds)

    def counts(self, is_ragged):
        text = self.text({"q": (f"min(i*{self.size} + s, q_len - 1)", ATOM), **self.places()})
        outputs, bounds = self.bounds(text, "q")
        rows = {"rows": ROWS.format(axes=self.axes), "count_rows": COUNT_ROWS.format(size=self.size)} if is_ragged else {"rows": "", "count_rows": ""}
        return self.written(COUNTS, text, self.read("kv"), outputs=outputs, bounds=bounds, **rows, **self.tests(text))

    def blocks(self):
        """It names bounds of queries that it does not read: what no kernel names would be the program's Output."""
        return self.written(BLOCKS, self.text({}), self.read("q"))
