"""The C library: how it is opened and called, and the one runtime of a process."""
import contextlib
import ctypes as c
import os
import sys
import threading
import warnings

from . import _c
from ._errors import DiagnosticError, Error

FOLDER = os.path.dirname(os.path.abspath(__file__))
lib = c.CDLL(os.path.join(FOLDER, "libflashtl.so"))
for name in ("ftl_context_error", "ftl_context_take_warning", "ftl_status_name", "ftl_version"):
    getattr(lib, name).restype = c.c_char_p
lib.ftl_context_diagnostics.restype = c.c_void_p
for name in ("ftl_free", "ftl_context_free", "ftl_plan_free", "ftl_emulator_close", "ftl_module_free", "ftl_product_free"):
    getattr(lib, name).argtypes = [c.c_void_p]
lib.ftl_context_diagnostics.argtypes = [c.c_void_p, c.c_int]
lib.ftl_formula_evaluate.restype = c.c_bool
lib.ftl_device_free.argtypes = [c.c_void_p, c.c_uint64]


class Context:
    """What went wrong in a thread's last call."""

    def __init__(self):
        self.handle = c.c_void_p()
        if lib.ftl_context_new(c.byref(self.handle)):
            raise MemoryError("out of memory")

    def __del__(self, free=lib.ftl_context_free):  # at the end of a process, names of modules go first
        if self.handle:
            free(self.handle)


threads = threading.local()


def context():
    try:
        return threads.context.handle
    except AttributeError:
        threads.context = Context()
        return threads.context.handle


def take_text(pointer):
    """The text that the library handed over, which is freed."""
    if not pointer:
        return ""
    text = c.string_at(pointer).decode("utf-8", "replace")
    lib.ftl_free(pointer)
    return text


def fail(own, status):
    """Raises what a call said."""
    if status == _c.REJECTED:
        import json
        text = take_text(lib.ftl_context_diagnostics(own, _c.DIAGNOSTICS_TEXT)).rstrip("\n")
        lines = take_text(lib.ftl_context_diagnostics(own, _c.DIAGNOSTICS_JSON)).splitlines()
        if text:
            raise DiagnosticError(text, [json.loads(line) for line in lines])
    text = lib.ftl_context_error(own).decode("utf-8", "replace")
    if status == _c.INVALID_ARGUMENT:
        raise ValueError(text)
    if lib.ftl_status_name(status) == b"NO_MEMORY":
        raise MemoryError(text)
    raise Error(text, lib.ftl_status_name(status).decode())


def call(function, *arguments):
    """Calls a function that takes a context first and gives a status."""
    own = context()
    status = getattr(lib, function)(own, *arguments)
    warning = lib.ftl_context_take_warning(own)
    if warning:
        warnings.warn(warning.decode("utf-8", "replace"), RuntimeWarning, stacklevel=3)
    if status:
        fail(own, status)


def text_of(function, *arguments):
    """Calls a function that gives a text through its last argument."""
    out = c.c_void_p()
    call(function, *arguments, c.byref(out))
    return take_text(out.value)


def version():
    return lib.ftl_version().decode()


def source(name, text):
    data = text.encode()
    return _c.ftl_source(name.encode(), data, len(data))


def sketch(operator, **settings):
    """The text of a shipped operator's sketch: sketch("attention", causal=True, window=128)."""
    chosen = [name if value is True else f"{name}={value}" for name, value in settings.items()
              if value is not None and value is not False]
    list_of_settings = (c.c_char_p * len(chosen))(*(text.encode() for text in chosen))
    return text_of("ftl_sketch", str(operator).encode(), list_of_settings, len(chosen))


def derive(text, *, of=(), fused=False, name="<sketch>"):
    """The program of a sketch's gradients: the sketch, with what they need of it as further Outputs, and after it kernels that take
    the gradient dY of each Output Y and give dX for each Input X, or for those of 'of' alone. 'fused' makes one kernel of two that
    compute the same products, and adds up gradients in memory, in no order."""
    chosen = [of] if isinstance(of, str) else list(of)
    return text_of("ftl_derive", c.byref(source(name, text)), (c.c_char_p * len(chosen))(*(one.encode() for one in chosen)), len(chosen), bool(fused))


def gpus():
    """The names of the GPUs that kernels can be made for."""
    names, gpu = [], _c.ftl_gpu(struct_bytes=c.sizeof(_c.ftl_gpu))
    while lib.ftl_gpu_at(context(), len(names), c.byref(gpu)) == _c.OK:
        names.append(gpu.name.decode())
    return names


# --- the runtime -------------------------------------------------------------------------------------------------------

lock = threading.Lock()


def forget_lock():
    """Another thread may hold it at a fork; the child has no such thread."""
    global lock
    lock = threading.Lock()


os.register_at_fork(after_in_child=forget_lock)
settings = {"cache_folder": None, "cuda_library": None, "nvrtc_library": None, "verify": True}
state = {"runtime": None, "process": None, "is_on_gpu": False}


def configure(**given):
    """Settings of the runtime, before its first use: cache_folder= ("" for none), cuda_library=, nvrtc_library=, and
    verify= (False: kernels are used without being verified first)."""
    for name in given:
        if name not in settings:
            raise TypeError(f"there is no setting '{name}'; there are {', '.join(settings)}")
    with lock:
        if state["runtime"]:
            raise ValueError("the runtime is in use already; settings come before the first kernel")
        settings.update(given)


def cache_folder():
    """Where the command has it."""
    if settings["cache_folder"] is not None:
        return os.fspath(settings["cache_folder"])
    given = os.environ.get("FLASHTL_CACHE")
    if given is not None:
        return given
    base, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if base.startswith("/"):
        return base + "/flashtl"
    return home + "/.cache/flashtl" if home else ""


def nvrtc_library():
    """Of this Python's packages, the newest; None leaves the search to the library."""
    for given in (settings["nvrtc_library"], os.environ.get("FLASHTL_NVRTC")):
        if given is not None:
            return os.fspath(given)
    import glob
    found = []
    for folder in sys.path:
        found += glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", "libnvrtc.so.[0-9]*")) if folder else []
    numbered = [(int(path.rsplit(".", 1)[1]), path) for path in found if path.rsplit(".", 1)[1].isdigit()]
    return max(numbered)[1] if numbered else None


def runtime():
    """The runtime of this process, opened when it is first asked for."""
    if state["process"] == os.getpid():
        return state["runtime"]
    with lock:
        if state["process"] == os.getpid():
            return state["runtime"]
        if state["is_on_gpu"]:
            raise Error("this process was forked from one that used the GPU, which cannot go on in both; "
                        "start processes by multiprocessing.set_start_method('spawn')", "DRIVER_FAILED")
        names = (settings["cuda_library"] or os.environ.get("FLASHTL_CUDA"), nvrtc_library(), cache_folder())
        options = _c.ftl_runtime_options(c.sizeof(_c.ftl_runtime_options),
                                         *(None if name is None else os.fsencode(name) for name in names),
                                         not settings["verify"])
        made = c.c_void_p()
        call("ftl_runtime_open", c.byref(options), c.byref(made))
        state.update(runtime=made, process=os.getpid())
    return made


@contextlib.contextmanager
def on_device(torch, ordinal):
    """While this device is PyTorch's current one, and its context current in this thread, which has none where PyTorch has not launched
    anything yet: in a thread that has just begun, or the one that makes gradients."""
    with torch.cuda.device(ordinal):
        call("ftl_device_use", runtime(), ordinal)
        state["is_on_gpu"] = True
        yield


def device_gpu(ordinal):
    """The description that fits a device: "h200"."""
    device, gpu = _c.ftl_device(), _c.ftl_gpu(struct_bytes=c.sizeof(_c.ftl_gpu))
    call("ftl_device_describe", runtime(), ordinal, c.byref(device))
    state["is_on_gpu"] = True
    call("ftl_gpu_for_device", device.name, 10 * device.major + device.minor, device.multiprocessors, c.byref(gpu))
    return gpu.name.decode()
