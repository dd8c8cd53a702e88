"""Every allocation of the command fails once: it ends with status 3 and a sentence, or with what it does otherwise.

allocations.py FLASHTL FAIL_LIBRARY FAKE_CUDA FAKE_NVRTC [--all]

Never a signal, never another text with status 0, never a rejection (1) or a wrong command line (2) that is none. Of a command
with many allocations the first 60 and a sample of the others are tried; --all tries each.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

flashtl, library, fake_cuda, fake_nvrtc = (os.path.abspath(path) for path in sys.argv[1:5])
FIRST, SAMPLE = 60, 25
TUNES = " tune " in subprocess.run([flashtl, "help"], capture_output=True, text=True, check=True).stdout
SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent
MESSAGES = "\n".join(
    '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % message
    for message in (
        (1, "initialize", '{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}'),
        (2, "tools/list", "{}"),
    )
) + "\n"
COMMANDS = (
    ("reason", "my.tl", "--gpu", "h200", "--head-dim", "64"),
    ("reason", "--op", "gqa", "--causal", "--gpu", "t4", "--let", "BN=64"),
    ("explain", "my.tl", "--gpu", "a100", "--head-dim", "64"),
    ("view", "my.tl", "--gpu", "a100", "--head-dim", "64", "--no-compile"),
    ("view", "plain.tl", "--gpu", "t4", "--let", "d=64", "--json"),
    ("derive", "my.tl"),
    ("check", "my.tl"),
    ("check", "wrong.tl", "--json"),
    ("translate", "code.tl"),
    ("translate", "--plan", "code.tl"),
    ("build", "my.tl", "--gpu", "t4,h200", "--head-dim", "64", "-o", "kernels"),
    ("verify", "plain.tl", "--shapes", "3x5", "--gpu", "t4", "--on", "interpreter"),
    ("verify", "plain.tl", "--shapes", "3x5,4x0", "--json"),
    ("run", "plain.tl", "--in", "X=x.npy", "--out", "Y=y.npy"),
    ("sketch", "gqa", "--causal"),
    ("fmt", "my.tl"),
    ("gpus", "--json"),
    ("gpus", "t4"),
    ("grammar", "--format", "gbnf"),
    ("help", "--form", "man"),
    ("evaluate", "--list"),
    ("think", "--op", "gqa", "--show-prompts", "--gpu", "t4", "--head-dim", "64"),
    ("mcp",),
    ("help", "build"),
    ("emulate", "share.ptx", "--plan", "share.json", "--let", "n=300"),
    ("run", "plain.tl", "--gpu", "t4", "--on", "gpu", "--in", "X=wide.npy", "--let", "d=64"),
    ("cache", "--cache", "kept"),
    ("cache", "size", "--cache", "kept", "--json"),
    ("bench", "--grid", "grid"),
    ("sketch", "--by", "exec:./model.sh", "--no-stream", "grouped heads"),
)
if TUNES:
    COMMANDS += (("tune", "--gpu", "h200", "--database", "results"), ("evaluate", "--gpu", "t4", "--by", "exec:none", "--dry-run"))
PLAIN = """kernel plain
Input X f32 (row in row_len, d)
Output Y f32 (row in row_len, d)
Copy X from global to register and get Y
Copy Y from register to global
"""


def run(command, fail_at=0):
    environment = dict(os.environ, LD_PRELOAD=library, **({"FAIL_AT": str(fail_at)} if fail_at else {"FAIL_COUNT": "1"}))
    done = subprocess.run([flashtl, *command], env=environment, input=MESSAGES, capture_output=True, text=True,
                          errors="replace", timeout=1800)
    # Where NVRTC cannot be opened the next compiler is asked, which says other figures.
    seconds = re.compile(r"[0-9.]+ (s|ms)\b|\"(seconds|[a-z_]*ms)\":[0-9.e-]+| *\d+ registers +\d+ bytes spilled")
    return done.returncode, seconds.sub("", done.stdout), done.stderr


def numbers(count):
    if "--all" in sys.argv or count <= FIRST:
        return range(1, count + 1)
    step = max(1, (count - FIRST) // SAMPLE)
    return [*range(1, FIRST + 1), *range(FIRST + 1, count + 1, step)]


def main():
    failures = tried = 0
    os.environ.update(FLASHTL_CACHE="", NO_COLOR="1", LC_ALL="C", FLASHTL_CUDA=fake_cuda, FLASHTL_NVRTC=fake_nvrtc)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import npy
        npy.write("x.npy", (2, 2), [1.0, 2.5, -3.0, 4.0])
        npy.write("wide.npy", (2, 64), [0.5] * 128)
        for name, text in (("plain.tl", PLAIN), ("wrong.tl", PLAIN.replace("get Y", "get Z"))):
            with open(name, "w") as file:
                file.write(text)
        for name, command in (("my.tl", ("sketch", "gqa", "--causal")), ("code.tl", ("reason", "my.tl", "--gpu", "h200"))):
            with open(name, "w") as file:
                file.write(run(command)[1])
        # The emulator's example of docs/emulator.md, a cache with a kernel in it, a grid, and a model that is a script.
        with open("share.json", "w") as file:
            file.write(re.search(r"^```json\n(.*?)^```", (SOURCES / "docs/emulator.md").read_text(), re.M | re.S)[1])
        shutil.copy(SOURCES / "tests/fuzz/corpus/ptx/share.ptx", "share.ptx")
        subprocess.run([flashtl, "run", "plain.tl", "--gpu", "t4", "--on", "gpu", "--in", "X=wide.npy", "--let", "d=64"], check=True,
                       env=dict(os.environ, FLASHTL_CACHE="kept"), capture_output=True)
        with open("grid", "w") as file:
            file.write("mine 1 64 4 2 64 causal\n")
        with open("model.sh", "w") as file:
            file.write(f"#!/bin/sh\necho '```tl'\ncat '{folder}/my.tl'\necho '```'\n")
        os.chmod("model.sh", 0o755)
        for command in COMMANDS:
            status, text, said = run(command)
            found = re.search(r"(\d+) allocations\n\Z", said)
            assert found and int(found[1]) > 1 and status in (0, 1), (command, status, said)
            for number in numbers(int(found[1])):
                failed_status, failed_text, why = run(command, number)
                is_told = failed_status == 3 and "flashtl: " in why
                tried += 1
                if is_told or (failed_status == status and failed_text == text):
                    continue
                failures += 1
                print(f"flashtl {' '.join(command)}: allocation {number} failed: status {failed_status}, {why.strip()[-200:]}")
    print(f"{tried} failed allocations of {len(COMMANDS)} commands")
    print(f"{tried - failures} passed, {failures} failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
