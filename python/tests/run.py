#!/usr/bin/env python3
"""Builds the package as `pip install .` does and runs the tests of this folder on it, in a fresh virtual environment.

    run.py wheel SOURCE WORK             builds the wheel, looks at it, makes WORK/env with it and NumPy alone
    run.py tests SOURCE WORK NAME...     runs these test files in WORK/env; WORK/env's Python sees nothing of SOURCE
    run.py torch SOURCE WORK PYTHON      runs test_torch.py with PYTHON, if it has PyTorch, on the package of WORK/env

Exit status 77: skipped, and why."""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

BYTES_MOST = 3_000_000
TOOLS, PACKAGES = ["scikit-build-core>=0.10"], ["numpy", "ml_dtypes"]


def run(*command, **named):
    return subprocess.run([str(part) for part in command], check=True, **named)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def environment(folder, packages):
    """A fresh virtual environment with these packages, of the registry."""
    shutil.rmtree(folder, ignore_errors=True)
    if sys.version_info < (3, 9):
        skip("the package is for Python 3.9 and later")
    made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
    if made.returncode:
        skip(f"cannot make a virtual environment: {(made.stdout + made.stderr).strip().splitlines()[:1]}")
    made = subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
                          capture_output=True, text=True)
    if made.returncode:
        skip(f"cannot install {', '.join(packages)}: {made.stderr.strip().splitlines()[-1:]}")
    return folder / "bin/python"


def check(wheel):
    """One small file for every Python, with everything in it and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    size = wheel.stat().st_size
    folders = {name.split("/")[0] for name in names}
    problems = [f"{size} bytes; at most {BYTES_MOST}"] if size > BYTES_MOST else []
    problems += [] if wheel.name.split("-")[2:4] == ["py3", "none"] else [f"it is called {wheel.name}"]
    problems += [] if len(folders) == 2 else [f"it holds {folders}"]
    problems += [f"{name} is missing" for name in ("flashtl/libflashtl.so", "flashtl/bin/flashtl") if name not in names]
    problems += [f"{name} does not belong there" for name in names if name.endswith((".c", ".h", ".pyc", ".so.0.1"))]
    problems += [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "numpy" not in line and "extra" not in line]
    if problems:
        sys.exit("the wheel: " + "; ".join(problems))
    print(f"{wheel.name}: {size} bytes")


def build(source, work):
    work.mkdir(parents=True, exist_ok=True)
    for old in work.glob("*.whl"):
        old.unlink()
    shutil.rmtree(work / "env", ignore_errors=True)
    tools = environment(work / "tools", TOOLS)
    # The folder of objects stays from run to run, as build-test does.
    named = dict(os.environ)
    if shutil.which("ccache"):
        named.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
    named["PATH"] = f"{tools.parent}:{named['PATH']}"
    run(tools, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", source, "-w", work, "--no-deps", "--no-build-isolation",
        "-C", f"build-dir={work / 'build'}", env=named)
    wheel, = work.glob("*.whl")
    check(wheel)
    python = environment(work / "env", PACKAGES)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", wheel)


def tests(python, source, work, names, **variables):
    """The tests are copied beside nothing of the source, and run from there."""
    if not python.exists():
        skip("the package was not built: python_wheel says why")
    folder = work / "-".join(["tests", *names])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "python/tests", folder, ignore=shutil.ignore_patterns("__pycache__"))
    named = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    named.update(FLASHTL_SOURCE=str(source), FLASHTL_CACHE="", PYTHONDONTWRITEBYTECODE="1", **variables)
    print("with", subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip(), flush=True)
    done = subprocess.run([python, "-W", "error::ResourceWarning", "-m", "unittest", *names], cwd=folder, env=named)
    sys.exit(done.returncode)


def torch(source, work, python):
    if not list(work.glob("*.whl")):
        skip("the package was not built: python_wheel says why")
    found = subprocess.run([python, "-c", "import torch, numpy; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode:
        skip(f"{python} has no PyTorch: {found.stderr.strip().splitlines()[-1:]}")
    print("PyTorch", found.stdout.strip())
    target = work / "beside"  # the package alone, for a Python that is not ours
    shutil.rmtree(target, ignore_errors=True)
    wheel, = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    (target / "flashtl/bin/flashtl").chmod(0o755)
    tests(pathlib.Path(python), source, work, ["test_torch"], PYTHONPATH=str(target))


what, source, work, *rest = sys.argv[1:]
source, work = pathlib.Path(source).resolve(), pathlib.Path(work).resolve()
if what == "wheel":
    build(source, work)
elif what == "tests":
    tests(work / "env/bin/python", source, work, rest)
elif what == "torch":
    torch(source, work, rest[0])
else:
    sys.exit(f"run.py: there is no '{what}'")
