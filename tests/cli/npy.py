"""A little of NumPy's file format and of attention, without NumPy."""
import math, random, struct, sys

def write(path, shape, values, kind="f4", fortran=False):
    code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "u1": "B", "b1": "?", "i4": "i", "u2": "H"}[kind]
    header = "{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s,), }" % (
        "|" if kind in ("i1", "u1", "b1") else "<", kind, fortran, ", ".join(map(str, shape)))
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack("<%d%s" % (len(values), code), *values))

def read(path):
    data = open(path, "rb").read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length])
    code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "u1": "B", "b1": "?", "i4": "i", "u2": "H"}[header["descr"][1:]]
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack("<%d%s" % (count, code), data[10 + length:])
