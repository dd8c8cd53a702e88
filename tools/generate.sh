#!/bin/sh
# Writes the files that are made from src/cli/*.def: generate.sh FLASHTL [--check]
# With --check, says which of them are stale instead and fails.
set -eu
flashtl=$1
check=${2:-}
cd "$(dirname "$0")/.."
stale=0
make_file() { # FORM FILE
    if [ "$check" = --check ]; then
        "$flashtl" help --form "$1" | cmp -s - "$2" || { echo "$2 is stale: run tools/generate.sh"; stale=1; }
    else
        "$flashtl" help --form "$1" > "$2"
    fi
}
make_file man share/man/flashtl.1
make_file bash share/completions/flashtl.bash
make_file zsh share/completions/_flashtl
make_file fish share/completions/flashtl.fish
exit $stale
