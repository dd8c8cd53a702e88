#!/usr/bin/env python3
"""Whether all recipes are about the version of CMakeLists.txt, and need what it needs: versions.py SOURCE."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
problems = []


def find(name, pattern, what):
    found = re.search(pattern, (source / name).read_text(), re.M)
    if not found:
        problems.append(f"{name} does not say {what}")
    return found.group(1) if found else ""


version = find("CMakeLists.txt", r"^project\(flashtl VERSION ([0-9.]+)", "the version")
minor = version.rsplit(".", 1)[0]
for name, pattern in (("debian/changelog", r"\Aflashtl \(([^)]+)\)"), ("conda/meta.yaml", r'^{% set version = "([^"]+)" %}'),
                      ("CHANGELOG.md", r"^## ([0-9.]+)$")):
    said = find(name, pattern, "a version")
    if said != version:
        problems.append(f"{name} is about {said}, CMakeLists.txt about {version}")
# The library's package is called by what its name changes with.
packages = re.findall(r"^Package: (libflashtl[0-9.]+)$", (source / "debian/control").read_text(), re.M)
files = [path.name for path in (source / "debian").glob("libflashtl[0-9]*.install")]
if packages != ["libflashtl" + minor] or files != [f"libflashtl{minor}.install"]:
    problems.append(f"the library's package in debian/ is {packages} with {files}, not libflashtl{minor}")
# What is built and run with, in pyproject.toml and in the recipe.
cmake = find("CMakeLists.txt", r"^cmake_minimum_required\(VERSION ([0-9.]+)\)", "CMake's version")
for name, pattern in (("conda/meta.yaml", r"- cmake >=([0-9.]+)$"), ("debian/control", r"cmake \(>= ([0-9.]+)\)")):
    if find(name, pattern, "CMake's version") != cmake:
        problems.append(f"{name} needs another CMake than {cmake}")
for package in ("numpy", "scikit-build-core"):
    wanted = find("pyproject.toml", rf'"{package}>=([0-9.]+)"', f"the version of {package}")
    if find("conda/meta.yaml", rf"- {package} >=([0-9.]+)$", f"the version of {package}") != wanted:
        problems.append(f"conda/meta.yaml needs another {package} than {wanted}")
print("\n".join(problems) or f"all recipes are about {version}")
sys.exit(bool(problems))
