#!/usr/bin/env python3
"""The steps of native sparse attention, one by one, and the whole call, with blocks that each query reads alone and that neighbours share.

All contenders take turns in one process, in another order each round; the figure is the median over the rounds. Before timing, attention
to chosen blocks is judged against fp64 in some rows, its shared forms also against its own in all, and the whole call against the sum
of its parts. Neighbouring queries are alike by as much as --alike says, which decides how many blocks a union has: the table says so.

    bench/sparse.py                                        batch 4, 64 and 4 heads, d 128, 4k and 16k tokens: about a minute
    bench/sparse.py --lengths 4096 --alike 0               queries that have nothing to do with one another
    bench/sparse.py --plan                                 what is counted of it, and predicted: no GPU is needed

Needs a GPU and PyTorch, but for --plan.
"""
import argparse
import ctypes
import json
import math
import statistics

BLOCK, SPAN, ROUNDS, LAUNCHES, ROWS = 64, 16, 7, 5, 64
BOUND = 2e-3  # relative rms against fp64
QUADS = (4, 8)
GATES = "gate_mean", "gate_chosen", "gate_near"
L2_BYTES_A_SECOND, PRODUCTS_A_SECOND = 5.5e12, {False: 350e12, True: 600e12}  # of an H200; products by warps, and by warpgroups


def counts(batch, heads, kv_heads, d, length, top, quad, blocks):
    """Bytes past the level-2 cache and operations of attention to chosen blocks: 'blocks' are those of a tile of 'quad' queries."""
    tiles = batch * kv_heads * -(-length // quad)
    rows = max(16, quad * heads // kv_heads)  # a warp multiplies 16
    read, operations = tiles * blocks * BLOCK * d * 2 * 2, tiles * rows * blocks * BLOCK * d * 2 * 2
    return {"quad": quad, "blocks": blocks, "gb": read / 1e9, "tflop": operations / 1e12,
            "predicted_ms": 1e3 * max(read / L2_BYTES_A_SECOND, operations / PRODUCTS_A_SECOND[quad > 1])}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", default="64:4", help="of queries and keys")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--lengths", default="4096,16384")
    parser.add_argument("--top", type=int, default=16)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--alike", type=float, default=0.9, help="of a query's square, what 64 neighbours have in common")
    parser.add_argument("--json", help="a line for each length is added to this file")
    parser.add_argument("--library", help="libflashtl.so")
    parser.add_argument("--plan", action="store_true", help="prints the counts, as JSON lines")
    return parser.parse_args()


def inputs(torch, a, length):
    """Queries, keys, values and gates by the names that sketches/nsa.tl has for them, (batch, heads, length, d)."""
    q_heads, kv_heads = (int(word) for word in a.heads.split(":"))
    blocks, generator = -(-length // BLOCK), torch.Generator(device="cuda").manual_seed(1)
    normal = lambda *shape: torch.randn(shape, device="cuda", generator=generator)
    each = lambda x: x.repeat_interleave(BLOCK, 2)[:, :, :length]
    common, own = each(normal(a.batch, q_heads, blocks, a.dim)), normal(a.batch, q_heads, length, a.dim)
    # Blocks differ, so that some are worth choosing.
    keys = each(normal(a.batch, kv_heads, blocks, a.dim)) + normal(a.batch, kv_heads, length, a.dim)
    found = {"Q": (a.alike ** 0.5 * common + (1 - a.alike) ** 0.5 * own).half(), "K": keys.half(),
             "V": normal(a.batch, kv_heads, length, a.dim).half()}
    for name in GATES:
        found[name] = torch.rand((a.batch, q_heads, length), device="cuda", generator=generator)
    return found


class Problem:
    """Tensors of one length, and each step as a function that launches it."""

    def __init__(self, torch, library, c, arguments, length, tensors):
        self.torch, self.library, self.c, self.a, self.length = torch, library, c, arguments, length
        self.q_heads, self.kv_heads = (int(word) for word in arguments.heads.split(":"))
        self.group, self.blocks = self.q_heads // self.kv_heads, -(-length // BLOCK)
        self.tensors, self.scale, self.steps = tensors, arguments.dim ** -0.5, {}

    def room(self, name, *shape, dtype=None):
        torch = self.torch
        if name not in self.tensors:
            self.tensors[name] = torch.zeros(shape, device="cuda", dtype=dtype or torch.float16)
        return self.tensors[name]

    def step(self, label, operator, settings, given, numbers=("first", "scale"), pins=("d", "dv"), **names):
        """'names': what the sketch calls a tensor that has another name here."""
        torch, library = self.torch, self.library
        text = library.sketch(operator, settings)
        module = library.build(text, None, torch.float16, [(pin, self.a.dim) for pin in pins])
        values = {"first": 0, "scale": self.scale, "kv_len": self.length}
        tensors = {names.get(name, name): self.tensors[name] for name in given}
        self.steps[label] = library.launcher(module, {name: (x, tuple(range(x.dim()))) for name, x in tensors.items()},
                                             {name: values[name] for name in numbers})
        self.steps[label]()

    def make(self):
        torch, a = self.torch, self.a
        b, h, n, q, d, f32, i32 = a.batch, self.kv_heads, self.blocks, self.length, a.dim, torch.float32, torch.int32
        group, top = f"group={self.group}", f"top={a.top}"
        self.room("K_mean", b, h, n, d), self.room("V_mean", b, h, n, d)
        self.room("lse", b, self.q_heads, q, dtype=f32), self.room("chosen", b, h, q, a.top, dtype=i32)
        score = self.room("score_memory", b, h, -(-q // SPAN) * SPAN, -(-n // 4) * 4, dtype=f32)  # rows of whole 16 bytes
        self.tensors["score_room"], self.tensors["score"] = score[:, :, :, :n], score[:, :, :q, :n]
        for name in ("O_mean", "O_chosen", "O_near", "O"):
            self.room(name, b, self.q_heads, q, d)
        self.step("compress K", "nsa_compress", [], ["K", "K_mean"], (), ["d"])
        self.step("compress V", "nsa_compress", [], ["V", "V_mean"], (), ["d"], V="K", V_mean="K_mean")
        self.step("compressed", "nsa_compressed", [], ["Q", "K_mean", "V_mean", "O_mean", "lse"])
        self.step("scores", "nsa_scores", [group], ["Q", "K_mean", "lse", "score_room"], pins=["d"], score_room="score")
        self.step("choose", "nsa_choose", [top], ["score", "chosen"], ["first"], ())
        self.step("selected, own", "nsa_selected", [group, top], ["Q", "K", "V", "chosen", "O_chosen"])
        for quad in QUADS:
            tiles, most = -(-q // quad), quad * a.top
            lists = [f"list_{quad}", f"seen_{quad}", f"count_{quad}"]
            plain = {name: name.partition("_")[0] for name in lists}
            self.room(lists[0], b, h, tiles, most, dtype=i32), self.room(lists[1], b, h, quad, tiles, most, dtype=i32)
            self.room(lists[2], b, h, tiles, dtype=i32), self.room(f"O_chosen_{quad}", b, self.q_heads, tiles * quad, d)
            self.step(f"union of {quad}", "nsa_union", [top, f"quad={quad}"], ["chosen", *lists], ["first", "kv_len"], (), **plain)
            self.step(f"selected, shared by {quad}", "nsa_selected", ["shared", group, top, f"quad={quad}"],
                      ["Q", "K", "V", *lists, f"O_chosen_{quad}"], ["scale"], **plain, **{f"O_chosen_{quad}": "O_chosen"})
        self.step("near", "attention", ["causal", f"window={a.window}"], ["Q", "K", "V", "O_near"], ["scale"], O_near="O")
        self.step("gates", "nsa_gate", [], ["O_mean", "O_chosen", "O_near", *GATES, "O"], (), ["dv"])
        for quad in (1, *QUADS):
            self.whole(quad)

    def tensor(self, name):
        x = self.tensors[name]
        batch, head, length = x.stride()[:3]
        return self.c.ftl_attention_tensor(x.data_ptr(), batch, length, head)

    def whole(self, quad):
        torch, lib, c = self.torch, self.library, self.c
        out = self.room(f"whole_{quad}", *self.tensors["O"].shape)
        made = c.ftl_nsa(struct_bytes=ctypes.sizeof(c.ftl_nsa), dtype=c.TYPES["f16"], batch=self.a.batch, q_len=self.length,
                         kv_len=self.length, q_heads=self.q_heads, kv_heads=self.kv_heads, head_dim=self.a.dim, top=self.a.top,
                         window=self.a.window, quad=quad, q=self.tensor("Q"), k=self.tensor("K"), v=self.tensor("V"),
                         o=self.tensor(f"whole_{quad}"))
        for gate in GATES:
            setattr(made, gate, self.tensor(gate))
        size = ctypes.c_size_t()
        lib.must(lib.c.ftl_nsa_workspace(lib.context, ctypes.byref(made), ctypes.byref(size)))
        workspace = self.room("workspace", size.value, dtype=torch.uint8)
        if workspace.numel() < size.value:
            workspace = self.tensors["workspace"] = torch.empty(size.value, device="cuda", dtype=torch.uint8)
        made.workspace, made.workspace_bytes = workspace.data_ptr(), size.value

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            lib.must(lib.c.ftl_nsa_attention(lib.context, lib.runtime, ctypes.byref(made), stream))
        launch.keeps = workspace, out
        self.steps["all, own" if quad == 1 else f"all, shared by {quad}"] = launch
        launch()

    def errors(self):
        """Relative rms: the selected branch in some rows against fp64, everything else against what it must equal."""
        torch, t, found = self.torch, self.tensors, {}
        torch.cuda.synchronize()
        off = lambda x, right: float((x.double() - right.double()).norm() / right.double().norm())
        generator = torch.Generator().manual_seed(2)
        rows = [tuple(int(torch.randint(n, (), generator=generator)) for n in (self.a.batch, self.kv_heads, self.length)) for _ in range(ROWS)]
        wanted, got = [], []
        for b, h, i in rows:
            keys = (t["chosen"][b, h, i].long()[:, None] * BLOCK + torch.arange(BLOCK, device="cuda")).flatten()
            keys = keys[(keys >= 0) & (keys <= i)]
            heads = slice(h * self.group, (h + 1) * self.group)
            score = t["Q"][b, heads, i].double() @ t["K"][b, h, keys].double().T * self.scale
            wanted.append(torch.softmax(score, -1) @ t["V"][b, h, keys].double())
            got.append(t["O_chosen"][b, heads, i])
        found["selected, own, fp64"] = off(torch.stack(got), torch.stack(wanted))
        for quad in QUADS:
            found[f"selected, shared by {quad}, own"] = off(t[f"O_chosen_{quad}"][:, :, :self.length], t["O_chosen"])
        for quad in (1, *QUADS):
            found[f"all by {quad}, parts"] = off(t[f"whole_{quad}"], t["O"])
        return found

    def time(self):
        """{label: ms}, the median over rounds in turns."""
        torch, labels, samples = self.torch, list(self.steps), {label: [] for label in self.steps}
        for turn in range(ROUNDS):
            for label in labels[turn % len(labels):] + labels[:turn % len(labels)]:
                launch = self.steps[label]
                launch()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(LAUNCHES):
                    launch()
                end.record()
                torch.cuda.synchronize()
                samples[label].append(begin.elapsed_time(end) / LAUNCHES)
        return {label: statistics.median(times) for label, times in samples.items()}


def main():
    a = read_arguments()
    q_heads, kv_heads = (int(word) for word in a.heads.split(":"))
    lengths = [int(word) for word in a.lengths.split(",")]
    if a.plan:
        for length in lengths:
            for quad, blocks in ((1, a.top), (4, 22), (8, 28)):
                print(json.dumps({"length": length, **counts(a.batch, q_heads, kv_heads, a.dim, length, a.top, quad, blocks)}))
        return
    import torch

    import calls
    import ours
    library, c = ours.Library(a.library), calls.structs()
    library.c.ftl_runtime_close(library.runtime)  # its kernels are judged here
    options = c.ftl_runtime_options(struct_bytes=ctypes.sizeof(c.ftl_runtime_options), is_unverified=True)
    library.must(library.c.ftl_runtime_open(library.context, ctypes.byref(options), ctypes.byref(library.runtime)))
    for length in lengths:
        p = Problem(torch, library, c, a, length, inputs(torch, a, length))
        p.make()
        errors = p.errors()
        wrong = {what: error for what, error in errors.items() if not error <= BOUND or math.isnan(error)}
        if wrong:
            raise SystemExit(f"wrong: relative rms {wrong}")
        times = p.time()
        united = {quad: float(p.tensors[f"count_{quad}"].float().mean()) for quad in QUADS}
        line = {"card": torch.cuda.get_device_name(), "length": length, "ms": times, "blocks": united, "errors": errors,
                "counts": [counts(a.batch, q_heads, kv_heads, a.dim, length, a.top, quad, n) for quad, n in ((1, a.top), *united.items())]}
        print(f"\n{line['card']}, {length} tokens: unions of {', '.join(f'{n:.1f} blocks ({quad})' for quad, n in united.items())}")
        for label, ms in times.items():
            print(f"| {label} | {ms:.3f} |")
        if a.json:
            with open(a.json, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        del p
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
