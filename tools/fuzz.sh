#!/bin/sh
# Fuzzes every target for a while: fuzz.sh [SECONDS_EACH [BUILD]]. BUILD is a folder that was configured with
# -DFLASHTL_FUZZ=ON; build-asan is made so where it is not there. Needs clang with libFuzzer.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20}
build=${2:-build-asan}
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 1u << 30; }' > "$probe/probe.c"
if ! clang -fsanitize=fuzzer "$probe/probe.c" -o "$probe/probe" > /dev/null 2>&1; then
    echo "fuzz: skipped, there is no clang with libFuzzer"
    exit 0
fi
[ -e "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang \
    -DFLASHTL_FUZZ=ON -DFLASHTL_SANITIZE=address,undefined > /dev/null
targets=$(for source in tests/fuzz/fuzz_*.c; do basename "$source" .c | sed 's/^fuzz_//'; done)
ninja -C "$build" --quiet $(printf 'fuzzer_%s ' $targets)
# A limit for one input ends what hangs: on a loaded machine the wall's clock says nothing of slowness.
one='mkdir "$0/$1" && corpus=tests/fuzz/corpus/$1
[ -d "$corpus" ] || corpus=tests/fuzz/corpus/tl # a target without texts of its own reads programs
"$3/tests/fuzzer_$1" -max_total_time="$2" -max_len=4096 -timeout=1200 -verbosity=0 -artifact_prefix="fuzz_$1-" \
    "$0/$1" "$corpus" tests/golden/tl examples || { echo "fuzz: $1 found something"; exit 1; }
echo "fuzz: $1, $2 s, nothing found"'
printf '%s\n' $targets | xargs -P "${JOBS:-$(nproc 2> /dev/null || echo 2)}" -I TARGET sh -c "$one" "$probe" TARGET "$seconds" "$build"
