#!/usr/bin/env python3
"""Writes the lists that the code has into the documents: lists.py FLASHTL [--check]

docs/lists.md is made whole: passes, pins, operations, instructions, commands. In other pages a list stands between
`<!-- list: NAME -->` and `<!-- end of list -->`. Lists that a page words by itself are compared: every operation is in the
language's page and in its grammar, and a pin that a page names as `NAME=0` is one. With --check nothing is written, and
what differs is said.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/lists.md"


def table(head, rows):
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head)] + escaped) + "\n"


def code(word):
    return f"`{word}`"


def told(flashtl, *words):
    return subprocess.run([flashtl, "help", *words], capture_output=True, text=True, check=True).stdout


def named(text):
    """(name, what it is) of the lines '  NAME  WORDS'."""
    return re.findall(r"^  ([A-Za-z_]+) {1,}(\S.*)$", text, re.M)


def definition(path):
    """The rows of a .def: word before '(', and the arguments; without comments and directives."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M)
    for match in re.finditer(r"^([A-Z]+)\(", text, re.M):
        depth, at = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield match.group(1), re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s][^,"]*', text[match.end():at - 1])


def operations():
    """(spelling, operands, shape, meaning)"""
    for _, a in definition("src/tl/operations.def"):
        yield a[1].strip('"'), a[2].strip(), a[3].strip(), a[4].strip('"')


def products():
    """Per instruction: types, shape, feature."""
    rows = {}
    for kind, a in definition("src/atom/atom.def"):
        if kind != "PRODUCT":
            continue
        word, feature, type_, m, n, k, is_async, wrapper = (x.strip().strip('"') for x in a)
        word = word if n != "0" else word + "Nk" + k
        shape = f"{m} x {n if n != '0' else 'N'} x {k}"
        row = rows.setdefault(word, [shape, {}, [], "asynchronous, warpgroups" if is_async == "true" else "warps"])
        row[1][feature] = True
        row[2].append(type_[3:].lower() + ("" if wrapper != "NULL" else " (rules only)"))
    return [[code(word), shape, ", ".join(types), ", ".join(code(f) for f in features), by]
            for word, (shape, features, types, by) in rows.items()]


def movers():
    for kind, a in definition("src/atom/atom.def"):
        if kind == "MOVER":
            word, feature, from_, to, _, use = (x.strip().strip('"') for x in a)
            yield [code(word), from_[3:].lower(), to[3:].lower(), code(feature), use]


def lists(flashtl):
    passes, pins = told(flashtl, "passes").split("decisions that may be pinned", 1)
    commands = told(flashtl).split("Commands", 1)[1].split("\n\n", 1)[0]
    shapes = {"ELEMENTWISE": "elementwise", "PRODUCT": "product", "REDUCTION": "of rows"}
    return {
        "passes": table(["pass", "what it does"], [[code(n), w] for n, w in named(passes)]),
        "pins": table(["pin", "what it decides"], [[code(n), w] for n, w in named(pins)]),
        "operations": table(["operation", "operands", "result", "meaning"],
                            [[code(s), n, shapes.get(shape, shape.lower()), w] for s, n, shape, w in operations()]),
        "products": table(["`by`", "rows x columns x steps", "operands", "feature of the GPU", "issued by"], products()),
        "copies": table(["`by`", "from", "to", "feature of the GPU", "what it moves"], list(movers())),
        "commands": table(["command", "what it does"], [[code("flashtl " + n), w] for n, w in named(commands)]),
    }


def page(all_lists):
    return f"""# Lists

`tools/generate.sh` writes this page from the tables of the code; a test says where they differ.

## Passes of the reasoner
In this order; `flashtl reason --print-after PASS` stops after one. [architecture.md](architecture.md) says how they belong together.

{all_lists["passes"]}
## Pins
Decisions that `--let NAME=VALUE`, or a `let` in the sketch, takes from the reasoner, beside the tile sizes and the lengths that a sketch leaves
open. `flashtl explain --json` lists those that a kernel has, with the values that they may take.

{all_lists["pins"]}
## Operations of Compute
`src/tl/operations.def`; [language.md](language.md#compute) says how they are written.

{all_lists["operations"]}
## Instructions
`src/atom/atom.def`: what may follow `by`. Products:

{all_lists["products"]}
Copies:

{all_lists["copies"]}
## Commands

{all_lists["commands"]}"""


def with_lists(text, all_lists):
    def put(match):
        return match.group(1) + all_lists[match.group(2)] + match.group(4)
    return re.sub(r"(<!-- list: (\w+) -->\n)(.*?)(<!-- end of list -->)", put, text, flags=re.S)


def compare(all_lists):
    """What pages say by themselves."""
    language = (ROOT / "docs/language.md").read_text()
    grammar = language[language.index("## Grammar"):]
    for spelling, *_ in operations():
        if f"`{spelling}`" not in language and f" {spelling} " not in language:
            yield f"docs/language.md does not know the operation {spelling}"
        if f'"{spelling}"' not in grammar:
            yield f"the grammar of docs/language.md does not know the operation {spelling}"
    pins = set(re.findall(r"^\| `(\w+)`", all_lists["pins"], re.M))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for pin in re.findall(r"`(?:--let )?([a-z][a-z_]+)=(?:0|1|0\\?\|1|N)`", path.read_text()):
            if pin not in pins:
                yield f"{path.relative_to(ROOT)} names the pin {pin}, which there is not"


def main():
    flashtl, check = sys.argv[1], "--check" in sys.argv
    all_lists = lists(flashtl)
    wanted = {PAGE: page(all_lists)}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path != PAGE and "<!-- list: " in path.read_text():
            wanted[path] = with_lists(path.read_text(), all_lists)
    problems = list(compare(all_lists))
    for path, text in wanted.items():
        if path.exists() and path.read_text() == text:
            continue
        if check:
            problems.append(f"{path.relative_to(ROOT)} is stale: run tools/generate.sh")
        else:
            path.write_text(text)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
