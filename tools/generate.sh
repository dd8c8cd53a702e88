#!/bin/sh
# Writes the files that are made from src/*/*.def, the passes and docs: generate.sh FLASHTL [--check]
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
make_page() { # PAGE SECTION
    page=share/man/flashtl-$1.$2
    if [ "$check" = --check ]; then
        python3 tools/manual.py "$1" | cmp -s - "$page" || { echo "$page is stale: run tools/generate.sh"; stale=1; }
    else
        python3 tools/manual.py "$1" > "$page"
    fi
}
python3 tools/lists.py "$flashtl" $check || stale=1
make_page language 7
make_page gpu 5
make_file man share/man/flashtl.1
make_file bash share/completions/flashtl.bash
make_file zsh share/completions/_flashtl
make_file fish share/completions/flashtl.fish
if [ "$check" = --check ] && command -v mandoc > /dev/null 2>&1; then
    mandoc -T lint -W warning share/man/* || stale=1
fi
exit $stale
