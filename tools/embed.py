#!/usr/bin/env python3
"""Writes text files as a C table: embed.py TABLE OUTPUT.c FILE..."""
import pathlib
import sys

table, output, *files = sys.argv[1:]
lines = ['#include "base/embedded.h"', "", f"const embedded_file embedded_{table}[] = {{"]
for path in sorted(map(pathlib.Path, files)):
    text = path.read_bytes()
    lines.append(f'    {{"{path.stem}", (const char[]){{')
    for start in range(0, len(text), 24):
        lines.append("        " + "".join(f"{byte - 256 * (byte > 127)}, " for byte in text[start:start + 24]))
    lines.append(f"        0}}, {len(text)}}},")
lines += ["    {0, 0, 0},", "};", ""]
target = pathlib.Path(output)
target.parent.mkdir(parents=True, exist_ok=True)
target.write_text("\n".join(lines))
