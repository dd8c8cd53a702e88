"""Loops that leave out whole blocks by a table: the texts in skips/ pass `check`, and each of them is
refused with one Copy, Wait or Release taken out, or with one `if` going by another block.

With --programs the texts are run against their sketches instead, on interpreter and emulator; 77: there is no compiler.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

FLASHTL = sys.argv[1]
FOLDER = pathlib.Path(__file__).parent / "skips"
TEXTS = sorted(path for path in FOLDER.glob("*.tl") if not path.name.startswith("sketch"))
GUARD = re.compile(r"(allow|kind)\[q_block, ([^\]]*)\]")


def check(text: str) -> str:
    """What `check` has to say; nothing where the text passes."""
    done = subprocess.run([FLASHTL, "check", "-"], input=text, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"check ended with {done.returncode}: {done.stderr}")
    return "" if done.returncode == 0 else done.stdout + done.stderr


def mutants(text: str) -> list[tuple[str, str]]:
    """(what was done, text)"""
    lines, made = text.splitlines(), []

    def put(number: int, line: list[str], what: str) -> None:
        changed = lines[:number] + line + lines[number + 1:]
        made.append((f"line {number + 1}: {what}", "\n".join(changed) + "\n"))

    for number, line in enumerate(lines):
        said = line.strip()
        if re.match(r"(Copy|Wait|Release) ", said):
            put(number, [], f"without '{said}'")
        guard = None if said.startswith("Input") else GUARD.search(line)
        if not guard or ("Mask" in lines[number + 1]):
            continue
        for index in {"j", "j + 1", "j + 2", "0"} - {guard[2]}:
            if index.startswith("j") and said.startswith("if 0 < blocks"):
                continue
            put(number, [GUARD.sub(rf"\1[q_block, {index}]", line)], f"by block {index}")
        put(number, [line.replace("q_block", "q_block + 1")], "by the next rows' element")
        if said.startswith("if"):
            put(number, [line.replace("!= 0", "== 0").replace("> 0", "== 0")], "the other way")
            put(number, [re.sub(r"if .*", "if 0 < 1", line)], "always")
    return made


def all_are_refused() -> bool:
    fine, tried = True, 0
    for path in TEXTS:
        text = path.read_text()
        # One `if` for all of a block: by another element it is another program, not a hazard.
        is_alone = len(GUARD.findall(re.sub(r"(?m)^Input.*$", "", text))) == 1
        if said := check(text):
            fine = False
            print(f"{path.name} is right, and refused:\n{said}")
        broken = [m for m in mutants(text) if not (is_alone and "without" not in m[0])]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (what, _), said in zip(broken, pool.map(lambda m: check(m[1]), broken)):
                tried += 1
                if not said:
                    fine = False
                    print(f"{path.name}, {what}: passes")
    print(f"{len(TEXTS)} texts, {tried} mutants")
    return fine and tried > 100


def all_are_right() -> bool:
    fine, cases = True, ",".join(map(str, sampled(range(8, 23))))
    for path in TEXTS:
        own = FOLDER / f"sketch_of_{path.stem}.tl"
        sketch = own if own.exists() else FOLDER / "sketch.tl"
        for machine in ("interpreter", "emulator"):
            done = subprocess.run([FLASHTL, "verify", path, "--against", sketch, "--on", machine,
                                   "--case", cases], capture_output=True, text=True)
            if machine == "emulator" and done.returncode == 3:
                print(done.stderr)
                sys.exit(77)
            if done.returncode:
                fine = False
                print(f"{path.name} on the {machine}:\n{done.stdout}{done.stderr}")
    return fine


sys.exit(0 if (all_are_right() if "--programs" in sys.argv else all_are_refused()) else 1)
