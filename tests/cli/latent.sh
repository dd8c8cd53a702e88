# Latent attention while tokens are made, by two warpgroups that take blocks of keys in turns and hand each other their weights:
# an even and an odd number of blocks, the last one ragged or not, no keys, and splits.
code="$TESTS/../golden/tl/latent_decode.tl"
flashtl sketch decode --with page_len=64 --with latent --with group=128 --with columns=512 > sketch.tl
against_sketch() {
    file=$1
    shift
    flashtl verify "$file" --against sketch.tl --head-dim 576:512 --gpu h200 --seconds 60 --let batch=1 "$@" |
        sed -e 's/; [0-9.]* s$//' | tail -1
}
against_sketch "$code" --on emulator --let splits=1 --let max_pages=3 --let pages=5 --case 0,1,4,13,15
against_sketch "$code" --on emulator --let splits=2 --let max_pages=8 --let pages=8 --case 2,5,17
against_sketch "$code" --on interpreter --let splits=2 --let max_pages=7 --let pages=9
sed 's/ f16/ bf16/g' "$code" > bf16.tl
against_sketch bf16.tl --on emulator --let splits=1 --let max_pages=4 --let pages=4 --case 0,1,15
# A page's number is read once for its three copies, and before the first of them waits for its slot.
flashtl translate "$code" > code.cu
grep -c 'const int K_number' code.cu
awk '/const int K_number_1/ { read = 1 } /even3_fill.acquire/ { print (read ? "read before" : "read after"); exit }' code.cu
# More registers than 384 threads begin with: one of the roles would wait for ever.
sed 's/1 warp, 24 registers/1 warp, 32 registers/' "$code" > greedy.tl
flashtl check greedy.tl
# Weights of the other's block without those of its maximum.
sed '0,/Wait m_odd_shared/{/Wait m_odd_shared/d}' "$code" > early.tl
flashtl check early.tl 2>&1 | grep -m 1 error:
# The reasoner makes such a kernel of the sketch, and no other: one warpgroup does not hold the sums.
flashtl reason sketch.tl --gpu h200 --head-dim 576:512 | grep '^role' | sed -e 's/ *\/\/.*//'
flashtl reason sketch.tl --gpu h200 --head-dim 576:512 --let pair=0 2>&1 | grep -c error:
flashtl explain sketch.tl --gpu h200 --head-dim 576:512 | grep -A 2 'pair (pair)'
# Where it cannot, since heads are no boxes or the loop begins later, warps make columns in blocks of the grid, as they would without.
flashtl reason --op paged_decode --with latent --with columns=512 --with page_len=64 --with group=3 --head-dim 576:512 --gpu h200 | grep -c 'role math with 1 warp '
flashtl reason --op paged_decode --with latent --with columns=512 --with page_len=64 --with group=16 --window 70 --head-dim 576:512 --gpu h200 |
    grep -c 'role math with 1 warp '
