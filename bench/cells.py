"""What is compared: suites of cells, the bars that our kernels must reach on them, and the figures
of peers that were measured once and are not run again (peers_h200.csv). No GPU is needed here.
"""
import csv
import dataclasses
import itertools
import pathlib

TOKENS, HIDDEN = 16384, 2048
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]


@dataclasses.dataclass(frozen=True)
class Cell:
    suite: str
    name: str  # "mha", "qwen2.5-72b"
    q_heads: int
    kv_heads: int
    d: int
    dv: int
    dtype: str
    mask: str  # "causal", "full"
    length: int

    @property
    def batch(self):
        return max(1, TOKENS // self.length)

    @property
    def row(self):
        dims = str(self.d) if self.d == self.dv else f"{self.d}/{self.dv}"
        return f"{self.q_heads}/{self.kv_heads} heads, d {dims}, {self.mask}, {self.dtype}"

    def flops(self):
        pairs = self.length ** 2 / (2 if self.mask == "causal" else 1)
        return 2 * self.batch * self.q_heads * pairs * (self.d + self.dv)


def paper(dtype="f16", heads=("mha", "gqa", "mqa"), dims=(64, 128)):
    for name, d, mask in itertools.product(heads, dims, ("causal", "full")):
        q = HIDDEN // d
        yield name, q, {"mha": q, "gqa": q // 4, "mqa": 1}[name], d, d, dtype, mask


# Rows of (name, q heads, kv heads, d, dv, type, mask); each is run at every length.
SUITES = {
    "paper": list(paper()),
    "paper-bf16": list(paper("bf16")),
    "llm": [("llama2-7b", 32, 32, 128, 128, "f16", "causal"),
            ("qwen2.5-72b", 64, 8, 128, 128, "f16", "causal"),
            ("llama3.1-405b", 128, 8, 128, 128, "f16", "causal")],
    "mla": [("mla", 16, 16, 192, 128, "bf16", mask) for mask in ("causal", "full")],
    "wide": [("mha", heads, heads, d, d, "f16", mask)
             for d, heads in ((256, 8), (96, 16)) for mask in ("causal", "full")],
    # Head dimensions beside the usual ones; the first two are no multiples of 16.
    "heads": [("mha", 16, 16, d, d, "f16", mask)
              for d in (40, 72, 80, 112, 160) for mask in ("causal", "full")],
    # Scores that rise by more than a 16-bit sum can hold with every block of keys: the slow way of a
    # softmax whose maximum moves only when it must.
    "worst": [("mha", HIDDEN // d, HIDDEN // d, d, d, "f16", mask)
              for d in (64, 128) for mask in ("causal", "full")],
    # Kernels reasoned for an A100, against the others of that class of instructions.
    "ampere": list(paper(heads=("mha",))),
}

# suite: what ours is divided by, and the least geometric mean and cell (None: no bar).
BARS = {
    "paper": ("best", 1.15, 1.00),
    "paper-bf16": ("best", 1.12, 1.00),
    "llm": ("best", 1.08, 1.00),
    "mla": ("best", 1.05, 1.00),
    "wide": ("best", None, 1.00),
    "heads": ("best", None, 1.00),
    "worst": ("ours on N(0,1)", None, 0.60),
    "ampere": ("fa2", 1.28, 1.10),
}


def cells(suite, lengths=None, masks=None, dims=None, names=None, dtype=None):
    """The cells of a suite, filtered; 'dtype' replaces the suite's own."""
    for name, q, kv, d, dv, own, mask in SUITES[suite]:
        if (masks and mask not in masks) or (dims and d not in dims) or (names and name not in names):
            continue
        for length in lengths or LENGTHS:
            yield Cell(suite, name, q, kv, d, dv, dtype or own, mask, length)


class Stored:
    """Ratios to cuDNN of peers that were measured once, side by side with it: FlashAttention-3 is not
    installed everywhere. A cell without a row of its own takes that of multi-head attention with the
    same d, mask and length.
    """

    def __init__(self, path=pathlib.Path(__file__).with_name("peers_h200.csv")):
        self.exact, self.by_shape = {}, {}
        with open(path) as lines:
            rows = csv.DictReader(line for line in lines if not line.startswith("#"))
            for row in rows:
                figures = {k: float(v) for k, v in row.items()
                           if k in ("cudnn", "fa3", "fa2", "flex") and v}
                shape = (int(row["d"]), int(row["dv"]), row["mask"], int(row["length"]))
                heads = (int(row["q_heads"]), int(row["kv_heads"]))
                self.exact[heads + shape] = figures
                if row["name"] in ("mha", "mla"):
                    self.by_shape[shape] = figures

    def ratio(self, peer, cell):
        """That peer's TFLOPS over cuDNN's; None when they are not known."""
        shape = (cell.d, cell.dv, cell.mask, cell.length)
        figures = self.exact.get((cell.q_heads, cell.kv_heads) + shape) or self.by_shape.get(shape)
        if not figures or peer not in figures or "cudnn" not in figures:
            return None
        return figures[peer] / figures["cudnn"]
