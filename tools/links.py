#!/usr/bin/env python3
"""Checks that the documentation holds together: every link to a file or a heading of this
repository resolves; every page of docs/decisions has at most 60 lines and a number of its own, which
its heading repeats and the index lists; and whoever names a decision by number, or a page of docs/ by path, names one
that is there.
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
DECISIONS = "docs/decisions"
DECISION_LINES = 60
TEXTS = {".md", ".c", ".h", ".def", ".py", ".sh", ".txt", ".cmake", ".cuh", ".tl", ".gpu"}
problems = []


def tracked():
    """Files of the repository; without git (an unpacked archive), those in its folders."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*")]
    return [name for name in names
            if pathlib.Path(name).suffix in TEXTS and not name.startswith("build")
            and (root / name).is_file()]


def prose(text):
    """The text without blocks of code, whose brackets are no links; lines keep their numbers."""
    blank = lambda match: "\n" * match.group().count("\n")
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^```.*?^```", blank, text, flags=re.M | re.S))


def anchors(path):
    """The names that a reader's browser gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    names = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 1
        unique = name
        while unique in names:
            unique, number = f"{name}-{number}", number + 1
        names.add(unique)
    return names


def check_links(name, text):
    for match in re.finditer(r"\]\(([^)\s]+)\)", prose(text)):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        line = prose(text).count("\n", 0, match.start()) + 1
        path = (root / name).parent / target if target else root / name
        if not path.exists():
            problems.append(f"{name}:{line}: '{target}' is not there")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            problems.append(f"{name}:{line}: '{match.group(1)}' has no such heading")


def check_decisions():
    """The numbers that are taken."""
    index = (root / DECISIONS / "README.md").read_text()
    taken = {}
    for path in sorted((root / DECISIONS).glob("*.md")):
        if path.name == "README.md":
            continue
        number, heading = path.name[:3], path.read_text().split("\n")[0]
        if not re.fullmatch(r"\d{3}-[a-z-]+\.md", path.name):
            problems.append(f"{DECISIONS}/{path.name}: no name of the form 001-words.md")
        if path.read_text().count("\n") > DECISION_LINES:
            problems.append(f"{DECISIONS}/{path.name}: more than {DECISION_LINES} lines: context, choices and price; what was "
                            "measured belongs to a page of its topic")
        if number in taken:
            problems.append(f"{DECISIONS}/{path.name}: {taken[number]} has the same number")
        if not heading.startswith(f"# {number} "):
            problems.append(f"{DECISIONS}/{path.name}: the heading does not begin with {number}")
        if f"- [{number}]({path.name}) {heading[6:]}\n" not in index:
            problems.append(f"{DECISIONS}/README.md: no line for {path.name} and its heading")
        taken[number] = path.name
    return taken


def check_mentions(name, text, taken):
    for match in re.finditer(r"\bdecision (\d{3})\b(?:\]\([^)]*?(\d{3})-)?", text):
        line = text.count("\n", 0, match.start()) + 1
        if match.group(1) not in taken:
            problems.append(f"{name}:{line}: there is no decision {match.group(1)}")
        if match.group(2) and match.group(2) != match.group(1):
            problems.append(f"{name}:{line}: {match.group()} points to another decision")
    for match in re.finditer(r"\bdocs/[\w/-]+\.md\b", text):
        line = text.count("\n", 0, match.start()) + 1
        if not (root / match.group()).exists():
            problems.append(f"{name}:{line}: there is no {match.group()}")


taken = check_decisions()
for name in tracked():
    text = (root / name).read_text()
    if name.endswith(".md"):
        check_links(name, text)
    check_mentions(name, text, taken)
print("\n".join(problems) if problems else f"links: {len(taken)} decisions; every link resolves")
sys.exit(1 if problems else 0)
