"""A page of `flashtl view`: every statement is there, lines are linked both ways, nothing is asked of a network.

view_page.py PAGE DATA [TEXT...]: the page, what it was made from (--json), and the texts that it must have.
"""
import html.parser
import json
import re
import sys

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "circle", "rect", "line"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.lines, self.ids, self.links, self.outside = [], {}, set(), [], []
        self.pane = self.line = None
        self.scripts, self.decisions, self.figures, self.boxes = {}, {}, 0, []

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        for name in ("src", "href", "srcset", "action", "poster", "data", "xlink:href"):
            if name in a and not a[name].startswith("#"):
                self.outside.append((tag, name, a[name]))
        if "id" in a:
            assert a["id"] not in self.ids, f"two elements are called {a['id']}"
            self.ids.add(a["id"])
        if a.get("class") == "pane":
            self.pane = a["id"]
            self.lines[self.pane] = {}
        if tag == "li":
            self.line = (self.pane, a["id"])
            numbers = [int(n) for n in a.get("data-s", "").split()]
            self.lines[self.pane][a["id"]] = {"number": int(a["value"]), "about": numbers, "text": "",
                                              "class": a.get("class", ""), "title": a.get("title", "")}
        if tag == "rect" and a.get("class", "").startswith("box"):
            self.boxes.append((int(a["data-s"]), int(a["data-lane"]), "waits" in a["class"].split()))
        if (a.get("class") or "").startswith("decision"):
            self.decisions[int(a["data-d"])] = [int(n) for n in a.get("data-s", "").split()]
        if tag == "figure":
            self.figures += 1
        if tag == "script":
            self.line = ("script", a.get("id", "script"))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> ends {self.open[-1:]}"
        self.open.pop()
        if tag in ("li", "script"):
            self.line = None

    def handle_data(self, data):
        if self.line and self.line[0] == "script":
            self.scripts[self.line[1]] = self.scripts.get(self.line[1], "") + data
        elif self.line:
            self.lines[self.line[0]][self.line[1]]["text"] += data


def text_of(lines):
    return "\n".join(line["text"] for line in lines.values()) + "\n"


def check(page_path, data_path, *wanted):
    source, told = open(page_path, encoding="utf-8").read(), json.load(open(data_path, encoding="utf-8"))
    assert len(source.encode()) <= 2 << 20, f"the page has {len(source.encode())} bytes"
    page = Page()
    page.feed(source)
    page.close()
    assert not page.open, f"never ended: {page.open}"
    assert not page.outside, f"asks for {page.outside}"
    assert not re.search(r"@import|url\(|https?:|fetch\(|XMLHttp|import\(|WebSocket|EventSource", source), "asks a network"
    assert set(page.lines) == set(wanted), f"panes {sorted(page.lines)}"

    # The texts are those of the data, line by line.
    if "sketch" in wanted:
        assert text_of(page.lines["sketch"]) == told["sketch"]
    assert text_of(page.lines["code"]) == told["code"]
    assert text_of(page.lines["cuda"]) == "".join(k["cuda"] for k in told["kernels"])

    # Every statement is there, and every line says what the data say of it: both ways.
    statements = [s | {"kernel": n} for n, k in enumerate(told["kernels"]) for s in k["statements"]]
    data = json.loads(page.scripts["data"])
    assert [s["text"] for s in data["statements"]] == [s["text"] for s in statements]
    prefix = {"sketch": lambda s: "s", "code": lambda s: "c", "cuda": lambda s: f"u{s['kernel']}-", "ptx": lambda s: f"p{s['kernel']}-"}
    bases = [sum(len(k["statements"]) for k in told["kernels"][:n]) for n in range(len(told["kernels"]))]
    linked = 0
    for pane in wanted:
        there = {(i, n) for i, line in page.lines[pane].items() for n in line["about"]}
        known = set()
        for number, s in enumerate(statements):
            spans = s.get(pane) or []
            for first, last in [spans] if spans and isinstance(spans[0], int) else spans:
                known |= {(f"{prefix[pane](s)}{line}", number) for line in range(first, last + 1)}
        for step in told["taken"] if pane == "sketch" else []:
            first, last = step["sketch"]
            known |= {(f"s{line}", bases[step["kernel"]] + n) for line in range(first, last + 1) for n in step["statements"]}
            assert all("gone" in page.lines[pane][f"s{line}"]["class"] for line in range(first, last + 1))
        assert there == known, f"{pane}: {sorted(there ^ known)[:5]}"
        linked += len(there)
    code = {n for line in page.lines["code"].values() for n in line["about"]}
    assert code == set(range(len(statements))), "a statement is missing"

    # Decisions stand at their statements, and those name them.
    for number, about in page.decisions.items():
        assert data["decisions"][number]["subject"] == told["decisions"][number]["subject"]
        for n, s in enumerate(data["statements"]):
            assert (n in about) == (number in s["decisions"]), f"decision {number} and statement {n}"
    assert len(page.decisions) == len(told["decisions"])

    # Every box of the timelines is drawn, and lines whose statement waits say how long.
    boxes = [(bases[n] + b["statement"], b["lane"], b.get("waits", False)) for n, k in enumerate(told["kernels"]) for b in k["timeline"]["boxes"]]
    assert page.boxes == boxes, "a box of a timeline is missing"
    for line in page.lines["code"].values():
        stall = statements[line["about"][0]].get("stall") if line["about"] else None
        assert ("stalls" in line["class"].split()) == bool(stall and stall["clocks"]), line["text"]
        assert not stall or f"predicted to wait {stall['clocks']} clocks" in line["title"] or not stall["clocks"]
    tables = sum(len(d["tables"]) for d in told["decisions"])
    drawn = sum(bool(k["shared"]) + bool(k["timeline"]["boxes"]) for k in told["kernels"])
    assert page.figures == tables + drawn, "a figure is missing"
    return linked


if __name__ == "__main__":
    print("linked" if check(*sys.argv[1:]) > 0 else "nothing is linked")
