"""Arrays of NumPy, PyTorch and others as the library sees them: an address, a type, extents and strides."""
import ctypes as c
import sys

from . import _c

TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int32": "i32", "int8": "i8",
         "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "uint8": "bytes"}
PACKED = "bytes"  # what arrays of i4 and u4 are until a program says which: two elements each, the first in the lower half
NAMES = {type_name: name for name, type_name in TYPES.items()}
DLPACK = {(2, 16): "float16", (4, 16): "bfloat16", (2, 32): "float32", (0, 32): "int32", (0, 8): "int8", (1, 8): "uint8",
          (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}
CPU = "cpu"


names = {}


def lasting(name):
    """A name as the library takes it, in memory that stays: of calls that are made again the structs are kept, not these objects."""
    return names.setdefault(name, name.encode())


class Array:
    """What a call needs of an array; strides count elements, 'device' is "cpu" or "cuda:N"."""

    __slots__ = ("name", "address", "type", "shape", "strides", "device", "library", "owner", "is_writable", "stream")

    def __init__(self, name, address, type_name, shape, strides, device, library, owner, is_writable=True, stream=None):
        self.name, self.address, self.type, self.shape, self.strides = name, address, type_name, shape, strides
        self.device, self.library, self.owner, self.is_writable = device, library, owner, is_writable
        self.stream = stream

    @property
    def is_empty(self):
        return 0 in self.shape

    @property
    def ordinal(self):
        return int(self.device[5:])

    def tensor(self):
        axes = len(self.shape)
        return _c.ftl_tensor(lasting(self.name), self.address, _c.TYPES[self.type], self.shape, self.strides, axes)

    def bits(self):
        """Its memory as NumPy's unsigned integers, which NumPy has for every width of whole bytes; of packed elements the bytes. Only
        host memory may be read so."""
        import numpy
        if _c.BITS[self.type] < 8:
            shape, strides = (*self.shape[:-1], self.shape[-1] // 2), (*(step // 2 for step in self.strides[:-1]), 1)
            return numpy.asarray(Interface(self.address, "|u1", shape, strides, self))
        size = _c.BITS[self.type] // 8
        return numpy.asarray(Interface(self.address, f"<u{size}", self.shape, tuple(step * size for step in self.strides), self))

    def unpacked(self, type_name):
        """An array of bytes as one of the elements of 4 bits that they hold, two each."""
        if not self.shape or (self.strides[-1] != 1 and self.shape[-1] > 1):
            raise ValueError(f"'{self.name}' is {type_name} in the program, two elements a byte: the bytes of its last axis lie side by side")
        shape, strides = (*self.shape[:-1], 2 * self.shape[-1]), (*(2 * step for step in self.strides[:-1]), 1)
        return Array(self.name, self.address, type_name, shape, strides, self.device, self.library, self.owner, self.is_writable, self.stream)


class Interface:
    """Memory that NumPy is to look at."""

    def __init__(self, address, kind, shape, steps, keep):
        self.keep = keep
        self.__array_interface__ = {"version": 3, "data": (address or 1, False), "typestr": kind, "shape": shape, "strides": steps}


def type_of(name, dtype):
    found = TYPES.get(dtype)
    if found is None:
        refuse_type(name, dtype)
    return found


def refuse_type(name, dtype):
    raise TypeError(f"'{name}' has the type {dtype}; kernels have {', '.join(kind for kind in TYPES if TYPES[kind] != PACKED)}")


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def has_tangents(torch):
    """Whether forward-mode gradients are being made: then any tensor may carry one."""
    return torch.autograd.forward_ad._current_level >= 0


def refuse_gradients(name, tensor):
    torch = sys.modules["torch"]
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"'{name}' requires gradients, and kernels are forward only: flashtl.torch.attention has gradients; call others "
                         "under torch.no_grad(), or in the forward of a torch.autograd.Function")
    if has_tangents(torch) and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        raise ValueError(f"'{name}' carries a tangent, which kernels do not have: forward-mode gradients end here")


def is_plain(torch, tensor):
    """Whether it has memory of its own; those that PyTorch traces, wraps or distributes have none."""
    dispatch = getattr(type(tensor), "__torch_dispatch__", None)
    return type(tensor) is torch.Tensor or dispatch is torch.Tensor.__torch_dispatch__


def address_of(name, torch, tensor):
    try:
        address = tensor.data_ptr() if is_plain(torch, tensor) else 0
    except RuntimeError:  # inside vmap, grad and other transforms
        address = 0
    if address == 0 and 0 not in tensor.shape:
        raise TypeError(f"'{name}' has no memory of its own, as tensors inside PyTorch's transforms (vmap, fake tensors); kernels take "
                        "plain ones")
    return address


def of_torch(name, tensor):
    torch = sys.modules["torch"]
    device = str(tensor.device)
    if tensor.layout != torch.strided:
        raise TypeError(f"'{name}' is a sparse tensor; kernels take strided ones")
    if device != CPU and not device.startswith("cuda:"):
        raise ValueError(f"'{name}' is on the device '{device}'; kernels take tensors of the CPU and of NVIDIA GPUs")
    address = address_of(name, torch, tensor)
    refuse_gradients(name, tensor)
    if tensor.is_neg():
        raise TypeError(f"'{name}' is a view whose sign a kernel would not see; .resolve_neg() makes a plain tensor of it")
    return Array(name, address, type_of(name, str(tensor.dtype).rpartition(".")[2]), tuple(tensor.shape), tuple(tensor.stride()),
                 device, torch, tensor)


def elements(name, steps, size):
    if any(step % size for step in steps):
        raise ValueError(f"'{name}' has strides of {steps} bytes, which are no whole elements of {size}; .copy() makes one that has")
    return tuple(step // size for step in steps)


def of_numpy(name, array):
    numpy = sys.modules["numpy"]
    if "numpy.ma" in sys.modules and isinstance(array, numpy.ma.MaskedArray):
        raise TypeError(f"'{name}' is a masked array, whose mask a kernel would not see; .filled(...) gives a plain one")
    if not array.dtype.isnative:
        raise TypeError(f"'{name}' has the other byte order; .astype({array.dtype.name!r}) gives this machine's")
    kind = type_of(name, array.dtype.name)
    return Array(name, array.ctypes.data, kind, array.shape, elements(name, array.strides, array.itemsize), CPU, numpy, array,
                 array.flags.writeable)


# --- DLPack ------------------------------------------------------------------------------------------------------------

class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


DL_CPU, DL_CUDA, DL_CUDA_HOST, DL_MANAGED = 1, 2, 3, 13


def dense(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent or 1
    return tuple(strides)


def of_dlpack(name, value):
    """The capsule is left unused, so that whoever made it frees it with the capsule, which is kept here."""
    is_cuda = value.__dlpack_device__()[0] == DL_CUDA
    capsule = value.__dlpack__(stream=1) if is_cuda else value.__dlpack__()  # 1: the default stream, which waits for its work
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    seen = DLTensor.from_address(get(capsule, b"dltensor"))
    if seen.device_type not in (DL_CPU, DL_CUDA, DL_CUDA_HOST):
        raise ValueError(f"'{name}' is on a device of DLPack's kind {seen.device_type}; kernels take arrays of the CPU and of NVIDIA GPUs")
    dtype = DLPACK.get((seen.code, seen.bits)) if seen.lanes == 1 else None
    kind = type_of(name, dtype or getattr(value, "dtype", "unknown"))
    shape = tuple(seen.shape[i] for i in range(seen.ndim))
    strides = tuple(seen.strides[i] for i in range(seen.ndim)) if seen.strides else dense(shape)
    device = f"cuda:{seen.device_id}" if seen.device_type == DL_CUDA else CPU
    return Array(name, (seen.data or 0) + seen.byte_offset, kind, shape, strides, device, None, (value, capsule), stream=0)


def is_array(value):
    return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")


def array_of(name, value, may_be_packed=False):
    """An argument of a call as an Array; what it says of the argument begins with its name. Bytes are two elements of 4 bits each, where
    a program may have such tensors."""
    if isinstance(value, Array):
        return value
    numpy = sys.modules.get("numpy")
    if is_torch(value):
        found = of_torch(name, value)
    elif numpy is not None and isinstance(value, numpy.ndarray):
        found = of_numpy(name, value)
    elif hasattr(value, "__dlpack__"):
        found = of_dlpack(name, value)
    elif hasattr(value, "__array_interface__"):
        import numpy
        found = of_numpy(name, numpy.asarray(value))
    else:
        raise TypeError(f"'{name}' is to be an array (of NumPy, of PyTorch, or with DLPack); found {type(value).__name__}")
    if found.type == PACKED and not may_be_packed:
        refuse_type(name, "uint8")
    if len(found.shape) > _c.AXES_MAX:
        raise ValueError(f"'{name}' has {len(found.shape)} axes; a kernel's tensors have at most {_c.AXES_MAX}")
    return found


# --- what a call makes and checks ----------------------------------------------------------------------------------------

def one_device(arrays):
    """The device that all arrays are on."""
    first = arrays[0]
    for array in arrays:
        if array.device != first.device:
            raise ValueError(f"'{first.name}' is on {first.device} and '{array.name}' on {array.device}; a kernel takes one device's")
    return first.device


def numpy_type(name, type_name):
    import numpy
    if NAMES[type_name] in ("float16", "float32", "int32", "int8"):
        return numpy.dtype(NAMES[type_name])
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"'{name}' has the type {type_name}, which NumPy lacks: pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, NAMES[type_name]))


def empty(name, type_name, shape, inputs, is_zero=False):
    """An Output beside the Inputs: a tensor of PyTorch where one of them is, else an array of NumPy."""
    for array in inputs:
        torch = array.library
        if torch is not None and torch is sys.modules.get("torch"):
            make = torch.zeros if is_zero else torch.empty
            return make(tuple(shape), dtype=getattr(torch, NAMES[type_name]), device=array.device)
    if inputs and inputs[0].device != CPU:
        raise TypeError(f"'{name}' is to be given, too: only PyTorch's tensors are made on a GPU here")
    import numpy
    return (numpy.zeros if is_zero else numpy.empty)(tuple(shape), numpy_type(name, type_name))


def reach(array):
    """The first byte of an array and the one past its last."""
    bits = _c.BITS[array.type]
    low = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides) if step < 0)
    high = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides) if step > 0)
    return array.address + low * bits // 8, array.address + -(-(high + 1) * bits // 8)


def check_output(output, others):
    """What is written has its memory for itself: NumPy finds out from addresses and strides, on a GPU too."""
    if not output.is_writable:
        raise ValueError(f"'{output.name}' is an Output, and its array may only be read")
    if output.is_empty:
        return
    if any(step == 0 and extent > 1 for extent, step in zip(output.shape, output.strides)):
        raise ValueError(f"'{output.name}' is an Output, and several of its elements are one place in memory")
    begin, end = reach(output)
    for other in others:
        if other.is_empty or other is output:
            continue
        other_begin, other_end = reach(other)
        if begin < other_end and other_begin < end:
            import numpy
            try:
                shares = numpy.shares_memory(output.bits(), other.bits(), max_work=100000)
            except numpy.exceptions.TooHardError:
                shares = True
            if shares:
                raise ValueError(f"'{output.name}' is written while '{other.name}' is in use, and they share memory")
