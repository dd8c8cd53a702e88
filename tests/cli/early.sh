# Kernels that begin while those before them end: which do, how that is pinned, and that the emulator sees a wait that is
# missing or late.
flashtl reason --op decode --head-dim 64 --gpu h200 -o decode.tl && grep '^grid' decode.tl
flashtl reason --op decode --head-dim 64 --gpu h200 --let early=0 | grep '^grid'
flashtl reason --op gqa --head-dim 64 --gpu rtx-5090 --let early=1 | grep '^grid'
flashtl reason --op decode --head-dim 64 --gpu l40s --let early=1 | grep '^grid'
flashtl explain --op decode --head-dim 64 --gpu h200 | grep -A 2 '^  early'
sed 's/for h200/for a100/' decode.tl > a100.tl; flashtl check a100.tl

# Kernels that let the next one's blocks be placed: which do, how that is pinned, and where they say it.
flashtl reason --op decode --head-dim 64 --gpu h200 --let yielding=0 | grep '^grid'
flashtl reason --op gqa --head-dim 64 --gpu rtx-5090 --let yielding=1 | grep '^grid'
flashtl explain --op decode --head-dim 64 --gpu h200 | grep -A 2 '^  yielding'
flashtl translate decode.tl | grep -A 1 'ftl_let_next_begin();'
flashtl reason --op gqa --causal --head-dim 128 --gpu h200 | sed 's/^grid dynamic/grid dynamic yielding/' > gqa.tl; flashtl translate gqa.tl | tail -1

flashtl build --op decode --head-dim 64 --gpu h200 --no-compile --no-verify --name k > /dev/null 2>&1
grep -h -A 1 'waits for earlier' k_decode.h k_combine.h
judge() { # what was done, text, plan
    flashtl emulate $2 --plan $3 --let batch=1,q_heads=2,q_len=1,splits=3 > report 2>&1
    echo "$1: status $?, $(grep -c 'before griddepcontrol.wait' report) findings"
    sed -n 's/^[^:]*:[0-9]*: error: .*ended: \([a-z.]*\) by .*/    \1/p' report | sort -u
}
judge "as it is" k_combine.cu k_combine.json
sed '/^    ftl_wait_for_grids();$/d' k_combine.cu > without.cu
judge "without its wait" without.cu k_combine.json
awk '/^    ftl_wait_for_grids\(\);$/ { next } /from register to global/ { print "    ftl_wait_for_grids();" } { print }' k_combine.cu > late.cu
judge "waiting before the results" late.cu k_combine.json
sed 's/,"is_early":true//' k_combine.json > plain.json
judge "launched as any other" without.cu plain.json

# A table that is read before the tile is known, blocks that leave, and blocks that walk tiles.
cat > first.tl <<'P2'
kernel first
Input  lens i32 (i in count)
Input  X (row in rows, d)
Output Y (row in rows, d)
let n = lens[0]
Copy X from global to register
Compute Mask X, 0 where row >= n
Copy X from register to global and get Y
P2
flashtl verify first.tl --gpu h200 --dtype f16 --let d=64,early=1 --on emulator --case 0..2 > report 2>&1; echo "first: status $?"
flashtl verify --op varlen --causal --gpu h200 --head-dim 64 --let early=1 --on emulator --case 3,5 > report 2>&1; echo "varlen: status $?"
flashtl verify --op gqa --causal --gpu h200 --head-dim 64 --let early=1 --on emulator --shapes 49x80 > report 2>&1; echo "gqa: status $?"
flashtl reason first.tl --gpu h200 --dtype f16 --let d=64,early=1 | flashtl translate | sed -n '/^first(/,/const int row/p'
