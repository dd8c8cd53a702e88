#!/bin/sh
# Every check this machine can run: layers, links and words of the documents, format, two compilers with all warnings as errors, clang-tidy
# over what differs, fuzzing, the tests under sanitizers, and all tests: CTest's summary is last.
#   tools/test.sh [--all]
# gcc's build runs all tests; of long lists of kernels that are compiled and run, each KERNELS-th. Sanitizers make tests five to ten
# times slower and look at code, which tests share: they are shown a sample (see `sampled` below). With --all (`make test-all`) nothing
# is left out, and fuzzers run three minutes each.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
is_all=false
KERNELS=8 # tests/sampling.py, tests/cli/sampling.inc
[ "${1:-}" != --all ] || is_all=true

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

total() { # FOLDER OPTION...: so many tests
    folder=$1
    shift
    ctest --test-dir "$folder" -N "$@" | sed -n 's/^Total Tests: //p'
}

counted() { # FOLDER: what tests took of their lists
    sed -n 's/^sample: \([0-9]*\) of \([0-9]*\) cases$/\1 \2/p' "$1/Testing/Temporary/LastTest.log" |
        awk '{ taken += $1; seen += $2 } END { print taken + 0 " of " seen + 0 " cases" }'
}

sampled() { # FOLDER: the rule, and what comes of it
    folder=$1
    if $is_all; then
        ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error
        return
    fi
    every=$(sed -n 's/^set(FLASHTL_SAMPLE \([0-9]*\))$/\1/p' tests/CMakeLists.txt)
    echo "of $(total "$folder") tests: without the $(total "$folder" -L slow) labelled slow (minutes here)," \
        "without the $(total "$folder" -L script -LE slow) labelled script (of Python alone);" \
        "of lists of like cases each ${every}th test (without $(total "$folder" -L rest -LE 'slow|script'), labelled rest);" \
        "in tests that go over many programs each ${every}th of them. gcc's build runs these tests; make test-all: all, here, too."
    FLASHTL_SAMPLE=$every ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error -LE 'slow|rest|script'
    echo "of many programs: $(counted "$folder")"
}

step 'layers, links and words'
python3 tools/layers.py
python3 tools/links.py
python3 tools/words.py

step 'format'
if command -v clang-format > /dev/null 2>&1; then
    tools/format.sh --check
else
    echo 'skipped: clang-format is not here'
fi

step 'clang, address and undefined-behaviour sanitizers'
python=$(tools/python.sh)
build build-asan -DFLASHTL_PYTHON="$python" -DCMAKE_C_COMPILER=clang -DFLASHTL_SANITIZE=address,undefined -DFLASHTL_FUZZ=ON \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -gline-tables-only -DNDEBUG"
sampled build-asan

step 'clang-tidy over what differs'
JOBS=$jobs tools/tidy.sh build-asan

step 'fuzzing'
if $is_all; then seconds=180; else seconds=6; fi
JOBS=$jobs tools/fuzz.sh $seconds build-asan

step 'gcc'
# The package of Python is built of the same sources with the same options: ccache, where it is here, compiles those once.
launcher=$(command -v ccache || true)
build build-test -DFLASHTL_PYTHON="$python" -DCMAKE_C_COMPILER=gcc "-DCMAKE_C_COMPILER_LAUNCHER=$launcher"
step 'all tests'
if ! $is_all; then
    echo "of long lists of kernels that are compiled and run each ${KERNELS}th; make test-all: all of them."
    export FLASHTL_KERNELS=$KERNELS
fi
ctest --test-dir build-test -j "$jobs" --output-on-failure --no-tests=error
$is_all || echo "of long lists of kernels: $(counted build-test)"
