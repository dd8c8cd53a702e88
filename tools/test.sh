#!/bin/sh
# Every check this machine can run: layers, links of the documents, format, two compilers with all warnings as errors, clang-tidy
# over what differs, the tests under sanitizers, a minute of fuzzing, and all tests: CTest's summary is last.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}

step() { printf '\n== %s\n' "$1"; }

build() { # FOLDER OPTION...
    folder=$1
    shift
    cmake -S . -B "$folder" -G Ninja -DFLASHTL_WERROR=ON "$@" > "$folder.log" 2>&1 || {
        cat "$folder.log"
        exit 1
    }
    rm -f "$folder.log"
    ninja -C "$folder" -j "$jobs" --quiet
}

step 'layers and links'
python3 tools/layers.py
python3 tools/links.py

step 'format'
if command -v clang-format > /dev/null 2>&1; then
    tools/format.sh --check
else
    echo 'skipped: clang-format is not here'
fi

step 'clang, address and undefined-behaviour sanitizers'
python=$(tools/python.sh)
build build-asan -DFLASHTL_PYTHON="$python" -DCMAKE_C_COMPILER=clang -DFLASHTL_SANITIZE=address,undefined -DFLASHTL_FUZZ=ON \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo
ctest --test-dir build-asan -j "$jobs" --output-on-failure --no-tests=error -LE slow

step 'clang-tidy over what differs'
JOBS=$jobs tools/tidy.sh build-asan

step 'fuzzing'
tools/fuzz.sh 20 build-asan

step 'gcc'
build build-test -DFLASHTL_PYTHON="$python" -DCMAKE_C_COMPILER=gcc
step 'all tests'
ctest --test-dir build-test -j "$jobs" --output-on-failure --no-tests=error
