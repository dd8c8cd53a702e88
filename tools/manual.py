#!/usr/bin/env python3
"""Prints a manual page of section 5 or 7: manual.py language|gpu

flashtl-language(7) is docs/language.md; flashtl-gpu(5) is docs/adding-a-gpu.md with the keys and features of
src/gpu/*.def. Only the Markdown that these pages use is understood.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 78


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return text.translate({ord(c): "\\[u%04X]" % ord(c) for c in set(text) if ord(c) > 126})


def inline(text):
    """Code in bold, emphasis in italics, links as their words."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if part.startswith("`") and len(part) > 1:
            parts[i] = "\\fB" + escape(part[1:-1]) + "\\fR"
        else:
            parts[i] = re.sub(r"\*+([^*\s][^*]*)\*+", r"\\fI\1\\fR", escape(part))
    return "".join(parts)


def lines_of(text):
    """Lines of at most WIDTH bytes; a sentence begins a line; none begins as a request."""
    for sentence in re.split(r"(?<=[A-Za-z)`][.:]) (?=[A-Z\\\\])", " ".join(text.split())):
        line = ""
        for word in sentence.split(" "):
            if line and len(line) + 1 + len(word) > WIDTH:
                yield line
                line = ""
            if not line and word[:1] in ".'":
                word = "\\&" + word
            line = f"{line} {word}" if line else word
        if line:
            yield line


def paragraph(text):
    return list(lines_of(inline(text)))


def cells(row):
    row = row.strip().strip("|").replace("\\|", "\0")
    return [cell.strip().replace("\0", "|") for cell in row.split("|")]


def table(rows):
    """The first column names, the others say."""
    out = [".Bl -tag -width Ds"]
    for row in rows[2:]:
        name, *rest = cells(row)
        out.append(".It " + inline(name))
        out += paragraph("; ".join(cell for cell in rest if cell))
    return out + [".El"]


def literal(block):
    code = [re.sub(r"^([.'])", r"\\&\1", escape(line)) for line in block]
    return [".Bd -literal -offset indent"] + code + [".Ed"]


class Page:
    def __init__(self):
        self.out = []
        self.needs_break = False

    def add(self, lines, is_paragraph=False):
        if self.needs_break and is_paragraph:
            self.out.append(".Pp")
        self.out += lines
        self.needs_break = True

    def heading(self, level, title):
        title = title.replace("...", "\\&...\\&")
        macro = ".Sh " + escape(title.upper()) if level == 2 else ".Ss " + title
        self.out.append(macro)
        self.needs_break = False

    def markdown(self, text):
        lines, i = text.split("\n"), 0
        while i < len(lines):
            line, begin = lines[i], i
            if line.startswith("```"):
                i += 1
                while not lines[i].startswith("```"):
                    i += 1
                self.add(literal(lines[begin + 1 : i]))
                i += 1
            elif line.startswith("    ") and line.strip():
                while i < len(lines) and lines[i].startswith("    "):
                    i += 1
                self.add(literal([code[4:] for code in lines[begin:i]]))
            elif line.startswith("#"):
                level = len(line) - len(line.lstrip("#"))
                if level > 1:
                    self.heading(level, line.lstrip("# "))
                i += 1
            elif line.startswith("|"):
                while i < len(lines) and lines[i].startswith("|"):
                    i += 1
                self.add(table(lines[begin:i]))
            elif re.match(r"([*-]|\d+\.) ", line):
                self.out.append(".Bl -bullet")
                while i < len(lines) and lines[i].strip():
                    item = [re.sub(r"^([*-]|\d+\.) ", "", lines[i])]
                    i += 1
                    while i < len(lines) and lines[i].startswith(" "):
                        item.append(lines[i])
                        i += 1
                    self.out += [".It"] + paragraph(" ".join(item))
                self.out.append(".El")
                self.needs_break = True
            elif line.strip():
                while i < len(lines) and lines[i].strip() and not re.match(r"```|\||#|[*-] |    ", lines[i]):
                    i += 1
                text = " ".join(lines[begin:i])
                if not text.startswith("Contents:"):
                    self.add(paragraph(text), True)
            else:
                i += 1


def definitions(path, macros):
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    for macro, arguments in re.findall(r"^(\w+)\((.*?)\)$", text, flags=re.S | re.M):
        if macro in macros:
            words = re.findall(r'"((?:[^"\\]|\\.)*)"|([\w.]+)', arguments)
            yield macro, [quoted or plain for quoted, plain in words]


def keys(page):
    page.heading(2, "Keys and units")
    page.out.append(".Bl -tag -width Ds")
    for macro, words in definitions("src/gpu/fields.def", ("GPU_TEXT", "GPU_INTEGER", "GPU_REAL")):
        if macro == "GPU_TEXT":
            page.out += [".It " + inline(f"`{words[0]}`")] + paragraph(words[1])
        else:
            key, unit, least, most, meaning = words
            page.out.append(".It " + inline(f"`{key}` {unit}".strip()))
            page.out += paragraph(f"{meaning}; {least} to {most}")
    page.out.append(".El")
    page.heading(2, "Features")
    page.out.append(".Bl -tag -width Ds")
    for _, words in definitions("src/gpu/features.def", ("FEATURE",)):
        page.out += [".It " + inline(f"`{words[0]}`")] + paragraph(words[1])
    page.out.append(".El")


def language(page):
    text = (ROOT / "docs/language.md").read_text()
    page.out += [".Sh NAME", ".Nm flashtl-language", ".Nd tiles, what moves them and what is computed from them"]
    page.heading(2, "Description")
    page.markdown(text)


def gpu(page):
    text = (ROOT / "docs/adding-a-gpu.md").read_text()
    page.out += [".Sh NAME", ".Nm flashtl-gpu", ".Nd what a description of a GPU holds"]
    page.heading(2, "Description")
    page.markdown(text.split("## A new generation")[0])
    keys(page)


def main():
    pages = {"language": ("FLASHTL-LANGUAGE 7", language), "gpu": ("FLASHTL-GPU 5", gpu)}
    if len(sys.argv) != 2 or sys.argv[1] not in pages:
        sys.exit(__doc__.split("\n")[0])
    title, write = pages[sys.argv[1]]
    page = Page()
    page.out += [
        ".\\\" Generated by tools/manual.py from docs and tables; edit those instead.",
        ".Dd $Mdocdate$",
        ".Dt " + title,
        ".Os",
    ]
    write(page)
    page.out += [".Sh SEE ALSO", ".Xr flashtl 1"]
    print("\n".join(page.out))


main()
