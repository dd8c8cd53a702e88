"""flashtl.compile: a program of TL as a function on arrays."""
import ctypes as c
import itertools
import math
import numbers
import threading

from . import _again, _c, _run
from ._arrays import CPU, array_of, check_output, empty, is_array, is_torch, one_device, refuse_gradients
from ._library import call, device_gpu, lib, source, text_of
from ._plan import Plan

serials = itertools.count()
MACHINES = ("interpreter", "emulator", "gpu")
SIXTEEN_BITS = ("f16", "bf16")


class Outputs(tuple):
    """The Outputs of a call in the program's order, also by name: `o, lse = f(...)`, `f(...).lse`, `f(...)["lse"]`."""

    def __new__(cls, names, values):
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    def __getattr__(self, name):
        if name != "names" and name in self.names:
            return self[self.names.index(name)]
        raise AttributeError(f"there is no Output '{name}'; there are {', '.join(self.__dict__.get('names', ()))}")

    def __getitem__(self, place):
        return getattr(self, place) if isinstance(place, str) else super().__getitem__(place)

    def __getnewargs__(self):
        return self.names, tuple(self)


class Options:
    """ftl_options with what they point to."""

    def __init__(self, gpu, dtype, pins):
        self.pins = (_c.ftl_pin * len(pins))(*(_c.ftl_pin(name.encode(), str(value).encode()) for name, value in pins.items()))
        self.own = _c.ftl_options(struct_bytes=c.sizeof(_c.ftl_options), gpu=gpu.encode() if gpu else None,
                                  dtype=_c.TYPES[dtype], pins=self.pins, pin_count=len(pins))


class Product:
    """The kernels of a program for one GPU, one type and some lengths."""

    def __init__(self, program, gpu, dtype, pins):
        made = c.POINTER(_c.ftl_product)()
        call("ftl_build", c.byref(program.source), c.byref(Options(gpu, dtype, pins).own), c.byref(made))
        self.pointer = made
        self.code = made.contents.code.decode()
        kernels = [made.contents.kernels[i] for i in range(made.contents.kernel_count)]
        self.cuda = [kernel.cuda.decode() for kernel in kernels]
        self.plans = [Plan(kernel.plan, self) for kernel in kernels]
        self.plan_pointers = [kernel.plan for kernel in kernels]

    def __del__(self, free=lib.ftl_product_free):
        if hasattr(self, "pointer"):
            free(self.pointer)


class PlanOwner:
    """Frees a plan that was made alone."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self, free=lib.ftl_plan_free):
        free(self.pointer)


class View(str):
    """A page of HTML that needs nothing else: `open("kernel.html", "w").write(view)`, or the last line of a notebook's cell."""

    def _repr_html_(self):
        from html import escape
        return f'<iframe srcdoc="{escape(self)}" style="width: 100%; height: 48em; border: 0" title="FlashTL"></iframe>'


class Verification:
    """What `verify` found: true where no case failed. 'cases' are dictionaries, as the command's --json has them."""

    def __init__(self, cases, summary):
        self.cases = cases
        self.total, self.passed, self.failed, self.skipped = (summary[name] for name in ("total", "passed", "failed", "skipped"))
        self.worst_relative_rms, self.bound = summary.get("worst_relative_rms"), summary.get("bound")

    def __bool__(self):
        return self.failed == 0 and self.passed > 0

    def __repr__(self):
        return f"{self.total} cases: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def compile(text, *, gpu=None, dtype=None, types=None, on=None, name="<sketch>", **pins):
    """A sketch or TL Code as a function on arrays; see Program.

    gpu     the GPU that kernels are made for (flashtl.gpus()); on a GPU, where none is said, the one that is there
    dtype   "f16", "bf16" or "f32", the type of tensors that the text leaves open; else as the first 16-bit array has it
    types   of single tensors that it leaves open: {"K": "e4m3"}
    on      where it runs on arrays of the CPU: "interpreter" (in fp64, what the text means), "emulator" (the kernel, by an
            emulator of the GPU), "gpu" (copied there and back). Arrays of a GPU stay on it.
    name    of the text, in diagnostics
    pins    decisions and lengths: d=128, BN=64, warps=8
    """
    return Program(text, gpu, dtype, types, on, name, pins)


class Program:
    """A program that was read and checked. Calling it takes its Inputs by name and gives its Outputs:

        o, = program(Q=q, K=k, V=v, scale=0.125)

    Arrays have the axes of the text, in its order, with any strides the machine takes. An Output may be given, too, and is then
    written in place. Lengths that no array shows are given as numbers.
    """

    def __init__(self, text, gpu, dtype, types, on, name, pins):
        if not isinstance(text, str):
            raise TypeError(f"a sketch is a text; found {type(text).__name__}")
        if dtype not in (None, "f16", "bf16", "f32"):
            raise ValueError(f"dtype is 'f16', 'bf16' or 'f32'; found {dtype!r}")
        if on not in (None, *MACHINES):
            raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
        if types:
            given = (_c.ftl_pin * len(types))(*(_c.ftl_pin(key.encode(), kind.encode()) for key, kind in types.items()))
            text = text_of("ftl_set_types", c.byref(source(name, text)), given, len(types))
        self.text, self.name, self.gpu, self.dtype, self.on, self.pins = text, name, gpu, dtype, on, dict(pins)
        self.source, self.serial = source(name, text), next(serials)
        self.lock, self.plans, self.products, self.machines = threading.Lock(), {}, {}, {}
        call("ftl_check", c.byref(self.source), gpu.encode() if gpu else None)
        options = Options(gpu, dtype or "f16", self.made_pins(dtype or "f16"))
        call("ftl_check_pins", c.byref(self.source), c.byref(options.own))

    def __repr__(self):
        plan = self.plan(self.dtype or "f16")
        inputs = [name for name, tensor in plan.tensors.items() if tensor.is_input] + plan.scalars
        outputs = [name for name, tensor in plan.tensors.items() if tensor.is_output]
        return f"<flashtl.Program {self.name}: {', '.join(inputs)} -> {', '.join(outputs)}>"

    # --- what is asked of the text ---

    def plan(self, dtype):
        """What the program takes and gives."""
        with self.lock:
            if dtype not in self.plans:
                made = c.POINTER(_c.ftl_plan)()
                call("ftl_parameters", c.byref(self.source), _c.TYPES[dtype], c.byref(made))
                self.plans[dtype] = Plan(made, PlanOwner(made))
            return self.plans[dtype]

    def made_pins(self, dtype, lengths=()):
        """What the reasoner is told: no scalars, which are known at a launch."""
        scalars = self.plan(dtype).scalars
        pins = {name: value for name, value in self.pins.items() if name not in scalars}
        return {**dict(lengths), **pins}

    def product(self, gpu=None, dtype=None, lengths=()):
        gpu, dtype = gpu or self.gpu, dtype or self.dtype or "f16"
        pins = self.made_pins(dtype, lengths)
        key = (gpu, dtype, tuple(pins.items()))
        with self.lock:
            if key not in self.products:
                self.products[key] = Product(self, gpu, dtype, pins)
            return self.products[key]

    @property
    def tl(self):
        """TL Code: every decision is a statement."""
        return self.product().code

    @property
    def cuda(self):
        """The kernel as CUDA; of a program of several kernels their files, one after the other."""
        return "\n".join(self.product().cuda)

    @property
    def ptx(self):
        """The kernel as PTX, by NVRTC, nvcc or clang."""
        product = self.product()
        return "\n".join(_run.compile_ptx(cuda, plan) for cuda, plan in zip(product.cuda, product.plans))

    def explain(self):
        """Every decision, its numbers, and what lost."""
        options = Options(self.gpu, self.dtype or "f16", self.made_pins(self.dtype or "f16"))
        return text_of("ftl_explain", c.byref(self.source), c.byref(options.own))

    def view(self, *, compile=True):
        """Sketch, TL Code, CUDA and PTX side by side, lines linked both ways, with the decisions, as the command `flashtl view`
        shows them: the text of a page, which a notebook shows in a frame. With compile=False without PTX."""
        self.product()  # what is wrong with the program is said as everywhere
        return View(_run.view(self, compile))

    def verify(self, *, on=None, shapes=None, more=None, seed=None, seconds=None, against=None):
        """Runs it on a grid of shapes and inputs against fp64, as the command `flashtl verify` does, whose options these are.
        'against' is the sketch that says what TL Code should mean."""
        options = {"on": on or self.on, "shapes": shapes, "more": more, "seed": seed, "seconds": seconds}
        return _run.verify(self, options, against, Verification)

    # --- a call ---

    def __call__(self, **given):
        tensors = tuple([value for value in given.values() if not isinstance(value, (int, float))])
        named = tuple([(name, value if isinstance(value, (int, float)) else None) for name, value in given.items()])
        options = "program", self.serial, named
        found = _again.again(options, tensors)
        if found:
            return Outputs(self.outputs, found[:len(self.outputs)])
        with _again.learning(options, tensors) as learned:
            return self.call(given, len(tensors), learned)

    def call(self, given, tensor_count, learned):
        arrays = {name: array_of(name, value, True) for name, value in given.items() if is_array(value) and not is_number(value)}
        dtype = self.dtype_of(arrays)
        plan = self.plan(dtype)
        arrays = plan.unpacked(arrays)
        numbers_given = self.numbers(plan, given, arrays)
        inputs = [array for array in arrays.values() if plan.tensors[array.name].is_input]
        device = one_device(list(arrays.values())) if arrays else CPU
        known = plan.lengths(arrays, numbers_given)
        for array in arrays.values():
            plan.check(array, known)
        made, are_arrays = {}, len(arrays) == tensor_count
        for tensor in plan.tensors.values():
            if tensor.is_output and tensor.name not in arrays:
                value = empty(tensor.name, tensor.type, plan.shape(tensor, known), inputs, tensor.begins_at_zero)
                _again.note_scratch(value, tensor.begins_at_zero)  # where whoever calls gives no more of it
                made[tensor.name] = value
                arrays[tensor.name] = array_of(tensor.name, value)
            elif tensor.is_output:
                check_output(arrays[tensor.name], arrays.values())
                made[tensor.name] = given[tensor.name]
        self.run(device, dtype, plan, arrays, numbers_given, known)
        self.outputs = [name for name, tensor in plan.tensors.items() if tensor.is_output]
        if are_arrays and not made.keys() & given.keys():  # a number that a tensor holds is the next time another one
            learned.results = [(made[name], plan.tensors[name].begins_at_zero) for name in self.outputs]
        return Outputs(self.outputs, [made[name] for name in self.outputs])

    def dtype_of(self, arrays):
        """Of tensors whose type the text leaves open."""
        return self.dtype or next((array.type for array in arrays.values() if array.type in SIXTEEN_BITS), "f16")

    def run_arrays(self, arrays, numbers_given):
        """A call on Arrays, Outputs among them, whose names and device are known to be right."""
        dtype = self.dtype_of(arrays)
        plan = self.plan(dtype)
        known = plan.lengths(arrays, numbers_given)
        for array in arrays.values():
            plan.check(array, known)
        self.run(next(iter(arrays.values())).device, dtype, plan, arrays, numbers_given, known)

    def numbers(self, plan, given, arrays):
        """{name: value} of scalars and lengths, after looking at all names."""
        names = [*plan.tensors, *plan.scalars]
        for name, value in given.items():
            if name in plan.tensors and name not in arrays:
                array_of(name, value)
                raise TypeError(f"'{name}' is an array in the program; found a number")
            if name not in plan.tensors and name not in plan.scalars and name not in plan.sizes:
                raise TypeError(f"the program has no '{name}'; it has {', '.join(names)}")
            if name in arrays and name not in plan.tensors:
                raise TypeError(f"'{name}' is a number in the program; its array has {len(arrays[name].shape)} axes")
        found = {name: value for name, value in {**self.pins, **given}.items() if name in plan.scalars or name in plan.sizes}
        for name in [*(key for key, tensor in plan.tensors.items() if tensor.is_input), *plan.scalars]:
            if name not in given and name not in found:
                raise TypeError(f"the Input '{name}' is missing")
        return {name: number(name, value, plan) for name, value in found.items()}

    def run(self, device, dtype, plan, arrays, numbers_given, known):
        machine = self.on or "interpreter" if device == CPU else "gpu"
        if machine == "interpreter":
            return _run.interpret(self, arrays, numbers_given)
        if device != CPU and self.on not in (None, "gpu"):
            raise ValueError(f"on='{self.on}' takes arrays of the CPU; these are on {device}")
        gpu = self.gpu
        if machine == "gpu":
            gpu = gpu or device_gpu(0 if device == CPU else int(device[5:]))
        product = self.product(gpu, dtype, fixed_lengths(plan, arrays))
        call_kernels = {"emulator": _run.emulate, "gpu": _run.launch_on_copies if device == CPU else _run.launch}[machine]
        call_kernels(self, product, plan, arrays, numbers_given, known)


def is_number(value):
    """A number, also where an array or a tensor without axes holds it."""
    return isinstance(value, numbers.Number) or getattr(value, "shape", None) == ()


def number(name, value, plan):
    if is_torch(value):
        refuse_gradients(name, value)
        value = value.detach()
    try:
        found = None if isinstance(value, (str, bytes, bytearray)) else float(value)
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise TypeError(f"'{name}' is a number in the program; found {type(value).__name__}")
    if name in plan.whole_scalars and found != math.floor(found):
        raise ValueError(f"'{name}' is a whole number in the program; found {found}")
    return found


def fixed_lengths(plan, arrays):
    """Lengths that a kernel fixes (a bare axis of a matrix: d), as the arrays have them."""
    fixed = {}
    for tensor in plan.tensors.values():
        if tensor.name not in arrays:
            continue
        for axis, extent in list(zip(tensor.axes, arrays[tensor.name].shape))[-2:]:
            if axis.size is not None and axis.size == axis.name:
                fixed[axis.name] = extent
    return fixed.items()
