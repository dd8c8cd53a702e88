"""Calls on PyTorch's tensors on a GPU, once more: a call like one before differs in addresses alone, and C makes it.

What a call was asked for (its options) has a number; what its tensors are (types, devices, extents, strides) C sees itself (again.h).
While a first call runs, what it launches is noted; then C learns it. What C gives nothing for is done by Python as ever, which says what
is wrong. C is reached as a function of Python, or with PyTorch before 2.10 by an operator; before 2.7 or so Python makes all calls."""
import contextlib
import ctypes as c
import os
import sys
import threading

from . import _c, _library

OPTIONS_MOST = 1024
FEWEST, TENSORS_MOST, RESULTS = 2, 12, 4
AS_FIRST, F32, BYTES = range(3)
ATTENTION, VARLEN, DECODE, MLA, MODULE = range(5)
KINDS = {_c.ftl_attention: ATTENTION, _c.ftl_varlen: VARLEN, _c.ftl_decode: DECODE, _c.ftl_mla: MLA}

numbers = {}  # of options
operators = {}  # by how many tensors they take, where there is no function
lock = threading.Lock()


class Thread(threading.local):
    notes = None  # of the call that this thread makes for the first time


thread = Thread()
kept = []  # what functions and operators need as long as they are there
state = {"is_refused": False, "next": 0, "device": "cuda", "is_run": None}


# --- once more ---------------------------------------------------------------------------------------------------------

def present(*arrays):
    """Those that are given, and which are not."""
    return tuple([one for one in arrays if one is not None]), tuple([one is None for one in arrays])


def unknown(options, tensors, total_keys=None):
    """The results of a call like one before; None where there was none, or it is not to be repeated."""
    return None


again = unknown  # until the first call on a GPU; then C's function, or


def again_by_operator(options, tensors, total_keys=None):
    operator = operators.get(len(tensors))
    if operator is None:
        return None
    try:
        number = numbers.get(options)
    except TypeError:  # options that are no numbers: what is wrong with them is said elsewhere
        return None
    if number is None or thread.notes is not None or not are_plain(tensors):
        return None
    if total_keys is not None and (type(total_keys) is not int or total_keys >> 62):
        return None
    found = operator(*tensors, number, total_keys or 0)
    return tuple([one for one in found if one is not None]) or None


def run_of(torch):
    """The function that says whether PyTorch does nothing with tensors beside what a kernel does, but gradients: it neither traces nor
    transforms them."""
    kinds, is_compiling = (torch.Tensor, torch.nn.Parameter), torch.compiler.is_compiling
    modes, transforms, forward = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active, torch.autograd.forward_ad

    def is_run(tensors):
        if is_compiling() or modes() or transforms() or forward._current_level >= 0:
            return False
        for tensor in tensors:
            if type(tensor) not in kinds:
                return False
        return True
    return is_run


def is_run(tensors):
    torch = sys.modules["torch"]
    try:
        state["is_run"] = state["is_run"] or run_of(torch)
    except AttributeError:  # of an older version
        state["is_run"] = lambda tensors: False
    return state["is_run"](tensors)


def are_plain(tensors):
    """No gradients either."""
    return is_run(tensors) and not (sys.modules["torch"].is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


# --- the first time ----------------------------------------------------------------------------------------------------

class Notes:
    """What a call launches: [(kind, struct, bytes, {offset: (address, delta)}, module, tensors, scalars)]; and the scratch it makes."""

    def __init__(self):
        self.launches, self.scratch = [], []


def note_struct(made, arrays):
    """A launch of one of the library's structs. arrays: {field: the array that its address is in, or None}; a field "pages.table" is
    one of a struct inside."""
    notes = thread.notes
    if notes is not None:
        addresses = {}
        for name, array in arrays.items():
            if array is not None:
                offset, value = field_of(made, name)
                addresses[offset] = array.address, value - array.address
        notes.launches.append((KINDS[type(made)], bytes(made), addresses, None, 0, 0))


def field_of(made, name):
    """Where the address is in the struct, and the address."""
    offset, kind = 0, type(made)
    for part in name.split("."):
        offset, made, kind = offset + getattr(kind, part).offset, getattr(made, part), dict(kind._fields_)[part]
    return offset, made.address if isinstance(made, _c.ftl_attention_tensor) else made


def note_module(module, given, arrays):
    """A launch of a kernel: ftl_arguments, and its arrays in their order."""
    notes = thread.notes
    if notes is not None:
        size = c.sizeof(_c.ftl_tensor)
        tensors = c.string_at(given.tensors, given.tensor_count * size)
        scalars = c.string_at(given.scalars, given.scalar_count * c.sizeof(_c.ftl_scalar)) if given.scalar_count else b""
        place = _c.ftl_tensor.address.offset
        addresses = {i * size + place: (array.address, 0) for i, array in enumerate(arrays)}
        notes.launches.append((MODULE, tensors + scalars, addresses, module, given.tensor_count, given.scalar_count))


def note_scratch(tensor, is_zero):
    if thread.notes is not None:
        thread.notes.scratch.append((tensor, is_zero))


@contextlib.contextmanager
def learning(options, tensors):
    """While a call runs: what it launches; the call says what it gives by .give. A call inside of another one is part of that."""
    if thread.notes is not None or not is_candidate(tensors):
        yield Learned()
        return
    made, thread.notes = Learned(), Notes()
    _library.lib.flashtl_again_note(True)
    try:
        yield made
        notes = thread.notes
    finally:
        thread.notes = None
        _library.lib.flashtl_again_note(False)
    if made.results:
        learn(options, tensors, made.results, notes)


class Learned:
    """A call that is being made for the first time: its results, each with whether it begins at zero."""

    results = ()

    def give(self, *results, is_zero=False):
        self.results = [(tensor, is_zero) for tensor in results if tensor is not None]


def is_candidate(tensors):
    torch = sys.modules.get("torch")
    if torch is None or state["is_refused"] or not FEWEST <= len(tensors) <= TENSORS_MOST:
        return False
    return are_plain(tensors) and tensors[0].device.type == state["device"]


def learn(options, tensors, results, notes):
    torch = sys.modules["torch"]
    if not register(torch):
        return
    call = call_of(torch, tensors, results, notes)
    if call is None:
        return
    with lock:
        if len(numbers) >= OPTIONS_MOST:
            numbers.clear()
        try:
            if options not in numbers:
                state["next"] += 1  # a number means one thing for ever, also where options were forgotten
                numbers[options] = state["next"]
        except TypeError:
            return
    if _library.lib.flashtl_again_learn(c.byref(call)):
        try:
            again(options, tensors)
        finally:
            _library.lib.flashtl_again_learn(None)


def call_of(torch, tensors, results, notes):
    """What the call came to, or None where some address is in none of its tensors."""
    places, outputs = {}, []
    same = [places.setdefault(tensor.data_ptr(), i) for i, tensor in enumerate(tensors)]
    if not 1 <= len(results) <= RESULTS or not notes.launches:
        return None
    made = [(tensor, i, is_zero) for i, (tensor, is_zero) in enumerate(results)]
    given = {tensor.data_ptr() for tensor, _ in results}
    made += [(tensor, -1, is_zero) for tensor, is_zero in notes.scratch if tensor.data_ptr() not in given]
    for tensor, place, is_zero in made:
        if tensor.data_ptr() in places:
            return None
        places[tensor.data_ptr()] = len(tensors) + len(outputs)
        kind = type_of(torch, tensor, tensors[0])
        if kind is None or tensor.dim() > _c.AXES_MAX:
            return None
        outputs.append(_c.again_output(tuple(tensor.shape), tuple(tensor.stride()), tensor.dim(), kind, place, is_zero))
    launches = [launch_of(places, *note) for note in notes.launches]
    if None in launches:
        return None
    call = _c.again_call((_c.again_output * len(outputs))(*outputs), (_c.again_launch * len(launches))(*launches), _library.runtime(),
                         len(outputs), len(launches), tuple(same))
    call.keep = launches
    return call


def type_of(torch, tensor, first):
    return {first.dtype: AS_FIRST, torch.float32: F32, torch.uint8: BYTES}.get(tensor.dtype)


def launch_of(places, kind, made, addresses, module, tensor_count, scalar_count):
    if any(address not in places for address, _ in addresses.values()):
        return None
    listed = [_c.again_address(offset, places[address], delta) for offset, (address, delta) in addresses.items()]
    memory = c.create_string_buffer(made, len(made))
    return _c.again_launch(c.cast(memory, c.c_void_p), len(made), (_c.again_address * len(listed))(*listed), module, len(listed), kind,
                           tensor_count, scalar_count)


# --- PyTorch's side ------------------------------------------------------------------------------------------------------

def schema(count):
    tensors = ", ".join(f"Tensor t{i}" for i in range(count))
    return f"again{count:02}({tensors}, int call, int total_keys) -> ({', '.join(['Tensor'] * RESULTS)})"


def register(torch):
    """Whether C makes calls again."""
    global again
    with lock:
        if again is unknown and not state["is_refused"]:
            again = function_of(torch) or operators_of(torch, state["device"].upper()) or unknown
            state["is_refused"] = again is unknown
    return again is not unknown


def libraries_of(torch):
    """Those in which PyTorch's C functions are, and Python's."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    opened = [c.CDLL(os.path.join(folder, f"libtorch_{name}.so"), os.RTLD_NOLOAD | os.RTLD_LAZY) for name in ("cpu", "cuda", "python")]
    return (c.c_void_p * 4)(*(one._handle for one in opened), c.pythonapi._handle)


class MethodDefinition(c.Structure):  # PyMethodDef
    _fields_ = [("name", c.c_char_p), ("function", c.c_void_p), ("flags", c.c_int), ("text", c.c_char_p)]


METH_FASTCALL = 0x80


def function_of(torch):
    """The function in C, or None where PyTorch or Python lack what it needs."""
    try:
        libraries, exchange = libraries_of(torch), torch.Tensor.__dlpack_c_exchange_api__
        objects = _c.again_objects(numbers, torch.Tensor, torch.nn.Parameter, torch.Tensor.is_neg, torch._C._len_torch_dispatch_stack,
                                   torch._C._are_functorch_transforms_active, torch.autograd.forward_ad, "_current_level",
                                   "requires_grad", int, None, False)
        make = c.pythonapi.PyCFunction_NewEx
    except (OSError, AttributeError):
        return None
    find = c.PyDLL(None, handle=_library.lib._handle).flashtl_again_function  # which asks Python, and so keeps its lock
    find.restype, find.argtypes = c.c_void_p, [c.c_void_p, c.c_int32, c.py_object, c.c_void_p]
    place = find(libraries, len(libraries), exchange, c.byref(objects))
    if not place:
        return None
    method = MethodDefinition(b"again", place, METH_FASTCALL, None)
    kept.append((objects, method))
    make.restype, make.argtypes = c.py_object, [c.c_void_p, c.c_void_p, c.c_void_p]
    return make(c.addressof(method), None, None)


def operators_of(torch, key):
    """again_by_operator, or None where PyTorch lacks what the operators need."""
    try:
        libraries, library = libraries_of(torch), torch.library.Library("flashtl", "FRAGMENT")
    except (OSError, AttributeError):
        return None
    kept.append(library)
    for count in range(FEWEST, TENSORS_MOST + 1):
        library.define(schema(count))
    if not _library.lib.flashtl_again_register(libraries, len(libraries), key.encode()):
        return None
    for count in range(FEWEST, TENSORS_MOST + 1):
        found = getattr(torch.ops.flashtl, f"again{count:02}").default
        operators[count] = getattr(found, "_op", found)  # without a frame of Python around it
    return again_by_operator


_library.lib.flashtl_again_learn.restype = _library.lib.flashtl_again_register.restype = c.c_bool
_library.lib.flashtl_again_note.argtypes = [c.c_bool]
