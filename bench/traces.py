"""What bench/serving.py times: batches of sequences whose keys lie in pages, or one after the other, and the bytes that have to be read
and the operations that have to be done for each. No GPU, no PyTorch is needed here.
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


def longest_of(kind, batch, total, seed=1):
    """Keys of the longest sequence of a batch that has 'total' keys at most, and hardly fewer."""
    low, high = 1, total
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(lengths_of(kind, batch, middle, seed)) <= total else (low, middle - 1)
    return low


@dataclasses.dataclass(frozen=True)
class Trace:
    suite: str
    kind: str  # one of LENGTHS
    batch: int
    longest: int
    page_len: int  # 0: keys lie one after the other
    q_heads: int
    kv_heads: int
    d: int
    dv: int
    q_len: int = 1  # 0: whole prompts, as many queries as keys
    dtype: str = "f16"
    seed: int = 1

    @property
    def is_latent(self):
        """Values are a part of the keys, which all heads share."""
        return self.dv < self.d and self.kv_heads == 1

    @property
    def is_prompts(self):
        return self.q_len == 0

    @property
    def lengths(self):
        return lengths_of(self.kind, self.batch, self.longest, self.seed)

    @property
    def pages(self):
        """Of each sequence."""
        return [math.ceil(n / self.page_len) if self.page_len else 0 for n in self.lengths]

    @property
    def columns(self):
        return max(self.pages)

    @property
    def row(self):
        size = f"{self.d}/{self.dv}" if self.d != self.dv else str(self.d)
        queries = ", prompts" if self.is_prompts else f", {self.q_len} queries" if self.q_len > 1 else ""
        return f"{self.q_heads}/{self.kv_heads} heads, d {size}{queries}"

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
        """Of the products: all queries see all keys, those of prompts the keys up to their own."""
        seen = sum(n * (n + 1) // 2 for n in self.lengths) if self.is_prompts else self.q_len * sum(self.lengths)
        return 2 * self.q_heads * seen * (self.d + self.dv)

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
    elif name == "prefill":
        zipf = longest_of("zipf", PROMPTS, PROMPT_TOKENS)
        for kind, batch, longest, page in (("zipf", PROMPTS, zipf, 0), ("zipf", PROMPTS, zipf, 64), ("zipf", PROMPTS, zipf, 128),
                                           ("equal", 16, PROMPT_TOKENS // 16, 0), ("equal", 16, PROMPT_TOKENS // 16, 64)):
            yield Trace(name, kind, batch, longest, page, 32, 8, 128, 128, 0, dtype=dtype)
    else:
        raise ValueError(f"'{name}' is no suite: {', '.join(SUITES)}")


SUITES = ("decode", "ragged", "batch", "mla", "guessed", "prefill")
PROMPTS, PROMPT_TOKENS = 32, 65536


# --- results ----------------------------------------------------------------------------------------------------------

OTHERS = ("cudnn", "fa2", "flex")
COLUMNS = ("trace", "batch", "keys", "page", "MB", "us", "GB/s", "of the read rate", "TFLOPS", "untold", *OTHERS, "x best")


def cells_of(result, read_rate):
    """A row of the table; a dash where there is no figure."""
    trace, times = result["plan"], {name: one.get("us") for name, one in result["times"].items()}
    ours = times.get("ours")
    rate = trace["key_bytes"] / ours / 1e3 if ours else None
    others = [times[name] for name in OTHERS if times.get(name)]
    show = lambda value, form: "–" if value is None else form.format(value)
    return [trace["kind"], str(trace["batch"]), f"{trace['shortest']}…{trace['longest']}", str(trace["page_len"] or "–"),
            f"{trace['key_bytes'] / 1e6:.1f}", show(ours, "{:.1f}") if ours else result["times"]["ours"].get("why", "–"),
            show(rate, "{:.0f}"), show(rate and rate / read_rate, "{:.2f}"), show(ours and trace["flops"] / ours / 1e6, "{:.1f}"),
            *(show(times.get(name), "{:.1f}") for name in ("untold", *OTHERS)),
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
