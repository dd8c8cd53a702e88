#!/usr/bin/env python3
"""Checks which folder includes which (the table of docs/architecture.md), and that no operator is
known by name where statements become code.

Every folder of src/ may include its own headers, those of the folders in its row, and the public
headers where its row says so. Anything else fails, and so does a folder without a row.
"""
import pathlib
import re
import sys

PUBLIC = "public"  # include/flashtl
root = pathlib.Path(__file__).resolve().parent.parent


def read_table():
    """{folder: [folders it may include]} from the rows of docs/architecture.md."""
    rows = {}
    text = (root / "docs/architecture.md").read_text()
    for folder, allowed in re.findall(r"^\| `(?:src|include)/(\w+)/` \|.*\| ([^|]+) \|$", text, re.M):
        rows[PUBLIC if folder == "flashtl" else folder] = [w for w in allowed.split() if w != "–"]
    return rows


MAY_INCLUDE = read_table()
# Only where they are wrapped: headers of the system and of libraries that others must not touch.
SYSTEM = ["base/os.c", "base/os_process.c"]
ONLY_IN = {
    "dlfcn.h": SYSTEM, "unistd.h": SYSTEM, "fcntl.h": SYSTEM, "sys/stat.h": SYSTEM, "sys/resource.h": SYSTEM,
    "sys/wait.h": SYSTEM, "sys/mman.h": SYSTEM, "poll.h": SYSTEM, "dirent.h": SYSTEM, "xxhash.h": ["base/hash.c"],
    "sqlite3.h": ["tune/database.c", "tune/store.c", "evaluate/results.c"],
}
LINES_MOST = 1000

# The passes, the translator and the instructions know statements, not operators.
NAMELESS = ["reason", "translate", "device"]
OPERATORS = sorted({p.stem for p in (root / "sketches").glob("*.tl")}
                   | {"mha", "gqa", "mqa", "mla", "causal", "softcap", "alibi", "flash"})
operator = re.compile(r"(?<![a-z])(" + "|".join(OPERATORS) + r")(?![a-z])", re.I)
include = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
problems = []


def layer_of_header(header):
    first = header.split("/")[0]
    return PUBLIC if first == "flashtl" else first


def check(path, layer):
    relative = path.relative_to(root)
    text = path.read_text()
    if text.count("\n") > LINES_MOST:
        problems.append(f"{relative}: more than {LINES_MOST} lines")
    for match in operator.finditer(text) if layer in NAMELESS else ():
        line = text.count("\n", 0, match.start()) + 1
        problems.append(f"{relative}:{line}: {layer} knows no operators ({match.group(1)})")
    for match in include.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        quoted, header = match.group(1) == '"', match.group(2)
        if not quoted:
            homes = ONLY_IN.get(header)
            if homes and str(relative).removeprefix("src/") not in homes:
                problems.append(f"{relative}:{line}: <{header}> belongs to {homes[0]}")
            continue
        target = layer_of_header(header)
        if target != layer and target not in MAY_INCLUDE[layer]:
            problems.append(f"{relative}:{line}: {layer} may not include {target} ({header})")
        home = root / ("include" if target == PUBLIC else "src") / header
        if not home.exists():
            problems.append(f"{relative}:{line}: there is no {header}")


for folder in sorted((root / "src").iterdir()):
    if not folder.is_dir():
        continue
    if folder.name not in MAY_INCLUDE:
        problems.append(f"src/{folder.name}: no row in the table of layers")
        continue
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".c", ".h", ".def", ".inc", ".cuh"):
            check(path, folder.name)
for path in sorted((root / "include/flashtl").glob("*.h")):
    check(path, PUBLIC)

print("\n".join(problems) if problems else "layers: all includes follow the table, and no operator is known by name")
sys.exit(1 if problems else 0)
