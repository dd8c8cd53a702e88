#!/bin/sh
# Writes src/verify/shipped.def, the kernels that ship; verifies on the emulator what it did not hold: shipped.sh BUILD_FOLDER
set -eu
build=${1:-build}
cd "$(dirname "$0")/.."
table=src/verify/shipped.def
"$build"/tests/shipped --write > "$table.$$" || { rm -f "$table.$$"; exit 1; }
mv "$table.$$" "$table"
cmake --build "$build" --target shipped > /dev/null
"$build"/tests/shipped
