#!/usr/bin/env python3
"""Checks which folder includes which (the table of docs/architecture.md), that no operator is known
by name where statements become code, and that no real number is printed or read by the locale.

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

# What prints or reads real numbers by the C library's locale: base/number.h does it for all.
NUMBER_HOME = "src/base/number.c"
PRINTING = re.compile(r"\b(v?)(?:f|d|s|sn|as|w|sw|fw)?printf\s*\(")
SCANNING = re.compile(r"\b(?:v?[fs]?w?scanf)\s*\(")
READING = re.compile(r"\b(?:strto(?:d|f|ld)(?:_l)?|ato[f]|wcsto(?:d|f|ld)|setlocale|localeconv|strfrom(?:d|f|l))\s*\(")
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')
REAL = re.compile(r"%[-+ 0#']*[0-9*]*(?:\.[0-9*]*)?[lL]*[aAeEfFgG]")

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


def arguments_of(text, opening):
    """What stands between the parenthesis at 'opening' and its partner."""
    depth, at = 0, opening
    for match in re.finditer(r"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", text[opening:]):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        at = opening + match.end()
        if depth == 0:
            break
    return text[opening + 1:at - 1]


def check_numbers(relative, text):
    """No real number is printed or read by the locale of whoever called setlocale."""
    if str(relative) == NUMBER_HOME or relative.suffix not in (".c", ".h", ".inc"):
        return
    found = [(m, "reads by the locale") for m in READING.finditer(text)]
    for pattern in (PRINTING, SCANNING):
        for match in pattern.finditer(text):
            words = arguments_of(text, match.end() - 1)
            formats = "".join(LITERAL.findall(words)).replace("%%", "")
            if pattern is PRINTING and match.group(1):
                found.append((match, "prints whatever its format says"))
            elif REAL.search(formats):
                found.append((match, "takes a real number by the locale"))
            elif not formats:
                found.append((match, "has a format that stands elsewhere"))
    for match, what in found:
        line_start = text.rfind("\n", 0, match.start()) + 1
        if "__attribute__" in text[line_start:match.start()] or text[line_start:match.start()].lstrip().startswith(("*", "//")):
            continue
        line = text.count("\n", 0, match.start()) + 1
        problems.append(f"{relative}:{line}: {match.group().rstrip('( ')} {what}; use base/number.h")


def check(path, layer):
    relative = path.relative_to(root)
    text = path.read_text()
    check_numbers(relative, text)
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

print("\n".join(problems) if problems else "layers: all includes follow the table, no operator is known by name, no number depends on the locale")
sys.exit(1 if problems else 0)
