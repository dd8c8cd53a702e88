#!/bin/sh
# Prints the Python that has the packages which some tests need (NumPy, the SDK of the Model Context
# Protocol, CUTLASS's headers): an environment in build-python, made when it is missing. Where that cannot be done it says
# why and prints the system's Python; those tests are then skipped, each with its reason.
cd "$(dirname "$0")/.."
packages='numpy mcp nvidia-cutlass'
python=build-python/bin/python3
if ! { [ -x $python ] && $python -c 'import numpy, mcp, cutlass_library' 2> /dev/null; }; then
    if ! { python3 -m venv build-python && $python -m pip install -q --disable-pip-version-check $packages; } \
        > build-python.log 2>&1; then
        echo "python: cannot install $packages, tests that need them are skipped:" \
            "$(tail -n 1 build-python.log)" >&2
        python=$(command -v python3)
    fi
    rm -f build-python.log
fi
echo "$(cd "$(dirname "$python")" && pwd)/$(basename "$python")"
