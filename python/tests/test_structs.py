#!/usr/bin/env python3
"""python/flashtl/_c.py says what the headers say: structs field by field, statuses, types. Needs no package, no NumPy."""
import ctypes as c
import importlib.util
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("_c", SOURCE / "python/flashtl/_c.py")
_c = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_c)
HEADERS = {path.name: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in [*(SOURCE / "include/flashtl").glob("*.h"), SOURCE / "python/again.h"]}
TEXT = "\n".join(HEADERS.values())
PLAIN = {"size_t": c.c_size_t, "int32_t": c.c_int32, "int64_t": c.c_int64, "uint64_t": c.c_uint64, "double": c.c_double, "bool": c.c_bool}
LENGTHS = {"FTL_AXES_MAX": 8, "AGAIN_TENSORS_MOST": 12}
BEGINNINGS = {"ftl_plan"}  # of which only the first fields are there


def fields_of(name):
    """[(field, type, pointers, length or None)] of a struct."""
    body = re.search(r"typedef struct " + name + r" \{(.*?)\} " + name + ";", TEXT, re.S).group(1)
    found = []
    for line in body.replace("\n", " ").split(";"):
        match = re.match(r"\s*(?:const )?(?:unsigned )?(\w+) (.*)$", line.strip())
        if not match:
            continue
        for field in match.group(2).replace("const *", "*").split(","):
            stars, word, length = re.match(r"\s*(\**)\s*(\w+)(?:\[(\w+)\])?", field).groups()
            found.append((word, match.group(1), len(stars), length and int(LENGTHS.get(length, length))))
    return found


def ctype_of(kind, stars, length):
    """What a field of a header may be here."""
    struct = getattr(_c, kind, None)
    if stars:
        return {c.c_char_p, c.c_void_p} if kind == "char" else {c.c_void_p, struct and c.POINTER(struct), c.py_object if kind == "void" else None}
    one = PLAIN.get(kind) or struct or (c.c_char if kind == "char" else c.c_int)
    return {one * length} if length else {one}


class Structs(unittest.TestCase):
    def test_every_struct(self):
        structs = [value for value in vars(_c).values() if isinstance(value, type) and issubclass(value, c.Structure)]
        self.assertGreater(len(structs), 15)
        for struct in structs:
            with self.subTest(struct=struct.__name__):
                header = fields_of(struct.__name__)
                own = struct._fields_
                if struct.__name__ not in BEGINNINGS:
                    self.assertLessEqual(len(own), len(header))
                    self.assertTrue(len(own) == len(header) or own[0][0] == "struct_bytes", "a field is missing")
                for (name, kind), (field, field_kind, stars, length) in zip(own, header):
                    self.assertEqual(name, field)
                    self.assertIn(kind, ctype_of(field_kind, stars, length), name)

    def test_values(self):
        named = dict(re.findall(r"FTL_(\w+) = (\d+)", TEXT))
        for name, value in _c.TYPES.items():
            self.assertEqual(int(named[name.upper()]), value)
        table = re.findall(r'TYPE\(\w+, "(\w+)", (\d+), (\d+),', (SOURCE / "src/base/types.def").read_text())
        self.assertEqual({name: int(number) for name, number, _ in table}, _c.TYPES)
        self.assertEqual({name: int(bits) for name, _, bits in table}, _c.BITS)
        for name in ("INPUT", "OUTPUT", "EXACT", "DIAGNOSTICS_TEXT", "DIAGNOSTICS_JSON"):
            self.assertEqual(int(named[name]), getattr(_c, name))
        listed = dict(re.findall(r"X\((\w+), (\d+),", TEXT))
        for name in ("OK", "REJECTED", "INVALID_ARGUMENT", "CHECK_FAILED"):
            self.assertEqual(int(listed[name]), getattr(_c, name))
        self.assertEqual(int(re.search(r"FTL_AXES_MAX = (\d+)", TEXT).group(1)), _c.AXES_MAX)


if __name__ == "__main__":
    unittest.main()
