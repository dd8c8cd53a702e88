#!/bin/sh
# Formats the C sources by .clang-format; with --check says which are not and fails. Tables (.def)
# and data are laid out by hand.
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files 'src/*.c' 'src/*.h' 'include/*.h' 'tests/*.c' 'tests/*.h')
if [ "${1:-}" != --check ]; then
    clang-format -i $files
    exit 0
fi
bad=
for file in $files; do
    clang-format "$file" | cmp -s - "$file" || bad="$bad $file"
done
[ -z "$bad" ] && { echo "format: all files are formatted"; exit 0; }
echo "format: run tools/format.sh; not formatted:$bad"
exit 1
