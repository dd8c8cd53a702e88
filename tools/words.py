#!/usr/bin/env python3
"""Fails for words that CONTRIBUTING.md asks not to use, in sources, tests, tools and documents.

The table there is the list: each of its rows has a pattern here, and each pattern a row. What models wrote (tests/think)
and what recorded data are called is left as it is; phrases in which a word is right are listed below, with the reason.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = "CONTRIBUTING.md"
TEXTS = {".md", ".c", ".h", ".def", ".py", ".sh", ".cmake", ".cuh", ".cu", ".inc", ".tl", ".gpu", ".out"}
SKIPPED = ("tests/think/answers/", "tests/think/judged/", "tests/think/records/", LIST, "tools/words.py")

# By the first cell of a row: what is not to be found. None: a matter of judgement, no pattern decides it.
PATTERNS = {
    "behind (in time or along an axis)": r"behind",
    "mend": r"mend(s|ed|ing)?",
    "talk": r"talk(s|ed|ing)?",
    "taken in": r"(take|takes|taken|taking|took) in",
    "hand on": r"hand(s|ed|ing)? (it |them )?on",
    "every so manyth": r"so manyth",
    "stands in, lies in": None,
    "for want of": r"for want of",
    "so far as": r"so far as",
    "new, improved, v2 in names": None,
}

# Where the word is right: the phrase, and why.
RIGHT = {
    r"(leave|leaves|leaving|left)( \w+){0,3} behind": "the usual phrase",
    r"(LOAD|STORE)\(behind,": "what recorded data of a GPU are called",
    r"(take|takes|taken|taking|took) in (every|one) ":
        "'in' belongs to what follows, as in 'taken in one run'",
}


def rows():
    """First cells of the table of words."""
    section = (ROOT / LIST).read_text().split("### Words", 1)[1]
    cells = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    return cells[2:]


def tracked():
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listing.returncode:
        return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if not str(p.relative_to(ROOT)).startswith("build")]
    return [name for name in listing.stdout.split("\0") if name]


def faults(text, not_wanted, right):
    """(line, word), of words within one line or over the end of one."""
    spared = [match.span() for pattern in right for match in pattern.finditer(text)]
    for match in not_wanted.finditer(text):
        if not any(begin <= match.start() < end for begin, end in spared):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match.group().split())


def check_itself(not_wanted, right):
    wrong = "what lies behind the end\nit takes in all rows' ends\nevery so manyth\nhands it on\nIt is mended\nso\n * far as"
    good = "what a writer left behind\nratios that were taken in one run\nrecommended\nhandle on\nas far as"
    found = [word for _, word in faults(wrong.replace("\n * ", "\n"), not_wanted, right)]
    if len(found) != 6 or list(faults(good, not_wanted, right)):
        sys.exit(f"words.py does not find what it should: {found}, {list(faults(good, not_wanted, right))}")


def main():
    problems = []
    for row in rows():
        if row not in PATTERNS:
            problems.append(f"{LIST}: no pattern of tools/words.py is for '{row}'")
    for row in PATTERNS:
        if row not in rows():
            problems.append(f"tools/words.py: {LIST} has no row '{row}'")
    words = "|".join(f"(?:{p})".replace(" ", r"\s+") for p in PATTERNS.values() if p)
    not_wanted = re.compile(rf"\b(?:{words})\b", re.I)
    right = [re.compile(phrase.replace(" ", r"\s+"), re.I) for phrase in RIGHT]
    check_itself(not_wanted, right)
    for name in tracked():
        path = ROOT / name
        if path.suffix not in TEXTS or name.startswith(SKIPPED) or not path.is_file():
            continue
        text = re.sub(r"(?m)^( *)(\*|//|#)(?= )", lambda m: m.group(1) + " " * len(m.group(2)), path.read_text(errors="replace"))
        problems += [f"{name}:{line}: '{word}': see the words in {LIST}" for line, word in faults(text, not_wanted, right)]
    print("\n".join(problems) if problems else "words: none of those that CONTRIBUTING.md asks not to use")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
