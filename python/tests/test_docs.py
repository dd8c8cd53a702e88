"""The examples of docs/python.md run, and print what the page says: blocks of Python in one namespace, from top to bottom.

A line `# prints TEXT` after a statement says what it has printed; `# raises NAME: TEXT` what it has raised. Blocks that need a GPU
or PyTorch say so in their first line and are compiled alone."""
import contextlib
import io
import re

import numpy as np

import flashtl
from helpers import Case, SOURCE


def blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def steps(block):
    """[(code, wanted)] of a block: what stands before each comment that says what comes of it."""
    code, found = "", []
    for line in block.splitlines(keepends=True):
        match = re.match(r"# (prints|raises) (.*)", line)
        if match:
            found.append((code, match.groups()))
            code = ""
        else:
            code += line
    return [*found, (code, None)]


class Documents(Case):
    def test_blocks(self):
        names, ran = {"np": np}, 0
        for block in blocks((SOURCE / "docs/python.md").read_text()):
            compile(block, "docs/python.md", "exec")
            if block.startswith(("# on a GPU", "# with PyTorch")):
                continue
            for code, wanted in steps(block):
                printed, raised = io.StringIO(), None
                with contextlib.redirect_stdout(printed):
                    try:
                        exec(code, names)
                    except Exception as why:
                        if not wanted or wanted[0] != "raises":
                            raise
                        raised = f"{type(why).__name__}: {why}"
                ran += 1
                if wanted:
                    self.assertEqual((raised or printed.getvalue()).strip(), wanted[1])
        self.assertGreater(ran, 10)

    def test_every_public_name_is_described(self):
        text = (SOURCE / "docs/python.md").read_text()
        for name in flashtl.__all__:
            self.assertIn(name, text)
