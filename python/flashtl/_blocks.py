"""Which blocks of keys each block of queries sees: lists of them, as FlexAttention's BlockMask has them, and a sketch that makes them."""
import sys
import weakref

from ._arrays import CPU, is_torch
from ._attention import program_of

NAMES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
SIZE_MOST = 1024
PARTLY, WHOLLY = 1, 2  # of a block, what is seen; 0: nothing

COUNTED = """kernel seen_keys
{tables}Output seen f32 (b in batch, head in q_heads; q in q_len, n in kv_blocks) where kv_blocks == ceil(kv_len/{size})
Compute Fill 0 and get seen
for s = 0:{size}
    Compute Fill 1 and get T
    Compute Mask T, 0 where n*{size} + s >= kv_len
{masks}    Compute Add seen, T and get seen
end
Copy seen from register to global
"""


class BlockMask:
    """What flashtl.block_mask makes. Its attributes are called as those of FlexAttention's BlockMask, and mean the same:

    kv_num_blocks, kv_indices             (b, h, blocks of queries), and one axis more: blocks of which a part is seen, the first of the list
    full_kv_num_blocks, full_kv_indices   blocks of which everything is seen
    """

    def __init__(self, mask_mod, lengths, size, arrays):
        self.mask_mod, self.seq_lengths, self.BLOCK_SIZE = mask_mod, lengths, (size, size)
        for name, array in zip(NAMES, arrays):
            setattr(self, name, array)

    @property
    def shape(self):
        return (*self.kv_num_blocks.shape[:2], *self.seq_lengths)

    def __repr__(self):
        return f"<flashtl.BlockMask of {self.shape} in blocks of {self.BLOCK_SIZE[0]}>"


def is_block_mask(value):
    return hasattr(value, "mask_mod") and hasattr(value, "kv_indices")


# --- NumPy's functions and PyTorch's -------------------------------------------------------------------------------------

def whole_numbers(array):
    return array.to(sys.modules["torch"].int32).contiguous() if is_torch(array) else array.astype("int32")


def greatest_first(array):
    """Along the last axis the places of the greatest numbers first, of equal ones in order."""
    return (-array).argsort(dim=-1, stable=True) if is_torch(array) else (-array).argsort(axis=-1, kind="stable")


def put(kinds, places, value):
    if is_torch(kinds):
        kinds.scatter_(-1, places.long(), value)
    else:
        import numpy
        numpy.put_along_axis(kinds, places, value, -1)


def zeros(like, shape, dtype):
    if is_torch(like):
        return like.new_zeros(shape, dtype=dtype)
    import numpy
    return numpy.zeros(shape, dtype)


def counting(like, count):
    """0, 1, ..., where 'like' is."""
    if is_torch(like):
        return sys.modules["torch"].arange(count, device=like.device)
    import numpy
    return numpy.arange(count)


def smaller(array, number):
    return array.clamp(max=number) if is_torch(array) else array.clip(max=number)


def spread(array, shape):
    if is_torch(array):
        return array.expand(shape)
    import numpy
    return numpy.broadcast_to(array, shape)


def moved(array, like):
    """Where 'like' is: q, whose kernel reads it."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return (array if is_torch(array) else torch.from_numpy(array)).to(like.device)
    if is_torch(array):
        if array.device.type != CPU:
            raise ValueError(f"the lists of the block mask are on {array.device}; q is not")
        return array.numpy()
    return array


# --- lists as a kernel takes them ----------------------------------------------------------------------------------------

def kinds_of(mask, kv_len):
    """(b, h, blocks of queries, blocks of keys): PARTLY, WHOLLY, or 0. The last block is a part where keys end in it, and so is one that
    both lists name."""
    count, indices, full_count, full_indices = (getattr(mask, name) for name in NAMES)
    blocks = indices.shape[-1]
    kinds = zeros(indices, (*indices.shape[:-1], blocks + 1), indices.dtype)  # what names no block goes to the one past the last
    for value, number, listed in ((WHOLLY, full_count, full_indices), (PARTLY, count, indices)):
        if number is None:
            continue
        is_named = (counting(listed, blocks) < number[..., None]) & (listed >= 0) & (listed < blocks)
        put(kinds, listed * is_named + blocks * ~is_named, value)
    kinds = kinds[..., :blocks]
    if kv_len % sizes(mask)[1]:
        kinds[..., -1] = smaller(kinds[..., -1], PARTLY)
    return kinds


def sizes(mask):
    size = mask.BLOCK_SIZE
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


def check(mask, batch, heads, q_len, kv_len):
    q_size, kv_size = sizes(mask)
    wanted = -(-q_len // q_size), -(-kv_len // kv_size)
    shape = tuple(mask.kv_indices.shape)
    if len(shape) != 4 or shape[2:] != wanted or shape[0] not in (1, batch) or shape[1] not in (1, heads):
        raise ValueError(f"the block mask is of (batch, heads, blocks of queries, blocks of keys) {shape}; q and k ask for "
                         f"({batch} or 1, {heads} or 1, {wanted[0]}, {wanted[1]}) in blocks of {q_size} by {kv_size}")


def made_tables(mask, like, batch, heads, q_len, kv_len):
    """The Inputs of a sketch that walks listed blocks: of each block of queries those that are seen as a whole come first."""
    check(mask, batch, heads, q_len, kv_len)
    kinds, (q_size, kv_size) = kinds_of(mask, kv_len), sizes(mask)
    found = {"listed": (kinds > 0).sum(-1), "full": (kinds == WHOLLY).sum(-1), "block": greatest_first(kinds)}
    tables = {name: spread(moved(whole_numbers(array), like), (batch, heads, *array.shape[2:])) for name, array in found.items()}
    if q_len % q_size or kv_len % kv_size:
        rows = q_len - counting(like, -(-q_len // q_size)) * q_size
        tables["tile_rows"] = whole_numbers(smaller(rows, q_size))
    return tables


KEPT_MOST = 64
kept = {}  # by the mask's id: [weak reference, what its lists were, {what was asked for: tables}]


def state_of(mask):
    """Of the lists: which arrays they are, and of PyTorch's how often they were written."""
    return tuple((id(array), getattr(array, "_version", 0)) for array in (getattr(mask, name) for name in NAMES))


def tables_of(mask, like, *lengths):
    """made_tables, once for each mask."""
    key, state = (*lengths, str(like.device) if is_torch(like) else None), state_of(mask)
    entry = kept.get(id(mask))
    if entry is None or entry[0]() is not mask or entry[1] != state:
        if len(kept) >= KEPT_MOST:
            kept.clear()
        entry = kept[id(mask)] = [weakref.ref(mask), state, {}]
    if key not in entry[2]:
        entry[2][key] = made_tables(mask, like, *lengths)
    return entry[2][key]


# --- lists of a function -------------------------------------------------------------------------------------------------

def block_mask(mask_mod, b, h, q_len, kv_len, *, block=128, device=None, on=None, gpu=None):
    """The lists of blocks of 'block' queries by 'block' keys in which mask_mod(b, h, q, kv) holds somewhere, and everywhere: a BlockMask for
    flex_attention, which is made once and used in many calls.

    b, h       batch and query heads that the mask tells apart; None or 1: it is the same for all
    device     of PyTorch's tensors, "cuda"; where none is said, that of the arrays which the function captures, else lists are NumPy's
    on, gpu    without a GPU's arrays: "interpreter", or "emulator" of the GPU that is named, or "gpu"

    A kernel counts the keys that each query sees of each block; it writes b*h*q_len*kv_len/block numbers of 4 bytes.
    """
    from ._flex import counted
    for name, value in (("b", b), ("h", h), ("q_len", q_len), ("kv_len", kv_len), ("block", block)):
        is_none = value is None and name in "bh"
        if not is_none and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} is a whole number above 0{', or None' if name in 'bh' else ''}; found {value!r}")
    if block > SIZE_MOST:
        raise ValueError(f"block is at most {SIZE_MOST}; found {block}")
    batch, heads, blocks = b or 1, h or 1, -(-kv_len // block)
    text = counted(mask_mod, block)
    tables = text.cut({"b": batch, "head": heads, "q": q_len, "kv": kv_len})
    seen = empty(device, tables.values(), (batch, heads, q_len, blocks))
    program_of(text.plain, on, gpu, {}, None)(seen=seen, kv_len=kv_len, **tables)
    return BlockMask(mask_mod, (q_len, kv_len), block, lists_of(seen, q_len, kv_len, block))


def empty(device, tables, shape):
    tensors = [one for one in tables if is_torch(one)]
    if device is None and not tensors:
        import numpy
        return numpy.empty(shape, numpy.float32)
    import torch
    return torch.empty(shape, dtype=torch.float32, device=tensors[0].device if device is None else device)


def lists_of(seen, q_len, kv_len, size):
    """The lists of counts (b, h, q, blocks of keys)."""
    blocks = -(-q_len // size)
    padded = zeros(seen, (*seen.shape[:2], blocks * size, seen.shape[3]), seen.dtype)
    padded[:, :, :q_len] = seen
    count = padded.reshape(*seen.shape[:2], blocks, size, seen.shape[3]).sum(3)
    rows = smaller(q_len - counting(seen, blocks) * size, size)
    columns = smaller(kv_len - counting(seen, seen.shape[3]) * size, size)
    full = count == rows[:, None] * columns
    part = (count > 0) & ~full
    return [whole_numbers(array) for one in (part, full) for array in (one.sum(-1), greatest_first(whole_numbers(one)))]
