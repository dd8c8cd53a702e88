"""What the documents and the help tell a reader to type works: documented.py FLASHTL SOURCES.

Commands are lines of blocks and `flashtl ... --option` in the text of README, CONTRIBUTING and docs, and the examples of
each command's help. Those of one page run one after the other in one folder, each once, on a machine without a GPU. What
cannot run here is left out, each with its reason; of what takes long a part is run.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

flashtl, sources = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(sources / "tests" / "cli"))
import npy  # noqa: E402

GPUS = "t4|a100|l40s|h100|h200|b200"
# Command, why it is not run. Each has to be met, so that none outlives its command.
LEFT_OUT = (
    (r"^flashtl (bench|tune)\b", "times kernels on a GPU"),
    (r"--on gpu\b", "runs on a GPU"),
    (r"^(?!.*(--dry-run|--show-prompts)).*--([a-z]+-)?by\b", "asks a model"),
    (r"^flashtl demo\b", "the test 'demo' runs it"),
    (r"share-no-barrier", "shows a fault on purpose; test_emulate_share has it"),
    (r"^(cmake --install|ninja|ctest)\b", "builds, tests or installs all of it; the test 'install' does"),
    (r"^claude ", "another tool's"),
    (r"^bench/", "times kernels of others on a GPU"),
    (r"record(_hopper)?\.c ", "records what a GPU does"),
    (r"^for op in ", "times kernels on a GPU"),
)
# What takes long, and the part of it that is run.
STAND_INS = (
    (r"^make (\S+)(.*)", r"make -n -C SOURCES \1 \2"),
    (r"^cmake (?:-S \. )?-B \S+([^&]*).*", r"cmake -S SOURCES -B configured \1"),
    (r"^(flashtl build .*--gpu t4,l40s,h200 )(?:--bundle )?(.*)", r"\1\2 --no-compile --no-verify"),  # the test 'bundle' has bundles
    (r"^(flashtl verify (?!.*--case).*(?:--gpu|--on emulator).*)", r"\1 --case 0"),
)
NO_COMPILER = "there is no CUDA compiler here"


def without_comment(line):
    return re.sub(r"\s+# .*", "", line)


def parts(text):
    """(is a block's, line) of each line between fences."""
    is_block, is_shell = False, False
    for line in text.splitlines():
        if line.startswith("```"):
            is_block = not is_block
            is_shell = line in ("```", "```sh")
        elif not is_block or is_shell:
            yield is_block, line


def commands_of_page(text):
    for is_block, line in parts(text):
        if is_block:
            line = without_comment(re.sub(r"^\$ ", "", line))
            if re.match(r"(flashtl|make|cmake|ninja|ctest|cd|cc|for|bench/\S+\.py) ", line) and line.count("'") % 2 == 0:
                yield line
    # In the text, what names a program, and no word in capitals for what a reader has to put in.
    for inline in re.findall(r"`(flashtl [^`]*)`", "\n".join(line for is_block, line in parts(text) if not is_block)):
        if re.search(r"\.tl |--op ", inline) and not re.search(r"[A-Z]{3,}|\.\.\.", inline):
            yield inline


def commands_of_help():
    for name in re.findall(r"^  ([a-z]+) ", run("flashtl help").stdout, re.M):
        text = run(f"flashtl help {name}").stdout
        for line in text.partition("\nExamples\n")[2].splitlines():
            yield without_comment(line.strip())


def run(command):
    return subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL)


def prepare(text):
    """Files that commands name: a program, arrays, TL Code for each GPU, measurements, what a client of mcp sends."""
    for name in ("tests", "examples", "sketches", "gpus"):
        os.symlink(sources / name, name)
    own = re.search(r"^```tl\n(kernel .*?)^```", text, re.M | re.S)
    program = own[1] if own else run("flashtl sketch attention --causal").stdout
    for name in ("my.tl", "kernel.tl"):
        pathlib.Path(name).write_text(program)
    for name, length in (("q", 5), ("k", 7), ("v", 7)):
        npy.write(f"{name}.npy", (1, 2, length, 64), [(i % 13 - 6) / 8 for i in range(2 * length * 64)], "f2")
    for gpu in set(re.findall(rf"attention_({GPUS})\.tl", text)):
        assert run(f"flashtl sketch attention --causal | flashtl reason --gpu {gpu} --head-dim 64 > attention_{gpu}.tl").returncode == 0
    shutil.copy(sources / "gpus" / "h200.tuned", "my.tuned")
    open("requests.jsonl", "w").close()


def stand_in(command):
    for pattern, part in STAND_INS:
        if re.match(pattern, command):
            return re.sub(pattern, part, command).replace("SOURCES", str(sources))
    return command


def main():
    environment = {"FLASHTL_CACHE": "", "NO_COLOR": "1", "LC_ALL": "C", "FLASHTL_CUDA": "/no/such/libcuda.so.1",
                   "PATH": os.path.dirname(flashtl) + ":" + os.environ["PATH"]}
    os.environ.update(environment)
    pages = [(str(page.relative_to(sources)), page.read_text()) for page in
             [sources / "README.md", sources / "CONTRIBUTING.md", *sorted((sources / "docs").glob("*.md"))]]
    pages = [(name, text, [*commands_of_page(text)]) for name, text in pages]
    examples = [*commands_of_help()]
    pages.append(("help", "\n".join(examples), examples))
    met, failed, ran = set(), 0, 0
    for name, text, commands in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["HOME"] = folder
            if commands:
                prepare(text)
            seen = set()
            for command in commands:
                if command in seen:
                    continue
                seen.add(command)
                reasons = [(pattern, why) for pattern, why in LEFT_OUT if re.search(pattern, command)]
                if reasons:
                    met.add(reasons[0][0])
                    print(f"left out: {name}: {command}: {reasons[0][1]}")
                    continue
                shown = stand_in(command)
                missing = [words.split()[0] for words in shown.split("|") if not shutil.which(words.split()[0])]
                if missing:
                    print(f"left out: {name}: {command}: there is no '{missing[0]}' here")
                    continue
                done = run(shown)
                ran += 1
                if done.returncode == 3 and "no CUDA compiler" in done.stderr:
                    print(f"left out: {name}: {command}: {NO_COMPILER}")
                elif done.returncode:
                    failed += 1
                    print(f"FAILED: {name}: {command}\n  status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
                else:
                    print(f"ran: {name}: {command}" + ("" if shown == command else f": as '{shown}'"))
            os.chdir("/")
    for pattern, why in LEFT_OUT:
        if pattern not in met:
            failed += 1
            print(f"FAILED: nothing is left out any more because it '{why}' ({pattern})")
    print(f"{ran} commands ran, {failed} failed")
    return failed > 0 or ran < 20


if __name__ == "__main__":
    sys.exit(main())
