#!/bin/sh
# Fuzzes every target for a while: fuzz.sh [SECONDS_EACH]. Needs clang with libFuzzer.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20}
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 1u << 30; }' > "$probe/probe.c"
if ! clang -fsanitize=fuzzer "$probe/probe.c" -o "$probe/probe" > /dev/null 2>&1; then
    echo "fuzz: skipped, there is no clang with libFuzzer"
    exit 0
fi
cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DFLASHTL_FUZZ=ON \
    -DFLASHTL_SANITIZE=fuzzer-no-link,address,undefined > /dev/null
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    ninja -C build-fuzz --quiet "$name"
    mkdir -p "$probe/$name"
    corpus=tests/fuzz/corpus/${name#fuzz_}
    [ -d "$corpus" ] || corpus=tests/fuzz/corpus/tl # a target without texts of its own reads programs
    "build-fuzz/tests/$name" -max_total_time="$seconds" -max_len=4096 -timeout=20 -verbosity=0 \
        -artifact_prefix="$name-" "$probe/$name" $corpus tests/golden/tl || { echo "fuzz: $name found something"; exit 1; }
    echo "fuzz: $name, $seconds s, nothing found"
done
