#!/bin/sh
# lost_keys.sh FLASHTL: a kernel of 8-bit weights that leaves one block of keys out is refused.
set -eu
flashtl=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$flashtl" sketch nsa_selected >"$folder/sketch.tl"
"$flashtl" reason "$folder/sketch.tl" --gpu l40s --head-dim 64 --dtype e4m3 |
    sed 's/\(Mask S .*\)$/\1 or s >= keys - BN/' >"$folder/lost.tl"
grep -q 'or s >= keys - BN' "$folder/lost.tl"
if "$flashtl" verify "$folder/lost.tl" --against "$folder/sketch.tl" --gpu l40s --on interpreter --case 6 >"$folder/said"; then
    cat "$folder/said"
    exit 1
fi
grep -q 'O_chosen: .*noise' "$folder/said"
