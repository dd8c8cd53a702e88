"""Where a program runs: the interpreter, an emulator of a GPU, a GPU."""
import ctypes as c
import sys

from . import _again, _c, _library
from ._arrays import Array, CPU, lasting
from ._library import call, lib, on_device, runtime

ROW_BYTES = 16  # what a kernel asks of addresses and of all strides but the last
START_BYTES = 256
WAIT_MS = 60000


def arguments(arrays, numbers):
    """ftl_arguments with what they point to."""
    tensors = (_c.ftl_tensor * len(arrays))(*(array.tensor() for array in arrays))
    scalars = (_c.ftl_scalar * len(numbers))(*(_c.ftl_scalar(lasting(name), value) for name, value in numbers.items()))
    return _c.ftl_arguments(tensors, len(arrays), scalars, len(numbers))


def interpret(program, arrays, numbers):
    given = arguments(list(arrays.values()), numbers)
    call("ftl_interpret", c.byref(program.source), _c.EXACT, c.byref(given))


# --- kernels -----------------------------------------------------------------------------------------------------------

def compile_ptx(cuda, plan):
    """PTX by NVRTC, nvcc or clang."""
    image = _c.ftl_image()
    call("ftl_compile_cuda", runtime(), cuda.encode(), f"{plan.entry}.cu".encode(), plan.target.encode(), c.byref(image))
    text = c.string_at(image.bytes, image.length).decode()
    lib.ftl_image_done(c.byref(image))
    return text


def lay_out(type_name, shape):
    """Strides and bytes of a tensor whose rows begin at multiples of 16 bytes."""
    bits = _c.BITS[type_name]
    unit, step, strides = 8 * ROW_BYTES // bits, 1, [0] * len(shape)
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= max(shape[i], 1)
        if i == len(shape) - 1:
            step = -(-step // unit) * unit
    return tuple(strides), -(-step * bits // 8) + ROW_BYTES


class Block:
    """Memory of the CPU that a kernel may use: rows begin at multiples of 16 bytes; NaN where nothing was written, or 0."""

    def __init__(self, name, type_name, shape, is_zero=False):
        import numpy
        strides, self.bytes = lay_out(type_name, shape)
        self.memory = numpy.full(self.bytes + START_BYTES, 0 if is_zero else 0xff, numpy.uint8)
        address = -(-self.memory.ctypes.data // START_BYTES) * START_BYTES
        self.array = Array(name, address, type_name, tuple(shape), strides, CPU, None, self.memory)


def blocks_of(product, arrays, known):
    """A Block for each array, with what it holds, and for what kernels pass to one another."""
    blocks = {}
    for array in arrays.values():
        blocks[array.name] = Block(array.name, array.type, array.shape)
        blocks[array.name].array.bits()[...] = array.bits()
    for tensor in passed_on(product, arrays):
        blocks[tensor.name] = Block(tensor.name, tensor.type, tensor_shape(product, tensor, known), begins_at_zero(product, tensor))
    return blocks


def passed_on(product, arrays):
    """What one kernel writes and another reads."""
    found = {}
    for plan in product.plans:
        for tensor in plan.tensors.values():
            if tensor.name not in arrays:
                found.setdefault(tensor.name, tensor)
    return found.values()


def tensor_shape(product, tensor, known):
    owner = next(own for own in product.plans if own.tensors.get(tensor.name) is tensor)
    return owner.shape(tensor, known)


def begins_at_zero(product, tensor):
    """Is what is passed on a sum, or kept where nothing is written, for the first kernel that has it?"""
    return next(own.tensors[tensor.name].begins_at_zero for own in product.plans if tensor.name in own.tensors)


def kernel_arguments(plan, arrays, numbers):
    own = {name: value for name, value in numbers.items() if name in plan.scalars or name in plan.sizes}
    return arguments([arrays[name] for name in plan.tensors], own)


def bring_back(blocks, program_plan, arrays):
    for array in arrays.values():
        if program_plan.tensors[array.name].is_output:
            array.bits()[...] = blocks[array.name].array.bits()


class Emulators:
    """The kernels of a product, read by the emulator: one call at a time."""

    def __init__(self, product):
        import threading
        self.lock, self.handles = threading.Lock(), []
        for cuda, plan, pointer in zip(product.cuda, product.plans, product.plan_pointers):
            ptx, handle = compile_ptx(cuda, plan).encode(), c.c_void_p()
            call("ftl_emulator_open", pointer, ptx, len(ptx), f"{plan.entry}.cu".encode(), c.byref(handle))
            self.handles.append(handle)

    def __del__(self, close=lib.ftl_emulator_close):
        for handle in self.handles:
            close(handle)


def machine_of(program, key, make):
    """What was opened for a product, which stays."""
    with program.lock:
        if key not in program.machines:
            program.machines[key] = make()
        return program.machines[key]


def emulate(program, product, program_plan, arrays, numbers, known):
    emulators = machine_of(program, (product, "emulator"), lambda: Emulators(product))
    blocks = blocks_of(product, arrays, known)
    memory = {name: block.array for name, block in blocks.items()}
    with emulators.lock:
        for plan, handle in zip(product.plans, emulators.handles):
            given, report = kernel_arguments(plan, memory, numbers), _c.ftl_emulation()
            try:
                call("ftl_emulate", handle, c.byref(given), None, c.byref(report))
            except _library.Error as why:
                findings = (report.findings or b"").decode("utf-8", "replace").rstrip("\n")
                raise _library.Error(f"{why}\n{findings}" if findings else str(why), why.status) from None
            finally:
                lib.ftl_emulation_done(c.byref(report))
    bring_back(blocks, program_plan, arrays)


# --- the GPU -----------------------------------------------------------------------------------------------------------

def load(product):
    """The modules of a product, verified unless the runtime says otherwise; they stay loaded."""
    modules = (c.c_void_p * len(product.plans))()
    call("ftl_product_load", runtime(), product.pointer, modules)
    _library.state["is_on_gpu"] = True
    return list(modules)


def launch_all(program, product, ordinal, arrays, numbers, stream):
    modules = machine_of(program, (product, ordinal), lambda: load(product))
    for plan, module in zip(product.plans, modules):
        given = kernel_arguments(plan, arrays, numbers)
        call("ftl_module_launch", c.c_void_p(module), c.byref(given), c.c_void_p(stream))
        _again.note_module(module, given, [arrays[name] for name in plan.tensors])


class DeviceBlocks:
    """Memory of the GPU beside Blocks of the CPU, until it is freed."""

    def __init__(self):
        self.arrays, self.addresses = {}, {}

    def write(self, blocks):
        for name, block in blocks.items():
            address, host = c.c_uint64(), block.array
            call("ftl_device_allocate", runtime(), c.c_size_t(block.bytes), c.byref(address))
            self.addresses[name] = address.value
            call("ftl_device_write", runtime(), address, c.c_void_p(host.address), c.c_size_t(block.bytes))
            self.arrays[name] = Array(name, address.value, host.type, host.shape, host.strides, "cuda:0", None, self)

    def read(self, name, block):
        call("ftl_device_read", runtime(), c.c_void_p(block.array.address), c.c_uint64(self.addresses[name]),
             c.c_size_t(block.bytes))

    def free(self):
        for address in self.addresses.values():
            lib.ftl_device_free(runtime(), address)
        self.addresses = {}


def launch_on_copies(program, product, program_plan, arrays, numbers, known):
    call("ftl_device_use", runtime(), 0)
    blocks = blocks_of(product, arrays, known)
    copies = DeviceBlocks()
    try:
        copies.write(blocks)
        launch_all(program, product, 0, copies.arrays, numbers, None)
        call("ftl_stream_wait", runtime(), None, c.c_int64(WAIT_MS))
        for name in blocks:
            copies.read(name, blocks[name])
    finally:
        copies.free()
    bring_back(blocks, program_plan, arrays)


def launch(program, product, program_plan, arrays, numbers, known):
    """On arrays of a GPU, on PyTorch's current stream or the default one; nothing is waited for."""
    torch, first = sys.modules.get("torch"), next(iter(arrays.values()))
    are_tensors = {torch is not None and array.library is torch for array in arrays.values()}
    if len(are_tensors) > 1:
        raise TypeError("on a GPU all arrays are PyTorch's, or none is: each has a stream of its own")
    if not are_tensors.pop():
        call("ftl_device_use", runtime(), first.ordinal)
        scratch = list(passed_on(product, arrays))
        if scratch:
            raise TypeError(f"the kernels of this program pass {scratch[0]} on, which only PyTorch allocates here")
        return launch_all(program, product, first.ordinal, arrays, numbers, None)
    with on_device(torch, first.ordinal):
        arrays = dict(arrays)
        for tensor in passed_on(product, arrays):
            shape = tensor_shape(product, tensor, known)
            arrays[tensor.name] = scratch_tensor(torch, tensor, shape, first.device, begins_at_zero(product, tensor))
        launch_all(program, product, first.ordinal, arrays, numbers, torch.cuda.current_stream().cuda_stream)


def scratch_tensor(torch, tensor, shape, device, is_zero):
    """PyTorch's memory for what one kernel writes and another reads, laid out as Blocks are; freed in the stream's order."""
    strides, size = lay_out(tensor.type, shape)
    make = torch.zeros if is_zero else torch.empty
    memory = make(size, dtype=torch.uint8, device=device)
    _again.note_scratch(memory, is_zero)
    return Array(tensor.name, memory.data_ptr(), tensor.type, shape, strides, device, torch, memory)


# --- verify and view -----------------------------------------------------------------------------------------------------

def command_of(program, *words, **options):
    """The command on the program's text, which it reads from its standard input."""
    from ._command import PATH
    command = [PATH, words[0], "-", *words[1:]]
    for name, value in {"gpu": program.gpu, "dtype": program.dtype, **options}.items():
        command += [f"--{name}={value}"] if value is not None else []
    for name, value in program.made_pins(program.dtype or "f16").items():
        command += ["--let", f"{name}={value}"]
    return command


def run_command(program, command):
    import subprocess
    from ._command import environment
    return subprocess.run(command, input=program.text, capture_output=True, encoding="utf-8", env=environment())


def fail(done, command, status):
    said = done.stderr.strip().removeprefix("flashtl: ")
    raise _library.Error(said or f"'flashtl {command[1]}' ended with status {done.returncode}", status)


def view(program, compiles):
    command = command_of(program, "view", *([] if compiles else ["--no-compile"]))
    done = run_command(program, command)
    if done.returncode:
        fail(done, command, "COMPILER_FAILED")
    return done.stdout


def verify(program, options, against, make):
    import json
    import tempfile
    command = command_of(program, "verify", "--json", **options)
    with tempfile.NamedTemporaryFile("w", suffix=".tl", encoding="utf-8") as file:
        if against is not None:
            file.write(against)
            file.flush()
            command.append(f"--against={file.name}")
        done = run_command(program, command)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not found or "total" not in found[-1]:
        fail(done, command, "CHECK_FAILED")
    return make(found[:-1], found[-1])
