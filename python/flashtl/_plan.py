"""What a program takes and gives: a plan (include/flashtl/plan.h) in Python's terms."""
import ctypes as c

from . import _c
from ._arrays import NAMES, PACKED
from ._library import lib

SIZES_MOST = 64
TYPE_NAMES = {value: name for name, value in _c.TYPES.items()}


class Axis:
    def __init__(self, plan, axis):
        self.name, self.text, self.formula = axis.name.decode(), axis.extent.text.decode(), axis.extent
        self.size = plan.sizes[axis.size].name.decode() if axis.size >= 0 else None


class Tensor:
    def __init__(self, plan, tensor):
        self.name, self.type = tensor.name.decode(), TYPE_NAMES[tensor.type]
        self.is_input, self.is_output = tensor.role == _c.INPUT, tensor.role == _c.OUTPUT
        self.begins_at_zero = tensor.is_sum or tensor.is_kept  # what a call makes of it: added to, or kept where nothing is written
        self.axes = [Axis(plan, tensor.axes[i]) for i in range(tensor.axis_count)]

    def __str__(self):
        return f"'{self.name}' ({', '.join(axis.text for axis in self.axes)})"


class Plan:
    """Reads a plan; the pointer has to live as long as this, and 'owner' sees to that."""

    def __init__(self, pointer, owner):
        plan = pointer.contents
        self.owner = owner
        self.entry, self.target = plan.entry.decode(), plan.target.decode()
        self.sizes = [plan.sizes[i].name.decode() for i in range(plan.size_count)]
        self.scalars = [plan.scalars[i].name.decode() for i in range(plan.scalar_count)]
        self.whole_scalars = [name for i, name in enumerate(self.scalars) if TYPE_NAMES[plan.scalars[i].type] == "i32"]
        self.tensors = {}
        for i in range(plan.tensor_count):
            tensor = Tensor(plan, plan.tensors[i])
            self.tensors[tensor.name] = tensor

    def unpacked(self, arrays):
        """The arrays with those of bytes as what the program's tensors have, two elements each."""
        found = {}
        for name, array in arrays.items():
            tensor = self.tensors.get(name)
            is_packed = tensor and _c.BITS[tensor.type] < 8
            if is_packed and array.type != PACKED:
                raise TypeError(f"'{name}' is {tensor.type} in the program: an array of uint8 with two elements a byte; found {NAMES[array.type]}")
            found[name] = array.unpacked(tensor.type) if is_packed else array
        return found

    def lengths(self, arrays, numbers):
        """{size: length} of those that arrays and numbers show, which have to agree."""
        known, source = {}, {}
        for name, value in numbers.items():
            if name in self.sizes:
                if value != int(value) or value < 0:
                    raise ValueError(f"'{name}' is a length; found {value}")
                known[name], source[name] = int(value), "what was given"
        for array in arrays.values():
            tensor = self.tensors[array.name]
            if len(array.shape) != len(tensor.axes):
                raise ValueError(f"{tensor} has {len(tensor.axes)} axes; its array has {len(array.shape)}")
            for axis, extent in zip(tensor.axes, array.shape):
                if axis.size is None:
                    continue
                if known.setdefault(axis.size, extent) != extent:
                    raise ValueError(f"'{axis.size}' is {known[axis.size]} in {source[axis.size]} and {extent} in '{array.name}'")
                source.setdefault(axis.size, f"'{array.name}'")
        return known

    def shape(self, tensor, known):
        """The lengths of a tensor's axes."""
        sizes = (c.c_int64 * SIZES_MOST)(*(known.get(name, 0) for name in self.sizes[:SIZES_MOST]))
        scalars = (c.c_double * SIZES_MOST)()
        shape = []
        for axis in tensor.axes:
            missing = [name for name in self.sizes if name not in known and name in words(axis.text)]
            if missing:
                raise ValueError(f"the length '{missing[0]}' of {tensor} is not known; give it as {missing[0]}=N")
            value = c.c_double()
            is_right = lib.ftl_formula_evaluate(c.byref(axis.formula), sizes, scalars, c.byref(value))
            if not is_right or value.value < 0:
                raise ValueError(f"the length '{axis.text}' of {tensor} cannot be computed")
            shape.append(int(value.value))
        return tuple(shape)

    def check(self, array, known):
        """An array has its tensor's type and lengths."""
        tensor = self.tensors[array.name]
        if array.type != tensor.type:
            raise TypeError(f"'{array.name}' is {tensor.type} in the program; its array is {NAMES[array.type] if array.type == PACKED else array.type}")
        shape = self.shape(tensor, known)
        if shape != array.shape:
            raise ValueError(f"{tensor} has the lengths {shape} here; its array has {array.shape}")


def words(text):
    """The names in an expression."""
    return "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()
