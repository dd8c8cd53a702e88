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
    scores: str = "normal"  # how its scores are distributed: a kind of SCORES, "peaked:8"
    softcap: float = 0  # scores become softcap * tanh(score / softcap); 0: they stay

    @property
    def batch(self):
        return max(1, TOKENS // self.length)

    @property
    def row(self):
        dims = str(self.d) if self.d == self.dv else f"{self.d}/{self.dv}"
        drawn = f", softcap {self.softcap:g}" if self.softcap else ""
        drawn += "" if self.scores == "normal" else f", {self.scores}"
        return f"{self.q_heads}/{self.kv_heads} heads, d {dims}, {self.mask}, {self.dtype}{drawn}"

    def flops(self):
        pairs = self.length ** 2 / (2 if self.mask == "causal" else 1)
        return 2 * self.batch * self.q_heads * pairs * (self.d + self.dv)


# How scores (scale times query times key) are drawn, and the number that a kind has unless it is
# given, as in "peaked:8": N(0,1); normal with that standard deviation; N(0,1) and that much more with
# each key; N(0,1) and one key, the first, that is that far above in every row. The same as
# src/bench/scores.def.
SCORES = {"normal": None, "peaked": 4.0, "rising": 0.05, "sink": 12.0}


def read_scores(text):
    """A kind of SCORES and its number; ValueError: it is none."""
    kind, colon, number = text.partition(":")
    if kind not in SCORES or (colon and (SCORES[kind] is None or not number)):
        raise ValueError(f"'{text}' is no distribution of scores: " + ", ".join(
            kind if usual is None else f"{kind}[:NUMBER]" for kind, usual in SCORES.items()))
    value = float(number) if number else SCORES[kind]
    if value is not None and not 0 < value < 1000:
        raise ValueError(f"the number of '{text}' is above 0 and below 1000")
    return kind, value


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
    # What trained models have: peaked rows, rows whose scores grow along the keys, one key far above.
    "real": [("mha", HIDDEN // d, HIDDEN // d, d, d, dtype, mask)
             for dtype in ("f16", "bf16") for d in (64, 128) for mask in ("causal", "full")] +
            [("mla", 16, 16, 192, 128, "bf16", mask) for mask in ("causal", "full")],
    # Scores that rise by more than a 16-bit sum can hold with every block of keys: the slow way of a
    # softmax whose maximum moves only when it must.
    "worst": [("mha", HIDDEN // d, HIDDEN // d, d, d, "f16", mask)
              for d in (64, 128) for mask in ("causal", "full")],
    # Scores that end at a cap: tanh and exp2 for each.
    "softcap": [("mha", HIDDEN // d, HIDDEN // d, d, d, "f16", mask)
                for d in (64, 128, 256) for mask in ("causal", "full")],
    # Kernels reasoned for an A100, against the others of that class of instructions.
    "ampere": list(paper(heads=("mha",))),
}

# What a suite draws and how long its sequences are, where that is not N(0,1) and LENGTHS.
SUITE_SCORES = {"worst": ["rising:0.5"],
                "real": ["normal", "peaked:2", "peaked:4", "peaked:8", "rising:0.01",
                         "rising", "sink"]}
SUITE_LENGTHS = {"real": [2048, 8192], "softcap": LENGTHS[1:]}
SUITE_SOFTCAP = {"softcap": 30.0}

# suite: what ours is divided by, and the least geometric mean and cell (None: no bar).
BARS = {
    "paper": ("best", 1.15, 1.00),
    "paper-bf16": ("best", 1.12, 1.00),
    "llm": ("best", 1.08, 1.00),
    "mla": ("best", 1.05, 1.00),
    "wide": ("best", None, 1.00),
    "heads": ("best", None, 1.00),
    "real": ("best", 1.08, 0.97),
    "worst": ("ours on N(0,1)", None, 0.60),
    "softcap": ("best", None, 1.00),
    "ampere": ("fa2", 1.28, 1.10),
}


def cells(suite, lengths=None, masks=None, dims=None, names=None, dtype=None, scores=None):
    """The cells of a suite, filtered; 'dtype' and 'scores' replace the suite's own."""
    for name, q, kv, d, dv, own, mask in SUITES[suite]:
        if (masks and mask not in masks) or (dims and d not in dims) or (names and name not in names):
            continue
        for length in lengths or SUITE_LENGTHS.get(suite, LENGTHS):
            for drawn in scores or SUITE_SCORES.get(suite, ["normal"]):
                yield Cell(suite, name, q, kv, d, dv, dtype or own, mask, length, drawn,
                           SUITE_SOFTCAP.get(suite, 0))


class Stored:
    """Ratios to cuDNN, or with a softcap to FlexAttention, of peers that were measured once, side by side
    with it: FlashAttention-3 is not installed everywhere. A cell without a row of its own takes that of multi-head attention with the
    same d, mask and length, of another type, of N(0,1), in this order: peers gain alike where scores
    are peaked.
    """

    def __init__(self, path=pathlib.Path(__file__).with_name("peers_h200.csv")):
        self.rows = {}
        with open(path) as lines:
            for row in csv.DictReader(line for line in lines if not line.startswith("#")):
                figures = {k: float(v) for k, v in row.items()
                           if k in ("cudnn", "fa3", "fa2", "flex") and v}
                shape = (int(row["d"]), int(row["dv"]), row["mask"], int(row["length"]))
                heads = (int(row["q_heads"]), int(row["kv_heads"]))
                drawn = (*read_scores(row["scores"]), float(row["softcap"] or 0))
                whose = [heads, None] if row["name"] in ("mha", "mla") else [heads]
                for owner in whose:
                    for dtype in (row["dtype"], None):
                        self.rows.setdefault((owner, shape, dtype, drawn), figures)

    def ratio(self, peer, cell):
        """That peer's TFLOPS over those of base(cell); None when they are not known."""
        shape = (cell.d, cell.dv, cell.mask, cell.length)
        heads, base = (cell.q_heads, cell.kv_heads), self.base(cell)
        drawn = [(*read_scores(scores), cell.softcap) for scores in (cell.scores, "normal")]
        for key in itertools.product(drawn, (cell.dtype, None), (heads, None)):
            figures = self.rows.get((key[2], shape, key[1], key[0]))
            if figures and peer in figures and base in figures:
                return figures[peer] / figures[base]
        return None

    @staticmethod
    def base(cell):
        """The peer that others' stored figures are ratios of; PyTorch's cuDNN has no softcap."""
        return "flex" if cell.softcap else "cudnn"
