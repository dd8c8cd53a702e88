# A kernel with all checks, as made; the same with a barrier taken out; and what cannot be run.
flashtl reason --op mha --causal --gpu t4 --head-dim 16 -o code.tl
flashtl translate code.tl > kernel.cu
flashtl translate --plan code.tl > plan.json
count() { sed -n 's/^\([0-9]*\) findings.*/\1 findings/p'; }
flashtl emulate kernel.cu --plan plan.json --let scale=0.25 | count
flashtl emulate kernel.cu --plan plan.json --let scale=0.25 --let q_len=130 --let kv_len=70 | count
awk '/ftl_block_barrier\(\);/ && !done && ++seen == 2 { done = 1; next } { print }' kernel.cu > racy.cu
cmp -s kernel.cu racy.cu && echo "no barrier was taken out"
flashtl emulate racy.cu --plan plan.json --let scale=0.25 > report; echo "-> $?"
grep -o 'race: [a-z ]*' report | sort -u | head -1
FLASHTL_NVRTC= flashtl emulate kernel.cu --plan plan.json --let scale=0.25 | count
flashtl emulate kernel.cu; echo "-> $?"
flashtl emulate kernel.cu --plan kernel.cu; echo "-> $?"
flashtl emulate kernel.cu --plan plan.json --let kv_heads=3; echo "-> $?"
flashtl emulate none.cu --plan plan.json; echo "-> $?"
echo 'not PTX' > text.ptx
flashtl emulate text.ptx --plan plan.json > output 2>&1; echo "-> $?"
