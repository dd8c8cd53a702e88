# Texts and pins that ended commands by a signal, and their kind, through every command that reads a program: a
# diagnostic or a result, never a signal, never a fault of our own. Sanitizers see the numbers that are too large.
flashtl sketch gqa --causal > open.tl
sed 's/^let group.*/let d = 64, dv = 64\n&/' open.tl > right.tl
flashtl reason right.tl --gpu t4 > code.tl
python3 - <<'P'
import npy
for n in "qkv":
    npy.write(n + ".npy", (1, 1, 3, 64), [0.5] * 192, "f2")
P
# Says what is no diagnostic (0, 1 and 2 are; 3 says that the world failed, which it did not), and counts.
try() { # file, option
    for command in check "reason --gpu t4" "reason --gpu h200" "explain --gpu a100" "translate --gpu t4" "build --gpu t4 --no-verify --no-compile -o k" \
        "verify --shapes 1x1,3x5 --seconds 1" "run --on interpreter --let scale=1 --in Q=q.npy,K=k.npy,V=v.npy"; do
        case "$command $2" in check*--let* | translate*--let*) continue ;; esac
        flashtl $command $1 $2 > said 2>&1 < /dev/null
        status=$?
        echo $status >> statuses
        if [ $status -gt 2 ] || grep -q 'runtime error:\|Sanitizer' said; then echo "flashtl $command $1 $2: status $status"; tail -n 5 said; fi
    done
}
# What the reasoner says of it, beside that.
text() { # file, option
    try "$1" "$2"
    flashtl reason $1 $2 --gpu t4 2>&1 > /dev/null | head -n 1
}
change() { # name, by
    sed "$2" right.tl > "$1.tl"
    cmp -s right.tl "$1.tl" && echo "$1: nothing was changed"
    try "$1.tl"
}
told() { change "$@"; flashtl reason "$1.tl" --gpu t4 2>&1 > /dev/null | head -n 1; }

echo 'kernel a' > empty.tl
text empty.tl
text empty.tl '--let d=64'
for pin in group=0 BN=0 BM=0 d=0 dv=0 q_heads=0 kv_heads=0 BN=9223372036854775807 d=9223372036854775807 \
    q_len=9223372036854775807 kv_len=4611686018427387904 batch=4611686018427387904; do
    try open.tl "--let $pin --let dv=64"
done
text open.tl '--let group=0'
told product 's/GEMM S, V/GEMM S*2, V/'
told product_right 's/GEMM Q, K.T/GEMM Q, (K*2).T/'
told quotient 's|0:kv_len/BN|0:kv_len/0|'
told remainder 's/where kv > q + kv_len - q_len/where kv % 0 == 1/'
told constant 's|^let group.*|let none = 8 - 8\nlet group = q_heads/none|'
told late 's/^Copy O from.*/Compute RowSum S and get s\n&/'
told inside 's/^\( *\)Copy K from/\1Input  w f32 (kv in kv_len)\n&/'
told named 's/and get S/and get L/'
for number in 9223372036854775807 99999999999999999999 1e300; do
    change "scaled$number" "s/Multiply S, scale/Multiply S, scale*$number/"
    change "masked$number" "s/kv > q + kv_len - q_len/kv*$number > q*$number + $number/"
    change "walked$number" "s|0:kv_len/BN|0:min(kv_len*$number, $number)/BN|"
    change "viewed$number" "s|^Output.*|&\nlet K2 (b in batch, h in kv_heads; kv in kv_len, d) = K[b, h, kv*$number + $number, d]|; s/Copy K from/Copy K2 from/; s/, K.T/, K2.T/"
    change "defined$number" "s|^let group.*|let huge = $number*$number + $number, group = q_heads/huge*kv_heads|"
done
coded() { # name, by
    sed "$2" code.tl > "$1.tl"
    cmp -s code.tl "$1.tl" && echo "$1: nothing was changed"
    try "$1.tl"
}
for number in 0 9223372036854775807 1e300; do
    coded "sized$number" "s/^let d = 64/&, far = $number/; s/coordinate \[b, /coordinate [b + far*far, /"
    coded "blocks$number" "s/BN = [0-9]*/BN = $number/"
    coded "warps$number" "s/with [0-9]* warps/with $number warps/"
    coded "bounds$number" "s,^let full .*,let full = floor(min(kv_len*$number\, q_block*BM*$number + offset + $number)/BN),"
    coded "swizzled$number" "s/swizzled [0-9]*/swizzled $number stages $number/"
done
grep -c . statuses
# A walk of which the last tile's masks look at the tile that follows.
flashtl reason --op mha --softcap 20 --head-dim 64 --gpu h200 | sed 's/^let blocks = max(1, /let blocks = min(1, /' > walk.tl
flashtl check walk.tl 2>&1 | grep -o 'error: .*'
