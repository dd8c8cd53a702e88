"""The programs in C that documents show compile: c_documents.py COMPILER INCLUDE DOCUMENT[=EXAMPLE]...

All blocks of C of a document are one file, as its reader would put them together. Where there is an example of the
document (DOCUMENT=EXAMPLE), each block stands in it as it is.
"""
import pathlib
import re
import subprocess
import sys

compiler, include, documents = sys.argv[1], sys.argv[2], sys.argv[3:]
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c", "-"]


def blocks(text):
    """The lines between ```c and ```; others are empty, so that lines keep their numbers."""
    is_block = False
    for line in text.splitlines():
        is_fence = line.startswith("```")
        yield line if is_block and not is_fence else ""
        is_block = line == "```c" if is_fence else is_block


for document in documents:
    document, _, example = document.partition("=")
    text = "\n".join(blocks(pathlib.Path(document).read_text()))
    shown = re.findall(r"^```c\n(.*?)^```", pathlib.Path(document).read_text(), re.M | re.S)
    for block in shown if example else []:
        assert block in pathlib.Path(example).read_text(), f"{example} has not what {document} shows:\n{block}"
    assert "#include" in text, f"{document} shows no program in C"
    done = subprocess.run([compiler, "-I", include, *FLAGS], input=text + "\n", text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{document}: {done.stderr}")
