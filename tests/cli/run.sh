#!/bin/sh
# Runs a test of the command: run.sh TEST.sh FLASHTL [FAKE_CUDA FAKE_NVRTC] [--update]
# The script runs in an empty folder with flashtl in PATH and no cache; what it prints, on both
# outputs, and its exit status must be TEST.out's text and last line. --update writes that file.
# A test that cannot run here writes the reason to ../skipped; one that takes a sample of its cases says so by sampling.inc.
set -u
case " $* " in *" --update "*) unset FLASHTL_KERNELS ;; esac
test=$(realpath "$1")
flashtl=$(realpath "$2")
expected=${test%.sh}.out
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export FLASHTL_CACHE= NO_COLOR=1 LC_ALL=C HOME="$work"
export FLASHTL_CUDA=/no/such/libcuda.so.1
FAKE_CUDA_LIBRARY=$(realpath -m "${3:-none}")
FAKE_NVRTC_LIBRARY=$(realpath -m "${4:-none}")
export FAKE_CUDA_LIBRARY FAKE_NVRTC_LIBRARY
tests=$(dirname "$test")
export TESTS="$tests" PYTHONPATH="$tests" PYTHONDONTWRITEBYTECODE=1
PATH=$(dirname "$flashtl"):$PATH
export PATH
mkdir "$work/empty"
cd "$work/empty" || exit 1
sh "$test" > "$work/actual" 2>&1
status=$?
# How far a build is depends on how busy the machine is.
sed -i '/^flashtl: [0-9]* of [0-9]* GPUs\{0,1\} built, /d' "$work/actual"
echo "exit status $status" >> "$work/actual"
if [ -f "$work/skipped" ]; then
    echo "skipped: $(cat "$work/skipped")"
    exit 77
fi
for argument; do
    if [ "$argument" = --update ]; then
        cp "$work/actual" "$expected"
        exit 0
    fi
done
# What was left out is as expected where such a line is: every other line must be there, in its place.
awk 'FILENAME == ARGV[1] { wanted[++count] = $0; next }
    { at++ }
    sub(/^left out: /, "") && index(wanted[at], $0) == 1 { print wanted[at]; next }
    { print }' "$expected" "$work/actual" > "$work/whole"
[ ! -f "$work/sampled" ] || cat "$work/sampled"
diff -u "$expected" "$work/whole"
