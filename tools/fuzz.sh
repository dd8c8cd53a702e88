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
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    fuzzer=fuzzer_${name#fuzz_}
    ninja -C "$build" --quiet "$fuzzer"
    mkdir -p "$probe/$name"
    corpus=tests/fuzz/corpus/${name#fuzz_}
    [ -d "$corpus" ] || corpus=tests/fuzz/corpus/tl # a target without texts of its own reads programs
    "$build/tests/$fuzzer" -max_total_time="$seconds" -max_len=4096 -timeout=20 -verbosity=0 \
        -artifact_prefix="$name-" "$probe/$name" $corpus tests/golden/tl examples || { echo "fuzz: $name found something"; exit 1; }
    echo "fuzz: $name, $seconds s, nothing found"
done
