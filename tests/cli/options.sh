# Values that no option can have, names that nothing has, the same thing said twice, and options that
# would be ignored: one sentence each, and nothing printed.
try() {
    echo "\$ flashtl $*"
    flashtl "$@" > output 2> said
    status=$?
    sed -e 's/\(the decisions warps\), .*/\1, .../' said
    echo "-> $status"
    if test -s output; then echo "something was printed"; fi
}
flashtl sketch gqa > gqa.tl
flashtl reason gqa.tl --gpu t4 --head-dim 64 > gqa_t4.tl
flashtl translate gqa_t4.tl > gqa.cu
flashtl translate gqa_t4.tl --plan > gqa.json

echo '# --let, of a sketch: by the reasoner, the interpreter and the emulator alike'
try reason gqa.tl --gpu t4 --head-dim 64 --let BNN=32
try build gqa.tl --gpu t4 --head-dim 64 --let BNN=32
try verify gqa.tl --head-dim 64 --let BNN=32
try verify gqa.tl --gpu t4 --head-dim 64 --let BNN=32
try run gqa.tl --let scale=1 --let length=3
try reason gqa.tl --gpu t4 --head-dim 64 --let BN=32,BN=64
try verify gqa.tl --head-dim 64 --let d=128
try verify gqa.tl --head-dim 64 --let BN=1e300
try reason gqa.tl --gpu t4 --head-dim 64 --let BN=-16
try reason gqa.tl --gpu t4 --head-dim 64 --let warps=1.5
echo '# names that no length can have: words of the language, tiles, loops, no names at all'
for name in for end kernel L f16 Q S j q exp attention BN/2 'B N' 1 x.y; do
    for command in "reason gqa.tl --gpu t4" "verify gqa.tl --shapes 1x1" "build gqa.tl --gpu t4 -o k" "run gqa.tl --let scale=1"; do
        flashtl $command --head-dim 64 --let "$name=2" > output 2> said
        status=$?
        if ! grep -q "has no length.* '$name'" said || test $status -ne 2; then
            echo "$command --let $name=2: $status"; cat said
        fi
    done
done
try reason gqa.tl --gpu t4 --head-dim 64 --let wraps=4
try reason gqa.tl --gpu t4 --head-dim 64 --let kv_heds=4
echo '# of TL Code, in which all is decided but lengths'
try verify gqa_t4.tl --let BN=32
try verify gqa_t4.tl --head-dim 128
try verify gqa_t4.tl --let warps=8
try explain gqa_t4.tl --let q_len=100 --let BM=16
echo '# of a kernel'
try emulate gqa.cu --plan gqa.json --let q_length=3
try emulate gqa.cu --plan gqa.json --let q_len=-3
try emulate gqa.cu --plan gqa.json --let q_len=2.5
try emulate gqa.cu --plan gqa.json --let q_len=3,q_len=5
try emulate gqa.cu --plan gqa.json --out P=p.npy
try emulate gqa.cu --plan gqa.json --out O=a.npy --out O=b.npy
echo '# GPUs'
try check gqa.tl --gpu t5
try check gqa_t4.tl --gpu t4,a100
try translate gqa_t4.tl --gpu t4,a100
try build gqa.tl --head-dim 64 --gpu t4,t4
try build gqa.tl --head-dim 64 --gpu t4,t5
try reason gqa.tl --head-dim 64 --gpu t4,,a100
echo '# measured decisions, and values of a list'
printf 'hello\n' > junk.tuned
printf 'problem attention 0123456789abcdef f16 d=64 dv=64\n  pins BN=much\n' > pins.tuned
printf '  pins BN=64\n' > order.tuned
printf '# nothing\nproblem attention 0123456789abcdef f16 d=64 dv=64 # --op mha\n  pins BN=64\n  measured 1.0 TFLOPS\n' > other.tuned
for file in junk.tuned pins.tuned order.tuned gqa.tl nome; do
    try reason gqa.tl --gpu t4 --head-dim 64 --measured $file
    try verify gqa.tl --head-dim 64 --shapes 1x1 --measured $file
done
flashtl reason gqa.tl --gpu t4 --head-dim 64 --measured other.tuned > output; cmp output gqa_t4.tl
for command in reason verify build run bench tune think evaluate; do try $command --dtype f8; done
try evaluate --list --dtype f8
try translate --to ptx gqa_t4.tl
try verify --on cpu gqa.tl
try bench --against nvidia
echo '# what is timed'
try bench --op gqa --head-dim 64 --lengths 0
try bench --op gqa --head-dim 64 --heads 3:2
try bench --op gqa --head-dim 64 --batch x
try bench --rounds 1000
echo '# what would be ignored'
try sketch gqa --answers 3
try reason gqa.tl --gpu t4 --head-dim 64 --record r.jsonl
try translate gqa_t4.tl --no-stream
try fmt --in-place --output other.tl gqa.tl
try help sketch check
try cache --cache ''
