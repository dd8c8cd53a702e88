#!/bin/sh
# Runs clang-tidy by .clang-tidy: tidy.sh BUILD [--all | FILE...]. Without files: those that differ from the branch
# 'main' or, on it, those of the last commit. --all: the whole of src (minutes).
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
if ! command -v clang-tidy > /dev/null 2>&1; then
    echo "tidy: skipped, clang-tidy is not here"
    exit 0
fi
if ! clang-tidy --list-checks 2> /dev/null | grep -q readability-function-size; then
    echo "tidy: .clang-tidy cannot be read"
    exit 1
fi
if [ "${1:-}" = --all ]; then
    files=$(git ls-files 'src/*.c')
elif [ $# -gt 0 ]; then
    files=$*
else
    base=$(git merge-base HEAD main 2> /dev/null || git rev-parse HEAD)
    [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
    files=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.c')
fi
[ -n "$files" ] || { echo "tidy: no source differs"; exit 0; }
# One process a file: clang-tidy's checks keep state from one file to the next.
echo "$files" | tr ' ' '\n' | xargs -n 1 -P "${JOBS:-$(nproc 2> /dev/null || echo 2)}" clang-tidy -p "$build" --quiet 2> /dev/null
echo "tidy: $(echo "$files" | wc -w) files are clean"
