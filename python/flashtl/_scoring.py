"""What decides scores beside products, in calls for engines (struct ftl_scoring): slopes, biases, sinks, padding, windows, chunks."""
from . import _c
from ._arrays import array_of
from ._attention import positive, renamed

NAMES = ("sinks", "alibi", "bias", "padding")
WIDE = 1 << 30  # a window that leaves nothing out
OPTIONS = """
    sinks       f32 (heads): of each head one more score in the denominator, of no key; it counts in lse, too
    alibi       slopes, f32 (heads): scores fall by the distance times the slope
    bias        f32 ({axes}, keys): is added to scores that are scaled and capped; axes before the keys may be of length 1
    padding     of each sequence so many keys, the first ones, are seen by no query; int32
    before      a query sees no key 'before' or more places before its own
    after       nor any 'after' or more places after it
    chunk       a query sees the keys of its own chunk of 'chunk' places alone
"""


class Scoring:
    """One call's. 'before_keys' are the axes of its bias that come before the keys: their lengths."""

    def __init__(self, given):
        self.arrays = {name: array_of(name, given[name]) for name in NAMES if given[name] is not None}
        self.before, self.after, self.chunk = (positive(name, given[name], is_whole=True) for name in ("before", "after", "chunk"))

    def check(self, heads, batch, before_keys):
        for name, kind, shape in (("sinks", "f32", (heads,)), ("alibi", "f32", (heads,)), ("padding", "i32", (batch,))):
            array = self.arrays.get(name)
            if array and (array.type != kind or array.shape != shape):
                raise ValueError(f"'{name}' is {'float32' if kind == 'f32' else 'int32'} of the shape {shape}; found {array.type} of "
                                 f"{array.shape}")
        bias = self.arrays.get("bias")
        if not bias:
            return
        fits = len(bias.shape) == len(before_keys) + 1 and all(has in (1, want) for has, want in zip(bias.shape, before_keys))
        if bias.type != "f32" or not fits:
            wanted = ", ".join([f"1 or {length}" for length in before_keys] + ["keys"])
            raise ValueError(f"'bias' is float32 of the shape ({wanted}); found {bias.type} of {bias.shape}")
        strides = tuple(0 if has == 1 else stride for has, stride in zip(bias.shape, bias.strides[:-1]))
        self.arrays["bias"] = renamed(bias, "bias", (*before_keys, bias.shape[-1]), (*strides, bias.strides[-1]))

    def check_tables(self, lengths):
        """The contents of arrays of the CPU, for sequences of so many keys."""
        if "padding" in self.arrays:
            padding = self.arrays["padding"].bits().view("int32")
            if ((padding < 0) | (padding > lengths)).any():
                raise ValueError(f"'padding' has more keys than a sequence, or fewer than 0: {padding[:8].tolist()} of "
                                 f"{lengths[:8].tolist()}")
        if "bias" in self.arrays and lengths.max(initial=0) > self.arrays["bias"].shape[-1]:
            raise ValueError(f"'bias' has {self.arrays['bias'].shape[-1]} keys; a sequence has {lengths.max()}")

    def settings(self, causal):
        """Of the sketch."""
        return {"sinks": "sinks" in self.arrays, "alibi": "alibi" in self.arrays, "bias": "bias" in self.arrays,
                "padded": "padding" in self.arrays, "sides": self.has_sides(causal), "chunk": self.chunk or None}

    def has_sides(self, causal):
        return bool(self.before or self.after and not causal)

    def inputs(self, causal):
        """Arrays and numbers by the sketch's names."""
        names = {"sinks": "sink", "alibi": "slope"}
        arrays = {names.get(name, name): array for name, array in self.arrays.items()}
        numbers = {}
        if self.has_sides(causal):
            numbers["before"] = min(self.before or WIDE, WIDE)
            if not causal:
                numbers["after"] = min(self.after or WIDE, WIDE)
        return arrays, numbers

    def struct(self):
        made = _c.ftl_scoring(window_before=self.before, window_after=self.after, chunk=self.chunk)
        for name, field in (("sinks", "sinks"), ("alibi", "alibi_slopes"), ("padding", "padding"), ("bias", "bias")):
            array = self.arrays.get(name)
            if not array:
                continue
            if array.strides[-1] != 1 and array.shape[-1] > 1:
                raise ValueError(f"the elements of '{name}' must be contiguous; .contiguous() makes them so")
            setattr(made, field, array.address)
        if "bias" in self.arrays:
            bias = self.arrays["bias"]
            *batch, head, query, _ = bias.strides
            made.bias_batch_stride, made.bias_head_stride, made.bias_query_stride = batch[0] if batch else 0, head, query
            made.bias_columns = bias.shape[-1]
        return made
