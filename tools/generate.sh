#!/bin/sh
# Writes the files that are made from src/*/*.def, the passes and docs: generate.sh FLASHTL [--check]
# With --check, says which of them are stale instead and fails.
set -eu
flashtl=$1
check=${2:-}
cd "$(dirname "$0")/.."
stale=0
made=$(mktemp)
trap 'rm -f "$made"' EXIT
make_file() { # FILE COMMAND...: what the command prints, in a file that is touched only once all of it is there
    file=$1
    shift
    "$@" > "$made"
    cmp -s "$made" "$file" && return
    if [ "$check" = --check ]; then
        echo "$file is stale: run tools/generate.sh"
        stale=1
    else
        cat "$made" > "$file"
    fi
}
python3 tools/lists.py "$flashtl" $check || stale=1
make_file share/man/flashtl-language.7 python3 tools/manual.py language
make_file share/man/flashtl-gpu.5 python3 tools/manual.py gpu
make_file share/man/flashtl.1 "$flashtl" help --form man
make_file share/completions/flashtl.bash "$flashtl" help --form bash
make_file share/completions/_flashtl "$flashtl" help --form zsh
make_file share/completions/flashtl.fish "$flashtl" help --form fish
if [ "$check" = --check ] && command -v mandoc > /dev/null 2>&1; then
    mandoc -T lint -W warning share/man/* || stale=1
fi
exit $stale
