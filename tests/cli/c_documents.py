"""The programs in C that documents show compile: c_documents.py COMPILER INCLUDE DOCUMENT...

All blocks of C of a document are one file, as its reader would put them together.
"""
import pathlib
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
    text = "\n".join(blocks(pathlib.Path(document).read_text()))
    assert "#include" in text, f"{document} shows no program in C"
    done = subprocess.run([compiler, "-I", include, *FLAGS], input=text + "\n", text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{document}: {done.stderr}")
