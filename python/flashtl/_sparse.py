"""flashtl.sparse_attention: native sparse attention, all of its steps, on arrays of the CPU and on PyTorch's tensors on a GPU."""
import ctypes as c
import sys

from . import _c
from ._arrays import CPU, array_of, check_output, empty, one_device
from ._attention import Matrices, attention, check_heads, check_types, matrix, positive, program_of, renamed
from ._library import call, on_device, runtime, sketch
from ._program import MACHINES

BLOCK, SPAN, QUAD_USUAL, QUAD_MOST = 64, 16, 8, 8
TOPS = range(8, 65, 8)
GATES = "gate_mean", "gate_chosen", "gate_near"


def sparse_attention(q, k, v, gate_mean, gate_chosen, gate_near, *, window=512, top=16, quad=None, scale=None, means=None,
                     mean_blocks=0, out=None, on=None, gpu=None):
    """Native sparse attention: o of (batch, heads, length, d) arrays, q the last queries of k and v.

    There are as many queries as keys, or fewer. A query attends to the means of all whole blocks of 64 keys, to the 'top' blocks that
    its group of heads chooses by them, and to the last 'window' keys, and sees no later key; o is the sum of the three, each times its
    gate, float32 (batch, heads, length). Kernels take 8, 16, ... heads of q for each of k.

    top          8, 16, ... 64: the first block, the query's own, the one before, and the best others
    quad         1 to 8 (8; a single query reads its own): neighbouring queries that share the blocks they read; nothing but speed depends on it
    scale        of the scores; 1/sqrt(d) where none is said
    means        of a cache that grows: a pair of arrays (batch, k's heads, blocks, d), of which the first 'mean_blocks' are there;
                 the others are made in them
    out          an array for o
    on, gpu      on arrays of the CPU: "interpreter", or "emulator" of the GPU that is named, or "gpu"
    """
    call_ = Sparse(q, k, v, dict(zip(GATES, (gate_mean, gate_chosen, gate_near))), means, out, on in (None, "interpreter"))
    call_.choose(window, top, quad, scale, mean_blocks)
    if on not in (None, *MACHINES):
        raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
    if call_.device != CPU and on not in (None, "gpu"):
        raise ValueError(f"on='{on}' takes arrays of the CPU; these are on {call_.device}")
    if call_.q.array.is_empty:
        return call_.out
    if call_.device == CPU:
        call_.on_cpu(on, gpu)
    else:
        call_.on_gpu()
    return call_.out


class Sparse:
    """One call: what is checked of its arguments, and its steps."""

    def __init__(self, q, k, v, gates, means, out, is_meaning):
        self.tensors = q, k, v
        self.q, self.k, self.v = (Matrices(array_of(name, value), "bhld") for name, value in zip("qkv", (q, k, v)))
        self.gates = {name: array_of(name, value) for name, value in gates.items()}
        self.means = None
        if means is not None:
            names = [f"means[{i}]" for i in range(len(means))]
            self.means = [Matrices(array_of(name, value), "bhld") for name, value in zip(names, means)]
        self.inputs = [self.q.array, self.k.array, self.v.array, *self.gates.values()]
        check_types(self.q.array, self.k.array, self.v.array, is_meaning)
        self.check_shapes()
        q, kind = self.q, self.q.array.type
        shape = (q.batch, q.heads, q.length, self.v.d)
        self.out = empty("out", kind, shape, self.inputs) if out is None else out
        self.given = Matrices(array_of("out", self.out), "bhld")
        if self.given.array.shape != shape or self.given.array.type != kind:
            raise ValueError(f"'out' is {kind} of the shape {shape}; found {self.given.array.type} of {self.given.array.shape}")
        written = [self.given.array, *(mean.array for mean in self.means or ())]
        for array in written:
            check_output(array, [*self.inputs, *(other for other in written if other is not array)])
        self.device = one_device([*self.inputs, *written])

    def check_shapes(self):
        q, k, v = self.q, self.k, self.v
        if (k.batch, k.heads, k.length) != (v.batch, v.heads, v.length) or q.batch != k.batch:
            raise ValueError(f"q, k and v have one batch, and k and v as many heads and keys; found {q.array.shape}, {k.array.shape} "
                             f"and {v.array.shape}")
        check_heads(q, k, v)
        if q.length > k.length:
            raise ValueError(f"queries are those of the last keys; found {q.length} queries and {k.length} keys")
        for name, gate in self.gates.items():
            if gate.type != "f32" or gate.shape != (q.batch, q.heads, q.length):
                raise ValueError(f"'{name}' is float32 of the shape {(q.batch, q.heads, q.length)}; found {gate.type} of {gate.shape}")
        if self.means is None:
            return
        if len(self.means) != 2:
            raise ValueError(f"means are two arrays, of keys and of values; found {len(self.means)}")
        for mean, of in zip(self.means, (k, v)):
            shape = (k.batch, k.heads, self.blocks(), of.d)
            if mean.array.type != q.array.type or mean.array.shape != shape:
                raise ValueError(f"'{mean.array.name}' is {q.array.type} of the shape {shape}; found {mean.array.type} of "
                                 f"{mean.array.shape}")

    def blocks(self):
        return -(-self.k.length // BLOCK)

    def choose(self, window, top, quad, scale, mean_blocks):
        self.window, self.scale = positive("window", window, is_whole=True), positive("scale", scale) or self.q.d ** -0.5
        if not self.window:
            raise ValueError("window is a whole number above 0; found None")
        if top not in TOPS:
            raise ValueError(f"top is 8, 16, ... 64: the blocks that a query reads; found {top!r}")
        if quad is not None and quad not in range(1, QUAD_MOST + 1):
            raise ValueError(f"quad is from 1 to {QUAD_MOST}, or None; found {quad!r}")
        whole = self.k.length // BLOCK if self.means else 0
        if mean_blocks not in range(whole + 1):
            raise ValueError(f"mean_blocks counts whole blocks of k that 'means' has: 0 to {whole}; found {mean_blocks!r}")
        self.top, self.quad, self.mean_blocks = top, quad or (1 if self.q.length == 1 else QUAD_USUAL), mean_blocks

    # --- arrays of the CPU ---

    def step(self, operator, given, names, on, gpu, **settings):
        """The results called so of one kernel of sketches/nsa.tl; 'given' has Arrays, results among them that are there, and numbers."""
        kind = self.q.array.type
        program = program_of(sketch(operator, **settings), on, gpu, {}, kind)
        arrays = {name: renamed(one, name, one.shape, one.strides) for name, one in given.items() if not isinstance(one, (int, float))}
        numbers, plan = {name: one for name, one in given.items() if name not in arrays}, program.plan(kind)
        known = plan.lengths(arrays, numbers)
        for name in names:
            tensor = plan.tensors[name]
            arrays[name] = array_of(name, empty(name, tensor.type, plan.shape(tensor, known), self.inputs))
        program.run_arrays(arrays, numbers)
        return [arrays[name] for name in names]

    def compress(self, which, on, gpu):
        """The means of keys, or of values: from the first block on that is not there."""
        of, there = (self.k, self.v)[which], self.mean_blocks
        shape = (of.batch, of.heads, of.length - there * BLOCK, of.d)
        keys = part(of, "K", there * BLOCK, shape)
        if not self.means:
            return self.step("nsa_compress", {"K": keys}, ["K_mean"], on, gpu)[0]
        mean = self.means[which]
        if there < mean.length:
            rest = part(mean, "K_mean", there, (*shape[:2], mean.length - there, mean.d))
            self.step("nsa_compress", {"K": keys, "K_mean": rest}, [], on, gpu)
        return mean.array

    def on_cpu(self, on, gpu):
        q, k, v = (one.array for one in (self.q, self.k, self.v))
        first, group, length = self.k.length - self.q.length, self.q.heads // self.k.heads, self.q.length
        numbers = {"first": first, "scale": self.scale}
        means = {name: self.compress(which, on, gpu) for which, name in enumerate(("K_mean", "V_mean"))}
        o_mean, lse = self.step("nsa_compressed", {"Q": q, **means, **numbers}, ["O_mean", "lse"], on, gpu)
        score, = self.step("nsa_scores", {"Q": q, "K_mean": means["K_mean"], "lse": lse, **numbers}, ["score"], on, gpu, group=group,
                           span=1 if length < SPAN else SPAN)
        chosen, = self.step("nsa_choose", {"score": shortened(score, length), "first": first}, ["chosen"], on, gpu, top=self.top)
        kept = {"Q": q, "K": k, "V": v, "scale": self.scale}
        if self.quad == 1:
            o_chosen, = self.step("nsa_selected", {**kept, "chosen": chosen, "first": first}, ["O_chosen"], on, gpu, group=group, top=self.top)
        else:
            names = ["list", "seen", "count"]
            tables = self.step("nsa_union", {"chosen": chosen, "first": first, "kv_len": self.k.length}, names, on, gpu, top=self.top,
                               quad=self.quad)
            o_chosen, = self.step("nsa_selected", {**kept, **dict(zip(names, tables))}, ["O_chosen"], on, gpu, group=group, top=self.top,
                                  quad=self.quad, shared=True)
        o_near = attention(*self.tensors, causal=True, window=self.window, scale=self.scale, align="last", on=on, gpu=gpu)
        self.step("nsa_gate", {"O_mean": o_mean, "O_chosen": shortened(o_chosen, length), "O_near": array_of("O_near", o_near), **self.gates,
                               "O": self.given.array}, [], on, gpu)

    # --- tensors on a GPU ---

    def on_gpu(self):
        torch = sys.modules.get("torch")
        if any(array.library is not torch or torch is None for array in self.inputs):
            raise TypeError("on a GPU attention takes PyTorch's tensors; flashtl.compile takes those of others")
        for one in (self.q, self.k, self.v, self.given, *(self.means or ())):
            if one.unit != 1 and one.d > 1:
                raise ValueError(f"the elements of '{one.array.name}' along d must lie next to one another; .contiguous() makes them")
        made = self.struct()
        size = c.c_size_t()
        call("ftl_nsa_workspace", c.byref(made), c.byref(size))
        with on_device(torch, self.q.array.ordinal):
            # Freed in the stream's order, as all of PyTorch's memory.
            workspace = torch.empty((size.value,), dtype=torch.uint8, device=self.device)
            made.workspace, made.workspace_bytes = workspace.data_ptr(), size.value
            call("ftl_nsa_attention", runtime(), c.byref(made), c.c_void_p(torch.cuda.current_stream().cuda_stream))

    def struct(self):
        q, k = self.q, self.k
        made = _c.ftl_nsa(struct_bytes=c.sizeof(_c.ftl_nsa), dtype=_c.TYPES[q.array.type], batch=q.batch, q_len=q.length,
                          kv_len=k.length, q_heads=q.heads, kv_heads=k.heads, head_dim=q.d, value_dim=self.v.d, q=matrix(q),
                          k=matrix(k), v=matrix(self.v), o=matrix(self.given), mean_blocks=self.mean_blocks, top=self.top,
                          window=self.window, quad=self.quad, scale=self.scale)
        for name, gate in self.gates.items():
            batch, head, length = gate.strides
            setattr(made, name, _c.ftl_attention_tensor(gate.address, batch, length, head))
        if self.means:
            made.k_mean, made.v_mean = (matrix(mean) for mean in self.means)
        return made


def part(one, name, row, shape):
    """Rows of matrices from 'row' on."""
    return renamed(one.array, name, shape, (one.batch_stride, one.head_stride, one.length_stride, one.unit), one.address(row))


def shortened(array, length):
    """Without the rows past the last query that a step makes room for."""
    return renamed(array, array.name, (*array.shape[:2], length, *array.shape[3:]), array.strides)
