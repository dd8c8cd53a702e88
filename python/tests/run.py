#!/usr/bin/env python3
"""Builds the package as `pip install .` does and runs the tests of this folder on it, in a fresh virtual environment.

    run.py wheel SOURCE WORK             builds the wheel, looks at it, makes WORK/env with it and NumPy alone
    run.py tests SOURCE WORK NAME...     runs these test files in WORK/env; WORK/env's Python sees nothing of SOURCE
    run.py torch SOURCE WORK PYTHON NAME   runs NAME.py with PYTHON, if that has PyTorch and what else it needs, on the package of WORK/env

Exit status 77: skipped, and why."""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

PACKAGES = ["numpy", "ml_dtypes"]


def run(*command, **named):
    return subprocess.run([str(part) for part in command], check=True, **named)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def build(source, work):
    """tools/wheel.py's wheel, in WORK/env."""
    shutil.rmtree(work / "env", ignore_errors=True)
    # Warnings are errors here, too: the options are those of gcc's build then, whose objects ccache has.
    made = subprocess.run([sys.executable, source / "tools/wheel.py", work], env={**os.environ, "SKBUILD_CMAKE_DEFINE": "FLASHTL_WERROR=ON"})
    if made.returncode:
        sys.exit(made.returncode)
    python, why = wheel.make_environment(work / "env", PACKAGES)
    if not python:
        skip(f"cannot install {why}")
    file, = work.glob("*.whl")
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", file)


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


def torch(source, work, python, name):
    if not list(work.glob("*.whl")):
        skip("the package was not built: python_wheel says why")
    needed = ", ".join(["torch", "numpy", *(library for library in ("transformers", "diffusers") if name.endswith(library))])
    found = subprocess.run([python, "-c", f"import {needed}; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode:
        skip(f"{python} does not have all of {needed}: {found.stderr.strip().splitlines()[-1:]}")
    print("PyTorch", found.stdout.strip())
    target = work / f"beside-{name}"  # the package alone, for a Python that is not ours
    shutil.rmtree(target, ignore_errors=True)
    file, = work.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(target)
    (target / "flashtl/bin/flashtl").chmod(0o755)
    tests(pathlib.Path(python), source, work, [name], PYTHONPATH=str(target), TORCHINDUCTOR_CACHE_DIR=str(work / "inductor"),
          TORCHINDUCTOR_FORCE_DISABLE_CACHES="1", HF_HUB_OFFLINE="1")


what, source, work, *rest = sys.argv[1:]
source, work = pathlib.Path(source).resolve(), pathlib.Path(work).resolve()
sys.path.insert(0, str(source / "tools"))
sys.dont_write_bytecode = True
import wheel  # noqa: E402
if what == "wheel":
    build(source, work)
elif what == "tests":
    tests(work / "env/bin/python", source, work, rest)
elif what == "torch":
    torch(source, work, *rest)
else:
    sys.exit(f"run.py: there is no '{what}'")
