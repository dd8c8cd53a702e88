"""flashtl.append: new keys and values into their pages, rotated by their places (struct ftl_append)."""
import ctypes as c
import sys

from . import _c
from ._arrays import CPU, array_of, check_output, empty, one_device
from ._attention import check_types, program_of, renamed
from ._library import call, on_device, runtime, sketch
from ._program import MACHINES
from ._serving import Rows


def append(k, v, k_pages, v_pages, slots, *, q=None, cosine=None, sine=None, places=None, interleaved=False, out=None, on=None, gpu=None):
    """Writes new keys and values (token, heads, d) into pages (page, slot, heads, d), and nothing else of these.

    Token i goes to slot slots[i] % slots_of_a_page of page slots[i] // slots_of_a_page; no two entries are equal. With 'cosine' and
    'sine', f32 (places, half), keys are rotated by the angles of row places[i] first: columns j and half + j together, or 2j and
    2j + 1 where 'interleaved' is set; columns from 2*half on stay. So are the queries 'q', where there are any: returns them, in 'out'
    where that is given. 'slots' and 'places' are int32.
    """
    call_ = Append(k, v, k_pages, v_pages, slots, q, {"cosine": cosine, "sine": sine, "places": places}, out)
    return call_.run(interleaved, on, gpu)


class Append:
    def __init__(self, k, v, k_pages, v_pages, slots, q, angles, out):
        self.k, self.v = (Rows(array_of(name, value), ["token"]) for name, value in (("k", k), ("v", v)))
        self.pools = [Rows(array_of(name, value), ["page", "slot"]) for name, value in (("k_pages", k_pages), ("v_pages", v_pages))]
        self.q = None if q is None else Rows(array_of("q", q), ["token"])
        self.slots = array_of("slots", slots)
        self.angles = {name: array_of(name, value) for name, value in angles.items() if value is not None}
        self.out, self.given = out, None if out is None else Rows(array_of("out", out), ["token"])
        rows = [self.k, self.v, *([self.q] if self.q else [])]
        self.inputs = [one.array for one in rows] + [self.slots, *self.angles.values()]
        outputs = [one.array for one in self.pools] + ([self.given.array] if self.given else [])
        self.device = one_device([*self.inputs, *outputs])
        check_types(*((self.q or self.k).array, self.k.array, self.v.array))
        self.check_pools()
        self.check_angles()

    def check_pools(self):
        tokens = self.k.before[0]
        if self.v.before[0] != tokens or self.v.heads != self.k.heads:
            raise ValueError(f"'k' and 'v' differ in more than d: {self.k.array.shape} and {self.v.array.shape}")
        for pool, new in zip(self.pools, (self.k, self.v)):
            if (pool.heads, pool.d, pool.array.type) != (new.heads, new.d, new.array.type) or pool.before != self.pools[0].before:
                raise ValueError(f"'{pool.array.name}' has pages of rows like those of '{new.array.name}', as many as the other; found "
                                 f"{pool.array.type} of {pool.array.shape} and {new.array.type} of {new.array.shape}")
        pages, slots = self.pools[0].before
        if tokens > pages * slots:
            raise ValueError(f"{tokens} tokens do not go into {pages} pages of {slots}")
        self.need("slots", self.slots, "i32", (tokens,))
        check_output(self.pools[0].array, self.inputs)
        check_output(self.pools[1].array, [*self.inputs, self.pools[0].array])

    def check_angles(self):
        if not self.angles:
            if self.q:
                raise TypeError("'q' is there to be rotated, and 'cosine' is missing")
            return
        for name in ("cosine", "sine", "places"):
            if name not in self.angles:
                raise TypeError(f"'{name}' is missing")
        cosine = self.angles["cosine"]
        if len(cosine.shape) != 2 or not 0 < 2 * cosine.shape[1] <= self.k.d:
            raise ValueError(f"'cosine' has the shape (places, half), of at most {self.k.d // 2} columns; found {cosine.shape}")
        for name in ("cosine", "sine"):
            self.need(name, self.angles[name], "f32", cosine.shape)
        if self.angles["sine"].strides != cosine.strides:
            raise ValueError("'cosine' and 'sine' have the same strides")
        self.need("places", self.angles["places"], "i32", self.k.before)
        if self.q and (self.q.before != self.k.before or self.q.d != self.k.d):
            raise ValueError(f"'q' has as many tokens, and vectors of as many elements, as 'k'; found {self.q.array.shape} and "
                             f"{self.k.array.shape}")

    @staticmethod
    def need(name, array, kind, shape):
        if array.type != kind or array.shape != tuple(shape):
            raise ValueError(f"'{name}' is {'int32' if kind == 'i32' else 'float32'} of the shape {tuple(shape)}; found {array.type} of "
                             f"{array.shape}")

    def run(self, interleaved, on, gpu):
        if on not in (None, *MACHINES):
            raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
        if on not in (None, "gpu") and self.device != CPU:
            raise ValueError(f"on='{on}' takes arrays of the CPU; these are on {self.device}")
        self.interleaved = bool(interleaved) and bool(self.angles)
        if self.q and self.given is None:
            self.out = empty("out", self.q.array.type, self.q.array.shape, self.inputs)
            self.given = Rows(array_of("out", self.out), ["token"])
        elif self.given:
            if not self.q or self.given.array.shape != self.q.array.shape or self.given.array.type != self.q.array.type:
                raise ValueError("'out' is of the type and shape of 'q'")
            check_output(self.given.array, [*self.inputs, *(one.array for one in self.pools)])
        self.on_cpu(on, gpu) if self.device == CPU else self.on_gpu()
        return self.out

    def check_tables(self):
        slots, (pages, length) = self.slots.bits().view("int32"), self.pools[0].before
        if ((slots < 0) | (slots >= pages * length)).any():
            raise ValueError(f"'slots' names slots from 0 to {pages * length - 1}; found {slots[(slots < 0) | (slots >= pages * length)][0]}")
        if len(set(slots.tolist())) < len(slots):
            raise ValueError("two entries of 'slots' are equal")
        if self.angles:
            places, count = self.angles["places"].bits().view("int32"), self.angles["cosine"].shape[0]
            if ((places < 0) | (places >= count)).any():
                raise ValueError(f"'places' names rows from 0 to {count - 1}; found {places[(places < 0) | (places >= count)][0]}")

    def on_cpu(self, on, gpu):
        self.check_tables()
        turns, pins = {}, {}
        if self.angles:
            turns = {"cosine": self.angles["cosine"], "sine": self.angles["sine"], "place": self.angles["places"]}
            pins = {"half": self.angles["cosine"].shape[1]}
        if self.q:  # before the keys, as on a GPU
            text = sketch("rotate", interleaved=self.interleaved)
            self.launch_program(text, {"Q": self.q.array, "Q_rotated": self.given.array, **turns}, pins, on, gpu)
        text = sketch("append", plain=not self.angles, interleaved=self.interleaved)
        arrays = {"K_new": self.k.array, "V_new": self.v.array, "K_pool": self.pools[0].array, "V_pool": self.pools[1].array,
                  "slot": self.slots, **turns}
        self.launch_program(text, arrays, {**pins, "page_len": self.pools[0].before[1]}, on, gpu)

    @staticmethod
    def launch_program(text, arrays, pins, on, gpu):
        named = {name: renamed(array, name, array.shape, array.strides) for name, array in arrays.items()}
        program_of(text, on, gpu, pins).run_arrays(named, {})

    def on_gpu(self):
        torch = sys.modules.get("torch")
        if any(array.library is not torch or torch is None for array in self.inputs):
            raise TypeError("on a GPU append takes PyTorch's tensors; flashtl.compile takes those of others")
        for table in (self.slots, *self.angles.values()):
            if table.shape[-1] > 1 and table.strides[-1] != 1:
                raise ValueError(f"the entries of '{table.name}' must lie next to one another; .contiguous() makes them")
        with on_device(torch, self.k.array.ordinal):
            stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
            call("ftl_attention_append", runtime(), c.byref(self.struct()), stream)

    def struct(self):
        made = _c.ftl_append(struct_bytes=c.sizeof(_c.ftl_append), dtype=_c.TYPES[self.k.array.type], tokens=self.k.before[0],
                             kv_heads=self.k.heads, head_dim=self.k.d, value_dim=self.v.d, k=self.k.struct(), v=self.v.struct(),
                             k_pool=self.pools[0].struct(), v_pool=self.pools[1].struct(), slots=self.slots.address,
                             is_interleaved=self.interleaved)
        made.pages, made.page_len = self.pools[0].before
        if self.q:
            made.q_heads, made.q, made.q_rotated = self.q.heads, self.q.struct(), self.given.struct()
        if self.angles:
            cosine = self.angles["cosine"]
            made.rotary_dim, made.places_count, made.angle_stride = 2 * cosine.shape[1], cosine.shape[0], cosine.strides[0]
            made.cosine, made.sine, made.places = (self.angles[name].address for name in ("cosine", "sine", "places"))
        return made
