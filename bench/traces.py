"""What bench/serving.py times: batches of sequences whose keys lie in pages, and the bytes that have to be read for each. No GPU, no
PyTorch is needed here.
"""
import dataclasses
import itertools
import math
import random

LENGTHS = ("equal", "uniform", "zipf", "one-long")


def lengths_of(kind, batch, longest, seed=1):
    """Keys of each sequence, 'longest' at most and of at least one sequence: all alike; drawn evenly; as 1/n of the n-th sequence;
    one long one among others of a 64th.
    """
    if kind not in LENGTHS:
        raise ValueError(f"'{kind}' is no trace: {', '.join(LENGTHS)}")
    if batch < 1 or longest < 1:
        raise ValueError("a trace has sequences, and keys: at least one of each")
    draw = random.Random(f"{kind} {batch} {longest} {seed}")
    if kind == "equal":
        return [longest] * batch
    if kind == "uniform":
        found = [longest] + [draw.randint(1, longest) for _ in range(batch - 1)]
    elif kind == "zipf":
        found = [max(1, longest // n) for n in range(1, batch + 1)]
    else:
        found = [longest] + [max(1, longest // 64)] * (batch - 1)
    draw.shuffle(found)
    return found


@dataclasses.dataclass(frozen=True)
class Trace:
    suite: str
    kind: str  # one of LENGTHS
    batch: int
    longest: int
    page_len: int
    q_heads: int
    kv_heads: int
    d: int
    dv: int
    q_len: int = 1
    dtype: str = "f16"
    seed: int = 1

    @property
    def is_latent(self):
        """Values are a part of the keys, which all heads share."""
        return self.dv < self.d and self.kv_heads == 1

    @property
    def lengths(self):
        return lengths_of(self.kind, self.batch, self.longest, self.seed)

    @property
    def pages(self):
        """Of each sequence."""
        return [math.ceil(n / self.page_len) for n in self.lengths]

    @property
    def columns(self):
        return max(self.pages)

    @property
    def row(self):
        size = f"{self.d}/{self.dv}" if self.d != self.dv else str(self.d)
        return f"{self.q_heads}/{self.kv_heads} heads, d {size}" + (f", {self.q_len} queries" if self.q_len > 1 else "")

    def table(self):
        """The pages of each sequence, no two alike, in no order; and how many there are."""
        count = sum(self.pages)
        order = list(range(count))
        random.Random(self.seed).shuffle(order)
        rows, at = [], 0
        for pages in self.pages:
            rows.append(order[at:at + pages])
            at += pages
        return rows, count

    def key_bytes(self):
        """Keys and values, each read once: what every figure in bytes per second here counts."""
        return 2 * sum(self.lengths) * self.kv_heads * (self.d if self.is_latent else self.d + self.dv)

    def flops(self):
        """Of the products, all queries seeing all keys."""
        return 2 * self.q_len * self.q_heads * sum(self.lengths) * (self.d + self.dv)

    def plan(self):
        """What a run is to do, as data."""
        return {**dataclasses.asdict(self), "keys": sum(self.lengths), "shortest": min(self.lengths), "pages": sum(self.pages),
                "table_columns": self.columns, "key_bytes": self.key_bytes(), "flops": self.flops()}


HEADS = ((32, 8), (64, 8))
# (batch, keys): decoding as engines meet it, from one long sequence to many short ones.
CELLS = ((1, 1024), (1, 8192), (1, 131072), (8, 8192), (64, 4096), (256, 1024))


def suite(name, dtype="f16"):
    """The traces of a suite."""
    if name == "decode":
        for (q, kv), (batch, keys), page in itertools.product(HEADS, CELLS, (16, 64)):
            yield Trace(name, "equal", batch, keys, page, q, kv, 128, 128, dtype=dtype)
    elif name == "ragged":
        for kind, (batch, keys), page in itertools.product(LENGTHS[1:], ((8, 32768), (64, 32768), (256, 8192)), (16, 64)):
            yield Trace(name, kind, batch, keys, page, 32, 8, 128, 128, dtype=dtype)
    elif name == "batch":
        for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            yield Trace(name, "equal", batch, 4096, 16, 32, 8, 128, 128, dtype=dtype)
    elif name == "mla":
        for heads, (batch, keys) in itertools.product((16, 128), ((1, 8192), (64, 4096), (64, 16384))):
            yield Trace(name, "equal", batch, keys, 64, heads, 1, 576, 512, dtype=dtype)
    elif name == "guessed":
        for q_len in (2, 4, 8):
            yield Trace(name, "zipf", 64, 16384, 16, 32, 8, 128, 128, q_len, dtype=dtype)
    else:
        raise ValueError(f"'{name}' is no suite: {', '.join(SUITES)}")


SUITES = ("decode", "ragged", "batch", "mla", "guessed")


# --- results ----------------------------------------------------------------------------------------------------------

PEERS = ("ours", "cudnn", "fa2", "flex")
COLUMNS = ("trace", "batch", "keys", "page", "MB", "us", "GB/s", "of the read rate", *PEERS[1:], "x best")


def cells_of(result, read_rate):
    """A row of the table; a dash where there is no figure."""
    trace, times = result["plan"], {name: one.get("us") for name, one in result["times"].items()}
    ours = times.get("ours")
    rate = trace["key_bytes"] / ours / 1e3 if ours else None
    others = [times[name] for name in PEERS[1:] if times.get(name)]
    show = lambda value, form: "–" if value is None else form.format(value)
    return [trace["kind"], str(trace["batch"]), f"{trace['shortest']}…{trace['longest']}", str(trace["page_len"]),
            f"{trace['key_bytes'] / 1e6:.1f}", show(ours, "{:.1f}") if ours else result["times"]["ours"].get("why", "–"),
            show(rate, "{:.0f}"), show(rate and rate / read_rate, "{:.2f}"),
            *(show(times.get(name), "{:.1f}") for name in PEERS[1:]),
            show(min(others) / ours if others and ours else None, "{:.2f}")]


def table(results, read_rate):
    """Markdown: a table for each suite and shape of heads, and what a suite comes to."""
    lines = []
    for key, group in itertools.groupby(results, key=lambda r: (r["plan"]["suite"], r["row"])):
        rows = [cells_of(result, read_rate) for result in group]
        lines += ["", f"**{key[0]}: {key[1]}**", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        ratios = [float(row[-1]) for row in rows if row[-1] != "–"]
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
            lines += ["", f"Against the best of the others: geometric mean {mean:.2f}, least {min(ratios):.2f}, of {len(ratios)} traces."]
    return "\n".join(lines[1:]) + "\n"
