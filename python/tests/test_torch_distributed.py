"""flashtl.distributed: two and four processes by gloo on tensors of the CPU, against attention in float64 of the whole, with gradients.

Processes cost seconds to start, so that those of one number run all cases, one after the other; each case is in all of them alike."""
import datetime
import multiprocessing
import pathlib
import runpy
import tempfile
import traceback
import unittest

import torch
import torch.distributed as dist

import flashtl.distributed as fd
import flashtl.torch
from flashtl.distributed import _ring
from flashtl.torch import _derived
from helpers import Case, SOURCE

BOUND = {torch.float32: 4e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}  # the interpreter computes in fp64 and rounds each step
SLOPES = torch.tensor([0.5, 0.25, 0.125, 1])
LONGEST = 120  # seconds that a process waits for another


def drawn(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def whole(length=24, kv_len=None, heads=4, kv_heads=2, d=16, dv=24, dtype=torch.float32):
    kv_len = kv_len or length
    return [drawn(2, heads, length, d, dtype=dtype), drawn(2, kv_heads, kv_len, d, seed=2, dtype=dtype),
            drawn(2, kv_heads, kv_len, dv, seed=3, dtype=dtype)]


def reference(q, k, v, causal=False, window=None, softcap=None, alibi=None, scale=None):
    """(o, lse) by PyTorch's own operations."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    score = q @ k.transpose(2, 3) * (scale or q.shape[3] ** -0.5)
    if softcap:
        score = softcap * torch.tanh(score / softcap)
    distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
    if alibi is not None:
        score = score - alibi[:, None, None] * (distance if causal else distance.abs())
    hidden = (distance < 0) & causal | (distance.abs() >= (window or 2 ** 30))
    score = score.masked_fill(hidden, float("-inf"))
    return torch.softmax(score, 3) @ v, torch.logsumexp(score, 3)


def near(found, wanted, bound, what):
    assert found.shape == wanted.shape, (what, found.shape, wanted.shape)
    assert torch.allclose(found.double(), wanted.double(), rtol=bound, atol=bound), (what, (found.double() - wanted.double()).abs().max())


def same(given, groups, layout="bhld", run=fd.attention, of="qkv", **options):
    """o, lse and the gradients of all that 'of' names, from both, are the whole's."""
    def part(x, axis=2):
        x = fd.shard(x.detach(), axis, **groups)
        return x.transpose(1, 2).contiguous() if layout == "blhd" and x.dim() == 4 else x
    double = [x.double().requires_grad_() for x in given]
    parts = [part(x).requires_grad_(name in of) for name, x in zip("qkv", given)]
    o, lse = run(*parts, **groups, layout=layout, return_lse=True, **options)
    assert (o.dtype, lse.dtype) == (given[0].dtype, torch.float32)
    wanted, wanted_lse = reference(*double, **options)
    bound = BOUND[o.dtype]
    near(o, part(wanted), bound, "o")
    near(lse, part(wanted_lse), bound, "lse")
    do, dlse = drawn(*wanted.shape, seed=5), drawn(*wanted_lse.shape, seed=6)
    (o * part(do)).sum().add((lse * part(dlse)).sum()).backward()
    (wanted * do).sum().add((wanted_lse * dlse).sum()).backward()
    for name, x, one in zip("qkv", parts, double):
        assert (x.grad is None) == (name not in of), name
        if name in of:
            assert x.grad.dtype == x.dtype
            near(x.grad, part(one.grad), 8 * bound, f"d{name}")


def says(kind, text, run, *arguments, **named):
    try:
        run(*arguments, **named)
    except kind as why:
        assert text in str(why) and "\n" not in str(why), str(why)
    else:
        raise AssertionError(f"nothing was refused: {text}")


# --- cases, in each process ------------------------------------------------------------------------------------------------

def ring(rank, size):
    for causal in (False, True):
        same(whole(), {}, causal=causal)
    same(whole(heads=3, kv_heads=1, dv=16), {"group": dist.group.WORLD}, causal=True, softcap=2.0, scale=0.5, layout="blhd")
    same(whole(24, 40), {})


def ring_of_16_bits(rank, size):
    for dtype in (torch.float16, torch.bfloat16):
        same(whole(heads=2, dtype=dtype), {}, causal=True)


def some_gradients(rank, size):
    for of in ("q", "k", "v", "qv"):
        same(whole(), {}, causal=True, of=of)


def heads(rank, size):
    groups = {"heads_group": dist.group.WORLD}
    same(whole(heads=8, kv_heads=4), groups, causal=True, window=7, softcap=2.0)
    same(whole(kv_heads=4), groups, causal=True, alibi=SLOPES, layout="blhd")
    same(whole(24, 40, kv_heads=4), groups)


def both(rank, size):
    mesh = dist.device_mesh.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("ring", "heads"))
    groups = {"group": mesh.get_group("ring"), "heads_group": mesh.get_group("heads")}
    for causal, layout in ((True, "bhld"), (False, "blhd")):
        same(whole(kv_heads=2), groups, causal=causal, layout=layout)
    x = drawn(3, 24, 2)
    assert torch.equal(fd.gather(fd.shard(x, 1, **groups), 1, **groups), x)
    says(ValueError, "these share 2", fd.attention, *whole(8), group=groups["group"], heads_group=groups["group"])


def parts(rank, size):
    places = fd.shard(torch.arange(24), 0)
    chunk = 24 // (2 * size)
    assert places.tolist() == [chunk * c + i for c in (rank, 2 * size - 1 - rank) for i in range(chunk)]
    assert fd.shard(torch.arange(24), 0, heads_group=dist.group.WORLD).tolist() == list(range(rank * 24 // size, (rank + 1) * 24 // size))
    x = drawn(3, 24, 2)
    assert torch.equal(fd.gather(fd.shard(x, -2), -2), x)
    says(ValueError, f"a multiple of {2 * size}", fd.shard, torch.arange(25), 0)
    says(ValueError, "gather has no gradients", fd.gather, x.requires_grad_(), 1)


def ways_to_call(rank, size):
    """The hook in flashtl.torch, the module, autocast, no gradients, no tokens; two runs give the same bits."""
    given = [fd.shard(x, 2).requires_grad_() for x in whole()]
    world = dist.group.WORLD
    wanted = fd.attention(*given, causal=True)
    assert torch.equal(flashtl.torch.attention(*given, causal=True, group=world), wanted)
    assert torch.equal(fd.Attention(group=world, causal=True)(*given), wanted)
    with torch.no_grad():
        assert torch.equal(fd.attention(*given, causal=True), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fd.attention(*given).dtype == torch.bfloat16
    first, second = (torch.autograd.grad(fd.attention(*given, causal=True).sum(), given) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    none = [x.detach()[:, :, :0].requires_grad_() for x in given]
    o, lse = fd.attention(given[0], *none[1:], return_lse=True)
    assert not o.any() and torch.isneginf(lse).all()
    o.sum().backward()
    second, = torch.autograd.grad(fd.attention(*given).sum(), given[:1], create_graph=True)
    says(RuntimeError, "have no gradients themselves", second.sum().backward)


def refused(rank, size):
    run, world, given = fd.attention, dist.group.WORLD, [x[:, :, :6] for x in whole()]
    q, k, v = given
    says(TypeError, "q, k and v are of one type", run, q, k.half(), v)
    says(ValueError, "5 rows are odd", run, q[:, :, :5], k[:, :, :5], v[:, :, :5], causal=True)
    says(ValueError, "as many queries as keys; found 6 and 4", run, q, k[:, :, :4], v[:, :, :4], causal=True)
    says(ValueError, "a ring takes no window", run, q, k, v, window=3)
    says(ValueError, "a ring takes no alibi", run, q, k, v, alibi=SLOPES)
    says(ValueError, f"the 3 heads of 'q' do not divide over the {size} processes", run, q[:, :3], k[:, :1], v[:, :1], heads_group=world)
    says(ValueError, f"the 1 heads of 'k' do not divide over the {size} processes", run, q, k[:, :1], v[:, :1], heads_group=world)
    says(ValueError, "layout is 'bhld' or 'blhd'", run, q, k, v, layout="hbld")
    says(ValueError, "scale is a number above 0", run, q, k, v, scale=-1)
    says(ValueError, "on is one of", run, q, k, v, on="cloud")
    says(flashtl.Error, "no GPU is called 'h2000'", run, *(x.half() for x in given), on="emulator", gpu="h2000")
    says(TypeError, "which the interpreter alone takes", run, q, k, v, on="emulator", gpu="a100")
    says(ValueError, "this process is not in 'group'", run, q, k, v, group="ring")
    for ranks in ([0], [1]):  # one of them has this process, and is a ring of one
        group = dist.new_group(ranks)
        if rank in ranks:
            near(run(q, k, v, group=group), reference(q.double(), k.double(), v.double())[0], BOUND[torch.float32], "o")
        else:
            says(ValueError, "this process is not in 'group'", run, q, k, v, group=group)


def unlike_calls(rank, size):
    """What is wrong in one process is said by all, and none waits."""
    run, (q, k, v) = fd.attention, [x[:, :, :6] for x in whole()]
    is_other = rank == size - 1
    kind = "float32 without gradients"
    says(ValueError, f"'q' is (2, 4, 6, 16) {kind} in process 0 and (2, 4, 4, 16) {kind} in process {size - 1}", run,
         q[:, :, :4] if is_other else q, k, v)
    half = [x.half() if is_other else x for x in (q, k, v)]
    says(ValueError, f"float16 without gradients in process {size - 1}", run, *half)
    says(ValueError, f"causal is False in process 0 and True in process {size - 1}", run, q, k, v, causal=is_other)
    says(ValueError, f"with gradients in process {size - 1}", run, q, k.clone().requires_grad_(is_other), v)
    wrong = "the heads of q are a multiple"
    says(ValueError, wrong if is_other else f"process {size - 1} refuses this call: {wrong}", run, q[:, :3] if is_other else q, k, v)


def example(rank, size):
    """Training by all processes has the losses of training by one."""
    train = runpy.run_path(str(SOURCE / "examples/python/long_sequence.py"))["train"]
    alone = [dist.new_group([one]) for one in range(size)][rank]
    wanted, found = train(3, "cpu", alone), train(3, "cpu")
    assert torch.allclose(torch.tensor(found), torch.tensor(wanted), rtol=1e-4), (found, wanted)


CASES = ring, ring_of_16_bits, some_gradients, heads, both, parts, ways_to_call, refused, unlike_calls, example


def process(rank, size, file, errors):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=LONGEST))
    for case in CASES:
        if case is both and size < 4:
            continue
        try:
            case(rank, size)
        except BaseException:
            errors.put(f"{case.__name__}, process {rank} of {size}:\n{traceback.format_exc()}")
            break  # the others would wait
    dist.destroy_process_group()


class Processes(unittest.TestCase):
    def run_all(self, size):
        """Forked, which is quick, before this process has computed anything."""
        context = multiprocessing.get_context("fork")
        errors = context.SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            started = [context.Process(target=process, args=(rank, size, pathlib.Path(folder) / "store", errors)) for rank in range(size)]
            for one in started:
                one.start()
            for one in started:
                one.join()
        found = []
        while not errors.empty():
            found.append(errors.get())
        self.assertFalse(found, "\n".join(found))
        self.assertEqual([one.exitcode for one in started], [0] * size)

    def test_2(self):
        self.run_all(2)

    def test_4(self):
        self.run_all(4)


class Steps(Case):
    """One process: what a step computes."""

    def test_no_group(self):
        self.says(ValueError, "init_process_group() before", fd.attention, *whole())
        self.says(ValueError, "init_process_group() before", flashtl.torch.attention, *whole(), group="ring")

    def test_rows_that_see_nothing(self):
        """Scores of -inf in one part, or in both, are as in attention over all keys at once."""
        q, k, v = whole(8, heads=2, dv=16)
        q, k = q.abs(), k.abs()
        options = _ring.Options(False, None, 0.25, None, None)
        for gone in ((0, 4), (4, 8), (0, 8)):
            keys = k.clone()
            keys[:, :, slice(*gone)] = float("-inf")
            state = None
            for begin in (0, 4):
                state = _ring.attend(q, keys[:, :, begin:begin + 4], v[:, :, begin:begin + 4], False, state, options)
            wanted = flashtl.attention(q, keys, v, scale=0.25, return_lse=True)
            for found, one in zip(state, wanted):
                self.assertTrue(torch.allclose(found, one, rtol=1e-6, atol=1e-6), gone)

    def test_kernels(self):
        """The kernels of a step, on an emulator of a GPU: the first and a later one, and gradients in f32."""
        q, k, v = whole(64, 96, heads=2, kv_heads=1, d=64, dv=64, dtype=torch.float16)
        options = _ring.Options(False, None, 0.125, "emulator", "a100")
        state = None
        for keys in (slice(0, 32), slice(32, 96)):
            state = _ring.attend(q, k[:, :, keys], v[:, :, keys], False, state, options)
        double = [x.double().requires_grad_() for x in (q, k, v)]
        wanted = reference(*double)
        for found, one in zip(state, wanted):
            near(found, one, 2e-3, "state")
        do = drawn(*state[0].shape, seed=5, dtype=torch.float16)
        wanted[0].backward(do.double())
        found = _derived.gradients(do, q, k[:, :, :32], v[:, :, :32], state[0].half(), state[1], None, None, False, None, None, 0.125, "bhld",
                                   "emulator", "a100", "KV", is_single=True)
        for made, one in zip(found, double[1:]):
            self.assertEqual(made.dtype, torch.float32)
            near(made, one.grad[:, :, :32], 5e-3, "gradient")
